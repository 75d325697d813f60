"""run introduces the rooms to each other: it is the command line, and what needs more than one room at once.

It decides nothing about a trial, sends nothing and judges nothing itself. With no word it replays a recording.
Read in this order: reading what people give - recordings - replaying - showing - live runs - the commands.
"""

import sys

if sys.version_info < (3, 11):
    sys.stderr.write("run.py needs Python 3.11 or newer; this is Python " + sys.version.split()[0] + "\n")
    sys.exit(2)

if __name__ == "__main__":
    import gc
    sys.excepthook = lambda *at: None if at[0] is KeyboardInterrupt else sys.__excepthook__(*at)  # at the imports
    gc.set_threshold(100_000)  # a replay keeps what it makes: looking for garbage would cost a tenth of its time

import contextlib
import functools
import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace as Options
from typing import Any, NamedTuple, NoReturn, TypeVar

if __name__ == "__main__" and sys.flags.safe_path:  # python3 -I or -P: the rooms stand beside this file all the same
    sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import agent
import evaluate
import provider
import retrieval
import tools
from tools import Mistaken

HERE = os.path.dirname(os.path.realpath(__file__))
RECORDINGS, CASES, SNAPSHOT = (os.path.join(HERE, name) for name in ("recordings", "cases.json", "snapshot.json"))
Loaded = TypeVar("Loaded")
load_cases = functools.partial(evaluate.load_cases, timer=os.name == "posix")
DONE, DIFFERS, MISTAKEN, STOPPED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143

class Faulty(Mistaken):
    """A file that can be read and whose content has faults."""

def parsed(word: str, argv: list[str]) -> Options:
    """The flags of a word; raises Mistaken. Where there are none, as in most replays, nothing is to be parsed."""
    paths, flags = {"cases.json": CASES, "snapshot.json": SNAPSHOT}, tools.FLAGS.get(word, {})
    if not word and not argv:
        return Options(**tools.defaults(flags))
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:  # one line, as all complaints here are
            raise Mistaken(f"{message} (see {self.prog} --help)")

    layout = functools.partial(argparse.RawTextHelpFormatter, width=100)  # to find one, argparse imports shutil
    about = {"--live": live_command, "": replay_command, **WORDS}[word].__doc__ or ""
    if not word:
        each = (f"  {name:8} {(does.__doc__ or '').partition(chr(10))[0]}" for name, does in WORDS.items())
        about = "\n".join(["With no word, replay a recording; --live plans a live run. The words:", *each])
    parser = Parser(f"run.py {word}".strip(), None, about, allow_abbrev=False, formatter_class=layout)
    for name, flag in flags.items():
        path = paths.get(str(flag.get("default")))
        parser.add_argument(name, **({**flag, "default": path} if path else flag))
    parser.set_defaults(**tools.PRESET.get(word, {}))
    return parser.parse_args(argv, Options())

# === Reading what people give =========================================================================================
def read_bytes(path: str) -> bytes:
    """A whole file; raises Mistaken."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_rdev:
                raise ValueError("a device, which may have no end")
            return file.read()
    except (OSError, ValueError) as error:  # a NUL or half a surrogate pair in the path is a ValueError too
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
    inside = ".."
    with contextlib.suppress(OSError, ValueError):  # the working directory is gone; an empty path
        inside = os.path.relpath(path, HERE)
    return path or "''" if inside.startswith("..") else inside

def listed(folder: str) -> list[str]:
    """The names in a folder, sorted; raises Mistaken."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise Mistaken(f"{shown_path(folder)}: {error.strerror}") from None

def load(path: str, parse: Callable[[Any], Loaded], read: Callable[[str], Any] = read_json) -> tuple[Any, Loaded]:
    """The document in a file and what `parse` makes of it; raises Faulty with every fault of the file."""
    document = read(path)
    try:
        return document, parse(document)
    except (evaluate.CaseFaults, retrieval.SnapshotFaults) as error:
        raise Faulty(*(f"{shown_path(path)}: {fault}" for fault in error.faults)) from None

@contextlib.contextmanager
def raising(name: str, error: BaseException) -> Iterator[Any]:
    """Let the signal of that name raise the error inside the block, which gets the module of signals."""
    import signal

    def raised(*_: Any) -> NoReturn:
        raise error

    before = signal.signal(getattr(signal, name), raised)
    try:
        yield signal
    finally:
        signal.signal(getattr(signal, name), before)

def within(work: Callable[[], Loaded]) -> Loaded:
    """What the work gives; raises TimeoutError where it takes more than two seconds: a pattern can search for ever."""
    if os.name != "posix":
        return work()
    with raising("SIGALRM", TimeoutError()) as signal:
        signal.setitimer(signal.ITIMER_REAL, 2)
        try:
            return work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

class Corpus(NamedTuple):
    """A snapshot on disk: what stands for it in a recording, fingerprint, profile, itself or its index's path."""
    document: dict[str, Any]
    sha256: str
    profile: str
    source: retrieval.Snapshot | str

LARGE = 1_000_000  # a recording has the path and the hash of a snapshot of so many bytes, not its passages

