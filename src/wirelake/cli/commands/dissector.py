"""`wirelake dissector`: a Lua script for Wireshark and tshark."""

from __future__ import annotations

from pathlib import Path

import click

from ..main import COMMANDS
from ..output.common import (
    CONTEXT,
    check_dialect,
    find_protocol,
)

__all__ = ["command"]

_HELP = f"""{COMMANDS["dissector"]}

Without a PROTOCOL it is for all of them, those of other packages too.

\b
Examples:
  wirelake dissector -o wirelake.lua
  wirelake dissector tny --dialect tny=upstream > tny.lua
  tshark -X lua_script:wirelake.lua -r capture.pcapng
"""


@click.command(name="dissector", help=_HELP, context_settings=CONTEXT)
@click.argument("protocols", nargs=-1, metavar="[PROTOCOL…]")
@click.option("-o", "--output", metavar="FILE", help="Write here instead of to standard output.")
@click.option(
    "--dialect",
    "dialects",
    multiple=True,
    metavar="PROTOCOL=NAME",
    help="Another dialect than the first; may be repeated.",
)
def command(protocols: tuple[str, ...], output: str | None, dialects: tuple[str, ...]) -> None:
    """Write the script."""
    from wirelake.protocols.registry import load_all
    from wirelake.wire.views.lua import dissector

    if protocols:
        chosen = [find_protocol(name) for name in dict.fromkeys(protocols)]
    else:
        chosen, broken = load_all()
        for error in broken:
            click.echo(f"wirelake: left out: {error}", err=True)
    try:
        script = dissector(chosen, dialect=_dialects(dialects))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if output is None or output == "-":
        click.echo(script, nl=False)
    else:
        Path(output).write_text(script, encoding="utf-8")


def _dialects(given: tuple[str, ...]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for text in given:
        protocol, separator, dialect = text.partition("=")
        if not separator:
            raise click.UsageError(f"--dialect {text}: wanted PROTOCOL=NAME")
        chosen[protocol] = check_dialect(find_protocol(protocol), dialect)
    return chosen
