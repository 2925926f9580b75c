"""TCP segments of a connection: segmentation, acknowledgements, and small disorders.

`segments_of` turns what the tap saw of one connection into packets. Writes in quick succession are
sent together and long ones are cut, so that frames cross segments and segments hold several frames.
Acknowledgements travel with data where they can and alone where they must. Occasionally a segment
is retransmitted although it arrived, or overtaken by its successor; an idle connection is probed.
Reassembly removes all of this.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wirelake.capture.tcp.headers import ACK, FIN, PSH, RST, SYN

from ..scenes.provider import SceneTemplate, Slot, Stream
from ..scenes.scene import C2S, S2C, SceneEvent
from .instances import SPACING_S, Columns, Item, PacketTemplate
from .numbers import WIDTHS

__all__ = [
    "Segment",
    "build_packet_template",
    "segments_of",
]


_TOGETHER_S: Final = 0.003
"""Writes within this time may share a segment."""
_DELAYED_ACK_S: Final = 0.04
_KEEP_ALIVE_S: Final = 45.0
_AGAIN_S: Final = 0.21
"""Retransmission timeout."""
_AGAIN: Final = 0.004
"""Share of segments that are retransmitted."""
_SWAPPED: Final = 0.08
"""Share of pairs within a burst that arrive in the other order."""


@dataclass(slots=True)
class Segment:
    """One packet of a connection; numbers are relative to the first byte after the SYN."""

    at: float
    direction: int
    flags: int
    start: int
    stop: int
    """Range of the stream that it carries; empty without payload."""
    ack: int = 0
    event: int = -1

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return self.stop - self.start


@dataclass(slots=True)
class _Write:
    at: float
    direction: int
    start: int
    stop: int
    event: int


def segments_of(
    events: list[tuple[int, SceneEvent]], round_trip_s: float, rng: random.Random
) -> list[Segment]:
    """Return the packets of one connection, in order of time."""
    mss = rng.choice((1448, 1448, 1380, 1220, 536))
    opened = next(each for _, each in events if each.kind == "open")
    closed = next((each for _, each in events if each.kind == "close"), None)
    found = [
        Segment(opened.at, C2S, SYN, -1, -1),
        Segment(opened.at + 0.000_03, S2C, SYN | ACK, -1, -1),
        Segment(opened.at + round_trip_s, C2S, ACK, 0, 0),
    ]
    clock = found[-1].at
    for write in _writes(events, rng):
        burst = list(_cut(write, mss))
        for segment in burst:
            clock = segment.at = max(segment.at, clock + SPACING_S)
        found += _swapped(burst, rng)
    data = found[3:]
    end = clock if closed is None else max(closed.at, clock + SPACING_S)
    found += _acknowledgements(data, round_trip_s, end)
    found += _again(data, rng, end)
    found += _probes(data, end)
    if closed is not None:
        found += _ending(closed, end, round_trip_s)
    found.sort(key=lambda each: each.at)
    _acknowledge(found, round_trip_s)
    return found


def _writes(events: list[tuple[int, SceneEvent]], rng: random.Random) -> Iterator[_Write]:
    """Yield what each end writes, joining writes in quick succession."""
    pending: _Write | None = None
    for n, each in events:
        if each.kind != "data":
            continue
        follows = (
            pending is not None
            and pending.direction == each.direction
            and each.at - pending.at < _TOGETHER_S
            and rng.random() < 0.6
        )
        if pending is not None and follows:
            pending.at, pending.stop = each.at, each.stop
        else:
            if pending is not None:
                yield pending
            pending = _Write(each.at, each.direction, each.start, each.stop, n)
    if pending is not None:
        yield pending


def _cut(write: _Write, mss: int) -> Iterator[Segment]:
    for start in range(write.start, write.stop, mss):
        stop = min(start + mss, write.stop)
        flags = ACK | PSH if stop == write.stop else ACK
        yield Segment(write.at, write.direction, flags, start, stop, event=write.event)


def _swapped(burst: list[Segment], rng: random.Random) -> list[Segment]:
    """Swap some neighbours of a burst."""
    for one, two in pairwise(burst):
        if one.at < two.at and rng.random() < _SWAPPED:
            one.at, two.at = two.at, one.at
    return sorted(burst, key=lambda each: each.at)


def _acknowledgements(data: list[Segment], round_trip_s: float, end: float) -> list[Segment]:
    """Return pure acknowledgements, where no data goes the other way in time."""
    found: list[Segment] = []
    for n, segment in enumerate(data):
        other = 1 - segment.direction
        due = segment.at + (_DELAYED_ACK_S if other == S2C else round_trip_s)
        following = data[n + 1] if n + 1 < len(data) else None
        in_time = following is not None and following.at <= due
        if not in_time and due < end:
            found.append(Segment(due, other, ACK, -2, -2))
    return found


def _again(data: list[Segment], rng: random.Random, end: float) -> list[Segment]:
    """Return spurious retransmissions, some of them joined with their successor."""
    found: list[Segment] = []
    for n, segment in enumerate(data):
        at = segment.at + _AGAIN_S
        if at >= end or rng.random() >= _AGAIN:
            continue
        stop = segment.stop
        following = data[n + 1] if n + 1 < len(data) else None
        joins = (
            following is not None
            and following.start == stop
            and following.direction == segment.direction
            and following.size + segment.size < 1448
        )
        if following is not None and joins and rng.random() < 0.3:
            stop = following.stop
        found.append(Segment(at, segment.direction, ACK | PSH, segment.start, stop))
    return found


def _probes(data: list[Segment], end: float) -> list[Segment]:
    """Return keep-alive probes of idle connections, and their answers."""
    found: list[Segment] = []
    for one, two in pairwise(data):
        at = one.at + _KEEP_ALIVE_S
        if at < two.at - 1.0 and at < end - 1.0:
            found.append(Segment(at, S2C, ACK, -3, -3))
            found.append(Segment(at + 0.05, C2S, ACK, -2, -2))
    return found


def _ending(closed: SceneEvent, end: float, round_trip_s: float) -> list[Segment]:
    if closed.how == "reset":
        return [Segment(end, C2S, RST | ACK, -2, -2)]
    first = C2S if closed.how == "client" else S2C
    pause = 0.000_06 if first == C2S else round_trip_s
    return [
        Segment(end, first, FIN | ACK, -2, -2),
        Segment(end + pause, 1 - first, FIN | ACK, -2, -2),
        Segment(end + pause + 0.000_08 + round_trip_s, first, ACK, -4, -4),
    ]


def _acknowledge(found: list[Segment], round_trip_s: float) -> None:
    """Fill in sequence and acknowledgement numbers."""
    sent = [0, 0]
    arrived: list[list[tuple[float, int]]] = [[], []]
    fins = [0, 0]
    for segment in found:
        direction, other = segment.direction, 1 - segment.direction
        if segment.start < -1:
            here = sent[direction] + (fins[direction] if segment.start == -4 else 0)
            here -= 1 if segment.start == -3 else 0
            segment.start = segment.stop = here
        if segment.flags & FIN:
            fins[direction] = 1
        delay = round_trip_s if direction == C2S else 0.0
        known = [stop for at, stop in arrived[other][-64:] if at + delay <= segment.at]
        segment.ack = max(known, default=0) + (fins[other] if segment.flags & (FIN | RST) else 0)
        if segment.stop > sent[direction]:
            sent[direction] = segment.stop
            arrived[direction].append((segment.at, segment.stop))


# Builds packet templates: joins the items of a style and finds the columns that vary.


_SCRATCH: Final = 64
"""Columns behind the last item. The part of a value that is outside of a packet goes there."""
_WIDEST: Final = 40
"""Upper bound of the bytes of an id or time."""
_TIMES: Final = {
    "varint": 6,
    "i64be": 8,
    "i64le": 8,
    "ns": 19,
    "ts_epb": 8,
    "ts_pcap_us": 8,
    "ts_pcap_ns": 8,
}
"""Bytes of a time, by form."""
_MARKS: Final = {
    "address": 4,
    "address_text": 14,
    "port": 2,
    "port_text": 5,
    "connection": 8,
    "connection_text": 19,
}
"""Bytes of what identifies a connection."""
_NUMBERS: Final = {"seq": 4, "ack": 4, "checksum": 2}
"""Bytes of what is computed in packet headers."""


def build_packet_template(template: SceneTemplate, items: list[Item]) -> PacketTemplate:
    """Build a packet template from items; they are sorted by time."""
    items.sort(key=lambda item: item.at)
    sizes = np.array([len(item.data) for item in items], np.int64)
    padded = (sizes + 3) & ~3
    starts = np.concatenate([[0], np.cumsum(padded)[:-1]]).astype(np.int64)
    gaps = [bytes(each) for each in (padded - sizes)]
    data = b"".join(
        [part for item, gap in zip(items, gaps, strict=True) for part in (item.data, gap)]
    )
    packets = PacketTemplate(
        template=template,
        items=items,
        row=np.frombuffer(data + bytes(_SCRATCH), np.uint8),
        starts=starts,
        stops=np.where([item.hidden for item in items], starts, starts + sizes),
        pauses=np.diff([item.at for item in items], prepend=0.0) * 1e9,
        ids={},
        times={},
        marks={},
        numbers={},
        at={item.event: n for n, item in reversed(list(enumerate(items)))},
        carriers=[([], []) for _ in template.connections],
    )
    _Finder(packets).find()
    return packets


@dataclass(slots=True)
class _Columns:
    """Columns of all values of one form, and the source of each value."""

    starts: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    split: list[tuple[Columns, int]] = field(default_factory=list)
    """Values that cross two packets: all their columns."""
    added: list[int] = field(default_factory=list)

    def joined(self, width: int, kind: Any) -> tuple[Columns, npt.NDArray[Any]]:
        """Return all columns, and the source of the value at each."""
        whole = np.array(self.starts, np.int64)[:, None] + np.arange(width)
        columns = np.concatenate([whole, *(columns[None] for columns, _ in self.split)])
        sources = [*self.sources, *(source for _, source in self.split)]
        return columns, np.array(sources, kind)


class _Finder:
    """Finds the columns in which instances differ."""

    def __init__(self, packets: PacketTemplate):
        self.packets = packets
        self.scratch = len(packets.row) - _SCRATCH
        self.begins = packets.starts.tolist()
        self.ids: dict[str, _Columns] = {}
        self.times: dict[str, _Columns] = {}
        self.marks: dict[str, _Columns] = {}
        self.numbers: dict[str, _Columns] = {}

    def find(self) -> None:
        """Fill in the columns of the packet template."""
        packets = self.packets
        for n, item in enumerate(packets.items):
            for what, at in item.columns.items():
                self._mark(what, self.begins[n] + at, n, item)
            if item.connection >= 0 and item.payload[1] > item.payload[0]:
                packets.carriers[item.connection][item.direction].append(n)
        for connection, carriers in zip(
            packets.template.connections, packets.carriers, strict=True
        ):
            for stream, items in zip(connection.streams, carriers, strict=True):
                self._stream(stream, items)
        self._texts()
        packets.ids = {f: found.joined(WIDTHS[f], np.uint64) for f, found in self.ids.items()}
        packets.times = {f: found.joined(_TIMES[f], np.int64) for f, found in self.times.items()}
        packets.marks = {f: found.joined(_MARKS[f], np.int64) for f, found in self.marks.items()}
        packets.numbers = {
            f: (*found.joined(_NUMBERS[f], np.int64), np.array(found.added, np.int64))
            for f, found in self.numbers.items()
        }

    def _mark(self, what: str, column: int, n: int, item: Item) -> None:
        """Add a value that a style has marked in an item."""
        if what in _NUMBERS:
            self._number(what, column, item)
        elif what in _TIMES:
            _add(self.times, what, column, n)
        else:
            _add(self.marks, what, column, item.connection)

    def _number(self, what: str, column: int, item: Item) -> None:
        """Add a sequence number of a stream, or a checksum of a connection."""
        if what == "checksum":
            head = np.frombuffer(item.data, ">u2", 10, item.columns[what] - 10)
            _add(self.numbers, what, column, item.connection)
            self.numbers[what].added.append(int(head.sum()))
        else:
            direction = item.direction if what == "seq" else 1 - item.direction
            _add(self.numbers, what, column, 2 * item.connection + direction)
            self.numbers[what].added.append(item.seq if what == "seq" else item.ack)

    def _stream(self, stream: Stream, items: list[int]) -> None:
        """Add the slots of a stream, in every packet that carries them, copies included."""
        slots = sorted(stream.slots, key=lambda slot: slot.start)
        starts = [slot.start for slot in slots]
        bringers: dict[int, int] = {}
        for n in items:
            start, stop = self.packets.items[n].payload
            for slot in slots[bisect_left(starts, start - _WIDEST) : bisect_left(starts, stop)]:
                width = _TIMES[slot.form] if slot.is_time else WIDTHS[slot.form]
                if slot.start + width > start:
                    if slot.start >= start:
                        bringers.setdefault(slot.start, n)
                    self._spot(slot, width, n, bringers)

    def _spot(self, slot: Slot, width: int, n: int, bringers: dict[int, int]) -> None:
        """Add a slot in one packet; a time is that of the packet that carried it first."""
        item = self.packets.items[n]
        start, stop = item.payload
        base = self.begins[n] + item.payload_at - start
        source = slot.place
        if slot.is_time:
            source = self.packets.at.get(slot.event, bringers.get(slot.start, n))
        columns_by_form = self.times if slot.is_time else self.ids
        if start <= slot.start and slot.start + width <= stop:
            _add(columns_by_form, slot.form, slot.start + base, source)
            return
        places = np.arange(slot.start, slot.start + width)
        inside = (places >= start) & (places < stop)
        columns = np.where(inside, places + base, self.scratch)
        columns_by_form.setdefault(slot.form, _Columns()).split.append((columns, source))

    def _texts(self) -> None:
        """Find ids in the text of facts and key logs."""
        packets = self.packets
        for n, item in enumerate(packets.items):
            event = packets.template.events[item.event] if item.event >= 0 else None
            if event is None or event.kind not in {"fact", "keys"} or not item.data:
                continue
            content = json.loads(event.text) if event.kind == "keys" else event.facts
            for value in content.values():
                text = str(value).encode()
                found = packets.template.numbers.used.get(text)
                if found is not None:
                    column = self.begins[n] + item.data.index(text)
                    _add(self.ids, found[0], column, found[1])


def _add(columns_by_form: dict[str, _Columns], form: str, column: int, source: int) -> None:
    found = columns_by_form.get(form)
    if found is None:
        found = columns_by_form[form] = _Columns()
    found.starts.append(column)
    found.sources.append(source)
