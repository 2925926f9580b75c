"""Rows of `_tunnel_events` in arrays, as kernels want them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.records.calls import HARMLESS
from wirelake.records.crossing import CROSSING

from . import told as k
from .columns import from_server, numbers_of
from .hashing import id_hashes
from .tables import NO
from .texts import Texts, indices_of

__all__ = ["events_of_share", "tunnels_told"]

_PACKETS: Final = {
    "tunnel_connect": k.CONNECT,
    "tunnel_connected": k.CONNECTED,
    "tunnel_disconnect": k.DISCONNECT,
    "tunnel_relay": k.CARRIER,
}
"""Kinds by the name of a packet; all others are ABOUT."""
_HALF: Final = (1 << 64) - 1
_COLUMNS: Final = [
    name for name in CROSSING["_tunnel_events"].names if name not in ("rank", "number")
]


def tunnels_told(
    batches: Iterable[pa.RecordBatch], texts: Texts, share: int, shares: int
) -> k.Told:
    """The events of a share's tunnels, and those of all links, in their order."""
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
    return k.Told(
        wide,
        narrow,
        np.empty((3, 0), np.int32),
        order.astype(np.int64),
        np.empty(0, np.bool_),
        np.empty(0, np.int32),
        np.empty(0, np.bool_),
        np.empty((3, 0), np.int64),
    )


def events_of_share(batch: pa.RecordBatch, share: int, shares: int) -> pa.RecordBatch:
    """Rows of `_tunnel_events` without the tunnels of other shares."""
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
    of = {name: found[name].take(picked) for name in ("name", "ip", "port", "result")}
    names, name_texts = indices_of(of["name"])
    kinds = np.array([_PACKETS.get(text, k.ABOUT) for text in name_texts])[names]
    refused = pc.fill_null(pc.invert(of["result"]), False).to_numpy(zero_copy_only=False)
    narrow[k.KIND, packets] = np.where(refused & (kinds == k.CONNECTED), k.REFUSED, kinds)
    wide[k.INSTANCE, packets] = found["instance_id"].take(picked).to_numpy()
    wide[k.TUNNEL, packets] = found["tunnel_id"].take(picked).to_numpy()
    addresses, packed = indices_of(of["ip"])
    halves = np.array([*(_address(each) for each in packed), _address(b"")], np.uint64)
    users = halves.astype(np.int64)[addresses]
    wide[k.USER_HIGH, packets], wide[k.USER_LOW, packets] = users[:, 0], users[:, 1]
    narrow[k.USER_FAMILY, packets] = users[:, 2]
    narrow[k.USER_PORT, packets] = pc.fill_null(of["port"], NO).to_numpy()


def _address(packed: Any) -> tuple[int, int, int]:
    """The halves of an address, and its family; 0 when it is none."""
    number = int.from_bytes(packed, "big")
    family = {4: 4, 16: 6}.get(len(packed), 0)
    return (number >> 64, number & _HALF, family) if family else (0, 0, 0)
