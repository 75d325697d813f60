"""Comparing and regrading: pairs, the exact test, intervals, rates by case, costs, abstention, and words for chance."""

import copy
import importlib
import json
import os
import unittest
from typing import Any

from evaluate import compare, exact_paired, grade, load_cases, regrade, rows, wilson
from tests.support import ROOT
from tests.test_evaluate import PASSAGES, boiled, case_entry, published, published_passages


def peer(name: str) -> Any:
    """A module that is not the standard library's, or the test that needs it skips."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise unittest.SkipTest(f"needs {name}") from None


def trial(outcome: str, case: str = "a", repeat: int = 1, mode: str = "agent", **more: Any) -> dict[str, Any]:
    result = {"status": "answered", "reason": "", "limits": {"reads": 4}, "decisions": [{}], "usage": {"reads": 1}}
    return {"id": f"{case}-{mode}-{repeat}", "case_id": case, "repeat": repeat, "mode": mode, "elapsed_seconds": 2.0,
            "result": result | more.pop("result", {}), "checks": {"outcome": outcome, "retrieval_targets_read": True},
            "provider_usage": [{"promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}], **more}


def at_once(work: Any) -> Any:
    """No timer: the work is done, however long it takes."""
    return work()


def paths() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The trials of the two published paths."""
    trials = published()["trials"]
    fixed, agent = ([at for at in trials if at["mode"] == mode] for mode in ("fixed", "agent"))
    return fixed, agent


class Statistics(unittest.TestCase):
    def test_the_exact_test_has_registered_answers(self) -> None:
        for only_a, only_b, p in ((0, 0, 1.0), (1, 0, 1.0), (0, 1, 1.0), (1, 1, 1.0), (5, 0, 0.0625), (6, 0, 0.03125),
                                  (0, 6, 0.03125), (8, 2, 0.109375), (10, 1, 0.01171875), (0, 2_000, 0.0)):
            self.assertAlmostEqual(exact_paired(only_a, only_b), p, 12)

    def test_intervals_have_registered_answers(self) -> None:
        for passed, of, low, high in ((0, 8, 0.0, 0.324408), (8, 8, 0.675592, 1.0), (4, 8, 0.215216, 0.784784),
                                      (1, 1, 0.206549, 1.0), (0, 1, 0.0, 0.793451), (1, 2, 0.094531, 0.905469)):
            interval = wilson(passed, of)
            assert interval
            self.assertEqual([f"{at:.6f}" for at in interval], [f"{low:.6f}", f"{high:.6f}"])
        self.assertIsNone(wilson(0, 0))
        self.assertEqual((wilson(0, 5) or (1,))[0], 0.0)
        self.assertEqual((wilson(5, 5) or (0, 0))[1], 1.0)
        for passed, of in ((3, 2), (-1, 2), (1, 0), (0, -1)):
            self.assertRaises(ValueError, wilson, passed, of)

    def test_the_exact_test_agrees_with_scipy(self) -> None:
        stats = peer("scipy.stats")
        most = max(abs(exact_paired(a, b) - stats.binomtest(a, a + b, 0.5).pvalue)
                   for a in range(25) for b in range(25) if a + b)
        self.assertLess(most, 1e-9)

    def test_intervals_agree_with_scipy(self) -> None:
        """To the sixth decimal of z, which the convention fixes at 1.959964."""
        stats, most = peer("scipy.stats"), 0.0
        for of in range(1, 30):
            for passed in range(of + 1):
                theirs = stats.binomtest(passed, of).proportion_ci(method="wilson")
                ours = wilson(passed, of) or (2.0, 2.0)
                most = max(most, abs(ours[0] - theirs.low), abs(ours[1] - theirs.high))
        self.assertLess(most, 1e-8)


