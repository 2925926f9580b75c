"""Events for the tests of engines: written by hand in short words, or drawn at random."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import msgspec
from hypothesis import strategies as st

from wirelake.records.engine import Engine, feed_event
from wirelake.records.rows import Closed, Event, Fact, FaultRow, MessageRow, Opened
from wirelake.records.tunnels import tunnel_connection

SECOND = 1_000_000_000


def message(ts_ns: int, kind: str, *, name: str | None = None, **more: Any) -> MessageRow:
    """A message; answers come from the server unless they say otherwise."""
    defaults: dict[str, Any] = {
        "connection": 1,
        "direction": "c2s" if kind == "request" else "s2c",
        "protocol": "esnp",
        "size_bytes": 10,
    }
    return MessageRow(ts_ns=ts_ns, first_ns=ts_ns, kind=kind, name=name or kind, **defaults | more)


def ask(ts_ns: int, number: int | None = None, **more: Any) -> MessageRow:
    """A request."""
    return message(ts_ns, "request", message_id=number, **more)


def answer(
    ts_ns: int, number: int | None = None, status: str | None = "ok", **more: Any
) -> MessageRow:
    """A response."""
    return message(ts_ns, "response", reply_to=number, status=status, **more)


def fault(ts_ns: int, direction: str = "s2c", code: str = "gap", **more: Any) -> FaultRow:
    """A fault of a stream."""
    return FaultRow(ts_ns, more.pop("connection", 1), direction, code, **more)


def closed(ts_ns: int, connection: int = 1, **more: Any) -> Closed:
    """The end of a connection."""
    return Closed(ts_ns, connection, **more)


def run(engine: Engine[Any], events: Iterable[Event], *, finish: bool = True) -> list[Any]:
    """All rows that come of these events."""
    for event in events:
        feed_event(engine, event)
    if finish:
        engine.finish()
    return engine.take()


def run_in_steps(
    kind: type[Engine[Any]], events: Sequence[Event], cuts: Iterable[int]
) -> list[Any]:
    """The same, with a new engine after each cut that gets the old one's state as bytes."""
    engine, rows, start = kind(), [], 0
    for number, cut in enumerate([*sorted(cuts), len(events)]):
        for event in events[start:cut]:
            feed_event(engine, event)
        start = max(start, cut)
        if number % 2:
            rows += engine.take()
        state = engine.state()
        data = msgspec.msgpack.decode(msgspec.msgpack.encode(state))
        plain = msgspec.json.decode(msgspec.json.encode(data))
        engine = kind()
        engine.restore(plain if number % 3 else data)
    engine.finish()
    return rows + engine.take()


def as_set(rows: Iterable[msgspec.Struct]) -> list[tuple[Any, ...]]:
    """Rows in an order that does not depend on how they came out."""
    return sorted((msgspec.structs.astuple(row) for row in rows), key=repr)


# -- at random -----------------------------------------------------------------------------------
#
# Every event that can happen is made beforehand and then drawn as a whole: drawing each column of
# each message would cost more time than the engines take.

CONNECTIONS = (1, 2, 3)
LINKS = (8, 9)
TUNNELS = ((7, 1), (7, 2))
CLIENTS = ("ann", "bob")
IDS = ("m1", "m2", "m3")
_DIRECTIONS = ("c2s", "s2c")
_CODES = ("gap", "bad_length", "conflict", "truncated_stream")
_NUMBERS = (None, 1, 2, 3)
_STATUSES = ("ok", "7", None)


def _of_esnp() -> Iterator[Event]:
    """Both ends ask, with ids or without."""
    for direction, number in product(_DIRECTIONS, _NUMBERS):
        yield ask(0, number, direction=direction, size_bytes=3)
        for kind in ("part", "trace"):
            yield message(0, kind, reply_to=number, direction=direction)
        for status in _STATUSES:
            yield answer(0, number, status, direction=direction)
        yield message(0, "sealed", direction=direction)
        yield message(0, "event", direction=direction)


def _of_comet() -> Iterator[Event]:
    """Everything is in order; clients sign on; notifications come and are acknowledged."""
    more: dict[str, Any] = {"connection": 2, "protocol": "comet"}
    for ids in (["m1"], ["m2", "m3"]):
        yield ask(0, name="message_ack", ids=ids, **more)
        yield message(0, "push", name="message", ids=ids, fields={"ts": 1}, **more)
        yield message(0, "push", name="message", ids=ids, **more | {"connection": 1})
    for client in CLIENTS:
        yield ask(0, name="auth", client=client, **more)
    yield ask(0, name="heartbeat", **more)
    yield answer(0, name="auth_success", **more)
    yield answer(0, name="ok", **more)
    yield answer(0, status="4", name="error", **more)


