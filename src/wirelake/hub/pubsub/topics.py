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
from ..store.interface import Release, RemoveAccount, SaveTransient, Source, TopicRow
from .delivery import Delivery, Fanout
from .forwarding import FORWARDED
from .keys import Keys
from .notifications import Notification, id_of, number_of
from .publishing import Publisher, PublishQueue
from .quota import Quota
from .subscribing import Subscriber
from .subscriptions import Client, Inbox, Receiver, Registry, Subscription, Topic, Traffic, inbox_of
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
        self._queue = queue = PublishQueue(
            self.registry,
            self.delivery,
            self.quota,
            fanout,
            counters,
            tap,
            self.keys,
            server,
            store,
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
            # Of what is not stored, ids have the number of the hub: others count, too.
            server if store.cluster is None else store.cluster.number,
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
            self._count_due,
        )
        # The store is opened before these parts exist, so it is given its callbacks here.
        store.finished = self._batch_finished
        store.closing = self._stop
        self.delivery.cursors.saved = self._saved
        self.delivery.cursors.refused = lambda client: self._doubt([client.number])
        self.subscriber.ended = self.release
        self.subscriber.claim = self.claim
        self.subscriber.subscribed = self._subscribed
        self._doubtful: dict[Client, None] = {}
        """Clients that another hub may have claimed."""
        self._displaced: dict[Client, Receiver] = {}
        """Clients that another hub has claimed although they have a connection here."""
        self._settling = self._finding = self._reclaiming = False
        """Whether the coroutine of this name runs."""
        self.claimed: Callable[[Client], None] = _ignore
        """Called with a client that was read."""
        store.followed = queue.followed
        if store.cluster is not None:
            store.cluster.received = self._received
            store.cluster.paused = self._pause
            store.cluster.resumed = self._resume
            store.cluster.kept = self._try_again
        self.publish = self.publisher.publish
        self.publish_transient = self.publisher.publish_transient
        self.subscribe = self.subscriber.subscribe
        self.unsubscribe = self.subscriber.unsubscribe
        self.revoke = self.subscriber.revoke
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

    async def stop(self) -> None:
        """Cancel what still runs in the background, after the store was closed."""
        await self._background.stop()

    def close(self) -> None:
        """Refuse publishes and changes of subscriptions from now on, whatever their protocol."""
        self.publisher.closed = True

    async def _first_transient(self) -> int:
        """Return a number that was never allocated. Transient publishes leave no trace in the
        store, so the numbers of this second are skipped."""
        last = await self._store.last_transient()
        first = (self.now_ms() // 1000 - EPOCH_S + 1) * SECOND
        return first if first > last else last + _CLOCK_BACK

    def _count_due(self, topics: Sequence[int]) -> None:
        for each in topics:
            self.quota.check_topic(each, tell=False)
        self.quota.start()

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

    def client_of(self, row: ClientRow) -> Client:
        """Return the client of this row, which may not be read yet (`claim`)."""
        return self.registry.find(row) or self.registry.add(row)

    async def claim(
        self, client: Client, connection: Receiver | None = None, *, take: bool = True
    ) -> None:
        """Read a client from the store, and serve it from now on.

        Where several hubs share the store, it is taken from the one that has served it so far:
        also if it is in memory, when its notifications are to go to another `connection`. With
        `take` false, only from a hub that does not run any more. HubError when it was removed, the
        store cannot be read, or another hub keeps it.
        """
        if client.claiming is not None:
            await asyncio.shield(client.claiming)
            return
        stays = connection is None or client.receiver is connection
        if client.loaded and (stays or not client.durable or self._store.cluster is None):
            return
        client.claiming = self._loop.create_future()
        try:
            await self._claim(client, take)
        except BaseException as error:
            claiming, client.claiming = client.claiming, None
            claiming.set_exception(error)
            claiming.exception()  # perhaps nobody else waits for it
            raise
        claiming, client.claiming = client.claiming, None
        claiming.set_result(None)
        if client.doubtful:
            self._doubt([client.number])

    async def _claim(self, client: Client, take: bool) -> None:
        if client.loaded:
            # Perhaps the client was at another hub meanwhile, whose message has not arrived yet.
            if client.number in await self._store.claimed([client.number]):
                return
            self._lose(client)
        loaded = await self._store.claim(client.number, take=take)
        if loaded is None:
            raise HubError("conflict", "another hub serves the client")
        if loaded.row is None:
            raise HubError("auth_required", "the client was removed")
        self.registry.fill(client, loaded)
        self.claimed(client)

    def attach(self, connection: Receiver) -> None:
        """Send the notifications of a connection's client to it from now on."""
        if connection.client is not None:
            self._background.start(self._attach(connection, connection.client))

    async def _attach(self, connection: Receiver, client: Client) -> None:
        try:
            await self.claim(client, connection)
        except HubError as error:
            connection.end(error.code)
            return
        if connection.open and connection.client is client:
            self._subscribed(connection)
        else:
            self.release(client)

    def _subscribed(self, connection: Receiver) -> None:
        client = connection.client
        if client is None:
            return
        if client.loaded:
            self._displaced.pop(client, None)
            self.delivery.attach(connection)
        else:  # another hub has taken it since it was claimed
            self._displace(client, connection)

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
        if self._displaced.get(client) is connection:
            del self._displaced[client]
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
        was_loaded = client.loaded
        if not client.durable:
            known = self.registry.clients_by_number.get(client.number) is client
            self.forget(client)
            if known:
                self._store.write(RemoveAccount("client", client.id))
        elif client.idle:
            self.registry.remove(client)
            if was_loaded and self._store.cluster is not None:
                self._store.write(Release((client.number,)))

    @asynccontextmanager
    async def _loaded(self, number: int) -> AsyncIterator[Client | None]:
        """Keep a client in memory for a while; None when it does not exist, or another hub has
        it."""
        client = self.registry.clients_by_number.get(number)
        if client is None or not client.loaded:
            client = await self._claim_free(number)
        if client is None:
            yield None
            return
        client.connections += 1
        try:
            yield client
        finally:
            client.connections -= 1
            self.release(client)

    async def _claim_free(self, number: int) -> Client | None:
        loaded = await self._store.claim(number, take=False)
        if loaded is None or loaded.row is None:
            return None
        client = self.client_of(loaded.row)
        # It may have been read meanwhile, or is being read.
        if client.claiming is not None:
            await asyncio.shield(client.claiming)
        if not client.loaded:
            self.registry.fill(client, loaded)
        return client

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
        await self.claim(client)
        self._check_served(client)
        await self.quota.trim(client)
        found = await self.delivery.waiting(client)
        self._check_served(client)
        return found

    def _check_served(self, client: Client) -> None:
        """Raise HubError when another hub may serve a client."""
        cluster = self._store.cluster
        if cluster is not None and (client.doubtful or not client.loaded or not cluster.valid):
            raise HubError("storage_failed", "another hub may serve the client")

    # -- other hubs --------------------------------------------------------------------------

    def _received(self, words: list[str]) -> None:
        """Take a message of another hub."""
        if words[:1] == [FORWARDED]:
            self._queue.forwarded(words[1:])
            return
        word, numbers = words[0], [int(each) for each in words[1:] if each.isdecimal()]
        if word == "claimed":
            self._doubt(numbers)
        elif word == "due":
            for number in numbers:
                self.quota.check_topic(number, tell=False)
            self.quota.start()
        elif word == "expired":
            self.delivery.expired(numbers, self.registry.clients_by_number.values())

    def _doubt(self, numbers: Sequence[int]) -> None:
        """Find out whether this hub still has clients; until then, deliver nothing to them.

        What another hub says may be older than the last claim of this one.
        """
        for number in numbers:
            client = self.registry.clients_by_number.get(number)
            if client is None or not (client.loaded or client.claiming):
                continue
            client.doubtful = True
            if client.claiming is None:  # otherwise when it is claimed
                self.delivery.hold(client)
                self._doubtful[client] = None
        if self._doubtful and not self._settling:
            self._settling = True
            self._background.start(self._settle())

    async def _settle(self) -> None:
        try:
            while self._doubtful:
                clients = list(self._doubtful)
                self._doubtful.clear()
                try:
                    claimed = set(await self._store.claimed([each.number for each in clients]))
                except HubError:
                    self._doubtful.update(dict.fromkeys(clients))
                    return  # the next renewal tries again
                for client in clients:
                    if client.number not in claimed:
                        self._lose(client)
                    elif client not in self._doubtful:
                        self._keep(client)
        finally:
            self._settling = False

    def _keep(self, client: Client) -> None:
        client.doubtful = False
        if client.unsaved:  # it may have been refused because the lease was over
            self.delivery.cursors.save_later(client)
        self.delivery.push(client)

    def _lose(self, client: Client) -> None:
        """Stop serving a client: another hub does, or did."""
        self._doubtful.pop(client, None)
        client.doubtful = False
        if not client.loaded:
            return
        receiver = client.receiver
        if receiver is not None:
            self.delivery.lose(receiver)
        self.delivery.forget(client)
        self.registry.empty(client)
        if receiver is not None:
            self._displace(client, receiver)
        self.release(client)

    def _displace(self, client: Client, connection: Receiver) -> None:
        """Deliver nothing to a connection as long as another hub has its client."""
        if connection.acks_all:
            # As a second sign-on at this hub would (comet's duplicates).
            connection.end("replaced")
        elif client.durable:
            self._displaced[client] = connection
        else:  # the client was removed when the lease was over
            connection.end("storage_failed")

    async def _reclaim(self) -> None:
        """Serve displaced clients again that no hub has any more."""
        # A hub may take a client too late, for a connection that is closed already, and a hub
        # whose lease was over has lost all. The connection here would be silent for ever.
        try:
            for client, connection in tuple(self._displaced.items()):
                if self._displaced.get(client) is not connection:
                    continue
                try:
                    await self.claim(client, connection, take=False)
                except HubError:
                    continue  # the next renewal tries again
                if self._displaced.get(client) is connection and client.loaded:
                    self._subscribed(connection)
        finally:
            self._reclaiming = False

    def _pause(self) -> None:
        for client in self.registry.clients_by_number.values():
            self.delivery.hold(client)

    def _resume(self) -> None:
        if not self._finding:
            self._finding = True
            self._background.start(self._find_clients())

    def _try_again(self) -> None:
        self._doubt([])
        if self._displaced and not self._reclaiming:
            self._reclaiming = True
            self._background.start(self._reclaim())

    async def _find_clients(self) -> None:
        """Find out which clients this hub still has, and deliver to them again."""
        cluster = self._store.cluster
        assert cluster is not None
        epoch = cluster.epoch
        loaded = [each for each in self.registry.clients_by_number.values() if each.loaded]
        try:
            claimed = set(await self._store.claimed([each.number for each in loaded]))
        except HubError:
            return  # the next renewal tries again
        finally:
            self._finding = False
        if cluster.epoch != epoch:
            self._resume()
            return
        for client in loaded:
            if client.number not in claimed:
                self._lose(client)
        self.publisher.renumber(cluster.number)  # another hub may have got the old one
        cluster.confirm()
        self._try_again()
        for client in tuple(self.registry.clients_by_number.values()):
            self.delivery.push(client)

    # -- administration ----------------------------------------------------------------------

    async def inbox(self, client_id: str, limit: int) -> list[Notification]:
        """Return what a client has not acknowledged, oldest first; HubError `not_found`."""
        row = await self._row(client_id)
        async with self._loaded(row.number) as client:
            if client is not None:
                await self.quota.trim(client)
                return await self.delivery.peek(client, limit)
        # Another hub serves it, and trims it: what is beyond the quota is not shown.
        copy = await self._look_at(row, None)
        excess = max(0, await self.delivery.count(copy) - self.quota.limit)
        return (await self.delivery.peek(copy, excess + limit))[excess:]

    async def topic_page(self, offset: int, limit: int) -> tuple[int, list[TopicState]]:
        """Return the number of topics, and the states of some of them."""
        count, rows = await self._store.topic_page(offset, limit)
        found: list[TopicState] = []
        for row in rows:
            found.append(await self.topic_state(row))
            await asyncio.sleep(0)
        return count, found

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
            client = self.registry.clients_by_number.get(row.number)
            if client is None or not client.loaded:
                client = await self._look_at(row, client)
            found.append(await self.client_state(client))
            await asyncio.sleep(0)
        return count, found

    async def _look_at(self, row: ClientRow, here: Client | None) -> Client:
        """Return a copy of a client that this hub does not serve, to look at."""
        loaded = await self._store.load_client(row.number)
        copy = Client(row.id, row.number, inbox_of(row.id, loaded))
        for each in loaded.subscriptions:
            topic = Topic(each.topic, each.name, Traffic())
            copy.subscriptions[each.name] = Subscription(topic, each.start, each.ack)
        if here is not None:
            copy.receiver = here.receiver
        return copy

    async def client_state(self, client: Client) -> ClientState:
        """Return the state of a client."""
        connection = client.receiver
        waiting = await self.quota.trim(client)
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


def _ignore(client: Client) -> None:
    """Ignore a client: the callback is not set."""