def read_corpus(path: str, named: bool = False) -> Corpus:
    """The snapshot in a file, or in the one that it names by path and hash; raises Mistaken."""
    if path.endswith(".sqlite"):
        with open_index(path) as index:
            document = {"path": os.path.abspath(path), "sha256": index.fingerprint}
            return Corpus(document, index.fingerprint, index.profile, path)
    document = read_json(path)
    if isinstance(document, dict) and document.keys() == {"path", "sha256"} and type(document["path"]) is str:
        if named or not os.path.isfile(document["path"]):
            raise Mistaken(f"{shown_path(path)}: its snapshot {document['path']} is no file; give it by --snapshot")
        return read_corpus(document["path"], named=True)
    snapshot, sha256 = load(path, retrieval.load_snapshot, lambda path: document)[1], provider.fingerprint(document)
    if os.path.getsize(path) >= LARGE:
        document = {"path": os.path.abspath(path), "sha256": sha256}
    return Corpus(document, sha256, snapshot.profile, snapshot)

def open_index(snapshot: retrieval.Snapshot | str) -> retrieval.Index:
    """An index over the snapshot, or the one in a file of that path; raises Mistaken where none can be had."""
    try:
        return retrieval.Index.open(snapshot) if isinstance(snapshot, str) else retrieval.Index(snapshot)
    except (retrieval.IndexFault, retrieval.SnapshotFaults) as error:
        raise Mistaken(f"{shown_path(snapshot)}: {error}" if isinstance(snapshot, str) else str(error)) from None

# === Recordings =======================================================================================================
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

def open_recording(name: str, cases_path: str | None = None, snapshot_path: str | None = None) -> Recording:
    """The recording of that name or path, with other cases or passages if wanted; raises Mistaken."""
    folder = tools.find_recording(name, RECORDINGS)
    files = {file: os.path.join(folder, file) for file in listed(folder)}
    for path in (path for name, path in files.items() if name in tools.FILES and not os.path.isfile(path)):
        raise Mistaken(f"{shown_path(path)}: not an ordinary file")
    path = os.path.join(folder, "manifest.json")
    manifest = tools.checked_manifest(read_json(path), shown_path(path))
    given, cases = load(files.get("cases.json", CASES) if cases_path is None else cases_path, load_cases)
    corpus = read_corpus(files.get("snapshot.json", SNAPSHOT) if snapshot_path is None else snapshot_path)
    report = read_json(files["report.json"]) if "report.json" in files else None
    if "report.json" in files and not evaluate.is_report(report):
        raise Mistaken(f"{shown_path(files['report.json'])}: not a report: it has no list of trials with ids")
    path = os.path.join(folder, "exchanges.jsonl")
    try:
        begun = report is not None or os.path.exists(path)  # a run can end before its first request
        exchanges = provider.load_exchanges(read_bytes(path) if begun else b"", finished=report is not None)
    except provider.DamagedRecording as error:
        raise Mistaken(f"{shown_path(path)}, {error}; the recording is damaged: restore the file") from None
    hashes = input_hashes(given, corpus.sha256, manifest["config"])
    sums = read_bytes(files["SHA256SUMS"]).decode("utf-8", "replace") if "SHA256SUMS" in files else None
    edits = list(tools.broken_seals(sums, digests(folder)))
    documents = {"cases.json": given, "snapshot.json": corpus.document}
    return Recording(os.path.basename(folder), manifest, cases, corpus, hashes, exchanges, report, edits, documents)

def digests(folder: str, ends: tuple[str, ...] = ("",)) -> dict[str, str]:
    """The SHA-256, in hex, of each ordinary file in a folder whose name ends so; raises Mistaken."""
    paths = {name: os.path.join(folder, name) for name in listed(folder) if name.endswith(ends)}
    return {name: hashlib.sha256(read_bytes(path)).hexdigest() for name, path in paths.items() if os.path.isfile(path)}

def input_hashes(cases: Any, snapshot: str, config: Any) -> dict[str, str]:
    """Fingerprints of all that a request is made from; that of the snapshot is given."""
    inputs = {"prompt": provider.PROMPT, "schema": provider.SCHEMA, "config": config, "cases": cases}
    return {name: provider.fingerprint(value) for name, value in inputs.items()} | {"snapshot": snapshot}

# === Replaying ========================================================================================================
class Played(NamedTuple):
    """A trial that was run again: its facts, its exchanges, its part of the report, and what did not agree."""
    trial: tools.Planned
    tape: agent.Tape
    sending: provider.Replay
    json: dict[str, Any]
    problems: list[tools.Problem]

def replay(recording: Recording, chosen: list[tools.Planned], index: retrieval.Index) -> Iterator[Played]:
    """Run the chosen trials again, with the model's replies from the recording and all else anew."""
    report, exchanges = recording.report, recording.exchanges
    reported = {at["id"]: at for at in report["trials"]} if report else {}
    for trial in chosen:
        sending, odd = provider.Replay(exchanges.trials.get(trial.id, {})), exchanges.oddities.get(trial.id, [])
        played = play(trial, recording, index, sending)
        if report is None and sending.missing and not (sending.exact or sending.unused or odd):
            continue  # a run in progress had not come to it
        unlike = evaluate.first_difference(*sending.differed) if sending.differed else None
        end, changed = played.tape[-1], recording.changed
        played.problems.extend(tools.disagreements(trial.id, end, sending, odd, report, changed, unlike))
        if report and not played.problems:
            other = evaluate.unlike_report(played.json, reported.get(trial.id))
            played.problems.extend(tools.unlike(trial.id, *other) if other else ())
        yield played

