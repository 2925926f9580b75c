"""The store as the hub uses it: operations that are committed together, and reads.

All methods are called on the event loop. A write returns at once; its callback gets the result when
it is on disk. Reads are coroutines. In an embedded database they are bounded and mostly served from
the page cache, so they run on the loop and never suspend, which is faster than a hand-over to a
thread and back. Reads over a network run in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

from ..errors import HubError
from .cluster import Cluster
from .failures import Failures
from .interface import (
    AccountKind,
    Claim,
    ClientRow,
    Database,
    DeadRow,
    Done,
    Entry,
    Lagging,
    LoadedClient,
    Operation,
    Size,
    Source,
    StoreError,
    TopicRow,
    UserRow,
)
from .writer import Writer

__all__ = ["Store"]

Row = TypeVar("Row")


class Store:
    """One database, for one hub."""

    def __init__(
        self,
        writer: Database,
        readers: Sequence[Database],
        loop: asyncio.AbstractEventLoop,
        *,
        blocking_reads: bool,
        released: Callable[[], None] = lambda: None,
        cluster: Cluster | None = None,
    ):
        self.cluster = cluster
        """The other hubs that use the database; None for an embedded one."""
        self.followed: Callable[[list[Entry], int], None] = _ignore_log
        """Called with what other hubs have appended to the log, in its order, and the number up to
        which nothing is missing (0: that of the last entry)."""
        self.finished: Callable[[], None] = _do_nothing
        """Called after the callbacks of a batch."""
        self.closing: Callable[[], None] = _do_nothing
        """Called before the last batch is written."""
        self.failures = Failures()
        """Failed reads and writes."""
        self._loop = loop
        self._released = released
        self._readers = readers
        self._idle: SimpleQueue[Database] = SimpleQueue()
        for each in readers:
            self._idle.put(each)
        self._threads = (
            ThreadPoolExecutor(len(readers), "hub store reads") if blocking_reads else None
        )
        self._closed = False
        self._writer = Writer(
            writer, loop, self._batch_followed, self._batch_finished, self.failures
        )
        if cluster is not None:
            cluster.start(self._writer)

    def _batch_followed(self, entries: list[Entry], number: int) -> None:
        if self.cluster is not None:
            self.cluster.check()
        if entries or number:
            self.followed(entries, number)

    def _batch_finished(self) -> None:
        self.finished()

    async def close(self) -> None:
        """Write what is pending and close."""
        self.closing()
        await self._writer.close()
        self._closed = True
        if self._threads is not None:
            await asyncio.to_thread(self._threads.shutdown)
        for reader in self._readers:
            reader.close()
        if self.cluster is not None:
            self.cluster.close()
            await asyncio.to_thread(self.cluster.stop)
        self._released()

    async def abandon(self) -> None:
        """Close without saving anything: the hub could not be loaded."""
        self.closing = _do_nothing
        await self.close()

    # -- writes ------------------------------------------------------------------------------

    def write(self, operation: Operation[Any], done: Done | None = None) -> None:
        """Execute an operation after those that were requested before; `done` gets its result."""
        batch = self._writer.batch
        batch.operations.append(operation)
        batch.dones.append(done or _ignore)

    async def execute(self, operation: Operation[Any]) -> Any:
        """Execute an operation; return its result when it is on disk, or raise it."""
        written: asyncio.Future[Any] = self._loop.create_future()

        def done(result: Any) -> None:
            if written.cancelled():
                return
            if isinstance(result, HubError):
                written.set_exception(result)
            else:
                written.set_result(result)

        self.write(operation, done)
        return await written

    def shrink(self, done: Callable[[bool], None]) -> None:
        """Give free space back to the file system; `done` gets whether there may be more."""
        self._writer.batch.shrink.append(done)

    async def claim(self, client: int, *, take: bool) -> LoadedClient | None:
        """Make this hub the one that serves a client, and read it (`Claim`)."""
        if self.cluster is None:
            return await self.load_client(client)
        loaded: LoadedClient | None = await self.execute(Claim(client, take))
        return loaded

    # -- reads; HubError `storage_failed` when the database cannot be read --------------------

    async def problem(self) -> str:
        """Return why the store cannot be used; empty if it can."""
        try:
            await self._read(lambda database: database.check())
        except StoreError as error:
            return str(error)
        except HubError:
            pass
        else:
            self.failures.succeeded("read")
        return self.failures.problem

    async def size(self) -> Size:
        """Return how much space the store takes."""
        return await self._read(lambda database: database.size())

    async def last_number(self) -> int:
        """Return the last number that was allocated."""
        return await self._read(lambda database: database.last_number())

    async def last_transient(self) -> int:
        """Return the last number of notifications that are not stored, as it was saved."""
        return await self._read(lambda database: database.last_transient())

    async def client(self, id: str) -> ClientRow | None:  # noqa: A002
        """Return the client with this id."""
        return await self._read(lambda database: database.client(id))

    async def user(self, token: bytes) -> UserRow | None:
        """Return the user with this token or old token, by its hash; it may have expired."""
        return await self._read(lambda database: database.user(token))

    async def accounts(self, kind: AccountKind) -> list[Any]:
        """Return all clients or users by id."""
        return await self._read(lambda database: database.accounts(kind))

    async def claimed(self, clients: Sequence[int]) -> list[int]:
        """Return those of these clients that this hub has claimed."""
        return await self._read(lambda database: database.claimed(clients))

    async def temporary(self) -> list[str]:
        """Return the ids of clients that `Subscribe` has added, and that no hub has any more."""
        return await self._read(lambda database: database.temporary())

    async def marked_clients(self) -> int:
        """Return the number of clients that were added by tokens of issuers."""
        return await self._read(lambda database: database.marked_clients())

    async def clients_with(self, ids: Iterable[str]) -> list[ClientRow]:
        """Return those of these clients that exist."""
        return await self._read(lambda database: database.clients_with(tuple(ids)))

    async def load_client(self, client: int) -> LoadedClient:
        """Return the inbox and the subscriptions of a client."""
        return await self._read(lambda database: database.load_client(client))

    async def client_page(self, offset: int, limit: int) -> tuple[int, list[ClientRow]]:
        """Return the number of clients, with temporary ones, and some of them by number."""
        return await self._read(lambda database: database.client_page(offset, limit))

    async def topic(self, name: str) -> TopicRow | None:
        """Return a topic."""
        return await self._read(lambda database: database.topic(name))

    async def topics(self, after: int, limit: int) -> list[int]:
        """Return topics by number, those with higher numbers than this, ascending."""
        return await self._read(lambda database: database.topics(after, limit))

    async def topic_page(self, offset: int, limit: int) -> tuple[int, list[TopicRow]]:
        """Return the number of topics, and some of them by number."""
        return await self._read(lambda database: database.topic_page(offset, limit))

    async def has_removed_topics(self) -> bool:
        """Return whether there is something to do for `RemoveTopics`."""
        return await self._read(lambda database: database.has_removed_topics())

    async def numbers(self, sources: Sequence[Source], up_to: int, limit: int) -> list[int]:
        """Return the lowest numbers of these sources, up to a number, ascending."""
        return await self._read(lambda database: database.numbers(sources, up_to, limit))

    async def count(self, sources: Sequence[Source], up_to: int) -> int:
        """Return how many notifications these sources have, up to a number."""
        return await self._read(lambda database: database.count(sources, up_to))

    async def entries(self, numbers: Sequence[int]) -> list[Entry]:
        """Return these rows of the log in order, without those that were deleted."""
        return await self._read(lambda database: database.entries(numbers))

    async def targets(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return the targets of these rows of the log, by number."""
        return await self._read(lambda database: database.targets(numbers))

    async def expired(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Return number and target of expired rows, by their expiry."""
        return await self._read(lambda database: database.expired(now_ms, limit))

    async def lagging(self, topic: int, up_to: int, after: int, limit: int) -> Lagging:
        """Return subscribers that may still need a notification up to a number, by client."""
        return await self._read(lambda database: database.lagging(topic, up_to, after, limit))

    async def needed(self, topic: int, after: int, limit: int) -> tuple[int, int | None]:
        """Return the lowest number that some subscribers of a topic may still need, and the last
        client looked at (`Database.needed`)."""
        return await self._read(lambda database: database.needed(topic, after, limit))

    async def due(self, topic: int, limit: int) -> list[int]:
        """Return subscribers whose backlog has to be counted."""
        return await self._read(lambda database: database.due(topic, limit))

    async def checks(self, client: int) -> list[tuple[int, int, int]]:
        """Return when a client's subscriptions are due (`Database.checks`)."""
        return await self._read(lambda database: database.checks(client))

    async def key_counts(self) -> list[tuple[str, int]]:
        """Return the number of keys of each publisher; not bounded, for the start only."""
        return await self._read(lambda database: database.key_counts())

    async def dead(
        self, limit: int, client: int | None = None, numbers: Sequence[int] | None = None
    ) -> list[DeadRow]:
        """Return dead letters, newest first."""
        return await self._read(lambda database: database.dead(limit, client, numbers))

    async def _read(self, read: Callable[[Database], Row]) -> Row:
        if self._closed:  # for work in the background that has not ended yet
            raise HubError("closing")
        try:
            if self._threads is None:
                return read(self._readers[0])
            return await self._loop.run_in_executor(self._threads, self._read_in_thread, read)
        except HubError as error:
            self.failures.failed("read", error.__cause__ or error)
            raise

    def _read_in_thread(self, read: Callable[[Database], Row]) -> Row:
        # As many connections as threads: there is always an idle one.
        reader = self._idle.get()
        try:
            return read(reader)
        finally:
            self._idle.put(reader)


def _ignore(result: Any) -> None:
    """Ignore a result."""


def _ignore_log(entries: list[Entry], number: int) -> None:
    """Ignore what was followed: the callback is not set."""


def _do_nothing() -> None:
    """Do nothing: the callback is not set."""
