"""Findings are printed, checked and written as a page."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from tests.tables.simulated_lake import captures, lake

from wirelake.cli.demo.report import Findings, print_findings, write_page
from wirelake.cli.errors import CommandError
from wirelake.tables.query import open_lake
from wirelake.tables.report.report import Report, make_report

__all__ = ["captures", "lake"]


@pytest.fixture(scope="module")
def report(lake: Path) -> Report:
    """About a simulated lake."""
    db: duckdb.DuckDBPyConnection
    with open_lake(lake) as db:
        return make_report(db, lake="demo", commit=1)


def test_what_is_printed(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    print_findings(Findings(report, 1234, ()))
    said = capsys.readouterr().out
    assert f"{report.overview.messages:,} messages" in said
    assert "All figures match the truth: 1,234 of 1,234." in said
    for title in ("Traffic", "Connections", "Faults by reason", "Coverage"):
        assert f"\n{title}\n" in said
    assert report.targets[0].target is not None
    assert report.targets[0].target in said


def test_the_first_difference_is_an_error(
    report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Findings(report, 10, ("calls are 1, not 2", "another", "a third"))
    print_findings(found)
    assert "All figures" not in capsys.readouterr().out
    with pytest.raises(CommandError) as error:
        found.check(kept=False)
    assert str(error.value) == (
        "differs from the truth: calls are 1, not 2 (and 2 more); use --keep DIR to keep all files"
    )
    assert error.value.code == 1
    Findings(report, 10, ()).check(kept=True)
    as_json = found.as_json()
    assert (as_json["figures"], len(as_json["differences"])) == (10, 3)
    assert as_json["report"]["overview"]["messages"] == report.overview.messages


def test_a_page_is_written_whole_or_not(report: Report, tmp_path: Path) -> None:
    write_page(report, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().endswith("</html>\n")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_page(report, tmp_path / "folder")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "page.html"]
