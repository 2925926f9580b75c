"""TCP reassembly of one direction of a connection: segments in, the bytes of the stream out.

`StreamAssembler.feed` takes a segment and gives what it makes known, in the order of the stream:
`Data`, `Gap`, and `Conflict` where two copies of the same bytes differ. It follows *Streams* in
`docs/concepts/captures.md`; where that page is silent:

- The rules compare positions, which count from 0 and never wrap; a sequence number is taken to
  mean the nearest position.
- Bytes before the beginning of a stream that was joined late count as duplicate, and so do bytes of
  a gap that was already given up: there is no place for them any more.
- What waits is counted in pieces: a segment that fills several holes at once waits as several.
- A FIN, or a segment that was not captured whole, tells how far the stream reached: what is not
  there when it ends is a gap.
- Ignored payload is new: `payload_bytes = new_bytes + duplicate_bytes` holds for every segment.
- A RST ends the stream of its own direction. Its payload, if any, is no part of the stream.

An assembler can take over in the middle of a stream: until something is out of order, all that
matters is where the stream stands.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import msgspec

from ..format.constants import FAULT_BYTES

__all__ = [
    "FIN",
    "HELD_BYTES",
    "RST",
    "SYN",
    "WAITING_BYTES",
    "WAITING_NS",
    "WAITING_PIECES",
    "Conflict",
    "Copy",
    "Counters",
    "Data",
    "Event",
    "Gap",
    "Held",
    "StreamAssembler",
]


FIN: Final = 1
SYN: Final = 2
RST: Final = 4
"""Flags of TCP."""

WAITING_PIECES: Final = 256
"""When so many pieces wait behind a hole, it is given up."""
WAITING_BYTES: Final = 1 << 20
"""When so many bytes wait behind a hole, it is given up."""
WAITING_NS: Final = 60_000_000_000
"""When something has waited so long, the hole before it is given up."""

_HALF: Final = 1 << 31
_MASK: Final = (1 << 32) - 1


class Data(NamedTuple):
    """Bytes of the stream, and the packet that delivered them."""

    position: int
    payload: bytes
    ts_ns: int
    offset: int
    """Place of the first of them in the file."""
    file: int
    arrival: int
    """Counts the segments of the stream, in the order in which they were captured."""


class Gap(NamedTuple):
    """Bytes of the stream that were not captured, and the packet that reveals it."""

    position: int
    missing: int
    ts_ns: int
    offset: int
    file: int


class Conflict(NamedTuple):
    """A retransmission that differs from the first copy."""

    position: int
    """Of the first byte that differs."""
    differing: int
    """How many bytes differ."""
    payload: bytes
    """The copy from there on, at most 256 bytes."""
    ts_ns: int
    offset: int
    file: int


Event: TypeAlias = Data | Gap | Conflict
"""What a segment makes known."""


class Counters(msgspec.Struct):
    """Counters of a stream's payload."""

    new_bytes: int = 0
    """Payload that was not seen before, the ignored included."""
    duplicate_bytes: int = 0
    """Payload that was seen before."""
    gap_bytes: int = 0
    """Bytes that were not captured."""
    ignored_bytes: int = 0
    """Payload behind a RST or beyond a FIN."""

    @property
    def payload_bytes(self) -> int:
        """All payload."""
        return self.new_bytes + self.duplicate_bytes

    @property
    def span_bytes(self) -> int:
        """The length of the stream."""
        return self.new_bytes + self.gap_bytes


class _Place(NamedTuple):
    """The current packet."""

    ts_ns: int
    offset: int
    file: int
    arrival: int


