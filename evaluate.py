"""The judge: checks what people wrote into the cases, and grades what a trial ended with.

It never imports another module of this kit, never sees the model or the controller, opens no
file and trusts no result: it is handed parsed JSON and derives again whatever can be derived.

Read it in this order (the heart comes last):

    Words        Outcome, Finding, Case, CaseFaults: what a judgement is made of
    Foreign      reading JSON of unknown shape without stumbling
    Cases        load_cases: labels in, every fault of the file at once
    Syntax       the little of a pattern's syntax that weak_labels has to understand
    Labels       label_faults, weak_labels: what is wrong or worthless in the labels
    Counting     summarize: the five outcomes per path
    Derived      what the observations say, whatever the result claims
    The judge    grade

A pattern is searched for (`re.search`) anywhere in the answer, and case does not matter: that is
Python's simple folding, so `straße` does not match `STRASSE`. `$` also holds before one final line
end, and `\\d` matches digits of every script; `\\Z` and `[0-9]` are the exact forms.
"""

import hashlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

# === Words ========================================================================================


class Word(StrEnum):
    """A word of a closed vocabulary: JSON carries the word, people are told the sentence."""

    sentence: str

    def __new__(cls, word: str, sentence: str) -> "Word":
        member = str.__new__(cls, word)
        member._value_ = word
        member.sentence = sentence
        return member


class Outcome(Word):
    """How a trial is judged; only the first three are measurements of the path."""

    PASS = "pass", "It did what its labels ask for."
    FAIL = "fail", "It answered wrongly, or the model proposed what is not allowed."
    INCOMPLETE = "incomplete", "It stopped, or an allowance ended, before there was an answer."
    NOT_MEASURED = "not_measured", "The provider, a budget or the replay ended it, not the model."
    UNGRADED = "ungraded", "Nobody labelled the question."


class Finding(Word):
    """One fact that speaks against a trial."""

    NOT_ANSWERED = "not_answered", "The case has an answer, and the trial gave none."
    SOURCE_NOT_CITED = "source_not_cited", "No whole evidence set is among the cited passages."
    PATTERN_MISSING = "pattern_missing", "The answer lacks something that the labels require."
    PATTERN_FORBIDDEN = "pattern_forbidden", "The answer says something that the labels rule out."
    SHOULD_HAVE_STOPPED = "should_have_stopped", "Nothing supports an answer; only a stop is right."
    READ_NOT_IN_SNAPSHOT = "read_not_in_snapshot", "A read differs from the snapshot's passage."
    QUOTE_NOT_IN_PASSAGE = "quote_not_in_passage", "A quote, or its address, is not its passage's."
    CITED_NOT_READ = "cited_not_read", "A passage was cited that this trial did not read."
    USAGE_OVER_LIMIT = "usage_over_limit", "More was used than this trial was allowed."


# Reasons, up to their first colon, that tell of the world around the model: nothing was measured.
NOT_MEASURED_REASONS = frozenset({
    "unfinished_model_reply", "model_transport_failed", "batch_request_limit",
    "token_budget_limit", "cost_budget_limit", "provider_input_bytes_limit",
    "provider_response_bytes_limit", "replay_request_mismatch", "replay_exhausted",
    "reply_in_doubt",
})

# No trial may have had more than this, whatever limits its result states.
LARGEST = {"model_calls": 12, "searches": 4, "reads": 6, "source_bytes": 8192}

MODES = ("fixed", "agent")
QUESTION_CHARACTERS = 512
PATTERN_CHARACTERS = 1_000
ANSWER_CHARACTERS = 2_000  # a decision holds no more; what a foreign report adds is not searched

SCOPE = (
    "Checks written by hand for this case: what was read and cited, patterns in the answer's text,"
    " and stopping where nothing supports an answer; whether the answer is true, people decide."
)


class Case(NamedTuple):
    """A question and its labels.

    `evidence_sets` holds the sets of source ids of which one whole set is enough; it is empty when
    only a stop is right, and None when the patterns alone are to be checked.
    """

    id: str
    question: str
    version: str
    split: str
    evidence_sets: tuple[tuple[str, ...], ...] | None
    answer_patterns: tuple[re.Pattern[str], ...]
    forbidden_patterns: tuple[re.Pattern[str], ...]


