"""A byte stream between two sessions: split anywhere, corrupted on request."""

from __future__ import annotations

from wirelake.protocols.sansio import Session

__all__ = ["Wire"]


class Wire:
    """One direction. `clean` until something was done to its bytes."""

    def __init__(self, source: Session, target: Session):
        self.source = source
        self.target = target
        self.bytes = bytearray()
        self.clean = True
        self.ended = False

    def load(self) -> None:
        """Take the bytes that the source has written."""
        self.bytes += self.source.to_send()

    def deliver(self, size: int, now: float) -> None:
        """Deliver the next bytes."""
        self.load()
        data = bytes(self.bytes[:size])
        del self.bytes[:size]
        if data:
            self.target.receive(data, now)

    def corrupt(self, at: int, mask: int) -> None:
        """Changes a byte."""
        self.load()
        if self.bytes:
            self.bytes[at % len(self.bytes)] ^= mask
            self.clean = False

    def drop(self, at: int, size: int) -> None:
        """Loses some bytes."""
        self.load()
        if self.bytes:
            at %= len(self.bytes)
            del self.bytes[at : at + size]
            self.clean = False

    def duplicate(self, at: int, size: int) -> None:
        """Repeats some bytes."""
        self.load()
        if self.bytes:
            at %= len(self.bytes)
            self.bytes[at:at] = self.bytes[at : at + size]
            self.clean = False

    def end(self) -> None:
        """The source closes; bytes in flight are lost."""
        self.bytes.clear()
        if not self.ended:
            self.ended = True
            self.target.receive_eof()
