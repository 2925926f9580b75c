"""Arrow batches as plain values, for JSON and CSV.

    text, numbers, booleans     as they are; times stay integers, in nanoseconds
    bytes                       text when they are UTF-8 without control characters other than
                                white space, else {"hex": "00ff"}
    NaN and infinities          {"float": "nan"}
    structs                     objects, without nulls; the structs of other protocols are
                                omitted
    lists                       arrays

Values are converted column by column. A `messages` row has one struct per protocol and hundreds of
fields, nearly all of them null: only the non-null values of a struct are visited.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from .text import json_line

__all__ = ["bytes_value", "json_text", "rows_of", "values_of"]

_SLICE: Final = 1_024
"""Rows converted at a time, so that `--limit 10` does not convert a whole batch."""
_WHITE: Final = str.maketrans("", "", "\t\n\r")


def rows_of(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch, with the given columns."""
    for start in range(0, batch.num_rows, _SLICE):
        part = batch.slice(start, _SLICE)
        columns = [
            (name, pa.types.is_struct(part.column(name).type), values_of(part.column(name)))
            for name in names
        ]
        for at in range(part.num_rows):
            yield {
                name: values[at]
                for name, optional, values in columns
                if not optional or values[at] is not None
            }


def values_of(array: pa.Array) -> list[Any]:
    """Return the values of an array; None for null."""
    if not array.null_count:
        return _present(array)
    values: list[Any] = [None] * len(array)
    for place, value in _indexed(array):
        values[place] = value
    return values


def bytes_value(data: bytes) -> str | dict[str, str]:
    """Return bytes as text, or as hexadecimal digits."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
    return text if text.isprintable() or _printable(text) else {"hex": data.hex()}


def json_text(value: Any) -> str:
    """Return a value as JSON on one line, with control characters escaped."""
    import msgspec

    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() else json_line(value)


def _printable(text: str) -> bool:
    return text.translate(_WHITE).isprintable()


def _float(value: float) -> float | dict[str, str]:
    return value if math.isfinite(value) else {"float": str(value)}


def _present(array: pa.Array) -> list[Any]:
    """Return the values of an array without nulls."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(array)
    values: list[Any] = array.to_pylist()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [bytes_value(value) for value in values]
    if pa.types.is_floating(kind):
        return [_float(value) for value in values]
    return values


def _indexed(array: pa.Array) -> Iterator[tuple[int, Any]]:
    """Return the values that are not null, each with its index."""
    if array.null_count == len(array):
        return iter(())
    if not array.null_count:
        return enumerate(_present(array))
    places = pc.indices_nonzero(pc.is_valid(array))
    return zip(places.to_pylist(), _present(pc.take(array, places)), strict=True)


def _structs(array: pa.StructArray) -> list[Any]:
    rows: list[dict[str, Any]] = [{} for _ in range(len(array))]
    for field, column in zip(array.type, array.flatten(), strict=True):
        name = field.name
        for place, value in _indexed(column):
            rows[place][name] = value
    return rows


def _lists(array: pa.ListArray) -> list[Any]:
    flat = values_of(array.flatten())
    found: list[Any] = []
    start = 0
    for length in pc.list_value_length(array).to_pylist():
        found.append(flat[start : start + length])
        start += length
    return found
