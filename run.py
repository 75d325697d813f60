"""run introduces the rooms to each other: it is the command line, and what needs more than one room at once.

It decides nothing about a trial, sends nothing and judges nothing itself. With no word it replays a recording.
Read in this order: reading what people give - recordings - replaying - the report - words for people - the commands.
"""

import sys

if sys.version_info < (3, 11):
    sys.stderr.write("run.py needs Python 3.11 or newer; this is Python " + sys.version.split()[0] + "\n")
    sys.exit(2)

import argparse
import gc
import hashlib
import io
import json
import os
import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import agent
import evaluate
import provider
import retrieval
import tools

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDINGS = os.path.join(HERE, "recordings")
DONE, DIFFERS, MISTAKEN, INTERRUPTED = 0, 1, 2, 130


class Mistaken(Exception):
    """A command, a file or a machine that nothing can be run with: one line a fault, exit code 2."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


# === Reading what people give =========================================================================================


def read_bytes(path: str) -> bytes:
    """A whole file; raises Mistaken."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Mistaken(f"{shown_path(path)}: {error.strerror or error}") from None


def read_json(path: str) -> Any:
    """The JSON of a file that a person gave; a UTF-8 byte-order mark before it is dropped."""
    try:
        return agent.load_json(read_bytes(path).removeprefix(b"\xef\xbb\xbf"))
    except agent.NotJson as error:
        raise Mistaken(f"{shown_path(path)}: not JSON as this kit takes it: {error}") from None


def shown_path(path: str) -> str:
    """The path for a message, short where it lies in the kit."""
    inside = os.path.relpath(path, HERE)
    return path if inside.startswith("..") else inside


def load_cases(path: str) -> tuple[Any, list[evaluate.Case]]:
    """The document and the cases of a file."""
    document = read_json(path)
    try:
        return document, evaluate.load_cases(document)
    except evaluate.CaseFaults as error:
        raise Mistaken(*(f"{shown_path(path)}: {fault}" for fault in error.faults)) from None


def load_snapshot(path: str) -> tuple[Any, retrieval.Snapshot]:
    """The document and the snapshot of a file."""
    document = read_json(path)
    try:
        return document, retrieval.load_snapshot(document)
    except retrieval.SnapshotFaults as error:
        raise Mistaken(*(f"{shown_path(path)}: {fault}" for fault in error.faults)) from None


# === Recordings =======================================================================================================


class Planned(NamedTuple):
    """One trial of a plan."""

    id: str
    case: evaluate.Case
    repeat: int
    mode: str


class Recording(NamedTuple):
    """A recording as it lies on disk, checked: its plan, its inputs, its exchanges and what is odd about it."""

    name: str
    manifest: dict[str, Any]
    cases: list[evaluate.Case]
    snapshot: retrieval.Snapshot
    exchanges: provider.Exchanges
    report: dict[str, Any] | None
    edits: list[str]
    changed: list[str]
    hashes: dict[str, str]


def open_recording(name: str) -> Recording:
    """The recording of that name or path; raises Mistaken when it cannot be replayed at all."""
    folder = find_recording(name)
    manifest = read_manifest(os.path.join(folder, "manifest.json"))
    inside = {file: os.path.join(folder, file) for file in os.listdir(folder)}
    cases_document, cases = load_cases(inside.get("cases.json", os.path.join(HERE, "cases.json")))
    snapshot_document, snapshot = load_snapshot(inside.get("snapshot.json", os.path.join(HERE, "snapshot.json")))
    report = read_report(inside["report.json"]) if "report.json" in inside else None
    path = os.path.join(folder, "exchanges.jsonl")
    try:
        exchanges = provider.load_exchanges(read_bytes(path), finished=report is not None)
    except provider.DamagedRecording as error:
        raise Mistaken(f"{shown_path(path)}, {error}; the recording is damaged: restore the file") from None
    config = manifest["config"]
    hashes = input_hashes(cases_document, snapshot_document, config)
    changed = [name for name, value in hashes.items() if manifest["hashes"].get(name) != value]
    edits = broken_seals(folder, inside)
    return Recording(os.path.basename(folder), manifest, cases, snapshot, exchanges, report, edits, changed, hashes)


