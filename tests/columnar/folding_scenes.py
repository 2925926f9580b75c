"""Windows of made-up events, as a pipeline would yield them; written by hand or drawn at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import strategies as st
from tests.columnar.folding import Window
from tests.records import scenes
from tests.records.scenes import SECOND, ask, message, timed

from wirelake.records.protocol_rules import rules_of
from wirelake.records.rows import Closed, Event, Fact, FaultRow, MessageRow, Opened
from wirelake.records.schema import schema
from wirelake.records.tunnels import tunnel_connection


def window_of(events: Sequence[Event], waiting: dict[int, int] | None = None) -> Window:
    """One window with these events, in the order in which a pipeline yields its tables."""
    found: Window = [
        ("connections", [each for each in events if isinstance(each, Opened | Closed)]),
        ("facts", [each for each in events if isinstance(each, Fact)]),
    ]
    rows: dict[str, list[dict[str, Any]]] = {}
    for each in events:
        if isinstance(each, MessageRow):
            rows.setdefault(each.protocol, []).append(_message(each))
    for protocol, listed in rows.items():
        batch = pa.RecordBatch.from_pylist(listed, schema=schema("messages", [protocol]))
        found.append(("messages", batch))
    found.append(("waiting", waiting or {}))  # type: ignore[arg-type]
    faults = [msgspec.to_builtins(each) for each in events if isinstance(each, FaultRow)]
    if faults:
        found.append(("faults", pa.RecordBatch.from_pylist(faults, schema=schema("faults"))))
    return found


def _message(row: MessageRow) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(row)
    fields = found.pop("fields") or {}
    for name, path in rules_of(row.protocol).fields.get(row.name, {}).items():
        if fields.get(name) is not None:
            struct = found.setdefault(row.protocol, {})
            _put(struct, path.split("."), fields[name])
    return found


def _put(struct: dict[str, Any], path: list[str], value: Any) -> None:
    first, *rest = path
    if first.endswith("[]"):
        struct[first[:-2]] = [{rest[0]: each} for each in value]
    elif rest:
        _put(struct.setdefault(first, {}), rest, value)
    else:
        struct[first] = value


def tunnelled(event: Event) -> bool:
    """Whether it concerns a tunnel or its link."""
    inside = isinstance(event, MessageRow) and event.tunnel_link is not None
    return inside or event.connection in scenes.LINKS


# -- at random -----------------------------------------------------------------------------------


def _more() -> Iterator[Event]:
    """What the scenes of engines have none of."""
    phone: dict[str, Any] = {"connection": 2, "protocol": "comet"}
    listed = {"ids": ["m1", "m3"], "direction": "s2c"}
    yield message(0, "response", name="message_list", fields={"ts": [5, 6]}, **listed, **phone)
    yield message(0, "response", name="message_list", fields={"ts": [7]}, **listed, **phone)
    for huge in ((1 << 62) // 1_000_000, (1 << 63) - 1):  # the second is no time in nanoseconds
        yield message(0, "push", name="message", ids=["m2"], fields={"ts": huge}, **phone)
    said: dict[str, Any] = {"network_type": 1, "isp": 99, "phone_type": "a phone"}
    for fields in (said, said | {"phone_type": None, "isp": 1}):
        yield ask(0, name="report_environ", fields=fields, **phone)
    yield message(0, "control", reason="", connection=3, protocol="magline")
    resume = {"fields": {"resume_sid": b"7"}, "direction": "c2s"}
    yield message(0, "handshake", name="syn", connection=3, protocol="magline", **resume)
    yield Fact(0, "close", 1, {"side": "client"})
    yield Fact(0, "sign_on", 4, {"client": "bob"})
    yield Closed(0, 2, None, "anew")
    yield Opened(0, 1, None, "10.0.0.1", 5, "10.0.0.2", 6)


def _more_in_tunnels() -> Iterator[Event]:
    """And messages of other kinds in tunnels."""
    for link in scenes.LINKS:
        inside: dict[str, Any] = {"connection": tunnel_connection(7, 1), "tunnel_link": link}
        for kind in ("part", "trace", "push", "sealed"):
            yield message(0, kind, reply_to=1, protocol="tny", **inside)
        yield ask(0, protocol="tny", direction="s2c", **inside)


def _plausible(event: Event) -> Event:
    """A link speaks no other protocol than relay."""
    if isinstance(event, Opened) and event.connection in scenes.LINKS:
        return msgspec.structs.replace(event, protocol=None)
    return event


_EVENTS = (*scenes.KINDS, _more(), _more_in_tunnels())
ALL = [[_plausible(event) for event in kind] for kind in _EVENTS]
APART = [found for kind in ALL if (found := [each for each in kind if not tunnelled(each)])]
TUNNELS = [found for kind in ALL if (found := [each for each in kind if tunnelled(each)])]


FORWARD = (1, SECOND, 4 * SECOND, 11 * SECOND)
"""How long after the one before an event happens."""
WITH_TIES = (0, 0, *FORWARD)
BACK_AND_FORTH = (-3 * SECOND, *WITH_TIES)


def drawn_events(
    kinds: list[list[Event]], times: Sequence[int] = WITH_TIES
) -> st.SearchStrategy[list[Event]]:
    """What could be seen of a few connections, however absurd."""
    steps = st.sampled_from(times)
    # Drawn by number: a strategy should not have all events in its name.
    one = st.tuples(steps, st.integers(0, len(kinds) - 1), st.integers(0, 1_000))
    return st.lists(one, max_size=60).map(lambda drawn: _chosen(kinds, drawn))


def _chosen(kinds: list[list[Event]], drawn: list[tuple[int, int, int]]) -> list[Event]:
    return timed([(step, kinds[kind][at % len(kinds[kind])]) for step, kind, at in drawn])


CUTS = st.lists(st.integers(0, 60), max_size=3).map(sorted)
"""Where windows end."""


def cut(
    events: Sequence[Event], cuts: Sequence[int], waiting: Sequence[dict[int, int]] = ()
) -> list[Window]:
    """A window for each stretch of events, in each of which some connections wait."""
    places = [0, *cuts, len(events)]
    waits = [*waiting, *({} for _ in places)]
    return [
        window_of(events[start:stop], waits[number])
        for number, (start, stop) in enumerate(pairwise(places))
    ]
