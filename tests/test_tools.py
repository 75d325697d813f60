"""What the two tools hand on, and that they hand on nothing that is not what was found."""

import copy
import hashlib
import inspect
import json
import os
import random
import unicodedata
import unittest
from typing import Any
from unittest import mock

import agent
from agent import Fault, Handle, Reason
from retrieval import Index, Passage, Snapshot
from tests.support import ROOT, decision
from tools import Toolbox, _plain, broken_seals, check_manifest, paragraphs, step_lines, trial_lines, width

GULL = "A gull \u2013 grey-winged \u2013 said \u201ccafé\u201d twice.\nIt didn\u2019t stay at 5\xa0knots."
PLAIN = "The ferry leaves at noon. The ferry does not wait, and the ferry never returns."


def passage(source_id: str, text: str, version: str = "2", title: str = "") -> Passage:
    """A passage with the right hash."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Passage(source_id, version, text, f"https://docs.example/{source_id}", digest, title)


PASSAGES = (
    passage("ferry", PLAIN, title="Timetable"),
    passage("gull", GULL),
    passage("tide", "潮汐每六小时一次 ferry"),
    passage("old-ferry", "An older ferry", "1"),
)


class Tools(unittest.TestCase):
    """Gives tests a toolbox over version 2 of a small index, and the index's database to damage."""

    def setUp(self) -> None:
        """A fresh index for each test."""
        self.index = Index(Snapshot("plain", PASSAGES))
        self.addCleanup(self.index.close)
        self.tools = Toolbox(self.index, "2")

    def damage(self, statement: str, *values: Any) -> None:
        """Change the index under the toolbox."""
        self.index._database.execute(statement, values)

    def handle(self, source_id: str = "ferry") -> Handle:
        """What a search hands out for a passage."""
        return next(at for at in self.tools.search("ferry gull 潮汐每六小时一次", 10) if at.source_id == source_id)

    def fault(self, call: Any, *values: Any) -> Fault:
        """The fault that a call raises."""
        with self.assertRaises(Fault) as caught:
            call(*values)
        return caught.exception


class Port(Tools):
    def test_the_toolbox_is_what_the_controller_asks_for(self) -> None:
        """Each method of agent.Tools, by name and parameters, and no public method beside them."""
        def methods(kind: type) -> dict[str, list[tuple[str, Any]]]:
            return {
                name: [(at.name, at.kind) for at in inspect.signature(value).parameters.values()]
                for name, value in vars(kind).items() if inspect.isfunction(value) and not name.startswith("_")}

        self.assertEqual(methods(Toolbox), methods(agent.Tools))
        self.assertEqual(set(methods(Toolbox)), {"terms", "substance", "search", "read", "verify"})

    def test_it_says_what_it_gives_as_the_port_does(self) -> None:
        """The results' types are those of the protocol."""
        for name, value in vars(agent.Tools).items():
            if inspect.isfunction(value) and not name.startswith("_"):
                with self.subTest(method=name):
                    ours = inspect.signature(getattr(Toolbox, name)).return_annotation
                    theirs = inspect.signature(value).return_annotation
                    self.assertEqual(str(ours).replace("agent.", ""), str(theirs).replace("agent.", ""))

    def test_an_unknown_version_is_refused_with_those_there_are(self) -> None:
        """Before anything is searched."""
        for version in ("3", "", "2.0", "1 "):
            with self.subTest(version=version), self.assertRaisesRegex(ValueError, r"there are 1, 2$"):
                Toolbox(self.index, version)


