"""Numbers out of bytes, for kernels: the caller has checked that the bytes are there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .numba_options import U, inline

__all__ = ["be16", "be32", "be64", "le16", "le32", "le64", "u8", "u16", "u32"]

Bytes = NDArray[np.uint8]


@inline
def u8(data: Bytes, at: int) -> int:
    """One byte."""
    return np.int64(data[U(at)])


@inline
def be16(data: Bytes, at: int) -> int:
    """Two bytes, big-endian."""
    i = U(at)
    return np.int64(data[i]) << 8 | np.int64(data[i + U(1)])


@inline
def le16(data: Bytes, at: int) -> int:
    """Two bytes, little-endian."""
    i = U(at)
    return np.int64(data[i]) | np.int64(data[i + U(1)]) << 8


@inline
def be32(data: Bytes, at: int) -> int:
    """Four bytes, big-endian."""
    i = U(at)
    return (
        np.int64(data[i]) << 24
        | np.int64(data[i + U(1)]) << 16
        | np.int64(data[i + U(2)]) << 8
        | np.int64(data[i + U(3)])
    )


@inline
def le32(data: Bytes, at: int) -> int:
    """Four bytes, little-endian."""
    i = U(at)
    return (
        np.int64(data[i])
        | np.int64(data[i + U(1)]) << 8
        | np.int64(data[i + U(2)]) << 16
        | np.int64(data[i + U(3)]) << 24
    )


@inline
def be64(data: Bytes, at: int) -> int:
    """Eight bytes, big-endian, as the int64 of the same bits."""
    return be32(data, at) << 32 | be32(data, at + 4)


@inline
def le64(data: Bytes, at: int) -> int:
    """Eight bytes, little-endian, as the int64 of the same bits."""
    return le32(data, at) | le32(data, at + 4) << 32


@inline
def u16(data: Bytes, at: int, big: bool) -> int:
    """Two bytes in the byte order that the file has."""
    return be16(data, at) if big else le16(data, at)


@inline
def u32(data: Bytes, at: int, big: bool) -> int:
    """Four bytes in the byte order that the file has."""
    return be32(data, at) if big else le32(data, at)
