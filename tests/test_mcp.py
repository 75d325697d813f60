"""Serving the tools over MCP: a raw conversation of each era, what is refused and how, and the official clients."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from typing import Any

import agent
import retrieval
import run
import tools
from tests.support import ROOT, environment

META = "io.modelcontextprotocol/"
ENVELOPE = {
    f"{META}protocolVersion": "2026-07-28",
    f"{META}clientInfo": {"name": "test", "version": "0"},
    f"{META}clientCapabilities": {},
}
SERVE = [sys.executable, os.path.join(ROOT, "run.py"), "mcp"]


def published() -> retrieval.Index:
    with open(os.path.join(ROOT, "snapshot.json"), "rb") as file:
        return retrieval.Index(retrieval.load_snapshot(agent.load_json(file.read())))


def passage(source_id: str, text: str, version: str = "1", **more: Any) -> retrieval.Passage:
    sha256 = retrieval.text_sha256(text)
    return retrieval.Passage(source_id, version, text, f"https://e.example/{source_id}", sha256, **more)


def request(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", name=name, arguments=arguments)


class Serving(unittest.TestCase):
    def setUp(self) -> None:
        self.index = published()
        self.addCleanup(lambda: self.index.close())  # whichever it is then

    def ask(self, message: Any) -> Any:
        """The parsed answer to a message, which is JSON or a line as it is."""
        line = message if isinstance(message, (str, bytes)) else json.dumps(message)
        told = tools.reply(line, self.index)
        self.assertTrue(told is None or (told.isascii() and "\n" not in told), told)
        return None if told is None else json.loads(told)

    def code(self, message: Any) -> tuple[int, Any]:
        told = self.ask(message)
        self.assertEqual(["jsonrpc", "id", "error"], list(told))
        return told["error"]["code"], told["id"]

    def refused(self, name: str, **arguments: Any) -> str:
        told = self.ask(call(name, **arguments))["result"]
        self.assertTrue(told["isError"])
        self.assertNotIn("structuredContent", told)
        return str(told["content"][0]["text"])


class Sessions(Serving):
    """Up to 2025-11-25."""

    def test_a_whole_conversation(self) -> None:
        opened = self.ask(request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={}))
        self.assertEqual("2025-11-25", opened["result"]["protocolVersion"])
        self.assertEqual({"tools": {}}, opened["result"]["capabilities"])
        self.assertEqual({"name", "version"}, set(opened["result"]["serverInfo"]))
        self.assertIsNone(self.ask({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        self.assertEqual({"jsonrpc": "2.0", "id": "p", "result": {}}, self.ask(request("ping", "p")))
        listed = self.ask(request("tools/list"))["result"]
        self.assertEqual(["search", "read"], [tool["name"] for tool in listed["tools"]])
        self.assertEqual(["tools"], list(listed))
        found = self.ask(call("search", query="overwrite an existing file", version="3.12", limit=2))["result"]
        self.assertFalse(found["isError"])
        self.assertEqual(found["structuredContent"], json.loads(found["content"][0]["text"]))
        handle = found["structuredContent"]["candidates"][0]
        self.assertEqual(("path-write", 1, 224), (handle["source_id"], handle["rank"], handle["text_bytes"]))
        self.assertNotIn("text", handle)
        read = self.ask(call("read", **{at: handle[at] for at in ("source_id", "version", "text_sha256")}))["result"]
        text = read["structuredContent"]["text"]
        self.assertIn("An existing file is overwritten.", text)
        self.assertEqual(handle["text_sha256"], retrieval.text_sha256(text))

    def test_the_revision_is_negotiated(self) -> None:
        for asked, given in (
            ("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"), ("2026-07-28", "2025-11-25"), ("1999-01-01", "2025-11-25"),
            ("", "2025-11-25"),
        ):
            with self.subTest(asked):
                told = self.ask(request("initialize", protocolVersion=asked))["result"]
                self.assertEqual(given, told["protocolVersion"])
        wrong: tuple[dict[str, Any], ...] = ({}, {"protocolVersion": None}, {"protocolVersion": 1})
        for params in wrong:
            with self.subTest(params):
                self.assertEqual((-32602, 1), self.code(request("initialize", **params)))

    def test_a_batch_is_answered_as_a_batch(self) -> None:
        silent = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        told = self.ask([request("ping", 1), silent, request("ping", "b"), 7])
        self.assertEqual([1, "b", None], [answer["id"] for answer in told])
        self.assertEqual(-32600, told[2]["error"]["code"])
        self.assertIsNone(self.ask([silent, silent]))
        for batch in ([], [request("ping")] * (tools.MOST_BATCHED + 1)):
            self.assertEqual((-32600, None), self.code(batch))
        stateless = request("ping", _meta=ENVELOPE)
        opened = request("initialize", protocolVersion="2025-03-26")
        for message in (stateless, opened):
            self.assertEqual(-32600, self.ask([message])[0]["error"]["code"])


class Stateless(Serving):
    """From 2026-07-28."""

    def test_a_whole_conversation(self) -> None:
        told = self.ask(request("server/discover", _meta=ENVELOPE))["result"]
        self.assertEqual(["2026-07-28"], told["supportedVersions"])
        self.assertEqual({"tools": {}}, told["capabilities"])
        listed = self.ask(request("tools/list", _meta=ENVELOPE))["result"]
        self.assertEqual(["search", "read"], [tool["name"] for tool in listed["tools"]])
        for cached in (told, listed):
            self.assertEqual((0, "private"), (cached["ttlMs"], cached["cacheScope"]))
        found = self.ask(request("tools/call", name="search", _meta=ENVELOPE, arguments={
            "query": "append or overwrite", "version": "3.12"}))["result"]
        handle = found["structuredContent"]["candidates"][0]
        read = self.ask(request("tools/call", name="read", _meta=ENVELOPE, arguments={
            "source_id": handle["source_id"], "text_sha256": handle["text_sha256"]}))["result"]
        for result in (told, listed, found, read):
            self.assertEqual("complete", result["resultType"])
            self.assertEqual(tools.SERVER, result["_meta"][f"{META}serverInfo"])

    def test_an_unknown_revision_is_told_the_known_ones(self) -> None:
        for method in ("server/discover", "tools/list", "ping", "no/such"):
            for version in ("2027-01-01", "2025-11-25", "x"):
                with self.subTest(method, version=version):
                    told = self.ask(request(method, _meta={**ENVELOPE, f"{META}protocolVersion": version}))["error"]
                    self.assertEqual(-32022, told["code"])
                    self.assertEqual({"supported": ["2026-07-28"], "requested": version}, told["data"])

    def test_an_envelope_that_is_none(self) -> None:
        wrong: tuple[dict[str, Any], ...] = (
            {}, {"_meta": {}}, {"_meta": {f"{META}protocolVersion": 1}}, {"_meta": []})
        for params in wrong:
            with self.subTest(params):
                self.assertEqual((-32602, 1), self.code(request("server/discover", **params)))
        for version, code in ((None, -32602), (1, -32602), ("", -32022)):
            meta = {f"{META}protocolVersion": version}
            self.assertEqual((code, 1), self.code(request("ping", _meta=meta)))

    def test_a_method_that_is_not_there(self) -> None:
        for method in ("resources/list", "subscriptions/listen", "", "notifications/cancelled"):
            self.assertEqual((-32601, 1), self.code(request(method, _meta=ENVELOPE)))
            self.assertEqual((-32601, 1), self.code(request(method)))


class Receipts(Serving):
    def test_refusals_have_the_names_of_the_lab(self) -> None:
        good = {"source_id": "path-write", "text_sha256": "0" * 64}
        for name, arguments, begins in (
            ("search", {}, "invalid_arguments: arguments.query is missing"),
            ("search", {"query": 5}, "invalid_arguments: arguments.query must be of type str"),
            ("search", {"query": " ", "version": "3.12"}, "invalid_arguments: a query has 1 to 2000 "),
            ("search", {"query": "x" * 2001, "version": "3.12"}, "invalid_arguments: a query has 1 to 2000 characters"),
            ("search", {"query": "file"}, 'invalid_arguments: version is "": give one of 3.12, 3.13'),
            ("search", {"query": "file", "version": "9"}, 'invalid_arguments: version is "9": give one of 3.12, 3.13'),
            ("search", {"query": "file", "version": "3.12", "limit": 0}, "invalid_arguments: a query has 1 to 2000 "),
            ("search", {"query": "file", "version": "3.12", "limit": True}, "invalid_arguments: arguments.limit must"),
            ("search", {"query": "file", "k": 1}, "invalid_arguments: arguments has the unknown field"),
            ("read", {"source_id": "path-write"}, "invalid_arguments: arguments.text_sha256 is missing"),
            ("read", {**good, "source_id": "nowhere"}, 'unissued_source: "nowhere" is no passage of version "any"'),
            ("read", {**good, "version": "9"}, 'unissued_source: "path-write" is no passage of version "9"'),
            ("read", good, 'changed_read: "path-write" is not what that text_sha256 is of'),
        ):
            with self.subTest(name, **arguments):
                told = self.refused(name, **arguments)
                self.assertTrue(told.startswith(begins), told)

    def test_a_bad_call_is_an_error_of_the_protocol(self) -> None:
        for params in ({}, {"name": 1}, {"name": "write"}, {"name": "search", "arguments": []},
                       {"name": "search", "arguments": ""}):
            with self.subTest(params):
                self.assertEqual((-32602, 1), self.code(request("tools/call", **params)))
        self.assertEqual((-32602, 1), self.code(request("tools/list", cursor="2")))

    def test_null_is_an_argument_that_was_not_given(self) -> None:
        told = self.ask(call("search", query="overwritten", version="3.12", limit=None))["result"]
        self.assertEqual("found", told["structuredContent"]["outcome"])

    def test_a_passage_that_changed_is_refused_by_any_server(self) -> None:
        first = passage("a", "The first text of this passage.")
        self.index.close()
        self.index = retrieval.Index(retrieval.Snapshot("plain", (first,)))
        handle = self.ask(call("search", query="first text"))["result"]["structuredContent"]["candidates"][0]
        arguments = {at: handle[at] for at in ("source_id", "version", "text_sha256")}
        self.assertEqual(first.text, self.ask(call("read", **arguments))["result"]["structuredContent"]["text"])
        self.index.close()
        self.index = retrieval.Index(retrieval.Snapshot("plain", (passage("a", "Another text."),)))
        self.assertTrue(self.refused("read", **arguments).startswith("changed_read: "))

    def test_what_one_call_hands_out_is_bounded(self) -> None:
        most = tools.PASSAGE_BYTES
        texts = {"fits": "word " * (most // 5), "wide": "w\u00f6rd " * (most // 5)}
        many = [passage(name, text, title="T" * 5000) for name, text in texts.items()]
        many += [passage(f"p{at}", "word", title="t" * 5000) for at in range(50)]
        self.index.close()
        self.index = retrieval.Index(retrieval.Snapshot("plain", tuple(many)))
        sums = {at.source_id: at.text_sha256 for at in many}
        told = self.ask(call("read", source_id="fits", text_sha256=sums["fits"]))
        self.assertLess(len(json.dumps(told)), 3 * most)
        refused = self.refused("read", source_id="wide", text_sha256=sums["wide"])
        self.assertTrue(refused.startswith("read_or_byte_limit: "), refused)
        found = self.ask(call("search", query="word", limit=tools.MOST_HANDLES))["result"]["structuredContent"]
        self.assertEqual(tools.MOST_HANDLES, len(found["candidates"]))
        self.assertEqual({tools.TITLE_CHARACTERS}, {len(at["title"]) for at in found["candidates"]})

    def test_an_index_that_breaks_is_a_refusal(self) -> None:
        class Broken(retrieval.Index):
            def passage(self, source_id: str, version: str) -> retrieval.Passage | None:
                raise retrieval.SearchFailed("row 1 of the snapshot is damaged")

        self.index.close()
        self.index = Broken(retrieval.Snapshot("plain", (passage("a", "Some text."),)))
        told = self.refused("read", source_id="a", text_sha256="0")
        self.assertEqual("search_failed: row 1 of the snapshot is damaged", told)

    def test_nothing_found_says_why(self) -> None:
        for query, outcome in (("zzzz", "nothing_matched"), ("?!", "no_searchable_term")):
            told = self.ask(call("search", query=query, version="3.12"))["result"]["structuredContent"]
            self.assertEqual((outcome, []), (told["outcome"], told["candidates"]))
            self.assertNotIn("hint", told)
        told = self.ask(call("search", query="\u6587\u5b57", version="3.12"))["result"]["structuredContent"]
        self.assertEqual("nothing_matched", told["outcome"])
        self.assertIn("without spaces", told["hint"])

    def test_results_are_of_the_schemas_that_were_shown(self) -> None:
        listed = {tool["name"]: tool for tool in self.ask(request("tools/list"))["result"]["tools"]}
        found = self.ask(call("search", query="file", version="3.12"))["result"]["structuredContent"]
        handle = found["candidates"][0]
        read = self.ask(call("read", source_id=handle["source_id"], text_sha256=handle["text_sha256"]))
        kinds = {"string": str, "integer": int, "array": list}
        candidate = listed["search"]["outputSchema"]["properties"]["candidates"]["items"]
        for form, value in ((listed["search"]["outputSchema"], found), (candidate, handle),
                            (listed["read"]["outputSchema"], read["result"]["structuredContent"])):
            self.assertEqual(set(form["required"]), set(value))
            properties = {name: kinds[at["type"]] for name, at in form["properties"].items() if name in value}
            self.assertEqual(properties, {name: type(one) for name, one in value.items()})
        for tool in listed.values():
            self.assertIn("Nothing is spent and nothing is written.", tool["description"])
            self.assertFalse(tool["inputSchema"]["additionalProperties"])


class Messages(Serving):
    def test_what_is_no_message(self) -> None:
        for line in ("{", "nope", '{"id":1,"id":2}', b"\xff\xfe", '"\\ud800"', "NaN", "[" * 5000, '{"a":1e999}',
                     '{"jsonrpc":"2.0","id":' + "9" * 101 + ',"method":"ping"}', '{"jsonrpc":"2.0","id":1,"met'):
            with self.subTest(line[:40]):
                self.assertEqual((-32700, None), self.code(line))
        for message, number in (
            (5, None), ("text", None), (None, None), ({}, None), ({"jsonrpc": "2.0"}, None), ({"id": 1}, 1),
            ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, 1), ({"jsonrpc": "2.0", "id": 1, "method": 5}, 1),
            (request("ping", None), None), (request("ping", 1.5), None), (request("ping", True), None),
            (request("ping", [1]), None), ({"method": "ping"}, None), (request("ping") | {"params": "p"}, 1),
        ):
            with self.subTest(message):
                self.assertEqual((-32600, number), self.code(message if message != "text" else '"text"'))
        for params in ([], [1]):
            self.assertEqual((-32602, 1), self.code(request("ping") | {"params": params}))
        self.assertEqual({}, self.ask(request("ping") | {"params": None})["result"])
        self.assertEqual((-32600, None), self.code(" " * tools.MESSAGE_BYTES + json.dumps(request("ping"))))

    def test_what_wants_no_answer(self) -> None:
        for message in (
            "", " \r\n", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}},
            {"jsonrpc": "2.0", "method": "notifications/no/such"}, {"jsonrpc": "2.0", "method": "tools/call"},
            {"jsonrpc": "2.0", "method": "x", "params": 5}, {"jsonrpc": "2.0", "id": 1, "result": {}},
            {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}},
        ):
            with self.subTest(message):
                self.assertIsNone(self.ask(message))

    def test_an_id_comes_back_as_it_went(self) -> None:
        for number in (0, -1, 10**99, "", "\u00e9\u2028\U0001f600", "x" * 10_000):
            self.assertEqual(number, self.ask(request("ping", number))["id"])

    def test_five_thousand_random_messages(self) -> None:
        chance, codes = random.Random(20261201), set[int]()
        for _ in range(5000):
            line = random_line(chance)
            with self.subTest(line[:200]):
                told = self.ask(line)
                for answer in told if isinstance(told, list) else [told] if told else []:
                    self.assertEqual("2.0", answer["jsonrpc"])
                    self.assertIn(type(answer["id"]), (int, str, type(None)))
                    self.assertEqual(1, len(answer.keys() & {"result", "error"}))
                    codes.add(answer["error"]["code"] if "error" in answer else 0)
        self.assertEqual({0, -32700, -32600, -32601, -32602, -32022}, codes)


def random_line(chance: random.Random) -> bytes:
    """A message that is right, or nearly, or not at all."""
    odd: list[Any] = [
        None, True, 0, -1, 10**80, 1.5, "", "search", "3.12", "\u0000", "\U0001f600", [], {}, [1], {"a": {}}]

    def some(*likely: Any) -> Any:
        return chance.choice(likely) if chance.random() < 0.8 else chance.choice(odd)

    def message() -> Any:
        arguments = {name: some(value) for name, value in {
            "query": "write a file", "version": "3.12", "limit": 3, "source_id": "path-write", "text_sha256": "0" * 64,
        }.items() if chance.random() < 0.6}
        meta = {f"{META}protocolVersion": some("2026-07-28", "2026-07-28", "2030-01-01")}
        params = {"name": some("search", "read", "write"), "arguments": some(arguments), "_meta": some({}, meta, meta),
                  "protocolVersion": some("2025-06-18"), "cursor": some(None)}
        kept = {name: value for name, value in params.items() if chance.random() < 0.7}
        method = some("tools/call", "tools/call", "tools/list", "ping", "initialize", "server/discover", "no/such")
        whole = {"jsonrpc": some("2.0"), "id": some(1, "a"), "params": some(kept), "method": method}
        return some({name: value for name, value in whole.items() if chance.random() < 0.95})

    value = [message() for _ in range(chance.randrange(25))] if chance.random() < 0.1 else message()
    line = json.dumps(value, ensure_ascii=chance.random() < 0.5).encode("utf-8")
    if chance.random() < 0.1:
        at = chance.randrange(len(line))
        line = line[:at] + chance.choice([b"", b"\xff", b"{", b'"', line]) + line[at + chance.randrange(9):]
    return line


# --- Over standard input and output ---------------------------------------------------------------


@unittest.skipUnless("mcp" in run.WORDS, "needs the word mcp")
class OverPipes(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.settings = environment(folder.name)

    def served(self, sent: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(SERVE, input=sent, capture_output=True, env=self.settings, timeout=60, check=False)

    def test_lines_go_in_and_lines_come_out(self) -> None:
        long = b'{"jsonrpc":"2.0","id":2,"method":"ping","params":{"pad":"' + b"x" * (2 * tools.MESSAGE_BYTES) + b'"}}'
        pings = [json.dumps(request("ping", number)).encode() for number in (1, 3, 4)]
        sent = [pings[0], b"", b"\xff", long, pings[1] + b"\r", pings[2]]
        child = self.served(b"\n".join(sent))
        told = [json.loads(line) for line in child.stdout.splitlines()]
        self.assertEqual([1, None, None, 3, 4], [answer["id"] for answer in told])
        self.assertEqual([-32700, -32600], [answer["error"]["code"] for answer in told if "error" in answer])
        self.assertEqual((0, b""), (child.returncode, child.stderr))

    def test_a_half_line_at_the_end_ends_nothing_badly(self) -> None:
        child = self.served(b'{"jsonrpc":"2.0","id":1,"method":"pi')
        self.assertEqual((0, b"", -32700), (child.returncode, child.stderr, json.loads(child.stdout)["error"]["code"]))

    def test_a_client_that_goes_away_ends_it_without_a_word(self) -> None:
        line = json.dumps(request("tools/list")).encode() + b"\n"
        with subprocess.Popen(SERVE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=self.settings) as child:
            assert child.stdin and child.stdout and child.stderr
            child.stdin.write(line)
            child.stdin.flush()
            child.stdout.readline()
            child.stdout.close()
            child.stdin.write(line * 3)
            child.stdin.close()
            self.assertEqual((0, b""), (child.wait(60), child.stderr.read()))

    def test_a_snapshot_that_is_not_there_is_one_line(self) -> None:
        child = subprocess.run([*SERVE, "--snapshot", "nowhere.json"], input=b"", capture_output=True,
                               env=self.settings, timeout=60, check=False)
        self.assertEqual((2, b"", 1), (child.returncode, child.stdout, child.stderr.count(b"\n")))

    def test_a_snapshot_that_is_built_anew_is_opened_anew(self) -> None:
        """A handle of before is refused; while the file is no snapshot, what was open goes on."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "live.sqlite")

            def write(text: str) -> None:
                part = f"{path}.part"
                retrieval.create_store(part, "documents", [passage("a", text)])
                os.replace(part, path)

            def lines() -> Iterator[bytes]:
                write("Ready in four minutes.")
                yield json.dumps(call("read", source_id="a", version="1", text_sha256=retrieval.text_sha256(
                    "Ready in four minutes."))).encode() + b"\n"
                write("Ready in two minutes.")
                yield json.dumps(call("read", source_id="a", version="1", text_sha256=retrieval.text_sha256(
                    "Ready in four minutes."))).encode() + b"\n"
                with open(path + ".other", "wb") as file:
                    file.write(b"no snapshot")
                os.replace(path + ".other", path)
                yield json.dumps(call("search", query="ready", version="1")).encode() + b"\n"

            write("Ready in four minutes.")
            source = lines()
            told = [json.loads(at)["result"] for at in tools.replies(
                lambda most: next(source, b""), path, lambda: run.open_index(run.read_corpus(path).source))]
        self.assertEqual([at["isError"] for at in told], [False, True, False])
        self.assertIn("changed_read", told[1]["content"][0]["text"])

    def test_without_a_standard_input_it_ends(self) -> None:
        closed = ["sh", "-c", 'exec "$@" <&-', "sh", *SERVE]
        child = subprocess.run(closed, capture_output=True, check=False, timeout=60)
        self.assertEqual((child.returncode, child.stdout, child.stderr), (0, b"", b""))

    # --- The official clients ---------------------------------------------------------------------

    def test_the_client_of_mcp_1(self) -> None:
        self.converse("1", CLIENT_1, ["2025-11-25"])

    def test_the_client_of_mcp_2(self) -> None:
        self.converse("2", CLIENT_2, ["2026-07-28", "2025-11-25"])

    def converse(self, major: str, script: str, revisions: list[str]) -> None:
        python = os.environ.get(f"MCP_CLIENT_{major}", "")
        if not python and importlib.util.find_spec("mcp"):
            from importlib.metadata import version

            python = sys.executable if version("mcp").startswith(f"{major}.") else ""
        if not python:
            self.skipTest(f"needs mcp {major}.x")
        child = subprocess.run([python, "-c", script + CONVERSATION, *SERVE], capture_output=True, timeout=120,
                               env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, text=True, check=False)
        self.assertEqual(0, child.returncode, child.stderr)
        told = json.loads(child.stdout)
        self.assertEqual(revisions, [at["revision"] for at in told])
        for at in told:
            self.assertEqual(["search", "read"], at["tools"])
            self.assertIn("An existing file is overwritten.", at["read"]["structuredContent"]["text"])
            self.assertEqual(["changed_read", "unissued_source", "invalid_arguments"], at["refusals"])
            self.assertEqual(-32602, at["no such tool"])


