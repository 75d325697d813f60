"""The documents profile, and the .sqlite snapshot: found as the straight form finds, never written to, never trusted
when damaged."""

import collections
import hashlib
import itertools
import json
import os
import random
import sqlite3
import stat
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import provider
import retrieval
from retrieval import Index, IndexFault, Outcome, Passage, SearchFailed, Snapshot, SnapshotFaults, create_store
from tests.support import ROOT, environment
from tests.test_retrieval import HARBOUR, HOSTILE, PIECES, Reference, Retrieval

FUZZED_QUERIES, DAMAGES = 300, 300


def made(source_id: str, text: str, version: str = "4", title: str = "", aliases: tuple[str, ...] = ()) -> Passage:
    """A passage with the right hash."""
    return Passage(source_id, version, text, f"https://docs.invalid/{source_id}", retrieval.text_sha256(text), title,
                   aliases)


def in_order(passages: Iterable[Passage]) -> list[Passage]:
    """As create_store wants them."""
    return sorted(passages, key=lambda at: (at.version, at.source_id))


def corpus(chance: random.Random, count: int, words: int = 40) -> list[Passage]:
    """Passages of few different words, so that many match and many score alike, in three versions."""
    known = [f"{stem}{end}" for stem in ("load", "wav", "moor", "buoy", "tid") for end in ("", "s", "ing", "ed", "er")]
    known += ["the", "of", "how", "do", "gate_lock", "Pier.open", "潮汐", "forêt"]
    passages = []
    for at in range(count):
        text = " ".join(chance.choices(known, k=chance.randint(1, words)))
        title = " ".join(chance.choices([*known, ">"], k=chance.randint(0, 4)))
        anchor = chance.choice(("Pier.open", "gate_lock", "waveMeter", "tide-table"))
        aliases = ("other.html#x", "other.html#y") if chance.random() < 0.2 else ()
        passages.append(made(f"p{at:04}.html#{anchor}", text, chance.choice("123"), title, aliases))
    return in_order(passages)


