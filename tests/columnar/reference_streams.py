"""The streams of a capture in one shape, read by the reference and by the front end.

`by_reference` and `by_front_end` return a `FrontEndResult`. The two must be equal, with any window
size and whatever the reader of windows keeps.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from wirelake.capture.format.constants import Limits
from wirelake.capture.format.items import Item, Packet, Segment
from wirelake.capture.format.reader import read
from wirelake.capture.tcp.assembly import RST, Conflict, Data, Gap, SourceClock, StreamAssembler
from wirelake.capture.tcp.connections import Connection, ConnectionTable
from wirelake.capture.tcp.headers import segment
from wirelake.columnar.tcp.frontend import FrontEnd
from wirelake.columnar.tcp.window import DIRECTIONS, ENDINGS, NOTES, Window

AnyPath = str | os.PathLike[str]
_LIMITS = Limits()


@dataclass
class StreamResult:
    """One direction of a connection."""

    connection: int
    direction: str
    client: tuple[bytes, int]
    server: tuple[bytes, int]
    first_ns: int
    file: int
    last_ns: int = 0
    packets: int = 0
    pieces: list[tuple[int, bytes, int, int, int, int]] = field(default_factory=list)
    """Position, bytes, time, place and number of file, and number of the packet."""
    gaps: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """Position, missing bytes, time, place and number of file of the packet that shows it."""
    conflicts: list[Conflict] = field(default_factory=list)
    still_open: bool | None = None
    counters: tuple[int, ...] = ()


@dataclass
class FrontEndResult:
    """What a capture holds."""

    packets: list[tuple[Any, ...]] = field(default_factory=list)
    others: list[tuple[int, Item]] = field(default_factory=list)
    """Facts, secrets and faults, each with the number of packets before it."""
    streams: list[StreamResult] = field(default_factory=list)
    """In the order in which they began."""


def by_reference(
    paths: Sequence[AnyPath],
    ports: Collection[int],
    *,
    connections: int = 1 << 18,
    limits: Limits = _LIMITS,
) -> FrontEndResult:
    """As `wirelake.capture` reads it."""
    result = FrontEndResult()
    table = ConnectionTable(ports, limit=connections)
    held: dict[Connection, dict[str, tuple[StreamResult, StreamAssembler, list[int]]]] = {}

    reset: set[Connection] = set()
    clock = SourceClock()

    def happened(stream: StreamResult, numbers: list[int], events: Sequence[Any]) -> None:
        for event in events:
            match event:
                case Data():
                    number = numbers[event.arrival - 1]
                    place = event.ts_ns, event.offset, event.file
                    stream.pieces.append((event.position, event.payload, *place, number))
                case Gap():
                    stream.gaps.append(tuple(event)[:-1])  # packets are numbered by stream here
                case Conflict():
                    stream.conflicts.append(event)

    def end(connection: Connection, still_open: bool) -> None:
        for stream, assembler, numbers in held.pop(connection).values():
            if stream.still_open is None:
                happened(stream, numbers, assembler.end())
                stream.still_open = still_open
            stream.counters = _counted(assembler)

    for file, path in enumerate(paths):
        for item in read(path, limits=limits):
            if not isinstance(item, Packet):
                result.others.append((len(result.packets), item))
                continue
            clock.advance(item.ts_ns)
            for ways in held.values():
                for stream, assembler, numbers in ways.values():
                    happened(stream, numbers, assembler.expire(clock.overdue_ns))
                    if assembler.finished and stream.still_open is None:
                        stream.still_open = False
            found = segment(item)
            if not isinstance(found, Segment):
                result.packets.append((*_row(item), found))
                continue
            assigned = table.assign(found)
            result.packets.append(
                (
                    *_row(item),
                    found.src,
                    found.src_port,
                    found.dst,
                    found.dst_port,
                    found.seq,
                    found.ack,
                    found.flags,
                    found.payload_offset,
                    len(found.payload),
                    assigned.connection.id,
                    assigned.direction,
                )
            )
            for dropped in assigned.dropped:
                end(dropped, still_open=False)
            ways = held.setdefault(assigned.connection, {})
            if assigned.direction not in ways:
                client, server = assigned.connection.client, assigned.connection.server
                ways[assigned.direction] = (
                    StreamResult(
                        assigned.connection.id,
                        assigned.direction,
                        (client.address, client.port),
                        (server.address, server.port),
                        item.ts_ns,
                        file,
                    ),
                    StreamAssembler(),
                    [],
                )
                result.streams.append(ways[assigned.direction][0])
                if assigned.connection in reset:
                    ways[assigned.direction][1].stop()
            stream, assembler, numbers = ways[assigned.direction]
            numbers.append(len(result.packets) - 1)
            stream.packets += 1
            stream.last_ns = item.ts_ns
            events = assembler.feed(
                found.seq,
                found.payload,
                item.ts_ns,
                found.payload_offset,
                found.flags,
                found.missing,
                file,
            )
            happened(stream, numbers, events)
            if assembler.finished and stream.still_open is None:
                stream.still_open = False
            if found.flags & RST and assigned.connection not in reset:
                reset.add(assigned.connection)
                for stream, assembler, numbers in ways.values():
                    if stream.still_open is None:
                        happened(stream, numbers, assembler.end())
                        stream.still_open = False
                    assembler.stop()
    for connection in table.finish():
        end(connection, still_open=not connection.over)
    return result


def _row(packet: Packet) -> tuple[int, ...]:
    return (
        packet.ts_ns,
        packet.offset,
        packet.data_offset,
        len(packet.data),
        packet.original,
        packet.interface,
        packet.link,
    )


def _counted(assembler: StreamAssembler) -> tuple[int, ...]:
    counters = assembler.counters
    return (
        counters.payload_bytes,
        counters.new_bytes,
        counters.duplicate_bytes,
        counters.gap_bytes,
        counters.ignored_bytes,
    )


Tail = Callable[[int, int], int]
"""How many of a run's last bytes are kept, for the number of a stream and the length of the run."""


