"""How a command connects to a server as a client: its options, its client, its errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import BAD_DATA, BAD_USAGE, CommandError

if TYPE_CHECKING:
    import ssl

    from wirelake.client import Client

__all__ = ["connected", "connection_options", "run_client", "tls_context"]

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")


def connection_options(command: Command) -> Command:
    """Add the options that say who connects and how to authenticate the server."""
    for option in reversed(
        (
            click.option("--id", "client_id", metavar="ID", help="Client id to sign on with."),
            click.option(
                "--token",
                envvar="WIRELAKE_TOKEN",
                metavar="TEXT",
                help="Token of the client. Prefer the variable WIRELAKE_TOKEN: other users can see"
                " command lines.",
            ),
            click.option("--ca", metavar="FILE", help="Trusted CA certificates (PEM), for TLS."),
            click.option("--key", metavar="HEX", help="Public key of the server, or a file."),
            click.option("--psk", metavar="FILE", help="File with a pre-shared key (magline)."),
            click.option(
                "--anonymous", is_flag=True, help="Do not authenticate the server (magline)."
            ),
            click.option(
                "--plaintext", is_flag=True, help="Accept unsealed notifications (comet)."
            ),
            click.option("--dialect", metavar="NAME", help="Dialect of the protocol."),
            click.option(
                "--timeout",
                "timeout_s",
                type=click.FloatRange(min=0, min_open=True),
                default=10.0,
                show_default=True,
                metavar="SECONDS",
                help="Timeout for connecting and for each response.",
            ),
        )
    ):
        command = option(command)
    return command


def connected(
    url: str,
    *,
    client_id: str | None,
    token: str | None,
    ca: str | None,
    key: str | None,
    psk: str | None,
    anonymous: bool,
    plaintext: bool,
    dialect: str | None,
    timeout_s: float,
    **more: Any,
) -> Client:
    """Return the client that the options describe; `async with` connects it."""
    from wirelake.client import connect

    if client_id is None and token is not None and not _from_environment("token"):
        raise click.UsageError("--token requires --id")
    if client_id is not None and token is None:
        raise click.UsageError("--id requires a token: give --token or set WIRELAKE_TOKEN")
    return connect(
        url,
        id=client_id,
        token=token or "",
        tls=None if ca is None else tls_context(ca),
        pinned=None if key is None else _key_text(key),
        psk=None if psk is None else Path(psk).read_text(encoding="ascii", errors="replace"),
        anonymous=anonymous,
        allow_plaintext=True if plaintext else None,
        dialect=dialect,
        timeout_s=timeout_s,
        connect_timeout_s=timeout_s,
        **more,
    )


def _from_environment(option: str) -> bool:
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source(option)
    return source is click.core.ParameterSource.ENVIRONMENT


def tls_context(ca: str) -> ssl.SSLContext:
    """Return a TLS context that trusts only the CA certificates in a file."""
    import ssl

    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise CommandError(f"{ca}: not a PEM certificate", BAD_USAGE) from error


def _key_text(key: str) -> str:
    """Return the key, or the contents of the file with that name."""
    if Path(key).is_file():
        return Path(key).read_text(encoding="ascii", errors="replace")
    return key


def run_client(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that uses a client; its errors become `CommandError`."""
    from wirelake.client import BadCall, ClientError

    try:
        return asyncio.run(work)
    except BadCall as error:
        raise CommandError(str(error), BAD_USAGE) from error
    except ClientError as error:
        raise CommandError(str(error), BAD_DATA) from error
