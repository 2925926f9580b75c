"""Captures to batches: `messages`, `packets`, `faults` and `coverage`, a window at a time.

    for table, batch in CapturePipeline(paths, tables={"messages"}).batches():
        ...

Streams of a window are grouped by protocol, because a kernel is specialised to one layout. One call
finds the frames of all streams of a protocol, another decodes them, in the order in which packets
completed them. So the cost of Python is per window and protocol, not per message or connection: a
capture of one connection takes 0.49 us per packet, one of a million connections 0.55 us
(benchmarks/results/captures.json).

A kernel reports that a frame is bad, never why: that frame goes through the scalar decoder, and a
stream with a gap or a bad head goes through the reference's reader until a good frame follows
(`decode/scalar.py`). Unfinished frames are kept for the next window.

The rules are in `docs/concepts/captures.md`; the reference is `wirelake.capture.decode.reference`.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.capture.decode.decryption import KeyRing
from wirelake.capture.decode.messages import MessageRows
from wirelake.capture.decode.protocol_selector import ProtocolChooser
from wirelake.capture.decode.streams import SEARCH_NS, Fault, Frame, conflict_fault
from wirelake.capture.format.items import Direction
from wirelake.capture.tcp.assembly import Conflict
from wirelake.protocols import registry
from wirelake.wire.errors import unknown

from ..decode.messages import (
    IGNORED,
    UNDECIDED,
    Built,
    CoverageCounts,
    Slices,
    coverage_batch,
    pieces_of,
)
from ..decode.protocol_selector import ProtocolDecoder, ProtocolSelector
from ..decode.scalar import BEHIND_ALL, Outcome, ResumableReader, Scalar
from ..scan.live import LiveInputs
from ..state_format import batch_of, check, column
from ..tcp.flows import CONNECTION
from ..tcp.frontend import WINDOW_BYTES, FrontEnd
from ..tcp.pieces import Delivered, ascending_pieces, completion_order, delivered
from ..tcp.window import DIRECTIONS, ENDINGS, Window
from .state import PipelineState, RestoredPipeline
from .window_rows import FaultRows, Lifecycle, WindowRows, chunks, packet_batch

__all__ = ["TABLES", "CapturePipeline", "Item"]

TABLES: Final = ("messages", "packets", "faults", "coverage", "facts", "connections")
"""The tables that can be requested. `facts` and `connections` are lists of events for the engines
of `wirelake.records`, not batches. `connections` adds `waiting`: connections with bytes that are
not yielded yet, and the time of the first of them, up to which the order of events is final."""
Item = tuple[str, pa.RecordBatch | list[Any]]
"""The name of a table, and a batch of it; or a list of events."""
_OPEN: Final = ENDINGS.index("open")
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MMAP_THRESHOLD_BYTES: Final = 16 << 20
_TRIM_THRESHOLD_BYTES: Final = 64 << 20

_Found = tuple[int, Frame | Fault, int]
"""A stream, a frame or fault in it, and where it begins in the window's bytes."""


