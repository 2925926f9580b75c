"""Parquet files: what was written is read again, with the schema of the table."""

from __future__ import annotations

import errno
import gc
import io
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wirelake.columnar.read.reader import TABLES, ReadOptions, read_batches, table_schema
from wirelake.records.schema import VERSION
from wirelake.tables import parquet
from wirelake.tables.parquet import ParquetOut
from wirelake.traffic import simulate


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    out = tmp_path_factory.mktemp("simulated") / "out"
    simulate(out, size=300_000, seed=9, faults=0.01, style="tcpdump", jobs=1)
    return sorted(out.glob("*.pcap"))


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_read_back(table: str, files: list[Path], tmp_path: Path) -> None:
    options = ReadOptions(table=table)
    wanted = table_schema(options)
    batches = list(read_batches(files, options))
    with ParquetOut(tmp_path / "out.parquet", wanted) as out:
        for batch in batches:
            out.write(batch)
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.equals(pa.Table.from_batches(batches, schema=wanted))
    assert (found.schema.metadata or {})[b"wirelake_version"] == str(VERSION).encode()


def test_times_are_stored_as_differences(files: list[Path], tmp_path: Path) -> None:
    options = ReadOptions(protocol="comet")
    with (
        (tmp_path / "out.parquet").open("wb") as stream,
        ParquetOut(stream, table_schema(options)) as out,
    ):
        for batch in read_batches(files, options):
            out.write(batch)
    group = pq.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in columns["ts_ns"].encodings
    assert "RLE_DICTIONARY" in columns["kind"].encodings
    assert "RLE_DICTIONARY" not in columns["connection"].encodings


def test_coded_batches_are_the_same_file(files: list[Path], tmp_path: Path) -> None:
    """Arrow dictionaries of several batches and protocols, with nulls and with texts of a few."""
    found = []
    for coded in (False, True):
        options = ReadOptions(window_bytes=50_000, coded=coded)
        path = tmp_path / f"{coded}.parquet"
        with ParquetOut(path, table_schema(options)) as out:
            for batch in read_batches(files, options):
                assert pa.types.is_dictionary(batch.schema.field("target").type) == coded
                out.write(batch)
        found.append(pq.ParquetFile(path))
    plain, coded_file = found
    assert coded_file.read().equals(plain.read())
    assert coded_file.schema_arrow.equals(plain.schema_arrow, check_metadata=True)
    assert coded_file.metadata.metadata == plain.metadata.metadata
    groups = [each.metadata.row_group(0) for each in found]
    for at in range(groups[0].num_columns):
        one, other = (group.column(at) for group in groups)
        assert (one.statistics, one.encodings) == (other.statistics, other.encodings)


def test_a_table_without_rows_is_a_file_with_its_columns(tmp_path: Path) -> None:
    wanted = table_schema(ReadOptions(table="calls"))
    with ParquetOut(tmp_path / "out.parquet", wanted):
        pass
    assert pq.read_table(tmp_path / "out.parquet").schema.equals(wanted)


# -- written by a thread while the next rows are read ----------------------------------------------


def encoded(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("table", TABLES)
def test_a_batch_keeps_its_rows_while_the_reader_goes_on(table: str, files: list[Path]) -> None:
    options = ReadOptions(table=table, window_bytes=20_000, coded=True)
    kept = [(batch, encoded(batch)) for batch in read_batches(files, options)]
    assert all(encoded(batch) == before for batch, before in kept)


@pytest.mark.parametrize("table", TABLES)
def test_an_overlapped_file_is_the_same(
    table: str, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_ROW_GROUP", 100)
    monkeypatch.setattr(parquet, "_BUFFER_BYTES", 4096)
    options = ReadOptions(table=table, window_bytes=20_000, coded=True)
    found = []
    for overlapped in (False, True):
        with io.BytesIO() as stream:
            with ParquetOut(stream, table_schema(options), overlapped=overlapped) as out:
                for batch in read_batches(files, options):
                    out.write(batch)
            found.append(stream.getvalue())
    assert found[0] == found[1]


class FullFile(io.BytesIO):
    """A file on a disk with room for so many bytes."""

    def __init__(self, room: int):
        super().__init__()
        self.room = room

    def write(self, data: object) -> int:
        if self.tell() + len(bytes(data)) > self.room:  # type: ignore[call-overload]
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("room", [0, 100, 10_000, 60_000])
def test_a_full_disk(
    room: int, overlapped: bool, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a row group, too, where a writer that is deleted would go on: it crashed."""
    monkeypatch.setattr(parquet, "_ROW_GROUP", 100)
    monkeypatch.setattr(parquet, "_BUFFER_BYTES", 4096)
    options = ReadOptions(window_bytes=20_000, coded=True)
    stream, threads = FullFile(room), threading.active_count()
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as raised:
        fill(stream, files, options, overlapped)
    del raised
    written = stream.getvalue()
    stream.room = 1 << 30  # nothing is added later, which would make the file look complete
    gc.collect()
    assert stream.getvalue() == written
    assert not stream.closed
    assert threading.active_count() == threads


def fill(stream: FullFile, files: list[Path], options: ReadOptions, overlapped: bool) -> None:
    with ParquetOut(stream, table_schema(options), overlapped=overlapped) as out:
        for batch in read_batches(files, options):
            out.write(batch)
