"""Truth of `calls` and `deliveries`: every request and its outcome; what was published for each
client, how often it was sent, when it was acknowledged.

Without faults this is simple: a response belongs to its request, and a request without a response
is lost when the connection closes. Where bytes are missing, the rules of
`docs/concepts/matching.md` say what can still be known; they are applied here to the single fault
that a scene may have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from ..packets.packet_template import PacketTemplate
from ..scenes.provider import DIRECTIONS
from ..scenes.scene import C2S, S2C
from .connections import ConnectionSpan
from .messages import FaultRead, ReadMessage, SceneRead, id_cell, text_cell
from .rows import Conn, Pause, Published, Row, Rows, Time, Tunnel

__all__ = [
    "HARMLESS",
    "calls",
    "deliveries",
]


HARMLESS: Final = frozenset({"conflict", "truncated_stream"})
"""Faults after which no whole message can be missing."""
_QUIET_NS: Final = 10_000_000_000
_ACTIVE: Final = frozenset({"request", "response", "part"})


@dataclass(slots=True)
class _Call:
    """A request and the messages of its response; without a request, an orphan."""

    request: ReadMessage | None
    client: str | None
    answer: list[ReadMessage] = field(default_factory=list)
    complete: bool = False
    traces: int = 0
    over: bool = False
    """Whether the connection or tunnel was closed."""
    ended: int | None = None
    """Call in a tunnel: the item that closed the tunnel."""
    given_up: str | None = None
    """Why its response is unknown."""
    cause: str | None = None
    """Orphan: why its request is unknown."""


class _Order:
    """Whether responses of one connection can be matched by order."""

    def __init__(self) -> None:
        self.trusted = True
        self._awaited: int | None = None
        self._last_ns = 0

    def breaks(self, direction: int, ts_ns: int) -> None:
        """Record that messages may be missing here."""
        self.trusted, self._awaited, self._last_ns = False, direction, ts_ns

    def feed(self, each: ReadMessage, ts_ns: int) -> None:
        """Trust the order again at a request after a quiet period."""
        # Responses without an id are matched by order. When messages may be missing, order means
        # nothing until the connection was quiet: then no earlier response can still come.
        if self.trusted:
            return
        if each.info.kind in _ACTIVE:
            quiet = ts_ns - self._last_ns >= _QUIET_NS
            if quiet and each.info.kind == "request" and self._awaited is None:
                self.trusted = True
                return
            self._last_ns = ts_ns
        if each.direction == self._awaited:
            self._awaited = None


class _Matching:
    """Matches messages in order of time."""

    def __init__(self) -> None:
        self.found: list[_Call] = []
        self.by_id: dict[tuple[Conn | Tunnel, int, int], _Call] = {}
        self.in_order: dict[int, list[_Call]] = {}
        self.order: dict[int, _Order] = {}
        self.clients: dict[int, str] = {}

    def fault(self, each: FaultRead, ts_ns: int) -> None:
        """Give up open calls that are matched by order."""
        self.order.setdefault(each.connection, _Order()).breaks(each.direction, ts_ns)
        for call in self.in_order.pop(each.connection, []):
            call.given_up = each.fault.code

    def message(self, each: ReadMessage, ts_ns: int) -> None:
        """Match one message."""
        info = each.info
        order = self.order.get(each.connection)
        if order is not None and each.tunnel is None:
            order.feed(each, ts_ns)
        if info.client is not None:
            self.clients[each.connection] = info.client
        trusted = order is None or order.trusted
        if info.kind == "request":
            self._request(each, trusted)
        elif info.kind in {"response", "part", "trace"}:
            self._answer(each, trusted)
        elif info.tunnel_event == "disconnect":
            self._end_tunnel(each)

    def _request(self, each: ReadMessage, trusted: bool) -> None:
        call = _Call(each, self.clients.get(each.connection))
        self.found.append(call)
        if each.info.id is not None:
            self.by_id[each.where, each.direction, each.info.id] = call
        elif trusted:
            self.in_order.setdefault(each.connection, []).append(call)
        else:
            call.given_up = "unsettled"

    def _answer(self, each: ReadMessage, trusted: bool) -> None:
        number = each.info.reply_to
        call: _Call | None
        if number is None:
            waiting = self.in_order.get(each.connection)
            call = waiting.pop(0) if waiting and trusted else None
        else:
            call = self.by_id.get((each.where, 1 - each.direction, number))
        if each.info.kind == "trace":
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
        call.complete = each.info.kind == "response"

    def _end_tunnel(self, end: ReadMessage) -> None:
        for call in self.found:
            one = call.request or call.answer[0]
            if one.tunnel is not None and one.frame.info.tunnel == end.info.tunnel:
                call.over, call.ended = True, end.item


def calls(
    packets: PacketTemplate,
    scene: SceneRead,
    spans: list[ConnectionSpan],
    times: npt.NDArray[np.int64] | None,
) -> Rows:
    """Return a row for each request and each orphan. With faults, `times` has the items' times."""
    matching = _Matching()
    for each, ts_ns in _in_order(scene, times):
        if isinstance(each, ReadMessage):
            matching.message(each, ts_ns)
        elif each.fault.code not in HARMLESS:
            matching.fault(each, ts_ns)
    for call in matching.found:
        one = call.request or call.answer[0]
        if one.tunnel is None and spans[one.connection].closed is not None:
            call.over = True
        if call.request is not None and not call.complete and call.given_up is None:
            call.given_up = _hidden(call, call.request, scene, times)
    return [_row(packets, call) for call in matching.found]


