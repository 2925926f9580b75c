"""The items of a capture file: packets, facts, secrets, faults, sections and interfaces.

A `Packet` is a record of the file; a `Segment` is its parsed headers (`tcp.headers.segment`).
Offsets count bytes of the uncompressed file. See `docs/concepts/captures.md`.

Structs are frozen and without cyclic garbage collection (`gc=False`): one is built for every
packet, in 72 ns, where a frozen dataclass takes 672 ns.
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
"""Who sent something: the client (c2s) or the server (s2c)."""


Order: TypeAlias = Literal["little", "big"]
"""A byte order."""


class Packet(msgspec.Struct, frozen=True, gc=False):
    """One captured packet."""

    ts_ns: int
    """Capture time in ns since 1970; 0 if the file has none."""
    offset: int
    """File offset of its block or record."""
    data_offset: int
    """File offset of its data."""
    data: bytes
    """The captured bytes."""
    original: int
    """Its size on the wire."""
    interface: int
    """Number of its interface within its section; 0 in pcap."""
    link: int
    """The link type of that interface."""
    connection: int | None = None
    """The recorder's connection id; None in captures of other tools."""
    direction: Direction | None = None
    """As the recorder marked it; None in captures of other tools."""
    continues: bool = False
    """The recorder's mark: it begins inside a frame that an earlier packet began."""
    unfinished: bool = False
    """The recorder's mark: its last frame continues in the next packet of its direction."""


class Segment(msgspec.Struct, frozen=True):
    """The TCP segment of a packet."""

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
    """The captured payload."""
    payload_offset: int
    """File offset of the payload."""
    missing: int
    """Payload bytes that were on the wire after the captured ones."""


class Fact(msgspec.Struct, frozen=True, gc=False):
    """Something that a recorder knew and the wire does not carry."""

    ts_ns: int
    offset: int
    """File offset of its block."""
    kind: str
    connection: int | None
    data: dict[str, Any]
    """All other fields."""


class Secrets(msgspec.Struct, frozen=True, gc=False):
    """Lines of a key log that a capture holds."""

    offset: int
    """File offset of its block."""
    text: str


class FileFault(msgspec.Struct, frozen=True, gc=False):
    """A damaged part of a file."""

    offset: int
    present_bytes: int
    code: str
    """bad_block, truncated_file, unknown_file, bomb or bad_fact."""
    detail: str
    """A description."""
    bytes: bytes
    """The first 256 bytes of it."""
    ts_ns: int | None = None


class Section(msgspec.Struct, frozen=True):
    """The beginning of a file, or of another section in it."""

    offset: int
    format: Literal["pcap", "pcapng"]
    order: Order
    source: str | None = None
    """For a recording: its source."""
    sequence: int | None = None
    """For a recording: its number among the files of its source."""


class Interface(msgspec.Struct, frozen=True, gc=False):
    """A capture interface of a section."""

    offset: int
    number: int
    """Its number within its section."""
    link: int
    """The link type."""
    snap_length: int
    """Maximum captured bytes of a packet (0: unlimited)."""
    ticks_per_s: int
    """Resolution of its times."""
    shift_s: int = 0
    """Seconds to add to its times (if_tsoffset)."""

    def time_ns(self, ticks: int) -> int:
        """Return a time in nanoseconds since 1970, clamped to 64 bits."""
        exact = ticks * 1_000_000_000 // self.ticks_per_s + self.shift_s * 1_000_000_000
        return max(-(1 << 63), min(exact, (1 << 63) - 1))


Item: TypeAlias = Packet | Fact | Secrets | FileFault
"""What `reader.read` yields."""

Element: TypeAlias = Item | Section | Interface
"""What `reader.elements` yields: sections and interfaces as well."""


# -- faults of both file formats -------------------------------------------------------------


def cut_off(feed: Feed, offset: int) -> FileFault:
    """Return the fault of a file that ends inside a block at `offset`, or for `feed.ending`."""
    # Before `exhaust`, which drops the window.
    first = feed.take(offset, FAULT_BYTES)
    present = feed.exhaust() - offset
    if feed.ending:
        return FileFault(offset, present, feed.ending.code, feed.ending.detail, first)
    return FileFault(
        offset, present, "truncated_file", f"the file ends {present} bytes into a block", first
    )


def fault_up_to(stop: int, start: int, first: bytes, detail: str) -> FileFault:
    """Return the fault from an invalid block at `start` to `stop`, where reading continues."""
    return FileFault(
        start, stop - start, "bad_block", detail, first[: min(FAULT_BYTES, stop - start)]
    )
