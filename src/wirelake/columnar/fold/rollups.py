"""Roll-ups by minute (the tables `*_minutes`), counted in Arrow.

    counts = RollupCounts("traffic_minutes", first_ns, last_ns)
    for batch in messages:
        counts.add("messages", batch)
    rows = counts.rows()

`wirelake.records.rollups` is the plain definition, row by row. Here each batch is grouped and
summed at once, and sums are summed again when there are many, so memory follows the number of
groups, not of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.records.rollups import BUCKETS, MINUTE_NS, OUTCOMES, TALKERS, bounds
from wirelake.records.schema import schema

__all__ = ["RollupCounts"]

_Ints = NDArray[np.int64]
_SUMMED_ROWS: Final = 1 << 20
"""Sums are summed again when they have this many rows: about 100 MB."""
_LOW: Final = (1 << 32) - 1


class RollupCounts:
    """Counts the rows of a roll-up in a range of minutes."""

    def __init__(self, table: str, first_ns: int, last_ns: int, *, talkers: int = TALKERS):
        """`first_ns` and `last_ns` are the first and the last minute."""
        self._table = table
        self._rollup = _ROLLUPS[table]
        self._first_ns, self._last_ns = first_ns, last_ns
        self._talkers = talkers
        self._parts: list[pa.Table] = []
        self._rows = 0
        """Rows of the parts."""

    def add(self, name: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Count rows of an input table, which has the columns of `INPUTS`."""
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        found = self._rollup.inputs[name](_Columns(table))
        minute = found["minute_ns"]
        within = pc.and_(
            pc.greater_equal(minute, self._first_ns), pc.less_equal(minute, self._last_ns)
        )
        self._sum(pa.table(found).filter(within))

    def add_without_time(self, name: str, rows: pa.Table) -> None:
        """Count the rows without a time, whose minute is null."""
        found = pa.table(self._rollup.inputs[name](_Columns(rows)))
        self._sum(found.filter(pc.is_null(rows["ts_ns"])))

    def rows(self) -> pa.Table:
        """Return the rows of the roll-up."""
        found = self._summed()
        columns: dict[str, Any] = {name: found[name] for name in self._rollup.keys}
        columns |= {name: _total(found, name) for name in self._rollup.sums}
        made = pa.table(columns)
        if self._rollup.finish is not None:
            made = self._rollup.finish(made, self._talkers)
        wanted = schema(self._table)
        return made.select(wanted.names).cast(wanted)

    def _sum(self, rows: pa.Table) -> None:
        if rows.num_rows:
            # A sum of int64 wraps. The halves of 2**31 numbers do not, and tell whether it fits.
            for name in self._rollup.sums:
                number = rows[name].to_numpy()
                rows = rows.drop_columns([name])
                rows = rows.append_column(f"{name}_high", pa.array(number >> 32))
                rows = rows.append_column(f"{name}_low", pa.array(number & _LOW))
            self._parts.append(self._grouped(rows))
            self._rows += self._parts[-1].num_rows
            if self._rows > _SUMMED_ROWS and len(self._parts) > 1:
                self._parts = [self._summed()]
                self._rows = self._parts[0].num_rows

    def _summed(self) -> pa.Table:
        if not self._parts:
            sums = [f"{name}_{half}" for name in self._rollup.sums for half in ("high", "low")]
            kinds = {field.name: field.type for field in schema(self._table)}
            keys = [(name, kinds[name]) for name in self._rollup.keys]
            return pa.schema([*keys, *((name, pa.int64()) for name in sums)]).empty_table()
        return self._grouped(pa.concat_tables(self._parts))

    def _grouped(self, rows: pa.Table) -> pa.Table:
        keys = list(self._rollup.keys)
        sums = [name for name in rows.column_names if name not in keys]
        found = rows.group_by(keys).aggregate([(name, "sum") for name in sums])
        return found.select([*keys, *(f"{name}_sum" for name in sums)]).rename_columns(
            [*keys, *sums]
        )


