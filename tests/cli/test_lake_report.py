"""`wirelake lake report`: the same figures on the terminal, as JSON and as a page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.tables.simulated_lake import captures, lake

from wirelake.tables.query import open_lake
from wirelake.tables.report.report import Report, make_report
from wirelake.tables.report.sheets import sheets
from wirelake.tables.writer import Writer

from .conftest import SOURCES, Run
from .test_read_terminal import ESCAPES, on_terminal

pytestmark = pytest.mark.slow

__all__ = ["captures", "lake"]

MINUTE = 60_000_000_000


def report(lake: Path, **scope: Any) -> Report:
    with open_lake(lake) as db:
        more = ("wirelake", "lake", "sql", str(lake))
        return make_report(db, lake=lake.name, commit=1, command=more, **scope)


def test_json_is_the_report(run: Run, lake: Path) -> None:
    found = run("lake", "report", str(lake), "--json")
    assert (found.code, found.err) == (0, "")
    assert msgspec.json.decode(found.out, type=Report) == report(lake)


def test_every_sheet_is_printed(run: Run, lake: Path) -> None:
    found = run("lake", "report", str(lake), "--top", "3")
    assert (found.code, found.err) == (0, "")
    lines = [line.split() for line in found.lines]
    for sheet in sheets(report(lake, top=3)):
        at = lines.index(sheet.title.split())
        assert lines[at + 1] == " ".join(sheet.headings).split()
        body = lines[at + 3 : at + 3 + len(sheet.rows)]
        assert body == [" ".join(row).split() for row in sheet.rows]


def test_a_part_of_the_time(run: Run, lake: Path) -> None:
    overview = report(lake).overview
    assert overview.last_ns is not None
    since = overview.last_ns - 5 * MINUTE
    wanted = msgspec.to_builtins(report(lake, since_ns=since, until_ns=overview.last_ns - MINUTE))
    for first, last in (("5m", "1m"), ("2026-01-05T14:25", "2026-01-05T14:29:00Z")):
        found = run("lake", "report", str(lake), "--json", "--since", first, "--until", last)
        assert json.loads(found.out) == wanted


def test_a_page(run: Run, lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    found = run("lake", "report", str(lake), "--html", str(path))
    assert (found.code, found.out) == (0, "")
    assert found.err == f"{path}: {path.stat().st_size / 1e6:.1f} MB\n"
    text = path.read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert f"Lake report: {lake.name}" in text


def test_a_page_and_json(run: Run, lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    found = run("lake", "report", str(lake), "--html", str(path), "--json")
    assert path.exists()
    assert json.loads(found.out)["lake"] == lake.name


def test_an_empty_lake(run: Run, tmp_path: Path) -> None:
    with Writer(tmp_path / "empty", create={}):
        pass
    found = run("lake", "report", str(tmp_path / "empty"), "--since", "1h")
    assert (found.code, found.err) == (0, "")
    assert found.lines[1] == "No messages in this period."
    assert found.lines.count("none") == len(sheets(report(tmp_path / "empty")))


def test_a_terminal(lake: Path) -> None:
    code, seen = on_terminal(80, "lake", "report", str(lake), "--top", "2")
    lines = ESCAPES.sub("", seen).replace("\r", "").splitlines()
    assert code == 0
    assert all(len(line) <= 80 for line in lines[:-1])
    found = [line.split() for line in lines]
    for sheet in sheets(report(lake, top=2)):
        at = found.index(sheet.title.split())
        shown = [name for name in sheet.headings if name in lines[at + 1]]
        assert set(sheet.headings) - set(shown) <= set(sheet.minor)
        for number, row in enumerate(sheet.rows, at + 3):
            cells = zip(sheet.headings, sheet.numbers, row, strict=True)
            figures = [cell for name, is_number, cell in cells if is_number and name in shown]
            assert all(figure in lines[number] for figure in figures)  # never cut
    assert lines[-1].startswith("hidden columns: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--since", "yesterday"], "expected a time in UTC"),
        (["--since", "1m", "--until", "2m"], "--until must be later than --since"),
        (["--top", "0"], "--top"),
        (["--html", "no/such/folder/x.html"], "no/such/folder: no such folder"),
    ],
)
def test_bad_usage(run: Run, lake: Path, arguments: list[str], said: str) -> None:
    found = run("lake", "report", str(lake), *arguments)
    assert (found.code, found.out) == (2, "")
    assert said in found.err
    assert found.err.count("\n") == 1


def test_without_plotly(run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    page = lake.parent / "report.html"
    found = run("lake", "report", str(lake), "--html", str(page))
    assert (found.code, found.out) == (2, "")
    assert not page.exists()
    assert (
        found.err
        == "wirelake: missing optional dependency plotly: pip install 'wirelake[report]'\n"
    )


def test_no_reader_of_lakes_loads_spark(lake: Path) -> None:
    program = (
        "import sys; from wirelake.cli.main import main; code = main(sys.argv[1:]);"
        " sys.exit(code or 'pyspark' in sys.modules or 'numba' in sys.modules)"
    )
    for command in (
        ["report", str(lake), "--json"],
        ["status", str(lake)],
        ["sql", str(lake), "from calls"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, "lake", *command],
            env={**os.environ, "PYTHONPATH": SOURCES},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
