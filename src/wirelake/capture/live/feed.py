"""`LiveFeed`: the bytes of an input as the readers of formats take them, as they arrive.

A reader of a file takes a window of it; of a live input it takes what has arrived. `read_more`
decides how much that is: the first bytes are waited for, and those of the next `GATHER_S` come with
them, because decoding a window has a fixed cost. While the reader's reader is busy, a window grows
instead of waiting, so that pipes are emptied and windows are as large as the load needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from ..format.constants import Limits
from ..format.files import HEAD_BYTES, Feed, decompressed
from .inputs import CHUNK_BYTES, Input

__all__ = ["GATHER_S", "LiveFeed"]

GATHER_S: Final = 0.06
"""How long bytes are gathered after the first: a window costs some milliseconds, whatever is in it.
With a capture program that passes packets on within 0.1 s, rows come within about 0.2 s."""
_PAUSE_S: Final = 0.01
"""Time between two reads while gathering. A capture program writes packet by packet; to read each
of them alone would take more time than to decode it."""


class _Raw:
    """The bytes of an input, as decompressors read those of a file."""

    def __init__(self, source: Input, idle: Callable[[bool], None]):
        self.count = 0
        """How many bytes were read."""
        self._source = source
        self._idle = idle
        self._returned = b""

    def read(self, _: int = CHUNK_BYTES) -> bytes:
        """Return the next bytes, which are waited for; none at the end."""
        if self._returned:
            found, self._returned = self._returned, b""
            return found
        arrived = self.arrived()
        if arrived is not None:
            return arrived
        self._idle(True)
        try:
            while arrived is None:
                arrived = self._read(None)
        finally:
            self._idle(False)
        return arrived

    def arrived(self) -> bytes | None:
        """Return the next bytes if they have arrived; none at the end, None otherwise."""
        return self._read(0)

    def _read(self, timeout_s: float | None) -> bytes | None:
        try:
            found = self._source.read(timeout_s)
            if found and self._source.copy is not None:
                self._source.copy.write(found)
        except OSError as error:
            # It ends this input, not the others.
            self._source.problem = f"{error.strerror or error}: the rest of the capture is missing"
            return b""
        self.count += len(found or b"")
        return found

    def unread(self, data: bytes) -> None:
        """Return these bytes again at the next call."""
        self._returned = data


class LiveFeed(Feed):
    """The uncompressed bytes of an input. All calls but those of the constructor may wait."""

    __slots__ = ("_input", "_limits", "_needed", "_plain", "_raw")

    def __init__(
        self,
        source: Input,
        limits: Limits,
        *,
        needed: Callable[[], bool] = lambda: True,
        idle: Callable[[bool], None] = lambda _: None,
    ):
        """`needed` returns whether the next window is waited for; `idle` is called when the feed
        begins and ends to wait for the input."""
        super().__init__(self._opened())
        self._input = source
        self._limits = limits
        self._needed = needed
        self._raw = _Raw(source, idle)
        self._plain = False
        """Whether the input is known not to be compressed."""

    @property
    def is_empty(self) -> bool:
        """Whether the input has ended without any byte."""
        return self._done and self._raw.count == 0

    def prefetch(self, offset: int, size: int) -> None:
        """Do nothing: what has not arrived is waited for when it is needed."""

    def read_more(self, offset: int, size: int) -> None:
        """Wait for the next bytes, and take what comes in the next `GATHER_S`, and until the window
        is needed."""
        want = offset + size - self._released
        parts = [self._moved()]
        held = len(parts[0])
        chunk: bytes | None = self._next()
        until = time.monotonic() + GATHER_S
        while chunk != b"":
            if chunk is not None:
                parts.append(chunk)
                held += len(chunk)
            if held >= want or (time.monotonic() >= until and self._needed()):
                break
            # A pipe that was full is read again at once: its writer waits.
            if chunk is None or len(chunk) < CHUNK_BYTES // 2:
                time.sleep(_PAUSE_S)
            chunk = self._arrived()
        self.buffer = b"".join(parts)

    def refuse(self) -> None:
        """Read nothing more."""
        self._done = True

    def exhaust(self) -> int:
        """Return how much was read: an input may be endless."""
        return self.known_end()

    def _least(self, held: int) -> int:  # noqa: ARG002 - of a file
        """Return 0: waiting for more bytes than requested would delay complete packets."""
        return 0

    def _next(self) -> bytes:
        found = super()._next()
        self.stopped = self.stopped or (self._done and self._input.stopped)
        return found

    def _arrived(self) -> bytes | None:
        """Return the next bytes if they have arrived; None otherwise."""
        if self._done:
            return b""
        # How much a decompressor has is not known without waiting for it.
        if not self._plain:
            return None
        found = self._raw.arrived()
        return self._next() if found == b"" else found

    def _opened(self) -> Iterator[bytes]:
        """Yield the uncompressed bytes."""
        raw = self._raw
        head = b""
        while len(head) < HEAD_BYTES and (chunk := raw.read()):
            head += chunk
        raw.unread(head)
        chunks = decompressed(head[:HEAD_BYTES], raw, self._limits, lambda: raw.count)
        self._plain = chunks is None
        yield from chunks or iter(raw.read, b"")
