"""One ESNP message: what its rows mean together, strict checks, the reply, and a summary.

Implements 【行类别】 of seed 001 and §3 and §6 of the ESNP rules (`docs/decisions/esnp.md`). A
decoded `Message` is its rows as received; nothing here changes one. Flags are a set, so every FLAG
row counts; of a row that may occur once the first counts; a broken row counts as absent, except
that a reply carries a broken SESSION_INFO back unchanged.

`check` has the strict checks. Revision *lines* requires head rows before body rows, revision
*frames* allows any order; everything else is the same in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeVar

import msgspec

from wirelake.wire.errors import DecodeError

from . import layout
from .address import Address, address_from_pairs
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
from .sequences import Numbers, in_range

__all__ = [
    "ANSWERS",
    "ASKS",
    "ASYNC",
    "BODY",
    "BODY_ROWS",
    "CANCELLED",
    "HEAD_ROWS",
    "SINGLE_ROWS",
    "TRACE",
    "Kind",
    "MessageSummary",
    "Revision",
    "address",
    "addresses",
    "check",
    "error_text",
    "flag_name",
    "flags",
    "is_last",
    "is_request",
    "is_response",
    "is_trace_info",
    "kind",
    "message_id",
    "modern",
    "ordered",
    "problems",
    "reply",
    "row_type",
    "seq",
    "source_address",
    "source_message_id",
    "summarize",
]


Revision = Literal["frames", "lines"]
"""Which document a peer follows: seed 000 or seed 001."""

Kind = Literal["REQUEST", "RESPONSE", "INFO", "INFO_RESPONSE", "EVENT", "TRACE_INFO", "NONE"]
"""What a message is, after the names of the cancelled MESSAGE_KIND row."""

HEAD_ROWS: Final = frozenset(
    {
        RowType.MESSAGE_ID,
        RowType.SOURCE_MESSAGE_ID,
        RowType.ADDRESS,
        RowType.SOURCE_ADDRESS,
        RowType.SEQ_NO,
        RowType.ERROR,
        RowType.FLAG,
        RowType.VERSION,
    }
)
"""头行: in revision lines these come first."""
BODY_ROWS: Final = frozenset(
    {RowType.SESSION_INFO, RowType.HEADER, RowType.DATA, RowType.PAYLOAD, RowType.XDATA}
)
"""体行: in revision lines these come after every head row."""
SINGLE_ROWS: Final = frozenset(
    {
        RowType.MESSAGE_ID,
        RowType.SOURCE_MESSAGE_ID,
        RowType.SEQ_NO,
        RowType.ERROR,
        RowType.VERSION,
    }
)
"""Rows that the documents do not allow several of."""

_TYPES: Final[dict[type, int]] = {
    layout.SessionInfo: RowType.SESSION_INFO,
    layout.MessageId: RowType.MESSAGE_ID,
    layout.SourceMessageId: RowType.SOURCE_MESSAGE_ID,
    layout.Header: RowType.HEADER,
    layout.Data: RowType.DATA,
    layout.Payload: RowType.PAYLOAD,
    layout.Address: RowType.ADDRESS,
    layout.SourceAddress: RowType.SOURCE_ADDRESS,
    layout.SeqNo: RowType.SEQ_NO,
    layout.XData: RowType.XDATA,
    layout.Error: RowType.ERROR,
    layout.Flag: RowType.FLAG,
    layout.Version: RowType.VERSION,
}

R = TypeVar("R")


def row_type(row: Row) -> int:
    """Return the type number of a row."""
    if isinstance(row, OpaqueRow | BrokenRow):
        return row.type
    return int(_TYPES[type(row)])


def _all(message: Message, cls: type[R]) -> Iterator[R]:
    return (row for row in message.rows if isinstance(row, cls))


def _first(message: Message, cls: type[R]) -> R | None:
    return next(_all(message, cls), None)


# -- flags ------------------------------------------------------------------------------------


def flags(message: Message) -> tuple[int, ...]:
    """Return the numbers of all FLAG rows, in their order."""
    return tuple(row.value for row in _all(message, Flag))


def flag_name(number: int, revision: Revision = "lines") -> str | None:
    """Return the document's name of a flag; None without one (7 is defined in lines only)."""
    if number == FlagType.ASYNC and revision == "frames":
        return None
    try:
        return FlagType(number).name
    except ValueError:
        return None


def is_request(message: Message) -> bool:
    """Return whether the message is a request: REQUEST, and not RESP."""
    found = flags(message)
    return FlagType.REQUEST in found and FlagType.RESP not in found


def is_response(message: Message) -> bool:
    """Return whether the message has RESP; a trace report does too, see `is_trace_info`."""
    return FlagType.RESP in flags(message)


