"""evaluate judges: it checks what people wrote into the cases, and grades what a trial ended with.

It never imports another module of this kit, never sees the model or the controller, opens no file and trusts no result:
it is handed parsed JSON, and derives again whatever can be derived. Read in this order:

    Words, Cases, Labels      Outcome, Finding, Case; load_cases: labels in, every fault of a file at once; weak_labels
    Results, Findings         Seen: what a result shows, whatever it claims; each fact that speaks against a trial
    The judge, First cause    grade, which is the heart; first_cause: the stage at which a trial first broke
    Sameness, The report      first_difference, unlike_report: where two results, or two requests, are not the same
    Ranking, Comparison       hit to ndcg, judge: of judged queries; compare: of two runs; regrade: by other labels
    Citation audit, Packing   audit: links, claims and questions apart; study: what was found and what was given on
"""

import functools
import hashlib
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

Trials = Iterable[Mapping[str, Any]]  # as they stand in a report
Passages = Iterable[Mapping[str, Any]]  # of a snapshot
Within = Callable[[Callable[[], Any]], Any]  # gives what its argument gives; raises TimeoutError when that takes long

# === Words ============================================================================================================
class Word(StrEnum):
    """A word of a closed vocabulary: JSON carries the word, people are told the sentence."""
    sentence: str
    def __new__(cls, word: str, sentence: str) -> "Word":
        member = str.__new__(cls, word)
        member._value_, member.sentence = word, sentence
        return member

class Outcome(Word):
    """How a trial is judged; only the first three are measurements of the path."""
    PASS = "pass", "It did what its labels ask for."
    FAIL = "fail", "It answered wrongly, or the model proposed what is not allowed."
    INCOMPLETE = "incomplete", "It stopped, or an allowance ended, before there was an answer."
    NOT_MEASURED = "not_measured", "The provider, a budget or the replay ended it, not the model."
    UNGRADED = "ungraded", "Nobody labelled the question, or a pattern did not finish in time."

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
    PATTERN_TIMED_OUT = "pattern_timed_out", "A pattern did not finish in time, so no label was applied."

# Reasons, up to their first colon, that tell of the world around the model: nothing was measured.
NOT_MEASURED_REASONS = frozenset({
    "unfinished_model_reply", "model_transport_failed", "batch_request_limit", "token_budget_limit",
    "cost_budget_limit", "provider_input_bytes_limit", "provider_response_bytes_limit", "replay_request_mismatch",
    "replay_exhausted", "reply_in_doubt",
})
ANSWER_CHARACTERS = 2_000  # a decision holds no more; what a foreign report adds is not searched
UNCITED = (Finding.SOURCE_NOT_CITED, Finding.QUOTE_NOT_IN_PASSAGE, Finding.CITED_NOT_READ)
CITING = ("unread_or_changed_citation", "trivial_citation")  # reasons of a refused citation
DECISION = ("action", "query", "source_id", "answer", "assessment")  # of which only the last is never empty
SCOPE = ("Checks written by hand for this case: what was read and cited, patterns in the answer's text, and stopping"
         " where nothing supports an answer; whether the answer is true, people decide.")

class Case(NamedTuple):
    """A question and its labels.
    One whole set of `evidence_sets` is enough; there is none when only a stop is right, and it is None when the
    patterns alone are to be checked. `useful`, `stale` (with reasons) and `required` (questions) change no grade."""
    id: str
    question: str
    version: str
    split: str
    evidence_sets: tuple[tuple[str, ...], ...] | None
    answer_patterns: tuple[re.Pattern[str], ...]
    forbidden_patterns: tuple[re.Pattern[str], ...]
    useful: tuple[str, ...] = ()
    stale: Mapping[str, str] = {}
    required: Mapping[str, Mapping[str, str]] = {}

    @property
    def needed(self) -> list[str]:
        """The passages of all evidence sets, each once."""
        return list(dict.fromkeys(source for one_set in self.evidence_sets or () for source in one_set))

    @property
    def named(self) -> list[str]:
        """All passages that the labels name."""
        return [*self.needed, *self.useful, *self.stale]

    def covered(self, sources: list[str]) -> bool:
        """Whether one whole evidence set is among the sources."""
        return any(set(one_set) <= set(sources) for one_set in self.evidence_sets or ())

class CaseFaults(ValueError):
    """All that is wrong with a file of cases, of judged queries or of an audit: `faults`, one line each."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = [re.sub("[^ -~]", lambda odd: ascii(odd[0])[1:-1], fault) for fault in faults]
        super().__init__("\n".join(self.faults))

# === Cases ============================================================================================================
# Forms of JSON: a type; a pattern of the whole string, with what it means; a range of whole numbers; [form of an item];
# {name: form}, with `name?` for a field that may be absent; {str: form} where any names may stand.
NAME = (r"(?s).*\S.*", "a name")
PATTERN = (r"(?s).{1,1000}", "a pattern of 1 to 1,000 characters")
DATE = ("[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])", "a date like 2026-09-07")
SETS = [[NAME]]
CASE = {
    "id": (r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "1 to 100 of A-Z a-z 0-9 . _ -, the first a letter or digit"),
    "question": (r"(?=.*\S)[^\x00-\x1f\x7f-\x9f]{1,512}", "1 to 512 characters, not blank, no control characters"),
    "version": (r"(?=.{1,20}\Z)[0-9]+(?:\.[0-9]+){0,2}", "1 to 3 numbers joined by dots, at most 20 characters"),
    "split": ("development|held-out|asked", "'development' or 'held-out'"),  # asked: a question that nobody labelled
    "sources?": [NAME], "evidence_sets?": SETS, "answer_patterns?": [PATTERN], "forbidden_patterns?": [PATTERN],
    "useful?": [NAME], "stale?": {str: NAME}, "required?": {str: {"answered": PATTERN, "abstained?": PATTERN}},
}
UNBOUNDED = r"(?<![*+?}])[*+]|\{\d*,\}"  # a repeat without an upper bound, in a plain pattern
_KINDS = {str: "a string", bool: "a boolean", list: "a list", dict: "an object", type(None): "null"}

def load_cases(document: object, timer: bool = True) -> list[Case]:
    """The cases of a parsed cases file `{"cases": [...]}`; raises CaseFaults, and only that. Without a `timer` that
    ends the search for a pattern, one with two or more repeats without a bound is a fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of syntax that a later Python may read differently
        if faults := list(_file_faults(document, timer)):
            raise CaseFaults(faults)
        return [_case(entry) for entry in _as(list, _as(dict, document).get("cases"))]

def _case(entry: dict[str, Any]) -> Case:
    sets = [entry["sources"]] if entry.get("sources") else entry.get("evidence_sets", [])
    answer, forbidden = (tuple(re.compile(pattern, re.IGNORECASE) for pattern in entry.get(name, []))
                         for name in ("answer_patterns", "forbidden_patterns"))
    return Case(entry["id"], entry["question"], entry["version"], entry["split"],
                tuple(map(tuple, sets)) if entry.keys() & {"sources", "evidence_sets"} else None, answer, forbidden,
                tuple(entry.get("useful", [])), entry.get("stale", {}), entry.get("required", {}))

