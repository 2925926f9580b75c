"""All truth tables of one packet template, with `coverage` and the counts of messages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..packets.packet_template import PacketTemplate
from ..scenes.provider import DIRECTIONS
from .calls import calls, deliveries
from .connections import connections, spans, tunnels
from .messages import CapturedStream, FaultRead, SceneRead, read_scene
from .rows import Conn, File, Row, Rows, Time

__all__ = ["TABLES", "AlteredInstance", "Copies", "MessageKind", "Truth", "truth_of"]

TABLES: Final = ("calls", "deliveries", "connections", "tunnels", "coverage", "faults")
"""Tables that have truth."""


class MessageKind(NamedTuple):
    """What messages are counted by."""

    protocol: str
    kind: str
    name: str
    direction: str


@dataclass(slots=True)
class Copies:
    """Retransmitted copies in addition to the template's packets, by connection and direction."""

    packets: dict[tuple[int, int], int] = field(default_factory=dict)
    bytes: dict[tuple[int, int], int] = field(default_factory=dict)


@dataclass(slots=True)
class AlteredInstance:
    """How one instance differs from its template."""

    times: npt.NDArray[np.int64]
    """Capture time of each item."""
    streams: dict[tuple[int, int], CapturedStream] = field(default_factory=dict)
    lost: frozenset[int] = frozenset()
    """Items that are missing in the capture."""
    copies: Copies = field(default_factory=Copies)
    conflicts: list[FaultRead] = field(default_factory=list)


class Truth(NamedTuple):
    """Truth of one scene."""

    tables: dict[str, Rows]
    counts: Counter[MessageKind]
    read: SceneRead


def truth_of(
    packets: PacketTemplate, *, facts: bool, altered: AlteredInstance | None = None
) -> Truth:
    """Return what a reader must find. `facts`: the capture has facts from the recorder."""
    change = altered or AlteredInstance(np.zeros(0, np.int64))
    scene = read_scene(packets, change.streams)
    scene.faults += change.conflicts
    times = None if altered is None else altered.times
    found = spans(packets)
    tables = {
        "calls": calls(packets, scene, found, times),
        "deliveries": deliveries(packets, scene, facts=facts, times=times),
        "connections": connections(packets, scene, found, facts=facts),
        "tunnels": tunnels(packets, scene, found),
        "coverage": _coverage(packets, scene, change.lost, change.copies),
    }
    return Truth(tables, _counts(scene), scene)


def _counts(scene: SceneRead) -> Counter[MessageKind]:
    return Counter(
        MessageKind(each.protocol, each.info.kind, each.info.name, DIRECTIONS[each.direction])
        for each in scene.messages
    )


def _coverage(
    packets: PacketTemplate, scene: SceneRead, lost: frozenset[int], copies: Copies
) -> Rows:
    """Return a row for each stream."""
    carried: dict[tuple[int, int], list[int]] = {}
    for n, item in enumerate(packets.items):
        if item.is_packet and n not in lost:
            carried.setdefault((item.connection, item.direction), []).append(n)
    messages: Counter[tuple[int, int]] = Counter()
    sizes: Counter[tuple[int, int]] = Counter()
    for each in scene.messages:
        if each.tunnel is None:
            messages[each.connection, each.direction] += 1
            sizes[each.connection, each.direction] += each.size
    return [
        {
            "file": File(items[0]),
            "connection": Conn(key[0]),
            "direction": DIRECTIONS[key[1]],
            "protocol": packets.template.connections[key[0]].protocol,
            "first_ns": Time(items[0]),
            "last_ns": Time(items[-1]),
            "packets": len(items) + copies.packets.get(key, 0),
            "decoded_bytes": sizes[key],
            "messages": messages[key],
            **_coverage_bytes(scene, key, copies.bytes.get(key, 0)),
        }
        for key, items in carried.items()
    ]


def _coverage_bytes(scene: SceneRead, key: tuple[int, int], copied: int) -> Row:
    stream = scene.streams[key]
    faults = [each.fault for each in scene.faults if (each.connection, each.direction) == key]
    payload = sum(stop - start for start, stop, _ in stream.pieces) + copied
    new = int((stream.owners >= 0).sum())
    return {
        "payload_bytes": payload,
        "new_bytes": new,
        "duplicate_bytes": payload - new,
        "gap_bytes": stream.size - new,
        "span_bytes": stream.size,
        "faulty_bytes": sum(each.present_bytes for each in faults),
        "undecryptable_bytes": 0,
        "ignored_bytes": 0,
        "faults": len(faults),
    }
