"""`Topics`: builds and connects the parts of publish/subscribe, and answers queries about them.

A publish writes one row to the log, however many clients subscribe. It is confirmed after the group
commit, and only then pushed, in the order of the log. What is not stored goes to the clients that
are online. Everything here runs on the event loop; callbacks are called on it, once each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from wirelake.protocols.hub_calls import ANONYMOUS

from ..config import ActiveLimits
from ..eager import Background
from ..errors import HubError
from ..numbers import EPOCH_S, SECOND, TransientNumbers
from ..observe.counters import Counters
from ..observe.tap import Tap
from ..store import ClientRow, DeadRow, Store
from ..store.interface import LoadedClient, RemoveAccount, SaveTransient, Source, TopicRow
from .delivery import Delivery, Fanout
from .keys import Keys
from .notifications import Notification, id_of, number_of
from .publishing import Publisher, PublishQueue
from .quota import Quota
from .subscribing import Subscriber
from .subscriptions import Client, Inbox, Receiver, Registry
from .sweep import Sweep

__all__ = ["ClientState", "DeadLetter", "TopicState", "Topics"]

_MAX_REDRIVEN: Final = 1_000
"""Dead letters redriven at a time."""
_CLOCK_BACK: Final = 10 * SECOND
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
        self._background = background = Background(loop)
        # In the order of dependence: each part gets those it calls.
        fanout = Fanout(counters, at_turn_end)
        self.registry = Registry(self.forget)
        self.delivery = Delivery(
            store, loop, limits, counters, fanout, self.now_ms, server, background
        )
        self.quota = Quota(store, limits, self.delivery, self._loaded, background)
        self.keys = Keys(store, limits, self.now_ms, server)
        queue = PublishQueue(
            self.registry, self.delivery, self.quota, fanout, counters, tap, self.keys, server
        )
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
            self.keys,
        )
        self.subscriber = Subscriber(
            store, self.registry, self.delivery, fanout, self.publisher, limits, background
        )
        self.sweep = Sweep(
            store,
            loop,
            limits,
            counters,
            self.registry,
            self.delivery,
            self.publisher,
            self.now_ms,
            background,
        )
        # The store is opened before these parts exist, so it is given its callbacks here.
        store.finished = self._batch_finished
        store.closing = self._stop
        self.delivery.cursors.saved = self._saved
        self.subscriber.ended = self.release
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

    async def load(self) -> None:
        """Read what is needed from the start, and start the sweep."""
        self.delivery.reached = await self._store.last_number()
        self.publisher.transient = TransientNumbers(await self._first_transient() - 1)
        await self.keys.load()
        self.sweep.start()

    def close(self) -> None:
        """Refuse publishes and changes of subscriptions from now on, whatever their protocol."""
        self.publisher.closed = True

    async def _first_transient(self) -> int:
        """Return a number that was never allocated. Transient publishes leave no trace in the
        store, so the numbers of this second are skipped."""
        last = await self._store.last_transient()
        first = (self.now_ms() // 1000 - EPOCH_S + 1) * SECOND
        return first if first > last else last + _CLOCK_BACK

    def _batch_finished(self) -> None:
        self.delivery.flush()
        self.quota.start()

    def _stop(self) -> None:
        # Called before the last batch is written: what follows is in it.
        self.close()
        self.sweep.stop()
        self._store.write(SaveTransient(self.publisher.transient.last))
        self.delivery.save()

    # -- clients -----------------------------------------------------------------------------

    async def load_client(self, row: ClientRow) -> Client:
        """Return the client of this row; read it from the store if it is not in memory."""
        client = self.registry.find(row)
        if client is not None:
            return client
        return self._add(row, await self._store.load_client(row.number))

    def enter(self, client: Client) -> None:
        """Keep a client in memory, for a connection that is signed on as it."""
        client.connections += 1

    def anonymous(self, connection: Receiver) -> Client:
        """Return a client for one connection, of which nothing is stored after its end."""
        return Client(f"{ANONYMOUS}{connection.id}", 0, Inbox(self.delivery.reached))

    def forget(self, client: Client) -> None:
        """Remove a client with its subscriptions and its backlog."""
        if client.receiver is not None:
            self.delivery.detach(client.receiver)
        self.delivery.forget(client)
        self.registry.remove(client)
        # The next client with this id may be somebody else: what it publishes is new.
        self.keys.forget(client.id)

    def detach(self, connection: Receiver) -> None:
        """Stop sending to this connection: it is closed, or changes its client."""
        client = connection.client
        if client is None:
            return
        self.delivery.detach(connection)
        client.connections -= 1
        self.release(client)

    def _saved(self, client: Client) -> None:
        for each in client.subscriptions.values():
            self.delivery.changed_topics[each.topic.number] = None
        self.release(client)

    def release(self, client: Client) -> None:
        """Remove a client from memory if nothing needs it there."""
        if client.connections > 0 or client.changes is not None:
            return
        if not client.durable:
            self.forget(client)
            if client.number:
                self._store.write(RemoveAccount("client", client.id))
        elif not client.unsaved:
            self.registry.remove(client)

    @asynccontextmanager
    async def _loaded(self, number: int) -> AsyncIterator[Client | None]:
        """Keep a client in memory for a while; None when it does not exist."""
        client = self.registry.clients_by_number.get(number)
        if client is None:
            loaded = await self._store.load_client(number)
            client = None if loaded.row is None else self._add(loaded.row, loaded)
        if client is None:
            yield None
            return
        client.connections += 1
        try:
            yield client
        finally:
            client.connections -= 1
            self.release(client)

    def _add(self, row: ClientRow, loaded: LoadedClient) -> Client:
        # Another connection may have read it at the same time.
        return self.registry.find(row) or self.registry.add(row, loaded)

    def ack(self, connection: Receiver, ids: Sequence[str]) -> int:
        """Acknowledge notifications; return how many ids were known."""
        client = connection.client
        return 0 if client is None else self.delivery.ack(client, ids)

    async def waiting(self, connection: Receiver) -> list[Notification]:
        """Return the oldest unacknowledged notifications, as many as one list may have.

        Raises HubError when the store cannot be read.
        """
        client = connection.client
        if client is None:
            return []
        await self.quota.trim(client)
        return await self.delivery.waiting(client)

    # -- administration ----------------------------------------------------------------------

    async def inbox(self, client_id: str, limit: int) -> list[Notification]:
        """Return what a client has not acknowledged, oldest first; HubError `not_found`."""
        row = await self._row(client_id)
        async with self._loaded(row.number) as client:
            if client is None:
                return []
            await self.quota.trim(client)
            return await self.delivery.peek(client, limit)

    async def topic_page(self, offset: int, limit: int) -> tuple[int, list[TopicState]]:
        """Return the number of topics, and the states of some of them."""
        count, rows = await self._store.topic_page(offset, limit)
        return count, [await self.topic_state(row) for row in rows]

    async def topic_state(self, row: TopicRow) -> TopicState:
        """Return the state of a topic."""
        topic = self.registry.topics_by_number.get(row.number)
        return TopicState(
            name=row.name,
            subscribers=row.subscribers,
            online=0 if topic is None else topic.online,
            held=0 if topic is None else len(topic.held),
            stored=await self._store.count([Source(row.number, 0)], self.delivery.reached),
        )

    async def client_page(self, offset: int, limit: int) -> tuple[int, list[ClientState]]:
        """Return the number of clients, and the states of some of them."""
        count, rows = await self._store.client_page(offset, limit)
        found: list[ClientState] = []
        for row in rows:
            async with self._loaded(row.number) as client:
                if client is not None:
                    found.append(await self.client_state(client))
            await asyncio.sleep(0)
        return count, found

    async def client_state(self, client: Client) -> ClientState:
        """Return the state of a client."""
        connection = client.receiver
        waiting = await self.delivery.count(client)
        return ClientState(
            id=client.id,
            online=connection is not None,
            protocol="" if connection is None else connection.protocol,
            peer="" if connection is None else f"{connection.peer[0]}:{connection.peer[1]}",
            connection=0 if connection is None else connection.id,
            live=client.live,
            topics=tuple(client.subscriptions),
            waiting=waiting,
            owed=client.unacked if connection is not None else 0,
        )

    async def dead(self, limit: int, client: str | None = None) -> list[DeadLetter]:
        """Return dead letters, newest first; HubError `not_found`."""
        number = None if client is None else (await self._row(client)).number
        return [self._dead_letter(row) for row in await self._store.dead(limit, number)]

    async def redrive(self, ids: Sequence[str] | None = None, client: str | None = None) -> int:
        """Redrive dead letters by id, or all of one client, at most a thousand.

        Each gets a new id and goes to its client alone. Returns their number when they are on
        disk. When the publish queue has no room for all, the oldest go first; HubError when it is
        full.
        """
        if self.publisher.closed:
            raise HubError("closing")
        number = None if client is None else (await self._row(client)).number
        found = [each for each in map(number_of, ids or ()) if each is not None]
        if client is None and not found:
            raise HubError("bad_arguments", "expected ids of notifications, or client")
        rows = await self._store.dead(_MAX_REDRIVEN, number, found or None)
        # Oldest first, so that they are delivered in their old order.
        return await self.publisher.redrive(rows[::-1]) if rows else 0

    async def _row(self, client_id: str) -> ClientRow:
        row = await self._store.client(client_id)
        if row is None:
            raise HubError("not_found", f"unknown client {client_id[:40]!r}")
        return row

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
