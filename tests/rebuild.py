"""Rebuild recordings/published from its report: `python3 -m tests.rebuild`, at the top of the repository.

The published report keeps what the model decided and which tokens it used, not the requests. This command runs every
published trial again with the published decisions as replies, and writes down the requests that this kit's controller
makes on the way. It is needed after any change of prompt, schema, cases or snapshot, and reads nothing outside the
repository. `contents` gives the files without writing them; a test holds the repository to them.
"""

import hashlib
import json
import os
import sys
from typing import Any

import agent
import provider
import retrieval
import run
import tools

FOLDER = os.path.join(run.RECORDINGS, "published")
CANDIDATES = 2


def contents() -> dict[str, bytes]:
    """The files of the published recording, by name, in the order in which they are sealed."""
    report_bytes = run.read_bytes(os.path.join(FOLDER, "report.json"))
    report = agent.load_json(report_bytes)
    cases = run.read_json(os.path.join(run.HERE, "cases.json"))
    snapshot = run.read_json(os.path.join(run.HERE, "snapshot.json"))
    files = {
        "manifest.json": _json(_manifest(report, run.input_hashes(
            cases, provider.fingerprint(snapshot), report["config"]))),
        "exchanges.jsonl": b"".join(_lines(report, snapshot)),
        "report.json": report_bytes,
    }
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    return files | {"SHA256SUMS": sums.encode()}


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


def _manifest(report: dict[str, Any], hashes: dict[str, str]) -> dict[str, Any]:
    trials = report["trials"]
    kept = ("execution_mode", "provenance", "recorded_at", "model", "endpoint", "config", "limits", "batch_request_cap")
    return {"format": 1} | {name: report[name] for name in kept} | {
        "candidates": CANDIDATES,
        "repeats": max(trial["repeat"] for trial in trials),
        "modes": list(dict.fromkeys(trial["mode"] for trial in trials)),
        "cases": list(dict.fromkeys(trial["case_id"] for trial in trials)),
        "hashes": hashes,
        "environment": report["environment"],
        "budget": {},
    }


def _lines(report: dict[str, Any], snapshot: Any) -> list[bytes]:
    """The events of every trial, its replies taken from the report."""
    index = retrieval.Index(retrieval.load_snapshot(snapshot))
    lines: list[bytes] = []
    for trial in report["trials"]:
        events: list[dict[str, Any]] = []

        def send(asked: provider.Request, seconds: float, trial=trial, events=events) -> dict[str, Any]:
            place = {"trial": trial["id"], "exchange": asked.number, "attempt": 1}
            events.append({"event": "request", **place, "sha256": asked.sha256, "request": asked.body})
            reply: dict[str, Any] = {"event": "response", **place, **_reply(trial, asked.number)}
            events.append(reply)
            return reply

        result = trial["result"]
        limits = agent.Limits(**result["limits"])
        task = agent.Task(result["question"], result["version"], result["mode"], limits, CANDIDATES)
        model = provider.Model(report["config"], send)
        tape = agent.Tape(agent.controller(task, tools.Toolbox(index, task.version), model.ask, model.clock))
        if tape.result() != result:
            index.close()
            raise SystemExit(f"{trial['id']} comes out as {tape[-1].reason} now: nothing was written")
        lines += [agent.compact(event).encode() + b"\n" for event in events]
    index.close()
    return lines


def _reply(trial: dict[str, Any], number: int) -> dict[str, Any]:
    text = agent.compact(trial["result"]["decisions"][number - 1])
    last = number == len(trial["provider_usage"])
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
    return {
        "elapsed": trial["elapsed_seconds"] if last else None,
        "status": 200,
        "response": {"candidates": [candidate], "usageMetadata": trial["provider_usage"][number - 1]},
    }


def main() -> int:
    """Write the files that differ; refuses a rebuilding whose trials are not the published ones."""
    files = contents()
    old = {name: os.path.join(FOLDER, name) for name in files}
    if all(os.path.exists(path) and run.read_bytes(path) == files[name] for name, path in old.items()):
        print("nothing to write: the recording is what rebuilding gives")
    for name, data in files.items():
        path = os.path.join(FOLDER, name)
        if not os.path.exists(path) or run.read_bytes(path) != data:
            with open(path + ".new", "wb") as file:
                file.write(data)
            os.replace(path + ".new", path)
            print(f"wrote {run.shown_path(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
