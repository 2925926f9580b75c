"""A plate: the packets of a mould as bytes, with the columns in which casts differ.

A style makes the items of a plate, `engraving.py` finds the columns, `casting.py` makes a matrix of
it, with a row for each cast.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..scenes.template import Mould
from .numbers import Bytes, Ints

__all__ = ["SPACING_S", "Cast", "Columns", "Item", "Plate"]

SPACING_S: Final = 0.000_004
"""Between two packets of a connection with payload, at least: even when it is shortened, their
times differ in every file, so that their order is no matter of opinion."""

Columns: TypeAlias = npt.NDArray[np.int64]
"""Columns of a matrix, as many in each row as what stands there has bytes."""


@dataclass(slots=True)
class Item:
    """A packet or block of a plate; one without bytes only marks a time."""

    at: float
    data: bytes = b""
    connection: int = -1
    direction: int = 0
    payload: tuple[int, int] = (0, 0)
    """Which bytes of the stream it carries."""
    payload_at: int = 0
    """Where in `data` they begin."""
    happening: int = -1
    flags: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    """Where in `data` something of the cast's own stands, by what it is."""
    seq: int = 0
    """Its sequence number and what it acknowledges, counted from the byte behind the SYN."""
    ack: int = 0
    hidden: bool = False
    """Whether its bytes are for others than the capture: a line of a key log."""

    @property
    def is_packet(self) -> bool:
        """Whether it is a packet of a connection, and not a block about one."""
        return self.flags != 0


@dataclass(slots=True)
class Plate:
    """What casting needs."""

    mould: Mould
    items: list[Item]
    row: Bytes
    """All items, one behind the other, each beginning at a multiple of four."""
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    pauses: npt.NDArray[np.float64]
    """Before each item, in nanoseconds."""
    ids: dict[str, tuple[Columns, npt.NDArray[np.uint64]]]
    """Columns of ids by their form, and the place of each in the block of numbers."""
    times: dict[str, tuple[Columns, npt.NDArray[np.int64]]]
    """Columns of times by their form, and the item of which each is the time."""
    marks: dict[str, tuple[Columns, npt.NDArray[np.int64]]]
    """Columns of addresses, ports and connection ids, and which connection each belongs to."""
    numbers: dict[str, tuple[Columns, npt.NDArray[np.int64], npt.NDArray[np.int64]]]
    """Columns of sequence numbers and checksums: which stream or connection, and what is added."""
    at: dict[int, int]
    """The item that stands for a happening."""
    carriers: list[tuple[list[int], list[int]]]
    """For each connection and direction, the items that carry payload, in order."""


@dataclass(slots=True)
class Cast:
    """All casts of one plate."""

    plate: Plate
    rows: Bytes
    times: npt.NDArray[np.int64]
    """When each item is captured, by cast and item."""
    first: Ints
    """The first number of each cast."""
    hosts: npt.NDArray[Any]
    """Address of each connection's client, by cast and connection."""
    ports: npt.NDArray[Any]
    connections: npt.NDArray[np.int64]
    """Ids of connections."""
    files: npt.NDArray[np.int64]
    """In which file of the shard each item is, by cast and item."""
    offsets: npt.NDArray[np.int64]
    """Where in its file each item begins."""

    def only(self, some: list[int]) -> Cast:
        """These of the casts."""
        return Cast(
            self.plate,
            self.rows,
            self.times[some],
            self.first[some],
            self.hosts[some],
            self.ports[some],
            self.connections[some],
            self.files[some],
            self.offsets[some],
        )
