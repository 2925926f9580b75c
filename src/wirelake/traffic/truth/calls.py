"""Truth of `calls`: every request, and what became of it.

Without faults this is plain: an answer belongs to its request, and what is not answered is lost
when the connection closes. Where bytes are missing, the rules of `docs/concepts/matching.md` say
what can still be known; they are applied here to the one fault that a scene has at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from ..packets.packet_template import Plate
from .cells import (
    Conn,
    Pause,
    Row,
    Sheet,
    Time,
    Tunnel,
)
from .ends import End
from .sightings import (
    DIRECTIONS,
    FaultSeen,
    Seen,
    Sighting,
    id_cell,
    text_cell,
)

__all__ = ["HARMLESS", "calls"]

HARMLESS: Final = frozenset({"conflict", "truncated_stream"})
"""Faults behind which no whole message can be missing."""
_QUIET_NS: Final = 10_000_000_000
_ACTIVE: Final = frozenset({"request", "response", "part"})


@dataclass(slots=True)
class _Call:
    """A request, and the messages of its answer; without a request, an orphan."""

    request: Sighting | None
    client: str | None
    answer: list[Sighting] = field(default_factory=list)
    complete: bool = False
    traces: int = 0
    over: bool = False
    """Whether the connection or tunnel was closed."""
    ended: int | None = None
    """Of a call in a tunnel: the item that closed the tunnel."""
    given_up: str | None = None
    """Why nothing is known of its answer."""
    cause: str | None = None
    """Of an orphan: why its request is not known."""


class _Order:
    """Whether answers can be matched by their order, on one connection."""

    def __init__(self) -> None:
        self.trusted = True
        self._awaited: int | None = None
        self._last_ns = 0

    def breaks(self, direction: int, ts_ns: int) -> None:
        """Messages may be missing here."""
        self.trusted, self._awaited, self._last_ns = False, direction, ts_ns

    def feed(self, each: Sighting, ts_ns: int) -> None:
        """With a request after a quiet time, order can be trusted again."""
        if self.trusted:
            return
        if each.means.kind in _ACTIVE:
            quiet = ts_ns - self._last_ns >= _QUIET_NS
            if quiet and each.means.kind == "request" and self._awaited is None:
                self.trusted = True
                return
            self._last_ns = ts_ns
        if each.direction == self._awaited:
            self._awaited = None


class _Matching:
    """Goes through what happened, in order of time."""

    def __init__(self) -> None:
        self.found: list[_Call] = []
        self.by_id: dict[tuple[Conn | Tunnel, int, int], _Call] = {}
        self.in_order: dict[int, list[_Call]] = {}
        self.order: dict[int, _Order] = {}
        self.clients: dict[int, str] = {}

    def fault(self, each: FaultSeen, ts_ns: int) -> None:
        """Open calls that are matched by order are given up."""
        self.order.setdefault(each.connection, _Order()).breaks(each.direction, ts_ns)
        for call in self.in_order.pop(each.connection, []):
            call.given_up = each.fault.code

    def message(self, each: Sighting, ts_ns: int) -> None:
        """A request, an answer, or something else."""
        means = each.means
        order = self.order.get(each.connection)
        if order is not None and each.tunnel is None:
            order.feed(each, ts_ns)
        if means.client is not None:
            self.clients[each.connection] = means.client
        trusted = order is None or order.trusted
        if means.kind == "request":
            self._request(each, trusted)
        elif means.kind in {"response", "part", "trace"}:
            self._answer(each, trusted)
        elif means.name == "tunnel_disconnect":
            self._end_tunnel(each)

    def _request(self, each: Sighting, trusted: bool) -> None:
        call = _Call(each, self.clients.get(each.connection))
        self.found.append(call)
        if each.means.id is not None:
            self.by_id[each.where, each.direction, each.means.id] = call
        elif trusted:
            self.in_order.setdefault(each.connection, []).append(call)
        else:
            call.given_up = "unsettled"

    def _answer(self, each: Sighting, trusted: bool) -> None:
        number = each.means.reply_to
        call: _Call | None
        if number is None:
            waiting = self.in_order.get(each.connection)
            call = waiting.pop(0) if waiting and trusted else None
        else:
            call = self.by_id.get((each.where, 1 - each.direction, number))
        if each.means.kind == "trace":
            if call is not None:
                call.traces += 1
            return
        if call is None:
            call = _Call(None, self.clients.get(each.connection))
            call.cause = None if trusted or number is not None else "unsettled"
            self.found.append(call)
            if number is not None:
                self.by_id[each.where, 1 - each.direction, number] = call
        call.answer.append(each)
        call.complete = each.means.kind == "response"

    def _end_tunnel(self, end: Sighting) -> None:
        for call in self.found:
            one = call.request or call.answer[0]
            if one.tunnel is not None and one.frame.means.tunnel == end.means.tunnel:
                call.over, call.ended = True, end.item


def calls(plate: Plate, seen: Seen, ends: list[End], times: npt.NDArray[np.int64] | None) -> Sheet:
    """One row for each request and each orphan; `times` of the items where there are faults."""
    matching = _Matching()
    for each, ts_ns in _in_order(seen, times):
        if isinstance(each, Sighting):
            matching.message(each, ts_ns)
        elif each.fault.code not in HARMLESS:
            matching.fault(each, ts_ns)
    for call in matching.found:
        one = call.request or call.answer[0]
        if one.tunnel is None and ends[one.connection].closed is not None:
            call.over = True
        if call.request is not None and not call.complete and call.given_up is None:
            call.given_up = _hidden(call, call.request, seen, times)
    return [_row(plate, call) for call in matching.found]


def _in_order(
    seen: Seen, times: npt.NDArray[np.int64] | None
) -> Iterator[tuple[Sighting | FaultSeen, int]]:
    """Messages and faults by time; at one time, faults first."""
    if times is None:
        yield from ((each, 0) for each in seen.messages)
        return
    every: list[tuple[int, int, Sighting | FaultSeen]] = [
        *((int(times[each.fault.item]), 0, each) for each in seen.faults),
        *((int(times[each.item]), 1, each) for each in seen.messages),
    ]
    for ts_ns, _, each in sorted(every, key=lambda entry: entry[:2]):
        yield each, ts_ns


def _hidden(
    call: _Call, request: Sighting, seen: Seen, times: npt.NDArray[np.int64] | None
) -> str | None:
    """What may hide the answer to a request: a fault behind it, known before the end."""
    for each in seen.faults:
        if each.connection != request.connection or each.direction == request.direction:
            continue
        assert times is not None
        ts_ns = times[each.fault.item]
        known = call.ended is None or ts_ns <= times[call.ended]
        if each.fault.code not in HARMLESS and known and ts_ns >= times[request.item]:
            return each.fault.code
    return None


def _row(plate: Plate, call: _Call) -> Row:
    answer = call.answer
    row: Row = {
        "parts": len(answer),
        "traces": call.traces,
        "duplicates": 0,
        "client": text_cell(plate, call.client),
        **_asked(plate, call),
    }
    if answer:
        row["first_part_ns"] = Time(answer[0].item)
        row["response_bytes"] = sum(each.size for each in answer)
    if call.complete:
        row["response_ns"] = Time(answer[-1].item)
        row["status"], row["reason"] = answer[-1].means.status, answer[-1].means.reason
    row["outcome"], row["cause"] = _outcome(call)
    if call.complete and call.request is not None:
        row["latency_ns"] = Pause(call.request.item, answer[-1].item)
    return row


def _asked(plate: Plate, call: _Call) -> Row:
    """What the request tells; of an orphan, what its answer does."""
    one = call.request or call.answer[0]
    direction = one.direction if call.request is not None else 1 - one.direction
    number = one.means.id if call.request is not None else one.means.reply_to
    row: Row = {
        "connection": one.where,
        "protocol": one.protocol,
        "direction": DIRECTIONS[direction],
        "target": one.means.target,
        "message_id": id_cell(plate, one.protocol, number),
        "requests": 0,
        "tunnel_link": None if one.tunnel is None else Conn(one.connection),
    }
    if call.request is not None:
        row |= {"requests": 1, "request_ns": Time(one.item), "request_bytes": one.size}
    return row


def _outcome(call: _Call) -> tuple[str, str | None]:
    if call.request is None:
        return "orphan", call.cause if call.complete else "unfinished"
    if call.complete:
        return "answered" if call.answer[-1].means.status == "ok" else "failed", None
    if call.given_up is not None:
        return "unknown", call.given_up
    return ("lost", "closed") if call.over else ("open", None)
