"""The fast path: requests answered while they are read, without an event.

An application that can answer some requests immediately sets `fast_handler`. A request whose head
matches a known template is passed to it; all others, and those that the handler declines, go
through the checks of `endpoint.py`. So does a request that would overtake an event that is still
queued, or a request that has to be answered first.

The full path costs 15 µs for a request, of which the codec takes 6 µs
(benchmarks/results/sessions.json): decoding the same head rows again, collecting what they mean,
and encoding the same reply head. A template replaces all three by comparing bytes.

A request with FLAG_ASYNC may be answered later: the handler returns `Deferred`, and
`reply_deferred` builds the reply.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import ModuleType
from typing import Any, Final, TypeAlias

import msgspec

from wirelake.wire.errors import DecodeError

from ..sansio import CLOSED, Role, Side
from .codec_seed import encode_message
from .endpoint import Endpoint, reply_to
from .layout import (
    Address,
    Data,
    Flag,
    FlagType,
    Header,
    Message,
    MessageId,
    Payload,
    Row,
    SourceMessageId,
    Var,
    VarType,
    XData,
)
from .limits import SessionOptions
from .message import ASYNC, MessageSummary, address
from .values import values_of

__all__ = [
    "END",
    "FAST_PATH_BODY",
    "ID_SIZE",
    "BodyTemplate",
    "DataTemplate",
    "Deferred",
    "FastBody",
    "FastHandler",
    "FastPathRequests",
    "HeadTemplate",
    "bytes_of_rows",
    "learn_body",
    "learn_head",
]


# -- templates: the bytes that repeat from message to message --------------------------------------


END: Final = encode_message(Message())
"""The END row, which terminates every message."""
_ROW_HEAD: Final = len(END)
"""Bytes of a row's type and length. END consists of nothing else."""
_KEPT: Final = 4_096
"""Cached prefixes per name, one for each length."""


def bytes_of_rows(*rows: Row) -> bytes:
    """Encode rows, without the END row."""
    return encode_message(Message(rows=rows)).removesuffix(END)


class DataTemplate:
    """DATA rows of one name, with text or bytes as value."""

    __slots__ = ("_name", "_prefixes", "_sizes", "kind")

    def __init__(self, name: str, kind: VarType):
        self.kind = kind
        self._name = name
        self._prefixes: dict[int, bytes] = {}
        self._sizes: dict[bytes, int] = {}

    def prefix(self, size: int) -> bytes:
        """Return the bytes before a value of this size."""
        found = self._prefixes.get(size)
        if found is None:
            sample: str | bytes = b" " * size
            if self.kind == VarType.LEN_STRING:
                sample = " " * size
            row = bytes_of_rows(Data(name=self._name, value=Var(type=self.kind, value=sample)))
            found = row[: len(row) - size]
            if len(self._prefixes) < _KEPT:
                self._prefixes[size] = found
                self._sizes[found[:_ROW_HEAD]] = size
        return found

    def value_at(self, buf: bytes, pos: int) -> tuple[int, int] | None:
        """Return start and stop of the value if the row at `pos` matches.

        None for another row, or for a size that `prefix` has not seen. The row may extend beyond
        the end of the buffer.
        """
        size = self._sizes.get(buf[pos : pos + _ROW_HEAD])
        if size is None:
            return None
        prefix = self._prefixes[size]
        if not buf.startswith(prefix, pos):
            return None
        start = pos + len(prefix)
        return start, start + size

    def row(self, value: bytes) -> bytes:
        """Encode the row; text is given as UTF-8."""
        return self.prefix(len(value)) + value


# -- bodies ----------------------------------------------------------------------------------------


_KINDS: Final = frozenset({VarType.LEN_STRING, VarType.LEN_BYTES})


