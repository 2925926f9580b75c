"""`wirelake lake sql`: queries the tables of a lake.

`query.py` runs the query. It imports pyarrow, so it is imported when the command runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ..options import CONTEXT, FORMATS, MOST, Command, joined, output_format

if TYPE_CHECKING:
    from .query import ResultWriter

__all__ = ["FUNCTIONS", "command", "query_options", "query_text"]

FUNCTIONS = """
  lake_tables, lake_files, lake_inputs   contents of the log (not with --spark)
  ns(t)            nanoseconds since 1970 as a timestamp
  ms(n)            nanoseconds as milliseconds
  masked(text)     a secret as *** and its length
  var_text(v)      a Var value as text
"""
"""What queries have beside the tables."""

_HELP = f"""Query a lake with SQL.

QUERY sees committed rows only; - reads it from standard input. It runs in DuckDB in this process,
or in Spark with --spark. On a terminal, prints the first rows as a table; to a pipe, one JSON
object per line. Values that were masked when the captures were read stay masked.

\b
Examples:
  wirelake lake sql lake/ "FROM lake_tables"
  wirelake lake sql lake/ "SELECT target, count(*) AS calls, ms(max(latency_ns)) AS worst_ms
                            FROM calls GROUP BY target ORDER BY worst_ms DESC"
  wirelake lake sql lake/ "SELECT ns(ts_ns), client FROM messages WHERE name = 'auth'" --limit 0
  wirelake lake sql lake/ "FROM deliveries WHERE outcome = 'unacked'" --out unacked.parquet
  wirelake lake sql lake/ - --format csv < query.sql

\b
Additional tables and functions:{FUNCTIONS}"""


def query_options(command: Command) -> Command:
    """Add the options of the result; the argument is `writer`."""
    options = (
        click.option(
            "--format",
            "chosen",
            type=click.Choice(FORMATS),
            help="Output format.  [default: from the extension; table or json without --out]",
        ),
        click.option(
            "-o", "--out", "output", metavar="FILE", help="Output file.  [default: standard output]"
        ),
        click.option(
            "--limit",
            type=click.IntRange(min=0),
            help="Maximum rows (0: unlimited).  [default: 50 for a table, else unlimited]",
        ),
        click.option("--json", "as_json", is_flag=True, help="Same as --format json."),
    )
    return joined(command, options, "writer", _result_writer)


def _result_writer(
    chosen: str | None, output: str | None, limit: int | None, as_json: bool
) -> ResultWriter:
    """Return the writer for these options."""
    if as_json and chosen not in (None, "json"):
        raise click.UsageError(f"--json conflicts with --format {chosen}")
    target = None if output == "-" else output
    form = output_format("json" if as_json else chosen, target, "--format", "--out")
    from .query import ResultWriter

    return ResultWriter(form, target, None if limit is None else min(limit, MOST))


def query_text(query: str) -> str:
    """Return the text of a query; - is standard input."""
    try:
        text = sys.stdin.buffer.read().decode() if query == "-" else query
        text.encode()  # arguments have surrogates in place of other bytes
    except UnicodeError:
        raise click.UsageError("invalid query: it is not UTF-8") from None
    if not text.strip():
        raise click.UsageError("empty query")
    return text


@click.command(name="sql", help=_HELP, short_help="Query with SQL.", context_settings=CONTEXT)
@click.argument("lake", metavar="LAKE")
@click.argument("query", metavar="QUERY")
@query_options
@click.option("--commit", type=click.IntRange(min=0), help="Commit to query.  [default: the last]")
@click.option("--spark", "with_spark", is_flag=True, help="Use Spark instead of DuckDB.")
def command(
    lake: str,
    query: str,
    writer: ResultWriter,
    commit: int | None,
    with_spark: bool,
) -> int:
    """Run a query."""
    text = query_text(query)

    from .query import query_duckdb, query_spark

    if with_spark:
        return query_spark(lake, text, commit, writer)
    from wirelake.tables.query import open_lake

    with open_lake(lake, commit) as db:
        return query_duckdb(db, text, writer)
