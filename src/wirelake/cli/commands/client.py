"""`wirelake client`: who may come to a hub. It works while the hub runs, and while it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..errors import BAD_USAGE, CommandError
from ..main import COMMANDS
from ..output.common import CONTEXT, json_line

__all__ = ["command"]

_HELP = f"""{COMMANDS["client"]}

A client has an id and a token. The token is shown once, when it is made; the hub keeps only its
hash. Who is removed is refused from then on; SIGHUP sends those away who are connected.

\b
Examples:
  wirelake client add phone-1 --data hub-data
  wirelake client rotate phone-1 --data hub-data
  wirelake client list --data hub-data
"""


class _ClientGroup(click.Group):
    """What the store refuses is one line."""

    def invoke(self, ctx: click.Context) -> Any:
        from wirelake.hub.config import ConfigError
        from wirelake.hub.errors import HubError

        try:
            return super().invoke(ctx)
        except (HubError, ConfigError) as error:
            raise CommandError(str(error), BAD_USAGE) from error


@click.group(name="client", help=_HELP, cls=_ClientGroup, context_settings=CONTEXT)
def command() -> None:
    """Clients of a hub."""


_DATA = click.option(
    "--data", default="hub-data", show_default=True, metavar="DIR", help="The hub's data directory."
)
_CONFIG = click.option(
    "--config", "config_file", metavar="FILE", help="Its configuration, if that names a database."
)


def _database(data: str, config_file: str | None) -> Path:
    """Where the clients are."""
    from wirelake.hub.config import load_config
    from wirelake.hub.store import database_path

    return database_path(load_config(config_file).store.path, Path(data))


@command.command(name="add", context_settings=CONTEXT)
@click.argument("id")
@_DATA
@_CONFIG
def add(id: str, data: str, config_file: str | None) -> None:  # noqa: A002 - what it is called
    """Let somebody in; prints the token, this once."""
    from wirelake.hub.store import add_client

    Path(data).mkdir(parents=True, exist_ok=True, mode=0o700)  # clients may come before the hub
    click.echo(add_client(_database(data, config_file), id))


@command.command(name="rotate", context_settings=CONTEXT)
@click.argument("id")
@_DATA
@_CONFIG
def rotate(id: str, data: str, config_file: str | None) -> None:  # noqa: A002 - what it is called
    """Give somebody a new token; prints it, this once. The old one is refused from now on."""
    from wirelake.hub.store import rotate_client

    click.echo(rotate_client(_database(data, config_file), id))


@command.command(name="remove", context_settings=CONTEXT)
@click.argument("id")
@_DATA
@_CONFIG
def remove(id: str, data: str, config_file: str | None) -> None:  # noqa: A002 - what it is called
    """Let somebody in no more; the client's inbox goes, too."""
    from wirelake.hub.store import remove_client

    remove_client(_database(data, config_file), id)


@command.command(name="list", context_settings=CONTEXT)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each.")
@_DATA
@_CONFIG
def show(as_json: bool, data: str, config_file: str | None) -> None:
    """Who may come."""
    from wirelake.hub.store import list_clients

    for each in list_clients(_database(data, config_file)):
        shown = {"id": each.id, "created_ms": each.created_ms}
        click.echo(json_line(shown) if as_json else each.id)
