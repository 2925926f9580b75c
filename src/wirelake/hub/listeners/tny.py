"""The tny listener, and what the hub does for a tny client on a connection or in a tunnel.

    protocol   10 to 14   the hub's own calls (`wirelake.protocols.hub_calls`)
    protocol   20         pushed notifications
    any other             a service; code 205 when it does not exist

Bodies are JSON. Success is code 100; an error has the code of the binding and, as its body,
`{"code", "text"}`. A push of the client is an event: the service runs, and there is no answer.

Plain requests are answered while they are parsed (`_answer_fast_path`); deferred replies of
publishes leave together, after the group commit that made them durable.
"""

from __future__ import annotations

import asyncio
import os
import time
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import msgspec

from wirelake.protocols.hub_calls import AUTH, BY_NUMBER, NOTIFY_NUMBER, notification_json
from wirelake.protocols.sansio import Event, Session, SessionError
from wirelake.protocols.tny.binding import BINDING, TnySettings
from wirelake.protocols.tny.endpoint import Pushed, Requested
from wirelake.protocols.tny.fast_path import Answer, Deferred, RequestTemplate
from wirelake.protocols.tny.layout import Message
from wirelake.protocols.tny.limits import ServerOptions
from wirelake.protocols.tny.message import ResultCode
from wirelake.protocols.tny.session import ServerSession
from wirelake.protocols.tny.transform import TransformConfig
from wirelake.wire.errors import EncodeError

from ..config import ConfigError
from ..errors import HubError
from ..net.connection import Connection
from ..net.listener import Listener
from ..pubsub.notifications import Notification
from ..rpc.call_types import Call, DeferredReply, Result, json_body
from ..rpc.hub_calls import HubCalls
from ..rpc.services import Service

if TYPE_CHECKING:
    from ..net.context import HubContext

__all__ = [
    "BEFORE_AUTH_BYTES",
    "PushBodies",
    "TnyConnection",
    "TnyEndpoint",
    "TnyListener",
    "epoch_ms",
    "refusal",
    "refusal_body",
    "server_options",
]


BEFORE_AUTH_BYTES: Final = 4_096
"""Maximum payload before sign-on: ten times that of an id and a token."""

_AUTH: Final = AUTH.number
_MAX_BODIES: Final = 512
"""Bodies kept. At the limit all are dropped, which is cheaper than keeping an LRU order."""
_OK: Final = ("tny", "ok")
_SUCCESS: Final = int(ResultCode.SUCCESS)
_encode: Final = msgspec.json.Encoder().encode


class PushBodies:
    """The bodies of pushes; each is encoded once for all subscribers."""

    # Packet numbers and encryption make the packets of each connection different, so tny has no
    # shared form (`pubsub.notifications.Form`). The JSON body is the part that can be shared.

    __slots__ = ("_bodies",)

    def __init__(self) -> None:
        self._bodies: dict[int, bytes] = {}

    def of(self, notification: Notification) -> bytes:
        """Return the body of a notification."""
        # By number: the backlog of each client is read from the log as new objects.
        body = self._bodies.get(notification.number)
        if body is None:
            if len(self._bodies) >= _MAX_BODIES:
                self._bodies.clear()
            body = self._bodies[notification.number] = notification_json(notification)
        return body


class TnyCall(Call, frozen=True, gc=False, eq=False):
    """A call of a tny client."""

    line: int = 0
    """The line of the request; the response has the same."""
    forward_header: bytes | None = None
    """Its header in dialect seed: bytes of the application; None without one."""
    headers: tuple[bytes, ...] = ()
    """Its headers in dialect upstream (`wirelake.protocols.tny.message.decode_header`)."""


def _call_of(connection: TnyEndpoint, message: Message, *, is_event: bool = False) -> TnyCall:
    return TnyCall(
        "tny",
        connection,
        message.body or b"",
        is_event=is_event,
        line=message.line,
        forward_header=message.forward_header,
        headers=message.headers or (),
    )


