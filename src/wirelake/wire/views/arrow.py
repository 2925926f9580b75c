"""Layouts as Arrow schemas, and decoded messages as records that fit them.

    table = to_table(PROTOCOL.model(), messages)

One column for each field, with the exact width of its type; 24-bit integers take 32. A column is
nullable when the field may be absent, and when it is secret: a secret is null unless `reveal`.

- *Bodies.* The column of the body's name has the name of the alternative. Besides it, each
  alternative has a nullable struct of its own; one without fields has a boolean, because Parquet
  has no empty struct.
- *Rows* are a list of structs: `type` and `row` (which alternative), a nullable struct for each
  alternative, `opaque` (the bytes of a row of another type) and `broken` (bytes and error).
- *Self-describing values* (ESNP's `Var`) are a list of nodes in preorder: `parent` is the place of
  the containing node in the list, -1 for the first; `name` is the key in a map; `type` the type
  number; the value is in `int`, `float`, `text` or `bytes`. Lossless: a boolean is 0 or 1 in `int`;
  an unsigned 64-bit number is there as the int64 of the same bits, and `type` tells; for a NaN,
  `int` holds the 64 bits of the double, which engines other than Arrow may not keep.
- *Text* must be valid in Arrow. Bytes that are not UTF-8 (loose text, kept as surrogate escapes)
  become U+FFFD, so such a column is for reading, not for writing back. In a self-describing value
  `bytes` then holds the original; only keys of maps have no place for it.
- A NaN in a column of a layout keeps what Arrow's conversion keeps: not always its payload.

The metadata of a field has `doc`, `secret`, `values` (JSON: number -> name) and, for an
alternative, `tag`, `direction` and `section`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .. import model as m
from ..walk import alternative_names
from ._reader import from_var_rows, readable, to_var_rows

if TYPE_CHECKING:
    from ..protocol import Protocol

__all__ = [
    "from_var_rows",
    "protocol_schema",
    "readable",
    "schema",
    "to_record",
    "to_table",
    "to_var_rows",
    "var_type",
]

_WIDTHS = {1: 8, 2: 16, 3: 32, 4: 32, 8: 64}


def schema(layout: m.Layout) -> pa.Schema:
    """Return the columns of a layout."""
    about = {"layout": layout.name, "dialect": layout.dialect, "doc": layout.doc}
    return pa.schema(list(_fields(layout)), metadata=_metadata(about, section=layout.section))


def protocol_schema(protocol: Protocol, dialect: str | None = None) -> pa.Schema:
    """Return the columns of a protocol's messages: the envelope, and a struct for each body."""
    found = schema(protocol.model(dialect))
    return found.with_metadata({**(found.metadata or {}), b"protocol": protocol.name.encode()})


def to_table(layout: m.Layout, values: Iterable[Any], *, reveal: bool = False) -> pa.Table:
    """Return decoded messages as a table."""
    records = [to_record(layout, value, reveal=reveal) for value in values]
    return pa.Table.from_pylist(records, schema=schema(layout))


# -- schemas ---------------------------------------------------------------------------------


def _metadata(known: dict[str, str], **more: str | None) -> dict[str, str]:
    return {key: value for key, value in {**known, **more}.items() if value}


def _values(names: m.EnumClass | None) -> str | None:
    """Return the meanings of numbers, as JSON."""
    if names is None:
        return None
    return json.dumps({str(int(member)): member.name for member in names})


def _fields(layout: m.Layout) -> Iterator[pa.Field]:
    for part in layout.parts:
        match part:
            case m.Field():
                yield _field(part)
            case m.BitGroup():
                for bit in part.bits:
                    if bit.role == "stored":
                        about = _metadata({"doc": bit.doc}, values=_values(bit.names))
                        yield pa.field(bit.name, _bit_type(bit), nullable=False, metadata=about)
            case m.Options():
                yield from _option_fields(layout, part)
            case m.Body():
                yield from _body_fields(layout, part)
            case _:
                pass
    if layout.protobuf:
        doc = {"doc": "Fields that the declaration does not name, as they came."}
        yield pa.field(layout.unknown, pa.binary(), nullable=False, metadata=doc)


