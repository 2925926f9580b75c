"""Rows of any query as a table for people, or as values that JSON and CSV have.

Numbers in columns whose names end in `_ns` are shown as times, or as durations when they are too
small for a time; whatever else a query makes is shown as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from io import StringIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wirelake.records.schema import COMMON, TABLES

from ..read.formatting import (
    duration_text,
    printable,
    time_text,
)
from ..read.values import json_text, values_of

__all__ = ["ROWS", "shown", "terminal_width", "text_batch", "unique_names"]

ROWS: Final = 50
"""Rows that are shown unless more are asked for."""
_WIDEST: Final = 48
"""Characters of a cell that are shown when there is not room for all."""
_UNKNOWN_WIDTH: Final = 80
"""Of a terminal that does not say."""
_GAP: Final = 3
"""Characters between two columns."""
_TIMES: Final = frozenset(
    name for schema in (COMMON, *TABLES.values()) for name in schema.names if name.endswith("_ns")
) - {"latency_ns", "duration_ns", "handshake_ns", "from_ns", "below_ns"}
"""Columns of the tables that are times, however small."""
_YEARS_NS: Final = 10**17
"""Three years: what is longer is a time since 1970, no duration."""


def terminal_width() -> int | None:
    """Of standard output; None when that is no terminal."""
    if not sys.stdout.isatty():
        return None
    return os.get_terminal_size(sys.stdout.fileno()).columns or _UNKNOWN_WIDTH


def unique_names(schema: pa.Schema) -> pa.Schema:
    """The same columns, none of which has the name of another."""
    taken: set[str] = set()
    fields = []
    for field in schema:
        fields.append(field.with_name(_free(field.name, taken)))
        taken.add(fields[-1].name)
    return pa.schema(fields, schema.metadata)


def _free(name: str, taken: set[str]) -> str:
    candidates = (f"{name}_{number}" for number in range(1, len(taken) + 1))
    return name if name not in taken else next(each for each in candidates if each not in taken)


# -- values ----------------------------------------------------------------------------------


def text_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, where times, intervals and the like are text, and numbers are numbers."""
    arrays = [_plain(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _plain(array: pa.Array) -> pa.Array:
    kind = array.type
    if not _is_odd(kind):
        return array
    if pa.types.is_struct(kind):
        parts = [_plain(part) for part in array.flatten()]
        names = [field.name for field in kind]
        return pa.StructArray.from_arrays(parts, names=names, mask=array.is_null())
    if pa.types.is_list(kind):
        lengths = pc.cumulative_sum(pc.fill_null(pc.list_value_length(array), 0))
        starts = pa.concat_arrays([pa.array([0], lengths.type), lengths])
        return pa.ListArray.from_arrays(starts, _plain(array.flatten()), mask=array.is_null())
    if pa.types.is_dictionary(kind):
        return _plain(array.dictionary_decode())
    if pa.types.is_decimal(kind):
        return _number(array)
    if pa.types.is_interval(kind):
        return pa.array(map(_interval, array.to_pylist()), pa.string())
    return pc.cast(array, pa.string())


def _is_odd(kind: pa.DataType) -> bool:
    """Whether there is something in it that JSON does not have."""
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return any(_is_odd(kind.field(at).type) for at in range(kind.num_fields))
    is_odd = pa.types.is_temporal(kind) or pa.types.is_decimal(kind) or pa.types.is_dictionary(kind)
    return bool(is_odd)


def _interval(value: Any) -> str | None:
    if value is None:
        return None
    parts = [(value.months, "months"), (value.days, "days"), (value.nanoseconds / 1e9, "seconds")]
    return " ".join(f"{amount:g} {unit}" for amount, unit in parts if amount) or "0 seconds"


def _number(array: pa.Array) -> pa.Array:
    """A decimal as an integer if it is one, and fits; else as a float."""
    try:
        return pc.cast(array, pa.int64())
    except pa.ArrowInvalid:
        return pc.cast(array, pa.float64())


# -- a table ---------------------------------------------------------------------------------


def shown(table: pa.Table, width: int | None) -> tuple[str, list[str]]:
    """A table as text, and the columns that there was no room for."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    columns = dict(_cells(table))
    names = _fitting(columns, width)
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in names:
        drawn.add_column(
            _text(printable(name)),
            justify="right" if _is_number(table.schema.field(name)) else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=None if width is None else min(_WIDEST, width),
        )
    for row in zip(*(columns[name] for name in names), strict=True):
        drawn.add_row(*map(_text, row))
    stream = StringIO()
    console = Console(
        file=stream,
        width=width or sum(_width(columns[name], name) + _GAP for name in names),
        force_terminal=width is not None,
        no_color=width is None,
        highlight=False,
    )
    console.print(drawn)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    return "".join(f"{line}\n" for line in lines), [each for each in columns if each not in names]


def _text(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def _cells(table: pa.Table) -> Iterator[tuple[str, list[str]]]:
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = _plain(column.combine_chunks())
        yield name, [_cell(name, value) for value in values_of(array)]


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, int | float) and name.endswith("_ns"):
        whole = round(value)
        is_time = name in _TIMES or whole >= _YEARS_NS
        return time_text(whole) if is_time else duration_text(whole)
    return printable(value if isinstance(value, str) else json_text(value))


def _is_number(field: pa.Field) -> bool:
    kind = field.type
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _fitting(columns: dict[str, list[str]], width: int | None) -> list[str]:
    """The first columns that fit; one at least."""
    if width is None:
        return list(columns)
    names: list[str] = []
    left = width
    for name, cells in columns.items():
        left -= min(_width(cells, name), _WIDEST) + (_GAP if names else 0)
        if names and left < 0:
            break
        names.append(name)
    return names


def _width(cells: list[str], name: str) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, [printable(name), *cells]))