class Searching(Tools):
    def test_handles_carry_receipts_and_no_text(self) -> None:
        """Rank, version, hash and the size in UTF-8 bytes, in rank order."""
        handles = self.tools.search("ferry café 潮汐每六小时一次", 10)
        self.assertEqual([at.rank for at in handles], [1, 2, 3])
        self.assertEqual({at.source_id for at in handles}, {"ferry", "gull", "tide"})
        by_id = {at.source_id: at for at in PASSAGES}
        for at in handles:
            with self.subTest(source_id=at.source_id):
                found, data = by_id[at.source_id], by_id[at.source_id].text.encode("utf-8")
                self.assertEqual(at.text_sha256, hashlib.sha256(data).hexdigest())
                self.assertEqual(at.text_bytes, len(data))
                self.assertEqual((at.version, at.title), ("2", found.title))
                self.assertNotIn(found.text, at)
        self.assertGreater(self.handle("tide").text_bytes, len(by_id["tide"].text))

    def test_only_passages_of_its_version_are_found(self) -> None:
        """The other version has its own toolbox."""
        self.assertNotIn("old-ferry", [at.source_id for at in self.tools.search("ferry older", 10)])
        self.assertEqual([at.source_id for at in Toolbox(self.index, "1").search("ferry", 10)], ["old-ferry"])

    def test_nothing_found_is_an_empty_result(self) -> None:
        """No fault."""
        for query in ("wharf", "?!", ""):
            with self.subTest(query=query):
                self.assertEqual(self.tools.search(query, 2), ())

    def test_no_more_than_the_limit_is_handed_out(self) -> None:
        """Ranks count from 1 whatever the limit."""
        for limit in (1, 2, 3):
            with self.subTest(limit=limit):
                ranks = [at.rank for at in self.tools.search("ferry gull 潮汐每六小时一次", limit)]
                self.assertEqual(ranks, list(range(1, limit + 1)))


class Reading(Tools):
    def test_a_read_gives_the_passage_as_it_may_be_quoted(self) -> None:
        """Five fields, the text letter for letter, no title."""
        expected = {name: getattr(PASSAGES[1], name) for name in ("source_id", "version", "text", "url", "text_sha256")}
        self.assertEqual(self.tools.read(self.handle("gull")), expected)

    CHANGES: dict[str, Passage | None] = {
        "a letter changed": passage("ferry", PLAIN.replace("noon", "moon")),
        "a space added": passage("ferry", PLAIN + " "),
        "emptied": passage("ferry", ""),
        "removed": None,
        "replaced": passage("ferry", "Another ferry leaves at noon."),
        "replaced with the old hash beside it": PASSAGES[0]._replace(text="Forged."),
        "changed with its hash": passage("ferry", "x"),
    }

    def test_what_changed_after_the_search_is_not_read_and_not_quoted(self) -> None:
        """read raises changed_read; verify says that the receipt no longer holds, whatever the quote."""
        handle = self.handle()
        self.assertEqual(self.tools.verify(handle, "at noon"), "")
        for name, now in self.CHANGES.items():
            with self.subTest(change=name), mock.patch.object(self.index, "passage", return_value=now):
                fault = self.fault(self.tools.read, handle)
                self.assertIs(fault.reason, Reason.CHANGED_READ)
                self.assertIn("ferry", fault.detail)
                for quote in ("at noon", "Forged.", "x", ""):
                    self.assertIn("no longer matches its receipt", self.tools.verify(handle, quote))

    def test_what_was_put_back_as_it_was_is_read(self) -> None:
        """The receipt is of the text, not of an object."""
        handle = self.handle()
        with mock.patch.object(self.index, "passage", return_value=None):
            self.fault(self.tools.read, handle)
        with mock.patch.object(self.index, "passage", return_value=Passage(*PASSAGES[0])):
            self.assertEqual(self.tools.read(handle)["text"], PLAIN)
            self.assertEqual(self.tools.verify(handle, "at noon"), "")

    def test_what_was_damaged_in_the_database_is_not_read(self) -> None:
        """A row that is not what was put there is a failed search, whatever of it was changed."""
        for statement in (
            "UPDATE passage SET text = replace(text, 'noon', 'moon')", "UPDATE passage SET source_id = 'barge'",
            "UPDATE passage SET version = '3'", "DELETE FROM passage", "UPDATE passage SET url = 'u'",
        ):
            with self.subTest(statement=statement):
                self.setUp()
                handle = self.handle()
                self.damage(f"{statement} WHERE source_id = 'ferry'")
                for call in (lambda: self.tools.read(handle), lambda: self.tools.verify(handle, "")):  # noqa: B023
                    self.assertIs(self.fault(call).reason, Reason.SEARCH_FAILED)

    def test_a_forged_handle_is_not_read(self) -> None:
        """An id of no passage, of another version, or with another receipt."""
        good = self.handle()
        for name, handle in {
            "id": good._replace(source_id="barge"), "version": good._replace(version="1"),
            "hash": good._replace(text_sha256="0" * 64), "empty hash": good._replace(text_sha256=""),
            "another's hash": good._replace(text_sha256=self.handle("gull").text_sha256),
        }.items():
            with self.subTest(forged=name):
                self.assertIs(self.fault(self.tools.read, handle).reason, Reason.CHANGED_READ)
                self.assertTrue(self.tools.verify(handle, "at noon"))


