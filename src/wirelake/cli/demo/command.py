"""`wirelake demo`: a hub, simulated clients, a lake, and a comparison with the truth."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..main import COMMANDS
from ..options import CONTEXT, output_file
from ..output.text import json_line

if TYPE_CHECKING:
    from .report import Findings
    from .run import Options, RunningDemo

__all__ = ["command"]

_HELP = f"""{COMMANDS["demo"]}

Starts a hub that records; runs simulated clients of all protocols against it; reads the
recordings into a lake on Spark while they are written; prints calls and latencies by target,
deliveries by topic, connections and faults; and compares all figures with what the clients did and
saw. Exits with 1 if one differs. Writes an HTML report with plots. It takes a minute or two, needs
no network, and leaves only the report behind.

\b
Examples:
  wirelake demo
  wirelake demo --keep                      hub and lake keep running until Ctrl-C
  wirelake demo --seconds 60 --seed 7 --keep my-demo
  wirelake demo --any-port --json
  wirelake demo --tour

Exit codes: 0 success, 1 a figure differs or a part failed, 2 cannot start, 130 Ctrl-C.
"""

_KEPT = "wirelake-demo"


@click.command(name="demo", help=_HELP, context_settings=CONTEXT)
@click.option("--tour", is_flag=True, help="Only show sample messages of every protocol.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=1, max=3600),
    default=20.0,
    show_default=True,
    help="Duration of the simulated traffic.",
)
@click.option(
    "--scale",
    type=click.FloatRange(min=0, max=10, min_open=True),
    default=1.0,
    show_default=True,
    help="Number of clients; 1 is some hundreds of connections.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the simulated traffic.")
@click.option(
    "--keep",
    is_flag=False,
    flag_value=_KEPT,
    metavar="[DIR]",
    help=f"Keep hub and lake running in a new folder (default: {_KEPT}) until Ctrl-C.",
)
@click.option("--any-port", is_flag=True, help="Use free ports instead of the default ones.")
@click.option(
    "--html",
    "page",
    metavar="FILE",
    callback=output_file,
    default="wirelake-demo.html",
    show_default=True,
    help="File of the HTML report.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(
    tour: bool,
    seconds: float,
    scale: float,
    seed: int,
    keep: str | None,
    any_port: bool,
    page: str,
    as_json: bool,
) -> int:
    """Run the demo; return the exit code."""
    if tour:
        from .report import tour as lines

        for line in lines():
            click.echo(line)
        return 0
    from .run import Options

    kept = None if keep is None else Path(keep)
    return _run(Options(seconds, scale, seed, kept, any_port, Path(page)), as_json)


def _run(options: Options, as_json: bool) -> int:
    from .processes import Stopped
    from .run import run_demo

    try:
        run_demo(
            options,
            lambda found: _show(found, options, as_json),
            lambda kept: _keeping(kept, as_json),
        )
    except Stopped as stopped:
        click.echo(f"wirelake: ended by {stopped}; all processes have ended", err=True)
        return stopped.code
    if options.keep is not None:
        click.echo(f"ended; recordings, lake and truth are in {options.keep}", err=True)
    return 0


def _show(found: Findings, options: Options, as_json: bool) -> None:
    if as_json:
        click.echo(json_line({**found.as_json(), "page": str(options.page)}))
    else:
        from .report import print_findings

        print_findings(found)
    found.check(kept=options.keep is not None)
    if not as_json:
        from .report import next_text

        click.echo(next_text(options.page, kept=options.keep is not None))


def _keeping(kept: RunningDemo, as_json: bool) -> None:
    from .report import kept_text

    if as_json:
        click.echo(json_line({"kept": str(kept.folder), "addresses": kept.addresses}))
    else:
        click.echo(kept_text(kept))
    sys.stdout.flush()
