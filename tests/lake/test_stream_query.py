"""Streams in Spark: the rows of a table, batch by batch, also when a query is started again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from wirelake.columnar.read.reader import ReadOptions, read_batches

COLUMNS = ("file", "offset", "connection", "name")


def query(spark: SparkSession, folder: Path, work: Path, **options: str) -> list[dict[str, Any]]:
    """Run a stream over the existing files; return Spark's progress of its batches."""
    reader = spark.readStream.format("wirelake").options(settle="0", lateness="0", **options)
    writer = reader.load(str(folder)).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(work / "checkpoint"))
    found = writer.trigger(availableNow=True).start(str(work / "rows"))
    assert found.awaitTermination(300)
    return [each for each in found.recentProgress if each["numInputRows"]]


def wanted(*files: Path) -> list[tuple[Any, ...]]:
    return sorted(
        tuple(row.values())
        for batch in read_batches(files, ReadOptions(columns=COLUMNS))
        for row in batch.to_pylist()
    )


def rows(spark: SparkSession, work: Path) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.read.parquet(str(work / "rows")).collect()))


def test_messages_come_in_batches_and_none_twice(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    edge, tap = sorted(captures.glob("edge-a-*")), sorted(captures.glob("tap-a-*.pcap"))
    options = {"columns": ",".join(COLUMNS), "maxFilesPerTrigger": "1"}
    for each in edge:
        shutil.copy(each, folder)
    assert len(query(spark, folder, tmp_path, **options)) == 2
    copies = [folder / each.name for each in edge]
    assert rows(spark, tmp_path) == sorted(wanted(copies[0]) + wanted(copies[1]))
    assert query(spark, folder, tmp_path, **options) == []
    for each in tap:
        shutil.copy(each, folder)
    [batch] = query(spark, folder, tmp_path, columns=options["columns"])
    assert json.loads(batch["sources"][0]["endOffset"]) == {"edge-a": 1, "tap-a": 1}
    copies = [folder / each.name for each in tap]
    before = wanted(folder / edge[0].name) + wanted(folder / edge[1].name)
    assert rows(spark, tmp_path) == sorted(before + wanted(*copies))


def test_a_stateful_table_is_rejected(spark: SparkSession, captures: Path, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="use a lake: wirelake lake run"):
        query(spark, captures, tmp_path, table="calls")


@pytest.mark.parametrize(
    ("path", "options", "words"),
    [
        ("edge-a-00000000.pcapng", {}, "not a folder; a stream reads a folder"),
        ("s3a://bucket/captures", {}, "unsupported scheme 's3a'; expected a local path"),
        ("", {"table": "calls"}, "table calls needs state across files"),
    ],
)
def test_what_a_stream_cannot_read_is_in_its_error(
    spark: SparkSession,
    captures: Path,
    tmp_path: Path,
    path: str,
    options: dict[str, str],
    words: str,
) -> None:
    place = path if ":" in path else str(captures / path)
    reader = spark.readStream.format("wirelake").options(**options).load(place)
    writer = reader.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    started = writer.trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match=words):
        started.awaitTermination(300)
