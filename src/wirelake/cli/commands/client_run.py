"""What the commands that speak to a server have in common: how to connect, and how they fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import (
    BAD_DATA,
    BAD_USAGE,
    CommandError,
)

if TYPE_CHECKING:
    import ssl

    from wirelake.client import Client

__all__ = ["connected", "connection_options", "printable", "run", "tls_context", "typed_value"]

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")


def connection_options(command: Command) -> Command:
    """Adds the options that say who connects, and how the server is known."""
    for option in reversed(
        (
            click.option("--id", "client_id", metavar="ID", help="Who signs on."),
            click.option(
                "--token",
                envvar="WIRELAKE_TOKEN",
                metavar="TEXT",
                help="What proves it; better in the variable WIRELAKE_TOKEN, which nobody else "
                "sees.",
            ),
            click.option("--ca", metavar="FILE", help="Whose certificates to trust, with TLS."),
            click.option(
                "--key", metavar="HEX", help="The server's public key, or a file with it."
            ),
            click.option("--psk", metavar="FILE", help="A file with a shared key (magline)."),
            click.option("--anonymous", is_flag=True, help="Trust any server (magline)."),
            click.option("--plaintext", is_flag=True, help="Do without sealed contents (comet)."),
            click.option("--dialect", metavar="NAME", help="The protocol's dialect."),
            click.option(
                "--timeout",
                "timeout_s",
                type=click.FloatRange(min=0, min_open=True),
                default=10.0,
                show_default=True,
                metavar="SECONDS",
                help="How long to wait for an answer.",
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
    """The client that the options describe; it connects with `async with`."""
    from wirelake.client import connect

    if client_id is None and token is not None and not _from_environment("token"):
        raise click.UsageError("--token goes with --id")
    if client_id is not None and token is None:
        raise click.UsageError("--id needs a token: --token, or the variable WIRELAKE_TOKEN")
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
    """Trust in the authorities of a file, and no others."""
    import ssl

    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise CommandError(f"{ca}: no certificate in PEM form", BAD_USAGE) from error


def _key_text(key: str) -> str:
    """A key as it was given, or what the file of that name holds."""
    if Path(key).is_file():
        return Path(key).read_text(encoding="ascii", errors="replace")
    return key


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs what a command does; what goes wrong is one line."""
    from wirelake.client import BadCall, ClientError

    try:
        return asyncio.run(work)
    except BadCall as error:
        raise CommandError(str(error), BAD_USAGE) from error
    except ClientError as error:
        raise CommandError(str(error), BAD_DATA) from error


def typed_value(text: str) -> Any:
    """The value that a text on the command line means: a number, true, false, null, JSON in
    brackets or quotes, else the text itself."""
    import json

    try:
        return int(text)
    except ValueError:
        pass
    try:
        return json.loads(text)
    except ValueError:
        return text


def printable(body: bytes) -> str:
    """Bytes for people: text, or else hexadecimal."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body.hex()
    return text if text.replace("\n", "").replace("\t", "").isprintable() else body.hex()
