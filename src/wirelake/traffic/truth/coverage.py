"""Truth of `coverage`, and how many messages of each kind there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from ..packets.packet_template import Plate
from .cells import (
    Conn,
    File,
    Row,
    Sheet,
    Time,
)
from .sightings import DIRECTIONS, Seen

__all__ = ["Extra", "Kind", "counts", "coverage"]


class Kind(NamedTuple):
    """What messages are counted by."""

    protocol: str
    kind: str
    name: str
    direction: str


@dataclass(slots=True)
class Extra:
    """Copies that a capture has beside the packets of its plate, by connection and direction."""

    packets: dict[tuple[int, int], int] = field(default_factory=dict)
    bytes: dict[tuple[int, int], int] = field(default_factory=dict)


def counts(seen: Seen) -> Counter[Kind]:
    """Messages of each kind."""
    return Counter(
        Kind(each.protocol, each.means.kind, each.means.name, DIRECTIONS[each.direction])
        for each in seen.messages
    )


def coverage(plate: Plate, seen: Seen, lost: frozenset[int], extra: Extra) -> Sheet:
    """One row for each stream; `lost` are items that the capture lacks, `extra` what it has
    beside them."""
    packets: dict[tuple[int, int], list[int]] = {}
    for n, item in enumerate(plate.items):
        if item.is_packet and n not in lost:
            packets.setdefault((item.connection, item.direction), []).append(n)
    read: Counter[tuple[int, int]] = Counter()
    sizes: Counter[tuple[int, int]] = Counter()
    for each in seen.messages:
        if each.tunnel is None:
            read[each.connection, each.direction] += 1
            sizes[each.connection, each.direction] += each.size
    return [
        {
            "file": File(items[0]),
            "connection": Conn(key[0]),
            "direction": DIRECTIONS[key[1]],
            "protocol": plate.mould.connections[key[0]].protocol,
            "first_ns": Time(items[0]),
            "last_ns": Time(items[-1]),
            "packets": len(items) + extra.packets.get(key, 0),
            "decoded_bytes": sizes[key],
            "messages": read[key],
            **_bytes(seen, key, extra.bytes.get(key, 0)),
        }
        for key, items in packets.items()
    ]


def _bytes(seen: Seen, key: tuple[int, int], copied: int) -> Row:
    stream = seen.streams[key]
    wrong = [each.fault for each in seen.faults if (each.connection, each.direction) == key]
    payload = sum(stop - start for start, stop, _ in stream.pieces) + copied
    new = int((stream.owners >= 0).sum())
    return {
        "payload_bytes": payload,
        "new_bytes": new,
        "duplicate_bytes": payload - new,
        "gap_bytes": stream.size - new,
        "span_bytes": stream.size,
        "faulty_bytes": sum(each.present_bytes for each in wrong),
        "undecryptable_bytes": 0,
        "ignored_bytes": 0,
        "faults": len(wrong),
    }
