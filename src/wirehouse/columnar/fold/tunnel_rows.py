"""What happens to tunnels in a window, as rows of `_tunnel_events`.

A tunnel may come over several links, in any share of any source: so nothing is folded here. Told
are messages in tunnels, the packets about tunnels, and where links break and end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirehouse.records.crossing import CROSSING
from wirehouse.records.rows import WANTED
from wirehouse.records.tunnel_ids import tunnel_of

from ..tunnels import tunnel_connections
from . import told as k
from .columns import Columns, named, wanted_of
from .tables import NO
from .texts import Texts, indices_of

__all__ = ["tunnel_rows"]

_SCHEMA: Final = CROSSING["_tunnel_events"]
_RELAY: Final = "relay"
_CARRIER: Final = "tunnel_relay"
_MASK: Final = (1 << 64) - 1
_OF_MESSAGE: Final = (
    *("connection", "direction", "protocol", "kind", "name", "message_id", "reply_to", "target"),
    *("status", "reason", "client", "size_bytes", "tunnel_link"),
)
_OF_PACKETS: Final = tuple(pair for pair in WANTED if pair[0] == _RELAY)

Rows = NDArray[np.intp]
Ints = NDArray[np.int64]


def tunnel_rows(
    columns: Columns, told: k.Told, texts: Texts, before: int
) -> Iterator[pa.RecordBatch]:
    """Rows of what was told; `before` is how many events there were in earlier windows."""
    numbers = np.empty(len(columns), np.int64)
    numbers[told.order] = np.arange(before, before + len(columns))
    for at, (table, batch) in enumerate(columns.sources):
        if table != "messages" or not batch.num_rows:
            continue
        here = slice(int(columns.starts[at]), int(columns.starts[at + 1]))
        if batch.column("tunnel_link").null_count < batch.num_rows:
            inside = (columns.narrow[k.KIND, here] == k.TUNNELLED) & ~told.held[here]
            rows = np.flatnonzero(inside)
            tunnels = batch.column("connection").to_numpy()[rows]
        elif batch.column("protocol")[0].as_py() == _RELAY:
            rows, tunnels = _packets(batch, ~told.held[here], numbers[here])
        else:
            continue
        if len(rows):
            yield _messages(batch, rows, tunnels, columns.wide[k.KEY, here], numbers[here])
    yield from _of_links(columns, told, texts, numbers)


def _packets(batch: pa.RecordBatch, told: NDArray[np.bool_], numbers: Ints) -> tuple[Rows, Ints]:
    """The packets about tunnels, and the tunnels; of those that carry messages, the first of each.

    Their messages are told for themselves, and after the first the tunnel is known.
    """
    names, name_texts = indices_of(batch.column("name"))
    targets, target_texts = indices_of(batch.column("target"))
    about = np.array([text.startswith("tunnel_") for text in name_texts])[names]
    ids = _ids(target_texts)
    rows = np.flatnonzero(told & about & np.append(ids != 0, False)[targets])
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    tunnels = ids[targets[rows]]
    carriers = np.isin(rows, named(names, name_texts, _CARRIER))
    _, firsts = np.unique(tunnels[carriers], return_index=True)
    kept = ~carriers
    kept[np.flatnonzero(carriers)[firsts]] = True
    return rows[kept], tunnels[kept]


def _ids(targets: list[str]) -> Ints:
    """The connection ids of tunnels; 0 for what is no tunnel."""
    pairs = [tunnel_of(text) for text in targets]
    good = np.array([pair is not None for pair in pairs], np.bool_)
    numbers = np.array(
        [[number & _MASK for number in pair or (0, 0)] for pair in pairs], np.uint64
    ).reshape(-1, 2)
    instances, tunnels = numbers.view(np.int64).T
    return np.where(good, tunnel_connections(instances, tunnels), 0)


def _messages(
    batch: pa.RecordBatch, rows: Rows, tunnels: Ints, links: Ints, numbers: Ints
) -> pa.RecordBatch:
    picked = pa.array(rows)
    made = {name: batch.column(name).take(picked) for name in ("ts_ns", *_OF_MESSAGE)}
    made |= {
        "event": pa.repeat(pa.scalar("message"), len(rows)),
        "tunnel": pa.array(tunnels),
        "rank": pa.repeat(pa.scalar(int(k.RANKS[k.OTHER])), len(rows)),
        "link": pa.array(links[rows]),
        "number": pa.array(numbers[rows]),
    }
    names, texts = indices_of(made["name"])
    for protocol, name in _OF_PACKETS:
        places = named(names, texts, name)
        for values in wanted_of(batch, (protocol, name), rows[places]):
            for column, found in zip(WANTED[protocol, name], values, strict=True):
                made[column] = _spread(found, places, len(rows), _SCHEMA.field(column).type)
    return _batch(made, len(rows))


def _spread(values: pa.Array, places: Rows, rows: int, kind: pa.DataType) -> pa.Array:
    """Values at their places, null elsewhere."""
    numbers = np.full(rows, NO, np.int64)
    numbers[places] = np.arange(len(places))
    return pc.cast(values, kind).take(pa.array(numbers, mask=numbers < 0))


def _of_links(
    columns: Columns, told: k.Told, texts: Texts, numbers: Ints
) -> Iterator[pa.RecordBatch]:
    for event, kind in (("fault", k.FAULT), ("closed", k.END)):
        rows = np.flatnonzero(told.of_link & (columns.narrow[k.KIND] == kind))
        if not len(rows):
            continue
        made: dict[str, Any] = {
            "event": pa.repeat(pa.scalar(event), len(rows)),
            "ts_ns": pa.array(columns.wide[k.TS, rows]),
            "rank": pa.repeat(pa.scalar(int(k.RANKS[kind])), len(rows)),
            "link": pa.array(columns.wide[k.KEY, rows]),
            "number": pa.array(numbers[rows]),
            "connection": pa.array(columns.wide[k.KEY, rows]),
        }
        if kind == k.FAULT:
            ways = columns.narrow[k.FLAGS, rows] & k.FROM_SERVER
            made["direction"] = pa.array(["c2s", "s2c"]).take(pa.array(ways))
            made["code"] = texts.array(columns.narrow[k.CODE, rows])
        yield _batch(made, len(rows))


def _batch(made: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    arrays = [
        made[field.name] if field.name in made else pa.nulls(rows, field.type) for field in _SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
