"""A process that offers services over ESNP: the hub's requests to it, and their answers.

ESNP is symmetric: after `hub/serve`, the hub sends requests on the connection that the process has
dialled. `docs/guides/services-wire.md` describes them; the names of HEADERs and events are in
`wirelake.protocols.hub_calls`.

    request      the rows of an ESNP call, or the values of a JSON body as DATA rows; HEADERs say
                 who calls and how long the hub waits
    cancel       an event: nobody waits any more. The process answers all the same
    more         an event: more parts of a stream may be sent

A process has a bounded number of calls. A cancelled call counts until it is answered, so that a
process that works on it is not given more; after `_CANCEL_S` the hub stops waiting. A stream may be
at most `_WINDOW` parts ahead of its caller. With large parts that is a lot: when those of one
process exceed `_HELD_BYTES`, the call that gets another one fails, instead of the process with all
of its calls (`Limits.buffered_bytes_per_client`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from wirelake.protocols.esnp.endpoint import Answered, CallFailed
from wirelake.protocols.esnp.layout import (
    Address,
    AddressKind,
    BrokenRow,
    Data,
    FlagType,
    Header,
    Message,
    Payload,
    Row,
    XData,
)
from wirelake.protocols.esnp.message import seq
from wirelake.protocols.esnp.values import data_rows, value_of, values_of, var_of
from wirelake.protocols.hub_calls import (
    CALLER_HEADERS,
    CANCEL,
    CLIENT_HEADER,
    CODE_HEADER,
    HUB_SERVICE,
    KIND_HEADER,
    MORE,
    PROTOCOL_HEADER,
    SERVICE_CODES,
    TIMEOUT_HEADER,
    WINDOW_HEADER,
)
from wirelake.protocols.sansio import Event, SessionError
from wirelake.wire.errors import EncodeError

from ..errors import HubError
from ..rpc.call_types import Reply, Result
from ..rpc.offers import ProvidedCall

if TYPE_CHECKING:
    from wirelake.protocols.esnp.session import EsnpSession

    from ..net.context import HubContext
    from ..pubsub.subscriptions import Client

__all__ = ["EsnpProvider", "header_value"]

_WINDOW: Final = 16
"""Parts of a stream that may be under way: a round trip per eight of them."""
_HELD_BYTES: Final = 32 << 20
"""Bytes of parts that callers have not taken: half of what the connections of a client may keep."""
_CHECKED_BYTES: Final = 1 << 20
"""Bytes of one call from which on those of all calls are added up: few calls have as many."""
_CANCEL_S: Final = 10.0
"""How long a process may take to answer a cancelled call."""
_NEVER_S: Final = 1e9
"""Timeout of the session: the deadlines are kept here, because those of a stream move."""
_ASYNC: Final = (int(FlagType.ASYNC),)
_BODY: Final = frozenset({Data, Payload, XData})
_OK: Final = "ok"


class _Connection(Protocol):
    """The connection of a process."""

    hub: HubContext
    client: Client | None
    peer: tuple[str, int]
    paused_since: float
    session: EsnpSession

    @property
    def open(self) -> bool: ...

    def react(self) -> None: ...


class _Sent:
    """A call that was sent, and what has come back."""

    __slots__ = ("allowed", "changed", "error", "parts", "received", "size", "timer")

    def __init__(self) -> None:
        self.parts: deque[tuple[Message, bool, int]] = deque()
        """Messages that nobody has taken yet: whether it is the last, and its size."""
        self.size = 0
        """Their bytes."""
        self.received = 0
        self.allowed = _WINDOW
        """How many parts may be received."""
        self.error: HubError | None = None
        self.changed: asyncio.Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        """Set when the call is cancelled."""

    def wake(self) -> None:
        """Wake up who waits for something to come back."""
        if self.changed is not None and not self.changed.done():
            self.changed.set_result(None)

    async def next(self) -> tuple[Message, bool, int]:
        """Return the next message; HubError when there will be none."""
        while not self.parts:
            if self.error is not None:
                raise self.error
            self.changed = asyncio.get_running_loop().create_future()
            await self.changed
        part = self.parts.popleft()
        self.size -= part[2]
        return part


class EsnpProvider:
    """The process at the other end of a connection."""

    def __init__(self, connection: _Connection):
        self._connection = connection
        self._calls: dict[int, _Sent] = {}
        self._wanted = 1
        self._outcomes = connection.hub.counters.provided

    # -- what `Offers` needs to know ---------------------------------------------------------

    @property
    def name(self) -> str:
        """The id of its client."""
        client = self._connection.client
        return "" if client is None else client.id

    @property
    def peer(self) -> str:
        """Its address, as `host:port`."""
        return "{}:{}".format(*self._connection.peer)

    @property
    def running(self) -> int:
        """Calls without an answer, cancelled ones included."""
        return len(self._calls)

    @property
    def limit(self) -> int:
        """How many there may be."""
        return min(self._wanted, self._connection.hub.limits.service_calls)

    @property
    def has_room(self) -> bool:
        """Whether it can take one more: it has a place, and reads what it is sent."""
        connection = self._connection
        return len(self._calls) < self.limit and connection.open and not connection.paused_since

    @property
    def held_bytes(self) -> int:
        """Bytes of answers that nobody has taken yet."""
        return sum(each.size for each in self._calls.values())

    @property
    def unexpected(self) -> int:
        """Answers to no call: second ones, and those that came too late."""
        return self._connection.session.warnings["unexpected_reply"]

    def may_serve(self, name: str) -> bool:
        """Return whether its client has the right to offer `service/op` now."""
        # Asked for every call: a reload of the rights needs no second list of providers.
        client = self._connection.client
        return client is not None and client.rights is not None and client.rights.may_serve(name)

    def accept(self, calls: int) -> int:
        """Note how many calls it takes at a time; return how many it gets."""
        self._wanted = calls
        return self.limit

    # -- calls -------------------------------------------------------------------------------

    async def call(self, request: ProvidedCall) -> Result:
        """Send a call and return its result; HubError."""
        number, sent = self._send(request)
        outcome = "cancelled"
        try:
            async with asyncio.timeout(request.timeout_s) as clock:
                result = await self._result(request, number, sent, clock)
            outcome = _OK
            return result
        except TimeoutError:
            outcome = "timeout"
            text = f"{request.offer.name!r} did not answer within {request.timeout_s:g} s"
            raise HubError("timeout", text) from None
        except HubError as error:
            outcome = error.code if error.code == "lost" else "failed"
            raise
        finally:
            self._outcomes[outcome] += 1
            self._release(number, sent)

    def _send(self, request: ProvidedCall) -> tuple[int, _Sent]:
        session = self._connection.session
        try:
            rows = _request_rows(request)
            number = session.request(rows, more_flags=_ASYNC, timeout_s=_NEVER_S)
        except EncodeError as error:
            raise HubError("bad_arguments", f"cannot be encoded in ESNP: {error}") from None
        except SessionError as error:
            if error.code == "too_large":
                raise HubError("too_large", "the request exceeds the size of a message") from None
            raise HubError("unavailable", f"{request.offer.name!r}: {error}") from None
        sent = self._calls[number] = _Sent()
        self._connection.react()
        return number, sent

    async def _result(
        self, request: ProvidedCall, number: int, sent: _Sent, clock: asyncio.Timeout
    ) -> Result:
        """Wait for the answer; the parts of a stream go to the caller, or into a list."""
        give, collected, size = request.call.part, [], 0
        loop = asyncio.get_running_loop()
        while True:
            message, last, length = await sent.next()
            numbers = seq(message)
            result = self._result_of(message)
            if numbers is None:
                return result
            # The last part may be the last item, or only the end.
            is_item = result is not None or not last
            if give is None:
                size += length
                if size > self._connection.session.options.message_limit:
                    raise HubError("too_large", "the parts of the answer exceed the largest answer")
                if is_item:
                    collected.append(_plain(result))
            elif is_item:
                # A slow caller takes none of the time that the service has.
                clock.reschedule(None)
                await give(result)
            if last:
                return collected if give is None else None
            clock.reschedule(loop.time() + request.timeout_s)
            self._allow_more(number, sent)

    def _allow_more(self, number: int, sent: _Sent) -> None:
        """Let the process send more parts when half of the window is used."""
        ahead = sent.allowed - sent.received + len(sent.parts)
        if ahead <= _WINDOW // 2 and number in self._calls and self._connection.open:
            sent.allowed = sent.received - len(sent.parts) + _WINDOW
            self._tell(MORE, {"id": number, "parts": sent.allowed})
            self._connection.react()

    def _result_of(self, message: Message) -> Result:
        """Return the result of a reply; HubError for an error, and for rows that are broken."""
        rows = message.rows
        for row in rows:
            if isinstance(row, BrokenRow):
                self._outcomes["bad_reply"] += 1
                where = f"{row.code} in {row.field} at byte {row.offset}"
                raise HubError("failed", f"the service sent a broken row: {where}")
        values = values_of(rows)
        payload = [row.data for row in rows if type(row) is Payload]
        others = tuple([row for row in rows if type(row) is XData or _is_own_header(row)])
        if others or (values and payload):
            return Reply(data=values or None, payload=b"".join(payload) or None, rows=others)
        return values or (b"".join(payload) if payload else None)

    def _release(self, number: int, sent: _Sent) -> None:
        """Stop waiting for a call; if it is not answered, tell the process."""
        sent.parts.clear()
        sent.size = 0
        if not self._connection.open:
            self._calls.pop(number, None)
        elif number in self._calls and sent.timer is None:
            self._cancel(number, sent)
            self._connection.react()

    def _cancel(self, number: int, sent: _Sent) -> None:
        sent.timer = self._connection.hub.loop.call_later(_CANCEL_S, self._forget, number)
        self._tell(CANCEL, {"id": number})

    def _forget(self, number: int) -> None:
        """Free the place of a cancelled call that is not answered."""
        if self._calls.pop(number, None) is not None and self._connection.open:
            self._connection.session.abandon(number)

    def _tell(self, op: str, values: Mapping[str, Any]) -> None:
        """Send an event; `react` has to follow."""
        self._connection.session.announce([*_address(HUB_SERVICE, op), *data_rows(values)])

    # -- what comes back ---------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Take an answer, or the end of a call, from the session."""
        match event:
            case Answered(id=number) if number in self._calls:
                self._answered(number, event)
            case CallFailed(id=number, code=code) if number in self._calls:
                self._end(number, self._failure(code))

    def _answered(self, number: int, event: Answered) -> None:
        sent = self._calls[number]
        if event.last:
            self._end(number, None)
        if sent.timer is not None or sent.error is not None:  # cancelled: nobody takes it
            return
        if event.error is not None:
            sent.error = _error_of(event)
        else:
            sent.received += 1
            sent.parts.append((event.message, event.last, len(event.raw)))
            sent.size += len(event.raw)
            sent.error = self._excess(sent, event)
            if sent.error is not None:
                # The caller may be blocked and learn it late; the process and the memory are not.
                # The connection reacts after all events.
                sent.parts.clear()
                sent.size = 0
                if not event.last:
                    self._cancel(number, sent)
        sent.wake()

    def _excess(self, sent: _Sent, event: Answered) -> HubError | None:
        """Return the error when there are too many parts that nobody has taken, or too large
        ones."""
        if sent.received > sent.allowed and not event.last:
            self._outcomes["bad_reply"] += 1
            text = f"the service sent more than {sent.allowed} parts without waiting"
            return HubError("failed", text)
        large = sent.size > _CHECKED_BYTES and len(sent.parts) > 1
        if large and self.held_bytes > _HELD_BYTES:
            return HubError("too_busy", "the stream is too fast for its reader")
        return None

    def _end(self, number: int, error: HubError | None) -> None:
        """Free the place of a call."""
        sent = self._calls.pop(number)
        if sent.timer is not None:
            sent.timer.cancel()
        if error is not None and sent.error is None:
            sent.error = error
            sent.wake()

    def _failure(self, code: str) -> HubError:
        if code == "connection_lost":
            return HubError("lost", f"{self.name!r} was lost during the call: it may have run")
        self._outcomes["bad_reply"] += 1
        return HubError("failed", f"the service sent an answer that is not valid: {code}")

    def lost(self) -> None:
        """Fail every call: the connection is closed."""
        for number in tuple(self._calls):
            self._end(number, self._failure("connection_lost"))


