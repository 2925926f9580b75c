"""`wirelake lake verify`: is a lake what its captures say?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from ..errors import BAD_DATA
from ..output.common import CONTEXT, json_line
from ..read.formatting import counted, printable
from .formatting import share

__all__ = ["command"]

_HELP = """Whether a lake is what its captures say.

Looks whether the log and its files agree, whether the roll-ups say what the tables say, and reads a
part of the connections of each source, of the tunnels and of the clients anew, which must come to
the same rows. Says what is wrong, and exits 1 if anything is. It starts no Spark, and disturbs
nobody.

\b
Examples:
  wirelake lake verify lake/
  wirelake lake verify lake/ --sample 1 --keys tap.keys
  wirelake lake verify lake/ --json
"""


@click.command(
    name="verify", help=_HELP, short_help="Whether it is what its captures say.",
    context_settings=CONTEXT,
)  # fmt: skip
@click.argument("lake", metavar="LAKE")
@click.option(
    "--sample",
    "shares",
    type=share,
    default="1/16",
    show_default=True,
    metavar="PART",
    help="Which part is read anew; 1 for all.",
)
@click.option(
    "--keys",
    multiple=True,
    metavar="FILE",
    help="A key log that the lake was made with; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def command(lake: str, shares: int, keys: tuple[str, ...], as_json: bool) -> int:
    """Verifies; the exit code."""
    from wirelake.lake.verify.verify import verify

    with _progress() as told:
        problems = verify(lake, shares=shares, keys=keys, progress=told)
    if as_json:
        click.echo(json_line({"lake": lake, "problems": problems}))
    elif problems:
        click.echo(f"{lake}: {counted(len(problems), 'problem')}")
        for each in problems:
            click.echo(f"  {printable(each)}")
    else:
        click.echo(f"{lake}: all is well")
    return BAD_DATA if problems else 0


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """What is being looked at, when somebody is watching."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("opening") as status:
        yield lambda what: status.update(f"verifying {what}")
