"""What several tests share: where the kit is, no way out to a network, child processes.

It never holds expectations: those stand in the test that has them.
"""

from __future__ import annotations

import ipaddress
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODULES = ("run", "agent", "tools", "retrieval", "provider", "evaluate")


# --- No network ---------------------------------------------------------------------------------


class NetworkRefused(AssertionError):
    """A test tried to leave this machine. No OSError: nothing may take it for an outage."""


# Which argument of an audit event names the other end (the events: docs.python.org, audit_events).
OTHER_END = {
    "socket.connect": 1,
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
    "socket.gethostbyaddr": 0,
    "socket.getnameinfo": 0,
}


def refuse_network() -> None:
    """From now on raise `NetworkRefused` before this process reaches past loopback.

    An audit hook cannot be taken out again, so that no test can forget to put it back.
    """
    sys.addaudithook(_refuse_unless_loopback)


def _refuse_unless_loopback(event: str, args: tuple[Any, ...]) -> None:
    place = OTHER_END.get(event)
    if place is not None and not _stays_here(args[place]):
        raise NetworkRefused(f"{event} to {args[place]!r}: tests stay on this machine")


def _stays_here(other_end: object) -> bool:
    """Whether a socket address or a host name is of this machine without asking anyone."""
    host = other_end[0] if isinstance(other_end, tuple) and other_end else other_end
    if isinstance(host, bytes):
        host = os.fsdecode(host)
    if host is None or host in ("", "localhost"):  # None: the socket is connected already
        return True
    try:
        return isinstance(host, str) and ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name to look up, or the path of a local socket
        return not isinstance(other_end, tuple) and "/" in str(host)


# --- Child processes ----------------------------------------------------------------------------


def environment(folder: str, **more: str) -> dict[str, str]:
    """What a child process gets to see: no key, no network, nothing of the caller's settings.

    Python imports `sitecustomize` at its start; the one written into `folder` brings the hook.
    """
    with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8", newline="\n") as out:
        print(f"import runpy\nrunpy.run_path({__file__!r})['refuse_network']()", file=out)
    inherited = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    settings = {
        "HOME": folder,
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": folder,
        "PYTHONUTF8": "1",
    }
    return {**inherited, **settings, **more}


# --- Scripted model -----------------------------------------------------------------------------
# The kit's modules are imported where they are used: child processes run this file at their start.


def decision(action: str, **fields: Any) -> dict[str, Any]:
    """A whole decision; what is not given is empty."""
    empty = {"assessment": "scripted", "query": "", "source_id": "", "answer": "", "citations": []}
    return {"action": action, **empty, **fields}


class Clock:
    """The trial's seconds; only the test moves them."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class ScriptedModel:
    """The `ask` port of the controller: it replies from a list, an entry a call, or by a function of the tape.

    An entry is a decision (or any JSON value), a text, a Fault to raise, or a function of the tape that gives one of
    them. A call past the end of the list fails the test. `left` has the seconds that each call was given.
    """

    def __init__(self, script: Any) -> None:
        self._script = script
        self.left: list[float] = []

    def ask(self, tape: Any, seconds: float) -> str:
        self.left.append(seconds)
        entry = self._script if callable(self._script) else self._script[len(self.left) - 1]
        entry = entry(tape) if callable(entry) else entry
        if isinstance(entry, Exception):
            raise entry
        return entry if isinstance(entry, str) else json.dumps(entry)


def snapshot(texts: dict[str, str], version: str = "1", title: str = "") -> Any:
    """A `retrieval.Snapshot` of texts by their ids, of one version, each at an address of its own."""
    import retrieval

    return retrieval.Snapshot("plain", tuple(
        retrieval.Passage(name, version, text, f"https://docs.invalid/{name}", retrieval.text_sha256(text), title)
        for name, text in texts.items()))


class ChangingIndex:
    """A real index whose passages change later: `now[source_id]` is the text that stands there, None when it is gone.

    Searches, and so receipts, are of what was indexed.
    """

    def __init__(self, index: Any) -> None:
        self._index = index
        self.now: dict[str, str | None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def passage(self, source_id: str, version: str) -> Any:
        found = self._index.passage(source_id, version)
        text = self.now.get(source_id, found and found.text)
        return None if text is None else found._replace(text=text)


class WatchedTools:
    """The port to the tools over a real toolbox: `calls` has the name of each call, and `before(name)` runs before it:
    it may raise a Fault, move a clock or change a passage."""

    def __init__(self, index: Any, version: str, before: Callable[[str], None] = lambda name: None) -> None:
        import tools

        self._toolbox: Any = tools.Toolbox(index, version)
        self._before = before
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            self.calls.append(name)
            self._before(name)
            return getattr(self._toolbox, name)(*args)

        return call


# --- A loopback Gemini --------------------------------------------------------------------------

USAGE = {"promptTokenCount": 300, "candidatesTokenCount": 40, "thoughtsTokenCount": 10, "totalTokenCount": 350}


class Heard(NamedTuple):
    """A request as it came in; `when` is of time.monotonic()."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes
    when: float


