"""README.md tells the truth: its commands are run, its tables are the code's enums.

A fenced block marked `console` holds commands, each after `$ `, and below each what it prints
(standard output and standard error, in order). A line `...` stands for any number of lines.
Commands run in the order of the page, in one scratch copy of the kit, without a shell, a key or a
network, and end with exit code 0 unless the next command is `echo $?`, which prints that code.
The page is written by people: nothing here writes it.
"""

from __future__ import annotations

import difflib
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from typing import Any, NamedTuple

from tests.support import ROOT, environment

README = os.path.join(ROOT, "README.md")

# This very suite: to run it here would never end. .ci/run runs it on every Python.
SUITE = "python3 -m unittest discover -v"


# --- The one rule about what may differ ---------------------------------------------------------

MASKS = [
    (r"\b[0-9a-f]{64}\b", "HASH"),
    (r"\b\d+\.\d+ s\b", "N.N s"),
    (r"(?i)\b(python|sqlite)(\W{0,4})\d+\.\d+(\.\d+)?\b", r"\1\2N.N.N"),
    (r"(?<![\w.:/<])(/[\w.+~-]+){2,}/?", "/PATH"),
]


def masked(text: str) -> str:
    """The text without what no two machines share.

    Times (`0.1 s` -> `N.N s`), SHA-256 hashes (-> `HASH`), versions (`Python 3.11.7` ->
    `Python N.N.N`, SQLite's alike), and absolute paths of two or more parts (-> `/PATH`).
    """
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    return text


# --- Reading the page ---------------------------------------------------------------------------


class Command(NamedTuple):
    """A command of the page: its line, what it prints, the code it ends with, the line on which its block begins."""

    line: int
    command: str
    expected: list[str]
    code: int = 0
    block: int = 0


def commands(page: str) -> list[Command]:
    """The commands in the page's `console` blocks; ValueError for output before any command."""
    found: list[Command] = []
    fence = ""
    for number, text in enumerate(page.splitlines(), 1):
        if text.startswith("```"):
            fence = "" if fence else text[3:].strip() or "plain"
            opened = number
        elif fence == "console" and text.startswith("$ "):
            found.append(Command(number, text[2:], [], block=opened))
        elif fence == "console":
            if not found or found[-1].line < opened:
                raise ValueError(f"README.md:{number}: a console block begins with a command")
            found[-1].expected.append(text)
    return with_codes(found)


def with_codes(found: list[Command]) -> list[Command]:
    """The commands without each `echo $?`, whose output is the code of the one before it."""
    told: list[Command] = []
    for command in found:
        if command.command == "echo $?":
            told[-1] = told[-1]._replace(code=int(*command.expected))
        else:
            told.append(command)
    return told


def prints(expected: list[str], output: str) -> bool:
    """Whether the output is what the page says, `...` standing for any number of lines."""
    parts = [r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in expected]
    return re.fullmatch("".join(parts), output) is not None


def table(page: str, heading: str) -> list[tuple[str, str]] | None:
    """The first two cells of each row of the first table below a heading, None without one."""
    section = re.search(rf"^#+ {heading} *\n((?:(?!#).*\n)*)", page, re.MULTILINE)
    rows = re.findall(r"^\|(.*)\|[ ]*$", section[1] if section else "", re.MULTILINE)
    if not rows:
        return None
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in rows[2:]]
    return [(first.strip("`"), second.replace(r"\|", "|")) for first, second, *_ in cells]


def readme() -> str:
    """README.md; the test skips while there is none."""
    if not os.path.exists(README):
        raise unittest.SkipTest("needs README.md, which is not written yet")
    with open(README, encoding="utf-8") as file:
        return file.read()


# --- The page against the kit -------------------------------------------------------------------


class Commands(unittest.TestCase):
    def test_each_command_prints_what_the_page_says(self) -> None:
        told = commands(readme())
        self.assertGreaterEqual(len(told), 2, "README.md shows no two commands: see this file")
        with tempfile.TemporaryDirectory() as kit, tempfile.TemporaryDirectory() as home:
            copy_kit(kit)
            settings = environment(home, PYTHONUNBUFFERED="1")
            absent = {at.block: lacking(at.command) for at in told if lacking(at.command)}
            for line, command, expected, code, block in told:
                with self.subTest(f"README.md:{line}: {command}"):
                    if block in absent:
                        self.skipTest(f"needs {absent[block]}")
                    if "unittest" in command:
                        self.assertEqual(command, SUITE)
                        continue
                    child = run(shlex.split(command), kit, settings)
                    self.assertPrints(expected, child.stdout)
                    self.assertEqual(child.returncode, code, child.stdout)

    def test_the_files_that_the_page_shows_can_be_used(self) -> None:
        """The case to copy has no fault and no weak label; a judged query finds what its grades name."""
        shown = re.findall(r"```json\n(.*?)```", readme(), re.DOTALL)
        for key, words, told in (
            ("cases", ["check", "--cases"], "0 faults, 0 weak labels\n"), ("queries", ["search", "--judge"], "q1"),
        ):
            files = [text for text in shown if key in json.loads(text)]
            self.assertEqual(len(files), 1, key)
            with self.subTest(key), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "shown.json")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(files[0])
                child = run(["python3", "run.py", *words, path], ROOT, environment(folder))
                self.assertEqual(child.returncode, 0, child.stdout)
                self.assertIn(told, child.stdout)
                self.assertRegex(child.stdout, "recall@10 +1.000" if key == "queries" else "1 cases")

    def assertPrints(self, expected: list[str], output: str) -> None:
        lines, printed = [masked(line) for line in expected], masked(output)
        if not prints(lines, printed):
            difference = difflib.unified_diff(
                lines, printed.splitlines(), "README.md", "printed", lineterm=""
            )
            self.fail("\n".join(["", *difference]))


