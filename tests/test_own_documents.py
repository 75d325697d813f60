"""Own documents and questions, from a folder to a cited answer: what build, search, ask and own cases promise a person.

What a document becomes is test_documents' matter, how passages are ranked test_retrieval's; here are the commands: what
they print and write, what they leave alone, and that nothing of an old snapshot is lost whatever happens.
"""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import unittest
from typing import Any
from unittest import mock

import retrieval
from tests.support import ROOT, Heard, decision, environment
from tests.test_live import Lab, Ran, read, told, write

PAGE = """<html><head><title>{title} &mdash; Kettle 2.1</title></head><body><div role="navigation"><a href="x">Index</a>
</div><main><section id="{anchor}"><h1>{title}</h1><p>{text}</p></section></main></body></html>"""
BOIL = "The kettle boils a litre in four minutes. It stops by itself."
FILTER = "Rinse the filter every week. A blocked filter makes the kettle slow."
ANSWER = decision("answer", answer="Four minutes for a litre.", citations=[
    {"source_id": "boil.html#boiling", "quote": "boils a litre in four minutes"}])
LAST = re.compile(r"found (\d+) files = (\d+) used \+ (\d+) skipped \+ (\d+) refused; (\d+) passages; (\d+) duplicates")


def cook(heard: Heard) -> dict[str, Any]:
    """A model that searches, reads the first candidate and answers from it; it depends on the request alone."""
    first, *observed, _ = told(heard)
    if "search" not in first["actions"] or len(observed) == 2:
        return ANSWER
    return decision("read", source_id="boil.html#boiling") if observed else decision("search", query="boil a litre")


class Kitchen(Lab):
    """A folder of documents beside the kit; commands run with that folder's parent as the working directory."""

    def setUp(self) -> None:
        super().setUp()
        holder = tempfile.TemporaryDirectory(dir=self.holder)
        self.addCleanup(holder.cleanup)
        self.desk = os.path.realpath(holder.name)
        before = os.getcwd()
        os.chdir(self.desk)
        self.addCleanup(os.chdir, before)
        os.mkdir("docs")
        self.page("boil.html", "Boiling", "boiling", BOIL)
        self.page("filter.html", "The filter", "filter", FILTER)
        write("# Descaling\n\nCitric acid.\n\n## With vinegar\n\nVinegar works and smells.\n", "docs/scale.md")

    def page(self, name: str, title: str, anchor: str, text: str) -> None:
        write(PAGE.format(title=title, anchor=anchor, text=text), "docs", name)

    def build(self, *argv: str, out: str = "mine.sqlite", version: str = "2.1", path: str = "docs") -> Ran:
        return self.kit("build", path, "--version", version, "-o", out, *argv)

    def account(self, ran: Ran) -> tuple[int, ...]:
        """The numbers of the last line: found, used, skipped, refused, passages, duplicates."""
        found = LAST.fullmatch(ran.out.splitlines()[-1])
        assert found, ran
        numbers = tuple(map(int, found.groups()))
        self.assertEqual(numbers[0], sum(numbers[1:4]), "found = used + skipped + refused")
        return numbers

    def found(self, *argv: str) -> dict[str, Any]:
        ran = self.kit("search", *argv, "--json")
        self.assertEqual((ran.code, ran.err), (0, ""), ran)
        return dict(json.loads(ran.out))


