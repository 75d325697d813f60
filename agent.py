"""agent decides: it lets a model propose one action at a time, and admits or refuses each.

It never searches, sends, prints, opens a file, reads a clock or grades: tools, model and clock are handed in. Read in
this order: reasons - limits and tasks - the strict loader - facts (the tape) - decisions - admission - the loop.
"""

import contextlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Protocol


# === Reasons ==========================================================================================================
class Reason(StrEnum):
    """Why a trial ended, or why nothing could run: the word JSON carries, what the trial becomes, and a sentence."""
    status: str
    sentence: str

    def __new__(cls, word: str, status: str, sentence: str) -> "Reason":
        member = str.__new__(cls, word)
        member._value_, member.status, member.sentence = word, status, sentence
        return member

    CITATION_CONTRACT_PASSED = "citation_contract_passed", "answered", "Every citation quotes a passage that was read."
    DEADLINE = "deadline", "incomplete", "The seconds of the trial are used up."
    MODEL_CALL_LIMIT = "model_call_limit", "incomplete", "The model calls of the trial are used up."
    MODEL_STOPPED = "model_stopped", "incomplete", "The model stopped without an answer."
    SEARCH_LIMIT = "search_limit", "incomplete", "One search more than the trial may make."
    READ_OR_BYTE_LIMIT = "read_or_byte_limit", "incomplete", "A read past the count or the bytes that may be read."
    INVALID_DECISION = "invalid_decision", "failed", "The reply is not one JSON object of the six fields."
    UNKNOWN_ACTION = "unknown_action", "failed", "The action is none of search, read, answer, stop."
    INVALID_CITATION = "invalid_citation", "failed", "A citation is not one source_id and one quote."
    UNEXPECTED_ACTION_FIELDS = "unexpected_action_fields", "failed", "A field is filled that the action does not use."
    INVALID_QUERY = "invalid_query", "failed", "The query holds nothing that can be searched for."
    INVALID_SOURCE = "invalid_source", "failed", "A read that names no passage."
    MISSING_ANSWER_EVIDENCE = "missing_answer_evidence", "failed", "An answer without text or without a citation."
    FIXED_POLICY_TOOL_REQUEST = "fixed_policy_tool_request", "failed", "A search or read proposed on the fixed path."
    DUPLICATE_QUERY = "duplicate_query", "failed", "The same set of search terms a second time."
    UNISSUED_SOURCE = "unissued_source", "failed", "A read of an id that no search has handed out."
    DUPLICATE_READ = "duplicate_read", "failed", "A passage read a second time."
    CHANGED_READ = "changed_read", "failed", "The passage no longer matches its receipt."
    SEARCH_FAILED = "search_failed", "failed", "The search broke; this is not an empty result."
    UNREAD_OR_CHANGED_CITATION = "unread_or_changed_citation", "failed", "A quote that is in no passage as it was read."
    TRIVIAL_CITATION = "trivial_citation", "failed", "A quote too short to support anything."
    UNFINISHED_MODEL_REPLY = "unfinished_model_reply", "failed", "The service gave no single finished text reply."
    MODEL_TRANSPORT_FAILED = "model_transport_failed", "failed", "The exchange itself failed; its kind follows."
    PROVIDER_INPUT_BYTES_LIMIT = "provider_input_bytes_limit", "failed", "The request is larger than one may be."
    PROVIDER_RESPONSE_BYTES_LIMIT = "provider_response_bytes_limit", "failed", "The response is larger than one may be."
    BATCH_REQUEST_LIMIT = "batch_request_limit", "failed", "The requests that the whole run may make are used up."
    TOKEN_BUDGET_LIMIT = "token_budget_limit", "failed", "The next request could use more tokens than the run has left."
    COST_BUDGET_LIMIT = "cost_budget_limit", "failed", "The next request could cost more money than the run has left."
    REPLAY_REQUEST_MISMATCH = "replay_request_mismatch", "failed", "The request is not the recorded one."
    REPLAY_EXHAUSTED = "replay_exhausted", "failed", "A request that the recording does not have."
    REPLY_IN_DOUBT = "reply_in_doubt", "failed", "A request was sent and its reply is not known."
    REPLAY_UNUSED_EXCHANGES = "replay_unused_exchanges", "", "The recording has exchanges that were not asked for."
    MISSING_API_KEY = "missing_api_key", "", "No usable key is in GOOGLE_API_KEY or GEMINI_API_KEY."
    INVALID_REQUEST_ALLOWANCE = "invalid_request_allowance", "", "A run may make 1 to 200 requests."
    INVALID_LIMITS = "invalid_limits", "", "A limit is not a whole number from 1 to its largest."
    INVALID_QUESTION = "invalid_question", "", "A question has 1 to 512 characters and is not blank."
    INVALID_VERSION = "invalid_version", "", "A version is one to three numbers joined by dots, 20 characters at most."
    INVALID_MODE = "invalid_mode", "", "A path is either agent or fixed."