class Stored(Retrieval):
    """Gives tests a folder and indexes that are closed after them."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name: str = "docs.sqlite") -> str:
        """A path in the folder."""
        return os.path.join(self.folder, name)

    def memory(self, profile: str, passages: Iterable[Passage]) -> Index:
        """An index in memory."""
        index = Index(Snapshot(profile, tuple(passages)))
        self.addCleanup(index.close)
        return index

    def stored(self, profile: str, passages: Iterable[Passage], name: str = "docs.sqlite") -> Index:
        """The index in a new file."""
        create_store(self.path(name), profile, in_order(passages))
        return self.opened(self.path(name))

    def opened(self, path: str) -> Index:
        """The index in a file."""
        index = Index.open(path)
        self.addCleanup(index.close)
        return index


# --- The documents profile --------------------------------------------------------------------------------------------


class Straight:
    """The documents profile written another way: one porter table of everything, cut, filtered and sorted in Python."""

    def __init__(self, passages: list[Passage]) -> None:
        self.passages = passages
        self.database = sqlite3.connect(":memory:")
        for name, tokenizer in (("body", "porter unicode61"), ("one", "porter unicode61"), ("words", "unicode61")):
            self.database.execute(f"CREATE VIRTUAL TABLE {name} USING fts5(text, head, tokenize='{tokenizer}')")
            self.database.execute(f"CREATE VIRTUAL TABLE {name}_terms USING fts5vocab({name}, 'instance')")
        rows = [(at, retrieval.spaced(p.text), retrieval.spaced(f"{p.title} {self.anchor(p)}"))
                for at, p in enumerate(passages)]
        self.database.executemany("INSERT INTO body (rowid, text, head) VALUES (?, ?, ?)", rows)
        self.places = collections.defaultdict[int, set[tuple[str, str, int]]](set)
        for at, *place in self.database.execute("SELECT doc, term, col, offset FROM body_terms"):
            self.places[at].add(tuple(place))

    @staticmethod
    def anchor(passage: Passage) -> str:
        """The words of the anchor: there is only one in camel case."""
        return passage.source_id.partition("#")[2].replace("waveMeter", "wave Meter")

    def cut(self, table: str, text: str) -> list[str]:
        """The terms of a text."""
        self.database.execute(f"DELETE FROM {table}")
        self.database.execute(f"INSERT INTO {table} VALUES (?, '')", (retrieval.spaced(text),))
        return [term for (term,) in self.database.execute(f"SELECT term FROM {table}_terms ORDER BY offset")]

    def search(self, query: str, version: str, limit: int) -> list[str]:
        """The ids, best first, for words separated by spaces."""
        words = dict(zip(self.cut("one", query), self.cut("words", query), strict=True))
        if not words:
            return []
        sought = list(words.values())
        if sum(p.version == version for p in self.passages) >= 200:
            sought = [word for word in sought if word not in ("the", "of", "how", "do")] or sought
        runs = [" ".join(self.cut("words", run)) for run in dict.fromkeys(query.split())]
        parts = [*sought, *dict.fromkeys(run for run in runs if " " in run)]
        match = " OR ".join(f'"{part}"' for part in parts)
        rows = [(score, at) for score, at in self.database.execute(
            "SELECT bm25(body, 1, 3), rowid FROM body WHERE body MATCH ?", (match,))
            if self.passages[at].version == version]
        rows.sort(key=lambda row: (row[0], self.passages[row[1]].source_id))
        if len(rows) > 20:
            best = rows[0][0]
            rows = [(-self.reordered(score / best, at, self.cut("one", query)), at) for score, at in rows[:200]]
            rows.sort(key=lambda row: (row[0], self.passages[row[1]].source_id))
        return [self.passages[at].source_id for _, at in rows[:limit]]

    def reordered(self, score: float, at: int, stems: list[str]) -> float:
        """The score of a passage with what the shares of the query that it has add to it."""
        places, passage = self.places[at], self.passages[at]
        own = set(self.cut("one", f"{passage.title.split(' > ')[-1]} {self.anchor(passage)}"))
        pairs = {(one, other) for one, column, offset in places for other in stems
                 if (other, column, offset + 1) in places}
        wanted, had = set(stems), {term for term, _, _ in places}
        for weight, asked, there in (
                (1.25, wanted, had), (0.25, {*itertools.pairwise(stems)}, pairs), (0.75, wanted, own)):
            score += weight * len(asked & there) / max(1, len(asked))
        return score


LIBRARY = [
    made("lib.html#Pier.open", "Opens the gate. Generalizations follow.", title="Piers > Opening"),
    made("lib.html#flush_to_disk~2", "Second part: buffers are written.", title="Files"),
    made("lib.html#RotatingFileHandler", "Starts another one when it is full.", title="Logs"),
    made("lib.html#HTTPServer", "Serves.", title="Net"),
    made("one.html#a", "then write on a path some text", title="Words apart"),
    made("two.html#b", "call Path.write_text with a string and many other words around it", title="Identifier"),
    made("cpp.html#c", "Link the loader as C++.", title="Linking"),
    made("cafe.html#d", "Le re\u0301sume\u0301 du caf\u00e9.", title="Menu"),
    made("cjk.html#e", "缓存的默认过期时间为四十五秒。", title="缓存"),
    made("cjk.html#f", "重启worker进程后队列继续。", title="Queue"),
    made("ko.html#k", "캐시의 기본값은 45초입니다. worker가 다시 시작되면 계속됩니다.", title="캐시"),
    made("ja.html#g", "カモメは海の鳥です。", title="鳥"),
    made("weight.html#h", "tern tern gull", title="birds"),
    made("weight.html#i", "gull birds", title="tern"),
]

RULES = [
    # the rule, the query, what is found first (or, as a set, all that is found)
    ("stems match", "opening", "lib.html#Pier.open"),
    ("stems match in the text", "gate", "lib.html#Pier.open"),
    ("a stem is not stemmed again", "generalizations", "lib.html#Pier.open"),
    ("the title is indexed", "linking", "cpp.html#c"),
    ("the anchor is indexed, cut at the dot", "pier", "lib.html#Pier.open"),
    ("the anchor is cut at the underscore", "flush", "lib.html#flush_to_disk~2"),
    ("the number of a part is not a word of it", "2", set()),
    ("the anchor is cut in camel case", "rotating", "lib.html#RotatingFileHandler"),
    ("the anchor is cut after capitals", "http server", "lib.html#HTTPServer"),
    ("the path is not indexed", "cpp", set()),
    ("the head counts more than the text", "tern", "weight.html#i"),
    ("an identifier is looked for as a phrase too", "Path.write_text", "two.html#b"),
    ("words apart are no phrase", "path write text", "one.html#a"),
    ("operators are text", "C++", "cpp.html#c"),
    ("accents fold", "resume", {"cafe.html#d"}),
    ("composed and decomposed are one", "r\u00e9sum\u00e9", {"cafe.html#d"}),
    ("decomposed and composed are one", "cafe\u0301", {"cafe.html#d"}),
    ("a part of a Chinese run", "默认过期时间", "cjk.html#e"),
    ("two characters of it", "过期", "cjk.html#e"),
    ("Latin letters between Chinese ones or before a Korean ending", "worker", {"cjk.html#f", "ko.html#k"}),
    ("Chinese with another word", "缓存 timeout", "cjk.html#e"),
    ("a part of a Japanese run", "海の鳥", "ja.html#g"),
    ("one character", "鳥", "ja.html#g"),
    ("a Korean word without its ending", "기본값", {"ko.html#k"}),
    ("a Latin word with a Korean ending", "worker가", "ko.html#k"),
    ("function words count in a small version", "then", {"one.html#a"}),
]


class Documents(Stored):
    def test_each_rule_of_the_profile(self) -> None:
        """In memory and from a file."""
        for kind, index in {"memory": self.memory("documents", LIBRARY),
                            "file": self.stored("documents", LIBRARY)}.items():
            for rule, query, expected in RULES:
                with self.subTest(rule=rule, kind=kind):
                    found = self.found(index, query)
                    self.assertEqual(set(found) if isinstance(expected, set) else found[0], expected)

    def test_a_word_whose_stem_a_function_word_has_too_is_sought(self) -> None:
        """Wherever it stands in the query: one and on, owned and own."""
        passages = [made("w", "one wharf"), made("x", "it is owned"),
                    *(made(f"y{n:03}", "on my own") for n in range(300))]
        index = self.memory("documents", passages)
        for query, match in (("on one to one", '"one"'), ("one to one on", '"one"'), ("owned by my own", '"owned"'),
                             ("my own", '"my" OR "own"')):
            with self.subTest(query=query):
                self.assertEqual(index._wanted(query, "4")[1], match)

    def test_sections_without_an_anchor_of_their_own_are_no_parts_of_one_entry(self) -> None:
        """Parts of one have one title; of those the best is first."""
        passages = [*(made(f"a.html~{n}" if n else "a.html", f"gull {'tern ' * (9 - n)}", title=f"T{n // 2}")
                      for n in range(6)), made("b.html", "gull and many other words here", title="U")]
        found = self.found(self.memory("documents", passages), "gull tern")
        self.assertEqual(found, ["a.html~5", "a.html~3", "a.html~1", "b.html", "a.html~4", "a.html~2", "a.html"])

    def test_a_long_run_of_joined_words_is_no_phrase(self) -> None:
        index = self.memory("documents", LIBRARY)
        self.assertIn(" ".join(["a"] * 16), index._wanted(".".join(["a"] * 16), "4")[1])
        self.assertEqual(index._wanted(".".join(["a"] * 17), "4")[1], '"a"')

    def test_function_words_are_left_out_of_a_query_where_200_passages_are(self) -> None:
        """Not of 199, not when the query has no other word; the count is of the version asked."""
        for count, expected in ((199, 2), (200, 1)):
            with self.subTest(passages=count):
                passages = [made("w", "the wharf"), *(made(f"x{n:03}", "the", "5") for n in range(300)),
                            made("z", "the"), *(made(f"y{n:03}", "filler") for n in range(count - 2))]
                index = self.memory("documents", passages)
                self.assertEqual(len(self.found(index, "what is the wharf")), expected)
                self.assertEqual(self.found(index, "The THE"), ["z", "w"])
                self.assertEqual(self.found(index, "don't"), [])

    def test_the_stop_list_is_about_150_words_as_the_index_cuts_them(self) -> None:
        """No accent, apostrophe or capital that a term of a query could not have."""
        words = retrieval._FUNCTION_WORDS
        self.assertTrue(130 <= len(words) <= 170, len(words))
        index = self.memory("plain", LIBRARY)
        self.assertEqual(sorted(index.terms(" ".join(words))), sorted(words))

    def test_terms_are_stems_and_characters(self) -> None:
        """What the controller compares queries by; the plain profile's are as ever."""
        documents, plain = self.memory("documents", LIBRARY), self.memory("plain", LIBRARY)
        for text, stems, words in (
            ("Opening opens", ("open", "open"), ("opening", "opens")),
            ("潮汐 ok", ("潮", "汐", "ok"), ("潮汐", "ok")), ("flush_to", ("flush", "to"), ("flush", "to")),
            ("cafe\u0301", ("cafe",), ("cafe",)), ("--", (), ()), ("the", ("the",), ("the",)),
        ):
            with self.subTest(text=text):
                self.assertEqual(documents.terms(text), stems)
                self.assertEqual(plain.terms(text), words)

    def test_the_ranking_is_that_of_the_straight_form(self) -> None:
        """Random corpora with many ties, in memory and from a file, few and many matches, three versions."""
        for seed, count in ((1, 12), (2, 90), (3, 700)):
            chance = random.Random(seed)
            passages = corpus(chance, count)
            straight = Straight(passages)
            self.addCleanup(straight.database.close)
            memory, stored = self.memory("documents", passages), self.stored("documents", passages, f"{seed}.sqlite")
            words = ["loading", "the", "how", "buoy", "gate_lock", "Pier.open", "tides", "潮", "foret", "wave", "none"]
            for number in range(40):
                query = " ".join(chance.choices(words, k=chance.randint(1, 4)))
                version, limit = chance.choice(stored.versions), chance.choice((1, 5, 30, 100))
                expected = straight.search(query, version, limit)
                with self.subTest(seed=seed, number=number, query=query):
                    self.assertEqual(self.found(memory, query, version, limit), expected)
                    self.assertEqual(self.found(stored, query, version, limit), expected)

    def test_hostile_queries_find_no_less_than_in_the_plain_profile(self) -> None:
        """Nothing is syntax here either; the outcome says whether anything was searchable and found."""
        index, chance = self.memory("documents", corpus_of_harbour()), random.Random(9)
        for query, expected in HOSTILE:
            with self.subTest(query=query):
                self.assertLessEqual(set(expected), set(self.found(index, query)))
        for number in range(FUZZED_QUERIES):
            query = "".join(chance.choice(PIECES) + chance.choice(("", " ")) for _ in range(chance.randint(0, 9)))
            with self.subTest(number=number, query=query):
                ranking = index.search(query, "4", 10)
                self.assertEqual(ranking.outcome is Outcome.NO_SEARCHABLE_TERM, not index.terms(query))
                self.assertEqual(ranking.outcome is Outcome.FOUND, bool(ranking.passages))

    def test_a_query_of_thousands_of_terms_is_answered(self) -> None:
        """However long it is."""
        index = self.memory("documents", LIBRARY)
        query = " ".join(f"w{n}_x{n}" for n in range(1_500)) + " tern"
        self.assertEqual(self.found(index, query)[0], "weight.html#i")


