"""How much a reader of captures takes at most, each bound with its reason."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["FAULT_BYTES", "Limits"]

FAULT_BYTES: Final = 256
"""How many of the bytes that would not read are kept with a fault: enough to see what they are."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of reading one file."""

    block_bytes: int = 16 << 20
    """A longer block or record is taken for a wrong length: no packet is that long, and the
    buffer need never be longer."""
    interfaces: int = 65_536
    """Most interfaces of one section: they are all remembered."""
    bomb_free_bytes: int = 64 << 20
    """So much may come out of a compressed file whatever its size: zeros compress well."""
    bomb_ratio: int = 1_000
    """Beyond that, so many bytes may come out for each one that the compressed file has."""
    chunk_bytes: int = 1 << 18
    """How much is read at a time."""
