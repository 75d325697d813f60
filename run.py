"""run introduces the rooms to each other: it is the command line, and what needs more than one room at once.

It decides nothing about a trial, sends nothing and judges nothing itself. With no word it replays a recording.
Read in this order: reading what people give - recordings - replaying - the report - words for people - the commands.
"""

import sys

if sys.version_info < (3, 11):
    sys.stderr.write("run.py needs Python 3.11 or newer; this is Python " + sys.version.split()[0] + "\n")
    sys.exit(2)

if __name__ == "__main__":
    import gc

    gc.set_threshold(100_000)  # a replay keeps what it makes: looking for garbage would cost a tenth of its time

import argparse
import contextlib
import functools
import hashlib
import io
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, NoReturn, TypeVar

import agent
import evaluate
import provider
import retrieval
import tools

HERE = os.path.dirname(os.path.realpath(__file__))
RECORDINGS, CASES, SNAPSHOT = (os.path.join(HERE, name) for name in ("recordings", "cases.json", "snapshot.json"))
Loaded = TypeVar("Loaded")
DONE, DIFFERS, MISTAKEN, STOPPED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143

class Mistaken(Exception):
    """A command, a file or a machine that nothing can be run with: one line a fault, exit code 2."""
    def __init__(self, *lines: str, reason: str = "") -> None:
        super().__init__("; ".join(lines))
        self.lines, self.reason = lines, reason

class Faulty(Mistaken):
    """A file that can be read and whose content has faults."""

def mistaken(error: Exception, before: str = "") -> Mistaken:
    """What a room refuses, as a person's mistake, with the named reason where it has one."""
    return Mistaken(f"{before}{error}", reason=str(getattr(error, "reason", "")))

class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, as all of ours are."""
    def __init__(self, word: str, description: str = "") -> None:
        layout = functools.partial(argparse.RawTextHelpFormatter, width=100)  # to find one, argparse imports shutil
        description = description or WORDS[word].__doc__ or ""
        super().__init__(f"run.py {word}".strip(), None, description, allow_abbrev=False, formatter_class=layout)

    def error(self, message: str) -> NoReturn:
        raise Mistaken(f"{message} (see {self.prog} --help)")

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

def read_text(path: str) -> str:
    """The text of a file; raises Mistaken."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Mistaken(f"{shown_path(path)}: not UTF-8: {error}") from None

def load(
    path: str, parse: Callable[[Any], Loaded], read: Callable[[str], Any] = read_json
) -> tuple[Any, Loaded]:
    """The document in a file and what `parse` makes of it; raises Faulty with every fault of the file."""
    document = read(path)
    try:
        return document, parse(document)
    except (evaluate.CaseFaults, retrieval.SnapshotFaults) as error:
        raise Faulty(*(f"{shown_path(path)}: {fault}" for fault in error.faults)) from None

def load_cases(document: Any) -> list[evaluate.Case]:
    """The cases of a document; raises evaluate.CaseFaults."""
    return evaluate.load_cases(document, timer=os.name == "posix")

def within(work: Callable[[], Loaded]) -> Loaded:
    """What the work gives; raises TimeoutError where it takes more than two seconds: a pattern can search for ever."""
    if os.name != "posix":
        return work()
    import signal

    def late(*_: Any) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

class Corpus(NamedTuple):
    """A snapshot on disk: what stands for it in a recording, its fingerprint, its profile, and what opens its index."""
    document: dict[str, Any]
    sha256: str
    profile: str
    open: Callable[[], retrieval.Index]

LARGE = 1_000_000  # a recording has the path and the hash of a snapshot of so many bytes, not its passages

def read_corpus(path: str, named: bool = False) -> Corpus:
    """The snapshot in a file, or in the one that it names by path and hash; raises Mistaken."""
    if path.endswith(".sqlite"):
        with contextlib.closing(open_index(path)) as index:
            document = {"path": os.path.abspath(path), "sha256": index.fingerprint}
            return Corpus(document, index.fingerprint, index.profile, functools.partial(open_index, path))
    document, snapshot = load(path, lambda document: "" if is_named(document) else retrieval.load_snapshot(document))
    if isinstance(snapshot, str):
        if named or not os.path.isfile(document["path"]):
            raise Mistaken(f"{shown_path(path)}: its snapshot {document['path']} is not there; give it by --snapshot")
        return read_corpus(document["path"], named=True)
    sha256 = provider.fingerprint(document)
    if os.path.getsize(path) >= LARGE:
        document = {"path": os.path.abspath(path), "sha256": sha256}
    return Corpus(document, sha256, snapshot.profile, functools.partial(open_index, snapshot))

def is_named(document: Any) -> bool:
    """Whether a document stands for a snapshot that lies elsewhere."""
    return isinstance(document, dict) and document.keys() == {"path", "sha256"} and type(document["path"]) is str

def open_index(snapshot: retrieval.Snapshot | str) -> retrieval.Index:
    """An index over the snapshot, or the one in a file of that path; raises Mistaken where none can be had."""
    try:
        return retrieval.Index.open(snapshot) if isinstance(snapshot, str) else retrieval.Index(snapshot)
    except (retrieval.IndexFault, retrieval.SnapshotFaults) as error:
        raise Mistaken(f"{shown_path(snapshot)}: {error}" if isinstance(snapshot, str) else str(error)) from None

