"""TCP reassembly of one direction of a connection: segments in, the bytes of the stream out.

`StreamAssembler.feed` takes a segment and returns its results in stream order: `Data`, `Gap`, and
`Conflict` where a retransmission differs from the first copy. The rules are *Streams* in
`docs/concepts/captures.md`. What that page leaves open:

- Positions count from 0 and never wrap. A sequence number means the nearest position.
- Bytes before the beginning of a stream that was joined late are duplicate, and so are bytes of a
  gap that was already reported: they can no longer be delivered in order.
- Waiting segments are counted in pieces: one that fills several holes counts as several.
- A FIN, or a segment that was not captured completely, shows how far the stream reached. What is
  missing up to there is a hole like any other, even if nothing waits behind it.
- Ignored payload is new: `payload_bytes = new_bytes + duplicate_bytes` holds for every segment.
- A RST ends the stream of its own direction. Its payload, if any, is not part of the stream.

A hole is given up by the time of the next packet of its stream (`feed`). There may be none, so a
reader of a whole source also gives it up when the source has passed that time by `OVERDUE_NS`
(`expire`, `SourceClock`). The next packet of the stream would do the same, unless times are out of
order by more than that.

An assembler can start in the middle of a stream: while segments are in order, only the position
matters. `columnar/tcp/reassembly.py` uses this to run it only while segments are out of order.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import msgspec

from ..format.constants import FAULT_BYTES
from .headers import FIN, RST, SYN

__all__ = [
    "FIN",
    "OVERDUE_NS",
    "RECENT_BYTES",
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
    "RecentBytes",
    "SourceClock",
    "StreamAssembler",
]


# A hole is given up, and becomes a gap, at the first of three limits. A lost segment is usually
# retransmitted within a few round trips; if it was not captured at all, it never comes, and what
# waits for it would grow with the capture. The limits are part of the rules (captures.md, Streams),
# so they are not configurable: two readers must find the same gaps.
WAITING_PIECES: Final = 256
"""Maximum number of pieces that wait behind a hole."""
WAITING_BYTES: Final = 1 << 20
"""Maximum number of bytes that wait behind a hole."""
WAITING_NS: Final = 60_000_000_000
"""Maximum capture time for which the first of them waits."""
OVERDUE_NS: Final = 60_000_000_000
"""What the next packet of a stream would give up is given up this much later without one. So the
times of packets may be out of order by as much, as in captures of several interfaces."""
RECENT_BYTES: Final = 1 << 16
"""How many delivered bytes are kept for comparison with retransmissions: the largest window without
window scaling (RFC 9293), so usually all that a sender can still retransmit."""

_HALF: Final = 1 << 31
_MASK: Final = (1 << 32) - 1


class Data(NamedTuple):
    """Bytes of the stream, and the packet that delivered them."""

    position: int
    payload: bytes
    ts_ns: int
    offset: int
    """File offset of the first of them."""
    file: int
    arrival: int
    """Number of the segment, in the order of capture."""


class Gap(NamedTuple):
    """Bytes of the stream that were not captured, and the packet that shows it."""

    position: int
    missing: int
    ts_ns: int
    offset: int
    file: int
    given_up: int = 0
    """Number of the packet with which the bytes were given up, in the order of capture: the bytes
    behind the gap are not delivered before, though their own packets came earlier."""


class Conflict(NamedTuple):
    """A retransmission that differs from the first copy."""

    position: int
    """Of the first byte that differs."""
    differing: int
    """How many bytes differ."""
    payload: bytes
    """The retransmitted bytes from there on, at most 256."""
    ts_ns: int
    offset: int
    file: int


Event: TypeAlias = Data | Gap | Conflict
"""A result of a segment."""


class Counters(msgspec.Struct):
    """Counters of a stream's payload."""

    new_bytes: int = 0
    """Payload that was not seen before, ignored payload included."""
    duplicate_bytes: int = 0
    """Payload that was seen before."""
    gap_bytes: int = 0
    """Bytes that were not captured."""
    ignored_bytes: int = 0
    """Payload after a RST or beyond a FIN."""

    @property
    def payload_bytes(self) -> int:
        """All payload."""
        return self.new_bytes + self.duplicate_bytes

    @property
    def span_bytes(self) -> int:
        """The length of the stream."""
        return self.new_bytes + self.gap_bytes


