"""What clients did and saw, written down while they do it: the source of the truth.

Nothing here is decoded from a capture. A client notes a message when it hands it to its session, or
when its session hands one over; a call when it asks and when it is answered, with the wall clock
before its write and after its read, which the hub's own two times lie between.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

__all__ = ["CLOCK_NS", "Asked", "Contact", "Handed", "Ledger", "Passage", "Publication"]

CLOCK_NS: Final = 1_000_000
"""How much a time may be off at either end: timers tick in milliseconds."""

_KINDS_ANSWERED: Final = frozenset({"answered", "failed"})


@dataclass(slots=True, eq=False)
class Asked:
    """A call, as its client knows it."""

    contact: Contact
    protocol: str
    target: str | None
    message_id: int | None
    at_least_ns: int
    asked_ns: int
    outcome: str = "open"
    cause: str | None = None
    status: str | None = None
    latency_max_ns: int | None = None

    def answer(self, status: str, read_ns: int) -> None:
        """The answer is there."""
        self.outcome = "answered" if status == "ok" else "failed"
        self.status = status
        self.latency_max_ns = read_ns - self.asked_ns

    def lose(self) -> None:
        """The client hangs up and will never know."""
        self.outcome, self.cause = "lost", "closed"

    @property
    def latency_min_ns(self) -> int | None:
        """The least that it can have taken; None without an answer."""
        return self.at_least_ns if self.outcome in _KINDS_ANSWERED else None


@dataclass(slots=True, eq=False)
class Contact:
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
    faults: list[str] = field(default_factory=list)
    """Codes of what it sent and nobody can decode."""

    def said(self, kind: str, name: str, count: int = 1) -> None:
        """The client sent messages."""
        self.messages[self.protocol, kind, name, "c2s"] += count

    def heard(self, kind: str, name: str, count: int = 1) -> None:
        """The client got messages."""
        self.messages[self.protocol, kind, name, "s2c"] += count

    def total(self, *, direction: str | None = None, kinds: tuple[str, ...] | None = None) -> int:
        """How many messages there were, of a direction or of some kinds."""
        return sum(
            count
            for (_, kind, _, way), count in self.messages.items()
            if direction in (None, way) and (kinds is None or kind in kinds)
        )

    def named(self, *names: str) -> int:
        """How many messages have one of these names."""
        return sum(count for key, count in self.messages.items() if key[2] in names)


@dataclass(slots=True, eq=False)
class Passage(Contact):
    """A tunnel, as the gateway knows it; its messages are those of its user."""

    instance_id: int = 0
    tunnel_id: int = 0
    link: int = 0


@dataclass(slots=True, eq=False)
class Publication:
    """What was published: where, when at the earliest, and for how many."""

    topic: str | None
    client: str | None
    asked_ns: int
    audience: int


@dataclass(slots=True, eq=False)
class Handed:
    """A notification and one client, as the client knows it."""

    sends: int = 0
    acks: int = 0
    first_seen_ns: int | None = None
    """After the read."""
    ack_from_ns: int | None = None
    """Before the first acknowledgement was written."""
    ack_by_ns: int | None = None
    """After that was answered."""


class Ledger:
    """Everything that was noted."""

    def __init__(self) -> None:
        self.contacts: list[Contact] = []
        self.passages: list[Passage] = []
        self.calls: list[Asked] = []
        self.publications: dict[str, Publication] = {}
        self.handed: dict[tuple[str, str], Handed] = {}
        """By client and notification; of comet alone, whose messages name what they carry."""
        self._numbers = 0

    def contact(self, protocol: str) -> Contact:
        """A new connection."""
        self._numbers += 1
        found = Contact(self._numbers, protocol)
        self.contacts.append(found)
        return found

    def passage(self, link: Contact, instance_id: int, tunnel_id: int) -> Passage:
        """A new tunnel on a link."""
        self._numbers += 1
        found = Passage(
            self._numbers, "tny", instance_id=instance_id, tunnel_id=tunnel_id, link=link.number
        )
        self.passages.append(found)
        return found

    def ask(
        self,
        contact: Contact,
        target: str,
        message_id: int | None,
        asked_ns: int,
        at_least_ns: int = 0,
    ) -> Asked:
        """A call begins; its request is yet to be written."""
        call = Asked(contact, contact.protocol, target, message_id, at_least_ns, asked_ns)
        self.calls.append(call)
        return call

    def stray(self, contact: Contact, cause: str, status: str) -> None:
        """An answer to what was no request."""
        call = Asked(contact, contact.protocol, None, None, 0, time.time_ns(), "orphan", cause)
        call.status = status
        self.calls.append(call)

    def saw(self, client: str, notification: str, read_ns: int) -> None:
        """A client was sent a notification."""
        found = self.handed.setdefault((client, notification), Handed())
        found.sends += 1
        if found.first_seen_ns is None:
            found.first_seen_ns = read_ns

    def acked(self, client: str, notification: str, asked_ns: int) -> None:
        """A client acknowledges a notification."""
        found = self.handed.setdefault((client, notification), Handed())
        found.acks += 1
        if found.ack_from_ns is None:
            found.ack_from_ns = asked_ns

    def ack_answered(self, client: str, notification: str, read_ns: int) -> None:
        """The acknowledgement has arrived."""
        found = self.handed[client, notification]
        if found.ack_by_ns is None:
            found.ack_by_ns = read_ns