def gemini_reply(value: Any, finish: str = "STOP", usage: Any = USAGE) -> tuple[int, dict[str, str], bytes]:
    """A finished reply whose text is `value` itself when it is a text, else its JSON."""
    part = {"text": value if isinstance(value, str) else json.dumps(value), "thoughtSignature": "c2lnbmVk"}
    candidate = {"content": {"parts": [part], "role": "model"}, "finishReason": finish, "index": 0}
    reply = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-of-a-test"}
    return 200, {"Content-Type": "application/json; charset=UTF-8"}, json.dumps(reply).encode("utf-8")


def gemini_error(code: int, status: str, message: str, *details: Any) -> tuple[int, dict[str, str], bytes]:
    """An error in the service's own shape."""
    error = {"code": code, "message": message, "status": status, "details": details}
    return code, {"Content-Type": "application/json; charset=UTF-8"}, json.dumps({"error": error}).encode("utf-8")


class Gemini:
    """A server on 127.0.0.1 that answers from a script, one request at a time, and keeps what it heard.

    The script is a list with an entry a request, or one entry for all that is callable. An entry is a decision (dict),
    (status, headers, bytes), raw bytes or an iterator of them (all that goes over the wire), None (it hangs up without
    a word), or a callable that gets the Heard and returns one of these. What a script raises is raised by `close`.
    """

    def __init__(self, script: Any) -> None:
        import socketserver
        import threading

        self.heard: list[Heard] = []
        self.raised: list[BaseException] = []
        self._script = script
        self._closing = threading.Event()
        self._connection: Any = None
        gemini = self

        class Server(socketserver.TCPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                error = sys.exception()
                if error and not isinstance(error, ConnectionError):  # a client that went away is no fault of ours
                    gemini.raised.append(error)

        self._server = Server(("127.0.0.1", 0), _gemini_handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def __enter__(self) -> Gemini:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop, and raise what a script raised."""
        self._closing.set()
        try:
            self._server.shutdown()
        finally:
            self._server.server_close()
            self._thread.join()
        if self.raised:
            raise self.raised[0]

    def stay(self, seconds: float) -> None:
        """For a script that is slow: wait so long, or until the client hangs up or the server is closed."""
        import select

        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._closing.is_set():
            if select.select([self._connection], [], [], 0.01)[0]:  # the request is read: only an end can come
                return

    def answer(self, heard: Heard, connection: Any) -> bytes | Iterator[bytes]:
        """What goes over the wire for one request."""
        self.heard.append(heard)
        self._connection = connection
        at = len(self.heard) - 1
        if not callable(self._script) and at >= len(self._script):
            raise AssertionError(f"request {at + 1} is past the script")
        entry: Any = self._script if callable(self._script) else self._script[at]
        entry = entry(heard) if callable(entry) else entry
        if isinstance(entry, dict):
            entry = gemini_reply(entry)
        if isinstance(entry, tuple):
            status, headers, body = entry
            lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers.items())]
            lines += [] if "Content-Length" in headers else [f"Content-Length: {len(body)}"]
            return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + bytes(body)
        wire: bytes | Iterator[bytes] = entry or b""
        return wire


def _gemini_handler(gemini: Gemini) -> Any:
    """The class that http.server wants, around one Gemini."""
    import http.server

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            heard = Heard(self.command, self.path, list(self.headers.items()), body, time.monotonic())
            wire = gemini.answer(heard, self.connection)
            for chunk in [wire] if isinstance(wire, bytes) else wire:
                self.wfile.write(chunk)

        do_GET = do_PUT = do_HEAD = do_POST

        def log_message(self, *args: Any) -> None:
            """Quiet."""

    return Handler