def named_passages(index: retrieval.Index, version: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """Those passages of a version that are among the names, as JSON."""
    found = (index.passage(name, version) for name in dict.fromkeys(names))
    return [passage._asdict() for passage in found if passage]

# === Recordings =======================================================================================================
class Planned(NamedTuple):
    """One trial of a plan."""
    id: str
    case: evaluate.Case
    repeat: int
    mode: str

class Recording(NamedTuple):
    """A recording as it lies on disk: plan, inputs and their fingerprints, exchanges, report, what was edited."""
    name: str
    manifest: dict[str, Any]
    cases: list[evaluate.Case]
    corpus: Corpus
    hashes: dict[str, str]
    exchanges: provider.Exchanges
    report: dict[str, Any] | None
    edits: list[str]
    documents: dict[str, Any]  # cases.json and snapshot.json

    @property
    def changed(self) -> list[str]:
        """The inputs of a request that are not what they were when it was recorded."""
        return [name for name, value in self.hashes.items() if self.manifest["hashes"].get(name) != value]

    @property
    def odd(self) -> list[str]:
        """What is odd about its files and its exchanges."""
        odds = self.exchanges.oddities.items()
        return [*self.edits, *(f"{trial} exchange {at} {told}" for trial, one in odds for at, told in one)]

    @property
    def requests(self) -> int:
        """How many requests were sent, second attempts included."""
        return sum(exchange.attempts for trial in self.exchanges.trials.values() for exchange in trial.values())

    @property
    def in_doubt(self) -> list[str]:
        """The requests that were sent, and may have been paid, with no reply recorded for one of their attempts."""
        known = ((name, at, one) for name, saved in self.exchanges.trials.items() for at, one in saved.items())
        return [f"{name} exchange {at}" for name, at, one in known if one.doubted or one.outcome is None]

def open_recording(name: str, cases_path: str | None = None, snapshot_path: str | None = None) -> Recording:
    """The recording of that name or path, with other cases or passages if wanted; raises Mistaken when it cannot be
    replayed at all."""
    folder = find_recording(name)
    files = {file: os.path.join(folder, file) for file in os.listdir(folder)}
    for path in (path for name, path in files.items() if name in tools.FILES and not os.path.isfile(path)):
        raise Mistaken(f"{shown_path(path)}: not an ordinary file")
    manifest = read_manifest(os.path.join(folder, "manifest.json"))
    given, cases = load(cases_path or files.get("cases.json", CASES), load_cases)
    corpus = read_corpus(snapshot_path or files.get("snapshot.json", SNAPSHOT))
    report = read_json(files["report.json"]) if "report.json" in files else None
    if report is not None and not evaluate.is_report(report):
        raise Mistaken(f"{shown_path(files['report.json'])}: not a report: it has no list of trials with ids")
    path = os.path.join(folder, "exchanges.jsonl")
    try:
        begun = report is not None or os.path.exists(path)  # a run can end before its first request
        exchanges = provider.load_exchanges(read_bytes(path) if begun else b"", finished=report is not None)
    except provider.DamagedRecording as error:
        raise Mistaken(f"{shown_path(path)}, {error}; the recording is damaged: restore the file") from None
    hashes = input_hashes(given, corpus.sha256, manifest["config"])
    sums = read_bytes(files["SHA256SUMS"]).decode("utf-8", "replace") if "SHA256SUMS" in files else None
    digests = {name: sha256_of(path) for name, path in files.items() if os.path.isfile(path)}
    edits = list(tools.broken_seals(sums, digests))
    documents = {"cases.json": given, "snapshot.json": corpus.document}
    return Recording(os.path.basename(folder), manifest, cases, corpus, hashes, exchanges, report, edits, documents)

def find_recording(name: str) -> str:
    """The folder of a recording; raises Mistaken."""
    name = name.rstrip("/" + os.sep) or name
    plain = os.path.basename(name) == name and name not in ("", os.curdir, os.pardir)
    for folder in (os.path.join(RECORDINGS, name), name) if plain else (name,):
        if os.path.isdir(folder):
            return os.path.abspath(folder)
    raise Mistaken(f"no recording {agent.shown(name)}: give one of {', '.join(recordings())}, or a folder's path")

def recordings() -> list[str]:
    """The names of the recordings there are."""
    entries = os.listdir(RECORDINGS) if os.path.isdir(RECORDINGS) else []
    return sorted(entry for entry in entries if os.path.isdir(os.path.join(RECORDINGS, entry)))

def input_hashes(cases: Any, snapshot: str, config: Any) -> dict[str, str]:
    """Fingerprints of all that a request is made from; that of the snapshot is given."""
    inputs = {"prompt": provider.PROMPT, "schema": provider.SCHEMA, "config": config, "cases": cases}
    return {name: provider.fingerprint(value) for name, value in inputs.items()} | {"snapshot": snapshot}

def read_manifest(path: str) -> dict[str, Any]:
    """A manifest, checked field by field; raises Mistaken."""
    manifest: dict[str, Any] = read_json(path)
    try:
        tools.check_manifest(manifest)
    except (ValueError, TypeError, agent.Mistake) as error:
        raise mistaken(error, f"{shown_path(path)}: ") from None
    return manifest

def sha256_of(path: str) -> str:
    """The SHA-256 of a file, in hex; raises Mistaken."""
    return hashlib.sha256(read_bytes(path)).hexdigest()

def plan_of(recording: Recording) -> list[Planned]:
    """The trials of a recording, in the order they were run."""
    known = {case.id: case for case in recording.cases}
    manifest = recording.manifest
    for name in (name for name in manifest["cases"] if name not in known):
        raise Mistaken(f"recording {recording.name} has the case {name}, and its cases file does not")
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
        part = trial_json(trial, tape, model, index)
        begun = sending.exact or sending.unused or recording.exchanges.oddities.get(trial.id)
        if recording.report is None and sending.missing and not begun:
            continue  # a run in progress had not come to it
        problems = list(disagreements(trial.id, tape, sending, recording))
        unlike = evaluate.unlike_report(part, reported.get(trial.id)) if recording.report and not problems else None
        if unlike:
            number, line = unlike
            line = f"{trial.id}: {f'exchange {number}: ' if number else ''}{line}"
            problems.append(Problem(line, trial.id, number))
        yield Played(trial, tape, sending, part, problems)

def run_trial(
    trial: Planned, recording: Recording, index: retrieval.Index, send: provider.Send
) -> tuple[agent.Tape, provider.Model]:
    """One trial over any sending: its facts, and the model port with the exchanges it made."""
    manifest = recording.manifest
    model = provider.Model(manifest["config"], send)
    shape = (trial.mode, agent.Limits(**manifest["limits"]), manifest["candidates"])
    task = agent.Task(trial.case.question, trial.case.version, *shape)
    try:
        toolbox = tools.Toolbox(index, task.version)
    except ValueError as error:
        raise Mistaken(f"case {trial.case.id}: {error}") from None
    return agent.Tape(agent.controller(task, toolbox, model.ask, model.clock)), model

def trial_json(trial: Planned, tape: agent.Tape, model: provider.Model, index: retrieval.Index) -> dict[str, Any]:
    """A trial as it stands in a report: graded, and with its first cause where it did not pass."""
    result, case = tape.result(), trial.case
    passages = named_passages(index, case.version, [*case.named, *tape.read()])
    graded = {"mode": trial.mode, "result": result, **evaluate.grade(case, result, passages, within)}
    ranking: list[str] = []
    if graded["findings"]:
        with contextlib.suppress(retrieval.SearchFailed):
            found = index.search(case.question, case.version, tape.task.candidates).passages
            ranking = [passage.source_id for passage in found]
    return {
        "id": trial.id, "case_id": case.id, "split": case.split, "repeat": trial.repeat, **graded,
        "cause": evaluate.first_cause(case, graded, ranking, passages, within),
        "detail": tape[-1].detail,
        "elapsed_seconds": model.clock() if any(event["elapsed"] is not None for event in model.events) else None,
        "provider_usage": [provider.tokens(event) for event in model.events],
    }

def disagreements(trial: str, tape: agent.Tape, sending: provider.Replay, recording: Recording) -> Iterator[Problem]:
    """What does not hold between a trial and its recorded exchanges."""
    told = recording.report.get("in_doubt", []) if recording.report else None
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
    elif end.reason is agent.Reason.REPLY_IN_DOUBT and told is not None and f"{trial} exchange {asked}" not in told:
        yield Problem(f"{trial}: exchange {asked}: its reply is missing", trial, asked, end.reason)
    elif sending.unused:
        reason, first = agent.Reason.REPLAY_UNUSED_EXCHANGES, sending.unused[0]
        rest = "" if sending.unused == [first] else f" to {sending.unused[-1]}"
        detail = f" ({end.detail})" if end.reason.status == "failed" else ""
        line = f"{trial}: exchange {first}{rest}: left over: the trial ended before with {end.reason}{detail}"
        yield Problem(line, trial, first, reason)

# === The report =======================================================================================================
def source_hashes() -> dict[str, str]:
    """The SHA-256 of each module of the kit."""
    return {name: sha256_of(os.path.join(HERE, name)) for name in sorted(os.listdir(HERE)) if name.endswith(".py")}

def report_json(recording: Recording, played: list[Played], problems: list[Problem], **more: Any) -> dict[str, Any]:
    """A replay, or with `more` a run, as one JSON object: what report.json is, and --json shows."""
    report = evaluate.report([at.json for at in played], {
        **recording.manifest, "execution_mode": "replay", "recording": recording.name, "replay": counts(played),
        "cases_sha256": recording.hashes["cases"], "snapshot_sha256": recording.hashes["snapshot"],
        "actual_api_requests": 0, "recorded_api_requests": recording.requests, "source_sha256": source_hashes(),
        "environment": environment(), "cost": {"currency_cost": None, "note": "A replay costs nothing."}, **more,
    })
    if problems:
        first = next((problem for problem in problems if problem.trial), problems[0])
        place = {name: value for name, value in first._asdict().items() if name != "line" and value}
        report["error"] = {"code": DIFFERS, "message": first.line, **place}
    return report

def counts(played: list[Played]) -> dict[str, int]:
    """How many trials were replayed, and how their exchanges fared."""
    fared = {"trials": len(played), "exact": 0, "differing": 0, "missing": 0, "unused": 0}
    for at in (played.sending for played in played):
        each = (at.exact, int(at.differed is not None), at.missing, len(at.unused))
        fared |= {name: fared[name] + more for name, more in zip(list(fared)[1:], each, strict=True)}
    return fared

def environment() -> dict[str, str]:
    """What a result was made with."""
    system = os.uname() if hasattr(os, "uname") else None
    name = f"{system.sysname}-{system.release}-{system.machine}" if system else sys.platform
    return {"python": sys.version.split()[0], "platform": name, "sqlite": retrieval.SQLITE_VERSION}

# === Words for people =================================================================================================
def say(text: str = "") -> None:
    """One line of results."""
    print(tools.visible(text))

def screen() -> int:
    """How many columns the terminal has; 0 where that is not known."""
    with contextlib.suppress(OSError, ValueError):
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns)
    return 0

