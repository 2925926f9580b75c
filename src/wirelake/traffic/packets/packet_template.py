"""A packet template: the packets of a scene template as bytes, and the columns that vary.

A capture style makes the items, `placement.py` finds the columns in which instances differ, and
`instances.py` makes a matrix of them, with one row per instance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..scenes.template import SceneTemplate
from .numbers import Bytes, Ints

__all__ = ["SPACING_S", "Columns", "Instances", "Item", "PacketTemplate"]

SPACING_S: Final = 0.000_004
"""Minimum pause between two payload packets of a connection. Even when shortened, their timestamps
differ in microseconds, so that the order of packets is the same for every reader."""

Columns: TypeAlias = npt.NDArray[np.int64]
"""Columns of the matrix: one row for each value, one column number for each of its bytes."""


@dataclass(slots=True)
class Item:
    """A packet or block of a template; one without bytes only marks a time."""

    at: float
    data: bytes = b""
    connection: int = -1
    direction: int = 0
    payload: tuple[int, int] = (0, 0)
    """Range of the stream that it carries."""
    payload_at: int = 0
    """Offset of the payload in `data`."""
    event: int = -1
    flags: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    """Offsets in `data` of values that vary, by what they are."""
    seq: int = 0
    """Sequence and acknowledgement number, relative to the first byte after the SYN."""
    ack: int = 0
    hidden: bool = False
    """Whether its bytes stay out of the capture: a key log line for a separate file."""

    @property
    def is_packet(self) -> bool:
        """Whether it is a packet of a connection, not a block about one."""
        return self.flags != 0


@dataclass(slots=True)
class PacketTemplate:
    """Everything that instantiating needs."""

    template: SceneTemplate
    items: list[Item]
    row: Bytes
    """All items one after the other, each starting at a multiple of four."""
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    pauses: npt.NDArray[np.float64]
    """Pause before each item, in nanoseconds."""
    ids: dict[str, tuple[Columns, npt.NDArray[np.uint64]]]
    """Columns of ids by form, and the offset of each in the block of numbers."""
    times: dict[str, tuple[Columns, npt.NDArray[np.int64]]]
    """Columns of times by form, and the item whose time each is."""
    marks: dict[str, tuple[Columns, npt.NDArray[np.int64]]]
    """Columns of addresses, ports and connection ids, and the connection of each."""
    numbers: dict[str, tuple[Columns, npt.NDArray[np.int64], npt.NDArray[np.int64]]]
    """Columns of sequence numbers and checksums, the stream or connection of each, and what is
    added."""
    at: dict[int, int]
    """The item of each event."""
    carriers: list[tuple[list[int], list[int]]]
    """Items with payload, in order, by connection and direction."""


@dataclass(slots=True)
class Instances:
    """All instances of one packet template."""

    packets: PacketTemplate
    rows: Bytes
    times: npt.NDArray[np.int64]
    """Capture time of each item, by instance and item."""
    first: Ints
    """First number in the block of each instance."""
    hosts: npt.NDArray[Any]
    """Client address, by instance and connection."""
    ports: npt.NDArray[Any]
    connections: npt.NDArray[np.int64]
    """Connection ids."""
    files: npt.NDArray[np.int64]
    """File of the shard that has each item, by instance and item."""
    offsets: npt.NDArray[np.int64]
    """Offset of each item in its file."""

    def only(self, some: list[int]) -> Instances:
        """Return a selection of the instances."""
        return Instances(
            self.packets,
            self.rows,
            self.times[some],
            self.first[some],
            self.hosts[some],
            self.ports[some],
            self.connections[some],
            self.files[some],
            self.offsets[some],
        )
