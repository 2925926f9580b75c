"""`wirelake subscribe`: prints notifications as they arrive."""

from __future__ import annotations

import datetime
import sys
from typing import TYPE_CHECKING, Any

import click

from ..connect.client import connected, connection_options, run_client
from ..main import COMMANDS
from ..options.common import CONTEXT
from ..output.text import body_text, json_line

if TYPE_CHECKING:
    from wirelake.client import Notification

__all__ = ["command"]

_HELP = f"""{COMMANDS["subscribe"]}

Prints one line per notification: time, id, topic, content. Stored notifications come first. Each
notification is acknowledged after it is printed. A lost connection is reopened; Ctrl-C exits. comet
notifications carry no topic; without TOPIC, comet delivers what is already subscribed.

\b
Examples:
  wirelake subscribe comet://127.0.0.1:9620 @news --id phone-1
  wirelake subscribe esnp://127.0.0.1:9600 @news @weather --id phone-1 --count 10 --json

Exit codes: 0 success, 1 refused or no response, 2 bad usage.
"""


@click.command(name="subscribe", help=_HELP, context_settings=CONTEXT)
@click.argument("url")
@click.argument("topics", nargs=-1, metavar="TOPIC...")
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
def command(
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
        try:
            row["content"] = notification.content.decode()
        except UnicodeDecodeError:
            row["content_hex"] = notification.content.hex()
        click.echo(json_line(row))
    sys.stdout.flush()