class StreamAssembler:
    """One direction of one connection.

    Without `next_seq` it begins with the first SYN, or with the first byte. With it, it goes on in
    the middle of a stream that was in order so far: `next_seq` belongs to `position`.
    """

    __slots__ = (
        "_arrivals",
        "_base",
        "_fin_at",
        "_held",
        "_oldest_ns",
        "_over",
        "_reach",
        "_waiting",
        "_waiting_bytes",
        "counters",
        "position",
    )

    def __init__(
        self,
        next_seq: int | None = None,
        *,
        position: int = 0,
        arrivals: int = 0,
        counters: Counters | None = None,
    ):
        self.position = position
        """Where the stream stands: everything before it is delivered, or given up."""
        self.counters = Counters() if counters is None else counters
        self._base = None if next_seq is None else (next_seq - position) & _MASK
        self._arrivals = arrivals
        self._waiting: list[Data] = []
        self._waiting_bytes = 0
        self._oldest_ns = 0
        self._held: Held | None = None
        self._fin_at: int | None = None
        self._reach: Gap | None = None
        self._over = False

    @property
    def waiting_since_ns(self) -> int | None:
        """When a hole showed that is not given up: by what waits behind it, or by how far the
        stream is known to reach. None when there is none."""
        shown = [self._oldest_ns] if self._waiting else []
        if self._reach is not None and self._reach.position > self.position and not self._over:
            shown.append(self._reach.ts_ns)
        return min(shown, default=None)

    @property
    def finished(self) -> bool:
        """Whether the stream was reset, ended, or is complete up to FIN."""
        if self._over:
            return True
        return self._fin_at is not None and self.position >= self._fin_at and not self._waiting

    def feed(
        self,
        seq: int,
        payload: bytes,
        ts_ns: int,
        offset: int,
        flags: int = 0,
        missing: int = 0,
        file: int = 0,
    ) -> list[Event]:
        """Return the results of a segment. `missing` bytes after the payload were not captured."""
        self._arrivals += 1
        if flags & RST and not self._over:
            events = self.end()
            self._ignore(len(payload))
            return events
        if self._over:
            self._ignore(len(payload))
            return []
        if flags & SYN:
            seq += 1
        if self._base is None:
            if not (payload or missing or flags & (SYN | FIN)):
                return []
            self._base = seq & _MASK
        found: list[Event] = []
        if self._waiting:
            self._give_up_old(ts_ns, found)
        at = self.position + self._distance(seq)
        place = _Place(ts_ns, offset, file, self._arrivals)
        if payload:
            self._take(at, payload, place, found)
        if missing or flags & FIN:
            self._reached(at + len(payload) + missing, place, fin=bool(flags & FIN))
        return found

    def end(self) -> list[Event]:
        """End the stream: every hole becomes a gap."""
        found: list[Event] = []
        while self._waiting:
            self._give_up_hole(found)
        if self._reach is not None and self._reach.position > self.position:
            self._gap(self._reach.position, self._reach, found)
        self._over = True
        self._held = None
        return found

    # -- where a segment belongs -------------------------------------------------------------

    def _distance(self, seq: int) -> int:
        """Return the distance of a sequence number from the stream's position; negative if
        behind."""
        assert self._base is not None
        return ((seq - self._base - self.position + _HALF) & _MASK) - _HALF

    def _take(self, at: int, payload: bytes, place: _Place, found: list[Event]) -> None:
        if at == self.position and not self._waiting and self._fin_at is None:
            self.counters.new_bytes += len(payload)
            self._deliver(Data(at, payload, *place), found)
            return
        if at != self.position:
            self._hold()
        stop = self._up_to_fin(at + len(payload))
        copy = Copy(at, payload)
        keep_alive = len(payload) == 1 and at == self.position - 1
        if at < self.position and not keep_alive and self._held is not None:
            self._held.compare(copy, self.position)
        known = max(at, min(self.position, stop))
        self.counters.duplicate_bytes += known - at
        self._wait(known, stop, copy, place)
        self._ignore(at + len(payload) - max(known, stop))
        if copy.differing:
            found.append(_conflict(copy, place))
        self._deliver_waiting(found)
        while self._waiting_bytes >= WAITING_BYTES or len(self._waiting) >= WAITING_PIECES:
            self._give_up_hole(found)

    def _up_to_fin(self, stop: int) -> int:
        if self._fin_at is None:
            return stop
        return min(stop, max(self._fin_at, self.position))

    def _ignore(self, size: int) -> None:
        self.counters.new_bytes += size
        self.counters.ignored_bytes += size

    def _reached(self, position: int, place: _Place, *, fin: bool) -> None:
        """Note that the sender has sent everything up to a position."""
        if fin:
            if self._fin_at is not None:
                return
            self._fin_at = position
        if self._reach is None or position > self._reach.position:
            self._reach = Gap(position, 0, place.ts_ns, place.offset, place.file)

    # -- what waits --------------------------------------------------------------------------

    def _wait(self, start: int, stop: int, copy: Copy, place: _Place) -> None:
        """Insert new out-of-order bytes between those that wait."""
        fresh: list[tuple[int, int]] = []
        for piece in self._waiting:
            if piece.position >= stop:
                break
            if piece.position > start:
                fresh.append((start, piece.position))
                start = piece.position
            shared = min(stop, piece.position + len(piece.payload))
            if shared > start:
                copy.against(piece.payload, piece.position, start, shared)
                self.counters.duplicate_bytes += shared - start
                start = shared
        if start < stop:
            fresh.append((start, stop))
        if not fresh:
            return
        if not self._waiting:
            self._oldest_ns = place.ts_ns
        for first, last in fresh:
            skipped = first - copy.position
            payload = copy.payload[skipped : skipped + last - first]
            self._waiting.append(
                Data(first, payload, place.ts_ns, place.offset + skipped, place.file, place.arrival)
            )
            self._waiting_bytes += last - first
            self.counters.new_bytes += last - first
        self._waiting.sort()

    def _deliver_waiting(self, found: list[Event]) -> None:
        count = 0
        for piece in self._waiting:
            if piece.position != self.position:
                break
            self._deliver(piece, found)
            self._waiting_bytes -= len(piece.payload)
            count += 1
        if count:
            del self._waiting[:count]
            if self._waiting:
                self._oldest_ns = min(self._waiting, key=lambda piece: piece.arrival).ts_ns

    def _give_up_old(self, ts_ns: int, found: list[Event]) -> None:
        while self._waiting and ts_ns - self._oldest_ns >= WAITING_NS:
            self._give_up_hole(found)

    def _give_up_hole(self, found: list[Event]) -> None:
        self._gap(self._waiting[0].position, self._waiting[0], found)
        self._deliver_waiting(found)

    # -- what leaves -------------------------------------------------------------------------

    def _deliver(self, data: Data, found: list[Event]) -> None:
        found.append(data)
        self.position += len(data.payload)
        if self._held is not None:
            self._held.add(data.payload)

    def _gap(self, stop: int, shown_by: Data | Gap, found: list[Event]) -> None:
        missing = stop - self.position
        found.append(Gap(self.position, missing, shown_by.ts_ns, shown_by.offset, shown_by.file))
        self.counters.gap_bytes += missing
        if self._held is not None:
            self._held.skip(self.position, missing)
        self.position = stop

    def _hold(self) -> None:
        """Keep delivered bytes for comparison, from the first out-of-order segment on."""
        if self._held is None:
            self._held = Held()


