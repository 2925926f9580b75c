"""ESNP connections: calls, infos, events, traces, sequences (seeds 000 and 001).

The two ends are alike: each may send requests, replies and events. Requests without FLAG_ASYNC
reach the application one at a time and are answered in order; with it, at once and in any order. A
call ends with its response, with the last part of a sequence, with its timeout, or with the
connection. A trace report never ends one, and an event is never answered (section 3 of
`docs/decisions/esnp.md`).

The peer's requests are in `endpoint.py` and `fast_path.py`, our own calls here.
"""

from __future__ import annotations

from collections.abc import Iterable

from wirelake.wire.errors import DecodeError

from ..sansio import CLOSED, Role, SessionError, Side
from .address import Address, address_to_pairs, parse_url
from .endpoint import Announced, Answered, Call, CallFailed, Forwarded, Requested, Traced
from .fast_path import FastPathRequests
from .layout import Address as AddressRow
from .layout import Flag, FlagType, Message, MessageId, Payload, Row, SeqNo
from .limits import SessionOptions
from .message import ANSWERS, MessageSummary, summarize
from .sequences import Numbers, Sequences, in_range

__all__ = [
    "Announced",
    "Answered",
    "Call",
    "CallFailed",
    "EsnpSession",
    "Forwarded",
    "Requested",
    "Traced",
]

_LAST_ID = (1 << 64) - 1


