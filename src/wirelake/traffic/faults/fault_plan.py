"""Faults that are put into casts on purpose, and in what the captures then differ from the plates.

    bad body       a frame whose content breaks a rule, but whose end can be told
    bad head       a frame whose beginning breaks a rule
    lost           a packet that was not captured
    snapped        a packet of which the last bytes were not captured
    ended          a stream that ends inside a frame
    bad block      a packet whose block or record is damaged: it is lost, and the file has a fault
    conflict       a packet that is sent again with other bytes (tcpdump's style alone)

A scene is wounded once at most, and where it hurts is chosen so that the consequences can be told:
there is no copy of the bytes, what says who and what a connection is stays whole, and behind the
wound there is a place where reading can resume.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..packets.packet_template import Cast, Item
from ..packets.writer import (
    Edits,
    ExtraPacket,
    Style,
)
from ..scenes.frames import Frame
from ..truth.coverage import Extra
from ..truth.reading import (
    MAGIC,
    Captured,
    StreamFault,
    captured,
)
from ..truth.sheets import Altered
from ..truth.sightings import FaultSeen
from .corruption import broken_body, broken_head

__all__ = ["Victim", "Wound", "wound"]

_PROTECTED: Final = frozenset(
    {
        "auth",
        "auth_success",
        "exchange_key",
        "syn",
        "ack",
        "link_open",
        "link_opened",
        "link_close",
        "tunnel_connect",
        "tunnel_connected",
        "tunnel_disconnect",
    }
)
"""Messages that tell who or what a connection is: without them, nothing behind them means much."""
_SOON_NS: Final = 45_000_000_000
"""Readers wait a minute for what is missing; what they learn later, they learn out of order."""
_SEQ_AT: Final = 52
"""Where the sequence number stands in a recorded packet."""


@dataclass(slots=True)
class Victim:
    """One cast of a scene."""

    which: int
    """The place of its plate among all casts of the shard."""
    cast: Cast
    k: int

    @property
    def key(self) -> tuple[int, int]:
        """What identifies it within the shard."""
        return self.which, self.k


@dataclass(slots=True)
class Wound:
    """A fault that was put into a cast."""

    kind: str
    victim: Victim
    altered: Altered
    damaged: int | None = None
    """The item whose block is damaged."""
    copies: list[ExtraPacket] = field(default_factory=list)
    """Packets that were added."""


@dataclass(slots=True)
class _Spot:
    """A packet of a stream in which something may happen."""

    place: int
    way: int
    n: int
    item: Item
    frames: list[tuple[int, Frame]]
    """The frames that it holds a part of, with their numbers."""
    behind: bool
    """Whether more of the stream follows it."""

    @property
    def start(self) -> int:
        return self.item.payload[0]

    @property
    def stop(self) -> int:
        return self.item.payload[1]

    def whole(self) -> bool:
        """Whether it holds whole frames."""
        return self.frames[0][1].start == self.start and self.frames[-1][1].stop == self.stop


KINDS: Final = ("body", "head", "lost", "snapped", "ended", "block", "conflict")


def wound(
    victim: Victim, kind: str, style: Style, edits: Edits, rng: random.Random
) -> Wound | None:
    """Wounds a cast in one way, if that can be done."""
    spots = list(_spots(victim))
    rng.shuffle(spots)
    surgeon = _Surgeon(victim, style, edits, rng)
    for spot in spots[:12]:
        found: Wound | None = getattr(surgeon, kind)(spot)
        if found is not None:
            return found
    return None


def _spots(victim: Victim) -> Iterator[_Spot]:
    """Packets that carry payload of which there is no copy, and nothing that must stay whole."""
    plate = victim.cast.plate
    for place, connection in enumerate(plate.mould.connections):
        for way, stream in enumerate(connection.streams):
            items = plate.carriers[place][way]
            spans = [plate.items[n].payload for n in items]
            size = len(stream.data)
            for n, (start, stop) in zip(items, spans, strict=True):
                copies = sum(a < stop and start < b for a, b in spans)
                frames = [
                    (number, frame)
                    for number, frame in enumerate(stream.frames)
                    if frame.start < stop and start < frame.stop
                ]
                if copies == 1 and not any(f.means.name in _PROTECTED for _, f in frames):
                    yield _Spot(place, way, n, plate.items[n], frames, stop < size)


class _Surgeon:
    """One method for each kind of wound; None when a spot does not suit."""

    def __init__(self, victim: Victim, style: Style, edits: Edits, rng: random.Random):
        self.victim = victim
        self.cast = victim.cast
        self.plate = victim.cast.plate
        self.row = victim.cast.rows[victim.k]
        self.times = victim.cast.times[victim.k]
        self.style = style
        self.edits = edits
        self.rng = rng

    # -- frames --------------------------------------------------------------------------------

    def body(self, spot: _Spot) -> Wound | None:
        """A frame whose content breaks a rule."""
        for number, frame in spot.frames:
            if frame.start >= spot.start and frame.stop <= spot.stop:
                column = self._column(spot, frame.start)
                raw = self.row[column : column + frame.stop - frame.start]
                stream = self.plate.mould.connections[spot.place].streams[spot.way]
                broken = broken_body(self._protocol(spot), spot.way, number, frame, stream, raw)
                if broken is not None:
                    seen = self._captured(spot)
                    seen.broken = broken
                    return self._wound("body", spot, seen)
        return None

    def head(self, spot: _Spot) -> Wound | None:
        """A frame whose beginning breaks a rule."""
        number, frame = self.rng.choice(spot.frames)
        if frame.start < spot.start or frame.stop > spot.stop:
            return None
        seen = self._captured(spot)
        if self._protocol(spot) not in MAGIC:
            starts = [start for start, _, _ in seen.pieces if start > frame.start]
            boundaries = {each.start for each in self._frames(spot)}
            if not starts or min(starts) not in boundaries:
                return None
        column = self._column(spot, frame.start)
        raw = self.row[column : column + frame.stop - frame.start]
        seen.broken = broken_head(self._protocol(spot), spot.way, number, raw)
        return None if seen.broken is None else self._wound("head", spot, seen)

    # -- packets -------------------------------------------------------------------------------

    def lost(self, spot: _Spot) -> Wound | None:
        """A packet that was not captured."""
        if not self._resumes(spot) or not (spot.whole() or self._protocol(spot) in MAGIC):
            return None
        self.edits.remove(*self.victim.key, spot.n)
        return self._missing("lost", spot)

    def block(self, spot: _Spot) -> Wound | None:
        """A packet whose block is damaged."""
        if not self._resumes(spot) or not (spot.whole() or self._protocol(spot) in MAGIC):
            return None
        begin, end = int(self.plate.starts[spot.n]), int(self.plate.stops[spot.n])
        if not self.style.damage(self.row[begin:end]):
            return None
        self.edits.fragile.append((*self.victim.key, spot.n))
        found = self._missing("block", spot)
        found.damaged = spot.n
        return found

    def _missing(self, kind: str, spot: _Spot) -> Wound:
        seen = self._captured(spot)
        seen.pieces = [piece for piece in seen.pieces if piece[2] != spot.n]
        seen.look()
        found = self._wound(kind, spot, seen)
        found.altered.lost = frozenset({spot.n})
        return found

    def snapped(self, spot: _Spot) -> Wound | None:
        """A packet of which the last bytes were not captured."""
        last = spot.frames[-1][1]
        fits = last.stop == spot.stop or self._protocol(spot) in MAGIC
        if not self._resumes(spot) or not fits or not self.style.can_shorten(spot.item):
            return None
        size = self.rng.randint(1, spot.stop - max(spot.start, last.start))
        seen = self._shorter(spot, size, on_wire=False)
        seen.look()
        return self._wound("snapped", spot, seen)

    def ended(self, spot: _Spot) -> Wound | None:
        """A stream that ends inside a frame."""
        last = spot.frames[-1][1]
        inside = spot.stop - max(spot.start, last.start)
        if spot.behind or inside < 2 or not self.style.can_shorten(spot.item):
            return None
        if not self._closed_by_fin(spot):
            return None
        size = self.rng.randint(1, inside - 1)
        seen = self._shorter(spot, size, on_wire=True)
        seen.size -= size
        seen.look()
        for n in range(spot.n + 1, len(self.plate.items)):
            item = self.plate.items[n]
            if item.is_packet and (item.connection, item.direction) == (spot.place, spot.way):
                self._move_back(n, item, size)
        return self._wound("ended", spot, seen)

    def _shorter(self, spot: _Spot, size: int, *, on_wire: bool) -> Captured:
        """Cuts the payload of a packet; what is left of its stream."""
        begin, end = int(self.plate.starts[spot.n]), int(self.plate.stops[spot.n])
        short = self.style.shortened(self.row[begin:end].tobytes(), size, on_wire=on_wire)
        self.row[begin : begin + len(short)] = np.frombuffer(short, np.uint8)
        self.edits.shorten(*self.victim.key, spot.n, begin + len(short))
        seen = self._captured(spot)
        seen.pieces = [
            (start, stop - size if n == spot.n else stop, n) for start, stop, n in seen.pieces
        ]
        return seen

    def _closed_by_fin(self, spot: _Spot) -> bool:
        mine = [item for item in self.plate.items if item.connection == spot.place]
        return any(item.flags & 1 for item in mine) and not any(item.flags & 4 for item in mine)

    def _move_back(self, n: int, item: Item, size: int) -> None:
        """A later packet of the stream follows the bytes that were really sent."""
        at = int(self.plate.starts[n]) + item.columns.get("seq", _SEQ_AT)
        number = int.from_bytes(self.row[at : at + 4].tobytes(), "big")
        moved = ((number - size) & 0xFFFF_FFFF).to_bytes(4, "big")
        self.row[at : at + 4] = np.frombuffer(moved, np.uint8)

    # -- copies --------------------------------------------------------------------------------

    def conflict(self, spot: _Spot) -> Wound | None:
        """A packet that is sent again with another byte; an earlier one was sent again as it is,
        without which a reader need not hold what it could compare."""
        if self.style.numbered or not self._closed_by_fin(spot):
            return None
        earlier = [n for n in self.plate.carriers[spot.place][spot.way] if n < spot.n]
        later = [
            n
            for n in range(spot.n + 1, len(self.plate.items))
            if self.plate.items[n].is_packet
            and (self.plate.items[n].connection, self.plate.items[n].direction)
            == (spot.place, spot.way)
        ]
        if not earlier or not later:
            return None
        before = self._between(earlier[-1], spot.n)
        after = self._between(spot.n, later[0])
        if before is None or after is None:
            return None
        position = self.rng.randrange(spot.start, spot.stop)
        again = self.style.retimed(self._packet(earlier[-1]), before)
        same = ExtraPacket(*self.victim.key, before, again, 0)
        changed = bytearray(self.style.retimed(self._packet(spot.n), after))
        inside = spot.item.payload_at + position - spot.start
        changed[inside] ^= 0x5A
        other = ExtraPacket(*self.victim.key, after, bytes(changed), inside)
        self.edits.extras += [same, other]
        first = self.plate.items[earlier[-1]].payload
        key = (spot.place, spot.way)
        extra = Extra({key: 2}, {key: first[1] - first[0] + spot.stop - spot.start})
        detail = "a second copy differs from the first, in bytes: 1"
        fault = StreamFault("conflict", position, [], 0, spot.n, position, None, detail)
        altered = Altered(self.times, extra=extra, conflicts=[FaultSeen(*key, fault)])
        return Wound("conflict", self.victim, altered, copies=[same, other])

    def _packet(self, n: int) -> bytes:
        return bytes(self.row[int(self.plate.starts[n]) : int(self.plate.stops[n])])

    def _between(self, one: int, two: int) -> int | None:
        """A time between two items, as the files can tell it."""
        step = self.style.resolution_ns
        middle = int(self.times[one] + self.times[two]) // 2 // step * step
        return middle if self.times[one] < middle < self.times[two] else None

    # -- what all need -------------------------------------------------------------------------

    def _resumes(self, spot: _Spot) -> bool:
        """Whether the stream goes on soon: a reader learns of a hole by what comes behind it."""
        later = [n for n in self.plate.carriers[spot.place][spot.way] if n > spot.n]
        return spot.behind and bool(later) and self.times[later[0]] - self.times[spot.n] < _SOON_NS

    def _protocol(self, spot: _Spot) -> str:
        return self.plate.mould.connections[spot.place].protocol

    def _frames(self, spot: _Spot) -> list[Frame]:
        return self.plate.mould.connections[spot.place].streams[spot.way].frames

    def _column(self, spot: _Spot, position: int) -> int:
        """Where in the row a byte of the stream stands."""
        return int(self.plate.starts[spot.n]) + spot.item.payload_at + position - spot.start

    def _captured(self, spot: _Spot) -> Captured:
        return captured(self.plate, spot.place, spot.way)

    def _wound(self, kind: str, spot: _Spot, seen: Captured) -> Wound:
        altered = Altered(self.times, streams={(spot.place, spot.way): seen})
        return Wound(kind, self.victim, altered)
