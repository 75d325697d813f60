"""The commands that read and tell: compare, audit, study, search --judge, --regrade, review and --html.

What the numbers are is tested where they are computed (test_measures, test_audit, test_compare, test_study); here is
what a person gets: figures on the screen, exit codes, one line for a mistake, and that nothing stored is written to.
"""

import hashlib
import html.parser
import json
import os
import re
import shutil
from typing import Any

from tests.support import ROOT
from tests.test_live import Lab, Ran, read, write


class Desk(Lab):
    """A scratch copy of the kit; every test starts in its folder with the data of the studies."""

    def setUp(self) -> None:
        super().setUp()
        for name in ("audit.json", "packing.json", "viewer.html"):
            shutil.copy(os.path.join(ROOT, "recordings", name), self.path(name))
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)

    def lines(self, *argv: str, code: int = 0) -> list[str]:
        """What a command prints, each run of blanks as one."""
        ran = self.kit(*argv)
        self.assertEqual(ran.code, code, ran)
        return [re.sub(" +", " ", line) for line in ran.out.splitlines()]

    def copied(self, name: str) -> str:
        """A copy of the published recording with its own inputs, not sealed; its report can be edited."""
        shutil.copytree(self.path("published"), self.path(name))
        for file in ("cases.json", "snapshot.json"):
            shutil.copy(os.path.join(ROOT, file), self.path(name, file))
        os.remove(self.path(name, "SHA256SUMS"))
        return self.path(name, "report.json")

    def edit(self, path: str, change: Any) -> None:
        document = json.loads(read(path))
        change(document)
        write(json.dumps(document), path)

    def seal(self, name: str) -> None:
        """Write SHA256SUMS of a recording anew."""
        files = sorted(os.listdir(self.path(name)))
        sums = (f"{hashlib.sha256(read(self.path(name, file))).hexdigest()}  {file}\n" for file in files)
        write("".join(sums), self.path(name, "SHA256SUMS"))


class Compare(Desk):
    def test_the_two_paths_of_the_published_run_cannot_be_told_apart(self) -> None:
        lines = self.lines("compare", "published")
        for line in ("newline-version-1 incomplete fail", "a 4 8 0.500 0.215 0.785 4 2 0 2 2",
                     "pairs: 4 both, 0 only a, 0 only b, 4 neither", "allowances: equal"):
            self.assertIn(line, lines)
        self.assertRegex(lines[-1], "^cannot be told apart: of 8 pairs 0 passed only in a, 0 only in b, p = 1;")

    def test_two_recordings_are_paired_by_case_path_and_repeat(self) -> None:
        def spoil(report: dict[str, Any]) -> None:
            for trial in report["trials"]:
                if trial["checks"]["outcome"] == "pass":
                    trial["checks"]["outcome"] = "fail"
            report["trials"][0]["checks"]["outcome"] = "not_measured"

        self.edit(self.copied("spoiled"), spoil)
        self.seal("spoiled")
        lines = self.lines("compare", "published", "spoiled")
        self.assertIn("pairs: 0 both, 7 only a, 0 only b, 8 neither", lines)
        self.assertIn("left out: overwrite-fixed-1: pass in a, not_measured in b", lines)
        self.assertRegex(lines[-1], "^a passed more often: of 15 pairs 7 passed only in a, 0 only in b, p = 0.0156;")

    def test_an_edited_report_is_compared_and_told(self) -> None:
        self.copied("mine")
        self.seal("mine")
        self.edit(self.path("mine", "report.json"), lambda report: report["trials"].clear())
        for argv in (("compare", "mine"), ("compare", "published", "mine"), ("--regrade", "--recording", "mine")):
            with self.subTest(argv=argv):
                ran = self.kit(*argv)
                self.assertEqual(ran.code, 1, ran)
                self.assertIn("mine: report.json was edited after the run", ran.err)
        self.assertIn("nothing to compare: of 0 pairs", self.kit("compare", "mine").out)

    def test_the_searches_are_measured_beside_the_outcomes(self) -> None:
        lines = self.lines("compare", "published")
        self.assertIn("side measure mean over of", lines)
        self.assertTrue(any(re.fullmatch(r"a ndcg@2 1\.000 6 8", line) for line in lines), lines)

    def test_what_cannot_be_compared_is_one_line(self) -> None:
        os.remove(self.copied("begun"))
        for argv, words in (
            (("nowhere",), ("nowhere", "published")), (("published", "nowhere"), ("nowhere",)),
            (("begun",), ("begun", "--resume")), ((), ("A",)),
        ):
            with self.subTest(argv=argv):
                self.assert_refused(self.kit("compare", *argv), *words)


