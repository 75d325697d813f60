"""The sender: whatever a service, a wire or a name does ends as a named fact, in time, and the key stays in its header.

A row of a table is what goes over the wire and all that comes of it. Nothing here leaves this machine.
"""

import base64
import contextlib
import gzip
import importlib
import importlib.util
import io
import itertools
import json
import os
import re
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from unittest import mock

import agent
import provider
import retrieval
import run
import tools
from agent import Fault, Reason
from tests.support import ROOT, Gemini, decision, environment, gemini_reply

KEY = "CANARY-KEY-0001"  # made up
PART_OF_KEY = "CANARY-KEY"  # what no message may show either
ESCAPED_KEY = KEY.replace("C", "\\u0043").replace("-", "\\u002d")
PATH = "/v1beta/models/gemini-x:generateContent"
BODY = b'{"contents":[]}'
SECONDS = 0.3  # the deadline of an exchange that would never end; it must be over within a second after it
PATIENCE = 5  # that of any other, which ends by itself
PLACE: dict[str, Any] = {"trial": "overwrite-agent-1", "exchange": 1, "attempt": 1}
WIRE = os.path.join(os.path.dirname(ROOT), "shared", "wire")
TRANSPORT, UNFINISHED = Reason.MODEL_TRANSPORT_FAILED, Reason.UNFINISHED_MODEL_REPLY
TOO_LARGE, NO_DECISION = Reason.PROVIDER_RESPONSE_BYTES_LIMIT, Reason.INVALID_DECISION

# The three calls of a trial that ends with an answer.
SEARCH = decision("search", query="Path.write_text")
READ = decision("read", source_id="path-write")
ANSWER = decision(
    "answer", answer="In Python 3.12, Path.write_text overwrites an existing file.",
    citations=[{"source_id": "path-write", "quote": "An existing file is overwritten."}])
CALLS = (SEARCH, READ, ANSWER)
STOP = json.dumps(decision("stop"))

# Signed by itself, for 127.0.0.1 alone, to the year 2126. The key is of no use anywhere.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgaosKiIqGQjFh2JvJ
wxE0QW02vKIcNSwSG59ItOYkCN+hRANCAAQo23+cgbE6fXzHu9+tzPI61CmPwTj6
mcc8QvfmlG+zu4JD3IaKCkj2oUjFdWav+EkpL+39zsoUA9pWajtPkJym
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBfjCCASSgAwIBAgIBATAKBggqhkjOPQQDAjAdMRswGQYDVQQDDBJsb29wYmFj
ayBvZiBhIHRlc3QwIBcNMDAwMTAxMDAwMDAwWhgPMjEyNjAxMDEwMDAwMDBaMB0x
GzAZBgNVBAMMEmxvb3BiYWNrIG9mIGEgdGVzdDBZMBMGByqGSM49AgEGCCqGSM49
AwEHA0IABCjbf5yBsTp9fMe7363M8jrUKY/BOPqZxzxC9+aUb7O7gkPchooKSPah
SMV1Zq/4SSkv7f3OyhQD2lZqO0+QnKajUzBRMA8GA1UdEQQIMAaHBH8AAAEwDwYD
VR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQURvgjrZyxKGvZqTozmZzfHWX/k5EwDgYD
VR0PAQH/BAQDAgKEMAoGCCqGSM49BAMCA0gAMEUCICofefJjuI/8QoaX9wsZwE17
+Ueq9D9syNhmMBeYpaNmAiEApHj6T62QuWRV5ync/PCFJK5KGZxDwy3cv8zrGBL0
3ec=
-----END CERTIFICATE-----
"""


# --- A server below HTTP ------------------------------------------------------------------------


class Wire:
    """A server on 127.0.0.1 that does to a connection what its script says, one entry a connection.

    An entry is bytes to send when the request is there, or a function of (this server, the connection) that does as it
    likes. `heard` has each whole request. What a script raises, a lost connection apart, is raised at the end.
    """

    def __init__(self, *script: Any) -> None:
        self.heard: list[bytes] = []
        self.over = threading.Event()
        self._script, self._raised = script, list[BaseException]()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        with contextlib.suppress(OSError):  # wakes `accept`; refused where a script has closed the door
            socket.create_connection(("127.0.0.1", self.port), 5).close()
        self._thread.join()
        self._socket.close()
        if self._raised:
            raise self._raised[0]

    def refuse(self) -> None:
        """From now on nobody gets in; the port stays taken."""
        self._socket.close()

    def _serve(self) -> None:
        for at in itertools.count():
            try:
                connection = self._socket.accept()[0]
            except OSError:
                return
            with connection:
                if self.over.is_set():
                    return
                connection.settimeout(5)
                try:
                    if at >= len(self._script):
                        raise AssertionError(f"request {at + 1} is past the script")
                    entry = self._script[at]
                    if isinstance(entry, bytes):
                        self.hear(connection)
                        connection.sendall(entry)
                    else:
                        entry(self, connection)
                except ConnectionError:
                    pass  # the client has gone
                except Exception as error:
                    self._raised.append(error)

    def hear(self, connection: Any) -> None:
        """Take down one request."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += (chunk := connection.recv(65_536))
            if not chunk:
                return
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", data)
        whole = data.index(b"\r\n\r\n") + 4 + int(length[1] if length else 0)
        while len(data) < whole:
            data += (chunk := connection.recv(65_536))
            if not chunk:
                return
        self.heard.append(data)


def http(body: Any, status: int = 200, *headers: str) -> bytes:
    """A reply as it goes over the wire; a body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = [] if any(line.startswith("Content-Type:") for line in headers) else ["Content-Type: application/json"]
    lines = [f"HTTP/1.1 {status} Said", *kind, f"Content-Length: {len(data)}", *headers, "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1") + data


def unmeasured(body: bytes, *headers: str) -> bytes:
    """A reply that says nothing of its length."""
    return "\r\n".join(["HTTP/1.1 200 OK", *headers, "", ""]).encode() + body


def chunked(*chunks: bytes, last: bytes = b"0\r\n\r\n") -> bytes:
    """A reply in chunks."""
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return unmeasured(framed + last, "Transfer-Encoding: chunked")


def error(code: int, status: str, message: Any, *details: Any) -> dict[str, Any]:
    """The body of an error in the service's own shape."""
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def candidate(*parts: Any, finish: Any = "STOP") -> dict[str, Any]:
    """A candidate of those parts."""
    return {"content": {"parts": list(parts), "role": "model"}, "finishReason": finish}


def replied(*parts: Any, finish: Any = "STOP", **beside: Any) -> dict[str, Any]:
    """The body of a reply with one candidate."""
    return {"candidates": [candidate(*parts, finish=finish)], "usageMetadata": {"totalTokenCount": 7}, **beside}


TEXT = {"text": STOP}
GOOD = json.dumps(replied(TEXT)).encode()


def dripping(at_once: bytes, data: bytes = b"x" * 500) -> Callable[[Wire, Any], None]:
    """An entry that sends something at once, and then a byte every now and then for far longer than anyone waits."""
    def entry(wire: Wire, connection: Any) -> None:
        wire.hear(connection)
        connection.sendall(at_once)
        for byte in data:
            if wire.over.wait(0.03):
                return
            connection.sendall(bytes([byte]))

    return entry


def resetting(part: bytes) -> Callable[[Wire, Any], None]:
    """An entry that sends so much and then breaks the connection off."""
    def entry(wire: Wire, connection: Any) -> None:
        wire.hear(connection)
        connection.sendall(part)
        wire.over.wait(0.05 if part else 0)  # a reset overtakes what was sent
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    return entry


def silent(wire: Wire, connection: Any) -> None:
    """An entry that hears and never answers."""
    wire.hear(connection)
    wire.over.wait(SECONDS + 5)


