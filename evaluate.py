"""evaluate judges: it checks what people wrote into the cases, and grades what a trial ended with.

It never imports another module of this kit, never sees the model or the controller, opens no file and trusts no result:
it is handed parsed JSON, and derives again whatever can be derived. Read in this order (the heart comes last):

    Words       Outcome, Finding, Case, CaseFaults: what a judgement is made of
    Cases       load_cases: labels in, every fault of the file at once
    Labels      label_faults, weak_labels: what is wrong or worthless in the labels
    Results     summarize: the five outcomes per path; Seen: what a result shows, whatever it claims
    Findings    each fact that speaks against a trial
    The judge   grade
    Sameness    first_difference, unlike_report: where two results, or two requests, are not the same
    The report  report: graded trials and what is known of their run, as one JSON object

A pattern is searched for (`re.search`) anywhere in the answer, and case does not matter: that is Python's simple
folding, so `straße` does not match `STRASSE`. `$` also holds before one final line end, and `\\d` matches digits of
every script; `\\Z` and `[0-9]` are the exact forms.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar


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
    "unfinished_model_reply", "model_transport_failed", "batch_request_limit", "token_budget_limit",
    "cost_budget_limit", "provider_input_bytes_limit", "provider_response_bytes_limit", "replay_request_mismatch",
    "replay_exhausted", "reply_in_doubt",
})
ANSWER_CHARACTERS = 2_000  # a decision holds no more; what a foreign report adds is not searched
SCOPE = ("Checks written by hand for this case: what was read and cited, patterns in the answer's text, and stopping"
         " where nothing supports an answer; whether the answer is true, people decide.")


class Case(NamedTuple):
    """A question and its labels.

    One whole set of `evidence_sets` is enough; there is none when only a stop is right, and it is None when the
    patterns alone are to be checked.
    """

    id: str
    question: str
    version: str
    split: str
    evidence_sets: tuple[tuple[str, ...], ...] | None
    answer_patterns: tuple[re.Pattern[str], ...]
    forbidden_patterns: tuple[re.Pattern[str], ...]

    def covered(self, sources: list[str]) -> bool:
        """Whether one whole evidence set is among the sources."""
        return any(set(one_set) <= set(sources) for one_set in self.evidence_sets or ())


class CaseFaults(ValueError):
    """All that is wrong with a cases file: `faults`, one line each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


# === Cases ============================================================================================================
# Of each field: how deep its lists are, the form of its strings, and that form in words. Those without lists must be.
FIELDS = {
    "id": (0, r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "1 to 100 of A-Z a-z 0-9 . _ -, the first a letter or digit"),
    "question": (0, r"(?=.*\S)[^\x00-\x1f\x7f-\x9f]{1,512}", "1 to 512 characters, not blank, no control characters"),
    "version": (0, r"(?=.{1,20}\Z)[0-9]+(?:\.[0-9]+){0,2}", "1 to 3 numbers joined by dots, at most 20 characters"),
    "split": (0, "development|held-out", "'development' or 'held-out'"),
    "sources": (1, r"(?s).*\S.*", "a name"),
    "evidence_sets": (2, r"(?s).*\S.*", "a name"),
    "answer_patterns": (1, r"(?s).{1,1000}", "a pattern of 1 to 1,000 characters"),
    "forbidden_patterns": (1, r"(?s).{1,1000}", "a pattern of 1 to 1,000 characters"),
}
_KINDS = {str: "a string", bool: "a boolean", list: "a list", dict: "an object", type(None): "null"}


