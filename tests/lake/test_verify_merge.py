"""Tables across connections, compared with a lake: repeated deliveries, later days, expiry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from wirelake.lake.engine.settings import Settings
from wirelake.lake.verify.merge import merge
from wirelake.lake.verify.replay import Selection
from wirelake.lake.verify.rows import Difference, LakeRows, Report, differences
from wirelake.records import Event, Fact, FaultRow, MessageRow, Opened
from wirelake.records.schema import schema

DAY = 86_400_000_000_000
ROW: dict[str, Any] = {"notification": "m1", "protocol": "comet", "client": "ann"}
SENT: dict[str, Any] = ROW | {"sends": 1, "acks": 0, "first_sent_ns": 5, "last_sent_ns": 5}
SENT |= {"first_connection": 1, "last_connection": 1, "outcome": "unacked"}
ACKED: dict[str, Any] = ROW | {"sends": 0, "acks": 1, "acked_ns": 9, "acked_connection": 3}


class Tables:
    """A lake with these rows."""

    def outdated(self, _: str) -> tuple[str, ...]:
        return ()

    def __init__(self, **tables: list[dict[str, Any]]):
        self._tables = tables

    def batches(self, table: str, columns: Sequence[str] | None = None) -> list[pa.RecordBatch]:
        rows = pa.Table.from_pylist(self._tables.get(table, []), schema=schema(table))
        return (rows if columns is None else rows.select(list(columns))).to_batches()

    def rows(self, table: str, keep: Any) -> list[dict[str, Any]]:
        batches = [each.filter(pc.fill_null(keep(each), False)) for each in self.batches(table)]
        return [row for batch in batches for row in batch.to_pylist()]


def sign_on(ts_ns: int, connection: int, client: str = "ann") -> MessageRow:
    return MessageRow(ts_ns, ts_ns, connection, "c2s", "comet", "request", "auth", client=client)


def sent(ts_ns: int, connection: int, notification: str = "m1") -> MessageRow:
    return MessageRow(
        ts_ns, ts_ns, connection, "s2c", "comet", "push", "message", ids=[notification]
    )


def acked(ts_ns: int, connection: int) -> MessageRow:
    return MessageRow(
        ts_ns, ts_ns, connection, "c2s", "comet", "request", "message_ack", ids=["m1"]
    )


def compared(
    events: Sequence[Event], lake: Tables, expired_ns: int | None = None
) -> list[Difference]:
    report = Report("lake", rows={}, differences=[])
    tables = ("deliveries", "connections")
    known = cast(LakeRows, lake)
    merge(events, known, Settings(tables=tables), Selection(), expired_ns, report)
    return report.differences


EVENTS = [sign_on(1, 1), sent(5, 1), sign_on(6, 3), acked(9, 3)]


def test_connections_of_a_client_are_one_row() -> None:
    row = SENT | {"acks": 1, "acked_ns": 9, "acked_connection": 3, "outcome": "acked"}
    assert compared(EVENTS, Tables(deliveries=[row | {"latency_ns": 4}])) == []
    found = compared(EVENTS, Tables(deliveries=[row | {"latency_ns": 5}]))
    assert [(each.column, each.lake, each.expected) for each in found] == [("latency_ns", 5, 4)]


def test_a_lake_may_have_two_rows_of_a_delivery() -> None:
    after_ns = 5 + DAY
    events = [*EVENTS[:3], acked(after_ns, 3)]
    later = ACKED | {"outcome": "orphan", "acked_ns": after_ns}
    assert compared(events, Tables(deliveries=[SENT, later])) == []
    found = compared(events, Tables(deliveries=[SENT, later | {"acks": 2}]))
    assert [(each.column, each.lake, each.expected) for each in found] == [("acks", 2, 1)]


def test_two_rows_of_a_delivery_close_together_were_settled_too_early() -> None:
    (found,) = compared(EVENTS, Tables(deliveries=[SENT, ACKED | {"outcome": "orphan"}]))
    assert (found.column, found.lake, found.expected) == ("outcome", "orphan", "one row")


def test_a_fault_of_another_day_changes_nothing() -> None:
    today = 5 + 2 * DAY
    events = [sign_on(1, 1), sent(5, 1), sent(today, 1, "m2"), FaultRow(3 * DAY, 1, "c2s", "gap")]
    second = SENT | {"notification": "m2", "first_sent_ns": today, "last_sent_ns": today}
    assert compared(events, Tables(deliveries=[SENT, second | {"outcome": "unknown"}])) == []
    found = compared(events, Tables(deliveries=[SENT, second]))
    assert [(each.key["notification"], each.column) for each in found] == [("m2", "outcome")]


def test_what_has_expired_is_not_missed() -> None:
    events = [sign_on(1, 1), sent(5, 1), sent(50, 1, "m2")]
    assert compared(events, Tables(), expired_ns=100) == []
    (found,) = compared(events, Tables(), expired_ns=10)
    assert (found.table, found.key["notification"], found.lake) == ("deliveries", "m2", None)
    assert str(found).endswith("row is missing from the lake")


def test_a_client_that_is_not_known_is_its_connection() -> None:
    row = SENT | {"client": None}
    assert compared([sent(5, 1)], Tables(deliveries=[row])) == []
    (found,) = compared([sent(5, 1)], Tables(deliveries=[row | {"first_connection": 2}]))
    assert (found.column, found.lake, found.expected) == ("first_connection", 2, 1)


def test_at_one_time_facts_are_ordered_by_their_topic() -> None:
    facts: list[Event] = [
        Fact(1, "publish", None, {"id": "m1", "topic": topic}) for topic in (None, "@b", "@a")
    ]
    row = SENT | {"topic": "@a", "published_ns": 1}
    assert compared([*facts, sign_on(1, 1), sent(5, 1)], Tables(deliveries=[row])) == []


def test_previous_connections() -> None:
    events = [
        event for number in (1, 2, 3) for event in (Opened(number, number), sign_on(number, number))
    ]
    rows = [
        {"connection": number, "client": "ann", "signed_on_ns": number, "last_ns": 9}
        | ({"previous_connection": number - 1} if number > 1 else {})
        for number in (1, 2, 3)
    ]
    assert compared(events, Tables(connections=rows)) == []
    rows[2]["previous_connection"] = 1
    (found,) = compared(events, Tables(connections=rows))
    assert str(found) == "connections: connection=3: previous_connection is 1; expected 2"
    assert compared(events, Tables(connections=rows), expired_ns=10) == []


# -- rows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["first_ns", "last_ns", "connection"])
def test_a_wrong_key_is_paired_with_its_row_where_it_can_be(column: str) -> None:
    rows = [{"connection": 1, "first_ns": at, "last_ns": at + 1} for at in (1, 50)]
    wrong = [rows[0], rows[1] | {column: 7}]
    found = differences("tunnels", wrong, rows)
    if column == "connection":
        assert [(each.lake is None, each.expected is None) for each in found] == [
            (False, True),
            (True, False),
        ]
    else:
        assert [(each.column, each.lake, each.expected) for each in found] == [
            (column, 7, rows[1][column])
        ]


def test_equal_rows_are_counted() -> None:
    row = {"connection": 1, "first_ns": 1}
    assert differences("tunnels", [row, row], [row, row]) == []
    (found,) = differences("tunnels", [row, row], [row])
    assert str(found) == "tunnels: connection=1 first_ns=1: row is not in the captures"


def test_bytes_and_numbers_that_are_none_compare() -> None:
    rows = [{"connection": 1, "first_ns": float("nan"), "bytes": b"\x01"}]
    assert differences("tunnels", rows, rows) == []
    (found,) = differences("tunnels", rows, [rows[0] | {"bytes": b"\x02"}])
    assert (found.lake, found.expected) == ("01", "02")
