"""`wirelake client` and `wirelake user`: manage the accounts of a hub, whether it runs or not.

Clients sign on with a protocol, users use the HTTP interface. Both have an id and a token, so
`rotate`, `remove` and `list` are written once, for both groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import click

from wirelake.hub.roles import Role

from ..errors import BAD_USAGE, CommandError
from ..main import COMMANDS
from ..options import CONTEXT, Group, duration, warn_of_password
from ..output.text import json_line, time_text

__all__ = ["client", "user"]

_CLIENT_HELP = f"""{COMMANDS["client"]}

A client has an id and a token. The token is printed once, when it is created; the hub stores only
its hash. A removed client, or one with a replaced token, cannot sign on again; SIGHUP of the hub
also closes its open connections.

\b
Examples:
  wirelake client add phone-1 --data hub-data
  wirelake client add phone-2 --expires 90d --data hub-data
  wirelake client rotate phone-1 --overlap 1d --data hub-data
  wirelake client list --data hub-data
  wirelake client add phone-3 --store postgresql://wirelake_hub@db.example.com/wirelake
"""
_ROLES = "\n".join(f"  {role.label:<8}  {role.meaning}" for role in Role)
_USER_HELP = f"""{COMMANDS["user"]}

A user is a person or a program that uses the HTTP interface, with a token of its own instead of
admin.token. The token is printed once; the hub stores only its hash. Changes take effect at once.

\b
Roles, each with what the ones before it may do:
{_ROLES}

\b
Examples:
  wirelake user add prometheus --role metrics --expires 365d --data hub-data
  wirelake user add anna --role analyst --data hub-data
  wirelake user rotate prometheus --overlap 1d --data hub-data
"""

_Kind = Literal["client", "user"]
_COLUMNS: Final[dict[_Kind, tuple[str, ...]]] = {
    "client": ("id", "issued", "created_ms", "expires_ms", "old_expires_ms"),
    "user": ("id", "role", "created_ms", "expires_ms", "old_expires_ms"),
}
"""The keys of `list --json`."""
_REMOVE: Final[dict[_Kind, str]] = {
    "client": "Remove a client and its inbox.",
    "user": "Remove a user; the token is refused from then on.",
}
_LIST: Final[dict[_Kind, str]] = {
    "client": "List clients, and when their tokens expire.",
    "user": "List users, their roles, and when their tokens expire.",
}


class _Accounts(Group):
    """Reports errors of the store as usage errors."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a subcommand."""
        from wirelake.hub.config import ConfigError
        from wirelake.hub.errors import HubError

        try:
            return super().invoke(ctx)
        except (HubError, ConfigError) as error:
            raise CommandError(str(error), BAD_USAGE) from error


@click.group(name="client", help=_CLIENT_HELP, cls=_Accounts, context_settings=CONTEXT)
def client() -> None:
    """Manage the clients of a hub."""


@click.group(name="user", help=_USER_HELP, cls=_Accounts, context_settings=CONTEXT)
def user() -> None:
    """Manage the users of a hub."""


# -- options -----------------------------------------------------------------------------------

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
_STORE = click.option(
    "--store",
    metavar="URL",
    help="Database of the hub, if it is not in the data directory: a postgresql:// URL or a path.",
)
_EXPIRES: Final[dict[_Kind, Callable[[Any], Any]]] = {
    "client": click.option(
        "--expires",
        "lifetime_s",
        type=duration,
        default="0",
        metavar="TIME",
        help="Time until the new token expires, such as 90d.  [default: never]",
    ),
    "user": click.option(
        "--expires",
        "lifetime_s",
        type=duration,
        default="90d",
        show_default=True,
        metavar="TIME",
        help="Time until the new token expires; 0: never.",
    ),
}
_OVERLAP = click.option(
    "--overlap",
    "overlap_s",
    type=duration,
    default="0",
    metavar="TIME",
    help="Time for which the old token stays valid, such as 1d.  [default: none]",
)


# -- add ---------------------------------------------------------------------------------------


@client.command(name="add", context_settings=CONTEXT)
@click.argument("id")
@_EXPIRES["client"]
@_DATA
@_CONFIG
@_STORE
def _add_client(
    id: str,  # noqa: A002 - the name of the argument
    lifetime_s: float,
    data: str,
    config_file: str | None,
    store: str | None,
) -> None:
    """Add a client and print its token."""
    from wirelake.hub.store import add_client

    with _new_database(data, config_file, store) as target:
        click.echo(add_client(target, id, lifetime_s=lifetime_s))


