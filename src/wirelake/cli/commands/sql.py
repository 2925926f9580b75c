"""`wirelake sql`: queries captures, as `wirelake lake sql` does a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..capture_lake import Captures, capture_options
from ..lake.sql import FUNCTIONS, query_options, query_text
from ..main import COMMANDS
from ..options import CONTEXT

if TYPE_CHECKING:
    from ..lake.query import ResultWriter

__all__ = ["command"]

_HELP = f"""{COMMANDS["sql"]}

FILE is a capture, or a folder of captures, as for `wirelake read`; QUERY is SQL for DuckDB, or - to
read it from standard input. Tables, views and numbers are those of a lake of these captures; only
tables that the query names are made. On a terminal, prints the first rows as a table; to a pipe,
one JSON object per line. Needs neither Spark nor Java.

With --keep, all tables are kept in a lake beside the capture, which answers the next query at
once. It is made again if the capture, the options or the version of wirelake have changed.

\b
Examples:
  wirelake sql edge.pcapng "SELECT target, count(*) AS calls, ms(max(latency_ns)) AS worst_ms
                            FROM calls GROUP BY target ORDER BY worst_ms DESC"
  wirelake sql captures/ "SELECT ns(ts_ns), client FROM messages WHERE name = 'auth'" --json
  wirelake sql tap.pcap --keys tap.keys --keep "FROM deliveries WHERE outcome = 'unacked'"
  wirelake sql 'tap.pcap' - --out rows.parquet < query.sql

\b
Additional tables and functions:{FUNCTIONS.replace(" (not with --spark)", "")}"""


@click.command(name="sql", help=_HELP, context_settings=CONTEXT)
@query_options
@capture_options
@click.argument("query", metavar="QUERY")
def command(captures: Captures, query: str, writer: ResultWriter) -> int:
    """Run a query."""
    text = query_text(query)

    import duckdb

    from wirelake.tables.query import named_tables

    from ..lake.query import query_duckdb, query_error
    from ..output.rows import check_output

    check_output(writer.output, captures.files)
    try:
        tables = named_tables(text)
    except duckdb.Error as error:
        return query_error(str(error))
    if not tables:
        raise click.UsageError("empty query")
    with captures.opened(tables) as db:
        code = query_duckdb(db, text, writer)
    return code or captures.code
