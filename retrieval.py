"""retrieval finds: it checks a snapshot of passages, indexes it with SQLite FTS5, and ranks passages for a query.

It never knows of models, trials, limits or labels, and it is given objects, not files. Query text is never FTS5 syntax:
a query is cut into terms by the index's own tokenizer, and only those terms, quoted, reach MATCH.

| section | what it has |
| --- | --- |
| Passages | Passage, Snapshot, load_snapshot, SnapshotFaults |
| Terms | spaced, for scripts that are written without spaces; what the documents profile indexes and searches |
| The index | Index: terms, search, snippet, passage; create_store, Outcome, Ranking, SearchFailed, IndexFault |
"""

import bisect
import contextlib
import functools
import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

# === Passages =========================================================================================================

_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){0,2}")
_UNSAFE = re.compile(r"[\s\"'`\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]")
LONGEST_ID = 200
PROFILES = ("plain", "documents")


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
# The English stop list of Snowball (snowballstem.org/algorithms/english/stop.txt), cut at apostrophes as an index is.
_FUNCTION_WORDS = frozenset("""
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its
itself they them their theirs themselves what which who whom this that these those am is are was were be been being have
has had having do does did doing would should could ought m re s ve d ll isn aren wasn weren hasn haven hadn doesn don
didn won wouldn shan shouldn can cannot couldn mustn t let a an the and but if or because as until while of at by for
with about against between into through during before after above below to from up down in out on off over under again
further then once here there when where why how all any both each few more most other some such no nor not only own same
so than too very
""".split())  # noqa: SIM905


def spaced(text: str) -> str:
    """The text with each character of a script written without spaces standing by itself."""
    return text if text.isascii() else re.sub(_UNSPACED, r" \g<0> ", text)


def _searched(text: str, profile: str) -> str:
    """The text as a profile indexes and searches it: documents in NFC, with unspaced scripts by character."""
    if profile == "plain" or text.isascii():
        return text
    import unicodedata  # not at the top: the plain profile has no use for it
    return spaced(unicodedata.normalize("NFC", text))


def _head(passage: Passage) -> str:
    """The breadcrumb and the words of the anchor, cut at camel case; the tokenizer cuts at `.`, `_` and `-`."""
    anchor = re.sub("~[0-9]+$", "", passage.source_id.partition("#")[2])
    return passage.title + " " + re.sub("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", anchor)


# === The index ========================================================================================================

MOST_RESULTS = 100
SQLITE_VERSION = sqlite3.sqlite_version
_FORMAT, _APPLICATION = 1, 0x6C616B69  # of a .sqlite snapshot: PRAGMA user_version and application_id
_TOKENIZERS = {"plain": "unicode61", "documents": "porter unicode61"}
_HEAD_WEIGHT, _SHARE_WEIGHT, _REORDERED_ABOVE, _FEW_PASSAGES = 3.0, 0.5, 20, 200
_COLUMNS = ", ".join(Passage._fields)
_SCHEMA = f"""
PRAGMA journal_mode = OFF; PRAGMA cache_size = -16384;
PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_FORMAT};
BEGIN;
CREATE TABLE snapshot (profile TEXT, fingerprint TEXT, seal INTEGER);
CREATE TABLE version (version TEXT, low INTEGER, high INTEGER);
CREATE TABLE passage ({_COLUMNS}, seal BLOB);
CREATE VIRTUAL TABLE passages USING fts5(text, head, content='', tokenize='TOKENIZER');
INSERT INTO passages (passages, rank) VALUES ('hashsize', 16777216);
"""
_CUT = """
PRAGMA temp_store = MEMORY; PRAGMA temp.journal_mode = OFF;
CREATE VIRTUAL TABLE temp.NAME USING fts5(text, tokenize='TOKENIZER');
CREATE VIRTUAL TABLE temp.NAME_term USING fts5vocab(temp, NAME, 'instance');
"""
# What decides the result of a search. Rows of `passage` have seals of their own, so that opening need not read them.
_SEALED = (
    *(f"SELECT * FROM passages_{name}" for name in ("config", "data", "idx")),
    "SELECT * FROM sqlite_master", "SELECT * FROM version", "SELECT profile, fingerprint FROM snapshot",
    "SELECT count(*), sum(id), CAST(group_concat(sz, '') AS BLOB) FROM passages_docsize",
    "PRAGMA quick_check(passages_idx)",  # the one table whose lost rows FTS5 would take for words that are not there
)


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
    """No index can be had: the SQLite library lacks FTS5 or failed, or the file is damaged or no snapshot of ours."""


