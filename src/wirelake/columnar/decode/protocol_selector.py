"""`ProtocolSelector`: which protocol each stream has, and the decoder of each protocol.

The configuration, a recording or the server's port decide with the first packet of a connection,
also for streams without payload. Otherwise its first bytes decide (captures.md, Messages). The
choice is stored in `CoverageCounts`, where a protocol is a number in order of first occurrence.

Choices by port are made with arrays for all new connections of a window; only sniffing and facts
loop in Python, over connections that need them.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.decode.conversation import WAITING_LIMIT
from wirelake.capture.decode.decryption import KeyRing
from wirelake.capture.decode.protocol_selector import ProtocolChooser, RecordedProtocols
from wirelake.capture.decode.streams import SEARCH_NS
from wirelake.wire.protocol import Protocol

from ..jit.options import S, U, kernel
from ..tcp.frontend import FrontEnd
from ..tcp.pieces import ARRIVAL, PIECE_TS, START
from ..tcp.tracker import both_streams
from ..tcp.window import DIRECTIONS, Window
from .messages import IGNORED, UNDECIDED, UNSEEN, CoverageCounts, MessageBuilder
from .sealed_parts import ConnectionKeys

__all__ = [
    "ProtocolDecoder",
    "ProtocolSelector",
    "sniff",
]


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
        """By port: the configured protocol, and the default one. -1 for none."""
        self._looked_up = np.zeros(65_536, np.bool_)
        """Which ports have been looked up: a protocol is loaded when its port first occurs."""
        self._recorded: dict[int, RecordedProtocols] = {}
        """By file: what its facts name. They do not apply to other files."""
        self.all: list[ProtocolDecoder] = []
        """The decoders, by number."""
        self.keys: dict[str, ConnectionKeys] = {}
        """By protocol, only for those with keys."""

    @property
    def names(self) -> tuple[str, ...]:
        """By number."""
        return tuple(each.protocol.name for each in self.all)

    def of(self, stream: int) -> ProtocolDecoder | None:
        """Return the decoder of a stream; None while undecided, and for unknown protocols."""
        number = int(self._coverage.entries["protocol"][stream])
        return None if number < 0 else self.all[number]

    def number(self, protocol: Protocol) -> int:
        """Return the number of a protocol; assign one at its first occurrence."""
        # A handful of protocols, so a list is enough.
        for number, each in enumerate(self.all):
            if each.protocol is protocol:
                return number
        dialect = self._chooser.dialect(protocol)
        builder = MessageBuilder(protocol, dialect, self._front.paths, reveal=self._reveal)
        keys = ConnectionKeys(protocol, self._ring, dialect) if protocol.meaning.sealed else None
        if keys is not None:
            self.keys[protocol.name] = keys
        self.all.append(
            ProtocolDecoder(protocol, builder, keys, bool(protocol.meaning.transformed))
        )
        return len(self.all) - 1

    def begin_window(self) -> None:
        """Begin a window."""
        for keys in self.keys.values():
            keys.begin_window()

    def choose(self, window: Window) -> None:
        """Assign a protocol to every stream of the window for which it is known by now."""
        if window.file not in self._recorded:
            for file in self._recorded.keys() - self._front.open_files:
                del self._recorded[file]
            self._recorded[window.file] = RecordedProtocols()
        self._choose_begun(window)
        entries = self._coverage.entries
        # Only streams with bytes in this window can decide anything.
        undecided = window.run_stream[entries["protocol"][window.run_stream] == UNDECIDED]
        for connection in np.unique(undecided >> 1).tolist():
            decided, chosen = sniff(self._chooser, self._front, window, connection)
            if decided:
                self._set(np.array([connection], np.int32), np.array([self._number(chosen)]))

    def choose_by_port(self, streams: NDArray[np.int32]) -> None:
        """Assign protocols by configuration or by the server's port."""
        configured, default = self._by_port(streams)
        self._coverage.entries["protocol"][streams] = np.where(
            configured == UNDECIDED, default, configured
        )

    def undecided(self) -> NDArray[np.int32]:
        """Return the connections, by slot, whose first bytes have not decided yet."""
        # Both directions of a connection have the same protocol: look at the c2s streams only.
        numbers = self._coverage.entries["protocol"][: len(self._front.streams) : 2]
        return np.flatnonzero(numbers == UNDECIDED).astype(np.int32)

    def _choose_begun(self, window: Window) -> None:
        """Assign protocols to connections that begin in this window, by recording or by port."""
        first = np.empty(len(window.stream), np.int64)
        first = first[: _first_packets(window.stream, self._coverage.entries["protocol"], first)]
        connections = window.stream[first] >> 1
        recorded = self._by_recording(window, connections, first)
        configured, default = self._by_port(2 * connections)
        by_port = np.where(recorded == UNDECIDED, default, recorded)
        self._set(connections, np.where(configured == UNDECIDED, by_port, configured))

    def _by_recording(
        self, window: Window, connections: NDArray[np.int32], first: NDArray[np.intp]
    ) -> NDArray[np.int16]:
        """Return the protocols that a recording names, before the first packet of each connection.

        Facts and first packets are merged in file order, because only facts before the first packet
        count.
        """
        found = np.full(len(connections), UNDECIDED, np.int16)
        facts, recorded = deque(window.open_facts), self._recorded[window.file]
        if not facts and not recorded:
            return found
        ids = self._front.streams.recorded(2 * connections)
        for index, packet in enumerate(first.tolist()):
            while facts and facts[0][0] <= packet:
                recorded.add(facts.popleft()[1])
            named = recorded.of(int(ids[index]) or None)
            if named is not None:
                found[index] = self._number(named.protocol)
        for _, fact in facts:
            recorded.add(fact)
        return found

    def _set(self, connections: NDArray[np.int32], numbers: NDArray[np.int16]) -> None:
        """Assign protocols to connections; ignore the bytes of those without one."""
        streams = both_streams(connections)
        self._coverage.entries["protocol"][streams] = np.repeat(numbers, 2)
        self._front.drop(both_streams(connections[numbers == IGNORED]))

    def _number(self, protocol: Protocol | None) -> int:
        return IGNORED if protocol is None else self.number(protocol)

    def _by_port(self, streams: NDArray[np.int32]) -> NDArray[np.int16]:
        """Return two rows of protocol numbers: configured ones, and default ones."""
        ports = self._front.streams.server_port(streams)
        for port in np.unique(ports[~self._looked_up[ports]]).tolist():
            self._looked_up[port] = True
            for row, known in enumerate(
                (self._chooser.configured(port), self._chooser.default(port))
            ):
                if known is not None:
                    self._ports[row, port] = self.number(known)
        return self._ports[:, ports]

    def forget(self, connections: list[int]) -> None:
        """Forget dropped connections."""
        for each in self.all:
            if each.keys is not None:
                each.keys.forget(connections)


