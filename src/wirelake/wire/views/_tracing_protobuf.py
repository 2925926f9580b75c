"""Protobuf fields, each with its place: in any order, unknown ones kept."""

from __future__ import annotations

from typing import Any

from .. import model as m
from ._reading import Reader
from ._tracing import Tracer
from ._tracing_layout import check_value
from .span import Span

__all__ = ["read_protobuf"]

_MAX_GROUPS = 32
"""How deep groups, an old form that only unknown fields can have, may be nested."""


def read_protobuf(tracer: Tracer, layout: m.Layout, reader: Reader, span: Span) -> Any:
    """A protobuf layout that fills the rest of the slice."""
    fields = {_key(part): part for part in layout.parts if isinstance(part, m.Field)}
    values: dict[str, Any] = {part.name: _absent(part) for part in fields.values()}
    unknown: list[bytes] = []
    while reader.left:
        start = reader.pos
        reader.where = layout.name
        key = _peek_key(tracer, reader, span)
        part = fields.get(key)
        if part is None:
            _unknown(tracer, reader, span)
            unknown.append(reader.data[start : reader.pos])
        else:
            reader.where = f"{layout.name}.{part.name}"
            _field(tracer, part, reader, span, values)
    return layout.cls(**values, **{layout.unknown: b"".join(unknown)})


def _peek_key(tracer: Tracer, reader: Reader, span: Span) -> int:
    """Number and wire type of the next field, left unread unless it is malformed."""
    probe = reader.part(reader.stop)
    with tracer.span(span, "key", probe, inner=True):
        key = probe.raw_varint()
    span.children.pop()
    return key


def _key(part: m.Field) -> int:
    return (part.number or 0) << 3 | _wire_type(part.type)


def _wire_type(kind: m.Type) -> int:
    match kind:
        case m.Varint() | m.Bool():
            return 0
        case m.Int() | m.Float():
            return 1 if kind.size == 8 else 5
        case m.Many():
            return _wire_type(kind.item)
        case _:
            return 2


def _absent(part: m.Field) -> Any:
    """What a field is that does not occur."""
    if isinstance(part.type, m.Many):
        return ()
    if part.optional or isinstance(part.type, m.Nested):
        return None
    match part.type:
        case m.Blob():
            return "" if part.type.text else b""
        case m.Bool():
            return False
        case m.Float():
            return 0.0
        case _:
            return 0


def _field(
    tracer: Tracer, part: m.Field, reader: Reader, parent: Span, values: dict[str, Any]
) -> None:
    about = {"doc": part.doc, "secret": part.secret, "names": part.names}
    many = isinstance(part.type, m.Many)
    name = f"{part.name}[{len(values[part.name])}]" if many else part.name
    with tracer.span(parent, name, reader, **about) as span:
        with tracer.span(span, "key", reader, inner=True) as key:
            key.value = reader.raw_varint()
        kind = part.type.item if isinstance(part.type, m.Many) else part.type
        span.value = _value(tracer, kind, reader, span)
        if isinstance(kind, m.Blob):
            check_value(part, reader, span)
    values[part.name] = (*values[part.name], span.value) if many else span.value


def _value(tracer: Tracer, kind: m.Type, reader: Reader, span: Span) -> Any:
    match kind:
        case m.Blob():
            return tracer.blob(m.Blob(m.Varint(64), kind.text), reader, span)
        case m.Nested():
            return _nested(tracer, kind.layout, reader, span)
        case _:
            with tracer.span(span, "value", reader, inner=True) as content:
                content.value = _scalar(tracer, kind, reader, content)
                return content.value


def _scalar(tracer: Tracer, kind: m.Type, reader: Reader, span: Span) -> Any:
    match kind:
        case m.Bool():
            return reader.raw_varint() != 0
        case m.Varint(coding="zigzag"):
            folded = reader.raw_varint()
            return (folded >> 1) ^ -(folded & 1)
        case m.Varint():
            # Protobuf widens negative numbers to 64 bits, and readers cut them to their width.
            value = reader.raw_varint() & (1 << kind.bits) - 1
            negative = kind.coding == "twos" and value >> (kind.bits - 1)
            return value - (1 << kind.bits) if negative else value
        case _:
            return tracer.value(kind, reader, span)


def _nested(tracer: Tracer, layout: m.Layout, reader: Reader, span: Span) -> Any:
    where, span.layout = reader.where, layout.name
    with tracer.span(span, "length", reader, inner=True) as part:
        part.value = size = reader.length(m.Varint(64))
    inner = reader.part(reader.pos + size)
    value = tracer.layout(layout, inner, span)
    reader.pos, reader.where = inner.pos, where
    return value


def _unknown(tracer: Tracer, reader: Reader, parent: Span) -> None:
    """A field that the layout does not have."""
    with tracer.span(parent, "unknown", reader) as span:
        key = reader.raw_varint()
        span.name = f"unknown_{key >> 3}"
        start = reader.pos
        _skip(reader, key, 0)
        span.value = reader.data[start : reader.pos]


def _skip(reader: Reader, key: int, depth: int) -> None:
    if key >> 3 == 0:
        raise reader.error("reserved_value")
    match key & 7:
        case 0:
            reader.raw_varint()
        case 1:
            reader.take(8)
        case 2:
            reader.take(reader.length(m.Varint(64)))
        case 3:
            _skip_group(reader, key, depth)
        case 5:
            reader.take(4)
        case _:
            raise reader.error("reserved_value")


def _skip_group(reader: Reader, key: int, depth: int) -> None:
    if depth >= _MAX_GROUPS:
        raise reader.error("too_deep")
    while True:
        inner = reader.raw_varint()
        if inner & 7 == 4:
            if inner >> 3 != key >> 3:
                raise reader.error("reserved_value")
            return
        _skip(reader, inner, depth + 1)
