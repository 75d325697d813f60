"""The judge, judged: its grades of the published run, and what the smallest edit does to them."""

import copy
import hashlib
import json
import os
import random
import unittest
import warnings
from collections.abc import Callable
from typing import Any

import evaluate
from evaluate import CaseFaults, Finding, Outcome, grade, load_cases
from tests.support import ROOT

REPORT = os.path.join(ROOT, "recordings", "published", "report.json")
FUZZED = 3_000


def published() -> dict[str, Any]:
    """The graded report of the published run."""
    if not os.path.exists(REPORT):
        raise unittest.SkipTest("recordings/published/report.json is not there")
    with open(REPORT, encoding="utf-8") as file:
        report: dict[str, Any] = json.load(file)
    return report


def published_passages() -> list[dict[str, Any]]:
    """The passages that the published run read: all four."""
    reads = {}
    for trial in published()["trials"]:
        for step in trial["result"]["observations"]:
            if step["tool"] == "read":
                reads[step["result"]["version"], step["result"]["source_id"]] = step["result"]
    return list(reads.values())


def answered(
    case: evaluate.Case, answer: str, passages: list[dict[str, Any]]
) -> dict[str, Any]:
    """A result that read the first evidence set of its case, cites it, and says `answer`."""
    wanted = (case.evidence_sets or (("path-write",),))[0]
    read = [p for p in passages if p["source_id"] in wanted and p["version"] == case.version]
    return {
        "status": "answered",
        "reason": "citation_contract_passed",
        "answer": answer,
        "citations": [
            {"source_id": p["source_id"], "quote": p["text"], "url": p["url"]} for p in read
        ],
        "question": case.question,
        "version": case.version,
        "mode": "fixed",
        "limits": {"model_calls": 9, "searches": 3, "reads": 4, "source_bytes": 4096},
        "usage": {"model_calls": 1, "searches": 1, "reads": len(read),
                  "source_bytes": sum(len(p["text"]) for p in read)},
        "decisions": [{}],
        "observations": [
            {"tool": "search", "arguments": {"query": case.question}, "result": {}},
            *({"tool": "read", "arguments": {"source_id": p["source_id"]}, "result": dict(p)}
              for p in read),
        ],
    }


# --- A small world ------------------------------------------------------------------------------


def passage(source_id: str, text: str, version: str = "1.0") -> dict[str, Any]:
    return {
        "source_id": source_id,
        "version": version,
        "text": text,
        "url": f"https://example.org/{version}/{source_id}",
        "text_sha256": hashlib.sha256(text.encode()).hexdigest(),
    }


PASSAGES = [
    passage("kettle", "The kettle boils at 100 degrees."),
    passage("pot", "The pot holds two litres."),
    passage("kettle", "The kettle boils at 99 degrees.", "2.0"),
]


def case_entry(**changes: Any) -> dict[str, Any]:
    """A case as a person writes it; a change to None takes the field away."""
    entry = {
        "id": "boil",
        "question": "When does the kettle boil?",
        "version": "1.0",
        "split": "development",
        "sources": ["kettle"],
        "answer_patterns": [r"\b100\b"],
        "forbidden_patterns": [r"\bnever\b"],
    } | changes
    return {name: value for name, value in entry.items() if value is not None}


def one_case(**changes: Any) -> evaluate.Case:
    return load_cases({"cases": [case_entry(**changes)]})[0]


def boiled() -> dict[str, Any]:
    """A result that passes."""
    return answered(one_case(), "At 100 degrees.", PASSAGES)


def faults_of(document: object) -> list[str]:
    try:
        load_cases(document)
    except CaseFaults as faults:
        return faults.faults
    return []