def load_cases(document: object) -> list[Case]:
    """The cases of a parsed cases file `{"cases": [...]}`; raises CaseFaults, and only that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of syntax that a later Python may read differently
        if faults := list(_file_faults(document)):
            raise CaseFaults(faults)
        return [_case(entry) for entry in _as(list, _as(dict, document).get("cases"))]


def _case(entry: dict[str, Any]) -> Case:
    """An entry without faults as a Case."""
    sets = [entry["sources"]] if entry.get("sources") else entry.get("evidence_sets", [])
    answer, forbidden = (tuple(re.compile(pattern, re.IGNORECASE) for pattern in entry.get(name, []))
                         for name in ("answer_patterns", "forbidden_patterns"))
    return Case(entry["id"], entry["question"], entry["version"], entry["split"],
                tuple(map(tuple, sets)) if entry.keys() & {"sources", "evidence_sets"} else None, answer, forbidden)


def _file_faults(document: object) -> Iterator[str]:
    """Every fault of every case, which is named by its id where that tells which one is meant."""
    if type(document) is not dict or type(document.get("cases")) is not list or not document["cases"]:
        yield "cases file: expected an object with 'cases', a list with at least one case"
        return
    yield from (f"unknown field {name[:60]!a} beside 'cases'" for name in document if name != "cases")
    first: dict[str, int] = {}
    for number, entry in enumerate(document["cases"]):
        where, name = f"cases[{number}]", entry.get("id") if type(entry) is dict else None
        if type(name) is str and not any(_string_faults("id", name)):
            if first.setdefault(name, number) == number:
                where = f"case '{name}'"
            else:
                yield f"{where}: id: '{name}' is already the id of cases[{first[name]}]"
        yield from (f"{where}: {fault}" for fault in _case_faults(entry))


def _case_faults(entry: Any) -> Iterator[str]:
    """What is wrong with one case: each field by itself, then the labels together."""
    if type(entry) is not dict:
        yield f"expected an object, found {_KINDS.get(type(entry), 'a number')}"
        return
    yield from (f"unknown field {name[:60]!a}" for name in entry if name not in FIELDS)
    for name, (depth, _, _) in FIELDS.items():
        if name in entry:
            yield from _faults(name, name, entry[name], depth)
        elif not depth:
            yield f"{name}: missing"
    sets = [name for name in ("sources", "evidence_sets") if name in entry]
    if len(sets) == 2:
        yield "sources and evidence_sets: only one of the two may be given"
    elif not (sets or entry.get("answer_patterns") or entry.get("forbidden_patterns")):
        yield "checks nothing: no sources, no evidence_sets, no patterns"


def _faults(field: str, where: str, value: Any, depth: int) -> Iterator[str]:
    """What is wrong with a value of a field, and with every item of it."""
    if type(value) is not (list if depth else str):  # the value itself is not shown: it may be too deep or too long
        yield f"{where}: expected {'a list' if depth else 'a string'}, found {_KINDS.get(type(value), 'a number')}"
    elif not depth:
        yield from (f"{where}: {fault}" for fault in _string_faults(field, str(value)))
    elif field == "evidence_sets" and not value:
        yield f'{where}: empty; where only a stop is right, write "sources": []'
    else:
        for number, item in enumerate(value):
            yield from _faults(field, f"{where}[{number}]", item, depth - 1)
            if not field.endswith("patterns") and type(item) is str and item in value[:number]:
                yield f"{where}[{number}]: {item[:60]!a} a second time"


def _string_faults(field: str, value: str) -> Iterator[str]:
    """What is wrong with one string of a field."""
    _, form, meaning = FIELDS[field]
    if not re.fullmatch(form, value):
        yield f"{value[:60]!a} is not {meaning}"
    elif field.endswith("patterns"):
        try:
            re.compile(value, re.IGNORECASE)
        except (re.error, ValueError, OverflowError, RecursionError) as error:  # ValueError: (?a) beside (?u)
            yield re.sub("[^ -~]", lambda odd: ascii(odd[0])[1:-1], str(error))


# === Labels ===========================================================================================================
def label_faults(cases: Iterable[Case], passages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Versions and sources that the labels name and the snapshot does not have."""
    known = _by_key(passages)
    versions = sorted({version for version, _ in known})
    faults = []
    for case in cases:
        sources = dict.fromkeys(source for one_set in case.evidence_sets or () for source in one_set)
        if case.version not in versions:
            faults.append(f"case '{case.id}': version {case.version} is not in the snapshot:"
                          f" {', '.join(versions) or 'no version at all'}")
        else:
            faults += [f"case '{case.id}': source {source[:60]!a} is not in version {case.version} of the snapshot"
                       for source in sources if (case.version, source) not in known]
    return faults


