"""The bytes of a capture file, uncompressed, a window at a time.

`Feed` is what the readers of formats read from: bytes by their offset in the uncompressed file,
held only as far as they are needed. `open_feed` makes one of a file, plain, in gzip or in zstd;
what a compressed file does wrong ends the feed and is left in `Feed.ending`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, NamedTuple

from .constants import Limits

__all__ = ["Ending", "Feed", "open_feed"]

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_INPUT_BYTES: Final = 1 << 10
"""Four bytes of zstd can hold 128 KiB of zeros, and a call returns all of them: small sips."""


class Ending(NamedTuple):
    """Why a file ends before its time, as the code and the words of a fault."""

    code: str
    detail: str


class _EarlyEndError(Exception):
    """The bytes end here, for a reason."""

    def __init__(self, code: str, detail: str):
        super().__init__(detail)
        self.ending = Ending(code, detail)


class Feed:
    """A file that is read once, from front to back, with a window on what is being looked at."""

    __slots__ = ("_chunks", "_done", "_released", "base", "buffer", "ending")

    def __init__(self, chunks: Iterator[bytes]):
        self.buffer = b""
        """The window; another object whenever it moves."""
        self.base = 0
        """Where in the file the window begins."""
        self.ending: Ending | None = None
        """Once the end is reached: why it came early, if it did."""
        self._chunks = chunks
        self._done = False
        self._released = 0

    def has(self, offset: int, size: int) -> bool:
        """Whether the file has these bytes; then they are in the window."""
        want = offset + size - self.base
        return len(self.buffer) >= want or self._fill(want)

    def take(self, offset: int, size: int) -> bytes:
        """These bytes, as far as the file has them."""
        self.has(offset, size)
        begin = offset - self.base
        return self.buffer[begin : begin + size]

    def release(self, offset: int) -> None:
        """Nothing before this place will be asked for again."""
        self._released = offset

    def known_end(self) -> int:
        """The end of the window: the end of the file, once `has` has said no."""
        return self.base + len(self.buffer)

    def exhaust(self) -> int:
        """Reads and forgets the rest; gives the size of the file."""
        while self.has(self.known_end(), 1):
            self.release(self.known_end())
        return self.known_end()

    def _fill(self, want: int) -> bool:
        """Moves the window: drops what was released, reads at least up to `want`. It reads half
        as much again as it holds, so that moving on costs no more than a constant for each byte.
        """
        if self._done:
            return False
        dropped = self._released - self.base
        parts = [self.buffer[dropped:]]
        self.base += dropped
        want -= dropped
        held = len(parts[0])
        want_at_least = max(want, held + held // 2)
        try:
            while held < want_at_least:
                chunk = next(self._chunks, b"")
                if not chunk:
                    self._done = True
                    break
                parts.append(chunk)
                held += len(chunk)
        except _EarlyEndError as error:
            self._done = True
            self.ending = error.ending
        self.buffer = b"".join(parts)
        return held >= want


@contextmanager
def open_feed(path: str | os.PathLike[str], limits: Limits) -> Iterator[Feed]:
    """The bytes of a file, uncompressed. Raises OSError when it cannot be opened or read."""
    with open(path, "rb") as file:
        head = file.read(4)
        file.seek(0)
        if head.startswith(_GZIP):
            yield Feed(_bounded(_gunzip(file, limits), file, limits))
        elif head == _ZSTD:
            yield Feed(_bounded(_unzstd(file, limits), file, limits))
        else:
            yield Feed(iter(lambda: file.read(limits.chunk_bytes), b""))


def _bounded(chunks: Iterator[bytes], file: BinaryIO, limits: Limits) -> Iterator[bytes]:
    """No more bytes than a file of this size can reasonably hold."""
    size = os.fstat(file.fileno()).st_size
    left = max(limits.bomb_free_bytes, limits.bomb_ratio * size)
    for chunk in chunks:
        if len(chunk) > left:
            yield chunk[:left]
            raise _EarlyEndError("bomb", f"{size} compressed bytes expand to too many")
        left -= len(chunk)
        yield chunk


def _gunzip(file: BinaryIO, limits: Limits) -> Iterator[bytes]:
    rest = b""
    while rest := rest or file.read(limits.chunk_bytes):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            if not rest and not (rest := file.read(limits.chunk_bytes)):
                raise _EarlyEndError("truncated_file", "the gzip data is cut off")
            try:
                yield from _some(member.decompress(rest, limits.chunk_bytes))
            except zlib.error as error:
                raise _EarlyEndError("truncated_file", f"broken gzip data: {error}") from error
            rest = member.unused_data if member.eof else member.unconsumed_tail
        rest = rest.lstrip(b"\0")  # gzip files on tape are padded with zeros


def _unzstd(file: BinaryIO, limits: Limits) -> Iterator[bytes]:
    import zstandard  # an extra, and only files in zstd need it

    rest = b""
    while rest := rest or file.read(limits.chunk_bytes):
        frame: Any = zstandard.ZstdDecompressor().decompressobj()
        while not frame.eof:
            if not rest and not (rest := file.read(limits.chunk_bytes)):
                raise _EarlyEndError("truncated_file", "the zstd data is cut off")
            sip, rest = rest[:_ZSTD_INPUT_BYTES], rest[_ZSTD_INPUT_BYTES:]
            try:
                yield from _some(frame.decompress(sip))
            except zstandard.ZstdError as error:
                raise _EarlyEndError("truncated_file", f"broken zstd data: {error}") from error
        rest = frame.unused_data + rest


def _some(chunk: bytes) -> Iterator[bytes]:
    """An empty chunk would mean the end."""
    if chunk:
        yield chunk
