"""Interrupt demos at random moments, and check what is left over.

    python -m tests.demo.interrupts --times 10 --json soak/demo.json

A first demo runs to its end, and says how long each step takes. Each of the others gets Ctrl-C at
a random moment of a step; every step has its turn. It must exit with 130, leave no process, no port
and no temporary file, and its lake must agree with itself. Exits with 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.demo.demo_process import SMALL, STEPS, started

__all__ = ["interrupted", "main", "measured"]

INTERRUPTED = 130


def measured(folder: Path) -> tuple[dict[str, float], list[str]]:
    """Return the duration of each step of a complete demo, and its problems."""
    began: dict[str, float] = {}
    with started(folder, *SMALL) as demo:
        for step in STEPS:
            demo.wait_for(step)
            began[step] = time.monotonic()
        code = demo.wait()
        ended = time.monotonic()
        problems = demo.left_over()
    if code != 0:
        problems.append(f"exit code {code}: {demo.err[-300:]!r}")
    times = [*began.values(), ended]
    return {step: times[at + 1] - times[at] for at, step in enumerate(began)}, problems


def interrupted(
    folder: Path, step: str, after_s: float, number: int = signal.SIGINT
) -> tuple[bool, list[str]]:
    """Interrupts a demo so long after the beginning of a step; whether it had not ended before, and
    what was wrong."""
    with started(folder, *SMALL, "--keep", str(folder / "kept")) as demo:
        demo.wait_for(step)
        time.sleep(after_s)  # the moment itself, not a wait for something
        in_time = demo.process.poll() is None and "What to try next" not in demo.out
        demo.send(number)
        code = demo.wait()
        problems = demo.left_over()
    # With --keep, Ctrl-C is how it ends.
    in_time = in_time and "What to try next" not in demo.out
    if code != (128 + number if in_time else 0):
        problems.append(f"exit code {code}: {demo.err[-300:]!r}")
    return in_time, problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", metavar="FILE")
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    chance = random.Random(asked.seed)
    order = chance.sample(STEPS, len(STEPS))
    with tempfile.TemporaryDirectory(prefix="wirelake-soak-") as name:
        lengths, problems = measured(Path(name) / "whole")
        done: Counter[str] = Counter()
        tries = 0
        while done.total() < asked.times and not problems:
            step = order[tries % len(order)]
            tries += 1
            after_s = chance.uniform(0, lengths[step])
            in_time, found = interrupted(Path(name) / str(tries), step, after_s)
            done[step] += in_time
            problems += [f"{step} + {after_s:.2f} s: {each}" for each in found]
            print(f"{step} + {after_s:.2f} s: {found or 'well'}", file=sys.stderr)
    record = {
        "times": done.total(),
        "by_step": dict(done),
        "seconds_of_steps": {step: round(each, 2) for step, each in lengths.items()},
        "seconds": round(time.monotonic() - began, 1),
        "problems": problems,
    }
    print(json.dumps(record, indent=2))
    if asked.json:
        Path(asked.json).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
