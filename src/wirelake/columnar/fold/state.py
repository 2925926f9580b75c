"""What a fold remembers between two steps, by connection, so that shares may change.

The file format is that of `wirelake.columnar.state_format`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.records.rows import Closed, Fact, Opened

from ..state_format import check, decode, encode
from .event_builder import Source
from .memory import Saved

__all__ = ["EventList", "FoldState", "PendingEvents", "TunnelState"]

_FOLD: Final = "fold"
_TUNNELS: Final = "tunnels"


class EventList(msgspec.Struct, frozen=True):
    """Events that are no rows of a batch, each with its place among all of them."""

    opened: list[tuple[int, Opened]] = []
    closed: list[tuple[int, Closed]] = []
    facts: list[tuple[int, Fact]] = []

    @staticmethod
    def of(events: Sequence[Any]) -> EventList:
        """Return events sorted by their class."""
        found = EventList([], [], [])
        for place, event in enumerate(events):
            match event:
                case Opened():
                    found.opened.append((place, event))
                case Closed():
                    found.closed.append((place, event))
                case _:  # a fact as a capture has it, or as the engines do
                    fact = Fact(event.ts_ns, event.kind, event.connection, event.data)
                    found.facts.append((place, fact))
        return found

    def events(self) -> list[Opened | Closed | Fact]:
        """Return the events in their order."""
        every: list[tuple[int, Opened | Closed | Fact]]
        every = [*self.opened, *self.closed, *self.facts]
        return [event for _, event in sorted(every, key=lambda each: each[0])]


class PendingEvents(msgspec.Struct, frozen=True):
    """Events of one table that wait, in a batch or in a list."""

    table: str
    batch: pa.RecordBatch | None
    events: EventList | None

    @staticmethod
    def of(source: Source) -> PendingEvents:
        """Return a source of events as it is saved."""
        table, found = source
        if isinstance(found, pa.RecordBatch):
            return PendingEvents(table, found, None)
        return PendingEvents(table, None, EventList.of(found))

    def source(self) -> Source:
        """Return the source of events that was saved."""
        if self.batch is not None:
            return self.table, self.batch
        return self.table, [] if self.events is None else self.events.events()


class FoldState(msgspec.Struct, frozen=True):
    """Given all states of one place in a source, a fold restores the connections of its share."""

    hashes: NDArray[np.int64]
    """Of each connection: its share is the remainder of this."""
    memory: Saved
    pending: list[PendingEvents]

    def to_bytes(self) -> bytes:
        """Return the state in the file format."""
        return encode(_FOLD, self)

    @classmethod
    def from_bytes(cls, data: bytes) -> FoldState:
        """Return what `to_bytes` was given. Raises StateError, which is a ValueError."""
        return decode(_FOLD, data, cls)

    def check(self) -> None:
        """Raise StateError when a number is out of range."""
        check(len(self.hashes) == self.memory.connections.num_rows, "hashes")


class TunnelState(msgspec.Struct, frozen=True):
    """What the fold of one share of the tunnels remembers."""

    share: int
    shares: int
    memory: Saved
    rows: pa.RecordBatch
    ended: int
    """How many tunnels ever ended."""
    closed_links: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        """Return the state in the file format."""
        return encode(_TUNNELS, self)

    @classmethod
    def from_bytes(cls, data: bytes) -> TunnelState:
        """Return what `to_bytes` was given. Raises StateError, which is a ValueError."""
        return decode(_TUNNELS, data, cls)
