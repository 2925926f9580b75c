"""The sending half of a tny message connection: requests, responses, pushes and ticks.

Implements §2, §3 and §6 of the tny rules for what is sent; `endpoint.py` is the receiving half.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import ClassVar

from wirelake.wire.errors import EncodeError

from ..sansio import Event, Role, Session, SessionError, Side
from .layout import Message, Mode
from .limits import SessionOptions
from .message import Calls, Header, ResultCode, answered_id, response_to
from .packets import PING, DialectState, PacketReader, PacketWriter

__all__ = [
    "CallFailed",
    "DialectSeen",
    "HandedOn",
    "NumbersLow",
    "Pinged",
    "Ponged",
    "Pushed",
    "Replied",
    "Requested",
    "Sender",
    "Unmatched",
]


# What happens on a tny message connection, as events of its sessions (§3, §6, §11).


class Requested(Event, frozen=True, gc=False):
    """The peer asks: answer with `respond`, or say `release` if there will be no answer.

    `headers` are the headers of dialect upstream, decoded; the seed dialect's one header is
    `message.forward_header`, bytes.
    """

    message: Message
    headers: tuple[Header, ...] = ()


class HandedOn(Event, frozen=True, gc=False):
    """A gateway's user says something: `raw` is the Message as it came. A request waits for an
    answer, as `Requested` does."""

    message: Message
    raw: bytes


class Replied(Event, frozen=True, gc=False):
    """The peer answered a request of ours."""

    request: Message
    response: Message
    headers: tuple[Header, ...] = ()


class Pushed(Event, frozen=True, gc=False):
    """The peer tells something and wants no answer."""

    message: Message
    headers: tuple[Header, ...] = ()


class Unmatched(Event, frozen=True, gc=False):
    """A response that answers nothing, or too late; a `Failed` goes before it."""

    message: Message


class CallFailed(Event, frozen=True, gc=False):
    """A request of ours gets no response: `timeout`, or `connection_lost`."""

    request: Message
    code: str


class Pinged(Event, frozen=True, gc=False):
    """A ping came, and was answered."""


class Ponged(Event, frozen=True, gc=False):
    """A pong came."""


class DialectSeen(Event, frozen=True, gc=False):
    """Dialect `auto`: the peer's tick has shown its dialect."""

    dialect: str


class NumbersLow(Event, frozen=True, gc=False):
    """This many packets more, then the connection closes: reconnect (§3)."""

    left: int


