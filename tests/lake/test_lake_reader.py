"""Readers without Spark: a read is split into tasks that together return all rows."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from wirelake.columnar.read.reader import PLAIN, TABLES
from wirelake.lake import WirelakeSource
from wirelake.lake.datasource.source import CaptureReader, FaultError, ReadTask, Share
from wirelake.traffic import simulate


def reader(path: Path, **options: str) -> CaptureReader:
    source = WirelakeSource({"path": str(path), **options})
    found = source.reader(source.schema())
    assert isinstance(found, CaptureReader)
    return found


def rows(found: CaptureReader) -> list[str]:
    """All rows of all tasks, in an order of their own."""
    batches = [batch for part in found.partitions() for batch in found.read(part)]
    return sorted(map(repr, pa.Table.from_batches(batches).to_pylist() if batches else []))


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures with faults of every kind."""
    folder = tmp_path_factory.mktemp("spoilt") / "captures"
    simulate(folder, size="1MB", seed=4, faults=0.01, jobs=1)
    return folder


@pytest.mark.parametrize("table", PLAIN)
def test_the_tasks_together_read_everything_once(spoilt: Path, table: str) -> None:
    options = {"table": table, "keys": f"{spoilt}/*.keys"}
    whole = rows(reader(spoilt, **options, partitions="1"))
    assert whole
    assert rows(reader(spoilt, **options, partitions="3")) == whole


def test_small_captures_are_one_task(captures: Path) -> None:
    [found] = reader(captures).partitions()
    edge, tap = (
        Share(tuple(sorted(map(str, captures.glob(style)))))
        for style in ("edge-a-*.pcapng", "tap-a-*.pcap")
    )
    assert isinstance(found, ReadTask)
    assert sorted(found.shares) == [edge, tap]


def test_large_captures_are_several_but_not_too_many(tmp_path: Path) -> None:
    def tasks(size: int) -> int:
        with (tmp_path / "a.pcap").open("wb") as out:
            out.truncate(size)
        return len(reader(tmp_path).partitions())

    assert [tasks(size << 20) for size in (0, 31, 32, 100, 10_000)] == [1, 1, 2, 4, 16]


@pytest.mark.parametrize("table", sorted(set(TABLES) - set(PLAIN)))
def test_what_follows_clients_is_one_task(captures: Path, table: str) -> None:
    assert len(reader(captures, table=table, partitions="5").partitions()) == 1


def test_payload_may_be_hashed(captures: Path, spoilt: Path) -> None:
    for table, column in (("messages", "body"), ("faults", "bytes")):
        options = {"table": table, "columns": f"file,offset,{column}"}
        plain = whole(reader(spoilt, **options))
        assert any(row[column] for row in plain)
        hashed = whole(reader(spoilt, **options, payload="hash"))
        assert hashed == [
            {**row, column: None if row[column] is None else sha256(row[column]).digest()}
            for row in plain
        ]
    assert whole(reader(captures, payload="hash", columns="name"))


def whole(found: CaptureReader) -> list[dict[str, Any]]:
    """All rows of all tasks, as they come."""
    batches = [batch for part in found.partitions() for batch in found.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("table", ["messages", "packets", "coverage", "faults", "calls"])
def test_failfast_raises_at_the_first_fault(spoilt: Path, captures: Path, table: str) -> None:
    options = {"table": table, "mode": "failfast"}
    with pytest.raises(FaultError) as error:
        whole(reader(spoilt, **options, keys=f"{spoilt}/*.keys"))
    faults = whole(reader(spoilt, table="faults", keys=f"{spoilt}/*.keys"))
    assert str(error.value) in {
        f"{row['file']}, offset {row['offset']}: {row['code']} ({row['detail']}); the option"
        " mode=permissive makes it a row of table faults instead"
        for row in faults
    }
    keys = f"{captures}/*.keys"
    assert whole(reader(captures, **options, keys=keys)) == whole(
        reader(captures, table=table, keys=keys)
    )


def test_the_captures_themselves(captures: Path) -> None:
    rows = whole(reader(captures, table="files"))
    assert [(row["source"], row["sequence"]) for row in rows] == [
        ("edge-a", 0),
        ("edge-a", 1),
        ("tap-a", 0),
        ("tap-a", 1),
    ]
    paths = [Path(row["path"]) for row in rows]
    assert paths == sorted(captures.glob("*.pcap*"))
    assert [row["bytes"] for row in rows] == [path.stat().st_size for path in paths]
    assert [row["mtime_ns"] for row in rows] == [path.stat().st_mtime_ns for path in paths]
    assert all(row["first_ns"] > 0 for row in rows)
