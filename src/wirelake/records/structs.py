"""The struct with all fields of a protocol, a column of `messages`.

It is the Arrow form of the layout (`wirelake.wire.views.arrow`) with these changes: integers are
signed, fixed-size bytes are binary, every field is nullable, and dialects are merged. The struct
has no field for the name of the body, which is the column `name`, and none for alternatives without
fields. The layout inside a stage (tny's message) is a struct beside the frame. Fields that the
table has in other columns are left out: the body, and a carried message that has a row of its own.
Content of the application is marked in the metadata: it is null in messages that may hold
credentials (`SignOn` of a protocol's meaning).

Rows (ESNP's) are lists by kind, because most messages have few kinds: `types` has the type of each
row in order, and each kind has a list of its rows in order, empty where there are none. So the k-th
row of a type is the k-th item of its list. Rows of other types are in `opaque`. `broken` rows are
in no other list and have their position in `types`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from wirelake.protocols import registry
from wirelake.wire import model as m
from wirelake.wire.protocol import Protocol
from wirelake.wire.runtime import int64_of
from wirelake.wire.views.arrow import to_record, var_type
from wirelake.wire.walk import alternative_names, is_content

from .schema import COMMON

__all__ = [
    "by_kind",
    "elsewhere",
    "has_content",
    "is_content_field",
    "messages_schema",
    "stages",
    "struct_type",
    "struct_value",
]

_SIGNED = {1: pa.int16(), 2: pa.int32(), 3: pa.int32(), 4: pa.int64(), 8: pa.int64()}
_SAME = {1: pa.int8(), 2: pa.int16(), 3: pa.int32(), 4: pa.int32(), 8: pa.int64()}


def messages_schema(protocols: Sequence[str] = ()) -> pa.Schema:
    """Return the schema of `messages` with a struct for each of these protocols, by default for
    all."""
    chosen = [registry.find(name) for name in (protocols or registry.names())]
    fields = [*COMMON, *(pa.field(each.name, struct_type(each)) for each in chosen)]
    return pa.schema(fields, metadata=COMMON.metadata)


@functools.cache
def struct_type(protocol: Protocol, *, whole: bool = False) -> pa.DataType:
    """Return the struct of a protocol: the fields of all dialects. `whole` includes the fields that
    the table has in other columns."""
    left_out = frozenset[str]() if whole else elsewhere(protocol)
    found: list[pa.Field] = []
    for dialect in protocol.dialects:
        found = _joined(found, _fields(protocol.model(dialect), "", left_out))
        for stage in stages(protocol, dialect):
            inner = _struct(stage, stage.name, left_out)
            found = _joined(found, [pa.field(stage.name, inner)])
    return pa.struct(found)


def elsewhere(protocol: Protocol) -> frozenset[str]:
    """Return the paths of fields that other columns hold."""
    meaning = protocol.meaning
    inner = () if meaning.tunnels is None else (meaning.tunnels.inner,)
    return frozenset((*meaning.body, *inner))


@functools.cache
def stages(protocol: Protocol, dialect: str | None = None) -> tuple[m.Layout, ...]:
    """Return the layouts inside staged fields."""
    return tuple(
        part.stage
        for layout in protocol.layouts(dialect)
        for part in layout.parts
        if isinstance(part, m.Field) and part.stage is not None
    )


def struct_value(
    protocol: Protocol,
    dialect: str,
    frame: Any,
    opened: Mapping[str, Any],
    *,
    reveal: bool = False,
    content: bool = True,
) -> dict[str, Any]:
    """Return the struct value of a decoded frame (None for a message without one) and its
    stages; without content of the application unless `content`."""
    value: dict[str, Any] = {}
    if frame is not None:
        model = protocol.model(dialect)
        value |= to_record(model, frame, reveal=reveal)
        for name, kind in _rows_of(model):
            value[by_kind(name)] = _by_kind(kind, value.pop(name))
    for stage in stages(protocol, dialect):
        if stage.name in opened:
            value[stage.name] = to_record(stage, opened[stage.name], reveal=reveal)
    found = _signed(value) if content else _without_content(_signed(value), struct_type(protocol))
    assert isinstance(found, dict)
    return found


def is_content_field(field: pa.Field) -> bool:
    """Return whether a field of a struct is content of the application."""
    return b"content" in (field.metadata or {})


def has_content(kind: pa.DataType) -> bool:
    """Return whether a type has a field with content of the application."""
    fields = [kind.field(at) for at in range(kind.num_fields)]
    return any(is_content_field(each) or has_content(each.type) for each in fields)


def _without_content(value: Any, kind: pa.DataType) -> Any:
    """Return a value with only the fields of its type, those with content as None."""
    if isinstance(value, dict):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return {
            each.name: (
                None
                if is_content_field(each)
                else _without_content(value.get(each.name), each.type)
            )
            for each in fields
        }
    if isinstance(value, list):
        return [_without_content(each, kind.value_type) for each in value]
    return value


@functools.cache
def _rows_of(layout: m.Layout) -> tuple[tuple[str, m.Rows], ...]:
    """Return the fields of a frame that hold rows."""
    return tuple(
        (part.name, part.type)
        for part in layout.parts
        if isinstance(part, m.Field) and isinstance(part.type, m.Rows)
    )


def by_kind(rows: str) -> str:
    """Return the name of the struct that has the rows of a field as lists by kind."""
    return f"{rows}_by_kind"


def _by_kind(kind: m.Rows, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return rows of the Arrow view as lists by kind."""
    names = ("types", *alternative_names(None, kind.alternatives).values(), "opaque", "broken")
    found: dict[str, list[Any]] = {name: [] for name in names}
    for place, row in enumerate(rows):
        name = row["row"]
        value = row[name]
        if name == "opaque":
            value = {"type": row["type"], "data": value}
        elif name == "broken":
            value = {"row": place, "type": row["type"], **value}
        found["types"].append(row["type"])
        found[name].append(value)
    return found


