"""`wirelake context`: saves servers and credentials under a name."""

from __future__ import annotations

import click

from ..connect import token_in
from ..contexts import (
    Context,
    context_names,
    current_name,
    load_context,
    remove_context,
    save_context,
    use_context,
)
from ..main import COMMANDS
from ..options import CONTEXT, Group
from ..output.text import json_line

__all__ = ["command"]

_HELP = f"""{COMMANDS["context"]}

With a context in use, `call`, `ping`, `publish`, `subscribe`, `top` and `tail` need no URL and no
token. A URL on the command line takes precedence, and then nothing of the context is used: its
token is sent to its own server only. The variable WIRELAKE_CONTEXT and the option --context select
another context. Contexts are files that only their owner can read, in ~/.config/wirelake.

\b
Examples:
  wirelake context add edge --url esnp://127.0.0.1:9600 --id phone-1 --token-file phone-1.token
  wirelake context use edge
  wirelake call test/add a=1 b=2
  wirelake context add ops --admin http://127.0.0.1:9680 --admin-token-file hub-data/admin.token
  wirelake top --context ops
"""


@click.group(name="context", help=_HELP, cls=Group, context_settings=CONTEXT)
def command() -> None:
    """Manage saved contexts."""


@command.command(name="add", context_settings=CONTEXT)
@click.argument("new_name", metavar="NAME")
@click.option("--url", metavar="URL", help="Server, as PROTOCOL://HOST:PORT; an s selects TLS.")
@click.option("--id", "client_id", metavar="ID", help="Client id to sign on with.")
@click.option("--token-file", metavar="FILE", help="File with the client's token; it is copied.")
@click.option("--ca", metavar="FILE", help="Trusted CA certificates (PEM), for TLS.")
@click.option("--key", metavar="HEX", help="Public key of the server, or a file.")
@click.option("--psk", metavar="FILE", help="File with a pre-shared key.")
@click.option("--anonymous", is_flag=True, help="Do not authenticate the server.")
@click.option("--plaintext", is_flag=True, help="Accept unsealed notifications.")
@click.option("--dialect", metavar="NAME", help="Dialect of the protocol.")
@click.option("--admin", metavar="URL", help="Admin address of the hub, for top and tail.")
@click.option("--admin-token-file", metavar="FILE", help="File with the admin token; it is copied.")
@click.option("--replace", is_flag=True, help="Replace the context if it exists.")
@click.option("--use", "use_it", is_flag=True, help="Use the context from now on.")
def add(
    new_name: str,
    url: str | None,
    client_id: str | None,
    token_file: str | None,
    ca: str | None,
    key: str | None,
    psk: str | None,
    anonymous: bool,
    plaintext: bool,
    dialect: str | None,
    admin: str | None,
    admin_token_file: str | None,
    replace: bool,
    use_it: bool,
) -> None:
    """Save a context. The first one is used from then on."""
    if url is None and admin is None:
        raise click.UsageError("missing --url or --admin")
    if (client_id is None) != (token_file is None):
        raise click.UsageError("--id and --token-file require each other")
    if admin_token_file is not None and admin is None:
        raise click.UsageError("--admin-token-file requires --admin")
    _check(url, admin)
    context = Context(
        url=url,
        client_id=client_id,
        token=None if token_file is None else token_in(token_file),
        ca=_absolute(ca),
        key=_absolute(key) if key is not None and _is_file(key) else key,
        psk=_absolute(psk),
        dialect=dialect,
        anonymous=anonymous,
        plaintext=plaintext,
        admin=admin,
        admin_token=None if admin_token_file is None else token_in(admin_token_file),
    )
    first = not context_names()
    path = save_context(new_name, context, replace=replace)
    if use_it or first:
        use_context(new_name)
    in_use = ", in use" if current_name() == new_name else ""
    click.echo(f"{path}{in_use}")


def _check(url: str | None, admin: str | None) -> None:
    """Report an invalid address now instead of at its first use."""
    from wirelake.client import BadCall
    from wirelake.client.settings import parse_where

    from ..connect import AdminHub

    if admin is not None:
        AdminHub(admin, "")
    try:
        where = None if url is None else parse_where(url)
    except BadCall as error:
        raise click.UsageError(str(error)) from error
    if where is not None and where.target:
        raise click.UsageError(f"{url}: a context has a server, not a target: omit the path")


def _is_file(text: str) -> bool:
    from pathlib import Path

    return Path(text).is_file()


def _absolute(path: str | None) -> str | None:
    """Return a path that is valid in every working directory."""
    import os

    return None if path is None else os.path.abspath(path)


@command.command(name="use", context_settings=CONTEXT)
@click.argument("context_name", metavar="NAME")
def use(context_name: str) -> None:
    """Use a context from now on."""
    use_context(context_name)


@command.command(name="list", context_settings=CONTEXT)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def show(as_json: bool) -> None:
    """List contexts, without tokens; * marks the one in use."""
    used = current_name()
    for name in context_names():
        context = load_context(name)
        if as_json:
            click.echo(json_line({"name": name, "in_use": name == used, **context.public()}))
        else:
            mark = "*" if name == used else " "
            who = f" as {context.client_id}" if context.client_id else ""
            places = [each for each in (context.url, context.admin) if each]
            click.echo(f"{mark} {name:<12} {' and '.join(places)}{who}")


@command.command(name="remove", context_settings=CONTEXT)
@click.argument("context_name", metavar="NAME")
def remove(context_name: str) -> None:
    """Delete a context."""
    remove_context(context_name)