class SourceClock:
    """The capture time that a source has reached, by all its packets.

    A damaged packet may have any time, so it is the latest that two packets in a row have reached.
    It goes back when two in a row are far behind: captures of the same hour may be read one after
    the other, and a clock may be set. Otherwise no hole could wait until the old time is reached
    again.
    """

    __slots__ = ("last_ns", "now_ns")

    def __init__(self, now_ns: int = 0, last_ns: int = 0) -> None:
        self.now_ns = now_ns
        self.last_ns = last_ns
        """The time of the last packet."""

    def advance(self, ts_ns: int) -> int:
        """Note the time of the next packet; return the time that is reached with it."""
        earlier, later = min(ts_ns, self.last_ns), max(ts_ns, self.last_ns)
        self.now_ns = later if self.now_ns - later > OVERDUE_NS else max(self.now_ns, earlier)
        self.last_ns = ts_ns
        return self.now_ns

    @property
    def overdue_ns(self) -> int:
        """The time by which streams without a packet give up their holes."""
        return self.now_ns - OVERDUE_NS


class _Origin(NamedTuple):
    """The current packet."""

    ts_ns: int
    offset: int
    file: int
    arrival: int


class StreamAssembler:
    """One direction of one connection.

    Without `next_seq` it begins with the first SYN, or with the first byte. With it, it continues a
    stream that was in order so far: `next_seq` is the sequence number of `position`.
    """

    __slots__ = (
        "_arrivals",
        "_base",
        "_fin_at",
        "_known_end",
        "_oldest_ns",
        "_over",
        "_recent",
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
        """Everything before this position was delivered or reported as a gap."""
        self.counters = Counters() if counters is None else counters
        self._base = None if next_seq is None else (next_seq - position) & _MASK
        self._arrivals = arrivals
        self._waiting: list[Data] = []
        self._waiting_bytes = 0
        self._oldest_ns = 0
        self._recent: RecentBytes | None = None
        self._fin_at: int | None = None
        self._known_end: Gap | None = None
        self._over = False

    @property
    def started(self) -> bool:
        """Whether the sequence number of its first byte is known."""
        return self._base is not None

    @property
    def has_waiting(self) -> bool:
        """Whether bytes wait behind a hole."""
        return bool(self._waiting)

    @property
    def waiting_since_ns(self) -> int | None:
        """When the present hole was first seen: by bytes that wait behind it, or by the known end
        of the stream. None without a hole."""
        shown = [self._oldest_ns] if self._waiting else []
        if (
            self._known_end is not None
            and self._known_end.position > self.position
            and not self._over
        ):
            shown.append(self._known_end.ts_ns)
        return min(shown, default=None)

    @property
    def hole_ns(self) -> int | None:
        """The time from which the age of the present hole counts; None without one."""
        return self._oldest_ns if self._waiting else self.waiting_since_ns

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
        # SYN occupies one sequence number, so payload of a SYN begins one later.
        if flags & SYN:
            seq += 1
        if self._base is None:
            # A bare ACK does not start a stream: it may be a keep-alive, whose sequence number is
            # one too low.
            if not (payload or missing or flags & (SYN | FIN)):
                return []
            self._base = seq & _MASK
        found = self.expire(ts_ns)
        at = self.position + self._distance(seq)
        # One object for all pieces of the segment.
        origin = _Origin(ts_ns, offset, file, self._arrivals)
        if payload:
            self._take(at, payload, origin, found)
        # Bytes that the snap length cut off, and FIN, show how far the sender got.
        if missing or flags & FIN:
            self._extend_known_end(at + len(payload) + missing, origin, fin=bool(flags & FIN))
        return found

    def expire(self, now_ns: int) -> list[Event]:
        """Give up the holes that are too old at a time."""
        found: list[Event] = []
        while self._waiting and now_ns - self._oldest_ns >= WAITING_NS:
            self._give_up_hole(found)
        end = self._known_end
        if end is None or self._waiting or self._over or end.position <= self.position:
            return found
        if now_ns - end.ts_ns >= WAITING_NS:
            self._gap(end.position, end, found)
        return found

    def end(self) -> list[Event]:
        """End the stream: every hole becomes a gap."""
        found: list[Event] = []
        # Every hole becomes a gap, and what waits behind it is delivered: nothing captured is lost.
        while self._waiting:
            self._give_up_hole(found)
        if self._known_end is not None and self._known_end.position > self.position:
            self._gap(self._known_end.position, self._known_end, found)
        self.stop()
        return found

    def stop(self) -> None:
        """Ignore all further payload, without ending the stream."""
        self._over = True
        self._recent = None

    # -- where a segment belongs -------------------------------------------------------------

    def _distance(self, seq: int) -> int:
        """Return the distance of a sequence number from the stream's position; negative if
        behind."""
        assert self._base is not None
        # Modulo 2^32, as a signed number: at most 2^31 away in either direction (RFC 1982). A
        # stream of any length works, as long as no segment is further off than that.
        return ((seq - self._base - self.position + _HALF) & _MASK) - _HALF

    def _take(self, at: int, payload: bytes, origin: _Origin, found: list[Event]) -> None:
        # The usual case: in order, and nothing to compare with.
        if at == self.position and not self._waiting and self._fin_at is None:
            self.counters.new_bytes += len(payload)
            self._deliver(Data(at, payload, *origin), found)
            return
        # Bytes are kept for comparison only from the first segment out of order on. Most streams
        # never have one, and 64 KiB for each of 262,144 connections would be 16 GiB.
        if at != self.position:
            self._keep_recent()
        stop = self._up_to_fin(at + len(payload))
        copy = Copy(at, payload)
        # A keep-alive repeats the last byte, often as garbage (RFC 9293, 3.8.4): not a conflict.
        keep_alive = len(payload) == 1 and at == self.position - 1
        # After the end of a stream nothing is compared: the connection may have its row by then.
        if at < self.position and not (keep_alive or self.finished) and self._recent is not None:
            self._recent.compare(copy, self.position)
        # The part before the position was delivered already; the rest may be new, or wait already.
        known = max(at, min(self.position, stop))
        self.counters.duplicate_bytes += known - at
        self._wait(known, stop, copy, origin)
        self._ignore(at + len(payload) - max(known, stop))
        if copy.differing:
            found.append(_conflict(copy, origin))
        self._deliver_waiting(found)
        # In a loop: giving up one hole may leave another one before too many bytes.
        while self._waiting_bytes >= WAITING_BYTES or len(self._waiting) >= WAITING_PIECES:
            self._give_up_hole(found)

    def _up_to_fin(self, stop: int) -> int:
        if self._fin_at is None:
            return stop
        return min(stop, max(self._fin_at, self.position))

    def _ignore(self, size: int) -> None:
        self.counters.new_bytes += size
        self.counters.ignored_bytes += size

    def _extend_known_end(self, position: int, origin: _Origin, *, fin: bool) -> None:
        """Note that the sender has sent everything up to a position; the first FIN counts."""
        if fin:
            if self._fin_at is not None:
                return
            self._fin_at = position
            # What was cut off beyond it is not part of the stream, like payload beyond it.
            known = self._known_end
            if known is not None and known.position > self._up_to_fin(known.position):
                self._known_end = None
        position = self._up_to_fin(position)
        if self._known_end is None or position > self._known_end.position:
            self._known_end = Gap(position, 0, origin.ts_ns, origin.offset, origin.file)

    # -- what waits --------------------------------------------------------------------------

    def _wait(self, start: int, stop: int, copy: Copy, origin: _Origin) -> None:
        """Insert new out-of-order bytes between those that wait.

        Where pieces overlap, the first copy wins, as for bytes that were delivered. The list is
        sorted and short (`WAITING_PIECES`), so a scan is cheaper than a tree.
        """
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
            self._oldest_ns = origin.ts_ns
        for first, last in fresh:
            skipped = first - copy.position
            payload = copy.payload[skipped : skipped + last - first]
            self._waiting.append(
                Data(
                    first,
                    payload,
                    origin.ts_ns,
                    origin.offset + skipped,
                    origin.file,
                    origin.arrival,
                )
            )
            self._waiting_bytes += last - first
            self.counters.new_bytes += last - first
        # Tuples begin with their position, and positions are distinct.
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
                # The oldest by arrival, not by position: a later hole may be older.
                self._oldest_ns = min(self._waiting, key=lambda piece: piece.arrival).ts_ns

    def _give_up_hole(self, found: list[Event]) -> None:
        self._gap(self._waiting[0].position, self._waiting[0], found)
        self._deliver_waiting(found)

    # -- what leaves -------------------------------------------------------------------------

    def _deliver(self, data: Data, found: list[Event]) -> None:
        found.append(data)
        self.position += len(data.payload)
        if self._recent is not None:
            self._recent.add(data.payload)

    def _gap(self, stop: int, shown_by: Data | Gap, found: list[Event]) -> None:
        missing = stop - self.position
        shown = shown_by.ts_ns, shown_by.offset, shown_by.file
        found.append(Gap(self.position, missing, *shown, self._arrivals))
        self.counters.gap_bytes += missing
        if self._recent is not None:
            self._recent.skip(self.position, missing)
        self.position = stop

    def _keep_recent(self) -> None:
        """Keep delivered bytes for comparison, from the first out-of-order segment on."""
        if self._recent is None:
            self._recent = RecentBytes()


def _conflict(copy: Copy, origin: _Origin) -> Conflict:
    skipped = copy.first - copy.position
    sample = copy.payload[skipped : skipped + FAULT_BYTES]
    offset = origin.offset + skipped
    return Conflict(copy.first, copy.differing, sample, origin.ts_ns, offset, origin.file)


# -- retransmissions -------------------------------------------------------------------------


class RecentBytes:
    """The last delivered bytes of a stream, with the gaps between them."""

    __slots__ = ("_bytes", "_gaps")

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._gaps: list[tuple[int, int]] = []

    def save(self) -> tuple[bytes, list[tuple[int, int]]]:
        """Return a copy of the bytes and of the gaps."""
        return bytes(self._bytes), list(self._gaps)

    @classmethod
    def restored(cls, data: bytes, gaps: list[tuple[int, int]]) -> RecentBytes:
        """Return what `save` described."""
        found = cls()
        found._bytes += data
        found._gaps = list(gaps)
        return found

    def add(self, payload: bytes) -> None:
        """Add the next bytes."""
        self._bytes += payload[-RECENT_BYTES:]
        if len(self._bytes) > RECENT_BYTES:
            del self._bytes[:-RECENT_BYTES]

    def skip(self, position: int, missing: int) -> None:
        """Add a gap at a position."""
        # Zeros take the place of missing bytes, so that positions stay simple to compute.
        self.add(bytes(min(missing, RECENT_BYTES)))
        stop = position + missing
        self._gaps = [gap for gap in self._gaps if gap[1] > stop - RECENT_BYTES]
        self._gaps.append((position, stop))

    def compare(self, copy: Copy, position: int) -> None:
        """Compare a segment with the recent bytes, which end at `position`."""
        base = position - len(self._bytes)
        # Only bytes that are still kept can be compared; older ones count as equal.
        start = max(base, copy.position)
        stop = min(position, copy.position + len(copy.payload))
        for gap_start, gap_stop in self._gaps:
            if start < gap_start:
                copy.against(self._bytes, base, start, min(stop, gap_start))
            start = max(start, gap_stop)
        copy.against(self._bytes, base, start, stop)


class Copy:
    """The payload of a segment while it is compared with the first copies of its bytes."""

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
