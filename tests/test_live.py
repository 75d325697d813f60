"""Live runs against a loopback Gemini: what the plan promises happens, and nothing that breaks a run costs twice.

A run is disturbed for real: a child process gets a signal at a counted moment, a limit on the size of files, or loses
its service in the middle of a reply. Whatever happened, the resumed run has to end as one that nobody disturbed.
"""

import base64
import collections
import contextlib
import hashlib
import io
import itertools
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import agent
import provider
import retrieval
import run
from tests.support import MODULES, ROOT, USAGE, Gemini, Heard, decision, environment, gemini_error, gemini_reply

KEY = "CANARY-KEY-0001"
SMALL = ("--case", "overwrite", "--repeats", "2")  # four trials, eight requests
AGENT = ("--case", "overwrite", "--mode", "agent", "--repeats", "1")  # one trial, three requests
FIXED = ("--case", "overwrite", "--mode", "fixed", "--repeats")  # as many trials as requests
ANSWER = decision("answer", answer="Path.write_text overwrites an existing file.", citations=[
    {"source_id": "path-write", "quote": "An existing file is overwritten."}])
OUTAGE = gemini_error(500, "INTERNAL", "An internal error has occurred.")
FILES = ["SHA256SUMS", "cases.json", "exchanges.jsonl", "manifest.json", "report.json", "snapshot.json"]


def told(heard: Heard) -> list[dict[str, Any]]:
    """The lines of a request's text, each as its JSON."""
    body = json.loads(heard.body)
    return [json.loads(line) for line in body["contents"][0]["parts"][0]["text"].split("\n")]


def right(heard: Heard) -> dict[str, Any]:
    """What a good model replies: it depends on the request alone, so that a second run gets the same."""
    first, *observed, _ = told(heard)
    if "overwrite" not in first["question"]:
        return decision("stop")
    if "search" not in first["actions"] or len(observed) == 2:
        return ANSWER
    return decision("read", source_id="path-write") if observed else decision("search", query="write_text overwrite")


def read(*path: str) -> bytes:
    """A whole file."""
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def write(data: bytes | str, *path: str) -> None:
    """A whole file, overwritten in place."""
    with open(os.path.join(*path), "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode("utf-8"))


def texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, once more without the JSON escapes that it still holds."""
    if isinstance(value, str):
        yield value
        yield re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), value)
    elif isinstance(value, (dict, list)):
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from texts(item)


class Ran(NamedTuple):
    """What a command gave: the exit code (minus the signal that ended it) and both streams."""

    code: int
    out: str
    err: str
    moments: int = 0

    @property
    def plan(self) -> dict[str, str]:
        """The rows of a plan by their names."""
        return dict(re.findall(r"^(\S+(?: \S+)*)  +(\S.*)$", self.out, re.MULTILINE))


class Lab(unittest.TestCase):
    """A scratch copy of the kit with a key, and a proxy variable that must not matter. Whatever a test does, the key
    may stand in none of its files and outputs."""

    folder: str
    holder: str

    @classmethod
    def setUpClass(cls) -> None:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a disk would be waited for thousands of times
        holder = tempfile.TemporaryDirectory(dir=memory)
        cls.addClassCleanup(holder.cleanup)
        cls.holder = os.path.realpath(holder.name)
        cls.folder = os.path.join(cls.holder, "kit")
        shutil.copytree(os.path.join(ROOT, "recordings", "published"), cls.path("published"))
        for name in [*(f"{module}.py" for module in MODULES), "cases.json", "snapshot.json"]:
            shutil.copy(os.path.join(ROOT, name), cls.folder)
        moved = {
            name: cls.folder + value[len(ROOT) :]
            for name, value in vars(run).items()
            if type(value) is str and (value + os.sep).startswith(ROOT + os.sep) and not name.startswith("__")
        }
        cls.enterClassContext(mock.patch.dict(vars(run), moved))

    def setUp(self) -> None:
        self.said: list[str] = []
        settings = {"GOOGLE_API_KEY": KEY, "http_proxy": "http://127.0.0.1:9", "NO_COLOR": "1"}
        cleared = ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE", "no_proxy", "NO_PROXY")
        self.enterContext(mock.patch.dict(os.environ, settings))
        for name in cleared:
            os.environ.pop(name, None)
        self.addCleanup(self.clear)
        self.addCleanup(self.sweep)

    @classmethod
    def path(cls, *names: str) -> str:
        """Where something is among the recordings."""
        return os.path.join(cls.folder, "recordings", *names)

    def sweep(self) -> None:
        """Look for the key everywhere."""
        for text in self.said:
            self.assertNotIn(KEY, text)
        for place, _, files in os.walk(self.folder):
            for name in files:
                data = read(place, name)
                self.assertNotIn(KEY.encode(), data, name)
                for line in data.split(b"\n") if name.endswith(".jsonl") else [data] if name.endswith(".json") else []:
                    with contextlib.suppress(ValueError, RecursionError):
                        self.assertFalse([text for text in texts(json.loads(line)) if KEY in text], name)

    def clear(self) -> None:
        """Take away all recordings but the published one."""
        for name in os.listdir(self.path()):
            if os.path.isdir(self.path(name)) and not os.path.islink(self.path(name)):
                if name != "published":
                    shutil.rmtree(self.path(name))
            else:
                os.remove(self.path(name))

    def gemini(self, script: Any = right) -> Gemini:
        """A loopback Gemini with that script, to which requests go from now on."""
        gemini = self.enterContext(Gemini(script))
        self.enterContext(mock.patch.dict(os.environ, {"GOOGLE_GEMINI_BASE_URL": gemini.url}))
        return gemini

    def kit(self, *argv: str) -> Ran:
        """Run a command in this process."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run.main(list(argv))
        ran = Ran(code, out.getvalue(), err.getvalue())
        self.said += ran[1:3]
        self.assertNotIn("Traceback", ran.err)
        return ran

    def live(self, *argv: str, name: str = "mine") -> Ran:
        """Make a run."""
        return self.kit("--live", "--execute-approved", "--name", name, *argv)

    def resume(self, *argv: str, name: str = "mine") -> Ran:
        """Go on with a run."""
        return self.kit("--live", "--resume", name, "--execute-approved", *argv)

    def report(self, name: str = "mine") -> dict[str, Any]:
        """The report of a run."""
        return dict(json.loads(read(self.path(name, "report.json"))))

    def events(self, name: str = "mine") -> list[dict[str, Any]]:
        """The whole lines of a journal."""
        data = read(self.path(name, "exchanges.jsonl"))
        return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]

    def assert_replays(self, name: str = "mine", **counted: int) -> None:
        """The recording reproduces itself, without a key and without a service."""
        with mock.patch.dict(os.environ, {"GOOGLE_API_KEY": "", "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9"}):
            ran = self.kit("--recording", name)
        self.assertEqual((ran.code, ran.err), (0, ""), ran.out)
        for word, count in counted.items():
            self.assertIn(f" {count} {word}", ran.out.splitlines()[-1])

    def assert_refused(self, ran: Ran, *words: str, code: int = 2) -> None:
        """A mistake of a person: one line that says these words."""
        self.assertEqual((ran.code, len(ran.err.splitlines())), (code, 1), ran)
        for word in words:
            self.assertIn(word, ran.err)


def comparable(report: dict[str, Any]) -> dict[str, Any]:
    """A report without what may differ between a disturbed run and an undisturbed one."""
    whole: dict[str, Any] = json.loads(json.dumps(report))
    for name in ("recording", "recorded_at", "actual_api_requests", "recorded_api_requests", "environment", "in_doubt"):
        whole.pop(name)
    for name in set(whole) - set(run_report_fields()):
        del whole[name]
    whole["endpoint"] = re.sub(r":[0-9]+/", ":PORT/", whole["endpoint"])  # a class set up again has another server
    for trial in whole["trials"]:
        del trial["elapsed_seconds"]
    return whole


def run_report_fields() -> tuple[str, ...]:
    """The fields of a report that cli.md names; others may be added to say what was sent again."""
    return (
        "execution_mode", "provenance", "model", "config", "endpoint", "batch_request_cap", "limits", "cases_sha256",
        "snapshot_sha256", "summary", "replay", "trials", "source_sha256", "cost")


# --- The plan ---------------------------------------------------------------------------------------------------------