class CaseFaults(ValueError):
    """All that is wrong with a cases file: `faults`, one line each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


# === Foreign ======================================================================================


def _shown(text: str, most: int = 60) -> str:
    """Foreign text in quotes: one line of ASCII, and not a long one."""
    return ascii(text if len(text) <= most else text[:most] + "...")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _number(value: object) -> int | float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def _by_key(passages: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Passages by (version, source_id): one id may stand in several versions."""
    return {(_text(p.get("version")), _text(p.get("source_id"))): p for p in passages}


# === Cases ========================================================================================

Rule = Callable[[Any], Iterable[str]]  # a value to its faults, each beginning ": " or "[0]: "

_NAMES = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "a list",
          dict: "an object", type(None): "null"}
_UNSENDABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _of(kind: type, rule: Rule) -> Rule:
    """The rule for values of exactly this type; others are named by type, being of any depth."""

    def typed(value: object) -> Iterator[str]:
        if type(value) is kind:
            yield from rule(value)
        else:
            yield f": expected {_NAMES[kind]}, found {_NAMES.get(type(value), 'something else')}"

    return typed


def _each(rule: Rule) -> Rule:
    """The rule for every item of a list."""

    def items(values: list[Any]) -> Iterator[str]:
        for number, value in enumerate(values):
            yield from (f"[{number}]{fault}" for fault in rule(value))

    return items


def _like(form: re.Pattern[str], meaning: str) -> Rule:
    """The rule for strings of one form."""

    def formed(value: str) -> Iterator[str]:
        if not form.fullmatch(value):
            yield f": {_shown(value)} is not {meaning}"

    return formed


def _question(value: str) -> Iterator[str]:
    if not value.strip():
        yield ": blank"
    if len(value) > QUESTION_CHARACTERS:
        yield f": {len(value):,} characters, of which {QUESTION_CHARACTERS} are allowed"
    if bad := _UNSENDABLE.search(value):
        yield f": control character {bad[0]!a} at position {bad.start()}"


def _sources(values: list[Any]) -> Iterator[str]:
    yield from _each(_of(str, lambda source: [] if source.strip() else [": blank"]))(values)
    for number, source in enumerate(values):
        if type(source) is str and source in values[:number]:
            yield f"[{number}]: {_shown(source)} a second time"


def _sets(values: list[Any]) -> Iterator[str]:
    if not values:
        yield ': empty; where only a stop is right, write "sources": []'
    yield from _each(_of(list, lambda one: _sources(one) if one else [": empty"]))(values)


def _pattern(value: str) -> Iterator[str]:
    if not value:
        yield ": empty, which would match any answer"
    elif len(value) > PATTERN_CHARACTERS:
        yield f": {len(value):,} characters, of which {PATTERN_CHARACTERS:,} are allowed"
    else:
        try:
            re.compile(value, re.IGNORECASE)
        except RecursionError:
            yield ": nested too deeply to compile"
        except (re.error, ValueError, OverflowError) as error:  # ValueError: (?a) beside (?u)
            yield ": " + re.sub("[^ -~]", lambda odd: ascii(odd[0])[1:-1], str(error))


_RULES: dict[str, Rule] = {
    "id": _of(str, _like(_ID, "1 to 100 of letters, digits, '.', '_' and '-', the first a letter"
                              " or digit")),
    "question": _of(str, _question),
    "version": _of(str, _like(re.compile(r"(?=.{1,20}\Z)[0-9]+(?:\.[0-9]+){0,2}"),
                              "one to three numbers joined by dots, at most 20 characters")),
    "split": _of(str, _like(re.compile("development|held-out"), "'development' or 'held-out'")),
    "sources": _of(list, _sources),
    "evidence_sets": _of(list, _sets),
    "answer_patterns": _of(list, _each(_of(str, _pattern))),
    "forbidden_patterns": _of(list, _each(_of(str, _pattern))),
}


