"""A client's ESNP connection: calls, infos, events, sequences, traces (seeds 000 and 001)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, cast

from wirelake.protocols.esnp.address import address_to_pairs, parse_url
from wirelake.protocols.esnp.layout import Address, Dialect, FlagType, Message, Payload, Row
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.message import address
from wirelake.protocols.esnp.session import (
    Announced,
    Answered,
    CallFailed,
    EsnpSession,
    Requested,
    Traced,
)
from wirelake.protocols.esnp.values import data_rows, values_of
from wirelake.protocols.hub_calls import AUTH, HUB_SERVICE, NOTIFY
from wirelake.protocols.sansio import Event, Role, SessionError
from wirelake.wire.errors import WireError

from .connection import ClientConnection, Result, notification_of
from .errors import AuthFailed, BadCall, ClientError, ConnectionLost, Timeout
from .errors import CallFailed as Failure

__all__ = [
    "EsnpConnection",
    "address_rows",
    "body_rows",
    "read_body",
]


# Cached: a client calls few targets, and parsing one takes longer than encoding its request.
@functools.lru_cache(1024)
def address_rows(target: str) -> tuple[Row, ...]:
    """Return the rows of `service/op`, or of an `esnp://` URL with more parts."""
    if not isinstance(target, str):
        raise BadCall("expected a target such as test/add")
    url = target if "://" in target else f"esnp://_/{target.strip('/')}"
    try:
        where = parse_url(url)
    except WireError as error:
        raise BadCall(f"{target}: {error}") from error
    if where.service is None or where.op is None:
        raise BadCall(f"{target!r}: expected a service and an operation, such as test/add")
    return tuple(Address(kind=kind, value=value) for kind, value in address_to_pairs(where))


def body_rows(arguments: Any) -> tuple[Row, ...]:
    """Return the rows of arguments: values by name, bytes, or a pair of both."""
    match arguments:
        case None:
            return ()
        case bytes() | bytearray() | memoryview():
            return (Payload(data=bytes(arguments)),)
        case Mapping():
            try:
                return data_rows(arguments)
            except WireError as error:
                raise BadCall(f"cannot be encoded in ESNP: {error}") from error
        case (Mapping() as named, bytes() as body):
            return (*body_rows(named), *body_rows(body))
        case _:
            raise BadCall("expected a dict of values, bytes, or a pair of both")


def read_body(messages: Iterable[Message]) -> tuple[bytes, dict[str, Any]]:
    """Return the PAYLOAD rows joined, and the values of DATA rows by name."""
    rows = [row for message in messages for row in message.rows]
    return b"".join([row.data for row in rows if type(row) is Payload]), values_of(rows)


_ASYNC: Final = (int(FlagType.ASYNC),)
_ASYNC_TRACE: Final = (int(FlagType.ASYNC), int(FlagType.TRACE))
_NOTIFY: Final = (HUB_SERVICE, NOTIFY)


class _Open:
    """A pending call."""

    __slots__ = ("each", "messages", "parts", "traces")

    def __init__(self, each: Callable[[Result], None] | None):
        self.each = each
        self.parts = 0
        self.messages: list[Message] = []
        self.traces: list[str] = []


class EsnpConnection(ClientConnection):
    """One ESNP connection."""

    protocol: ClassVar[str] = "esnp"
    has_streams: ClassVar[bool] = True
    has_traces: ClassVar[bool] = True
    session: EsnpSession

    def make_session(self, now: float, previous: ClientConnection | None) -> EsnpSession:  # noqa: ARG002
        """Return a new session; its ids differ between runs."""
        # Random first ids: captures of several runs go into one lake, where calls are matched by
        # id.
        self._open: dict[int, _Open] = {}
        dialect = cast(Dialect, self.settings.dialect or "seed")
        options = SessionOptions(dialect=dialect)
        return EsnpSession(Role.CLIENT, options, first_id=1 + secrets.randbits(62), now=now)

    async def sign_on(self) -> None:
        """Call `hub/auth`, if the settings have an id."""
        if self.settings.id is None:
            return
        credentials = {"id": self.settings.id, "token": self.settings.token}
        try:
            await self.hub_call(AUTH.name, credentials, self.settings.sign_on_timeout_s)
        except Failure as error:
            raise AuthFailed("auth", error.text) from error

    @property
    def awaiting_reply(self) -> bool:
        """Whether a call is pending."""
        return bool(self.session.calls)

    # -- requests ----------------------------------------------------------------------------

    def start_call(
        self, target: Any, arguments: Any, timeout_s: float, options: dict[str, Any]
    ) -> asyncio.Future[Result]:
        """Call `service/op`; options are `info`, `trace` and `each`."""
        flag = FlagType.INFO if options.get("info") else FlagType.REQUEST
        flags = _ASYNC_TRACE if options.get("trace") else _ASYNC
        rows = [*address_rows(target), *body_rows(arguments)]
        try:
            number = self.begin_send().request(
                rows, flag=int(flag), more_flags=flags, timeout_s=timeout_s
            )
        except SessionError as error:
            raise self.refused(error) from error
        self._open[number] = _Open(options.get("each"))
        return self.wait_for(number)

    def announce(self, target: Any, arguments: Any) -> None:
        """Send an event, which has no reply."""
        try:
            self.begin_send().announce([*address_rows(target), *body_rows(arguments)])
        except SessionError as error:
            raise self.refused(error) from error

    async def stream(self, target: Any, arguments: Any, timeout_s: float) -> AsyncIterator[Result]:
        """Call a service, and yield each part of its reply."""
        # Not bounded: while a reply is pending the socket is always read.
        parts: asyncio.Queue[Result | None] = asyncio.Queue()
        done = self.start_call(target, arguments, timeout_s, {"each": parts.put_nowait})
        done.add_done_callback(lambda _: parts.put_nowait(None))
        try:
            while (part := await parts.get()) is not None:
                yield part
            await done
        finally:
            if not done.cancel() and not done.cancelled():
                done.exception()  # the caller stopped iterating

    async def hub_call(
        self, name: str, arguments: dict[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        """Call the hub itself."""
        result = await self.start_call(f"{HUB_SERVICE}/{name}", arguments, timeout_s, {})
        return result.data

    async def ping(self) -> float:
        """Send an INFO. ESNP has no heartbeat; any reply counts, also a refusal."""
        began = self.loop.time()
        with contextlib.suppress(Failure):
            await self.start_call(
                f"{HUB_SERVICE}/ping", None, self.settings.timeout_s, {"info": True}
            )
        return self.loop.time() - began

    # -- events ------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Complete the call that a message answers, or pass a notification on."""
        match event:
            case Answered():
                self._take_answer(event)
            case CallFailed(id=number, code=code):
                self._open.pop(number, None)
                self.fail(number, _no_answer(code))
            case Traced(id=int() as number, text=text) if number in self._open:
                self._open[number].traces.append(text)
            case Announced(message=message):
                self._take_event(message)
            case Requested(call=call):
                self.session.answer(call, error="this client has no services")

    def _take_answer(self, event: Answered) -> None:
        number, call = event.id, self._open.get(event.id)
        if call is None:
            return
        if event.error is not None:
            del self._open[number]
            self.fail(number, Failure("error", event.error))
            return
        if call.each is None:
            call.messages.append(event.message)
        else:
            self._give_part(call, event)
        if event.last:
            del self._open[number]
            self.answer(number, _result(call.messages, event.message, call))

    def _give_part(self, call: _Open, event: Answered) -> None:
        part = _result((event.message,), event.message, call)
        # A hub ends a stream with an empty part, which is not one of its items.
        only_ends = event.last and call.parts and not part.body and not part.data
        call.parts += 1
        if call.each is not None and not only_ends:
            call.each(part)

    def _take_event(self, message: Message) -> None:
        where = address(message)
        if (where.service, where.op) == _NOTIFY:
            _, data = read_body((message,))
            self.owner.notified(notification_of(data))


def _result(messages: Iterable[Message], last: Message, call: _Open) -> Result:
    body, data = read_body(messages)
    return Result(body, data, message=last, traces=tuple(call.traces))


def _no_answer(code: str) -> ClientError:
    if code == "timeout":
        return Timeout("no reply in time")
    if code == "connection_lost":
        return ConnectionLost("the connection ended before the reply arrived")
    return Failure(code, "the answer is too large")