CLIENT_1 = """
import contextlib
from mcp import ClientSession, McpError as Refused, StdioServerParameters
from mcp.client.stdio import stdio_client

MODES = ["legacy"]

@contextlib.asynccontextmanager
async def connected(server, mode):
    async with stdio_client(server) as pipes, ClientSession(*pipes) as session:
        opened = await session.initialize()
        await session.send_ping()
        yield session, opened.protocolVersion
"""
CLIENT_2 = """
import contextlib
from mcp import Client, MCPError as Refused, StdioServerParameters

MODES = ["auto", "legacy"]

@contextlib.asynccontextmanager
async def connected(server, mode):
    async with Client(server, mode=mode) as client:
        yield client, client.protocol_version
"""
CONVERSATION = """
import asyncio, json, sys

def plain(model):
    return model.model_dump(by_alias=True, mode="json")

async def converse(mode):
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env={"PYTHONDONTWRITEBYTECODE": "1"})
    async with connected(server, mode) as (client, revision):
        listed = plain(await client.list_tools())
        found = plain(await client.call_tool("search", {"query": "overwrite an existing file", "version": "3.12"}))
        handle = found["structuredContent"]["candidates"][0]
        right = {name: handle[name] for name in ("source_id", "version", "text_sha256")}
        read = plain(await client.call_tool("read", right))
        refusals = []
        for wrong in ({"text_sha256": "0" * 64}, {"source_id": "nowhere"}, {"text_sha256": 5}):
            told = plain(await client.call_tool("read", {**right, **wrong}))
            assert told["isError"], told
            refusals.append(told["content"][0]["text"].partition(":")[0])
        try:
            code = plain(await client.call_tool("write", {}))
        except Refused as error:
            code = error.error.code
        return {"revision": revision, "tools": [tool["name"] for tool in listed["tools"]], "read": read,
                "refusals": refusals, "no such tool": code}

async def main():
    print(json.dumps([await converse(mode) for mode in MODES]))

asyncio.run(main())
"""


if __name__ == "__main__":
    unittest.main()
