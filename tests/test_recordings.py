"""The published recording, replayed: what it proves, and how every edit of it and of its inputs is told.

All runs are of a scratch copy of the kit. A row of a table is an edit and the whole lines that standard error shows for
it; the exit code follows, and the counts of exchanges are checked wherever a replay ran.
"""

import contextlib
import copy
import functools
import gc
import hashlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from unittest import mock

import provider
import run
from tests import rebuild
from tests.support import MODULES, ROOT, environment

TRIAL = "serialize-and-save-agent-1"
LAST = 6
PLACES = {"the first": 1, "a middle": 3, "the last": LAST}
CHOSEN = ("--case", "serialize-and-save", "--mode", "agent", "--repeat", "1")
FILES = ("manifest.json", "exchanges.jsonl", "report.json", "SHA256SUMS")
EARLIER_BYTES = 143_556  # what the earlier design of this lab sent for the same 40 requests
CANARY = "CANARY-7f3a"
CLOSING = re.compile(
    r"replayed (\d+) of (\d+) trials \| exchanges: (\d+) exact, (\d+) differing, (\d+) missing, (\d+) unused"
    r" \| live requests: 0 \| \d+\.\d s")


def read(path: str) -> bytes:
    """A whole file."""
    with open(path, "rb") as file:
        return file.read()


def compact(value: Any) -> bytes:
    """JSON without spaces, not escaped to ASCII; written here again so that the kit does not judge itself."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def strict(value: Any) -> str:
    """A text that is equal for equal JSON only: 0, 0.0 and false differ."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


class Shown(NamedTuple):
    """What a run ended with and printed; the lines of standard error without their prefix."""

    code: int
    out: str
    lines: list[str]

    @property
    def closing(self) -> tuple[int, ...]:
        """The numbers of the closing line: replayed, of, exact, differing, missing, unused."""
        found = CLOSING.fullmatch(self.out.rstrip("\n").rpartition("\n")[2])
        assert found, self.out[-300:]
        return tuple(map(int, found.groups()))

    @property
    def json(self) -> dict[str, Any]:
        """The one document of --json."""
        return dict(json.loads(self.out))


