"""Runs `wirelake read` on live inputs, and `wirelake listen`: rows are written as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import BinaryIO, Final

import click
import pyarrow as pa

from wirelake.capture.live.inputs import Input
from wirelake.columnar.read.parallel import read_live
from wirelake.columnar.read.reader import ReadOptions, table_schema

from ..errors import BAD_USAGE
from ..live_inputs import live_inputs, report_problems
from ..options import output_format
from ..output import rows as output
from ..output.text import counted, print_notice
from . import table_view
from .run import FaultCounter, MessageCounter, Request, read_options, width_of

__all__ = ["run_live"]


def run_live(request: Request, open_sources: Callable[[], Sequence[Input]]) -> int:
    """Read live inputs and write rows until all of them have ended; return the exit code."""
    form = output_format(request.format, request.output, "--to", "-o")
    options = read_options(request)
    if options is None:
        return BAD_USAGE
    output.check_output(request.output, request.files)
    if form == "table" and options.columns is None:
        # Fewer columns may be final earlier.
        options = replace(options, columns=table_view.COLUMNS[options.table])
    faults, messages = FaultCounter(), MessageCounter()
    with (
        live_inputs(open_sources, printing=request.output is None) as inputs,
        output.output(request.output) as stream,
        closing(
            read_live(inputs, _with_order(options), on_faults=faults, on_messages=messages.add)
        ) as windows,
    ):
        count = _FORMATS[form](request, options, windows, stream)
        if inputs.ended_empty:  # then the output is removed, as by any other interrupt
            raise KeyboardInterrupt
    if request.output is not None:
        click.echo(f"{request.output}: {counted(count, 'row')}", err=True)
    all_read = not request.limit or count < request.limit
    if request.table != "faults":
        faults.report(request.named, all_read=all_read, again=False)
    if not all_read:  # how far the inputs were read beyond the limit is chance
        return 0
    if inputs.packets:
        messages.report(request, counted(inputs.packets, "packet"))
    elif not inputs.problems:
        print_notice("no packet arrived")
    return report_problems(inputs)


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
