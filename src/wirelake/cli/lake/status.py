"""`wirelake lake status`: tables, sources, speed and backlog of a lake."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click

from ..options import CONTEXT, admission_options
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
@admission_options
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
        ("source", "captures", "bytes", "ordered by", "last", "refused"),
        (
            (
                printable(each.source), f"{each.files:,}", bytes_text(each.bytes),
                ", ".join(_ORDERS[name] for name in each.ordered_by) or "–",
                _sequence(each.last_sequence),
                f"{each.refused:,}",
            )
            for each in current.sources
        ),
    )  # fmt: skip
    if current.source_pattern is not None:
        click.echo(f"\nsource pattern: {printable(current.source_pattern)}")
    if current.cut_connections:
        cut = counted(current.cut_connections, "connection")
        click.echo(
            f"\n{cut} cut: continued in another source, or after a refused capture; captures that"
            "\n  belong together need names of one source, or --source-pattern in a new lake"
        )
    if backlog:
        _print_backlog(current)


_ORDERS: Final = {
    "recording": "recorder",
    "pattern": "pattern",
    "number": "number in name",
    "time": "first packet",
}
"""What decides the order of captures, as it is printed."""


def _sequence(last: int | None) -> str:
    from wirelake.tables.names import is_time
    from wirelake.tables.report.sheets import time_text

    if last is None:
        return "–"
    return time_text(last) if is_time(last) else str(last)


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
    numbers = [
        at > 0 and heading not in ("reason", "ordered by") for at, heading in enumerate(headings)
    ]
    click.echo()
    print_table(headings, numbers, cells, minor)


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"
