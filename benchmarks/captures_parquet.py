"""From a capture to Parquet, beside writing the finished tables: what reading costs on top.

Both write one file for each protocol. The finished tables are in memory before the clock starts.
pyarrow writes them as it does by default; we write as `wirelake read` does, with encodings
that fit the columns. What pyarrow takes with those encodings is reported as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wirelake.columnar.decode.texts import plain
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.tables.parquet import ParquetOut

__all__ = ["finished_tables", "read_all", "through", "write_finished", "write_finished_alike"]


def finished_tables(capture: Path) -> dict[str, pa.Table]:
    """The messages of a capture, a table for each protocol."""
    batches: dict[str, list[pa.RecordBatch]] = {}
    for protocol, batch in _batches(capture):
        batches.setdefault(protocol, []).append(plain(batch))
    return {protocol: pa.Table.from_batches(found) for protocol, found in batches.items()}


def write_finished(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Writes tables that are there already."""
    for protocol, table in tables.items():
        pq.write_table(table, folder / f"{protocol}.parquet")


def write_finished_alike(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Writes tables that are there already, with our encodings."""
    for protocol, table in tables.items():
        with ParquetOut(folder / f"{protocol}.parquet", table.schema) as out:
            for batch in table.to_batches():
                out.write(batch)


def through(capture: Path, folder: Path) -> None:
    """Reads a capture and writes its messages, batch by batch."""
    files: dict[str, ParquetOut] = {}
    for protocol, batch in _batches(capture):
        if protocol not in files:
            schema = plain(batch).schema  # of the file: the texts of batches are coded
            files[protocol] = ParquetOut(folder / f"{protocol}.parquet", schema)
        files[protocol].write(batch)
    for out in files.values():
        out.close()


def read_all(capture: Path) -> None:
    """Reads a capture and writes nothing."""
    for _ in _batches(capture):
        pass


def _batches(capture: Path) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Batches of messages, each of one protocol: its struct is the last column."""
    for _, batch in CapturePipeline(capture, tables=("messages",)).batches():
        assert isinstance(batch, pa.RecordBatch)
        yield batch.schema.names[-1], batch
