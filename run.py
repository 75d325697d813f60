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
    return Recording(os.path.basename(folder), manifest, cases, snapshot, hashes, exchanges, report, edits)


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
    "cases": list, "hashes": dict, "environment": dict,
}


def read_manifest(path: str) -> dict[str, Any]:
    """A manifest, checked field by field; raises Mistaken."""
    manifest: dict[str, Any] = read_json(path)
    try:
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
    except (ValueError, TypeError, agent.Mistake) as error:
        raise Mistaken(f"{shown_path(path)}: {error}") from None
    return manifest


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
    end, asked = tape[-1], sending.exact + sending.differing + sending.missing
    if sending.differing:
        changed = f"; changed since the recording: {', '.join(recording.changed)}" if recording.changed else ""
        yield Problem(f"{trial}: exchange {asked}: {end.detail}{changed}", trial, asked, end.reason)
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
    found = provider.first_difference(old, new)
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
    return replay_command(argv)


if __name__ == "__main__":
    gc.set_threshold(100_000)  # a replay keeps what it makes: looking for garbage early would cost a fifth of its time
    code = main()
    sys.stdout.flush()
    os._exit(code)  # nothing is left to tidy up, and tidying would take as long as a tenth of a replay
