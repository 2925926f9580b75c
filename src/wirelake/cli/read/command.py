"""`wirelake read`: reads captures as tables."""

from __future__ import annotations

import click

from ..live_inputs import find_inputs, open_inputs
from ..main import COMMANDS
from ..options import CONTEXT, Reading, follow_option, jobs_option, open_option
from .options import RowOptions, row_options

__all__ = ["command"]

_HELP = f"""{COMMANDS["read"]}

FILE is a pcap or pcapng file, optionally compressed with gzip or zstd, or a folder of them. Several
files are read in order, as one capture. On a terminal, prints the first rows as a table; to a pipe,
one JSON object per line. Rows are in order of time, or of --sort; Parquet and Arrow are written as
rows are decoded, unless --sort is given. Bytes that cannot be decoded are not an error: they are
rows of the table `faults`. Exits 1 if a FILE is not a capture.

FILE may also be a pipe, or - for standard input; with --follow, files are read on as they grow.
Rows are then written as they become final, until the pipe ends or Ctrl-C; several inputs are read
at the same time. Exits 1 if an input ends before its capture does.

\b
Examples:
  wirelake read edge.pcapng
  wirelake read captures/ --table calls --filter 'latency_ns > 50ms'
  wirelake read tap.pcap --keys tap.keys --table messages -o messages.parquet
  wirelake read edge.pcapng --columns ts_ns,name,comet.auth.client_id --protocol comet --to csv
  wirelake read edge.pcapng --table connections --json | jq .client
  wirelake read edge.pcapng --table calls --sort latency_ns:desc --limit 10
  sudo tcpdump -U --immediate-mode -i eth0 -w - | wirelake read - --filter 'kind == "request"'
  wirelake read --follow growing.pcap --table calls

\b
In JSON, times are integers (nanoseconds since 1970); ids are strings; bytes are text if they are
printable UTF-8, else {{"hex": "00ff"}}; nulls in structs are omitted. In CSV, nested values are
JSON.
"""


@click.command(name="read", help=_HELP, context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@row_options
@click.option(
    "--sort",
    metavar="COLUMN[:desc]",
    help="Column to sort by, or none: rows come as they are decoded.  [default: time]",
)
@open_option
@follow_option
@jobs_option
def command(
    files: tuple[str, ...],
    rows: RowOptions,
    reading: Reading,
    sort: str | None,
    include_open: bool,
    follow: bool,
    jobs: int | None,
) -> int:
    """Read captures and write rows."""
    found, live = find_inputs(files, include_open=include_open, follow=follow)
    if live and sort is not None:
        raise click.UsageError("--sort needs captures that have ended; leave it out")
    from .kernels import prepare_kernels

    prepare_kernels(found, live=live)
    from .run import Request, run

    request = Request(**vars(rows), named=files, files=found, sort=sort, jobs=jobs, reading=reading)
    if not live:
        return run(request)
    from .live import run_live

    return run_live(request, lambda: open_inputs(found, follow=follow))
