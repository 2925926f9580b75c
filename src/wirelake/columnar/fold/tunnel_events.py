"""Rows of `_tunnel_events` in arrays, as kernels want them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.records.calls import HARMLESS
from wirelake.records.cross_connection import CROSSING
from wirelake.records.protocol_rules import ADDRESS, PORT, RESULT, ProtocolRules, rules_of
from wirelake.records.tunnels import tunnel_of

from ..decode.meaning import repeated
from ..decode.messages import tunnel_connections
from . import event_arrays as k
from .event_builder import Columns, field_of, from_server, id_hashes, named, numbers_of
from .tables import NO
from .text_codes import Texts, indices_of

__all__ = [
    "events_of_share",
    "tunnel_arrays",
    "tunnel_rows",
]


_HALF: Final = (1 << 64) - 1
_COLUMNS: Final = [
    name for name in CROSSING["_tunnel_events"].names if name not in ("rank", "number")
]


def tunnel_arrays(
    batches: Iterable[pa.RecordBatch], texts: Texts, share: int, shares: int
) -> k.EventArrays:
    """Return the events of a share's tunnels, and those of all links, in order."""
    parts = [events_of_share(batch, share, shares) for batch in batches]
    table = pa.Table.from_batches(parts, schema=CROSSING["_tunnel_events"]).combine_chunks()
    order = np.lexsort(
        [table.column(name).to_numpy() for name in ("number", "link", "rank", "ts_ns")]
    )
    found = table.select(_COLUMNS)
    wide = np.zeros((k.WIDE, len(order)), np.int64)
    narrow = np.full((k.NARROW, len(order)), NO, np.int32)
    if len(order):
        _fill({name: found.column(name).chunk(0) for name in _COLUMNS}, texts, wide, narrow)
    return k.EventArrays(
        wide,
        narrow,
        np.empty((3, 0), np.int32),
        order.astype(np.int64),
        np.empty(0, np.bool_),
        np.empty(0, np.int32),
        np.empty(0, np.bool_),
        np.empty(0, np.int32),
        np.empty((3, 0), np.int64),
    )


def events_of_share(batch: pa.RecordBatch, share: int, shares: int) -> pa.RecordBatch:
    """Return rows of `_tunnel_events` without the tunnels of other shares."""
    if shares == 1:
        return batch
    tunnels = batch.column("tunnel")
    numbers = np.zeros(len(tunnels), np.int64)
    known = numbers_of(tunnels, numbers)
    return batch.filter(pa.array(~known | (id_hashes(numbers) % shares == share)))


def _fill(
    found: dict[str, pa.Array],
    texts: Texts,
    wide: NDArray[np.int64],
    narrow: NDArray[np.int32],
) -> None:
    wide[k.TS] = found["ts_ns"].to_numpy()
    wide[k.KEY] = pc.coalesce(found["tunnel"], found["link"]).to_numpy()
    wide[k.LINK] = found["link"].to_numpy()
    numbers_of(found["size_bytes"], wide[k.SIZE])
    flags = from_server(found["direction"])
    flags |= numbers_of(found["message_id"], wide[k.NUMBER]) * np.int32(k.NUMBERED)
    flags |= numbers_of(found["reply_to"], wide[k.REPLY]) * np.int32(k.REPLIES)
    for row, name in (
        (k.TARGET, "target"),
        (k.STATUS, "status"),
        (k.REASON, "reason"),
        (k.CLIENT, "client"),
        (k.PROTOCOL, "protocol"),
    ):
        narrow[row] = texts.codes(found[name])
    kinds, kind_texts = indices_of(found["kind"])
    codes = [*(k.KINDS.get(text, k.OTHER) for text in kind_texts), k.END]
    narrow[k.KIND] = np.array(codes)[kinds]
    broken = np.asarray(pc.is_valid(found["code"]))
    _faults(found["code"], broken, texts, narrow, flags)
    narrow[k.FLAGS] = flags
    packets = np.asarray(pc.is_valid(found["instance_id"]))
    _packets(found, packets, wide, narrow)


