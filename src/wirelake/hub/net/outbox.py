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


class _Flushable(Protocol):
    def flush(self) -> None: ...


class Outbox:
    """Connections with frames to write at the end of this loop iteration.

    While a connection processes received bytes (`reading`), nothing is scheduled: it flushes the
    outbox when it is done, which saves a callback per read.
    """

    __slots__ = ("_callbacks", "_connections", "_loop", "_scheduled", "reading")

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._connections: list[_Flushable] = []
        self._callbacks: list[Callable[[], None]] = []
        self._scheduled = False
        self.reading = False

    def add(self, connection: _Flushable) -> None:
        """Flush a connection at the end of the iteration."""
        self._connections.append(connection)
        self._schedule()

    def before_flush(self, callback: Callable[[], None]) -> None:
        """Call a function once before the flush, so that it can still write."""
        self._callbacks.append(callback)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and not self.reading:
            self._scheduled = True
            self._loop.call_soon(self._end_of_turn)

    def _end_of_turn(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Write everything now."""
        while self._callbacks:
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()
        if self._connections:
            waiting, self._connections = self._connections, []
            for connection in waiting:
                connection.flush()


# Connections that were given something to say by what happened on another one.


class _Reactive(Protocol):
    def react(self) -> None: ...


class PendingFlush:
    """What has to be looked at when this turn ends."""

    __slots__ = ("_connections", "_outbox")

    def __init__(self, outbox: Outbox):
        self._outbox = outbox
        self._connections: dict[_Reactive, None] = {}

    def add(self, connection: _Reactive) -> None:
        """A connection's session has something to say."""
        if not self._connections:
            self._outbox.before_flush(self._react)
        self._connections[connection] = None

    def _react(self) -> None:
        while self._connections:
            waiting, self._connections = self._connections, {}
            for connection in waiting:
                connection.react()
