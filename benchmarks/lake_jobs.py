"""What a worker of `benchmarks.lake` does with Spark: our lake, and what it is compared with.

    lake      captures to a committed lake
    stream    the same, on and on as captures arrive
    copy      Spark copies the table `messages` of a lake, Parquet to Parquet
    udf       Spark reads captures as binary files, and Python decodes them with the plain codec

Only the work itself is timed. What earlier jobs wrote is brought to disk before.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from wirelake.capture.decode.reference import read_tables
from wirelake.lake.engine.run import Outcome, run
from wirelake.lake.engine.settings import TABLES, Settings, tables_of
from wirelake.lake.spark.dataframes import spark_schema
from wirelake.records.schema import schema
from wirelake.tables.log import Log

from .lake_worker import Taken

__all__ = ["JOBS"]

_CODEC = "snappy"
"""The one that a lake is written with."""
_UDF_ROWS = 10_000
"""Of a batch, as Spark makes them."""


# -- ours --------------------------------------------------------------------------------------


def lake(spark: SparkSession, captures: str, to: str, tables: Sequence[str] = TABLES) -> Taken:
    """Captures to a new lake with these tables and what they are made of."""
    _prepare(to)
    settings = Settings(tables=tables_of(tables))
    began = time.perf_counter()
    done = run(
        to, captures, spark=lambda: spark, settings=settings, keys=_keys(captures), settle_s=0
    )
    return _taken(began, done, to)


def stream(spark: SparkSession, captures: str, to: str, stop: str, trigger_s: float) -> Taken:
    """Captures to a lake with all tables as they arrive, until there is a file `stop`."""
    _prepare(to)
    began = time.perf_counter()
    done = run(
        to,
        captures,
        spark=lambda: spark,
        stream=True,
        trigger_s=trigger_s,
        until=lambda: os.path.exists(stop),
    )
    return _taken(began, done, to)


def _keys(captures: str) -> list[str]:
    return sorted(map(str, Path(captures).glob("*.keys")))


def _taken(began: float, done: Outcome, to: str) -> Taken:
    seconds = time.perf_counter() - began
    if done.refused or done.waiting:
        raise RuntimeError(f"not all captures were read: {done.refused or done.waiting}")
    rows = sum(each.rows for each in Log(to).snapshot().files("messages"))
    return Taken(seconds, done.bytes, rows)


def _prepare(to: str) -> None:
    """Room for what is written, and a disk that has nothing left to do."""
    shutil.rmtree(to, ignore_errors=True)
    os.sync()


# -- Spark copies ------------------------------------------------------------------------------


def copy(spark: SparkSession, lake: str, to: str, apart: bool) -> Taken:
    """Copies `messages`: in one job with all columns, or `apart`, each protocol with its own."""
    files: dict[str | None, list[str]] = {}
    log = Log(lake)
    for each in log.snapshot().files("messages"):
        protocol = each.protocol if apart else None
        files.setdefault(protocol, []).append(f"file://{log.layout.place(each.path)}")
    frames = {
        f"{to}/{protocol or 'all'}": _messages(spark, paths, protocol)
        for protocol, paths in files.items()
    }
    _prepare(to)
    began = time.perf_counter()
    with ThreadPoolExecutor(len(frames)) as pool:
        list(pool.map(_write, frames.values(), frames))
    return Taken(time.perf_counter() - began, 0, _rows(to))


def _messages(spark: SparkSession, paths: Sequence[str], protocol: str | None) -> DataFrame:
    columns = schema("messages") if protocol is None else schema("messages", (protocol,))
    return spark.read.schema(spark_schema(columns)).parquet(*paths)


def _write(frame: DataFrame, to: str) -> None:
    frame.write.option("compression", _CODEC).parquet(f"file://{to}")


def _rows(folder: str) -> int:
    return sum(pq.read_metadata(path).num_rows for path in Path(folder).rglob("*.parquet"))


# -- Spark calls Python ------------------------------------------------------------------------


def udf(spark: SparkSession, captures: str, to: str) -> Taken:
    """Decodes captures, of one file each, as whoever has a codec in Python would do it."""
    _prepare(to)
    files = spark.read.format("binaryFile").option("pathGlobFilter", "*.pcap")
    began = time.perf_counter()
    contents = files.load(f"file://{os.path.abspath(captures)}").select("content")
    _write(contents.mapInArrow(_decoded, spark_schema(schema("messages"))), to)
    seconds = time.perf_counter() - began
    read = sum(path.stat().st_size for path in Path(captures).glob("*.pcap"))
    return Taken(seconds, read, _rows(to))


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    columns = schema("messages")
    for batch in batches:
        for content in batch.column(0):
            with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
                file.write(content.as_buffer())
                file.flush()
                rows = (row for _, row in read_tables([file.name], tables=["messages"]))
                while some := list(itertools.islice(rows, _UDF_ROWS)):
                    yield pa.RecordBatch.from_pylist(some, columns)


JOBS: dict[str, Callable[..., Taken]] = {"lake": lake, "stream": stream, "copy": copy, "udf": udf}
"""What a worker can be asked to do."""