def _total(sums: pa.Table, name: str) -> pa.Array:
    """Return a sum from its halves; null where it does not fit an int64."""
    low = sums[f"{name}_low"].to_numpy()
    high = sums[f"{name}_high"].to_numpy() + (low >> 32)
    fits = (high >= -(1 << 31)) & (high < 1 << 31)
    return pa.array((high << 32) | (low & _LOW), mask=~fits)


# -- columns ---------------------------------------------------------------------------------


class _Columns:
    """Columns of an input table."""

    def __init__(self, rows: pa.Table):
        self._rows = rows
        self.count = rows.num_rows

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self._rows[name]

    def numbers(self, name: str) -> _Ints:
        """Return a column; 0 where it is null."""
        found: _Ints = pc.fill_null(self._rows[name], 0).to_numpy()
        return found

    def ones(self) -> _Ints:
        """Return 1 for each row."""
        return np.ones(self.count, np.int64)

    def null_texts(self) -> pa.Array:
        return pa.nulls(self.count, pa.string())


def _minute(ts_ns: pa.ChunkedArray) -> pa.Array:
    """Return the beginning of the minute; null where it would not fit an int64."""
    times: _Ints = pc.fill_null(ts_ns, 0).to_numpy()
    minutes = times - times % MINUTE_NS
    known = np.asarray(pc.is_valid(ts_ns))
    return pa.array(minutes, mask=~known | (minutes > times))


def _bucket_of(latency_ns: _Ints) -> _Ints:
    """Return `wirelake.records.rollups.bucket_of` of each number."""
    n = np.maximum(latency_ns, 0)
    high = n >> 32
    # The exponent of a double is the number of bits as long as the number itself is exact.
    bits = np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(n & _LOW)[1]).astype(np.int64)
    shift = np.maximum(bits - 4, 0)
    return np.where(n < 8, n, (bits - 3) * 8 + ((n >> shift) & 7))


_FROM_NS, _BELOW_NS = np.array([bounds(bucket) for bucket in range(BUCKETS)], np.int64).T


# -- the roll-ups ----------------------------------------------------------------------------


def _traffic(messages: _Columns) -> dict[str, Any]:
    return {
        "minute_ns": _minute(messages["ts_ns"]),
        "protocol": messages["protocol"],
        "direction": messages["direction"],
        "kind": messages["kind"],
        "messages": messages.ones(),
        # Bytes in a tunnel are counted once, as part of the frames of their link.
        "bytes": messages.numbers("size_bytes") * np.asarray(pc.is_null(messages["tunnel_link"])),
    }


def _talkers(messages: _Columns) -> dict[str, Any]:
    return {
        "minute_ns": _minute(messages["ts_ns"]),
        "protocol": messages["protocol"],
        "connection": messages["connection"],
        "messages": messages.ones(),
        "bytes": messages.numbers("size_bytes"),
    }


def _ranked(rows: pa.Table, limit: int) -> pa.Table:
    """Return the connections with the most bytes of each minute, with their ranks."""
    found = rows.append_column("by", pc.negate(pc.fill_null(rows["bytes"], 0)))
    found = found.sort_by([(name, "ascending") for name in _RANKED]).drop_columns(["by"])
    minutes = found["minute_ns"].to_numpy()
    if not len(minutes):
        return found.append_column("rank", pa.array([], pa.int32()))
    starts = np.flatnonzero(np.diff(minutes, prepend=minutes[0] - 1))
    sizes = np.diff(np.append(starts, len(minutes)))
    rank = np.arange(len(minutes)) - np.repeat(starts, sizes) + 1
    found = found.append_column("rank", pa.array(rank.astype(np.int32)))
    return found.filter(pa.array(rank <= limit))


_RANKED: Final = ("minute_ns", "by", "connection", "protocol")