class ThePlan(Lab):
    def test_the_lab_is_80_requests_at_most(self) -> None:
        ran = self.kit("--live")
        self.assertEqual(ran.code, 0)
        for words in ("80 requests", f"{80 * 30_000} request bytes", f"{80 * 4096} output tokens"):
            self.assertIn(words, ran.plan["at worst"])
        self.assertTrue(ran.plan["trials"].startswith("16"))
        self.assertIn("gemini-3.8-flash", ran.plan["model"])
        self.assertIn("overwrite, serialize-and-save, newline-version, unsupported", ran.plan["cases"])

    def test_the_default_allowance_is_the_worst_case_and_never_more_than_200(self) -> None:
        for argv, allowance, asked in (
            ((), 80, 80), (("--repeats", "6"), 200, 240), (("--max-requests", "1"), 1, 80),
            (("--max-requests", "200"), 200, 80), ((*SMALL, "--limit", "model_calls=3"), 8, 8),
        ):
            with self.subTest(argv=argv):
                row = self.kit("--live", *argv).plan["requests"]
                self.assertEqual([int(number) for number in re.findall(r"\d+", row)][:2], [allowance, asked], row)

    def test_the_plan_is_written_nowhere_and_nothing_is_sent(self) -> None:
        gemini, before = self.gemini([]), sorted(os.listdir(self.path()))
        self.assertEqual(self.kit("--live", "--name", "mine").code, 0)
        self.assertEqual((sorted(os.listdir(self.path())), gemini.heard), (before, []))

    def test_the_numbers_of_the_plan_are_what_happens_when_all_goes_to_the_limit(self) -> None:
        """Every trial asks as often as it may, and every reply uses all output tokens."""
        def greedy(heard: Heard) -> tuple[int, dict[str, str], bytes]:
            steps = [decision("search", query="write_text"), decision("read", source_id="path-write"),
                     decision("search", query="read_text"), decision("read", source_id="path-read")]
            _, *observed, _ = told(heard)
            usage = {"promptTokenCount": len(heard.body), "candidatesTokenCount": 500, "thoughtsTokenCount": 12}
            step = steps[len(observed)] if "search" in told(heard)[0]["actions"] else decision("stop")
            return gemini_reply(step, usage=usage)

        gemini = self.gemini(greedy)
        argv = (*SMALL, "--limit", "model_calls=4", "--max-output-tokens", "512", "--price", "3,7", "--name", "mine")
        plan, ran = self.kit("--live", *argv).plan, self.kit("--live", "--execute-approved", *argv)
        self.assertEqual(ran.code, 0, ran.err)
        self.assertEqual({name: ran.plan[name] for name in plan}, plan)
        requests, size, output = map(int, re.findall(r"\d+", plan["at worst"]))
        report, heard = self.report(), [len(at.body) for at in gemini.heard]
        self.assertEqual((len(heard), report["actual_api_requests"], report["recorded_api_requests"]), (requests,) * 3)
        self.assertEqual(int(plan["trials"].partition(",")[0].split()[0].rstrip(":")), len(report["trials"]))
        self.assertLessEqual(sum(heard), size)
        self.assertEqual(output, 512 * requests)
        money = (sum(heard) * 3 + output * 7) / 1e6
        self.assertAlmostEqual(report["cost"]["currency_cost"], money, places=6)
        worst = float(re.findall(r"\d+\.\d+", plan["money"])[0])
        self.assertAlmostEqual(worst, (size * 3 + output * 7) / 1e6, places=2)
        self.assertLessEqual(money, worst)
        self.assertEqual({at["result"]["reason"] for at in report["trials"]}, {"model_call_limit", "model_stopped"})

    def test_the_variable_of_the_key_is_named_and_its_value_never_shown(self) -> None:
        for google, gemini, named in (
            (KEY, "", "GOOGLE_API_KEY is set"), ("", KEY, "GEMINI_API_KEY is set"),
            (f" {KEY}\n", "x", "GOOGLE_API_KEY is set"), ("  ", KEY, "GEMINI_API_KEY is set"),
            ("", "", "no key is set"), ("abcd", KEY, "too short"),
            (f"{KEY}\n{KEY}", "", "character"), (f"{KEY}\x7f", "", "character"),
        ):
            with (self.subTest(google=google, gemini=gemini),
                  mock.patch.dict(os.environ, {"GOOGLE_API_KEY": google, "GEMINI_API_KEY": gemini})):
                ran = self.kit("--live")
                self.assertEqual(ran.code, 0)
                self.assertIn(named, ran.plan["key"])
                self.assertNotIn("abcd", ran.out)

    def test_without_a_usable_key_nothing_is_written_and_nothing_is_sent(self) -> None:
        gemini = self.gemini([])
        for key in ("", " ", "abcd", f"{KEY}\n{KEY}", f"{KEY}\u00e4"):
            with self.subTest(key=key), mock.patch.dict(os.environ, {"GOOGLE_API_KEY": key}):
                self.assert_refused(self.live(*SMALL), "GOOGLE_API_KEY")
                self.assertEqual((os.listdir(self.path()), gemini.heard), (["published"], []))


