"""What retrieval finds, and that nothing in a query, a passage or a snapshot can make it find anything else."""

import hashlib
import json
import math
import os
import random
import sqlite3
import unittest
from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

import retrieval
from retrieval import Index, IndexFault, Outcome, SearchFailed, SnapshotFaults, load_snapshot
from tests.support import ROOT

FUZZED_QUERIES = 1_000
FUZZED_TEXTS = 60
FUZZED_DOCUMENTS = 4_000


def passage(source_id: str, text: str, version: str = "4", **more: Any) -> dict[str, Any]:
    """A passage as a snapshot file has it, with the right hash."""
    address = f"https://docs.example/{version}/page"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"source_id": source_id, "version": version, "text": text, "url": address, "text_sha256": digest, **more}


def document(*passages: Any, **more: Any) -> dict[str, Any]:
    """A snapshot file's content."""
    return {"profile": "plain", "passages": list(passages), **more}


def read_shipped(*names: str) -> Any:
    """The content of a JSON file of the kit."""
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return json.load(file)


class Reference:
    """The same search written another way: one plain FTS5 table per question, filtered and sorted in Python.

    A query's words are what `fts5vocab` in its `row` form lists for a table that holds only the query.
    """

    def __init__(self, passages: Iterable[dict[str, Any]]) -> None:
        self.passages = list(passages)
        self.database = sqlite3.connect(":memory:")
        self.database.execute("CREATE VIRTUAL TABLE body USING fts5(text, tokenize='unicode61')")
        self.database.executemany(
            "INSERT INTO body (rowid, text) VALUES (?, ?)", ((at, p["text"]) for at, p in enumerate(self.passages)))
        self.database.execute("CREATE VIRTUAL TABLE one USING fts5(text, tokenize='unicode61')")
        self.database.execute("CREATE VIRTUAL TABLE listed USING fts5vocab(one, 'row')")

    def counts(self, text: str) -> dict[str, int]:
        """Each term of a text and how often it stands there."""
        self.database.execute("DELETE FROM one")
        self.database.execute("INSERT INTO one VALUES (?)", (text,))
        return dict(self.database.execute("SELECT term, cnt FROM listed"))

    def search(self, query: str, version: str, limit: int) -> list[str]:
        """The ids, best first."""
        words = self.counts(query)
        if not words:
            return []
        match = " OR ".join('"' + word.replace('"', '""') + '"' for word in sorted(words, reverse=True))
        rows = self.database.execute("SELECT bm25(body), rowid FROM body WHERE body MATCH ?", (match,))
        scored = [(score, self.passages[at]["source_id"]) for score, at in rows
                  if self.passages[at]["version"] == version]
        # The terms are summed in the order of the query, so that equal scores may differ in their last bit.
        ranked = sorted(scored, key=lambda pair: (round(pair[0], 12), pair[1]))
        return [source_id for _, source_id in ranked[:limit]]


class Retrieval(unittest.TestCase):
    """Gives tests an index that is closed after them."""

    def index(self, *passages: dict[str, Any]) -> Index:
        """An index over these passages."""
        made = Index(load_snapshot(document(*passages)))
        self.addCleanup(made.close)
        return made

    def reference(self, passages: Iterable[dict[str, Any]]) -> Reference:
        """The other way to search, over these passages."""
        made = Reference(passages)
        self.addCleanup(made.database.close)
        return made

    def found(self, index: Index, query: str, version: str = "4", limit: int = 10) -> list[str]:
        """The ids that a search gives, best first."""
        return [at.source_id for at in index.search(query, version, limit).passages]


# --- Rankings ---------------------------------------------------------------------------------------------------------

HARBOUR = [
    passage("h01", "Set Keep-Alive to the idle seconds. A max-stale of one hour lets old pages through."),
    passage("h02", "FIXME: guard io::reader_lock in gate.hh until the next tide."),
    passage("h03", "Write to @harbourmaster on port 9090; the crane lifts 30 t/h since build 7.12."),
    passage("h04", "Link the loader as C++, then wrap it for F# over the .NET runtime."),
    passage("h05", "The C linker complains about missing symbols."),
    passage("h06", "Call drain_all_queues_first on exit; drain by itself does too little."),
    passage("h07", "L'été, le dîner se prend près de la forêt."),
    passage("h08", "A naïve coöperation of façades."),
    passage("h09", "潮汐表每六小时更新一次。"),
    passage("h10", "停止loader之后航道关闭。"),
    passage("h11", "AND joins, OR splits, NOT denies, and NEAR is close by: in prose these are plain words."),
    passage("h12", "stern\x00bow"),
    passage("h13", "Moored boats are draining slowly."),
    passage("h99", "FIXME: drain C++ and near port 9090 in another version", version="5"),
]

