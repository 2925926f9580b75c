"""Matches responses to requests: the engine behind the table `calls`.

Implements "Calls" and "When order can be trusted" of `docs/concepts/matching.md`:

    1. a response that names a request is matched by that id; a second one within 10 s is a
       duplicate
    2. a response without an id answers the oldest open request without an id, or else the oldest
       with the same target
    3. where messages are missing, matching by order stops: open calls become `unknown`, not `lost`,
       because the response may be among the missing bytes

`Side` has the calls of one direction, `Uncertainty` what is known about missing messages.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from wirelake.wire.meaning import Tunnels

from .engine import Clients, ClientsState, Engine, EngineLimits, oldest
from .protocol_rules import rules_of
from .rows import Closed, Fact, FaultRow, MessageRow, Opened, opposite
from .tunnels import is_refusal, tunnel_connection, tunnel_of

__all__ = [
    "DUPLICATE_WINDOW_NS",
    "EXPIRE_AFTER_NS",
    "HARMLESS",
    "QUIET_NS",
    "Break",
    "CallRow",
    "CallsEngine",
    "Side",
    "SideState",
    "Uncertainty",
]


DUPLICATE_WINDOW_NS: Final = 10_000_000_000
"""How long after a response another one counts as its duplicate."""
EXPIRE_AFTER_NS: Final = DUPLICATE_WINDOW_NS + DUPLICATE_WINDOW_NS // 4
"""When answered calls become final. A quarter later than necessary, so that the scan of answered
calls runs once for many of them and not for every response."""

QUIET_NS: Final = 10_000_000_000
"""After this long without a request or response, no call is in progress."""

_ACTIVITY: Final = frozenset({"request", "response", "part"})


class CallRow(msgspec.Struct, gc=False):
    """A row of `calls`. It is filled in while the call is open."""

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
        """Return the call of a response whose request was not seen."""
        asked = opposite(row.direction)
        target, number, link = row.target, row.reply_to, row.tunnel_link
        call = cls(row.connection, row.protocol, asked, target, number, None, None, client, link)
        call.requests = 0
        return call

    def part(self, row: MessageRow) -> None:
        """Add one message of the response."""
        if self.first_part_ns is None:
            self.first_part_ns = row.ts_ns
            self.response_bytes = row.size_bytes
        else:
            self.response_bytes = (self.response_bytes or 0) + row.size_bytes
        self.parts += 1

    def complete(self, row: MessageRow) -> None:
        """Add the last message of the response."""
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
    """The calls made by one end of a connection."""

    __slots__ = ("answered", "by_id", "in_order", "oldest_ns")

    def __init__(self) -> None:
        self.by_id: dict[int, CallRow] = {}
        """Open calls with an id, the oldest first."""
        self.in_order: list[CallRow] = []
        """Open calls without an id, the oldest first."""
        self.answered: dict[int, CallRow] = {}
        """Answered calls that may get a duplicate response, in the order of their responses."""
        self.oldest_ns = 0
        """At most the time of the first of these responses."""

    def recent(self, number: int, ts_ns: int) -> CallRow | None:
        """Return the call of an earlier response if another one now counts as its duplicate."""
        call = self.answered.get(number)
        if call is None or ts_ns - (call.response_ns or 0) > DUPLICATE_WINDOW_NS:
            return None
        return call

    def oldest_with_target(self, target: str | None) -> int | None:
        """Return the id of the oldest open call of a target."""
        if target is not None:
            for number, call in self.by_id.items():
                if call.target == target:
                    return number
        return None

    def expire(self, now_ns: int, limit: int) -> list[CallRow]:
        """Remove and return answered calls past the window; half of them when there are too
        many."""
        # `answered` is in the order of responses, so the scan stops at the first recent one. Half
        # of a full table is dropped, so that a peer that keeps it full does not cause a scan per
        # call.
        excess = len(self.answered) - limit // 2 if len(self.answered) >= limit else 0
        final: list[int] = []
        for number, call in self.answered.items():
            self.oldest_ns = call.response_ns or 0
            if self.oldest_ns >= now_ns - DUPLICATE_WINDOW_NS and len(final) >= excess:
                break
            final.append(number)
        return [self.answered.pop(number) for number in final]


class SideState(msgspec.Struct):
    """A `Side` as plain data."""

    connection: int
    direction: str
    by_id: list[tuple[int, CallRow]]
    in_order: list[CallRow]
    answered: list[tuple[int, CallRow]]
    oldest_ns: int

    @classmethod
    def of(cls, connection: int, direction: str, side: Side) -> SideState:
        """Return the state of a side."""
        by_id, answered = list(side.by_id.items()), list(side.answered.items())
        return cls(connection, direction, by_id, side.in_order, answered, side.oldest_ns)

    def side(self) -> Side:
        """Return a side with this state."""
        side = Side()
        side.by_id = dict(self.by_id)
        side.in_order = self.in_order
        side.answered = dict(self.answered)
        side.oldest_ns = self.oldest_ns
        return side


class Break(msgspec.Struct):
    """The last point in a direction where messages may be missing."""

    ts_ns: int
    code: str


class Uncertainty(msgspec.Struct):
    """What is uncertain about a connection because messages are missing."""

    connection: int
    breaks: dict[str, Break] = {}
    """By direction."""
    unsettled: bool = False
    """Whether responses cannot be matched by order."""
    awaited: list[str] = []
    """Directions without a message since their last break: more may be missing."""
    last_ns: int = 0
    """The last request, response or fault while the order was unreliable."""

    def feed(self, row: MessageRow) -> None:
        """Note a message. A request after a quiet time makes the order reliable again."""
        if not self.unsettled:
            return
        if row.kind in _ACTIVITY:
            # After a quiet time nothing is in flight any more, so the next request is the first of
            # a new, complete order. A direction without a message since its gap may hide more.
            quiet = row.ts_ns - self.last_ns >= QUIET_NS
            if quiet and row.kind == "request" and not self.awaited:
                self.unsettled = False
                return
            self.last_ns = row.ts_ns
        if row.direction in self.awaited:
            self.awaited.remove(row.direction)

    def broken(self, direction: str, ts_ns: int, code: str) -> None:
        """Note that messages of this direction may be missing here."""
        self.breaks[direction] = Break(ts_ns, code)

    def mark_unsettled(self, ts_ns: int, direction: str | None = None) -> None:
        """Mark the order as unreliable. `direction` is where messages are missing."""
        self.unsettled = True
        self.last_ns = max(self.last_ns, ts_ns)
        if direction is not None and direction not in self.awaited:
            self.awaited.append(direction)

    def hiding_fault(self, call: CallRow) -> str | None:
        """Return the code of a fault that may hide the response of an open call."""
        # Only a break in the direction of responses, and only one after the request.
        found = self.breaks.get(opposite(call.direction))
        if found is None or call.request_ns is None or found.ts_ns < call.request_ns:
            return None
        return found.code

    def join(self, other: Uncertainty) -> None:
        """Take over the breaks of another connection."""
        for direction, found in other.breaks.items():
            mine = self.breaks.get(direction)
            if mine is None or mine.ts_ns < found.ts_ns:
                self.breaks[direction] = found


HARMLESS: Final = frozenset({"conflict", "truncated_stream"})
"""Faults that hide no whole message: the first copy was decoded, or the receiver had no more bytes
either."""


class _CallsState(msgspec.Struct):
    sides: list[SideState]
    uncertain: list[Uncertainty]
    clients: ClientsState
    tunnel_clients: ClientsState
    links: list[int]
    ready: list[CallRow]
    gave_up: bool


class CallsEngine(Engine[CallRow]):
    """Matches responses to requests within each connection."""

    def __init__(self, limits: EngineLimits | None = None):
        super().__init__(limits)
        self._forget()

    def _forget(self) -> None:
        self._sides: dict[str, dict[int, Side]] = {"c2s": {}, "s2c": {}}
        """By the direction of their requests and by connection."""
        self._answered_by = {"c2s": self._sides["s2c"], "s2c": self._sides["c2s"]}
        """The same, by the direction of their responses."""
        self._uncertain: dict[int, Uncertainty] = {}
        self._clients = Clients(self.limits.connections)
        # Apart from the others, because facts do not count here: they name the users of tunnels,
        # too, and the fold of tunnels sees messages only.
        self._tunnel_clients = Clients(self.limits.tunnels)
        self._links: set[int] = set()
        self._gave_up = False
        self._ready = []

    # -- messages ----------------------------------------------------------------------------

    def feed(self, row: MessageRow) -> None:
        """Handle requests, responses and what belongs to them; ignore other messages."""
        # `_uncertain` is empty for complete captures: one truth test per message instead of a
        # lookup.
        if self._uncertain:
            uncertainty = self._uncertain.get(row.connection)
            if uncertainty is not None:
                uncertainty.feed(row)
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
            self._uncertainty(row.connection).broken(row.direction, row.ts_ns, "sealed")
        else:
            tunnels = rules_of(row.protocol).tunnels
            if tunnels is not None:
                self._tunnel(tunnels, row)

    def _request(self, row: MessageRow) -> None:
        connection = row.connection
        if row.client is not None:
            self._clients_of(row).feed(row)
        side = self._sides[row.direction].get(connection) or self._side(row.direction, row)
        number = row.message_id
        if number is None:
            self._request_in_order(side, self._call(row))
            return
        call = side.by_id.get(number)
        if call is not None:
            # The same id again, unanswered: a part of a long request, or a repetition. One call.
            if call.request_ns is not None:
                call.requests += 1
                call.request_bytes = (call.request_bytes or 0) + row.size_bytes
                if Clients.is_claim(row):
                    call.client = row.client
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
        """Return the signed-on client; of a call to sign on, the client that it names."""
        return row.client if Clients.is_claim(row) else self._clients_of(row).get(row.connection)

    def _clients_of(self, row: MessageRow) -> Clients:
        return self._clients if row.tunnel_link is None else self._tunnel_clients

    def _request_in_order(self, side: Side, call: CallRow) -> None:
        if self._uncertain:
            uncertainty = self._uncertain.get(call.connection)
            if uncertainty is not None and uncertainty.unsettled:
                self._end(call, "unknown", "unsettled")
                return
        side.in_order.append(call)
        if len(side.in_order) > self.limits.open_calls:
            # Dropping one call would match every later response with the wrong request: give up
            # all.
            self._uncertainty(call.connection).mark_unsettled(call.request_ns or 0)
            self._give_up_order(call.connection, "limit")

    def _response(self, row: MessageRow) -> None:
        clients = self._clients_of(row)
        if clients.concerns(row):
            clients.feed(row)
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
        if self._uncertain:
            uncertainty = self._uncertain.get(row.connection)
            if uncertainty is not None and uncertainty.unsettled:
                # It answers some open call, which must therefore end as unknown, not as lost.
                uncertainty.broken(row.direction, row.ts_ns, "unsettled")
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
        # A part whose request was not captured opens an orphan, so that the parts after it and the
        # last one are counted as one call and not as one orphan each.
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
        """End the calls of a tunnel when a message of its link closes or replaces it."""
        cause = None
        if row.name == tunnels.connect:
            cause = "replaced"
        elif row.name == tunnels.disconnect or is_refusal(tunnels, row):
            cause = "closed"
        tunnel = tunnel_of(row.target) if cause is not None else None
        if tunnel is not None and cause is not None:
            self._close(tunnel_connection(*tunnel), cause)

    # -- faults, facts and ends ----------------------------------------------------------------

    def fault(self, row: FaultRow) -> None:
        """Give up open calls that are matched by order: messages are missing."""
        if row.code in HARMLESS:
            return
        uncertainty = self._uncertainty(row.connection)
        uncertainty.broken(row.direction, row.ts_ns, row.code)
        uncertainty.mark_unsettled(row.ts_ns, row.direction)
        self._give_up_order(row.connection, row.code)

    def opened(self, event: Opened) -> None:
        """Mark the order of a connection as unreliable if its beginning was not captured."""
        if not event.whole:
            self._uncertainty(event.connection).mark_unsettled(event.ts_ns)
        elif self._gave_up:
            self._sides["c2s"].setdefault(event.connection, Side())

    def closed(self, event: Closed) -> None:
        """End open calls as lost, unless a fault may hide their response."""
        if event.connection in self._links:
            self._copy_uncertainty(event.connection)
        self._close(event.connection, "closed")

    def advance(self, now_ns: int) -> None:
        """Make calls final whose duplicate window has passed, on idle connections too.

        For live use: nothing older than `now_ns` may be fed afterwards.
        """
        for sides in self._sides.values():
            for side in sides.values():
                self._ready.extend(side.expire(now_ns, self.limits.answered_calls))

    def fact(self, event: Fact) -> None:
        """Note a sign-on that the wire does not show."""
        client = event.data.get("client")
        if event.kind == "sign_on" and event.connection is not None and isinstance(client, str):
            self._clients.sign_on(event.connection, client)

    def finish(self) -> None:
        """End the input. Open calls have the outcome `open`."""
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
        self._uncertain.pop(connection, None)
        self._clients.closed(connection)
        self._tunnel_clients.closed(connection)

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
        """Return the code of a fault that may hide the response of an open call."""
        for place in (connection, call.tunnel_link):
            uncertainty = None if place is None else self._uncertain.get(place)
            if uncertainty is not None and (code := uncertainty.hiding_fault(call)) is not None:
                return code
        return None

    def _give_up_order(self, connection: int, cause: str) -> None:
        for sides in self._sides.values():
            side = sides.get(connection)
            if side is not None:
                for call in side.in_order:
                    self._end(call, "unknown", cause)
                side.in_order.clear()

    def _copy_uncertainty(self, link: int) -> None:
        """Keep the breaks of a link for the tunnels that it carried."""
        # A gap on the link may hide the response of a call in any tunnel that it carried, and the
        # tunnel may end later, on another link: the breaks are copied to its connection.
        self._links.discard(link)
        uncertainty = self._uncertain.get(link)
        if uncertainty is None:
            return
        for sides in self._sides.values():
            for connection, side in sides.items():
                if any(call.tunnel_link == link for call in side.by_id.values()):
                    self._uncertainty(connection).join(uncertainty)

    # -- memory --------------------------------------------------------------------------------

    def _side(self, direction: str, row: MessageRow) -> Side:
        """Add a side. Over the limit, give up the sides of the oldest connection."""
        connection, sides = row.connection, self._sides[direction]
        if self._gave_up and not any(connection in known for known in self._sides.values()):
            # It may be one that was given up with open calls, whose responses now arrive.
            self._uncertainty(connection).mark_unsettled(row.ts_ns)
        found = sides[connection] = Side()
        for given_up, side in oldest(sides, self.limits.connections):
            self._end_all(given_up, side, "unknown", "limit")
            self._gave_up = True
        return found

    def _uncertainty(self, connection: int) -> Uncertainty:
        found = self._uncertain.get(connection)
        if found is None:
            found = self._uncertain[connection] = Uncertainty(connection)
            for _ in oldest(self._uncertain, self.limits.connections):
                pass
        return found

    def state(self) -> Any:
        """Return the whole memory as plain data, including rows that were not taken yet."""
        sides = [
            SideState.of(connection, direction, side)
            for direction, found in self._sides.items()
            for connection, side in found.items()
        ]
        state = _CallsState(
            sides,
            list(self._uncertain.values()),
            self._clients.state(),
            self._tunnel_clients.state(),
            sorted(self._links),
            self._ready,
            self._gave_up,
        )
        return msgspec.to_builtins(state)

    def restore(self, state: Any) -> None:
        """Replace the memory by what `state` returned."""
        found = msgspec.convert(state, _CallsState)
        self._forget()
        for each in found.sides:
            self._sides[each.direction][each.connection] = each.side()
        self._uncertain = {uncertainty.connection: uncertainty for uncertainty in found.uncertain}
        self._clients.restore(found.clients)
        self._tunnel_clients.restore(found.tunnel_clients)
        self._links = set(found.links)
        self._ready = found.ready
        self._gave_up = found.gave_up
