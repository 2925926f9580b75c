"""Numbers out of bytes, for kernels: the caller has checked that the bytes are there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .options import Int, S, U, inline

__all__ = ["be16", "be32", "be64", "le16", "le32", "le64", "u8", "u16", "u32"]

Bytes = NDArray[np.uint8]


@inline
def u8(data: Bytes, at: Int) -> Int:
    """One byte."""
    return S(data[U(at)])


@inline
def be16(data: Bytes, at: Int) -> Int:
    """Two bytes, big-endian."""
    i = U(at)
    return S(data[i]) << 8 | S(data[i + U(1)])


@inline
def le16(data: Bytes, at: Int) -> Int:
    """Two bytes, little-endian."""
    i = U(at)
    return S(data[i]) | S(data[i + U(1)]) << 8


@inline
def be32(data: Bytes, at: Int) -> Int:
    """Four bytes, big-endian."""
    i = U(at)
    return S(data[i]) << 24 | S(data[i + U(1)]) << 16 | S(data[i + U(2)]) << 8 | S(data[i + U(3)])


@inline
def le32(data: Bytes, at: Int) -> Int:
    """Four bytes, little-endian."""
    i = U(at)
    return S(data[i]) | S(data[i + U(1)]) << 8 | S(data[i + U(2)]) << 16 | S(data[i + U(3)]) << 24


@inline
def be64(data: Bytes, at: Int) -> Int:
    """Eight bytes, big-endian, as the int64 of the same bits."""
    return be32(data, at) << 32 | be32(data, at + 4)


@inline
def le64(data: Bytes, at: Int) -> Int:
    """Eight bytes, little-endian, as the int64 of the same bits."""
    return le32(data, at) | le32(data, at + 4) << 32


@inline
def u16(data: Bytes, at: Int, big: bool) -> Int:
    """Two bytes in the byte order that the file has."""
    return be16(data, at) if big else le16(data, at)


@inline
def u32(data: Bytes, at: Int, big: bool) -> Int:
    """Four bytes in the byte order that the file has."""
    return be32(data, at) if big else le32(data, at)
