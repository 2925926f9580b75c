"""Roll-ups by minute, row by row: the reference of the tables that end in `_minutes`.

    for row in rollup("traffic_minutes", messages=rows):
        ...

Rows are dicts with the columns of `INPUTS`. A minute begins at a multiple of 60 s since 1970; rows
without a time are in the minute null. Sums that do not fit an int64 are null. The lake computes the
same in Arrow (`wirelake.columnar.fold.rollups`); tests and `lake verify` compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

__all__ = [
    "BUCKETS",
    "INPUTS",
    "MINUTE_NS",
    "OUTCOMES",
    "TALKERS",
    "bounds",
    "bucket_of",
    "minute_of",
    "rollup",
]


# -- latency buckets -------------------------------------------------------------------------------
#
# The bounds are fixed, not computed from the data: counts of two minutes, files or hubs can then be
# added exactly, which quantile sketches do not allow. Eight buckets for each doubling of the
# latency bound the relative error of a quantile by 1/8, over all of int64, with a few shifts per
# value.


_MAX_INT64: Final = (1 << 63) - 1
"""The largest latency that a column can hold."""


def bucket_of(ns: int) -> int:
    """Return the bucket number of a latency. Negative latencies are in bucket 0."""
    n = min(max(ns, 0), _MAX_INT64)
    if n < 8:
        return n
    doublings = n.bit_length() - 1
    return 8 * (doublings - 2) + ((n >> (doublings - 3)) & 7)


BUCKETS: Final = bucket_of(_MAX_INT64) + 1
"""Number of buckets."""


def bounds(bucket: int) -> tuple[int, int]:
    """Return the lower and upper bound of a bucket. The last one ends at the maximum int64."""
    if not 0 <= bucket < BUCKETS:
        raise ValueError(f"invalid bucket {bucket}; expected 0 to {BUCKETS - 1}")
    if bucket < 8:
        return bucket, bucket + 1
    shift, eighth = bucket // 8 - 1, bucket % 8
    return (8 + eighth) << shift, min((9 + eighth) << shift, _MAX_INT64)


# -- roll-ups --------------------------------------------------------------------------------------

MINUTE_NS: Final = 60_000_000_000
TALKERS: Final = 20
"""Connections of each minute in `talker_minutes`."""
_MIN_INT64: Final = -(1 << 63)

Row = Mapping[str, Any]
Rows = Iterable[Row]

_MESSAGES: Final = (
    *("ts_ns", "connection", "direction", "protocol", "kind", "size_bytes", "tunnel_link"),
)
_CALLS: Final = (
    *("protocol", "target", "outcome", "cause", "status"),
    *("request_ns", "response_ns", "latency_ns"),
)
OUTCOMES: Final = {
    "acked": "acked",
    "unacked": "unacked",
    "unknown": "unknown",
    "unsent": "unsent",
    "orphan": "orphans",
}
"""Outcomes of deliveries, and the columns that count them."""

INPUTS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "traffic_minutes": {"messages": _MESSAGES},
    "talker_minutes": {"messages": _MESSAGES},
    "latency_minutes": {"calls": _CALLS},
    "error_minutes": {"calls": _CALLS, "faults": ("ts_ns", "protocol", "code")},
    "delivery_minutes": {
        "deliveries": (
            *("protocol", "topic", "outcome", "published_ns", "first_sent_ns", "acked_ns"),
            *("sends", "latency_ns"),
        )
    },
}
"""The tables of which each roll-up is made, and their columns."""


def minute_of(ts_ns: int | None) -> int | None:
    """Return the beginning of the minute of a time."""
    if ts_ns is None:
        return None
    found = ts_ns - ts_ns % MINUTE_NS
    return found if found >= _MIN_INT64 else None


def rollup(table: str, **inputs: Rows) -> list[dict[str, Any]]:
    """Return the rows of a roll-up; `inputs` are the rows of the tables in `INPUTS`."""
    make: Callable[..., Iterator[dict[str, Any]]] = _ROLLUPS[table]
    return list(make(**inputs))


def _first(row: Row, *names: str) -> int | None:
    return next((row[name] for name in names if row[name] is not None), None)


def _call_ns(row: Row) -> int | None:
    """Return the time of a call: of its response, or of its request without one."""
    answered = row["outcome"] not in ("lost", "unknown")
    found: int | None = row["response_ns"] if answered else row["request_ns"]
    return found


class _Counts:
    """Sums by key."""

    def __init__(self, keys: tuple[str, ...], sums: tuple[str, ...]):
        self._keys, self._sums = keys, sums
        self._found: dict[tuple[Any, ...], list[int]] = {}

    def add(self, *key: Any, **amounts: int) -> None:
        sums = self._found.setdefault(key, [0] * len(self._sums))
        for at, name in enumerate(self._sums):
            sums[at] += amounts.get(name, 0)

    def rows(self) -> Iterator[dict[str, Any]]:
        for key, sums in self._found.items():
            fitting = [each if _MIN_INT64 <= each <= _MAX_INT64 else None for each in sums]
            yield dict(zip((*self._keys, *self._sums), (*key, *fitting), strict=True))


def _traffic(messages: Rows) -> Iterator[dict[str, Any]]:
    found = _Counts(("minute_ns", "protocol", "direction", "kind"), ("messages", "bytes"))
    for row in messages:
        key = minute_of(row["ts_ns"]), row["protocol"], row["direction"], row["kind"]
        # Bytes in a tunnel are counted once, as part of the frames of their link.
        size_bytes = row["size_bytes"] if row["tunnel_link"] is None else 0
        found.add(*key, messages=1, bytes=size_bytes or 0)
    return found.rows()


def _talkers(messages: Rows) -> Iterator[dict[str, Any]]:
    """Return the connections with the most bytes; of equal ones, the smaller id comes first."""
    found = _Counts(("minute_ns", "protocol", "connection"), ("messages", "bytes"))
    for row in messages:
        key = minute_of(row["ts_ns"]), row["protocol"], row["connection"]
        found.add(*key, messages=1, bytes=row["size_bytes"] or 0)
    minutes: dict[int | None, list[dict[str, Any]]] = {}
    for each in found.rows():
        minutes.setdefault(each["minute_ns"], []).append(each)
    for rows in minutes.values():
        rows.sort(key=lambda row: (-(row["bytes"] or 0), row["connection"], row["protocol"]))
        for rank, row in enumerate(rows[:TALKERS], 1):
            yield row | {"rank": rank}


def _latency(calls: Rows) -> Iterator[dict[str, Any]]:
    keys = ("minute_ns", "protocol", "target", "bucket", "from_ns", "below_ns")
    found = _Counts(keys, ("calls", "latency_ns"))
    for row in calls:
        if row["latency_ns"] is not None:
            bucket = bucket_of(row["latency_ns"])
            key = minute_of(row["response_ns"]), row["protocol"], row["target"], bucket
            found.add(*key, *bounds(bucket), calls=1, latency_ns=row["latency_ns"])
    return found.rows()


def _errors(calls: Rows, faults: Rows) -> Iterator[dict[str, Any]]:
    """Return counts of calls that failed, were lost or are unknown, and of faults."""
    found = _Counts(("minute_ns", "what", "protocol", "target", "code"), ("errors",))
    for row in calls:
        if row["outcome"] in ("failed", "lost", "unknown"):
            code = row["status" if row["outcome"] == "failed" else "cause"]
            key = row["outcome"], row["protocol"], row["target"], code
            found.add(minute_of(_call_ns(row)), *key, errors=1)
    for row in faults:
        found.add(minute_of(row["ts_ns"]), "fault", row["protocol"], None, row["code"], errors=1)
    return found.rows()


def _delivery(deliveries: Rows) -> Iterator[dict[str, Any]]:
    sums = ("deliveries", "sent", *OUTCOMES.values(), "sends", "latency_ns")
    found = _Counts(("minute_ns", "protocol", "topic"), sums)
    for row in deliveries:
        outcome = OUTCOMES.get(row["outcome"])
        found.add(
            minute_of(_first(row, "published_ns", "first_sent_ns", "acked_ns")),
            row["protocol"],
            row["topic"],
            deliveries=1,
            sent=int(row["first_sent_ns"] is not None),
            sends=row["sends"] or 0,
            latency_ns=row["latency_ns"] or 0,
            **({} if outcome is None else {outcome: 1}),
        )
    return found.rows()


_ROLLUPS: Final[dict[str, Callable[..., Iterator[dict[str, Any]]]]] = {
    "traffic_minutes": _traffic,
    "talker_minutes": _talkers,
    "latency_minutes": _latency,
    "error_minutes": _errors,
    "delivery_minutes": _delivery,
}
