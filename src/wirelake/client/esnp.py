"""A client's ESNP connection: calls, infos, events, sequences, traces (seeds 000 and 001).

`EsnpClient` is the client with exactly what ESNP has, for type checkers.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, TypedDict, Unpack, cast

from wirelake.protocols.esnp.address import Address as Parsed
from wirelake.protocols.esnp.address import address_to_pairs, parse_url
from wirelake.protocols.esnp.layout import (
    Address,
    Flag,
    FlagType,
    Header,
    Message,
    Payload,
    Row,
    SessionInfo,
    SourceAddress,
    Version,
    XData,
)
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.message import address
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.protocols.esnp.session import (
    Announced,
    Answered,
    CallFailed,
    EsnpSession,
    Requested,
    Traced,
)
from wirelake.protocols.esnp.session import Call as Request
from wirelake.protocols.esnp.values import BASIC, data_rows, values_of, var_of
from wirelake.protocols.hub_calls import AUTH, HUB_SERVICE, NOTIFY, busy_reason
from wirelake.protocols.sansio import Event, Role, SessionError
from wirelake.wire.errors import WireError, invalid
from wirelake.wire.views.json import from_json

from .client import CallClient
from .connection import ClientConnection, Push, Result, notification_of
from .errors import NO_CODE, AuthFailed, BadCall, BadOption, Busy, ClientError, Timeout
from .errors import CallFailed as Failure
from .settings import Where

__all__ = [
    "EsnpArguments",
    "EsnpClient",
    "EsnpConnection",
    "EsnpFields",
    "address_rows",
    "body_rows",
    "read_body",
]


# Cached: a client calls few targets, and parsing one takes longer than encoding its request.
@functools.lru_cache(1024)
def address_rows(target: str) -> tuple[Row, ...]:
    """Return the rows of `service/op`, or of an `esnp://` URL with more parts."""
    where = _parse_target(target)
    if where.service is None or where.op is None:
        raise BadCall(f"{target!r}: expected a service and an operation, such as test/add")
    return tuple(Address(kind=kind, value=value) for kind, value in address_to_pairs(where))


def _parse_target(target: str) -> Parsed:
    if not isinstance(target, str):
        raise BadCall("expected a target such as test/add")
    url = target if "://" in target else f"esnp://_/{target.strip('/')}"
    try:
        return parse_url(url)
    except WireError as error:
        raise BadCall(f"{target}: {error}") from error


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
            raise BadCall("expected a dict of values, bytes, a pair of both, or a list of these")


def _parts(arguments: Any) -> list[tuple[Row, ...]]:
    """Return the rows of each message of a request."""
    if not isinstance(arguments, list):
        return [body_rows(arguments)]
    if not arguments:
        raise BadCall("a request in parts needs at least one part")
    return [body_rows(each) for each in arguments]


def _option_rows(options: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a call's options."""
    rows: list[Row] = []
    try:
        for name, value in options.get("headers", {}).items():
            rows.append(Header(name=name, value=var_of(value)))
        for name, value in options.get("session_info", {}).items():
            rows.append(SessionInfo(name=name, value=var_of(value)))
        xdata = options.get("xdata", ())
        for number, value in xdata.items() if isinstance(xdata, Mapping) else xdata:
            data = value if isinstance(value, bytes) else BASIC["Var"].encode(var_of(value))
            rows.append(XData(id=int(number), data=data))
    except (WireError, AttributeError, TypeError, ValueError) as error:
        raise BadCall(f"headers, session_info and xdata are dicts of values: {error}") from error
    if "source" in options:
        pairs = address_to_pairs(_parse_target(options["source"]))
        rows += [SourceAddress(kind=kind, value=value) for kind, value in pairs]
    return [*rows, *_given_rows(options.get("rows", ()))]