class Sender(Session):
    """The sending half of an `Endpoint`, with the state that both halves share."""

    FIRST: ClassVar[str] = "new"
    options: SessionOptions

    def __init__(
        self,
        role: Role,
        options: SessionOptions,
        *,
        access_id: int,
        first_id: int,
        epoch_ms: int,
        random: Callable[[int], bytes] | None,
        now: float,
    ):
        super().__init__(role, now=now)
        self.options = options
        self.next_id = first_id
        """The id of the next message; a new session of the same peers goes on with it."""
        self.last_code: int | None = None
        """The last code that came and that announces a close."""
        self._own_access_id = access_id
        self._epoch_ms = epoch_ms
        self._dialect = DialectState(options.dialect)
        self._reader = PacketReader(self._dialect, options)
        self._writer = PacketWriter(self._dialect, options, random)
        self._calls = Calls()
        self._asked: dict[int, int] = {}  # by what ToMessage of the response will be
        self._asked_count = 0
        self._owes_tail = False
        self._packet_at = 0
        self._is_plain = self._reader.is_plain
        self._quiet_from_now("idle", options.idle_limit_s)
        self._quiet_from_now("ping", options.ping_interval_s)

    @property
    def dialect(self) -> str:
        """The current dialect; in `auto` the peer's, once it is known."""
        return self._dialect.current

    @property
    def peer_access_id(self) -> int | None:
        """The AccessId of the peer's first message; later ones are ignored."""
        return self._reader.access_id

    @property
    def in_flight(self) -> int:
        """Own requests that wait for their response."""
        return len(self._calls)

    @property
    def pending(self) -> int:
        """The peer's requests that wait for ours."""
        return self._asked_count

    # -- the application's side --------------------------------------------------------------

    def accept(self, max_payload: int | None) -> None:
        """Change how large a payload the peer may send; None for the dialect's own limit. A server
        wants little of a peer that it does not know yet."""
        self._reader.accept(max_payload)

    def request(
        self,
        protocol: int,
        body: bytes | None = None,
        *,
        line: int = 0,
        forward_header: bytes | None = None,
        headers: tuple[bytes, ...] | None = None,
        timeout_s: float | None = None,
        now: float | None = None,
    ) -> int:
        """Asks; `Replied` or `CallFailed` follows. Returns the id of the request."""
        self._at(now)
        message = Message(
            id=self.next_id,
            protocol=protocol,
            time=self._time_ms(),
            body=body,
            line=line,
            forward_header=forward_header,
            headers=headers,
        )
        return self.send(message, timeout_s=timeout_s).id

    def push(
        self,
        protocol: int,
        body: bytes | None = None,
        *,
        code: int = ResultCode.SUCCESS,
        line: int = 0,
        forward_header: bytes | None = None,
        headers: tuple[bytes, ...] | None = None,
        now: float | None = None,
    ) -> int:
        """Return something that wants no answer. Returns its id."""
        self._at(now)
        message = Message(
            id=self.next_id,
            mode=Mode.PUSH,
            protocol=protocol,
            code=code,
            time=self._time_ms(),
            body=body,
            line=line,
            forward_header=forward_header,
            headers=headers,
        )
        return self.send(message).id

    def respond(
        self,
        request: Message,
        body: bytes | None = None,
        *,
        code: int = ResultCode.SUCCESS,
        headers: tuple[bytes, ...] | None = None,
        now: float | None = None,
    ) -> int:
        """Answer a request on its line. Headers go back as they came, unless others are given."""
        self._at(now)
        message = self._response(request, code, body, headers)
        if message.to_message not in self._asked:
            raise SessionError("bad_state", f"request {request.id} is not waiting for a response")
        self._put(message)
        self._answered(message.to_message)
        self._after_write(message)
        return message.id

    def relay(self, message: Message, raw: bytes, now: float | None = None) -> None:
        """Send a response or a push that somebody else has written; `raw` is its bytes."""
        self._at(now)
        if message.mode == Mode.REQUEST:
            raise SessionError(
                "bad_state", "cannot relay a request: nobody would receive its response"
            )
        self._need_number()
        try:
            data = self._writer.content(raw, self._access_id_to_write())
        except EncodeError as error:
            raise SessionError(error.code, str(error)) from error
        self._written(data, message)
        if message.mode == Mode.RESPONSE:
            self._answered(message.to_message)
        self._after_write(message)

    def release(self, request: Message) -> None:
        """This request will get no answer."""
        self._answered(answered_id(request))

    def send(
        self, message: Message, *, timeout_s: float | None = None, now: float | None = None
    ) -> Message:
        """Send a message as it is, forward header and all; an id or a time of 0 is filled in."""
        self._at(now)
        is_request = message.mode == Mode.REQUEST
        if is_request and len(self._calls) >= self.options.max_in_flight:
            raise SessionError(
                "too_busy", f"{self.options.max_in_flight} requests are already in flight"
            )
        message = self._stamped(message)
        self._put(message)
        if is_request:
            self._await(message, timeout_s)
        elif message.mode == Mode.RESPONSE:
            self._answered(message.to_message)
        self._after_write(message)
        return message

    def ping(self, now: float | None = None) -> None:
        """Ask whether the peer is there; it says `Ponged`."""
        self._at(now)
        self._must("send tick")
        self._owes_tail = False
        self._write(PING[self._dialect.current])

    def close(self, reason: str = "done") -> None:
        """End the connection; tny has no word for it, so the transport just closes."""
        self._close(reason, Side.LOCAL, clean=not self._calls)

    # -- writing -----------------------------------------------------------------------------

    def _at(self, now: float | None) -> None:
        if now is not None:
            self._advance(now)

    def _time_ms(self) -> int:
        return self._epoch_ms + int(self.now * 1000)

    def _stamped(self, message: Message) -> Message:
        if message.id and message.time:
            return message
        return Message(
            id=message.id or self.next_id,
            reserved=message.reserved,
            line=message.line,
            mode=message.mode,
            protocol=message.protocol,
            code=message.code,
            to_message=message.to_message,
            time=message.time or self._time_ms(),
            forward_header=message.forward_header,
            headers=message.headers,
            body=message.body,
        )

    def _response(
        self,
        request: Message,
        code: int,
        body: bytes | None = None,
        headers: tuple[bytes, ...] | None = None,
    ) -> Message:
        return response_to(
            request,
            id=self.next_id,
            code=code,
            time=self._time_ms(),
            upstream=self._dialect.current == "upstream",
            body=body,
            headers=headers,
        )

    def _send_own(self, message: Message) -> None:
        """What the session itself answers: best effort, it may not fit the limits."""
        with contextlib.suppress(SessionError):
            self._put(message)
            self._after_write(message)

    def _put(self, message: Message) -> None:
        self._need_number()
        self._written(self._writer.message(message, self._access_id_to_write()), message)

    def _access_id_to_write(self) -> int:
        """Return the access id to write: the first packet's stays."""
        access_id = self._writer.access_id
        return self._access_id() if access_id is None else access_id

    def _need_number(self) -> None:
        if "send message" not in self._table[self.state]:
            raise SessionError("bad_state", f"cannot send a message in state {self.state}")
        if self._writer.number >= self.options.max_number:
            raise SessionError("int_range", "packet numbers exhausted; reconnect")

    def _written(self, data: bytes, message: Message) -> None:
        self.state = self._table[self.state]["send message"]
        self._owes_tail = False
        if message.id >= self.next_id:
            self.next_id = message.id + 1
        self._write(data)

    def _access_id(self) -> int:
        return self._own_access_id

    def _after_write(self, message: Message) -> None:  # noqa: ARG002 - a server looks at it
        self._check_numbers()

    def _check_numbers(self) -> None:
        left = self.options.max_number - self._writer.number
        if left > self.options.numbers_low:
            return
        if left == self.options.numbers_low and left:
            self._emit(NumbersLow(left))
        if left <= 0:
            self._close("numbers_used_up", Side.LOCAL, clean=not self._calls)

    def _await(self, request: Message, timeout_s: float | None) -> None:
        wait = self.options.request_timeout_s if timeout_s is None else timeout_s
        deadline = self.now + wait
        self._calls.add(request, deadline)
        armed = self.timers.at("reply")
        if armed is None or deadline < armed:
            self.timers.set("reply", deadline)

    def _answered(self, awaited: int) -> None:
        waiting = self._asked.pop(awaited, 0)
        if waiting > 1:
            self._asked[awaited] = waiting - 1
        if waiting:
            self._asked_count -= 1

    def _quiet_from_now(self, name: str, seconds: float | None) -> None:
        if seconds is not None:
            self.timers.set(name, self.now + seconds)
