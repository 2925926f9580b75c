"""Fuzzes every protocol for a number of executions, and writes what happened as JSON.

    python tests/fuzz/soak.py --executions 1000000 --json soak/wire.json

Exit code 1: something broke a promise of the codecs (the record has the bytes), a process died, or
fewer than half of the executions of a protocol got past the head of a frame.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import re
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fuzz import seeds
from tests.fuzz.targets import TARGETS, BrokenPromiseError, Target

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "tests" / "fuzz" / "engine.py"
WORK = ROOT / "soak" / "work"
SHARE = 0.5
"""Of the executions, which must get past the head."""
MOST_CRASHES = 20
"""Of one kind that a record has."""


def fuzz(name: str, executions: int, seconds: float, work: Path) -> dict[str, Any]:
    """Fuzz one protocol in another process; return its record."""
    shutil.rmtree(work, ignore_errors=True)
    (work / "corpus").mkdir(parents=True)
    count = seeds.write_seeds(name, work / "seeds")
    seeds.write_dictionary(name, work / "words")
    with (work / "log").open("w", encoding="utf-8") as log:
        done = subprocess.run(
            [
                sys.executable,
                str(ENGINE),
                name,
                str(executions),
                str(seconds),
                str(work),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    path = work / "record.json"
    record: dict[str, Any] = {"executions": 0, "share_past_head": 0.0, "finished": False}
    record["crashes"] = []
    if path.exists():
        record |= json.loads(path.read_text(encoding="utf-8"))
    record["seeds"] = count
    record["coverage"] = _coverage(work)
    if done.returncode or not record["finished"]:
        record["crashes"].append(_death(done.returncode, work))
    record["crashes"] += _costly(Target(name), work)
    return record


def _costly(target: Target, work: Path) -> list[dict[str, str]]:
    """Inputs of the corpus, each of which does something new, that take too much memory or time."""
    found = []
    for path in sorted([*(work / "corpus").iterdir(), *(work / "seeds").iterdir()]):
        data = path.read_bytes()
        try:
            target.measure_all(data)
        except BrokenPromiseError as error:
            found.append({"origin": "measured", "error": str(error), "hex": data.hex()})
    return found[:MOST_CRASHES]


def _coverage(work: Path) -> int:
    """The edges that libFuzzer has seen, as it last said."""
    found = re.findall(
        r" cov: (\d+) ", (work / "log").read_text(encoding="utf-8", errors="replace")
    )
    return int(found[-1]) if found else 0


def _death(code: int, work: Path) -> dict[str, str]:
    """What is known of a process that did not end itself: its last words, and its last input."""
    last = (work / "log").read_text(encoding="utf-8", errors="replace").splitlines()[-8:]
    inputs = sorted(work.glob("*-*"), key=lambda path: path.stat().st_mtime)
    data = inputs[-1].read_bytes().hex() if inputs else ""
    return {"origin": f"exit code {code}", "error": "\n".join(last), "hex": data}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Fuzzes the codecs of every protocol.",
        epilog="example: python tests/fuzz/soak.py --executions 20000 --protocols comet tny",
    )
    parser.add_argument("--executions", type=int, default=1_000_000, help="of each protocol")
    parser.add_argument("--protocols", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--json", type=Path, help="where the record goes, if not to the screen")
    parser.add_argument(
        "--seconds-limit", type=float, default=0, help="of each protocol; 0 is none"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes at the same time"
    )
    parser.add_argument("--work", type=Path, default=WORK, help="folder of corpora and logs")
    return parser.parse_args()


def main() -> int:
    """Runs what was asked for; 1 when anything is wrong."""
    asked = _arguments()
    # Processes, not threads: memory is measured for the whole process, and a thread that reads
    # another protocol's log in the meantime would count.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(1, asked.jobs), context, max_tasks_per_child=1) as pool:
        jobs = {
            name: pool.submit(fuzz, name, asked.executions, asked.seconds_limit, asked.work / name)
            for name in asked.protocols
        }
        records = {name: job.result() for name, job in jobs.items()}
    bad = [
        name
        for name, record in records.items()
        if record["crashes"] or record["share_past_head"] < SHARE
    ]
    report = {
        "ok": not bad,
        "executions_wanted": asked.executions,
        "python": platform.python_version(),
        "protocols": records,
    }
    text = json.dumps(report, indent=2)
    if asked.json is None:
        print(text)
    else:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(text + "\n", encoding="utf-8")
    for name, record in records.items():
        print(_line(name, record), file=sys.stderr)
    return 1 if bad else 0


def _line(name: str, record: dict[str, Any]) -> str:
    share, speed = record["share_past_head"], record.get("executions_per_second", 0)
    return (
        f"{name}: {record['executions']} executions, {share:.0%} past the head, {speed} a second, "
        f"{record['coverage']} edges, {len(record['crashes'])} crashes"
    )


if __name__ == "__main__":
    sys.exit(main())
