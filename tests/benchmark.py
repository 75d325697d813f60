"""What a replay costs, measured: python3 -m tests.benchmark

Two figures that have a target and no test: how much CPU a start takes beside a start that only imports what any such
program needs, and how many bytes the recorded requests have beside the earlier design of this lab. The first is told
by the median of rounds in which both run one after the other, so that a busy machine slows both alike; it needs a
system that tells the CPU time of child processes (not Windows).
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

from tests.support import MODULES, ROOT

ROUNDS = 21
RATIO = 2.2
IMPORTS = "import json, sqlite3, re, argparse, hashlib"
EARLIER_BYTES, SHARE = 143_556, 0.75


def cpu(command: list[str], folder: str, settings: dict[str, str]) -> float:
    """The seconds of CPU, user's and system's, that a child process took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=settings, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start() -> tuple[float, float, float]:
    """The median CPU seconds of a replay and of the imports, and the median of the rounds' ratios.

    Runs in a copy of the kit, so that the bytecode that Python keeps does not land in the repository.
    """
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        for name in (*(f"{module}.py" for module in MODULES), "cases.json", "snapshot.json"):
            shutil.copy(os.path.join(ROOT, name), folder)
        shutil.copytree(
            os.path.join(ROOT, "recordings", "published"), os.path.join(folder, "recordings", "published"))
        python = [sys.executable, "-S"]
        both = [*python, "run.py"], [*python, "-c", IMPORTS]
        for command in both:  # the warm-up, which writes the bytecode
            cpu(command, folder, settings)
        rounds = [[cpu(command, folder, settings) for command in both] for _ in range(ROUNDS)]
    replay, imports = (statistics.median(times) for times in zip(*rounds, strict=True))
    return replay, imports, statistics.median(one / other for one, other in rounds)


def request_bytes() -> tuple[int, int]:
    """How many requests the published recording has, and their bytes together as compact JSON in UTF-8."""
    with open(os.path.join(ROOT, "recordings", "published", "exchanges.jsonl"), encoding="utf-8") as file:
        requests = [event["request"] for event in map(json.loads, file) if event["event"] == "request"]
    texts = (json.dumps(request, ensure_ascii=False, separators=(",", ":")) for request in requests)
    return len(requests), sum(len(text.encode("utf-8")) for text in texts)


def main() -> None:
    """Print both figures with their targets."""
    replay, imports, ratio = start()
    print(
        f"start-up: {ratio:.2f} times the imports alone; target {RATIO} "
        f"(CPU: {replay * 1000:.0f} ms to {imports * 1000:.0f} ms, {ROUNDS} rounds)")
    count, size = request_bytes()
    share = size / EARLIER_BYTES
    print(f"requests: {share:.3f} of the earlier design's bytes; target {SHARE} ({count} requests, {size:,} bytes)")


if __name__ == "__main__":
    main()