def columns() -> int:
    """How wide a text may be: the terminal, but no more than is easy to read."""
    return max(40, min(screen() or 100, 100))

def widest() -> int:
    """How wide a table may be: as the terminal is, and elsewhere as it comes."""
    return screen() if sys.stdout.isatty() else 0

def colours() -> bool:
    """Whether the reader is a person at a terminal who wants colour."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

def print_trials(played: list[Played]) -> None:
    """The table of trials, and every count per path."""
    trials = [at.json for at in played]
    told = tools.summary_lines(evaluate.summarize(trials), evaluate.stages(trials))
    print(*tools.trial_lines(trials, colours(), widest()), "", *told, sep="\n")

def print_trace(played: Played, profile: str) -> None:
    """A trial as a story, then its grade with its findings."""
    checks, wide = played.json["checks"], columns()
    print(*tools.story(played.trial.id, f"{played.trial.case.split}, {profile} profile", played.tape, wide), sep="\n")
    outcome = getattr(evaluate.Outcome, checks["outcome"].upper())
    print(*tools.paragraphs("grade", f"{outcome}: {outcome.sentence}", wide, 0), sep="\n")
    for finding in played.json["findings"]:
        named = getattr(evaluate.Finding, finding["finding"].upper())
        both = f"expected {agent.shown(finding['expected'])}, found {agent.shown(finding['found'])}"
        print(*tools.paragraphs(named, f"{named.sentence} {both}", wide), sep="\n")
    cause = played.json["cause"]
    if cause:
        stage = next(stage for stage in evaluate.Stage if stage == cause["stage"])
        later = f"; then: {', '.join(cause['symptoms'])}" if cause["symptoms"] else ""
        why = f"{stage}: {stage.sentence} {cause['why']} (step {cause['step']}){later}"
        print(*tools.paragraphs("first cause", why, wide, 0), sep="\n")
    print()

# === Live runs ========================================================================================================
class Run:
    """A live run under way: its recording and journal, what the user allowed, and what it may still use."""
    def __init__(self, recording: Recording, journal: provider.Journal, options: argparse.Namespace) -> None:
        self.recording, self.journal, self.options, self.made = recording, journal, options, 0
        manifest, self.key = recording.manifest, provider.find_key(os.environ)[1]
        limits = (manifest["batch_request_cap"], manifest["config"]["maxOutputTokens"], manifest["budget"])
        self.allowance = tools.Allowance(*limits)
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
            part, end = trial_json(trial, tape, model, index), tape[-1]
            if end.reason in (agent.Reason.REPLAY_REQUEST_MISMATCH, agent.Reason.REPLAY_EXHAUSTED):
                raise Mistaken(f"{trial.id}: {end.detail}: this run cannot go on; make a new one")
            if end.reason in agent.BUDGETS:
                raise tools.Stopped(f"{end.reason}: {end.detail}; a larger one lets it go on")
            self.made += live.sent
            yield Played(trial, tape, replay, part, [])
            measured, told = part["checks"]["outcome"] != "not_measured", part["result"]["reason"]
            told += "" if measured else f": {end.detail}"
            line = tools.visible(f"{at} of {len(plan)}: {trial.id}: {part['checks']['outcome']}, {told}")
            before, after = ("\r\x1b[K", "") if sys.stderr.isatty() else ("", "\n")  # one line, or a line a trial
            print(f"{before}{line}", end=after, file=sys.stderr, flush=True)
            if live.sent:
                faults = 0 if measured else 1 if live.sent > 1 else faults + 1
                hopeless = faults and end.fault in provider.HOPELESS
                why = "the next request would get the same" if hopeless else "two faults in a row, the last"
                if at < len(plan) and (hopeless or faults == 2):
                    raise tools.Stopped(f"{why}: {told}")

    def sending(self, trial: str) -> tuple[provider.Replay, tools.Live]:
        """What answers a trial: its recorded exchanges, and the service beyond them."""
        saved, manifest = self.recording.exchanges.trials.get(trial, {}), self.recording.manifest
        replay, seconds = provider.Replay(saved), manifest["limits"]["seconds"]

        def post(body: bytes, seconds: float) -> dict[str, Any]:
            return provider.post(manifest["endpoint"], self.key, body, seconds)

        def again(outcome: dict[str, Any] | None) -> str:
            if outcome is None:
                return "resend" if self.options.resend else ""
            try:
                provider.heard(outcome)
            except agent.Fault as fault:
                late = fault.reason is agent.Reason.DEADLINE or (outcome["elapsed"] or 0) >= seconds
                return "retry_faults" if self.options.retry_faults and not late else ""
            return ""

        write, now = self.journal.write, time.monotonic
        return replay, tools.Live(trial, saved, replay.send, self.allowance, write, post, again, now, seconds)

def live_command(argv: list[str]) -> int:
    """The plan of a live run; with --execute-approved the run, or the rest of one that ended early."""
    return live(live_options(argv, Parser("--live", live_command.__doc__ or ""), asking=False))

def ask_command(argv: list[str]) -> int:
    """One question over a snapshot, live: the plan, and with --execute-approved the answer with its citations."""
    return live(live_options(argv, Parser("ask"), asking=True))

def live(options: argparse.Namespace) -> int:
    """Show the plan, and carry it out where that is approved."""
    try:
        folder, recording = resumable(options) if options.resume else planned(options)
        if options.execute_approved:
            provider.find_key(os.environ)
    except (ValueError, TypeError, agent.Mistake) as error:
        raise mistaken(error) from None
    for name, value in plan_rows(folder, recording, options):
        say(f"{name:12}  {value}")
    if not options.execute_approved:
        say("Nothing was sent. --execute-approved makes this run.")
        return DONE
    if not options.resume:
        create_recording(folder, recording)
    return execute(folder, options)

def live_options(argv: list[str], parser: Parser, asking: bool) -> argparse.Namespace:
    """The flags of a live run, or of one question; raises Mistaken."""
    parser.add_argument("--execute-approved", action="store_true", help="send requests, which cost money")
    if asking:
        parser.add_argument("question", nargs="+", metavar="QUESTION")
        parser.set_defaults(cases=None, case=None, repeats=1, resume=None, resend=False, retry_faults=False)
        parser.add_argument("--version", metavar="V", help="needed where the snapshot has several")
    else:
        parser.set_defaults(question=None)
        for name, help_ in {
            "live": None, "resend": "with --resume: send again what may have been paid for already",
            "retry-faults": "with --resume: run the trials again that a fault ended",
        }.items():
            parser.add_argument(f"--{name}", action="store_true", help=help_)
        for name, default in {"resume": None, "case": None, "cases": CASES}.items():
            parser.add_argument(f"--{name}", default=default)
        parser.add_argument("--repeats", metavar="N", type=int, default=2)
    for name, default in {"name": None, "snapshot": SNAPSHOT, "model": "gemini-3.8-flash", "price": None}.items():
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--mode", choices=("fixed", "agent"), default="agent" if asking else None)
    parser.add_argument("--thinking", choices=("LOW", "MEDIUM", "HIGH", "MINIMAL", "off"), default="LOW")
    for name, number in {
        "candidates": None, "max-output-tokens": 4096, "max-requests": None, "token-budget": None,
    }.items():
        parser.add_argument(f"--{name}", metavar="N", type=int, default=number)
    for name in ("temperature", "cost-budget"):
        parser.add_argument(f"--{name}", metavar="X", type=float)
    parser.add_argument("--limit", metavar="NAME=N", action="append", default=[], help=", ".join(agent.Limits._fields))
    return parser.parse_args(argv)

def posed(options: argparse.Namespace, index: retrieval.Index) -> tuple[Any, list[evaluate.Case]]:
    """The cases of a run: those of a file, checked against the passages, or a question that nobody labelled; raises
    Mistaken."""
    if options.question is None:
        given, cases = load(options.cases, load_cases)
        faults = label_check(options.cases, cases, index)[0]
        if faults:
            raise Mistaken(*faults)
        if options.case not in (None, *(case.id for case in cases)):
            raise Mistaken(f"no case {agent.shown(options.case)}; there are {', '.join(case.id for case in cases)}")
        return given, cases
    case = {"question": " ".join(options.question), "version": the_version(options.version, index)}
    given = {"cases": [{"id": "question", **case, "split": "asked"}]}
    try:
        return given, load_cases(given)
    except evaluate.CaseFaults as error:
        raise Mistaken(*error.faults) from None

def the_version(wanted: str | None, index: retrieval.Index) -> str:
    """The version that was asked for, or else the only one; raises Mistaken."""
    if wanted is None and len(index.versions) == 1:
        return index.versions[0]
    if wanted not in index.versions:
        what = "--version is needed" if wanted is None else f"no passage of version {agent.shown(wanted)}"
        raise Mistaken(f"{what}: there are {', '.join(index.versions)}")
    return wanted

def planned(options: argparse.Namespace) -> tuple[str, Recording]:
    """The folder and the recording, still empty, of the run that the flags ask for; raises Mistaken."""
    corpus = read_corpus(options.snapshot)
    limits, candidates = tools.PROFILES[corpus.profile]
    with contextlib.closing(corpus.open()) as index:
        given, cases = posed(options, index)
    temperature = {} if options.temperature is None else {"temperature": options.temperature}
    thinking = {} if options.thinking == "off" else {"thinkingConfig": {"thinkingLevel": options.thinking}}
    config = {"maxOutputTokens": options.max_output_tokens, **temperature, **thinking}
    config["responseMimeType"] = "application/json"
    model = options.model.removeprefix("models/")
    manifest: dict[str, Any] = {
        "format": 1, "execution_mode": "live-Gemini-API", "provenance": "Recorded live, exchange by exchange.",
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "model": model,
        "endpoint": tools.endpoint(os.environ, model),
        "config": config, "limits": limits._asdict() | dict(map(tools.named_limit, options.limit)),
        "batch_request_cap": tools.MOST_REQUESTS, "budget": {},
        "candidates": candidates if options.candidates is None else options.candidates, "repeats": options.repeats,
        "modes": [mode for mode in ("fixed", "agent") if options.mode in (None, mode)],
        "cases": [case.id for case in cases if options.case in (None, case.id)],
        "hashes": {}, "environment": environment(),
    }
    tools.check_manifest(manifest)
    hashes = input_hashes(given, corpus.sha256, config)
    manifest["hashes"] = {**hashes, "sources": provider.fingerprint(source_hashes())}
    name = time.strftime(f"%Y%m%dT%H%M%SZ-{model}", time.gmtime()) if options.name is None else options.name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise Mistaken(f"--name {agent.shown(name)}: 1 to 100 letters, digits, '.', '_', '-', a letter or digit first")
    folder = os.path.join(RECORDINGS, name)
    if os.path.lexists(folder):
        raise Mistaken(f"{shown_path(folder)} exists: give another --name, or go on with it by --live --resume {name}")
    documents = {"cases.json": given, "snapshot.json": corpus.document}
    empty = provider.Exchanges({}, {}, [])
    recording = Recording(name, manifest, cases, corpus, hashes, empty, None, [], documents)
    manifest["batch_request_cap"] = min(tools.worst_requests(manifest), tools.MOST_REQUESTS)
    return folder, budgeted(recording, options)

def budgeted(recording: Recording, options: argparse.Namespace) -> Recording:
    """The recording, its plan with the allowance and the budgets that the flags set; raises Mistaken."""
    manifest = recording.manifest
    cap = manifest["batch_request_cap"] if options.max_requests is None else options.max_requests
    try:
        budget = tools.budget(manifest["budget"], options.price, options.token_budget, options.cost_budget)
        manifest |= {"batch_request_cap": tools.request_allowance(cap), "budget": budget}
    except (ValueError, agent.Mistake) as error:
        raise mistaken(error) from None
    return recording

def resumable(options: argparse.Namespace) -> tuple[str, Recording]:
    """The folder and the recording of a run that can go on; raises Mistaken where it cannot, or its inputs changed."""
    folder = find_recording(options.resume)
    recording = open_recording(folder)
    faulted = evaluate.unmeasured(recording.report or {"trials": []})
    sealed = recording.report and tools.UNSEALED not in recording.edits
    if sealed and not (faulted and options.retry_faults):
        rest = "runs its unmeasured trials again" if faulted else "has nothing to run: all its trials were measured"
        raise Mistaken(f"recording {recording.name} is finished; --retry-faults {rest}")
    why = [f"{name} changed since" for name in recording.changed] + [at for at in recording.odd if at != tools.UNSEALED]
    if recording.manifest["endpoint"] != tools.endpoint(os.environ, recording.manifest["model"]):
        why.append(f"it was made at {recording.manifest['endpoint']}, and GOOGLE_GEMINI_BASE_URL is another now")
    if why:
        raise Mistaken(f"recording {recording.name} cannot go on: {'; '.join(why)}")
    return folder, budgeted(recording, options)

def plan_rows(folder: str, recording: Recording, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """What a run will do and what it could use at worst, a name and a value a line."""
    yield from tools.plan_rows(recording.manifest, provider.REQUEST_BYTES)
    yield from (("recording", shown_path(folder)), ("key", key_state()))
    if options.resume:
        yield from progress_rows(recording)

def key_state() -> str:
    """Which variable holds the key, never its value."""
    try:
        return f"{provider.find_key(os.environ)[0]} is set"
    except agent.Mistake as error:
        return error.detail

def progress_rows(recording: Recording) -> Iterator[tuple[str, str]]:
    """What is done of a run, what is missing, and what is in doubt."""
    with contextlib.closing(recording.corpus.open()) as index:
        played = list(replay(recording, plan_of(recording), index))
    whole = {at.trial.id for at in played if not at.sending.missing}
    missing = [trial.id for trial in plan_of(recording) if trial.id not in whole]
    faults = [at.trial.id for at in played if at.json["checks"]["outcome"] == "not_measured" and not at.sending.missing]
    yield "done", f"{len(whole)} of {len(whole) + len(missing)} trials, {recording.requests} requests"
    yield "missing", ", ".join(missing) or "none"
    yield "in doubt", ", ".join(recording.in_doubt) or "none"
    yield "faults", ", ".join(faults) or "none"

def write_file(path: str, content: Any) -> None:
    """Put JSON, a text, or what a function writes, into a file as a whole or not at all; raises OSError."""
    part = f"{path}.{os.getpid()}.part"
    try:
        if callable(content):
            content(part)
        else:
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1) + "\n"
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

@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does."""
    import signal

    def terminate(*_: Any) -> NoReturn:
        raise KeyboardInterrupt("SIGTERM")

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

