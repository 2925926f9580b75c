"""The events of an ESNP session, and the peer's side of a connection (seeds 000 and 001).

`Endpoint` receives messages and keeps the peer's requests until they are answered; `session.py`
adds our own calls. A message goes through the same checks in the same order:

    1. the codec           a frame that does not decode closes the connection, without a reply
    2. strictness          warnings are counted; in strict mode an error reply, and nothing else
    3. VERSION             the same, where a major number is required
    4. TRACE               a report is sent back, and the message is handled normally
    5. kind                a request waits here for its turn; the rest is in `session.py`

Section 3 of `docs/decisions/esnp.md` lists what a reply carries back. An error reply is sent to
requests and infos only, never to an event: two peers could otherwise exchange errors without end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, ClassVar, Final

import msgspec

from wirelake.wire.errors import DecodeError, EncodeError, NeedMore

from ..hub_calls import busy_text
from ..sansio import CLOSED, Event, Role, Session, SessionError, Side, Table
from .application import ROW_TYPES
from .layout import (
    Address,
    BrokenRow,
    Error,
    Flag,
    FlagType,
    Message,
    MessageId,
    OpaqueRow,
    Payload,
    Row,
    RowType,
    SeqNo,
    SessionInfo,
    SourceAddress,
    SourceMessageId,
    Version,
)
from .limits import SessionOptions
from .message import (
    ANSWERS,
    ASYNC,
    BODY,
    TRACE,
    Kind,
    MessageSummary,
    check,
    error_text,
    modern,
    ordered,
    summarize,
)
from .protocol import PROTOCOL
from .sequences import Numbers, Sequences, in_range

__all__ = [
    "Announced",
    "Answered",
    "Call",
    "CallFailed",
    "Endpoint",
    "Forwarded",
    "Requested",
    "Traced",
    "reply_to",
]


# -- events ----------------------------------------------------------------------------------------


class Call(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A request or an info of the peer, to be answered with `Endpoint.answer`."""

    parts: tuple[Message, ...]
    """The message, or all messages of its sequence, in order."""
    raw: tuple[bytes, ...]
    """Their bytes as received."""
    concurrent: bool
    """Whether the peer allows answers out of order."""
    kind: Kind = "REQUEST"
    """REQUEST or INFO."""
    id: int | None = None
    """The peer's message id; None without one."""

    @property
    def message(self) -> Message:
        """The first message, which has the address."""
        return self.parts[0]

    @property
    def version(self) -> Version | None:
        """The VERSION row; None without one."""
        return next((row for row in self.message.rows if isinstance(row, Version)), None)


class Requested(Event, frozen=True, gc=False):
    """A request of the peer, which waits for an answer."""

    call: Call


class Announced(Event, frozen=True, gc=False):
    """A message of the peer that has no answer: an event, or a message without a kind."""

    message: Message
    raw: bytes


class Answered(Event, frozen=True, gc=False):
    """A reply to a call of ours; `last`: the call is complete."""

    id: int
    message: Message
    raw: bytes
    last: bool = True

    @property
    def error(self) -> str | None:
        """The text of the ERROR row, None without one; an empty text is an error, too."""
        return error_text(self.message)


class Traced(Event, frozen=True, gc=False):
    """A node reports that a message of ours passed it; the call continues (section 3)."""

    id: int | None
    text: str
    message: Message


class CallFailed(Event, frozen=True, gc=False):
    """A call of ours got no answer: `timeout`, `connection_lost`, or `too_many` parts."""

    id: int
    code: str


class Forwarded(Event, frozen=True, gc=False):
    """A message to forward; only with the option `routes`."""

    message: Message
    raw: bytes


# -- replies ---------------------------------------------------------------------------------------


_RESP: Final = Flag(value=FlagType.RESP)
_COPIED_FLAGS: Final = frozenset({int(FlagType.REQUEST), int(FlagType.INFO)})
_SESSION_INFO: Final = int(RowType.SESSION_INFO)
_REST: Final = BODY | {OpaqueRow}


