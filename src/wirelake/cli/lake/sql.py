"""`wirelake lake sql`: queries the tables of a lake.

`query.py` runs the query. It imports pyarrow, so it is imported when the command runs.
"""

from __future__ import annotations

import sys

import click

from ..options import CONTEXT, FORMATS, output_format

__all__ = ["command"]

_HELP = """Query a lake with SQL.

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
Additional tables and functions:
  lake_tables, lake_files, lake_inputs   contents of the log (not with --spark)
  ns(t)            nanoseconds since 1970 as a timestamp
  ms(n)            nanoseconds as milliseconds
  masked(text)     a secret as *** and its length
  var_text(v)      a Var value as text
"""


@click.command(name="sql", help=_HELP, short_help="Query with SQL.", context_settings=CONTEXT)
@click.argument("lake", metavar="LAKE")
@click.argument("query", metavar="QUERY")
@click.option(
    "--format",
    "chosen",
    type=click.Choice(FORMATS),
    help="Output format.  [default: from the extension; table or json without --out]",
)
@click.option(
    "-o", "--out", "output", metavar="FILE", help="Output file.  [default: standard output]"
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help="Maximum rows (0: unlimited).  [default: 50 for a table, else unlimited]",
)
@click.option("--commit", type=click.IntRange(min=0), help="Commit to query.  [default: the last]")
@click.option("--spark", "with_spark", is_flag=True, help="Use Spark instead of DuckDB.")
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
def command(
    lake: str,
    query: str,
    chosen: str | None,
    output: str | None,
    limit: int | None,
    commit: int | None,
    with_spark: bool,
    as_json: bool,
) -> int:
    """Run a query."""
    if as_json and chosen not in (None, "json"):
        raise click.UsageError(f"--json conflicts with --format {chosen}")
    target = None if output == "-" else output
    form = output_format("json" if as_json else chosen, target, "--format", "--out")
    text = sys.stdin.read() if query == "-" else query
    if not text.strip():
        raise click.UsageError("empty query")

    from .query import ResultWriter, query_duckdb, query_spark

    run = query_spark if with_spark else query_duckdb
    return run(lake, text, commit, ResultWriter(form, target, limit))
