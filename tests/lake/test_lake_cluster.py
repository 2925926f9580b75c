"""The data source on a cluster: two executors in processes of their own, on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.lake import session


@pytest.fixture
def cluster() -> Iterator[SparkSession]:
    """A session whose executors are not this process; their folders are removed afterwards."""
    work = Path(pyspark.__file__).parent / "work"
    before = set(work.glob("*"))
    found = session("wirelake cluster", master="local-cluster[2,1,1024]")
    yield found
    found.stop()
    for each in set(work.glob("*")) - before:
        shutil.rmtree(each, ignore_errors=True)


def test_executors_read_what_the_driver_would(cluster: SparkSession, captures: Path) -> None:
    reader = cluster.read.format("wirelake").option("partitions", "4")
    reader = reader.option("keys", f"{captures}/*.keys")
    found = reader.option("columns", "file,offset,connection").load(str(captures)).collect()
    keys = sorted(captures.glob("*.keys"))
    options = ReadOptions(columns=("file", "offset", "connection"), keys=keys)
    wanted = [
        tuple(row.values())
        for batch in read_batches(sorted(captures.glob("*.pcap*")), options)
        for row in batch.to_pylist()
    ]
    assert len(wanted) > 100
    assert sorted(map(tuple, found)) == sorted(wanted)
