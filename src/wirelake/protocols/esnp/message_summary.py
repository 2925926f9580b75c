"""What a session needs to know about a message, collected in one pass over its rows.

The results equal those of `message.py` (sections 3 and 6 of `docs/decisions/esnp.md`), which goes
through the rows again for each question; a test compares them. `odd` only means that there may be
something to warn about: `check` finds out.

`modern` is the optional reading of the cancelled rows, revision frames only: flags replaced TRACE
and TRACE_RESP days after the document, and MESSAGE_KIND before anybody sent it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .layout import (
    BrokenRow,
    Data,
    Error,
    Flag,
    FlagType,
    Header,
    Message,
    MessageId,
    OpaqueRow,
    Payload,
    Row,
    RowType,
    SeqNo,
    SessionInfo,
    SourceMessageId,
    Version,
    XData,
)
from .message import Kind, Revision
from .sequences import Numbers, in_range

__all__ = [
    "ANSWERS",
    "ASKS",
    "ASYNC",
    "BODY",
    "CANCELLED",
    "TRACE",
    "MessageSummary",
    "modern",
    "summarize",
]

ASKS: Final = frozenset({"REQUEST", "INFO"})
"""Kinds that ask for a reply."""
ANSWERS: Final = frozenset({"RESPONSE", "INFO_RESPONSE"})
"""Kinds that are a reply."""
CANCELLED: Final = frozenset({RowType.MESSAGE_KIND, RowType.TRACE, RowType.TRACE_RESP})
"""Rows that a FLAG has replaced."""

BODY: Final = frozenset({SessionInfo, Header, Data, Payload, XData})
"""The classes of body rows (体行)."""
# Looking up an enumeration member costs more than everything else done with a flag.
TRACE: Final = int(FlagType.TRACE)
"""The flag that asks for trace messages."""
ASYNC: Final = int(FlagType.ASYNC)
"""The flag that allows concurrent requests and replies out of order."""
_TRACE_INFO: Final = int(FlagType.TRACE_INFO)
_RESP: Final = int(FlagType.RESP)
_REQUEST: Final = int(FlagType.REQUEST)
_INFO: Final = int(FlagType.INFO)
_EVENT: Final = int(FlagType.EVENT)
_KINDS: Final = {1: FlagType.REQUEST, 2: FlagType.RESP, 3: FlagType.INFO, 4: FlagType.EVENT}
_NO_FLAGS: Final[frozenset[int]] = frozenset()


class MessageSummary(msgspec.Struct, frozen=True, gc=False):
    """The properties of a message that decide how a session handles it."""

    kind: Kind = "NONE"
    flags: frozenset[int] = _NO_FLAGS
    id: int | None = None
    source_id: int | None = None
    seq: Numbers | None = None
    failed: bool = False
    """Whether there is an ERROR row; an empty one counts."""
    major: int | None = None
    odd: bool = False
    """Whether a strict reader may object."""
    cancelled: bool = False
    """Whether there are rows for `modern`."""

    @property
    def asks(self) -> bool:
        """Whether the message asks for a reply."""
        return self.kind in ASKS


def summarize(message: Message, revision: Revision = "lines") -> MessageSummary:
    """Summarize a message; of a row that may occur once, the first counts."""
    flags: set[int] = set()
    number = source = major = None
    seq: Numbers | None = None
    failed = odd = body = cancelled = False
    lines = revision == "lines"
    row: Any  # distinguished by its class, looked up once
    for row in message.rows:
        kind = type(row)
        if kind in BODY:
            body = True
            continue
        if kind is OpaqueRow:
            cancelled = cancelled or row.type in CANCELLED
            continue
        if body and lines:
            odd = True
        if kind is Flag:
            flags.add(row.value)
        elif kind is MessageId:
            odd = odd or number is not None
            number = row.value if number is None else number
        elif kind is SourceMessageId:
            odd = odd or source is not None
            source = row.value if source is None else source
        elif kind is SeqNo:
            numbers = row.current, row.maximum
            odd = odd or seq is not None or not in_range(numbers)
            seq = numbers if seq is None else seq
        elif kind is Error:
            odd = odd or failed
            failed = True
        elif kind is Version:
            odd = odd or major is not None
            major = row.major if major is None else major
        elif kind is BrokenRow:
            odd = True
    found = frozenset(flags) if flags else _NO_FLAGS
    return MessageSummary(_kind(found), found, number, source, seq, failed, major, odd, cancelled)


def _kind(flags: frozenset[int]) -> Kind:
    """As `message.kind`, of flags that are already a set."""
    if _TRACE_INFO in flags:
        return "TRACE_INFO"
    if _RESP in flags:
        return "INFO_RESPONSE" if _INFO in flags else "RESPONSE"
    if _REQUEST in flags:
        return "REQUEST"
    if _INFO in flags:
        return "INFO"
    return "EVENT" if _EVENT in flags else "NONE"


def modern(message: Message) -> Message:
    """Return the message with FLAG rows instead of cancelled ones; others stay."""
    return Message(rows=tuple(map(_modern_row, message.rows)))


def _modern_row(row: Row) -> Row:
    match row:
        case OpaqueRow(type=RowType.TRACE, data=b""):
            return Flag(value=FlagType.TRACE)
        case OpaqueRow(type=RowType.TRACE_RESP, data=b""):
            return Flag(value=FlagType.TRACE_INFO)
        case OpaqueRow(type=RowType.MESSAGE_KIND, data=data) if len(data) == 1:
            flag = _KINDS.get(data[0])
            return row if flag is None else Flag(value=flag)
        case _:
            return row
