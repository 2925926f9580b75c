"""`wirelake lake verify`: compare a lake with a replay of its captures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from wirelake import __version__

from ..errors import BAD_DATA
from ..options import CONTEXT, fraction
from ..output.text import counted, json_line, printable, spinner

if TYPE_CHECKING:
    from wirelake.lake.verify.rows import Report

__all__ = ["command"]

_SAMPLE: Final = "1/16"
_SHOWN: Final = 50
"""Findings that are printed; --json prints all that a report lists."""
_HELP = """Compare a lake with a replay of its captures.

Checks the log and its files. Then replays captures with the reference reader and the matching
engines, a separate implementation of the matching rules, and compares the rows of a sample: a
fraction of the connections, of the clients (with all their connections), of the tunnels (with all
their links) and of the minutes of the roll-ups. Prints what was compared and each value that
differs. Exits with 1 if anything is wrong. Needs no Spark and changes nothing.

\b
Examples:
  wirelake lake verify lake/
  wirelake lake verify lake/ --full --keys tap.keys
  wirelake lake verify lake/ --sample 1/4 --json
"""


@click.command(
    name="verify", help=_HELP, short_help="Compare a lake with its captures.",
    context_settings=CONTEXT,
)  # fmt: skip
@click.argument("lake", metavar="LAKE")
@click.option(
    "--sample",
    type=fraction,
    metavar="FRACTION",
    help=f"Fraction to compare: 1/N, or 1 for everything.  [default: {_SAMPLE}]",
)
@click.option("--full", is_flag=True, help="Compare everything; the same as --sample 1.")
@click.option(
    "--keys", multiple=True, metavar="FILE", help="Key log that the lake was made with; repeatable."
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    metavar="N",
    help="Worker processes.  [default: one per core]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    lake: str,
    sample: int | None,
    full: bool,
    keys: tuple[str, ...],
    processes: int | None,
    as_json: bool,
) -> int:
    """Verify a lake. Returns the exit code."""
    from wirelake.lake.verify.verify import verify
    from wirelake.records.exact_json import exact

    if full and sample not in (None, 1):
        raise click.UsageError("--full conflicts with --sample")
    shares = 1 if full else sample or fraction(_SAMPLE)
    with spinner("verifying") as progress:
        report = verify(lake, shares=shares, keys=keys, processes=processes, progress=progress)
    if as_json:
        click.echo(json_line(exact({**msgspec.to_builtins(report), "ok": report.ok})))
    else:
        _print(report)
    return 0 if report.ok else BAD_DATA


def _print(report: Report) -> None:
    units = (
        (report.connections, "connection"),
        (report.clients, "client"),
        (report.tunnels, "tunnel"),
        (report.minutes, "minute"),
    )
    compared = ", ".join(counted(number, unit) for number, unit in units)
    click.echo(f"{report.lake}: compared a sample of {report.sample}: {compared}")
    megabytes = report.bytes / 1e6
    captures = counted(report.captures, "capture")
    click.echo(f"  replayed {captures}, {megabytes:.1f} MB, in {report.seconds:.1f} s")
    if report.versions.keys() - {__version__}:
        made = ", ".join(
            f"{version or '0.1.0'} ({counted(number, 'commit')})"
            for version, number in report.versions.items()
        )
        click.echo(f"  written by wirelake {made}; an older version may have decoded differently")
    for table, rows in report.rows.items():
        click.echo(f"  {table}: {counted(rows, 'row')}")
    for each in report.skipped:
        click.echo(f"  not compared: {each}")
    found = report.findings()
    if not found:
        click.echo(f"{report.lake}: no differences")
        return
    click.echo(f"{report.lake}: {counted(len(report.problems) + report.differing, 'problem')}")
    for line in found[:_SHOWN]:
        click.echo(f"  {printable(line)}")
    if len(found) > _SHOWN:
        click.echo(f"  ... and {len(found) - _SHOWN} more")
