"""What a pipeline knows when its files are read: enough to continue with the next ones.

    pipeline = CapturePipeline(["a-1.pcap"])
    ...                                                   # pipeline.windows(last=False)
    kept = pipeline.save().to_bytes()
    pipeline = CapturePipeline(["a-2.pcap"], state=PipelineState.from_bytes(kept))

A state is that of one share of the connections. Those of all shares, saved after the same file, can
be given to pipelines of any number of shares: each restores its own connections. The numbers of
connections and streams are those of `tcp/state.py`, the file format is that of `state_format.py`.

A state holds keys: those that were in captures, and those that fitted a connection. Who writes one
to a file protects the file (`docs/guides/security.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.capture.decode.decryption import Remembered, Secret

from ..decode.messages import ENTRY, UNSEEN
from ..decode.scalar import ReaderState
from ..state_format import StateError, check, column, decode, encode, fill
from ..tcp import flows as slots
from ..tcp.state import FrontState, Restored, RestoredFront, mapped, renumbered

__all__ = ["PipelineState", "RestoredPipeline"]

_KIND: Final = "pipeline"

_Value = TypeVar("_Value")


class PipelineState(msgspec.Struct, frozen=True):
    """What a pipeline knows of the connections of its share."""

    share: int
    shares: int
    front: FrontState
    protocols: tuple[str, ...]
    """What the numbers in `coverage` mean."""
    coverage: pa.RecordBatch
    lives: NDArray[np.uint8]
    """Of each connection: what `lifecycle.py` knows."""
    readers: dict[int, ReaderState]
    """By stream: the readers of those with an open fault."""
    key_names: dict[str, dict[int, tuple[str, str]]]
    """By protocol and connection: what messages said about keys."""
    openings: dict[int, Remembered]
    """By connection: what its openings remember."""
    secrets: tuple[list[Secret], list[str]] | None
    """The keys that were in captures, and for which protocols; only in share 0, for all."""

    def hashes(self) -> dict[int, int]:
        """Return the hashes of the connections that are held, by id.

        The share of a connection, of any number of shares, is the remainder of its hash.
        """
        found = self.front.connections
        ids, hashes = (column(found, name, slots.CONNECTION) for name in ("id", "hash"))
        return dict(zip(ids.tolist(), hashes.tolist(), strict=True))

    def to_bytes(self) -> bytes:
        """Return the state in the file format."""
        return encode(_KIND, self)

    @staticmethod
    def from_bytes(data: bytes) -> PipelineState:
        """Return what `to_bytes` was given. Raises StateError, which is a ValueError."""
        return decode(_KIND, data, PipelineState)

    def check(self) -> None:
        """Raise StateError when a number is out of range."""
        streams = self.front.streams.num_rows
        check(
            self.coverage.num_rows == streams and len(self.lives) == len(self.front.place), "rows"
        )
        numbers = column(self.coverage, "protocol", ENTRY)
        check(np.all((numbers >= UNSEEN) & (numbers < len(self.protocols))), "protocol")
        check(all(0 <= stream < streams for stream in self.readers), "readers")
        referred = {file for each in self.readers.values() for file in each.files()}
        check(referred <= self.front.files.keys(), "files")


class RestoredPipeline:
    """What is known from earlier files, by one share of the connections."""

    def __init__(self, states: Sequence[PipelineState], share: int, shares: int):
        numbers = sorted(state.share for state in states)
        if numbers != list(range(states[0].shares)) or len({each.shares for each in states}) > 1:
            raise StateError("state: expected those of all shares, saved after the same file")
        for state in states:
            state.check()
        self.front = RestoredFront([state.front for state in states], share, shares)
        self.coverage = np.zeros(len(self.front.streams), ENTRY)
        self.coverage["protocol"] = UNSEEN
        self.protocols: list[str] = []
        """What the numbers in `coverage` mean."""
        self.readers: dict[int, tuple[ReaderState, dict[int, int]]] = {}
        """By stream; with the present numbers of files."""
        self.lives: list[tuple[list[int], list[int]]] = []
        """Connections, and what `lifecycle.py` knows of each."""
        self._states = states
        ids = self.front.connections["id"]
        self._mine = set(ids[self.front.connections["ours"] == 1].tolist())
        for state, part in zip(states, self.front.parts, strict=True):
            self._restore(state, part)

    @property
    def secrets(self) -> tuple[list[Secret], list[str]]:
        """The keys that were in captures, and the protocols that had any."""
        found = [state.secrets for state in self._states if state.secrets is not None]
        return found[0] if found else ([], [])

    def openings(self) -> dict[int, Remembered]:
        """Return what the openings of our connections remember."""
        return self._ours(each for state in self._states for each in state.openings.items())

    def key_names(self, protocol: str) -> dict[int, tuple[str, str]]:
        """Return what the messages of our connections said about keys."""
        return self._ours(
            each for state in self._states for each in state.key_names.get(protocol, {}).items()
        )

    def _ours(self, found: Iterable[tuple[int, _Value]]) -> dict[int, _Value]:
        return {connection: value for connection, value in found if connection in self._mine}

    def _restore(self, state: PipelineState, part: Restored) -> None:
        mine = np.flatnonzero(part.streams >= 0)
        fill(self.coverage, part.streams[mine], state.coverage, mine)
        numbers: NDArray[Any] = column(state.coverage, "protocol", ENTRY)[mine]
        names = {at: state.protocols[at] for at in np.unique(numbers).tolist() if at >= 0}
        protocols = renumbered(names, self.protocols)
        self.coverage["protocol"][part.streams[mine]] = mapped(protocols, numbers)
        ids = column(state.front.connections, "id", slots.CONNECTION)[part.ours].tolist()
        self.lives.append((ids, state.lives[part.ours].tolist()))
        for at, reader in state.readers.items():
            if part.streams[at] >= 0:
                self.readers[int(part.streams[at])] = reader, part.files
