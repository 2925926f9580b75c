"""What clients did and saw, noted while it happens: the source of the truth.

Nothing here is decoded from a capture. A client notes a message when it hands it to its session, or
when its session returns one; a call when it is sent and when it is answered, with the wall clock
before the write and after the read. The hub's own two times lie between these.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "CLOCK_NS",
    "CallEntry",
    "ConnectionEntry",
    "DeliveryEntry",
    "Journal",
    "Publication",
    "TunnelEntry",
]

CLOCK_NS: Final = 1_000_000
"""Possible error of a time at either end: timers tick in milliseconds."""

_ANSWERED: Final = frozenset({"answered", "failed"})


@dataclass(slots=True, eq=False)
class CallEntry:
    """A call, as its client knows it."""

    connection: ConnectionEntry
    protocol: str
    target: str | None
    message_id: int | None
    at_least_ns: int
    started_ns: int
    outcome: str = "open"
    cause: str | None = None
    status: str | None = None
    latency_max_ns: int | None = None

    def answer(self, status: str, read_ns: int) -> None:
        """Note the response."""
        self.outcome = "answered" if status == "ok" else "failed"
        self.status = status
        self.latency_max_ns = read_ns - self.started_ns

    def lose(self) -> None:
        """Note that the client disconnects without waiting for the response."""
        self.outcome, self.cause = "lost", "closed"

    @property
    def latency_min_ns(self) -> int | None:
        """Lower bound of its latency; None without a response."""
        return self.at_least_ns if self.outcome in _ANSWERED else None


@dataclass(slots=True, eq=False)
class ConnectionEntry:
    """A connection, as its client knows it."""

    number: int
    protocol: str
    address: str = ""
    port: int = 0
    server_port: int = 0
    client: str | None = None
    closed_by: str = "client"
    close_reason: str = "eof"
    resumed: bool | None = None
    bytes_c2s: int = 0
    bytes_s2c: int = 0
    messages: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """By protocol, kind, name and direction."""
    failures: int = 0
    heartbeats: int = 0
    faults: list[str] = field(default_factory=list)
    """Codes of the malformed frames that it sent."""

    def sent(self, kind: str, name: str, count: int = 1) -> None:
        """Note messages of the client."""
        self.messages[self.protocol, kind, name, "c2s"] += count

    def received(self, kind: str, name: str, count: int = 1) -> None:
        """Note messages of the hub."""
        self.messages[self.protocol, kind, name, "s2c"] += count

    def total(self, *, direction: str | None = None, kinds: tuple[str, ...] | None = None) -> int:
        """Count messages of a direction or of some kinds."""
        return sum(
            count
            for (_, kind, _, sent_in), count in self.messages.items()
            if direction in (None, sent_in) and (kinds is None or kind in kinds)
        )

    def named(self, *names: str) -> int:
        """Count messages by name."""
        return sum(count for key, count in self.messages.items() if key[2] in names)


@dataclass(slots=True, eq=False)
class TunnelEntry(ConnectionEntry):
    """A tunnel, as the gateway knows it; its messages are those of its user."""

    instance_id: int = 0
    tunnel_id: int = 0
    link: int = 0


@dataclass(slots=True, eq=False)
class Publication:
    """What was published: where, the earliest possible time, and for how many."""

    topic: str | None
    recipient: tuple[str, str] | None
    """Protocol and client, of a notification for one client."""
    started_ns: int
    audience: int


@dataclass(slots=True, eq=False)
class DeliveryEntry:
    """A notification and one client, as the client knows it."""

    sends: int = 0
    acks: int = 0
    first_seen_ns: int | None = None
    """After the read."""
    ack_from_ns: int | None = None
    """Before the first acknowledgement was written."""
    ack_by_ns: int | None = None
    """After that was answered."""


class Journal:
    """All entries."""

    def __init__(self) -> None:
        self.connections: list[ConnectionEntry] = []
        self.tunnels: list[TunnelEntry] = []
        self.calls: list[CallEntry] = []
        self.publications: dict[str, Publication] = {}
        self.deliveries: dict[tuple[str, str, str], DeliveryEntry] = {}
        """By protocol, client and notification."""
        self._numbers = 0

    def connection(self, protocol: str) -> ConnectionEntry:
        """Add a connection."""
        self._numbers += 1
        found = ConnectionEntry(self._numbers, protocol)
        self.connections.append(found)
        return found

    def tunnel(
        self, protocol: str, link: ConnectionEntry, instance_id: int, tunnel_id: int
    ) -> TunnelEntry:
        """Add a tunnel on a link; `protocol` is that of the messages in it."""
        self._numbers += 1
        found = TunnelEntry(
            self._numbers, protocol, instance_id=instance_id, tunnel_id=tunnel_id, link=link.number
        )
        self.tunnels.append(found)
        return found

    def call(
        self,
        connection: ConnectionEntry,
        target: str,
        message_id: int | None,
        started_ns: int,
        at_least_ns: int = 0,
    ) -> CallEntry:
        """Add a call; its request is yet to be written."""
        call = CallEntry(
            connection, connection.protocol, target, message_id, at_least_ns, started_ns
        )
        self.calls.append(call)
        return call

    def orphan(self, connection: ConnectionEntry, cause: str, status: str) -> None:
        """Add a response without a request."""
        now_ns = time.time_ns()
        call = CallEntry(connection, connection.protocol, None, None, 0, now_ns, "orphan", cause)
        call.status = status
        self.calls.append(call)

    def delivered(self, protocol: str, client: str, notification: str, read_ns: int) -> None:
        """Note that a client received a notification."""
        found = self._delivery(protocol, client, notification)
        found.sends += 1
        if found.first_seen_ns is None:
            found.first_seen_ns = read_ns

    def acked(self, protocol: str, client: str, notification: str, started_ns: int) -> None:
        """Note that a client acknowledges a notification."""
        found = self._delivery(protocol, client, notification)
        found.acks += 1
        if found.ack_from_ns is None:
            found.ack_from_ns = started_ns

    def ack_answered(self, protocol: str, client: str, notification: str, read_ns: int) -> None:
        """Note that the hub answered the acknowledgement."""
        found = self._delivery(protocol, client, notification)
        if found.ack_by_ns is None:
            found.ack_by_ns = read_ns

    def _delivery(self, protocol: str, client: str, notification: str) -> DeliveryEntry:
        return self.deliveries.setdefault((protocol, client, notification), DeliveryEntry())
