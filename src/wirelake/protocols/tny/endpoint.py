"""Both ends of a tny message connection: requests, responses, pushes, ticks, and closing.

Implements §2, §3, §6 and the lines and headers of §11 of the tny rules: the receiving half.
`sender.py` is the sending half, `session.py` has the two roles. Either end may send requests. Time
does not pass between calls: see `session.py`.
"""

from __future__ import annotations

from typing import Any, cast

from wirelake.wire.errors import DecodeError, NeedMore

from ..sansio import CLOSED, Side
from .layout import Message, Mode, Packet, Ping, Pong
from .message import Header, ResultCode, answered_id, closes, decode_header
from .packets import PONG, SKIPPED, TICK_TAIL
from .sender import (
    CallFailed,
    DialectSeen,
    Pinged,
    Ponged,
    Pushed,
    Replied,
    Requested,
    Sender,
    Unmatched,
)

__all__ = ["Endpoint", "open_state"]

_ENDS = {"break a rule": CLOSED, "fall silent": CLOSED, "use up numbers": CLOSED, "close": CLOSED}


def open_state(state: str, **other: str) -> dict[str, str]:
    """Return the transitions of a state in which both ends may send messages."""
    usual = ("receive tick", "send tick", "receive message", "send message")
    changes = {name.replace("_", " "): after for name, after in other.items()}
    return {**dict.fromkeys(usual, state), **_ENDS, **changes}


class Endpoint(Sender):
    """One end of a connection: the base of `ClientSession` and `ServerSession`."""

    # -- the peer's side ---------------------------------------------------------------------

    def _parse(self, buf: bytes) -> None:
        """Packets without options, which are nearly all, take a shorter way than others."""
        pos = self._parse_plain(buf) if self._is_plain else 0
        if pos:
            self._consumed += pos
            buf = buf[pos:]
        if buf and self.state != CLOSED:
            super()._parse(buf)

    def _parse_plain(self, buf: bytes) -> int:
        """Act on the plain packets that `buf` begins with; where they stop."""
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
                self._take(found[0])
                pos = found[1]
        except (DecodeError, NeedMore):
            pass  # the long way finds it again, and knows what to do
        if pos:
            self._owes_tail = False
            self._quiet_from_now("idle", self.options.idle_limit_s)
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
        if self._dialect.seen is not None:
            self._write(PONG[self._dialect.seen])
            return
        self._write(PONG["upstream"])
        self._owes_tail = True

    def _settle_tail(self, *, skipped: bool) -> None:
        """The rest of the peer's tick came: give ours its rest too, if it has one."""
        if self._owes_tail and skipped and self._dialect.seen == "seed":
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
        self._take(message)

    def _take(self, message: Message) -> None:
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
        if self._accepts(message):
            self._events.append(Requested(message, self._decoded(message)))

    def _accepts(self, request: Message) -> bool:
        """Return whether a request may wait for its answer; one too many is refused at once."""
        if self._asked_count >= self.options.max_pending:
            self._note("too_busy", detail=f"{self._asked_count} requests wait")
            self._send_own(self._response(request, ResultCode.SERVER_ERROR))
            return False
        awaited = request.id if request.headers is None else answered_id(request)
        self._asked[awaited] = self._asked.get(awaited, 0) + 1
        self._asked_count += 1
        return True

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
            except (
                DecodeError
            ) as error:  # other headers are unaffected, and its bytes are kept (§2)
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
            self._fail("idle", detail="nothing was detected")
            self._close("idle", Side.LOCAL, clean=False)