class TnyEndpoint(Connection):
    """A tny client, on a connection of its own or in a tunnel."""

    protocol: ClassVar[str] = "tny"

    __slots__ = ("_calls", "_services")

    def __init__(self, listener: Listener, calls: HubCalls):
        super().__init__(listener)
        self._calls = calls
        self._services = self.hub.services.numbered(self.protocol)

    @abstractmethod
    def answer(
        self, request: Message, code: int, body: bytes | None, *, late: bool = False
    ) -> None:
        """Send the response to a request; do nothing when the connection is closed.

        `late`: not in the turn of the request, so the session has to be given the time.
        """

    def handle_request(self, request: Message) -> None:
        """Run the service of a request, or a call of the hub itself."""
        service = self._services.get(request.protocol)
        if service is None or self.client is None:
            self._handle_other_request(request)
            return
        # Plain functions are not counted as running: they end before the next request is read.
        body = request.body or b""
        if service.immediate:
            call = _call_of(self, request) if service.wants_call else None
            self._respond(request, service.now(self.client, call, body))
        elif self._running >= self.hub.limits.calls:
            self._respond(request, HubError("too_busy", "too many concurrent calls"))
        else:
            self._running += 1
            service.run(_call_of(self, request), body, partial(self._respond_later, request))

    def _fast_path_answer(self, outcome: Result | HubError) -> bytes | Answer:
        """Return the answer of the fast path: a body, or a code with a body."""
        if type(outcome) is bytes:
            self.hub.counters.calls[_OK] += 1
            return outcome
        # A bare body means success with a body, which the session answers from its template.
        answer = self._answer_of(outcome)
        return answer if answer.body is None or answer.code != _SUCCESS else answer.body

    def _answer_of(self, outcome: Result | HubError) -> Answer:
        try:
            if not isinstance(outcome, HubError):
                body = None if outcome is None else json_body(outcome)
                self.hub.counters.calls[_OK] += 1
                return Answer(_SUCCESS, body)
        except HubError as error:
            outcome = error
        self.count_call(outcome)
        return refusal(outcome)

    def handle_push(self, push: Message) -> None:
        """Run a service for a push, which is not answered."""
        # A push has no response that could carry an error, so a client that has not signed on is
        # disconnected, and everything else is only counted.
        if self.client is None:
            self.refuse()
            return
        service = self._services.get(push.protocol)
        if service is None or self._running >= self.hub.limits.calls:
            self.hub.counters.calls["tny", "not_found" if service is None else "too_busy"] += 1
            return
        body = push.body or b""
        self._running += 1
        service.run(_call_of(self, push, is_event=True), body, self._event_done)

    def key_log(self) -> dict[str, Any] | None:
        """Return the security keys of the listener; messages in tunnels are not transformed."""
        keys = getattr(self.listener.settings, "security_keys", ())
        return {"protocol": self.protocol, "security_keys": keys} if keys else {}

    @abstractmethod
    def refuse(self) -> None:
        """Refuse a client that has not signed on, and close."""

    def _event_done(self, outcome: Result | HubError) -> None:
        self._running -= 1
        self.count_call(outcome)

    def _handle_other_request(self, request: Message) -> None:
        hub_call = BY_NUMBER.get(request.protocol)
        if self.client is None and request.protocol != _AUTH:
            self._respond(request, HubError("auth_required"))
        elif hub_call is None:
            self.hub.counters.calls["tny", "not_found"] += 1
            self.answer(request, ResultCode.NO_SUCH_PROTOCOL, None)
        elif self._running >= self.hub.limits.calls:
            self._respond(request, HubError("too_busy", "too many concurrent calls"))
        else:
            self._running += 1
            answer = partial(self._respond_later, request)
            self._calls.run(self, hub_call.name, request.body or b"", answer)

    def _respond_later(self, request: Message, outcome: Result | HubError) -> None:
        self._running -= 1
        if self.open:  # a task that was not cancelled in time answers nothing
            self._respond(request, outcome, late=True)
            self.react()

    def _respond(self, request: Message, outcome: Result | HubError, *, late: bool = False) -> None:
        code, body = self._answer_of(outcome)
        self.answer(request, code, body, late=late)


def refusal(error: HubError) -> Answer:
    """Return the answer for an error."""
    return Answer(BINDING.error_number(error.code), refusal_body(error))


def refusal_body(error: HubError) -> bytes:
    """Return the body of an error."""
    return _encode({"code": error.code, "text": error.text})


def epoch_ms(now: float) -> int:
    """Return the wall-clock time at time 0 of the loop's clock, in milliseconds."""
    return time.time_ns() // 1_000_000 - int(now * 1000)


def server_options(settings: TnySettings) -> ServerOptions:
    """Return the session options of a listener; ConfigError for settings that conflict."""
    try:
        transform = TransformConfig(
            security_keys=settings.security_keys,
            verify=settings.verify,
            encrypt=settings.encrypt,
            waste=settings.waste,
        )
        return ServerOptions(
            dialect=settings.dialect,
            strict=settings.strict,
            reading=transform,
            writing=transform,
            idle_limit_s=settings.idle_s or None,
        )
    except (EncodeError, SessionError) as error:
        raise ConfigError(f"tny: {error}") from error