def _case_faults(entry: dict[str, Any]) -> Iterator[str]:
    """What is wrong with one entry of the list: each field by itself, then the labels together."""
    yield from (f": unknown field {_shown(name)}" for name in entry if name not in _RULES)
    for name, rule in _RULES.items():
        if name in entry:
            yield from (f": {name}{fault}" for fault in rule(entry[name]))
        elif name in ("id", "question", "version", "split"):
            yield f": {name}: missing"
    if "sources" in entry and "evidence_sets" in entry:
        yield ": sources and evidence_sets: only one of the two may be given"
    elif not ("sources" in entry or "evidence_sets" in entry
              or entry.get("answer_patterns") or entry.get("forbidden_patterns")):
        yield ": checks nothing: no sources, no evidence_sets, no patterns"


def _file_faults(entries: list[Any]) -> Iterator[str]:
    """Every fault of every entry, which is named by its id where that tells which one is meant."""
    first: dict[str, int] = {}
    for number, entry in enumerate(entries):
        name = entry.get("id") if type(entry) is dict else None
        where = f"cases[{number}]"
        if type(name) is str and _ID.fullmatch(name):
            if first.setdefault(name, number) == number:
                where = f"case '{name}'"
            else:
                yield f"{where}: id: '{name}' is already the id of cases[{first[name]}]"
        yield from (where + fault for fault in _of(dict, _case_faults)(entry))


def _document(document: dict[str, Any]) -> Iterator[str]:
    extra = sorted(document.keys() - {"cases"})
    yield from (f"unknown field {_shown(name)} beside 'cases'" for name in extra)
    entries = document.get("cases")
    if type(entries) is list and entries:
        yield from _file_faults(entries)
    else:
        yield "cases: expected a list with at least one case"


def _case(entry: dict[str, Any]) -> Case:
    """An entry without faults as a Case."""
    sets: tuple[tuple[str, ...], ...] | None = None
    if "sources" in entry:
        sets = (tuple(entry["sources"]),) if entry["sources"] else ()
    elif "evidence_sets" in entry:
        sets = tuple(map(tuple, entry["evidence_sets"]))
    answer, forbidden = (
        tuple(re.compile(pattern, re.IGNORECASE) for pattern in entry.get(name, []))
        for name in ("answer_patterns", "forbidden_patterns")
    )
    names = (entry["id"], entry["question"], entry["version"], entry["split"])
    return Case(*names, sets, answer, forbidden)


