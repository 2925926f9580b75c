"""Puts faults into a share of a shard's messages, and makes the rows of `faults`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wirelake.capture.format.constants import FAULT_BYTES
from wirelake.records.schema import schema

from ..packets.instances import Instances
from ..packets.writer import Edits, Style
from ..scenes.provider import DIRECTIONS
from ..truth.messages import CapturedStream, StreamFault
from ..truth.tables import Truth
from .fault_plan import KINDS, FaultTarget, InjectedFault, inject

__all__ = ["fault_table", "inject_faults"]

_ATTEMPTS: Final = 4
"""Kinds of faults that are tried on one instance."""
_LAST: Final = 0.97
"""Blocks are damaged before this quantile of time: a reader needs packets behind them."""


def inject_faults(
    groups: Sequence[Instances], share: float, style: Style, edits: Edits, rng: random.Random
) -> list[InjectedFault]:
    """Put faults into a share of all messages, each in another instance."""
    if not share:
        return []
    messages = sum(len(instances.times) * _messages(instances) for instances in groups)
    targets = [(w, k) for w, instances in enumerate(groups) for k in range(len(instances.times))]
    rng.shuffle(targets)
    late = np.quantile(np.concatenate([instances.times[:, -1] for instances in groups]), _LAST)
    kinds = cycle(KINDS)
    found: list[InjectedFault] = []
    for w, k in targets:
        if len(found) >= round(messages * share):
            break
        for kind in (next(kinds) for _ in range(_ATTEMPTS)):
            if kind == "block" and groups[w].times[k, -1] > late:
                continue
            result = inject(FaultTarget(w, groups[w], k), kind, style, edits, rng)
            if result is not None:
                found.append(result)
                break
    return found


def _messages(instances: Instances) -> int:
    connections = instances.packets.template.connections
    return sum(len(stream.frames) for each in connections for stream in each.streams)


def fault_table(
    injected: list[tuple[InjectedFault, Truth]], style: Style, files: Sequence[str]
) -> pa.Table:
    """Return the rows of `faults`."""
    rows: list[dict[str, Any]] = []
    for each, truth in injected:
        if each.damaged is not None:
            rows.append(_block_row(each, each.damaged, style, files))
        for found in truth.read.faults:
            rows.append(_row(each, found.connection, found.direction, found.fault, truth, files))
    return pa.Table.from_pylist(rows, schema=schema("faults"))


def _block_row(each: InjectedFault, n: int, style: Style, files: Sequence[str]) -> dict[str, Any]:
    instances, k = each.target.instances, each.target.k
    block = instances.rows[k, instances.packets.starts[n] : instances.packets.stops[n]].tobytes()
    return {
        "file": files[instances.files[k, n]],
        "offset": int(instances.offsets[k, n]),
        "present_bytes": len(block),
        "missing_bytes": 0,
        "code": "bad_block",
        "detail": style.damage_detail(block),
        "bytes": block[:FAULT_BYTES],
    }


def _row(
    each: InjectedFault,
    place: int,
    direction: int,
    fault: StreamFault,
    truth: Truth,
    files: Sequence[str],
) -> dict[str, Any]:
    instances, k = each.target.instances, each.target.k
    row: dict[str, Any] = {
        "connection": int(instances.connections[k, place]),
        "direction": DIRECTIONS[direction],
        "protocol": instances.packets.template.connections[place].protocol,
        "stream_offset": fault.start,
        "present_bytes": fault.present_bytes,
        "missing_bytes": fault.missing,
        "code": fault.code,
        "field": fault.field,
        "detail": fault.detail,
    }
    if fault.code == "conflict":
        copy = each.copies[-1]
        item = instances.packets.items[fault.item]
        size = item.payload_at + item.payload[1] - item.payload[0]
        return row | {
            "ts_ns": copy.time_ns,
            "file": files[copy.file],
            "offset": copy.offset + copy.differs_at,
            "bytes": copy.data[copy.differs_at : size][:FAULT_BYTES],
        }
    item = instances.packets.items[fault.item]
    inside = item.payload_at + fault.at - item.payload[0]
    return row | {
        "ts_ns": int(instances.times[k, fault.item]),
        "file": files[instances.files[k, fault.item]],
        "offset": int(instances.offsets[k, fault.item]) + inside,
        "bytes": _sample(instances, k, fault, truth.read.streams[place, direction]),
    }


def _sample(instances: Instances, k: int, fault: StreamFault, captured: CapturedStream) -> bytes:
    """Return the first bytes that do not decode."""
    out = bytearray()
    for start, stop in fault.present:
        for position in range(start, min(stop, start + FAULT_BYTES)):
            n = int(captured.owners[position])
            item = instances.packets.items[n]
            column = instances.packets.starts[n] + item.payload_at + position - item.payload[0]
            out.append(instances.rows[k, column])
    return bytes(out[:FAULT_BYTES])