def _nothing(_stream: int, _size: int) -> int:
    return 0


def by_front_end(
    paths: Sequence[AnyPath],
    ports: Collection[int],
    *,
    window_bytes: int,
    tail: Tail | None = None,
    share: int = 0,
    shares: int = 1,
    connections: int = 1 << 18,
    limits: Limits = _LIMITS,
) -> FrontEndResult:
    """As `wirelake.columnar` reads it."""
    result = FrontEndResult()
    front = FrontEnd(
        [os.fspath(path) for path in paths],
        ports=ports,
        window_bytes=window_bytes,
        share=share,
        shares=shares,
        connections=connections,
        limits=limits,
    )
    listener = _Listener(front, result, tail or _nothing)
    for window in front.windows():
        listener.window(window)
    assert not listener.live
    result.streams.sort(key=lambda stream: listener.begins[id(stream)])
    return result


class _Listener:
    """Reads windows, keeps tails, and checks that what was kept comes again."""

    def __init__(self, front: FrontEnd, result: FrontEndResult, tail: Tail):
        self.front = front
        self.result = result
        self.tail = tail
        self.live: dict[int, StreamResult] = {}
        self.begins: dict[int, int] = {}
        self.kept: dict[int, list[tuple[int, bytes, int, int, int, int]]] = {}

    def window(self, window: Window) -> None:
        before = len(self.result.packets)
        self._packets(window)
        others = [*window.facts, *window.secrets, *window.file_faults]
        others.sort(key=lambda other: (other[0], other[1].offset))
        self.result.others += [(before + at, item) for at, item in others]
        self._begin(window, before)
        self._runs(window)
        for stream, conflict in window.conflicts:
            self.live[stream].conflicts.append(conflict)
        assert len(set(window.ended.tolist())) == len(window.ended)
        for stream, how in zip(window.ended.tolist(), window.ended_by.tolist(), strict=True):
            assert self.live[stream].still_open is None
            self.live[stream].still_open = ENDINGS[how] == "open"
        for stream in window.retired.tolist():
            self._retire(stream)

    def _packets(self, window: Window) -> None:
        columns = [
            window.ts_ns,
            window.offset,
            window.data_offset,
            window.captured,
            window.original,
            window.interface,
            window.link,
        ]
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        more = [
            window.src_port,
            window.dst_port,
            window.seq,
            window.ack,
            window.flags,
            window.payload_offset,
            window.payload_len,
            window.connection,
        ]
        details = list(zip(*(column.tolist() for column in more), strict=True))
        for i, (row, detail) in enumerate(zip(rows, details, strict=True)):
            note = NOTES[window.note[i]]
            if note:
                assert window.connection[i] == 0
                assert window.direction[i] == 255
                self.result.packets.append((*row, note))
                continue
            src_high, src_low, dst_high, dst_low = window.addresses[:, i].tolist()
            size = 4 if window.family[i] == 4 else 16
            src = (src_high << 64 | src_low).to_bytes(16, "big")[-size:]
            dst = (dst_high << 64 | dst_low).to_bytes(16, "big")[-size:]
            src_port, dst_port, *rest = detail
            way = DIRECTIONS[window.direction[i]]
            self.result.packets.append((*row, src, src_port, dst, dst_port, *rest, way))

    def _begin(self, window: Window, before: int) -> None:
        """Streams that are seen for the first time, by their packets."""
        streams = self.front.streams
        for i in np.flatnonzero(window.note == 0).tolist():
            number = int(window.stream[i])
            if number in self.live:
                continue
            one = np.array([number], np.int32)
            result = StreamResult(
                int(streams.connection[number]),
                DIRECTIONS[streams.direction[number]],
                (streams.client(number), int(streams.client_port(one)[0])),
                (streams.server(number), int(streams.server_port(one)[0])),
                int(streams.first_ns[number]),
                int(streams.file[number]),
            )
            self.live[number] = result
            self.begins[id(result)] = before + i
            self.result.streams.append(result)

    def _runs(self, window: Window) -> None:
        count = len(window.run_stream)
        order = window.run_stream.tolist()
        changes = sum(a != b for a, b in pairwise(order))
        assert changes == max(0, len(set(order)) - 1), "runs of a stream are neighbours"
        pieces = np.append(window.piece_start, len(window.data)).tolist()
        keep: list[tuple[int, int, int]] = []
        piece = 0
        for run in range(count):
            number = order[run]
            stream = self.live[number]
            start, stop = int(window.run_start[run]), int(window.run_stop[run])
            offset, gap = int(window.run_offset[run]), int(window.run_gap[run])
            found = []
            while piece < len(window.piece_start) and pieces[piece] < stop:
                assert pieces[piece] >= start
                position = offset + pieces[piece] - start
                found.append(
                    (
                        position,
                        window.data[pieces[piece] : pieces[piece + 1]].tobytes(),
                        int(window.piece_ts[piece]),
                        int(window.piece_file_offset[piece]),
                        int(window.piece_file[piece]),
                        int(window.piece_arrival[piece]),
                        int(window.piece_cut[piece]),
                    )
                )
                piece += 1
            kept = self.kept.pop(number, [])
            assert window.run_kept[run] == sum(len(each[1]) for each in kept)
            assert found[: len(kept)] == kept, "what was kept comes again"
            assert not kept or gap == 0
            if gap:
                shown = window.run_gap_ts[run], window.run_gap_offset[run], window.run_gap_file[run]
                stream.gaps.append((offset - gap, gap, *(int(each) for each in shown)))
            stream.pieces += [each[:-1] for each in found[len(kept) :]]
            if run + 1 == count or order[run + 1] != number:
                size = min(stop - start, self.tail(number, stop - start))
                if size:
                    keep.append((number, stop - size, stop))
                    self.kept[number] = _cut(found, offset + stop - start - size)
        assert piece == len(window.piece_start)
        columns = np.array(keep, np.int64).reshape(-1, 3).T
        self.front.keep(columns[0].astype(np.int32), columns[1], columns[2])

    def _retire(self, number: int) -> None:
        result = self.live.pop(number)
        streams = self.front.streams
        assert result.still_open is not None
        self.kept.pop(number, None)
        result.last_ns = int(streams.last_ns[number])
        result.packets = int(streams.packets[number])
        result.counters = tuple(
            int(column[number])
            for column in (
                streams.payload,
                streams.new,
                streams.duplicate,
                streams.gap,
                streams.ignored,
            )
        )


def _cut(pieces: list[tuple[Any, ...]], position: int) -> list[tuple[Any, ...]]:
    """The pieces from a position of the stream on."""
    found = []
    for start, data, ts_ns, offset, file, number, cut in pieces:
        skipped = max(0, position - start)
        if skipped < len(data):
            rest = data[skipped:]
            found.append(
                (
                    start + skipped,
                    rest,
                    ts_ns,
                    offset + skipped,
                    file,
                    number,
                    1 if skipped else cut,
                )
            )
    return found
