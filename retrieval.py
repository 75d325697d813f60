"""retrieval finds: it checks a snapshot of passages, indexes it with SQLite FTS5, and ranks passages for a query.

It never knows of models, trials or labels. Query text is never FTS5 syntax: only its terms, quoted, reach MATCH.

    Passages       Passage, Snapshot, load_snapshot, SnapshotFaults
    Terms          spaced, for scripts that are written without spaces; what the documents profile searches
    The index      Index: terms, search, snippet, passage; create_store, Outcome, Ranking, SearchFailed, IndexFault
    Documents      cleaned, DocumentRefused, DocumentSkipped; readers of HTML, Markdown and plain text
    Building       Build: add, put, passages, counts, close; BuildFault
"""

import bisect
import contextlib
import functools
import hashlib
import itertools
import json
import os
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

# === Passages =========================================================================================================
_VERSION = r"(?=.{1,20}\Z)[0-9]+(?:\.[0-9]+){0,2}"
_UNSAFE = r"\s\"'`\x00-\x20\x7f-\xa0\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"  # in an id
_ADDRESS = f"[^{_UNSAFE}]{{1,200}}"
_PART = "~[0-9]+$"  # the number of a part, in a source_id
PROFILES = ("plain", "documents")

class Passage(NamedTuple):
    """One piece of documentation. `text_sha256` is of the UTF-8 bytes of `text`; `title` may be empty. `aliases` are
    other addresses, `path#anchor`, at which a reader finds the same passage."""
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
    seen = set[tuple[str, str]]()
    for at, value in enumerate(document["passages"]):
        named = isinstance(value, dict) and isinstance(value.get("source_id"), str)
        where = f"passage {value['source_id']!r:.210}" if named else f"passages[{at}]"
        faults += [f"{where}: {fault}" for fault in _passage_faults(value, seen)]
    if faults:
        raise SnapshotFaults(faults)
    passages = ({**value, "aliases": tuple(value.get("aliases", ()))} for value in document["passages"])
    return Snapshot(document["profile"], tuple(Passage(**value) for value in passages))

def _passage_faults(value: Any, seen: set[tuple[str, str]]) -> list[str]:
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
    if not isinstance(aliases, list) or not all(type(at) is str and re.fullmatch(_ADDRESS, at) for at in aliases):
        faults.append("aliases: must be a list of addresses, each without white space, quotes and controls")
    if faults:
        return faults
    key, actual = (value["version"], value["source_id"]), text_sha256(value["text"])
    faults = [fault for wrong, fault in (
        (not re.fullmatch(_ADDRESS, key[1]), "source_id: no white space, quotes or controls, at most 200 characters"),
        (not re.fullmatch(_VERSION, key[0]), f"version: {key[0]!r:.60} is not one to three numbers joined by dots"),
        (value["text_sha256"] != actual, f"text_sha256: is {value['text_sha256']!r:.70}, and the text's is {actual}"),
        (key in seen, f"source_id: stands twice in version {key[0]}")) if wrong]
    seen.add(key)
    return faults