def _in_order(
    scene: SceneRead, times: npt.NDArray[np.int64] | None
) -> Iterator[tuple[ReadMessage | FaultRead, int]]:
    """Yield messages and faults by time; at the same time, faults first."""
    if times is None:
        yield from ((each, 0) for each in scene.messages)
        return
    every: list[tuple[int, int, ReadMessage | FaultRead]] = [
        *((int(times[each.fault.revealed_by]), 0, each) for each in scene.faults),
        *((int(times[each.item]), 1, each) for each in scene.messages),
    ]
    for ts_ns, _, each in sorted(every, key=lambda entry: entry[:2]):
        yield each, ts_ns


def _hidden(
    call: _Call, request: ReadMessage, scene: SceneRead, times: npt.NDArray[np.int64] | None
) -> str | None:
    """Return the fault that may hide the response: after the request, known before the end."""
    for each in scene.faults:
        if each.connection != request.connection or each.direction == request.direction:
            continue
        assert times is not None
        ts_ns = times[each.fault.revealed_by]
        known = call.ended is None or ts_ns <= times[call.ended]
        if each.fault.code not in HARMLESS and known and ts_ns >= times[request.item]:
            return each.fault.code
    return None


def _row(packets: PacketTemplate, call: _Call) -> Row:
    answer = call.answer
    row: Row = {
        "parts": len(answer),
        "traces": call.traces,
        "duplicates": 0,
        "client": text_cell(packets, call.client),
        **_request_columns(packets, call),
    }
    if answer:
        row["first_part_ns"] = Time(answer[0].item)
        row["response_bytes"] = sum(each.size for each in answer)
    if call.complete:
        row["response_ns"] = Time(answer[-1].item)
        row["status"], row["reason"] = answer[-1].info.status, answer[-1].info.reason
    row["outcome"], row["cause"] = _outcome(call)
    if call.complete and call.request is not None:
        row["latency_ns"] = Pause(call.request.item, answer[-1].item)
    return row


def _request_columns(packets: PacketTemplate, call: _Call) -> Row:
    """Return the columns of the request; of an orphan, those that its response implies."""
    one = call.request or call.answer[0]
    direction = one.direction if call.request is not None else 1 - one.direction
    number = one.info.id if call.request is not None else one.info.reply_to
    row: Row = {
        "connection": one.where,
        "protocol": one.protocol,
        "direction": DIRECTIONS[direction],
        "target": one.info.target,
        "message_id": id_cell(packets, one.protocol, number),
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
        return "answered" if call.answer[-1].info.status == "ok" else "failed", None
    if call.given_up is not None:
        return "unknown", call.given_up
    return ("lost", "closed") if call.over else ("open", None)


# -- deliveries --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Delivery:
    protocol: str
    client: str
    sent: list[ReadMessage] = field(default_factory=list)
    acked: list[ReadMessage] = field(default_factory=list)


def deliveries(
    packets: PacketTemplate,
    scene: SceneRead,
    *,
    facts: bool,
    times: npt.NDArray[np.int64] | None,
) -> Rows:
    """Return a row for each notification.

    `facts`: the capture has what was published. `times` of the items, where there are faults.
    """
    found: dict[str, _Delivery] = {}
    if facts:
        for event in (packets.template.events[n] for n in packets.template.published.values()):
            found[event.facts["id"]] = _Delivery(event.protocol, event.facts["client"])
    clients: dict[int, str] = {}
    for each in scene.messages:
        if each.info.client is not None:
            clients[each.connection] = each.info.client
        for notification in each.info.ids:
            delivery = _Delivery(each.protocol, clients[each.connection])
            row = found.setdefault(notification, delivery)
            (row.sent if each.direction == S2C else row.acked).append(each)
    uncertain_until = _uncertain_until(scene, times)
    return [
        _delivery_row(packets, name, row, facts, times, uncertain_until)
        for name, row in found.items()
    ]


def _uncertain_until(scene: SceneRead, times: npt.NDArray[np.int64] | None) -> int:
    """Return until when an acknowledgement may have been missed; a scene has one such client."""
    if times is None:
        return -1
    codes = (
        each for each in scene.faults if each.direction == C2S and each.fault.code not in HARMLESS
    )
    return max((int(times[each.fault.revealed_by]) for each in codes), default=-1)


def _delivery_row(
    packets: PacketTemplate,
    notification: str,
    found: _Delivery,
    facts: bool,
    times: npt.NDArray[np.int64] | None,
    uncertain_until: int,
) -> Row:
    at = packets.template.published[notification]
    item = packets.at[at]
    row: Row = {
        "notification": text_cell(packets, notification),
        "protocol": found.protocol,
        "client": text_cell(packets, found.client),
        "outcome": _delivery_outcome(found, times, uncertain_until),
        "topic": packets.template.events[at].facts["topic"] if facts else None,
        "published_ns": Time(item) if facts else Published(item) if found.sent else None,
        "sends": len(found.sent),
        "acks": len(found.acked),
    }
    if found.sent:
        first, last = found.sent[0], found.sent[-1]
        row |= {
            "first_sent_ns": Time(first.item),
            "last_sent_ns": Time(last.item),
            "first_connection": Conn(first.connection),
            "last_connection": Conn(last.connection),
        }
    if found.acked:
        row["acked_ns"] = Time(found.acked[0].item)
        row["acked_connection"] = Conn(found.acked[0].connection)
        if found.sent:
            row["latency_ns"] = Pause(found.sent[0].item, found.acked[0].item)
    return row


def _delivery_outcome(
    found: _Delivery, times: npt.NDArray[np.int64] | None, uncertain_until: int
) -> str:
    if not found.sent:
        return "orphan" if found.acked else "unsent"
    if found.acked:
        return "acked"
    uncertain = times is not None and times[found.sent[0].item] <= uncertain_until
    return "unknown" if uncertain else "unacked"
