"""The base of every session: bytes and time in, events and bytes out, no I/O.

A shell (a server, a client, a test) owns the socket and the clock and does only this:

    session.receive(data, now)        bytes were received
    session.exchange(data, now)       the same, and the bytes to write if there is no event
    session.receive_eof()             the peer closed its side
    session.on_timer(now)             the deadline of next_timer() has passed
    session.send(message)             the application sends a message
    for event in session.events():    what happened, in order
    transport.write(session.to_send())
    deadline = session.next_timer()
    if session.closed: close the transport once to_send() is written

There are two kinds of failure, as in h11. Misuse by the caller raises `SessionError` at the call. A
violation by the peer never raises: it becomes a `Failed` event, the reply that the protocol
prescribes, and, when it is fatal, a `Closed` event. Codes are those of `wire.errors.CODES`.

States and transitions are one table for each role, `{state: {trigger: next state}}`. A trigger that
the table does not list for a state is an error. `diagram` draws the table, so that the reference
page cannot differ from the code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias

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
"""`{state: {trigger: next state}}`."""

CLOSED = "closed"
"""The last state of every session."""


class Role(StrEnum):
    """The end of a connection that a session represents."""

    CLIENT = "client"
    SERVER = "server"


class Side(StrEnum):
    """The side that failed, or that acted."""

    LOCAL = "local"
    REMOTE = "remote"


# gc=False: events hold no reference cycles, and leaving them out of garbage collection makes a
# Struct cost 72 ns to create, against 672 ns for a frozen slotted dataclass (performance notes).
class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that happened on a connection; every protocol adds its own."""


class Failed(Event, frozen=True, gc=False):
    """A protocol violation. `fatal`: the connection ends, and a `Closed` follows."""

    code: str
    side: Side
    field: str = ""
    offset: int | None = None
    """Offset in the received stream at which it was found."""
    detail: str = ""
    fatal: bool = True


class Closed(Event, frozen=True, gc=False):
    """The last event of a session. `clean`: both ends know that everything was received."""

    reason: str
    side: Side
    clean: bool = True


class SessionError(Exception):
    """The session cannot do now what the caller requested; nothing has changed."""

    def __init__(self, code: str, detail: str = ""):
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.code}: {self.detail or CODES.get(self.code, '')}"


class _NoDeadlines(dict[str, float]):
    """The deadlines of a session that has ended: none can be set."""

    def __setitem__(self, name: str, at: float) -> None:
        pass


_NO_DEADLINES: Final = _NoDeadlines()


