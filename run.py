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
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn, TypeVar

import agent
import evaluate
import provider
import retrieval
import tools

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDINGS, CASES, SNAPSHOT = (os.path.join(HERE, name) for name in ("recordings", "cases.json", "snapshot.json"))
Loaded = TypeVar("Loaded")
DONE, DIFFERS, MISTAKEN, STOPPED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143


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
    except (OSError, ValueError) as error:  # ValueError: a NUL or half a surrogate pair in the path
        raise Mistaken(f"{shown_path(path)}: {getattr(error, 'strerror', None) or error}") from None


def read_json(path: str) -> Any:
    """The JSON of a file that a person gave; a UTF-8 byte-order mark before it is dropped."""
    data = read_bytes(path)
    encoding = json.detect_encoding(data)  # by a mark or by where the zero bytes stand
    if not encoding.startswith("utf-8"):
        raise Mistaken(f"{shown_path(path)}: is {encoding.upper()}; save it as UTF-8")
    try:
        return agent.load_json(data.removeprefix(b"\xef\xbb\xbf"))
    except agent.NotJson as error:
        raise Mistaken(f"{shown_path(path)}: not JSON as this kit takes it: {error}") from None


def shown_path(path: str) -> str:
    """The path for a message, short where it lies in the kit."""
    inside = os.path.relpath(path or os.curdir, HERE)
    return path if inside.startswith("..") else inside


def load(path: str, parse: Callable[[Any], Loaded]) -> tuple[Any, Loaded]:
    """The document in a file and what `parse` makes of it; raises Mistaken with every fault of the file."""
    document = read_json(path)
    try:
        return document, parse(document)
    except (evaluate.CaseFaults, retrieval.SnapshotFaults) as error:
        raise Mistaken(*(f"{shown_path(path)}: {fault}" for fault in error.faults)) from None


# === Recordings =======================================================================================================


class Planned(NamedTuple):
    """One trial of a plan."""

    id: str
    case: evaluate.Case
    repeat: int
    mode: str


class Recording(NamedTuple):
    """A recording as it lies on disk: its plan, its inputs with their fingerprints, its exchanges, its report if it has
    one, and the files that were edited since."""

    name: str
    manifest: dict[str, Any]
    cases: list[evaluate.Case]
    snapshot: retrieval.Snapshot
    hashes: dict[str, str]
    exchanges: provider.Exchanges
    report: dict[str, Any] | None
    edits: list[str]
    documents: dict[str, Any]

    @property
    def changed(self) -> list[str]:
        """The inputs of a request that are not what they were when it was recorded."""
        return [name for name, value in self.hashes.items() if self.manifest["hashes"].get(name) != value]


def open_recording(name: str) -> Recording:
    """The recording of that name or path; raises Mistaken when it cannot be replayed at all."""
    folder = find_recording(name)
    files = {file: os.path.join(folder, file) for file in os.listdir(folder)}
    manifest = read_manifest(os.path.join(folder, "manifest.json"))
    given, cases = load(files.get("cases.json", CASES), evaluate.load_cases)
    frozen, snapshot = load(files.get("snapshot.json", SNAPSHOT), retrieval.load_snapshot)
    report = read_report(files["report.json"]) if "report.json" in files else None
    path = os.path.join(folder, "exchanges.jsonl")
    try:
        exchanges = provider.load_exchanges(read_bytes(path), finished=report is not None)
    except provider.DamagedRecording as error:
        raise Mistaken(f"{shown_path(path)}, {error}; the recording is damaged: restore the file") from None
    hashes = input_hashes(given, frozen, manifest["config"])
    edits = list(broken_seals(files))
    documents = {"cases.json": given, "snapshot.json": frozen}
    return Recording(os.path.basename(folder), manifest, cases, snapshot, hashes, exchanges, report, edits, documents)


def find_recording(name: str) -> str:
    """The folder of a recording; raises Mistaken."""
    named = [] if name in ("", os.curdir, os.pardir) else [os.path.join(RECORDINGS, name)]
    for folder in (*named, name):
        if os.path.isdir(folder):
            return os.path.abspath(folder)
    entries = os.listdir(RECORDINGS) if os.path.isdir(RECORDINGS) else []
    have = sorted(entry for entry in entries if os.path.isdir(os.path.join(RECORDINGS, entry)))
    raise Mistaken(f"no recording {agent.shown(name)}: give one of {', '.join(have)}, or the path of its folder")