def play(trial: tools.Planned, recording: Recording, index: retrieval.Index, sending: provider.Replay) -> Played:
    """One trial over a sending, as it stands in a report: graded, and with its first cause where it did not pass."""
    tape, model = run_trial(trial, recording, index, sending.send)
    result, case = tape.result(), trial.case
    passages = tools.passages_at(index, ((case.version, name) for name in [*case.named, *tape.read()]))
    graded = {"mode": trial.mode, "result": result, **evaluate.grade(case, result, passages, within)}
    again = (case.question, case.version, tape.task.candidates)
    ranking = tools.ranking(index, *again) if graded["findings"] else []
    part = {
        "id": trial.id, "case_id": case.id, "split": case.split, "repeat": trial.repeat, **graded,
        "cause": evaluate.first_cause(case, graded, ranking, passages, within),
        **({"coverage": evaluate.coverage(case, result, within)} if case.required else {}),
        "detail": tape[-1].detail,
        "elapsed_seconds": model.clock() if any(event["elapsed"] is not None for event in model.events) else None,
        "provider_usage": [provider.tokens(event) for event in model.events],
    }
    return Played(trial, tape, sending, part, [])

def run_trial(trial: tools.Planned, recording: Recording, index: retrieval.Index,
              send: provider.Send) -> tuple[agent.Tape, provider.Model]:
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

def report_json(recording: Recording, played: list[Played], problems: list[tools.Problem], **more: Any) -> Any:
    """A replay, or with `more` a run, as one JSON object: what report.json is, and --json shows."""
    sendings, exchanges = [at.sending for at in played], recording.exchanges.trials
    about = (recording.name, recording.manifest, recording.hashes, digests(HERE, (".py",)), exchanges, sendings)
    report = evaluate.report([at.json for at in played], {**tools.report_facts(*about), **more})
    return {**report, "error": tools.error_of(problems, DIFFERS)} if problems else report

# === Showing ==========================================================================================================
def say(*lines: str) -> None:
    """Lines of results."""
    print(*map(tools.visible, lines), sep="\n")

def show(lines: Iterable[str], document: Any = None) -> int:
    """Print lines as they come, or instead of them a document as JSON; the exit code of both."""
    for line in lines if document is None else [json.dumps(document, indent=1)]:
        print(line)
    return DONE

def columns(text: bool = True) -> int:
    """How wide a text may be, to be easy to read; or a table: as the terminal, and elsewhere as it comes (0)."""
    screen = 0
    with contextlib.suppress(OSError, ValueError):
        screen = int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns)
    return max(40, min(screen or 100, 100)) if text else screen * sys.stdout.isatty()

def trial_lines(played: list[Played]) -> Iterator[str]:
    """The table of trials, and every count per path."""
    trials, terminal = [at.json for at in played], sys.stdout.isatty()
    colour = terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    yield from tools.trial_lines(trials, colour, columns(text=False))
    yield ""
    yield from tools.summary_lines(evaluate.summarize(trials), evaluate.stages(trials))

# === Live runs ========================================================================================================
def run_live(recording: Recording, allowance: agent.Allowance, options: Options, journal: provider.Journal,
             index: retrieval.Index) -> Iterator[Played]:
    """Run the trials of the plan in order; raises agent.Stopped where going on would help nobody."""
    faults, plan, manifest = 0, tools.plan(recording), recording.manifest
    post = functools.partial(provider.post, manifest["endpoint"], provider.find_key(os.environ)[1])
    for at, trial in enumerate(plan, 1):
        live = provider.Live(
            trial.id, recording.exchanges.trials.get(trial.id, {}), allowance, manifest["limits"]["seconds"],
            journal.write, post, time.monotonic, options.resend, options.retry_faults)
        played = play(trial, recording, index, live)
        part, end = played.json, played.tape[-1]
        if end.reason in (agent.Reason.REPLAY_REQUEST_MISMATCH, agent.Reason.REPLAY_EXHAUSTED):
            raise Mistaken(f"{trial.id}: {end.detail}: this run cannot go on; make a new one")
        if end.reason in agent.BUDGETS:
            raise agent.Stopped(f"{end.reason}: {end.detail}; a larger one lets it go on")
        yield played
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
                raise agent.Stopped(f"{why}: {told}")

def live_command(argv: list[str]) -> int:
    """The plan of a live run; with --execute-approved the run, or the rest of one that ended early."""
    return live(parsed("--live", argv))

def ask_command(argv: list[str]) -> int:
    """One question over a snapshot, live: the plan, and with --execute-approved the answer with its citations."""
    return live(parsed("ask", argv))

def live(options: Options) -> int:
    """Show the plan, and carry it out where that is approved; raises Mistaken."""
    folder, recording = planned(options) if options.resume is None else resumable(options)
    if options.execute_approved:
        key = provider.find_key(os.environ)[1]
        if provider.redacted(recording.documents, key) != recording.documents:
            raise Mistaken("the key stands in the question, the cases or the snapshot: it would be sent and recorded")
    say(*(f"{name:12}  {value}" for name, value in plan_rows(folder, recording, options.resume is not None)))
    if not options.execute_approved:
        say("Nothing was sent. --execute-approved makes this run.")
        return DONE
    if options.resume is None:
        create_recording(folder, {**recording.documents, "manifest.json": recording.manifest})
    return execute(folder, options)

