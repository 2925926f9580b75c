"""Capture files to contiguous bytes of streams, a window at a time.

    front = FrontEnd(["edge.pcapng"], ports={7300: "comet"})
    for window in front.windows():
        ...                                     # window.data, window.run_start, ...
        front.keep(streams, starts, stops)      # unfinished frames: delivered again, with the rest

Kernels scan blocks (`scan/blocks.py`) and headers (`scan/headers.py`), find connections
(`flows.py`), find the payloads that are in order (`stream_order.py`) and copy them (`gather.py`).
Only streams with segments out of order go through the assembler of `wirelake.capture`, one segment
at a time. The result is the same as the reference's. Memory depends on the window, not on the file:
the whole pipeline took 215 to 236 MB for captures of 0.2 to 2 GB.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.decode.protocol_selector import OPEN_FACT
from wirelake.capture.decode.streams import SEARCH_NS
from wirelake.capture.format.constants import Limits
from wirelake.capture.format.items import Fact, Secrets
from wirelake.capture.tcp.assembly import RST, WAITING_NS, SourceClock
from wirelake.capture.tcp.connections import LIMIT

from ..scan.blocks import TS
from ..scan.headers import FLAGS
from ..scan.live import LiveInputs
from ..scan.scanner import FileItem, PacketRows, Scanner
from ..state_format import batch_of
from . import flows, stream_order
from .gather import Gathered, gather
from .packets import Packets, advance_clock
from .pieces import Carry, join_carries
from .reassembly import Reassembler
from .state import CONNECTION_COLUMNS, STREAM_COLUMNS, FrontState, RestoredFront
from .tracker import Tracker, both_streams
from .window import Streams, Window

__all__ = ["WINDOW_BYTES", "FrontEnd"]

WINDOW_BYTES: Final = 8 << 20
"""How much of a file makes a window: large enough that its fixed cost (some hundred Python calls
for each protocol) is small compared with its work, small enough that its packets stay in the
cache of the processor from one kernel to the next. Windows of 4, 8, 16 and 32 MiB took 0.54, 0.56,
0.63 and 0.70 us for each message of tny, and 0.84, 0.72, 0.66 and 0.75 us with five protocols."""

_LIMITS: Final = Limits()
_ENDING: Final = np.array(
    [0, stream_order.EXPIRED, stream_order.REPLACED, stream_order.EVICTED], np.uint8
)
"""How a stream ended, by the `drop_reason` of its connection."""


class FrontEnd:
    """Reads files one after the other, as one capture: a connection may continue in the next file.
    Live inputs are read at the same time, as one capture, too.

    `ports` are server ports: they decide who is the client when no SYN was captured. With `shares`,
    only the connections of one share are read. Packets without a connection, facts and faults of
    files belong to share 0, secrets to all shares. `connections` limits the connections that are
    held, of all shares together. Without `facts`, the recorder's facts are skipped, except those
    that name a protocol; with `all_facts`, every share gets all of them. `resumed` is the state
    after earlier files.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | LiveInputs,
        *,
        ports: Collection[int],
        window_bytes: int = WINDOW_BYTES,
        share: int = 0,
        shares: int = 1,
        connections: int = LIMIT,
        limits: Limits = _LIMITS,
        facts: bool = True,
        all_facts: bool = False,
        resumed: RestoredFront | None = None,
    ):
        if not 0 <= share < shares:
            raise ValueError(f"invalid share {share}; expected 0 to {shares - 1}")
        if window_bytes < 1 or connections < 1:
            raise ValueError("invalid window_bytes or connections; expected 1 or more")
        self._live = paths if isinstance(paths, LiveInputs) else None
        several: Sequence[str | os.PathLike[str]]
        if isinstance(paths, LiveInputs):
            several = paths.paths
        else:
            several = [paths] if isinstance(paths, str | os.PathLike) else paths
        earlier = [] if resumed is None else resumed.files
        self._first_file = len(earlier)
        self.paths = [*earlier, *(os.fspath(path) for path in several)]
        """The files, earlier ones first; streams and pieces refer to them by number."""
        self.open_files = set(range(self._first_file, len(self.paths)))
        """The files that windows to come may belong to, as far as they have been opened."""
        self._window_bytes = window_bytes
        self._share = share
        self._limits = limits
        self._facts = facts
        self._all_facts = all_facts
        self._tracker = Tracker(ports, limit=connections, share=share, shares=shares)
        self.streams = Streams(self._tracker)
        """The streams, by number."""
        self._reassembler = Reassembler()
        self._carry = Carry()
        self._kept: list[tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]] = []
        self._gathered: Gathered | None = None
        self._number = 0
        self._window_ns = 0
        self._clock = SourceClock()
        self._packets = 0
        self.undecided = np.empty(0, np.int32)
        """Connections, by slot, without a protocol yet: when one of their streams continues, kept
        bytes of both directions are delivered again. To be set before the next window."""
        if resumed is not None:
            self._tracker.restore(resumed.connections, resumed.streams, resumed.now_ns)
            self._reassembler.restore(resumed.assemblers)
            self._carry = join_carries(self._tracker.streams, *resumed.carries)
            self._packets = resumed.packets
            self._clock = SourceClock(resumed.source_ns, resumed.last_ns)

    def windows(self, *, last: bool = True) -> Iterator[Window]:
        """Yield the windows; with `last`, also the one of `end`.

        Raises OSError when a file cannot be opened or read.
        """
        with closing(self._scanned()) as scanned:
            for file, rows in scanned:
                packets = self._next_packets(rows, file)
                yield self._window(self.paths[file], packets, rows.items)
        if last:
            yield self.end()

    def _scanned(self) -> Generator[tuple[int, PacketRows]]:
        """Yield the packets of each window, and the number of its file."""
        if self._live is not None:
            scanned = self._live.windows(limits=self._limits, facts=self._facts)
            with closing(scanned):
                for number, rows in scanned:
                    yield self._first_file + number, rows
            return
        for file in range(self._first_file, len(self.paths)):
            self.open_files = {file}
            scanner = Scanner(
                self.paths[file],
                window_bytes=self._window_bytes,
                limits=self._limits,
                facts=self._facts,
            )
            try:
                for rows in scanner.windows():
                    yield file, rows
            finally:
                scanner.close()

    def end(self) -> Window:
        """Return the last window: it has no packets, and ends the streams that are open."""
        none = Packets(PacketRows(0), file=len(self.paths) - 1, before=0)
        return self._window("", none, [], last=True)

    def keep(
        self, stream: NDArray[np.int32], start: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> None:
        """Keep the last bytes of streams, from `start` to `stop` in the window's `data`.

        They are delivered again at the beginning of the stream's next run. `stop` is where the last
        run of the stream stops. Call it before requesting the next window.
        """
        self._kept.append((stream.astype(np.int32), start, stop))

    def drop(self, streams: NDArray[np.int32]) -> None:
        """Deliver no more bytes of these streams: count them as ignored."""
        self._tracker.streams["state"][streams] |= stream_order.IGNORED
        # Kept bytes of these streams are not needed any more.
        self._tracker.streams["carry_row"][streams] = -1

    def waiting(self) -> dict[int, int]:
        """Return the streams with bytes behind a hole, and when the first of them came."""
        return self._reassembler.waiting()

    def first_waiting(self, stream: int) -> int | None:
        """Return the number of the first packet with bytes of a stream that wait behind a hole."""
        return self._reassembler.first_waiting(stream)

    def at_last_time(self, window: Window) -> dict[int, int]:
        """Return the open connections with packets of the latest time of a window, and that time.

        Events of one time are ordered by their kind, so they must be in one window.
        """
        last_ns = self._window_ns  # of all shares, or they would wait for different times
        if last_ns <= 0:  # a capture without times would wait for its end
            return {}
        streams = window.stream[(window.ts_ns == last_ns) & (window.stream >= 0)]
        records = self._tracker.connections[np.unique(streams >> 1)]
        records = records[(records["drop_reason"] == 0) & ~flows.are_closed(records)]
        return dict.fromkeys(records["id"].tolist(), last_ns)

    def kept_since(self, streams: NDArray[np.intp]) -> dict[int, int]:
        """Return those of the streams with bytes kept from earlier windows, and when the first
        of them came."""
        carried = self._tracker.streams["carry_row"][streams]
        kept = carried >= 0
        since_ns = self._carry.since_ns(carried[kept])
        return dict(zip(streams[kept].tolist(), since_ns.tolist(), strict=True))

    @property
    def overdue_ns(self) -> int:
        """The time before which no further bytes of any stream were captured.

        The next packet of a stream may be out of order of time, and bytes may wait for a hole.
        """
        return self._clock.overdue_ns - WAITING_NS

    @property
    def sniffable_ns(self) -> int:
        """The protocol of connections whose first byte is not later than this is decided now."""
        return self.overdue_ns - SEARCH_NS

    # -- saving --------------------------------------------------------------------------------

    def save(self, also: Collection[int] = ()) -> tuple[FrontState, NDArray[np.int32]]:
        """Return the state between two windows, and the numbers of the streams in it.

        `also` are numbers of files that the caller refers to. Only files that something refers to
        are saved: a lake continues for months, over any number of files.
        """
        self._begin_window()
        # Connections of all shares, so that ranks agree between the shares that save.
        held = self._tracker.least_recently_used()
        connections, table = self._tracker.connections, self._tracker.streams
        place = np.flatnonzero(connections["in_share"][held]).astype(np.int32)
        numbers = both_streams(held[place])
        places = np.full(len(table), -1, np.int64)
        places[numbers] = np.arange(len(numbers))
        # Streams are renumbered by rank, because slots depend on what was dropped before.
        assemblers = {int(places[at]): each for at, each in self._reassembler.assemblers.items()}
        begun = numbers[table["packets"][numbers] > 0]
        files = {*also, *np.unique(table["file"][begun]).tolist(), *self._carry.files()}
        files = files.union(*(each.files() for each in assemblers.values()))
        saved = FrontState(
            self._tracker.now_ns,
            self._packets,
            len(held),
            place,
            batch_of(connections, held[place], CONNECTION_COLUMNS),
            batch_of(table, numbers, STREAM_COLUMNS),
            self._carry.save(places),
            {at: each.save() for at, each in assemblers.items()},
            {number: self.paths[number] for number in sorted(files)},
            self._clock.now_ns,
            self._clock.last_ns,
        )
        return saved, numbers

    # -- one window --------------------------------------------------------------------------

    def _items_of_share(self, items: list[FileItem]) -> list[FileItem]:
        """Return the items of our share: secrets for every share, all others for share 0."""
        # Facts and faults of a file must be reported once, not by every share.
        if self._share == 0:
            return items
        wanted = (Secrets, Fact) if self._all_facts else (Secrets,)
        return [(at, item) for at, item in items if isinstance(item, wanted)]

    def _next_packets(self, rows: PacketRows, file: int) -> Packets:
        packets = Packets(rows, file=file, before=self._packets)
        self._packets += rows.count
        return packets

    def _window(
        self, path: str, packets: Packets, items: list[FileItem], *, last: bool = False
    ) -> Window:
        self._begin_window()
        self._number += 1
        self._window_ns = int(packets.packet_i64[TS, : packets.count].max(initial=0))
        self._advance_clock(packets)
        # The order matters: `assign` drops connections, `follow` uses their streams once more,
        # `reassemble` takes what `follow` left, and only then are streams of dropped connections
        # ended, so that bytes of this window still count.
        self._tracker.assign(packets)
        active, ending, disordered = self._tracker.follow(packets, self._number)
        table = self._tracker.streams
        late = self._reassembler.reassemble(packets, table, disordered)
        # Streams that the assembler ended: FIN or RST came out of order, so the kernel did not see
        # it.
        table["ending"][late] = np.where(
            table["state"][late] & stream_order.WAS_RESET, stream_order.RESET, stream_order.CLOSED
        )
        table["state"][late] |= stream_order.END_REPORTED
        # Before the buffers of this window are gone: assemblers fetch the bytes that they compare.
        self._reassembler.update_assemblers(packets, table, active)
        # In the last window nothing follows, so all connections end.
        retired = self._tracker.held_streams() if last else self._tracker.dropped_streams()
        reset = self._end_reset(packets)
        cut_off = np.concatenate([reset, self._end(retired, last)])
        # After all packets of the window: those of the stream itself come first.
        expired, closed = self._reassembler.expire(packets, table)
        table["ending"][closed] = stream_order.CLOSED
        table["state"][closed] |= stream_order.END_REPORTED
        ended = np.concatenate([ending, np.array([*late, *closed], np.int32), cut_off])
        activated = self._activated(np.concatenate([cut_off, np.array(expired, np.int32)]))
        peers = self._undecided_peers()
        self._gathered = gather(
            packets,
            table,
            np.concatenate([active, activated, self._activated(peers)]),
            np.concatenate([ended, peers]),
            self._reassembler.reassembled,
            self._carry,
        )
        return Window(
            path,
            self._number,
            packets,
            self._gathered,
            self._items_of_share(items),
            _open_facts(items),
            ended=ended,
            ended_by=table["ending"][ended],
            retired=retired,
            conflicts=self._reassembler.conflicts,
        )

    def _advance_clock(self, packets: Packets) -> None:
        """Advance the clock by all packets of a window."""
        if not packets.count:
            return
        times = packets.packet_i64[TS, : packets.count]
        advance_clock(times, self._clock.now_ns, self._clock.last_ns, packets.reached_ns)
        self._clock = SourceClock(int(packets.reached_ns[-1]), int(times[-1]))

    def _begin_window(self) -> None:
        """Apply what the caller kept and dropped of the last window, and free its buffers.

        At the beginning of the next window and not at the end of the last: until then the caller
        may look at the streams of dropped connections.
        """
        gone = self._tracker.recycle()
        self._reassembler.forget(gone.tolist())
        self._reassembler.begin_window()
        table = self._tracker.streams
        kept, self._kept = self._kept, []
        if self._gathered is None:
            return
        none = np.empty(0, np.int64)
        stream = np.concatenate([none.astype(np.int32), *(each[0] for each in kept)])
        start = np.concatenate([none, *(each[1] for each in kept)])
        stop = np.concatenate([none, *(each[2] for each in kept)])
        # A stream whose connection was recycled meanwhile has no packets: its bytes are dropped.
        wanted = (stop > start) & (table["packets"][stream] > 0)
        self._carry = self._carry.next_carry(
            table,
            stream[wanted],
            start[wanted],
            stop[wanted],
            self._gathered.data,
            self._gathered.pieces,
        )
        self._gathered = None

    def _end(self, retired: NDArray[np.int32], last: bool) -> NDArray[np.int32]:
        """End the streams of dropped connections; return those that had not ended yet."""
        table = self._tracker.streams
        streams: NDArray[np.int32] = retired[
            table["state"][retired] & stream_order.END_REPORTED == 0
        ]
        table["state"][streams] |= stream_order.END_REPORTED
        connections = self._tracker.connections[streams >> 1]
        table["ending"][streams] = (
            np.where(flows.are_closed(connections), stream_order.EXPIRED, stream_order.OPEN)
            if last
            else _ENDING[connections["drop_reason"]]
        )
        self._end_assemblers(streams)
        return streams

    def _end_reset(self, packets: Packets) -> NDArray[np.int32]:
        """End the streams whose other direction was reset in this window; return them."""
        table = self._tracker.streams
        resets = (packets.header_u8[FLAGS, : packets.count] & RST != 0) & (packets.stream >= 0)
        streams: NDArray[np.int32] = np.unique(packets.stream[resets] ^ 1)
        streams = streams[table["packets"][streams] > 0]
        table["ending"][streams] = stream_order.RESET
        table["state"][streams] |= stream_order.WAS_RESET
        streams = streams[table["state"][streams] & stream_order.END_REPORTED == 0]
        table["state"][streams] |= stream_order.END_REPORTED
        self._end_assemblers(streams)
        return streams

    def _end_assemblers(self, streams: NDArray[np.int32]) -> None:
        """Deliver waiting segments with gaps before streams end (captures.md, Streams)."""
        table = self._tracker.streams
        for stream in streams[table["state"][streams] & stream_order.IN_ASSEMBLER != 0].tolist():
            self._reassembler.end_stream(table, stream)

    def _undecided_peers(self) -> NDArray[np.int32]:
        """Return streams of undecided connections with kept bytes that have packets here, in
        either direction, or whose protocol is to be decided now.

        The first bytes of either direction may decide the protocol, so both are needed at once;
        also those of a stream whose packets all wait behind a hole.
        """
        table = self._tracker.streams
        streams = both_streams(self.undecided)
        streams = streams[table["carry_row"][streams] >= 0]
        since_ns = self._carry.since_ns(table["carry_row"][streams])
        overdue = np.isin(streams >> 1, streams[since_ns <= self.sniffable_ns] >> 1)
        wanted = overdue | (table["window"][[streams, streams ^ 1]] == self._number).any(axis=0)
        found: NDArray[np.int32] = streams[wanted]
        return found

    def _activated(self, streams: NDArray[np.int32]) -> NDArray[np.int32]:
        """Mark streams as active in this window; return those that were not active yet."""
        table = self._tracker.streams
        found: NDArray[np.int32] = streams[table["window"][streams] != self._number]
        table["window"][found] = self._number
        table["window_bytes"][found] = 0
        table["window_pieces"][found] = 0
        return found


def _open_facts(items: list[FileItem]) -> list[tuple[int, Fact]]:
    """Return the facts that name the protocol of a connection."""
    return [(at, item) for at, item in items if isinstance(item, Fact) and item.kind == OPEN_FACT]
