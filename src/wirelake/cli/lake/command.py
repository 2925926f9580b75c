"""`wirelake lake`: tables that are kept up to date from a folder of captures."""

from __future__ import annotations

import importlib
from typing import Any, Final

import click

from ..errors import (
    BAD_DATA,
    BAD_USAGE,
    CommandError,
)
from ..main import COMMANDS
from ..output.common import CONTEXT

__all__ = ["command"]

_HELP = f"""{COMMANDS["lake"]}

A lake is a folder of Parquet files with a log that says which of them count. `run` makes it and
takes it forward; the others look at it, or look after it. Nobody who reads has to wait.

\b
Examples:
  wirelake lake run --from captures/ --to lake/
  wirelake lake run --from captures/ --to lake/ --stream
  wirelake lake status lake/ --from captures/
  wirelake lake sql lake/ "SELECT target, count(*) FROM calls GROUP BY target"
  wirelake lake report lake/ --html report.html
"""

_PLACES: Final = {
    "run": "run.command",
    "status": "status.command",
    "sql": "sql.command",
    "report": "report.command",
    "verify": "verify.command",
    "compact": "maintenance.compact",
    "expire": "maintenance.expire",
    "export": "maintenance.export",
}
"""By command: the module and its attribute."""
_INTERRUPTED: Final = "Query interrupted"
"""What DuckDB makes of Ctrl-C."""
_INSTALL: Final = "pip install 'wirelake[cli,lake,java]'"


class _LakeCommands(click.Group):
    """Commands are imported when they are asked for; errors of lakes are one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _PLACES:
            return None
        module, _, attribute = _PLACES[cmd_name].partition(".")
        found: click.Command = getattr(
            importlib.import_module(f"{__package__}.{module}"), attribute
        )
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _PLACES and not args[0].startswith("-"):
            raise click.UsageError(
                f"no command of lake is called {args[0]!r}; there are {', '.join(_PLACES)}", ctx
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ImportError as error:
            name = error.name or ""
            if not name or name.startswith("wirelake"):
                raise
            raise CommandError(f"lakes need {name}: {_INSTALL}", BAD_USAGE) from error
        except ValueError as error:
            raise _told(error) from error
        except RuntimeError as error:
            if str(error) == _INTERRUPTED:
                raise KeyboardInterrupt from error
            raise


def _told(error: ValueError) -> Exception:
    """What a lake says is wrong is for whoever runs the command; all else is a mistake of ours."""
    from wirelake.tables.errors import DamagedError, LakeError

    if not isinstance(error, LakeError):
        return error
    return CommandError(str(error), BAD_DATA if isinstance(error, DamagedError) else BAD_USAGE)


@click.group(name="lake", help=_HELP, cls=_LakeCommands, context_settings=CONTEXT)
def command() -> None:
    """Lakes."""
