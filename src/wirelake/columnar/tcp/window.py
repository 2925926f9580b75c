"""`Window`, one bounded part of a capture as its reader sees it, and `Streams`.

A stream is known by its number, an index into the arrays of `Streams`. Numbers are used again: one
that is in `Window.retired` may mean another stream from the next window on.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.format.items import Direction, Fact, FileFault, Secrets
from wirelake.capture.tcp.assembly import Conflict

from ..scan import blocks as b
from ..scan import headers as s
from ..scan.scanner import FileItem
from .flows import NOT_OURS
from .gather import Gathered
from .packets import Packets
from .pieces import ARRIVAL, PLACE, START, TIME
from .stream_order import ENDINGS
from .tracker import Tracker

__all__ = ["DIRECTIONS", "ENDINGS", "NOTES", "Streams", "Window"]

NOTES: Final = s.NOTES
DIRECTIONS: Final[tuple[Direction, ...]] = ("c2s", "s2c")
"""What `direction` indexes; 255 for none."""

Ints = NDArray[np.int64]


class Streams:
    """The streams, in arrays by number.

    The arrays are views: they change from window to window, and are others when there are more
    streams. Take them anew for each window.
    """

    def __init__(self, tracker: Tracker):
        self._tracker = tracker

    def __len__(self) -> int:
        return len(self._tracker.streams)

    @property
    def connection(self) -> Ints:
        """Id of the connection."""
        return self._of_stream("connection")

    @property
    def direction(self) -> NDArray[np.uint8]:
        """0 c2s, 1 s2c."""
        return self._tracker.streams["direction"]

    @property
    def file(self) -> NDArray[np.int32]:
        """Number of the file in which it began."""
        return self._tracker.streams["file"]

    @property
    def first_ns(self) -> Ints:
        """When its first packet was captured."""
        return self._of_stream("first_ns")

    @property
    def last_ns(self) -> Ints:
        """When its last packet was captured."""
        return self._of_stream("last_ns")

    @property
    def packets(self) -> Ints:
        """Packets, those without payload included."""
        return self._of_stream("packets")

    @property
    def payload(self) -> Ints:
        """Bytes of payload: new and duplicate."""
        return self._of_stream("payload")

    @property
    def new(self) -> Ints:
        """Payload that was not seen before, the ignored included."""
        return self._of_stream("new")

    @property
    def duplicate(self) -> Ints:
        """Payload that was seen before."""
        return self._of_stream("duplicate")

    @property
    def gap(self) -> Ints:
        """Bytes that were not captured."""
        return self._of_stream("gap")

    @property
    def ignored(self) -> Ints:
        """Payload behind a RST or a FIN, and of streams that were dropped by the reader."""
        return self._of_stream("ignored")

    @property
    def ending(self) -> NDArray[np.uint8]:
        """How it ended, as an index into `ENDINGS`."""
        return self._tracker.streams["ending"]

    def family(self, streams: NDArray[np.int32]) -> NDArray[np.uint8]:
        """4 or 6: the version of IP."""
        return np.asarray(self._tracker.connections["family"][streams >> 1])

    def client_port(self, streams: NDArray[np.int32]) -> NDArray[np.uint16]:
        """The client's port."""
        return np.asarray(self._tracker.connections["client_port"][streams >> 1])

    def recorded(self, streams: NDArray[np.int32]) -> Ints:
        """The recorder's id of the connection; 0 when none has numbered it."""
        return np.asarray(self._tracker.connections["recorded"][streams >> 1])

    def server_port(self, streams: NDArray[np.int32]) -> NDArray[np.uint16]:
        """The server's port."""
        return np.asarray(self._tracker.connections["server_port"][streams >> 1])

    def client(self, stream: int) -> bytes:
        """The client's address, 4 or 16 bytes."""
        return self._address(stream, "client")

    def server(self, stream: int) -> bytes:
        """The server's address, 4 or 16 bytes."""
        return self._address(stream, "server")

    def _of_stream(self, name: str) -> Ints:
        return self._tracker.streams[name]

    def _address(self, stream: int, side: str) -> bytes:
        record = self._tracker.connections[stream >> 1]
        low = int(record[side + "_low"])
        if record["family"] == 4:
            return low.to_bytes(4, "big")
        return (int(record[side + "_high"]) << 64 | low).to_bytes(16, "big")


