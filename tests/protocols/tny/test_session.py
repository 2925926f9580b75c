"""tny sessions beside the playbooks: the vectors through real sessions, any cut, the tables."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.playbooks.tny.peer import CODECS, DIALECTS, Peer, filler
from tests.protocols.tny.vector_views import cases, config_of, view, wanted

from wirelake.conformance.tny import class_of
from wirelake.protocols.sansio import CLOSED, Closed, Event, Failed, Role, Session, diagram
from wirelake.protocols.tny.layout import Message, Mode, Ping, Pong
from wirelake.protocols.tny.limits import ClientOptions, ServerOptions
from wirelake.protocols.tny.session import (
    ClientSession,
    DialectSeen,
    Pinged,
    Ponged,
    Pushed,
    Requested,
    ServerSession,
    Unmatched,
)
from wirelake.protocols.tny.transform import Dialect, TransformConfig
from wirelake.wire.errors import DecodeError

MESSAGES = cases(relay=False)
vectors = pytest.mark.parametrize(
    ("dialect", "vector"),
    [(dialect, vector) for _, dialect, vector in MESSAGES],
    ids=[f"{name}-{dialect}" for name, dialect, _ in MESSAGES],
)


def sessions(dialect: Any, vector: dict[str, Any]) -> list[Session]:
    config = config_of(vector)
    return [
        ServerSession(ServerOptions(dialect=dialect, reading=config), random=filler),
        ClientSession(ClientOptions(dialect=dialect, reading=config), random=filler),
    ]


def seen(event: Event) -> dict[str, Any]:
    """An event in the words of the vectors."""
    if isinstance(event, Pinged | Ponged):
        return {"packet": "ping" if isinstance(event, Pinged) else "pong"}
    if isinstance(event, Failed):
        return {"error": class_of(DecodeError(event.code, event.field), relay=False)}
    assert isinstance(event, Requested | Pushed | Unmatched), event
    return {"packet": "message", "message": view(event.message)}


def happened(session: Session) -> list[dict[str, Any]]:
    """What happened, without what only sessions know of."""
    quiet = (Closed, DialectSeen)
    shown = [event for event in session.events() if not isinstance(event, quiet)]
    replies = [event.code for event in shown if isinstance(event, Failed)]
    if "unexpected_reply" in replies:  # a response of a vector answers nothing here
        shown = [event for event in shown if not isinstance(event, Failed)]
    return [seen(event) for event in shown]


def expected(vector: dict[str, Any]) -> list[dict[str, Any]]:
    expect = vector["expect"]
    items = expect.get("stream", [expect])
    found = []
    for item in items:
        if "error" in item:
            found.append({"error": item["error"]})
        elif item["packet"] == "message":
            message = item.get("message")
            found.append({"packet": "message", **({"message": wanted(message)} if message else {})})
        else:
            found.append({"packet": item["packet"]})
    return [item for item in found if item != {"error": "incomplete"}]


@vectors
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_vector_through_a_session(dialect: str, vector: dict[str, Any], step: int) -> None:
    data = bytes.fromhex(vector["hex"])
    want = expected(vector)
    for session in sessions(dialect, vector):
        for start in range(0, len(data), step):
            session.receive(data[start : start + step], 0.0)
        got = happened(session)
        for one, other in zip(got, want, strict=True):
            assert {key: one[key] for key in other} == other
        errors = {item["error"] for item in want if "error" in item}
        assert session.closed == bool(errors - {"verify_failed"})
        if not want:
            assert session.buffered == len(data)


def test_every_vector_of_message_connections_was_there() -> None:
    assert len(MESSAGES) == 105
    assert len({name for name, _, _ in MESSAGES}) == 71


@vectors
def test_a_session_writes_the_bytes_of_a_vector(dialect: Dialect, vector: dict[str, Any]) -> None:
    expect, config = vector["expect"], config_of(vector)
    plain = expect.get("packet") == "message" and expect["number"] == 1 and not config.waste
    if not plain or vector["name"].startswith("tolerate_"):
        return
    reader = Peer(dialect, reading=config)
    data = bytes.fromhex(vector["hex"])
    message, stop = reader.decode(data, 0, len(data))
    assert stop == len(data)
    session = ClientSession(
        ClientOptions(dialect=dialect, writing=config), access_id=expect["access_id"]
    )
    sent = session.send(message)
    if sent == message:  # an id or a time of 0 is filled in
        assert session.to_send() == data
    else:
        assert vector["name"] == "varint_min"


@pytest.mark.parametrize("name", ["stream_two_pings_then_message", "seed_ping", "pong_upstream"])
def test_auto_reads_the_ticks_of_either_dialect(name: str) -> None:
    (vector,) = [vector for each, _, vector in MESSAGES if each == name]
    data = bytes.fromhex(vector["hex"])
    nine = data.replace(b"tny.\x01", b"tny.\x01" + bytes(4))
    nine = nine.replace(b"tny.\x02", b"tny.\x02" + bytes(4))
    for stream in {data, nine} if vector["dialect"] == "upstream" else {data}:
        for session in sessions("auto", vector):
            session.receive(stream, 0.0)
            assert happened(session) == expected(vector)


# -- any cut ---------------------------------------------------------------------------------

BODIES = st.one_of(st.none(), st.binary(max_size=40))
MESSAGE = st.builds(
    Message,
    id=st.integers(1, 2**63 - 1),
    mode=st.sampled_from(Mode),
    line=st.integers(0, 7),
    protocol=st.integers(-(2**31), 2**31 - 1),
    code=st.integers(-(2**31), 2**31 - 1),
    to_message=st.integers(-(2**63), 2**63 - 1),
    time=st.integers(-(2**63), 2**63 - 1),
    body=BODIES,
)
ITEMS = st.lists(st.one_of(MESSAGE, st.just(Ping()), st.just(Pong())), max_size=8)
CONFIGS = st.builds(
    TransformConfig,
    security_keys=st.just(("throw-away", "another throw-away")),
    verify=st.booleans(),
    encrypt=st.booleans(),
    waste=st.booleans(),
)


@given(
    items=ITEMS,
    config=CONFIGS,
    dialect=st.sampled_from(DIALECTS),
    auto=st.booleans(),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    spoilt=st.none() | st.tuples(st.integers(0, 400), st.integers(1, 255)),
)
def test_the_same_bytes_mean_the_same_however_they_are_cut(
    items: list[Any],
    config: TransformConfig,
    dialect: Dialect,
    auto: bool,
    cuts: list[int],
    spoilt: tuple[int, int] | None,
) -> None:
    peer = Peer(dialect, writing=config)
    stream = bytearray(b"".join(peer.encode(item) for item in items))
    if spoilt is not None and stream:
        stream[spoilt[0] % len(stream)] ^= spoilt[1]
    data = bytes(stream)
    options = ServerOptions(dialect="auto" if auto else dialect, reading=config)
    whole, cut = ServerSession(options), ServerSession(options)
    whole.receive(data, 0.0)
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in cuts)})
    for start, stop in pairwise(places):
        cut.receive(data[start:stop], 0.0)
    for session in (whole, cut):
        session.receive_eof()
    # In `auto`, when a tick's form is known can depend on the cut; what happened cannot.
    first, second = (
        [event for event in session.events() if not isinstance(event, DialectSeen)]
        for session in (whole, cut)
    )
    assert first == second


# -- the tables ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "role"), [(ClientSession, Role.CLIENT), (ServerSession, Role.SERVER)]
)
def test_every_state_of_the_table_can_be_reached_and_left(kind: Any, role: Role) -> None:
    table = kind.TABLES[role]
    assert kind.FIRST in table
    reached = {kind.FIRST}
    for _ in table:
        reached |= {after for state in reached for after in table[state].values()}
    assert reached == set(table)
    assert table[CLOSED] == {}
    drawn = diagram(kind.TABLES, role)
    assert all(f'"{state}"' in drawn for state in table)


def test_codecs_agree_on_what_the_peer_of_the_playbooks_uses() -> None:
    for dialect in DIALECTS:
        protocols = "tny and relay" if dialect == "seed" else "tny"
        assert CODECS[dialect].__doc__.startswith(f"Codec of {protocols}, dialect {dialect}")
