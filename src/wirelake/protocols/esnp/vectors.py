"""Runs the ESNP vectors: `run(vector, context)` raises VectorFailure when the code disagrees.

What a vector is shows in its keys: `url` and `addr` are URLs, `request_hex` a reply, `rule` a large
message, `encode_error` something that must not be written, names that begin `prim_` and `int_` bare
values (`vectors_bare.py`); everything else is one message, or several.

`revision` decides strictness, `container_count` the dialect. An error of strict reading is looked
for in the message as a whole and in each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from wirelake.wire.errors import (
    DecodeError,
    EncodeError,
    NeedMore,
    WireError,
)

from ..expectation import (
    Context,
    ErrorClass,
    Expect,
    Vector,
    VectorFailure,
    check_hash,
    check_prefixes,
    classify,
    difference,
)
from . import message as view
from .layout import BrokenRow, Data, Error, Flag, FlagType, Message, Row, RowType, Version
from .protocol import PROTOCOL
from .vectors_bare import (
    bare_value,
    bytes_of_rule,
    payload_of_name,
    url,
)
from .vectors_excuses import EXCUSES
from .vectors_rows import (
    DIALECTS,
    NAMED_KINDS,
    depth_of,
    row_spans,
    row_view,
    same_floats,
)

__all__ = ["CLASSES", "ERRORS", "EXCUSES", "run"]

ERRORS: Final = (
    ErrorClass("BadEnd", ("bad_end",)),
    ErrorClass("BadRowSize", ("bad_length",)),
    ErrorClass("RowTruncated", ("short",), r"(?!.*\.float(32|64)$).*"),
    ErrorClass("LengthOverrun", ("length_overrun",)),
    # A float cut short counts as a length that promises too much.
    ErrorClass("LengthOverrun", ("short",), r".*\.float(32|64)"),
    ErrorClass("TrailingBytes", ("trailing_bytes",)),
    ErrorClass("VarintTruncated", ("varint_truncated",)),
    ErrorClass("VarintOverflow", ("varint_overflow",)),
    ErrorClass("IntRange", ("int_range",)),
    ErrorClass("NegativeLength", ("negative_length",)),
    ErrorClass("UnknownVarType", ("unknown_var_type",)),
    ErrorClass("InvalidUtf8", ("invalid_utf8",)),
    ErrorClass("TooDeep", ("too_deep",)),
    ErrorClass("RowTooLarge", ("too_large",)),
    ErrorClass("DuplicateRow", ("duplicate_row",)),
    ErrorClass("RowOrder", ("row_order",)),
    ErrorClass("SeqRange", ("seq_range",)),
    ErrorClass("BadUrl", ("bad_url",)),
)
"""Classes of the vectors, and our codes."""
TRUNCATED: Final = "Truncated"
"""The class of *need more*."""

CLASSES: Final = (TRUNCATED, *dict.fromkeys(line.name for line in ERRORS))
"""Every class that a vector may name."""

FIRST_FLAG_ONLY: Final = (
    "the original looks at the first FLAG row alone; by rule 3 a request has REQUEST and not RESP"
)
NOT_CANONICAL: Final = "tolerated, but written otherwise: a Bool other than 0 and 1, a long varint"


def run(raw: dict[str, Any], context: Context) -> None:
    """Checks one vector."""
    vector = Vector(raw)
    revision = vector.top.text("revision", ("frames", "lines"))
    expect = vector.expect
    if "url" in raw or "addr" in raw:
        url(vector, ERRORS)
    elif vector.name.startswith(("prim_", "int_")):
        bare_value(vector, ERRORS)
    elif "encode_error" in expect:
        _unwritable(vector)
    else:
        if "rule" in expect:
            if vector.data:
                raise VectorFailure("hex: a rule and bytes")
            vector.data = bytes_of_rule(expect.text("rule"))
            check_hash(expect, vector.data)
        _Case(vector, revision, context).run()
    vector.done()


def _unwritable(vector: Vector) -> None:
    if vector.data:
        raise VectorFailure("hex: bytes that must not be written")
    try:
        PROTOCOL.encode(Message(rows=(payload_of_name(vector.name),)))
    except EncodeError as error:
        vector.expect.equal("encode_error", classify(ERRORS, error))
    else:
        raise vector.expect.fail("encode_error", "it was written")


class _Case:
    """One vector that is made of messages."""

    def __init__(self, vector: Vector, revision: str, context: Context):
        self.vector = vector
        self.expect = vector.expect
        self.data = vector.data
        self.revision: view.Revision = "lines" if revision == "lines" else "frames"
        self.context = context
        count = self.expect.text("container_count", DIALECTS, default="zigzag")
        self.dialect = DIALECTS[count]

    def run(self) -> None:
        if "request_hex" in self.expect:
            self.reply()
        elif "error" in self.expect:
            self.refused()
        elif "messages" in self.expect:
            self.several()
        else:
            self.single(self.whole(self.data, "hex"))

    # -- decoding ----------------------------------------------------------------------------

    def decode(self, data: bytes) -> tuple[Message, int]:
        message, stop = PROTOCOL.decode(data, dialect=self.dialect)
        return message, stop

    def encode(self, message: Message) -> bytes:
        return PROTOCOL.encode(message, dialect=self.dialect)

    def whole(self, data: bytes, path: str) -> Message:
        """The one message that some bytes are."""
        try:
            message, stop = self.decode(data)
        except (NeedMore, WireError) as error:
            raise VectorFailure(f"{path}: {error}") from None
        if stop != len(data):
            raise VectorFailure(f"{path}: the message stops at byte {stop} of {len(data)}")
        self.accepted(message, data, path)
        return message

    def accepted(self, message: Message, data: bytes, path: str) -> None:
        """What holds for every message that is not refused."""
        broken = next((row for row in message.rows if isinstance(row, BrokenRow)), None)
        if broken is not None:
            raise VectorFailure(f"{path}: {broken.code} in {broken.field}")
        self.rewritten(message, data, path)
        if self.context.thorough:
            check_prefixes(self.decode, data)
            moved, stop = PROTOCOL.decode(b"\xff" * 3 + data, 3, dialect=self.dialect)
            if stop != len(data) + 3 or self.encode(moved) != self.encode(message):
                raise VectorFailure(f"{path}: read from another offset it is another message")

    def rewritten(self, message: Message, data: bytes, path: str) -> None:
        """Written again the bytes are the same, or a shorter or plainer form of the same value."""
        again = self.encode(message)
        if again == data:
            return
        plain = len(again) < len(data) or (
            len(again) == len(data)
            and all(old == new or old > new == 1 for old, new in zip(data, again, strict=True))
        )
        # Compared as bytes, because a NaN is not equal to itself.
        if not plain or self.encode(self.decode(again)[0]) != again:
            raise VectorFailure(f"{path}: written again it is {again.hex()}")
        self.context.notes.append(NOT_CANONICAL)

    # -- the kinds of vector -----------------------------------------------------------------

    def single(self, message: Message) -> None:
        self.views(self.expect, message)
        self.expect.computed("accepted", lambda: self.strict_class(message) is None)
        if "strict_error" in self.expect:
            self.expect.text("strict_error", CLASSES)
            self.expect.equal("strict_error", self.strict_class(message))
        if "lenient" in self.expect:
            self.lenient(message)

    def lenient(self, message: Message) -> None:
        lenient = self.expect.child("lenient")
        self.views(lenient, message)
        lenient.equal("error", view.error_text(message))
        lenient.done()

    def strict_class(self, message: Message) -> str | None:
        try:
            view.check(message, self.revision)
        except DecodeError as error:
            return classify(ERRORS, error)
        return None

    def views(self, expect: Expect, message: Message) -> None:
        for key, look in _VIEWS.items():
            if key in expect:
                expect.equal(key, look(message))
        for key in ("rows", "rows_types"):
            self.rows(expect, key, message)
        named = [key for key in NAMED_KINDS if key in expect]
        for key in named:
            expect.equal(key, getattr(view.address(message), key))
        kinds = {NAMED_KINDS[key] for key in named}
        pairs = view.addresses(message)
        expect.equal("values", [value for kind, value in pairs if not kinds or kind in kinds])

    def rows(self, expect: Expect, key: str, message: Message) -> None:
        if key == "rows_types":
            expect.equal(key, [view.row_type(row) for row in message.rows])
        elif key in expect:
            path = f"{expect.path}.{key}"
            found = difference(
                same_floats(expect.get(key), path), [row_view(r) for r in message.rows], path
            )
            if found:
                raise VectorFailure(found)

    def refused(self) -> None:
        """Strict reading fails in the class that is named, as a whole or in a row."""
        wanted = {self.expect.text("error", CLASSES)}
        message: Message | None = None
        try:
            message, stop = self.decode(self.data)
            if stop != len(self.data):
                raise VectorFailure(f"hex: the message stops at byte {stop} of {len(self.data)}")
            got = {self.strict_class(message)}
        except NeedMore:
            got = {TRUNCATED}
        except DecodeError as error:
            got = {classify(ERRORS, error)}
        if "also_acceptable" in self.expect:
            wanted.add(self.expect.text("also_acceptable", CLASSES))
            got |= {classify(ERRORS, error) for error in self.row_by_row()}
        if not got <= wanted:
            said = ", ".join(sorted(str(name) for name in got))
            raise self.expect.fail("error", f"wanted {' or '.join(sorted(wanted))}, got {said}")
        in_row = message is not None and any(isinstance(row, BrokenRow) for row in message.rows)
        self.expect.equal("row_error", in_row)
        if message is None:
            if self.context.thorough:
                check_prefixes(
                    self.decode, self.data, lambda error: classify(ERRORS, error) in wanted
                )
            return
        self.rewritten(message, self.data, "hex")
        if "lenient" in self.expect:
            self.lenient(message)

    def row_by_row(self) -> Iterator[DecodeError]:
        """What is wrong with the rows that are complete, whether or not END follows."""
        complete = max((stop for _, _, stop in row_spans(self.data)), default=0)
        message, _ = self.decode(self.data[:complete] + bytes(4))
        return (e for e in view.problems(message, self.revision) if e.code != "row_order")

    def several(self) -> None:
        """Messages in a row; together they may be the parts of one answer."""
        messages: list[Message] = []
        starts, pos = [], 0
        while pos < len(self.data):
            starts.append(pos)
            try:
                message, stop = PROTOCOL.decode(self.data, pos, dialect=self.dialect)
            except (NeedMore, WireError) as error:
                raise VectorFailure(f"hex: message {len(messages)}: {error}") from None
            self.accepted(message, self.data[pos:stop], "hex")
            messages.append(message)
            pos = stop
        self.expect.equal("messages", len(messages))
        self.expect.equal("first_consumed", starts[1] if len(starts) > 1 else pos)
        self.expect.equal("seq", [_pair(view.seq(m)) for m in messages])
        self.expect.equal("complete_after", _complete_after(messages))

    def reply(self) -> None:
        """The reply to `request_hex` is `hex`, byte for byte."""
        request = self.whole(self.expect.octets("request_hex"), "expect.request_hex")
        self.rows(self.expect, "request_rows", request)
        self.request_test(request)
        self.expect.equal("reply_hex", self.data.hex())
        wanted = self.whole(self.data, "hex")
        self.views(self.expect, wanted)
        error = next((row.value for row in wanted.rows if isinstance(row, Error)), None)
        made = view.reply(
            request,
            error=error,
            rows=[row for row in wanted.rows if _is_added(row)],
            revision=self.revision,
        )
        written = self.encode(made)
        if written != self.data:
            raise VectorFailure(f"hex: the reply is {written.hex()}")

    def request_test(self, request: Message) -> None:
        """Runs of the original recorded its own answer, which looks at one flag only."""
        answer = view.is_request(request)
        if self.vector.origin == "upstream-run":
            first = view.flags(request)[:1] == (FlagType.REQUEST,)
            if first != answer:
                self.context.notes.append(FIRST_FLAG_ONLY)
            answer = first
        self.expect.equal("request_is_request", answer)


def _pair(numbers: tuple[int, int] | None) -> list[int] | None:
    return None if numbers is None else list(numbers)


_VIEWS: Final[dict[str, Callable[[Message], Any]]] = {
    "flags": lambda m: list(view.flags(m)),
    "is_request": view.is_request,
    "is_response": view.is_response,
    "kind": view.kind,
    "message_id": view.message_id,
    "source_message_id": view.source_message_id,
    "seq": lambda m: _pair(view.seq(m)),
    "is_last": view.is_last,
    "version": lambda m: next(
        ([r.major, r.minor, r.branch, r.variant] for r in m.rows if isinstance(r, Version)), None
    ),
    "depth": lambda m: max((depth_of(r.value) for r in m.rows if isinstance(r, Data)), default=0),
}


def _complete_after(messages: list[Message]) -> int | None:
    """After how many messages the exchange of the first is over; its parts count from 1."""
    of = view.source_message_id(messages[0]) if messages else None
    following = 1
    for count, message in enumerate(messages, 1):
        if view.source_message_id(message) != of:
            continue
        numbers = view.seq(message)
        if numbers is None or numbers[0] != following:
            return None
        if view.is_last(message):
            return count
        following += 1
    return None


def _is_added(row: Row) -> bool:
    """Whether a row of a reply is one that replying itself never makes."""
    if isinstance(row, Flag):
        return row.value == FlagType.TRACE_INFO
    return view.row_type(row) not in (
        RowType.SESSION_INFO,
        RowType.ADDRESS,
        RowType.SOURCE_MESSAGE_ID,
        RowType.ERROR,
    )
