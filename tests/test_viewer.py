"""The page that people open, `recordings/viewer.html`: its text alone, and what it does in a real Chromium.

The classes that need a browser are skipped without one; all of them share one browser. AXE_CORE may name the file
axe.min.js of the npm package axe-core, else it is looked for where npm installs globally.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import html.parser
import io
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest
from functools import cache
from typing import Any, ClassVar

import agent
import evaluate
import run
from tests.browser import Browser, chromium
from tests.support import ROOT, decision

PLACE = '<script type="application/json" id="recording"></script>'
LARGEST_PAGE = 400_000  # bytes, of the published recording's page


@cache
def page() -> str:
    with open(os.path.join(ROOT, "recordings", "viewer.html"), encoding="utf-8", newline="") as file:
        return file.read()


def filled(document: Any) -> str:
    """The page with a recording in its place, as `--html` fills it."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return page().replace(PLACE, PLACE.replace("></", f">{text}</"))


def published() -> dict[str, Any]:
    """What the page of the published recording is filled with."""
    return copy.deepcopy(_published())


@cache
def _published() -> dict[str, Any]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run.main(["--json"])
    with open(os.path.join(ROOT, "recordings", "published", "exchanges.jsonl"), encoding="utf-8") as file:
        exchanges = [json.loads(line) for line in file]
    with open(os.path.join(ROOT, "cases.json"), encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    with open(os.path.join(ROOT, "snapshot.json"), encoding="utf-8") as file:
        passages = json.load(file)["passages"]
    shown = [{name: case[name] for name in ("id", "question", "version", "split")} for case in cases]
    return {"report": json.loads(out.getvalue()), "exchanges": exchanges, "cases": shown, "passages": passages}


def script() -> str:
    return page().rpartition("<script>")[2].partition("</script>")[0]


def style() -> str:
    return page().partition("<style>")[2].partition("</style>")[0]


class Markup(html.parser.HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


class ItsText(unittest.TestCase):
    """What can be told without a browser."""

    def test_it_has_one_place_to_fill_and_says_that_the_kit_made_it(self) -> None:
        self.assertEqual(page().count(PLACE), 1)
        self.assertIn('<meta name="generator" content="agentic retrieval lab">', page()[:200])
        hard = {"a": "</script>&\u2028"}
        self.assertEqual(json.loads(filled(hard).partition(PLACE[:-9])[2].partition("</script>")[0]), hard)

    def test_it_refers_to_nothing_outside(self) -> None:
        for tag, attributes in Markup(page()).elements:
            with self.subTest(tag, **attributes):
                self.assertNotIn(tag, {"link", "img", "iframe", "object", "embed", "base", "form", "video", "audio"})
                self.assertFalse({"src", "srcset", "action", "data", "style", "poster", "ping"} & set(attributes))
                self.assertFalse([name for name in attributes if name.startswith("on")])
                self.assertTrue((attributes.get("href") or "#").startswith("#"))
        self.assertNotRegex(style(), r"url\(|@import|image-set|expression")
        names = re.findall(r"\w+://[\w.]+", script())
        self.assertEqual(names, ["http://www.w3.org"])  # the name of SVG, which nobody asks for

    def test_its_script_asks_no_network_and_makes_no_markup_of_text(self) -> None:
        for name in ("fetch", "XMLHttpRequest", "WebSocket", "EventSource", "sendBeacon", "importScripts", "Worker",
                     "eval", "Function", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "srcdoc",
                     "DOMParser", "createContextualFragment", "setHTMLUnsafe", "localStorage", "cookie"):
            self.assertNotRegex(script(), rf"\b{re.escape(name)}\b")
        self.assertNotRegex(script(), r"\bimport\b")

    def test_its_policy_allows_its_own_script_and_style_and_nothing_else(self) -> None:
        policy = next(attributes["content"] for _, attributes in Markup(page()).elements
                      if attributes.get("http-equiv") == "Content-Security-Policy")
        own = {name: "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
               for name, text in (("script", script()), ("style", style()))}
        self.assertEqual(policy, (
            f"default-src 'none'; script-src '{own['script']}'; style-src '{own['style']}'; base-uri 'none'; "
            "form-action 'none'; trusted-types 'none'; require-trusted-types-for 'script'"))
        self.assertLess(page().index("Content-Security-Policy"), page().index("<style>"))

    def test_its_words_are_the_kits(self) -> None:
        def table(name: str) -> Any:
            found = re.search(rf"^const {name} = (\{{.*?^\}});", script(), re.M | re.S)
            return found and json.loads(found[1])

        self.assertEqual(table("REASONS"), {str(each): each.sentence for each in agent.Reason if each.status})
        self.assertEqual(table("FINDINGS"), {str(each): each.sentence for each in evaluate.Finding})
        self.assertEqual(table("STAGES"), {str(each): each.sentence for each in evaluate.Stage})
        for outcome in evaluate.Outcome:
            self.assertRegex(script(), rf"\n  {outcome}: \{{sign: ")

    def test_it_can_be_read(self) -> None:
        long = [line for line in page().split("\n") if len(line) > 120 and "Content-Security" not in line]
        self.assertEqual(long, [])
        for function in re.findall(r"^(?:async )?function .*?^\}", script(), re.M | re.S):
            self.assertLessEqual(function.count("\n") + 1, 40, function.partition("\n")[0])

    def test_the_page_of_the_published_recording_is_small(self) -> None:
        self.assertLess(len(filled(published()).encode()), LARGEST_PAGE)


# --- In a browser -------------------------------------------------------------------------------

CANARY = "window.canary = 1"
HOSTILE = {
    "script": f"<script>{CANARY}</script>",
    "closing": f"</script><script>{CANARY}</script><!--",
    "attribute": f'"><img src=x onerror="{CANARY}"><svg onload="{CANARY}">\' onmouseover=\'{CANARY}',
    "address": f"javascript:{CANARY}",
    "bidi": "left \u202eright\u202c \u2066isolated\u2069 \u200f mark",
    "unseen": "zero\u200bwidth \ufeff \x00 null \x1b[31m \x07 \u2028 line \U000e0041 tag \u3164 \xad soft",
    "long": "w" * 2000,
    "emoji": "\U0001f469\u200d\U0001f680 \U0001f44d\U0001f3fd \u2764\ufe0f",
    "arabic": "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "chinese": "\u4f60\u597d\uff0c\u4e16\u754c\u3002" * 40,
    "proto": "__proto__ constructor toString",
}


def trial(name: str, **result: Any) -> dict[str, Any]:
    """One trial of a report; `name` is case-mode-repeat."""
    case, mode, repeat = name.rsplit("-", 2)
    made = {"status": "incomplete", "reason": "model_stopped", "answer": "", "citations": [], "question": "What?",
            "version": "1", "mode": mode, "limits": agent.Limits()._asdict(),
            "usage": {"model_calls": 1, "searches": 1, "reads": 1, "source_bytes": 10},
            "decisions": [decision("stop")], "observations": [], **result}
    return {"id": name, "case_id": case, "split": "development", "repeat": int(repeat), "mode": mode, "result": made,
            "checks": {"outcome": "incomplete", "trajectory": {}}, "findings": [], "detail": "",
            "elapsed_seconds": 1.5, "provider_usage": [{"promptTokenCount": 10, "candidatesTokenCount": 5}]}


def search(query: str, *ids: str) -> dict[str, Any]:
    candidates = [{"source_id": name, "rank": at, "version": "1"} for at, name in enumerate(ids, 1)]
    return {"tool": "search", "arguments": {"query": query}, "result": {"query": query, "candidates": candidates}}


def read(name: str, text: str, url: str = "https://docs.invalid/") -> dict[str, Any]:
    return {"tool": "read", "arguments": {"source_id": name}, "result": {
        "source_id": name, "version": "1", "text": text, "url": url, "text_sha256": "0" * 64}}


def answered(name: str, text: str, quotes: list[str], url: str = "https://docs.invalid/") -> dict[str, Any]:
    """A trial of the fixed path that read one passage and quoted it."""
    cited = [{"source_id": "p", "quote": quote, "url": url} for quote in quotes]
    plain = [{"source_id": "p", "quote": quote} for quote in quotes]
    return trial(name, status="answered", reason="citation_contract_passed", answer="So.", citations=cited,
                 decisions=[decision("answer", answer="So.", citations=plain)],
                 observations=[search("What?", "p"), read("p", text, url)])


def hostile() -> dict[str, Any]:
    """A recording in which every text that somebody else wrote is hostile."""
    trials, exchanges, passages = [], [], []
    for at, (kind, text) in enumerate(HOSTILE.items(), 1):
        made = answered(f"{text}-fixed-1", f"before {text} after", [text], text)
        made["result"] |= {"question": text, "version": text, "answer": text}
        made["result"]["decisions"] = [decision("answer", assessment=text, answer=text,
                                                citations=[{"source_id": "p", "quote": text}])]
        made["findings"] = [{"finding": text, "expected": text, "found": [text]}]
        made |= {"detail": text, "split": text, "cause": {"stage": text, "why": text, "symptoms": [text]}}
        made["checks"] |= {"outcome": "fail" if at % 2 else "pass", "scope": text}
        again = trial(f"{text}-agent-1", reason=text, question=text, decisions=[
            decision("search", query=text, assessment=text), decision("read", source_id=text), decision(text)],
            observations=[search(text, text), read(text, text, text)])
        trials += [made, again]
        passages.append({"source_id": text, "version": text, "title": text, "text": text, "url": text})
        for name in (made["id"], again["id"]):
            for number in (1, 2):
                exchanges += [
                    {"event": "request", "trial": name, "exchange": number, "attempt": 1, "sha256": text,
                     "request": {text: {"text": f"{text}\n{number}"}}},
                    {"event": "response", "trial": name, "exchange": number, "attempt": 1, "elapsed": 1, "status": 200,
                     "response": {"candidates": [{"content": {"parts": [{"text": text}]}}], kind: text}}]
    passages.append({"source_id": "p", "version": "1", "title": HOSTILE["attribute"], "text": "", "url": ""})
    texts = HOSTILE["attribute"] + HOSTILE["unseen"]
    report = {"recording": texts, "provenance": texts, "model": texts, "config": {texts: texts}, "endpoint": texts,
              "source_sha256": {texts: texts}, "environment": {"python": texts}, "recorded_at": texts,
              "error": {"message": texts}, "trials": trials}
    return {"report": report, "exchanges": exchanges, "cases": [], "passages": passages}


def many(trials: int) -> dict[str, Any]:
    """The published recording, its trials repeated under other names."""
    given = published()
    report, events = given["report"], given["exchanges"]
    made, exchanges = [], []
    for at in range(trials):
        one = copy.deepcopy(report["trials"][at % 16])
        old, one["repeat"] = one["id"], at // 16 + 1
        one["id"] = f"{one['case_id']}-{one['mode']}-{at}"
        made.append(one)
        exchanges += [{**event, "trial": one["id"]} for event in events if event["trial"] == old]
    report["trials"] = made
    return {**given, "exchanges": exchanges}


VIEWS = {
    "overview": "#overview",
    "trial": "#serialize-and-save-agent-1",
    "refused": "#newline-version-agent-1/3",
    "exchange": "#serialize-and-save-agent-1/exchange-4",
    "two paths": "#compare/serialize-and-save-fixed-1/serialize-and-save-agent-1",
    "two repeats": "#compare/newline-version-agent-1/newline-version-agent-2",
    "provenance": "#provenance",
}
# Every box that stands out of the window, and is in none that scrolls by itself.
WIDER = """[...document.querySelectorAll("body *")].filter(each => each.getBoundingClientRect().right > innerWidth + 1
  && getComputedStyle(each).display !== "inline" && !each.closest(".wide table"))
  .map(each => each.outerHTML.slice(0, 80))"""
H1 = "document.querySelector('h1').textContent"
MAIN = "document.querySelector('main').textContent"  # not the body's: that has the script's own words
ANSWERS = """[...[...document.querySelectorAll("section")].find(each => each.firstChild.textContent === "The answer")
  .querySelectorAll(".passage")]"""
MOVED = "new Promise(done => { addEventListener('hashchange', () => setTimeout(done), {once: true}); %s; })"


def setUpModule() -> None:
    """One browser for all classes: to start one takes longer than the tests."""
    if chromium():
        InChromium.browser = Browser()
        unittest.addModuleCleanup(InChromium.browser.close)


@unittest.skipUnless(chromium(), "needs chromium")
class InChromium(unittest.TestCase):
    """What the tests in a browser share."""

    browser: ClassVar[Browser]
    folder: ClassVar[str]
    published: ClassVar[str]  # the address of its page

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.published = cls.saved("published.html", filled(published()))

    @classmethod
    def saved(cls, name: str, text: str | bytes) -> str:
        """The address of a new file."""
        path = os.path.join(cls.folder, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        return f"file://{path}"

    def setUp(self) -> None:
        self.browser.look()

    def open(self, url: str) -> None:
        self.browser.open(url)

    def value(self, script: str) -> Any:
        return self.browser.run(script)

    def assert_quiet(self) -> None:
        """Nothing was complained of, nothing ran that was text, and nothing was asked for but the page."""
        self.assertEqual(self.browser.complaints, [])
        self.assertEqual(self.value("typeof window.canary"), "undefined")
        self.assertEqual([url for url in self.browser.requests if not url.startswith("file:")], [])
        self.assertEqual(len(self.browser.requests), 1)

    def assert_fits(self) -> None:
        """Nothing is wider than the window."""
        self.assertEqual(self.value(WIDER), [])
        self.assertLessEqual(self.value("document.documentElement.scrollWidth"), self.browser.width)


class Views(InChromium):
    """Each view, as a person meets it."""

    def test_every_view_opens_and_fits_on_desk_phone_and_paper_in_light_and_dark(self) -> None:
        for width, scheme, medium in ((1200, "light", "screen"), (360, "dark", "screen"), (700, "light", "print")):
            self.browser.look(width, scheme, medium)
            self.open(self.published)
            for name, address in VIEWS.items():
                with self.subTest(name, width=width, medium=medium):
                    self.browser.go(address)
                    self.assertNotRegex(self.value(H1), "Nothing stands|cannot be shown")
                    self.assert_fits()
            self.assert_quiet()

    def test_the_overview_counts_what_the_report_holds(self) -> None:
        self.open(self.published)
        rows = self.value("[...document.querySelector('table').rows].map(row =>"
                          " [...row.cells].map(cell => cell.textContent))")
        self.assertEqual([" ".join(row[1:]) for row in rows[1:7]], ["4 4", "2 3", "2 1", "0 0", "0 0", "8 8"])
        self.assertEqual(rows[7][1:], ["4 of 8 = 50.0\xa0%"] * 2)
        self.assertEqual(rows[8][1:], ["21.5\xa0% to 78.5\xa0%"] * 2)
        self.assertEqual(self.value("document.querySelectorAll('.matrix td a').length"), 16)
        self.assertEqual(self.value("document.querySelector('.matrix th a').hash"),
                         "#compare/overwrite-fixed-1/overwrite-agent-1")
        self.assertEqual(self.value("document.querySelectorAll('.plots svg').length"), 5)
        self.assertNotIn("names no first causes", self.value(MAIN))
        given = published()
        for each in given["report"]["trials"]:
            del each["cause"]
        self.open(self.saved("causeless.html", filled(given)))
        self.assertIn("names no first causes", self.value(MAIN))

    def test_first_causes_are_counted_by_stage_and_path(self) -> None:
        given = published()
        for each in given["report"]["trials"]:
            if each["checks"]["outcome"] != "pass":
                each["cause"] = {"stage": "abstention", "why": "because", "symptoms": ["one", "two"]}
        self.open(self.saved("causes.html", filled(given)))
        cells = self.value("[...document.querySelectorAll('table')].find(each => each.textContent.includes('by stage'))"
                           ".rows[1].textContent")
        self.assertIn("abstention", cells)
        self.assertIn("4: ", cells)
        self.browser.go("#unsupported-agent-1")
        self.assertIn("because", self.value(MAIN))
        self.assertIn("one; two", self.value(MAIN))

    def test_an_exchange_shows_what_its_request_added(self) -> None:
        self.open(self.published + "#overwrite-agent-1/exchange-3")
        added = self.value("[...document.querySelectorAll('.change.added')].map(each => each.textContent)")
        self.assertEqual(len(added), 2)
        self.assertIn('{"read":{"source_id":"path-write"', added[0])
        self.assertIn('{"left":', added[1])
        gone = self.value("[...document.querySelectorAll('.change.gone')].map(each => each.textContent)")
        self.assertEqual(len(gone), 1)
        self.assertIn('{"left":', gone[0])
        self.value("[...document.querySelectorAll('button')].find(each => each.textContent === 'Copy request').click()")
        self.value("new Promise(done => setTimeout(done, 50))")
        self.assertRegex(self.value("document.getElementById('said').textContent"), "^Copied: request")
        self.assert_quiet()

    def test_an_exchange_tells_of_every_attempt(self) -> None:
        name, exchanges = "case-agent-1", {"trial": "case-agent-1", "exchange": 1}
        events = [{"event": "request", **exchanges, "attempt": 1, "sha256": "abc", "request": {"text": "a\nb"}},
                  {"event": "error", **exchanges, "attempt": 1, "elapsed": 1, "kind": "timeout", "message": "late"},
                  {"event": "retry", **exchanges, "attempt": 2, "why": "resend"},
                  {"event": "request", **exchanges, "attempt": 2, "sha256": "abc", "request": {"text": "a\nb"}},
                  {"event": "response", **exchanges, "attempt": 2, "elapsed": 2, "status": 503, "text": "busy <b>"}]
        given = {"report": {"trials": [trial(name)]}, "exchanges": events}
        self.open(self.saved("attempts.html", filled(given)) + f"#{name}/exchange-1")
        self.assertIn("\u2717 timeout late, then sent again (resend), then status 503", self.value(MAIN))
        self.assertIn("busy <b>", self.value("[...document.querySelectorAll('pre')].map(each => each.textContent)"))
        self.assert_quiet()

    def test_two_repeats_have_their_differences_marked(self) -> None:
        self.open(self.published + VIEWS["two repeats"])
        facts = self.value("[...document.querySelectorAll('tbody tr')].map(row => row.cells[0].textContent)")
        self.assertIn("Outcome \u2260 differs", facts)
        self.assertIn("Read = same", facts)
        self.assertGreater(self.value("document.querySelectorAll('.pair del').length"), 0)
        steps = "[...document.querySelectorAll('.pair h3')].slice(2).map(each => each.textContent)"
        self.assertEqual(self.value(steps), ["1. \u2260 differs", "2. = same", "3. \u2260 differs", "4. \u2260 differs",
                                             "5. \u2260 differs"])
        self.browser.go(VIEWS["two paths"])
        self.assertEqual(self.value(steps)[-1], "6. \u2260 differs")  # both answer, in other words
        self.browser.go("#compare/overwrite-agent-1/overwrite-agent-1")
        self.assertEqual(self.value("document.querySelectorAll('.differs, ins, del').length"), 0)


    def test_what_two_lists_have_in_common_is_the_longest_there_is(self) -> None:
        chance = random.Random(4)
        self.open(self.saved("alone.html", page()))
        pairs = [["".join(chance.choices("abc", k=chance.randrange(9))) for _ in "ab"] for _ in range(60)]
        told = self.value(f"{json.dumps(pairs)}.map(([a, b]) => align([...a], [...b]))")
        for (a, b), rows in zip(pairs, told, strict=True):
            with self.subTest(a=a, b=b):
                self.assertEqual(["".join(row[side] or "" for row in rows) for side in "ab"], [a, b])
                self.assertEqual(sum(row["a"] is not None and row["a"] == row["b"] for row in rows), in_common(a, b))


def in_common(a: str, b: str) -> int:
    """The length of the longest common subsequence, by its definition."""
    if not a or not b:
        return 0
    return in_common(a[1:], b[1:]) + 1 if a[0] == b[0] else max(in_common(a[1:], b), in_common(a, b[1:]))


class Stories(InChromium):
    """What the page makes of decisions and observations."""

    def endings(self, trials: list[dict[str, Any]]) -> list[Any]:
        self.open(self.saved("stories.html", filled({"report": {"trials": trials}, "exchanges": []})))
        return list(self.value("lab.trials.map(trial => stepsOf(trial).map(step => [step.title, step.ruling &&"
                               " step.ruling.verdict, step.ruling && step.ruling.rule, step.exchange]))"))

    def test_the_last_step_names_why_each_trial_ended(self) -> None:
        cases: list[tuple[str, dict[str, Any] | None, str]] = [
            ("duplicate_query", decision("search", query="q"), "Refused"),
            ("search_limit", decision("search", query="q"), "Refused"),
            ("search_failed", decision("search", query="q"), "Admitted, and the tool failed"),
            ("fixed_policy_tool_request", decision("read", source_id="p"), "Refused"),
            ("unissued_source", decision("read", source_id="p"), "Refused"),
            ("duplicate_read", decision("read", source_id="p"), "Refused"),
            ("read_or_byte_limit", decision("read", source_id="p"), "Refused"),
            ("changed_read", decision("read", source_id="p"), "Admitted, and the tool failed"),
            ("unread_or_changed_citation", decision("answer", answer="a"), "Refused"),
            ("trivial_citation", decision("answer", answer="a"), "Refused"),
            ("model_stopped", decision("stop"), "Accepted"),
            ("invalid_decision", None, "Refused"),
            ("unknown_action", None, "Refused"),
            ("invalid_citation", None, "Refused"),
            ("unexpected_action_fields", None, "Refused"),
            ("invalid_query", None, "Refused"),
            ("invalid_source", None, "Refused"),
            ("missing_answer_evidence", None, "Refused"),
            *((reason, None, "Ended") for reason in (
                "deadline", "model_call_limit", "unfinished_model_reply", "model_transport_failed:timeout",
                "provider_input_bytes_limit", "provider_response_bytes_limit", "batch_request_limit",
                "token_budget_limit", "cost_budget_limit", "replay_request_mismatch", "replay_exhausted",
                "reply_in_doubt"))]
        named = {reason.partition(":")[0] for reason, _, _ in cases} | {"citation_contract_passed"}
        self.assertEqual(named, {str(each) for each in agent.Reason if each.status})
        before = decision("search", query="before")
        trials = [trial(f"case{at}-agent-1", reason=reason, decisions=[before, *([last] if last else [])],
                        observations=[search("before", "p")], status="failed")
                  for at, (reason, last, _) in enumerate(cases)]
        for (reason, _, verdict), steps in zip(cases, self.endings(trials), strict=True):
            with self.subTest(reason):
                self.assertEqual(steps[0], ["The model proposes to search", "Admitted", None, 1])
                self.assertEqual((len(steps), *steps[-1][1:3]), (2, verdict, reason))

    def test_a_call_that_gave_no_decision_still_has_its_exchange(self) -> None:
        usage = {"model_calls": 2, "searches": 0, "reads": 0, "source_bytes": 0}
        sent = trial("sent-agent-1", reason="invalid_decision", usage=usage, decisions=[decision("stop")])
        unsent = trial("unsent-agent-1", reason="model_call_limit", usage={**usage, "model_calls": 1})
        self.assertEqual([steps[-1][3] for steps in self.endings([sent, unsent])], [2, None])

    def test_code_acts_before_the_model_on_the_fixed_path(self) -> None:
        steps = self.endings([answered("case-fixed-1", "Some text to quote.", ["text to quote"])])[0]
        self.assertEqual([step[0] for step in steps], ["Code searches the question", "Code reads a candidate",
                                                       "The model proposes an answer"])

    def test_the_allowance_after_each_step_is_what_the_controller_had_left(self) -> None:
        self.open(self.published)
        used = self.value("lab.trials.map(trial => stepsOf(trial).map(step => step.used))")
        for each, steps in zip(published()["report"]["trials"], used, strict=True):
            limits = each["result"]["limits"]
            told = [{name: limits[name] - left for name, left in at.items()} for at in lefts(each["id"])]
            asked = [at for at in steps if at["model_calls"]]
            with self.subTest(each["id"]):
                self.assertEqual(steps[-1], each["result"]["usage"])
                # What a request says is left counts the call it is: its step has used one more.
                for before, after in zip(told[1:], asked, strict=False):
                    self.assertEqual({name: after[name] for name in before}, before)


def lefts(name: str) -> list[dict[str, int]]:
    """What each request of an agent's trial says is left."""
    requests = [event["request"] for event in published()["exchanges"]
                if event["event"] == "request" and event["trial"] == name]
    last = [request["contents"][0]["parts"][0]["text"].rpartition("\n")[2] for request in requests]
    return [json.loads(line)["left"] for line in last] if "-agent-" in name else []


class Quotes(InChromium):
    """Quotes stand where they stand, counted in code points."""

    def marked(self) -> list[tuple[str, list[set[int]]]]:
        """Each passage of the answer: its text, and for each code point the numbers of the quotes it is in."""
        pieces = self.value(f"{ANSWERS}.map(each => [...each.childNodes].map(node =>"
                            " [node.textContent, node.dataset ? node.dataset.numbers || '' : '']))")
        return [("".join(piece for piece, _ in passage),
                 [{int(number) for number in numbers.split(",") if number}
                  for piece, numbers in passage for _ in piece]) for passage in pieces]

    def assert_marked(self, text: str, quotes: list[str], given: tuple[str, list[set[int]]]) -> None:
        places = [(text.index(quote), text.index(quote) + len(quote)) for quote in quotes]
        self.assertEqual(given[0], text)
        self.assertEqual(given[1], [{number for number, (start, end) in enumerate(places, 1) if start <= at < end}
                                    for at in range(len(text))])

    def test_the_published_quotes_are_marked_letter_for_letter(self) -> None:
        self.open(self.published)
        for each in published()["report"]["trials"]:
            result = each["result"]
            if result["status"] != "answered":
                continue
            reads = [at["result"] for at in result["observations"] if at["tool"] == "read"]
            texts = {at["source_id"]: at["text"] for at in reads}
            with self.subTest(each["id"]):
                self.browser.go(f"#{each['id']}")
                cited = list(dict.fromkeys(at["source_id"] for at in result["citations"]))
                marked = self.marked()
                self.assertEqual([text for text, _ in marked], [texts[name] for name in cited])
                for name, given in zip(cited, marked, strict=True):
                    quotes = [at["quote"] if at["source_id"] == name else "" for at in result["citations"]]
                    self.assert_marked(texts[name], quotes, given)

    def test_repeated_overlapping_and_wide_quotes_are_marked_at_their_first_place(self) -> None:
        face = "\U0001f600"
        tables: list[tuple[str, list[str]]] = [
            ("one two one two", ["one two"]),
            ("one two three four", ["one two three", "two three four", "two"]),
            ("one two", ["one two", "one two"]),
            (f"{face}{face} one {face} two", [f"one {face}", f"{face} two"]),
            (f"{face}\u0301 e\u0301 caf\u00e9", ["caf\u00e9", "e\u0301 c"]),
            ("\u4f60\u597d\u4e16\u754c\n\u4f60\u597d", ["\u4e16\u754c\n\u4f60"]),
            ("\u0645\u0631\u062d\u0628\u0627 <b>bold</b> &amp;", ["\u0628\u0627 <b>", "&amp;"]),
            ("all of it", ["all of it"]),
        ]
        for at, (text, quotes) in enumerate(tables):
            with self.subTest(text=text, quotes=quotes):
                made = answered("case-fixed-1", text, quotes)
                self.open(self.saved(f"quotes-{at}.html", filled({"report": {"trials": [made]}})) + "#case-fixed-1")
                self.assert_marked(text, quotes, self.marked()[0])
                start = text.find(quotes[0])
                end = start + len(quotes[0])
                self.assertIn(f"characters {start} to {end}", self.value(MAIN))

    def test_a_quote_that_is_not_there_is_said_to_be_missing(self) -> None:
        made = answered("case-fixed-1", "Some text.", ["other words"])
        self.open(self.saved("missing.html", filled({"report": {"trials": [made]}})) + "#case-fixed-1")
        self.assertIn("not in the passage as it was read", self.value(MAIN))
        self.assertEqual(self.value("document.querySelectorAll('mark').length"), 0)


class Addresses(InChromium):
    """Filters, addresses, history and keys."""

    def choose(self, name: str, value: str) -> None:
        self.value(MOVED % f"const select = document.getElementById('filter-{name}'); select.focus();"
                   f" select.value = '{value}'; select.dispatchEvent(new Event('change'))")

    def rows(self) -> list[str]:
        return list(self.value("[...document.querySelectorAll('a.trial')].map(each => each.textContent)"))

    def test_filters_narrow_the_trials_and_stand_in_the_address(self) -> None:
        trials = published()["report"]["trials"]
        self.open(self.published)
        self.assertEqual(len(self.rows()), 16)
        self.choose("outcome", "fail")
        self.assertEqual(self.rows(), [each["id"] for each in trials if each["checks"]["outcome"] == "fail"])
        self.assertEqual(self.value("document.activeElement.id"), "filter-outcome")
        self.choose("path", "agent")
        self.choose("reason", "duplicate_query")
        self.assertEqual(self.rows(), ["newline-version-agent-1"])
        self.assertEqual(self.value("location.hash"), "#overview?outcome=fail&path=agent&reason=duplicate_query")
        self.assertRegex(self.value("document.getElementById('said').textContent"), "^1 of 16 trials")
        self.open(self.published + "#overview?case=unsupported")
        self.assertEqual(len(self.rows()), 4)
        self.assertEqual(self.value("document.getElementById('filter-case').value"), "unsupported")

    def test_every_trial_and_step_opens_by_its_address_and_history_goes_both_ways(self) -> None:
        self.open(self.published + "#serialize-and-save-agent-1/4")
        self.assertEqual(self.value("document.activeElement.id"), "step-4")
        self.assertEqual(self.value("document.querySelectorAll('.step').length"), 6)
        self.browser.go("#provenance")
        self.value(MOVED % "history.back()")
        self.assertEqual(self.value("document.activeElement.id"), "step-4")
        self.value(MOVED % "history.forward()")
        self.assertEqual(self.value(H1), "Where this comes from")
        for wrong in ("#nobody", "#serialize-and-save-agent-1/exchange-99", "#%E0%A4%A", "#compare%20/x/y"):
            self.browser.go(wrong)
            self.assertIn("Nothing stands", self.value(H1))
        self.assert_quiet()

    def test_a_trial_that_is_called_like_a_view_has_an_address_too(self) -> None:
        trials = [{**trial("case-agent-1"), "id": name} for name in ("overview", "compare", "a/b c?d#e%20", "\ud800")]
        self.open(self.saved("names.html", filled({"report": {"trials": trials}})))
        for at, link in enumerate(self.value("[...document.querySelectorAll('a.trial')].map(each => each.hash)")):
            self.browser.go(link)
            self.assertEqual(self.value(H1), "case, agent path, repeat 1")
            self.assertTrue(self.value(f"document.title.startsWith(lab.trials[{at}].id)"))

    def test_keys_go_everywhere_and_can_be_switched_off(self) -> None:
        self.open(self.published + "#newline-version-agent-1")
        for key, address in (("j", "#newline-version-agent-1/1"), ("j", "#newline-version-agent-1/2"),
                             ("k", "#newline-version-agent-1/1"), ("r", "#newline-version-agent-1/exchange-1"),
                             ("o", "#overview"), ("p", "#provenance")):
            self.browser.key(key)
            self.value("new Promise(done => setTimeout(done, 20))")
            self.assertEqual(self.value("location.hash"), address, key)
        self.browser.go("#newline-version-agent-1")
        for key, address in (("]", "#unsupported-fixed-1"), ("[", "#newline-version-agent-1"),
                             ("c", "#compare/newline-version-agent-1/newline-version-fixed-1")):
            self.browser.key(key)
            self.value("new Promise(done => setTimeout(done, 20))")
            self.assertEqual(self.value("location.hash"), address, key)
        self.browser.key("?")
        self.assertEqual(self.value("document.getElementById('help').open"), True)
        self.value("document.getElementById('keys').checked = false; document.getElementById('help').close()")
        self.browser.key("o")
        self.assertIn("#compare", self.value("location.hash"))
        self.assert_quiet()


class Hostile(InChromium):
    """Text that others wrote is text; files that others made are told of in words."""

    def test_hostile_text_shows_as_text_and_runs_nothing(self) -> None:
        given = hostile()
        self.browser.look(360)
        self.open(self.saved("hostile.html", filled(given)))
        self.assert_fits()
        self.assertEqual(self.value("lab.trials.length"), 2 * len(HOSTILE))
        addresses = self.value("lab.trials.flatMap(trial => [address(trial.id), address(trial.id, 'exchange-2'),"
                               " address('compare', trial.id, lab.trials[0].id)])")
        for address in ["#provenance", *addresses]:
            self.browser.go(address)
            self.assertNotRegex(self.value(H1), "Nothing stands|cannot be shown")
            self.assertEqual(self.value(WIDER), [], address[:60])
        self.assert_quiet()
        for name in ("script", "closing", "attribute", "arabic", "chinese", "long", "emoji"):
            self.browser.go(self.value(f"address({json.dumps(HOSTILE[name] + '-fixed-1')})"))
            self.assertIn(HOSTILE[name], self.value("document.querySelector('.question').textContent"), name)
        made = "img, iframe, main script, main style, [onerror], [onload], [onmouseover]"
        self.assertEqual(self.value(f"document.querySelectorAll('{made}').length"), 0)
        self.browser.go("#provenance")
        self.assertEqual(self.value("[...document.querySelectorAll('main a')].filter(each => !/^#/.test("
                                    "each.getAttribute('href')) && !/^https?:/.test(each.href)).length"), 0)

    def test_the_policy_holds_even_when_something_of_a_text_became_markup(self) -> None:
        foreign = f"<script>{CANARY}</script><img src=x onerror='{CANARY}'><style>h1 {{ color: red }}</style></body>"
        self.open(self.saved("markup.html", page().replace("</body>", foreign)))
        self.assertEqual(self.value("typeof window.canary"), "undefined")
        self.assertNotEqual(self.value("getComputedStyle(document.querySelector('h1')).color"), "rgb(255, 0, 0)")
        self.assertGreaterEqual(len(self.browser.complaints), 3)
        for code in ("document.body.innerHTML = '<b>'", "setTimeout('1')", "await fetch('http://127.0.0.1:9/')"):
            told = self.value(f"(async () => {{ {code} }})().then(() => 'ran', error => String(error))")
            self.assertRegex(told, "TrustedHTML|TrustedScript|Failed to fetch", code)

    def test_what_cannot_be_seen_is_named(self) -> None:
        self.open(self.saved("odd.html", page()))
        for text, shown in ((HOSTILE["bidi"], "left U+202Eright"), ("\x00" * 3, "U+0000 \xd73"), ("a\u200b", "aU+200B"),
                            ("\ufeff", "U+FEFF"), ("\r", "U+000D"), ("\U000e0041", "U+E0041"), ("\u3164", "U+3164"),
                            ("\ud800", "U+D800"), ("\u2066", "U+2066"), ("a\n\tb", "a\n\tb"),
                            ("\u2764\ufe0f", "\u2764\ufe0f"), (HOSTILE["emoji"],) * 2, ("x\ufe0f", "xU+FE0F"),
                            ("x\u200dy", "xU+200Dy")):
            with self.subTest(text=text):
                self.assertIn(shown, self.value(f"said({json.dumps(text)}).textContent"))

    def test_files_chosen_from_disk_are_shown_and_their_faults_told(self) -> None:
        given = published()
        report = json.dumps(given["report"])
        lines = "\n".join(json.dumps(event) for event in given["exchanges"]) + "\n"
        tables: list[tuple[dict[str, str | bytes], str]] = [
            ({"report.json": report}, "exchanges are not loaded"),
            ({"report.json": "\ufeff" + report, "exchanges.jsonl": lines}, "16 trials of 4 cases"),
            ({"renamed.txt": report, "other": lines + '{"event": "requ'}, "names no trial and exchange"),
            ({"exchanges.jsonl": lines}, "The report.json of these exchanges is missing"),
            ({"report.json": ""}, "report.json: it is not JSON"),
            ({"report.json": "[1, 2"}, "report.json: it is not JSON"),
            ({"report.json": b"\xff\xfe{}"}, "it is not UTF-8"),
            ({"manifest.json": '{"format": 1}'}, "neither trials nor exchanges"),
            ({"x.jsonl": "a\nb"}, "no line of it is an exchange"),
            ({"report.json": '{"trials": 3}'}, "neither trials nor exchanges"),
            ({"report.json": '{"trials": []}'}, "0 trials"),
            ({"report.json": '{"trials": [1, null, {}, {"result": []}]}'}, "Trial 1 has no result"),
            ({"report.json": json.dumps({"trials": [trial("a-b-1"), trial("a-b-1")]})}, "stands twice"),
            ({"<img src=x onerror=canary=1>.json": "no"}, "<img src=x onerror=canary=1>.json: it is not JSON"),
        ]
        url = f"file://{os.path.join(ROOT, 'recordings', 'viewer.html')}"
        for files, told in tables:
            with self.subTest(told), tempfile.TemporaryDirectory() as folder:
                for name, text in files.items():
                    with open(os.path.join(folder, name), "wb") as file:
                        file.write(text if isinstance(text, bytes) else text.encode())
                self.open(url)
                self.assertEqual(self.value(H1), "Open a recording")
                self.value("const before = document.querySelector('main').firstChild")
                self.browser.choose("input[type=file]", [os.path.join(folder, name) for name in files])
                self.value("new Promise(done => { const look = () => before.isConnected ? setTimeout(look, 5) : done();"
                           " look(); })")
                self.assertIn(told, self.value(MAIN))
                self.assert_quiet()

    def test_files_can_be_dropped_on_any_view(self) -> None:
        self.open(self.published + "#provenance")
        report = {"recording": "dropped", "trials": [trial("a-agent-1")]}
        self.value(f"""(() => {{ const given = new DataTransfer();
          given.items.add(new File([{json.dumps(json.dumps(report))}], "report.json"));
          given.items.add(new File(["?"], "other.txt"));
          dispatchEvent(new DragEvent("drop", {{dataTransfer: given, cancelable: true}}));
          return new Promise(done => addEventListener("hashchange", () => setTimeout(done), {{once: true}})); }})()""")
        self.assertEqual(self.value(H1), "Recording: dropped")
        self.assertIn("other.txt: it is not JSON", self.value(MAIN))
        self.assertEqual(self.value("lab.exchanges.size"), 0)  # none of the recording that was open before
        self.assert_quiet()

    def test_what_the_place_was_filled_with_may_be_broken(self) -> None:
        for at, text in enumerate(("{", "3", "[]", '{"report": 1}')):
            self.open(self.saved(f"broken-{at}.html", page().replace(PLACE, PLACE.replace("></", f">{text}</"))))
            self.assertIn("cannot be read", self.value(MAIN))
            self.assert_quiet()

    def test_a_value_nested_without_end_breaks_its_view_and_no_more(self) -> None:
        deep = '{"report": {"trials": [], "environment": ' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "}}"
        self.open(self.saved("deep.html", page().replace(PLACE, PLACE.replace("></", f">{deep}</"))))
        self.browser.go("#provenance")
        self.assertEqual(self.value(H1), "This view cannot be shown")
        self.assert_quiet()

    def test_a_report_with_any_value_wrong_raises_nothing(self) -> None:
        chance = random.Random(6)
        junk: list[Any] = [None, 0, -1, 1e300, "", "x", [], {}, [None], {"a": []}, True, [[1]], "\ud800", "__proto__"]
        given = published()
        given["report"]["trials"] = given["report"]["trials"][4:8]
        names = {each["id"] for each in given["report"]["trials"]}
        given["exchanges"] = [event for event in given["exchanges"] if event["trial"] in names][:8]
        self.open(self.saved("fuzz.html", page()))
        for _ in range(25):
            wrong = copy.deepcopy(given)
            for _ in range(chance.randrange(1, 6)):
                spoil(wrong, chance, junk)
            self.value(f"""(given => {{ if (!isObject(given) || !isObject(given.report)) return;
              opened(given);
              for (const trial of lab.trials) {{
                found({{view: trial.id, parts: [trial.id], query: ""}});
                found({{view: "compare", parts: ["compare", trial.id, lab.trials[0].id], query: ""}});
                (lab.exchanges.get(trial.id) || []).forEach(each => exchangeView(trial, each.number));
              }}
              provenanceView(); }})({json.dumps(wrong)})""")
        self.assertEqual(self.browser.complaints, [])


def spoil(value: Any, chance: random.Random, junk: list[Any]) -> None:
    """Put something wrong at a random place inside."""
    while True:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        if not keys:
            return
        key = chance.choice(list(keys))
        if not isinstance(value[key], (dict, list)) or chance.random() < 0.15:
            value[key] = chance.choice(junk)
            return
        value = value[key]


class Large(InChromium):
    def test_two_hundred_trials_open_and_filter(self) -> None:
        self.open(self.saved("large.html", filled(many(200))))
        self.assertEqual(self.value("document.querySelectorAll('a.trial').length"), 200)
        self.browser.go("#overview?outcome=fail&path=agent")
        self.assertEqual(self.value("document.querySelectorAll('a.trial').length"), 38)
        self.assert_quiet()


def axe() -> str:
    """The path of axe.min.js, or an empty text."""
    path = os.environ.get("AXE_CORE", "")
    if not path and (npm := shutil.which("npm")):
        root = subprocess.run([npm, "root", "-g"], capture_output=True, text=True, check=False).stdout.strip()
        path = os.path.join(root, "axe-core", "axe.min.js")
    if os.path.isdir(path):
        path = os.path.join(path, "axe.min.js")
    return path if os.path.isfile(path) else ""


class Accessible(InChromium):
    def test_axe_finds_no_violation_in_any_view_in_light_and_dark(self) -> None:
        path = axe()
        if not path:
            self.skipTest("needs axe-core")
        with open(path, encoding="utf-8") as file:
            source = file.read()
        given = published()
        given["report"]["trials"][4]["cause"] = {"stage": "answer", "why": "because", "symptoms": ["one"]}
        whole = self.saved("axe.html", filled(given))
        alone = self.saved("alone.html", page())
        for width, scheme in ((1200, "light"), (1200, "dark"), (360, "light")):
            self.browser.look(width, scheme)
            for url, views in ((whole, VIEWS), (alone, {"empty": "", "help": ""})):
                self.open(url)
                self.value(source + "\n0")
                for name, address in views.items():
                    with self.subTest(name, width=width, scheme=scheme):
                        if address:
                            self.browser.go(address)
                        if name == "help":
                            self.value("document.getElementById('help').showModal()")
                        found = self.value("axe.run().then(told => told.violations.map(each => [each.id,"
                                           " each.nodes.map(node => node.html.slice(0, 120) + node.failureSummary)]))")
                        self.assertEqual(found, [])
            self.assertEqual(self.browser.complaints, [])


if __name__ == "__main__":
    unittest.main()
