"""`wirelake decode`: bytes to messages."""

from __future__ import annotations

import click

from ..main import COMMANDS
from ..output.common import CONTEXT

__all__ = ["command"]

_HELP = f"""{COMMANDS["decode"]}

FILE holds one message or many; - is standard input. Secrets are masked unless revealed.

\b
Examples:
  wirelake decode comet --direction c2s --hex 000106
  wirelake decode esnp capture.bin --json
  wirelake decode magline --keys keys.json session.bin
  cat packets.bin | wirelake decode tny - --dialect upstream

\b
A file of keys is JSON:
  tny      {{"security_keys": ["…"]}}, and the options of its transform
  magline  {{"c2s_enc": "hex", "c2s_iv": "hex", "c2s_mac": "hex", "s2c_enc": …}}; mac is optional
  comet    {{"content_key": "hex"}}, or {{"des_key": "hex"}} with --dialect hipush
"""


@click.command(name="decode", help=_HELP, context_settings=CONTEXT)
@click.argument("protocol")
@click.argument("file", required=False)
@click.option("--hex", "hex_text", metavar="TEXT", help="The bytes, as hexadecimal text.")
@click.option("--direction", type=click.Choice(["c2s", "s2c"]), help="Who speaks.")
@click.option("--revision", metavar="NAME", help="Check a revision's rules (ESNP: frames, lines).")
@click.option("--dialect", metavar="NAME", help="Dialect; the first if not given.")
@click.option("--keys", "keys_file", metavar="FILE", help="Keys that open sealed parts, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--reveal", is_flag=True, help="Show secrets.")
def command(
    protocol: str,
    file: str | None,
    hex_text: str | None,
    direction: str | None,
    revision: str | None,
    dialect: str | None,
    keys_file: str | None,
    as_json: bool,
    reveal: bool,
) -> int:
    """Decode all there is; exit 1 if any of it is bad."""
    from .decode_run import decode

    return decode(
        protocol,
        file,
        hex_text=hex_text,
        direction=direction,
        revision=revision,
        dialect=dialect,
        keys_file=keys_file,
        as_json=as_json,
        reveal=reveal,
    )