BUDGETS = (Reason.BATCH_REQUEST_LIMIT, Reason.TOKEN_BUDGET_LIMIT, Reason.COST_BUDGET_LIMIT)
# Faults of a request that never left: it does not count as a model call.
UNSENT = (*BUDGETS, Reason.PROVIDER_INPUT_BYTES_LIMIT, Reason.REPLAY_REQUEST_MISMATCH, Reason.REPLAY_EXHAUSTED)

class Fault(Exception):
    """The one exception at the ports: a tool or the model could not do its part; `kind` is a transport fault's."""
    def __init__(self, reason: Reason, detail: str, kind: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail, self.kind = reason, detail, kind

class Mistake(Fault):
    """What a person gave cannot be run; told before any trial."""

# === Limits and tasks =================================================================================================
class Limits(NamedTuple):
    """What one trial may use: counts, UTF-8 bytes of passage text, and seconds."""
    model_calls: int = 9
    searches: int = 3
    reads: int = 4
    source_bytes: int = 4096
    seconds: int = 180

LARGEST = Limits(model_calls=12, searches=4, reads=6, source_bytes=8192, seconds=300)

class Task(NamedTuple):
    """One question on one path (`agent` or `fixed`); `candidates` is how many a search hands out."""
    question: str
    version: str
    mode: str
    limits: Limits = Limits()
    candidates: int = 2

def checked(task: Task) -> Task:
    """The task itself; raises Mistake when it cannot be run."""
    for name, number in [*task.limits._asdict().items(), ("candidates", task.candidates)]:
        largest = getattr(LARGEST, name, 10)
        if type(number) is not int or not 1 <= number <= largest:
            raise Mistake(Reason.INVALID_LIMITS, f"{name} is {shown(number)}; it can be a whole number, 1 to {largest}")
    for reason, name, value, shape in (
        (Reason.INVALID_QUESTION, "question", task.question, r"(?=\s*\S)[^\ud800-\udfff]{1,512}"),
        (Reason.INVALID_VERSION, "version", task.version, r"(?=.{1,20}\Z)[0-9]+(\.[0-9]+){0,2}"),
        (Reason.INVALID_MODE, "path", task.mode, "agent|fixed"),
    ):
        if type(value) is not str or not re.fullmatch(shape, value):
            raise Mistake(reason, f"the {name} is {shown(value)}; {reason.sentence[0].lower()}{reason.sentence[1:-1]}")
    return task

class Stopped(Exception):
    """A live run that ended before its trials did, and why; what was recorded is kept."""

class Allowance:
    """What a whole run may still use: requests, and tokens and money where a budget is set.

    A request is held against the worst it could use: a token a byte, and all its output tokens. The same is taken down
    where the service did not say what was used. Prices are money per million input and output tokens.
    """
    def __init__(self, requests: int, output_tokens: int, budget: Mapping[str, Any]) -> None:
        self.limits = (requests, budget.get("tokens"), budget.get("cost"))
        self.output, self.prices = output_tokens, budget.get("prices", (0, 0))
        self.used: list[float] = [0, 0, 0]

    def _use(self, requests: int, prompt: int, output: int) -> list[float]:
        return [requests, prompt + output, (prompt * self.prices[0] + output * self.prices[1]) / 1e6]

    def worst(self, size: int, requests: int = 1) -> list[float]:
        """What requests of `size` bytes could use at most: requests, tokens, money."""
        return self._use(requests, size * requests, self.output * requests)

    def check(self, size: int) -> None:
        """Raises Fault when a request of `size` bytes could use more than is left."""
        for reason, limit, used, more in zip(BUDGETS, self.limits, self.used, self.worst(size), strict=True):
            if limit is not None and used + more > limit:
                raise Fault(reason, f"{used:g} of {limit:g} are used; the next request could take {more:g}")

    def count(self, size: int, usage: Mapping[str, Any] | None) -> None:
        """Take down a request of `size` bytes and the usage that the service told, if it did."""
        told = {"thoughtsTokenCount": 0, **(usage or {})}
        counts = [told.get(f"{name}TokenCount") for name in ("prompt", "candidates", "thoughts")]
        known = all(type(count) is int and count >= 0 for count in counts)
        use = self._use(1, counts[0] or 0, sum(count or 0 for count in counts[1:])) if known else self.worst(size)
        self.used = [had + more for had, more in zip(self.used, use, strict=True)]

    def cost(self) -> dict[str, Any]:
        """The money that was used, where prices were given."""
        if self.prices == (0, 0):
            return {"currency_cost": None, "note": "No prices were given."}
        return {"currency_cost": round(self.used[2], 6), "note": "By the prices given, unknown use at its worst."}

# === The strict loader ================================================================================================
DEPTH, DIGITS = 32, 100

class NotJson(ValueError):
    """A text that is not JSON as this kit takes it, and in one line why."""

def load_json(text: str | bytes) -> Any:
    """The value of one JSON text (RFC 8259) that somebody else wrote; raises NotJson. Only UTF-8 passes,
    without a key twice, NaN, infinity however spelled, a lone surrogate, a long number, nesting deeper than DEPTH."""
    try:
        text = text if isinstance(text, str) else text.decode("utf-8")
        value = _DECODER.decode(text)
        if text.count("[") + text.count("{") > DEPTH and _deep(value):
            raise NotJson(f"nested deeper than {DEPTH}")
        if "\\u" in text or not text.isascii():
            compact(value).encode("utf-8")  # fails on half a surrogate pair
    except (ValueError, RecursionError) as error:
        raise NotJson(f"nested deeper than {DEPTH}" if isinstance(error, RecursionError) else str(error)) from None
    return value

def _deep(value: Any) -> bool:
    """Whether a value is nested deeper than DEPTH; level by level, which is the quickest."""
    level = [value] * isinstance(value, (dict, list))
    for _ in range(DEPTH):
        inner = (at.values() if isinstance(at, dict) else at for at in level)
        level = [child for children in inner for child in children if isinstance(child, (dict, list))]
        if not level:
            return False
    return True

def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(value := dict(pairs)) < len(pairs):
        raise NotJson(f"a key stands twice among {shown([name for name, _ in pairs])}")
    return value

def _whole(text: str) -> int:
    return int(text) if len(text) <= DIGITS else int(_number(text))

def _number(text: str) -> float:
    if len(text) > DIGITS or not math.isfinite(float(text)):
        raise NotJson(f"{shown(text)} is not a number that can be kept")
    return float(text)

_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, parse_int=_whole, parse_constant=_number)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