def text_sha256(text: str) -> str:
    """The SHA-256 of a text's UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()

# === Terms ============================================================================================================
# Thai, Lao, Burmese, Khmer; kana; Han with its extensions and compatibility forms; half-width kana.
_UNSPACED = ("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
             "\uff66-\uff9f\U00020000-\U0003ffff]")
BY_CHARACTER = f"{_UNSPACED}|[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]"  # and Korean, whose words have endings
# The English stop list of Snowball (snowballstem.org/algorithms/english/stop.txt), cut at apostrophes as an index is.
_FUNCTION_WORDS = frozenset("""i me my myself we our ours ourselves you your yours yourself yourselves he him his
himself she her hers herself it its itself they them their theirs themselves what which who whom this that these those
am is are was were be been being have has had having do does did doing would should could ought m re s ve d ll isn aren
wasn weren hasn haven hadn doesn don didn won wouldn shan shouldn can cannot couldn mustn t let a an the and but if or
because as until while of at by for with about against between into through during before after above below to from up
down in out on off over under again further then once here there when where why how all any both each few more most
other some such no nor not only own same so than too very""".split())  # noqa: SIM905

def spaced(text: str) -> str:
    """The text with each character of a script written without spaces standing by itself."""
    return text if text.isascii() else re.sub(_UNSPACED, r" \g<0> ", text)

def _searched(text: str, profile: str) -> str:
    """The text as a profile indexes and searches it: documents in NFC, with some scripts by character."""
    if profile == "plain" or text.isascii():
        return text
    return re.sub(BY_CHARACTER, r" \g<0> ", _composed(text))

def _composed(text: str) -> str:
    import unicodedata  # not at the top: the plain profile has no use for it
    pieces = re.split(r"([^\w\s\0-\x7f]{31})", text)  # a long run of marks takes quadratic time
    return "".join(unicodedata.normalize("NFC", piece) for piece in pieces)

# === The index ========================================================================================================
MOST_RESULTS, SQLITE_VERSION = 100, sqlite3.sqlite_version
_FORMAT, _APPLICATION = 1, 0x6C616B69  # of a .sqlite snapshot: PRAGMA user_version and application_id
_TOKENIZERS = {"plain": "unicode61", "documents": "porter unicode61"}
_HEAD_WEIGHT, _REORDERED_ABOVE, _REORDERED, _FEW_PASSAGES = 3.0, 20, 200, 200
_TERMS_WEIGHT, _PAIRS_WEIGHT, _OWN_WEIGHT = 1.25, 0.25, 0.75
_CAMEL = "(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"  # where the tokenizer would not cut an anchor
_COLUMNS = ", ".join(Passage._fields)
_SCHEMA = f"""PRAGMA journal_mode = OFF; PRAGMA cache_size = -16384;
PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_FORMAT};
BEGIN;
CREATE TABLE snapshot (profile TEXT, fingerprint TEXT, seal INTEGER);
CREATE TABLE version (version TEXT, low INTEGER, high INTEGER);
CREATE TABLE passage ({_COLUMNS}, seal BLOB);
CREATE VIRTUAL TABLE passages USING fts5(text, head, content='', tokenize='TOKENIZER');
INSERT INTO passages (passages, rank) VALUES ('hashsize', 16777216);"""
_CUT = """PRAGMA temp_store = MEMORY; PRAGMA temp.journal_mode = OFF;
CREATE VIRTUAL TABLE temp.NAME USING fts5(text, tokenize='TOKENIZER');
CREATE VIRTUAL TABLE temp.NAME_term USING fts5vocab(temp, NAME, 'instance');"""
_POOL = f"CREATE VIRTUAL TABLE temp.pool USING fts5(text, head, own, content='', tokenize='{_TOKENIZERS['documents']}')"
# What decides the result of a search; each row of `passage` has a seal of its own, so that opening need not read them.
_SEALED = (*(f"SELECT * FROM passages_{name}" for name in ("config", "data", "idx")), "SELECT * FROM sqlite_master",
           "SELECT * FROM version", "SELECT profile, fingerprint FROM snapshot",
           "SELECT count(*), sum(id), CAST(group_concat(sz, '') AS BLOB) FROM passages_docsize",
           "PRAGMA quick_check(passages_idx)")  # FTS5 would take its lost rows for words that are not there

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

def create_store(path: str, profile: str, passages: Iterable[Passage]) -> None:
    """Write a stream of passages sorted by (version, source_id) to a new .sqlite snapshot.
    Raises SnapshotFaults (out of order or none), IndexFault, and what the stream does; the caller removes the file."""
    with _indexing(os.path.abspath(path), "could not write the snapshot") as database:
        _fill(database, profile, passages)
        database.execute("UPDATE snapshot SET seal = ?", (_index_seal(database),))
        database.close()

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

def _fill(database: sqlite3.Connection, profile: str, passages: Iterable[Passage]) -> None:
    """Put sorted passages into new tables, with their fingerprint: the SHA-256 of the canonical JSON (sorted keys,
    no spaces) of a .json snapshot of them in this order, no empty title or aliases in it."""
    database.executescript(_SCHEMA.replace("TOKENIZER", _TOKENIZERS[profile]))
    insert = f"INSERT INTO passage (rowid, {_COLUMNS}, seal) VALUES ({', '.join('?' * (len(Passage._fields) + 2))})"
    canonical = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
    digest, stream, before, at = hashlib.sha256(b'{"passages":['), iter(passages), ("", ""), 0
    while batch := list(itertools.islice(stream, 500)):  # so many by one call are stored in two thirds of the time
        first, at = at + 1, at + len(batch)
        for name, version, *_ in batch:
            if before >= (before := (version, name)):
                raise SnapshotFaults([f"passage {name!r}: stands twice or out of order in {version}"])
        kept = canonical([{name: value for name, value in one._asdict().items() if value} for one in batch])
        digest.update(("," * (first > 1) + kept[1:-1]).encode("utf-8"))
        rows = [(row, *one[:-1], "\n".join(one.aliases)) for row, one in enumerate(batch, first)]
        database.executemany(insert, [(*row, _row_seal(row)) for row in rows])
        texts = ((one.text, "") if profile == "plain" else _searchable(one)[:2] for one in batch)
        database.executemany("INSERT INTO passages (rowid, text, head) VALUES (?, ?, ?)",
                             ((row, *both) for row, both in enumerate(texts, first)))
    if not at:
        raise SnapshotFaults(["passages: there is none"])
    database.execute("INSERT INTO version SELECT version, min(rowid), max(rowid) FROM passage GROUP BY version")
    digest.update(f'],"profile":"{profile}"}}'.encode())
    database.execute("INSERT INTO snapshot VALUES (?, ?, 0)", (profile, digest.hexdigest()))
    database.execute("COMMIT")  # only now FTS5 has written all of its rows

def _searchable(passage: Passage) -> tuple[str, ...]:
    """What the documents profile searches: the text, what stands over it, and of that its own heading, the last."""
    anchor = re.sub(_CAMEL, " ", re.sub(_PART, "", passage.source_id.partition("#")[2]))
    heads = (f"{title} {anchor}" for title in (passage.title, passage.title.rpartition(" > ")[2]))
    return tuple(_searched(one, "documents") for one in (passage.text, *heads))

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

class Index(contextlib.AbstractContextManager["Index"]):
    """An FTS5 index over one snapshot: in memory, or in the .sqlite file that `create_store` wrote. Terms are runs of
    letters and digits, case folded, without diacritics; the documents profile also stems them (Porter) and cuts
    unspaced scripts by character. A version is one range of rowids, sorted by id, and so are equal scores."""
    def __init__(self, snapshot: Snapshot) -> None:
        with _indexing(":memory:", "could not build the index") as database:
            _fill(database, snapshot.profile, sorted(snapshot.passages, key=lambda at: (at.version, at.source_id)))
            self._use(database)

    @classmethod
    def open(cls, path: str) -> "Index":
        """The index in a .sqlite snapshot, which is never written to; raises IndexFault when it cannot be trusted."""
        if not os.path.isfile(path):
            raise IndexFault("not an ordinary file, or not there")
        whole = re.sub("[%?#]", lambda odd: f"%{ord(odd[0]):02x}", os.path.abspath(path).replace(os.sep, "/"))
        uri = f"file:///{whole.lstrip('/')}?mode=ro"  # sqlite.org/uri.html
        with _indexing(uri, "finds the file damaged or no snapshot") as database:
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
        self._cut_once = functools.lru_cache(maxsize=256)(self._cut)
        self._id_once = functools.lru_cache(maxsize=256)(lambda row: self._row(row).source_id)
        self.profile, self.fingerprint = database.execute("SELECT profile, fingerprint FROM snapshot").fetchone()
        self._database, self._words = database, "cut" if self.profile == "plain" else "word"
        self._rows = {version: range(low, high + 1) for version, low, high in database.execute("SELECT * FROM version")}
        for name, tokenizer in {self._words: "unicode61", "cut": _TOKENIZERS[self.profile]}.items():
            database.executescript(_CUT.replace("NAME", name).replace("TOKENIZER", tokenizer))
        if self.profile != "plain":
            database.execute(_POOL)
        return self

    def close(self, *_: object) -> None:
        """Give the database back, as the end of a `with` does."""
        self._database.close()

    __exit__ = close

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that have passages, sorted as numbers."""
        return tuple(sorted(self._rows, key=lambda version: [int(part) for part in version.split(".")]))

    def count(self, version: str) -> int:
        """How many passages a version has."""
        return len(self._rows.get(version, ()))

    def terms(self, text: str) -> tuple[str, ...]:
        """The terms of a text in order, repeated ones too, cut by the index's own tokenizer; may raise SearchFailed."""
        return self._cut_once("cut", text)

    def _cut(self, table: str, text: str) -> tuple[str, ...]:
        self._run(f"REPLACE INTO {table} (rowid, text) VALUES (1, ?)", _searched(text, self.profile))
        return tuple(term for (term,) in self._run(f"SELECT term FROM {table}_term ORDER BY offset"))

    def search(self, query: str, version: str, limit: int) -> Ranking:
        """At most `limit` (1 to 100) passages of one version by BM25, ties by id. The documents profile counts the head
        three times, reorders the best 200 of more than 20 by score / best + 1.25 x the share of the query's terms had +
        0.25 x that of its pairs of neighbours + 0.75 x that of its terms in the last heading, and puts all but the best
        part of an entry last. Raises ValueError or SearchFailed."""
        if version not in self._rows:
            raise ValueError(f"no passage of version {version}; there are {', '.join(self.versions)}")
        if type(limit) is not int or not 1 <= limit <= MOST_RESULTS:
            raise ValueError(f"the number of results is {limit}; it can be 1 to {MOST_RESULTS}")
        words, match = self._wanted(query, version)
        if not words:
            return Ranking(Outcome.NO_SEARCHABLE_TERM, ())
        scored = self._run(
            f"SELECT rowid, bm25(passages, 1.0, {_HEAD_WEIGHT}) FROM passages WHERE passages MATCH ? "
            f"AND rowid BETWEEN ? AND ? ORDER BY 2, 1 LIMIT ?",
            match, self._rows[version][0], self._rows[version][-1], limit if self.profile == "plain" else _REORDERED)
        found = [self._row(at) for at, _ in scored]
        if self.profile != "plain":
            if len(found) > _REORDERED_ABOVE:
                found = self._reordered(found, [score / scored[0][1] for _, score in scored], words, query)
            first = set({(re.sub(_PART, "", at.source_id), at.title): at for at in reversed(found)}.values())
            found.sort(key=lambda at: at not in first)
        return Ranking(Outcome.FOUND if found else Outcome.NOTHING_MATCHED, tuple(found[:limit]))

    def _wanted(self, query: str, version: str) -> tuple[list[str], str]:
        """A word for each distinct term of a query, and the FTS5 expression that looks for it."""
        pairs = zip(self.terms(query), self._cut_once(self._words, query), strict=True)
        words = dict(sorted(pairs, key=lambda at: self.profile != "plain" and at[1] not in _FUNCTION_WORDS))
        sought = list(words.values())  # words, not stems: FTS5 would stem those again
        if self.profile != "plain":
            if self.count(version) >= _FEW_PASSAGES:
                sought = [word for word in sought if word not in _FUNCTION_WORDS] or sought
            runs = (self._cut_once(self._words, run) for run in re.findall(r"\w+(?:(?:\.|::)\w+)*", query))
            sought += dict.fromkeys(" ".join(run) for run in runs if 1 < len(run) <= 16)
        return list(words.values()), " OR ".join(f'"{one}"' for one in sought)

    def _reordered(self, found: list[Passage], scores: list[float], words: list[str], query: str) -> list[Passage]:
        """Passages by their scores and the shares of the query that they have, as an index over them alone tells."""
        rows = [value for at, one in enumerate(found) for value in (at, *(text[:4_000] for text in _searchable(one)))]
        self._run("INSERT INTO pool (pool) VALUES ('delete-all')")
        self._run(f"INSERT INTO pool (rowid, text, head, own) VALUES {', '.join(['(?, ?, ?, ?)'] * len(found))}", *rows)
        terms, pairs = [f'"{word}"' for word in words], itertools.pairwise(self._cut_once(self._words, query))
        for weight, sought in ((_TERMS_WEIGHT, terms), (_PAIRS_WEIGHT, {f'"{one} {two}"' for one, two in pairs}),
                               (_OWN_WEIGHT, [f"own : {term}" for term in terms])):
            held = (self._run("SELECT rowid FROM pool WHERE pool MATCH ?", one) for one in sought)
            for at, count in Counter(at for each in held for (at,) in each).items():
                scores[at] += weight * count / len(sought)
        return [found[at] for at in sorted(range(len(found)), key=lambda at: -scores[at])]

    def snippet(self, passage: Passage, query: str, words: int = 30) -> list[tuple[str, bool]]:
        """The part of a text with most of a query's words, else its beginning: pieces, and whether each is a match. At
        most `words` (1 to 64) words on one line, `...` where some were left out. May raise SearchFailed."""
        match = self._wanted(query, passage.version)[1]
        text = _searched(passage.text[:50_000].replace("\x00", " "), self.profile)  # matches are paired: n * n
        mark = next(char for char in map(chr, range(1, 0x110000)) if char not in text)
        self._run("REPLACE INTO cut (rowid, text) VALUES (1, ?)", text)
        cut = f"SELECT snippet(cut, 0, ?, ?, '...', {words}) FROM cut WHERE cut MATCH ?"
        found = match and self._run(cut, mark, mark, match)
        shown = found[0][0] if found else " ".join(text.split()[:words]) + "..." * (len(text.split()) > words)
        if self.profile != "plain":
            shown = re.sub(f" ?({re.escape(mark)}?(?:{BY_CHARACTER}){re.escape(mark)}?) ?", r"\1", shown)
        pieces = re.sub(r"\s+", " ", shown).split(mark)
        return [(piece, bool(at % 2)) for at, piece in enumerate(pieces) if piece]

    def passage(self, source_id: str, version: str) -> Passage | None:
        """The passage of an id (not of an alias), as it was put into the index; may raise SearchFailed."""
        rows = self._rows.get(version, range(0))
        at = bisect.bisect_left(rows, source_id, key=self._id_once)
        found = self._row(rows[at]) if at < len(rows) else None
        return found if found and found.source_id == source_id else None

    def passages(self) -> Iterator[Passage]:
        """Every passage, sorted by version (as text) and id; may raise SearchFailed."""
        yield from map(self._row, itertools.chain(*self._rows.values()))

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

