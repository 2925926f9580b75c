"""Which part of the log one client has received, and what it has not acknowledged.

The log has one order, by number. Per client the hub keeps

- the *cursor*: everything up to it was sent to the client;
- *spans* beyond the cursor that were sent as well. A comet client that is online has one: what is
  published now is pushed, while the client fetches what waited before;
- *holes*: sent, and not acknowledged.

So a client's backlog is its holes plus whatever the log has for it outside the cursor and spans.
The state does not grow with traffic: a client that has acknowledged everything costs one number,
however many notifications went through. (A row per client and notification would make one publish
to a topic cost as many writes as it has subscribers.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

__all__ = ["MAX_SPANS", "Inbox"]

MAX_SPANS: Final = 64
"""Spans kept per client. Beyond that the oldest is forgotten and counts as not sent: what was
acknowledged in it is delivered a second time, and nothing is lost."""


class Inbox:
    """The cursor, spans and holes of one client."""

    __slots__ = ("cursor", "holes", "spans")

    def __init__(self, cursor: int = 0):
        self.cursor = cursor
        self.spans: list[tuple[int, int]] = []
        """(after, up to), ascending, beyond the cursor."""
        self.holes: dict[int, int] = {}
        """By number: the id of the connection it was pushed on; 0 when that connection is closed,
        or the client fetched it."""

    @property
    def top(self) -> int:
        """The highest number that was sent."""
        return self.spans[-1][1] if self.spans else self.cursor

    def was_sent(self, number: int) -> bool:
        """Return whether this number was sent to the client."""
        if number <= self.cursor:
            return True
        at = bisect_left(self.spans, (number,)) - 1
        return at >= 0 and number <= self.spans[at][1]

    def is_unacked(self, number: int) -> bool:
        """Return whether the client, if this is addressed to it, has not acknowledged it."""
        return number in self.holes or not self.was_sent(number)

    def mark_sent(self, number: int) -> None:
        """Mark this number as sent, and everything between it and what was sent before."""
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

    def start_span(self, number: int) -> None:
        """Start a span after this number: what waits up to it stays unsent."""
        if number > self.top:
            self.spans.append((number, number))
            while len(self.spans) > MAX_SPANS:
                after, up_to = self.spans.pop(0)
                for hole in [each for each in self.holes if after < each <= up_to]:
                    del self.holes[hole]

    def advance_cursor(self, number: int) -> None:
        """Mark everything up to this number as sent."""
        spans = self.spans
        self.cursor = max(self.cursor, number)
        while spans and spans[0][0] <= self.cursor:
            self.cursor = max(self.cursor, spans.pop(0)[1])

    def gaps(self) -> Iterator[tuple[int, int | None]]:
        """Yield the unsent ranges of the log as (after, up to); the last one has no end."""
        after = self.cursor
        for begin, end in self.spans:
            yield after, begin
            after = end
        yield after, None

    def lowest_needed(self) -> int:
        """Return the lowest number the client may still need."""
        return min(min(self.holes, default=self.cursor + 1), self.cursor + 1)

    def count_unsent(self, numbers: Sequence[int], start: int = 0) -> int:
        """Return how many of these ascending numbers beyond `start` were not sent."""
        count = 0
        for after, up_to in self.gaps():
            low = bisect_right(numbers, max(after, start))
            high = len(numbers) if up_to is None else bisect_right(numbers, up_to)
            count += max(0, high - low)
        return count

    # -- on disk -----------------------------------------------------------------------------

    def pack(self) -> bytes:
        """Encode spans and holes; holes as differences, so that most take two or three bytes."""
        numbers = sorted(self.holes)
        holes = [b - a for a, b in zip([0, *numbers], numbers, strict=False)]
        spans = [pair for pair in self.spans if pair[0] < pair[1]]
        return msgspec.msgpack.encode((spans, holes))

    @classmethod
    def unpack(cls, cursor: int, state: bytes) -> Inbox:
        """Decode what `pack` encoded."""
        spans, holes = msgspec.msgpack.decode(state, type=tuple[list[tuple[int, int]], list[int]])
        inbox = cls(cursor)
        inbox.spans = spans
        number = 0
        for step in holes:
            number += step
            inbox.holes[number] = 0
        return inbox
