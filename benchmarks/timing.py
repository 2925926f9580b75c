"""Clocks: contenders take turns, so that what else the machine does falls on all of them.

Time is that of this process's CPU, without the garbage collector (as `timeit` does). A round is
some passes of one contender; the rounds of all contenders are interleaved, each time in another
order. The best round counts: noise only ever adds.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["ROUNDS", "Timing", "race"]

ROUNDS = 30


@dataclass(frozen=True)
class Timing:
    """Microseconds for one message."""

    best_us: float
    median_us: float


def race(
    passes: Mapping[str, Callable[[], None]], messages: int, seconds: float, rounds: int = ROUNDS
) -> dict[str, Timing]:
    """Times each pass for about `seconds`, in turns; a pass handles so many messages."""
    with _no_collector():
        repeats = {name: _repeats(run, seconds / rounds) for name, run in passes.items()}
        found: dict[str, list[float]] = {name: [] for name in passes}
        names = list(passes)
        for turn in range(rounds):
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                spent = _spent(passes[name], repeats[name])
                found[name].append(1e6 * spent / repeats[name] / messages)
                gc.collect()
    return {
        name: Timing(round(min(times), 4), round(statistics.median(times), 4))
        for name, times in found.items()
    }


def _repeats(run: Callable[[], None], seconds: float) -> int:
    """How many passes fill a round. The first one warms up."""
    run()
    return max(1, round(seconds / max(_spent(run, 1), 1e-6)))


def _spent(run: Callable[[], None], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        run()
    return time.process_time() - start


@contextmanager
def _no_collector() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    gc.freeze()  # what exists already is not looked at when a round's garbage is swept
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
