"""How fast the index is and how well it finds, measured: python3 -m tests.benchmark_retrieval [SNAPSHOT QUESTIONS]...

Without arguments: 100,000 synthetic passages in four versions, in a .sqlite snapshot, beside the straight form of the
same search (one FTS5 table that keeps everything, `MATCH ? AND version = ? ORDER BY rank`), query by query in one run,
so that a busy machine slows both alike. With arguments: nDCG@10 and hit@5 by anchor, for the plain and the documents
profile over the passages of each snapshot (.sqlite or .json), and each question that has no answer among the first 5.
"""

import itertools
import json
import math
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import retrieval
from retrieval import Index, Passage, Snapshot, create_store, text_sha256

PASSAGES, VERSIONS, QUERIES = 100_000, ("1", "2", "3", "4"), 60
QUERY_SHARE, OPENING_SHARE, BUILT_A_SECOND = 0.30, 0.6, 25_000
NDCG, HIT = 0.52, 0.70


# --- How fast ---------------------------------------------------------------------------------------------------------


def made_up() -> Callable[[int], list[str]]:
    """Draws words whose frequencies follow Zipf's law, the n-th most frequent one 1/n as often as the first."""
    chance = random.Random(4)
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
    words = ["".join(parts) for parts in itertools.product(syllables, repeat=3)][:50_000]
    chance.shuffle(words)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return lambda count: chance.choices(words, cum_weights=weights, k=count)