class Failing(Tools):
    def test_a_broken_backend_is_a_failed_search_and_never_an_empty_result(self) -> None:
        """Every tool, and every way in which the database can be gone."""
        handle = self.handle()
        for name, damage in {
            "closed": lambda: self.index.close(),
            "without its tables": lambda: self.index._database.executescript(
                "DROP TABLE passages; DROP TABLE passage; DROP TABLE cut"),
        }.items():
            self.setUp()
            damage()
            for tool, call in {
                "search": lambda: self.tools.search("ferry", 2), "terms": lambda: self.tools.terms("ferry"),
                "substance": lambda: self.tools.substance("ferry"), "read": lambda: self.tools.read(handle),
                "verify": lambda: self.tools.verify(handle, "at noon"),
            }.items():
                with self.subTest(database=name, tool=tool):
                    fault = self.fault(call)
                    self.assertIs(fault.reason, Reason.SEARCH_FAILED)
                    self.assertTrue(fault.detail)
                    self.assertNotIn("\n", fault.detail)

    def test_a_trial_over_a_broken_backend_says_so(self) -> None:
        """Both paths end as failed, with search_failed and without an observation."""
        def ask(tape: agent.Tape, seconds: float) -> str:
            return agent.compact({
                "action": "search", "assessment": "Nothing yet.", "query": "ferry", "source_id": "", "answer": "",
                "citations": []})

        self.damage("DROP TABLE passages")
        for mode in ("fixed", "agent"):
            with self.subTest(mode=mode):
                task = agent.Task("When does the ferry leave?", "2", mode)
                result = agent.Tape(agent.controller(task, self.tools, ask, lambda: 0.0)).result()
                self.assertEqual((result["status"], result["reason"]), ("failed", "search_failed"))
                self.assertEqual(result["observations"], [])
                self.assertEqual(result["usage"]["searches"], 1)


