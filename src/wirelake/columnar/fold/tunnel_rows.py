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

from wirelake.records.crossing import CROSSING
from wirelake.records.rows import WANTED
from wirelake.records.tunnel_ids import tunnel_of

from ..meaning import repeated
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
        passed, links = ~told.held[here], columns.wide[k.KEY, here]
        if batch.column("tunnel_link").null_count < batch.num_rows:
            inside = columns.narrow[k.KIND, here] == k.TUNNELLED
            yield from _messages(batch, np.flatnonzero(inside & passed), links, numbers[here])
        elif batch.column("protocol")[0].as_py() == _RELAY:
            yield from _packets(batch, passed, links, numbers[here])
    yield from _of_links(columns, told, texts, numbers)


def _messages(
    batch: pa.RecordBatch, rows: Rows, links: Ints, numbers: Ints
) -> Iterator[pa.RecordBatch]:
    """Messages in tunnels."""
    if len(rows):
        made = _columns(batch, rows, links, numbers)
        yield _batch(made | {"tunnel": made["connection"]}, len(rows))


def _packets(
    batch: pa.RecordBatch, passed: NDArray[np.bool_], links: Ints, numbers: Ints
) -> Iterator[pa.RecordBatch]:
    """The packets about tunnels; of those that carry messages, the first of each tunnel.

    Their messages are told for themselves, and after the first the tunnel is known.
    """
    names, name_texts = indices_of(batch.column("name"))
    targets, target_texts = indices_of(batch.column("target"))
    about = np.array([text.startswith("tunnel_") for text in name_texts])[names]
    instances, ids, good = _ids(target_texts)
    rows = np.flatnonzero(passed & about & np.append(good, False)[targets])
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    carriers = np.isin(rows, named(names, name_texts, _CARRIER))
    _, firsts = np.unique(targets[rows[carriers]], return_index=True)
    kept = ~carriers
    kept[np.flatnonzero(carriers)[firsts]] = True
    rows = rows[kept]
    if not len(rows):
        return
    made = _columns(batch, rows, links, numbers)
    instances, ids = instances[targets[rows]], ids[targets[rows]]
    made |= {
        "tunnel": pa.array(tunnel_connections(instances, ids)),
        "target": pa.nulls(len(rows), pa.string()),
        "instance_id": pa.array(instances),
        "tunnel_id": pa.array(ids),
    }
    for protocol, name in _OF_PACKETS:
        places = np.flatnonzero(np.isin(rows, named(names, name_texts, name)))
        for values in wanted_of(batch, (protocol, name), rows[places]):
            for column, found in zip(WANTED[protocol, name], values, strict=True):
                made[column] = _spread(found, places, len(rows), _SCHEMA.field(column).type)
    yield _batch(made, len(rows))


def _ids(targets: list[str]) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Instance and number of tunnels, and whether a target names one at all."""
    pairs = [tunnel_of(text) for text in targets]
    good = np.array([pair is not None for pair in pairs], np.bool_)
    masked = [[number & _MASK for number in pair or (0, 0)] for pair in pairs]
    numbers = np.array(masked, np.uint64).reshape(-1, 2).astype(np.int64)
    return numbers[:, 0], numbers[:, 1], good


def _columns(batch: pa.RecordBatch, rows: Rows, links: Ints, numbers: Ints) -> dict[str, pa.Array]:
    """What messages and packets have in common."""
    picked = pa.array(rows)
    return {name: batch.column(name).take(picked) for name in ("ts_ns", *_OF_MESSAGE)} | {
        "event": repeated("message", len(rows)),
        "rank": pa.array(np.full(len(rows), k.RANKS[k.OTHER])),
        "link": pa.array(links[rows]),
        "number": pa.array(numbers[rows]),
    }


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
            "event": repeated(event, len(rows)),
            "ts_ns": pa.array(columns.wide[k.TS, rows]),
            "rank": pa.array(np.full(len(rows), k.RANKS[kind])),
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