def is_trace_info(message: Message) -> bool:
    """Return whether it is a trace report, which has the flags of a response but ends no call."""
    return FlagType.TRACE_INFO in flags(message)


def kind(message: Message) -> Kind:
    """Return the kind of a message, by its set of flags."""
    found = set(flags(message))
    if FlagType.TRACE_INFO in found:
        return "TRACE_INFO"
    if FlagType.RESP in found:
        return "INFO_RESPONSE" if FlagType.INFO in found else "RESPONSE"
    if FlagType.REQUEST in found:
        return "REQUEST"
    if FlagType.INFO in found:
        return "INFO"
    return "EVENT" if FlagType.EVENT in found else "NONE"


# -- single rows ------------------------------------------------------------------------------


def message_id(message: Message) -> int | None:
    """Return the id of the message; None without one."""
    row = _first(message, layout.MessageId)
    return None if row is None else row.value


def source_message_id(message: Message) -> int | None:
    """Return the id of the message that this one answers; None without one."""
    row = _first(message, layout.SourceMessageId)
    return None if row is None else row.value


def error_text(message: Message) -> str | None:
    """Return the text of the ERROR row; None without one. An empty text is an error, too."""
    row = _first(message, layout.Error)
    return None if row is None else row.value


def seq(message: Message) -> tuple[int, int] | None:
    """Return (current, maximum) of the SEQ_NO row; None without one. Maximum 0 is unknown."""
    row = _first(message, layout.SeqNo)
    return None if row is None else (row.current, row.maximum)


def is_last(message: Message) -> bool:
    """Return whether it is the last part of a sequence; False without SEQ_NO."""
    found = seq(message)
    return found is not None and found[0] == found[1] >= 1


# -- addresses --------------------------------------------------------------------------------


def addresses(message: Message) -> tuple[tuple[int, str], ...]:
    """Return (kind, value) of every ADDRESS row."""
    return tuple((row.kind, row.value) for row in _all(message, layout.Address))


def address(message: Message) -> Address:
    """Return where the message goes: the first row of each kind counts."""
    return address_from_pairs(addresses(message))


def source_address(message: Message) -> Address:
    """Return where the message comes from: the first row of each kind counts."""
    rows = _all(message, layout.SourceAddress)
    return address_from_pairs((row.kind, row.value) for row in rows)


# -- order and strictness ---------------------------------------------------------------------


def ordered(message: Message) -> Message:
    """Return the same rows, head rows first; rows of neither class go with the body."""
    head = [row for row in message.rows if row_type(row) in HEAD_ROWS]
    rest = [row for row in message.rows if row_type(row) not in HEAD_ROWS]
    return Message(rows=(*head, *rest))


def problems(message: Message, revision: Revision = "lines") -> Iterator[DecodeError]:
    """Yield what a strict reader refuses: broken rows, repeats, order, numbering."""
    for index, row in enumerate(message.rows):
        if isinstance(row, BrokenRow):
            yield DecodeError(row.code, row.field, None, _at(index, f"byte {row.offset} of it"))
    yield from _repeats(message)
    if revision == "lines":
        yield from _misplaced(message)
    for index, row in enumerate(message.rows):
        if isinstance(row, layout.SeqNo) and not _in_range(row):
            field = "seq_no.current" if row.maximum >= 0 else "seq_no.maximum"
            yield DecodeError("seq_range", field, None, _at(index, f"{row.current}/{row.maximum}"))


def frames_problems(message: Message) -> Iterator[DecodeError]:
    """Yield what a strict reader of revision *frames* refuses, apart from broken rows."""
    return _order_problems(message, "frames")


def lines_problems(message: Message) -> Iterator[DecodeError]:
    """Yield what a strict reader of revision *lines* refuses, apart from broken rows."""
    return _order_problems(message, "lines")


def _order_problems(message: Message, revision: Revision) -> Iterator[DecodeError]:
    # A broken row is reported by itself; rules between rows do not apply to such a message.
    if not any(isinstance(row, BrokenRow) for row in message.rows):
        yield from problems(message, revision)


def _at(index: int, more: str) -> str:
    return f"row {index}: {more}"


def _repeats(message: Message) -> Iterator[DecodeError]:
    # A broken row counts by its type: its presence is what is repeated, whatever its content.
    seen: set[int] = set()
    for index, row in enumerate(message.rows):
        number = row_type(row)
        if number in SINGLE_ROWS and number in seen:
            name = RowType(number).name
            yield DecodeError("duplicate_row", name.lower(), None, _at(index, name))
        seen.add(number)


