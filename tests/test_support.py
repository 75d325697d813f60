"""The fence around the tests holds: it is what lets every other test claim "no network"."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import unittest

from tests import support

OUTSIDE = "192.0.2.1"  # TEST-NET-1, RFC 5737: nobody's


def tcp_connect(address: tuple[str, int]) -> None:
    with socket.socket() as client:
        client.setblocking(False)  # were it let through, the test would fail at once, not hang
        client.connect(address)


def tcp_connect_ex(address: tuple[str, int]) -> None:
    with socket.socket() as client:
        client.setblocking(False)
        client.connect_ex(address)


def udp_send(address: tuple[str, int]) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.sendto(b"", address)


class Fence(unittest.TestCase):
    def test_every_way_out_raises_before_a_packet_leaves(self) -> None:
        attempts = {
            "connect": lambda: tcp_connect((OUTSIDE, 9)),
            "connect_ex": lambda: tcp_connect_ex((OUTSIDE, 9)),
            "create_connection": lambda: socket.create_connection((OUTSIDE, 9), timeout=1),
            "sendto": lambda: udp_send((OUTSIDE, 9)),
            "getaddrinfo": lambda: socket.getaddrinfo("example.com", 443),
            "getaddrinfo of bytes": lambda: socket.getaddrinfo(b"example.com", 443),
            "gethostbyname": lambda: socket.gethostbyname("example.com"),
            "gethostbyaddr": lambda: socket.gethostbyaddr(OUTSIDE),
            "getnameinfo": lambda: socket.getnameinfo((OUTSIDE, 9), 0),
            "a name that only looks local": lambda: socket.gethostbyname("localhost.example.com"),
        }
        for name, attempt in attempts.items():
            with self.subTest(name), self.assertRaises(support.NetworkRefused):
                attempt()

    def test_loopback_works_by_address_and_by_name(self) -> None:
        for host in ("127.0.0.1", "localhost"):
            with (
                self.subTest(host),
                socket.create_server(("127.0.0.1", 0)) as server,
                socket.create_connection((host, server.getsockname()[1]), timeout=10) as client,
            ):
                near, _ = server.accept()
                with near:
                    client.sendall(b"hello")
                    self.assertEqual(near.recv(5), b"hello")

    def test_a_child_process_has_the_same_fence_and_none_of_our_settings(self) -> None:
        script = (
            "import os, socket\n"
            "print(*[name for name in os.environ if 'KEY' in name or 'PROXY' in name.upper()])\n"
            f"socket.create_connection(({OUTSIDE!r}, 9), timeout=1)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            child = subprocess.run(
                [sys.executable, "-c", script],
                env=support.environment(folder),
                capture_output=True,
                text=True,
                timeout=60,
            )
        self.assertEqual((child.returncode, child.stdout), (1, "\n"))
        self.assertIn("NetworkRefused: socket.", child.stderr)
