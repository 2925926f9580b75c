"""Writes once in a turn of the loop, whatever has been said in it.

A small `send` costs as much as fifty small messages, so connections collect what they have to say
and hand it to the operating system together, at the end of the turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

__all__ = ["Outbox"]


class _Flushes(Protocol):
    def flush(self) -> None: ...


class Outbox:
    """What has to be written at the end of this turn.

    While a connection reads (`held`), nothing is scheduled: it writes everything when it is done.
    """

    __slots__ = ("_before", "_loop", "_scheduled", "_waiting", "held")

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._waiting: list[_Flushes] = []
        self._before: list[Callable[[], None]] = []
        self._scheduled = False
        self.held = False

    def add(self, connection: _Flushes) -> None:
        """A connection has something to say."""
        self._waiting.append(connection)
        self._schedule()

    def before(self, act: Callable[[], None]) -> None:
        """Lets somebody write to connections first, once, when this turn ends."""
        self._before.append(act)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and not self.held:
            self._scheduled = True
            self._loop.call_soon(self._end_of_turn)

    def _end_of_turn(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Writes everything now."""
        while self._before:
            acts, self._before = self._before, []
            for act in acts:
                act()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for connection in waiting:
                connection.flush()
