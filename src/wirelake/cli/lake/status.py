"""`wirelake lake status`: tables, sources, speed and backlog of a lake."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from ..options import CONTEXT, duration
from ..output.text import counted, print_table, printable

if TYPE_CHECKING:
    from wirelake.tables.status import Status

__all__ = ["command"]

_HELP = """Show the tables, sources and speed of a lake.

With --from, also lists the captures in a folder that the lake has not read yet, and why.

\b
Examples:
  wirelake lake status lake/
  wirelake lake status lake/ --from captures/
  wirelake lake status lake/ --from captures/ --json | jq .lag_s
"""


@click.command(
    name="status", help=_HELP, short_help="Show tables, sources, speed and backlog.",
    context_settings=CONTEXT,
)  # fmt: skip
@click.argument("lake", metavar="LAKE")
@click.option("--from", "captures", metavar="DIR", help="Folder of captures.")
@click.option(
    "--lateness",
    "lateness_s",
    type=duration,
    default="600",
    show_default=True,
    metavar="SECONDS",
    help="Same value as for `lake run`.",
)
@click.option(
    "--settle",
    "settle_s",
    type=duration,
    default="10",
    show_default=True,
    metavar="SECONDS",
    help="Same value as for `lake run`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    lake: str, captures: str | None, lateness_s: float, settle_s: float, as_json: bool
) -> None:
    """Print the status."""
    from wirelake.tables.status import status

    current = status(lake, captures, lateness_s=lateness_s, settle_s=settle_s)
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(current).decode() + "\n")
    else:
        _print(current, backlog=captures is not None)


def _print(current: Status, *, backlog: bool) -> None:
    from wirelake.tables.report.sheets import bytes_text, time_text

    click.echo(f"{current.path}: commit {current.commit}, {_age(current.age_s)} ago")
    if current.bytes_per_s is not None and current.rows_per_s is not None:
        click.echo(
            f"  last steps: {current.bytes_per_s / 1e6:,.1f} MB/s,"
            f" {current.rows_per_s:,.0f} messages/s"
        )
    _print_rows(
        ("table", "rows", "not final", "files", "bytes", "from", "to"),
        (
            (
                each.table, f"{each.rows:,}", f"{each.provisional_rows:,}", f"{each.files:,}",
                bytes_text(each.bytes), time_text(each.min_ns), time_text(each.max_ns),
            )
            for each in current.tables
        ),
        "not final", "files",
    )  # fmt: skip
    _print_rows(
        ("source", "captures", "bytes", "last", "refused"),
        (
            (
                printable(each.source), f"{each.files:,}", bytes_text(each.bytes),
                "–" if each.last_sequence is None else str(each.last_sequence),
                f"{each.refused:,}",
            )
            for each in current.sources
        ),
    )  # fmt: skip
    if backlog:
        _print_backlog(current)


def _print_backlog(current: Status) -> None:
    from wirelake.tables.report.sheets import bytes_text

    if current.open_files:
        count, size = counted(current.open_files, "recording"), bytes_text(current.open_bytes)
        click.echo(f"\n{count} still open, {size}; `lake run --include-open` reads them")
    if not current.waiting:
        click.echo("\nno captures waiting")
        return
    captures, size = counted(current.backlog_files, "capture"), bytes_text(current.backlog_bytes)
    click.echo(f"\n{captures} waiting, {size}; the oldest is {_age(current.lag_s)} old")
    _print_rows(
        ("capture", "bytes", "age", "reason"),
        (
            (
                printable(os.path.basename(each.path)), bytes_text(each.bytes), _age(each.age_s),
                printable(each.why) or "next run",
            )
            for each in current.waiting
        ),
    )  # fmt: skip


def _print_rows(headings: Sequence[str], rows: Iterable[Sequence[str]], *minor: str) -> None:
    """Print a table, with numbers right-aligned, unless it is empty."""
    cells = list(rows)
    if not cells:
        return
    numbers = [at > 0 and heading != "reason" for at, heading in enumerate(headings)]
    click.echo()
    print_table(headings, numbers, cells, minor)


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"
