"""One end of a tny message connection: its events, what it sends, and how it acts on packets.

`Endpoint` is the base of the client's and the server's session (`session.py`), because in tny both
ends may send requests. It implements §2, §3 and §6 of the tny rules (`docs/decisions/tny.md`);
bytes become packets in `packets.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, ClassVar, cast

from wirelake.wire.errors import DecodeError, EncodeError, NeedMore

from ..sansio import CLOSED, Event, Role, Session, SessionError, Side
from .layout import Dialect, Message, Mode, Packet, Ping, Pong
from .limits import SessionOptions
from .message import Calls, Header, ResultCode, answered_id, closes, decode_header, response_to
from .packets import PING, PONG, SKIPPED, TICK_TAIL, DialectState, PacketReader, PacketWriter

__all__ = [
    "CallFailed",
    "DialectSeen",
    "Endpoint",
    "Forwarded",
    "NumbersLow",
    "Pinged",
    "Ponged",
    "Pushed",
    "Replied",
    "Requested",
    "Unmatched",
    "open_state",
]


# -- events ----------------------------------------------------------------------------------------


class Requested(Event, frozen=True, gc=False):
    """A request of the peer: answer it with `respond`, or call `release` to leave it unanswered.

    `headers` are the headers of dialect upstream, decoded; the seed dialect's one header is
    `message.forward_header`, bytes.
    """

    message: Message
    headers: tuple[Header, ...] = ()


class Forwarded(Event, frozen=True, gc=False):
    """A message of a gateway's user; `raw` is the Message as received. A request waits for an
    answer, as with `Requested`."""

    message: Message
    raw: bytes


class Replied(Event, frozen=True, gc=False):
    """The peer answered a request of ours."""

    request: Message
    response: Message
    headers: tuple[Header, ...] = ()


class Pushed(Event, frozen=True, gc=False):
    """A push of the peer, which has no answer."""

    message: Message
    headers: tuple[Header, ...] = ()


class Unmatched(Event, frozen=True, gc=False):
    """A response without a matching request, or too late; a `Failed` precedes it."""

    message: Message


class CallFailed(Event, frozen=True, gc=False):
    """A request of ours gets no response: `timeout`, or `connection_lost`."""

    request: Message
    code: str


class Pinged(Event, frozen=True, gc=False):
    """A ping was received and answered."""


class Ponged(Event, frozen=True, gc=False):
    """A pong was received."""


class DialectSeen(Event, frozen=True, gc=False):
    """Dialect `auto`: the peer's tick has shown its dialect."""

    dialect: str


class NumbersLow(Event, frozen=True, gc=False):
    """Only this many packet numbers are left, then the connection closes: reconnect (§3)."""

    left: int


# -- the endpoint ----------------------------------------------------------------------------------

_ENDS = {"break a rule": CLOSED, "fall silent": CLOSED, "use up numbers": CLOSED, "close": CLOSED}


def open_state(state: str, **other: str) -> dict[str, str]:
    """Return the transitions of a state in which both ends may send messages."""
    usual = ("receive tick", "send tick", "receive message", "send message")
    changes = {name.replace("_", " "): after for name, after in other.items()}
    return {**dict.fromkeys(usual, state), **_ENDS, **changes}


