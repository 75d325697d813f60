"""The packing study: the printed table, its 24 executions, other budgets, and what no longer list can evict."""

import copy
import json
import os
import random
import unittest
from typing import Any

import evaluate
from evaluate import pack, size, study
from tests.support import ROOT

COLUMNS = ("arm", "retrieved current units", "packed current units", "packed ids, bytes",
           "correct control's contracts kept")
FILTERED = "top-5, filtered by version and source kind, exact duplicates removed"
ORACLE = "oracle evidence, same budget"
FLAGS = ("missing_evidence", "conflicting_evidence", "wrong_decision", "refused_attempt", "wrong_final_state")


def packing() -> dict[str, Any]:
    with open(os.path.join(ROOT, "recordings", "packing.json"), encoding="utf-8") as file:
        table: dict[str, Any] = json.load(file)
    return table


class Study(unittest.TestCase):
    def test_of_exact_copies_the_best_placed_stays_where_it_is(self) -> None:
        """The copy stands after the limit: what is left keeps the order of the ranking."""
        table = packing()
        known = {at["id"]: at for at in table["passages"]}
        order = ["window", "limit", "window-copy"]
        table["passages"] = [known[name] for name in order] + [at for at in known.values() if at["id"] not in order]
        filtered = study(table, 100, "rank")["arms"][2]
        self.assertTrue(filtered["packed ids, bytes"].startswith("window: "), filtered)

    def test_the_table_is_the_one_printed(self) -> None:
        studied = study(packing())
        self.assertEqual(evaluate.rows(studied["arms"], *COLUMNS), [
            list(COLUMNS),
            ["top-2, recency first", "1/2", "1/2", "window-copy, window: 141", "0/3"],
            ["top-5, recency first", "2/2", "0/2", "promo: 191", "0/3"],
            [FILTERED, "2/2", "2/2", "limit, window: 136", "3/3"],
            [ORACLE, "2/2", "2/2", "limit, window: 136", "3/3"]])
        self.assertEqual([at["skipped"] for at in studied["arms"]],
                         [{}, {"limit": 256, "window-copy": 261, "window": 261, "superseded": 252}, {}, {}])
        sizes = {at["id"]: len(at["text"].encode()) for at in packing()["passages"]}
        self.assertEqual(sizes | {"superseded": 47}, {"window": 67, "window-copy": 67, "limit": 62, "promo": 187,
                                                      "superseded": 47})
        self.assertGreaterEqual(sizes["superseded"], 47)

    def test_each_of_the_24_executions(self) -> None:
        """The decision and the flags of (control, request) where the evidence is: missing, window only, whole."""
        no_limit: tuple[Any, ...] = (["limit"], [], False, False)
        no_window: tuple[Any, ...] = (["window"], [], False, False)
        nothing: tuple[Any, ...] = (["window", "limit"], [], False, False)
        fine: tuple[Any, ...] = ([], [], False, False)
        excess: tuple[Any, ...] = ([], [], True, True)
        lacks = {"policy-control": no_limit, "ignore-limit": fine}
        requests = ("allowed", "outside the window", "above the maximum")
        expected = {}
        for arm in ("top-2, recency first", "top-5, recency first", FILTERED, ORACLE):
            for control in ("policy-control", "ignore-limit"):
                for request, right in zip(requests, ("pay", "decline", "decline"), strict=True):
                    decision, flags = right, fine
                    if arm.startswith("top-5, recency"):
                        decision, flags = "abstain", nothing if control == "policy-control" else no_window
                    elif arm.startswith("top-2"):
                        decision, flags = "abstain" if control == "policy-control" else right, lacks[control]
                    if request == requests[2] and control == "ignore-limit" and decision != "abstain":
                        decision, flags = "pay", excess
                    state = request == "allowed" and decision != "pay"
                    expected[arm, control, request] = (decision, *flags, state, decision == right)
        found = {(at["arm"], at["control"], at["request"]): (at["decision"], *(at[flag] for flag in FLAGS), at["kept"])
                 for at in study(packing())["executions"]}
        self.assertEqual(len(found), 24)
        self.assertEqual(found, expected)

    def test_conflicting_evidence_is_no_evidence(self) -> None:
        """With room for all, the old window and the new one are both given, and both controls abstain."""
        told = study(packing(), 1_000)
        top5 = [at for at in told["executions"] if at["arm"] == "top-5, recency first"]
        self.assertEqual([(at["decision"], at["conflicting_evidence"], at["missing_evidence"]) for at in top5],
                         [("abstain", ["window"], [])] * 6)
        self.assertEqual([at["packed current units"] for at in told["arms"]], ["1/2", "2/2", "2/2", "2/2"])

    def test_other_budgets_and_the_order_of_rank(self) -> None:
        told = study(packing(), 240, "rank")
        self.assertEqual([at["packed ids, bytes"] for at in told["arms"]],
                         ["window, window-copy: 141", "window, window-copy, superseded: 202", "window, limit: 136",
                          "window, limit: 136"])
        self.assertEqual(told["arms"][0]["arm"], "top-2, rank first")
        self.assertEqual([at["packed ids, bytes"] for at in study(packing(), 135)["arms"]],
                         ["window-copy: 71", "limit, superseded: 127", "limit: 66", "limit: 66"])
        self.assertEqual([at["packed ids, bytes"] for at in study(packing(), 2)["arms"]], [": 2"] * 4)
        for budget, cell in ((140, "window-copy: 71"), (141, "window-copy, window: 141")):
            self.assertEqual(study(packing(), budget)["arms"][0]["packed ids, bytes"], cell)
        for budget, order in ((1, "rank"), (-5, "recency"), (240, "newest")):
            with self.assertRaisesRegex(ValueError, "a number of bytes from 2, and recency or rank"):
                study(packing(), budget, order)

    def test_the_filter_knows_no_labels_and_the_oracle_does(self) -> None:
        table = copy.deepcopy(packing())
        table["labels"] = {"window": ["promo"], "limit": ["superseded"]}
        arms = study(table, 1_000)["arms"]
        self.assertEqual([at["packed ids, bytes"].partition(":")[0] for at in arms[2:]],
                         ["limit, window", "promo, superseded"])


