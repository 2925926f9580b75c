"""The interface of the engines: events in, final rows out.

    engine.feed(row)            a message                engine.take()      final rows
    engine.fault(row)           undecodable bytes        engine.state()     the memory, as data
    engine.opened(event)        a connection begins      engine.restore(s)  continue from a state
    engine.closed(event)        a connection ends
    engine.fact(event)          a fact of a recorder
    engine.finish()             the end of the input

An engine is a left fold: the result does not depend on how the input is cut into steps, with the
state saved and restored in between. That is why a table of the lake is the same whatever the cut
into files or batches. An engine reads no clock; events carry their times. `EngineLimits` bounds its
memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import msgspec

from .protocol_rules import rules_of
from .rows import Closed, Event, Fact, FaultRow, MessageRow, Opened

__all__ = ["Clients", "Engine", "EngineLimits", "SignedOn", "feed_event", "oldest"]

Row = TypeVar("Row", bound=msgspec.Struct)
"""The rows that an engine gives."""
Value = TypeVar("Value")

_CLAIMS: Final = 4_096
"""Unanswered calls to sign on of one connection: as many as there may be open calls."""


class EngineLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on the memory of an engine. Beyond a bound it gives up its oldest entries and marks
    them."""

    connections: int = 1_000_000
    """Connections at a time. About 0.6 KB each without open calls."""
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
    """A pure incremental engine. It ignores the events that it does not need."""

    def __init__(self, limits: EngineLimits | None = None):
        self.limits = limits or EngineLimits()
        self._ready: list[Row] = []

    def take(self) -> list[Row]:
        """Return the rows that became final since the last call."""
        ready, self._ready = self._ready, []
        return ready

    @abstractmethod
    def feed(self, row: MessageRow) -> None:
        """Handle a message."""

    def fault(self, row: FaultRow) -> None:
        """Handle bytes that cannot be decoded or are missing."""

    def opened(self, event: Opened) -> None:
        """Handle the beginning of a connection."""

    def closed(self, event: Closed) -> None:
        """Handle the end of a connection."""

    def fact(self, event: Fact) -> None:
        """Handle a fact of a recorder."""

    @abstractmethod
    def finish(self) -> None:
        """End the input: make every row final and clear the memory."""

    @abstractmethod
    def state(self) -> Any:
        """Return the whole memory as plain data, including rows that were not taken yet."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Replace the memory by what `state` returned."""


def feed_event(engine: Engine[Any], event: Event) -> None:
    """Pass an event to the method of the engine that handles it."""
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
    """Remove and yield the entries over the limit, the oldest first."""
    # A dict keeps insertion order, so the oldest entries are found without a second structure.
    if len(remembered) > limit:
        for key in list(islice(remembered, len(remembered) - limit)):
            yield key, remembered.pop(key)


class SignedOn(msgspec.Struct):
    """The client that is signed on at a connection."""

    client: str
    confirmed: bool = False


class ClientsState(msgspec.Struct):
    """`Clients` as plain data."""

    known: list[tuple[int, SignedOn]] = []
    claims: list[tuple[int, list[tuple[int, str]]]] = []


class Clients:
    """The client of each connection ("The client of a connection" in the matching rules).

    The last sign-on counts, until the server confirms one. A confirmed client stays. A sign-on that
    is a call counts when it is answered with ok, which confirms it.
    """

    def __init__(self, limit: int):
        self.known: dict[int, SignedOn] = {}
        self.claims: dict[int, dict[int, str]] = {}
        """By connection: unanswered calls to sign on, by id, and the client that each names."""
        self._limit = limit

    def get(self, connection: int) -> str | None:
        """Return the client that is signed on at a connection."""
        found = self.known.get(connection)
        return None if found is None else found.client

    def feed(self, row: MessageRow) -> None:
        """Note a sign-on or its confirmation."""
        # A client may try several ids before one is accepted. Where the protocol confirms a
        # sign-on, the confirmed id is final; elsewhere the last one is the best that a capture
        # shows.
        if row.client is not None:
            if self.is_claim(row):
                self._claim(row)
            elif row.target is None or row.target != rules_of(row.protocol).sign_on_target:
                self.sign_on(row.connection, row.client)
        elif row.name in rules_of(row.protocol).confirmations and row.connection in self.known:
            self.known[row.connection].confirmed = True
        elif row.connection in self.claims and row.kind == "response":
            self._answered(row)

    @staticmethod
    def is_claim(row: MessageRow) -> bool:
        """Return whether a message is a call to sign on; its answer decides."""
        return (
            row.client is not None
            and row.target is not None
            and row.target == rules_of(row.protocol).sign_on_target
            and (row.kind, row.direction) == ("request", "c2s")
            and row.message_id is not None
        )

    def concerns(self, row: MessageRow) -> bool:
        """Return whether `feed` may have an effect."""
        return (
            row.client is not None
            or row.connection in self.claims
            or row.name in rules_of(row.protocol).confirmations
        )

    def _claim(self, row: MessageRow) -> None:
        assert row.client is not None
        assert row.message_id is not None
        self.claims.setdefault(row.connection, {})[row.message_id] = row.client
        for _ in oldest(self.claims[row.connection], _CLAIMS):
            pass
        for _ in oldest(self.claims, self._limit):
            pass

    def _answered(self, row: MessageRow) -> None:
        if row.reply_to is None or row.direction != "s2c":
            return
        claims = self.claims[row.connection]
        client = claims.pop(row.reply_to, None)
        if not claims:
            del self.claims[row.connection]
        if client is not None and row.status == "ok":
            self.sign_on(row.connection, client)
            self.known[row.connection].confirmed = True

    def sign_on(self, connection: int, client: str) -> None:
        """Note a sign-on."""
        found = self.known.get(connection)
        if found is None:
            self.known[connection] = SignedOn(client)
            for _ in oldest(self.known, self._limit):
                pass
        elif not found.confirmed:
            found.client = client

    def closed(self, connection: int) -> None:
        """Forget a connection."""
        self.known.pop(connection, None)
        self.claims.pop(connection, None)

    def state(self) -> ClientsState:
        """Return the clients as plain data."""
        claims = [(connection, list(each.items())) for connection, each in self.claims.items()]
        return ClientsState(list(self.known.items()), claims)

    def restore(self, state: ClientsState) -> None:
        """Replace the clients by those that `state` returned."""
        self.known = dict(state.known)
        self.claims = {connection: dict(each) for connection, each in state.claims}
