"""Options of commands that write rows: `wirelake read` and `wirelake listen`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from ..options import FORMATS, MOST, Command, joined, reading_options

__all__ = ["TABLES", "RowOptions", "row_options"]

TABLES: Final = (
    "messages", "packets", "calls", "deliveries", "connections", "tunnels", "faults", "coverage",
)  # fmt: skip
"""Every table."""


@dataclass(frozen=True)
class RowOptions:
    """Which rows are written, and how."""

    table: str
    condition: str | None
    columns: str | None
    protocol: str | None
    format: str | None
    """None for the one that suits the output."""
    output: str | None
    """A file; None for standard output."""
    limit: int | None

    @classmethod
    def of(
        cls,
        table: str,
        condition: str | None,
        columns: str | None,
        protocol: str | None,
        chosen: str | None,
        output: str | None,
        limit: int | None,
        as_json: bool,
    ) -> RowOptions:
        """Join the values of the options."""
        if as_json and chosen not in (None, "json"):
            raise click.UsageError(f"--json conflicts with --to {chosen}")
        form = "json" if as_json else chosen
        target = None if output == "-" else output
        most = None if limit is None else min(limit, MOST)
        return cls(table, condition, columns, protocol, form, target, most)


_OPTIONS: Final = (
    click.option(
        "--table",
        type=click.Choice(TABLES),
        default="messages",
        show_default=True,
        help="Table to read.",
    ),
    click.option(
        "--filter",
        "condition",
        metavar="EXPR",
        help='Filter expression, such as status == "ok" and …',
    ),
    click.option(
        "--columns",
        metavar="A,B,C",
        help="Comma-separated columns; a.b is a field of a struct.",
    ),
    click.option("--protocol", metavar="NAME", help="Only this protocol."),
    click.option(
        "--to",
        "chosen",
        type=click.Choice(FORMATS),
        help="Output format.  [default: from the extension; table or json without -o]",
    ),
    click.option("-o", "--output", metavar="OUT", help="Output file.  [default: standard output]"),
    click.option(
        "--limit",
        type=click.IntRange(min=0),
        help="Maximum rows (0: unlimited).  [default: 50 for a table of files, else unlimited]",
    ),
    click.option("--json", "as_json", is_flag=True, help="Same as --to json."),
)


def row_options(command: Command) -> Command:
    """Add the options that say which rows are read and written, and how; the arguments are `rows`
    and `reading`."""
    return joined(reading_options(command), _OPTIONS, "rows", RowOptions.of)