def _field(part: m.Field) -> pa.Field:
    about = _metadata(
        {"doc": part.doc}, secret="true" if part.secret else None, values=_values(part.names)
    )
    kind = part.type
    if isinstance(kind, m.Dynamic):
        about["values"] = json.dumps({str(k.tag): k.name for k in kind.kinds})
    nullable = part.secret or part.optional or part.when is not None
    return pa.field(part.name, _type(kind), nullable=nullable, metadata=about)


def _bit_type(bit: m.Bit) -> pa.DataType:
    if bit.flag:
        return pa.bool_()
    return _integer(next(width for width in (8, 16, 32, 64) if bit.width <= width), signed=False)


def _option_fields(layout: m.Layout, part: m.Options) -> Iterator[pa.Field]:
    for option in part.fields:
        about = _metadata({"doc": option.doc}, secret="true" if option.secret else None)
        yield pa.field(option.name, _type(option.type), nullable=True, metadata=about)
    bits = layout.find(m.OptionBits)
    bit = _type(bits.type) if isinstance(bits, m.OptionBits) else pa.uint64()
    entry = pa.struct([_required("bit", bit), _required("data", pa.binary())])
    doc = {"doc": "Options that this version does not know."}
    yield pa.field(part.unknown, _list(entry), nullable=False, metadata=doc)


def _body_fields(layout: m.Layout, body: m.Body) -> Iterator[pa.Field]:
    yield pa.field(body.name, pa.string(), nullable=False, metadata={"doc": body.doc})
    names = alternative_names(layout, body.alternatives)
    done = set()
    for alternative in body.alternatives:
        if alternative.layout.cls not in done:
            done.add(alternative.layout.cls)
            yield _alternative(names[alternative.layout.cls], alternative)


def _alternative(name: str, alternative: m.Alternative) -> pa.Field:
    layout = alternative.layout
    about = _metadata(
        {"doc": layout.doc, "tag": str(alternative.tag)},
        direction=alternative.direction,
        section=layout.section,
    )
    return pa.field(name, _struct(layout), nullable=True, metadata=about)


# -- types -----------------------------------------------------------------------------------


def _integer(bits: int, *, signed: bool) -> pa.DataType:
    return getattr(pa, f"{'' if signed else 'u'}int{bits}")()


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _list(item: pa.DataType) -> pa.DataType:
    return pa.list_(_required("item", item))


def _struct(layout: m.Layout) -> pa.DataType:
    """Return a struct of all fields; where there are none, a boolean that is true."""
    fields = list(_fields(layout))
    return pa.struct(fields) if fields else pa.bool_()


def _type(kind: m.Type) -> pa.DataType:
    match kind:
        case m.Int():
            return _integer(_WIDTHS[kind.size], signed=kind.signed)
        case m.Varint():
            return _integer(kind.bits, signed=kind.signed)
        case m.Float():
            return pa.float32() if kind.size == 4 else pa.float64()
        case m.Bool():
            return pa.bool_()
        case m.Fixed():
            return pa.binary(kind.size)
        case m.Blob():
            return pa.binary() if kind.text is None else pa.string()
        case m.Nested():
            return _struct(kind.layout)
        case m.Many():
            return _list(_type(kind.item))
        case m.Dynamic():
            return var_type(kind)
        case m.Rows():
            return _rows_type(kind)


