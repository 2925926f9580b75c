"""Ids that differ in every cast and have the same width in all of them.

All ids of a scene come from one block of numbers. A cast has a block of its own, so each id is
written as `first + k` in some form: eight bytes, a varint of six, fifteen hexadecimal digits.
Forms are functions of NumPy arrays: the ids of a thousand casts are written at once. That an id
looks random where it should is the work of a multiplication that no two numbers share a result of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["BLOCK", "FORMS", "WIDTHS", "Bytes", "Ints", "Numbers", "block", "shown", "written"]

Ints: TypeAlias = npt.NDArray[np.uint64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
"""Many numbers, and many bytes."""

BLOCK: Final = 1 << 13
"""Numbers of one scene; a scene of a thousand messages needs a quarter."""
_CASTS: Final = 1 << 28
"""Casts of one run: 4,096 shards of 65,536."""
_SPREAD: Final = 0x9E3779B1
"""Odd, so that multiplying modulo a power of two maps no two numbers to one."""
_SPREAD_60: Final = 0x9E3779B97F4A7C1
_SPREAD_64: Final = 0xD6E8FEB86659FD93
_MASK_60: Final = (1 << 60) - 1
_BASES: Final = {"u64be": 1 << 52, "i64le": 1 << 52, "varint": 1 << 41}
"""What is added to a number of a form that is an integer; from 2^41 to twice that, varints have six
bytes."""
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)


def block(casts: Ints) -> Ints:
    """The first number of each cast."""
    return casts * np.uint64(_SPREAD) % np.uint64(_CASTS) * np.uint64(BLOCK)


class Numbers:
    """Gives out the numbers of one block, and remembers in which forms they were used."""

    def __init__(self, cast: int):
        self.first = int(block(np.array([cast], np.uint64))[0])
        self._next = 0
        self.used: dict[bytes, tuple[str, int]] = {}
        """What may stand in the streams: form and place within the block, by the bytes."""

    def take(self, count: int = 1) -> int:
        """So many numbers that nobody else has; the place of the first."""
        place = self._next
        self._next += count
        if self._next > BLOCK:
            raise ValueError("a scene needs more numbers than it has")
        return place

    def span(self, form: str, count: int = 1) -> int:
        """So many numbers that follow each other, as integers; the first."""
        place = self.take(count)
        numbers = np.arange(self.first + place, self.first + place + count, dtype=np.uint64)
        for k, data in enumerate(FORMS[form](numbers)):
            self.used[data.tobytes()] = (form, place + k)
        return self.first + place + _BASES[form]

    def place(self, form: str, value: int) -> int:
        """The place of an integer that `span` gave."""
        return value - self.first - _BASES[form]

    def text(self, form: str) -> str:
        """A number as text."""
        place = self.take()
        data = written(form, self.first + place)
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
    """LEB128 of numbers that have six groups of seven bits."""
    shifts = np.arange(0, 42, 7, dtype=np.uint64)
    groups = ((values[..., None] >> shifts) & np.uint64(0x7F)).astype(np.uint8)
    groups[..., :5] |= 0x80
    return groups


def _digits(values: Ints, width: int) -> Bytes:
    """Hexadecimal digits."""
    shifts = np.arange(4 * (width - 1), -1, -4, dtype=np.uint64)
    return _HEX[((values[..., None] >> shifts) & np.uint64(15)).astype(np.intp)]


def decimal(values: Ints, width: int = 19) -> Bytes:
    """Decimal digits; numbers of 19 digits are what nanoseconds and connection ids are."""
    powers = np.array([10**k for k in range(width - 1, -1, -1)], np.uint64)
    return (values[..., None] // powers % np.uint64(10)).astype(np.uint8) + np.uint8(48)


def _spread60(numbers: Ints) -> Ints:
    """Sixty bits that look random; each step can be undone, so no two numbers meet."""
    mixed = (numbers ^ numbers >> np.uint64(17)) * np.uint64(_SPREAD_60) & np.uint64(_MASK_60)
    return mixed ^ mixed >> np.uint64(29)


def _prefixed(letter: str) -> Callable[[Ints], Bytes]:
    """An id of comet: a letter, and fifteen hexadecimal digits."""

    def write(numbers: Ints) -> Bytes:
        digits = _digits(_spread60(numbers), 15)
        first = np.full((*numbers.shape, 1), ord(letter), np.uint8)
        return np.concatenate([first, digits], axis=-1)

    return write


def _token(numbers: Ints) -> Bytes:
    """A token of comet: `t` and the form of a UUID."""
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
"""How a number is written; the last axis of the result is its bytes."""

WIDTHS: Final = {
    form: int(write(np.zeros(1, np.uint64)).shape[-1]) for form, write in FORMS.items()
}
"""Bytes of each form."""


def written(form: str, number: int) -> bytes:
    """One number in a form."""
    return FORMS[form](np.array([number], np.uint64)).tobytes()


def shown(form: str, numbers: Ints) -> npt.NDArray[Any]:
    """Numbers as tables show them: integers, or texts."""
    if form in _BASES:
        return _based(form, numbers).astype(np.int64)
    data = FORMS[form](numbers)
    return np.ascontiguousarray(data).view(f"S{WIDTHS[form]}")[..., 0]
