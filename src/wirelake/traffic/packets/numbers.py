"""Ids that differ in every instance and have the same width in all of them.

All ids of a scene come from one block of consecutive numbers, and every instance has a block of its
own: an id is `first + k`, encoded in some *form*. The forms are chosen so that the encoded width
never depends on the number (eight bytes, a varint of exactly six, fifteen hexadecimal digits), or
else ids could not be replaced in place in the rows of a packet template.

Forms are functions of NumPy arrays: the ids of a thousand instances are encoded at once. Ids that
should look random are multiplied by an odd constant modulo a power of two, which is a bijection: no
two numbers meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from wirelake.records.tunnels import FNV_BASIS, FNV_PRIME

__all__ = [
    "BLOCK",
    "FORMS",
    "SERVER",
    "TUNNEL_FORM",
    "WIDTHS",
    "Bytes",
    "Ints",
    "Numbers",
    "address_text",
    "addresses",
    "block",
    "connection_ids",
    "encode",
    "encode_integer",
    "hashed_ids",
    "ports",
    "shown",
    "tunnel_ids",
]


Ints: TypeAlias = npt.NDArray[np.uint64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
"""Arrays of numbers and of bytes."""

BLOCK: Final = 1 << 13
"""Numbers in the block of one scene; a scene of a thousand messages needs a quarter of them."""
_INSTANCES: Final = 1 << 28
"""Instances in one run: 4,096 shards of 65,536."""
_SPREAD: Final = 0x9E3779B1
"""Odd, so that multiplication modulo a power of two is a bijection. Instances that follow each
other get blocks far apart, as if their ids came from different hosts."""
_SPREAD_60: Final = 0x9E3779B97F4A7C1
_SPREAD_64: Final = 0xD6E8FEB86659FD93
_MASK_60: Final = (1 << 60) - 1
_BASES: Final = {"u64be": 1 << 52, "i64le": 1 << 52, "varint": 1 << 41}
"""What integer forms add to a number. From 2^41 up to 2^42 varints have six bytes."""
TUNNEL_FORM: Final = "i64le"
"""Form of the instance and tunnel ids that identify a tunnel."""
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)


def block(instances: Ints) -> Ints:
    """Return the first number in the block of each instance."""
    return instances * np.uint64(_SPREAD) % np.uint64(_INSTANCES) * np.uint64(BLOCK)


class Numbers:
    """Hands out the numbers of one block and records the forms in which they were used."""

    def __init__(self, instance: int):
        self.first = int(block(np.array([instance], np.uint64))[0])
        self._next = 0
        self.used: dict[bytes, tuple[str, int]] = {}
        """Form and offset in the block, by encoded bytes."""

    def take(self, count: int = 1) -> int:
        """Reserve unused numbers; return the offset of the first."""
        place = self._next
        self._next += count
        if self._next > BLOCK:
            raise ValueError(f"more than {BLOCK} numbers in one scene")
        return place

    def span(self, form: str, count: int = 1) -> int:
        """Reserve consecutive numbers for use as integers; return the first integer."""
        place = self.take(count)
        numbers = np.arange(self.first + place, self.first + place + count, dtype=np.uint64)
        for k, data in enumerate(FORMS[form](numbers)):
            self.used[data.tobytes()] = (form, place + k)
        return self.first + place + _BASES[form]

    def place(self, form: str, value: int) -> int:
        """Return the offset in the block of an integer from `span`."""
        return value - self.first - _BASES[form]

    def text(self, form: str) -> str:
        """Reserve a number and return it as text."""
        place = self.take()
        data = encode(form, self.first + place)
        self.used[data] = (form, place)
        return data.decode()


# -- forms -------------------------------------------------------------------------------------


def _based(form: str, numbers: Ints) -> Ints:
    return numbers + np.uint64(_BASES[form])


def _big(values: Ints) -> Bytes:
    return values.astype(">u8").view(np.uint8).reshape(*values.shape, 8)


def _little(values: Ints) -> Bytes:
    return values.astype("<u8").view(np.uint8).reshape(*values.shape, 8)


def varint6(values: Ints) -> Bytes:
    """Encode numbers of six 7-bit groups as LEB128."""
    shifts = np.arange(0, 42, 7, dtype=np.uint64)
    groups = ((values[..., None] >> shifts) & np.uint64(0x7F)).astype(np.uint8)
    groups[..., :5] |= 0x80
    return groups


def _digits(values: Ints, width: int) -> Bytes:
    """Encode as hexadecimal digits."""
    shifts = np.arange(4 * (width - 1), -1, -4, dtype=np.uint64)
    return _HEX[((values[..., None] >> shifts) & np.uint64(15)).astype(np.intp)]


def decimal(values: Ints, width: int = 19) -> Bytes:
    """Encode as decimal digits; nanoseconds and connection ids have 19."""
    powers = np.array([10**k for k in range(width - 1, -1, -1)], np.uint64)
    return (values[..., None] // powers % np.uint64(10)).astype(np.uint8) + np.uint8(48)


def _spread60(numbers: Ints) -> Ints:
    """Return sixty bits that look random; every step is a bijection."""
    mixed = (numbers ^ numbers >> np.uint64(17)) * np.uint64(_SPREAD_60) & np.uint64(_MASK_60)
    return mixed ^ mixed >> np.uint64(29)


def _prefixed(letter: str) -> Callable[[Ints], Bytes]:
    """Return a form: a letter and fifteen hexadecimal digits."""

    def write(numbers: Ints) -> Bytes:
        digits = _digits(_spread60(numbers), 15)
        first = np.full((*numbers.shape, 1), ord(letter), np.uint8)
        return np.concatenate([first, digits], axis=-1)

    return write


def _token(numbers: Ints) -> Bytes:
    """Encode as `t` and a UUID."""
    high = _digits(numbers * np.uint64(_SPREAD_64), 16)
    low = _digits(_spread60(numbers), 16)
    text = np.full((*numbers.shape, 37), ord("-"), np.uint8)
    text[..., 0] = ord("t")
    text[..., 1:9], text[..., 10:14], text[..., 15:19] = (
        high[..., :8],
        high[..., 8:12],
        high[..., 12:],
    )
    text[..., 20:24], text[..., 25:37] = low[..., :4], low[..., 4:]
    return text


FORMS: Final[dict[str, Callable[[Ints], Bytes]]] = {
    "u64be": lambda numbers: _big(_based("u64be", numbers)),
    "i64le": lambda numbers: _little(_based("i64le", numbers)),
    "varint": lambda numbers: varint6(_based("varint", numbers)),
    "client": _prefixed("c"),
    "private": _prefixed("p"),
    "topic": _prefixed("m"),
    "token": _token,
    "key16": lambda numbers: _digits(numbers * np.uint64(_SPREAD_64), 16),
}
"""Encoders by form; the last axis of the result is the bytes of one number."""

WIDTHS: Final = {
    form: int(write(np.zeros(1, np.uint64)).shape[-1]) for form, write in FORMS.items()
}
"""Bytes of an id in each form."""


def encode_integer(form: str, value: int) -> bytes:
    """Encode an integer as it is on the wire, in an integer form."""
    if form == "varint":
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes((*out, value))
    return value.to_bytes(8, "big" if form.endswith("be") else "little")


def encode(form: str, number: int) -> bytes:
    """Encode one number of the block."""
    return FORMS[form](np.array([number], np.uint64)).tobytes()


def shown(form: str, numbers: Ints) -> npt.NDArray[Any]:
    """Return numbers as tables show them: integers or text."""
    if form in _BASES:
        return _based(form, numbers).astype(np.int64)
    data = FORMS[form](numbers)
    return np.ascontiguousarray(data).view(f"S{WIDTHS[form]}")[..., 0]


# -- addresses, ports, connection ids ----------------------------------------------------------

HOSTS: Final = 8
PORTS: Final = 32
SERVER: Final = bytes((10, 20, 0, 9))
"""The address of every server."""
_HOST_SPREAD: Final = 0x5851F42D
_BITS: Final = 31
_FIRST_PORT: Final = 16_384
_FNV_PRIME: Final = np.uint64(FNV_PRIME)
_FIRST_ID: Final = 10**18


def _scrambled(instances: Ints, host: npt.NDArray[Any]) -> Ints:
    """Return 31 distinct bits for each host; multiplication by an odd factor is a bijection."""
    number = instances[:, None] * np.uint64(HOSTS) + host.astype(np.uint64)
    return number * np.uint64(_HOST_SPREAD | 1) & np.uint64((1 << _BITS) - 1)


def addresses(instances: Ints, host: npt.NDArray[Any]) -> Bytes:
    """Return IPv4 addresses by instance and connection; the last axis has their four bytes."""
    # 21 of the 31 bits, seven in each byte; the other ten select a block of ports, so that address
    # and port together are distinct. All bytes are 128 or more: as text they have three digits.
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
    """Return client ports by instance and connection."""
    blocks = _scrambled(instances, host) & np.uint64(1023)
    return (np.uint64(_FIRST_PORT) + blocks * np.uint64(PORTS) + port.astype(np.uint64)).astype(
        np.uint16
    )


def connection_ids(instances: Ints, count: int) -> npt.NDArray[np.int64]:
    """Return connection ids as a recorder assigns them, of nineteen digits."""
    places: Ints = np.arange(count).astype(np.uint64)
    number = instances[:, None] * np.uint64(256) + places
    spread: Ints = number * np.uint64(0x9E3779B97F4A7C15) & np.uint64((1 << 62) - 1)
    return (spread + np.uint64(_FIRST_ID)).astype(np.int64)


def fnv(parts: list[Bytes]) -> npt.NDArray[np.int64]:
    """Return FNV-1a over the last axis, cut to 63 bits, as readers derive ids."""
    value: Ints = np.full(parts[0].shape[:-1], FNV_BASIS, np.uint64)
    for part in parts:
        for n in range(part.shape[-1]):
            value = (value ^ part[..., n].astype(np.uint64)) * _FNV_PRIME
    found = (value >> np.uint64(1)).astype(np.int64)
    # 1 instead of 0, as `records.tunnels.fnv1a_63` has it: readers must find the same ids.
    found[found == 0] = 1
    return found


def hashed_ids(
    client: Bytes, client_port: npt.NDArray[Any], server_port: npt.NDArray[Any], first: Ints
) -> npt.NDArray[np.int64]:
    """Return connection ids without a recorder, from endpoints and the time of the first packet."""
    shape = client.shape[:-1]
    server = np.broadcast_to(np.frombuffer(SERVER, np.uint8), (*shape, 4))
    return fnv(
        [
            client,
            _big_endian_bytes(client_port, ">u2"),
            server,
            _big_endian_bytes(np.broadcast_to(server_port, shape), ">u2"),
            _big_endian_bytes(first, ">u8"),
        ]
    )


def tunnel_ids(instance: Ints, tunnel: Ints) -> npt.NDArray[np.int64]:
    """Return ids of tunnels."""
    word = np.broadcast_to(np.frombuffer(b"tunnel", np.uint8), (*instance.shape, 6))
    return fnv([word, _big_endian_bytes(instance, ">u8"), _big_endian_bytes(tunnel, ">u8")])


def _big_endian_bytes(values: npt.NDArray[Any], kind: str) -> Bytes:
    plain = np.ascontiguousarray(values.astype(kind))
    return plain.view(np.uint8).reshape(*values.shape, int(kind[-1]))
