"""The picture of the kit, asserted: who imports whom, who owns what, how long things may be.

The tables come first and are the whole policy; below them, each test reads the six modules with
`ast` (or starts a fresh Python) and says of every deviation where it is and how to mend it.
"""

from __future__ import annotations

import ast
import builtins
import glob
import os
import re
import subprocess
import sys
import unittest
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.support import MODULES, ROOT

# --- The tables ---------------------------------------------------------------------------------

# run introduces, tools and provider adapt, the other three are leaves: eight edges.
IMPORTS: dict[str, set[str]] = {
    "run": {"retrieval", "tools", "agent", "provider", "evaluate"},
    "tools": {"retrieval", "agent"},
    "provider": {"agent"},
    "retrieval": set(),
    "agent": set(),
    "evaluate": set(),
}

# tools has more than the other adapter: run.py is compiled at each start, so what it does not have to own stands here.
LINES = {"agent": 499, "tools": 1320, "provider": 499, "run": 880, "retrieval": 900, "evaluate": 900}
LINES_OF_A_FUNCTION = 40

TOP_LEVEL = {f"{module}.py" for module in MODULES} | {
    "README.md",
    "cases.json",
    "recordings",
    "snapshot.json",
    "tests",
}  # beside hidden files

# Slow to load, a door to the network, or not there on Windows: at most inside a function.
NEVER_AT_MODULE_LEVEL = {
    "asyncio", "dataclasses", "email", "fcntl", "http", "inspect", "pathlib", "socket", "ssl",
    "tempfile", "urllib",
}
NOT_LOADED_BY_AGENT = {"sqlite3", "socket", "urllib"}
NOT_LOADED_BY_REPLAY = {
    "dataclasses", "email", "http", "inspect", "pathlib", "socket", "ssl", "tempfile", "urllib",
}

SAYS_NOTHING = {"data", "helper", "helpers", "info", "manager", "util", "utils"}


class Piece(NamedTuple):
    """One piece of the world: the names through which one reaches it, and who may.

    A name is dotted as it is imported or used (`os.open`), and covers what is below it.
    """

    what: str
    names: set[str]
    owners: set[str]
    mend: str


WORLD = (
    Piece(
        "the database",
        {"sqlite3"},
        {"retrieval"},
        "ask retrieval: it fills and opens the index whose path it is given",
    ),
    Piece(
        "the network",
        {"urllib", "ssl", "socket", "socketserver", "http", "asyncio", "select", "selectors"},
        {"provider"},
        "take the sender (body -> reply) as a parameter; run passes provider's",
    ),
    Piece(
        "threads and locks",
        {"threading", "_thread", "queue", "concurrent", "multiprocessing", "fcntl", "msvcrt"},
        {"provider"},
        "keep it to one straight line; what must run beside it belongs to provider",
    ),
    Piece(
        "the journal's descriptors",
        {"os.open", "os.write", "os.fsync", "os.fdopen", "os.ftruncate"},
        {"provider", "run"},
        "hand the value to run (whole files) or to provider (the journal)",
    ),
    Piece(
        "the key and other environment variables",
        {"os.environ", "os.getenv", "os.environb", "os.putenv"},
        {"provider", "run"},
        "take the setting as a parameter; run reads the environment, provider the key",
    ),
    Piece(
        "the command line",
        {"argparse", "getopt", "optparse", "sys.argv"},
        {"run"},
        "take parameters; run reads the command line",
    ),
    Piece(
        "standard input and output",
        {"print", "input", "sys.stdin", "sys.stdout", "sys.stderr", "sys.__stdout__", "logging"},
        {"run"},
        "return the value or yield the lines; run prints",
    ),
    Piece(
        "whole files",
        {"open", "io.open", "codecs.open", "shutil", "pathlib", "tempfile"},
        {"run"},
        "take the parsed object; run reads and writes files",
    ),
    Piece(
        "signals",
        {"signal"},
        {"run"},
        "let run handle the signal and raise; clean up in `finally`",
    ),
    Piece(
        "the clock",
        {"time", "datetime"},
        {"run"},
        "take a `clock` parameter; run passes time.monotonic",
    ),
    Piece(
        "the end of the process",
        {"exit", "quit", "sys.exit", "os._exit", "os.abort", "os.kill", "SystemExit"},
        {"run"},
        "raise or return the reason; exit codes are run's",
    ),
    Piece(
        "JSON that others wrote",
        {"json.load", "json.loads", "json.JSONDecoder", "json.decoder"},
        {"agent"},
        "use agent's strict loader, or take the loaded object as a parameter",
    ),
    Piece(
        "other programs",
        {"subprocess", "pty", "os.system", "os.popen", "os.fork", "os.posix_spawn"},
        set(),
        "the kit starts no other program",
    ),
    Piece(
        "code made while running",
        {"eval", "exec", "compile", "__import__", "importlib", "runpy", "pickle", "marshal"},
        set(),
        "write the import or the expression out, so that these tests can see it",
    ),
)


