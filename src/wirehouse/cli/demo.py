"""`wirehouse demo`: see it work."""

from __future__ import annotations

import click

from .common import CONTEXT
from .main import COMMANDS

__all__ = ["command"]

_HELP = f"""{COMMANDS["demo"]}

Decodes and encodes sample messages of every protocol, and of one declared on the spot. It needs
no network and takes a second.

\b
Example:
  wirehouse demo
"""


@click.command(name="demo", help=_HELP, context_settings=CONTEXT)
def command() -> None:
    """Show all there is."""
    from .tour import tour

    for line in tour():
        click.echo(line)
