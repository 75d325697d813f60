"""A real Chromium for tests, driven over two pipes by the standard library alone: no port is opened.

The protocol is DevTools': JSON messages that end with a null byte, commands in on descriptor 3, answers and events out
on 4 (`--remote-debugging-pipe`). What a page did that it should not have is in `complaints` and `requests`.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--disable-dev-shm-usage", "--proxy-server=127.0.0.1:9",  # nothing listens there: no way out for the browser itself
)
PATIENCE = 30.0  # seconds until a silent browser is given up


def chromium() -> str | None:
    """The path of a browser, or None where there is none."""
    return next((path for name in NAMES if os.name == "posix" and (path := shutil.which(name))), None)


class Browser:
    """One browser with one page."""

    def __init__(self) -> None:
        path = chromium()
        assert path, "needs chromium"
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        home = {**os.environ, "HOME": self._folder.name}
        self._process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "sh", path, *FLAGS, *root,
             f"--user-data-dir={self._folder.name}", "about:blank"],
            pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=home)
        os.close(commands)
        os.close(answers)
        self._number, self._session, self._unread = 0, "", b""
        self.width = 0  # of the window, once it was set
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser and all it left."""
        self._session = ""
        self._send("Browser.close", {})
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._folder.cleanup()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its result; raises AssertionError when the browser refuses it."""
        number = self._send(method, params)
        while (message := self._next()).get("id") != number:
            self._noted(message)
        assert "error" not in message, f"{method}: {message.get('error')}"
        return dict(message["result"])

    def open(self, url: str) -> None:
        """Load a page from scratch, and wait until its scripts have run."""
        self.complaints, self.requests = [], []
        path, mark, fragment = url.partition("#")
        self.call("Page.navigate", url=f"{path}?{self._number}{mark}{fragment}")  # else a new #... loads nothing
        self.run("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")

    def go(self, address: str) -> None:
        """To another address (#...) of the same page, and wait until it is shown."""
        self.run(f"new Promise(done => {{ if (location.hash === {json.dumps(address)}) return done();"
                 f" addEventListener('hashchange', () => setTimeout(done), {{once: true}});"
                 f" location.hash = {json.dumps(address)}; }})")

    def run(self, script: str) -> Any:
        """The value of an expression in the page (of a promise: what it comes to); raises what it raised."""
        told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True,
                         userGesture=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"].get("exception", told["exceptionDetails"])
        return told["result"].get("value")

    def key(self, key: str) -> None:
        """Press and let go of one key that writes a character."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")

    def choose(self, selector: str, files: list[str]) -> None:
        """Choose files in a file input."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=files, nodeId=node)

    def look(self, width: int = 1200, scheme: str = "light", medium: str = "screen") -> None:
        """How wide the window is, which colours a person prefers, and the medium."""
        self.width = width
        screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **screen)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=medium, features=features)

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def _send(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": params, **session}
        whole = json.dumps(message).encode("ascii") + b"\0"
        while whole:
            whole = whole[os.write(self._to, whole):]
        return self._number

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            more = os.read(self._from, 1 << 20) if ready else b""
            assert more, "the browser fell silent"
            self._unread += more
        message, _, self._unread = self._unread.partition(b"\0")
        return dict(json.loads(message))

    def _noted(self, event: dict[str, Any]) -> None:
        """Keep what a page did that it should not have."""
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(str(details.get("exception", {}).get("description", details["text"])))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(f"console.{params['type']}: {params['args']}")
        elif method == "Log.entryAdded":
            self.complaints.append(f"{params['entry']['source']}: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
