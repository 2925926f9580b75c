"""Stand-alone layouts: their functions, what they refuse, and where the code is kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.esnp.layout import AnyVar, Message, Var
from wirelake.wire.declare import DeclarationError
from wirelake.wire.errors import DecodeError, EncodeError
from wirelake.wire.generate.module import compile_layout
from wirelake.wire.types import (
    U8,
    U16,
    Bits3,
    Bits5,
    ByDialect,
    Int,
    Layout,
    List8,
    Number,
    PbInt32,
    Protobuf,
    Rest,
    Secret,
    String8,
)


class Inner(Layout):
    """Stands inside."""

    a: U8
    b: String8


class Outer(Layout):
    """Has a bit of everything."""

    high: Bits3
    low: Bits5
    items: List8[Inner]
    secret: Secret[U16]
    tail: Rest = b""


class Fields(Protobuf):
    """Protobuf."""

    port: Annotated[PbInt32, Number(1)] = 0


class Wide(Layout):
    """A number that one dialect writes otherwise."""

    number: Annotated[int, ByDialect(Int(2), {"little": Int(2, order="little")})]


class Dynamic(Layout):
    """A value of another module."""

    value: AnyVar


VALUE = Outer(high=5, low=9, items=(Inner(a=1, b="é"),), secret=0x0102, tail=b"..")
BYTES = bytes([5 << 5 | 9, 1, 1, 2]) + "é".encode() + b"\x01\x02.."


def test_reads_and_writes() -> None:
    codec = compile_layout(Outer)
    assert codec.write(VALUE) == BYTES
    assert codec.read(BYTES) == VALUE


def test_other_layouts() -> None:
    assert compile_layout(Fields).write(Fields(port=80)) == b"\x08\x50"
    assert compile_layout(Fields).read(b"") == Fields()
    assert compile_layout(Wide).write(Wide(number=258)) == b"\x01\x02"
    assert compile_layout(Wide, "little").write(Wide(number=258)) == b"\x02\x01"
    value = Dynamic(value=Var(type=5, value=-1))
    assert compile_layout(Dynamic).read(compile_layout(Dynamic).write(value)) == value


def test_the_code_is_kept_in_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIRELAKE_CACHE", str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("wirelake_layout_inner")]:
        monkeypatch.delitem(sys.modules, name)
    compile_layout(Inner)
    (kept,) = tmp_path.glob("*.py")
    assert kept.name.startswith("wirelake_layout_inner_seed_")
    assert "def read_inner" in kept.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"", "short"), (b"\x00\x01", "length_overrun"), (b"\x00\x00\x01", "short")],
)
def test_bad_bytes(data: bytes, code: str) -> None:
    with pytest.raises(DecodeError) as caught:
        compile_layout(Outer).read(data)
    assert caught.value.code == code


def test_reading_takes_all() -> None:
    with pytest.raises(DecodeError, match="trailing_bytes in inner at byte 2"):
        compile_layout(Inner).read(b"\x01\x00\x00")


@given(st.binary(max_size=30))
def test_any_bytes_are_a_value_or_a_typed_error(data: bytes) -> None:
    codec = compile_layout(Outer)
    try:
        value = codec.read(data)
    except DecodeError:
        return
    assert codec.write(value) == data


def test_what_does_not_fit() -> None:
    codec = compile_layout(Inner)
    with pytest.raises(EncodeError, match=r"int_range in inner\.a"):
        codec.write(Inner(a=256, b=""))
    for wrong in (Inner(a="x", b=""), VALUE, None):  # type: ignore[arg-type]
        with pytest.raises(EncodeError, match="bad_value"):
            codec.write(wrong)


def test_a_class_that_cannot_be_imported() -> None:
    class Local(Layout):
        """Nobody can import this."""

        a: U8

    with pytest.raises(DeclarationError, match="top of a module"):
        compile_layout(Local)


def test_what_needs_a_protocol() -> None:
    with pytest.raises(DeclarationError, match="needs a Protocol"):
        compile_layout(Message)


def test_what_is_no_layout() -> None:
    with pytest.raises(DeclarationError):
        compile_layout(int)  # type: ignore[type-var]