def create_recording(folder: str, documents: dict[str, Any]) -> None:
    """The folder of a new run with its inputs and, last, its plan, or no folder; raises Mistaken."""
    try:
        os.makedirs(RECORDINGS, exist_ok=True)
        os.mkdir(folder)
        try:
            for name, document in documents.items():
                write_file(os.path.join(folder, name), document)
        except BaseException:  # Ctrl-C too
            import shutil
            shutil.rmtree(folder)
            raise
    except (OSError, UnicodeError) as error:
        why = "the path of the snapshot is not UTF-8" if isinstance(error, UnicodeError) else error.strerror
        raise Mistaken(f"{shown_path(folder)}: {why}; nothing was sent") from None

def posed(options: Options, index: retrieval.Index) -> tuple[Any, list[evaluate.Case]]:
    """The cases of a run, checked against the passages, or a question that nobody labelled; raises Mistaken."""
    if options.question is None:
        given, cases = load(options.cases, load_cases)
        _, versions, passages = tools.labelled(index, cases)
        faults = evaluate.label_faults(cases, passages, versions)
        if faults:
            raise Mistaken(*(f"{shown_path(options.cases)}: {fault}" for fault in faults))
        return given, cases
    case = {"question": agent.typed(options.question), "version": tools.version_of(options.version, index.versions)}
    given = {"cases": [{"id": "question", **case, "split": "asked"}]}
    try:
        return given, load_cases(given)
    except evaluate.CaseFaults as error:
        raise Mistaken(*error.faults) from None

def planned(options: Options) -> tuple[str, Recording]:
    """The folder and the recording, still empty, of the run that the flags ask for; raises Mistaken or Mistake."""
    corpus, now = read_corpus(options.snapshot), time.gmtime()
    with open_index(corpus.source) as index:
        given, cases = posed(options, index)
    names, made = [case.id for case in cases], time.strftime("%Y-%m-%dT%H:%M:%SZ", now)
    manifest = tools.new_manifest(vars(options), names, corpus.profile, os.environ, made)
    hashes = input_hashes(given, corpus.sha256, manifest["config"])
    manifest["hashes"] = {**hashes, "sources": provider.fingerprint(digests(HERE, (".py",)))}
    usual = time.strftime("%Y%m%dT%H%M%SZ-", now) + manifest["model"]
    name = tools.recording_name(usual if options.name is None else options.name)
    folder = os.path.join(RECORDINGS, name)
    if os.path.lexists(folder):
        raise Mistaken(f"{shown_path(folder)} exists: give another --name (--resume {name} goes on with a stopped run)")
    manifest |= tools.allowed(manifest, vars(options))
    documents, empty = {"cases.json": given, "snapshot.json": corpus.document}, provider.Exchanges({}, {}, [])
    return folder, Recording(name, manifest, cases, corpus, hashes, empty, None, [], documents)

def resumable(options: Options) -> tuple[str, Recording]:
    """The folder and the recording of a run that can go on; raises Mistaken where it cannot, or its inputs changed."""
    folder = tools.find_recording(options.resume, RECORDINGS)
    recording = open_recording(folder)
    trials = (recording.report or {"trials": []})["trials"]
    faulted = any(evaluate.outcome_of(at) == "not_measured" for at in trials)
    if recording.report and tools.UNSEALED not in recording.edits and not (faulted and options.retry_faults):
        rest = "runs its unmeasured trials again" if faulted else "has nothing to run: all its trials were measured"
        raise Mistaken(f"recording {recording.name} is finished; --retry-faults {rest}")
    why = [f"{name} changed since" for name in recording.changed] + [at for at in recording.odd if at != tools.UNSEALED]
    if recording.manifest["endpoint"] != tools.endpoint(os.environ, recording.manifest["model"]):
        why.append(f"it was made at {recording.manifest['endpoint']}, and GOOGLE_GEMINI_BASE_URL is another now")
    if why:
        raise Mistaken(f"recording {recording.name} cannot go on: {'; '.join(why)}")
    recording.manifest.update(tools.allowed(recording.manifest, vars(options)))
    return folder, recording

def key_state() -> str:
    """Which variable holds the key, never its value."""
    try:
        return f"{provider.find_key(os.environ)[0]} is set"
    except agent.Mistake as error:
        return error.detail

def plan_rows(folder: str, recording: Recording, resumed: bool) -> Iterator[tuple[str, str]]:
    """What a run will do and what it could use at worst, and what is done of one that is resumed."""
    yield from tools.plan_rows(recording.manifest, provider.REQUEST_BYTES)
    yield from (("recording", shown_path(folder)), ("key", key_state()))
    if resumed:
        plan = tools.plan(recording)
        with open_index(recording.corpus.source) as index:
            played = list(replay(recording, plan, index))
        whole = {at.trial.id: at.json["checks"]["outcome"] for at in played if not at.sending.missing}
        yield from tools.progress_rows([trial.id for trial in plan], whole, recording.exchanges.trials)

def write_file(path: str, content: Any, ready: Callable[[], None] = lambda: None) -> None:
    """Put JSON, a text, or what a function writes, into a file as a whole or not at all, once it is `ready`, which may
    raise; raises OSError. What a process that was killed left under this name goes; permissions stay."""
    part = f"{path}.{os.getpid()}.part"
    try:
        if os.path.lexists(part):
            os.remove(part)
        if callable(content):
            content(part)
        else:
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1) + "\n"
            with open(part, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        ready()
        if os.path.isfile(path):
            os.chmod(part, os.stat(path).st_mode & 0o777)
        os.replace(part, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), path) from None
    finally:
        if os.path.lexists(part):
            os.remove(part)

