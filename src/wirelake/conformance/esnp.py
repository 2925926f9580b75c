"""Run the ESNP vectors: `run(vector, context)` raises VectorFailure when the code disagrees.

The keys of a vector decide what it is: `url` and `addr` are URLs, `request_hex` a reply, `rule` a
large message, `encode_error` a value that cannot be encoded, names that begin with `prim_` and
`int_` bare values; everything else is one message, or several.

`revision` decides strictness, `container_count` the dialect. An error of strict reading is looked
for in the message as a whole and in each row.

A large message is given as a sentence (`rule`). The sentences have three forms, with any row, name,
number or text in them:

    DATA name="k" Var LenString of "z"*8192 then END
    one PAYLOAD row of 65535 bytes, byte[i]=(i*31+7)&0xff, then END
    DATA "k" = 0x17 0x02 repeated N times then 0x00, N=100000, size 3 bytes BE
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from wirelake.protocols.esnp import layout
from wirelake.protocols.esnp import message as view
from wirelake.protocols.esnp.address import (
    Address,
    address_from_pairs,
    address_to_pairs,
    format_url,
    parse_url,
)
from wirelake.protocols.esnp.layout import (
    BrokenRow,
    Data,
    Error,
    Flag,
    FlagType,
    Message,
    OpaqueRow,
    Row,
    RowType,
    Var,
    VarType,
    Version,
)
from wirelake.protocols.esnp.message import row_type
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.protocols.esnp.values import BASIC, Basic
from wirelake.wire.errors import DecodeError, EncodeError, NeedMore, WireError

from .expectation import (
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

__all__ = [
    "CLASSES",
    "DIALECTS",
    "ERRORS",
    "NAMED_KINDS",
    "bare_value",
    "bytes_of_rule",
    "depth_of",
    "payload_of_name",
    "row_name",
    "row_spans",
    "row_view",
    "run",
    "same_floats",
    "url",
]

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
    """Check one vector."""
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
                raise VectorFailure("hex conflicts with expect.rule")
            vector.data = bytes_of_rule(expect.text("rule"))
            check_hash(expect, vector.data)
        _Case(vector, revision, context).run()
    vector.done()


def _unwritable(vector: Vector) -> None:
    if vector.data:
        raise VectorFailure("hex conflicts with expect.encode_error")
    try:
        PROTOCOL.encode(Message(rows=(payload_of_name(vector.name),)))
    except EncodeError as error:
        vector.expect.equal("encode_error", classify(ERRORS, error))
    else:
        raise vector.expect.fail("encode_error", "expected an error, but it was encoded")


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
        """Return the one message that some bytes are."""
        try:
            message, stop = self.decode(data)
        except (NeedMore, WireError) as error:
            raise VectorFailure(f"{path}: {error}") from None
        if stop != len(data):
            raise VectorFailure(f"{path}: the message stops at byte {stop} of {len(data)}")
        self.accepted(message, data, path)
        return message

    def accepted(self, message: Message, data: bytes, path: str) -> None:
        """Check what holds for every valid message."""
        broken = next((row for row in message.rows if isinstance(row, BrokenRow)), None)
        if broken is not None:
            raise VectorFailure(f"{path}: {broken.code} in {broken.field}")
        self.rewritten(message, data, path)
        if self.context.thorough:
            check_prefixes(self.decode, data)
            moved, stop = PROTOCOL.decode(b"\xff" * 3 + data, 3, dialect=self.dialect)
            if stop != len(data) + 3 or self.encode(moved) != self.encode(message):
                raise VectorFailure(f"{path}: decodes differently at another offset")

    def rewritten(self, message: Message, data: bytes, path: str) -> None:
        """Check that encoding gives the same bytes, or a shorter form of the same value."""
        again = self.encode(message)
        if again == data:
            return
        plain = len(again) < len(data) or (
            len(again) == len(data)
            and all(old == new or old > new == 1 for old, new in zip(data, again, strict=True))
        )
        # Compared as bytes, because a NaN is not equal to itself.
        if not plain or self.encode(self.decode(again)[0]) != again:
            raise VectorFailure(f"{path}: re-encoded as {again.hex()}")
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
        """Check that strict reading fails with the expected class, as a whole or in a row."""
        expected = {self.expect.text("error", CLASSES)}
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
            expected.add(self.expect.text("also_acceptable", CLASSES))
            got |= {classify(ERRORS, error) for error in self.row_by_row()}
        if not got <= expected:
            classes = ", ".join(sorted(str(name) for name in got))
            raise self.expect.fail(
                "error", f"expected {' or '.join(sorted(expected))}, got {classes}"
            )
        in_row = message is not None and any(isinstance(row, BrokenRow) for row in message.rows)
        self.expect.equal("row_error", in_row)
        if message is None:
            if self.context.thorough:
                check_prefixes(
                    self.decode, self.data, lambda error: classify(ERRORS, error) in expected
                )
            return
        self.rewritten(message, self.data, "hex")
        if "lenient" in self.expect:
            self.lenient(message)

    def row_by_row(self) -> Iterator[DecodeError]:
        """Return what is wrong with the complete rows, whether or not END follows."""
        complete = max((stop for _, _, stop in row_spans(self.data)), default=0)
        message, _ = self.decode(self.data[:complete] + bytes(4))
        return (e for e in view.problems(message, self.revision) if e.code != "row_order")

    def several(self) -> None:
        """Check consecutive messages, which may be the parts of one reply."""
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
        """Check that the reply to `request_hex` is `hex`, byte for byte."""
        request = self.whole(self.expect.octets("request_hex"), "expect.request_hex")
        self.rows(self.expect, "request_rows", request)
        self.request_test(request)
        self.expect.equal("reply_hex", self.data.hex())
        expected = self.whole(self.data, "hex")
        self.views(self.expect, expected)
        error = next((row.value for row in expected.rows if isinstance(row, Error)), None)
        made = view.reply(
            request,
            error=error,
            rows=[row for row in expected.rows if _is_added(row)],
            revision=self.revision,
        )
        written = self.encode(made)
        if written != self.data:
            raise VectorFailure(f"hex: the reply is {written.hex()}")

    def request_test(self, request: Message) -> None:
        """Run of the original recorded its own answer, which looks at one flag only."""
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
    """Return the number of messages that complete the first exchange; parts count from 1."""
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
    """Return whether a row of a reply is one that replying itself never makes."""
    if isinstance(row, Flag):
        return row.value == FlagType.TRACE_INFO
    return view.row_type(row) not in (
        RowType.SESSION_INFO,
        RowType.ADDRESS,
        RowType.SOURCE_MESSAGE_ID,
        RowType.ERROR,
    )


# -- rows as vectors describe them -----------------------------------------------------------------


DIALECTS: Final = {"zigzag": "seed", "uvarint": "go"}
"""The dialect of each `container_count`."""
NAMED_KINDS: Final = {"host": 40, "service": 30, "op": 20, "object": 10, "group": 50}
"""The kinds of address that a vector names."""


_VAR_NAMES: Final[dict[int, str]] = {
    VarType.NULL: "Null",
    VarType.BOOL: "Bool",
    VarType.INT: "Int",
    VarType.INT8: "Int8",
    VarType.INT16: "Int16",
    VarType.INT32: "Int32",
    VarType.INT64: "Int64",
    VarType.UINT: "UInt",
    VarType.UINT8: "UInt8",
    VarType.UINT16: "UInt16",
    VarType.UINT32: "UInt32",
    VarType.UINT64: "UInt64",
    VarType.FLOAT32: "Float32",
    VarType.FLOAT64: "Float64",
    VarType.LEN_BYTES: "LenBytes",
    VarType.MAP: "Map",
    VarType.LIST: "List",
    VarType.LEN_STRING: "LenString",
}
_CANCELLED: Final = (RowType.MESSAGE_KIND, RowType.TRACE, RowType.TRACE_RESP)
_KNOWN: Final = {int(member): member.name for member in RowType}
_FLOAT_FORMS: Final = {VarType.FLOAT32: ">f", VarType.FLOAT64: ">d"}


def row_name(number: int) -> str:
    """Return the name of a row type in vectors."""
    if number in _CANCELLED:
        return f"{RowType(number).name}(cancelled)"
    if number in _KNOWN:
        return _KNOWN[number]
    if number < 0x10:
        return "RESERVED"
    return "APP_DEFINE" if number >= 0x80 else "UNKNOWN"


def row_view(row: Row) -> dict[str, Any]:
    """Return a row as an object of a vector."""
    number = row_type(row)
    return {"row": row_name(number), "type": number, **_content(row)}


def _content(row: Row) -> dict[str, Any]:
    match row:
        case layout.SessionInfo() | layout.Header() | layout.Data():
            return {"name": row.name, "var": _var_view(row.value)}
        case layout.Address() | layout.SourceAddress():
            return {"kind": row.kind, "value": row.value}
        case layout.SeqNo():
            return {"seq": row.current, "max": row.maximum}
        case layout.XData():
            return {"id": row.id, "rest_hex": row.data.hex()}
        case layout.Payload() | OpaqueRow():
            return {"hex": row.data.hex()}
        case layout.Flag():
            return {"flag": row.value}
        case layout.Version():
            return {"value": [row.major, row.minor, row.branch, row.variant]}
        case BrokenRow():
            return {"hex": row.data.hex(), "broken": f"{row.code} in {row.field}"}
        case _:
            return {"value": row.value}


def _var_view(var: Var) -> dict[str, Any]:
    view: dict[str, Any] = {"t": var.type, "name": _VAR_NAMES[var.type]}
    value: Any = var.value
    match var.type:
        case VarType.LEN_BYTES:
            view["hex"] = value.hex()
        case VarType.MAP:
            view["v"] = [[key, _var_view(item)] for key, item in value]
        case VarType.LIST:
            view["v"] = [_var_view(item) for item in value]
        case VarType.FLOAT32 | VarType.FLOAT64:
            view["v"] = _float_key(var.type, value)
            view["bits"] = _bits(var.type, value)
        case _:
            view["v"] = value
    return view


def _bits(number: int, value: float) -> str:
    from wirelake.protocols.esnp.codec_seed import write_var

    return write_var(Var(type=number, value=value), 0, [0])[1:].hex()


def _float_key(number: int, value: float) -> str:
    """Return a float as text that is equal when its bits are; one text for all NaN."""
    if math.isnan(value):
        return "NaN"
    return struct.pack(_FLOAT_FORMS[VarType(number)], value).hex()


def same_floats(rows: Any, path: str) -> Any:
    """Return expected rows with floats, given as numbers or names, in the form of `_float_key`."""
    if isinstance(rows, list):
        return [same_floats(item, path) for item in rows]
    if not isinstance(rows, dict):
        return rows
    found = {key: same_floats(value, path) for key, value in rows.items()}
    if found.get("t") in (VarType.FLOAT32, VarType.FLOAT64) and "v" in found:
        try:
            found["v"] = _float_key(found["t"], float(found["v"]))
        except (TypeError, ValueError, OverflowError):
            raise VectorFailure(f"{path}: {found['v']!r} is not a float") from None
    return found


def depth_of(var: Var) -> int:
    """Return the nesting depth of containers."""
    value: Any = var.value
    if var.type == VarType.LIST:
        return 1 + max((depth_of(item) for item in value), default=0)
    if var.type == VarType.MAP:
        return 1 + max((depth_of(item) for _, item in value), default=0)
    return 0


def row_spans(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Return (type, start, stop) of every complete row, including END rows."""
    pos = 0
    while pos + 4 <= len(data):
        stop = pos + 4 + int.from_bytes(data[pos + 1 : pos + 4], "big")
        if stop > len(data):
            return
        yield data[pos], pos, stop
        pos = stop


