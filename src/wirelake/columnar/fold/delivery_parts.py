"""Parts of `deliveries`: what the messages of a window add to them, in columns.

See "Deliveries" in `docs/concepts/matching.md`. What is sent to one client, or acknowledged by it,
in one window becomes one row for each notification.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.records.deliveries import CROSSING
from wirelake.records.protocol_rules import publication_protocol, rules_of
from wirelake.records.rows import Fact

from ..decode.meaning import repeated
from . import event_arrays as k
from .calls import integers
from .event_builder import Columns, field_of, named
from .tables import NO, NOTHING, Texts, indices_of

__all__ = ["delivery_faults", "delivery_parts", "publications"]

_MILLISECOND: Final = 1_000_000
_LATEST_MS: Final = ((1 << 63) - 1) // _MILLISECOND

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Uses:
    """Notifications that messages carry or acknowledge, one after the other."""

    notification: pa.Array
    event: Ints
    """The message."""
    published: Ints
    """When it says that it was published; NOTHING when it does not."""


def delivery_parts(
    columns: Columns, arrays: k.EventArrays, texts: Texts
) -> Iterator[pa.RecordBatch]:
    """Return rows of `_delivery_parts`; kernels have found out who was signed on."""
    rank = np.empty(len(columns), np.int64)
    rank[arrays.order] = np.arange(len(columns))
    found: dict[str, list[_Uses]] = {}
    for number, (table, batch) in enumerate(columns.sources):
        if table == "messages" and batch.num_rows:
            uses = _uses(batch, int(columns.starts[number]), arrays)
            if uses is not None:
                found.setdefault(batch.column("protocol")[0].as_py(), []).append(uses)
    for protocol, parts in found.items():
        yield _grouped(protocol, _joined(parts), rank, arrays, texts)


def _uses(batch: pa.RecordBatch, start: int, arrays: k.EventArrays) -> _Uses | None:
    """The notifications of a batch whose events begin at `start`."""
    ids = batch.column("ids")
    if ids.null_count == len(ids):
        return None
    here = slice(start, start + len(ids))
    passed = ~arrays.held[here] & (arrays.narrow[k.KIND, here] != k.TUNNELLED)
    counts = pc.fill_null(pc.list_value_length(ids), 0).to_numpy()
    rows = np.flatnonzero(passed & (counts > 0))
    counts = counts[rows].astype(np.int64)
    return _Uses(
        ids.take(pa.array(rows)).flatten(),
        np.repeat(rows, counts) + start,
        _published(batch, rows, counts, arrays.narrow[k.FLAGS, rows + start]),
    )


def _published(
    batch: pa.RecordBatch, rows: NDArray[np.intp], counts: Ints, flags: NDArray[np.int32]
) -> Ints:
    """When notifications say that they were published, in the order of `flatten`."""
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
    return published


def _lists_of_one(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(np.arange(len(values) + 1, dtype=np.int32), values)


def _nanoseconds(milliseconds: pa.Array) -> Ints:
    """Times in nanoseconds; NOTHING for what is null or no time."""
    values = pc.fill_null(milliseconds, NOTHING).to_numpy()
    good = np.abs(np.maximum(values, -_LATEST_MS - 1)) <= _LATEST_MS
    return np.where(good, np.where(good, values, 0) * _MILLISECOND, NOTHING)


def _joined(parts: Sequence[_Uses]) -> _Uses:
    return _Uses(
        pa.concat_arrays([part.notification for part in parts]),
        np.concatenate([part.event for part in parts]),
        np.concatenate([part.published for part in parts]),
    )


def _grouped(
    protocol: str, uses: _Uses, rank: Ints, arrays: k.EventArrays, texts: Texts
) -> pa.RecordBatch:
    """A row for each client, or connection in its place, and notification."""
    order, firsts = _groups(uses, rank, arrays)
    event, far = uses.event[order], len(order)
    sent, place = (arrays.narrow[k.FLAGS, event] & k.FROM_SERVER) != 0, np.arange(far)
    first_sent = np.minimum.reduceat(np.where(sent, place, far), firsts)
    last_sent = np.maximum.reduceat(np.where(sent, place, NO), firsts)
    first_acked = np.minimum.reduceat(np.where(sent, far, place), firsts)
    sends = np.add.reduceat(sent.astype(np.int64), firsts)
    # Behind the last place there is nothing, and so there is before the first.
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
    wanted = CROSSING["_delivery_parts"]
    return pa.RecordBatch.from_arrays([columns[name] for name in wanted.names], schema=wanted)


def _groups(uses: _Uses, rank: Ints, arrays: k.EventArrays) -> tuple[Ints, Ints]:
    """An order in which uses of one row are neighbours, in the order of time; where rows begin."""
    whom = arrays.receiver[uses.event].astype(np.int64)
    stand_in = np.where(whom < 0, arrays.wide[k.KEY, uses.event], 0)
    numbers, _ = indices_of(uses.notification)
    order = np.lexsort((rank[uses.event], stand_in, whom, numbers))
    begins = np.zeros(len(order), np.bool_)
    begins[:1] = True
    for key in (whom[order], stand_in[order], numbers[order]):
        begins[1:] |= key[1:] != key[:-1]
    return order, np.flatnonzero(begins)


def _earliest(times: Ints, firsts: Ints) -> Ints:
    """The earliest time of each group; NOTHING when none is known."""
    late = np.iinfo(np.int64).max
    found = np.minimum.reduceat(np.where(times == NOTHING, late, times), firsts)
    return np.where(found == late, NOTHING, found)


def delivery_faults(
    columns: Columns, arrays: k.EventArrays, texts: Texts
) -> Iterator[pa.RecordBatch]:
    """Rows of `_delivery_faults`: faults in what clients sent that may hide something."""
    harmless = k.HARMLESS | k.FROM_SERVER
    found = np.flatnonzero(
        (columns.narrow[k.KIND] == k.FAULT)
        & (columns.narrow[k.FLAGS] & harmless == 0)
        & ~arrays.held
    )
    if len(found):
        whom = arrays.receiver[found]
        made = [
            texts.array(whom),
            integers(columns.wide[k.KEY, found], whom >= 0),
            pa.array(columns.wide[k.TS, found]),
        ]
        yield pa.RecordBatch.from_arrays(made, schema=CROSSING["_delivery_faults"])


def publications(facts: Sequence[Fact]) -> Iterator[pa.RecordBatch]:
    """Rows of `_publications`: what recorders knew about notifications."""
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
