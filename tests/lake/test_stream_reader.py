"""The stream reader without Spark: the content of a batch, and its repeatability."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxFiles

from wirelake.columnar.read.reader import DERIVED, ReadOptions, read_batches
from wirelake.lake import WirelakeSource
from wirelake.lake.datasource.options import OptionError, parse
from wirelake.lake.datasource.paths import FILE_SCHEMA, PathError
from wirelake.lake.datasource.source import CaptureStream

NOW = 1_800_000_000 * 10**9
ALL = ReadAllAvailable()


def made(folder: Path, *names: str, size: int = 100, age_s: float = 3_600) -> None:
    """Create files with an older modification time."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        written = NOW - int(age_s * 1e9)
        os.utime(path, ns=(written, written))


def stream(folder: Path, **options: str) -> CaptureStream:
    given = {"path": str(folder), "table": "files", **options}
    return CaptureStream(parse(given), clock=lambda: NOW)


def names(found: CaptureStream, start: dict[str, object], end: dict[str, object]) -> list[str]:
    """The files of a batch, by the rows of its tasks."""
    tasks = found.partitions(start, end)
    batches = [batch for task in tasks for batch in found.read(task)]
    rows = pa.Table.from_batches(batches, FILE_SCHEMA).to_pylist()
    return [os.path.basename(row["path"]) for row in rows]


def test_a_batch_has_what_is_admitted(tmp_path: Path) -> None:
    made(tmp_path, "a-0.pcap", "a-1.pcap", "rack/b.pcap", "notes.txt", "c-0.pcapng.open")
    made(tmp_path, "fresh-0.pcap", age_s=5)
    made(tmp_path, "gap-0.pcap", "gap-2.pcap", age_s=60)
    found = stream(tmp_path)
    end = found.latestOffset(found.initialOffset(), ALL)
    assert end == {"a": 1, "gap": 0, "rack/b.pcap": 0}
    assert names(found, {}, end) == ["a-0.pcap", "a-1.pcap", "gap-0.pcap", "b.pcap"]
    assert found.latestOffset(end, ALL) == end


def test_a_stream_reports_recordings_that_nobody_completes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made(tmp_path, "a-0.pcap", "c-0.pcapng.open", size=1_500)
    found = stream(tmp_path)
    for _ in range(2):
        found.latestOffset(found.initialOffset(), ALL)
    [notice] = caplog.messages
    assert notice == (
        f"wirelake: skipping 1 unfinished recording in {tmp_path}, 1,500 bytes; use 'wirelake"
        " capture repair' to complete it"
    )
    with pytest.raises(OptionError, match="'include_open' does not apply to streams"):
        stream(tmp_path, include_open="true")


def test_settle_and_lateness_are_options(tmp_path: Path) -> None:
    made(tmp_path, "fresh-0.pcap", age_s=5)
    made(tmp_path, "gap-0.pcap", "gap-2.pcap", age_s=60)
    found = stream(tmp_path, settle="3s", lateness="1m")
    assert found.latestOffset({}, ALL) == {"fresh": 0, "gap": [2, [1, 1]]}