# === Documents ========================================================================================================
LARGEST_DOCUMENT = 32 * 1024 * 1024
_BYTE_ORDERS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xef\xbb\xbf": "utf-8-sig",
                b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_REMOVED = (  # controls, soft hyphens, zero-width, bidirectional and other format characters, tags and such
    "[\0-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]")
_GENERATED = "(?:id|index-)[0-9]+"  # an anchor that Sphinx numbers, and will number otherwise another day

class DocumentRefused(ValueError):
    """A file that cannot be read as a document; the message is the reason."""

class DocumentSkipped(ValueError):
    """A file with nothing to read in it; the message is the reason."""

def cleaned(text: str) -> tuple[str, int]:
    """A text in NFC with line feeds and spaces, without what nobody sees, and how many characters were removed."""
    if not re.search(r"[^\n\t -~]", text):
        return text, 0
    text = re.sub("\r\n?|[\x0b\x0c\x85\u2028\u2029]", "\n", text)
    text, removed = re.subn(_REMOVED, "", re.sub("[\xa0\u2007\u202f]", " ", text))
    return _composed(text), removed

def _decoded(document: bytes, encoding: str) -> str:
    if len(document) > LARGEST_DOCUMENT:
        raise DocumentRefused(f"{len(document):,} bytes; a document has at most {LARGEST_DOCUMENT:,}")
    marked, found = next((name for mark, name in _BYTE_ORDERS.items() if document.startswith(mark)), ""), list[str]()
    for name in [marked] if marked else filter(None, ["utf-8", encoding]):
        try:
            text = document.decode(name)
            odd = re.search("[\0\x0e\x0f\x1b]" if name == "utf-8" and encoding else "\0", text)  # UTF-8 by chance
            if not odd:
                return text
            found.append(f"U+{ord(odd[0]):04X} at character {odd.start()}")
        except UnicodeError as error:
            at = getattr(error, "start", 0)
            found.append(f"not {name.upper()} (byte 0x{document[at]:02x} at offset {at})")
    hint = "it is not text" if marked or b"\0" in document else "the encoding of old files is given with --encoding"
    raise DocumentRefused(f"{', '.join(found)}: {hint}")

