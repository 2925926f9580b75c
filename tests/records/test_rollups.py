"""Roll-ups by minute, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.records.rollups import INPUTS, MINUTE_NS, TALKERS, minute_of, rollup
from wirelake.records.schema import schema

CALL: dict[str, Any] = dict.fromkeys(
    ("protocol", "target", "outcome", "cause", "request_ns", "response_ns", "status", "latency_ns")
)


def message(
    ts_ns: int, connection: int = 1, size: int = 10, link: int | None = None
) -> dict[str, Any]:
    place = {"ts_ns": ts_ns, "connection": connection, "direction": "c2s", "tunnel_link": link}
    return place | {"protocol": "tny", "kind": "request", "size_bytes": size}


@pytest.mark.parametrize(
    ("ts_ns", "minute_ns"),
    [
        (None, None),
        (0, 0),
        (-1, -MINUTE_NS),
        (MINUTE_NS - 1, 0),
        (MINUTE_NS, MINUTE_NS),
        (-(1 << 63), None),
    ],
)
def test_minutes(ts_ns: int | None, minute_ns: int | None) -> None:
    assert minute_of(ts_ns) == minute_ns


def test_inputs_and_outputs_are_columns() -> None:
    for name, inputs in INPUTS.items():
        for table, columns in inputs.items():
            assert set(columns) <= set(schema(table).names), table
        assert rollup(name, **{table: [] for table in inputs}) == []


def test_traffic() -> None:
    rows = [message(1), message(2, size=5), message(MINUTE_NS)]
    found = rollup("traffic_minutes", messages=rows)
    assert [(row["minute_ns"], row["messages"], row["bytes"]) for row in found] == [
        (0, 2, 15),
        (MINUTE_NS, 1, 10),
    ]


def test_bytes_in_tunnels_count_with_their_link() -> None:
    (found,) = rollup("traffic_minutes", messages=[message(1), message(2, link=1)])
    assert (found["messages"], found["bytes"]) == (2, 10)


def test_talkers_are_ranked_by_bytes_then_by_id() -> None:
    rows = [message(1, connection, 10 + connection // 10) for connection in range(TALKERS + 5)]
    found = rollup("talker_minutes", messages=rows)
    assert [row["rank"] for row in found] == list(range(1, TALKERS + 1))
    assert [row["connection"] for row in found[:6]] == [20, 21, 22, 23, 24, 10]


def test_latency() -> None:
    rows = [
        CALL | {"response_ns": 5, "latency_ns": 3},
        CALL | {"response_ns": 6, "latency_ns": 3},
        CALL,
    ]
    (found,) = rollup("latency_minutes", calls=rows)
    assert (found["bucket"], found["from_ns"], found["below_ns"]) == (3, 3, 4)
    assert (found["calls"], found["latency_ns"]) == (2, 6)


def test_errors_have_the_time_and_the_code_of_what_went_wrong() -> None:
    asked = CALL | {"request_ns": 5, "response_ns": MINUTE_NS, "status": "4", "cause": "closed"}
    found = rollup(
        "error_minutes",
        calls=[asked | {"outcome": each} for each in ("failed", "lost", "answered", "open")],
        faults=[{"ts_ns": None, "protocol": "tny", "code": "gap"}],
    )
    assert [(row["minute_ns"], row["what"], row["code"]) for row in found] == [
        (MINUTE_NS, "failed", "4"),
        (0, "lost", "closed"),
        (None, "fault", "gap"),
    ]


def test_deliveries() -> None:
    row: dict[str, Any] = dict.fromkeys(INPUTS["delivery_minutes"]["deliveries"])
    rows = [
        row | {"outcome": "acked", "published_ns": 1, "first_sent_ns": MINUTE_NS, "sends": 2},
        row | {"outcome": "orphan", "acked_ns": 2, "sends": 0},
    ]
    (found,) = rollup("delivery_minutes", deliveries=rows)
    counts = ("deliveries", "sent", "acked", "orphans", "unsent", "sends", "latency_ns")
    assert [found[name] for name in counts] == [2, 1, 1, 1, 0, 2, 0]


def test_sums_that_no_column_can_hold_are_null() -> None:
    (found,) = rollup(
        "traffic_minutes", messages=[message(1, size=1 << 62), message(1, size=1 << 62)]
    )
    assert (found["messages"], found["bytes"]) == (2, None)
