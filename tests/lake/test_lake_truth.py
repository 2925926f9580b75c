"""A lake of simulated captures equals the truth; `verify` detects differences."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.lake.cut_examples import unread
from tests.lake.lakes import untrue
from tests.lake.local_engine import run_here

from wirelake.lake.engine.run import run
from wirelake.lake.verify.verify import verify
from wirelake.tables.log import Log
from wirelake.tables.parquet import file_checksum
from wirelake.tables.snapshot import sealed
from wirelake.traffic import simulate


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures in both styles, with one corrupted message in a hundred."""
    folder = tmp_path_factory.mktemp("truth") / "captures"
    simulate(folder, size="1MB", seed=6, faults=0.01, jobs=1)
    return folder


@pytest.fixture(scope="module")
def lake(spark: SparkSession, faulty: Path) -> Path:
    """A lake of them, made at once."""
    found = faulty.parent / "lake"
    outcome = run(found, faulty, spark=lambda: spark, keys=key_logs(faulty))
    assert (outcome.commits, unread(outcome)) == (1, [])
    return found


def key_logs(folder: Path) -> list[str]:
    """The key logs of a simulation."""
    return [str(path) for path in sorted(folder.glob("*.keys"))]


def test_all_at_once(lake: Path, faulty: Path) -> None:
    assert untrue(lake, faulty) == []
    assert verify(lake, keys=key_logs(faulty), shares=1).findings() == []


def test_one_file_after_the_other(captures: Path, tmp_path: Path) -> None:
    keys = key_logs(captures)
    outcome = run_here(tmp_path / "lake", captures, keys=keys, max_files=1)
    assert (outcome.commits, unread(outcome)) == (4, [])
    assert untrue(tmp_path / "lake", captures) == []
    assert verify(tmp_path / "lake", keys=keys, shares=2).findings() == []


# -- lakes that somebody has altered ---------------------------------------------------------------


def without_one(rows: pa.Table) -> pa.Table:
    """All rows but the first."""
    return rows.slice(1)


def larger(rows: pa.Table) -> pa.Table:
    """Messages that claim to be larger than they are."""
    at = rows.column_names.index("size_bytes")
    sizes = pc.add(rows.column(at), 1)
    return rows.set_column(at, rows.schema.field(at), sizes)


def alter(lake: Path, table: str, change: Callable[[pa.Table], pa.Table]) -> str:
    """Rewrite a file of a table; return its path in the lake."""
    file = next(each for each in Log(lake).snapshot().files(table) if not each.provisional)
    path = lake / file.path
    pq.write_table(change(pq.ParquetFile(path).read()), path)
    return file.path


def admit(lake: Path, path: str) -> None:
    """Update the log to match the file."""
    record = Log(lake).layout.record(1)
    said = json.loads(record.read_text())
    for file in said["add"]:
        if file["path"] == path:
            file["bytes"] = (lake / path).stat().st_size
            file["rows"] = pq.read_metadata(lake / path).num_rows
            file["checksum"] = file_checksum(lake / path)
    del said["checksum"]
    record.write_bytes(sealed(json.dumps(said).encode()))


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("calls", without_one, "row is missing from the lake"),
        ("messages", larger, ": size_bytes is "),
        ("traffic_minutes", without_one, "row is missing from the lake"),
    ],
)
def test_verify_detects_alterations(
    lake: Path,
    faulty: Path,
    tmp_path: Path,
    table: str,
    change: Callable[[pa.Table], pa.Table],
    words: str,
) -> None:
    keys = key_logs(faulty)
    altered = Path(shutil.copytree(lake, tmp_path / "lake"))
    path = alter(altered, table, change)
    (problem,) = verify(altered, keys=keys).findings()
    assert problem.startswith(f"{path}: ")
    admit(altered, path)
    assert words in " ".join(verify(altered, keys=keys, shares=1).findings())
