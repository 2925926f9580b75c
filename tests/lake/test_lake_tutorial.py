"""The guide from captures to a chart is true, and so are the questions on the pages of tables.

All commands of the guide are run in their order. The lake that they make is held against the truth
of the simulation, is then asked what the pages of tables ask, and is looked after as the guide on
that says.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.docs.page_runner import run_page
from tools.pages.table_texts import EXAMPLES, MADE

from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.records.schema import schema
from wirelake.tables.query import open_lake

from .lakes import counted, differing, untrue

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
CHINESE = GUIDES.parent / "zh" / "guides" / "lake.md"


def blocks(page: str) -> list[str]:
    """Return the console and Python blocks of a page."""
    return re.findall(r"```(?:console|python)\n.*?```", page, re.DOTALL)


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the guide was run."""
    folder = tmp_path_factory.mktemp("tutorial")
    run_page(GUIDES / "lake.md", folder)
    return folder


def test_lake_equals_the_truth(tutorial: Path) -> None:
    assert untrue(tutorial / "lake", tutorial / "traffic") == []
    assert b"plotly" in (tutorial / "report.html").read_bytes()
    assert (tutorial / "traffic.html").stat().st_size > 100_000


def test_every_example_query_returns_rows(tutorial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tutorial)
    captures = sorted((tutorial / "captures").glob("*.pcap*"))
    batches = read_batches(captures, ReadOptions(table="packets"))
    pq.write_table(pa.Table.from_batches(batches, schema("packets")), "packets.parquet")
    with open_lake(tutorial / "lake") as db:
        for name, examples in EXAMPLES.items():
            for example in examples:
                found = db.sql(example.sql).fetchall()
                assert found, f"{name}: {example.question}"


def test_rollups_match_their_pages(tutorial: Path) -> None:
    with open_lake(tutorial / "lake") as db:
        for name, made in MADE.items():
            given, wanted = (db.sql(each).to_arrow_table() for each in (f"FROM {name}", made.sql))
            assert given.num_rows, name
            assert wanted.schema.names == schema(name).names
            assert differing(counted(given), counted(wanted), name) == []


def test_maintenance_commands(tutorial: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copytree(tutorial / "lake", copy / "lake")
    for name in ("captures", "traffic"):
        (copy / name).symlink_to(tutorial / name)
    run_page(GUIDES / "lake-operations.md", copy)


def test_chinese_page_matches() -> None:
    english, chinese = (page.read_text("utf-8") for page in (GUIDES / "lake.md", CHINESE))
    assert blocks(chinese) == blocks(english)
