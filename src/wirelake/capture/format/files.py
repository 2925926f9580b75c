"""`Feed`: the uncompressed bytes of a capture file, a window at a time.

The readers of formats read from a `Feed` by offsets in the uncompressed file; only a window of it
is in memory. `open_feed` opens a plain, gzip or zstd file. Invalid compressed data ends the feed,
and the reason is in `Feed.ending`: reading never raises for bad bytes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from wirelake.wire.paths import local_path

from .constants import Limits

__all__ = ["HEAD_BYTES", "Ending", "Feed", "Readable", "decompressed", "open_feed"]

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
HEAD_BYTES: Final = 4
"""How much of a file says whether it is compressed."""
_ZSTD_INPUT_BYTES: Final = 1 << 10
"""How much compressed data one call decompresses. Four bytes of zstd can expand to 128 KiB, and a
call returns all of it, so small inputs bound the memory."""


class Ending(NamedTuple):
    """Why a file ends early: code and detail of the fault."""

    code: str
    detail: str


class _EarlyEndError(Exception):
    """The bytes end here, for a reason."""

    def __init__(self, code: str, detail: str):
        super().__init__(detail)
        self.ending = Ending(code, detail)


class Feed:
    """A file that is read once, from front to back, through a window."""

    __slots__ = ("_chunks", "_done", "_released", "base", "buffer", "ending", "stopped")

    def __init__(self, chunks: Iterator[bytes]):
        self.buffer = b""
        """The window; another object whenever it moves."""
        self.base = 0
        """Offset of the window in the file."""
        self.ending: Ending | None = None
        """Once the end is reached: why it came early, if it did."""
        self.stopped = False
        """Whether the reader ended it: where it ends then says nothing about the file."""
        self._chunks = chunks
        self._done = False
        self._released = 0

    def has(self, offset: int, size: int) -> bool:
        """Return whether the file has these bytes; then they are in the window."""
        want = offset + size - self.base
        return len(self.buffer) >= want or self._fill(want)

    def prefetch(self, offset: int, size: int) -> None:
        """Read these bytes before they are asked for, unless they must be waited for."""
        self.has(offset, size)

    def read_more(self, offset: int, size: int) -> None:
        """Read up to these bytes; at the end of the file, none are new.

        A feed whose bytes still arrive may return fewer, as long as some are new.
        """
        self.has(offset, size)

    def refuse(self) -> None:
        """Read nothing more if the bytes still arrive: they are not a capture."""

    def take(self, offset: int, size: int) -> bytes:
        """Return these bytes, as far as the file has them."""
        self.has(offset, size)
        begin = offset - self.base
        return self.buffer[begin : begin + size]

    def release(self, offset: int) -> None:
        """Allow the window to drop everything before this offset."""
        self._released = offset

    def known_end(self) -> int:
        """Return the end of the window: the end of the file, once `has` has returned False."""
        return self.base + len(self.buffer)

    def exhaust(self) -> int:
        """Read and drop the rest; return the size of the file."""
        while self.has(self.known_end(), 1):
            self.release(self.known_end())
        return self.known_end()

    def _fill(self, want: int) -> bool:
        """Move the window: drop what was released, and read at least up to `want`.

        It reads at least half as much as it keeps. So each byte is copied a constant number of
        times on average, however small the steps are in which a caller asks for more.
        """
        if self._done:
            return False
        want -= self._released - self.base
        parts = [self._moved()]
        held = len(parts[0])
        want_at_least = max(want, self._least(held))
        while held < want_at_least and (chunk := self._next()):
            parts.append(chunk)
            held += len(chunk)
        self.buffer = b"".join(parts)
        return held >= want

    def _moved(self) -> bytes:
        """Drop what was released, and return the rest of the window."""
        dropped = self._released - self.base
        self.base = self._released
        return self.buffer[dropped:]

    def _least(self, held: int) -> int:
        """Return how much the window has at least after it has moved."""
        return held + held // 2

    def _next(self) -> bytes:
        """Return the next bytes; none at the end."""
        if self._done:
            return b""
        try:
            chunk = next(self._chunks, b"")
        except _EarlyEndError as error:
            chunk, self.ending = b"", error.ending
        self._done = not chunk
        return chunk


@contextmanager
def open_feed(path: str | os.PathLike[str], limits: Limits) -> Iterator[Feed]:
    """Yield a feed of a file's uncompressed bytes. Raises OSError when it cannot be read."""
    with open(local_path(path), "rb") as file:
        # By content, not by name: tools and users give captures any suffix.
        head = file.read(HEAD_BYTES)
        file.seek(0)
        # The size on disk, not the bytes read so far: a bomb may hide behind a long harmless
        # beginning, and a short one must not be refused at once.
        size = os.fstat(file.fileno()).st_size
        chunks = decompressed(head, file, limits, lambda: size)
        yield Feed(chunks or iter(lambda: file.read(limits.chunk_bytes), b""))