def lacking(command: str) -> str:
    """The first file of this machine that a command names and that is not there: Debian's documentation, say."""
    return next((word for word in shlex.split(command) if word.startswith("/") and not os.path.exists(word)), "")


def copy_kit(target: str) -> None:
    """The kit's files as git has them (live recordings are not among them), or all without git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached"],  # what a person built or exported here is not the kit's
            cwd=ROOT,
            capture_output=True,
            encoding="utf-8",
            check=True,
        ).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = [os.path.join(at, name) for at, _, names in os.walk(ROOT) for name in names]
    for name in listed:
        origin = os.path.join(ROOT, name)
        copy = os.path.join(target, os.path.relpath(origin, ROOT))
        if os.path.isfile(origin):
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copyfile(origin, copy)


def run(
    words: list[str], folder: str, settings: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command, both its outputs as one; `python3` is the Python that runs this test."""
    return subprocess.run(
        [sys.executable if word == "python3" else word for word in words],
        cwd=folder,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
    )


class Tables(unittest.TestCase):
    def test_the_tables_of_words_are_the_enums(self) -> None:
        written = readme()
        for heading, module, name in (
            ("Reasons", "agent", "Reason"),
            ("Findings", "evaluate", "Finding"),
            ("Outcomes", "evaluate", "Outcome"),
        ):
            with self.subTest(heading):
                told = table(written, heading)
                if told is None:
                    self.skipTest(f"README.md has no table under a heading {heading!r} yet")
                words: Any = getattr(importlib.import_module(module), name)
                self.assertEqual(told, [(word.value, word.sentence) for word in words])


# --- This file's own rules ----------------------------------------------------------------------


class Rules(unittest.TestCase):
    def test_masking_hides_what_differs_between_machines_and_nothing_else(self) -> None:
        for text, mask in (
            ("live requests: 0 | 0.1 s", "live requests: 0 | N.N s"),
            ("12.34 s, then 3 s", "N.N s, then 3 s"),
            ("ab" * 32 + "  report.json", "HASH  report.json"),
            ("ab" * 31, "ab" * 31),
            ("Python 3.11.7, SQLite 3.40.1", "Python N.N.N, SQLite N.N.N"),
            ('"python": "3.13.0"', '"python": "N.N.N"'),
            ("/tmp/x1/kit/run.py:3: no", "/PATH:3: no"),
            ("found in '/home/me'", "found in '/PATH'"),
            ("recordings/published/report.json", "recordings/published/report.json"),
            ("https://sqlite.org/fts5.html", "https://sqlite.org/fts5.html"),
            ("pass/fail, 3/4, a / b, 16 of 16", "pass/fail, 3/4, a / b, 16 of 16"),
        ):
            with self.subTest(text):
                self.assertEqual(masked(text), mask)

    def test_three_dots_stand_for_any_number_of_lines_and_all_else_is_exact(self) -> None:
        for expected, output, same in (
            (["a", "b"], "a\nb\n", True),
            (["a", "b"], "a\nb", False),
            (["a", "b"], "a\nb\nc\n", False),
            (["a"], "a \n", False),
            (["a", "...", "c"], "a\nb\nb\nc\n", True),
            (["a", "...", "c"], "a\nc\n", True),
            (["...", "c"], "b\ncc\n", False),
            (["a..."], "ab\n", False),
            ([], "", True),
            ([], "a\n", False),
        ):
            with self.subTest(expected=expected, output=output):
                self.assertEqual(prints(expected, output), same)

    def test_commands_are_read_from_console_blocks_only(self) -> None:
        fences = (
            "```sh\n$ no\n```\n```console\n$ one\n1\n$ two\n$ echo $?\n2\n```\n"
            "$ no\n```\n$ no\n```\n"
        )
        self.assertEqual(commands(fences), [Command(5, "one", ["1"], 0, 4), Command(7, "two", [], 2, 4)])
        with self.assertRaises(ValueError):
            commands("```console\n$ one\n```\n```console\nno command\n```\n")

    def test_tables_are_read_below_their_own_heading_only(self) -> None:
        written = (
            "# Page\n| no | no |\n| --- | --- |\n| no | no |\n## Reasons\nText.\n\n"
            "| reason | meaning |\n| --- | --- |\n| `a_b` | One \\| two. |\n| `c` | Three. |\n"
            "## End\n"
        )
        self.assertEqual(table(written, "Reasons"), [("a_b", "One | two."), ("c", "Three.")])
        self.assertIsNone(table(written, "End"))
        self.assertIsNone(table(written, "Findings"))
