"""The packets of a scene template as bytes, and the columns in which its instances differ.

A packet template is one row of bytes: all packets and blocks of a scene, one after the other. Ids,
times, addresses, sequence numbers and checksums have the same width in every instance
(`numbers.py`), so an instance is a copy of the row with other bytes in the same columns. The
styles (`recorded.py`, `sniffed.py`) make the items; `build_packet_template` finds the columns.

Encrypted connections cannot be changed in place: every instance has its own keys, and the module
of the protocol encrypts it anew, with what is under *encryption*.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ..scenes.provider import SceneTemplate, Slot, Stream
from .numbers import WIDTHS, Bytes

__all__ = [
    "SPACING_S",
    "Columns",
    "Draw",
    "Item",
    "KeyLogColumns",
    "PacketTemplate",
    "Resealer",
    "State",
    "StreamColumns",
    "build_packet_template",
    "resealers",
]

SPACING_S: Final = 0.000_004
"""Minimum pause between two payload packets of a connection. Even when shortened, their timestamps
differ in microseconds, so that the order of packets is the same for every reader."""

Columns: TypeAlias = npt.NDArray[np.int64]
"""Columns of the matrix: one row for each value, one column number for each of its bytes."""


@dataclass(slots=True)
class Item:
    """A packet or block of a template; one without bytes only marks a time."""

    at: float
    data: bytes = b""
    connection: int = -1
    direction: int = 0
    payload: tuple[int, int] = (0, 0)
    """Range of the stream that it carries."""
    payload_at: int = 0
    """Offset of the payload in `data`."""
    event: int = -1
    flags: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    """Offsets in `data` of values that vary, by what they are."""
    seq: int = 0
    """Sequence and acknowledgement number, relative to the first byte after the SYN."""
    ack: int = 0
    hidden: bool = False
    """Whether its bytes stay out of the capture: a key log line for a separate file."""

    @property
    def is_packet(self) -> bool:
        """Whether it is a packet of a connection, not a block about one."""
        return self.flags != 0


@dataclass(slots=True)
class PacketTemplate:
    """Everything that instantiating needs."""

    template: SceneTemplate
    items: list[Item]
    row: Bytes
    """All items one after the other, each starting at a multiple of four."""
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    pauses: npt.NDArray[np.float64]
    """Pause before each item, in nanoseconds."""
    ids: dict[str, tuple[Columns, npt.NDArray[np.uint64]]]
    """Columns of ids by form, and the offset of each in the block of numbers."""
    times: dict[str, tuple[Columns, npt.NDArray[np.int64]]]
    """Columns of times by form, and the item whose time each is."""
    marks: dict[str, tuple[Columns, npt.NDArray[np.int64]]]
    """Columns of addresses, ports and connection ids, and the connection of each."""
    numbers: dict[str, tuple[Columns, npt.NDArray[np.int64], npt.NDArray[np.int64]]]
    """Columns of sequence numbers and checksums, the stream or connection of each, and what is
    added."""
    at: dict[int, int]
    """The item of each event."""
    carriers: list[tuple[list[int], list[int]]]
    """Items with payload, in order, by connection and direction."""


# -- columns -----------------------------------------------------------------------------------

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
    # Hidden items have bytes in the row, for the key log, but none in the capture: they stop where
    # they start.
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
        # Reversed, so that the first item of an event wins.
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
            # A slot that begins before the packet may reach into it, by its width at most.
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
        # The value crosses two packets, and each holds a part of it. All its bytes are written for
        # each of them; those that are not in this packet go to the scratch columns.
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


# -- encryption --------------------------------------------------------------------------------

Draw: TypeAlias = Callable[[int], bytes]
"""Returns that many random bytes."""
State: TypeAlias = dict[int, tuple[bytes, bytes]]
"""Session id and resumption secret of earlier connections of the same instance, by connection."""


class Resealer(Protocol):
    """Encrypts one connection of an instance."""

    def seal(self, row: Bytes, draw: Draw, state: State) -> None:
        """Encrypt the connection in the row of an instance; its ids are already written."""


def resealers(packets: PacketTemplate) -> list[Resealer]:
    """Return one resealer for each encrypted connection, in order."""
    made = [
        connection.scenes.reseal(packets, place)
        for place, connection in enumerate(packets.template.connections)
        if connection.scenes.reseal is not None
    ]
    return [each for each in made if each is not None]


@dataclass(slots=True)
class StreamColumns:
    """The column of each byte of a stream, and of its retransmitted copies."""

    columns: npt.NDArray[np.int64]
    copies: list[tuple[slice, slice]]

    @classmethod
    def of(cls, packets: PacketTemplate, place: int, direction: int) -> StreamColumns:
        """Locate one direction of a connection in the rows of a packet template."""
        stream = packets.template.connections[place].streams[direction]
        columns = np.full(len(stream.data), -1, np.int64)
        copies: list[tuple[slice, slice]] = []
        for n in packets.carriers[place][direction]:
            start, stop = packets.items[n].payload
            column = int(packets.starts[n]) + packets.items[n].payload_at
            # A retransmission is copied after encryption (`repeat`), so it has the same bytes.
            if (columns[start:stop] >= 0).any():
                copies.append((slice(column, column + stop - start), slice(start, stop)))
            fresh = columns[start:stop] < 0
            columns[start:stop][fresh] = np.arange(column, column + stop - start)[fresh]
        return cls(columns, copies)

    def read(self, row: Bytes, start: int, stop: int) -> bytes:
        """Read bytes of the stream from a row."""
        return row[self.columns[start:stop]].tobytes()

    def write(self, row: Bytes, start: int, data: bytes) -> None:
        """Write bytes of the stream to a row."""
        row[self.columns[start : start + len(data)]] = np.frombuffer(data, np.uint8)

    def repeat(self, row: Bytes) -> None:
        """Make the retransmitted copies equal to the first."""
        for columns, positions in self.copies:
            row[columns] = row[self.columns[positions]]


class KeyLogColumns:
    """The columns of a connection's key log line."""

    def __init__(self, packets: PacketTemplate, place: int):
        self._at: dict[str, tuple[int, int]] = {}
        for n, item in enumerate(packets.items):
            event = packets.template.events[item.event] if item.event >= 0 else None
            if event is None or event.kind != "keys" or event.connection is None:
                continue
            if packets.template.places[event.connection.number] == place:
                base = int(packets.starts[n])
                for name, text in json.loads(event.text).items():
                    at = item.data.index(f'"{name}": "'.encode()) + len(name) + 5
                    self._at[name] = (base + at, base + at + len(text))

    def write(self, row: Bytes, **keys: bytes) -> None:
        """Write keys, in hexadecimal, to a row."""
        for name, key in keys.items():
            start, stop = self._at[name]
            row[start:stop] = np.frombuffer(key.hex().encode(), np.uint8)
