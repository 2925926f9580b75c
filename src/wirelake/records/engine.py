"""What all engines have in common: they are told what happened, and hand out finished rows.

    engine.feed(row)            a message                engine.take()      rows that are final
    engine.fault(row)           bytes that broke         engine.state()     all it knows, as data
    engine.opened(event)        a connection begins      engine.restore(s)  go on from there
    engine.closed(event)        a connection ends
    engine.fact(event)          what a recorder knew
    engine.finish()             the end of the input

An engine is a left fold: however the input is cut into steps, with the state saved and restored in
between, the same rows come out. It reads no clock; time is in what it is told. Memory is bounded
by `EngineLimits`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from .protocol_rules import rules_of
from .rows import (
    Closed,
    Event,
    Fact,
    FaultRow,
    MessageRow,
    Opened,
)

__all__ = ["Clients", "Engine", "EngineLimits", "SignedOn", "oldest", "tell"]

Row = TypeVar("Row", bound=msgspec.Struct)
"""The rows that an engine gives."""
Value = TypeVar("Value")


class EngineLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much an engine remembers; beyond that it gives up the oldest first, and says so."""

    connections: int = 1_000_000
    """Connections at a time. About 0.6 KB each when nothing is under way."""
    open_calls: int = 4_096
    """Unanswered calls of one direction of a connection: more than any peer has in flight."""
    answered_calls: int = 16_384
    """Answered calls of one direction of a connection that wait for a second answer."""
    deliveries: int = 1_000_000
    """Notifications that wait for an acknowledgement. About 0.3 KB each."""
    acknowledged: int = 100_000
    """Acknowledged notifications that may be sent once more, because the two crossed."""
    publications: int = 1_000_000
    """Facts about notifications, kept for those that are sent later."""
    tunnels: int = 1_000_000
    """Open tunnels at a time."""
    closed_tunnels: int = 65_536
    """Closed tunnels for which a message may still be on its way."""


class Engine(ABC, Generic[Row]):
    """A pure incremental engine; what it has no use for, it ignores."""

    def __init__(self, limits: EngineLimits | None = None):
        self.limits = limits or EngineLimits()
        self._ready: list[Row] = []

    def take(self) -> list[Row]:
        """The rows that became final since the last call."""
        ready, self._ready = self._ready, []
        return ready

    @abstractmethod
    def feed(self, row: MessageRow) -> None:
        """A message."""

    def feed_all(self, rows: Iterable[MessageRow]) -> None:
        """Messages, one after the other."""
        feed = self.feed
        for row in rows:
            feed(row)

    def fault(self, row: FaultRow) -> None:
        """Bytes of a stream that would not decode, or are missing."""

    def opened(self, event: Opened) -> None:
        """A connection begins."""

    def closed(self, event: Closed) -> None:
        """A connection ends."""

    def fact(self, event: Fact) -> None:
        """What a recorder knew."""

    @abstractmethod
    def finish(self) -> None:
        """The input ends: every row becomes final, and nothing is remembered."""

    @abstractmethod
    def state(self) -> Any:
        """Everything that is remembered, rows not yet taken included, as plain data."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Forgets everything, and goes on from what `state` gave."""


def tell(engine: Engine[Any], event: Event) -> None:
    """Hands an event to the method that is for it."""
    match event:
        case MessageRow():
            engine.feed(event)
        case FaultRow():
            engine.fault(event)
        case Opened():
            engine.opened(event)
        case Closed():
            engine.closed(event)
        case Fact():
            engine.fact(event)


def oldest(remembered: dict[Any, Value], limit: int) -> Iterator[tuple[Any, Value]]:
    """Takes out what is over the limit, the oldest first."""
    if len(remembered) > limit:
        for key in list(islice(remembered, len(remembered) - limit)):
            yield key, remembered.pop(key)


class SignedOn(msgspec.Struct):
    """Who is signed on at a connection."""

    client: str
    confirmed: bool = False


class Clients:
    """Who is signed on, by connection: "the client of a connection" on the page of matching rules.

    The last to sign on counts, until the server has confirmed one: then that one stays.
    """

    def __init__(self, limit: int):
        self.known: dict[int, SignedOn] = {}
        self._limit = limit

    def get(self, connection: int) -> str | None:
        """Who is signed on at a connection."""
        found = self.known.get(connection)
        return None if found is None else found.client

    def feed(self, row: MessageRow) -> None:
        """Takes notice of a message."""
        if row.client is not None:
            self.sign_on(row.connection, row.client)
        elif row.name in rules_of(row.protocol).confirmations and row.connection in self.known:
            self.known[row.connection].confirmed = True

    def sign_on(self, connection: int, client: str) -> None:
        """Somebody signs on."""
        found = self.known.get(connection)
        if found is None:
            self.known[connection] = SignedOn(client)
            for _ in oldest(self.known, self._limit):
                pass
        elif not found.confirmed:
            found.client = client

    def closed(self, connection: int) -> None:
        """Forgets a connection."""
        self.known.pop(connection, None)