def execute(folder: str, options: argparse.Namespace) -> int:
    """Make a run, or what is left of it, and write its report; the exit code says whether it came to its end."""
    played = list[Played]()
    try:
        journal = provider.Journal(folder)
    except OSError as error:
        raise Mistaken(f"{shown_path(folder)}: {error.strerror or error}") from None
    try:
        with terminable():
            return carry_out(folder, journal, options, played)
    except (tools.Stopped, OSError, KeyboardInterrupt) as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else f"stopped: {error}"
        go_on = f"python3 run.py --live --resume {os.path.basename(folder)} --execute-approved"
        go_on += " --resend" * options.resend + " --retry-faults" * options.retry_faults
        complain(f"{why}; {len(played)} trials are done and kept; go on with: {go_on}")
        return TERMINATED if error.args == ("SIGTERM",) else INTERRUPTED if why == "interrupted" else STOPPED
    finally:
        journal.close()

def carry_out(folder: str, journal: provider.Journal, options: argparse.Namespace, played: list[Played]) -> int:
    """The run itself, under its lock; fills `played` and writes the report."""
    recording = budgeted(open_recording(folder), options)  # read anew: it is ours only now
    if recording.report and options.retry_faults:
        names = (os.path.join(folder, f"report-{at}.json") for at in range(1, 1000))
        os.rename(os.path.join(folder, "report.json"), next(name for name in names if not os.path.lexists(name)))
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(folder, "SHA256SUMS"))
    write_file(os.path.join(folder, "manifest.json"), recording.manifest)
    run = Run(recording, journal, options)
    with contextlib.closing(recording.corpus.open()) as index:
        played.extend(run.trials(index))
    finished = open_recording(folder)
    report = report_json(
        finished, played, [], execution_mode=finished.manifest["execution_mode"], actual_api_requests=run.made,
        replay=None, in_doubt=finished.in_doubt, cost=run.allowance.cost())
    write_file(os.path.join(folder, "report.json"), report)
    sealed = sorted(name for name in os.listdir(folder) if name.endswith((".json", ".jsonl")))
    sums = (f"{sha256_of(os.path.join(folder, name))}  {name}\n" for name in sealed)
    write_file(os.path.join(folder, "SHA256SUMS"), "".join(sums))
    if options.question is None:
        print_trials(played)
    else:
        with contextlib.closing(finished.corpus.open()) as index:
            read = named_passages(index, played[0].trial.case.version, played[0].tape.read())
        titles = {passage["source_id"]: passage["title"] for passage in read}
        print(*tools.reply_lines(played[0].tape, titles, columns()), sep="\n")
    measured = sum(at.json["checks"]["outcome"] != "not_measured" for at in played)
    say(f"{measured} of {len(played)} measured | live requests: {run.made} | {shown_path(folder)}")
    if measured < len(played):
        say(f"to try the others: python3 run.py --live --resume {finished.name} --retry-faults --execute-approved "
            f"--max-requests {min(tools.MOST_REQUESTS, finished.requests + tools.worst_requests(finished.manifest))}")
    return DONE

