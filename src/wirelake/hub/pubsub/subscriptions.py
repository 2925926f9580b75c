"""Topics, clients, their subscriptions and inboxes, as they are in memory.

    Registry       all topics and clients, loaded from the store
    Topic          its subscribers, and the numbers of the notifications in its log
    Client         its subscriptions, its backlog, and the connection that gets its notifications
    Subscription   between the two
    Inbox          what a client was sent and has not acknowledged
    Receiver       what delivery needs of a connection; nothing here knows sockets or sessions

The classes refer to each other, so they are one module. A publish writes one row of the log however
many clients subscribe; there is no row per client and notification. A client has a *cursor* in the
log instead, and *holes* below it for what it has not acknowledged (`docs/concepts/hub.md`).
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final, Protocol

import msgspec

from ..errors import HubError
from ..rights import Rights
from ..store import ClientRow, Store, SubscriptionRow
from .notifications import Form, Notification

__all__ = [
    "MAX_SPANS",
    "Client",
    "Inbox",
    "Receiver",
    "Registry",
    "Subscription",
    "Topic",
]

_log = logging.getLogger(__name__)
MAX_SPANS: Final = 64
"""Spans kept per client: one is added when a comet client with a backlog signs on, and ends when
the backlog is fetched. Beyond that the oldest is forgotten and counts as not sent: what was
acknowledged in it is delivered a second time, and nothing is lost."""


class Receiver(Protocol):
    """A connection that notifications are written to."""

    protocol: ClassVar[str]
    acks_all: ClassVar[bool]
    """Whether the protocol itself acknowledges every notification (comet)."""
    id: int
    peer: tuple[str, int]
    charged_to: str
    """The address that limits count for; `peer` of a tunnel is only what its gateway says."""
    client: Client | None
    credential: bytes
    """The hash of the token that the client used."""
    credential_expires_ms: int
    """When that token expires; 0: never."""
    form: Form | None
    """The encoding it shares with other connections; None while it needs its own."""
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

    def write_now(self, data: bytes) -> None:
        """Write whole frames at the end of a turn, when nothing more is collected."""

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Push notifications in this connection's own encoding."""

    def end(self, reason: str) -> None:
        """Close the connection as its protocol does."""

    def drop(self, reason: str) -> None:
        """Close the connection at once."""


class Topic:
    """A topic with subscribers, or with a log that is not empty."""

    __slots__ = (
        "appended",
        "by_form",
        "delivered",
        "dropped",
        "due",
        "held",
        "name",
        "number",
        "numbers",
        "online",
        "published",
        "sparse_size",
        "stored",
        "subscribers",
        "unshared",
    )

    def __init__(self, number: int, name: str, *, stored: bool = False):
        self.number = number
        self.name = name
        self.stored = stored
        """Whether the store has the number."""
        self.dropped = False
        """Whether it was removed: its last subscriber has left."""
        self.appended = 0
        """Notifications added to its log, since the start."""
        self.due: list[tuple[int, int, Client]] | None = None
        """A heap of subscribers, by the value of `appended` at which their backlog is counted
        again (`quota.py`); None until something is added to the log."""
        self.sparse_size = 0
        """Length of the log at which acknowledged notifications in its middle are deleted."""
        self.published = 0
        """Notifications published with an audience, since the start."""
        self.delivered = 0
        """How often one of them was pushed."""
        # An array of 64-bit integers: 8 bytes per notification, where a list of ints takes 40. It
        # is ascending because publications are released in the order of their numbers.
        self.numbers: array[int] = array("q")
        """Numbers of the notifications in its log, ascending."""
        # Three views of the same clients, kept up to date when a client becomes live or held, so
        # that a publish only iterates. dicts serve as ordered sets: deliveries have a stable order.
        self.subscribers: dict[Client, Subscription] = {}
        self.by_form: dict[Form, dict[Receiver, None]] = {}
        """Live connections by their shared form: a notification is encoded once per form."""
        self.unshared: dict[Receiver, None] = {}
        """Live connections that need bytes of their own."""
        self.online = 0
        """Number of live connections of both kinds."""
        self.held: dict[Client, None] = {}
        """Clients that are online and not live (`delivery.py`)."""

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
            self.unshared[connection] = None
        else:
            self.by_form.setdefault(form, {})[connection] = None
        self._count()

    def remove_live(self, connection: Receiver) -> None:
        """Stop pushing to this connection, whatever its form was when it was added."""
        # comet changes its form when a key is exchanged, so the current form says nothing about the
        # group. There are at most a few forms (one per protocol and dialect).
        self.unshared.pop(connection, None)
        for form, group in self.by_form.items():
            if connection in group:
                del group[connection]
                if not group:
                    del self.by_form[form]
                break
        self._count()

    def _count(self) -> None:
        self.online = len(self.unshared) + sum(map(len, self.by_form.values()))

    def live(self) -> list[Receiver]:
        """Return all live connections."""
        return [each for group in (self.unshared, *self.by_form.values()) for each in group]