class Quotes(Tools):
    def test_substance_counts_repeated_terms_and_unspaced_characters(self) -> None:
        """Words of spaced scripts once per occurrence, characters of the others one each."""
        for quote, expected in (
            ("", 0), ("... --", 0), ("\N{SAILBOAT}", 0), ("ferry", 1), ("the ferry", 2), ("no no no", 3),
            ("C++ and F#", 3), ("drain_all", 2), ("été forêt", 2), ("한국어", 1), ("한국어 말", 2),
            ("潮", 1), ("潮汐", 2), ("潮潮潮", 3), ("潮汐每六小时", 6), ("潮汐ferry潮", 4), ("潮汐、潮汐。", 4),
            ("かもめ", 3), ("カモメ", 3), ("\uff76\uff93", 2), ("ภาษา", 4), ("ສະບາຍ", 5), ("ទឹក", 2),
            ("\U00020000\U00020001", 2),
        ):
            with self.subTest(quote=quote):
                self.assertEqual(self.tools.substance(quote), expected)

    def test_terms_are_those_of_the_index(self) -> None:
        """In order, repeated ones too, and not cut between characters."""
        self.assertEqual(self.tools.terms("The ferry, the FERRY"), ("the", "ferry", "the", "ferry"))
        self.assertEqual(self.tools.terms("潮汐每六小时一次"), ("潮汐每六小时一次",))

    def test_a_quote_is_one_exact_run_of_characters(self) -> None:
        """Anywhere in the passage, white space and marks included."""
        for source_id, quote in (
            ("ferry", PLAIN), ("ferry", "The ferry does not wait"), ("ferry", "T"),
            ("gull", "\u201ccafé\u201d twice.\nIt"), ("gull", "5\xa0knots."), ("tide", "六小时"),
        ):
            with self.subTest(quote=quote):
                self.assertEqual(self.tools.verify(self.handle(source_id), quote), "")

    TYPOGRAPHY = {
        "straight double quotes": '"café" twice',
        "a straight apostrophe": "It didn't stay",
        "a space for a no-break space": "5 knots",
        "a space for a line end": "twice. It didn\u2019t",
        "a CRLF for a line end": "twice.\r\nIt didn\u2019t",
        "two spaces for one": "A  gull",
        "a hyphen for a dash": "A gull - grey-winged",
        "an em dash for an en dash": "A gull \u2014 grey-winged",
        "a no-break hyphen": "grey\u2011winged",
        "a minus sign": "grey\u2212winged",
        "decomposed accents": unicodedata.normalize("NFD", "\u201ccafé\u201d"),
        "no accents": "\u201ccafe\u201d",
        "guillemets": "\xabcafé\xbb twice",
        "upper case": "A GULL",
        "a soft hyphen": "grey\xad-winged",
        "an invisible space": "A gu\u200bll",
        "several at once": 'SAID  "cafe\u0301" twice. it didn\'t',
    }

    def test_a_quote_that_differs_only_in_typography_is_told_so(self) -> None:
        """It is refused all the same."""
        handle = self.handle("gull")
        for name, quote in self.TYPOGRAPHY.items():
            with self.subTest(differs_in=name):
                said = self.tools.verify(handle, quote)
                self.assertIn("only in typography", said)
                self.assertIn("gull", said)
                self.assertTrue(said.isascii() and said.isprintable(), said)

    def test_typography_of_the_passage_is_forgiven_as_that_of_the_quote(self) -> None:
        """The same hint when the plain form is in the passage."""
        handle = self.handle("ferry")
        for quote in ("the\xa0ferry does", "The ferry\u2028leaves at", "Ferry does not wait, and"):
            with self.subTest(quote=quote):
                self.assertIn("only in typography", self.tools.verify(handle, quote))

    def test_another_character_is_no_typography(self) -> None:
        """A power, a stroke through a sign and a vowel's mark change what is said."""
        for text, quote, same in (
            ("The area is 10\xb2 metres.", "area is 102 metres", False), ("x \u2260 y in all", "x = y in all", False),
            ("\u0915\u0932 \u092c\u0948\u0920\u0915", "\u0915\u0941\u0932 \u092c\u0948\u0920\u0915", False),
            ("\u0e01\u0e34\u0e19\u0e02\u0e49\u0e32\u0e27", "\u0e01\u0e31\u0e19\u0e02\u0e49\u0e32\u0e27", False),
            ("It doesn\u2019t retry", "doesn\xb4t retry", True), ("It doesn\u2019t retry", "doesn\u02bct retry", True),
            ('Use "x" -- not y', "Use \u201cx\u201d \u2014 not", True), ("caf\xe9 order", "cafe\u0301 order", True),
        ):
            with self.subTest(text=text, quote=quote):
                self.assertEqual(_plain(quote) in _plain(text), same)

    PARAPHRASES = (
        "The ferry departs at noon", "The ferry does wait", "The ferry leaves at noon; the ferry does not wait",
        "ferry The", "The ferry leaves at noon. and the ferry never returns.", "The ferry ... returns",
        "Theferry leaves", "The ferry leaves at noon. The ferry does not wait, and the ferry never returns. Ever.",
    )

    def test_a_paraphrase_gets_no_such_hint(self) -> None:
        """It is said to be in the passage in no way."""
        handle = self.handle("ferry")
        for quote in self.PARAPHRASES:
            with self.subTest(quote=quote):
                said = self.tools.verify(handle, quote)
                self.assertTrue(said)
                self.assertNotIn("typography", said)

    def test_what_is_said_of_a_quote_is_one_short_line_of_ascii(self) -> None:
        """Whatever a model put into it."""
        for quote in ("\x1b[2J\x9b31m", "a\nb\r\u2028c", "\u202eevil", "\x00", "潮" * 2000, "x" * 2000, "\udcff"):
            with self.subTest(quote=quote[:10]):
                said = self.tools.verify(self.handle("ferry"), quote)
                self.assertTrue(said and said.isascii() and said.isprintable(), said)
                self.assertLess(len(said), 300)


