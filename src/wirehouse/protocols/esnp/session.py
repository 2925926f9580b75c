"""ESNP connections: calls, infos, events, traces, sequences (seeds 000 and 001).

The two ends are alike: each may ask, answer and announce. Requests without FLAG_ASYNC are handed to
the application one after the other and answered in that order; with it, at once and in any order.
A call ends with its response, with the last part of a sequence, with its timeout, or with the
connection. A trace report never ends one, and an event is never answered.

What the documents leave open is settled in `docs/decisions/esnp.md`, sections 3 and 8.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from wirehouse.protocols.sansio import CLOSED, Event, Role, Session, SessionError, Side, Table
from wirehouse.wire.errors import DecodeError, EncodeError, NeedMore

from . import codec_go, codec_seed
from .layout import Flag, FlagType, Message, MessageId, Payload, Row, SeqNo, Version
from .limits import SessionOptions
from .message import (
    check,
    error_text,
    flags,
    is_trace_info,
    kind,
    message_id,
    ordered,
    reply,
    source_message_id,
)
from .sequences import Sequences

__all__ = [
    "Announced",
    "Answered",
    "Call",
    "CallFailed",
    "EsnpSession",
    "Requested",
    "Traced",
]

_CODECS = {"seed": codec_seed, "go": codec_go}
_OPEN: Table = {
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
    },
    CLOSED: {},
}


class Call(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A request or an info of the peer, to be answered with `answer`."""

    parts: tuple[Message, ...]
    """The message, or all messages of its sequence, in order."""
    raw: tuple[bytes, ...]
    """Their bytes as they came."""
    concurrent: bool
    """Whether the peer allows answers out of order."""

    @property
    def message(self) -> Message:
        """The first message, which says what is asked."""
        return self.parts[0]

    @property
    def id(self) -> int | None:
        """The peer's message id."""
        return message_id(self.parts[0])


# -- events ----------------------------------------------------------------------------------


class Requested(Event, frozen=True, gc=False):
    """The peer asks something and waits for the answer."""

    call: Call


class Announced(Event, frozen=True, gc=False):
    """The peer says something that has no answer: an event, or a message of no kind."""

    message: Message
    raw: bytes


class Answered(Event, frozen=True, gc=False):
    """An answer to a call of ours; `last` tells whether the call is over."""

    id: int
    message: Message
    raw: bytes
    last: bool = True

    @property
    def error(self) -> str | None:
        """What went wrong, if the peer says so; an empty text is an error too."""
        return error_text(self.message)


class Traced(Event, frozen=True, gc=False):
    """A node reports that a message of ours passed it."""

    id: int | None
    text: str
    message: Message


class CallFailed(Event, frozen=True, gc=False):
    """A call of ours got no answer: `timeout` or `connection_lost`."""

    id: int
    code: str


# -- the session -----------------------------------------------------------------------------


