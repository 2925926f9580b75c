"""`wirelake demo`: a hub, five protocols that talk to it, a lake, and the truth beside it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..main import COMMANDS
from ..options.common import CONTEXT
from ..output.text import json_line

if TYPE_CHECKING:
    from .report import Findings
    from .run import Kept, Wishes

__all__ = ["command"]

_HELP = f"""{COMMANDS["demo"]}

Starts a hub that records; lets a simulated population of all five protocols talk to it; takes the
recordings into a lake on Spark while they are being written; prints calls and latencies by target,
deliveries by topic, connections and faults; and compares every figure with what the population
knows to be true. Exits 1 if one differs. The report with plots is written to a page. It takes a
minute or two, needs no network, and leaves nothing behind but that page.

\b
Examples:
  wirelake demo
  wirelake demo --keep                      hub and lake stay, to be tried out; Ctrl-C ends them
  wirelake demo --seconds 60 --seed 7 --keep my-demo
  wirelake demo --any-port --json
  wirelake demo --tour

Exit codes: 0 all is well, 1 a figure differs or a part failed, 2 it cannot start, 130 Ctrl-C.
"""

_KEPT = "wirelake-demo"


@click.command(name="demo", help=_HELP, context_settings=CONTEXT)
@click.option("--tour", is_flag=True, help="Only show messages of every protocol; takes a second.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=1, max=3600),
    default=20.0,
    show_default=True,
    help="How long the population talks.",
)
@click.option(
    "--scale",
    type=click.FloatRange(min=0, max=10, min_open=True),
    default=1.0,
    show_default=True,
    help="How large it is; 1 is some hundreds of connections.",
)
@click.option("--seed", default=0, show_default=True, help="Another seed, other traffic.")
@click.option(
    "--keep",
    is_flag=False,
    flag_value=_KEPT,
    metavar="[DIR]",
    help=f"Leave hub and lake running in a new folder, {_KEPT} unless named; until Ctrl-C.",
)
@click.option("--any-port", is_flag=True, help="Take free ports, not the usual ones.")
@click.option(
    "--html",
    "page",
    metavar="FILE",
    default="wirelake-demo.html",
    show_default=True,
    help="Where the page goes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
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
    """Show all there is; the exit code."""
    if tour:
        from .tour import tour as lines

        for line in lines():
            click.echo(line)
        return 0
    from .run import Wishes

    kept = None if keep is None else Path(keep)
    return _run(Wishes(seconds, scale, seed, kept, any_port, Path(page)), as_json)


def _run(wishes: Wishes, as_json: bool) -> int:
    from .run import run_demo
    from .signals import Stopped

    try:
        run_demo(
            wishes,
            lambda found: _show(found, wishes, as_json),
            lambda kept: _keeping(kept, as_json),
        )
    except Stopped as stopped:
        click.echo(f"wirelake: ended by {stopped}; nothing is left running", err=True)
        return stopped.code
    if wishes.keep is not None:
        click.echo(f"ended; recordings, lake and truth stay in {wishes.keep}", err=True)
    return 0


def _show(found: Findings, wishes: Wishes, as_json: bool) -> None:
    if as_json:
        click.echo(json_line({**found.as_json(), "page": str(wishes.page)}))
    else:
        from .report import print_findings

        print_findings(found)
    found.check(kept=wishes.keep is not None)
    if not as_json:
        from .formatting import next_words

        click.echo(next_words(wishes.page, kept=wishes.keep is not None))


def _keeping(kept: Kept, as_json: bool) -> None:
    from .formatting import kept_words

    if as_json:
        click.echo(json_line({"kept": str(kept.folder), "addresses": kept.addresses}))
    else:
        click.echo(kept_words(kept))
    sys.stdout.flush()