def _faults(
    column: pa.Array,
    broken: NDArray[Any],
    texts: Texts,
    narrow: NDArray[np.int32],
    flags: NDArray[np.int32],
) -> None:
    if broken.any():
        codes, code_texts = indices_of(column)
        harmless = np.array([*(text in HARMLESS for text in code_texts), False], np.int32)
        narrow[k.KIND, broken] = k.FAULT
        narrow[k.CODE, broken] = texts.codes(column)[broken]
        flags |= harmless[codes] * np.int32(k.HARMLESS)


def _packets(
    found: dict[str, pa.Array],
    packets: NDArray[Any],
    wide: NDArray[np.int64],
    narrow: NDArray[np.int32],
) -> None:
    """Packets of links about tunnels, in their own columns."""
    picked = pa.array(np.flatnonzero(packets))
    if not len(picked):
        return
    of = {name: found[name].take(picked) for name in ("protocol", "name", ADDRESS, PORT, RESULT)}
    protocols, protocol_texts = indices_of(of["protocol"])
    names, name_texts = indices_of(of["name"])
    # One small table of kinds: a row for each link protocol, a column for each name.
    kinds_of = np.array(
        [[_packet_kind(rules_of(each), name) for name in name_texts] for each in protocol_texts]
    )
    kinds = kinds_of[protocols, names]
    refused = pc.fill_null(pc.invert(of[RESULT]), False).to_numpy(zero_copy_only=False)
    narrow[k.KIND, packets] = np.where(refused & (kinds == k.CONNECTED), k.REFUSED, kinds)
    wide[k.INSTANCE, packets] = found["instance_id"].take(picked).to_numpy()
    wide[k.TUNNEL, packets] = found["tunnel_id"].take(picked).to_numpy()
    addresses, packed = indices_of(of[ADDRESS])
    halves = np.array([*(_address(each) for each in packed), _address(b"")], np.uint64)
    users = halves.astype(np.int64)[addresses]
    wide[k.USER_HIGH, packets], wide[k.USER_LOW, packets] = users[:, 0], users[:, 1]
    narrow[k.USER_FAMILY, packets] = users[:, 2]
    narrow[k.USER_PORT, packets] = pc.fill_null(of[PORT], NO).to_numpy()


def _packet_kind(rules: ProtocolRules, name: str) -> int:
    """Return the kind of a packet about a tunnel, by its name."""
    tunnels = rules.tunnels
    if tunnels is None:
        return k.ABOUT
    return {
        tunnels.connect: k.CONNECT,
        tunnels.connected: k.CONNECTED,
        tunnels.disconnect: k.DISCONNECT,
        tunnels.carrier: k.CARRIER,
    }.get(name, k.ABOUT)


def _address(packed: Any) -> tuple[int, int, int]:
    """Return the halves of an address, and its family (0: no address)."""
    number = int.from_bytes(packed, "big")
    family = {4: 4, 16: 6}.get(len(packed), 0)
    return (number >> 64, number & _HALF, family) if family else (0, 0, 0)


# What happens to tunnels in a window, as rows of `_tunnel_events`.


_SCHEMA: Final = CROSSING["_tunnel_events"]
_MASK: Final = (1 << 64) - 1
_OF_MESSAGE: Final = (
    *("connection", "direction", "protocol", "kind", "name", "message_id", "reply_to", "target"),
    *("status", "reason", "client", "size_bytes", "tunnel_link"),
)

Rows = NDArray[np.intp]
Ints = NDArray[np.int64]


