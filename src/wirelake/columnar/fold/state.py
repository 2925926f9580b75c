"""What a fold remembers between two steps, by connection, so that shares may change."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import zstandard
from numpy.typing import NDArray

from .event_builder import Source
from .memory import Saved

__all__ = ["FoldState", "packed", "unpacked"]

_LEVEL: Final = 1
_VERSION: Final = 1
_HEAD: Final = b"wirelake fold "


@dataclass(frozen=True)
class FoldState:
    """Given all states of one place in a source, a fold takes the connections of its share."""

    hashes: NDArray[np.int64]
    """Of each connection: what its share is a remainder of."""
    memory: Saved
    held: list[Source]
    """Events that wait."""

    def to_bytes(self) -> bytes:
        """As a file keeps it."""
        return packed(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> FoldState:
        """What `to_bytes` gave. Raises ValueError for anything else."""
        found = unpacked(data)
        if not isinstance(found, cls):
            raise ValueError("not the state of a fold")
        return found


def packed(value: object) -> bytes:
    """An object as bytes, with the version of what it consists of."""
    data = zstandard.ZstdCompressor(level=_LEVEL).compress(pickle.dumps(value, protocol=5))
    return _HEAD + _VERSION.to_bytes(4, "big") + data


def unpacked(data: bytes) -> Any:
    """What `packed` was given. Raises ValueError for another version, and for anything else."""
    start = len(_HEAD) + 4
    if not data.startswith(_HEAD):
        raise ValueError("not the state of a fold")
    version = int.from_bytes(data[len(_HEAD) : start], "big")
    if version != _VERSION:
        raise ValueError(f"the state of a fold has version {version}; this program has {_VERSION}")
    try:
        return pickle.loads(zstandard.ZstdDecompressor().decompress(data[start:]))
    except (zstandard.ZstdError, pickle.UnpicklingError, EOFError) as error:
        raise ValueError(f"the state of a fold is damaged: {error}") from None
