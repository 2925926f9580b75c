"""A comparison sees each kind of difference."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.traffic_live.live_runs import LiveRun

from wirelake.traffic.live import SimulateError, compare
from wirelake.traffic.live.compare import MAX_DIFFERENCES, compare_tables
from wirelake.traffic.live.truth import TABLES

Row = dict[str, Any]


def _changed(live: LiveRun, folder: Path, table: str, change: Callable[[list[Row]], None]) -> Path:
    shutil.copytree(live.truth, folder / "live")
    path = folder / "live" / "truth" / f"{table}.parquet"
    rows = pq.read_table(path).to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[table]), path)
    return folder / "live"


def _set(column: str, value: Any, **where: Any) -> Callable[[list[Row]], None]:
    def change(rows: list[Row]) -> None:
        row = next(row for row in rows if all(row[name] == is_ for name, is_ in where.items()))
        assert row[column] != value
        row[column] = value

    return change


def _slower(row: Row) -> None:
    row["latency_min_ns"] = row["latency_max_ns"] = 10**12


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("connections", _set("close_reason", "bored"), "close_reason"),
        ("connections", _set("messages_s2c", 10**6), "messages_s2c"),
        ("connections", _set("bytes_c2s", 1), "bytes_c2s"),
        ("connections", _set("client", "somebody else", protocol="tny"), "client"),
        ("connections", lambda rows: rows.pop(), "only in the lake"),
        ("tunnels", _set("messages_c2s", 10**6), "tunnel"),
        ("tunnels", _set("link", 1), "its link"),
        ("calls", _set("outcome", "lost", outcome="failed"), "outcome"),
        ("calls", _set("status", "17", protocol="comet"), "status"),
        ("calls", lambda rows: rows.pop(0), "only in the lake"),
        ("calls", lambda rows: rows.append({**rows[0], "message_id": 1}), "only in truth"),
        ("calls", lambda rows: _slower(rows[0]), "its latency"),
        ("calls", lambda rows: [_slower(row) for row in rows if row["target"] == "13"], "p99"),
        ("deliveries", _set("sends", 99, outcome="unacked"), "sends"),
        ("deliveries", _set("outcome", "acked", outcome="unacked"), "outcome"),
        ("deliveries", _set("latency_max_ns", -(10**10), outcome="acked"), "its latency"),
        ("deliveries", lambda rows: rows.pop(), "only in the lake"),
        ("topics", _set("acked", 10**6), "topic"),
        ("faults", _set("code", "bad_luck"), "bad_luck"),
        ("faults", lambda rows: rows.pop(), "its number"),
        ("message_counts", _set("messages", 10**6), "their number"),
        ("message_counts", lambda rows: rows.pop(), "their number"),
    ],
)
def test_it_can_fail(
    live: LiveRun,
    tables: Any,
    tmp_path: Path,
    table: str,
    change: Callable[[list[Row]], None],
    words: str,
) -> None:
    found = compare_tables(tables, _changed(live, tmp_path, table, change))
    assert any(words in each for each in found.differences), found.differences
    assert all(len(each.splitlines()) == 1 for each in found.differences)


def test_there_is_an_end_to_differences(live: LiveRun, tables: Any, tmp_path: Path) -> None:
    truth = _changed(live, tmp_path, "calls", lambda rows: rows.clear())
    found = compare_tables(tables, truth)
    assert len(found.differences) == MAX_DIFFERENCES + 1
    assert "more differences" in found.differences[-1]


def test_no_truth(tmp_path: Path) -> None:
    with pytest.raises(SimulateError, match="missing or invalid expected tables of a live run"):
        compare_tables(None, tmp_path)


def test_no_lake(live: LiveRun, tmp_path: Path) -> None:
    with pytest.raises(SimulateError, match="nothing"):
        compare(tmp_path / "nothing", live.truth)