class Audit(Desk):
    MEASURES = ("3/4", "2/4", "2/3", "3/5", "2/5", "1/5", "4/5", "4/5", "3/5", "3/5")

    def test_the_worked_report_has_its_ten_fractions_and_its_states(self) -> None:
        lines = self.lines("audit", "recordings/audit.json")
        start = lines.index("measure value")
        self.assertEqual(tuple(line.split()[-1] for line in lines[start + 1 : start + 11]), self.MEASURES)
        self.assertTrue(any("wrong though faithful to stale evidence" in line for line in lines))

    def test_a_text_that_is_not_at_its_span_is_named_and_the_exit_code_says_so(self) -> None:
        def shift(document: dict[str, Any]) -> None:
            claim = next(iter(document["claims"].values()))
            claim["span"] = [at + 1 for at in claim["span"]]

        self.edit(self.path("audit.json"), shift)
        self.assertTrue(any(line.startswith("not at its span: ") for line in self.lines(
            "audit", "recordings/audit.json", code=1)))

    def test_all_faults_of_a_file_are_told_and_nothing_is_computed(self) -> None:
        def spoil(document: dict[str, Any]) -> None:
            document["as_of"] = "yesterday"
            next(iter(document["claims"].values()))["span"] = [-1, 4]

        self.edit(self.path("audit.json"), spoil)
        ran = self.kit("audit", "recordings/audit.json")
        self.assertEqual((ran.code, ran.out, len(ran.err.splitlines())), (2, "", 2), ran)
        self.assert_refused(self.kit("audit", "nowhere.json"), "nowhere.json")


class Study(Desk):
    def test_the_table_is_the_published_one(self) -> None:
        lines = self.lines("study", "packing")
        for line in ("top-2, recency first 1/2 1/2 window-copy, window: 141 0/3",
                     "top-5, recency first 2/2 0/2 promo: 191 0/3",
                     "oracle evidence, same budget 2/2 2/2 limit, window: 136 3/3",
                     "top-5, recency first: limit would have needed 256 bytes",
                     "top-5, recency first: window would have needed 261 bytes"):
            self.assertIn(line, lines)
        self.assertEqual(sum(line.startswith(("policy-control ", "ignore-limit ")) for line in lines), 24)
        self.assertIn("nothing is evicted", lines[-1])

    def test_it_is_computed_for_other_values(self) -> None:
        self.assertIn("top-5, recency first 2/2 1/2 promo, limit: 256 0/3",
                      self.lines("study", "packing", "--budget", "256"))
        self.assertIn("top-5, rank first 2/2 1/2", " ".join(self.lines("study", "packing", "--order", "rank")))
        for argv, words in (
            (("--budget", "1"), ("budget",)), (("--order", "size"), ("--order",)), (("--budget", "x"), ("--budget",)),
        ):
            with self.subTest(argv=argv):
                self.assert_refused(self.kit("study", "packing", *argv), *words)


