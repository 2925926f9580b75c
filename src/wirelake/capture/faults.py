"""Makes the faults that both file formats share."""

from __future__ import annotations

from .files import Feed
from .items import FileFault
from .limits import FAULT_BYTES

__all__ = ["cut_off", "fault_up_to"]


def cut_off(feed: Feed, offset: int) -> FileFault:
    """The file ends inside of what begins at `offset`: or it was ended, and `ending` says why."""
    first = feed.take(offset, FAULT_BYTES)
    present = feed.exhaust() - offset
    if feed.ending:
        return FileFault(offset, present, feed.ending.code, feed.ending.detail, first)
    return FileFault(
        offset, present, "truncated_file", f"the file ends {present} bytes into a block", first
    )


def fault_up_to(stop: int, start: int, first: bytes, detail: str) -> FileFault:
    """From `start`, where a block is wrong, to `stop`, where reading goes on."""
    return FileFault(
        start, stop - start, "bad_block", detail, first[: min(FAULT_BYTES, stop - start)]
    )