class Timers:
    """Named deadlines; setting one again moves it.

    A session has at most a handful of them, so a dict and `min` are faster than a heap, and moving
    a deadline, which idle timers do for every frame, is one assignment.
    """

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def set(self, name: str, at: float) -> None:
        """Set or move a deadline."""
        self._due[name] = at

    def clear(self, *names: str) -> None:
        """Remove deadlines; unknown names are ignored. Without names, remove all."""
        if not names:
            self._due.clear()
        for name in names:
            self._due.pop(name, None)

    def end(self) -> None:
        """Remove all deadlines for good: what is set from now on is ignored.

        A write may end a session, when its numbers are used up, and the caller sets an idle timer.
        """
        self._due = _NO_DEADLINES

    def at(self, name: str) -> float | None:
        """Return the time of a deadline; None when it is not set."""
        return self._due.get(name)

    def next(self) -> float | None:
        """Return the earliest deadline."""
        return min(self._due.values(), default=None)

    def pop_due(self, now: float) -> str | None:
        """Remove the earliest deadline that has passed and return its name; None without one."""
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

    A subclass defines `TABLES` and `FIRST`, decodes one frame (`_decode`), handles it (`_handle`),
    answers an invalid one (`_refuse`), and handles its timers (`_timer`). It calls `_step` for each
    trigger, `_write` for bytes, `_emit` for events, and `_close` at the end.
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
        self._buffer = bytearray()
        self._needed = 0
        self._consumed = 0

    # -- what a shell calls ------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> None:
        """Process bytes from the peer. Never raises, whatever the bytes are."""
        self._advance(now)
        self.received_bytes += len(data)
        if self.state == CLOSED or not data:
            return
        if not self._buffer:
            # The usual case: whole frames arrive, and are parsed where they are without a copy.
            self._parse(bytes(data))
            return
        # An incomplete frame is collected and parsed once, when `_needed` bytes are there. Parsing
        # on every call would make a large frame that arrives in small pieces quadratic.
        self._buffer += data
        if len(self._buffer) >= self._needed and self._complete():
            buf = bytes(self._buffer)
            self._buffer.clear()
            self._parse(buf)

    def exchange(self, data: bytes, now: float) -> bytes | None:
        """Process bytes from the peer and return the bytes to write; None when there are events.

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
        """Process the end of the peer's stream."""
        if self.state != CLOSED:
            self._eof(len(self._buffer))

    def on_timer(self, now: float) -> None:
        """Process the deadlines that have passed."""
        self._advance(now)
        while self.state != CLOSED and (name := self.timers.pop_due(self.now)) is not None:
            self._timer(name)

    def next_timer(self) -> float | None:
        """Return when to call `on_timer`; None when no deadline is set."""
        return self.timers.next()

    def events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        events, self._events = self._events, []
        return events

    def to_send(self) -> bytes:
        """Return the bytes to write to the peer now.

        Everything that one call produced is joined: a small send() costs 4 to 5.6 µs of CPU
        whatever it carries, so fewer and larger writes make pipelined calls 4 to 6 times faster.
        """
        if not self._out:
            return b""
        data = b"".join(self._out) if len(self._out) > 1 else self._out[0]
        self._out.clear()
        return data

    @property
    def closed(self) -> bool:
        """Whether the session is over: write the rest of `to_send`, then close the transport."""
        return self.state == CLOSED

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete frame in the buffer."""
        return len(self._buffer)

    @property
    def held_bytes(self) -> int:
        """Received bytes in memory: an incomplete frame, and what a subclass keeps besides."""
        return len(self._buffer)

    # -- what a subclass defines -------------------------------------------------------------

    @abstractmethod
    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        """Decode one frame; return it and where it stops. Raises DecodeError or NeedMore."""

    @abstractmethod
    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        """Handle a frame, whose bytes are buf[pos:stop]. Raises DecodeError if it is not legal."""

    @abstractmethod
    def _refuse(self, error: DecodeError) -> None:
        """Answer an invalid frame and emit `Failed`; the session is closed afterwards."""

    @abstractmethod
    def _timer(self, name: str) -> None:
        """Handle a deadline that has passed."""

    def _eof(self, left: int) -> None:
        """Handle the end of the stream; `left` bytes of an incomplete frame remain."""
        if left:
            self._fail("short", detail=f"{left} bytes of an incomplete frame at the end")
        self._close("eof", Side.REMOTE, clean=not left)

    # -- what a subclass calls ---------------------------------------------------------------

    def _step(self, trigger: str) -> bool:
        """Move to the next state; False when the table has no such transition."""
        state = self._table[self.state].get(trigger)
        if state is None:
            return False
        self.state = state
        return True

    def _must(self, trigger: str) -> None:
        """Move to the next state on behalf of the caller; SessionError when that is not allowed."""
        if not self._step(trigger):
            raise SessionError("bad_state", f"{trigger} is not allowed in state {self.state}")

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
        self.timers.end()
        self._buffer.clear()
        self._needed = 0
        self._emit(Closed(reason, side, clean))

    # -- the loop over frames ----------------------------------------------------------------

    def _advance(self, now: float) -> None:
        """Set the time. It never runs backwards, whatever the shell's clock does."""
        self.now = max(self.now, now)

    def _scan(self, buf: bytearray) -> None:  # noqa: B027 - most framings need none
        """Raise NeedMore while the frame at the start of `buf` is incomplete.

        Framings with a length at the start do not need this: `_needed` is then exact. Where only
        the content of a frame shows its end (ESNP), a subclass resumes where it stopped, so that
        each byte of a slow peer is scanned once and the buffer is not copied each time.
        """

    def _complete(self) -> bool:
        try:
            self._scan(self._buffer)
        except NeedMore as more:
            # Nothing is parsed before these bytes are there.
            self._needed = len(self._buffer) + more.need
            return False
        except DecodeError:
            pass  # decoding finds the error again, and there it is answered
        return True

    def _parse(self, buf: bytes) -> None:
        pos, end, needed = 0, len(buf), 0
        try:
            while pos < end and self.state != CLOSED:
                message, stop = self._decode(buf, pos, end)
                self._handle(message, buf, pos, stop)
                pos = stop
        except NeedMore as more:
            needed = end - pos + more.need
        except DecodeError as error:
            # Decoders count from the start of `buf`; events count from the start of the stream, so
            # that a fault can be found in a recording of the connection.
            if error.offset is not None:
                error.offset += self._consumed
            self._refuse(error)
            self._close(error.code, Side.REMOTE, clean=False)
        self._consumed += pos
        if self.state != CLOSED and pos < end:
            self._needed = needed
            self._buffer += buf[pos:]


def diagram(tables: Mapping[Role, Table], role: Role) -> str:
    """Return the state table of a role as a Graphviz graph."""
    lines = ["digraph {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    for state, triggers in tables[role].items():
        grouped: dict[str, list[str]] = {}
        for trigger, after in triggers.items():
            grouped.setdefault(after, []).append(trigger)
        for after, names in grouped.items():
            label = "\\n".join(names)
            lines.append(f'  "{state}" -> "{after}" [label="{label}"];')
    return "\n".join([*lines, "}"])