def secured(wire: Wire, connection: Any, answer: bytes) -> None:
    """Answer over TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        context.load_cert_chain(certificate_file(folder))
    with contextlib.suppress(ssl.SSLError), context.wrap_socket(connection, server_side=True) as connection:
        wire.hear(connection)
        connection.sendall(answer)


def certificate_file(folder: str) -> str:
    """The certificate and its key, in a file."""
    path = os.path.join(folder, "loopback.pem")
    with open(path, "w", encoding="ascii", newline="\n") as file:
        file.write(CERTIFICATE)
    return path


def plain_to_tls(wire: Wire, connection: Any) -> None:
    """An entry that speaks no TLS: it answers a ClientHello with text."""
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


# --- The tables ---------------------------------------------------------------------------------


class Row(NamedTuple):
    """What comes over the wire, why a trial ends then, the kind of transport fault, and a pattern of what is said."""

    name: str
    wire: Any
    reason: Reason
    kind: str = ""
    said: str = "."


def quota(message: str = "Resource has been exhausted", **fields: Any) -> bytes:
    """A 429 with a detail of those fields."""
    return http(error(429, "RESOURCE_EXHAUSTED", message, {"@type": "type.googleapis.com/google.rpc.X", **fields}), 429)


def limited(wire: bytes, *said: str, kind: str = "http_429", unsaid: str = "retry after|retryDelay") -> tuple[Any, ...]:
    """The end of a row for a 429: all that it says, and what it does not."""
    pattern = "".join(f"(?=.*{re.escape(part)})" for part in ("HTTP 429", "rate limited", *said))
    return wire, TRANSPORT, kind, f"(?s)(?!.*(?:{unsaid})){pattern}" if unsaid else f"(?s){pattern}"


BAD_KEY = error(
    400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.",
    {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"})
SCHEMA = error(400, "INVALID_ARGUMENT", 'Invalid JSON payload received. Unknown name "additionalProperties"')
PLACE_NAME = error(400, "FAILED_PRECONDITION", "User location is not supported for the API use.")
NO_KEY_TYPE = error(401, "UNAUTHENTICATED", "API keys are not supported", {"reason": "ACCESS_TOKEN_TYPE_UNSUPPORTED"})
NO_RIGHT = error(403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers")
NO_MODEL = error(404, "NOT_FOUND", "models/gemini-x is not found for API version v1beta")
HTML = b"<html><head><title>Sign in</title></head></html>"
PER_DAY = [{"quotaMetric": "generate_requests", "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]
PER_MINUTE = [{"quotaId": "GenerateRequestsPerMinutePerProject"}]

HTTP_FAULTS = (
    Row("429, wait 38s", *limited(quota(retryDelay="38s"), "retry after 38 s", "RESOURCE_EXHAUSTED", unsaid="")),
    Row("429, wait 47.43s", *limited(quota(retryDelay="47.43s"), "retry after 47.43 s", unsaid="")),
    Row("429, wait soon", *limited(quota(retryDelay="soon"))),
    Row("429, wait a list", *limited(quota(retryDelay=["38s"]))),
    Row("429, wait a number", *limited(quota(retryDelay=38))),
    Row("429, used up for today", *limited(quota(violations=PER_DAY), PER_DAY[0]["quotaId"], kind="quota_used_up")),
    Row("429, of a minute", *limited(quota(violations=PER_MINUTE), PER_MINUTE[0]["quotaId"])),
    Row("429, limit: 0", *limited(quota("Quota exceeded for metric, limit: 0, model: x"), kind="quota_used_up")),
    Row("429, limit: 0.5", *limited(quota("Quota exceeded for metric, limit: 05"))),
    Row("429, no credit", *limited(quota("Your prepayment credits are depleted."), kind="quota_used_up")),
    Row("429, HTML", *limited(http(HTML, 429, "Content-Type: text/html"), unsaid="<html|Sign in")),
    Row("429, nothing", *limited(http(b"", 429))),
    Row("429, details a text", *limited(http({"error": {"message": "slow", "details": "38s"}}, 429), "slow")),
    Row("400, a bad key", http(BAD_KEY, 400), TRANSPORT, "http_400", "INVALID_ARGUMENT; API_KEY_INVALID; API key not"),
    Row("400, the schema", http(SCHEMA, 400), TRANSPORT, "http_400", 'Unknown name "additionalProperties"'),
    Row("400, the place", http(PLACE_NAME, 400), TRANSPORT, "http_400", "FAILED_PRECONDITION; User location"),
    Row("401", http(NO_KEY_TYPE, 401), TRANSPORT, "http_401", "UNAUTHENTICATED; ACCESS_TOKEN_TYPE_UNSUPPORTED; API"),
    Row("403", http(NO_RIGHT, 403), TRANSPORT, "http_403", "HTTP 403 PERMISSION_DENIED; Method"),
    Row("404", http(NO_MODEL, 404), TRANSPORT, "http_404", "HTTP 404 NOT_FOUND; models/gemini-x is not found"),
    Row("413", http(b"Request Entity Too Large", 413), TRANSPORT, "http_413", "HTTP 413"),
    Row("500", http(error(500, "INTERNAL", "An internal error"), 500), TRANSPORT, "http_500", "INTERNAL; An internal"),
    Row("502, HTML", http(HTML, 502, "Content-Type: text/html"), TRANSPORT, "http_502", "^HTTP 502(?!.*<html)"),
    Row("503", http(error(503, "UNAVAILABLE", "Overloaded"), 503), TRANSPORT, "http_503", "UNAVAILABLE; Overloaded"),
    Row("504", http(error(504, "DEADLINE_EXCEEDED", "Too slow"), 504), TRANSPORT, "http_504", "DEADLINE_EXCEEDED"),
    Row("an error in an array", http([NO_RIGHT], 403), TRANSPORT, "http_403", "PERMISSION_DENIED; Method"),
    Row("an error behind a mark", http(b"\xef\xbb\xbf" + json.dumps(NO_RIGHT).encode(), 403), TRANSPORT, "http_403",
        "PERMISSION_DENIED; Method"),
    Row("an empty array", http([], 503), TRANSPORT, "http_503", "HTTP 503"),
    Row("an array in an array", http([[NO_RIGHT]], 403), TRANSPORT, "http_403", "HTTP 403"),
    Row("JSON without error", http({"message": "hm"}, 500), TRANSPORT, "http_500", "HTTP 500"),
    Row("error a text", http({"error": "hm"}, 500), TRANSPORT, "http_500", "HTTP 500"),
    Row("error null", http({"error": None}, 500), TRANSPORT, "http_500", "HTTP 500"),
    Row("the message an object", http(error(500, "INTERNAL", {"a": []}), 500), TRANSPORT, "http_500", "HTTP 500"),
    Row("half JSON", http(json.dumps(NO_RIGHT).encode()[:40], 403), TRANSPORT, "http_403", "HTTP 403"),
    Row("an error that is null", http(None, 500), TRANSPORT, "http_500", "HTTP 500"),
    Row("an error in binary", http(bytes(range(256)), 500), TRANSPORT, "http_500", "HTTP 500"),
    Row("201 with a good body", http(GOOD, 201), TRANSPORT, "http_201", "HTTP 201"),
    Row("204", b"HTTP/1.1 204 No Content\r\n\r\n", TRANSPORT, "http_204", "HTTP 204.* 0 bytes"),
    Row("206 with a good body", http(GOOD, 206), TRANSPORT, "http_206", "HTTP 206"),
    Row("101", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", TRANSPORT, "http_101", "HTTP 101"),
    Row("too large", http(b" " * 262_145), TOO_LARGE, "", "262144 bytes"),
    Row("too large, no length", unmeasured(b" " * 262_145), TOO_LARGE, "", "262144 bytes"),
    Row("too large, in chunks", chunked(b" " * 262_144, b" "), TOO_LARGE, "", "262144 bytes"),
    Row("an error too large", http(b" " * 262_145, 400), TOO_LARGE, "", "262144 bytes"),
    Row("gzip", http(gzip.compress(GOOD), 200, "Content-Encoding: gzip"), TRANSPORT, "content_encoding", "gzip"),
    Row("gzip of a lot", http(gzip.compress(b" " * 20_000_000), 200, "Content-Encoding: GZIP"), TRANSPORT,
        "content_encoding", "GZIP"),
    Row("br", http(GOOD, 200, "Content-Encoding: br"), TRANSPORT, "content_encoding", "br"),
    Row("two codings", http(GOOD, 200, "Content-Encoding: identity", "Content-Encoding: gzip"), TRANSPORT,
        "content_encoding", "gzip"),
)


def not_utf8(data: bytes) -> tuple[Any, ...]:
    """The end of a row for bytes that are no text."""
    return http(data), UNFINISHED, "", "HTTP 200.*not UTF-8"


def not_json(body: Any) -> tuple[Any, ...]:
    """The end of a row for a body that is not one JSON object as the kit takes it."""
    return http(body), UNFINISHED, "", "HTTP 200.*not one JSON object"


def with_member(member: bytes) -> bytes:
    """A good reply with one more member."""
    return GOOD[:-1] + b"," + member + b"}"


CUT = 'finishReason is "MAX_TOKENS"'
CALL = {"functionCall": {"name": "lookup", "args": {}}}
THOUGHT = {"thought": True, "text": "hm"}
BLOCKED = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}

REPLY_FAULTS = (
    Row("an empty 200", *not_json(b"")),
    Row("HTML with 200", http(HTML, 200, "Content-Type: text/html"), UNFINISHED, "", "HTTP 200.*text/html"),
    Row("white space", *not_json(b" \r\n")),
    Row("UTF-16", *not_utf8(GOOD.decode().encode("utf-16"))),
    Row("UTF-16 without a mark", *not_json(GOOD.decode().encode("utf-16-be"))),
    Row("UTF-32", *not_utf8(GOOD.decode().encode("utf-32"))),
    Row("a Latin-1 byte", *not_utf8(GOOD.replace(b"scripted", b"caf\xe9"))),
    Row("half a pair in UTF-8", *not_utf8(GOOD.replace(b"scripted", b"\xed\xa0\x80"))),
    Row("gzip unsaid", *not_utf8(gzip.compress(GOOD))),
    Row("two marks", *not_json(b"\xef\xbb\xbf" * 2 + GOOD)),
    Row("NaN", *not_json(with_member(b'"a":NaN'))),
    Row("-Infinity", *not_json(with_member(b'"a":-Infinity'))),
    Row("1e999", *not_json(with_member(b'"a":1e999'))),
    Row("a key twice", *not_json(with_member(b'"candidates":[]'))),
    Row("a key twice, deep", *not_json(with_member(b'"usage":{"a":1,"a":1}'))),
    Row("deep", *not_json(with_member(b'"a":' + b"[" * 40 + b"]" * 40))),
    Row("deeper than any stack", *not_json(b'{"a":' * 40_000)),
    Row("5,000 digits", *not_json(with_member(b'"a":' + b"9" * 5_000))),
    Row("half a pair", *not_json(with_member(b'"a":"\\ud83d"'))),
    Row("half a pair as a key", *not_json(with_member(b'"\\udc00":1'))),
    Row("half a pair in the text", *not_json(GOOD.replace(b"scripted", b"\\ud800"))),
    Row("more behind it", *not_json(GOOD + b"x")),
    Row("two bodies", *not_json(GOOD + GOOD)),
    Row("events of a stream", *not_json(b"data: " + GOOD + b"\r\n\r\n")),
    Row("a list of chunks", *not_json([replied(TEXT)])),
    Row("a text", *not_json(STOP)),
    Row("null", *not_json(b"null")),
    Row("headers without an end", b"HTTP/1.1 200 OK\r\nContent-Ty", UNFINISHED, "", "not one JSON object"),
    Row("an error with 200", http(NO_RIGHT), UNFINISHED, "", "^0 candidates"),
    Row("two candidates", http({"candidates": [candidate(TEXT)] * 2}), UNFINISHED, "", "^2 candidates"),
    Row("no candidate", http({"candidates": []}), UNFINISHED, "", "^0 candidates"),
    Row("candidates missing", http({"usageMetadata": {}}), UNFINISHED, "", "^0 candidates"),
    Row("blocked", http(BLOCKED), UNFINISHED, "", 'blockReason is "PROHIBITED_CONTENT"'),
    Row("blocked beside a candidate", http(replied(TEXT) | BLOCKED), UNFINISHED, "", "blockReason is"),
    Row("cut before any text", http({"candidates": [{"finishReason": "MAX_TOKENS"}]}), UNFINISHED, "", CUT),
    Row("cut without parts", http(replied(finish="MAX_TOKENS")), UNFINISHED, "", CUT),
    Row("cut in half", http(replied({"text": STOP[:9]}, finish="MAX_TOKENS")), UNFINISHED, "", CUT),
    Row("cut, and whole", http(replied(TEXT, finish="MAX_TOKENS")), UNFINISHED, "", CUT),
    Row("safety", http(replied(TEXT, finish="SAFETY")), UNFINISHED, "", 'finishReason is "SAFETY"'),
    Row("a reason of tomorrow", http(replied(TEXT, finish="NEW")), UNFINISHED, "", 'finishReason is "NEW"'),
    Row("no reason", http(replied(TEXT, finish=None)), UNFINISHED, "", "finishReason is missing"),
    Row("a call", http(replied(CALL)), UNFINISHED, "", "functionCall"),
    Row("a call beside text", http(replied(TEXT, CALL)), UNFINISHED, "", "functionCall"),
    Row("a thought only", http(replied(THOUGHT)), UNFINISHED, "", "there is no text"),
    Row("no parts", http(replied()), UNFINISHED, "", "there is no text"),
)

IN_TIME = r"within 0\.3 s|timed out"
SLOW = (
    Row("says nothing", silent, TRANSPORT, "timeout", IN_TIME),
    Row("drips in the headers", dripping(b"HTTP/1.1 200 OK\r\nX-Slow: "), TRANSPORT, "timeout", IN_TIME),
    Row("drips in the body", dripping(http(b"x" * 500)[:-500]), TRANSPORT, "timeout", IN_TIME),
    Row("drips in the status line", dripping(b"HTTP"), TRANSPORT, "timeout", IN_TIME),
    Row("drips headers", dripping(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 99), TRANSPORT, "timeout", IN_TIME),
    Row("drips chunks", dripping(chunked(last=b""), b"1\r\n \r\n" * 99), TRANSPORT, "timeout", IN_TIME),
    Row("bids to go on", dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 20), TRANSPORT, "timeout", IN_TIME),
)

WIRE_FAULTS = (
    Row("hangs up", b"", TRANSPORT, "connection_reset"),
    Row("resets", resetting(b""), TRANSPORT, "connection_reset"),
    Row("resets in the headers", resetting(b"HTTP/1.1 200 OK\r\nContent-"), TRANSPORT, "connection_reset"),
    Row("resets in the body", resetting(http(GOOD)[:-9]), TRANSPORT, "connection_reset"),
    Row("a short body", http(GOOD)[:-9], TRANSPORT, "short_body"),
    Row("a body that is missing", http(GOOD)[: -len(GOOD)], TRANSPORT, "short_body"),
    Row("a short body of an error", http(NO_RIGHT, 403)[:-9], TRANSPORT, "short_body"),
    Row("cut in a chunk", chunked(GOOD)[:-20], TRANSPORT, "short_body"),
    Row("cut between chunks", chunked(GOOD[:9], GOOD[9:], last=b""), TRANSPORT, "short_body"),
    Row("cut in a chunk's size", chunked(GOOD, last=b"f"), TRANSPORT, "short_body"),
    Row("a chunk's size that is none", chunked(GOOD, last=b"zz\r\n"), TRANSPORT, "short_body"),
    Row("another protocol", b"SSH-2.0-OpenSSH_9.6\r\n", TRANSPORT, "not_http"),
    Row("binary", bytes(range(128, 256)), TRANSPORT, "not_http"),
    Row("an empty line", b"\r\n", TRANSPORT, "not_http"),
    Row("a status that is no number", b"HTTP/1.1 OK\r\n\r\n", TRANSPORT, "not_http"),
    Row("a status of four digits", b"HTTP/1.1 2000 OK\r\n\r\n", TRANSPORT, "not_http"),
    Row("a status line too long", b"HTTP/1.1 200 " + b"x" * 70_000, TRANSPORT, "not_http"),
    Row("a header too long", http(GOOD, 200, f"a: {'x' * 70_000}"), TRANSPORT, "not_http"),
    Row("101 headers", http(GOOD, 200, *["a: b"] * 101), TRANSPORT, "not_http"),
)


def base64_reply(text: str, encoding: str, odd: bytes = b"") -> bytes:
    """A body in another encoding with that text in it."""
    return http(odd + f'{{"a":"{text}"}}'.encode(encoding) + b"\xff")


LONG = "x" * 45
ECHOES = (
    Row("in an error", http(error(400, "INVALID_ARGUMENT", f"API key not valid: {KEY}."), 400), TRANSPORT, "http_400",
        r"not valid: \[redacted\]\."),
    Row("in an error's status", http(error(400, KEY, "Bad"), 400), TRANSPORT, "http_400", r"\[redacted\]; Bad"),
    Row("in an error's message of another type", http(error(400, "X", {KEY: [KEY]}), 400), TRANSPORT, "http_400"),
    Row("in an error's details", quota(quotaId=KEY, reason=KEY), TRANSPORT, "http_429"),
    Row("in an error at the cut", http(error(400, "X", "x" * 4_070 + KEY * 3), 400), TRANSPORT, "http_400"),
    Row("in an error twice, and said", http(error(400, "X", f"{provider.REDACTED} {ESCAPED_KEY}"), 400), TRANSPORT,
        "http_400"),
    Row("escaped in an error", http(json.dumps(error(400, "X", "KEY")).replace("KEY", ESCAPED_KEY).encode(), 400),
        TRANSPORT, "http_400", r"X; \[redacted\]"),
    Row("escaped twice in an error", http(error(400, "X", ESCAPED_KEY), 400), TRANSPORT, "http_400", "redacted"),
    Row("in a status line", f"ICY {KEY}\r\n\r\n".encode(), TRANSPORT, "not_http"),
    Row("in a coding", http(GOOD, 200, f"Content-Encoding: {KEY}"), TRANSPORT, "content_encoding", "redacted"),
    Row("in a long coding", http(GOOD, 200, f"Content-Encoding: {LONG}{KEY}{LONG}"), TRANSPORT, "content_encoding"),
    Row("in a redirect's host", http(b"", 302, f"Location: https://{KEY}.evil.example/"), TRANSPORT, "redirect"),
    Row("in a redirect's user", http(b"", 302, f"Location: https://{KEY}@evil.example/"), TRANSPORT, "redirect"),
    Row("in a redirect's query", http(b"", 302, f"Location: https://evil.example/?key={KEY}"), TRANSPORT, "redirect"),
    Row("in a content type", http(HTML, 200, f"Content-Type: text/{KEY}"), UNFINISHED),
    Row("in HTML", http(f"<p>{KEY}</p>".encode()), UNFINISHED, "", "redacted"),
    Row("escaped in a script", http(f'<script>"{ESCAPED_KEY}"</script>'.encode()), UNFINISHED, "", "redacted"),
    Row("behind the cut of a snippet", http(f"<p>{LONG}{KEY}{LONG}</p>".encode()), UNFINISHED),
    Row("in UTF-16", base64_reply(KEY, "utf-16-le"), UNFINISHED),
    Row("in UTF-16, big end first", base64_reply(KEY, "utf-16-be"), UNFINISHED),
    Row("in UTF-16, one byte on", base64_reply(KEY, "utf-16-le", b"x"), UNFINISHED),
    Row("in UTF-32", base64_reply(KEY, "utf-32"), UNFINISHED),
    Row("in Latin-1", base64_reply(KEY, "latin-1"), UNFINISHED),
    Row("escaped in Latin-1", base64_reply(ESCAPED_KEY, "latin-1"), UNFINISHED),
    Row("escaped in UTF-16", base64_reply(ESCAPED_KEY, "utf-16-le"), UNFINISHED),
    Row("in a finish reason", http(replied(TEXT, finish=KEY)), UNFINISHED, "", "redacted"),
    Row("in a long finish reason", http(replied(TEXT, finish=f"{LONG}{KEY}{LONG}")), UNFINISHED),
    Row("in a block reason", http({"promptFeedback": {"blockReason": KEY}}), UNFINISHED, "", "redacted"),
    Row("in the kind of a part", http(replied({KEY: {}})), UNFINISHED, "", "redacted"),
    Row("in a part that is a text", http(replied(KEY)), UNFINISHED, "", "redacted"),
    Row("in a text that is no decision", http(replied({"text": f"Sure! {KEY}"})), NO_DECISION),
    Row("escaped in a decision", http(replied({"text": STOP.replace("scripted", ESCAPED_KEY)})), NO_DECISION),
    Row("escaped in a decision that hides one", http(replied(
        {"text": STOP.replace("scripted", f"{provider.REDACTED} {ESCAPED_KEY}")})), NO_DECISION),
)


def echoed(text: str) -> dict[str, Any]:
    """A reply that says that text all over."""
    parts = [{"text": text, "thought": True}, {"text": STOP.replace("scripted", f"I was told {text}")}]
    return replied(*parts, modelVersion=text, responseId=text, promptFeedback={text: text, "safetyRatings": [text]})


FAULTS = HTTP_FAULTS + REPLY_FAULTS + WIRE_FAULTS + ECHOES + SLOW[:3]

ACCEPTED: dict[str, Any] = {
    "a reply": http(GOOD),
    "in chunks": chunked(GOOD[:9], GOOD[9:]),
    "in chunks with a trailer": chunked(GOOD, last=b"0\r\nExpires: never\r\n\r\n"),
    "without a length": unmeasured(GOOD),
    "HTTP/1.0": http(GOOD).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "after 100 Continue": b"HTTP/1.1 100 Continue\r\n\r\n" + http(GOOD),
    "a mark before the body": http(b"\xef\xbb\xbf" + GOOD),
    "another type": http(GOOD, 200, "Content-Type: text/plain"),
    "another charset": http(GOOD, 200, "Content-Type: application/json; charset=ISO-8859-1"),
    "identity": http(GOOD, 200, "Content-Encoding: identity"),
    "as large as may be": http(GOOD + b" " * (262_144 - len(GOOD))),
    "as large as may be, in chunks": chunked(GOOD, b" " * (262_144 - len(GOOD))),
    "100 headers less those of its own": http(GOOD, 200, *["a: b"] * 90),
    "the key echoed": http(echoed(KEY)),
    "cookies and a hint to reload": http(GOOD, 200, "Set-Cookie: a=b", "Refresh: 0; url=http://evil.example/"),
}


# --- What is looked for everywhere --------------------------------------------------------------


def leaked(data: bytes | str) -> bool:
    """Whether the key, or most of it, stands there: plainly, behind JSON escapes, spaced by zeros or in base64."""
    text = data if isinstance(data, str) else data.decode("latin-1")
    coded = re.findall(r'"base64": ?"([^"]*)"', text)
    for found in (text, *(base64.b64decode(part).decode("latin-1") for part in coded)):
        plain = found.replace("\0", "")
        for _ in range(3):
            if PART_OF_KEY in plain:
                return True
            plain = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda escape: chr(int(escape[1], 16)), plain)
    return False


def chain(error: BaseException | None) -> Iterator[str]:
    """All that an exception shows of itself and of what led to it."""
    while error is not None:
        yield f"{error!r} {error.args} {vars(error)}"
        yield "".join(traceback.format_exception(error))
        if error.__cause__ is not None:
            yield from chain(error.__cause__)
        error = error.__context__


def settings(**more: str) -> Any:
    """An environment with these variables alone."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TMPDIR") if name in os.environ}
    return mock.patch.dict(os.environ, kept | more, clear=True)


