"""Split captures at random, and kill lakes at every part of a step and at random.

    python -m tests.lake.lake_soak --cuts 200 --lossy 200 --kills 50 --json soak/lake.json
    python -m tests.lake.lake_soak --cuts 0 --lossy 200 --kills 0 --jobs 2 --json soak/lossy.json

First many lakes without a JVM, whose captures are cut into files at random, which come in any order
and steps. Then lossy captures, which both readers and lakes read whole and cut in several ways;
`--lossy-spark` of them also with lakes of a real Spark session. They take 5 to 8 s each, on one
core.
Then lakes that are killed. Each has simulated captures with faults, cut into files, and
takes one file a step. It is run and killed until it is complete: the driver with its JVM at a part
of a step, at a random moment or while workers write, or a single worker. After every kill, what can
be seen must agree with itself; a lake that is complete must be what the engines of
`wirelake.records` make of the uncut captures, and `verify` must be content. Exits
with 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
from tests import spark_sessions
from tests.lake.cut_captures import arrive, cut
from tests.lake.cut_examples import (
    captures_in,
    cut_here,
    lossy_here,
    lossy_with_spark,
    tunnels_here,
)
from tests.lake.driver_processes import killed_at, killed_writing, left_over, started, worker_killed
from tests.lake.lake_driver import Order
from tests.lake.lakes import PLACES, miscounted, unlike_engines

from wirelake.lake.verify.verify import verify
from wirelake.tables.check import check
from wirelake.tables.log import Log
from wirelake.traffic import simulate

_STEPS = (
    "decode", "tunnels", "join", "collect", "record", "link", "forward:messages",
    "forward:calls", "forward:_fold", "forward:traffic_minutes", "checkpoint", "sweep",
)  # fmt: skip
_SIZE = 400_000
_LONGEST_S = 25.0
"""Maximum seconds before a random kill."""


def cut_at_random(cuts: int, seed: int) -> list[str]:
    """Makes so many lakes, of simulated traffic and of tunnels in turns; says what was wrong."""
    problems: list[str] = []
    for number in range(cuts):
        make = tunnels_here if number % 2 else cut_here
        with tempfile.TemporaryDirectory(prefix="wirelake-soak-") as folder:
            found = make(Path(folder), seed * 1_000_000 + number)
        problems += [f"{make.__name__}, seed {seed * 1_000_000 + number}: {each}" for each in found]
        if number % 50 == 49:
            print(f"{number + 1} lakes of cut captures", file=sys.stderr)
    return problems


def lossy_at_random(seeds: int, jobs: int) -> list[str]:
    """Reads the lossy captures of the first seeds in all ways; says what was wrong.

    The first ten are those of `make test`.
    """
    problems: list[str] = []
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for number, found in enumerate(pool.map(_lossy, range(seeds))):
            problems += found
            for each in found:
                print(each[:300], file=sys.stderr)
            if number % 20 == 19:
                print(f"{number + 1} lossy captures", file=sys.stderr)
    return problems


def _lossy(seed: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="wirelake-soak-") as folder:
        return [f"lossy, seed {seed}: {each}" for each in lossy_here(Path(folder), seed)]


def lossy_with_spark_session(seeds: int) -> list[str]:
    """As `lossy_at_random`, for lakes of a Spark session."""
    problems: list[str] = []
    for seed in range(seeds):
        with tempfile.TemporaryDirectory(prefix="wirelake-soak-") as folder:
            found = lossy_with_spark(spark_sessions.local(), Path(folder), seed)
        problems += [f"lossy with Spark, seed {seed}: {each}" for each in found]
    if seeds:
        spark_sessions.stop()
    return problems


class Soak:
    """Killed lakes and their problems."""

    def __init__(self, kills: int, seed: int):
        self._wanted = kills
        self._random = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.runs = self.lakes = 0
        self.problems: list[str] = []

    def run(self) -> None:
        """Kill the given number of times; complete every lake."""
        steps = list(_STEPS)
        while self.kills.total() < self._wanted and not self.problems:
            with tempfile.TemporaryDirectory(
                prefix="wirelake-soak-", ignore_cleanup_errors=True
            ) as folder:
                self._lake(Path(folder), steps)
            self.lakes += 1

    def _lake(self, folder: Path, steps: list[str]) -> None:
        seed = self._random.randrange(1 << 30)
        simulate(folder / "sim", size=_SIZE, seed=seed, faults=0.005, jobs=1)
        arrive(folder / "in", cut(folder / "sim", random.Random(seed), most_files=3))
        order = Order(
            lake=str(folder / "lake"),
            captures=str(folder / "in"),
            keys=[str(path) for path in sorted((folder / "sim").glob("*.keys"))],
            max_files=1,
            share_bytes=100_000,
            window_bytes=2_000,
            checkpoint_every=2,
        )
        while self.kills.total() < self._wanted:
            self.runs += 1
            name, kill = self._way(order, steps)
            if not kill(folder / f"work{self.runs}"):
                break  # it was done before
            self.kills[name] += 1
            print(f"{self.kills.total():3} killed: {name}", file=sys.stderr)
            self._look(Path(order.lake), f"after {name}")
        self._complete(order, folder)

    def _way(self, order: Order, steps: list[str]) -> tuple[str, Callable[[Path], bool]]:
        """Another way to kill: first each part of a step once, then any."""
        if steps:
            step = steps.pop(0)
            dying = msgspec.structs.replace(order, die_at=step)
            return step, lambda work: killed_at(dying, work)
        choice = self._random.randrange(4)
        if choice == 0:
            step = self._random.choice(_STEPS)
            after = self._random.randrange(3)
            dying = msgspec.structs.replace(order, die_at=step, die_after=after)
            return step, lambda work: killed_at(dying, work)
        if choice == 1:
            after_s = self._random.random()
            return "while writing", lambda work: killed_writing(order, work, after_s=after_s)
        if choice == 2:
            return "a worker", lambda work: self._worker(order, work)
        after_s = self._random.uniform(1.0, _LONGEST_S)
        return "at random", lambda work: _killed_after(order, work, after_s)

    def _worker(self, order: Order, work: Path) -> bool:
        with started(order, work) as driver:
            killed = worker_killed(driver)
            if driver.wait() not in (0, 1):
                self.problems.append(f"a worker was killed: {driver.last_words()}")
            return killed

    def _look(self, lake: Path, when: str) -> None:
        if Log(lake).exists():
            found = [str(each) for each in check(lake) if not each.harmless] + miscounted(lake)
            self.problems += [f"{when}: {each}" for each in found]

    def _complete(self, order: Order, folder: Path) -> None:
        with started(order, folder / "last") as driver:
            if driver.done().waiting:
                self.problems.append("captures wait although all came")
        lake = Path(order.lake)
        files = captures_in(folder / "sim")
        found = unlike_engines(lake, files, order.keys, without=PLACES)
        found += [str(each) for each in check(lake)]
        found += verify(lake, keys=order.keys, shares=1).findings()
        found += [f"left in staging: {name}" for name in left_over(lake)]
        self.problems += [f"complete: {each}" for each in found]


def _killed_after(order: Order, work: Path, after_s: float) -> bool:
    with started(order, work) as driver:
        stop = time.monotonic() + after_s
        while driver.is_alive() and time.monotonic() < stop:
            time.sleep(0.05)
        if driver.is_alive():
            driver.kill()
        return driver.wait() != 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the soak, and writes its record."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lake.lake_soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--cuts", type=int, default=200, help="lakes of cut captures (default: 200)"
    )
    parser.add_argument("--lossy", type=int, default=200, help="lossy captures (default: 200)")
    parser.add_argument(
        "--lossy-spark", type=int, default=10, help="of them, with a Spark session (default: 10)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--kills", type=int, default=50, help="how often to kill (default: 50)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    chosen = parser.parse_args(arguments)
    wrong = cut_at_random(chosen.cuts, chosen.seed)
    began = time.monotonic()
    wrong += lossy_at_random(chosen.lossy, chosen.jobs)
    wrong += lossy_with_spark_session(min(chosen.lossy, chosen.lossy_spark))
    lossy_s = time.monotonic() - began
    soak = Soak(chosen.kills, chosen.seed)
    soak.run()
    record = {
        "cuts": chosen.cuts,
        "lossy": chosen.lossy,
        "lossy_spark": min(chosen.lossy, chosen.lossy_spark),
        "lossy_seconds": round(lossy_s),
        "kills": soak.kills.total(),
        "by_way": dict(sorted(soak.kills.items())),
        "runs": soak.runs,
        "lakes": soak.lakes,
        "problems": wrong + soak.problems,
    }
    text = json.dumps(record, indent=2)
    print(text)
    if chosen.json is not None:
        chosen.json.write_text(f"{text}\n", encoding="utf-8")
    return 1 if record["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
