"""Packets of a window: what kernels compute in place of the reference."""

from __future__ import annotations

import random

import numpy as np
import pytest

from wirelake.capture.tcp.assembly import OVERDUE_NS, SourceClock
from wirelake.columnar.tcp.packets import advance_clock


@pytest.mark.parametrize("seed", range(20))
def test_the_clock_is_that_of_the_reference(seed: int) -> None:
    rng = random.Random(seed)
    steps = (1, 1_000, OVERDUE_NS // 2, -OVERDUE_NS // 2, OVERDUE_NS + 1, -2 * OVERDUE_NS)
    times = np.cumsum([rng.choice(steps) for _ in range(300)])
    reference = SourceClock(int(times[100]), int(times[0]))
    reached = np.empty(len(times), np.int64)
    advance_clock(times, reference.now_ns, reference.last_ns, reached)
    assert reached.tolist() == [reference.advance(ts_ns) for ts_ns in times.tolist()]
