"""`wirelake ping`: whether a server answers, and how fast."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from ..main import COMMANDS
from ..output.common import CONTEXT, json_line
from .client_run import (
    connected,
    connection_options,
    run,
)

__all__ = ["command"]

_HELP = f"""{COMMANDS["ping"]}

It says what the protocol says to stay alive: a heartbeat, a tick, a PIN; over ESNP, which has none,
a request that any server answers. Nobody needs to sign on for that.

\b
Examples:
  wirelake ping esnp://127.0.0.1:9600
  wirelake ping comet://127.0.0.1:9620 --count 10 --interval 0.2
  wirelake ping magline://127.0.0.1:9757 --key hub-data/magline.pub --json

Exit codes: 0 every ping was answered, 1 one was not, 2 bad usage.
"""


@click.command(name="ping", help=_HELP, context_settings=CONTEXT)
@click.argument("url")
@click.option("--count", type=click.IntRange(min=1), default=4, show_default=True, metavar="N")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="The time between two pings.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@connection_options
def command(url: str, count: int, interval_s: float, as_json: bool, **connection: Any) -> None:
    """Ping some times."""

    async def work() -> list[float]:
        taken: list[float] = []
        async with connected(url, reconnect=False, **connection) as client:
            place = client.settings.where.place
            for number in range(1, count + 1):
                if number > 1:
                    await asyncio.sleep(interval_s)
                taken.append(await client.ping())
                _show(place, number, taken[-1] * 1000, as_json)
        return taken

    found = [seconds * 1000 for seconds in run(work())]
    if not as_json:
        mean = sum(found) / len(found)
        click.echo(f"{count} answered: {min(found):.3f} / {mean:.3f} / {max(found):.3f} ms")


def _show(place: str, number: int, taken_ms: float, as_json: bool) -> None:
    if as_json:
        click.echo(json_line({"ping": number, "ms": round(taken_ms, 3)}))
    else:
        click.echo(f"{place}: {number} in {taken_ms:.3f} ms")
    sys.stdout.flush()
