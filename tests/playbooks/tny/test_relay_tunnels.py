"""Tunnels on relay links (§5, §8.7 and §11 of the rules), in both roles and back to back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.playbook import Emits, EmitsKind, Pair, rule
from tests.playbooks.tny.peer import DIALECTS, EPOCH_MS, RELAY_CODECS, push, request, response
from tests.playbooks.tny.relay_peer import (
    CONNECT,
    CONNECTED,
    GATEWAY,
    IDS,
    IPV4,
    IPV6,
    KEY,
    MOVE,
    OPENING,
    REFUSED,
    USER,
    Gateway,
    Server,
    both_dialects,
    connect,
    relayed,
)

from wirelake.protocols.sansio import Closed, Event, Failed, SessionError
from wirelake.protocols.tny.layout import LinkOpen, RelayPacket, TunnelConnect, TunnelDisconnect
from wirelake.protocols.tny.limits import GatewayOptions, RelayServerOptions
from wirelake.protocols.tny.message import ResultCode
from wirelake.protocols.tny.relay_gateway import GatewayLink, GatewayTunnels
from wirelake.protocols.tny.relay_link import (
    Relayed,
    TunnelAnswered,
    TunnelClosed,
    TunnelOpened,
    TunnelSwitched,
)
from wirelake.protocols.tny.relay_server import LinkRegistry, ServerLink
from wirelake.protocols.tny.session import Requested, ServerSession
from wirelake.protocols.tny.transform import Dialect


@rule("tny.5.tunnel_connect", "tny.5.tunnel_connected")
@both_dialects
def test_a_server_opens_the_tunnel_that_a_gateway_asks_for(dialect: Dialect) -> None:
    server = Server(dialect)
    server.tunnel(server.link()).done()
    tunnel = server.registry.tunnel(KEY)
    assert tunnel is not None
    assert (tunnel.ip, tunnel.port) == (IPV4, 8080)


@rule("tny.5.tunnel_connect", "tny.5.tunnel_connected", "tny.5.tunnel_relay")
@both_dialects
def test_a_gateway_relays_without_waiting_for_the_answer(dialect: Dialect) -> None:
    gateway = Gateway(dialect)
    book = connect(gateway, gateway.link())
    asked = request(1, MOVE, b"hello")
    assert gateway.tunnels.relay("game", USER, asked) == ResultCode.SUCCESS
    book >> b"" << relayed(USER, asked)
    (book >> CONNECTED << Emits(TunnelAnswered(KEY))).done()


@rule("tny.5.tunnel_connected")
@both_dialects
def test_a_tunnel_that_is_refused_closes_the_users_side(dialect: Dialect) -> None:
    gateway = Gateway(dialect)
    (connect(gateway, gateway.link()) >> REFUSED << Emits(TunnelClosed(KEY, "refused"))).done()
    assert gateway.tunnels.tunnel_count == 0


@rule("tny.5.tunnel_relay", "tny.11.4", "tny.8.7")
@both_dialects
def test_messages_go_both_ways_and_as_they_are(dialect: Dialect) -> None:
    server = Server(dialect)
    book = server.tunnel(server.link())
    asked = request(1, MOVE, b"hello")
    raw = RELAY_CODECS[dialect].write_message(asked)
    book >> relayed(USER, asked) << Emits(Relayed(KEY, asked, raw))
    answer = response(1, asked, b"ok")
    book >> (lambda _: server.registry.relay(KEY, answer)) << relayed(USER, answer)
    book >> (lambda _: server.registry.relay(KEY, raw)) << relayed(USER, asked)
    book.done()


@rule("tny.11.4", "tny.8.7", "tny.8.10")
def test_the_arguments_of_a_relayed_message_are_raw() -> None:
    server = Server()
    link = server.tunnel(server.link()).session
    message = push(1, MOVE)
    server.registry.relay(KEY, message)
    written = link.to_send()
    ids = GATEWAY.to_bytes(8, "little") + USER.to_bytes(8, "little")
    assert written[:3] == b"rpk"
    assert written[7:11] == (3).to_bytes(4, "little")  # PackId: 4 bytes, the third packet
    assert written[11] == 0x15
    assert written[12:20] == EPOCH_MS.to_bytes(8, "little")
    assert written[20:] == ids + RELAY_CODECS["seed"].write_message(message)


@rule("tny.5.tunnel_relay", "tny.11.2")
def test_a_relayed_message_is_carried_to_the_byte() -> None:
    long_varint = b"\x81\x00"  # id 1, in two bytes: legal, and never written
    plain = RELAY_CODECS["seed"].write_message(push(1, MOVE, b"body", forward_header=b"to"))
    raw = long_varint + plain[1:]
    frame = RELAY_CODECS["seed"].encode_relay_packet(
        RelayPacket(arguments=relayed(USER, push(1, MOVE, b"body", forward_header=b"to")))
    )
    frame = frame.replace(plain, raw).replace(
        (len(frame) - 7).to_bytes(4, "little"), (len(frame) - 6).to_bytes(4, "little"), 1
    )
    gateway = Gateway()
    book = connect(gateway, gateway.link())
    expected = Relayed(KEY, push(1, MOVE, b"body", forward_header=b"to"), raw)
    book >> frame << Emits(expected)
    gateway.tunnels.relay("game", USER, raw)
    assert book.session.to_send().endswith(raw)


@rule("tny.5.tunnel_disconnect")
@both_dialects
def test_either_side_closes_a_tunnel(dialect: Dialect) -> None:
    gone = TunnelDisconnect(**IDS)
    server = Server(dialect)
    book = server.tunnel(server.link())
    (book >> gone << Emits(TunnelClosed(KEY, "disconnected")) >> gone).done()
    server.tunnel(book)
    (book >> (lambda _: server.registry.disconnect(KEY)) << gone).done()
    assert server.registry.tunnel_count == 0
    gateway = Gateway(dialect)
    book = connect(gateway, gateway.link())
    (book >> gone << Emits(TunnelClosed(KEY, "disconnected")) >> gone).done()
    connect(gateway, book)
    (book >> (lambda _: gateway.tunnels.disconnect(USER)) << gone).done()
    assert gateway.tunnels.tunnel_count == 0


@rule("tny.5.unknown_tunnel")
@both_dialects
@pytest.mark.parametrize("role", [Server, Gateway])
def test_a_relay_for_an_unknown_tunnel_is_dropped_and_answered_by_disconnect(
    role: Any, dialect: Dialect
) -> None:
    (
        role(dialect).link()
        >> relayed(USER, push(1, MOVE))
        << EmitsKind.of(Failed, code="bad_state", fatal=False)
        << TunnelDisconnect(**IDS)
    ).done()


@rule("tny.5.replace")
@both_dialects
def test_a_second_connect_with_the_same_key_replaces_the_tunnel(dialect: Dialect) -> None:
    server = Server(dialect)
    first, second = server.link(), server.link()
    server.tunnel(first)
    again = TunnelConnect(ip=IPV4, port=9090, **IDS)
    for book in (first, second):
        (
            book
            >> again
            << CONNECTED
            << Emits(TunnelClosed(KEY, "replaced"))
            << Emits(TunnelOpened(KEY, IPV4, 9090))
        ).done()
    assert server.registry.tunnel_count == 1
    assert first.session.tunnels == set()  # type: ignore[attr-defined]
    assert second.session.tunnels == {KEY}  # type: ignore[attr-defined]


@rule("tny.11.3")
def test_an_address_has_4_or_16_bytes_in_seed_and_4_in_upstream() -> None:
    for ip in (IPV4, IPV6, b""):
        book = Server().link() >> TunnelConnect(ip=ip, port=1, **IDS)
        (book << CONNECTED << Emits(TunnelOpened(KEY, ip, 1))).done()
    book = Gateway("upstream").link()
    gateway: GatewayTunnels = book.session.gateway  # type: ignore[attr-defined]
    for tunnels, ip in ((Gateway().link().session.gateway, b"12345"), (gateway, IPV6)):  # type: ignore[attr-defined]
        with pytest.raises(SessionError):
            tunnels.connect("game", USER, ip=ip)
        assert tunnels.tunnel_count == 0
    odd = RELAY_CODECS["seed"].encode_relay_packet(
        RelayPacket(arguments=TunnelConnect(ip=IPV6, port=1, **IDS))
    )
    (
        Server("upstream").link()
        >> odd
        << EmitsKind.of(Failed, code="bad_length", fatal=True)
        << EmitsKind.of(Closed, reason="bad_length")
    ).done()


@rule("tny.8.7")
def test_connected_has_its_ids_straight_in_seed_and_swapped_in_upstream() -> None:
    for dialect, ids in (("seed", (GATEWAY, USER)), ("upstream", (USER, GATEWAY))):
        server = Server(dialect)
        link = server.link().session
        connecting = RelayPacket(arguments=CONNECT)
        link.receive(RELAY_CODECS[dialect].encode_relay_packet(connecting), 0.0)
        straight, _ = RELAY_CODECS["seed"].decode_relay_packet(
            written := link.to_send(), 0, len(written)
        )
        found = straight.arguments
        assert (found.instance_id, found.tunnel_id) == ids


@rule("tny.8.7")
@pytest.mark.parametrize("swapped", [False, True])
def test_a_gateway_set_to_auto_tries_both_orders(swapped: bool) -> None:
    gateway = Gateway("auto")
    book = connect(gateway, gateway.link())
    packet = RelayPacket(arguments=CONNECTED)
    codec = RELAY_CODECS["upstream" if swapped else "seed"]
    (book >> codec.encode_relay_packet(packet) << Emits(TunnelAnswered(KEY))).done()


@pytest.mark.parametrize("dialect", ["seed", "upstream", "auto"])
def test_an_answer_for_no_tunnel_is_a_fault_and_closes_it_at_the_server(dialect: Any) -> None:
    fault = EmitsKind.of(Failed, code="unexpected_reply", fatal=False)
    (
        Gateway(dialect).link() >> CONNECTED << fault << TunnelDisconnect(**IDS) >> REFUSED << fault
    ).done()
    swapped = RELAY_CODECS["upstream"].encode_relay_packet(RelayPacket(arguments=CONNECTED))
    (Gateway("auto").link() >> swapped << fault << TunnelDisconnect(**IDS)).done()


# -- back to back --------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [*DIALECTS, "auto"])
def test_a_user_plays_through_a_gateway_and_survives_the_loss_of_a_link(dialect: Any) -> None:
    registry, tunnels = LinkRegistry(), GatewayTunnels(GATEWAY)
    pairs = []
    for n in range(2):
        link = GatewayLink(
            tunnels,
            service="game",
            opening=LinkOpen(service="gate", instance=GATEWAY, key=f"key-{n}"),
            options=GatewayOptions(dialect=dialect),
        )
        pairs.append(Pair(link, ServerLink(registry, RelayServerOptions(dialect=dialect))).run())
    for both in pairs:
        both.take()
    tunnels.connect("game", USER, ip=IPV4, port=8080)
    asked = request(1, MOVE, b"hello")
    tunnels.relay("game", USER, asked)
    first, second = pairs
    first.run()
    gateway_events, server_events = first.take()
    raw = RELAY_CODECS["seed"].write_message(asked)
    assert server_events == [TunnelOpened(KEY, IPV4, 8080), Relayed(KEY, asked, raw)]
    assert gateway_events == [TunnelAnswered(KEY)]

    first.client.receive_eof()
    first.server.receive_eof()
    assert second.client.dirty  # type: ignore[attr-defined]
    second.run()
    switched: tuple[list[Event], list[Event]] = ([TunnelSwitched(KEY)], [TunnelSwitched(KEY)])
    assert second.take() == switched
    answer = response(1, asked, b"ok")
    registry.relay(KEY, answer)
    second.run()
    raw = RELAY_CODECS["seed"].write_message(answer)
    assert second.take() == ([Relayed(KEY, answer, raw)], [])
    registry.disconnect(KEY)
    second.run()
    assert second.take() == ([TunnelClosed(KEY, "disconnected")], [])
    assert registry.tunnel_count == tunnels.tunnel_count == 0


@rule("tny.11.2", "tny.5.tunnel_relay")
def test_a_message_goes_through_a_gateway_and_back_unchanged() -> None:
    registry, tunnels = LinkRegistry(), GatewayTunnels(GATEWAY)
    link = GatewayLink(tunnels, service="game", opening=OPENING)
    both = Pair(link, ServerLink(registry)).run()
    user = ServerSession()
    tunnels.connect("game", USER)
    asked = request(1, MOVE, b"hello", line=5, forward_header=b"\x00\xff any")
    tunnels.relay("game", USER, asked)
    both.run()
    (got,) = [event for event in both.server_events if isinstance(event, Relayed)]
    assert got.message == asked
    registry.relay(KEY, response(9, got.message, b"ok"))
    both.run()
    (back,) = [event for event in both.client_events if isinstance(event, Relayed)]
    assert back.message == response(9, asked, b"ok", line=5, forward_header=b"\x00\xff any")
    assert user.send(back.message) == back.message
    assert not any(isinstance(event, Requested) for event in user.events())