# -- values, URLs and generated bytes --------------------------------------------------------------


# -- bare values ------------------------------------------------------------------------------


def bare_value(vector: Vector, errors: tuple[ErrorClass, ...]) -> None:
    """Check a bare value: `prim_*` expects a value, `int_*` an error or a size."""
    expect, data = vector.expect, vector.data
    basic = _codec(vector)
    try:
        value, stop = basic.decode(data)
    except WireError as error:
        expect.equal("accepted", False)
        expect.equal("error", classify(errors, error))
        if "error" not in expect:
            raise VectorFailure(f"hex: {error}") from None
        return
    if "error" in expect:
        raise expect.fail("error", f"{basic.name} decodes as {value!r}")
    expect.equal("accepted", True)
    expect.equal("n", stop)
    if stop != len(data):
        raise VectorFailure(f"hex: {basic.name} takes {stop} of {len(data)} bytes")
    if "value" in expect:
        _compare_value(expect, basic, value, data)


def _codec(vector: Vector) -> Basic:
    expect = vector.expect
    if "codec" not in expect:
        # An int_* vector names its varint: int_uvarint_..., int_varint_...
        found = re.search("uvarint|varint", vector.name)
        if found is None:
            raise VectorFailure(f"name: {vector.name!r} is not the name of a type")
        return BASIC["UInt64" if found[0] == "uvarint" else "Int64"]
    name, width = expect.text("codec"), expect.get("width")
    sized = f"{name}{width}" if name in ("Int", "UInt") and width is not None else name
    basic = BASIC.get(sized)
    if basic is None:
        raise expect.fail("codec", f"unknown type {sized!r}")
    if width is not None and (type(width) is not int or width != basic.bits):
        raise expect.fail("width", f"{basic.name} has {basic.bits} bits, not {width!r}")
    return basic


