"""The states of all shares, as a pipeline of one share takes them over.

Every pipeline holds the connections of all shares, because their limit and their expiry concern all
of them together; of its own share it also has the streams and everything about these. The numbers
of connections in a state are those that they had among all shares, and become their slots.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.decode.decryption import Remembered
from wirelake.capture.decode.keys import Secret

from ..decode.coverage import ENTRY, UNSEEN
from ..decode.resumable_reader import Reader
from ..tcp import slots
from ..tcp.carry import Carry
from ..tcp.pieces import Pieces
from ..tcp.reassembly import Assembler
from ..tcp.stream_order import STREAM
from ..tcp.tracker import both_streams
from .state import (
    CarryState,
    Odd,
    PipelineState,
    fill,
)

__all__ = ["CONNECTION_COLUMNS", "LEDGER_COLUMNS", "STREAM_COLUMNS", "Resumed"]

_LINKS: Final = ("older", "newer", "over_before", "over_after", "ours", "why")
CONNECTION_COLUMNS: Final = tuple(n for n in slots.CONNECTION.names or () if n not in _LINKS)
"""What is kept of a connection; the rest is found out again."""
_OF_A_WINDOW: Final = ("bytes", "cursor", "piece", "window", "pieces", "last", "carry")
STREAM_COLUMNS: Final = tuple(n for n in STREAM.names or () if n not in _OF_A_WINDOW)
"""What is kept of a stream."""
LEDGER_COLUMNS: Final = tuple(ENTRY.names or ())
"""What is kept of the ledger."""


class Resumed:
    """What is known from earlier files, by one share of the connections."""

    def __init__(self, states: Sequence[PipelineState], share: int, shares: int):
        _check(states)
        front = states[0].front
        self._share, self._shares = share, shares
        self.now_ns = front.now_ns
        self.packets = front.packets
        self.connections = np.zeros(front.held, slots.CONNECTION)
        """Of all shares, the longest silent first."""
        self.streams = np.zeros(2 * front.held, STREAM)
        self.streams["carry"] = -1
        self.ledger = np.zeros(2 * front.held, ENTRY)
        self.ledger["protocol"] = UNSEEN
        self.protocols: list[str] = []
        """What the numbers in `ledger` mean."""
        self.files: list[str] = []
        """The earlier files to which something refers, by number."""
        self.carries: list[tuple[Carry, NDArray[np.int64]]] = []
        """Bytes of unfinished frames, and the rows that are ours."""
        self.assemblers: dict[int, Assembler] = {}
        self.readers: dict[int, tuple[Reader, dict[int, int]]] = {}
        """By stream; with the numbers that files have now."""
        self.lives: list[tuple[list[int], list[int]]] = []
        """Connections, and what `lifecycle.py` knows of each."""
        self.odd: list[Odd] = []
        for state in states:
            self._take(state)
        self._mine = set(self.connections["id"][self.connections["ours"] == 1].tolist())

    @property
    def secrets(self) -> tuple[list[Secret], set[str]]:
        """The keys that were in captures."""
        return next(odd.secrets for odd in self.odd if odd.secrets is not None)

    def openings(self) -> dict[int, Remembered]:
        """What the openings of our connections remember."""
        return self._of_ours(each for odd in self.odd for each in odd.openings.items())

    def told(self, protocol: str) -> dict[int, tuple[str, str]]:
        """What the messages of our connections said about keys."""
        return self._of_ours(
            each for odd in self.odd for each in odd.told.get(protocol, {}).items()
        )

    def _of_ours(self, found: Iterable[tuple[int, Any]]) -> dict[int, Any]:
        """What is known of our connections, out of what is known by connection."""
        return {connection: value for connection, value in found if connection in self._mine}

    def _take(self, state: PipelineState) -> None:
        front = state.front
        known = np.arange(len(front.place))
        fill(self.connections, front.place, front.connections, known)
        ours = self.connections["hash"][front.place] % np.uint32(self._shares) == self._share
        self.connections["ours"][front.place] = ours
        numbers = np.where(np.repeat(ours, 2), both_streams(front.place), -1).astype(np.int64)
        mine = np.flatnonzero(numbers >= 0)
        files = self._numbered(front.files | state.files, self.files)
        fill(self.streams, numbers[mine], front.streams, mine)
        self.streams["file"][numbers[mine]] = _mapped(files, front.streams["file"][mine])
        fill(self.ledger, numbers[mine], state.ledger, mine)
        spoken = state.ledger["protocol"][mine]
        names = {at: state.protocols[at] for at in np.unique(spoken).tolist() if at >= 0}
        protocols = self._numbered(names, self.protocols)
        self.ledger["protocol"][numbers[mine]] = _mapped(protocols, spoken)
        self._take_carry(front.carry, numbers, files)
        ids = front.connections["id"][ours].tolist()
        self.lives.append((ids, state.lives[ours].tolist()))
        self._take_odd(state, numbers, files)

    def _take_carry(
        self, saved: CarryState, numbers: NDArray[np.int64], files: dict[int, int]
    ) -> None:
        carry = Carry()
        carry.stream = numbers[saved.stream].astype(np.int32)
        carry.start, carry.stop = saved.start, saved.stop
        carry.first, carry.last = saved.first, saved.last
        pieces = saved.pieces
        carry.data = saved.data
        carry.pieces = Pieces(pieces.numbers, _mapped(files, pieces.file), pieces.cut)
        self.carries.append((carry, np.flatnonzero(carry.stream >= 0)))

    def _take_odd(
        self, state: PipelineState, numbers: NDArray[np.int64], files: dict[int, int]
    ) -> None:
        assemblers: dict[int, Assembler] = pickle.loads(state.front.assemblers)
        for at, assembler in assemblers.items():
            if numbers[at] >= 0:
                assembler.renumber(files)
                self.assemblers[int(numbers[at])] = assembler
        odd: Odd = pickle.loads(state.odd)
        for at, reader in odd.readers.items():
            if numbers[at] >= 0:
                self.readers[int(numbers[at])] = reader, files
        self.odd.append(odd)

    @staticmethod
    def _numbered(names: dict[int, str], known: list[str]) -> dict[int, int]:
        """The numbers that names get among those which are known, by the ones that they have."""
        places = {name: at for at, name in enumerate(known)}
        for name in names.values():
            if name not in places:
                places[name] = len(known)
                known.append(name)
        return {number: places[name] for number, name in names.items()}


def _mapped(numbers: dict[int, int], found: NDArray[Any]) -> NDArray[Any]:
    """Numbers replaced by others; those that are not there stay."""
    if not numbers:
        return found
    before = np.array(sorted(numbers))
    after = np.array([numbers[each] for each in sorted(numbers)], found.dtype)
    at = np.searchsorted(before, found).clip(max=len(before) - 1)
    return np.where(before[at] == found, after[at], found)


def _check(states: Sequence[PipelineState]) -> None:
    places = np.sort(np.concatenate([state.front.place for state in states]))
    told = {(state.shares, state.front.now_ns, state.front.packets) for state in states}
    shares = sorted(state.share for state in states)
    whole = np.array_equal(places, np.arange(states[0].front.held))
    if len(told) > 1 or shares != list(range(states[0].shares)) or not whole:
        raise ValueError("state: wanted those of all shares, taken behind the same file")
