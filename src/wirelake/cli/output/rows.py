"""Rows of Arrow batches as plain values, and their writers: JSON lines, CSV, Parquet and Arrow.

JSON and CSV are in order (`sorting.py`). Parquet and Arrow keep rows as they were decoded unless an
order is asked for: databases sort for themselves. A file is written to NAME.part and renamed when
it is complete.
"""

from __future__ import annotations

import csv
import io
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from wirelake.records.exact_json import exact, exact_array

from ..errors import BAD_USAGE, CommandError
from .sorting import RowOrder, sorted_batches
from .text import json_text, unsigned

__all__ = [
    "ORDERS",
    "RowOrder",
    "Windows",
    "bytes_value",
    "check_output",
    "output",
    "rows_of",
    "values_of",
    "write_arrow",
    "write_csv",
    "write_json",
    "write_parquet",
]


Windows = Iterable[Iterable[pa.RecordBatch]]
"""The batches of each window of a capture."""


ORDERS: Final = {
    "messages": RowOrder("ts_ns"),
    "packets": RowOrder("ts_ns"),
    "faults": RowOrder("ts_ns"),
    "coverage": RowOrder("first_ns"),
    "calls": RowOrder("request_ns"),
    "deliveries": RowOrder("first_sent_ns"),
    "connections": RowOrder("first_ns"),
    "tunnels": RowOrder("first_ns"),
}
"""By table: the order of text, JSON and CSV without --sort."""
_LINES_PER_WRITE: Final = 256


# -- lines: JSON and CSV -----------------------------------------------------------------------


def write_json(
    windows: Windows,
    stream: BinaryIO,
    names: Sequence[str],
    order: RowOrder | None,
    limit: int | None,
) -> int:
    """Write one object per row; return the number of rows."""
    lines = (json_text(row) + "\n" for row in _rows(windows, names, order, limit))
    return _write_lines(lines, stream)


def write_csv(
    windows: Windows,
    stream: BinaryIO,
    names: Sequence[str],
    order: RowOrder | None,
    limit: int | None,
    *,
    header: bool = True,
) -> int:
    """Write a header and a line per row, nested values as JSON; return the number of rows."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")

    def text(cells: Iterable[Any]) -> str:
        line.seek(0)
        line.truncate()
        writer.writerow(cells)
        return line.getvalue()

    if header:
        stream.write(text(names).encode())
    rows = _rows(windows, names, order, limit)
    return _write_lines((text(_cell(row.get(name)) for name in names) for row in rows), stream)


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json_text(value)
    return json_text(value) if isinstance(value, bool) else value


def _rows(
    windows: Windows, names: Sequence[str], order: RowOrder | None, limit: int | None
) -> Iterator[dict[str, Any]]:
    batches: Iterator[pa.RecordBatch] = (batch for window in windows for batch in window)
    if order is not None:
        batches = sorted_batches(batches, order, limit)
    rows = (row for batch in batches for row in rows_of(batch, names, exact=True))
    return islice(rows, limit)


def _write_lines(lines: Iterator[str], stream: BinaryIO) -> int:
    count = 0
    while chunk := list(islice(lines, _LINES_PER_WRITE)):
        stream.write("".join(chunk).encode())
        count += len(chunk)
    return count


# -- batches: Parquet and Arrow ----------------------------------------------------------------


def write_parquet(
    windows: Windows,
    stream: BinaryIO,
    schema: pa.Schema,
    limit: int | None,
    *,
    overlapped: bool = False,
) -> int:
    """Write Parquet, in a thread if `overlapped`; return the number of rows."""
    from wirelake.tables.parquet import ParquetOut

    count = 0
    with ParquetOut(stream, schema, overlapped=overlapped) as out:
        for batch in _limited(windows, limit):
            out.write(batch)
            count += batch.num_rows
    return count


def write_arrow(windows: Windows, stream: BinaryIO, schema: pa.Schema, limit: int | None) -> int:
    """Write Arrow, the stream format to a pipe and the file format to a file; return the rows."""
    make: Callable[..., Any] = pa.ipc.new_file if stream.seekable() else pa.ipc.new_stream
    count = 0
    with make(stream, schema) as writer:
        for batch in _limited(windows, limit):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _limited(windows: Windows, limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for window in windows:
        for batch in window:
            if left is None:
                yield batch
                continue
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)
            if left == 0:
                return


# -- files -------------------------------------------------------------------------------------


def check_output(path: str | None, files: Iterable[str]) -> None:
    """Refuse an output that cannot be written, or that is an input; before anything is read."""
    if path is None or path == "-":
        return
    _check_folder(Path(path))
    if os.path.isdir(path):
        raise CommandError(f"{path}: is a folder; expected a file", BAD_USAGE)
    if os.path.exists(path):
        for file in files:
            if os.path.exists(file) and os.path.samefile(path, file):
                raise CommandError(f"output {path} is also an input", BAD_USAGE)
    elif not os.access(Path(path).parent, os.W_OK):
        raise CommandError(f"{path}: no permission to write to this folder", BAD_USAGE)


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise CommandError(f"{path.parent}: no such folder", BAD_USAGE)


@contextmanager
def output(path: str | None) -> Iterator[BinaryIO]:
    """Open standard output, or a file that appears only if everything was written."""
    if path is None or path == "-":
        # Text that was printed is in the buffer of the text layer; bytes would overtake it.
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    if target.exists() and not target.is_file():  # a device or a pipe cannot be replaced
        with target.open("wb") as stream:
            yield stream
        return
    part = target.with_name(target.name + ".part")
    _check_folder(target)
    try:
        with part.open("wb") as stream:
            yield stream
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


# -- values ------------------------------------------------------------------------------------

# Struct columns are mostly null: `messages` has one struct for each protocol and one of them is
# set. So values are converted column by column, only where they are valid, instead of with
# `to_pylist` of the whole batch.

_SLICE: Final = 1_024
"""Rows converted at a time, so that `--limit 10` does not convert a whole batch."""
_WHITE: Final = str.maketrans("", "", "\t\n\r")


def rows_of(
    batch: pa.RecordBatch, names: Sequence[str], *, exact: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch, with the given columns; `exact` for JSON."""
    for start in range(0, batch.num_rows, _SLICE):
        part = batch.slice(start, _SLICE)
        columns = [
            (
                name,
                pa.types.is_struct(part.column(name).type),
                values_of(part.column(name), name if exact else None),
            )
            for name in names
        ]
        for at in range(part.num_rows):
            yield {
                name: values[at]
                for name, optional, values in columns
                if not optional or values[at] is not None
            }