class Plans(unittest.TestCase):
    """A manifest is a plan that can be carried out, or is refused with one line in our own words."""

    def setUp(self) -> None:
        """The published plan."""
        with open(os.path.join(ROOT, "recordings", "published", "manifest.json"), encoding="utf-8") as file:
            self.plan: dict[str, Any] = json.load(file)

    def refused(self, *path: str, value: Any) -> str:
        """What is said of the plan with one value changed; nothing where it is taken."""
        plan = copy.deepcopy(self.plan)
        inner: Any = plan
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        try:
            check_manifest(plan)
        except (ValueError, agent.Mistake) as error:
            return str(error)
        return ""

    def test_each_bound_is_taken_and_what_is_past_it_refused(self) -> None:
        """Both sides of each."""
        tokens, warm = "maxOutputTokens is {}: 1 to 65536", "temperature is {}: 0 to 2"
        cold: tuple[Any, ...] = (-0.1, -1, 2.1, 3, "0", [], None)
        plan = "format is to be 1, repeats 1 to 100, and modes and cases not empty"
        strings = "hashes are not all strings, or budget has an unknown name"
        unknown = "no limit has the name {}; there are model_calls, searches, reads, source_bytes, seconds"
        limit = "invalid_limits: {} is {}; it can be a whole number, 1 to {}"
        rows: tuple[tuple[tuple[str, ...], tuple[Any, ...], tuple[tuple[Any, str], ...]], ...] = (
            (("config", "maxOutputTokens"), (1, 2, 65_535, 65_536), tuple(
                (value, tokens.format(agent.shown(value)))
                for value in (0, -1, 65_537, 1.0, 1024.0, True, None, "1024", [1024]))),
            (("config", "temperature"), (0, 0.0, 0.1, 1.9, 2, 2.0), tuple(
                (value, warm.format(agent.shown(value))) for value in cold)),
            (("repeats",), (1, 100), ((0, plan), (-1, plan), (101, plan))),
            (("modes",), (["fixed"], ["agent"]), (([], plan), (["agent", "agent"], "modes names one twice"),
                                                  (["both"], 'invalid_mode: the path is "both"; '
                                                   "a path is either agent or fixed"))),
            (("budget",), ({}, {"tokens": 1}, {"cost": 0.1, "prices": [1, 2]}),
             (({"money": 1}, strings), ({"tokens": 1, "": 1}, strings))),
            (("hashes",), ({}, {"prompt": ""}, {"anything": "x"}),
             (({"prompt": 0}, strings), ({"prompt": None}, strings), ({"more": ["x"]}, strings))),
            (("limits", "searches"), (1, 4), (
                (0, limit.format("searches", 0, 4)), (5, limit.format("searches", 5, 4)),
                (True, limit.format("searches", "true", 4)), (2.0, limit.format("searches", "2.0", 4)),
                ("2", limit.format("searches", '"2"', 4)), (None, limit.format("searches", "null", 4)))),
            (("limits", "seconds"), (1, 300), ((301, limit.format("seconds", 301, 300)),)),
            (("limits", "tries"), (), ((1, unknown.format('"tries"')),)),
            (("limits", "\x1b[2J"), (), ((1, unknown.format(r'"\u001b[2J"')),)),
            (("candidates",), (1, 10), ((0, limit.format("candidates", 0, 10)),
                                        (11, limit.format("candidates", 11, 10)))),
        )
        for path, taken, others in rows:
            for value, told in (*((value, "") for value in taken), *others):
                with self.subTest(path=path, value=repr(value)[:40]):
                    self.assertEqual(self.refused(*path, value=value), told)

    def test_each_field_is_there_and_has_its_type(self) -> None:
        """The budget as any other, and no other field."""
        check_manifest(self.plan)
        for name, value in self.plan.items():
            with self.subTest(field=name):
                plan = {other: kept for other, kept in self.plan.items() if other != name}
                with self.assertRaisesRegex(ValueError, rf"^manifest\.{name} is missing$"):
                    check_manifest(plan)
                kind = type(value).__name__
                self.assertEqual(self.refused(name, value=None), f"manifest.{name} must be of type {kind}, not null")
        self.assertRegex(self.refused("extra", value=1), '^manifest has the unknown field "extra"; the fields are ')
        self.assertEqual(set(self.plan["budget"]), set())


