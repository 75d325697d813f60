"""tools acts: search and read over one version, and the sending of a live trial; and it says in words what was done.

It never decides whether a tool may be used (agent does), never changes a passage, opens no network and never prints.
What a search hands out are handles with receipts; what no longer matches its receipt is never handed on. Read in this
order: the tools - live sending - in words.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import agent
import retrieval

CALL_SECONDS = 45  # the longest that one exchange may take

# === The tools ========================================================================================================


class Toolbox:
    """The tools over one version of an index; the shape is `agent.Tools`. Raises ValueError for an unknown version."""

    def __init__(self, index: retrieval.Index, version: str) -> None:
        if version not in index.versions:
            raise ValueError(f"no passage of version {version}; there are {', '.join(index.versions)}")
        self._index, self._version = index, version

    def terms(self, text: str) -> tuple[str, ...]:
        """The terms of a text, in order, cut as the index cuts them; raises agent.Fault."""
        try:
            return self._index.terms(text)
        except retrieval.SearchFailed as error:
            raise _failed(error) from None

    def substance(self, quote: str) -> int:
        """How many terms a quote has: repeated ones count, characters of unspaced scripts count one each."""
        return len(self.terms(retrieval.spaced(quote)))

    def search(self, query: str, limit: int) -> tuple[agent.Handle, ...]:
        """At most `limit` handles, best first; raises agent.Fault when the search failed."""
        try:
            ranking = self._index.search(query, self._version, limit)
        except retrieval.SearchFailed as error:
            raise _failed(error) from None
        return tuple(
            agent.Handle(at.source_id, rank, at.version, at.text_sha256, len(at.text.encode("utf-8")), at.title)
            for rank, at in enumerate(ranking.passages, 1))

    def read(self, handle: agent.Handle) -> dict[str, str]:
        """The passage of a handle as a model may quote it; raises agent.Fault when it is not what was found."""
        passage = self._unchanged(handle)
        if passage is None:
            raise agent.Fault(agent.Reason.CHANGED_READ, f"{handle.source_id!r} is not what the search found")
        return {name: getattr(passage, name) for name in ("source_id", "version", "text", "url", "text_sha256")}

    def verify(self, handle: agent.Handle, quote: str) -> str:
        """Why the passage, as it is now, does not hold the quote to the letter; empty when it does."""
        passage = self._unchanged(handle)
        if passage is None:
            return f"{agent.shown(handle.source_id)} no longer matches its receipt"
        if quote in passage.text:
            return ""
        hint = "it differs only in typography" if _plain(quote) in _plain(passage.text) else "no such run of characters"
        return f"the quote is not in {agent.shown(handle.source_id)} exactly ({hint}): {agent.shown(quote)}"

    def _unchanged(self, handle: agent.Handle) -> retrieval.Passage | None:
        try:
            passage = self._index.passage(handle.source_id, handle.version)
        except retrieval.SearchFailed as error:
            raise _failed(error) from None
        if passage is None or retrieval.text_sha256(passage.text) != handle.text_sha256:
            return None
        return passage


def _failed(error: retrieval.SearchFailed) -> agent.Fault:
    return agent.Fault(agent.Reason.SEARCH_FAILED, f"the index did not answer: {error}")


def _plain(text: str) -> str:
    """The text without what typography alone changes: case, quotes, dashes, white space, invisible marks, accents."""
    text = unicodedata.normalize("NFKD", text).casefold()
    text = re.sub("[\u2018-\u201f\u2032-\u2037\u00ab\u00bb\u2039\u203a`\"]", "'", text)
    text = re.sub("[\u2010-\u2015\u2212]", "-", text)
    kept = (char for char in text if unicodedata.category(char) not in ("Cf", "Mn"))
    return " ".join("".join(kept).split())


# === Live sending =====================================================================================================


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
        """Raises agent.Fault when a request of `size` bytes could use more than is left."""
        for reason, limit, used, more in zip(agent.BUDGETS, self.limits, self.used, self.worst(size), strict=True):
            if limit is not None and used + more > limit:
                raise agent.Fault(reason, f"{used:g} of {limit:g} are used; the next request could take {more:g}")

    def count(self, size: int, usage: Mapping[str, Any] | None) -> None:
        """Take down a request of `size` bytes and the usage that the service told, if it did."""
        told = {"thoughtsTokenCount": 0, **(usage or {})}
        counts = [told.get(f"{name}TokenCount") for name in ("prompt", "candidates", "thoughts")]
        known = all(type(count) is int and count >= 0 for count in counts)
        use = self._use(1, counts[0] or 0, sum(count or 0 for count in counts[1:])) if known else self.worst(size)
        self.used = [had + more for had, more in zip(self.used, use, strict=True)]


class Live:
    """The sending of a live trial: a recorded request is answered from the recording, any other by the service.

    `write` appends to the journal, `post` sends (body, seconds) and returns an event's fields, `again` says why a
    recorded outcome is to be sent once more (or nothing), `now` is a clock; `seconds` are the trial's.
    """

    def __init__(
        self, trial: str, saved: Mapping[int, Any], replay: Callable[[Any, float], dict[str, Any]], allowance: Allowance,
        write: Callable[[dict[str, Any]], None], post: Callable[[bytes, float], dict[str, Any]],
        again: Callable[[dict[str, Any] | None], str], now: Callable[[], float], seconds: float,
    ) -> None:
        self._trial, self._saved, self._replay, self._allowance = trial, saved, replay, allowance
        self._write, self._post, self._again, self._now, self._seconds = write, post, again, now, seconds
        kept = [at.outcome["elapsed"] for at in saved.values() if at.outcome and not again(at.outcome)]
        self._began = now() - max((elapsed or 0.0 for elapsed in kept), default=0.0)
        self.sent = 0

    def send(self, request: Any, seconds: float) -> dict[str, Any]:
        """The event that came, journalled before it is used; raises agent.Fault, or Stopped where the disk fails."""
        saved = self._saved.get(request.number)
        again = self._again(saved.outcome) if saved else ""
        if saved and not again:
            return self._replay(request, seconds)
        body = agent.compact(request.body).encode("utf-8")
        self._allowance.check(len(body))
        place = {"trial": self._trial, "exchange": request.number, "attempt": saved.attempts + 1 if saved else 1}
        try:
            if again:
                self._write({"event": "retry", **place, "why": again})
            self._write({"event": "request", **place, "sha256": request.sha256, "request": request.body})
            self.sent += 1
            event = self._sent(place, body)
            self._write(event)
        except OSError as error:
            raise Stopped(f"exchanges.jsonl cannot be written: {error.strerror or error}") from None
        response = event.get("response", {})
        self._allowance.count(len(body), response.get("usageMetadata") if isinstance(response, dict) else None)
        return event

    def _sent(self, place: dict[str, Any], body: bytes) -> dict[str, Any]:
        left = self._seconds - (self._now() - self._began)
        fields = self._post(body, min(CALL_SECONDS, left))
        if fields.get("kind") == "timeout" and left <= CALL_SECONDS:
            fields["kind"] = str(agent.Reason.DEADLINE)
        elapsed = round(self._now() - self._began, 3)
        return {"event": "error" if "kind" in fields else "response", **place, "elapsed": elapsed, **fields}


# === In words =========================================================================================================


def visible(text: str) -> str:
    """The text with control, format and other unprintable characters spelled out, so that it moves no cursor."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def width(text: str) -> int:
    """How many columns a terminal gives the text: two for East Asian wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.category(char) in ("Mn", "Me") for char in text)


def table(rows: list[list[str]], numeric: tuple[int, ...]) -> Iterator[str]:
    """Rows as lines with aligned columns; the first row is the head."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(width(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = [
            " " * (widths[at] - width(cell)) + cell if at in numeric else cell + " " * (widths[at] - width(cell))
            for at, cell in enumerate(row)
        ]
        yield "  ".join(cells).rstrip()