class EsnpSession(Session):
    """One end of a connection. `first_id` numbers our calls; make it differ between runs."""

    FIRST: ClassVar[str] = "open"
    TABLES: ClassVar[dict[Role, Table]] = {Role.CLIENT: _OPEN, Role.SERVER: _OPEN}

    def __init__(
        self,
        role: Role,
        options: SessionOptions | None = None,
        *,
        first_id: int = 1,
        now: float = 0.0,
    ):
        super().__init__(role, now=now)
        self.options = options or SessionOptions()
        self.message_limit = self.options.message_limit
        self.warnings: Counter[str] = Counter()
        self._codec = _CODECS[self.options.dialect]
        self._next_id = max(1, first_id)
        self._calls: dict[int, float] = {}
        self._waiting: deque[Call] = deque()
        self._current: Call | None = None
        self._answering: dict[int, Call] = {}
        limits = self.options.max_parts, self.options.max_part_bytes
        self._requests = Sequences(*limits)
        self._gathered: dict[int, list[tuple[Message, bytes]]] = {}
        self._answers = Sequences(*limits)
        self._gathered_bytes = 0
        self._resume: int | None = None
        self._watch_idle()

    # -- the application's side --------------------------------------------------------------

    def new_id(self) -> int:
        """An id that no call of ours has used; 0 is never given."""
        number = self._next_id
        self._next_id = number % ((1 << 64) - 1) + 1
        return number

    def request(
        self,
        rows: Iterable[Row],
        *,
        flag: int = FlagType.REQUEST,
        more_flags: Iterable[int] = (),
        timeout_s: float | None = None,
    ) -> int:
        """Sends a call (or, with FlagType.INFO, an info) and returns its id."""
        number = self.new_id()
        head: list[Row] = [Flag(value=flag), *(Flag(value=each) for each in more_flags)]
        self.send(Message(rows=(*head, MessageId(value=number), *rows)), timeout_s=timeout_s)
        return number

    def announce(self, rows: Iterable[Row]) -> None:
        """Sends an event."""
        self.send(Message(rows=(Flag(value=FlagType.EVENT), *rows)))

    def send(self, message: Message, *, timeout_s: float | None = None) -> None:
        """Sends a message as it is, head rows first. A request or an info becomes a call."""
        self._must("send")
        number = message_id(message)
        if kind(message) in {"REQUEST", "INFO"} and number is not None:
            self._start(number, timeout_s, message)
        self._put(message)

    def _start(self, number: int, timeout_s: float | None, message: Message) -> None:
        if number == 0:
            raise SessionError("bad_value", "message id 0 is never originated")
        again = number in self._calls
        if again and not _is_part(message):
            raise SessionError("bad_state", f"call {number} is under way")
        if not again and len(self._calls) >= self.options.max_calls:
            raise SessionError("too_busy", f"{len(self._calls)} calls are under way")
        limit = self.options.call_timeout_s if timeout_s is None else timeout_s
        self._calls[number] = self.now + limit
        self._watch_calls()

    def answer(
        self,
        call: Call,
        rows: Iterable[Row] = (),
        *,
        error: str | None = None,
        seq: tuple[int, int] | None = None,
    ) -> None:
        """Answers a call; with `seq` one of several parts, the last when both numbers are equal."""
        if call is not self._current and all(call is not c for c in self._answering.values()):
            raise SessionError("bad_state", "this call is not waiting for an answer")
        extra = list(rows)
        if seq is not None:
            extra.insert(0, SeqNo(current=seq[0], maximum=seq[1]))
        self._must("send")
        self._put(reply(call.message, error=error, rows=extra, revision=self.options.revision))
        if seq is None or seq[0] == seq[1] or error is not None:
            self._finish(call)

    def close(self, reason: str = "done") -> None:
        """Ends the connection; calls under way fail."""
        self._close(reason, Side.LOCAL, clean=not self._calls)

    def _put(self, message: Message) -> None:
        try:
            data: bytes = self._codec.encode_message(ordered(message))
        except EncodeError as error:
            raise SessionError(error.code, str(error)) from error
        self._write(data)

    def _finish(self, call: Call) -> None:
        if call.id is not None:
            self._answering.pop(call.id, None)
        if call is self._current:
            self._current = None
            self._hand_over()

    # -- the peer's side ---------------------------------------------------------------------

    def _scan(self, buf: bytearray) -> None:
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
        raw = buf[pos:stop]
        if not self._acceptable(message):
            return
        what = kind(message)
        if self.options.trace_name is not None and FlagType.TRACE in flags(message):
            self._report(message)
        if what in {"REQUEST", "INFO"}:
            self._take_request(message, raw)
        elif what in {"RESPONSE", "INFO_RESPONSE", "TRACE_INFO"}:
            self._take_answer(message, raw)
        else:
            self._emit(Announced(message, raw))

    def _acceptable(self, message: Message) -> bool:
        """Strictness and version; what is refused is answered when it wants an answer."""
        problems = check(message, self.options.revision, strict=False)
        for problem in problems:
            self.warnings[problem.code] += 1
        if problems and self.options.strict:
            self._decline(message, problems[0].code, str(problems[0]))
            return False
        major = self.options.require_major
        if major is not None and kind(message) in {"REQUEST", "INFO"}:
            found = next((row.major for row in message.rows if isinstance(row, Version)), None)
            if found != major:
                self._decline(message, "bad_version", f"version {major} is wanted")
                return False
        return True

    def _decline(self, message: Message, code: str, text: str) -> None:
        """A fault that leaves the connection open; an error reply, never to an event."""
        self._fail(code, detail=text, fatal=False)
        if kind(message) in {"REQUEST", "INFO"}:
            self._put(reply(message, error=text, revision=self.options.revision))

    def _report(self, message: Message) -> None:
        """Trace: tells the sender that its message was here; processing goes on as always."""
        if FlagType.RESP not in flags(message):
            rows = (Flag(value=FlagType.TRACE_INFO), Payload(data=self._trace_text()))
            self._put(reply(message, rows=rows, revision=self.options.revision))

    def _trace_text(self) -> bytes:
        return f"{self.options.trace_name} handled".encode()

    # -- requests ----------------------------------------------------------------------------

    def _take_request(self, message: Message, raw: bytes) -> None:
        number = message_id(message)
        part = _is_part(message)
        if number is not None and number in self._answering and number not in self._requests:
            self._decline(message, "duplicate_row", f"message id {number} is in flight")
            return
        if number is None or not part:
            self._admit((message,), (raw,))
            return
        if number not in self._requests and len(self._requests) >= self.options.max_requests:
            self._decline(message, "too_busy", "too many sequences")
            return
        try:
            ready = self._requests.add(number, message, raw)
        except DecodeError as error:
            self._drop_sequence(number)
            self._decline(message, error.code, str(error))
            return
        gathered = self._gathered.setdefault(number, [])
        gathered += [(each, data) for each, data, _ in ready]
        self._gathered_bytes += sum(len(data) for _, data, _ in ready)
        if ready and ready[-1][2]:
            self._drop_sequence(number)
            self._admit(tuple(m for m, _ in gathered), tuple(data for _, data in gathered))
        elif self._too_long(gathered):
            self._drop_sequence(number)
            self._decline(message, "too_many", f"{len(gathered)} parts are held")

    def _too_long(self, gathered: list[tuple[Message, bytes]]) -> bool:
        return (
            len(gathered) >= self.options.max_parts
            or self._gathered_bytes > self.options.max_part_bytes
        )

    def _drop_sequence(self, number: int) -> None:
        self._requests.drop(number)
        self._gathered_bytes -= sum(len(data) for _, data in self._gathered.pop(number, []))

    def _admit(self, parts: tuple[Message, ...], raw: tuple[bytes, ...]) -> None:
        under_way = len(self._waiting) + len(self._answering)
        if under_way >= self.options.max_requests:
            self._decline(parts[0], "too_busy", f"{under_way} requests wait for an answer")
            return
        concurrent = self.options.revision == "lines" and FlagType.ASYNC in flags(parts[0])
        call = Call(parts, raw, concurrent)
        if call.id is not None:
            self._answering[call.id] = call
        if concurrent and call.id is not None:
            self._emit(Requested(call))
            return
        self._waiting.append(call)
        self._hand_over()

    def _hand_over(self) -> None:
        """The next request in order, when the one before is answered."""
        if self._current is None and self._waiting and self.state != CLOSED:
            self._current = self._waiting.popleft()
            self._emit(Requested(self._current))

    # -- answers -----------------------------------------------------------------------------

    def _take_answer(self, message: Message, raw: bytes) -> None:
        number = source_message_id(message)
        if is_trace_info(message):
            text = b"".join(row.data for row in message.rows if isinstance(row, Payload))
            self._emit(Traced(number, text.decode("utf-8", "replace"), message))
            return
        if number is None or number not in self._calls:
            self._fail("unexpected_reply", detail=f"no call {number} is under way", fatal=False)
            return
        try:
            ready = self._answers.add(number, message, raw)
        except DecodeError as error:
            self._fail_with(error, fatal=False)
            return
        for each, data, last in ready:
            over = last or error_text(each) is not None
            if over:
                self._end_call(number)
            self._emit(Answered(number, each, data, over))
            if over:
                break

    def _end_call(self, number: int) -> None:
        del self._calls[number]
        self._answers.drop(number)
        self._watch_calls()

    # -- time and the end --------------------------------------------------------------------

    def _watch_calls(self) -> None:
        if self._calls:
            self.timers.set("calls", min(self._calls.values()))
        else:
            self.timers.clear("calls")

    def _watch_idle(self) -> None:
        if self.options.idle_limit_s is not None:
            self.timers.set("idle", self.now + self.options.idle_limit_s)

    def _timer(self, name: str) -> None:
        if name == "idle":
            self._fail("idle", detail="nothing was heard")
            self._close("idle", Side.LOCAL, clean=False)
            return
        for number in [n for n, at in self._calls.items() if at <= self.now]:
            self._end_call(number)
            self._emit(CallFailed(number, "timeout"))
        self._watch_calls()

    def _refuse(self, error: DecodeError) -> None:
        self._fail_with(error)  # the rules: closed, no reply

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        if self.state == CLOSED:
            return
        for number in self._calls:
            self._emit(CallFailed(number, "connection_lost"))
        self._calls.clear()
        self._waiting.clear()
        self._answering.clear()
        self._current = None
        super()._close(reason, side, clean=clean)


def _is_part(message: Message) -> bool:
    return any(isinstance(row, SeqNo) for row in message.rows)
