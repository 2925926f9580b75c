"""What crosses connections is derived anew: a good lake is clean, an altered one is found out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from wirelake.lake.engine.run import run
from wirelake.lake.verify.verify import verify
from wirelake.tables.entries import AddedFile
from wirelake.tables.log import Log


@pytest.fixture(scope="module")
def lake(spark: SparkSession, captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that was made in two steps, and its captures beside it."""
    folder = tmp_path_factory.mktemp("crossing")
    shutil.copytree(captures, folder / "in")
    run(folder / "lake", folder / "in", spark=lambda: spark, keys=key_logs(captures), max_files=2)
    return folder / "lake"


def key_logs(folder: Path) -> list[str]:
    """The key logs of a simulation."""
    return [str(path) for path in sorted(folder.glob("*.keys"))]


def verified(lake: Path, captures: Path, shares: int = 1) -> list[str]:
    """What is wrong with it."""
    return verify(lake, keys=key_logs(captures), shares=shares)


@pytest.mark.parametrize("shares", [1, 3])
def test_a_good_lake_is_clean(lake: Path, captures: Path, shares: int) -> None:
    assert verified(lake, captures, shares) == []


def test_captures_that_are_gone_are_named(lake: Path, captures: Path) -> None:
    gone = min((lake.parent / "in").glob("*.pcap*"))
    gone.rename(gone.with_suffix(".away"))
    try:
        first, last = verified(lake, captures)
    finally:
        gone.with_suffix(".away").rename(gone)
    assert first.endswith(f"cannot be derived anew: {gone} is gone")
    tables = "deliveries, connections, tunnels, calls"
    assert last.startswith(f"{tables}: cannot be derived anew across connections: captures of ")


# -- lakes that somebody has altered ---------------------------------------------------------------


def one_more(column: str) -> Callable[[pa.Table], pa.Table]:
    """The first row that has a number in this column has a larger one."""

    def change(rows: pa.Table) -> pa.Table:
        values: list[Any] = rows.column(column).to_pylist()
        at = next(at for at, value in enumerate(values) if value is not None)
        values[at] += 1
        place = rows.column_names.index(column)
        field = rows.schema.field(place)
        return rows.set_column(place, field, pa.array(values, field.type))

    return change


def another_outcome(rows: pa.Table) -> pa.Table:
    """The first row has an outcome that it cannot have."""
    outcomes = rows.column("outcome").to_pylist()
    place = rows.column_names.index("outcome")
    wrong = "orphan" if outcomes[0] != "orphan" else "unsent"
    return rows.set_column(place, rows.schema.field(place), pa.array([wrong, *outcomes[1:]]))


def alter(lake: Path, table: str, column: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Writes a file of a table anew, one that has something in the column; the log agrees."""
    file, path, rows = next(
        (file, lake / file.path, rows)
        for file in Log(lake).snapshot().files(table)
        if (rows := pq.ParquetFile(lake / file.path).read()).column(column).null_count < len(rows)
    )
    pq.write_table(change(rows), path)
    admit(lake, file)


def admit(lake: Path, file: AddedFile) -> None:
    """The log says how many bytes the file has now."""
    record = Log(lake).layout.record(file.commit)
    said = json.loads(record.read_text())
    for each in said["add"]:
        if each["path"] == file.path:
            each["bytes"] = (lake / file.path).stat().st_size
    record.write_text(json.dumps(said))


@pytest.mark.parametrize(
    ("table", "column", "change", "words"),
    [
        ("tunnels", "switches", one_more("switches"), "tunnels: 1 rows are missing"),
        ("calls", "tunnel_link", one_more("tunnel_link"), "calls in tunnels: 1 rows are missing"),
        ("deliveries", "sends", one_more("sends"), "deliveries: 1 rows are missing"),
        ("deliveries", "topic", another_outcome, "what became of them: 1 rows are missing"),
        (
            "connections",
            "previous_connection",
            one_more("previous_connection"),
            "connections: 1 rows have another previous_connection",
        ),
    ],
)
def test_what_was_altered_is_found(
    lake: Path,
    captures: Path,
    tmp_path: Path,
    table: str,
    column: str,
    change: Callable[[pa.Table], pa.Table],
    words: str,
) -> None:
    altered = Path(shutil.copytree(lake, tmp_path / "lake"))
    alter(altered, table, column, change)
    assert words in " ".join(verified(altered, captures))
