"""The connection of a client: dialled, signed on, prepared, and replaced when it is lost.

`Client` (`client.py`) adds the calls. Requests wait for a connection until their deadline; which of
them are sent again on the next connection is decided there.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar

from wirelake.wire.errors import invalid

from .connection import ClientConnection, Notification, Push
from .dial import Backoff, dial
from .errors import AuthFailed, BadCall, ClientError, ConnectionLost, Timeout
from .settings import Settings

__all__ = ["ReconnectingClient"]

_log = logging.getLogger(__name__)
T = TypeVar("T")


class ReconnectingClient(ABC):
    """A client that keeps a connection open."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.connects = 0
        """The number of connections made so far."""
        self._connection: ClientConnection | None = None
        self._last: ClientConnection | None = None
        self._finished: ClientError | None = None
        self._changed = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- provided by the client --------------------------------------------------------------

    @abstractmethod
    async def prepare(self, connection: ClientConnection) -> None:
        """Restore on a new connection what the client needs (subscriptions)."""

    @abstractmethod
    def on_ready(self, connection: ClientConnection) -> None:
        """Called when a connection is ready."""

    @abstractmethod
    def on_finished(self, error: ClientError | None) -> None:
        """Called at the end: with the error, or None when the client was closed."""

    @property
    @abstractmethod
    def full(self) -> bool:
        """Whether more notifications wait than allowed."""

    @abstractmethod
    def notified(self, notification: Notification) -> None:
        """Queue a notification."""

    @abstractmethod
    def pushed(self, push: Push) -> None:
        """Queue a push."""

    # -- the connection ----------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def connected(self) -> bool:
        """Whether there is a connection, signed on and subscribed."""
        return self._connection is not None and self._connection.open

    @property
    def silent(self) -> bool:
        """Whether nothing has arrived from the server on the last connection."""
        return self._last is None or not self._last.first_bytes

    @property
    def busy(self) -> int:
        """The number of pending calls."""
        return self._connection.busy if self._connection is not None else 0

    @property
    def resumed(self) -> bool:
        """Whether the connection resumed the session of the one before (magline)."""
        return bool(getattr(self._connection, "resumed", False))

    async def open(self) -> None:
        """Connect and sign on, without a retry; ClientError when that fails."""
        if self._supervisor is not None:
            raise BadCall("the client is already open")
        connection = await self._connect()
        self._supervisor = asyncio.create_task(self._keep(connection))

    async def close(self) -> None:
        """Close the connection; pending calls fail."""
        # Requests that wait for a connection fail first, then the tasks end, then the connection.
        supervisor = self._supervisor
        self._finish(ConnectionLost("the client is closed"), report=False)
        tasks = [*self._tasks, *([supervisor] if supervisor is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._last is not None:
            await self._last.close()

    async def _connect(self) -> ClientConnection:
        """Make one attempt, until the connection is ready for use."""
        # The last connection is kept also if its sign-on fails: the next one resumes its session,
        # or continues its message ids.
        connection = await dial(self.settings, self, self._last)
        self._last = connection
        try:
            async with asyncio.timeout(self.settings.sign_on_timeout_s):
                await connection.sign_on()
                await self.prepare(connection)
        except TimeoutError as error:
            connection.abort()
            raise ConnectionLost(f"{self.settings.where.place}: sign-on timed out") from error
        except BaseException:
            connection.abort()
            raise
        if not connection.open:
            raise connection.end_error()
        self.connects += 1
        self._connection = connection
        self.on_ready(connection)
        self._changed.set()
        return connection

    async def _keep(self, connection: ClientConnection) -> None:
        """Replace the connection whenever it is lost."""
        backoff = Backoff(self.settings.backoff_s, self.settings.max_backoff_s)
        while True:
            began = connection.loop.time()
            lost = await asyncio.shield(connection.lost)
            self._connection = None
            self._changed.clear()
            if not self.settings.reconnect:
                self._finish(lost)
                return
            backoff.lasted(connection.loop.time() - began)
            found = await self._connect_until(backoff)
            if found is None:
                return
            connection = found

    async def _connect_until(self, backoff: Backoff) -> ClientConnection | None:
        while True:
            resumes = self._last is not None and _resumes(self._last)
            await asyncio.sleep(backoff.next())
            try:
                return await self._connect()
            except (AuthFailed, BadCall) as error:  # it would fail again with every attempt
                self._finish(error)
                return None
            except ClientError as error:
                _log.info("%s: %s", self.settings.where.place, error)
                if resumes and self._last is not None and not _resumes(self._last):
                    backoff.skip_next()  # the server has dropped the session: connect without it

    def _finish(self, error: ClientError, *, report: bool = True) -> None:
        self._finished = self._finished or error
        self._connection = None
        self.on_finished(error if report else None)
        self._changed.set()

    async def _ready(self, deadline: float) -> ClientConnection:
        """Return the connection, or the next one if it is made before the deadline."""
        while True:
            if self._finished is not None:
                raise self._finished
            connection = self._connection
            if connection is not None and connection.open:
                return connection
            if self._supervisor is None:
                raise BadCall("open the client first: async with connect(...) as c")
            try:
                async with asyncio.timeout_at(deadline):
                    # `shield`: the future belongs to the connection, and others wait for it, too.
                    # After it the supervisor needs a turn to replace the connection.
                    if connection is not None:  # it is closing: wait for the end
                        await asyncio.shield(connection.lost)
                        await asyncio.sleep(0)
                    else:
                        await self._changed.wait()
            except TimeoutError:
                place = self.settings.where.place
                raise ConnectionLost(f"{place}: not connected") from None

    def _limit(self, timeout_s: float | None) -> float:
        if timeout_s is None:
            return self.settings.timeout_s
        if not timeout_s > 0:
            raise BadCall(invalid("timeout_s", timeout_s, "more than 0"))
        return timeout_s

    async def _request_once(
        self, timeout_s: float | None, request: Callable[[ClientConnection, float], Awaitable[T]]
    ) -> T:
        """Make one attempt."""
        limit = self._limit(timeout_s)
        deadline = asyncio.get_running_loop().time() + limit
        return await _within(deadline, request(await self._ready(deadline), limit))

    async def _retry(self, request: Callable[[ClientConnection, float], Awaitable[T]]) -> T:
        """Repeat an idempotent request until there is a reply."""
        deadline = asyncio.get_running_loop().time() + self.settings.timeout_s
        while True:
            connection = await self._ready(deadline)
            left = max(deadline - connection.loop.time(), 0.001)
            try:
                return await _within(deadline, request(connection, left))
            except ConnectionLost:
                if not self.settings.reconnect or self._finished is not None:
                    raise

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _within(deadline: float, work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout_at(deadline):
            return await work
    except TimeoutError as error:
        if isinstance(error, Timeout):
            raise
        raise Timeout("no reply in time") from None


def _resumes(connection: ClientConnection) -> bool:
    return getattr(connection.session, "ticket", None) is not None
