"""The bytes of a capture file, as the scan wants them: an array, and where in the file it begins.

A plain capture is mapped into memory: the array is the whole file. Any other file goes through the
reference's `Feed`, one window after the other. Where a length is wrong, the reference itself is
asked how far the damage reaches (`resync`), so that a fault has one author.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from wirelake.capture.format.files import Feed, open_feed
from wirelake.capture.format.items import Element, FileFault
from wirelake.capture.format.limits import Limits
from wirelake.capture.format.pcap import MAGICS
from wirelake.capture.format.pcapng import BEGINS

from ..jit.options import readonly

__all__ = ["Source", "resync"]

_FIRST_BYTES: Final = 1 << 12
_MOST_BYTES: Final = 1 << 20
"""How much is handed on at a time when reading goes on behind damage."""


class _Mapped(Feed):
    """A feed that has everything already."""

    __slots__ = ()

    def __init__(self, mapped: mmap.mmap):
        super().__init__(iter(()))
        self.buffer = cast(bytes, mapped)  # as good as bytes: its slices are

    def has(self, offset: int, size: int) -> bool:
        """Whether the file is long enough."""
        return offset + size <= len(self.buffer)


class Source:
    """An open capture file. Raises OSError when it cannot be opened."""

    def __init__(self, path: str, limits: Limits):
        self._stack = ExitStack()
        self.feed = _mapped(path) or self._stack.enter_context(open_feed(path, limits))
        """For the reference's functions; `feed.base` is where in the file the array begins."""

    def array(self) -> NDArray[np.uint8]:
        """What is held of the file."""
        return readonly(self.feed.buffer)

    def close(self) -> None:
        """Close the file. What is mapped stays as long as there are arrays of it."""
        self._stack.close()


def _mapped(path: str) -> Feed | None:
    with open(path, "rb") as file:
        head = file.read(4)
        if head not in MAGICS and head != BEGINS:
            return None
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    mapped.madvise(mmap.MADV_SEQUENTIAL)
    return _Mapped(mapped)


def resync(
    feed: Feed,
    at: int,
    head: bytes,
    read: Callable[[Feed, Limits], Iterator[Element]],
    limits: Limits,
) -> FileFault:
    """What the reference says of a wrong length at `at`: a fault up to where reading goes on.

    It reads a file that begins with `head` and goes on with what begins here; afterwards the feed
    begins where the fault stops.
    """
    rest = Feed(chain([head], _from(feed, at)))
    found = next(element for element in read(rest, limits) if isinstance(element, FileFault))
    stop = found.offset + found.present_bytes
    if not isinstance(feed, _Mapped):
        handed_on = at + rest.known_end() - len(head)
        feed.buffer = rest.buffer[stop - rest.base :] + feed.buffer[handed_on - feed.base :]
        feed.base = at + found.present_bytes
        feed.release(feed.base)
    return msgspec.structs.replace(found, offset=at)


def _from(feed: Feed, at: int) -> Iterator[bytes]:
    """Everything from a place on; what was handed on is not held here any more.

    Little at first, because most damage is small, and there may be much of it.
    """
    size = _FIRST_BYTES
    while chunk := feed.take(at, size):
        at += len(chunk)
        feed.release(at)
        yield chunk
        size = min(2 * size, _MOST_BYTES)
