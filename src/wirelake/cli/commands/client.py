"""`wirelake client`: manages the clients of a hub, whether the hub is running or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..errors import BAD_USAGE, CommandError
from ..main import COMMANDS
from ..options import CONTEXT
from ..output.text import json_line

__all__ = ["command"]

_HELP = f"""{COMMANDS["client"]}

A client has an id and a token. The token is printed once, when it is created; the hub stores only
its hash. A removed client, or one with a replaced token, cannot sign on again; SIGHUP of the hub
also closes its open connections.

\b
Examples:
  wirelake client add phone-1 --data hub-data
  wirelake client rotate phone-1 --data hub-data
  wirelake client list --data hub-data
"""


class _ClientGroup(click.Group):
    """Reports errors of the store as usage errors."""

    def invoke(self, ctx: click.Context) -> Any:
        from wirelake.hub.config import ConfigError
        from wirelake.hub.errors import HubError

        try:
            return super().invoke(ctx)
        except (HubError, ConfigError) as error:
            raise CommandError(str(error), BAD_USAGE) from error


@click.group(name="client", help=_HELP, cls=_ClientGroup, context_settings=CONTEXT)
def command() -> None:
    """Manage the clients of a hub."""


_DATA = click.option(
    "--data",
    default="hub-data",
    show_default=True,
    metavar="DIR",
    help="Data directory of the hub.",
)
_CONFIG = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="Configuration of the hub, if it sets store.path.",
)


def _database(data: str, config_file: str | None) -> Path:
    """Return the path of the client database."""
    from wirelake.hub.config import load_config
    from wirelake.hub.store import database_path

    return database_path(load_config(config_file).store.path, Path(data))


@command.command(name="add", context_settings=CONTEXT)
@click.argument("id")
@_DATA
@_CONFIG
def add(id: str, data: str, config_file: str | None) -> None:  # noqa: A002 - the name of the argument
    """Add a client and print its token."""
    from wirelake.hub.store import add_client

    # Clients may be added before the first start of the hub.
    Path(data).mkdir(parents=True, exist_ok=True, mode=0o700)
    click.echo(add_client(_database(data, config_file), id))


@command.command(name="rotate", context_settings=CONTEXT)
@click.argument("id")
@_DATA
@_CONFIG
def rotate(id: str, data: str, config_file: str | None) -> None:  # noqa: A002 - the name of the argument
    """Replace the token of a client and print the new one. The old token stops working."""
    from wirelake.hub.store import rotate_client

    click.echo(rotate_client(_database(data, config_file), id))


@command.command(name="remove", context_settings=CONTEXT)
@click.argument("id")
@_DATA
@_CONFIG
def remove(id: str, data: str, config_file: str | None) -> None:  # noqa: A002 - the name of the argument
    """Remove a client and its inbox."""
    from wirelake.hub.store import remove_client

    remove_client(_database(data, config_file), id)


@command.command(name="list", context_settings=CONTEXT)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@_DATA
@_CONFIG
def show(as_json: bool, data: str, config_file: str | None) -> None:
    """List clients."""
    from wirelake.hub.store import list_clients

    for each in list_clients(_database(data, config_file)):
        row = {"id": each.id, "created_ms": each.created_ms}
        click.echo(json_line(row) if as_json else each.id)