class Seals(unittest.TestCase):
    """SHA256SUMS holds for what it names, and has to name all that counts."""

    def test_what_is_not_as_it_says_is_told_file_by_file(self) -> None:
        """In the order of its lines, then what it does not name."""
        one, two = "1" * 64, "2" * 64
        files = {"manifest.json": one, "exchanges.jsonl": two, "report.json": one}
        sums = "".join(f"{digest}  {name}\n" for name, digest in files.items())
        edited = "{} was edited after the run: it is not what SHA256SUMS says"
        gone = "{} is named in SHA256SUMS and is not there"
        for name, text, digests, told in (
            ("as it says", sums, files, []), ("beside others", sums, files | {"notes.txt": two}, []),
            ("edited", sums, files | {"exchanges.jsonl": one}, [edited.format("exchanges.jsonl")]),
            ("two edited", sums, dict.fromkeys(files, "3" * 64), [edited.format(at) for at in files]),
            ("no report", sums, {"manifest.json": one, "exchanges.jsonl": two}, []),
            ("no plan", sums, {"exchanges.jsonl": two, "report.json": one}, [gone.format("manifest.json")]),
            ("its own cases", sums, files | {"cases.json": one}, ["cases.json is not named in SHA256SUMS"]),
            ("empty", "", files, [f"{at} is not named in SHA256SUMS" for at in sorted(files)]),
            ("a line that is none", sums + "hello\n", files, [gone.format("hello")]),
            ("an empty line", sums + "\n", files, [gone.format("an empty line")]),
            ("no text of lines", sums + "x" * 5_000, files, [gone.format("x" * 100)]),
            ("no seal beside a report", None, files,
             ["SHA256SUMS is missing: whether a file was edited cannot be told"]),
            ("no seal and no report", None, {"manifest.json": one, "exchanges.jsonl": two}, []),
        ):
            with self.subTest(name):
                self.assertEqual(list(broken_seals(text, digests)), told)