def compact(value: Any) -> str:
    """JSON without spaces, in the order the program wrote it, not escaped to ASCII."""
    return _ENCODER.encode(value)

def typed(words: Iterable[str]) -> str:
    """The words of a command line as one text, which is UTF-8 whatever the locale says; raises Mistake."""
    text = " ".join(words)
    with contextlib.suppress(UnicodeError):
        text = os.fsencode(text).decode("utf-8")
    if re.search("[\ud800-\udfff]", text):
        raise Mistake(Reason.INVALID_QUERY, f"{text!a} is not UTF-8")
    return text

def shown(value: Any) -> str:
    """A value as one short line of ASCII JSON, for a message."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"

# === Facts: the tape ==================================================================================================
Kind = Literal["started", "asked", "replied", "admitted", "refused", "observed", "ended"]

class Handle(NamedTuple):
    """What a search hands back for one passage: metadata and a receipt, never the text."""
    source_id: str
    rank: int
    version: str
    text_sha256: str
    text_bytes: int
    title: str = ""

class Fact(NamedTuple):
    """One thing that happened in a trial, never edited. `asked` stands before the call and `replied` only for a valid
    decision, whatever becomes of it; what is `admitted` counts from there on; `ended` is the last."""
    kind: Kind
    reason: Reason = Reason.MODEL_STOPPED  # refused, ended
    detail: str = ""  # refused, ended: one line of what was seen
    fault: str = ""  # ended: the kind of a transport fault
    task: Task = Task("", "", "")  # started
    decision: Mapping[str, Any] = {}  # replied
    tool: str = ""  # admitted, observed
    argument: str = ""  # admitted, observed: a query or a source_id
    source_bytes: int = 0  # admitted
    result: Mapping[str, Any] = {}  # observed: the tool's; ended: {answer, citations}, where answered
    handles: tuple[Handle, ...] = ()  # observed: the receipts of its passages

class Tape(list[Fact]):
    """The history of one trial, only ever appended to; all else about the trial is computed from it."""
    @property
    def task(self) -> Task:
        """What the trial started with."""
        return self[0].task

    def of(self, kind: Kind, tool: str = "") -> list[Fact]:
        """The facts of one kind, of one tool where it is named."""
        return [fact for fact in self if fact.kind == kind and tool in ("", fact.tool)]

    def usage(self) -> dict[str, int]:
        """What was used so far. A model call counts before the attempt, unless nothing was sent."""
        return {
            "model_calls": len(self.of("asked")) - (self[-1].reason in UNSENT),
            "searches": len(self.of("admitted", "search")),
            "reads": len(self.of("admitted", "read")),
            "source_bytes": sum(fact.source_bytes for fact in self.of("admitted")),
        }

    def allowance(self) -> dict[str, int]:
        """What is left of the limits, seconds apart: those never stand in a request."""
        return {name: getattr(self.task.limits, name) - used for name, used in self.usage().items()}

    def issued(self) -> dict[str, Handle]:
        """Every handle that a search of this trial handed out, by id."""
        return {handle.source_id: handle for fact in self.of("observed", "search") for handle in fact.handles}

    def read(self) -> dict[str, Fact]:
        """Every observation of a read, by id."""
        return {fact.argument: fact for fact in self.of("observed", "read")}

    def result(self) -> dict[str, Any]:
        """The trial as plain JSON, once it has ended."""
        end, argument = self[-1], {"search": "query", "read": "source_id"}
        return {
            "status": end.reason.status,
            "reason": f"{end.reason}:{end.fault}" if end.fault else str(end.reason),
            "answer": "", "citations": [], **end.result,
            **{name: getattr(self.task, name) for name in ("question", "version", "mode")},
            "limits": self.task.limits._asdict(),
            "usage": self.usage(),
            "decisions": [dict(fact.decision) for fact in self.of("replied")],
            "observations": [
                {"tool": fact.tool, "arguments": {argument[fact.tool]: fact.argument}, "result": dict(fact.result)}
                for fact in self.of("observed")
            ],
        }

# === Decisions ========================================================================================================
LONGEST, MOST_CITATIONS = 2_000, 6
ACTIONS = ("search", "read", "answer", "stop")
FIELDS = ("action", "assessment", "query", "source_id", "answer", "citations")
_USED_BY = {"query": "search", "source_id": "read", "answer": "answer", "citations": "answer"}

def wrong(decision: Any, terms: Callable[[str], tuple[str, ...]]) -> Iterator[Fact]:
    """What is wrong with a decision, in the order of this table; the first is the reason.

    | what is wrong | reason |
    | --- | --- |
    | not an object of the six fields, their types and sizes | invalid_decision |
    | an action outside the four | unknown_action |
    | a citation that is not {source_id, quote}, neither blank | invalid_citation |
    | a field filled that the action does not use | unexpected_action_fields |
    | a search with nothing searchable in its query | invalid_query |
    | a read without an id | invalid_source |
    | an answer without text or citations | missing_answer_evidence |
    """
    yield from (Fact("refused", Reason.INVALID_DECISION, detail) for detail in _misshapen(decision))
    action, citations = decision["action"], decision["citations"]
    if action not in ACTIONS:
        yield Fact("refused", Reason.UNKNOWN_ACTION, f"action is {shown(action)}; it can be {', '.join(ACTIONS)}")
    for at, citation in enumerate(citations):
        for detail in misfit(f"citations[{at}]", citation, {"source_id": str, "quote": str}):
            yield Fact("refused", Reason.INVALID_CITATION, detail)
        for name in (name for name, value in citation.items() if not value.strip()):
            yield Fact("refused", Reason.INVALID_CITATION, f"citations[{at}].{name} is blank")
    for name, user in _USED_BY.items():
        if decision[name] and action != user:
            yield Fact("refused", Reason.UNEXPECTED_ACTION_FIELDS, f"{name} is filled, and {action} does not use it")
    if action == "search" and not terms(decision["query"]):
        yield Fact("refused", Reason.INVALID_QUERY, f"query has no searchable term: {shown(decision['query'])}")
    if action == "read" and not decision["source_id"].strip():
        yield Fact("refused", Reason.INVALID_SOURCE, "source_id is blank")
    if action == "answer" and not (decision["answer"].strip() and citations):
        yield Fact("refused", Reason.MISSING_ANSWER_EVIDENCE, "answer is blank" if citations else "citations is empty")

def _misshapen(decision: Any) -> Iterator[str]:
    yield from misfit("decision", decision, {**dict.fromkeys(FIELDS, str), "citations": list})
    if not decision["assessment"].strip():
        yield "assessment is blank"
    if len(decision["citations"]) > MOST_CITATIONS:
        yield f"{len(decision['citations'])} citations; at most {MOST_CITATIONS}"
    parts = {f"citations[{at}].": part for at, part in enumerate(decision["citations"]) if isinstance(part, dict)}
    for prefix, part in {"": decision, **parts}.items():
        for name, value in part.items():
            if isinstance(value, str) and len(value) > LONGEST:
                yield f"{prefix}{name} has {len(value)} characters; at most {LONGEST}"

def misfit(path: str, value: Any, types: dict[str, type]) -> Iterator[str]:
    """Why a value is not an object of exactly these fields, each of exactly its type."""
    if not isinstance(value, dict):
        yield f"{path} must be an object, not {shown(value)}"
    for name in [*types, *value]:
        if name not in value:
            yield f"{path}.{name} is missing"
        if name not in types:
            yield f"{path} has the unknown field {shown(name)}; the fields are {', '.join(types)}"
        if type(value[name]) is not types[name]:
            yield f"{path}.{name} must be of type {types[name].__name__}, not {shown(value[name])}"

# === Admission ========================================================================================================
class Tools(Protocol):
    """The port to the passages of one version; `search` and `read` may raise Fault."""
    def terms(self, text: str) -> tuple[str, ...]: ...  # in order, cut as the index cuts them
    def substance(self, quote: str) -> int: ...  # terms, repeated ones too; unspaced characters count one each
    def search(self, query: str, limit: int) -> tuple[Handle, ...]: ...  # in rank order
    def read(self, handle: Handle) -> dict[str, str]: ...  # {source_id, version, text, url, text_sha256}
    def verify(self, handle: Handle, quote: str) -> str: ...  # why the passage does not hold the quote; "" if it does

def objections(tape: Tape, decision: Mapping[str, Any], tools: Tools) -> Iterator[Fact]:
    """Why a valid decision is not admitted, in the order of this table; the first is the reason.

    | rule | reason |
    | --- | --- |
    | on the fixed path, a proposal to search or read | fixed_policy_tool_request |
    | the same set of search terms again | duplicate_query |
    | a search past the allowance | search_limit |
    | a read of an id that no search handed out | unissued_source |
    | a read of a passage already read | duplicate_read |
    | a read past the count or the bytes | read_or_byte_limit |
    | a citation of an unread or changed passage, or an inexact quote | unread_or_changed_citation |
    | a quote of fewer than two terms or eight characters, a whole passage apart | trivial_citation |
    """
    action, query = decision["action"], decision["query"]
    if action in ("search", "read") and tape.task.mode == "fixed":
        yield Fact("refused", Reason.FIXED_POLICY_TOOL_REQUEST, f"{action} was proposed; answer and stop are open")
    for fact in tape.of("admitted", "search"):
        if action == "search" and set(tools.terms(fact.argument)) == set(tools.terms(query)):
            yield Fact("refused", Reason.DUPLICATE_QUERY, f"{shown(query)} has the terms of {shown(fact.argument)}")
    if action == "search" and tape.allowance()["searches"] < 1:
        yield Fact("refused", Reason.SEARCH_LIMIT, f"all {tape.task.limits.searches} searches were made")
    if action == "read":
        yield from _read_objections(tape, decision["source_id"])
    if action == "answer":
        yield from _citation_objections(tape, decision["citations"], tools)

def _read_objections(tape: Tape, source_id: str) -> Iterator[Fact]:
    handles, left = tape.issued(), tape.allowance()
    if source_id not in handles:
        yield Fact("refused", Reason.UNISSUED_SOURCE, f"{shown(source_id)}; handed out: {', '.join(handles) or 'none'}")
    if source_id in tape.read():
        yield Fact("refused", Reason.DUPLICATE_READ, f"{shown(source_id)} was read before")
    size = handles[source_id].text_bytes
    if left["reads"] < 1 or size > left["source_bytes"]:
        rest = f"{left['reads']} reads and {left['source_bytes']} bytes are left"
        yield Fact("refused", Reason.READ_OR_BYTE_LIMIT, f"{shown(source_id)} has {size} bytes; {rest}")

def _citation_objections(tape: Tape, citations: list[dict[str, str]], tools: Tools) -> Iterator[Fact]:
    read, pairs = tape.read(), [(citation["source_id"], citation["quote"]) for citation in citations]
    for at, (source_id, quote) in enumerate(pairs):
        if source_id not in read:
            known = "was found but not read" if source_id in tape.issued() else "was handed out by no search"
            detail = f"citations[{at}]: {shown(source_id)} {known}; read: {', '.join(read) or 'none'}"
            yield Fact("refused", Reason.UNREAD_OR_CHANGED_CITATION, detail)
        if unsupported := tools.verify(read[source_id].handles[0], quote):
            yield Fact("refused", Reason.UNREAD_OR_CHANGED_CITATION, f"citations[{at}]: {unsupported}")
    for at, (source_id, quote) in enumerate(pairs):
        whole = quote == read[source_id].result["text"]
        if not whole and (tools.substance(quote) < 2 or len(quote.strip()) < 8):
            detail = f"citations[{at}]: fewer than two terms or eight characters: {shown(quote)}"
            yield Fact("refused", Reason.TRIVIAL_CITATION, detail)

# === The loop =========================================================================================================
Ask = Callable[[Tape, float], str]  # the port to the model: (tape, seconds left) -> reply text; may raise Fault
Clock = Callable[[], float]  # the trial's seconds so far

def controller(task: Task, tools: Tools, ask: Ask, clock: Clock) -> Iterator[Fact]:
    """Run one trial, yielding each fact as it becomes true, the last its end. Raises Mistake, before any of them."""
    tape = Tape([Fact("started", task=checked(task))])
    yield tape[0]
    while tape[-1].kind != "ended":
        opening = task.mode == "fixed" and len(tape) == 1
        try:
            for fact in _opened(tape, tools) if opening else _asked(tape, tools, ask, clock):
                tape.append(fact)
                yield fact
                if fact.kind == "refused":
                    raise Fault(fact.reason, fact.detail)
        except Fault as fault:
            tape.append(Fact("ended", fault.reason, fault.detail, fault.kind))
            yield tape[-1]

def _opened(tape: Tape, tools: Tools) -> Iterator[Fact]:
    """The fixed path's own part: search the question once and read every candidate in rank order."""
    if not tools.terms(tape.task.question):
        yield Fact("refused", Reason.INVALID_QUERY, "the question has no searchable term")
    yield from _searched(tape.task.question, min(tape.task.candidates, tape.task.limits.reads), tools)
    for source_id, handle in tape.issued().items():
        yield from _read_objections(tape, source_id)
        yield from _read(handle, tools)

