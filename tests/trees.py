"""What whole trees of documentation become, checked: python3 -m tests.trees

Builds the trees that Debian's packages bring (Python's, Django's, Flask's and SQLite's documentation), each with the
command that people use, and says of each whether it keeps its promises: how many passages there are at least; that each
address and alias is an anchor of its page, as html.parser finds them, and that the text does not end before the anchor
of its address; that no passage is too long or begins with what stands in the navigation; and how well its questions are
answered with the documents profile. Ends with 1 where one is not kept, and with 2 where a tree is not there.
"""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import NamedTuple

from retrieval import MOST_BYTES, MOST_WORDS, Index, Passage
from tests.benchmark_retrieval import judged
from tests.support import ROOT


class Tree(NamedTuple):
    """A tree, what it must give at least, and what only its navigation says."""

    folder: str
    version: str
    passages: int
    questions: str
    ndcg: float
    hit: float
    navigation: tuple[str, ...]


SPHINX = ("Previous topic", "Next topic", "This Page", "Report a Bug", "Show Source", "Quick search", "¶")
TREES = [
    Tree("/usr/share/doc/python3.11/html", "3.11", 15_000, "python.json", 0.55, 0.78, SPHINX),
    Tree("/usr/share/doc/python-django-doc/html", "3.2", 9_000, "django.json", 0.53, 0.70, SPHINX),
    Tree("/usr/share/doc/python-flask-doc/html", "2.2", 1_100, "flask.json", 0.62, 0.78, SPHINX),
    Tree("/usr/share/doc/sqlite3", "3.40", 8_000, "sqlite-everyday.json", 0.27, 0.60, ("Small. Fast.", "hide search")),
]


class Anchors(HTMLParser):
    """Collects all anchors of a page, and the letters and digits of its text, to tell what stands after an anchor."""

    def __init__(self) -> None:
        super().__init__()
        self.found, self.text = {"": 0}, ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (name, tag) == ("name", "a"):
                self.found.setdefault((value or "").strip(), len(self.text))

    def handle_data(self, data: str) -> None:
        self.text += letters(data)


def letters(text: str) -> str:
    """The letters and digits of a text, which no reader changes."""
    return re.sub("[^A-Za-z0-9]", "", text)


def page_of(path: str) -> Anchors:
    """The anchors of a page."""
    with open(path, encoding="utf-8", errors="replace") as file:
        page = Anchors()
        page.feed(file.read())
        return page


def broken(tree: Tree, passages: list[Passage]) -> Iterator[str]:
    """Of each passage that is not as promised, what is wrong."""
    page_at = functools.cache(lambda name: page_of(os.path.join(tree.folder, name)))
    for at in passages:
        for number, place in enumerate((at.url.removeprefix("file:"), *at.aliases)):
            name, _, anchor = (urllib.parse.unquote(part) for part in place.partition("#"))
            if name.endswith(".txt"):  # a text has lines, not anchors
                continue
            page = page_at(name)
            if anchor not in page.found:
                yield f"{at.source_id}: no anchor {anchor!r} in {name}"
            elif number == 0:
                whole, line = letters(at.text), letters(at.text.split("\n")[0])
                if line[:40] not in page.text[max(0, page.found[anchor] - len(whole) + 1):]:
                    yield f"{at.source_id}: its text stands before its anchor: {at.text[:60]!r}"
        if len(at.text.split()) > MOST_WORDS or len(at.text.encode("utf-8")) > MOST_BYTES or not at.text.strip():
            yield f"{at.source_id}: {len(at.text.split())} words, {len(at.text.encode('utf-8'))} bytes"
        yield from (f"{at.source_id}: holds {words!r}" for words in tree.navigation if at.text.startswith(words))


def checked(tree: Tree, out: str) -> Iterator[str]:
    """What is wrong with the snapshot of a tree; prints its figures."""
    command = [sys.executable, "run.py", "build", tree.folder, "--version", tree.version, "-o", out]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    index = Index.open(out)
    passages = list(index.passages())
    print(f"{tree.folder}: {built.stdout.splitlines()[-1]}", flush=True)
    if built.returncode or len(passages) < tree.passages:
        yield f"{len(passages)} passages, exit code {built.returncode}; at least {tree.passages} and 0"
    yield from broken(tree, passages)
    with open(os.path.join(ROOT, "tests", "questions", tree.questions), encoding="utf-8") as file:
        questions = json.load(file)
    ndcg, hit, _ = judged(index, questions)
    print(f"  {len(questions)} questions: nDCG@10 {ndcg:.3f}, hit@5 {hit:.2f}", flush=True)
    if ndcg < tree.ndcg or hit < tree.hit:
        yield f"nDCG@10 {ndcg:.3f} and hit@5 {hit:.2f}; at least {tree.ndcg} and {tree.hit}"
    index.close()


def main() -> int:
    """Check all trees; the exit code."""
    absent = [tree.folder for tree in TREES if not os.path.isdir(tree.folder)]
    if absent:
        print(f"not there: {', '.join(absent)}")
        return 2
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, tree in enumerate(TREES):
            found = list(checked(tree, os.path.join(folder, f"{number}.sqlite")))
            wrong += len(found)
            for line in found[:20]:
                print(f"  WRONG {line}")
    print(f"{len(TREES)} trees, {wrong} faults")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
