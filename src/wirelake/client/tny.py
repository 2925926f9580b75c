"""A client's tny connection: requests, responses, pushes, ticks (seed 002).

`TnyClient` is the client with exactly what tny has, for type checkers.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypedDict, Unpack, cast

from wirelake.protocols.hub_calls import NOTIFY_NUMBER
from wirelake.protocols.sansio import Event, SessionError
from wirelake.protocols.tny.layout import (
    ForwardHeader,
    Message,
    OriginalMessageIdHeader,
    TracingHeader,
)
from wirelake.protocols.tny.limits import ClientOptions, SessionDialect
from wirelake.protocols.tny.message import ResultCode, encode_header
from wirelake.protocols.tny.session import (
    CallFailed,
    ClientSession,
    Ponged,
    Pushed,
    Replied,
    Requested,
)
from wirelake.protocols.tny.transform import TransformConfig
from wirelake.wire.declare import build
from wirelake.wire.errors import EncodeError, unknown
from wirelake.wire.views.json import from_json

from .client import CallClient
from .connection import (
    ClientConnection,
    NumberedConnection,
    Push,
    Result,
    body_of,
    number_of,
    pushed,
    refusal_code,
    refusal_text,
)
from .errors import AuthFailed, BadCall, ClientError, Timeout

__all__ = ["TnyClient", "TnyConnection", "TnyFields"]

_PING_S = 60.0
"""A third of the 180 s after which the original closes an idle connection."""
_SILENCE = 3
"""Unanswered pings after which the connection counts as lost."""
_SUCCESS = int(ResultCode.SUCCESS)
_DESCRIBED: Final = (ForwardHeader, OriginalMessageIdHeader, TracingHeader)
"""Headers that a dict may describe, with the name of the layout as `type`."""


class TnyConnection(NumberedConnection):
    """One tny connection; it continues the message ids of the one before."""

    protocol: ClassVar[str] = "tny"
    auth_code = int(ResultCode.AUTH_FAILED)
    has_events: ClassVar[bool] = True
    has_messages: ClassVar[bool] = True
    CALL_OPTIONS: ClassVar[frozenset[str]] = frozenset({"line", "forward_header", "headers"})
    session: ClientSession

    def make_session(self, now: float, previous: ClientConnection | None) -> ClientSession:
        """Return a session that pings, and continues the ids of the previous one."""
        self._pings: deque[object] = deque()
        beat = self.settings.heartbeat_s or _PING_S
        extra = dict(self.settings.extra)
        access_id = extra.pop("access_id", 0)
        strict = extra.pop("strict", True)
        transform = _transform(extra)
        options = ClientOptions(
            dialect=cast(SessionDialect, self.settings.dialect or "seed"),
            strict=strict,
            reading=transform,
            writing=transform,
            ping_interval_s=beat,
            idle_limit_s=beat * _SILENCE,
        )
        first = previous.session.next_id if previous is not None else 1
        epoch_ms = int((time.time() - now) * 1000)
        return ClientSession(
            options,
            access_id=access_id,
            first_id=first,
            epoch_ms=epoch_ms,
            random=os.urandom,
            now=now,
        )

    async def sign_on(self) -> None:
        """Call protocol 10, if the settings have an id."""
        await self.sign_on_with_token()

    @property
    def request_limit(self) -> int:
        """How many requests the session accepts at a time."""
        return self.session.options.max_in_flight

    @property
    def awaiting_reply(self) -> bool:
        """Whether a response or a pong of the server is pending."""
        return bool(self.session.in_flight or self._pings)

    def send_request(
        self, number: int, body: bytes, timeout_s: float, **options: Any
    ) -> asyncio.Future[Result]:
        """Send a request; its response is matched by the message id.

        Options: `line` 0 to 7; `forward_header`, the one header of dialect seed; `headers`, those
        of dialect upstream, each a `wirelake.protocols.tny.message.Header`, a dict that describes
        one, or bytes. Bytes may also be hexadecimal text.
        """
        if options:
            self._check_headers(options)
        try:
            message_id = self.begin_send().request(number, body, timeout_s=timeout_s, **options)
        except SessionError as error:
            raise self.refused(error) from error
        return self.wait_for(message_id)

    def announce(self, target: Any, arguments: Any, options: dict[str, Any]) -> None:
        """Send a push, which has no response; options as in `send_request`."""
        self.check_options(options)
        number, body = number_of(target), body_of(arguments)
        self._check_headers(options)
        try:
            self.begin_send().push(number, body, **options)
        except SessionError as error:
            raise self.refused(error) from error

    def _check_headers(self, options: dict[str, Any]) -> None:
        """Encode the headers; BadCall for those of the other dialect, which has no place for
        them."""
        wrong = "headers" if self.session.dialect == "seed" else "forward_header"
        if wrong in options:
            raise BadCall(f"{wrong}: not in dialect {self.session.dialect}")
        try:
            if "headers" in options:
                options["headers"] = tuple(_header(each) for each in options["headers"])
            if isinstance(options.get("forward_header"), str):
                options["forward_header"] = bytes.fromhex(options["forward_header"])
        except EncodeError as error:
            raise BadCall(f"headers: {error}") from error
        except (TypeError, ValueError) as error:
            raise BadCall(f"headers are bytes, hexadecimal text or headers: {error}") from error

    async def ping(self) -> float:
        """Send a ping; pongs come in order."""
        began = self.loop.time()
        self.begin_send().ping()
        self._pings.append(key := object())
        await self.wait_for(key)
        return self.loop.time() - began

    def on_event(self, event: Event) -> None:
        """Complete the call that a message answers, or pass a notification on."""
        match event:
            case Replied(request=request, response=response):
                self._take_response(request, response)
            case CallFailed(request=request, code=code):
                self.fail(request.id, self._no_answer(code))
            case Pushed(message=message) if message.protocol == NOTIFY_NUMBER:
                notification = pushed(message.body or b"")
                if notification is not None:
                    self.owner.notified(notification)
            case Pushed(message=message):
                self.owner.pushed(Push(message.protocol, message.body or b"", message))
            case Ponged() if self._pings:
                self.answer(self._pings.popleft(), None)
            case Requested(message=message):
                self.session.respond(message, code=ResultCode.NO_SUCH_PROTOCOL)

    def _take_response(self, request: Message, response: Message) -> None:
        body = response.body or b""
        if response.code == _SUCCESS:
            self.answer(request.id, Result(body, message=response))
        else:
            text = refusal_text(body) or _meaning(response.code)
            self.fail(request.id, self.call_failed(response.code, text, refusal_code(body)))

    def _no_answer(self, code: str) -> ClientError:
        if code == "timeout":
            return Timeout("no reply in time")
        if self.session.last_code == self.auth_code:
            return AuthFailed(self.auth_code, "the id or the token is wrong")
        return self.no_reply()


def _meaning(code: int) -> str:
    """Return what a code of the document means, such as `no such protocol`; of others, nothing."""
    known = code in ResultCode.__members__.values()
    return ResultCode(code).name.replace("_", " ").lower() if known else ""


def _header(given: Any) -> bytes:
    """Encode a header of dialect upstream."""
    if isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return bytes.fromhex(given)
    if isinstance(given, Mapping):
        known = {build(each).name: build(each) for each in _DESCRIBED}
        name = given.get("type")
        if name not in known:
            raise EncodeError("bad_value", "header", None, unknown("type", name, known))
        given = from_json(known[name], given)
    return encode_header(given)


def _transform(options: dict[str, Any]) -> TransformConfig:
    """Return the security options, which both directions of a connection share."""
    keys = options.get("security_keys", ())
    given = {**options, "security_keys": (keys,) if isinstance(keys, str) else tuple(keys)}
    try:
        return TransformConfig(**given)
    except EncodeError as error:
        raise BadCall(f"tny: {error}") from error


# -- the typed client ----------------------------------------------------------------------------


class TnyFields(TypedDict, total=False):
    """Fields of a request beside its number and body; see `TnyConnection.send_request`."""

    line: int
    forward_header: bytes | str
    headers: Sequence[Any]


class TnyClient(CallClient):
    """A client of tny: `connect("tny://host", TnyClient)`."""

    protocol: ClassVar[str | None] = TnyConnection.protocol

    async def call(
        self,
        target: int | str,
        arguments: Any = None,
        *,
        timeout_s: float | None = None,
        idempotent: bool = False,
        **fields: Unpack[TnyFields],
    ) -> Result:
        """Call a service by its number and return its result; see `Client.call`."""
        options = cast(dict[str, Any], fields)
        return await self._call(target, arguments, timeout_s, idempotent, options)

    async def announce(
        self, target: int | str, arguments: Any = None, **fields: Unpack[TnyFields]
    ) -> None:
        """Send a push, which has no response."""
        await self._announce(target, arguments, cast(dict[str, Any], fields))
