"""Numbers and ids of notifications: one is computed from the other, without a lookup.

An id has the original's form (comet rules, section 2): a prefix, two hex digits of the server, five
of a counter, eight of seconds since `EPOCH_S`. Seconds and counter are the number that orders the
log. Numbers only grow, even when the clock goes back or a second has more than a million.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["EPOCH_S", "Ids", "Numbers", "id_of", "number_of"]

EPOCH_S: Final = 1_434_253_712
"""Start of the original's seconds."""
_COUNTER_BITS: Final = 20
_COUNTER: Final = (1 << _COUNTER_BITS) - 1
_OURS: Final = re.compile(r"[mp][0-9a-f]{15}")


class Numbers:
    """Allocates ascending numbers."""

    __slots__ = ("_last",)

    def __init__(self, last: int = 0):
        self._last = last

    @property
    def last(self) -> int:
        """The last allocated number."""
        return self._last

    def next(self, now_ms: int) -> int:
        """Allocate the next number at this wall-clock time."""
        first = (now_ms // 1000 - EPOCH_S) << _COUNTER_BITS
        self._last = max(self._last + 1, first)
        return self._last


class Ids:
    """Formats the ids of one server's notifications."""

    __slots__ = ("_prefixes", "_second", "_text")

    def __init__(self, server: int):
        self._prefixes = f"m{server:02x}", f"p{server:02x}"
        self._second = -1
        self._text = ""

    def text(self, number: int, *, private: bool = False) -> str:
        """Like `id_of`, faster: all ids of one second have the same end."""
        second = number >> _COUNTER_BITS
        if second != self._second:
            self._second, self._text = second, f"{second:08x}"
        return f"{self._prefixes[private]}{number & _COUNTER:05x}{self._text}"


def id_of(number: int, *, server: int = 0, private: bool = False) -> str:
    """Return the id of a notification: `m…` for a topic, `p…` for one client."""
    prefix = "p" if private else "m"
    return f"{prefix}{server:02x}{number & _COUNTER:05x}{number >> _COUNTER_BITS:08x}"


def number_of(id: str) -> int | None:  # noqa: A002 - the protocols' own word
    """Return the number in an id of this format; None for any other text."""
    if _OURS.fullmatch(id) is None:
        return None
    return int(id[8:], 16) << _COUNTER_BITS | int(id[3:8], 16)
