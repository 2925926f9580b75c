"""`wirelake lake report`: traffic, latency and errors of a lake, as text, JSON or HTML."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import BAD_USAGE, CommandError
from ..options import CONTEXT, TimePoint, output_file, time_point

if TYPE_CHECKING:
    from wirelake.tables.report.report import Report

__all__ = ["command"]

_HELP = """Report traffic, latency and errors.

Shows traffic by protocol, calls and latency by target, outcomes of notifications, connections and
how they closed, clients with problems, errors and faults, byte coverage, and the top clients and
topics. --html writes a self-contained page that needs no network.

\b
Examples:
  wirelake lake report lake/
  wirelake lake report lake/ --since 2h --top 5
  wirelake lake report lake/ --since 2026-01-05T14:10 --until 2026-01-05T14:20
  wirelake lake report lake/ --html report.html
  wirelake lake report lake/ --json | jq '.targets[] | {target, p99_ns}'

\b
Times are rounded to whole minutes. Counts are exact. Percentiles come from log-scale buckets, eight
per doubling of the latency; their error is at most 1/8.
"""


@click.command(
    name="report", help=_HELP, short_help="Report traffic, latency and errors.",
    context_settings=CONTEXT,
)  # fmt: skip
@click.argument("lake", metavar="LAKE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--html", "page", metavar="FILE", callback=output_file, help="Output file for an HTML page."
)
@click.option(
    "--since",
    type=time_point,
    metavar="T",
    help="Start time in UTC, or a duration before the last message, such as 2h.",
)
@click.option("--until", type=time_point, metavar="T", help="End time, like --since.")
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Maximum rows per table.",
)
def command(
    lake: str,
    as_json: bool,
    page: str | None,
    since: TimePoint | None,
    until: TimePoint | None,
    top: int,
) -> None:
    """Print or write a report."""
    report = _report(lake, since, until, top)
    if page is not None:
        _write_page(report, page)
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    elif page is None:
        _print(report)


def _report(lake: str, since: TimePoint | None, until: TimePoint | None, top: int) -> Report:
    from wirelake.tables.log import Log
    from wirelake.tables.query import open_lake
    from wirelake.tables.report.report import end_of_messages, make_report

    commit = Log(lake).snapshot().commit
    with open_lake(lake, commit) as db:
        end = end_of_messages(db)
        first = since.at(end) if since is not None else None
        last = until.at(end) if until is not None else None
        if first is not None and last is not None and first >= last:
            raise click.UsageError("--until must be later than --since")
        name = Path(lake).absolute().name
        return make_report(db, lake=name, commit=commit, since_ns=first, until_ns=last, top=top)


def _write_page(report: Report, path: str) -> None:
    from wirelake.tables.report.page import PlotlyMissingError, report_page

    from ..output.rows import output

    try:
        text = report_page(report)
    except PlotlyMissingError as error:
        raise CommandError(str(error), BAD_USAGE) from error
    with output(path) as stream:
        stream.write(text.encode())
    if path != "-":
        click.echo(f"{path}: {len(text) / 1e6:.1f} MB", err=True)


def _print(report: Report) -> None:
    from wirelake.tables.report.sheets import sheets, tiles, time_text

    from ..output.text import print_table

    overview = report.overview
    click.secho(f"{report.lake}, commit {report.commit}", bold=True)
    if overview.first_ns is None:
        click.echo("No messages in this period.")
    else:
        click.echo(f"{time_text(overview.first_ns)} to {time_text(overview.last_ns)}, UTC")
    figures = [figure if what == "bytes" else f"{figure} {what}" for what, figure in tiles(report)]
    click.echo(f"{', '.join(figures[:4])}\n{', '.join(figures[4:])}")
    hidden: dict[str, None] = {}
    for sheet in sheets(report):
        click.echo()
        click.secho(sheet.title, bold=True)
        if sheet.rows:
            hidden |= dict.fromkeys(
                print_table(sheet.headings, sheet.numbers, sheet.rows, sheet.minor)
            )
        else:
            click.echo("none")
    if hidden:
        click.echo(f"hidden columns: {', '.join(hidden)}; --json shows all", err=True)