def corpus_of_harbour() -> list[Passage]:
    """The passages of the plain profile's tests."""
    return [Passage(**at) for at in HARBOUR]


# --- Snippets ---------------------------------------------------------------------------------------------------------

LONG = " ".join(f"word{n}" for n in range(60)) + " the anchor chain holds. " + " ".join(f"more{n}" for n in range(60))
SNIPPETS = [
    # profile, text, query, the snippet with its matches in brackets
    ("plain", "Set the anchor.", "anchor", "Set the [anchor]."),
    ("plain", "Set the anchors.", "anchor", "Set the anchors."),
    ("documents", "Set the anchors, anchoring.", "anchor", "Set the [anchors], [anchoring]."),
    ("documents", "Two\n\n  lines\tand anchors", "line", "Two [lines] and anchors"),
    ("plain", "L'été près de la forêt.", "foret", "L'été près de la [forêt]."),
    ("documents", "fore\u0302t", "foret", "[forêt]"),
    ("documents", "缓存的默认过期时间。", "过期", "缓存的默认[过期]时间。"),
    ("documents", "重启worker进程", "worker", "重启[worker]进程"),
    ("documents", "潮 汐 表", "汐", "潮 [汐] 表"),
    ("documents", "캐시의 기본값은 45초입니다.", "기본값", "캐시의 [기본값]은 45초입니다."),
    ("plain", "a [b] **c** \x01d\x02 anchor", "anchor", "a [b] **c** \x01d\x02 [anchor]"),
    ("plain", "left\x00right", "right", "left [right]"),
    ("documents", "call Path.write_text now", "Path.write_text", "call [Path.write_text] now"),
    ("plain", "nothing of it", "elsewhere", "nothing of it"),
    ("plain", "nothing of it", "?!", "nothing of it"),
    ("plain", "C++ & <b>", "c", "[C]++ & <b>"),
]


