"""`wirelake ping`: measures the round-trip time to a server."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from ..connect.client import connected, connection_options, run_client
from ..main import COMMANDS
from ..options.common import CONTEXT
from ..output.text import json_line

__all__ = ["command"]

_HELP = f"""{COMMANDS["ping"]}

Sends the keep-alive of the protocol: a heartbeat, a tick, a PIN. ESNP has none; there it is a
request that every server answers. No sign-on is needed.

\b
Examples:
  wirelake ping esnp://127.0.0.1:9600
  wirelake ping comet://127.0.0.1:9620 --count 10 --interval 0.2
  wirelake ping magline://127.0.0.1:9757 --key hub-data/magline.pub --json

Exit codes: 0 all pings were answered, 1 one was not, 2 bad usage.
"""


@click.command(name="ping", help=_HELP, context_settings=CONTEXT)
@click.argument("url")
@click.option(
    "--count", type=click.IntRange(min=1), default=4, show_default=True, metavar="N", help="Pings."
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between pings.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@connection_options
def command(url: str, count: int, interval_s: float, as_json: bool, **connection: Any) -> None:
    """Ping a server."""

    async def work() -> list[float]:
        round_trips_s: list[float] = []
        async with connected(url, reconnect=False, **connection) as client:
            place = client.settings.where.place
            for number in range(1, count + 1):
                if number > 1:
                    await asyncio.sleep(interval_s)
                round_trips_s.append(await client.ping())
                _show(place, number, round_trips_s[-1] * 1000, as_json)
        return round_trips_s

    round_trips_ms = [seconds * 1000 for seconds in run_client(work())]
    if not as_json:
        low, high = min(round_trips_ms), max(round_trips_ms)
        mean = sum(round_trips_ms) / count
        click.echo(f"{count} answered; min/avg/max {low:.3f}/{mean:.3f}/{high:.3f} ms")


def _show(place: str, number: int, round_trip_ms: float, as_json: bool) -> None:
    if as_json:
        click.echo(json_line({"ping": number, "ms": round(round_trip_ms, 3)}))
    else:
        click.echo(f"{place}: {number} in {round_trip_ms:.3f} ms")
    sys.stdout.flush()
