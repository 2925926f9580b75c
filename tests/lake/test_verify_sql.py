"""Deliveries by DuckDB, and how they are held against those of a lake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from wirelake.lake.verify.queries import (
    DELIVERIES_ANEW,
    MERGED,
    PREVIOUS_WRONG,
    SAID_ONCE,
    differences,
)
from wirelake.records.cross_connection import CROSSING
from wirelake.records.schema import schema

ALL = {"share": 0, "shares": 1, "expired": -(1 << 63)}
DAY = 86_400_000_000_000
SENT = {"protocol": "comet", "client": "ann", "notification": "m1", "sends": 1, "acks": 0}
ACKED = SENT | {"sends": 0, "acks": 1, "acked_ns": 9, "acked_connection": 3}


def sent(ts_ns: int, connection: int, **more: Any) -> dict[str, Any]:
    """A part in which it was sent once."""
    times = {"first_sent_ns": ts_ns, "last_sent_ns": ts_ns}
    places = {"first_connection": connection, "last_connection": connection}
    return SENT | times | places | more


@pytest.fixture
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        yield found


def given(db: duckdb.DuckDBPyConnection, **tables: list[dict[str, Any]]) -> None:
    """These tables have these rows, all others of their kind none."""
    for name in (*CROSSING, "deliveries", "connections"):
        columns = CROSSING[name] if name in CROSSING else schema(name)
        db.register(name, pa.Table.from_pylist(tables.get(name, []), schema=columns))


def derived(db: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    db.execute(DELIVERIES_ANEW.format(**ALL))
    rows = db.sql("select * from deliveries_anew order by notification").to_arrow_table()
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def compared(db: duckdb.DuckDBPyConnection, **chosen: int) -> list[str]:
    """What is wrong with the lake's deliveries."""
    db.execute(DELIVERIES_ANEW.format(**ALL | chosen))
    db.execute(MERGED.format(**ALL | chosen))
    once = [f"({SAID_ONCE.format(table=name)})" for name in ("sampled_here", "deliveries_anew")]
    return [
        *differences(db, "counts", "merged_here", "merged_anew"),
        *differences(db, "rest", *once),
    ]


def test_parts_of_all_connections_are_one_row(db: duckdb.DuckDBPyConnection) -> None:
    given(db, _delivery_parts=[sent(7, 2, published_ns=4), ACKED, sent(5, 1, published_ns=3)])
    [row] = derived(db)
    assert (row["sends"], row["acks"], row["outcome"], row["latency_ns"]) == (2, 1, "acked", 4)
    assert (row["first_connection"], row["last_connection"], row["acked_connection"]) == (1, 2, 3)
    assert row["published_ns"] == 3


def test_facts_say_when_and_where(db: duckdb.DuckDBPyConnection) -> None:
    fact = {"notification": "m1", "protocol": "comet"}
    given(
        db,
        _delivery_parts=[sent(5, 1, published_ns=3)],
        _publications=[
            fact | {"ts_ns": 2, "topic": "@later"},
            fact | {"ts_ns": 1, "topic": "@first"},
            fact | {"notification": "m2", "ts_ns": 4, "client": "bob"},
        ],
    )
    first, second = derived(db)
    assert (first["topic"], first["published_ns"]) == ("@first", 1)
    assert (second["client"], second["outcome"], second["sends"]) == ("bob", "unsent", 0)


@pytest.mark.parametrize(("fault_ns", "outcome"), [(4, "unacked"), (5, "unknown")])
def test_a_fault_may_hide_the_acknowledgement(
    db: duckdb.DuckDBPyConnection, fault_ns: int, outcome: str
) -> None:
    unknown = {"client": None, "connection": 1}
    given(
        db,
        _delivery_parts=[sent(5, 1) | unknown],
        _delivery_faults=[unknown | {"ts_ns": fault_ns}, {"client": "ann", "ts_ns": 9}],
    )
    assert [row["outcome"] for row in derived(db)] == [outcome]


def test_what_a_lake_tells_in_two_rows_is_the_same(db: duckdb.DuckDBPyConnection) -> None:
    early, late = sent(5, 1, outcome="unacked"), ACKED | {"outcome": "orphan"}
    given(db, _delivery_parts=[sent(5, 1), ACKED], deliveries=[early, late])
    assert compared(db) == []
    given(db, _delivery_parts=[sent(5, 1), ACKED], deliveries=[early, late | {"acks": 2}])
    assert [line.split(":")[0] for line in compared(db)] == ["counts", "counts"]


def test_a_fault_of_another_day_changes_nothing(db: duckdb.DuckDBPyConnection) -> None:
    today = sent(5 + 2 * DAY, 1, notification="m2")
    rows = [sent(5, 1, outcome="unacked"), today | {"outcome": "unknown"}]
    faults = [{"client": "ann", "ts_ns": 3 * DAY}]
    given(db, _delivery_parts=[sent(5, 1), today], _delivery_faults=faults, deliveries=rows)
    assert compared(db) == []
    rows[1]["outcome"] = "unacked"
    given(db, _delivery_parts=[sent(5, 1), today], _delivery_faults=faults, deliveries=rows)
    assert [line.split(":")[0] for line in compared(db)] == ["rest", "rest"]


def test_what_was_dropped_is_not_missed(db: duckdb.DuckDBPyConnection) -> None:
    given(db, _delivery_parts=[sent(5, 1), sent(50, 1, notification="m2")])
    assert compared(db, expired=100) == []
    assert compared(db, expired=10) == ["counts: 1 rows are missing or different"]


def test_the_connection_before(db: duckdb.DuckDBPyConnection) -> None:
    signs = [
        {"protocol": "comet", "client": "ann", "connection": number, "ts_ns": number}
        for number in (1, 2, 3)
    ]
    rows = [
        {"connection": number, "client": "ann", "signed_on_ns": number, "last_ns": 9}
        | ({"previous_connection": number - 1} if number > 1 else {})
        for number in (1, 2, 3)
    ]
    given(db, _sign_ons=signs, connections=rows)
    assert db.sql(PREVIOUS_WRONG.format(**ALL)).fetchall() == [(0,)]
    rows[2]["previous_connection"] = 1
    given(db, _sign_ons=signs, connections=rows)
    assert db.sql(PREVIOUS_WRONG.format(**ALL)).fetchall() == [(1,)]