class Subscription:
    """A client's subscription to a topic."""

    __slots__ = ("ack", "check_at", "start", "topic")

    def __init__(self, topic: Topic, start: int, ack: bool):
        self.topic = topic
        self.check_at = 0
        """The value of `topic.appended` at which the client's backlog is counted (`quota.py`)."""
        self.start = start
        """Notifications up to this number are not part of it."""
        self.ack = ack
        """Whether the client acknowledges; otherwise a written notification counts as
        acknowledged."""


class Client:
    """A subscriber, reached through one connection at a time."""

    __slots__ = (
        "allowance",
        "changes",
        "checked_ms",
        "durable",
        "id",
        "inbox",
        "live",
        "number",
        "position",
        "private",
        "receiver",
        "rights",
        "scheduled",
        "slow",
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
        self.rights: Rights | None = None
        """What it may do; None: everything."""
        self.subscriptions: dict[str, Subscription] = {}
        self.private: array[int] | None = None
        """Numbers of notifications in the log for this client alone, ascending."""
        self.allowance = 0
        """Private notifications that may be stored before its backlog is counted (`quota.py`)."""
        self.receiver: Receiver | None = None
        """The connection that gets its notifications."""
        self.live = False
        """Whether publishes are pushed to the receiver at once: nothing older waits."""
        self.slow = False
        """Whether the receiver reads too slowly."""
        self.position = 0
        """While not live: the number up to which everything was pushed on this connection."""
        self.unacked = 0
        """Notifications pushed on this connection and not acknowledged."""
        self.scheduled = False
        """Whether the next page is pushed in a later turn of the loop."""
        self.checked_ms = 0
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
        # What was sent and not acknowledged, and what was not sent. Topics whose last notification
        # is below the cursor are skipped: usually all of them.
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

        All numbers are in memory (`Registry`): this is a binary search per topic, without a query.
        """
        # `limit` numbers of each topic, then the lowest `limit` of all: a merge of the sorted
        # sources would look at fewer numbers, but a page has 64 and a client few topics with a
        # backlog.
        found = list(self._unsent(after, limit))
        if holes:
            found.extend(number for number in self.inbox.holes if number > after)
        found.sort()
        return found[:limit]

    def _unsent(self, after: int, limit: int) -> Iterator[int]:
        """Yield at most `limit` numbers of each topic."""
        inbox = self.inbox
        low = max(after, inbox.cursor)
        # Most topics have nothing beyond the cursor, which one comparison tells.
        sources: list[tuple[array[int], int]] = [
            (each.topic.numbers, each.start)
            for each in self.subscriptions.values()
            if each.topic.last > low
        ]
        if self.private and self.private[-1] > low:
            sources.append((self.private, 0))
        # Unsent numbers are in the gaps between spans (usually one gap, beyond the cursor). Both
        # are ascending, so each gap is a slice between two binary searches.
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
        # A gap is closed when no number in it is for this client: the numbers of all topics are in
        # one sequence, and most belong to others. Without this, spans would never be merged.
        inbox = self.inbox
        while inbox.spans:
            first = self.next_numbers(0, 1, holes=False)
            if first and first[0] <= inbox.spans[0][0]:
                return
            inbox.advance_cursor(inbox.spans[0][0])


class Inbox:
    """The cursor, spans and holes of one client.

    Everything up to the cursor was sent. Beyond it, spans were sent too: a comet client is pushed
    what is published after its sign-on while older notifications still wait to be fetched. Holes
    are the numbers among these that are not acknowledged.
    """

    __slots__ = ("cursor", "holes", "spans")

    def __init__(self, cursor: int = 0):
        self.cursor = cursor
        self.spans: list[tuple[int, int]] = []
        """(after, up to), ascending, beyond the cursor."""
        self.holes: dict[int, int] = {}
        """By number: the id of the connection it was pushed on; 0 when that connection is closed,
        or the client fetched it."""

    @property
    def top(self) -> int:
        """The highest number that was sent."""
        return self.spans[-1][1] if self.spans else self.cursor

    def was_sent(self, number: int) -> bool:
        """Return whether this number was sent to the client."""
        if number <= self.cursor:
            return True
        at = bisect_left(self.spans, (number,)) - 1
        return at >= 0 and number <= self.spans[at][1]

    def is_unacked(self, number: int) -> bool:
        """Return whether the client, if this is addressed to it, has not acknowledged it."""
        return number in self.holes or not self.was_sent(number)

    def mark_sent(self, number: int) -> None:
        """Mark this number as sent, and everything between it and what was sent before."""
        # Delivery is in order, so everything between the last number sent and this one is either
        # sent or for other clients. With spans, the one that begins before the number is extended.
        spans = self.spans
        if not spans:
            self.cursor = max(self.cursor, number)
            return
        at = bisect_left(spans, (number,)) - 1
        if at >= 0:
            after, up_to = spans[at]
            spans[at] = (after, max(up_to, number))
        else:
            self.cursor = max(self.cursor, number)

    def start_span(self, number: int) -> None:
        """Start a span after this number: what waits up to it stays unsent."""
        if number > self.top:
            self.spans.append((number, number))  # empty until something is pushed
            while len(self.spans) > MAX_SPANS:
                # Its numbers are unsent again, and so cannot be holes as well.
                after, up_to = self.spans.pop(0)
                for hole in [each for each in self.holes if after < each <= up_to]:
                    del self.holes[hole]

    def advance_cursor(self, number: int) -> None:
        """Mark everything up to this number as sent."""
        spans = self.spans
        self.cursor = max(self.cursor, number)
        while spans and spans[0][0] <= self.cursor:
            self.cursor = max(self.cursor, spans.pop(0)[1])

    def gaps(self) -> Iterator[tuple[int, int | None]]:
        """Yield the unsent ranges of the log as (after, up to); the last one has no end."""
        after = self.cursor
        for begin, end in self.spans:
            yield after, begin
            after = end
        yield after, None

    def lowest_needed(self) -> int:
        """Return the lowest number the client may still need."""
        return min(min(self.holes, default=self.cursor + 1), self.cursor + 1)

    def count_unsent(self, numbers: Sequence[int], start: int = 0) -> int:
        """Return how many of these ascending numbers beyond `start` were not sent."""
        count = 0
        for after, up_to in self.gaps():
            low = bisect_right(numbers, max(after, start))
            high = len(numbers) if up_to is None else bisect_right(numbers, up_to)
            count += max(0, high - low)
        return count

    # -- on disk -----------------------------------------------------------------------------

    def pack(self) -> bytes:
        """Encode spans and holes; holes as differences, so that most take two or three bytes."""
        # Connection ids are not saved: after a restart no notification is in flight. A client that
        # acknowledges everything has an empty state, whatever it has received.
        numbers = sorted(self.holes)
        holes = [b - a for a, b in zip([0, *numbers], numbers, strict=False)]
        spans = [pair for pair in self.spans if pair[0] < pair[1]]
        return msgspec.msgpack.encode((spans, holes))

    @classmethod
    def unpack(cls, cursor: int, state: bytes) -> Inbox:
        """Decode what `pack` encoded."""
        spans, holes = msgspec.msgpack.decode(state, type=tuple[list[tuple[int, int]], list[int]])
        inbox = cls(cursor)
        inbox.spans = spans
        number = 0
        for step in holes:
            number += step
            inbox.holes[number] = 0
        return inbox


class Registry:
    """All topics with subscribers, and all clients with topics or connections since the start.

    The number of every stored notification is in memory, eight bytes in the topic or client it is
    for. So the backlog of a client, and what can be deleted, is known without a query: the store is
    read only for contents that are about to be sent.
    """

    def __init__(self, store: Store, on_replaced: Callable[[Client], None]):
        self._store = store
        self._on_replaced = on_replaced
        """Called with a client whose id was removed and added again, as another client."""
        self._next_topic = 1
        self.topics: dict[str, Topic] = {}
        self.topics_by_number: dict[int, Topic] = {}
        self.clients: dict[str, Client] = {}
        self.clients_by_number: dict[int, Client] = {}
        self.deletable: list[int] = []
        """Rows of the log that no client needs."""

    def load(self) -> None:
        """Read topics, subscriptions and the index of the log."""
        for number, name in self._store.topics():
            self._index_topic(Topic(number, name, stored=True))
            self._next_topic = max(self._next_topic, number + 1)
        rows = self._store.subscriptions()
        # Clients without subscriptions are loaded when they sign on: there may be millions.
        subscribed = {row.client for row in rows}
        for client in self._store.clients():
            if client.number in subscribed:
                self._load_client(client)
        for row in rows:
            self._load_subscription(row)
        self._load_index()
        for topic in tuple(self.topics.values()):
            self.drop_unused(topic)

    def _load_subscription(self, row: SubscriptionRow) -> None:
        topic = self.topics_by_number.get(row.topic)
        client = self.clients_by_number.get(row.client)
        if topic is not None and client is not None:
            subscription = Subscription(topic, row.start, row.ack)
            topic.subscribers[client] = client.subscriptions[topic.name] = subscription

    def _load_index(self) -> None:
        private: dict[int, array[int]] = {}
        for target, number in self._store.index():
            topic = self.topics_by_number.get(target)
            if topic is not None:
                topic.numbers.append(number)
            else:
                private.setdefault(target, array("q")).append(number)
        # The index is read in the order of expiry, which is cheaper than sorting in SQL.
        for topic in self.topics.values():
            topic.numbers = array("q", sorted(topic.numbers))
        rows = {-row.number: row for row in self._store.clients()} if private else {}
        for target, numbers in private.items():
            row = rows.get(target)
            if row is None:
                self.deletable.extend(numbers)
            else:
                self._load_client(row).private = array("q", sorted(numbers))

    # -- clients -----------------------------------------------------------------------------

    def client_of(self, row: ClientRow) -> Client:
        """Return the client of this row."""
        client = self.clients.get(row.id)
        if client is not None and client.number == row.number:
            return client
        if client is not None:
            # Removed and added again by another process. The number differs, and nothing of the old
            # client may reach the new one: it may be somebody else.
            self._on_replaced(client)
        return self._load_client(row)

    def _load_client(self, row: ClientRow) -> Client:
        if row.number in self.clients_by_number:
            return self.clients_by_number[row.number]
        saved = self._store.inbox(row.number)
        try:
            inbox = Inbox() if saved is None else Inbox.unpack(saved.cursor, saved.state)
        except msgspec.MsgspecError as error:
            # Not an empty inbox: what the client has acknowledged would be unknown.
            _log.error("the saved inbox of client %r is damaged: %s", row.id, error)
            raise HubError("storage_failed", "cannot read the store") from error
        client = Client(row.id, row.number, inbox)
        self.clients[row.id] = self.clients_by_number[row.number] = client
        return client

    def forget(self, client: Client) -> None:
        """Remove a client with its subscriptions and its private notifications."""
        for each in client.subscriptions.values():
            each.topic.subscribers.pop(client, None)
            self.drop_unused(each.topic)
        client.subscriptions.clear()
        if client.durable:
            self.clients.pop(client.id, None)
            self.clients_by_number.pop(client.number, None)
        if client.private:
            self.deletable.extend(client.private)
            client.private = None

    # -- topics ------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic:
        """Return the topic of this name; create it if it does not exist."""
        topic = self.topics.get(name)
        if topic is None:
            topic = Topic(self._next_topic, name)
            self._next_topic += 1
            self._index_topic(topic)
        return topic

    def _index_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = self.topics_by_number[topic.number] = topic

    def drop_unused(self, topic: Topic) -> None:
        """Remove a topic that has no subscriber any more; the sweep deletes its log."""
        # At once: a client that subscribes and unsubscribes would otherwise make topics faster than
        # a sweep removes them.
        if topic.subscribers or topic.dropped:
            return
        topic.dropped = True
        del self.topics[topic.name]
        del self.topics_by_number[topic.number]
        self.deletable.extend(topic.numbers)
        topic.numbers = array("q")
        if topic.stored:
            self._store.remove_topic(topic.number)

    def add_stored(self, topic: Topic | None, client: Client | None, number: int) -> bool:
        """Add a stored notification to the log of its topic or client.

        Returns False when that was removed while the notification was written: nobody needs it.
        """
        if client is not None:
            if self.clients_by_number.get(client.number) is client:
                client.add_private(number)
                return True
        elif topic is not None:
            if not topic.dropped:
                topic.stored = True
                topic.numbers.append(number)
                return True
            self._store.remove_topic(topic.number)
        self.deletable.append(number)
        return False

    def new_topics(self, names: Sequence[str]) -> int:
        """Return how many of these topics do not exist."""
        return sum(name not in self.topics for name in set(names))
