"""Topics: who subscribes, who publishes, and what waits for whom.

A publish writes one row to the log, however many subscribe. Its publisher is told after the group
commit, and only then it is pushed, in the order of the log (`delivery.py`). What is not stored goes
to who is online now (`fanout.py`). Everything here runs on the loop; callbacks are called on it,
once each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

import msgspec

from ..errors import HubError
from ..store import ClientRow, DeadRow
from .clients import Client
from .delivery import Delivery
from .fanout import Fanout
from .inboxes import Inbox
from .notification import Notification
from .numbering import (
    EPOCH_S,
    Numbers,
    id_of,
    number_of,
)
from .publication import Publication, Published
from .publish_queue import Line
from .publishing import Publisher
from .registry import Registry
from .subscribing import Subscriber
from .sweep import Sweep

if TYPE_CHECKING:
    from ..hub import Hub
    from ..net.connection import Connection

__all__ = ["ClientState", "DeadLetter", "Publication", "Published", "TopicState", "Topics"]

_REDRIVEN: Final = 1_000
"""Dead letters that are sent again at a time."""
_SECOND: Final = 1 << 20
"""Numbers of one second (`numbering.py`)."""
_CLOCK_BACK: Final = 10 * _SECOND
"""Numbers that are left out when the clock has gone back: more than were given out, and perhaps not
stored, since the last mark."""


class DeadLetter(msgspec.Struct, frozen=True):
    """A notification that one client never acknowledged."""

    client: str
    reason: str
    """`expired`: its time was over. `quota`: more waited than may."""
    dead_ms: int
    notification: Notification


class TopicState(msgspec.Struct, frozen=True):
    """A topic, for people to look at."""

    name: str
    """Its name."""
    subscribers: int
    """Clients that subscribe to it."""
    online: int
    """Connections that get at once what is published."""
    held: int
    """Clients that are online and have to get something older first."""
    stored: int
    """Notifications in its log."""


class ClientState(msgspec.Struct, frozen=True):
    """A client, for people to look at."""

    id: str
    """Its name; empty for a connection that did not sign on."""
    online: bool
    """Whether it has a connection."""
    protocol: str
    """What that speaks; empty when there is none."""
    peer: str
    """Where it comes from, as `host:port`."""
    connection: int
    """The number of its connection."""
    live: bool
    """Whether it gets at once what is published: nothing older comes before."""
    topics: tuple[str, ...]
    """What it subscribes to."""
    waiting: int
    """Notifications that it has not acknowledged."""
    owed: int
    """Those of them that it was sent."""


class Topics:
    """All topics and clients of the hub."""

    def __init__(self, hub: Hub, clock: Callable[[], float] = time.time):
        self._hub = hub
        self._clock = clock
        self._store = hub.store
        self._times = hub.counts.hub_calls["publish"]
        self._fanout = Fanout(hub)
        self.registry = Registry(hub.store)
        self.delivery = Delivery(hub, self._fanout, self.now_ms)
        self._line = Line(hub, self.delivery, self._fanout)
        self._publisher = Publisher(hub, self.registry, self._line, self.now_ms, self.forget)
        self._subscriber = Subscriber(
            hub, self.registry, self.delivery, self._fanout, self._publisher
        )
        self.sweep = Sweep(hub, self.registry, self.delivery, self._publisher, self.now_ms)
        self._store.appended = self._line.written
        self._store.closing = self._stop

    def now_ms(self) -> int:
        """The wall clock."""
        return int(self._clock() * 1000)

    def load(self) -> None:
        """Reads what the store has, and begins to sweep."""
        last = self._first_number() - 1
        self._publisher.numbers = Numbers(last)
        self.delivery.reached = last
        self.registry.load()
        self.sweep.start()

    def _first_number(self) -> int:
        """One that was never given out: what was not stored left no trace, so this second's are
        left out."""
        last = self._store.last_number()
        first = (self.now_ms() // 1000 - EPOCH_S + 1) * _SECOND
        return first if first > last else last + _CLOCK_BACK

    def _stop(self) -> None:
        self._publisher.closed = True
        self.sweep.stop()
        self._store.mark(self._publisher.numbers.last)
        self.delivery.save()

    # -- clients -----------------------------------------------------------------------------

    def client_of(self, row: ClientRow) -> Client:
        """The client of this row; what was known of a former one with its id is forgotten."""
        return self.registry.client_of(row, self.forget)

    def anonymous(self, connection: Connection) -> Client:
        """A client for one connection, of which nothing is stored."""
        return Client(f"~{connection.id}", 0, Inbox(self.delivery.reached))

    def forget(self, client: Client) -> None:
        """The client was removed: it has no topics, and nothing waits for it."""
        if client.receiver is not None:
            self.delivery.detach(client.receiver)
        self.delivery.forget(client)
        self.registry.forget(client)

    # -- publishing and subscribing ----------------------------------------------------------

    def publish(
        self, publication: Publication, done: Callable[[Published | HubError], None]
    ) -> None:
        """Publishes: `done` is told after it is on disk, or at once when it is not stored."""
        self._publisher.publish(publication, done)

    def publish_to_topic(self, name: str, content: bytes, type: int = 0) -> Published:  # noqa: A002
        """Publishes what is not stored, at once; raises HubError."""
        begun_ns = perf_counter_ns()
        try:
            published = self._publisher.publish_to_topic(name, content, type)
        except HubError:
            self._times.fail(begun_ns)
            raise
        self._times.note(begun_ns)
        return published

    def subscribe(
        self,
        connection: Connection,
        names: Sequence[str],
        ack: bool,
        done: Callable[[int | HubError], None],
    ) -> None:
        """Gives the client these topics, all or none; `done` gets how many it has then.

        Where the protocol has no list to ask for, the connection is attached after `done`.
        """
        self._subscriber.subscribe(connection, names, ack, done)

    def unsubscribe(
        self, connection: Connection, names: Sequence[str], done: Callable[[int | HubError], None]
    ) -> None:
        """Ends these subscriptions; nothing of those topics waits for the client any more."""
        self._subscriber.unsubscribe(connection, names, done)

    # -- the listeners' side ---------------------------------------------------------------------

    def attach(self, connection: Connection) -> None:
        """From now on the client's notifications go to this connection alone."""
        self.delivery.attach(connection)

    def detach(self, connection: Connection) -> None:
        """The connection is over."""
        client = connection.client
        if client is None:
            return
        self.delivery.detach(connection)
        if not client.durable:
            self.forget(client)

    def refile(self, connection: Connection) -> None:
        """The connection's form, or whether it may receive, has changed."""
        self.delivery.refile(connection)

    def fell_behind(self, connection: Connection) -> None:
        """The peer reads too slowly: nothing is pushed until it has caught up."""
        self.delivery.fell_behind(connection)

    def caught_up(self, connection: Connection) -> None:
        """The peer has caught up."""
        self.delivery.caught_up(connection)

    def ack(self, connection: Connection, ids: Sequence[str]) -> int:
        """The client has these; unknown ids are ignored. Gives how many were not."""
        client = connection.client
        return 0 if client is None else self.delivery.ack(client, ids)

    def waiting(self, connection: Connection, give: Callable[[list[Notification]], None]) -> None:
        """Gives what one list can carry: the oldest that is not acknowledged, at most 127."""
        client = connection.client
        give([] if client is None else self.delivery.waiting(client))

    # -- for people --------------------------------------------------------------------------

    async def inbox(self, client_id: str, limit: int) -> list[Notification]:
        """What waits for a client, the oldest first; HubError `not_found`."""
        return self.delivery.look(self._known(client_id), limit)

    def topic_rows(self) -> list[TopicState]:
        """All topics."""
        return [
            TopicState(
                name=each.name,
                subscribers=len(each.subscribers),
                online=each.online,
                held=len(each.held),
                stored=len(each.numbers),
            )
            for each in self.registry.topics.values()
        ]

    def client_rows(self) -> list[ClientState]:
        """All clients that have topics or have come since the start, and who has no id."""
        clients = dict.fromkeys(self.registry.clients.values())
        for connection in self._hub.connections.values():
            if connection.client is not None:
                clients[connection.client] = None
        return [_state(each) for each in clients]

    async def dead(self, limit: int, client: str | None = None) -> list[DeadLetter]:
        """Dead letters, the newest first; HubError `not_found`."""
        number = None if client is None else self._known(client).number
        return [self._letter(row) for row in self._store.dead(limit, number)]

    async def redrive(self, ids: Sequence[str] | None = None, client: str | None = None) -> int:
        """Sends dead letters again: those with these ids, or all of a client, a thousand at most.

        Each gets a new id and goes to its client alone. Gives how many there were, when they are
        on disk.
        """
        number = None if client is None else self._known(client).number
        found = [each for each in map(number_of, ids or ()) if each is not None]
        if client is None and not found:
            raise HubError("bad_arguments", "wanted ids of notifications, or a client")
        rows = self._store.dead(_REDRIVEN, number, found or None)
        if rows:
            await self._again(rows[::-1])
        return len(rows)

    async def _again(self, rows: Sequence[DeadRow]) -> None:
        expires_ms = self.now_ms() + self._hub.limits.ttl_s * 1000
        written = self._hub.loop.create_future()

        def told(result: Published | HubError) -> None:
            if written.cancelled():
                return
            if isinstance(result, HubError):
                written.set_exception(result)
            else:
                written.set_result(None)

        clients = [self._known(row.client) for row in rows]
        again = []
        for row, client in zip(rows, clients, strict=True):
            standing, target = self._publisher.again(row, client, expires_ms)
            each = standing.notification
            log = (each.number, target, each.type, each.ts_ms, expires_ms, each.topic, each.content)
            self._line.add(standing)
            again.append((log, standing))
        again[-1][1].done = told
        self._store.redrive([row.place for row in rows], again)
        await written

    def _known(self, client_id: str) -> Client:
        row = self._store.client(client_id)
        if row is None:
            raise HubError("not_found", "there is no such client")
        return self.client_of(row)

    def _letter(self, row: DeadRow) -> DeadLetter:
        server = self._hub.config.store.server
        notification = Notification(
            row.number,
            id_of(row.number, server=server, private=row.topic is None),
            row.topic,
            row.content,
            row.type,
            row.ts_ms,
            0,
        )
        return DeadLetter(row.client, row.reason, row.dead_ms, notification)


def _state(client: Client) -> ClientState:
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
        owed=client.owed if connection is not None else 0,
    )
