"""Values that say their own type: every kind, depth, number of nodes, and what is refused."""

from __future__ import annotations

import math
import struct
from enum import IntEnum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.wire import DecodeError, EncodeError, Layout, Protocol
from wirelake.wire.declare import build
from wirelake.wire.types import (
    U8,
    Blob,
    Bool,
    DynamicMark,
    Float,
    Int,
    ItemsOf,
    List8,
    PairsOf,
    Varint,
)
from wirelake.wire.views.strategy import values


class Kind(IntEnum):
    NOTHING = 0
    STRICT = 1
    TRUTH = 2
    BYTE = 3
    SHORT = 4
    THREE = 5
    LITTLE = 6
    FLOAT = 7
    DOUBLE = 8
    FLOAT_LE = 9
    DOUBLE_LE = 10
    UNSIGNED = 11
    ZIGZAG = 12
    TWOS = 13
    BYTES = 20
    TEXT = 21
    LOOSE = 22
    LIST = 30
    MAP = 31
    LOOSE_MAP = 32


class Node(Layout):
    type: int
    value: object = None


TEXT = Blob(Varint(32), "strict")

AnyNode = Annotated[
    Node,
    DynamicMark(
        tag=Int(1),
        names=Kind,
        kinds={
            Kind.NOTHING: None,
            Kind.STRICT: Bool(),
            Kind.TRUTH: Bool(strict=False),
            Kind.BYTE: Int(1),
            Kind.SHORT: Int(2, signed=True),
            Kind.THREE: Int(3, signed=True),
            Kind.LITTLE: Int(4, order="little"),
            Kind.FLOAT: Float(4),
            Kind.DOUBLE: Float(8),
            Kind.FLOAT_LE: Float(4, "little"),
            Kind.DOUBLE_LE: Float(8, "little"),
            Kind.UNSIGNED: Varint(16),
            Kind.ZIGZAG: Varint(64, "zigzag"),
            Kind.TWOS: Varint(32, "twos"),
            Kind.BYTES: Blob(Varint(32, "zigzag")),
            Kind.TEXT: TEXT,
            Kind.LOOSE: Blob(Varint(32), "loose"),
            Kind.LIST: ItemsOf(Varint(32, "zigzag")),
            Kind.MAP: PairsOf(TEXT, Varint(32)),
            Kind.LOOSE_MAP: PairsOf(Blob(Varint(32), "loose"), Varint(32)),
        },
        max_depth=3,
        max_nodes=5,
    ),
]


class Holder(Layout):
    node: AnyNode
    after: U8


class Many(Layout):
    nodes: List8[AnyNode]


class One(IntEnum):
    ONLY = 9


class Single(Layout):
    type: int
    value: object = None


class Lonely(Layout):
    """One kind alone."""

    single: Annotated[Single, DynamicMark(tag=Int(1), names=One, kinds={One.ONLY: Int(1)})]


class Shell(Layout):
    n: U8


PROTOCOL = Protocol(
    name="throwaway-dynamic", title="Dynamic values", frame=Shell, more=(Holder, Many, Lonely)
)
CODEC: Any = PROTOCOL.codec()


def node(kind: Kind, value: object = None) -> Node:
    return Node(type=kind, value=value)


def read(data: bytes) -> Any:
    """The node at the start of a slice, whatever stands around it."""
    whole = b"??" + data + b"\x07" + b"\xff" * 12
    value, stop = CODEC.read_holder(whole, 2, 3 + len(data))
    assert stop == 3 + len(data)
    assert value.after == 7
    return value.node


def refused(data: bytes) -> tuple[str, str, int | None]:
    with pytest.raises(DecodeError) as caught:
        CODEC.read_holder(data, 0, len(data))
    with pytest.raises(DecodeError) as inside:
        CODEC.read_holder(b"??" + data + b"\x01" * 9, 2, 2 + len(data))
    assert inside.value.offset == (caught.value.offset or 0) + 2
    assert inside.value.code == caught.value.code
    return caught.value.code, caught.value.field, caught.value.offset


def write(value: Node) -> bytes:
    data = CODEC.write_holder(Holder(node=value, after=7))
    assert isinstance(data, bytes)
    return data[:-1]


def unwritable(value: Node) -> tuple[str, str]:
    with pytest.raises(EncodeError) as caught:
        write(value)
    return caught.value.code, caught.value.field


LIST_OF_NOTHING = node(Kind.LIST, (node(Kind.NOTHING),) * 2)