def find_recording(name: str) -> str:
    """The folder of a recording; raises Mistaken."""
    for folder in (os.path.join(RECORDINGS, name), os.path.abspath(name)):
        if os.path.isdir(folder):
            return folder
    have = sorted(entry for entry in os.listdir(RECORDINGS) if os.path.isdir(os.path.join(RECORDINGS, entry)))
    raise Mistaken(f"no recording {agent.shown(name)}: give one of {', '.join(have)}, or the path of its folder")


def input_hashes(cases: Any, snapshot: Any, config: Any) -> dict[str, str]:
    """Fingerprints of all that a request is made from."""
    inputs = {"prompt": provider.PROMPT, "schema": provider.SCHEMA, "config": config, "cases": cases}
    return {name: provider.fingerprint(value) for name, value in {**inputs, "snapshot": snapshot}.items()}


MANIFEST = {
    "format": int, "execution_mode": str, "provenance": str, "recorded_at": str, "model": str, "endpoint": str,
    "config": dict, "limits": dict, "batch_request_cap": int, "candidates": int, "repeats": int, "modes": list,
    "cases": list, "hashes": dict, "environment": dict,
}


def read_manifest(path: str) -> dict[str, Any]:
    """A manifest, checked field by field."""
    manifest = read_json(path)
    fault = next(agent.misfit("manifest", manifest, MANIFEST), None)
    try:
        if fault is None and manifest["format"] != 1:
            fault = f"format {manifest['format']}; this kit reads format 1"
        elif fault is None and not 1 <= manifest["repeats"] <= 100:
            fault = f"repeats is {manifest['repeats']}"
        elif fault is None and not all(isinstance(name, str) for name in manifest["cases"]):
            fault = "cases: not a list of case ids"
        if fault is None:
            for mode in manifest["modes"] or [""]:
                agent.checked(agent.Task("?", "1", mode, agent.Limits(**manifest["limits"]), manifest["candidates"]))
    except (agent.Mistake, TypeError) as error:
        fault = str(error)
    if fault:
        raise Mistaken(f"{shown_path(path)}: {fault}")
    return dict(manifest)


def read_report(path: str) -> dict[str, Any]:
    """A graded report, as far as a comparison needs it."""
    report = read_json(path)
    trials = report.get("trials") if isinstance(report, dict) else None
    if not isinstance(trials, list) or not all(isinstance(at, dict) and isinstance(at.get("id"), str) for at in trials):
        raise Mistaken(f"{shown_path(path)}: not a report: it has no list of trials with ids")
    return dict(report)


def broken_seals(folder: str, inside: dict[str, str]) -> list[str]:
    """The files that are not what SHA256SUMS says; where report.json is gone, only what is there is held to it."""
    if "SHA256SUMS" not in inside:
        return ["SHA256SUMS is missing, so an edit cannot be told"] if "report.json" in inside else []
    edits = []
    for line in read_bytes(inside["SHA256SUMS"]).decode("utf-8", "replace").splitlines():
        digest, _, name = line.partition("  ")
        if name in inside and hashlib.sha256(read_bytes(inside[name])).hexdigest() != digest:
            edits.append(f"{name} was edited after the run: it is not what SHA256SUMS says")
        elif name not in inside and name != "report.json":
            edits.append(f"{name or line} is in SHA256SUMS and is missing")
    return edits


def plan_of(recording: Recording) -> list[Planned]:
    """The trials of a recording, in the order they were run."""
    known = {case.id: case for case in recording.cases}
    manifest = recording.manifest
    lost = [name for name in manifest["cases"] if name not in known]
    if lost:
        raise Mistaken(f"recording {recording.name} has the case {', '.join(lost)}, and its cases file does not")
    return [
        Planned(f"{name}-{mode}-{repeat}", known[name], repeat, mode)
        for repeat in range(1, manifest["repeats"] + 1) for name in manifest["cases"] for mode in manifest["modes"]
    ]