@pytest.mark.parametrize(
    ("options", "limit", "batches"),
    [
        ({}, ALL, [4]),
        ({"maxFilesPerTrigger": "3"}, ReadMaxFiles(3), [3, 1]),
        ({"maxBytesPerTrigger": "250B"}, ReadMaxBytes(250), [2, 2]),
        ({"maxBytesPerTrigger": "1"}, ReadMaxBytes(1), [1, 1, 1, 1]),
        ({"maxFilesPerTrigger": "3", "maxBytesPerTrigger": "200"}, ReadMaxFiles(3), [2, 2]),
        ({"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "1kB"}, ReadMaxFiles(1), [1, 1, 1, 1]),
    ],
)
def test_limits(
    tmp_path: Path, options: dict[str, str], limit: ReadLimit, batches: list[int]
) -> None:
    made(tmp_path, "a-0.pcap", "a-1.pcap", "b-0.pcap", "b-1.pcap")
    found = stream(tmp_path, **options)
    assert found.getDefaultReadLimit() == limit
    start: dict[str, object] = {}
    seen: list[int] = []
    while (end := found.latestOffset(start, limit)) != start:
        seen.append(len(names(found, start, end)))
        start = end
    assert seen == batches
    assert found.latestOffset({}, ALL) == {"a": 1, "b": 1}


def test_it_reports_how_far_it_can_read(tmp_path: Path) -> None:
    made(tmp_path, "a-0.pcap", "a-1.pcap")
    found = stream(tmp_path)
    assert found.reportLatestOffset() is None
    assert found.latestOffset({}, ReadMaxFiles(1)) == {"a": 0}
    assert found.reportLatestOffset() == {"a": 1}


def test_available_now_is_what_was_there(tmp_path: Path) -> None:
    made(tmp_path, "a-0.pcap")
    found = stream(tmp_path)
    found.prepareForTriggerAvailableNow()
    made(tmp_path, "a-1.pcap", "b.pcap")
    assert found.latestOffset({}, ALL) == {"a": 0}
    assert found.latestOffset({"a": 0}, ALL) == {"a": 0}
    assert stream(tmp_path).latestOffset({"a": 0}, ALL) == {"a": 1, "b.pcap": 0}


def test_a_stream_may_begin_behind_files(tmp_path: Path) -> None:
    made(tmp_path, "a-0.pcap", "a-1.pcap", "a-2.pcap")
    found = stream(tmp_path, after='{"a": 1}')
    assert found.initialOffset() == {"a": 1}
    assert names(found, {"a": 1}, found.latestOffset({"a": 1}, ALL)) == ["a-2.pcap"]


def test_a_repeated_batch_is_the_same_after_new_files(tmp_path: Path) -> None:
    made(tmp_path, "a-0.pcap", "a-2.pcap", "a-3.pcap")
    end = stream(tmp_path).latestOffset({}, ALL)
    made(tmp_path, "a-1.pcap", "a-4.pcap", "b.pcap")
    again = stream(tmp_path)
    assert names(again, {}, end) == ["a-0.pcap", "a-2.pcap", "a-3.pcap"]
    following = again.latestOffset(end, ALL)
    assert names(again, end, following) == ["a-4.pcap", "b.pcap"]


def test_a_file_that_went_away_is_no_row_of_files_and_an_error_for_its_messages(
    tmp_path: Path,
) -> None:
    made(tmp_path, "a-0.pcap", "a-1.pcap")
    end = stream(tmp_path).latestOffset({}, ALL)
    (tmp_path / "a-0.pcap").unlink()
    assert names(stream(tmp_path), {}, end) == ["a-1.pcap"]
    with pytest.raises(ValueError, match="file 0 of source 'a' no longer exists"):
        stream(tmp_path, table="messages").partitions({}, end)


def test_rows_of_a_batch_are_those_of_each_source(captures: Path) -> None:
    source = WirelakeSource({"path": str(captures), "settle": "0", "lateness": "0"})
    found = source.streamReader(source.schema())
    assert isinstance(found, CaptureStream)
    end = found.latestOffset({}, ALL)
    tasks = found.partitions({}, end)
    rows = [row for task in tasks for batch in found.read(task) for row in batch.to_pylist()]
    wanted = [
        row
        for style in ("edge-a-*.pcapng", "tap-a-*.pcap")
        for batch in read_batches(sorted(captures.glob(style)), ReadOptions())
        for row in batch.to_pylist()
    ]
    assert len(wanted) > 100
    assert sorted(map(repr, rows)) == sorted(map(repr, wanted))


def test_first_ns_is_that_of_the_first_packet(captures: Path, tmp_path: Path) -> None:
    made(tmp_path, "nonsense.pcap")
    for folder, known in ((captures, True), (tmp_path, False)):
        found = stream(folder)
        end = found.latestOffset({}, ALL)
        [task] = found.partitions({}, end)
        for row in pa.Table.from_batches(found.read(task)).to_pylist():
            options = ReadOptions(table="packets", columns=("ts_ns",))
            times = [
                time["ts_ns"]
                for batch in read_batches([row["path"]], options)
                for time in batch.to_pylist()
            ]
            assert bool(times) == known
            assert row["first_ns"] == (times[0] if times else None)


# -- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize("table", DERIVED)
def test_stateful_tables_are_rejected_in_a_stream(tmp_path: Path, table: str) -> None:
    with pytest.raises(OptionError, match=f"{table} needs state across files.* wirelake lake run"):
        stream(tmp_path, table=table)


@pytest.mark.parametrize("paths", [{}, {"path": "nowhere"}, {"paths": '["a", "b"]'}])
def test_a_stream_reads_one_folder(paths: dict[str, str]) -> None:
    with pytest.raises(PathError, match=r"a stream reads (one|a) folder"):
        CaptureStream(parse({"table": "files", **paths}))


def test_the_clock_is_that_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").touch()
    request = parse({"path": str(tmp_path), "table": "files"})
    assert CaptureStream(request).latestOffset({}, ALL) == {}
    old = time.time_ns() - 11 * 10**9
    os.utime(tmp_path / "a.pcap", ns=(old, old))
    assert CaptureStream(request).latestOffset({}, ALL) == {"a.pcap": 0}
