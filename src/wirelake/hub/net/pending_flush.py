"""Connections that were given something to say by what happened on another one.

A packet of a link makes its users' connections speak, and a user makes a link speak. They are not
written to one by one: each fetches what its session has to send once, at the end of the turn.
"""

from __future__ import annotations

from typing import Protocol

from .outbox import Outbox

__all__ = ["PendingFlush"]


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