def values_of(array: pa.Array, column: str | None = None) -> list[Any]:
    """Return the values of an array; None for null. With the name of its column, integers are
    those of JSON (`wirelake.records.exact_json`)."""
    if not array.null_count:
        return _present(array, column)
    values: list[Any] = [None] * len(array)
    for place, value in _indexed(array, column):
        values[place] = value
    return values


def bytes_value(data: bytes) -> str | dict[str, str]:
    """Return bytes as text, or as hexadecimal digits."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
    # An object, so that it cannot be confused with text that looks like hexadecimal digits.
    return text if text.isprintable() or _printable(text) else {"hex": data.hex()}


def _printable(text: str) -> bool:
    return text.translate(_WHITE).isprintable()


def _float(value: float) -> float | dict[str, str]:
    # JSON has no NaN and no infinity.
    return value if math.isfinite(value) else {"float": str(value)}


def _present(array: pa.Array, column: str | None) -> list[Any]:
    """Return the values of an array without nulls."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _structs(array, column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(array, column)
    if column is not None and pa.types.is_integer(kind):
        return exact_array(array, column)
    values: list[Any] = array.to_pylist()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [bytes_value(value) for value in values]
    if pa.types.is_floating(kind):
        return [_float(value) for value in values]
    return values


def _indexed(array: pa.Array, column: str | None) -> Iterator[tuple[int, Any]]:
    """Return the values that are not null, each with its index."""
    if array.null_count == len(array):
        return iter(())
    if not array.null_count:
        return enumerate(_present(array, column))
    places = pc.indices_nonzero(pc.is_valid(array))
    return zip(places.to_pylist(), _present(pc.take(array, places), column), strict=True)


def _structs(array: pa.StructArray, column: str | None) -> list[Any]:
    rows: list[dict[str, Any]] = [{} for _ in range(len(array))]
    # A self-describing value: its type says whether the integer is unsigned.
    is_value = {"parent", "type", "int"} <= {field.name for field in array.type}
    for field, values in zip(array.type, array.flatten(), strict=True):
        name = field.name
        plain = column is None or (is_value and name == "int")
        for place, value in _indexed(values, None if plain else name):
            rows[place][name] = value
    if is_value:
        for row in rows:
            if "int" in row:
                number = row["int"] if row["int"] >= 0 else unsigned(row["type"], row["int"])
                row["int"] = number if column is None else exact(number)
    return rows


def _lists(array: pa.ListArray, column: str | None) -> list[Any]:
    flat = values_of(array.flatten(), column)
    found: list[Any] = []
    start = 0
    for length in pc.list_value_length(array).to_pylist():
        found.append(flat[start : start + length])
        start += length
    return found