class Words(Tools):
    """Facts as lines for people."""

    def tape(self, mode: str, *replies: Any) -> agent.Tape:
        """A trial over the small index with these replies; a Fault is raised."""
        left = list(replies)

        def ask(tape: agent.Tape, seconds: float) -> str:
            reply = left.pop(0)
            if isinstance(reply, Fault):
                raise reply
            return reply if isinstance(reply, str) else agent.compact(reply)

        task = agent.Task("When does the ferry leave?", "2", mode)
        return agent.Tape(agent.controller(task, self.tools, ask, lambda: 0.0))

    def lines(self, tape: agent.Tape, columns: int = 1_000) -> list[str]:
        """All steps of a trial."""
        return [line for at in range(len(tape)) for line in step_lines(agent.Tape(tape[: at + 1]), columns)]

    def test_a_whole_trial_of_each_path_reads_so(self) -> None:
        """Every line; what is left is told on the agent path, after each observation."""
        quote = "The ferry leaves at noon."
        answer = decision("answer", answer="At noon.", citations=[{"source_id": "ferry", "quote": quote}])
        size = len(PLAIN.encode())
        end = ["ended: answered: citation_contract_passed: Every citation quotes a passage that was read.",
               "answer: At noon.", f'   [1] ferry: "{quote}"', "       https://docs.example/ferry"]
        proposed = ["1. the model proposes: answer", "   assessment: scripted"]
        self.assertEqual(self.lines(self.tape("fixed", answer)), [
            "   the code: search 1 of 3: When does the ferry leave?", "   found: 1 ferry (Timetable), 2 tide",
            f"   the code: read 1 of 4, {size} bytes: ferry", f"   text: {PLAIN}",
            "   the code: read 2 of 4, 30 bytes: tide", "   text: 潮汐每六小时一次 ferry", *proposed, *end])
        agentic = self.lines(self.tape(
            "agent", decision("search", query="noon"), decision("read", source_id="ferry"), answer))
        self.assertEqual(agentic, [
            '1. the model proposes: search "noon"', "   assessment: scripted", "   admitted: search 1 of 3: noon",
            "   found: 1 ferry (Timetable)", "   left: 8 model calls, 2 searches, 4 reads, 4096 source bytes",
            '2. the model proposes: read "ferry"', "   assessment: scripted",
            f"   admitted: read 1 of 4, {size} bytes: ferry", f"   text: {PLAIN}",
            f"   left: 7 model calls, 2 searches, 3 reads, {4096 - size} source bytes",
            "3. the model proposes: answer", "   assessment: scripted", *end])

    def test_an_end_has_its_reason_with_the_kind_of_a_transport_fault(self) -> None:
        """And in a second line what was seen, where something was."""
        gone = agent.Reason.MODEL_TRANSPORT_FAILED
        for reply, lines in (
            (Fault(gone, "no reply in 45 s", "timeout"),
             [f"ended: failed: model_transport_failed:timeout: {gone.sentence}", "   seen: no reply in 45 s"]),
            (Fault(gone, "refused", ""),
             [f"ended: failed: model_transport_failed: {gone.sentence}", "   seen: refused"]),
            (decision("stop"), ["1. the model proposes: stop", "   assessment: scripted",
                                "ended: incomplete: model_stopped: The model stopped without an answer."]),
            ("Hello", [
                "ended: failed: invalid_decision: The reply is not one JSON object of the six fields.",
                '   seen: not one JSON object (Expecting value: line 1 column 1 (char 0)): "Hello"']),
        ):
            with self.subTest(lines[0]):
                self.assertEqual(self.lines(self.tape("agent", reply)), lines)

    def test_a_paragraph_is_wrapped_between_words_only(self) -> None:
        """Not at hyphens; what goes on stands four columns deeper; a line of its own stays one."""
        for text, columns, lines in (
            ("", 40, ["   text:"]), ("one two", 40, ["   text: one two"]),
            ("json-text path-read-3-13 non-ASCII", 26,
             ["   text: json-text", "       path-read-3-13", "       non-ASCII"]),
            ("one\ntwo", 40, ["   text: one", "       two"]),
            ("a\x1b[2Jb", 40, [r"   text: a\x1b[2Jb"]), ("x" * 40, 24, ["   text: " + "x" * 15, "       " + "x" * 17,
                                                                      "       " + "x" * 8]),
            ("\u914d\u7f6e" * 8, 24, ["   text: " + "\u914d\u7f6e" * 3 + "\u914d", "       " + "\u7f6e\u914d" * 4,
                                     "       \u7f6e"]),  # two columns each
            ("e\u0301" * 20, 40, ["   text: " + "e\u0301" * 20]),  # and a combining mark takes none
            ("\u914d" * 100_000, 40, ["   text: " + "\u914d" * 15, *["       " + "\u914d" * 16] * 6_249,
                                       "       \u914d"]),  # which is not measured anew for each line
            ("in " + "x" * 17, 24, ["   text: in", "       " + "x" * 17]), ("    in a block\n  of code", 40,
                                                                       ["   text:     in a block", "         of code"]),
        ):
            with self.subTest(text=text):
                self.assertEqual(list(paragraphs("text", text, columns)), lines)
        self.assertEqual(list(paragraphs("a label", "b", 40, 0)), ["a label: b"])

    def test_no_line_of_a_paragraph_is_wider_than_asked_and_nothing_is_lost(self) -> None:
        """Labels and words longer than a line, wide characters, combining marks, blanks and line ends."""
        chance = random.Random(5)
        for _ in range(500):
            label, text = (
                "".join(one * chance.choice((1, 1, 3, 30)) for one in chance.choices(kinds, k=chance.randint(0, 60)))
                for kinds in ("ab\u914d ", "ab-  \u914d\u7f6ee\u0301\u304b\u3099\ud55c xyz\n"))
            columns, indent = chance.randint(40, 100), chance.choice((0, 3))
            lines = list(paragraphs(label, text, columns, indent))
            self.assertLessEqual(max(map(width, lines)), columns, (label, text))
            self.assertEqual("".join("".join(lines).split()), "".join(f"{label}: {text}".split()))

    def test_the_tokens_of_a_trial_are_unknown_where_one_reply_told_none(self) -> None:
        """A sum of some would be taken for the sum of all."""
        result = self.tape("agent", decision("stop")).result()
        for usage, told in (
            ([{"totalTokenCount": 7}, {"totalTokenCount": 5}], "12"), ([], "0"),
            ([{"totalTokenCount": 7}, None], "unknown"), ([{"totalTokenCount": None}], "unknown"),
            ([{"totalTokenCount": True}], "unknown"), ([{}], "unknown"),
        ):
            trial = {"case_id": "a", "split": "held-out", "repeat": 1, "mode": "agent", "result": result,
                     "checks": {"outcome": "pass"}, "provider_usage": usage}
            with self.subTest(usage=usage):
                head, row = trial_lines([trial], colour=False)
                self.assertEqual(head.split()[-3:], ["tokens", "first", "cause"])
                cells = ["a", "held-out", "1", "agent", "-", "pass", "model_stopped", "1", told, "-"]
                self.assertEqual(row.split(), cells)


if __name__ == "__main__":
    unittest.main()
