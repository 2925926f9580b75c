"""`wirelake lake status`: how a lake is doing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from ..output.common import CONTEXT
from ..read.formatting import counted, printable
from .formatting import duration
from .table import print_table

if TYPE_CHECKING:
    from wirelake.tables.status import Status

__all__ = ["command"]

_HELP = """How a lake is doing: what is in it, how fast it goes, and what waits.

With --from it also looks at the folder of captures: which of them are not in yet, and why.

\b
Examples:
  wirelake lake status lake/
  wirelake lake status lake/ --from captures/
  wirelake lake status lake/ --from captures/ --json | jq .lag_s
"""


@click.command(
    name="status", help=_HELP, short_help="How it is doing: what is in it, and what waits.",
    context_settings=CONTEXT,
)  # fmt: skip
@click.argument("lake", metavar="LAKE")
@click.option("--from", "captures", metavar="DIR", help="The folder of captures.")
@click.option(
    "--lateness",
    "lateness_s",
    type=duration,
    default="600",
    show_default=True,
    metavar="SECONDS",
    help="As the lake is run with.",
)
@click.option(
    "--settle",
    "settle_s",
    type=duration,
    default="10",
    show_default=True,
    metavar="SECONDS",
    help="As the lake is run with.",
)
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def command(
    lake: str, captures: str | None, lateness_s: float, settle_s: float, as_json: bool
) -> None:
    """Shows it."""
    from wirelake.tables.status import status

    found = status(lake, captures, lateness_s=lateness_s, settle_s=settle_s)
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        _print(found, looked=captures is not None)


def _print(found: Status, *, looked: bool) -> None:
    from wirelake.tables.report.sheets import bytes_text, time_text

    click.echo(f"{found.path}: commit {found.commit}, {_age(found.age_s)} ago")
    if found.bytes_per_s is not None and found.rows_per_s is not None:
        click.echo(
            f"  the last steps read {found.bytes_per_s / 1e6:,.1f} MB/s of captures,"
            f" {found.rows_per_s:,.0f} messages/s"
        )
    _print_rows(
        ("table", "rows", "not final", "files", "bytes", "from", "to"),
        (
            (
                each.table, f"{each.rows:,}", f"{each.provisional_rows:,}", f"{each.files:,}",
                bytes_text(each.bytes), time_text(each.min_ns), time_text(each.max_ns),
            )
            for each in found.tables
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
            for each in found.sources
        ),
    )  # fmt: skip
    if looked:
        _print_backlog(found)


def _print_backlog(found: Status) -> None:
    from wirelake.tables.report.sheets import bytes_text

    if not found.waiting:
        click.echo("\nno captures are waiting")
        return
    click.echo(
        f"\n{counted(found.backlog_files, 'capture')}, {bytes_text(found.backlog_bytes)}, not in;"
        f" the oldest is {_age(found.lag_s)} old"
    )
    _print_rows(
        ("capture", "bytes", "age", "why"),
        (
            (
                printable(os.path.basename(each.path)), bytes_text(each.bytes), _age(each.age_s),
                printable(each.why) or "comes with the next run",
            )
            for each in found.waiting
        ),
    )  # fmt: skip


def _print_rows(headings: Sequence[str], rows: Iterable[Sequence[str]], *minor: str) -> None:
    """A table of text; numbers to the right."""
    found = list(rows)
    if not found:
        return
    numbers = [at > 0 and heading != "why" for at, heading in enumerate(headings)]
    click.echo()
    print_table(headings, numbers, found, minor)


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"