class Judge(Desk):
    def test_judged_queries_are_measured_each_and_in_the_mean(self) -> None:
        write(json.dumps({"queries": [
            {"id": "one", "query": "overwritten", "version": "3.12", "grades": {"path-write": 2, "json-text": 0}},
            {"id": "two", "query": "zebra", "version": "3.12", "grades": {"path-write": 1}},
            {"id": "none", "query": "newline", "version": "3.13", "grades": {"path-read-3-13": 0}}]}), "judged.json")
        lines = self.lines("search", "--judge", "judged.json", "-k", "1")
        for line in ("one 1.000 1.000 1.000 1.000 1.000", "two 0.000 0.000 0.000 0.000 0.000",
                     "none 0.000 0.000 - - -"):
            self.assertIn(line, [at.strip() for at in lines])
        self.assertIn("ndcg@1 0.500 2 3", lines)
        told = json.loads(self.kit("search", "--judge", "judged.json", "--json").out)
        self.assertEqual((told["k"], len(told["queries"])), (10, 3))

    def test_qrels_of_one_query_take_its_words_from_the_command(self) -> None:
        write("q1 0 path-write 1\nq1 0 json-text 0\n", "one.qrels")
        lines = self.lines("search", "--judge", "one.qrels", "--version", "3.12", "existing", "file")
        self.assertIn("hit@10 1.000 1 1", lines)

    def test_qrels_of_several_queries_take_the_questions_of_cases(self) -> None:
        write("overwrite 0 path-write 1\nnewline-version 0 path-read-3-13 1\n", "two.qrels")
        lines = self.lines("search", "--judge", "two.qrels", "--cases", "cases.json")
        self.assertIn("hit@10 1.000 2 2", lines)

    def test_what_cannot_be_judged_is_told_by_line_or_field(self) -> None:
        write("q1 0 path-write 1\nq1 0 json-text\n", "odd.qrels")
        write("q1 0 path-write 1\nq2 0 path-write 1\n", "two.qrels")
        write(json.dumps({"queries": [{"id": "one", "query": "x", "grades": {"a": "high"}}]}), "odd.json")
        write(b"\xff", "bytes.qrels")
        for argv, words in (
            (("odd.qrels",), ("odd.qrels", "line 2")), (("two.qrels", "words"), ("q1", "no text")),
            (("odd.json",), ("odd.json", "queries[0].grades.a")), (("bytes.qrels",), ("bytes.qrels", "UTF-8")),
            (("nowhere.qrels",), ("nowhere.qrels",)),
        ):
            with self.subTest(argv=argv):
                self.assert_refused(self.kit("search", "--version", "3.12", "--judge", *argv), *words)


class Regrade(Desk):
    def test_both_grades_and_the_changed_label_are_shown_and_nothing_is_written(self) -> None:
        self.copied("mine")
        self.seal("mine")
        before = {name: read(self.path("mine", name)) for name in os.listdir(self.path("mine"))}
        cases = json.loads(read("cases.json"))
        cases["cases"][0]["answer_patterns"] = ["never said"]
        del cases["cases"][3]
        write(json.dumps(cases), "today.json")
        lines = self.lines("--regrade", "--recording", "mine", "--cases", "today.json")
        self.assertIn("overwrite-fixed-1 pass fail answer_patterns", lines)
        self.assertIn("serialize-and-save-agent-2 pass pass", [line.strip() for line in lines])
        self.assertTrue(any(line.startswith("unsupported-fixed-1 fail no such case") for line in lines), lines)
        self.assertEqual(
            lines[-1], "4 of 12 grades are others today; 4 trials have no grade of today; nothing was written")
        self.assertEqual({name: read(self.path("mine", name)) for name in os.listdir(self.path("mine"))}, before)
        for flag in (
            ("--case", "overwrite"), ("--mode", "fixed"), ("--repeat", "1"), ("--trace",), ("--html", "x.html"),
        ):
            with self.subTest(flag=flag):
                self.assert_refused(self.kit("--regrade", *flag), "--regrade", flag[0])
        told = json.loads(self.kit("--regrade", "--recording", "mine", "--cases", "today.json", "--json").out)
        self.assertEqual([at["labels"] for at in told][:1], [["answer_patterns"]])
        others = [{**cases["cases"][0], "id": "another"}]
        write(json.dumps({"cases": others}), "others.json")
        lines = self.lines("--regrade", "--recording", "mine", "--cases", "others.json")
        self.assertIn("none of these cases is in the cases file: --cases names theirs", lines)


class TimeOut(Desk):
    def test_a_pattern_that_searches_for_ever_leaves_its_trial_ungraded_and_the_others_graded(self) -> None:
        def first(report: dict[str, Any]) -> None:
            report["trials"] = [at for at in report["trials"] if at["mode"] == "fixed" and at["repeat"] == 1]

        self.edit(self.copied("mine"), first)
        cases = json.loads(read("cases.json"))
        cases["cases"][0]["answer_patterns"] = ["(?:[^z]+[^z]+)+z$"]
        write(json.dumps(cases), "slow.json")
        told = json.loads(self.kit("--regrade", "--recording", "mine", "--cases", "slow.json", "--json").out)
        today = {at["trial"]: at["today"] for at in told}
        self.assertEqual(today["overwrite-fixed-1"], "ungraded")
        self.assertEqual(today["serialize-and-save-fixed-1"], "pass")
        self.assertEqual({at["finding"] for one in told for at in one["findings"] if one["today"] == "ungraded"},
                         {"pattern_timed_out"})