class TnyConnection(TnyEndpoint):
    """A client's connection."""

    token_sign_on: ClassVar[bool] = True
    __slots__ = ("_flush_scheduled",)

    listener: TnyListener
    session: ServerSession

    def __init__(self, listener: TnyListener):
        super().__init__(listener, listener.calls)
        self._flush_scheduled = False

    def make_session(self, now: float) -> Session:
        """Return the server's session; it accepts only small packets before sign-on."""
        session = ServerSession(
            self.listener.options, epoch_ms=epoch_ms(now), random=os.urandom, now=now
        )
        session.too_large_answer = _TOO_LARGE
        if self.listener.settings.auth == "token":
            session.accept(BEFORE_AUTH_BYTES)
        return session

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection; without token sign-on it may call at once."""
        super().connection_made(transport)
        if self.client is not None:
            self.session.fast_handler = self._answer_fast_path

    def on_event(self, event: Event) -> None:
        """Handle requests and pushes; the session handles heartbeats and responses."""
        if isinstance(event, Requested):
            self.handle_request(event.message)
        elif isinstance(event, Pushed):
            self.handle_push(event.message)

    def answer(
        self, request: Message, code: int, body: bytes | None, *, late: bool = False
    ) -> None:
        """Send a response; one that is too large is replaced by an error."""
        session = self.session
        if session.closed:
            return
        # Signed on: full packets and the fast path from now on.
        if request.protocol == _AUTH and self.client is not None:
            session.accept(None)
            session.fast_handler = self._answer_fast_path
        try:
            now = self.hub.loop.time() if late else None
            session.respond(request, body, code=code, now=now)
        except SessionError as error:
            if error.code == "too_large":
                session.respond(request, _TOO_LARGE.body, code=_TOO_LARGE.code)

    def _answer_fast_path(
        self, kind: RequestTemplate, body: bytes, number: bytes
    ) -> bytes | Answer | Deferred | None:
        """Answer a plain request to a plain service, or to the hub, while it is read.

        Only for clients that have signed on. None leaves the request to the ordinary path, which
        builds a Message and an event for it (`wirelake.protocols.tny.fast_path`).
        """
        # The target is looked up once per kind of request, not per request: `kind` is the template
        # that the session keeps for requests with the same header bytes.
        service = kind.target
        if service is None:
            service = kind.target = self._fast_path_target(kind.protocol)
        if service is False:
            return None
        if type(service) is str:
            return self._call_hub_fast_path(kind, service, body, number)
        # Requests with headers never come here (`learn_template`).
        call = TnyCall("tny", self, body, line=kind.line) if service.wants_call else None
        return self._fast_path_answer(service.now(self.client, call, body))

    def _fast_path_target(self, protocol: int) -> Service | str | Literal[False]:
        """Return a plain service, the name of a frequent hub call, or False."""
        service = self._services.get(protocol)
        if service is not None:
            return service if service.immediate else False
        hub_call = BY_NUMBER.get(protocol)
        return hub_call.name if hub_call is not None and hub_call.frequent else False

    def _call_hub_fast_path(
        self, kind: RequestTemplate, name: str, body: bytes, number: bytes
    ) -> bytes | Answer | Deferred | None:
        # Deferred replies count as running calls: a client may not have more publishes waiting for
        # the disk than calls.
        if self._running >= self.hub.limits.calls:
            return None  # the ordinary path refuses it
        answer = DeferredReply(partial(self._answer_later, kind, number))
        self._calls.run(self, name, body, answer.take)
        if answer.known:
            return self._fast_path_answer(answer.outcome)
        answer.late = True
        self._running += 1
        return Deferred.DEFERRED

    def _answer_later(
        self, kind: RequestTemplate, number: bytes, outcome: Result | HubError
    ) -> None:
        """Send a deferred reply."""
        self._running -= 1
        if self.open:
            answer = self._fast_path_answer(outcome)
            self.session.reply_deferred(kind, number, answer, self.hub.loop.time())
            if not self._flush_scheduled:
                self._flush_scheduled = True
                self.hub.outbox.before_flush(self._flush_deferred)

    def _flush_deferred(self) -> None:
        """Write deferred replies together."""
        # A group commit completes many publishes of one connection in one turn. Without this each
        # reply would be a `react` of its own.
        self._flush_scheduled = False
        if self.open:
            self.react()

    def refuse(self) -> None:
        """Send code 210, which closes."""
        self.session.fail(ResultCode.AUTH_FAILED)

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Push each as protocol 20."""
        session, bodies, now = self.session, self.listener.bodies, self.hub.loop.time()
        for notification in notifications:
            try:
                session.push(NOTIFY_NUMBER, bodies.of(notification), now=now)
            except SessionError as error:
                self.hub.counters.failed("tny", error.code)
        self.react()

    @property
    def may_receive(self) -> bool:
        """Whether the client has signed on and reads fast enough."""
        return self.client is not None and not self.session.closed and not self.paused_since

    def close_session(self, reason: str) -> None:
        """Close the session. tny has no closing message; a missing sign-on gets an error code."""
        if reason == "auth_timeout":
            self.refuse()
        else:
            self.session.close(reason)


_TOO_LARGE: Final = refusal(HubError("too_large", "the response does not fit a packet"))


class TnyListener(Listener):
    """The tny listener."""

    connection: type[Connection] = TnyConnection
    settings: TnySettings

    def __init__(self, hub: HubContext, settings: TnySettings):
        super().__init__(hub, settings)
        self.options = server_options(settings)
        self.calls = hub.calls
        self.bodies = PushBodies()
