"""Makes plates: puts the items of a style in a row, and finds the columns in which casts differ."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..scenes.template import (
    Mould,
    Spot,
    Stream,
)
from .numbers import WIDTHS
from .packet_template import (
    Columns,
    Item,
    Plate,
)

__all__ = ["engrave"]

_SCRATCH: Final = 64
"""Columns behind the last item: what falls outside of a packet is written there."""
_WIDEST: Final = 40
"""No id or time has more bytes."""
_TIMES: Final = {
    "varint": 6,
    "i64be": 8,
    "i64le": 8,
    "ns": 19,
    "ts_epb": 8,
    "ts_pcap_us": 8,
    "ts_pcap_ns": 8,
}
"""Bytes of times, by their form."""
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
"""Bytes of what is computed in the headers of packets."""


def engrave(mould: Mould, items: list[Item]) -> Plate:
    """A plate of these items, in order of time."""
    items.sort(key=lambda item: item.at)
    sizes = np.array([len(item.data) for item in items], np.int64)
    padded = (sizes + 3) & ~3
    starts = np.concatenate([[0], np.cumsum(padded)[:-1]]).astype(np.int64)
    gaps = [bytes(each) for each in (padded - sizes)]
    data = b"".join(
        [part for item, gap in zip(items, gaps, strict=True) for part in (item.data, gap)]
    )
    plate = Plate(
        mould=mould,
        items=items,
        row=np.frombuffer(data + bytes(_SCRATCH), np.uint8),
        starts=starts,
        stops=np.where([item.hidden for item in items], starts, starts + sizes),
        pauses=np.diff([item.at for item in items], prepend=0.0) * 1e9,
        ids={},
        times={},
        marks={},
        numbers={},
        at={item.happening: n for n, item in reversed(list(enumerate(items)))},
        carriers=[([], []) for _ in mould.connections],
    )
    _Finder(plate).find()
    return plate


@dataclass(slots=True)
class _Stamp:
    """Where something of one form stands, and what it is made of."""

    starts: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    split: list[tuple[Columns, int]] = field(default_factory=list)
    """Those that two packets share: all their columns."""
    added: list[int] = field(default_factory=list)

    def joined(self, width: int, kind: Any) -> tuple[Columns, npt.NDArray[Any]]:
        """All columns, and what is written there."""
        whole = np.array(self.starts, np.int64)[:, None] + np.arange(width)
        columns = np.concatenate([whole, *(columns[None] for columns, _ in self.split)])
        sources = [*self.sources, *(source for _, source in self.split)]
        return columns, np.array(sources, kind)


class _Finder:
    """Finds the columns in which casts differ."""

    def __init__(self, plate: Plate):
        self.plate = plate
        self.scratch = len(plate.row) - _SCRATCH
        self.begins = plate.starts.tolist()
        self.ids: dict[str, _Stamp] = {}
        self.times: dict[str, _Stamp] = {}
        self.marks: dict[str, _Stamp] = {}
        self.numbers: dict[str, _Stamp] = {}

    def find(self) -> None:
        """Fills in what the plate lacks."""
        plate = self.plate
        for n, item in enumerate(plate.items):
            for what, at in item.columns.items():
                self._mark(what, self.begins[n] + at, n, item)
            if item.connection >= 0 and item.payload[1] > item.payload[0]:
                plate.carriers[item.connection][item.direction].append(n)
        for connection, carriers in zip(plate.mould.connections, plate.carriers, strict=True):
            for stream, items in zip(connection.streams, carriers, strict=True):
                self._stream(stream, items)
        self._texts()
        plate.ids = {f: stamp.joined(WIDTHS[f], np.uint64) for f, stamp in self.ids.items()}
        plate.times = {f: stamp.joined(_TIMES[f], np.int64) for f, stamp in self.times.items()}
        plate.marks = {f: stamp.joined(_MARKS[f], np.int64) for f, stamp in self.marks.items()}
        plate.numbers = {
            f: (*stamp.joined(_NUMBERS[f], np.int64), np.array(stamp.added, np.int64))
            for f, stamp in self.numbers.items()
        }

    def _mark(self, what: str, column: int, n: int, item: Item) -> None:
        """Something that a style has marked in an item."""
        if what in _NUMBERS:
            self._number(what, column, item)
        elif what in _TIMES:
            _add(self.times, what, column, n)
        else:
            _add(self.marks, what, column, item.connection)

    def _number(self, what: str, column: int, item: Item) -> None:
        """A sequence number belongs to a stream, a checksum to a connection."""
        if what == "checksum":
            head = np.frombuffer(item.data, ">u2", 10, item.columns[what] - 10)
            _add(self.numbers, what, column, item.connection)
            self.numbers[what].added.append(int(head.sum()))
        else:
            way = item.direction if what == "seq" else 1 - item.direction
            _add(self.numbers, what, column, 2 * item.connection + way)
            self.numbers[what].added.append(item.seq if what == "seq" else item.ack)

    def _stream(self, stream: Stream, items: list[int]) -> None:
        """The spots of a stream, in every packet that carries them, copies included."""
        spots = sorted(stream.spots, key=lambda spot: spot.start)
        starts = [spot.start for spot in spots]
        bringers: dict[int, int] = {}
        for n in items:
            start, stop = self.plate.items[n].payload
            for spot in spots[bisect_left(starts, start - _WIDEST) : bisect_left(starts, stop)]:
                width = _TIMES[spot.form] if spot.is_time else WIDTHS[spot.form]
                if spot.start + width > start:
                    if spot.start >= start:
                        bringers.setdefault(spot.start, n)
                    self._spot(spot, width, n, bringers)

    def _spot(self, spot: Spot, width: int, n: int, bringers: dict[int, int]) -> None:
        """A spot in one packet; a time is that of the packet that brought it first."""
        item = self.plate.items[n]
        start, stop = item.payload
        base = self.begins[n] + item.payload_at - start
        source = spot.place
        if spot.is_time:
            source = self.plate.at.get(spot.happening, bringers.get(spot.start, n))
        stamps = self.times if spot.is_time else self.ids
        if start <= spot.start and spot.start + width <= stop:
            _add(stamps, spot.form, spot.start + base, source)
            return
        places = np.arange(spot.start, spot.start + width)
        inside = (places >= start) & (places < stop)
        columns = np.where(inside, places + base, self.scratch)
        stamps.setdefault(spot.form, _Stamp()).split.append((columns, source))

    def _texts(self) -> None:
        """Ids in the texts of facts and key logs."""
        plate = self.plate
        for n, item in enumerate(plate.items):
            happening = plate.mould.happenings[item.happening] if item.happening >= 0 else None
            if happening is None or happening.kind not in {"fact", "keys"} or not item.data:
                continue
            said = json.loads(happening.text) if happening.kind == "keys" else happening.facts
            for name in ("id", "client", "client_id"):
                text = str(said.get(name)).encode()
                found = plate.mould.numbers.used.get(text)
                if found is not None:
                    column = self.begins[n] + item.data.index(text)
                    _add(self.ids, found[0], column, found[1])


def _add(stamps: dict[str, _Stamp], form: str, column: int, source: int) -> None:
    stamp = stamps.get(form)
    if stamp is None:
        stamp = stamps[form] = _Stamp()
    stamp.starts.append(column)
    stamp.sources.append(source)
