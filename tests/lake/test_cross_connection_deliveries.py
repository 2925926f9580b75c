"""Deliveries by Spark: the same rows as the engine's, in whatever pieces their parts come."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from wirelake.lake.engine.cross_connection import (
    delivery_rows,
    expected_parts,
    is_settled,
    kept_faults,
    kept_publications,
    merge_parts,
)
from wirelake.lake.spark.dataframes import spark_schema
from wirelake.records import DeliveriesEngine, Event, tell
from wirelake.records.deliveries import CROSSING
from wirelake.records.schema import schema

from .cross_connection_events import Rows, at_random, captured, folded, frame, in_any_order, rows_of

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def by_engine(events: list[Event]) -> Rows:
    engine = DeliveriesEngine()
    for event in events:
        tell(engine, event)
    engine.finish()
    return [msgspec.structs.asdict(row) for row in engine.take()]


def frames(spark: SparkSession, found: dict[str, Rows]) -> tuple[DataFrame, DataFrame, DataFrame]:
    names = ("_delivery_parts", "_publications", "_delivery_faults")
    parts, publications, faults = (frame(spark, name, found[name]) for name in names)
    return parts, publications, faults


def part(notification: str, **more: Any) -> dict[str, Any]:
    who = {"protocol": "comet", "client": "ann", "notification": notification}
    return {**who, "sends": 0, "acks": 0, **more}


def sent(notification: str, ts_ns: int, **more: Any) -> dict[str, Any]:
    times = {"first_sent_ns": ts_ns, "last_sent_ns": ts_ns, "last_event_ns": ts_ns}
    return part(
        notification, **{"sends": 1, "first_connection": 1, "last_connection": 1, **times, **more}
    )


def acked(notification: str, ts_ns: int) -> dict[str, Any]:
    return part(notification, acks=1, acked_ns=ts_ns, acked_connection=1, last_event_ns=ts_ns)


def published(notification: str, ts_ns: int, **more: Any) -> dict[str, Any]:
    return {"notification": notification, "ts_ns": ts_ns, "protocol": "comet", **more}


def test_rows_are_those_of_the_engine(spark: SparkSession) -> None:
    events = at_random(1, worlds=300)
    found = delivery_rows(*frames(spark, folded(events)))
    assert found.schema == spark_schema(schema("deliveries"))
    rows, wanted = rows_of(found), by_engine(events)
    assert {row["outcome"] for row in rows} == {"acked", "unacked", "unknown", "unsent", "orphan"}
    assert in_any_order(rows) == in_any_order(wanted)


def test_parts_may_be_merged_in_any_grouping(spark: SparkSession) -> None:
    events, chance = at_random(2, worlds=150), random.Random(2)
    facts = folded(events)
    piles = [list[dict[str, Any]]() for _ in range(3)]
    for each in facts["_delivery_parts"]:
        chance.choice(piles).append(each)
    _, publications, faults = frames(spark, facts)
    first, second, third = (merge_parts(frame(spark, "_delivery_parts", pile)) for pile in piles)
    found = delivery_rows(third.union(merge_parts(first.union(second))), publications, faults)
    assert in_any_order(rows_of(found)) == in_any_order(by_engine(events))


def test_at_one_time_the_ids_of_connections_decide(spark: SparkSession) -> None:
    parts = [sent("m", 5, first_connection=each, last_connection=each) for each in (7, -3, 4)]
    (found,) = rows_of(merge_parts(frame(spark, "_delivery_parts", parts)))
    assert (found["first_connection"], found["last_connection"], found["sends"]) == (-3, 7, 3)


def test_deliveries_of_captures(spark: SparkSession, captures: Path) -> None:
    events = captured(captures)
    wanted = by_engine(events)
    assert {row["outcome"] for row in wanted} >= {"acked", "unacked"}
    assert any(row["topic"] is not None for row in wanted)
    assert in_any_order(rows_of(delivery_rows(*frames(spark, folded(events))))) == in_any_order(
        wanted
    )


def test_times_that_no_column_can_hold(spark: SparkSession) -> None:
    most = (1 << 63) - 1
    parts = frame(spark, "_delivery_parts", [sent("m", -most), acked("m", most)])
    publications, faults = frame(spark, "_publications", []), frame(spark, "_delivery_faults", [])
    (found,) = rows_of(delivery_rows(parts, publications, faults))
    assert (found["outcome"], found["latency_ns"]) == ("acked", None)


def test_what_is_settled(spark: SparkSession) -> None:
    now = 100 * HOUR
    cases = {
        "acked, quiet": acked("", now - 10 * MINUTE),
        "acked just now": acked("", now - 10 * MINUTE + 1),
        "unacked": sent("", now - 24 * HOUR + 1),
        "unacked for a day": sent("", now - 24 * HOUR),
        "acked, sent again": {**acked("", now - HOUR), "last_event_ns": now},
        "orphan of a day": acked("", now - 24 * HOUR),
    }
    parts = frame(
        spark, "_delivery_parts", [{**each, "notification": name} for name, each in cases.items()]
    )
    found = rows_of(parts.where(is_settled(parts, now)).select("notification"))
    wanted = {"acked, quiet", "unacked for a day", "orphan of a day"}
    assert {row["notification"] for row in found} == wanted


def test_what_is_kept(spark: SparkSession) -> None:
    now = 100 * HOUR
    old, new = now - 24 * HOUR, now - 24 * HOUR + 1
    held = frame(
        spark,
        "_delivery_parts",
        [
            sent("held", new),
            sent("held", new, client="bob"),
            sent("x", new, client=None, connection=7),
        ],
    )
    publications = [published("held", old - 5), published("gone", old), published("new", new)]
    kept = kept_publications(frame(spark, "_publications", publications), held, now)
    assert in_any_order(row["notification"] for row in rows_of(kept)) == ["'held'", "'new'"]
    assert kept.columns == CROSSING["_publications"].names

    faults = [
        {"client": "ann", "connection": 1, "ts_ns": old - 9},
        {"client": "ann", "connection": 2, "ts_ns": old - 5},
        {"client": "cid", "connection": 7, "ts_ns": old},
        {"client": "dot", "connection": 4, "ts_ns": new},
        {"client": None, "connection": 7, "ts_ns": old},
        {"client": None, "connection": 8, "ts_ns": old},
    ]
    found = rows_of(kept_faults(frame(spark, "_delivery_faults", faults), held, now))
    assert in_any_order(found) == in_any_order(
        [
            {"client": "ann", "connection": None, "ts_ns": old - 5},
            {"client": "dot", "connection": None, "ts_ns": new},
            {"client": None, "connection": 7, "ts_ns": old},
        ]
    )


STEPS: list[tuple[int, dict[str, Rows]]] = [
    (
        HOUR,
        {
            "_delivery_parts": [sent("quick", 2 * SECOND), acked("quick", 3 * SECOND)],
            "_publications": [
                published("quick", SECOND, topic="@a", client="ann"),
                published("slow", SECOND, topic="@b", client="ann"),
                published("never", SECOND, topic="@c", client="ann"),
            ],
            "_delivery_faults": [],
        },
    ),
    (
        47 * HOUR,
        {
            "_delivery_parts": [
                *(sent("slow", hour * HOUR) for hour in (22, 40)),
                *(sent("hidden", hour * HOUR) for hour in (22, 40)),
            ],
            "_publications": [],
            "_delivery_faults": [{"client": "ann", "ts_ns": 22 * HOUR + 1}],
        },
    ),
    (
        60 * HOUR,
        {
            "_delivery_parts": [acked("slow", 48 * HOUR), sent("hidden", 60 * HOUR)],
            "_publications": [],
            "_delivery_faults": [],
        },
    ),
]
"""What is new at each step, and what time it is then."""


def test_a_lake_that_goes_step_by_step(spark: SparkSession) -> None:
    names = ("_delivery_parts", "_publications", "_delivery_faults")
    state: dict[str, Rows] = {name: [] for name in names}
    final: Rows = []
    open_rows: Rows = []
    for now, new in STEPS:
        parts, publications, faults = frames(spark, {n: state[n] + new[n] for n in names})
        fresh = expected_parts(frame(spark, "_publications", new["_publications"]))
        whole = merge_parts(parts.unionByName(fresh))
        over, held = whole.where(is_settled(whole, now)), whole.where(~is_settled(whole, now))
        final += rows_of(delivery_rows(over, publications, faults, expect=False))
        open_rows = rows_of(delivery_rows(held, publications, faults, expect=False))
        kept = (held, kept_publications(publications, held, now), kept_faults(faults, held, now))
        state = {name: rows_of(each) for name, each in zip(names, kept, strict=True)}
    everything = {name: [row for _, new in STEPS for row in new[name]] for name in names}
    wanted = rows_of(delivery_rows(*frames(spark, everything)))
    assert [row["notification"] for row in final] == ["quick", "never", "slow"]
    assert [row["outcome"] for row in open_rows] == ["unknown"]
    assert in_any_order(final + open_rows) == in_any_order(wanted)


def test_publications_alone_make_rows_only_when_they_are_expected(spark: SparkSession) -> None:
    facts = [published("m", 2, topic="@a", client="ann"), published("m", 1, topic="@b")]
    parts, publications, faults = frames(
        spark, {"_delivery_parts": [], "_publications": facts, "_delivery_faults": []}
    )
    (row,) = rows_of(delivery_rows(parts, publications, faults))
    assert (row["outcome"], row["published_ns"], row["topic"]) == ("unsent", 1, "@b")
    rest = delivery_rows(parts, publications, faults, expect=False)
    assert rest.agg(f.count("*")).first() == (0,)