def _given_rows(given: Sequence[Any]) -> list[Row]:
    """Return rows; a dict describes one, in the form that `wirelake decode --json` prints."""
    try:
        described = [each for each in given if isinstance(each, Mapping)]
        made = iter(from_json(PROTOCOL.model(), {"rows": described}).rows)
    except (WireError, TypeError) as error:
        raise BadCall(f"rows: {error}") from error
    return [next(made) if isinstance(each, Mapping) else each for each in given]


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
    has_parts: ClassVar[bool] = True
    has_events: ClassVar[bool] = True
    has_messages: ClassVar[bool] = True
    CALL_OPTIONS: ClassVar[frozenset[str]] = frozenset(
        {"info", "trace", "headers", "session_info", "xdata", "source", "flags", "rows"}
    )
    session: EsnpSession
    on_request: Callable[[Request], None] | None = None
    """Takes requests of the server, and answers each with `session.answer`; None refuses them."""

    def make_session(self, now: float, previous: ClientConnection | None) -> EsnpSession:  # noqa: ARG002
        """Return a new session; its ids differ between runs."""
        # Random first ids: captures of several runs go into one lake, where calls are matched by
        # id.
        self._open: dict[int, _Open] = {}
        given = {"dialect": self.settings.dialect or "seed", **self.settings.extra}
        if "version" in given:
            given["version"] = _version(given["version"])
        options = SessionOptions(**given)
        return EsnpSession(Role.CLIENT, options, first_id=1 + secrets.randbits(62), now=now)

    async def sign_on(self) -> None:
        """Call `hub/auth`, if the settings have an id."""
        if self.settings.id is None:
            return
        credentials = {"id": self.settings.id, "token": self.settings.token}
        try:
            await self.hub_call(AUTH.name, credentials, self.settings.sign_on_timeout_s)
        except Busy:
            raise
        except Failure as error:
            raise AuthFailed("auth", error.text) from error

    @property
    def request_limit(self) -> int:
        """How many calls the session accepts at a time."""
        return self.session.options.max_calls

    @property
    def awaiting_reply(self) -> bool:
        """Whether a call is pending."""
        return bool(self.session.calls)

    # -- requests ----------------------------------------------------------------------------

    def start_call(
        self, target: Any, arguments: Any, timeout_s: float, options: dict[str, Any]
    ) -> asyncio.Future[Result]:
        """Call `service/op`.

        Options: `info`, `trace`; `headers` and `session_info`, values by name; `xdata`, values or
        bytes by number, or pairs; `source`, an address or URL; `flags`, numbers from 128 on; `rows`
        of the application, each a row or a dict that describes one. They are sent with the first
        message of a request in parts.
        """
        return self._start(target, arguments, timeout_s, options, None)

    def _start(
        self,
        target: Any,
        arguments: Any,
        timeout_s: float,
        options: dict[str, Any],
        each: Callable[[Result], None] | None,
    ) -> asyncio.Future[Result]:
        flag = FlagType.REQUEST
        flags: tuple[int, ...] = _ASYNC
        more: list[Row] = []
        if options:  # most calls have none
            self.check_options(options)
            flag = FlagType.INFO if options.get("info") else FlagType.REQUEST
            flags = _ASYNC_TRACE if options.get("trace") else _ASYNC
            flags = (*flags, *options.get("flags", ()))
            more = _option_rows(options)
        where, parts = address_rows(target), _parts(arguments)
        session = self.begin_send()
        number: int | None = None
        try:
            for at, rows in enumerate(parts, 1):
                number = session.request(
                    [*where, *more, *rows],
                    flag=int(flag),
                    more_flags=flags,
                    timeout_s=timeout_s,
                    seq=(at, len(parts)) if len(parts) > 1 else None,
                    number=number,
                )
                more = []
        except SessionError as error:
            raise self.refused(error) from error
        assert number is not None  # there is at least one part
        self._open[number] = _Open(each)
        return self.wait_for(number)

    @classmethod
    def url_target(cls, addresses: Sequence[Where]) -> str:
        """Return the URL of the address: a HOST that is named is also sent (section 8).

        Of several servers none is meant more than the others, so no HOST is sent.
        """
        where = addresses[0]
        host = where.place if len(addresses) == 1 else "_"
        return f"esnp://{host}/{where.target}"

    @classmethod
    def target_timeout_s(cls, target: str) -> float | None:
        """Return the parameter `to`, which is in milliseconds."""
        limit_ms = _parse_target(target).timeout_ms
        return None if limit_ms is None else limit_ms / 1000

    def announce(self, target: Any, arguments: Any, options: dict[str, Any]) -> None:
        """Send an event, which has no reply; options as in `start_call`, without `info`."""
        self.check_options(options)
        flags = [Flag(value=each) for each in options.get("flags", ())]
        rows = [*flags, *address_rows(target), *_option_rows(options), *body_rows(arguments)]
        try:
            self.begin_send().announce(rows)
        except SessionError as error:
            raise self.refused(error) from error

    async def stream(
        self, target: Any, arguments: Any, timeout_s: float, options: dict[str, Any]
    ) -> AsyncIterator[Result]:
        """Call a service, and yield each part of its reply."""
        # Not bounded: while a reply is pending the socket is always read.
        parts: asyncio.Queue[Result | None] = asyncio.Queue()
        done = self._start(target, arguments, timeout_s, options, parts.put_nowait)
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
                self.fail(number, self._no_answer(code))
            case Traced(id=int() as number, text=text) if number in self._open:
                self._open[number].traces.append(text)
            case Announced(message=message):
                self._take_event(message)
            case Requested(call=call):
                if self.on_request is None:
                    self.session.answer(call, error="this client has no services")
                else:
                    self.on_request(call)

    def _take_answer(self, event: Answered) -> None:
        number, call = event.id, self._open.get(event.id)
        if call is None:
            return
        if event.error is not None:
            del self._open[number]
            self.fail(number, _failure(event.error))
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
        else:
            target = f"{where.service or '_'}/{where.op or '_'}"
            self.owner.pushed(Push(target, read_body((message,))[0], message))

    def _no_answer(self, code: str) -> ClientError:
        if code == "timeout":
            return Timeout("no reply in time")
        if code == "connection_lost":
            return self.no_reply()
        return Failure(code, "the answer is too large")


