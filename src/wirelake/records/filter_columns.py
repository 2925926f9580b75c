"""Columns in filters: lookup in a schema, and values in a batch or a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Column", "Columns", "Kind", "near", "resolve"]

Kind: TypeAlias = Literal["integer", "float", "text", "bytes", "bool", "texts", "other"]
"""What can be done with a column; `texts` is a list of text."""

_ARROW: Final[dict[Kind, pa.DataType]] = {
    "integer": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "bool": pa.bool_(),
    "texts": pa.list_(pa.string()),
}
"""The type in which values of each kind are compared."""

_UNITS: Final = {"_ns": 1, "_us": 10**3, "_ms": 10**6, "_s": 10**9}


class Column(msgspec.Struct, frozen=True):
    """A column, or a field of a struct."""

    path: tuple[str, ...]
    kind: Kind

    @property
    def name(self) -> str:
        """Its dotted name."""
        return ".".join(self.path)

    @property
    def unit_ns(self) -> int | None:
        """Nanoseconds per unit; None when the column is not a time."""
        for suffix, length in _UNITS.items():
            if self.path[-1].endswith(suffix):
                return length
        return None

    def of(self, row: Mapping[str, Any]) -> Any:
        """Return its value in a row, or None."""
        value: Any = row
        for step in self.path:
            if value is None:
                return None
            value = value.get(step)
        return value


class Columns:
    """The columns of a batch, each fetched once and cast to the type used for comparison."""

    def __init__(self, batch: pa.RecordBatch):
        self.batch = batch
        self._found: dict[tuple[str, ...], pa.Array] = {}

    def __getitem__(self, column: Column) -> pa.Array:
        found = self._found.get(column.path)
        if found is None:
            found = self._found[column.path] = self._fetch(column)
        return found

    def _fetch(self, column: Column) -> pa.Array:
        """Return a column, or nulls if the batch lacks it: files of a protocol have only its own
        struct."""
        place = self.batch.schema.get_field_index(column.path[0])
        if place < 0:
            return pa.nulls(self.batch.num_rows, _ARROW.get(column.kind, pa.null()))
        array = self.batch.column(place)
        for step in column.path[1:]:
            if array.type.get_field_index(step) < 0:
                return pa.nulls(self.batch.num_rows, _ARROW.get(column.kind, pa.null()))
            array = pc.struct_field(array, step)
        wanted = _ARROW.get(column.kind, array.type)
        return array if array.type == wanted else pc.cast(array, wanted)


def resolve(schema: pa.Schema, name: str) -> Column:
    """Return the column of a dotted name. Raises LookupError."""
    path = tuple(name.split("."))
    if schema.get_field_index(path[0]) < 0:
        raise LookupError(f"unknown column {path[0]!r}{_perhaps(schema, name)}")
    kind = schema.field(path[0]).type
    for place, step in enumerate(path[1:], 1):
        so_far = ".".join(path[:place])
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            raise LookupError(f"{so_far} is a list; its items cannot be filtered")
        if not pa.types.is_struct(kind):
            raise LookupError(f"{so_far} has no fields")
        if kind.get_field_index(step) < 0:
            raise LookupError(f"{so_far} has no field {step!r}{_perhaps(schema, name)}")
        kind = kind.field(step).type
    return Column(path, _kind(kind))


def _kind(kind: pa.DataType) -> Kind:
    types = pa.types
    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_integer(kind) and kind != pa.uint64():
        return "integer"
    if types.is_floating(kind):
        return "float"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes"
    if types.is_boolean(kind):
        return "bool"
    if (types.is_list(kind) or types.is_large_list(kind)) and _kind(kind.value_type) == "text":
        return "texts"
    return "other"


def near(schema: pa.Schema, name: str) -> list[str]:
    """Return the columns whose names are most similar to an unknown one."""
    known = list(_names(schema))
    last = name.rsplit(".", 1)[-1]
    same = [each for each in known if each.rsplit(".", 1)[-1] == last]
    close = get_close_matches(name, known, 3, 0.6)
    return list(dict.fromkeys([*close, *same]))[:3]


def _perhaps(schema: pa.Schema, name: str) -> str:
    found = near(schema, name)
    if not found:
        return f"; there are {', '.join(schema.names)}"
    return f"; did you mean {' or '.join(found)}?"


def _names(fields: Any, prefix: str = "") -> Iterator[str]:
    for field in fields:
        yield prefix + field.name
        if pa.types.is_struct(field.type):
            inner = [field.type.field(place) for place in range(field.type.num_fields)]
            yield from _names(inner, f"{prefix}{field.name}.")
