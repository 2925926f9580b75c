"""Wounds a share of a shard's messages, and tells what a reader must say of each wound."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wirelake.capture.format.limits import FAULT_BYTES
from wirelake.records.schema import schema

from ..packets.packet_template import Cast
from ..packets.writer import Edits, Style
from ..truth.reading import Captured, StreamFault
from ..truth.sheets import Sheets
from ..truth.sightings import DIRECTIONS
from .fault_plan import (
    KINDS,
    Victim,
    Wound,
    wound,
)

__all__ = ["fault_table", "injure"]

_ATTEMPTS: Final = 4
"""Kinds that are tried on one victim before another is taken."""
_LAST: Final = 0.97
"""Blocks are damaged before this share of a shard's packets: a reader needs some behind them."""


def injure(
    casts: Sequence[Cast], share: float, style: Style, edits: Edits, rng: random.Random
) -> list[Wound]:
    """Wounds so many of all messages, each in another scene."""
    if not share:
        return []
    messages = sum(len(cast.times) * _messages(cast) for cast in casts)
    victims = [(w, k) for w, cast in enumerate(casts) for k in range(len(cast.times))]
    rng.shuffle(victims)
    late = np.quantile(np.concatenate([cast.times[:, -1] for cast in casts]), _LAST)
    kinds = cycle(KINDS)
    found: list[Wound] = []
    for w, k in victims:
        if len(found) >= round(messages * share):
            break
        for kind in (next(kinds) for _ in range(_ATTEMPTS)):
            if kind == "block" and casts[w].times[k, -1] > late:
                continue
            result = wound(Victim(w, casts[w], k), kind, style, edits, rng)
            if result is not None:
                found.append(result)
                break
    return found


def _messages(cast: Cast) -> int:
    connections = cast.plate.mould.connections
    return sum(len(stream.frames) for each in connections for stream in each.streams)


def fault_table(told: list[tuple[Wound, Sheets]], style: Style, files: Sequence[str]) -> pa.Table:
    """The rows of `faults`."""
    rows: list[dict[str, Any]] = []
    for each, sheets in told:
        if each.damaged is not None:
            rows.append(_block_row(each, each.damaged, style, files))
        for seen in sheets.seen.faults:
            rows.append(_row(each, seen.connection, seen.direction, seen.fault, sheets, files))
    return pa.Table.from_pylist(rows, schema=schema("faults"))


def _block_row(each: Wound, n: int, style: Style, files: Sequence[str]) -> dict[str, Any]:
    cast, k = each.victim.cast, each.victim.k
    block = cast.rows[k, cast.plate.starts[n] : cast.plate.stops[n]].tobytes()
    return {
        "file": files[cast.files[k, n]],
        "offset": int(cast.offsets[k, n]),
        "present_bytes": len(block),
        "missing_bytes": 0,
        "code": "bad_block",
        "detail": style.damage_detail(block),
        "bytes": block[:FAULT_BYTES],
    }


def _row(
    each: Wound,
    place: int,
    way: int,
    fault: StreamFault,
    sheets: Sheets,
    files: Sequence[str],
) -> dict[str, Any]:
    cast, k = each.victim.cast, each.victim.k
    row: dict[str, Any] = {
        "connection": int(cast.connections[k, place]),
        "direction": DIRECTIONS[way],
        "protocol": cast.plate.mould.connections[place].protocol,
        "stream_offset": fault.start,
        "present_bytes": fault.present_bytes,
        "missing_bytes": fault.missing,
        "code": fault.code,
        "field": fault.field,
        "detail": fault.detail,
    }
    if fault.code == "conflict":
        copy = each.copies[-1]
        item = cast.plate.items[fault.item]
        size = item.payload_at + item.payload[1] - item.payload[0]
        return row | {
            "ts_ns": copy.time_ns,
            "file": files[copy.file],
            "offset": copy.offset + copy.differs_at,
            "bytes": copy.data[copy.differs_at : size][:FAULT_BYTES],
        }
    item = cast.plate.items[fault.item]
    inside = item.payload_at + fault.at - item.payload[0]
    return row | {
        "ts_ns": int(cast.times[k, fault.item]),
        "file": files[cast.files[k, fault.item]],
        "offset": int(cast.offsets[k, fault.item]) + inside,
        "bytes": _sample(cast, k, fault, sheets.seen.streams[place, way]),
    }


def _sample(cast: Cast, k: int, fault: StreamFault, seen: Captured) -> bytes:
    """The first of the bytes that would not decode."""
    out = bytearray()
    for start, stop in fault.present:
        for position in range(start, min(stop, start + FAULT_BYTES)):
            n = int(seen.owners[position])
            item = cast.plate.items[n]
            column = cast.plate.starts[n] + item.payload_at + position - item.payload[0]
            out.append(cast.rows[k, column])
    return bytes(out[:FAULT_BYTES])
