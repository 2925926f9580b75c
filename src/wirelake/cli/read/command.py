"""`wirelake read`: reads captures as tables."""

from __future__ import annotations

from typing import Any, Final

import click

from ..main import COMMANDS
from ..options import CONTEXT, FORMATS, Reading, open_option, reading_options

__all__ = ["TABLES", "command"]

TABLES: Final = (
    "messages", "packets", "calls", "deliveries", "connections", "tunnels", "faults", "coverage",
)  # fmt: skip
"""Every table."""

_HELP = f"""{COMMANDS["read"]}

FILE is a pcap or pcapng file, optionally compressed with gzip or zstd, or a folder of them. Several
files are read in order, as one capture. On a terminal, prints the first rows as a table; to a pipe,
one JSON object per line, in order of time. Bytes that cannot be decoded are not an error: they are
rows of the table `faults`. Exits 1 if a FILE is not a capture.

\b
Examples:
  wirelake read edge.pcapng
  wirelake read captures/ --table calls --filter 'latency_ns > 50ms'
  wirelake read tap.pcap --keys tap.keys --table messages -o messages.parquet
  wirelake read edge.pcapng --columns ts_ns,name,comet.auth.client_id --protocol comet --to csv
  wirelake read edge.pcapng --table connections --json | jq .client

\b
In JSON, times are integers (nanoseconds since 1970); ids are strings; bytes are text if they are
printable UTF-8, else {{"hex": "00ff"}}; nulls in structs are omitted. In CSV, nested values are
JSON.
"""


@click.command(name="read", help=_HELP, context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--table",
    type=click.Choice(TABLES),
    default="messages",
    show_default=True,
    help="Table to read.",
)
@click.option(
    "--filter",
    "condition",
    metavar="EXPR",
    help='Filter expression, such as status == "ok" and …',
)
@click.option(
    "--columns", metavar="A,B,C", help="Comma-separated columns; a.b is a field of a struct."
)
@click.option("--protocol", metavar="NAME", help="Only this protocol.")
@open_option
@reading_options
@click.option(
    "--to",
    "chosen",
    type=click.Choice(FORMATS),
    help="Output format.  [default: from the extension; table or json without -o]",
)
@click.option("-o", "--output", metavar="OUT", help="Output file.  [default: standard output]")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Number of processes.  [default: one per CPU]"
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help="Maximum rows (0: unlimited).  [default: 50 for a table, else unlimited]",
)
@click.option("--json", "as_json", is_flag=True, help="Same as --to json.")
def command(
    files: tuple[str, ...],
    table: str,
    condition: str | None,
    columns: str | None,
    protocol: str | None,
    include_open: bool,
    chosen: str | None,
    output: str | None,
    jobs: int | None,
    limit: int | None,
    as_json: bool,
    **reading: Any,
) -> int:
    """Read captures and write rows."""
    if as_json and chosen not in (None, "json"):
        raise click.UsageError(f"--json conflicts with --to {chosen}")
    from .run import Request, run

    return run(
        Request(
            files=files,
            table=table,
            condition=condition,
            columns=columns,
            protocol=protocol,
            include_open=include_open,
            format="json" if as_json else chosen,
            output=None if output == "-" else output,
            jobs=jobs,
            limit=limit,
            reading=Reading.of(**reading),
        )
    )
