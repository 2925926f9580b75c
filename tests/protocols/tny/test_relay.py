"""Relay sessions beside the playbooks: the vectors through real links, any cut, wrong use."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.playbooks.tny.peer import DIALECTS, RELAY_CODECS, push
from tests.playbooks.tny.relay_peer import (
    GATEWAY,
    IPV4,
    KEY,
    OPENING,
    USER,
    gateway_link,
    server_link,
)
from tests.protocols.tny.vector_views import cases, view, wanted

from wirelake.conformance.tny import class_of
from wirelake.protocols.sansio import CLOSED, Closed, Failed, Role, SessionError, Side, diagram
from wirelake.protocols.tny.layout import (
    LinkClose,
    LinkOpened,
    LinkPing,
    LinkPong,
    Message,
    RelayPacket,
    TunnelConnect,
    TunnelDisconnect,
    TunnelRelay,
    TunnelSwitchLink,
)
from wirelake.protocols.tny.limits import GatewayOptions, RelayServerOptions
from wirelake.protocols.tny.relay_gateway import GatewayLink, GatewayTunnels
from wirelake.protocols.tny.relay_link import (
    LinkPinged,
    LinkPonged,
    LinkUp,
    Relayed,
    RelayLink,
    TunnelAnswered,
    TunnelClosed,
    TunnelKey,
    TunnelOpened,
    TunnelSwitched,
)
from wirelake.protocols.tny.relay_server import LinkRegistry, ServerLink
from wirelake.protocols.tny.transform import Dialect
from wirelake.wire.errors import DecodeError

VECTORS = cases(relay=True)
vectors = pytest.mark.parametrize(
    ("dialect", "vector"),
    [(dialect, vector) for _, dialect, vector in VECTORS],
    ids=[f"{name}-{dialect}" for name, dialect, _ in VECTORS],
)
OF_SERVERS = ("LINK_OPENED", "TUNNEL_CONNECTED")
"""The packets that only a server sends."""


def packet(dialect: str, arguments: Any) -> bytes:
    data: bytes = RELAY_CODECS[dialect].encode_relay_packet(RelayPacket(arguments=arguments))
    return data


def ready(dialect: Any, expect: dict[str, Any]) -> RelayLink:
    """A link that is where the packet of a vector is legal."""
    kind, found = expect.get("type"), expect.get("arguments", {})
    key = TunnelKey(found.get("instance_id", 0), found.get("tunnel_id", 0))
    if kind in OF_SERVERS:
        tunnels = GatewayTunnels(key.instance_id)
        options = GatewayOptions(dialect=dialect)
        link = GatewayLink(tunnels, service="game", opening=OPENING, options=options)
        if kind != "LINK_OPENED":
            link.receive(packet(dialect, LinkOpened(result=True)), 0.0)
            tunnels.connect("game", key.tunnel_id)
        return link
    server = ServerLink(LinkRegistry(), RelayServerOptions(dialect=dialect))
    if kind != "LINK_OPEN":
        server.receive(packet(dialect, OPENING), 0.0)
    if kind in {"TUNNEL_RELAY", "TUNNEL_DISCONNECT", "TUNNEL_SWITCH_LINK"}:
        connect = TunnelConnect(instance_id=key.instance_id, tunnel_id=key.tunnel_id)
        server.receive(packet(dialect, connect), 0.0)
    return server


def check(expect: dict[str, Any], event: Any) -> None:
    found = expect["arguments"]
    match expect["type"]:
        case "LINK_OPEN":
            assert event == LinkUp(found["service"], found["instance"])
        case "LINK_OPENED":
            wanted_kind = LinkUp if found["result"] else Closed
            assert type(event) is wanted_kind
        case "LINK_CLOSE":
            assert event == Closed("link_close", Side.REMOTE)
        case "LINK_PING" | "LINK_PONG":
            assert event == (LinkPinged() if expect["type"] == "LINK_PING" else LinkPonged())
        case "TUNNEL_CONNECT":
            ip = bytes(int(part) for part in found["ip"].split("."))
            key = TunnelKey(found["instance_id"], found["tunnel_id"])
            assert event == TunnelOpened(key, ip, found["port"])
        case "TUNNEL_RELAY":
            assert isinstance(event, Relayed)
            assert view(event.message) == wanted(found["message"])
        case kind:
            kinds = {
                "TUNNEL_CONNECTED": TunnelAnswered,
                "TUNNEL_DISCONNECT": TunnelClosed,
                "TUNNEL_SWITCH_LINK": TunnelSwitched,
            }
            assert type(event) is kinds[kind]
            assert tuple(event.key) == (found["instance_id"], found["tunnel_id"])


@vectors
@pytest.mark.parametrize("step", [1, 9, 10_000])
def test_a_vector_through_a_link(dialect: str, vector: dict[str, Any], step: int) -> None:
    expect = vector["expect"]
    link = ready(dialect, expect)
    link.events()
    data = bytes.fromhex(vector["hex"])
    for start in range(0, len(data), step):
        link.receive(data[start : start + step], 0.0)
    events = link.events()
    if expect.get("error") == "incomplete":
        assert events == []
        assert link.buffered == len(data)
    elif "error" in expect:
        failed, closed = events
        assert isinstance(failed, Failed)
        assert class_of(DecodeError(failed.code, failed.field), relay=True) == expect["error"]
        assert isinstance(closed, Closed)
    else:
        (event,) = events
        check(expect, event)


def test_every_vector_of_links_was_there() -> None:
    assert len({name for name, _, _ in VECTORS}) == 25


# -- any cut ---------------------------------------------------------------------------------

KEYS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"instance_id": st.just(GATEWAY), "tunnel_id": st.integers(1, 3)}
)
PACKETS = st.one_of(
    st.sampled_from([LinkPing(), LinkPong(), LinkClose(), OPENING]),
    KEYS.map(lambda ids: TunnelConnect(ip=IPV4, port=1, **ids)),
    KEYS.map(lambda ids: TunnelDisconnect(**ids)),
    KEYS.map(lambda ids: TunnelSwitchLink(**ids)),
    KEYS.map(lambda ids: TunnelRelay(message=push(1, 2002, b"body"), **ids)),
)


@given(
    packets=st.lists(PACKETS, max_size=10),
    dialect=st.sampled_from(DIALECTS),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    spoilt=st.none() | st.tuples(st.integers(0, 400), st.integers(1, 255)),
)
def test_the_same_bytes_mean_the_same_however_they_are_cut(
    packets: list[Any], dialect: Dialect, cuts: list[int], spoilt: tuple[int, int] | None
) -> None:
    stream = bytearray(b"".join(packet(dialect, each) for each in [OPENING, *packets]))
    if spoilt is not None:
        stream[spoilt[0] % len(stream)] ^= spoilt[1]
    data = bytes(stream)
    results = []
    for places in ([0, len(data)], sorted({0, len(data), *(cut % len(data) for cut in cuts)})):
        link = server_link(dialect=dialect)
        for start, stop in pairwise(places):
            link.receive(data[start:stop], 0.0)
        results.append((link.events(), link.to_send(), link.closed))
    assert results[0] == results[1]


# -- wrong use -------------------------------------------------------------------------------


def open_link(**options: Any) -> ServerLink:
    link = server_link(**options)
    link.receive(packet("seed", OPENING), 0.0)
    link.receive(
        packet("seed", TunnelConnect(instance_id=GATEWAY, tunnel_id=USER)),
        0.0,
    )
    link.events()
    link.to_send()
    return link


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (push(1, 2002, bytes(1000)), "too_large"),
        (bytes(1000), "too_large"),
        (Message(id=1, line=9), "int_range"),
        (push(1, 2002, headers=(b"abcd",)), "bad_value"),
    ],
)
def test_what_cannot_be_relayed_raises_and_changes_nothing(message: Any, code: str) -> None:
    link = open_link(max_packet=300)
    with pytest.raises(SessionError) as error:
        link.registry.relay(KEY, message)
    assert error.value.code in {code, "bad_value"}
    assert not link.dirty
    link.ping()
    assert link.to_send()[7:11] == (3).to_bytes(4, "little")  # no PackId was used up


def test_there_is_no_such_tunnel() -> None:
    registry = open_link().registry
    nobody = TunnelKey(GATEWAY, 99)
    with pytest.raises(SessionError, match="bad_state"):
        registry.relay(nobody, b"")
    with pytest.raises(SessionError, match="bad_state"):
        registry.disconnect(nobody)
    wide = TunnelKey(2**70, 1)
    with pytest.raises(SessionError, match="int_range"):
        open_link().relay(wide, b"")


def test_a_tunnel_without_a_link_can_be_given_up() -> None:
    link = open_link()
    link.receive_eof()
    link.registry.disconnect(KEY)
    assert link.registry.tunnel_count == 0
    assert link.registry.next_timer() is None


def test_pack_ids_begin_again_after_the_last() -> None:
    link = open_link()
    link._pack_id = 2**31 - 2
    for wanted_id in (2**31 - 1, 1, 2):
        link.ping()
        assert int.from_bytes(link.to_send()[7:11], "little") == wanted_id


def test_a_link_reports_when_data_is_available() -> None:
    link = gateway_link()
    assert link.dirty
    link.to_send()
    assert not link.dirty
    link.receive(packet("seed", LinkOpened(result=True)), 0.0)
    assert link.dirty
    link.events()
    assert not link.dirty


def test_the_time_of_a_packet_is_the_wall_clock_at_the_links_now() -> None:
    link = open_link()
    link.ping(now=2.5)
    sent, _ = RELAY_CODECS["seed"].decode_relay_packet(data := link.to_send(), 0, len(data))
    assert sent.time == link._epoch_ms + 2500


@pytest.mark.parametrize(("kind", "role"), [(GatewayLink, Role.CLIENT), (ServerLink, Role.SERVER)])
def test_every_state_of_the_table_can_be_reached_and_left(kind: Any, role: Role) -> None:
    table = kind.TABLES[role]
    reached = {kind.FIRST}
    for _ in table:
        reached |= {after for state in reached for after in table[state].values()}
    assert reached == set(table)
    assert table[CLOSED] == {}
    assert all(f'"{state}"' in diagram(kind.TABLES, role) for state in table)