class Comparing(unittest.TestCase):
    def test_the_published_paths_cannot_be_told_apart(self) -> None:
        told = compare(*paths())
        self.assertEqual(told["counts"], {"both": 4, "only a": 0, "only b": 0, "neither": 4})
        self.assertEqual((told["p"], told["left_out"], told["equal_allowance"]), (1.0, [], True))
        self.assertEqual(told["verdict"], "cannot be told apart: of 8 pairs 0 passed only in a, 0 only in b, p = 1;"
                                          " they are of 4 cases, and repeats of one case are not independent")
        self.assertEqual(rows(told["rates"], *told["rates"][0])[1:], [
            ["a", "4", "8", "0.500", "0.215", "0.785", "4", "2", "0", "2", "2"],
            ["b", "4", "8", "0.500", "0.215", "0.785", "4", "2", "0", "2", "2"]])
        self.assertEqual(rows(told["abstention"], *told["abstention"][0])[1:], [
            ["a", "there", "4", "2", "0"], ["a", "none", "2", "0", "0"],
            ["b", "there", "4", "1", "1"], ["b", "none", "2", "0", "0"]])
        cost = {(at["side"], at["outcome"]): at for at in told["cost"]}
        self.assertEqual([(key, at["trials"], at["model_calls"], at["reads"]) for key, at in cost.items()], [
            (("a", "pass"), 4, 1.0, 2.0), (("a", "incomplete"), 2, 1.0, 1.0), (("a", "fail"), 2, 1.0, 2.0),
            (("b", "pass"), 4, 4.5, 2.0), (("b", "fail"), 3, 3.0, 1.0), (("b", "incomplete"), 1, 5.0, 1.0)])
        prompts = sum(at["prompt_tokens"] * at["trials"] for at in cost.values())
        self.assertEqual(prompts, 30_044)
        json.dumps(told)

    def test_the_four_kinds_of_pair_and_the_verdict(self) -> None:
        """(outcomes of a, of b): the counts, and the beginning of the verdict."""
        for a, b, counts, verdict in (
            ("ppff", "pfpf", [1, 1, 1, 1], "cannot be told apart: of 4 pairs"),
            ("pppp", "pppp", [4, 0, 0, 0], "cannot be told apart: of 4 pairs"),
            ("ffff", "ffff", [0, 0, 0, 4], "cannot be told apart: of 4 pairs"),
            ("p", "f", [0, 1, 0, 0], "cannot be told apart: of 1 pairs 1 passed only in a, 0 only in b, p = 1;"),
            ("ppppp", "fffff", [0, 5, 0, 0], "cannot be told apart: of 5 pairs"),
            ("pppppp", "ffffff", [0, 6, 0, 0], "a passed more often: of 6 pairs 6 passed only in a, 0 only in b"),
            ("ffffff", "pppppp", [0, 0, 6, 0], "b passed more often: of 6 pairs 0 passed only in a, 6 only in b"),
            ("", "", [0, 0, 0, 0], "nothing to compare: of 0 pairs"),
        ):
            with self.subTest(a=a, b=b):
                words = {"p": "pass", "f": "fail"}
                sides = [[trial(words[at], f"case-{n}") for n, at in enumerate(side)] for side in (a, b)]
                told = compare(*sides)
                self.assertEqual(list(told["counts"].values()), counts)
                self.assertTrue(told["verdict"].startswith(verdict), told["verdict"])

    def test_what_cannot_be_paired_is_told(self) -> None:
        a = [trial("pass"), trial("pass", repeat=2), trial("not_measured", "b"), trial("ungraded", "c"),
             trial("fail", "d"), trial("pass", "d")]
        b = [trial("fail"), trial("pass", "b"), trial("pass", "c"), trial("pass", "e"), trial("", "d")]
        told = compare(a, b)
        self.assertEqual(sum(told["counts"].values()), 1)
        self.assertEqual(told["left_out"], [
            "d-1: a second time in a", "a-2: pass in a, absent in b", "b-1: not_measured in a, pass in b",
            "c-1: ungraded in a, pass in b", "d-1: fail in a, absent in b", "e-1: absent in a, pass in b"])
        self.assertEqual([(at["passed"], at["of"]) for at in told["rates"]], [(2, 3), (3, 4)])

    def test_what_was_not_measured_neither_answered_nor_stopped(self) -> None:
        away = trial("not_measured", "b") | {"result": {"status": "answered"}, "checks": {
            "outcome": "not_measured", "retrieval_targets_read": True}}
        told = compare([away], [trial("pass", "b")])
        ended = [sum(at[name] for name in ("answered", "stopped", "neither")) for at in told["abstention"]]
        self.assertEqual(ended[:2], [0, 0])

    def test_a_twentieth_is_the_limit_of_the_verdict(self) -> None:
        """13 of 17 discordant pairs: p = 0.049."""
        a = [trial("pass" if at < 13 else "fail", f"case-{at}") for at in range(17)]
        b = [trial("fail" if at < 13 else "pass", f"case-{at}") for at in range(17)]
        self.assertTrue(compare(a, b)["verdict"].startswith("a passed more often"))

    def test_two_recordings_are_paired_by_path_too(self) -> None:
        a = [trial("pass", mode="fixed"), trial("fail", mode="agent")]
        told = compare(a, copy.deepcopy(a))
        self.assertEqual(list(told["pairs"]), ["a-fixed-1", "a-agent-1"])
        self.assertEqual((told["counts"]["both"], told["counts"]["neither"]), (1, 1))
        told = compare(a[:1], [trial("pass", mode="agent")])
        self.assertEqual(list(told["pairs"]), ["a-1"])

    def test_a_case_passes_on_all_some_or_none_of_its_repeats(self) -> None:
        side = [trial("pass"), trial("pass", repeat=2), trial("pass", repeat=3), trial("pass", "b"),
                trial("fail", "b", 2), trial("fail", "c"), trial("not_measured", "d")]
        (rates, _) = compare(side, [])["rates"]
        self.assertEqual({name: rates[name] for name in ("passed", "of", "pass@1", "cases", "on all", "on some",
                                                         "on none", "repeats")},
                         {"passed": 4, "of": 6, "pass@1": 4 / 6, "cases": 3, "on all": 1, "on some": 1,
                          "on none": 1, "repeats": [1, 2, 3]})
        (_, none) = compare(side, [])["rates"]
        self.assertEqual([none[name] for name in ("passed", "of", "pass@1", "low", "high")], [0, 0, None, None, None])

    def test_costs_that_were_not_recorded_are_not_zero(self) -> None:
        a = [trial("pass"), trial("pass", "b", provider_usage=[None], elapsed_seconds=None)]
        (cost,) = compare(a, [])["cost"]
        self.assertEqual((cost["trials"], cost["reads"], cost["prompt_tokens"], cost["seconds"]), (2, 1.0, None, None))
        (cost,) = compare(a[:1], [])["cost"]
        self.assertEqual((cost["prompt_tokens"], cost["output_tokens"], cost["seconds"]), (10.0, 7.0, 2.0))

    def test_unequal_allowances_are_told(self) -> None:
        a, b = [trial("pass")], [trial("pass", result={"limits": {"reads": 5}})]
        self.assertIs(compare(a, b)["equal_allowance"], False)
        self.assertIs(compare(a, a)["equal_allowance"], True)

    def test_foreign_trials_break_nothing(self) -> None:
        scraps: list[dict[str, Any]] = [{}, {"case_id": 3}, {
            "result": None, "checks": [], "provider_usage": 5, "repeat": "x", "elapsed_seconds": "x", "mode": []}]
        for scrap in scraps:
            json.dumps(compare([scrap, trial("pass")], [scrap]))


