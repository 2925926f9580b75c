"""`wirelake capture`: what can be done with capture files as they are."""

from __future__ import annotations

from typing import Any

import click

from ..main import COMMANDS
from ..output.common import CONTEXT
from ..read.inputs import Reading, protocol_options

__all__ = ["command"]

_HELP = f"""{COMMANDS["capture"]}

\b
Examples:
  wirelake capture info edge.pcapng
  wirelake capture repair edge-00000007.pcapng.open
  wirelake capture redact tap.pcap -o shareable.pcap --bodies --addresses
"""

_INFO_HELP = """What capture files hold, in figures.

A folder stands for the captures in it.

\b
Examples:
  wirelake capture info edge.pcapng
  wirelake capture info captures/ --json | jq .packets
"""

_REPAIR_HELP = """Make a whole file of one that is cut off or broken.

What can be read is copied as it is; what cannot is left out, and told. The broken file stays.
Without -o an open recording (NAME.pcapng.open) becomes NAME.pcapng, any other file
NAME.repaired.pcap.

\b
Examples:
  wirelake capture repair edge-00000007.pcapng.open
  wirelake capture repair broken.pcap -o whole.pcap
"""

_REDACT_HELP = """A copy of a capture without what must not be seen.

Secrets in messages, keys, packets that are not TCP and all that is not understood become zeros;
nothing moves, so that a place in the copy is the same place in the original.

\b
Examples:
  wirelake capture redact tap.pcap -o shareable.pcap
  wirelake capture redact tap.pcap -o shareable.pcap --bodies --addresses --seed incident-42
"""


@click.group(name="capture", help=_HELP, context_settings=CONTEXT)
def command() -> None:
    """Capture files."""


@command.command(name="info", help=_INFO_HELP, context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for each file.")
def _info(files: tuple[str, ...], as_json: bool) -> int:
    from .capture_run import info

    return info(files, as_json=as_json)


@command.command(name="repair", help=_REPAIR_HELP, context_settings=CONTEXT)
@click.argument("file")
@click.option("-o", "--output", metavar="OUT", help="The whole file; it must not be there yet.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of it as JSON.")
def _repair(file: str, output: str | None, as_json: bool) -> None:
    from .capture_run import repair

    repair(file, output, as_json=as_json)


@command.command(name="redact", help=_REDACT_HELP, context_settings=CONTEXT)
@click.argument("file")
@click.option(
    "-o", "--output", required=True, metavar="OUT", help="The copy; it must not be there yet."
)
@click.option("--bodies", is_flag=True, help="Hide what applications say, too.")
@click.option("--addresses", is_flag=True, help="Give hosts pseudonyms.")
@click.option(
    "--seed",
    metavar="TEXT",
    help="With the same seed the same host has the same pseudonym; keep it secret. By default"
    " another one every time.",
)
@protocol_options
@click.option("--json", "as_json", is_flag=True, help="Print what became of it as JSON.")
def _redact(
    file: str,
    output: str,
    bodies: bool,
    addresses: bool,
    seed: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    if seed is not None and not addresses:
        raise click.UsageError("--seed is for pseudonyms: add --addresses")
    from .capture_run import redact

    redact(
        file,
        output,
        Reading.of(**reading),
        bodies=bodies,
        addresses=addresses,
        seed=seed,
        as_json=as_json,
    )
