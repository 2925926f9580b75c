"""`wirelake conform`: runs files of test vectors."""

from __future__ import annotations

import click

from ..main import COMMANDS
from ..output.common import CONTEXT

__all__ = ["command"]

_HELP = f"""{COMMANDS["conform"]}

One line for each failure; the last line counts them. Exits 1 if any vector fails.

\b
Examples:
  wirelake conform tests/vectors/*.jsonl
  wirelake conform --mutate tests/vectors/comet.jsonl
"""


@click.command(name="conform", help=_HELP, context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--mutate",
    is_flag=True,
    help="Alter a leaf of each expectation and a byte of each positive vector, and fail unless"
    " every alteration is caught.",
)
def command(files: tuple[str, ...], mutate: bool) -> int:
    """Run the vectors; the exit code."""
    from wirelake.protocols.conform import main

    return int(main(files, mutate))