def rewritten(event: Mapping[str, Any]) -> Any:
    """The event as a journal gives it back."""
    whole = {"event": "error" if "kind" in event else "response", **PLACE, "elapsed": 0.1, **event}
    request = {"event": "request", **PLACE, "sha256": "", "request": {}}
    lines = "".join(f"{agent.compact(line)}\n" for line in (request, whole))
    return provider.load_exchanges(lines.encode(), finished=True).trials[PLACE["trial"]][1].outcome


class Sending(unittest.TestCase):
    """What tests of single exchanges need."""

    def setUp(self) -> None:
        patch = settings()
        patch.start()
        self.addCleanup(patch.stop)

    def post(self, url: str, seconds: float = PATIENCE, key: str = KEY, body: bytes = BODY) -> dict[str, Any]:
        """The recorded event of one exchange, which ends in time and shows no key."""
        began = time.monotonic()
        event = provider.post(url + PATH, key, body, seconds)
        self.assertLess(time.monotonic() - began, max(seconds, 0) + 1)
        self.assertFalse(leaked(json.dumps(event)), event)
        self.assertFalse(leaked(json.dumps(event, ensure_ascii=False)), event)
        self.assertLessEqual(len(event.get("message", "").encode()), 4_096)
        kept: dict[str, Any] = rewritten(event)
        self.assertEqual({name: kept[name] for name in event}, event)
        return kept

    def fault(self, event: dict[str, Any]) -> Fault:
        """The fault that an event is heard as; it shows no key either."""
        with self.assertRaises(Fault) as caught:
            provider.heard(event)
        self.assertFalse([text for text in chain(caught.exception) if leaked(text)])
        return caught.exception

    def assertFault(self, row: Row, event: dict[str, Any]) -> None:
        """The event is heard as the row says."""
        if row.reason is NO_DECISION:
            with self.assertRaises(agent.NotJson):
                agent.load_json(provider.heard(event))
            return
        fault = self.fault(event)
        self.assertEqual((fault.reason, fault.kind), (row.reason, row.kind), fault.detail)
        self.assertRegex(fault.detail, row.said)