# --- Reading a module ---------------------------------------------------------------------------

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITION = (*FUNCTION, ast.ClassDef)
BUILT_IN = {*vars(builtins), "exit", "quit"}  # those two are added by `site`

@cache
def source(module: str) -> str:
    with open(os.path.join(ROOT, f"{module}.py"), encoding="utf-8") as file:
        return file.read()


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(source(module), f"{module}.py")


class Use(NamedTuple):
    """A dotted name that a module reaches, and the line where it does."""

    name: str
    line: int


def imported(node: ast.AST) -> Iterator[Use]:
    """The names an import statement reaches: `from os import path` gives `os.path`."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Use(alias.name, node.lineno)
    elif isinstance(node, ast.ImportFrom):
        origin = "." * node.level + (node.module or "")
        for alias in node.names:
            yield Use(f"{origin}.{alias.name}", node.lineno)


def imports(module: str) -> list[Use]:
    """All imports of a module, the late ones inside functions among them."""
    return [use for node in ast.walk(tree(module)) for use in imported(node)]


def reached(module: str) -> Iterator[Use]:
    """Every dotted name that a module imports, and every use of it or of a built-in name.

    Names are those that their library gives them: `import os as o; o.open(...)` reaches `os.open`.
    """
    known: dict[str, str] = {}  # as it is called here -> as its library calls it
    for node in ast.walk(tree(module)):
        yield from imported(node)
        if isinstance(node, ast.Import):
            for alias in node.names:
                here = alias.asname or alias.name.partition(".")[0]
                known[here] = alias.name if alias.asname else here
        elif isinstance(node, ast.ImportFrom):
            known.update((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)
    for node in ast.walk(tree(module)):
        first, dot, rest = dotted(node).partition(".")
        if first in known or first in BUILT_IN:
            yield Use(known.get(first, first) + dot + rest, getattr(node, "lineno", 0))


def dotted(node: ast.AST) -> str:
    """`a.b.c` for the expression of that form, and nothing for any other node."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Load) else ""
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def covers(name: str, use: str) -> bool:
    return use == name or use.startswith(name + ".")


def is_test_of(statement: ast.stmt, expression: str) -> bool:
    """Whether the statement is an `if` whose condition begins with the expression."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test).startswith(expression)


def is_text(statement: ast.stmt) -> bool:
    """Whether the statement is only a string: what documents the definition above it."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def bound(statement: ast.stmt) -> list[str]:
    """The names that a top-level statement defines."""
    if isinstance(statement, DEFINITION):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [ast.unparse(target) for target in statement.targets]
    return [ast.unparse(statement.target)] if isinstance(statement, ast.AnnAssign) else []