class EsnpSession(FastPathRequests):
    """One end of a connection. `first_id` is the id of our first call; let it differ between runs,
    so that late replies to a former run match nothing."""

    def __init__(
        self,
        role: Role,
        options: SessionOptions | None = None,
        *,
        first_id: int = 1,
        now: float = 0.0,
    ):
        super().__init__(role, options or SessionOptions(), now)
        if not 1 <= first_id <= _LAST_ID:
            raise SessionError("bad_config", "first_id: expected 1 to 2^64 - 1")
        self._next_id = first_id
        self._calls: dict[int, float] = {}
        self._sending: dict[int, int] = {}
        self._answers = Sequences(self.options.max_parts, self.options.max_part_bytes)

    # -- the application's side --------------------------------------------------------------

    @property
    def calls(self) -> int:
        """Own calls in flight."""
        return len(self._calls)

    def new_id(self) -> int:
        """Return an id that no call in flight has; never 0."""
        # Ids wrap after 2^64 - 1; an id of a call that is still in flight is skipped.
        number = self._next_id
        while number in self._calls:
            number = number % _LAST_ID + 1
        self._next_id = number % _LAST_ID + 1
        return number

    def request(
        self,
        rows: Iterable[Row],
        *,
        flag: int = FlagType.REQUEST,
        more_flags: Iterable[int] = (),
        timeout_s: float | None = None,
        seq: Numbers | None = None,
        number: int | None = None,
    ) -> int:
        """Send a call (or, with FlagType.INFO, an info) and return its id.

        A call of several messages: `seq` numbers each, and `number` is the id that the first
        returned. The timeout restarts with each.
        """
        number = self.new_id() if number is None else number
        head: list[Row] = [Flag(value=flag), *(Flag(value=each) for each in more_flags)]
        head += self._version_row
        head.append(MessageId(value=number))
        if seq is not None:
            head.append(SeqNo(current=seq[0], maximum=seq[1]))
        self.send(Message(rows=(*head, *rows)), timeout_s=timeout_s)
        return number

    def request_to(
        self, where: str | Address, rows: Iterable[Row] = (), *, timeout_s: float | None = None
    ) -> int:
        """Send a call to an address, or to an `esnp://` URL, whose `to` is the time to wait.

        `to` and what a URL has beside the address are the caller's and are not sent. A HOST is
        sent when it is named; whether this connection leads there is for the caller to see to.
        """
        if isinstance(where, str):
            where = self._parsed(where)
        if timeout_s is None and where.timeout_ms is not None:
            timeout_s = where.timeout_ms / 1000
        head = [AddressRow(kind=kind, value=value) for kind, value in address_to_pairs(where)]
        return self.request([*head, *rows], timeout_s=timeout_s)

    def _parsed(self, url: str) -> Address:
        if self.options.revision == "frames":
            raise SessionError("bad_url", "revision frames has no URLs; pass an Address")
        try:
            return parse_url(url)
        except DecodeError as error:
            raise SessionError(error.code, str(error)) from error

    def announce(self, rows: Iterable[Row]) -> None:
        """Send an event."""
        self.send(Message(rows=(Flag(value=FlagType.EVENT), *self._version_row, *rows)))

    @property
    def _version_row(self) -> tuple[Row, ...]:
        return () if self.options.version is None else (self.options.version,)

    def send(self, message: Message, *, timeout_s: float | None = None) -> None:
        """Send a message as it is, head rows first. A request or an info becomes a call."""
        self._must("send")
        summary = summarize(message, self.options.revision)
        if summary.kind in ANSWERS:
            raise SessionError("bad_state", "use answer() to reply to a call")
        if self.options.routes and summary.asks:
            raise SessionError("bad_state", "a router sends no requests; use forward()")
        data = self._encoded(message)
        if summary.asks:
            self._start(summary, timeout_s)
        self._write(data)

    def abandon(self, number: int) -> None:
        """Stop waiting for the reply to a call; one that comes later is dropped, as after a
        timeout."""
        if number in self._calls:
            self._end_call(number)

    def forward(self, raw: bytes) -> None:
        """Forward a message unchanged, whatever its rows."""
        self._must("send")
        self._write(self._whole(raw))

    def close(self, reason: str = "done") -> None:
        """End the connection; calls in flight fail."""
        self._close(reason, Side.LOCAL, clean=not self._calls and not self.pending)

    def _start(self, summary: MessageSummary, timeout_s: float | None) -> None:
        """Register a call, or the next part of one. A SessionError changes nothing."""
        number, seq = summary.id, summary.seq
        if not number:
            raise SessionError("bad_value", "a call needs a MESSAGE_ID other than 0")
        if number in self._calls and number not in self._sending:
            raise SessionError("bad_state", f"call {number} is already in flight")
        expected = self._sending.get(number, 1)
        if (seq or (1, 1))[0] != expected or (seq is None and expected > 1):
            raise SessionError("seq_range", f"expected part {expected} of call {number}")
        if seq is not None and not in_range(seq):
            raise SessionError("seq_range", f"{seq[0]} of {seq[1]}")
        if number not in self._calls and len(self._calls) >= self.options.max_calls:
            raise SessionError("too_busy", f"too many calls in flight ({len(self._calls)})")
        if seq is None or seq[0] == seq[1]:
            self._sending.pop(number, None)
        else:
            self._sending[number] = seq[0] + 1
        limit = self.options.call_timeout_s if timeout_s is None else timeout_s
        self._calls[number] = self.now + limit
        self._wake_by("calls", self.now + limit)

    # -- the peer's side ---------------------------------------------------------------------

    def _dispatch(self, message: Message, raw: bytes, summary: MessageSummary) -> None:
        if self.options.routes:
            self._emit(Forwarded(message, raw))
        elif summary.asks:
            self._on_request(message, raw, summary)
        elif summary.kind == "TRACE_INFO":
            text = b"".join(row.data for row in message.rows if isinstance(row, Payload))
            self._emit(Traced(summary.source_id, text.decode("utf-8", "replace"), message))
        elif summary.kind in ANSWERS:
            self._on_answer(message, raw, summary)
        else:
            self._emit(Announced(message, raw))

    def _on_answer(self, message: Message, raw: bytes, summary: MessageSummary) -> None:
        # A late response is a warning, not an error: its call has timed out here, while the peer
        # could not know. An ERROR ends a sequence early, whatever its number.
        number = summary.source_id
        if number is None or number not in self._calls:
            self._warn("unexpected_reply", f"no call {number} is in flight")
        elif summary.seq is None or summary.failed:
            self._end_call(number)
            self._emit(Answered(number, message, raw))
        else:
            self._on_part(number, summary.seq, message, raw)

    def _on_part(self, number: int, seq: Numbers, message: Message, raw: bytes) -> None:
        try:
            ready = self._answers.add(number, seq, message, raw)
        except DecodeError as error:
            self._warn(error.code, str(error))
            if error.code == "too_many":
                self._end_call(number)
                self._emit(CallFailed(number, error.code))
            return
        for each, data, last in ready:
            if last:
                self._end_call(number)
            self._emit(Answered(number, each, data, last))

    def _end_call(self, number: int) -> None:
        del self._calls[number]
        self._sending.pop(number, None)
        self._answers.drop(number)
        if not self._calls:
            self.timers.clear("calls")

    # -- time and the end --------------------------------------------------------------------

    def _timer(self, name: str) -> None:
        if name != "calls":
            super()._timer(name)
            return
        for number in [n for n, at in self._calls.items() if at <= self.now]:
            self._end_call(number)
            self._emit(CallFailed(number, "timeout"))
        if self._calls:
            self.timers.set("calls", min(self._calls.values()))

    def _eof(self, left: int) -> None:
        if left:
            super()._eof(left)
        else:
            self._close("eof", Side.REMOTE, clean=not self._calls and not self.pending)

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        if self.state == CLOSED:
            return
        for number in self._calls:
            self._emit(CallFailed(number, "connection_lost"))
        self._calls.clear()
        self._sending.clear()
        self._answers.clear()
        super()._close(reason, side, clean=clean)