class Kit(unittest.TestCase):
    """A scratch copy of the kit, made once for a class and put back before each row."""

    folder: str
    originals: dict[str, bytes]

    @classmethod
    def setUpClass(cls) -> None:
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = os.path.join(os.path.realpath(holder.name), "kit")
        published = [os.path.join("recordings", "published", name) for name in FILES]
        cls.originals = {}
        for name in [*(f"{module}.py" for module in MODULES), "cases.json", "snapshot.json", *published]:
            cls.originals[name] = read(os.path.join(ROOT, name))
        moved = {
            name: cls.folder + value[len(ROOT) :]
            for name, value in vars(run).items()
            if type(value) is str and (value + os.sep).startswith(ROOT + os.sep) and not name.startswith("__")
        }
        cls.enterClassContext(mock.patch.dict(vars(run), moved))
        cls.enterClassContext(mock.patch.dict(os.environ, {"COLUMNS": "100"}))  # whatever terminal this runs in
        cls.addClassCleanup(gc.set_threshold, *gc.get_threshold())
        gc.set_threshold(100_000)  # as run.py does where it is the program

    def setUp(self) -> None:
        self.restore()

    def restore(self) -> None:
        """Put every file back as it is in the repository, and nothing else."""
        folders = {os.path.dirname(name) for name in (*self.originals, "recordings/x")}
        for place, below, names in os.walk(self.folder):
            inside = os.path.relpath(place, self.folder) if place != self.folder else ""
            for name in below:
                if os.path.join(inside, name) not in folders:
                    shutil.rmtree(os.path.join(place, name))
            below[:] = [name for name in below if os.path.join(inside, name) in folders]
            for name in names:
                if os.path.join(inside, name) not in self.originals:
                    os.remove(os.path.join(place, name))
        for name, content in self.originals.items():
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if not os.path.exists(path) or read(path) != content:
                with open(path, "wb") as file:
                    file.write(content)

    def path(self, name: str) -> str:
        """Where a file of the kit is; one of the recording by its bare name."""
        return os.path.join(self.folder, *(("recordings", "published") if name in FILES else ()), name)

    def read(self, name: str) -> bytes:
        """A file of the kit."""
        return read(self.path(name))

    def write(self, name: str, content: bytes | str) -> None:
        """Replace a file of the kit."""
        with open(self.path(name), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    def edit(self, name: str, change: Callable[[Any], Any]) -> None:
        """Change the JSON of a file; `change` edits it in place or returns another."""
        value = json.loads(self.read(name))
        other = change(value)
        self.write(name, json.dumps(value if other is None else other, ensure_ascii=False, indent=1) + "\n")

    def remove(self, *names: str) -> None:
        """Delete files of the kit."""
        for name in names:
            os.remove(self.path(name))

    def seal(self, *names: str) -> None:
        """Write SHA256SUMS anew."""
        named = names or [name for name in FILES[:3] if os.path.exists(self.path(name))]
        self.write("SHA256SUMS", "".join(f"{hashlib.sha256(self.read(name)).hexdigest()}  {name}\n" for name in named))

    def main(self, *argv: str) -> Shown:
        """What `python3 run.py` does, without a process of its own."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run.main(list(argv))
        return Shown(code, out.getvalue(), self.without_prefix(err.getvalue()))

    def without_prefix(self, text: str) -> list[str]:
        """The lines of standard error, each of which begins `run.py: `."""
        lines = text.splitlines()
        for line in lines:
            self.assertTrue(line.startswith("run.py: "), text)
        return [line.removeprefix("run.py: ") for line in lines]

    def child(self, *argv: str, cwd: str | None = None, script: str | None = None, **more: str) -> Shown:
        """`python3 run.py` as a process: no network, no key, and a resource left open is an error."""
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(
                [sys.executable, "-W", "error::ResourceWarning", script or self.path("run.py"), *argv],
                cwd=cwd or home, env=environment(home, **more), stdin=subprocess.DEVNULL,
                capture_output=True, encoding="utf-8", timeout=60)
        return Shown(done.returncode, done.stdout, self.without_prefix(done.stderr))

    def assertMistaken(self, shown: Shown, line: str) -> None:
        """Exit code 2, one line that matches, nothing on standard output."""
        self.assertEqual((shown.code, shown.out, len(shown.lines)), (2, "", 1), shown)
        self.assertRegex(shown.lines[0], line)


def edited(name: str) -> str:
    """The line that tells that a sealed file is not what it was."""
    return f"{name} was edited after the run: it is not what SHA256SUMS says"


# --- What a replay proves -----------------------------------------------------------------------


COMPARED = ("status", "reason", "answer", "citations", "usage", "decisions", "observations")


def facts(trial: dict[str, Any]) -> dict[str, str]:
    """What of a trial must be as published: `scope` is a sentence of the run it was written in."""
    checks = {name: value for name, value in trial["checks"].items() if name != "scope"}
    told = {name: trial["result"][name] for name in COMPARED}
    return {name: strict(value) for name, value in {
        **told, "checks": checks, "tokens": trial["provider_usage"], "case": trial["case_id"], "mode": trial["mode"],
        "repeat": trial["repeat"], "split": trial["split"], "question": trial["result"]["question"],
        "version": trial["result"]["version"],
    }.items()}


class Published(Kit):
    """All that was published comes out again, from the replies alone."""

    def setUp(self) -> None:
        super().setUp()
        self.report = json.loads(self.originals[os.path.join("recordings", "published", "report.json")])

    def test_all_16_trials_are_the_published_ones(self) -> None:
        shown = self.main("--json")
        self.assertEqual((shown.code, shown.lines), (0, []))
        self.assertAsPublished(shown.json)

    def test_without_the_report_the_same_trials_come_out_and_that_is_said(self) -> None:
        with_report = self.main("--json").json
        self.remove("report.json")
        shown = self.main("--json")
        self.assertEqual((shown.code, shown.lines), (0, []))
        self.assertEqual(strict(shown.json["trials"]), strict(with_report["trials"]))
        self.assertAsPublished(shown.json)
        said = self.main()
        self.assertEqual((said.code, said.closing), (0, (16, 16, 40, 0, 0, 0)))
        self.assertIn("report.json is not there", said.out)

    def test_nothing_comes_from_the_report(self) -> None:
        """Canaries in its results change no trial; the exit code is 1 and the line says where the first stands."""
        honest = strict(self.main("--json").json["trials"])
        for at, canary, where in (
            (("result", "answer"), CANARY, "result.answer, at character 0"),
            (("result", "reason"), CANARY, "result.reason, at character 0"),
            (("result", "citations"), [CANARY], "result.citations[0]"),
            (("result", "decisions"), [CANARY], "result.decisions[0]"),
            (("result", "observations"), [CANARY], "result.observations[0]"),
            (("result", "usage"), {CANARY: 1}, f"result.usage.{CANARY}"),
            (("result", "question"), CANARY, "result.question, at character 0"),
            (("checks",), {CANARY: 1}, f"checks.{CANARY}"),
            (("provider_usage",), [{CANARY: 1}], "provider_usage[0]"),
        ):
            with self.subTest(where):
                self.restore()
                report = copy.deepcopy(self.report)
                for trial in report["trials"]:
                    inner = trial
                    for name in at[:-1]:
                        inner = inner[name]
                    inner[at[-1]] = canary
                self.write("report.json", compact(report))
                self.seal()
                shown = self.main("--json")
                self.assertEqual(strict(shown.json["trials"]), honest)
                self.assertEqual((shown.code, len(shown.lines)), (1, 16))
                for trial, line in zip(report["trials"], shown.lines, strict=True):
                    self.assertTrue(line.startswith(trial["id"] + ": "), line)
                    self.assertRegex(line, f"{re.escape(trial['id'])}: .*the report has .* at {re.escape(where)}")

    def test_a_changed_reply_changes_its_trial_and_no_other(self) -> None:
        before = self.main("--json").json["trials"]
        answer = "Call json.dumps and write with encoding utf-8."
        self.write("exchanges.jsonl", written(with_reply(lines_of(self.read("exchanges.jsonl")), LAST, answer=answer)))
        after = self.main("--json").json["trials"]
        changed = [one["id"] for one, other in zip(before, after, strict=True) if strict(one) != strict(other)]
        self.assertEqual(changed, [TRIAL])
        (trial,) = (at for at in after if at["id"] == TRIAL)
        self.assertEqual(trial["result"]["answer"], answer)

    def test_a_replay_tells_the_same_twice_down_to_the_byte(self) -> None:
        self.assertEqual(self.main("--json").out, self.main("--json").out)

    def test_a_replay_needs_no_network_and_no_key_and_is_the_same_anywhere(self) -> None:
        """Two processes with other hash seeds, folders and homes; the one run in this process is equal too."""
        one = self.child("--json", PYTHONHASHSEED="0")
        other = self.child("--json", cwd=self.folder, script="run.py", PYTHONHASHSEED="1", TZ="Asia/Tokyo")
        self.assertEqual((one.code, one.lines), (0, []))
        self.assertEqual(one.out, other.out)
        self.assertEqual(one.json, self.main("--json").json)
        plain = self.child()
        self.assertEqual((plain.code, plain.lines, plain.closing), (0, [], (16, 16, 40, 0, 0, 0)))

    def test_a_replay_writes_nothing(self) -> None:
        for argv in ((), ("--json",), ("--trace",), CHOSEN, ("--recording", "nope")):
            with self.subTest(argv=argv):
                self.main(*argv)
                self.assertEqual(tree(self.folder), {**self.originals})

    def test_a_choice_of_trials_counts_their_exchanges_only(self) -> None:
        for argv, closing in (
            (CHOSEN, (1, 16, 6, 0, 0, 0)),
            (("--case", "newline-version", "--mode", "agent"), (2, 16, 8, 0, 0, 0)),
            (("--mode", "fixed"), (8, 16, 8, 0, 0, 0)),
            (("--repeat", "2"), (8, 16, 21, 0, 0, 0)),
        ):
            with self.subTest(argv=argv):
                shown = self.main(*argv)
                self.assertEqual((shown.code, shown.lines, shown.closing), (0, [], closing))
                self.assertEqual(self.main("--json", *argv).json["replay"], dict(zip(
                    ("trials", "exact", "differing", "missing", "unused"), closing[:1] + closing[2:], strict=True)))

    def assertAsPublished(self, document: dict[str, Any]) -> None:
        """Every fact of every trial, compared by strict JSON text and not by run's own comparison."""
        self.assertEqual([at["id"] for at in document["trials"]], [at["id"] for at in self.report["trials"]])
        self.assertEqual(len(document["trials"]), 16)
        for replayed, published in zip(document["trials"], self.report["trials"], strict=True):
            for name, value in facts(published).items():
                with self.subTest(published["id"], fact=name):
                    self.assertEqual(facts(replayed)[name], value)
        self.assertEqual(strict(document["summary"]), strict({
            mode: {"pass": 4, "fail": fail, "incomplete": stop, "not_measured": 0, "ungraded": 0}
            for mode, fail, stop in (("fixed", 2, 2), ("agent", 3, 1))}))


class Rebuilt(Kit):
    """The recording in the repository is the one that this kit's controller makes of the published decisions."""

    def test_rebuilding_gives_the_very_same_files(self) -> None:
        contents = rebuild.contents()
        self.assertEqual(sorted(contents), sorted(FILES))
        for name, content in contents.items():
            with self.subTest(name):
                same = read(os.path.join(ROOT, "recordings", "published", name)) == content
                self.assertTrue(same, "the file is not what rebuilding gives: python3 -m tests.rebuild")

    def test_the_seal_is_in_the_form_that_sha256sum_reads(self) -> None:
        sums = self.read("SHA256SUMS").decode("ascii")
        self.assertRegex(sums, r"\A([0-9a-f]{64}  [\w.]+\n){3}\Z")
        for line in sums.splitlines():
            digest, name = line.split("  ")
            self.assertEqual(hashlib.sha256(self.read(name)).hexdigest(), digest, name)
        self.assertEqual([line[66:] for line in sums.splitlines()], list(FILES[:3]))
        tool = shutil.which("sha256sum")
        if tool:
            done = subprocess.run(
                [tool, "--strict", "-c", "SHA256SUMS"], cwd=os.path.dirname(self.path("SHA256SUMS")),
                capture_output=True, encoding="utf-8", timeout=60)
            self.assertEqual((done.returncode, done.stdout), (0, "".join(f"{name}: OK\n" for name in FILES[:3])))

    def test_the_40_requests_have_at_most_three_quarters_of_the_earlier_bytes(self) -> None:
        requests = [event["request"] for event in lines_of(self.read("exchanges.jsonl")) if "request" in event]
        self.assertEqual(len(requests), 40)
        self.assertLessEqual(sum(len(compact(request)) for request in requests), 0.75 * EARLIER_BYTES)

    def test_each_request_of_a_trial_extends_the_one_before_it(self) -> None:
        before: dict[str, str] = {}
        extended = 0
        for event in lines_of(self.read("exchanges.jsonl")):
            if event["event"] == "request":
                text = event["request"]["contents"][0]["parts"][0]["text"]
                kept = before.get(event["trial"], "")
                with self.subTest(event["trial"], exchange=event["exchange"]):
                    self.assertTrue(text.startswith(kept))
                extended += bool(kept)
                before[event["trial"]] = text[: text.rindex("\n") + 1]
        self.assertEqual(extended, 40 - 16)

    def test_the_recording_says_in_its_own_words_what_is_published_and_what_is_rebuilt(self) -> None:
        provenance = json.loads(self.read("manifest.json"))["provenance"]
        for word in ("repl", "token usage", "published", "requests", "rebuilt", "not"):
            self.assertIn(word, provenance.lower())


# --- Edits of the exchanges ---------------------------------------------------------------------


def lines_of(content: bytes) -> list[dict[str, Any]]:
    """The events of exchanges.jsonl."""
    return [json.loads(line) for line in content.splitlines()]


def written(events: Iterable[dict[str, Any]]) -> bytes:
    """The bytes of events."""
    return b"".join(compact(event) + b"\n" for event in events)


def place(events: list[dict[str, Any]], number: int) -> int:
    """Where the request of that exchange of the trial stands; its reply is the next line."""
    return next(
        at for at, event in enumerate(events)
        if (event["trial"], event["exchange"], event["event"]) == (TRIAL, number, "request"))


def with_reply(events: list[dict[str, Any]], number: int, **fields: Any) -> list[dict[str, Any]]:
    """The events with fields of one decision changed."""
    part = events[place(events, number) + 1]["response"]["candidates"][0]["content"]["parts"][0]
    part["text"] = compact(json.loads(part["text"]) | fields).decode()
    return events


STOP = {"action": "stop", "query": "", "source_id": "", "answer": "", "citations": []}


class Edit(NamedTuple):
    """An edit of the events at an exchange; what is told, and the trial's counts, as functions of its number."""

    name: str
    change: Callable[[list[dict[str, Any]], int, int], Any]  # (events, where its request stands, number)
    told: Callable[[int], list[str]]
    counts: Callable[[int], tuple[int, int, int, int]] = lambda number: (LAST, 0, 0, 0)


def at(number: int, text: str) -> str:
    """A line of the trial."""
    return f"{TRIAL}: exchange {number}{text}"


def lacking(number: int) -> str:
    """The line for a request that the recording does not have."""
    have = ", ".join(str(other) for other in range(1, LAST + 1) if other != number)
    return at(number, f": it is not in the recording, which has {have}")


def left_over(number: int, reason: str) -> list[str]:
    """The line for all exchanges from that number on, none where there are none."""
    if number > LAST:
        return []
    numbers = f"{number} to {LAST}" if number < LAST else f"{LAST}"
    return [f"{TRIAL}: exchange {numbers}: left over: the trial ended before with {reason}"]


def ended(number: int, reason: str, detail: str = "") -> list[str]:
    """What is told of a trial that ended with that exchange: what is left over, or at the last what the report has,
    which is seen by the reason before the status; of either side 20 characters are shown."""
    both = f'"citation_contract_pa" at result.reason, at character 0, and the replay "{reason[:20]}"'
    return [line + detail for line in left_over(number + 1, reason) or [f"{TRIAL}: the report has {both}"]]


def ends_early(number: int) -> tuple[int, int, int, int]:
    """The counts of a trial that ended with that exchange."""
    return number, 0, 0, LAST - number


def asks_beyond(number: int) -> tuple[int, int, int, int]:
    """The counts of a trial that lacks that exchange."""
    return number - 1, 0, 1, LAST - number


def differs(number: int) -> tuple[int, int, int, int]:
    """The counts of a trial whose request differs there."""
    return number - 1, 1, 0, LAST - number


def misspelled(event: dict[str, Any]) -> dict[str, Any]:
    """The request with `version` misspelled in its first line."""
    part = event["request"]["contents"][0]["parts"][0]
    part["text"] = part["text"].replace('"version"', '"vertion"', 1)
    return event


def difference(number: int) -> str:
    """The line for `misspelled`."""
    both = ('recorded " a UTF-8 file?\\",\\"vertion\\":\\"3.12\\",\\"action"'
            ', now " a UTF-8 file?\\",\\"version\\":\\"3.12\\",\\"action"')
    return at(number, f": the request differs at contents[0].parts[0].text, at character 141: {both}")


def numbered(events: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """Copies of events, as another exchange."""
    return [event | {"exchange": number} for event in events]


def swap(events: list[dict[str, Any]], where: int, one: int, other: int) -> None:
    """Let two runs of neighbouring lines change places."""
    events[where : where + one + other] = events[where + one : where + one + other] + events[where : where + one]


def assessment(events: list[dict[str, Any]], number: int) -> str:
    """The assessment of a recorded decision."""
    text = events[place(events, number) + 1]["response"]["candidates"][0]["content"]["parts"][0]["text"]
    return str(json.loads(text)["assessment"])


WORDS = {1: "ing to a UTF-8 file.", 3: "ensure_ascii=False).", LAST: "ing to a UTF-8 file."}
ASSESSMENTS = {1: 101, 3: 112, LAST: 176}  # their lengths, at which an appended word begins
TOKENS = {1: 557, 3: 826, LAST: 1493}
RESENT = "is doubled: a second request without a retry"

EDITS = (
    Edit("the exchange is missing",
         lambda events, where, number: events.__delitem__(slice(where, where + 2)),
         lambda number: [lacking(number)], asks_beyond),
    Edit("its request is missing",
         lambda events, where, number: events.pop(where),
         lambda number: [at(number, " is missing its request"), lacking(number)], asks_beyond),
    Edit("its reply is missing",
         lambda events, where, number: events.pop(where + 1),
         lambda number: [at(number, ": its reply is missing")], ends_early),
    Edit("all after it is left over, for its reply is a stop",
         lambda events, where, number: with_reply(events, number, **STOP),
         lambda number: ended(number, "model_stopped"), ends_early),
    Edit("one exchange too many stands after it",
         lambda events, where, number: events.__setitem__(
             slice(where + 2, where + 2), numbered(events[where : where + 2], LAST + 1)),
         lambda number: [
             *(at(later, f" is out of order: it stands after exchange {LAST + 1}")
               for later in range(number + 1, LAST + 1)[:1]),  # those behind it follow one another as they should
             at(LAST + 1, ": left over: the trial ended before with citation_contract_passed")],
         lambda number: (LAST, 0, 0, 1)),
    Edit("its two lines are swapped",
         lambda events, where, number: swap(events, where, 1, 1),
         lambda number: [at(number, " is out of order: its response stands before its request")]),
    Edit("it is swapped with its neighbour",
         lambda events, where, number: swap(events, where - 2 * (number == LAST), 2, 2),
         lambda number: [
             at(min(number, LAST - 1), f" is out of order: it stands after exchange {min(number + 1, LAST)}")]),
    Edit("its request is doubled",
         lambda events, where, number: events.insert(where, events[where]),
         lambda number: [at(number, f" {RESENT}")]),
    Edit("its request is sent again behind the reply",
         lambda events, where, number: events.insert(where + 2, events[where]),
         lambda number: [at(number, f" {RESENT}")]),
    Edit("its request is sent a second time without a retry line",
         lambda events, where, number: events.insert(where + 1, events[where] | {"attempt": 2}),
         lambda number: [at(number, f" {RESENT}")]),
    Edit("its reply is doubled",
         lambda events, where, number: events.insert(where + 1, events[where + 1]),
         lambda number: [at(number, " is doubled: a second response")]),
    Edit("both its lines are doubled",
         lambda events, where, number: events.__setitem__(slice(where, where), events[where : where + 2]),
         lambda number: [at(number, f" {RESENT}"), at(number, " is doubled: a second response")]),
    Edit("its request is edited",
         lambda events, where, number: misspelled(events[where]),
         lambda number: [at(number, " was edited: its request does not have the sha256 beside it"), difference(number)],
         differs),
    Edit("its request is edited and the sha256 made anew",
         lambda events, where, number: events[where].update(
             sha256=provider.fingerprint(misspelled(events[where])["request"])),
         lambda number: [difference(number)], differs),
    Edit("only its sha256 is edited",
         lambda events, where, number: events[where].update(sha256="0" * 64),
         lambda number: [at(number, " was edited: its request does not have the sha256 beside it")]),
    Edit("its reply's text is edited",
         lambda events, where, number: with_reply(events, number, assessment=assessment(events, number) + " Indeed."),
         lambda number: [
             f"{TRIAL}: exchange {number}: the report has "
             f"{json.dumps(WORDS[number])} at result.decisions[{number - 1}].assessment, "
             f"at character {ASSESSMENTS[number]}, and the replay {json.dumps(WORDS[number] + ' Indeed.')}"]),
    Edit("its token usage is edited",
         lambda events, where, number: events[where + 1]["response"]["usageMetadata"].update(
             totalTokenCount=TOKENS[number] + 1),
         lambda number: [
             f"{TRIAL}: exchange {number}: the report has {TOKENS[number]} at "
             f"provider_usage[{number - 1}].totalTokenCount, and the replay {TOKENS[number] + 1}"]),
    Edit("its token usage is edited to the same number of another type",
         lambda events, where, number: events[where + 1]["response"]["usageMetadata"].update(
             totalTokenCount=float(TOKENS[number])),
         lambda number: [
             f"{TRIAL}: exchange {number}: the report has {TOKENS[number]} at "
             f"provider_usage[{number - 1}].totalTokenCount, and the replay {TOKENS[number]}.0"]),
    Edit("its time is edited past the trial's",
         lambda events, where, number: events[where + 1].update(elapsed=180.0),
         lambda number: ended(number, "deadline"), ends_early),
    # Between nulls a time says nothing that the report has too: there only the seal tells of it.
    Edit("its time is edited within the trial's",
         lambda events, where, number: events[where + 1].update(elapsed=9.5),
         lambda number: [f"{TRIAL}: the report has 14.977 at elapsed_seconds, and the replay 9.5"][: number == LAST]),
    Edit("its reply is an error",
         lambda events, where, number: events.__setitem__(where + 1, {
             **{name: events[where + 1][name] for name in ("trial", "exchange", "attempt", "elapsed")},
             "event": "error", "kind": "timeout", "status": None, "message": "no reply in 45 s"}),
         lambda number: ended(number, "model_transport_failed", " (no reply in 45 s)"), ends_early),
    Edit("its keys stand in another order",
         lambda events, where, number: events.__setitem__(where, dict(sorted(events[where].items(), reverse=True))),
         lambda number: []),
)


class Edits(Kit):
    """Missing, left over, reordered, doubled and edited exchanges are told apart, by trial and number."""

    def test_each_edit_shows_these_whole_lines_with_the_seal_renewed_and_not(self) -> None:
        for edit in EDITS:
            for where, number in PLACES.items():
                for sealed in (True, False):
                    with self.subTest(edit.name, exchange=where, sealed=sealed):
                        self.restore()
                        events = lines_of(self.read("exchanges.jsonl"))
                        edit.change(events, place(events, number), number)
                        self.write("exchanges.jsonl", written(events))
                        if sealed:
                            self.seal()
                        told = ([] if sealed else [edited("exchanges.jsonl")]) + edit.told(number)
                        others_too = sealed and where == "a middle"  # enough to see that the others are silent
                        shown = self.main() if others_too else self.main(*CHOSEN)
                        self.assertEqual(shown.lines, told)
                        self.assertEqual(shown.code, 1 if told else 0)
                        exact, *others = edit.counts(number)
                        of, beside = (16, 40 - LAST) if others_too else (1, 0)
                        self.assertEqual(shown.closing, (of, 16, beside + exact, *others))
                        saved = {at["exchange"] for at in events if at["trial"] == TRIAL and "request" in at}
                        self.assertEqual(sum(shown.closing[2:]) - shown.closing[4], beside + len(saved))

    def test_the_table_has_every_kind_of_edit(self) -> None:
        lines = [line for edit in EDITS for number in PLACES.values() for line in edit.told(number)]
        for word in ("is missing its request", "its reply is missing", "not in the recording", "left over",
                     "out of order", "doubled", "edited", "differs", "the report has"):
            self.assertTrue(any(word in line for line in lines), word)
        self.assertFalse([line for line in lines if TRIAL not in line])

    def test_a_status_other_than_200_is_told(self) -> None:
        for number in PLACES.values():
            with self.subTest(exchange=number):
                self.restore()
                events = lines_of(self.read("exchanges.jsonl"))
                events[place(events, number) + 1]["status"] = 503
                self.write("exchanges.jsonl", written(events))
                self.seal()
                shown = self.main()
                self.assertEqual((shown.code, len(shown.lines)), (1, 1))
                self.assertRegex(shown.lines[0], rf"^{TRIAL}: .*503")

    def test_a_reply_that_asks_for_something_else_differs_at_the_next_request(self) -> None:
        events = lines_of(self.read("exchanges.jsonl"))
        asked = json.loads(events[place(events, 1) + 1]["response"]["candidates"][0]["content"]["parts"][0]["text"])
        self.write("exchanges.jsonl", written(with_reply(events, 1, query=asked["query"] + " pathlib")))
        self.seal()
        shown = self.main(*CHOSEN)
        self.assertEqual((shown.code, shown.closing, len(shown.lines)), (1, (1, 16, 1, 1, 0, 4), 1))
        self.assertRegex(shown.lines[0], rf"^{TRIAL}: exchange 2: the request differs at contents\[0\].parts\[0\].text")
        self.assertNotIn("changed since the recording", shown.lines[0])

    def test_exchanges_of_a_trial_that_nobody_planned_are_left_over(self) -> None:
        for name in ("ghost-agent-1", f"{TRIAL[:-1]}3", "", "\x1b[2J"):
            with self.subTest(name):
                self.restore()
                events = lines_of(self.read("exchanges.jsonl"))
                ghosts = [event | {"trial": name} for event in events[:2]]
                self.write("exchanges.jsonl", written(events + ghosts))
                self.seal()
                shown = self.main()
                shown_name = name if name.isprintable() else "\\x1b[2J"
                line = f"{shown_name}: its exchanges are left over: the plan has no such trial"
                self.assertEqual((shown.code, shown.lines), (1, [line]))
                self.assertEqual(shown.closing[:5], (16, 16, 40, 0, 0))

    def test_what_is_left_over_is_told_in_the_order_of_the_file(self) -> None:
        names = [f"{name}-fixed-1" for name in ("zebra", "ape", "newt", "bee", "yak", "cat")]
        events = lines_of(self.read("exchanges.jsonl"))
        ghosts = [event | {"trial": name} for name in names for event in events[:2]]
        self.write("exchanges.jsonl", written(ghosts + events))
        self.seal()
        self.assertEqual([line.partition(":")[0] for line in self.main().lines], names)

    def test_an_edit_of_a_trial_that_was_not_chosen_is_told_by_the_seal_only(self) -> None:
        events = lines_of(self.read("exchanges.jsonl"))
        self.write("exchanges.jsonl", written(with_reply(events, 1, assessment="Other.")))
        shown = self.main("--case", "overwrite")
        self.assertEqual((shown.code, shown.lines), (1, [edited("exchanges.jsonl")]))

    def test_white_space_and_line_ends_are_told_by_the_seal_only(self) -> None:
        for name, content in {
            "spaces": b"".join(json.dumps(event).encode() + b"\n" for event in lines_of(self.read("exchanges.jsonl"))),
            "CR LF": self.read("exchanges.jsonl").replace(b"\n", b"\r\n"),
        }.items():
            with self.subTest(name):
                self.restore()
                self.write("exchanges.jsonl", content)
                shown = self.main()
                self.assertEqual((shown.code, shown.lines), (1, [edited("exchanges.jsonl")]))
                self.assertEqual(shown.closing, (16, 16, 40, 0, 0, 0))
                self.seal()
                self.assertEqual(self.main().code, 0)

    def test_the_document_of_a_difference_says_where_and_has_all_trials(self) -> None:
        for name, number, error in (
            ("its request is edited and the sha256 made anew", 3, {"exchange": 3, "reason": "replay_request_mismatch"}),
            ("the exchange is missing", 3, {"exchange": 3, "reason": "replay_exhausted"}),
            ("all after it is left over, for its reply is a stop", 3,
             {"exchange": 4, "reason": "replay_unused_exchanges"}),
            ("its reply is missing", 3, {"exchange": 3, "reason": "reply_in_doubt"}),
            ("its request is doubled", LAST, {"exchange": LAST}),
        ):
            for sealed in (True, False):
                with self.subTest(name, sealed=sealed):
                    self.restore()
                    (edit,) = (at for at in EDITS if at.name == name)
                    events = lines_of(self.read("exchanges.jsonl"))
                    edit.change(events, place(events, number), number)
                    self.write("exchanges.jsonl", written(events))
                    if sealed:
                        self.seal()
                    shown = self.main("--json")
                    document = shown.json
                    told = edit.told(number)
                    self.assertEqual(document["error"], {"code": 1, "message": told[0], "trial": TRIAL, **error})
                    self.assertEqual(len(document["trials"]), 16)
                    self.assertEqual(shown.lines, ([] if sealed else [edited("exchanges.jsonl")]) + told)

    def test_a_trial_that_differs_says_so_itself_and_the_line_says_where(self) -> None:
        events = lines_of(self.read("exchanges.jsonl"))
        events[place(events, 3)]["sha256"] = provider.fingerprint(misspelled(events[place(events, 3)])["request"])
        self.write("exchanges.jsonl", written(events))
        self.seal()
        shown = self.main("--json", *CHOSEN)
        self.assertEqual(shown.lines, [difference(3)])
        (trial,) = shown.json["trials"]
        self.assertEqual(trial["detail"], "exchange 3 is not the recorded request")
        self.assertEqual((trial["result"]["status"], trial["result"]["reason"], trial["checks"]["outcome"]),
                         ("failed", "replay_request_mismatch", "not_measured"))

    def test_where_no_trial_is_named_the_error_is_the_first_line(self) -> None:
        self.write("report.json", self.read("report.json") + b" ")
        shown = self.main("--json")
        self.assertEqual(shown.json["error"], {"code": 1, "message": edited("report.json")})
        self.assertEqual((shown.code, shown.lines), (1, [edited("report.json")]))

    def test_a_reply_that_the_report_knows_to_be_in_doubt_is_no_difference(self) -> None:
        """A run that was gone on with past a lost reply lists it; the trial is then compared as any other."""
        events = lines_of(self.read("exchanges.jsonl"))
        del events[place(events, LAST) + 1]
        self.write("exchanges.jsonl", written(events))
        self.remove("report.json", "SHA256SUMS")
        report = self.main("--json").json
        for in_doubt, lines in (
            ([f"{TRIAL} exchange {LAST}"], []), ([], [at(LAST, ": its reply is missing")]),
            (None, [at(LAST, ": its reply is missing")]),
        ):
            with self.subTest(in_doubt=in_doubt):
                self.write("report.json", compact(report | ({} if in_doubt is None else {"in_doubt": in_doubt})))
                self.seal()
                shown = self.main()
                self.assertEqual((shown.code, shown.lines), (1 if lines else 0, lines))
                self.assertEqual(shown.closing, (16, 16, 40, 0, 0, 0))


class Damage(Kit):
    """A finished recording that cannot be read is exit code 2, the file and the line; nothing is replayed."""

    def test_each_damage_shows_this_whole_line(self) -> None:
        field = "the {} event has a wrong, missing or unknown field {}"
        for name, offset, change, told in (
            ("cut in half", 0, lambda line: line[: len(line) // 2], None),
            ("cut in half", 1, lambda line: line[: len(line) // 2], None),
            ("not JSON", 0, lambda line: b"hello", "Expecting value: line 1 column 1 (char 0)"),
            ("blank", 1, lambda line: b"", "Expecting value: line 1 column 1 (char 0)"),
            ("two values", 1, lambda line: line + line, None),
            ("NaN", 1, lambda line: line.replace(b":200", b":NaN"), '"NaN" is not a number that can be kept'),
            ("1e999", 1, lambda line: line.replace(b":200", b":1e999"), '"1e999" is not a number that can be kept'),
            ("another event", 0, lambda line: b'{"event":"question"}', 'not an event: {"event": "question"}'),
            ("no object", 1, lambda line: b"[1]", "not an event: [1]"),
            ("an unknown field", 0, lambda line: b'{"header":"x",' + line[1:], field.format("request", '"header"')),
            ("a missing field", 1, lambda line: line.replace(b'"status":200,', b""),
             field.format("response", '"status"')),
            ("a wrong type", 1, lambda line: line.replace(b'"status":200', b'"status":"200"'),
             field.format("response", '"status"')),
            ("the exchange before the first", 0, lambda line: re.sub(rb'"exchange":\d', b'"exchange":0', line),
             field.format("request", '"exchange"')),
            ("no reply in the reply", 1, lambda line: re.sub(rb',"response":.*', b"}", line),
             field.format("response", '"response"')),
        ):
            for where, number in PLACES.items():
                for sealed in (False, True)[: 1 + (where == "a middle")]:  # the seal is not looked at
                    with self.subTest(name, exchange=where, line=("request", "response")[offset], sealed=sealed):
                        line, after = self.damage(number, offset, change)
                        if sealed:
                            self.seal()
                        expected = told or self.complaint(self.read("exchanges.jsonl").splitlines()[line - 1])
                        self.assertDamaged(f"line {line} (after {after}): {expected}")

    def test_a_doubled_key_and_bytes_that_are_no_text_are_damage_too(self) -> None:
        for name, change, told in (
            ("a doubled key", lambda line: b'{"event":"request",' + line[1:], "a key stands twice"),
            ("a doubled key inside", lambda line: line.replace(b'"role":"user"', b'"role":"x","role":"user"'),
             "a key stands twice"),
            ("not UTF-8", lambda line: line.replace(b"request", b"\xff"), "'utf-8' codec can't decode byte 0xff"),
            ("half an emoji", lambda line: line.replace(b'"trial":"', b'"trial":"\\ud83d'), "surrogates not allowed"),
            ("too deep", lambda line: b"[" * 40 + b"]" * 40, "nested deeper than 32"),
            ("much too deep", lambda line: b"[" * 100_000, ""),
            ("a long number", lambda line: line.replace(b'"attempt":1', b'"attempt":' + b"9" * 5_000), "number"),
        ):
            for where, number in PLACES.items():
                with self.subTest(name, exchange=where):
                    line, after = self.damage(number, 0, change)
                    shown = self.main()
                    self.assertMistaken(shown, rf"^{re.escape(self.where())}, line {line} \(after {after}\): ")
                    self.assertIn(told, shown.lines[0])
                    self.assertLess(len(shown.lines[0]), 400)

    def test_a_last_line_without_its_end_is_damage(self) -> None:
        events = lines_of(self.read("exchanges.jsonl"))
        for number in PLACES.values():
            first = place(events, number)
            for kept in (first + 1, first + 2):
                for cut in (1, 40):
                    with self.subTest(exchange=number, lines=kept, cut=cut):
                        self.write("exchanges.jsonl", written(events[:kept])[:-cut])
                        self.assertDamaged(f"line {kept}: it has no end")

    def test_an_empty_file_beside_a_report_is_damage_and_not_no_calls(self) -> None:
        self.write("exchanges.jsonl", b"")
        for sealed in (False, True):
            with self.subTest(sealed=sealed):
                if sealed:
                    self.seal()
                self.assertDamaged("line 1: empty file")

    def test_damage_is_one_document_with_json(self) -> None:
        self.write("exchanges.jsonl", b"")
        shown = self.main("--json")
        self.assertEqual((shown.code, shown.json), (2, {"error": {"code": 2, "message": shown.lines[0]}}))

    def damage(self, number: int, offset: int, change: Callable[[bytes], bytes]) -> tuple[int, str]:
        """Damage a line of an exchange; its number in the file, and what stands before it."""
        self.restore()
        lines = self.read("exchanges.jsonl").splitlines()
        events = [json.loads(line) for line in lines]
        where = place(events, number) + offset
        lines[where] = change(lines[where])
        self.write("exchanges.jsonl", b"".join(line + b"\n" for line in lines))
        before = events[where - 1]
        return where + 1, f"{before['trial']} {before['exchange']} {before['event']}"

    def complaint(self, line: bytes) -> str:
        """What the standard library says of a line that is not JSON."""
        with self.assertRaises(ValueError) as raised:
            json.loads(line)
        return str(raised.exception)

    def where(self) -> str:
        """The file, as messages name it."""
        return os.path.join("recordings", "published", "exchanges.jsonl")

    def assertDamaged(self, told: str) -> None:
        """Exit code 2, that whole line, and the file as it was."""
        before = self.read("exchanges.jsonl")
        shown = self.main()
        self.assertEqual(shown.lines, [f"{self.where()}, {told}; the recording is damaged: restore the file"])
        self.assertEqual((shown.code, shown.out), (2, ""))
        self.assertEqual(self.read("exchanges.jsonl"), before)


# --- Edits of the inputs ------------------------------------------------------------------------


def replace(names: tuple[Any, ...], old: str, new: str) -> Callable[[Any], None]:
    """A change of one text deep in a JSON value."""

    def change(value: Any) -> None:
        for name in names[:-1]:
            value = value[name]
        assert old in value[names[-1]]
        value[names[-1]] = value[names[-1]].replace(old, new, 1)

    return change


def update(name: str, change: dict[str, Any], value: dict[str, Any]) -> None:
    """Change fields of an object, or of the one that stands in it by that name."""
    (value[name] if name else value).update(change)


def split(one: str, other: str) -> int:
    """The place of the first character in which two texts differ."""
    return next(at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)


def rehash(document: dict[str, Any]) -> None:
    """Give every passage the hash of its text."""
    for passage in document["passages"]:
        passage["text_sha256"] = hashlib.sha256(passage["text"].encode()).hexdigest()


def forget(passage: dict[str, Any]) -> None:
    """Let a passage have another hash than its text's."""
    passage["text_sha256"] = "0"


class Inputs(Kit):
    """Whatever a request is made from: a change is seen at the first request that shows it, and its input is named."""

    USER = "contents[0].parts[0].text"
    CONFIG = "generationConfig"

    def test_a_changed_text_is_located_and_its_input_named(self) -> None:
        for name, file, at, old, new, exchange, changed in (
            ("the question", "cases.json", ("cases", 1, "question"), "UTF-8 file", "UTF-16 file", 1, "cases"),
            ("the version", "cases.json", ("cases", 1, "version"), "3.12", "3.13", 1, "cases"),
            ("a passage", "snapshot.json", ("passages", 1, "text"), "a JSON string", "one JSON string", 3, "snapshot"),
        ):
            with self.subTest(name):
                self.restore()
                self.edit(file, replace(at, old, new))
                if file == "snapshot.json":
                    self.edit(file, rehash)
                shown = self.main(*CHOSEN)
                text = self.recorded(exchange)["contents"][0]["parts"][0]["text"]
                before = text.index('"version"') if name == "the version" else 0
                where = split(text, text[:before] + text[before:].replace(old, new, 1))
                self.assertLocated(shown, exchange, f"{self.USER}, at character {where}", changed)
                for side in (old, new):
                    self.assertIn(side, shown.lines[0])
                self.assertEqual(shown.closing, (1, 16, exchange - 1, 1, 0, LAST - exchange))

    def test_a_changed_title_is_located(self) -> None:
        self.edit("snapshot.json", lambda document: document["passages"][1].update(title="JSON"))
        self.assertLocated(self.main(*CHOSEN), 2, self.USER, "snapshot")

    def test_a_changed_prompt_is_located(self) -> None:
        prompt = provider.PROMPT.replace("passage", "PASSAGE", 1)
        where = split(prompt, provider.PROMPT)
        with mock.patch.object(provider, "PROMPT", prompt):
            shown = self.main(*CHOSEN)
        self.assertLocated(shown, 1, f"systemInstruction.parts[0].text, at character {where}", "prompt")

    def test_a_changed_schema_is_located(self) -> None:
        for name, change, where in (
            ("another keyword", lambda schema: schema.update(additionalProperties=False), "additionalProperties"),
            ("a field less", lambda schema: schema["required"].pop(), "required[5]"),
            ("an action more", lambda schema: schema["properties"]["action"]["enum"].append("wait"),
             "properties.action.enum[4]"),
            ("another type", lambda schema: schema["properties"].update(citations={"type": "string"}),
             "properties.citations."),
        ):
            with self.subTest(name):
                schema = copy.deepcopy(provider.SCHEMA)
                change(schema)
                with mock.patch.object(provider, "SCHEMA", schema):
                    shown = self.main(*CHOSEN)
                self.assertLocated(shown, 1, f"{self.CONFIG}.responseJsonSchema.{where}", "schema")

    def test_changed_settings_are_located(self) -> None:
        for name, change, where, both in (
            ("a number", {"maxOutputTokens": 2048}, "maxOutputTokens", "recorded 1024, now 2048"),
            ("0 as 0.0", {"temperature": 0.0}, "temperature", "recorded 0, now 0.0"),
            ("0 as false", {"temperature": False}, "temperature", "recorded 0, now false"),
            ("null for absent", {"seed": None}, "seed", "recorded (absent), now null"),
        ):
            for sealed in (True, False):
                with self.subTest(name, sealed=sealed):
                    self.restore()
                    self.edit("manifest.json", functools.partial(update, "config", change))
                    if sealed:
                        self.seal()
                    shown = self.main(*CHOSEN)
                    line = at(1, f": the request differs at {self.CONFIG}.{where}: {both}")
                    seal = [] if sealed else [edited("manifest.json")]
                    self.assertEqual(shown.lines, [*seal, f"{line}; changed since the recording: config"])
                    self.assertEqual((shown.code, shown.closing), (1, (1, 16, *differs(1))))

    def test_another_number_of_candidates_or_other_limits_are_located(self) -> None:
        """Nothing is hashed for these: they stand in the manifest itself, whose edit the seal tells."""
        for name, change, exchange in (
            ("candidates", lambda manifest: manifest.update(candidates=1), 2),
            ("limits", lambda manifest: manifest["limits"].update(searches=2), 1),
        ):
            for sealed in (True, False):
                with self.subTest(name, sealed=sealed):
                    self.restore()
                    self.edit("manifest.json", change)
                    if sealed:
                        self.seal()
                    shown = self.main(*CHOSEN)
                    self.assertLocated(shown, exchange, self.USER, "")
                    self.assertEqual(shown.lines[:-1], [] if sealed else [edited("manifest.json")])

    def test_several_changed_inputs_are_all_named(self) -> None:
        self.edit("cases.json", replace(("cases", 1, "question"), "UTF-8", "UTF-16"))
        self.edit("snapshot.json", replace(("passages", 2, "url"), "3.12", "3.11"))
        with mock.patch.object(provider, "PROMPT", provider.PROMPT + "."):
            shown = self.main(*CHOSEN)
        self.assertRegex(shown.lines[0], "; changed since the recording: prompt, cases, snapshot$")

    def test_a_change_in_the_code_itself_is_seen_by_a_process(self) -> None:
        code = self.read("provider.py").decode()
        self.assertEqual(code.count("Candidate ids"), 1)
        self.write("provider.py", code.replace("Candidate ids", "The ids"))
        shown = self.child(*CHOSEN)
        self.assertLocated(shown, 1, "systemInstruction.parts[0].text, at character", "prompt")

    def test_a_passage_that_does_not_have_its_hash_is_refused_by_passage_and_field(self) -> None:
        self.edit("snapshot.json", replace(("passages", 1, "text"), "a JSON string", "one JSON string"))
        self.assertMistaken(self.main(*CHOSEN), "^snapshot.json: passage 'json-text': text_sha256: ")

    def test_all_faults_of_a_file_are_told_at_once(self) -> None:
        self.edit("snapshot.json", lambda document: list(map(forget, document["passages"])) and None)
        shown = self.main()
        self.assertEqual((shown.code, shown.out, len(shown.lines)), (2, "", 4))

    def test_an_address_or_a_label_enters_no_request_but_the_report_shows_it(self) -> None:
        for name, file, change, where in (
            ("an address", "snapshot.json", replace(("passages", 1, "url"), "3.12", "3.11"),
             r"result\.citations\[0\]\.url"),
            ("a label", "cases.json", lambda document: document["cases"][1].update(answer_patterns=["zebra"]),
             r"checks\."),
        ):
            with self.subTest(name):
                self.restore()
                self.edit(file, change)
                shown = self.main(*CHOSEN)
                self.assertEqual((shown.code, shown.closing, len(shown.lines)), (1, (1, 16, 6, 0, 0, 0), 2))
                self.assertRegex(shown.lines[0], rf"^{TRIAL}: the report has .* at {where}")
                self.assertEqual(shown.lines[1], f"changed since the recording: {file.removesuffix('.json')}")
                error = self.main("--json", *CHOSEN).json["error"]
                self.assertEqual(error, {"code": 1, "message": shown.lines[0], "trial": TRIAL})

    def test_a_changed_input_that_no_request_and_no_result_shows_is_told_by_its_name(self) -> None:
        """One line, exit code 1, and all that was chosen is exact; the trials are those of the recording."""
        before = strict(self.main("--json", *CHOSEN).json["trials"])
        text = "Of another version."
        other = {"source_id": "later", "version": "9", "text": text, "url": "https://docs.invalid/9",
                 "text_sha256": hashlib.sha256(text.encode()).hexdigest()}
        rows: tuple[tuple[str, str, dict[str, Any]], ...] = (
            ("a label that grades alike", "cases", {
                "cases.json": lambda document: document["cases"][1]["answer_patterns"].append(".")}),
            ("a label of another case", "cases", {
                "cases.json": lambda document: document["cases"][3].update(sources=["path-read"])}),
            ("the question of another case", "cases", {
                "cases.json": replace(("cases", 0, "question"), "append", "prepend")}),
            ("a case more", "cases", {
                "cases.json": lambda document: document["cases"].append(document["cases"][0] | {"id": "more"})}),
            ("a passage of another version", "snapshot", {
                "snapshot.json": lambda document: document["passages"].append(other)}),
            ("the address of a passage that nobody asked for", "snapshot", {
                "snapshot.json": replace(("passages", 3, "url"), "3.13", "3.14")}),
            ("both", "cases, snapshot", {
                "cases.json": lambda document: document["cases"][1]["forbidden_patterns"].append("zebra"),
                "snapshot.json": replace(("passages", 3, "url"), "3.13", "3.14")}),
            ("a hash in the manifest", "prompt", {
                "manifest.json": lambda manifest: manifest["hashes"].update(prompt="0" * 64)}),
            ("a hash that the manifest lacks", "schema", {
                "manifest.json": lambda manifest: manifest["hashes"].pop("schema") and None}),
        )
        for name, changed, changes in rows:
            with self.subTest(name):
                self.restore()
                for file, change in changes.items():
                    self.edit(file, change)
                self.seal()
                shown = self.main(*CHOSEN)
                line = f"changed since the recording: {changed}"
                self.assertEqual((shown.code, shown.lines, shown.closing), (1, [line], (1, 16, 6, 0, 0, 0)))
                document = self.main("--json", *CHOSEN).json
                self.assertEqual(document["error"], {"code": 1, "message": line})
                self.assertEqual(strict(document["trials"]), before)

    def test_the_split_is_an_input_that_only_the_fingerprint_shows(self) -> None:
        self.edit("cases.json", lambda document: document["cases"][1].update(split="held-out"))
        shown = self.main()
        self.assertEqual((shown.code, shown.lines), (1, ["changed since the recording: cases"]))
        self.assertEqual(shown.closing, (16, 16, 40, 0, 0, 0))

    def test_where_a_request_differs_its_line_alone_names_what_changed(self) -> None:
        """Also where another trial differs than those whose input changed."""
        self.edit("cases.json", replace(("cases", 1, "question"), "UTF-8", "UTF-16"))
        shown = self.main()
        self.assertEqual((shown.code, len(shown.lines), shown.closing), (1, 4, (16, 16, 26, 4, 0, 10)))
        for line in shown.lines:
            self.assertRegex(line, r"^serialize-and-save-\w+-\d: exchange 1: the request differs at .*"
                                   r"; changed since the recording: cases$")

    def test_key_order_and_white_space_make_no_difference(self) -> None:
        """Of the top-level files none at all; of sealed ones the seal tells, and no trial changes."""
        before = strict(self.main("--json").json["trials"])
        for name in ("cases.json", "snapshot.json", "manifest.json", "report.json"):
            for indent in (None, 7):
                with self.subTest(name, indent=indent):
                    self.restore()
                    value = json.loads(self.read(name))
                    self.write(name, json.dumps(value, sort_keys=True, indent=indent).replace("\n", "\r\n"))
                    shown = self.main("--json")
                    self.assertEqual(shown.lines, [edited(name)] if name in FILES else [])
                    self.assertEqual(strict(shown.json["trials"]), before)
                    if name in FILES:
                        self.assertEqual(shown.code, 1)
                        self.seal()
                        shown = self.main()
                    self.assertEqual((shown.code, shown.lines), (0, []))

    def recorded(self, number: int) -> dict[str, Any]:
        """A recorded request of the trial."""
        events = lines_of(self.read("exchanges.jsonl"))
        return dict(events[place(events, number)]["request"])

    def assertLocated(self, shown: Shown, exchange: int, where: str, changed: str) -> None:
        """Exit code 1, and one line that says where the request differs and which input changed."""
        self.assertEqual(shown.code, 1)
        start = at(exchange, f": the request differs at {where}")
        self.assertTrue(shown.lines[-1].startswith(start), (shown.lines, start))
        self.assertRegex(shown.lines[-1], r": recorded .*, now ")
        found = shown.lines[-1].partition("; changed since the recording: ")[2]
        self.assertEqual(found, changed)


# --- Exit codes ---------------------------------------------------------------------------------


class ExitCodes(Kit):
    """What a person gave that cannot be replayed is one line and exit code 2; what was edited is exit code 1."""

    def test_a_recording_or_trial_that_is_not_there_is_named(self) -> None:
        os.mkdir(os.path.join(self.folder, "recordings", "hollow"))
        manifest = re.escape(os.path.join("recordings", "hollow", "manifest.json"))
        for argv, line in (
            (("--recording", "nope"), '^no recording "nope": give one of hollow, published, or a folder\'s path$'),
            (("--recording", "recordings/nope"), '^no recording "recordings/nope": give one of '),
            (("--recording", "hollow"), f"^{manifest}: No such file or directory$"),
            (("--case", "nope", "--mode", "agent", "--repeat", "1"),
             '^no case "nope"; there are overwrite, serialize-and-save, newline-version, unsupported$'),
            (("--case", "overwrite", "--repeat", "3"), "^no repeat 3; there are 1, 2$"),
            (("--repeat", "two"), "^argument --repeat: invalid int value: 'two'"),
            (("--mode", "both"), "^argument --mode: invalid choice: 'both'"),
            (("--bogus",), "^unrecognized arguments: --bogus"),
        ):
            with self.subTest(argv=argv):
                self.assertMistaken(self.main(*argv), line)

    def test_a_file_that_is_lacking_is_named(self) -> None:
        for name in ("manifest.json", "exchanges.jsonl", "cases.json", "snapshot.json"):
            with self.subTest(name):
                self.restore()
                self.remove(name)
                self.assertMistaken(self.main(), f"{re.escape(name)}: No such file or directory$")

    def test_a_folder_in_place_of_a_file_is_named(self) -> None:
        for name in ("manifest.json", "exchanges.jsonl", "report.json", "SHA256SUMS"):
            with self.subTest(name):
                self.restore()
                self.remove(name)
                os.mkdir(self.path(name))
                self.assertMistaken(self.main(), re.escape(name))

    def test_without_a_recordings_folder_there_is_a_line_and_no_traceback(self) -> None:
        shutil.rmtree(os.path.join(self.folder, "recordings"))
        for argv in ((), ("--recording", "nope")):
            with self.subTest(argv=argv):
                self.assertMistaken(self.main(*argv), "no recording")

    def test_a_manifest_of_another_format_or_shape_is_refused_by_field(self) -> None:
        for name, change, line in (
            ("another format", lambda manifest: manifest.update(format=2), "format"),
            ("a format that is a text", lambda manifest: manifest.update(format="1"), "format"),
            ("a format that is true", lambda manifest: manifest.update(format=True), "format"),
            ("a list", lambda manifest: [manifest], "object"),
            ("null", lambda manifest: [], "object"),
            ("a field less", lambda manifest: manifest.pop("model") and None, "model"),
            ("a field more", lambda manifest: manifest.update(header="x"), "header"),
            ("config a list", lambda manifest: manifest.update(config=[]), "config"),
            ("cases a text", lambda manifest: manifest.update(cases="overwrite"), "cases"),
            ("a case that is a number", lambda manifest: manifest.update(cases=[1]), "cases"),
            ("a case that is a list", lambda manifest: manifest.update(cases=[[]]), "cases"),
            ("a case twice", lambda manifest: manifest["cases"].append("overwrite"), "cases"),
            ("hashes a list", lambda manifest: manifest.update(hashes=[]), "hashes"),
            ("limits null", lambda manifest: manifest.update(limits=None), "limits"),
            ("an unknown limit", lambda manifest: manifest["limits"].update(tries=3),
             '^{}: no limit has the name "tries"; there are model_calls, searches, reads, source_bytes, seconds$'),
            ("a limit too large", lambda manifest: manifest["limits"].update(seconds=301),
             "^{}: invalid_limits: seconds is 301; it can be a whole number, 1 to 300$"),
            ("a limit that is true", lambda manifest: manifest["limits"].update(reads=True), "reads is true"),
            ("no candidates", lambda manifest: manifest.update(candidates=0), "candidates"),
            ("too many candidates", lambda manifest: manifest.update(candidates=11), "candidates"),
            ("no repeats", lambda manifest: manifest.update(repeats=0), "repeats"),
            ("a great many repeats", lambda manifest: manifest.update(repeats=10**9), "repeats"),
            ("no modes", lambda manifest: manifest.update(modes=[]), "mode|path"),
            ("another mode", lambda manifest: manifest.update(modes=["both"]), "both"),
            ("a mode that is a list", lambda manifest: manifest.update(modes=[["agent"]]), "mode|path"),
            ("a mode twice", lambda manifest: manifest["modes"].append("agent"), "modes"),
            ("no budget", lambda manifest: manifest.__delitem__("budget"), "manifest.budget is missing"),
            ("a budget that is a list", lambda manifest: manifest.update(budget=[]), "manifest.budget must be"),
            ("a budget of something else", lambda manifest: manifest.update(budget={"calls": 1}), "budget has an unkn"),
            ("a hash that is a number", lambda manifest: manifest["hashes"].update(prompt=1), "hashes are not all str"),
            ("a hash that is null", lambda manifest: manifest["hashes"].update(more=None), "hashes are not all strin"),
            ("no output tokens", lambda manifest: manifest["config"].pop("maxOutputTokens") and None,
             "maxOutputTokens is null: 1 to 65536$"),
            ("0 output tokens", lambda manifest: manifest["config"].update(maxOutputTokens=0),
             "maxOutputTokens is 0: 1 to 65536$"),
            ("too many output tokens", lambda manifest: manifest["config"].update(maxOutputTokens=65_537),
             "maxOutputTokens is 65537: 1 to 65536$"),
            ("output tokens that are true", lambda manifest: manifest["config"].update(maxOutputTokens=True),
             "maxOutputTokens is true: 1 to 65536$"),
            ("output tokens in a text", lambda manifest: manifest["config"].update(maxOutputTokens="1024"),
             'maxOutputTokens is "1024": 1 to 65536$'),
            ("a temperature too low", lambda manifest: manifest["config"].update(temperature=-0.1),
             "temperature is -0.1: 0 to 2$"),
            ("a temperature too high", lambda manifest: manifest["config"].update(temperature=2.1),
             "temperature is 2.1: 0 to 2$"),
        ):
            with self.subTest(name):
                self.restore()
                self.edit("manifest.json", change)
                self.seal()
                place = re.escape(os.path.join("recordings", "published", "manifest.json"))
                whole = line.startswith("^{}")
                self.assertMistaken(self.main(), line.replace("{}", place) if whole else f"^{place}: .*({line})")

    def test_the_bounds_of_a_manifest_can_be_reached(self) -> None:
        """Another number of output tokens is another request, and that is all that is said of it."""
        for name, settings in (
            ("fewest", {"maxOutputTokens": 1}), ("most", {"maxOutputTokens": 65_536}), ("warmest", {"temperature": 2}),
        ):
            with self.subTest(name):
                self.restore()
                self.edit("manifest.json", functools.partial(update, "config", settings))
                self.seal()
                shown = self.main(*CHOSEN)
                self.assertEqual((shown.code, len(shown.lines), shown.closing), (1, 1, (1, 16, 0, 1, 0, 5)))
                self.assertRegex(shown.lines[0], "; changed since the recording: config$")
        for budget in ({}, {"tokens": 1000}, {"cost": 0.5, "prices": [1.5, 9]}):
            with self.subTest(budget=budget):
                self.restore()
                self.edit("manifest.json", functools.partial(update, "", {"budget": budget}))
                self.seal()
                shown = self.main()
                self.assertEqual((shown.code, shown.lines, shown.closing), (0, [], (16, 16, 40, 0, 0, 0)))

    def test_a_mistake_with_a_named_reason_carries_it_in_the_document(self) -> None:
        for name, change, reason in (
            ("a limit", lambda manifest: manifest["limits"].update(seconds=301), {"reason": "invalid_limits"}),
            ("candidates", lambda manifest: manifest.update(candidates=0), {"reason": "invalid_limits"}),
            ("a mode", lambda manifest: manifest.update(modes=["both"]), {"reason": "invalid_mode"}),
            ("a format", lambda manifest: manifest.update(format=2), {}),
            ("an unknown limit", lambda manifest: manifest["limits"].update(tries=3), {}),
        ):
            with self.subTest(name):
                self.restore()
                self.edit("manifest.json", change)
                shown = self.main("--json")
                self.assertEqual((shown.code, len(shown.lines)), (2, 1))
                self.assertEqual(shown.json, {"error": {"code": 2, "message": shown.lines[0], **reason}})

    def test_a_manifest_that_is_not_json_is_refused(self) -> None:
        for content in (b"", b"{", b"\xff\xff", b'{"format": 1, "format": 1}', b"[" * 100_000, b'{"format": NaN}'):
            with self.subTest(content=content[:20]):
                self.write("manifest.json", content)
                self.assertMistaken(self.main(), r"manifest.json: .*JSON")

    def test_a_plan_that_has_no_trial_or_an_unknown_case_is_refused(self) -> None:
        for cases, line in (
            ([], "manifest.json: format is to be 1, repeats 1 to 100, and modes and cases not empty$"),
            (["overwrite", "nope"], "^recording published has the case nope, and the cases file does not: a replay "),
        ):
            with self.subTest(cases=cases):
                self.restore()
                self.edit("manifest.json", functools.partial(update, "", {"cases": cases}))
                self.assertMistaken(self.main(), line)

    def test_a_report_that_is_none_is_refused_and_a_trial_it_lacks_is_told(self) -> None:
        for content in (b"", b"null", b"{}", b"[]", b'{"trials": {}}', b'{"trials": [1]}', b'{"trials": [{"id": 1}]}',
                        b'{"trials": [], "in_doubt": 5}', b'{"trials": [], "in_doubt": "overwrite-fixed-1"}'):
            with self.subTest(content=content):
                self.write("report.json", content)
                self.assertMistaken(self.main(), "report.json: ")
        self.write("report.json", b'{"trials": []}')
        self.seal()
        shown = self.main(*CHOSEN)
        self.assertEqual((shown.code, shown.lines), (1, [f"{TRIAL}: the report does not have this trial"]))

    def test_a_trial_that_the_report_has_and_the_plan_has_not_is_told(self) -> None:
        """Or has twice: whichever trials are chosen, each name once, in the order of the report."""
        def more(*names: str, first: bool = False) -> Callable[[dict[str, Any]], None]:
            def change(report: dict[str, Any]) -> None:
                added = [copy.deepcopy(report["trials"][0]) | {"id": name} for name in names]
                report["trials"][0 if first else 16 : 0 if first else 16] = added
            return change

        def again(times: int) -> Callable[[dict[str, Any]], None]:
            def change(report: dict[str, Any]) -> None:
                report["trials"] += [trial for trial in report["trials"] if trial["id"] == TRIAL] * times
            return change

        for name, change, told in (
            ("one more", more("ghost-agent-1"), ["ghost-agent-1"]),
            ("a repeat more", more(f"{TRIAL[:-1]}3"), [f"{TRIAL[:-1]}3"]),
            ("in front", more("ghost-agent-1", first=True), ["ghost-agent-1"]),
            ("several", more("zebra-fixed-1", "ape-fixed-1", "zebra-fixed-1"), ["zebra-fixed-1", "ape-fixed-1"]),
            ("no name", more(""), [""]),
            ("twice", again(1), [TRIAL]),
            ("three times", again(2), [TRIAL]),
        ):
            for argv, closing in (((), (16, 16, 40, 0, 0, 0)), (CHOSEN, (1, 16, 6, 0, 0, 0))):
                with self.subTest(name, argv=argv):
                    self.restore()
                    self.edit("report.json", change)
                    self.seal()
                    shown = self.main(*argv)
                    lines = [f"{one}: the report has a trial too many of that name" for one in told]
                    self.assertEqual((shown.code, shown.lines, shown.closing), (1, lines, closing))
                    error = {"code": 1, "message": lines[0]} | ({"trial": told[0]} if told[0] else {})
                    self.assertEqual(self.main("--json", *argv).json["error"], error)

    def test_the_seal_tells_of_every_file(self) -> None:
        for name in FILES[:3]:
            with self.subTest(name):
                self.restore()
                self.write(name, self.read(name).replace(b"{", b"{ ", 1))
                shown = self.main()
                self.assertEqual((shown.code, shown.lines), (1, [edited(name)]))
                self.assertEqual(shown.closing, (16, 16, 40, 0, 0, 0))

    def test_a_seal_that_is_lacking_or_wrong_is_told_and_the_replay_still_runs(self) -> None:
        sums = self.read("SHA256SUMS").decode().splitlines(keepends=True)
        for name, content, told in (
            ("gone", None, "^SHA256SUMS is missing"),
            ("empty", "", "SHA256SUMS"),
            ("a line that is none", "".join(sums) + "hello\n", "^hello "),
            ("another hash", "0" * 64 + sums[0][64:] + sums[1] + sums[2], f"^{edited('manifest.json')}$"),
            ("a name that is not there", "".join(sums) + "0" * 64 + "  cases.json\n", "^cases.json .*SHA256SUMS"),
            ("without the exchanges", sums[0] + sums[2], "exchanges.jsonl.*SHA256SUMS"),
            ("without the report", sums[0] + sums[1], "report.json.*SHA256SUMS"),
            ("without the manifest", sums[1] + sums[2], "manifest.json.*SHA256SUMS"),
            ("bytes that are no text", b"\xff\xfe\n".decode("latin-1") + "".join(sums), "SHA256SUMS"),
        ):
            with self.subTest(name):
                self.restore()
                if content is None:
                    self.remove("SHA256SUMS")
                else:
                    self.write("SHA256SUMS", content.encode("latin-1"))
                shown = self.main()
                self.assertEqual((shown.code, shown.closing), (1, (16, 16, 40, 0, 0, 0)))
                self.assertTrue(shown.lines)
                for line in shown.lines:
                    self.assertRegex(line, told)

    def test_other_files_in_the_folder_are_ignored(self) -> None:
        folder = os.path.dirname(self.path("report.json"))
        for name in ("exchanges.jsonl.new", "report-1.json", "notes.txt", ".DS_Store"):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(b"\xff not JSON")
        os.mkdir(os.path.join(folder, "more"))
        shown = self.main()
        self.assertEqual((shown.code, shown.lines, shown.closing), (0, [], (16, 16, 40, 0, 0, 0)))

    def test_cases_laid_beside_a_sealed_recording_are_told(self) -> None:
        """They would be taken for its own: a recording may bring its cases and snapshot, but then they are sealed."""
        folder = os.path.dirname(self.path("report.json"))
        for name in ("cases.json", "snapshot.json"):
            with self.subTest(name):
                self.restore()
                shutil.copy(self.path(name), folder)
                shown = self.main()
                self.assertEqual((shown.code, len(shown.lines)), (1, 1))
                self.assertRegex(shown.lines[0], f"^{name} .*SHA256SUMS")

    def test_a_recording_with_its_own_sealed_inputs_does_not_need_those_at_the_top(self) -> None:
        folder = os.path.dirname(self.path("report.json"))
        for name in ("cases.json", "snapshot.json"):
            shutil.move(self.path(name), folder)
        with open(self.path("SHA256SUMS"), "a", encoding="ascii") as file:
            for name in ("cases.json", "snapshot.json"):
                file.write(f"{hashlib.sha256(read(os.path.join(folder, name))).hexdigest()}  {name}\n")
        shown = self.main()
        self.assertEqual((shown.code, shown.lines, shown.closing), (0, [], (16, 16, 40, 0, 0, 0)))

    def test_a_byte_order_mark_is_read_and_other_encodings_are_refused_by_name(self) -> None:
        for name in ("cases.json", "snapshot.json"):
            with self.subTest(name, encoding="utf-8-sig"):
                self.restore()
                self.write(name, b"\xef\xbb\xbf" + self.read(name))
                self.assertEqual(self.main().code, 0)
            for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
                with self.subTest(name, encoding=encoding):
                    self.restore()
                    self.write(name, self.read(name).decode().encode(encoding))
                    self.assertMistaken(self.main(), rf"(?i)^{re.escape(name)}: .*{encoding[:6]}")
            with self.subTest(name, encoding="latin-1"):
                self.restore()
                self.write(name, self.read(name).replace(b'": "', b'": "\xe9', 1))
                self.assertMistaken(self.main(), rf"^{re.escape(name)}: .*(?i:utf-8)")

    def test_a_recording_is_found_by_name_and_by_path_from_where_the_user_stands(self) -> None:
        away = os.path.join(self.folder, "elsewhere")
        shutil.copytree(os.path.dirname(self.path("report.json")), os.path.join(away, "mine"))
        for cwd, argument, name in (
            (away, "published", "published"),
            (away, "mine", "mine"),
            (away, os.path.join(".", "mine"), "mine"),
            (away, os.path.join("..", "recordings", "published"), "published"),
            (away, os.path.join(away, "mine"), "mine"),
            (away, "mine" + os.sep, "mine"),
            (self.folder, os.path.join("recordings", "published", ""), "published"),
            (os.path.join(away, "mine"), ".", "mine"),
        ):
            with self.subTest(cwd=os.path.relpath(cwd, self.folder), argument=argument), contextlib.chdir(cwd):
                shown = self.main("--json", "--recording", argument)
                self.assertEqual((shown.code, shown.lines), (0, []))
                self.assertEqual((shown.json["recording"], shown.json["replay"]["exact"]), (name, 40))

    def test_a_process_finds_a_relative_path_too(self) -> None:
        away = os.path.join(self.folder, "elsewhere")
        shutil.copytree(os.path.dirname(self.path("report.json")), os.path.join(away, "mine"))
        shown = self.child("--recording", "mine", cwd=away, script=os.path.join("..", "run.py"))
        self.assertEqual((shown.code, shown.lines, shown.closing), (0, [], (16, 16, 40, 0, 0, 0)))

    def test_a_mistake_is_one_document_with_json(self) -> None:
        for argv in (("--recording", "nope"), ("--case", "nope"), ("--bogus",)):
            with self.subTest(argv=argv):
                shown = self.main("--json", *argv)
                self.assertEqual((shown.code, shown.json), (2, {"error": {"code": 2, "message": shown.lines[0]}}))


# --- Runs in progress ---------------------------------------------------------------------------


class InProgress(Kit):
    """Without a report a recording is a run that goes on: what is there is exact, what is lacking is said, exit 0."""

    def setUp(self) -> None:
        super().setUp()
        self.remove("report.json", "SHA256SUMS")
        self.whole = self.read("exchanges.jsonl")
        self.events = lines_of(self.whole)
        self.trials = list(dict.fromkeys(event["trial"] for event in self.events))

    def test_a_run_replays_as_far_as_it_goes_wherever_it_was_cut(self) -> None:
        """At the ends of the lines of one trial, and at seeded places within lines."""
        ends = [len(written(self.events[:at])) for at in range(len(self.events) + 1)]
        first = place(self.events, 1)
        chance = random.Random(32)
        cuts = {0, 1, *ends[first : first + 2 * LAST + 1], ends[-1] - 1, ends[-1]}
        for cut in sorted(cuts | {chance.randrange(ends[-1]) for _ in range(8)}):
            with self.subTest(cut=cut):
                self.write("exchanges.jsonl", self.whole[:cut])
                events = lines_of(self.whole[: self.whole[:cut].rfind(b"\n") + 1])
                self.assertGoesAsFarAs(events)
                self.assertEqual(self.read("exchanges.jsonl"), self.whole[:cut])

    def test_trials_that_are_lacking_are_said_by_name(self) -> None:
        for name, kept in (
            ("one trial", [TRIAL]),
            ("every second", self.trials[::2]),
            ("all but one", [trial for trial in self.trials if trial != TRIAL]),
            ("all", self.trials),
            ("none", []),
        ):
            with self.subTest(name):
                events = [event for event in self.events if event["trial"] in kept]
                self.write("exchanges.jsonl", written(events))
                self.assertGoesAsFarAs(events)

    def test_what_is_there_must_be_exact(self) -> None:
        """A gap, a difference, a doubled line and a line that is damage are told as ever."""
        where = place(self.events, 3)
        for name, events, code, line in (
            ("a gap", self.events[:where] + self.events[where + 2 :], 1, lacking(3)),
            ("a difference", copy.deepcopy(self.events), 1, difference(3)),
            ("doubled", [*self.events[: where + 1], *self.events[where:]], 1, at(3, f" {RESENT}")),
        ):
            with self.subTest(name):
                if name == "a difference":
                    events[where]["sha256"] = provider.fingerprint(misspelled(events[where])["request"])
                self.write("exchanges.jsonl", written(events))
                shown = self.main()
                self.assertEqual((shown.code, shown.lines), (code, [line]))
        self.write("exchanges.jsonl", self.whole.replace(b'"attempt":1', b'"attempt":NaN', 1))
        self.assertMistaken(self.main(), r"exchanges.jsonl, line 1 \(after nothing\): ")

    def test_a_seal_that_is_there_is_still_held_to(self) -> None:
        self.restore()
        self.remove("report.json")
        self.assertEqual(self.main().code, 0)
        self.write("exchanges.jsonl", self.read("exchanges.jsonl").replace(b":", b": ", 1))
        shown = self.main()
        self.assertEqual((shown.code, shown.lines), (1, [edited("exchanges.jsonl")]))

    def test_only_trials_that_were_begun_are_counted(self) -> None:
        """In the table, in the document, and of a choice those that were chosen."""
        where = place(self.events, 3)  # two of the trial's exchanges are there, and three trials before it
        self.write("exchanges.jsonl", written(self.events[:where]))
        begun = self.trials[: self.trials.index(TRIAL) + 1]
        shown = self.main("--json")
        self.assertEqual((shown.code, shown.lines), (0, []))
        self.assertEqual([trial["id"] for trial in shown.json["trials"]], begun)
        self.assertEqual(shown.json["trials"][-1]["result"]["reason"], "replay_exhausted")
        counts = {"trials": len(begun), "exact": 1 + 3 + 1 + 2, "differing": 0, "missing": 1, "unused": 0}
        self.assertEqual(shown.json["replay"], counts)
        for argv, closing, lacking in (
            (CHOSEN, (1, 16, 2, 0, 1, 0), [TRIAL]),
            (("--case", "overwrite", "--repeat", "1"), (2, 16, 4, 0, 0, 0), []),
            (("--case", "overwrite", "--mode", "agent"), (1, 16, 3, 0, 0, 0), ["overwrite-agent-2"]),
            (("--case", "unsupported", "--repeat", "2"), (0, 16, 0, 0, 0, 0),
             ["unsupported-fixed-2", "unsupported-agent-2"]),
        ):
            with self.subTest(argv=argv):
                shown = self.main(*argv)
                self.assertEqual((shown.code, shown.lines, shown.closing), (0, [], closing))
                self.assertEqual(self.said(shown), self.wrapped(lacking))

    def test_a_run_that_ended_before_its_first_request_has_no_exchanges_yet(self) -> None:
        """Nothing is replayed and all is lacking, whether the file is empty or not there."""
        for there in (True, False):
            with self.subTest(there=there):
                if there:
                    self.write("exchanges.jsonl", b"")
                else:
                    self.remove("exchanges.jsonl")
                self.assertGoesAsFarAs([])

    def test_a_reply_without_its_request_is_told_in_a_trial_that_has_nothing_else(self) -> None:
        """Such a trial was begun; it is not passed over as one that the run had not come to."""
        where = place(self.events, 1)
        self.write("exchanges.jsonl", written([*self.events[:where], self.events[where + 1]]))
        shown = self.main()
        self.assertEqual((shown.code, shown.lines), (1, [at(1, " is missing its request")]))
        self.assertEqual(shown.closing, (4, 16, 5, 0, 1, 0))

    def assertGoesAsFarAs(self, events: list[dict[str, Any]]) -> None:
        """Exit code 0, every whole request of the trials that were begun exact, and those that have not all their
        exchanges named, the others too; missing is what the trials ask beyond what is there."""
        shown = self.main()
        self.assertEqual((shown.code, shown.lines), (0, []))
        sent = sum(event["event"] == "request" for event in events)
        there = {trial: [event for event in events if event["trial"] == trial] for trial in self.trials}
        lacking = [
            trial for trial in self.trials
            if len(there[trial]) < sum(event["trial"] == trial for event in self.events)]
        begun = [trial for trial in self.trials if there[trial]]
        beyond = sum(trial in lacking and there[trial][-1]["event"] == "response" for trial in begun)
        self.assertEqual(shown.closing, (len(begun), 16, sent, 0, beyond, 0))
        self.assertEqual(self.said(shown), self.wrapped(lacking))
        rows = [line for line in shown.out.splitlines() if re.match(r"\S+ +(development|held-out) ", line)]
        self.assertEqual([f"{row.split()[0]}-{row.split()[3]}-{row.split()[2]}" for row in rows], begun)
        self.assertIn("report.json is not there: nothing to compare the trials with\n", shown.out)

    def said(self, shown: Shown) -> list[str]:
        """The lines that name the trials which are not recorded to the end."""
        lines = shown.out.splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("not recorded to the end: ")]
        self.assertLessEqual(len(starts), 1)
        return lines[starts[0] : -1] if starts else []

    def wrapped(self, lacking: list[str]) -> list[str]:
        """What is to name these trials, 100 columns wide, no name broken; nothing where there is none."""
        words = f"not recorded to the end: {', '.join(lacking)}"
        return textwrap.wrap(words, 100, subsequent_indent="    ", break_on_hyphens=False) if lacking else []


def tree(folder: str) -> dict[str, bytes]:
    """Every file below a folder, by its path from there."""
    paths = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    return {os.path.relpath(path, folder): read(path) for path in paths}


if __name__ == "__main__":
    unittest.main()