def _file_faults(document: object, timer: bool) -> Iterator[str]:
    """Every fault of every case, which is named by its id where that tells which one is meant."""
    if type(document) is not dict or type(document.get("cases")) is not list or not document["cases"]:
        yield "cases file: expected an object with 'cases', a list with at least one case"
        return
    yield from (f"unknown field {name[:60]!a} beside 'cases'" for name in document if name != "cases")
    first: dict[str, int] = {}
    for number, entry in enumerate(document["cases"]):
        where, name = f"cases[{number}]", entry.get("id") if type(entry) is dict else None
        if type(name) is str and not any(misshapen(name, CASE["id"])):
            if first.setdefault(name, number) == number:
                where = f"case '{name}'"
            else:
                yield f"{where}: id: '{name}' is already the id of cases[{first[name]}]"
        labels = _label_faults(entry, timer) if type(entry) is dict else ()
        yield from (f"{where}: {fault}" for fault in (*misshapen(entry, CASE), *labels))

def _label_faults(entry: dict[str, Any], timer: bool) -> Iterator[str]:
    """What is wrong with the labels of a case together."""
    sets, checks = entry.keys() & {"sources", "evidence_sets"}, ("answer_patterns", "forbidden_patterns")
    if len(sets) == 2:
        yield "sources and evidence_sets: only one of the two may be given"
    elif (entry.get("split") == "asked") is bool(sets or any(entry.get(name) for name in checks)):
        yield "split: 'asked' is for a question without labels" if entry.get("split") == "asked" else (
            "checks nothing: no sources, no evidence_sets, no patterns")
    lists = {name: _as(list, entry.get(name)) for name in ("sources", "useful")}
    lists["evidence_sets"] = [name for one_set in _as(list, entry.get("evidence_sets")) for name in _as(list, one_set)]
    yield from (f"stale: {name[:60]!a} is also in {field}" for name in _as(dict, entry.get("stale"))
                for field, names in lists.items() if name in names)
    yield from (f"{field}[{number}]: repeats without a bound more than once, and this machine has no timer to stop it;"
                " write {0,60} or the like" for field in checks for number, pattern in
                enumerate(_as(list, entry.get(field))) if not timer and len(re.findall(UNBOUNDED, _plain(pattern))) > 1)

def misshapen(value: Any, form: Any, where: str = "") -> Iterator[str]:
    """Where and how a JSON value is not of a form; the value is not shown where it may be too deep or too long."""
    kinds: dict[type, Any] = {tuple: str, range: int}
    kind: Any = form if isinstance(form, type) else kinds.get(type(form), type(form))
    at = f"{where}: " if where else ""
    if type(value) is not kind:
        yield f"{at}expected {_KINDS.get(kind, 'a whole number')}, found {_KINDS.get(type(value), 'a number')}"
    elif kind is dict:
        fields = dict.fromkeys(value, form[str]) if str in form else {name.rstrip("?"): form[name] for name in form}
        yield from (f"{at}unknown field {name[:60]!a}" for name in value if name not in fields)
        for name, inner in fields.items():
            path = f"{where}.{name[:60]}".removeprefix(".")
            if name in value:
                yield from misshapen(value[name], inner, path)
            elif f"{name}?" not in form:
                yield f"{path}: missing"
    elif kind is list:
        if not value and (form is SETS or form is SETS[0]):
            yield f'{at}empty; where only a stop is right, write "sources": []'
        for number, item in enumerate(value):
            yield from misshapen(item, form[0], f"{where}[{number}]")
            if form[0] is NAME and type(item) is str and item in value[:number]:
                yield f"{where}[{number}]: {item[:60]!a} a second time"
    elif type(form) is range and value not in form:
        yield f"{at}not a whole number from {form.start} to {form.stop - 1}"
    elif type(form) is tuple:
        yield from (f"{at}{fault}" for fault in _string_faults(value, form))

def _string_faults(value: str, form: tuple[str, str]) -> Iterator[str]:
    """What is wrong with a string that should be of a form."""
    if not re.fullmatch(form[0], value):
        yield f"{value[:60]!a} is not {form[1]}"
    elif form is PATTERN:
        try:
            re.compile(value, re.IGNORECASE)
        except (re.error, ValueError, OverflowError, RecursionError) as error:  # ValueError: (?a) beside (?u)
            yield str(error)

# === Labels ===========================================================================================================
def label_faults(cases: Iterable[Case], passages: Passages, versions: Sequence[str]) -> list[str]:
    """Versions and sources that the labels name and the snapshot does not have; `passages` are those named."""
    known, faults = _by_key(passages), list[str]()
    for case in cases:
        if case.version not in versions:
            faults.append(f"case '{case.id}': version {case.version} is not in the snapshot:"
                          f" {', '.join(versions) or 'no version at all'}")
        else:
            faults += [f"case '{case.id}': source {source[:60]!a} is not in version {case.version} of the snapshot"
                       for source in case.named if (case.version, source) not in known]
    return faults

def weak_labels(cases: Iterable[Case], passages: Passages, within: Within = lambda work: work()) -> list[str]:
    """Warnings: labels that do not check what they seem to check, or over which `within` raises TimeoutError."""
    passages, warned = list(passages), []
    for case in cases:
        texts = _own_texts(case, passages)
        if case.evidence_sets == () and case.answer_patterns:
            warned.append(f"case '{case.id}': answer_patterns: never used, because only a stop is right here")
        if case.evidence_sets and not case.answer_patterns:
            warned.append(f"case '{case.id}': answer_patterns: none, so any text with the right citation passes")
        for field in ("answer_patterns", "forbidden_patterns"):
            for number, pattern in enumerate(getattr(case, field)):
                look = _weaknesses(pattern, field == "answer_patterns", case.question, texts)
                try:
                    weak = within(functools.partial(list, look))
                except TimeoutError:
                    weak = ["the search for it did not end on a source of this case: bound its repeats"]
                warned += [f"case '{case.id}': {field}[{number}]: {weakness}" for weakness in weak]
    return warned

def _weaknesses(pattern: re.Pattern[str], required: bool, question: str, texts: list[str]) -> Iterator[str]:
    """What is weak about one pattern, given the question and the texts of the case's own sources."""
    plain = _plain(pattern.pattern)
    if pattern.search(""):
        yield "matches the empty string, so it matches any answer"
        return
    if re.search(UNBOUNDED, plain):
        yield "repeats without a bound, which can take for ever; write {0,60} or the like"
    if len({(branch[:1] == "^", branch[-1:] == "$") for branch in re.sub(r"\(.*\)", "~", plain).split("|")}) > 1:
        yield "an anchor holds for one alternative only: ^30|60$ finds 30...; group as ^(?:30|60)$"
    if re.search(r"\)[*+{]", plain) and re.search(r"[*+]|\{\d*,\}", plain):
        return  # a repeated group and a repeat without a bound may take for ever on a text
    literals = [match[0] for match in map(pattern.search, re.split(r"\{[^}]*\}|[][()|~^$.?*+]", plain)) if match]
    said, whole = [match[0] for match in map(pattern.search, texts) if match], re.sub(r"\\(\W)", r"\1", pattern.pattern)
    bare = [hit for hit in [*literals, *said, whole] if (hit[:1].isdigit() and pattern.search("1" + hit))
            or (hit[-1:].isdigit() and pattern.search(hit + "0"))]
    yield from (rf"bare number: it also finds '{hit}' inside a longer number; guard it as in (?<!\d)45(?!\d)"
                for hit in bare[:1])
    if inside := [hit for hit in literals if hit[:1].isalpha() and hit < "\u0e00" and pattern.search("x" + hit)]:
        yield rf"begins inside a word: it also finds '{inside[0]}' at the end of a longer word; begin it with \b"
    if not required and said:
        yield "forbids what one of the case's own sources says"
    if required and texts and not said:
        yield "no source of this case says it: a path that keeps to them must stop"
    if required and pattern.search(question):
        yield "the question alone satisfies it"

