"""Compares what a compiled Kaitai parser read with what our decoder read, by walking the model.

The names are those that `wirelake.wire.views.ksy` promises in its docstring.
"""

from __future__ import annotations

import math
import struct
from io import BytesIO
from typing import Any

from kaitaistruct import KaitaiStream

from wirelake.wire import model as m
from wirelake.wire.views.ksy import identifier

_ABSENT = object()


def parse(parser: type, data: bytes) -> Any:
    """One value of a Kaitai type."""
    return parser(KaitaiStream(BytesIO(data)))


def compare_layout(layout: m.Layout, value: Any, node: Any) -> None:
    """Asserts that a Kaitai node says the same as a decoded value."""
    if layout.protobuf:
        compare_protobuf(layout, value, node)
        return
    assert type(value) is layout.cls or layout.transparent, (layout.name, value)
    for part in layout.parts:
        match part:
            case m.Field():
                compare_field(part, getattr(value, part.name), node)
            case m.BitGroup():
                compare_bits(part, value, node)
            case m.Length():
                node = getattr(node, "rest", node)
            case m.Options():
                compare_options(part, value, node.options)
            case m.Body():
                body = value if layout.transparent else getattr(value, part.name)
                compare_body(part, body, getattr(node, part.name))
            case _:
                pass


def compare_field(field: m.Field, value: Any, node: Any) -> None:
    """A stored value; None means that it is not on the wire."""
    name = identifier(field.name)
    if value is None:
        assert getattr(node, name, None) is None, name
        return
    compare_value(field.type, value, node, name)
    if field.names is not None and isinstance(field.type, m.Varint):
        assert getattr(node, f"{name}_named") == value


def compare_bits(group: m.BitGroup, value: Any, node: Any) -> None:
    """Stored bits, and that presence bits tell the truth."""
    for bit in group.bits:
        found = getattr(node, identifier(bit.name))
        if bit.role == "stored":
            assert found == getattr(value, bit.name), bit.name
        elif bit.role == "present":
            assert found == (getattr(value, bit.target) is not None), bit.name


def compare_options(part: m.Options, value: Any, node: Any) -> None:
    """Known options and those that are carried."""
    for option in part.fields:
        compare_field(m.Field(option.name, option.type), getattr(value, option.name), node)
    found = []
    for index in range(64):
        data = getattr(node, f"unknown_{index}", _ABSENT)
        if data is not _ABSENT:
            found.append((1 << index, data))
    assert tuple(found) == getattr(value, part.unknown)


def compare_body(body: m.Body, value: Any, node: Any) -> None:
    """The alternative: the same one, with the same content."""
    layout = next(a.layout for a in body.alternatives if a.layout.cls is type(value))
    compare_named(layout, value, node)


def compare_named(layout: m.Layout, value: Any, node: Any) -> None:
    """A layout whose Kaitai type must bear its name."""
    wanted = identifier(layout.name).replace("_", "")
    assert type(node).__name__.lower() == wanted
    compare_layout(layout, value, node)


def compare_value(kind: m.Type, value: Any, node: Any, name: str) -> None:
    """A value of any kind that stands under a name."""
    found = getattr(node, name)
    match kind:
        case m.Varint():
            assert found.value == value, name
        case m.Float():
            compare_float(kind, value, found)
        case m.Blob(text="loose"):
            assert found == value.encode("utf-8", "surrogateescape"), name
            if value.isprintable():  # else it may hold bytes that are no text
                assert getattr(node, f"{name}_text") == value
        case m.Nested():
            compare_named(kind.layout, value, found)
        case m.Many():
            assert len(found) == len(value), name
            for item, expected in zip(found, value, strict=True):
                compare_item(kind.item, expected, item)
        case m.Dynamic():
            compare_dynamic(kind, value, found)
        case m.Rows():
            compare_rows(kind, value, found)
        case _:
            assert found == value, name


def compare_item(kind: m.Type, value: Any, item: Any) -> None:
    """An item of a list: bare, or in a type that has a `value`."""
    match kind:
        case m.Int(size=3, signed=True):
            assert item.value == value
        case m.Int() | m.Fixed():
            assert item == value
        case m.Float():
            compare_float(kind, value, item)
        case m.Varint():
            assert item.value == value
        case m.Nested():
            compare_named(kind.layout, value, item)
        case m.Dynamic():
            compare_dynamic(kind, value, item)
        case _:
            compare_value(kind, value, item, "value")


