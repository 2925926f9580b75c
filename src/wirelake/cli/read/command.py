"""`wirelake read`: reads captures as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import click

from wirelake.capture.live.inputs import is_live

from ..live_inputs import check_inputs, open_inputs
from ..main import COMMANDS
from ..options import CONTEXT, FORMATS, Reading, captures, open_option, reading_options

__all__ = ["TABLES", "chosen_format", "command", "row_options"]

Command: TypeAlias = Callable[..., Any]

TABLES: Final = (
    "messages", "packets", "calls", "deliveries", "connections", "tunnels", "faults", "coverage",
)  # fmt: skip
"""Every table."""

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


def row_options(command: Command) -> Command:
    """Add the options that say which rows are written, and how."""
    added = (
        click.option(
            "--table",
            type=click.Choice(TABLES),
            default="messages",
            show_default=True,
            help="Table to read.",
        ),
        click.option(
            "--filter",
            "condition",
            metavar="EXPR",
            help='Filter expression, such as status == "ok" and …',
        ),
        click.option(
            "--columns",
            metavar="A,B,C",
            help="Comma-separated columns; a.b is a field of a struct.",
        ),
        click.option("--protocol", metavar="NAME", help="Only this protocol."),
        reading_options,
        click.option(
            "--to",
            "chosen",
            type=click.Choice(FORMATS),
            help="Output format.  [default: from the extension; table or json without -o]",
        ),
        click.option(
            "-o", "--output", metavar="OUT", help="Output file.  [default: standard output]"
        ),
        click.option(
            "--limit",
            type=click.IntRange(min=0),
            help="Maximum rows (0: unlimited).  [default: 50 for a table of files, else unlimited]",
        ),
        click.option("--json", "as_json", is_flag=True, help="Same as --to json."),
    )
    for each in reversed(added):
        command = each(command)
    return command


def chosen_format(chosen: str | None, *, as_json: bool) -> str | None:
    """Return the format of `--to` and `--json`."""
    if as_json and chosen not in (None, "json"):
        raise click.UsageError(f"--json conflicts with --to {chosen}")
    return "json" if as_json else chosen


@click.command(name="read", help=_HELP, context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@row_options
@click.option(
    "--sort",
    metavar="COLUMN[:desc]",
    help="Column to sort by, or none: rows come as they are decoded.  [default: time]",
)
@open_option
@click.option("--follow", is_flag=True, help="Read files on as they grow.")
@click.option("--jobs", type=click.IntRange(min=1), help="Number of CPUs to use.  [default: all]")
def command(
    files: tuple[str, ...],
    table: str,
    condition: str | None,
    columns: str | None,
    protocol: str | None,
    sort: str | None,
    include_open: bool,
    chosen: str | None,
    output: str | None,
    jobs: int | None,
    limit: int | None,
    as_json: bool,
    follow: bool,
    **reading: Any,
) -> int:
    """Read captures and write rows."""
    form = chosen_format(chosen, as_json=as_json)
    check_inputs(files, follow=follow)
    found = captures(files, include_open=include_open, standard_input=True)
    live = follow or any(map(is_live, found))
    if live and sort is not None:
        raise click.UsageError("--sort needs captures that have ended; leave it out")
    from .kernels import prepare_kernels

    prepare_kernels(found, live=live)
    from .run import Request, run

    request = Request(
        named=files,
        files=found,
        table=table,
        condition=condition,
        columns=columns,
        protocol=protocol,
        sort=sort,
        format=form,
        output=None if output == "-" else output,
        jobs=jobs,
        limit=limit,
        reading=Reading.of(**reading),
    )
    if not live:
        return run(request)
    from .live import run_live

    return run_live(request, lambda: open_inputs(found, follow=follow))