def _plain(pattern: object) -> str:
    """The pattern with a mark in place of each escape, class of characters and comment."""
    return re.sub(r"(?s)\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?#[^)]*\)", "~", _as(str, pattern))

def _own_texts(case: Case, passages: Passages) -> list[str]:
    return [_as(str, passage.get("text")) for (version, source), passage in _by_key(passages).items()
            if version == case.version and source in case.needed]

def _by_key(passages: Passages) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Passages by (version, source_id): one id may stand in several versions."""
    return {(_as(str, at.get("version")), _as(str, at.get("source_id"))): at for at in passages}

# === Results ==========================================================================================================
T = TypeVar("T", int, str, list[Any], dict[str, Any])

def _as(kind: type[T], value: object) -> T:
    """The value where it is of that type, and an empty one where it is not."""
    return value if isinstance(value, kind) else kind()

def outcome_of(trial: Mapping[str, Any]) -> str:
    """How a trial was judged; empty where it does not say."""
    return _as(str, _as(dict, trial.get("checks")).get("outcome"))

def summarize(trials: Trials) -> dict[str, dict[str, int]]:
    """Per path how many trials had each outcome: all five counts, zeros too."""
    counts: dict[str, dict[str, int]] = {}
    for trial in trials:
        path = counts.setdefault(_as(str, trial.get("mode")), {word.value: 0 for word in Outcome})
        path[outcome_of(trial) if outcome_of(trial) in path else Outcome.UNGRADED.value] += 1
    return {mode: counts[mode] for mode in ("fixed", "agent", *counts) if mode in counts}

class Seen:
    """What a result says, whatever its shape: what is lacking counts as empty, and usage is counted again."""
    def __init__(self, result: object) -> None:
        said = _as(dict, result)
        steps, decisions = ([_as(dict, step) for step in _as(list, said.get(name))]
                            for name in ("observations", "decisions"))
        self.status, self.reason, self.version = (_as(str, said.get(at)) for at in ("status", "reason", "version"))
        self.answer, self.trying = _as(str, said.get("answer"))[:ANSWER_CHARACTERS], ""  # `trying`: a pattern
        self.citations = [_as(dict, citation) for citation in _as(list, said.get("citations"))]
        self.reads = [_as(dict, step.get("result")) for step in steps if step.get("tool") == "read"]
        self.cited, self.read = ([_as(str, at.get("source_id")) for at in seq] for seq in (self.citations, self.reads))
        searches = [step for step in steps if step.get("tool") == "search"]
        self.queries = [_as(str, _as(dict, search.get("arguments")).get("query")) for search in searches]
        self.rankings = [[_as(str, _as(dict, at).get("source_id")) for at in _as(list, result.get("candidates"))]
                         for result in (_as(dict, search.get("result")) for search in searches)]
        self.decisions = [[_as(str, at.get(name)) for name in DECISION] for at in decisions]
        self.limits, stated = _as(dict, said.get("limits")), _as(dict, said.get("usage"))
        texts = [_as(str, read.get("text")).encode("utf-8", "surrogatepass") for read in self.reads]
        shown = {"model_calls": len(decisions), "searches": len(searches),
                 "reads": len(self.reads), "source_bytes": sum(map(len, texts))}
        self.used = {name: max(count, _as(int, stated.get(name))) for name, count in shown.items()}
        outside = self.reason.partition(":")[0] in NOT_MEASURED_REASONS
        self.measured = self.status == "answered" or (self.status in ("incomplete", "failed") and not outside)

# === Findings =========================================================================================================
Found = Iterator[tuple[Finding, object, object]]  # the finding, what was expected, what was found

def _trial_findings(seen: Seen, known: Mapping[str, Mapping[str, Any]]) -> Found:
    """What speaks against a trial whatever its labels: reads and quotes that are not, letter for letter, in the `known`
    passages of its version; citations of what was not read; use beyond the limits that the result states."""
    for read in seen.reads:
        passage = known.get(_as(str, read.get("source_id")), {})
        sha256 = hashlib.sha256(_as(str, passage.get("text")).encode("utf-8", "surrogatepass")).hexdigest()
        expected = {at: passage.get(at) for at in ("source_id", "version", "text", "url")} | {"text_sha256": sha256}
        if wrong := [at for at, value in expected.items() if read.get(at) != value]:
            yield Finding.READ_NOT_IN_SNAPSHOT, {at: expected[at] for at in wrong}, {at: read.get(at) for at in wrong}
    for citation in seen.citations:
        source, quote = _as(str, citation.get("source_id")), _as(str, citation.get("quote"))
        text, url = _as(str, known.get(source, {}).get("text")), known.get(source, {}).get("url")
        if source not in seen.read:
            yield Finding.CITED_NOT_READ, source, seen.read
        if not quote.strip() or quote not in text:
            yield Finding.QUOTE_NOT_IN_PASSAGE, text, quote
        elif citation.get("url", url) != url:
            yield Finding.QUOTE_NOT_IN_PASSAGE, url, citation["url"]
    for name, used in seen.used.items():
        if name in seen.limits and used > _as(int, seen.limits[name]):
            yield Finding.USAGE_OVER_LIMIT, {name: seen.limits[name]}, {name: used}

def _label_findings(case: Case, seen: Seen) -> Found:
    """How the trial falls short of the case's labels."""
    if case.evidence_sets == ():
        if (seen.status, seen.reason) != ("incomplete", "model_stopped"):
            yield Finding.SHOULD_HAVE_STOPPED, "model_stopped", seen.reason
    elif seen.status != "answered" or not seen.answer.strip():
        yield Finding.NOT_ANSWERED, "answered", seen.reason
    else:
        if case.evidence_sets and not case.covered(seen.cited):
            yield Finding.SOURCE_NOT_CITED, [list(one_set) for one_set in case.evidence_sets], seen.cited
        for pattern in case.answer_patterns:
            seen.trying = pattern.pattern
            if not pattern.search(seen.answer):
                yield Finding.PATTERN_MISSING, pattern.pattern, seen.answer
        for pattern in case.forbidden_patterns:
            seen.trying = pattern.pattern
            if match := pattern.search(seen.answer):
                yield Finding.PATTERN_FORBIDDEN, pattern.pattern, match[0]

