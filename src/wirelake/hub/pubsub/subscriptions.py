"""Topics, clients, and the subscriptions between them, as they are in memory.

`Receiver` is what delivery needs of a connection, so that nothing here knows about sockets,
sessions or listeners. Topic, Client and Subscription refer to each other; they are one module.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Protocol

from .inbox import Inbox
from .notifications import Form, Notification

__all__ = ["Client", "Receiver", "Subscription", "Topic"]


class Receiver(Protocol):
    """A connection that notifications are written to."""

    protocol: ClassVar[str]
    acks_all: ClassVar[bool]
    """Whether the protocol itself acknowledges every notification (comet)."""
    id: int
    peer: tuple[str, int]
    client: Client | None
    form: Form | None
    """The shared form of notifications; None while this connection needs its own bytes."""
    paused_since: float
    """When the peer stopped reading, by the loop's clock; 0 while it reads."""

    @property
    def open(self) -> bool:
        """Whether something can still be sent."""

    @property
    def may_receive(self) -> bool:
        """Whether notifications may be pushed now."""

    def write(self, data: bytes) -> None:
        """Write whole frames; they leave at the end of this turn of the loop."""

    def write_at_once(self, data: bytes) -> None:
        """Write whole frames at the end of a turn, when nothing more is collected."""

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Push notifications in this connection's own encoding."""

    def drop(self, reason: str) -> None:
        """Close the connection at once."""


class Topic:
    """A topic with subscribers, or with a log that is not empty."""

    __slots__ = (
        "delivered",
        "groups",
        "held",
        "name",
        "number",
        "numbers",
        "online",
        "own",
        "published",
        "stored",
        "subscribers",
    )

    def __init__(self, number: int, name: str, *, stored: bool = False):
        self.number = number
        self.name = name
        self.stored = stored
        """Whether the store has the number."""
        self.published = 0
        """Notifications published to somebody, since the start."""
        self.delivered = 0
        """How often one of them was pushed."""
        self.numbers: array[int] = array("q")
        """Numbers of the notifications in its log, ascending."""
        self.subscribers: dict[Client, Subscription] = {}
        self.groups: dict[Form, dict[Receiver, None]] = {}
        """Live connections by their shared form."""
        self.own: dict[Receiver, None] = {}
        """Live connections that need bytes of their own."""
        self.online = 0
        """Number of live connections of both kinds."""
        self.held: dict[Client, None] = {}
        """Clients that are online and not live: they get their backlog first, or read too
        slowly."""

    @property
    def last(self) -> int:
        """The number of the last notification in its log; 0 without one."""
        return self.numbers[-1] if self.numbers else 0

    def has(self, number: int) -> bool:
        """Return whether the log of this topic has this number."""
        at = bisect_left(self.numbers, number)
        return at < len(self.numbers) and self.numbers[at] == number

    def add_live(self, connection: Receiver) -> None:
        """Push to this connection from now on."""
        form = connection.form
        if form is None:
            self.own[connection] = None
        else:
            self.groups.setdefault(form, {})[connection] = None
        self._count()

    def remove_live(self, connection: Receiver) -> None:
        """Stop pushing to this connection, whatever its form was when it was added."""
        self.own.pop(connection, None)
        for form, group in self.groups.items():
            if connection in group:
                del group[connection]
                if not group:
                    del self.groups[form]
                break
        self._count()

    def _count(self) -> None:
        self.online = len(self.own) + sum(map(len, self.groups.values()))

    def live(self) -> list[Receiver]:
        """Return all live connections."""
        return [each for group in (self.own, *self.groups.values()) for each in group]


class Subscription:
    """A client's subscription to a topic."""

    __slots__ = ("ack", "start", "topic")

    def __init__(self, topic: Topic, start: int, ack: bool):
        self.topic = topic
        self.start = start
        """Notifications up to this number are not part of it."""
        self.ack = ack
        """Whether the client acknowledges; otherwise a written notification counts as
        acknowledged."""


class Client:
    """A subscriber, reached through one connection at a time."""

    __slots__ = (
        "behind",
        "changes",
        "durable",
        "id",
        "inbox",
        "live",
        "number",
        "position",
        "private",
        "receiver",
        "scheduled",
        "seen_ms",
        "subscriptions",
        "unacked",
    )

    def __init__(self, id: str, number: int, inbox: Inbox):  # noqa: A002
        self.id = id
        self.number = number
        """The store's number; 0 for a client that is not stored."""
        self.durable = number > 0
        """False for a connection without an id: nothing of it is stored."""
        self.inbox = inbox
        self.subscriptions: dict[str, Subscription] = {}
        self.private: array[int] | None = None
        """Numbers of notifications in the log for this client alone, ascending."""
        self.receiver: Receiver | None = None
        """The connection that gets its notifications."""
        self.live = False
        """Whether publishes are pushed to the receiver at once: nothing older waits."""
        self.behind = False
        """Whether the receiver reads too slowly."""
        self.position = 0
        """While not live: the number up to which everything was pushed on this connection."""
        self.unacked = 0
        """Notifications pushed on this connection and not acknowledged."""
        self.scheduled = False
        """Whether the next page is pushed in a later turn of the loop."""
        self.seen_ms = 0
        """When a publisher last found it in the store."""
        self.changes: deque[Callable[[], None]] | None = None
        """Subscription changes that wait for the current one."""

    @property
    def acks(self) -> bool:
        """Whether it acknowledges private notifications: when it does so for any topic."""
        return any(each.ack for each in self.subscriptions.values())

    def add_private(self, number: int) -> None:
        """Add a number of the log that is for this client alone."""
        if self.private is None:
            self.private = array("q")
        self.private.append(number)

    # -- the backlog -------------------------------------------------------------------------

    def waiting(self) -> int:
        """Return how many notifications it has not acknowledged."""
        inbox = self.inbox
        count = len(inbox.holes)
        for each in self.subscriptions.values():
            if each.topic.last > inbox.cursor:
                count += inbox.count_unsent(each.topic.numbers, each.start)
        if self.private:
            count += inbox.count_unsent(self.private)
        return count

    def next_numbers(self, after: int, limit: int, *, holes: bool) -> list[int]:
        """Return the lowest unsent numbers beyond `after`; with `holes`, unacknowledged ones too.

        All numbers are in memory (`registry.py`): this is a binary search per topic, without a
        query.
        """
        found = list(self._unsent(after, limit))
        if holes:
            found.extend(number for number in self.inbox.holes if number > after)
        found.sort()
        return found[:limit]

    def _unsent(self, after: int, limit: int) -> Iterator[int]:
        """Yield at most `limit` numbers of each topic."""
        inbox = self.inbox
        low = max(after, inbox.cursor)
        sources: list[tuple[array[int], int]] = [
            (each.topic.numbers, each.start)
            for each in self.subscriptions.values()
            if each.topic.last > low
        ]
        if self.private and self.private[-1] > low:
            sources.append((self.private, 0))
        for numbers, start in sources:
            left = limit
            for begin, end in inbox.gaps():
                first = bisect_right(numbers, max(begin, start, after))
                last = len(numbers) if end is None else bisect_right(numbers, end)
                some = numbers[first : min(last, first + left)]
                yield from some
                left -= len(some)
                if left <= 0:
                    break

    def close_gaps(self) -> None:
        """Merge spans into the cursor where nothing waits before them."""
        inbox = self.inbox
        while inbox.spans:
            first = self.next_numbers(0, 1, holes=False)
            if first and first[0] <= inbox.spans[0][0]:
                return
            inbox.advance_cursor(inbox.spans[0][0])