class ReadingCases(unittest.TestCase):
    def test_a_case_is_read_as_written(self) -> None:
        """Every field, in the types the judge wants."""
        case = one_case()
        self.assertEqual(
            ("boil", "When does the kettle boil?", "1.0", "development", (("kettle",),)), case[:5]
        )
        self.assertEqual(([r"\b100\b"], [r"\bnever\b"]),
                         tuple([p.pattern for p in patterns] for patterns in case[5:]))
        self.assertTrue(case.forbidden_patterns[0].search("NEVER"))

    def test_sources_are_short_for_one_evidence_set(self) -> None:
        """No sources at all is a label too; only the field's absence is none."""
        rows: tuple[tuple[dict[str, Any], object], ...] = (
            ({"sources": ["a", "b"]}, (("a", "b"),)),
            ({"sources": []}, ()),
            ({"sources": None, "evidence_sets": [["a"], ["b", "c"]]}, (("a",), ("b", "c"))),
            ({"sources": None}, None),
        )
        for changes, sets in rows:
            with self.subTest(changes):
                self.assertEqual(sets, one_case(**changes).evidence_sets)

    def test_every_fault_has_its_line(self) -> None:
        """The whole line, for one case that has the fault."""
        want = "1 to 100 of letters, digits, '.', '_' and '-', the first a letter or digit"
        version = "one to three numbers joined by dots, at most 20 characters"
        where = "case 'boil': "
        rows: tuple[tuple[dict[str, Any], str], ...] = (
            ({"id": None}, "cases[0]: id: missing"),
            ({"id": 7}, "cases[0]: id: expected a string, found a number"),
            ({"id": ""}, f"cases[0]: id: '' is not {want}"),
            ({"id": "-a"}, f"cases[0]: id: '-a' is not {want}"),
            ({"id": "a b"}, f"cases[0]: id: 'a b' is not {want}"),
            ({"id": "a\n"}, rf"cases[0]: id: 'a\n' is not {want}"),
            ({"id": "\u00e4"}, rf"cases[0]: id: '\xe4' is not {want}"),
            ({"id": "a" * 101}, f"cases[0]: id: '{'a' * 60}...' is not {want}"),
            ({"question": None}, where + "question: missing"),
            ({"question": ["a"]}, where + "question: expected a string, found a list"),
            ({"question": " \u2003"}, where + "question: blank"),
            ({"question": "q" * 513}, where + "question: 513 characters, of which 512 are allowed"),
            ({"question": "a\x07b"}, where + r"question: control character '\x07' at position 1"),
            ({"question": "a\ud800"},
             where + r"question: control character '\ud800' at position 1"),
            ({"version": None}, where + "version: missing"),
            ({"version": 3.12}, where + "version: expected a string, found a number"),
            ({"version": ""}, where + f"version: '' is not {version}"),
            ({"version": "1."}, where + f"version: '1.' is not {version}"),
            ({"version": "1.2.3.4"}, where + f"version: '1.2.3.4' is not {version}"),
            ({"version": "1.0\n"}, where + rf"version: '1.0\n' is not {version}"),
            ({"version": "\u0663"}, where + rf"version: '\u0663' is not {version}"),
            ({"version": "1" * 21}, where + f"version: '{'1' * 21}' is not {version}"),
            ({"split": None}, where + "split: missing"),
            ({"split": True}, where + "split: expected a string, found a boolean"),
            ({"split": "test"}, where + "split: 'test' is not 'development' or 'held-out'"),
            ({"sources": "kettle"}, where + "sources: expected a list, found a string"),
            ({"sources": [1.5]}, where + "sources[0]: expected a string, found a number"),
            ({"sources": ["a", " "]}, where + "sources[1]: blank"),
            ({"sources": ["a", "a"]}, where + "sources[1]: 'a' a second time"),
            ({"evidence_sets": [["a"]]},
             where + "sources and evidence_sets: only one of the two may be given"),
            ({"sources": None, "evidence_sets": []},
             where + 'evidence_sets: empty; where only a stop is right, write "sources": []'),
            ({"sources": None, "evidence_sets": [["a"], []]}, where + "evidence_sets[1]: empty"),
            ({"sources": None, "evidence_sets": [["a"], {}]},
             where + "evidence_sets[1]: expected a list, found an object"),
            ({"sources": None, "evidence_sets": [["a", "a"]]},
             where + "evidence_sets[0][1]: 'a' a second time"),
            ({"answer_patterns": "a"}, where + "answer_patterns: expected a list, found a string"),
            ({"answer_patterns": [[]]},
             where + "answer_patterns[0]: expected a string, found a list"),
            ({"answer_patterns": ["a", ""]},
             where + "answer_patterns[1]: empty, which would match any answer"),
            ({"answer_patterns": ["(45"]},
             where + "answer_patterns[0]: missing ), unterminated subpattern at position 0"),
            ({"answer_patterns": ["abc(de"]},
             where + "answer_patterns[0]: missing ), unterminated subpattern at position 3"),
            ({"forbidden_patterns": ["a" * 1001]},
             where + "forbidden_patterns[0]: 1,001 characters, of which 1,000 are allowed"),
            ({"forbidden_patterns": ["a{99999999999}"]},
             where + "forbidden_patterns[0]: the repetition number is too large"),
            ({"forbidden_patterns": ["(?a)(?u)x"]},
             where + "forbidden_patterns[0]: ASCII and UNICODE flags are incompatible"),
            ({"forbidden_patterns": ["(?au)x"]},
             where + "forbidden_patterns[0]: bad inline flags: flags 'a', 'u' and 'L' are"
                     " incompatible at position 4"),
            ({"forbidden_patterns": ["\\\u00e9\n("]},
             where + "forbidden_patterns[0]: missing ), unterminated subpattern"
                     " at position 3 (line 2, column 1)"),
            ({"titel": 1}, where + "unknown field 'titel'"),
            ({"ti\ntel": 1}, where + r"unknown field 'ti\ntel'"),
            ({"sources": None, "answer_patterns": None, "forbidden_patterns": []},
             where + "checks nothing: no sources, no evidence_sets, no patterns"),
        )
        for changes, line in rows:
            with self.subTest(changes):
                self.assertEqual([line], faults_of({"cases": [case_entry(**changes)]}))

    def test_a_case_that_checks_nothing_is_refused(self) -> None:
        """One label of any kind is enough, and an empty list of sources is one."""
        nothing = {"sources": None, "answer_patterns": None, "forbidden_patterns": None}
        self.assertEqual(1, len(faults_of({"cases": [case_entry(**nothing)]})))
        labels: tuple[dict[str, Any], ...] = (
            {"sources": []}, {"evidence_sets": [["a"]]}, {"answer_patterns": ["a"]},
            {"forbidden_patterns": ["a"]},
        )
        for label in labels:
            with self.subTest(label):
                self.assertEqual([], faults_of({"cases": [case_entry(**nothing | label)]}))

    def test_the_file_as_a_whole_is_checked(self) -> None:
        """What is no cases file at all, and what stands beside the cases."""
        rows: tuple[tuple[object, list[str]], ...] = (
            ([], ["cases file: expected an object with 'cases'"]),
            (None, ["cases file: expected an object with 'cases'"]),
            ({}, ["cases: expected a list with at least one case"]),
            ({"cases": []}, ["cases: expected a list with at least one case"]),
            ({"cases": {}}, ["cases: expected a list with at least one case"]),
            ({"cases": [3]}, ["cases[0]: expected an object, found a number"]),
            ({"cases": [case_entry()], "v": 1}, ["unknown field 'v' beside 'cases'"]),
        )
        for document, lines in rows:
            with self.subTest(document):
                self.assertEqual(lines, faults_of(document))

    def test_all_faults_of_a_file_are_told_at_once(self) -> None:
        """By case and field; a case without a usable id, or with one taken, by its place."""
        document = {"cases": [
            case_entry(version="x", answer_patterns=["(", "ok", "["]),
            case_entry(split="test"),
            {"id": "", "titel": "a"},
        ]}
        self.assertEqual(
            ["case 'boil': version: 'x' is not one to three numbers joined by dots,"
             " at most 20 characters",
             "case 'boil': answer_patterns[0]: missing ), unterminated subpattern at position 0",
             "case 'boil': answer_patterns[2]: unterminated character set at position 0",
             "cases[1]: id: 'boil' is already the id of cases[0]",
             "cases[1]: split: 'test' is not 'development' or 'held-out'",
             "cases[2]: unknown field 'titel'",
             "cases[2]: id: '' is not 1 to 100 of letters, digits, '.', '_' and '-',"
             " the first a letter or digit",
             "cases[2]: question: missing",
             "cases[2]: version: missing",
             "cases[2]: split: missing",
             "cases[2]: checks nothing: no sources, no evidence_sets, no patterns"],
            faults_of(document),
        )

    def test_both_sides_of_each_bound(self) -> None:
        """The largest and smallest that are allowed are."""
        for changes in ({"id": "a" * 100}, {"id": "7"}, {"id": "a.b_c-d"}, {"question": "q" * 512},
                        {"version": "1"}, {"version": "1.2.3"}, {"version": "1" * 20},
                        {"answer_patterns": ["a" * 1000]}, {"split": "held-out"}):
            with self.subTest(changes):
                self.assertEqual([], faults_of({"cases": [case_entry(**changes)]}))

    def test_what_cannot_be_compiled_is_a_fault_and_warnings_are_silent(self) -> None:
        """Too deep a pattern is told; syntax that may change its meaning is not."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for pattern in ("[[a]", "[a||b]", "(?x) a"):
                with self.subTest(pattern):
                    self.assertEqual([], faults_of({"cases": [case_entry(answer_patterns=[pattern])]}))
            deep = case_entry(answer_patterns=["(" * 499 + "a" + ")" * 499])
            told = ["case 'boil': answer_patterns[0]: nested too deeply to compile"]
            self.assertEqual(told, faults_of({"cases": [deep]}))

    def test_what_can_be_compiled_can_be_looked_at_however_deep(self) -> None:
        """The look at a pattern's syntax goes no deeper than compiling it did."""
        looked_at = 0
        for depth in range(10, 500, 10):
            pattern = "(" * depth + "a" + ")" * depth
            if not faults_of({"cases": [case_entry(answer_patterns=[pattern])]}):
                evaluate.weak_labels([one_case(answer_patterns=[pattern])], PASSAGES)
                looked_at += 1
        self.assertGreater(looked_at, 5)

    def test_nothing_json_can_hold_raises_anything_but_case_faults(self) -> None:
        """Seeded: valid documents edited at any place, and documents of chance."""
        chance, loaded, refused = random.Random(20261025), 0, 0
        for _ in range(FUZZED):
            cases = [case_entry(), case_entry(id="b", sources=None, evidence_sets=[["a"], ["b"]])]
            document = mutated(chance, {"cases": cases}) if chance.random() < 0.8 else junk(chance)
            try:
                loaded += bool(load_cases(document))
            except CaseFaults as faults:
                refused += 1
                self.assertTrue(faults.faults)
                for line in faults.faults:
                    self.assertTrue(line.isascii() and line.isprintable(), line)
        self.assertGreater(loaded, FUZZED // 20)
        self.assertGreater(refused, FUZZED // 5)

    def test_deep_and_long_values_are_named_by_type_only(self) -> None:
        """Showing them would itself fail."""
        deep: list[Any] = []
        for _ in range(5_000):
            deep = [deep]
        for value in (deep, 10**5_000):
            self.assertEqual(2, len(faults_of({"cases": [case_entry(id=value, question=value)]})))


class TheJudge(unittest.TestCase):
    def grade(self, result: Any, **labels: Any) -> dict[str, Any]:
        return grade(one_case(**labels), result, PASSAGES)

    def findings(self, result: Any, **labels: Any) -> list[str]:
        return [one["finding"] for one in self.grade(result, **labels)["findings"]]

    def test_the_published_trials_are_graded_as_published(self) -> None:
        """All sixteen, every check but the sentence."""
        with open(os.path.join(ROOT, "cases.json"), encoding="utf-8") as file:
            cases = {case.id: case for case in load_cases(json.load(file))}
        passages, trials = published_passages(), published()["trials"]
        self.assertEqual(16, len(trials))
        for trial in trials:
            with self.subTest(trial["id"]):
                checks = grade(cases[trial["case_id"]], trial["result"], passages)["checks"]
                self.assertEqual(list(trial["checks"]), list(checks))
                self.assertEqual(trial["checks"] | {"scope": checks["scope"]}, checks)

    def test_a_good_trial_passes_without_findings(self) -> None:
        """The ground that the edits below start from."""
        graded = self.grade(boiled())
        self.assertEqual([], graded["findings"])
        self.assertEqual(
            {"retrieval_targets_read": True, "answer_fixture_check": True, "outcome": "pass",
             "trajectory": {"queries": ["When does the kettle boil?"], "refined": False,
                            "within_limits": True},
             "scope": evaluate.SCOPE},
            graded["checks"],
        )

    def test_the_smallest_edit_gives_exactly_its_finding(self) -> None:
        """Each finding, from each side it can come from, with what was expected and found."""
        other, kettle, pot = passage("pot", "?"), PASSAGES[0], PASSAGES[1]
        sets, text = [["kettle"]], kettle["text"]
        cited = {"source_id": "pot", "quote": pot["text"], "url": pot["url"]}
        read = {"tool": "read", "arguments": {"source_id": "pot"}, "result": pot}
        wrong_hash = hashlib.sha256(b"").hexdigest()
        rows: tuple[tuple[str, str, Any, Finding, Any, Any], ...] = (
            ("no answer text", "answer", " ", Finding.NOT_ANSWERED, "answered",
             "citation_contract_passed"),
            ("nothing cited", "citations", [], Finding.SOURCE_NOT_CITED, sets, []),
            ("another answer", "answer", "At 1000 degrees.", Finding.PATTERN_MISSING, r"\b100\b",
             "At 1000 degrees."),
            ("a denial", "answer", "Never at 100.", Finding.PATTERN_FORBIDDEN, r"\bnever\b",
             "Never"),
            ("read text", "observations.1.result.text", "?", Finding.READ_NOT_IN_SNAPSHOT,
             {"text": text}, {"text": "?"}),
            ("read hash", "observations.1.result.text_sha256", wrong_hash,
             Finding.READ_NOT_IN_SNAPSHOT, {"text_sha256": kettle["text_sha256"]},
             {"text_sha256": wrong_hash}),
            ("read url", "observations.1.result.url", "x", Finding.READ_NOT_IN_SNAPSHOT,
             {"url": kettle["url"]}, {"url": "x"}),
            ("read version", "observations.1.result.version", "2.0", Finding.READ_NOT_IN_SNAPSHOT,
             {"version": "1.0"}, {"version": "2.0"}),
            ("quote", "citations.0.quote", "boils at 100 Degrees", Finding.QUOTE_NOT_IN_PASSAGE,
             text, "boils at 100 Degrees"),
            ("blank quote", "citations.0.quote", "", Finding.QUOTE_NOT_IN_PASSAGE, text, ""),
            ("cited url", "citations.0.url", other["url"], Finding.QUOTE_NOT_IN_PASSAGE,
             kettle["url"], other["url"]),
            ("not read", "observations", boiled()["observations"][:1], Finding.CITED_NOT_READ,
             "kettle", []),
            ("cited beside", "citations", [*boiled()["citations"], cited], Finding.CITED_NOT_READ,
             "pot", ["kettle"]),
            ("calls used", "usage.model_calls", 10, Finding.USAGE_OVER_LIMIT, {"model_calls": 9},
             {"model_calls": 10}),
            ("calls shown", "decisions", [{}] * 10, Finding.USAGE_OVER_LIMIT, {"model_calls": 9},
             {"model_calls": 10}),
            ("searches shown", "observations",
             [*boiled()["observations"][:1] * 4, *boiled()["observations"][1:]],
             Finding.USAGE_OVER_LIMIT, {"searches": 3}, {"searches": 4}),
            ("reads shown", "observations", [*boiled()["observations"], *[read] * 4],
             Finding.USAGE_OVER_LIMIT, {"reads": 4}, {"reads": 5}),
            ("bytes shown", "limits.source_bytes", 31, Finding.USAGE_OVER_LIMIT,
             {"source_bytes": 31}, {"source_bytes": 32}),
            ("more than any may", "limits.reads", 99, Finding.USAGE_OVER_LIMIT, {"reads": 6},
             {"reads": 7}),
        )
        for what, path, value, finding, expected, found in rows:
            with self.subTest(what):
                result = changed(boiled(), path, value)
                if what == "more than any may":
                    result["usage"]["reads"] = 7
                graded = self.grade(result)
                self.assertEqual(
                    [{"finding": finding, "expected": expected, "found": found}],
                    graded["findings"],
                )
                self.assertEqual("fail", graded["checks"]["outcome"])
                self.assertFalse(graded["checks"]["answer_fixture_check"])
                self.assertEqual(finding != Finding.USAGE_OVER_LIMIT,
                                 graded["checks"]["trajectory"]["within_limits"])

    def test_every_finding_can_be_found(self) -> None:
        """The vocabulary is closed on both sides."""
        endings = {"status": "incomplete", "reason": "deadline"}
        seen = set(self.findings(boiled() | endings, sources=[], answer_patterns=[]))
        seen |= set(self.findings(boiled() | endings))
        bad = {"answer": "never", "citations": [{"source_id": "pot", "quote": "?"}],
               "usage": {"reads": 50}}
        bad = changed(boiled() | bad, "observations.1.result.text", "?")
        seen |= set(self.findings(bad))
        self.assertEqual(set(Finding), seen)
        for word in (*Finding, *Outcome):
            self.assertRegex(word.sentence, r"^[A-Z].*\.$")

    def test_whole_limits_may_be_used_up(self) -> None:
        """At the limit is within it."""
        result = boiled()
        result["usage"] = dict(result["limits"])
        self.assertEqual([], self.findings(result))

    def test_one_whole_evidence_set_is_enough(self) -> None:
        """Half of two sets is none."""
        result = boiled()
        rows: tuple[tuple[list[list[str]], list[str], bool], ...] = (
            ([["kettle"], ["pot"]], [], True),
            ([["pot"], ["kettle"]], [], True),
            ([["kettle", "pot"]], ["source_not_cited"], False),
            ([["kettle", "pot"], ["pot"]], ["source_not_cited"], False),
        )
        for sets, findings, read in rows:
            with self.subTest(sets):
                graded = self.grade(result, sources=None, evidence_sets=sets)
                self.assertEqual(findings, [one["finding"] for one in graded["findings"]])
                self.assertIs(read, graded["checks"]["retrieval_targets_read"])

    def test_patterns_alone_can_be_checked(self) -> None:
        """Without evidence sets no source is asked for, and none counts as read."""
        graded = self.grade(boiled() | {"citations": []}, sources=None)
        self.assertEqual(("pass", None), (graded["checks"]["outcome"],
                                          graded["checks"]["retrieval_targets_read"]))

    def test_outcomes_follow_the_table(self) -> None:
        """(status, reason): what a case with sources, one to stop at, and no case make of it."""
        failed = ("invalid_decision", "unknown_action", "invalid_citation", "duplicate_query",
                  "unexpected_action_fields", "invalid_query", "invalid_source", "changed_read",
                  "missing_answer_evidence", "fixed_policy_tool_request", "unissued_source",
                  "duplicate_read", "search_failed", "unread_or_changed_citation",
                  "trivial_citation")
        outside = ("unfinished_model_reply", "batch_request_limit", "token_budget_limit",
                   "cost_budget_limit", "provider_input_bytes_limit", "reply_in_doubt",
                   "provider_response_bytes_limit", "replay_request_mismatch", "replay_exhausted",
                   "model_transport_failed:timeout", "model_transport_failed:http_503")
        used_up = ("deadline", "model_call_limit", "search_limit", "read_or_byte_limit")
        rows = [("failed", reason, "fail", "fail") for reason in failed]
        rows += [("failed", reason, "not_measured", "not_measured") for reason in outside]
        rows += [("incomplete", reason, "incomplete", "incomplete") for reason in used_up]
        rows += [("incomplete", "model_stopped", "incomplete", "pass")]
        rows += [("answered", "citation_contract_passed", "pass", "fail")]
        rows += [("", "", "not_measured", "not_measured")]
        for status, reason, with_sources, to_stop in rows:
            with self.subTest(reason):
                result = boiled() | {"status": status, "reason": reason}
                abstain: dict[str, Any] = {"sources": [], "answer_patterns": None}
                outcomes = [self.grade(result)["checks"]["outcome"],
                            self.grade(result, **abstain)["checks"]["outcome"],
                            grade(None, result, PASSAGES)["checks"]["outcome"]]
                self.assertEqual([with_sources, to_stop, "ungraded"], outcomes)

    def test_an_outage_is_no_finding(self) -> None:
        """What was not measured has not missed its labels."""
        lost = {"status": "failed", "reason": "model_transport_failed:timeout", "answer": ""}
        self.assertEqual([], self.findings(boiled() | lost))
        self.assertEqual(["not_answered"], self.findings(boiled() | {
            "status": "failed", "reason": "duplicate_query", "answer": ""}))

    def test_a_stop_with_a_finding_does_not_pass(self) -> None:
        """Stopping is right only for a trial that is what it says it is."""
        stop = {"status": "incomplete", "reason": "model_stopped", "citations": []}
        abstain: dict[str, Any] = {"sources": [], "answer_patterns": None}
        self.assertEqual("pass", self.grade(boiled() | stop, **abstain)["checks"]["outcome"])
        tampered = changed(boiled() | stop, "usage.searches", 4)
        self.assertEqual("incomplete", self.grade(tampered, **abstain)["checks"]["outcome"])

    def test_an_unlabelled_question_is_still_checked_against_the_snapshot(self) -> None:
        """Ungraded says nothing about the answer, and findings still do about the trial."""
        graded = grade(None, changed(boiled(), "citations.0.quote", "?"), PASSAGES)
        self.assertEqual(["quote_not_in_passage"], [one["finding"] for one in graded["findings"]])
        self.assertIs(False, graded["checks"]["answer_fixture_check"])
        self.assertIsNone(graded["checks"]["retrieval_targets_read"])
        self.assertEqual([], grade(None, boiled(), PASSAGES)["findings"])

    def test_the_same_id_in_another_version_is_another_passage(self) -> None:
        """A quote from the other version's text is no quote."""
        both = ["quote_not_in_passage"]
        result = changed(boiled(), "citations.0.quote", "The kettle boils at 99 degrees.")
        self.assertEqual(both, self.findings(result))

    def test_queries_are_those_of_the_observations(self) -> None:
        """In order; more than one is a refinement."""
        search = {"tool": "search", "arguments": {"query": "kettle"}, "result": {}}
        result = boiled()
        result["observations"].append(search)
        self.assertEqual(
            {"queries": ["When does the kettle boil?", "kettle"], "refined": True,
             "within_limits": True},
            self.grade(result)["checks"]["trajectory"],
        )

    def test_how_patterns_match_is_as_documented(self) -> None:
        """re.search, any script's digits, a final line end, simple case folding."""
        rows = (("45", "It is 14500 ms.", True), (r"(?<!\d)45(?!\d)", "It is 14500 ms.", False),
                ("correct", "The value is incorrect.", True), ("^30|60$", "10 and 60", True),
                ("ok$", "ok\n", True), (r"ok\Z", "ok\n", False), (r"\d+", "\u0665", True),
                ("[0-9]+", "\u0665", False), ("stra\u00dfe", "STRASSE", False))
        for pattern, answer, passes in rows:
            with self.subTest(pattern):
                found = self.findings(boiled() | {"answer": answer}, answer_patterns=[pattern])
                self.assertEqual([] if passes else ["pattern_missing"], found)

    def test_an_answer_longer_than_a_decision_can_hold_is_cut(self) -> None:
        """What a foreign report adds cannot be searched for ever, nor satisfy a label."""
        result = boiled() | {"answer": "x" * evaluate.ANSWER_CHARACTERS + " 100"}
        self.assertEqual(["pattern_missing"], self.findings(result))

    def test_no_result_breaks_the_judge_and_none_passes_by_being_broken(self) -> None:
        """Seeded: a passing result edited at any place, and JSON of chance."""
        chance, case = random.Random(16), one_case()
        outcomes: dict[str, int] = {}
        for _ in range(FUZZED):
            result = mutated(chance, boiled()) if chance.random() < 0.8 else junk(chance)
            graded = grade(case, result, PASSAGES)
            json.dumps(graded)
            outcome = graded["checks"]["outcome"]
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            if outcome == "pass":
                self.assertIn("100", result["answer"])
                self.assertIn("kettle", [one.get("source_id") for one in result["citations"]])
        self.assertGreater(outcomes["pass"], 20, outcomes)
        self.assertGreater(outcomes["fail"], FUZZED // 10, outcomes)
        self.assertGreater(outcomes["not_measured"], FUZZED // 20, outcomes)

    def test_nothing_given_to_the_judge_is_changed(self) -> None:
        """Grading twice grades the same."""
        result = boiled()
        before = copy.deepcopy(result)
        first = grade(one_case(), result, PASSAGES)
        self.assertEqual(before, result)
        self.assertEqual(first, grade(one_case(), result, iter(PASSAGES)))


class Labels(unittest.TestCase):
    def test_labels_that_the_snapshot_does_not_have_are_faults(self) -> None:
        """A version, a source, and a source of another version."""
        rows: tuple[tuple[dict[str, Any], list[str]], ...] = (
            ({}, []),
            ({"sources": []}, []),
            ({"version": "3.0"}, ["version 3.0 is not in the snapshot: 1.0, 2.0"]),
            ({"sources": ["cup"]}, ["source 'cup' is not in version 1.0 of the snapshot"]),
            ({"version": "2.0", "sources": ["pot", "kettle"]},
             ["source 'pot' is not in version 2.0 of the snapshot, only in 1.0"]),
        )
        for changes, lines in rows:
            with self.subTest(changes):
                self.assertEqual([f"case 'boil': {line}" for line in lines],
                                 evaluate.label_faults([one_case(**changes)], PASSAGES))
        self.assertEqual(["case 'boil': version 1.0 is not in the snapshot: no version at all"],
                         evaluate.label_faults([one_case()], []))

    def test_weak_patterns_are_named_with_their_weakness(self) -> None:
        """(pattern, words of each warning it gets as one that is required)."""
        unsaid, question = "no source", "question alone"
        rows: tuple[tuple[str, tuple[str, ...]], ...] = (
            (r"\b100\b", ()),
            (r"\bkettle\b", (question,)),
            (r"\bboils\b", ()),
            (r"\btea\b", (unsaid,)),
            (r"\bboils.*", ("without a bound",)),
            (r"\bboils.+?\b", ("without a bound",)),
            (r"\bboils.{2,}\b", ("without a bound",)),
            (r"\bboils.{2,9}\b", ()),
            (r"\bboils.{2,3}+\b", ()),
            (r"\bboils[*+] {0,3}\*?\b|\b100\b", ()),
            (r"\b(?:b+oils)+\b", ("without a bound",)),
            ("100", ("bare number",)),
            (r"100\b", ("bare number",)),
            (r"\b100", ("bare number",)),
            (r"(?<!\d)100(?!\d)", ()),
            (r"(?:100|99) degrees", ("bare number",)),
            (r"\b(?:99|100)", ("bare number",)),
            (r"\b(?:99|100)\b", ()),
            (r"[0-9]{3}\b", ()),
            ("degrees", ("inside a word",)),
            (r"(?P<d>degrees)\b", ("inside a word",)),
            (r"\b100\b|degrees", ("inside a word",)),
            (r"(?i:\bdegrees)", ()),
            (r"(?#why)\bdegrees", ()),
            (r"^30|60$", ("bare number", "one alternative", unsaid)),
            (r"^\bThe|degrees\b", ("inside a word", "one alternative")),
            (r"^(?:The|A)\b", ()),
            (r"^The\b|^A\b", ()),
            (r"(?:\b100\b)?", ("empty string", question)),
            (r"(\bA)?(?(1)b|\bkettle)\b", (question,)),
        )
        for pattern, words in rows:
            with self.subTest(pattern):
                lines = evaluate.weak_labels([one_case(answer_patterns=[pattern])], PASSAGES)
                self.assertEqual(len(words), len(lines), lines)
                for word, line in zip(words, lines, strict=True):
                    self.assertTrue(line.startswith("case 'boil': answer_patterns[0]: "), line)
                    self.assertIn(word, line)

    def test_weak_cases_are_named(self) -> None:
        """Labels that are never used, that forbid their own source, or that are missing."""
        where = "case 'boil': "
        rows: tuple[tuple[dict[str, Any], list[str]], ...] = (
            ({"forbidden_patterns": [r"\bdegrees\b"]},
             ["forbidden_patterns[0]: forbids what one of the case's own sources says"]),
            ({"forbidden_patterns": [r"\bkettle\b"], "sources": ["pot"],
              "answer_patterns": [r"\btwo\b"]}, []),
            ({"sources": []}, ["answer_patterns: never used, because only a stop is right here"]),
            ({"answer_patterns": []},
             ["answer_patterns: none, so any text with the right citation passes"]),
            ({"sources": None, "evidence_sets": [["pot"], ["kettle"]]}, []),
            ({"sources": None}, []),
        )
        for changes, lines in rows:
            with self.subTest(changes):
                self.assertEqual([where + line for line in lines],
                                 evaluate.weak_labels([one_case(**changes)], PASSAGES))

    def test_a_pattern_that_never_ends_is_warned_of_and_not_tried(self) -> None:
        """`check` must not hang on what it is there to find."""
        slow = one_case(answer_patterns=["^(x+x+)+y$"], question="x" * 60)
        lines = evaluate.weak_labels([slow], PASSAGES)
        self.assertEqual(1, len(lines))
        self.assertIn("without a bound", lines[0])

    def test_every_pattern_that_compiles_can_be_looked_at(self) -> None:
        """Seeded: pieces of syntax put together by chance."""
        chance, tried = random.Random(7), 0
        pieces = ["a", "9", "(", ")", "(?:", "(?!", "(?<=", "|", "[", "]", "*", "+?", "{2,}", "{",
                  "}", "^", "$", "\\b", "\\", ".", "(?P<n>", "(?P=n)", "(?#", "(?i)", "-", "?", ","]
        for _ in range(FUZZED):
            pattern = "".join(chance.choices(pieces, k=chance.randint(1, 9)))
            try:
                case = one_case(answer_patterns=[pattern])
            except CaseFaults:
                continue
            tried += 1
            evaluate.weak_labels([case], PASSAGES)
        self.assertGreater(tried, FUZZED // 10)


class Counting(unittest.TestCase):
    def test_all_five_counts_are_shown_for_each_path(self) -> None:
        """The fixed path first, whatever came first; a path without trials is not there."""
        trials = [{"mode": mode, "checks": {"outcome": outcome}} for mode, outcome in (
            ("agent", "pass"), ("agent", "fail"), ("fixed", "ungraded"), ("agent", "pass"))]
        counts = evaluate.summarize(trials)
        zero = dict.fromkeys(("pass", "fail", "incomplete", "not_measured", "ungraded"), 0)
        self.assertEqual({"fixed": zero | {"ungraded": 1}, "agent": zero | {"pass": 2, "fail": 1}},
                         counts)
        self.assertEqual(["fixed", "agent"], list(counts))
        self.assertEqual([list(zero)] * 2, [list(path) for path in counts.values()])
        self.assertEqual({}, evaluate.summarize([]))

    def test_the_published_summary_comes_out(self) -> None:
        """The published counts, and zeros for what was not published."""
        report = published()
        none = {"not_measured": 0, "ungraded": 0}
        self.assertEqual({mode: counts | none for mode, counts in report["summary"].items()},
                         evaluate.summarize(report["trials"]))


# --- Edits --------------------------------------------------------------------------------------


def changed(result: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the result with one place changed."""
    result = copy.deepcopy(result)
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = result
    for step in steps:
        place = place[step]
    place[last] = value
    return result


SCRAPS: tuple[Callable[[], Any], ...] = (
    lambda: None, lambda: True, lambda: 0, lambda: -1, lambda: 1e308, lambda: "", lambda: " ",
    lambda: "kettle", lambda: "(", lambda: "a\x00", lambda: "\ud800", list, lambda: [[]],
    dict, lambda: {"": None}, lambda: "(?i", lambda: "a" * 2_000, lambda: 10**400,
    lambda: "1.0", lambda: ["a", "a"], lambda: [None, 1, "x"], lambda: "answered",
)


def mutated(chance: random.Random, value: Any) -> Any:
    """A deep copy with one to three places replaced, removed, doubled or renamed."""
    document = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        places = [place for place in walked(document) if place]
        if not places:
            break
        place = chance.choice(places)
        key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        edit = chance.randrange(4)
        if edit == 0:
            del place[key]
        elif edit == 1 and isinstance(place, dict):
            place[chance.choice(["titel", "sources", "id", ""])] = place.pop(key)
        elif edit == 2 and isinstance(place, list):
            place.insert(chance.randrange(len(place) + 1), copy.deepcopy(place[key]))
        else:
            place[key] = chance.choice(SCRAPS)()
    return document


def walked(value: Any) -> list[Any]:
    """Every list and object in a document."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, (dict, list)) else []
    return own + [place for item in below for place in walked(item)]


def junk(chance: random.Random, depth: int = 3) -> Any:
    """JSON of chance."""
    keys = ("cases", "id", "status", "usage", "observations", "citations", "x")
    kind = chance.random()
    if depth and kind < 0.3:
        return [junk(chance, depth - 1) for _ in range(chance.randrange(4))]
    if depth and kind < 0.7:
        return {chance.choice(keys): junk(chance, depth - 1) for _ in range(chance.randrange(4))}
    return chance.choice(SCRAPS)()


if __name__ == "__main__":
    unittest.main()
