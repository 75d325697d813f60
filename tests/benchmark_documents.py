"""What reading documents costs: python3 -m tests.benchmark_documents [TREE]

Prints the passages of a tree of pages (by default Python's own, where Debian's python3.11-doc puts them), the CPU
time against feeding the same pages to an html.parser that does nothing, the peak of memory for half of the pages and
for all, and how the time for hostile input grows when the input doubles.
"""

import os
import subprocess
import sys
import tempfile
import time
from html.parser import HTMLParser

import retrieval
import tools
from tests.support import ROOT

TREE = "/usr/share/doc/python3.11/html"
HOSTILE = {
    "<": "<" * 1000, "< ": "< " * 500, "<!--": "<!--" * 250, "<!": "<!" * 500, "</": "</" * 500, "<a ": "<a " * 300,
    "<a b='": "<a b='" * 150, '<a b="c': '<a b="c' * 150, "<div>": "<div>" * 200, "</div>": "</div>" * 150,
    "<li> under a div": "<div><li>" * 110, "<div id>": "<div id=x>" * 100, "<script>": "<script>" * 120,
    "<script/>": "<script/>" * 110, "<title>": "<title>" * 120, "<td>": "<td>" * 250,
    "<table><tr><td>": "<table><tr><td>" * 60,
    "<dl><dt id=a>x<dd>": "<dl><dt id=a>x<dd>" * 50, "<section id=a>x": "<section id=a>x" * 60, "<h2>a": "<h2>a" * 200,
    "<h2 id=a>a": "<h2 id=a>a" * 100, "<h2>": "<h2>" * 250, "<p hidden>": "<p hidden>" * 100, "<main>": "<main>" * 160,
    "&": "&" * 1000, "&#9": "&#9" * 330, "&#": "&#" + "9" * 998, "<pre>x\n": "<pre>x\n" * 140, "a=": "<a " + "a=" * 500,
    "one word": "w" * 1000, "spaces": " " * 999 + "x", "lines": "x\n" * 500,
    "blank lines": "\n" * 999 + "x", "`": "` `` " * 200,
    "# a": "# a\nb\n" * 160, "[": "[" * 1000, "---": "---\n" * 250, "- ": "- " * 500,
    "    x": "    x\n" * 160, "~~~": "~~~\n" * 250,
    "soft hyphens": "\xad" * 500, "marks": "a" + "\u0301\u0323" * 250, "sentences": "a. B? " * 160,
    "marks out of order": "a" + "\u0315\u0301" * 250,
    "_": "_a " * 330, "|": "|" * 1000,
    "spaces alone": " " * 1000, "_ alone": "_" * 1000, "{#": "# {#" + "{#" * 500, "[a": "[a" * 500,
    "#": "#" * 1000,
    "- alone": "-" * 1000, "> ": "> " * 500, "1. ": "1. " * 330,
    "<dt> <a name>": "<dt> " + "<a name=id1> " * 80, ": ": ": " * 500,
    "<!-- alone": "<!-- - " * 140, "tags": "<b></b>" * 140, "rows": "<tr><td>x" * 110,
    "class": "<p class='" + "a-toc " * 160 + "'>",
}


class Bare(HTMLParser):
    """Reads and forgets."""


def pages(tree: str) -> list[str]:
    """The relative paths of a tree's documents."""
    top = set(os.listdir(tree))
    sphinx = bool(top & {"objects.inv", ".buildinfo"})
    found = (os.path.relpath(os.path.join(folder, name), tree) for folder, _, names in os.walk(tree) for name in names)
    return sorted(path for path in found if not tools.skipped(path.replace(os.sep, "/"), sphinx)
                  and os.path.isfile(os.path.join(tree, path)))


def read(tree: str, path: str) -> bytes:
    with open(os.path.join(tree, path), "rb") as file:
        return file.read()


def build(tree: str, paths: list[str]) -> retrieval.Build:
    """Build the passages of some documents and forget them."""
    with tempfile.TemporaryDirectory() as folder:
        made = retrieval.Build("1", "", "", os.path.join(folder, "staging"))
        for path in paths:
            try:
                made.add(path.replace(os.sep, "/"), read(tree, path))
            except (retrieval.DocumentRefused, retrieval.DocumentSkipped) as reason:
                print(f"  {path}: {reason}", file=sys.stderr)
        for _ in made.passages():
            pass
        made.close()
    return made


def peak(tree: str, share: int) -> int:
    """The peak of memory in KiB of a fresh Python that builds every share-th document."""
    program = ("import resource, sys; from tests import benchmark_documents as b; "
               "b.build(sys.argv[1], b.pages(sys.argv[1])[::int(sys.argv[2])]); "
               "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)")
    done = subprocess.run([sys.executable, "-c", program, tree, str(share)], cwd=ROOT, capture_output=True, check=True)
    return int(done.stdout)


def cost(document: str, path: str) -> float:
    began = time.process_time()
    made = retrieval.Build("1", "", "", ":memory:")
    try:
        made.add(path, document.encode())
        for _ in made.passages():
            pass
    except retrieval.DocumentSkipped:
        pass
    made.close()
    return time.process_time() - began


def hostile() -> None:
    """Print the inputs whose time more than doubles when they do."""
    print("hostile input of about 300 and 600 KB: what takes more than two seconds or grows faster than its size")
    for name, piece in HOSTILE.items():
        for path in ("a.html", "a.md", "a.txt"):
            one, two = cost("# a" + piece * 300 + "x", path), cost("# a" + piece * 600 + "x", path)
            told = "  MORE THAN LINEAR" if two > 3 * one and two > 0.3 else ""
            if told or two > 2:
                print(f"  {name!r:24} {path:7} {one:6.2f} {two:6.2f} {two / one:5.1f}{told}")


def main() -> None:
    tree = sys.argv[1] if len(sys.argv) > 1 else TREE
    if not os.path.isdir(tree):
        sys.exit(f"{tree} is not there: give a tree of documents, or install Debian's python3.11-doc")
    paths = pages(tree)
    texts = [read(tree, path).decode("utf-8", "replace") for path in paths if path.endswith((".html", ".htm"))]
    began = time.process_time()
    for text in texts:
        parser = Bare()
        parser.feed(text)
        parser.close()
    bare = time.process_time() - began
    texts.clear()
    began = time.process_time()
    made = build(tree, paths)
    taken = time.process_time() - began
    print(f"{len(paths)} documents: " + ", ".join(f"{count:,} {name}" for name, count in made.counts.items()))
    print(f"CPU: {taken:.2f} s; html.parser alone {bare:.2f} s; {taken / bare if bare else 0:.2f} times")
    print(f"peak of memory: half of the documents {peak(tree, 2):,} KiB, all {peak(tree, 1):,} KiB")
    hostile()


if __name__ == "__main__":
    main()
