"""`wirelake lake sql`: a query over the tables of a lake."""

from __future__ import annotations

import os
import sys
from typing import Final

import click

from ..output.common import CONTEXT

__all__ = ["FORMATS", "command"]

FORMATS: Final = ("table", "json", "csv", "parquet", "arrow")
"""Every form of output."""
_SUFFIXES: Final = {
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet",
    ".arrow": "arrow", ".txt": "table",
}  # fmt: skip
"""By the name of an output: its form."""

_HELP = """Ask a lake in SQL.

The query sees what is committed, and nothing else; `-` reads it from standard input. DuckDB answers
it in this process, or Spark with --spark. On a terminal the first rows are shown as a table; a pipe
gets one JSON object a line. What was masked when the captures were read is masked here.

\b
Examples:
  wirelake lake sql lake/ "FROM lake_tables"
  wirelake lake sql lake/ "SELECT target, count(*) AS calls, ms(max(latency_ns)) AS worst_ms
                            FROM calls GROUP BY target ORDER BY worst_ms DESC"
  wirelake lake sql lake/ "SELECT ns(ts_ns), client FROM messages WHERE name = 'auth'" --limit 0
  wirelake lake sql lake/ "FROM deliveries WHERE outcome = 'unacked'" --out unacked.parquet
  wirelake lake sql lake/ - --format csv < question.sql

\b
Beside the tables and what SQL has:
  lake_tables, lake_files, lake_inputs   what the log says (not with --spark)
  ns(t)            a time in nanoseconds as a timestamp
  ms(n)            nanoseconds as milliseconds
  masked(text)     a secret as *** and its length
  var_text(v)      a value of ESNP that says its own type, as text
"""


@click.command(name="sql", help=_HELP, short_help="Ask it in SQL.", context_settings=CONTEXT)
@click.argument("lake", metavar="LAKE")
@click.argument("query", metavar="QUERY")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="How it is written; else the name of the output tells.",
)
@click.option("-o", "--out", "output", metavar="F", help="Write here instead of standard output.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help="So many rows at most; 0 for all. A table has 50 unless this says otherwise.",
)
@click.option("--commit", type=click.IntRange(min=0), help="As the lake was at this commit.")
@click.option("--spark", "with_spark", is_flag=True, help="Ask Spark instead of DuckDB.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(
    lake: str,
    query: str,
    form: str | None,
    output: str | None,
    limit: int | None,
    commit: int | None,
    with_spark: bool,
    as_json: bool,
) -> int:
    """Answers a query; the exit code."""
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form}: which one?")
    target = None if output == "-" else output
    chosen = _form("json" if as_json else form, target)
    text = sys.stdin.read() if query == "-" else query
    if not text.strip():
        raise click.UsageError("the query is empty")
    from .answer import (
        Answer,
        ask_duckdb,
        ask_spark,
    )

    ask = ask_spark if with_spark else ask_duckdb
    return ask(lake, text, commit, Answer(chosen, target, limit))


def _form(form: str | None, output: str | None) -> str:
    if form is None and output is not None:
        suffix = os.path.splitext(output)[1].lower()
        if suffix not in _SUFFIXES:
            known = ", ".join(_SUFFIXES)
            raise click.UsageError(
                f"{output}: its name does not tell the format ({known}): add --format"
            )
        form = _SUFFIXES[suffix]
    chosen = form or ("table" if sys.stdout.isatty() else "json")
    if chosen in ("parquet", "arrow") and output is None and sys.stdout.isatty():
        raise click.UsageError(f"{chosen} is not for a terminal: add --out F")
    return chosen
