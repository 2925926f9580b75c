"""`wirelake simulate`: a seeded population's traffic, with the truth beside it.

As captures, or live: over TCP, against a hub that runs (`--to-hub`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ..errors import (
    BAD_DATA,
    BAD_USAGE,
    CommandError,
)
from ..main import COMMANDS
from ..output.common import CONTEXT, json_line

if TYPE_CHECKING:
    from wirelake.traffic import Summary
    from wirelake.traffic.live import LiveSummary

__all__ = ["command"]

_HELP = f"""{COMMANDS["simulate"]}

Phones on comet, game clients on tny directly and through a gateway, services on ESNP and devices on
magline talk through real sessions; what crosses the edge goes into capture files. Beside them is
what a reader must find: truth/*.parquet, table by table, and truth.json in figures. The same seed
makes the same files, whatever the number of processes.

With --to-hub the population comes to a hub that runs with --demo and --record, for some seconds;
its clients are added to the hub's store. There are no captures then, for the hub makes them; the
truth is what the clients did and saw.

\b
Examples:
  wirelake simulate --out traffic
  wirelake simulate --out traffic --size 2GB --seed 7 --style recorder
  wirelake simulate --out bad --size 20MB --faults 0.001 --protocols comet,tny
  wirelake simulate --to-hub http://127.0.0.1:9680 --data hub-data --out live --seconds 20
"""

_OF_CAPTURES: Final = ("size", "faults", "protocols", "style", "jobs", "force")
_OF_A_HUB: Final = ("data", "seconds", "scale")


@click.command(name="simulate", help=_HELP, context_settings=CONTEXT)
@click.option("--out", required=True, metavar="DIR", help="The folder to fill.")
@click.option("--size", default="200MB", show_default=True, help="Bytes of all captures, about.")
@click.option("--seed", default=0, show_default=True, help="Another seed, other traffic.")
@click.option(
    "--faults",
    default=0.0,
    show_default=True,
    metavar="RATE",
    help="The share of messages that are spoilt, each in a way that truth/faults.parquet tells.",
)
@click.option(
    "--protocols", metavar="NAMES", help="Only these, with commas between them; else all."
)
@click.option(
    "--style",
    default="both",
    show_default=True,
    metavar="recorder|tcpdump|both",
    help="pcapng as our recorder writes it, or pcap as tcpdump does.",
)
@click.option("--jobs", type=int, help="Processes; by default one for each processor.")
@click.option("--force", is_flag=True, help="Empty the folder first if there is something in it.")
@click.option("--to-hub", metavar="URL", help="Perform live, on the hub with this HTTP side.")
@click.option("--data", metavar="DIR", help="With --to-hub: the hub's data directory.")
@click.option(
    "--seconds", default=20.0, show_default=True, help="With --to-hub: how long to perform."
)
@click.option(
    "--scale",
    default=1.0,
    show_default=True,
    help="With --to-hub: how many come; 1 is some hundreds of connections.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    out: str,
    size: str,
    seed: int,
    faults: float,
    protocols: str | None,
    style: str,
    jobs: int | None,
    force: bool,
    to_hub: str | None,
    data: str | None,
    seconds: float,
    scale: float,
    as_json: bool,
) -> None:
    """Make captures, or perform live."""
    _refuse_others(ctx, to_hub is not None)
    if to_hub is not None:
        live = _simulate_live(to_hub, data, out, seconds, seed, scale)
        click.echo(json_line(live.as_json()) if as_json else _live_text(out, live))
        return
    from wirelake.traffic import (
        SimulateError,
        simulate,
    )

    chosen = None if protocols is None else tuple(filter(None, protocols.split(",")))
    try:
        with _progress() as progress:
            summary = simulate(
                out,
                size=size,
                seed=seed,
                faults=faults,
                protocols=chosen,
                style=style,
                jobs=jobs,
                force=force,
                progress=progress,
            )
    except SimulateError as error:
        hint = "; --force empties it" if str(error).endswith("not empty") else ""
        raise CommandError(f"{error}{hint}", BAD_USAGE) from error
    click.echo(json_line(summary.as_json()) if as_json else _text(out, summary))


def _refuse_others(ctx: click.Context, live: bool) -> None:
    """Options of the other way to simulate are refused, not ignored."""
    for name in _OF_CAPTURES if live else _OF_A_HUB:
        if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            why = "makes no sense with --to-hub" if live else "needs --to-hub"
            raise CommandError(f"--{name} {why}", BAD_USAGE)


def _simulate_live(
    to_hub: str, data: str | None, out: str, seconds: float, seed: int, scale: float
) -> LiveSummary:
    from wirelake.traffic.live import HubAddress, SimulateError, simulate_live

    if data is None:
        raise CommandError("--to-hub needs --data, the hub's data directory", BAD_USAGE)
    try:
        with _clock() as progress:
            hub = HubAddress(to_hub, Path(data))
            return simulate_live(
                hub, Path(out), seconds=seconds, seed=seed, scale=scale, progress=progress
            )
    except SimulateError as error:
        raise CommandError(str(error), BAD_DATA) from error


@contextmanager
def _clock() -> Iterator[Callable[[float, float], None] | None]:
    """A bar of seconds, when somebody is watching."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("perform"), BarColumn(), TextColumn("{task.completed:.0f} s"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("perform", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _live_text(out: str, summary: LiveSummary) -> str:
    def counted(found: dict[str, int]) -> str:
        return ", ".join(f"{count:,} {name}" for name, count in found.items()) or "none"

    lines = [
        f"{out}: {summary.seconds:g} s, {summary.messages:,} messages",
        f"  connections: {counted(summary.connections)}; {summary.tunnels:,} tunnels",
        f"  calls: {counted(summary.calls)}",
        f"  {summary.published:,} published; deliveries: {counted(summary.deliveries)}",
        f"  faults: {counted(summary.faults)}",
        "  truth.json and truth/*.parquet say what a reader of the recording must find",
    ]
    return "\n".join(lines)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar, when somebody is watching."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("simulate"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulate", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _text(out: str, summary: Summary) -> str:
    outcomes = ", ".join(f"{count:,} {name}" for name, count in summary.deliveries.items())
    faults = ", ".join(f"{count:,} {code}" for code, count in summary.faults.items())
    lines = [
        f"{out}: {summary.files} captures, {summary.bytes / 1e6:,.1f} MB",
        f"  {summary.packets:,} packets, {summary.connections:,} connections",
        f"  {summary.messages:,} messages, {sum(summary.calls.values()):,} calls",
        f"  deliveries: {outcomes or 'none'}",
        f"  faults: {faults or 'none'}",
        "  truth.json and truth/*.parquet say what a reader must find",
    ]
    return "\n".join(lines)
