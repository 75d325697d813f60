"""Ranking measures: the worked figures, the registered answers at the edges, agreement with others, judged files."""

import importlib
import json
import math
import random
import unittest
from typing import Any

import evaluate
from evaluate import CaseFaults, dcg, hit, judge, judge_searches, load_judged, mean, ndcg, precision, recall
from evaluate import reciprocal_rank as rr
from tests.test_evaluate import boiled, one_case

SEED = 20261201
RANKINGS = 2_000


def peer(name: str, package: str = "") -> Any:
    """A module that is not the standard library's, or the test that needs it skips."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise unittest.SkipTest(f"needs {name} ({package or name})") from None


class Worked(unittest.TestCase):
    def test_the_worked_figures(self) -> None:
        ranking, grades = ["x", "b", "c"], {"a": 3, "b": 2, "c": 1, "x": 0}
        self.assertEqual((hit(ranking, grades, 3), rr(ranking, grades, 3)), (1, 1 / 2))
        self.assertEqual((precision(ranking, grades, 3), recall(ranking, grades, 3)), (2 / 3, 2 / 3))
        self.assertEqual((f"{dcg([0, 2, 1]):.6f}", f"{dcg([3, 2, 1]):.6f}"), ("2.392789", "9.392789"))
        self.assertEqual(f"{ndcg(ranking, grades, 3):.6f}", "0.254747")

    def test_the_edges_have_registered_answers(self) -> None:
        """(ranking, grades, k): hit, precision, recall, reciprocal rank, nDCG."""
        one, none = {"a": 1}, {"a": 0, "b": -1}
        both = {"p4": 1, "p1": 1}
        rows: tuple[tuple[str, list[str], dict[str, int], int, tuple[float | None, ...]], ...] = (
            ("nothing relevant", ["a", "b"], none, 2, (0, 0, None, None, None)),
            ("nothing judged", ["a"], {}, 5, (0, 0, None, None, None)),
            ("nothing retrieved", [], one, 5, (0, 0, 0, 0, 0)),
            ("k larger than the list", ["a"], one, 4, (1, 1 / 4, 1, 1, 1)),
            ("a duplicate keeps its slot", ["p4", "p4", "p9", "p1"], both, 4, (1, 1 / 2, 1, 1, 0.877215)),
            ("a duplicate pushes out", ["p4", "p4", "p1"], both, 2, (1, 1 / 2, 1 / 2, 1, 0.613147)),
            ("the ideal is over all judged", ["x", "a"], {"a": 1, "b": 1}, 2, (1, 1 / 2, 1 / 2, 1 / 2, 0.386853)),
            ("the ideal is cut at k", ["a"], {"a": 1, "b": 1}, 1, (1, 1, 1 / 2, 1, 1)),
            ("past k does not count", ["x", "a"], one, 1, (0, 0, 0, 0, 0)),
            ("unjudged as 0", ["u", "a"], one, 2, (1, 1 / 2, 1, 1 / 2, 1 / math.log2(3))),
            ("below 0 is as 0", ["b", "a"], {"a": 1, "b": -2}, 2, (1, 1 / 2, 1, 1 / 2, 1 / math.log2(3))),
        )
        for name, ranking, grades, k, expected in rows:
            found = tuple(measure(ranking, grades, k) for measure in (hit, precision, recall, rr, ndcg))
            with self.subTest(name):
                self.assertEqual([at is None for at in expected], [at is None for at in found])
                for one_expected, one_found in zip(expected, found, strict=True):
                    self.assertAlmostEqual(one_expected or 0, one_found or 0, 6)
        for none_of_them in (0, -1, True, 1.0):
            for measure in evaluate.MEASURES.values():
                with self.assertRaisesRegex(ValueError, "not a whole number from 1"):
                    measure(["a"], one, none_of_them)

    def test_a_mean_says_over_how_many(self) -> None:
        self.assertEqual(mean([1.0, None, 0.0]), {"mean": 0.5, "over": 2, "of": 3})
        self.assertEqual(mean([None]), {"mean": None, "over": 0, "of": 1})
        self.assertEqual(mean([]), {"mean": None, "over": 0, "of": 0})

    def test_every_measure_lies_between_0_and_1(self) -> None:
        chance = random.Random(SEED)
        for _ in range(500):
            ranking = chance.choices("abcdefgh", k=chance.randint(0, 9))
            grades = {name: chance.randint(-2, 5) for name in chance.sample("abcdefgh", chance.randint(0, 8))}
            for name, measure in evaluate.MEASURES.items():
                value = measure(ranking, grades, chance.randint(1, 10))
                self.assertTrue(value is None or 0 <= value <= 1 + 1e-12, (name, ranking, grades))


class Agreement(unittest.TestCase):
    def test_measures_agree_with_trec_eval(self) -> None:
        """Distinct documents and scores, at least one relevant; its gain is linear, so it gets 2^grade - 1."""
        pytrec_eval = peer("pytrec_eval", "pytrec_eval-terrier")
        chance, most = random.Random(SEED), 0.0
        judged, gains, runs, rankings = {}, {}, {}, {}
        for number in range(RANKINGS):
            names = [f"d{at}" for at in range(chance.randint(1, 30))]
            grades = {name: chance.randint(0, 4) for name in chance.sample(names, chance.randint(1, len(names)))}
            grades[chance.choice(list(grades))] = chance.randint(1, 4)
            ranking = chance.sample(names, chance.randint(1, len(names)))
            judged[str(number)], rankings[str(number)] = grades, ranking
            gains[str(number)] = {name: 2**grade - 1 for name, grade in grades.items()}
            runs[str(number)] = {name: float(-at) for at, name in enumerate(ranking)}
        asked = {"success.1,5,10", "P.1,5,10", "recall.1,5,10", "recip_rank", "ndcg_cut.1,5,10"}
        theirs = pytrec_eval.RelevanceEvaluator(gains, asked).evaluate(runs)
        for number, found in theirs.items():
            ranking, grades = rankings[number], judged[number]
            for k in (1, 5, 10):
                for name, measure in (("success", hit), ("P", precision), ("recall", recall), ("ndcg_cut", ndcg)):
                    most = max(most, abs(found[f"{name}_{k}"] - float(measure(ranking, grades, k) or 0)))
            most = max(most, abs(found["recip_rank"] - float(rr(ranking, grades, len(ranking)) or 0)))
        self.assertEqual(len(theirs), RANKINGS)
        self.assertLess(most, 1e-9)


class Judged(unittest.TestCase):
    """Files of judged queries, and rankings against them."""

    def faults(self, document: Any) -> list[str]:
        with self.assertRaises(CaseFaults) as caught:
            load_judged(document)
        return caught.exception.faults

    def test_three_forms_are_read(self) -> None:
        own = {"queries": [{"id": "q1", "query": "hot water", "version": "1.0", "grades": {"kettle": 3, "pot": -1}},
                           {"id": "q2", "grades": {}}]}
        self.assertEqual(load_judged(own), [
            {"id": "q1", "query": "hot water", "version": "1.0", "grades": {"kettle": 3, "pot": -1}},
            {"id": "q2", "query": "", "version": "", "grades": {}}])
        asked = [{"id": "q1", "kind": "faq", "question": "Hot?", "version": "3.11",
                  "answers": [{"anchor": "a.html#b", "url": "https://example.org/a.html#b"}, {"anchor": "c.html#d"}]}]
        self.assertEqual(load_judged(asked), [
            {"id": "q1", "query": "Hot?", "version": "3.11", "grades": {"a.html#b": 1, "c.html#d": 1}}])
        qrels = "q1 0 kettle 3\r\nq2\tQ0\tpot\t-2\nq1 0 pot 0\nq1 0 pot 0\n"
        self.assertEqual(load_judged(qrels), [
            {"id": "q1", "query": "", "version": "", "grades": {"kettle": 3, "pot": 0}},
            {"id": "q2", "query": "", "version": "", "grades": {"pot": -2}}])

    def test_odd_lines_are_refused_by_their_number(self) -> None:
        text = "q1 0 kettle 3\nq1 0 kettle\nq1 0 pot 1.5\n\nq1 0 kettle 2\nq1 0 a b 1\nq1 0 cup 100\n"
        form = "is not 'query iteration passage grade'"
        self.assertEqual(self.faults(text), [
            f"line 2: 'q1 0 kettle' {form}", f"line 3: 'q1 0 pot 1.5' {form}", f"line 4: '' {form}",
            "line 5: 'kettle' has another grade for 'q1' already", f"line 6: 'q1 0 a b 1' {form}",
            f"line 7: 'q1 0 cup 100' {form}"])

    def test_every_fault_of_a_document_is_told(self) -> None:
        odd = {"id": "", "grades": {"a": 1.5, "b": True, "c": 100}}
        document = {"queries": [odd, {"query": 3, "grades": []}], "x": 1}
        self.assertEqual(self.faults(document), [
            "unknown field 'x'", "queries[0].id: '' is not a name",
            "queries[0].grades.a: expected a whole number, found a number",
            "queries[0].grades.b: expected a whole number, found a boolean",
            "queries[0].grades.c: not a whole number from -99 to 99",
            "queries[1].id: missing", "queries[1].query: expected a string, found a number",
            "queries[1].grades: expected an object, found a list"])
        self.assertEqual(self.faults({"queries": [{"id": "a", "grades": {}}] * 2}), ["'a': two queries of this id"])
        self.assertEqual(self.faults([{"id": "a", "question": "b", "answers": ["c"]}]),
                         ["[0].answers[0]: expected an object, found a string"])
        scraps: tuple[Any, ...] = (None, 3, {}, True)
        for scrap in scraps:
            self.assertTrue(self.faults(scrap))
        self.assertTrue(self.faults({"queries": [{"id": "a", "grades": {"b": 10**5_000}}]}))

    def test_a_passage_answers_by_its_id_its_part_or_an_alias(self) -> None:
        queries = load_judged({"queries": [{"id": "q", "grades": {"a#b": 1, "a#c": 1, "a#d~2": 1}}]})
        ranking = ["a#b~2", "a#z", "a#b", "a#d~2", "a#d~3"]
        told = judge(queries, {"q": ranking}, 5, True, {"a#z": ["a#y", "a#c"]})
        (query,) = told["queries"]
        self.assertEqual((query["recall"], query["precision"], query["unjudged"]), (1.0, 3 / 5, ["a#d~3"]))

    def test_what_is_unjudged_or_not_searched_is_told_and_no_zero(self) -> None:
        queries = load_judged({"queries": [
            {"id": "q1", "grades": {"a": 1}}, {"id": "q2", "grades": {"a": 0}}, {"id": "q3", "grades": {"a": 1}}]})
        rankings = {"q1": ["u", "a", "v"], "q2": ["a"]}
        told = judge(queries, rankings, 2, False, {})
        self.assertEqual([(at["why"], at["unjudged"], at["precision"]) for at in told["queries"]],
                         [("unjudged", ["u"], None), ("", [], 0.0), ("no ranking", [], None)])
        self.assertEqual(told["means"][1], {"measure": "precision@2", "mean": 0.0, "over": 1, "of": 3})
        told = judge(queries, rankings, 2, True, {})
        self.assertEqual([at["recall"] for at in told["queries"]], [1.0, None, None])
        self.assertEqual(evaluate.rows(told["queries"], "query", "hit", "recall", "unjudged", "why"), [
            ["query", "hit", "recall", "unjudged", "why"], ["q1", "1.000", "1.000", "u", ""],
            ["q2", "0.000", "-", "", ""], ["q3", "-", "-", "", "no ranking"]])
        self.assertEqual(evaluate.rows(told["means"], "measure", "mean", "over", "of")[1:3],
                         [["hit@2", "0.500", "2", "3"], ["precision@2", "0.250", "2", "3"]])

    def test_searches_of_trials_are_judged_by_their_labels(self) -> None:
        """A needed passage has grade 2, a useful one 1, any other 0."""
        result = boiled()
        result["observations"][0]["result"] = {"candidates": [{"source_id": "pot"}, {"source_id": "kettle"}]}
        trials: list[dict[str, Any]] = [{"id": "boil-fixed-1", "case_id": "boil", "result": result}]
        trials += [{"id": "x", "case_id": "gone"}, {}]
        found = judge_searches(trials, {"boil": one_case(useful=["pot"])}, 2)
        (search,) = found["queries"]
        self.assertEqual((search["query"], search["recall"]), ("boil-fixed-1 search 1", 1.0))
        self.assertAlmostEqual(search["ndcg"], dcg([1, 2]) / dcg([2, 1]))
        found = judge_searches(trials, {"boil": one_case(sources=[])}, 2)
        self.assertEqual([at["over"] for at in found["means"]], [1, 1, 0, 0, 0])
        self.assertEqual(judge_searches([], {}, 2)["means"][0], {"measure": "hit@2", "mean": None, "over": 0, "of": 0})
        json.dumps(found)


if __name__ == "__main__":
    unittest.main()
