"""`wirelake publish` and `subscribe`: notifications to a topic or a client, and from topics."""

from __future__ import annotations

import datetime
import sys
from typing import TYPE_CHECKING, Any

import click

from ..connect import (
    AdminHub,
    client_errors,
    connection_options,
    message_object,
    run_client,
    server,
    server_with_calls,
    token_in,
)
from ..errors import BAD_DATA, CommandError
from ..main import COMMANDS
from ..options import CONTEXT, name_value_pairs, read_input
from ..output.text import body_text, counted, json_line, print_notice

if TYPE_CHECKING:
    from wirelake.client import Client, Notification, Push

__all__ = ["publish", "subscribe"]

_PUBLISH_HELP = f"""{COMMANDS["publish"]}

Returns when the hub has stored the notification, and prints its id and the number of clients that
it is for. URL is the hub's admin address (http:// or https://), which needs the admin token, or the
address of a protocol, where a client signs on; a saved context (wirelake context) replaces it.
CONTENT is text; - reads bytes from standard input.

\b
Examples:
  wirelake publish http://127.0.0.1:9680 @news 'rain' --admin-token-file hub-data/admin.token
  wirelake publish esnp://127.0.0.1:9600 @news 'rain' --id phone-1
  wirelake publish tny://127.0.0.1:9610 --client phone-2 'for you alone' --id phone-1
"""


