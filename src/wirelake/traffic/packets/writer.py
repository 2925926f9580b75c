"""From casts to files: all packets of a shard in order of time, cut into a few files.

The packets are moved by Arrow, which takes variable pieces of one buffer in any order: one call for
all of them. A recorder introduces a connection again in each further file that it reaches, so these
introductions are put between the packets as they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..scenes.template import Connection, Mould
from .hosts import address_text
from .numbers import Bytes
from .packet_template import (
    Cast,
    Item,
    Plate,
)

__all__ = ["Edits", "ExtraPacket", "Pressed", "Style", "press"]


_ROOM: Final = 6
"""So many packets of a file follow one whose block is damaged, at least."""


class Style(Protocol):
    """How captures look."""

    suffix: str
    resolution_ns: int
    numbered: bool

    def head(self, source: str, sequence: int) -> bytes:
        """What a file begins with."""

    def plate(self, mould: Mould) -> Plate:
        """The packets of a mould."""

    def introduction(
        self, connection: Connection, address: str, port: int, number: int, ts_ns: int
    ) -> bytes:
        """What introduces a connection in a further file; nothing in most styles."""

    def can_shorten(self, item: Item) -> bool:
        """Whether a packet ends with its payload."""

    def shortened(self, packet: bytes, size: int, *, on_wire: bool) -> bytes:
        """A packet with so many bytes less at its end; they were never sent, or not captured."""

    def retimed(self, packet: bytes, ts_ns: int) -> bytes:
        """A packet that was captured at another time."""

    def damage(self, packet: Bytes) -> bool:
        """Makes the block or record of a packet contradict itself, in place; False when a reader
        could then take something within it for the next one."""

    def damage_detail(self, packet: bytes) -> str:
        """What a reader says of it."""


@dataclass(slots=True)
class ExtraPacket:
    """A packet that a cast has beside those of its plate."""

    which: int
    k: int
    time_ns: int
    data: bytes
    differs_at: int
    """Where in `data` it says something else than the packet that it is a copy of."""
    file: int = -1
    offset: int = -1


@dataclass(slots=True)
class Edits:
    """In what a few casts differ from their plates: packets that are gone, shorter, or added."""

    stops: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """Where in its row an item ends, by cast, row and item."""
    extras: list[ExtraPacket] = field(default_factory=list)
    fragile: list[tuple[int, int, int]] = field(default_factory=list)
    """Items that must not be among the last of a file: a reader finds its way again behind them."""

    def remove(self, which: int, k: int, n: int) -> None:
        """The capture does not have this packet."""
        self.stops[which, k, n] = -1

    def shorten(self, which: int, k: int, n: int, stop: int) -> None:
        """The capture has less of this packet."""
        self.stops[which, k, n] = stop


@dataclass(slots=True)
class Pressed:
    """What was written."""

    files: list[str]
    sizes: list[int]
    packets: int


@dataclass(slots=True)
class _Sorted:
    """All items of a shard, in order of time."""

    data: memoryview
    ends: npt.NDArray[np.int64]
    """Where in `data` each item begins; one more at the end."""
    order: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]


def press(
    style: Style,
    buffer: Bytes,
    casts: Sequence[Cast],
    folder: Path,
    source: str,
    sequences: Sequence[int],
    edits: Edits,
    *,
    begins: Sequence[int] | None = None,
) -> Pressed:
    """Writes the files; the casts learn in which of them, and where, their items are.

    `begins` are the items, in order of time, with which all files but the first begin; without it
    they are about the same size.
    """
    found = _sorted(buffer, casts, edits)
    if begins is None:
        cuts = _cuts(found, len(sequences), _positions(casts, found.order, edits.fragile))
    else:
        cuts = [0, *begins, len(found.order)]
    files = np.zeros(len(found.order), np.int64)
    offsets = found.ends[:-1].copy()
    pressed = Pressed([], [], len(found.order))
    intros = _Introductions(style, casts, found, cuts)
    for n, sequence in enumerate(sequences):
        name = f"{source}-{sequence:08d}{style.suffix}"
        begin, end = cuts[n], cuts[n + 1]
        files[begin:end] = n
        head = style.head(source, sequence)
        offsets[begin:end] += len(head) - found.ends[begin]
        size = _write(folder / name, head, found, begin, end, intros.before(n), offsets)
        pressed.files.append(name)
        pressed.sizes.append(size)
    pressed.packets = int((np.diff(found.ends) > 0).sum())
    _tell(casts, found.order, files, offsets, edits.extras)
    return pressed


def _positions(
    casts: Sequence[Cast], order: npt.NDArray[np.int64], items: list[tuple[int, int, int]]
) -> npt.NDArray[np.int64]:
    """Where some items come in the order of time."""
    if not items:
        return np.zeros(0, np.int64)
    starts = np.cumsum([0, *(cast.times.size for cast in casts)])
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return np.array([back[starts[w] + k * casts[w].times.shape[1] + n] for w, k, n in items])


def _cuts(found: _Sorted, files: int, fragile: npt.NDArray[np.int64]) -> list[int]:
    """Which items begin a file."""
    total = int(found.ends[-1])
    cuts = [0]
    for n in range(1, files):
        cut = int(np.searchsorted(found.ends[:-1], total * n // files))
        while ((fragile < cut) & (fragile >= cut - _ROOM)).any():
            cut += _ROOM
        cuts.append(min(cut, len(found.order)))
    return [*cuts, len(found.order)]


def _sorted(buffer: Bytes, casts: Sequence[Cast], edits: Edits) -> _Sorted:
    bounds: list[npt.NDArray[np.int64]] = []
    at = 0
    for which, cast in enumerate(casts):
        count, width = cast.rows.shape
        pairs = np.stack([cast.plate.starts, cast.plate.stops], axis=1)
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
    times = np.concatenate([*(cast.times.ravel() for cast in casts), added])
    if edits.extras:
        more = np.frombuffer(b"".join(extra.data for extra in edits.extras), np.uint8)
        buffer = np.concatenate([buffer, more])
    order = np.argsort(times, kind="stable")
    limits = np.append(np.concatenate(bounds), at)
    pieces = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(limits) - 1, [None, pa.py_buffer(limits), pa.py_buffer(buffer)]
    )
    taken = pieces.take(pa.array(order * 2))  # the odd ones are what lies between the items
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
    """Writes one file; what is put in between moves all that follows."""
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


def _tell(
    casts: Sequence[Cast],
    order: npt.NDArray[np.int64],
    files: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    extras: list[ExtraPacket],
) -> None:
    """Back from the order of time to that of the casts."""
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    at = 0
    for cast in casts:
        here = back[at : at + cast.times.size].reshape(cast.times.shape)
        cast.files, cast.offsets = files[here], offsets[here]
        at += cast.times.size
    for n, extra in enumerate(extras, at):
        extra.file, extra.offset = int(files[back[n]]), int(offsets[back[n]])


class _Introductions:
    """Connections that reach a further file."""

    def __init__(self, style: Style, casts: Sequence[Cast], found: _Sorted, cuts: list[int]):
        self.style = style
        self.casts = casts
        self.found = found
        self.cuts = cuts
        self.starts = np.cumsum([0, *(cast.times.size for cast in casts)])
        self.links = self._links() if style.numbered and len(cuts) > 2 else None

    def _links(self) -> npt.NDArray[np.int64]:
        """For each item in order of time, a number for its connection; -1 without one."""
        found: list[npt.NDArray[np.int64]] = []
        at = 0
        for cast in self.casts:
            places = np.array([item.connection for item in cast.plate.items], np.int64)
            count = len(cast.plate.mould.connections)
            rows = at + np.arange(len(cast.times), dtype=np.int64)[:, None] * count
            found.append(np.where(places < 0, -1, rows + places).ravel())
            at += len(cast.times) * count
        every = np.concatenate(found)
        alone = np.full(len(self.found.order) - len(every), -1, np.int64)
        return np.concatenate([every, alone])[self.found.order]

    def before(self, file: int) -> list[tuple[int, bytes]]:
        """What to put in front of which items of a file."""
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
        cast = self.casts[which]
        k, n = divmod(number - int(self.starts[which]), len(cast.plate.items))
        item = cast.plate.items[n]
        address = address_text(cast.hosts[k, item.connection]).tobytes().decode()
        text = self.style.introduction(
            cast.plate.mould.connections[item.connection],
            address,
            int(cast.ports[k, item.connection]),
            int(cast.connections[k, item.connection]),
            int(cast.times[k, n]),
        )
        return text + b"".join(self._keys(cast, k, item.connection, n))

    def _keys(self, cast: Cast, k: int, connection: int, before: int) -> list[bytes]:
        """The keys of a connection, as an earlier file has them."""
        plate = cast.plate
        return [
            cast.rows[k, plate.starts[n] : plate.stops[n]].tobytes()
            for n, item in enumerate(plate.items[:before])
            if item.connection == connection
            and item.happening >= 0
            and plate.mould.happenings[item.happening].kind == "keys"
        ]
