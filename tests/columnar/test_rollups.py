"""Roll-ups counted in Arrow equal those of `wirelake.records.rollups`, which counts row by row."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.lake.cross_connection_events import Rows, in_any_order, table_of

from wirelake.columnar.fold.rollups import RollupCounts
from wirelake.records.rollups import BUCKETS, INPUTS, TALKERS, bounds, bucket_of, minute_of, rollup
from wirelake.records.schema import schema

MINUTE = 60_000_000_000
MOST = (1 << 63) - 1
TIMES = (-MINUTE - 1, -MINUTE, -1, 0, 1, MINUTE - 1, MINUTE, 5 * MINUTE + 7)


def counted(table: str, talkers: int = TALKERS, **inputs: Rows) -> Rows:
    """The rows of a roll-up over all minutes, whose inputs come in batches."""
    counts = RollupCounts(table, -MOST, MOST, talkers=talkers)
    for name, rows in inputs.items():
        columns = list(INPUTS[table][name])
        for batch in table_of(name, rows).select(columns).to_batches(max_chunksize=70):
            counts.add(name, batch)
    found = counts.rows()
    assert found.schema == schema(table)
    made: Rows = found.to_pylist()
    return made


def agree(found: Rows, table: str, wanted: Rows) -> None:
    """The rows that are wanted, except those without a minute, which are not counted."""
    wanted = [row for row in wanted if row["minute_ns"] is not None]
    assert wanted
    assert in_any_order(found) == in_any_order(
        {name: row[name] for name in schema(table).names} for row in wanted
    )


def messages(seed: int, many: int) -> Rows:
    chance = random.Random(seed)
    return [
        {
            "ts_ns": chance.choice(TIMES),
            "connection": chance.randrange(-12, 12),
            "direction": chance.choice(("c2s", "s2c")),
            "protocol": chance.choice(("comet", "tny")),
            "kind": chance.choice(("request", "push")),
            "size_bytes": chance.choice((10, 20, 400)),
            "tunnel_link": chance.choice((None, None, 7)),
        }
        for _ in range(many)
    ]


def calls(seed: int, many: int) -> Rows:
    chance = random.Random(seed)
    found: Rows = []
    for _ in range(many):
        request: Any = chance.choice((None, *TIMES))
        response: Any = chance.choice((None, *TIMES))
        found.append(
            {
                "protocol": chance.choice(("comet", "tny")),
                "target": chance.choice((None, "a", "b")),
                "outcome": chance.choice(("answered", "failed", "lost", "unknown", "open")),
                "cause": chance.choice((None, "closed", "gap")),
                "status": chance.choice((None, "ok", "4")),
                "request_ns": request,
                "response_ns": response,
                "latency_ns": None if None in (request, response) else response - request,
            }
        )
    return found


def test_every_rollup_has_the_inputs_of_its_definition() -> None:
    for table, inputs in INPUTS.items():
        assert counted(table, **{name: [] for name in inputs}) == []


def test_traffic() -> None:
    rows = messages(1, 300)
    wanted = rollup("traffic_minutes", messages=rows)
    agree(counted("traffic_minutes", messages=rows), "traffic_minutes", wanted)


def test_only_the_given_minutes_are_counted() -> None:
    rows = messages(1, 300)
    counts = RollupCounts("traffic_minutes", 0, MINUTE)
    counts.add("messages", table_of("messages", rows))
    wanted = rollup("traffic_minutes", messages=rows)
    found = counts.rows().to_pylist()
    agree(found, "traffic_minutes", [row for row in wanted if 0 <= row["minute_ns"] <= MINUTE])


def test_sums_that_are_summed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirelake.columnar.fold.rollups._SUMMED_ROWS", 5)
    rows = messages(7, 500)
    wanted = rollup("traffic_minutes", messages=rows)
    agree(counted("traffic_minutes", messages=rows), "traffic_minutes", wanted)


def test_latency() -> None:
    rows = calls(2, 300)
    wanted = rollup("latency_minutes", calls=rows)
    agree(counted("latency_minutes", calls=rows), "latency_minutes", wanted)


def test_buckets_are_those_of_python() -> None:
    chance = random.Random(3)
    values = {-MOST, -5, -1, MOST, MOST - 1}
    for bucket in range(BUCKETS):
        from_ns, below_ns = bounds(bucket)
        values |= {from_ns, below_ns - 1, (from_ns + below_ns) // 2}
    values |= {chance.getrandbits(chance.randrange(1, 64)) for _ in range(1_000)}
    rows: Rows = [{"target": str(each), "latency_ns": each, "response_ns": 0} for each in values]
    found = counted("latency_minutes", calls=rows)
    assert {
        int(row["target"]): (row["bucket"], row["from_ns"], row["below_ns"]) for row in found
    } == {each: (bucket_of(each), *bounds(bucket_of(each))) for each in values}


def test_delivery() -> None:
    chance = random.Random(4)
    rows: Rows = []
    for _ in range(300):
        outcome = chance.choice(("acked", "unacked", "unknown", "unsent", "orphan"))
        sent = None if outcome in ("unsent", "orphan") else chance.choice(TIMES)
        acked = chance.choice(TIMES) if outcome in ("acked", "orphan") else None
        rows.append(
            {
                "protocol": chance.choice(("comet", "magline")),
                "topic": chance.choice((None, "@a")),
                "outcome": outcome,
                "published_ns": chance.choice((None, *TIMES)),
                "first_sent_ns": sent,
                "acked_ns": acked,
                "sends": 0 if sent is None else chance.randrange(1, 4),
                "latency_ns": None if sent is None or acked is None else acked - sent,
            }
        )
    wanted = rollup("delivery_minutes", deliveries=rows)
    agree(counted("delivery_minutes", deliveries=rows), "delivery_minutes", wanted)


def test_errors() -> None:
    of_calls = calls(5, 300)
    of_faults = faults(5)
    wanted = rollup("error_minutes", calls=of_calls, faults=of_faults)
    agree(counted("error_minutes", calls=of_calls, faults=of_faults), "error_minutes", wanted)


def test_faults_without_a_time() -> None:
    rows = faults(6)
    counts = RollupCounts("error_minutes", 0, -1)
    counts.add_without_time("faults", table_of("faults", rows))
    every = rollup("error_minutes", calls=[], faults=rows)
    wanted = [row for row in every if row["minute_ns"] is None]
    assert wanted
    assert in_any_order(counts.rows().to_pylist()) == in_any_order(wanted)


def faults(seed: int) -> Rows:
    chance = random.Random(seed)
    return [
        {
            "ts_ns": chance.choice((None, *TIMES)),
            "protocol": chance.choice((None, "comet")),
            "code": chance.choice(("gap", "late_file")),
        }
        for _ in range(100)
    ]


def test_talkers() -> None:
    rows = messages(6, 800)
    wanted = rollup("talker_minutes", messages=rows)
    agree(counted("talker_minutes", messages=rows), "talker_minutes", wanted)
    three = [row for row in wanted if row["rank"] <= 3]
    agree(counted("talker_minutes", 3, messages=rows), "talker_minutes", three)


@pytest.mark.parametrize("latency_ns", [MOST, -MOST])
def test_sums_that_no_column_can_hold(latency_ns: int) -> None:
    row = {"response_ns": 7, "latency_ns": latency_ns, "protocol": None, "target": None}
    (found,) = counted("latency_minutes", calls=[row, row])
    assert (found["calls"], found["latency_ns"]) == (2, None)
    (one,) = counted("latency_minutes", calls=[row])
    assert one["latency_ns"] == latency_ns


def test_a_minute_that_no_column_can_hold_is_not_counted() -> None:
    row = {"response_ns": -MOST, "latency_ns": 1}
    assert minute_of(-MOST) is None
    assert counted("latency_minutes", calls=[row]) == []
