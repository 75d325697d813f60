"""The judge, judged: its grades of the published run, and what the smallest edit does to them."""

import copy
import hashlib
import json
import os
import random
import re
import signal
import unittest
import warnings
from collections import Counter
from typing import Any

import evaluate
from evaluate import (
    CaseFaults,
    Finding,
    Outcome,
    Stage,
    coverage,
    first_cause,
    grade,
    is_report,
    label_faults,
    load_cases,
    report,
    stages,
    unlike_report,
    weak_labels,
)
from tests.support import ROOT

FUZZED = 1_000


def published() -> dict[str, Any]:
    """The graded report of the published run."""
    with open(os.path.join(ROOT, "recordings", "published", "report.json"), encoding="utf-8") as file:
        report: dict[str, Any] = json.load(file)
    return report


def published_passages() -> list[dict[str, Any]]:
    """The passages that the published run read: all four."""
    steps = [step for trial in published()["trials"] for step in trial["result"]["observations"]]
    reads = [step["result"] for step in steps if step["tool"] == "read"]
    return list({(read["version"], read["source_id"]): read for read in reads}.values())


def answered(case: evaluate.Case, answer: str, passages: list[dict[str, Any]]) -> dict[str, Any]:
    """A result that read the first evidence set of its case, cites it, and says `answer`."""
    wanted = (case.evidence_sets or (("path-write",),))[0]
    read = [p for p in passages if p["source_id"] in wanted and p["version"] == case.version]
    searched = {"tool": "search", "arguments": {"query": case.question}, "result": {}}
    reads = [{"tool": "read", "arguments": {"source_id": p["source_id"]}, "result": dict(p)} for p in read]
    size = sum(len(p["text"]) for p in read)
    return {
        "status": "answered", "reason": "citation_contract_passed", "answer": answer,
        "citations": [{"source_id": p["source_id"], "quote": p["text"], "url": p["url"]} for p in read],
        "question": case.question, "version": case.version, "mode": "fixed",
        "limits": {"model_calls": 9, "searches": 3, "reads": 4, "source_bytes": 4096},
        "usage": {"model_calls": 1, "searches": 1, "reads": len(read), "source_bytes": size},
        "decisions": [{}], "observations": [searched, *reads],
    }


def passage(source_id: str, text: str, version: str = "1.0") -> dict[str, Any]:
    url = f"https://example.org/{version}/{source_id}"
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return {"source_id": source_id, "version": version, "text": text, "url": url, "text_sha256": sha256}


KETTLE = passage("kettle", "The kettle boils at 100 degrees.")
POT = passage("pot", "The pot holds two litres.")
PASSAGES = [KETTLE, POT, passage("kettle", "The kettle boils at 99 degrees.", "2.0")]


def case_entry(**changes: Any) -> dict[str, Any]:
    """A case as a person writes it; a change to None takes the field away."""
    entry = {
        "id": "boil", "question": "When does the kettle boil?", "version": "1.0", "split": "development",
        "sources": ["kettle"], "answer_patterns": [r"\b100\b"], "forbidden_patterns": [r"\bnever\b"],
    } | changes
    return {name: value for name, value in entry.items() if value is not None}


def one_case(**changes: Any) -> evaluate.Case:
    return load_cases({"cases": [case_entry(**changes)]})[0]


def boiled() -> dict[str, Any]:
    """A result that passes."""
    return answered(one_case(), "At 100 degrees.", PASSAGES)


def too_late(work: Any) -> Any:
    """Stands for a timer that ends the work."""
    raise TimeoutError


def faults_of(document: object) -> list[str]:
    try:
        load_cases(document)
    except CaseFaults as faults:
        return faults.faults
    return []


