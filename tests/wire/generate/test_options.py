"""The option area: known ones, unknown ones between them, and heads that contradict themselves."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, ClassVar

import pytest

from wirelake.wire import DecodeError, EncodeError, Layout, NeedMore, Protocol
from wirelake.wire.types import (
    I32LE,
    U8,
    U16,
    U32,
    Case,
    Choice,
    Fixed,
    Int,
    LengthMark,
    Magic,
    Names,
    Option,
    OptionBitsMark,
    OptionsLengthMark,
    Rest,
    TagConstMark,
    TagMark,
    UnknownOptions,
)


class Cmd(IntEnum):
    OPEN = 1
    DATA = 2
    LOOSE = 3


class Pair(Layout):
    x: U8
    y: U16


class Open(Layout):
    key: Annotated[bytes, Fixed(2)]


class Data(Layout):
    n: U8
    rest: Rest


class Frame(Layout, kw_only=True):
    """Names in the head are ones that generated code would like to have."""

    const: ClassVar[Annotated[int, TagConstMark(Int(1))]]
    version: ClassVar[Annotated[bytes, Magic(b"\x05", code="bad_version")]]
    type: ClassVar[Annotated[int, TagMark(Int(2)), Names(Cmd)]]
    bits: ClassVar[Annotated[int, OptionBitsMark(Int(2))]]
    options: ClassVar[Annotated[int, OptionsLengthMark(Int(2))]]
    seq: U16
    length: ClassVar[Annotated[int, LengthMark(Int(2), limit=100)]]
    pair: Annotated[Pair | None, Option(0x0004, (Open, Data))] = None
    raw: Annotated[bytes | None, Fixed(3), Option(0x0001, (Data,))] = None
    big: Annotated[U32 | None, Option(0x0020, (Data,))] = None
    little: Annotated[I32LE | None, Option(0x0200, (Open,))] = None
    found: Annotated[tuple[tuple[int, bytes], ...], UnknownOptions(Int(2), critical=0xFF00)] = ()
    body: Annotated[
        Open | Data,
        Choice(
            {
                Cmd.OPEN: Case(Open, const=0x70, limit=20),
                Cmd.DATA: Case(Data, const=0x71),
            },
            exact=True,
        ),
    ]


class Bare(Layout, kw_only=True):
    """No known options at all, and bodies of any size."""

    magic: ClassVar[Annotated[int, TagConstMark(Int(1))]]
    cmd: ClassVar[Annotated[int, TagMark(Int(1))]]
    bitmap: ClassVar[Annotated[int, OptionBitsMark(Int(2))]]
    area: ClassVar[Annotated[int, OptionsLengthMark(Int(1))]]
    length: ClassVar[Annotated[int, LengthMark(Int(4))]]
    more: Annotated[tuple[tuple[int, bytes], ...], UnknownOptions(Int(2), critical=0)] = ()
    body: Annotated[Open | Data, Choice({1: Case(Open, const=1), 2: Case(Data, const=1)})]


PROTOCOL = Protocol(name="throwaway-options", title="A head with options", frame=Frame)
BARE = Protocol(name="throwaway-bare", title="A head with unknown options", frame=Bare)
HEAD = 12


def frame(  # the head by hand, so that it can be wrong
    *,
    const: int = 0x71,
    version: int = 5,
    cmd: int = 2,
    bits: int = 0,
    options: bytes = b"",
    seq: int = 9,
    body: bytes = b"\1",
    size: int | None = None,
    length: int | None = None,
) -> bytes:
    size = len(options) if size is None else size
    length = len(options) + len(body) if length is None else length
    numbers = ((const, 1), (version, 1), (cmd, 2), (bits, 2), (size, 2), (seq, 2), (length, 2))
    return b"".join(number.to_bytes(n, "big") for number, n in numbers) + options + body


def refused(data: bytes, **how: Any) -> tuple[str, str, int | None]:
    with pytest.raises(DecodeError) as caught:
        PROTOCOL.decode(data, **how)
    with pytest.raises(DecodeError) as inside:
        PROTOCOL.decode(b"??" + data + b"?", 2, **how)
    assert inside.value.offset == (caught.value.offset or 0) + 2
    return caught.value.code, caught.value.field, caught.value.offset


def unwritable(value: Any, protocol: Protocol = PROTOCOL) -> tuple[str, str]:
    with pytest.raises(EncodeError) as caught:
        protocol.encode(value)
    return caught.value.code, caught.value.field


SAMPLES = [
    (Frame(seq=9, body=Data(n=1, rest=b"")), frame()),
    (
        Frame(seq=9, raw=b"abc", body=Data(n=1, rest=b"r")),
        frame(bits=1, options=b"\0\3abc", body=b"\1r"),
    ),
    (
        Frame(seq=9, pair=Pair(x=1, y=2), little=-2, body=Open(key=b"kk")),
        frame(
            const=0x70,
            cmd=1,
            bits=0x0204,
            options=b"\0\3\1\0\2\0\4\xfe\xff\xff\xff",
            body=b"kk",
        ),
    ),
    (
        Frame(
            seq=9,
            pair=Pair(x=1, y=2),
            raw=b"abc",
            big=7,
            found=((0x0002, b""), (0x0008, b"u"), (0x0080, b"vw")),
            body=Data(n=1, rest=b""),
        ),
        frame(
            bits=0x00AF,
            options=b"\0\3abc" + b"\0\0" + b"\0\3\1\0\2" + b"\0\1u" + b"\0\4\0\0\0\7" + b"\0\2vw",
        ),
    ),
]


@pytest.mark.parametrize(("value", "data"), SAMPLES)
def test_there_and_back(value: Frame, data: bytes) -> None:
    assert PROTOCOL.encode(value) == data
    assert PROTOCOL.decode(data) == (value, len(data))
    assert PROTOCOL.decode(b"??" + data + b"?", 2) == (value, 2 + len(data))
    assert PROTOCOL.scan(data) == len(data)
    for stop in range(len(data)):
        with pytest.raises(NeedMore) as caught:
            PROTOCOL.decode(data[:stop])
        assert 1 <= caught.value.need <= len(data) - stop


@pytest.mark.parametrize("size", [1, 5, 12])
def test_the_first_byte_is_checked_at_once(size: int) -> None:
    assert refused(frame(const=0x72)[:size]) == ("bad_magic", "frame.const", 0)
    if size > 1:
        assert refused(frame(version=4)[:size]) == ("bad_version", "frame.version", 1)


@pytest.mark.parametrize(
    ("changes", "code", "field", "offset"),
    [
        ({"cmd": 3}, "unknown_type", "type", 2),
        ({"const": 0x70}, "magic_mismatch", "const", 0),
        ({"bits": 1, "size": 0}, "bad_header", "options", 6),
        ({"bits": 0, "size": 1}, "bad_header", "options", 6),
        ({"bits": 1, "size": 2, "length": 1}, "bad_header", "options", 6),
        ({"bits": 0x0100, "options": b"\0\0"}, "bad_option", "bits", 4),
        ({"bits": 0x0200, "options": b"\0\4abcd"}, "bad_option", "bits", 4),
        (
            {"cmd": 1, "const": 0x70, "bits": 1, "options": b"\0\3abc", "body": b"kk"},
            "bad_option",
            "bits",
            4,
        ),
        ({"length": 101}, "too_large", "length", 10),
        ({"cmd": 1, "const": 0x70, "length": 21}, "too_large", "length", 10),
        ({"length": 0}, "bad_length", "length", 10),
        ({"cmd": 1, "const": 0x70, "body": b"k"}, "bad_length", "length", 10),
        ({"cmd": 1, "const": 0x70, "body": b"kkk"}, "bad_length", "length", 10),
    ],
)
def test_a_head_is_judged_before_its_bytes_come(
    changes: dict[str, Any], code: str, field: str, offset: int
) -> None:
    data = frame(**changes)
    assert refused(data) == (code, f"frame.{field}", offset)
    assert refused(data[:HEAD]) == (code, f"frame.{field}", offset)
    with pytest.raises(DecodeError) as caught:
        PROTOCOL.scan(data[:HEAD])
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("bits", "options", "code", "field", "offset"),
    [
        (1, b"\0\2ab", "bad_option", "raw", 0),
        (1, b"\0\4abcd", "bad_option", "raw", 0),
        (1, b"\0\3ab", "bad_header", "raw", 0),
        (1, b"\0", "bad_header", "raw", 0),
        (1, b"\0\3abc?", "bad_header", "options", 5),
        (0x0004, b"\0\2ab", "bad_option", "pair", 0),
        (0x0002, b"\0\3ab", "bad_header", "found", 0),
        (0x0002, b"\0", "bad_header", "found", 0),
        (0x0003, b"\0\3abc", "bad_header", "found", 5),
        (0x0021, b"\0\3abc\0\3abc", "bad_option", "big", 5),
    ],
)
def test_an_area_that_is_wrong(
    bits: int, options: bytes, code: str, field: str, offset: int
) -> None:
    data = frame(bits=bits, options=options)
    assert refused(data) == (code, f"frame.{field}", HEAD + offset)


def test_a_limit_of_the_caller() -> None:
    assert refused(frame(), limit=0) == ("too_large", "frame.length", 10)
    with pytest.raises(NeedMore):
        PROTOCOL.decode(frame(length=101), limit=101)


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"raw": b"ab"}, "bad_length", "frame.raw"),
        ({"big": -1}, "int_range", "frame.big"),
        ({"big": 1 << 32}, "int_range", "frame.big"),
        ({"little": 0}, "bad_option", "frame.little"),
        ({"found": ((0x0004, b""),)}, "bad_option", "unknown_options"),
        ({"found": ((0x0100, b""),)}, "bad_option", "unknown_options"),
        ({"found": ((0x0003, b""),)}, "bad_option", "unknown_options"),
        ({"found": ((2, b""), (2, b""))}, "bad_option", "unknown_options"),
        ({"found": ((2, bytes(65536)),)}, "too_large", "options"),
        ({"found": ((2, bytes(65535)),)}, "too_large", "frame.options"),
        ({"pair": Pair(x=256, y=0)}, "int_range", "pair.x"),
        ({"seq": 65536}, "int_range", "frame.seq"),
        ({"body": Pair(x=1, y=1)}, "bad_value", "frame.body"),
    ],
)
def test_what_cannot_be_written(changes: dict[str, Any], code: str, field: str) -> None:
    fields: dict[str, Any] = {"seq": 9, "body": Data(n=1, rest=b"")}
    value = Frame(**fields | changes)
    assert unwritable(value) == (code, field)


def test_a_signed_option_does_not_fit() -> None:
    value = Frame(seq=9, little=1 << 31, body=Open(key=b"kk"))
    assert unwritable(value) == ("int_range", "frame.little")


def test_unknown_options_alone() -> None:
    value = Bare(more=((0x0001, b"a"), (0x8000, b"")), body=Open(key=b"kk"))
    data = b"\1\1\x80\1\5\0\0\0\7" + b"\0\1a\0\0" + b"kk"
    assert BARE.encode(value) == data
    assert BARE.decode(data) == (value, len(data))
    bare = Bare(body=Data(n=1, rest=b"r"))
    assert BARE.decode(BARE.encode(bare)).message == bare


def test_bodies_that_need_not_be_exact_are_judged_by_their_bytes() -> None:
    with pytest.raises(DecodeError) as caught:
        BARE.decode(b"\1\1\0\0\0\0\0\0\1k")
    assert (caught.value.code, caught.value.field) == ("short", "open.key")
    with pytest.raises(DecodeError) as caught:
        BARE.decode(b"\1\1\0\0\0\0\0\0\3kkk")
    assert (caught.value.code, caught.value.field) == ("trailing_bytes", "bare")