def create_store(path: str, profile: str, passages: Iterable[Passage]) -> str:
    """Write a .sqlite snapshot of passages sorted by (version, source_id) to a new file; returns its fingerprint.

    The passages may be a stream; the same give the same bytes (with one SQLite). Raises SnapshotFaults for passages out
    of order or none, IndexFault when SQLite fails, and what the stream raises; the caller then removes the file.
    """
    with _indexing(_uri(path, "mode=rwc"), "could not write the snapshot") as database:
        fingerprint = _fill(database, profile, passages)
        database.execute("COMMIT")  # only now FTS5 has written all of its rows
        database.execute("UPDATE snapshot SET seal = ?", (_index_seal(database),))
        database.close()
    return fingerprint


@contextlib.contextmanager
def _indexing(uri: str, failed: str) -> Iterator[sqlite3.Connection]:
    """A database, closed when the block raises; SQLite's own errors in it become IndexFault."""
    database = None
    try:
        database = sqlite3.connect(uri, isolation_level=None, uri=True)
        yield database
    except BaseException as error:
        if database:
            database.close()
        if not isinstance(error, (sqlite3.Error, UnicodeError)):  # what SQLite says of a damaged name may be no text
            raise
        told = f"{failed}: {ascii(str(error))[1:-1]:.200}"
        if "no such module" in str(error):
            told = (f"of this Python has no FTS5 ({error}); use a Python whose SQLite has it, such as one from "
                    f"python.org or of a current distribution")
        raise IndexFault(f"SQLite {sqlite3.sqlite_version} {told}") from None


def _uri(path: str, query: str) -> str:
    """The `file:` address of a path (sqlite.org/uri.html), whatever characters its name has."""
    path = re.sub("[%?#]", lambda found: f"%{ord(found[0]):02x}", os.path.abspath(path).replace(os.sep, "/"))
    return f"file:///{path.lstrip('/')}?{query}"


def _fill(database: sqlite3.Connection, profile: str, passages: Iterable[Passage]) -> str:
    """Put sorted passages into new tables, in a transaction left open; returns their fingerprint: the SHA-256 of the
    canonical JSON (sorted keys, no spaces) of a .json snapshot of them in this order, no empty title or aliases in it.
    """
    database.executescript(_SCHEMA.replace("TOKENIZER", _TOKENIZERS[profile]))
    insert = f"INSERT INTO passage (rowid, {_COLUMNS}, seal) VALUES ({', '.join('?' * (len(Passage._fields) + 2))})"
    canonical = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
    digest, ranges, before, at = hashlib.sha256(b'{"passages":['), dict[str, list[int]](), ("", ""), 0
    for at, passage in enumerate(passages, 1):
        if before >= (before := (passage.version, passage.source_id)):
            raise SnapshotFaults([f"passage {passage.source_id!r}: stands twice or out of order in {passage.version}"])
        ranges.setdefault(passage.version, [at, at])[1] = at
        kept = {name: value for name, value in passage._asdict().items() if value}
        digest.update(("," * (at > 1) + canonical(kept)).encode("utf-8"))
        row = at, *passage[:-1], "\n".join(passage.aliases)
        database.execute(insert, (*row, _row_seal(row)))
        columns = at, _searched(passage.text, profile), _searched("" if profile == "plain" else _head(passage), profile)
        database.execute("INSERT INTO passages (rowid, text, head) VALUES (?, ?, ?)", columns)
    if not at:
        raise SnapshotFaults(["passages: there is none"])
    database.executemany("INSERT INTO version VALUES (?, ?, ?)", ((name, *ends) for name, ends in ranges.items()))
    digest.update(f'],"profile":"{profile}"}}'.encode())
    database.execute("INSERT INTO snapshot VALUES (?, ?, 0)", (profile, digest.hexdigest()))
    return digest.hexdigest()


def _row_seal(row: tuple[Any, ...]) -> bytes:
    """What tells a damaged row: a digest of its number and its values, whatever types they have."""
    return hashlib.sha256("\x1f".join(map(str, row)).encode("utf-8")).digest()[:8]


def _index_seal(database: sqlite3.Connection) -> int:
    """The CRC-32 of all that a search consults: it tells damage, not forgery, in half the time of a digest."""
    import zlib  # not at the top: an index in memory has no seal
    seal = 0
    for value in (value for query in _SEALED for row in database.execute(query) for value in row):
        seal = zlib.crc32(value if isinstance(value, bytes) else str(value).encode("utf-8"), seal)
    return seal


