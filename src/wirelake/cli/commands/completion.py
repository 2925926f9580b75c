"""`wirelake completion`: prints the script that adds tab completion to a shell."""

from __future__ import annotations

import click

from ..completion import SHELLS
from ..main import COMMANDS, COMPLETE
from ..options import CONTEXT

__all__ = ["command"]

_HELP = f"""{COMMANDS["completion"]}

Completes commands, options, files, protocols, tables, columns and contexts. bash and zsh read the
script when they start; fish finds it in its folder of completions.

\b
Examples:
  echo 'eval "$(wirelake completion bash)"' >> ~/.bashrc
  echo 'eval "$(wirelake completion zsh)"' >> ~/.zshrc
  wirelake completion fish > ~/.config/fish/completions/wirelake.fish
"""


@click.command(name="completion", help=_HELP, context_settings=CONTEXT)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script of a shell."""
    from click.shell_completion import get_completion_class

    from ..app import TOP

    found = get_completion_class(shell)
    assert found is not None
    source = found(TOP, {}, "wirelake", COMPLETE).source()
    # click's script for fish cuts a completion such as `target,status` at its comma.
    click.echo(source.replace('string split ","', 'string split -m 1 ","'), nl=False)