def _unescape(text: str) -> str:
    """Character references decoded, once; one with more digits than a character's number has is of none."""
    from html import unescape
    return unescape(re.sub("&#(?:[0-9]{9,}+|[xX][0-9a-fA-F]{9,}+);?", "\ufffd", text) if "&#" in text else text)

class _Piece:
    """What stands under one anchor; `crumbs`: headings with their levels. A block is (mark, text, anchors in it); the
    mark is "c" for what is cut at line ends first, else "t", and in upper case outside entries and sections."""
    def __init__(self, kind: str, names: list[str], crumbs: tuple[tuple[int, str], ...]) -> None:
        self.kind, self.names, self.crumbs = kind, names, crumbs
        self.blocks: list[tuple[str, str, list[str]]] = []

class _Outline:
    """A document as it is read: its title, its pieces in the order in which they begin, and what was lost."""
    def __init__(self, title: str = "") -> None:
        self.title, self.removed = title, 0
        self.notes, self.pieces = list[str](), list[_Piece]()
        self.pending: list[str] = []  # anchors that wait for what they stand before
        self.piece = self.open("page", [""], ())

    def open(self, kind: str, names: list[str], crumbs: tuple[tuple[int, str], ...]) -> _Piece:
        self.piece = _Piece(kind, names, crumbs)
        self.pieces.append(self.piece)
        return self.piece

    def clean(self, text: str) -> str:
        text, removed = cleaned(text)
        self.removed += removed
        return text

    def block(self, mark: str, text: str, loose: bool) -> None:
        names, self.pending = self.pending, []
        if not self.piece.blocks:
            self.piece.names += names
        self.piece.blocks.append((mark.upper() if loose else mark, text, names))

    def head(self, level: int, text: str, names: list[str]) -> None:
        """A heading: of the section that has just begun, else of a new piece, with the anchor before if it has none."""
        crumbs = (*(crumb for crumb in self.piece.crumbs if crumb[0] < level), (level, text[:120]))
        if self.piece.kind == "section" and not self.piece.blocks:
            self.piece.kind, self.piece.crumbs = "headed", crumbs
            self.piece.names += names
        else:
            self.open("headed" if names else "more", names or self.piece.names[:1], crumbs)
        self.pending = []
        if len(text) > 120:
            self.block("t", text, loose=False)

    def read(self, text: str) -> None:
        """Plain text by paragraphs (`L12`: its first line), each with the next if it ends with a colon or a rule."""
        held: list[str] = []
        for number, line in enumerate((*self.clean(text).split("\n"), "", ""), 1):
            if line.strip():
                held.append(line.rstrip())
            elif held and held[-1] and re.search(r":$|^\s*([=~*^#-])\1+$", held[-1]):
                held.append("")
            elif held:
                self.open("section", [f"L{number - len(held)}"], ())
                self.block("c", "\n".join(held).rstrip(), loose=True)
                held = []

# An element without markup, a tag, a comment or a declaration, and the text up to the next; no text is read twice.
_OWN = "+" * (sys.version_info >= (3, 11, 5))  # before, possessive groups match wrongly (CPython gh-106052)
_TOKEN = rf"""(?xis)<(?:(script|style|title|textarea|xmp|iframe|noembed|noframes|noscript)(?=[\s/>])[^>]*+(?:>|\Z)(.*?)
      (</\1[^>]*+>|\Z) |(/?)([a-z][^\s/>]*+)((?:[^>=]++|=\s*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))?{_OWN})*{_OWN})(?:>|\Z)
      |!--(?:-?>|.*?(?:--!?>|\Z))|[!?/][^>]*+(?:>|\Z))([^<]*+(?:<(?![a-z!?/])[^<]*+)*{_OWN})"""
_BLOCK = (
    "html|head|body|main|article|section|div|p|h[1-6r]|[uod]l|menu|li|d[td]|pre|table|caption|t(?:head|body|foot|[rdh])|nav|"
    "blockquote|header|footer|aside|address|center|fig(?:ure|caption)|form|fieldset|legend|details|summary|dialog|hgroup")
