"""`wirelake dissector`: writes a Lua dissector for Wireshark and tshark."""

from __future__ import annotations

from pathlib import Path

import click

from ..main import COMMANDS
from ..options.common import CONTEXT, find_protocol, protocol_dialects
from ..output.text import print_notice

__all__ = ["command"]

_HELP = f"""{COMMANDS["dissector"]}

Without PROTOCOL, the script contains all installed protocols, including those of other packages.

\b
Examples:
  wirelake dissector -o wirelake.lua
  wirelake dissector tny --dialect tny=upstream > tny.lua
  tshark -X lua_script:wirelake.lua -r capture.pcapng
"""


@click.command(name="dissector", help=_HELP, context_settings=CONTEXT)
@click.argument("protocols", nargs=-1, metavar="[PROTOCOL…]")
@click.option("-o", "--output", metavar="FILE", help="Output file.  [default: standard output]")
@click.option(
    "--dialect",
    "dialects",
    multiple=True,
    metavar="PROTOCOL=NAME",
    help="Dialect of a protocol; repeatable.  [default: the first]",
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
            print_notice(f"skipping {error}")
    try:
        script = dissector(chosen, dialect=protocol_dialects(dialects))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if output is None or output == "-":
        click.echo(script, nl=False)
    else:
        Path(output).write_text(script, encoding="utf-8")