# === Replaying ========================================================================================================


class Problem(NamedTuple):
    """Something that does not hold between a replay and its recording: one line for people, and where it is."""

    line: str
    trial: str = ""
    exchange: int | None = None
    reason: str = ""


class Played(NamedTuple):
    """A trial that was run again: its facts, its exchanges, its part of the report, and what did not agree."""

    trial: Planned
    tape: agent.Tape
    sending: provider.Replay
    json: dict[str, Any]
    problems: list[Problem]


def replay(recording: Recording, chosen: list[Planned], index: retrieval.Index) -> Iterator[Played]:
    """Run the chosen trials again, with the model's replies from the recording and all else anew."""
    reported = {at["id"]: at for at in recording.report["trials"]} if recording.report else {}
    for trial in chosen:
        sending = provider.Replay(recording.exchanges.trials.get(trial.id, {}))
        tape, model = run_trial(trial, recording, index, sending.send)
        part = trial_json(trial, tape, model, recording.snapshot)
        problems = list(disagreements(trial.id, tape, sending, recording))
        if recording.report and not problems:
            problems += differences(part, reported.get(trial.id))
        yield Played(trial, tape, sending, part, problems)


def run_trial(
    trial: Planned, recording: Recording, index: retrieval.Index, send: provider.Send
) -> tuple[agent.Tape, provider.Model]:
    """One trial over any sending: its facts, and the model port with the exchanges it made."""
    manifest = recording.manifest
    model = provider.Model(manifest["config"], send)
    limits = agent.Limits(**manifest["limits"])
    task = agent.Task(trial.case.question, trial.case.version, trial.mode, limits, manifest["candidates"])
    try:
        toolbox = tools.Toolbox(index, task.version)
    except ValueError as error:
        raise Mistaken(f"case {trial.case.id}: {error}") from None
    return agent.Tape(agent.controller(task, toolbox, model.ask, model.clock)), model


def trial_json(
    trial: Planned, tape: agent.Tape, model: provider.Model, snapshot: retrieval.Snapshot
) -> dict[str, Any]:
    """A trial as it stands in a report, graded."""
    result = tape.result()
    return {
        "id": trial.id,
        "case_id": trial.case.id,
        "split": trial.case.split,
        "repeat": trial.repeat,
        "mode": trial.mode,
        "result": result,
        **evaluate.grade(trial.case, result, [passage._asdict() for passage in snapshot.passages]),
        "detail": tape[-1].detail,
        "elapsed_seconds": model.clock() if any(event["elapsed"] is not None for event in model.events) else None,
        "provider_usage": [provider.tokens(event) for event in model.events],
    }


def disagreements(trial: str, tape: agent.Tape, sending: provider.Replay, recording: Recording) -> Iterator[Problem]:
    """What does not hold between a trial and its recorded exchanges."""
    for number, odd in recording.exchanges.oddities.get(trial, []):
        yield Problem(f"{trial}: exchange {number} {odd}", trial, number)
    end, asked = tape[-1], sending.exact + sending.differing + sending.missing
    if sending.differing:
        changed = f"; changed since the recording: {', '.join(recording.changed)}" if recording.changed else ""
        yield Problem(f"{trial}: exchange {asked}: {end.detail}{changed}", trial, asked, end.reason)
    elif sending.missing and not (recording.report is None and not sending.unused):
        yield Problem(f"{trial}: exchange {asked}: {end.detail}", trial, asked, end.reason)
    elif sending.unused:
        reason, first = agent.Reason.REPLAY_UNUSED_EXCHANGES, sending.unused[0]
        rest = "" if sending.unused == [first] else f" to {sending.unused[-1]}"
        line = f"{trial}: exchange {first}{rest}: left over: the trial ended before with {end.reason}"
        yield Problem(line, trial, first, reason)