# --- Single exchanges ---------------------------------------------------------------------------


class Faults(Sending):
    """Every fault is one request and one named fact, in time."""

    def test_every_fault_at_every_call_of_a_trial_is_a_named_fact_in_time_after_one_request(self) -> None:
        """The calls before it are answered, none comes after it, and what is recorded replays as the same trial."""
        self.assertEqual(len({row.name for row in FAULTS}), len(FAULTS))
        with open(os.path.join(ROOT, "snapshot.json"), "rb") as file:
            index = retrieval.Index(retrieval.load_snapshot(agent.load_json(file.read())))
        self.addCleanup(index.close)
        toolbox, task = tools.Toolbox(index, "3.12"), agent.Task("Does Path.write_text append?", "3.12", "agent")
        for row, call in itertools.product(FAULTS, (1, 2, 3)):
            answered = [http(replied({"text": json.dumps(one)})) for one in CALLS[: call - 1]]
            with self.subTest(row.name, call=call), Wire(*answered, row.wire) as wire:
                lines, events = list[dict[str, Any]](), list[dict[str, Any]]()

                def send(
                    request: provider.Request, seconds: float, url: str = wire.url,
                    lines: list[dict[str, Any]] = lines, events: list[dict[str, Any]] = events,
                    row: Row = row, call: int = call,
                ) -> dict[str, Any]:
                    place = PLACE | {"exchange": request.number}
                    seconds = SECONDS if row in SLOW and request.number == call else PATIENCE
                    event = self.post(url, seconds, body=agent.compact(request.body).encode()) | place
                    lines.append({"event": "request", **place, "sha256": request.sha256, "request": request.body})
                    lines.append(event)
                    events.append(event)
                    return event

                model = provider.Model({"maxOutputTokens": 9}, send)
                tape = agent.Tape(agent.controller(task, toolbox, model.ask, model.clock))
                self.assertFault(row, events[-1])
                self.assertEqual((tape[-1].reason, tape[-1].fault), (row.reason, row.kind))
                self.assertEqual((len(wire.heard), len(tape.of("asked"))), (call, call))
                kept = "".join(f"{agent.compact(line)}\n" for line in lines).encode()
                self.assertFalse(leaked(kept))
                saved = provider.load_exchanges(kept, finished=True).trials[PLACE["trial"]]
                again = provider.Model({"maxOutputTokens": 9}, provider.Replay(saved).send)
                self.assertEqual(agent.Tape(agent.controller(task, toolbox, again.ask, again.clock)), tape)

    def test_a_drip_of_any_kind_is_a_timeout(self) -> None:
        for row in SLOW[3:]:
            with self.subTest(row.name), Wire(row.wire) as wire:
                self.assertFault(row, self.post(wire.url, SECONDS))
                self.assertEqual(len(wire.heard), 1)

    def test_what_is_unusual_and_allowed_is_a_finished_reply(self) -> None:
        for name, answer in ACCEPTED.items():
            with self.subTest(name), Wire(answer) as wire:
                event = self.post(wire.url)
                self.assertEqual(agent.load_json(provider.heard(event))["action"], "stop")
                self.assertEqual(len(wire.heard), 1)

    def test_a_body_that_comes_slowly_and_in_time_is_accepted(self) -> None:
        def slowly(wire: Wire, connection: Any) -> None:
            wire.hear(connection)
            data = http(GOOD + b" " * (200_000 - len(GOOD)))
            for at in range(0, len(data), 50_000):
                connection.sendall(data[at : at + 50_000])
                wire.over.wait(0.1)

        with Wire(slowly) as wire:
            self.assertEqual(provider.heard(self.post(wire.url)), STOP)

    def test_no_redirect_is_followed_and_its_host_alone_is_told(self) -> None:
        with Wire() as second:  # a request to it is past its script, which fails the test
            elsewhere = f"127.0.0.1:{second.port}"
            for status in (300, 301, 302, 303, 305, 307, 308):
                with self.subTest(status), Wire(http(b"", status, f"Location: {second.url}/a?b=c")) as wire:
                    event = self.post(wire.url)
                    self.assertEqual((event["kind"], event["status"]), ("redirect", status))
                    self.assertRegex(event["message"], f"^HTTP {status} to {re.escape(elsewhere)}: ")
                    self.assertEqual(len(wire.heard), 1)
            for location, shown in (
                (f"http://user:hunter2@{elsewhere}/", elsewhere), (f"//{elsewhere}/a", elsewhere),
                (f"HTTP://{elsewhere}", elsewhere), ("/v2", ""), ("", ""), ("https://evil.example#at", "evil.example"),
                ("https://evil.example\\@good.example/", "evil.example"),
            ):
                with self.subTest(location), Wire(http(b"", 307, f"Location: {location}")) as wire:
                    event = self.post(wire.url)
                    self.assertEqual(event["kind"], "redirect")
                    self.assertIn(shown, event["message"])
                    self.assertNotRegex(event["message"], "hunter2|/a|/v2|user|good|@")
            with self.subTest("no Location"), Wire(http(b"", 302)) as wire:
                self.assertEqual(self.post(wire.url)["kind"], "redirect")
            with self.subTest("Refresh"), Wire(http(GOOD, 200, f"Refresh: 0; url={second.url}/")) as wire:
                self.assertEqual(provider.heard(self.post(wire.url)), STOP)
            self.assertEqual(second.heard, [])

    def test_no_redirect_leads_from_https_to_http(self) -> None:
        with Wire() as second, Wire(lambda wire, connection: secured(
            wire, connection, http(b"", 301, f"Location: {second.url}/"))) as wire, self.trusted():
            event = self.post(f"https://127.0.0.1:{wire.port}")
            self.assertEqual((event["kind"], len(wire.heard), second.heard), ("redirect", 1, []))

    @contextlib.contextmanager
    def trusted(self) -> Iterator[None]:
        """For a while the certificate above is one that this machine trusts."""
        with tempfile.TemporaryDirectory() as folder, settings(SSL_CERT_FILE=certificate_file(folder)):
            yield

    def test_nothing_is_sent_where_the_certificate_does_not_verify(self) -> None:
        """Unknown to this machine; known, and for another name. With a trusted one of the right name it works."""
        def answering(wire: Wire, connection: Any) -> None:
            secured(wire, connection, http(GOOD))

        with Wire(answering) as wire:
            event = self.post(f"https://127.0.0.1:{wire.port}")
        self.assertFault(Row("", b"", TRANSPORT, "tls_not_verified", "(?i)self.signed"), event)
        self.assertEqual(wire.heard, [])
        with self.trusted(), Wire(answering) as wire:
            event = self.post(f"https://localhost:{wire.port}")
        self.assertFault(Row("", b"", TRANSPORT, "tls_not_verified", "(?i)localhost"), event)
        self.assertEqual(wire.heard, [])
        with self.trusted(), Wire(answering) as wire:
            self.assertEqual(provider.heard(self.post(f"https://127.0.0.1:{wire.port}")), STOP)
        self.assertEqual(len(wire.heard), 1)

    def test_a_port_without_tls_gets_no_request(self) -> None:
        for name, entry, kind in (
            ("text", plain_to_tls, "tls_failed"),
            ("nothing", lambda wire, connection: wire.over.wait(5), "timeout"),
            ("an end", lambda wire, connection: connection.recv(65_536), "tls_failed|connection_reset"),
        ):
            with self.subTest(name), Wire(entry) as wire:
                event = self.post(f"https://127.0.0.1:{wire.port}", SECONDS if kind == "timeout" else PATIENCE)
                self.assertRegex(event["kind"], f"^(?:{kind})$")
                self.assertEqual(wire.heard, [])

    def test_a_name_that_does_not_resolve_and_a_port_that_nobody_has_are_named(self) -> None:
        unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        with mock.patch("socket.getaddrinfo", side_effect=unknown):
            for url in ("https://gemini.invalid", "http://localhost:9"):
                with self.subTest(url):
                    self.assertFault(Row("", b"", TRANSPORT, "name_not_resolved", "not known"), self.post(url))
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # nobody else gets the port, and nobody listens
            event = self.post(f"http://127.0.0.1:{taken.getsockname()[1]}")
        self.assertFault(Row("", b"", TRANSPORT, "connection_refused"), event)

    def test_a_look_up_that_takes_for_ever_is_a_timeout_and_what_it_brings_too_late_gets_no_request(self) -> None:
        """Nobody waits for the reply any more, and it could cost money."""
        look_up, done = socket.getaddrinfo, threading.Event()

        def slow(*args: Any, **more: Any) -> Any:
            done.wait(SECONDS + 0.1)
            return look_up(*args, **more)

        before = threading.active_count()
        with Wire(lambda wire, connection: wire.hear(connection)) as wire:
            with mock.patch("socket.getaddrinfo", slow):
                event = self.post(wire.url, SECONDS)
                self.assertFault(Row("", b"", TRANSPORT, "timeout", IN_TIME), event)
                self.soon(lambda: threading.active_count() <= before + 1)  # the server's own
            self.assertEqual(wire.heard, [])

    def soon(self, holds: Callable[[], bool]) -> None:
        """It holds within a second."""
        until = time.monotonic() + 1
        while time.monotonic() < until and not holds():
            time.sleep(0.01)
        self.assertTrue(holds())

    def test_after_the_deadline_the_connection_is_cut_and_no_thread_is_left(self) -> None:
        for name, entry in (("says nothing", silent), ("drips", dripping(http(b"x" * 500)[:-500]))):
            before = threading.active_count()
            with self.subTest(name), Wire(entry) as wire:
                self.post(wire.url, SECONDS)
                self.soon(lambda: threading.active_count() <= before + 1)  # noqa: B023 (called at once)

    def test_no_time_left_is_a_timeout_and_no_request(self) -> None:
        """Between two calls a trial can use up the last of its time."""
        for seconds in (0.0, -1.0):
            with self.subTest(seconds), Wire() as wire:
                self.assertEqual(self.post(wire.url, seconds)["kind"], "timeout")

    def test_a_reply_nested_as_deep_as_may_be_can_be_read_again_from_the_journal(self) -> None:
        for depth in range(28, 36):
            body = with_member(b'"a":' + b"[" * (depth - 1) + b"]" * (depth - 1))
            with self.subTest(depth), Wire(http(body)) as wire:
                self.post(wire.url)  # compares

    def test_a_long_message_is_cut_at_4_kib_between_characters(self) -> None:
        for name, message in (("ASCII", "x" * 100_000), ("two bytes each", "\u00e9" * 9_000),
                              ("four bytes each", "a" + "\U0001f600" * 9_000), ("the key", KEY * 9_000)):
            answer = http(json.dumps(error(400, "INVALID_ARGUMENT", message), ensure_ascii=False).encode(), 400)
            with self.subTest(name), Wire(answer) as wire:
                said = self.post(wire.url)["message"]
                self.assertTrue(4_080 < len(said.encode()) <= 4_096)
                self.assertNotIn("\ufffd", said)

    def test_a_key_that_is_split_over_parts_of_a_reply_is_not_put_together(self) -> None:
        told = STOP.replace("scripted", KEY)
        at = told.index(KEY) + 7
        splits: dict[str, list[Any]] = {
            "in two": [{"text": told[:at]}, {"text": told[at:]}],
            "with a thought between": [{"text": told[:at]}, THOUGHT, {"text": told[at:]}],
            "and escaped": [{"text": told[:at - 7] + f"\\u{ord(KEY[0]):04x}{KEY[1:7]}"}, {"text": told[at:]}],
            "in an escape": [{"text": told[:at - 7] + f"\\u{ord(KEY[0]):04x}"[:3]},
                             {"text": f"{ord(KEY[0]):04x}"[1:] + told[at - 6:]}],
        }
        for name, parts in splits.items():
            with self.subTest(name), Wire(http(replied(*parts))) as wire:
                event = self.post(wire.url)
                try:
                    self.assertFalse(leaked(provider.heard(event)))
                except Fault as fault:
                    self.assertFalse(leaked(fault.detail))

    def test_a_key_is_hidden_behind_any_escape_of_json(self) -> None:
        key = "AQ.ab/cd/efgh"
        for text in (r"AQ.ab\/cd\/efgh", r'{"a":"AQ.ab\/cd/efgh"}', r"AQ.ab\u002fcd\\/efgh", r"\\\u0041Q.ab/cd/efgh"):
            with self.subTest(text=text):
                self.assertEqual(provider.redacted(text, key), "[redacted]")
        self.assertEqual(provider.redacted(r"C:\AQ.ab\cd", key), r"C:\AQ.ab\cd")

    def test_what_is_redacted_is_so_at_every_place_and_nothing_else_is(self) -> None:
        for value, expected in (
            (KEY, "[redacted]"), (f"a {KEY} b {KEY}", "a [redacted] b [redacted]"), ({KEY: 1}, {"[redacted]": 1}),
            ([{"a": [KEY]}], [{"a": ["[redacted]"]}]), (KEY[:-1], KEY[:-1]), (KEY.lower(), KEY.lower()),
            (f"x{KEY}x", "x[redacted]x"), ("[redacted]", "[redacted]"), (5, 5), (True, True), (None, None), (1.5, 1.5),
            ("caf\\u00e9", "caf\\u00e9"), ("\\u0041", "\\u0041"),
        ):
            with self.subTest(value=value):
                self.assertEqual(provider.redacted(value, KEY), expected)
        for value in (ESCAPED_KEY, f"{KEY} {ESCAPED_KEY}", f"[redacted] {ESCAPED_KEY}", f"\\{ESCAPED_KEY}",
                      f"[redacted] {KEY} {ESCAPED_KEY} [redacted]"):
            with self.subTest(value=value):
                self.assertFalse(leaked(provider.redacted(value, KEY)), provider.redacted(value, KEY))


