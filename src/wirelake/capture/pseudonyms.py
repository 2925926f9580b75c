"""Addresses that are not the real ones, and still tell what belongs together.

Two addresses that share their first n bits have pseudonyms that share their first n bits, so that
networks stay networks. Which bits are turned depends on a seed alone: whoever has it can make the
same pseudonyms again, and nobody else can undo them.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Final

__all__ = ["Pseudonyms"]

_MAPPED: Final = bytes(10) + b"\xff\xff"
"""Begins an IPv6 address that stands for an IPv4 one."""


class Pseudonyms:
    """Gives each address its pseudonym."""

    def __init__(self, seed: str):
        self._key = hashlib.blake2b(seed.encode("utf-8", "surrogatepass")).digest()
        self._of = functools.lru_cache(maxsize=65_536)(self._make)

    def __call__(self, address: bytes) -> bytes:
        """The pseudonym of an address of 4 or 16 bytes."""
        return self._of(address)

    def _make(self, address: bytes) -> bytes:
        if len(address) == 16 and address.startswith(_MAPPED):
            return _MAPPED + self._of(address[12:])
        bits = len(address) * 8
        number, made = int.from_bytes(address, "big"), 0
        for position in range(bits):
            prefix = number >> (bits - position)
            turned = (number >> (bits - 1 - position) & 1) ^ self._turns(bits, position, prefix)
            made = made << 1 | turned
        return made.to_bytes(len(address), "big")

    def _turns(self, bits: int, position: int, prefix: int) -> int:
        """Whether the bit behind a prefix is turned."""
        text = f"{bits} {position} {prefix}".encode()
        return hashlib.blake2b(text, digest_size=1, key=self._key).digest()[0] & 1