def differences(part: dict[str, Any], reported: dict[str, Any] | None) -> Iterator[Problem]:
    """Where a replayed trial is not what its report says."""
    if reported is None:
        yield Problem(f"{part['id']}: the report does not have this trial", part["id"])
        return
    old, new = ({name: at.get(name) for name in ("result", "checks", "provider_usage")} for at in (reported, part))
    for side in (old, new):  # `scope` is a sentence of the run it was written in
        if isinstance(side["checks"], dict):
            side["checks"] = {name: value for name, value in side["checks"].items() if name != "scope"}
    found = provider.first_difference(old, new) if old != new else None
    if found:
        where, before, now = found
        of_exchange = where.startswith(("result.decisions[", "provider_usage["))
        number = int(where.partition("[")[2].partition("]")[0]) + 1 if of_exchange else None
        at = f"exchange {number}: " if number else ""
        detail = f" ({part['detail']})" if part["result"]["status"] == "failed" else ""
        line = f"{part['id']}: {at}the report has {before} at {where}, and the replay {now}{detail}"
        yield Problem(line, part["id"], number)


# === The report =======================================================================================================


def report_json(recording: Recording, played: list[Played], problems: list[Problem], code: int) -> dict[str, Any]:
    """A replay as one JSON object, of the shape that a recording's report.json has."""
    manifest = recording.manifest
    saved = recording.exchanges.trials.values()
    report = {
        "execution_mode": "replay",
        "recording": recording.name,
        "provenance": manifest["provenance"],
        "model": manifest["model"],
        "config": manifest["config"],
        "endpoint": manifest["endpoint"],
        "batch_request_cap": manifest["batch_request_cap"],
        "limits": manifest["limits"],
        "cases_sha256": recording.hashes["cases"],
        "snapshot_sha256": recording.hashes["snapshot"],
        "summary": evaluate.summarize([at.json for at in played]),
        "replay": counts(played),
        "trials": [at.json for at in played],
        "recorded_at": manifest["recorded_at"],
        "actual_api_requests": 0,
        "recorded_api_requests": sum(exchange.attempts for trial in saved for exchange in trial.values()),
        "source_sha256": {name: hashlib.sha256(read_bytes(os.path.join(HERE, name))).hexdigest() for name in SOURCES},
        "environment": environment(),
        "cost": {"currency_cost": None, "note": "A replay costs nothing; no price is known for the recorded run."},
    }
    if problems:
        report["error"] = {"code": code, "message": problems[0].line} | {
            name: value for name, value in problems[0]._asdict().items() if name != "line" and value}
    return report


SOURCES = ("run.py", "agent.py", "tools.py", "retrieval.py", "provider.py", "evaluate.py")


def counts(played: list[Played]) -> dict[str, int]:
    """How many trials were replayed, and how their exchanges fared."""
    sendings = [at.sending for at in played]
    return {
        "trials": len(played),
        "exact": sum(sending.exact for sending in sendings),
        "differing": sum(sending.differing for sending in sendings),
        "missing": sum(at.sending.missing for at in played if at.problems),
        "unused": sum(len(sending.unused) for sending in sendings),
    }


def environment() -> dict[str, str]:
    """What a result was made with."""
    system = os.uname() if hasattr(os, "uname") else None
    name = f"{system.sysname}-{system.release}-{system.machine}" if system else sys.platform
    return {"python": sys.version.split()[0], "platform": name, "sqlite": retrieval.SQLITE_VERSION}


# === Words for people =================================================================================================

COLOURS = {"pass": "32", "fail": "31", "incomplete": "33", "not_measured": "35", "ungraded": "36"}


def visible(text: str) -> str:
    """The text with control, format and other unprintable characters spelled out, so that it moves no cursor."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def width(text: str) -> int:
    """How many columns a terminal gives the text: two for East Asian wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def say(text: str = "") -> None:
    """One line of results."""
    print(visible(text))