def _signed(value: Any) -> Any:
    """Replace unsigned 64-bit numbers by the int64 of the same bits."""
    if isinstance(value, dict):
        return {key: _signed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_signed(each) for each in value]
    return int64_of(value) if isinstance(value, int) else value


# -- types -----------------------------------------------------------------------------------


def _fields(layout: m.Layout, path: str, left_out: frozenset[str]) -> Iterator[pa.Field]:
    """Yield the columns of a layout at a path."""
    for part in layout.parts:
        match part:
            case m.Field():
                if part.stage is None and _under(path, part.name) not in left_out:
                    yield _field(part, _under(path, part.name), left_out)
            case m.BitGroup():
                for bit in part.bits:
                    if bit.role == "stored":
                        yield pa.field(bit.name, _bit_type(bit), metadata={"doc": bit.doc})
            case m.Options():
                for option in part.fields:
                    kind = _type(option.type, "", left_out)
                    about = _metadata(
                        option.doc, secret=option.secret, content=is_content(option.type)
                    )
                    yield pa.field(option.name, kind, metadata=about)
                data = pa.field("data", pa.binary(), metadata=_metadata(content=True))
                entry = pa.struct([pa.field("bit", pa.int32()), data])
                yield pa.field(part.unknown, _listed(entry))
            case m.Body():
                yield from _alternatives(layout, part.alternatives, path, left_out)
            case _:
                pass
    if layout.protobuf:
        yield pa.field(layout.unknown, pa.binary(), metadata=_metadata(content=True))


def _metadata(doc: str = "", *, secret: bool = False, content: bool = False) -> dict[str, str]:
    marks = {"secret": secret, "content": content}
    return {"doc": doc} | {name: "true" for name, holds in marks.items() if holds}


def _field(part: m.Field, path: str, left_out: frozenset[str]) -> pa.Field:
    about = _metadata(part.doc, secret=part.secret, content=is_content(part.type))
    name = by_kind(part.name) if isinstance(part.type, m.Rows) else part.name
    return pa.field(name, _type(part.type, path, left_out), metadata=about)