def input_hashes(cases: Any, snapshot: Any, config: Any) -> dict[str, str]:
    """Fingerprints of all that a request is made from."""
    inputs = {"prompt": provider.PROMPT, "schema": provider.SCHEMA, "config": config, "cases": cases}
    return {name: provider.fingerprint(value) for name, value in {**inputs, "snapshot": snapshot}.items()}


MANIFEST: dict[str, type] = {
    "format": int, "execution_mode": str, "provenance": str, "recorded_at": str, "model": str, "endpoint": str,
    "config": dict, "limits": dict, "batch_request_cap": int, "candidates": int, "repeats": int, "modes": list,
    "cases": list, "hashes": dict, "environment": dict, "budget": dict,
}


def read_manifest(path: str) -> dict[str, Any]:
    """A manifest, checked field by field; raises Mistaken."""
    manifest: dict[str, Any] = read_json(path)
    try:
        check_manifest(manifest)
    except (ValueError, TypeError, agent.Mistake) as error:
        raise Mistaken(f"{shown_path(path)}: {error}") from None
    return manifest


def check_manifest(manifest: dict[str, Any]) -> None:
    """Raises ValueError, TypeError or agent.Mistake for a plan that cannot be carried out."""
    for fault in agent.misfit("manifest", manifest, MANIFEST):
        raise ValueError(fault)
    if manifest["format"] != 1 or not 1 <= manifest["repeats"] <= 100 or not manifest["modes"]:
        raise ValueError("format is to be 1, repeats 1 to 100, and modes not empty")
    if not all(isinstance(name, str) for name in manifest["cases"]):
        raise ValueError("cases is not a list of ids")
    for name in ("cases", "modes"):
        if len(set(map(str, manifest[name]))) < len(manifest[name]):
            raise ValueError(f"{name} names one twice")
    for mode in manifest["modes"]:
        agent.checked(agent.Task("?", "1", mode, agent.Limits(**manifest["limits"]), manifest["candidates"]))


def read_report(path: str) -> dict[str, Any]:
    """A graded report, checked as far as a comparison needs it; raises Mistaken."""
    report = read_json(path)
    trials = report.get("trials") if isinstance(report, dict) else None
    if not isinstance(trials, list) or not all(isinstance(at, dict) and isinstance(at.get("id"), str) for at in trials):
        raise Mistaken(f"{shown_path(path)}: not a report: it has no list of trials with ids")
    return dict(report)


def broken_seals(files: dict[str, str]) -> Iterator[str]:
    """What is not as SHA256SUMS says. A report that is gone is no edit: then the trials stand by themselves."""
    if "SHA256SUMS" not in files:
        yield from ["SHA256SUMS is missing: whether a file was edited cannot be told"] if "report.json" in files else []
        return
    unsealed = {"manifest.json", "cases.json", "snapshot.json", "exchanges.jsonl", "report.json"} & set(files)
    for line in read_bytes(files["SHA256SUMS"]).decode("utf-8", "replace").splitlines():
        digest, _, name = line.partition("  ")
        unsealed.discard(name)
        if name in files and hashlib.sha256(read_bytes(files[name])).hexdigest() != digest:
            yield f"{name} was edited after the run: it is not what SHA256SUMS says"
        elif name not in files and name != "report.json":
            yield f"{name or line} is named in SHA256SUMS and is not there"
    yield from (f"{name} is not named in SHA256SUMS" for name in sorted(unsealed))


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
    end, asked = tape[-1], sending.exact + bool(sending.differed) + sending.missing
    if sending.differed:
        where, old, new = evaluate.first_difference(*sending.differed) or ("", "", "")
        changed = f"; changed since the recording: {', '.join(recording.changed)}" if recording.changed else ""
        line = f"{trial}: exchange {asked}: the request differs at {where}: recorded {old}, now {new}{changed}"
        yield Problem(line, trial, asked, end.reason)
    elif sending.missing and not (recording.report is None and not sending.unused):
        yield Problem(f"{trial}: exchange {asked}: {end.detail}", trial, asked, end.reason)
    elif sending.unused:
        reason, first = agent.Reason.REPLAY_UNUSED_EXCHANGES, sending.unused[0]
        rest = "" if sending.unused == [first] else f" to {sending.unused[-1]}"
        detail = f" ({end.detail})" if end.reason.status == "failed" else ""
        line = f"{trial}: exchange {first}{rest}: left over: the trial ended before with {end.reason}{detail}"
        yield Problem(line, trial, first, reason)


