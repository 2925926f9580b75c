"""`wirelake read`: captures as tables."""

from __future__ import annotations

from typing import Any, Final

import click

from ..main import COMMANDS
from ..output.common import CONTEXT
from .inputs import Reading, reading_options

__all__ = ["FORMATS", "TABLES", "command"]

TABLES: Final = (
    "messages", "packets", "calls", "deliveries", "connections", "tunnels", "faults", "coverage",
)  # fmt: skip
"""Every table."""
FORMATS: Final = ("table", "json", "csv", "parquet", "arrow")
"""Every form of output."""

_HELP = f"""{COMMANDS["read"]}

FILE is a pcap or pcapng file, plain, in gzip or in zstd, or a folder of them; several are read one
after the other, as one capture. On a terminal the first rows are shown as a table; a pipe gets one
JSON object a line. Bytes that would not decode are no error: they are rows of the table faults.

\b
Examples:
  wirelake read edge.pcapng
  wirelake read captures/ --table calls --filter 'latency_ns > 50ms'
  wirelake read tap.pcap --keys tap.keys --table messages -o messages.parquet
  wirelake read edge.pcapng --columns ts_ns,name,comet.auth.client_id --protocol comet --to csv
  wirelake read edge.pcapng --table connections --json | jq .client

\b
In JSON, times are integers (ns since 1970); bytes are text when they are readable UTF-8, else
{{"hex": "00ff"}}; nulls inside of structs are left out. In CSV, what is nested is JSON.
"""


@click.command(name="read", help=_HELP, context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--table",
    type=click.Choice(TABLES),
    default="messages",
    show_default=True,
    help="Which table.",
)
@click.option(
    "--filter", "condition", metavar="EXPR", help='Only these rows: protocol == "comet" and …'
)
@click.option("--columns", metavar="A,B,C", help="Only these columns; a.b is a field of a struct.")
@click.option("--protocol", metavar="NAME", help="Only this protocol.")
@reading_options
@click.option(
    "--to",
    "form",
    type=click.Choice(FORMATS),
    help="How it is written; else the name of the output tells.",
)
@click.option("-o", "--output", metavar="OUT", help="Write here instead of to standard output.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes; one for each processor.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help="So many rows at most; 0 for all. A table has 50 unless this says otherwise.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --to json.")
def command(
    files: tuple[str, ...],
    table: str,
    condition: str | None,
    columns: str | None,
    protocol: str | None,
    form: str | None,
    output: str | None,
    jobs: int | None,
    limit: int | None,
    as_json: bool,
    **reading: Any,
) -> int:
    """Read, and write rows; the exit code."""
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --to {form}: which one?")
    from .run import Request, run

    return run(
        Request(
            files=files,
            table=table,
            condition=condition,
            columns=columns,
            protocol=protocol,
            form="json" if as_json else form,
            output=None if output == "-" else output,
            jobs=jobs,
            limit=limit,
            reading=Reading.of(**reading),
        )
    )
