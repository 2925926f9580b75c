"""Topics, clients, their subscriptions and inboxes, while they are in memory.

    Registry       the topics and clients that are in memory
    Topic          those of its subscribers that are in memory, and their connections
    Client         its subscriptions, and the connection that gets its notifications
    Subscription   between the two
    Inbox          what a client was sent and has not acknowledged
    Receiver       what delivery needs of a connection; nothing here knows sockets or sessions

The classes refer to each other, so they are one module. A publish writes one row of the log however
many clients subscribe; there is no row per client and notification. A client has a *cursor* in the
log instead, and *holes* below it for what it has not acknowledged (`docs/concepts/hub.md`).

A client is in memory while it has a connection, and until its inbox is saved after that. So the
memory of a hub follows the number of its connections, not that of its clients or notifications.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, ClassVar, Final, Protocol

import msgspec

from wirelake.protocols.hub_calls import ANONYMOUS

from ..errors import HubError
from ..rights import Rights
from ..store import ClientRow, InboxRow
from ..store.interface import LoadedClient, Source, SubscriptionRow
from .notifications import Form, Notification

__all__ = [
    "MAX_SPANS",
    "Client",
    "Inbox",
    "Receiver",
    "Registry",
    "Subscription",
    "Topic",
    "Traffic",
    "inbox_of",
]

_log = logging.getLogger(__name__)
MAX_SPANS: Final = 64
"""Spans kept per client: one is added when a comet client with a backlog signs on, and ends when
the backlog is fetched. Beyond that the oldest is forgotten and counts as not sent: what was
acknowledged in it is delivered a second time, and nothing is lost."""

_MAX_TRAFFIC: Final = 100_000
"""Topics whose traffic is remembered."""


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


class Traffic:
    """What was published to a topic since the start of the hub."""

    __slots__ = ("delivered", "published")

    def __init__(self) -> None:
        self.published = 0
        """Notifications published with an audience."""
        self.delivered = 0
        """How often one of them was pushed."""


class Topic:
    """A topic with subscribers that are in memory."""

    __slots__ = (
        "by_form",
        "held",
        "name",
        "number",
        "online",
        "subscribers",
        "traffic",
        "unshared",
    )

    def __init__(self, number: int, name: str, traffic: Traffic):
        self.number = number
        """The store's number."""
        self.name = name
        self.traffic = traffic
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
        "changes",
        "claiming",
        "connections",
        "doubtful",
        "durable",
        "id",
        "inbox",
        "live",
        "loaded",
        "missed",
        "number",
        "position",
        "private",
        "reading",
        "receiver",
        "rights",
        "scheduled",
        "slow",
        "subscriptions",
        "unacked",
        "unsaved",
    )

    def __init__(self, id: str, number: int, inbox: Inbox):  # noqa: A002
        self.id = id
        self.number = number
        """The store's number; 0 for a connection without sign-on that has not subscribed yet."""
        self.durable = not id.startswith(ANONYMOUS)
        """False for a connection without sign-on: the store forgets it when the connection
        closes."""
        self.inbox = inbox
        self.rights: Rights | None = None
        """What it may do; None: everything."""
        self.subscriptions: dict[str, Subscription] = {}
        self.private: dict[int, None] = {}
        """Numbers of unacknowledged notifications for this client alone, that were pushed or
        fetched: their rows are deleted when they are acknowledged."""
        self.loaded = not self.durable
        """Whether its inbox and its subscriptions are in memory, and this hub serves it."""
        self.claiming: asyncio.Future[None] | None = None
        """While it is being read: done when it is loaded."""
        self.doubtful = False
        """Whether another hub may have claimed it: nothing is delivered until that is known."""
        self.connections = 0
        """Open connections that are signed on as this client, and others that need it in
        memory."""
        self.unsaved = 0
        """Saves of its inbox that are not in the store yet: one that waits, and those under way."""
        self.receiver: Receiver | None = None
        """The connection that gets its notifications."""
        self.live = False
        """Whether publishes are pushed to the receiver at once: nothing older waits."""
        self.slow = False
        """Whether the receiver reads too slowly."""
        self.reading = False
        """Whether a page of its backlog is being read."""
        self.missed: list[tuple[Notification, bool]] | None = None
        """What was published for it while the page was read; whether it has to be
        acknowledged. None while no page is read."""
        self.position = 0
        """While not live: the number up to which everything was pushed on this connection."""
        self.unacked = 0
        """Notifications pushed on this connection and not acknowledged."""
        self.scheduled = False
        """Whether the next page is pushed in a later turn of the loop."""
        self.changes: deque[Callable[[], Coroutine[Any, Any, None]]] | None = None
        """Subscription changes that wait for the current one."""

    @property
    def acks(self) -> bool:
        """Whether it acknowledges private notifications: when it does so for any topic."""
        return any(each.ack for each in self.subscriptions.values())

    @property
    def idle(self) -> bool:
        """Whether nothing needs it in memory."""
        return not (self.connections or self.unsaved or self.changes is not None or self.claiming)

    def row(self) -> InboxRow:
        """Return its inbox as the store has it."""
        inbox = self.inbox
        return InboxRow(self.number, inbox.cursor, inbox.pack(), inbox.lowest_needed())

    def sources(self, after: int) -> list[Source]:
        """Return where the store has notifications for it with higher numbers than this."""
        if not self.number:
            return []
        found = [
            Source(each.topic.number, max(after, each.start))
            for each in self.subscriptions.values()
        ]
        found.append(Source(-self.number, after))
        return found


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


