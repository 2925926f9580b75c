"""From a class to a layout: order, docs, dialects, bits, and what a declaration may not say."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, ClassVar

import pytest

from wirelake.wire import model as m
from wirelake.wire.declare import DeclarationError, build, field_docs, snake_case
from wirelake.wire.types import (
    I16,
    U8,
    U16,
    U32,
    Bits1,
    Bits3,
    Bits4,
    Bits7,
    BitWidth,
    Blob,
    ByDialect,
    Case,
    Choice,
    Counted,
    DynamicMark,
    Flag,
    Int,
    ItemsOf,
    Layout,
    LengthMark,
    List8,
    Magic,
    Names,
    Number,
    Only,
    Option,
    PairsOf,
    PbInt32,
    PbString,
    Present,
    Protobuf,
    Rest,
    RowsMark,
    Secret,
    Sizes,
    Stage,
    String16,
    Tag8,
    TagBits1,
    ToEnd,
    UnknownOptions,
    Varint,
    When,
)


class Colour(IntEnum):
    RED = 0
    GREEN = 1


class Base(Layout):
    """What the others begin with."""

    first: U8
    """Comes   before
    everything."""
    plain: U16


class Derived(Base):
    last: String16
    """The end."""
    odd: U8 = 3


class Everything(Layout, kw_only=True):
    """One of each part."""

    wire_name: ClassVar[str] = "all_of_it"
    section: ClassVar[str] = "4.2"

    magic: ClassVar[Annotated[bytes, Magic(b"ab", code="bad_version")]]
    """Always ab."""
    length: ClassVar[Annotated[int, LengthMark(Int(2), minimum=1, limit=9, limits=(("b", 5),))]]
    reserved: Bits3 = 0
    on: Flag = False
    """A switch."""
    mark: ClassVar[TagBits1]
    has_name: ClassVar[Present]
    colour: Annotated[int, BitWidth(2), Names(Colour, closed=True)] = 0
    name: Annotated[Secret[String16] | None, When("has_name")] = None
    other: Annotated[U32, Names(Colour), Only("b")] = 0
    blob: Annotated[bytes, Blob(Int(1)), Sizes(0, 4), Sizes(2, dialect="b")] = b""
    count: Annotated[tuple[U16, ...], Counted(ByDialect(Int(1), {"b": Varint(32)}))] = ()
    shape: Annotated[int, ByDialect(Int(1), {"b": Int(2)})] = 0
    body: Annotated[Base | Derived, Choice({0: Base, 1: Case(Derived, const=3, limit=8)})]
    """Either."""


class Staged(Layout):
    content: Annotated[Rest, Stage(Base)]


class Boxed(Protobuf):
    n: Annotated[PbInt32, Number(1, (("b", 4),))] = 0
    maybe: Annotated[PbString | None, Number(2)] = None
    many: Annotated[tuple[PbInt32, ...], ToEnd(), Number(3)] = ()


class Kind(IntEnum):
    NOTHING = 0
    BYTE = 3
    LIST = 7
    MAP = 8


class Node(Layout):
    type: int
    value: object = None


AnyNode = Annotated[
    Node,
    DynamicMark(
        tag=Int(1),
        names=Kind,
        kinds={
            Kind.NOTHING: None,
            Kind.BYTE: Int(1),
            Kind.LIST: ItemsOf(ByDialect(Varint(32), {"b": Varint(16)})),
            Kind.MAP: PairsOf(Annotated[str, Blob(Varint(32), "strict")], Varint(32)),
        },
        max_depth=3,
        max_nodes=9,
    ),
]


class Holder(Layout):
    node: AnyNode
    many: List8[Base]


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
        tuple[Base | Opaque | Broken, ...],
        RowsMark(Int(1), Int(3), 0, {5: Base}, Opaque, Broken),
    ]


def part(cls: type[Layout], name: str, dialect: str = "seed") -> Any:
    """The part or bit of a name."""
    for found in build(cls, dialect).parts:
        if getattr(found, "name", "") == name:
            return found
        if isinstance(found, m.BitGroup):
            for bit in found.bits:
                if bit.name == name:
                    return bit
    raise AssertionError(name)


# -- what a class says -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("Auth", "auth"),
        ("AuthSuccess", "auth_success"),
        ("XData", "x_data"),
        ("HTTPServer", "http_server"),
        ("Var2Int", "var2_int"),
    ],
)
def test_names_become_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


def test_fields_of_a_base_come_first() -> None:
    layout = build(Derived)
    assert [p.name for p in layout.parts if isinstance(p, m.Field)] == [
        "first",
        "plain",
        "last",
        "odd",
    ]
    assert layout.name == "derived"
    assert layout.doc == "What the others begin with."


def test_docs_follow_their_fields() -> None:
    assert field_docs(Derived) == {"first": "Comes before everything.", "last": "The end."}
    assert part(Derived, "first").doc == "Comes before everything."
    assert part(Derived, "plain").doc == ""


def test_a_class_without_source_has_no_docs_and_works() -> None:
    namespace: dict[str, Any] = {"__name__": __name__, "Layout": Layout, "U8": U8}
    exec("class Typed(Layout):\n    n: U8\n    '''Lost.'''\n", namespace)
    layout = build(namespace["Typed"])
    assert layout.parts == (m.Field("n", m.Int(1)),)


def test_name_section_and_doc_of_a_layout() -> None:
    layout = build(Everything)
    assert (layout.name, layout.section, layout.doc) == (
        "all_of_it",
        "4.2",
        "One of each part.",
    )
    assert layout.cls is Everything
    assert not layout.protobuf


def test_constants_and_lengths_are_derived() -> None:
    assert part(Everything, "magic") == m.Const(
        "magic", m.Fixed(2), b"ab", "bad_version", "Always ab."
    )
    assert part(Everything, "length") == m.Length("length", m.Int(2), 1, 9)
    assert part(Everything, "length", "b").limit == 5


def test_bits_share_bytes_first_is_most_significant() -> None:
    group = next(p for p in build(Everything).parts if isinstance(p, m.BitGroup))
    assert group.size == 1
    assert [(b.name, b.width, b.shift, b.role) for b in group.bits] == [
        ("reserved", 3, 5, "stored"),
        ("on", 1, 4, "stored"),
        ("mark", 1, 3, "tag"),
        ("has_name", 1, 2, "present"),
        ("colour", 2, 0, "stored"),
    ]
    assert part(Everything, "on").flag
    assert part(Everything, "on").doc == "A switch."
    assert part(Everything, "has_name").target == "name"
    assert part(Everything, "colour").closed
    assert part(Everything, "colour").names is Colour


def test_full_bytes_of_bits_are_groups_of_their_own() -> None:
    class Two(Layout):
        a: Bits4
        b: Bits4
        c: Bits1
        d: Annotated[int, BitWidth(15)]
        e: Annotated[int, BitWidth(31)]
        f: Bits1

    sizes = [p.size for p in build(Two).parts if isinstance(p, m.BitGroup)]
    assert sizes == [1, 2, 4]


def test_secrets_and_presence() -> None:
    name = part(Everything, "name")
    assert (name.secret, name.when) == (True, "has_name")
    assert name.type == m.Blob(m.Int(2), "strict")
    assert not part(Everything, "blob").secret


def test_dialects_differ_in_fields_types_counts_and_sizes() -> None:
    names = {getattr(p, "name", "") for p in build(Everything).parts}
    assert "other" not in names
    assert part(Everything, "other", "b").names is Colour
    assert not part(Everything, "other", "b").closed
    assert part(Everything, "blob").sizes == (0, 4)
    assert part(Everything, "blob", "b").sizes == (2,)
    assert part(Everything, "count").type.count == m.Int(1)
    assert part(Everything, "count", "b").type.count == m.Varint(32)
    assert part(Everything, "shape").type == m.Int(1)
    assert part(Everything, "shape", "b").type == m.Int(2)


def test_a_body_has_its_alternatives() -> None:
    body = build(Everything).body
    assert body is not None
    assert body.doc == "Either."
    assert [(a.tag, a.layout.name, a.const, a.limit) for a in body.alternatives] == [
        (0, "base", None, None),
        (1, "derived", 3, 8),
    ]


def test_a_stage_is_a_layout() -> None:
    stage = part(Staged, "content").stage
    assert stage is build(Base)


def test_protobuf_fields_have_numbers() -> None:
    layout = build(Boxed)
    assert layout.protobuf
    assert layout.unknown == "unknown"
    assert [p.number for p in layout.parts if isinstance(p, m.Field)] == [1, 2, 3]
    assert part(Boxed, "n", "b").number == 4
    assert part(Boxed, "maybe").optional
    assert part(Boxed, "many").type == m.Many(m.Varint(32, "twos"), None)


def test_a_dynamic_value_has_kinds() -> None:
    kind = part(Holder, "node").type
    assert (kind.cls, kind.name, kind.max_depth, kind.max_nodes) == (Node, "node", 3, 9)
    assert kind.kinds == (
        m.DynamicKind(0, "nothing", None),
        m.DynamicKind(3, "byte", m.Int(1)),
        m.DynamicKind(7, "list", m.Items(m.Varint(32))),
        m.DynamicKind(8, "map", m.Pairs(m.Blob(m.Varint(32), "strict"), m.Varint(32))),
    )
    in_b = part(Holder, "node", "b").type
    assert in_b.kinds[2].type == m.Items(m.Varint(16))


def test_a_list_of_layouts() -> None:
    assert part(Holder, "many").type == m.Many(m.Nested(build(Base)), m.Int(1))


def test_rows_have_alternatives() -> None:
    rows = part(Rowed, "rows").type
    assert [(a.tag, a.layout.name) for a in rows.alternatives] == [(5, "base")]
    assert (rows.end, rows.opaque, rows.broken, rows.max_rows) == (0, Opaque, Broken, 65_536)


# -- what a class may not say ----------------------------------------------------------------


def refused(cls: Any, name: str, why: str, dialect: str = "seed") -> None:
    with pytest.raises(DeclarationError) as caught:
        build(cls, dialect)
    where = f"{cls.__qualname__}.{name}" if name else cls.__qualname__
    assert str(caught.value) == f"{where}: {why}"


@pytest.mark.parametrize("thing", [int, 5, "Frame", U8])
def test_only_layout_classes_declare_layouts(thing: Any) -> None:
    with pytest.raises(DeclarationError, match="is not a Layout class"):
        build(thing)


def test_a_declaration_error_is_a_type_error() -> None:
    assert issubclass(DeclarationError, TypeError)


def test_bits_must_fill_bytes_before_another_field() -> None:
    class Bad(Layout):
        a: Bits3
        n: U8

    refused(Bad, "n", "3 bits do not fill whole bytes")


def test_bits_must_fill_bytes_at_the_end() -> None:
    class Bad(Layout):
        n: U8
        a: Bits7

    refused(Bad, "a", "7 bits do not fill whole bytes")


def test_a_presence_bit_needs_a_field() -> None:
    class Bad(Layout):
        has: ClassVar[Present]
        rest: Bits7

    refused(Bad, "has", "no field refers to this presence bit with When")


def test_a_presence_bit_needs_a_field_in_this_dialect() -> None:
    class Bad(Layout):
        has: ClassVar[Present]
        rest: Bits7
        n: Annotated[U8 | None, When("has"), Only("b")] = None

    assert build(Bad, "b").min_size == 1
    refused(Bad, "has", "no field refers to this presence bit with When")


def test_options_need_a_place_for_unknown_ones() -> None:
    class Bad(Layout, kw_only=True):
        type: ClassVar[Tag8]
        n: Annotated[U8 | None, Option(1, (Base,))] = None
        body: Annotated[Base, Choice({1: Base})]

    refused(Bad, "n", "options need an UnknownOptions field after them")


def test_options_need_a_body() -> None:
    class Bad(Layout):
        n: Annotated[U8 | None, Option(1, (Base,))] = None
        more: Annotated[tuple[tuple[int, bytes], ...], UnknownOptions(Int(2), critical=0)] = ()

    refused(Bad, "n", "options need a body in the same layout")


def test_an_option_is_no_text() -> None:
    class Bad(Layout, kw_only=True):
        type: ClassVar[Tag8]
        n: Annotated[String16 | None, Option(1, (Base,))] = None
        body: Annotated[Base, Choice({1: Base})]

    refused(Bad, "n", "an option has a fixed size")


def test_a_class_variable_must_have_a_wire_type() -> None:
    class Bad(Layout):
        number: ClassVar[U8]

    refused(Bad, "number", "a ClassVar must be a magic value, a length, a tag or bits")


def test_numbers_belong_to_protobuf() -> None:
    class Bad(Layout):
        n: Annotated[U8, Number(1)]

    class Worse(Protobuf):
        n: PbInt32 = 0

    refused(Bad, "n", "Number is only for fields of a Protobuf")
    refused(Worse, "n", "missing Number")


def test_what_may_be_missing_needs_a_bit() -> None:
    class Bad(Layout):
        n: U8 | None = None

    refused(Bad, "n", "a field that may be None needs When")


@pytest.mark.parametrize("hint", [int, str, tuple[int, ...], list[int], Base | Derived])
def test_a_plain_type_has_no_wire_type(hint: Any) -> None:
    class Bad(Layout):
        n: hint

    Bad.__annotations__["n"] = hint
    refused(Bad, "n", f"{hint!r} has no wire type; use a type of wirelake.wire")


def test_a_field_that_some_dialects_lack_needs_a_default() -> None:
    class Bad(Layout):
        n: Annotated[U8, Only("b")]

    assert build(Bad, "b").min_size == 1
    refused(Bad, "n", "a field that some dialects lack needs a default")


def test_private_names_are_refused() -> None:
    class Bad(Layout):
        _n: U8

    refused(Bad, "_n", "a field name must not begin with _")


def test_names_that_do_not_resolve_are_refused() -> None:
    class Bad(Layout):
        n: Nowhere  # type: ignore[name-defined]  # noqa: F821

    refused(Bad, "", "name 'Nowhere' is not defined")


class Recursive(Layout):
    n: U8
    again: List8[Again]


class Again(Layout):
    inner: Recursive


def test_a_layout_does_not_contain_itself() -> None:
    with pytest.raises(DeclarationError) as caught:
        build(Recursive)
    assert str(caught.value) == "Recursive contains itself; use a dynamic value"
    assert build(Base).name == "base"


def test_a_refused_layout_stays_refused() -> None:
    class Bad(Layout):
        a: Bits3

    for _ in range(2):
        refused(Bad, "a", "3 bits do not fill whole bytes")


def test_rules_of_whole_layouts_are_raised_too() -> None:
    class Bad(Layout):
        rest: Rest
        n: I16

    refused(Bad, "rest", "takes the remaining bytes, so it must be the last field")
