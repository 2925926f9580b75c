"""Compaction, expiry and status."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from wirelake.records.schema import VERSION, schema
from wirelake.tables.check import check
from wirelake.tables.log import Log
from wirelake.tables.maintenance import compact, compact_with, expire, expire_with, groups
from wirelake.tables.parquet import table
from wirelake.tables.paths import LakeError
from wirelake.tables.snapshot import iso_time
from wirelake.tables.status import status
from wirelake.tables.writer import Writer

from .made_lakes import SECOND, Clock, add_rows, call, capture, commit_calls
from .test_tables_query import older_lake

DAY = 86_400


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake to which nothing was added."""
    with Writer(tmp_path / "lake", create={"a": 1}):
        pass
    return tmp_path / "lake"


def rows(lake: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a table, in some order that is always the same."""
    return sorted(table(lake, name).to_pylist(), key=repr)


def minute(number: int) -> dict[str, Any]:
    return {"minute_ns": number * 60 * SECOND, "protocol": "comet", "messages": 1}


# -- compaction --------------------------------------------------------------------------------


def test_small_files_become_one_in_the_order_of_time(lake: Path) -> None:
    with Writer(lake) as writer:
        for first in (20, 0, 10):
            commit_calls(writer, list(range(first + 9, first - 1, -1)))
    before = rows(lake, "calls")
    made = compact(lake)
    assert made is not None
    assert (made.kind, made.figures["files"], made.figures["into"]) == ("compact", 3, 1)
    (file,) = Log(lake).snapshot().files("calls")
    assert (file.rows, file.min_ns, file.max_ns) == (30, 0, 29 * SECOND + 5_000_000)
    assert rows(lake, "calls") == before
    assert table(lake, "calls").column("connection").to_pylist() == list(range(30))
    assert pq.read_schema(lake / file.path).equals(schema("calls"), check_metadata=True)
    assert check(lake) == []
    assert compact(lake) is None
    assert Log(lake).last() == made.commit


def test_messages_are_joined_by_protocol(lake: Path) -> None:
    with Writer(lake) as writer, writer.begin() as step:
        for number in range(3):
            for protocol in ("comet", "tny"):
                row = {"ts_ns": number, "protocol": protocol, "ids": ["n"], protocol: {}}
                add_rows(step, "messages", [row], f"{protocol}-{number}", protocol=protocol)
        step.commit("advance")
    before = rows(lake, "messages")
    with Writer(lake) as writer:
        compact_with(writer)
    files = Log(lake).snapshot().files("messages")
    assert [(each.protocol, each.rows) for each in files] == [("comet", 3), ("tny", 3)]
    assert pq.read_schema(lake / files[0].path).names == schema("messages", ["comet"]).names
    assert rows(lake, "messages") == before


def test_older_files_get_the_columns_of_today(lake: Path) -> None:
    older_lake(lake)
    older_lake(lake)
    before = rows(lake, "messages")
    assert compact(lake) is not None
    (file,) = Log(lake).snapshot().files("messages")
    assert "sealed" in pq.read_schema(lake / file.path).names
    assert rows(lake, "messages") == before


def test_what_is_left_alone(lake: Path) -> None:
    with Writer(lake) as writer, writer.begin() as step:
        for number in range(2):
            add_rows(step, "calls", [call(number)], f"p{number}", provisional=True, source="edge")
            state = step.work(f"state-{number}") / "edge.state"
            state.write_bytes(b"x")
            step.add("_fold", state, rows=0)
        add_rows(step, "faults", [{"ts_ns": 1}])
        step.commit("advance")
    assert compact(lake) is None


def test_files_of_one_size(lake: Path) -> None:
    with Writer(lake) as writer:
        for number in range(6):
            commit_calls(writer, [number])
        one = writer.snapshot.files("calls")[0].bytes
        found = groups(writer.snapshot, size_bytes=int(one * 2.5))
        assert [[each.commit for each in group.files] for group in found] == [
            [1, 2],
            [3, 4],
            [5, 6],
        ]
        assert groups(writer.snapshot, size_bytes=one) == []  # they are large enough
        assert groups(writer.snapshot, tables=["messages"]) == []


def test_roll_ups_are_joined_by_day(lake: Path) -> None:
    day = 24 * 60
    with Writer(lake) as writer, writer.begin() as step:
        for number in (1, 61, 121, day + 1, day + 61, 2 * day + 1, 2 * day + 61):
            add_rows(step, "traffic_minutes", [minute(number)], f"m{number}")
        step.commit("advance")
    before = rows(lake, "traffic_minutes")
    compact(lake)
    files = Log(lake).snapshot().files("traffic_minutes")
    assert sorted(each.rows for each in files) == [1, 1, 2, 3]
    assert rows(lake, "traffic_minutes") == before
    assert compact(lake) is None


# -- expiry ------------------------------------------------------------------------------------


def test_old_files_go_and_captures_stay_known(lake: Path) -> None:
    now = Clock(100 * SECOND)
    with Writer(lake, clock=now) as writer:
        commit_calls(writer, range(10))
        commit_calls(writer, range(30, 60))
        with writer.begin() as step:
            add_rows(step, "calls", [call(1)], "open", provisional=True, source="edge")
            add_rows(step, "faults", [{"code": "unknown_file"}])
            add_rows(step, "traffic_minutes", [minute(0)])
            step.commit("advance")
    made = expire(lake, 60, clock=now)
    assert made is not None
    assert sorted(made.remove) == ["calls/1/part.parquet", "traffic_minutes/3/part.parquet"]
    assert made.figures["before_ns"] == 40 * SECOND
    snapshot = Log(lake).snapshot()
    assert [each.rows for each in snapshot.files("calls")] == [30, 1]
    assert len(snapshot.files("faults")) == 1  # it has no time
    assert [each.sequence for each in snapshot.sources["edge"].inputs] == [0, 1]
    assert expire(lake, 60, clock=now) is None
    with pytest.raises(LakeError, match="invalid age"):
        expire(lake, 0)


def test_only_some_tables_are_expired(lake: Path) -> None:
    now = Clock(DAY * SECOND)
    with Writer(lake, clock=now) as writer, writer.begin() as step:
        add_rows(step, "calls", [call(1)])
        add_rows(step, "traffic_minutes", [minute(0)])
        step.commit("advance")
    expire(lake, 60, tables=["calls"], clock=now)
    assert table(lake, "calls").num_rows == 0
    assert table(lake, "traffic_minutes").num_rows == 1


def test_old_records_are_folded_into_a_checkpoint(tmp_path: Path) -> None:
    now, lake = Clock(), tmp_path / "aged"
    with Writer(lake, create={"a": 1}, clock=now) as writer:
        for number in range(6):
            now.move(DAY)
            commit_calls(writer, [number])
    log = Log(lake)
    files, inputs = log.snapshot().all_files(), log.snapshot().sources["edge"].inputs
    now.move(DAY)
    made = expire(lake, 2.5 * DAY, tables=["messages"], clock=now)
    assert made is None
    assert log.layout.logged() == ([4, 5, 6], [6])
    again = log.snapshot()
    assert (again.all_files(), again.sources["edge"].inputs) == (files, inputs)
    assert again.settings == {"a": 1}
    assert check(lake) == []
    with Writer(lake, clock=now) as writer:
        commit_calls(writer, [9])
    assert log.snapshot().commit == 7
    assert check(lake) == []


def test_what_expired_is_swept_later(lake: Path) -> None:
    now = Clock(DAY * SECOND)
    with Writer(lake, clock=now) as writer:
        commit_calls(writer, range(3))
    expire(lake, 60, clock=now)
    assert (lake / "calls/1").exists()
    now.move(2 * 3_600)
    with Writer(lake, clock=now) as writer:
        for _ in range(3):
            commit_calls(writer, [90_000])
    assert not (lake / "calls/1").exists()


# -- status ------------------------------------------------------------------------------------


def test_how_a_lake_is_doing(lake: Path, tmp_path: Path) -> None:
    now = Clock()
    with Writer(lake, clock=now) as writer:
        with writer.begin() as step:
            add_rows(step, "messages", [{"ts_ns": each} for each in range(8)], protocol="comet")
            add_rows(step, "calls", [call(1), call(2)])
            add_rows(step, "calls", [call(9)], "open", provisional=True)
            step.consume(capture(0, "tap", path="/captures/tap-0.pcap"))
            step.consume(capture(0, "edge"))
            step.consume(capture(9, "edge", fault="late_file"))
            step.commit("advance", {"seconds": 2.0})
        with writer.begin() as step:
            step.commit("compact", {"seconds": 100.0})
    captures = tmp_path / "captures"
    captures.mkdir()
    for name, age_s in (("tap-1", 40), ("tap-3", 30), ("tap-4", 20)):
        path = captures / f"{name}.pcap"
        path.write_bytes(b"x" * 10)
        written = now.now_ns - age_s * SECOND
        os.utime(path, ns=(written, written))
    (captures / "edge-00000007.pcapng.open").write_bytes(b"x" * 70)
    found = status(lake, captures, now_ns=now.now_ns + 5 * SECOND)
    assert (found.commit, found.time, found.age_s) == (2, iso_time(now.now_ns), 5.0)
    assert (found.schema, found.path) == (VERSION, str(lake))
    calls, messages = found.tables
    assert (calls.table, calls.files, calls.rows, calls.provisional_rows) == ("calls", 2, 3, 1)
    assert (calls.min_ns, calls.max_ns) == (SECOND, 9 * SECOND + 5_000_000)
    assert (messages.rows, messages.min_ns, messages.max_ns) == (8, 0, 7)
    edge, tap = found.sources
    assert (edge.files, edge.refused, edge.last_sequence, edge.bytes) == (1, 1, 0, 1_000)
    assert (tap.source, tap.last_sequence) == ("tap", 0)
    assert (found.rows_per_s, found.bytes_per_s) == (4.0, 1_000.0)
    assert [(each.sequence, each.why) for each in found.waiting] == [
        (1, ""), (3, "sequence 2 is missing"), (4, "after tap-3.pcap"),
    ]  # fmt: skip
    assert (found.backlog_files, found.backlog_bytes, found.lag_s) == (3, 30, 45.0)
    assert (found.open_files, found.open_bytes) == (1, 70)


def test_the_status_of_an_empty_lake(lake: Path) -> None:
    found = status(lake)
    assert (found.commit, found.tables, found.sources, found.waiting) == (0, [], [], [])
    assert found.rows_per_s is None
    assert found.bytes_per_s is None
    assert found.lag_s == 0.0


def test_small_files_are_merged_when_there_are_enough(tmp_path: Path) -> None:
    with Writer(tmp_path / "lake", create={}) as writer:
        for number in range(4):
            commit_calls(writer, [number])
            merged = compact_with(writer, min_files=4)
            assert (merged is not None) == (number == 3)
        assert len(writer.snapshot.files("calls")) == 1


def test_tables_that_expire_are_merged_day_by_day(tmp_path: Path) -> None:
    day = DAY  # numbers of calls are seconds
    with Writer(tmp_path / "lake", create={}) as writer:
        for number in (5, 6, day + 5, day + 6, 2 * day + 5):
            commit_calls(writer, [number])
        assert compact_with(writer, min_files=4, by_day={"calls"}) is None  # saves two files
        assert compact_with(writer, min_files=3, by_day={"calls"}) is not None
        found = [(each.min_ns or 0) // (day * SECOND) for each in writer.snapshot.files("calls")]
        assert sorted(found) == [0, 1, 2]
        clock_ns = (2 * day + 3) * SECOND
        writer.clock = lambda: clock_ns
        expire_with(writer, {"calls": 1.0 * day})
        left = [(each.min_ns or 0) // (day * SECOND) for each in writer.snapshot.files("calls")]
        assert sorted(left) == [1, 2]