_VOID = "area|base|br|col|embed|frame|hr|img|input|link|meta|param|source|track|wbr"
_HIDDEN = (  # elements, roles and classes with which generators, themes and people mark what is not the text
    r"(?is)(?:^|\s)(?:<(?:nav|footer|svg|template|button|select|canvas|object|audio|video|dialog|search)>|"
    r"<aside>(?!.*[\s=](?:footnote|citation|topic|admonition|system-message|note|warning|tip|doc-footnote))|"
    r"=(?:navigation|search|banner|contentinfo|complementary|menu|menubar|doc-toc)|aria-true|headerlink|hash-link|"
    r"header-?anchor|anchor-?link|permalink|viewcode-\w+|line(?:no(?:s|div)?|-numbers?)|contentstable|contents topic|"
    r"contents local|(?:(?:local|page|fancy|side|main)[-_]?)?toc|toctree-wrapper|table-of-contents|related|footer|"
    r"sidebar|sphinxsidebar\w*|search(?:-?(?:box|form))?|nav(?:bar|igation|header|footer)?|breadcrumbs?|hidden|pagination|"
    r"(?:(?:main|sub|side|top|search)-?)?menu|skip-?(?:link|nav)|copybtn|visually-hidden|sr-only|edit-?(?:link|page))"
    r"(?=\s|$)")
_CLOSES = {"li": "li", "dt": "dt dd", "dd": "dt dd", "tr": "tr", "td": "td th", "th": "td th", "tbody": "tr thead"}

@functools.lru_cache(maxsize=2048)
def _marks(tag: str, attributes: str) -> tuple[list[str], str]:
    """What matters of a start tag: its anchors, and whether it is "hidden", "main" or a "section"."""
    found = {name.lower(): _unescape(value.strip(value[:1] if value[:1] in "\"'" else ""))
             for name, value in reversed(re.findall(  # the first of a name counts
                 r"""([^\s=/]++)(?:\s*+=\s*+("[^"]*+"?|'[^']*+'?|\S++))?""", attributes))}
    names = [found.get("id", "").strip(), found.get("name", "").strip() if tag == "a" else ""]
    classes, role = found.get("class", ""), found.get("role", "").strip().lower()
    if "main" in (tag, role):
        role = "main"
    elif tag not in ("html", "body", "article") and (
            "hidden" in found or re.search(_HIDDEN, f"<{tag}> ={role} aria-{found.get('aria-hidden', '')} {classes}")
            or re.search(r"(?i)display\s*:\s*none|visibility\s*:\s*hidden", found.get("style", ""))):
        role = "hidden"
    else:
        role = "section" if tag == "section" or (tag == "div" and "section" in classes.split()) else ""
    return list(dict.fromkeys(filter(None, names))), role

class _Page(_Outline):
    """Reads an HTML page as a browser lays it out. It finds tags itself: html.parser takes quadratic time for what is
    left open, and reads comments and scripts differently from one release of Python to the next."""
    def restart(self, main: bool = False) -> None:
        """Begin anew, at last with the main part, and forget what was read and what is open."""
        self.stack: list[tuple[str, _Piece | None, str]] = []  # tag, piece to go back to, what ends with it
        self.opened: dict[str, list[int]] = {}  # where in the stack each tag stands
        self.inside = Counter[str]()  # how many elements of each effect are open
        self.words: list[str] = []  # since the last block ended
        self.named, self.begins, self.prefix = "", True, ""  # the last <a name>, whether first; a list item's mark
        self.heading: tuple[int, int] | None = None  # its level, and how many pending anchors stand before it
        self.entries: list[tuple[_Piece | None, bool]] = [(None, False)]  # of each open dl; whether past its dt
        self.main, self.before, self.pieces, self.pending = main, 0, [], []  # before the last text: pending anchors
        self.open("page", [""], ())

    def read(self, text: str) -> None:
        self.restart()
        for token in re.finditer(_TOKEN, "<!>" + text):
            raw, content, ended, closing, tag, attributes, said = token.groups()
            if tag:
                tag = tag.lower()
                if block := bool(re.fullmatch(_BLOCK, tag)):
                    self.settle(tag)
                if closing:
                    self.close(self.where(tag))
                else:
                    self.start(tag, attributes, block)
            elif raw and raw.lower() == "title" and not self.title and not self.inside["hidden"]:
                self.title = " ".join(self.clean(_unescape(content)).split())[:200]
            torn = not (tag or raw) and token[0].startswith("<!--") and not re.search("--!?>", token[0])
            if (raw and not ended) or torn or not (said or token[0].endswith(">")):
                self.notes.append(f"<{raw or tag or '!'}> is never closed: what stands after it is lost")
            if said and not self.inside["hidden"]:
                self.words.append(_unescape(said) if "&" in said else said)
                if not said.isspace():
                    self.before = len(self.pending)
        self.settle("body")
        self.notes += {f"<{tag}> is never closed and hides the rest": 0 for tag, _, at in self.stack if at == "hidden"}

    def start(self, tag: str, attributes: str, block: bool) -> None:
        names, role = _marks(tag, attributes) if len(attributes) < 200 else _marks.__wrapped__(tag, attributes[:10_000])
        for tags, borders in (("p", ""), (_CLOSES.get(tag, ""), "ul ol dl table")):  # a p stands there only if hidden
            if block and self.where(tags) > self.where(borders):
                self.close(self.where(tags))
        if role == "main" and not self.main:
            self.restart(main=True)
            role = "first"
        elif (role == "hidden" or self.inside["hidden"]) and not re.fullmatch(_VOID, tag):
            self.push(tag, None, role)
        if self.inside["hidden"] or role == "hidden":
            return
        self.pending += names
        if re.fullmatch("h[1-6]", tag):
            self.heading = int(tag[1]), len(self.pending) - len(names)
        elif tag == "br":
            self.words.append(" " if self.heading or self.inside["tr"] else "\0")
        elif tag == "a" and names:
            self.named, self.begins = names[0], not "".join(self.words).strip()
            if self.begins and self.stack and self.stack[-1][:2] == ("dt", None):
                self.close(len(self.stack) - 1)
                self.enter("dt", names)
        elif tag in ("dt", "dd"):
            self.enter(tag, names)
        elif block and tag not in ("p", "hr"):
            self.begin(tag, role, names)

    def begin(self, tag: str, role: str, names: list[str]) -> None:
        back = self.piece if role == "section" else None
        if back and names:
            self.open("section", names[:1], back.crumbs)
        if tag == "dl":
            self.entries.append((None, False))
        elif tag == "li":
            self.prefix = "- "
        elif tag in ("td", "th") and self.inside["tr"]:
            self.words.append(" | ")
        self.push(tag, back, role or tag)

    def enter(self, tag: str, names: list[str]) -> None:
        """Into a dt, which begins an entry when it has an anchor or one stands before it, or into the dd of one."""
        back, (entry, past) = self.piece, self.entries[-1]
        if tag == "dt":
            entry = None if past else entry
            names = [name for name in names or [self.named] if name and not re.fullmatch(_GENERATED, name)]
            if names and not entry:
                entry = self.open("entry", names[:1], back.crumbs)
        self.entries[-1] = entry, tag == "dd"
        self.piece = entry or back
        self.push(tag, back if entry else None, "section" if entry else "")

    def push(self, tag: str, back: _Piece | None, effect: str) -> None:
        self.opened.setdefault(tag, []).append(len(self.stack))
        self.stack.append((tag, back, effect))
        self.inside[effect] += 1

    def close(self, at: int) -> None:
        """End the elements of the stack from this one on, if there is one."""
        while 0 <= at < len(self.stack):
            tag, back, effect = self.stack.pop()
            self.opened[tag].pop()
            self.inside[effect] -= 1
            self.piece = back or self.piece
            if effect == "dl":
                self.entries.pop()
            elif effect == "first":
                self.inside["hidden"] += 1  # for good: what follows the main part is not the page's text

    def where(self, tags: str) -> int:
        """Where in the stack the innermost of some tags is open, or -1."""
        return max((self.opened[tag][-1] for tag in tags.split() if self.opened.get(tag)), default=-1)

    def settle(self, tag: str) -> None:
        """End the text before a block's tag; in a heading or a table's row some only separate words."""
        pre, heading = self.inside["pre"], self.heading
        if tag in ("p", "div", "td", "th") and not pre and (heading or self.inside["tr"]):
            self.words.append(" ")
            return
        raw, self.heading, self.words = "".join(self.words), None, []
        text = (self.clean(raw.replace("\0", "\n")).strip("\n").rstrip() if pre else
                "\n".join(filter(None, (" ".join(self.clean(line).split()) for line in raw.split("\0")))))
        if not text.strip(" |") or (text == self.title and not (heading or self.inside["section"])):
            return
        border, self.before = len(self.pending) if heading else self.before, 0
        self.pending, after = self.pending[:border], self.pending[border:]  # what no text follows is of the next block
        named, self.named = ("", self.named) if self.named in after else (self.named, "")
        if heading and self.piece.kind != "entry":
            self.head(heading[0], text, self.pending[heading[1]:] + self.pending[:heading[1]])
        else:
            text = text if pre else self.prefix + (text.removeprefix("| ") if self.inside["tr"] else text)
            if named and self.begins and not self.inside["section"]:
                self.open("headed", [named], self.piece.crumbs)
            self.block("c" if pre else "t", text, loose=not self.inside["section"])
            self.prefix = ""
        self.pending, self.begins = self.pending + after, True

