"""Conversion between Arrow and rows: batches of `messages` to rows, rows of engines to batches.

Columns are converted to Python lists as a whole: text through a dictionary, so that each distinct
value becomes one object; integers from their buffer; sparse columns from their few values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from .protocol_rules import rules_of
from .rows import FaultRow, MessageRow
from .schema import schema

__all__ = ["batch_from_rows", "fault_rows", "message_rows"]

_INTEGERS: Final = frozenset(
    {
        "ts_ns",
        "first_ns",
        "connection",
        "message_id",
        "reply_to",
        "size_bytes",
        "body_bytes",
        "tunnel_link",
        "missing_bytes",
    }
)
_COLUMNS: Final = tuple(name for name in MessageRow.__struct_fields__ if name != "fields")
_CHUNK: Final = 1_024
"""Rows converted at a time: few enough to stay in the CPU cache."""
_FAULT_COLUMNS: Final = FaultRow.__struct_fields__


def message_rows(batch: pa.RecordBatch) -> list[MessageRow]:
    """Return the rows of a batch of `messages`. Missing columns are null."""
    columns = [_column(batch, name) for name in _COLUMNS]
    fields = _fields(batch, columns[_COLUMNS.index("protocol")], columns[_COLUMNS.index("name")])
    return list(map(MessageRow, *columns, fields))


def fault_rows(batch: pa.RecordBatch) -> list[FaultRow]:
    """Return the rows of a batch of `faults` that have a direction and a time."""
    placed = pc.and_(pc.is_valid(batch.column("ts_ns")), pc.is_valid(batch.column("direction")))
    found = batch.filter(placed)
    return list(map(FaultRow, *(_column(found, name) for name in _FAULT_COLUMNS)))


def batch_from_rows(table: str, rows: Sequence[msgspec.Struct]) -> pa.RecordBatch:
    """Return the rows of an engine as a batch of their table."""
    columns = schema(table)
    chunks = [
        _columns_of(columns, rows[start : start + _CHUNK])
        for start in range(0, max(len(rows), 1), _CHUNK)
    ]
    arrays = [pa.concat_arrays(pieces) for pieces in zip(*chunks, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _columns_of(columns: pa.Schema, rows: Sequence[msgspec.Struct]) -> list[pa.Array]:
    return [pa.array(list(map(attrgetter(field.name), rows)), type=field.type) for field in columns]


# -- columns as lists ------------------------------------------------------------------------


def _column(batch: pa.RecordBatch, name: str) -> list[Any]:
    place = batch.schema.get_field_index(name)
    if place < 0:
        return [None] * batch.num_rows
    array = batch.column(place)
    if array.null_count == len(array):
        return [None] * len(array)
    if name == "ids":
        return _spread(array, _text_lists)
    return _integers(array) if name in _INTEGERS else _texts(array)


def _integers(array: pa.Array) -> list[Any]:
    if array.null_count:
        return _spread(array, _integers)
    values = pc.cast(array, pa.int64())
    return _numbers(values, "q", 8)


def _numbers(array: pa.Array, code: str, width: int) -> list[Any]:
    """Return integers from the buffer of an array without nulls."""
    start = array.offset * width
    view = memoryview(array.buffers()[1])[start : start + len(array) * width]
    return view.cast("B").cast(code).tolist()  # type: ignore[call-overload,no-any-return]


def _texts(array: pa.Array) -> list[Any]:
    coded = array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array)
    values = [*coded.dictionary.to_pylist(), None]
    numbers = pc.fill_null(pc.cast(coded.indices, pa.int32()), len(values) - 1)
    return [values[number] for number in _numbers(numbers, "i", 4)]


def _text_lists(array: pa.Array) -> list[Any]:
    flat = _texts(array.flatten())
    lists, start = [], 0
    for length in _integers(pc.list_value_length(array)):
        lists.append(flat[start : start + length])
        start += length
    return lists


def _spread(array: pa.Array, convert: Callable[[pa.Array], list[Any]]) -> list[Any]:
    """Convert the values that are not null; None elsewhere."""
    values: list[Any] = [None] * len(array)
    places = pc.indices_nonzero(pc.is_valid(array))
    for place, value in zip(_integers(places), convert(pc.take(array, places)), strict=True):
        values[place] = value
    return values


# -- the few fields that engines want of a protocol's struct -----------------------------------


def _fields(batch: pa.RecordBatch, protocols: list[Any], names: list[Any]) -> list[Any]:
    found: list[Any] = [None] * batch.num_rows
    wanted = {
        (protocol, name): paths
        for protocol in set(protocols) - {None}
        for name, paths in rules_of(protocol).fields.items()
    }
    places: dict[tuple[str, str], list[int]] = {pair: [] for pair in wanted}
    wanted_names = {name for _, name in wanted}
    for number, name in enumerate(names):
        if name in wanted_names and (protocols[number], name) in places:
            places[protocols[number], name].append(number)
    for (protocol, name), rows in places.items():
        column = batch.schema.get_field_index(protocol)
        if rows and column >= 0:
            struct = pc.take(batch.column(column), pa.array(rows, pa.int64()))
            for number, values in zip(rows, _wanted(struct, wanted[protocol, name]), strict=True):
                found[number] = values
    return found


def _wanted(struct: pa.Array, paths: Mapping[str, str]) -> list[dict[str, Any]]:
    columns = [_path(struct, path.split(".")) for path in paths.values()]
    return [dict(zip(paths, values, strict=True)) for values in zip(*columns, strict=True)]


def _path(array: pa.Array, path: Sequence[str]) -> list[Any]:
    """Return the values at a path; lists where the path goes through a list."""
    for number, step in enumerate(path):
        array = pc.struct_field(array, step.removesuffix("[]"))
        if step.endswith("[]"):
            return _nested(array, path[number + 1 :])
    return array.to_pylist()  # type: ignore[no-any-return]


def _nested(array: pa.Array, rest: Iterable[str]) -> list[Any]:
    flat = iter(_path(array.flatten(), list(rest)))
    lengths = pc.list_value_length(array).to_pylist()
    return [None if length is None else [next(flat) for _ in range(length)] for length in lengths]
