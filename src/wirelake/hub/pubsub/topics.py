"""`Topics`: builds and connects the parts of publish/subscribe, and answers queries about them.

A publish writes one row to the log, however many clients subscribe. It is confirmed after the group
commit, and only then pushed, in the order of the log. What is not stored goes to the clients that
are online. Everything here runs on the event loop; callbacks are called on it, once each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from wirelake.protocols.hub_calls import ANONYMOUS

from ..config import ActiveLimits
from ..errors import HubError
from ..observe.counters import Counters
from ..observe.tap import Tap
from ..store import ClientRow, DeadRow, Store
from .delivery import Delivery, Fanout
from .notifications import EPOCH_S, Notification, Numbers, Published, id_of, number_of
from .publishing import Publisher, PublishQueue
from .quota import Quota
from .subscribing import Subscriber
from .subscriptions import Client, Inbox, Receiver, Registry, Topic
from .sweep import Sweep

__all__ = ["ClientState", "DeadLetter", "TopicState", "Topics", "client_state", "topic_state"]

_MAX_REDRIVEN: Final = 1_000
"""Dead letters redriven at a time."""
_SECOND: Final = 1 << 20
"""Numbers of one second (`notifications.Numbers`)."""
_CLOCK_BACK: Final = 10 * _SECOND
"""Numbers skipped when the clock has gone back. The sweep saves the last number every five seconds;
ten seconds of numbers are more than can have been allocated since."""


class DeadLetter(msgspec.Struct, frozen=True):
    """A notification that one client did not acknowledge in time."""

    client: str
    reason: str
    """`expired`: it expired. `quota`: the backlog was longer than `limits.inbox`."""
    dead_ms: int
    notification: Notification


class TopicState(msgspec.Struct, frozen=True):
    """A topic."""

    name: str
    """Its name."""
    subscribers: int
    """Subscribed clients."""
    online: int
    """Connections that are pushed to as soon as something is published."""
    held: int
    """Clients online that get their backlog first."""
    stored: int
    """Notifications in its log."""


class ClientState(msgspec.Struct, frozen=True):
    """A client."""

    id: str
    """Its id."""
    online: bool
    """Whether it has a connection."""
    protocol: str
    """The protocol of that connection; empty without one."""
    peer: str
    """The remote address, as `host:port`."""
    connection: int
    """The id of that connection; 0 without one."""
    live: bool
    """Whether it is pushed to as soon as something is published; otherwise the backlog is first."""
    topics: tuple[str, ...]
    """Its subscriptions."""
    waiting: int
    """Notifications it has not acknowledged."""
    owed: int
    """Those of them that were pushed on this connection."""


class Topics:
    """All topics and clients of the hub: what listeners and the admin pages use.

    Methods of the parts are attributes here, so that a call costs no forwarding function.
    """

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        limits: ActiveLimits,
        counters: Counters,
        tap: Tap,
        connections: Mapping[int, Receiver],
        at_turn_end: Callable[[Callable[[], None]], None],
        *,
        server: int = 0,
        clock: Callable[[], float] = time.time,
    ):
        self._store = store
        self._loop = loop
        self._connections = connections
        self._clock = clock
        self._server = server
        self._redriving: set[int] = set()
        """Dead letters that are being put back."""
        # In the order of dependence: each part gets those it calls.
        fanout = Fanout(counters, at_turn_end)
        self.registry = Registry(store, self.forget)
        self.delivery = Delivery(store, loop, limits, counters, fanout, self.now_ms, server)
        self.quota = Quota(limits, self.registry, self.delivery)
        queue = PublishQueue(self.registry, self.delivery, self.quota, fanout, counters, tap)
        self.publisher = Publisher(
            store,
            self.registry,
            queue,
            limits,
            counters,
            tap,
            connections,
            self.now_ms,
            server,
        )
        self.subscriber = Subscriber(
            store, self.registry, self.delivery, self.quota, fanout, self.publisher, limits
        )
        self.sweep = Sweep(
            store,
            loop,
            limits,
            counters,
            connections,
            self.registry,
            self.delivery,
            self.quota,
            self.publisher,
            self.now_ms,
        )
        # The store is opened before these parts exist, so it is given its callbacks here.
        store.appended = queue.written
        store.closing = self._stop
        self.publish = self.publisher.publish
        self.publish_transient = self.publisher.publish_transient
        self.subscribe = self.subscriber.subscribe
        self.unsubscribe = self.subscriber.unsubscribe
        self.revoke = self.subscriber.revoke
        self.attach = self.delivery.attach
        self.regroup = self.delivery.regroup
        self.fell_behind = self.delivery.fell_behind
        self.caught_up = self.delivery.caught_up

    def now_ms(self) -> int:
        """Return the wall-clock time."""
        return int(self._clock() * 1000)

    def load(self) -> None:
        """Load the store and start the sweep."""
        last = self._first_number() - 1
        self.publisher.numbers = Numbers(last)
        self.delivery.reached = last
        self.registry.load()
        self.quota.load()
        self.publisher.keys.load()
        self.sweep.start()

    def close(self) -> None:
        """Refuse publishes and changes of subscriptions from now on, whatever their protocol."""
        self.publisher.closed = True

    def _first_number(self) -> int:
        """Return a number that was never allocated. Transient publishes leave no trace in the
        store, so the numbers of this second are skipped."""
        last = self._store.last_number()
        first = (self.now_ms() // 1000 - EPOCH_S + 1) * _SECOND
        return first if first > last else last + _CLOCK_BACK

    def _stop(self) -> None:
        # Called before the last batch is written: what follows is in it.
        self.close()
        self.sweep.stop()
        self._store.save_last_number(self.publisher.numbers.last)
        self.delivery.save()

    # -- clients -----------------------------------------------------------------------------

    def client_of(self, row: ClientRow) -> Client:
        """Return the client of this row."""
        return self.registry.client_of(row)

    def anonymous(self, connection: Receiver) -> Client:
        """Return a client for one connection, of which nothing is stored."""
        return Client(f"{ANONYMOUS}{connection.id}", 0, Inbox(self.delivery.reached))

    def forget(self, client: Client) -> None:
        """Remove a client with its subscriptions and its backlog."""
        if client.receiver is not None:
            self.delivery.detach(client.receiver)
        self.delivery.forget(client)
        self.registry.forget(client)
        # The next client with this id may be somebody else: what it publishes is new.
        self.publisher.keys.forget(client.id)

    def detach(self, connection: Receiver) -> None:
        """Stop sending to this connection: it is closed, or changes its client."""
        client = connection.client
        if client is None:
            return
        self.delivery.detach(connection)
        if not client.durable:
            self.forget(client)

    def ack(self, connection: Receiver, ids: Sequence[str]) -> int:
        """Acknowledge notifications; return how many ids were known."""
        client = connection.client
        return 0 if client is None else self.delivery.ack(client, ids)

    def waiting(self, connection: Receiver) -> list[Notification]:
        """Return the oldest unacknowledged notifications, as many as one list may have.

        Raises HubError when the store cannot be read.
        """
        client = connection.client
        return [] if client is None else self.delivery.waiting(client)

    # -- administration ----------------------------------------------------------------------

    def inbox(self, client_id: str, limit: int) -> list[Notification]:
        """Return what a client has not acknowledged, oldest first; HubError `not_found`."""
        return self.delivery.peek(self._stored_client(client_id), limit)

    def topic_list(self) -> list[Topic]:
        """Return all topics; `topic_state` has what to show of one."""
        return list(self.registry.topics.values())

    def client_list(self, offset: int = 0, limit: int | None = None) -> list[Client]:
        """Return clients with topics, or with connections since the start, but the anonymous ones,
        which only their connections know; `client_state` has what to show of one."""
        end = None if limit is None else offset + limit
        return list(islice(self.registry.clients.values(), offset, end))

    def dead(self, limit: int, client: str | None = None) -> list[DeadLetter]:
        """Return dead letters, newest first; HubError `not_found`."""
        number = None if client is None else self._stored_client(client).number
        return [self._dead_letter(row) for row in self._store.dead(limit, number)]

    async def redrive(self, ids: Sequence[str] | None = None, client: str | None = None) -> int:
        """Redrive dead letters by id, or all of one client, at most a thousand.

        Each gets a new id and goes to its client alone. Returns their number when they are on
        disk. When the publish queue has no room for all, the oldest go first; HubError when it is
        full.
        """
        if self.publisher.closed:
            raise HubError("closing")
        number = None if client is None else self._stored_client(client).number
        found = [each for each in map(number_of, ids or ()) if each is not None]
        if client is None and not found:
            raise HubError("bad_arguments", "expected ids of notifications, or client")
        rows = self._store.dead(_MAX_REDRIVEN, number, found or None)
        # Not those of a request that is being written: they would be delivered twice.
        rows = [row for row in rows if row.place not in self._redriving]
        if not rows:
            return 0
        written = self._loop.create_future()

        def done(result: Published | HubError) -> None:
            self._redriving.difference_update(places)
            if written.cancelled():
                return
            if isinstance(result, HubError):
                written.set_exception(result)
            else:
                written.set_result(None)

        # Oldest first, so that they are delivered in their old order.
        oldest_first = rows[::-1]
        letters = [(row, self._stored_client(row.client)) for row in oldest_first]
        count = self.publisher.redrive(letters, done)
        places = [row.place for row in oldest_first[:count]]
        self._redriving.update(places)
        await written
        return count

    def _stored_client(self, client_id: str) -> Client:
        # From the store, not from memory: clients without topics or a connection are not loaded.
        row = self._store.client(client_id)
        if row is None:
            raise HubError("not_found", f"unknown client {client_id[:40]!r}")
        return self.client_of(row)

    def _dead_letter(self, row: DeadRow) -> DeadLetter:
        notification = Notification(
            row.number,
            id_of(row.number, server=self._server, private=row.topic is None),
            row.topic,
            row.content,
            row.type,
            row.ts_ms,
            0,
        )
        return DeadLetter(row.client, row.reason, row.dead_ms, notification)


def topic_state(topic: Topic) -> TopicState:
    """Return the state of a topic."""
    return TopicState(
        name=topic.name,
        subscribers=len(topic.subscribers),
        online=topic.online,
        held=len(topic.held),
        stored=len(topic.numbers),
    )


def client_state(client: Client) -> ClientState:
    """Return the state of a client."""
    connection = client.receiver
    return ClientState(
        id=client.id,
        online=connection is not None,
        protocol="" if connection is None else connection.protocol,
        peer="" if connection is None else f"{connection.peer[0]}:{connection.peer[1]}",
        connection=0 if connection is None else connection.id,
        live=client.live,
        topics=tuple(client.subscriptions),
        waiting=client.waiting(),
        owed=client.unacked if connection is not None else 0,
    )