@user.command(name="add", context_settings=CONTEXT)
@click.argument("id")
@click.option(
    "--role",
    type=click.Choice([role.label for role in Role]),
    required=True,
    help="What the user may do.",
)
@_EXPIRES["user"]
@_DATA
@_CONFIG
@_STORE
def _add_user(
    id: str,  # noqa: A002 - the name of the argument
    role: str,
    lifetime_s: float,
    data: str,
    config_file: str | None,
    store: str | None,
) -> None:
    """Add a user and print the token."""
    from wirelake.hub.store import add_user

    with _new_database(data, config_file, store) as target:
        click.echo(add_user(target, id, role, lifetime_s=lifetime_s))


# -- rotate, remove, list ----------------------------------------------------------------------


def _add_common_commands(group: click.Group, kind: _Kind) -> None:
    """Add the subcommands that clients and users share."""

    @group.command(
        name="rotate",
        help=f"Replace the token of a {kind} and print the new one. The old token stops working, at"
        " once or after --overlap.",
        context_settings=CONTEXT,
    )
    @click.argument("id")
    @_OVERLAP
    @_EXPIRES[kind]
    @_DATA
    @_CONFIG
    @_STORE
    def rotate(
        id: str,  # noqa: A002 - the name of the argument
        overlap_s: float,
        lifetime_s: float,
        data: str,
        config_file: str | None,
        store: str | None,
    ) -> None:
        from wirelake.hub.store import rotate_client, rotate_user

        replace = rotate_client if kind == "client" else rotate_user
        target = _database(data, config_file, store)
        click.echo(replace(target, id, overlap_s=overlap_s, lifetime_s=lifetime_s))

    @group.command(name="remove", help=_REMOVE[kind], context_settings=CONTEXT)
    @click.argument("id")
    @_DATA
    @_CONFIG
    @_STORE
    def remove(
        id: str,  # noqa: A002 - the name of the argument
        data: str,
        config_file: str | None,
        store: str | None,
    ) -> None:
        from wirelake.hub.store import remove_client, remove_user

        delete = remove_client if kind == "client" else remove_user
        delete(_database(data, config_file, store), id)

    @group.command(name="list", help=_LIST[kind], context_settings=CONTEXT)
    @click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
    @_DATA
    @_CONFIG
    @_STORE
    def show(as_json: bool, data: str, config_file: str | None, store: str | None) -> None:
        from wirelake.hub.store import list_clients, list_users

        target = _database(data, config_file, store)
        for each in list_clients(target) if kind == "client" else list_users(target):
            row = {name: getattr(each, name) for name in _COLUMNS[kind]}
            issued = "tokens of an issuer" if row.get("issued") else None
            cells = (each.id, row.get("role"), issued, _expiry(each.expires_ms))
            click.echo(json_line(row) if as_json else "  ".join(filter(None, cells)))


_add_common_commands(client, "client")
_add_common_commands(user, "user")


# -- the database ------------------------------------------------------------------------------


def _database(
    data: str, config_file: str | None, store: str | None, *, new: bool = False
) -> str | Path:
    """Return the hub's database, which exists unless it may be new."""
    from wirelake.hub.config import load_config
    from wirelake.hub.store import database_path

    warn_of_password(store)
    setting = load_config(config_file).store.path if store is None else store
    target = database_path(setting, Path(data))
    if isinstance(target, str) or new or not target.parent.is_dir() or target.exists():
        return target
    raise CommandError(
        f"{target}: no such file: not the data directory of a hub; give it with --data", BAD_USAGE
    )


@contextmanager
def _new_database(data: str, config_file: str | None, store: str | None) -> Iterator[str | Path]:
    """Create the data directory, as an account may be added before the first start of the hub.

    A failure leaves nothing behind.
    """
    import shutil

    from wirelake.hub.config import ConfigError

    target = _database(data, config_file, store, new=True)
    if isinstance(target, str):
        yield target
        return
    created = not Path(data).exists()
    try:
        Path(data).mkdir(parents=True, exist_ok=True, mode=0o700)
    except (FileExistsError, NotADirectoryError) as error:
        text = f"--data: {data}: not a folder; choose another one"
        raise CommandError(text, BAD_USAGE) from error
    try:
        yield target
    except ConfigError:
        if created:
            shutil.rmtree(data)
        raise


def _expiry(expires_ms: int) -> str:
    """Return when a token expires, for people."""
    if not expires_ms:
        return ""
    seconds, _, _ = time_text(expires_ms * 1_000_000).partition(".")
    return f"expires {seconds} UTC"
