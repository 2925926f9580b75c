"""How far one client has come in the log, and what it has not acknowledged.

The log has one order, by number. Of one client it is known

- the *cursor*: everything up to it was handed to the client;
- *spans* beyond the cursor that were handed too. There is one when a comet client is online: what
  is published then is pushed, while what waited before is fetched;
- *holes*: what was handed and is not acknowledged.

So what waits for a client is its holes, and what the log has for it outside of what was handed.
Acknowledging everything leaves one number, however much went through.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

__all__ = ["MOST_SPANS", "Inbox"]

MOST_SPANS: Final = 64
"""Spans that are remembered; when there are more, the oldest counts as not handed again, and what
was acknowledged in it is delivered once more."""


class Inbox:
    """The cursor, spans and holes of one client."""

    __slots__ = ("cursor", "holes", "spans")

    def __init__(self, cursor: int = 0):
        self.cursor = cursor
        self.spans: list[tuple[int, int]] = []
        """(after, up to), ascending, beyond the cursor."""
        self.holes: dict[int, int] = {}
        """By number: the connection that it was pushed on; 0 when that is over, or it was asked
        for."""

    @property
    def top(self) -> int:
        """The highest number that was handed."""
        return self.spans[-1][1] if self.spans else self.cursor

    def handed(self, number: int) -> bool:
        """Whether this one was handed to the client."""
        if number <= self.cursor:
            return True
        at = bisect_left(self.spans, (number,)) - 1
        return at >= 0 and number <= self.spans[at][1]

    def owes(self, number: int) -> bool:
        """Whether the client, if it is meant for it, has not acknowledged this one."""
        return number in self.holes or not self.handed(number)

    def hand(self, number: int) -> None:
        """This one is handed, and with it everything down to what was handed before."""
        spans = self.spans
        if not spans:
            self.cursor = max(self.cursor, number)
            return
        at = bisect_left(spans, (number,)) - 1
        if at >= 0:
            after, up_to = spans[at]
            spans[at] = (after, max(up_to, number))
        else:
            self.cursor = max(self.cursor, number)

    def begin(self, number: int) -> None:
        """What comes after this number is handed apart from what waits up to it."""
        if number > self.top:
            self.spans.append((number, number))
            while len(self.spans) > MOST_SPANS:
                after, up_to = self.spans.pop(0)
                for hole in [each for each in self.holes if after < each <= up_to]:
                    del self.holes[hole]

    def settle(self, number: int) -> None:
        """Everything up to this number was handed."""
        spans = self.spans
        self.cursor = max(self.cursor, number)
        while spans and spans[0][0] <= self.cursor:
            self.cursor = max(self.cursor, spans.pop(0)[1])

    def gaps(self) -> Iterator[tuple[int, int | None]]:
        """The parts of the log that were not handed: (after, up to); the last has no end."""
        after = self.cursor
        for begin, end in self.spans:
            yield after, begin
            after = end
        yield after, None

    def lowest(self) -> int:
        """The lowest number that may still be needed."""
        return min(min(self.holes, default=self.cursor + 1), self.cursor + 1)

    # -- on disk -----------------------------------------------------------------------------

    def pack(self) -> bytes:
        """Spans and holes, as differences, so that most take two or three bytes."""
        numbers = sorted(self.holes)
        holes = [b - a for a, b in zip([0, *numbers], numbers, strict=False)]
        spans = [pair for pair in self.spans if pair[0] < pair[1]]
        return msgspec.msgpack.encode((spans, holes))

    @classmethod
    def unpack(cls, cursor: int, state: bytes) -> Inbox:
        """What `pack` has packed."""
        spans, holes = msgspec.msgpack.decode(state, type=tuple[list[tuple[int, int]], list[int]])
        inbox = cls(cursor)
        inbox.spans = spans
        number = 0
        for step in holes:
            number += step
            inbox.holes[number] = 0
        return inbox

    # -- against the log ---------------------------------------------------------------------

    def not_handed(self, numbers: Sequence[int], start: int = 0) -> int:
        """How many of these (ascending) were not handed, beyond `start`."""
        count = 0
        for after, up_to in self.gaps():
            low = bisect_right(numbers, max(after, start))
            high = len(numbers) if up_to is None else bisect_right(numbers, up_to)
            count += max(0, high - low)
        return count
