"""Rows up to an end row: known, opaque and broken ones, and limits."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from wirelake.wire import DecodeError, EncodeError, Layout, NeedMore, Protocol
from wirelake.wire.types import U8, U16, Int, Rest, RowsMark, String8, VarU32


class Point(Layout):
    x: U8
    y: U16


class Text(Layout):
    text: String8


class Blob(Layout):
    id: VarU32
    data: Rest


class Mark(Layout):
    """A row without content."""


class Opaque(Layout):
    type: int
    data: bytes = b""


class Broken(Layout):
    type: int
    data: bytes
    code: str
    field: str
    offset: int


class Message(Layout):
    rows: Annotated[
        tuple[Point | Text | Blob | Mark | Opaque | Broken, ...],
        RowsMark(
            tag=Int(1),
            size=Int(3),
            end=0xFE,
            kinds={1: Point, 2: Text, 3: Blob, 4: Mark},
            opaque=Opaque,
            broken=Broken,
        ),
    ] = ()


PROTOCOL = Protocol(name="throwaway-rows", title="A message of rows", frame=Message)
END = b"\xfe\0\0\0"


def row(tag: int, data: bytes) -> bytes:
    return bytes([tag]) + len(data).to_bytes(3, "big") + data


def decode(data: bytes, **how: Any) -> Any:
    """The rows, wherever the message stands in its buffer."""
    message, stop = PROTOCOL.decode(data, **how)
    assert stop == len(data)
    assert PROTOCOL.decode(b"??" + data + b"\xff" * 9, 2, **how) == (message, 2 + len(data))
    assert PROTOCOL.scan(data + b"?", **how) == len(data)
    return message.rows


def refused(data: bytes, **how: Any) -> tuple[str, str, int | None]:
    with pytest.raises(DecodeError) as caught:
        PROTOCOL.decode(data, **how)
    with pytest.raises(DecodeError) as inside:
        PROTOCOL.decode(b"??" + data, 2, **how)
    assert inside.value.offset == (caught.value.offset or 0) + 2
    return caught.value.code, caught.value.field, caught.value.offset


ROWS = (
    Point(x=1, y=2),
    Text(text="é"),
    Blob(id=300, data=b"rest"),
    Mark(),
    Opaque(type=0x80, data=b"app"),
    Opaque(type=0, data=b""),
    Point(x=3, y=4),
)
DATA = (
    row(1, b"\1\0\2")
    + row(2, b"\2\xc3\xa9")
    + row(3, b"\xac\2rest")
    + row(4, b"")
    + row(0x80, b"app")
    + row(0, b"")
    + row(1, b"\3\0\4")
    + END
)


def test_there_and_back() -> None:
    assert decode(DATA) == ROWS
    assert PROTOCOL.encode(Message(rows=ROWS)) == DATA


def test_a_message_may_be_empty() -> None:
    assert decode(END) == ()
    assert PROTOCOL.encode(Message()) == END


def test_a_prefix_asks_for_what_is_missing_of_its_row() -> None:
    for stop in range(len(DATA)):
        for ask in (PROTOCOL.decode, PROTOCOL.scan):
            with pytest.raises(NeedMore) as caught:
                ask(DATA[:stop])
            assert 1 <= caught.value.need <= len(DATA) - stop
    with pytest.raises(NeedMore) as caught:
        PROTOCOL.decode(b"\1\0\1\0")
    assert caught.value.need == 256


@pytest.mark.parametrize(
    ("tag", "data", "code", "field", "offset"),
    [
        (1, b"\1\0", "bad_length", "point", 0),
        (1, b"\1\0\2\3", "bad_length", "point", 0),
        (4, b"x", "bad_length", "mark", 0),
        (2, b"", "short", "text.text", 0),
        (2, b"\2a", "length_overrun", "text.text", 1),
        (2, b"\1\xff", "invalid_utf8", "text.text", 1),
        (2, b"\1ab", "trailing_bytes", "text", 2),
        (3, b"\x80", "varint_truncated", "blob.id", 0),
        (3, b"", "varint_truncated", "blob.id", 0),
        (3, b"\xff\xff\xff\xff\x7f", "int_range", "blob.id", 0),
    ],
)
def test_a_broken_row_does_not_hide_the_others(
    tag: int, data: bytes, code: str, field: str, offset: int
) -> None:
    whole = row(1, b"\1\0\2") + row(tag, data) + row(1, b"\3\0\4") + END
    bad = Broken(type=tag, data=data, code=code, field=field, offset=offset)
    assert decode(whole) == (Point(x=1, y=2), bad, Point(x=3, y=4))
    assert PROTOCOL.encode(Message(rows=(Point(x=1, y=2), bad, Point(x=3, y=4)))) == whole


def test_an_end_row_has_no_data() -> None:
    assert refused(b"\xfe\0\0\1") == ("bad_end", "message.rows", 0)
    assert refused(row(4, b"") + b"\xfe\1\0\0") == ("bad_end", "message.rows", 4)


def test_a_message_over_the_limit_is_refused_by_the_head_of_its_row() -> None:
    assert refused(b"\1\0\0\x10", limit=19) == ("too_large", "message.rows", 0)
    with pytest.raises(NeedMore):
        PROTOCOL.decode(b"\1\0\0\x10", limit=20)
    two = row(4, b"") + row(4, b"") + END
    assert decode(two, limit=12) == (Mark(), Mark())
    assert refused(two, limit=11) == ("too_large", "message.rows", 8)
    assert refused((b"\x80\xff\xff\xff" + bytes(0xFFFFFF)) * 2)[0] == "too_large"


def test_rows_are_limited_in_number() -> None:
    most = 65_536
    assert len(decode(row(4, b"") * most + END)) == most
    assert refused(row(4, b"") * (most + 1) + END)[:2] == ("too_many", "message.rows")


@pytest.mark.parametrize(
    ("bad", "code", "field"),
    [
        (Opaque(type=256), "int_range", "message.rows"),
        (Opaque(type=-1), "int_range", "message.rows"),
        (Opaque(type=0xFE), "int_range", "message.rows"),
        (Broken(type=0xFE, data=b"", code="", field="", offset=0), "int_range", "message.rows"),
        (Opaque(type=9, data=bytes(1 << 24)), "too_large", "message.rows"),
        (Blob(id=0, data=bytes((1 << 24) - 1)), "too_large", "message.rows"),
        (Point(x=256, y=0), "int_range", "point.x"),
        (Message(), "bad_value", "message.rows"),
        (None, "bad_value", "message.rows"),
    ],
)
def test_rows_that_cannot_be_written(bad: Any, code: str, field: str) -> None:
    with pytest.raises(EncodeError) as caught:
        PROTOCOL.encode(Message(rows=(Mark(), bad)))
    assert (caught.value.code, caught.value.field) == (code, field)


def test_more_rows_than_a_reader_takes_are_not_written() -> None:
    many = Message(rows=(Mark(),) * 65_536)
    assert len(PROTOCOL.encode(many)) == 4 * 65_537
    with pytest.raises(EncodeError) as caught:
        PROTOCOL.encode(Message(rows=(Mark(),) * 65_537))
    assert (caught.value.code, caught.value.field) == ("too_many", "message.rows")


def test_the_largest_row() -> None:
    value = Message(rows=(Opaque(type=9, data=bytes(0xFFFFFF)),))
    assert PROTOCOL.decode(PROTOCOL.encode(value)).message == value