HOSTILE = [
    # query, the ids it finds in version 4 (sorted)
    ("Keep-Alive", ["h01"]),
    ("max-stale", ["h01"]),
    ("io::reader_lock", ["h02"]),
    ("FIXME: guard", ["h02"]),
    ("text: guard", ["h02"]),
    ("{text version}: guard", ["h02"]),
    ("- text : guard", ["h02"]),
    ("@harbourmaster", ["h03"]),
    ("30 t/h", ["h03"]),
    ("7.12", ["h03"]),
    ("port:9090", ["h03"]),
    ("gate.hh", ["h02"]),
    ("#wharf 9% [pier] <jetty> q=z; x&y", []),
    ("C++", ["h04", "h05"]),
    ("F#", ["h04"]),
    (".NET", ["h04"]),
    ("drain_all_queues_first", ["h06"]),
    ("DRAIN_ALL_QUEUES_FIRST", ["h06"]),
    ("drain_all_queues_last", ["h06"]),
    ("queues", ["h06"]),
    ("drain*", ["h06"]),
    ("drai*", []),
    ("(drain", ["h06"]),
    ("drain)", ["h06"]),
    ("^drain", ["h06"]),
    ('drain" OR "joins', ["h06", "h11"]),
    ('"unfinished guard', ["h02"]),
    ('guard""""', ["h02"]),
    ("'guard'); DROP TABLE passage; --", ["h02"]),
    ("guard+io", ["h02"]),
    ("guard AND wharf", ["h02", "h11"]),
    ("guard NOT io", ["h02", "h11"]),
    ('NEAR("guard gate", 1)', ["h02", "h11"]),
    ("AND", ["h11"]),
    ("OR OR", ["h11"]),
    ("NOT", ["h11"]),
    ("NEAR", ["h11"]),
    ("rank", []),
    ("rank: *", []),
    ("l'été", ["h07"]),
    ("ete", ["h07"]),
    ("foret", ["h07"]),
    ("FORÊT", ["h07"]),
    ("fore\u0302t", ["h07"]),
    ("naive facades", ["h08"]),
    ("潮汐表每六小时更新一次", ["h09"]),
    ("stern", ["h12"]),
    ("bow\x00", ["h12"]),
    ("wharf\x00stern", ["h12"]),
    ("\x00", []),
    ("%_", []),
    ("?1", []),
    ("\N{SAILBOAT} guard \N{SAILBOAT}", ["h02"]),
    ("gu\u200bard", []),
    ("\u202eguard", ["h02"]),
    ("guard\r\n\tio", ["h02"]),
]

# The pieces of random queries: each operator character of FTS5, words with power there, and what text can hold.
PIECES = [
    *"\"'()*+-:^{},.;!?%_#@&|<>=/\\[]~`$\x00\n\t\r\x1b\x85\xa0",
    "AND", "OR", "NOT", "NEAR", "NEAR(", '""', "text:", "rank", "-- ", "/*",
    "guard", "drain", "GUARD", "drain_all", "port", "9090", "7.12", "C++", "the", "stern", "bow", "a", "in", "x",
    "forêt", "fore\u0302t", "e\u0301\u0323", "\u0301", "\u20dd", "潮", "航道", "ก", "ไม่", "ß", "İ", "ǆ", "\U0001d400",
    "\N{SAILBOAT}", "\N{SAILBOAT}\ufe0f", "\U0001f468\u200d\U0001f469", "\u202e", "\ufeff", "\ue000", "\U0010ffff",
]