def coloured() -> bool:
    """Whether the results go to a terminal that shows colour."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


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


def print_table(played: list[Played]) -> None:
    """The trials, a line each."""
    rows = [["case", "split", "repeat", "path", "sources read", "outcome", "reason", "calls", "tokens"]]
    for at in played:
        usage: list[Any] = [tokens.get("totalTokenCount") if tokens else None for tokens in at.json["provider_usage"]]
        total = str(sum(usage)) if all(type(count) is int for count in usage) else "unknown"
        sources, calls = ", ".join(at.tape.read()) or "-", str(at.tape.usage()["model_calls"])
        rows.append([
            at.trial.case.id, at.trial.case.split, str(at.trial.repeat), at.trial.mode, sources,
            at.json["checks"]["outcome"], at.json["result"]["reason"], calls, total,
        ])
    for number, line in enumerate(table(rows, numeric=(2, 7, 8))):
        outcome = rows[number][5]
        if coloured() and outcome in COLOURS:
            line = line.replace(f" {outcome} ", f" \x1b[{COLOURS[outcome]}m{outcome}\x1b[0m ", 1)
        print(line)


def print_summary(played: list[Played]) -> None:
    """Every count, per path."""
    for mode, outcomes in evaluate.summarize([at.json for at in played]).items():
        listed = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in outcomes.items())
        say(f"{mode}: {sum(outcomes.values())} trials: {listed}")


def paragraphs(label: str, text: str, indent: int = 3) -> Iterator[str]:
    """A labelled text, wrapped to the terminal."""
    import textwrap

    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError, AttributeError):
        columns = 100
    margin, room = " " * indent, max(40, min(columns, 100))
    for number, line in enumerate(text.splitlines() or [""]):
        first = margin + (f"{label}: " if number == 0 else "    ")
        rest = margin + "    "
        yield from textwrap.wrap(visible(line), room, initial_indent=first, subsequent_indent=rest) or [first]


def trace(played: Played) -> Iterator[str]:
    """A trial as a story: each step, what was admitted, found and read, what is left, the answer and the grade."""
    task, checks = played.tape.task, played.json["checks"]
    yield f"== {played.trial.id} == {played.trial.case.split}, version {task.version}, {task.mode} path"
    yield from paragraphs("question", task.question, 0)
    for at in range(len(played.tape)):
        yield from step_lines(agent.Tape(played.tape[: at + 1]))
    outcome = getattr(evaluate.Outcome, checks["outcome"].upper())
    yield from paragraphs("grade", f"{outcome}: {outcome.sentence}", 0)
    for finding in played.json["findings"]:
        named = getattr(evaluate.Finding, finding["finding"].upper())
        both = f"expected {agent.compact(finding['expected'])}, found {agent.compact(finding['found'])}"
        yield from paragraphs(named, f"{named.sentence} {both}")
    yield ""


def step_lines(tape: agent.Tape) -> Iterator[str]:
    """The last fact of a tape, in words."""
    fact, limits = tape[-1], tape.task.limits
    number = len(tape.of("admitted", fact.tool))
    if fact.kind == "replied":
        subject = fact.decision["query"] or fact.decision["source_id"]
        proposed = f"{fact.decision['action']} {agent.compact(subject) if subject else ''}".rstrip()
        yield f"{tape.usage()['model_calls']}. the model proposes: {visible(proposed)}"
        yield from paragraphs("assessment", fact.decision["assessment"])
    elif fact.kind == "admitted":
        allowed = limits.searches if fact.tool == "search" else limits.reads
        size = f", {fact.source_bytes} bytes" if fact.tool == "read" else ""
        by = "the code" if tape.task.mode == "fixed" else "admitted"
        yield from paragraphs(by, f"{fact.tool} {number} of {allowed}{size}: {fact.argument}")
    elif fact.kind == "observed" and fact.tool == "search":
        found = [f"{at.rank} {at.source_id}" + (f" ({at.title})" if at.title else "") for at in fact.handles]
        yield from paragraphs("found", ", ".join(found) or "nothing matched")
        yield from allowance_lines(tape)
    elif fact.kind == "observed":
        yield from paragraphs("text", fact.result["text"])
        yield from allowance_lines(tape)
    elif fact.kind == "ended":
        yield from ending_lines(fact)


def allowance_lines(tape: agent.Tape) -> Iterator[str]:
    """What is left of the trial's limits."""
    left = [f"{count} {name.replace('_', ' ')}" for name, count in tape.allowance().items()]
    yield from paragraphs("left", ", ".join(left))


