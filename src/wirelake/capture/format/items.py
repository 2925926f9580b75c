"""What a capture file holds, one value for each: packets, facts, secrets, and what would not read.

A `Packet` is what the file says; a `Segment` is what its headers say (`links.segment`). Offsets
count bytes of the uncompressed file. See `docs/concepts/captures.md`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from .constants import FAULT_BYTES
from .files import Feed

__all__ = [
    "Direction",
    "Element",
    "Fact",
    "FileFault",
    "Interface",
    "Item",
    "Order",
    "Packet",
    "Secrets",
    "Section",
    "Segment",
    "cut_off",
    "fault_up_to",
]


Direction: TypeAlias = Literal["c2s", "s2c"]
"""Who speaks: the client (c2s) or the server (s2c)."""


Order: TypeAlias = Literal["little", "big"]
"""A byte order."""


class Packet(msgspec.Struct, frozen=True, gc=False):
    """One captured packet."""

    ts_ns: int
    """When it was captured, ns since 1970; 0 where the file has no time for it."""
    offset: int
    """Where its block or record begins in the file."""
    data_offset: int
    """Where its data begins in the file."""
    data: bytes
    """What was captured of it."""
    original: int
    """How many bytes it had on the wire."""
    interface: int
    """Number of its interface within its section; 0 in pcap."""
    link: int
    """The link type of that interface."""
    connection: int | None = None
    """The recorder's id of its connection; None in captures that others made."""
    direction: Direction | None = None
    """As the recorder says; None in captures that others made."""
    continues: bool = False
    """The recorder's mark: it begins inside a frame that an earlier packet began."""
    unfinished: bool = False
    """The recorder's mark: its last frame goes on in the next packet of its direction."""


class Segment(msgspec.Struct, frozen=True):
    """A packet that is a TCP segment."""

    packet: Packet
    src: bytes
    """Source address, 4 or 16 bytes."""
    dst: bytes
    """Destination address, 4 or 16 bytes."""
    src_port: int
    dst_port: int
    seq: int
    ack: int
    flags: int
    """FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32."""
    payload: bytes
    """The captured bytes of its payload."""
    payload_offset: int
    """Where the payload begins in the file."""
    missing: int
    """How many bytes of payload were on the wire behind the captured ones."""


class Fact(msgspec.Struct, frozen=True, gc=False):
    """What a recorder knew and the wire does not carry."""

    ts_ns: int
    offset: int
    """Where its block begins in the file."""
    kind: str
    connection: int | None
    data: dict[str, Any]
    """Everything else that it says."""


class Secrets(msgspec.Struct, frozen=True, gc=False):
    """Lines of a key log that a capture holds."""

    offset: int
    """Where its block begins in the file."""
    text: str


class FileFault(msgspec.Struct, frozen=True, gc=False):
    """Bytes of a file that would not read."""

    offset: int
    present_bytes: int
    code: str
    """bad_block, truncated_file, unknown_file, bomb or bad_fact."""
    detail: str
    """What is wrong, in words."""
    bytes: bytes
    """The first 256 of them."""
    ts_ns: int | None = None


class Section(msgspec.Struct, frozen=True):
    """The beginning of a file, or of a further section in it."""

    offset: int
    format: Literal["pcap", "pcapng"]
    order: Order
    source: str | None = None
    """Of a recording: who recorded it."""
    sequence: int | None = None
    """Of a recording: its number among the files of its source."""


class Interface(msgspec.Struct, frozen=True, gc=False):
    """Where packets were captured: what a section says about one interface."""

    offset: int
    number: int
    """Its number within its section."""
    link: int
    """The link type."""
    snap_length: int
    """Packets are cut to this length; 0 for never."""
    ticks_per_s: int
    """What its times count."""
    shift_s: int = 0
    """Seconds to add to its times."""

    def time_ns(self, ticks: int) -> int:
        """A time in nanoseconds since 1970, held to what 64 bits hold."""
        exact = ticks * 1_000_000_000 // self.ticks_per_s + self.shift_s * 1_000_000_000
        return max(-(1 << 63), min(exact, (1 << 63) - 1))


Item: TypeAlias = Packet | Fact | Secrets | FileFault
"""What `reader.read` yields."""

Element: TypeAlias = Item | Section | Interface
"""What `reader.elements` yields: the structure of the file as well."""


# Makes the faults that both file formats share.


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