class Index:
    """An FTS5 index over one snapshot: in memory, or in the .sqlite file that `create_store` wrote.

    Terms are those of FTS5's own tokenizer: runs of letters and digits, case folded and diacritics removed; everything
    else only separates. The documents profile also stems them (Porter) and cuts unspaced scripts by character. Rows
    lie sorted by version and id, so a version is one range of rowids, and equal scores come out in the order of ids.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        with _indexing(":memory:", "could not build the index") as database:
            _fill(database, snapshot.profile, sorted(snapshot.passages, key=lambda at: (at.version, at.source_id)))
            database.execute("COMMIT")
            self._use(database)

    @classmethod
    def open(cls, path: str) -> "Index":
        """The index in a .sqlite snapshot, which is never written to; raises IndexFault when it cannot be trusted."""
        if not os.path.isfile(path):
            raise IndexFault("not an ordinary file, or not there")
        with _indexing(_uri(path, "mode=ro&immutable=1"), "finds the file damaged or no snapshot") as database:
            database.executescript("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")
            application, found = database.execute("SELECT * FROM pragma_application_id, pragma_user_version").fetchone()
            if application != _APPLICATION:
                raise IndexFault("not a snapshot of this kit: an SQLite database of something else")
            if found != _FORMAT:
                raise IndexFault(f"a snapshot of format {found}; this kit reads format {_FORMAT}: build it again")
            if database.execute("SELECT seal FROM snapshot").fetchall() != [(_index_seal(database),)]:
                raise IndexFault("the snapshot is damaged, its index is not what was built: build it again")
            return cls.__new__(cls)._use(database)

    def _use(self, database: sqlite3.Connection) -> "Index":
        self._database = database
        self._cut_once = functools.lru_cache(maxsize=256)(self._cut)
        self.profile, self.fingerprint = database.execute("SELECT profile, fingerprint FROM snapshot").fetchone()
        self._ranges = {version: (low, high) for version, low, high in database.execute("SELECT * FROM version")}
        self._words = "cut" if self.profile == "plain" else "word"
        for name, tokenizer in {self._words: "unicode61", "cut": _TOKENIZERS[self.profile]}.items():
            database.executescript(_CUT.replace("NAME", name).replace("TOKENIZER", tokenizer))
        return self

    def close(self) -> None:
        """Give the database back."""
        self._database.close()

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that have passages, sorted as numbers."""
        return tuple(sorted(self._ranges, key=lambda version: [int(part) for part in version.split(".")]))

    def count(self, version: str) -> int:
        """How many passages a version has."""
        low, high = self._ranges.get(version, (1, 0))
        return int(high - low + 1)

    def terms(self, text: str) -> tuple[str, ...]:
        """The terms of a text in order, repeated ones too, cut by the index's own tokenizer; may raise SearchFailed."""
        return self._cut_once("cut", text)

    def _cut(self, table: str, text: str) -> tuple[str, ...]:
        self._run(f"REPLACE INTO {table} (rowid, text) VALUES (1, ?)", _searched(text, self.profile))
        return tuple(term for (term,) in self._run(f"SELECT term FROM {table}_term ORDER BY offset"))

    def search(self, query: str, version: str, limit: int) -> Ranking:
        """At most `limit` (1 to 100) passages of one version for a query of any text, by BM25, ties by id.

        The documents profile counts a word of the head three times and, where more than 20 passages match, reorders
        the best 100 by score / best + 0.5 x the share of the query's terms (function words too) that a passage has.
        Raises ValueError for a limit out of range or a version the snapshot does not have, SearchFailed when SQLite
        cannot answer.
        """
        if version not in self._ranges:
            raise ValueError(f"no passage of version {version}; there are {', '.join(self.versions)}")
        if type(limit) is not int or not 1 <= limit <= MOST_RESULTS:
            raise ValueError(f"the number of results is {limit}; it can be 1 to {MOST_RESULTS}")
        words, match = self._wanted(query, version)
        if not words:
            return Ranking(Outcome.NO_SEARCHABLE_TERM, ())
        scored = self._run(
            f"SELECT rowid, bm25(passages, 1.0, {_HEAD_WEIGHT}) FROM passages WHERE passages MATCH ? "
            f"AND rowid BETWEEN ? AND ? ORDER BY 2, 1 LIMIT ?",
            match, *self._ranges[version], limit if self.profile == "plain" else MOST_RESULTS)
        if self.profile != "plain" and len(scored) > _REORDERED_ABOVE:
            scored = self._reordered(scored, words)
        found = tuple(self._row(at) for at, _ in scored[:limit])
        return Ranking(Outcome.FOUND if found else Outcome.NOTHING_MATCHED, found)

    def _wanted(self, query: str, version: str) -> tuple[list[str], str]:
        """A word for each distinct term of a query, and the FTS5 expression that looks for it."""
        words = dict(zip(self.terms(query), self._cut_once(self._words, query), strict=True))
        sought = list(words.values())  # words, not stems: FTS5 would stem those again
        if self.profile != "plain":
            if self.count(version) >= _FEW_PASSAGES:
                sought = [word for word in sought if word not in _FUNCTION_WORDS] or sought
            runs = (self._cut_once(self._words, run) for run in re.findall(r"\w+(?:(?:\.|::)\w+)*", query))
            sought += dict.fromkeys(" ".join(run) for run in runs if len(run) > 1)
        return list(words.values()), " OR ".join(f'"{one}"' for one in sought)

    def _reordered(self, scored: list[Any], words: list[str]) -> list[Any]:
        has = dict.fromkeys((at for at, _ in scored), 0)
        # With a bare `rowid IN`, FTS5 would be asked anew for each row.
        held = (f"SELECT rowid FROM passages WHERE passages MATCH ? AND rowid BETWEEN ? AND ? "
                f"AND +rowid IN ({', '.join(map(str, has))})")
        for word in words:
            for (at,) in self._run(held, f'"{word}"', min(has), max(has)):
                has[at] += 1
        best = scored[0][1]
        return sorted(scored, key=lambda one: (-one[1] / best - _SHARE_WEIGHT * has[one[0]] / len(words), one[0]))

    def snippet(self, passage: Passage, query: str, words: int = 30) -> list[tuple[str, bool]]:
        """The part of a text with most of a query's words, else its beginning: pieces, and whether each is a match.

        At most `words` (1 to 64) words on one line, `...` where some were left out. May raise SearchFailed.
        """
        match = self._wanted(query, passage.version)[1]
        text = _searched(passage.text.replace("\x00", " "), self.profile)
        mark = next(char for char in map(chr, range(1, 0x110000)) if char not in text)
        self._run("REPLACE INTO cut (rowid, text) VALUES (1, ?)", text)
        cut = f"SELECT snippet(cut, 0, ?, ?, '...', {words}) FROM cut WHERE cut MATCH ?"
        found = match and self._run(cut, mark, mark, match)
        shown = found[0][0] if found else " ".join(text.split()[:words]) + "..." * (len(text.split()) > words)
        if self.profile != "plain":
            shown = re.sub(f" ?({re.escape(mark)}?{_UNSPACED}{re.escape(mark)}?) ?", r"\1", shown)
        pieces = re.sub(r"\s+", " ", shown).split(mark)
        return [(piece, bool(at % 2)) for at, piece in enumerate(pieces) if piece]

    def passage(self, source_id: str, version: str) -> Passage | None:
        """The passage of an id (not of an alias), as it was put into the index; may raise SearchFailed."""
        low, high = self._ranges.get(version, (1, 0))
        at = bisect.bisect_left(range(high + 1), source_id, low, key=lambda row: self._row(row).source_id)
        found = self._row(at) if at <= high else None
        return found if found and found.source_id == source_id else None

    def passages(self) -> Iterator[Passage]:
        """Every passage, sorted by version (as text) and id; may raise SearchFailed."""
        for low, high in self._ranges.values():
            yield from map(self._row, range(low, high + 1))

    def _row(self, at: int) -> Passage:
        """The passage in a row, or SearchFailed when it is not what was put there."""
        for *values, aliases, seal in self._run(f"SELECT {_COLUMNS}, seal FROM passage WHERE rowid = ?", at):
            if seal == _row_seal((at, *values, aliases)):
                return Passage(*values)._replace(aliases=tuple(aliases.split()))
        raise SearchFailed(f"row {at} of the snapshot is damaged")

    def _run(self, statement: str, *values: Any) -> list[Any]:
        try:
            return self._database.execute(statement, values).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            raise SearchFailed(f"{ascii(str(error))[1:-1]:.200}") from None  # it may quote what a damaged file holds
