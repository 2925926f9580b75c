"""`wirelake lake verify`: checks a lake against its captures."""

from __future__ import annotations

import click

from ..errors import BAD_DATA
from ..options.amounts import fraction
from ..options.common import CONTEXT
from ..output.progress import spinner
from ..output.text import counted, json_line, printable

__all__ = ["command"]

_HELP = """Check a lake against its captures.

Checks that the files match the log and that the roll-ups match the tables, then decodes a sample of
the connections, tunnels and clients of each source again and compares the rows. Prints every
problem, and exits 1 if there is one. Does not start Spark or block a run.

\b
Examples:
  wirelake lake verify lake/
  wirelake lake verify lake/ --sample 1 --keys tap.keys
  wirelake lake verify lake/ --json
"""


@click.command(
    name="verify", help=_HELP, short_help="Check a lake against its captures.",
    context_settings=CONTEXT,
)  # fmt: skip
@click.argument("lake", metavar="LAKE")
@click.option(
    "--sample",
    "shares",
    type=fraction,
    default="1/16",
    show_default=True,
    metavar="FRACTION",
    help="Fraction to decode again; 1 is everything.",
)
@click.option(
    "--keys",
    multiple=True,
    metavar="FILE",
    help="Key log that the lake was created with; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(lake: str, shares: int, keys: tuple[str, ...], as_json: bool) -> int:
    """Check a lake."""
    from wirelake.lake.verify.verify import verify

    with spinner("verifying") as progress:
        problems = verify(lake, shares=shares, keys=keys, progress=progress)
    if as_json:
        click.echo(json_line({"lake": lake, "problems": problems}))
    elif problems:
        click.echo(f"{lake}: {counted(len(problems), 'problem')}")
        for each in problems:
            click.echo(f"  {printable(each)}")
    else:
        click.echo(f"{lake}: no problems")
    return BAD_DATA if problems else 0