def execute(folder: str, options: Options) -> int:
    """Make a run, or what is left of it, and write its report; the exit code says whether it came to its end."""
    played = list[Played]()
    try:
        journal = provider.Journal(folder)
    except OSError as error:
        raise Mistaken(f"{shown_path(folder)}: {error.strerror or error}; nothing was sent") from None
    try:
        with contextlib.closing(journal), raising("SIGTERM", KeyboardInterrupt("SIGTERM")):
            return carry_out(folder, journal, options, played)
    except (agent.Stopped, OSError, KeyboardInterrupt) as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else f"stopped: {error}"
        go_on = f"python3 run.py --live --resume {os.path.basename(folder)} --execute-approved"
        go_on += " --resend" * options.resend + " --retry-faults" * options.retry_faults
        faults = sum(at.json["checks"]["outcome"] == "not_measured" for at in played)
        again = f", {faults} of them ended by a fault, which --retry-faults runs again" if faults else ""
        complain(f"{why}; {len(played)} trials are done and kept{again}; go on with: {go_on}")
        return TERMINATED if error.args == ("SIGTERM",) else INTERRUPTED if why == "interrupted" else STOPPED

def carry_out(folder: str, journal: provider.Journal, options: Options, played: list[Played]) -> int:
    """The run itself, under its lock; fills `played` and writes the report."""
    recording = open_recording(folder)  # read anew: it is ours only now
    recording.manifest.update(tools.allowed(recording.manifest, vars(options)))
    if recording.report and options.retry_faults:
        names = (os.path.join(folder, f"report-{at}.json") for at in range(1, 1000))
        os.rename(os.path.join(folder, "report.json"), next(name for name in names if not os.path.lexists(name)))
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(folder, "SHA256SUMS"))
    write_file(os.path.join(folder, "manifest.json"), recording.manifest)
    allowance = tools.allowance(recording.manifest, recording.exchanges.trials, provider.tokens)
    with open_index(recording.corpus.source) as index:
        played.extend(run_live(recording, allowance, options, journal, index))
    try:
        finished = open_recording(folder)
    except Mistaken as error:
        raise agent.Stopped(str(error)) from None
    made, exchanges = sum(at.sending.sent for at in played), finished.exchanges.trials
    report = report_json(
        finished, played, [], execution_mode=finished.manifest["execution_mode"], actual_api_requests=made,
        replay=None, in_doubt=tools.in_doubt(exchanges), cost=allowance.cost())
    write_file(os.path.join(folder, "report.json"), report)
    sums = (f"{digest}  {name}\n" for name, digest in digests(folder, (".json", ".jsonl")).items())
    write_file(os.path.join(folder, "SHA256SUMS"), "".join(sums))
    show(trial_lines(played) if options.question is None else tools.reply_lines(played[0].tape, columns()))
    measured = sum(at.json["checks"]["outcome"] != "not_measured" for at in played)
    say(f"{measured} of {len(played)} measured | live requests: {made} | {shown_path(folder)}")
    if measured < len(played):
        say(tools.once_more(finished.name, finished.manifest, exchanges))
    return DONE

# === The commands =====================================================================================================
def replay_command(argv: list[str]) -> int:
    """Replay a recording, print what came out, and say whether it is what was recorded."""
    options = parsed("", argv)
    if options.regrade:
        tools.alone("--regrade", vars(options), ("regrade", "recording", "cases", "snapshot", "json"))
        recording = open_recording(options.recording, None, options.snapshot)
        return regraded(recording, CASES if options.cases is None else options.cases, options.json)
    page = "" if options.html is None else empty_page(options.html)
    began, recording = time.monotonic(), open_recording(options.recording, options.cases, options.snapshot)
    plan = tools.plan(recording)
    chosen = tools.choose(plan, options.case, options.mode, options.repeat)
    with open_index(recording.corpus.source) as index:
        played = list(replay(recording, chosen, index))
        found, differed = [one for at in played for one in at.problems], any(at.sending.differed for at in played)
        changed, planned_ = [] if differed else recording.changed, {trial.id for trial in plan}
        exchanged, report = recording.exchanges.trials, recording.report
        problems = list(tools.problems(recording.edits, found, report, exchanged, planned_, changed))
        document: Any = report_json(recording, played, problems) if page or options.json else None
        if page:
            passages = tools.passages_told(index, [at.case for at in plan], document["trials"])
            events = recording.exchanges.events
            write_file(options.html, tools.filled(page, document, events, recording.cases, passages))
    shown = replay_lines(recording, chosen, played, bool(options.trace or options.case))
    show(shown, document if options.json else None)
    for problem in problems:
        complain(problem.line)
    if not options.json:
        fared, took = tools.counts([at.sending for at in played]), time.monotonic() - began
        say(tools.replayed(fared, len(plan), took))
    return DIFFERS if problems else DONE

