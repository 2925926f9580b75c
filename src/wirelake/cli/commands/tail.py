"""`wirelake tail`: messages as they cross a hub."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import BAD_DATA, BAD_USAGE
from ..main import COMMANDS
from ..output.admin_http import (
    AdminHub,
    GoneError,
    RefusedError,
    admin_hub,
    admin_options,
)
from ..output.common import CONTEXT, json_line
from ..read.formatting import counted, printable

if TYPE_CHECKING:
    from .tail_view import TailView

__all__ = ["command"]

_HELP = f"""{COMMANDS["tail"]}

URL is the hub's admin address; the token is in the hub's data directory. A line for each message:
when, protocol, direction (→ to the hub), who, kind, name, target, ids, and what it says in short.
Tokens and keys are masked. Who reads too slowly misses messages, and is told how many. While
somebody reads, the hub decodes everything: do not leave it running.

\b
Examples:
  wirelake tail --data hub-data
  wirelake tail --protocol comet --hex -n 3
  wirelake tail --filter 'kind == "response" and status != "ok"' --json

Exit codes: 0 ended by you or after COUNT, 1 no hub answers or it has gone, 2 bad usage.
"""
_AGAIN_S: Final = 1.0


@click.command(name="tail", help=_HELP, context_settings=CONTEXT)
@admin_options
@click.option("--filter", "chosen", metavar="EXPR", help="Only these (docs/guides/filters.md).")
@click.option("--protocol", metavar="NAME", help="Only messages of this protocol.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--hex", "as_hex", is_flag=True, help="The bytes of each field below the message.")
@click.option(
    "-n", "--count", type=click.IntRange(min=1), metavar="COUNT", help="End after so many."
)
@click.option("--retry", is_flag=True, help="When the hub goes away, wait until it is back.")
def command(
    url: str,
    data: str | None,
    token_file: str | None,
    ca: str | None,
    chosen: str | None,
    protocol: str | None,
    as_json: bool,
    as_hex: bool,
    count: int | None,
    retry: bool,
) -> int:
    """Show messages."""
    hub = admin_hub(url, data, token_file, ca)
    printer = _Printer(count, as_json=as_json, as_hex=as_hex)
    query = {"filter": chosen, "protocol": protocol, "bytes": 1 if as_hex else None}
    try:
        while not _read(hub, query, printer, retry=retry):
            time.sleep(_AGAIN_S)
    except KeyboardInterrupt:
        return 0
    except RefusedError as error:
        if not error.said.startswith("filter: "):
            raise
        _say(f"--{error.said}")
        return BAD_USAGE
    return 0


def _read(hub: AdminHub, query: dict[str, Any], printer: _Printer, *, retry: bool) -> bool:
    """Reads until the hub goes away; whether that was enough."""
    try:
        for event in hub.events("/v1/tail", **query):
            if event.name == "dropped":
                printer.dropped(event.data["count"])
            elif event.name == "message" and printer.message(event.data):
                return True
        raise GoneError(f"{hub.url}: the hub has gone", BAD_DATA)
    except GoneError as error:
        if not retry:
            raise
        _say(f"{error}; trying again until it is back")
        return False


def _say(text: str) -> None:
    """Words for the user, perhaps of several lines."""
    lines = (printable(line) for line in text.split("\n"))
    click.echo("wirelake: " + "\n".join(lines), err=True)


class _Printer:
    """Prints messages, so many of them."""

    def __init__(self, count: int | None, *, as_json: bool, as_hex: bool):
        self._left = count
        self._json = as_json
        self._hex = as_hex
        self._view: TailView | None = None

    def message(self, row: dict[str, Any]) -> bool:
        """Prints one; whether it was the last."""
        for line in self._lines(row):
            click.echo(line)
        sys.stdout.flush()
        if self._left is not None:
            self._left -= 1
        return self._left == 0

    def dropped(self, count: int) -> None:
        """Says that some were left out."""
        if self._json:
            click.echo(json_line({"dropped": count}))
        else:
            are = "was" if count == 1 else "were"
            click.echo(f"… {counted(count, 'message')} {are} skipped")
        sys.stdout.flush()

    def _lines(self, row: dict[str, Any]) -> Iterator[str]:
        if self._json:
            yield json_line(row)
            return
        if self._view is None:
            from .tail_view import TailView

            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
            self._view = TailView(width, as_hex=self._hex)
        yield from self._view.lines(row)
