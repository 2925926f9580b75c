"""Templates of the fast path: the bytes that repeat from message to message, encoded once.

Most requests of a connection differ only in their id and in one value. The rows before the body are
then the same bytes each time, but for the id, and so are those of the reply.

- `DataTemplate` writes and finds DATA rows of one name. Everything before the text depends on the
  name and on the length alone; the codec encodes it once for each length.

      ID = DataTemplate("id", VarType.LEN_STRING)
      message = HEAD + ID.row(b"m0000000157cfb8b") + END

- `BodyTemplate` is a body in which one value differs. A client that publishes prices sends the same
  topic in every request, and another content: only that row is looked at.
- `HeadTemplate` is the head of a request and of its reply. It is learned from a request that was
  decoded and checked in full (`requests.py`), and it is built from bytes of the codec.

A message that does not match a template byte for byte is decoded in full.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, TypeAlias

import msgspec

from .codec_seed import encode_message
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
from .message import address
from .message_summary import ASYNC, MessageSummary
from .replies import reply_to

__all__ = [
    "END",
    "FAST_PATH_BODY",
    "ID_SIZE",
    "BodyTemplate",
    "DataTemplate",
    "FastBody",
    "HeadTemplate",
    "bytes_of_rows",
    "learn_body",
    "learn_head",
]

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
    fast_body: FastBody | None = None
    """For the application: the template of a repeated body, and its handler."""
    learned: int = 0
    """How often `fast_body` was set: learning does not pay if every body is different."""

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
    if summary.flags not in _FAST_PATH_FLAGS or summary.odd or not summary.id:
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
