"""retrieval finds: it checks a snapshot of passages, indexes it with SQLite FTS5, and ranks passages for a query.

It never knows of models, trials, limits or labels, and it is given objects, not files. Query text is never FTS5 syntax:
a query is cut into terms by the index's own tokenizer, and only those terms, quoted, reach MATCH.

| section | what it has |
| --- | --- |
| Passages | Passage, Snapshot, load_snapshot, SnapshotFaults |
| Terms | spaced, for scripts that are written without spaces |
| The index | Index: terms, search, passage; Outcome, Ranking, SearchFailed, IndexFault |
"""

import functools
import hashlib
import re
import sqlite3
from enum import StrEnum
from typing import Any, NamedTuple

# === Passages =========================================================================================================

_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){0,2}")
_UNSAFE = re.compile(r"[\s\"'`\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]")
LONGEST_ID = 200
PROFILES = ("plain",)


class Passage(NamedTuple):
    """One piece of documentation. `text_sha256` is of the UTF-8 bytes of `text`; `title` may be empty.

    `aliases` are other addresses, `path#anchor`, at which a reader finds the same passage.
    """

    source_id: str
    version: str
    text: str
    url: str
    text_sha256: str
    title: str = ""
    aliases: tuple[str, ...] = ()


class Snapshot(NamedTuple):
    """The frozen set of passages that a run may use, and the profile of the index over them."""

    profile: str
    passages: tuple[Passage, ...]


class SnapshotFaults(ValueError):
    """A snapshot that cannot be used; `faults` has every fault of it, a line each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


def load_snapshot(document: Any) -> Snapshot:
    """The snapshot that a parsed JSON document `{"profile", "passages"}` describes; raises SnapshotFaults."""
    if not isinstance(document, dict) or not isinstance(document.get("passages"), list):
        raise SnapshotFaults(['a snapshot is an object {"profile": "plain", "passages": [...]}'])
    faults = [f"unknown field {name!r:.60}" for name in document if name not in ("profile", "passages")]
    if document.get("profile") not in PROFILES:
        faults.append(f"profile: {document.get('profile')!r:.60}; it can be {', '.join(PROFILES)}")
    if not document["passages"]:
        faults.append("passages: there is none")
    seen: set[tuple[Any, Any]] = set()
    for at, value in enumerate(document["passages"]):
        named = isinstance(value, dict) and isinstance(value.get("source_id"), str)
        where = f"passage {value['source_id']!r:.210}" if named else f"passages[{at}]"
        found = _passage_faults(value)
        if not found and (value["version"], value["source_id"]) in seen:
            found = [f"source_id: stands twice in version {value['version']}"]
        elif not found:
            seen.add((value["version"], value["source_id"]))
        faults += [f"{where}: {fault}" for fault in found]
    if faults:
        raise SnapshotFaults(faults)
    passages = ({**value, "aliases": tuple(value.get("aliases", ()))} for value in document["passages"])
    return Snapshot(document["profile"], tuple(Passage(**value) for value in passages))


def _passage_faults(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return ["not an object"]
    faults = [f"unknown field {name!r:.60}" for name in value if name not in Passage._fields]
    for name in Passage._fields[:-1]:
        if name not in value and name != "title":
            faults.append(f"{name}: missing")
        elif type(value.get(name, "")) is not str:
            faults.append(f"{name}: must be a string, not {value[name]!r:.60}")
        elif re.search("[\ud800-\udfff]", value.get(name, "")):
            faults.append(f"{name}: has half of a surrogate pair")
        elif name != "title" and not value[name].strip():
            faults.append(f"{name}: blank")
    aliases = value.get("aliases", [])
    if not isinstance(aliases, list) or not all(type(at) is str and _addressable(at) for at in aliases):
        faults.append("aliases: must be a list of addresses, each without white space, quotes and controls")
    return faults or list(_wrong_values(Passage(**value)))


def _wrong_values(passage: Passage) -> list[str]:
    faults = []
    if not _addressable(passage.source_id):
        faults.append(f"source_id: no white space, quotes or controls, at most {LONGEST_ID} characters")
    if not _VERSION.fullmatch(passage.version) or len(passage.version) > 20:
        faults.append(f"version: {passage.version!r:.60} is not one to three numbers joined by dots")
    actual = text_sha256(passage.text)
    if passage.text_sha256 != actual:
        faults.append(f"text_sha256: is {passage.text_sha256!r:.70}, and the text's is {actual}")
    return faults


def _addressable(source_id: str) -> bool:
    return 0 < len(source_id) <= LONGEST_ID and not _UNSAFE.search(source_id)


def text_sha256(text: str) -> str:
    """The SHA-256 of a text's UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


# === Terms ============================================================================================================

# Thai, Lao, Burmese, Khmer; kana; Han with its extensions and compatibility forms; half-width kana.
_UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]"
)


def spaced(text: str) -> str:
    """The text with each character of a script written without spaces standing by itself."""
    return text if text.isascii() else re.sub(_UNSPACED, r" \g<0> ", text)


# === The index ========================================================================================================

