"""`wirelake encode`: JSON to bytes."""

from __future__ import annotations

import click

from ..main import COMMANDS
from ..output.common import CONTEXT

__all__ = ["command"]

_HELP = f"""{COMMANDS["encode"]}

FILE holds one JSON object or many, one after the other; - is standard input, and the default. An
object names its layout and its fields; bytes are hexadecimal; fields with a default may be left
out; a tny packet's content may be the object of its Message. `wirelake protocols show` tells
the fields.

\b
Examples:
  echo '{{"type": "heartbeat"}}' | wirelake encode comet --hex
  wirelake decode esnp capture.bin --json --reveal | wirelake encode esnp > same.bin
  wirelake encode tny message.json -o packet.bin
"""


@click.command(name="encode", help=_HELP, context_settings=CONTEXT)
@click.argument("protocol")
@click.argument("file", required=False)
@click.option("--dialect", metavar="NAME", help="Dialect; the first if not given.")
@click.option("--hex", "as_hex", is_flag=True, help="Hexadecimal text, one message a line.")
@click.option("-o", "--output", metavar="FILE", help="Write here instead of to standard output.")
def command(
    protocol: str, file: str | None, dialect: str | None, as_hex: bool, output: str | None
) -> None:
    """Encode all there is, or nothing."""
    from .encode_run import encode

    encode(protocol, file, dialect=dialect, as_hex=as_hex, output=output)