class Flags(Lab):
    """Everything a person can get wrong is told before anything is written or sent."""

    def assert_nothing(self, gemini: Gemini, ran: Ran, *words: str) -> None:
        """It was refused with these words, and nothing came of it."""
        self.assertEqual(ran.code, 2, ran)
        for word in words:
            self.assertIn(word, ran.err)
        self.assertEqual(gemini.heard, [])

    def test_a_flag_that_makes_no_sense_is_refused_by_name(self) -> None:
        gemini = self.gemini()
        for argv, word in (
            *((f"--max-requests={at}", "invalid_request_allowance") for at in ("0", "201", "-1")),
            *((f"--max-requests={at}", "max-requests") for at in ("x", "1.5", "")),
            *((f"--limit={at}=0", at) for at in agent.Limits._fields),
            *((f"--limit={name}={most + 1}", name) for name, most in agent.LARGEST._asdict().items()),
            *((f"--limit={at}", "limit") for at in (
                "seconds", "seconds=", "seconds=1.5", "seconds=-1", "hours=1", "=1", "")),
            *((f"--price={at}", "price") for at in ("1", "0,0", "a,b", "1,2,3", "nan,1", "inf,1", "-1,2", "")),
            *((f"--token-budget={at}", "budget") for at in ("0", "-5", "x")),
            *((f"--cost-budget={at} --price=1,1", "budget") for at in ("0", "-1", "nan", "inf", "x")),
            ("--cost-budget=1", "--price"),
            *((f"--name={at}", "name") for at in (
                ".", "..", "a/b", "/tmp/x", "-x", "_x", ".x", "a" * 101, "\u00e4", "a\u00a0b", "")),
            ("--case=nope", "nope"), ("--case=", "no case"), ("--repeats=0", "repeats"), ("--repeats=101", "repeats"),
            ("--candidates=0", "candidates"), ("--candidates=11", "candidates"), ("--mode=both", "mode"),
            ("--thinking=NONE", "thinking"), ("--max-output-tokens=0", "utput"), ("--max-output-tokens=-1", "utput"),
            ("--temperature=nan", "temperature"),
            ("--temperature=inf", "temperature"), ("--temperature=x", "temperature"),
            *((f"--model={at}", "model") for at in ("a/b", "a?b", "a:b", "models/", "", "\u00e4")), ("--nope", "nope"),
        ):
            with self.subTest(argv=argv):
                self.clear()
                gemini.heard.clear()
                self.assert_nothing(gemini, self.kit("--live", "--execute-approved", *argv.split(" ")), word)
                self.assertEqual(os.listdir(self.path()), ["published"])

    def test_what_exists_under_the_name_in_any_form_is_refused(self) -> None:
        gemini = self.gemini([])
        target = os.path.join(self.holder, "target")
        for form, make in (
            ("folder", os.mkdir), ("file", lambda at: write(b"kept", at)),
            ("link to a folder", lambda at: os.symlink(self.path("published"), at)),
            ("dangling link", lambda at: os.symlink(target, at)), ("link to itself", lambda at: os.symlink(at, at)),
        ):
            with self.subTest(form=form):
                make(self.path("mine"))
                before = os.lstat(self.path("mine"))
                self.assert_nothing(gemini, self.live(*SMALL), "mine", "exists")
                self.assertEqual(os.lstat(self.path("mine")), before)
                self.assertFalse(os.path.lexists(target))
                self.clear()

    def test_a_fault_in_cases_or_passages_is_told_with_the_file(self) -> None:
        gemini = self.gemini([])
        cases, frozen = (json.loads(read(self.folder, name)) for name in ("cases.json", "snapshot.json"))
        unknown = {**cases, "cases": [{**cases["cases"][0], "sources": ["nowhere"]}]}
        doubled = {**cases, "cases": [cases["cases"][0]] * 2}
        changed = {**frozen, "passages": [{**frozen["passages"][0], "text": "Not what was hashed."}]}
        for flag, content in (
            ("cases", b"{"), ("cases", b"[]"), ("cases", json.dumps(cases).encode("utf-16")), ("cases", b""),
            ("cases", json.dumps(unknown)), ("cases", json.dumps(doubled)), ("cases", json.dumps({"cases": []})),
            ("snapshot", b"{"), ("snapshot", json.dumps(changed)), ("snapshot", b"\xff"),
        ):
            with self.subTest(flag=flag, content=content[:60]):
                write(content, self.holder, "given.json")
                ran = self.live(*SMALL, f"--{flag}", os.path.join(self.holder, "given.json"))
                self.assert_nothing(gemini, ran, "given.json")
        for flag in ("cases", "snapshot"):
            for path in (self.holder, os.path.join(self.holder, "not-there")):
                with self.subTest(flag=flag, path=path):
                    self.assert_nothing(gemini, self.live(f"--{flag}", path), path)
        self.assertEqual(os.listdir(self.path()), ["published"])

    def test_a_key_goes_to_no_address_that_it_may_not_go_to(self) -> None:
        gemini = self.gemini([])
        for settings, word in (
            *(({"GOOGLE_GEMINI_BASE_URL": at}, "GOOGLE_GEMINI_BASE_URL") for at in (
                "http://example.invalid", "http://127.0.0.1.example.invalid", "ftp://127.0.0.1", "https://a@b.invalid",
                "https://a.invalid/?key=x", "https://a.invalid/#x", "127.0.0.1:80", "http://localhost@b.invalid", "https://")),
            ({"GOOGLE_GENAI_USE_VERTEXAI": "true"}, "GOOGLE_GENAI_USE_VERTEXAI"),
            ({"GOOGLE_GENAI_USE_ENTERPRISE": "True"}, "GOOGLE_GENAI_USE_ENTERPRISE"),
        ):
            with self.subTest(settings=settings), mock.patch.dict(os.environ, settings):
                self.assert_nothing(gemini, self.live(*SMALL), word)
                self.assertEqual(os.listdir(self.path()), ["published"])

    def test_what_holds_the_key_is_neither_shown_nor_recorded_nor_sent(self) -> None:
        gemini = self.gemini([])
        with mock.patch.dict(os.environ, {"GOOGLE_GEMINI_BASE_URL": f"{gemini.url}/gate/{KEY}/"}):
            self.assert_nothing(gemini, self.live(*SMALL), "GOOGLE_GEMINI_BASE_URL holds the key")
        ran = self.kit("ask", f"is {KEY} the key for write_text?", "--version", "3.12", "--execute-approved")
        self.assert_nothing(gemini, ran, "the key stands in the question")
        self.assertNotIn(KEY, ran.out + ran.err)
        self.assertEqual(os.listdir(self.path()), ["published"])

    def test_a_folder_that_cannot_be_written_is_refused_before_the_first_request(self) -> None:
        """A file in its place stands for it where nothing is read-only, as for root."""
        gemini = self.gemini([])
        away = os.path.join(self.holder, "away")
        os.rename(self.path(), away)
        try:
            write(b"a file", self.path().rstrip(os.sep))
            self.assert_refused(self.live(*SMALL), "recordings", "nothing was sent")
        finally:
            os.remove(self.path().rstrip(os.sep))
            os.rename(away, self.path().rstrip(os.sep))
        self.assertEqual(gemini.heard, [])

    @unittest.skipIf(not hasattr(os, "geteuid") or os.geteuid() == 0, "needs a user who is not root")
    def test_a_read_only_folder_is_refused_before_the_first_request(self) -> None:
        gemini = self.gemini([])
        os.chmod(self.path(), 0o555)
        self.addCleanup(os.chmod, self.path(), 0o755)
        self.assert_refused(self.live(*SMALL), "recordings", "nothing was sent")
        self.assertEqual(gemini.heard, [])

    def test_a_run_whose_lock_cannot_be_had_sends_nothing(self) -> None:
        gemini = self.gemini([right] * 1)
        self.assertEqual(self.live(*FIXED, "2", "--max-requests", "1").code, 3)
        os.remove(self.path("mine", "lock"))
        os.mkdir(self.path("mine", "lock"))
        self.assert_refused(self.resume("--max-requests", "2"), "mine")
        self.assertEqual(len(gemini.heard), 1)


# --- A whole run ------------------------------------------------------------------------------------------------------


