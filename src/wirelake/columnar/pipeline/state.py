"""`PipelineState`: what a pipeline saves after its files, to continue with the next ones.

    pipeline = CapturePipeline(["a-1.pcap"])
    ...                                                   # pipeline.windows(last=False)
    kept = pipeline.save().to_bytes()
    pipeline = CapturePipeline(["a-2.pcap"], state=PipelineState.from_bytes(kept))

A state belongs to one share of the connections. The states of all shares, saved after the same
file, can be given to pipelines of any number of shares: each restores its own connections.
Connections and streams are numbered as in `tcp/state.py`; the file format is in `state_format.py`.

A state contains keys: those that were in captures, and those that fitted a connection. The captures
may be gone when a lake continues, so the keys cannot be left out. Whoever writes a state to a file
must protect the file (`docs/guides/security.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.capture.decode.decryption import DecryptorState, Secret
from wirelake.capture.tcp.assembly import Conflict

from ..decode.messages import ENTRY, UNSEEN
from ..decode.scalar import ReaderState
from ..state_format import StateError, check, column, decode, encode, fill
from ..tcp import flows
from ..tcp.state import FrontState, Restored, RestoredFront, mapped, renumbered

__all__ = ["PipelineState", "RestoredPipeline"]

_KIND: Final = "pipeline"

_Value = TypeVar("_Value")


class PipelineState(msgspec.Struct, frozen=True):
    """The state of a pipeline: the connections of its share.

    Fields with a `name=` have another name in the file, so that files of format 2 stay readable.
    """

    share: int
    shares: int
    front: FrontState
    protocols: tuple[str, ...]
    """The names of the protocol numbers in `coverage`."""
    coverage: pa.RecordBatch
    lifecycle: NDArray[np.uint8] = msgspec.field(name="lives")
    """For each connection: what `Lifecycle` knows."""
    readers: dict[int, ReaderState]
    """By stream: the readers of those with an open fault."""
    key_names: dict[str, dict[int, tuple[str, str]]]
    """By protocol and connection: the key selector that messages named."""
    decryptors: dict[int, DecryptorState] = msgspec.field(name="openings")
    """By connection: the state of its decryptor."""
    secrets: tuple[list[Secret], list[str]] | None
    """The keys that were in captures, and the protocols that had keys; only in share 0, for all."""
    conflicts: list[tuple[int, Conflict]] = []
    """Streams of undecided connections, and retransmissions that differ."""

    def hashes(self) -> dict[int, int]:
        """Return the hashes of the connections that are held, by id.

        The share of a connection, of any number of shares, is the remainder of its hash.
        """
        found = self.front.connections
        ids, hashes = (column(found, name, flows.CONNECTION) for name in ("id", "hash"))
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
            self.coverage.num_rows == streams and len(self.lifecycle) == len(self.front.lru_rank),
            "rows",
        )
        numbers = column(self.coverage, "protocol", ENTRY)
        check(np.all((numbers >= UNSEEN) & (numbers < len(self.protocols))), "protocol")
        check(all(0 <= stream < streams for stream in self.readers), "readers")
        check(all(0 <= stream < streams for stream, _ in self.conflicts), "conflicts")
        # A file number without a name would be an index error in the middle of a later run.
        referred = {file for each in self.readers.values() for file in each.files()}
        referred.update(each.file for _, each in self.conflicts)
        check(referred <= self.front.files.keys(), "files")


class RestoredPipeline:
    """The saved states of all shares, restored for one share of the connections."""

    def __init__(self, states: Sequence[PipelineState], share: int, shares: int):
        numbers = sorted(state.share for state in states)
        # Each share exactly once: without one of them, its connections would start again from
        # nothing.
        if numbers != list(range(states[0].shares)) or len({each.shares for each in states}) > 1:
            raise StateError("state: expected those of all shares, saved after the same file")
        for state in states:
            state.check()
        self.front = RestoredFront([state.front for state in states], share, shares)
        self.coverage = np.zeros(len(self.front.streams), ENTRY)
        self.coverage["protocol"] = UNSEEN
        self.protocols: list[str] = []
        """The names of the protocol numbers in `coverage`."""
        self.readers: dict[int, tuple[ReaderState, dict[int, int]]] = {}
        """By stream; with the map from saved to present file numbers."""
        self.conflicts: list[tuple[int, Conflict]] = []
        """Streams of undecided connections, and retransmissions that differ."""
        self.lifecycle: list[tuple[list[int], list[int]]] = []
        """Connections, and what `Lifecycle` knows of each."""
        self._states = states
        ids = self.front.connections["id"]
        self._connection_ids = set(ids[self.front.connections["in_share"] == 1].tolist())
        for state, part in zip(states, self.front.parts, strict=True):
            self._restore(state, part)

    @property
    def secrets(self) -> tuple[list[Secret], list[str]]:
        """The keys that were in captures, and the protocols that had any."""
        found = [state.secrets for state in self._states if state.secrets is not None]
        return found[0] if found else ([], [])

    def decryptors(self) -> dict[int, DecryptorState]:
        """Return the states of the decryptors of our connections."""
        return self._of_share(each for state in self._states for each in state.decryptors.items())

    def key_names(self, protocol: str) -> dict[int, tuple[str, str]]:
        """Return the key selectors that messages of our connections named."""
        return self._of_share(
            each for state in self._states for each in state.key_names.get(protocol, {}).items()
        )

    def _of_share(self, found: Iterable[tuple[int, _Value]]) -> dict[int, _Value]:
        return {
            connection: value for connection, value in found if connection in self._connection_ids
        }

    def _restore(self, state: PipelineState, part: Restored) -> None:
        own = np.flatnonzero(part.streams >= 0)
        fill(self.coverage, part.streams[own], state.coverage, own)
        # Protocol numbers depend on the order in which a pipeline met the protocols: map them by
        # name.
        numbers: NDArray[Any] = column(state.coverage, "protocol", ENTRY)[own]
        names = {at: state.protocols[at] for at in np.unique(numbers).tolist() if at >= 0}
        protocols = renumbered(names, self.protocols)
        self.coverage["protocol"][part.streams[own]] = mapped(protocols, numbers)
        ids = column(state.front.connections, "id", flows.CONNECTION)[part.in_share].tolist()
        self.lifecycle.append((ids, state.lifecycle[part.in_share].tolist()))
        for at, reader in state.readers.items():
            if part.streams[at] >= 0:
                self.readers[int(part.streams[at])] = reader, part.files
        for at, conflict in state.conflicts:
            if part.streams[at] >= 0:
                found = conflict._replace(file=part.files[conflict.file])
                self.conflicts.append((int(part.streams[at]), found))