# === The judge ========================================================================================================
def grade(case: Case | None, result: Mapping[str, Any], passages: Passages,
          within: Within = lambda work: work()) -> dict[str, Any]:
    """`{"checks": ..., "findings": [{"finding", "expected", "found"}, ...]}` for one trial.
    `case` is None for a question that nobody labelled; `passages` are those that the case or the result names, or all.
    What a result lacks, or holds in another type, counts as empty. Ungraded where `within` raises TimeoutError."""
    seen = Seen(result)
    case = None if case and case.split == "asked" and seen.measured else case
    known = {source: at for (version, source), at in _by_key(passages).items() if version == (case or seen).version}
    found = list(_trial_findings(seen, known))
    applied = case
    if case and seen.measured:
        try:
            found += within(lambda: list(_label_findings(case, seen)))
        except TimeoutError:
            found.append((Finding.PATTERN_TIMED_OUT, seen.trying, seen.answer))
            applied = None
    outcome = _outcome(applied, seen, bool(found))
    checks = {
        "retrieval_targets_read": case.covered(seen.read) if case and case.evidence_sets else None,
        "answer_fixture_check": outcome is Outcome.PASS,
        "outcome": outcome.value,
        "trajectory": {"queries": seen.queries, "refined": len(seen.queries) > 1,
                       "within_limits": not any(finding is Finding.USAGE_OVER_LIMIT for finding, _, _ in found)},
        "scope": SCOPE,
    }
    return {"checks": checks, "findings": [{"finding": finding.value, "expected": expected, "found": actual}
                                           for finding, expected, actual in found]}

def _outcome(case: Case | None, seen: Seen, faulty: bool) -> Outcome:
    """The first row that holds.

    | who ended it                                        | status               | outcome                            |
    | anyone, and no label was applied                    | any                  | ungraded                           |
    | the provider, a budget, the replay; it does not say | failed; another      | not_measured                       |
    | the model: an answer, or a stop where that is right | answered, incomplete | pass, when nothing speaks against  |
    | the model stopped, or an allowance was used up      | incomplete           | incomplete                         |
    | the model: an answer, no decision, or a refused one | answered, failed     | fail                               |
    """
    if case is None:
        return Outcome.UNGRADED
    if not seen.measured:
        return Outcome.NOT_MEASURED
    if not faulty:
        return Outcome.PASS
    return Outcome.INCOMPLETE if seen.status == "incomplete" else Outcome.FAIL

# === Sameness =========================================================================================================
def first_difference(old: Any, new: Any, path: str = "") -> tuple[str, str, str] | None:
    """Where two JSON values first differ, types too (0, 0.0, false), and both sides; None for key order alone."""
    if json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True):
        return None
    if isinstance(old, str) and isinstance(new, str):
        unlike = (at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other)
        at = next(unlike, min(len(old), len(new)))
        around = slice(max(0, at - 20), at + 20)
        return f"{path}, at character {at}", _brief(old[around]), _brief(new[around])
    if type(old) is not type(new) or not isinstance(old, (dict, list)):
        return path, _brief(old), _brief(new)
    one, other = (dict(enumerate(side)) if isinstance(side, list) else side for side in (old, new))
    for name in one | other:
        where = f"{path}[{name}]" if isinstance(old, list) else f"{path}.{name}".lstrip(".")
        if name not in one or name not in other:
            old, new = (_brief(side[name]) if name in side else "(absent)" for side in (one, other))
            return where, old, new
        if found := first_difference(one[name], other[name], where):
            return found
    return None

def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"

def unlike_report(trial: Mapping[str, Any], reported: Mapping[str, Any] | None) -> tuple[int | None, str] | None:
    """Where a trial is not what a report has of it: the number of the exchange, if it is one's, and a line."""
    if reported is None:
        return None, "the report does not have this trial"
    compared = ("result", "checks", "provider_usage", "elapsed_seconds")
    old, new = ({name: at.get(name) for name in compared} for at in (reported, trial))
    for side in (old, new):  # `scope` is a sentence of the run it was written in; the reason tells more than the status
        side["checks"] = {name: value for name, value in _as(dict, side["checks"]).items() if name != "scope"}
        side["result"] = {"reason": None, **_as(dict, side["result"])}
    if (found := first_difference(old, new)) is None:
        return None
    where, before, now = found
    number = re.match(r"(?:result\.decisions|provider_usage)\[(\d+)\]", where)
    detail = f" ({trial['detail']})" if trial["result"]["status"] == "failed" else ""
    return int(number[1]) + 1 if number else None, f"the report has {before} at {where}, and the replay {now}{detail}"

# === The report =======================================================================================================
REPORT = (
    "execution_mode", "recording", "provenance", "model", "config", "endpoint", "batch_request_cap", "limits",
    "cases_sha256", "snapshot_sha256", "summary", "replay", "trials", "recorded_at", "actual_api_requests",
    "recorded_api_requests", "source_sha256", "environment", "cost",
)

def is_report(value: object) -> bool:
    """Whether a JSON value has the list of trials with ids that a comparison needs, and no other list of doubts."""
    if not isinstance(value, dict) or not isinstance(value.get("in_doubt", []), list):
        return False
    trials = value.get("trials")
    return isinstance(trials, list) and all(isinstance(at, dict) and isinstance(at.get("id"), str) for at in trials)

def report(trials: list[dict[str, Any]], known: Mapping[str, Any]) -> dict[str, Any]:
    """A report over graded trials: what is `known` of their run, in the order of REPORT, and their summary."""
    parts = {**known, "trials": trials, "summary": summarize(trials)}
    return {name: parts[name] for name in REPORT} | {name: parts[name] for name in ("in_doubt",) if name in parts}

def coverage(case: Case, result: object, within: Within = lambda work: work()) -> list[dict[str, str]]:
    """Of each question that a case requires whether it was answered, abstained with a reason (shown), or omitted."""
    seen = Seen(result)
    def state(name: str, answered: str, abstained: str = r"(?!)") -> dict[str, str]:
        hits = [re.search(pattern, seen.answer, re.IGNORECASE) for pattern in (answered, abstained)]
        stopped = seen.decisions[-1][-1] if seen.reason == "model_stopped" and seen.decisions else ""
        told = [(word, hit[0]) for word, hit in zip(("answered", "abstained"), hits, strict=True) if hit]
        word, shown = next(iter(told), ("abstained", stopped) if stopped else ("omitted", ""))
        return {"question": name, "state": word, "shown": shown}
    told = []
    for name, patterns in (case.required if seen.measured else {}).items():
        try:
            told.append(within(functools.partial(state, name, **patterns)))
        except TimeoutError:
            told.append({"question": name, "state": "not known", "shown": "a pattern did not finish in time"})
    return told

