"""`wirelake follow`: one connection as a conversation."""

from __future__ import annotations

from typing import Any

import click

from ..main import COMMANDS
from ..output.common import CONTEXT
from ..read.inputs import Reading, reading_options

__all__ = ["command"]

_HELP = f"""{COMMANDS["follow"]}

One line for each message, with the seconds since the connection began, and for what else happened:
opening, close, gaps and other faults, facts of a recorder. CONNECTION is the number in the column
`connection` of any table; that of a tunnel will do as well.

\b
Examples:
  wirelake read edge.pcapng --table connections
  wirelake follow edge.pcapng 1633322457575350528
  wirelake follow captures/ 1633322457575350528 --fields --hex
"""


@click.command(name="follow", help=_HELP, context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.argument("connection")
@reading_options
@click.option("--fields", is_flag=True, help="Show all fields of each message.")
@click.option("--hex", "as_hex", is_flag=True, help="Show the bytes of bodies and faults.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(
    files: tuple[str, ...],
    connection: str,
    fields: bool,
    as_hex: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Follow a connection."""
    if not connection.isdecimal():
        raise click.UsageError(
            f"{connection}: wanted the number of a connection, as the tables have it"
        )
    from .follow_run import follow

    follow(
        files,
        int(connection),
        Reading.of(**reading),
        fields=fields,
        as_hex=as_hex,
        as_json=as_json,
    )
