"""Runs SQL queries over a lake with DuckDB or Spark, and writes the resulting rows.

Columns whose names end in `_ns` are shown as times, or as durations if they are too small for a
time; all other values are shown as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, Self

import click
import pyarrow as pa
import pyarrow.compute as pc

from wirelake.records.schema import COMMON, TABLES

from ..errors import BAD_DATA, BAD_USAGE, CommandError
from ..output import rows as output
from ..output.text import counted, duration_text, json_text, print_notice, printable, time_text

if TYPE_CHECKING:
    import duckdb

__all__ = [
    "ResultWriter",
    "query_duckdb",
    "query_error",
    "query_spark",
    "text_batch",
    "text_table",
    "unique_names",
]


_DEFAULT_ROWS: Final = 50
"""Rows of a table without --limit."""
_MAX_CELL_WIDTH: Final = 48
"""Widest cell on a terminal that is too narrow for all columns."""
_FALLBACK_WIDTH: Final = 80
"""Width of a terminal that does not report one."""
_GAP: Final = 3
"""Characters between two columns."""
_TIMES: Final = frozenset(
    name for schema in (COMMON, *TABLES.values()) for name in schema.names if name.endswith("_ns")
) - {"latency_ns", "duration_ns", "handshake_ns", "from_ns", "below_ns"}
"""Columns of our tables that are times, however small."""
_THREE_YEARS_NS: Final = 10**17
"""Larger values are times since 1970, smaller ones durations."""
_BATCH_ROWS: Final = 16_384
_POLL_S: Final = 0.1
"""How often the thread of a query is looked at, and how often it is told to end."""


def query_duckdb(db: duckdb.DuckDBPyConnection, query: str, writer: ResultWriter) -> int:
    """Run a query in a database; return the exit code."""
    import duckdb

    with _Thread(db) as thread:
        try:
            relation = thread.run(db.sql, query)
            if relation is None:
                raise CommandError("empty query", BAD_USAGE)
        except duckdb.Error as error:
            return query_error(str(error))
        # From here on the query is right; what fails is due to the rows.
        rows: _Rows | None = None
        try:
            rows = _Rows(thread, thread.run(relation.to_arrow_reader, _BATCH_ROWS))
            writer.write(rows.schema, rows)
        except (duckdb.Error, _FailedError) as error:
            query_error(str(error))
            if rows is not None and rows.count and writer.streams:
                print_notice(
                    f"the output is incomplete: it ends after {counted(rows.count, 'row')}"
                )
            return BAD_DATA
    return 0


class _Thread:
    """The thread that uses a database. The main thread waits for it, and can be interrupted: while
    Arrow reads rows of a long query from DuckDB, Python handles no signals."""

    def __init__(self, db: duckdb.DuckDBPyConnection):
        self._db = db
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Return what a call returns; an exception in the main thread ends its query."""
        future = self._pool.submit(call, *args)
        try:
            # Not without end: a signal just before a wait is only seen after it.
            while not wait([future], _POLL_S).done:
                pass
            return future.result()
        finally:
            # Repeated: it is lost if the query has not begun yet.
            while not future.done():
                self._db.interrupt()
                wait([future], _POLL_S)


class _FailedError(Exception):
    """A query failed while its rows were read."""


