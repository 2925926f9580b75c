"""`wirelake lake`: the group of its subcommands, imported on demand."""

from __future__ import annotations

import importlib
from typing import Final

import click

from ..completion import prepare
from ..errors import unknown_name
from ..main import COMMANDS
from ..options import CONTEXT

__all__ = ["SUBCOMMANDS", "command"]

_HELP = f"""{COMMANDS["lake"]}

A lake is a folder of Parquet files and a log of commits. `run` creates and updates it; the other
commands query, check and maintain it. Readers never block, and see complete commits only.

\b
Examples:
  wirelake lake run --from captures/ --to lake/
  wirelake lake run --from captures/ --to lake/ --stream
  wirelake lake status lake/ --from captures/
  wirelake lake sql lake/ "SELECT target, count(*) FROM calls GROUP BY target"
  wirelake lake report lake/ --html report.html
"""

SUBCOMMANDS: Final = {
    "run": "run.command",
    "status": "status.command",
    "sql": "sql.command",
    "report": "report.command",
    "verify": "verify.command",
    "compact": "maintenance.compact",
    "expire": "maintenance.expire",
    "export": "maintenance.export",
}
"""By subcommand: its module and attribute."""


class _LakeCommands(click.Group):
    """Imports a subcommand when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in SUBCOMMANDS:
            return None
        module, _, attribute = SUBCOMMANDS[cmd_name].partition(".")
        subcommand: click.Command = getattr(
            importlib.import_module(f"{__package__}.{module}"), attribute
        )
        return prepare(subcommand)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in SUBCOMMANDS and not args[0].startswith("-"):
            raise unknown_name("subcommand", args[0], SUBCOMMANDS, ctx)
        return super().resolve_command(ctx, args)


@click.group(name="lake", help=_HELP, cls=_LakeCommands, context_settings=CONTEXT)
def command() -> None:
    """Work on lakes."""