def weak_labels(cases: Iterable[Case], passages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Warnings: labels that can be used and do not check what they seem to check."""
    known = _by_key(passages)
    warned = []
    for case in cases:
        texts = [_as(str, passage.get("text")) for (version, source), passage in known.items()
                 if version == case.version and any(source in one_set for one_set in case.evidence_sets or ())]
        if case.evidence_sets == () and case.answer_patterns:
            warned.append(f"case '{case.id}': answer_patterns: never used, because only a stop is right here")
        if case.evidence_sets and not case.answer_patterns:
            warned.append(f"case '{case.id}': answer_patterns: none, so any text with the right citation passes")
        for field in ("answer_patterns", "forbidden_patterns"):
            for number, pattern in enumerate(getattr(case, field)):
                weak = _weaknesses(pattern, field == "answer_patterns", case.question, texts)
                warned += [f"case '{case.id}': {field}[{number}]: {weakness}" for weakness in weak]
    return warned


def _weaknesses(pattern: re.Pattern[str], required: bool, question: str, texts: list[str]) -> Iterator[str]:
    """What is weak about one pattern, given the question and the texts of the case's own sources."""
    plain = re.sub(r"(?s)\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?#[^)]*\)", "~", pattern.pattern)  # no escapes, no classes
    if pattern.search(""):
        yield "matches the empty string, so it matches any answer"
        return
    if re.search(r"(?<![*+?}])[*+]|\{\d*,\}", plain):
        yield "repeats without a bound, which can take for ever; write {0,60} or the like"
    if len({(branch[:1] == "^", branch[-1:] == "$") for branch in re.sub(r"\(.*\)", "~", plain).split("|")}) > 1:
        yield "an anchor holds for one alternative only: ^30|60$ finds 30...; group as ^(?:30|60)$"
    if re.search(r"\)[*+{]", plain) and re.search(r"[*+]|\{\d*,\}", plain):
        return  # a repeated group and a repeat without a bound may take for ever on a text
    literals = [match[0] for match in map(pattern.search, re.split(r"\{[^}]*\}|[][()|~^$.?*+]", plain)) if match]
    said = [match[0] for match in map(pattern.search, texts) if match]
    for hit in literals + said:
        if (hit[:1].isdigit() and pattern.search("1" + hit)) or (hit[-1:].isdigit() and pattern.search(hit + "0")):
            yield rf"bare number: it also finds '{hit}' inside a longer number; guard it as in (?<!\d)45(?!\d)"
            break
    for hit in literals:
        if hit[:1].isalpha() and pattern.search("x" + hit):
            yield rf"begins inside a word: it also finds '{hit}' at the end of a longer word; begin it with \b"
            break
    if not required and said:
        yield "forbids what one of the case's own sources says"
    if required and texts and not said:
        yield "no source of this case says it: a path that keeps to them must stop"
    if required and pattern.search(question):
        yield "the question alone satisfies it"


def _by_key(passages: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Passages by (version, source_id): one id may stand in several versions."""
    return {(_as(str, at.get("version")), _as(str, at.get("source_id"))): at for at in passages}


# === Results ==========================================================================================================
T = TypeVar("T", int, str, list[Any], dict[str, Any])


def _as(kind: type[T], value: object) -> T:
    """The value where it is of that type, and an empty one where it is not."""
    return value if isinstance(value, kind) else kind()


def summarize(trials: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Per path how many trials had each outcome: all five counts, zeros too."""
    counts: dict[str, dict[str, int]] = {}
    for trial in trials:
        path = counts.setdefault(_as(str, trial.get("mode")), {word.value: 0 for word in Outcome})
        outcome = _as(str, _as(dict, trial.get("checks")).get("outcome"))
        path[outcome if outcome in path else Outcome.UNGRADED.value] += 1
    return {mode: counts[mode] for mode in ("fixed", "agent", *counts) if mode in counts}


class Seen:
    """What a result says, whatever its shape: what is lacking counts as empty, and usage is counted again."""

    def __init__(self, result: object) -> None:
        said = _as(dict, result)
        steps = [_as(dict, step) for step in _as(list, said.get("observations"))]
        self.status, self.reason, self.version = (_as(str, said.get(at)) for at in ("status", "reason", "version"))
        self.answer = _as(str, said.get("answer"))[:ANSWER_CHARACTERS]
        self.citations = [_as(dict, citation) for citation in _as(list, said.get("citations"))]
        self.reads = [_as(dict, step.get("result")) for step in steps if step.get("tool") == "read"]
        self.cited, self.read = ([_as(str, at.get("source_id")) for at in seq] for seq in (self.citations, self.reads))
        searches = [_as(dict, step.get("arguments")) for step in steps if step.get("tool") == "search"]
        self.queries = [_as(str, search.get("query")) for search in searches]
        self.limits, stated = _as(dict, said.get("limits")), _as(dict, said.get("usage"))
        texts = [_as(str, read.get("text")).encode("utf-8", "surrogatepass") for read in self.reads]
        shown = {"model_calls": len(_as(list, said.get("decisions"))), "searches": len(searches),
                 "reads": len(self.reads), "source_bytes": sum(map(len, texts))}
        self.used = {name: max(count, _as(int, stated.get(name))) for name, count in shown.items()}
        outside = self.reason.partition(":")[0] in NOT_MEASURED_REASONS
        self.measured = self.status == "answered" or (self.status in ("incomplete", "failed") and not outside)


# === Findings =========================================================================================================
Found = Iterator[tuple[Finding, object, object]]  # the finding, what was expected, what was found
Known = Mapping[str, Mapping[str, Any]]  # the passages of the trial's version by id


def _read_findings(seen: Seen, known: Known) -> Found:
    """Reads that are not, letter for letter, a passage of the trial's version."""
    for read in seen.reads:
        passage = known.get(_as(str, read.get("source_id")), {})
        sha256 = hashlib.sha256(_as(str, passage.get("text")).encode("utf-8", "surrogatepass")).hexdigest()
        expected = {at: passage.get(at) for at in ("source_id", "version", "text", "url")} | {"text_sha256": sha256}
        if wrong := [at for at, value in expected.items() if read.get(at) != value]:
            yield Finding.READ_NOT_IN_SNAPSHOT, {at: expected[at] for at in wrong}, {at: read.get(at) for at in wrong}


def _citation_findings(seen: Seen, known: Known) -> Found:
    """Citations of what was not read, and quotes that are not in the passage at their address."""
    for citation in seen.citations:
        source, quote = _as(str, citation.get("source_id")), _as(str, citation.get("quote"))
        passage = known.get(source, {})
        text, url = _as(str, passage.get("text")), passage.get("url")
        if source not in seen.read:
            yield Finding.CITED_NOT_READ, source, seen.read
        if not quote.strip() or quote not in text:
            yield Finding.QUOTE_NOT_IN_PASSAGE, text, quote
        elif citation.get("url", url) != url:
            yield Finding.QUOTE_NOT_IN_PASSAGE, url, citation["url"]


def _usage_findings(seen: Seen) -> Found:
    """What was used beyond the limits that the result itself states."""
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
            if not pattern.search(seen.answer):
                yield Finding.PATTERN_MISSING, pattern.pattern, seen.answer
        for pattern in case.forbidden_patterns:
            if match := pattern.search(seen.answer):
                yield Finding.PATTERN_FORBIDDEN, pattern.pattern, match[0]


# === The judge ========================================================================================================
def grade(case: Case | None, result: Mapping[str, Any], passages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """`{"checks": ..., "findings": [{"finding", "expected", "found"}, ...]}` for one trial.

    `case` is None for a question that nobody labelled. `passages` are those of the snapshot that the case or the result
    names (or all of them). Whatever a result lacks, or holds in another type, counts as empty, and a result that does
    not say how it ended measured nothing: a report from elsewhere can fail its checks, not stop them.
    """
    seen = Seen(result)
    known = {source: at for (version, source), at in _by_key(passages).items() if version == (case or seen).version}
    found = [*_read_findings(seen, known), *_citation_findings(seen, known), *_usage_findings(seen)]
    if case and seen.measured:
        found += _label_findings(case, seen)
    outcome = _outcome(case, seen, bool(found))
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
    | anyone, but nobody labelled the question            | any                  | ungraded                           |
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
ABSENT = "(absent)"


def first_difference(old: Any, new: Any, path: str = "") -> tuple[str, str, str] | None:
    """Where two JSON values first differ: the path, and both sides as short text; None when they are the same.

    Key order does not matter; everything else does, types too: 0, 0.0 and false differ, and so do absent and null.
    """
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
    for name in [*one, *(name for name in other if name not in one)]:
        where = f"{path}[{name}]" if isinstance(old, list) else f"{path}.{name}".lstrip(".")
        if name not in one or name not in other:
            old, new = (_brief(side[name]) if name in side else ABSENT for side in (one, other))
            return where, old, new
        found = first_difference(one[name], other[name], where)
        if found:
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
    found = first_difference(old, new)
    if found is None:
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
    """Whether a JSON value has the list of trials with ids that a comparison needs."""
    trials = value.get("trials") if isinstance(value, dict) else None
    return isinstance(trials, list) and all(isinstance(at, dict) and isinstance(at.get("id"), str) for at in trials)


def unmeasured(report: Mapping[str, Any]) -> list[str]:
    """The ids of the trials of a report that were not measured."""
    trials = [(at["id"], _as(dict, at.get("checks")).get("outcome")) for at in report["trials"]]
    return [name for name, outcome in trials if outcome == Outcome.NOT_MEASURED]


def report(trials: list[dict[str, Any]], known: Mapping[str, Any]) -> dict[str, Any]:
    """A report over graded trials: what is `known` of their run, in the order of REPORT, and their summary."""
    parts = {**known, "trials": trials, "summary": summarize(trials)}
    return {name: parts[name] for name in REPORT} | {name: parts[name] for name in ("in_doubt",) if name in parts}
