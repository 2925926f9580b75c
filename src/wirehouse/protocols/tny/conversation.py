"""What both ends of a tny message connection do: ask, answer, push, tick, and give up.

Implements §2, §3, §6 and the lines and headers of §11 of the tny rules; `session.py` has the two
roles. Either end may ask. Time stands still between calls: see `session.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, ClassVar, cast

from wirehouse.protocols.sansio import CLOSED, Role, Session, SessionError, Side
from wirehouse.wire.errors import DecodeError

from .calls import Calls, answered_id
from .events import (
    CallFailed,
    DialectSeen,
    NumbersLow,
    Pinged,
    Ponged,
    Pushed,
    Replied,
    Requested,
    Unmatched,
)
from .headers import Header, decode_header
from .layout import Message, Mode, Packet, Ping, Pong
from .limits import SessionOptions
from .packets import PING, PONG, SKIPPED, TICK_TAIL, PacketReader, PacketWriter, Speech
from .results import ResultCode, closes

__all__ = ["Conversation", "speaking"]

_ENDS = {"break a rule": CLOSED, "fall silent": CLOSED, "use up numbers": CLOSED, "close": CLOSED}


def speaking(state: str, **other: str) -> dict[str, str]:
    """What may happen in a state in which both ends may speak."""
    usual = ("receive tick", "send tick", "receive message", "send message")
    changes = {name.replace("_", " "): after for name, after in other.items()}
    return {**dict.fromkeys(usual, state), **_ENDS, **changes}


class Conversation(Session):
    """One end of a connection; `ClientSession` and `ServerSession` say which."""

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
        self._speech = Speech(options.dialect)
        self._reader = PacketReader(self._speech, options)
        self._writer = PacketWriter(self._speech, options, random)
        self._calls = Calls()
        self._asked: dict[int, int] = {}  # by what ToMessage of the response will be
        self._asked_count = 0
        self._owes_tail = False
        self._packet_at = 0
        self._quiet_from_now("idle", options.idle_limit_s)
        self._quiet_from_now("ping", options.ping_interval_s)

    @property
    def dialect(self) -> str:
        """The dialect that is spoken now; in `auto` the peer's, once it is seen."""
        return self._speech.current

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
        """Tells something that wants no answer. Returns its id."""
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
        """Answers a request on its line. Headers go back as they came, unless others are given."""
        self._at(now)
        message = self._response(request, code, body, headers)
        if message.to_message not in self._asked:
            raise SessionError("bad_state", f"request {request.id} waits for no answer")
        return self.send(message).id

    def release(self, request: Message) -> None:
        """This request will get no answer."""
        self._answered(answered_id(request))

    def send(
        self, message: Message, *, timeout_s: float | None = None, now: float | None = None
    ) -> Message:
        """Sends a message as it is, forward header and all; an id or a time of 0 is filled in."""
        self._at(now)
        is_request = message.mode == Mode.REQUEST
        if is_request and len(self._calls) >= self.options.max_in_flight:
            raise SessionError("too_busy", f"{self.options.max_in_flight} requests wait already")
        message = self._stamped(message)
        self._put(message)
        if is_request:
            self._await(message, timeout_s)
        elif message.mode == Mode.RESPONSE:
            self._answered(message.to_message)
        self._after_write(message)
        return message

    def ping(self, now: float | None = None) -> None:
        """Asks whether the peer is there; it says `Ponged`."""
        self._at(now)
        self._must("send tick")
        self._owes_tail = False
        self._write(PING[self._speech.current])

    def close(self, reason: str = "done") -> None:
        """Ends the connection; tny has no word for it, so the transport just closes."""
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
        upstream = self._speech.current == "upstream"
        return Message(
            id=self.next_id,
            mode=Mode.RESPONSE,
            protocol=request.protocol,
            code=code,
            to_message=answered_id(request),
            time=self._time_ms(),
            body=body,
            line=request.line,
            forward_header=None if upstream else request.forward_header,
            headers=headers if headers is not None or not upstream else request.headers,
        )

    def _say(self, message: Message) -> None:
        """What the session itself answers: best effort, it may not fit the limits."""
        with contextlib.suppress(SessionError):
            self._put(message)
            self._after_write(message)

    def _put(self, message: Message) -> None:
        if "send message" not in self._table[self.state]:
            raise SessionError("bad_state", f"no message can be sent when {self.state}")
        if self._writer.number >= self.options.max_number:
            raise SessionError("int_range", "no packet number is left: reconnect")
        data = self._writer.message(message, self._access_id())
        self._step("send message")
        self._owes_tail = False
        self.next_id = max(self.next_id, message.id + 1)
        self._write(data)

    def _access_id(self) -> int:
        return self._own_access_id

    def _after_write(self, message: Message) -> None:  # noqa: ARG002 - a server looks at it
        self._check_numbers()

    def _check_numbers(self) -> None:
        left = self.options.max_number - self._writer.number
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

    # -- the peer's side ---------------------------------------------------------------------

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        return self._reader.frame(buf, pos, end)

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:  # noqa: ARG002
        self._packet_at = self._consumed + pos
        if self._speech.changed:
            self._speech.changed = False
            self._emit(DialectSeen(self._speech.current))
        self._settle_tail(skipped=message is SKIPPED)
        if message is SKIPPED:
            return
        self._quiet_from_now("idle", self.options.idle_limit_s)
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
        """At once. Before the peer's form is known, the five bytes that both forms share."""
        if self._speech.seen is not None:
            self._write(PONG[self._speech.seen])
            return
        self._write(PONG["upstream"])
        self._owes_tail = True

    def _settle_tail(self, *, skipped: bool) -> None:
        """The rest of the peer's tick came: give ours its rest too, if it has one."""
        if self._owes_tail and skipped and self._speech.seen == "seed":
            self._write(TICK_TAIL)
        self._owes_tail = False

    def _open(self, packet: Packet, pos: int, stop: int) -> None:
        try:
            message = self._reader.open(packet, pos, stop)
        except DecodeError as error:
            if not self._keeps_going(error):
                raise
            self._fault(error)
            return
        self._step("receive message")
        if message.mode == Mode.REQUEST:
            self._take_request(message)
        elif message.mode == Mode.RESPONSE:
            self._take_response(message)
        else:
            self._note_code(message)
            self._emit(Pushed(message, self._decoded(message)))

    def _keeps_going(self, error: DecodeError) -> bool:
        """Whether only this packet is lost; its frame was whole, the next one can be read."""
        if error.code == "verify_failed":
            return True
        return not self.options.strict and error.code == "reserved_value"

    def _take_request(self, message: Message) -> None:
        if self._asked_count >= self.options.max_pending:
            self._note("too_busy", detail=f"{self._asked_count} requests wait")
            self._say(self._response(message, ResultCode.SERVER_ERROR))
            return
        awaited = answered_id(message)
        self._asked[awaited] = self._asked.get(awaited, 0) + 1
        self._asked_count += 1
        self._emit(Requested(message, self._decoded(message)))

    def _take_response(self, message: Message) -> None:
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
            except DecodeError as error:  # it spoils nothing else, and its bytes are kept (§2)
                self._note(error.code, field=error.field, detail=error.detail)
        return tuple(headers)

    # -- endings -----------------------------------------------------------------------------

    def _note(self, code: str, *, field: str = "", detail: str = "") -> None:
        """A fault of the packet at hand, and no more."""
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
        self._asked.clear()
        self._asked_count = 0
        super()._close(reason, side, clean=clean)

    def _quiet_from_now(self, name: str, seconds: float | None) -> None:
        if seconds is not None:
            self.timers.set(name, self.now + seconds)

    def _timer(self, name: str) -> None:
        if name == "reply":
            for request in self._calls.expire(self.now):
                self._emit(CallFailed(request, "timeout"))
            if (deadline := self._calls.next_deadline()) is not None:
                self.timers.set("reply", deadline)
        elif name == "ping":
            self.ping()
            self._quiet_from_now("ping", self.options.ping_interval_s)
        elif name == "idle":
            self._fail("idle", detail="nothing was heard")
            self._close("idle", Side.LOCAL, clean=False)
