"""Writes capture files: all packets of a shard in order of time, cut into a few files.

Arrow moves the packets: one `take` copies variable-length pieces of one buffer in any order. A
recorder introduces a connection again in each further file that it reaches; these introductions are
inserted while writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..scenes.provider import Connection, SceneTemplate
from .instances import Instances
from .numbers import Bytes, address_text
from .packet_template import Item, PacketTemplate

__all__ = ["Edits", "ExtraPacket", "Style", "Written", "write_captures"]


_ROOM: Final = 6
"""Minimum packets after a damaged block in the same file: a reader needs them to resume."""


class Style(Protocol):
    """The format of captures."""

    suffix: str
    resolution_ns: int
    numbered: bool

    def head(self, source: str, sequence: int) -> bytes:
        """Return the header of a file."""

    def packets(self, template: SceneTemplate) -> PacketTemplate:
        """Return the packets of a template."""

    def introduction(
        self, connection: Connection, address: str, port: int, number: int, ts_ns: int
    ) -> bytes:
        """Return what introduces a connection in a further file."""

    def can_shorten(self, item: Item) -> bool:
        """Return whether a packet can be cut at its end."""

    def shortened(self, packet: bytes, size: int, *, on_wire: bool) -> bytes:
        """Return a packet that is `size` bytes shorter: never sent (`on_wire`), or not captured."""

    def retimed(self, packet: bytes, ts_ns: int) -> bytes:
        """Return a packet with another timestamp."""

    def damage(self, packet: Bytes) -> bool:
        """Make the block or record of a packet inconsistent, in place. Return False when a reader
        could then mistake something within it for the next one."""

    def damage_detail(self, packet: bytes) -> str:
        """Return the detail that a reader reports."""


@dataclass(slots=True)
class ExtraPacket:
    """A packet that one instance has in addition to its template."""

    which: int
    k: int
    time_ns: int
    data: bytes
    differs_at: int
    """Offset of the byte in which it differs from the packet that it copies."""
    file: int = -1
    offset: int = -1


@dataclass(slots=True)
class Edits:
    """How faulty instances differ from their template: packets removed, shortened or added."""

    stops: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """End of an item in its row, by group of instances, row and item."""
    extras: list[ExtraPacket] = field(default_factory=list)
    fragile: list[tuple[int, int, int]] = field(default_factory=list)
    """Items that must not be among the last of a file: a reader resumes behind them."""

    def remove(self, which: int, k: int, n: int) -> None:
        """Remove a packet from the capture."""
        self.stops[which, k, n] = -1

    def shorten(self, which: int, k: int, n: int, stop: int) -> None:
        """Shorten a packet in the capture."""
        self.stops[which, k, n] = stop


@dataclass(slots=True)
class Written:
    """The files that were written."""

    files: list[str]
    sizes: list[int]
    packets: int


@dataclass(slots=True)
class _Sorted:
    """All items of a shard, sorted by time."""

    data: memoryview
    ends: npt.NDArray[np.int64]
    """Offset of each item in `data`, and the end."""
    order: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]


def write_captures(
    style: Style,
    buffer: Bytes,
    groups: Sequence[Instances],
    folder: Path,
    source: str,
    sequences: Sequence[int],
    edits: Edits,
    *,
    begins: Sequence[int] | None = None,
) -> Written:
    """Write the files, and store in the instances where each of their items is.

    `begins` are the items, in order of time, that begin all files but the first; by default files
    have about the same size.
    """
    found = _sorted(buffer, groups, edits)
    if begins is None:
        cuts = _cuts(found, len(sequences), _positions(groups, found.order, edits.fragile))
    else:
        cuts = [0, *begins, len(found.order)]
    files = np.zeros(len(found.order), np.int64)
    offsets = found.ends[:-1].copy()
    written = Written([], [], len(found.order))
    intros = _Introductions(style, groups, found, cuts)
    for n, sequence in enumerate(sequences):
        name = f"{source}-{sequence:08d}{style.suffix}"
        begin, end = cuts[n], cuts[n + 1]
        files[begin:end] = n
        head = style.head(source, sequence)
        offsets[begin:end] += len(head) - found.ends[begin]
        size = _write(folder / name, head, found, begin, end, intros.before(n), offsets)
        written.files.append(name)
        written.sizes.append(size)
    written.packets = int((np.diff(found.ends) > 0).sum())
    _store_places(groups, found.order, files, offsets, edits.extras)
    return written


def _positions(
    groups: Sequence[Instances], order: npt.NDArray[np.int64], items: list[tuple[int, int, int]]
) -> npt.NDArray[np.int64]:
    """Return the positions of some items in order of time."""
    if not items:
        return np.zeros(0, np.int64)
    starts = np.cumsum([0, *(instances.times.size for instances in groups)])
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return np.array([back[starts[w] + k * groups[w].times.shape[1] + n] for w, k, n in items])


def _cuts(found: _Sorted, files: int, fragile: npt.NDArray[np.int64]) -> list[int]:
    """Return the items that begin a file."""
    total = int(found.ends[-1])
    cuts = [0]
    for n in range(1, files):
        # Not right behind a damaged block: a reader resumes only with further blocks in its file.
        cut = int(np.searchsorted(found.ends[:-1], total * n // files))
        while ((fragile < cut) & (fragile >= cut - _ROOM)).any():
            cut += _ROOM
        cuts.append(min(cut, len(found.order)))
    return [*cuts, len(found.order)]


def _sorted(buffer: Bytes, groups: Sequence[Instances], edits: Edits) -> _Sorted:
    bounds: list[npt.NDArray[np.int64]] = []
    at = 0
    for which, instances in enumerate(groups):
        count, width = instances.rows.shape
        pairs = np.stack([instances.packets.starts, instances.packets.stops], axis=1)
        rows = at + np.arange(count, dtype=np.int64)[:, None, None] * width
        placed = rows + pairs
        for (w, k, n), stop in edits.stops.items():
            if w == which:
                placed[k, n, 1] = placed[k, n, 0] if stop < 0 else at + k * width + stop
        bounds.append(placed.ravel())
        at += count * width
    for extra in edits.extras:
        bounds.append(np.array([at, at + len(extra.data)]))
        at += len(extra.data)
    added = np.array([extra.time_ns for extra in edits.extras], np.int64)
    times = np.concatenate([*(instances.times.ravel() for instances in groups), added])
    if edits.extras:
        more = np.frombuffer(b"".join(extra.data for extra in edits.extras), np.uint8)
        buffer = np.concatenate([buffer, more])
    order = np.argsort(times, kind="stable")
    limits = np.append(np.concatenate(bounds), at)
    pieces = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(limits) - 1, [None, pa.py_buffer(limits), pa.py_buffer(buffer)]
    )
    # A binary array over the buffer as it is: its offsets are the bounds of all items, so every
    # second value is an item and the others are what lies between. One `take` then gathers the
    # packets in order of time, without a Python object for each.
    taken = pieces.take(pa.array(order * 2))
    _, ends, data = taken.buffers()
    return _Sorted(
        memoryview(data), np.frombuffer(ends, np.int64, len(order) + 1), order, times[order]
    )


def _write(
    path: Path,
    head: bytes,
    found: _Sorted,
    begin: int,
    end: int,
    intros: list[tuple[int, bytes]],
    offsets: npt.NDArray[np.int64],
) -> int:
    """Write one file; inserted introductions move the offsets of what follows."""
    with path.open("wb", buffering=1 << 20) as out:
        out.write(head)
        done = begin
        for place, text in intros:
            out.write(found.data[int(found.ends[done]) : int(found.ends[place])])
            out.write(text)
            offsets[place:end] += len(text)
            done = place
        out.write(found.data[int(found.ends[done]) : int(found.ends[end])])
        return out.tell()


def _store_places(
    groups: Sequence[Instances],
    order: npt.NDArray[np.int64],
    files: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    extras: list[ExtraPacket],
) -> None:
    """Store file and offset of every item with its instances."""
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    at = 0
    for instances in groups:
        here = back[at : at + instances.times.size].reshape(instances.times.shape)
        instances.files, instances.offsets = files[here], offsets[here]
        at += instances.times.size
    for n, extra in enumerate(extras, at):
        extra.file, extra.offset = int(files[back[n]]), int(offsets[back[n]])


class _Introductions:
    """Introductions of connections that reach a further file."""

    def __init__(self, style: Style, groups: Sequence[Instances], found: _Sorted, cuts: list[int]):
        self.style = style
        self.groups = groups
        self.found = found
        self.cuts = cuts
        self.starts = np.cumsum([0, *(instances.times.size for instances in groups)])
        self.links = self._links() if style.numbered and len(cuts) > 2 else None

    def _links(self) -> npt.NDArray[np.int64]:
        """Return a number for the connection of each item, in order of time; -1 without one."""
        found: list[npt.NDArray[np.int64]] = []
        at = 0
        for instances in self.groups:
            places = np.array([item.connection for item in instances.packets.items], np.int64)
            count = len(instances.packets.template.connections)
            rows = at + np.arange(len(instances.times), dtype=np.int64)[:, None] * count
            found.append(np.where(places < 0, -1, rows + places).ravel())
            at += len(instances.times) * count
        every = np.concatenate(found)
        alone = np.full(len(self.found.order) - len(every), -1, np.int64)
        return np.concatenate([every, alone])[self.found.order]

    def before(self, file: int) -> list[tuple[int, bytes]]:
        """Return what to insert before which items of a file."""
        if self.links is None or file == 0:
            return []
        begin, end = self.cuts[file], self.cuts[file + 1]
        links, firsts = np.unique(self.links[begin:end], return_index=True)
        earlier = np.isin(links, self.links[:begin]) & (links >= 0)
        places = np.sort(firsts[earlier] + begin)
        return [(int(place), self._text(int(place))) for place in places]

    def _text(self, place: int) -> bytes:
        number = int(self.found.order[place])
        which = int(np.searchsorted(self.starts, number, side="right")) - 1
        instances = self.groups[which]
        k, n = divmod(number - int(self.starts[which]), len(instances.packets.items))
        item = instances.packets.items[n]
        address = address_text(instances.hosts[k, item.connection]).tobytes().decode()
        text = self.style.introduction(
            instances.packets.template.connections[item.connection],
            address,
            int(instances.ports[k, item.connection]),
            int(instances.connections[k, item.connection]),
            int(instances.times[k, n]),
        )
        return text + b"".join(self._keys(instances, k, item.connection, n))

    def _keys(self, instances: Instances, k: int, connection: int, before: int) -> list[bytes]:
        """Return the keys of a connection, as an earlier file has them."""
        packets = instances.packets
        return [
            instances.rows[k, packets.starts[n] : packets.stops[n]].tobytes()
            for n, item in enumerate(packets.items[:before])
            if item.connection == connection
            and item.event >= 0
            and packets.template.events[item.event].kind == "keys"
        ]
