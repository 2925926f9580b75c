"""Notifications from publication to acknowledgement: the table `deliveries`, in columns.

Implements "Deliveries" of `docs/concepts/matching.md`, in two steps. What is sent to one client or
acknowledged by it within one window becomes one part for each notification (`_delivery_parts`),
made by the fold of each connection. Parts of all connections, windows, shares and steps are then
merged by key. Every column of a part is a sum, a minimum or a maximum, so parts can be merged in
any order and grouping, and merged again: a lake merges what it kept with what a step adds, and a
reader merges as often as its memory asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.records.deliveries import CROSSING, LATEST_MS, MILLISECOND_NS
from wirelake.records.protocol_rules import publication_protocol, rules_of
from wirelake.records.rows import Fact
from wirelake.records.schema import schema

from ..decode.meaning import Coded, repeated
from . import event_arrays as k
from .calls import integers
from .event_builder import Columns, field_of, named
from .groups import Groups, Ints, column_of, numbers_or, present
from .tables import NO, NOTHING, Texts, indices_of

__all__ = [
    "NotificationUses",
    "by_client",
    "delivery_faults",
    "delivery_parts",
    "delivery_rows",
    "expected_parts",
    "last_faults",
    "merge_parts",
    "parts_of",
    "publications",
    "published_times",
]

_PARTS: Final = CROSSING["_delivery_parts"]
_FAULTS: Final = CROSSING["_delivery_faults"]
_DELIVERIES: Final = schema("deliveries")
_OUTCOMES: Final = ("unsent", "orphan", "unacked", "unknown", "acked")


# -- parts, from the events of a window ------------------------------------------------------


@dataclass(frozen=True)
class NotificationUses:
    """Notifications that messages carry or acknowledge, one after the other."""

    notification: pa.Array
    event: Ints
    """The message."""
    published: Ints
    """The publication time that its messages carry; NOTHING without one."""


def delivery_parts(
    columns: Columns, arrays: k.EventArrays, texts: Texts
) -> Iterator[pa.RecordBatch]:
    """Yield rows of `_delivery_parts`; kernels have found out who was signed on."""
    rank = np.empty(len(columns), np.int64)
    rank[arrays.order] = np.arange(len(columns))
    found: dict[str, list[NotificationUses]] = {}
    for number, (table, batch) in enumerate(columns.sources):
        if table == "messages" and batch.num_rows:
            uses = _uses(batch, int(columns.starts[number]), arrays)
            if uses is not None:
                found.setdefault(batch.column("protocol")[0].as_py(), []).append(uses)
    for protocol, parts in found.items():
        yield parts_of(protocol, _joined(parts), rank, arrays, texts)


def _uses(batch: pa.RecordBatch, start: int, arrays: k.EventArrays) -> NotificationUses | None:
    """Return the notifications of a batch whose events begin at `start`."""
    ids = batch.column("ids")
    if ids.null_count == len(ids):
        return None
    here = slice(start, start + len(ids))
    passed = ~arrays.pending[here] & (arrays.narrow[k.KIND, here] != k.TUNNELLED)
    counts = pc.fill_null(pc.list_value_length(ids), 0).to_numpy()
    rows = np.flatnonzero(passed & (counts > 0))
    counts = counts[rows].astype(np.int64)
    return NotificationUses(
        ids.take(pa.array(rows)).flatten(),
        np.repeat(rows, counts) + start,
        published_times(batch, rows, counts, arrays.narrow[k.FLAGS, rows + start]),
    )


def published_times(
    batch: pa.RecordBatch, rows: NDArray[np.intp], counts: Ints, flags: NDArray[np.int32]
) -> Ints:
    """Return the publication times that messages carry, in the order of `flatten`.

    `counts` are the numbers of notifications of these rows, none of them 0.
    """
    published = np.full(int(counts.sum()), NOTHING)
    firsts = np.cumsum(counts) - counts
    sent = np.flatnonzero(flags & k.FROM_SERVER)
    names, texts = indices_of(batch.column("name").take(pa.array(rows[sent])))
    protocol = batch.column("protocol")[0].as_py()
    for name, path in rules_of(protocol).published.items():
        places = sent[named(names, texts, name)]
        times = field_of(batch, protocol, path, rows[places])
        if times is not None:
            listed = times if pa.types.is_list(times.type) else _lists_of_one(times)
            lengths = pc.fill_null(pc.list_value_length(listed), 0).to_numpy().astype(np.int64)
            which = np.repeat(np.arange(len(lengths)), lengths)
            nth = np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            fits = nth < counts[places][which]
            values = _nanoseconds(listed.flatten())
            published[firsts[places][which[fits]] + nth[fits]] = values[fits]
    arguments = rules_of(protocol).arguments
    if arguments is not None and arguments.published_target is not None:
        target = arguments.published_target
        codes, texts = indices_of(batch.column("target").take(pa.array(rows[sent])))
        places = sent[named(codes, texts, target)]
        found = arguments.of_batch(batch, rows[places])
        for first, given in zip(firsts[places], found, strict=True):
            milliseconds = arguments.published_ms(target, given)
            # A JSON number may have any number of digits.
            if milliseconds is not None and abs(milliseconds) <= LATEST_MS:
                published[first] = milliseconds * MILLISECOND_NS
    return published


def _lists_of_one(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(np.arange(len(values) + 1, dtype=np.int32), values)


def _nanoseconds(milliseconds: pa.Array) -> Ints:
    """Return times in nanoseconds; NOTHING for null and for times out of range."""
    values = pc.fill_null(milliseconds, NOTHING).to_numpy()
    good = np.abs(np.maximum(values, -LATEST_MS - 1)) <= LATEST_MS
    return np.where(good, np.where(good, values, 0) * MILLISECOND_NS, NOTHING)


def _joined(parts: Sequence[NotificationUses]) -> NotificationUses:
    return NotificationUses(
        pa.concat_arrays([part.notification for part in parts]),
        np.concatenate([part.event for part in parts]),
        np.concatenate([part.published for part in parts]),
    )


def parts_of(
    protocol: str, uses: NotificationUses, rank: Ints, arrays: k.EventArrays, texts: Texts
) -> pa.RecordBatch:
    """Return a row for each notification and client, or connection in its place."""
    order, firsts = _use_groups(uses, rank, arrays)
    event, far = uses.event[order], len(order)
    sent, place = (arrays.narrow[k.FLAGS, event] & k.FROM_SERVER) != 0, np.arange(far)
    first_sent = np.minimum.reduceat(np.where(sent, place, far), firsts)
    last_sent = np.maximum.reduceat(np.where(sent, place, NO), firsts)
    first_acked = np.minimum.reduceat(np.where(sent, far, place), firsts)
    sends = np.add.reduceat(sent.astype(np.int64), firsts)
    # Both neutral places, `far` and NO, are the appended NOTHING.
    times = np.append(arrays.wide[k.TS, event], NOTHING)
    connections = np.append(arrays.wide[k.KEY, event], NOTHING)
    whom = arrays.receiver[event[firsts]]
    columns = {
        "protocol": repeated(protocol, len(firsts)),
        "client": texts.array(whom),
        "connection": integers(connections[firsts], whom >= 0),
        "notification": uses.notification.take(pa.array(order[firsts])),
        "sends": pa.array(sends),
        "first_sent_ns": integers(times[first_sent]),
        "first_connection": integers(connections[first_sent]),
        "last_sent_ns": integers(times[last_sent]),
        "last_connection": integers(connections[last_sent]),
        "acks": pa.array(np.diff(np.append(firsts, far)) - sends),
        "acked_ns": integers(times[first_acked]),
        "acked_connection": integers(connections[first_acked]),
        "published_ns": integers(_earliest(uses.published[order], firsts)),
        "last_event_ns": pa.array(np.maximum.reduceat(times[:-1], firsts)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in _PARTS.names], schema=_PARTS)


def _use_groups(uses: NotificationUses, rank: Ints, arrays: k.EventArrays) -> tuple[Ints, Ints]:
    """Return an order in which uses of one row are neighbours, by time; and where rows begin.

    At one time, they are in the order of their connections, as in `merge_parts`.
    """
    whom = arrays.receiver[uses.event].astype(np.int64)
    connections, times = arrays.wide[k.KEY, uses.event], arrays.wide[k.TS, uses.event]
    stand_in = np.where(whom < 0, connections, 0)
    numbers, _ = indices_of(uses.notification)
    order = np.lexsort((rank[uses.event], connections, times, stand_in, whom, numbers))
    begins = np.zeros(len(order), np.bool_)
    begins[:1] = True
    for key in (whom[order], stand_in[order], numbers[order]):
        begins[1:] |= key[1:] != key[:-1]
    return order, np.flatnonzero(begins)


def _earliest(times: Ints, firsts: Ints) -> Ints:
    """Return the earliest time of each group; NOTHING when none is known."""
    late = np.iinfo(np.int64).max
    found = np.minimum.reduceat(np.where(times == NOTHING, late, times), firsts)
    return np.where(found == late, NOTHING, found)


def delivery_faults(
    columns: Columns, arrays: k.EventArrays, texts: Texts
) -> Iterator[pa.RecordBatch]:
    """Yield rows of `_delivery_faults`: faults of clients that may hide an acknowledgement."""
    harmless = k.HARMLESS | k.FROM_SERVER
    found = np.flatnonzero(
        (columns.narrow[k.KIND] == k.FAULT)
        & (columns.narrow[k.FLAGS] & harmless == 0)
        & ~arrays.pending
    )
    if len(found):
        whom = arrays.receiver[found]
        made = [
            texts.array(whom),
            integers(columns.wide[k.KEY, found], whom >= 0),
            pa.array(columns.wide[k.TS, found]),
        ]
        yield pa.RecordBatch.from_arrays(made, schema=_FAULTS)


def publications(facts: Sequence[Fact]) -> Iterator[pa.RecordBatch]:
    """Yield rows of `_publications`: what recorders knew about notifications."""
    published = [
        fact for fact in facts if fact.kind == "publish" and type(fact.data.get("id")) is str
    ]
    if published:
        data = [fact.data for fact in published]
        made = [
            pa.array([each["id"] for each in data]),
            pa.array([fact.ts_ns for fact in published]),
            pa.array([_text(each.get("topic")) for each in data], pa.string()),
            pa.array([_text(each.get("client")) for each in data], pa.string()),
            pa.array([str(each.get("protocol", publication_protocol())) for each in data]),
        ]
        yield pa.RecordBatch.from_arrays(made, schema=CROSSING["_publications"])


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


# -- rows, from the parts of all connections -------------------------------------------------


def merge_parts(parts: pa.Table) -> pa.Table:
    """Merge parts into one for each protocol, client and notification.

    The connection stands for an unknown client; otherwise `connection` is null. At one time, the
    smaller id of a connection counts as first and the larger one as last: a rule that does not
    depend on the order of parts.
    """
    known = {name: column_of(parts, name) for name in _PARTS.names}
    connection = by_client(known["client"], known["connection"])
    keys = known["protocol"], known["client"], connection, known["notification"]
    groups = Groups.by(*keys)
    picked = pa.array(groups.firsts)
    made = dict(
        zip(
            ("protocol", "client", "connection", "notification"),
            (key.take(picked) for key in keys),
            strict=True,
        )
    )
    for name in ("sends", "acks"):
        made[name] = groups.sums(known[name])
    for time, place, pair in (
        ("first_sent_ns", "first_connection", groups.least_pair),
        ("last_sent_ns", "last_connection", groups.greatest_pair),
        ("acked_ns", "acked_connection", groups.least_pair),
    ):
        made[time], made[place] = pair(known[time], known[place])
    made["published_ns"] = groups.least(known["published_ns"])
    made["last_event_ns"] = groups.greatest(known["last_event_ns"])
    return pa.table([made[name] for name in _PARTS.names], schema=_PARTS)


def expected_parts(publications: pa.Table) -> pa.Table:
    """Return parts for publications to a client: they make a row even if nothing is ever sent."""
    named = publications.filter(pc.is_valid(publications.column("client")))
    zeros = pa.array(np.zeros(len(named), np.int64))
    made = {name: named.column(name) for name in ("protocol", "client", "notification")}
    made |= {"sends": zeros, "acks": zeros, "last_event_ns": named.column("ts_ns")}
    return pa.table(
        [
            made[field.name] if field.name in made else pa.nulls(len(named), field.type)
            for field in _PARTS
        ],
        schema=_PARTS,
    )


def delivery_rows(parts: pa.Table, publications: pa.Table, faults: pa.Table) -> pa.Table:
    """Return a row of `deliveries` for each of some merged parts.

    Publications add topic and time; `expected_parts` makes rows of those that were never sent.
    """
    known = {name: column_of(parts, name) for name in parts.column_names}
    published, topic = _publication_of(known["notification"], publications)
    sent, acked = known["first_sent_ns"], known["acked_ns"]
    made = known | {
        "published_ns": pc.coalesce(published, known["published_ns"]),
        "topic": topic,
        "latency_ns": _difference(acked, sent),
        "outcome": _outcomes(sent, acked, _last_fault_of(known, faults)),
    }
    return pa.table([made[name] for name in _DELIVERIES.names], schema=_DELIVERIES)


def by_client(clients: pa.Array, connections: pa.Array) -> pa.Array:
    """Return connections only where they replace an unknown client."""
    return pc.if_else(pc.is_null(clients), connections, pa.scalar(None, pa.int64()))


def last_faults(faults: pa.Table) -> pa.Table:
    """Return the last fault of each client, or of the connection in its place."""
    clients = column_of(faults, "client")
    connections = by_client(clients, column_of(faults, "connection"))
    groups = Groups.by(clients, connections)
    picked = pa.array(groups.firsts)
    times = groups.greatest(column_of(faults, "ts_ns"))
    return pa.table([clients.take(picked), connections.take(picked), times], schema=_FAULTS)


def _publication_of(notifications: pa.Array, publications: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Return time and topic of the earliest publication; of several, a known topic goes first."""
    order = [("ts_ns", "ascending"), ("topic", "ascending")]
    ordered = publications.sort_by(order)  # null is last
    groups = Groups.by(column_of(ordered, "notification"))
    earliest = ordered.take(pa.array(groups.firsts))
    places = pc.index_in(notifications, column_of(earliest, "notification"))
    return column_of(earliest, "ts_ns").take(places), column_of(earliest, "topic").take(places)


