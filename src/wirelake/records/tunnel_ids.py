"""The id of a tunnel, as the page on captures defines it ("Connections")."""

from __future__ import annotations

from typing import Final

__all__ = ["fnv1a_63", "tunnel_connection", "tunnel_of"]

_BASIS: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_MASK: Final = (1 << 64) - 1


def fnv1a_63(data: bytes) -> int:
    """FNV-1a of 64 bits, shifted right by one; 1 instead of 0: an id that fits an int64."""
    value = _BASIS
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return (value >> 1) or 1


def tunnel_connection(instance_id: int, tunnel_id: int) -> int:
    """The connection id of a tunnel."""
    ids = ((number & _MASK).to_bytes(8, "big") for number in (instance_id, tunnel_id))
    return fnv1a_63(b"tunnel" + b"".join(ids))


def tunnel_of(target: str | None) -> tuple[int, int] | None:
    """Instance id and tunnel id of a relay packet, from the column `target`."""
    if target is None:
        return None
    instance, _, tunnel = target.partition("/")
    try:
        return int(instance), int(tunnel)
    except ValueError:
        return None
