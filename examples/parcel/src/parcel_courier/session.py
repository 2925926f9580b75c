"""A parcel connection without I/O, both ends: bytes and time in, events and bytes out.

The table says who may send what; anything else is a protocol error, which is answered with `bye`.
A client pings after half of `idle_s`; either side closes after `idle_s` without a frame.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from wirelake.protocols.sansio import Event, Role, Session, SessionError, Side, Table
from wirelake.wire import DecodeError, EncodeError

from .protocol import PROTOCOL, Bye, Frame, Ping, Pong

MAX_FRAME_BYTES: Final = 65_536
"""The largest frame; two fields of 16 bits and their lengths fit."""
IDLE_S: Final = 60.0
"""Default of `idle_s`."""
_ANYBODY: Final = ("Ping", "Pong", "Bye")


def _table(sends: tuple[str, ...], receives: tuple[str, ...]) -> Table:
    """One open state, in which these messages may be sent and received."""
    sent = {f"send {name}": "open" for name in (*sends, *_ANYBODY)}
    return {"open": {**sent, **{f"receive {name}": "open" for name in (*receives, *_ANYBODY)}}}


_CLIENT: Final = ("Hello", "Ask")
_SERVER: Final = ("Welcome", "Answer", "Notice")


class Received(Event, frozen=True, gc=False):
    """A message of the peer, other than `ping` and `bye`, which the session handles."""

    number: int
    body: Any


class ParcelSession(Session):
    """One end of a connection."""

    TABLES: ClassVar = {
        Role.CLIENT: _table(_CLIENT, _SERVER),
        Role.SERVER: _table(_SERVER, _CLIENT),
    }
    FIRST: ClassVar = "open"

    def __init__(self, role: Role, *, idle_s: float, now: float = 0.0):
        super().__init__(role, now=now)
        self._idle_s = idle_s
        self._number = 0
        self._restart_timers()

    def send(self, body: Any) -> int:
        """Send a message, and return its number; SessionError when it cannot be sent."""
        if self.closed:
            raise SessionError("bad_state", "the connection is closed")
        self._must(f"send {type(body).__name__}")
        try:
            data = PROTOCOL.encode(Frame(number=self._number + 1, body=body))
        except EncodeError as error:
            raise SessionError("bad_value", str(error)) from error
        if len(data) > MAX_FRAME_BYTES:
            raise SessionError("too_large", f"a frame has at most {MAX_FRAME_BYTES} bytes")
        self._number += 1
        self._write(data)
        return self._number

    def close(self, reason: str = "normal") -> None:
        """Say goodbye."""
        if not self.closed:
            self.send(Bye(reason=reason))
            self._close(reason, Side.LOCAL)

    # -- called by the base class ------------------------------------------------------------

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:  # noqa: ARG002
        return PROTOCOL.decode(buf, pos, limit=MAX_FRAME_BYTES)

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:  # noqa: ARG002
        body = message.body
        if not self._step(f"receive {type(body).__name__}"):
            raise DecodeError("bad_state", "type", pos, f"{type(body).__name__} from this side")
        self._restart_timers()
        match body:
            case Ping():
                self.send(Pong(to=message.number))
            case Bye(reason=reason):
                self._close(reason, Side.REMOTE)
            case _:
                self._emit(Received(message.number, body))

    def _refuse(self, error: DecodeError) -> None:
        self.send(Bye(reason=error.code))
        self._fail_with(error)

    def _timer(self, name: str) -> None:
        if name == "ping":
            self.send(Ping())
            self.timers.set("ping", self.now + self._idle_s / 2)
        else:
            self.close("idle")

    def _restart_timers(self) -> None:
        self.timers.set("idle", self.now + self._idle_s)
        if self.role is Role.CLIENT:
            self.timers.set("ping", self.now + self._idle_s / 2)