def load_cases(document: object) -> list[Case]:
    """The cases of a parsed cases file `{"cases": [...]}`; raises CaseFaults, and only that."""
    if type(document) is not dict:
        raise CaseFaults(["cases file: expected an object with 'cases'"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of syntax that a later Python may read differently
        if faults := list(_document(document)):
            raise CaseFaults(faults)
        return [_case(entry) for entry in document["cases"]]


# === Syntax =======================================================================================

# One piece of a pattern: an escape, a class, a comment, an opening, a repeat, or one character.
# (These are strings because compiling them would cost every start what only `check` needs.)
_PIECE = (
    r"(?s)\\(?:N\{[^}]*\}|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?#[^)]*\)"
    r"|\(\?(?:P<\w+>|P=\w+\)|<?[=!]|[aiLmsux-]*[:)]|>|\([^)]*\))"
    r"|(?:[*+?]|\{\d*,?\d*\})[?+]?|."
)
_REPEAT = r"(?:[*+?]|\{\d*,?\d*\})[?+]?"
_UNBOUNDED = r"(?:[*+]|\{\d*,\})[?+]?"
_LOOKING = ("(?=", "(?!", "(?<=", "(?<!")


class Group(NamedTuple):
    """A part of a pattern in parentheses: how it opens, and its alternatives."""

    opening: str
    branches: "list[list[str | Group]]"


def _pieces(pattern: str) -> list[str]:
    return [piece for piece in re.findall(_PIECE, pattern) if not piece.startswith("(?#")]


def _branches(pieces: Iterator[str]) -> list[list[str | Group]]:
    """The alternatives of a pattern, up to the end of the group that `pieces` stands in."""
    branches: list[list[str | Group]] = [[]]
    for piece in pieces:
        if piece == ")":
            break
        if piece == "|":
            branches.append([])
        elif piece[0] == "(" and (piece[-1] != ")" or piece.startswith("(?(")):
            branches[-1].append(Group(piece, _branches(pieces)))
        elif not re.fullmatch(_REPEAT, piece):
            branches[-1].append(piece)
    return branches


def _edges(branches: list[list[str | Group]], end: int) -> Iterator[str]:
    """The pieces a match can begin (end 0) or finish (end -1) with; a lookaround is one piece."""
    for branch in branches:
        edge = branch[end] if branch else ""
        if isinstance(edge, str):
            yield edge
        elif edge.opening in _LOOKING:
            yield edge.opening
        else:
            yield from _edges(edge.branches, end)


def _anchored_in_part(branches: list[list[str | Group]]) -> bool:
    """Whether an anchor holds for some of the alternatives only, as in `^30|60$`."""
    begin = [branch[:1] in (["^"], [r"\A"]) for branch in branches]
    finish = [branch[-1:] in (["$"], [r"\Z"]) for branch in branches]
    return any(any(anchors) and not all(anchors) for anchors in (begin, finish))


# === Labels =======================================================================================


def label_faults(cases: Iterable[Case], passages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Versions and sources that the labels name and the snapshot does not have."""
    known = _by_key(passages)
    versions = sorted({version for version, _ in known})
    faults = []
    for case in cases:
        if case.version not in versions:
            has = ", ".join(versions) or "no version at all"
            faults.append(f"case '{case.id}': version {case.version} is not in the snapshot: {has}")
            continue
        for source in dict.fromkeys(s for one_set in case.evidence_sets or () for s in one_set):
            if (case.version, source) not in known:
                others = ", ".join(v for v in versions if (v, source) in known)
                faults.append(f"case '{case.id}': source {_shown(source)} is not in version"
                              f" {case.version} of the snapshot{others and ', only in ' + others}")
    return faults


def _weak_syntax(pattern: re.Pattern[str]) -> Iterator[str]:
    """What the pattern's own text gives away."""
    pieces = _pieces(pattern.pattern)
    branches = _branches(iter(pieces))
    first, last = [*_edges(branches, 0)], [*_edges(branches, -1)]
    if pattern.search(""):
        yield "matches the empty string, so it matches any answer"
    if any(re.fullmatch(_UNBOUNDED, piece) for piece in pieces):
        yield "repeats without a bound, which can take for ever; write {0,60} or the like"
    if any(edge in set("0123456789") for edge in first + last):
        yield r"bare number: 45 also matches in 1450; guard it as in (?<!\d)45(?!\d)"
    if any(len(edge) == 1 and edge.isalpha() for edge in first):
        yield r"begins inside a word: correct also matches in incorrect; begin it with \b"
    if _anchored_in_part(branches):
        yield "an anchor holds for one alternative only: ^30|60$ finds 30...; group as ^(?:30|60)$"


def _weak_patterns(case: Case, texts: list[str]) -> Iterator[tuple[str, str]]:
    """(which pattern, what is weak about it), given the texts of the case's own sources."""
    for field in ("answer_patterns", "forbidden_patterns"):
        for number, pattern in enumerate(getattr(case, field)):
            where = f"{field}[{number}]"
            yield from ((where, weakness) for weakness in _weak_syntax(pattern))
            if re.search(r"\)(?:[*+]|\{\d*,\})", "".join(_pieces(pattern.pattern))):
                continue  # a group repeated without a bound may never end on a text
            found = any(map(pattern.search, texts))
            if field == "forbidden_patterns" and found:
                yield where, "forbids what one of the case's own sources says"
            if field == "answer_patterns" and texts and not found:
                yield where, "no source of this case says it: a path that keeps to them must stop"
            if field == "answer_patterns" and pattern.search(case.question):
                yield where, "the question alone satisfies it"


def weak_labels(cases: Iterable[Case], passages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Warnings: labels that can be used and do not check what they seem to check."""
    known = _by_key(passages)
    warned = []
    for case in cases:
        sources = {source for one_set in case.evidence_sets or () for source in one_set}
        texts = [_text(known.get((case.version, source), {}).get("text")) for source in sources]
        weak = list(_weak_patterns(case, [text for text in texts if text]))
        if case.evidence_sets == () and case.answer_patterns:
            weak.append(("answer_patterns", "never used, because only a stop is right here"))
        if case.evidence_sets and not case.answer_patterns:
            weak.append(("answer_patterns", "none, so any text with the right citation passes"))
        warned += [f"case '{case.id}': {where}: {weakness}" for where, weakness in weak]
    return warned


# === Counting =====================================================================================


def summarize(trials: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Per path how many trials had each outcome: all five counts, zeros too."""
    counts: dict[str, dict[str, int]] = {}
    for trial in trials:
        path = counts.setdefault(_text(trial.get("mode")), {word.value: 0 for word in Outcome})
        outcome = _text(_mapping(trial.get("checks")).get("outcome"))
        path[outcome if outcome in path else Outcome.UNGRADED.value] += 1
    ordered = [*MODES, *(mode for mode in counts if mode not in MODES)]
    return {mode: counts[mode] for mode in ordered if mode in counts}


# === Derived ======================================================================================


class Seen(NamedTuple):
    """What a result says when nothing about its shape is taken for granted."""

    status: str
    reason: str
    answer: str
    version: str
    citations: list[Mapping[str, Any]]
    queries: list[str]
    reads: list[Mapping[str, Any]]
    used: dict[str, int | float]
    allowed: dict[str, int | float]

    @property
    def measured(self) -> bool:
        """Whether it was the model or an allowance of the trial that ended it."""
        known = self.status in ("answered", "incomplete", "failed")
        outside = self.reason.partition(":")[0] in NOT_MEASURED_REASONS
        return known and (self.status == "answered" or not outside)

    @property
    def stopped(self) -> bool:
        return (self.status, self.reason) == ("incomplete", "model_stopped")


def _seen(result: Mapping[str, Any]) -> Seen:
    """The result, with usage counted again: the larger of what it states and what it shows."""
    steps = [_mapping(step) for step in _list(result.get("observations"))]
    searches = [_mapping(step.get("arguments")) for step in steps if step.get("tool") == "search"]
    reads = [_mapping(step.get("result")) for step in steps if step.get("tool") == "read"]
    shown = {
        "model_calls": len(_list(result.get("decisions"))),
        "searches": len(searches),
        "reads": len(reads),
        "source_bytes": sum(len(_bytes(_text(read.get("text")))) for read in reads),
    }
    stated, limits = _mapping(result.get("usage")), _mapping(result.get("limits"))
    return Seen(
        status=_text(result.get("status")),
        reason=_text(result.get("reason")),
        answer=_text(result.get("answer"))[:ANSWER_CHARACTERS],
        version=_text(result.get("version")),
        citations=[_mapping(citation) for citation in _list(result.get("citations"))],
        queries=[_text(search.get("query")) for search in searches],
        reads=reads,
        used={name: max(count, _number(stated.get(name))) for name, count in shown.items()},
        allowed={name: min(_number(limits.get(name, largest)), largest)
                 for name, largest in LARGEST.items()},
    )


def _covered(case: Case, sources: Iterable[object]) -> bool:
    """Whether one whole evidence set is among the sources."""
    have = {source for source in sources if isinstance(source, str)}
    return any(have.issuperset(one_set) for one_set in case.evidence_sets or ())


Found = Iterator[tuple[Finding, object, object]]  # the finding, what was expected, what was found


def _read_findings(seen: Seen, known: Mapping[str, Mapping[str, Any]]) -> Found:
    """Reads that are not, letter for letter, a passage of the trial's version."""
    for read in seen.reads:
        passage = known.get(_text(read.get("source_id")), {})
        text = _text(passage.get("text"))
        expected = {name: passage.get(name) for name in ("source_id", "version", "text", "url")}
        expected["text_sha256"] = hashlib.sha256(_bytes(text)).hexdigest()
        wrong = [name for name, value in expected.items() if read.get(name) != value]
        if wrong:
            yield (Finding.READ_NOT_IN_SNAPSHOT, {name: expected[name] for name in wrong},
                   {name: read.get(name) for name in wrong})


def _citation_findings(seen: Seen, known: Mapping[str, Mapping[str, Any]]) -> Found:
    """Citations of what was not read, and quotes that are not in the passage at their address."""
    read = [one.get("source_id") for one in seen.reads]
    for citation in seen.citations:
        source, quote = _text(citation.get("source_id")), _text(citation.get("quote"))
        passage = known.get(source, {})
        text, url = _text(passage.get("text")), passage.get("url")
        if source not in read:
            yield Finding.CITED_NOT_READ, source, read
        if not quote.strip() or quote not in text:
            yield Finding.QUOTE_NOT_IN_PASSAGE, text, quote
        elif citation.get("url", url) != url:
            yield Finding.QUOTE_NOT_IN_PASSAGE, url, citation["url"]


def _usage_findings(seen: Seen) -> Found:
    for name, used in seen.used.items():
        if used > seen.allowed[name]:
            yield Finding.USAGE_OVER_LIMIT, {name: seen.allowed[name]}, {name: used}


# === The judge ====================================================================================


def _label_findings(case: Case, seen: Seen) -> Found:
    """How the trial falls short of the case's labels."""
    if case.evidence_sets == ():
        if not seen.stopped:
            yield Finding.SHOULD_HAVE_STOPPED, "model_stopped", seen.reason
        return
    if seen.status != "answered" or not seen.answer.strip():
        yield Finding.NOT_ANSWERED, "answered", seen.reason
        return
    cited = [citation.get("source_id") for citation in seen.citations]
    if case.evidence_sets and not _covered(case, cited):
        yield Finding.SOURCE_NOT_CITED, [list(one_set) for one_set in case.evidence_sets], cited
    for pattern in case.answer_patterns:
        if not pattern.search(seen.answer):
            yield Finding.PATTERN_MISSING, pattern.pattern, seen.answer
    for pattern in case.forbidden_patterns:
        if match := pattern.search(seen.answer):
            yield Finding.PATTERN_FORBIDDEN, pattern.pattern, match[0]


def _outcome(case: Case | None, seen: Seen, findings: list[dict[str, Any]]) -> Outcome:
    """The first row that holds.

    | who ended it                                         | status              | outcome        |
    | anyone, but nobody labelled the question             | any                 | ungraded       |
    | the provider, a budget, the replay; it does not say  | failed; another     | not_measured   |
    | the model: an answer, or a stop where that is right  | answered,           | pass, when     |
    |                                                      | incomplete          | nothing speaks |
    |                                                      |                     | against it     |
    | the model stopped, or an allowance was used up       | incomplete          | incomplete     |
    | the model: an answer, no decision, or a refused one  | answered, failed    | fail           |

    A trial that failed always has a finding: it neither answered nor stopped.
    """
    if case is None:
        return Outcome.UNGRADED
    if not seen.measured:
        return Outcome.NOT_MEASURED
    if not findings:
        return Outcome.PASS
    return Outcome.INCOMPLETE if seen.status == "incomplete" else Outcome.FAIL


def grade(
    case: Case | None, result: Mapping[str, Any], passages: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """`{"checks": ..., "findings": [{"finding", "expected", "found"}, ...]}` for one trial.

    `case` is None for a question that nobody labelled. `passages` are those of the snapshot that
    the case or the result names (or all of them). Whatever a result lacks, or holds in another
    type, counts as empty, and a result that does not say how it ended measured nothing: a report
    from elsewhere can fail its checks, not stop them. Limits it does not state, or states larger
    than any trial may have, are the largest there are.
    """
    seen = _seen(_mapping(result))
    version = case.version if case else seen.version
    known = {source: p for (v, source), p in _by_key(passages).items() if v == version}
    found = [*_read_findings(seen, known), *_citation_findings(seen, known)]
    found += _usage_findings(seen)
    if case and seen.measured:
        found += _label_findings(case, seen)
    findings = [
        {"finding": finding.value, "expected": expected, "found": actual}
        for finding, expected, actual in found
    ]
    outcome = _outcome(case, seen, findings)
    checks = {
        "retrieval_targets_read": (
            _covered(case, (read.get("source_id") for read in seen.reads))
            if case and case.evidence_sets else None
        ),
        "answer_fixture_check": outcome is Outcome.PASS,
        "outcome": outcome.value,
        "trajectory": {
            "queries": seen.queries,
            "refined": len(seen.queries) > 1,
            "within_limits": all(f["finding"] != Finding.USAGE_OVER_LIMIT for f in findings),
        },
        "scope": SCOPE,
    }
    return {"checks": checks, "findings": findings}