class Snippets(Stored):
    def shown(self, profile: str, text: str, query: str) -> str:
        """The snippet with brackets around what matched."""
        index = self.memory(profile, [made("x", text)])
        return "".join(f"[{piece}]" if matched else piece for piece, matched in index.snippet(made("x", text), query))

    def test_each_snippet_shows_what_matched(self) -> None:
        """By the index's own cutting; what stands in the text is never a mark."""
        for profile, text, query, expected in SNIPPETS:
            with self.subTest(profile=profile, text=text, query=query):
                self.assertEqual(self.shown(profile, text, query), expected)

    def test_a_long_text_is_shown_around_its_matches_in_whole_words(self) -> None:
        """About 30 words, with dots where some were left out; the beginning when only the head matched."""
        for profile in retrieval.PROFILES:
            for query, part in (("anchor chain", "[anchor] [chain]"), ("elsewhere", "word0 word1 ")):
                with self.subTest(profile=profile, query=query):
                    shown = self.shown(profile, LONG, query)
                    self.assertIn(part, shown)
                    self.assertTrue(shown.endswith("..."), shown)
                    words = shown.replace("...", " ").replace("[", "").replace("]", "").split()
                    self.assertTrue(25 <= len(words) <= 31, len(words))
                    self.assertLessEqual(set(words), set(LONG.split()))

    def test_any_text_and_query_give_one_line_of_the_text(self) -> None:
        """Random ones, marks and controls among them: the pieces together are words of the text in their order."""
        chance = random.Random(77)
        for number in range(FUZZED_QUERIES):
            text = "".join(chance.choice(PIECES) + chance.choice(("", " ")) for _ in range(chance.randint(1, 60))) + "x"
            query = "".join(chance.choice(PIECES) + " " for _ in range(chance.randint(0, 4)))
            profile = chance.choice(retrieval.PROFILES)
            index = Index(Snapshot(profile, (made("x", text),)))
            pieces = index.snippet(made("x", text), query)
            known = set(index.terms(text))
            for piece, matched in pieces:
                self.assertNotRegex(piece, "[\n\t\r\v\f]")
                self.assertLessEqual(set(index.terms(piece)), known, (number, text, piece))
                self.assertFalse(matched and not set(index.terms(piece)) & set(index.terms(query)), (number, text))
            index.close()


