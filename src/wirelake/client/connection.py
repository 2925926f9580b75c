"""The base classes of a client's connections, and the values that calls return.

    ClientConnection     a session driven over a transport, and the replies it waits for
    NumberedConnection   the same for protocols with service numbers and JSON bodies
    Result, Notification, Published


Subclass `ClientConnection` to dial another protocol, and name the subclass in the protocol's
binding. A subclass provides:

    protocol          the protocol's name
    make_session      the client's session (`wirelake.protocols.sansio.Session`)
    sign_on           handshake and sign-on; raises AuthFailed or Refused
    on_event          what an event of the session means: `answer` or `fail` the waiting call, or
                      `owner.notified(Notification(...))` or `owner.pushed(Push(...))`
    ping              send what the protocol has to stay alive, and wait for its reply
    awaiting_reply    whether a reply of the server is pending

and, as far as the protocol has them:

    start_call        send a call, return `wait_for(key)`; `CALL_OPTIONS` names its options
    request_limit     how many requests the session accepts at a time, if it is limited
    hub_call          call the hub itself (`wirelake.protocols.hub_calls`); subscribe, unsubscribe,
                      publish and ack use it. `NumberedConnection` has it for services by number
    announce, stream, fetch, topics, report, begin, close_session

To send, a subclass calls `begin_send()`, which returns the session; a SessionError of it is raised
again as `refused(error)`. A refusal of the server fails a call with `call_failed(code, text)`. What
the base class does:

- Everything sent in one turn of the loop leaves in one write.
- The session's timers run; its replies go to the futures that wait for them.
- When more notifications wait than allowed and no reply is awaited, the socket is not read. Sending
  something, or a timer, resumes reading, so that heartbeats are answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol, cast

import msgspec

from wirelake.protocols import registry
from wirelake.protocols.hub_calls import (
    ACK,
    AUTH,
    BUSY_CODES,
    CALLS,
    PUBLISH,
    SUBSCRIBE,
    UNSUBSCRIBE,
    content_fields,
    content_of,
)
from wirelake.protocols.sansio import Closed, Event, Failed, Session, SessionError
from wirelake.wire.errors import invalid, unknown

from .errors import (
    AuthFailed,
    BadCall,
    BadOption,
    Busy,
    CallFailed,
    ClientError,
    ConnectionLost,
    NotConnected,
    Timeout,
    Unsupported,
    WrongServer,
    foreign_reply,
    session_error,
)
from .settings import Settings, Where

__all__ = [
    "ClientConnection",
    "Notification",
    "NumberedConnection",
    "Owner",
    "Published",
    "Push",
    "Result",
    "body_of",
    "json_arguments",
    "notification_of",
    "number_of",
    "pushed",
    "refusal_code",
    "refusal_text",
]

_KEEPALIVE_S: Final = 60
"""TCP keepalive of idle connections, so that a lost peer is noticed: ESNP has no heartbeat."""
_LINGER_S: Final = 1.0
"""How long the server may take to read the last bytes before the connection is aborted."""


class Owner(Protocol):
    """The client that a connection belongs to."""

    @property
    def full(self) -> bool:
        """Whether more notifications wait than allowed."""

    def notified(self, notification: Notification) -> None:
        """Receive a notification."""

    def pushed(self, push: Push) -> None:
        """Receive a message that is neither a reply nor a notification of a hub."""

    def replied(self) -> None:
        """Learn that a request is no longer pending."""


class ClientConnection(asyncio.Protocol, ABC):
    """One connection, from dialling to its end; the base class of all protocols."""

    protocol: ClassVar[str]
    fetches: ClassVar[bool] = False
    """Whether waiting notifications must be fetched with `fetch`; elsewhere they are pushed."""
    has_streams: ClassVar[bool] = False
    """Whether a call can be answered in parts, with `stream`."""
    has_traces: ClassVar[bool] = False
    """Whether a call can report the servers that it passes."""
    has_parts: ClassVar[bool] = False
    """Whether a request can be sent in parts."""
    has_events: ClassVar[bool] = False
    """Whether a client can send events, with `announce`."""
    has_messages: ClassVar[bool] = False
    """Whether a `Result` has the message of the response."""
    CALL_OPTIONS: ClassVar[frozenset[str]] = frozenset()
    """Options of a call: fields of the protocol that are neither its target nor its arguments."""

    def __init__(self, settings: Settings, owner: Owner, previous: ClientConnection | None = None):
        self.loop = asyncio.get_running_loop()
        self.settings = settings
        self.owner = owner
        self.reason = ""
        """Why the connection ended."""
        self.first_bytes = b""
        """The first bytes that arrived; empty while the server is silent."""
        self.lost: asyncio.Future[ConnectionLost] = self.loop.create_future()
        """Done when the transport is closed."""
        try:
            self.session: Any = self.make_session(self.loop.time(), previous)
        except SessionError as error:
            # Sessions name the option first, as in "dialect: expected one of seed, go".
            option, separator, why = error.detail.partition(": ")
            if error.code != "bad_config" or not separator:
                raise BadCall(str(error)) from error
            raise BadOption(lambda name: f"{name(option)}: {why}") from error
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[Any, asyncio.Future[Any]] = {}
        self._flush_soon = False
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None

    # -- provided by the protocol ------------------------------------------------------------

    @abstractmethod
    def make_session(self, now: float, previous: ClientConnection | None) -> Session:
        """Return the client's session; it may resume that of the `previous` connection."""

    @abstractmethod
    async def sign_on(self) -> None:
        """Perform the handshake and sign on; ClientError when the server refuses."""

    @abstractmethod
    def on_event(self, event: Event) -> None:
        """Handle an event of the session other than `Failed` and `Closed`."""

    @property
    @abstractmethod
    def awaiting_reply(self) -> bool:
        """Whether a reply of the server is pending, also to a heartbeat."""

    @abstractmethod
    async def ping(self) -> float:
        """Send a heartbeat; return the time until its reply, in seconds."""

    @property
    def request_limit(self) -> int | None:
        """How many requests the session accepts at a time; None: any number."""
        return None

    def begin(self) -> None:
        """Send what comes first, when the transport is connected."""

    @classmethod
    def url_target(cls, addresses: Sequence[Where]) -> str:
        """Return the target of a call that was given as one URL, servers included."""
        return addresses[0].target

    @classmethod
    def target_timeout_s(cls, target: str) -> float | None:  # noqa: ARG003
        """Return the timeout that a target with a query names; None without one."""
        return None

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Raise Unsupported for an option that calls of this protocol do not have."""
        for name in options:
            if name not in cls.CALL_OPTIONS:
                text = unknown("field", name, sorted(cls.CALL_OPTIONS))
                raise Unsupported(f"{cls.protocol}: {text}")

    def start_call(
        self,
        target: Any,  # noqa: ARG002
        arguments: Any,  # noqa: ARG002
        timeout_s: float,  # noqa: ARG002
        options: dict[str, Any],  # noqa: ARG002
    ) -> asyncio.Future[Result]:
        """Send a call; the future has its result."""
        raise Unsupported(f"{self.protocol} has no calls")

    async def subscribe(self, topics: Sequence[str], ack: bool, timeout_s: float) -> None:
        """Subscribe to topics."""
        await self.hub_call(SUBSCRIBE.name, {"topics": list(topics), "ack": ack}, timeout_s)

    async def unsubscribe(self, topics: Sequence[str], timeout_s: float) -> None:
        """End subscriptions."""
        await self.hub_call(UNSUBSCRIBE.name, {"topics": list(topics)}, timeout_s)

    async def ack(self, ids: Sequence[str], timeout_s: float) -> None:
        """Acknowledge notifications."""
        await self.hub_call(ACK.name, {"ids": list(ids)}, timeout_s)

    async def publish(self, arguments: dict[str, Any], timeout_s: float) -> Published:
        """Publish a notification."""
        found = await self.hub_call(PUBLISH.name, arguments, timeout_s)
        return Published(str(found.get("id", "")), int(found.get("audience", 0)))

    async def fetch(self) -> list[Notification]:
        """Return unacknowledged notifications, oldest first, as many as one reply holds."""
        raise Unsupported(
            f"{self.protocol} pushes waiting notifications; there is nothing to fetch"
        )

    async def topics(self) -> list[str]:
        """Return the topics that the client is subscribed to."""
        raise Unsupported(f"{self.protocol} has no list of topics")

    async def report(self, facts: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Report what the client runs on."""
        raise Unsupported(f"{self.protocol} has no reports")

    def announce(
        self,
        target: Any,  # noqa: ARG002
        arguments: Any,  # noqa: ARG002
        options: dict[str, Any],  # noqa: ARG002
    ) -> None:
        """Send an event, which has no reply."""
        raise Unsupported(f"{self.protocol} has no events")

    def stream(
        self,
        target: Any,  # noqa: ARG002
        arguments: Any,  # noqa: ARG002
        timeout_s: float,  # noqa: ARG002
        options: dict[str, Any],  # noqa: ARG002
    ) -> AsyncIterator[Result]:
        """Call a service, and yield each part of its reply."""
        raise Unsupported(f"{self.protocol} has no streams")

    async def hub_call(
        self,
        name: str,
        arguments: dict[str, Any],  # noqa: ARG002
        timeout_s: float,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Call the hub itself (`wirelake.protocols.hub_calls`)."""
        raise Unsupported(f"{self.protocol} has no {name}")

    # -- called by asyncio -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the session when the transport is connected."""
        self._transport = cast(asyncio.Transport, transport)
        sock: socket.socket | None = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
        self.begin()
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Pass received bytes to the session."""
        if not self.first_bytes:
            self.first_bytes = data[:8]
        self.session.receive(data, self.loop.time())
        self._flush()
        # Backpressure: the server stops pushing when this socket is not read. While a reply is
        # pending it has to be read, and pushes before it with it.
        if self.owner.full and not self.awaiting_reply and not self._paused and self.open:
            assert self._transport is not None
            self._transport.pause_reading()
            self._paused = True

    def eof_received(self) -> bool:
        """End the session when the server closes its side."""
        self.session.receive_eof()
        self._flush()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is pending when the transport is closed."""
        # `receive_eof` lets the session fail its pending requests with events of their own; what is
        # left in `_waiting` afterwards had no request in the session.
        if not self.session.closed:
            if exc is not None:
                self.reason = self.reason or str(exc)
            self.session.receive_eof()
        self._events()
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        error = self.end_error()
        self.fail_waiting(error)
        if not self.lost.done():
            self.lost.set_result(error)

    # -- the session -------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether something can still be sent."""
        return self._transport is not None and not self.session.closed

    @property
    def busy(self) -> int:
        """The number of calls without a reply yet."""
        return len(self._waiting)

    def begin_send(self) -> Any:
        """Return the session, with its clock set; what it sends leaves in this turn of the loop."""
        if not self.open:
            raise NotConnected(f"the connection is closed: {self.reason or 'lost'}")
        # The session's clock is that of the last event. Without this, the timeout of a request
        # would start when something was last received.
        self.session.on_timer(self.loop.time())
        if not self._flush_soon:
            self._flush_soon = True
            self.loop.call_soon(self._flush)
        return self.session

    def wait_for(self, key: Any, timeout_s: float | None = None) -> asyncio.Future[Any]:
        """Return a future that `answer` or `fail` completes; Timeout after `timeout_s`.

        Protocols whose session has timeouts of its own pass none.
        """
        # A caller that is cancelled leaves its future here; the reply, the timeout or the end of
        # the connection removes it.
        future: asyncio.Future[Any] = self.loop.create_future()
        self._waiting[key] = future
        if timeout_s is not None:
            late = self.loop.call_later(timeout_s, self.fail, key, Timeout("no reply in time"))
            future.add_done_callback(lambda _: late.cancel())
        return future

    def answer(self, key: Any, value: Any) -> None:
        """Complete the future of a key, if there is one."""
        future = self._waiting.pop(key, None)
        if future is not None:
            if not future.done():
                future.set_result(value)
            self.owner.replied()

    def fail(self, key: Any, error: ClientError) -> None:
        """Fail the future of a key, if there is one."""
        future = self._waiting.pop(key, None)
        if future is not None:
            if not future.done():
                future.set_exception(error)
            self.owner.replied()

    def fail_waiting(self, error: ClientError) -> None:
        """Fail all futures."""
        for key in tuple(self._waiting):
            self.fail(key, error)

    def call_failed(self, code: int | str, text: str = "", hub_code: str = "") -> CallFailed:
        """Return the error for a refusal of the server; Busy if it means that.

        `hub_code` is the code of `wirelake.hub.errors`, where a reply has it beside its own code.
        """
        busy_number = not hub_code and registry.binding(self.protocol).is_busy(code)
        return (Busy if busy_number or hub_code in BUSY_CODES else CallFailed)(code, text)

    def refused(self, error: SessionError) -> ClientError:
        """Return the client's error for an error of the session."""
        return session_error(error, closed=self.session.closed)

    def end_error(self) -> ConnectionLost:
        """Return the error of calls on a closed connection."""
        return self._foreign or ConnectionLost(
            f"the connection was closed: {self.reason or 'closed'}{self._hint}"
        )

    def no_reply(self) -> ConnectionLost:
        """Return the error of a call that the end of the connection left without a reply."""
        return self._foreign or ConnectionLost(
            f"the connection ended before the reply arrived{self._hint}"
        )

    @property
    def _hint(self) -> str:
        """Return what to check when the server has closed without sending anything."""
        # A TLS server may close without an alert: those of asyncio and uvloop do.
        if self.first_bytes or self.settings.tls is not None:
            return ""
        tls = f"{self.protocol}s://"
        return f"; nothing was received: check the port, and whether the server uses TLS ({tls})"

    @property
    def _foreign(self) -> WrongServer | None:
        return foreign_reply(self.protocol, self.settings.where.place, self.first_bytes)

    def _events(self) -> None:
        while events := self.session.events():
            for event in events:
                if isinstance(event, Closed):
                    self.reason = self.reason or event.reason
                elif isinstance(event, Failed):
                    if event.fatal:
                        self.reason = event.code + (f": {event.detail}" if event.detail else "")
                else:
                    self.on_event(event)

    def _flush(self) -> None:
        """Handle events, write what the session has to send, and set the timer."""
        self._flush_soon = False
        transport = self._transport
        if transport is None:
            return
        self._events()
        data = self.session.to_send()
        if data:
            transport.write(data)
            self.resume_reading()  # a request was sent: its reply must not wait in the socket
        if self.session.closed:
            self._close(transport)
        else:
            self._arm_timer()

    def _close(self, transport: asyncio.Transport) -> None:
        """Close when everything is written, or after `_LINGER_S`."""
        # `close` waits until everything is written, which a server that does not read would delay
        # for ever. The timer slot is free: a closed session has no deadlines.
        if not transport.is_closing():
            transport.close()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_later(_LINGER_S, transport.abort)

    def resume_reading(self) -> None:
        """Resume reading, if it was paused."""
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._paused = False

    def _arm_timer(self) -> None:
        """Set the timer for the next deadline of the session."""
        # A timer that fires early does no harm, so it is moved only when it would be late: most
        # messages cost no timer operation.
        due = self.session.next_timer()
        if due is None:
            return
        if self._timer is not None:
            if self._timer.when() <= due:  # it fires before the deadline, and is then set again
                return
            self._timer.cancel()
        self._timer = self.loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self.open:
            self.session.on_timer(self.loop.time())
            self.resume_reading()
            self._flush()

    # -- closing -----------------------------------------------------------------------------

    async def close(self) -> None:
        """Close the session as the protocol does, and wait until the transport is closed."""
        transport = self._transport
        if transport is None:
            return
        with contextlib.suppress(SessionError):
            self.close_session()
        self._flush()
        self._close(transport)
        await asyncio.shield(self.lost)

    def close_session(self) -> None:
        """Close the session as the protocol does."""
        self.session.close()

    def abort(self) -> None:
        """Drop the connection."""
        if self._transport is not None:
            self._transport.abort()


# -- services by number --------------------------------------------------------------------------


class NumberedConnection(ClientConnection):
    """A connection of a protocol with service numbers."""

    auth_code: int
    """The code of a wrong id or token."""

    @abstractmethod
    def send_request(
        self, number: int, body: bytes, timeout_s: float, **options: Any
    ) -> asyncio.Future[Result]:
        """Send a request; the future has its result. The options are those of `CALL_OPTIONS`."""

    def start_call(
        self, target: Any, arguments: Any, timeout_s: float, options: dict[str, Any]
    ) -> asyncio.Future[Result]:
        """Call a service by its number."""
        self.check_options(options)
        return self.send_request(number_of(target), body_of(arguments), timeout_s, **options)

    async def hub_call(
        self, name: str, arguments: dict[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        """Call the hub itself, in JSON."""
        result = await self.send_request(CALLS[name].number, json_arguments(arguments), timeout_s)
        return result.data

    async def sign_on_with_token(self) -> None:
        """Call `auth`, if the settings have an id."""
        settings = self.settings
        if settings.id is None:
            return
        credentials = {"id": settings.id, "token": settings.token}
        try:
            await self.hub_call(AUTH.name, credentials, settings.sign_on_timeout_s)
        except CallFailed as error:
            if error.code == self.auth_code:
                raise AuthFailed(error.code, error.text or "wrong id or token") from error
            raise


def number_of(target: Any) -> int:
    """Return the number of a target, given as an int or as text such as 1002 or 0x1002."""
    given = target
    if isinstance(target, str):
        try:
            target = int(target, 0)
        except ValueError:
            target = None
    if not isinstance(target, int) or target < 0:
        raise BadCall(invalid("target", given, "the number of a service, such as 1002 or 0x1002"))
    return target


# -- JSON bodies (`wirelake.protocols.hub_calls`) -----------------------------------------------


def json_arguments(arguments: dict[str, Any]) -> bytes:
    """Return the JSON body of a call of the hub."""
    # JSON has no bytes: content is text if it is UTF-8, otherwise base64 in another field.
    content = arguments.get("content")
    if isinstance(content, bytes):
        others = {key: value for key, value in arguments.items() if key != "content"}
        arguments = {**others, **content_fields(content)}
    return msgspec.json.encode(arguments)


def body_of(arguments: Any) -> bytes:
    """Return the body of a call: bytes unchanged, anything else as JSON."""
    if arguments is None:
        return b""
    if isinstance(arguments, bytes | bytearray | memoryview):
        return bytes(arguments)
    try:
        return msgspec.json.encode(arguments)
    except (TypeError, ValueError) as error:
        raise BadCall(f"cannot be encoded as JSON: {error}") from error


def refusal_text(body: bytes) -> str:
    """Return the text of a refusal: `text` of the hub's JSON, or the body of other servers."""
    try:
        data = msgspec.json.decode(body)
    except msgspec.DecodeError:
        data = None
    if isinstance(data, dict) and isinstance(data.get("text"), str):
        return str(data["text"])
    return body.decode("utf-8", "replace")


def refusal_code(body: bytes) -> str:
    """Return `code` of the hub's JSON of a refusal; of other servers, nothing."""
    try:
        data = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return ""
    code = data.get("code") if isinstance(data, dict) else None
    return code if isinstance(code, str) else ""


def pushed(body: bytes) -> Notification | None:
    """Return the notification in the JSON body of a push; None when it is invalid."""
    try:
        data = msgspec.json.decode(body)
        return notification_of(data) if isinstance(data, dict) else None
    except (msgspec.DecodeError, ValueError):
        return None


def notification_of(data: dict[str, Any]) -> Notification:
    """Return the notification of decoded fields."""
    return Notification(
        id=str(data.get("id", "")),
        content=content_of(data),
        ts_ms=int(data.get("ts", 0)),
        topic=data.get("topic"),
        type=int(data.get("type", 0)),
    )


# -- values --------------------------------------------------------------------------------------


class Result:
    """The result of a call."""

    __slots__ = ("_data", "_in_body", "body", "message", "parts", "traces")

    def __init__(
        self,
        body: bytes = b"",
        data: dict[str, Any] | None = None,
        *,
        message: Any = None,
        traces: tuple[str, ...] = (),
        parts: int = 1,
    ):
        self.body = body
        """The bytes: a tny or magline body, the PAYLOAD rows of an ESNP message."""
        self.message = message
        """The decoded message, for what is not in body and data."""
        self.traces = traces
        """Trace reports of the call (ESNP, `trace=True`)."""
        self.parts = parts
        """How many messages the reply has: several if it is a stream (ESNP)."""
        self._data = data
        self._in_body = data is None

    @property
    def data(self) -> dict[str, Any]:
        """The values by name: DATA rows of ESNP, else the body as a JSON object; {} if it is
        none."""
        # Decoded when it is first read: many callers only want the body.
        if self._data is None:
            try:
                decoded = msgspec.json.decode(self.body)
            except msgspec.DecodeError:
                decoded = None
            self._data = decoded if isinstance(decoded, dict) else {}
        return self._data

    @property
    def beside(self) -> bytes:
        """The bytes beside the values; empty when the values were read from the body."""
        return b"" if self._in_body and self.data else self.body

    def __repr__(self) -> str:
        return f"Result(data={self.data!r}, body={len(self.body)} bytes)"


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A notification."""

    id: str
    """What to acknowledge."""
    content: bytes
    """What was published."""
    ts_ms: int = 0
    """When, in milliseconds since 1970."""
    topic: str | None = None
    """Its topic; None when it is for this client alone, and with comet, which does not send it."""
    type: int = 0
    """The publisher's own number."""

    @property
    def text(self) -> str:
        """The content as text; bytes that are not valid UTF-8 are escaped."""
        return self.content.decode("utf-8", "backslashreplace")


class Push(msgspec.Struct, frozen=True, gc=False):
    """A message that the server sent on its own, other than a notification of a hub."""

    target: str | int
    """The service and operation, or the number, that it names."""
    body: bytes
    """Its bytes: the body, or the PAYLOAD rows of an ESNP event."""
    message: Any
    """The decoded message."""


class Published(msgspec.Struct, frozen=True, gc=False):
    """The result of a publish."""

    id: str
    """The notification's id."""
    audience: int
    """The number of clients that it is for."""
