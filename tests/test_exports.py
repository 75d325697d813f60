"""Exports and claim records: that other programs read them, that nothing is lost unsaid, and what a claim may say."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from typing import Any

import agent
import evaluate
import provider
import run
import tools
from tests.support import ROOT
from tests.test_live import Lab, right

PUBLISHED = os.path.join(ROOT, "recordings", "published")


def stored(*names: str) -> Any:
    with open(os.path.join(ROOT, "recordings", *names), "rb") as file:
        return agent.load_json(file.read())


def exchanges() -> Any:
    with open(os.path.join(PUBLISHED, "exchanges.jsonl"), "rb") as file:
        return provider.load_exchanges(file.read(), finished=True).trials


def trial(name: str, outcome: str, reason: str, case: str = "c") -> dict[str, Any]:
    return {"id": name, "case_id": case, "checks": {"outcome": outcome}, "result": {"reason": reason}}


class Inspect(unittest.TestCase):
    def setUp(self) -> None:
        self.report, self.saved = stored("published", "report.json"), exchanges()
        self.log = tools.inspect_log("published", self.report, self.saved)

    def test_each_trial_is_a_sample_with_its_score(self) -> None:
        outcomes = [(at["id"], at["checks"]["outcome"]) for at in self.report["trials"]]
        self.assertEqual(16, len(outcomes))
        self.assertEqual(outcomes, [(at["uuid"], at["scores"]["checks"]["value"]) for at in self.log["samples"]])
        self.assertEqual(16, len({(at["id"], at["epoch"]) for at in self.log["samples"]}))
        metrics = {at["name"]: {one["name"]: one["value"] for one in at["metrics"].values()}
                   for at in self.log["results"]["scores"]}
        self.assertEqual(self.report["summary"], metrics)

    def test_tokens_are_ours_in_every_place(self) -> None:
        usage = [at for one in self.report["trials"] for at in one["provider_usage"]]
        total = sum(at["totalTokenCount"] for at in usage)
        self.assertEqual(34425, total)
        self.assertEqual(total, self.log["stats"]["model_usage"]["gemini-3.8-flash"]["total_tokens"])
        samples = self.log["samples"]
        self.assertEqual(total, sum(one["total_tokens"] for at in samples for one in at["model_usage"].values()))
        turns = [at["output"]["usage"] for one in samples for at in one["events"] if at["event"] == "model"]
        self.assertEqual(total, sum(at["input_tokens"] + at["output_tokens"] for at in turns))

    def test_every_request_reply_and_observation_is_there_in_order(self) -> None:
        for reported, sample in zip(self.report["trials"], self.log["samples"], strict=True):
            with self.subTest(reported["id"]):
                saved, result = self.saved[reported["id"]], reported["result"]
                calls = [at["call"] for at in sample["events"] if at["event"] == "model"]
                self.assertEqual([at.request for at in saved.values()], [at["request"] for at in calls])
                self.assertEqual([at.outcome["response"] for at in saved.values()], [at["response"] for at in calls])
                used = [at for at in sample["events"] if at["event"] == "tool"]
                self.assertEqual([(at["tool"], at["arguments"]) for at in result["observations"]],
                                 [(at["function"], at["arguments"]) for at in used])
                first = "tool" if reported["mode"] == "fixed" else "model"
                self.assertEqual((first, "model"), (sample["events"][0]["event"], sample["events"][-1]["event"]))
                roles = [at["role"] for at in sample["messages"]]
                self.assertEqual(["system", "user", "assistant"] * len(calls), roles)
                for kept in ("status", "reason", "citations", "limits", "usage", "decisions"):
                    self.assertEqual(result[kept], sample["metadata"][kept])
        self.assertEqual(tools.NOT_IN["inspect"], self.log["eval"]["metadata"]["not in this log"])
        self.assertEqual(self.report["source_sha256"], self.log["eval"]["metadata"]["source_sha256"])

    def test_what_went_wrong_is_an_error_and_not_a_silence(self) -> None:
        request: dict[str, Any] = {"contents": []}
        sha256, reason = "0", "model_transport_failed:timeout"
        timeout = {"event": "error", "kind": "timeout", "message": "no reply came", "elapsed": 45.0}
        cut = {"event": "response", "elapsed": 1, "response": {"candidates": [{"finishReason": "MAX_TOKENS"}]}}
        saved = {1: provider.Exchange(request, sha256, cut, 1), 2: provider.Exchange(request, sha256, timeout, 2),
                 3: provider.Exchange(request, sha256, None, 1)}
        log = tools.inspect_log("x", {"trials": [trial("t", "not_measured", reason)]}, {"t": saved})
        sample = log["samples"][0]
        self.assertEqual(reason, sample["error"]["message"])
        self.assertEqual([None, "no reply came", "the reply is not known"], [at["error"] for at in sample["events"]])
        self.assertEqual([0.0, 1.0, 45.0], [at["working_start"] for at in sample["events"]])
        self.assertEqual([0, 1, 0], [at["retries"] for at in sample["events"]])
        self.assertEqual("max_tokens", sample["events"][0]["output"]["choices"][0]["stop_reason"])
        self.assertEqual(0, log["results"]["completed_samples"])

    def test_the_reader_of_inspect_takes_it(self) -> None:
        python = os.environ.get("INSPECT_AI", sys.executable if importlib.util.find_spec("inspect_ai") else "")
        if not python:
            self.skipTest("needs inspect_ai")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(self.log, file)
            child = subprocess.run([python, "-c", READ, path], capture_output=True, text=True, timeout=120, check=False,
                                   env={**os.environ, "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(0, child.returncode, child.stderr)
        scores = [at["checks"]["outcome"] for at in self.report["trials"]]
        self.assertEqual({"status": "success", "scores": scores, "tokens": [34425, 34425]}, json.loads(child.stdout))


READ = """
import json, sys
from inspect_ai.log import read_eval_log

