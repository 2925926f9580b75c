"""What `wirelake read` does: options to rows, rows to where they are wanted, and notes about them.

Notes and progress go to standard error: how many rows were not shown, how many faults there were.
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

from wirelake.columnar.read.parallel import Progress, read_windows
from wirelake.columnar.read.reader import ReadOptions, table_schema
from wirelake.records.filter import FilterError

from ..errors import BAD_USAGE, CommandError
from . import view as read_view
from . import writers as read_writers
from .formatting import counted
from .inputs import Reading, captures

__all__ = ["Request", "Tally", "progress_bar", "run"]

_UNKNOWN_WIDTH: Final = 80
"""Of a terminal that does not say."""
_SUFFIXES: Final = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "table",
}
"""By the name of an output: its form."""


@dataclass(frozen=True)
class Request:
    """What is asked for, as it was given."""

    files: tuple[str, ...]
    table: str
    condition: str | None
    columns: str | None
    protocol: str | None
    form: str | None
    output: str | None
    jobs: int | None
    limit: int | None
    reading: Reading


class Tally:
    """Counts faults."""

    def __init__(self) -> None:
        self.codes: Counter[str] = Counter()

    def __call__(self, batch: pa.RecordBatch) -> None:
        """More of them."""
        for found in pc.value_counts(batch.column("code")).to_pylist():
            self.codes[found["values"]] += found["counts"]

    def note(self, files: tuple[str, ...], *, all_read: bool) -> None:
        """Says how many there were, if there were any."""
        count = self.codes.total()
        if not count:
            return
        kinds = ", ".join(f"{number:,} {code}" for code, number in self.codes.most_common(4))
        more = ", …" if len(self.codes) > 4 else ""
        so_far = "" if all_read else " so far"
        named = files[0] if len(files) == 1 else "…"
        click.echo(
            f"wirelake: {counted(count, 'fault')}{so_far} ({kinds}{more});"
            f" wirelake read {named} --table faults shows them",
            err=True,
        )


def run(request: Request) -> int:
    """Reads and writes; the exit code."""
    form = _form(request)
    try:
        options = _options(request)
    except FilterError as error:
        click.echo(f"wirelake: --filter: {_safe(str(error))}", err=True)
        return BAD_USAGE
    except ValueError as error:
        raise click.UsageError(f"--columns: {error}") from error
    files = captures(request.files)
    _check_output(request.output, files)
    tally = Tally()
    try:
        all_read = _FORMS[form](_Job(request, files, options, tally, _is_watched(request, form)))
    except ValueError as error:
        raise CommandError(str(error)) from error
    if request.table != "faults":
        tally.note(request.files, all_read=all_read)
    return 0


def _check_output(output: str | None, files: list[str]) -> None:
    """Refuses to write over what is read."""
    if output is not None and os.path.exists(output):
        for file in files:
            if os.path.samefile(output, file):
                raise CommandError(f"{output} is what is read: write somewhere else", BAD_USAGE)


def _form(request: Request) -> str:
    if request.form is not None:
        form = request.form
    elif request.output is not None:
        suffix = os.path.splitext(request.output)[1].lower()
        if suffix not in _SUFFIXES:
            known = ", ".join(_SUFFIXES)
            raise click.UsageError(
                f"{request.output}: its name does not tell the format ({known}): add --to"
            )
        form = _SUFFIXES[suffix]
    else:
        form = "table" if sys.stdout.isatty() else "json"
    if form in ("parquet", "arrow") and request.output is None and sys.stdout.isatty():
        raise click.UsageError(f"{form} is not for a terminal: add -o OUT")
    return form


def _options(request: Request) -> ReadOptions:
    reading = request.reading
    columns = request.columns
    names = None if columns is None else tuple(filter(None, map(str.strip, columns.split(","))))
    if names is not None and not names:
        raise ValueError("no column is named")
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


# -- forms -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Job:
    """All that a form of output needs."""

    request: Request
    files: list[str]
    options: ReadOptions
    tally: Tally
    watched: bool
    """Whether a bar would not get between lines."""

    @property
    def limit(self) -> int | None:
        """Rows at most; None for all."""
        return self.request.limit or None

    @contextmanager
    def windows(self, options: ReadOptions) -> Iterator[read_writers.Windows]:
        """What is read, with a bar meanwhile."""
        with progress_bar("read", wanted=self.watched) as progress:
            windows = read_windows(
                self.files,
                options,
                jobs=self.request.jobs,
                progress=progress,
                on_faults=self.tally,
            )
            with closing(windows):
                yield windows

    def written(self, count: int) -> bool:
        """Says what was written to a file; whether all was read."""
        if self.request.output is not None:
            click.echo(f"{self.request.output}: {counted(count, 'row')}", err=True)
        return self.limit is None or count < self.limit


def _text(job: _Job, write: Callable[..., int]) -> bool:
    """Row by row."""
    names = table_schema(job.options).names
    merged = read_writers.MERGED.get(job.options.table)
    options = job.options
    if merged is not None and merged not in names:
        options = replace(options, columns=(*names, merged))
    with read_writers.output(job.request.output) as stream, job.windows(options) as windows:
        count = write(windows, stream, names, merged, job.limit)
    return job.written(count)


def _columnar(job: _Job, write: Callable[..., int]) -> bool:
    """Batch by batch."""
    schema = table_schema(job.options)
    with read_writers.output(job.request.output) as stream, job.windows(job.options) as windows:
        count = write(windows, stream, schema, job.limit)
    return job.written(count)


def _table(job: _Job) -> bool:
    """The first rows, for a person."""
    table = job.options.table
    names = job.options.columns or read_view.COLUMNS[table]
    time = read_view.TIMES[table]
    options = replace(job.options, columns=tuple(dict.fromkeys((*names, time))))
    limit = read_view.ROWS if job.request.limit is None else job.limit
    first = read_view.First(table_schema(options), time, limit)
    with job.windows(options) as windows:
        for window in windows:
            for batch in window:
                first.add(batch)
    found = first.table()
    with read_writers.output(job.request.output) as stream:
        shown = read_view.write_table(stream, found, names, _width(job.request))
    told = counted(first.count, "row")
    if first.count > found.num_rows:
        told = f"{found.num_rows:,} of {told}, the first by {time}; --limit 0 shows all"
    click.echo(f"{told}{f'; times are of {shown.date}, UTC' if shown.date else ''}", err=True)
    if shown.hidden:
        click.echo(f"no room for {', '.join(shown.hidden)}; --columns chooses", err=True)
    return True


def _width(request: Request) -> int | None:
    """Of the terminal; None when there is none."""
    if request.output is not None or not sys.stdout.isatty():
        return None
    return os.get_terminal_size(sys.stdout.fileno()).columns or _UNKNOWN_WIDTH


_FORMS: Final[dict[str, Callable[[_Job], bool]]] = {
    "table": _table,
    "json": partial(_text, write=read_writers.write_json),
    "csv": partial(_text, write=read_writers.write_csv),
    "parquet": partial(_columnar, write=read_writers.write_parquet),
    "arrow": partial(_columnar, write=read_writers.write_arrow),
}


# -- progress --------------------------------------------------------------------------------


def _is_watched(request: Request, form: str) -> bool:
    """Whether a bar would not get between lines: rows go to a file, or come all at the end."""
    if request.output is not None or form == "table":
        return True
    return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)


@contextmanager
def progress_bar(name: str, *, wanted: bool = True) -> Iterator[Progress | None]:
    """A bar, when somebody is watching."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