# === The commands =====================================================================================================
def replay_command(argv: list[str]) -> int:
    """Replay a recording, print what came out, and say whether it is what was recorded."""
    listed = "\n".join(f"  {word:8} {(does.__doc__ or '').splitlines()[0]}" for word, does in WORDS.items())
    parser = Parser("", "With no word, replay a recording; --live plans a live run. The words:\n" + listed)
    parser.add_argument("--recording", metavar="NAME_OR_PATH", default="published", help="another recording")
    parser.add_argument("--case", metavar="ID", help="only this case, with the trace of every step")
    parser.add_argument("--mode", choices=("fixed", "agent"), help="only this path")
    parser.add_argument("--repeat", metavar="N", type=int, help="only this repeat")
    parser.add_argument("--cases", metavar="FILE", help="other cases than the recording's")
    parser.add_argument("--snapshot", metavar="FILE", help="other passages than the recording's")
    parser.add_argument("--trace", action="store_true", help="the trace of every step")
    parser.add_argument("--json", action="store_true", help="one JSON document, nothing else")
    parser.add_argument("--regrade", action="store_true", help="today's labels beside the stored grades")
    parser.add_argument("--html", metavar="FILE", help="the report as one page, whole in itself")
    options = parser.parse_args(argv)
    if options.regrade:
        return regraded(open_recording(options.recording, None, options.snapshot), options.cases or CASES, options.json)
    page = empty_page(options.html) if options.html else ""
    began, recording = time.monotonic(), open_recording(options.recording, options.cases, options.snapshot)
    plan = plan_of(recording)
    chosen = choose(plan, options)
    with contextlib.closing(recording.corpus.open()) as index:
        played = list(replay(recording, chosen, index))
        problems = list(problems_of(recording, played, {trial.id for trial in plan}))
        code = DIFFERS if problems else DONE
        if page:
            write_file(options.html, filled_page(page, report_json(recording, played, problems), recording, index))
    if options.json:
        print(json.dumps(report_json(recording, played, problems), indent=1))
    else:
        print_replay(recording, chosen, played, trace_too=bool(options.trace or options.case))
    for problem in problems:
        complain(problem.line)
    if not options.json:
        fared = ", ".join(f"{count} {name}" for name, count in counts(played).items() if name != "trials")
        took = f"{time.monotonic() - began:.1f} s"
        say(f"replayed {len(played)} of {len(plan)} trials | exchanges: {fared} | live requests: 0 | {took}")
    return code

def regraded(recording: Recording, path: str, as_json: bool) -> int:
    """Show the stored grades of a recording beside those that today's labels give; nothing is written."""
    stored, (today, cases) = stored_trials(recording), load(path, load_cases)
    with contextlib.closing(recording.corpus.open()) as index:
        names = {(case.version, name) for case in cases for name in case.named} | read_in(stored)
        passages = [at for version, name in sorted(names) for at in named_passages(index, version, [name])]
    told = evaluate.regrade(stored, recording.documents["cases.json"], today, passages, within)
    if as_json:
        print(json.dumps(told, indent=1))
        return DONE
    print_rows(evaluate.rows(told, "trial", "stored", "today", "labels"))
    changed = sum(at["stored"] != at["today"] for at in told)
    say(f"{changed} of {len(told)} grades are others today; nothing was written")
    return DONE

def stored_trials(recording: Recording) -> list[dict[str, Any]]:
    """The trials of a report; raises Mistaken where the run has none yet."""
    if recording.report is None:
        raise Mistaken(f"recording {recording.name} has no report; --live --resume {recording.name} goes on with it")
    return list(recording.report["trials"])