class WholeRuns(Lab):
    def test_a_run_of_the_lab_sends_what_it_records_and_replays_exactly(self) -> None:
        gemini = self.gemini()
        ran = self.live()
        self.assertEqual(ran.code, 0, ran.err)
        self.assertEqual([name for name in sorted(os.listdir(self.path("mine"))) if name != "lock"], FILES)
        events, report = self.events(), self.report()
        kinds = [(at["event"], at["trial"], at["exchange"], at["attempt"]) for at in events]
        for request, response in zip(kinds[::2], kinds[1::2], strict=True):
            self.assertEqual((request[0], response[0], request[1:]), ("request", "response", response[1:]))
        sent = [at for at in events if at["event"] == "request"]
        self.assertEqual([at.body for at in gemini.heard], [agent.compact(at["request"]).encode() for at in sent])
        self.assertEqual([at["sha256"] for at in sent], [provider.fingerprint(at["request"]) for at in sent])
        self.assertEqual((report["actual_api_requests"], report["recorded_api_requests"]), (len(sent),) * 2)
        self.assertEqual((report["execution_mode"], report["in_doubt"]), ("live-Gemini-API", []))
        self.assertIsNone(report["cost"]["currency_cost"])
        self.assertEqual(len(report["trials"]), 16)
        self.assertEqual({str(at) for trial in report["trials"] for at in trial["provider_usage"]}, {str(USAGE)})
        self.assertIn("16 of 16 measured", ran.out)
        self.assert_replays(exact=len(sent), differing=0, missing=0, unused=0)
        sums = dict(line.split("  ")[::-1] for line in read(self.path("mine", "SHA256SUMS")).decode().splitlines())
        self.assertEqual(sums, {
            name: hashlib.sha256(read(self.path("mine", name))).hexdigest() for name in FILES if name != "SHA256SUMS"})

    def test_the_inputs_and_the_plan_are_kept_as_they_were(self) -> None:
        self.gemini()
        self.live(*SMALL, "--temperature", "0.5", "--thinking", "off", "--price", "1,2", "--max-requests", "9")
        manifest = json.loads(read(self.path("mine", "manifest.json")))
        for name in ("cases.json", "snapshot.json"):
            self.assertEqual(json.loads(read(self.path("mine", name))), json.loads(read(self.folder, name)))
        self.assertEqual(manifest["config"], {
            "maxOutputTokens": 4096, "temperature": 0.5, "responseMimeType": "application/json"})
        self.assertEqual((manifest["cases"], manifest["repeats"], manifest["batch_request_cap"]), (["overwrite"], 2, 9))
        self.assertLessEqual({"prompt", "schema", "config", "cases", "snapshot", "sources"}, set(manifest["hashes"]))
        self.assertEqual(set(self.report()["source_sha256"]), {f"{name}.py" for name in MODULES})

    def test_requests_are_as_the_service_wants_them(self) -> None:
        """The path keeps the prefix of the base, the key is in its one header, and there is nothing else."""
        gemini = self.gemini()
        os.environ.update({"GOOGLE_GEMINI_BASE_URL": f"{gemini.url}/gate/way/", "GOOGLE_API_KEY": f"  {KEY}\t"})
        self.assertEqual(self.live(*SMALL, "--model", "models/gemini-9-test", "--limit", "seconds=100").code, 0)
        for heard in gemini.heard:
            self.assertEqual(heard.method, "POST")
            self.assertEqual(heard.path, "/gate/way/v1beta/models/gemini-9-test:generateContent")
            headers = {name.lower(): value for name, value in heard.headers}
            self.assertEqual(len(headers), len(heard.headers))
            self.assertEqual(set(headers) - {"connection"}, {
                "host", "content-length", "content-type", "accept-encoding", "user-agent", "x-goog-api-key",
                "x-server-timeout"})
            self.assertEqual((headers["x-goog-api-key"], headers["content-type"]), (KEY, "application/json"))
            self.assertEqual(headers["accept-encoding"], "identity")
            self.assertEqual(headers["content-length"], str(len(heard.body)))
            self.assertIn(int(headers["x-server-timeout"]), (44, 45))
            body = json.loads(heard.body)
            self.assertEqual(list(body), ["systemInstruction", "contents", "generationConfig"])
            self.assertEqual(body["systemInstruction"], {"parts": [{"text": provider.PROMPT}]})
            content, = body["contents"]
            self.assertEqual((list(content), content["role"], len(content["parts"])), (["role", "parts"], "user", 1))
            self.assertEqual(body["generationConfig"], {
                "maxOutputTokens": 4096, "thinkingConfig": {"thinkingLevel": "LOW"},
                "responseMimeType": "application/json", "responseJsonSchema": provider.SCHEMA})
            self.assertNotIn(KEY.encode(), heard.body)

    def test_the_server_is_told_how_long_it_has(self) -> None:
        gemini = self.gemini([right])
        self.live(*FIXED, "1", "--limit", "seconds=7")
        told = int(dict(gemini.heard[0].headers)["X-Server-Timeout"])
        self.assertIn(told, (6, 7))

    def test_a_request_is_on_disk_before_it_leaves_and_its_reply_before_the_next(self) -> None:
        seen = []

        def look(heard: Heard) -> dict[str, Any]:
            seen.append([at["event"] for at in self.events()])
            self.assertEqual(agent.compact(self.events()[-1]["request"]).encode(), heard.body)
            return right(heard)

        self.gemini(look)
        self.assertEqual(self.live(*SMALL).code, 0)
        self.assertEqual(seen, [["request", "response"] * at + ["request"] for at in range(8)])

    def test_errors_and_deadlines_replay_as_they_were(self) -> None:
        """A trial each: an outage, a reply cut off, one that is no JSON, none, one elsewhere, one that never comes."""
        gemini: Gemini = self.gemini([
            OUTAGE, right, gemini_reply("{", "MAX_TOKENS"), right, (200, {}, b"<html>"), right, None, right,
            (302, {"Location": f"https://elsewhere.invalid/?key={KEY}"}, b""), right, lambda heard: gemini.stay(5)])
        ran = self.live(*FIXED, "11", "--limit", "seconds=1")
        self.assertEqual(ran.code, 0, ran.err)
        ends = [(at["result"]["reason"], at["checks"]["outcome"]) for at in self.report()["trials"]]
        self.assertEqual(ends[::2], [
            ("model_transport_failed:http_500", "not_measured"), ("unfinished_model_reply", "not_measured"),
            ("unfinished_model_reply", "not_measured"), (ends[6][0], "not_measured"),
            ("model_transport_failed:redirect", "not_measured"), ("deadline", "incomplete")])
        self.assertIn("model_transport_failed", ends[6][0])
        self.assertEqual({outcome for _, outcome in ends[1::2]}, {"pass"})
        self.assertIn("6 of 11 measured", ran.out)
        self.assertEqual(len(gemini.heard), 11)
        self.assert_replays(exact=11)

    def test_a_deadline_in_the_middle_of_a_trial_replays_as_that(self) -> None:
        gemini: Gemini = self.gemini([right, right, lambda heard: gemini.stay(5)])
        self.assertEqual(self.live(*AGENT, "--limit", "seconds=1").code, 0)
        trial, = self.report()["trials"]
        self.assertEqual((trial["result"]["reason"], len(trial["result"]["observations"])), ("deadline", 2))
        self.assertEqual(trial["result"]["usage"]["model_calls"], 3)
        self.assertGreaterEqual(trial["elapsed_seconds"], 1)
        self.assert_replays(exact=3)

    def test_progress_is_a_line_a_trial_on_standard_error(self) -> None:
        self.gemini()
        ran = self.live(*SMALL)
        lines = ran.err.splitlines()
        self.assertEqual(len(lines), 4, ran.err)
        for number, (line, trial) in enumerate(zip(lines, self.report()["trials"], strict=True), 1):
            for word in (f"{number} of 4", trial["id"], trial["checks"]["outcome"]):
                self.assertIn(word, line)
        self.assertTrue(ran.err.isprintable() or set(ran.err) & set("\r\x1b") == set())

    def test_the_key_is_kept_nowhere_even_when_the_service_echoes_it(self) -> None:
        """In an error, in a reply, split by an escape of the reply's own JSON, beside the reply, in what is no JSON."""
        split = json.dumps(decision("stop", assessment="x")).replace('"x"', '"\\u0043ANARY-KEY-00\\u00301"')
        error = {"code": 500, "status": "INTERNAL", "message": f"no {KEY}"}
        escaped = json.dumps({"error": error}).replace("CANARY", "\\u0043ANARY")
        self.gemini([
            gemini_error(500, "INTERNAL", f"the key {KEY} is not known, {KEY}", {"reason": KEY}), right,
            (500, {}, escaped.encode()), decision("stop", assessment=f"The key is {KEY}."), gemini_reply(split),
            (200, {}, f"<html>{KEY}".encode()), gemini_reply(decision("stop"), usage={KEY: KEY}),
            (200, {}, KEY.encode("utf-16")), right, (200, {}, b"\xff" + KEY.encode()), right,
            (403, {}, json.dumps([{"error": {"code": 403, "status": KEY, "message": KEY}}]).encode())])
        ran = self.live(*FIXED, "12")
        self.assertEqual(ran.code, 0, ran.err)  # a refusal in the last trial stops nothing any more
        kept = read(self.path("mine", "exchanges.jsonl"))
        self.assertGreaterEqual(kept.count(b"[redacted]"), 8)
        for data in [base64.b64decode(at["base64"]) for at in self.events() if "base64" in at]:
            self.assertNotIn(KEY.encode(), data.replace(b"\0", b""))
        self.assertEqual(self.report()["trials"][3]["result"]["reason"], "model_stopped")
        self.assert_replays()

    def test_a_long_message_is_kept_whole_to_4_kib_and_shown_short(self) -> None:
        self.gemini([gemini_error(403, "PERMISSION_DENIED", "\u00e4" * 3000)])
        ran = self.live(*FIXED, "2")
        self.assertEqual(ran.code, 3)
        message, = [at["message"] for at in self.events() if at["event"] == "error"]
        self.assertTrue(4000 < len(message.encode()) <= 4096, len(message.encode()))
        self.assertLess(max(map(len, ran.err.splitlines())), 900)


# --- Allowance and stopping -------------------------------------------------------------------------------------------


