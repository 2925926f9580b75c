"""`wirelake conform`: run files of test vectors."""

from __future__ import annotations

import click

from ..main import COMMANDS
from ..options.common import CONTEXT

__all__ = ["command"]

_HELP = f"""{COMMANDS["conform"]}

Prints one line per failure and a summary. Exits 1 if a vector fails.

\b
Examples:
  wirelake conform tests/vectors/*.jsonl
"""


@click.command(name="conform", help=_HELP, context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
def command(files: tuple[str, ...]) -> int:
    """Run the vectors and return the exit code."""
    from wirelake.conformance.runner import main

    return main(files)
