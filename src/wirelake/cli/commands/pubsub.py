"""`wirelake publish` and `subscribe`: notifications to a topic or a client, and from topics."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..connect import connected, connection_options, run_client, server_with_calls, tls_context
from ..errors import BAD_DATA, CommandError
from ..main import COMMANDS
from ..options import CONTEXT, read_input
from ..output.text import body_text, json_line

if TYPE_CHECKING:
    from urllib.error import HTTPError

    from wirelake.client import Notification

__all__ = ["publish", "subscribe"]

_PUBLISH_HELP = f"""{COMMANDS["publish"]}

Returns when the hub has stored the notification. URL is the hub's admin address (http:// or
https://), which needs the admin token, or the address of a protocol, where a client signs on.
CONTENT is text; - reads bytes from standard input.

\b
Examples:
  wirelake publish http://127.0.0.1:9680 @news 'rain' --admin-token-file hub-data/admin.token
  wirelake publish esnp://127.0.0.1:9600 @news 'rain' --id phone-1
  wirelake publish tny://127.0.0.1:9610 --client phone-2 'for you alone' --id phone-1

Exit codes: 0 published, 1 refused or no response, 2 bad usage.
"""


@click.command(name="publish", help=_PUBLISH_HELP, context_settings=CONTEXT)
@click.argument("url")
@click.argument("arguments", nargs=-1, metavar="[TOPIC] CONTENT")
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
    url: str,
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
    topic, content = _topic_and_content(arguments, receiver)
    given = {"topic": topic, "client": receiver, "type": number, "id": once, "ttl_s": ttl_s}
    if url.startswith(("http://", "https://")):
        result = _publish_http(
            url, content, given, admin_token_file, connection["ca"], connection["timeout_s"]
        )
    else:
        result = _publish(url, content, given, connection)
    if as_json:
        click.echo(json_line(result))
    else:
        click.echo(f"{result['id']} for {result['audience']}")


def _topic_and_content(
    arguments: tuple[str, ...], receiver: str | None
) -> tuple[str | None, bytes]:
    if len(arguments) != (1 if receiver is not None else 2):
        form = "CONTENT only (with --client)" if receiver is not None else "TOPIC and CONTENT"
        raise click.UsageError(f"invalid arguments; expected {form}")
    last = arguments[-1]
    content = read_input("-") if last == "-" else last.encode("utf-8", "surrogateescape")
    return (None if receiver is not None else arguments[0]), content


def _publish(
    url: str, content: bytes, given: dict[str, Any], connection: dict[str, Any]
) -> dict[str, Any]:
    async def work() -> dict[str, Any]:
        server_with_calls(url, "publish")
        async with connected(url, reconnect=False, **connection) as client:
            published = await client.publish(content, **given)
            return {"id": published.id, "audience": published.audience}

    result = run_client(work())
    if not result["id"]:
        raise CommandError(f"{url}: the server's response has no id", BAD_DATA)
    return result


def _publish_http(
    url: str,
    content: bytes,
    given: dict[str, Any],
    token_file: str | None,
    ca: str | None,
    timeout_s: float,
) -> dict[str, Any]:
    """Publish through the admin API."""
    import json
    import urllib.error
    import urllib.request

    from wirelake.protocols.hub_calls import content_fields

    if token_file is None:
        raise click.UsageError(
            "missing --admin-token-file: admin.token in the hub's data directory"
        )
    token = Path(token_file).read_text(encoding="utf-8").strip()
    body = {name: value for name, value in given.items() if value is not None}
    body |= content_fields(content)
    request = urllib.request.Request(
        f"{url.rstrip('/')}/v1/publish",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    context = tls_context(ca) if ca is not None else None
    try:
        with urllib.request.urlopen(request, timeout=timeout_s, context=context) as response:
            result = json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            raise CommandError(f"{url}: {_refusal(error.read(), error)}", BAD_DATA) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or reason
        raise CommandError(f"{url}: {why}", BAD_DATA) from error
    if not isinstance(result, dict) or not {"id", "audience"} <= set(result):
        raise CommandError(f"{url}: not a hub's admin address", BAD_DATA)
    return result


def _refusal(body: bytes, error: HTTPError) -> str:
    """Return the hub's message; other servers have only a status."""
    import json

    try:
        content = json.loads(body)
    except ValueError:
        content = None
    text = content.get("message") if isinstance(content, dict) else None
    return f"{text or error.reason} ({error.code})"


# -- subscribe ---------------------------------------------------------------------------------

_SUBSCRIBE_HELP = f"""{COMMANDS["subscribe"]}

Prints one line per notification: time, id, topic, content. Stored notifications come first. Each
notification is acknowledged after it is printed. A lost connection is reopened; Ctrl-C exits.
Protocols with an inbox need no TOPIC: they deliver what is already subscribed. Their notifications
may carry no topic.

\b
Examples:
  wirelake subscribe comet://127.0.0.1:9620 @news --id phone-1
  wirelake subscribe esnp://127.0.0.1:9600 @news @weather --id phone-1 --count 10 --json

Exit codes: 0 success, 1 refused or no response, 2 bad usage.
"""


@click.command(name="subscribe", help=_SUBSCRIBE_HELP, context_settings=CONTEXT)
@click.argument("url")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option(
    "--count", type=click.IntRange(min=1), metavar="N", help="Exit after N notifications."
)
@click.option(
    "--no-ack",
    is_flag=True,
    help="Do not acknowledge: notifications are delivered again next time.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@connection_options
def subscribe(
    url: str,
    topics: tuple[str, ...],
    count: int | None,
    no_ack: bool,
    as_json: bool,
    **connection: Any,
) -> None:
    """Print notifications."""
    if not topics and not _has_inbox(url):
        raise click.UsageError("missing argument TOPIC")

    async def work() -> None:
        remaining = count
        async with connected(url, **connection) as client:
            if topics:
                await client.subscribe(*topics)
            async for each in client.notifications():
                # Printed first: a notification that was acknowledged and not shown would be lost.
                _show(each, as_json)
                if not no_ack:
                    await client.ack(each)
                remaining = None if remaining is None else remaining - 1
                if remaining == 0:
                    return

    run_client(work())


def _has_inbox(url: str) -> bool:
    """Return whether a client receives stored notifications without subscribing.

    An invalid URL is reported later, when it is dialled.
    """
    from wirelake.client import BadCall
    from wirelake.client.settings import parse_where
    from wirelake.protocols import registry

    try:
        return registry.binding(parse_where(url).protocol).inbox
    except BadCall:
        return False


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
