"""What a fold remembers between two steps, by connection, so that shares may change.

The file format is that of `wirelake.columnar.state_format`.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..state_format import check, decode, encode
from .memory import Saved
from .pending import PendingEvents

__all__ = ["FoldState", "TunnelState"]

_FOLD: Final = "fold"
_TUNNELS: Final = "tunnels"


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