def ending_lines(end: agent.Fact) -> Iterator[str]:
    """How a trial ended: the reason in words, or the answer with its citations and their addresses."""
    yield from paragraphs("ended", f"{end.reason.status}: {end.reason}: {end.reason.sentence}", 0)
    if end.detail and end.reason is not agent.Reason.MODEL_STOPPED:
        yield from paragraphs("seen", end.detail)
    if end.answer:
        yield from paragraphs("answer", end.answer, 0)
    for number, citation in enumerate(end.citations, 1):
        yield from paragraphs(f"[{number}] {visible(citation['source_id'])}", agent.compact(citation["quote"]))
        yield f"       {visible(citation['url'])}"


# === The commands =====================================================================================================


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, as all of ours are."""

    def __init__(self, prog: str, description: str) -> None:
        def layout(prog: str) -> argparse.HelpFormatter:  # a width of our own, for argparse imports shutil to find one
            return argparse.RawTextHelpFormatter(prog, width=100)

        super().__init__(prog=prog, description=description, allow_abbrev=False, formatter_class=layout)

    def error(self, message: str) -> NoReturn:
        """Raises Mistaken."""
        raise Mistaken(f"{message} (see {self.prog} --help)")


def replay_command(argv: list[str]) -> int:
    """Replay a recording, print what came out, and say whether it is what was recorded."""
    parser = Parser("run.py", HELP)
    parser.add_argument("--recording", metavar="NAME_OR_PATH", default="published", help="another recording")
    parser.add_argument("--case", metavar="ID", help="only this case, with the trace of every step")
    parser.add_argument("--mode", choices=("fixed", "agent"), help="only this path")
    parser.add_argument("--repeat", metavar="N", type=int, help="only this repeat")
    parser.add_argument("--trace", action="store_true", help="the trace of every step")
    parser.add_argument("--json", action="store_true", help="one JSON document, nothing else")
    options = parser.parse_args(argv)
    began = time.monotonic()
    recording = open_recording(options.recording)
    plan = plan_of(recording)
    chosen = choose(plan, options)
    index = open_index(recording.snapshot)
    try:
        played = list(replay(recording, chosen, index))
    finally:
        index.close()
    problems = [Problem(line) for line in recording.edits] + [problem for at in played for problem in at.problems]
    code = DIFFERS if problems else DONE
    if options.json:
        print(json.dumps(report_json(recording, played, problems, code), indent=1))
    else:
        print_replay(recording, plan, played, trace_too=bool(options.trace or options.case))
    for problem in problems:
        complain(problem.line)
    if not options.json:
        count = counts(played)
        fared = ", ".join(f"{count[name]} {name}" for name in ("exact", "differing", "missing", "unused"))
        seconds = time.monotonic() - began
        say(f"replayed {len(played)} of {len(plan)} trials | exchanges: {fared} | live requests: 0 | {seconds:.1f} s")
    return code


def choose(plan: list[Planned], options: argparse.Namespace) -> list[Planned]:
    """The trials of a plan that the flags ask for; raises Mistaken where there is none."""
    wanted = [
        trial for trial in plan
        if options.case in (None, trial.case.id) and options.mode in (None, trial.mode)
        and options.repeat in (None, trial.repeat)
    ]
    if not wanted:
        cases = ", ".join(dict.fromkeys(trial.case.id for trial in plan))
        repeats = max((trial.repeat for trial in plan), default=0)
        raise Mistaken(f"no such trial: the recording has the cases {cases}, and repeats 1 to {repeats}")
    return wanted


def open_index(snapshot: retrieval.Snapshot) -> retrieval.Index:
    """An index over the snapshot; raises Mistaken where none can be had."""
    try:
        return retrieval.Index(snapshot)
    except retrieval.IndexFault as error:
        raise Mistaken(str(error)) from None


def print_replay(recording: Recording, plan: list[Planned], played: list[Played], trace_too: bool) -> None:
    """What a replay shows: where the recording is from, the traces, the table, the summary."""
    manifest = recording.manifest
    say(f"recording {recording.name}: {manifest['model']}, {manifest['recorded_at'][:10]}; {manifest['provenance']}")
    say()
    for at in played if trace_too else []:
        for line in trace(at):
            print(line)
    print_table(played)
    say()
    print_summary(played)
    if recording.report is None:
        say("report.json is not there: nothing to compare the trials with")
        lacking = [at.trial.id for at in played if at.sending.missing]
        if lacking:
            say(f"not recorded to the end: {', '.join(lacking)}")


def check_command(argv: list[str]) -> int:
    """Say what is wrong or weak in cases, labels and passages."""
    parser = Parser("run.py check", "What is wrong or weak in cases, labels and passages.")
    parser.add_argument("--cases", metavar="FILE", default=os.path.join(HERE, "cases.json"))
    parser.add_argument("--snapshot", metavar="FILE", default=os.path.join(HERE, "snapshot.json"))
    options = parser.parse_args(argv)
    documents = {path: read_json(path) for path in (options.cases, options.snapshot)}
    cases: list[evaluate.Case] = []
    passages: list[dict[str, str]] = []
    faults: list[str] = []
    try:
        cases = evaluate.load_cases(documents[options.cases])
    except evaluate.CaseFaults as error:
        faults += [f"{shown_path(options.cases)}: {fault}" for fault in error.faults]
    try:
        passages = [at._asdict() for at in retrieval.load_snapshot(documents[options.snapshot]).passages]
    except retrieval.SnapshotFaults as error:
        faults += [f"{shown_path(options.snapshot)}: {fault}" for fault in error.faults]
    weak: list[str] = []
    if cases and passages:
        faults += [f"{shown_path(options.cases)}: {fault}" for fault in evaluate.label_faults(cases, passages)]
        weak = evaluate.weak_labels(cases, passages)
    for line in faults:
        say(f"fault: {line}")
    for line in weak:
        say(f"weak: {line}")
    say(f"{len(cases)} cases, {len(passages)} passages: {len(faults)} faults, {len(weak)} weak labels")
    return DIFFERS if faults else DONE


WORDS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "check": (check_command, "what is wrong or weak in cases, labels and passages"),
}
HELP = "With no word, replay a recording. The words, each with its own --help:\n" + "\n".join(
    f"  {word:8} {text}" for word, (_, text) in WORDS.items())


def complain(line: str) -> None:
    """One line of diagnostics."""
    print(f"run.py: {visible(line)}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code; prints to sys.stdout and sys.stderr."""
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = command(argv)
        sys.stdout.flush()
        return code
    except Mistaken as error:
        if "--json" in argv:
            print(json.dumps({"error": {"code": MISTAKEN, "message": str(error)}}, indent=1))
        for line in error.lines:
            complain(line)
        return MISTAKEN
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough; what is left in the buffer must not complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def command(argv: list[str]) -> int:
    """The exit code of the word that stands first, or of a replay."""
    if argv and not argv[0].startswith("-"):
        if argv[0] not in WORDS:
            raise Mistaken(f"no word {agent.shown(argv[0])}; there are {', '.join(WORDS)}, or none to replay")
        return WORDS[argv[0]][0](argv[1:])
    return replay_command(argv)


if __name__ == "__main__":
    gc.set_threshold(100_000)  # a replay keeps what it makes: looking for garbage early would cost a fifth of its time
    sys.exit(main())
