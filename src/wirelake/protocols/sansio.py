"""The shape of every session: bytes and time in, events and bytes out, no I/O.

A shell (a server, a client, a test) owns the socket and the clock and does only this:

    session.receive(data, now)        bytes came in
    session.exchange(data, now)       the same, and what to write if there is no event
    session.receive_eof()             the peer closed its side
    session.on_timer(now)             the time that next_timer() named has come
    session.send(message)             the application says something
    for event in session.events():    what happened, in order
    transport.write(session.to_send())
    deadline = session.next_timer()
    if session.closed: close the transport once to_send() is written

Two kinds of failure (as in h11): *you misused it* raises `SessionError` at the call
that was wrong; *the peer broke a rule* never raises, it becomes a `Failed` event, the answer that
the rules ask for, and, when it is fatal, a `Closed` event. Codes are those of `wire.errors.CODES`.

States and transitions are a table for each role, `{state: {happening: next state}}`. A happening
that the table does not list for a state is an error. `diagram` draws the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

import msgspec

from wirelake.wire.errors import CODES, DecodeError, NeedMore

__all__ = [
    "CLOSED",
    "Closed",
    "Event",
    "Failed",
    "Role",
    "Session",
    "SessionError",
    "Side",
    "Table",
    "Timers",
    "diagram",
]

Table: TypeAlias = Mapping[str, Mapping[str, str]]
"""`{state: {happening: next state}}`."""

CLOSED = "closed"
"""The last state of every session."""


class Role(StrEnum):
    """Which end of a connection a session is."""

    CLIENT = "client"
    SERVER = "server"


class Side(StrEnum):
    """Who is at fault, or who acted."""

    LOCAL = "local"
    REMOTE = "remote"


class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that happened; every protocol adds its own."""


class Failed(Event, frozen=True, gc=False):
    """A rule was broken. `fatal`: the connection ends; a `Closed` follows."""

    code: str
    side: Side
    field: str = ""
    offset: int | None = None
    """Byte of the received stream where it shows, counted from its beginning."""
    detail: str = ""
    fatal: bool = True


class Closed(Event, frozen=True, gc=False):
    """The session is over; nothing follows. `clean`: both ends know that all was received."""

    reason: str
    side: Side
    clean: bool = True


class SessionError(Exception):
    """The caller asked for what the session cannot do now; nothing has changed."""

    def __init__(self, code: str, detail: str = ""):
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.code}: {self.detail or CODES.get(self.code, '')}"


