"""The commands beside the figures of a report: they run as they stand, and show the rows."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import msgspec
import pytest
from tests.tables.simulated_lake import captures, lake

from wirelake.tables.report.more import QUERIES, more
from wirelake.tables.report.report import Report
from wirelake.tables.report.sheets import sheets

from .conftest import Run

pytestmark = pytest.mark.slow

__all__ = ["captures", "lake"]


@pytest.fixture(scope="module")
def odd(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of captures whose name a shell would not take as it is."""
    folder = tmp_path_factory.mktemp("odd") / "it's $HOME & more"
    shutil.copytree(captures, folder)
    return folder


def report_of(run: Run, *command: str) -> Report:
    found = run(*command, "--json")
    assert found.code == 0
    return msgspec.json.decode(found.out, type=Report)


def check(run: Run, report: Report) -> None:
    assert {sheet.name for sheet in sheets(report)} == {*QUERIES}
    for sheet in sheets(report):
        command = more(report, sheet.name)
        assert command is not None
        program, *arguments = shlex.split(command)
        assert program == "wirelake"
        found = run(*arguments)
        assert found.code == 0, found.err
        rows = [json.loads(line) for line in found.lines]
        assert bool(rows) == bool(sheet.rows), sheet.name
    assert more(report, "targets")


def test_of_a_lake(run: Run, lake: Path) -> None:
    check(run, report_of(run, "lake", "report", str(lake)))
    check(run, report_of(run, "lake", "report", str(lake), "--since", "5m", "--until", "1m"))


def test_of_captures_with_all_options(run: Run, odd: Path) -> None:
    [keys] = odd.glob("*.keys")
    report = report_of(
        run, "report", str(odd), "--keys", str(keys), "--port", "9999=comet", "--dialect",
        "tny=upstream", "--reveal", "--include-open", "--keep",
    )  # fmt: skip
    assert report.command == [
        "wirelake", "sql", str(odd), "--port", "9999=comet", "--dialect", "tny=upstream",
        "--keys", str(keys), "--reveal", "--include-open", "--keep",
    ]  # fmt: skip
    check(run, report)


def test_the_rows_are_those_of_the_figures(run: Run, captures: Path) -> None:
    report = report_of(run, "report", str(captures), "--since", "5m")

    def rows(sheet: str) -> list[dict[str, int]]:
        found = run(*shlex.split(more(report, sheet) or "")[1:])
        return [json.loads(line) for line in found.lines]

    assert sum(row["messages"] for row in rows("protocols")) == report.overview.messages
    assert len(rows("faults")) == report.overview.faults
    assert len(rows("connections")) == report.overview.connections
    wrong = sum(row.failed + row.lost + row.unknown for row in report.protocols)
    assert len(rows("errors")) == sum(row["calls"] for row in rows("clients")) == wrong