class Rankings(Retrieval):
    def test_the_recorded_rankings_come_out(self) -> None:
        """The 13 distinct searches of the published run give the candidates they gave that day, in that order."""
        recorded: dict[tuple[str, str], list[Any]] = {}
        for trial in read_shipped("recordings", "published", "report.json")["trials"]:
            for step in trial["result"]["observations"]:
                if step["tool"] == "search":
                    key, found = (trial["result"]["version"], step["result"]["query"]), step["result"]["candidates"]
                    self.assertEqual(recorded.setdefault(key, found), found)
        self.assertEqual(len(recorded), 13)
        index = self.index(*read_shipped("snapshot.json")["passages"])
        for (version, query), candidates in recorded.items():
            with self.subTest(query=query, version=version):
                found = [{"source_id": at.source_id, "rank": rank, "version": at.version}
                         for rank, at in enumerate(index.search(query, version, 2).passages, 1)]
                self.assertEqual(found, candidates)

    def test_nothing_in_a_query_is_syntax(self) -> None:
        """Operators, quotes, stars, columns and brackets are text: each word is looked for as it stands."""
        index, reference = self.index(*HARBOUR), self.reference(HARBOUR)
        for query, expected in HOSTILE:
            with self.subTest(query=query):
                ranking = index.search(query, "4", 10)
                self.assertEqual(sorted(at.source_id for at in ranking.passages), expected)
                self.assertEqual(self.found(index, query), reference.search(query, "4", 10))
                self.assertEqual(ranking.outcome is Outcome.FOUND, bool(expected))

    def test_the_best_match_comes_first(self) -> None:
        """BM25: more of the query's words, and rarer ones, rank higher."""
        index = self.index(*HARBOUR)
        for query, first in (("drain_all_queues_first", "h06"), ("C++ .NET loader", "h04"), ("guard port 9090", "h03")):
            with self.subTest(query=query):
                self.assertEqual(self.found(index, query)[0], first)

    def test_any_text_is_a_query_and_gives_what_its_quoted_terms_give(self) -> None:
        """No random query raises, and each gives what an independent search for its quoted terms gives."""
        index, reference, chance = self.index(*HARBOUR), self.reference(HARBOUR), random.Random(20261025)
        outcomes = set()
        for number in range(FUZZED_QUERIES):
            query = "".join(chance.choice(PIECES) + chance.choice(("", "", " ")) for _ in range(chance.randint(0, 9)))
            version, limit = chance.choice("45"), chance.choice((1, 2, 100))
            ranking = index.search(query, version, limit)
            outcomes.add(ranking.outcome)
            expected = reference.search(query, version, limit)
            self.assertEqual([at.source_id for at in ranking.passages], expected, (number, query))
            unsearchable = not reference.counts(query)
            self.assertEqual(ranking.outcome is Outcome.NO_SEARCHABLE_TERM, unsearchable, (number, query))
        self.assertEqual(outcomes, set(Outcome))

    def test_half_a_surrogate_pair_raises_nothing_of_its_own(self) -> None:
        """A str that has no UTF-8 form (an undecodable command line) is a query like any other, or a failed search."""
        index = self.index(*HARBOUR)
        for query in ("\ud800", "guard \udcff"):
            with self.subTest(query=query):
                try:
                    index.search(query, "4", 10)
                except SearchFailed:
                    pass
                except UnicodeError as error:
                    self.fail(f"{error!r} is neither a ranking nor SearchFailed")

    def test_the_version_is_chosen_before_the_limit(self) -> None:
        """Passages of another version, however many and however well they match, take no place in the result."""
        strong = [passage(f"old-{n:02}", "delta delta delta delta brief", "1.0") for n in range(60)]
        weak = "one lengthy line that speaks of delta once between a good many words that only fill it up"
        wanted = [passage(f"new-{n}", weak, "2.0") for n in range(3)]
        for name, passages in {"forwards": strong + wanted, "backwards": (strong + wanted)[::-1]}.items():
            index = self.index(*passages)
            for limit, expected in ((5, ["new-0", "new-1", "new-2"]), (2, ["new-0", "new-1"]), (1, ["new-0"])):
                with self.subTest(order=name, limit=limit):
                    self.assertEqual(self.found(index, "delta", "2.0", limit), expected)
            with self.subTest(order=name):
                self.assertEqual(self.found(index, "delta", "1.0", 100), [f"old-{n:02}" for n in range(60)])

    def test_the_order_of_the_passages_in_the_file_does_not_matter(self) -> None:
        """Shuffled snapshots rank alike."""
        queries, chance = [query for query, _ in HOSTILE], random.Random(7)
        first = self.index(*HARBOUR)
        expected = [self.found(first, query) for query in queries]
        for attempt in range(4):
            shuffled = HARBOUR[:]
            chance.shuffle(shuffled)
            index = self.index(*shuffled)
            with self.subTest(attempt=attempt):
                self.assertEqual([self.found(index, query) for query in queries], expected)

    def test_equal_scores_come_in_the_order_of_their_ids(self) -> None:
        """Ties are broken by id, as text: upper case first, 10 before 9, and by nothing else."""
        ids = ["b", "a", "B", "p10", "p9", "é", "潮", "z"]
        index = self.index(*(passage(source_id, "the very same words") for source_id in ids))
        self.assertEqual(self.found(index, "same"), sorted(ids))
        self.assertEqual(self.found(index, "words very", limit=3), sorted(ids)[:3])

    def test_one_id_in_two_versions_is_two_passages(self) -> None:
        """Search and passage give the one of the version asked for."""
        index = self.index(passage("page", "tide at noon", "1"), passage("page", "tide at night", "2"))
        for version, text in (("1", "tide at noon"), ("2", "tide at night")):
            with self.subTest(version=version):
                self.assertEqual([at.text for at in index.search("tide", version, 10).passages], [text])
                held = index.passage("page", version)
                self.assertEqual(held and held.text, text)
        for version in ("0", "3", "1.0", ""):
            self.assertIsNone(index.passage("page", version))
        self.assertIsNone(index.passage("other", "1"))

    def test_a_result_carries_the_whole_passage(self) -> None:
        """All fields come back as they stood in the file; a title that was not given is empty."""
        named, plain = passage("n", "tide table\n\n  with a gap", title="Tides"), passage("p", "tide")
        index = self.index(named, plain)
        found = {at.source_id: at._asdict() for at in index.search("tide", "4", 10).passages}
        self.assertEqual(found, {"n": {**named, "aliases": ()}, "p": {**plain, "title": "", "aliases": ()}})

    def test_a_limit_out_of_range_is_refused(self) -> None:
        """Never all rows: 1 to 100, and nothing else."""
        index = self.index(*(passage(f"{n:03}", "buoy") for n in range(120)))
        for limit in (0, -1, 101, 10**9, 2**63):
            with self.subTest(limit=limit), self.assertRaisesRegex(ValueError, rf"{limit}.*1 to 100"):
                index.search("buoy", "4", limit)
        for limit in (1, 100):
            with self.subTest(limit=limit):
                self.assertEqual(len(self.found(index, "buoy", limit=limit)), limit)

    def test_an_unknown_version_is_refused_with_those_there_are(self) -> None:
        """It is a mistake, not an empty result; the known ones are listed as numbers sort, not as text."""
        versions = ["3.10", "10", "3.9", "3.9.1", "9.1", "3.2"]
        index = self.index(*(passage("buoy", "buoy", version) for version in versions))
        ordered = ("3.2", "3.9", "3.9.1", "3.10", "9.1", "10")
        self.assertEqual(index.versions, ordered)
        for version in ("9.9", "3", "", "3.1", "3.10 ", "3.1%"):
            with self.subTest(version=version), self.assertRaises(ValueError) as caught:
                index.search("buoy", version, 5)
            self.assertIn(", ".join(ordered), str(caught.exception))