def _compare_value(expect: Expect, basic: Basic, value: Any, data: bytes) -> None:
    expected: Any = expect.take("value")
    if isinstance(value, float):
        text = _number(expect, expected)
        if math.isnan(text) != math.isnan(value) or not (
            math.isnan(value) or basic.encode(text) == basic.encode(value)
        ):
            raise expect.fail("value", f"expected {expected}, got {value!r}")
    else:
        got = value.hex() if isinstance(value, bytes) else value
        if isinstance(got, int) and isinstance(expected, str):
            got = str(got).lower()
        expect.equal("value", got)
    written = basic.encode(value)
    if written != data:
        raise VectorFailure(f"hex: re-encoded as {written.hex()}")


def _number(expect: Expect, text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        raise expect.fail("value", f"{text!r} is not a number") from None


# -- URLs -------------------------------------------------------------------------------------


def url(vector: Vector, errors: tuple[ErrorClass, ...]) -> None:
    """Parse `url` or format `addr`, and check the round trip."""
    if vector.data:
        raise VectorFailure("hex: a URL has no bytes")
    try:
        if "url" in vector.top:
            _parsed(vector.expect, parse_url(vector.top.text("url")))
        else:
            _formatted(vector.expect, _addr(vector.top))
    except WireError as error:
        if not {"error", "encode_error"} & vector.expect.data.keys():
            raise VectorFailure(f"refused: {error}") from None
        for key in ("error", "encode_error"):
            vector.expect.equal(key, classify(errors, error))
    else:
        for key in ("error", "encode_error"):
            if key in vector.expect:
                raise vector.expect.fail(key, "expected an error, but it is valid")


def _addr(top: Expect) -> Address:
    pairs = top.child("addr").data
    if not all(re.fullmatch("-?[0-9]+", k) and isinstance(v, str) for k, v in pairs.items()):
        raise top.fail("addr", "expected an object of kind numbers and texts")
    return address_from_pairs((int(kind), value) for kind, value in pairs.items())


def _parsed(expect: Expect, address: Address) -> None:
    if {"error", "encode_error"} & expect.data.keys():
        return
    for name in ("host", "service", "op", "object", "group", "timeout_ms"):
        value = getattr(address, name)
        expect.equal(name, value)
        if value and name not in expect:
            raise expect.fail(name, f"got {value!r}, which is not in the vector")
    other = {str(kind): value for kind, value in address.other.items()}
    expect.equal("other", other)
    if other and "other" not in expect:
        raise expect.fail("other", f"got {other!r}, which is not in the vector")
    again = parse_url(format_url(address))
    if again != address:
        raise VectorFailure(f"url: formatted and parsed as {again!r}")


def _formatted(expect: Expect, address: Address) -> None:
    text = format_url(address)
    expect.equal("url", text)
    pairs = address_to_pairs(parse_url(text))
    found = difference([list(p) for p in address_to_pairs(address)], [list(p) for p in pairs], "")
    if found:
        raise VectorFailure(f"addr: the round trip differs: {found}")


# -- rules ------------------------------------------------------------------------------------

_ROWS: Final[dict[str, Callable[..., Row]]] = {
    "HEADER": layout.Header,
    "DATA": layout.Data,
    "SESSION_INFO": layout.SessionInfo,
}
_TEXT: Final = re.compile(
    r'(?:one )?(?P<row>\w+) name="(?P<name>[^"]*)" Var (?P<type>LenString|LenBytes) of '
    r'(?:"(?P<text>[^"]+)"|(?P<octets>0x[0-9a-fA-F]{2}))\*(?P<count>\d+),? then END'
)
_PATTERN: Final = re.compile(
    r"(?:one )?(?P<row>\w+) row of (?P<count>\d+) bytes, byte\[i\]=(?P<formula>[^,]+), then END"
)
_NESTED: Final = re.compile(
    r'(?:one )?(?P<row>\w+) "(?P<name>[^"]*)" = (?P<unit>(?:0x[0-9a-fA-F]{2} ?)+)'
    r"repeated (?P<n>\w+) times then (?P<last>(?:0x[0-9a-fA-F]{2},? ?)*)"
    r"(?P=n)=(?P<count>\d+)(?:, size 3 bytes BE)?(?:,? then END)?"
)
_OPERATORS: Final[dict[type, Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.RShift: operator.rshift,
}
_MAX: Final = 1 << 25


@functools.lru_cache(maxsize=8)
def bytes_of_rule(rule: str) -> bytes:
    """Return the message that a sentence describes, END included."""
    for form, build in ((_TEXT, _text_row), (_PATTERN, _pattern_row), (_NESTED, _nested_row)):
        found = form.fullmatch(rule.strip())
        if found:
            if int(found["count"]) > _MAX:
                raise VectorFailure(f"expect.rule: {found['count']} exceeds {_MAX}")
            try:
                return PROTOCOL.encode(Message(rows=(build(found),)))
            except WireError as error:
                raise VectorFailure(f"expect.rule: {error}") from None
    raise VectorFailure(f"expect.rule: unknown rule: {rule!r}")


def _text_row(found: re.Match[str]) -> Row:
    cls = _ROWS.get(found["row"])
    if cls is None:
        raise VectorFailure(f"expect.rule: {found['row']} has no name and Var")
    unit = found["text"].encode() if found["text"] else _octets(found["octets"])
    content = unit * int(found["count"])
    if found["type"] == "LenBytes":
        return cls(name=found["name"], value=Var(type=VarType.LEN_BYTES, value=content))
    text = content.decode("utf-8", "surrogateescape")
    return cls(name=found["name"], value=Var(type=VarType.LEN_STRING, value=text))


def _pattern_row(found: re.Match[str]) -> Row:
    return _opaque(found["row"], _pattern(found["formula"], int(found["count"])))


def _opaque(name: str, data: bytes) -> Row:
    if name not in RowType.__members__:
        raise VectorFailure(f"expect.rule: unknown row {name}")
    if name == "PAYLOAD":
        return layout.Payload(data=data)
    return OpaqueRow(type=RowType[name], data=data)


def _pattern(formula: str, count: int) -> bytes:
    """Return byte[i] for i from 0; a formula with a period of 256 is computed once."""
    try:
        tree = ast.parse(formula.strip(), mode="eval").body
        first = bytes(_value(tree, i) & 0xFF for i in range(768))
        if first[:256] == first[256:512] == first[512:]:
            return (first[:256] * (count // 256 + 1))[:count]
        return bytes(_value(tree, i) & 0xFF for i in range(count))
    except (SyntaxError, ArithmeticError):
        raise VectorFailure(f"expect.rule: {formula!r} is not arithmetic over i") from None


def _value(node: ast.expr, i: int) -> int:
    match node:
        case ast.Name(id="i"):
            return i
        case ast.Constant(value=int() as number):
            return number
        case ast.BinOp() if type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](_value(node.left, i), _value(node.right, i))
        case _:
            raise ArithmeticError


def _nested_row(found: re.Match[str]) -> Row:
    count = int(found["count"])
    unit, last = (_octets(found[key]) for key in ("unit", "last"))
    name = BASIC["LenString"].encode(found["name"])
    return _opaque(found["row"], name + unit * count + last)


def _octets(text: str) -> bytes:
    return bytes(int(token, 16) for token in re.findall("0x[0-9a-fA-F]{2}", text))


def payload_of_name(name: str) -> Row:
    """Return the row of an `encode_<row>_<size>` vector: only its name specifies it."""
    found = re.fullmatch(r"encode_([a-z_]+)_(\d+)", name)
    if not found or found[1].upper() not in RowType.__members__ or int(found[2]) > _MAX:
        raise VectorFailure(f"name: {name!r} is not encode_<row>_<size>")
    return _opaque(found[1].upper(), bytes(int(found[2])))