# === First cause ======================================================================================================
class Stage(Word):
    """Where a trial first broke, in the order in which it is looked for."""
    PROVIDER = "provider", "The provider, a budget or the replay ended it, so nothing was measured."
    LABEL = "label not supported by its sources", "The case's own sources say nothing of what its patterns require."
    QUERY = "query", "No search found a needed passage, and the question's own words do."
    SEARCH = "search", "A needed passage was never a candidate."
    READ = "read", "A needed passage was a candidate, and was not read as it is."
    ANSWER = "answer", "All that is needed was read, and the answer is wrong or did not come."
    CITATION = "citation", "The answer does not cite what it rests on."
    ABSTENTION = "abstention", "It answered where only a stop is right, or stopped with the evidence read."

def first_cause(case: Case | None, trial: Mapping[str, Any], ranking: Iterable[str], passages: Passages,
                within: Within = lambda work: work()) -> dict[str, Any] | None:
    """`{"stage", "why", "step", "symptoms"}` of a graded trial; None where it passed or is ungraded.
    `ranking` has the ids that the question's own words find; `step` is the decision, or last search, that shows it."""
    if case is None or outcome_of(trial) in (Outcome.PASS, Outcome.UNGRADED):
        return None
    seen = Seen(trial.get("result"))
    findings = [_as(str, _as(dict, at).get("finding")) for at in _as(list, trial.get("findings"))]
    try:
        supported = within(lambda: _supported(case, passages))
    except TimeoutError:
        supported = True  # as far as can be told
    label = [] if supported else [(Stage.LABEL, ", ".join(case.needed))]
    broken = [*label, *_broken(case, seen, findings, set(ranking))] or [(Stage.ANSWER, ", ".join(findings))]
    (stage, why), *later = broken if seen.measured else [(Stage.PROVIDER, seen.reason)]
    steps = [f"{at}. {step[0]}: {next(filter(None, step[1:]), '')}" for at, step in enumerate(seen.decisions, 1)]
    searched = [at for at in steps if " search: " in at[:12]] if stage in (Stage.QUERY, Stage.SEARCH) else []
    stale = [f"stale passage cited: {name}: {case.stale[name]}" for name in seen.cited if name in case.stale]
    return {"stage": stage.value, "why": why, "step": (searched or steps or ["no decision"])[-1],
            "symptoms": [*(at.value for at, _ in later), *findings, *stale]}

def _broken(case: Case, seen: Seen, findings: list[str], ranked: set[str]) -> Iterator[tuple[Stage, str]]:
    """Each stage that broke and what shows it; of several evidence sets the one with the least missing counts."""
    read, needed, changed = set(seen.read), set(case.needed), Finding.READ_NOT_IN_SNAPSHOT in findings
    found = read.union(*seen.rankings)
    lacks = ((sorted({*one_set} - found), sorted({*one_set} - read)) for one_set in case.evidence_sets or ())
    missed, unread = min(lacks, key=lambda lack: (len(lack[0]), len(lack[1])), default=([], []))
    wrong = ", ".join(at for at in findings if at in (Finding.PATTERN_MISSING, Finding.PATTERN_FORBIDDEN))
    uncited = ", ".join(at for at in findings if at in UNCITED)
    answered, stopped, refused = seen.status == "answered", seen.reason == "model_stopped", seen.reason in CITING
    for stage, breaks, why in (
        (Stage.QUERY, needed & ranked and not needed & found, ", ".join(sorted(needed & ranked))),
        (Stage.SEARCH, missed, ", ".join(missed)),
        (Stage.READ, not missed and (unread or changed), ", ".join(unread or seen.read)),
        (Stage.ANSWER, not unread and (wrong or not (answered or stopped or refused)), wrong or seen.reason),
        (Stage.CITATION, refused or (answered and uncited and not wrong), uncited or seen.reason),
        (Stage.ABSTENTION, answered if case.evidence_sets == () else stopped and not unread, seen.reason),
    ):
        if breaks:
            yield stage, why

def _supported(case: Case, passages: Passages) -> bool:
    """Whether a source of the case says something that the labels require and the question does not say itself."""
    beyond = [at for at in case.answer_patterns if not at.search(case.question)] or case.answer_patterns
    texts = _own_texts(case, passages)
    return not (case.needed and beyond) or any(at.search(text) for at in beyond for text in texts)

def stages(trials: Trials) -> dict[str, dict[str, int]]:
    """Per path how many trials broke first at which stage, of those that have a `cause`."""
    causes = [(_as(str, at.get("mode")), at["cause"]["stage"]) for at in trials if at.get("cause")]
    return {mode: {stage.value: causes.count((mode, stage)) for stage in Stage if (mode, stage) in causes}
            for mode in dict.fromkeys(mode for mode, _ in causes)}

# === Ranking ==========================================================================================================
# A grade above 0 is relevant. Of the first k results a repeated one keeps its slot and earns nothing, and one that has
# no grade counts as 0: who calls says so. Where nothing is relevant, recall, reciprocal rank and nDCG are None.
def dcg(grades: Iterable[int]) -> float:
    """The sum of (2^grade - 1) / log2(rank + 1) over grades in the order of their ranks (Burges et al., 2005)."""
    return math.fsum((2**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))

def _measure(of: Callable[[list[int], list[int], int], float | None]) -> Callable[..., float | None]:
    """A measure of (ranking, grades by id, k) `of` the grades of the first k, all that are relevant sorted, and k."""
    def measure(ranking: Sequence[str], grades: Mapping[str, int], k: int) -> float | None:
        if type(k) is not int or k < 1:
            raise ValueError(f"k is {k!r}, not a whole number from 1")
        slots = [grades.get(at, 0) * (at not in ranking[:number]) for number, at in enumerate(ranking[:k])]
        relevant = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
        return of([max(0, grade) for grade in slots], relevant, k)
    return measure

MEASURES = {
    "hit": _measure(lambda slots, best, k: float(any(slots))),
    "precision": _measure(lambda slots, best, k: sum(map(bool, slots)) / k),
    "recall": _measure(lambda slots, best, k: sum(map(bool, slots)) / len(best) if best else None),
    "reciprocal_rank": _measure(lambda slots, best, k: max(
        (bool(grade) / rank for rank, grade in enumerate(slots, 1)), default=0.0) if best else None),
    "ndcg": _measure(lambda slots, best, k: dcg(slots) / dcg(best[:k]) if best else None),
}
hit, precision, recall, reciprocal_rank, ndcg = MEASURES.values()
JUDGED = {"queries": [{"id": NAME, "query?": NAME, "version?": CASE["version"], "grades": {str: range(-99, 100)}}]}
QUESTIONS = [{"id": NAME, "kind?": str, "question": NAME, "version?": CASE["version"],
              "answers": [{"anchor": NAME, "url?": str}]}]