def _last_fault_of(known: dict[str, pa.Array], faults: pa.Table) -> pa.Array:
    """Return the time of the last fault that may hide an acknowledgement."""
    last = last_faults(faults)
    times, clients = column_of(last, "ts_ns"), column_of(last, "client")
    places = pc.index_in(known["client"], clients, skip_nulls=True)
    connections = by_client(known["client"], known["connection"])
    others = pc.index_in(connections, column_of(last, "connection"), skip_nulls=True)
    return times.take(pc.coalesce(places, others))


def _difference(later: pa.Array, earlier: pa.Array) -> pa.Array:
    """Return the differences of times; null where one is unknown, or an int64 too small."""
    ends, starts = numbers_or(later, 0), numbers_or(earlier, 0)
    found = ends - starts
    # Two's complement: an overflow has the sign of neither operand's order.
    overflows = ((ends ^ starts) & (ends ^ found)) < 0
    return pa.array(found, mask=~(present(later) & present(earlier)) | overflows)


def _outcomes(sent: pa.Array, acked: pa.Array, fault: pa.Array) -> pa.Array:
    """Return the outcome of each notification."""
    was_sent, was_acked = present(sent), present(acked)
    hidden = present(fault) & (numbers_or(fault, 0) >= numbers_or(sent, 0))
    codes = np.where(
        was_sent,
        np.where(was_acked, 4, np.where(hidden, 3, 2)),
        np.where(was_acked, 1, 0),
    )
    return Coded(codes.astype(np.int32), _OUTCOMES).array()
