"""`wirelake lake compact`, `expire` and `export`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..options import CONTEXT, duration, output_file, size
from ..output.text import counted, json_line

if TYPE_CHECKING:
    from wirelake.tables.snapshot import Record

__all__ = ["compact", "expire", "export", "retention"]

_COMPACT_HELP = """Merge small files into larger ones.

Frequent updates leave small files, which slow queries down. `lake run` merges them when a table has
many; this merges all. The rows stay the same. Readers are not affected. No `lake run` may be
active.

\b
Examples:
  wirelake lake compact lake/
  wirelake lake compact lake/ --size 512MB
"""

_EXPIRE_HELP = """Remove old data.

Removes files whose rows are all older than AGE from the lake, and deletes them an hour later. Old
rows in files with newer rows stay. Captures that were read are not read again. No `lake run` may be
active; one that keeps running removes old data itself (`lake run --keep`).

\b
Examples:
  wirelake lake expire lake/ --older 30d
  wirelake lake expire lake/ --older 90d --older messages=7d
"""

_EXPORT_HELP = """Export a lake as Delta Lake or Iceberg tables.

A repeated export to the same folder only adds and removes what has changed.

\b
Examples:
  wirelake lake export lake/ delta/ --format delta
  wirelake lake export lake/ iceberg/ --format iceberg --table calls --table deliveries
"""


@click.command(
    name="compact", help=_COMPACT_HELP, short_help="Merge small files into larger ones.",
    context_settings=CONTEXT,
)  # fmt: skip
@click.argument("lake", metavar="LAKE")
@click.option(
    "--size",
    "size_bytes",
    type=size,
    default="256MB",
    show_default=True,
    help="Target size of files.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def compact(lake: str, size_bytes: int, as_json: bool) -> None:
    """Merge small files."""
    from wirelake.tables.maintenance import compact as work

    record = work(lake, size_bytes=size_bytes)
    if as_json:
        _print_json(record)
    elif record is None:
        click.echo(f"{lake}: no small files to merge")
    else:
        files = counted(len(record.remove), "file")
        click.echo(f"{lake}: commit {record.commit}; {files} merged into {len(record.add):,}")


@click.command(
    name="expire", help=_EXPIRE_HELP, short_help="Remove old data.", context_settings=CONTEXT
)
@click.argument("lake", metavar="LAKE")
@click.option(
    "--older",
    "older",
    multiple=True,
    required=True,
    metavar="[TABLE=]AGE",
    help="Minimum age, such as 30d, of all tables or of one; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def expire(lake: str, older: tuple[str, ...], as_json: bool) -> None:
    """Remove old data."""
    from wirelake.tables.maintenance import expire as work

    record = work(lake, retention("--older", older))
    if as_json:
        _print_json(record)
    elif record is None:
        click.echo(f"{lake}: no data is that old")
    else:
        files = counted(len(record.remove), "file")
        click.echo(f"{lake}: commit {record.commit}; {files} removed")


def retention(option: str, given: tuple[str, ...]) -> dict[str, float]:
    """Parse ages of tables: AGE for all of them, TABLE=AGE for one. Raises LakeError."""
    from wirelake.tables.maintenance import check_retention
    from wirelake.tables.paths import PUBLIC_TABLES

    ages: dict[str, float] = {}
    # Those of single tables take precedence, wherever they are on the command line.
    for text in sorted(given, key=lambda each: "=" in each):
        table, separator, age = text.rpartition("=")
        try:
            seconds = duration(age)
        except click.BadParameter as error:
            raise click.UsageError(f"invalid {option} {error.message}") from None
        ages |= {table: seconds} if separator else dict.fromkeys(PUBLIC_TABLES, seconds)
    check_retention(ages)
    return ages


def _print_json(record: Record | None) -> None:
    """Print the statistics of a commit; null if there was nothing to do."""
    result = None if record is None else {"commit": record.commit, **record.figures}
    click.echo(json_line(result))


@click.command(
    name="export", help=_EXPORT_HELP, short_help="Export as Delta Lake or Iceberg tables.",
    context_settings=CONTEXT,
)  # fmt: skip
@click.argument("lake", metavar="LAKE")
@click.argument("out", metavar="OUT", callback=output_file)
@click.option(
    "--format", "form", type=click.Choice(("delta", "iceberg")), required=True, help="Table format."
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="Table to export; repeatable.  [default: all]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def export(lake: str, out: str, form: str, tables: tuple[str, ...], as_json: bool) -> None:
    """Export tables."""
    from wirelake.tables.export.export import export as work

    exported = work(lake, out, "delta" if form == "delta" else "iceberg", tables or None)
    if as_json:
        import msgspec

        click.echo(json_line(msgspec.to_builtins(exported)))
        return
    for each in exported:
        click.echo(
            f"{each.path}: {counted(each.files, 'file')}, {counted(each.rows, 'row')};"
            f" {each.added:,} added, {each.removed:,} removed"
        )