class BodyTemplate:
    """A body in which one value differs."""

    __slots__ = ("_after", "_before", "_template", "_text")

    def __init__(self, before: bytes, template: DataTemplate, after: bytes):
        self._before = before
        self._template = template
        self._after = after
        self._text = template.kind == VarType.LEN_STRING

    def find(self, buf: bytes, pos: int) -> tuple[bytes, int] | None:
        """Return the value and the end of the message if the body at `pos` matches, else None.

        Text beyond ASCII is left to the decoder, which validates UTF-8.
        """
        before = self._before
        if not buf.startswith(before, pos):
            return None
        found = self._template.value_at(buf, pos + len(before))
        if found is None:
            return None
        start, stop = found
        if not buf.startswith(self._after, stop):
            return None
        value = buf[start:stop]
        if self._text and not value.isascii():
            return None
        return value, stop + len(self._after)

    def expect(self, size: int) -> None:
        """Prepare for values of this size."""
        self._template.prefix(size)


FastBody: TypeAlias = tuple[BodyTemplate, Callable[[bytes, bytes], Any]]
"""A body template, and the handler of its value and the request's id (see `FastHandler`)."""


def learn_body(rows: tuple[Row, ...], name: str) -> BodyTemplate | None:
    """Return the template of these rows, in which the DATA row of that name varies."""
    at = next((k for k, row in enumerate(rows) if type(row) is Data and row.name == name), None)
    if at is None:
        return None
    row = rows[at]
    assert isinstance(row, Data)
    value = row.value.value
    if row.value.type not in _KINDS or not isinstance(value, str | bytes):
        return None
    template = _template(name, VarType(row.value.type))
    template.prefix(len(value.encode() if isinstance(value, str) else value))
    after = bytes_of_rows(*rows[at + 1 :]) + END
    return BodyTemplate(bytes_of_rows(*rows[:at]), template, after)


_templates: dict[tuple[str, VarType], DataTemplate] = {}
_MOST: Final = 64
"""Templates shared by all connections; a client chooses the names, so the number is bounded."""


def _template(name: str, kind: VarType) -> DataTemplate:
    found = _templates.get((name, kind))
    if found is None:
        found = DataTemplate(name, kind)
        if len(_templates) < _MOST:
            _templates[name, kind] = found
    return found


# -- heads -----------------------------------------------------------------------------------------


FAST_PATH_BODY: Final = frozenset({Data, Payload, Header, XData})
"""Body rows without a meaning for the session: a reply does not carry them back."""
ID_SIZE: Final = 8
"""Bytes of an id."""
_FAST_PATH_HEAD: Final = frozenset({Flag, Address, MessageId})
_FAST_PATH_FLAGS: Final = (
    frozenset({int(FlagType.REQUEST)}),
    frozenset({int(FlagType.REQUEST), ASYNC}),
)
_NO_ID: Final = bytes(ID_SIZE)


class HeadTemplate(msgspec.Struct, gc=False, eq=False):
    """The bytes before and after the id, of a request and of its reply."""

    rows: tuple[Row, ...]
    """The rows of the request that it was learned from."""
    before: bytes
    after: bytes
    reply_before: bytes
    reply_after: bytes
    service: str
    op: str
    concurrent: bool
    """Whether the peer allows replies out of order."""
    after_at: int
    """Offset of the bytes after the id."""
    size: int
    """Offset of the body."""
    target: Any = None
    """For the application: the service at this address."""
    needs_values: bool = True
    """For the application: whether the handler reads the values of the DATA rows."""
    fast_body: FastBody | None = None
    """For the application: the template of a repeated body, and its handler."""
    learned: int = 0
    """How often `fast_body` was set: learning does not pay if every body is different."""

    def request_rows(self, number: bytes, body: tuple[Row, ...]) -> tuple[Row, ...]:
        """Return all rows of a request with this head."""
        head = [
            MessageId(value=int.from_bytes(number, "big")) if type(row) is MessageId else row
            for row in self.rows
        ]
        return (*head, *body)

    def is_of(self, message: Message, data: bytes) -> bool:
        """Return whether this is the whole head of a message whose bytes are `data`."""
        if not (data.startswith(self.before) and data.startswith(self.after, self.after_at)):
            return False
        body = message.rows[len(self.rows) :]
        return not body or type(body[0]) not in _FAST_PATH_HEAD


