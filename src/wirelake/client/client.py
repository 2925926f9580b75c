"""The clients: one interface for all protocols, over a connection that is replaced when lost.

    Client          has every method; those that a protocol lacks raise `Unsupported`
    TopicClient     topics and notifications, which all protocols have
    CallClient      the same, and publish and pushes: for protocols with calls
    InboxClient     the same as TopicClient, and the commands of protocols with an inbox

A protocol's module derives from the last two a class with exactly what the protocol has, for
type checkers: `connect(url, KIND)` returns one.

    async with connect("esnp://127.0.0.1:9600", id="phone-1", token=token) as c:
        result = await c.call("test/add", {"a": 1, "b": 2})
        await c.subscribe("@news")
        async for n in c.notifications():
            await c.ack(n)

When the connection is lost:

- a pending call fails with `ConnectionLost`; it is never sent again, unless it is `idempotent`;
- idempotent requests are sent again on the next connection: subscribe, unsubscribe, ack, publish
  with an `id`, and calls with `idempotent=True`;
- new requests wait for the next connection, as long as their timeout allows, and so do those that
  waited because too many were pending;
- subscriptions are restored, a magline session is resumed, tny continues its message ids.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from typing import Any, ClassVar, Self, TypeVar, overload

from wirelake.protocols import registry
from wirelake.wire.errors import invalid

from .addresses import Backoff
from .connection import ClientConnection, Notification, Published, Push, Result
from .dial import connection_class
from .errors import BadCall, Busy, CallFailed, ClientError, ConnectionLost, Timeout, Unsupported
from .inbox import Inbox
from .reconnect import ReconnectingClient
from .settings import Settings, make_settings

__all__ = [
    "CallClient",
    "Client",
    "InboxClient",
    "RpcPool",
    "TopicClient",
    "connect",
]


_log = logging.getLogger(__name__)
C = TypeVar("C", bound="TopicClient")


@overload
def connect(url: str, kind: type[C], /, **options: Any) -> C: ...
@overload
def connect(url: str, **options: Any) -> Client: ...
# The first form takes `kind` by position: otherwise options in a dict might contain it, and type
# checkers would not know what is returned.
def connect(  # type: ignore[misc]
    url: str, kind: type[TopicClient] | None = None, **options: Any
) -> TopicClient:
    """Return a `Client` for a URL such as `esnp://host:port`; `esnps://` is inside TLS.

    Any protocol whose binding names a client connection can be dialled. Several servers are
    separated by commas, as in `comet://a,b:9621,c`: the client connects to one of them, and to
    another one when that is lost.

    Use it with `async with`. The options are the fields of `Settings`: `id` and `token`, `tls`,
    `reconnect`, `timeout_s`, the keys of magline and comet, and more.

    With a class of a protocol's module as `kind`, such as `wirelake.client.esnp.EsnpClient`, the
    client is one of that class, and type checkers know what it can do.
    """
    settings = make_settings(url, **options)
    chosen = Client if kind is None else kind
    if not (isinstance(chosen, type) and issubclass(chosen, TopicClient)):
        raise BadCall(invalid("kind", kind, "a class of clients, such as Client"))
    expected = chosen.protocol
    if expected is not None and settings.where.protocol != expected:
        raise BadCall(f"{url}: expected {expected}:// or {expected}s:// for {chosen.__name__}")
    return chosen(settings)


class TopicClient(ReconnectingClient):
    """Topics and notifications of a server; it reconnects automatically."""

    protocol: ClassVar[str | None] = None
    """The protocol that URLs must have; None for any."""

    def __init__(self, settings: Settings):
        super().__init__(settings)
        self._topics: dict[str, bool] = {}
        self._inbox = Inbox(settings.max_waiting, self._fetch_soon, self._ack_soon)
        # Not bounded: the connection stops reading when `full` (`ClientConnection.data_received`).
        self._pushes: asyncio.Queue[Push | ClientError | None] = asyncio.Queue()
        self._pushes_wanted = False

    async def ping(self, *, timeout_s: float | None = None) -> float:
        """Send a heartbeat; return the time until its reply, in seconds."""
        return await self._request_once(timeout_s, lambda connection, _: connection.ping())

    # -- topics ------------------------------------------------------------------------------

    async def subscribe(self, *topics: str, ack: bool = True) -> None:
        """Subscribe to topics, now and after every reconnect.

        With `ack` a notification is sent again until it is acknowledged; without, it counts as
        delivered when the server has written it. comet always acknowledges.
        """
        _check_names(topics)
        # Remembered before the request: a reconnect while it is pending subscribes, too. Only a
        # refusal undoes it; after a lost connection or a timeout the next one tries again.
        before = dict(self._topics)
        self._topics.update(dict.fromkeys(topics, ack))
        try:
            await self._retry(lambda connection, left: connection.subscribe(topics, ack, left))
        except (CallFailed, BadCall):
            self._topics = before
            raise

    async def unsubscribe(self, *topics: str) -> None:
        """End subscriptions."""
        _check_names(topics)
        for topic in topics:
            self._topics.pop(topic, None)
        await self._retry(lambda connection, left: connection.unsubscribe(topics, left))

    # -- notifications -----------------------------------------------------------------------

    async def notifications(self) -> AsyncIterator[Notification]:
        """Yield notifications as they arrive, each once, while the client is open.

        The backlog at the server comes first, also after a reconnect.
        """
        while (notification := await self._inbox.take()) is not None:
            # There is room again: a paused socket is read from now on.
            if self._connection is not None and not self._inbox.full:
                self._connection.resume_reading()
            yield notification

    async def ack(self, *notifications: Notification | str) -> None:
        """Acknowledge notifications: the server does not send them again."""
        ids = [each.id if isinstance(each, Notification) else each for each in notifications]
        _check_names(ids)
        # Noted before the request: if the connection is lost, the server sends the notification
        # again, and it must not reach the application a second time.
        self._inbox.acking(ids)
        await self._retry(lambda connection, left: connection.ack(ids, left))
        self._inbox.acked(ids)

    # -- called by the connection ------------------------------------------------------------

    async def prepare(self, connection: ClientConnection) -> None:
        """Subscribe again on a new connection."""
        try:
            await self._subscribe_again(connection)
        except Busy:
            if self._addresses.more:  # another server may have room
                raise
            # The client stays connected, because calls still work.
            self._spawn(self._subscribe_later(connection))

    async def _subscribe_again(self, connection: ClientConnection) -> None:
        for ack in (True, False):
            topics = [topic for topic, acked in self._topics.items() if acked is ack]
            if not topics:
                continue
            try:
                await connection.subscribe(topics, ack, self.settings.timeout_s)
            except Busy:
                raise
            except CallFailed as error:  # it would be refused again; calls still work
                _log.warning("cannot subscribe to %s again: %s", ", ".join(topics), error)

    def on_dialled(self, connection: ClientConnection) -> None:
        """Keep what is pushed until waiting notifications are fetched, where they are."""
        self._inbox.dialled(connection.fetches)

    def on_ready(self, connection: ClientConnection) -> None:  # noqa: ARG002
        """Fetch waiting notifications, where the protocol has a list of them."""
        self._inbox.connected()

    def on_finished(self, error: ClientError | None) -> None:
        """End the loops over notifications and pushes."""
        self._inbox.end(error)
        self._pushes.put_nowait(error)

    @property
    def full(self) -> bool:
        """Whether more notifications or pushes wait than allowed."""
        return self._inbox.full or self._pushes.qsize() >= self.settings.max_waiting

    def notified(self, notification: Notification) -> None:
        """Queue a notification."""
        self._inbox.pushed(notification)

    def pushed(self, push: Push) -> None:
        """Queue a push, if the application reads them."""
        if self._pushes_wanted:
            self._pushes.put_nowait(push)

    # -- background tasks --------------------------------------------------------------------

    async def _subscribe_later(self, connection: ClientConnection) -> None:
        """Subscribe again when the server is no longer busy."""
        backoff = Backoff(self.settings.backoff_s, self.settings.max_backoff_s)
        while connection.open:
            await asyncio.sleep(backoff.next())
            try:
                await self._subscribe_again(connection)
            except (Busy, Timeout) as error:
                _log.info("cannot subscribe again yet: %s", error)
            except ClientError:  # it was lost: the next one subscribes
                return
            else:
                return

    def _fetch_soon(self) -> None:
        self._spawn(self._fetch_page())

    async def _fetch_page(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            page = await connection.fetch()
        except ConnectionLost:
            return  # the next connection fetches again
        except ClientError as error:
            self._inbox.failed(error)
            return
        if connection is self._connection:
            self._inbox.fetched(page)

    def _ack_soon(self, number: str) -> None:
        self._spawn(self._ack_quietly(number))

    async def _ack_quietly(self, number: str) -> None:
        try:
            await self.ack(number)
        except ClientError as error:
            _log.info("cannot acknowledge %s yet: %s", number, error)


def _check_names(given: Iterable[str]) -> None:
    names = list(given)
    if not names or not all(isinstance(each, str) and each for each in names):
        raise BadCall("expected at least one name, and no empty name")


class CallClient(TopicClient):
    """A client of a protocol with calls: it can also publish, and receive pushes."""

    async def _call(
        self,
        target: Any,
        arguments: Any,
        timeout_s: float | None,
        idempotent: bool,
        options: dict[str, Any],
    ) -> Result:
        limit = self._call_limit(target, timeout_s)
        if idempotent:
            return await self._retry(
                lambda connection, left: connection.start_call(target, arguments, left, options),
                limit,
            )
        # Without `_request_once`: a call on an open connection needs no coroutine and no timeout of
        # its own, because the session has a deadline per request.
        connection = self._connection
        if connection is None or not self._queue.admits:
            deadline = asyncio.get_running_loop().time() + limit
            connection = await self._turn(deadline)
            limit = max(deadline - connection.loop.time(), 0.001)
        return await connection.start_call(target, arguments, limit, options)

    def _call_limit(self, target: Any, timeout_s: float | None) -> float:
        # Only a query can name a timeout: targets without one are not parsed here.
        if timeout_s is None and isinstance(target, str) and "?" in target:
            timeout_s = connection_class(self.settings.where.protocol).target_timeout_s(target)
        return self._limit(timeout_s)

    async def _announce(self, target: Any, arguments: Any, options: dict[str, Any]) -> None:
        # It has no reply, so it is not limited by those that are pending.
        deadline = asyncio.get_running_loop().time() + self._limit(None)
        (await self._ready(deadline)).announce(target, arguments, options)

    async def _stream(
        self, target: str, arguments: Any, timeout_s: float | None, options: dict[str, Any]
    ) -> AsyncIterator[Result]:
        deadline = asyncio.get_running_loop().time() + self._call_limit(target, timeout_s)
        connection = await self._turn(deadline)
        left = max(deadline - connection.loop.time(), 0.001)
        async for part in connection.stream(target, arguments, left, options):
            yield part

    async def publish(
        self,
        content: str | bytes,
        *,
        topic: str | None = None,
        client: str | None = None,
        type: int = 0,  # noqa: A002
        id: str | None = None,  # noqa: A002
        ttl_s: float | None = None,
    ) -> Published:
        """Publish to a topic or to one client; it is on disk when this returns.

        `id` is an idempotency key: the same again is not delivered twice, so a publish that has
        one is sent again when the connection is lost. With `ttl_s` 0 it reaches clients that are
        online and is not stored.
        """
        if (topic is None) == (client is None):
            raise BadCall("expected either topic= or client=")
        data = content.encode() if isinstance(content, str) else bytes(content)
        given = {"topic": topic, "client": client, "content": data, "id": id, "ttl_s": ttl_s}
        arguments = {name: value for name, value in given.items() if value is not None}
        if type:
            arguments["type"] = type
        # Without a key a repeated publish could deliver twice, so it is sent once.
        if id is not None:
            return await self._retry(lambda connection, left: connection.publish(arguments, left))
        return await self._request_once(
            None, lambda connection, limit: connection.publish(arguments, limit)
        )

    async def pushes(self) -> AsyncIterator[Push]:
        """Yield what the server sends on its own, other than notifications of a hub: pushes of tny
        and magline, events of ESNP.

        They are kept from the first iteration on, and dropped before; `max_waiting` bounds them.
        """
        self._pushes_wanted = True
        while isinstance(push := await self._pushes.get(), Push):
            if self._connection is not None and not self.full:
                self._connection.resume_reading()
            yield push
        self._pushes.put_nowait(push)  # the end, for other and later iterations
        if push is not None:
            raise push


class InboxClient(TopicClient):
    """A client of a protocol with an inbox and commands of its own."""

    async def topics(self) -> list[str]:
        """Return the topics that the server has for this client (comet only)."""
        return await self._request_once(None, lambda connection, _: connection.topics())

    async def report(self, **facts: Any) -> None:
        """Report what the client runs on (comet only).

        `network` is wifi, g2, g3 or g4, `isp` is none, china_mobile, unicom or telecom, `phone` the
        model; other facts are sent as text. A hub shows them in its list of connections.
        """
        await self._request_once(None, lambda connection, _: connection.report(facts))

    async def fetch(self) -> list[Notification]:
        """Return unacknowledged notifications, oldest first (comet only)."""
        return await self._request_once(None, lambda connection, _: connection.fetch())


class Client(CallClient, InboxClient):
    """A client of any protocol; it reconnects automatically.

    What the protocol does not have raises `Unsupported`.
    """

    async def call(
        self,
        target: str | int,
        arguments: Any = None,
        *,
        timeout_s: float | None = None,
        idempotent: bool = False,
        trace: bool = False,
        **options: Any,
    ) -> Result:
        """Call a service and return its result.

        ESNP: `target` is `service/op` or an `esnp://` URL, whose `to` is the timeout in
        milliseconds unless `timeout_s` is given; a dict becomes DATA rows, bytes a PAYLOAD row, a
        pair of dict and bytes both, a list of these a request in parts; `trace` collects reports of
        the servers it passes. tny and magline: a number; a dict becomes JSON, bytes are the body as
        they are. Other options are fields of the protocol: `start_call` of its connection lists
        them (`wirelake.client.esnp`, `wirelake.client.tny`).

        An `idempotent` call has the same effect once and twice: it is sent again when the
        connection is lost before the reply, until the timeout.
        """
        if trace:
            options["trace"] = True
        return await self._call(target, arguments, timeout_s, idempotent, options)

    async def info(
        self,
        target: str,
        arguments: Any = None,
        *,
        timeout_s: float | None = None,
        idempotent: bool = False,
        **options: Any,
    ) -> Result:
        """Call a service as an INFO (ESNP only); options as in `call`."""
        given = {"info": True, **options}
        return await self._call(target, arguments, timeout_s, idempotent, given)

    async def announce(self, target: str | int, arguments: Any = None, **options: Any) -> None:
        """Send an event, which has no reply (ESNP, and tny as a push); options as in `call`."""
        await self._announce(target, arguments, options)

    def stream(
        self, target: str, arguments: Any = None, *, timeout_s: float | None = None, **options: Any
    ) -> AsyncIterator[Result]:
        """Call a service that replies in parts, and yield each part (ESNP only).

        `timeout_s` is for the whole reply; options as in `call`. It is not repeated when the
        connection is lost.
        """
        return self._stream(target, arguments, timeout_s, options)


class RpcPool:
    """Calls over several connections to the servers of a URL.

    Each call uses the connection with the fewest pending calls. A lost connection is replaced while
    the others go on.
    """

    def __init__(self, url: str, *, size: int = 4, **options: Any):
        settings = make_settings(url, **options)
        protocol = settings.where.protocol
        if registry.binding(protocol).addressing == "none":
            raise Unsupported(f"{protocol} has no calls")
        if size < 1:
            raise BadCall(invalid("size", size, "1 or more"))
        self._clients = [Client(settings) for _ in range(size)]
        self._turn = 0

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def connected(self) -> int:
        """The number of open connections."""
        return sum(client.connected for client in self._clients)

    async def open(self) -> None:
        """Connect; ClientError when a connection cannot be made, and all are closed."""
        found = await asyncio.gather(*(c.open() for c in self._clients), return_exceptions=True)
        for error in found:
            if isinstance(error, BaseException):
                await self.close()
                raise error

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(client.close() for client in self._clients))

    async def call(
        self,
        target: str | int,
        arguments: Any = None,
        *,
        timeout_s: float | None = None,
        **options: Any,
    ) -> Result:
        """Call a service: see `Client.call`."""
        return await self._pick().call(target, arguments, timeout_s=timeout_s, **options)

    def _pick(self) -> Client:
        """Return the least busy connected client; equally busy ones take turns."""
        # `min` returns the first of equals, so the list is rotated with each call.
        self._turn += 1
        turned = self._clients[self._turn % len(self._clients) :]
        order = turned + self._clients[: len(self._clients) - len(turned)]
        return min(order, key=lambda client: (not client.connected, client.busy))
