"""Runs `wirelake read`: from options to rows in the chosen format.

Progress, the number of rows and the number of faults go to standard error.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import click
import pyarrow as pa
import pyarrow.compute as pc

from wirelake.columnar.read.parallel import read_windows
from wirelake.columnar.read.reader import ReadOptions, table_schema
from wirelake.records.filter import FilterError

from ..errors import BAD_USAGE, CommandError
from ..options import Reading, output_format
from ..output import rows as output
from ..output.sorting import RowOrder, sorted_batches
from ..output.sources import report_no_messages, report_other_files
from ..output.text import byte_progress, counted, names_text, print_notice
from . import table_view
from .options import RowOptions

__all__ = ["FaultCounter", "MessageCounter", "Request", "read_options", "run", "width_of"]

_NOT_A_CAPTURE: Final = "unknown_file"
"""The fault of a file that is not a capture."""
NO_ORDER: Final = "none"
"""Instead of a column to sort by: rows come as they are decoded, at once."""
_DESCENDING: Final = ":desc"
_FALLBACK_WIDTH: Final = 80
"""Width of a terminal that does not report one."""


@dataclass(frozen=True, kw_only=True)
class Request(RowOptions):
    """The options of the command."""

    named: tuple[str, ...]
    """The files and folders, as they were given."""
    files: list[str]
    """The captures."""
    reading: Reading
    jobs: int | None = None
    sort: str | None = None
    """A column, with `:desc` if descending; or NO_ORDER."""


class FaultCounter:
    """Counts faults by code."""

    def __init__(self) -> None:
        self.codes: Counter[str] = Counter()

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Count the faults of a batch."""
        for each in pc.value_counts(batch.column("code")).to_pylist():
            self.codes[each["values"]] += each["counts"]

    def report(self, files: tuple[str, ...], *, all_read: bool, again: bool = True) -> None:
        """Print the number of faults, if there are any; `again` if the files can be read again."""
        del self.codes[_NOT_A_CAPTURE]  # reported by name, at the end
        count = self.codes.total()
        if not count:
            return
        kinds = ", ".join(f"{number:,} {code}" for code, number in self.codes.most_common(4))
        more = ", …" if len(self.codes) > 4 else ""
        so_far = "" if all_read else " so far"
        source = shlex.quote(files[0]) if len(files) == 1 else "…"
        details = f"for details: wirelake read {source} --table faults" if again else ""
        print_notice(
            f"{counted(count, 'fault')}{so_far} ({kinds}{more});"
            f" {details or '--table faults shows them instead'}"
        )