class Readable(Protocol):
    """What can be decompressed."""

    def read(self, size: int, /) -> bytes:
        """Return some of the next bytes; none at the end."""
        ...


def decompressed(
    head: bytes, file: Readable, limits: Limits, size: Callable[[], int]
) -> Iterator[bytes] | None:
    """Return the chunks of compressed data that begins with `head`; None if it is not compressed.

    `size` returns how many compressed bytes there are, as far as that is known.
    """
    if head.startswith(_GZIP):
        return _bounded(_gunzip(file, limits), size, limits)
    if head == _ZSTD:
        return _bounded(_unzstd(file, limits), size, limits)
    return None


def _bounded(chunks: Iterator[bytes], size: Callable[[], int], limits: Limits) -> Iterator[bytes]:
    """Yield chunks, up to the maximum size that the compressed bytes may expand to."""
    expanded = 0
    for chunk in chunks:
        left = max(limits.bomb_free_bytes, limits.bomb_ratio * size()) - expanded
        if len(chunk) > left:
            yield chunk[:left]
            raise _EarlyEndError("bomb", f"{size()} compressed bytes expand beyond the limit")
        expanded += len(chunk)
        yield chunk


def _gunzip(file: Readable, limits: Limits) -> Iterator[bytes]:
    rest = b""
    while rest := rest or file.read(limits.chunk_bytes):
        # A gzip file may have several members, as `cat a.gz b.gz` makes them.
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            if not rest and not (rest := file.read(limits.chunk_bytes)):
                raise _EarlyEndError("truncated_file", "the gzip data is cut off")
            try:
                # Bounded output for each call, so that a bomb cannot expand at once; the rest of
                # the input is in `unconsumed_tail`.
                yield from _non_empty(member.decompress(rest, limits.chunk_bytes))
            except zlib.error as error:
                raise _EarlyEndError("truncated_file", f"broken gzip data: {error}") from error
            rest = member.unused_data if member.eof else member.unconsumed_tail
        rest = rest.lstrip(b"\0")  # some tools pad gzip files with zeros, as gzip itself allows


def _unzstd(file: Readable, limits: Limits) -> Iterator[bytes]:
    import zstandard  # an optional dependency, needed only for zstd files

    rest = b""
    while rest := rest or file.read(limits.chunk_bytes):
        frame: Any = zstandard.ZstdDecompressor().decompressobj()
        while not frame.eof:
            if not rest and not (rest := file.read(limits.chunk_bytes)):
                raise _EarlyEndError("truncated_file", "the zstd data is cut off")
            piece, rest = rest[:_ZSTD_INPUT_BYTES], rest[_ZSTD_INPUT_BYTES:]
            try:
                yield from _non_empty(frame.decompress(piece))
            except zstandard.ZstdError as error:
                raise _EarlyEndError("truncated_file", f"broken zstd data: {error}") from error
        rest = frame.unused_data + rest


def _non_empty(chunk: bytes) -> Iterator[bytes]:
    """Yield a chunk unless it is empty: an empty chunk would mean the end of the file."""
    if chunk:
        yield chunk