def regraded(recording: Recording, path: str, as_json: bool) -> int:
    """Show the stored grades of a recording beside those that today's labels give; nothing is written."""
    stored, (today, cases) = tools.stored(recording.name, recording.report), load(path, load_cases)
    with open_index(recording.corpus.source) as index:
        passages = tools.passages_told(index, cases, stored)
    told = evaluate.regrade(stored, recording.documents["cases.json"], today, passages, within)
    rows = tools.tables(columns(text=False), evaluate.rows(told, "trial", "stored", "today", "labels"))
    lines = tools.regraded_lines(told, set(evaluate.Outcome), "cases" in recording.changed)
    show([*rows, *lines], told if as_json else None)
    return tell_edits(recording)

def tell_edits(*recordings: Recording) -> int:
    """Complain of each edit of a finished recording; the exit code that says whether there was one."""
    edits = [f"{recording.name}: {edit}" for recording in recordings for edit in recording.edits]
    for edit in edits:
        complain(edit)
    return DIFFERS if edits else DONE

def empty_page(path: str) -> str:
    """The viewer, for a page at that path; raises Mistaken where something else than a page of the kit stands there."""
    page = read_bytes(os.path.join(RECORDINGS, "viewer.html")).decode("utf-8")
    if os.path.lexists(path) and not tools.is_page(page, read_bytes(path)):
        raise Mistaken(f"{shown_path(path)} exists and is no page that this kit wrote: give another name")
    return page

def replay_lines(recording: Recording, chosen: list[tools.Planned], played: list[Played], trace: bool) -> Iterator[str]:
    """What a replay shows: where the recording is from, the traces, the table, the summary."""
    yield from tools.replay_lines(recording.name, recording.manifest, columns())
    words = (*evaluate.Outcome, *evaluate.Finding, *evaluate.Stage) if trace else ()
    sentences = {word: word.sentence for word in words}
    for at in played if trace else []:
        about = f"{at.trial.case.split}, {recording.corpus.profile} profile"
        yield from tools.trace_lines(at.trial.id, about, at.tape, at.json, sentences, columns())
    yield from trial_lines(played)
    yield from tools.unfinished_lines(chosen, played, columns()) if recording.report is None else ()

def check_command(argv: list[str]) -> int:
    """What is wrong or weak in cases, labels and passages."""
    options = parsed("check", argv)
    faults, loaded, weak = list[str](), list[Any](), list[str]()
    for read in (lambda: load(options.cases, load_cases), lambda: read_corpus(options.snapshot)):
        try:
            loaded.append(read())
        except Faulty as error:
            faults += error.lines
    if not faults:
        (_, cases), (_, _, _, source) = loaded  # a snapshot that is JSON needs no index: FTS5 may be lacking
        with open_index(source) if type(source) is str else contextlib.nullcontext(source) as held:
            count, versions, passages = tools.labelled(held, cases)
        faults = [f"{shown_path(options.cases)}: {at}" for at in evaluate.label_faults(cases, passages, versions)]
        weak = evaluate.weak_labels(cases, passages, within)
        say(f"{len(cases)} cases, {count} passages")
    say(*(f"fault: {fault}" for fault in faults), *(f"weak: {label}" for label in weak),
        f"{len(faults)} faults, {len(weak)} weak labels")
    return DIFFERS if faults else DONE

def guards_command(argv: list[str]) -> int:
    """Every guard, tripped on purpose by a scripted model: no key, no network."""
    name, table = parsed("guards", argv).name, read_json(os.path.join(RECORDINGS, "guards.json"))["guards"]
    chosen = [guard for guard in table if name in (None, guard["guard"])]
    if not chosen:
        raise Mistaken(f"no guard {agent.shown(name)}; there are {', '.join(guard['guard'] for guard in table)}")
    snapshot, held = load(SNAPSHOT, retrieval.load_snapshot)[1], 0
    open_index(snapshot).close()  # raises Mistaken here, once
    for guard in chosen:
        end = tools.trip(guard, snapshot, stand_ins())[-1]
        held += end.reason == guard["reason"]
        show(tools.guard_lines(guard, end, columns()))
    say(f"{held} of {len(chosen)} guards held")
    return DONE if held == len(chosen) else DIFFERS

def stand_ins() -> dict[str, agent.Ask]:
    """Models whose fault lies around the reply, by the names that guards.json gives them."""
    def reply(response: dict[str, Any]) -> provider.Send:
        return lambda request, seconds: {"event": "response", "status": 200, "elapsed": 0, "response": response}

    said = {"content": {"parts": [{"text": '{"action": "sea'}]}, "finishReason": "STOP"}
    used_up = agent.Allowance(1, 1, {})
    used_up.count(1, None)
    live = provider.Live("guard", {}, used_up, 180, list[Any]().append, lambda *_: {"status": 200}, time.monotonic)
    sends: dict[str, provider.Send] = {
        "cut off": reply({"candidates": [said | {"finishReason": "MAX_TOKENS"}]}),
        "blocked": reply({"candidates": [said], "promptFeedback": {"blockReason": "SAFETY"}}),
        "changed": provider.Replay({1: provider.Exchange({}, provider.fingerprint({}), None, 1)}).send,
        "used up": live.send,
    }
    return {name: provider.Model({"maxOutputTokens": 1}, send).ask for name, send in sends.items()}

