"""Chooses the protocol of each stream, and holds the decoder of each protocol.

A recording, the configuration or the server's port decide with the first packet of a connection,
also for streams without payload; otherwise its first bytes do. `CoverageCounts` refers to protocols
by number, in the order in which they first occur.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.decode.conversation import WAITING_LIMIT
from wirelake.capture.decode.decryption import KeyRing
from wirelake.capture.decode.protocol_selector import ProtocolChooser, RecordedProtocols
from wirelake.wire.protocol import Protocol

from ..tcp.frontend import FrontEnd
from ..tcp.pieces import ARRIVAL, START
from ..tcp.tracker import both_streams
from ..tcp.window import DIRECTIONS, Window
from .messages import IGNORED, UNDECIDED, UNSEEN, CoverageCounts, MessageBuilder
from .sealed_parts import ConnectionKeys

__all__ = [
    "KeyNames",
    "ProtocolDecoder",
    "ProtocolSelector",
    "sniff",
]


KeyNames = dict[str, dict[int, tuple[str, str]]]
"""By protocol and connection: the selector of its keys that a message named, and its value."""


class ProtocolDecoder(NamedTuple):
    """Decoder state for one protocol."""

    protocol: Protocol
    builder: MessageBuilder
    keys: ConnectionKeys | None
    needs_context: bool
    """Whether opening a message needs all earlier ones (tny). With keys, every message then goes
    through the scalar decoder."""


class ProtocolSelector:
    """The protocols of one pipeline, and which of them each stream has."""

    def __init__(
        self,
        chooser: ProtocolChooser,
        ring: KeyRing,
        front: FrontEnd,
        coverage: CoverageCounts,
        *,
        reveal: bool,
    ):
        self._chooser = chooser
        self._ring = ring
        self._front = front
        self._coverage = coverage
        self._reveal = reveal
        self._ports = np.full((2, 65_536), UNDECIDED, np.int16)
        """By port, two rows: the configured protocol, and the usual one."""
        self._asked = np.zeros(65_536, np.bool_)
        """Which ports have been looked up."""
        self._introduced = RecordedProtocols()
        self._file = -1
        """The file of which these introductions are."""
        self.all: list[ProtocolDecoder] = []
        """By number."""
        self.key_names: KeyNames = {}
        """Only of protocols with keys."""

    @property
    def names(self) -> tuple[str, ...]:
        """By number."""
        return tuple(each.protocol.name for each in self.all)

    def of(self, stream: int) -> ProtocolDecoder | None:
        """Return the decoder of a stream; None while undecided, and for unknown protocols."""
        number = int(self._coverage.entries["protocol"][stream])
        return None if number < 0 else self.all[number]

    def number(self, protocol: Protocol) -> int:
        """The number of a protocol in the coverage."""
        for number, each in enumerate(self.all):
            if each.protocol is protocol:
                return number
        dialect = self._chooser.dialect(protocol)
        builder = MessageBuilder(protocol, dialect, self._front.paths, reveal=self._reveal)
        keys = ConnectionKeys(protocol, self._ring, dialect) if protocol.meaning.sealed else None
        if keys is not None:
            self.key_names[protocol.name] = keys.key_names
        self.all.append(
            ProtocolDecoder(protocol, builder, keys, bool(protocol.meaning.transformed))
        )
        return len(self.all) - 1

    def choose(self, window: Window) -> None:
        """Assign a protocol to every stream of the window for which it is known by now."""
        if window.file != self._file:
            self._file = window.file
            self._introduced.begin_file()
        self._choose_begun(window)
        entries = self._coverage.entries
        undecided = window.run_stream[entries["protocol"][window.run_stream] == UNDECIDED]
        for connection in np.unique(undecided >> 1).tolist():
            decided, chosen = sniff(self._chooser, window, connection)
            if decided:
                self._set(np.array([connection], np.int32), np.array([self._number(chosen)]))

    def choose_by_port(self, streams: NDArray[np.int32]) -> None:
        """Assign protocols by configuration or by the server's port."""
        configured, usual = self._by_port(streams)
        self._coverage.entries["protocol"][streams] = np.where(
            configured == UNDECIDED, usual, configured
        )

    def undecided(self) -> NDArray[np.int32]:
        """Return the connections, by slot, whose first bytes have not decided yet."""
        numbers = self._coverage.entries["protocol"][: len(self._front.streams) : 2]
        return np.flatnonzero(numbers == UNDECIDED).astype(np.int32)

    def _choose_begun(self, window: Window) -> None:
        """Assign protocols to connections that begin in this window, by recording or by port."""
        begun = np.flatnonzero(window.stream >= 0)
        begun = begun[self._coverage.entries["protocol"][window.stream[begun]] == UNSEEN]
        connections, first = np.unique(window.stream[begun] >> 1, return_index=True)
        said = self._said(window, connections, begun[first])
        configured, usual = self._by_port(2 * connections)
        by_port = np.where(said == UNDECIDED, usual, said)
        self._set(connections, np.where(configured == UNDECIDED, by_port, configured))

    def _said(
        self, window: Window, connections: NDArray[np.int32], first: NDArray[np.intp]
    ) -> NDArray[np.int16]:
        """Return what recordings say of connections, before the first packet of each."""
        found = np.full(len(connections), UNDECIDED, np.int16)
        facts = deque(window.introductions)
        if not facts and not self._introduced:
            return found
        ids = self._front.streams.recorded(2 * connections)
        for place in np.argsort(first).tolist():
            while facts and facts[0][0] <= first[place]:
                self._introduced.add(facts.popleft()[1])
            said = self._introduced.of(int(ids[place]) or None)
            if said is not None:
                found[place] = self._number(said.protocol)
        for _, fact in facts:
            self._introduced.add(fact)
        return found

    def _set(self, connections: NDArray[np.int32], numbers: NDArray[np.int16]) -> None:
        """Assign protocols to connections; bytes of those without one are dropped."""
        streams = both_streams(connections)
        self._coverage.entries["protocol"][streams] = np.repeat(numbers, 2)
        self._front.drop(both_streams(connections[numbers == IGNORED]))

    def _number(self, protocol: Protocol | None) -> int:
        return IGNORED if protocol is None else self.number(protocol)

    def _by_port(self, streams: NDArray[np.int32]) -> NDArray[np.int16]:
        """Return two rows of numbers: configured protocols, and usual ones."""
        ports = self._front.streams.server_port(streams)
        for port in np.unique(ports[~self._asked[ports]]).tolist():
            self._asked[port] = True
            for row, known in enumerate((self._chooser.told(port), self._chooser.usual(port))):
                if known is not None:
                    self._ports[row, port] = self.number(known)
        return self._ports[:, ports]

    def forget(self, connections: list[int]) -> None:
        """Forget connections that are gone."""
        for each in self.all:
            if each.keys is not None:
                each.keys.forget(connections)


# Which protocol a connection speaks when no name, port or recording tells: its first bytes do.


def sniff(
    chooser: ProtocolChooser, window: Window, connection: int
) -> tuple[bool, Protocol | None]:
    """Whether the protocol of a connection, known by its slot, is decided; and which it is."""
    runs = np.flatnonzero(window.run_stream >> 1 == connection)
    filled = runs[window.run_stop[runs] > window.run_start[runs]]
    if not len(filled):
        return False, None
    numbers = window.pieces.numbers
    places = np.searchsorted(numbers[START], window.run_start[filled], side="right") - 1
    first = int(filled[np.argmin(numbers[ARRIVAL, places])])
    stream = int(window.run_stream[first])
    sniffer = chooser.sniffer(DIRECTIONS[stream & 1])
    data = window.data[window.run_start[first] : window.run_stop[first]]
    sniffer.feed(data[: 1 << 16].tobytes())
    waiting = int((window.run_stop[runs] - window.run_start[runs]).sum())
    over = bool(np.isin(window.ended, [stream]).any() or (window.run_gap[runs] > 0).any())
    if not sniffer.decided and (over or waiting > WAITING_LIMIT):
        sniffer.end()
    return sniffer.decided, sniffer.chosen