def learn_head(
    codec: ModuleType, message: Message, summary: MessageSummary, data: bytes, concurrent: bool
) -> HeadTemplate | None:
    """Return the template of a request whose bytes are `data`; None if it needs the full path."""
    # Rows that a reply carries back (SESSION_INFO, SOURCE_ADDRESS), sequences and traces need the
    # full path; so does everything that a strict reader would refuse.
    if summary.flags not in _FAST_PATH_FLAGS or summary.irregular or not summary.id:
        return None
    kinds = [type(row) for row in message.rows]
    count = next((at for at, kind in enumerate(kinds) if kind not in _FAST_PATH_HEAD), len(kinds))
    if not FAST_PATH_BODY.issuperset(kinds[count:]):
        return None
    rows = message.rows[:count]
    before, after = _around_id(codec, rows, MessageId)
    after_at = len(before) + ID_SIZE
    if not data.startswith(before) or not data.startswith(after, after_at):
        return None  # the peer encodes the same rows differently
    reply = _around_id(codec, reply_to(Message(rows=rows)).rows, SourceMessageId)
    where = address(message)
    size = after_at + len(after)
    names = where.service or "", where.op or ""
    return HeadTemplate(rows, before, after, *reply, *names, concurrent, after_at, size)


def _around_id(codec: ModuleType, rows: tuple[Row, ...], cls: type) -> tuple[bytes, bytes]:
    at = next(index for index, row in enumerate(rows) if isinstance(row, cls))
    end = codec.encode_message(Message())
    upto: bytes = codec.encode_message(Message(rows=(*rows[:at], cls(value=0))))
    rest: bytes = codec.encode_message(Message(rows=rows[at + 1 :]))
    return upto.removesuffix(_NO_ID + end), rest.removesuffix(end)


class Deferred(Enum):
    """The reply comes later, through `FastPathRequests.reply_deferred`."""

    DEFERRED = "deferred"


FastHandler: TypeAlias = Callable[
    [HeadTemplate, tuple[Row, ...], dict[str, Any], bytes], bytes | str | Deferred | None
]
"""Answers a request, given its head, the rows of its body, their values by name (empty unless
`HeadTemplate.needs_values`), and its id as bytes.

Returns the body of the reply (`FastPathRequests.body_of`), the text of an error, or `Deferred` if
the head is concurrent. None means that the handler did nothing: the request becomes an event.
"""

_HEADS: Final = 8
"""Head templates per connection. A client has few kinds of requests, and each is compared."""


class FastPathRequests(Endpoint):
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

    # -- matching requests -------------------------------------------------------------------

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        for head in self._heads:
            if buf.startswith(head.before, pos) and buf.startswith(head.after, pos + head.after_at):
                stop = self._answer_fast_path(head, buf, pos, end)
                if stop:
                    return None, stop
        return super()._decode(buf, pos, end)

    def _answer_fast_path(self, head: HeadTemplate, buf: bytes, pos: int, end: int) -> int:
        """Return where the answered request stops; 0 if it has to take the full path."""
        # Order is part of the protocol: without FLAG_ASYNC replies come in the order of requests,
        # so a request waits behind an unanswered one, and behind events that are not fetched yet.
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
        values = values_of(rows) if head.needs_values else {}
        body = self.fast_handler(head, rows, values, number)
        return stop if self._answered(head, number, body) else 0

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
            data = self._fast_path_reply(head, number, body)
            self._out.append(data)
            self.sent_bytes += len(data)
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
        # Errors are rare: the reply is built from rows, as the full path builds it.
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
