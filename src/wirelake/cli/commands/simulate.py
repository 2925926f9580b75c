"""`wirelake simulate`: generates traffic from a seed, as captures or live against a running hub.

The expected tables are written beside the captures, so that a reader can be checked against them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ..errors import BAD_DATA, BAD_USAGE, CommandError
from ..main import COMMANDS
from ..options import CONTEXT
from ..output.text import byte_progress, json_line, second_progress

if TYPE_CHECKING:
    from wirelake.traffic import Summary
    from wirelake.traffic.live import LiveSummary

__all__ = ["command"]

_HELP = f"""{COMMANDS["simulate"]}

Simulates clients and servers of the installed protocols with real sessions, and writes the traffic
to capture files. The expected tables are written to truth/*.parquet, their totals to truth.json.
The same seed gives the same files, whatever the number of processes.

With --to-hub, the simulated clients connect to a hub that was started with --demo and --record.
They are added to the hub's store first. The hub records the captures; the expected tables contain
what the clients did and saw.

\b
Examples:
  wirelake simulate --out traffic
  wirelake simulate --out traffic --size 2GB --seed 7 --style recorder
  wirelake simulate --out bad --size 20MB --faults 0.001 --protocols comet,tny
  wirelake simulate --to-hub http://127.0.0.1:9680 --data hub-data --out live --seconds 20
"""

_CAPTURE_OPTIONS: Final = ("size", "faults", "protocols", "style", "jobs", "force")
_TOKEN_FILE: Final = "admin.token"
_HUB_OPTIONS: Final = ("data", "seconds", "scale")


@click.command(name="simulate", help=_HELP, context_settings=CONTEXT)
@click.option("--out", required=True, metavar="DIR", help="Output folder.")
@click.option(
    "--size", default="200MB", show_default=True, help="Approximate size of all captures."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the random numbers.")
@click.option(
    "--faults",
    default=0.0,
    show_default=True,
    metavar="RATE",
    help="Fraction of messages to corrupt, at most 0.01; truth/faults.parquet lists them.",
)
@click.option("--protocols", metavar="NAMES", help="Comma-separated protocols.  [default: all]")
@click.option(
    "--style",
    default="both",
    show_default=True,
    metavar="recorder|tcpdump|both",
    help="Capture style: pcapng like the recorder's, pcap like tcpdump's, or both.",
)
@click.option("--jobs", type=int, help="Number of processes.  [default: one per CPU]")
@click.option("--force", is_flag=True, help="Delete the contents of the output folder first.")
@click.option("--to-hub", metavar="URL", help="Run live against the hub with this admin address.")
@click.option("--data", metavar="DIR", help="With --to-hub: data directory of the hub.")
@click.option("--seconds", default=20.0, show_default=True, help="With --to-hub: duration.")
@click.option(
    "--scale",
    default=1.0,
    show_default=True,
    help="With --to-hub: number of clients; 1 is a few hundred connections.",
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
    """Generate captures, or run live."""
    _check_options(ctx, to_hub is not None)
    if to_hub is not None:
        live = _simulate_live(to_hub, data, out, seconds, seed, scale)
        click.echo(json_line(live.as_json()) if as_json else _live_text(out, live))
        return
    from wirelake.traffic import SimulateError, simulate

    chosen = None if protocols is None else tuple(filter(None, protocols.split(",")))
    try:
        with byte_progress("simulate") as progress:
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
        hint = "; --force deletes its contents" if str(error).endswith("not empty") else ""
        raise CommandError(f"{error}{hint}", BAD_USAGE) from error
    click.echo(json_line(summary.as_json()) if as_json else _text(out, summary))


def _check_options(ctx: click.Context, live: bool) -> None:
    """Refuse options of the other mode instead of ignoring them."""
    # By their source: a default value is not a request, even if the user could have given it.
    for name in _CAPTURE_OPTIONS if live else _HUB_OPTIONS:
        if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            problem = "conflicts with" if live else "requires"
            raise CommandError(f"--{name} {problem} --to-hub", BAD_USAGE)


def _simulate_live(
    to_hub: str, data: str | None, out: str, seconds: float, seed: int, scale: float
) -> LiveSummary:
    from wirelake.traffic.live import HubAddress, SimulateError, simulate_live

    if data is None:
        raise CommandError("--to-hub requires --data, the data directory of the hub", BAD_USAGE)
    if not (Path(data) / _TOKEN_FILE).is_file():
        raise CommandError(
            f"{data}: no {_TOKEN_FILE}; expected the data directory of the running hub", BAD_USAGE
        )
    try:
        with second_progress("simulate") as progress:
            hub = HubAddress(to_hub, Path(data))
            return simulate_live(
                hub, Path(out), seconds=seconds, seed=seed, scale=scale, progress=progress
            )
    except SimulateError as error:
        raise CommandError(str(error), BAD_DATA) from error


def _live_text(out: str, summary: LiveSummary) -> str:
    def counted(counts: dict[str, int]) -> str:
        return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"

    lines = [
        f"{out}: {summary.seconds:g} s, {summary.messages:,} messages",
        f"  connections: {counted(summary.connections)}; {summary.tunnels:,} tunnels",
        f"  calls: {counted(summary.calls)}",
        f"  {summary.published:,} published; deliveries: {counted(summary.deliveries)}",
        f"  faults: {counted(summary.faults)}",
        "  expected tables: truth.json, truth/*.parquet",
    ]
    return "\n".join(lines)


def _text(out: str, summary: Summary) -> str:
    outcomes = ", ".join(f"{count:,} {name}" for name, count in summary.deliveries.items())
    faults = ", ".join(f"{count:,} {code}" for code, count in summary.faults.items())
    lines = [
        f"{out}: {summary.files} captures, {summary.bytes / 1e6:,.1f} MB",
        f"  {summary.packets:,} packets, {summary.connections:,} connections",
        f"  {summary.messages:,} messages, {sum(summary.calls.values()):,} calls",
        f"  deliveries: {outcomes or 'none'}",
        f"  faults: {faults or 'none'}",
        "  expected tables: truth.json, truth/*.parquet",
    ]
    return "\n".join(lines)
