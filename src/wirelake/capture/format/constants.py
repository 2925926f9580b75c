"""Constants of the file formats: pcap, pcapng, and what our recorder adds to pcapng; and `Limits`.

A recording is little-endian pcapng with one raw IP interface that counts nanoseconds.

    SHB   option 2988 (custom text): PEN, then `wirehouse {"source": "...", "sequence": N}`
    IDB   LINKTYPE_RAW, snap length 0, if_tsresol 9
    EPB   synthetic IP and TCP headers, then whole frames; always the same 32 bytes of options:
              epb_flags     2, length 4:      1 inbound = c2s, 2 outbound = s2c
              custom     2989, length 16:     PEN (u32 in section order), b"WH", version (u8),
                                              marks (u8), connection id (u64, little-endian)
              opt_endofopt  0, length 0
    CB    a fact: PEN, b"WHF1", JSON {"kind": ..., "ts_ns": ..., "connection"?: ..., ...}
    DSB   keys: secrets type SECRETS_TYPE, lines of JSON

Because the options have a fixed size, everything in a recorded EPB is at a fixed distance from the
end of its block: the id 16 bytes before it, the marks 17, the flags 32. Prefixes and magics are
from the product's first name; they are part of the format and stay.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

__all__ = [
    "BLOCK_CUSTOM",
    "BLOCK_EPB",
    "BLOCK_IDB",
    "BLOCK_PACKET",
    "BLOCK_SECRETS",
    "BLOCK_SHB",
    "BLOCK_SPB",
    "BYTE_ORDER_MAGIC",
    "FACT_MAGIC",
    "FAULT_BYTES",
    "LINK_COOKED",
    "LINK_COOKED2",
    "LINK_ETHERNET",
    "LINK_IPV4",
    "LINK_IPV6",
    "LINK_LOOP",
    "LINK_NULL",
    "LINK_RAW",
    "LINK_RAW_BSD",
    "LINK_RAW_OPENBSD",
    "MARK_CONTINUES",
    "MARK_MAGIC",
    "MARK_UNFINISHED",
    "MARK_VERSION",
    "OPTIONS_SIZE",
    "OPTION_CUSTOM_BINARY",
    "OPTION_CUSTOM_TEXT",
    "OPTION_END",
    "OPTION_FLAGS",
    "OPTION_TSOFFSET",
    "OPTION_TSRESOL",
    "ORIGIN_PREFIX",
    "PACKET_LIMIT",
    "PCAP_HEADER_SIZE",
    "PCAP_MAGIC_MICRO",
    "PCAP_MAGIC_NANO",
    "PCAP_RECORD_SIZE",
    "PEN",
    "RECORDED_OPTIONS",
    "SECRETS_TYPE",
    "Limits",
    "pad4",
]


# -- pcap ----------------------------------------------------------------------------------------

PCAP_MAGIC_MICRO: Final = 0xA1B2C3D4
"""Times are seconds and microseconds."""
PCAP_MAGIC_NANO: Final = 0xA1B23C4D
"""Times are seconds and nanoseconds."""
PCAP_HEADER_SIZE: Final = 24
PCAP_RECORD_SIZE: Final = 16
"""Sizes of the header of a file, and of the header of a record."""

# -- pcapng --------------------------------------------------------------------------------------

BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D
BLOCK_SHB: Final = 0x0A0D0D0A
"""Section header: a palindrome, so that it reads the same in both byte orders."""
BLOCK_IDB: Final = 1
"""Interface description."""
BLOCK_PACKET: Final = 2
"""The obsolete packet block."""
BLOCK_SPB: Final = 3
"""Simple packet: no time, no interface."""
BLOCK_EPB: Final = 6
"""Enhanced packet."""
BLOCK_SECRETS: Final = 0x0A
"""Decryption secrets."""
BLOCK_CUSTOM: Final = 0x00000BAD
"""Custom block that tools may copy."""

OPTION_END: Final = 0
OPTION_FLAGS: Final = 2
"""epb_flags, of a packet."""
OPTION_TSRESOL: Final = 9
"""if_tsresol, of an interface."""
OPTION_TSOFFSET: Final = 14
"""if_tsoffset, of an interface: seconds to add."""
OPTION_CUSTOM_TEXT: Final = 2988
OPTION_CUSTOM_BINARY: Final = 2989
"""Custom options, which copies keep: of text, and of bytes."""

# -- link types ----------------------------------------------------------------------------------

LINK_NULL: Final = 0
LINK_ETHERNET: Final = 1
"""The loopback of BSD, and Ethernet."""
LINK_RAW_BSD: Final = 12
"""Raw IP, as some systems number it."""
LINK_RAW_OPENBSD: Final = 14
"""Raw IP, as OpenBSD numbers it."""
LINK_RAW: Final = 101
LINK_LOOP: Final = 108
LINK_COOKED: Final = 113
LINK_IPV4: Final = 228
LINK_IPV6: Final = 229
LINK_COOKED2: Final = 276
"""Raw IP, OpenBSD's loopback, Linux cooked, IPv4 and IPv6 alone, Linux cooked version 2."""

# -- recordings ----------------------------------------------------------------------------------

PEN: Final = 32473
"""The private enterprise number reserved for documentation (RFC 5612). We have none of our own, so
everything behind it begins with a magic."""
ORIGIN_PREFIX: Final = b"wirehouse "
"""First bytes of the section's custom text; JSON with `source` and `sequence` follows."""
MARK_MAGIC: Final = b"WH"
"""First bytes, after the PEN, of the custom option of a recorded packet."""
MARK_VERSION: Final = 1
MARK_CONTINUES: Final = 1
"""Mark: the packet begins inside a frame that an earlier packet began."""
MARK_UNFINISHED: Final = 2
"""Mark: the last frame of the packet continues in the next one."""
FACT_MAGIC: Final = b"WHF1"
"""First bytes, after the PEN, of a custom block that is a fact."""
SECRETS_TYPE: Final = 0x57484B4C
"""`WHKL`: the secrets are lines of our key log."""

RECORDED_OPTIONS: Final = struct.Struct("<HHI HHI2sBBQ HH")
"""The options of a recorded packet: OPTION_FLAGS, 4, direction, OPTION_CUSTOM_BINARY, 16, PEN,
MARK_MAGIC, MARK_VERSION, marks, connection id, OPTION_END, 0."""
OPTIONS_SIZE: Final = RECORDED_OPTIONS.size
PACKET_LIMIT: Final = 65_536 - 512
"""Maximum payload of a recorded packet: an IP length has 16 bits, and includes the headers."""


def pad4(size: int) -> int:
    """Return a size rounded up to a multiple of four."""
    return (size + 3) & ~3


# -- limits --------------------------------------------------------------------------------------

FAULT_BYTES: Final = 256
"""How many of the invalid bytes are kept with a fault: enough to see what they are."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for reading one file. Each is far above what real captures have."""

    block_bytes: int = 16 << 20
    """A longer block or record counts as a wrong length: no packet is that long. It also bounds the
    buffer."""
    interfaces: int = 65_536
    """Maximum interfaces of one section: all of them are kept in memory."""
    bomb_free_bytes: int = 64 << 20
    """Decompressed size that is always allowed: small captures of zeros compress very well."""
    bomb_ratio: int = 1_000
    """Beyond that, the maximum ratio of decompressed to compressed size. Deflate reaches about
    1,030, zstd far more."""
    chunk_bytes: int = 1 << 18
    """How much is read at a time."""
