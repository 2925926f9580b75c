"""Roll-ups by Spark: the same as counting rows one after the other."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from wirelake.lake.engine import rollups
from wirelake.lake.spark.schemas import spark_schema
from wirelake.records.latency_buckets import (
    BUCKETS,
    bounds,
    bucket_of,
)
from wirelake.records.schema import schema

from .crossing_events import Rows, frame, in_any_order, rows_of

MINUTE = 60_000_000_000
MOST = (1 << 63) - 1
TIMES = (-MINUTE - 1, -MINUTE, -1, 0, 1, MINUTE - 1, MINUTE, 5 * MINUTE + 7)


def minute(ts_ns: int | None) -> int | None:
    return None if ts_ns is None else ts_ns // MINUTE * MINUTE


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
    counts: dict[Any, Counter[str]] = defaultdict(Counter)
    for row in rows:
        key = (minute(row["ts_ns"]), row["protocol"], row["direction"], row["kind"])
        counts[key].update(messages=1, bytes=row["size_bytes"])
    names = ("minute_ns", "protocol", "direction", "kind")
    wanted = [{**dict(zip(names, key, strict=True)), **found} for key, found in counts.items()]
    agree(rollups.traffic(frame(spark, "messages", rows)), "traffic_minutes", wanted)


def test_latency(spark: SparkSession) -> None:
    rows = calls(2, 300)
    counts: dict[Any, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["latency_ns"] is not None:
            bucket = bucket_of(row["latency_ns"])
            key = (minute(row["response_ns"]), row["protocol"], row["target"], bucket)
            counts[key].update(calls=1, latency_ns=row["latency_ns"])
    wanted: Rows = []
    for (minute_ns, protocol, target, bucket), found in counts.items():
        from_ns, below_ns = bounds(bucket)
        group = {"minute_ns": minute_ns, "protocol": protocol, "target": target, "bucket": bucket}
        wanted.append({**group, "from_ns": from_ns, "below_ns": below_ns, **found})
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
    columns = {"acked": "acked", "unacked": "unacked", "unknown": "unknown", "unsent": "unsent"}
    columns["orphan"] = "orphans"
    rows: Rows = []
    counts: dict[Any, Counter[str]] = defaultdict(Counter)
    for _ in range(300):
        outcome = chance.choice(list(columns))
        sent = None if outcome in ("unsent", "orphan") else chance.choice(TIMES)
        acked = chance.choice(TIMES) if outcome in ("acked", "orphan") else None
        row: dict[str, Any] = {
            "protocol": chance.choice(("comet", "magline")),
            "topic": chance.choice((None, "@a")),
            "outcome": outcome,
            "published_ns": chance.choice((None, *TIMES)),
            "first_sent_ns": sent,
            "acked_ns": acked,
            "sends": 0 if sent is None else chance.randrange(1, 4),
            "latency_ns": None if sent is None or acked is None else acked - sent,
        }
        rows.append(row)
        times = (row["published_ns"], sent, acked)
        first = next((each for each in times if each is not None), None)
        found = counts[minute(first), row["protocol"], row["topic"]]
        found.update(deliveries=1, sent=int(sent is not None), sends=row["sends"])
        found.update({columns[outcome]: 1, "latency_ns": row["latency_ns"] or 0})
    names = ("minute_ns", "protocol", "topic")
    nothing = dict.fromkeys(schema("delivery_minutes").names, 0)
    wanted = [
        {**nothing, **dict(zip(names, key, strict=True)), **found} for key, found in counts.items()
    ]
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
    counts = Counter[Any]()
    for row in of_calls:
        who = (row["protocol"], row["target"])
        if row["outcome"] == "failed":
            counts[minute(row["response_ns"]), "failed", *who, row["status"]] += 1
        elif row["outcome"] in ("lost", "unknown"):
            counts[minute(row["request_ns"]), row["outcome"], *who, row["cause"]] += 1
    for row in of_faults:
        counts[minute(row["ts_ns"]), "fault", row["protocol"], None, row["code"]] += 1
    names = ("minute_ns", "what", "protocol", "target", "code")
    wanted = [
        {**dict(zip(names, key, strict=True)), "errors": many} for key, many in counts.items()
    ]
    found = rollups.errors(frame(spark, "calls", of_calls), frame(spark, "faults", of_faults))
    agree(found, "error_minutes", wanted)


def test_talkers(spark: SparkSession) -> None:
    rows = messages(6, 800)
    counts: dict[Any, Counter[str]] = defaultdict(Counter)
    for row in rows:
        key = (minute(row["ts_ns"]), row["connection"], row["protocol"])
        counts[key].update(messages=1, bytes=row["size_bytes"])
    wanted: Rows = []
    for minute_ns in {key[0] for key in counts}:
        of_minute = [
            (key[1], key[2], found) for key, found in counts.items() if key[0] == minute_ns
        ]
        of_minute.sort(key=lambda each: (-each[2]["bytes"], each[0], each[1]))
        for rank, (connection, protocol, found) in enumerate(of_minute[:20], 1):
            place = {"minute_ns": minute_ns, "rank": rank, "connection": connection}
            wanted.append({**place, "protocol": protocol, **found})
    found = frame(spark, "messages", rows)
    agree(rollups.talkers(found), "talker_minutes", wanted)
    agree(rollups.talkers(found, 3), "talker_minutes", [row for row in wanted if row["rank"] <= 3])


def test_times_and_sums_that_no_column_can_hold(spark: SparkSession) -> None:
    row = {"response_ns": -MOST, "latency_ns": MOST}
    (found,) = rows_of(rollups.latency(frame(spark, "calls", [row, row])))
    assert (found["minute_ns"], found["calls"], found["latency_ns"]) == (None, 2, None)
    assert (found["bucket"], found["below_ns"]) == (BUCKETS - 1, MOST)
