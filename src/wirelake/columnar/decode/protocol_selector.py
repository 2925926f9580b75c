"""Which protocol each stream speaks, and what belongs to each of the protocols.

What is known without the bytes of a connection is decided with its first packet, also for streams
that never say anything; the rest is sniffed. Protocols have numbers in the ledger of a pipeline, in
the order in which they occur.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.decode.conversation import WAITING_LIMIT
from wirelake.capture.decode.keys import KeyRing
from wirelake.capture.decode.protocol_selector import Chooser, Introductions
from wirelake.wire.protocol import Protocol

from ..tcp.frontend import FrontEnd
from ..tcp.pieces import ARRIVAL, START
from ..tcp.tracker import both_streams
from ..tcp.window import DIRECTIONS, Window
from .coverage import (
    IGNORED,
    UNDECIDED,
    UNSEEN,
    Ledger,
)
from .messages import MessageBuilder
from .sealed_parts import ConnectionKeys

__all__ = [
    "Spoken",
    "Told",
    "Tongues",
    "sniff",
]


Told = dict[str, dict[int, tuple[str, str]]]
"""By protocol and connection: what messages said about keys."""


class Spoken(NamedTuple):
    """What belongs to one protocol."""

    protocol: Protocol
    builder: MessageBuilder
    keys: ConnectionKeys | None
    needs_context: bool
    """Whether opening a message needs all earlier ones: then keys make every message scalar."""


class Tongues:
    """The protocols of a pipeline."""

    def __init__(
        self,
        chooser: Chooser,
        ring: KeyRing,
        front: FrontEnd,
        ledger: Ledger,
        *,
        reveal: bool,
    ):
        self._chooser = chooser
        self._ring = ring
        self._front = front
        self._ledger = ledger
        self._reveal = reveal
        self._ports = np.full((2, 65_536), UNDECIDED, np.int16)
        """By port: what the reader of captures was told, and what is usual."""
        self._asked = np.zeros(65_536, np.bool_)
        """Of which ports that is known."""
        self._introduced = Introductions()
        self._file = -1
        """The file of which these are."""
        self.all: list[Spoken] = []
        """By number."""
        self.told: Told = {}
        """What the messages of those with keys said about them."""

    @property
    def names(self) -> tuple[str, ...]:
        """By number."""
        return tuple(each.protocol.name for each in self.all)

    def of(self, stream: int) -> Spoken | None:
        """What a stream speaks, if that is decided and known."""
        number = int(self._ledger.entries["protocol"][stream])
        return None if number < 0 else self.all[number]

    def number(self, protocol: Protocol) -> int:
        """The number of a protocol in the ledger."""
        for number, each in enumerate(self.all):
            if each.protocol is protocol:
                return number
        dialect = self._chooser.dialect(protocol)
        builder = MessageBuilder(protocol, dialect, self._front.paths, reveal=self._reveal)
        keys = ConnectionKeys(protocol, self._ring, dialect) if protocol.meaning.sealed else None
        if keys is not None:
            self.told[protocol.name] = keys.told
        self.all.append(Spoken(protocol, builder, keys, bool(protocol.meaning.transformed)))
        return len(self.all) - 1

    def choose(self, window: Window) -> None:
        """Gives every stream of the window its protocol, where that can be told."""
        if window.file != self._file:
            self._file = window.file
            self._introduced.begin_file()
        self._choose_begun(window)
        entries = self._ledger.entries
        undecided = window.run_stream[entries["protocol"][window.run_stream] == UNDECIDED]
        for connection in np.unique(undecided >> 1).tolist():
            decided, chosen = sniff(self._chooser, window, connection)
            if decided:
                self._set(np.array([connection], np.int32), np.array([self._number(chosen)]))

    def choose_by_port(self, streams: NDArray[np.int32]) -> None:
        """Gives streams their protocol where a name or the server's port tells it."""
        told, usual = self._by_port(streams)
        self._ledger.entries["protocol"][streams] = np.where(told == UNDECIDED, usual, told)

    def undecided(self) -> NDArray[np.int32]:
        """The connections, by slot, whose bytes have to tell and did not yet."""
        spoken = self._ledger.entries["protocol"][: len(self._front.streams) : 2]
        return np.flatnonzero(spoken == UNDECIDED).astype(np.int32)

    def _choose_begun(self, window: Window) -> None:
        """Connections that begin in this window: as somebody said, or by the port."""
        begun = np.flatnonzero(window.stream >= 0)
        begun = begun[self._ledger.entries["protocol"][window.stream[begun]] == UNSEEN]
        connections, first = np.unique(window.stream[begun] >> 1, return_index=True)
        said = self._said(window, connections, begun[first])
        told, usual = self._by_port(2 * connections)
        by_port = np.where(said == UNDECIDED, usual, said)
        self._set(connections, np.where(told == UNDECIDED, by_port, told))

    def _said(
        self, window: Window, connections: NDArray[np.int32], first: NDArray[np.intp]
    ) -> NDArray[np.int16]:
        """What recordings say of connections before the first packet of each."""
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
        """Connections speak this; nobody wants the bytes of those that speak nothing."""
        streams = both_streams(connections)
        self._ledger.entries["protocol"][streams] = np.repeat(numbers, 2)
        self._front.drop(both_streams(connections[numbers == IGNORED]))

    def _number(self, protocol: Protocol | None) -> int:
        return IGNORED if protocol is None else self.number(protocol)

    def _by_port(self, streams: NDArray[np.int32]) -> NDArray[np.int16]:
        """Two rows of numbers: what the reader of captures was told, and what is usual."""
        ports = self._front.streams.server_port(streams)
        for port in np.unique(ports[~self._asked[ports]]).tolist():
            self._asked[port] = True
            for row, known in enumerate((self._chooser.told(port), self._chooser.usual(port))):
                if known is not None:
                    self._ports[row, port] = self.number(known)
        return self._ports[:, ports]

    def forget(self, connections: list[int]) -> None:
        """These connections are gone."""
        for each in self.all:
            if each.keys is not None:
                each.keys.forget(connections)


# Which protocol a connection speaks when no name, port or recording tells: its first bytes do.


def sniff(chooser: Chooser, window: Window, connection: int) -> tuple[bool, Protocol | None]:
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