def differences(part: dict[str, Any], reported: dict[str, Any] | None) -> Iterator[Problem]:
    """Where a replayed trial is not what its report says."""
    if reported is None:
        yield Problem(f"{part['id']}: the report does not have this trial", part["id"])
        return
    compared = ("result", "checks", "provider_usage", "elapsed_seconds")
    old, new = ({name: at.get(name) for name in compared} for at in (reported, part))
    for side in (old, new):  # `scope` is a sentence of the run it was written in
        if isinstance(side["checks"], dict):
            side["checks"] = {name: value for name, value in side["checks"].items() if name != "scope"}
    found = evaluate.first_difference(old, new)
    if found:
        where, before, now = found
        of_exchange = where.startswith(("result.decisions[", "provider_usage["))
        number = int(where.partition("[")[2].partition("]")[0]) + 1 if of_exchange else None
        at = f"exchange {number}: " if number else ""
        detail = f" ({part['detail']})" if part["result"]["status"] == "failed" else ""
        line = f"{part['id']}: {at}the report has {before} at {where}, and the replay {now}{detail}"
        yield Problem(line, part["id"], number)


# === The report =======================================================================================================


def source_hashes() -> dict[str, str]:
    """The SHA-256 of each module of the kit."""
    return {name: hashlib.sha256(read_bytes(os.path.join(HERE, name))).hexdigest() for name in SOURCES}


def report_json(recording: Recording, played: list[Played], problems: list[Problem], code: int) -> dict[str, Any]:
    """A replay as one JSON object, of the shape that a recording's report.json has."""
    manifest = recording.manifest
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
        "recorded_api_requests": requests_of(recording),
        "source_sha256": source_hashes(),
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
        "differing": sum(sending.differed is not None for sending in sendings),
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


def say(text: str = "") -> None:
    """One line of results."""
    print(tools.visible(text))


def columns() -> int:
    """How wide the text may be: the terminal, but no more than is easy to read."""
    try:
        return max(40, min(os.get_terminal_size(sys.stdout.fileno()).columns, 100))
    except (OSError, ValueError, AttributeError):
        return 100