def _latency(calls: _Columns) -> dict[str, Any]:
    known = np.asarray(pc.is_valid(calls["latency_ns"]))
    latency_ns = calls.numbers("latency_ns")
    minute = _minute(calls["response_ns"])
    return {
        "minute_ns": pc.if_else(pa.array(known), minute, None),
        "protocol": calls["protocol"],
        "target": calls["target"],
        "bucket": pa.array(_bucket_of(latency_ns).astype(np.int32)),
        "calls": calls.ones(),
        "latency_ns": latency_ns,
    }


def _bounded(rows: pa.Table, _: int) -> pa.Table:
    buckets = rows["bucket"].to_numpy()
    rows = rows.append_column("from_ns", pa.array(_FROM_NS[buckets]))
    return rows.append_column("below_ns", pa.array(_BELOW_NS[buckets]))


def _failed_calls(calls: _Columns) -> dict[str, Any]:
    outcome = calls["outcome"]
    failed = pc.equal(outcome, "failed")
    counted = pc.is_in(outcome, pa.array(["failed", "lost", "unknown"]))
    time_ns = pc.if_else(failed, calls["response_ns"], calls["request_ns"])
    return {
        "minute_ns": pc.if_else(counted, _minute(time_ns), None),
        "what": outcome,
        "protocol": calls["protocol"],
        "target": calls["target"],
        "code": pc.if_else(failed, calls["status"], calls["cause"]),
        "errors": calls.ones(),
    }


def _faults(faults: _Columns) -> dict[str, Any]:
    return {
        "minute_ns": _minute(faults["ts_ns"]),
        "what": pa.array(["fault"] * faults.count, pa.string()),
        "protocol": faults["protocol"],
        "target": faults.null_texts(),
        "code": faults["code"],
        "errors": faults.ones(),
    }


def _deliveries(deliveries: _Columns) -> dict[str, Any]:
    time_ns = pc.coalesce(
        deliveries["published_ns"], deliveries["first_sent_ns"], deliveries["acked_ns"]
    )
    outcome = deliveries["outcome"]
    counted = {
        name: pc.fill_null(pc.equal(outcome, each), False).to_numpy().astype(np.int64)
        for each, name in OUTCOMES.items()
    }
    return {
        "minute_ns": _minute(time_ns),
        "protocol": deliveries["protocol"],
        "topic": deliveries["topic"],
        "deliveries": deliveries.ones(),
        "sent": np.asarray(pc.is_valid(deliveries["first_sent_ns"])).astype(np.int64),
        **counted,
        "sends": deliveries.numbers("sends"),
        "latency_ns": deliveries.numbers("latency_ns"),
    }


class _Rollup(NamedTuple):
    keys: tuple[str, ...]
    sums: tuple[str, ...]
    inputs: Mapping[str, Callable[[_Columns], dict[str, Any]]]
    """By input table: the keys and the numbers of its rows. A null minute is not counted."""
    finish: Callable[[pa.Table, int], pa.Table] | None = None
    """Adds the columns that depend on the sums."""


_ROLLUPS: Final = {
    "traffic_minutes": _Rollup(
        ("minute_ns", "protocol", "direction", "kind"),
        ("messages", "bytes"),
        {"messages": _traffic},
    ),
    "talker_minutes": _Rollup(
        ("minute_ns", "protocol", "connection"),
        ("messages", "bytes"),
        {"messages": _talkers},
        _ranked,
    ),
    "latency_minutes": _Rollup(
        ("minute_ns", "protocol", "target", "bucket"),
        ("calls", "latency_ns"),
        {"calls": _latency},
        _bounded,
    ),
    "error_minutes": _Rollup(
        ("minute_ns", "what", "protocol", "target", "code"),
        ("errors",),
        {"calls": _failed_calls, "faults": _faults},
    ),
    "delivery_minutes": _Rollup(
        ("minute_ns", "protocol", "topic"),
        ("deliveries", "sent", *OUTCOMES.values(), "sends", "latency_ns"),
        {"deliveries": _deliveries},
    ),
}