# --- Three outcomes and a failure -------------------------------------------------------------------------------------


class Outcomes(Retrieval):
    def test_nothing_matched_and_nothing_searchable_are_told_apart(self) -> None:
        """An empty result says why it is empty."""
        index = self.index(*HARBOUR)
        for query, outcome in (
            ("guard", Outcome.FOUND),
            ("AND_joins", Outcome.FOUND),
            ("wharf", Outcome.NOTHING_MATCHED),
            *((text, Outcome.NO_SEARCHABLE_TERM) for text in ("", " \t\n", "?!... -- ()", "\N{SAILBOAT}", "\x00", '"')),
        ):
            with self.subTest(query=query):
                ranking = index.search(query, "4", 10)
                self.assertIs(ranking.outcome, outcome)
                self.assertEqual(bool(ranking.passages), outcome is Outcome.FOUND)

    def test_what_matches_only_in_another_version_is_nothing_matched(self) -> None:
        """The filter leaves nothing over, and that is said as such."""
        self.assertIs(self.index(*HARBOUR).search("another", "4", 10).outcome, Outcome.NOTHING_MATCHED)

    def test_a_broken_database_is_a_failed_search(self) -> None:
        """Closed or damaged under the index: SearchFailed, never an empty result, also for words asked before."""
        damages: dict[str, Callable[[Index], Any]] = {
            "closed": lambda index: index._database.close(),
            "no passages": lambda index: index._database.execute("DROP TABLE passage"),
            "no full text": lambda index: index._database.execute("DROP TABLE passages"),
            "no way to cut": lambda index: index._database.execute("DROP TABLE cut"),
        }
        for name, damage in damages.items():
            for query in ("guard", "words never asked before"):
                index = self.index(*HARBOUR)
                index.search("guard", "4", 10)
                damage(index)
                if name == "no way to cut" and query == "guard":
                    continue  # its terms may be known
                with self.subTest(damage=name, query=query), self.assertRaises(SearchFailed):
                    index.search(query, "4", 10)

    def test_each_question_to_a_closed_index_fails_by_that_name(self) -> None:
        """terms and passage too; the message says something."""
        index = self.index(*HARBOUR)
        index.close()
        for name, ask in {
            "search": lambda: index.search("guard", "4", 1), "terms": lambda: index.terms("guard"),
            "passage": lambda: index.passage("h01", "4"),
        }.items():
            with self.subTest(asked=name), self.assertRaises(SearchFailed) as caught:
                ask()
            self.assertTrue(str(caught.exception))