def coloured() -> bool:
    """Whether the results go to a terminal that shows colour."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


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
    for number, line in enumerate(tools.table(rows, numeric=(2, 7, 8))):
        outcome = rows[number][5]
        if coloured() and outcome in COLOURS:
            before, _, after = line.rpartition(f" {outcome} ")
            line = f"{before} \x1b[{COLOURS[outcome]}m{outcome}\x1b[0m {after}"
        print(line)


def print_summary(played: list[Played]) -> None:
    """Every count, per path."""
    for mode, outcomes in evaluate.summarize([at.json for at in played]).items():
        listed = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in outcomes.items())
        say(f"{mode}: {sum(outcomes.values())} trials: {listed}")


def trace(played: Played) -> Iterator[str]:
    """A trial as a story: each step, what was admitted, found and read, what is left, the answer and the grade."""
    task, checks, wide = played.tape.task, played.json["checks"], columns()
    yield f"== {played.trial.id} == {played.trial.case.split}, version {task.version}, {task.mode} path"
    yield from tools.paragraphs("question", task.question, wide, 0)
    for at in range(len(played.tape)):
        yield from tools.step_lines(agent.Tape(played.tape[: at + 1]), wide)
    outcome = getattr(evaluate.Outcome, checks["outcome"].upper())
    yield from tools.paragraphs("grade", f"{outcome}: {outcome.sentence}", wide, 0)
    for finding in played.json["findings"]:
        named = getattr(evaluate.Finding, finding["finding"].upper())
        both = f"expected {agent.compact(finding['expected'])}, found {agent.compact(finding['found'])}"
        yield from tools.paragraphs(named, f"{named.sentence} {both}", wide)
    yield ""


# === Live runs ========================================================================================================

ENDPOINT = "https://generativelanguage.googleapis.com"
MOST_REQUESTS = 200


class Terminated(KeyboardInterrupt):
    """SIGTERM: the same as Ctrl-C, with its own exit code."""


def is_fault(event: dict[str, Any]) -> bool:
    """Whether an event is no finished reply."""
    try:
        return not provider.heard(event)
    except agent.Fault:
        return True


class Run:
    """A live run under way: its recording and journal, what the user allowed, and what it may still use."""

    def __init__(self, recording: Recording, journal: provider.Journal, options: argparse.Namespace) -> None:
        self.recording, self.journal, self.options, self.made = recording, journal, options, 0
        self.key, self.allowance = provider.find_key(os.environ)[1], allowance_of(recording.manifest)
        for exchange in (at for trial in recording.exchanges.trials.values() for at in trial.values()):
            size = len(agent.compact(exchange.request).encode("utf-8"))
            for attempt in range(1, exchange.attempts + 1):
                usage = provider.tokens(exchange.outcome) if attempt == exchange.attempts else None
                self.allowance.count(size, usage)

    def trials(self, index: retrieval.Index) -> Iterator[Played]:
        """Run the trials of the plan in order; raises Stopped where going on would help nobody."""
        faults, plan = 0, plan_of(self.recording)
        for at, trial in enumerate(plan, 1):
            replay, live = self.sending(trial.id)
            tape, model = run_trial(trial, self.recording, index, live.send)
            part, end = trial_json(trial, tape, model, self.recording.snapshot), tape[-1]
            if end.reason in (agent.Reason.REPLAY_REQUEST_MISMATCH, agent.Reason.REPLAY_EXHAUSTED):
                raise Mistaken(f"{trial.id}: {end.detail}: this run cannot go on; make a new one")
            if end.reason in agent.BUDGETS:
                raise tools.Stopped(f"{end.reason}: {end.detail}")
            self.made += live.sent
            yield Played(trial, tape, replay, part, [])
            progress(f"{at} of {len(plan)}: {trial.id}: {part['checks']['outcome']}, {part['result']['reason']}")
            if live.sent:
                faults = faults + 1 if part["checks"]["outcome"] == "not_measured" else 0
                if faults and end.fault in provider.HOPELESS:
                    raise tools.Stopped(f"the next request would get the same: {end.detail}")
                if faults == 2:
                    raise tools.Stopped(f"two faults in a row, the last {part['result']['reason']}: {end.detail}")

    def sending(self, trial: str) -> tuple[provider.Replay, tools.Live]:
        """What answers a trial: its recorded exchanges, and the service beyond them."""
        saved, manifest = self.recording.exchanges.trials.get(trial, {}), self.recording.manifest
        replay = provider.Replay(saved)

        def post(body: bytes, seconds: float) -> dict[str, Any]:
            return provider.post(manifest["endpoint"], self.key, body, seconds)

        def again(outcome: dict[str, Any] | None) -> str:
            if outcome is None:
                return "resend" if self.options.resend else ""
            return "retry_faults" if self.options.retry_faults and is_fault(outcome) else ""

        seconds = manifest["limits"]["seconds"]
        write, now = self.journal.write, time.monotonic
        return replay, tools.Live(trial, saved, replay.send, self.allowance, write, post, again, now, seconds)


def allowance_of(manifest: dict[str, Any]) -> tools.Allowance:
    """The allowance that a plan gives its run."""
    return tools.Allowance(manifest["batch_request_cap"], manifest["config"]["maxOutputTokens"], manifest["budget"])


def progress(line: str) -> None:
    """A line about a run under way: one that is written over on a terminal, one of many elsewhere."""
    before, after = ("\r\x1b[K", "") if sys.stderr.isatty() else ("", "\n")
    print(before + tools.visible(line), end=after, file=sys.stderr, flush=True)


def live_command(argv: list[str]) -> int:
    """Show what a live run would do; with --execute-approved do it, or go on with one that ended early."""
    options = live_options(argv)
    folder, recording = resumable(options) if options.resume else planned(options)
    for name, value in plan_rows(folder, recording, options):
        say(f"{name:12}  {value}")
    if not options.execute_approved:
        say("Nothing was sent. --execute-approved makes this run.")
        return DONE
    provider.find_key(os.environ)
    if not options.resume:
        create_recording(folder, recording)
    return execute(folder, options)


def live_options(argv: list[str]) -> argparse.Namespace:
    """The flags of a live run; raises Mistaken."""
    parser = Parser("run.py --live", "Show the plan of a live run; with --execute-approved, make it.")
    for name, about in (
        ("live", ""), ("execute-approved", "send requests, which cost money"),
        ("resend", "with --resume: send again what may have been paid for already"),
        ("retry-faults", "with --resume: run the trials again that a fault ended"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=about)
    for name, about, default in (
        ("resume", "go on with this run", None), ("name", "the recording's name", None), ("case", "only this case", None),
        ("cases", "a cases file", CASES), ("snapshot", "a snapshot", SNAPSHOT), ("model", "", "gemini-3.8-flash"),
        ("price", "INPUT,OUTPUT: money per million tokens", None),
    ):
        parser.add_argument(f"--{name}", default=default, help=about)
    parser.add_argument("--mode", choices=("fixed", "agent"))
    parser.add_argument("--thinking", choices=("LOW", "MEDIUM", "HIGH", "MINIMAL", "off"), default="LOW")
    for name, default_number in (
        ("repeats", 2), ("candidates", 2), ("max-output-tokens", 4096), ("max-requests", None), ("token-budget", None)):
        parser.add_argument(f"--{name}", metavar="N", type=int, default=default_number)
    for name in ("temperature", "cost-budget"):
        parser.add_argument(f"--{name}", metavar="X", type=float)
    parser.add_argument("--limit", metavar="NAME=N", action="append", default=[], help=", ".join(agent.Limits._fields))
    return parser.parse_args(argv)


def planned(options: argparse.Namespace) -> tuple[str, Recording]:
    """The folder and the recording, still empty, of the run that the flags ask for; raises Mistaken."""
    given, cases = load(options.cases, evaluate.load_cases)
    frozen, snapshot = load(options.snapshot, retrieval.load_snapshot)
    faults = evaluate.label_faults(cases, [passage._asdict() for passage in snapshot.passages])
    if faults:
        raise Mistaken(*(f"{shown_path(options.cases)}: {fault}" for fault in faults))
    if options.case not in (None, *(case.id for case in cases)):
        raise Mistaken(f"no case {agent.shown(options.case)}; there are {', '.join(case.id for case in cases)}")
    temperature = {} if options.temperature is None else {"temperature": options.temperature}
    thinking = {} if options.thinking == "off" else {"thinkingConfig": {"thinkingLevel": options.thinking}}
    config = {"maxOutputTokens": options.max_output_tokens, **temperature, **thinking, "responseMimeType": "application/json"}
    model = options.model.removeprefix("models/")
    hashes = input_hashes(given, frozen, config)
    manifest = {
        "format": 1, "execution_mode": "live-Gemini-API", "provenance": "Recorded live, exchange by exchange.",
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "model": model, "endpoint": endpoint(model),
        "config": config, "limits": agent.Limits()._asdict() | dict(map(read_limit, options.limit)),
        "batch_request_cap": MOST_REQUESTS, "budget": {}, "candidates": options.candidates, "repeats": options.repeats,
        "modes": [mode for mode in ("fixed", "agent") if options.mode in (None, mode)],
        "cases": [case.id for case in cases if options.case in (None, case.id)],
        "hashes": {**hashes, "sources": provider.fingerprint(source_hashes())}, "environment": environment(),
    }
    check_manifest(manifest)
    name = options.name or f"{manifest['recorded_at'].replace('-', '').replace(':', '')}-{model}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise Mistaken(f"--name {agent.shown(name)}: 1 to 100 letters, digits, '.', '_', '-', and none of these three first")
    folder = os.path.join(RECORDINGS, name)
    if os.path.lexists(folder):
        raise Mistaken(f"{shown_path(folder)} exists: give another --name, or go on with it by --live --resume {name}")
    documents = {"cases.json": given, "snapshot.json": frozen}
    empty = provider.Exchanges({}, {}, 0)
    recording = Recording(name, manifest, cases, snapshot, hashes, empty, None, [], documents)
    manifest["batch_request_cap"] = min(worst_requests(recording), MOST_REQUESTS)
    return folder, budgeted(recording, options)


def endpoint(model: str) -> str:
    """The address of a model, under GOOGLE_GEMINI_BASE_URL if set; raises Mistaken for one that no key may go to."""
    for name in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        if os.environ.get(name, "").strip().lower() in ("true", "1", "yes", "on"):
            raise Mistaken(f"{name} asks for Vertex AI, which this kit does not speak: unset it")
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", model):
        raise Mistaken(f"the model name {agent.shown(model)} may have letters, digits, '.', '-' and '_' only")
    base = os.environ.get("GOOGLE_GEMINI_BASE_URL", "").strip().rstrip("/") or ENDPOINT
    host, here = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])", r"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])"
    if not re.fullmatch(rf"(?:https://{host}|http://{here})(?::[0-9]{{1,5}})?(?:/[A-Za-z0-9._~/-]*)?", base):
        raise Mistaken("GOOGLE_GEMINI_BASE_URL: a key goes only to an https:// address, or http:// on this machine")
    return f"{base}/v1beta/models/{model}:generateContent"


def read_limit(text: str) -> tuple[str, int]:
    """`NAME=N` as a pair; raises Mistaken."""
    name, _, number = text.partition("=")
    if name not in agent.Limits._fields or not re.fullmatch("[0-9]{1,6}", number):
        raise Mistaken(f"--limit {agent.shown(text)}: NAME=N, with one of {', '.join(agent.Limits._fields)}")
    return name, int(number)


def worst_requests(recording: Recording) -> int:
    """How often the trials of a plan could ask the model."""
    calls = recording.manifest["limits"]["model_calls"]
    return sum(calls if trial.mode == "agent" else 1 for trial in plan_of(recording))


def budgeted(recording: Recording, options: argparse.Namespace) -> Recording:
    """The recording with the allowance and the budgets that the flags set; raises Mistaken."""
    manifest, budget = recording.manifest, recording.manifest["budget"]
    cap = manifest["batch_request_cap"] if options.max_requests is None else options.max_requests
    if not 1 <= cap <= MOST_REQUESTS:
        raise Mistaken(f"{agent.Reason.INVALID_REQUEST_ALLOWANCE}: {cap}; a run may make 1 to {MOST_REQUESTS} requests")
    manifest["batch_request_cap"] = cap
    if options.price is not None:
        prices = options.price.split(",")
        if len(prices) != 2 or not all(re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", at) and float(at) > 0 for at in prices):
            raise Mistaken(f"--price {agent.shown(options.price)}: INPUT,OUTPUT above 0, money per million tokens")
        budget["prices"] = [float(price) for price in prices]
    for name, value in (("tokens", options.token_budget), ("cost", options.cost_budget)):
        if value is not None:
            if not 0 < value < 1e12:
                raise Mistaken(f"--{'token' if name == 'tokens' else 'cost'}-budget {value}: a number above 0")
            budget[name] = value
    if "cost" in budget and "prices" not in budget:
        raise Mistaken("--cost-budget needs --price INPUT,OUTPUT: without prices it would stop nothing")
    return recording


def resumable(options: argparse.Namespace) -> tuple[str, Recording]:
    """The folder and the recording of a run that can go on; raises Mistaken where it cannot, or its inputs changed."""
    folder = find_recording(options.resume)
    recording = open_recording(folder)
    if recording.report and not options.retry_faults:
        raise Mistaken(f"recording {recording.name} is finished; --retry-faults runs its unmeasured trials again")
    odd = [f"{trial} exchange {at} {odd}" for trial, odds in recording.exchanges.oddities.items() for at, odd in odds]
    why = [*(f"{name} changed since" for name in recording.changed), *recording.edits, *odd]
    if recording.manifest["endpoint"] != endpoint(recording.manifest["model"]):
        why.append(f"it was made at {recording.manifest['endpoint']}, and GOOGLE_GEMINI_BASE_URL is another now")
    if why:
        raise Mistaken(f"recording {recording.name} cannot go on: {'; '.join(why)}")
    return folder, budgeted(recording, options)


def plan_rows(folder: str, recording: Recording, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """What a run will do and what it could use at worst, a name and a value a line."""
    manifest, allowance = recording.manifest, allowance_of(recording.manifest)
    cap, one, output = manifest["batch_request_cap"], provider.REQUEST_BYTES, allowance.output
    yield from ((name, str(manifest[name])) for name in ("model", "endpoint"))
    yield "settings", agent.compact(manifest["config"])
    yield from ((name, ", ".join(manifest[name])) for name in ("cases", "modes"))
    yield "trials", f"{len(plan_of(recording))}, {manifest['repeats']} repeats, {manifest['candidates']} candidates a search"
    yield "limits", agent.compact(manifest["limits"])
    yield "requests", f"at most {cap} in all, resumes included; the trials could ask {worst_requests(recording)} times"
    yield "a request", f"at most {one} bytes and {output} output tokens: {one + output} tokens at worst"
    yield "at worst", f"{cap} requests, {cap * one} request bytes, {cap * output} output tokens"
    money = f"{allowance.worst(one, cap)[2]:.2f} at worst" if "prices" in manifest["budget"] else "not known: give --price"
    yield "money", money
    yield "budgets", ", ".join(f"{name} {value}" for name, value in manifest["budget"].items()) or "none"
    yield "recording", shown_path(folder)
    try:
        yield "key", f"{provider.find_key(os.environ)[0]} is set"
    except agent.Mistake as error:
        yield "key", error.detail
    if options.resume:
        yield from progress_rows(recording)


def progress_rows(recording: Recording) -> Iterator[tuple[str, str]]:
    """What is done of a run, what is missing, and what is in doubt."""
    index = open_index(recording.snapshot)
    played = list(replay(recording, plan_of(recording), index))
    index.close()
    missing = [at.trial.id for at in played if at.sending.missing]
    faults = [at.trial.id for at in played if at.json["checks"]["outcome"] == "not_measured" and not at.sending.missing]
    yield "done", f"{len(played) - len(missing)} of {len(played)} trials, {requests_of(recording)} requests"
    yield "missing", ", ".join(missing) or "none"
    yield "in doubt", ", ".join(in_doubt(recording)) or "none"
    yield "faults", ", ".join(faults) or "none"


def in_doubt(recording: Recording) -> list[str]:
    """The requests that were sent, and may have been paid, with no reply recorded."""
    return [f"{trial} exchange {number}" for trial, saved in recording.exchanges.trials.items()
            for number, exchange in saved.items() if exchange.outcome is None]


def requests_of(recording: Recording) -> int:
    """How many requests a recording holds, second attempts included."""
    return sum(exchange.attempts for trial in recording.exchanges.trials.values() for exchange in trial.values())


def write_file(path: str, document: Any) -> None:
    """Put JSON, or a text, into a file as a whole or not at all; raises OSError."""
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        if os.path.lexists(part):
            os.remove(part)


def create_recording(folder: str, recording: Recording) -> None:
    """The folder of a new run, with its inputs and its plan; raises Mistaken."""
    try:
        os.makedirs(RECORDINGS, exist_ok=True)
        os.mkdir(folder)
        for name, document in {**recording.documents, "manifest.json": recording.manifest}.items():
            write_file(os.path.join(folder, name), document)
    except OSError as error:
        raise Mistaken(f"{shown_path(folder)}: {error.strerror or error}; nothing was sent") from None


def execute(folder: str, options: argparse.Namespace) -> int:
    """Make a run, or what is left of it, and write its report; the exit code says whether it came to its end."""
    import signal

    def terminate(*_: Any) -> NoReturn:
        raise Terminated

    before, played = signal.signal(signal.SIGTERM, terminate), list[Played]()
    try:
        journal = provider.Journal(folder)
    except OSError as error:
        raise Mistaken(f"{shown_path(folder)}: {error.strerror or error}") from None
    try:
        return carry_out(folder, journal, options, played)
    except (tools.Stopped, OSError, KeyboardInterrupt) as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else f"stopped: {error}"
        go_on = f"python3 run.py --live --resume {os.path.basename(folder)} --execute-approved"
        complain(f"{why}; {len(played)} trials are done and kept; go on with: {go_on}")
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED if why == "interrupted" else STOPPED
    finally:
        journal.close()
        signal.signal(signal.SIGTERM, before)


def carry_out(folder: str, journal: provider.Journal, options: argparse.Namespace, played: list[Played]) -> int:
    """The run itself, under its lock; fills `played` and writes the report."""
    recording = budgeted(open_recording(folder), options)  # read anew: it is ours only now
    if recording.report:
        os.remove(os.path.join(folder, "SHA256SUMS"))
        old = next(name for at in range(1, 1000) if not os.path.lexists(name := os.path.join(folder, f"report-{at}.json")))
        os.rename(os.path.join(folder, "report.json"), old)
    journal.keep(recording.exchanges.whole_bytes)
    run, index = Run(recording, journal, options), open_index(recording.snapshot)
    try:
        for at in run.trials(index):
            played.append(at)
    finally:
        index.close()
    finished = open_recording(folder)
    report = report_json(finished, played, [], DONE) | {
        "execution_mode": finished.manifest["execution_mode"], "actual_api_requests": run.made, "replay": None,
        "in_doubt": in_doubt(finished), "cost": cost_of(finished, run.allowance)}
    write_file(os.path.join(folder, "report.json"), report)
    seal(folder)
    print_table(played)
    print_summary(played)
    measured = sum(at.json["checks"]["outcome"] != "not_measured" for at in played)
    retry = "" if measured == len(played) else f"; python3 run.py --live --resume {finished.name} --retry-faults tries the others"
    say(f"{measured} of {len(played)} measured | {run.made} live requests | {shown_path(folder)}{retry}")
    return DONE


def cost_of(recording: Recording, allowance: tools.Allowance) -> dict[str, Any]:
    """The money a run took, as far as prices were given."""
    if "prices" not in recording.manifest["budget"]:
        return {"currency_cost": None, "note": "No prices were given; token usage stands with each trial."}
    return {"currency_cost": round(allowance.used[2], 6), "note": "By the prices given; unknown use counts at its worst."}


def seal(folder: str) -> None:
    """Write SHA256SUMS over the files of a finished recording."""
    names = sorted(name for name in os.listdir(folder) if name.endswith((".json", ".jsonl")))
    sums = [f"{hashlib.sha256(read_bytes(os.path.join(folder, name))).hexdigest()}  {name}\n" for name in names]
    write_file(os.path.join(folder, "SHA256SUMS"), "".join(sums))


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
    planned = {trial.id for trial in plan}
    for trial in (trial for trial in recording.exchanges.trials if trial not in planned):
        problems.append(Problem(f"{trial}: its exchanges are left over: the plan has no such trial", trial))
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
    about = f"{manifest['model']}, {manifest['recorded_at'][:10]}. {manifest['provenance']}"
    for line in tools.paragraphs(f"recording {recording.name}", about, columns(), 0):
        print(line)
    say()
    for at in played if trace_too else []:
        for line in trace(at):
            print(line)
    print_table(played)
    say()
    print_summary(played)
    if recording.report is None:
        say("report.json is not there: nothing to compare the trials with")
        lacking = [
            at.trial.id for at in played if at.sending.missing or at.tape[-1].reason is agent.Reason.REPLY_IN_DOUBT]
        if lacking:
            say(f"not recorded to the end: {', '.join(lacking)}")


def check_command(argv: list[str]) -> int:
    """Say what is wrong or weak in cases, labels and passages."""
    parser = Parser("run.py check", "What is wrong or weak in cases, labels and passages.")
    parser.add_argument("--cases", metavar="FILE", default=CASES)
    parser.add_argument("--snapshot", metavar="FILE", default=SNAPSHOT)
    options = parser.parse_args(argv)
    faults: list[str] = []
    loaded: list[Any] = []
    for path, parse in ((options.cases, evaluate.load_cases), (options.snapshot, retrieval.load_snapshot)):
        document = read_json(path)
        try:
            loaded.append(parse(document))
        except (evaluate.CaseFaults, retrieval.SnapshotFaults) as error:
            faults += [f"{shown_path(path)}: {fault}" for fault in error.faults]
    weak: list[str] = []
    if not faults:
        cases, passages = loaded[0], [passage._asdict() for passage in loaded[1].passages]
        faults += [f"{shown_path(options.cases)}: {fault}" for fault in evaluate.label_faults(cases, passages)]
        weak = evaluate.weak_labels(cases, passages)
        say(f"{len(cases)} cases, {len(passages)} passages")
    for line in [*(f"fault: {fault}" for fault in faults), *(f"weak: {label}" for label in weak)]:
        say(line)
    say(f"{len(faults)} faults, {len(weak)} weak labels")
    return DIFFERS if faults else DONE


WORDS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "check": (check_command, "what is wrong or weak in cases, labels and passages"),
}
HELP = "With no word, replay a recording. The words, each with its own --help:\n" + "\n".join(
    f"  {word:8} {text}" for word, (_, text) in WORDS.items())


def complain(line: str) -> None:
    """One line of diagnostics."""
    print(f"run.py: {tools.visible(line)}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code; prints to sys.stdout and sys.stderr."""
    argv = sys.argv[1:] if argv is None else argv
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (closed by whoever started us)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            code = command(argv)
        except SystemExit:  # argparse has shown its help
            code = DONE
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
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        complain(f"standard output: {error.strerror}")
        return MISTAKEN


def command(argv: list[str]) -> int:
    """The exit code of the word that stands first, or of a replay."""
    if argv and not argv[0].startswith("-"):
        if argv[0] not in WORDS:
            raise Mistaken(f"no word {agent.shown(argv[0])}; there are {', '.join(WORDS)}, or none to replay")
        return WORDS[argv[0]][0](argv[1:])
    return live_command(argv) if "--live" in argv else replay_command(argv)


if __name__ == "__main__":
    gc.set_threshold(100_000)  # a replay keeps what it makes: looking for garbage early would cost a fifth of its time
    code = main()
    sys.stdout.flush()
    os._exit(code)  # nothing is left to tidy up, and tidying would take as long as a tenth of a replay