@click.command(name="publish", help=_PUBLISH_HELP, context_settings=CONTEXT)
@click.argument("arguments", nargs=-1, metavar="[URL] [TOPIC] CONTENT")
@click.option("--client", "receiver", metavar="ID", help="Receiving client, instead of a topic.")
@click.option(
    "--type",
    "number",
    type=click.IntRange(0, 255),
    default=0,
    help="Application-defined type (0-255).",
)
@click.option(
    "--once", metavar="KEY", help="Idempotency key: a repeated KEY is not published again."
)
@click.option(
    "--ttl",
    "ttl_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Time to live for offline clients; 0: online clients only, not stored.",
)
@click.option("--admin-token-file", metavar="FILE", help="File with the admin token, for http(s).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@connection_options
def publish(
    arguments: tuple[str, ...],
    receiver: str | None,
    number: int,
    once: str | None,
    ttl_s: float | None,
    admin_token_file: str | None,
    as_json: bool,
    **connection: Any,
) -> None:
    """Publish a notification."""
    url, topic, content = _arguments(arguments, receiver)
    given = {"topic": topic, "client": receiver, "type": number, "id": once, "ttl_s": ttl_s}
    if url is not None and url.startswith(("http://", "https://")):
        result = _publish_http(url, content, given, admin_token_file, connection)
    else:
        result = _publish(server(url, connection), content, given, connection)
    if as_json:
        click.echo(json_line(result))
    else:
        click.echo(_published_text(result, topic, receiver))


def _arguments(
    arguments: tuple[str, ...], receiver: str | None
) -> tuple[str | None, str | None, bytes]:
    """Return URL, topic and content. How many there are decides: content may look like a URL."""
    expected = 1 if receiver is not None else 2
    if not expected <= len(arguments) <= expected + 1:
        form = "CONTENT only (with --client)" if receiver is not None else "TOPIC and CONTENT"
        raise click.UsageError(f"invalid arguments; expected URL, {form}")
    url = arguments[0] if len(arguments) > expected else None
    if url is None and "://" in arguments[0] and receiver is None:
        raise click.UsageError("missing argument: expected URL, TOPIC and CONTENT")
    last = arguments[-1]
    content = read_input("-") if last == "-" else last.encode("utf-8", "surrogateescape")
    return url, (None if receiver is not None else arguments[-2]), content


def _published_text(result: dict[str, Any], topic: str | None, receiver: str | None) -> str:
    if topic is None:
        return f"published {result['id']} for client {receiver}"
    audience = result["audience"]
    to = counted(audience, "subscriber") if audience else "no subscriber: nobody receives it"
    return f"published {result['id']} to {topic}: {to}"


def _publish(
    url: str, content: bytes, given: dict[str, Any], connection: dict[str, Any]
) -> dict[str, Any]:
    with client_errors():
        server_with_calls(url, "publish")

    async def work(client: Client) -> dict[str, Any]:
        published = await client.publish(content, **given)
        return {"id": published.id, "audience": published.audience}

    result = run_client(url, connection, work, reconnect=False)
    if not result["id"]:
        raise CommandError(f"{url}: the server's response has no id", BAD_DATA)
    return result


def _publish_http(
    url: str,
    content: bytes,
    given: dict[str, Any],
    token_file: str | None,
    connection: dict[str, Any],
) -> dict[str, Any]:
    """Publish through the admin API."""
    from wirelake.protocols.hub_calls import content_fields

    if connection["context"] is not None:
        raise click.UsageError("--context conflicts with a URL")
    if token_file is None:
        raise click.UsageError(
            "missing --admin-token-file: admin.token in the hub's data directory"
        )
    hub = AdminHub(url, token_in(token_file), connection["ca"], token_options="--admin-token-file")
    body = {name: value for name, value in given.items() if value is not None}
    result = hub.post("/v1/publish", body | content_fields(content), connection["timeout_s"])
    if not isinstance(result, dict) or not {"id", "audience"} <= set(result):
        raise CommandError(f"{url}: not a hub's admin address", BAD_DATA)
    return result


# -- subscribe ---------------------------------------------------------------------------------

_SUBSCRIBE_HELP = f"""{COMMANDS["subscribe"]}

Prints one line per notification: time, id, topic, content. Stored notifications come first. Each
notification is acknowledged after it is printed. A lost connection is reopened; Ctrl-C exits.
Protocols with an inbox need no TOPIC: they deliver what is already subscribed. Their notifications
may carry no topic. A saved context (wirelake context) replaces URL.

\b
Examples:
  wirelake subscribe comet://127.0.0.1:9620 @news --id phone-1
  wirelake subscribe esnp://127.0.0.1:9600 @news @weather --id phone-1 --count 10 --json
  wirelake subscribe comet://127.0.0.1:9620 --list --id phone-1
"""


@click.command(name="subscribe", help=_SUBSCRIBE_HELP, context_settings=CONTEXT)
@click.argument("arguments", nargs=-1, metavar="[URL] [TOPIC]...")
@click.option(
    "--count", type=click.IntRange(min=1), metavar="N", help="Exit after N notifications."
)
@click.option(
    "--no-ack",
    is_flag=True,
    help="Do not acknowledge: notifications are delivered again next time.",
)
@click.option("--list", "listing", is_flag=True, help="Print the subscribed topics and exit.")
@click.option("--end", is_flag=True, help="End the subscriptions to TOPIC and exit.")
@click.option(
    "--report",
    "facts",
    multiple=True,
    metavar="NAME=VALUE",
    help="Fact about this client to report first, such as network=wifi; repeat for more.",
)
@click.option(
    "--pushes",
    is_flag=True,
    help="Print what the server sends on its own, other than notifications: events and pushes.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@connection_options
def subscribe(
    arguments: tuple[str, ...],
    count: int | None,
    no_ack: bool,
    listing: bool,
    end: bool,
    facts: tuple[str, ...],
    pushes: bool,
    as_json: bool,
    **connection: Any,
) -> int:
    """Print notifications."""
    if listing + end + pushes > 1:
        raise click.UsageError("--list, --end and --pushes conflict")
    reported = name_value_pairs("--report", facts)
    has_url = bool(arguments) and "://" in arguments[0]
    topics = arguments[1:] if has_url else arguments
    url = server(arguments[0] if has_url else None, connection)
    with client_errors():
        if not topics and (end or not (listing or pushes or _has_inbox(url))):
            raise click.UsageError("missing argument TOPIC")

    from wirelake.client import Push

    async def work(client: Client) -> None:
        if reported:
            await client.report(**reported)
        if end:
            await client.unsubscribe(*topics)
            return
        if topics:
            await client.subscribe(*topics)
        if listing:
            for topic in await client.topics():
                click.echo(json_line({"topic": topic}) if as_json else topic)
            return
        _announce(client, topics)
        remaining = count
        async for each in client.pushes() if pushes else client.notifications():
            # Printed first: a notification that was acknowledged and not shown would be lost.
            if isinstance(each, Push):
                _show_push(client, each, as_json)
            else:
                _show(each, as_json)
                if not no_ack:
                    await client.ack(each)
            remaining = None if remaining is None else remaining - 1
            if remaining == 0:
                return

    try:
        run_client(url, connection, work)
    except KeyboardInterrupt:  # the usual end
        return 0
    return 0


def _announce(client: Client, topics: tuple[str, ...]) -> None:
    """Say on standard error that notifications are awaited; nothing may arrive for hours."""
    what = f"subscribed to {', '.join(topics)}" if topics else "waiting for notifications"
    who = f" as {client.settings.id}" if client.settings.id is not None else ""
    print_notice(f"{what} at {client.address.place}{who}; press Ctrl-C to stop")


def _has_inbox(url: str) -> bool:
    """Return whether a client receives stored notifications without subscribing."""
    from wirelake.client.settings import parse_where
    from wirelake.protocols import registry

    return registry.binding(parse_where(url).protocol).inbox


def _show_push(client: Client, push: Push, as_json: bool) -> None:
    from wirelake.protocols.hub_calls import content_fields
    from wirelake.wire import Layout

    if as_json:
        row: dict[str, Any] = {"target": push.target, **content_fields(push.body)}
        if isinstance(push.message, Layout):
            row["message"] = message_object(client, push.message)
        click.echo(json_line(row))
    else:
        click.echo(f"{push.target}  {body_text(push.body)}")
    sys.stdout.flush()


def _show(notification: Notification, as_json: bool) -> None:
    from wirelake.protocols.hub_calls import content_fields

    at = datetime.datetime.fromtimestamp(notification.ts_ms / 1000, datetime.UTC)
    if not as_json:
        when = at.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
        topic = notification.topic or "-"
        click.echo(f"{when}  {notification.id}  {topic}  {body_text(notification.content)}")
    else:
        row: dict[str, Any] = {"id": notification.id, "ts_ms": notification.ts_ms}
        if notification.topic is not None:
            row["topic"] = notification.topic
        if notification.type:
            row["type"] = notification.type
        click.echo(json_line({**row, **content_fields(notification.content)}))
    sys.stdout.flush()
