"""What crosses connections: deliveries, tunnels with their calls, and previous connections.

The events of all sources go through the engines once more, in the order of time, and the rows of
sampled clients and tunnels are compared with the lake.

A lake may have two rows for one delivery: it forgets a notification that is settled (`QUIET_NS` and
`DAY_NS` of `lake.engine.settings`), and later events make a second row. So counts and times are
compared after merging the rows of a key, and the other columns only of keys with one row. Two rows
with less time between them are a difference: the first was settled too early. For the
same reason a fault does not turn `unacked` into `unknown` after `DAY_NS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from wirelake.records import (
    CallsEngine,
    ConnectionsEngine,
    DeliveriesEngine,
    Engine,
    EngineLimits,
    TunnelsEngine,
)
from wirelake.records.engine import feed_event
from wirelake.records.rows import Event, Fact, in_order

from ..engine.settings import DAY_NS, QUIET_NS, Settings
from .replay import Selection, unexpired
from .rows import Difference, LakeRows, Report, Row, differences, normalized

__all__ = ["merge"]

_UNLIMITED: Final = EngineLimits(
    deliveries=1 << 62, acknowledged=1 << 62, publications=1 << 62, closed_tunnels=1 << 62
)
"""The lake merges deliveries without a limit, so the replay must not give one up either."""
_TIMES: Final = (
    ("first_sent_ns", "first_connection", min),
    ("last_sent_ns", "last_connection", max),
    ("acked_ns", "acked_connection", min),
)
_Key = tuple[Any, ...]


def merge(
    events: Iterable[Event],
    lake: LakeRows,
    settings: Settings,
    selection: Selection,
    expired_ns: int | None,
    report: Report,
) -> None:
    """Replay the events that cross connections, and compare."""
    found = _Merge(_ordered(events), lake, selection, expired_ns, report)
    if "deliveries" in settings.tables:
        found.deliveries()
    if "connections" in settings.tables:
        found.previous_connections()
    if "tunnels" in settings.tables:
        found.tunnels()
    if "calls" in settings.tables:
        found.tunnel_calls()


def _ordered(events: Iterable[Event]) -> list[Event]:
    """Order by time; at one time by connection, or by the link of a message in a tunnel."""
    return in_order(sorted(events, key=_place))


def _place(event: Event) -> tuple[int, bool, str]:
    link = getattr(event, "tunnel_link", None)
    topic = event.data.get("topic") if isinstance(event, Fact) else None
    known = isinstance(topic, str)
    return link or event.connection or 0, not known, topic if isinstance(topic, str) else ""


class _Merge:
    def __init__(
        self,
        events: Sequence[Event],
        lake: LakeRows,
        selection: Selection,
        expired_ns: int | None,
        report: Report,
    ):
        self._events = events
        self._lake = lake
        self._selection = selection
        self._expired_ns = expired_ns
        self._report = report

    def _replayed(self, engine: Engine[Any]) -> list[Row]:
        for event in self._events:
            feed_event(engine, event)
        engine.finish()
        return [msgspec.structs.asdict(row) for row in engine.take()]

    # -- clients -----------------------------------------------------------------------------

    def deliveries(self) -> None:
        """Compare the deliveries of sampled clients, and of connections without a client."""
        replayed = normalized("deliveries", self._replayed(DeliveriesEngine(_UNLIMITED)))
        expected = {_delivery_key(row): row for row in replayed if self._is_sampled(row)}
        dropped = {key for key, row in expected.items() if self._is_dropped(row)}
        actual: dict[_Key, list[Row]] = {}
        for row in self._lake.rows("deliveries", _all):
            if self._is_sampled(row) and _delivery_key(row) not in dropped:
                actual.setdefault(_delivery_key(row), []).append(row)
        last_ns = (row["last_sent_ns"] or 0 for each in actual.values() for row in each)
        final_ns = max(last_ns, default=0) - DAY_NS
        rows = [
            _concluded(each[0], final_ns) if len(each) == 1 else _merged(each)
            for each in actual.values()
        ]
        expected_rows = [
            _merged([row]) if len(actual.get(key, ())) > 1 else _concluded(row, final_ns)
            for key, row in expected.items()
            if key not in dropped
        ]
        self._report.clients = len({row["client"] for row in expected.values()} - {None})
        self._compared("deliveries", rows, expected_rows)
        self._report.add([each for rows_ in actual.values() for each in _settled_early(rows_)])

    def _is_sampled(self, row: Row) -> bool:
        if row["client"] is not None:
            return self._selection.has_client(row["client"])
        connection = _unnamed_client(row)
        return connection is not None and self._selection.has_connection(connection)

    def _is_dropped(self, row: Row) -> bool:
        """Return whether a part of a delivery may have expired."""
        if self._expired_ns is None:
            return False
        times = [row[name] for name in ("published_ns", "first_sent_ns", "acked_ns")]
        return min((each for each in times if each is not None), default=0) < self._expired_ns

    def previous_connections(self) -> None:
        """Compare the previous connection of sampled clients."""
        expected = {
            (row["connection"], row["client"], row["signed_on_ns"]): row["previous_connection"]
            for row in self._replayed(ConnectionsEngine(_UNLIMITED))
            if row["client"] is not None
        }
        columns = ("connection", "client", "signed_on_ns", "previous_connection", "last_ns")
        differ: list[Difference] = []
        for batch in self._lake.batches("connections", columns):
            for row in batch.filter(pc.is_valid(batch.column("client"))).to_pylist():
                if self._selection.has_client(row["client"]) and self._is_kept("connections", row):
                    # A row that is wrong otherwise is reported where connections are compared.
                    actual = row["previous_connection"]
                    key = (row["connection"], row["client"], row["signed_on_ns"])
                    if key in expected and expected[key] != actual:
                        name = {"connection": row["connection"]}
                        differ.append(
                            Difference(
                                "connections",
                                name,
                                "previous_connection",
                                actual,
                                expected[key],
                            )
                        )
        self._report.add(differ)

    # -- tunnels -----------------------------------------------------------------------------

    def tunnels(self) -> None:
        """Compare sampled tunnels."""
        expected = self._of_tunnels(self._replayed(TunnelsEngine(_UNLIMITED)), "tunnels")
        actual = self._of_tunnels(self._lake.rows("tunnels", _all), "tunnels")
        self._report.tunnels = len({row["connection"] for row in expected})
        self._compared("tunnels", actual, normalized("tunnels", expected))

    def tunnel_calls(self) -> None:
        """Compare the calls in sampled tunnels."""
        replayed = [
            row for row in self._replayed(CallsEngine(_UNLIMITED)) if row["tunnel_link"] is not None
        ]
        actual = self._lake.rows("calls", lambda batch: pc.is_valid(batch.column("tunnel_link")))
        expected = normalized("calls", self._of_tunnels(replayed, "calls"))
        self._compared("calls", self._of_tunnels(actual, "calls"), expected)

    def _of_tunnels(self, rows: Iterable[Row], table: str) -> list[Row]:
        return [
            row
            for row in rows
            if self._selection.has_connection(row["connection"]) and self._is_kept(table, row)
        ]

    def _is_kept(self, table: str, row: Row) -> bool:
        return unexpired(table, row, self._expired_ns)

    def _compared(self, table: str, actual: Sequence[Row], expected: Sequence[Row]) -> None:
        self._report.count(table, len(actual))
        without = self._lake.outdated(table)
        self._report.add(differences(table, actual, expected, without=without))


def _all(batch: pa.RecordBatch) -> pa.Array:
    return pa.array([True] * batch.num_rows)


# -- deliveries ------------------------------------------------------------------------------


def _unnamed_client(row: Row) -> int | None:
    """Return the connection that stands for an unknown client."""
    if row["client"] is not None:
        return None
    found: int | None = row["first_connection"] or row["acked_connection"]
    return found


def _delivery_key(row: Row) -> _Key:
    return row["protocol"], row["client"], _unnamed_client(row), row["notification"]


def _settled_early(rows: Sequence[Row]) -> Iterator[Difference]:
    """Yield rows of one key that the lake has split although their events are close together."""
    spans = sorted(((*_span(row), row) for row in rows), key=lambda span: span[:2])
    for (_, end, one), (begin, _, other) in pairwise(spans):
        if begin - end < (DAY_NS if one["acked_ns"] is None else QUIET_NS):
            key = {name: other[name] for name in ("notification", "client")}
            yield Difference("deliveries", key, "outcome", other["outcome"], "one row")


def _span(row: Row) -> tuple[int, int]:
    """Return the times of the first and the last known event of a delivery."""
    names = ("first_sent_ns", "last_sent_ns", "acked_ns")
    times = [row[name] for name in names if row[name] is not None]
    times = times or [row["published_ns"] or 0]
    return min(times), max(times)


def _merged(rows: Sequence[Row]) -> Row:
    """Return what several rows of one key have in common: their sums, first and last times."""
    names = ("notification", "client", "protocol")
    found: Row = {name: rows[0][name] for name in names}
    found |= {name: sum(row[name] for row in rows) for name in ("sends", "acks")}
    for ts_ns, connection, best in _TIMES:
        pairs = [(row[ts_ns], row[connection]) for row in rows if row[ts_ns] is not None]
        found[ts_ns], found[connection] = best(pairs, default=(None, None))
    return found


def _concluded(row: Row, final_ns: int) -> Row:
    """Return a row with the outcome that counts: a fault of a later day changes nothing."""
    if row["outcome"] == "unknown" and (row["last_sent_ns"] or 0) < final_ns:
        return row | {"outcome": "unacked"}
    return row