def load_judged(document: Any) -> list[dict[str, Any]]:
    """Queries `{"id", "query", "version", "grades"}` of a document of the form JUDGED, of QUESTIONS (each anchor has
    grade 1) or of TREC qrels, a text of lines `query iteration passage grade`; raises CaseFaults."""
    form, faults = (QUESTIONS, []) if type(document) is list else (JUDGED, list[str]())
    if type(document) is str:
        grades: dict[str, dict[str, int]] = {}
        for number, line in enumerate(document.splitlines(), 1):
            query, _, passage, grade = line.split() if len(line.split()) == 4 else [""] * 4
            if not re.fullmatch("-?[0-9]{1,2}", grade):
                faults.append(f"line {number}: {line[:60]!a} is not 'query iteration passage grade'")
            elif grades.setdefault(query, {}).setdefault(passage, int(grade)) != int(grade):
                faults.append(f"line {number}: {passage[:60]!a} has another grade for {query[:60]!a} already")
        document = {"queries": [{"id": name, "grades": at} for name, at in grades.items()]}
    if faults := faults or list(misshapen(document, form)):
        raise CaseFaults(faults)
    queries = document["queries"] if form is JUDGED else [
        {"query": at["question"], "grades": {one["anchor"]: 1 for one in at["answers"]}, **at} for at in document]
    names = [at["id"] for at in queries]
    if faults := [f"{at[:60]!a}: two queries of this id" for at in dict.fromkeys(names) if names.count(at) > 1]:
        raise CaseFaults(faults)
    return [{name: at.get(name, "") for name in ("id", "query", "version", "grades")} for at in queries]

def mean(values: Sequence[float | None]) -> dict[str, Any]:
    """`{"mean", "over", "of"}`: over those of all values that are defined; None over none."""
    defined = [value for value in values if value is not None]
    return {"mean": math.fsum(defined) / len(defined) if defined else None, "over": len(defined), "of": len(values)}