_FENCE = r"((?:[ \t]|(?:[-*+]|[0-9]{1,9}[.)])[ \t])*)(`{3,}+(?=[^`]*$)|~{3,}+)"
_ITEM = r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]|[ \t]*[|>]"
_RULE = r"[ \t]*+(?:[*_ \t-]*+|(?=[^|]*\|)[|:\- \t]*+|\[[^]]{1,200}\]:[ \t]+\S+)$"  # or of a link
_UNSEEN = r"(?i) {0,3}<(!--|script\b|style\b)"
_FRONT = (  # settings between two rules at the very beginning; blank and indented lines, lists and comments
    r"(?m)(?:---|\+\+\+)[ \t]*\n((?:(?!---[ \t]*$)(?:[ \t#\]-].*)?\n)*[\w.][\w.-]*[ \t]*[:=].*\n"
    r"(?:(?!---[ \t]*$)(?:[ \t#\]-].*|[\w.][\w.-]*[ \t]*[:=].*)?\n)*)(?:---|\+\+\+|\.\.\.)[ \t]*$")
_MARKUP = (  # code, which is kept; comments and inline tags; tags of blocks, which separate words; characters
    r"(?is)((`{1,9})(?!`).{1,200}?(?<!`)\2(?!`))|(<!--[^<>]*-->|</?(?:a|abbr|b|big|cite|code|del|dfn|em|font|i|img|ins|kbd|"
    r"mark|picture|q|s|samp|small|source|span|strike|strong|sub|sup|tt|u|var|video)\b[^<>]*>)|"
    rf"(</?(?:br|{_BLOCK})\b[^<>]*>)|&(?:#\w{{1,8}}|\w{{2,31}});")