class NoIndex(Retrieval):
    def build_over(self, message: str) -> IndexFault:
        """The fault that building an index raises when SQLite says `message`."""
        database = mock.Mock()
        database.executescript.side_effect = sqlite3.OperationalError(message)
        with mock.patch("sqlite3.connect", return_value=database), self.assertRaises(IndexFault) as caught:
            Index(load_snapshot(document(*HARBOUR)))
        database.close.assert_called_once_with()
        return caught.exception

    def test_sqlite_without_fts5_is_named_with_what_to_do(self) -> None:
        """One line: FTS5, the SQLite version found, and a way out."""
        fault = str(self.build_over("no such module: fts5"))
        for part in ("FTS5", sqlite3.sqlite_version, "use a Python"):
            with self.subTest(part=part):
                self.assertIn(part, fault)
        self.assertNotIn("\n", fault)

    def test_another_failure_is_not_taken_for_missing_fts5(self) -> None:
        """It is told as what it is."""
        for message in ("disk I/O error", "out of memory", "database is locked"):
            with self.subTest(message=message):
                fault = str(self.build_over(message))
                self.assertIn(message, fault)
                self.assertNotIn("FTS5", fault)


# --- Terms ------------------------------------------------------------------------------------------------------------


class Terms(Retrieval):
    def test_terms_keep_their_order_and_repetition(self) -> None:
        """Case and accents fold away; everything but letters, digits and private use separates."""
        index = self.index(*HARBOUR)
        for text, expected in (
            ("One two, ONE!", ("one", "two", "one")), ("drain_all-queues", ("drain", "all", "queues")),
            ("C++ 7.12", ("c", "7", "12")), ("Forêt fore\u0302t", ("foret", "foret")), ("don't", ("don", "t")),
            ("潮汐表 tide", ("潮汐表", "tide")), ("a\x00b", ("a", "b")), ("\ue000", ("\ue000",)),
            ("", ()), ("\N{SAILBOAT} -- !", ()),
        ):
            with self.subTest(text=text):
                self.assertEqual(index.terms(text), expected)
                self.assertEqual(index.terms(text), expected)  # asked again

    def test_terms_are_cut_as_the_index_cuts(self) -> None:
        """For random texts: what terms gives is what a real table lists, and each term alone finds the passage."""
        chance = random.Random(612)
        texts = [text for text in (self.random_text(chance) for _ in range(FUZZED_TEXTS)) if text.strip()]
        passages = [passage(f"t{at:03}", text) for at, text in enumerate(texts)]
        index, reference = self.index(*passages), self.reference(passages)
        checked = 0
        for at, text in enumerate(texts):
            terms = index.terms(text)
            self.assertEqual({term: terms.count(term) for term in terms}, reference.counts(text), (at, text))
            alone = self.index(passages[at])
            for term in set(terms):
                self.assertEqual(self.found(alone, term), [f"t{at:03}"], (at, text, term))
                self.assertIn(f"t{at:03}", self.found(index, term, limit=100), (at, text, term))
                checked += 1
        self.assertGreater(checked, 200)

    @staticmethod
    def random_text(chance: random.Random) -> str:
        """Letters, marks, digits and symbols of many scripts, mixed."""
        ranges = ((0, 0x24F), (0x300, 0x36F), (0x370, 0x5FF), (0x600, 0x10FF), (0x1E00, 0x2BFF), (0x3000, 0x9FFF),
                  (0xAC00, 0xD7A3), (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x10FFFF))
        return "".join(
            " " if chance.random() < 0.15 else chr(chance.randint(*chance.choice(ranges)))
            for _ in range(chance.randint(1, 40)))

    def test_characters_of_unspaced_scripts_are_set_apart(self) -> None:
        """spaced leaves other text as it is."""
        for text, expected in (
            ("plain ascii", "plain ascii"), ("forêt", "forêt"), ("한국어 말", "한국어 말"), ("", ""),
            ("潮汐 ok", " 潮  汐  ok"), ("カモメ", " カ  モ  メ "), ("\uff76", " \uff76 "), ("ภาษา", " ภ  า  ษ  า "),
            ("\U00020000", " \U00020000 "),
        ):
            with self.subTest(text=text):
                self.assertEqual(retrieval.spaced(text), expected)
                self.assertEqual("".join(retrieval.spaced(text).split()), "".join(text.split()))


