"""One write per connection and loop iteration.

A small `send` costs as much as encoding fifty small messages, so connections collect their frames
and pass them to the operating system together, at the end of the iteration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

__all__ = [
    "Outbox",
    "PendingFlush",
]


class _Flushes(Protocol):
    def flush(self) -> None: ...


class Outbox:
    """Connections with frames to write at the end of this loop iteration.

    While a connection reads (`held`), nothing is scheduled: it flushes the outbox when it is done,
    which saves a callback per read.
    """

    __slots__ = ("_before", "_loop", "_scheduled", "_waiting", "held")

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._waiting: list[_Flushes] = []
        self._before: list[Callable[[], None]] = []
        self._scheduled = False
        self.held = False

    def add(self, connection: _Flushes) -> None:
        """Flush a connection at the end of the iteration."""
        self._waiting.append(connection)
        self._schedule()

    def before(self, act: Callable[[], None]) -> None:
        """Call a function once before the flush, so that it can still write."""
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
        """Write everything now."""
        while self._before:
            acts, self._before = self._before, []
            for act in acts:
                act()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for connection in waiting:
                connection.flush()


# Connections that were given something to say by what happened on another one.


class _Reacts(Protocol):
    def react(self) -> None: ...


class PendingFlush:
    """What has to be looked at when this turn ends."""

    __slots__ = ("_outbox", "_waiting")

    def __init__(self, outbox: Outbox):
        self._outbox = outbox
        self._waiting: dict[_Reacts, None] = {}

    def add(self, connection: _Reacts) -> None:
        """A connection's session has something to say."""
        if not self._waiting:
            self._outbox.before(self._react)
        self._waiting[connection] = None

    def _react(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            for connection in waiting:
                connection.react()