def inbox_of(id: str, loaded: LoadedClient) -> Inbox:  # noqa: A002
    """Return the inbox of a client that was read from the store."""
    saved = loaded.inbox
    try:
        return Inbox() if saved is None else Inbox.unpack(saved.cursor, saved.state)
    except msgspec.MsgspecError as error:
        # Not an empty inbox: what the client has acknowledged would be unknown.
        _log.error("the saved inbox of client %r is damaged: %s", id, error)
        raise HubError("storage_failed", "cannot read the store") from error


class Registry:
    """The clients that are in memory, and the topics that they subscribe to."""

    def __init__(self, on_replaced: Callable[[Client], None]):
        self._on_replaced = on_replaced
        """Called with a client whose id was removed and added again, as another client."""
        self.topics: dict[str, Topic] = {}
        self.topics_by_number: dict[int, Topic] = {}
        self.clients: dict[str, Client] = {}
        self.clients_by_number: dict[int, Client] = {}
        self.traffic: dict[str, Traffic] = {}
        """By topic, also of those that are not in memory."""

    # -- clients -----------------------------------------------------------------------------

    def find(self, row: ClientRow) -> Client | None:
        """Return the client of this row if it is in memory."""
        client = self.clients.get(row.id)
        if client is None or client.number == row.number:
            return client
        # Removed and added again by another process. The number differs, and nothing of the old
        # client may reach the new one: it may be somebody else.
        self._on_replaced(client)
        return None

    def add(self, row: ClientRow) -> Client:
        """Add a client, of which nothing is read yet."""
        client = Client(row.id, row.number, Inbox())
        self.clients[row.id] = self.clients_by_number[row.number] = client
        return client

    def fill(self, client: Client, loaded: LoadedClient) -> None:
        """Give a client what was read of it."""
        client.inbox = inbox_of(client.id, loaded)
        for each in loaded.subscriptions:
            self.subscribe(client, each)
        client.loaded = True

    def empty(self, client: Client) -> None:
        """Forget what was read of a client: another hub serves it."""
        for each in tuple(client.subscriptions.values()):
            each.topic.subscribers.pop(client, None)
            self._drop_unused(each.topic)
        client.subscriptions.clear()
        client.private.clear()
        client.inbox = Inbox()
        client.loaded = False

    def add_anonymous(self, client: Client, number: int) -> None:
        """Give the client of a connection without sign-on its number."""
        client.number = number
        self.clients_by_number[number] = client

    def remove(self, client: Client) -> None:
        """Remove a client from memory."""
        self.empty(client)
        if self.clients.get(client.id) is client:
            del self.clients[client.id]
        if self.clients_by_number.get(client.number) is client:
            del self.clients_by_number[client.number]

    # -- subscriptions -----------------------------------------------------------------------

    def subscribe(self, client: Client, row: SubscriptionRow) -> Subscription:
        """Add a subscription to memory."""
        topic = self.topics_by_number.get(row.topic)
        if topic is None:
            topic = Topic(row.topic, row.name, self._traffic(row.name))
            self.topics[row.name] = self.topics_by_number[row.topic] = topic
        subscription = Subscription(topic, row.start, row.ack)
        topic.subscribers[client] = client.subscriptions[row.name] = subscription
        return subscription

    def unsubscribe(self, client: Client, name: str) -> None:
        """Remove a subscription from memory."""
        topic = client.subscriptions.pop(name).topic
        topic.subscribers.pop(client, None)
        self._drop_unused(topic)

    def _traffic(self, name: str) -> Traffic:
        traffic = self.traffic.get(name)
        if traffic is None:
            if len(self.traffic) >= _MAX_TRAFFIC:
                self._forget_traffic()
            traffic = self.traffic[name] = Traffic()
        return traffic

    def _forget_traffic(self) -> None:
        """Forget the older half of the topics that are not in memory."""
        old = [name for name in self.traffic if name not in self.topics]
        for name in old[: _MAX_TRAFFIC // 2]:
            del self.traffic[name]

    def _drop_unused(self, topic: Topic) -> None:
        if not topic.subscribers and self.topics_by_number.get(topic.number) is topic:
            del self.topics_by_number[topic.number]
            if self.topics.get(topic.name) is topic:
                del self.topics[topic.name]
