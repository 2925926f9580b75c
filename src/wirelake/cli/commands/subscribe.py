"""`wirelake subscribe`: notifications as they come."""

from __future__ import annotations

import datetime
import sys
from typing import TYPE_CHECKING, Any

import click

from ..main import COMMANDS
from ..output.common import CONTEXT, json_line
from .client_run import (
    connected,
    connection_options,
    printable,
    run,
)

if TYPE_CHECKING:
    from wirelake.client import Notification

__all__ = ["command"]

_HELP = f"""{COMMANDS["subscribe"]}

One line for each notification: when, id, topic, content. Each is acknowledged once it is shown.
What waited comes first. When the connection is lost it is made again; Ctrl-C ends it. comet does
not tell the topic, and may be asked without one, for what waits.

\b
Examples:
  wirelake subscribe comet://127.0.0.1:9620 @news --id phone-1
  wirelake subscribe esnp://127.0.0.1:9600 @news @weather --id phone-1 --count 10 --json

Exit codes: 0 success, 1 refused or nobody answered, 2 bad usage.
"""


@click.command(name="subscribe", help=_HELP, context_settings=CONTEXT)
@click.argument("url")
@click.argument("topics", nargs=-1, metavar="TOPIC...")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many.")
@click.option("--no-ack", is_flag=True, help="Acknowledge nothing: it comes again next time.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@connection_options
def command(
    url: str,
    topics: tuple[str, ...],
    count: int | None,
    no_ack: bool,
    as_json: bool,
    **connection: Any,
) -> None:
    """Show notifications."""
    if not topics and not _has_inbox(url):
        raise click.UsageError("missing argument TOPIC...")

    async def work() -> None:
        left = count
        async with connected(url, **connection) as client:
            if topics:
                await client.subscribe(*topics)
            async for each in client.notifications():
                _show(each, as_json)
                if not no_ack:
                    await client.ack(each)
                left = None if left is None else left - 1
                if left == 0:
                    return

    run(work())


def _has_inbox(url: str) -> bool:
    """Whether signing on is enough to receive what waits. A bad URL is refused when it is
    dialled."""
    from wirelake.client import BadCall
    from wirelake.client.address import parse_where
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
        click.echo(f"{when}  {notification.id}  {topic}  {printable(notification.content)}")
    else:
        shown: dict[str, Any] = {"id": notification.id, "ts_ms": notification.ts_ms}
        if notification.topic is not None:
            shown["topic"] = notification.topic
        if notification.type:
            shown["type"] = notification.type
        try:
            shown["content"] = notification.content.decode()
        except UnicodeDecodeError:
            shown["content_hex"] = notification.content.hex()
        click.echo(json_line(shown))
    sys.stdout.flush()
