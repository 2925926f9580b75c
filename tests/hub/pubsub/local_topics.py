"""Topics on a real store, without listeners: connections here keep what they are given.

async with local_topics(tmp_path, clients=["ann"]) as it:
    ann = it.sign_on("ann")
    await it.subscribe(ann, "@news")
    await it.publish("@news", b"hello")
    ann.contents
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.hub import stores

from wirelake.hub.auth import Authority
from wirelake.hub.config import ActiveLimits, Limits, StoreSettings
from wirelake.hub.errors import HubError
from wirelake.hub.net.outbox import Outbox
from wirelake.hub.observe.counters import Counters
from wirelake.hub.observe.tap import Tap
from wirelake.hub.pubsub.notifications import Notification, Publication, Published
from wirelake.hub.pubsub.subscriptions import Client
from wirelake.hub.pubsub.topics import Topics
from wirelake.hub.store import add_client, list_clients, open_store
from wirelake.hub.store.interface import RemoveTopics

DEADLINE_S = 20.0


class Lines:
    """A form: the id and the content, one notification in a line."""

    name = "lines"

    def __init__(self) -> None:
        self.encoded = 0

    def encode(self, notification: Notification) -> bytes:
        self.encoded += 1
        return notification.id.encode() + b" " + notification.content + b"\n"


class Receiver:
    """A connection that keeps what it is given."""

    def __init__(
        self, place: LocalTopics, client: Client | None, *, protocol: str, form: Lines | None
    ) -> None:
        place.ids += 1
        self.id = place.ids
        self.hub = place
        self.client = client
        self.credential = b""
        self.credential_expires_ms = 0
        self.protocol = protocol
        self.acks_all = protocol == "comet"
        self.form: Any = form
        self.may_receive = True
        self.open = True
        self.paused_since = 0.0
        self.peer = ("192.0.2.1", 1000)
        self.charged_to = self.peer[0]
        self.ended = ""
        self.writes = 0
        self.got: list[tuple[str, bytes]] = []
        self._out: list[bytes] = []

    def write(self, data: bytes) -> None:
        self._out.append(data)
        self.hub.outbox.add(self)

    def write_now(self, data: bytes) -> None:
        self.write(data)

    def flush(self) -> None:
        data, self._out = b"".join(self._out), []
        self.writes += bool(data)
        for line in data.splitlines():
            number, content = line.split(b" ", 1)
            self.got.append((number.decode(), content))

    def deliver(self, notifications: Sequence[Notification]) -> None:
        self.got.extend((each.id, each.content) for each in notifications)

    def end(self, reason: str) -> None:
        self.ended = reason
        self.open = False

    def drop(self, reason: str) -> None:
        self.end(reason)

    @property
    def contents(self) -> list[bytes]:
        return [content for _, content in self.got]

    @property
    def ids(self) -> list[str]:
        return [number for number, _ in self.got]


class LocalTopics:
    """What topics need of a hub, and calls that wait."""

    def __init__(self, folder: Path, limits: Limits, settings: StoreSettings | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.folder = folder
        self.limits = ActiveLimits(limits)
        self.counters = Counters()
        self.outbox = Outbox(self.loop)
        self.connections: dict[int, Any] = {}
        self.tap = Tap(self.loop, self.connections)
        self.ids = 0
        self.now = 1_800_000_000.0
        self.lines = Lines()
        self.store = open_store(settings or _settings(folder), folder, self.loop)
        self.gate: asyncio.Event | None = None
        """Until it is set, nobody gets what is read from the store: as with a slow network."""
        self.reads = 0
        """Reads of the store that have not ended."""
        self._count_reads()
        self.topics = Topics(
            self.store,
            self.loop,
            self.limits,
            self.counters,
            self.tap,
            self.connections,
            self.outbox.before_flush,
            clock=lambda: self.now,
        )
        self.authority = Authority(
            self.store,
            self.topics,
            self.counters,
            self.connections,
            lambda: self.loop.time(),  # noqa: PLW0108 - tests replace it
            self.signed_on,
        )

    def _count_reads(self) -> None:
        read = self.store._read

        async def counted(*args: Any) -> Any:
            self.reads += 1
            try:
                result = await read(*args)
                if self.gate is not None:
                    await self.gate.wait()
                return result
            finally:
                self.reads -= 1

        self.store._read = counted  # type: ignore[method-assign]

    def signed_on(self, connection: Any, client: Client) -> None:
        connection.client = client

    # -- connections -------------------------------------------------------------------------

    def ear(self, client: Client | None, protocol: str = "comet", *, own: bool = False) -> Receiver:
        ear = Receiver(self, client, protocol=protocol, form=None if own else self.lines)
        self.connections[ear.id] = ear
        return ear

    async def load(self) -> None:
        await self.topics.load()
        self.topics.sweep.stop()  # tests sweep when they mean to

    async def sign_on(
        self, name: str, protocol: str = "comet", *, own: bool = False, attached: bool = True
    ) -> Receiver:
        """A connection of a client; comet's is attached at once, as its listener does."""
        row = await self.store.client(name)
        assert row is not None
        client = self.topics.client_of(row)
        await self.topics.claim(client)
        self.topics.enter(client)
        ear = self.ear(client, protocol, own=own)
        ear.credential = row.token
        if ear.acks_all and attached:
            self.topics.attach(ear)  # type: ignore[arg-type]
        return ear

    def nobody(self, protocol: str = "esnp", *, own: bool = False) -> Receiver:
        ear = self.ear(None, protocol, own=own)
        self.authority.anonymous(ear)  # type: ignore[arg-type]
        return ear

    def leave(self, ear: Receiver) -> None:
        ear.open = False
        del self.connections[ear.id]
        self.topics.detach(ear)  # type: ignore[arg-type]

    # -- calls that wait ---------------------------------------------------------------------

    async def subscribe(self, ear: Any, *names: str, ack: bool = True) -> int:
        done = self.loop.create_future()
        self.topics.subscribe(ear, names, ack, done.set_result)
        count = await _answer(done)
        if stores.is_postgres():
            await self.settled()  # the first page is read, not waited for
        return int(count)

    async def unsubscribe(self, ear: Any, *names: str) -> int:
        done = self.loop.create_future()
        self.topics.unsubscribe(ear, names, done.set_result)
        return await _answer(done)

    async def publish(self, topic: str | None, content: bytes = b"hello", **more: Any) -> Published:
        done = self.loop.create_future()
        client = more.pop("client", None)
        self.topics.publish(Publication(topic, client, content, **more), done.set_result)
        published: Published = await _answer(done)
        await self.settled()
        return published

    async def settled(self) -> None:
        """Lets pages be read, pushed and written."""
        turns = 0
        async with asyncio.timeout(DEADLINE_S):
            while turns < 5:
                turns = 0 if self.reads else turns + 1
                await asyncio.sleep(0.0005 if self.reads else 0)

    async def written(self) -> None:
        """Waits until everything that was asked of the store is on disk."""
        self.topics.delivery.save()
        done = self.loop.create_future()
        self.store.write(RemoveTopics(0), done.set_result)
        await asyncio.wait_for(done, DEADLINE_S)
        async with asyncio.timeout(DEADLINE_S):
            while self.topics.quota.running:
                await asyncio.sleep(0)
        await self.settled()

    async def waiting(self, ear: Any) -> list[Notification]:
        return await self.topics.waiting(ear)

    async def sweep(self, steps: int = 3) -> None:
        await self.written()  # with several hubs, the sweep goes by the inboxes on disk
        for _ in range(steps):
            await self.topics.sweep.step()
            await self.written()

    @contextmanager
    def full_disk(self, *kinds: type) -> Iterator[None]:
        """Meanwhile no transaction with an operation of these kinds can be written; without kinds,
        none at all."""
        database = self.store._writer._database
        write = database.write

        def fail(operations: Sequence[Any]) -> list[Any]:
            if not kinds or any(isinstance(each, kinds) for each in operations):
                raise HubError("storage_full", "the disk is full")
            return write(operations)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database, "write", fail)
            yield

    def index(self) -> list[tuple[int, int]]:
        """Target and number of every row of the log."""
        return self.select("SELECT target, number FROM log")

    def stored_topics(self) -> list[tuple[int, str]]:
        return self.select("SELECT number, name FROM topics")

    def select(self, statement: str) -> list[Any]:
        return stores.select(self.folder, statement)

    async def backlog(self, name: str) -> list[int]:
        """The numbers of what a client has not acknowledged."""
        row = await self.store.client(name)
        assert row is not None
        client = self.topics.client_of(row)
        await self.topics.claim(client)
        self.topics.enter(client)
        try:
            numbers = await self.topics.delivery.next_numbers(client, 0, 1 << 30, holes=True)
            assert await self.topics.delivery.count(client) == len(numbers)
            return numbers
        finally:
            client.connections -= 1
            self.topics.release(client)

    def copy(self, to: Path) -> Path:
        """The database as a kill would leave it at this moment."""
        return stores.copied(self.folder, to)


def _settings(folder: Path) -> StoreSettings:
    if stores.is_postgres():
        return StoreSettings(path=stores.database_of(folder))
    return StoreSettings(synchronous="normal")


async def _answer(done: asyncio.Future[Any]) -> Any:
    result = await asyncio.wait_for(done, DEADLINE_S)
    if isinstance(result, HubError):
        raise result
    return result


@asynccontextmanager
async def local_topics(
    folder: Path, clients: Iterable[str] = (), **limits: Any
) -> AsyncIterator[LocalTopics]:
    """Topics on the store in this folder; clients that are not there yet are added."""
    path = stores.database_of(folder)
    there = {row.id for row in list_clients(path)}
    for name in clients:
        if name not in there:
            add_client(path, name)
    it = LocalTopics(folder, msgspec.convert(limits, Limits))
    await it.load()
    try:
        yield it
    finally:
        if not it.store._closed:
            await it.store.close()
        await it.topics.stop()