class _Markdown(_Outline):
    """Reads Markdown: lines stay as they stand, headings open pieces under the anchors that GitHub gives them."""
    def read(self, text: str) -> None:
        self.lines, self.slugs, self.listed = list[str](), dict[str, int](), False  # whether still in a list
        until, mark, indent = None, "t", ""  # what ends a fence or something unseen; whether it is kept; its margin
        front = re.match(_FRONT, text := self.clean(text))
        if front and (title := re.search(r"(?mi)^title[ 	]*[:=](.*)", front[1])):
            self.title = title[1].strip(" \t\"'")[:200]
        for line in text[front.end() if front else 0:].split("\n"):
            if until and until.search(line):
                self.flush(mark)
                until, mark = None, "t"
            elif until:
                self.lines.append(line.removeprefix(indent))
            elif (fence := re.match(_FENCE, line)) and (self.listed or not re.match(" {4}| {0,3}\t", line)):
                self.flush()
                mark, indent = "c", fence[1]
                until = re.compile(rf"^[ \t]*{fence[2][0]}{{{len(fence[2])},}}[ \t]*$")
            elif (unseen := re.match(_UNSEEN, line)) and (end := f"</{unseen[1]}".replace("</!", "")) not in line[7:]:
                self.flush()
                mark, until = "", re.compile(end, re.IGNORECASE)
            else:
                self.line(line)
        if until:
            self.notes.append(f"a {'code fence' if mark else 'comment or script'} is open to the end")
        self.flush(mark)

    def line(self, line: str) -> None:
        atx, under = re.match(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$", line), re.match(r" {0,3}(=+|-+)[ \t]*$", line)
        item, rule = re.match(_ITEM, line), re.match(_RULE, line)
        if under and self.lines and not re.match(rf"    |\t|{_ITEM}", self.lines[0]):
            text, self.lines = " ".join(self.lines), []
            self.title_line(1 if "=" in under[1] else 2, text)
            return
        if atx or item or rule or not (self.lines or line[0].isspace()):
            self.flush()
            self.listed = bool(item) or (self.listed and not atx and not line.strip())
        if atx:
            self.title_line(len(atx[1]), atx[2] or "")
        elif not rule:
            self.lines.append(line)

    def flush(self, mark: str = "t") -> None:
        if mark == "t" and not self.listed and self.lines and self.lines[0].startswith(("    ", "\t")):
            mark = "c"
        text, self.lines = "\n".join(self.lines).strip("\n").rstrip(), []
        text = self.plain(text).strip("\n").rstrip() if mark == "t" else text
        if text and mark:
            self.block(mark, text, loose=not self.piece.crumbs)

    def title_line(self, level: int, text: str) -> None:
        text = re.sub(r"(?:^|[ \t])#+$", "", text.rstrip())
        given = re.search(r"\{#([^\s{}]+)\}$", text)
        text = re.sub("[`*]", "", self.plain(text[:given.start()] if given else text))
        text = " ".join(re.sub(r"!?\[([^\[\]]{0,200})\](?:\([^()]{0,500}\))?", r"\1", text).split())
        slug = given[1] if given else re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") or "heading"
        if text:
            self.head(level, text, [_untaken(slug, self.slugs)])

    def plain(self, text: str) -> str:
        def replaced(at: re.Match[str]) -> str:
            return at[1] or (" " if at[4] else "" if at[3] else self.clean(_unescape(at[0])))
        return re.sub(_MARKUP, replaced, text)

# === Building =========================================================================================================
MOST_WORDS, MOST_BYTES = 180, 1_200  # of a passage
READERS = {"html": _Page, "htm": _Page, "xhtml": _Page, "md": _Markdown, "markdown": _Markdown, "txt": _Outline}
_NO_ADDRESS = "[^A-Za-z0-9_.~!$&()*+,;=:@/-]"  # what is percent-encoded in an address (RFC 3986)
_STAGING = """PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
BEGIN;
CREATE TABLE piece (path, at, source_id, url, title, aliases, blocks, PRIMARY KEY (path, at)) WITHOUT ROWID;
CREATE TABLE loose (digest PRIMARY KEY, pages) WITHOUT ROWID;
CREATE TABLE passage (source_id, version, text, url, sha256, title, digest PRIMARY KEY, UNIQUE (version, source_id));
CREATE TABLE also (digest, alias, PRIMARY KEY (digest, alias)) WITHOUT ROWID;"""
_CUTS = (  # for a block that is too long: line ends, ends of sentences, ends of words
    "(?<=\n)", "(?<=[.!?]\\s)(?=[^a-z])|(?<=[.!?][\"')\\]]\\s)(?=[^a-z])|(?<=[\u3002\uff01\uff1f])", r"(?<=\s)")

class BuildFault(Exception):
    """Documents that cannot be put into one snapshot, an unknown encoding, or a staging file that failed."""

class Build:
    """Documents on their way to the passages of one version, in whatever order, by way of an SQLite file, new, at
    `staging_path`; the caller deletes it. Addresses begin with `base_url`, else with `file:` and the relative path.
    `encoding` is for what is not UTF-8. `counts` has passages, duplicates, bytes and removed (characters)."""
    def __init__(self, version: str, base_url: str, encoding: str, staging_path: str) -> None:
        self.version, self.encoding, self.base = version, encoding, base_url.rstrip("/") + "/" if base_url else "file:"
        self.counts = Counter(passages=0, duplicates=0, bytes=0, removed=0)
        try:
            b"a".decode(encoding or "utf-8", "replace")
            self._staging = sqlite3.connect(staging_path, isolation_level=None)
            self._staging.executescript(_STAGING)
        except (LookupError, UnicodeError):
            raise BuildFault(f"encoding {encoding!r:.60}: not known to this Python") from None
        except sqlite3.Error as error:
            raise BuildFault(f"staging the passages at {staging_path} failed: {error}") from None

    def close(self) -> None:
        """Give the staging file back."""
        self._staging.close()

    def add(self, path: str, document: bytes) -> list[str]:
        """Read a document (its relative path with `/`); returns what a person should know of it, such as lost text.
        Raises DocumentRefused or DocumentSkipped, and then keeps nothing; BuildFault for a path with ids of another."""
        if re.search("[\ud800-\udfff]", path):
            raise DocumentRefused("its name is not UTF-8")
        text, name = _decoded(document, self.encoding), path.rpartition("/")[2]
        reader = READERS.get(name.lower().rpartition(".")[2], _Outline)
        outline = reader(name if reader is _Outline else "")
        outline.read(text)
        outline.piece.names += outline.pending
        for piece, after in zip(outline.pieces, [*outline.pieces[1:], None], strict=True):
            empty = not piece.blocks and piece.kind != "more"
            if empty and after and after.crumbs[:len(piece.crumbs)] == piece.crumbs:
                after.names += filter(None, piece.names[:50])  # anchors of what has no text go to the first below it
            elif empty and piece.crumbs and reader is _Markdown:  # in HTML these are pages that only list others
                piece.blocks.append(("t", piece.crumbs[-1][1], []))
        pieces = [piece for piece in outline.pieces if piece.blocks]
        if not pieces:
            raise DocumentSkipped("no text" if document else "empty")
        if self._run("SELECT 1 FROM piece WHERE path = ?", _identity(path)).fetchone():
            raise BuildFault(f"{path!r}: another document gives the same source_id, {_identity(path)}")
        ids, taken = dict[str, str](), dict[str, int]()  # of the last piece with an anchor
        for at, piece in enumerate(pieces):
            anchor = next((name for name in piece.names if not re.fullmatch(_GENERATED, name)), piece.names[0])
            if piece.kind != "more" or anchor not in ids:
                ids[anchor] = _untaken(_identity(path, anchor), taken)
            titles = [text for _, text in piece.crumbs]
            if not titles or not outline.title.startswith(titles[0]):
                titles.insert(0, outline.title)
            blocks = "\x1d".join("\x1e".join((mark, text, *(_identity(path, name) for name in names)))
                                 for mark, text, names in piece.blocks)
            self._run("INSERT INTO piece VALUES (?, ?, ?, ?, ?, ?, ?)", _identity(path), at, ids[anchor],
                      self.base + "#".join(re.sub(_NO_ADDRESS, _escaped, part) for part in (path, anchor) if part),
                      " > ".join(filter(None, titles)), " ".join(_identity(path, name) for name in piece.names), blocks)
        for digest in {text_sha256(text) for piece in pieces for mark, text, _ in piece.blocks if mark.isupper()}:
            self._run("INSERT INTO loose VALUES (?, 1) ON CONFLICT DO UPDATE SET pages = pages + 1", digest)
        self.counts["removed"] += outline.removed
        return outline.notes

    def passages(self) -> Iterator[Passage]:
        """All passages, sorted by (version, source_id) as code points; once, when all documents are in."""
        often = max(10, self._run("SELECT count(DISTINCT path) FROM piece").fetchone()[0] // 2 + 1)  # is furniture
        furniture = {digest for (digest,) in self._run("SELECT digest FROM loose WHERE pages >= ?", often)}
        page, parts = "", Counter[str]()
        for path, _, source_id, url, title, aliases, blocks in self._run("SELECT * FROM piece ORDER BY path, at"):
            page, parts = path, parts if path == page else Counter()
            held = (block.split("\x1e") for block in blocks.split("\x1d"))
            for text, names in _cut(at for at in held if at[0].islower() or text_sha256(at[1]) not in furniture):
                parts[source_id] += 1
                named = source_id if parts[source_id] == 1 else f"{source_id}~{parts[source_id]}"
                self.put(Passage(named, self.version, text, url, text_sha256(text), title, (*aliases.split(), *names)))
        for *values, digest in self._run("SELECT * FROM passage ORDER BY version, source_id"):
            also = self._run("SELECT alias FROM also WHERE digest = ? AND alias <> ? AND NOT EXISTS "
                             "(SELECT 1 FROM passage WHERE version = ? AND source_id = alias)",
                             digest, re.sub(_PART, "", values[0]), values[1])
            yield Passage(*values)._replace(aliases=tuple(alias for (alias,) in also))

    def put(self, passage: Passage, kept: bool = False) -> None:
        """Take a passage that is ready, or one of another version that is to stand in the snapshot as it is."""
        what = passage.source_id if kept else f"{passage.title}\0{passage.text}"
        digest, aliases = text_sha256(f"{passage.version}\0{what}"), passage.aliases
        if self._run("SELECT 1 FROM passage WHERE digest = ?", digest).fetchone() and not kept:
            self.counts["duplicates"] += 1
            aliases = (re.sub(_PART, "", passage.source_id), *aliases)
        else:
            self._run("INSERT INTO passage VALUES (?, ?, ?, ?, ?, ?, ?)", *passage[:-1], digest)
            self.counts.update({} if kept else {"passages": 1, "bytes": len(passage.text.encode("utf-8"))})
        for alias in aliases:
            self._run("INSERT OR IGNORE INTO also VALUES (?, ?)", digest, alias)

    def _run(self, query: str, *values: Any) -> sqlite3.Cursor:
        try:
            return self._staging.execute(query, values)
        except sqlite3.Error as error:
            raise BuildFault(f"staging the passages failed: {error}") from None

def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8"))

def _identity(path: str, anchor: str = "") -> str:
    """The source_id of what stands at an anchor of a document, with room for the number of a repeat and a part."""
    whole = "#".join(re.sub(f"[#~%{_UNSAFE}]", _escaped, _composed(part)) for part in (path, anchor) if part)
    return whole if len(whole) <= 180 else f"{whole[:167]}-{text_sha256(whole)[:12]}"

def _untaken(name: str, taken: dict[str, int]) -> str:
    """The name, with `-2` and on when it is taken already."""
    free = name
    while free in taken:
        taken[name] += 1
        free = f"{name}-{taken[name]}"
    taken[free] = 1
    return free

def _cut(blocks: Iterable[list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Parts of at most MOST_WORDS and MOST_BYTES and about equally long, each with the other addresses in it."""
    units = [(unit, len(unit.split()), len(unit.encode("utf-8")), [] if at else also) for mark, text, *also in blocks
             for at, unit in enumerate(_units(text + "\n", 0 if mark in "cC" else 1))]
    words, size = sum(unit[1] for unit in units), sum(unit[2] for unit in units)
    parts = max(-(-words // MOST_WORDS), -(-size // MOST_BYTES), 1)
    most, longest = min(MOST_WORDS, 1.25 * words / parts), min(MOST_BYTES, 1.25 * size / parts)  # to reach a border
    part, names, words, size = "", list[str](), 0, 0
    for unit, more, longer, also in [*units, ("", MOST_WORDS, MOST_BYTES, [])]:
        if part and (words + more > most or size + longer > longest):
            if part.strip():
                yield part.strip("\n").rstrip(), names
            part, names, words, size = "", [], 0, 0
        part, names, words, size = part + unit, names + also, words + more, size + longer

def _units(text: str, level: int) -> Iterator[str]:
    """A block whole, else its lines, sentences, words or runs of characters: the largest that fit."""
    if len(text) <= MOST_BYTES and len(text.encode("utf-8")) <= MOST_BYTES and len(text.split()) <= MOST_WORDS:
        yield text
    elif level == len(_CUTS):
        yield from (text[at:at + MOST_BYTES // 4] for at in range(0, len(text), MOST_BYTES // 4))
    else:
        for unit in filter(None, re.split(_CUTS[level], text)):
            yield from _units(unit, level + 1)