def _conflict(copy: Copy, place: _Place) -> Conflict:
    skipped = copy.first - copy.position
    sample = copy.payload[skipped : skipped + FAULT_BYTES]
    offset = place.offset + skipped
    return Conflict(copy.first, copy.differing, sample, place.ts_ns, offset, place.file)


# Second copies of bytes, compared with the first: what a stream holds for that, and the comparing.


HELD_BYTES: Final = 1 << 16
"""How much of what was delivered is held, to be compared with later copies."""


class Held:
    """The last delivered bytes, with the gaps between them."""

    __slots__ = ("_bytes", "_gaps")

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._gaps: list[tuple[int, int]] = []

    def save(self) -> tuple[bytes, list[tuple[int, int]]]:
        """Return a copy of the bytes and of the gaps."""
        return bytes(self._bytes), list(self._gaps)

    @classmethod
    def restored(cls, data: bytes, gaps: list[tuple[int, int]]) -> Held:
        """Return what `save` described."""
        found = cls()
        found._bytes += data
        found._gaps = list(gaps)
        return found

    def add(self, payload: bytes) -> None:
        """Add the next bytes."""
        self._bytes += payload[-HELD_BYTES:]
        if len(self._bytes) > HELD_BYTES:
            del self._bytes[:-HELD_BYTES]

    def skip(self, position: int, missing: int) -> None:
        """Add a gap at a position."""
        self.add(bytes(min(missing, HELD_BYTES)))
        stop = position + missing
        self._gaps = [gap for gap in self._gaps if gap[1] > stop - HELD_BYTES]
        self._gaps.append((position, stop))

    def compare(self, copy: Copy, position: int) -> None:
        """Compare a copy with the held bytes, which end at `position`."""
        base = position - len(self._bytes)
        start = max(base, copy.position)
        stop = min(position, copy.position + len(copy.payload))
        for gap_start, gap_stop in self._gaps:
            if start < gap_start:
                copy.against(self._bytes, base, start, min(stop, gap_start))
            start = max(start, gap_stop)
        copy.against(self._bytes, base, start, stop)


class Copy:
    """The payload of a segment, compared with the first copies of its bytes."""

    __slots__ = ("differing", "first", "payload", "position")

    def __init__(self, position: int, payload: bytes):
        self.position = position
        self.payload = payload
        self.differing = 0
        self.first = 0

    def against(self, other: bytes | bytearray, position: int, start: int, stop: int) -> None:
        """Compare positions `start` to `stop` with bytes that begin at `position`."""
        if start >= stop:
            return
        ours = self.payload[start - self.position : stop - self.position]
        theirs = other[start - position : stop - position]
        if ours == theirs:
            return
        wrong = [at for at, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
        if not self.differing:
            self.first = start + wrong[0]
        self.differing += len(wrong)