def words(name: str) -> set[str]:
    """The words of a name: `run_info`, `RunInfo` and `RUN_INFO` hold "run" and "info"."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


class Architecture(unittest.TestCase):
    """Each test goes over all six modules; a failure lists everything found, with the mending."""

    def assertNothing(self, found: list[str]) -> None:
        if found:
            self.fail("\n".join(["", *found]))


# --- What the modules may reach -----------------------------------------------------------------


class Reach(Architecture):
    def test_imports_among_the_six_equal_the_picture(self) -> None:
        for module in MODULES:
            with self.subTest(module):
                found = {use.name.partition(".")[0] for use in imports(module)} & set(MODULES)
                self.assertEqual(
                    found,
                    IMPORTS[module],
                    f"{module}.py: pass the value through run instead of importing it;"
                    " an edge that nobody uses leaves the picture and this table",
                )

    def test_everything_else_imported_is_in_the_standard_library(self) -> None:
        self.assertNothing(
            [
                f"{module}.py:{use.line}: {use.name} is not in the standard library: do without it"
                for module in MODULES
                for use in imports(module)
                if use.name.partition(".")[0] not in {*MODULES, *sys.stdlib_module_names}
            ]
        )

    def test_each_piece_of_the_world_has_one_owner(self) -> None:
        self.assertNothing(
            [
                f"{module}.py:{use.line}: {use.name} reaches {piece.what},"
                f" which is {' and '.join(sorted(piece.owners)) or 'nobody'}'s: {piece.mend}"
                for module in MODULES
                for use in sorted(set(reached(module)), key=lambda use: use.line)
                for piece in WORLD
                if module not in piece.owners
                if any(covers(name, use.name) for name in piece.names)
            ]
        )

    def test_what_is_slow_or_opens_a_door_is_imported_late(self) -> None:
        self.assertNothing(
            [
                f"{module}.py:{use.line}: import {use.name} inside the function that needs it"
                for module in MODULES
                for statement in tree(module).body
                for part in (statement.body if isinstance(statement, ast.ClassDef) else [statement])
                if not isinstance(part, FUNCTION)
                for node in ast.walk(part)
                for use in imported(node)
                if use.name.partition(".")[0] in NEVER_AT_MODULE_LEVEL
            ]
        )


# --- How the modules are written ----------------------------------------------------------------


class Manners(Architecture):
    def test_nothing_happens_at_import_but_definitions(self) -> None:
        defining = (*DEFINITION, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
        for module in MODULES:
            with self.subTest(module):
                self.assertTrue(ast.get_docstring(tree(module)), "say in a sentence what it is")
                self.assertNothing(
                    [
                        f"{module}.py:{statement.lineno}: move this into a function"
                        for statement in tree(module).body[1:]
                        if not isinstance(statement, defining) and not is_text(statement)
                        if module != "run" or not is_test_of(statement, "sys.version_info")
                        if module != "run" or not is_test_of(statement, "__name__ ==")
                    ]
                )

    def test_functions_and_modules_keep_to_their_sizes(self) -> None:
        for module in MODULES:
            with self.subTest(module):
                lines = len(source(module).splitlines())
                self.assertLessEqual(lines, LINES[module], "move something to another room")
                self.assertNothing(
                    [
                        f"{module}.py:{node.lineno}: {node.name} has {size} lines, at most"
                        f" {LINES_OF_A_FUNCTION}: give a part of it a name of its own"
                        for node in ast.walk(tree(module))
                        if isinstance(node, FUNCTION)
                        if (size := (node.end_lineno or 0) - node.lineno + 1) > LINES_OF_A_FUNCTION
                    ]
                )

    def test_every_public_function_and_class_says_what_it_does(self) -> None:
        self.assertNothing(
            [
                f"{module}.py:{node.lineno}: {node.name} has no docstring"
                for module in MODULES
                for node in tree(module).body
                if isinstance(node, DEFINITION)
                if not node.name.startswith("_") and not ast.get_docstring(node)
            ]
        )

    def test_names_say_something(self) -> None:
        self.assertNothing(
            [
                f"{module}.py:{statement.lineno}: {name}: name what it is or does"
                for module in MODULES
                for statement in tree(module).body
                for name in bound(statement)
                if words(name) & SAYS_NOTHING
            ]
        )

    def test_the_top_level_holds_what_the_layout_allows_and_nothing_else(self) -> None:
        try:
            root, listed = (
                subprocess.run(
                    ["git", *command], cwd=ROOT, capture_output=True, text=True, check=True
                ).stdout
                for command in (
                    ["rev-parse", "--show-toplevel"],
                    ["ls-files", "-z", "--cached"],  # what a person built or exported here is not the kit's
                )
            )
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("needs git, and a checkout of the kit")
        if not os.path.samefile(root.strip(), ROOT):
            self.skipTest("needs git, and a checkout of the kit")
        there = [name for name in listed.split("\0") if os.path.isfile(os.path.join(ROOT, name))]
        found = {name.partition("/")[0] for name in there}
        self.assertEqual(
            {name for name in found if not name.startswith(".")},
            TOP_LEVEL,
            "the layout is fixed: what is new goes into one of the six modules or two folders",
        )


# --- What a fresh Python does -------------------------------------------------------------------


def fresh(*arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Run a new Python at the root of the kit, without bytecode left behind."""
    return subprocess.run(
        [python, "-B", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


class Start(Architecture):
    def test_agent_loads_neither_database_nor_network(self) -> None:
        script = "import sys; old = {*sys.modules}; import agent; print(*{*sys.modules} - old)"
        self.assertNothing(self.loaded(script, NOT_LOADED_BY_AGENT))

    def test_a_replay_loads_no_network_and_nothing_slow(self) -> None:
        script = (
            "import os, sys\n"
            "out, sys.stdout = sys.stdout, open(os.devnull, 'w', encoding='utf-8')\n"
            "import run\n"
            "code = run.main([])\n"
            "print(*sys.modules, file=out)\n"
            "sys.exit(code)\n"
        )
        self.assertNothing(self.loaded(script, NOT_LOADED_BY_REPLAY))

    def loaded(self, script: str, unwanted: set[str]) -> list[str]:
        """What the script has loaded of the unwanted; it prints the names of its modules."""
        child = fresh("-S", "-c", script)
        self.assertEqual(child.returncode, 0, child.stderr)
        names = child.stdout.split()
        self.assertIn("agent", names)
        return [
            f"{name} is loaded: import it, or what imports it, only where it is needed"
            for name in sorted(names)
            if name.partition(".")[0] in unwanted
        ]


class OldPython(Architecture):
    """run.py is the one file that a Python too old for the kit reads: it parses, then declines."""

    def test_run_is_readable_for_python_3_7(self) -> None:
        ast.parse(source("run"), "run.py", feature_version=(3, 7))

    def test_the_version_guard_comes_before_other_imports(self) -> None:
        before: list[str] = []
        for statement in tree("run").body:
            if is_test_of(statement, "sys.version_info"):
                break
            before += [use.name for use in imported(statement)]
        else:
            self.fail("run.py: no `if sys.version_info < (3, 11):` at the top level")
        self.assertEqual([name for name in before if not covers("__future__", name)], ["sys"])

    def test_a_version_too_old_gets_one_line_and_exit_code_2(self) -> None:
        """This Python says that it is 3.10, so that the guard is tried on every machine."""
        script = (
            "import runpy, sys\n"
            "sys.version_info = (3, 10, 99, 'final', 0)\n"
            "runpy.run_path('run.py', run_name='__main__')\n"
        )
        self.assertDeclines(fresh("-S", "-c", script))

    def test_a_python_too_old_gets_one_line_and_exit_code_2(self) -> None:
        home = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
        found = [
            python
            for minor in (7, 8, 9, 10)
            for python in sorted(glob.glob(f"{home}/versions/3.{minor}.*/bin/python"))
        ]
        if not found:
            self.skipTest("needs a Python older than 3.11")
        for python in found:
            with self.subTest(python):
                self.assertDeclines(fresh("run.py", python=python))

    def assertDeclines(self, child: subprocess.CompletedProcess[str]) -> None:
        self.assertEqual((child.returncode, child.stdout), (2, ""), child.stderr)
        self.assertRegex(child.stderr, r"\A[^\n]*3\.11[^\n]*\n\Z")