class Timers:
    """Named deadlines; setting one again moves it."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def set(self, name: str, at: float) -> None:
        """Set or moves a deadline."""
        self._due[name] = at

    def clear(self, *names: str) -> None:
        """Remove deadlines; absent ones are no error. No name: all of them."""
        if not names:
            self._due.clear()
        for name in names:
            self._due.pop(name, None)

    def at(self, name: str) -> float | None:
        """When a deadline is."""
        return self._due.get(name)

    def next(self) -> float | None:
        """Return the earliest deadline."""
        return min(self._due.values(), default=None)

    def pop_due(self, now: float) -> str | None:
        """Remove and names the earliest deadline that has passed; None when none has."""
        if not self._due:
            return None
        name = min(self._due, key=self._due.__getitem__)
        if self._due[name] > now:
            return None
        del self._due[name]
        return name

    def __len__(self) -> int:
        return len(self._due)


class Session(ABC):
    """The base of every session.

    A subclass gives `TABLES` and `FIRST`, decodes one frame (`_decode`), handles it (`_handle`),
    answers a broken one (`_refuse`), and handles its timers (`_timer`). It calls `_step` for each
    happening, `_write` for bytes, `_emit` for events, `_close` at the end.
    """

    TABLES: ClassVar[Mapping[Role, Table]]
    FIRST: ClassVar[str]

    def __init__(self, role: Role, *, now: float = 0.0):
        self.role = Role(role)
        self.state = self.FIRST
        self.now = now
        self.timers = Timers()
        self.received_bytes = 0
        self.sent_bytes = 0
        self._table = self.TABLES[self.role]
        self._events: list[Event] = []
        self._out: list[bytes] = []
        self._held = bytearray()
        self._wanted = 0
        self._consumed = 0

    # -- what a shell calls ------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> None:
        """Take bytes from the peer. Never raises for what they are."""
        self._advance(now)
        self.received_bytes += len(data)
        if self.state == CLOSED or not data:
            return
        if not self._held:
            self._parse(bytes(data))
            return
        self._held += data
        if len(self._held) >= self._wanted and self._complete():
            buf = bytes(self._held)
            self._held.clear()
            self._parse(buf)

    def exchange(self, data: bytes, now: float) -> bytes | None:
        """Take bytes from the peer and return what to write; None when there are events.

        One call for a shell whose requests are mostly answered while they are read. With events
        the bytes stay queued for `to_send`: the application may have to write something before.
        """
        self.receive(data, now)
        if self._events or self.state == CLOSED:
            return None
        out = self._out
        if not out:
            return b""
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data

    def receive_eof(self) -> None:
        """The peer will send no more."""
        if self.state != CLOSED:
            self._eof(len(self._held))

    def on_timer(self, now: float) -> None:
        """Let the deadlines act that have passed."""
        self._advance(now)
        while self.state != CLOSED and (name := self.timers.pop_due(self.now)) is not None:
            self._timer(name)

    def next_timer(self) -> float | None:
        """When `on_timer` wants to be called; None when nothing is waited for."""
        return self.timers.next()

    def events(self) -> list[Event]:
        """What has happened since the last call, in order."""
        events, self._events = self._events, []
        return events

    def to_send(self) -> bytes:
        """What to write to the peer, now."""
        if not self._out:
            return b""
        data = b"".join(self._out) if len(self._out) > 1 else self._out[0]
        self._out.clear()
        return data

    @property
    def closed(self) -> bool:
        """Whether the session is over: write what is left, then close the transport."""
        return self.state == CLOSED

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete frame that are held."""
        return len(self._held)

    # -- what a subclass gives ---------------------------------------------------------------

    @abstractmethod
    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        """One frame and where it stops; DecodeError or NeedMore."""

    @abstractmethod
    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        """Act on a frame; its bytes are buf[pos:stop]. DecodeError when it breaks a rule."""

    @abstractmethod
    def _refuse(self, error: DecodeError) -> None:
        """Answer a broken frame as the rules say, and emits `Failed`; the session closes after."""

    @abstractmethod
    def _timer(self, name: str) -> None:
        """Act on a deadline that has passed."""

    def _eof(self, left: int) -> None:
        """The peer closed its side; `left` bytes of an incomplete frame are held."""
        if left:
            self._fail("short", detail=f"{left} bytes of an incomplete frame at the end")
        self._close("eof", Side.REMOTE, clean=not left)

    # -- what a subclass calls ---------------------------------------------------------------

    def _step(self, happening: str) -> bool:
        """Move to the next state; False when the table forbids this happening here."""
        state = self._table[self.state].get(happening)
        if state is None:
            return False
        self.state = state
        return True

    def _must(self, happening: str) -> None:
        """Like `_step` for what the caller asked: SessionError when the table forbids it."""
        if not self._step(happening):
            raise SessionError("bad_state", f"{happening} is not allowed in state {self.state}")

    def _emit(self, event: Event) -> None:
        self._events.append(event)

    def _write(self, data: bytes) -> None:
        self._out.append(data)
        self.sent_bytes += len(data)

    def _fail(
        self,
        code: str,
        side: Side = Side.REMOTE,
        *,
        field: str = "",
        offset: int | None = None,
        detail: str = "",
        fatal: bool = True,
    ) -> None:
        """Emit a `Failed`; `offset` is within the received stream."""
        self._emit(Failed(code, side, field, offset, detail, fatal))

    def _fail_with(self, error: DecodeError, *, fatal: bool = True) -> None:
        """Emit a `Failed` for an error of a decoder."""
        self._fail(
            error.code, field=error.field, offset=error.offset, detail=error.detail, fatal=fatal
        )

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        """End the session; later calls change nothing."""
        if self.state == CLOSED:
            return
        self.state = CLOSED
        self.timers.clear()
        self._held.clear()
        self._wanted = 0
        self._emit(Closed(reason, side, clean))

    # -- the loop over frames ----------------------------------------------------------------

    def _advance(self, now: float) -> None:
        """Time does not run backwards, whatever the shell's clock does."""
        self.now = max(self.now, now)

    def _scan(self, buf: bytearray) -> None:  # noqa: B027 - most framings need none
        """Raise NeedMore while the frame that `buf` begins with is incomplete.

        For framings that say their length at once this is not needed: `_wanted` is then exact.
        Where a frame ends only by its content, a subclass goes on where it stopped, so that
        bytes that trickle in are looked at once and not copied each time.
        """

    def _complete(self) -> bool:
        try:
            self._scan(self._held)
        except NeedMore as more:
            self._wanted = len(self._held) + more.need
            return False
        except DecodeError:
            pass  # decoding finds it again, and refuses it
        return True

    def _parse(self, buf: bytes) -> None:
        pos, end, wanted = 0, len(buf), 0
        try:
            while pos < end and self.state != CLOSED:
                message, stop = self._decode(buf, pos, end)
                self._handle(message, buf, pos, stop)
                pos = stop
        except NeedMore as more:
            wanted = end - pos + more.need
        except DecodeError as error:
            if error.offset is not None:
                error.offset += self._consumed
            self._refuse(error)
            self._close(error.code, Side.REMOTE, clean=False)
        self._consumed += pos
        if self.state != CLOSED and pos < end:
            self._wanted = wanted
            self._held += buf[pos:]


def diagram(tables: Mapping[Role, Table], role: Role) -> str:
    """Return a role's table in the language of Graphviz."""
    lines = ["digraph {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    for state, happenings in tables[role].items():
        grouped: dict[str, list[str]] = {}
        for happening, after in happenings.items():
            grouped.setdefault(after, []).append(happening)
        for after, names in grouped.items():
            label = "\\n".join(names)
            lines.append(f'  "{state}" -> "{after}" [label="{label}"];')
    return "\n".join([*lines, "}"])