class Review(Desk):
    def test_all_recordings_are_listed_and_what_to_look_at_is_said(self) -> None:
        os.remove(self.copied("begun"))
        shutil.copytree(self.path("published"), self.path("odd"))
        self.edit(self.path("odd", "report.json"), lambda report: report.update(model="another"))
        os.mkdir(self.path("empty"))
        lines = self.lines("review")
        self.assertIn("begun 2026-10-25T12:35:24 gemini-3.8-flash 0 of 16 not finished", lines)
        self.assertIn("published 2026-10-25T12:35:24 gemini-3.8-flash 16 of 16 whole", lines)
        self.assertIn("begun is not finished: python3 run.py --live --resume begun", lines)
        self.assertIn("published: newline-version-agent-1 asked for the same thing twice: duplicate_query", lines)
        for start in ("published: newline-version on the agent path contradicts itself: ",
                      "odd: report.json was edited", "empty cannot be read: "):
            self.assertTrue(any(line.startswith(start) for line in lines), start)

    def test_a_recording_with_nothing_to_say_gets_its_line_and_no_more(self) -> None:
        def calm(report: dict[str, Any]) -> None:
            report["trials"] = [at for at in report["trials"] if at["case_id"] == "overwrite"]

        self.edit(self.copied("calm"), calm)
        lines = self.lines("review")
        self.assertEqual([line for line in lines if "calm" in line and "SHA256SUMS" not in line][1:], [])


class Page(Desk):
    def filled(self, path: str) -> dict[str, Any]:
        """The document in a page, found as a browser finds it."""
        found: list[str] = []

        class Finder(html.parser.HTMLParser):
            inside = False

            def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
                self.inside = tag == "script" and dict(attrs).get("id") == "recording"

            def handle_endtag(self, tag: str) -> None:
                self.inside = False

            def handle_data(self, data: str) -> None:
                found.extend([data] * self.inside)

        Finder().feed(read(path).decode("utf-8"))
        self.assertEqual(len(found), 1)
        return dict(json.loads(found[0]))

    def test_the_page_holds_the_report_the_exchanges_the_questions_and_the_passages(self) -> None:
        ran = self.kit("--html", "lab.html")
        self.assertEqual((ran.code, ran.err), (0, ""))
        held = self.filled("lab.html")
        self.assertEqual(sorted(held), ["cases", "exchanges", "passages", "report"])
        self.assertEqual((len(held["exchanges"]), len(held["cases"]), len(held["passages"])), (80, 4, 4))
        self.assertEqual(held["report"]["summary"], json.loads(self.kit("--json").out)["summary"])
        self.assertEqual(sorted(held["cases"][0]), ["id", "question", "split", "version"])
        self.assertLess(os.path.getsize("lab.html"), 400_000)

    def test_only_a_page_that_the_kit_wrote_is_replaced(self) -> None:
        self.assertEqual(self.kit("--html", "lab.html", "--case", "overwrite").code, 0)
        small = os.path.getsize("lab.html")
        self.assertEqual(self.kit("--html", "lab.html").code, 0)
        self.assertGreater(os.path.getsize("lab.html"), small)
        write("my notes", "notes.html")
        os.mkdir("folder.html")
        os.symlink("nowhere", "link.html")
        for name in ("notes.html", "folder.html", "link.html"):
            with self.subTest(name):
                self.assert_refused(self.kit("--html", name), name)
        self.assertEqual(read("notes.html"), b"my notes")
        os.remove("link.html")

    def test_hostile_text_cannot_end_the_element(self) -> None:
        cases = json.loads(read("cases.json"))
        cases["cases"][0]["question"] += " </script><script>alert(1)</script><!-- \u2028"
        write(json.dumps(cases), "hostile.json")
        ran: Ran = self.kit("--html", "lab.html", "--cases", "hostile.json")
        self.assertEqual(ran.code, 1)
        self.assertEqual(self.filled("lab.html")["cases"][0]["question"], cases["cases"][0]["question"])