SAMPLES: list[tuple[Node, bytes]] = [
    (node(Kind.NOTHING), b"\x00"),
    (node(Kind.STRICT, True), b"\x01\1"),
    (node(Kind.TRUTH, False), b"\x02\0"),
    (node(Kind.BYTE, 255), b"\x03\xff"),
    (node(Kind.SHORT, -2), b"\x04\xff\xfe"),
    (node(Kind.THREE, -2), b"\x05\xff\xff\xfe"),
    (node(Kind.LITTLE, 1), b"\x06\1\0\0\0"),
    (node(Kind.FLOAT, 1.5), b"\x07\x3f\xc0\0\0"),
    (node(Kind.DOUBLE, 1.5), b"\x08\x3f\xf8\0\0\0\0\0\0"),
    (node(Kind.FLOAT_LE, 1.5), b"\x09\0\0\xc0\x3f"),
    (node(Kind.DOUBLE_LE, 1.5), b"\x0a\0\0\0\0\0\0\xf8\x3f"),
    (node(Kind.UNSIGNED, 300), b"\x0b\xac\2"),
    (node(Kind.ZIGZAG, -1), b"\x0c\1"),
    (node(Kind.TWOS, -1), b"\x0d\xff\xff\xff\xff\x0f"),
    (node(Kind.BYTES, b"ab"), b"\x14\4ab"),
    (node(Kind.TEXT, "é"), b"\x15\2\xc3\xa9"),
    (node(Kind.LOOSE, "a\udcff"), b"\x16\2a\xff"),
    (node(Kind.LIST, ()), b"\x1e\0"),
    (LIST_OF_NOTHING, b"\x1e\4\0\0"),
    (node(Kind.MAP, (("k", node(Kind.BYTE, 1)),)), b"\x1f\1\1k\x03\1"),
    (node(Kind.LOOSE_MAP, (("\udc80", LIST_OF_NOTHING),)), b"\x20\1\1\x80\x1e\4\0\0"),
]


@pytest.mark.parametrize(("value", "data"), SAMPLES)
def test_there_and_back(value: Node, data: bytes) -> None:
    assert write(value) == data
    assert read(data) == value


@pytest.mark.parametrize(("value", "data"), SAMPLES)
def test_a_cut_value_is_refused(value: Node, data: bytes) -> None:
    assert value is not None
    for stop in range(len(data)):
        code, field, offset = refused(data[:stop])
        assert code in {"short", "varint_truncated", "length_overrun"}
        assert field.startswith("node.")
        assert offset is not None
        assert offset <= stop


def bits(value: Any) -> Any:
    """Something that compares floats by their bits."""
    if isinstance(value, Node):
        return value.type, bits(value.value)
    if isinstance(value, tuple):
        return tuple(bits(each) for each in value)
    return struct.pack(">d", value) if isinstance(value, float) else value


def size(value: Node) -> int:
    """How many nodes are inside."""
    if value.type not in (Kind.LIST, Kind.MAP, Kind.LOOSE_MAP):
        return 0
    assert isinstance(value.value, tuple)
    inner = [each[1] if isinstance(each, tuple) else each for each in value.value]
    return len(inner) + sum(size(each) for each in inner)


def depth(value: Node) -> int:
    if value.type not in (Kind.LIST, Kind.MAP, Kind.LOOSE_MAP):
        return 0
    assert isinstance(value.value, tuple)
    inner = [each[1] if isinstance(each, tuple) else each for each in value.value]
    return 1 + max((depth(each) for each in inner), default=0)


@given(values(build(Holder)))
def test_every_value_is_read_back_or_not_written(value: Any) -> None:
    if size(value.node) > 5:
        assert unwritable(value.node)[0] in {"too_many", "too_deep"}
    elif depth(value.node) > 3:
        assert unwritable(value.node)[0] == "too_deep"
    else:
        assert bits(read(write(value.node))) == bits(value.node)


@pytest.mark.parametrize("pattern", [0x7F800001, 0xFFC12345])
def test_a_nan_keeps_its_bits(pattern: int) -> None:
    data = b"\x07" + pattern.to_bytes(4, "big")
    assert write(read(data)) == data
    data = b"\x09" + pattern.to_bytes(4, "little")
    assert write(read(data)) == data
    data = b"\x08" + (0x7FF0000000000001).to_bytes(8, "big")
    assert math.isnan(read(data).value)
    assert write(read(data)) == data


@pytest.mark.parametrize(
    ("data", "code", "field", "offset"),
    [
        (b"", "short", "node.type", 0),
        (b"\x0e", "unknown_var_type", "node.type", 0),
        (b"\xff", "unknown_var_type", "node.type", 0),
        (b"\x01\2", "bad_bool", "node.strict", 1),
        (b"\x0b\x80\x80\x04", "int_range", "node.unsigned", 1),
        (b"\x0d\x80\x80\x80\x80\x10", "int_range", "node.twos", 1),
        (b"\x14\1", "negative_length", "node.bytes", 2),
        (b"\x14\6ab", "length_overrun", "node.bytes", 2),
        (b"\x15\1\xff", "invalid_utf8", "node.text", 2),
        (b"\x1e\1", "negative_length", "node.list", 2),
        (b"\x1e\4\0", "length_overrun", "node.list", 2),
        (b"\x1f\2\0\0\0", "length_overrun", "node.map", 2),
        (b"\x1f\1\1\xff\0", "invalid_utf8", "node.map.key", 3),
        (b"\x1f\1\2k", "length_overrun", "node.map.key", 3),
        (b"\x1f\1\1k\x0e", "unknown_var_type", "node.type", 4),
        (b"\x1e\xfe\xff\xff\xff\x0f", "length_overrun", "node.list", 6),
    ],
)
def test_values_that_are_wrong(data: bytes, code: str, field: str, offset: int) -> None:
    assert refused(data) == (code, field, offset)


