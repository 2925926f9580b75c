"""Only files that cannot contain rows of the requested time are skipped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from wirelake.capture.format.items import Packet
from wirelake.capture.format.reader import read
from wirelake.capture.format.writer import PcapWriter
from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.lake.datasource.options import parse
from wirelake.lake.datasource.paths import captures as found_captures
from wirelake.lake.datasource.pruning import Range, selected_range
from wirelake.lake.datasource.source import ReadTask, plan, read_share
from wirelake.traffic import simulate

FILES = 24
NS = 10**9


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source of many short files, with faults of every kind."""
    made, folder = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("cut")
    simulate(made / "captures", size="1MB", seed=4, faults=0.01, jobs=1)
    files = sorted((made / "captures").glob("tap-a-*.pcap"))
    packets = [each for path in files for each in read(path) if isinstance(each, Packet)]
    size = -(-len(packets) // FILES)
    for number in range(FILES):
        with (folder / f"tap-{number:02d}.pcap").open("wb") as out:
            writer = PcapWriter(out)
            for each in packets[number * size : (number + 1) * size]:
                writer.packet(each.ts_ns, each.data, original=each.original)
    return folder


def times(folder: Path) -> list[int]:
    options = ReadOptions(table="packets", columns=("ts_ns",))
    batches = read_batches(sorted(folder.glob("*.pcap")), options)
    return [row["ts_ns"] for batch in batches for row in batch.to_pylist()]


def read_files(folder: Path, **options: str) -> list[str]:
    """The names of the files that are read."""
    tasks = plan(parse(options), found_captures([str(folder)]))
    return [
        os.path.basename(path)
        for task in tasks
        if isinstance(task, ReadTask)
        for share in task.shares
        for path in share.paths
    ]


def found(folder: Path, **options: str) -> list[str]:
    request = parse(options)
    tasks = plan(request, found_captures([str(folder)]))
    return sorted(
        repr(row)
        for task in tasks
        if isinstance(task, ReadTask)
        for share in task.shares
        for batch in read_share(request, share)
        for row in batch.to_pylist()
    )


def direct(folder: Path, **options: Any) -> list[str]:
    batches = read_batches(sorted(folder.glob("*.pcap")), ReadOptions(**options))
    return sorted(repr(row) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("table", ["messages", "packets"])
@pytest.mark.parametrize("place", [0.02, 0.1, 0.3, 0.5, 0.7, 0.95])
def test_later_files_are_left_for_the_next_read(cut: Path, table: str, place: float) -> None:
    all_times = times(cut)
    end = all_times[int(place * len(all_times))]
    condition = f"ts_ns <= {end}"
    mine = found(cut, table=table, filter=condition)
    assert mine == direct(cut, table=table, filter=condition)
    assert mine
    files = read_files(cut, table=table, filter=condition)
    assert files == [f"tap-{number:02d}.pcap" for number in range(len(files))]
    assert (len(files) < FILES) == (place < 0.9)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_packets_by_themselves_need_nothing_before_them(cut: Path, place: float) -> None:
    all_times = times(cut)
    begin = all_times[int(place * len(all_times))]
    columns = ("ts_ns", "file", "offset", "seq", "note")
    condition = f"ts_ns >= {begin} and ts_ns < {begin + 200 * NS} and captured_bytes > 60"
    chosen = {"table": "packets", "columns": ",".join(columns), "filter": condition}
    mine = found(cut, **chosen)
    assert mine == direct(cut, table="packets", columns=columns, filter=condition)
    assert mine
    assert len(read_files(cut, **chosen)) < FILES * 0.75


@pytest.mark.parametrize(
    "options",
    [
        {"table": "packets"},
        {"table": "packets", "columns": "ts_ns,connection"},
        {"table": "packets", "columns": "ts_ns", "more": 'and direction == "c2s"'},
        {"table": "messages"},
    ],
)
def test_what_rows_need_from_before_is_read(cut: Path, options: dict[str, str]) -> None:
    more = options.pop("more", "")
    late = times(cut)[-1]
    files = read_files(cut, **options, filter=f"ts_ns >= {late} {more}")
    assert len(files) == FILES
    options["more"] = more


@pytest.mark.parametrize("table", ["faults", "coverage", "calls", "connections"])
def test_other_tables_need_everything(cut: Path, table: str) -> None:
    column = {"faults": "ts_ns", "calls": "request_ns"}.get(table, "first_ns")
    assert len(read_files(cut, table=table, filter=f"{column} < 5")) == FILES


def test_named_files_may_be_in_any_order(cut: Path) -> None:
    paths = sorted(map(str, cut.glob("*.pcap")), reverse=True)
    all_times = times(cut)
    request = parse({"table": "packets", "columns": "ts_ns", "filter": f"ts_ns >= {all_times[-1]}"})
    [task] = plan(request, found_captures(paths))
    assert isinstance(task, ReadTask)
    assert task.shares[0].paths == tuple(paths)


def test_files_without_packets_are_no_hindrance(tmp_path: Path, cut: Path) -> None:
    for each in sorted(cut.glob("*.pcap"))[:3]:
        (tmp_path / each.name).write_bytes(each.read_bytes())
    (tmp_path / "tap-99.pcap").write_bytes(b"nothing that is known")
    assert read_files(tmp_path, filter="ts_ns < 5") == ["tap-00.pcap"]


@pytest.mark.parametrize(
    ("condition", "range_"),
    [
        ("ts_ns > 5", Range(6, None)),
        ("5 >= ts_ns", Range(None, 5)),
        ("ts_ns == 5", Range(5, 5)),
        ('ts_ns >= 5 and (protocol == "comet" and ts_ns < 9) and ts_ns < 8', Range(5, 7)),
        ("ts_ns < 5 or size_bytes > 5", Range()),
        ("not ts_ns < 5", Range()),
        ("ts_ns != 5", Range()),
        ("first_ns < 5", Range()),
        ("ts_ns < 2026-01-01", Range(None, 1_767_225_600 * NS - 1)),
        ("size_bytes > 5", Range()),
    ],
)
def test_the_range_of_a_filter(condition: str, range_: Range) -> None:
    assert selected_range(ReadOptions(filter=condition)) == range_
    assert selected_range(ReadOptions()) == Range()
