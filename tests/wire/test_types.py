"""The words of a declaration: what each alias stands for, and how a layout behaves as a value."""

from __future__ import annotations

import typing
from typing import Annotated, Any, get_args, get_origin

import pytest

from wirelake.wire import types
from wirelake.wire.marks import BitWidth, Counted, LengthMark, SecretMark, TagMark
from wirelake.wire.model import Blob, Bool, Fixed, Float, Int, Varint
from wirelake.wire.types import (
    U8,
    Bytes8,
    Layout,
    List8,
    Number,
    PbInt32,
    Protobuf,
    Secret,
    String16,
    When,
)

SCALARS: dict[str, tuple[type, Any]] = {
    **{f"U{8 * n}": (int, Int(n)) for n in (1, 2, 3, 4, 8)},
    **{f"I{8 * n}": (int, Int(n, signed=True)) for n in (1, 2, 4, 8)},
    **{f"U{8 * n}LE": (int, Int(n, order="little")) for n in (2, 4, 8)},
    **{f"I{8 * n}LE": (int, Int(n, signed=True, order="little")) for n in (2, 4, 8)},
    "F32": (float, Float(4)),
    "F64": (float, Float(8)),
    "F32LE": (float, Float(4, "little")),
    "F64LE": (float, Float(8, "little")),
    "Boolean": (bool, Bool()),
    "LooseBoolean": (bool, Bool(strict=False)),
    **{f"VarU{n}": (int, Varint(n)) for n in (16, 32, 64)},
    **{f"VarI{n}": (int, Varint(n, "zigzag")) for n in (16, 32, 64)},
    **{f"TwosVar{n}": (int, Varint(n, "twos")) for n in (32, 64)},
    "Flag": (bool, BitWidth(1)),
    **{f"Bits{n}": (int, BitWidth(n)) for n in range(1, 8)},
    "Present": (bool, BitWidth(1, "present")),
    **{f"TagBits{n}": (int, BitWidth(n, "tag")) for n in (1, 2, 4)},
    "String8": (str, Blob(Int(1), "strict")),
    "String16": (str, Blob(Int(2), "strict")),
    "String32": (str, Blob(Int(4), "strict")),
    "LooseString16": (str, Blob(Int(2), "loose")),
    "Bytes8": (bytes, Blob(Int(1))),
    "Bytes16": (bytes, Blob(Int(2))),
    "Bytes32": (bytes, Blob(Int(4))),
    "Rest": (bytes, Blob(None)),
    "RestString": (str, Blob(None, "strict")),
    **{f"Bytes{n}Fixed": (bytes, Fixed(n)) for n in (4, 16, 32)},
    "PbInt32": (int, Varint(32, "twos")),
    "PbInt64": (int, Varint(64, "twos")),
    "PbBool": (bool, Bool(strict=False)),
    "PbFixed64": (int, Int(8, signed=True, order="little")),
    "PbString": (str, Blob(Varint(32), "strict")),
    "PbBytes": (bytes, Blob(Varint(32))),
    "Length16": (int, LengthMark(Int(2))),
    "Length32": (int, LengthMark(Int(4))),
    "Tag8": (int, TagMark(Int(1))),
    "Tag16": (int, TagMark(Int(2))),
}
"""Every alias without a parameter: the Python type that a checker sees, and what is on the wire."""

GENERIC = {"List8", "List16", "Secret"}
"""Aliases that take another type."""


class Point(Layout):
    """A throw-away layout."""

    x: U8
    y: U8 = 7


class Login(Layout):
    """A throw-away layout with secrets of every shape."""

    user: String16
    token: Secret[String16]
    keys: List8[Secret[Bytes8]]
    spare: Annotated[Secret[U8] | None, When("has")]


class Wrapper(Layout):
    """A layout around one with secrets."""

    login: Login


class Boxed(Protobuf):
    """A throw-away protobuf layout."""

    n: Annotated[PbInt32, Number(1)] = 0


def _aliases() -> set[str]:
    return {name for name in types.__all__ if get_origin(getattr(types, name)) is Annotated}


def test_the_tables_here_name_every_alias() -> None:
    assert _aliases() == SCALARS.keys() | GENERIC


@pytest.mark.parametrize("name", SCALARS)
def test_an_alias_is_a_plain_type_and_one_mark(name: str) -> None:
    assert get_args(getattr(types, name)) == SCALARS[name]


@pytest.mark.parametrize(("name", "size"), [("List8", 1), ("List16", 2)])
def test_a_list_is_a_tuple_behind_a_count(name: str, size: int) -> None:
    base, mark = get_args(getattr(types, name)[U8])
    assert get_origin(base) is tuple
    assert get_args(base) == (U8, ...)
    assert isinstance(mark, Counted)
    assert mark.count == Int(size)


def test_secret_adds_a_mark_and_keeps_the_rest() -> None:
    base, *found = get_args(Secret[String16])
    assert base is str
    assert found == [Blob(Int(2), "strict"), SecretMark()]


def test_a_layout_is_an_immutable_value() -> None:
    point = Point(x=1)
    assert point == Point(x=1, y=7)
    assert point != Point(x=1, y=8)
    assert hash(point) == hash(Point(x=1))
    assert repr(point) == "Point(x=1, y=7)"
    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]


def test_the_repr_of_a_layout_masks_its_secrets() -> None:
    login = Login(user="me", token="hunter2", keys=(b"k1", b"k2"), spare=None)
    assert repr(login) == "Login(user='me', token=<secret>, keys=<secret>, spare=<secret>)"
    assert str(Wrapper(login=login)) == f"Wrapper(login={login!r})"
    assert login.token == "hunter2"
    assert login == Login(user="me", token="hunter2", keys=(b"k1", b"k2"), spare=None)


def test_what_cannot_be_understood_is_masked_too() -> None:
    class Odd(Layout):
        n: Nowhere  # type: ignore[name-defined]  # noqa: F821

    assert repr(Odd(n=5)) == "Odd(n=<secret>)"


def test_a_layout_refuses_names_it_does_not_have() -> None:
    with pytest.raises(TypeError):
        Point(x=1, z=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]


def test_a_layout_is_not_followed_by_the_garbage_collector() -> None:
    assert Point.__struct_config__.gc is False
    assert Boxed.__struct_config__.gc is False


def test_wire_name_and_section_are_not_fields() -> None:
    assert Point.__struct_fields__ == ("x", "y")
    assert (Point.wire_name, Point.section) == ("", "")


def test_a_protobuf_layout_keeps_what_it_does_not_know() -> None:
    assert Boxed().unknown == b""
    assert Boxed(unknown=b"\x10\x01") != Boxed()


def test_a_type_checker_sees_plain_fields() -> None:
    assert typing.get_type_hints(Point) == {
        "wire_name": typing.ClassVar[str],
        "section": typing.ClassVar[str],
        "x": int,
        "y": int,
    }
    assert get_args(List8[U8])[0] == tuple[U8, ...]
