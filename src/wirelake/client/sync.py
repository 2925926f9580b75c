"""The client without asyncio, for scripts and notebooks.

    from wirelake.client.sync import connect

    with connect("esnp://127.0.0.1:9600", id="phone-1", token=token) as c:
        print(c.call("test/add", {"a": 1, "b": 2}).data["c"])
        c.subscribe("@news")
        for n in c.notifications():
            c.ack(n)

`SyncClient` has the methods of `wirelake.client.Client`, which runs in an event loop of its own
thread: heartbeats, reconnects and arriving notifications need no help of the script. It also works
where an event loop runs already, as in notebooks. Ctrl-C interrupts whatever waits. Several threads
may use one client at the same time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Generic, Self, TypeVar

from .client import Client
from .connection import Notification, Published, Push, Result
from .errors import BadCall, ConnectionLost
from .settings import Settings, Where, make_settings

__all__ = ["SyncClient", "connect"]

T = TypeVar("T")
_END_S: Final = 1.0
"""How long requests of other threads may take to end when the client is closed: they have failed
already, so this is a turn of the loop."""


def connect(url: str, **options: Any) -> SyncClient:
    """Return a client for a URL; see `wirelake.client.connect`. Use it with `with`."""
    return SyncClient(make_settings(url, **options))


class SyncClient:
    """A client of any protocol whose methods return when they are done."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: Client | None = None

    # -- the connection ----------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def open(self) -> None:
        """Connect and sign on, with one attempt at each address; ClientError when all fail."""
        if self._loop is not None:
            raise BadCall("the client is already open")
        self._loop = asyncio.new_event_loop()
        # A daemon: a script that ends without `close` must not wait for ever.
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="wirelake-client", daemon=True
        )
        self._thread.start()
        try:
            self._run(self._open)
        except BaseException:
            self.close()
            raise

    async def _open(self) -> None:
        self._client = Client(self.settings)
        await self._client.open()

    def close(self) -> None:
        """Close the connection; pending calls of other threads fail."""
        if self._loop is None or self._thread is None:
            return
        try:
            self._run(self._close)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = self._client = None

    async def _close(self) -> None:
        if self._client is not None:
            await self._client.close()
        # What other threads wait for ends before the loop does, or they would wait for ever.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(others, timeout=_END_S) if others else None
        await asyncio.get_running_loop().shutdown_asyncgens()  # iterators not read to their end

    @property
    def connected(self) -> bool:
        """Whether there is a connection, signed on and subscribed."""
        return self._client is not None and self._client.connected

    @property
    def connects(self) -> int:
        """The number of connections made so far."""
        return self._client.connects if self._client is not None else 0

    @property
    def address(self) -> Where:
        """The server that the client is connected to, or was the last time."""
        return self._opened.address

    # -- calls -------------------------------------------------------------------------------

    def call(
        self,
        target: str | int,
        arguments: Any = None,
        *,
        timeout_s: float | None = None,
        idempotent: bool = False,
        trace: bool = False,
        **options: Any,
    ) -> Result:
        """Call a service and return its result; see `Client.call`."""
        return self._run(
            partial(
                self._opened.call,
                target,
                arguments,
                timeout_s=timeout_s,
                idempotent=idempotent,
                trace=trace,
                **options,
            )
        )

    def info(
        self,
        target: str,
        arguments: Any = None,
        *,
        timeout_s: float | None = None,
        idempotent: bool = False,
        **options: Any,
    ) -> Result:
        """Call a service as an INFO (ESNP only)."""
        given = {"timeout_s": timeout_s, "idempotent": idempotent, **options}
        return self._run(partial(self._opened.info, target, arguments, **given))

    def announce(self, target: str | int, arguments: Any = None, **options: Any) -> None:
        """Send an event, which has no reply (ESNP, and tny as a push)."""
        self._run(partial(self._opened.announce, target, arguments, **options))

    def stream(
        self, target: str, arguments: Any = None, *, timeout_s: float | None = None, **options: Any
    ) -> Iterator[Result]:
        """Call a service that replies in parts, and yield each part (ESNP only)."""
        return self._each(self._opened.stream(target, arguments, timeout_s=timeout_s, **options))

    def ping(self, *, timeout_s: float | None = None) -> float:
        """Send a heartbeat; return the time until its reply, in seconds."""
        return self._run(partial(self._opened.ping, timeout_s=timeout_s))

    # -- topics and notifications ------------------------------------------------------------

    def subscribe(self, *topics: str, ack: bool = True) -> None:
        """Subscribe to topics, now and after every reconnect; see `Client.subscribe`."""
        self._run(partial(self._opened.subscribe, *topics, ack=ack))

    def unsubscribe(self, *topics: str) -> None:
        """End subscriptions."""
        self._run(partial(self._opened.unsubscribe, *topics))

    def publish(
        self,
        content: str | bytes,
        *,
        topic: str | None = None,
        client: str | None = None,
        type: int = 0,  # noqa: A002
        id: str | None = None,  # noqa: A002
        ttl_s: float | None = None,
    ) -> Published:
        """Publish to a topic or to one client; see `Client.publish`."""
        return self._run(
            partial(
                self._opened.publish,
                content,
                topic=topic,
                client=client,
                type=type,
                id=id,
                ttl_s=ttl_s,
            )
        )

    def notifications(self) -> Iterator[Notification]:
        """Yield notifications as they arrive, each once, while the client is open."""
        return self._each(self._opened.notifications())

    def ack(self, *notifications: Notification | str) -> None:
        """Acknowledge notifications: the server does not send them again."""
        self._run(partial(self._opened.ack, *notifications))

    def topics(self) -> list[str]:
        """Return the topics that the server has for this client (comet only)."""
        return self._run(self._opened.topics)

    def report(self, **facts: Any) -> None:
        """Report what the client runs on (comet only); see `Client.report`."""
        self._run(partial(self._opened.report, **facts))

    def pushes(self) -> Iterator[Push]:
        """Yield what the server sends on its own, other than notifications of a hub."""
        return self._each(self._opened.pushes())

    def fetch(self) -> list[Notification]:
        """Return unacknowledged notifications, oldest first (comet only)."""
        return self._run(self._opened.fetch)

    # -- the background loop -----------------------------------------------------------------

    @property
    def _opened(self) -> Client:
        if self._client is None:
            raise BadCall("open the client first: with connect(...) as c")
        return self._client

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function in the loop, and wait for its result."""
        loop = self._loop
        if loop is None:  # another thread has closed the client
            raise ConnectionLost("the client is closed")
        running = _Running(loop, work)
        try:
            loop.call_soon_threadsafe(running.start)
            return running.result.result()
        except BaseException:
            if not running.result.done():  # Ctrl-C: what is interrupted here must not go on there
                loop.call_soon_threadsafe(running.cancel)
            raise

    def _each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items of an asynchronous iterator."""
        while self._loop is not None:
            try:
                item = self._run(partial(_next, items))
            except StopAsyncIteration:
                return
            yield item


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


class _Running(Generic[T]):
    """Work of the loop that another thread waits for."""

    # Not `asyncio.run_coroutine_threadsafe`: it is given a coroutine, which an interrupt before the
    # call would leave behind, never awaited. Here the loop makes it.

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, T]]):
        self.result: Future[T] = Future()
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        """Start it; called in the loop."""
        self._task = self._loop.create_task(self._work())
        self._task.add_done_callback(self._done)

    def cancel(self) -> None:
        """Cancel it, if it was started; called in the loop."""
        if self._task is not None:
            self._task.cancel()

    def _done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.result.set_exception(ConnectionLost("the client is closed"))
        elif (error := task.exception()) is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())
