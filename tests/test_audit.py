"""The citation audit: the worked report's ten fractions, the four states, what a moved date or span does, refusals."""

import copy
import json
import os
import random
import unittest
from typing import Any

from evaluate import CaseFaults, audit, rows, sha256_of
from tests.support import ROOT
from tests.test_evaluate import mutated

MEASURES = (
    ("citations that resolve / attempted", "3/4"),
    ("citations that entail / attempted", "2/4"),
    ("citations that entail / resolving", "2/3"),
    ("claims with a resolving citation", "3/5"),
    ("claims supported by their own citations", "2/5"),
    ("claims supported by current, applicable citations", "1/5"),
    ("required questions addressed", "4/5"),
    ("claims correct, under the original reference", "4/5"),
    ("claims correct, after the dated correction of that reference", "3/5"),
    ("required questions rightly answered after the correction", "3/5"),
)
RIGHT, UNSUPPORTED = "right and supported", "right without support"
STALE, WRONG = "wrong though faithful to stale evidence", "wrong and unsupported"


def worked() -> dict[str, Any]:
    with open(os.path.join(ROOT, "recordings", "audit.json"), encoding="utf-8") as file:
        document: dict[str, Any] = json.load(file)
    return document


def edited(*edits: tuple[str, Any]) -> dict[str, Any]:
    """The worked audit with some places changed, each named by its steps with slashes between; ... takes it away."""
    document = worked()
    for path, value in edits:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split("/")]
        place: Any = document
        for step in steps:
            place = place[step]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return document


class Worked(unittest.TestCase):
    def values(self, document: Any) -> list[str]:
        return [at["value"] for at in audit(document)["measures"]]

    def test_the_ten_fractions(self) -> None:
        audited = audit(worked())
        self.assertEqual(rows(audited["measures"], "measure", "value"), [["measure", "value"], *map(list, MEASURES)])
        self.assertEqual([f"{at['numerator']}/{at['denominator']}" for at in audited["measures"]],
                         [value for _, value in MEASURES])
        self.assertEqual(audited["moved"], {})
        self.assertNotIn("shipping-2024", worked()["sources"])  # which L4 cites, though there is one on shipping
        json.dumps(audited)

    def test_the_four_states_before_and_after_the_correction(self) -> None:
        self.assertEqual(rows(audit(worked())["claims"], "claim", "states"), [
            ["claim", "states"], ["thirty-days", f"{RIGHT}, {STALE}"], ["opened-items", f"{WRONG}, {WRONG}"],
            ["five-days", f"{RIGHT}, {RIGHT}"], ["free-shipping", f"{UNSUPPORTED}, {UNSUPPORTED}"],
            ["scope", f"{UNSUPPORTED}, {UNSUPPORTED}"]])

    def test_both_grades_are_kept_and_the_new_reference_names_the_old_one(self) -> None:
        document = worked()
        first, second = audit(document)["references"]
        self.assertEqual((first["dated"], first["sha256"], first.get("replaces")),
                         ("2026-09-07", sha256_of(document["reference"]), None))
        self.assertEqual((second["dated"], second["replaces"]), ("2026-09-10", first["sha256"]))
        self.assertEqual(document, worked())
        before = self.values(edited(("corrections", [])))
        self.assertEqual(before[:8], [value for _, value in MEASURES[:8]])
        self.assertEqual(before[8:], ["4/5", "3/5"])  # opened items belong to the same question as the 30 days

    def test_a_date_moved_by_a_day_changes_the_figures(self) -> None:
        """Of a source or of the task; the day on which it ends is not one of its days."""
        for path, day, value in (
            ("sources/payments/from", "2026-09-08", "0/5"), ("sources/payments/until", "2026-09-07", None),
            ("sources/payments/until", "2026-09-08", "1/5"), ("sources/returns-2025/until", "2026-09-07", "1/5"),
            ("sources/returns-2025/until", "2026-09-08", "2/5"), ("as_of", "2026-09-06", "0/5"),
            ("as_of", "2026-08-31", "1/5"),
        ):
            with self.subTest(path, day=day):
                document = edited((path, day))
                if value is None:
                    self.assertRaises(CaseFaults, audit, document)
                    continue
                expected = [told for _, told in MEASURES]
                expected[5] = value
                self.assertEqual(self.values(document), expected)

    def test_authority_decides_what_applies(self) -> None:
        document = edited(("sources/payments/authority", ["scope"]))
        self.assertEqual(self.values(document)[5], "0/5")

    def test_a_span_moved_by_one_changes_the_figures_and_is_named(self) -> None:
        """What was judged of that text does not count; nothing is trimmed to fit."""
        def moved(path: str, by: tuple[int, int]) -> dict[str, Any]:
            document = edited()
            place = document
            for step in path.split("/"):
                place = place[step]
            place["span"] = [at + more for at, more in zip(place["span"], by, strict=True)]
            return document

        for path, by, changed in (
            ("claims/five-days", (1, 1),
             {1: "1/4", 2: "1/3", 4: "1/5", 5: "0/5", 6: "3/5", 7: "3/5", 8: "2/5", 9: "2/5"}),
            ("claims/scope", (0, -1), {6: "3/5", 7: "3/5", 8: "2/5", 9: "2/5"}),
            ("citations/L2", (-1, 0), {0: "2/4", 1: "1/4", 2: "1/2", 3: "2/5", 4: "1/5", 5: "0/5"}),
            ("citations/L1/quote", (1, 0), {0: "2/4", 1: "1/4", 2: "1/2", 3: "2/5", 4: "1/5"}),
        ):
            with self.subTest(path):
                expected = dict(enumerate(value for _, value in MEASURES))
                audited = audit(moved(path, by))
                self.assertEqual(dict(enumerate(at["value"] for at in audited["measures"])), expected | changed)
                self.assertEqual(list(audited["moved"]), [path.partition("/")[2].replace("/", ".")])

    def test_spans_count_code_points(self) -> None:
        """The dash in the report's first line is one character and three bytes."""
        self.assertIn("\u2014", worked()["report"][:20])
        for claim in worked()["claims"].values():
            self.assertEqual(worked()["report"][slice(*claim["span"])], claim["text"])


