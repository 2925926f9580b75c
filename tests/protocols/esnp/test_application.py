"""An application's own rows and flags."""

from __future__ import annotations

import pytest

from wirelake.protocols.esnp.application import Application
from wirelake.protocols.esnp.layout import AnyVar, LenString, Message, OpaqueRow, Var
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.wire.errors import DecodeError, EncodeError
from wirelake.wire.types import Layout, VarI32


class Position(Layout):
    """Where something is."""

    x: VarI32
    """East."""
    y: VarI32
    """North."""


class Note(Layout):
    """A named value, made of the protocol's own types."""

    name: LenString
    value: AnyVar


class Nothing(Layout):
    """A row that says all by being there."""


APP = Application(
    rows={0x80: Position, 0x81: Note, 0xFF: Nothing}, flags={128: "URGENT", 129: "AUDITED"}
)


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (Position(x=1, y=-2), OpaqueRow(type=0x80, data=b"\x02\x03")),
        (
            Note(name="é", value=Var(type=23, value=(Var(type=8, value=9),))),
            OpaqueRow(type=0x81, data=b"\x04\xc3\xa9\x17\x02\x08\x09"),
        ),
        (Nothing(), OpaqueRow(type=0xFF)),
    ],
    ids=["position", "note", "nothing"],
)
def test_a_row_both_ways(value: Layout, row: OpaqueRow) -> None:
    assert APP.row(value) == row
    assert APP.read(row) == value


def test_rows_travel_in_a_message() -> None:
    data = PROTOCOL.encode(Message(rows=(APP.row(Position(x=3, y=4)),)))
    assert data.hex() == "80000002060800000000"
    assert APP.read(PROTOCOL.decode(data).message.rows[0]) == Position(x=3, y=4)


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"", "varint_truncated"), (b"\x02", "varint_truncated"), (b"\x02\x02\x00", "trailing_bytes")],
)
def test_a_row_that_breaks_its_layout(data: bytes, code: str) -> None:
    with pytest.raises(DecodeError) as caught:
        APP.read(OpaqueRow(type=0x80, data=data))
    assert caught.value.code == code


def test_what_is_not_declared_is_refused() -> None:
    with pytest.raises(DecodeError, match="unknown_type"):
        APP.read(OpaqueRow(type=0x90))
    with pytest.raises(EncodeError, match="bad_value"):
        Application().row(Position(x=1, y=1))


def test_a_value_that_does_not_fit() -> None:
    with pytest.raises(EncodeError, match="int_range"):
        APP.row(Position(x=1 << 31, y=0))
    with pytest.raises(EncodeError, match="bad_value"):
        APP.row(Position(x="east", y=0))  # type: ignore[arg-type]


def test_flag_names() -> None:
    assert APP.flag_name(128) == "URGENT"
    assert APP.flag_name(4) == "REQUEST"
    assert APP.flag_name(7) == "ASYNC"
    assert APP.flag_name(7, "frames") == "7"
    assert APP.flag_name(500) == "500"
    assert APP.flag("AUDITED") == 129
    assert APP.flag("REQUEST") == 4
    with pytest.raises(KeyError, match="URGENT"):
        APP.flag("LATER")


@pytest.mark.parametrize("number", [0, 0x15, 0x7F, 0x100])
def test_row_types_that_are_not_the_application_s(number: int) -> None:
    with pytest.raises(ValueError, match="0x80 to 0xff"):
        Application(rows={number: Position})


@pytest.mark.parametrize("number", [-1, 4, 127, 1 << 31])
def test_flags_that_are_not_the_application_s(number: int) -> None:
    with pytest.raises(ValueError, match="128"):
        Application(flags={number: "MINE"})


def test_one_class_for_two_row_types() -> None:
    with pytest.raises(ValueError, match="several row types"):
        Application(rows={0x80: Position, 0x81: Position})


def test_a_class_that_is_no_layout() -> None:
    with pytest.raises(ValueError, match="not a Layout"):
        Application(rows={0x80: int})  # type: ignore[dict-item]