class _Rows:
    """The rows of a query. What fails in DuckDB is kept apart from what fails while writing."""

    def __init__(self, thread: _Thread, reader: pa.RecordBatchReader):
        self._thread = thread
        self._reader = reader
        self.schema = reader.schema
        self.count = 0
        """Rows that were taken."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        import duckdb

        while True:
            try:
                batch = self._thread.run(_next, self._reader)
            # Arrow reports errors of DuckDB as OSError.
            except (OSError, duckdb.Error) as error:
                raise _FailedError(str(error)) from error
            if batch is None:
                return
            yield batch
            self.count += batch.num_rows


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    return next(reader, None)  # a future cannot hold StopIteration


def query_spark(lake: str, query: str, commit: int | None, writer: ResultWriter) -> int:
    """Run a query with Spark; return the exit code."""
    from wirelake.tables.log import Log

    from .run import LazySession, check_spark, reason

    check_spark("--spark", "DuckDB, the default, does not need it")
    Log(lake).snapshot(commit)  # fails before Spark starts, which takes 10 s
    with LazySession("wirelake lake sql", master=None, remote=None, conf={}) as session:
        spark = session.start()
        from wirelake.lake.spark.dataframes import create_views

        create_views(spark, lake, commit)
        try:
            frame: Any = spark.sql(query)
            # `toArrow` collects all rows on the driver, so the limit belongs into the query. A
            # table needs the number of all rows.
            if writer.format != "table" and writer.max_rows is not None:
                frame = frame.limit(writer.max_rows)
            table: pa.Table = frame.toArrow()
        except Exception as error:
            return query_error(reason(error))
        writer.write(table.schema, table.to_batches())
    return 0


def query_error(text: str) -> int:
    """Print the error of a query, with the lines that point at the mistake."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines or ["the query failed"]):
        safe = "".join(c if c.isprintable() else "?" for c in line)
        click.echo(safe if number else f"wirelake: {safe}", err=True)
    return BAD_USAGE