def synthetic() -> list[Passage]:
    """Sorted passages of 20 to 140 words, a quarter of them in each version."""
    draw, chance = made_up(), random.Random(5)
    passages = []
    for version, at in itertools.product(VERSIONS, range(PASSAGES // len(VERSIONS))):
        text, name = " ".join(draw(chance.randint(20, 140))), f"page{at:06}.html#part"
        title = " ".join(draw(4))
        passages.append(Passage(name, version, text, f"https://docs.invalid/{name}", text_sha256(text), title))
    return passages


def straight(path: str, passages: list[Passage]) -> None:
    """The straight form: all in one FTS5 table."""
    database = sqlite3.connect(path)
    database.execute("CREATE VIRTUAL TABLE p USING fts5"
                     "(source_id UNINDEXED, version UNINDEXED, text, url UNINDEXED, sha256 UNINDEXED, title UNINDEXED)")
    with database:
        database.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?, ?)", (one[:6] for one in passages))
    database.close()


def ask_straight(database: sqlite3.Connection, words: list[str], version: str) -> list[str]:
    """The ids that the straight form gives, with the passages themselves fetched."""
    match = " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
    asked = "SELECT * FROM p WHERE p MATCH ? AND version = ? ORDER BY rank LIMIT 10"
    return [row[0] for row in database.execute(asked, (match, version))]


def timed(ask: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Any]:
    """The seconds that a call took, and what it gave."""
    began = clock()
    result = ask()
    return clock() - began, result


def speed() -> Iterator[str]:
    """Lines that tell each measure with its target."""
    passages, draw, chance = synthetic(), made_up(), random.Random(6)
    queries = [(draw(chance.randint(3, 8)), chance.choice(VERSIONS)) for _ in range(QUERIES)]
    with tempfile.TemporaryDirectory() as folder:
        plain, other = os.path.join(folder, "plain.sqlite"), os.path.join(folder, "straight.sqlite")
        documents = os.path.join(folder, "documents.sqlite")
        took, stems = (
            timed(lambda: create_store(path, profile, passages), time.process_time)[0]  # noqa: B023
            for path, profile in ((plain, "plain"), (documents, "documents")))
        yield (f"build: {PASSAGES / took:,.0f} passages a second of CPU (plain), {PASSAGES / stems:,.0f} (documents); "
               f"target {BUILT_A_SECOND:,} ({PASSAGES:,} passages, {os.path.getsize(plain) / 2**20:.0f} MiB)")
        straight(other, passages)
        yield opening(plain, documents, other, queries)
        yield from asking(plain, documents, other, queries)


def opening(plain: str, documents: str, other: str, queries: list[tuple[list[str], str]]) -> str:
    """What opening and the first query cost beside the straight form."""
    rounds = []
    for words, version in queries:
        times = []
        for path in (plain, documents, other):
            began = time.perf_counter()
            opened: Any = sqlite3.connect(path) if path == other else Index.open(path)
            ask_straight(opened, words, version) if path == other else opened.search(" ".join(words), version, 10)
            times.append(time.perf_counter() - began)
            opened.close()
        rounds.append(times)
    ours, stems, theirs = (statistics.median(times) for times in zip(*rounds, strict=True))
    return (f"open and first query: {ours / theirs:.2f} of the straight "
            f"form; target {OPENING_SHARE} (medians of {len(rounds)}: plain {ours * 1000:.0f} ms, documents "
            f"{stems * 1000:.0f}, straight {theirs * 1000:.0f})")


def asking(plain: str, documents: str, other: str, queries: list[tuple[list[str], str]]) -> Iterator[str]:
    """What a query costs beside the straight form, and whether both give the same."""
    index, stems, database, same = Index.open(plain), Index.open(documents), sqlite3.connect(other), 0
    rounds = []
    for words, version in queries:
        ours, found = timed(lambda: index.search(" ".join(words), version, 10))  # noqa: B023
        theirs, expected = timed(lambda: ask_straight(database, words, version))  # noqa: B023
        stemmed, _ = timed(lambda: stems.search(" ".join(words), version, 10))  # noqa: B023
        same += [one.source_id for one in found.passages] == expected
        rounds.append((ours, theirs, stemmed))
    ours, theirs, stemmed = (statistics.median(times) for times in zip(*rounds, strict=True))
    yield (f"query: {ours / theirs:.2f} of the straight form; target {QUERY_SHARE} (medians of {len(queries)}: plain "
           f"{ours * 1000:.1f} ms, documents {stemmed * 1000:.1f}, straight {theirs * 1000:.1f})")
    yield f"same results: {same} of {len(queries)}"
    for one in (index, stems, database):
        one.close()


# --- How well ---------------------------------------------------------------------------------------------------------


def judge(index: Index, question: dict[str, Any]) -> tuple[float, bool]:
    """nDCG@10 and hit@5: a passage answers an anchor that is its id without `~N` or an alias of it, and counts once.

    Binary relevance, log2 discount, the ideal ranking from all judged anchors (Jarvelin and Kekalainen 2002). Further
    parts of an anchor that was found before take no place in the ranking.
    """
    wanted = {answer["anchor"] for answer in question["answers"]}
    ranked: dict[str, set[str]] = {}
    for found in index.search(question["question"], question["version"], retrieval.MOST_RESULTS).passages:
        page, _, anchor = found.source_id.partition("~")[0].partition("#")
        aliases = {alias if "#" in alias else f"{page}#{alias}" for alias in found.aliases}
        ranked.setdefault(f"{page}#{anchor}", set()).update({f"{page}#{anchor}", *aliases} & wanted)
    gains: list[bool] = []
    for answered in itertools.islice(ranked.values(), 10):
        gains.append(bool(answered & wanted))
        wanted -= answered
    ideal = sum(1 / math.log2(at + 2) for at in range(min(10, len(question["answers"]))))
    return sum(gain / math.log2(at + 2) for at, gain in enumerate(gains)) / ideal, any(gains[:5])


def judged(index: Index, questions: list[dict[str, Any]]) -> tuple[float, float, list[str]]:
    """The means of nDCG@10 and hit@5, and the questions that have no answer among the first five."""
    each = [judge(index, question) for question in questions]
    ndcg, hit = (statistics.fmean(values) for values in zip(*each, strict=True))
    return ndcg, hit, [question["id"] for question, (_, found) in zip(questions, each, strict=True) if not found]


def passages_of(path: str) -> tuple[Passage, ...]:
    """The passages of a snapshot file of either form."""
    if path.endswith(".json"):
        with open(path, encoding="utf-8") as file:
            return retrieval.load_snapshot(json.load(file)).passages
    index = Index.open(path)
    passages = tuple(index.passages())
    index.close()
    return passages


def quality(path: str, questions: list[dict[str, Any]]) -> Iterator[str]:
    """A line a profile, and a line for each question that its first five passages do not answer."""
    passages = passages_of(path)
    yield f"{os.path.basename(path)}: {len(passages)} passages, {len(questions)} questions"
    for profile in retrieval.PROFILES:
        index = Index(Snapshot(profile, passages))
        ndcg, hit, missed = judged(index, questions)
        index.close()
        told = ", ".join(missed) or "none"
        yield f"  {profile:10} nDCG@10 {ndcg:.3f}  hit@5 {hit:.2f}  not among the first five: {told}"
    yield f"  targets for the documents profile over Python's documentation: {NDCG} and {HIT}"


def main() -> None:
    """Print the figures with their targets."""
    if len(sys.argv) == 1:
        print(*speed(), sep="\n")
    for path, questions in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        with open(questions, encoding="utf-8") as file:
            print(*quality(path, json.load(file)), sep="\n")


if __name__ == "__main__":
    main()
