"""Builds packet templates: joins the items of a style and finds the columns that vary.

Instances are rows of a matrix, so a value that varies must be at the same columns in every row.
Placement finds these columns once per template: for each form (an id form, a timefound format, an
address …) one array of columns and one array that says which value goes there. Instantiating is
then one vectorised assignment per form for all rows, and never a loop over packets.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..scenes.template import SceneTemplate, Slot, Stream
from .numbers import WIDTHS
from .packet_template import Columns, Item, PacketTemplate

__all__ = ["build_packet_template"]

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
