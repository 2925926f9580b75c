"""Plain requests, answered while they are read.

An application that can answer some requests on the spot sets `at_once`. A plain request whose head
is known (`heads.py`) is then given to it, and makes no event; all others, and those that it does
not want, go through the gates of `requests.py`. So does what would overtake an event that has not
been taken yet, or a request that must be answered first.

A plain request with FLAG_ASYNC need not be answered on the spot: `reply_later` makes its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, TypeAlias

from wirelake.wire.errors import DecodeError

from ..sansio import (
    CLOSED,
    Role,
    Side,
)
from .bodies import Quick
from .heads import (
    ID_SIZE,
    PLAIN_BODY,
    Head,
    learn,
)
from .layout import (
    Message,
    MessageId,
    Row,
)
from .limits import SessionOptions
from .message_summary import ASYNC, Facts
from .replies import reply_to
from .requests import Requests

__all__ = ["AtOnce", "Later", "PlainRequests"]


class Later(Enum):
    """The answer will come: `PlainRequests.reply_later`."""

    LATER = "later"


AtOnce: TypeAlias = Callable[[Head, tuple[Row, ...], bytes], bytes | str | Later | None]
"""Answers a plain request, of which it gets the head, the rows of the body, and the id as bytes.

Gives back the body of the answer (`PlainRequests.body_of`), the text of an error, `Later` if the
head is a concurrent one, or None when it wants the request as an event, and has done nothing yet.
"""

_HEADS: Final = 8
"""Heads that are kept for one connection: a client has few kinds of plain requests."""


class PlainRequests(Requests):
    """What a connection does for its peer, and does at once where it can."""

    def __init__(self, role: Role, options: SessionOptions, now: float):
        super().__init__(role, options, now)
        self.at_once: AtOnce | None = None
        """Answers plain requests while they are read; None lets all of them be events."""
        self._heads: list[Head] = []
        self._later = 0

    @property
    def pending(self) -> int:
        """Requests of the peer that are not answered, or not whole."""
        return super().pending + self._later

    # -- the application's side --------------------------------------------------------------

    def body_of(self, rows: tuple[Row, ...]) -> bytes:
        """The bytes of body rows, for `at_once`. SessionError when they cannot be written."""
        if not PLAIN_BODY.issuperset(map(type, rows)):
            self._originated(rows)
        return self._limited(self._bytes_of(Message(rows=rows)))

    def reply_later(self, head: Head, number: bytes, body: bytes | str) -> bytes:
        """The answer to a request that `at_once` put off, to be written now."""
        if self.state == CLOSED:
            return b""
        self._later -= 1
        self._ids.discard(int.from_bytes(number, "big"))
        data = self._plain_reply(head, number, body)
        self.sent_bytes += len(data)
        return data

    # -- what comes --------------------------------------------------------------------------

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        for head in self._heads:
            if buf.startswith(head.before, pos) and buf.startswith(head.after, pos + head.after_at):
                stop = self._answer_at_once(head, buf, pos, end)
                if stop:
                    return None, stop
        return super()._decode(buf, pos, end)

    def _answer_at_once(self, head: Head, buf: bytes, pos: int, end: int) -> int:
        """Where the request stops that has been taken; 0 when it has to go the usual way."""
        if self._events or (self._open and not head.concurrent):
            return 0  # it would overtake what came before it
        if self._gathering or self.at_once is None:
            return 0
        after_at = pos + head.after_at
        number = buf[after_at - ID_SIZE : after_at]
        if self._ids and self._refused(number):
            return 0
        if head.quick is not None:
            stop = self._answer_quickly(head, head.quick, buf, pos, number)
            if stop:
                return stop
        message: Message
        try:
            limit = self.message_limit - head.size
            message, stop = self._codec.decode_message(buf, pos + head.size, end, limit)
        except DecodeError:
            return 0  # found again there, and refused
        rows = message.rows
        for row in rows:
            if type(row) not in PLAIN_BODY:
                return 0
        return stop if self._answered(head, number, self.at_once(head, rows, number)) else 0

    def _answer_quickly(self, head: Head, quick: Quick, buf: bytes, pos: int, number: bytes) -> int:
        """The same for a body that is known but for one value."""
        body, act = quick
        found = body.find(buf, pos + head.size)
        if found is None or found[1] - pos > self.message_limit:
            return 0
        return found[1] if self._answered(head, number, act(found[0], number)) else 0

    def _answered(self, head: Head, number: bytes, body: bytes | str | Later | None) -> bool:
        """Writes what the application answers, if it does."""
        if body is None:
            return False
        if self.state == CLOSED:  # the application has ended it meanwhile
            return True
        if body is Later.LATER:
            self._later += 1
            self._ids.add(int.from_bytes(number, "big"))
        else:
            self._write(self._plain_reply(head, number, body))
        return True

    def _refused(self, number: bytes) -> bool:
        """Whether the id is in flight, or too many requests are."""
        if len(self._open) + self._later >= self.options.max_requests:
            return True
        return int.from_bytes(number, "big") in self._ids

    def _plain_reply(self, head: Head, number: bytes, body: bytes | str) -> bytes:
        if isinstance(body, bytes):
            data = b"".join((head.reply_before, number, head.reply_after, body))
            if len(data) <= self.options.message_limit:
                return data
            body = f"the answer has {len(data)} bytes"
        asked = [_with_id(row, number) for row in head.rows]
        return self._bytes_of(reply_to(Message(rows=tuple(asked)), error=body))

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        if message is None:  # taken at once
            self._watch_idle()
        else:
            super()._handle(message, buf, pos, stop)

    def _admit(self, parts: tuple[Message, ...], raw: tuple[bytes, ...], facts: Facts) -> None:
        if self.at_once is not None and len(self._heads) < _HEADS and len(parts) == 1:
            self._remember(parts[0], raw[0], facts)
        super()._admit(parts, raw, facts)

    def _remember(self, message: Message, raw: bytes, facts: Facts) -> None:
        if any(head.is_of(message, raw) for head in self._heads):
            return
        concurrent = self.options.revision == "lines" and ASYNC in facts.flags
        head = learn(self._codec, message, facts, raw, concurrent)
        if head is not None:
            self._heads.append(head)

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        super()._close(reason, side, clean=clean)
        self._later = 0
        self.at_once = None  # nothing holds on to the application any more
        for head in self._heads:
            head.target = head.quick = None
        self._heads = []


def _with_id(row: Row, number: bytes) -> Row:
    return MessageId(value=int.from_bytes(number, "big")) if type(row) is MessageId else row
