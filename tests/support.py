"""What several tests share: where the kit is, no way out to a network, child processes.

It never holds expectations: those stand in the test that has them.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from typing import Any

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