def compare_dynamic(kind: m.Dynamic, value: Any, node: Any) -> None:
    """A self-describing value and all that is in it."""
    assert node.kind == value.type
    inner = next(k.type for k in kind.kinds if k.tag == value.type)
    match inner:
        case None:
            assert value.value is None
        case m.Pairs():
            assert len(node.body.value) == len(value.value)
            for pair, (key, item) in zip(node.body.value, value.value, strict=True):
                compare_value(inner.key, key, pair, "key")
                compare_dynamic(kind, item, pair.value)
        case m.Items():
            assert len(node.body.value) == len(value.value)
            for found, item in zip(node.body.value, value.value, strict=True):
                compare_dynamic(kind, item, found)
        case m.Varint():
            assert node.body.value == value.value
        case _:
            compare_value(inner, value.value, node.body, "value")


def compare_rows(kind: m.Rows, rows: Any, found: Any) -> None:
    """Rows; Kaitai keeps the end row too."""
    assert found[-1].kind == kind.end
    assert len(found) == len(rows) + 1
    layouts = {a.layout.cls: a for a in kind.alternatives}
    for row, node in zip(rows, found[:-1], strict=True):
        if type(row) is kind.opaque:
            assert (node.kind, node.body.value) == (row.type, row.data)
        else:
            alternative = layouts[type(row)]
            assert node.kind == alternative.tag
            compare_named(alternative.layout, row, node.body)


def compare_protobuf(layout: m.Layout, value: Any, node: Any) -> None:
    """Fields by number: the last one counts, a repeated one collects, the others are unknown."""
    assert type(value) is layout.cls
    if layout.unparsed:
        assert getattr(node, layout.unknown) == getattr(value, layout.unknown)
        return
    fields = [part for part in layout.parts if isinstance(part, m.Field)]
    known = {field.number: field for field in fields}
    seen: dict[str, list[Any]] = {field.name: [] for field in fields}
    unknown = []
    for found in node.fields:
        if type(found.value).__name__ == "ProtobufAny":
            unknown.append(found)
        else:
            seen[known[found.number].name].append(found.value)
    for field in fields:
        compare_protobuf_field(field, getattr(value, field.name), seen[field.name])
    again = parse(type(node), getattr(value, layout.unknown)).fields
    assert [_unknown(f) for f in unknown] == [_unknown(f) for f in again]


def compare_protobuf_field(field: m.Field, value: Any, found: list[Any]) -> None:
    """The occurrences of one protobuf field."""
    many = isinstance(field.type, m.Many)
    kind = field.type.item if isinstance(field.type, m.Many) else field.type
    if not many and not found:
        assert not value, f"{field.name} is not on the wire"
        return
    values, nodes = (value, found) if many else ((value,), found[-1:])
    assert len(values) == len(nodes), field.name
    for expected, node in zip(values, nodes, strict=True):
        if isinstance(kind, m.Varint):
            assert node.value == expected, field.name
        else:
            compare_value(kind, expected, node, "value")


def _unknown(field: Any) -> tuple[Any, ...]:
    any_value = field.value
    varint = any_value.varint.value if field.wire_type == 0 else None
    rest = [getattr(any_value, name, None) for name in ("fixed64", "data", "fixed32")]
    return (field.key.value, varint, *rest)


def compare_float(kind: m.Float, value: float, found: float) -> None:
    """Floats by their bits. Python's `struct`, which Kaitai's runtime uses, reads a signalling
    NaN of four bytes as a quiet one; so that bit does not count."""
    (wanted, got) = struct.unpack(">QQ", struct.pack(">dd", value, found))
    quiet = 1 << 51 if kind.size == 4 and math.isnan(value) else 0
    assert wanted | quiet == got | quiet


def compare_stage(layout: m.Layout, value: Any, parser: type, data: bytes) -> None:
    """What a field holds once any transform is undone, read by the type of that name."""
    kind = getattr(parser, identifier(layout.name).title().replace("_", ""))
    node = parse(kind, data)
    assert node._io.is_eof()
    compare_layout(layout, value, node)
