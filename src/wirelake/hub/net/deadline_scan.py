"""Looks at every connection now and then, instead of keeping a timer for each.

Deadlines of connections are seconds or minutes away and move with almost every message. So none
is armed: the wheel turns once in `TURN_S`, in small steps, and each step lets a part of the
connections look at their deadlines. One acts at most a turn late.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

__all__ = ["STEPS", "TURN_S", "Wheel"]

TURN_S: Final = 1.0
"""How late a deadline may act: the shortest of the hub is two seconds."""
STEPS: Final = 8
"""Parts of a turn, so that ten thousand connections are not looked at in one go."""


class _Looks(Protocol):
    id: int

    def look(self, now: float) -> None: ...


class Wheel:
    """Everything with deadlines, in groups by id."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._groups: list[dict[int, _Looks]] = [{} for _ in range(STEPS)]
        self._step = 0
        self._handle: asyncio.TimerHandle | None = None

    def add(self, item: _Looks) -> None:
        """Looks at it from now on."""
        self._groups[item.id % STEPS][item.id] = item

    def remove(self, item: _Looks) -> None:
        """Looks at it no more."""
        self._groups[item.id % STEPS].pop(item.id, None)

    def start(self) -> None:
        """Begins to turn."""
        self._handle = self._loop.call_later(TURN_S / STEPS, self._turn)

    def stop(self) -> None:
        """Stops turning."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _turn(self) -> None:
        self._handle = self._loop.call_later(TURN_S / STEPS, self._turn)
        now = self._loop.time()
        self._step = (self._step + 1) % STEPS
        for item in tuple(self._groups[self._step].values()):
            item.look(now)
