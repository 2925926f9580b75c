"""What the demo found: the report about its lake, and how it compares with the truth."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import CommandError

if TYPE_CHECKING:
    from wirelake.tables.report.report import Report

__all__ = ["Findings", "find", "print_findings", "write_page"]

_SHEETS: Final = ("protocols", "targets", "topics", "connections", "errors", "faults", "coverage")
"""What is printed of a report; the page has all of it."""
_ROWS: Final = 12
"""Rows of a list on the terminal."""


@dataclass(frozen=True)
class Findings:
    """All that is found once the traffic is over."""

    report: Report
    figures: int
    """How many figures and rows were compared with the truth."""
    differences: tuple[str, ...]
    """What is not as it must be, one sentence each."""

    def as_json(self) -> dict[str, Any]:
        """Everything as one object."""
        import msgspec

        return {
            "figures": self.figures,
            "differences": list(self.differences),
            "report": msgspec.to_builtins(self.report),
        }

    def check(self, *, kept: bool) -> None:
        """Raises CommandError when something is not the truth, and names the first."""
        if self.differences:
            more = len(self.differences) - 1
            hint = "" if kept else "; --keep DIR keeps everything to look at"
            raise CommandError(
                f"not the truth: {self.differences[0]}{f' (and {more} more)' if more else ''}{hint}"
            )


def find(lake: Path, truth: Path) -> Findings:
    """Reports about a lake, and compares it with the truth."""
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
    """Writes the page, all of it or nothing."""
    from wirelake.tables.report.page import report_page

    text = report_page(report)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def print_findings(found: Findings) -> None:
    """Prints the report, and whether it is the truth."""
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
        click.echo(f"All figures equal the truth: {found.figures:,} of {found.figures:,}.")
