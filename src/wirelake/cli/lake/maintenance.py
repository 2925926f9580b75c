"""`wirelake lake compact`, `expire` and `export`: what keeps a lake in shape, and takes it
elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..output.common import CONTEXT, json_line
from ..read.formatting import counted
from .formatting import duration, size

if TYPE_CHECKING:
    from wirelake.tables.entries import Record

__all__ = ["compact", "expire", "export"]

_COMPACT_HELP = """Join small files into large ones.

A lake that is fed often has many small files, and queries over them are slow. The rows stay the
same. It is one commit, and readers notice nothing; a run must not be under way.

\b
Examples:
  wirelake lake compact lake/
  wirelake lake compact lake/ --size 512MB
"""

_EXPIRE_HELP = """Forget what is old.

Files whose rows are all older no longer count, and are deleted an hour later; what is older within
a younger file stays. Captures that were read are not read again.

\b
Examples:
  wirelake lake expire lake/ --older 30d
  wirelake lake expire lake/ --older 12h
"""

_EXPORT_HELP = """Copy a lake into a table format that others read: Delta Lake or Iceberg.

A second export into the same folder adds and removes just what has changed since.

\b
Examples:
  wirelake lake export lake/ delta/ --format delta
  wirelake lake export lake/ iceberg/ --format iceberg --table calls --table deliveries
"""


@click.command(
    name="compact", help=_COMPACT_HELP, short_help="Join small files into large ones.",
    context_settings=CONTEXT,
)  # fmt: skip
@click.argument("lake", metavar="LAKE")
@click.option(
    "--size",
    "size_bytes",
    type=size,
    default="256MB",
    show_default=True,
    help="How large files become.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def compact(lake: str, size_bytes: int, as_json: bool) -> None:
    """Compacts."""
    from wirelake.tables.compact import compact as work

    record = work(lake, size_bytes=size_bytes)
    if as_json:
        _print_json(record)
    elif record is None:
        click.echo(f"{lake}: no files are small enough to be joined")
    else:
        files = counted(len(record.remove), "file")
        click.echo(f"{lake}: commit {record.commit}; {files} became {len(record.add):,}")


@click.command(
    name="expire", help=_EXPIRE_HELP, short_help="Forget what is old.", context_settings=CONTEXT
)
@click.argument("lake", metavar="LAKE")
@click.option(
    "--older",
    "older_s",
    type=duration,
    required=True,
    metavar="AGE",
    help="How old it has to be, such as 30d.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def expire(lake: str, older_s: float, as_json: bool) -> None:
    """Expires."""
    from wirelake.tables.expire import expire as work

    record = work(lake, older_s)
    if as_json:
        _print_json(record)
    elif record is None:
        click.echo(f"{lake}: nothing is that old")
    else:
        files = counted(len(record.remove), "file")
        click.echo(f"{lake}: commit {record.commit}; {files} forgotten")


def _print_json(record: Record | None) -> None:
    """A commit in figures; null when there was nothing to do."""
    found = None if record is None else {"commit": record.commit, **record.figures}
    click.echo(json_line(found))


@click.command(
    name="export", help=_EXPORT_HELP, short_help="Copy it to Delta Lake or Iceberg.",
    context_settings=CONTEXT,
)  # fmt: skip
@click.argument("lake", metavar="LAKE")
@click.argument("out", metavar="OUT")
@click.option("--format", "form", type=click.Choice(("delta", "iceberg")), required=True)
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Only this; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def export(lake: str, out: str, form: str, tables: tuple[str, ...], as_json: bool) -> None:
    """Exports."""
    from wirelake.tables.export.export import export as work

    found = work(lake, out, "delta" if form == "delta" else "iceberg", tables or None)
    if as_json:
        import msgspec

        click.echo(json_line(msgspec.to_builtins(found)))
        return
    for each in found:
        click.echo(
            f"{each.path}: {counted(each.files, 'file')}, {counted(each.rows, 'row')};"
            f" {each.added:,} added, {each.removed:,} removed"
        )