def test_a_loose_boolean_takes_any_byte() -> None:
    assert read(b"\x02\x7f").value is True


def nest(levels: int) -> Node:
    value = node(Kind.NOTHING)
    for _ in range(levels):
        value = node(Kind.LIST, (value,))
    return value


def test_depth_is_limited() -> None:
    assert read(b"\x1e\2" * 3 + b"\0") == nest(3)
    assert write(nest(3)) == b"\x1e\2" * 3 + b"\0"
    assert refused(b"\x1e\2" * 4 + b"\0") == ("too_deep", "node.list", 7)
    assert unwritable(nest(4)) == ("too_deep", "node.list")
    assert unwritable(nest(400)) == ("too_deep", "node.list")
    assert refused(b"\x1e\2" * 50_000)[0] == "too_deep"


def test_nodes_are_limited_before_they_are_read() -> None:
    assert len(read(b"\x1e\x0a" + bytes(5)).value) == 5
    assert refused(b"\x1e\x0c" + bytes(6)) == ("too_many", "node.list", 2)
    assert refused(b"\x1e\6" + b"\x1e\4\0\0" + b"\x1e\2\0" + b"\0") == ("too_many", "node.list", 8)
    assert unwritable(node(Kind.LIST, (node(Kind.NOTHING),) * 6)) == ("too_many", "node.list")
    pairs = (("a", node(Kind.NOTHING)),) * 6
    assert unwritable(node(Kind.MAP, pairs)) == ("too_many", "node.map")


def test_each_value_of_a_list_has_its_own_limits() -> None:
    full = b"\x1e\x0a" + bytes(5)
    value, stop = CODEC.read_many(b"\2" + full * 2, 0, 15)
    assert stop == 15
    assert len(value.nodes) == 2
    assert CODEC.write_many(value) == b"\2" + full * 2


@pytest.mark.parametrize(
    ("value", "code", "field"),
    [
        (node(Kind.NOTHING, 5), "bad_value", "node.nothing"),
        (node(Kind.BYTE, 256), "int_range", "node.byte"),
        (node(Kind.SHORT, -32769), "int_range", "node.short"),
        (node(Kind.THREE, 1 << 23), "int_range", "node.three"),
        (node(Kind.LITTLE, -1), "int_range", "node.little"),
        (node(Kind.FLOAT, 1e39), "int_range", "node.float"),
        (node(Kind.DOUBLE, 10**400), "int_range", "node.double"),
        (node(Kind.DOUBLE, "x"), "bad_value", "node.double"),
        (node(Kind.UNSIGNED, -1), "int_range", "node.unsigned"),
        (node(Kind.ZIGZAG, 1 << 63), "int_range", "node.zigzag"),
        (node(Kind.TWOS, 1 << 31), "int_range", "node.twos"),
        (node(Kind.TEXT, "\ud800"), "invalid_utf8", "node.text"),
        (node(Kind.LOOSE, "\ud800"), "invalid_utf8", "node.loose"),
        (node(Kind.MAP, (("\ud800", node(Kind.NOTHING)),)), "invalid_utf8", "node.map.key"),
        (Node(type=99), "unknown_var_type", "node.type"),
        (node(Kind.LIST, (Node(type=-1),)), "unknown_var_type", "node.type"),
    ],
)
def test_values_that_cannot_be_written(value: Node, code: str, field: str) -> None:
    assert unwritable(value) == (code, field)


def test_one_kind_is_enough() -> None:
    value = Lonely(single=Single(type=One.ONLY, value=7))
    assert CODEC.write_lonely(value) == b"\x09\7"
    assert CODEC.read_lonely(b"\x09\7", 0, 2) == (value, 2)
    with pytest.raises(DecodeError):
        CODEC.read_lonely(b"\x08\7", 0, 2)


def test_strategies_reach_every_kind() -> None:
    seen: set[int] = set()

    def note(value: Node) -> None:
        seen.add(value.type)
        for each in value.value if isinstance(value.value, tuple) else ():
            note(each[1] if isinstance(each, tuple) else each)

    @given(st.lists(values(build(Holder)), min_size=20, max_size=20))
    def collect(found: list[Any]) -> None:
        for each in found:
            note(each.node)

    collect()
    assert seen == set(Kind)
