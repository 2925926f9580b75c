"""The fast path: requests answered while they are read, without an event.

An application that can answer some requests immediately sets `fast_handler`. A request whose head
matches a known template (`templates.py`) is passed to it; all others, and those that the handler
does not take, go through the checks of `requests.py`. So does a request that would overtake an
event that is still queued, or a request that has to be answered first.

The full path costs 15 µs for a request, of which the codec takes 6 µs
(benchmarks/results/sessions.json): decoding the same head rows again, collecting what they mean,
and encoding the same reply head. A template replaces all three by comparing bytes.

A request with FLAG_ASYNC may be answered later: the handler returns `Deferred`, and
`reply_deferred` builds the reply.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, TypeAlias

from wirelake.wire.errors import DecodeError

from ..sansio import CLOSED, Role, Side
from .layout import Message, MessageId, Row
from .limits import SessionOptions
from .message_summary import ASYNC, MessageSummary
from .replies import reply_to
from .requests import Requests
from .templates import FAST_PATH_BODY, ID_SIZE, FastBody, HeadTemplate, learn_head

__all__ = ["Deferred", "FastHandler", "FastPathRequests"]


class Deferred(Enum):
    """The reply comes later, through `FastPathRequests.reply_deferred`."""

    DEFERRED = "deferred"


FastHandler: TypeAlias = Callable[
    [HeadTemplate, tuple[Row, ...], bytes], bytes | str | Deferred | None
]
"""Answers a request, given its head, the rows of its body, and its id as bytes.

Returns the body of the reply (`FastPathRequests.body_of`), the text of an error, or `Deferred` if
the head is concurrent. None means that the handler did nothing: the request becomes an event.
"""

_HEADS: Final = 8
"""Head templates per connection. A client has few kinds of requests, and each is compared."""


class FastPathRequests(Requests):
    """The peer's requests, with the fast path."""

    def __init__(self, role: Role, options: SessionOptions, now: float):
        super().__init__(role, options, now)
        self.fast_handler: FastHandler | None = None
        """Answers requests while they are read; None turns all of them into events."""
        self._heads: list[HeadTemplate] = []
        self._deferred = 0

    @property
    def pending(self) -> int:
        """Requests of the peer that are unanswered or incomplete."""
        return super().pending + self._deferred

    # -- the application's side --------------------------------------------------------------

    def body_of(self, rows: tuple[Row, ...]) -> bytes:
        """Encode body rows for `fast_handler`. Raises SessionError if they cannot be encoded."""
        if not FAST_PATH_BODY.issuperset(map(type, rows)):
            self._originated(rows)
        return self._limited(self._bytes_of(Message(rows=rows)))

    def reply_deferred(self, head: HeadTemplate, number: bytes, body: bytes | str) -> bytes:
        """Build the reply to a deferred request; the caller writes it."""
        if self.state == CLOSED:
            return b""
        self._deferred -= 1
        self._ids.discard(int.from_bytes(number, "big"))
        data = self._fast_path_reply(head, number, body)
        self.sent_bytes += len(data)
        return data

    # -- what comes --------------------------------------------------------------------------

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        for head in self._heads:
            if buf.startswith(head.before, pos) and buf.startswith(head.after, pos + head.after_at):
                stop = self._answer_fast_path(head, buf, pos, end)
                if stop:
                    return None, stop
        return super()._decode(buf, pos, end)

    def _answer_fast_path(self, head: HeadTemplate, buf: bytes, pos: int, end: int) -> int:
        """Return where the answered request stops; 0 if it has to take the full path."""
        if self._events or (self._open and not head.concurrent):
            return 0  # it would overtake an earlier message
        if self._gathering or self.fast_handler is None:
            return 0
        after_at = pos + head.after_at
        number = buf[after_at - ID_SIZE : after_at]
        if self._ids and self._refused(number):
            return 0
        if head.fast_body is not None:
            stop = self._answer_known_body(head, head.fast_body, buf, pos, number)
            if stop:
                return stop
        message: Message
        try:
            limit = self.message_limit - head.size
            message, stop = self._codec.decode_message(buf, pos + head.size, end, limit)
        except DecodeError:
            return 0  # the full path finds it again and reports it
        rows = message.rows
        for row in rows:
            if type(row) not in FAST_PATH_BODY:
                return 0
        return stop if self._answered(head, number, self.fast_handler(head, rows, number)) else 0

    def _answer_known_body(
        self, head: HeadTemplate, fast_body: FastBody, buf: bytes, pos: int, number: bytes
    ) -> int:
        """Answer a request whose body matches the template, as `_answer_fast_path`."""
        body, act = fast_body
        found = body.find(buf, pos + head.size)
        if found is None or found[1] - pos > self.message_limit:
            return 0
        return found[1] if self._answered(head, number, act(found[0], number)) else 0

    def _answered(
        self, head: HeadTemplate, number: bytes, body: bytes | str | Deferred | None
    ) -> bool:
        """Write the handler's reply; False if it gave none."""
        if body is None:
            return False
        if self.state == CLOSED:  # the application closed it meanwhile
            return True
        if body is Deferred.DEFERRED:
            self._deferred += 1
            self._ids.add(int.from_bytes(number, "big"))
        else:
            self._write(self._fast_path_reply(head, number, body))
        return True

    def _refused(self, number: bytes) -> bool:
        """Return whether the id is in flight already, or too many requests are."""
        if len(self._open) + self._deferred >= self.options.max_requests:
            return True
        return int.from_bytes(number, "big") in self._ids

    def _fast_path_reply(self, head: HeadTemplate, number: bytes, body: bytes | str) -> bytes:
        if isinstance(body, bytes):
            data = b"".join((head.reply_before, number, head.reply_after, body))
            if len(data) <= self.options.message_limit:
                return data
            body = f"the answer has {len(data)} bytes"
        asked = [_with_id(row, number) for row in head.rows]
        return self._bytes_of(reply_to(Message(rows=tuple(asked)), error=body))

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        if message is None:  # answered by the fast path
            self._watch_idle()
        else:
            super()._handle(message, buf, pos, stop)

    def _admit(
        self, parts: tuple[Message, ...], raw: tuple[bytes, ...], summary: MessageSummary
    ) -> None:
        if self.fast_handler is not None and len(self._heads) < _HEADS and len(parts) == 1:
            self._remember(parts[0], raw[0], summary)
        super()._admit(parts, raw, summary)

    def _remember(self, message: Message, raw: bytes, summary: MessageSummary) -> None:
        if any(head.is_of(message, raw) for head in self._heads):
            return
        concurrent = self.options.revision == "lines" and ASYNC in summary.flags
        head = learn_head(self._codec, message, summary, raw, concurrent)
        if head is not None:
            self._heads.append(head)

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        super()._close(reason, side, clean=clean)
        self._deferred = 0
        self.fast_handler = None  # drop references to the application
        for head in self._heads:
            head.target = head.fast_body = None
        self._heads = []


def _with_id(row: Row, number: bytes) -> Row:
    return MessageId(value=int.from_bytes(number, "big")) if type(row) is MessageId else row