def paragraphs(label: str, text: str, columns: int, indent: int = 3) -> Iterator[str]:
    """A labelled text, wrapped to so many columns; the lines it has are kept."""
    import textwrap

    first, rest = " " * indent + f"{label}: ", " " * (indent + 4)
    for line in text.splitlines() or [""]:
        yield from textwrap.wrap(visible(line), columns, initial_indent=first, subsequent_indent=rest) or [first]
        first = rest


def step_lines(tape: agent.Tape, columns: int) -> Iterator[str]:
    """The last fact of a tape, in words."""
    fact, limits = tape[-1], tape.task.limits
    number = len(tape.of("admitted", fact.tool))
    if fact.kind == "replied":
        subject = fact.decision["query"] or fact.decision["source_id"]
        proposed = f"{fact.decision['action']} {agent.compact(subject) if subject else ''}".rstrip()
        yield f"{tape.usage()['model_calls']}. the model proposes: {visible(proposed)}"
        yield from paragraphs("assessment", fact.decision["assessment"], columns)
    elif fact.kind == "admitted":
        allowed = limits.searches if fact.tool == "search" else limits.reads
        size = f", {fact.source_bytes} bytes" if fact.tool == "read" else ""
        by = "the code" if tape.task.mode == "fixed" else "admitted"
        yield from paragraphs(by, f"{fact.tool} {number} of {allowed}{size}: {fact.argument}", columns)
    elif fact.kind == "observed" and fact.tool == "search":
        found = [f"{at.rank} {at.source_id}" + (f" ({at.title})" if at.title else "") for at in fact.handles]
        yield from paragraphs("found", ", ".join(found) or "nothing matched", columns)
        yield from _allowance_lines(tape, columns)
    elif fact.kind == "observed":
        yield from paragraphs("text", fact.result["text"], columns)
        yield from _allowance_lines(tape, columns)
    elif fact.kind == "ended":
        yield from _ending_lines(fact, columns)


def _allowance_lines(tape: agent.Tape, columns: int) -> Iterator[str]:
    """What is left of the trial's limits."""
    left = [f"{count} {name.replace('_', ' ')}" for name, count in tape.allowance().items()]
    yield from paragraphs("left", ", ".join(left), columns)


def _ending_lines(end: agent.Fact, columns: int) -> Iterator[str]:
    """How a trial ended: the reason in words, or the answer with its citations and their addresses."""
    yield from paragraphs("ended", f"{end.reason.status}: {end.reason}: {end.reason.sentence}", columns, 0)
    if end.detail:
        yield from paragraphs("seen", end.detail, columns)
    if end.result:
        yield from paragraphs("answer", end.result["answer"], columns, 0)
    for number, citation in enumerate(end.result.get("citations", []), 1):
        yield from paragraphs(f"[{number}] {visible(citation['source_id'])}", agent.compact(citation["quote"]), columns)
        yield f"       {visible(citation['url'])}"
