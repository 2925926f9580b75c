"""Runs `wirelake read`: from options to rows in the chosen format.

Progress, the number of rows and the number of faults go to standard error.
"""

from __future__ import annotations

import os
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

from wirelake.capture.format.reader import is_capture
from wirelake.columnar.read.parallel import read_windows
from wirelake.columnar.read.reader import ReadOptions, table_schema
from wirelake.records.filter import FilterError

from ..errors import BAD_DATA, BAD_USAGE, CommandError
from ..options import Reading, captures, output_format
from ..output import rows as output
from ..output.text import byte_progress, counted, print_notice
from . import table_view

__all__ = ["FaultCounter", "Request", "run"]

_NOT_A_CAPTURE: Final = "unknown_file"
"""The fault of a file that is not a capture."""
_FALLBACK_WIDTH: Final = 80
"""Width of a terminal that does not report one."""


@dataclass(frozen=True)
class Request:
    """The options of the command."""

    files: tuple[str, ...]
    table: str
    condition: str | None
    columns: str | None
    protocol: str | None
    include_open: bool
    format: str | None
    output: str | None
    jobs: int | None
    limit: int | None
    reading: Reading


class FaultCounter:
    """Counts faults by code."""

    def __init__(self) -> None:
        self.codes: Counter[str] = Counter()

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Count the faults of a batch."""
        for each in pc.value_counts(batch.column("code")).to_pylist():
            self.codes[each["values"]] += each["counts"]

    def report(self, files: tuple[str, ...], *, all_read: bool) -> None:
        """Print the number of faults, if there are any."""
        del self.codes[_NOT_A_CAPTURE]  # reported by name, at the end
        count = self.codes.total()
        if not count:
            return
        kinds = ", ".join(f"{number:,} {code}" for code, number in self.codes.most_common(4))
        more = ", …" if len(self.codes) > 4 else ""
        so_far = "" if all_read else " so far"
        source = files[0] if len(files) == 1 else "…"
        print_notice(
            f"{counted(count, 'fault')}{so_far} ({kinds}{more});"
            f" for details: wirelake read {source} --table faults"
        )


def run(request: Request) -> int:
    """Read captures and write rows; return the exit code."""
    form = output_format(request.format, request.output, "--to", "-o")
    try:
        options = _options(request)
    except FilterError as error:
        click.echo(f"wirelake: --filter: {_safe(str(error))}", err=True)
        return BAD_USAGE
    except ValueError as error:
        raise click.UsageError(f"--columns: {error}") from error
    files = captures(request.files, include_open=request.include_open)
    _check_output(request.output, files)
    faults = FaultCounter()
    try:
        job = _Job(request, files, options, faults, _may_show_progress(request, form))
        all_read = _FORMATS[form](job)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if request.table != "faults":
        faults.report(request.files, all_read=all_read)
    return _check_formats(files)


def _check_formats(files: list[str]) -> int:
    """Return the exit code: 1 if a file is not a capture, which is reported."""
    # Damaged bytes in a capture are rows of `faults`; a wrong file is a mistake of the caller.
    others = [file for file in files if not is_capture(file)]
    for file in others:
        print_notice(f"{file}: not a capture: neither pcap nor pcapng")
    return BAD_DATA if others else 0


def _check_output(output: str | None, files: list[str]) -> None:
    """Refuse to overwrite an input."""
    if output is not None and os.path.exists(output):
        for file in files:
            if os.path.samefile(output, file):
                raise CommandError(f"output {output} is also an input", BAD_USAGE)


def _options(request: Request) -> ReadOptions:
    reading = request.reading
    columns = request.columns
    names = None if columns is None else tuple(filter(None, map(str.strip, columns.split(","))))
    if names is not None and not names:
        raise ValueError("empty list of columns")
    return ReadOptions(
        table=request.table,
        protocol=request.protocol,
        force_protocol=reading.force_protocol,
        ports=reading.ports,
        keys=reading.keys,
        dialects=reading.dialects,
        reveal=reading.reveal,
        columns=None if names is None else tuple(dict.fromkeys(names)),
        filter=request.condition,
    )


def _safe(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


# -- formats ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Job:
    """A request with its parsed options."""

    request: Request
    files: list[str]
    options: ReadOptions
    faults: FaultCounter
    show_progress: bool

    @property
    def limit(self) -> int | None:
        """Maximum rows; None is unlimited."""
        return self.request.limit or None

    @contextmanager
    def windows(self, options: ReadOptions) -> Iterator[output.Windows]:
        """Read the captures, with a progress bar."""
        with byte_progress("read", enabled=self.show_progress) as progress:
            windows = read_windows(
                self.files,
                options,
                jobs=self.request.jobs,
                progress=progress,
                on_faults=self.faults,
            )
            with closing(windows):
                yield windows

    def report(self, count: int) -> bool:
        """Report the rows of the output file; return whether everything was read."""
        if self.request.output is not None:
            click.echo(f"{self.request.output}: {counted(count, 'row')}", err=True)
        return self.limit is None or count < self.limit


def _text(job: _Job, write: Callable[..., int]) -> bool:
    """Write rows one by one."""
    # To sort rows, the column must be read even if the output does not have it.
    names = table_schema(job.options).names
    order = output.ORDERS[job.options.table]
    options = job.options
    if order.column not in names:
        options = replace(options, columns=(*names, order.column))
    with output.output(job.request.output) as stream, job.windows(options) as windows:
        count = write(windows, stream, names, order, job.limit)
    return job.report(count)


def _columnar(job: _Job, write: Callable[..., int]) -> bool:
    """Write whole batches."""
    schema = table_schema(job.options)
    with output.output(job.request.output) as stream, job.windows(job.options) as windows:
        count = write(windows, stream, schema, job.limit)
    return job.report(count)


def _table(job: _Job) -> bool:
    """Write the first rows as a text table."""
    table = job.options.table
    names = job.options.columns or table_view.COLUMNS[table]
    time = table_view.TIMES[table]
    options = replace(job.options, columns=tuple(dict.fromkeys((*names, time))))
    limit = table_view.DEFAULT_ROWS if job.request.limit is None else job.limit
    first = table_view.FirstRows(table_schema(options), time, limit)
    with job.windows(options) as windows:
        for window in windows:
            for batch in window:
                first.add(batch)
    rows = first.table()
    with output.output(job.request.output) as stream:
        importance = None if job.options.columns else table_view.IMPORTANCE[table]
        written = table_view.write_table(stream, rows, names, _width(job.request), importance)
    count = counted(first.count, "row")
    if first.count > rows.num_rows:
        count = f"first {rows.num_rows:,} of {count} by {time}; --limit 0 shows all"
    click.echo(f"{count}{f'; times are on {written.date} UTC' if written.date else ''}", err=True)
    if written.hidden:
        click.echo(f"hidden columns: {', '.join(written.hidden)}; --columns selects", err=True)
    return True


def _width(request: Request) -> int | None:
    """Return the width of the terminal; None if the output is not a terminal."""
    if request.output is not None or not sys.stdout.isatty():
        return None
    return os.get_terminal_size(sys.stdout.fileno()).columns or _FALLBACK_WIDTH


_FORMATS: Final[dict[str, Callable[[_Job], bool]]] = {
    "table": _table,
    "json": partial(_text, write=output.write_json),
    "csv": partial(_text, write=output.write_csv),
    "parquet": partial(_columnar, write=output.write_parquet),
    "arrow": partial(_columnar, write=output.write_arrow),
}


# -- progress --------------------------------------------------------------------------------


def _may_show_progress(request: Request, form: str) -> bool:
    """Return whether a bar cannot mix with rows: they go to a file, or all come at the end."""
    if request.output is not None or form == "table":
        return True
    return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
