"""Runs `wirelake read` on live inputs, and `wirelake listen`: rows are written as they come.

Ctrl-C and SIGTERM stop the inputs: what has arrived is decoded and written, and then the command
ends with 0, as it does at the end of a pipe. A second Ctrl-C ends it at once.
"""

from __future__ import annotations

import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import BinaryIO, Final

import click
import pyarrow as pa

from wirelake.capture.live.inputs import STANDARD_INPUT, Input
from wirelake.columnar.read.parallel import read_live
from wirelake.columnar.read.reader import ReadOptions, table_schema
from wirelake.columnar.scan.live import LiveInputs

from ..errors import BAD_DATA, BAD_USAGE
from ..options import output_format
from ..output import rows as output
from ..output.text import counted, print_notice
from . import table_view
from .run import FaultCounter, Request, read_options, width_of

__all__ = ["run_live", "stopped_by_signals"]


def run_live(request: Request, open_sources: Callable[[], Sequence[Input]]) -> int:
    """Read live inputs and write rows until all of them have ended; return the exit code."""
    form = output_format(request.format, request.output, "--to", "-o")
    options = read_options(request)
    if options is None:
        return BAD_USAGE
    if form == "table" and options.columns is None:
        # Fewer columns may be final earlier.
        options = replace(options, columns=table_view.COLUMNS[options.table])
    on_tick = _check_output if request.output is None else _nothing
    with closing(LiveInputs(open_sources(), on_tick=on_tick)) as inputs:
        faults, seen = FaultCounter(), _Seen()
        with ExitStack() as stack:
            stream = stack.enter_context(output.output(request.output))
            stack.enter_context(stopped_by_signals(inputs.stop))
            windows = stack.enter_context(
                closing(
                    read_live(inputs, _with_order(options), on_faults=faults, on_messages=seen.add)
                )
            )
            count = _FORMATS[form](request, options, windows, stream)
    if request.output is not None:
        click.echo(f"{request.output}: {counted(count, 'row')}", err=True)
    all_read = not request.limit or count < request.limit
    if request.table != "faults":
        faults.report(request.named, all_read=all_read, again=False)
    if not all_read:  # how far the inputs were read beyond the limit is chance
        return 0
    _report_nothing(request, inputs, seen)
    return _report_problems(inputs)


class _Seen:
    """Counts the messages that were decoded, whatever the table and the filter."""

    def __init__(self) -> None:
        self.messages = 0

    def add(self, count: int) -> None:
        """Count messages."""
        self.messages += count


def _report_nothing(request: Request, inputs: LiveInputs, seen: _Seen) -> None:
    needs_messages = request.table not in ("packets", "faults", "coverage")
    if needs_messages and inputs.packets and not seen.messages:
        print_notice(
            f"{counted(inputs.packets, 'packet')}, but no message of a known protocol;"
            " --port PORT=PROTOCOL or --as PROTOCOL names it"
        )


def _report_problems(inputs: LiveInputs) -> int:
    """Return the exit code: 1 if the capture of an input is not complete, which is reported."""
    for name, problem in inputs.problems.items():
        print_notice(f"{'standard input' if name == STANDARD_INPUT else name}: {problem}")
    if inputs.problems and inputs.packets:
        print_notice("incomplete: the rows are those of what was read before")
    return BAD_DATA if inputs.problems else 0


# -- signals and the end of the output ---------------------------------------------------------

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first signal to end, and interrupt at the second."""
    stopped = False

    def end(*_: object) -> None:
        nonlocal stopped
        if stopped:
            raise KeyboardInterrupt
        stopped = True
        stop()

    before = {each: signal.signal(each, end) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _check_output() -> None:
    """Raise BrokenPipeError if nobody reads standard output any more.

    Writing would find out, too, but only with the next row, which may never come.
    """
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    if any(events & (select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0)):
        raise BrokenPipeError


def _nothing() -> None:
    """Do nothing: a file is read by nobody."""


# -- formats -----------------------------------------------------------------------------------


def _with_order(options: ReadOptions) -> ReadOptions:
    """Return options that also read the column by which rows are sorted."""
    names = table_schema(options).names
    column = output.ORDERS[options.table].column
    return options if column in names else replace(options, columns=(*names, column))


def _text(
    request: Request,
    options: ReadOptions,
    windows: output.Windows,
    stream: BinaryIO,
    begin: Callable[..., int],
    write: Callable[..., int],
) -> int:
    """Write rows one by one; those of a window are in order."""
    names = table_schema(options).names
    order = output.ORDERS[options.table]
    limit = request.limit or None
    count = begin([], stream, names, order, None)
    for window in windows:
        left = None if limit is None else limit - count
        count += write([window], stream, names, order, left)
        stream.flush()
        if count == limit:
            break
    return count


def _columnar(
    request: Request,
    options: ReadOptions,
    windows: output.Windows,
    stream: BinaryIO,
    write: Callable[..., int],
) -> int:
    """Write whole batches."""
    schema = table_schema(options)
    selected = ([batch.select(schema.names) for batch in window] for window in windows)
    return write(selected, stream, schema, request.limit or None)


def _table(
    request: Request, options: ReadOptions, windows: output.Windows, stream: BinaryIO
) -> int:
    """Write rows as lines of a table."""
    table = options.table
    names = table_schema(options).names
    importance = None if request.columns else table_view.IMPORTANCE[table]
    view = table_view.GrowingTable(stream, names, width_of(request), importance)
    count, limit = 0, request.limit or None
    for window in windows:
        batches = list(window)
        if batches:
            rows = pa.Table.from_batches(batches).sort_by(output.ORDERS[table].column)
            rows = rows.slice(0, None if limit is None else limit - count)
            view.write(rows)
            count += rows.num_rows
        if count == limit:
            break
    return count


_FORMATS: Final[dict[str, Callable[..., int]]] = {
    "table": _table,
    "json": partial(_text, begin=output.write_json, write=output.write_json),
    "csv": partial(_text, begin=output.write_csv, write=partial(output.write_csv, header=False)),
    "parquet": partial(_columnar, write=output.write_parquet),
    "arrow": partial(_columnar, write=output.write_arrow),
}