def tunnel_rows(
    columns: Columns, arrays: k.EventArrays, texts: Texts, before: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows of `_tunnel_events`; `before` counts the events of earlier windows."""
    numbers = np.empty(len(columns), np.int64)
    numbers[arrays.order] = np.arange(before, before + len(columns))
    for at, (table, batch) in enumerate(columns.sources):
        if table != "messages" or not batch.num_rows:
            continue
        here = slice(int(columns.starts[at]), int(columns.starts[at + 1]))
        passed, links = ~arrays.held[here], columns.wide[k.KEY, here]
        if batch.column("tunnel_link").null_count < batch.num_rows:
            inside = columns.narrow[k.KIND, here] == k.TUNNELLED
            yield from _messages(batch, np.flatnonzero(inside & passed), links, numbers[here])
        elif rules_of(batch.column("protocol")[0].as_py()).tunnels is not None:
            yield from _link_packets(batch, passed, links, numbers[here])
    yield from _of_links(columns, arrays, texts, numbers)


def _messages(
    batch: pa.RecordBatch, rows: Rows, links: Ints, numbers: Ints
) -> Iterator[pa.RecordBatch]:
    """Return the messages in tunnels."""
    if len(rows):
        made = _columns(batch, rows, links, numbers)
        yield _batch(made | {"tunnel": made["connection"]}, len(rows))


def _link_packets(
    batch: pa.RecordBatch, passed: NDArray[np.bool_], links: Ints, numbers: Ints
) -> Iterator[pa.RecordBatch]:
    """The packets about tunnels; of those that carry messages, the first of each tunnel.

    Their messages are events of their own, and after the first the tunnel is known.
    """
    protocol = batch.column("protocol")[0].as_py()
    rules = rules_of(protocol)
    assert rules.tunnels is not None
    names, name_texts = indices_of(batch.column("name"))
    targets, target_texts = indices_of(batch.column("target"))
    about = np.array([text in rules.tunnel_messages for text in name_texts])[names]
    instances, ids, good = _ids(target_texts)
    rows = np.flatnonzero(passed & about & np.append(good, False)[targets])
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    carriers = np.isin(rows, named(names, name_texts, rules.tunnels.carrier))
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
    for name, paths in rules.fields.items():
        if name not in rules.tunnel_messages:
            continue
        places = np.flatnonzero(np.isin(rows, named(names, name_texts, name)))
        for column in paths.keys() & {ADDRESS, PORT, RESULT}:
            found = field_of(batch, protocol, paths[column], rows[places])
            if found is not None:
                made[column] = _spread(found, places, len(rows), _SCHEMA.field(column).type)
    yield _batch(made, len(rows))


def _ids(targets: list[str]) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return instance and number of tunnels, and whether a target names one."""
    pairs = [tunnel_of(text) for text in targets]
    good = np.array([pair is not None for pair in pairs], np.bool_)
    masked = [[number & _MASK for number in pair or (0, 0)] for pair in pairs]
    numbers = np.array(masked, np.uint64).reshape(-1, 2).astype(np.int64)
    return numbers[:, 0], numbers[:, 1], good


def _columns(batch: pa.RecordBatch, rows: Rows, links: Ints, numbers: Ints) -> dict[str, pa.Array]:
    """Return the columns that messages and packets share."""
    picked = pa.array(rows)
    return {name: batch.column(name).take(picked) for name in ("ts_ns", *_OF_MESSAGE)} | {
        "event": repeated("message", len(rows)),
        "rank": pa.array(np.full(len(rows), k.RANKS[k.OTHER])),
        "link": pa.array(links[rows]),
        "number": pa.array(numbers[rows]),
    }


def _spread(values: pa.Array, places: Rows, rows: int, kind: pa.DataType) -> pa.Array:
    """Return values at their rows, null elsewhere."""
    numbers = np.full(rows, NO, np.int64)
    numbers[places] = np.arange(len(places))
    return pc.cast(values, kind).take(pa.array(numbers, mask=numbers < 0))


def _of_links(
    columns: Columns, arrays: k.EventArrays, texts: Texts, numbers: Ints
) -> Iterator[pa.RecordBatch]:
    for event, kind in (("fault", k.FAULT), ("closed", k.END)):
        rows = np.flatnonzero(arrays.of_link & (columns.narrow[k.KIND] == kind))
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
