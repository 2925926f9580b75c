"""`wirelake user`: manages the users of a hub's HTTP interface, also while the hub runs."""

from __future__ import annotations

import click

from wirelake.hub.roles import Role

from ..main import COMMANDS
from ..options import CONTEXT, duration
from ..output.text import json_line
from .client import CONFIG, DATA, OVERLAP, AccountGroup, database, expiry, new_database

__all__ = ["command"]

_ROLES = "\n".join(f"  {role.label:<8}  {role.meaning}" for role in Role)
_HELP = f"""{COMMANDS["user"]}

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
_EXPIRES = click.option(
    "--expires",
    "lifetime_s",
    type=duration,
    default="90d",
    show_default=True,
    metavar="TIME",
    help="Time until the new token expires; 0: never.",
)


@click.group(name="user", help=_HELP, cls=AccountGroup, context_settings=CONTEXT)
def command() -> None:
    """Manage the users of a hub."""


@command.command(name="add", context_settings=CONTEXT)
@click.argument("id")
@click.option(
    "--role",
    type=click.Choice([role.label for role in Role]),
    required=True,
    help="What the user may do.",
)
@_EXPIRES
@DATA
@CONFIG
def add(id: str, role: str, lifetime_s: float, data: str, config_file: str | None) -> None:  # noqa: A002 - the name of the argument
    """Add a user and print the token."""
    from wirelake.hub.store import add_user

    with new_database(data, config_file) as path:
        click.echo(add_user(path, id, role, lifetime_s=lifetime_s))


@command.command(name="rotate", context_settings=CONTEXT)
@click.argument("id")
@OVERLAP
@_EXPIRES
@DATA
@CONFIG
def rotate(
    id: str,  # noqa: A002 - the name of the argument
    overlap_s: float,
    lifetime_s: float,
    data: str,
    config_file: str | None,
) -> None:
    """Replace the token of a user and print the new one. The old token stops working, at once or
    after --overlap."""
    from wirelake.hub.store import rotate_user

    path = database(data, config_file)
    click.echo(rotate_user(path, id, overlap_s=overlap_s, lifetime_s=lifetime_s))


@command.command(name="remove", context_settings=CONTEXT)
@click.argument("id")
@DATA
@CONFIG
def remove(id: str, data: str, config_file: str | None) -> None:  # noqa: A002 - the name of the argument
    """Remove a user; the token is refused from then on."""
    from wirelake.hub.store import remove_user

    remove_user(database(data, config_file), id)


@command.command(name="list", context_settings=CONTEXT)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@DATA
@CONFIG
def show(as_json: bool, data: str, config_file: str | None) -> None:
    """List users, their roles, and when their tokens expire."""
    from wirelake.hub.store import list_users

    for each in list_users(database(data, config_file)):
        row = {
            "id": each.id,
            "role": each.role,
            "created_ms": each.created_ms,
            "expires_ms": each.expires_ms,
            "old_expires_ms": each.old_expires_ms,
        }
        text = f"{each.id}  {each.role}  {expiry(each.expires_ms)}".rstrip()
        click.echo(json_line(row) if as_json else text)