def var_type(kind: m.Dynamic) -> pa.DataType:
    """Return the nodes of a self-describing value, in preorder."""
    node = [
        _required("parent", pa.int32()),
        pa.field("name", pa.string()),
        _required("type", pa.int16() if kind.tag.size == 1 else pa.int32()),
        pa.field("int", pa.int64()),
        pa.field("float", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("bytes", pa.binary()),
    ]
    return _list(pa.struct(node))


def _rows_type(kind: m.Rows) -> pa.DataType:
    names = alternative_names(None, kind.alternatives)
    error = [
        _required("data", pa.binary()),
        _required("code", pa.string()),
        _required("field", pa.string()),
        _required("offset", pa.int32()),
    ]
    row = [
        _required("type", _type(kind.tag)),
        _required("row", pa.string()),
        *(_alternative(names[a.layout.cls], a) for a in kind.alternatives),
        pa.field("opaque", pa.binary()),
        pa.field("broken", pa.struct(error)),
    ]
    return _list(pa.struct(row))


# -- records ---------------------------------------------------------------------------------


def to_record(layout: m.Layout, value: Any, *, reveal: bool = False) -> dict[str, Any]:
    """Return a decoded value as a dict that fits `schema(layout)`; `reveal` shows secrets."""
    record: dict[str, Any] = {}
    for part in layout.parts:
        match part:
            case m.Field():
                found = getattr(value, part.name)
                hidden = part.secret and not reveal
                record[part.name] = None if hidden else _value(part.type, found, reveal)
            case m.BitGroup():
                for bit in part.bits:
                    if bit.role == "stored":
                        number = int(getattr(value, bit.name))
                        record[bit.name] = bool(number) if bit.flag else number
            case m.Options():
                record |= _option_values(part, value, reveal)
            case m.Body():
                body = value if layout.transparent else getattr(value, part.name)
                record |= _body_values(layout, part, body, reveal)
            case _:
                pass
    if layout.protobuf:
        record[layout.unknown] = getattr(value, layout.unknown)
    return record


def _nested(layout: m.Layout, value: Any, reveal: bool) -> Any:
    return to_record(layout, value, reveal=reveal) or True


def _option_values(part: m.Options, value: Any, reveal: bool) -> dict[str, Any]:
    record = {}
    for option in part.fields:
        hidden = option.secret and not reveal
        found = None if hidden else getattr(value, option.name)
        record[option.name] = _value(option.type, found, reveal)
    unknown = getattr(value, part.unknown)
    return record | {part.unknown: [{"bit": bit, "data": data} for bit, data in unknown]}


# `to_record` needs this for every message.
@functools.cache
def _bodies(layout: m.Layout) -> tuple[dict[type, str], dict[type, m.Layout]]:
    """Return the column and the layout of each alternative of a body."""
    assert layout.body is not None
    alternatives = layout.body.alternatives
    return alternative_names(layout, alternatives), {a.layout.cls: a.layout for a in alternatives}


def _body_values(layout: m.Layout, body: m.Body, value: Any, reveal: bool) -> dict[str, Any]:
    names, chosen = _bodies(layout)
    if type(value) not in chosen:
        raise TypeError(f"{type(value).__name__} is not a body of {layout.name}")
    record: dict[str, Any] = dict.fromkeys(names.values())
    name = names[type(value)]
    record[name] = _nested(chosen[type(value)], value, reveal)
    return {body.name: name, **record}


def _value(kind: m.Type, value: Any, reveal: bool) -> Any:
    if value is None:
        return None
    match kind:
        case m.Int() | m.Varint():
            return int(value)
        case m.Blob(text="strict" | "loose"):
            return readable(value)
        case m.Nested():
            return _nested(kind.layout, value, reveal)
        case m.Many():
            return [_value(kind.item, item, reveal) for item in value]
        case m.Dynamic():
            return to_var_rows(kind, value)
        case m.Rows():
            return _row_values(kind, value, reveal)
        case _:
            return value


def _row_values(kind: m.Rows, rows: Iterable[Any], reveal: bool) -> list[dict[str, Any]]:
    names = alternative_names(None, kind.alternatives)
    known = {a.layout.cls: a for a in kind.alternatives}
    empty: dict[str, Any] = dict.fromkeys([*names.values(), "opaque", "broken"])
    found = []
    for row in rows:
        cls = type(row)
        if cls is kind.opaque:
            record = {"type": row.type, "row": "opaque", **empty, "opaque": row.data}
        elif cls is kind.broken:
            error = {key: getattr(row, key) for key in ("data", "code", "field", "offset")}
            record = {"type": row.type, "row": "broken", **empty, "broken": error}
        else:
            alternative, name = known[cls], names[cls]
            record = {"type": alternative.tag, "row": name, **empty}
            record[name] = _nested(alternative.layout, row, reveal)
        found.append(record)
    return found
