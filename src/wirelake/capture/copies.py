"""Second copies of bytes, compared with the first: what a stream holds for that, and the comparing.

When two copies differ, the first one counts, and the difference is noted (*Streams* in
`docs/concepts/captures.md`).
"""

from __future__ import annotations

from typing import Final

__all__ = ["HELD_BYTES", "Copy", "Held"]

HELD_BYTES: Final = 1 << 16
"""How much of what was delivered is held, to be compared with later copies."""


class Held:
    """The last bytes that were delivered, with the gaps between them."""

    __slots__ = ("_bytes", "_gaps")

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._gaps: list[tuple[int, int]] = []

    def add(self, payload: bytes) -> None:
        """Bytes that follow."""
        self._bytes += payload[-HELD_BYTES:]
        if len(self._bytes) > HELD_BYTES:
            del self._bytes[:-HELD_BYTES]

    def skip(self, position: int, missing: int) -> None:
        """A gap follows, at this position."""
        self.add(bytes(min(missing, HELD_BYTES)))
        stop = position + missing
        self._gaps = [gap for gap in self._gaps if gap[1] > stop - HELD_BYTES]
        self._gaps.append((position, stop))

    def compare(self, copy: Copy, position: int) -> None:
        """Compares a copy with what is held of it; what is held stops at `position`."""
        base = position - len(self._bytes)
        start = max(base, copy.position)
        stop = min(position, copy.position + len(copy.payload))
        for gap_start, gap_stop in self._gaps:
            if start < gap_start:
                copy.against(self._bytes, base, start, min(stop, gap_start))
            start = max(start, gap_stop)
        copy.against(self._bytes, base, start, stop)


class Copy:
    """A segment's payload, compared with first copies of its bytes."""

    __slots__ = ("differing", "first", "payload", "position")

    def __init__(self, position: int, payload: bytes):
        self.position = position
        self.payload = payload
        self.differing = 0
        self.first = 0

    def against(self, other: bytes | bytearray, position: int, start: int, stop: int) -> None:
        """Compares positions `start` to `stop` with bytes that begin at `position`."""
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
