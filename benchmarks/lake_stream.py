"""The part `stream` of `benchmarks.lake`: captures that arrive while a lake is run.

Recorders seal files of 2.5 MB, and these come into the folder at a steady rate. The lag of a
file goes from then to the moment at which a reader sees the commit that has it. Time goes faster in
the captures than on the clock: minutes of traffic come in a second.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from wirelake.tables.log import Log

from .captures_report import Findings
from .lake_made import pieces
from .lake_plan import MB, Plan
from .lake_worker import Worker

__all__ = ["RATES", "Arrivals", "stream"]

RATES = (2, 6, 12)
"""Files in a second."""
PIECE_MB = 2.5
TRIGGER_S = 1.0
GROWTH = 1.25
"""Lags that are so much longer in the last third of the time than in the second are growing."""
_FIRST = 2
"""Files that come before the clock starts."""
_LOOK_S = 0.01
_PATIENCE_S = 180.0
"""How long the last file may take."""


def stream(plan: Plan) -> Findings:
    """Captures arrive at steady rates: how long until they are in, and up to which rate."""
    found = Findings("captures that arrive while a lake is run, all tables")
    piece = plan.size(PIECE_MB)
    wanted = _FIRST + round(max(RATES) * plan.seconds)
    files = pieces(plan.folder / "pieces", wanted * piece, piece)
    steps: list[tuple[float, float]] = []
    sustained = 0.0
    with plan.worker() as worker:
        for rate in RATES:
            arrived = _arrived(plan, worker, files[: _FIRST + round(rate * plan.seconds)], rate)
            name = f"{arrived.mb_per_s:,.1f} MB/s"
            for percent in (50, 99):
                found.add(f"{name}: lag, p{percent}", arrived.lag_s(percent), "s")
            found.add(f"{name}: lag, last third to the second", arrived.growth, "times")
            found.add(f"{name}: commits", arrived.commits, "")
            steps += arrived.steps
            if arrived.growth > GROWTH:
                break
            sustained = arrived.mb_per_s
    found.add("highest rate at which the lag does not grow", sustained, "MB/s")
    _add_steps(found, steps)
    return found


def _arrived(plan: Plan, worker: Worker, files: Sequence[Path], rate: float) -> Arrivals:
    """One run, in which files arrive at a rate."""
    folder = plan.folder / "arriving"
    folder.mkdir()
    lake, stop = plan.folder / "lake", plan.folder / "stop"
    worker.start("stream", captures=str(folder), to=str(lake), stop=str(stop), trigger_s=TRIGGER_S)
    try:
        arrivals = Arrivals(folder, lake, rate)
        arrivals.all_at_once(files[:_FIRST])
        arrivals.steadily(files[_FIRST:])
    finally:
        stop.touch()
        worker.result()
    stop.unlink()
    shutil.rmtree(folder)
    return arrivals


def _add_steps(found: Findings, steps: Sequence[tuple[float, float]]) -> None:
    """What a step takes whatever its size, and how fast it is beyond that."""
    sizes, seconds = zip(*steps, strict=True)
    if len(set(sizes)) == 1:
        return
    each, start = np.polyfit(sizes, seconds, 1)
    if each > 0:  # else the steps were too small to tell
        found.add("a step, whatever its size", float(start), "s")
        found.add("a megabyte more", 1000 * float(each), "ms")


@dataclass
class Arrivals:
    """Files that come into a folder, and the commits in which they are found."""

    folder: Path
    lake: Path
    rate: float
    """Files in a second."""
    steps: list[tuple[float, float]] = field(default_factory=list)
    """Megabytes and seconds of each commit."""
    _came_s: dict[str, float] = field(default_factory=dict)
    _lags_s: dict[str, float] = field(default_factory=dict)
    _bytes: int = 0
    _commit: int = -1

    def all_at_once(self, files: Sequence[Path]) -> None:
        """Files that are not counted: the stream gets going with them."""
        for each in files:
            self._drop(each)
        self._wait()
        self._came_s.clear()
        self._lags_s.clear()
        self.steps.clear()
        self._bytes = 0

    def steadily(self, files: Sequence[Path]) -> None:
        """Files that come at the rate."""
        began = time.monotonic()
        for number, each in enumerate(files):
            while time.monotonic() < began + number / self.rate:
                time.sleep(_LOOK_S)
                self._look()
            self._drop(each)
        self._wait()

    @property
    def commits(self) -> int:
        """In how many commits they are."""
        return len(self.steps)

    @property
    def mb_per_s(self) -> float:
        """What came in a second."""
        return self._bytes * self.rate / len(self._came_s) / MB

    def lag_s(self, percent: float) -> float:
        """The lag that so many percent of the files stay below."""
        return float(np.percentile(list(self._lags_s.values()), percent))

    @property
    def growth(self) -> float:
        """Lags of the last third, relative to those of the second; the first is for running in."""
        lags = [self._lags_s[name] for name in self._came_s]
        third = -(-len(lags) // 3)
        before = lags[-2 * third : -third] or lags
        return float(np.mean(lags[-third:]) / np.mean(before))

    def _drop(self, path: Path) -> None:
        os.utime(path)
        self._bytes += path.stat().st_size
        os.link(path, self.folder / path.name)
        self._came_s[path.name] = time.monotonic()

    def _wait(self) -> None:
        """Until all that came is in."""
        limit = time.monotonic() + _PATIENCE_S
        while len(self._lags_s) < len(self._came_s):
            if time.monotonic() > limit:
                raise RuntimeError(f"{self.lake}: captures are not in after {_PATIENCE_S:g} s")
            time.sleep(_LOOK_S)
            self._look()

    def _look(self) -> None:
        """Notes commits that were not there before."""
        log = Log(self.lake)
        last = log.last()
        if last is None or last == self._commit:
            return
        now = time.monotonic()
        for record in log.records(self._commit + 1):
            self._commit = record.commit
            for each in record.inputs:
                self._lags_s[each.name] = now - self._came_s[each.name]
            if record.inputs:
                self.steps.append((record.figures["bytes"] / MB, record.figures["seconds"]))