MOST_RESULTS = 100
SQLITE_VERSION = sqlite3.sqlite_version
_SCHEMA = """
PRAGMA journal_mode = OFF;
CREATE TABLE passage (source_id TEXT, version TEXT, text TEXT, url TEXT, text_sha256 TEXT, title TEXT);
CREATE UNIQUE INDEX passage_id ON passage (version, source_id);
CREATE VIRTUAL TABLE passages USING fts5(text, content='passage', tokenize='unicode61');
CREATE VIRTUAL TABLE cut USING fts5(text, tokenize='unicode61');
CREATE VIRTUAL TABLE cut_term USING fts5vocab(cut, 'instance');
"""
_COLUMNS = ", ".join(Passage._fields[:-1])


class Outcome(StrEnum):
    """What came of a search that did not fail."""

    FOUND = "found"
    NOTHING_MATCHED = "nothing_matched"
    NO_SEARCHABLE_TERM = "no_searchable_term"


class Ranking(NamedTuple):
    """Passages, best first, and the outcome that says why there may be none."""

    outcome: Outcome
    passages: tuple[Passage, ...]


class SearchFailed(Exception):
    """The database could not answer. Never to be shown as an empty result."""


class IndexFault(Exception):
    """No index can be had here: the SQLite library lacks FTS5, or it failed."""


class Index:
    """An FTS5 index in memory over one snapshot.

    Terms are those of FTS5's own `unicode61` tokenizer: runs of letters and digits, case folded and diacritics removed;
    everything else only separates. Rows lie sorted by version and id, so a version is one range of rowids, and equal
    scores come out in the order of their ids.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.profile = snapshot.profile
        self._database = sqlite3.connect(":memory:", isolation_level=None)
        self._cut_once = functools.lru_cache(maxsize=256)(self._cut)
        rows = sorted(snapshot.passages, key=lambda passage: (passage.version, passage.source_id))
        try:
            self._database.executescript(_SCHEMA)
            insert = f"INSERT INTO passage (rowid, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
            with self._database:
                self._database.executemany(insert, ((at, *row[:-1]) for at, row in enumerate(rows, 1)))
                self._database.execute("INSERT INTO passages (passages) VALUES ('rebuild')")
            query = "SELECT version, min(rowid), max(rowid) FROM passage GROUP BY version ORDER BY min(rowid)"
            self._ranges = {version: (low, high) for version, low, high in self._database.execute(query)}
        except sqlite3.Error as error:
            self.close()
            if "no such module" in str(error):
                raise IndexFault(
                    f"SQLite {sqlite3.sqlite_version} of this Python has no FTS5 ({error}); use a Python whose SQLite "
                    f"has it, such as one from python.org or of a current distribution") from None
            raise IndexFault(f"SQLite {sqlite3.sqlite_version} could not build the index: {error}") from None

    def close(self) -> None:
        """Give the database back."""
        self._database.close()

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that have passages, sorted as numbers."""
        return tuple(sorted(self._ranges, key=lambda version: [int(part) for part in version.split(".")]))

    def terms(self, text: str) -> tuple[str, ...]:
        """The terms of a text in order, repeated ones too, cut by the index's own tokenizer; may raise SearchFailed."""
        return self._cut_once(text)

    def _cut(self, text: str) -> tuple[str, ...]:
        try:
            self._database.execute("REPLACE INTO cut (rowid, text) VALUES (1, ?)", (text,))
            return tuple(term for (term,) in self._database.execute("SELECT term FROM cut_term ORDER BY offset"))
        except (sqlite3.Error, UnicodeEncodeError) as error:
            raise SearchFailed(str(error)) from None

    def search(self, query: str, version: str, limit: int) -> Ranking:
        """At most `limit` (1 to 100) passages of one version for a query of any text, by BM25, ties by id.

        Raises ValueError for a limit out of range or a version the snapshot does not have, SearchFailed when SQLite
        cannot answer.
        """
        if version not in self._ranges:
            raise ValueError(f"no passage of version {version}; there are {', '.join(self.versions)}")
        if type(limit) is not int or not 1 <= limit <= MOST_RESULTS:
            raise ValueError(f"the number of results is {limit}; it can be 1 to {MOST_RESULTS}")
        terms = dict.fromkeys(self.terms(query))
        if not terms:
            return Ranking(Outcome.NO_SEARCHABLE_TERM, ())
        match = " OR ".join(f'"{term}"' for term in terms)
        found = self._select(
            f"SELECT {', '.join('passage.' + name for name in Passage._fields[:-1])} FROM passages "
            f"JOIN passage ON passage.rowid = passages.rowid WHERE passages MATCH ? "
            f"AND passages.rowid BETWEEN ? AND ? ORDER BY bm25(passages), passages.rowid LIMIT ?",
            (match, *self._ranges[version], limit))
        return Ranking(Outcome.FOUND if found else Outcome.NOTHING_MATCHED, found)

    def passage(self, source_id: str, version: str) -> Passage | None:
        """The passage as it stands in the index now; may raise SearchFailed."""
        query = f"SELECT {_COLUMNS} FROM passage WHERE version = ? AND source_id = ?"
        return next(iter(self._select(query, (version, source_id))), None)

    def _select(self, query: str, values: tuple[Any, ...]) -> tuple[Passage, ...]:
        try:
            return tuple(Passage(*row) for row in self._database.execute(query, values))
        except sqlite3.Error as error:
            raise SearchFailed(str(error)) from None
