"""Vectors that are no messages: bare values, `esnp://` URLs, and rules for large messages.

Used by `vectors.py`. A large message is given as a sentence (`rule`); the sentences have three
forms, with any row, name, number or text in them:

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
from collections.abc import Callable
from typing import Any, Final

from wirelake.wire.errors import WireError

from ..expectation import (
    ErrorClass,
    Expect,
    Vector,
    VectorFailure,
    classify,
    difference,
)
from . import layout
from .address import (
    Address,
    address_from_pairs,
    address_to_pairs,
    format_url,
    parse_url,
)
from .basic import BASIC, Basic
from .layout import Message, OpaqueRow, Row, RowType, Var, VarType
from .protocol import PROTOCOL

__all__ = ["bare_value", "bytes_of_rule", "payload_of_name", "url"]

# -- bare values ------------------------------------------------------------------------------


def bare_value(vector: Vector, errors: tuple[ErrorClass, ...]) -> None:
    """`prim_*` has a value; `int_*` has an error, or how many bytes are taken."""
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
        raise expect.fail("error", f"{basic.name} reads as {value!r}")
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
            raise VectorFailure(f"name: {vector.name!r} does not say how to read it")
        return BASIC["UInt64" if found[0] == "uvarint" else "Int64"]
    name, width = expect.text("codec"), expect.get("width")
    sized = f"{name}{width}" if name in ("Int", "UInt") and width is not None else name
    basic = BASIC.get(sized)
    if basic is None:
        raise expect.fail("codec", f"no type is called {sized!r}")
    if width is not None and (type(width) is not int or width != basic.bits):
        raise expect.fail("width", f"{basic.name} has {basic.bits} bits, not {width!r}")
    return basic


def _compare_value(expect: Expect, basic: Basic, value: Any, data: bytes) -> None:
    wanted: Any = expect.take("value")
    if isinstance(value, float):
        text = _number(expect, wanted)
        if math.isnan(text) != math.isnan(value) or not (
            math.isnan(value) or basic.encode(text) == basic.encode(value)
        ):
            raise expect.fail("value", f"wanted {wanted}, got {value!r}")
    else:
        got = value.hex() if isinstance(value, bytes) else value
        if isinstance(got, int) and isinstance(wanted, str):
            got = str(got).lower()
        expect.equal("value", got)
    written = basic.encode(value)
    if written != data:
        raise VectorFailure(f"hex: written again it is {written.hex()}")


def _number(expect: Expect, text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        raise expect.fail("value", f"{text!r} is not a number") from None


# -- URLs -------------------------------------------------------------------------------------


def url(vector: Vector, errors: tuple[ErrorClass, ...]) -> None:
    """`url` is parsed, `addr` is written; both are then taken back again."""
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
                raise vector.expect.fail(key, "nothing is wrong with it")


def _addr(top: Expect) -> Address:
    pairs = top.child("addr").data
    if not all(re.fullmatch("-?[0-9]+", k) and isinstance(v, str) for k, v in pairs.items()):
        raise top.fail("addr", "wanted kinds and texts")
    return address_from_pairs((int(kind), value) for kind, value in pairs.items())


def _parsed(expect: Expect, address: Address) -> None:
    if {"error", "encode_error"} & expect.data.keys():
        return
    for name in ("host", "service", "op", "object", "group", "timeout_ms"):
        value = getattr(address, name)
        expect.equal(name, value)
        if value and name not in expect:
            raise expect.fail(name, f"got {value!r}, which the vector does not mention")
    other = {str(kind): value for kind, value in address.other.items()}
    expect.equal("other", other)
    if other and "other" not in expect:
        raise expect.fail("other", f"got {other!r}, which the vector does not mention")
    again = parse_url(format_url(address))
    if again != address:
        raise VectorFailure(f"url: written and parsed again it is {again!r}")


def _formatted(expect: Expect, address: Address) -> None:
    text = format_url(address)
    expect.equal("url", text)
    pairs = address_to_pairs(parse_url(text))
    found = difference([list(p) for p in address_to_pairs(address)], [list(p) for p in pairs], "")
    if found:
        raise VectorFailure(f"addr: written and parsed again, {found}")


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
    """The message that a sentence describes, END included."""
    for form, build in ((_TEXT, _text_row), (_PATTERN, _pattern_row), (_NESTED, _nested_row)):
        found = form.fullmatch(rule.strip())
        if found:
            if int(found["count"]) > _MAX:
                raise VectorFailure(f"expect.rule: {found['count']} is too many for a test")
            try:
                return PROTOCOL.encode(Message(rows=(build(found),)))
            except WireError as error:
                raise VectorFailure(f"expect.rule: {error}") from None
    raise VectorFailure(f"expect.rule: not understood: {rule!r}")


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
        raise VectorFailure(f"expect.rule: no row is called {name}")
    if name == "PAYLOAD":
        return layout.Payload(data=data)
    return OpaqueRow(type=RowType[name], data=data)


def _pattern(formula: str, count: int) -> bytes:
    """byte[i] for i from 0; a formula that repeats after 256 is worked out once."""
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
    """The row of an `encode_<row>_<size>` vector, which has nothing else to say what it is."""
    found = re.fullmatch(r"encode_([a-z_]+)_(\d+)", name)
    if not found or found[1].upper() not in RowType.__members__ or int(found[2]) > _MAX:
        raise VectorFailure(f"name: {name!r} does not say what to encode")
    return _opaque(found[1].upper(), bytes(int(found[2])))