def reply_to(message: Message, rows: Iterable[Row] = (), error: str | None = None) -> Message:
    """Return the reply to a message: what must be carried back, and `rows`.

    Equal to `message.reply` in revision *lines*, in one pass: this runs for every request.
    """
    head: list[Row] = [_RESP] if error is None else [_RESP, Error(value=error)]
    carried: list[Row] = []
    rest: list[Row] = []
    row: Any  # distinguished by its class, looked up once
    for row in rows:
        (rest if type(row) in _REST else head).append(row)
    for row in message.rows:
        kind = type(row)
        if kind is MessageId:
            head.append(SourceMessageId(value=row.value))
        elif kind is Flag:
            if row.value in _COPIED_FLAGS:
                head.append(row)
        elif kind is SourceAddress:
            head.append(Address(kind=row.kind, value=row.value))
        elif kind is SessionInfo or (kind is BrokenRow and row.type == _SESSION_INFO):
            carried.append(row)
    return Message(rows=(*head, *carried, *rest))


_OPEN: Final[Table] = {
    "open": {
        "receive request": "open",
        "receive info": "open",
        "receive event": "open",
        "receive response": "open",
        "receive trace": "open",
        "send": "open",
        "eof": CLOSED,
        "broken frame": CLOSED,
        "idle": CLOSED,
        "close": CLOSED,
    },
    CLOSED: {},
}