class Refused(unittest.TestCase):
    def faults(self, document: Any) -> list[str]:
        with self.assertRaises(CaseFaults) as caught:
            audit(document)
        return caught.exception.faults

    def test_spans_that_are_none_are_refused_and_never_trimmed(self) -> None:
        long = len(worked()["report"])
        told = f"scope: a span is a start and a later end from 0 to {long}"
        self.assertEqual(self.faults(edited(("claims/scope/span", [-1, 5]))),
                         ["claims.scope.span[0]: not a whole number from 0 to 999999999"])
        for span in ([5, 5], [9, 5], [0, long + 1], [long, long + 1], [], [1], [1, 2, 3]):
            self.assertEqual(self.faults(edited(("claims/scope/span", span))), [told], span)
        for start in (1.0, True, "1", None):
            self.assertRegex(self.faults(edited(("claims/scope/span", [start, 2])))[0],
                             r"span\[0\]: expected a whole number")
        audit(edited(("claims/scope/span", [long - 5, long])))

    def test_a_quote_of_a_source_that_is_not_there_is_refused(self) -> None:
        faults = self.faults(edited(("citations/L1/source", "gone")))
        self.assertEqual(faults, ["L1.quote: a span is a start and a later end from 0 to 0"])

    def test_every_fault_is_told_at_once(self) -> None:
        document = edited(("claims/scope/question", "price"), ("citations/L1/claim", "gone"),
                          ("sources/shipping/authority", ["price"]), ("claims/scope/span", [3, 2]),
                          ("sources/returns-2025/until", "2025-03-01"), ("reference/correct/scope", ...))
        self.assertEqual(len(self.faults(document)), 8)
        text = "\n".join(self.faults(document))
        for part in ("scope: 'price' is not among the questions", "L1: 'gone' is not among the claims",
                     "shipping: 'price' is not among the questions", "scope: a span is",
                     "returns-2025: ends before it begins", "reference: 'scope' is no claim, or not judged"):
            self.assertIn(part, text)
        document = edited(("as_of", "2026-9-7"), ("citations/L1/entails", "yes"), ("sources/shipping/owner", "x"))
        self.assertEqual(self.faults(document), [
            "as_of: '2026-9-7' is not a date like 2026-09-07", "sources.shipping: unknown field 'owner'",
            "citations.L1.entails: expected a boolean, found a string"])

    def test_a_correction_changes_what_it_declares_and_nothing_else(self) -> None:
        told = "is changed and not declared, or declared and not changed"
        at, by = "corrections/0/", "corrections[0]: "
        first = sha256_of(worked()["reference"])
        rows: tuple[tuple[str, Any, str], ...] = (
            (f"{at}correct/scope", False, f"{by}'scope' {told}"), (f"{at}declared", [], f"{by}'thirty-days' {told}"),
            (f"{at}declared", ["thirty-days", "scope"], f"{by}'scope' {told}"),
            (f"{at}correct/thirty-days", True, f"{by}'thirty-days' {told}"),
            (f"{at}replaces", "0" * 64, f"{by}it must replace {first}, and not be of a day before 2026-09-07"),
            (f"{at}dated", "2026-09-06", f"{by}it must replace {first}, and not be of a day before 2026-09-07"),
            (f"{at}report", "Another.", "corrections[0]: unknown field 'report'"),
            (f"{at}reason", " ", "corrections[0].reason: ' ' is not a name"),
        )
        for path, value, line in rows:
            with self.subTest(path, value=value):
                self.assertEqual(self.faults(edited((path, value))), [line])
        faults = self.faults(edited(("reference/correct/scope", False)))  # an edit of the old reference, after the fact
        self.assertEqual(len(faults), 2)

    def test_a_second_correction_follows_the_first(self) -> None:
        document = worked()
        (first,) = document["corrections"]
        second = copy.deepcopy(first) | {"replaces": sha256_of(first), "declared": ["opened-items"]}
        second["correct"]["opened-items"] = True
        document["corrections"].append(second)
        audited = audit(document)
        self.assertEqual([at["right"] for at in audited["claims"]][:2], [[True, False, False], [False, False, True]])
        self.assertEqual(audited["measures"][8]["value"], "4/5")
        second["replaces"] = first["replaces"]
        self.assertEqual(len(self.faults(document)), 1)

    def test_nothing_json_can_hold_raises_anything_else(self) -> None:
        chance, told = random.Random(20261201), {True: 0, False: 0}
        for _ in range(500):
            document = mutated(chance, worked())
            try:
                audited = audit(document)
            except CaseFaults as faults:
                told[False] += 1
                for line in faults.faults:
                    self.assertTrue(line.isascii() and line.isprintable(), line)
            else:
                told[True] += 1
                json.dumps(audited)
        self.assertGreater(min(told.values()), 10, told)

    def test_names_are_of_one_thing_each(self) -> None:
        document = edited(("reference/correct/price", True), ("corrections", []))
        self.assertEqual(self.faults(document), ["reference: 'price' is no claim, or not judged"])
        document = edited(("citations/scope", worked()["citations"]["L1"]))
        self.assertEqual(self.faults(document), ["scope: both a claim and a citation"])

    def test_names_of_any_kind_are_told_in_ascii(self) -> None:
        for name in ("\u00e9\x1b[2J", "\ud800", "a\nb", "\u202e", ""):
            document = edited((f"claims/{name}", {"question": "price", "span": [0, 0], "text": "a"}))
            lines = self.faults(document)
            self.assertEqual(len(lines), 4)
            for line in lines:
                self.assertTrue(line.isascii() and line.isprintable(), line)

    def test_empty_parts_divide_by_nothing(self) -> None:
        document = edited(("citations", {}), ("claims", {}), ("questions", {}), ("sources", {}), ("corrections", []),
                          ("reference/correct", {}))
        self.assertEqual([at["value"] for at in audit(document)["measures"]], ["0/0"] * 10)


if __name__ == "__main__":
    unittest.main()