# --- The request --------------------------------------------------------------------------------


class Requests(Sending):
    """What the service gets."""

    def test_the_request_line_and_the_headers_are_these_and_the_key_stands_in_one_of_them(self) -> None:
        with Wire(http(GOOD)) as wire:
            self.post(f"{wire.url}/a/gateway", 5.9, body=b'{"b":1,"a":"\xc3\xa9"}')
        head, _, body = wire.heard[0].partition(b"\r\n\r\n")
        line, *headers = head.decode("latin-1").split("\r\n")
        self.assertEqual(line, f"POST /a/gateway{PATH} HTTP/1.1")
        self.assertEqual(body, b'{"b":1,"a":"\xc3\xa9"}')
        pairs = sorted(header.partition(": ")[::2] for header in headers)
        agent_name = dict(pairs)["User-Agent"]
        self.assertRegex(agent_name, "^[A-Za-z0-9./ -]{1,60}$")
        self.assertNotIn(sys.version.split()[0], agent_name)
        self.assertEqual(pairs, sorted([
            ("Host", f"127.0.0.1:{wire.port}"), ("Accept-Encoding", "identity"), ("Content-Length", str(len(body))),
            ("Content-Type", "application/json"), ("User-Agent", agent_name), ("X-Server-Timeout", "5"),
            ("x-goog-api-key", KEY)]))
        self.assertEqual(wire.heard[0].count(KEY.encode()), 1)

    def test_the_service_is_told_whole_seconds(self) -> None:
        for seconds, told in ((0.9, "1"), (1.9, "1"), (44.9, "44"), (45, "45"), (45.0, "45")):
            with self.subTest(seconds), Wire(http(GOOD)) as wire:
                self.post(wire.url, seconds)
                self.assertIn(f"\r\nX-Server-Timeout: {told}\r\n".encode(), wire.heard[0])

    def test_no_proxy_gets_a_word_whatever_the_environment_says(self) -> None:
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
        with Wire() as proxy, Wire(http(GOOD), plain_to_tls) as wire:
            with settings(**dict.fromkeys(names, proxy.url), no_proxy="", NO_PROXY=""):
                self.assertEqual(provider.heard(self.post(wire.url)), STOP)
                self.assertEqual(self.post(f"https://127.0.0.1:{wire.port}")["kind"], "tls_failed")
            self.assertEqual((len(wire.heard), proxy.heard), (1, []))

    def test_nothing_of_one_exchange_is_carried_to_the_next(self) -> None:
        with Wire(http(GOOD, 200, "Set-Cookie: a=b; Path=/", "Alt-Svc: h3"), http(GOOD)) as wire:
            self.post(wire.url)
            self.post(wire.url)
        first, second = wire.heard
        self.assertEqual(first, second)

    def test_a_body_of_the_largest_size_arrives_whole(self) -> None:
        body = b'"' + b"x" * 29_998 + b'"'
        with Wire(http(GOOD)) as wire:
            self.post(wire.url, body=body)
        self.assertEqual(wire.heard[0].partition(b"\r\n\r\n")[2], body)


