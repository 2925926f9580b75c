"""Rollups by Spark equal those of `wirelake.records.rollups`, which counts row by row."""

from __future__ import annotations

import random
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from wirelake.lake.engine import rollups
from wirelake.lake.spark.dataframes import spark_schema
from wirelake.records.rollups import BUCKETS, bounds, bucket_of, rollup
from wirelake.records.schema import schema

from .cross_connection_events import Rows, in_any_order, table_of

MINUTE = 60_000_000_000
MOST = (1 << 63) - 1
TIMES = (-MINUTE - 1, -MINUTE, -1, 0, 1, MINUTE - 1, MINUTE, 5 * MINUTE + 7)


def frame(spark: SparkSession, table: str, rows: Rows) -> DataFrame:
    """Rows of a table as a DataFrame; columns that they lack are null."""
    return spark.createDataFrame(table_of(table, rows))


def rows_of(found: DataFrame) -> Rows:
    """The rows of a DataFrame."""
    rows: Rows = found.toArrow().to_pylist()
    return rows


def agree(found: DataFrame, table: str, wanted: Rows) -> None:
    """The rows that are wanted, in columns as they are documented."""
    assert wanted
    assert found.schema == spark_schema(schema(table))
    assert in_any_order(rows_of(found)) == in_any_order(
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


def test_traffic(spark: SparkSession) -> None:
    rows = messages(1, 300)
    wanted = rollup("traffic_minutes", messages=rows)
    agree(rollups.traffic(frame(spark, "messages", rows)), "traffic_minutes", wanted)


def test_latency(spark: SparkSession) -> None:
    rows = calls(2, 300)
    wanted = rollup("latency_minutes", calls=rows)
    agree(rollups.latency(frame(spark, "calls", rows)), "latency_minutes", wanted)


def test_buckets_are_those_of_python(spark: SparkSession) -> None:
    chance = random.Random(3)
    values = {-MOST, -5, -1, MOST, MOST - 1}
    for bucket in range(BUCKETS):
        from_ns, below_ns = bounds(bucket)
        values |= {from_ns, below_ns - 1, (from_ns + below_ns) // 2}
    values |= {chance.getrandbits(chance.randrange(1, 64)) for _ in range(1_000)}
    rows = [{"target": str(each), "latency_ns": each, "response_ns": 0} for each in values]
    found = rows_of(rollups.latency(frame(spark, "calls", rows)))
    assert {
        int(row["target"]): (row["bucket"], row["from_ns"], row["below_ns"]) for row in found
    } == {each: (bucket_of(each), *bounds(bucket_of(each))) for each in values}


def test_delivery(spark: SparkSession) -> None:
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
    agree(rollups.delivery(frame(spark, "deliveries", rows)), "delivery_minutes", wanted)


def test_errors(spark: SparkSession) -> None:
    of_calls = calls(5, 300)
    chance = random.Random(5)
    of_faults = [
        {
            "ts_ns": chance.choice((None, *TIMES)),
            "protocol": chance.choice((None, "comet")),
            "code": chance.choice(("gap", "late_file")),
        }
        for _ in range(100)
    ]
    found = rollups.errors(frame(spark, "calls", of_calls), frame(spark, "faults", of_faults))
    agree(found, "error_minutes", rollup("error_minutes", calls=of_calls, faults=of_faults))


def test_talkers(spark: SparkSession) -> None:
    rows = messages(6, 800)
    wanted = rollup("talker_minutes", messages=rows)
    found = frame(spark, "messages", rows)
    agree(rollups.talkers(found), "talker_minutes", wanted)
    agree(rollups.talkers(found, 3), "talker_minutes", [row for row in wanted if row["rank"] <= 3])


def test_times_and_sums_that_no_column_can_hold(spark: SparkSession) -> None:
    row = {"response_ns": -MOST, "latency_ns": MOST}
    (found,) = rows_of(rollups.latency(frame(spark, "calls", [row, row])))
    assert (found["minute_ns"], found["calls"], found["latency_ns"]) == (None, 2, None)
    assert (found["bucket"], found["below_ns"]) == (BUCKETS - 1, MOST)
    counted = rollup("latency_minutes", calls=[row | {"protocol": None, "target": None}] * 2)
    assert counted == [{name: found[name] for name in counted[0]}]
