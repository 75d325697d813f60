"""What a person gets from the command line: tables, traces, JSON, one line for a mistake, and never a raw control."""

import contextlib
import errno
import functools
import hashlib
import io
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unicodedata
import unittest
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import agent
import evaluate
import provider
import retrieval
import run
import tools
from tests import support
from tests.support import MODULES, ROOT

PUBLISHED = os.path.join(ROOT, "recordings", "published")
CLOSING = re.compile(
    r"replayed (\d+) of (\d+) trials \| exchanges: (\d+) exact, (\d+) differing, (\d+) missing, (\d+) unused"
    r" \| live requests: 0 \| \d+\.\d s")
OUTCOMES = ("pass", "fail", "incomplete", "not_measured", "ungraded")
POSIX = unittest.skipUnless(os.name == "posix", "needs POSIX file descriptors")


class Ran(NamedTuple):
    """What a command gave: the exit code and both streams, decoded."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of standard output."""
        return self.out.splitlines()


def here(*argv: str, encoding: str = "utf-8", **settings: str) -> Ran:
    """Run the command line in this process, 100 columns wide, with streams of that encoding; `settings` are added to
    the environment."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n") for _ in range(2)]
    surroundings = mock.patch.dict(os.environ, {"COLUMNS": "100", **settings})
    with surroundings, contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = run.main(list(argv))
    texts = []
    for stream in streams:
        stream.flush()
        stream.seek(0)
        texts.append(stream.read())
    return Ran(code, *texts)


@functools.cache
def replayed(*argv: str) -> Ran:
    """A replay of the published recording, run once for all tests that look at it."""
    return here(*argv)


def published() -> dict[str, Any]:
    """The published report."""
    with open(os.path.join(PUBLISHED, "report.json"), encoding="utf-8") as file:
        report: dict[str, Any] = json.load(file)
    return report


def unwrapped(lines: Iterable[str]) -> list[str]:
    """Lines with those that only go on with the one before put back behind it."""
    joined: list[str] = []
    for line in lines:
        if line.startswith("    ") and joined:
            joined[-1] += line[3:]
        else:
            joined.append(line)
    return joined


def squeezed(text: str) -> str:
    """The text without white space, for it is wrapped on the way."""
    return "".join(text.split())


def raw(text: str) -> list[str]:
    """The characters that move a cursor or change how others look, line ends apart."""
    return sorted({char for char in text if char != "\n" and not char.isprintable()})


def columns(text: str) -> int:
    """How many columns a terminal gives the text."""
    return sum(
        0 if unicodedata.category(char) in ("Mn", "Me", "Cf") else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text)


# --- Recordings of our own --------------------------------------------------------------------------------------------


def passage(source_id: str, text: str, version: str = "2", **more: str) -> dict[str, str]:
    """A passage with the right hash."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    fields = {"source_id": source_id, "version": version, "text": text, "url": f"https://docs.example/{source_id}"}
    return {**fields, "text_sha256": digest, **more}


def case(name: str, question: str, **more: Any) -> dict[str, Any]:
    """A case that only a stop passes, unless `more` says otherwise."""
    return {"id": name, "question": question, "version": "2", "split": "development", "sources": [], **more}


def decision(action: str, assessment: str = "Still to find.", **more: Any) -> dict[str, Any]:
    """A model's reply."""
    empty: dict[str, Any] = {"query": "", "source_id": "", "answer": "", "citations": []}
    return {"action": action, "assessment": assessment, **empty, **more}


def cite(source_id: str, quote: str) -> list[dict[str, str]]:
    """One citation."""
    return [{"source_id": source_id, "quote": quote}]