def read_in(trials: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """The version and the id of each passage that was read in the trials of a report."""
    return {(seen.version, name) for seen in (evaluate.Seen(at.get("result")) for at in trials) for name in seen.read}

def print_rows(rows: list[list[str]]) -> None:
    """A table, and an empty line."""
    print(*tools.table(rows, (), widest()), "", sep="\n")

EMPTY = '<script type="application/json" id="recording"></script>'

def empty_page(path: str) -> str:
    """The viewer, for a page at that path; raises Mistaken where something else than a page of the kit stands there."""
    page = read_bytes(os.path.join(RECORDINGS, "viewer.html")).decode("utf-8")
    mark = re.search('<meta name="generator"[^>]*>', page)
    if os.path.lexists(path) and (not mark or mark[0].encode() not in read_bytes(path)[:2000]):
        raise Mistaken(f"{shown_path(path)} exists and is no page that this kit wrote: give another name")
    return page

def filled_page(page: str, report: dict[str, Any], recording: Recording, index: retrieval.Index) -> str:
    """The viewer with a recording in it; nothing in the recording can end the element that it stands in."""
    names = {(at.case.version, name) for at in plan_of(recording) for name in at.case.named}
    places = sorted(names | read_in(report["trials"]))
    passages = (passage for version, name in places for passage in named_passages(index, version, [name]))
    cases = [{name: getattr(at, name) for name in ("id", "question", "version", "split")} for at in recording.cases]
    events = recording.exchanges.events
    document = {"report": report, "exchanges": events, "cases": cases, "passages": list(passages)}
    text = re.sub("[<>&\u2028\u2029]", lambda odd: f"\\u{ord(odd[0]):04x}", json.dumps(document, ensure_ascii=False))
    return page.replace(EMPTY, EMPTY.replace("></", f">{text}</"))

def problems_of(recording: Recording, played: list[Played], planned: set[str]) -> Iterator[Problem]:
    """Everything that does not hold of a recording and its replay."""
    yield from map(Problem, recording.edits)
    yield from (problem for at in played for problem in at.problems)
    reported = [trial["id"] for trial in (recording.report or {"trials": []})["trials"]]
    for name in dict.fromkeys(reported):
        if name not in planned or reported.count(name) > 1:
            yield Problem(f"{name}: the report has a trial too many of that name", name)
    for trial in (trial for trial in recording.exchanges.trials if trial not in planned):
        yield Problem(f"{trial}: its exchanges are left over: the plan has no such trial", trial)
    if recording.changed and not any(at.sending.differed for at in played):
        yield Problem(f"changed since the recording: {', '.join(recording.changed)}")

def choose(plan: list[Planned], options: argparse.Namespace) -> list[Planned]:
    """The trials of a plan that the flags ask for; raises Mistaken where there is none."""
    asked = (options.case, options.mode, options.repeat)
    places = [(at, zip(asked, (at.case.id, at.mode, at.repeat), strict=True)) for at in plan]
    wanted = [at for at, pairs in places if all(one in (None, other) for one, other in pairs)]
    if not wanted:
        shown = agent.shown(", ".join(str(one) for one in asked if one is not None))
        raise Mistaken(f"no trial {shown}; there are {', '.join(trial.id for trial in plan) or 'none'}")
    return wanted

def print_replay(recording: Recording, chosen: list[Planned], played: list[Played], trace_too: bool) -> None:
    """What a replay shows: where the recording is from, the traces, the table, the summary."""
    about = "{model}, {recorded_at:.10}. {provenance}".format(**recording.manifest)
    print(*tools.paragraphs(f"recording {recording.name}", about, columns(), 0), "", sep="\n")
    for at in played if trace_too else []:
        print_trace(at, recording.corpus.profile)
    print_trials(played)
    if recording.report is None:
        say("report.json is not there: nothing to compare the trials with")
        doubtful = agent.Reason.REPLY_IN_DOUBT
        whole = {at.trial.id for at in played if not (at.sending.missing or at.tape[-1].reason is doubtful)}
        lacking = ", ".join(trial.id for trial in chosen if trial.id not in whole)
        if lacking:
            print(*tools.paragraphs("not recorded to the end", lacking, columns(), 0), sep="\n")

def check_command(argv: list[str]) -> int:
    """What is wrong or weak in cases, labels and passages."""
    parser = Parser("check")
    for name, default in (("--cases", CASES), ("--snapshot", SNAPSHOT)):
        parser.add_argument(name, metavar="FILE", default=default, help="default: the published one")
    options = parser.parse_args(argv)
    faults, loaded, weak = list[str](), list[Any](), list[str]()
    for read in (lambda: load(options.cases, load_cases), lambda: read_corpus(options.snapshot)):
        try:
            loaded.append(read())
        except Faulty as error:
            faults += error.lines
    if not faults:
        cases, corpus = loaded[0][1], loaded[1]
        with contextlib.closing(corpus.open()) as index:
            faults, weak = label_check(options.cases, cases, index)
            say(f"{len(cases)} cases, {sum(map(index.count, index.versions))} passages")
    for line in [f"fault: {fault}" for fault in faults] + [f"weak: {label}" for label in weak]:
        say(line)
    say(f"{len(faults)} faults, {len(weak)} weak labels")
    return DIFFERS if faults else DONE

def label_check(path: str, cases: list[evaluate.Case], index: retrieval.Index) -> tuple[list[str], list[str]]:
    """The faults of the labels in a file beside a snapshot, and what is weak about them."""
    passages = [
        passage for case in cases for passage in named_passages(index, case.version, case.named)]
    faults = evaluate.label_faults(cases, passages, index.versions)
    return [f"{shown_path(path)}: {fault}" for fault in faults], evaluate.weak_labels(cases, passages)

def guards_command(argv: list[str]) -> int:
    """Every guard, tripped on purpose by a scripted model: no key, no network."""
    parser = Parser("guards")
    parser.add_argument("name", nargs="?", metavar="NAME", help="only this guard")
    name, table = parser.parse_args(argv).name, read_json(os.path.join(RECORDINGS, "guards.json"))["guards"]
    chosen = [guard for guard in table if name in (None, guard["guard"])]
    if not chosen:
        raise Mistaken(f"no guard {agent.shown(name)}; there are {', '.join(guard['guard'] for guard in table)}")
    snapshot, held = load(SNAPSHOT, retrieval.load_snapshot)[1], 0
    open_index(snapshot).close()
    for guard in chosen:
        end = tools.trip(guard, snapshot, stand_ins())[-1]
        holds = end.reason == guard["reason"]
        held += holds
        became = f"{end.reason.status}, {end.reason}" + (f" ({end.detail})" if end.detail else "")
        word = "held" if holds else "NOT HELD"
        print(*tools.paragraphs(word, f"{guard['tried']}: {became}", columns(), 0), sep="\n")
    say(f"{held} of {len(chosen)} guards held")
    return DONE if held == len(chosen) else DIFFERS

def stand_ins() -> dict[str, agent.Ask]:
    """Models whose fault lies around the reply, by the names that guards.json gives them."""
    def sent(send: provider.Send) -> agent.Ask:
        return provider.Model({"maxOutputTokens": 1}, send).ask

    def reply(response: dict[str, Any]) -> agent.Ask:
        return sent(lambda request, seconds: {"event": "response", "status": 200, "elapsed": 0, "response": response})

    said = {"content": {"parts": [{"text": '{"action": "sea'}]}, "finishReason": "STOP"}
    used_up = tools.Allowance(1, 1, {})
    used_up.count(1, None)
    live = tools.Live(
        "guard", {}, provider.Replay({}).send, used_up, list[Any]().append, lambda body, seconds: {"status": 200},
        lambda outcome: "", time.monotonic, 180)
    return {
        "cut off": reply({"candidates": [said | {"finishReason": "MAX_TOKENS"}]}),
        "blocked": reply({"candidates": [said], "promptFeedback": {"blockReason": "SAFETY"}}),
        "changed": sent(provider.Replay({1: provider.Exchange({}, provider.fingerprint({}), None, 1)}).send),
        "used up": sent(live.send),
    }

def doctor_command(argv: list[str]) -> int:
    """What this machine has, which key variable is set, and whether the recordings are whole."""
    Parser("doctor").parse_args(argv)
    for name, value in environment().items():
        say(f"{name:10}{value}")
    faults = 0
    try:
        open_index(load(SNAPSHOT, retrieval.load_snapshot)[1]).close()
        say("fts5      yes")
    except Mistaken as error:
        faults += 1
        say(f"fts5      NO: {error}")
    say(f"key       {key_state()}")
    for entry in recordings():
        try:
            recording = open_recording(entry)
            odd, state = "; ".join(recording.odd), "whole" if recording.report else "not finished"
        except Mistaken as error:
            odd = str(error)
        faults += bool(odd)
        say(f"recording {entry}: {odd or state}")
    return DIFFERS if faults else DONE

def search_command(argv: list[str]) -> int:
    """What retrieval finds for a query, with the matched words marked; nothing is sent anywhere."""
    parser = Parser("search")
    parser.add_argument("words", nargs="*", metavar="WORDS")
    parser.add_argument("--version", metavar="V", help="needed where the snapshot has several")
    parser.add_argument("--judge", metavar="FILE", help="measure the rankings of judged queries: JSON, or TREC qrels")
    parser.add_argument("--snapshot", metavar="FILE", default=SNAPSHOT, help="default: the published one")
    parser.add_argument("-k", metavar="N", type=int, default=10, help="how many passages at most, 1 to 100")
    parser.add_argument("--json", action="store_true", help="one JSON document, nothing else")
    options = parser.parse_args(argv)
    query = " ".join(options.words)
    if options.judge:
        return judged_command(options, query)
    if not query.strip() or len(query) > agent.LONGEST:
        raise Mistaken(f"a query has 1 to {agent.LONGEST} characters and is not blank; this one has {len(query)}")
    with contextlib.closing(read_corpus(options.snapshot).open()) as index:
        version = the_version(options.version, index)
        try:
            found = tools.found(index, query, version, options.k, "{}" if options.json else "[{}]")
        except (ValueError, retrieval.SearchFailed) as error:
            raise Mistaken(str(error)) from None
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        print(*tools.found_lines(found, columns()), sep="\n")
    return DONE

def judged_command(options: argparse.Namespace, words: str) -> int:
    """Search for each judged query of a file, and print the measures of the rankings, each and in the mean."""
    reads = read_json if options.judge.endswith(".json") else read_text
    queries = load(options.judge, evaluate.load_judged, reads)[1]
    rankings, aliases = dict[str, list[str]](), dict[str, tuple[str, ...]]()
    with contextlib.closing(read_corpus(options.snapshot).open()) as index:
        for at in queries:
            text = at["query"] or (words if len(queries) == 1 else "")
            if not text:
                raise Mistaken(f"{options.judge}: query {at['id']} has no text: give it as WORDS, or queries as JSON")
            try:
                found = index.search(text, the_version(at["version"] or options.version, index), options.k).passages
            except (ValueError, retrieval.SearchFailed) as error:
                raise Mistaken(f"query {at['id']}: {error}") from None
            rankings[at["id"]] = [passage.source_id for passage in found]
            aliases |= {passage.source_id: passage.aliases for passage in found}
    told = evaluate.judge(queries, rankings, options.k, True, aliases)
    if options.json:
        print(json.dumps(told, indent=1))
        return DONE
    print_rows(evaluate.rows(told["queries"], "query", *evaluate.MEASURES, "unjudged"))
    print_rows(evaluate.rows(told["means"], "measure", "mean", "over", "of"))
    say("what nobody judged counts as not relevant here")
    return DONE

def build_command(argv: list[str]) -> int:
    """A snapshot from documents (HTML, Markdown, plain text), or one version more in a snapshot."""
    parser = Parser("build")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a folder with all below it")
    parser.add_argument("--version", metavar="V", required=True, help="the version that the documents are of")
    parser.add_argument("--base-url", metavar="URL", default="", help="where the documents stand for a reader")
    parser.add_argument("--encoding", metavar="E", default="", help="of those documents that are not UTF-8")
    parser.add_argument("--replace", action="store_true", help="drop what the snapshot has of this version")
    parser.add_argument("-o", dest="out", metavar="FILE", required=True, help="FILE.json or FILE.sqlite")
    options = parser.parse_args(argv)
    if not options.out.endswith((".json", ".sqlite")):
        raise Mistaken(f"-o {options.out}: the name of a snapshot ends in .json or .sqlite")
    if not re.fullmatch("(?:https?://[!-~]+)?", options.base_url):
        raise Mistaken(f"--base-url {options.base_url}: not an http:// or https:// address")
    try:
        agent.checked(agent.Task("?", options.version, "agent"))
        with terminable(), contextlib.closing(  # "": SQLite keeps what waits in a file of its own, and removes it
            retrieval.Build(options.version, options.base_url, options.encoding, "")) as build:
            return carry_build(build, options)
    except (agent.Mistake, retrieval.BuildFault, retrieval.IndexFault, retrieval.SnapshotFaults, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            raise Mistaken(f"{shown_path(error.filename)}: {error.strerror}; nothing was written") from None
        raise Mistaken(f"{error}; nothing was written") from None

def carry_build(build: retrieval.Build, options: argparse.Namespace) -> int:
    """Read the documents, write the snapshot, and tell what became of every file."""
    if os.path.lexists(options.out):
        with contextlib.closing(read_corpus(options.out).open()) as old:
            if old.profile != "documents":
                raise Mistaken(f"{options.out} has the {old.profile} profile, to which no documents can be added")
            if options.version in old.versions and not options.replace:
                raise Mistaken(f"{options.out} has version {options.version} already: --replace builds it anew")
            build.keep(passage for passage in old.passages() if passage.version != options.version)
    counts = {"used": 0, "skipped": 0, "refused": 0}
    for name, path, why in documents(options.paths):
        became = "skipped" if why else "used"
        try:
            if not why:
                with open(path, "rb") as file:
                    why = "; ".join(build.add(name, file.read(retrieval.LARGEST_DOCUMENT + 1)))
        except (OSError, retrieval.DocumentRefused, retrieval.DocumentSkipped) as error:
            became = "skipped" if isinstance(error, retrieval.DocumentSkipped) else "refused"
            why = getattr(error, "strerror", None) or str(error)
        counts[became] += 1
        if why:
            complain(f"{became}: {path}: {why}")
        elif sys.stderr.isatty():
            print(f"\r\x1b[K{counts['used']} files: {tools.visible(name)[:60]}", end="", file=sys.stderr, flush=True)
    if not counts["used"]:
        raise Mistaken(f"no document among the {sum(counts.values())} files of {', '.join(options.paths)}")
    if options.out.endswith(".sqlite"):
        write_file(options.out, lambda part: retrieval.create_store(part, "documents", build.passages()))
    else:
        passages = [{name: value for name, value in at._asdict().items() if value} for at in build.passages()]
        write_file(options.out, {"profile": "documents", "passages": passages})
    told = " + ".join(f"{count} {became}" for became, count in counts.items())
    made = build.counts
    say(f"{options.out}: {os.path.getsize(options.out)} bytes, {made['bytes']} of text; "
        f"{made['removed']} odd characters left out")
    say(f"found {sum(counts.values())} files = {told}; {made['passages']} passages; {made['duplicates']} duplicates")
    return DIFFERS if counts["refused"] else DONE

def documents(paths: list[str]) -> Iterator[tuple[str, str, str]]:
    """Every file there is, in order: its name below the path given, its path, and why it is no document."""
    for top in paths:
        if not os.path.isdir(top):
            yield os.path.basename(top), top, "" if os.path.isfile(top) else "no file and no folder"
            continue
        sphinx, faults = not {"objects.inv", ".buildinfo"}.isdisjoint(os.listdir(top)), list[OSError]()
        for folder, folders, files in os.walk(top, onerror=faults.append):
            folders.sort()
            for path in (os.path.join(folder, name) for name in sorted(files + folders)):
                name, mode = os.path.relpath(path, top).replace(os.sep, "/"), os.lstat(path).st_mode
                if not stat.S_ISDIR(mode):
                    odd = "a symbolic link" if stat.S_ISLNK(mode) else "" if stat.S_ISREG(mode) else "no ordinary file"
                    yield name, path, odd or retrieval.skipped(name, sphinx)
        yield from ((str(at.filename), str(at.filename), at.strerror or "cannot be read") for at in faults)

def compare_command(argv: list[str]) -> int:
    """Two recordings, or the two paths of one: pairs, intervals, costs, and whether they can be told apart."""
    parser = Parser("compare")
    parser.add_argument("a", metavar="A", help="a recording's name or path")
    parser.add_argument("b", metavar="B", nargs="?", help="another; without it, the two paths of A")
    options = parser.parse_args(argv)
    trials = stored_trials(open_recording(options.a))
    if options.b is None:
        sides = {f"{mode} path": [at for at in trials if at.get("mode") == mode] for mode in ("fixed", "agent")}
    else:
        sides = {options.a: trials, f"{options.b} ": stored_trials(open_recording(options.b))}
    told = evaluate.compare(*sides.values())
    say(", ".join(f"{side} is {name.strip()}" for side, name in zip("ab", sides, strict=True)))
    pairs = ([name, *(one or "absent" for one in both)] for name, both in told["pairs"].items())
    print_rows([["pair", "a", "b"], *pairs])
    for name in ("rates", "cost", "abstention"):
        print_rows(evaluate.rows(told[name], *told[name][0]))
    say("pairs: " + ", ".join(f"{count} {name}" for name, count in told["counts"].items()))
    say(f"allowances: {'equal' if told['equal_allowance'] else 'NOT equal: costs do not compare'}")
    for line in told["left_out"]:
        say(f"left out: {line}")
    say(told["verdict"])
    return DONE

def audit_command(argv: list[str]) -> int:
    """The audit of a cited report: links, claims and questions, each with its own denominator."""
    parser = Parser("audit")
    parser.add_argument("file", metavar="FILE", help="report, sources, claims, citations, reference")
    _, told = load(parser.parse_args(argv).file, evaluate.audit)
    print_rows(evaluate.rows(told["measures"], "measure", "value"))
    print_rows(evaluate.rows(told["claims"], "claim", "question", "states"))
    print_rows(evaluate.rows(told["citations"], "citation", "claim", "resolves", "entails", "holds"))
    for name, text in told["moved"].items():
        say(f"not at its span: {name}: there stands {agent.shown(text)}")
    for at in told["references"]:
        say(f"reference of {at['dated']}: {at['sha256']}" + (f", {at['reason']}" if "reason" in at else ""))
    return DIFFERS if told["moved"] else DONE

def study_command(argv: list[str]) -> int:
    """The packing study: what was retrieved is not what was given to the model."""
    parser = Parser("study")
    parser.add_argument("name", choices=("packing",))
    parser.add_argument("--budget", metavar="N", type=int, default=240, help="bytes of the packed array; default: 240")
    parser.add_argument("--order", choices=("recency", "rank"), default="recency", help="what is packed first")
    options = parser.parse_args(argv)
    try:
        told = evaluate.study(read_json(os.path.join(RECORDINGS, "packing.json")), options.budget, options.order)
    except ValueError as error:
        raise Mistaken(str(error)) from None
    print_rows(evaluate.rows(told["arms"], *list(told["arms"][0])[:5]))
    for at in told["arms"]:
        for name, size in at["skipped"].items():
            say(f"{at['arm']}: {name} would have needed {size} bytes")
    for at in told["arms"]:
        say(at["arm"])
        runs = [run for run in told["executions"] if run["arm"] == at["arm"]]
        print_rows(evaluate.rows(runs, "control", "request", "decision", "missing_evidence", "refused_attempt", "kept"))
    top = told["prefix"]
    short, long = (", ".join(top[name]) or "nothing" for name in ("top-2", "top-5"))
    evicted = "nothing is evicted" if top["nothing evicted"] else "something IS EVICTED"
    say(f"in rank order top-2 packs {short}; top-5 packs {long}: {evicted} by the longer list")
    return DONE

def review_command(argv: list[str]) -> int:
    """All recordings, and what a person should look at: unfinished runs, repeated questions, contradicting repeats."""
    Parser("review").parse_args(argv)
    rows, told = [["recording", "date", "model", "trials", "state"]], list[str]()
    for name in recordings():
        try:
            recording = open_recording(name)
        except Mistaken as error:
            told.append(f"{name} cannot be read: {error}")
            continue
        trials, planned_ = (recording.report or {"trials": []})["trials"], len(plan_of(recording))
        state = "whole" if recording.report and not recording.odd else "odd" if recording.odd else "not finished"
        about = [str(recording.manifest[field])[:19] for field in ("recorded_at", "model")]
        rows.append([name, *about, f"{len(trials)} of {planned_}", state])
        if recording.report is None:
            told.append(f"{name} is not finished: python3 run.py --live --resume {name}")
        told += [f"{name}: {odd}" for odd in recording.odd] + [f"{name}: {line}" for line in contradictions(trials)]
    print_rows(rows)
    for line in told:
        say(line)
    return DONE

def contradictions(trials: list[dict[str, Any]]) -> Iterator[str]:
    """The trials of a report that asked the same thing twice, and the repeats of a case that contradict each other."""
    repeats: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for at in trials:
        seen = evaluate.Seen(at.get("result"))
        if seen.reason in (agent.Reason.DUPLICATE_QUERY, agent.Reason.DUPLICATE_READ):
            yield f"{at['id']} asked for the same thing twice: {seen.reason}"
        came = f"{evaluate.outcome_of(at)}, citing {', '.join(sorted({*seen.cited})) or 'nothing'}"
        repeats.setdefault((str(at.get("case_id")), str(at.get("mode"))), []).append((at["id"], came))
    for (case, mode), each in repeats.items():
        if len({how for _, how in each}) > 1:
            yield f"{case} on the {mode} path contradicts itself: " + "; ".join(f"{name}: {how}" for name, how in each)

WORDS: dict[str, Callable[[list[str]], int]] = {
    "check": check_command, "guards": guards_command, "doctor": doctor_command, "search": search_command,
    "ask": ask_command, "build": build_command, "compare": compare_command, "audit": audit_command,
    "study": study_command, "review": review_command,
}

def complain(line: str) -> None:
    """One line of diagnostics."""
    with contextlib.suppress(OSError):
        print(f"run.py: {tools.visible(line)}", file=sys.stderr)

def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code; prints to sys.stdout and sys.stderr."""
    argv = sys.argv[1:] if argv is None else argv
    sys.stdout, sys.stderr = (at or open(os.devnull, "w") for at in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = DIFFERS  # until it is known: a reader that goes away early must not turn it into 0
    try:
        code = answer(argv)
        sys.stdout.flush()
    except OSError as error:  # what is left in the buffer of standard output must not complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            complain(f"{error.filename or 'standard output'}: {error.strerror}")
            return MISTAKEN
    return code

def answer(argv: list[str]) -> int:
    """The exit code of a command, whatever ends it."""
    try:
        return command(argv)
    except SystemExit:  # argparse has shown its help
        return DONE
    except Mistaken as error:
        for line in error.lines:
            complain(line)
        if "--json" in argv:
            reason = {"reason": error.reason} if error.reason else {}
            print(json.dumps({"error": {"code": MISTAKEN, "message": str(error), **reason}}, indent=1))
        return MISTAKEN
    except KeyboardInterrupt as error:
        complain("interrupted")
        return TERMINATED if error.args == ("SIGTERM",) else INTERRUPTED

def command(argv: list[str]) -> int:
    """The exit code of the word that stands first, or of a replay."""
    if argv and not argv[0].startswith("-"):
        if argv[0] not in WORDS:
            raise Mistaken(f"no word {agent.shown(argv[0])}; there are {', '.join(WORDS)}, or none to replay")
        return WORDS[argv[0]](argv[1:])
    return live_command(argv) if "--live" in argv else replay_command(argv)

if __name__ == "__main__":
    os._exit(main())  # nothing is left to tidy up, and tidying would take as long as a tenth of a replay