class Build(Kitchen):
    def test_a_folder_becomes_a_snapshot_whose_addresses_are_told_and_found(self) -> None:
        for out in ("mine.sqlite", "mine.json"):
            with self.subTest(out):
                ran = self.build("--base-url", "https://kettle.invalid/2.1", out=out)
                self.assertEqual((ran.code, self.account(ran)), (0, (3, 3, 0, 0, 4, 0)), ran)
                found = self.found("boils litre", "--snapshot", out)
                self.assertEqual((found["profile"], found["version"], found["outcome"]), ("documents", "2.1", "found"))
                first = found["candidates"][0]
                self.assertEqual(first["url"], "https://kettle.invalid/2.1/boil.html#boiling")
                self.assertEqual((first["source_id"], first["rank"]), ("boil.html#boiling", 1))
                self.assertIn("Boiling", first["title"])
                self.assertIn("boils a litre", first["snippet"])
        self.assertEqual(
            self.kit("search", "vinegar", "--snapshot", "mine.json").out,
            self.kit("search", "vinegar", "--snapshot", "mine.sqlite").out)

    def test_the_same_input_gives_the_same_bytes_wherever_it_lies(self) -> None:
        for out in ("mine.sqlite", "mine.json"):
            with self.subTest(out):
                self.build(out=out)
                shutil.copytree("docs", "elsewhere/docs")
                self.build(out="again." + out, path="elsewhere/docs")
                self.assertEqual(read(out), read("again." + out))
                shutil.rmtree("elsewhere")

    def test_a_version_is_added_replaced_only_when_asked_and_the_others_stay(self) -> None:
        for out in ("mine.sqlite", "mine.json"):
            with self.subTest(out):
                self.build(out=out)
                self.page("boil.html", "Boiling", "boiling", "The new kettle boils a litre in two minutes.")
                self.assertEqual(self.build(out=out, version="3").code, 0)
                old = self.found("litre", "--snapshot", out, "--version", "2.1")["candidates"][0]["snippet"]
                new = self.found("litre", "--snapshot", out, "--version", "3")["candidates"][0]["snippet"]
                self.assertIn("four minutes", old)
                self.assertIn("two minutes", new)
                self.assert_refused(self.kit("search", "litre", "--snapshot", out), "--version", "2.1, 3")
                before = read(out)
                self.assert_refused(self.build(out=out), "2.1", "--replace")
                self.assertEqual(read(out), before)
                self.assertEqual(self.build("--replace", out=out).code, 0)
                again = self.found("litre", "--snapshot", out, "--version", "2.1")["candidates"][0]["snippet"]
                self.assertIn("two minutes", again)
                self.page("boil.html", "Boiling", "boiling", BOIL)

    def test_odd_files_are_skipped_or_refused_by_name_and_the_others_are_built(self) -> None:
        os.symlink("boil.html", "docs/link.html")
        os.symlink(".", "docs/loop")
        os.mkfifo("docs/pipe.html")
        write("\u00fcber".encode("latin-1") * 3, "docs/old.txt")
        write(b"a\0b", "docs/nul.md")
        write(b"\x89PNG", "docs/picture.png")
        with open("docs/huge.html", "wb") as file:
            file.truncate(32 * 1024 * 1024 + 1)
        ran = self.build()
        self.assertEqual((ran.code, self.account(ran)[:4]), (1, (10, 3, 4, 3)), ran)
        lines = ran.err.splitlines()
        for name, became, why in (
            ("link.html", "skipped", "symbolic link"), ("loop", "skipped", "symbolic link"),
            ("pipe.html", "skipped", "ordinary"), ("picture.png", "skipped", ""),
            ("old.txt", "refused", "UTF-8"), ("nul.md", "refused", "U+0000"),
            ("huge.html", "refused", "32"),
        ):
            with self.subTest(name):
                line, = (line for line in lines if os.path.join("docs", name) in line)
                self.assertIn(became, line)
                self.assertIn(why, line)
        self.assertEqual(len(lines), 7)
        self.assertEqual(self.build("--replace", "--encoding", "latin-1", path="docs/old.txt").code, 0)
        self.assertEqual(self.found("\u00fcber\u00fcber\u00fcber", "--snapshot", "mine.sqlite")["outcome"], "found")

    def test_what_cannot_be_built_is_one_line_and_nothing_is_written(self) -> None:
        write("not a snapshot", "mine.json")
        write(b"not one either", "bad.sqlite")
        os.mkdir("folder.json")
        os.mkdir("empty")
        before = sorted(os.listdir())
        for argv, words in (
            (("docs", "--version", "2.1", "-o", "mine.txt"), (".json", ".sqlite")),
            (("docs", "--version", "two", "-o", "new.json"), ("version", "two")),
            (("nowhere", "--version", "2.1", "-o", "new.json"), ("nowhere",)),
            (("empty", "--version", "2.1", "-o", "new.json"), ("no document",)),
            (("docs", "--version", "2.1", "-o", "mine.json"), ("mine.json",)),
            (("docs", "--version", "2.1", "-o", "bad.sqlite"), ("bad.sqlite",)),
            (("docs", "--version", "2.1", "-o", "folder.json"), ("folder.json",)),
            (("docs", "--version", "2.1", "-o", "nowhere/new.json"), ("nowhere",)),
            (("docs", "docs", "--version", "2.1", "-o", "new.json"), ("boil.html",)),
            (("docs", "--version", "2.1", "--encoding", "nonsense", "-o", "new.json"), ("nonsense",)),
            (("docs", "--version", "2.1", "--base-url", "javascript:x", "-o", "new.json"), ("base-url",)),
            (("docs", "--version", "2.1", "--base-url", "https://x/#y", "-o", "new.json"), ("base-url",)),
            (("docs", "--version", "2.1", "-o", "a\0b.json"), ("null",)),
            (("docs", "-o", "new.json"), ("--version",)), (("--version", "1", "-o", "new.json"), ("PATH",)),
        ):
            with self.subTest(argv=argv):
                ran = self.kit("build", *argv)
                self.assertEqual(ran.code, 2, ran)
                for word in words:
                    self.assertIn(word, ran.err.splitlines()[-1])
                self.assertEqual((sorted(os.listdir()), read("mine.json")), (before, b"not a snapshot"))

    def test_a_build_that_is_killed_or_finds_the_disk_full_leaves_the_old_snapshot(self) -> None:
        """It cannot end before: it names more skipped files than a pipe holds that nobody reads."""
        self.build()
        before, listed = read("mine.sqlite"), sorted(os.listdir())
        for number in range(3000):
            self.page(f"more-{number}.html", f"More {number}", "more", f"Page {number}. " + "Some words. " * 60)
        pictures = [os.path.join("docs", f"more-2{number:04}-{'x' * 40}.png") for number in range(2000)]
        for picture in pictures:
            write(b"", picture)
        flags = ("--version", "2.1", "--replace", "-o", "mine.sqlite")
        argv = [sys.executable, os.path.join(ROOT, "run.py"), "build", "docs", *flags]
        env, pipe = environment(self.holder), subprocess.PIPE
        for end in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(end=end.name), subprocess.Popen(argv, env=env, stderr=pipe, stdout=pipe) as child:
                self.assertTrue(child.stderr and select.select([child.stderr], [], [], 60)[0], "it has not begun")
                child.send_signal(end)
                _, err = child.communicate(timeout=30)
                self.assertEqual(read("mine.sqlite"), before)
                if end is not signal.SIGKILL:
                    self.assertEqual(child.returncode, 128 + end, err)
                    self.assertEqual(sorted(os.listdir()), listed)
        for picture in pictures:
            os.remove(picture)
        limited = ["sh", "-c", 'ulimit -f 100; exec "$@"', "sh", *argv]
        full = subprocess.run(limited, env=env, capture_output=True, check=False)
        self.assertEqual((full.returncode, len(full.stderr.splitlines())), (2, 1), full)
        self.assertEqual(read("mine.sqlite"), before)

    def test_what_cannot_be_reached_is_refused_and_hidden_folders_are_skipped(self) -> None:
        deep = "docs"
        for _ in range(60):
            deep = os.path.join(deep, "d" * 60)
        with contextlib.suppress(OSError):  # the last of them are too long for one path
            os.makedirs(deep)
        os.mkdir("docs/.git")
        write("# Hidden", "docs/.git/config.md")
        os.makedirs("many")
        self.addCleanup(subprocess.run, ["rm", "-rf", os.path.abspath("many")], check=True)  # rmtree would recurse
        before = os.getcwd()
        os.chdir("many")
        for _ in range(1200):
            os.mkdir("d")
            os.chdir("d")
        write("# Deep\n\nDown here.", "a.md")
        os.chdir(before)
        ran = self.build()
        self.assertIn("skipped: docs/.git: a hidden folder", ran.err)
        self.assertEqual(self.account(ran)[1], 3)
        deepest = self.build(path="many", out="deep.json")
        self.assertEqual((deepest.code, self.account(deepest)[:2]), (0, (1, 1)), deepest.err)
        for mode, code in ((0o000, 1), (0o755, 0)):
            os.chmod("docs/.git", mode)
            os.rename("docs/.git", "docs/git")
            ran = self.build("--replace")
            os.rename("docs/git", "docs/.git")
            if os.geteuid():
                self.assertEqual(ran.code, code, ran)

    def test_a_path_that_is_not_there_stops_the_build(self) -> None:
        ran = self.kit("build", "docs", "nowhere", "--version", "1", "-o", "new.json")
        self.assert_refused(ran, "nowhere: no such file or folder")
        self.assertFalse(os.path.lexists("new.json"))

    def test_permissions_and_links_stay_and_what_is_read_only_is_not_replaced(self) -> None:
        self.build(out="real.sqlite")
        os.chmod("real.sqlite", 0o640)
        os.symlink("real.sqlite", "link.sqlite")
        self.assertEqual(self.build(out="link.sqlite", version="3").code, 0)
        self.assertTrue(os.path.islink("link.sqlite"))
        self.assertEqual(stat.S_IMODE(os.stat("real.sqlite").st_mode), 0o640)
        self.assertEqual(self.found("litre", "--snapshot", "real.sqlite", "--version", "3")["outcome"], "found")

    @unittest.skipUnless(hasattr(os, "mkfifo"), "needs named pipes")
    def test_what_is_no_ordinary_file_is_no_snapshot_to_write(self) -> None:
        """A pipe nobody writes to, a link to nothing, a folder; and there must be a folder to write in."""
        os.mkfifo("pipe.json")
        os.symlink("nowhere", "link.sqlite")
        os.mkdir("folder.json")
        for out, why in (("pipe.json", "no ordinary file"), ("link.sqlite", "no ordinary file"),
                         ("folder.json", "no ordinary file"), ("none/x.json", "its folder is not there")):
            with self.subTest(out=out):
                self.assert_refused(self.build(out=out), out, why)

    def test_a_snapshot_that_another_build_changed_is_not_overwritten(self) -> None:
        self.build()
        before, create = read("mine.sqlite"), retrieval.create_store

        def slow(part: str, *args: Any) -> None:
            os.rename("mine.sqlite", "moved.sqlite")
            write(before, "mine.sqlite")
            create(part, *args)

        with mock.patch("retrieval.create_store", slow):
            self.assert_refused(self.build(version="3"), "mine.sqlite", "changed by another")
        self.assertEqual(read("mine.sqlite"), before)

    def test_a_reader_that_has_seen_enough_does_not_hide_that_the_snapshot_was_written(self) -> None:
        argv = [sys.executable, os.path.join(ROOT, "run.py"), "build", "docs", "--version", "1", "-o", "new.json"]
        reader, writer = os.pipe()
        os.close(reader)
        child = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, env=environment(self.holder), check=False)
        os.close(writer)
        self.assertEqual((child.stderr, os.path.isfile("new.json")), (b"", True))
        self.assertNotEqual(child.returncode, 2)

    def test_recordings_are_not_built_into(self) -> None:
        before = read(self.path("published", "manifest.json"))
        for name in ("snapshot.json", "manifest.json", "new.sqlite"):
            with self.subTest(name):
                self.assert_refused(self.build(out=self.path("published", name)), "recordings")
        self.assertEqual(read(self.path("published", "manifest.json")), before)

    def test_a_snapshot_in_use_is_not_written_to(self) -> None:
        self.build()
        before = read("mine.sqlite"), os.stat("mine.sqlite").st_mtime_ns, sorted(os.listdir())
        os.chmod("mine.sqlite", stat.S_IRUSR)
        self.found("kettle", "--snapshot", "mine.sqlite")
        self.assertEqual((read("mine.sqlite"), os.stat("mine.sqlite").st_mtime_ns, sorted(os.listdir())), before)


