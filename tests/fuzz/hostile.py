"""Bytes that a hostile peer sends: what a real one would say, spoilt; and nonsense.

`spoil` changes bytes; `Attacker.next` makes one input out of the frames of a `Subject`: in order,
at the wrong time, replayed, reordered, cut in two, spoilt, or random. Everything is drawn from one
`random.Random`, so an input can be made again from its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from random import Random

__all__ = ["Attacker", "spoil"]

_EDGES = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff")
_KEPT = 12
"""How many earlier frames can be replayed."""
_LONG = 3000
"""Bytes of nonsense at most: over the limits that subjects set."""


def spoil(rng: Random, data: bytes) -> bytes:
    """The bytes with one to three changes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not changed:
            break
        _CHANGES[int(rng.random() * len(_CHANGES))](rng, changed)
    return bytes(changed)


def _flip(rng: Random, data: bytearray) -> None:
    data[int(rng.random() * len(data))] ^= 1 << int(rng.random() * 8)


def _edge(rng: Random, data: bytearray) -> None:
    at = int(rng.random() * len(data))
    data[at : at + 1] = rng.choice(_EDGES)


def _cut(rng: Random, data: bytearray) -> None:
    del data[int(rng.random() * len(data)) :]


def _drop(rng: Random, data: bytearray) -> None:
    at = int(rng.random() * len(data))
    del data[at : at + 1 + int(rng.random() * 8)]


def _repeat(rng: Random, data: bytearray) -> None:
    at = int(rng.random() * len(data))
    data[at:at] = data[at : at + 1 + int(rng.random() * 16)]


def _insert(rng: Random, data: bytearray) -> None:
    at = int(rng.random() * (len(data) + 1))
    data[at:at] = rng.randbytes(1 + int(rng.random() * 4))


def _length(rng: Random, data: bytearray) -> None:
    """A number of one, two or four bytes near the front, where lengths are, becomes another."""
    size = rng.choice((1, 2, 4))
    at = int(rng.random() * min(len(data), 20))
    order = "little" if rng.random() < 0.5 else "big"
    number = int.from_bytes(data[at : at + size], order)  # type: ignore[arg-type]
    number += rng.choice((-1, 1, 2, -2, 16, 255, 1 << (8 * size - 1)))
    data[at : at + size] = (number % (1 << (8 * size))).to_bytes(size, order)  # type: ignore[arg-type]


_CHANGES: tuple[Callable[[Random, bytearray], None], ...] = (
    _flip,
    _flip,
    _edge,
    _cut,
    _drop,
    _repeat,
    _insert,
    _length,
    _length,
)


class Attacker:
    """One peer that does not mean well. `frame` gives what a real one might say.

    `rude` is how often an input that could never be a real one's is sent after all: where a tag
    covers everything and any such input is the last, most of the spoiling is done before the seal.
    """

    def __init__(self, rng: Random, frame: Callable[[], bytes], rude: float = 1.0):
        self._rng = rng
        self._frame = frame
        self._rude = rude
        self._said: list[bytes] = []
        self._rest = b""

    def next(self) -> bytes:
        """The next input."""
        if self._rest:
            data, self._rest = self._rest, b""
            return data if self._rng.random() < 0.8 else spoil(self._rng, data)
        way = self._rng.choices(_WAYS, cum_weights=_SHARES)[0]
        if way not in _CIVIL and self._rng.random() >= self._rude:
            return self._fresh()
        return way(self) or self._fresh()

    def _fresh(self) -> bytes:
        """A frame as it should be; whether now is its time is another question."""
        data = self._frame()
        if len(self._said) < _KEPT:
            self._said.append(data)
        else:
            self._said[int(self._rng.random() * _KEPT)] = data
        return data

    def _several(self) -> bytes:
        return b"".join(self._fresh() for _ in range(2 + int(self._rng.random() * 3)))

    def _then_spoilt(self) -> bytes:
        return self._fresh() + spoil(self._rng, self._fresh())

    def _spoilt(self) -> bytes:
        return spoil(self._rng, self._fresh())

    def _replayed(self) -> bytes:
        return self._rng.choice(self._said) if self._said else self._fresh()

    def _reordered(self) -> bytes:
        first, second = self._fresh(), self._fresh()
        return second + first

    def _in_two(self) -> bytes:
        data = self._fresh() + (self._fresh() if self._rng.random() < 0.5 else b"")
        at = 1 + int(self._rng.random() * len(data))
        self._rest = data[at:]
        return data[:at]

    def _nonsense(self) -> bytes:
        size = int(self._rng.random() * (_LONG if self._rng.random() < 0.05 else 40))
        return self._rng.randbytes(1 + size)


_SHARED_WAYS: tuple[tuple[float, Callable[[Attacker], bytes]], ...] = (
    (0.36, Attacker._fresh),
    (0.15, Attacker._several),
    (0.12, Attacker._then_spoilt),
    (0.14, Attacker._spoilt),
    (0.06, Attacker._replayed),
    (0.05, Attacker._reordered),
    (0.09, Attacker._in_two),
    (0.03, Attacker._nonsense),
)
"""How often each kind of input comes."""
_WAYS = tuple(way for _, way in _SHARED_WAYS)
_SHARES = tuple(accumulate(share for share, _ in _SHARED_WAYS))
_CIVIL = frozenset({Attacker._fresh, Attacker._several, Attacker._in_two})
