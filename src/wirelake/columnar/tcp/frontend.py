"""Capture files to contiguous bytes of streams, a window at a time.

    front = FrontEnd(["edge.pcapng"], ports={7300: "comet"})
    for window in front.windows():
        ...                                     # window.data, window.run_start, ...
        front.keep(streams, starts, stops)      # unfinished frames come again, with what follows

Kernels scan blocks (`scan/blocks.py`) and headers (`scan/headers.py`), find connections
(`flows.py`), order payloads (`stream_order.py`) and copy them (`gather.py`). Only streams that are
out of order go through the assembler of `wirelake.capture`, one segment at a time. The result is
the reference's. Memory does not depend on the size of the files.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.decode.protocol_selector import INTRODUCTION
from wirelake.capture.format.constants import Limits
from wirelake.capture.format.items import Fact, Secrets
from wirelake.capture.tcp.connections import LIMIT

from ..scan.scanner import FileItem, Part, Rows, Scanner
from ..state_format import batch_of
from . import flows as slots
from . import stream_order as order
from .gather import Gathered, gather
from .packets import Packets
from .pieces import Carry, joined
from .reassembly import Patcher
from .state import CONNECTION_COLUMNS, STREAM_COLUMNS, FrontState, RestoredFront
from .tracker import Tracker, both_streams
from .window import Streams, Window

__all__ = ["WINDOW_BYTES", "FrontEnd"]

WINDOW_BYTES: Final = 32 << 20
"""How much of a file makes a window: large enough that the fixed cost of a window (some hundred
calls of Python) is small beside its work, small enough that a few windows fit in memory."""

_LIMITS: Final = Limits()
_ENDING: Final = np.array([0, order.EXPIRED, order.REPLACED, order.EVICTED], np.uint8)
"""How a stream ended, by why its connection was dropped."""


class FrontEnd:
    """Reads files one after the other, as one capture: a connection may continue in the next file.

    `ports` are server ports: they decide who is the client when no SYN was captured. With `shares`,
    only the connections of one share are read. Packets without a connection, facts and faults of
    files belong to share 0, secrets to all shares. `connections` limits the connections that are
    held, of all shares together. `part` reads only that part of the
    one file (see `index.py`). Without `facts`, what a recorder wrote beside packets is passed over,
    introductions apart; with `all_facts`, every share is told all of it. `resumed` is what is known
    from earlier files.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        ports: Collection[int],
        window_bytes: int = WINDOW_BYTES,
        share: int = 0,
        shares: int = 1,
        connections: int = LIMIT,
        limits: Limits = _LIMITS,
        part: Part | None = None,
        facts: bool = True,
        all_facts: bool = False,
        resumed: RestoredFront | None = None,
    ):
        if not 0 <= share < shares:
            raise ValueError(f"invalid share {share}; expected 0 to {shares - 1}")
        if window_bytes < 1 or connections < 1:
            raise ValueError("window_bytes and connections: expected 1 or more")
        several = [paths] if isinstance(paths, str | os.PathLike) else paths
        earlier = [] if resumed is None else resumed.files
        self._first_file = len(earlier)
        self.paths = [*earlier, *(os.fspath(path) for path in several)]
        """The files, earlier ones first; streams and pieces refer to them by number."""
        if part is not None and len(self.paths) != 1:
            raise ValueError("part: expected exactly one file")
        self._part = part
        self._window_bytes = window_bytes
        self._share = share
        self._limits = limits
        self._facts = facts
        self._all_facts = all_facts
        self._tracker = Tracker(ports, limit=connections, share=share, shares=shares)
        self.streams = Streams(self._tracker)
        """The streams, by number."""
        self._patcher = Patcher()
        self._carry = Carry()
        self._kept: list[tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]] = []
        self._gathered: Gathered | None = None
        self._number = 0
        self._packets = 0
        self.undecided = np.empty(0, np.int32)
        """Connections, by slot, without a protocol yet: when one of their streams continues, kept
        bytes of both directions are delivered again. To be set before the next window."""
        if resumed is not None:
            self._tracker.restore(resumed.connections, resumed.streams, resumed.now_ns)
            self._patcher.restore(resumed.assemblers)
            self._carry = joined(self._tracker.streams, *resumed.carries)
            self._packets = resumed.packets

    def windows(self, *, last: bool = True) -> Iterator[Window]:
        """Yield the windows; with `last`, also the one of `end`.

        Raises OSError when a file cannot be opened or read.
        """
        for file in range(self._first_file, len(self.paths)):
            path = self.paths[file]
            scanner = Scanner(
                path,
                window_bytes=self._window_bytes,
                limits=self._limits,
                part=self._part,
                facts=self._facts,
            )
            try:
                for rows in scanner.windows():
                    yield self._window(path, self._next_packets(rows, file), rows.items)
            finally:
                scanner.close()
        if last:
            yield self.end()

    def end(self) -> Window:
        """Return the last window: it has no packets, and ends the streams that are open."""
        none = Packets(Rows(0), file=len(self.paths) - 1, before=0)
        return self._window("", none, [], last=True)

    def keep(
        self, stream: NDArray[np.int32], start: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> None:
        """Keep the last bytes of streams, from `start` to `stop` in the window's `data`.

        They come again, as the beginning of the stream's next run. `stop` is where the last run of
        the stream stops. To be called before the next window is asked for.
        """
        self._kept.append((stream.astype(np.int32), start, stop))

    def drop(self, streams: NDArray[np.int32]) -> None:
        """Deliver no more bytes of these streams: count them as ignored."""
        self._tracker.streams["state"][streams] |= order.IGNORED
        self._tracker.streams["carry"][streams] = -1

    def waiting(self) -> dict[int, int]:
        """Return the streams with bytes behind a hole, and when the first of them came.

        An unfinished frame before the hole is part of what waits, in whichever window it came.
        """
        carried = self._tracker.streams["carry"]
        return {
            stream: min(since_ns, self._carry.since_ns(int(carried[stream]), since_ns))
            for stream, since_ns in self._patcher.waiting().items()
        }

    def kept_since(self, streams: NDArray[np.intp]) -> dict[int, int]:
        """Return those of the streams with bytes kept from earlier windows, and when the first
        of them came."""
        carried = self._tracker.streams["carry"][streams]
        kept = carried >= 0
        return {
            stream: self._carry.since_ns(carry, 0)
            for stream, carry in zip(streams[kept].tolist(), carried[kept].tolist(), strict=True)
        }

    # -- to go on later ----------------------------------------------------------------------

    def save(self, also: Collection[int] = ()) -> tuple[FrontState, NDArray[np.int32]]:
        """Return what is known between two windows, and the streams in there, by number.

        `also` are numbers of files that the caller refers to.
        """
        self._renew()
        held = self._tracker.by_last_use()
        connections, table = self._tracker.connections, self._tracker.streams
        place = np.flatnonzero(connections["ours"][held]).astype(np.int32)
        numbers = both_streams(held[place])
        places = np.full(len(table), -1, np.int64)
        places[numbers] = np.arange(len(numbers))
        assemblers = {int(places[at]): each for at, each in self._patcher.assemblers.items()}
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
            self._carry.renamed(places),
            {at: each.save() for at, each in assemblers.items()},
            {number: self.paths[number] for number in sorted(files)},
        )
        return saved, numbers

    # -- one window --------------------------------------------------------------------------

    def _ours(self, items: list[FileItem]) -> list[FileItem]:
        """Return the items of our share: secrets for every share, all others for share 0."""
        if self._share == 0:
            return items
        wanted = (Secrets, Fact) if self._all_facts else (Secrets,)
        return [(at, item) for at, item in items if isinstance(item, wanted)]

    def _next_packets(self, rows: Rows, file: int) -> Packets:
        packets = Packets(rows, file=file, before=self._packets)
        self._packets += rows.count
        return packets

    def _window(
        self, path: str, packets: Packets, items: list[FileItem], *, last: bool = False
    ) -> Window:
        self._renew()
        self._number += 1
        self._tracker.assign(packets)
        active, ending, strange = self._tracker.follow(packets, self._number)
        table = self._tracker.streams
        late = self._patcher.patch(packets, table, strange)
        table["ending"][late] = np.where(
            table["state"][late] & order.OVER, order.RESET, order.CLOSED
        )
        table["state"][late] |= order.ENDED
        self._patcher.hold(packets, table, active)
        retired = self._tracker.held() if last else self._tracker.dropped()
        cut_off = self._end(retired, last)
        ended = np.concatenate([ending, np.array(late, np.int32), cut_off])
        woken = self._woken(cut_off)
        beside = self._beside()
        self._gathered = gather(
            packets,
            table,
            np.concatenate([active, woken, self._woken(beside)]),
            np.concatenate([ended, beside]),
            self._patcher.patches,
            self._carry,
        )
        return Window(
            path,
            self._number,
            packets,
            self._gathered,
            self._ours(items),
            _introductions(items),
            ended=ended,
            ended_by=table["ending"][ended],
            retired=retired,
            conflicts=self._patcher.conflicts,
        )

    def _renew(self) -> None:
        """Apply what the caller kept and dropped of the last window, and free its buffers."""
        gone = self._tracker.recycle()
        self._patcher.forget(gone.tolist())
        self._patcher.begin()
        table = self._tracker.streams
        kept, self._kept = self._kept, []
        if self._gathered is None:
            return
        none = np.empty(0, np.int64)
        stream = np.concatenate([none.astype(np.int32), *(each[0] for each in kept)])
        start = np.concatenate([none, *(each[1] for each in kept)])
        stop = np.concatenate([none, *(each[2] for each in kept)])
        wanted = (stop > start) & (table["packets"][stream] > 0)
        self._carry = self._carry.renewed(
            table,
            stream[wanted],
            start[wanted],
            stop[wanted],
            self._gathered.data,
            self._gathered.pieces,
        )
        self._gathered = None

    def _end(self, retired: NDArray[np.int32], last: bool) -> NDArray[np.int32]:
        """End the streams of connections that are gone; return those that had not ended yet."""
        table = self._tracker.streams
        streams: NDArray[np.int32] = retired[table["state"][retired] & order.ENDED == 0]
        table["state"][streams] |= order.ENDED
        connections = self._tracker.connections[streams >> 1]
        table["ending"][streams] = (
            np.where(slots.are_over(connections), order.EXPIRED, order.OPEN)
            if last
            else _ENDING[connections["why"]]
        )
        for stream in streams[table["state"][streams] & order.LOOSE != 0].tolist():
            self._patcher.end(table, stream)
        return streams

    def _beside(self) -> NDArray[np.int32]:
        """Return the streams of undecided connections with kept bytes, whose other direction
        continues in this window."""
        table = self._tracker.streams
        streams = both_streams(self.undecided)
        kept = table["carry"][streams] >= 0
        found: NDArray[np.int32] = streams[kept & (table["window"][streams ^ 1] == self._number)]
        return found

    def _woken(self, streams: NDArray[np.int32]) -> NDArray[np.int32]:
        """Mark streams as active in this window; return those that were not."""
        table = self._tracker.streams
        found: NDArray[np.int32] = streams[table["window"][streams] != self._number]
        table["window"][found] = self._number
        table["bytes"][found] = 0
        table["pieces"][found] = 0
        return found


def _introductions(items: list[FileItem]) -> list[tuple[int, Fact]]:
    """Return the facts that name the protocol of a connection."""
    return [
        (at, item) for at, item in items if isinstance(item, Fact) and item.kind == INTRODUCTION
    ]
