"""Rows of `calls`, and what is remembered of a connection to make them.

See "Calls" and "When order can be trusted" in `docs/concepts/matching.md`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from wirelake.wire.meaning import Tunnels

from .engine import (
    Clients,
    Engine,
    EngineLimits,
    SignedOn,
    oldest,
)
from .protocol_rules import rules_of
from .rows import (
    Closed,
    Fact,
    FaultRow,
    MessageRow,
    Opened,
    opposite,
)
from .tunnels import is_refusal, tunnel_connection, tunnel_of

__all__ = [
    "DUPLICATE_WINDOW_NS",
    "EXPIRE_AFTER_NS",
    "HARMLESS",
    "QUIET_NS",
    "Break",
    "CallRow",
    "CallsEngine",
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


# Requests and their answers: the engine behind the table `calls`.


HARMLESS: Final = frozenset({"conflict", "truncated_stream"})
"""Faults that hide no whole message: the first copy was read; the receiver had no more either."""


class _CallsState(msgspec.Struct):
    sides: list[SideState]
    doubts: list[Doubt]
    clients: list[tuple[int, SignedOn]]
    links: list[int]
    ready: list[CallRow]
    gave_up: bool


class CallsEngine(Engine[CallRow]):
    """Matches answers to requests, connection by connection."""

    def __init__(self, limits: EngineLimits | None = None):
        super().__init__(limits)
        self._forget()

    def _forget(self) -> None:
        self._sides: dict[str, dict[int, Side]] = {"c2s": {}, "s2c": {}}
        """By the direction of their requests, and by connection."""
        self._answered_by = {"c2s": self._sides["s2c"], "s2c": self._sides["c2s"]}
        """The same, by the direction of their answers."""
        self._doubts: dict[int, Doubt] = {}
        self._clients = Clients(self.limits.connections)
        self._links: set[int] = set()
        self._gave_up = False
        self._ready = []

    # -- messages ----------------------------------------------------------------------------

    def feed(self, row: MessageRow) -> None:
        """A message: requests, answers and what stands between them; the rest is passed over."""
        if self._doubts:
            doubt = self._doubts.get(row.connection)
            if doubt is not None:
                doubt.feed(row)
        kind = row.kind
        if kind == "request":
            self._request(row)
        elif kind == "response":
            self._response(row)
        elif kind == "part":
            self._part(row)
        elif kind == "trace":
            self._trace(row)
        elif kind == "sealed":
            self._doubt(row.connection).broken(row.direction, row.ts_ns, "sealed")
        else:
            tunnels = rules_of(row.protocol).tunnels
            if tunnels is not None:
                self._tunnel(tunnels, row)

    def _request(self, row: MessageRow) -> None:
        connection = row.connection
        if row.client is not None:
            self._clients.feed(row)
        side = self._sides[row.direction].get(connection) or self._side(row.direction, row)
        number = row.message_id
        if number is None:
            self._request_in_order(side, self._call(row))
            return
        call = side.by_id.get(number)
        if call is not None:
            if call.request_ns is not None:
                call.requests += 1
                call.request_bytes = (call.request_bytes or 0) + row.size_bytes
                return
            self._end(side.by_id.pop(number), "orphan", "unfinished")
        self._await(side, number, self._call(row))

    def _await(self, side: Side, number: int, call: CallRow) -> None:
        if number in side.answered:
            self._ready.append(side.answered.pop(number))
        side.by_id[number] = call
        if len(side.by_id) > self.limits.open_calls:
            for _, given_up in oldest(side.by_id, self.limits.open_calls):
                self._end(given_up, "unknown" if given_up.requests else "orphan", "limit")

    def _call(self, row: MessageRow) -> CallRow:
        if row.tunnel_link is not None:
            self._links.add(row.tunnel_link)
        return CallRow(
            row.connection,
            row.protocol,
            row.direction,
            row.target,
            row.message_id,
            row.ts_ns,
            row.size_bytes,
            self._caller(row),
            row.tunnel_link,
        )

    def _caller(self, row: MessageRow) -> str | None:
        """Who is signed on; of the users of a tunnel that is not told."""
        return None if row.tunnel_link is not None else self._clients.get(row.connection)

    def _request_in_order(self, side: Side, call: CallRow) -> None:
        if self._doubts:
            doubt = self._doubts.get(call.connection)
            if doubt is not None and doubt.unsettled:
                self._end(call, "unknown", "unsettled")
                return
        side.in_order.append(call)
        if len(side.in_order) > self.limits.open_calls:
            # Without one of them, the answers of all others would be a place too far.
            self._doubt(call.connection).unsettle(call.request_ns or 0)
            self._give_up_order(call.connection, "limit")

    def _response(self, row: MessageRow) -> None:
        if row.name in rules_of(row.protocol).confirmations:
            self._clients.feed(row)
        side = self._answered_by[row.direction].get(row.connection)
        number = row.reply_to
        if number is None:
            self._response_in_order(side, row)
        elif side is None:
            self._orphan(row)
        elif (call := side.by_id.pop(number, None)) is not None:
            self._answered(side, number, call, row)
        elif (call := side.recent(number, row.ts_ns)) is not None:
            call.duplicates += 1
        else:
            self._orphan(row)

    def _answered(self, side: Side, number: int, call: CallRow, row: MessageRow) -> None:
        call.complete(row)
        answered = side.answered
        if not answered:
            side.oldest_ns = row.ts_ns
        elif (
            row.ts_ns - side.oldest_ns > EXPIRE_AFTER_NS
            or len(answered) >= self.limits.answered_calls
        ):
            self._ready.extend(side.expire(row.ts_ns, self.limits.answered_calls))
        answered[number] = call

    def _response_in_order(self, side: Side | None, row: MessageRow) -> None:
        if self._doubts:
            doubt = self._doubts.get(row.connection)
            if doubt is not None and doubt.unsettled:
                # It answered some call, which must not count as lost for want of an answer.
                doubt.broken(row.direction, row.ts_ns, "unsettled")
                self._orphan(row, "unsettled")
                return
        if side is None:
            self._orphan(row)
        elif side.in_order:
            call = side.in_order.pop(0)
            call.complete(row)
            self._ready.append(call)
        elif (number := side.oldest_with_target(row.target)) is not None:
            self._answered(side, number, side.by_id.pop(number), row)
        else:
            self._orphan(row)

    def _part(self, row: MessageRow) -> None:
        number = row.reply_to
        if number is None:
            self._part_in_order(row)
            return
        asking = "s2c" if row.direction == "c2s" else "c2s"
        side = self._sides[asking].get(row.connection) or self._side(asking, row)
        call = side.by_id.get(number)
        if call is None:
            answered = side.recent(number, row.ts_ns)
            if answered is not None:
                answered.duplicates += 1
                return
            call = CallRow.orphan(row, self._caller(row))
            self._await(side, number, call)
        call.part(row)

    def _part_in_order(self, row: MessageRow) -> None:
        side = self._answered_by[row.direction].get(row.connection)
        if side is not None and side.in_order:
            side.in_order[0].part(row)

    def _trace(self, row: MessageRow) -> None:
        side = self._answered_by[row.direction].get(row.connection)
        if side is not None and row.reply_to is not None:
            number = row.reply_to
            call = side.by_id.get(number) or side.recent(number, row.ts_ns)
            if call is not None:
                call.traces += 1

    def _orphan(self, row: MessageRow, cause: str | None = None) -> None:
        call = CallRow.orphan(row, self._caller(row))
        call.complete(row)
        call.cause = cause
        self._ready.append(call)

    def _tunnel(self, tunnels: Tunnels, row: MessageRow) -> None:
        """Tunnels are connections whose ends are packets of their link."""
        cause = None
        if row.name == tunnels.connect:
            cause = "replaced"
        elif row.name == tunnels.disconnect or is_refusal(tunnels, row):
            cause = "closed"
        tunnel = tunnel_of(row.target) if cause is not None else None
        if tunnel is not None and cause is not None:
            self._close(tunnel_connection(*tunnel), cause)

    # -- what breaks and ends ------------------------------------------------------------------

    def fault(self, row: FaultRow) -> None:
        """Messages are missing: open calls that are matched by order are given up."""
        if row.code in HARMLESS:
            return
        doubt = self._doubt(row.connection)
        doubt.broken(row.direction, row.ts_ns, row.code)
        doubt.unsettle(row.ts_ns, row.direction)
        self._give_up_order(row.connection, row.code)

    def opened(self, event: Opened) -> None:
        """A connection that begins in the middle begins without trust in its order."""
        if not event.whole:
            self._doubt(event.connection).unsettle(event.ts_ns)
        elif self._gave_up:
            self._sides["c2s"].setdefault(event.connection, Side())

    def closed(self, event: Closed) -> None:
        """Calls that are still open are lost, unless their answer may be among what is missing."""
        if event.connection in self._links:
            self._hand_down(event.connection)
        self._close(event.connection, "closed")

    def advance(self, now_ns: int) -> None:
        """Lets go what is final at this time, on idle connections as well.

        For live use: nothing older than `now_ns` may be fed afterwards.
        """
        for sides in self._sides.values():
            for side in sides.values():
                self._ready.extend(side.expire(now_ns, self.limits.answered_calls))

    def fact(self, event: Fact) -> None:
        """Who is at the other end, where the wire does not tell."""
        client = event.data.get("client")
        if event.kind == "sign_on" and event.connection is not None and isinstance(client, str):
            self._clients.sign_on(event.connection, client)

    def finish(self) -> None:
        """The input ends: calls that are still open stay so."""
        for sides in self._sides.values():
            for connection, side in sides.items():
                self._end_all(connection, side, "open", None)
        ready = self._ready
        self._forget()
        self._ready = ready

    def _close(self, connection: int, cause: str) -> None:
        for sides in self._sides.values():
            side = sides.pop(connection, None)
            if side is not None:
                self._end_all(connection, side, "lost", cause)
        self._doubts.pop(connection, None)
        self._clients.closed(connection)

    def _end_all(self, connection: int, side: Side, outcome: str, cause: str | None) -> None:
        self._ready.extend(side.answered.values())
        for call in (*side.by_id.values(), *side.in_order):
            hidden = self._hidden(connection, call)
            if call.request_ns is None:
                self._end(call, "orphan", "unfinished")
            elif hidden is not None:
                self._end(call, "unknown", hidden)
            else:
                self._end(call, outcome, cause)

    def _end(self, call: CallRow, outcome: str, cause: str | None) -> None:
        call.outcome = outcome
        call.cause = cause
        self._ready.append(call)

    def _hidden(self, connection: int, call: CallRow) -> str | None:
        """What may hide the answer of an open call: the code of a fault."""
        for place in (connection, call.tunnel_link):
            doubt = None if place is None else self._doubts.get(place)
            if doubt is not None and (code := doubt.hides(call)) is not None:
                return code
        return None

    def _give_up_order(self, connection: int, cause: str) -> None:
        for sides in self._sides.values():
            side = sides.get(connection)
            if side is not None:
                for call in side.in_order:
                    self._end(call, "unknown", cause)
                side.in_order.clear()

    def _hand_down(self, link: int) -> None:
        """What is known of a link's faults stays with its tunnels when the link ends."""
        self._links.discard(link)
        doubt = self._doubts.get(link)
        if doubt is None:
            return
        for sides in self._sides.values():
            for connection, side in sides.items():
                if any(call.tunnel_link == link for call in side.by_id.values()):
                    self._doubt(connection).join(doubt)

    # -- what is remembered --------------------------------------------------------------------

    def _side(self, direction: str, row: MessageRow) -> Side:
        """A new side; those of the oldest connection are given up when there are too many."""
        connection, sides = row.connection, self._sides[direction]
        if self._gave_up and not any(connection in known for known in self._sides.values()):
            # It may be one that was given up, with calls under way.
            self._doubt(connection).unsettle(row.ts_ns)
        found = sides[connection] = Side()
        for given_up, side in oldest(sides, self.limits.connections):
            self._end_all(given_up, side, "unknown", "limit")
            self._gave_up = True
        return found

    def _doubt(self, connection: int) -> Doubt:
        found = self._doubts.get(connection)
        if found is None:
            found = self._doubts[connection] = Doubt(connection)
            for _ in oldest(self._doubts, self.limits.connections):
                pass
        return found

    def state(self) -> Any:
        """Everything that is remembered, rows not yet taken included, as plain data."""
        sides = [
            SideState.of(connection, direction, side)
            for direction, found in self._sides.items()
            for connection, side in found.items()
        ]
        state = _CallsState(
            sides,
            list(self._doubts.values()),
            list(self._clients.known.items()),
            sorted(self._links),
            self._ready,
            self._gave_up,
        )
        return msgspec.to_builtins(state)

    def restore(self, state: Any) -> None:
        """Forgets everything, and goes on from what `state` gave."""
        found = msgspec.convert(state, _CallsState)
        self._forget()
        for each in found.sides:
            self._sides[each.direction][each.connection] = each.side()
        self._doubts = {doubt.connection: doubt for doubt in found.doubts}
        self._clients.known = dict(found.clients)
        self._links = set(found.links)
        self._ready = found.ready
        self._gave_up = found.gave_up