def doctor_command(argv: list[str]) -> int:
    """What this machine has, which key variable is set, and whether the recordings are whole."""
    parsed("doctor", argv)
    say(*(f"{name:10}{value}" for name, value in tools.environment().items()))
    fts5, faults = "yes", 0
    try:
        open_index(load(SNAPSHOT, retrieval.load_snapshot)[1]).close()
    except Mistaken as error:
        fts5, faults = f"NO: {error}", 1
    say(f"fts5      {fts5}", f"key       {key_state()}")
    for entry in tools.recordings(RECORDINGS):
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
    options = parsed("search", argv)
    query = agent.typed(options.words)
    if options.judge is not None:
        return judged_command(options, query)
    with open_index(read_corpus(options.snapshot).source) as index:
        found = tools.found(index, query, options.version, options.k, "{}" if options.json else "[{}]")
    return show(tools.found_lines(found, columns()), found if options.json else None)

def judged_command(options: Options, words: str) -> int:
    """Search for each judged query of a file, and print the measures of the rankings, each and in the mean."""
    read = read_json if options.judge.lower().endswith(".json") else functools.partial(tools.text_in, read=read_bytes)
    queries = load(options.judge, evaluate.load_judged, read)[1]
    cases = [] if options.cases is None else load(options.cases, load_cases)[1]
    with open_index(read_corpus(options.snapshot).source) as index:
        rankings, aliases = tools.ranked(index, queries, options.judge, words, cases, options.version, options.k)
    told = evaluate.judge(queries, rankings, options.k, True, aliases)
    each = evaluate.rows(told["queries"], "query", *evaluate.MEASURES, "unjudged")
    both = tools.tables(columns(text=False), each, evaluate.rows(told["means"], "measure", "mean", "over", "of"))
    return show([*both, "what nobody judged counts as not relevant here"], told if options.json else None)

def build_command(argv: list[str]) -> int:
    """A snapshot from documents (HTML, Markdown, plain text), or one version more in a snapshot."""
    options = parsed("build", argv)
    try:
        tools.check_build(options.out, options.base_url, options.paths, RECORDINGS)
        agent.checked(agent.Task("?", options.version, "agent"))
        made = retrieval.Build(options.version, options.base_url, options.encoding, "")  # "": SQLite keeps a file
        with raising("SIGTERM", KeyboardInterrupt("SIGTERM")), contextlib.closing(made) as build:
            counts = carry_build(build, os.path.realpath(options.out), options)
    except (agent.Mistake, retrieval.BuildFault, retrieval.IndexFault, retrieval.SnapshotFaults, ValueError) as error:
        raise Mistaken(f"{error}; nothing was written") from None
    say(*tools.built_lines(options.out, os.path.getsize(options.out), counts, build.counts))
    return DIFFERS if counts["refused"] else DONE