def _of_magline() -> Iterator[Event]:
    """Requests have ids; answers name them, or only their target."""
    more: dict[str, Any] = {"connection": 3, "protocol": "magline"}
    for number, target in product(_NUMBERS, ("a", "b")):
        if number is not None:
            yield ask(0, number, target=target, **more)
        yield answer(0, number, target=target, **more)
    for name, direction in (("syn", "c2s"), ("ack", "s2c")):
        yield message(0, "handshake", name=name, **more | {"direction": direction})
    yield message(0, "control", name="fin", reason="idle", **more)


def _of_hub_calls() -> Iterator[Event]:
    """Clients sign on with calls, in tunnels, too; their answers decide."""
    inside: dict[str, Any] = {"connection": tunnel_connection(7, 1), "tunnel_link": 8}
    for more, target in (
        ({"protocol": "esnp", "connection": 1}, "hub/auth"),
        ({"protocol": "tny"} | inside, "10"),
    ):
        for client, number in product(CLIENTS, (1, 2, None)):
            yield ask(0, number, target=target, client=client, **more)
        yield ask(0, 2, target=target, client="ann", **more | {"direction": "s2c"})
        for number, status in product((1, 2), ("ok", "7")):
            yield answer(0, number, status, **more)
    noted: dict[str, Any] = {"protocol": "esnp", "connection": 1, "ids": ["m1"]}
    yield message(0, "event", target="hub/notify", **noted | {"direction": "s2c"})
    yield ask(0, 3, target="hub/ack", **noted)
    for tunnel, link, ids in product(TUNNELS, LINKS, (["m1"], ["m2", "m3"])):
        noted = {"protocol": "tny", "connection": tunnel_connection(*tunnel), "ids": ids}
        yield message(0, "push", target="12", tunnel_link=link, **noted | {"direction": "s2c"})
        yield ask(0, 4, target="13", tunnel_link=link, **noted)


def _of_tunnels() -> Iterator[Event]:
    """Messages in tunnels, and packets of their links."""
    for tunnel, link in product(TUNNELS, LINKS):
        inside: dict[str, Any] = {"protocol": "tny", "tunnel_link": link}
        inside["connection"] = tunnel_connection(*tunnel)
        for number in (1, 2):
            yield ask(0, number, **inside)
            yield answer(0, number, **inside)
        about: dict[str, Any] = {"protocol": "relay", "connection": link}
        about["target"] = f"{tunnel[0]}/{tunnel[1]}"
        for name in ("connect", "connected", "disconnect", "switch_link", "relay"):
            yield message(0, "control", name=f"tunnel_{name}", **about)
        refusal = {"result": False}
        yield message(0, "control", name="tunnel_connected", fields=refusal, **about)


def _of_connections() -> Iterator[Event]:
    """Beginnings, ends, faults and facts."""
    for connection in (*CONNECTIONS, *LINKS):
        for direction, code in product(_DIRECTIONS, _CODES):
            yield fault(0, direction, code, connection=connection, missing_bytes=3)
        for whole in (True, False):
            yield Opened(0, connection, "comet", whole=whole)
        yield Closed(0, connection, "c2s", "fin")
        yield Fact(0, "close", connection, {"reason": "shutdown"})
        yield Fact(0, "sign_on", connection, {"client": "ann"})
    for notification in IDS:
        yield Fact(0, "publish", None, {"id": notification, "topic": "@t"})
    yield Fact(0, "publish", None, {"id": "m9", "client": "ann"})


KINDS = [
    list(each())
    for each in (*(_of_esnp, _of_comet, _of_magline, _of_hub_calls, _of_tunnels, _of_connections),)
]
"""All events that can be drawn, those of a kind together."""
_STEPS = st.sampled_from([0, 1, SECOND, 4 * SECOND, 11 * SECOND])


def events(max_size: int = 30) -> st.SearchStrategy[list[Event]]:
    """What could be seen of a few connections, however absurd."""
    one = st.one_of(*(st.sampled_from(kind) for kind in KINDS))
    return st.lists(st.tuples(_STEPS, one), max_size=max_size).map(timed)


def timed(drawn: list[tuple[int, Event]]) -> list[Event]:
    """Events with their times; given is how long after the one before each happens."""
    found: list[Event] = []
    ts_ns = 0
    for step, event in drawn:
        ts_ns += step
        timed = msgspec.structs.replace(event, ts_ns=ts_ns)
        if isinstance(timed, MessageRow):
            timed.first_ns = ts_ns
        found.append(timed)
    return found
