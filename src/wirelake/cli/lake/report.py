"""`wirelake lake report`: traffic, latency and errors of a lake, as text, JSON or HTML."""

from __future__ import annotations

import shutil
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import BAD_USAGE, CommandError
from ..options import CONTEXT, MOST, Command, TimePoint, joined, output_file, time_point

if TYPE_CHECKING:
    import duckdb

    from wirelake.tables.report.report import Report

__all__ = ["ReportOptions", "command", "made_report", "report_options", "show_report"]

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


@dataclass(frozen=True)
class ReportOptions:
    """What a report is about, and where it goes."""

    as_json: bool
    page: str | None
    """The file of an HTML page."""
    since: TimePoint | None
    until: TimePoint | None
    top: int
    """Maximum rows per table."""


def report_options(command: Command) -> Command:
    """Add the options of a report; the argument is `options`."""
    options = (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
        click.option(
            "--html",
            "page",
            metavar="FILE",
            callback=output_file,
            help="Output file for an HTML page.",
        ),
        click.option(
            "--since",
            type=time_point,
            metavar="T",
            help="Start time in UTC, or a duration before the last message, such as 2h.",
        ),
        click.option("--until", type=time_point, metavar="T", help="End time, like --since."),
        click.option(
            "--top",
            type=click.IntRange(min=1),
            default=20,
            show_default=True,
            help="Maximum rows per table.",
        ),
    )
    return joined(command, options, "options", ReportOptions)


_COLOURS: Final = {"good": "green", "warn": "yellow", "bad": "red"}
"""Colours of findings on a terminal."""


@click.command(
    name="report", help=_HELP, short_help="Report traffic, latency and errors.",
    context_settings=CONTEXT,
)  # fmt: skip
@click.argument("lake", metavar="LAKE")
@report_options
def command(lake: str, options: ReportOptions) -> None:
    """Print or write a report."""
    from wirelake.tables.log import Log
    from wirelake.tables.query import open_lake

    commit = Log(lake).snapshot().commit
    with open_lake(lake, commit) as db:
        name = Path(lake).absolute().name
        more = ("wirelake", "lake", "sql", lake)
        report = made_report(db, options, lake=name, commit=commit, command=more)
    show_report(report, options)


def made_report(db: duckdb.DuckDBPyConnection, options: ReportOptions, **about: Any) -> Report:
    """Return the report of a database."""
    from wirelake.tables.report.report import end_of_messages, make_report

    end = end_of_messages(db)
    first = options.since.at(end) if options.since is not None else None
    last = options.until.at(end) if options.until is not None else None
    if first is not None and last is not None and first >= last:
        raise click.UsageError("--until must be later than --since")
    return make_report(db, since_ns=first, until_ns=last, top=min(options.top, MOST), **about)


def show_report(report: Report, options: ReportOptions) -> None:
    """Write a report as a page, as JSON, or as text."""
    if options.page is not None:
        _write_page(report, options.page)
    if options.as_json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    elif options.page is None:
        _print(report)


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
    from wirelake.tables.report.verdict import verdict

    from ..output.text import print_table

    overview = report.overview
    commit = "" if report.commit is None else f", commit {report.commit}"
    click.secho(f"{report.lake}{commit}", bold=True)
    if overview.first_ns is None:
        click.echo("No messages in this period.")
    else:
        click.echo(f"{time_text(overview.first_ns)} to {time_text(overview.last_ns)}, UTC")
    figures = [figure if what == "bytes" else f"{figure} {what}" for what, figure in tiles(report)]
    click.echo(f"{', '.join(figures[:4])}\n{', '.join(figures[4:])}")
    for finding in verdict(report):
        text = (
            textwrap.fill(finding.text, shutil.get_terminal_size().columns)
            if sys.stdout.isatty()
            else finding.text
        )
        click.secho(text, fg=_COLOURS[finding.level])
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
