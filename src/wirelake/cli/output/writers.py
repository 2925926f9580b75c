"""Writers of rows: JSON lines, CSV, Parquet and Arrow, to a file or standard output.

JSON and CSV sort the rows of each window of a capture by time or file offset; Parquet and Arrow
keep them as they were decoded, protocol by protocol, because sorting would need all columns in one
batch. All write as they go. A file is written to NAME.part and renamed when it is complete.
"""

from __future__ import annotations

import csv
import heapq
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import click
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import BAD_USAGE, CommandError
from .tree import json_text, rows_of

__all__ = [
    "FORMATS",
    "SORT_COLUMNS",
    "Windows",
    "output",
    "output_format",
    "write_arrow",
    "write_csv",
    "write_json",
    "write_parquet",
]


Windows = Iterable[Iterable[pa.RecordBatch]]
"""The batches of each window of a capture."""

SORT_COLUMNS: Final = {"messages": "ts_ns", "packets": "offset"}
"""By table: the column that orders the rows of a window."""
_LINES_PER_WRITE: Final = 256


# -- text ------------------------------------------------------------------------------------


def write_json(
    windows: Windows,
    stream: BinaryIO,
    names: Sequence[str],
    sort_column: str | None,
    limit: int | None,
) -> int:
    """Write one object per row; return the number of rows."""
    lines = (json_text(row) + "\n" for row in _rows(windows, names, sort_column, limit))
    return _write_lines(lines, stream)


def write_csv(
    windows: Windows,
    stream: BinaryIO,
    names: Sequence[str],
    sort_column: str | None,
    limit: int | None,
) -> int:
    """Write a header and a line per row, nested values as JSON; return the number of rows."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")

    def text(cells: Iterable[Any]) -> str:
        line.seek(0)
        line.truncate()
        writer.writerow(cells)
        return line.getvalue()

    stream.write(text(names).encode())
    rows = _rows(windows, names, sort_column, limit)
    return _write_lines((text(_cell(row.get(name)) for name in names) for row in rows), stream)


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json_text(value)
    return json_text(value) if isinstance(value, bool) else value


def _rows(
    windows: Windows, names: Sequence[str], sort_column: str | None, limit: int | None
) -> Iterator[dict[str, Any]]:
    rows = (row for window in windows for row in _window_rows(window, names, sort_column))
    return islice(rows, limit)


def _window_rows(
    window: Iterable[pa.RecordBatch], names: Sequence[str], sort_column: str | None
) -> Iterator[dict[str, Any]]:
    if sort_column is None:
        for batch in window:
            yield from rows_of(batch, names)
        return
    keyed = (_keyed(batch, names, sort_column) for batch in window)
    for _, row in heapq.merge(*keyed, key=lambda pair: pair[0]):
        yield row


def _keyed(
    batch: pa.RecordBatch, names: Sequence[str], sort_column: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    keys = batch.column(sort_column)
    if pc.any(pc.less(keys[1:], keys[:-1])).as_py():  # rows held back behind a gap come late
        batch = batch.take(pc.sort_indices(batch, [(sort_column, "ascending")]))
    return zip(batch.column(sort_column).to_pylist(), rows_of(batch, names), strict=True)


def _write_lines(lines: Iterator[str], stream: BinaryIO) -> int:
    count = 0
    while chunk := list(islice(lines, _LINES_PER_WRITE)):
        stream.write("".join(chunk).encode())
        count += len(chunk)
    return count


# -- columns ---------------------------------------------------------------------------------


def write_parquet(windows: Windows, stream: BinaryIO, schema: pa.Schema, limit: int | None) -> int:
    """Write Parquet; return the number of rows."""
    from wirelake.tables.parquet import ParquetOut

    count = 0
    with ParquetOut(stream, schema) as out:
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


# -- files -----------------------------------------------------------------------------------


@contextmanager
def output(path: str | None) -> Iterator[BinaryIO]:
    """Open standard output, or a file that appears only if everything was written."""
    if path is None or path == "-":
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
    if not target.parent.is_dir():
        raise CommandError(f"{target.parent}: no such folder", BAD_USAGE)
    try:
        with part.open("wb") as stream:
            yield stream
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


# Output formats of rows, and the file extensions that stand for them.


FORMATS: Final = ("table", "json", "csv", "parquet", "arrow")
"""Every output format."""
_BINARY: Final = ("parquet", "arrow")
_EXTENSIONS: Final = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "table",
}
"""Formats by the extension of the output file."""


def output_format(
    chosen: str | None, output: str | None, format_option: str, output_option: str
) -> str:
    """Return the chosen format, or the default for the output file, terminal or pipe."""
    if chosen is None and output is not None:
        extension = os.path.splitext(output)[1].lower()
        if extension not in _EXTENSIONS:
            raise click.UsageError(
                f"{output}: cannot infer the format; expected an extension of"
                f" {', '.join(_EXTENSIONS)}, or {format_option}"
            )
        chosen = _EXTENSIONS[extension]
    name = chosen or ("table" if sys.stdout.isatty() else "json")
    if name in _BINARY and output is None and sys.stdout.isatty():
        raise click.UsageError(f"{name} cannot be written to a terminal: add {output_option} FILE")
    return name
