"""What a replay and a live run cost, measured: python3 -m tests.benchmark

Figures that have a target and no test: how much CPU a start takes beside a start that only imports what any such
program needs, told by the median of rounds in which both run one after the other, so that a busy machine slows both
alike; how many bytes the recorded requests have beside the earlier design of this lab; what journalling an exchange
costs; and what resuming a run of 200 recorded exchanges costs. It needs a system that tells the CPU time of child
processes (not Windows).
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import provider
from tests.support import MODULES, ROOT

ROUNDS = 21
EXCHANGES, JOURNAL_MS, RESUME_S = 200, 1.0, 1.0
RATIO = 2.2
IMPORTS = "import json, sqlite3, re, argparse, hashlib"
EARLIER_BYTES, SHARE = 143_556, 0.75


def cpu(command: list[str], folder: str, settings: dict[str, str]) -> float:
    """The seconds of CPU, user's and system's, that a child process took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    nowhere = subprocess.DEVNULL
    subprocess.run(command, cwd=folder, env=settings, stdin=nowhere, stdout=nowhere, stderr=nowhere, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start() -> tuple[float, float, float]:
    """The median CPU seconds of a replay and of the imports, and the median of the rounds' ratios.

    Runs in a copy of the kit, so that the bytecode that Python keeps does not land in the repository.
    """
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        copy_kit(folder)
        python = [sys.executable, "-S"]
        both = [*python, "run.py"], [*python, "-c", IMPORTS]
        for command in both:  # the warm-up, which writes the bytecode
            cpu(command, folder, settings)
        rounds = [[cpu(command, folder, settings) for command in both] for _ in range(ROUNDS)]
    replay, imports = (statistics.median(times) for times in zip(*rounds, strict=True))
    return replay, imports, statistics.median(one / other for one, other in rounds)


def copy_kit(folder: str) -> None:
    """What a replay needs, in another folder."""
    for name in (*(f"{module}.py" for module in MODULES), "cases.json", "snapshot.json"):
        shutil.copy(os.path.join(ROOT, name), folder)
    published = os.path.join("recordings", "published")
    shutil.copytree(os.path.join(ROOT, published), os.path.join(folder, published))


def events() -> list[dict[str, Any]]:
    """The events of the published recording."""
    with open(os.path.join(ROOT, "recordings", "published", "exchanges.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def journalling() -> float:
    """The CPU milliseconds that the journal takes for an exchange, both its events together."""
    with tempfile.TemporaryDirectory() as folder:
        journal = provider.Journal(folder)
        published = events()
        began = time.process_time()
        for event in published:
            journal.write(event)
        took = time.process_time() - began
        journal.close()
    return took * 1000 / (len(published) / 2)


def resuming() -> float:
    """The CPU seconds that a child takes to resume a run whose 200 exchanges are all recorded, report and all."""
    settings = {**os.environ, "GOOGLE_API_KEY": "not-a-real-key"}
    settings.pop("GOOGLE_GEMINI_BASE_URL", None)
    with tempfile.TemporaryDirectory() as folder:
        copy_kit(folder)
        long = os.path.join(folder, "recordings", "long")
        shutil.copytree(os.path.join(folder, "recordings", "published"), long)
        for name in ("report.json", "SHA256SUMS"):
            os.remove(os.path.join(long, name))
        with open(os.path.join(long, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        published = events()
        once = [event for event in published if event["trial"].endswith("-1")]
        repeats = round(EXCHANGES / (len(once) / 2))
        with open(os.path.join(long, "manifest.json"), "w", encoding="utf-8") as file:
            json.dump({**manifest, "repeats": repeats, "batch_request_cap": 200}, file)
        with open(os.path.join(long, "exchanges.jsonl"), "w", encoding="utf-8") as file:
            for repeat in range(1, repeats + 1):
                for event in once:
                    file.write(json.dumps({**event, "trial": event["trial"][:-1] + str(repeat)}) + "\n")
        return cpu([sys.executable, "run.py", "--live", "--resume", "long", "--execute-approved"], folder, settings)


def request_bytes() -> tuple[int, int]:
    """How many requests the published recording has, and their bytes together as compact JSON in UTF-8."""
    requests = [event["request"] for event in events() if event["event"] == "request"]
    texts = (json.dumps(request, ensure_ascii=False, separators=(",", ":")) for request in requests)
    return len(requests), sum(len(text.encode("utf-8")) for text in texts)


def main() -> None:
    """Print the figures with their targets."""
    replay, imports, ratio = start()
    print(
        f"start-up: {ratio:.2f} times the imports alone; target {RATIO} "
        f"(CPU: {replay * 1000:.0f} ms to {imports * 1000:.0f} ms, {ROUNDS} rounds)")
    count, size = request_bytes()
    share = size / EARLIER_BYTES
    print(f"journal: {journalling():.3f} ms of CPU an exchange; target {JOURNAL_MS}")
    print(f"resume: {resuming():.2f} s of CPU for {EXCHANGES} recorded exchanges; target {RESUME_S}")
    print(f"requests: {share:.3f} of the earlier design's bytes; target {SHARE} ({count} requests, {size:,} bytes)")


if __name__ == "__main__":
    main()