class MessageCounter:
    """Counts the messages that were decoded, whatever the table and the filter."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int) -> None:
        """Count messages."""
        self._count += count

    def report(self, request: Request, where: str) -> None:
        """Say so if there was no message where the table is made from messages."""
        if not self._count and request.table not in ("packets", "faults", "coverage"):
            report_no_messages(where, request.files)


def run(request: Request) -> int:
    """Read captures and write rows; return the exit code."""
    form = output_format(request.format, request.output, "--to", "-o")
    options = read_options(request)
    if options is None:
        return BAD_USAGE
    _check_sort(request.sort, options)
    files = request.files
    output.check_output(request.output, files)
    faults, messages = FaultCounter(), MessageCounter()
    try:
        job = _Job(request, options, faults, messages, _may_show_progress(request, form))
        all_read = _FORMATS[form](job)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if request.table != "faults":
        faults.report(request.named, all_read=all_read)
    code = report_other_files(files)
    if all_read and not code:
        messages.report(request, names_text(request.named))
    return code


def read_options(request: Request) -> ReadOptions | None:
    """Return what to read; None if the filter is invalid, which is reported."""
    try:
        return _options(request)
    except FilterError as error:
        click.echo(f"wirelake: --filter: {_safe(str(error))}", err=True)
        return None
    except ValueError as error:
        raise click.UsageError(f"--columns: {error}") from error


def _options(request: Request) -> ReadOptions:
    columns = request.columns
    names = None if columns is None else tuple(filter(None, map(str.strip, columns.split(","))))
    if names is not None and not names:
        raise ValueError("empty list of columns")
    return request.reading.options(
        request.table,
        protocol=request.protocol,
        columns=None if names is None else tuple(dict.fromkeys(names)),
        filter=request.condition,
    )


def _check_sort(sort: str | None, options: ReadOptions) -> None:
    """Refuse to sort by a column that does not exist, or that has several values."""
    if sort is None or sort == NO_ORDER:
        return
    column = sort.removesuffix(_DESCENDING)
    try:
        [field] = table_schema(replace(options, columns=(column,)))
    except ValueError as error:
        raise click.UsageError(f"--sort: {error}") from error
    if pa.types.is_nested(field.type):
        raise click.UsageError(f"--sort: {column} has several values; expected one of its fields")


def _safe(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


# -- formats ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Job:
    """A request with its parsed options."""

    request: Request
    options: ReadOptions
    faults: FaultCounter
    messages: MessageCounter
    show_progress: bool

    @property
    def limit(self) -> int | None:
        """Maximum rows; None is unlimited."""
        return self.request.limit or None

    @property
    def order(self) -> RowOrder | None:
        """The order of rows; None if they come as they are decoded."""
        sort = self.request.sort
        if sort is None:
            return output.ORDERS[self.options.table]
        if sort == NO_ORDER:
            return None
        return RowOrder(sort.removesuffix(_DESCENDING), sort.endswith(_DESCENDING))

    def reading(self, order: RowOrder | None) -> ReadOptions:
        """Return what to read: to sort rows, their column as well if the output lacks it."""
        names = table_schema(self.options).names
        if order is None or order.column in names:
            return self.options
        return replace(self.options, columns=(*names, order.column))

    @contextmanager
    def windows(self, options: ReadOptions) -> Iterator[output.Windows]:
        """Read the captures, with a progress bar."""
        with byte_progress("read", enabled=self.show_progress) as progress:
            windows = read_windows(
                self.request.files,
                options,
                jobs=self.request.jobs,
                progress=progress,
                on_faults=self.faults,
                on_messages=self.messages.add,
            )
            with closing(windows):
                yield windows

    def report(self, count: int, *, in_order: bool) -> bool:
        """Report the rows of the output file; return whether everything was read, as it was if
        rows are in order."""
        if self.request.output is not None:
            click.echo(f"{self.request.output}: {counted(count, 'row')}", err=True)
        return in_order or self.limit is None or count < self.limit


def _text(job: _Job, write: Callable[..., int]) -> bool:
    """Write rows one by one."""
    names = table_schema(job.options).names
    order = job.order
    with output.output(job.request.output) as stream, job.windows(job.reading(order)) as windows:
        count = write(windows, stream, names, order, job.limit)
    return job.report(count, in_order=order is not None)


def _parquet(job: _Job) -> bool:
    """Write Parquet; with more than one job, while the next rows are decoded."""
    write = partial(output.write_parquet, overlapped=job.request.jobs != 1)
    return _columnar(job, write, coded=True)


def _columnar(job: _Job, write: Callable[..., int], coded: bool = False) -> bool:
    """Write whole batches; `coded` if the format has dictionaries for texts of its own."""
    schema = table_schema(job.options)
    order = job.order if job.request.sort else None
    options = replace(job.reading(order), coded=coded and order is None)
    with output.output(job.request.output) as stream, job.windows(options) as windows:
        rows: output.Windows = windows
        if order is not None:
            batches = (batch for window in windows for batch in window)
            found = sorted_batches(batches, order, job.limit)
            rows = [(batch.select(schema.names) for batch in found)]
        count = write(rows, stream, schema, job.limit)
    return job.report(count, in_order=order is not None)


def _table(job: _Job) -> bool:
    """Write the first rows as a text table."""
    table = job.options.table
    names = job.options.columns or table_view.COLUMNS[table]
    order = job.order or output.ORDERS[table]
    options = replace(job.options, columns=tuple(dict.fromkeys((*names, order.column))))
    limit = table_view.DEFAULT_ROWS if job.request.limit is None else job.limit
    first = table_view.FirstRows(table_schema(options), order, limit)
    with job.windows(options) as windows:
        for window in windows:
            for batch in window:
                first.add(batch)
    rows = first.table()
    with output.output(job.request.output) as stream:
        importance = None if job.options.columns else table_view.IMPORTANCE[table]
        written = table_view.write_table(stream, rows, names, width_of(job.request), importance)
    count = counted(first.count, "row")
    if first.count > rows.num_rows:
        count = f"first {rows.num_rows:,} of {count} by {order.column}; --limit 0 shows all"
    click.echo(f"{count}{f'; times are on {written.date} UTC' if written.date else ''}", err=True)
    if written.hidden:
        click.echo(f"hidden columns: {', '.join(written.hidden)}; --columns selects", err=True)
    return True


def width_of(request: Request) -> int | None:
    """Return the width of the terminal; None if the output is not a terminal."""
    if request.output is not None or not sys.stdout.isatty():
        return None
    return os.get_terminal_size(sys.stdout.fileno()).columns or _FALLBACK_WIDTH


_FORMATS: Final[dict[str, Callable[[_Job], bool]]] = {
    "table": _table,
    "json": partial(_text, write=output.write_json),
    "csv": partial(_text, write=output.write_csv),
    "parquet": _parquet,
    "arrow": partial(_columnar, write=output.write_arrow),
}


# -- progress --------------------------------------------------------------------------------


def _may_show_progress(request: Request, form: str) -> bool:
    """Return whether a bar cannot mix with rows: they go to a file, or all come at the end."""
    if request.output is not None or form == "table":
        return True
    return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