class Packing(unittest.TestCase):
    def test_a_longer_list_in_rank_order_never_evicts_and_the_budget_holds(self) -> None:
        chance, recency_evicts = random.Random(20261201), 0
        letters = ["a", "\u00e9", "\u2615", "\U0001f36f", '"', "\\", "\n", "\x07"]
        for _ in range(300):
            ranked = [{"id": str(at), "published": chance.choice(["2026-01", "2026-02", "2026-03"]),
                       "text": "".join(chance.choices(letters, k=chance.randint(0, 30)))} for at in range(10)]
            budget, short = chance.randint(2, 300), chance.randint(0, 10)
            for order in ("rank", "recency"):
                few, many = (pack(ranked[:top], budget, order)[0] for top in (short, chance.randint(short, 10)))
                for packed in (few, many):
                    body = json.dumps([at["text"] for at in packed], ensure_ascii=False, separators=(",", ":"))
                    self.assertEqual(len(body.encode()), size([at["text"] for at in packed]))
                    self.assertLessEqual(len(body.encode()), budget)
                evicted = {at["id"] for at in few} - {at["id"] for at in many}
                recency_evicts += order == "recency" and bool(evicted)
                if order == "rank":
                    self.assertEqual(evicted, set())
        self.assertGreater(recency_evicts, 0)  # which is what reordering does

    def test_the_newest_comes_first_and_equal_ones_keep_their_rank(self) -> None:
        ranked = [{"id": name, "published": day, "text": ""} for name, day in (("a", "1"), ("b", "2"), ("c", "1"))]
        self.assertEqual([at["id"] for at in pack(ranked, 99, "recency")[0]], ["b", "a", "c"])


if __name__ == "__main__":
    unittest.main()