@kernel
def _first_packets(
    stream: NDArray[np.int32], protocol: NDArray[np.int16], first: NDArray[np.int64]
) -> int:
    """List the first packet of each connection that begins; return how many there are.

    Their streams become undecided.
    """
    count = 0
    for i in range(len(stream)):
        number = S(stream[i])
        if number >= 0 and protocol[U(number)] == UNSEEN:
            protocol[U(number)] = UNDECIDED
            protocol[U(number ^ 1)] = UNDECIDED
            first[U(count)] = i
            count += 1
    return count


def sniff(
    chooser: ProtocolChooser, front: FrontEnd, window: Window, connection: int
) -> tuple[bool, Protocol | None]:
    """Return whether the first bytes of a connection, by slot, decide its protocol, and which.

    The rules are those of `ConnectionDecoder._sniff`: the stream whose first byte was captured
    first is sniffed, and the decision is forced at its end, at a gap in either direction, when too
    many bytes wait, or `SEARCH_NS` after its first byte; without more bytes, when the capture has
    gone on for long enough.
    """
    runs = np.flatnonzero(window.run_stream >> 1 == connection)
    filled = runs[window.run_stop[runs] > window.run_start[runs]]
    if not len(filled):
        return False, None
    # At a gap the first frame can no longer become complete.
    gap = bool((window.run_gap[runs] > 0).any())
    waiting = int((window.run_stop[runs] - window.run_start[runs]).sum())
    stream = _captured_first(front, window, filled)
    own = filled[window.run_stream[filled] == stream]
    if not len(own):  # all of its bytes wait behind a hole
        return gap or waiting > WAITING_LIMIT, None
    start, stop = int(window.run_start[own[0]]), int(window.run_stop[own[0]])
    sniffer = chooser.sniffer(DIRECTIONS[stream & 1])
    numbers = window.pieces.columns
    begin, end = _pieces(window, own[0])
    times = numbers[PIECE_TS, begin:end]
    late = np.flatnonzero(times - times[0] >= SEARCH_NS)
    if len(late):
        stop = int(numbers[START, begin + late[0]])
    data = window.data[start:stop]
    # A new sniffer for each window, from the beginning of the stream: undecided bytes are kept and
    # delivered again, so no state has to be carried, or saved.
    sniffer.feed(data[: 1 << 16].tobytes())
    over = gap or bool(np.isin(window.ended, [stream]).any())
    over = over or bool(len(late)) or int(times[0]) <= front.sniffable_ns
    if not sniffer.decided and (over or waiting > WAITING_LIMIT):
        sniffer.end()
    return sniffer.decided, sniffer.chosen


def _captured_first(front: FrontEnd, window: Window, runs: NDArray[np.intp]) -> int:
    """Return the stream of a connection whose first byte was captured first."""
    first: dict[int, int] = {}
    for run in runs.tolist():
        begin, end = _pieces(window, run)
        arrival = int(window.pieces.columns[ARRIVAL, begin:end].min())
        stream = int(window.run_stream[run])
        first[stream] = min(arrival, first.get(stream, arrival))
    connection = int(window.run_stream[runs[0]]) >> 1
    for stream in (2 * connection, 2 * connection + 1):
        held = front.first_waiting(stream)
        if held is not None:
            first[stream] = min(held, first.get(stream, held))
    return min(first, key=first.__getitem__)


def _pieces(window: Window, run: int) -> tuple[int, int]:
    """Return the range of the pieces of a run."""
    places = [window.run_start[run], window.run_stop[run] - 1]
    begin, last = np.searchsorted(window.pieces.columns[START], places, side="right") - 1
    return int(begin), int(last) + 1
