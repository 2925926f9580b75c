"""Alters vectors, to find out whether running them would notice.

A test that cannot fail is a defect. Every leaf of `expect` is changed, one at a time: numbers by
one, hexadecimal text by one digit, other text by a character, the name of an error class to another
class, booleans to their opposite, null to a number, an empty list or object to one that is not. In
vectors that decode, bytes of `hex` are changed too, one at a time: all of them in a small vector,
an even sample of a large one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from .expectation import Alteration

__all__ = ["altered_versions", "is_positive"]

_CLASS_KEYS: Final = ("error", "strict_error", "encode_error", "also_acceptable")
_HEX: Final = re.compile("(?:[0-9a-f]{2})+")
_FLIPS: Final = (0x01, 0x80)
"""The bits of a byte that are flipped: the lowest, and the one that means *continue* or *minus*."""
_ALL_BYTES: Final = 256
_SAMPLE: Final = 96


def is_positive(vector: dict[str, Any]) -> bool:
    """Whether the bytes of a vector are to be accepted."""
    expect = vector["expect"]
    return "error" not in expect and expect.get("ok") is not False


def altered_versions(
    vector: dict[str, Any], classes: Sequence[str]
) -> Iterator[tuple[Alteration, dict[str, Any]]]:
    """Every alteration of a vector, and the vector with it."""
    for path, value in _leaves(vector["expect"], ()):
        changed = _changed(path, value, classes)
        yield Alteration(path=path), {**vector, "expect": _with(vector["expect"], path, changed)}
    if is_positive(vector):
        data = bytes.fromhex(vector["hex"])
        for offset in _offsets(len(data)):
            for flip in _FLIPS:
                other = data[:offset] + bytes([data[offset] ^ flip]) + data[offset + 1 :]
                yield Alteration(offset=offset, flip=flip), {**vector, "hex": other.hex()}


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _with(value: Any, path: tuple[str | int, ...], leaf: Any) -> Any:
    """The same value with another leaf; what is not on the path is shared."""
    if not path:
        return leaf
    copy = value.copy()
    copy[path[0]] = _with(value[path[0]], path[1:], leaf)
    return copy


def _changed(path: tuple[str | int, ...], value: Any, classes: Sequence[str]) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            if path[-1] in _CLASS_KEYS and value in classes:
                return classes[(classes.index(value) + 1) % len(classes)]
            if _HEX.fullmatch(value):
                return value[:-1] + f"{(int(value[-1], 16) + 1) % 16:x}"
            return value + "~"
        case list():
            return [None]
        case dict():
            return {"altered": 1}
        case _:
            return 1


def _offsets(size: int) -> Sequence[int]:
    if size <= _ALL_BYTES:
        return range(size)
    return sorted({*range(24), *range(24, size, max(1, size // _SAMPLE)), *range(size - 8, size)})