def _misplaced(message: Message) -> Iterator[DecodeError]:
    body = ""
    for index, row in enumerate(message.rows):
        number = row_type(row)
        if number in BODY_ROWS:
            body = body or RowType(number).name
        elif number in HEAD_ROWS and body:
            name = RowType(number).name
            yield DecodeError("row_order", name.lower(), None, _at(index, f"{name} after {body}"))


def _in_range(row: layout.SeqNo) -> bool:
    return row.current >= 1 and (row.maximum == 0 or row.maximum >= row.current)


def check(
    message: Message, revision: Revision = "lines", *, strict: bool = True
) -> tuple[DecodeError, ...]:
    """Raise the first of `problems` if `strict`; otherwise return them all, as warnings."""
    if revision not in ("frames", "lines"):
        raise ValueError(f"unknown revision {revision!r}; expected frames or lines")
    found = tuple(problems(message, revision))
    if strict and found:
        raise found[0]
    return found


# -- the reply --------------------------------------------------------------------------------


def reply(
    message: Message,
    *,
    error: str | None = None,
    rows: Iterable[Row] = (),
    revision: Revision = "lines",
) -> Message:
    """Return the reply to a message, with the rows that a response must carry back.

    RESP comes first, then ERROR and the head rows among `rows`, then what is copied in the order of
    the request, then the other `rows`. Revision lines moves head rows before body rows.
    """
    extra = list(rows)
    made: list[Row] = [Flag(value=FlagType.RESP)]
    if error is not None:
        made.append(layout.Error(value=error))
    made += [row for row in extra if row_type(row) in HEAD_ROWS]
    made += filter(None, map(_copied, message.rows))
    made += [row for row in extra if row_type(row) not in HEAD_ROWS]
    answer = Message(rows=tuple(made))
    return ordered(answer) if revision == "lines" else answer


def _copied(row: Row) -> Row | None:
    """Return the row of the reply that a row of the request becomes; None for most."""
    match row:
        case layout.SessionInfo():
            return row
        case BrokenRow(type=RowType.SESSION_INFO):
            return row
        case Flag(value=FlagType.REQUEST | FlagType.INFO):
            return row
        case layout.SourceAddress():
            return layout.Address(kind=row.kind, value=row.value)
        case layout.MessageId():
            return layout.SourceMessageId(value=row.value)
        case _:
            return None


# -- the summary: what a session needs, in one pass over the rows ----------------------------------
#
# A session handles a message by its flags, ids and numbers. Calling the functions above would walk
# the rows once for each; one loop that looks up the class of each row once does it for all. The
# logic of sessions is the larger part of a request's 15 µs (benchmarks/results/sessions.json).


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
    """The properties of a message that determine how a session handles it."""

    kind: Kind = "NONE"
    flags: frozenset[int] = _NO_FLAGS
    id: int | None = None
    source_id: int | None = None
    seq: Numbers | None = None
    failed: bool = False
    """Whether there is an ERROR row; an empty one counts."""
    major: int | None = None
    irregular: bool = False
    """Whether `check` may find problems; most messages need not be checked."""
    cancelled: bool = False
    """Whether there are cancelled rows, for `modern`."""

    @property
    def asks(self) -> bool:
        """Whether the message asks for a reply."""
        return self.kind in ASKS


def summarize(message: Message, revision: Revision = "lines") -> MessageSummary:
    """Summarize a message; of a row that may occur once, the first counts."""
    flags: set[int] = set()
    number = source = major = None
    seq: Numbers | None = None
    failed = irregular = body = cancelled = False
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
            irregular = True
        if kind is Flag:
            flags.add(row.value)
        elif kind is MessageId:
            irregular = irregular or number is not None
            number = row.value if number is None else number
        elif kind is SourceMessageId:
            irregular = irregular or source is not None
            source = row.value if source is None else source
        elif kind is SeqNo:
            numbers = row.current, row.maximum
            irregular = irregular or seq is not None or not in_range(numbers)
            seq = numbers if seq is None else seq
        elif kind is Error:
            irregular = irregular or failed
            failed = True
        elif kind is Version:
            irregular = irregular or major is not None
            major = row.major if major is None else major
        elif kind is BrokenRow:
            irregular = True
    found = frozenset(flags) if flags else _NO_FLAGS
    return MessageSummary(
        _kind(found), found, number, source, seq, failed, major, irregular, cancelled
    )


def _kind(flags: frozenset[int]) -> Kind:
    """Return the kind of a message, as `kind` does."""
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
    # Early Go servers still send the trace rows (section 2). Translating them once, at the
    # entrance, keeps the rest of the session free of a second set of rules.
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