def _alternatives(
    layout: m.Layout | None,
    alternatives: Iterable[m.Alternative],
    path: str,
    left_out: frozenset[str],
) -> Iterator[pa.Field]:
    names = alternative_names(layout, alternatives)
    for cls, name in names.items():
        inner = next(a.layout for a in alternatives if a.layout.cls is cls)
        kind = _struct(inner, _under(path, name), left_out)
        if kind.num_fields:
            yield pa.field(name, kind, metadata={"doc": inner.doc})


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _struct(layout: m.Layout, path: str, left_out: frozenset[str]) -> pa.DataType:
    return pa.struct(list(_fields(layout, path, left_out)))


def _bit_type(bit: m.Bit) -> pa.DataType:
    if bit.flag:
        return pa.bool_()
    return _SIGNED[next(size for size in (1, 2, 4, 8) if bit.width <= 8 * size)]


def _type(kind: m.Type, path: str, left_out: frozenset[str]) -> pa.DataType:
    match kind:
        case m.Int():
            return _SAME[kind.size] if kind.signed else _SIGNED[kind.size]
        case m.Varint():
            return _SAME[kind.bits // 8] if kind.signed else _SIGNED[kind.bits // 8]
        case m.Float():
            return pa.float32() if kind.size == 4 else pa.float64()
        case m.Bool():
            return pa.bool_()
        case m.Fixed():
            return pa.binary()
        case m.Blob():
            return pa.binary() if kind.text is None else pa.string()
        case m.Nested():
            return _struct(kind.layout, path, left_out)
        case m.Many():
            return _listed(_type(kind.item, path, left_out))
        case m.Dynamic():
            return _nullable(var_type(kind))
        case m.Rows():
            return _rows_type(kind, path, left_out)


def _rows_type(kind: m.Rows, path: str, left_out: frozenset[str]) -> pa.DataType:
    """Return a struct with a list for each kind of row, and the types of all rows."""
    # A list of a union would be the direct form, but neither Parquet nor Spark has unions. A list
    # per kind keeps every row typed, and `types` keeps their order, so that nothing is lost.
    data = pa.field("data", pa.binary(), metadata=_metadata("Its bytes.", content=True))
    opaque = [_about("type", pa.int16(), "Its type."), data]
    broken = [
        _about("row", pa.int32(), "Its index in `types`."),
        _about("type", pa.int16(), "Its type."),
        data,
        _about("code", pa.string(), "Code of the error."),
        _about("field", pa.string(), "The invalid field."),
        _about("offset", pa.int32(), "Offset of the error in its bytes."),
    ]
    known = _alternatives(None, kind.alternatives, path, left_out)
    return pa.struct(
        [
            _about("types", _listed(pa.int16()), "The type of each row, in order."),
            *(each.with_type(_listed(each.type)) for each in known),
            _about("opaque", _listed(pa.struct(opaque)), "Rows of other types."),
            _about("broken", _listed(pa.struct(broken)), "Rows with invalid content."),
        ]
    )


def _about(name: str, kind: pa.DataType, doc: str) -> pa.Field:
    return pa.field(name, kind, metadata={"doc": doc})


def _listed(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", kind))


def _nullable(kind: pa.DataType) -> pa.DataType:
    """Return the same type with nullable fields."""
    if pa.types.is_list(kind):
        return _listed(_nullable(kind.value_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([pa.field(each.name, _nullable(each.type)) for each in fields])
    return kind


def _joined(old: Iterable[pa.Field], new: Iterable[pa.Field]) -> list[pa.Field]:
    """Return the union of the fields of two dialects."""
    # One schema per protocol, whatever dialect a capture has: files of both are one table.
    found = {each.name: each for each in old}
    for each in new:
        known = found.get(each.name)
        if known is None:
            found[each.name] = each
        elif known.type != each.type:
            found[each.name] = pa.field(
                each.name, _joined_type(known.type, each.type), metadata=known.metadata
            )
    return list(found.values())


def _joined_type(old: pa.DataType, new: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return pa.struct(
            _joined(
                [old.field(at) for at in range(old.num_fields)],
                [new.field(at) for at in range(new.num_fields)],
            )
        )
    if pa.types.is_list(old) and pa.types.is_list(new):
        return _listed(_joined_type(old.value_type, new.value_type))
    raise TypeError(f"incompatible types in two dialects: {old} and {new}")