# --- Snapshots --------------------------------------------------------------------------------------------------------

SHAPE = 'a snapshot is an object {"profile": "plain", "passages": [...]}'
ID_RULE = "source_id: no white space, quotes or controls, at most 200 characters"
GOOD = passage("buoy", "A buoy is moored.")
HASH = GOOD["text_sha256"]


def without(name: str) -> dict[str, Any]:
    """The good passage without one field."""
    return {key: value for key, value in GOOD.items() if key != name}


FAULTY: list[tuple[str, Any, list[str]]] = [
    # what is wrong, the document, every line
    ("a list", [], [SHAPE]),
    ("null", None, [SHAPE]),
    ("a string", "plain", [SHAPE]),
    ("an empty object", {}, [SHAPE]),
    ("passages that are an object", {"profile": "plain", "passages": {}}, [SHAPE]),
    ("no passage", document(), ["passages: there is none"]),
    ("another profile", document(GOOD, profile="fancy"), ["profile: 'fancy'; it can be plain, documents"]),
    ("a profile that is a list", document(GOOD, profile=["plain"]), ["profile: ['plain']; it can be plain, documents"]),
    ("no profile", {"passages": [GOOD]}, ["profile: None; it can be plain, documents"]),
    ("a field beside", document(GOOD, note="x"), ["unknown field 'note'"]),
    ("a field too many", document({**GOOD, "lang": "en"}), ["passage 'buoy': unknown field 'lang'"]),
    ("no object", document("buoy", None, [GOOD]),
     ["passages[0]: not an object", "passages[1]: not an object", "passages[2]: not an object"]),
    ("no id", document(without("source_id")), ["passages[0]: source_id: missing"]),
    ("no version", document(without("version")), ["passage 'buoy': version: missing"]),
    ("no text", document(without("text")), ["passage 'buoy': text: missing"]),
    ("no url", document(without("url")), ["passage 'buoy': url: missing"]),
    ("no hash", document(without("text_sha256")), ["passage 'buoy': text_sha256: missing"]),
    ("an empty object among passages", document({}),
     [f"passages[0]: {name}: missing" for name in ("source_id", "version", "text", "url", "text_sha256")]),
    ("a number for a version", document({**GOOD, "version": 4}), ["passage 'buoy': version: must be a string, not 4"]),
    ("a number for an id", document({**GOOD, "source_id": 7}), ["passages[0]: source_id: must be a string, not 7"]),
    ("null for a title", document({**GOOD, "title": None}), ["passage 'buoy': title: must be a string, not None"]),
    ("true for a text", document({**GOOD, "text": True}), ["passage 'buoy': text: must be a string, not True"]),
    ("a blank text", document({**GOOD, "text": " \n"}), ["passage 'buoy': text: blank"]),
    ("a blank url", document({**GOOD, "url": ""}), ["passage 'buoy': url: blank"]),
    ("a blank id", document({**GOOD, "source_id": " "}), ["passage ' ': source_id: blank"]),
    ("another text's hash", document({**GOOD, "text_sha256": "0" * 64}),
     [f"passage 'buoy': text_sha256: is '{'0' * 64}', and the text's is {HASH}"]),
    ("the hash in upper case", document({**GOOD, "text_sha256": HASH.upper()}),
     [f"passage 'buoy': text_sha256: is '{HASH.upper()}', and the text's is {HASH}"]),
    ("one id twice", document(GOOD, GOOD), ["passage 'buoy': source_id: stands twice in version 4"]),
    ("one id three times", document(GOOD, GOOD, GOOD), ["passage 'buoy': source_id: stands twice in version 4"] * 2),
    ("several faults in several places", document(
        {**GOOD, "url": ""}, {**without("text"), "extra": 1}, GOOD, passage("x y", "z", "v1"), GOOD,
        profile="", more=1),
     ["unknown field 'more'", "profile: ''; it can be plain, documents", "passage 'buoy': url: blank",
      "passage 'buoy': unknown field 'extra'", "passage 'buoy': text: missing", f"passage 'x y': {ID_RULE}",
      "passage 'x y': version: 'v1' is not one to three numbers joined by dots",
      "passage 'buoy': source_id: stands twice in version 4"]),
]

