"""The connection on which a client was before: the same as the engine's, in any order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from wirelake.lake.engine.cross_connection import _previous, kept_sign_ons, with_previous
from wirelake.records import Event, tell
from wirelake.records.schema import schema

from .cross_connection_events import (
    NotingSignOns,
    Rows,
    at_random,
    captured,
    frame,
    in_any_order,
    rows_of,
)

HOUR = 3_600_000_000_000


def by_engine(events: list[Event]) -> tuple[Rows, Rows]:
    """Rows of connections, and the sign-ons that there were."""
    engine = NotingSignOns()
    for event in events:
        tell(engine, event)
    engine.finish()
    return [msgspec.structs.asdict(row) for row in engine.take()], engine.sign_ons


def signed_on(ts_ns: int, connection: int, client: str = "ann") -> dict[str, Any]:
    return {"protocol": "comet", "client": client, "connection": connection, "ts_ns": ts_ns}


def compare(spark: SparkSession, events: list[Event]) -> None:
    wanted, sign_ons = by_engine(events)
    assert any(row["previous_connection"] is not None for row in wanted)
    bare = [{**row, "previous_connection": None} for row in wanted]
    found = with_previous(frame(spark, "connections", bare), frame(spark, "_sign_ons", sign_ons))
    assert found.columns == schema("connections").names
    assert in_any_order(rows_of(found)) == in_any_order(wanted)


def test_rows_are_those_of_the_engine(spark: SparkSession) -> None:
    one_at_a_time = dict[tuple[int, int], Event]()
    for event in at_random(3, worlds=300):
        one_at_a_time.setdefault((event.ts_ns, (event.connection or 0) // 10), event)
    compare(spark, list(one_at_a_time.values()))


def test_connections_of_captures(spark: SparkSession, captures: Path) -> None:
    compare(spark, captured(captures))


def test_previous(spark: SparkSession) -> None:
    rows = [
        signed_on(5, 3),
        signed_on(5, -2),
        signed_on(1, 7),
        signed_on(9, 7),
        signed_on(9, 7),
        signed_on(2, 4, "bob"),
        {**signed_on(3, 6), "protocol": "magline"},
    ]
    found = rows_of(_previous(frame(spark, "_sign_ons", rows)))
    assert in_any_order(tuple(row.values()) for row in found) == in_any_order(
        [
            ("comet", "ann", 7, 1, None),
            ("comet", "ann", -2, 5, 7),
            ("comet", "ann", 3, 5, -2),
            ("comet", "ann", 7, 9, 3),
            ("comet", "bob", 4, 2, None),
            ("magline", "ann", 6, 3, None),
        ]
    )


def test_every_row_is_emitted_once_with_all_columns(spark: SparkSession) -> None:
    sign_ons = [
        signed_on(1, 7),
        signed_on(5, 8),
        signed_on(5, 8),
        {**signed_on(5, 8), "protocol": "magline"},
    ]
    rows = [
        {"connection": 8, "client": "ann", "signed_on_ns": 5, "protocol": "comet"},
        {"connection": 9, "protocol": "comet"},
    ]
    connections = frame(spark, "connections", rows).withColumn("open", f.col("client").isNull())
    found = rows_of(with_previous(connections, frame(spark, "_sign_ons", sign_ons)))
    assert sorted(
        (row["connection"], row["previous_connection"], row["open"]) for row in found
    ) == [
        (8, 7, False),
        (9, None, True),
    ]


def test_what_is_kept(spark: SparkSession) -> None:
    now = 100 * HOUR
    old, new = now - 24 * HOUR, now - 24 * HOUR + 1
    wanted = [
        signed_on(old, 2),
        signed_on(new, 3),
        signed_on(now, 4),
        signed_on(old - 7, 5, "bob"),
    ]
    rows = [*wanted, signed_on(old, 1), signed_on(old - 1, 9), signed_on(old - 9, 6, "bob")]
    found = kept_sign_ons(frame(spark, "_sign_ons", rows), now)
    assert in_any_order(rows_of(found)) == in_any_order(wanted)