# --- The file ---------------------------------------------------------------------------------------------------------


def looked_up(index: Index, passages: list[Passage]) -> Iterator[Any]:
    """What an index gives for a number of questions, one after the other."""
    for query in ("loading buoy", "the tides", "潮", "Pier.open", "nothing_at_all", "gate"):
        yield [(at, index.search(query, at, 30)) for at in index.versions]
    yield [index.passage(at.source_id, at.version) for at in passages[::7]]
    yield list(index.passages())


class Files(Stored):
    def test_a_file_answers_as_memory_does(self) -> None:
        """Profile, versions, counts, fingerprint, passages, searches, missing ids."""
        passages = corpus(random.Random(5), 60)
        for profile in retrieval.PROFILES:
            memory, stored = self.memory(profile, passages[::-1]), self.stored(profile, passages, f"{profile}.sqlite")
            with self.subTest(profile=profile):
                self.assertEqual(stored.profile, profile)
                self.assertEqual(stored.versions, ("1", "2", "3"))
                self.assertEqual([stored.count(at) for at in "1234"],
                                 [sum(one.version == at for one in passages) for at in "1234"])
                self.assertEqual(list(stored.passages()), passages)
                self.assertEqual(list(looked_up(stored, passages)), list(looked_up(memory, passages)))
                for source_id in ("", "a", "p0000.html", "zzz", passages[0].source_id + "!"):
                    self.assertIsNone(stored.passage(source_id, "1"))

    def test_the_plain_profile_ranks_as_the_straight_form(self) -> None:
        """From a file, ties included; words of the head find nothing."""
        passages = corpus(random.Random(6), 300)
        index, reference = self.stored("plain", passages), Reference(at._asdict() for at in passages)
        self.addCleanup(reference.database.close)
        for query in ("loading", "the buoy", "tides of gate_lock", "潮汐", "forêt waves", "Pier open", "none"):
            for version in "123":
                with self.subTest(query=query, version=version):
                    self.assertEqual(self.found(index, query, version, 50), reference.search(query, version, 50))
        only_in_a_head = self.memory("plain", [made("x#harbour", "text", title="Jetty")])
        self.assertEqual(self.found(only_in_a_head, "harbour jetty"), [])

    def test_one_fingerprint_for_json_and_sqlite(self) -> None:
        """It is that of the canonical JSON of the .json snapshot; each field, the profile and the versions count. There
        are more passages than are written at once."""
        passages = corpus(random.Random(7), 1_001)
        document = {"profile": "documents", "passages": [
            {name: value for name, value in at._asdict().items() if value} for at in passages]}
        expected = provider.fingerprint(document)
        self.assertEqual(self.stored("documents", passages).fingerprint, expected)
        self.assertEqual(list(self.opened(self.path()).passages()), passages)
        loaded = retrieval.load_snapshot(json.loads(json.dumps(document)))
        self.assertEqual(self.memory(loaded.profile, loaded.passages).fingerprint, expected)
        others = [self.memory("plain", passages), self.memory("documents", passages[1:])] + [
            self.memory("documents", [*passages[1:], Passage(**{**passages[0]._asdict(), name: value})])
            for name, value in (("url", "u"), ("title", "t t"), ("aliases", ("a#b",)), ("text_sha256", "0"))]
        self.assertNotIn(expected, [one.fingerprint for one in others])

    def test_the_same_passages_give_the_same_bytes(self) -> None:
        """From a list or a stream, at another path, in another process."""
        passages = corpus(random.Random(8), 200)
        for at, given in enumerate((passages, iter(passages), (one for one in passages))):
            create_store(self.path(f"{at}.sqlite"), "documents", given)
        code = ("import random, sys; from retrieval import create_store; from tests.test_store import corpus; "
                "create_store(sys.argv[1], 'documents', corpus(random.Random(8), 200))")
        subprocess.run([sys.executable, "-c", code, self.path("3.sqlite")], cwd=ROOT, check=True,
                       env={**environment(self.folder), "PYTHONHASHSEED": "7", "PYTHONPATH": ROOT})
        digests = set()
        for at in range(4):
            with open(self.path(f"{at}.sqlite"), "rb") as file:
                digests.add(hashlib.sha256(file.read()).hexdigest())
        self.assertEqual(len(digests), 1)

    def test_passages_out_of_order_and_none_at_all_are_refused(self) -> None:
        """Twice, backwards, an older version after a newer one; and what a stream raises comes through."""
        one, two, other = made("a", "x"), made("b", "x"), made("a", "x", "5")
        many = [made(f"m{at:04}", "x") for at in range(500)]
        for number, passages in enumerate(([one, one], [two, one], [other, one], [], [*many, one], [*many, many[-1]])):
            with self.subTest(number=number), self.assertRaises(SnapshotFaults) as caught:
                create_store(self.path(f"{number}.sqlite"), "plain", passages)
            self.assertEqual(len(caught.exception.faults), 1)

        def broken() -> Iterator[Passage]:
            yield one
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            create_store(self.path("broken.sqlite"), "plain", broken())
        with self.assertRaises(IndexFault):
            Index.open(self.path("broken.sqlite"))

    def test_where_no_file_can_be_written_is_told(self) -> None:
        """A folder that is not there, a folder, a snapshot that is."""
        create_store(self.path(), "plain", [made("a", "x")])
        for path in (self.path("missing/x.sqlite"), self.folder, self.path()):
            with self.subTest(path=path), self.assertRaisesRegex(IndexFault, "could not write"):
                create_store(path, "plain", [made("a", "x")])

    def test_any_name_of_a_file_will_do(self) -> None:
        """Nothing in a path is taken for a part of an address."""
        passages = [made("a", "tide")]
        for name in ("a?mode=memory", "a#b", "a%20b", "a b", "a&b=c", "file:x", ":memory:", "\u6f6e", "a'b\"c"):
            with self.subTest(name=name):
                self.assertEqual(self.found(self.stored("plain", passages, name), "tide"), ["a"])
                self.assertTrue(os.path.isfile(self.path(name)))

    def test_using_a_file_leaves_it_and_its_folder_as_they_are(self) -> None:
        """Bytes, time and the list of the folder; also where nothing may be written."""
        passages = corpus(random.Random(9), 80)
        create_store(self.path(), "documents", passages)
        self.assertEqual(os.listdir(self.folder), ["docs.sqlite"])
        os.utime(self.path(), (1_000_000_000, 1_000_000_000))
        with open(self.path(), "rb") as file:
            before = file.read()
        os.chmod(self.path(), stat.S_IRUSR)
        os.chmod(self.folder, stat.S_IRUSR | stat.S_IXUSR)
        self.addCleanup(os.chmod, self.folder, stat.S_IRWXU)
        index = Index.open(self.path())
        first = list(looked_up(index, passages))
        self.assertTrue(index.snippet(passages[0], "loading"))
        self.assertEqual(os.listdir(self.folder), ["docs.sqlite"])
        with self.assertRaises(sqlite3.OperationalError):
            index._database.execute("DELETE FROM passage")
        index.close()
        with open(self.path(), "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(os.stat(self.path()).st_mtime, 1_000_000_000)
        self.assertEqual(list(looked_up(self.opened(self.path()), passages)), first)

    def test_two_processes_read_at_once(self) -> None:
        """Both have it open before either asks."""
        passages = corpus(random.Random(10), 50)
        here = self.stored("documents", passages)
        code = ("import sys; from retrieval import Index; index = Index.open(sys.argv[1]); print('open', flush=True); "
                "input(); print([at.source_id for at in index.search('tides', '1', 9).passages]); index.close()")
        with subprocess.Popen(
                [sys.executable, "-c", code, self.path()], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env={**environment(self.folder), "PYTHONPATH": ROOT}, text=True) as child:
            assert child.stdout
            self.assertEqual(child.stdout.readline(), "open\n")
            expected = self.found(here, "tides", "1", 9)
            self.assertEqual(child.communicate("\n", timeout=30)[0], f"{expected}\n")
        self.assertEqual(child.returncode, 0)


class Damage(Stored):
    def test_what_is_no_snapshot_is_refused_in_one_line(self) -> None:
        """Missing, a folder, empty, text, another database, another format, half a build."""
        create_store(self.path(), "documents", corpus(random.Random(11), 30))
        contents: dict[str, Callable[[str], Any]] = {
            "missing": lambda path: None, "folder": os.mkdir,
            "empty": lambda path: open(path, "wb").close(),
            "text": lambda path: self.write(path, b"not a database, but long enough to look at" * 99),
            "another database": lambda path: self.changed(path, "CREATE TABLE t (x)", fresh=True),
            "format 2": lambda path: self.changed(path, "PRAGMA user_version = 2"),
            "no seal": lambda path: self.changed(path, "UPDATE snapshot SET seal = 0"),
            "no rows of its own": lambda path: self.changed(path, "DELETE FROM snapshot"),
            "no index": lambda path: self.changed(path, "DROP TABLE passages"),
            "another profile": lambda path: self.changed(path, "UPDATE snapshot SET profile = 'plain'"),
            "other versions": lambda path: self.changed(path, "UPDATE version SET high = high + 1"),
            "lengths forgotten": lambda path: self.changed(path, "DELETE FROM passages_docsize"),
            "words forgotten": lambda path: self.changed(path, "DELETE FROM passages_idx"),
            "a trigger": lambda path: self.changed(
                path, "CREATE TRIGGER t AFTER INSERT ON passage BEGIN SELECT 1; END"),
        }
        told = {"format 2": "format 2; this kit reads format 1", "another database": "not a snapshot of this kit",
                "empty": "not a snapshot of this kit", "missing": "not there", "folder": "not an ordinary file"}
        for name, make in contents.items():
            with self.subTest(file=name):
                make(self.path(name))
                with self.assertRaisesRegex(IndexFault, told.get(name, "damage")) as caught:
                    Index.open(self.path(name))
                self.assertNotIn("\n", str(caught.exception))

    def write(self, path: str, content: bytes) -> None:
        """Make a file."""
        with open(path, "wb") as file:
            file.write(content)

    def changed(self, path: str, statement: str, fresh: bool = False) -> None:
        """A copy of the good snapshot (or a new database) after a statement."""
        if not fresh:
            with open(self.path(), "rb") as file:
                self.write(path, file.read())
        database = sqlite3.connect(path)
        with database:
            database.execute(statement)
        database.close()

    def test_a_row_that_another_process_changes_is_not_handed_on(self) -> None:
        """Also one that was read before, which SQLite may have in its cache."""
        create_store(self.path(), "documents", [made("a", "It expires after 45 seconds.")])
        index = self.opened(self.path())
        self.assertIsNotNone(index.passage("a", "4"))
        database = sqlite3.connect(self.path())
        with database:
            database.execute("UPDATE passage SET text = 'It expires after 90 seconds.'")
        database.close()
        with self.assertRaisesRegex(SearchFailed, "damaged"):
            index.passage("a", "4")

    def test_damage_gives_right_results_or_a_named_refusal(self) -> None:
        """Cut at many lengths, bytes changed at many places: never another exception, never another result."""
        passages, chance = corpus(random.Random(12), 40, words=30), random.Random(13)
        create_store(self.path(), "documents", passages)
        with open(self.path(), "rb") as file:
            good = file.read()
        right = list(looked_up(self.opened(self.path()), passages))
        seen = collections.Counter[str]()
        for number in range(DAMAGES):
            damaged, at = bytearray(good), chance.randrange(len(good))
            if number % 4 == 0:
                del damaged[at:]
            elif number % 4 == 1:
                damaged[at:at + 64] = chance.randbytes(min(64, len(good) - at))
            else:
                damaged[at] ^= chance.randrange(1, 256)
            self.write(self.path("damaged"), bytes(damaged))
            try:
                index = Index.open(self.path("damaged"))
                try:
                    self.assertEqual(list(looked_up(index, passages)), right, (number, at))
                finally:
                    index.close()
                seen["right"] += 1
            except (IndexFault, SearchFailed) as error:
                seen[type(error).__name__] += 1
                self.assertRegex(str(error), "^[ -~]+$")
        self.assertTrue(all(seen[name] > 9 for name in ("right", "IndexFault", "SearchFailed")), seen)

    def test_a_passage_that_was_changed_in_the_file_is_never_handed_out(self) -> None:
        """Neither by a search nor by its id, nor among all; another's still is."""
        passages = in_order([made("a", "tide at noon"), made("b", "buoy")])
        for statement in ("UPDATE passage SET text = 'tide at night' WHERE rowid = 1",
                          "UPDATE passage SET url = 'https://elsewhere.invalid/' WHERE rowid = 1",
                          "UPDATE passage SET aliases = 'x#y' WHERE rowid = 1",
                          "UPDATE passage SET rowid = 9 WHERE rowid = 1", "DELETE FROM passage WHERE rowid = 1"):
            with self.subTest(statement=statement):
                create_store(self.path(), "plain", passages)
                self.changed(self.path("changed"), statement)
                index = self.opened(self.path("changed"))
                for ask in (lambda: index.search("tide", "4", 5), lambda: index.passage("a", "4"),  # noqa: B023
                            lambda: list(index.passages())):  # noqa: B023
                    with self.assertRaisesRegex(SearchFailed, "row 1 of the snapshot is damaged"):
                        ask()
                self.assertEqual(self.found(index, "buoy"), ["b"])
                os.remove(self.path())

    def test_sqlite_without_fts5_is_named_for_a_file_too(self) -> None:
        """Opening and writing say what the machine lacks, not that the file is damaged."""
        create_store(self.path(), "plain", [made("a", "x")])
        failing = mock.Mock()
        failing.executescript.side_effect = sqlite3.OperationalError("no such module: fts5")
        with mock.patch("sqlite3.connect", return_value=failing):
            for ask in (lambda: Index.open(self.path()),
                        lambda: create_store(self.path("new"), "plain", [made("a", "x")])):
                with self.assertRaisesRegex(IndexFault, "has no FTS5"):
                    ask()


if __name__ == "__main__":
    unittest.main()
