"""The model: sizes, bodies, and the questions that generator and views ask of a layout."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, ClassVar

import pytest

from wirelake.wire import model as m
from wirelake.wire.declare import build
from wirelake.wire.types import (
    F32,
    U8,
    U16,
    U24,
    U64,
    Bits7,
    BitWidth,
    Boolean,
    Bytes16Fixed,
    Choice,
    DynamicMark,
    Flag,
    Int,
    Layout,
    Length16,
    LengthMark,
    List16,
    Magic,
    Number,
    PbInt32,
    Present,
    Protobuf,
    Rest,
    RowsMark,
    String16,
    Tag8,
    ToEnd,
    VarU64,
    When,
)


class Fixed(Layout):
    magic: ClassVar[Annotated[bytes, Magic(b"abc")]]
    a: U8
    b: U24
    c: F32
    d: Boolean
    e: Bytes16Fixed
    on: Flag
    low: Bits7


class Loose(Layout):
    inner: Fixed
    text: String16
    number: VarU64
    many: List16[U64]
    rest: Rest


class Maybe(Layout):
    has: ClassVar[Present]
    spare: Bits7
    n: Annotated[U8 | None, When("has")] = None


class Tail(Layout):
    items: Annotated[tuple[U16, ...], ToEnd()]


class Empty(Layout):
    pass


class Boxed(Protobuf):
    n: Annotated[PbInt32, Number(1)] = 0


class Transparent(Layout):
    length: ClassVar[Length16]
    type: ClassVar[Tag8]
    body: Annotated[Fixed | Empty | Maybe, Choice(c2s={1: Fixed, 2: Empty}, s2c={1: Maybe})]


class Headed(Layout):
    length: ClassVar[Annotated[int, LengthMark(Int(4), minimum=2, limit=100)]]
    flag: Flag
    type: ClassVar[Annotated[int, BitWidth(7, "tag")]]
    body: Annotated[Fixed | Empty, Choice({1: Fixed, 2: Empty})]


class Kind(IntEnum):
    NONE = 0


class Node(Layout):
    type: int
    value: object = None


class Dynamic(Layout):
    node: Annotated[Node, DynamicMark(tag=Int(1), names=Kind, kinds={Kind.NONE: None})]


class Opaque(Layout):
    type: int
    data: bytes = b""


class Broken(Layout):
    type: int
    data: bytes
    code: str
    field: str
    offset: int


class Rowed(Layout):
    rows: Annotated[
        tuple[Empty | Opaque | Broken, ...],
        RowsMark(Int(1), Int(3), 0, {1: Empty}, Opaque, Broken),
    ]


@pytest.mark.parametrize(
    ("cls", "least", "exact"),
    [
        (Fixed, 3 + 1 + 3 + 4 + 1 + 16 + 1, 29),
        (Loose, 29 + 2 + 1 + 2, None),
        (Maybe, 1, None),
        (Tail, 0, None),
        (Empty, 0, 0),
        (Boxed, 0, None),
        (Transparent, 3, None),
        (Headed, 5, None),
        (Dynamic, 1, None),
        (Rowed, 4, None),
    ],
)
def test_sizes(cls: type[Layout], least: int, exact: int | None) -> None:
    layout = build(cls)
    assert layout.min_size == least
    assert layout.fixed_size == exact


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (m.Int(3), (3, True)),
        (m.Float(8), (8, True)),
        (m.Fixed(5), (5, True)),
        (m.Bool(), (1, True)),
        (m.Varint(64), (1, False)),
        (m.Blob(m.Int(4)), (4, False)),
        (m.Blob(m.Varint(32)), (1, False)),
        (m.Blob(None), (0, False)),
        (m.Many(m.Int(2), m.Int(2)), (2, False)),
        (m.Many(m.Int(2), None), (0, False)),
    ],
)
def test_the_size_of_a_type(kind: Any, size: tuple[int, bool]) -> None:
    assert m.type_size(kind) == size


def test_a_varint_knows_whether_it_has_a_sign() -> None:
    assert not m.Varint(32).signed
    assert m.Varint(32, "zigzag").signed
    assert m.Varint(32, "twos").signed


def test_a_body_distinguishes_directions() -> None:
    body = build(Transparent).body
    assert body is not None
    assert body.directed
    assert [a.layout.name for a in body.of("c2s")] == ["fixed", "empty"]
    assert [a.layout.name for a in body.of("s2c")] == ["maybe"]
    assert len(body.of(None)) == 3


def test_a_body_without_directions_is_for_both() -> None:
    body = build(Headed).body
    assert body is not None
    assert not body.directed
    assert body.of("c2s") == body.of("s2c") == body.alternatives


def test_a_frame_that_stores_only_its_body_is_transparent() -> None:
    assert build(Transparent).transparent
    assert not build(Headed).transparent
    assert not build(Fixed).transparent
    assert build(Fixed).body is None


def test_parts_are_found_by_kind() -> None:
    layout = build(Headed)
    length = layout.find(m.Length)
    assert isinstance(length, m.Length)
    assert (length.name, length.minimum, length.limit) == ("length", 2, 100)
    assert layout.find(m.Options) is None


def test_layouts_of_the_same_class_are_the_same_object() -> None:
    assert build(Fixed) is build(Fixed)
    assert build(Fixed) is not build(Fixed, "other")
    assert build(Fixed) != build(Fixed, "other")
