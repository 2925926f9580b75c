"""Which share a connection belongs to."""

from __future__ import annotations

from typing import Final

__all__ = ["id_hash"]

_MASK: Final = (1 << 64) - 1


def id_hash(connection: int) -> int:
    """32 bits of a recorder's id, or of a tunnel's: its remainder by the shares is its share.

    The same as the front end's (`flows.py`) for a connection that a recorder has numbered.
    """
    value = connection & _MASK
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return (value ^ value >> 33) >> 32
