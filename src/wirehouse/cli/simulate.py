"""`wirehouse simulate`: a seeded population's traffic as captures, with the truth beside them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from .common import CONTEXT, json_line
from .errors import BAD_USAGE, CommandError
from .main import COMMANDS

if TYPE_CHECKING:
    from wirehouse.traffic import Summary

__all__ = ["command"]

_HELP = f"""{COMMANDS["simulate"]}

Phones on comet, game clients on tny directly and through a gateway, services on ESNP and devices on
magline talk through real sessions; what crosses the edge goes into capture files. Beside them is
what a reader must find: truth/*.parquet, table by table, and truth.json in figures. The same seed
makes the same files, whatever the number of processes.

\b
Examples:
  wirehouse simulate --out traffic
  wirehouse simulate --out traffic --size 2GB --seed 7 --style recorder
  wirehouse simulate --out bad --size 20MB --faults 0.001 --protocols comet,tny
"""


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
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(
    out: str,
    size: str,
    seed: int,
    faults: float,
    protocols: str | None,
    style: str,
    jobs: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Make captures."""
    from wirehouse.traffic import PROTOCOLS, SimulateError, simulate

    chosen = PROTOCOLS if protocols is None else tuple(filter(None, protocols.split(",")))
    try:
        with _progress() as told:
            summary = simulate(
                out,
                size=size,
                seed=seed,
                faults=faults,
                protocols=chosen,
                style=style,
                jobs=jobs,
                force=force,
                progress=told,
            )
    except SimulateError as error:
        hint = "; --force empties it" if str(error).endswith("not empty") else ""
        raise CommandError(f"{error}{hint}", BAD_USAGE) from error
    click.echo(json_line(summary.as_json()) if as_json else _text(out, summary))


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
