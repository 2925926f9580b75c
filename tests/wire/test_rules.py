"""Every rule that a whole layout can break, with the words it is refused with."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, ClassVar

import pytest

from wirelake.wire import model as m
from wirelake.wire.declare import DeclarationError, build
from wirelake.wire.types import (
    F32LE,
    U8,
    U16,
    U32LE,
    Bits4,
    Bits7,
    BitWidth,
    Blob,
    Bool,
    Bytes16Fixed,
    Case,
    Choice,
    DynamicMark,
    Fixed,
    Flag,
    Float,
    Int,
    ItemsOf,
    Layout,
    Length16,
    LengthMark,
    List8,
    Magic,
    Names,
    Number,
    Option,
    OptionBitsMark,
    OptionsLengthMark,
    PairsOf,
    PbInt32,
    Present,
    Protobuf,
    Rest,
    RowsMark,
    Sizes,
    String16,
    Tag8,
    TagBits2,
    TagBits4,
    TagConstMark,
    TagMark,
    ToEnd,
    UnknownOptions,
    Varint,
    When,
)


class Colour(IntEnum):
    RED = 0


class Leaf(Layout):
    n: U8


class Other(Layout):
    n: U8


class Empty(Layout):
    pass


class Greedy(Layout):
    rest: Rest


class Bounded(Layout):
    length: ClassVar[Length16]
    rest: Rest


class Boxed(Protobuf):
    n: Annotated[PbInt32, Number(1)] = 0


class Framed(Layout):
    type: ClassVar[Tag8]
    body: Annotated[Leaf, Choice({1: Leaf})]


class Opaque(Layout):
    type: int
    data: bytes = b""


class Broken(Layout):
    type: int
    data: bytes
    code: str
    field: str
    offset: int


class Node(Layout):
    type: int
    value: object = None


Unknown = Annotated[tuple[tuple[int, bytes], ...], UnknownOptions(Int(2), critical=0)]


def refused(cls: type[Layout], name: str, why: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        build(cls)
    assert str(caught.value) == f"{cls.__qualname__}.{name}: {why}"


def of(hint: Any) -> type[Layout]:
    """A layout with the one field `n`."""

    class Bad(Layout):
        n: U8

    Bad.__annotations__["n"] = hint
    return Bad


@pytest.mark.parametrize("cls", [Leaf, Empty, Greedy, Bounded, Boxed, Framed])
def test_what_is_right_passes(cls: type[Layout]) -> None:
    assert build(cls).cls is cls


# -- types -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Int(5), "an integer has 1, 2, 3, 4 or 8 bytes, not 5"),
        (Int(0), "an integer has 1, 2, 3, 4 or 8 bytes, not 0"),
        (Varint(24), "unknown varint: unsigned of 24 bits"),
        (Varint(16, "twos"), "unknown varint: twos of 16 bits"),
        (Varint(32, loose=True), "unknown varint: loose unsigned of 32 bits"),
        (Float(2), "a float has 4 or 8 bytes, not 2"),
        (Fixed(0), "fixed bytes need a size of at least 1"),
        (Blob(Int(7)), "an integer has 1, 2, 3, 4 or 8 bytes, not 7"),
        (Blob(Varint(8)), "unknown varint: unsigned of 8 bits"),
        (Blob(2), "a length is an Int or a Varint, not 2"),  # type: ignore[arg-type]
    ],
)
def test_types_that_do_not_exist(kind: Any, why: str) -> None:
    refused(of(Annotated[int, kind]), "n", why)
    if not isinstance(kind, Blob):
        refused(of(List8[Annotated[int, kind]]), "n", why)


@pytest.mark.parametrize("item", [Empty, Rest, Boxed, Greedy])
def test_an_item_takes_room(item: Any) -> None:
    refused(of(List8[item]), "n", "an item of a list takes at least one byte")
    to_end = Annotated[tuple[item, ...], ToEnd()]
    refused(of(to_end), "n", "an item of a list takes at least one byte")


def test_a_magic_value_has_bytes() -> None:
    class Bad(Layout):
        magic: ClassVar[Annotated[bytes, Magic(b"")]]

    refused(Bad, "magic", "a magic value has at least one byte")


def test_bits_share_a_number_of_bytes_that_struct_knows() -> None:
    class Bad(Layout):
        a: Bits4
        b: Annotated[int, BitWidth(20)]

    refused(Bad, "b", "bits share 1, 2, 4 or 8 bytes, not 3")


@pytest.mark.parametrize("mark", [LengthMark, TagMark])
def test_derived_numbers_are_never_negative(mark: Any) -> None:
    class Bad(Layout):
        derived: ClassVar[Annotated[int, LengthMark(Int(1))]]

    Bad.__annotations__["derived"] = ClassVar[Annotated[int, mark(Int(2, signed=True))]]
    refused(Bad, "derived", "this number cannot be signed")


def test_derived_numbers_have_a_known_size() -> None:
    class Bad(Layout):
        length: ClassVar[Annotated[int, LengthMark(Int(6))]]

    refused(Bad, "length", "an integer has 1, 2, 3, 4 or 8 bytes, not 6")


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[String16, Names(Colour, closed=True)],
        Annotated[List8[U8], Names(Colour, closed=True)],
    ],
)
def test_closed_names_are_for_numbers(hint: Any) -> None:
    refused(of(hint), "n", "closed names belong on a single number outside protobuf")


def test_sizes_are_for_blobs() -> None:
    hint = Annotated[U8, Sizes(1)]
    refused(of(hint), "n", "sizes belong on bytes or text behind a length")


def test_frames_do_not_nest() -> None:
    refused(of(Framed), "n", "framed has a body or options, which only a frame can have")


# -- dynamic values --------------------------------------------------------------------------


def dynamic(kinds: dict[int, Any], cls: Any = Node, tag: Any = None) -> type[Layout]:
    names = IntEnum("names", {f"K{tag}": tag for tag in kinds} or {"NONE": 0})  # type: ignore[misc]
    return of(Annotated[cls, DynamicMark(tag=tag or Int(1), names=names, kinds=kinds)])


STRING = Blob(Varint(32), "strict")


@pytest.mark.parametrize(
    ("kinds", "why"),
    [
        ({}, "a dynamic value has at least one kind"),
        ({256: None}, "kind k256: tag 256 does not fit a byte"),
        (
            {1: Blob(Int(1))},
            "kind k1: lengths and counts of a dynamic value are varints",
        ),
        (
            {1: Blob(None)},
            "kind k1: lengths and counts of a dynamic value are varints",
        ),
        (
            {1: ItemsOf(Int(1))},
            "kind k1: lengths and counts of a dynamic value are varints",
        ),
        (
            {1: PairsOf(Blob(Int(1), "strict"), Varint(32))},
            "kind k1: lengths and counts of a dynamic value are varints",
        ),
        ({1: PairsOf(Blob(Varint(32)), Varint(32))}, "kind k1: a key must be text"),
        ({1: ItemsOf(Varint(8))}, "kind k1: unknown varint: unsigned of 8 bits"),
        ({1: Int(9)}, "kind k1: an integer has 1, 2, 3, 4 or 8 bytes, not 9"),
        ({1: Fixed(2)}, "kind k1: Fixed(size=2) is not allowed in a dynamic value"),
    ],
)
def test_kinds_that_a_dynamic_value_cannot_have(kinds: dict[int, Any], why: str) -> None:
    refused(dynamic(kinds), "n", why)


def test_the_tag_of_a_dynamic_value_is_a_byte() -> None:
    refused(dynamic({1: None}, tag=Int(2)), "n", "the tag of a dynamic value is one unsigned byte")


def test_a_dynamic_value_has_type_and_value() -> None:
    refused(dynamic({1: None}, cls=Leaf), "n", "Leaf must have the fields type and value")


def test_kinds_that_a_dynamic_value_can_have() -> None:
    kinds = {
        0: None,
        1: Bool(),
        2: Int(3, signed=True),
        3: Float(4),
        4: Varint(16),
        5: STRING,
        6: ItemsOf(Varint(32)),
        7: PairsOf(STRING, Varint(32)),
    }
    assert build(dynamic(kinds)).min_size == 1


# -- rows ------------------------------------------------------------------------------------


def rows(kinds: dict[int, Any], tag: Any = None, size: Any = None, end: int = 0) -> type[Layout]:
    mark = RowsMark(tag or Int(1), size or Int(3), end, kinds, Opaque, Broken)
    return of(Annotated[tuple[Leaf | Opaque | Broken, ...], mark])


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (
            rows({1: Leaf}, tag=Int(2)),
            "a row begins with a tag of one byte and a size of three, big-endian",
        ),
        (
            rows({1: Leaf}, size=Int(2)),
            "a row begins with a tag of one byte and a size of three, big-endian",
        ),
        (rows({0: Leaf}), "tag 0 is reserved for the end row"),
        (rows({256: Leaf}), "the tag of a row is one byte"),
        (rows({1: Leaf}, end=-1), "the tag of a row is one byte"),
        (rows({1: Leaf, 2: Leaf}), "leaf has two tags, 1 and 2; use one"),
    ],
)
def test_rows_that_cannot_be(cls: type[Layout], why: str) -> None:
    refused(cls, "n", why)


def test_rows_are_the_only_part() -> None:
    class Bad(Layout):
        n: U8
        rows: Annotated[
            tuple[Leaf | Opaque | Broken, ...],
            RowsMark(Int(1), Int(3), 0, {1: Leaf}, Opaque, Broken),
        ]

    refused(Bad, "rows", "rows must be the only field of their layout")


# -- order and presence ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "hint",
    [
        Rest,
        Annotated[tuple[U8, ...], ToEnd()],
        Greedy,
        Boxed,
    ],
)
def test_what_takes_the_rest_comes_last(hint: Any) -> None:
    class Bad(Layout):
        rest: U8
        after: U8

    Bad.__annotations__["rest"] = hint
    refused(Bad, "rest", "takes the remaining bytes, so it must be the last field")


def test_what_takes_the_rest_of_a_list_item_comes_last() -> None:
    class Item(Layout):
        n: U8
        rest: Rest

    class Bad(Layout):
        many: List8[U8]
        after: U8

    Bad.__annotations__["many"] = List8[Item]
    refused(Bad, "many", "takes the remaining bytes, so it must be the last field")


def test_a_length_bounds_what_takes_the_rest() -> None:
    class Good(Layout):
        inner: Bounded
        after: U8

    assert build(Good).min_size == 3


def test_one_length_is_enough() -> None:
    class Bad(Layout):
        length: ClassVar[Length16]
        again: ClassVar[Length16]
        rest: Rest

    refused(Bad, "again", "a layout has one length; nest a layout for another")


def test_a_body_comes_last() -> None:
    class Bad(Layout):
        type: ClassVar[Tag8]
        body: Annotated[Leaf, Choice({1: Leaf})]
        n: U8

    refused(Bad, "body", "the body must be the last part")


def test_a_presence_bit_comes_before_its_field() -> None:
    class Bad(Layout, kw_only=True):
        n: Annotated[U8 | None, When("has")] = None
        has: ClassVar[Present]
        spare: Bits7

    refused(Bad, "n", "no presence bit has before it")


def test_a_stored_bit_is_no_presence_bit() -> None:
    class Bad(Layout):
        has: Flag
        spare: Bits7
        n: Annotated[U8 | None, When("has")] = None

    refused(Bad, "n", "no presence bit has before it")


def test_a_presence_bit_that_does_not_exist() -> None:
    class Bad(Layout):
        n: Annotated[U8 | None, When("has")] = None

    refused(Bad, "n", "no presence bit has before it")


def test_a_presence_bit_has_one_field() -> None:
    class Bad(Layout):
        has: ClassVar[Present]
        spare: Bits7
        n: Annotated[U8 | None, When("has")] = None
        o: Annotated[U8 | None, When("has")] = None

    refused(Bad, "o", "presence bit has already belongs to another field")


def test_only_a_layout_without_fields_is_not_parsed() -> None:
    class Bad(Protobuf):
        unparsed: ClassVar[tuple[str, ...]] = ("seed",)
        n: Annotated[PbInt32, Number(1)] = 0

    refused(Bad, "unparsed", "only for a layout without fields")


# -- bodies ----------------------------------------------------------------------------------


def test_a_body_needs_a_tag() -> None:
    class Bad(Layout):
        body: Annotated[Leaf, Choice({1: Leaf})]

    refused(Bad, "body", "the frame has a body but no tag; declare one")


def test_one_tag_is_enough() -> None:
    class Bad(Layout):
        type: ClassVar[Tag8]
        again: ClassVar[TagBits4]
        spare: Bits4
        body: Annotated[Leaf, Choice({1: Leaf})]

    class Worse(Layout):
        high: ClassVar[TagBits4]
        spare: Bits4
        low: ClassVar[TagBits4]
        rest: Bits4
        body: Annotated[Leaf, Choice({1: Leaf})]

    refused(Bad, "body", "several parts select the body; declare one tag")
    refused(Worse, "body", "several parts select the body; declare one tag")


def test_a_tag_comes_before_what_has_no_fixed_size() -> None:
    class Bad(Layout):
        length: ClassVar[Length16]
        text: String16
        type: ClassVar[Tag8]
        body: Annotated[Leaf, Choice({1: Leaf})]

    class Worse(Layout):
        has: ClassVar[Present]
        spare: Bits7
        n: Annotated[U8 | None, When("has")]
        kind: ClassVar[TagBits4]
        rest: Bits4
        body: Annotated[Leaf, Choice({1: Leaf})]

    why = "a tag must precede parts of variable size, such as"
    refused(Bad, "type", f"{why} text")
    refused(Worse, "kind", f"{why} n")


def test_exact_bodies_need_options() -> None:
    class Bad(Layout):
        length: ClassVar[Length16]
        type: ClassVar[Tag8]
        body: Annotated[Leaf, Choice({1: Leaf}, exact=True)]

    refused(Bad, "body", "exact bodies are for frames with options")


@pytest.mark.parametrize("hint", [Tag8, Annotated[int, TagConstMark(Int(1))]])
def test_a_tag_needs_a_body(hint: Any) -> None:
    class Bad(Layout):
        type: ClassVar[Tag8]

    Bad.__annotations__["type"] = ClassVar[hint]
    refused(Bad, "type", "has no effect without a body")


def test_tag_bits_need_a_body() -> None:
    class Bad(Layout):
        type: ClassVar[TagBits4]
        spare: Bits4

    refused(Bad, "type", "has no effect without a body")


def test_a_tag_must_fit() -> None:
    class Bad(Layout):
        type: ClassVar[Tag8]
        body: Annotated[Leaf, Choice({256: Leaf})]

    class Worse(Layout):
        high: ClassVar[TagBits2]
        low: ClassVar[TagBits2]
        spare: Bits4
        body: Annotated[Leaf | Other, Choice({15: Leaf, 16: Other})]

    refused(Bad, "body", "tag 256 of leaf does not fit the tag field")
    refused(Worse, "body", "tag 16 of other does not fit the tag field")


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        (Choice({1: Leaf, 2: Leaf}), "leaf has two tags, 1 and 2; use one"),
        (Choice(c2s={1: Leaf}, s2c={2: Leaf}), "leaf has two tags, 1 and 2; use one"),
        (Choice({1: Leaf}, c2s={1: Other}), "tag 1 selects two layouts"),
    ],
)
def test_a_tag_and_a_layout_belong_together(choice: Choice, why: str) -> None:
    class Bad(Layout):
        type: ClassVar[Tag8]
        body: Annotated[Leaf | Other, Choice({1: Leaf})]

    Bad.__annotations__["body"] = Annotated[Leaf | Other, choice]
    refused(Bad, "body", why)


def test_the_same_tag_means_something_else_in_the_other_direction() -> None:
    class Good(Layout):
        type: ClassVar[Tag8]
        body: Annotated[Leaf | Other, Choice(c2s={1: Leaf, 2: Empty}, s2c={1: Other, 2: Empty})]

    body = build(Good).body
    assert body is not None
    assert len(body.alternatives) == 4


def test_a_constant_of_the_body_is_given_by_each() -> None:
    class Bad(Layout):
        const: ClassVar[Annotated[int, TagConstMark(Int(1))]]
        type: ClassVar[Tag8]
        body: Annotated[Leaf | Other, Choice({1: Case(Leaf, const=1), 2: Other})]

    refused(Bad, "const", "every alternative of the body needs a const (use Case)")


# -- options ---------------------------------------------------------------------------------

HEAD: dict[str, Any] = {
    "const": ClassVar[Annotated[int, TagConstMark(Int(1))]],
    "cmd": ClassVar[Annotated[int, TagMark(Int(1))]],
    "bits": ClassVar[Annotated[int, OptionBitsMark(Int(2))]],
    "area": ClassVar[Annotated[int, OptionsLengthMark(Int(2))]],
    "length": ClassVar[Annotated[int, LengthMark(Int(4))]],
}
TAIL: dict[str, Any] = {
    "n": Annotated[U32LE | None, Option(1, (Leaf,))],
    "o": Annotated[Leaf | None, Option(2, (Leaf,))],
    "more": Unknown,
    "body": Annotated[Leaf, Choice({1: Case(Leaf, const=1)})],
}


def options(**changes: Any) -> type[Layout]:
    class Bad(Layout, kw_only=True):
        n: U8
        o: U8
        more: U8
        body: U8

    hints = {name: hint for name, hint in (HEAD | TAIL | changes).items() if hint is not None}
    Bad.__annotations__.clear()
    Bad.__annotations__.update(hints)
    return Bad


def test_options_that_are_right_pass() -> None:
    assert build(options()).min_size == 11


@pytest.mark.parametrize(
    ("missing", "kind"),
    [
        ("const", "TagConst"),
        ("bits", "OptionBits"),
        ("area", "OptionsLength"),
        ("length", "Length"),
    ],
)
def test_options_need_a_whole_head(missing: str, kind: str) -> None:
    refused(options(**{missing: None}), "more", f"options need a {kind} in the head")


@pytest.mark.parametrize(
    ("changes", "name", "why"),
    [
        (
            {"bits": ClassVar[Annotated[int, OptionBitsMark(Int(4))]]},
            "bits",
            "the bitmap of options has two bytes, big-endian",
        ),
        (
            {"more": Annotated[Any, UnknownOptions(Int(1), critical=0)]},
            "more",
            "the length of an option has two bytes, big-endian",
        ),
        (
            {"o": Annotated[Leaf | None, Option(1, (Leaf,))]},
            "o",
            "0x1 is not a single unused bit of 16",
        ),
        (
            {"o": Annotated[Leaf | None, Option(3, (Leaf,))]},
            "o",
            "0x3 is not a single unused bit of 16",
        ),
        (
            {"o": Annotated[Leaf | None, Option(0x10000, (Leaf,))]},
            "o",
            "0x10000 is not a single unused bit of 16",
        ),
        (
            {"o": Annotated[Bounded | None, Option(2, (Leaf,))]},
            "o",
            "an option has a fixed size",
        ),
        (
            {"o": Annotated[int | None, Int(7), Option(2, (Leaf,))]},
            "o",
            "an integer has 1, 2, 3, 4 or 8 bytes, not 7",
        ),
    ],
)
def test_options_that_cannot_be(changes: dict[str, Any], name: str, why: str) -> None:
    refused(options(**changes), name, why)


# -- protobuf --------------------------------------------------------------------------------


def boxed(hint: Any) -> type[Layout]:
    class Bad(Protobuf):
        n: Annotated[PbInt32, Number(1)] = 0

    Bad.__annotations__["n"] = hint
    return Bad


@pytest.mark.parametrize("number", [0, -1, 1 << 29])
def test_a_protobuf_number_is_in_range(number: int) -> None:
    refused(
        boxed(Annotated[PbInt32, Number(number)]),
        "n",
        f"invalid protobuf field number {number}",
    )


def test_a_protobuf_number_is_used_once() -> None:
    class Bad(Protobuf):
        n: Annotated[PbInt32, Number(1)] = 0
        o: Annotated[PbInt32, Number(1)] = 0

    refused(Bad, "o", "duplicate field number 1")


@pytest.mark.parametrize(
    "hint",
    [
        U16,
        U32LE | None,
        F32LE,
        PbInt32,
        Boxed | None,
        Annotated[tuple[Boxed, ...], ToEnd()],
    ],
)
def test_what_has_a_protobuf_form(hint: Any) -> None:
    if hint is U16:
        refused(boxed(Annotated[hint, Number(1)]), "n", f"{m.Int(2)!r} has no protobuf form")
    else:
        assert build(boxed(Annotated[hint, Number(1)])).protobuf


@pytest.mark.parametrize("hint", [Bytes16Fixed, Leaf, Annotated[int, Varint(16)]])
def test_what_has_no_protobuf_form(hint: Any) -> None:
    with pytest.raises(DeclarationError, match="has no protobuf form"):
        build(boxed(Annotated[hint, Number(1)]))


def test_a_protobuf_layout_has_fields_alone() -> None:
    class Bad(Protobuf):
        magic: ClassVar[Annotated[bytes, Magic(b"x")]]

    class Worse(Protobuf):
        bits: Annotated[int, BitWidth(8)] = 0

    refused(Bad, "magic", "a protobuf layout may only have numbered fields")
    refused(Worse, "bits", "a protobuf layout may only have numbered fields")


def test_protobuf_names_are_open() -> None:
    hint = Annotated[PbInt32, Number(1), Names(Colour, closed=True)]
    refused(boxed(hint), "n", "closed names belong on a single number outside protobuf")