class Endpoint(Session):
    """The peer's side of a connection: its messages, and its requests until they are answered."""

    FIRST: ClassVar[str] = "open"
    TABLES: ClassVar[dict[Role, Table]] = {Role.CLIENT: _OPEN, Role.SERVER: _OPEN}

    def __init__(self, role: Role, options: SessionOptions, now: float):
        super().__init__(role, now=now)
        self.options = options
        self.message_limit = options.message_limit
        self.warnings: Counter[str] = Counter()
        """Counts of tolerated or dropped messages, by code."""
        self._codec = PROTOCOL.codec(options.dialect)
        self._resume: int | None = None
        self._waiting: deque[Call] = deque()
        self._current: Call | None = None
        self._open: dict[Call, int] = {}
        self._ids: set[int] = set()
        self._open_bytes = 0
        self._parts = Sequences(options.max_parts, options.max_part_bytes, whole=True)
        self._gathering: dict[int, tuple[float, Message]] = {}
        self._watch_idle()

    @property
    def pending(self) -> int:
        """Requests of the peer that are unanswered or incomplete."""
        return len(self._open) + len(self._parts)

    @property
    def held_bytes(self) -> int:
        """Also requests that are unanswered or incomplete."""
        return len(self._buffer) + self._open_bytes + self._parts.held_bytes

    # -- the application's side --------------------------------------------------------------

    def answer(
        self,
        call: Call,
        rows: Iterable[Row] = (),
        *,
        error: str | None = None,
        seq: Numbers | None = None,
    ) -> None:
        """Answer a call; with `seq`, one part of a sequence, the last if both numbers are equal."""
        expected = self._open.get(call)
        if expected is None:
            raise SessionError("bad_state", "this call is not waiting for a reply")
        extra = list(rows)
        self._originated(extra)
        if seq is not None:
            if seq[0] != expected or not in_range(seq):
                raise SessionError("seq_range", f"expected part {expected} of this reply")
            extra.insert(0, SeqNo(current=seq[0], maximum=seq[1]))
        elif expected > 1 and error is None:
            raise SessionError("seq_range", f"expected part {expected} of this reply")
        self._write(self._limited(self._bytes_of(reply_to(call.message, extra, error))))
        if seq is None or seq[0] == seq[1] or error is not None:
            self._finish(call)
        else:
            self._open[call] = expected + 1

    def answer_with(self, call: Call, raw: bytes, *, last: bool) -> None:
        """Answer a call with the bytes of a reply that another server made."""
        if call not in self._open:
            raise SessionError("bad_state", "this call is not waiting for a reply")
        self._write(self._whole(raw))
        if last:
            self._finish(call)

    def encoded(self, message: Message) -> bytes:
        """Return the bytes of a message, head rows first; SessionError if it cannot be sent."""
        return self._encoded(message)

    def _finish(self, call: Call) -> None:
        del self._open[call]
        self._open_bytes -= sum(map(len, call.raw))
        if call.id is not None:
            self._ids.discard(call.id)
        if call is self._current:
            self._current = None
            self._hand_over()

    # -- bytes -------------------------------------------------------------------------------

    def _encoded(self, message: Message) -> bytes:
        """Return the bytes of a message of the application, head rows first."""
        in_order = self._originated(message.rows)
        return self._limited(self._bytes_of(message if in_order else ordered(message)))

    def _originated(self, rows: Iterable[Row]) -> bool:
        """Return whether head rows come first; SessionError for rows that must not be
        originated."""
        body, in_order = False, True
        row: Any  # distinguished by its class, looked up once
        for row in rows:
            kind = type(row)
            if kind is OpaqueRow:
                if row.type not in ROW_TYPES:
                    raise SessionError("bad_value", f"row type {row.type:#04x} cannot be sent")
                body = True
            elif kind is BrokenRow:
                raise SessionError("bad_value", "a broken row cannot be sent")
            elif kind in BODY:
                body = True
            elif body:
                in_order = False
        return in_order

    def _bytes_of(self, message: Message) -> bytes:
        try:
            data: bytes = self._codec.encode_message(message)
        except EncodeError as error:
            raise SessionError(error.code, str(error)) from error
        return data

    def _limited(self, data: bytes) -> bytes:
        if len(data) > self.options.message_limit:
            raise SessionError("too_large", f"{len(data)} bytes in one message")
        return data

    def _whole(self, raw: bytes) -> bytes:
        """Return the bytes of exactly one message unchanged; SessionError for others."""
        try:
            stop = self._codec.scan_message(raw, 0, len(raw), self.options.message_limit)
        except DecodeError as error:
            raise SessionError(error.code, str(error)) from error
        except NeedMore:
            stop = -1
        if stop != len(raw):
            raise SessionError("bad_value", "expected exactly one message")
        return raw

    # -- received messages -------------------------------------------------------------------

    @abstractmethod
    def _dispatch(self, message: Message, raw: bytes, summary: MessageSummary) -> None:
        """Handle a message that has passed the checks."""

    def _scan(self, buf: bytearray) -> None:
        # A message ends with its END row; there is no length in front. The scan resumes at the last
        # row head, so that a message of many small pieces is not scanned from its start each time.
        try:
            self._codec.scan_message(buf, 0, len(buf), self.message_limit, self._resume)
        except NeedMore as more:
            self._resume = more.resume
            raise
        self._resume = None

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        found: tuple[Any, int] = self._codec.decode_message(buf, pos, end, self.message_limit)
        return found

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        self._watch_idle()
        summary = summarize(message, self.options.revision)
        if summary.cancelled and self.options.legacy_rows:
            message = modern(message)
            summary = summarize(message, self.options.revision)
        if self._acceptable(message, summary, self._consumed + pos):
            if TRACE in summary.flags:
                self._report(message, summary)
            self._dispatch(message, buf[pos:stop], summary)

    def _acceptable(self, message: Message, summary: MessageSummary, offset: int) -> bool:
        """Check strictness and version; a refused request is answered with an error."""
        if summary.irregular:
            problems = check(message, self.options.revision, strict=False)
            self.warnings.update(problem.code for problem in problems)
            if problems and self.options.strict:
                self._decline(message, summary, problems[0].code, str(problems[0]), offset)
                return False
        major = self.options.require_major
        answers = summary.kind in ANSWERS or summary.kind == "TRACE_INFO"
        if major is not None and summary.major != major and not answers:
            self._decline(message, summary, "bad_version", f"expected version {major}", offset)
            return False
        return True

    def _decline(
        self,
        message: Message,
        summary: MessageSummary,
        code: str,
        text: str,
        offset: int | None = None,
    ) -> None:
        """Report a failure that keeps the connection; send an error reply, never to an event."""
        self._fail(code, offset=offset, detail=text, fatal=False)
        if summary.asks:
            self._write(self._bytes_of(reply_to(message, error=busy_text(code, text))))

    def _warn(self, code: str, text: str) -> None:
        """Report something that was dropped to the application, not to the peer."""
        self.warnings[code] += 1
        self._fail(code, detail=text, fatal=False)

    def _report(self, message: Message, summary: MessageSummary) -> None:
        """Send a trace report to the sender of a message; the message is then handled normally."""
        name = self.options.trace_name
        if name is None or summary.kind in ANSWERS or summary.kind == "TRACE_INFO":
            return
        text = f"{name} passed" if self.options.routes else f"{name} handled"
        rows = Flag(value=FlagType.TRACE_INFO), Payload(data=text.encode())
        self._write(self._bytes_of(reply_to(message, rows)))

    # -- requests ----------------------------------------------------------------------------

    def _on_request(self, message: Message, raw: bytes, summary: MessageSummary) -> None:
        """Handle a request, or a part of one. Id 0 counts as none: it is never originated (§2)."""
        # Two requests with one id in flight could not be told apart by their responses: the second
        # is refused. Parts of a sequence share their id.
        number = summary.id or None
        if number is not None and (
            number in self._ids or (summary.seq is None and number in self._parts)
        ):
            self._decline(message, summary, "bad_args", f"message id {number} is in flight")
        elif number is None or summary.seq is None:
            self._admit((message,), (raw,), summary)
        else:
            self._gather(number, summary.seq, message, raw, summary)

    def _gather(
        self, number: int, seq: Numbers, message: Message, raw: bytes, summary: MessageSummary
    ) -> None:
        new = number not in self._parts
        if new and self.pending >= self.options.max_requests:
            self._decline(message, summary, "too_busy", f"{self.pending} requests are pending")
            return
        try:
            ready = self._parts.add(number, seq, message, raw)
        except DecodeError as error:
            self._parts.refuse(number)
            self._decline(message, summary, error.code, str(error))
            ready = []
        _, first = self._gathering.pop(number, (0.0, message))
        if ready:
            first_summary = summarize(ready[0][0], self.options.revision)
            self._admit(tuple(p[0] for p in ready), tuple(p[1] for p in ready), first_summary)
        elif number in self._parts:
            due = self.now + self.options.part_timeout_s
            self._gathering[number] = due, first
            self._wake_by("parts", due)

    def _admit(
        self, parts: tuple[Message, ...], raw: tuple[bytes, ...], summary: MessageSummary
    ) -> None:
        # Refused with an error reply, not dropped: the caller learns at once instead of waiting for
        # its timeout. A single request is accepted whatever its size, since `message_limit` has
        # bounded it already.
        size = sum(map(len, raw))
        full = self.pending >= self.options.max_requests
        if full or (self._open and self._open_bytes + size > self.options.max_request_bytes):
            self._decline(parts[0], summary, "too_busy", f"{self.pending} requests are pending")
            return
        number = summary.id or None
        in_any_order = self.options.revision == "lines" and ASYNC in summary.flags
        # Without an id the peer can match the reply by its order only.
        concurrent = in_any_order and number is not None
        call = Call(parts, raw, concurrent, summary.kind, summary.id)
        self._open[call] = 1
        self._open_bytes += size
        if number is not None:
            self._ids.add(number)
        if concurrent:
            self._emit(Requested(call))
        else:
            self._waiting.append(call)
            self._hand_over()

    def _hand_over(self) -> None:
        """Emit the next request, when the one before is answered."""
        # Without FLAG_ASYNC the peer expects answers in the order of its requests, so the
        # application gets one at a time and cannot answer out of order.
        if self._current is None and self._waiting:
            self._current = self._waiting.popleft()
            self._emit(Requested(self._current))

    # -- time and the end --------------------------------------------------------------------

    def _wake_by(self, name: str, at: float) -> None:
        """Set a timer to that time unless it is due before; a timer that is early is harmless."""
        due = self.timers.at(name)
        if due is None or at < due:
            self.timers.set(name, at)

    def _watch_idle(self) -> None:
        if self.options.idle_limit_s is not None:
            self.timers.set("idle", self.now + self.options.idle_limit_s)

    def _timer(self, name: str) -> None:
        if name == "parts":
            self._drop_late_parts()
        else:
            self._fail("idle", detail="no data received within the idle limit")
            self._close("idle", Side.LOCAL, clean=False)

    def _drop_late_parts(self) -> None:
        # `_gathering` is in the order of deadlines: each part moves its sequence to the end, and
        # all wait equally long. The first that is not due ends the loop.
        for number, (due, message) in list(self._gathering.items()):
            if due > self.now:
                self.timers.set("parts", due)
                return
            del self._gathering[number]
            refused = self._parts.refused(number)
            self._parts.drop(number)
            if not refused:
                summary = summarize(message, self.options.revision)
                self._decline(message, summary, "timeout", f"no further part of {number}")

    def _refuse(self, error: DecodeError) -> None:
        self._fail_with(error)  # closed without a reply (§1)

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        super()._close(reason, side, clean=clean)
        self._waiting.clear()
        self._open.clear()
        self._ids.clear()
        self._parts.clear()
        self._gathering.clear()
        self._current = None
        self._open_bytes = 0