class Regrading(unittest.TestCase):
    def cases(self, **changes: Any) -> dict[str, Any]:
        return {"cases": [case_entry(**changes)]}

    def test_both_grades_and_the_label_that_changed_are_shown(self) -> None:
        old = self.cases()
        stored = {"id": "boil-fixed-1", "case_id": "boil", "result": boiled(), **grade(*self.graded(old))}
        before = copy.deepcopy(stored)
        for changes, today, labels in (
            ({}, "pass", []), ({"answer_patterns": [r"\b99\b"]}, "fail", ["answer_patterns"]),
            ({"sources": ["pot"], "split": "held-out"}, "fail", ["split", "sources"]),
            ({"forbidden_patterns": None}, "pass", ["forbidden_patterns"]),
            ({"stale": {"pot": "old"}}, "pass", ["stale"]), ({"question": "When?"}, "another question", ["question"]),
            ({"version": "2.0"}, "another question", ["version"]),
            ({"id": "other"}, "no such case", ["id", "question", "version", "split", "sources", "answer_patterns",
                                               "forbidden_patterns"]),
        ):
            with self.subTest(changes):
                (told,) = regrade([stored], old, self.cases(**changes), PASSAGES, at_once)
                self.assertEqual((told["stored"], told["today"], told["labels"]), ("pass", today, labels))
        self.assertEqual(stored, before)
        changed = regrade([stored], old, self.cases(answer_patterns=[r"\b99\b"]), PASSAGES, at_once)
        self.assertEqual([at["finding"] for at in changed[0]["findings"]], ["pattern_missing"])
        self.assertEqual(rows(changed, "trial", "stored", "today", "labels"),
                         [["trial", "stored", "today", "labels"], ["boil-fixed-1", "pass", "fail", "answer_patterns"]])

    def graded(self, document: dict[str, Any]) -> tuple[Any, dict[str, Any], list[dict[str, Any]]]:
        return load_cases(document)[0], boiled(), PASSAGES

    def test_the_published_run_is_graded_today_as_then(self) -> None:
        with open(os.path.join(ROOT, "cases.json"), encoding="utf-8") as file:
            cases = json.load(file)
        told = regrade(published()["trials"], cases, cases, published_passages(), at_once)
        self.assertEqual([(at["stored"], at["labels"]) for at in told], [(at["today"], []) for at in told])
        self.assertEqual(len(told), 16)


if __name__ == "__main__":
    unittest.main()