class CapturePipeline:
    """Reads files one after the other, or live inputs at the same time, as one capture."""

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | LiveInputs,
        *,
        tables: Collection[str] = ("messages", "packets", "faults", "coverage"),
        ports: Mapping[int, str] | None = None,
        force_protocol: str | None = None,
        keys: Sequence[str | os.PathLike[str]] = (),
        dialects: Mapping[str, str] | None = None,
        reveal: bool = False,
        window_bytes: int = WINDOW_BYTES,
        share: int = 0,
        shares: int = 1,
        state: PipelineState | Sequence[PipelineState] | None = None,
        all_facts: bool = False,
    ):
        for table in sorted(set(tables).difference(TABLES)):
            raise ValueError(unknown("table", table, TABLES))
        _keep_memory()
        self._tables = frozenset(tables)
        self._chooser = ProtocolChooser(
            ports=ports, force_protocol=force_protocol, dialects=dialects
        )
        self._ring = KeyRing()
        for path in keys:
            self._ring.load(path)
        states = [state] if isinstance(state, PipelineState) else state
        # Before the front end is created: it needs the connections, and a damaged state must fail
        # before a file is opened.
        resumed = RestoredPipeline(states, share, shares) if states else None
        self._front = FrontEnd(
            paths,
            ports=self._chooser.ports,
            window_bytes=window_bytes,
            share=share,
            shares=shares,
            # Facts are decoded in Python, one by one: skipped when no table needs them.
            facts=bool(self._tables & {"facts", "faults"}),
            all_facts=all_facts,
            resumed=None if resumed is None else resumed.front,
        )
        self._share, self._shares = share, shares
        self._reveal = reveal
        self._files = self._front.paths
        self._coverage = CoverageCounts()
        self._scalar = Scalar(
            self._chooser, self._ring, MessageRows(self._chooser, self._files, reveal=reveal)
        )
        self._faults = FaultRows(self._files)
        self._selector = ProtocolSelector(
            self._chooser, self._ring, self._front, self._coverage, reveal=reveal
        )
        self._scalar.keys = self._selector.keys
        self._readers: dict[int, ResumableReader] = {}
        """Readers of streams with an open fault. A stream goes back to the kernels as soon as its
        reader has found a good frame: a reader costs Python time for every frame."""
        self._conflicts: list[tuple[int, Conflict]] = []
        """Streams of undecided connections, and retransmissions that differ."""
        self._lifecycle = Lifecycle()
        self._undecided_since: dict[int, int] = {}
        """Streams without a protocol yet, and when the first byte that waits was captured."""
        self._delivered = Delivered(np.empty(0, np.int64), np.empty(0, np.int64))
        self._ended = np.empty(0, np.bool_)
        """Which streams ended in this window, by number."""
        self._stage = "reading"
        if resumed is not None:
            self._resume(resumed)

    def batches(self) -> Iterator[Item]:
        """Yield everything, in the order of the files. Raises OSError for unreadable files."""
        for window in self.windows():
            yield from window

    def windows(self, *, last: bool = True) -> Iterator[Iterator[Item]]:
        """Yield the windows; each must be exhausted before the next is requested.

        The last window has no packets: it ends the streams that are open at the end of the files.
        Without it, `save` and `end` can follow.
        """
        for window in self._front.windows(last=False):
            yield self._window(window)
        self._stage = "read"
        if last:
            yield from self.end()

    def end(self) -> Iterator[Iterator[Item]]:
        """Yield the last window, after all others: it ends the streams that are still open."""
        self._require_read("end")
        self._stage = "ended"
        yield self._window(self._front.end())

    def save(self) -> PipelineState:
        """Return the state that continues with the next files; after all windows but the last."""
        self._require_read("save")
        saved = {stream: reader.save() for stream, reader in self._readers.items()}
        files = {file for each in saved.values() for file in each.files()}
        front, streams = self._front.save(files.union(each.file for _, each in self._conflicts))
        # Streams are renumbered in the state: their numbers here depend on connections that are
        # gone.
        referring = saved or self._conflicts
        places = {stream: at for at, stream in enumerate(streams.tolist())} if referring else {}
        self._coverage.grow_to(len(self._front.streams))
        lines, names = self._ring.secrets()
        return PipelineState(
            share=self._share,
            shares=self._shares,
            front=front,
            protocols=self._selector.names,
            coverage=batch_of(self._coverage.entries, streams),
            lifecycle=self._lifecycle.save(column(front.connections, "id", CONNECTION).tolist()),
            readers={places[stream]: each for stream, each in saved.items()},
            conflicts=[(places[stream], each) for stream, each in self._conflicts],
            key_names={name: dict(each.key_names) for name, each in self._selector.keys.items()},
            decryptors=self._scalar.save(),
            # All shares see all secrets; one copy in the state is enough.
            secrets=(lines, sorted(names)) if self._share == 0 else None,
        )

    def _require_read(self, what: str) -> None:
        if self._stage != "read":
            raise ValueError(f"{what}: only allowed after windows(last=False) is exhausted")

    def _resume(self, resumed: RestoredPipeline) -> None:
        """Restore what is known from earlier files."""
        lines, names = resumed.secrets
        self._ring.restore(lines, set(names))
        self._coverage.restore(resumed.coverage)
        for name in resumed.protocols:
            self._selector.number(registry.find(name))
            if name in self._selector.keys:
                self._selector.keys[name].key_names.update(resumed.key_names(name))
        undecided = np.flatnonzero(resumed.coverage["protocol"] == UNDECIDED).astype(np.int32)
        self._selector.choose_by_port(undecided)
        self._front.undecided = self._selector.undecided()
        for stream, (saved, files) in resumed.readers.items():
            decoder = self._selector.of(stream)
            check(decoder is not None, "readers")
            assert decoder is not None
            framing = self._scalar.framing(decoder.protocol, stream & 1)
            self._readers[stream] = ResumableReader.restored(saved, framing, files)
        self._conflicts = resumed.conflicts
        self._scalar.restore(resumed.decryptors())
        for connections, states in resumed.lifecycle:
            self._lifecycle.restore(connections, states)

    # -- windows -----------------------------------------------------------------------------

    def _window(self, window: Window) -> Iterator[Item]:
        self._coverage.grow_to(len(self._front.streams))
        self._undecided_since = {}
        self._read_file_items(window)
        if "packets" in self._tables and len(window):
            yield "packets", packet_batch(window)
        if "connections" in self._tables:
            yield "connections", self._lifecycle.events(window, self._front.streams)
        if "facts" in self._tables and window.facts:
            yield "facts", [fact for _, fact in window.facts]
        # Streams come after `connections` and `facts`: engines need the beginning of a connection
        # before its messages.
        if self._tables & {"messages", "faults", "coverage"}:
            yield from self._streams(window)
        if "connections" in self._tables:
            yield "waiting", self._waiting(window)
        if "faults" in self._tables and len(self._faults):
            yield "faults", self._faults.batch()

    def _waiting(self, window: Window) -> dict[int, int]:
        """Return the connections with bytes that are not yielded yet, and when the first came.

        Bytes wait behind a hole, in a fault whose end is not found, or for the choice of a
        protocol. An unfinished frame does not wait: what it becomes has the time of the packet that
        completes it, or that shows a gap in it. What has the time of the last packet waits, because
        the next window may have more of that time.
        """
        numbers = self._coverage.entries["protocol"][: len(self._front.streams)]
        undecided = np.flatnonzero(numbers == UNDECIDED)
        since = self._front.waiting()
        opened = {stream: reader.open_since_ns for stream, reader in self._readers.items()}
        for found_since in (
            {stream: ts_ns for stream, ts_ns in opened.items() if ts_ns is not None},
            self._undecided_since,
            self._front.kept_since(undecided),
        ):
            for stream, first in found_since.items():
                since[stream] = min(since.get(stream, first), first)
        for stream in window.retired.tolist():
            since.pop(stream, None)
        found = self._front.at_last_time(window)
        for stream, ts_ns in since.items():
            connection = int(self._front.streams.connection[stream])
            found[connection] = min(found.get(connection, ts_ns), ts_ns)
        return found

    def _read_file_items(self, window: Window) -> None:
        for _, secrets in window.secrets:
            problems = self._ring.add_secrets(secrets.text)
            for problem in problems if self._share == 0 else ():
                self._faults.of_secrets(window.file, secrets, problem)
        for _, fault in window.file_faults:
            self._faults.of_file(window.file, fault)

    def _streams(self, window: Window) -> Iterator[Item]:
        self._selector.begin_window()
        self._selector.choose(window)
        self._conflicts += window.conflicts
        self._add_conflicts(window)
        numbers = self._coverage.entries["protocol"][window.run_stream]
        ended = self._ended_in(window)
        # A mask by stream number, for lookups with arrays.
        self._ended = np.zeros(len(self._front.streams), np.bool_)
        self._ended[ended] = True
        # Once for the window, for all protocols.
        self._delivered = delivered(window.pieces, window.run_start)
        self._ignore(window, numbers)
        # One protocol after the other: rows are in order within a protocol only, as tables are
        # written by protocol.
        for number in np.unique(numbers[numbers >= 0]).tolist():
            runs = np.flatnonzero(numbers == number)
            yield from self._messages(window, self._selector.all[number], runs)
        # After all messages: a reader may have got its last bytes in this window.
        yield from self._end_readers(ended)
        yield from self._expire_readers()
        yield from self._retire(window)
        self._front.undecided = self._selector.undecided()

    def _add_conflicts(self, window: Window) -> None:
        """Add the faults of conflicts; those of undecided connections wait for their protocol."""
        protocols = self._coverage.entries["protocol"]
        waiting: list[tuple[int, Conflict]] = []
        for stream, conflict in self._conflicts:
            if protocols[stream] == UNDECIDED and stream not in window.retired:
                waiting.append((stream, conflict))
                continue
            self._coverage.add("faults", np.array([stream]), 1)
            decoder = self._selector.of(stream)
            name = None if decoder is None else decoder.protocol.name
            self._faults.of_stream(self._front.streams, stream, name, conflict_fault(conflict))
        self._conflicts = waiting

    def _ended_in(self, window: Window) -> NDArray[np.int32]:
        """Return the streams that ended in a window.

        Included are those that ended earlier while their connection was undecided: their bytes
        were kept, and are delivered now.
        """
        if not len(self._front.undecided):
            return window.ended
        late = window.run_stream[self._front.streams.ending[window.run_stream] > 0]
        return np.concatenate([window.ended, np.setdiff1d(late, window.ended)])

    def _ignore(self, window: Window, numbers: NDArray[np.int16]) -> None:
        """Count bytes of streams without a protocol as ignored; keep those of undecided streams."""
        sizes = window.run_stop - window.run_start
        ignored = numbers == IGNORED
        self._coverage.add("ignored", window.run_stream[ignored], sizes[ignored])
        runs = np.flatnonzero(numbers == UNDECIDED)
        filled = runs[window.run_stop[runs] > window.run_start[runs]]
        streams, starts = window.run_stream[filled], window.run_start[filled]
        self._front.keep(streams, starts, window.run_stop[filled])
        times = window.piece_ts[pieces_of(window.pieces, starts)]
        self._undecided_since = dict(zip(streams.tolist(), times.tolist(), strict=True))

    # -- messages ----------------------------------------------------------------------------

    def _messages(
        self,
        window: Window,
        decoder: ProtocolDecoder,
        runs: NDArray[np.intp],
    ) -> Iterator[Item]:
        """Yield the messages of one protocol in a window."""
        # A stream with a gap, or with a fault that is still open, is read by the scalar reader as
        # a whole; all other streams go through one kernel call.
        streams = window.run_stream[runs]
        faulty = np.zeros(len(self._front.streams), np.bool_)
        faulty[list(self._readers)] = True
        faulty[streams[window.run_gap[runs] > 0]] = True
        regular = runs[~faulty[streams]]
        starts = window.run_start[regular]
        read: list[_Found] = []
        # The first frames of a joined stream need evidence, the rest is like any other stream.
        joined = np.flatnonzero(self._is_joined(window, regular))
        for at in joined.tolist():
            starts[at] = self._read_joined(window, decoder, int(regular[at]), read)
        frames = decoder.builder.kernels.scan(window.data, starts, window.run_stop[regular])
        for at in np.flatnonzero(frames.wrong).tolist():
            stream = int(window.run_stream[regular[at]])
            read += self._read(window, decoder, stream, [(regular[at], int(frames.reached[at]))])
        for stream in np.unique(streams[faulty[streams]]).tolist():
            own = runs[streams == stream]
            read += self._read(window, decoder, stream, [(run, None) for run in own.tolist()])
        # Before anything is decrypted: a message of the scalar path may name the keys of messages
        # that come after it in the same window. Those before it have the keys that were known then.
        self._learn_keys(decoder, read)
        self._keep_unfinished(
            window, decoder, regular[~frames.wrong], frames.reached[~frames.wrong]
        )
        # Frames are in the order of the runs. Rows must be in the order of the packets that
        # completed them, whatever the stream: so that tables do not depend on the window.
        first = ascending_pieces(window.pieces, frames.starts)
        last = ascending_pieces(window.pieces, frames.stops - 1)
        arrival = self._delivered.arrival[last]
        sequence = completion_order(arrival)
        frame_streams = window.run_stream[regular][frames.runs[sequence]]
        slices = Slices(
            window.data,
            window.pieces,
            first[sequence],
            frames.starts[sequence],
            frames.stops[sequence],
            self._front.streams.direction[frame_streams],
            self._delivered.ts_ns[last[sequence]],
            arrival[sequence],
            self._front.streams.connection[frame_streams],
        )
        yield from self._built(window, decoder, slices, frame_streams, read)

    def _built(
        self,
        window: Window,
        decoder: ProtocolDecoder,
        slices: Slices,
        streams: NDArray[np.int32],
        read: list[_Found],
    ) -> Iterator[Item]:
        """Yield batches of slices, merged with the rows of the scalar path."""
        rows = WindowRows()
        outcomes: list[tuple[int, Outcome]] = []
        # To open a message of such a protocol, the state after all earlier ones is needed, which
        # only the scalar decryptor follows. Without keys there is nothing to open.
        all_scalar = decoder.needs_context and self._ring.knows(decoder.protocol.name)
        # Batches of bounded size, so that the memory of a window does not depend on its content.
        for begin, end in chunks(slices):
            part = slices.take(slice(begin, end))
            if all_scalar:
                rejected = np.arange(begin, end)
            else:
                built = decoder.builder.build(
                    part, decoder.keys, self._scalar.row_opener(decoder.protocol, part)
                )
                self._count_decoded(part, built, streams[begin:end])
                rejected = built.rejected + begin
                places = np.stack([part.arrival, part.starts])
                rows.add(decoder.protocol.name, built.batch, places[:, built.rows])
                if built.tunnelled is not None:
                    carried, batch, carriers = built.tunnelled
                    rows.add(carried.name, batch, places[:, carriers])
            for at in rejected.tolist():
                outcome = self._scalar.decode_slice(
                    decoder.protocol,
                    window,
                    self._delivered,
                    int(slices.starts[at]),
                    int(slices.stops[at]),
                    int(slices.directions[at]),
                    int(slices.connection[at]),
                )
                stream = int(streams[at])
                outcome = outcome._replace(start=int(slices.starts[at]))
                outcomes.append((stream, self._located(window, outcome)))
        # In the order of packets, over both directions: earlier messages may name keys.
        outcomes += [
            (stream, self._outcome(decoder, stream, each)._replace(start=start))
            for stream, each, start in _by_packet(read)
        ]
        self._add_outcomes(decoder, outcomes, rows)
        yield from self._message_items(rows)

    def _learn_keys(self, decoder: ProtocolDecoder, read: list[_Found]) -> None:
        """Remember the keys that frames of the scalar path name."""
        if decoder.keys is not None:
            for stream, each, _ in read:
                if isinstance(each, Frame):
                    connection = int(self._front.streams.connection[stream])
                    decoder.keys.learn_from(connection, each.message, each.known)

    def _count_decoded(self, slices: Slices, built: Built, streams: NDArray[np.int32]) -> None:
        """Count what the kernels decoded."""
        sizes = (slices.stops - slices.starts)[built.rows]
        own = streams[built.rows]
        self._coverage.add("messages", own, 1)
        opened = ~built.sealed
        self._coverage.add("decoded", own[opened], sizes[opened])
        if not opened.all():
            self._coverage.add("undecryptable", own[built.sealed], sizes[built.sealed])

    def _add_outcomes(
        self, decoder: ProtocolDecoder, outcomes: list[tuple[int, Outcome]], rows: WindowRows
    ) -> None:
        """Count the outcomes of the scalar path, and add their rows."""
        for stream, outcome in outcomes:
            one = np.array([stream])
            if outcome.fault is not None:
                self._coverage.add("faults", one, 1)
                self._coverage.add("faulty", one, outcome.fault.present_bytes)
                name = decoder.protocol.name
                self._faults.of_stream(self._front.streams, stream, name, outcome.fault)
                continue
            self._coverage.add("messages", one, 1)
            self._coverage.add("undecryptable" if outcome.sealed else "decoded", one, outcome.size)
        rows.add_outcomes([outcome for _, outcome in outcomes])

    # -- streams with faults -----------------------------------------------------------------

    def _read(
        self,
        window: Window,
        decoder: ProtocolDecoder,
        stream: int,
        runs: list[tuple[Any, int | None]],
    ) -> list[_Found]:
        """Read runs of one stream with the reference's reader; keep it while a fault is open."""
        direction = int(self._front.streams.direction[stream])
        joined = bool(self._front.streams.joined(np.array([stream], np.int32))[0])
        reader = self._readers.pop(stream, None) or self._scalar.reader(decoder.protocol, direction)
        found: list[Frame | Fault] = []
        for run, start in runs:
            found += self._scalar.feed(
                reader, window, self._delivered, int(run), start, joined=joined
            )
        last = int(runs[-1][0])
        # Without an open fault, an unfinished frame can go back to the kernels: its bytes are kept
        # for the next window. They must be in the last run, or a gap lies within the frame.
        left = reader.unfinished
        room = int(window.run_stop[last]) - int(window.run_start[last])
        if left is None or left > room or self._ended[stream]:
            self._readers[stream] = reader
        elif left:
            stop = window.run_stop[[last]]
            self._front.keep(np.array([stream], np.int32), stop - left, stop)
        return [(stream, each, BEHIND_ALL) for each in found]

    def _read_joined(
        self, window: Window, decoder: ProtocolDecoder, run: int, read: list[_Found]
    ) -> int:
        """Read the first frames of a joined stream; return where the kernels continue."""
        stream = int(window.run_stream[run])
        direction = int(self._front.streams.direction[stream])
        reader = self._scalar.reader(decoder.protocol, direction)
        found, reached = self._scalar.feed_until_settled(reader, window, self._delivered, run)
        start = int(window.run_start[run])
        read += [(stream, each, start + each.start) for each in found]
        if reached is None:
            self._readers[stream] = reader
            return int(window.run_stop[run])
        return reached

    def _is_joined(self, window: Window, runs: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which runs begin a stream whose beginning was not captured."""
        first = (window.run_offset[runs] == 0) & (window.run_stop[runs] > window.run_start[runs])
        return np.asarray(first & self._front.streams.joined(window.run_stream[runs]))

    def _outcome(self, decoder: ProtocolDecoder, stream: int, found: Frame | Fault) -> Outcome:
        if isinstance(found, Fault):
            return Outcome(0, found.present_bytes, [], False, found)
        streams = self._front.streams
        direction: Direction = DIRECTIONS[int(streams.direction[stream])]
        connection = int(streams.connection[stream])
        return self._scalar.frame_rows(decoder.protocol, found, direction, connection)

    def _located(self, window: Window, outcome: Outcome) -> Outcome:
        """Return an outcome whose fault is located in the stream, not in the window's bytes."""
        if outcome.fault is None:
            return outcome
        # Faults of single frames are found by position in the window's bytes; tables have the
        # position in the stream.
        run = int(np.searchsorted(window.run_start, outcome.fault.start, side="right")) - 1
        moved = outcome.fault.start - int(window.run_start[run]) + int(window.run_offset[run])
        return outcome._replace(fault=outcome.fault._replace(start=moved))

    def _keep_unfinished(
        self,
        window: Window,
        decoder: ProtocolDecoder,
        runs: NDArray[np.intp],
        reached: NDArray[np.int64],
    ) -> None:
        """Keep unfinished frames; where the stream has ended, a reader reports what they are."""
        stops = window.run_stop[runs]
        left = np.flatnonzero(reached < stops)
        streams = window.run_stream[runs[left]]
        over = self._ended[streams]
        keep = left[~over]
        self._front.keep(window.run_stream[runs[keep]], reached[keep], stops[keep])
        for at in left[over].tolist():
            stream = int(window.run_stream[runs[at]])
            reader = self._scalar.reader(
                decoder.protocol, int(self._front.streams.direction[stream])
            )
            self._scalar.feed(reader, window, self._delivered, int(runs[at]), int(reached[at]))
            self._readers[stream] = reader

    def _end_readers(self, ended: NDArray[np.int32]) -> Iterator[Item]:
        """End the readers of streams that have ended."""
        rows = WindowRows()
        endings = self._front.streams.ending[ended]
        for stream, by in zip(ended.tolist(), endings.tolist(), strict=True):
            reader = self._readers.pop(stream, None)
            if reader is None:
                continue
            decoder = self._selector.of(stream)
            assert decoder is not None
            found = reader.end(still_open=by == _OPEN)
            self._coverage.add("ignored", np.array([stream]), reader.ignored_bytes)
            self._add_read(decoder, stream, found, rows)
        yield from self._message_items(rows)

    def _expire_readers(self) -> Iterator[Item]:
        """End the faults that would end with the next packet of their stream."""
        rows = WindowRows()
        now_ns = self._front.overdue_ns
        for stream, reader in list(self._readers.items()):
            since_ns = reader.open_since_ns
            if since_ns is None or now_ns - since_ns < SEARCH_NS:
                continue
            decoder = self._selector.of(stream)
            assert decoder is not None
            self._add_read(decoder, stream, reader.expire(now_ns), rows)
            if reader.unfinished == 0:
                del self._readers[stream]
        yield from self._message_items(rows)

    def _add_read(
        self, decoder: ProtocolDecoder, stream: int, found: list[Frame | Fault], rows: WindowRows
    ) -> None:
        """Add what a reader found behind all other messages of a window."""
        self._learn_keys(decoder, [(stream, each, BEHIND_ALL) for each in found])
        outcomes = [(stream, self._outcome(decoder, stream, each)) for each in found]
        self._add_outcomes(decoder, outcomes, rows)

    def _message_items(self, rows: WindowRows) -> Iterator[Item]:
        if "messages" in self._tables:
            for batch in rows.batches():
                yield "messages", batch

    # -- coverage ----------------------------------------------------------------------------

    def _retire(self, window: Window) -> Iterator[Item]:
        """Yield the coverage of connections that are gone, and forget them."""
        retired = window.retired
        if not len(retired):
            return
        if "coverage" in self._tables:
            names = self._selector.names
            yield (
                "coverage",
                coverage_batch(self._front.streams, self._coverage, retired, names, self._files),
            )
        gone = self._front.streams.connection[retired].tolist()
        self._scalar.forget(gone)
        self._selector.forget(gone)
        # Both directions: a stream without packets is not in `retired`, but has a protocol.
        self._coverage.forget(np.concatenate([retired, retired ^ 1]))


def _by_packet(read: list[_Found]) -> list[_Found]:
    """Return frames in the order of the packets with which they were found; a fault stays behind
    the frame before it."""
    arrivals: list[int] = []
    for _, each, _ in read:
        before = arrivals[-1] if arrivals else -1
        arrivals.append(each.known if isinstance(each, Frame) else before)
    order = sorted(range(len(read)), key=arrivals.__getitem__)
    return [read[at] for at in order]


@functools.cache
def _keep_memory() -> bool:
    """Make glibc keep the memory of a window's arrays for the next one; False without mallopt.

    By default it returns each of them to the system, and the next one costs a page fault for every
    4 KiB: a tenth of the time of reading. glibc raises its thresholds by itself, up to 32 MiB, but
    then for arrays that are held for long, too, and fragments stay (mallopt(3)). With fixed
    thresholds memory is independent of the number of windows.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    trim = mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)
    return bool(trim and mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES))