def _failure(text: str) -> Failure:
    """Return the error for the text of an ERROR row."""
    busy = busy_reason(text)
    return Failure(NO_CODE, text) if busy is None else Busy(*busy)


def _version(given: Any) -> Version:
    """Return the VERSION row of four numbers, given as a tuple or as text such as 1.0.0.0."""
    try:
        numbers = [int(part) for part in (given.split(".") if isinstance(given, str) else given)]
        if len(numbers) != 4 or not all(0 <= each <= 0xFF for each in numbers):
            raise ValueError
    except (TypeError, ValueError) as error:
        raise BadOption(
            lambda name: invalid(name("version"), given, "four numbers from 0 to 255")
        ) from error
    return Version(major=numbers[0], minor=numbers[1], branch=numbers[2], variant=numbers[3])


def _result(messages: Iterable[Message], last: Message, call: _Open) -> Result:
    body, data = read_body(messages)
    parts = max(1, len(call.messages))
    return Result(body, data, message=last, traces=tuple(call.traces), parts=parts)


# -- the typed client ----------------------------------------------------------------------------

EsnpArguments: TypeAlias = (
    Mapping[str, Any] | bytes | tuple[Mapping[str, Any], bytes] | list[Any] | None
)
"""Arguments of a call: values by name, bytes, or a pair of both; a list is a request in parts."""


class EsnpFields(TypedDict, total=False):
    """Fields of a call beside its target and arguments; see `EsnpConnection.start_call`."""

    headers: Mapping[str, Any]
    session_info: Mapping[str, Any]
    xdata: Mapping[int, Any] | Sequence[tuple[int, Any]]
    source: str
    flags: Sequence[int]
    rows: Sequence[Any]


class EsnpClient(CallClient):
    """A client of ESNP: `connect("esnp://host", EsnpClient)`."""

    protocol: ClassVar[str | None] = EsnpConnection.protocol

    async def call(
        self,
        target: str,
        arguments: EsnpArguments = None,
        *,
        timeout_s: float | None = None,
        idempotent: bool = False,
        trace: bool = False,
        **fields: Unpack[EsnpFields],
    ) -> Result:
        """Call `service/op` and return its result; see `Client.call`."""
        options = cast(dict[str, Any], fields)
        if trace:
            options["trace"] = True
        return await self._call(target, arguments, timeout_s, idempotent, options)

    async def info(
        self,
        target: str,
        arguments: EsnpArguments = None,
        *,
        timeout_s: float | None = None,
        idempotent: bool = False,
        **fields: Unpack[EsnpFields],
    ) -> Result:
        """Call `service/op` as an INFO."""
        given = {"info": True, **fields}
        return await self._call(target, arguments, timeout_s, idempotent, given)

    async def announce(
        self, target: str, arguments: EsnpArguments = None, **fields: Unpack[EsnpFields]
    ) -> None:
        """Send an event, which has no reply."""
        await self._announce(target, arguments, cast(dict[str, Any], fields))

    def stream(
        self,
        target: str,
        arguments: EsnpArguments = None,
        *,
        timeout_s: float | None = None,
        **fields: Unpack[EsnpFields],
    ) -> AsyncIterator[Result]:
        """Call a service that replies in parts, and yield each part."""
        return self._stream(target, arguments, timeout_s, cast(dict[str, Any], fields))
