"""What a pipeline knows when its files are read: enough to go on with the next ones.

    pipeline = CapturePipeline(["a-1.pcap"])
    ...                                                   # pipeline.windows(last=False)
    kept = pipeline.save().to_bytes()
    pipeline = CapturePipeline(["a-2.pcap"], state=PipelineState.from_bytes(kept))

A state is that of one share of the connections. Those of all shares, taken at the same place, can
be given to pipelines of any number of shares: each takes its own connections over (`resuming.py`).

Connections are numbered by last use, the longest silent first; connection n of a state has the
streams 2n (c2s) and 2n + 1 (s2c). What all of them have is in arrays. What only odd streams have
is pickled at once, because the pipeline goes on to change it.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import zstandard
from numpy.typing import NDArray

from wirelake.capture.decode.decryption import Remembered
from wirelake.capture.decode.keys import Secret

from ..tcp.pieces import Pieces

if TYPE_CHECKING:
    from ..decode.resumable_reader import Reader

__all__ = [
    "CarryState",
    "Columns",
    "FrontState",
    "Odd",
    "PipelineState",
    "columns",
    "fill",
    "share_of",
]

_FORMAT: Final = 1
"""Goes up whenever anything in a state changes, the records of connections and streams included."""
_HEAD: Final = struct.Struct(">4sI")
_MAGIC: Final = b"WHPS"
_LEVEL: Final = 1
"""Of zstandard: most of a state is small numbers, which even this level finds."""
_MASK: Final = (1 << 64) - 1

Columns = dict[str, NDArray[Any]]
"""Arrays of the same length, by name."""


def columns(records: NDArray[Any], at: NDArray[Any], names: Sequence[str]) -> Columns:
    """Some fields of some records."""
    return {name: records[name][at] for name in names}


def fill(records: NDArray[Any], at: NDArray[Any], found: Columns, of: NDArray[Any]) -> None:
    """Write rows `of` some columns to records."""
    for name, values in found.items():
        records[name][at] = values[of]


def share_of(connection: int, shares: int) -> int:
    """The share of a connection that a recorder has numbered."""
    value = connection & _MASK
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value >> 33) * factor & _MASK
    return ((value ^ value >> 33) >> 32) % shares


@dataclass(frozen=True)
class CarryState:
    """Bytes of unfinished frames, one row for each stream that has some."""

    stream: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    data: NDArray[np.uint8]
    pieces: Pieces


@dataclass(frozen=True)
class FrontState:
    """What the front end knows of the connections of its share."""

    now_ns: int
    """The latest time that was seen."""
    packets: int
    """Packets so far, of all shares."""
    held: int
    """Connections that are held, of all shares."""
    place: NDArray[np.int32]
    """Of each connection: its number among those of all shares."""
    connections: Columns
    streams: Columns
    carry: CarryState
    assemblers: bytes
    """Pickled, by stream: those of streams that were ever out of order."""
    files: dict[int, str]
    """The files that something in here refers to, by number."""


@dataclass(frozen=True)
class PipelineState:
    """What a pipeline knows of the connections of its share."""

    share: int
    shares: int
    front: FrontState
    files: dict[int, str]
    """The files that something in `odd` refers to, by number."""
    protocols: tuple[str, ...]
    """What the numbers in `ledger` mean."""
    ledger: Columns
    lives: NDArray[np.uint8]
    """Of each connection: what `lifecycle.py` knows."""
    odd: bytes
    """Pickled: an `Odd`."""

    def hashes(self) -> dict[int, int]:
        """The connections that are held, by id, and the hash that tells the share of each.

        Its share, of any number of them, is the remainder of the hash.
        """
        found = self.front.connections
        return dict(zip(found["id"].tolist(), found["hash"].tolist(), strict=True))

    def to_bytes(self) -> bytes:
        """The state, compressed."""
        packed = pickle.dumps(self, protocol=pickle.HIGHEST_PROTOCOL)
        return _HEAD.pack(_MAGIC, _FORMAT) + zstandard.ZstdCompressor(_LEVEL).compress(packed)

    @staticmethod
    def from_bytes(data: bytes) -> PipelineState:
        """What `to_bytes` gave. Raises ValueError when it is none, or of another version."""
        magic, number = _HEAD.unpack(data[: _HEAD.size].ljust(_HEAD.size, b"\0"))
        if magic != _MAGIC:
            raise ValueError("not the state of a pipeline")
        if number != _FORMAT:
            raise ValueError(
                f"the state of a pipeline has format {number}, and this version of Wirelake "
                f"reads {_FORMAT}: read the captures from the beginning"
            )
        try:
            found = pickle.loads(zstandard.ZstdDecompressor().decompress(data[_HEAD.size :]))
        except (zstandard.ZstdError, pickle.UnpicklingError) as error:
            raise ValueError(f"the state of a pipeline is damaged: {error}") from error
        assert isinstance(found, PipelineState)
        return found


@dataclass(frozen=True)
class Odd:
    """What only some streams and connections have."""

    readers: dict[int, Reader]
    """By stream: the readers of those with an open fault."""
    told: dict[str, dict[int, tuple[str, str]]]
    """By protocol and connection: what messages said about keys."""
    openings: dict[int, Remembered]
    """By connection: what its openings remember."""
    secrets: tuple[list[Secret], set[str]] | None
    """The keys that were in captures; share 0 has them for all."""