def _asked(tape: Tape, tools: Tools, ask: Ask, clock: Clock) -> Iterator[Fact]:
    """One model call and what comes of it."""
    limits = tape.task.limits
    if clock() >= limits.seconds:
        raise Fault(Reason.DEADLINE, f"{limits.seconds} s were over before the model was asked")
    if tape.allowance()["model_calls"] < 1:
        raise Fault(Reason.MODEL_CALL_LIMIT, f"all {limits.model_calls} calls were made")
    yield Fact("asked")
    try:
        reply = ask(tape, limits.seconds - clock())
    except Fault as fault:
        if fault.reason is not Reason.UNFINISHED_MODEL_REPLY or clock() < limits.seconds:
            raise
    if clock() >= limits.seconds:
        raise Fault(Reason.DEADLINE, f"{limits.seconds} s were over when the reply came")
    yield from _heard(tape, reply, tools)

def _heard(tape: Tape, reply: str, tools: Tools) -> Iterator[Fact]:
    """Judge a reply: validate it, then admit or refuse what it proposes. After a refusal nothing more is run."""
    try:
        decision = load_json(reply)
    except NotJson as error:
        yield Fact("refused", Reason.INVALID_DECISION, f"not one JSON object ({error}): {shown(reply)}")
    yield from wrong(decision, tools.terms)
    yield Fact("replied", decision=decision)
    yield from objections(tape, decision, tools)
    if decision["action"] == "search":
        yield from _searched(decision["query"], tape.task.candidates, tools)
    elif decision["action"] == "read":
        yield from _read(tape.issued()[decision["source_id"]], tools)
    elif decision["action"] == "stop":
        yield Fact("ended", Reason.MODEL_STOPPED)
    else:
        url = {source_id: fact.result["url"] for source_id, fact in tape.read().items()}
        cited = {(at["source_id"], at["quote"]): {**at, "url": url[at["source_id"]]} for at in decision["citations"]}
        result = {"answer": decision["answer"], "citations": list(cited.values())}
        yield Fact("ended", Reason.CITATION_CONTRACT_PASSED, result=result)

def _searched(query: str, limit: int, tools: Tools) -> Iterator[Fact]:
    yield Fact("admitted", tool="search", argument=query)
    handles = tools.search(query, limit)
    told = ("source_id", "rank", "version", "title")
    candidates = [{name: value for name in told if (value := getattr(at, name))} for at in handles]
    found = {"query": query, "candidates": candidates}
    yield Fact("observed", tool="search", argument=query, result=found, handles=handles)

def _read(handle: Handle, tools: Tools) -> Iterator[Fact]:
    yield Fact("admitted", tool="read", argument=handle.source_id, source_bytes=handle.text_bytes)
    yield Fact("observed", tool="read", argument=handle.source_id, result=tools.read(handle), handles=(handle,))