class CommandLine(unittest.TestCase):
    """Gives tests a folder of their own, and ways to run commands and to look at what they gave."""

    def setUp(self) -> None:
        """A fresh folder."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)

    def path(self, *names: str) -> str:
        """A path in the folder."""
        return os.path.join(self.folder, *names)

    def write(self, name: str, content: Any) -> str:
        """A file in the folder, of bytes, or of anything else as JSON; its path."""
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else json.dumps(content).encode())
        return self.path(name)

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a child."""
        home = self.path("home")
        os.makedirs(home, exist_ok=True)
        return support.environment(home, **more)

    def child(self, *argv: str, kit: str = ROOT, cwd: str | None = None, env: dict[str, str] | None = None) -> Ran:
        """Run the command line as a process of its own; bytes come back as Latin-1."""
        done = subprocess.run(
            [sys.executable, os.path.join(kit, "run.py"), *argv], cwd=cwd or self.folder, env=env or self.environment(),
            stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        return Ran(done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1"))

    def copy(self) -> str:
        """A copy of the published recording; its folder."""
        shutil.copytree(PUBLISHED, self.path("copy"))
        return self.path("copy")

    def kit(self, name: str = "kit") -> str:
        """A copy of what the kit needs to replay; its folder."""
        folder = self.path(name)
        os.makedirs(folder)
        for file in (*(f"{module}.py" for module in MODULES), "cases.json", "snapshot.json"):
            shutil.copy(os.path.join(ROOT, file), folder)
        shutil.copytree(PUBLISHED, os.path.join(folder, "recordings", "published"))
        shutil.copy(os.path.join(ROOT, "recordings", "guards.json"), os.path.join(folder, "recordings"))
        return folder

    def moved(self, kit: str) -> None:
        """Let commands in this process work on that copy of the kit."""
        names = {"CASES": "cases.json", "SNAPSHOT": "snapshot.json", "RECORDINGS": "recordings", "HERE": ""}
        places = {name: os.path.normpath(os.path.join(kit, below)) for name, below in names.items()}
        self.enterContext(mock.patch.dict(vars(run), places))

    def seal(self, folder: str) -> None:
        """Write SHA256SUMS of a recording anew."""
        names = sorted(name for name in os.listdir(folder) if name != "SHA256SUMS")
        with open(os.path.join(folder, "SHA256SUMS"), "w", encoding="utf-8", newline="\n") as sums:
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    print(f"{hashlib.sha256(file.read()).hexdigest()}  {name}", file=sums)

    def record(
        self, cases: list[dict[str, Any]], passages: list[dict[str, str]], replies: dict[str, list[Any]],
        name: str = "mine", **manifest: Any,
    ) -> str:
        """An unfinished recording in which the model gave these replies, by trial; its folder.

        A reply is a decision, or an error event's kind where it is a string.
        """
        with open(os.path.join(PUBLISHED, "manifest.json"), encoding="utf-8") as file:
            plan = json.load(file)
        modes = [mode for mode in plan["modes"] if any(f"-{mode}-" in trial for trial in replies)]
        plan |= {"cases": [at["id"] for at in cases], "modes": modes, "repeats": 1, **manifest}
        snapshot = {"profile": "plain", "passages": passages}
        made_from = {"prompt": provider.PROMPT, "schema": provider.SCHEMA, "config": plan["config"]}
        inputs = made_from | {"cases": {"cases": cases}, "snapshot": snapshot}
        plan["hashes"] = {name: provider.fingerprint(value) for name, value in inputs.items()}
        index = retrieval.Index(retrieval.load_snapshot(snapshot))
        lines: list[str] = []
        for trial, given in replies.items():
            lines += self._exchanges(trial, {at["id"]: at for at in cases}, index, plan, given)
        index.close()
        self.write(f"{name}/manifest.json", plan)
        self.write(f"{name}/cases.json", {"cases": cases})
        self.write(f"{name}/snapshot.json", snapshot)
        self.write(f"{name}/exchanges.jsonl", "".join(line + "\n" for line in lines).encode())
        return self.path(name)

    def _exchanges(
        self, trial: str, cases: dict[str, Any], index: retrieval.Index, plan: dict[str, Any], replies: list[Any]
    ) -> list[str]:
        events: list[dict[str, Any]] = []
        left = list(replies)

        def send(asked: provider.Request, seconds: float) -> dict[str, Any]:
            place = {"trial": trial, "exchange": asked.number, "attempt": 1}
            events.append({"event": "request", **place, "sha256": asked.sha256, "request": asked.body})
            reply = left.pop(0)
            if isinstance(reply, str):
                error = {"elapsed": 1.5, "kind": reply, "status": None, "message": f"it went {reply}"}
                events.append({"event": "error", **place, **error})
            else:
                part = {"content": {"parts": [{"text": json.dumps(reply)}]}, "finishReason": "STOP"}
                body = {"candidates": [part], "usageMetadata": {"totalTokenCount": 7}}
                events.append({"event": "response", **place, "elapsed": 1.5, "status": 200, "response": body})
            return events[-1]

        name, mode, _ = trial.rsplit("-", 2)
        task = agent.Task(cases[name]["question"], cases[name]["version"], mode, candidates=plan["candidates"])
        model = provider.Model(plan["config"], send)
        for _ in agent.controller(task, tools.Toolbox(index, task.version), model.ask, model.clock):
            pass
        self.assertEqual(left, [], f"{trial} ended before all replies were given")
        return [json.dumps(event) for event in events]

    def finish(self, folder: str) -> str:
        """Give an unfinished recording the report and the seals of a finished one."""
        ran = here("--recording", folder, "--json")
        with open(os.path.join(folder, "report.json"), "w", encoding="utf-8", newline="\n") as file:
            file.write(ran.out)
        self.seal(folder)
        return folder

    def check_one_line(self, ran: Ran, *parts: str, code: int = 2) -> None:
        """One line on standard error that holds the parts, nothing on standard output, and the exit code."""
        self.assertEqual((ran.code, ran.out), (code, ""), ran)
        self.assertRegex(ran.err, r"\Arun\.py: [ -~]+\n\Z")
        self.assertNotIn("usage:", ran.err)
        for part in parts:
            self.assertIn(part, ran.err)

    def check_closing(self, ran: Ran, *counts: int) -> None:
        """The last line of a replay: trials, of how many, exact, differing, missing, unused."""
        match = CLOSING.fullmatch(ran.lines[-1])
        self.assertIsNotNone(match, ran)
        self.assertEqual(match and tuple(map(int, match.groups())), counts)


# --- The replay -------------------------------------------------------------------------------------------------------


class Replaying(CommandLine):
    def test_the_table_has_a_line_for_each_trial(self) -> None:
        """Nine columns in their order, each cell as the published report has it, and the first cause."""
        ran = replayed()
        self.assertEqual((ran.code, ran.err), (0, ""))
        head = ["case", "split", "repeat", "path", "sources read", "outcome", "reason", "calls", "tokens"]
        head.append("first cause")
        rows = [re.split(" {2,}", line.strip()) for line in ran.lines]
        start = rows.index(head)
        expected = []
        for trial in published()["trials"]:
            result = trial["result"]
            read = [at["result"]["source_id"] for at in result["observations"] if at["tool"] == "read"]
            tokens = sum(at["totalTokenCount"] for at in trial["provider_usage"])
            expected.append([
                trial["case_id"], trial["split"], str(trial["repeat"]), trial["mode"], ", ".join(read),
                trial["checks"].get("outcome") or self.published_outcome(trial), result["reason"],
                str(result["usage"]["model_calls"]), str(tokens),
                {"newline-version": "label", "unsupported": "abstention"}.get(trial["case_id"], "-")])
        self.assertEqual(rows[start + 1 : start + 17], expected)
        self.assertEqual(rows[start + 17], [""])

    @staticmethod
    def published_outcome(trial: dict[str, Any]) -> str:
        """The outcome, from what the report says of the check and the status."""
        if trial["checks"]["answer_fixture_check"]:
            return "pass"
        return "incomplete" if trial["result"]["status"] == "incomplete" else "fail"

    def test_all_five_outcomes_are_counted_for_each_path(self) -> None:
        """Zeros too."""
        lines = replayed().lines
        for line in (
            "fixed: 8 trials: 4 pass, 2 fail, 2 incomplete, 0 not measured, 0 ungraded",
            "agent: 8 trials: 4 pass, 3 fail, 1 incomplete, 0 not measured, 0 ungraded",
        ):
            with self.subTest(line=line):
                self.assertEqual(lines.count(line), 1)

    def test_what_the_recording_is_comes_first_and_the_closing_line_last(self) -> None:
        """Its name, model, day and provenance; then all trials and exchanges, exact, without a live request."""
        lines = replayed().lines
        for part in ("published", "gemini-3.8-flash", "2026-10-25"):
            self.assertIn(part, lines[0])
        self.assertIn(squeezed(published()["provenance"]), squeezed("".join(replayed().out)))
        self.check_closing(replayed(), 16, 16, 40, 0, 0, 0)

    def test_our_own_words_are_ascii_and_no_line_ends_in_blanks(self) -> None:
        """On the published recording nothing else is shown."""
        for argv in ((), ("--trace",)):
            with self.subTest(argv=argv):
                ran = replayed(*argv)
                self.assertTrue(ran.out.isascii())
                self.assertEqual([line for line in ran.lines if line != line.rstrip()], [])

    def test_two_replays_say_the_same(self) -> None:
        """Seconds apart."""
        one, other = (re.sub(r"\d+\.\d s$", "", here("--trace").out) for _ in range(2))
        self.assertEqual(one, other)

    def test_without_its_report_the_same_trials_come_out(self) -> None:
        """Only the comparison with it is missing, and that is said."""
        folder = self.copy()
        os.remove(os.path.join(folder, "report.json"))
        ran = here("--recording", folder)
        self.assertEqual((ran.code, ran.err), (0, ""))
        self.assertIn("report.json", ran.out)
        lines = replayed().lines
        for line in lines[lines.index("") : -1]:
            self.assertIn(line, ran.lines)
        self.check_closing(ran, 16, 16, 40, 0, 0, 0)

    def test_outages_are_counted_apart(self) -> None:
        """A recorded transport error is not measured, its tokens unknown, and its kind stands in the reason."""
        folder = self.record(
            [case("a", "Which tide?"), case("b", "Which moon?")], [passage("noon", "The tide comes at noon.")],
            {"a-agent-1": ["timeout"], "b-agent-1": [decision("stop")]})
        ran = here("--recording", folder)
        self.assertEqual(ran.code, 0)
        self.assertIn("agent: 2 trials: 1 pass, 0 fail, 0 incomplete, 1 not measured, 0 ungraded", ran.lines)
        row = next(line for line in ran.lines if line.startswith("a "))
        cells = ["not_measured", "model_transport_failed:timeout", "1", "unknown", "provider"]
        self.assertEqual(row.split()[-5:], cells)
        self.check_closing(ran, 2, 2, 2, 0, 0, 0)


class Choosing(CommandLine):
    CHOICES = (
        (("--mode", "fixed"), {"mode": "fixed"}),
        (("--mode", "agent"), {"mode": "agent"}),
        (("--repeat", "2"), {"repeat": 2}),
        (("--case", "unsupported"), {"case_id": "unsupported"}),
        (("--mode=agent", "--repeat=1"), {"mode": "agent", "repeat": 1}),
        (("--case", "overwrite", "--mode", "agent"), {"case_id": "overwrite", "mode": "agent"}),
        (("--repeat", "1", "--case", "newline-version"), {"case_id": "newline-version", "repeat": 1}),
        (("--case", "overwrite", "--mode", "fixed", "--repeat", "2"),
         {"case_id": "overwrite", "mode": "fixed", "repeat": 2}),
    )

    def test_only_the_chosen_trials_are_replayed(self) -> None:
        """The table, the counts and the closing line are of those; the rest is neither unused nor missing."""
        for argv, wanted in self.CHOICES:
            chosen = [at for at in published()["trials"] if all(at[name] == value for name, value in wanted.items())]
            with self.subTest(argv=argv):
                ran = here(*argv)
                self.assertEqual((ran.code, ran.err), (0, ""))
                exchanges = sum(at["result"]["usage"]["model_calls"] for at in chosen)
                self.check_closing(ran, len(chosen), 16, exchanges, 0, 0, 0)
                report = json.loads(here(*argv, "--json").out)
                self.assertEqual([at["id"] for at in report["trials"]], [at["id"] for at in chosen])
                self.assertEqual(list(report["summary"]), list(dict.fromkeys(at["mode"] for at in chosen)))

    def test_where_nothing_is_chosen_nothing_is_run(self) -> None:
        """One line says what was asked for and what there is."""
        cases, repeats = "overwrite, serialize-and-save, newline-version, unsupported", "1, 2"
        for argv, asked, there in (
            (("--case", "nope"), 'case "nope"', cases), (("--repeat", "3"), "repeat 3", repeats),
            (("--repeat", "0"), "repeat 0", repeats), (("--repeat", "-1"), "repeat -1", repeats),
            (("--case", ""), 'case ""', cases), (("--case", "Overwrite"), 'case "Overwrite"', cases),
            (("--case", "overwrite-fixed-1"), 'case "overwrite-fixed-1"', cases),
            (("--case", "overwrite", "--repeat", "9"), "repeat 9", repeats),
            (("--mode", "fixed", "--case", "none"), 'case "none"', cases),
            (("--repeat", "3", "--mode", "agent", "--case", "overwrite"), "repeat 3", repeats),
        ):
            with self.subTest(argv=argv):
                ran = here(*argv)
                self.check_one_line(ran)
                self.assertEqual(ran.err, f"run.py: no {asked}; there are {there}\n")

    def test_another_recording_is_named_or_given_by_its_path(self) -> None:
        """The published one is the default."""
        for given in ("published", PUBLISHED, os.path.relpath(PUBLISHED), PUBLISHED + os.sep):
            with self.subTest(given=given):
                ran = here("--recording", given, "--repeat", "1", "--mode", "fixed")
                self.assertEqual((ran.code, ran.err), (0, ""))
                self.assertTrue(ran.out.startswith("recording published: "), ran.out[:60])

    def test_a_slash_after_the_name_of_a_recording_changes_nothing(self) -> None:
        """As a shell completes it."""
        ran = here("--recording", "published/", "--repeat", "1", "--mode", "fixed")
        self.assertTrue(ran.out.startswith("recording published: "), ran.out[:60])

    def test_a_recording_that_is_not_there_is_named_with_those_there_are(self) -> None:
        """Whether it was meant as a name or a path."""
        for given in ("nope", "./nope", "/nope/at/all", "published/nope", os.path.join(PUBLISHED, "manifest.json")):
            with self.subTest(given=given):
                self.check_one_line(here("--recording", given), given, "published")


class Traces(CommandLine):
    STORIES = (
        ("overwrite", "agent", 1), ("serialize-and-save", "agent", 2), ("overwrite", "fixed", 2),  # answered
        ("newline-version", "agent", 1),  # refused
        ("newline-version", "agent", 2), ("newline-version", "fixed", 1),  # stopped
        ("unsupported", "agent", 1),  # answered, and should have stopped
    )

    def test_a_trace_tells_the_whole_story(self) -> None:
        """Each step in order: assessment, what was admitted, found, read and is left; the end; the grade."""
        for name, mode, repeat in self.STORIES:
            trial = next(
                at for at in published()["trials"] if (at["case_id"], at["mode"], at["repeat"]) == (name, mode, repeat))
            ran = here("--case", name, "--mode", mode, "--repeat", str(repeat))
            shown, position = squeezed(ran.out), 0
            for piece in self.pieces(trial):
                with self.subTest(trial=trial["id"], piece=piece):
                    found = shown.find(squeezed(piece), position)
                    self.assertGreaterEqual(found, 0, f"not there, or not after {shown[:position][-60:]}")
                    position = found + len(squeezed(piece))
            self.assertEqual(ran.code, 0)

    def pieces(self, trial: dict[str, Any]) -> Iterator[str]:
        """What a trace must hold, in order."""
        result, used = trial["result"], dict.fromkeys(("model_calls", "searches", "reads", "source_bytes"), 0)
        observations = list(result["observations"])
        yield trial["id"]
        yield result["question"]
        if trial["mode"] == "fixed":
            while observations:
                yield from self.observed(observations.pop(0), used, result["limits"], agentic=False)
        for number, reply in enumerate(result["decisions"], 1):
            used["model_calls"] += 1
            yield f"{number}. the model proposes: {reply['action']}"
            yield reply["query"] or reply["source_id"]
            yield f"assessment: {reply['assessment']}"
            if reply["action"] in ("search", "read") and observations:
                yield from self.observed(observations.pop(0), used, result["limits"], agentic=True)
        reason = next(at for at in agent.Reason if at == result["reason"])
        yield f"{result['status']}: {reason}: {reason.sentence}"
        yield result["answer"]
        for number, citation in enumerate(result["citations"], 1):
            yield f"[{number}] {citation['source_id']}"
            yield json.dumps(citation["quote"], ensure_ascii=False)
            yield citation["url"]
        outcome = Replaying.published_outcome(trial)
        yield f"grade: {outcome}"
        if outcome != "pass":
            yield "should_have_stopped" if trial["case_id"] == "unsupported" else "not_answered"

    @staticmethod
    def observed(
        step: dict[str, Any], used: dict[str, int], limits: dict[str, int], agentic: bool
    ) -> Iterator[str]:
        """What a trace must hold for one observation."""
        result = step["result"]
        if step["tool"] == "search":
            used["searches"] += 1
            yield f"search {used['searches']} of {limits['searches']}"
            yield result["query"]
            yield "found: " + ", ".join(f"{at['rank']} {at['source_id']}" for at in result["candidates"])
        else:
            used["reads"] += 1
            size = len(result["text"].encode())
            used["source_bytes"] += size
            yield f"read {used['reads']} of {limits['reads']}, {size} bytes: {result['source_id']}"
            yield result["text"]
        if agentic:  # on the fixed path there is nobody who could use what is left
            yield "left: " + ", ".join(
                f"{limits[name] - count} {name.replace('_', ' ')}" for name, count in used.items())

    def test_a_trace_is_shown_for_a_case_and_where_it_is_asked_for(self) -> None:
        """Not by default, nor for another filter; before the table."""
        ids = [at["id"] for at in published()["trials"]]
        for argv, expected in (
            ((), []), (("--mode", "agent"), []), (("--repeat", "1"), []), (("--trace",), ids),
            (("--case", "overwrite"), [at for at in ids if at.startswith("overwrite-")]),
            (("--trace", "--mode", "fixed", "--repeat", "2"), [at for at in ids if at.endswith("-fixed-2")]),
        ):
            with self.subTest(argv=argv):
                lines = replayed(*argv).lines
                shown = [line.split()[1] for line in lines if line.startswith("== ")]
                self.assertEqual(shown, expected)
                table = next(at for at, line in enumerate(lines) if line.startswith("case  "))
                self.assertFalse([line for line in lines[table:] if line.startswith("== ")])

    def test_what_found_nothing_says_so(self) -> None:
        """An empty result is a result."""
        folder = self.record(
            [case("a", "Which tide?")], [passage("noon", "The tide comes at noon.")],
            {"a-agent-1": [decision("search", query="wharf"), decision("stop")]})
        ran = here("--recording", folder, "--case", "a")
        self.assertIn("   found: nothing matched", ran.lines)

    def test_lines_are_wrapped_for_people(self) -> None:
        """At most 100 columns, addresses and the table apart."""
        lines = replayed("--trace").lines
        table = next(at for at, line in enumerate(lines) if line.startswith("case  "))
        self.assertLessEqual(max(len(line) for line in lines[:table] if "https://" not in line), 100)

    def widest(self, ran: Ran) -> int:
        """The longest line before the table that is wrapped: addresses, headings and proposals are not."""
        table = next(at for at, line in enumerate(ran.lines) if line.startswith("case  "))
        whole = re.compile(r"== |\d+\. the model proposes: | +https://")
        return max(len(line) for line in ran.lines[:table] if not whole.match(line))

    def test_columns_in_the_environment_are_honoured(self) -> None:
        """From 40 to 100; what is no number counts as not given, and what is said is the same at any width."""
        said = squeezed(replayed("--trace").out.rpartition(" | ")[0])
        for setting, least, most in (
            ("40", 34, 40), ("41", 35, 41), ("60", 54, 60), ("99", 93, 99), ("100", 94, 100), ("101", 94, 100),
            ("9999", 94, 100), ("39", 34, 40), ("1", 34, 40), ("-7", 34, 40), ("wide", 94, 100), ("60.0", 94, 100),
        ):
            with self.subTest(columns=setting):
                ran = here("--trace", COLUMNS=setting)
                self.assertEqual((ran.code, ran.err), (0, ""))
                self.assertTrue(least <= self.widest(ran) <= most, self.widest(ran))
                self.assertTrue(squeezed(ran.out.rpartition(" | ")[0]) == said)

    def test_without_columns_the_terminal_says_how_wide_it_is(self) -> None:
        """Where there is none, the text is as wide as is easy to read; an empty COLUMNS says nothing."""
        for name, terminal, most in (
            ("a narrow one", {"return_value": os.terminal_size((60, 24))}, 60),
            ("a very narrow one", {"return_value": os.terminal_size((20, 24))}, 40),
            ("a wide one", {"return_value": os.terminal_size((300, 24))}, 100),
            ("none", {"side_effect": OSError(errno.ENOTTY, "no terminal")}, 100),
            ("closed", {"side_effect": ValueError("closed")}, 100),
        ):
            with self.subTest(terminal=name), mock.patch("os.get_terminal_size", **terminal):
                self.assertTrue(most - 6 <= self.widest(here("--trace", COLUMNS="")) <= most)
                self.assertTrue(74 <= self.widest(here("--trace", COLUMNS="80")) <= 80)

    def test_text_is_not_broken_at_hyphens(self) -> None:
        """Names are found by a search whatever the width; only what is longer than a line is cut."""
        names = ["newline-version-agent-2", "path-read-3-13", "held-out,", "path-write"]
        for width in range(40, 101, 3):
            lines = here("--case", "newline-version", "--mode", "agent", COLUMNS=str(width)).lines
            table = next(at for at, line in enumerate(lines) if line.startswith("case  "))
            with self.subTest(columns=width):
                self.assertEqual([line for line in lines[:table] if line.endswith("-")], [])
                for name in names[:2]:
                    self.assertTrue(any(name in line for line in lines[:table]), name)
        text = "json-text, non-ASCII, serialize-and-save-agent-1, path-read-3-13, UTF-8 " * 5
        for width in range(40, 101):
            wrapped = list(tools.paragraphs("found", text, width))
            self.assertEqual(" ".join(line.strip() for line in wrapped), f"found: {text.strip()}", width)

    def test_what_is_left_is_shown_on_the_agent_path_only(self) -> None:
        """After each observation there, and never where the model may only answer or stop."""
        for trial in published()["trials"]:
            with self.subTest(trial=trial["id"]):
                ran = replayed("--case", trial["case_id"], "--mode", trial["mode"], "--repeat", str(trial["repeat"]))
                shown = [line for line in ran.lines if re.match(r" *left:", line)]
                observed = len(trial["result"]["observations"])
                self.assertEqual(len(shown), observed if trial["mode"] == "agent" else 0)
                self.assertGreater(observed, 0)

    def test_the_kind_of_a_transport_fault_stands_where_the_trial_ended(self) -> None:
        """In the line that tells of the end; other reasons have no kind."""
        for kind in ("timeout", "http_503", "connection_reset"):
            folder = self.record(
                [case("a", "Which tide?")], [passage("noon", "At noon.")], {"a-agent-1": [kind]}, name=kind)
            with self.subTest(kind=kind):
                sentence = agent.Reason.MODEL_TRANSPORT_FAILED.sentence
                lines = unwrapped(here("--recording", folder, "--case", "a").lines)
                self.assertIn(f"ended: failed: model_transport_failed:{kind}: {sentence}", lines)
                self.assertIn(f"   seen: it went {kind}", lines)
                self.assertIn("grade: not_measured: The provider, a budget or the replay ended it, not the model.",
                              lines)
        lines = unwrapped(replayed("--case", "newline-version").lines)
        self.assertIn("ended: incomplete: model_stopped: The model stopped without an answer.", lines)

    def test_long_values_in_findings_are_shortened(self) -> None:
        """To the first 60 characters and how many there are; what has 80 as JSON is shown whole."""
        for length, shown in ((5, json.dumps("It x.")), (78, json.dumps("It " + "x" * 74 + ".")),
                              (79, '"It ' + "x" * 56 + "... (81 characters)"),
                              (2_000, '"It ' + "x" * 56 + "... (2002 characters)")):
            said = "It " + "x" * (length - 4) + "."
            replies = [
                decision("search", query="noon"), decision("read", source_id="noon"),
                decision("answer", answer=said, citations=cite("noon", "The tide comes"))]
            folder = self.record(
                [case("a", "Which tide?", sources=["noon"], answer_patterns=[r"\bnoon\b"])],
                [passage("noon", "The tide comes at noon.")], {"a-agent-1": replies}, name=f"long-{length}")
            with self.subTest(length=length):
                (line,) = [at for at in self.rejoined(here("--recording", folder, "--case", "a", COLUMNS="100"))
                           if at.startswith("   pattern_missing: ")]
                sentence = evaluate.Finding.PATTERN_MISSING.sentence
                expected = json.dumps(r"\bnoon\b")
                self.assertEqual(line, f"   pattern_missing: {sentence} expected {expected}, found {shown}")

    def rejoined(self, ran: Ran) -> list[str]:
        """The lines of a trace, put together again where a label's text goes on at a depth of seven."""
        joined: list[str] = []
        for line in ran.lines:
            if line.startswith(" " * 7):
                joined[-1] += " " + line.strip()
            else:
                joined.append(line)
        return joined

    def test_each_finding_of_a_trace_is_one_whole_line(self) -> None:
        """Its word, its sentence, what was expected and what was found."""
        lines = self.rejoined(replayed("--case", "unsupported", "--mode", "fixed", "--repeat", "1"))
        self.assertIn("grade: fail: It answered wrongly, or the model proposed what is not allowed.", lines)
        self.assertIn('   should_have_stopped: Nothing supports an answer; only a stop is right. '
                      'expected "model_stopped", found "citation_contract_passed"', lines)

    def test_a_reply_that_is_no_json_is_quoted_in_its_trace(self) -> None:
        """Its beginning, in the line of what was seen."""
        folder = self.record([case("a", "Which tide?")], [passage("noon", "At noon.")], {"a-agent-1": [{}]})
        path = os.path.join(folder, "exchanges.jsonl")
        for text, quoted in (
            ("I would search.", '"I would search."'), ("x" * 500, '"' + "x" * 59 + "... (502 characters)"),
            ("\x1b[2J", r'"\u001b[2J"'),
        ):
            with open(path, encoding="utf-8") as file:
                events = [json.loads(line) for line in file]
            events[-1]["response"]["candidates"][0]["content"]["parts"][0]["text"] = text
            self.write("mine/exchanges.jsonl", "".join(json.dumps(at) + "\n" for at in events).encode())
            with self.subTest(text=text[:20]):
                lines = self.rejoined(here("--recording", folder, "--case", "a"))
                self.assertIn("   seen: not one JSON object (Expecting value: line 1 column 1 (char 0)): " + quoted,
                              lines)


# --- JSON -------------------------------------------------------------------------------------------------------------

REPORT_KEYS = [
    "execution_mode", "recording", "provenance", "model", "config", "endpoint", "batch_request_cap", "limits",
    "cases_sha256", "snapshot_sha256", "summary", "replay", "trials", "recorded_at", "actual_api_requests",
    "recorded_api_requests", "source_sha256", "environment", "cost",
]
TRIAL_KEYS = [
    "id", "case_id", "split", "repeat", "mode", "result", "checks", "findings", "cause", "detail", "elapsed_seconds",
    "provider_usage",
]


class JsonOutput(CommandLine):
    def test_it_is_one_ascii_document_of_exactly_these_fields(self) -> None:
        """The shape of a recording's report, and nothing beside it on either stream."""
        ran = replayed("--json")
        self.assertEqual((ran.code, ran.err), (0, ""))
        self.assertTrue(ran.out.isascii())
        report = agent.load_json(ran.out)  # one document, no key twice
        self.assertEqual(sorted(report), sorted(REPORT_KEYS))
        for trial in report["trials"]:
            self.assertEqual(sorted(trial), sorted(TRIAL_KEYS))
        for path in report["summary"].values():
            self.assertEqual(sorted(path), sorted(OUTCOMES))
        self.assertEqual(sorted(report["replay"]), ["differing", "exact", "missing", "trials", "unused"])
        self.assertEqual(sorted(report["environment"]), ["platform", "python", "sqlite"])

    def test_it_says_what_was_run_and_with_what(self) -> None:
        """The published settings, this kit's files, no request made now."""
        report, old = json.loads(replayed("--json").out), published()
        for name in ("model", "config", "endpoint", "batch_request_cap", "limits", "recorded_at", "provenance"):
            with self.subTest(name=name):
                self.assertEqual(report[name], old[name])
        self.assertEqual(report["execution_mode"], "replay")
        self.assertEqual(report["recording"], "published")
        self.assertEqual((report["actual_api_requests"], report["recorded_api_requests"]), (0, 40))
        self.assertEqual(report["replay"], {"trials": 16, "exact": 40, "differing": 0, "missing": 0, "unused": 0})
        self.assertIsNone(report["cost"]["currency_cost"])
        self.assertEqual(sorted(report["source_sha256"]), sorted(f"{module}.py" for module in MODULES))
        for name, digest in report["source_sha256"].items():
            with self.subTest(name=name), open(os.path.join(ROOT, name), "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), digest)
        self.assertEqual(report["environment"]["sqlite"], sqlite3.sqlite_version)

    def test_its_trials_are_the_published_ones(self) -> None:
        """Results, token usage and the five published checks; scope is a sentence of that run."""
        old = {at["id"]: at for at in published()["trials"]}
        for trial in json.loads(replayed("--json").out)["trials"]:
            with self.subTest(trial=trial["id"]):
                before = old[trial["id"]]
                for name in ("result", "provider_usage", "split", "repeat", "mode", "case_id"):
                    self.assertEqual(trial[name], before[name])
                self.assertEqual(trial["checks"] | {"scope": ""}, before["checks"] | {"scope": ""})

    def test_a_trace_asked_for_beside_it_adds_nothing(self) -> None:
        """Nothing but the document is on standard output."""
        ran = here("--json", "--trace", "--case", "overwrite", "--repeat", "1")
        self.assertEqual(len(agent.load_json(ran.out)["trials"]), 2)

    def test_what_does_not_hold_is_told_in_it_with_its_place(self) -> None:
        """Exit code 1: error beside all the rest, the line on standard error too."""
        folder = self.copy()
        path = os.path.join(folder, "exchanges.jsonl")
        with open(path, encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        edited = next(at for at in events if (at["trial"], at["exchange"]) == ("overwrite-agent-1", 2))
        text = edited["request"]["contents"][0]["parts"][0]["text"]
        edited["request"]["contents"][0]["parts"][0]["text"] = text.replace("Path.write_text", "Path.read_text", 1)
        edited["sha256"] = provider.fingerprint(edited["request"])
        self.write("copy/exchanges.jsonl", "".join(json.dumps(at) + "\n" for at in events).encode())
        self.seal(folder)
        ran = here("--recording", folder, "--json")
        report = agent.load_json(ran.out)
        self.assertEqual(ran.code, 1)
        self.assertTrue(ran.out.isascii())
        self.assertEqual(sorted(report), sorted([*REPORT_KEYS, "error"]))
        error = report["error"]
        self.assertEqual(
            {name: error[name] for name in error if name != "message"},
            {"code": 1, "trial": "overwrite-agent-1", "exchange": 2, "reason": "replay_request_mismatch"})
        self.assertIn("contents[0].parts[0].text", error["message"])
        self.assertIn(f"run.py: {error['message']}\n", ran.err)
        self.assertEqual(report["replay"], {"trials": 16, "exact": 38, "differing": 1, "missing": 0, "unused": 1})

    def test_a_mistake_is_told_in_it(self) -> None:
        """Exit code 2: an object with the error, the line on standard error too."""
        bad = self.write("bad/manifest.json", {"format": 2})
        with open(os.path.join(self.copy(), "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        limits, modes = {**manifest["limits"], "seconds": 301}, ["agent", "both"]
        slow = os.path.dirname(self.write("slow/manifest.json", manifest | {"limits": limits}))
        both = os.path.dirname(self.write("both/manifest.json", manifest | {"modes": modes}))
        for argv, reason in (
            (("--json", "--recording", "nope"), ""), (("--json", "--case", "nope"), ""),
            (("--repeat", "x", "--json"), ""), (("--json", "--frobnicate"), ""),
            (("--json", "--recording", os.path.dirname(bad)), ""),
            (("--json", "--recording", slow), "invalid_limits"), (("--json", "--recording", both), "invalid_mode"),
        ):
            with self.subTest(argv=argv):
                ran = here(*argv)
                self.assertEqual(ran.code, 2)
                self.assertTrue(ran.out.isascii())
                document = agent.load_json(ran.out)
                self.assertEqual(list(document), ["error"])
                known = {"reason": reason} if reason else {}
                self.assertEqual(document["error"], {"code": 2, "message": document["error"]["message"], **known})
                self.assertIn(f"{reason}: " if reason else "", document["error"]["message"])
                self.assertEqual(ran.err, f"run.py: {document['error']['message']}\n")

    def test_foreign_text_stands_in_it_unchanged(self) -> None:
        """Escaped on the way, true when parsed."""
        folder = hostile_recording(self)
        ran = here("--recording", folder, "--json")
        self.assertTrue(ran.out.isascii())
        self.assertEqual(raw(ran.out), [])
        trial = next(at for at in agent.load_json(ran.out)["trials"] if at["id"] == "tide-agent-1")
        self.assertEqual(trial["result"]["answer"], f"At noon. {EVIL}")
        self.assertEqual(trial["result"]["observations"][1]["result"]["text"], EVIL_PASSAGE["text"])


# --- Mistakes ---------------------------------------------------------------------------------------------------------


class Mistakes(CommandLine):
    def test_a_wrong_command_gets_one_line(self) -> None:
        """What was wrong, on standard error; no usage, nothing run, exit code 2."""
        for argv, part in (
            (("frobnicate",), '"frobnicate"'), (("",), '""'), (("Check",), "check"), (("replay",), "check"),
            (("chec",), "check"), (("check", "extra"), "extra"), (("--trace", "overwrite"), "overwrite"),
            (("--frob",), "--frob"), (("-x",), "-x"), (("--live-ish",), "--live-ish"),
            (("--rec", "published"), "--rec"), (("--reco=published",), "--reco"), (("--trac",), "--trac"),
            (("--js",), "--js"), (("check", "--case", "x"), "--case"), (("check", "--snap", "x"), "--snap"),
            (("--repeat", "x"), "'x'"), (("--repeat", "1.0"), "'1.0'"), (("--repeat", ""), "''"),
            (("--repeat",), "--repeat"), (("--case",), "--case"), (("--mode", "both"), "both"),
            (("--mode", "FIXED"), "FIXED"), (("--recording",), "--recording"), (("check", "--cases"), "--cases"),
            (("--trace=yes",), "--trace"), (("Guards",), '"Guards"'), (("guard",), '"guard"'), (("doc",), '"doc"'),
            (("guards", "same-read", "same-search"), "same-search"), (("guards", "--all"), "--all"),
            (("doctor", "published"), "published"), (("doctor", "--key"), "--key"), (("live",), '"live"'),
        ):
            with self.subTest(argv=argv):
                self.check_one_line(here(*argv), part)

    def test_no_mistake_is_an_empty_path(self) -> None:
        """A variable that a shell left empty: one line."""
        for argv in (("check", "--cases", ""), ("check", "--snapshot", ""), ("--recording", "")):
            with self.subTest(argv=argv):
                self.check_one_line(here(*argv))

    def test_help_names_every_word_and_ends_well(self) -> None:
        """main returns 0 for it, as for all that was done; each word has help of its own."""
        self.assertEqual(list(run.WORDS)[:3], ["check", "guards", "doctor"])
        for argv in (["--help"], ["-h"], ["--trace", "--help"], *([word, "--help"] for word in run.WORDS)):
            with self.subTest(argv=argv):
                out, err = io.StringIO(), io.StringIO()
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    try:
                        code: Any = run.main(argv)
                    except SystemExit as raised:
                        self.assertIn(raised.code, (0, None))
                        code = "SystemExit"
                self.assertEqual(err.getvalue(), "")
                self.assertTrue(out.getvalue().isascii())
                if argv[0] in run.WORDS:
                    self.assertIn(f"run.py {argv[0]}", out.getvalue())
                else:
                    for word in (*run.WORDS, "--recording", "--case", "--mode", "--repeat", "--trace", "--json"):
                        self.assertRegex(out.getvalue(), rf"(?m)^ +{re.escape(word)}\b")
                self.assertEqual(code, 0)

    def test_live_has_a_parser_of_its_own(self) -> None:
        """Wherever the flag stands; its help has its flags, and those of a replay are no longer known."""
        for argv in (("--live", "--help"), ("--help", "--live"), ("--repeats", "1", "--live", "-h")):
            with self.subTest(argv=argv):
                ran = here(*argv)
                self.assertEqual((ran.code, ran.err), (0, ""))
                self.assertTrue(ran.out.startswith("usage: run.py --live "), ran.out[:60])
                for flag in ("--execute-approved", "--resume", "--max-requests", "--limit"):
                    self.assertRegex(ran.out, rf"(?m)^ +{flag}\b")
        for mixed in (("--live", "--trace"), ("--trace", "--live"), ("--live", "--repeat", "1")):
            with self.subTest(argv=mixed):
                ran = here(*mixed)
                self.check_one_line(ran, "unrecognized arguments: --", "(see run.py --live --help)")
        self.check_one_line(here("--execute-approved"), "unrecognized arguments: --execute-approved",
                            "(see run.py --help)")

    def test_help_as_a_process_exits_with_0(self) -> None:
        """However narrow the terminal."""
        ran = self.child("--help", env=self.environment(COLUMNS="20"))
        self.assertEqual((ran.code, ran.err), (0, ""))
        self.assertIn("check", ran.out)

    def test_a_word_gets_its_own_process_arguments(self) -> None:
        """main() without arguments takes those of the process."""
        with mock.patch("sys.argv", ["run.py", "frobnicate"]):
            err = io.StringIO()
            with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(run.main(), 2)
        self.assertIn("frobnicate", err.getvalue())


class BadFiles(CommandLine):
    def files(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Files that hold no cases: what each is, its path, and what the line about it holds."""
        good = json.dumps({"cases": [case("a", "Which tide?")]})
        os.mkdir(self.path("folder"))
        os.symlink(self.path("nowhere"), self.path("dangling"))
        return {
            "a folder": (self.path("folder"), ("folder", "directory")),
            "missing": (self.path("missing.json"), ("missing.json", "No such file")),
            "below a file": (os.path.join(self.write("f.json", {}), "x"), ("f.json", "Not a directory")),
            "a dangling link": (self.path("dangling"), ("dangling", "No such file")),
            "empty": (self.write("empty.json", b""), ("empty.json", "JSON")),
            "only a mark": (self.write("mark.json", b"\xef\xbb\xbf"), ("mark.json", "JSON")),
            "text": (self.write("text.json", b"case: tide\n"), ("text.json", "JSON")),
            "half a document": (self.write("half.json", good[:20].encode()), ("half.json", "JSON")),
            "two documents": (self.write("two.json", (good + good).encode()), ("two.json", "JSON")),
            "UTF-16": (self.write("wide.json", good.encode("utf-16")), ("wide.json",)),
            "Latin-1": (self.write("latin.json", '{"cases": "\xe9t\xe9"}'.encode("latin-1")), ("latin.json", "utf-8")),
            "NaN": (self.write("nan.json", b'{"cases": NaN}'), ("nan.json", "NaN")),
            "a key twice": (self.write("keys.json", b'{"cases": [], "cases": []}'), ("keys.json", "twice")),
            "too deep": (self.write("deep.json", b"[" * 99 + b"]" * 99), ("deep.json", "deep")),
            "far too deep": (self.write("deeper.json", b"[" * 99_999), ("deeper.json",)),
            "half a pair": (self.write("pair.json", b'{"cases": "\\ud800"}'), ("pair.json", "JSON")),
            "binary": (self.write("x.png", b"\x89PNG\r\n\x1a\n\x00\xff"), ("x.png", "JSON")),
        }

    def test_a_file_that_cannot_be_read_is_named_with_the_cause(self) -> None:
        """One line and exit code 2, for cases and for a snapshot, given to check or lying in a recording."""
        for name, (path, parts) in self.files().items():
            for flag in ("--cases", "--snapshot"):
                with self.subTest(file=name, flag=flag):
                    self.check_one_line(here("check", flag, path), *parts)

    def test_a_bad_file_in_a_recording_stops_the_replay(self) -> None:
        """Each of its files in turn: empty, a folder, no JSON."""
        for file in ("manifest.json", "report.json", "exchanges.jsonl", "cases.json", "snapshot.json", "SHA256SUMS"):
            for name in ("empty", "a folder", "no JSON"):
                folder = self.copy()
                path = os.path.join(folder, file)
                if os.path.exists(path):
                    os.remove(path)
                if name == "a folder":
                    os.mkdir(path)
                else:
                    self.write(f"copy/{file}", b"" if name == "empty" else b"\xff\xfe\x00nonsense\n")
                ran = here("--recording", folder)
                with self.subTest(file=file, content=name):
                    if file == "SHA256SUMS" and name != "a folder":  # edits can be told no longer: it does not hold
                        self.assertEqual(ran.code, 1)
                        self.assertIn("SHA256SUMS", ran.err)
                    else:
                        self.check_one_line(ran, file)
                shutil.rmtree(folder)

    def test_a_seal_that_is_not_whole_holds_for_nothing(self) -> None:
        """A finished recording whose SHA256SUMS lacks a file, or that has a file more, was edited: exit code 1."""
        for name, drop, add in (
            ("manifest.json is unsealed", "manifest.json", ""), ("exchanges.jsonl is unsealed", "exchanges.jsonl", ""),
            ("report.json is unsealed", "report.json", ""), ("the labels are exchanged", "", "cases.json"),
            ("the passages are exchanged", "", "snapshot.json"),
        ):
            folder = self.copy()
            path = os.path.join(folder, "SHA256SUMS")
            with open(path, encoding="utf-8") as file:
                kept = [line for line in file if not drop or line.split()[1] != drop]
            self.write("copy/SHA256SUMS", "".join(kept).encode())
            if add:
                shutil.copy(os.path.join(ROOT, add), folder)
            with self.subTest(edit=name):
                ran = here("--recording", folder)
                self.assertEqual(ran.code, 1)
                self.assertIn(drop or add, ran.err)
            shutil.rmtree(folder)

    def test_another_encoding_is_named(self) -> None:
        """UTF-16 and UTF-32 are told as such, with what to save the file as."""
        text = json.dumps({"cases": [case("a", "Which tide?")]})
        for encoding, named in (("utf-16", "UTF-16"), ("utf-32", "UTF-32")):
            path = self.write(f"{encoding[:3]}.json", text.encode(encoding))
            with self.subTest(encoding=encoding):
                ran = here("check", "--cases", path)
                self.check_one_line(ran)
                self.assertIn(named, ran.err.upper())

    def test_a_mark_before_utf_8_is_dropped(self) -> None:
        """As some editors write it."""
        with open(os.path.join(ROOT, "cases.json"), "rb") as file:
            path = self.write("marked.json", b"\xef\xbb\xbf" + file.read())
        self.assertEqual(here("check", "--cases", path)[:2], here("check")[:2])

    def test_a_file_without_permission_is_named(self) -> None:
        """One line, exit code 2; root may read every file, so the refusal is played."""
        refusal = PermissionError(errno.EACCES, "Permission denied")
        with mock.patch("builtins.open", side_effect=refusal):
            ran = here("check", "--cases", self.path("secret.json"))
        self.check_one_line(ran, "secret.json", "Permission denied")

    def test_a_path_that_no_file_can_have_is_a_missing_file(self) -> None:
        """A NUL, or half of a surrogate pair."""
        for path in ("a\x00b.json", "a\ud800b.json"):
            for argv in (("check", "--cases", path), ("--recording", path)):
                with self.subTest(argv=argv):
                    self.check_one_line(here(*argv))

    def test_sqlite_without_fts5_stops_what_searches_and_nothing_else(self) -> None:
        """One line names it, its version and a way out; check does without."""
        broken = mock.Mock()
        broken.executescript.side_effect = sqlite3.OperationalError("no such module: fts5")
        with mock.patch("sqlite3.connect", return_value=broken):
            for argv in ((), ("guards",), ("guards", "same-read"), ("search", "tide")):
                self.check_one_line(here(*argv), "FTS5", sqlite3.sqlite_version, "use a Python")
            self.assertEqual(here("check").code, 0)
        broken.executescript.side_effect = sqlite3.OperationalError("disk I/O error")
        with mock.patch("sqlite3.connect", return_value=broken):
            ran = here()
        self.check_one_line(ran, "disk I/O error")
        self.assertNotIn("FTS5", ran.err)


# --- Streams and foreign text -----------------------------------------------------------------------------------------

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31mred\rOVERWRITE\u202eevil\u2066\x00\u200b\u2028end\x7f\xad\x85\t.\nnext"
EVIL_PASSAGE = passage(
    "noon-id", f"The tide comes at noon. {EVIL}", title=f"Tides {EVIL}", url=f"https://docs.example/{EVIL}")
STRANGE = "\N{SAILBOAT} 潮汐 café \u201ctide\u201d ไม่ \U0001f468\u200d\U0001f469 e\u0301 \u0416"


def hostile_recording(test: CommandLine) -> str:
    """A recording in which everything that others write holds controls."""
    answer = decision("answer", EVIL, answer=f"At noon. {EVIL}", citations=cite("noon-id", f"at noon. {EVIL}"))
    read, search = decision("read", EVIL, source_id="noon-id"), decision("search", EVIL, query=f"tide {EVIL}")
    labels = {"sources": ["noon-id"], "answer_patterns": ["midnight\u202e"], "forbidden_patterns": ["owned"]}
    cases = [
        case("tide", "Which tide\u202e is it?", **labels), case("stop", "Which tide?"),
        case("twice", "Which tide\u2066?", **labels), case("unread", "Which moon?"),
        case("outage", "Which tide?"), case("misquote", "Which tide?", **labels),
    ]
    replies: dict[str, list[Any]] = {
        "tide-agent-1": [search, read, answer],
        "stop-agent-1": [decision("stop", EVIL)],
        "twice-agent-1": [search, search],
        "unread-agent-1": [decision("read", source_id=EVIL)],
        "outage-agent-1": [f"down {EVIL}"],
        "misquote-agent-1": [search, read, {**answer, "citations": cite("noon-id", f"never {EVIL}")}],
    }
    return test.record(
        cases, [EVIL_PASSAGE], replies, model=f"gemini {EVIL}", provenance=f"made {EVIL}", recorded_at=EVIL)


class HostileText(CommandLine):
    def check_clean(self, ran: Ran) -> None:
        """Nothing on either stream but what can be shown."""
        self.assertEqual((raw(ran.out), raw(ran.err)), ([], []))

    def test_nothing_that_a_model_or_a_document_says_is_shown_raw(self) -> None:
        """Tables, traces, findings and details: controls, bidi marks and invisible characters are spelled out."""
        folder = hostile_recording(self)
        for argv in ((), ("--trace",), ("--case", "tide"), ("--json",)):
            with self.subTest(argv=argv):
                ran = here("--recording", folder, *argv)
                self.assertEqual((ran.code, ran.err), (0, ""))
                self.check_clean(ran)
        shown = here("--recording", folder, "--trace").out
        for part in (r"\x1b]0;owned\x07\x1b[2J\x9b31mred", r"\u202eevil\u2066\x00\u200b", "noon-id", r"\x7f\xad"):
            with self.subTest(part=part):
                self.assertIn(squeezed(part), squeezed(shown))

    def test_nothing_that_does_not_hold_is_shown_raw(self) -> None:
        """Differences, edits and damage are told with what the files hold."""
        folder = self.finish(hostile_recording(self))
        self.assertEqual(here("--recording", folder).code, 0)

        def changed(file: str, old: str, new: str) -> None:
            with open(os.path.join(folder, file), encoding="utf-8") as opened:
                text = opened.read()
            self.assertIn(old, text)
            self.write(f"mine/{file}", text.replace(old, new, 1).encode())

        kept = self.path("kept")
        shutil.copytree(folder, kept)
        edits = {
            "a question": (1, "cases.json", "Which tide\\u202e", "Which tide\\u202e\\u202d"),
            "a report's value": (1, "report.json", "At noon.", "\\u001b[2JAt noon."),
            "a report's field": (1, "report.json", '"status": ', '"\\u001b[2J\\u202e": 1, "status": '),
            "a seal": (1, "SHA256SUMS", "cases.json", "\x1b[2J\u202ecases.json"),
            "a trial": (1, "exchanges.jsonl", '"trial": "tide-agent-1"', '"trial": "\\u001b[2J\\u202e"'),
            "an event": (2, "exchanges.jsonl", '"event": "request"', '"event": "\\u001b[2J\\u202e"'),
            "an event's field": (2, "exchanges.jsonl", '"attempt": 1', '"\\u001b[2J\\u202e": 1, "attempt": 1'),
            "a line": (2, "exchanges.jsonl", '{"event"', '\x1b[2J\u202e{"event"'),
            "a manifest's field": (2, "manifest.json", '"format"', '"\\u001b[2J\\u202e": 1, "format"'),
            "a manifest's mode": (2, "manifest.json", '"agent"', '"\\u001b[2J\\u202e"'),
            "a manifest's case": (2, "manifest.json", '["tide"', '["\\u001b[2J\\u202e"'),
            "a case's id": (2, "cases.json", '"id": "tide"', '"id": "\\u001b[2J\\u202e"'),
            "a case's field": (2, "cases.json", '"id": "tide"', '"id": "tide", "\\u001b[2J\\u202e": 1'),
            "a case's version": (2, "cases.json", '"version": "2"', '"version": "\\u001b[2J\\u202e"'),
            "a passage's id": (2, "snapshot.json", '"source_id": "noon', '"source_id": "\\u001b[2J\\u202e'),
            "a passage's field": (2, "snapshot.json", '"url"', '"\\u001b[2J\\u202e": "", "url"'),
            "a snapshot's profile": (2, "snapshot.json", '"plain"', '"\\u001b[2J\\u202e"'),
        }
        for name, (code, *edit) in edits.items():
            changed(*edit)
            for argv in ((), ("--json",)):
                with self.subTest(edited=name, argv=argv):
                    ran = here("--recording", folder, *argv)
                    self.assertEqual(ran.code, code, ran.err)
                    self.assertTrue(ran.err)
                    self.check_clean(ran)
            shutil.rmtree(folder)
            shutil.copytree(kept, folder)

    def test_no_file_name_and_no_argument_is_shown_raw(self) -> None:
        """Mistakes are told with what was given."""
        name = "\x1b[2J\u202eevil\x07\x9b31m\n\r.json"
        for argv in (
            ("check", "--cases", self.path(name)), ("check", "--snapshot", self.write(name, b"\x1b[2J")),
            ("check", "--cases", self.write(name + "2", {"cases": [{}], EVIL: 1})), ("--recording", name), (name,),
            ("--case", name), ("--mode", name), ("--repeat", name), ("--" + name,), ("--trace", name),
            ("check", "--cases", "\udcff\udc1b"), ("--recording", "\x00"), ("check", name), ("guards", name),
            ("doctor", name), ("--live", name), ("--live", "--case", name), ("--live", "--limit", name),
        ):
            with self.subTest(argv=argv):
                ran = here(*argv)
                self.assertIn(ran.code, (1, 2))
                self.check_clean(ran)
                self.assertLessEqual(len(ran.err.splitlines()), 1)

    def test_no_name_of_a_folder_is_shown_raw(self) -> None:
        """A recording may lie in any: replayed, listed by doctor, and named where another is not there."""
        kit = self.kit()
        self.moved(kit)
        name = "\x1b[2J\u202eevil\x07\x9b31m\n\r"
        shutil.copytree(PUBLISHED, os.path.join(kit, "recordings", name))
        shown = r"\x1b[2J\u202eevil\x07\x9b31m\n\r"
        for argv, code in (
            (("--recording", name, "--case", "overwrite"), 0), (("--recording", name, "--json"), 0), (("doctor",), 0),
            (("--recording", "nope"), 2),
        ):
            with self.subTest(argv=argv):
                ran = here(*argv)
                self.assertEqual(ran.code, code, ran.err)
                self.check_clean(ran)
                if "--json" not in argv:
                    self.assertIn(shown, ran.out + ran.err)

    def test_random_text_is_never_shown_raw(self) -> None:
        """Whatever characters it has."""
        chance = random.Random(57)
        for number in range(300):
            points = (chance.choice((chance.randrange(0x20), chance.randrange(0x300), chance.randrange(0x110000)))
                      for _ in range(chance.randint(0, 12)))
            text = "".join(map(chr, points))
            lines = list(tools.table([["head", "next"], [text, "x"]], numeric=()))
            self.assertEqual([raw(line) for line in lines], [[], []], (number, text))
            self.assertEqual(len({columns(line) for line in lines} - {columns(lines[0])}) <= 1, True)


class Encodings(CommandLine):
    def strange(self) -> str:
        """A recording whose passages, questions and answers are in no one code page."""
        text = f"The tide comes at noon. {STRANGE}"
        answer = decision("answer", STRANGE, answer=STRANGE, citations=cite("潮", text))
        return self.record(
            [case("a", f"Which tide? {STRANGE}", sources=["潮"], answer_patterns=["tide"])],
            [passage("潮", text, title=STRANGE)],
            {"a-agent-1": [decision("search", query="noon"), decision("read", source_id="潮"), answer],
             "a-fixed-1": [answer]})

    SETTINGS = {
        "ascii": {"PYTHONIOENCODING": "ascii:strict", "PYTHONUTF8": "0"},
        "cp1252": {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"},
        "the C locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    }

    def test_what_a_stream_cannot_hold_changes_no_exit_code(self) -> None:
        """Every character has a spelling; JSON is the same everywhere."""
        folder = self.strange()
        document = here("--recording", folder, "--json").out
        for encoding in ("utf-8", "ascii", "cp1252", "latin-1", "cp437", "shift_jis", "utf-16-le"):
            for argv in ((), ("--trace",), ("--case", "a")):
                with self.subTest(encoding=encoding, argv=argv):
                    ran = here("--recording", folder, *argv, encoding=encoding)
                    self.assertEqual((ran.code, ran.err), (0, ""))
                    self.check_closing(ran, 2, 2, 4, 0, 0, 0)
            with self.subTest(encoding=encoding):
                as_json = json.loads(here("--recording", folder, "--json", encoding=encoding).out)
                self.assertEqual(as_json["trials"], json.loads(document)["trials"])

    def test_what_can_be_shown_is_shown_and_the_rest_spelled_out(self) -> None:
        """Not replaced by question marks."""
        folder = self.strange()
        self.assertIn("潮汐 café", here("--recording", folder, "--trace").out)
        latin = here("--recording", folder, "--trace", encoding="cp1252").out
        self.assertIn("café", latin)
        self.assertIn(r"\u6f6e\u6c50", latin)

    def test_a_process_under_another_locale_ends_alike(self) -> None:
        """Standard output of each setting; of the poorest, standard error too."""
        folder = self.strange()
        accented = self.path("fichier-\xe9t\xe9.json")
        with open(accented, "wb") as file:
            file.write(b"no JSON")
        for name, settings in self.SETTINGS.items():
            env = self.environment(**settings)
            with self.subTest(setting=name, command="replay"):
                ran = self.child("--recording", folder, "--trace", env=env)
                self.assertEqual((ran.code, ran.err), (0, ""))
                self.check_closing(ran, 2, 2, 4, 0, 0, 0)
                self.assertTrue(ran.out.isascii() or name == "cp1252")
        ran = self.child("check", "--cases", accented, env=self.environment(**self.SETTINGS["the C locale"]))
        self.assertEqual((ran.code, ran.out), (2, ""))
        self.assertRegex(ran.err, r"\Arun\.py: .*fichier-.*\.json: not JSON.*\n\Z")

    def test_words_are_utf_8_in_any_locale_and_others_are_refused(self) -> None:
        """As a person typed them; a byte that is of no UTF-8 is named, and there is no traceback."""
        for name in ("the C locale", "ascii"):
            env = self.environment(**self.SETTINGS[name])
            with self.subTest(setting=name):
                ran = self.child("search", "text caf\xe9 \u914d\u7f6e", "--version", "3.12", "--json", env=env)
                self.assertEqual((ran.code, ran.err), (0, ""))
                self.assertEqual(json.loads(ran.out)["query"], "text caf\xe9 \u914d\u7f6e")
                self.assertEqual(self.child("ask", "is caf\xe9 text?", "--version", "3.12", env=env).code, 0)
        for argv in (("search", "caf\udce9"), ("ask", "\udce9", "--version", "3.12"), ("search", "a", "\udc80")):
            with self.subTest(argv=argv):
                ran = self.child(*argv)
                self.assertEqual(ran.code, 2)
                self.assertRegex(ran.err, r"\Arun\.py: invalid_query: '.*' is not UTF-8\n\Z")

    @POSIX
    def test_a_device_is_no_file_to_read(self) -> None:
        """It may have no end; a pipe has one."""
        for argv in (("check", "--cases", "/dev/zero"), ("search", "a", "--snapshot", "/dev/zero"),
                     ("--html", "/dev/full"), ("--html", "/dev/zero")):
            with self.subTest(argv=argv):
                ran = self.child(*argv)
                self.assertEqual((ran.code, ran.out), (2, ""))
                self.assertRegex(ran.err, r"\Arun\.py: /dev/\w+: a device, which may have no end\n\Z")

    def test_output_to_a_file_is_what_goes_to_a_pipe(self) -> None:
        """The same bytes."""
        argv = [sys.executable, os.path.join(ROOT, "run.py"), "--recording", self.strange(), "--case", "a"]
        env = self.environment(PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        with open(self.path("out.txt"), "wb") as file:
            done = subprocess.run(argv, stdout=file, stderr=subprocess.PIPE, env=env, timeout=60, check=False)
        with open(self.path("out.txt"), "rb") as file:
            text = file.read().decode("ascii")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.check_closing(Ran(0, text, ""), 2, 2, 4, 0, 0, 0)
        self.assertNotIn("\x1b", text)


# --- Terminals --------------------------------------------------------------------------------------------------------


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Terminals(CommandLine):
    def screen(self, *argv: str, **settings: str) -> str:
        """What a command writes to a stream that says it is a terminal."""
        out = Screen()
        settings = {"TERM": "xterm", "COLUMNS": "100", **settings}
        with mock.patch.dict(os.environ, settings), contextlib.redirect_stdout(out):
            if "NO_COLOR" not in settings:
                os.environ.pop("NO_COLOR", None)
            self.assertEqual(run.main(list(argv)), 0)
        return out.getvalue()

    def test_outcomes_have_colour_on_a_terminal_and_nothing_else_changes(self) -> None:
        """Without the codes the lines are those of a pipe."""
        shown = self.screen(COLUMNS="160")
        self.assertEqual(len(re.findall(r"\x1b\[\d+m(pass|fail|incomplete)\x1b\[0m", shown)), 16)
        plain = re.sub(r"\x1b\[\d*m", "", shown).splitlines()
        wide = [re.sub(r"\s+", " ", line) for line in replayed().lines]  # texts keep to 100 columns, a table does not
        self.assertEqual([re.sub(r"\s+", " ", line) for line in plain][:-1], wide[:-1])

    def test_a_table_is_cut_to_the_terminal_and_each_outcome_stays(self) -> None:
        """Down to 80 columns."""
        for columns, head in (
            (80, "case repeat path outcome reason first cause"), (90, "case repeat path outcome reason"),
            (100, "case repeat path outcome reason calls tokens first cause"), (140, "case repeat path"),
        ):
            with self.subTest(columns=columns):
                plain = re.sub(r"\x1b\[\d*m", "", self.screen(COLUMNS=str(columns))).splitlines()
                start = next(at for at, line in enumerate(plain) if line.startswith("case"))
                for line in plain[start : start + 17]:
                    self.assertLessEqual(len(line), columns)
                self.assertTrue(" ".join(plain[start].split()).startswith(head), plain[start])
                self.assertEqual(sum(" abstention" in line for line in plain[start : start + 17]), 4)
                self.assertEqual(sum(" incomplete " in line for line in plain[start : start + 17]), 3)

    def test_the_outcome_has_the_colour_and_not_another_cell_of_that_name(self) -> None:
        """A passage may be called like an outcome."""
        read = [decision("search", query="noon"), decision("read", source_id="pass"), decision("stop")]
        folder = self.record(
            [case("a", "Which tide?")], [passage("pass", "The tide comes at noon.")], {"a-agent-1": read})
        row = next(line for line in self.screen("--recording", folder).splitlines() if line.startswith("a "))
        self.assertRegex(row, r"  pass +\x1b\[\d+mpass\x1b\[0m  ")

    def test_where_colour_is_not_wanted_there_is_none(self) -> None:
        """NO_COLOR, a dumb terminal, JSON, no terminal."""
        for argv, settings in (
            ((), {"NO_COLOR": "1"}), ((), {"NO_COLOR": "0"}), ((), {"TERM": "dumb"}), (("--json",), {}),
            (("--case", "overwrite"), {"NO_COLOR": "1"}), (("check",), {"NO_COLOR": "1"}),
        ):
            with self.subTest(argv=argv, settings=settings):
                self.assertNotIn("\x1b", self.screen(*argv, **settings))
        self.assertNotIn("\x1b", replayed("--trace").out)

    @POSIX
    def test_a_real_terminal_gets_colour_unless_told_otherwise(self) -> None:
        """A pseudo-terminal, a process of its own."""
        for settings, coloured in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False)):
            env = self.environment(**settings)
            if "NO_COLOR" not in settings:
                del env["NO_COLOR"]
            with self.subTest(settings=settings):
                code, shown = self.pseudo_terminal(env, "--case", "overwrite")
                self.assertEqual(code, 0)
                self.assertEqual("\x1b[32mpass\x1b[0m" in shown, coloured)
                self.assertEqual("\x1b" in shown, coloured)
                self.assertIn("replayed 4 of 16 trials", shown)

    def pseudo_terminal(self, env: dict[str, str], *argv: str) -> tuple[int, str]:
        """The exit code, and what a terminal got from standard output and error."""
        import pty

        reader, writer = pty.openpty()
        try:
            process = subprocess.Popen(
                [sys.executable, os.path.join(ROOT, "run.py"), *argv], stdin=writer, stdout=writer, stderr=writer,
                env=env, cwd=self.folder)
            os.close(writer)
            shown = b""
            with contextlib.suppress(OSError):  # at its end a pseudo-terminal raises
                while data := os.read(reader, 65536):
                    shown += data
            return process.wait(timeout=60), shown.decode("utf-8")
        finally:
            os.close(reader)


class Columns(unittest.TestCase):
    def starts(self, cells: Iterable[str]) -> set[int]:
        """The columns at which the second cell begins, below these first ones."""
        lines = tools.table([["head", "next"], *([cell, "@"] for cell in cells)], numeric=())
        return {columns(line[: line.rindex("@")]) for line in lines if "@" in line}

    def test_columns_line_up_for_wide_and_combining_characters(self) -> None:
        """The next column begins at the same place of the screen."""
        for name, cells in {
            "wide": ["配置文件", "abc", "ｆｕｌｌ", "한국어", "\N{SAILBOAT}"],
            "combining": ["cafe\u0301", "café", "abc", "e\u0323\u0301"],
            "controls": ["a\x1b[2Jb", "abc", "\u202e", "\r\n", "\x00"],
            "mixed": ["潮e\u0301\x07", "", "x" * 40],
        }.items():
            with self.subTest(cells=name):
                self.assertEqual(len(self.starts(cells)), 1)

    def test_marks_that_take_no_column_are_not_counted(self) -> None:
        """Also those that Unicode gives no combining class: Thai and Indic vowels, variation and enclosing marks."""
        for name, cell in {
            "Thai": "ที่นี่", "Lao": "ມື້", "Devanagari": "कि\u0941\u0902", "a variation selector": "\N{SAILBOAT}\ufe0f",
            "an enclosing mark": "a\u20dd",
        }.items():
            with self.subTest(marks=name):
                self.assertEqual(len(self.starts([cell, "abc"])), 1)

    def test_numbers_stand_at_the_right_and_words_at_the_left(self) -> None:
        """Two blanks between, none at the end."""
        lines = list(tools.table([["name", "count"], ["潮", "7"], ["abcdef", "12345678"]], numeric=(1,)))
        self.assertEqual(lines, ["name       count", "潮             7", "abcdef  12345678"])
        self.assertEqual(list(tools.table([["a", "b"], ["cc", ""]], numeric=())), ["a   b", "cc"])


# --- Ends -------------------------------------------------------------------------------------------------------------


class Ends(CommandLine):
    def test_an_interrupt_ends_with_130_and_one_line(self) -> None:
        """Wherever it comes."""
        def interrupted(*_: Any) -> int:
            raise KeyboardInterrupt

        with mock.patch.dict(run.WORDS, {"check": interrupted}):
            self.check_one_line(here("check"), "interrupted", code=130)
        with mock.patch("retrieval.Index.search", interrupted):
            self.check_one_line(here(), "interrupted", code=130)

    @POSIX
    def test_a_reader_that_has_seen_enough_gets_no_traceback(self) -> None:
        """A pipe closed before the first byte, or after one line."""
        for argv in ((), ("check",), ("--help",)):
            with self.subTest(argv=argv, closed="before the first byte"):
                reader, writer = os.pipe()
                os.close(reader)
                done = subprocess.run(
                    [sys.executable, os.path.join(ROOT, "run.py"), *argv], stdout=writer, stderr=subprocess.PIPE,
                    env=self.environment(), timeout=60, check=False)
                os.close(writer)
                self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        with self.subTest(closed="after a line"):  # what there was to find is not known, so it does not hold
            process = subprocess.Popen(
                [sys.executable, "-u", os.path.join(ROOT, "run.py"), "--trace"], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, env=self.environment())
            assert process.stdout and process.stderr
            self.assertTrue(process.stdout.readline().startswith(b"recording published"))
            process.stdout.close()
            self.assertEqual(process.stderr.read(), b"")
            process.stderr.close()
            self.assertEqual(process.wait(timeout=60), 1)

    @POSIX
    def test_a_reader_that_goes_away_early_turns_no_failure_into_success(self) -> None:
        """Of a recording that was edited, whether the first byte was still read or none."""
        folder = self.copy()
        with open(os.path.join(folder, "report.json"), "a", encoding="utf-8") as file:
            file.write(" ")
        told = "run.py: report.json was edited after the run: it is not what SHA256SUMS says\n"
        for unbuffered, err in ((False, told), (True, "")):
            with self.subTest(unbuffered=unbuffered):
                reader, writer = os.pipe()
                os.close(reader)
                argv = [sys.executable, *["-u"] * unbuffered, os.path.join(ROOT, "run.py"), "--recording", folder]
                done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, env=self.environment(), timeout=60,
                                      check=False)
                os.close(writer)
                self.assertEqual((done.returncode, done.stderr.decode()), (1, err))

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_a_full_disk_gets_one_line(self) -> None:
        """Standard output that takes nothing is a fault of the machine."""
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, os.path.join(ROOT, "run.py"), "--repeat", "1"], stdout=full, stderr=subprocess.PIPE,
                env=self.environment(), timeout=60, check=False)
        self.assertRegex(done.stderr.decode(), r"\Arun\.py: .*No space left.*\n\Z")
        self.assertEqual(done.returncode, 2)

    @POSIX
    def test_without_a_standard_output_there_is_no_traceback(self) -> None:
        """As a scheduler may start it."""
        program = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
        done = subprocess.run(
            [sys.executable, "-c", program, os.path.join(ROOT, "run.py"), "--repeat", "1"], stderr=subprocess.PIPE,
            env=self.environment(), timeout=60, check=False)
        self.assertNotIn("Traceback", done.stderr.decode())


# --- Where it is run --------------------------------------------------------------------------------------------------

REFUSE_WRITES = """
import os, sys

def refuse(event, args):
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    changes = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate")
    opened = event == "open" and isinstance(args[2], int) and args[2] & writing
    if opened or event in changes or event == "sqlite3.connect" and args[0] != ":memory:":
        raise AssertionError(f"{event} {args}: nothing is to be written")

sys.addaudithook(refuse)
"""


def tree(folder: str) -> dict[str, bytes]:
    """Every file below a folder, and what it holds."""
    found: dict[str, bytes] = {}
    for place, folders, files in os.walk(folder):
        found |= {os.path.join(place, name): b"" for name in folders}
        for name in files:
            with open(os.path.join(place, name), "rb") as file:
                found[os.path.join(place, name)] = file.read()
    return found


class Places(CommandLine):
    def test_it_replays_from_any_folder(self) -> None:
        """The kit's own files are found beside run.py."""
        for cwd in (self.folder, os.path.join(ROOT, "tests"), os.path.abspath(os.sep)):
            with self.subTest(cwd=cwd), contextlib.chdir(cwd):
                for argv in (("--mode", "fixed"), ("check",), ("guards",)):
                    self.assertEqual(here(*argv).code, 0)
        self.check_closing(self.child("--repeat", "1", cwd=os.path.abspath(os.sep)), 8, 16, 19, 0, 0, 0)

    def test_relative_paths_begin_where_the_user_stands(self) -> None:
        """Also those that exist in the kit under the same name."""
        self.record([case("a", "Which tide?")], [passage("noon", "At noon.")], {"a-agent-1": [decision("stop")]})
        self.write("cases.json", {"cases": [case("b", "Which moon?")]})
        self.write("snapshot.json", {"profile": "plain", "passages": []})
        os.mkdir(self.path("deeper"))
        with contextlib.chdir(self.folder):
            self.assertTrue(here("--recording", "mine").out.startswith("recording mine: "))
            self.assertIn("1 cases, 4 passages", here("check", "--cases", "cases.json").out)
            ran = here("check", "--snapshot", "snapshot.json")
            self.assertEqual(ran.code, 1)
            self.assertIn("there is none", ran.out)
        with contextlib.chdir(self.path("deeper")):
            self.assertTrue(here("--recording", "../mine").out.startswith("recording mine: "))
            self.assertTrue(here("--recording", os.path.join("..", "mine", "")).out.startswith("recording mine: "))
            self.assertIn("1 cases, 4 passages", here("check", "--cases", "../cases.json").out)
            self.check_one_line(here("check", "--cases", "cases.json"), "cases.json", "No such file")

    @POSIX
    def test_it_replays_from_a_folder_that_is_gone(self) -> None:
        """Nothing but a relative path needs to know where the user stands."""
        program = (
            "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir(os.getcwd());"
            "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])")
        done = subprocess.run(
            [sys.executable, "-c", program, os.path.join(ROOT, "run.py"), "--repeat", "1"], cwd=self.folder,
            env=self.environment(), capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        with mock.patch("os.getcwd", side_effect=FileNotFoundError(2, "No such file or directory")):
            self.check_one_line(here("--cases", "gone.json"), "gone.json: No such file")

    def test_it_replays_whatever_python_leaves_out(self) -> None:
        """Docstrings, asserts, the folder of the script, the user's folders and settings, site-packages."""
        for flags in (("-OO",), ("-I",), ("-P",), ("-E", "-s", "-S"), ("-bb", "-W", "error")):
            with self.subTest(flags=flags):
                done = subprocess.run(
                    [sys.executable, "-B", *flags, os.path.join(ROOT, "run.py"), "--repeat", "1"], cwd=self.folder,
                    env=self.environment(), capture_output=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))

    def test_a_replay_writes_nothing(self) -> None:
        """In a copy that is read-only, with blanks and accents in its name, with any opening for writing refused."""
        kit = self.kit("a kit \xe9t\xe9")
        for place, folders, files in os.walk(kit):
            for name in (*folders, *files):
                os.chmod(os.path.join(place, name), 0o555 if name in folders else 0o444)
        os.chmod(kit, 0o555)

        def writable() -> None:
            for place, _, _ in os.walk(kit):
                os.chmod(place, 0o755)

        self.addCleanup(writable)
        before = tree(kit)
        env = self.environment(PYTHONUTF8="0", LC_ALL="C")
        with open(self.path("home", "sitecustomize.py"), "a", encoding="utf-8") as file:
            file.write(REFUSE_WRITES)
        for argv in (("--trace",), ("--json",), ("check",), ("guards",), ("doctor",), ("--live",)):
            with self.subTest(argv=argv):
                ran = self.child(*argv, kit=kit, env=env)
                self.assertEqual((ran.code, ran.err), (0, ""))
        self.assertEqual(tree(kit), before)

    def test_the_hook_that_refuses_writing_does_so(self) -> None:
        """Or the test above proves nothing."""
        env = self.environment()
        with open(self.path("home", "sitecustomize.py"), "a", encoding="utf-8") as file:
            file.write(REFUSE_WRITES)
        statements = ("open('x', 'w')", "os.mkdir('x')", "os.open('x', os.O_CREAT)", "sqlite3.connect('x')")
        program = "import os, sqlite3\n" + "".join(
            f"try: {statement}\nexcept AssertionError as error: print(error)\n" for statement in statements)
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, cwd=self.folder, capture_output=True, timeout=60, check=False)
        self.assertEqual(done.stdout.decode().count("nothing is to be written"), len(statements), done)

    def test_a_copy_of_the_kit_uses_its_own_files(self) -> None:
        """Its cases, not those of another place: a changed question is a request that differs, and is named."""
        kit = self.kit()
        path = os.path.join(kit, "cases.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("append to an existing file", "append to an old file", 1))
        ran = self.child("--case", "overwrite", "--repeat", "1", kit=kit)
        self.assertEqual(ran.code, 1)
        self.check_closing(ran, 2, 16, 0, 2, 0, 2)
        for trial in ("overwrite-fixed-1", "overwrite-agent-1"):
            line = next(line for line in ran.err.splitlines() if trial in line)
            for part in ("contents[0].parts[0].text", "existing file", "old file", "cases"):
                self.assertIn(part, line)


# --- check ------------------------------------------------------------------------------------------------------------


class Check(CommandLine):
    def check_counts(self, ran: Ran, cases: int, passages: int, faults: int, weak: int) -> None:
        """What check says it has looked at and found."""
        self.assertIn(f"{cases} cases, {passages} passages", ran.out)
        self.assertIn(f"{faults} faults, {weak} weak labels", ran.lines[-1])

    def test_a_pattern_that_would_be_searched_for_without_end_is_weak(self) -> None:
        """The search for weak labels has the time that the judge's has."""
        with mock.patch.object(run, "within", side_effect=TimeoutError):
            self.assertIn("the search for it did not end on a source of this case", here("check").out)

    def test_the_shipped_files_have_no_fault_and_one_known_weak_case(self) -> None:
        """The newline case asks for more than its passage says; nothing else is warned of."""
        ran = here("check")
        self.assertEqual((ran.code, ran.err), (0, ""))
        weak = [line for line in ran.lines if line.startswith("weak: ")]
        self.assertTrue(weak)
        for line in weak:
            self.assertIn("case 'newline-version': answer_patterns[", line)
            self.assertIn("no source of this case says it", line)
        self.check_counts(ran, 4, 4, 0, len(weak))

    def test_all_faults_of_both_files_are_told_at_once(self) -> None:
        """By case or passage and field; exit code 1."""
        cases = self.write("my-cases.json", {"cases": [
            case("tide", "Which tide?", split="training", version="v2"),
            case("bracket", "Which moon?", answer_patterns=["ok", "(45"]),
            case("long", "Which star?", forbidden_patterns=["x" * 5000]),
            {"id": "empty", "question": " ", "version": "2", "split": "held-out"},
            case("tide", "Again?"), "no case", case("extra", "Why?", source="x"),
        ]})
        snapshot = self.write("my-snapshot.json", {"profile": "plain", "passages": [
            {**passage("noon", "At noon."), "text_sha256": "0"}, passage("a b", "Text."), {"source_id": "bare"},
        ]})
        ran = here("check", "--cases", cases, "--snapshot", snapshot)
        self.assertEqual((ran.code, ran.err), (1, ""))
        for parts in (
            ("my-cases.json", "'tide'", "version"), ("my-cases.json", "'tide'", "split"),
            ("my-cases.json", "'bracket'", "answer_patterns[1]", "position 0"),
            ("my-cases.json", "'long'", "forbidden_patterns[0]", "1,000"), ("my-cases.json", "'empty'", "question"),
            ("my-cases.json", "'empty'", "checks nothing"), ("my-cases.json", "cases[4]", "id", "tide"),
            ("my-cases.json", "cases[5]", "object"), ("my-cases.json", "'extra'", "unknown field", "source"),
            ("my-snapshot.json", "'noon'", "text_sha256"), ("my-snapshot.json", "'a b'", "source_id"),
            ("my-snapshot.json", "'bare'", "text: missing"), ("my-snapshot.json", "'bare'", "url: missing"),
        ):
            with self.subTest(parts=parts):
                lines = [line for line in ran.lines if line.startswith("fault: ") and all(at in line for at in parts)]
                self.assertEqual(len(lines), 1, ran.out)
        faults = sum(line.startswith("fault: ") for line in ran.lines)
        self.assertIn(f"{faults} faults, 0 weak labels", ran.lines[-1])

    def test_labels_that_name_what_is_not_there_are_faults(self) -> None:
        """A version and a source that the snapshot does not have, told with those it has."""
        cases = self.write("cases.json", {"cases": [
            case("old", "Which tide?", version="1.5", sources=["noon"]), case("gone", "Which tide?", sources=["dusk"]),
            case("other", "Which tide?", sources=["later"])]})
        snapshot = self.write("snapshot.json", {"profile": "plain", "passages": [
            passage("noon", "The tide comes at noon."), passage("later", "The tide comes late.", "3")]})
        ran = here("check", "--cases", cases, "--snapshot", snapshot)
        self.assertEqual(ran.code, 1)
        for parts in (("'old'", "1.5", "2, 3"), ("'gone'", "dusk"), ("'other'", "later", "not in version 2")):
            with self.subTest(parts=parts):
                self.assertEqual(len([line for line in ran.lines if all(at in line for at in parts)]), 1, ran.out)

    WEAK: tuple[tuple[list[str], list[str], str], ...] = (
        # a pattern (answer, forbidden), what the warning says
        (["45"], [], "bare number"),
        (["comes"], [], "begins inside a word"),
        ([r"\bmidnight\b"], [], "no source of this case says it"),
        ([r"\btide\b"], [], "the question alone satisfies it"),
        ([r"\bcomes.*noon"], [], "repeats without a bound"),
        ([r"\bat (?:x+)*"], [], "repeats without a bound"),
        ([r"(?:\bnoon)?"], [], "matches the empty string"),
        ([r"^The|noon$"], [], "an anchor holds for one alternative only"),
        ([r"\bnoon\b"], [r"\bcomes\b"], "forbids what one of the case's own sources says"),
        ([], [r"\bnever\b"], "any text with the right citation passes"),
    )

    def test_each_kind_of_weak_label_is_warned_of(self) -> None:
        """A warning is no fault: exit code 0."""
        snapshot = self.write("snapshot.json", {"profile": "plain", "passages": [
            passage("noon", "The tide comes at noon, 45 minutes late.")]})
        for answer, forbidden, warning in self.WEAK:
            labels = {"sources": ["noon"], "answer_patterns": answer, "forbidden_patterns": forbidden}
            cases = self.write("cases.json", {"cases": [
                case("weak", "Which tide?", **labels),
                case("strong", "When?", sources=["noon"], answer_patterns=[r"\bnoon\b"])]})
            with self.subTest(answer=answer, forbidden=forbidden):
                ran = here("check", "--cases", cases, "--snapshot", snapshot)
                self.assertEqual((ran.code, ran.err), (0, ""))
                lines = [line for line in ran.lines if line.startswith("weak: case 'weak': ")]
                self.assertTrue([line for line in lines if warning in line], ran.out)
                self.assertFalse([line for line in ran.lines if "'strong'" in line])
                self.check_counts(ran, 2, 1, 0, len(lines))
        cases = self.write("cases.json", {"cases": [case("weak", "Which tide?", answer_patterns=[r"\bnoon\b"])]})
        ran = here("check", "--cases", cases, "--snapshot", snapshot)
        self.assertEqual(ran.code, 0)
        self.assertIn("only a stop is right", ran.out)

    def test_a_pattern_that_never_ends_is_warned_of_at_once(self) -> None:
        """It is looked at, not tried."""
        cases = self.write("cases.json", {"cases": [
            case("slow", "x" * 60, sources=["noon"], answer_patterns=["^(x+x+)+y$"])]})
        snapshot = self.write("snapshot.json", {"profile": "plain", "passages": [passage("noon", "x" * 60)]})
        began = time.monotonic()
        ran = here("check", "--cases", cases, "--snapshot", snapshot)
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(ran.code, 0)
        self.assertIn("repeats without a bound", ran.out)

    def test_the_name_of_a_file_with_faults_is_shown_on_any_stream(self) -> None:
        """An accent in it is spelled out where it must be."""
        path = self.write("cas-\xe9t\xe9-潮.json", {"cases": [{}]})
        for encoding, name in (("utf-8", "cas-\xe9t\xe9-潮.json"), ("ascii", r"cas-\xe9t\xe9-\u6f6e.json"),
                               ("latin-1", "cas-\xe9t\xe9-\\u6f6e.json")):
            with self.subTest(encoding=encoding):
                ran = here("check", "--cases", path, encoding=encoding)
                self.assertEqual((ran.code, ran.err), (1, ""))
                self.assertIn(f"{name}: cases[0]: id: missing", ran.out)
        ran = self.child("check", "--cases", path, env=self.environment(LC_ALL="C", PYTHONUTF8="0"))
        self.assertEqual((ran.code, ran.err), (1, ""))
        self.assertIn("cases[0]: id: missing", ran.out)
        self.assertTrue(ran.out.isascii())


# --- guards -----------------------------------------------------------------------------------------------------------

QUOTED = "An existing file is overwritten."
HELD = {  # what each guard shows, by its name, as one line
    "unknown-action": 'an action called shell: failed, unknown_action (action is "shell"; it can be search, read, '
                      'answer, stop)',
    "unissued-read": 'a read of an id that no search gave: failed, unissued_source ("path-write"; handed out: none)',
    "changed-passage": "a read of a passage that changed after the search: failed, changed_read ('path-write' is not "
                       "what the search found)",
    "search-limit": "a second search where one is allowed: incomplete, search_limit (all 1 searches were made)",
    "byte-limit": 'a read of 224 bytes where 100 are allowed: incomplete, read_or_byte_limit ("path-write" has 224 '
                  'bytes; 4 reads and 100 bytes are left)',
    "same-search": 'the same search, its words in another order: failed, duplicate_query ("FILE existing, write '
                   'text!" has the terms of "write_text existing file")',
    "same-read": 'the same read again: failed, duplicate_read ("path-write" was read before)',
    "fixed-path-tool": "a search on the fixed path: failed, fixed_policy_tool_request (search was proposed; answer "
                       "and stop are open)",
    "unread-citation": 'a citation of a passage that was found and not read: failed, unread_or_changed_citation '
                       '(citations[0]: "path-write" was found but not read; read: none)',
    "inexact-quote": 'a quote with one character changed: failed, unread_or_changed_citation (citations[0]: the quote '
                     'is not in "path-write" exactly (no such run of characters): "An existing file is overwritten!")',
    "trivial-quote": 'a quote of one word: failed, trivial_citation (citations[0]: fewer than two terms or eight '
                     'characters: "overwritten")',
    "model-calls": "a third call where two are allowed: incomplete, model_call_limit (all 2 calls were made)",
    "deadline": "a reply that comes after the trial's one second: incomplete, deadline (1 s were over when the reply "
                "came)",
    "not-json": 'a sentence instead of an object: failed, invalid_decision (not one JSON object (Expecting value: '
                'line 1 column 1 (char 0)): "I would search for it.")',
    "cut-off-reply": 'a reply cut off by the token limit: failed, unfinished_model_reply (finishReason is '
                     '"MAX_TOKENS"; raise maxOutputTokens or lower the thinking level)',
    "blocked-reply": 'a prompt that the service blocked: failed, unfinished_model_reply (promptFeedback.blockReason '
                     'is "SAFETY")',
    "changed-request": "a request that is not the recorded one: failed, replay_request_mismatch (exchange 1 is not "
                       "the recorded request)",
    "request-allowance": "one request more than the run may make: failed, batch_request_limit (1 of 1 are used; the "
                         "next request could take 1)",
    "hidden-orders": 'orders hidden in a passage, and obeyed: a quote of another one: failed, '
                     'unread_or_changed_citation (citations[0]: "path-read" was found but not read; read: path-write)',
}
STOPS, ANSWERS = "incomplete, model_stopped", "answered, citation_contract_passed"
STOP_TEXT = json.dumps(decision("stop"))
Patch = contextlib.AbstractContextManager[Any]


def unsaid(function: str, reason: agent.Reason) -> Patch:
    """agent without one row of a table: that function yields nothing of that reason, and goes on."""
    real = getattr(agent, function)
    return mock.patch.object(
        agent, function, lambda *given: (fact for fact in real(*given) if fact.reason is not reason))


def everything_is_handed_out() -> Patch:
    """A trial to which every passage counts as found."""
    with open(os.path.join(ROOT, "snapshot.json"), encoding="utf-8") as file:
        passages = retrieval.load_snapshot(json.load(file)).passages
    handles = {
        at.source_id: agent.Handle(at.source_id, 1, at.version, at.text_sha256, len(at.text)) for at in passages}
    real = agent.Tape.issued
    return mock.patch.object(agent.Tape, "issued", lambda tape: handles | real(tape))


def found_is_read() -> Patch:
    """A trial in which an answer may cite what was found, read or not."""
    real = agent.Tape.read

    def read(tape: agent.Tape) -> dict[str, agent.Fact]:
        replied = tape.of("replied")
        if not replied or replied[-1].decision["action"] != "answer":
            return real(tape)
        nothing = {"text": "", "url": ""}
        found = {name: agent.Fact("observed", handles=(at,), result=nothing) for name, at in tape.issued().items()}
        return found | real(tape)

    return mock.patch.object(agent.Tape, "read", read)


def passages_as_they_are_now() -> Patch:
    """Tools that hand on a passage without a look at its receipt."""
    return mock.patch.object(
        tools.Toolbox, "_unchanged", lambda box, handle: box._index.passage(handle.source_id, handle.version))


def any_quote_is_exact() -> Patch:
    """Tools that find every quote in its passage."""
    return mock.patch.object(tools.Toolbox, "verify", lambda box, handle, quote: "")


def calls_without_end() -> Patch:
    """A trial of which a model call is always left."""
    real = agent.Tape.allowance
    return mock.patch.object(agent.Tape, "allowance", lambda tape: {**real(tape), "model_calls": 1})


def time_without_end() -> Patch:
    """A call whose clock stands still."""
    real = agent._asked
    return mock.patch.object(agent, "_asked", lambda tape, box, ask, clock: real(tape, box, ask, lambda: 0.0))


def any_text_is_json() -> Patch:
    """A loader that takes a text which is no JSON for a decision to stop."""
    real = agent.load_json

    def load(text: str | bytes) -> Any:
        try:
            return real(text)
        except agent.NotJson:
            return json.loads(STOP_TEXT)

    return mock.patch.object(agent, "load_json", load)


def any_finish_is_stop() -> Patch:
    """A decoding that takes a reply for finished, whatever the service says of it."""
    real = provider._reply_text

    def text(response: Any) -> str:
        return real({**response, "candidates": [{**at, "finishReason": "STOP"} for at in response["candidates"]]}
                    if "candidates" in response else response)

    return mock.patch.object(provider, "_reply_text", text)


def blocked_is_a_reply() -> Patch:
    """A decoding that does not look at what was blocked."""
    real = provider._reply_text
    return mock.patch.object(
        provider, "_reply_text", lambda response: STOP_TEXT if "promptFeedback" in response else real(response))


def any_request_is_the_recorded_one() -> Patch:
    """A replay that compares nothing."""
    real = provider.Replay.send

    def send(replay: provider.Replay, request: provider.Request, seconds: float) -> dict[str, Any]:
        saved = replay._saved.get(request.number)
        return real(replay, request._replace(sha256=saved.sha256) if saved else request, seconds)

    return mock.patch.object(provider.Replay, "send", send)


def requests_without_end() -> Patch:
    """An allowance that allows everything."""
    return mock.patch.object(agent.Allowance, "check", lambda allowance, size: None)


class Disabled(NamedTuple):
    """How a guard is disabled, what the trial that tries it comes to then, and which others rest on the same check."""

    patch: Callable[[], Patch]
    became: str
    others: tuple[str, ...] = ()


DISABLED = {
    "unknown-action": Disabled(functools.partial(unsaid, "wrong", agent.Reason.UNKNOWN_ACTION), ANSWERS),
    "unissued-read": Disabled(everything_is_handed_out, STOPS),
    "changed-passage": Disabled(passages_as_they_are_now, STOPS),
    "search-limit": Disabled(functools.partial(unsaid, "objections", agent.Reason.SEARCH_LIMIT), STOPS),
    "byte-limit": Disabled(functools.partial(unsaid, "objections", agent.Reason.READ_OR_BYTE_LIMIT), STOPS),
    "same-search": Disabled(functools.partial(unsaid, "objections", agent.Reason.DUPLICATE_QUERY), STOPS),
    "same-read": Disabled(functools.partial(unsaid, "objections", agent.Reason.DUPLICATE_READ), STOPS),
    "fixed-path-tool": Disabled(
        functools.partial(unsaid, "objections", agent.Reason.FIXED_POLICY_TOOL_REQUEST), STOPS),
    "unread-citation": Disabled(found_is_read, ANSWERS, ("hidden-orders",)),
    "inexact-quote": Disabled(any_quote_is_exact, ANSWERS),
    "trivial-quote": Disabled(functools.partial(unsaid, "objections", agent.Reason.TRIVIAL_CITATION), ANSWERS),
    "model-calls": Disabled(calls_without_end, ANSWERS),
    "deadline": Disabled(time_without_end, STOPS),
    "not-json": Disabled(any_text_is_json, STOPS),
    "cut-off-reply": Disabled(
        any_finish_is_stop,
        "failed, invalid_decision (not one JSON object (Unterminated string starting at: line 1 column 12 (char 11)): "
        + json.dumps('{"action": "sea') + ")"),
    "blocked-reply": Disabled(blocked_is_a_reply, STOPS),
    "changed-request": Disabled(
        any_request_is_the_recorded_one, "failed, reply_in_doubt (exchange 1 was sent, and no reply is recorded)"),
    "request-allowance": Disabled(requests_without_end, ""),
    "hidden-orders": Disabled(found_is_read, ANSWERS, ("unread-citation",)),
}


class Guards(CommandLine):
    def lines(self, ran: Ran) -> list[str]:
        """The lines of a run of guards, those that were wrapped put together again."""
        self.assertEqual(ran.err, "")
        for line in ran.lines:
            self.assertLessEqual(len(line), 100)
        return unwrapped(ran.lines)

    def test_every_guard_holds_and_has_a_line_that_says_what_came_of_it(self) -> None:
        """Whole lines, in the order of the table; exit code 0."""
        ran = here("guards")
        self.assertEqual(self.lines(ran), [*(f"held: {at}: {HELD[at]}" for at in HELD), "19 of 19 guards held"])
        self.assertEqual(ran.code, 0)
        self.assertTrue(ran.out.isascii())

    def test_each_guard_can_be_tried_by_its_name(self) -> None:
        """Only that one is, and counted."""
        for name, line in HELD.items():
            with self.subTest(guard=name):
                ran = here("guards", name)
                self.assertEqual((ran.code, self.lines(ran)), (0, [f"held: {name}: {line}", "1 of 1 guards held"]))

    def test_a_guard_that_is_not_there_is_refused_with_those_there_are(self) -> None:
        """One line, exit code 2."""
        for name in ("nope", "", "Same-read", "same", "same-read "):
            with self.subTest(name=name):
                ran = here("guards", name)
                self.check_one_line(ran)
                self.assertEqual(ran.err, f'run.py: no guard "{name}"; there are {", ".join(HELD)}\n')

    def test_each_guard_that_is_disabled_is_said_not_to_hold(self) -> None:
        """With exactly its check taken out of the code: that line and no other, and exit code 1."""
        self.assertEqual(list(DISABLED), list(HELD))
        for name, (patch, became, others) in DISABLED.items():
            out = {name, *others}
            with self.subTest(guard=name):
                with patch():
                    ran, alone = here("guards"), here("guards", name)
                lines = self.lines(ran)
                self.assertEqual(lines[-1], f"{19 - len(out)} of 19 guards held")
                kept = [f"held: {other}: {line}" for other, line in HELD.items() if other not in out]
                self.assertEqual([line for line in lines if line.startswith("held: ")], kept)
                tried = HELD[name].partition(": failed, ")[0].partition(": incomplete, ")[0]
                line = f"NOT HELD: {name}: {tried}: {became}"
                (told,) = (at for at, other in zip(lines, HELD, strict=False) if other == name)
                self.assertEqual(told if became else told[: len(line)], line)
                self.assertEqual(ran.code, 1)
                self.assertEqual((alone.code, self.lines(alone)), (1, [told, "0 of 1 guards held"]))
            self.assertEqual(here("guards", name).code, 0, "put back")

    def test_every_guard_is_tried_by_a_model_that_would_trip_it(self) -> None:
        """Each reason is one of the controller's, and those of the tape agree with what is said."""
        with open(os.path.join(ROOT, "recordings", "guards.json"), encoding="utf-8") as file:
            table = json.load(file)["guards"]
        self.assertEqual([guard["guard"] for guard in table], list(HELD))
        for guard in table:
            with self.subTest(guard=guard["guard"]):
                reason = next(at for at in agent.Reason if at == guard["reason"])
                said = f"{guard['tried']}: {reason.status}, {reason} ("
                self.assertTrue(HELD[guard["guard"]].startswith(said), said)

    def test_they_need_no_key_and_no_network_and_no_recording(self) -> None:
        """A process that may reach nothing, in a kit whose recordings are gone."""
        kit = self.kit()
        shutil.rmtree(os.path.join(kit, "recordings", "published"))
        ran = self.child("guards", kit=kit)
        self.assertEqual((ran.code, ran.err), (0, ""))
        self.assertEqual(unwrapped(ran.lines), self.lines(here("guards")))


# --- doctor -----------------------------------------------------------------------------------------------------------


class Doctor(CommandLine):
    NO_KEY = "key       no key is set: set GOOGLE_API_KEY or GEMINI_API_KEY"

    def setUp(self) -> None:
        """A copy of the kit for each test, and no key."""
        super().setUp()
        self.place = self.kit()
        self.moved(self.place)
        self.enterContext(mock.patch.dict(os.environ))
        for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
            os.environ.pop(name, None)

    def recording(self, *names: str) -> str:
        """A path below the copy's recordings."""
        return os.path.join(self.place, "recordings", *names)

    def machine(self) -> list[str]:
        """The lines about the machine."""
        system = os.uname() if hasattr(os, "uname") else None
        name = f"{system.sysname}-{system.release}-{system.machine}" if system else sys.platform
        return [f"python    {sys.version.split()[0]}", f"platform  {name}", f"sqlite    {sqlite3.sqlite_version}"]

    def check(self, code: int, *recordings: str, **settings: str) -> None:
        """All lines of doctor on a machine that lacks nothing, and its exit code."""
        ran = here("doctor", **settings)
        self.assertEqual(ran.lines, [*self.machine(), "fts5      yes", self.NO_KEY, *recordings])
        self.assertEqual((ran.code, ran.err), (code, ""))

    def test_it_says_what_this_machine_has_and_that_the_recording_is_whole(self) -> None:
        """Python, platform, SQLite, FTS5, the key's variable, each recording; exit code 0."""
        self.check(0, "recording published: whole")

    def test_a_recording_that_cannot_be_listed_hides_no_other(self) -> None:
        """As one of another user's: doctor and review name it and go on, and a replay says it in JSON too."""
        shutil.copytree(PUBLISHED, self.recording("another"))
        listdir, closed = os.listdir, self.recording("another")

        def listing(path: str) -> list[str]:
            if path == closed:
                raise PermissionError(13, "Permission denied", path)
            return listdir(path)

        with mock.patch("os.listdir", listing):
            told = f"{os.path.join('recordings', 'another')}: Permission denied"
            self.check(1, f"recording another: {told}", "recording published: whole")
            self.assertIn(f"another cannot be read: {told}", here("review").lines)
            ran = here("--recording", "another", "--json")
            self.assertEqual((ran.code, json.loads(ran.out)["error"]["message"]), (2, told))
        ran = here("--json", "--html", os.path.join(self.folder, "nowhere", "page.html"))
        self.assertEqual(ran.code, 2)
        self.assertIn("No such file", json.loads(ran.out)["error"]["message"])

    def test_it_says_which_variable_has_the_key_and_never_the_key(self) -> None:
        """As a live run would take it; that there is none is no fault."""
        secret, other = "AIzaSy-not-a-real-key-0123456789", "another-key-that-is-long"
        unusable = "is too short or holds a character that no key has"
        for settings, told in (
            ({"GOOGLE_API_KEY": secret}, "GOOGLE_API_KEY is set"),
            ({"GEMINI_API_KEY": secret}, "GEMINI_API_KEY is set"),
            ({"GOOGLE_API_KEY": secret, "GEMINI_API_KEY": other}, "GOOGLE_API_KEY is set"),
            ({"GOOGLE_API_KEY": " ", "GEMINI_API_KEY": other}, "GEMINI_API_KEY is set"),
            ({"GOOGLE_API_KEY": "", "GEMINI_API_KEY": ""}, self.NO_KEY[10:]),
            ({"GOOGLE_API_KEY": "sk-1234"}, f"GOOGLE_API_KEY {unusable}"),
            ({"GEMINI_API_KEY": "caf\xe9-key-0123"}, f"GEMINI_API_KEY {unusable}"),
        ):
            with self.subTest(settings=list(settings)):
                ran = here("doctor", **settings)
                self.assertEqual((ran.code, ran.err), (0, ""))
                self.assertEqual([line for line in ran.lines if line.startswith("key ")], [f"key       {told}"])
                for value in filter(str.strip, settings.values()):
                    self.assertNotIn(value, ran.out)

    def test_a_recording_that_is_damaged_or_edited_is_named_with_what_is_wrong(self) -> None:
        """Exit code 1, whichever file it is; what is only unfinished is no fault."""
        with open(os.path.join(PUBLISHED, "exchanges.jsonl"), "rb") as file:
            events = file.read().splitlines(keepends=True)
        exchanges, report, sums = "exchanges.jsonl", "report.json", "SHA256SUMS"
        spaced, doubled = b"".join(events).replace(b":", b": ", 1), b"".join([events[0], *events])
        damage, gone = os.path.join("recordings", "published", exchanges), {report: None, sums: None}
        seal = "was edited after the run: it is not what SHA256SUMS says"
        rows: tuple[tuple[str, dict[str, bytes | None], bool, int, str], ...] = (
            # name, the files that are replaced or deleted, whether they are sealed anew, exit code, what is said
            ("cut", {exchanges: b"".join(events)[:-9]}, False, 1,
             f"{damage}, line {len(events)}: it has no end; the recording is damaged: restore the file"),
            ("a line that is none", {exchanges: b"x\n"}, True, 1,
             f"{damage}, line 1 (after nothing): Expecting value: line 1 column 1 (char 0); the recording is damaged: "
             f"restore the file"),
            ("edited", {exchanges: spaced}, False, 1, f"{exchanges} {seal}"),
            ("two files edited", {exchanges: spaced, report: b'{"trials": []}'}, False, 1,
             f"{exchanges} {seal}; {report} {seal}"),
            ("edited and sealed", {exchanges: spaced}, True, 0, "whole"),
            ("doubled and sealed", {exchanges: doubled}, True, 1,
             "overwrite-fixed-1 exchange 1 is doubled: a second request without a retry"),
            ("without a seal", {sums: None}, False, 1,
             "SHA256SUMS is missing: whether a file was edited cannot be told"),
            ("without a plan", {"manifest.json": None}, False, 1,
             f"{os.path.join('recordings', 'published', 'manifest.json')}: No such file or directory"),
            ("under way", {**gone, exchanges: b"".join(events[:9]) + b"{"}, False, 0, "not finished"),
            ("not begun", {**gone, exchanges: b""}, False, 0, "not finished"),
            ("under way, and doubled", {**gone, exchanges: doubled}, False, 1,
             "overwrite-fixed-1 exchange 1 is doubled: a second request without a retry"),
        )
        for name, files, sealed, code, told in rows:
            shutil.rmtree(self.recording("published"))
            shutil.copytree(PUBLISHED, self.recording("published"))
            for file_name, content in files.items():
                if content is None:
                    os.remove(self.recording("published", file_name))
                else:
                    self.put(self.recording("published", file_name), content)
            if sealed:
                self.seal(self.recording("published"))
            with self.subTest(name):
                self.check(code, f"recording published: {told}")

    def put(self, path: str, content: bytes) -> None:
        """Replace a file."""
        with open(path, "wb") as file:
            file.write(content)

    def test_every_recording_has_its_line(self) -> None:
        """By name; the one that is at fault hides none behind it; files beside them are none."""
        for name in ("zebra", "ape"):
            shutil.copytree(PUBLISHED, self.recording(name))
        os.mkdir(self.recording("hollow"))
        lacking = f"{os.path.join('recordings', 'hollow', 'manifest.json')}: No such file or directory"
        self.check(1, "recording ape: whole", f"recording hollow: {lacking}", "recording published: whole",
                   "recording zebra: whole")

    def test_without_recordings_there_is_none_to_look_at(self) -> None:
        """No fault, and no traceback."""
        shutil.rmtree(self.recording())
        self.check(0)
        self.put(self.recording(), b"a file")
        self.check(0)

    def test_without_fts5_it_says_so_and_goes_on(self) -> None:
        """Exit code 1; what does not search is still looked at."""
        broken = mock.Mock()
        broken.executescript.side_effect = sqlite3.OperationalError("no such module: fts5")
        with mock.patch("sqlite3.connect", return_value=broken):
            ran = here("doctor")
        self.assertEqual((ran.code, ran.err), (1, ""))
        told = (f"fts5      NO: SQLite {sqlite3.sqlite_version} of this Python has no FTS5 (no such module: fts5); use "
                f"a Python whose SQLite has it, such as one from python.org or of a current distribution")
        self.assertEqual(ran.lines, [*self.machine(), told, self.NO_KEY, "recording published: whole"])

    def test_a_process_of_its_own_says_the_same(self) -> None:
        """Without a network, and with a key that it does not tell."""
        secret = "AIzaSy-not-a-real-key-0123456789"
        ran = self.child("doctor", kit=self.place, env=self.environment(GEMINI_API_KEY=secret))
        self.assertEqual((ran.code, ran.err), (0, ""))
        self.assertEqual(ran.lines, [*self.machine(), "fts5      yes", "key       GEMINI_API_KEY is set",
                                     "recording published: whole"])
        self.assertNotIn(secret, ran.out)


if __name__ == "__main__":
    unittest.main()
