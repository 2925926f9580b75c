"""Which layouts and dynamic values a layout is made of."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar

from wirelake.protocols.esnp.layout import Var
from wirelake.protocols.esnp.protocol import PROTOCOL as ESNP
from wirelake.protocols.tny.protocol import PROTOCOL as TNY
from wirelake.wire import model as m
from wirelake.wire.declare import build
from wirelake.wire.types import (
    U8,
    Case,
    Choice,
    DynamicMark,
    Fixed,
    Int,
    ItemsOf,
    Layout,
    Length16,
    LengthMark,
    List8,
    Option,
    OptionBitsMark,
    OptionsLengthMark,
    Rest,
    Stage,
    Tag8,
    TagConstMark,
    TagMark,
    UnknownOptions,
    Varint,
)
from wirelake.wire.walk import dynamics, inner, reachable


class Leaf(Layout):
    n: U8


class Inside(Layout):
    leaf: Leaf


class Staged(Layout):
    n: U8


class Middle(Layout):
    many: List8[Inside]
    twice: List8[List8[Leaf]]
    content: Annotated[Rest, Stage(Staged)]


class Other(Layout):
    n: U8


class Frame(Layout):
    length: ClassVar[Length16]
    type: ClassVar[Tag8]
    body: Annotated[Middle | Other, Choice({1: Middle, 2: Other})]


class WithOptions(Layout, kw_only=True):
    const: ClassVar[Annotated[int, TagConstMark(Int(1))]]
    cmd: ClassVar[Annotated[int, TagMark(Int(1))]]
    bits: ClassVar[Annotated[int, OptionBitsMark(Int(2))]]
    area: ClassVar[Annotated[int, OptionsLengthMark(Int(2))]]
    length: ClassVar[Annotated[int, LengthMark(Int(4))]]
    leaf: Annotated[Leaf | None, Option(1, (Other,))] = None
    raw: Annotated[bytes | None, Fixed(4), Option(2, (Other,))] = None
    more: Annotated[tuple[tuple[int, bytes], ...], UnknownOptions(Int(2), critical=0)] = ()
    body: Annotated[Other, Choice({1: Case(Other, const=1)})]


class Kind(IntEnum):
    LIST = 1


class Node(Layout):
    type: int
    value: object = None


AnyNode = Annotated[
    Node, DynamicMark(tag=Int(1), names=Kind, kinds={Kind.LIST: ItemsOf(Varint(32))})
]


class Holder(Layout):
    eight: List8[AnyNode]


class Plain(Layout):
    node: AnyNode
    spare: AnyNode


def names(layouts: list[m.Layout]) -> list[str]:
    return [layout.name for layout in layouts]


def test_direct_children_are_in_wire_order() -> None:
    assert names(list(inner(build(Middle)))) == ["inside", "leaf", "staged"]
    assert names(list(inner(build(Frame)))) == ["middle", "other"]
    assert names(list(inner(build(Leaf)))) == []


def test_options_are_looked_into() -> None:
    assert names(list(inner(build(WithOptions)))) == ["leaf", "other"]


def test_rows_are_looked_into() -> None:
    assert "session_info" in names(list(inner(ESNP.model())))


def test_every_layout_is_found_once_outer_first() -> None:
    found = names(reachable([build(Frame), build(Leaf)]))
    assert found == ["frame", "middle", "inside", "leaf", "staged", "other"]


def test_a_stage_is_part_of_its_protocol() -> None:
    found = names(TNY.layouts())
    assert found[0] == "packet"
    assert {"envelope", "message", "forward_header", "point", "tracing_header"} <= set(found)


def test_dynamic_values_are_found_once() -> None:
    assert [kind.cls for kind in dynamics(ESNP.layouts())] == [Var]
    assert [kind.cls for kind in dynamics([build(Plain)])] == [Node]


def test_dynamic_values_in_lists_are_found() -> None:
    assert [kind.cls for kind in dynamics([build(Holder)])] == [Node]


def test_layouts_without_dynamic_values_have_none() -> None:
    assert dynamics(TNY.layouts()) == []
