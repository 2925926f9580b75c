"""`wirelake report`: reports about captures, as `wirelake lake report` about a lake."""

from __future__ import annotations

import click

from ..capture_lake import Captures, capture_options
from ..lake.report import ReportOptions, made_report, report_options, show_report
from ..main import COMMANDS
from ..options import CONTEXT

__all__ = ["command"]

_HELP = f"""{COMMANDS["report"]}

FILE is a capture, or a folder of captures, as for `wirelake read`. Shows traffic by protocol, calls
and latency by target, outcomes of notifications, connections, clients with problems, errors, faults
and byte coverage: the report of a lake of these captures. --html writes a self-contained page that
needs no network. Needs neither Spark nor Java.

\b
Examples:
  wirelake report edge.pcapng
  wirelake report edge.pcapng --html report.html
  wirelake report captures/ --keys tap.keys --since 10m --top 5
  wirelake report edge.pcapng --json | jq '.targets[] | {{target, p99_ns}}'

\b
Times are rounded to whole minutes. Counts are exact. Percentiles come from log-scale buckets, eight
per doubling of the latency; their error is at most 1/8.
"""


@click.command(name="report", help=_HELP, context_settings=CONTEXT)
@report_options
@capture_options
def command(captures: Captures, options: ReportOptions) -> int:
    """Print or write a report."""
    from ..output.rows import check_output

    check_output(options.page, captures.files)
    from wirelake.tables.paths import PUBLIC_TABLES

    with captures.opened(PUBLIC_TABLES) as db:
        report = made_report(db, options, lake=captures.name, command=captures.sql)
    show_report(report, options)
    return captures.code