def carry_build(build: retrieval.Build, out: str, options: Options) -> dict[str, int]:
    """Read the documents and write the snapshot; how many files were used, skipped and refused."""
    before = tools.stamp(out)
    if before:
        with open_index(read_corpus(out).source) as old:
            tools.keep_others(build, old, options.out, options.version, options.replace)
    counts = {"used": 0, "skipped": 0, "refused": 0}
    def read(path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read(retrieval.LARGEST_DOCUMENT + 1)
    for became, name, path, why in tools.read_documents(build, options.paths, read):
        counts[became] += 1
        if why:
            complain(f"{became}: {path}: {why}")
        elif sys.stderr.isatty():
            print(f"\r\x1b[K{counts['used']} files: {tools.visible(name)[:60]}", end="", file=sys.stderr, flush=True)
    if not counts["used"]:
        raise Mistaken(f"no document among the {sum(counts.values())} files of {', '.join(options.paths)}")
    def unchanged() -> None:
        if tools.stamp(out) != before:
            raise Mistaken(f"{options.out} was changed by another while this was built; it stays: build again")
    if out.endswith(".sqlite"):
        write_file(out, lambda part: retrieval.create_store(part, "documents", build.passages()), unchanged)
    else:
        passages = [{name: value for name, value in at._asdict().items() if value} for at in build.passages()]
        write_file(out, {"profile": "documents", "passages": passages}, unchanged)
    return counts

def compare_command(argv: list[str]) -> int:
    """Two recordings, or the two paths of one: pairs, intervals, costs, and whether they can be told apart."""
    options = parsed("compare", argv)
    compared = [open_recording(name) for name in (options.a, options.b) if name is not None]
    trials = [tools.stored(at.name, at.report) for at in compared]
    cases = {case.id: case for at in compared for case in at.cases}
    if options.b is None:
        sides = {f"{mode} path": [at for at in trials[0] if at.get("mode") == mode] for mode in ("fixed", "agent")}
    else:
        sides = {options.a: trials[0], f"{options.b} ": trials[1]}
    told, k = evaluate.compare(*sides.values()), compared[0].manifest["candidates"]
    found = [{"side": "ab"[at], **one} for at, side in enumerate(sides.values())
             for one in evaluate.judge_searches(side, cases, k)["means"]]
    measures = [evaluate.rows(one, *one[0]) for one in (told["rates"], told["cost"], told["abstention"], found) if one]
    say(*tools.comparison_lines(told, sides, measures, columns(text=False)))
    return tell_edits(*compared)

def audit_command(argv: list[str]) -> int:
    """The audit of a cited report: links, claims and questions, each with its own denominator."""
    _, told = load(parsed("audit", argv).file, evaluate.audit)
    rows = (evaluate.rows(told[name], *names) for name, names in tools.AUDITED.items())
    say(*tools.tables(columns(text=False), *rows), *tools.audit_lines(told))
    return DIFFERS if told["moved"] else DONE

def study_command(argv: list[str]) -> int:
    """The packing study: what was retrieved is not what was given to the model."""
    options = parsed("study", argv)
    try:
        told = evaluate.study(read_json(os.path.join(RECORDINGS, "packing.json")), options.budget, options.order)
    except ValueError as error:
        raise Mistaken(str(error)) from None
    runs, fields = {}, [name for name in told["executions"][0] if name not in ("arm", "ledger")]
    for arm in (at["arm"] for at in told["arms"]):
        runs[arm] = evaluate.rows([run for run in told["executions"] if run["arm"] == arm], *fields)
    arms = evaluate.rows(told["arms"], *list(told["arms"][0])[:5])
    say(*tools.tables(columns(text=False), arms), *tools.study_lines(told, runs, columns(text=False)))
    return DONE

def review_command(argv: list[str]) -> int:
    """All recordings, and what a person should look at: unfinished runs, repeated questions, contradicting repeats."""
    parsed("review", argv)
    rows, told = [["recording", "date", "model", "trials", "state"]], list[str]()
    for name in tools.recordings(RECORDINGS):
        try:
            recording = open_recording(name)
        except Mistaken as error:
            told.append(f"{name} cannot be read: {error}")
            continue
        trials = (recording.report or {"trials": []})["trials"]
        about = (name, recording.manifest, len(trials), len(tools.plan(recording)))
        rows.append(tools.review_row(*about, finished=recording.report is not None, odd=recording.odd))
        told += [f"{name} is not finished: python3 run.py --live --resume {name}"] * (recording.report is None)
        told += [f"{name}: {line}" for line in (*recording.odd, *tools.contradictions(trials))]
    say(*tools.tables(columns(text=False), rows), *told)
    return DONE

def mcp_command(argv: list[str]) -> int:
    """The tools for any MCP client, over standard input and output; nothing is spent or written."""
    lines, path = getattr(sys.stdin, "buffer", sys.stdin or io.BytesIO()), parsed("mcp", argv).snapshot
    with contextlib.suppress(BrokenPipeError):
        for told in tools.replies(lines.readline, path, lambda: open_index(read_corpus(path).source)):
            print(told, flush=True)
    return DONE

def export_command(argv: list[str]) -> int:
    """A recording in a form that other programs read: an Inspect log, JUnit's XML, or a JSON line a trial."""
    options = parsed("export", argv)
    recording = open_recording(options.name)
    report = {**(recording.report or {}), "trials": tools.stored(recording.name, recording.report)}
    if os.path.lexists(options.out):
        raise Mistaken(f"{shown_path(options.out)} exists: give another name")
    write_file(options.out, tools.exported(options.format, recording.name, report, recording.exchanges.trials))
    say(f"{options.out}: {len(report['trials'])} trials of recording {recording.name}",
        f"not in this form: {tools.NOT_IN[options.format]}")
    return tell_edits(recording)

def claim_command(argv: list[str]) -> int:
    """What the comparison of a recording's two paths can carry, and what not, as one JSON record."""
    recording = open_recording(parsed("claim", argv).name)
    trials = tools.stored(recording.name, recording.report)
    told = evaluate.compare(*([at for at in trials if at.get("mode") == mode] for mode in ("fixed", "agent")))
    notes = [*recording.odd, *(f"changed since the recording: {name}" for name in recording.changed)]
    models, report = tools.models_in(recording.exchanges.events), recording.report or {}
    show((), tools.claim(recording.name, report, recording.manifest, told, models, notes))
    return max(tell_edits(recording), DIFFERS if notes else DONE)

WORDS: dict[str, Callable[[list[str]], int]] = {
    "check": check_command, "guards": guards_command, "doctor": doctor_command, "search": search_command,
    "ask": ask_command, "build": build_command, "compare": compare_command, "audit": audit_command,
    "study": study_command, "review": review_command, "mcp": mcp_command, "export": export_command,
    "claim": claim_command,
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
    """The exit code of the word that stands first, or of a replay, whatever ends it."""
    try:
        if argv and not argv[0].startswith("-"):
            if argv[0] not in WORDS:
                raise Mistaken(f"no word {agent.shown(argv[0])}; there are {', '.join(WORDS)}, or none to replay")
            return WORDS[argv[0]](argv[1:])
        return live_command(argv) if "--live" in argv else replay_command(argv)
    except SystemExit:  # argparse has shown its help
        return DONE
    except (Mistaken, agent.Mistake, OSError) as error:
        if isinstance(error, OSError):
            if error.filename is None:  # a closed pipe, say
                raise
            error = Mistaken(f"{shown_path(error.filename)}: {error.strerror}")
        for line in getattr(error, "lines", [str(error)]):
            complain(line)
        if "--json" in argv:
            reason = {"reason": str(error.reason)} if error.reason else {}
            show((), {"error": {"code": MISTAKEN, "message": str(error), **reason}})
        return MISTAKEN
    except KeyboardInterrupt as error:
        complain("interrupted")
        return TERMINATED if error.args == ("SIGTERM",) else INTERRUPTED

if __name__ == "__main__":
    os._exit(main())  # nothing is left to tidy up, and tidying would take as long as a tenth of a replay