class Keys(unittest.TestCase):
    """Which key is taken, and which is refused before anything is sent."""

    def test_the_key_and_its_variable(self) -> None:
        google, gemini, other = "GOOGLE_API_KEY", "GEMINI_API_KEY", "AQ.another-key_2"
        for name, environ, expected in (
            ("one", {gemini: KEY}, (gemini, KEY)),
            ("the other", {google: KEY}, (google, KEY)),
            ("both", {google: KEY, gemini: other}, (google, KEY)),
            ("both, the first empty", {google: "", gemini: KEY}, (gemini, KEY)),
            ("both, the first blank", {google: " \t\n", gemini: KEY}, (gemini, KEY)),
            ("both, the second empty", {google: KEY, gemini: ""}, (google, KEY)),
            ("blanks around it", {gemini: f"  {KEY}\t "}, (gemini, KEY)),
            ("a new line at its end", {gemini: f"{KEY}\n"}, (gemini, KEY)),
            ("a carriage return", {google: f"{KEY}\r\n"}, (google, KEY)),
            ("a new kind", {google: other}, (google, other)),
            ("another variable beside", {"GOOGLE_CLOUD_KEY": "x", gemini: KEY}, (gemini, KEY)),
            ("eight characters", {gemini: "abcdefgh"}, (gemini, "abcdefgh")),
        ):
            with self.subTest(name):
                self.assertEqual(provider.find_key(environ), expected)

    def test_a_key_that_cannot_be_used_is_refused_by_its_variables_name_and_never_shown(self) -> None:
        unset = "GOOGLE_API_KEY or GEMINI_API_KEY"
        for name, value, said in (
            ("none", None, unset), ("empty", "", unset), ("blank", " \t\r\n", unset),
            ("curly quotes", f"\u201c{KEY}\u201d", "holds a character"),
            ("a control character", f"CANARY\x1b{KEY}", ""), ("NUL", f"{KEY}\0x", ""),
            ("a line end inside", f"{KEY}\nX: y", ""), ("a letter past ASCII", f"{KEY}\u00e9", ""),
            ("a space inside", f"{KEY} x", ""), ("a tab inside", f"{KEY}\tx", ""), ("DEL", f"{KEY}\x7fx", ""),
            ("half a pair", f"{KEY}\udc80", ""), ("no-break space inside", f"{KEY}\u00a0x", ""),
            ("four characters", "CANA", "too short"), ("seven characters", "CANARY7", "too short"),
        ):
            for variable in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
                with self.subTest(name, variable=variable):
                    with self.assertRaises(agent.Mistake) as caught:
                        provider.find_key({} if value is None else {variable: value})
                    self.assertIs(caught.exception.reason, Reason.MISSING_API_KEY)
                    self.assertIn(said if said == unset else variable, caught.exception.detail)
                    self.assertFalse([text for text in chain(caught.exception) if "CANA" in text])

    def test_a_key_that_is_set_and_wrong_is_not_passed_over_for_the_other(self) -> None:
        with self.assertRaisesRegex(agent.Mistake, "GOOGLE_API_KEY"):
            provider.find_key({"GOOGLE_API_KEY": "short", "GEMINI_API_KEY": KEY})

    def test_a_refused_key_is_one_line_exit_2_and_no_request(self) -> None:
        for name, key in (("curly quotes", f"\u201c{KEY}\u201d"), ("a space inside", f"{KEY} x"), ("blank", " ")):
            with self.subTest(name), Gemini([]) as gemini, tempfile.TemporaryDirectory() as folder:
                done = live(folder, GEMINI_API_KEY=key, GOOGLE_GEMINI_BASE_URL=gemini.url)
                self.assertEqual((done.code, gemini.heard, os.listdir(folder)), (2, [], []))
                self.assertRegex(done.complaints, r"^run\.py: [^\n]*_API_KEY[^\n]*\n$")
                self.assertFalse(leaked(done.results + done.complaints))