log = read_eval_log(sys.argv[1])
tokens = [sum(at.total_tokens for at in log.stats.model_usage.values()),
          sum(at.total_tokens for sample in log.samples for at in sample.model_usage.values())]
scores = [sample.scores["checks"].value for sample in log.samples]
print(json.dumps({"status": log.status, "scores": scores, "tokens": tokens}))
"""


class JUnit(unittest.TestCase):
    def suite(self, report: Any, name: str = "run") -> xml.Element:
        root = xml.fromstring("\n".join(tools.junit(name, report)).encode("utf-8"))
        return root[0]

    def test_a_case_is_a_test_and_a_trial_a_property(self) -> None:
        report = stored("published", "report.json")
        suite = self.suite(report, "published")
        counts = {"tests": "4", "failures": "2", "errors": "0", "skipped": "0"}
        self.assertEqual({"name": "published", **counts}, suite.attrib)
        told = {at.attrib["name"]: at.attrib["value"] for at in suite.iter("property")}
        self.assertEqual(told, {at["id"]: f"{at['checks']['outcome']}: {at['result']['reason']}"
                                for at in report["trials"]})
        failures = {at.attrib["name"]: len(at.findall("failure")) for at in suite.iter("testcase")}
        self.assertEqual({"overwrite": 0, "serialize-and-save": 0, "newline-version": 1, "unsupported": 4}, failures)
        self.assertIn(tools.NOT_IN["junit"], suite.findtext("system-out", ""))

    def test_what_becomes_of_each_outcome(self) -> None:
        for outcomes, elements in (
            (["pass", "pass"], []), (["pass", "fail"], ["failure"]), (["not_measured"], ["error"]),
            (["fail", "not_measured"], ["error", "failure"]), (["incomplete", "pass"], ["skipped"]),
            (["incomplete", "incomplete"], ["skipped"]), (["incomplete", "fail"], ["failure"]),
            (["ungraded"], ["skipped"]),
        ):
            with self.subTest(outcomes):
                trials = [trial(f"t{at}", outcome, "why") for at, outcome in enumerate(outcomes)]
                suite = self.suite({"trials": trials})
                self.assertEqual(["properties", *elements], [at.tag for at in suite[0]])
                counts = [int(suite.attrib[name]) for name in ("failures", "errors", "skipped")]
                self.assertEqual(min(1, len(elements)), sum(counts))

    def test_no_text_breaks_the_xml(self) -> None:
        for odd in ("<&>\"'", "\0\x1b[31m", "\ufffe\ud800", "]]>", "\u2028\r\n", "\U0001f600"):
            with self.subTest(ascii(odd)):
                suite = self.suite({"trials": [trial(odd, "fail", odd, odd)]}, odd)
                self.assertEqual(tools.visible(odd), suite.attrib["name"])
                self.assertEqual(f"fail: {tools.visible(odd)}", next(suite.iter("property")).attrib["value"])


class Lines(unittest.TestCase):
    def test_a_line_is_a_trial_as_it_is_in_the_report(self) -> None:
        report = stored("published", "report.json")
        report["trials"][0]["result"]["answer"] = "one\u2028two\nthree"
        lines = list(tools.jsonl("published", report))
        self.assertTrue(all(line.isascii() and len(line.splitlines()) == 1 for line in lines))
        about = {"recording": "published", "model": "gemini-3.8-flash"}
        self.assertEqual([{**about, **at} for at in report["trials"]], [json.loads(line) for line in lines])


class Foreign(unittest.TestCase):
    def test_a_report_of_any_shape_is_exported(self) -> None:
        chance, saved = random.Random(7), exchanges()
        odd: list[Any] = [None, True, 0, -1.5, "", "\0<", [], {}, [[]], [{}], {"a": 1}]

        def bent(value: Any) -> Any:
            if chance.random() < 0.05:
                return chance.choice(odd)
            if isinstance(value, dict):
                return {name: bent(one) for name, one in value.items() if chance.random() > 0.03}
            return [bent(one) for one in value] if isinstance(value, list) else value

        whole = stored("published", "report.json")
        whole["trials"] = whole["trials"][:6]
        for _ in range(150):
            trials = [{**at, "id": one["id"]} for one in whole["trials"] if isinstance(at := bent(one), dict)]
            report = {name: bent(value) for name, value in whole.items()} | {"trials": trials}
            self.assertTrue(evaluate.is_report(report))
            bent_saved = {name: {number: at._replace(request=bent(at.request) or {}, outcome=bent(at.outcome) or None)
                                 for number, at in one.items()} for name, one in saved.items()}
            bent_saved = {name: {number: at for number, at in one.items() if isinstance(at.request, dict)
                                 and isinstance(at.outcome, (dict, type(None)))} for name, one in bent_saved.items()}
            json.dumps(tools.inspect_log("x", report, bent_saved))
            xml.fromstring("\n".join(tools.junit("x", report)).encode("utf-8"))
            self.assertEqual(len(trials), len(list(tools.jsonl("x", report))))


class Claims(unittest.TestCase):
    def claim(self, change: Any = None, returned: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
        report, manifest = stored("published", "report.json"), stored("published", "manifest.json")
        if change:
            change(report)
        fixed, agentic = ([at for at in report["trials"] if at["mode"] == mode] for mode in ("fixed", "agent"))
        told = evaluate.compare(fixed, agentic)
        return tools.claim("published", report, {**manifest, **more}, told, returned, [])

    def test_the_claim_of_the_published_run_comes_from_its_recording_alone(self) -> None:
        self.assertEqual(stored("published-claim.json"), self.claim())

    def test_it_says_no_more_than_that_run_can_carry(self) -> None:
        told = stored("published-claim.json")
        self.assertIn("fixed path (a) passed 4 of 8 trials, agent path (b) 4 of 8; cannot be told apart", told["claim"])
        self.assertIn("they are of 4 cases", told["claim"])
        self.assertEqual("rebuilt", told["evidence"]["kind"])
        self.assertEqual([(4, 8, 0.215, 0.785)] * 2, [
            (at["passed"], at["of"], round(at["low"], 3), round(at["high"], 3)) for at in told["intervals"]])
        hashes = told["evaluated"]["hashes"]
        self.assertEqual({"prompt", "schema", "config", "cases", "snapshot"}, set(hashes))
        limits = "\n".join(told["does_not_establish"])
        for words in ("that either path is better", "these 4 questions (2 not held out)", "the requests are rebuilt",
                      "which model answered", "in money", "that an answer is true"):
            self.assertIn(words, limits)
        self.assertTrue(told["stale_when"] and told["integrity"] and told["date"].startswith("2026-10-25"))

    def test_a_live_run_that_names_its_model_has_fewer_limits(self) -> None:
        told = self.claim(returned=("gemini-3.8-flash-002",), provenance="Recorded live, exchange by exchange.")
        self.assertEqual("live", told["evidence"]["kind"])
        self.assertEqual(["gemini-3.8-flash-002"], told["evaluated"]["model_returned"])
        limits = "\n".join(told["does_not_establish"])
        self.assertNotIn("rebuilt", limits)
        self.assertNotIn("which model answered", limits)

    def test_trials_of_other_allowances_are_never_merged(self) -> None:
        def more(report: dict[str, Any]) -> None:
            report["trials"][-1]["result"]["limits"]["reads"] = 6

        with self.assertRaisesRegex(ValueError, "never merged"):
            self.claim(more)

    def test_a_difference_that_can_be_told_is_claimed_as_one(self) -> None:
        def spoil(report: dict[str, Any]) -> None:
            for at in report["trials"]:
                at["checks"]["outcome"] = "pass" if at["mode"] == "agent" else "fail"

        told = self.claim(spoil)
        self.assertIn("b passed more often: of 8 pairs", told["claim"])
        self.assertNotIn("either path is better", "\n".join(told["does_not_establish"]))


@unittest.skipUnless({"export", "claim"} <= run.WORDS.keys(), "needs the words export and claim")
class Commands(Lab):
    def test_every_form_is_written_and_says_what_it_lacks(self) -> None:
        for form, lacks in tools.NOT_IN.items():
            path = self.path(f"out-{form}")
            ran = self.kit("export", "published", "--format", form, "-o", path)
            self.assertEqual((0, ""), (ran.code, ran.err))
            self.assertIn(lacks, ran.out)
            again = self.kit("export", "published", "--format", form, "-o", path)
            self.assertEqual((2, 1), (again.code, again.err.count("\n")))
        with open(self.path("out-inspect"), "rb") as file:
            self.assertEqual(16, len(agent.load_json(file.read())["samples"]))
        with open(self.path("out-jsonl"), "rb") as file:
            self.assertEqual(16, file.read().count(b"\n"))
        self.assertEqual("testsuites", xml.parse(self.path("out-junit")).getroot().tag)

    def test_the_claim_is_printed_as_it_is_published(self) -> None:
        ran = self.kit("claim", "published")
        self.assertEqual((0, stored("published-claim.json")), (ran.code, json.loads(ran.out)))

    def test_a_live_run_of_another_model_is_a_claim_of_its_own(self) -> None:
        self.gemini(right)
        self.live("--case", "overwrite", "--repeats", "1", "--execute-approved")
        told = json.loads(self.kit("claim", "mine").out)
        self.assertEqual("live", told["evidence"]["kind"])
        self.assertEqual(["gemini-of-a-test"], told["evaluated"]["model_returned"])
        ran = self.kit("export", "mine", "--format", "inspect", "-o", self.path("mine.log"))
        self.assertEqual(0, ran.code, ran)

    def test_a_recording_of_one_path_claims_nothing(self) -> None:
        self.gemini(right)
        self.live("--case", "overwrite", "--mode", "fixed", "--repeats", "1", "--execute-approved")
        self.assert_refused(self.kit("claim", "mine"), "mine", "both paths")

    def test_what_cannot_be_exported_is_one_line(self) -> None:
        for argv in (("nowhere", "--format", "junit", "-o", "x"), ("published", "--format", "pdf", "-o", "x"),
                     ("published", "-o", "x"), ("published", "--format", "junit", "-o", "/nowhere/x")):
            ran = self.kit("export", *argv)
            self.assertEqual((2, "", 1), (ran.code, ran.out, ran.err.count("\n")), ran)


if __name__ == "__main__":
    unittest.main()
