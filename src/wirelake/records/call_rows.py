"""Rows of `calls`, and what is remembered of a connection to make them.

See "Calls" and "When order can be trusted" in `docs/concepts/matching.md`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .rows import MessageRow, opposite

__all__ = [
    "DUPLICATE_WINDOW_NS",
    "EXPIRE_AFTER_NS",
    "QUIET_NS",
    "Break",
    "CallRow",
    "Doubt",
    "Side",
    "SideState",
]

DUPLICATE_WINDOW_NS: Final = 10_000_000_000
"""How long after an answer a further one still counts as its duplicate."""
EXPIRE_AFTER_NS: Final = DUPLICATE_WINDOW_NS + DUPLICATE_WINDOW_NS // 4
"""When answered calls are let go: later than they could be, but then many at a time."""

QUIET_NS: Final = 10_000_000_000
"""After this long without request or answer, nothing is under way any more."""

_ACTIVITY: Final = frozenset({"request", "response", "part"})


class CallRow(msgspec.Struct, gc=False):
    """A row of `calls`; while the call is open, what is known of it so far."""

    connection: int
    protocol: str
    direction: str
    target: str | None
    message_id: int | None
    request_ns: int | None
    request_bytes: int | None
    client: str | None
    tunnel_link: int | None
    outcome: str | None = None
    cause: str | None = None
    response_ns: int | None = None
    latency_ns: int | None = None
    first_part_ns: int | None = None
    parts: int = 0
    requests: int = 1
    traces: int = 0
    duplicates: int = 0
    status: str | None = None
    reason: str | None = None
    response_bytes: int | None = None

    @classmethod
    def orphan(cls, row: MessageRow, client: str | None) -> CallRow:
        """The call of an answer whose request was not seen."""
        asked = opposite(row.direction)
        target, number, link = row.target, row.reply_to, row.tunnel_link
        call = cls(row.connection, row.protocol, asked, target, number, None, None, client, link)
        call.requests = 0
        return call

    def part(self, row: MessageRow) -> None:
        """A message of the answer."""
        if self.first_part_ns is None:
            self.first_part_ns = row.ts_ns
            self.response_bytes = row.size_bytes
        else:
            self.response_bytes = (self.response_bytes or 0) + row.size_bytes
        self.parts += 1

    def complete(self, row: MessageRow) -> None:
        """The last message of the answer."""
        self.part(row)
        self.response_ns = row.ts_ns
        self.status = row.status
        self.reason = row.reason
        if self.request_ns is None:
            self.outcome = "orphan"
        else:
            self.latency_ns = row.ts_ns - self.request_ns
            self.outcome = "answered" if row.status == "ok" or row.status is None else "failed"


class Side:
    """The calls that one end of a connection has made."""

    __slots__ = ("answered", "by_id", "in_order", "oldest_ns")

    def __init__(self) -> None:
        self.by_id: dict[int, CallRow] = {}
        """Open calls that have an id, the oldest first."""
        self.in_order: list[CallRow] = []
        """Open calls that have none, the oldest first."""
        self.answered: dict[int, CallRow] = {}
        """Answered calls for which a second answer may come, in the order of their answers."""
        self.oldest_ns = 0
        """No later than the first of these answers."""

    def recent(self, number: int, ts_ns: int) -> CallRow | None:
        """A call that was answered so shortly before that a further answer is its duplicate."""
        call = self.answered.get(number)
        if call is None or ts_ns - (call.response_ns or 0) > DUPLICATE_WINDOW_NS:
            return None
        return call

    def oldest_with_target(self, target: str | None) -> int | None:
        """The id of the oldest open call of a target."""
        if target is not None:
            for number, call in self.by_id.items():
                if call.target == target:
                    return number
        return None

    def expire(self, now_ns: int, limit: int) -> list[CallRow]:
        """Lets answered calls go: those past the window; half of them when there are too many."""
        excess = len(self.answered) - limit // 2 if len(self.answered) >= limit else 0
        final: list[int] = []
        for number, call in self.answered.items():
            self.oldest_ns = call.response_ns or 0
            if self.oldest_ns >= now_ns - DUPLICATE_WINDOW_NS and len(final) >= excess:
                break
            final.append(number)
        return [self.answered.pop(number) for number in final]


class SideState(msgspec.Struct):
    """A side as plain data."""

    connection: int
    direction: str
    by_id: list[tuple[int, CallRow]]
    in_order: list[CallRow]
    answered: list[tuple[int, CallRow]]
    oldest_ns: int

    @classmethod
    def of(cls, connection: int, direction: str, side: Side) -> SideState:
        """What a side remembers."""
        by_id, answered = list(side.by_id.items()), list(side.answered.items())
        return cls(connection, direction, by_id, side.in_order, answered, side.oldest_ns)

    def side(self) -> Side:
        """The side that remembers this."""
        side = Side()
        side.by_id = dict(self.by_id)
        side.in_order = self.in_order
        side.answered = dict(self.answered)
        side.oldest_ns = self.oldest_ns
        return side


class Break(msgspec.Struct):
    """The last place of a direction where messages may be missing."""

    ts_ns: int
    code: str


class Doubt(msgspec.Struct):
    """What is not known for certain about a connection, because messages are missing."""

    connection: int
    breaks: dict[str, Break] = {}
    """By direction."""
    unsettled: bool = False
    """Whether answers can be matched by order no more."""
    awaited: list[str] = []
    """Directions in which nothing has come since they broke: more may be missing."""
    last_ns: int = 0
    """The last request, answer or fault while it was unsettled."""

    def feed(self, row: MessageRow) -> None:
        """Takes notice of a message: with a request after a quiet time, order can be trusted."""
        if not self.unsettled:
            return
        if row.kind in _ACTIVITY:
            quiet = row.ts_ns - self.last_ns >= QUIET_NS
            if quiet and row.kind == "request" and not self.awaited:
                self.unsettled = False
                return
            self.last_ns = row.ts_ns
        if row.direction in self.awaited:
            self.awaited.remove(row.direction)

    def broken(self, direction: str, ts_ns: int, code: str) -> None:
        """Messages of this direction may be missing here."""
        self.breaks[direction] = Break(ts_ns, code)

    def unsettle(self, ts_ns: int, direction: str | None = None) -> None:
        """Order cannot be trusted from here on; `direction` is where messages are missing."""
        self.unsettled = True
        self.last_ns = max(self.last_ns, ts_ns)
        if direction is not None and direction not in self.awaited:
            self.awaited.append(direction)

    def hides(self, call: CallRow) -> str | None:
        """The code of a fault that may hide the answer of an open call."""
        found = self.breaks.get(opposite(call.direction))
        if found is None or call.request_ns is None or found.ts_ns < call.request_ns:
            return None
        return found.code

    def join(self, other: Doubt) -> None:
        """Takes over where another connection broke."""
        for direction, found in other.breaks.items():
            mine = self.breaks.get(direction)
            if mine is None or mine.ts_ns < found.ts_ns:
                self.breaks[direction] = found