# -- output ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResultWriter:
    """Writes the rows of a query in one format."""

    format: str
    output: str | None
    limit: int | None
    """Maximum rows; 0 is unlimited, None the default of the format."""

    def write(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Write all rows, and report their number."""
        named = unique_names(schema)
        renamed = (pa.RecordBatch.from_arrays(each.columns, schema=named) for each in batches)
        _FORMATS[self.format](self, named, renamed)

    @property
    def streams(self) -> bool:
        """Whether rows are printed before the last one is known."""
        return self.output is None and self.format != "table"

    @property
    def max_rows(self) -> int | None:
        """Maximum rows; None is unlimited."""
        return self.limit or None

    def report(self, count: int) -> None:
        """Report the number of rows in the output file."""
        if self.output is not None:
            click.echo(f"{self.output}: {counted(count, 'row')}", err=True)


def _table(writer: ResultWriter, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    """Write the first rows as a text table, and count the others."""
    max_rows = _DEFAULT_ROWS if writer.limit is None else writer.max_rows
    shown: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if max_rows is None or count < max_rows:
            shown.append(batch.slice(0, None if max_rows is None else max_rows - count))
        count += batch.num_rows
    table = pa.Table.from_batches(shown, schema)
    width = None if writer.output is not None else terminal_width()
    text, hidden = text_table(table, width)
    with output.output(writer.output) as stream:
        stream.write(text.encode())
    rows = counted(count, "row")
    if count > table.num_rows:
        rows = f"{table.num_rows:,} of {rows}; --limit 0 shows all"
    click.echo(rows, err=True)
    if hidden:
        click.echo(f"hidden columns: {', '.join(hidden)}; --json shows all", err=True)


def _text(
    writer: ResultWriter,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    write: Callable[..., int],
) -> None:
    with output.output(writer.output) as stream:
        plain = (text_batch(each) for each in batches)
        count = write([plain], stream, schema.names, None, writer.max_rows)
    writer.report(count)


def _columnar(
    writer: ResultWriter,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    write: Callable[..., int],
) -> None:
    try:
        with output.output(writer.output) as stream:
            count = write([batches], stream, schema, writer.max_rows)
    except pa.ArrowNotImplementedError as error:
        raise CommandError(
            f"{writer.format} does not support a type of the result: {error}", BAD_USAGE
        ) from error
    writer.report(count)


_FORMATS: Final[dict[str, Callable[[ResultWriter, pa.Schema, Iterator[pa.RecordBatch]], None]]] = {
    "table": _table,
    "json": partial(_text, write=output.write_json),
    "csv": partial(_text, write=output.write_csv),
    "parquet": partial(_columnar, write=output.write_parquet),
    "arrow": partial(_columnar, write=output.write_arrow),
}


# -- values and tables -----------------------------------------------------------------------


def terminal_width() -> int | None:
    """Return the width of standard output; None if it is not a terminal."""
    if not sys.stdout.isatty():
        return None
    return os.get_terminal_size(sys.stdout.fileno()).columns or _FALLBACK_WIDTH


def unique_names(schema: pa.Schema) -> pa.Schema:
    """Return the schema with duplicate column names made unique."""
    # SQL allows them (`SELECT a.id, b.id`); JSON objects and Parquet files do not.
    taken: set[str] = set()
    fields = []
    for field in schema:
        fields.append(field.with_name(_unique(field.name, taken)))
        taken.add(fields[-1].name)
    return pa.schema(fields, schema.metadata)


def _unique(name: str, taken: set[str]) -> str:
    candidates = (f"{name}_{number}" for number in range(1, len(taken) + 1))
    return name if name not in taken else next(each for each in candidates if each not in taken)


def text_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with types that JSON does not have converted to text and numbers."""
    arrays = [_plain(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _plain(array: pa.Array) -> pa.Array:
    kind = array.type
    if not _needs_conversion(kind):
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


def _needs_conversion(kind: pa.DataType) -> bool:
    """Return whether a type contains one that JSON does not have."""
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return any(_needs_conversion(kind.field(at).type) for at in range(kind.num_fields))
    found = pa.types.is_temporal(kind) or pa.types.is_decimal(kind) or pa.types.is_dictionary(kind)
    return bool(found)


def _interval(value: Any) -> str | None:
    if value is None:
        return None
    parts = [(value.months, "months"), (value.days, "days"), (value.nanoseconds / 1e9, "seconds")]
    return " ".join(f"{amount:g} {unit}" for amount, unit in parts if amount) or "0 seconds"


def _number(array: pa.Array) -> pa.Array:
    """Return a decimal as int64 if it fits, else as float64."""
    try:
        return pc.cast(array, pa.int64())
    except pa.ArrowInvalid:
        return pc.cast(array, pa.float64())


def text_table(table: pa.Table, width: int | None) -> tuple[str, list[str]]:
    """Return a table as text, and the columns that did not fit."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    columns = dict(_cells(table))
    names = _fitting(columns, width)
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in names:
        drawn.add_column(
            _rich_text(printable(name)),
            justify="right" if _is_number(table.schema.field(name)) else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=None if width is None else min(_MAX_CELL_WIDTH, width),
        )
    for row in zip(*(columns[name] for name in names), strict=True):
        drawn.add_row(*map(_rich_text, row))
    stream = StringIO()
    console = Console(
        file=stream,
        # Without a terminal nothing is cut: the table is as wide as its values.
        width=width or sum(_width(columns[name], name) + _GAP for name in names),
        force_terminal=width is not None,
        no_color=width is None,
        highlight=False,
    )
    console.print(drawn)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    return "".join(f"{line}\n" for line in lines), [each for each in columns if each not in names]


def _rich_text(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def _cells(table: pa.Table) -> Iterator[tuple[str, list[str]]]:
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = _plain(column.combine_chunks())
        yield name, [_cell(name, value) for value in output.values_of(array)]


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, int | float) and name.endswith("_ns"):
        whole = round(value)
        # A query may rename columns and compute new ones: the size of the value decides then.
        is_time = name in _TIMES or whole >= _THREE_YEARS_NS
        return time_text(whole) if is_time else duration_text(whole)
    return printable(value if isinstance(value, str) else json_text(value))


def _is_number(field: pa.Field) -> bool:
    kind = field.type
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _fitting(columns: dict[str, list[str]], width: int | None) -> list[str]:
    """Return the first columns that fit, at least one."""
    if width is None:
        return list(columns)
    names: list[str] = []
    left = width
    for name, cells in columns.items():
        left -= min(_width(cells, name), _MAX_CELL_WIDTH) + (_GAP if names else 0)
        if names and left < 0:
            break
        names.append(name)
    return names


def _width(cells: list[str], name: str) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, [printable(name), *cells]))
