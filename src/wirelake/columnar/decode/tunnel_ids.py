"""Tunnels on a relay link: the connection ids of many at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["tunnel_connections"]

_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


def tunnel_connections(instances: NDArray[Any], tunnels: NDArray[Any]) -> NDArray[np.int64]:
    """As `wirelake.records.tunnels.tunnel_connection`, of each pair."""
    value = np.full(len(instances), _BASIS, np.uint64)
    for byte in b"tunnel":
        value = (value ^ np.uint64(byte)) * _PRIME
    for numbers in (instances, tunnels):
        for column in numbers.astype(">i8").view(np.uint8).reshape(-1, 8).T:
            value = (value ^ column.astype(np.uint64)) * _PRIME
    return np.asarray(np.maximum(value >> np.uint64(1), np.uint64(1)), np.int64)
