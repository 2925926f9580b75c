"""What the hub says about a run, and what its recording says, are the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from tests.hub.observe.recorded_run import TABLES, RecordedRun, recorded_run

from wirelake.capture.decode.reference import read_tables
from wirelake.capture.tcp.assembly import FIN, SYN
from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.records import (
    ENGINES,
    Closed,
    Event,
    Fact,
    FaultRow,
    MessageRow,
    Opened,
    feed_event,
    in_order,
)
from wirelake.records.rows import fields_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    return asyncio.run(recorded_run(tmp_path_factory.mktemp("recorded")))


@pytest.fixture(scope="module")
def events(run: RecordedRun) -> list[Event]:
    """What the plain reader finds, as events for engines."""
    found: list[Event] = []
    tables = ("messages", "faults", "packets", "facts")
    for table, row in read_tables(run.files, tables=tables, ports=run.ports):
        found += _EVENTS[table](row)
    return in_order(found)


def _message(row: dict[str, Any]) -> list[Event]:
    columns = [name for name in MessageRow.__struct_fields__ if name != "fields"]
    struct = row[row["protocol"]]
    fields = fields_of(row["protocol"], row["name"], struct, row["target"], row["body"])
    return [MessageRow(*[*(row[name] for name in columns), fields])]


def _packet(row: dict[str, Any]) -> list[Event]:
    ends = (row["src"], row["src_port"], row["dst"], row["dst_port"])
    if row["flags"] & SYN and row["direction"] == "c2s":
        return [Opened(row["ts_ns"], row["connection"], None, *ends)]
    if row["flags"] & FIN and row["direction"] == "s2c":
        return [Closed(row["ts_ns"], row["connection"], "c2s", "fin")]
    return []


_EVENTS: dict[str, Any] = {
    "messages": _message,
    "faults": lambda row: [FaultRow(*(row[name] for name in FaultRow.__struct_fields__))],
    "facts": lambda row: [Fact(row["ts_ns"], row["kind"], row["connection"], row["data"])],
    "packets": _packet,
}


def ordered(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.parametrize("table", TABLES)
def test_live_is_what_the_plain_reader_finds(
    run: RecordedRun, events: list[Event], table: str
) -> None:
    engine = ENGINES[table]()
    for event in events:
        feed_event(engine, event)
    engine.finish()
    rows = [msgspec.to_builtins(row) for row in engine.take()]
    assert run.rows[table]
    assert ordered(run.rows[table]) == ordered(rows)


@pytest.mark.parametrize("table", TABLES)
def test_live_is_what_wirelake_read_finds(run: RecordedRun, table: str) -> None:
    options = ReadOptions(table=table, ports=run.ports)
    rows = [row for batch in read_batches(run.files, options) for row in batch.to_pylist()]
    assert ordered(run.rows[table]) == ordered(rows)


def test_the_run_has_something_of_everything(run: RecordedRun) -> None:
    calls, connections = run.rows["calls"], run.rows["connections"]
    protocols = {"comet", "esnp", "tny", "magline"}
    assert {row["protocol"] for row in calls} >= protocols
    assert {row["outcome"] for row in calls} >= {"answered", "failed", "lost"}
    assert {row["outcome"] for row in run.rows["deliveries"]} >= {"acked", "unacked", "unsent"}
    assert {row["protocol"] for row in connections} >= {*protocols, "relay"}
    clients = {row["client"] for row in connections}
    assert clients >= {"anna", "ben", "carl", "dora", "emil"}
    assert all(row["close_reason"] for row in connections)
    assert {row["closed_by"] for row in connections} == {"client", "server"}
    assert any(row["faults"] for row in connections)
    assert [row["outcome"] for row in run.rows["tunnels"]] == ["closed"]


def test_deliveries_know_what_the_wire_does_not(run: RecordedRun) -> None:
    rows = run.rows["deliveries"]
    assert {row["topic"] for row in rows if row["client"] == "anna"} == {"@news", "@sport"}
    assert all(row["published_ns"] for row in rows)
    assert {row["client"] for row in rows} == {"anna", "ben", "carl", "dora", "emil", "gone"}
    assert {row["protocol"] for row in rows} == {"comet", "esnp", "tny", "magline"}


def test_with_keys_nothing_stays_sealed(run: RecordedRun) -> None:
    found = [row for _, row in read_tables(run.files, tables=["messages"], ports=run.ports)]
    assert not [row for row in found if row["sealed"]]
    bodies = {row["body"] for row in found}
    assert {b"for you alone", b"number 0"} <= bodies