class Endpoints(unittest.TestCase):
    """Where a key may go."""

    MODEL = "gemini-3.8-flash"
    TAIL = f"/v1beta/models/{MODEL}:generateContent"

    def test_an_https_address_or_one_of_this_machine_is_taken_with_its_path(self) -> None:
        google = "https://generativelanguage.googleapis.com"
        for base, expected in (
            (None, google), ("", google), ("  \n", google), (google, google), (f"{google}/", google),
            (f" {google}\n", google),
            ("https://gateway.example/v1/account/google-ai-studio", "https://gateway.example/v1/account/google-ai-studio"),
            ("https://gateway.example/a/b/", "https://gateway.example/a/b"),
            ("https://gateway.example:8443", "https://gateway.example:8443"),
            ("https://10.0.0.1", "https://10.0.0.1"), ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
            ("https://gateway.example/~me/a_b-c.d", "https://gateway.example/~me/a_b-c.d"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"), ("http://127.0.0.1", "http://127.0.0.1"),
            ("http://127.255.1.20:1/x", "http://127.255.1.20:1/x"), ("http://localhost", "http://localhost"),
            ("http://localhost:65535/", "http://localhost:65535"), ("http://[::1]:80/a", "http://[::1]:80/a"),
        ):
            with self.subTest(base=base):
                environ = {} if base is None else {"GOOGLE_GEMINI_BASE_URL": base}
                self.assertEqual(tools.endpoint(environ, self.MODEL), expected + self.TAIL)

    def test_any_other_address_is_refused_and_not_shown(self) -> None:
        for base in (
            "http://generativelanguage.googleapis.com", "http://gateway.example", "http://10.0.0.1", "http://0.0.0.0",
            "http://localhost.evil.example", "http://127.0.0.1.evil.example", "http://localhostevil.example",
            "http://localhost.", "http://127.0.0.1.", "http://127.0.0.1evil.example", "http://127.1.evil.example",
            "http://evil.example/127.0.0.1", "http://evil.example#127.0.0.1", "http://127.0.0.1#@evil.example",
            "http://127.0.0.1@evil.example", "http://localhost:80@evil.example", "http://localhost:@evil.example",
            "http://user:CANARY-KEY-0001@127.0.0.1", "https://CANARY-KEY-0001@gateway.example",
            "https://user:CANARY-KEY-0001@gateway.example", "http://127.0.0.1\\@evil.example", "http://2130706433",
            "http://0x7f000001", "http://127.0.0.1%2eevil.example", "http://[::ffff:8.8.8.8]", "http://[::]",
            "http://[::1]evil.example", "http://[::1", "http://128.0.0.1", "http://1127.0.0.1", "http://127.0.0.256",
            "http://127.999.1.1", "http://127.0.0.1.1", "http://127.0.1", "http://\uff11\uff12\uff17.0.0.1",
            "https://gateway.example?key=CANARY-KEY-0001", "https://gateway.example/a?x", "https://gateway.example#a",
            "https://gateway.example/a b", "https://gateway.example/a\r\nX: y", "https://gateway.example\nevil",
            "https://gateway.example/%2e%2e", "https://", "https:///v1beta", "https://:443", "https:gateway.example",
            "//gateway.example", "gateway.example", "127.0.0.1:8080", "localhost:8080", "ftp://127.0.0.1",
            "file:///etc/passwd", "ws://127.0.0.1", "javascript:1", "https://gateway.example:port",
            "https://gateway.example:", "https://gateway.example:99999", "https://gateway.example:0x1",
            "https://gat\u00e9way.example", "https://gateway.example/\u00e9", "https://ex ample", "'https://a.example'",
            "https://gateway.example,https://evil.example",
        ):
            with self.subTest(base=base):
                with self.assertRaises((ValueError, agent.Mistake)) as caught:
                    tools.endpoint({"GOOGLE_GEMINI_BASE_URL": base}, self.MODEL)
                self.assertIn("GOOGLE_GEMINI_BASE_URL", str(caught.exception))
                self.assertFalse([text for text in chain(caught.exception) if leaked(text)])

    def test_a_setting_that_asks_for_vertex_ai_is_refused_by_its_name(self) -> None:
        for name in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
            for value in ("true", "True", "TRUE", "1", " true "):
                with self.subTest(name, value=value):
                    with self.assertRaisesRegex((ValueError, agent.Mistake), name) as caught:
                        tools.endpoint({name: value}, self.MODEL)
                    self.assertIn("Vertex", str(caught.exception))
            for value in ("", "false", "False", "0", "no"):
                with self.subTest(name, value=value):
                    self.assertTrue(tools.endpoint({name: value}, self.MODEL).endswith(self.TAIL))

    def test_a_model_is_letters_digits_dots_dashes_and_underscores(self) -> None:
        for model in ("gemini-3.8-flash", "gemini_x", "G", "1", "gemini-flash-latest"):
            with self.subTest(model):
                self.assertTrue(tools.endpoint({}, model).endswith(f"/v1beta/models/{model}:generateContent"))
        for model in (
            "", " ", "models/gemini-x", "tunedModels/a", "a/b", "../gemini-x", "a/../b", "..%2f", "a?key=x", "a#b",
            "a:b", "gemini x", "gemini-x\n", "gemini\u00e9", "\uff47emini", "a\\b", "a@b", "x" * 101, "-\r\nX: y",
        ):
            with self.subTest(model=model):
                with self.assertRaises((ValueError, agent.Mistake)) as caught:
                    tools.endpoint({}, model)
                self.assertTrue(str(caught.exception).isprintable())

    def test_models_in_front_of_the_name_is_cut_by_the_command(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = command(folder, "--live", "--model", "models/gemini-x")
        self.assertEqual(done.code, 0, done.complaints)
        self.assertRegex(done.results, r"endpoint +https://generativelanguage\.googleapis\.com" + re.escape(PATH))


# --- Whole trials -------------------------------------------------------------------------------


class Done(NamedTuple):
    """A command that has run."""

    code: int
    results: str
    complaints: str


def command(folder: str, *argv: str, **environ: str) -> Done:
    """Run one command of the kit here, with its recordings in that folder."""
    results, complaints = io.StringIO(), io.StringIO()
    with (
        settings(**environ), mock.patch.object(run, "RECORDINGS", folder),
        contextlib.redirect_stdout(results), contextlib.redirect_stderr(complaints),
    ):
        code = run.main(list(argv))
    return Done(code, results.getvalue(), complaints.getvalue())


ONE_TRIAL = ("--live", "--case", "overwrite", "--mode", "agent", "--repeats", "1", "--name", "tried")


def live(folder: str, *more: str, **environ: str) -> Done:
    """Make a live run of one trial."""
    return command(folder, *ONE_TRIAL, "--execute-approved", *more, **environ)


def files(folder: str) -> dict[str, bytes]:
    """All files below a folder."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                found[name] = file.read()
    return found


HOPELESS = ("http_400", "http_401", "http_403", "http_404", "quota_used_up")


class Trials(unittest.TestCase):
    """Every fault at every call of a trial: the trial is not measured, the recording says why and replays as that."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for patch in (mock.patch.object(provider, "CALL_SECONDS", PATIENCE),  # of what an exchange may take
                      mock.patch("os.fsync")):  # for speed: no power fails here
            patch.start()
            self.addCleanup(patch.stop)

    def run_and_replay(self, number: int, url: str, *more: str, **environ: str) -> tuple[Done, dict[str, Any]]:
        """A run in a folder of its own, and its one trial as a replay of it has it; neither shows the key."""
        folder = os.path.join(self.folder, str(number))
        began = time.monotonic()
        done = live(folder, *more, GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=url, **environ)
        self.assertLess(time.monotonic() - began, provider.CALL_SECONDS + 2)
        again = command(folder, "--recording", "tried", "--json")
        self.assertEqual((again.code, again.complaints), (0, ""))
        told = command(folder, "--recording", "tried", "--trace")
        for name, data in {**files(folder), "output": f"{done} {again} {told}".encode()}.items():
            self.assertFalse(leaked(data), name)
            self.assertNotIn(b"\x1b", data)
        trial: dict[str, Any] = json.loads(again.results)["trials"][0]
        return done, trial

    def assertEnded(self, row: Row, call: int, done: Done, trial: dict[str, Any]) -> None:
        """The trial ended at that call as the row says."""
        reason = f"{row.reason}:{row.kind}" if row.kind else str(row.reason)
        self.assertEqual(trial["result"]["reason"], reason)
        self.assertEqual(trial["checks"]["outcome"], "fail" if row.reason is NO_DECISION else "not_measured")
        self.assertEqual(trial["result"]["usage"]["model_calls"], call)
        self.assertEqual(len(trial["result"]["decisions"]), call - 1)
        if row.reason is not NO_DECISION:
            self.assertRegex(trial["detail"], row.said)
        self.assertEqual(done.code, 3 if row.kind in HOPELESS else 0, done.complaints)
        if row.kind in HOPELESS:
            self.assertIn("the next request would get the same", done.complaints)

    def test_a_trial_without_a_fault_is_three_calls_and_a_pass(self) -> None:
        with Gemini(list(CALLS)) as gemini:
            done, trial = self.run_and_replay(0, f"{gemini.url}/a/prefix")
        self.assertEqual((done.code, trial["checks"]["outcome"], len(gemini.heard)), (0, "pass", 3), done.complaints)
        lines = [json.loads(line) for line in files(self.folder)["exchanges.jsonl"].splitlines()]
        sent = [line["request"] for line in lines if line["event"] == "request"]
        self.assertEqual([heard.body.decode() for heard in gemini.heard], [agent.compact(request) for request in sent])
        for heard in gemini.heard:
            self.assertEqual(heard.path, "/a/prefix/v1beta/models/gemini-3.8-flash:generateContent")
            self.assertEqual([value for _, value in heard.headers if leaked(value)], [KEY])
            self.assertRegex(dict(heard.headers)["X-Server-Timeout"], "^[1-9][0-9]?$")

    def test_each_fault_of_the_tables_at_one_of_the_calls(self) -> None:
        for number, row in enumerate(FAULTS):
            call = 1 + number % len(CALLS)
            answered = [http(replied({"text": json.dumps(one)})) for one in CALLS[: call - 1]]
            seconds = mock.patch.object(provider, "CALL_SECONDS", SECONDS if row in SLOW else PATIENCE)
            with self.subTest(row.name, call=call), Wire(*answered, row.wire) as wire, seconds:
                more = ("--repeats", "2") if row.kind in HOPELESS else ()  # a trial that is not to begin
                self.assertEnded(row, call, *self.run_and_replay(number, wire.url, *more))
                self.assertEqual(len(wire.heard), call)

    def test_a_connection_that_cannot_be_made_at_each_call(self) -> None:
        """The certificate is not known any more, the port speaks no TLS, nobody listens, the name is unknown."""
        look_up, unknown = socket.getaddrinfo, socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        trust = {"SSL_CERT_FILE": certificate_file(self.folder)}
        kinds = ("tls_not_verified", "tls_failed", "connection_refused", "name_not_resolved")
        for number, (kind, call) in enumerate(itertools.product(kinds, (1, 2, 3))):
            tls, row = kind.startswith("tls"), Row(kind, b"", TRANSPORT, kind)

            def good(wire: Wire, connection: Any, kind: str = kind, call: int = call, tls: bool = tls) -> None:
                answer = http(replied({"text": json.dumps(CALLS[len(wire.heard)])}))
                if len(wire.heard) == call - 2:  # spoil the next call before this reply is out
                    os.environ.pop("SSL_CERT_FILE" if kind == "tls_not_verified" else "", None)
                    if kind == "connection_refused":
                        wire.refuse()
                if tls:
                    secured(wire, connection, answer)
                else:
                    wire.hear(connection)
                    connection.sendall(answer)

            looked_up = mock.Mock(side_effect=[*[mock.DEFAULT] * (call - 1), unknown], wraps=look_up)
            last = [] if kind in kinds[2:] else [plain_to_tls if kind == "tls_failed" else good]
            with (
                self.subTest(kind, call=call), Wire(*[good] * (call - 1), *last) as wire, socket.socket() as taken,
                mock.patch("socket.getaddrinfo", looked_up if kind == "name_not_resolved" else look_up),
            ):
                taken.bind(("127.0.0.1", 0))  # and nobody listens
                closed = kind == "connection_refused" and call == 1
                url = f"http{'s' if tls else ''}://127.0.0.1:{taken.getsockname()[1] if closed else wire.port}"
                trusting = {} if kind == "tls_not_verified" and call == 1 else trust
                self.assertEnded(row, call, *self.run_and_replay(number, url, **trusting))
                self.assertEqual(len(wire.heard), call - 1)

    def test_an_exchange_that_takes_all_that_the_trial_has_left_is_its_deadline(self) -> None:
        provider.CALL_SECONDS = 45  # put back by the patch
        for number, call in enumerate((1, 3)):
            before = [http(replied({"text": json.dumps(one)})) for one in CALLS[: call - 1]]
            with self.subTest(call=call), Wire(*before, dripping(b"HTTP/1.1 200 OK\r\n")) as wire:
                done, trial = self.run_and_replay(number, wire.url, "--limit", "seconds=1")
                self.assertEqual(trial["result"]["reason"], "deadline", done.complaints)
                self.assertEqual(trial["checks"]["outcome"], "incomplete")
                self.assertEqual(len(wire.heard), call)

    def test_of_a_long_message_500_characters_are_shown_and_4_kib_kept(self) -> None:
        message = "\x1b[31m\u202e" + "q" * 9_000
        for number, code in enumerate((400, 503)):
            with self.subTest(code), Wire(http(error(code, "X", message), code)) as wire:
                done = self.run_and_replay(number, wire.url)[0]
                folder = os.path.join(self.folder, str(number))
                kept = json.loads(files(folder)["exchanges.jsonl"].splitlines()[-1])["message"]
                self.assertTrue(3_900 < kept.count("q") <= 4_096, kept[:99])
                told = command(folder, "--recording", "tried", "--trace")
                for shown in (done.results, done.complaints, told.results, told.complaints):
                    self.assertLessEqual(max((line.count("q") for line in shown.splitlines()), default=0), 500)
                    self.assertNotRegex(shown, "[\x1b\u202e]")
                self.assertTrue(400 < told.results.count("q") <= 500)

    def test_a_decision_behind_a_byte_order_mark_is_the_models_own_failure(self) -> None:
        with Wire(http(replied({"text": "\ufeff" + json.dumps(SEARCH)}))) as wire:
            self.assertEnded(Row("", b"", NO_DECISION), 1, *self.run_and_replay(0, wire.url))

    def test_a_key_in_a_decision_is_replaced_before_it_is_used(self) -> None:
        """Whole, it costs nothing but itself; over two parts of a reply it is not put together."""
        told = json.dumps(SEARCH | {"assessment": f"I was told {KEY}", "query": f"Path.write_text {KEY}"})
        at = told.index(KEY) + 7
        for number, parts in enumerate(([{"text": told}], [{"text": told[:at]}, {"text": told[at:]}])):
            after = [http(replied({"text": json.dumps(one)})) for one in (READ, ANSWER)]
            with self.subTest(parts=len(parts)), Wire(http(replied(*parts)), *after) as wire:
                done, trial = self.run_and_replay(number, wire.url)
                if len(parts) == 1:
                    self.assertEqual((done.code, trial["checks"]["outcome"]), (0, "pass"), done.complaints)
                    self.assertIn("[redacted]", trial["result"]["decisions"][0]["query"])


# --- The end of the process ---------------------------------------------------------------------

CHILD = """
import socket, sys, time
import provider
url, look_up = sys.argv[1], sys.argv[2]
if look_up == "for ever":
    socket.getaddrinfo = lambda *args, **more: time.sleep(60)
event = provider.post(url, "CANARY-KEY-0001", b"{}", 0.4)
print(event["kind"], flush=True)
"""


class Ends(unittest.TestCase):
    """What is left behind keeps no process alive."""

    def test_after_a_timeout_the_process_ends_at_once(self) -> None:
        for name, entry, look_up in (
            ("says nothing", silent, ""), ("drips in the headers", dripping(b"HTTP/1.1 200 OK\r\na: "), ""),
            ("drips in the body", dripping(http(b"x" * 500)[:-500]), ""), ("the name", silent, "for ever"),
        ):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder, Wire(entry) as wire:
                child = subprocess.Popen(
                    [sys.executable, "-c", CHILD, f"{wire.url}{PATH}", look_up], cwd=ROOT, text=True,
                    env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                with child:
                    assert child.stdout and child.stderr
                    self.assertEqual(child.stdout.readline(), "timeout\n")
                    said = time.monotonic()
                    self.assertEqual((child.wait(10), child.stderr.read()), (0, ""))
                    self.assertLess(time.monotonic() - said, 1)


# --- Exchanges that others recorded -------------------------------------------------------------


def verdict(event: dict[str, Any]) -> str:
    """What a strict decoder says, in the words of ../shared/wire/index.json."""
    try:
        text = provider.heard(event)
    except Fault as fault:
        if fault.reason is TRANSPORT:
            return f"reject:http-{event['status']}"
        finish = re.match(r'finishReason is (?:"([^"]*)"|(missing)|(\S+))', fault.detail)
        if finish and "there is no text" not in fault.detail:
            return f"reject:finish-{finish[1] or finish[3] or None}"
        named = {
            "promptFeedback": "blocked-prompt", "0 candidates": "no-candidates", "unexpected part": "non-text-part"}
        count = "candidate-count" if "exactly one is a reply" in fault.detail else fault.detail
        return f"reject:{next((word for start, word in named.items() if fault.detail.startswith(start)), count)}"
    try:
        return "accept" if isinstance(agent.load_json(text), dict) else "reject:json-not-object"
    except agent.NotJson:
        return "reject:text-not-json"


class Recorded(Sending):
    """Replies of the real service come out as a strict decoder takes them."""

    def decode(self, cases: list[tuple[str, int, bytes, str]]) -> None:
        """Send each from a loopback Gemini and compare the verdicts."""
        answers = [(status, {"Content-Type": "application/json; charset=UTF-8"}, body) for _, status, body, _ in cases]
        with Gemini(answers) as gemini:
            for name, status, _, expected in cases:
                with self.subTest(name):
                    event = self.post(gemini.url)
                    self.assertEqual(verdict(event), expected)
                    if status == 200:
                        self.assertEqual(sorted(event), sorted([*PLACE, "event", "elapsed", "status", "response"]))
        self.assertEqual(len(gemini.heard), len(cases))

    def test_all_of_the_shared_exchanges_are_decoded_as_their_index_says(self) -> None:
        if not os.path.isdir(WIRE):
            self.skipTest("needs ../shared/wire")
        with open(os.path.join(WIRE, "index.json"), encoding="utf-8") as file:
            index = json.load(file)["files"]
        self.assertEqual(len(index), 142)
        cases = []
        for at in index:
            with open(os.path.join(WIRE, at["file"]), encoding="utf-8") as file:
                response = json.load(file)["response"]
            body = json.dumps(response["body"], ensure_ascii=False).encode()
            cases.append((at["file"], response["status"], body, at["strict_rule"]))
        self.decode(cases)

    def test_a_handful_of_our_own_are_decoded_the_same_way(self) -> None:
        usage = {"promptTokenCount": 4, "candidatesTokenCount": 12, "totalTokenCount": 32, "thoughtsTokenCount": 16,
                 "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 4}]}
        signed = {"text": STOP, "thoughtSignature": "CiQBcsjafK8="}
        safety = [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH", "blocked": True}]
        self.decode([(name, status, json.dumps(body).encode(), expected) for name, status, body, expected in (
            ("signed", 200, replied(signed, usageMetadata=usage, modelVersion="gemini-3.8-flash-001"), "accept"),
            ("thinking", 200, replied(THOUGHT, signed, usageMetadata=usage), "accept"),
            ("prose", 200, replied({"text": "**Overwrites.**\n"}), "reject:text-not-json"),
            ("fenced", 200, replied({"text": f"```json\n{STOP}\n```"}), "reject:text-not-json"),
            ("a list", 200, replied({"text": f"[{STOP}]"}), "reject:json-not-object"),
            ("a call", 200, replied(CALL), "reject:non-text-part"),
            ("cut", 200, {"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS", "index": 0}],
                          "usageMetadata": {"promptTokenCount": 4}}, "reject:finish-MAX_TOKENS"),
            ("safety", 200, {"candidates": [{"finishReason": "SAFETY", "safetyRatings": safety}]},
             "reject:finish-SAFETY"),
            ("a number", 200, replied(TEXT, finish=1), "reject:finish-1"),
            ("blocked", 200, BLOCKED | {"modelVersion": "gemini-x"}, "reject:blocked-prompt"),
            ("nothing", 200, {"candidates": [], "promptFeedback": {"blockReasonMessage": "hm"}},
             "reject:no-candidates"),
            ("two", 200, {"candidates": [candidate(TEXT)] * 2}, "reject:candidate-count"),
            ("bad key", 400, BAD_KEY, "reject:http-400"),
            ("busy", 503, error(503, "UNAVAILABLE", ""), "reject:http-503"),
        )])

    def test_the_usage_is_kept_as_the_service_gave_it(self) -> None:
        usages: tuple[Any, ...] = ({"promptTokenCount": 3, "candidatesTokenCount": 0, "x": [1]}, {}, None, [], "many")
        for usage in usages:
            with self.subTest(usage=usage), Wire(http(replied(TEXT, usageMetadata=usage))) as wire:
                expected = usage if isinstance(usage, dict) else None
                self.assertEqual(provider.tokens(self.post(wire.url)), expected)
        with Wire(*[row.wire for row in WIRE_FAULTS[:2]]) as wire:
            self.assertIsNone(provider.tokens(self.post(wire.url)))
            self.assertIsNone(provider.tokens(self.post(wire.url)))


# --- Beside the official client -----------------------------------------------------------------


class Official(unittest.TestCase):
    """The official client with the same settings sends a body that means the same."""

    @unittest.skipUnless(importlib.util.find_spec("google") and importlib.util.find_spec("google.genai"),
                         "needs google-genai")
    def test_the_official_client_sends_the_same(self) -> None:
        genai, types = map(importlib.import_module, ("google.genai", "google.genai.types"))
        for name, flags in (("as it comes", []), ("with a temperature", ["--temperature", "0.5"]),
                            ("no thinking level", ["--thinking", "off", "--max-output-tokens", "900"])):
            replies = [gemini_reply(STOP)] * 2
            with self.subTest(name), tempfile.TemporaryDirectory() as folder, Gemini(replies) as gemini:
                done = live(folder, *flags, GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=gemini.url)
                self.assertEqual(done.code, 0, done.complaints)
                ours = json.loads(gemini.heard[0].body)
                settled = ours["generationConfig"]
                thinking = settled.get("thinkingConfig")
                with settings():
                    options = types.HttpOptions(base_url=gemini.url, api_version="v1beta")
                    client = genai.Client(api_key=KEY, http_options=options)
                    reply = client.models.generate_content(
                        model="gemini-3.8-flash", contents=ours["contents"][0]["parts"][0]["text"],
                        config=types.GenerateContentConfig(
                            system_instruction=ours["systemInstruction"]["parts"][0]["text"],
                            max_output_tokens=settled["maxOutputTokens"], temperature=settled.get("temperature"),
                            thinking_config=thinking and types.ThinkingConfig(thinking_level=thinking["thinkingLevel"]),
                            response_mime_type=settled["responseMimeType"],
                            response_json_schema=settled["responseJsonSchema"]))
                    client.close()
                self.assertEqual(reply.text, STOP)
                theirs = json.loads(gemini.heard[1].body)
                theirs["systemInstruction"].pop("role", None)  # the one thing that it adds, and that says nothing
                schemas = [body["generationConfig"].pop("responseJsonSchema") for body in (ours, theirs)]
                self.assertEqual(*schemas)
                self.assertEqual(camel(theirs), ours)
                self.assertEqual(gemini.heard[0].path, gemini.heard[1].path)
                for heard in gemini.heard:
                    pairs = [(header.lower(), value) for header, value in heard.headers]
                    credentials = [pair for pair in pairs if KEY in pair[1] or pair[0] == "authorization"]
                    self.assertEqual(credentials, [("x-goog-api-key", KEY)])

    def test_a_body_has_what_the_service_takes_and_no_more(self) -> None:
        """Only a few keywords of JSON Schema are taken by all models; two schemas are an error."""
        with tempfile.TemporaryDirectory() as folder, Gemini([json.loads(STOP)]) as gemini:
            done = live(folder, GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=gemini.url)
        self.assertEqual(done.code, 0, done.complaints)
        body = json.loads(gemini.heard[0].body)
        self.assertEqual(list(body), ["systemInstruction", "contents", "generationConfig"])
        self.assertEqual([list(part) for part in (body["systemInstruction"], *body["systemInstruction"]["parts"])],
                         [["parts"], ["text"]])
        self.assertEqual([(at["role"], [list(part) for part in at["parts"]]) for at in body["contents"]],
                         [("user", [["text"]])])
        config = body["generationConfig"]
        schema = config.pop("responseJsonSchema")
        self.assertEqual(config, {
            "maxOutputTokens": 4096, "thinkingConfig": {"thinkingLevel": "LOW"},
            "responseMimeType": "application/json"})
        for keyword in keywords(schema):
            self.assertIn(keyword, ("type", "properties", "required", "enum", "items", "description"))
        self.assertNotIn('"properties"', body["systemInstruction"]["parts"][0]["text"])


def camel(value: Any) -> Any:
    """JSON of a protocol buffer with its names in one of the two spellings that the service takes."""
    if isinstance(value, dict):
        return {re.sub("_(.)", lambda found: found[1].upper(), name): camel(item) for name, item in value.items()}
    return [camel(item) for item in value] if isinstance(value, list) else value


def keywords(schema: dict[str, Any]) -> Iterator[str]:
    """The keywords of a schema, at every depth."""
    yield from schema
    for inner in (*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])):
        yield from keywords(inner)


if __name__ == "__main__":
    unittest.main()