BAD_IDS = ["a b", "a\tb", "a\n", "\ra", "a\x00", "a\x1b[2J", "a\x7f", "a\x85", "a\x9bm", "a\xa0b", "a\u2028b",
           "a\u202eb", "a\u200bb", "a\xadb", "\ufeffa", "a\u2066b", "a\u3000b", 'a"b', "a'b", "a`b", "i" * 201]
GOOD_IDS = ["a", "path/to#part", "a-b_c.d:e", "配置", "é", "0", "i" * 200, "潮" * 200, "\N{SAILBOAT}", "a[0](b){c}"]

BAD_VERSIONS = ["v1", "1.", ".1", "1..2", "1.2.3.4", "1 ", "1\n", "latest", "-1", "1,2", "\u0661", "1.2b1", "1" * 21,
                "1234567.1234567.12345"]
GOOD_VERSIONS = ["0", "1", "3.12", "3.12.1", "2026.10.25", "1" * 20, "123456.123456.123456"]


class Snapshots(Retrieval):
    def faults(self, content: Any) -> list[str]:
        """Every fault of a document."""
        with self.assertRaises(SnapshotFaults) as caught:
            load_snapshot(content)
        return caught.exception.faults

    def test_the_shipped_snapshot_is_read_as_written(self) -> None:
        """Four passages, in the file's order, each field as it stands there."""
        content = read_shipped("snapshot.json")
        snapshot = load_snapshot(content)
        as_read = [{name: value for name, value in at._asdict().items() if value} for at in snapshot.passages]
        self.assertEqual(as_read, content["passages"])
        self.assertEqual(snapshot.profile, content["profile"])

    def test_every_fault_has_its_line_and_all_are_told_at_once(self) -> None:
        """By passage and field."""
        for name, content, expected in FAULTY:
            with self.subTest(wrong=name):
                self.assertEqual(self.faults(content), expected)

    def test_the_message_has_every_fault(self) -> None:
        """For whoever shows only the exception."""
        with self.assertRaises(SnapshotFaults) as caught:
            load_snapshot(document({**GOOD, "url": "", "text": ""}))
        self.assertEqual(str(caught.exception), "passage 'buoy': text: blank; passage 'buoy': url: blank")

    def test_one_id_may_stand_in_two_versions(self) -> None:
        """Only within one version it is told as repeated."""
        snapshot = load_snapshot(document(GOOD, passage("buoy", "Another.", "5")))
        self.assertEqual([(at.source_id, at.version) for at in snapshot.passages], [("buoy", "4"), ("buoy", "5")])

    def test_ids_hold_nothing_that_a_line_or_a_quote_could_end_with(self) -> None:
        """No white space, quotes, controls; 200 characters, not 201."""
        for source_id in BAD_IDS:
            with self.subTest(source_id=source_id):
                faults = self.faults(document(passage(source_id, "text")))
                self.assertEqual(faults, [f"passage {source_id!r}: {ID_RULE}"])
        for source_id in GOOD_IDS:
            with self.subTest(source_id=source_id):
                self.assertEqual(load_snapshot(document(passage(source_id, "text"))).passages[0].source_id, source_id)

    def test_versions_are_one_to_three_numbers(self) -> None:
        """ASCII digits joined by dots, at most 20 characters."""
        for version in BAD_VERSIONS:
            with self.subTest(version=version):
                expected = f"passage 'x': version: {version!r:.60} is not one to three numbers joined by dots"
                self.assertEqual(self.faults(document(passage("x", "text", version))), [expected])
        for version in GOOD_VERSIONS:
            with self.subTest(version=version):
                self.assertEqual(load_snapshot(document(passage("x", "text", version))).passages[0].version, version)

    def test_no_fault_is_longer_for_a_huge_value(self) -> None:
        """A wrong value is quoted only by its beginning."""
        huge = "y" * 100_000
        for content in (
            document({**GOOD, "text": [huge]}), document({**GOOD, "version": huge}),
            document({**GOOD, "text_sha256": huge}), document({**GOOD, "source_id": huge}),
            document({**GOOD, huge: ""}), document(GOOD, profile=huge), document(GOOD, **{huge: 1}),
        ):
            with self.subTest(content=str(content)[:60]):
                self.assertLess(max(map(len, self.faults(content))), 400)

    def test_whatever_json_holds_raises_only_snapshot_faults(self) -> None:
        """Random values and good documents with random damage: faults that are lines, or a snapshot."""
        chance, refused = random.Random(11), 0
        for number in range(FUZZED_DOCUMENTS):
            content = self.damaged(chance) if number % 2 else self.random_json(chance, 4)
            try:
                snapshot = load_snapshot(content)
            except SnapshotFaults as error:
                refused += 1
                self.assertTrue(error.faults, content)
                self.assertTrue(all(isinstance(line, str) and line for line in error.faults), content)
            else:
                self.assertTrue(snapshot.passages, content)
        self.assertGreater(refused, FUZZED_DOCUMENTS // 2)
        self.assertLess(refused, FUZZED_DOCUMENTS)

    def test_half_a_surrogate_pair_is_a_fault_too(self) -> None:
        """JSON can spell it, and it has no UTF-8 form: told as a fault wherever it stands."""
        for name in GOOD:
            with self.subTest(field=name), self.assertRaises(SnapshotFaults):
                load_snapshot(document({**GOOD, name: GOOD[name] + "\ud800"}))

    @staticmethod
    def random_json(chance: random.Random, depth: int) -> Any:
        """Any JSON value, with the fields of a snapshot among its names."""
        simple = (None, True, False, 0, -1, 1.5, 10**40, math.inf, "", " ", "plain", "4", "buoy", "\x00", "潮", HASH)
        kind = chance.random()
        if depth == 0 or kind < 0.35:
            return chance.choice(simple)
        inner = (Snapshots.random_json(chance, depth - 1) for _ in range(chance.randint(0, 4)))
        if kind < 0.6:
            return list(inner)
        return {chance.choice(("profile", "passages", *GOOD, "title", "", "x")): value for value in inner}

    @staticmethod
    def damaged(chance: random.Random) -> Any:
        """A good document with at most a few fields exchanged, added or taken away."""
        content = document(dict(GOOD), passage("pier", "Piers.", "5", title="t"), passage("buoy", "Other.", "5"))
        for _ in range(chance.randint(0, 2)):
            target = chance.choice([content, *(at for at in content["passages"] if isinstance(at, dict))])
            name = chance.choice([*target, "extra"])
            if chance.random() < 0.3:
                target.pop(name, None)
            else:
                target[name] = Snapshots.random_json(chance, 2)
            if not isinstance(content.get("passages"), list):
                break
        return content


if __name__ == "__main__":
    unittest.main()