class ReadingCases(unittest.TestCase):
    def test_a_case_is_read_as_written(self) -> None:
        case = one_case()
        self.assertEqual(("boil", "When does the kettle boil?", "1.0", "development", (("kettle",),)), case[:5])
        self.assertEqual(([r"\b100\b"], [r"\bnever\b"]), tuple([p.pattern for p in patterns] for patterns in case[5:7]))
        self.assertTrue(case.forbidden_patterns[0].search("NEVER"))
        sets: tuple[tuple[dict[str, Any], object], ...] = (
            ({"sources": ["a", "b"]}, (("a", "b"),)), ({"sources": []}, ()), ({"sources": None}, None),
            ({"sources": None, "evidence_sets": [["a"], ["b", "c"]]}, (("a",), ("b", "c"))))
        for changes, read in sets:
            self.assertEqual(read, one_case(**changes).evidence_sets)
        case = one_case(sources=None, evidence_sets=[["a"], ["b", "a"]], useful=["c"], stale={"d": "since May"})
        self.assertEqual((case.needed, case.useful, case.stale), (["a", "b"], ("c",), {"d": "since May"}))
        self.assertEqual((one_case().useful, one_case().stale), ((), {}))

    def test_every_fault_has_its_line(self) -> None:
        """The whole line, for one case that has the fault; what is not shown whole is cut at 60 characters."""
        name = "1 to 100 of A-Z a-z 0-9 . _ -, the first a letter or digit"
        question = "1 to 512 characters, not blank, no control characters"
        version = "1 to 3 numbers joined by dots, at most 20 characters"
        pattern = "a pattern of 1 to 1,000 characters"
        empty = 'empty; where only a stop is right, write "sources": []'
        unclosed = "missing ), unterminated subpattern at position"
        rows: list[tuple[dict[str, Any], str]] = [
            *(({field: None}, f"{field}: missing") for field in ("id", "question", "version", "split")),
            *(({"id": bad}, f"id: {bad[:60]!a} is not {name}") for bad in ("", "-a", "a b", "a\n", "\xe4", "a" * 101)),
            *(({"question": bad}, f"question: {bad[:60]!a} is not {question}")
              for bad in ("", " \u2003", "q" * 513, "a\x07b", "a\nb")),
            *(({"version": bad}, f"version: {bad!a} is not {version}")
              for bad in ("", "1.", "1.2.3.4", "1.0\n", "\u0663", "1" * 21)),
            ({"split": "test"}, "split: 'test' is not 'development' or 'held-out'"),
            *(({field: bad}, f"{field}: expected a string, found {kind}") for field, bad, kind in (
                ("id", 7, "a number"), ("version", 3.12, "a number"), ("question", ["a"], "a list"),
                ("split", True, "a boolean"))),
            *(({field: "a"}, f"{field}: expected a list, found a string") for field in ("sources", "answer_patterns")),
            ({"sources": [1.5]}, "sources[0]: expected a string, found a number"),
            ({"sources": ["a", " "]}, "sources[1]: ' ' is not a name"),
            ({"sources": ["a", "a"]}, "sources[1]: 'a' a second time"),
            ({"evidence_sets": [["a"]]}, "sources and evidence_sets: only one of the two may be given"),
            *(({"sources": None, "evidence_sets": bad}, f"evidence_sets{line}") for bad, line in (
                ([], f": {empty}"), ([["a"], []], f"[1]: {empty}"), ([["a", "a"]], "[0][1]: 'a' a second time"),
                ([["a"], {}], "[1]: expected a list, found an object"))),
            *(({"forbidden_patterns": ["a", bad]}, f"forbidden_patterns[1]: {line}") for bad, line in (
                ([], "expected a string, found a list"), ("", f"'' is not {pattern}"),
                ("a" * 1001, f"'{'a' * 60}' is not {pattern}"), ("(45", f"{unclosed} 0"),
                ("a{99999999999}", "the repetition number is too large"),
                ("(?a)(?u)x", "ASCII and UNICODE flags are incompatible"),
                ("\\\u00e9\n(", f"{unclosed} 3 (line 2, column 1)"))),
            ({"ti\ntel": 1}, r"unknown field 'ti\ntel'"),
            ({"useful": "a"}, "useful: expected a list, found a string"),
            ({"useful": ["a", "a"]}, "useful[1]: 'a' a second time"), ({"useful": [""]}, "useful[0]: '' is not a name"),
            ({"stale": ["a"]}, "stale: expected an object, found a list"),
            ({"stale": {"a": ""}}, "stale.a: '' is not a name"),
            ({"stale": {"a\n": 3}}, r"stale.a\n: expected a string, found a number"),
            ({"stale": {"kettle": "old"}}, "stale: 'kettle' is also in sources"),
            ({"stale": {"a": "old"}, "useful": ["a"]}, "stale: 'a' is also in useful"),
            ({"sources": None, "evidence_sets": [["b"], ["a"]], "stale": {"a": "old"}},
             "stale: 'a' is also in evidence_sets"),
            ({"sources": None, "answer_patterns": None, "forbidden_patterns": []},
             "checks nothing: no sources, no evidence_sets, no patterns"),
        ]
        for changes, line in rows:
            with self.subTest(changes):
                where = "cases[0]" if "id" in changes else "case 'boil'"
                self.assertEqual([f"{where}: {line}"], faults_of({"cases": [case_entry(**changes)]}))

    def test_all_faults_of_a_file_are_told_at_once(self) -> None:
        """By case and field; a case without a usable id, or with one taken, by its place."""
        cases = [case_entry(version="x", answer_patterns=["(", "ok", "["]), case_entry(split="test"),
                 {"id": "", "titel": "a"}]
        self.assertEqual(
            ["case 'boil': version: 'x' is not 1 to 3 numbers joined by dots, at most 20 characters",
             "case 'boil': answer_patterns[0]: missing ), unterminated subpattern at position 0",
             "case 'boil': answer_patterns[2]: unterminated character set at position 0",
             "cases[1]: id: 'boil' is already the id of cases[0]",
             "cases[1]: split: 'test' is not 'development' or 'held-out'",
             "cases[2]: unknown field 'titel'",
             "cases[2]: id: '' is not 1 to 100 of A-Z a-z 0-9 . _ -, the first a letter or digit",
             *(f"cases[2]: {field}: missing" for field in ("question", "version", "split")),
             "cases[2]: checks nothing: no sources, no evidence_sets, no patterns"],
            faults_of({"cases": cases}))
        for document in (*SCRAPS, {"cases": []}, {"cases": {}}):
            self.assertEqual(["cases file: expected an object with 'cases', a list with at least one case"],
                             faults_of(document))
        self.assertEqual(["cases[0]: expected an object, found a number"], faults_of({"cases": [3]}))
        self.assertEqual(["unknown field 'v' beside 'cases'"], faults_of({"cases": [case_entry()], "v": 1}))

    def test_the_largest_and_smallest_that_are_allowed_are(self) -> None:
        bare: dict[str, Any] = {"sources": None, "answer_patterns": None, "forbidden_patterns": None}
        for changes in ({"id": "a" * 100}, {"id": "7"}, {"id": "a.b_c-d"}, {"question": "q" * 512}, {"version": "1"},
                        {"version": "1.2.3"}, {"version": "1" * 20}, {"answer_patterns": ["a" * 1000]},
                        {"split": "held-out"}, bare | {"sources": []}, bare | {"evidence_sets": [["a"]]},
                        bare | {"answer_patterns": ["a"]}, bare | {"forbidden_patterns": ["a"]}):
            self.assertEqual([], faults_of({"cases": [case_entry(**changes)]}), changes)

    def test_what_cannot_be_compiled_is_a_fault_and_warnings_are_silent(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual([], faults_of({"cases": [case_entry(answer_patterns=["[[a]", "[a||b]", "(?x) a"])]}))
            deep = case_entry(answer_patterns=["(" * 499 + "a" + ")" * 499])
            self.assertRegex("".join(faults_of({"cases": [deep]})), r"^case 'boil': answer_patterns\[0\]: .*recursion")

    def test_nothing_json_can_hold_raises_anything_but_case_faults(self) -> None:
        chance, seen = random.Random(20261025), Counter[bool]()
        for _ in range(FUZZED):
            cases = [case_entry(), case_entry(id="b", sources=None, evidence_sets=[["a"], ["b"]])]
            lines = faults_of(mutated(chance, {"cases": cases}))
            seen[bool(lines)] += 1
            for line in lines:
                self.assertTrue(line.isascii() and line.isprintable(), line)
        deep: list[Any] = []
        for _ in range(5_000):
            deep = [deep]
        for value in (deep, 10**5_000):  # showing them would itself fail
            self.assertEqual(2, len(faults_of({"cases": [case_entry(id=value, question=value)]})))
        self.assertGreater(min(seen[False] * 4, seen[True]), FUZZED // 5)


class TheJudge(unittest.TestCase):
    def grade(self, result: Any, **labels: Any) -> dict[str, Any]:
        return grade(one_case(**labels), result, PASSAGES)

    def findings(self, result: Any, **labels: Any) -> list[str]:
        return [one["finding"] for one in self.grade(result, **labels)["findings"]]

    def outcome(self, result: Any, **labels: Any) -> str:
        return str(self.grade(result, **labels)["checks"]["outcome"])

    def test_the_published_trials_are_graded_as_published(self) -> None:
        with open(os.path.join(ROOT, "cases.json"), encoding="utf-8") as file:
            cases = {case.id: case for case in load_cases(json.load(file))}
        passages, trials = published_passages(), published()["trials"]
        self.assertEqual(16, len(trials))
        for trial in trials:
            with self.subTest(trial["id"]):
                checks = grade(cases[trial["case_id"]], trial["result"], passages)["checks"]
                self.assertEqual(list(trial["checks"]), list(checks))
                self.assertEqual(trial["checks"] | {"scope": checks["scope"]}, checks)
        none = {"not_measured": 0, "ungraded": 0}
        self.assertEqual({mode: counts | none for mode, counts in published()["summary"].items()},
                         evaluate.summarize(trials))

    def test_a_good_trial_passes_without_findings(self) -> None:
        trajectory = {"queries": ["When does the kettle boil?"], "refined": False, "within_limits": True}
        checks = {"retrieval_targets_read": True, "answer_fixture_check": True, "outcome": "pass",
                  "trajectory": trajectory, "scope": evaluate.SCOPE}
        result = boiled()
        self.assertEqual({"checks": checks, "findings": []}, self.grade(result))
        self.assertEqual(boiled(), result)  # which grading does not change
        result["observations"].append({"tool": "search", "arguments": {"query": "kettle"}, "result": {}})
        trajectory |= {"queries": ["When does the kettle boil?", "kettle"], "refined": True}
        self.assertEqual({"checks": checks, "findings": []}, self.grade(result))

    def test_the_smallest_edit_gives_exactly_its_finding(self) -> None:
        """Each finding, from each side it can come from, with what was expected and found."""
        text, url, no_hash, steps = KETTLE["text"], KETTLE["url"], "0" * 64, boiled()["observations"]
        cited = {"source_id": "pot", "quote": POT["text"], "url": POT["url"]}
        read = {"tool": "read", "arguments": {"source_id": "pot"}, "result": POT}
        rows: tuple[tuple[str, Any, Finding, Any, Any], ...] = (
            ("answer", " ", Finding.NOT_ANSWERED, "answered", "citation_contract_passed"),
            ("citations", [], Finding.SOURCE_NOT_CITED, [["kettle"]], []),
            ("answer", "At 1000.", Finding.PATTERN_MISSING, r"\b100\b", "At 1000."),
            ("answer", "Never at 100.", Finding.PATTERN_FORBIDDEN, r"\bnever\b", "Never"),
            *((f"observations.1.result.{name}", value, Finding.READ_NOT_IN_SNAPSHOT, {name: KETTLE[name]},
               {name: value}) for name, value in (("text", "?"), ("url", "x"), ("version", "2.0"),
                                                  ("text_sha256", no_hash))),
            ("citations.0.quote", "at 100 Degrees", Finding.QUOTE_NOT_IN_PASSAGE, text, "at 100 Degrees"),
            ("citations.0.quote", "", Finding.QUOTE_NOT_IN_PASSAGE, text, ""),
            ("citations.0.quote", PASSAGES[2]["text"], Finding.QUOTE_NOT_IN_PASSAGE, text, PASSAGES[2]["text"]),
            ("citations.0.url", POT["url"], Finding.QUOTE_NOT_IN_PASSAGE, url, POT["url"]),
            ("observations", steps[:1], Finding.CITED_NOT_READ, "kettle", []),
            ("citations", [*boiled()["citations"], cited], Finding.CITED_NOT_READ, "pot", ["kettle"]),
            ("usage.model_calls", 10, Finding.USAGE_OVER_LIMIT, {"model_calls": 9}, {"model_calls": 10}),
            ("decisions", [{}] * 10, Finding.USAGE_OVER_LIMIT, {"model_calls": 9}, {"model_calls": 10}),
            ("observations", steps[:1] * 3 + steps, Finding.USAGE_OVER_LIMIT, {"searches": 3}, {"searches": 4}),
            ("observations", [*steps, *[read] * 4], Finding.USAGE_OVER_LIMIT, {"reads": 4}, {"reads": 5}),
            ("limits.source_bytes", 31, Finding.USAGE_OVER_LIMIT, {"source_bytes": 31}, {"source_bytes": 32}),
        )
        self.assertEqual([], self.findings(changed(boiled(), "usage", boiled()["limits"])))  # at the limit is within it
        self.assertEqual([], self.findings(boiled() | {"usage": {"reads": 99}, "limits": {}}))
        for path, value, finding, expected, found in rows:
            with self.subTest(finding, path=path, value=value):
                graded = self.grade(changed(boiled(), path, value))
                self.assertEqual([{"finding": finding, "expected": expected, "found": found}], graded["findings"])
                checks = graded["checks"]
                self.assertEqual(("fail", False), (checks["outcome"], checks["answer_fixture_check"]))
                self.assertEqual(finding != Finding.USAGE_OVER_LIMIT, checks["trajectory"]["within_limits"])

    def test_every_finding_can_be_found(self) -> None:
        ended = boiled() | {"status": "incomplete", "reason": "deadline"}
        bad = {"answer": "never", "citations": [{"source_id": "pot", "quote": "?"}], "usage": {"reads": 50}}
        seen = {*self.findings(ended, sources=[], answer_patterns=[]), *self.findings(ended),
                *self.findings(changed(boiled() | bad, "observations.1.result.text", "?")),
                *(at["finding"] for at in grade(one_case(), boiled(), PASSAGES, too_late)["findings"])}
        self.assertEqual(set(Finding), seen)
        for word in (*Finding, *Outcome):
            self.assertRegex(word.sentence, r"^[A-Z].*\.$")

    def test_one_whole_evidence_set_is_enough(self) -> None:
        for sets, whole in (([["kettle"], ["pot"]], True), ([["pot"], ["kettle"]], True), ([["kettle", "pot"]], False),
                            ([["kettle", "pot"], ["pot"]], False)):
            graded = self.grade(boiled(), sources=None, evidence_sets=sets)
            self.assertEqual([] if whole else ["source_not_cited"], [one["finding"] for one in graded["findings"]])
            self.assertIs(whole, graded["checks"]["retrieval_targets_read"])
        checks = self.grade(boiled() | {"citations": []}, sources=None)["checks"]
        self.assertEqual(("pass", None), (checks["outcome"], checks["retrieval_targets_read"]))

    def test_outcomes_follow_the_table(self) -> None:
        """(status, reason): what a case with sources, one to stop at, and no case make of it."""
        failed = ("invalid_decision", "unknown_action", "invalid_citation", "duplicate_query", "changed_read",
                  "unexpected_action_fields", "invalid_query", "invalid_source", "missing_answer_evidence",
                  "fixed_policy_tool_request", "unissued_source", "duplicate_read", "search_failed",
                  "unread_or_changed_citation", "trivial_citation")
        outside = ("unfinished_model_reply", "batch_request_limit", "token_budget_limit", "cost_budget_limit",
                   "provider_input_bytes_limit", "provider_response_bytes_limit", "replay_request_mismatch",
                   "replay_exhausted", "reply_in_doubt", "model_transport_failed:timeout")
        used_up = ("deadline", "model_call_limit", "search_limit", "read_or_byte_limit")
        rows = [("failed", reason, "fail", "fail") for reason in failed]
        rows += [("failed", reason, "not_measured", "not_measured") for reason in outside]
        rows += [("incomplete", reason, "incomplete", "incomplete") for reason in used_up]
        rows += [("incomplete", "model_stopped", "incomplete", "pass"), ("", "", "not_measured", "not_measured"),
                 ("answered", "citation_contract_passed", "pass", "fail")]
        for status, reason, with_sources, to_stop in rows:
            with self.subTest(reason):
                result = boiled() | {"status": status, "reason": reason}
                unlabelled = grade(None, result, PASSAGES)["checks"]["outcome"]
                outcomes = [self.outcome(result), self.outcome(result, sources=[], answer_patterns=None), unlabelled]
                self.assertEqual([with_sources, to_stop, "ungraded"], outcomes)
                missed = [] if with_sources in ("pass", "not_measured") else ["not_answered"]
                self.assertEqual(missed, self.findings(result))

    def test_a_stop_with_a_finding_does_not_pass(self) -> None:
        stop = boiled() | {"status": "incomplete", "reason": "model_stopped", "citations": []}
        self.assertEqual("pass", self.outcome(stop, sources=[], answer_patterns=None))
        tampered = changed(stop, "usage.searches", 4)
        self.assertEqual("incomplete", self.outcome(tampered, sources=[], answer_patterns=None))

    def test_an_unlabelled_question_is_still_checked_against_the_snapshot(self) -> None:
        """Ungraded says nothing about the answer, and findings still do about the trial."""
        wrong = KETTLE | {"text_sha256": "0" * 64}  # the hash of a read is computed and not looked up
        graded = grade(None, changed(boiled(), "observations.1.result", dict(wrong)), [wrong, POT])
        self.assertEqual(["read_not_in_snapshot"], [one["finding"] for one in graded["findings"]])
        graded = grade(None, changed(boiled(), "citations.0.quote", "?"), PASSAGES)
        self.assertEqual(["quote_not_in_passage"], [one["finding"] for one in graded["findings"]])
        self.assertIs(False, graded["checks"]["answer_fixture_check"])
        self.assertIsNone(graded["checks"]["retrieval_targets_read"])
        self.assertEqual([], grade(None, boiled(), PASSAGES)["findings"])

    def test_how_patterns_match_is_as_documented(self) -> None:
        """re.search, any script's digits, a final line end, simple case folding; of a long answer the beginning."""
        long = "x" * evaluate.ANSWER_CHARACTERS + " 100"
        rows = (("45", "It is 14500 ms.", True), (r"(?<!\d)45(?!\d)", "It is 14500 ms.", False),
                ("correct", "The value is incorrect.", True), ("^30|60$", "10 and 60", True), ("ok$", "ok\n", True),
                (r"ok\Z", "ok\n", False), (r"\d+", "\u0665", True), ("[0-9]+", "\u0665", False),
                ("stra\u00dfe", "STRASSE", False), ("100", long, False))
        for pattern, answer, passes in rows:
            with self.subTest(pattern):
                found = self.findings(boiled() | {"answer": answer}, answer_patterns=[pattern])
                self.assertEqual([] if passes else ["pattern_missing"], found)

    def test_no_result_breaks_the_judge_and_none_passes_by_being_broken(self) -> None:
        chance, case, outcomes = random.Random(16), one_case(), Counter[str]()
        for _ in range(FUZZED):
            result = mutated(chance, boiled())
            graded = grade(case, result, PASSAGES)
            json.dumps(graded)
            outcomes[graded["checks"]["outcome"]] += 1
            if graded["checks"]["outcome"] == "pass":
                self.assertIn("100", result["answer"])
                self.assertIn("kettle", [one.get("source_id") for one in result["citations"]])
        self.assertGreater(min(outcomes["fail"], outcomes["pass"]), FUZZED // 10, outcomes)
        for result in SCRAPS:
            self.assertEqual("not_measured", grade(case, result, PASSAGES)["checks"]["outcome"])

    def test_all_five_counts_are_shown_for_each_path(self) -> None:
        """The fixed path first, whatever came first; a path without trials is not there."""
        zero = dict.fromkeys(("pass", "fail", "incomplete", "not_measured", "ungraded"), 0)
        came = (("agent", "pass"), ("agent", "fail"), ("fixed", "ungraded"), ("agent", "pass"))
        counts = evaluate.summarize([{"mode": mode, "checks": {"outcome": outcome}} for mode, outcome in came])
        self.assertEqual({"fixed": zero | {"ungraded": 1}, "agent": zero | {"pass": 2, "fail": 1}}, counts)
        self.assertEqual(["fixed", "agent"], list(counts))
        self.assertEqual([list(zero)] * 2, [list(path) for path in counts.values()])
        self.assertEqual({}, evaluate.summarize([]))
        for checks in ({"outcome": "splendid"}, {}, None):
            foreign = evaluate.summarize([{"mode": "agent", "checks": checks}])
            self.assertEqual({"agent": zero | {"ungraded": 1}}, foreign)


@unittest.skipUnless(hasattr(signal, "setitimer"), "needs a system with interval timers")
class Endless(unittest.TestCase):
    """Patterns that would backtrack for ever, under a real timer (here of a twentieth of a second)."""

    ENDLESS = ((r"^(x+x+)+y$", "x" * 40), (r"(a|a)*$b", "a" * 40), (r"(.*)*y", "x" * 1_900),
               (r"(x*)*(x*)*(x*)*\d\Z", "x" * 100))

    def within(self, work: Any) -> Any:
        def ring(*_: Any) -> None:
            raise TimeoutError

        before = signal.signal(signal.SIGALRM, ring)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            return work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def test_such_a_trial_is_ungraded_and_the_others_are_graded(self) -> None:
        """It says which pattern it was, as a required one and as a forbidden one."""
        for pattern, answer in self.ENDLESS:
            required, forbidden = {"answer_patterns": ["x|a", pattern]}, {"forbidden_patterns": [pattern]}
            for labels in (required, {"answer_patterns": [], **forbidden}):
                with self.subTest(pattern, labels=list(labels)):
                    graded = grade(one_case(**labels), boiled() | {"answer": answer}, PASSAGES, self.within)
                    self.assertEqual((graded["checks"]["outcome"], graded["checks"]["answer_fixture_check"]),
                                     ("ungraded", False))
                    self.assertEqual(graded["findings"], [
                        {"finding": "pattern_timed_out", "expected": pattern, "found": answer}])
        self.assertEqual(grade(one_case(), boiled(), PASSAGES, self.within), grade(one_case(), boiled(), PASSAGES))

    def test_a_label_that_cannot_be_looked_up_in_time_is_not_blamed(self) -> None:
        passages = [passage("kettle", "x" * 40)]
        case = one_case(answer_patterns=[self.ENDLESS[0][0]])
        trial = {"result": boiled() | {"status": "incomplete", "reason": "model_stopped"},
                 "checks": {"outcome": "incomplete"}, "findings": []}
        cause = first_cause(case, trial, [], passages, self.within)
        self.assertEqual((cause or {})["stage"], "abstention")

    def test_a_label_that_takes_for_ever_is_a_weak_one_and_the_others_are_looked_at(self) -> None:
        case = one_case(answer_patterns=[".*.*.*.*.*.*.*#", "tea"])
        weak = weak_labels([case], [passage("kettle", "x" * 400)], self.within)
        self.assertEqual({line.partition(": ")[2].partition(": ")[0] for line in weak},
                         {"answer_patterns[0]", "answer_patterns[1]"})
        self.assertEqual([line for line in weak if "did not end" in line], weak[:1])

    def test_where_there_is_no_timer_such_patterns_are_refused_at_load(self) -> None:
        """Two repeats without a bound; what is escaped, in a class or bounded does not count."""
        told = ("repeats without a bound more than once, and this machine has no timer to stop it; write {0,60} or the"
                " like")
        for pattern, refused in ((r"^(x+x+)+y$", True), ("a*b*", True), ("a{2,}b+", True), ("a+?b*?", True),
                                 ("(?:a+)(?:b)+", True), (r"a+b\+[*+]", False), ("a+", False),
                                 (r"a+\*", False), ("[+*]a+", False), ("(?:a{0,9}){0,9}", False)):
            document = {"cases": [case_entry(forbidden_patterns=["a", pattern])]}
            with self.subTest(pattern):
                self.assertEqual(1, len(load_cases(document)))
                if refused:
                    with self.assertRaises(CaseFaults) as caught:
                        load_cases(document, timer=False)
                    self.assertEqual([f"case 'boil': forbidden_patterns[1]: {told}"], caught.exception.faults)
                else:
                    load_cases(document, timer=False)
        with open(os.path.join(ROOT, "cases.json"), encoding="utf-8") as file:
            load_cases(json.load(file), timer=False)


class Coverage(unittest.TestCase):
    """Of each question that a case requires: answered, abstained with a reason, or omitted."""

    REQUIRED = {"heat": {"answered": r"\b100\b", "abstained": "says nothing of heat"},
                "noise": {"answered": "loud", "abstained": r"[^.]*nothing of noise"}}

    def states(self, answer: str, **result: Any) -> list[tuple[str, str]]:
        told = coverage(one_case(required=self.REQUIRED), {"status": "answered", "answer": answer, **result})
        self.assertEqual([at["question"] for at in told], ["heat", "noise"])
        return [(at["state"], at["shown"]) for at in told]

    def test_omission_is_not_abstention(self) -> None:
        self.assertEqual(self.states("At 100."), [("answered", "100"), ("omitted", "")])
        self.assertEqual(self.states("At 100. The page has nothing of noise."),
                         [("answered", "100"), ("abstained", " The page has nothing of noise")])
        self.assertEqual(self.states(""), [("omitted", ""), ("omitted", "")])
        stopped = {"status": "incomplete", "reason": "model_stopped", "decisions": [
            {"action": "stop", "assessment": "No source says it."}]}
        self.assertEqual(self.states("", **stopped), [("abstained", "No source says it.")] * 2)
        self.assertEqual(self.states("", status="incomplete", reason="deadline"), [("omitted", "")] * 2)

    def test_foreign_results_and_patterns_without_end_break_nothing(self) -> None:
        results: tuple[Any, ...] = (None, [], {"answer": 5}, {"reason": "model_stopped", "decisions": [3]})
        for result in results:
            self.assertEqual(coverage(one_case(required=self.REQUIRED), result), [])
        timed: list[int] = []

        def late(work: Any) -> Any:
            timed.append(1)
            if len(timed) == 1:
                raise TimeoutError
            return work()

        told = coverage(one_case(required=self.REQUIRED), {"status": "answered", "answer": "It is loud."}, late)
        self.assertEqual([(at["question"], at["state"]) for at in told], [("heat", "not known"), ("noise", "answered")])
        self.assertEqual(coverage(one_case(), {"status": "answered"}), [])

    def test_what_was_not_measured_omitted_nothing(self) -> None:
        away = {"status": "failed", "reason": "model_transport_failed:timeout"}
        self.assertEqual(coverage(one_case(required=self.REQUIRED), away), [])

    def test_faults_of_it_are_told(self) -> None:
        rows: tuple[tuple[Any, str], ...] = (
            ({"a": {}}, "required.a.answered: missing"), ({"a": {"answered": "("}}, "required.a.answered"),
            ([], "required: expected an object"), ({"a": {"answered": "x", "b": "y"}}, "unknown field 'b'"))
        for required, words in rows:
            with self.subTest(required=required), self.assertRaises(CaseFaults) as caught:
                load_cases({"cases": [case_entry(required=required)]})
            self.assertIn(words, " ".join(caught.exception.faults))


class FirstCause(unittest.TestCase):
    """Where a trial that did not pass first broke, from the top of the table to its bottom."""

    def cause(self, result: dict[str, Any], ranking: Any = ("kettle",), **labels: Any) -> dict[str, Any]:
        case = one_case(**labels)
        trial = {"result": result, **grade(case, result, PASSAGES)}
        found = first_cause(case, trial, ranking, PASSAGES)
        assert found
        return found

    def result(self, found: list[str], read: list[str], **changes: Any) -> dict[str, Any]:
        """A trial whose one search found these, which read those, and ends as `boiled` or with the changes."""
        result = boiled() | changes
        search, reads = result["observations"][0], {at["source_id"]: at for at in PASSAGES[:2]}
        search["result"] = {"candidates": [{"source_id": name} for name in found]}
        result["observations"] = [search, *({"tool": "read", "result": reads[name]} for name in read)]
        return result

    def test_the_first_row_that_broke_is_the_cause(self) -> None:
        """(what was found, read, and how it ended, the labels, the ranking): stage and later symptoms."""
        stop: dict[str, Any] = {"status": "incomplete", "reason": "model_stopped", "answer": "", "citations": []}
        pot = {"citations": [{"source_id": "pot", "quote": POT["text"]}]}
        both, wrong = {"sources": ["kettle", "pot"]}, {"answer": "At 90."}
        refused = {"status": "failed", "reason": "trivial_citation", "answer": "", "citations": []}
        either = {"sources": None, "evidence_sets": [["pot"], ["kettle"]]}
        rows: tuple[tuple[list[str], list[str], dict[str, Any], dict[str, Any], list[str], str, list[str]], ...] = (
            (["kettle"], ["kettle"], {"status": "failed", "reason": "reply_in_doubt"}, {}, [], "provider", []),
            ([], [], stop, {}, ["kettle"], "query", ["search", "not_answered"]),
            (["pot"], ["pot"], pot, {}, ["kettle"], "query", ["search", "citation", "source_not_cited"]),
            ([], [], stop, {}, ["pot"], "search", ["not_answered"]),
            (["pot"], ["pot"], pot | wrong, {}, [], "search", ["source_not_cited", "pattern_missing"]),
            (["kettle"], ["kettle"], stop, both, ["kettle", "pot"], "search", ["not_answered"]),
            (["kettle", "pot"], ["kettle"], stop, both, [], "read", ["not_answered"]),
            (["kettle"], [], stop, {}, ["kettle"], "read", ["not_answered"]),
            (["kettle"], ["kettle"], wrong, {}, [], "answer", ["pattern_missing"]),
            (["kettle"], ["kettle"], {"answer": "Never 100."}, {}, [], "answer", ["pattern_forbidden"]),
            (["kettle"], ["kettle"], stop | {"status": "failed", "reason": "duplicate_read"}, {}, [], "answer",
             ["not_answered"]),
            (["kettle"], ["kettle"], stop | {"reason": "deadline"}, {}, [], "answer", ["not_answered"]),
            (["kettle"], ["kettle"], refused, {}, [], "citation", ["not_answered"]),
            (["kettle"], ["kettle"], {"citations": []}, {}, [], "citation", ["source_not_cited"]),
            (["kettle"], ["kettle"], {"citations": [], **wrong}, {}, [], "answer",
             ["source_not_cited", "pattern_missing"]),
            (["kettle"], ["kettle"], stop, {}, [], "abstention", ["not_answered"]),
            (["kettle"], ["kettle"], {}, {"sources": []}, [], "abstention", ["should_have_stopped"]),
            (["kettle"], ["kettle"], refused, {"sources": []}, [], "citation", ["should_have_stopped"]),
            ([], [], stop | {"reason": "search_limit"}, {"sources": []}, [], "answer",
             ["should_have_stopped"]),
            (["kettle"], ["kettle"], stop, either, [], "abstention", ["not_answered"]),
            (["kettle", "pot"], [], stop, either, [], "read", ["not_answered"]),
            ([], [], stop, either, ["pot"], "query", ["search", "not_answered"]),
            ([], [], stop, {"sources": None}, [], "abstention", ["not_answered"]),
            (["kettle"], ["kettle"], {"usage": {"reads": 9}}, {}, [], "answer", ["usage_over_limit"]),
            (["kettle"], ["kettle"], {"answer": " "}, {}, [], "answer", ["not_answered"]),
            (["kettle"], ["kettle"], stop, {"answer_patterns": ["tea", "kettle"]}, [],
             "label not supported by its sources", ["abstention", "not_answered"]),
            ([], [], stop, {"answer_patterns": ["tea"]}, ["kettle"],
             "label not supported by its sources", ["query", "search", "not_answered"]),
        )
        for found, read, ending, labels, ranking, stage, symptoms in rows:
            with self.subTest(stage, ending=ending, labels=labels):
                cause = self.cause(self.result(found, read, **ending), ranking, **labels)
                self.assertEqual((cause["stage"], cause["symptoms"]), (stage, symptoms))
        self.assertEqual({row[5] for row in rows}, {stage.value for stage in Stage})

    def test_the_cause_says_what_shows_it(self) -> None:
        """The ids, the findings or the reason; and the last decision, or the last search where one missed."""
        decisions = [{"action": "search", "query": "pot"}, {"action": "read", "source_id": "pot"},
                     {"action": "stop", "assessment": "nothing"}]
        stop = {"status": "incomplete", "reason": "model_stopped", "answer": "", "citations": []}
        sets = [["kettle", "pot"], ["kettle", "cup", "pan"], ["zinc"]]
        rows: tuple[tuple[list[str], list[str], dict[str, Any], dict[str, Any], tuple[str, str, str]], ...] = (
            ([], [], stop, {}, ("query", "kettle", "1. search: pot")),
            (["pot"], ["pot"], stop, {"sources": ["pot", "kettle"]}, ("search", "kettle", "1. search: pot")),
            (["pot"], ["pot"], stop, {"sources": None, "evidence_sets": sets}, ("search", "kettle", "1. search: pot")),
            (["kettle", "pot"], ["pot"], stop, {}, ("read", "kettle", "3. stop: nothing")),
            (["kettle", "pot"], ["pot"], stop, {"sources": None, "evidence_sets": [["zinc"], ["pot", "kettle"]]},
             ("read", "kettle", "3. stop: nothing")),
            (["kettle"], ["kettle"], {"answer": "At 1."}, {}, ("answer", "pattern_missing", "3. stop: nothing")),
            (["kettle"], ["kettle"], stop | {"reason": "deadline"}, {}, ("answer", "deadline", "3. stop: nothing")),
            (["kettle"], ["kettle"], {"citations": []}, {}, ("citation", "source_not_cited", "3. stop: nothing")),
            (["kettle"], ["kettle"], stop, {}, ("abstention", "model_stopped", "3. stop: nothing")),
            (["kettle"], ["kettle"], {"status": "failed", "reason": "replay_exhausted"}, {},
             ("provider", "replay_exhausted", "3. stop: nothing")),
        )
        for found, read, ending, labels, told in rows:
            with self.subTest(told):
                cause = self.cause(self.result(found, read, decisions=decisions, **ending), **labels)
                self.assertEqual((cause["stage"], cause["why"], cause["step"]), told)
        self.assertEqual(self.cause(boiled() | stop | {"decisions": []})["step"], "no decision")

    def test_a_read_that_is_not_the_passage_broke_the_read(self) -> None:
        result = changed(self.result(["kettle"], ["kettle"]), "observations.1.result", {**KETTLE, "url": "x"})
        self.assertEqual(self.cause(result)["stage"], "read")

    def test_labels_are_supported_by_what_the_question_does_not_say(self) -> None:
        """A pattern that the question satisfies supports nothing, unless there is no other."""
        stop = boiled() | {"status": "incomplete", "reason": "model_stopped"}
        for patterns, supported in (([r"\b100\b"], True), (["kettle", "tea"], False), (["kettle", "100"], True),
                                    (["kettle"], True), (["tea", "100"], True), ([], True)):
            with self.subTest(patterns):
                stage = self.cause(stop, answer_patterns=patterns)["stage"]
                self.assertEqual(stage, "abstention" if supported else "label not supported by its sources")

    def test_a_stale_passage_that_was_cited_is_a_symptom(self) -> None:
        result = boiled() | {"citations": [{"source_id": "pot", "quote": POT["text"]}]}
        cause = self.cause(result, stale={"pot": "replaced in May"})
        self.assertEqual(cause["symptoms"][-1], "stale passage cited: pot: replaced in May")

    def test_what_passed_or_was_not_graded_has_no_cause(self) -> None:
        for case, outcome in ((one_case(), "pass"), (one_case(), "ungraded"), (None, "fail")):
            self.assertIsNone(first_cause(case, {"result": boiled(), "checks": {"outcome": outcome}}, [], PASSAGES))

    def test_the_published_trials_broke_where_their_steps_show(self) -> None:
        """Of the eight that did not pass: the stage and the step that decides, and the rest of the sentence in it."""
        with open(os.path.join(ROOT, "cases.json"), encoding="utf-8") as file:
            cases = {case.id: case for case in load_cases(json.load(file))}
        passages, trials = published_passages(), published()["trials"]
        rankings = {at["case_id"]: [one["source_id"] for one in at["result"]["observations"][0]["result"]["candidates"]]
                    for at in trials if at["mode"] == "fixed"}  # there the question itself was searched
        label, stop = "label not supported by its sources", "1. stop: "
        rows = {
            "newline-version-fixed-1": (label, stop, ["abstention", "not_answered"]),
            "newline-version-fixed-2": (label, stop, ["abstention", "not_answered"]),
            "newline-version-agent-1": (label, "3. search: Path.read_text newline encoding",
                                        ["answer", "not_answered"]),
            "newline-version-agent-2": (label, "5. stop: ", ["abstention", "not_answered"]),
            "unsupported-fixed-1": ("abstention", "1. answer: In Python 3.12, Path.write_text does not retain backup",
                                    ["should_have_stopped"]),
            "unsupported-fixed-2": ("abstention", "1. answer: Path.write_text does not retain backup copies",
                                    ["should_have_stopped"]),
            "unsupported-agent-1": ("abstention", "3. answer: Path.write_text does not retain backup copies",
                                    ["should_have_stopped"]),
            "unsupported-agent-2": ("abstention", "3. answer: Path.write_text does not retain backup copies",
                                    ["should_have_stopped"]),
        }
        for trial in trials:
            case = cases[trial["case_id"]]
            trial |= grade(case, trial["result"], passages)
            cause = trial["cause"] = first_cause(case, trial, rankings[case.id], passages)
            with self.subTest(trial["id"]):
                if trial["id"] not in rows:
                    self.assertIsNone(cause)
                    continue
                stage, step, symptoms = rows[trial["id"]]
                assert cause
                self.assertEqual((cause["stage"], cause["symptoms"]), (stage, symptoms))
                self.assertEqual(cause["step"][: len(step)], step)
                self.assertGreater(len(cause["step"]), len(stop))
        self.assertEqual(stages(trials), {"fixed": {label: 2, "abstention": 2}, "agent": {label: 2, "abstention": 2}})

    def test_no_trial_breaks_it(self) -> None:
        chance, case, seen = random.Random(17), one_case(useful=["pot"], stale={"cup": "broken"}), Counter[str]()
        for _ in range(FUZZED):
            result = mutated(chance, boiled())
            cause = first_cause(case, {"result": result, **grade(case, result, PASSAGES)}, ["kettle"], PASSAGES)
            seen[cause["stage"] if cause else "pass"] += 1
            json.dumps(cause)
        self.assertGreater(len(seen), 4, seen)
        for scrap in SCRAPS:
            trial = {"result": scrap, "checks": scrap, "findings": scrap, "mode": scrap}
            self.assertTrue(first_cause(case, trial, [], PASSAGES))


class Reports(unittest.TestCase):
    """What of a trial a report has, and where the two are not the same."""

    def trial(self, **changes: Any) -> dict[str, Any]:
        """A graded trial as a replay makes it; a change is of a place, its steps joined by two underscores."""
        result = boiled()
        trial = {
            "id": "boil-fixed-1", "case_id": "boil", "split": "development", "repeat": 1, "mode": "fixed",
            "result": result, **grade(one_case(), result, PASSAGES), "detail": "what was seen",
            "elapsed_seconds": 1.5, "provider_usage": [{"totalTokenCount": 7}]}
        for path, value in changes.items():
            trial = changed(trial, path.replace("__", "."), value)
        return trial

    def test_what_is_the_same_is_no_difference(self) -> None:
        """Nor is what only the replay has beside it, another sentence of scope, or another order of keys."""
        for name, reported in (
            ("the same", self.trial()), ("another scope", self.trial(checks__scope="As it was then.")),
            ("another detail", self.trial(detail="")), ("other findings", self.trial(findings=[{}])),
            ("another split", self.trial(split="held-out")), ("another id", self.trial(id="x")),
            ("a field more", self.trial() | {"more": 1}),
            ("another order", json.loads(json.dumps(self.trial(), sort_keys=True))),
        ):
            with self.subTest(name):
                self.assertIsNone(unlike_report(self.trial(), reported))

    def test_a_difference_is_one_line_with_its_place_and_its_exchange(self) -> None:
        """The line of each place, and the number of the exchange where the place is one's."""
        rows: tuple[tuple[str, Any, int | None, str], ...] = (
            ("result__answer", "At 99 degrees.", None,
             '"At 99 degrees." at result.answer, at character 3, and the replay "At 100 degrees."'),
            ("result__status", "failed", None,
             '"failed" at result.status, at character 0, and the replay "answered"'),
            ("result__reason", "citation", None,
             '"citation" at result.reason, at character 8, and the replay "citation_contract_passed"'),
            ("result__decisions", [{"action": "stop"}], 1,
             '"stop" at result.decisions[0].action, and the replay (absent)'),
            ("result__decisions", [{}, {}, {"x": 1}], 2, "{} at result.decisions[1], and the replay (absent)"),
            ("result__decisions", [], 1, "(absent) at result.decisions[0], and the replay {}"),
            ("result__usage__reads", 1.0, None, "1.0 at result.usage.reads, and the replay 1"),
            ("result__observations__0__tool", "read", None,
             '"read" at result.observations[0].tool, at character 0, and the replay "search"'),
            ("checks__outcome", "fail", None,
             '"fail" at checks.outcome, at character 0, and the replay "pass"'),
            ("checks__answer_fixture_check", 1, None, "1 at checks.answer_fixture_check, and the replay true"),
            ("provider_usage__0__totalTokenCount", 8, 1,
             "8 at provider_usage[0].totalTokenCount, and the replay 7"),
            ("provider_usage", [{"totalTokenCount": 7}] * 12, 2,
             '{"totalTokenCount": 7} at provider_usage[1], and the replay (absent)'),
            ("provider_usage", None, None, 'null at provider_usage, and the replay [{"totalTokenCount": 7}]'),
            ("elapsed_seconds", None, None, "null at elapsed_seconds, and the replay 1.5"),
        )
        for path, value, number, line in rows:
            with self.subTest(path=path, value=value):
                told = unlike_report(self.trial(), self.trial(**{path: value}))
                self.assertEqual(told, (number, f"the report has {line}"))
        for at in (9, 10, 11):
            usage = [{"totalTokenCount": 7}] * 12
            other = [*usage[:at], {"totalTokenCount": 8}, *usage[at + 1 :]]
            told = unlike_report(self.trial(provider_usage=usage), self.trial(provider_usage=other))
            line = f"the report has 8 at provider_usage[{at}].totalTokenCount, and the replay 7"
            self.assertEqual(told, (at + 1, line))

    def test_the_reason_is_looked_at_before_all_else(self) -> None:
        """Whatever stands first in either, and where a report has none; then the result, the checks, the tokens."""
        stopped = self.trial(result__status="incomplete", result__reason="model_stopped", result__answer="",
                             checks__outcome="incomplete", provider_usage=[], elapsed_seconds=9)
        both = '"model_stopped" at result.reason, at character 0, and the replay "citation_contract_pa"'
        self.assertEqual(unlike_report(self.trial(), stopped), (None, f"the report has {both}"))
        stopped["result"] = dict(reversed(stopped["result"].items()))
        self.assertEqual(unlike_report(self.trial(), stopped), (None, f"the report has {both}"))
        del stopped["result"]["reason"]
        told = 'the report has null at result.reason, and the replay "citation_contract_passed"'
        self.assertEqual(unlike_report(self.trial(), stopped), (None, told))
        places: tuple[tuple[str, Any, str], ...] = (
            ("result__status", "failed", "result.status"), ("checks__outcome", "fail", "checks.outcome"),
            ("provider_usage", [], "provider_usage[0]"), ("elapsed_seconds", 9, "elapsed_seconds"))
        for number, (_, _, where) in enumerate(places):
            reported = self.trial(**{path: value for path, value, _ in places[number:]})
            with self.subTest(first=where):
                found = unlike_report(self.trial(), reported)
                assert found
                self.assertRegex(found[1], rf"^the report has .* at {re.escape(where)}[ ,]")

    def test_a_trial_that_failed_says_why(self) -> None:
        """In brackets behind the line; one that ended otherwise does not."""
        for status, behind in (("failed", " (what was seen)"), ("incomplete", ""), ("answered", "")):
            replayed = self.trial(result__status=status, result__reason="x")
            told = f'the report has "y" at result.reason, at character 0, and the replay "x"{behind}'
            self.assertEqual(unlike_report(replayed, self.trial(result__reason="y")), (None, told))

    def test_a_trial_that_the_report_lacks_is_told(self) -> None:
        """One that is there in another shape is a difference, and no exception."""
        self.assertEqual(unlike_report(self.trial(), None), (None, "the report does not have this trial"))
        for foreign in ({}, {"result": None}, {"result": [1], "checks": "x"}, {"result": {"reason": 5}, "checks": {}}):
            with self.subTest(foreign=foreign):
                told = unlike_report(self.trial(), foreign)
                assert told
                self.assertRegex(told[1], "^the report has (null|5) at result.reason, and the replay ")

    def test_a_report_has_a_list_of_trials_with_ids(self) -> None:
        """Nothing else is needed to compare with it."""
        for value, fits in (
            ({"trials": []}, True), ({"trials": [{"id": ""}]}, True), ({"trials": [{"id": "a"}], "x": 1}, True),
            (None, False), ([], False), ("trials", False), ({}, False), ({"trials": None}, False),
            ({"trials": {}}, False), ({"trials": [None]}, False), ({"trials": [{}]}, False),
            ({"trials": [{"id": 1}]}, False), ({"trials": [{"id": "a"}, {"id": None}]}, False),
        ):
            with self.subTest(value=value):
                self.assertIs(is_report(value), fits)

    def test_a_report_has_its_fields_in_their_order_and_no_others(self) -> None:
        """What is known of the run, its trials, their summary; what is in doubt only where that is told."""
        own = ("trials", "summary")
        known = {name: f"its {name}" for name in reversed(evaluate.REPORT) if name not in own} | {"hashes": "x"}
        made = report([self.trial()], known)
        self.assertEqual(list(made), list(evaluate.REPORT))
        self.assertEqual({name: made[name] for name in made if name not in own},
                         {name: f"its {name}" for name in evaluate.REPORT if name not in own})
        self.assertEqual(made["trials"], [self.trial()])
        none = {"fail": 0, "incomplete": 0, "not_measured": 0, "ungraded": 0}
        self.assertEqual(made["summary"], {"fixed": {"pass": 1} | none})
        self.assertTrue(is_report(made))
        for in_doubt in ([], ["boil-fixed-1 exchange 1"]):
            told = report([], known | {"in_doubt": in_doubt})
            self.assertEqual((list(told)[-1], told["in_doubt"]), ("in_doubt", in_doubt))


class Labels(unittest.TestCase):
    def test_labels_that_the_snapshot_does_not_have_are_faults(self) -> None:
        rows: tuple[tuple[dict[str, Any], list[str]], ...] = (
            ({}, []), ({"sources": []}, []), ({"version": "3.0"}, ["version 3.0 is not in the snapshot: 1.0, 2.0"]),
            ({"sources": ["cup"]}, ["source 'cup' is not in version 1.0 of the snapshot"]),
            ({"version": "2.0", "sources": ["pot", "kettle"]}, ["source 'pot' is not in version 2.0 of the snapshot"]),
            ({"useful": ["pot", "cup"]}, ["source 'cup' is not in version 1.0 of the snapshot"]),
            ({"stale": {"pan": "melted"}}, ["source 'pan' is not in version 1.0 of the snapshot"]),
        )
        for changes, lines in rows:
            told = label_faults([one_case(**changes)], PASSAGES, ("1.0", "2.0"))
            self.assertEqual([f"case 'boil': {at}" for at in lines], told)
        self.assertEqual(["case 'boil': version 1.0 is not in the snapshot: no version at all"],
                         label_faults([one_case()], [], ()))

    def test_weak_patterns_are_named_with_their_weakness(self) -> None:
        """(pattern, words of each warning it gets as one that is required)."""
        unsaid, question, number, word = "no source", "question alone", "bare number", "inside a word"
        unbounded, anchor = "without a bound", "one alternative"
        rows: tuple[tuple[str, tuple[str, ...]], ...] = (
            (r"\b100\b", ()), (r"\bboils\b", ()), (r"\bkettle\b", (question,)), (r"\btea\b", (unsaid,)),
            (r"\bboils.*", (unbounded,)), (r"\bboils.+?\b", (unbounded,)), (r"\bboils.{2,}\b", (unbounded,)),
            (r"\b(?:b+oils)+\b", (unbounded,)), (r"\bboils.{2,9}\b", ()), (r"\bboils.{2,3}+\b", ()),
            (r"\bboils[*+] {0,3}\*?\b|\b100\b", ()),
            ("100", (number,)), (r"100\b", (number,)), (r"\b100", (number,)), ("45", (number, unsaid)),
            (r"(?:100|99) degrees", (number,)), (r"\b(?:99|100)", (number,)),
            (r"(?<!\d)100(?!\d)", ()), (r"\b(?:99|100)\b", ()), (r"\b[0-9]{3}\b", ()),
            ("degrees", (word,)), (r"(?P<d>degrees)\b", (word,)), (r"\b100\b|degrees", (word,)),
            ("correct", (word, unsaid)), (r"(?i:\bdegrees)", ()), (r"(?#why)\bdegrees", ()),
            ("^30|60$", (anchor, number, unsaid)), (r"^\bThe|degrees\b", (anchor, word)), (r"^(?:The|A)\b", ()),
            (r"^The\b|^A\b", ()), (r"(?:^|\. )The\b", ()),
            (r"(?:\b100\b)?", ("empty string",)), (r"(\bA)?(?(1)b|\bkettle)\b", (question,)),
            (r"3\.12", (number, unsaid)), ("3.12", (number, unsaid)), (r"1\.5 s", (number, unsaid)),
            (r"(?<!\d)3\.12(?!\d)", (unsaid,)), ("四十五", (unsaid,)), ("초과", (unsaid,)),
            (r"^(\w+\w+)+y$", (unbounded,)),  # never ends on a text, so it is not tried on one
        )
        for pattern, words in rows:
            with self.subTest(pattern):
                lines = weak_labels([one_case(answer_patterns=[pattern])], PASSAGES)
                self.assertEqual(len(words), len(lines), lines)
                for named, line in zip(words, lines, strict=True):
                    self.assertRegex(line, rf"^case 'boil': answer_patterns\[0\]: .*{named}")

    def test_weak_cases_are_named(self) -> None:
        rows: tuple[tuple[dict[str, Any], list[str]], ...] = (
            ({"forbidden_patterns": [r"\bdegrees\b"]},
             ["forbidden_patterns[0]: forbids what one of the case's own sources says"]),
            ({"forbidden_patterns": [r"\bkettle\b"], "sources": ["pot"], "answer_patterns": [r"\btwo\b"]}, []),
            ({"sources": []}, ["answer_patterns: never used, because only a stop is right here"]),
            ({"answer_patterns": []}, ["answer_patterns: none, so any text with the right citation passes"]),
            ({"sources": None, "evidence_sets": [["pot"], ["kettle"]]}, []), ({"sources": None}, []),
        )
        for changes, lines in rows:
            self.assertEqual([f"case 'boil': {at}" for at in lines], weak_labels([one_case(**changes)], PASSAGES))

    def test_every_pattern_that_compiles_can_be_looked_at(self) -> None:
        chance, tried = random.Random(7), 0
        pieces = ["a", "9", "(", ")", "(?:", "(?!", "(?<=", "|", "[", "]", "*", "+?", "{2,}", "{", "}", "^", "$", "\\b",
                  "\\", ".", "(?P<n>", "(?P=n)", "(?#", "(?i)", "-", "?", ","]
        for _ in range(FUZZED):
            pattern = "".join(chance.choices(pieces, k=chance.randint(1, 9)))
            document = {"cases": [case_entry(answer_patterns=[pattern])]}
            if not faults_of(document):
                weak_labels(load_cases(document), PASSAGES)
                tried += 1
        self.assertGreater(tried, FUZZED // 10)


def changed(result: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the result with one place changed."""
    result = copy.deepcopy(result)
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = result
    for step in steps:
        place = place[step]
    place[last] = value
    return result


SCRAPS: tuple[Any, ...] = (
    None, True, 0, -1, 1e308, 10**400, "", " ", "kettle", "(", "(?i", "a\x00", "\ud800", "a" * 2_000, "1.0", "answered",
    [], [[]], ["a", "a"], [None, 1, "x"], {}, {"": None})


def mutated(chance: random.Random, value: Any) -> Any:
    """A deep copy with up to three places removed, doubled or replaced."""
    document = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        place = chance.choice([place for place in walked(document) if place] or [{"": 0}])
        key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if chance.random() < 0.6:
            place[key] = copy.deepcopy(chance.choice(SCRAPS))
        elif isinstance(place, list) and chance.random() < 0.5:
            place.insert(key, copy.deepcopy(place[key]))
        else:
            del place[key]
    return document


def walked(value: Any) -> list[Any]:
    """Every list and object in a document."""
    if not isinstance(value, (dict, list)):
        return []
    below = value.values() if isinstance(value, dict) else value
    return [value, *(place for item in below for place in walked(item))]


if __name__ == "__main__":
    unittest.main()
