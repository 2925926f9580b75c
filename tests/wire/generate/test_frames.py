"""Frames in a stream: early refusals, waiting, tags, limits, and bodies that delimit themselves."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, ClassVar

import pytest

from wirelake.wire import DecodeError, EncodeError, Layout, NeedMore, Protobuf, Protocol
from wirelake.wire.declare import DeclarationError
from wirelake.wire.generate.frames import frame_kind
from wirelake.wire.types import (
    F32,
    I16LE,
    U8,
    U16,
    Bits3,
    Bits7,
    BitWidth,
    Boolean,
    Bytes4Fixed,
    Case,
    Choice,
    Flag,
    Int,
    Length16,
    LengthMark,
    Magic,
    Names,
    Number,
    Option,
    OptionBitsMark,
    OptionsLengthMark,
    PbInt32,
    Present,
    Rest,
    String8,
    Tag8,
    Tag16,
    TagBits2,
    TagBits4,
    TagConstMark,
    TagMark,
    UnknownOptions,
    VarU32,
    When,
)


class Leaf(Layout):
    n: U8


class Text(Layout):
    text: String8


class Nothing(Layout):
    pass


class Boxed(Protobuf):
    n: Annotated[PbInt32, Number(1)] = 0


# -- a head with a length --------------------------------------------------------------------


class Plain(Layout):
    """Magic, length, fields; no body."""

    magic: ClassVar[Annotated[bytes, Magic(b"PL")]]
    version: ClassVar[Annotated[bytes, Magic(b"\x02", code="bad_version")]]
    flags: Annotated[int, BitWidth(8)]
    more: Annotated[int, BitWidth(16)]
    ratio: F32
    ok: Boolean
    length: ClassVar[Annotated[int, LengthMark(Int(3), minimum=2, limit=20)]]
    text: String8
    rest: Rest


class Directed(Layout):
    """The tag behind the length, its meaning by direction."""

    length: ClassVar[Length16]
    type: ClassVar[Tag8]
    body: Annotated[
        Leaf | Text | Nothing, Choice(c2s={1: Leaf, 3: Nothing}, s2c={1: Text, 3: Nothing})
    ]


class Loose(Layout):
    """A tag in the head, a text between head and body."""

    type: ClassVar[Tag16]
    length: ClassVar[Annotated[int, LengthMark(Int(4, order="little"))]]
    has: ClassVar[Present]
    spare: Bits7
    name: String8
    maybe: Annotated[U16 | None, When("has")] = None
    body: Annotated[Leaf | Boxed, Choice({1: Leaf, 2: Boxed})] = Leaf(n=0)


class Named(Layout):
    """A tag behind the length, a text between tag and body, a number between text and body."""

    length: ClassVar[Length16]
    seq: U16
    type: ClassVar[Tag8]
    name: String8
    after: U16
    body: Annotated[Leaf | Nothing, Choice({1: Leaf, 2: Nothing})]


class Bits(Layout):
    """Tag bits in two places of a group, fixed fields before and behind the length."""

    seq: I16LE
    length: ClassVar[Length16]
    top: Bits3
    mark: ClassVar[TagBits2]
    on: Flag
    sub: ClassVar[TagBits2]
    key: Bytes4Fixed
    body: Annotated[Leaf | Text, Choice({0: Leaf, 0b10_0_01: Text})]


class Kind(IntEnum):
    A = 1


class Envelope(Layout):
    length: ClassVar[Annotated[int, LengthMark(Int(2), limit=9)]]
    kind: Annotated[U8, Names(Kind, closed=True)]
    rest: Rest


class Ping(Layout):
    zero: ClassVar[Annotated[bytes, Magic(b"\0\0", code="bad_length")]]


class Packet(Layout, kw_only=True):
    """A head whose bodies delimit themselves."""

    magic: ClassVar[Annotated[bytes, Magic(b"pkt")]]
    spare: Annotated[int, BitWidth(4)] = 0
    type: ClassVar[TagBits4]
    body: Annotated[Envelope | Ping | Nothing, Choice({0: Envelope, 1: Ping, 2: Nothing})]


class Square(Layout):
    """A frame of fixed size."""

    magic: ClassVar[Annotated[bytes, Magic(b"sq")]]
    x: U8
    y: U16


class Alive(Layout):
    """A length of nothing."""

    magic: ClassVar[Annotated[bytes, Magic(b"+")]]
    length: ClassVar[Length16]


class Awkward(Layout):
    """Names that generated code might want for itself, in a head."""

    const: U8
    decode: U8
    rules: U8
    limit: ClassVar[Length16]
    stop: U8
    tag: ClassVar[Tag8]
    entry: U8
    write: U8
    body_: U8
    value: Annotated[Leaf | Text, Choice({1: Leaf, 2: Text})]


def protocol(frame: type[Layout]) -> Protocol:
    name = f"throwaway-{frame.__name__.lower()}"
    return Protocol(name=name, title="A frame to cut", frame=frame)


PLAIN, DIRECTED = protocol(Plain), protocol(Directed)
LOOSE, BITS, ALIVE, NAMED = protocol(Loose), protocol(Bits), protocol(Alive), protocol(Named)
PACKET, SQUARE, AWKWARD = protocol(Packet), protocol(Square), protocol(Awkward)

SAMPLES: list[tuple[Protocol, Any, bytes, Any]] = [
    (
        PLAIN,
        Plain(flags=7, more=8, ratio=1.5, ok=True, text="a", rest=b"bc"),
        b"PL\x02\x07\0\x08\x3f\xc0\0\0\1" + b"\0\0\4" + b"\1abc",
        None,
    ),
    (DIRECTED, Leaf(n=9), b"\0\2\1\x09", "c2s"),
    (DIRECTED, Text(text="t"), b"\0\3\1\1t", "s2c"),
    (DIRECTED, Nothing(), b"\0\1\3", "s2c"),
    (
        LOOSE,
        Loose(spare=0, name="nm", maybe=5, body=Leaf(n=9)),
        b"\0\1" + b"\7\0\0\0" + b"\x80\2nm\0\5\x09",
        None,
    ),
    (LOOSE, Loose(spare=1, name="", body=Boxed(n=1)), b"\0\2" + b"\4\0\0\0" + b"\1\0\x08\1", None),
    (
        BITS,
        Bits(seq=-2, top=5, on=True, key=b"abcd", body=Leaf(n=1)),
        b"\xfe\xff\0\6\xa4abcd\1",
        None,
    ),
    (
        BITS,
        Bits(seq=1, top=0, on=False, key=b"abcd", body=Text(text="")),
        b"\1\0\0\6\x11abcd\0",
        None,
    ),
    (PACKET, Packet(spare=3, body=Envelope(kind=1, rest=b"r")), b"pkt\x30\0\2\1r", None),
    (PACKET, Packet(body=Ping()), b"pkt\1\0\0", None),
    (PACKET, Packet(body=Nothing()), b"pkt\2", None),
    (SQUARE, Square(x=1, y=2), b"sq\1\0\2", None),
    (ALIVE, Alive(), b"+\0\0", None),
    (NAMED, Named(seq=7, name="n", after=8, body=Leaf(n=9)), b"\0\x08\0\7\1\1n\0\x08\x09", None),
    (NAMED, Named(seq=7, name="", after=8, body=Nothing()), b"\0\6\0\7\2\0\0\x08", None),
    (
        AWKWARD,
        Awkward(const=1, decode=2, rules=3, stop=4, entry=5, write=6, body_=7, value=Leaf(n=8)),
        b"\1\2\3\0\6\4\1\5\6\7\x08",
        None,
    ),
]


def refused(protocol: Protocol, data: bytes, **how: Any) -> tuple[str, str, int | None]:
    """Code, field and offset, the same in the middle of a buffer and while scanning or not."""
    with pytest.raises(DecodeError) as caught:
        protocol.decode(data, **how)
    with pytest.raises(DecodeError) as inside:
        protocol.decode(b"??" + data, 2, **how)
    assert inside.value.offset is not None
    assert inside.value.offset - 2 == caught.value.offset
    return caught.value.code, caught.value.field, caught.value.offset


@pytest.mark.parametrize(("protocol", "value", "data", "direction"), SAMPLES)
def test_there_and_back(protocol: Protocol, value: Any, data: bytes, direction: Any) -> None:
    assert protocol.encode(value) == data
    assert protocol.decode(data, direction=direction) == (value, len(data))
    assert protocol.decode(b"??" + data + b"??", 2, direction=direction) == (value, 2 + len(data))
    assert protocol.scan(data + b"??") == len(data)


@pytest.mark.parametrize(("protocol", "value", "data", "direction"), SAMPLES)
def test_a_prefix_asks_for_more_but_not_too_much(
    protocol: Protocol, value: Any, data: bytes, direction: Any
) -> None:
    assert value is not None
    for stop in range(len(data)):
        for ask in (protocol.scan, protocol.decode):
            how = {"direction": direction} if ask == protocol.decode else {}
            with pytest.raises(NeedMore) as caught:
                ask(data[:stop], **how)
            assert 1 <= caught.value.need <= len(data) - stop


# -- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 14])
def test_a_wrong_magic_shows_at_its_first_byte(size: int) -> None:
    assert refused(PLAIN, b"Q" * size) == ("bad_magic", "plain.magic", 0)
    assert refused(PACKET, b"Q" * size) == ("bad_magic", "packet.magic", 0)
    assert refused(SQUARE, b"Q" * size) == ("bad_magic", "square.magic", 0)


@pytest.mark.parametrize("size", [3, 4, 14])
def test_a_wrong_version_shows_before_the_head_is_whole(size: int) -> None:
    data = (b"PL\x01" + bytes(20))[:size]
    assert refused(PLAIN, data) == ("bad_version", "plain.version", 2)


def test_a_strict_boolean_of_the_head() -> None:
    data = b"PL\x02" + bytes(7) + b"\2" + b"\0\0\2" + b"\0\0"
    assert refused(PLAIN, data) == ("bad_bool", "plain.ok", 10)


HEAD = b"PL\x02" + bytes(8)


def test_a_length_is_judged_before_its_bytes_come() -> None:
    assert refused(PLAIN, HEAD + b"\0\0\1") == ("bad_length", "plain.length", 11)
    assert refused(PLAIN, HEAD + b"\0\0\x15") == ("too_large", "plain.length", 11)
    assert refused(PLAIN, HEAD + b"\0\0\x05", limit=4) == ("too_large", "plain.length", 11)
    with pytest.raises(NeedMore):
        PLAIN.decode(HEAD + b"\0\0\x15", limit=21)
    assert refused(DIRECTED, b"\0\0", direction="c2s") == ("bad_length", "directed.length", 0)
    assert refused(BITS, b"\0\0\0\4") == ("bad_length", "bits.length", 2)


def test_a_limit_counts_where_the_declaration_has_none() -> None:
    assert refused(DIRECTED, b"\0\x09", direction="c2s", limit=8) == (
        "too_large",
        "directed.length",
        0,
    )
    with pytest.raises(DecodeError):
        DIRECTED.scan(b"\0\x09", limit=8)


@pytest.mark.parametrize("direction", ["c2s", "s2c"])
def test_an_unknown_type(direction: Any) -> None:
    assert refused(DIRECTED, b"\0\1\2", direction=direction) == (
        "unknown_type",
        "directed.type",
        2,
    )


def test_an_unknown_type_before_parts_of_any_size() -> None:
    data = b"\0\7" + b"\6\0\0\0" + b"\x80\2nm\0\5"
    assert refused(LOOSE, data) == ("unknown_type", "loose.type", 0)
    assert refused(NAMED, b"\0\x08\0\7\5\1n\0\x08\x09") == ("unknown_type", "named.type", 4)
    assert refused(NAMED, b"\0\7\0\7\1\2n\0\x08") == ("short", "named.after", 8)
    assert refused(NAMED, b"\0\4\0\7\1\1") == ("bad_length", "named.length", 0)
    assert refused(BITS, b"\1\0\0\5\x08abcd") == ("unknown_type", "bits.mark", 4)
    assert refused(PACKET, b"pkt\x03") == ("unknown_type", "packet.type", 3)


def test_bytes_left_over_inside_the_frame() -> None:
    assert refused(DIRECTED, b"\0\3\1\1\2", direction="c2s") == ("trailing_bytes", "directed", 4)
    assert refused(DIRECTED, b"\0\2\3\1", direction="s2c") == ("trailing_bytes", "directed", 3)


def test_nothing_means_nothing() -> None:
    assert refused(ALIVE, b"+\0\1?") == ("trailing_bytes", "alive", 3)
    assert ALIVE.decode(b"+\0\0").message is ALIVE.decode(b"+\0\0").message


def test_a_body_does_not_reach_behind_its_frame() -> None:
    assert refused(DIRECTED, b"\0\1\1\x09", direction="c2s") == ("short", "leaf.n", 3)
    assert refused(DIRECTED, b"\0\3\1\2ab", direction="s2c") == ("length_overrun", "text.text", 4)
    data = b"\0\1" + b"\3\0\0\0" + b"\0\2nm" + b"\x09"
    assert refused(LOOSE, data) == ("length_overrun", "loose.name", 8)


def test_self_delimiting_bodies_follow_the_same_rules() -> None:
    assert refused(PACKET, b"pkt\0\0\x0a") == ("too_large", "envelope.length", 4)
    assert refused(PACKET, b"pkt\0\0\2", limit=1) == ("too_large", "envelope.length", 4)
    assert refused(PACKET, b"pkt\0\0\1\7") == ("reserved_value", "envelope.kind", 6)
    assert refused(PACKET, b"pkt\1\1") == ("bad_length", "ping.zero", 4)
    assert refused(PACKET, b"pkt\1\0\1") == ("bad_length", "ping.zero", 4)


def test_scanning_looks_at_heads_alone() -> None:
    assert DIRECTED.scan(b"\0\1\xff") == 3
    assert PACKET.scan(b"pkt\0\0\1\7") == 7
    for data in (b"pkt\x03", b"Q", b"pkt\0\xff\xff"):
        with pytest.raises(DecodeError):
            PACKET.scan(data)


def test_an_encoder_knows_its_bodies() -> None:
    with pytest.raises(EncodeError) as caught:
        DIRECTED.encode(Ping())
    assert (caught.value.code, caught.value.field) == ("bad_value", "directed.body")
    with pytest.raises(EncodeError) as caught:
        PACKET.encode(Packet(body=Leaf(n=1)))  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.field) == ("bad_value", "packet.body")


def test_an_encoder_refuses_sizes_beyond_the_length_field() -> None:
    with pytest.raises(EncodeError) as caught:
        PACKET.encode(Packet(body=Envelope(kind=1, rest=bytes(65535))))
    assert (caught.value.code, caught.value.field) == ("too_large", "envelope.length")
    big = Plain(flags=0, more=0, ratio=0, ok=True, text="", rest=bytes(1 << 24))
    with pytest.raises(EncodeError) as caught:
        PLAIN.encode(big)
    assert (caught.value.code, caught.value.field) == ("too_large", "plain.length")


# -- what cannot be a frame ------------------------------------------------------------------


class Endless(Layout):
    rest: Rest


class Early(Layout):
    n: VarU32
    length: ClassVar[Length16]
    rest: Rest


class Switched(Layout):
    has: ClassVar[Present]
    spare: Bits7
    n: Annotated[U8 | None, When("has")]
    length: ClassVar[Length16]
    rest: Rest


class TwoWays(Layout):
    type: ClassVar[Tag8]
    body: Annotated[Leaf | Nothing, Choice(c2s={1: Leaf}, s2c={1: Nothing})]


class Unbounded(Layout):
    type: ClassVar[Tag8]
    body: Annotated[Leaf | Text, Choice({1: Leaf, 2: Text})]


class Small(Layout):
    length: ClassVar[Annotated[int, LengthMark(Int(2), limit=5)]]
    rest: Rest


class Unequal(Layout):
    type: ClassVar[Tag8]
    body: Annotated[Small | Envelope, Choice({1: Small, 2: Envelope})]


class Inside(Layout):
    """A body that has a body: only where the outer frame has no length."""

    n: U8
    type: ClassVar[Tag8]
    body: Annotated[Leaf, Choice({1: Leaf})]


class Deep(Layout):
    length: ClassVar[Length16]
    type: ClassVar[Tag8]
    body: Annotated[Inside, Choice({1: Inside})]


class Thin(Layout):
    type: ClassVar[Tag8]
    body: Annotated[Leaf, Choice({1: Leaf})]


class Around(Layout):
    type: ClassVar[Tag8]
    body: Annotated[Thin, Choice({1: Thin})]


class Mixed(Layout):
    const: ClassVar[Annotated[int, TagConstMark(Int(1))]]
    cmd: ClassVar[Annotated[int, TagMark(Int(1))]]
    bits: ClassVar[Annotated[int, OptionBitsMark(Int(2))]]
    area: ClassVar[Annotated[int, OptionsLengthMark(Int(2))]]
    length: ClassVar[Length16]
    late: U8
    opt: Annotated[Leaf | None, Option(1, (Leaf,))]
    unknown: Annotated[tuple[tuple[int, bytes], ...], UnknownOptions(Int(2), critical=0)]
    body: Annotated[Leaf, Choice({1: Case(Leaf, const=1)})]


class MixedWays(Layout):
    const: ClassVar[Annotated[int, TagConstMark(Int(1))]]
    cmd: ClassVar[Annotated[int, TagMark(Int(1))]]
    bits: ClassVar[Annotated[int, OptionBitsMark(Int(2))]]
    area: ClassVar[Annotated[int, OptionsLengthMark(Int(2))]]
    length: ClassVar[Length16]
    opt: Annotated[Leaf | None, Option(1, (Leaf,))]
    unknown: Annotated[tuple[tuple[int, bytes], ...], UnknownOptions(Int(2), critical=0)]
    body: Annotated[Leaf, Choice(c2s={1: Case(Leaf, const=1)})]


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (Endless, "Endless: a frame needs a length, rows up to an end row, or a fixed size"),
        (Boxed, "Boxed: a frame needs a length, rows up to an end row, or a fixed size"),
        (Unbounded, "Text: a frame needs a length, rows up to an end row, or a fixed size"),
        (Nothing, "Nothing: a frame needs at least one byte"),
        (Early, "Early.n: fields of the head need a fixed size"),
        (Switched, "Switched.n: fields of the head need a fixed size"),
        (TwoWays, "TwoWays: a frame whose bodies depend on the direction needs a length"),
        (Unequal, "Unequal: its bodies must have the same limit"),
        (Around, "Around.body: thin has only a body; use that body here"),
        (Deep, "Inside.type: belongs in the head of a frame"),
        (Mixed, "Mixed.late: with options, only these and the body may follow the length"),
        (MixedWays, "MixedWays.body: with options, bodies must be the same in both directions"),
    ],
)
def test_what_cannot_be_a_frame(frame: type[Layout], why: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        protocol(frame).codec()
    assert str(caught.value) == why


class Nest(Layout):
    """A body that delimits itself by its own body."""

    magic: ClassVar[Annotated[bytes, Magic(b"N")]]
    type: ClassVar[Tag8]
    body: Annotated[Inside, Choice({7: Inside})]


def test_bodies_in_bodies() -> None:
    nest = protocol(Nest)
    data = b"N\7\5\1\x09"
    assert nest.decode(data) == (Inside(n=5, body=Leaf(n=9)), 5)
    assert nest.encode(Inside(n=5, body=Leaf(n=9))) == data
    assert nest.scan(data) == 5
    for stop in range(5):
        with pytest.raises(NeedMore):
            nest.decode(data[:stop])


@pytest.mark.parametrize(
    ("frame", "kind"),
    [(PLAIN, "length"), (PACKET, "body"), (SQUARE, "fixed")],
)
def test_kinds_of_frames(frame: Protocol, kind: str) -> None:
    assert frame_kind(frame.model()) == kind