def judge(queries: Iterable[Mapping[str, Any]], rankings: Mapping[str, Sequence[str]], k: int, unjudged_is_0: bool,
          aliases: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """`{"k", "queries": [...], "means": [{"measure", "mean", "over", "of"}]}` of rankings by the id of their query.
    A passage answers by its id, that without the `~N` of a part, or an alias. `why` says why there are no measures."""
    told = []
    for query in queries:
        ranking = [next((at for at in (name, re.sub("~[0-9]+$", "", name), *aliases.get(name, ()))
                         if at in query["grades"]), name) for name in rankings.get(query["id"], ())]
        unjudged = [name for name in dict.fromkeys(ranking[:k]) if name not in query["grades"]]
        why = "no ranking" if query["id"] not in rankings else "unjudged" if unjudged and not unjudged_is_0 else ""
        found = {name: None if why else measure(ranking, query["grades"], k) for name, measure in MEASURES.items()}
        told.append({"query": query["id"], **found, "unjudged": unjudged, "why": why})
    return {"k": k, "queries": told, "means": [{"measure": f"{name}@{k}", **mean([at[name] for at in told])}
                                               for name in MEASURES]}

def judge_searches(trials: Trials, cases: Mapping[str, Case], k: int) -> dict[str, Any]:
    """`judge` over each search of the trials: a needed passage has grade 2, a useful one 1, any other 0."""
    found = {f"{at.get('id')} search {number}": (cases.get(_as(str, at.get("case_id"))), ranking)
             for at in trials for number, ranking in enumerate(Seen(at.get("result")).rankings, 1)}
    queries = [{"id": name, "grades": dict.fromkeys(case.useful, 1) | dict.fromkeys(case.needed, 2) if case else {}}
               for name, (case, _) in found.items()]
    return judge(queries, {name: ranking for name, (_, ranking) in found.items()}, k, True, {})

def rows(entries: Iterable[Mapping[str, Any]], *names: str) -> list[list[str]]:
    """A table with a heading of the named fields of each entry: 3 decimals, `-` for None, a list joined by commas."""
    def cell(value: Any) -> str:
        text = "-" if value is None else f"{value:.3f}" if type(value) is float else str(value)
        return ", ".join(map(cell, value)) if isinstance(value, list) else text
    return [[name.replace("_", " ") for name in names], *([cell(at[name]) for name in names] for at in entries)]

# === Comparison =======================================================================================================
MEASURED = (Outcome.PASS, Outcome.FAIL, Outcome.INCOMPLETE)
USED = ("model_calls", "searches", "reads", "source_bytes", "prompt_tokens", "output_tokens", "seconds")

def exact_paired(only_a: int, only_b: int) -> float:
    """Two-sided p of the exact McNemar test: how often a fair coin splits the discordant pairs at least as unevenly."""
    tail = sum(math.comb(only_a + only_b, at) for at in range(min(only_a, only_b) + 1))
    return min(1.0, float(2 * tail / 2 ** (only_a + only_b)))

def wilson(successes: int, total: int) -> tuple[float, float] | None:
    """The 95 % interval of a rate (Wilson, 1927, with z = 1.959964); None for 0 of 0, ValueError for no rate."""
    if not 0 <= successes <= total:
        raise ValueError(f"{successes} of {total} is no rate")
    if not total:
        return None
    z2, rate = 1.959964**2, successes / total
    half = math.sqrt(z2 * (rate * (1 - rate) + z2 / (4 * total)) / total)
    low, high = ((rate + z2 / (2 * total) + side) / (1 + z2 / total) for side in (-half, half))
    return low if successes else 0.0, high if successes < total else 1.0

def compare(trials_a: Trials, trials_b: Trials) -> dict[str, Any]:
    """Trials of two reports or paths, paired by case and repeat, and by path where a side has both. "rates", "cost" and
    "abstention" are lists for `rows`; "left_out" names each trial not measured in both, or there a second time."""
    sides = {"a": list(trials_a), "b": list(trials_b)}
    by_path = any(len({_as(str, at.get("mode")) for at in side}) > 1 for side in sides.values())
    named: dict[str, dict[str, Mapping[str, Any]]] = {"a": {}, "b": {}}
    left_out, cases, counts = [], set(), dict.fromkeys(("both", "only a", "only b", "neither"), 0)
    for side, trials in sides.items():
        for at in trials:
            name = "-".join(str(at.get(part)) for part in ("case_id", *["mode"][:by_path], "repeat"))
            left_out += [f"{name}: a second time in {side}"] if name in named[side] else []
            named[side].setdefault(name, at)
    sides = {side: list(trials.values()) for side, trials in named.items()}
    pairs = {name: [outcome_of(named[side].get(name, {})) for side in sides] for name in named["a"] | named["b"]}
    for name, both in pairs.items():
        if set(both) <= {*MEASURED}:
            a, b = (outcome == Outcome.PASS for outcome in both)
            counts["both" if a and b else "only a" if a else "only b" if b else "neither"] += 1
            cases.add(str(named["a"][name].get("case_id")))
        else:
            left_out.append(f"{name}: {both[0] or 'absent'} in a, {both[1] or 'absent'} in b")
    p = exact_paired(counts["only a"], counts["only b"])
    limits = {json.dumps(_as(dict, at.get("result")).get("limits"), sort_keys=True) for at in sides["a"] + sides["b"]}
    more = f"{'ab'[counts['only b'] > counts['only a']]} passed more often"
    better = "nothing to compare" if not cases else "cannot be told apart" if p >= 0.05 else more
    verdict = (f"{better}: of {sum(counts.values())} pairs {counts['only a']} passed only in a, {counts['only b']} only"
               f" in b, p = {p:.3g}; they are of {len(cases)} cases, and repeats of one case are not independent")
    return {"verdict": verdict, "p": p, "equal_allowance": len(limits) < 2, "counts": counts, "left_out": left_out,
            "pairs": pairs, **{name: [at for side, trials in sides.items() for at in figures(side, trials)]
               for name, figures in (("rates", _rates), ("cost", _costs), ("abstention", _abstention))}}

def _rates(side: str, trials: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """How many trials passed, with the interval, and how many cases on all, on some and on none of their repeats."""
    measured = [(_as(str, at.get("case_id")), outcome_of(at)) for at in trials if outcome_of(at) in MEASURED]
    cases = {name: [outcome == Outcome.PASS for one, outcome in measured if one == name] for name, _ in measured}
    repeats, passed = list(map(len, cases.values())), list(map(sum, cases.values()))
    every, none = sum(map(all, cases.values())), passed.count(0)
    low, high = wilson(sum(passed), sum(repeats)) or (None, None)
    yield {"side": side, "passed": sum(passed), "of": sum(repeats),
           "pass@1": sum(passed) / sum(repeats) if cases else None, "low": low, "high": high, "cases": len(cases),
           "on all": every, "on some": len(cases) - every - none, "on none": none, "repeats": sorted({*repeats})}

def _costs(side: str, trials: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What a trial used in the mean, by outcome; None where that is not known of all. Thinking counts as output."""
    for outcome in dict.fromkeys(map(outcome_of, trials)):
        same = [at for at in trials if outcome_of(at) == outcome]
        means = (None if None in used else sum(used) / len(used) for used in zip(*map(_used, same), strict=True))
        yield {"side": side, "outcome": outcome, "trials": len(same), **dict(zip(USED, means, strict=True))}

def _used(trial: Mapping[str, Any]) -> list[Any]:
    usage, seconds = _as(list, trial.get("provider_usage")), trial.get("elapsed_seconds")
    known = usage and all(isinstance(at, dict) for at in usage)
    tokens = [sum(_as(int, at.get(name)) for at in usage for name in names) if known else None
              for names in (("promptTokenCount",), ("candidatesTokenCount", "thoughtsTokenCount"))]
    return [*Seen(trial.get("result")).used.values(), *tokens, seconds if type(seconds) in (int, float) else None]

def _abstention(side: str, trials: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of the measured trials who answered and who stopped, where the case has an evidence set and where it has none."""
    for held in (True, False):
        ended = [_as(dict, at.get("result")) for at in trials if outcome_of(at) in MEASURED
                 and (_as(dict, at.get("checks")).get("retrieval_targets_read") is not None) == held]
        answered = sum(at.get("status") == "answered" for at in ended)
        stopped = sum(at.get("reason") == "model_stopped" for at in ended)
        yield {"side": side, "evidence": "there" if held else "none", "answered": answered, "stopped": stopped,
               "neither": len(ended) - answered - stopped}

def regrade(trials: Trials, old: Any, new: Any, passages: Passages, within: Within) -> list[dict[str, Any]]:
    """Each trial's grade beside that of the cases file `new`, and the fields of its case that are not as in `old`."""
    passages, cases, told = list(passages), {case.id: case for case in load_cases(new)}, []
    before, today = ({entry["id"]: entry for entry in document["cases"]} for document in (old, new))
    for trial in trials:
        result, name = _as(dict, trial.get("result")), _as(str, trial.get("case_id"))
        was, now, case = before.get(name, {}), today.get(name, {}), cases.get(name)
        same = case and (case.question, case.version) == (result.get("question"), result.get("version"))
        graded = grade(case, result, passages, within) if same else {"findings": []}
        told.append({"trial": trial.get("id"), "stored": outcome_of(trial),
                     "today": outcome_of(graded) or ("another question" if case else "no such case"),
                     "labels": [field for field in dict.fromkeys([*was, *now]) if was.get(field) != now.get(field)],
                     "findings": graded["findings"]})
    return told

# === Citation audit ===================================================================================================
_PLACED: dict[str, Any] = {"span": [range(10**9)], "text": NAME}
_TRUTHS: dict[str, Any] = {"dated": DATE, "correct": {str: bool}}
AUDIT: dict[str, Any] = {
    "as_of": DATE, "questions": {str: NAME}, "report": NAME,
    "sources": {str: {"text": NAME, "from": DATE, "until?": DATE, "authority": [NAME]}},
    "claims": {str: {"question": NAME, **_PLACED}},
    "citations": {str: {"claim": NAME, "source": NAME, "entails": bool, "quote?": _PLACED, **_PLACED}},
    "reference": _TRUTHS, "corrections": [{"replaces": str, "reason": NAME, "declared": [NAME], **_TRUTHS}],
}
STATES = {(True, True): "right and supported", (True, False): "right without support",
          (False, True): "wrong though faithful to stale evidence", (False, False): "wrong and unsupported"}

def sha256_of(value: Any) -> str:
    """The SHA-256 of a JSON value in canonical form, by which a correction names what it replaces."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

def _spans(document: Mapping[str, Any]) -> Iterator[tuple[str, str, int, int, str]]:
    """Each span of an audit: its name, the text it is of, its start and end (-1 for one that is no pair), the quote."""
    for name, at in [*document["claims"].items(), *document["citations"].items()]:
        source = document["sources"].get(at.get("source"), {"text": ""})
        for where, text, one in ((name, document["report"], at), (f"{name}.quote", source["text"], at.get("quote"))):
            if one:
                yield where, text, *(one["span"] if len(one["span"]) == 2 else (-1, -1)), one["text"]

def _audit_faults(document: Mapping[str, Any]) -> Iterator[str]:
    """Names that lead nowhere, spans outside their text, intervals that end first, corrections that hide a change."""
    claims, cited, sources, before = (document[at] for at in ("claims", "citations", "sources", "reference"))
    named = [(name, at["question"], "questions") for name, at in claims.items()]
    named += [(name, at["claim"], "claims") for name, at in cited.items()]
    named += [(name, one, "questions") for name, at in sources.items() for one in at["authority"]]
    yield from (f"{name}: {one[:60]!a} is not among the {among}" for name, one, among in named
                if one not in document[among])
    yield from (f"{name}: both a claim and a citation" for name in claims if name in cited)
    yield from (f"{name}: a span is a start and a later end from 0 to {len(text)}"
                for name, text, start, end, _ in _spans(document) if not 0 <= start < end <= len(text))
    yield from (f"{name}: ends before it begins" for name, at in sources.items() if at["from"] >= at.get("until", "A"))
    for number, after in enumerate([before, *document["corrections"]]):
        where, now = f"corrections[{number - 1}]" if number else "reference", after["correct"]
        yield from (f"{where}: {name[:60]!a} is no claim, or not judged" for name in sorted(claims.keys() ^ now.keys()))
        changed = {name for name in now if before["correct"].get(name) is not now[name]}
        yield from (f"{where}: {name[:60]!a} is changed and not declared, or declared and not changed"
                    for name in sorted(changed ^ {*after.get("declared", ())}))
        if number and (after["replaces"] != sha256_of(before) or after["dated"] < before["dated"]):
            yield f"{where}: it must replace {sha256_of(before)}, and not be of a day before {before['dated']}"
        before = after

def audit(document: Any) -> dict[str, Any]:
    """`{"measures", "claims", "citations", "references", "moved"}` of a document of the form AUDIT; raises CaseFaults.
    Spans count code points; their end, and the day `until` which a source holds, are outside. A text that does not
    stand at its span is `moved`: what was judged of it does not count."""
    if faults := list(misshapen(document, AUDIT)) or list(_audit_faults(document)):
        raise CaseFaults(faults)
    moved = {name: text[start:end] for name, text, start, end, quote in _spans(document) if text[start:end] != quote}
    references, cited, claims = [document["reference"], *document["corrections"]], [], []
    for name, at in document["citations"].items():
        source, claim = document["sources"].get(at["source"]), at["claim"]
        resolves = source is not None and not {name, f"{name}.quote"} & moved.keys()
        cited.append({
            "citation": name, "claim": claim, "resolves": resolves,
            "entails": resolves and at["entails"] and claim not in moved,
            "holds": resolves and source["from"] <= document["as_of"] < source.get("until", "A")
            and document["claims"][claim]["question"] in source["authority"]})
    for name, at in document["claims"].items():
        own = [one for one in cited if one["claim"] == name]
        supported = any(one["entails"] for one in own)
        right = [name not in moved and one["correct"][name] for one in references]
        claims.append({
            "claim": name, "question": at["question"], "stands": name not in moved, "supported": supported,
            "resolves": any(one["resolves"] for one in own), "states": [STATES[one, supported] for one in right],
            "holds": any(one["entails"] and one["holds"] for one in own), "right": right})
    answers = [[at for at in claims if at["question"] == name] for name in document["questions"]]
    return {"measures": list(_fractions(cited, claims, answers)), "claims": claims, "citations": cited,
            "references": [{**at, "sha256": sha256_of(at)} for at in references], "moved": moved}

def _fractions(cited: list[Any], claims: list[Any], answers: list[list[Any]]) -> Iterator[dict[str, Any]]:
    """The measures, each over its own whole; `answers` has the claims of each question."""
    for name, each in (
        ("citations that resolve / attempted", [at["resolves"] for at in cited]),
        ("citations that entail / attempted", [at["entails"] for at in cited]),
        ("citations that entail / resolving", [at["entails"] for at in cited if at["resolves"]]),
        ("claims with a resolving citation", [at["resolves"] for at in claims]),
        ("claims supported by their own citations", [at["supported"] for at in claims]),
        ("claims supported by current, applicable citations", [at["holds"] for at in claims]),
        ("required questions addressed", [any(at["stands"] for at in own) for own in answers]),
        ("claims correct, under the original reference", [at["right"][0] for at in claims]),
        ("claims correct, after the dated correction of that reference", [at["right"][-1] for at in claims]),
        ("required questions rightly answered after the correction",
         [bool(own) and all(at["right"][-1] for at in own) for own in answers]),
    ):
        yield {"measure": name, "value": f"{sum(each)}/{len(each)}", "numerator": sum(each), "denominator": len(each)}

# === Packing study ====================================================================================================
def size(texts: Sequence[str]) -> int:
    """The bytes of a compact JSON array of the texts."""
    return len(json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))

def pack(ranked: Sequence[Mapping[str, Any]], budget: int, order: str) -> tuple[list[Any], dict[str, int]]:
    """The whole passages that fit, by `recency` (of `published`) or `rank`, and the bytes that each other would have
    needed. In rank order a longer list packs all that its beginning packs: what comes later takes nothing back."""
    packed, skipped = list[Any](), dict[str, int]()
    for at in sorted(ranked, key=lambda at: at["published"], reverse=True) if order == "recency" else ranked:
        needed = size([one["text"] for one in [*packed, at]])
        if needed <= budget:
            packed.append(at)
        else:
            skipped[at["id"]] = needed
    return packed, skipped

def study(table: Mapping[str, Any], budget: int = 240, order: str = "recency") -> dict[str, Any]:
    """`{"arms": [...], "executions": [...], "prefix": {...}}` of recordings/packing.json; ValueError for a budget below
    the two bytes of an empty array, and for another order. The filter uses version and kind, the oracle the labels."""
    if budget < 2 or order not in ("recency", "rank"):
        raise ValueError(f"budget {budget!r}, order {order!r}: expected a number of bytes from 2, and recency or rank")
    ranked, labels = table["passages"], table["labels"].values()
    current: dict[str, Any] = {}  # by text: the best placed of exact copies
    for at in ranked:
        if (at["version"], at["kind"]) == (table["version"], table["kind"]):
            current.setdefault(at["text"], at)
    arms, executions = [], []
    for arm, chosen in {
        f"top-2, {order} first": ranked[:2], f"top-5, {order} first": ranked[:5],
        "top-5, filtered by version and source kind, exact duplicates removed":
            list(current.values()),
        "oracle evidence, same budget": [next(at for at in ranked if at["id"] in ids) for ids in labels],
    }.items():
        packed, skipped = pack(chosen, budget, order)
        texts, ids = [at["text"] for at in packed], ", ".join(at["id"] for at in packed)
        runs = [{"arm": arm, "control": control, "request": request["id"], **_execute(table, texts, needs, request)}
                for control, needs in table["controls"].items() for request in table["requests"]]
        kept = [at["kept"] for at in runs[: len(table["requests"])]]
        counts = [sum(any(at["id"] in ids for at in some) for ids in labels) for some in (chosen, packed)]
        arms.append({"arm": arm, "retrieved current units": f"{counts[0]}/{len(labels)}",
                     "packed current units": f"{counts[1]}/{len(labels)}", "packed ids, bytes": f"{ids}: {size(texts)}",
                     "correct control's contracts kept": f"{sum(kept)}/{len(kept)}", "skipped": skipped})
        executions += runs
    short, long = ([at["id"] for at in pack(ranked[:top], budget, "rank")[0]] for top in (2, 5))
    return {"arms": arms, "executions": executions,
            "prefix": {"top-2": short, "top-5": long, "nothing evicted": set(short) <= set(long)}}

def _execute(table: Mapping[str, Any], texts: list[str], needs: list[str], request: dict[str, Any]) -> dict[str, Any]:
    """One control on one request with an empty ledger, which pays nothing above its own limits."""
    facts = {unit: {int(at) for text in texts for at in re.findall(table["facts"][unit], text)} for unit in needs}
    missing, conflicting = [at for at in needs if not facts[at]], [at for at in needs if len(facts[at]) > 1]
    abstains = missing or conflicting
    pays = not abstains and all(request[at] <= max(facts[at]) for at in needs)
    allowed = all(request[at] <= most for at, most in table["ledger"].items())
    return {"decision": "abstain" if abstains else "pay" if pays else "decline", "missing_evidence": missing,
            "conflicting_evidence": conflicting, "wrong_decision": not abstains and pays != allowed,
            "refused_attempt": pays and not allowed, "ledger": [request["limit"]] if pays and allowed else [],
            "wrong_final_state": allowed and not pays, "kept": not abstains and pays == allowed}
