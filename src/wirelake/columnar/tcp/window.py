"""`Window`: the contiguous bytes of all streams in one part of a capture; and `Streams`.

A stream is identified by its number, an index into the arrays of `Streams`. Numbers are reused: one
that is in `Window.retired` may belong to another stream from the next window on.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.format.items import Direction, Fact, FileFault, Secrets
from wirelake.capture.tcp.assembly import Conflict

from ..scan import blocks, headers
from ..scan.scanner import FileItem
from .flows import OTHER_SHARE
from .gather import Gathered
from .packets import Packets
from .pieces import ARRIVAL, FILE_OFFSET, PIECE_TS, START
from .stream_order import ENDINGS, JOINED
from .tracker import Tracker

__all__ = ["DIRECTIONS", "ENDINGS", "NOTES", "Streams", "Window"]

NOTES: Final = headers.NOTES
DIRECTIONS: Final[tuple[Direction, ...]] = ("c2s", "s2c")
"""The directions, by their numbers in `direction`; 255 for none."""

Ints = NDArray[np.int64]


class Streams:
    """The fields of all streams, as arrays by stream number.

    The arrays are views: they change from window to window, and are replaced when the number of
    streams grows. Do not keep them across windows.
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
        """Number of the file in which the stream began."""
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
        """Payload bytes that were not seen before, ignored ones included."""
        return self._of_stream("new")

    @property
    def duplicate(self) -> Ints:
        """Payload bytes that were seen before."""
        return self._of_stream("duplicate")

    @property
    def gap(self) -> Ints:
        """Bytes that were not captured."""
        return self._of_stream("gap")

    @property
    def ignored(self) -> Ints:
        """Payload bytes after RST or FIN, and of streams that the reader dropped."""
        return self._of_stream("ignored")

    @property
    def ending(self) -> NDArray[np.uint8]:
        """How the stream ended, as an index into `ENDINGS`."""
        return self._tracker.streams["ending"]

    def joined(self, streams: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return whether the first byte may be inside of a frame: the beginning of the stream was
        not captured."""
        return np.asarray(self._tracker.streams["state"][streams] & JOINED != 0)

    def family(self, streams: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Return the IP version, 4 or 6."""
        return np.asarray(self._tracker.connections["family"][streams >> 1])

    def client_port(self, streams: NDArray[np.int32]) -> NDArray[np.uint16]:
        """Return the client's port."""
        return np.asarray(self._tracker.connections["client_port"][streams >> 1])

    def recorded(self, streams: NDArray[np.int32]) -> Ints:
        """Return the recorder's id of the connection; 0 without a recorder."""
        return np.asarray(self._tracker.connections["recorded"][streams >> 1])

    def server_port(self, streams: NDArray[np.int32]) -> NDArray[np.uint16]:
        """Return the server's port."""
        return np.asarray(self._tracker.connections["server_port"][streams >> 1])

    def client(self, stream: int) -> bytes:
        """Return the client's address, 4 or 16 bytes."""
        return self._address(stream, "client")

    def server(self, stream: int) -> bytes:
        """Return the server's address, 4 or 16 bytes."""
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
    """The streams and packets of one bounded part of one file."""

    def __init__(
        self,
        path: str,
        number: int,
        packets: Packets,
        gathered: Gathered,
        items: list[FileItem],
        open_facts: list[tuple[int, Fact]],
        *,
        ended: NDArray[np.int32],
        ended_by: NDArray[np.uint8],
        retired: NDArray[np.int32],
        conflicts: list[tuple[int, Conflict]],
    ):
        self.path = path
        """The file, as given to the reader; empty in the last window, which has no packets."""
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
        """Positions in `data`. The runs of a stream follow each other, in stream order. An empty
        run stands for a gap at the end of the stream."""
        self.run_offset = runs.offset
        """Position of the first byte in the stream."""
        self.run_gap = runs.gap
        """Bytes missing before the run; 0 when it continues the stream."""
        self.run_kept = runs.kept
        """Number of leading bytes that were kept from earlier windows."""
        self.run_gap_ts, self.run_gap_offset = runs.gap_ts, runs.gap_offset
        self.run_gap_file = runs.gap_file
        """The packet that shows the gap: its time, the file offset of its payload, its file."""
        self.run_gap_given_up = runs.gap_given_up
        """Number of the packet with which the gap was given up."""
        pieces = gathered.pieces
        self.piece_start = pieces.columns[START]
        """Position in `data` of each piece, the bytes of one packet; ascending."""
        self.piece_ts = pieces.columns[PIECE_TS]
        self.piece_file_offset = pieces.columns[FILE_OFFSET]
        self.piece_arrival = pieces.columns[ARRIVAL]
        """Number of the packet among all packets of all files."""
        self.piece_file = pieces.file
        self.piece_cut = pieces.cut
        """1 when the packet has bytes of the stream before these: no segment begins here."""
        self.ended = ended
        """Streams that ended in this window, each reported once."""
        self.ended_by = ended_by
        """How they ended, as indices into `ENDINGS`."""
        self.retired = retired
        """Streams of connections that were dropped: their counters are final."""
        self.conflicts = conflicts
        """Streams, and retransmissions in them that differ from the first copy."""
        self._items = items
        self.open_facts = open_facts
        """The facts that name the protocol of a connection, for every share; each with the number
        of the next packet."""
        self.pieces = pieces
        """The same pieces, as kernels take them."""
        # A slice when all packets are ours: indexing with it makes views, not copies.
        self._selected: NDArray[np.intp] | slice = slice(0, packets.count)
        if (packets.stream == OTHER_SHARE).any():
            selected = self._selected = np.flatnonzero(packets.stream != OTHER_SHARE)
            # Item positions count all packets of the file; the caller counts only those of its
            # share.
            self._items = [(int(np.searchsorted(selected, at)), item) for at, item in items]
            self.open_facts = [
                (int(np.searchsorted(selected, at)), fact) for at, fact in open_facts
            ]

    # -- other items of the file, each with the number of the next packet ------------------------

    @property
    def facts(self) -> list[tuple[int, Fact]]:
        """The recorder's facts."""
        return [(at, item) for at, item in self._items if isinstance(item, Fact)]

    @property
    def secrets(self) -> list[tuple[int, Secrets]]:
        """Keys."""
        return [(at, item) for at, item in self._items if isinstance(item, Secrets)]

    @property
    def file_faults(self) -> list[tuple[int, FileFault]]:
        """Damaged parts of the file."""
        return [(at, item) for at, item in self._items if isinstance(item, FileFault)]

    # -- packets, in the order of the file -------------------------------------------------------

    def __len__(self) -> int:
        return len(self.ts_ns)

    def _packet_i64(self, row: int) -> Ints:
        return self._packets.packet_i64[row, : self._packets.count][self._selected]

    @cached_property
    def ts_ns(self) -> Ints:
        """Capture time."""
        return self._packet_i64(blocks.TS)

    @cached_property
    def offset(self) -> Ints:
        """File offset of the packet's block."""
        return self._packet_i64(blocks.OFFSET)

    @cached_property
    def data_offset(self) -> Ints:
        """File offset of the packet's data."""
        return self._packet_i64(blocks.DATA) + self._packets.base

    @cached_property
    def captured(self) -> Ints:
        """Captured bytes."""
        return self._packet_i64(blocks.CAPTURED)

    @cached_property
    def original(self) -> Ints:
        """Bytes on the wire."""
        return self._packet_i64(blocks.ORIGINAL)

    @cached_property
    def interface(self) -> NDArray[np.int32]:
        """Number of the interface within its section."""
        return self._packets.packet_i32[blocks.INTERFACE, : self._packets.count][self._selected]

    @cached_property
    def link(self) -> NDArray[np.int32]:
        """Link type."""
        return self._packets.packet_i32[blocks.LINK, : self._packets.count][self._selected]

    @cached_property
    def family(self) -> NDArray[np.uint8]:
        """IP version 4 or 6; 0 without a segment."""
        return np.asarray(self._packets.header_u8[headers.FAMILY][self._selected])

    @cached_property
    def addresses(self) -> NDArray[np.uint64]:
        """Four rows: upper and lower half of the source address, then of the destination address.
        An IPv4 address is in the lower half."""
        return np.asarray(self._packets.addresses[:, self._selected])

    @cached_property
    def src_port(self) -> NDArray[np.int32]:
        """Source port."""
        return np.asarray(self._packets.header_i32[headers.SRC_PORT][self._selected])

    @cached_property
    def dst_port(self) -> NDArray[np.int32]:
        """Destination port."""
        return np.asarray(self._packets.header_i32[headers.DST_PORT][self._selected])

    @cached_property
    def seq(self) -> NDArray[np.uint32]:
        """Sequence number."""
        return np.asarray(self._packets.header_u32[headers.SEQ][self._selected])

    @cached_property
    def ack(self) -> NDArray[np.uint32]:
        """Acknowledgement number."""
        return np.asarray(self._packets.header_u32[headers.ACK][self._selected])

    @cached_property
    def flags(self) -> NDArray[np.uint8]:
        """TCP flags."""
        return np.asarray(self._packets.header_u8[headers.FLAGS][self._selected])

    @cached_property
    def payload_offset(self) -> Ints:
        """File offset of the payload; meaningless without a segment."""
        return np.asarray(
            self._packets.header_i64[headers.PAYLOAD][self._selected] + self._packets.base
        )

    @cached_property
    def payload_len(self) -> NDArray[np.int32]:
        """Captured bytes of payload."""
        return np.asarray(self._packets.header_i32[headers.PAYLOAD_BYTES][self._selected])

    @cached_property
    def note(self) -> NDArray[np.uint8]:
        """Why the packet has no segment, as an index into `NOTES`; 0 for a segment."""
        return np.asarray(self._packets.header_u8[headers.NOTE][self._selected])

    @cached_property
    def connection(self) -> Ints:
        """Id of the connection; 0 for none."""
        return np.asarray(self._packets.connection[self._selected])

    @cached_property
    def direction(self) -> NDArray[np.uint8]:
        """Index into `DIRECTIONS`; 255 for none."""
        return np.asarray(self._packets.direction[self._selected])

    @cached_property
    def stream(self) -> NDArray[np.int32]:
        """Number of the stream; -1 for none."""
        return np.asarray(self._packets.stream[self._selected])