class Endpoint(Session):
    """One end of a connection: the base of `ClientSession` and `ServerSession`."""

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
        """The id of the next message; a new session of the same peers continues with it."""
        self.last_code: int | None = None
        """The last received code that announces a close."""
        self._own_access_id = access_id
        self._epoch_ms = epoch_ms
        self._dialect = DialectState(options.dialect)
        self._reader = PacketReader(self._dialect, options)
        self._writer = PacketWriter(self._dialect, options, random)
        self._calls = Calls()
        self._unanswered: dict[int, int] = {}  # by what ToMessage of the response will be
        self._unanswered_count = 0
        self._pong_tail_due = False
        self._packet_at = 0
        self._is_plain = self._reader.is_plain
        self._restart_timer("idle", options.idle_limit_s)
        self._restart_timer("ping", options.ping_interval_s)

    @property
    def dialect(self) -> Dialect:
        """The current dialect; in `auto` the peer's, once it is known."""
        return self._dialect.current

    @property
    def peer_access_id(self) -> int | None:
        """The AccessId of the peer's first message; later ones are ignored."""
        return self._reader.access_id

    @property
    def in_flight(self) -> int:
        """Own requests without a response."""
        return len(self._calls)

    @property
    def pending(self) -> int:
        """The peer's requests without our response."""
        return self._unanswered_count

    # -- the application's side --------------------------------------------------------------

    def accept(self, max_payload: int | None) -> None:
        """Set the largest payload that the peer may send; None for the dialect's own limit.

        A server sets a small one until the peer is authenticated, so that strangers cannot make it
        buffer a megabyte each.
        """
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
        """Send a request; `Replied` or `CallFailed` follows. Return its id."""
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
        """Send a push. Return its id."""
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
        """Answer a request on its line, with its headers unless others are given."""
        self._at(now)
        message = self._response(request, code, body, headers)
        if message.to_message not in self._unanswered:
            raise SessionError("bad_state", f"request {request.id} is not waiting for a response")
        self._put(message)
        self._answered(message.to_message)
        self._after_write(message)
        return message.id

    def relay(self, message: Message, raw: bytes, now: float | None = None) -> None:
        """Send an encoded response or push of another server; `raw` is its bytes."""
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
        """Leave a request unanswered."""
        self._answered(answered_id(request))

    def send(
        self, message: Message, *, timeout_s: float | None = None, now: float | None = None
    ) -> Message:
        """Send a message unchanged, except that an id or a time of 0 is filled in."""
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
        """Send a ping; `Ponged` follows."""
        self._at(now)
        self._must("send tick")
        self._pong_tail_due = False
        self._write(PING[self._dialect.current])

    def close(self, reason: str = "done") -> None:
        """End the connection; tny has no close packet, so the transport just closes."""
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

    # Responses of the session itself (busy, errors) use `_send_own`; those of the application raise
    # a SessionError if they do not fit, so that it can send another one.
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
        """Send a response of the session itself, unless it does not fit the limits."""
        with contextlib.suppress(SessionError):
            self._put(message)
            self._after_write(message)

    def _put(self, message: Message) -> None:
        self._need_number()
        self._written(self._writer.message(message, self._access_id_to_write()), message)

    def _access_id_to_write(self) -> int:
        """Return the access id to write: that of our first packet, which fixes the keys (§3)."""
        access_id = self._writer.access_id
        return self._access_id() if access_id is None else access_id

    def _need_number(self) -> None:
        if "send message" not in self._table[self.state]:
            raise SessionError("bad_state", f"cannot send a message in state {self.state}")
        if self._writer.number >= self.options.max_number:
            raise SessionError("int_range", "packet numbers exhausted; reconnect")

    def _written(self, data: bytes, message: Message) -> None:
        self.state = self._table[self.state]["send message"]
        self._pong_tail_due = False
        if message.id >= self.next_id:
            self.next_id = message.id + 1
        self._write(data)

    def _access_id(self) -> int:
        return self._own_access_id

    def _after_write(self, message: Message) -> None:  # noqa: ARG002 - a server looks at it
        self._check_numbers()

    def _check_numbers(self) -> None:
        # The original's reader refuses everything after its number wraps (§3), so the connection
        # ends before. `NumbersLow` comes once, early enough to reconnect without losing calls.
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
        waiting = self._unanswered.pop(awaited, 0)
        if waiting > 1:
            self._unanswered[awaited] = waiting - 1
        if waiting:
            self._unanswered_count -= 1

    def _restart_timer(self, name: str, seconds: float | None) -> None:
        if seconds is not None:
            self.timers.set(name, self.now + seconds)

    # -- the peer's side ---------------------------------------------------------------------

    def _parse(self, buf: bytes) -> None:
        """Read packets without options, which nearly all are, by a shorter path than others."""
        pos = self._parse_plain(buf) if self._is_plain else 0
        if pos:
            self._consumed += pos
            buf = buf[pos:]
        if buf and self.state != CLOSED:
            super()._parse(buf)

    def _parse_plain(self, buf: bytes) -> int:
        """Handle the plain packets at the start of `buf`; return where they stop."""
        # Only while a received message leaves the state unchanged: then the table need not be
        # consulted for each packet. The first message of a connection takes the full path.
        pos, end, state = 0, len(buf), self.state
        if self._table[state].get("receive message") != state:
            return 0
        plain, limit = self._reader.plain, self._reader.limit
        try:
            while pos < end and self.state == state:
                found = plain(buf, pos, end, limit)
                if found is None:
                    break
                self._packet_at = self._consumed + pos
                self._dispatch(found[0])
                pos = found[1]
        except (DecodeError, NeedMore):
            pass  # the full path finds the error again and reports it
        if pos:
            self._pong_tail_due = False
            self._restart_timer("idle", self.options.idle_limit_s)
        return pos

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        return self._reader.frame(buf, pos, end)

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:  # noqa: ARG002
        self._packet_at = self._consumed + pos
        if self._dialect.changed:
            self._dialect.changed = False
            self._emit(DialectSeen(self._dialect.current))
        self._settle_tail(skipped=message is SKIPPED)
        if message is SKIPPED:
            return
        self._restart_timer("idle", self.options.idle_limit_s)
        packet = cast(Packet, message)
        if isinstance(packet.body, Ping):
            self._step("receive tick")
            self._emit(Pinged())
            self._pong()
        elif isinstance(packet.body, Pong):
            self._step("receive tick")
            self._emit(Ponged())
        else:
            self._open(packet, pos, stop)

    def _pong(self) -> None:
        """Answer a ping at once.

        Before the peer's dialect is known, send the five bytes that both forms share. If the peer
        then completes its own tick as seed does, `_settle_tail` sends the rest of ours (§8.1).
        """
        if self._dialect.seen is not None:
            self._write(PONG[self._dialect.seen])
            return
        self._write(PONG["upstream"])
        self._pong_tail_due = True

    def _settle_tail(self, *, skipped: bool) -> None:
        """Complete our pong if the peer's tick turned out to be one of the seed dialect."""
        if self._pong_tail_due and skipped and self._dialect.seen == "seed":
            self._write(TICK_TAIL)
        self._pong_tail_due = False

    def _open(self, packet: Packet, pos: int, stop: int) -> None:
        try:
            message = self._reader.open(packet, pos, stop)
        except DecodeError as error:
            if not self._keeps_going(error):
                raise
            self._fault(error)
            return
        self._step("receive message")
        self._dispatch(message)

    def _dispatch(self, message: Message) -> None:
        if message.mode == Mode.REQUEST:
            self._on_request(message)
        elif message.mode == Mode.RESPONSE:
            self._on_response(message)
        else:
            self._note_code(message)
            self._emit(Pushed(message, self._decoded(message)))

    def _keeps_going(self, error: DecodeError) -> bool:
        """Return whether only this packet is lost: its frame was complete, the next can be read."""
        # Code 156 is of level WARN in the original: it drops the packet and goes on (§7).
        if error.code == "verify_failed":
            return True
        return not self.options.strict and error.code == "reserved_value"

    def _on_request(self, message: Message) -> None:
        if self._accepts(message):
            self._events.append(Requested(message, self._decoded(message)))

    def _accepts(self, request: Message) -> bool:
        """Register a request for its answer; False if there are too many, and it was refused."""
        if self._unanswered_count >= self.options.max_pending:
            self._note("too_busy", detail=f"{self._unanswered_count} requests wait")
            self._send_own(self._response(request, ResultCode.SERVER_ERROR))
            return False
        # Counted, not a set: requests of several senders behind a forwarder may have the same id.
        awaited = request.id if request.headers is None else answered_id(request)
        self._unanswered[awaited] = self._unanswered.get(awaited, 0) + 1
        self._unanswered_count += 1
        return True

    def _on_response(self, message: Message) -> None:
        self._note_code(message)
        request = self._calls.take(message, same_protocol=self.options.strict)
        if request is None:
            self._note("unexpected_reply", detail=f"to message {message.to_message}")
            self._emit(Unmatched(message))
            return
        if not self._calls:
            self.timers.clear("reply")
        self._emit(Replied(request, message, self._decoded(message)))

    def _note_code(self, message: Message) -> None:
        if closes(message.code):
            self.last_code = message.code

    def _decoded(self, message: Message) -> tuple[Header, ...]:
        if not message.headers:
            return ()
        headers = []
        for data in message.headers:
            try:
                headers.append(decode_header(data))
            except DecodeError as error:
                # Other headers are unaffected, and the bytes stay in `message.headers` (§2).
                self._note(error.code, field=error.field, detail=error.detail)
        return tuple(headers)

    # -- endings -----------------------------------------------------------------------------

    def _note(self, code: str, *, field: str = "", detail: str = "") -> None:
        """Report a failure that affects only the current packet."""
        self._fail(code, field=field, offset=self._packet_at, detail=detail, fatal=False)

    def _fault(self, error: DecodeError) -> None:
        if error.offset is not None:
            error.offset += self._consumed
        self._fail_with(error, fatal=False)

    def _refuse(self, error: DecodeError) -> None:
        self._fail_with(error)
        self._close(error.code, Side.LOCAL, clean=False)

    def _eof(self, left: int) -> None:
        left += self._reader.skipping
        if left:
            self._fail("short", detail=f"{left} bytes of an incomplete packet at the end")
        reason = "eof" if self.last_code is None else f"code_{self.last_code}"
        self._close(reason, Side.REMOTE, clean=not left and not self._calls)

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        if self.state == CLOSED:
            return
        for request in self._calls.drain():
            self._emit(CallFailed(request, "connection_lost"))
        self._unanswered.clear()
        self._unanswered_count = 0
        super()._close(reason, side, clean=clean)

    def _timer(self, name: str) -> None:
        if name == "reply":
            for request in self._calls.expire(self.now):
                self._emit(CallFailed(request, "timeout"))
            if (deadline := self._calls.next_deadline()) is not None:
                self.timers.set("reply", deadline)
        elif name == "ping":
            self.ping()
            self._restart_timer("ping", self.options.ping_interval_s)
        elif name == "idle":
            self._fail("idle", detail="no data received within the idle limit")
            self._close("idle", Side.LOCAL, clean=False)
