"""Periodic check of the deadlines of all connections, instead of one timer per connection.

Deadlines are seconds or minutes away and move with almost every message: arming a timer for each
would cost a heap operation per message. The scan visits every connection once in `PERIOD_S`, one
group at a time, so a deadline acts at most `PERIOD_S` late.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

__all__ = ["PERIOD_S", "STEPS", "DeadlineScan"]

PERIOD_S: Final = 1.0
"""How late a deadline may act; the shortest deadline of the hub is two seconds."""
STEPS: Final = 8
"""Groups per period, so that ten thousand connections are not visited in one loop iteration."""


class _HasDeadlines(Protocol):
    id: int

    def check_deadlines(self, now: float) -> None: ...


class DeadlineScan:
    """Objects with deadlines, in groups by id."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._groups: list[dict[int, _HasDeadlines]] = [{} for _ in range(STEPS)]
        self._step = 0
        self._handle: asyncio.TimerHandle | None = None

    def add(self, item: _HasDeadlines) -> None:
        """Start checking an object."""
        self._groups[item.id % STEPS][item.id] = item

    def remove(self, item: _HasDeadlines) -> None:
        """Stop checking an object."""
        self._groups[item.id % STEPS].pop(item.id, None)

    def start(self) -> None:
        """Start scanning."""
        self._handle = self._loop.call_later(PERIOD_S / STEPS, self._tick)

    def stop(self) -> None:
        """Stop scanning."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _tick(self) -> None:
        self._handle = self._loop.call_later(PERIOD_S / STEPS, self._tick)
        now = self._loop.time()
        self._step = (self._step + 1) % STEPS
        for item in tuple(self._groups[self._step].values()):
            item.check_deadlines(now)
