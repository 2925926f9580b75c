"""Addresses, ports and ids of simulated connections: all distinct, and all of one width.

A scene has up to eight client hosts with up to 32 connections each. Addresses are 10.128.128.128 to
10.255.255.255, so that they have the same length as text; ports have five digits.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .numbers import Bytes, Ints, decimal

__all__ = [
    "SERVER",
    "address_text",
    "addresses",
    "connection_ids",
    "hashed_ids",
    "ports",
    "tunnel_ids",
]

HOSTS: Final = 8
PORTS: Final = 32
SERVER: Final = bytes((10, 20, 0, 9))
"""The address of every server."""
_SPREAD: Final = 0x5851F42D
_BITS: Final = 31
_FIRST_PORT: Final = 16_384
_BASIS: Final = 0xCBF29CE484222325
_PRIME: Final = np.uint64(0x100000001B3)
_FIRST_ID: Final = 10**18


def _scrambled(instances: Ints, host: npt.NDArray[Any]) -> Ints:
    """Return 31 distinct bits for each host; multiplication by an odd factor is a bijection."""
    number = instances[:, None] * np.uint64(HOSTS) + host.astype(np.uint64)
    return number * np.uint64(_SPREAD | 1) & np.uint64((1 << _BITS) - 1)


def addresses(instances: Ints, host: npt.NDArray[Any]) -> Bytes:
    """IPv4 addresses by instance and connection; the last axis is their four bytes."""
    scrambled = _scrambled(instances, host) >> np.uint64(10)
    out = np.full((*scrambled.shape, 4), 10, np.uint8)
    for n, shift in enumerate((14, 7, 0)):
        out[..., n + 1] = 128 + ((scrambled >> np.uint64(shift)) & np.uint64(127)).astype(np.uint8)
    return out


def address_text(found: Bytes) -> Bytes:
    """Format addresses as 14 characters."""
    out = np.full((*found.shape[:-1], 14), ord("."), np.uint8)
    out[..., 0:2] = np.frombuffer(b"10", np.uint8)
    for n in range(3):
        out[..., 3 + 4 * n : 6 + 4 * n] = decimal(found[..., n + 1].astype(np.uint64), 3)
    return out


def ports(
    instances: Ints, host: npt.NDArray[Any], port: npt.NDArray[Any]
) -> npt.NDArray[np.uint16]:
    """Client ports by instance and connection."""
    blocks = _scrambled(instances, host) & np.uint64(1023)
    return (np.uint64(_FIRST_PORT) + blocks * np.uint64(PORTS) + port.astype(np.uint64)).astype(
        np.uint16
    )


def connection_ids(instances: Ints, count: int) -> npt.NDArray[np.int64]:
    """Connection ids as a recorder assigns them, of nineteen digits."""
    places: Ints = np.arange(count).astype(np.uint64)
    number = instances[:, None] * np.uint64(256) + places
    spread: Ints = number * np.uint64(0x9E3779B97F4A7C15) & np.uint64((1 << 62) - 1)
    return (spread + np.uint64(_FIRST_ID)).astype(np.int64)


def fnv(parts: list[Bytes]) -> npt.NDArray[np.int64]:
    """FNV-1a over the last axis, cut to 63 bits: how readers derive ids that nobody recorded."""
    value: Ints = np.full(parts[0].shape[:-1], _BASIS, np.uint64)
    for part in parts:
        for n in range(part.shape[-1]):
            value = (value ^ part[..., n].astype(np.uint64)) * _PRIME
    found = (value >> np.uint64(1)).astype(np.int64)
    found[found == 0] = 1
    return found


def hashed_ids(
    client: Bytes, client_port: npt.NDArray[Any], server_port: npt.NDArray[Any], first: Ints
) -> npt.NDArray[np.int64]:
    """Connection ids without a recorder, from both endpoints and the time of the first packet."""
    shape = client.shape[:-1]
    server = np.broadcast_to(np.frombuffer(SERVER, np.uint8), (*shape, 4))
    return fnv(
        [
            client,
            _big(client_port, ">u2"),
            server,
            _big(np.broadcast_to(server_port, shape), ">u2"),
            _big(first, ">u8"),
        ]
    )


def tunnel_ids(instance: Ints, tunnel: Ints) -> npt.NDArray[np.int64]:
    """Ids of tunnels."""
    word = np.broadcast_to(np.frombuffer(b"tunnel", np.uint8), (*instance.shape, 6))
    return fnv([word, _big(instance, ">u8"), _big(tunnel, ">u8")])


def _big(values: npt.NDArray[Any], kind: str) -> Bytes:
    plain = np.ascontiguousarray(values.astype(kind))
    return plain.view(np.uint8).reshape(*values.shape, int(kind[-1]))
