"""`wirelake publish`: one notification, to a topic or to one client."""

from __future__ import annotations

from typing import Any

import click

from ..errors import BAD_DATA, CommandError
from ..main import COMMANDS
from ..output.common import (
    CONTEXT,
    json_line,
    read_input,
)
from .client_run import (
    connected,
    connection_options,
    run,
)

__all__ = ["command"]

_HELP = f"""{COMMANDS["publish"]}

It returns when the notification is on the hub's disk. URL is the hub's admin address, http:// or
https://, with the token of its data directory; or a protocol's, where a client signs on. CONTENT
is a text; - reads standard input, which may be any bytes.

\b
Examples:
  wirelake publish http://127.0.0.1:9680 @news 'rain' --admin-token-file hub-data/admin.token
  wirelake publish esnp://127.0.0.1:9600 @news 'rain' --id phone-1
  wirelake publish tny://127.0.0.1:9610 --client phone-2 'for you alone' --id phone-1

Exit codes: 0 published, 1 refused or nobody answered, 2 bad usage.
"""


@click.command(name="publish", help=_HELP, context_settings=CONTEXT)
@click.argument("url")
@click.argument("words", nargs=-1, metavar="[TOPIC] CONTENT")
@click.option("--client", "receiver", metavar="ID", help="To this client, and not to a topic.")
@click.option("--type", "number", type=click.IntRange(0, 255), default=0, help="A number to tell.")
@click.option("--once", metavar="KEY", help="The same key again publishes nothing.")
@click.option(
    "--ttl",
    "ttl_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long it waits for who is away; 0 reaches who is there, and is not stored.",
)
@click.option("--admin-token-file", metavar="FILE", help="The admin token, for http(s).")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@connection_options
def command(
    url: str,
    words: tuple[str, ...],
    receiver: str | None,
    number: int,
    once: str | None,
    ttl_s: float | None,
    admin_token_file: str | None,
    as_json: bool,
    **connection: Any,
) -> None:
    """Publish once."""
    topic, content = _words(words, receiver)
    given = {"topic": topic, "client": receiver, "type": number, "id": once, "ttl_s": ttl_s}
    if url.startswith(("http://", "https://")):
        from .publish_http import publish_http

        answer = publish_http(
            url, content, given, admin_token_file, connection["ca"], connection["timeout_s"]
        )
    else:
        answer = _publish(url, content, given, connection)
    if as_json:
        click.echo(json_line(answer))
    else:
        click.echo(f"{answer['id']} for {answer['audience']}")


def _words(words: tuple[str, ...], receiver: str | None) -> tuple[str | None, bytes]:
    wanted = 1 if receiver is not None else 2
    if len(words) != wanted:
        form = "CONTENT alone, with --client" if receiver is not None else "TOPIC and CONTENT"
        raise click.UsageError(f"wanted {form}")
    content = read_input("-") if words[-1] == "-" else words[-1].encode("utf-8", "surrogateescape")
    return (None if receiver is not None else words[0]), content


def _publish(
    url: str, content: bytes, given: dict[str, Any], connection: dict[str, Any]
) -> dict[str, Any]:
    async def work() -> dict[str, Any]:
        async with connected(url, reconnect=False, **connection) as client:
            found = await client.publish(content, **given)
            return {"id": found.id, "audience": found.audience}

    answer = run(work())
    if not answer["id"]:
        raise CommandError(f"{url}: the server's answer has no id", BAD_DATA)
    return answer
