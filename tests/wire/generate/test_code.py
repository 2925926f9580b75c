"""Lines, struct formats and names of generated code."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from wirelake.wire import model as m
from wirelake.wire import runtime
from wirelake.wire.generate.code import (
    Code,
    Structs,
    format_of,
    local,
    nested,
    order_of,
    varint_reader,
)


def test_blocks_indent() -> None:
    code = Code()
    with code.block("def f():"):
        code("a = 1", "")
        with code.block("if a:"):
            code("return a")
        code("return None")
    code("f()")
    assert str(code) == ("def f():\n    a = 1\n\n    if a:\n        return a\n    return None\nf()")


def test_code_can_begin_indented() -> None:
    code = Code(2)
    code("x")
    assert str(code) == "        x"


@pytest.mark.parametrize("name", ["client_id", "length", "number", "body", "to", "time", "topics"])
def test_most_fields_are_called_what_they_are(name: str) -> None:
    assert local(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("buf", "pos", "end", "value", "rt", "struct", "items", "tag", "entry", "const", "error"),
        *("type", "len", "bytes", "class", "from", "if", "unknown"),
        *("n_topics", "v_id", "piece_0", "bits_2", "read_auth", "write_auth", "topics_items"),
        *("name_piece", "value_high", "value_low", "type_", "Auth", "item_1", "parts_1"),
    ],
)
def test_names_that_generated_code_uses_are_changed(name: str) -> None:
    assert local(name) == f"{name}_"


def test_no_two_names_become_one() -> None:
    names = ["type", "type_", "type__", "item", "item_", "n_x", "n_x_", "x", "x_"]
    assert len({local(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("var", "suffix"),
    [
        ("topics", ""),
        ("item", "_1"),
        ("item_1", "_2"),
        ("item_9", "_10"),
        ("item_", ""),
        ("items", ""),
    ],
)
def test_lists_inside_lists_have_variables_of_their_own(var: str, suffix: str) -> None:
    assert nested(var) == suffix


def test_struct_formats_are_defined_once() -> None:
    structs = Structs()
    assert structs.unpack(">BH") == structs.unpack(">BH") == "_unpack_BH_be"
    assert structs.unpack("<BH") == "_unpack_BH_le"
    assert structs.pack(">I") == "_pack_I_be"
    assert structs.lines() == [
        '_pack_I_be = struct.Struct(">I").pack',
        '_unpack_BH_be = struct.Struct(">BH").unpack_from',
        '_unpack_BH_le = struct.Struct("<BH").unpack_from',
    ]


@pytest.mark.parametrize(
    ("kind", "code", "order"),
    [
        (m.Int(1), "B", ""),
        (m.Int(1, signed=True), "b", ""),
        (m.Int(2), "H", ">"),
        (m.Int(2, order="little"), "H", "<"),
        (m.Int(4, signed=True), "i", ">"),
        (m.Int(8, signed=True, order="little"), "q", "<"),
        (m.Float(4), "f", ">"),
        (m.Float(8, "little"), "d", "<"),
        (m.Bool(), "B", ""),
        (m.Fixed(16), "16s", ""),
    ],
)
def test_types_of_fixed_size_have_a_format(kind: Any, code: str, order: str) -> None:
    assert format_of(kind) == code
    assert order_of(kind) == order
    assert struct.calcsize(f"{order or '>'}{code}") == m.type_size(kind)[0]


@pytest.mark.parametrize(
    "kind", [m.Int(3), m.Varint(32), m.Blob(None), m.Many(m.Int(1), None), m.Blob(m.Int(1))]
)
def test_other_types_have_none(kind: Any) -> None:
    assert format_of(kind) is None


VARINTS = [m.Varint(n) for n in (16, 32, 64)]
VARINTS += [m.Varint(n, "zigzag") for n in (16, 32, 64)]
VARINTS += [m.Varint(n, "twos", loose) for n in (32, 64) for loose in (False, True)]


@pytest.mark.parametrize("kind", VARINTS)
def test_every_varint_has_functions_in_the_runtime(kind: m.Varint) -> None:
    assert callable(getattr(runtime, varint_reader(kind).removeprefix("rt.")))
    assert callable(getattr(runtime, f"put_{kind.coding}{kind.bits}"))
