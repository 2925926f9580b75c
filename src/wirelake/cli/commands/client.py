"""`wirelake client`: manages the clients of a hub, whether the hub is running or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ..errors import BAD_USAGE, CommandError
from ..main import COMMANDS
from ..options import CONTEXT, Group, duration
from ..output.text import json_line, time_text

__all__ = [
    "AccountGroup",
    "command",
    "database",
    "expiry",
    "new_database",
]

_HELP = f"""{COMMANDS["client"]}

A client has an id and a token. The token is printed once, when it is created; the hub stores only
its hash. A removed client, or one with a replaced token, cannot sign on again; SIGHUP of the hub
also closes its open connections.

\b
Examples:
  wirelake client add phone-1 --data hub-data
  wirelake client add phone-2 --expires 90d --data hub-data
  wirelake client rotate phone-1 --overlap 1d --data hub-data
  wirelake client list --data hub-data
"""


class AccountGroup(Group):
    """Reports errors of the store as usage errors."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a subcommand."""
        from wirelake.hub.config import ConfigError
        from wirelake.hub.errors import HubError

        try:
            return super().invoke(ctx)
        except (HubError, ConfigError) as error:
            raise CommandError(str(error), BAD_USAGE) from error


@click.group(name="client", help=_HELP, cls=AccountGroup, context_settings=CONTEXT)
def command() -> None:
    """Manage the clients of a hub."""


DATA = click.option(
    "--data",
    default="hub-data",
    show_default=True,
    metavar="DIR",
    help="Data directory of the hub.",
)
"""The data directory."""
CONFIG = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="Configuration of the hub, if it sets store.path.",
)
"""The configuration file."""
EXPIRES = click.option(
    "--expires",
    "lifetime_s",
    type=duration,
    default="0",
    metavar="TIME",
    help="Time until the new token expires, such as 90d.  [default: never]",
)
"""The lifetime of a new token."""
OVERLAP = click.option(
    "--overlap",
    "overlap_s",
    type=duration,
    default="0",
    metavar="TIME",
    help="Time for which the old token stays valid, such as 1d.  [default: none]",
)
"""How long a replaced token stays valid."""


def database(data: str, config_file: str | None, *, new: bool = False) -> Path:
    """Return the path of the hub's database, which exists unless it may be new."""
    from wirelake.hub.config import load_config
    from wirelake.hub.store import database_path

    path = database_path(load_config(config_file).store.path, Path(data))
    if not new and path.parent.is_dir() and not path.exists():
        raise CommandError(
            f"{path}: no such file: not the data directory of a hub; give it with --data", BAD_USAGE
        )
    return path


@contextmanager
def new_database(data: str, config_file: str | None) -> Iterator[Path]:
    """Create the data directory, as an account may be added before the first start of the hub.

    A failure leaves nothing behind.
    """
    import shutil

    from wirelake.hub.config import ConfigError

    path = database(data, config_file, new=True)
    created = not Path(data).exists()
    Path(data).mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        yield path
    except ConfigError:
        if created:
            shutil.rmtree(data)
        raise


def expiry(expires_ms: int) -> str:
    """Return when a token expires, for people."""
    return f"expires {time_text(expires_ms * 1_000_000)}" if expires_ms else ""


@command.command(name="add", context_settings=CONTEXT)
@click.argument("id")
@EXPIRES
@DATA
@CONFIG
def add(id: str, lifetime_s: float, data: str, config_file: str | None) -> None:  # noqa: A002 - the name of the argument
    """Add a client and print its token."""
    from wirelake.hub.store import add_client

    with new_database(data, config_file) as path:
        click.echo(add_client(path, id, lifetime_s=lifetime_s))


@command.command(name="rotate", context_settings=CONTEXT)
@click.argument("id")
@OVERLAP
@EXPIRES
@DATA
@CONFIG
def rotate(
    id: str,  # noqa: A002 - the name of the argument
    overlap_s: float,
    lifetime_s: float,
    data: str,
    config_file: str | None,
) -> None:
    """Replace the token of a client and print the new one. The old token stops working, at once or
    after --overlap."""
    from wirelake.hub.store import rotate_client

    path = database(data, config_file)
    click.echo(rotate_client(path, id, overlap_s=overlap_s, lifetime_s=lifetime_s))


@command.command(name="remove", context_settings=CONTEXT)
@click.argument("id")
@DATA
@CONFIG
def remove(id: str, data: str, config_file: str | None) -> None:  # noqa: A002 - the name of the argument
    """Remove a client and its inbox."""
    from wirelake.hub.store import remove_client

    remove_client(database(data, config_file), id)


@command.command(name="list", context_settings=CONTEXT)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@DATA
@CONFIG
def show(as_json: bool, data: str, config_file: str | None) -> None:
    """List clients, and when their tokens expire."""
    from wirelake.hub.store import list_clients

    for each in list_clients(database(data, config_file)):
        row = {
            "id": each.id,
            "created_ms": each.created_ms,
            "expires_ms": each.expires_ms,
            "old_expires_ms": each.old_expires_ms,
        }
        text = f"{each.id}  {expiry(each.expires_ms)}".rstrip()
        click.echo(json_line(row) if as_json else text)