class Stops(Lab):
    def test_what_cannot_get_better_stops_the_run_and_what_can_does_not(self) -> None:
        def error(code: int, status: str, message: str = "no", *details: Any) -> Any:
            return gemini_error(code, status, message, *details)

        info = "type.googleapis.com/google.rpc."
        slow = error(429, "RESOURCE_EXHAUSTED", "Too fast.", {"@type": f"{info}RetryInfo", "retryDelay": "38s"})
        day = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}
        used_up = error(429, "RESOURCE_EXHAUSTED", "Quota.", {"@type": f"{info}QuotaFailure", "violations": [day]})
        zero = error(429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: x, limit: 0, model: y")
        credit = error(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.")
        invalid = {"@type": f"{info}ErrorInfo", "reason": "API_KEY_INVALID"}
        bad_key = error(400, "INVALID_ARGUMENT", "API key not valid.", invalid)
        cut = gemini_reply("{", "MAX_TOKENS")
        for name, script, sent, code, words in (
            ("a bad field", [error(400, "INVALID_ARGUMENT")], 1, 3, ("http_400", "--resume mine")),
            ("a bad key", [bad_key], 1, 3, ("API_KEY_INVALID", "--resume mine")),
            ("the wrong place", [error(400, "FAILED_PRECONDITION", "User location")], 1, 3, ("User location",)),
            ("no credential", [error(401, "UNAUTHENTICATED")], 1, 3, ("UNAUTHENTICATED",)),
            ("no right", [right, error(403, "PERMISSION_DENIED")], 2, 3, ("PERMISSION_DENIED", "--resume mine")),
            ("no model", [error(404, "NOT_FOUND", "is not found")], 1, 3, ("is not found",)),
            ("used up by the day", [used_up], 1, 3, ("PerDay",)), ("limit 0", [zero], 1, 3, ("limit: 0",)),
            ("no credit", [credit], 1, 3, ("credits",)),
            ("too fast", [slow, right, right, right], 4, 0, ("38 s",)),
            ("too fast twice", [slow, slow], 2, 3, ("38 s",)),
            ("two outages", [right, OUTAGE, OUTAGE], 3, 3, (
                "two", "3 trials are done and kept, 2 of them ended by a fault, which", "--resume mine")),
            ("two faults of two kinds", [OUTAGE, cut], 2, 3, ("two",)), ("hung up twice", [None, None], 2, 3, ("two",)),
            ("outages with a reply between", [OUTAGE, right, error(503, "UNAVAILABLE"), right], 4, 0, ()),
            ("no fault of the service", [decision("search", query="x")] * 4, 4, 0, ()),
            ("no decision", [gemini_reply("not JSON")] * 4, 4, 0, ()),
        ):
            with self.subTest(name):
                self.clear()
                gemini = self.gemini(script)
                ran = self.live(*FIXED, "4")
                self.assertEqual((len(gemini.heard), ran.code), (sent, code), ran.err)
                for word in words:
                    self.assertIn(word, ran.err)
                self.assertEqual(os.path.exists(self.path("mine", "report.json")), code == 0)
                self.assert_replays()

    def test_a_finished_run_with_faults_says_how_many_were_measured_and_how_to_retry(self) -> None:
        self.gemini([OUTAGE, right, OUTAGE])
        ran = self.live(*FIXED, "3")
        self.assertEqual(ran.code, 0, ran.err)
        self.assertIn("1 of 3 measured", ran.out)
        self.assertIn("--live --resume mine --retry-faults", ran.out)

    def test_the_allowance_counts_over_resumes(self) -> None:
        gemini = self.gemini()
        for argv, sent in (
            ((*SMALL, "--name", "mine", "--max-requests", "3"), 3), (("--resume", "mine"), 3),
            (("--resume", "mine", "--max-requests", "2"), 3), (("--resume", "mine", "--max-requests", "5"), 5),
            (("--resume", "mine", "--max-requests", "7"), 7),
        ):
            with self.subTest(argv=argv):
                ran = self.kit("--live", "--execute-approved", *argv)
                self.assertEqual((ran.code, len(gemini.heard)), (3, sent), ran.err)
                self.assertIn("batch_request_limit", ran.err)
                self.assertIn("--resume mine", ran.err)
                self.assert_replays()
        for wrong in ("0", "201"):
            self.assert_refused(self.resume("--max-requests", wrong), "invalid_request_allowance")
        plan = self.kit("--live", "--resume", "mine", "--max-requests", "8").plan
        self.assertIn("3 of 4", plan["done"])
        self.assertIn("7 requests", plan["done"])
        self.assertEqual(self.resume("--max-requests", "8").code, 0)
        self.assertEqual(len(gemini.heard), 8)
        report = self.report()
        self.assertEqual((report["recorded_api_requests"], report["actual_api_requests"]), (8, 1))
        self.assertEqual({at["checks"]["outcome"] for at in report["trials"]}, {"pass"})
        self.assertEqual(len({at.body for at in gemini.heard}), 4)  # each request of a trial, in each of two repeats
        self.assert_replays(exact=8)

    def test_the_report_says_what_a_resume_was_allowed(self) -> None:
        self.gemini()
        self.live(*SMALL, "--max-requests", "3")
        self.assertEqual(self.resume("--max-requests", "8", "--price", "10,100").code, 0)
        report = self.report()
        self.assertEqual(report["batch_request_cap"], 8)
        self.assertAlmostEqual(report["cost"]["currency_cost"] or 0, 8 * (300 * 10 + 50 * 100) / 1e6)
        self.assert_replays(exact=8)

    def test_a_budget_stops_before_the_request_that_could_pass_it(self) -> None:
        """A request of s bytes could use s + 512 tokens; each reply told 350, of which 300 input and 50 output."""
        self.gemini()
        self.live(*FIXED, "1", "--max-output-tokens", "512", name="probe")
        size = len(agent.compact(self.events("probe")[0]["request"]).encode())
        tokens, money = 350 * 2 + size + 512, (2 * (300 * 3 + 50 * 7) + size * 3 + 512 * 7) / 1e6
        for flags, sent, word in (
            (("--token-budget", str(tokens)), 3, "token"), (("--token-budget", str(tokens - 1)), 2, "token"),
            (("--token-budget", str(size + 511)), 0, "token"),
            (("--price", "3,7", "--cost-budget", f"{money + 1e-9:.9f}"), 3, "cost"),
            (("--price", "3,7", "--cost-budget", f"{money - 1e-6:.9f}"), 2, "cost"),
        ):
            with self.subTest(flags=flags):
                self.clear()
                gemini = self.gemini()
                ran = self.live(*FIXED, "5", "--max-output-tokens", "512", *flags)
                self.assertEqual((ran.code, len(gemini.heard)), (3, sent), ran.err)
                self.assertIn(f"{word}_budget_limit", ran.err)
                self.assertIn("--resume mine", ran.err)
                self.assertEqual(self.resume(f"--{word}-budget", "999999").code, 0)
                self.assertEqual((len(gemini.heard), self.report()["recorded_api_requests"]), (5, 5))
                self.assert_replays(exact=5)

    def test_a_reply_that_tells_no_usage_counts_at_its_worst(self) -> None:
        gemini = self.gemini([gemini_reply(ANSWER, usage=None)] * 5)
        self.live(*FIXED, "1", "--max-output-tokens", "512", name="probe")
        size = len(agent.compact(self.events("probe")[0]["request"]).encode())
        ran = self.live(*FIXED, "5", "--max-output-tokens", "512", "--token-budget", str(2 * (size + 512)))
        self.assertEqual((ran.code, len(gemini.heard) - 1), (3, 2), ran.err)


# --- Resuming ---------------------------------------------------------------------------------------------------------


class Resumes(Lab):
    def stopped(self, requests: int = 3) -> Gemini:
        """A run stopped by its allowance after so many requests."""
        gemini = self.gemini()
        self.assertEqual(self.live(*SMALL, "--max-requests", str(requests)).code, 3)
        return gemini

    def test_a_half_written_last_line_is_cut_off_and_the_run_goes_on(self) -> None:
        self.stopped()
        whole = read(self.path("mine", "exchanges.jsonl"))
        for tail in (b"[", b'{"event": "request", "trial"', b"\xff\x00", b"[" * 100_000):
            with self.subTest(tail=tail[:30]):
                write(whole + tail, self.path("mine", "exchanges.jsonl"))
                shutil.copytree(self.path("mine"), self.path("other"))
                self.assert_replays("other")
                self.assertEqual(self.resume("--max-requests", "8", name="other").code, 0)
                before, after = (read(self.path(name, "exchanges.jsonl")) for name in ("mine", "other"))
                self.assertTrue(after.startswith(whole))
                self.assertFalse(after.startswith(before))
                self.assert_replays("other", exact=8)
                shutil.rmtree(self.path("other"))

    def test_a_changed_input_is_told_and_nothing_goes_on(self) -> None:
        gemini = self.stopped()
        cases, frozen, manifest = (
            json.loads(read(self.path("mine", name))) for name in ("cases.json", "snapshot.json", "manifest.json"))
        question, label, passage, config = (json.loads(json.dumps(at)) for at in (cases, cases, frozen, manifest))
        question["cases"][0]["question"] += " Please."
        label["cases"][3]["sources"] = ["path-write"]
        passage["passages"][0]["text"] += " More."
        passage["passages"][0]["text_sha256"] = retrieval.text_sha256(passage["passages"][0]["text"])
        config["config"]["maxOutputTokens"] = 8192
        kept = {name: read(self.path("mine", name)) for name in os.listdir(self.path("mine"))}
        for name, file, document in (
            ("cases", "cases.json", question), ("cases", "cases.json", label), ("snapshot", "snapshot.json", passage),
            ("config", "manifest.json", config), ("prompt", "", None), ("schema", "", None), ("GEMINI_BASE", "", None),
        ):
            with self.subTest(name=name), contextlib.ExitStack() as changes:
                if file:
                    write(json.dumps(document), self.path("mine", file))
                elif name == "prompt":
                    changes.enter_context(mock.patch.object(provider, "PROMPT", provider.PROMPT + " Please."))
                elif name == "schema":
                    changes.enter_context(mock.patch.dict(provider.SCHEMA, {"description": "Changed."}))
                else:
                    changes.enter_context(mock.patch.dict(os.environ, {"GOOGLE_GEMINI_BASE_URL": gemini.url + "/x"}))
                for approved in (("--execute-approved",), ()):
                    self.assert_refused(self.kit("--live", "--resume", "mine", "--max-requests", "8", *approved), name)
                for at, data in kept.items():
                    if at == file:
                        write(data, self.path("mine", at))
                    self.assertEqual(read(self.path("mine", at)), data)
        self.assertEqual(len(gemini.heard), 3)
        self.assertEqual(self.resume("--max-requests", "8").code, 0)

    def test_an_edited_journal_is_told_and_nothing_goes_on(self) -> None:
        gemini = self.stopped()
        lines = read(self.path("mine", "exchanges.jsonl")).splitlines(keepends=True)
        for name, edited, words in (
            ("a request edited", [lines[0].replace(b"overwrite it", b"overwrote it"), *lines[1:]], "edited"),
            ("a line twice", [lines[0], lines[0], *lines[1:]], "doubled"),
            ("a line that is none", [b"nonsense\n", *lines[1:]], "line 1"),
            ("a request gone", lines[1:], "missing"),
        ):
            with self.subTest(name):
                write(b"".join(edited), self.path("mine", "exchanges.jsonl"))
                self.assert_refused(self.resume("--max-requests", "8"), words)
                self.assertEqual(read(self.path("mine", "exchanges.jsonl")), b"".join(edited))
        self.assertEqual(len(gemini.heard), 3)

    def test_a_finished_run_is_not_gone_on_with(self) -> None:
        gemini = self.gemini()
        self.live(*FIXED, "1")
        kept = {name: read(self.path("mine", name)) for name in FILES}
        for name in ("mine", "published"):
            self.assert_refused(self.resume(name=name), "finished", "--retry-faults")
        self.assert_refused(self.resume(name="nowhere"), "nowhere")
        self.assertEqual({name: read(self.path("mine", name)) for name in FILES}, kept)
        self.assertEqual(len(gemini.heard), 1)

    def test_where_no_trial_was_faulted_there_is_nothing_to_retry(self) -> None:
        """A finished recording, the published one above all, is not written anew for nothing."""
        gemini = self.gemini()
        self.live(*FIXED, "1")
        self.addCleanup(shutil.copytree, os.path.join(ROOT, "recordings", "published"), self.path("published"))
        self.addCleanup(shutil.rmtree, self.path("published"))
        for name, base in (("mine", gemini.url), ("published", "")):
            with self.subTest(name), mock.patch.dict(os.environ, {"GOOGLE_GEMINI_BASE_URL": base}):
                kept = {at: read(self.path(name, at)) for at in os.listdir(self.path(name))}
                ran = self.resume("--retry-faults", name=name)
                self.assertIn(ran.code, (0, 2), ran.err)
                now = {at: read(self.path(name, at)) for at in os.listdir(self.path(name))}
                for at in set(now) - set(kept) - {"lock"} | {at for at in kept if now.get(at) != kept[at]}:
                    self.fail(f"{at} of {name} was written")
        self.assertEqual(len(gemini.heard), 1)

    def test_a_request_in_doubt_is_named_and_sent_again_only_when_told_to(self) -> None:
        """The last reply of the journal is taken away, as a crash would have done."""
        gemini = self.stopped()
        lines = read(self.path("mine", "exchanges.jsonl")).splitlines(keepends=True)
        write(b"".join(lines[:-1]), self.path("mine", "exchanges.jsonl"))
        doubt = "overwrite-agent-1 exchange 2"
        shutil.copytree(self.path("mine"), self.path("other"))
        plan = self.kit("--live", "--resume", "mine").plan
        self.assertEqual(plan["in doubt"], doubt)
        self.assertIn("3 requests", plan["done"])

        self.assertEqual(self.resume("--max-requests", "8").code, 0)
        trial = next(at for at in self.report()["trials"] if at["id"] == "overwrite-agent-1")
        self.assertEqual((trial["result"]["reason"], trial["checks"]["outcome"]), ("reply_in_doubt", "not_measured"))
        self.assertEqual((self.report()["in_doubt"], self.report()["recorded_api_requests"]), ([doubt], 7))
        self.assertEqual(len(gemini.heard), 7)
        self.assert_replays(exact=7)

        ran = self.resume("--max-requests", "8", "--resend", name="other")
        self.assertEqual((ran.code, len(gemini.heard)), (3, 12), ran.err)  # the one in doubt counts: 3 + 5 are 8
        ran = self.resume("--max-requests", "8", name="other")
        self.assertEqual((ran.code, len(gemini.heard)), (3, 12), ran.err)
        self.assertEqual(self.resume("--max-requests", "9", name="other").code, 0)
        self.assertEqual(len(gemini.heard), 13)
        again = [at for at in self.events("other") if at["event"] == "retry"]
        self.assertEqual(again, [
            {"event": "retry", "trial": "overwrite-agent-1", "exchange": 2, "attempt": 2, "why": "resend"}])
        report = self.report("other")
        self.assertEqual((report["recorded_api_requests"], report["actual_api_requests"]), (9, 1))
        self.assertEqual({at["checks"]["outcome"] for at in report["trials"]}, {"pass"})
        self.assertIn(doubt, json.dumps({**report, "trials": None}), "what may have been paid twice is named")
        self.assert_replays("other", exact=8)

        ran = self.resume("--retry-faults", "--resend", "--max-requests", "10")  # a finished one, later
        self.assertEqual(ran.code, 0, ran.err)
        self.assertEqual({at["checks"]["outcome"] for at in self.report()["trials"]}, {"pass"})
        self.assert_replays(exact=8)

    def test_retrying_runs_only_the_faulted_trials_and_keeps_the_old_report(self) -> None:
        gemini = self.gemini([right, right, OUTAGE, *[right] * 3, OUTAGE, right, right, right])
        self.assertEqual(self.live(*SMALL).code, 0)
        old = read(self.path("mine", "report.json"))
        self.assertEqual([at["checks"]["outcome"] for at in self.report()["trials"]], ["pass", "not_measured"] * 2)
        plan = self.kit("--live", "--resume", "mine", "--retry-faults").plan
        self.assertIn("overwrite-agent-1, overwrite-agent-2", plan["faults"])
        self.assertEqual((len(gemini.heard), read(self.path("mine", "report.json"))), (7, old))
        ran = self.resume("--retry-faults")
        self.assertEqual(ran.code, 0, ran.err)
        self.assertEqual(len(gemini.heard), 10)
        self.assertEqual(read(self.path("mine", "report-1.json")), old)
        report = self.report()
        self.assertEqual({at["checks"]["outcome"] for at in report["trials"]}, {"pass"})
        self.assertEqual((report["recorded_api_requests"], report["actual_api_requests"]), (10, 3))
        again = [(at["trial"], at["exchange"], at["attempt"]) for at in self.events() if at["event"] == "retry"]
        self.assertEqual(again, [("overwrite-agent-1", 2, 2), ("overwrite-agent-2", 3, 2)])
        self.assertIn("report-1.json", read(self.path("mine", "SHA256SUMS")).decode())
        self.assert_replays(exact=8)

    def test_a_trial_that_ended_by_its_time_was_measured_and_is_not_retried(self) -> None:
        gemini: Gemini = self.gemini([lambda heard: gemini.stay(5), OUTAGE, right, right])
        self.assertEqual(self.live(*FIXED, "2", "--limit", "seconds=1").code, 0)
        self.assertEqual([at["checks"]["outcome"] for at in self.report()["trials"]], ["incomplete", "not_measured"])
        self.assertEqual(self.resume("--retry-faults", "--max-requests", "3").code, 0)
        self.assertEqual([at["checks"]["outcome"] for at in self.report()["trials"]], ["incomplete", "pass"])
        self.assertEqual(len(gemini.heard), 3)
        self.assert_replays(exact=2)

    def test_the_clock_of_a_trial_goes_on_where_it_stood(self) -> None:
        """After 2.8 of its 3 seconds a resumed trial has 0.2 left, whatever the time between."""
        gemini: Gemini = self.gemini([right, lambda heard: gemini.stay(5)])
        self.assertEqual(self.live(*AGENT, "--limit", "seconds=3", "--max-requests", "1").code, 3)
        request, response = self.events()
        response["elapsed"] = 2.8
        write("".join(json.dumps(at) + "\n" for at in (request, response)), self.path("mine", "exchanges.jsonl"))
        self.assertEqual(self.resume("--max-requests", "9").code, 0)
        trial, = self.report()["trials"]
        self.assertEqual(trial["result"]["reason"], "deadline")
        self.assertTrue(3 <= trial["elapsed_seconds"] < 4, trial["elapsed_seconds"])
        self.assertEqual(dict(gemini.heard[1].headers)["X-Server-Timeout"], "1")
        self.assert_replays(exact=2)


# --- Disturbed runs ---------------------------------------------------------------------------------------------------

# A process that imports the kit once and forks a child for each order: to be disturbed at the n-th moment. A moment is
# before each call that changes a file, between the two halves of a write, and after each fsync: a request is on disk
# then and did not leave.
NURSERY = r"""
import fcntl, http.client, json, os, queue, resource, signal, ssl, sys, threading
sys.path.insert(0, sys.argv[1])
import run
moments = 0

def watch(order):
    def moment():
        global moments
        moments += 1
        if moments == order["at"]:
            os.kill(os.getpid(), order["signal"])
    def watched(name):
        real = getattr(os, name)
        def call(*args, **more):
            if name != "fsync":
                moment()
            if name == "write":
                half = len(args[1]) // 2
                real(args[0], args[1][:half])
                moment()
                return half + real(args[0], args[1][half:])
            result = real(*args, **more)
            if name == "fsync":
                moment()
            return result
        return call
    for name in ("write", "fsync", "replace", "rename", "remove", "mkdir", "ftruncate"):
        setattr(os, name, watched(name))

def child(order):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream, fd in (("out", 1), ("err", 2)):
        os.dup2(os.open(os.path.join(sys.argv[2], stream), os.O_CREAT | os.O_TRUNC | os.O_WRONLY), fd)
    if order["limit"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["limit"], resource.RLIM_INFINITY))
    if order["at"] is not None:
        watch(order)
    code = run.main(order["argv"])
    sys.stdout.flush()
    with open(os.path.join(sys.argv[2], "moments"), "w") as file:
        file.write(str(moments))
    os._exit(code)

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        try:
            child(json.loads(line))
        finally:
            os._exit(99)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@unittest.skipUnless(hasattr(os, "fork"), "needs fork and real signals")
class DisturbedRuns(Lab):
    """A run is made in a child that does not come to its end; then it is resumed."""

    server: Gemini
    script: Any
    pids: "queue.SimpleQueue[int]"
    nursery: Any
    whole: dict[str, Any]
    once: "collections.Counter[bytes]"
    moments: int

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.script, cls.pids = staticmethod(right), queue.SimpleQueue()
        cls.server = cls.enterClassContext(Gemini(lambda heard: cls.script(heard)))
        write(NURSERY, cls.holder, "nursery.py")
        proxy = "http://127.0.0.1:9"
        child = environment(cls.holder, GOOGLE_API_KEY=KEY, http_proxy=proxy, GOOGLE_GEMINI_BASE_URL=cls.server.url)
        cls.nursery = cls.enterClassContext(subprocess.Popen(
            [sys.executable, os.path.join(cls.holder, "nursery.py"), cls.folder, cls.holder], env=child, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE))

    def setUp(self) -> None:
        super().setUp()
        self.enterContext(mock.patch.dict(os.environ, {"GOOGLE_GEMINI_BASE_URL": self.server.url}))
        if not hasattr(type(self), "whole"):
            ran = self.child("--live", *SMALL, "--execute-approved", "--name", "whole", at=0)
            self.assertEqual(ran.code, 0, ran.err)
            type(self).moments, type(self).whole = ran.moments, comparable(self.report("whole"))
            type(self).once = self.bodies()
        self.reset()

    def reset(self) -> None:
        """Nothing is recorded, nothing was heard."""
        self.clear()
        self.server.heard.clear()
        self.answers(right)

    def answers(self, script: Callable[[Heard], Any]) -> None:
        """From now on the service answers so."""
        type(self).script = staticmethod(script)

    def bodies(self) -> "collections.Counter[bytes]":
        """How often the service heard each request."""
        return collections.Counter(at.body for at in self.server.heard)

    def order(self, *argv: str, at: int | None = None, kill: int = signal.SIGKILL, limit: int = 0) -> int:
        """Start a child, and give its process."""
        order = {"argv": argv, "at": at, "signal": kill, "limit": limit}
        print(json.dumps(order), file=self.nursery.stdin, flush=True)
        pid = int(self.nursery.stdout.readline())
        self.pids.put(pid)
        return pid

    def ended(self) -> Ran:
        """Wait for the child; what it gave."""
        code = int(self.nursery.stdout.readline())
        while not self.pids.empty():
            self.pids.get()
        out, err = (read(self.holder, name).decode() for name in ("out", "err"))
        self.said += [out, err]
        self.assertNotIn("Traceback", err)
        return Ran(code, out, err, int(read(self.holder, "moments")) if code >= 0 else 0)

    def child(self, *argv: str, **how: Any) -> Ran:
        """Run a command in a child to its end, whatever that is."""
        self.order(*argv, **how)
        return self.ended()

    def make(self, **how: Any) -> Ran:
        """Make the run of which `whole` is the undisturbed report."""
        return self.child("--live", *SMALL, "--execute-approved", "--name", "mine", **how)

    def has(self, *names: str) -> bool:
        """Whether the recording has these files."""
        return all(os.path.exists(self.path("mine", name)) for name in names)

    def in_doubt(self) -> dict[str, bytes]:
        """The requests of the journal that have no reply, and their bodies."""
        lacking = {}
        for at in self.events():
            place = f"{at['trial']} exchange {at['exchange']}"
            if at["event"] == "request":
                lacking[place] = agent.compact(at["request"]).encode()
            elif at["event"] != "retry":
                del lacking[place]
        return lacking

    def assert_resumes(self) -> None:
        """What a disturbed run left is told as it is, and goes on to what an undisturbed one comes to."""
        if not self.has("manifest.json"):
            self.assertEqual(self.server.heard, [])  # it never began
            if os.path.exists(self.path("mine")):
                self.assert_refused(self.resume(), "mine")
            return
        if self.has("report.json", "SHA256SUMS"):
            self.assert_refused(self.resume(), "finished")
            self.assert_whole({})
            return
        doubt, heard = self.in_doubt() if self.has("exchanges.jsonl") else {}, len(self.server.heard)
        plan = self.kit("--live", "--resume", "mine")
        self.assertEqual((plan.code, plan.err, len(self.server.heard)), (0, "", heard))
        self.assertEqual(plan.plan["in doubt"], ", ".join(doubt) or "none")
        if doubt:
            shutil.copytree(self.path("mine"), self.path("other"))
            self.assert_goes_on_without(doubt)
            del self.server.heard[heard:]
        ran = self.resume("--resend")
        self.assertEqual(ran.code, 0, ran.err)
        self.assert_whole(doubt)

    def assert_goes_on_without(self, doubt: Iterable[str]) -> None:
        """Unless told to, a resume leaves what is in doubt alone: its trial was not measured, the others were."""
        ran = self.resume(name="other")
        self.assertEqual(ran.code, 0, ran.err)
        report = self.report("other")
        self.assertEqual(report["in_doubt"], list(doubt))
        lost = {place.partition(" ")[0] for place in doubt}
        for trial, undisturbed in zip(report["trials"], self.whole["trials"], strict=True):
            if trial["id"] in lost:
                ends = (trial["result"]["reason"], trial["checks"]["outcome"])
                self.assertEqual(ends, ("reply_in_doubt", "not_measured"))
            else:
                self.assertEqual({**trial, "elapsed_seconds": None}, {**undisturbed, "elapsed_seconds": None})
        self.assertEqual(self.bodies() - self.once, collections.Counter())
        self.assertIn("3 of 4 measured", ran.out)
        self.assert_replays("other")
        shutil.rmtree(self.path("other"))

    def assert_whole(self, doubt: dict[str, bytes]) -> None:
        """The report is the undisturbed one, and the service was asked once, but for what was in doubt."""
        report = self.report()
        self.assertEqual(comparable(report), self.whole)
        self.assertEqual(self.once - self.bodies(), collections.Counter())
        self.assertEqual(self.bodies() - self.once - collections.Counter(doubt.values()), collections.Counter())
        self.assertEqual(report["recorded_api_requests"], 8 + len(doubt))
        events = [at for at in self.events() if "elapsed" in at]
        for before, after in itertools.pairwise(events):
            if before["trial"] == after["trial"]:
                self.assertLessEqual(before["elapsed"], after["elapsed"])
        self.assertEqual([name for name in sorted(os.listdir(self.path("mine"))) if name in FILES], FILES)
        self.assert_replays(exact=8)
        for place in doubt:
            self.assertIn(place, str({**report, "trials": None}), "what may have been paid twice is named")

    def test_a_run_killed_at_any_moment_loses_and_repeats_nothing(self) -> None:
        self.assertGreater(self.moments, 8 * 2 * 3)  # each of 16 lines has three moments
        for at in range(1, self.moments + 1):
            with self.subTest(at=at, of=self.moments):
                self.reset()
                self.assertEqual(self.make(at=at).code, -signal.SIGKILL)
                self.assert_resumes()

    def test_a_run_killed_while_a_reply_is_under_way_has_that_request_in_doubt(self) -> None:
        for number in range(1, 9):
            with self.subTest(number=number):
                self.reset()
                self.answers(self.killer(number, signal.SIGKILL))
                self.assertEqual(self.make().code, -signal.SIGKILL)
                self.assertEqual((len(self.server.heard), len(self.in_doubt())), (number, 1))
                self.answers(right)
                self.assert_resumes()
                self.assertEqual(len(self.server.heard), 9)

    def test_a_request_may_be_lost_twice(self) -> None:
        """The resume is killed at the same request; each of the three sendings counts."""
        for number in (3, 4):
            self.answers(self.killer(number, signal.SIGKILL))
            how = ("--name", "mine", *SMALL) if number == 3 else ("--resume", "mine", "--resend")
            self.assertEqual(self.child("--live", "--execute-approved", *how).code, -signal.SIGKILL)
            self.assertEqual(list(self.in_doubt()), ["overwrite-agent-1 exchange 2"])
        self.answers(right)
        plan = self.kit("--live", "--resume", "mine").plan
        self.assertIn("4 requests", plan["done"])
        self.assertEqual(self.resume("--resend", "--max-requests", "10").code, 0)
        report = self.report()
        self.assertEqual((comparable(report)["trials"], report["recorded_api_requests"]), (self.whole["trials"], 10))
        self.assertEqual(len(self.server.heard), 10)
        self.assert_replays(exact=8)

    def killer(self, number: int, kill: int) -> Callable[[Heard], Any]:
        """A script that sends half a reply to the n-th request, and a signal to who asked."""
        def script(heard: Heard) -> Any:
            if len(self.server.heard) != number:
                return right(heard)
            *_, body = gemini_reply(right(heard))
            wire = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

            def halves() -> Iterator[bytes]:
                yield wire[: len(wire) - len(body) // 2]
                os.kill(self.pids.get(timeout=5), kill)
                self.server.stay(5)
                yield wire[len(wire) - len(body) // 2 :]

            return halves()

        return script

    def test_an_interrupted_run_says_so_and_goes_on(self) -> None:
        for kill, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            for number in (1, 4):
                with self.subTest(kill=kill, number=number):
                    self.reset()
                    self.answers(self.killer(number, kill))
                    ran = self.make()
                    self.assertEqual(ran.code, code, ran)
                    self.assertIn("--live --resume mine --execute-approved", ran.err.splitlines()[-1])
                    self.assertIn("interrupted", ran.err)
                    self.answers(right)
                    self.assert_resumes()
                    self.assertEqual(len(self.server.heard), 9)

    def test_a_run_interrupted_at_any_moment_goes_on(self) -> None:
        for kill, code, start in ((signal.SIGINT, 130, 1), (signal.SIGTERM, 143, 4)):
            for at in range(start, self.moments, 8):
                with self.subTest(kill=kill, at=at):
                    self.reset()
                    ran = self.make(at=at, kill=kill)
                    # before the run is under way SIGTERM may do what it does to any process
                    self.assertIn(ran.code, (code,) if self.server.heard else (code, -kill), ran)
                    self.assert_resumes()

    def test_a_full_disk_stops_the_run_and_what_is_there_is_kept(self) -> None:
        """A real limit on the size of a file: in each line of the journal, at a line's end, and in the report."""
        self.make()
        lines = read(self.path("mine", "exchanges.jsonl")).splitlines(keepends=True)
        ends = [sum(map(len, lines[: at + 1])) for at in range(len(lines))]
        smallest = max(len(read(self.path("mine", name))) for name in ("cases.json", "snapshot.json", "manifest.json"))
        limits = [end - len(line) // 2 for end, line in zip(ends, lines, strict=True)] + [ends[2], ends[9], ends[6] + 1]
        for limit in [at for at in limits if at > smallest]:
            with self.subTest(limit=limit):
                self.reset()
                ran = self.make(limit=limit)
                self.assertEqual(ran.code, 3, ran)
                self.assertIn("exchanges.jsonl", ran.err)
                self.assertIn("--live --resume mine --execute-approved", ran.err)
                data = read(self.path("mine", "exchanges.jsonl"))
                self.assertTrue(data.endswith(b"\n") or not data)
                self.assert_resumes()

    def test_a_disk_too_full_for_the_plan_or_the_report_is_told(self) -> None:
        ran = self.make(limit=2000)
        self.assert_refused(ran, "mine", "nothing was sent")
        self.assertEqual(self.server.heard, [])
        self.reset()
        self.make()
        for name in ("report.json", "SHA256SUMS"):
            os.remove(self.path("mine", name))
        ran = self.child("--live", "--resume", "mine", "--execute-approved", limit=5000)
        self.assertEqual(ran.code, 3, ran)
        self.assertIn("--resume mine", ran.err)
        self.assertFalse([at for at in os.listdir(self.path("mine")) if "report" in at or "part" in at])
        self.assert_resumes()

    def test_a_retry_killed_at_any_moment_keeps_the_old_report_and_goes_on(self) -> None:
        def outage(heard: Heard) -> Any:
            return OUTAGE if len(self.server.heard) == 3 else right(heard)

        self.answers(outage)
        self.assertEqual(self.make().code, 0)
        old = read(self.path("mine", "report.json"))
        shutil.copytree(self.path("mine"), os.path.join(self.holder, "faulted"))
        self.addCleanup(shutil.rmtree, os.path.join(self.holder, "faulted"))
        again = ("--live", "--resume", "mine", "--retry-faults", "--max-requests", "30", "--execute-approved")
        moments = self.child(*again, at=0).moments
        for at in range(1, moments):
            with self.subTest(at=at, of=moments):
                self.reset()
                shutil.copytree(os.path.join(self.holder, "faulted"), self.path("mine"))
                self.assertEqual(self.child(*again, at=at).code, -signal.SIGKILL)
                if not self.has("report.json", "report-1.json", "SHA256SUMS"):
                    ran = self.kit(*again, "--resend")
                    self.assertEqual(ran.code, 0, ran.err)
                self.assertEqual(read(self.path("mine", "report-1.json")), old)
                self.assertEqual({at["checks"]["outcome"] for at in self.report()["trials"]}, {"pass"})
                self.assert_replays(exact=8)

    def test_of_two_processes_the_second_is_told_who_writes(self) -> None:
        """The second comes while the first waits for a reply; the first ends as if nobody had come."""
        came = []

        def script(heard: Heard) -> Any:
            if len(self.server.heard) == 3:
                pid = self.pids.get(timeout=5)
                second = self.second()
                came.append((pid, second))
            return right(heard)

        type(self).script = staticmethod(script)
        self.assertEqual(self.make().code, 0)
        (pid, second), = came
        self.assertEqual(second.returncode, 2, second)
        self.assertIn(f"{pid} ", second.stderr)
        self.assertEqual(len(second.stderr.splitlines()), 1)
        self.assert_whole({})

    def second(self) -> "subprocess.CompletedProcess[str]":
        """A process that wants to go on with the run."""
        child = environment(self.holder, GOOGLE_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=self.server.url)
        argv = [sys.executable, os.path.join(self.folder, "run.py"), "--live", "--resume", "mine", "--execute-approved"]
        ran = subprocess.run([*argv, "--resend"], env=child, capture_output=True, text=True, timeout=30)
        self.said += [ran.stdout, ran.stderr]
        return ran

    def test_the_lock_of_a_dead_process_hinders_nobody(self) -> None:
        self.answers(self.killer(2, signal.SIGKILL))
        self.assertEqual(self.make().code, -signal.SIGKILL)
        self.assertRegex(read(self.path("mine", "lock")), rb"^\d+\n$")
        self.answers(right)
        self.assert_resumes()


if __name__ == "__main__":
    unittest.main()