class Window:
    """One bounded part of one capture."""

    def __init__(
        self,
        path: str,
        number: int,
        packets: Packets,
        gathered: Gathered,
        items: list[FileItem],
        introductions: list[tuple[int, Fact]],
        *,
        ended: NDArray[np.int32],
        ended_by: NDArray[np.uint8],
        retired: NDArray[np.int32],
        conflicts: list[tuple[int, Conflict]],
    ):
        self.path = path
        """The file, as it was named to the reader; empty in the last window, without packets."""
        self.number = number
        """Counts the windows of all files, from 1."""
        self.file = packets.file
        """Number of the file."""
        self._packets = packets
        self.data = gathered.data
        """The bytes of streams."""
        runs = gathered.runs
        self.run_stream = runs.stream
        self.run_start, self.run_stop = runs.start, runs.stop
        """Places in `data`. All runs of a stream are neighbours, in its order. A run may be empty:
        it then says that there is a gap at the end of what is known of the stream."""
        self.run_offset = runs.offset
        """Place in the stream of the first byte."""
        self.run_gap = runs.gap
        """Bytes missing in front of the run; 0 when it continues what was there of the stream."""
        self.run_kept = runs.kept
        """How many of the first bytes were kept from earlier windows."""
        self.run_gap_ts, self.run_gap_offset = runs.gap_ts, runs.gap_offset
        self.run_gap_file = runs.gap_file
        """The packet that shows the gap: its time, the place of its payload, its file."""
        pieces = gathered.pieces
        self.piece_start = pieces.numbers[START]
        """Where in `data` a piece begins that one packet brought; ascending."""
        self.piece_ts = pieces.numbers[TIME]
        self.piece_file_offset = pieces.numbers[PLACE]
        self.piece_arrival = pieces.numbers[ARRIVAL]
        """The number of the packet among all packets: tells which came last."""
        self.piece_file = pieces.file
        self.piece_cut = pieces.cut
        """1 when the packet brought bytes before these: a segment does not begin here."""
        self.ended = ended
        """Streams that ended in this window, each reported once."""
        self.ended_by = ended_by
        """How, as an index into `ENDINGS`."""
        self.retired = retired
        """Streams of connections that are gone: what is counted of them is final."""
        self.conflicts = conflicts
        """Streams, and second copies of bytes in them that differ from the first."""
        self._items = items
        self.introductions = introductions
        """The facts that name a connection's protocol, for every share; each with the number of
        the next packet."""
        self.pieces = pieces
        """The same pieces, as kernels want them."""
        self._mine: NDArray[np.intp] | slice = slice(0, packets.count)
        if (packets.stream == NOT_OURS).any():
            mine = self._mine = np.flatnonzero(packets.stream != NOT_OURS)
            self._items = [(int(np.searchsorted(mine, at)), item) for at, item in items]
            self.introductions = [
                (int(np.searchsorted(mine, at)), fact) for at, fact in introductions
            ]

    # -- what else the file says, each with the number of the next packet ------------------------

    @property
    def facts(self) -> list[tuple[int, Fact]]:
        """What a recorder knew."""
        return [(at, item) for at, item in self._items if isinstance(item, Fact)]

    @property
    def secrets(self) -> list[tuple[int, Secrets]]:
        """Keys."""
        return [(at, item) for at, item in self._items if isinstance(item, Secrets)]

    @property
    def file_faults(self) -> list[tuple[int, FileFault]]:
        """Bytes that would not read."""
        return [(at, item) for at, item in self._items if isinstance(item, FileFault)]

    # -- packets, in the order of the file -------------------------------------------------------

    def __len__(self) -> int:
        return len(self.ts_ns)

    def _wide(self, row: int) -> Ints:
        return self._packets.wide[row, : self._packets.count][self._mine]

    @cached_property
    def ts_ns(self) -> Ints:
        """When it was captured."""
        return self._wide(b.TS)

    @cached_property
    def offset(self) -> Ints:
        """Place of its block in the file."""
        return self._wide(b.OFFSET)

    @cached_property
    def data_offset(self) -> Ints:
        """Place of its data in the file."""
        return self._wide(b.DATA) + self._packets.base

    @cached_property
    def captured(self) -> Ints:
        """Bytes in the file."""
        return self._wide(b.CAPTURED)

    @cached_property
    def original(self) -> Ints:
        """Bytes on the wire."""
        return self._wide(b.ORIGINAL)

    @cached_property
    def interface(self) -> NDArray[np.int32]:
        """Number of its interface within its section."""
        return self._packets.narrow[b.INTERFACE, : self._packets.count][self._mine]

    @cached_property
    def link(self) -> NDArray[np.int32]:
        """Link type."""
        return self._packets.narrow[b.LINK, : self._packets.count][self._mine]

    @cached_property
    def family(self) -> NDArray[np.uint8]:
        """4 or 6, 0 when it is no segment: the version of IP."""
        return np.asarray(self._packets.octets[s.FAMILY][self._mine])

    @cached_property
    def addresses(self) -> NDArray[np.uint64]:
        """Four rows: upper and lower half of the source address, then of the destination's. An IPv4
        address is all in the lower half."""
        return np.asarray(self._packets.addresses[:, self._mine])

    @cached_property
    def src_port(self) -> NDArray[np.int32]:
        """Source port."""
        return np.asarray(self._packets.sizes[s.SRC_PORT][self._mine])

    @cached_property
    def dst_port(self) -> NDArray[np.int32]:
        """Destination port."""
        return np.asarray(self._packets.sizes[s.DST_PORT][self._mine])

    @cached_property
    def seq(self) -> NDArray[np.uint32]:
        """Sequence number."""
        return np.asarray(self._packets.numbers[s.SEQ][self._mine])

    @cached_property
    def ack(self) -> NDArray[np.uint32]:
        """Acknowledgement number."""
        return np.asarray(self._packets.numbers[s.ACK][self._mine])

    @cached_property
    def flags(self) -> NDArray[np.uint8]:
        """TCP flags."""
        return np.asarray(self._packets.octets[s.FLAGS][self._mine])

    @cached_property
    def payload_offset(self) -> Ints:
        """Place of its payload in the file; meaningless for what is no segment."""
        return np.asarray(self._packets.places[s.PAYLOAD][self._mine] + self._packets.base)

    @cached_property
    def payload_len(self) -> NDArray[np.int32]:
        """Captured bytes of payload."""
        return np.asarray(self._packets.sizes[s.PAYLOAD_BYTES][self._mine])

    @cached_property
    def note(self) -> NDArray[np.uint8]:
        """Why it is no segment, as an index into `NOTES`; 0 for a segment."""
        return np.asarray(self._packets.octets[s.NOTE][self._mine])

    @cached_property
    def connection(self) -> Ints:
        """Id of its connection; 0 for none."""
        return np.asarray(self._packets.connection[self._mine])

    @cached_property
    def direction(self) -> NDArray[np.uint8]:
        """Index into `DIRECTIONS`; 255 for none."""
        return np.asarray(self._packets.direction[self._mine])

    @cached_property
    def stream(self) -> NDArray[np.int32]:
        """Number of its stream; -1 for none."""
        return np.asarray(self._packets.stream[self._mine])
