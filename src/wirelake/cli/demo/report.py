"""Results of the demo: the report about its lake, the comparison, and what to try next."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import CommandError

if TYPE_CHECKING:
    from wirelake.tables.report.report import Report

    from .run import Kept

__all__ = [
    "Findings",
    "commands",
    "find",
    "kept_text",
    "next_text",
    "print_findings",
    "program",
    "write_page",
]

_SHEETS: Final = ("protocols", "targets", "topics", "connections", "errors", "faults", "coverage")
"""Parts of the report that are printed; the HTML page has all of them."""
_SQL: Final = (
    "select target, count(*) as calls, ms(median(latency_ns)) as median_ms from calls"
    " group by all order by median_ms desc"
)
_ROWS: Final = 12
"""Maximum rows of a table on the terminal."""


@dataclass(frozen=True)
class Findings:
    """The report and the result of the comparison."""

    report: Report
    figures: int
    """Rows and figures that were compared."""
    differences: tuple[str, ...]
    """One sentence for each difference."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        import msgspec

        return {
            "figures": self.figures,
            "differences": list(self.differences),
            "report": msgspec.to_builtins(self.report),
        }

    def check(self, *, kept: bool) -> None:
        """Raise CommandError with the first difference, if there is one."""
        if self.differences:
            more = len(self.differences) - 1
            hint = "" if kept else "; use --keep DIR to keep all files"
            raise CommandError(
                f"differs from the truth: {self.differences[0]}"
                f"{f' (and {more} more)' if more else ''}{hint}"
            )


def find(lake: Path, truth: Path) -> Findings:
    """Make the report about a lake, and compare it with the truth."""
    from wirelake.tables.log import Log
    from wirelake.tables.query import open_lake
    from wirelake.tables.report.report import make_report
    from wirelake.traffic.live import compare

    commit = Log(lake).snapshot().commit
    with open_lake(lake, commit) as db:
        report = make_report(db, lake="demo", commit=commit)
    compared = compare(lake, truth)
    return Findings(report, compared.figures, tuple(compared.differences))


def write_page(report: Report, path: Path) -> None:
    """Write the HTML page, completely or not at all."""
    from wirelake.tables.report.page import report_page

    text = report_page(report)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def print_findings(found: Findings) -> None:
    """Print the report and the result of the comparison."""
    from wirelake.tables.report.sheets import sheets, tiles

    from ..output.table import print_table

    figures = [text if what == "bytes" else f"{text} {what}" for what, text in tiles(found.report)]
    click.echo(", ".join(figures))
    for sheet in sheets(found.report):
        if sheet.name not in _SHEETS or not sheet.rows:
            continue
        click.echo()
        click.secho(sheet.title, bold=True)
        print_table(sheet.headings, sheet.numbers, sheet.rows[:_ROWS], sheet.minor)
        if len(sheet.rows) > _ROWS:
            click.echo(f"and {len(sheet.rows) - _ROWS} more")
    click.echo()
    if not found.differences:
        click.echo(f"All figures match the truth: {found.figures:,} of {found.figures:,}.")


# -- what to try next --------------------------------------------------------------------


def next_text(page: Path, *, kept: bool) -> str:
    """Return where the report is and, if nothing was kept, what to try next."""
    lines = [f"Report with plots: {page}"]
    if not kept:
        lines += [
            "",
            "What to try next:",
            f"  {program()} demo --keep      the same, but hub and lake keep running",
            f"  {program()} demo --tour      sample messages of every protocol",
            f"  {program()} --help           all commands",
        ]
    return "\n".join(lines)


def kept_text(kept: Kept) -> str:
    """Return where everything is, and commands to paste."""
    listeners = [f"  {name:<8} {address}" for name, address in kept.addresses.items()]
    return "\n".join(
        [
            "",
            f"Hub and lake keep running in {kept.folder} until Ctrl-C.",
            *listeners,
            "",
            "What to try next, in another terminal:",
            *(f"  {each}" for each in commands(kept)),
            "",
            "The admin token is in hub/admin.token. Recordings contain tokens and keys: only you",
            "can read the folder.",
        ]
    )


def commands(kept: Kept) -> list[str]:
    """Return commands that work while hub and lake keep running."""
    run = program()
    data = shlex.quote(str(kept.folder / "hub"))
    lake = shlex.quote(str(kept.folder / "lake"))
    recordings = shlex.quote(str(kept.folder / "recordings"))
    admin = kept.addresses["admin"]
    protocol, address = next(each for each in kept.addresses.items() if each[0] != "admin")
    return [
        f"{run} top http://{admin} --data {data}",
        f"{run} tail http://{admin} --data {data}",
        f"export WIRELAKE_TOKEN=$({run} client add visitor --data {data})",
        f"{run} call {protocol}://{address}/test/add a=1 b=2 --id visitor",
        f"{run} publish http://{admin} @news 'rain' --admin-token-file {data}/admin.token",
        f"{run} lake report {lake}",
        f"{run} lake sql {lake} '{_SQL}'",
        f"{run} read {recordings} --table calls --filter 'latency_ns > 50ms'",
    ]


def program() -> str:
    """Return how to run this program from a shell."""
    if shutil.which("wirelake") is not None:
        return "wirelake"
    beside = Path(sys.executable).with_name("wirelake")
    if beside.exists():
        return shlex.quote(str(beside))
    return f"{shlex.quote(sys.executable)} -m wirelake.cli"