# -- rows ------------------------------------------------------------------------------------------


def _address(service: str, op: str) -> tuple[Row, ...]:
    return (
        Address(kind=AddressKind.SERVICE, value=service),
        Address(kind=AddressKind.OP, value=op),
    )


def _request_rows(request: ProvidedCall) -> list[Row]:
    """Return the rows of a request; EncodeError for values that ESNP has no type for."""
    call, offer = request.call, request.offer
    service, _, op = offer.name.partition("/")
    headers: dict[str, Any] = {
        CLIENT_HEADER: "" if call.client is None else call.client.id,
        PROTOCOL_HEADER: call.protocol,
        TIMEOUT_HEADER: max(1, round(request.timeout_s * 1000)),
        WINDOW_HEADER: _WINDOW,
    }
    if call.is_event or call.is_info:
        headers[KIND_HEADER] = "event" if call.is_event else "info"
    rows: list[Row] = list(_address(service, op))
    rows += [Header(name=name, value=var_of(value)) for name, value in headers.items()]
    if call.rows:
        return rows + _passed_on(call.rows)
    rows += data_rows(request.values)
    if call.body and (offer.body or not offer.values):
        rows.append(Payload(data=call.body))
    return rows


def _passed_on(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of a caller that the service gets."""
    return [row for row in rows if type(row) in _BODY or _is_own_header(row)]


def _is_own_header(row: Row) -> bool:
    """Return whether this is a HEADER of the application."""
    return type(row) is Header and row.name not in CALLER_HEADERS


def header_value(rows: Iterable[Row], name: str) -> Any:
    """Return the value of the first HEADER with this name; None without one."""
    for row in rows:
        if type(row) is Header and row.name == name:
            return value_of(row.value)
    return None


def _error_of(event: Answered) -> HubError:
    """Return the error of an error reply."""
    code = header_value(event.message.rows, CODE_HEADER)
    known = isinstance(code, str) and code in SERVICE_CODES
    return HubError(str(code) if known else "failed", event.error or "")


def _plain(result: Result) -> Any:
    """Return a part as an item of a JSON list."""
    if not isinstance(result, Reply):
        return result
    if result.payload is None:
        return result.data
    return {**(result.data or {}), "payload_base64": result.payload}