class Search(Kitchen):
    def test_the_matched_words_the_address_and_the_version_are_shown(self) -> None:
        self.build("--base-url", "https://kettle.invalid")
        ran = self.kit("search", "filters", "--snapshot", "mine.sqlite", "-k", "1")
        self.assertEqual(ran.code, 0, ran)
        for words in ("The filter", "[filter]", "https://kettle.invalid/filter.html#filter", "2.1"):
            self.assertIn(words, ran.out)

    def test_the_three_outcomes_are_told_apart(self) -> None:
        self.build()
        for query, outcome, words in (
            ("litre", "found", "Boiling"), ("zebra", "nothing_matched", "nothing matched"),
            ("?!", "no_searchable_term", "no searchable term"),
        ):
            with self.subTest(query):
                found = self.found(query, "--snapshot", "mine.sqlite")
                self.assertEqual((found["outcome"], bool(found["candidates"])), (outcome, outcome == "found"))
                self.assertIn(words, self.kit("search", query, "--snapshot", "mine.sqlite").out)

    def test_what_cannot_be_searched_is_one_line(self) -> None:
        self.build()
        data = read("mine.sqlite")
        write(data[: len(data) // 2], "half.sqlite")
        write("text", "text.sqlite")
        with contextlib.closing(sqlite3.connect("other.sqlite")) as other:
            other.execute("CREATE TABLE passage (text)")
        for argv, words in (
            ((" ", "--snapshot", "mine.sqlite"), ("blank",)),
            (("x" * 2001, "--snapshot", "mine.sqlite"), ("2000", "2001")),
            (("x", "--snapshot", "mine.sqlite", "--version", "9"), ("9", "2.1")), (("x",), ("--version", "3.12, 3.13")),
            (("x", "--version", "3.12", "-k", "0"), ("0", "100")), (("x", "--version", "3.12", "-k", "101"), ("100",)),
            *((("x", "--snapshot", f"{name}.sqlite"), (f"{name}.sqlite",)) for name in (
                "nowhere", "half", "text", "other")),
        ):
            with self.subTest(argv=[at[:20] for at in argv]):
                self.assert_refused(self.kit("search", *argv), *words)


class Ask(Kitchen):
    def setUp(self) -> None:
        super().setUp()
        self.build("--base-url", "https://kettle.invalid")

    def ask(self, *argv: str, question: str = "How long does a litre take?") -> Ran:
        return self.kit("ask", question, "--snapshot", "mine.sqlite", "--name", "mine", *argv)

    def test_the_plan_comes_first_and_sends_nothing(self) -> None:
        gemini = self.gemini([])
        ran = self.ask()
        self.assertEqual((ran.code, gemini.heard, os.path.lexists(self.path("mine"))), (0, [], False))
        self.assertIn("5 candidates a search", ran.plan["trials"])
        self.assertEqual(json.loads(ran.plan["limits"])["reads"], 6)
        self.assertEqual(json.loads(ran.plan["limits"])["source_bytes"], 8192)
        self.assertEqual(ran.plan["modes"], "agent")

    def test_an_answer_has_numbered_citations_with_quote_title_and_address(self) -> None:
        for mode in ("agent", "fixed"):
            with self.subTest(mode):
                self.clear()
                self.gemini(cook)
                ran = self.ask("--execute-approved", "--mode", mode)
                self.assertEqual(ran.code, 0, ran)
                for words in ("answer: Four minutes for a litre.", "[1] Boiling", '"boils a litre in four minutes"',
                              "https://kettle.invalid/boil.html#boiling"):
                    self.assertIn(words, ran.out)
                trial, = self.report()["trials"]
                self.assertEqual((trial["checks"]["outcome"], trial["mode"]), ("ungraded", mode))
                self.assert_replays()
                self.assertIn("documents profile", self.kit("--recording", "mine", "--trace").out)

    def test_without_an_answer_the_reason_and_what_was_tried_are_told(self) -> None:
        self.gemini([decision("search", query="warranty"), decision("stop", assessment="Nothing says so.")])
        ran = self.ask("--execute-approved", question="How long is the warranty?")
        self.assertEqual(ran.code, 0, ran)
        for words in ("no answer: model_stopped", "Nothing says so.", "search: warranty: nothing matched"):
            self.assertIn(words, ran.out)

    def test_a_run_that_stops_keeps_what_it_has_and_says_how_to_go_on(self) -> None:
        heard: list[Heard] = []

        def once_away(at: Heard) -> dict[str, Any] | None:
            heard.append(at)
            return cook(at) if len(heard) > 1 else None

        self.gemini(once_away)
        ran = self.ask("--execute-approved")
        self.assertEqual(ran.code, 0, ran)
        for words in ("no answer: model_transport_failed", "0 of 1 measured", "--live --resume mine --retry-faults"):
            self.assertIn(words, ran.out)
        self.assertEqual(self.resume("--retry-faults", "--max-requests", "20").code, 0)
        trial, = self.report()["trials"]
        self.assertEqual((trial["result"]["status"], trial["checks"]["outcome"]), ("answered", "ungraded"))

    def test_what_cannot_be_asked_is_one_line_and_nothing_is_sent(self) -> None:
        gemini = self.gemini([])
        self.build(version="3")
        for argv, words in (
            ((), ("--version", "2.1, 3")), (("--version", "9"), ("9", "2.1, 3")),
            (("--version", "3", "--candidates", "11"), ("candidates",)),
            (("--version", "3", "--resume", "x"), ("--resume",)),
        ):
            with self.subTest(argv=argv):
                self.assert_refused(self.ask("--execute-approved", *argv), *words)
        for question in ("", "x" * 513, "a\nb"):
            with self.subTest(question=question[:9]):
                self.assert_refused(self.ask("--version", "3", "--execute-approved", question=question), "question")
        self.assertEqual((gemini.heard, os.path.lexists(self.path("mine"))), ([], False))

    def test_a_large_snapshot_is_named_by_path_and_hash_and_a_change_of_it_is_noticed(self) -> None:
        self.gemini(cook)
        self.assertEqual(self.ask("--execute-approved").code, 0)
        named = json.loads(read(self.path("mine", "snapshot.json")))
        self.assertEqual(named["path"], os.path.abspath("mine.sqlite"))
        self.assertRegex(named["sha256"], "^[0-9a-f]{64}$")
        os.rename("mine.sqlite", "moved.sqlite")
        self.assert_refused(self.kit("--recording", "mine"), "mine.sqlite", "--snapshot")
        ran = self.kit("--recording", "mine", "--snapshot", "moved.sqlite")
        self.assertEqual((ran.code, ran.err), (0, ""), ran)
        self.page("boil.html", "Boiling", "boiling", BOIL.replace("four", "five"))
        self.build()
        ran = self.kit("--recording", "mine")
        self.assertEqual(ran.code, 1, ran)
        self.assertIn("snapshot", ran.err)
        self.assertEqual(self.kit("doctor").code, 0)


    def test_an_empty_name_of_a_run_or_a_file_is_a_mistake_and_starts_nothing(self) -> None:
        gemini = self.gemini([])
        for argv in (("--live", "--resume", "", "--execute-approved"), ("--cases", ""), ("--snapshot", ""),
                     ("search", "x", "--judge", ""), ("--html", "")):
            with self.subTest(argv=argv):
                self.assertEqual(self.kit(*argv).code, 2)
        self.assertEqual((gemini.heard, os.listdir(self.path())), ([], ["published"]))

    def test_a_recording_that_cannot_be_made_leaves_no_folder(self) -> None:
        self.gemini([])
        odd = os.fsdecode(b"nu\xff.sqlite")
        os.rename("mine.sqlite", odd)
        ran = self.kit("ask", "why?", "--snapshot", odd, "--name", "odd", "--execute-approved")
        self.assertEqual(ran.code, 2, ran)
        self.assertFalse(os.path.lexists(self.path("odd")))
        for raised in (OSError(28, "No space left on device"), KeyboardInterrupt()):
            with self.subTest(raised), mock.patch("os.fsync", side_effect=raised):
                ran = self.kit("ask", "why?", "--name", "mine", "--version", "3.12", "--execute-approved")
                self.assertIn(ran.code, (2, 130), ran)
                self.assertFalse(os.path.lexists(self.path("mine")))

    def test_a_snapshot_that_goes_away_during_a_run_stops_it_with_a_way_to_go_on(self) -> None:
        def takes(heard: Heard) -> dict[str, Any]:
            with contextlib.suppress(FileNotFoundError):
                os.rename("mine.sqlite", "away.sqlite")
            return cook(heard)

        self.gemini(takes)
        ran = self.ask("--execute-approved")
        self.assertEqual(ran.code, 3, ran)
        self.assertIn("--live --resume mine", ran.err)
        os.rename("away.sqlite", "mine.sqlite")
        self.assertEqual(self.resume().code, 0)
        self.assertEqual(self.report()["trials"][0]["result"]["status"], "answered")


class OwnCases(Kitchen):
    def setUp(self) -> None:
        super().setUp()
        self.build("--base-url", "https://kettle.invalid")
        case = {"id": "litre", "question": "How long does a litre take?", "version": "2.1", "split": "development",
                "evidence_sets": [["filter.html#filter", "boil.html#boiling"], ["boil.html#boiling"]],
                "answer_patterns": [r"\bfour minutes"]}
        write(json.dumps({"cases": [case]}), "cases.json")
        self.case = case

    def both(self) -> tuple[str, ...]:
        return ("--cases", "cases.json", "--snapshot", "mine.sqlite")

    def test_two_paths_are_compared_on_own_cases_over_own_documents(self) -> None:
        checked = self.kit("check", *self.both()).out.splitlines()
        self.assertEqual(checked, ["1 cases, 4 passages", "0 faults, 0 weak labels"])
        self.gemini(cook)
        ran = self.live(*self.both(), "--repeats", "1")
        self.assertEqual(ran.code, 0, ran)
        outcomes = {at["mode"]: at["checks"]["outcome"] for at in self.report()["trials"]}
        self.assertEqual(outcomes, {"fixed": "pass", "agent": "pass"})
        body = [at for at in self.events() if at["event"] == "request"][-1]["request"]
        self.assertIn('{"source_id":"boil.html#boiling","title":"Boiling', body["contents"][0]["parts"][0]["text"])
        self.assert_replays()

    def test_faults_of_labels_are_told_by_case_and_field_before_anything_is_sent(self) -> None:
        gemini = self.gemini([])
        for changed, words in (
            ({"version": "9"}, ("case 'litre'", "version 9", "2.1")),
            ({"evidence_sets": [["nothing.html#x"]]}, ("case 'litre'", "nothing.html#x")),
            ({"evidence_sets": [], "answer_patterns": ["("]}, ("case 'litre'", "evidence_sets", "answer_patterns")),
        ):
            with self.subTest(changed=changed):
                write(json.dumps({"cases": [{**self.case, **changed}]}), "cases.json")
                ran = self.live(*self.both())
                self.assertEqual(ran.code, 2, ran)
                for word in words:
                    self.assertIn(word, ran.err)
        self.assertEqual(gemini.heard, [])

    def test_candidates_can_be_1_to_10_and_the_fixed_path_asks_for_no_more_than_it_may_read(self) -> None:
        self.gemini(cook)
        self.live(*self.both(), "--mode", "fixed", "--repeats", "1", "--candidates", "10", "--limit", "reads=1")
        result = self.report()["trials"][0]["result"]
        self.assertEqual((len(result["observations"]), result["usage"]["reads"], result["status"]), (2, 1, "answered"))

    def test_a_recording_replays_with_other_cases_and_says_what_changed(self) -> None:
        self.gemini(cook)
        self.live(*self.both(), "--repeats", "1")
        write(json.dumps({"cases": [{**self.case, "answer_patterns": ["never"]}]}), "other.json")
        ran = self.kit("--recording", "mine", "--cases", "other.json")
        self.assertEqual(ran.code, 1, ran)
        self.assertIn("cases", ran.err)


if __name__ == "__main__":
    unittest.main()
