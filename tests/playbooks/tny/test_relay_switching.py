"""Tunnels that change their link, lose it, or find none (§5, §8.8 of the rules); their limits."""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.playbook import At, Emits, EmitsKind, Eof, rule
from tests.playbooks.tny.peer import push, request, response, server_book
from tests.playbooks.tny.relay_peer import (
    CONNECT,
    CONNECTED,
    GATEWAY,
    IDS,
    IPV4,
    KEY,
    MOVE,
    REFUSED,
    USER,
    Gateway,
    Server,
    both_dialects,
    connect,
    relayed,
)

from wirelake.protocols.sansio import Closed, Failed, SessionError, Side
from wirelake.protocols.tny.layout import (
    LinkClose,
    TunnelConnect,
    TunnelConnected,
    TunnelDisconnect,
    TunnelSwitchLink,
)
from wirelake.protocols.tny.message import ResultCode
from wirelake.protocols.tny.relay_link import (
    Relayed,
    TunnelClosed,
    TunnelLost,
    TunnelOpened,
    TunnelSwitched,
)
from wirelake.protocols.tny.session import Requested
from wirelake.protocols.tny.transform import Dialect


@rule("tny.5.tunnel_switch_link", "tny.5.link_loss")
def test_a_gateway_switches_the_tunnels_of_a_lost_link_to_another() -> None:
    gateway = Gateway()
    first, second = gateway.link(), gateway.link()
    connect(gateway, first)
    (first >> Eof() << Emits(Closed("eof", Side.REMOTE))).done()
    (second >> b"" << TunnelSwitchLink(**IDS) << Emits(TunnelSwitched(KEY))).done()
    assert gateway.tunnels.link_of("game", USER) is second.session


@rule("tny.8.8")
def test_upstream_switches_by_a_connect_that_has_ids_only() -> None:
    gateway = Gateway("upstream")
    first, second = gateway.link(), gateway.link()
    connect(gateway, first)
    first >> Eof() << EmitsKind.of(Closed)
    written = second.session.to_send()
    ids = b"\x09" + GATEWAY.to_bytes(8, "little") + b"\x11" + USER.to_bytes(8, "little")
    assert written[11] == 0x11
    assert written[20:] == ids


@rule("tny.5.tunnel_switch_link", "tny.5.link_loss")
@both_dialects
def test_a_server_keeps_tunnels_of_a_lost_link_and_rebinds_them_silently(dialect: Dialect) -> None:
    server = Server(dialect)
    first, second = server.link(), server.link()
    server.tunnel(first)
    (first >> Eof() << Emits(TunnelLost(KEY)) << Emits(Closed("eof", Side.REMOTE))).done()
    with pytest.raises(SessionError, match="connection_lost"):
        server.registry.relay(KEY, push(1, MOVE))
    (
        second
        >> TunnelSwitchLink(**IDS)
        << Emits(TunnelSwitched(KEY))
        >> (lambda _: server.registry.relay(KEY, push(1, MOVE)))
        << relayed(USER, push(1, MOVE))
    ).done()
    assert server.registry.next_timer() is None


@rule("tny.5.tunnel_switch_link")
def test_a_tunnel_can_be_switched_while_its_link_lives() -> None:
    server = Server()
    first, second = server.link(), server.link()
    server.tunnel(first)
    (second >> TunnelSwitchLink(**IDS) << Emits(TunnelSwitched(KEY))).done()
    assert first.session.tunnels == set()  # type: ignore[attr-defined]
    (first >> Eof() << EmitsKind.of(Closed)).done()


@rule("tny.8.8")
@pytest.mark.parametrize("dialect", ["upstream", "auto"])
def test_upstream_reads_a_connect_with_ids_only_as_a_switch(dialect: Any) -> None:
    bare = TunnelConnect(**IDS)
    server = Server(dialect)
    first, second = server.link(), server.link()
    server.tunnel(first)
    (second >> bare << Emits(TunnelSwitched(KEY))).done()
    (
        second  # on its own link it is a connect like any other
        >> bare
        << (lambda found: found.result)
        << Emits(TunnelClosed(KEY, "replaced"))
        << Emits(TunnelOpened(KEY, b"", 0))
    ).done()
    unknown = TunnelConnect(instance_id=GATEWAY, tunnel_id=99)
    (second >> unknown << EmitsKind.of(TunnelOpened) << (lambda found: found.result)).done()


@rule("tny.8.8")
def test_seed_reads_a_connect_with_ids_only_as_a_connect() -> None:
    server = Server()
    first, second = server.link(), server.link()
    server.tunnel(first)
    (
        second
        >> TunnelConnect(**IDS)
        << CONNECTED
        << Emits(TunnelClosed(KEY, "replaced"))
        << Emits(TunnelOpened(KEY, b"", 0))
    ).done()


@rule("tny.5.tunnel_switch_link")
def test_a_switch_that_fails_is_answered_no() -> None:
    server = Server()
    book = server.link()
    (
        book
        >> TunnelSwitchLink(**IDS)
        << REFUSED
        << EmitsKind.of(Failed, code="bad_state", fatal=False)
    ).done()
    server.tunnel(book)
    other = server.link(instance=2002)
    (
        other
        >> TunnelSwitchLink(**IDS)  # the tunnel is another gateway's
        << REFUSED
        << EmitsKind.of(Failed, code="bad_state", fatal=False)
    ).done()


def test_a_gateway_cannot_touch_the_tunnels_of_another() -> None:
    server = Server()
    server.tunnel(server.link())
    stranger = server.link(instance=2002)
    fault = EmitsKind.of(Failed, code="bad_state", fatal=False)
    (
        stranger
        >> relayed(USER, push(1, MOVE))
        << fault
        << TunnelDisconnect(**IDS)
        >> TunnelDisconnect(**IDS)
        << fault
        >> CONNECT
        << fault
        << REFUSED
    ).done()
    assert server.registry.tunnel(KEY) is not None


@rule("tny.5.link_loss")
def test_a_tunnel_without_a_link_waits_for_the_next_one() -> None:
    gateway = Gateway()
    first = connect(gateway, gateway.link())
    (first >> Eof() << Emits(TunnelLost(KEY)) << EmitsKind.of(Closed)).done()
    assert gateway.tunnels.tunnel_count == 1
    other_service = gateway.link("chat").done()
    assert not other_service.closed
    second = gateway.link()
    (second << TunnelSwitchLink(**IDS) << Emits(TunnelSwitched(KEY))).done()


@rule("tny.5.link_loss", "tny.5.link_close")
def test_a_tunnel_opened_on_a_link_that_is_closing_waits_for_another() -> None:
    server = Server()
    (
        server.link()
        >> (lambda s: s.close())
        << LinkClose()
        >> CONNECT
        << CONNECTED
        << Emits(TunnelOpened(KEY, IPV4, 8080))
        << Emits(TunnelLost(KEY))
    ).done()
    (server.link() >> TunnelSwitchLink(**IDS) << Emits(TunnelSwitched(KEY))).done()


@rule("tny.5.link_loss")
def test_a_message_over_another_link_takes_a_lost_tunnel_there() -> None:
    server = Server()
    first, second = server.tunnel(server.link()), server.link()
    first >> Eof() << Emits(TunnelLost(KEY)) << EmitsKind.of(Closed)
    (
        second
        >> relayed(USER, push(1, MOVE))
        << Emits(TunnelSwitched(KEY))
        << EmitsKind.of(Relayed)
        >> (lambda _: server.registry.relay(KEY, push(2, MOVE)))
        << relayed(USER, push(2, MOVE))
    ).done()


@rule("tny.5.link_loss")
def test_a_server_removes_a_tunnel_that_is_not_switched() -> None:
    server = Server(keep_s=60)
    book = server.tunnel(server.link())
    book >> At(5) >> Eof() << Emits(TunnelLost(KEY)) << EmitsKind.of(Closed)
    assert server.registry.next_timer() == 65
    server.registry.on_timer(64.9)
    assert server.registry.events() == []
    server.registry.on_timer(65)
    assert server.registry.events() == [TunnelClosed(KEY, "expired")]
    assert server.registry.tunnel_count == 0


@rule("tny.5.link_loss", "tny.5.tunnel_disconnect")
def test_the_end_of_a_lost_tunnel_is_sent_over_another_link_of_its_gateway() -> None:
    server = Server(keep_s=60)
    first, second = server.tunnel(server.link()), server.link()
    first >> Eof() << Emits(TunnelLost(KEY)) << EmitsKind.of(Closed)
    second >> (lambda _: server.registry.on_timer(60)) << TunnelDisconnect(**IDS)
    second.done()


@rule("tny.5.tunnel_disconnect")
def test_a_gateway_sends_a_disconnect_of_the_old_link_over_the_new() -> None:
    gateway = Gateway()
    first, second = gateway.link(), gateway.link()
    connect(gateway, first)
    first >> (lambda s: s.close()) << LinkClose()
    second >> b"" << TunnelSwitchLink(**IDS) << Emits(TunnelSwitched(KEY))
    gone = TunnelDisconnect(**IDS)
    (first >> gone << Emits(TunnelClosed(KEY, "disconnected"))).done()
    (second >> b"" << gone).done()


@rule("tny.5.no_link")
def test_without_a_usable_link_the_user_gets_225_and_is_closed() -> None:
    gateway = Gateway()
    assert gateway.tunnels.connect("game", USER) == ResultCode.NO_LINK
    book = connect(gateway, gateway.link())
    book >> Eof() << Emits(TunnelLost(KEY)) << EmitsKind.of(Closed)
    asked = request(1, MOVE)
    (
        server_book()  # the user's own connection
        >> asked
        << Emits(Requested(asked))
        >> (lambda user: user.respond(asked, code=gateway.tunnels.relay("game", USER, asked)))
        << response(1, asked, code=225)
        << Emits(Closed("code_225", Side.LOCAL))
    ).done()


@rule("tny.5.round_robin")
def test_links_of_a_service_are_used_in_turn() -> None:
    gateway = Gateway()
    links = [gateway.link() for _ in range(3)]
    for user in range(6):
        gateway.tunnels.connect("game", user)
    assert [len(book.session.tunnels) for book in links] == [2, 2, 2]  # type: ignore[attr-defined]


@rule("tny.5.tunnel_connect")
def test_a_user_has_a_tunnel_to_each_service() -> None:
    gateway = Gateway()
    game, chat = gateway.link("game"), gateway.link("chat")
    connect(gateway, game).done()
    gateway.tunnels.connect("chat", USER, ip=IPV4, port=8080)
    (chat >> b"" << CONNECT).done()
    with pytest.raises(SessionError, match="bad_state"):
        gateway.tunnels.relay("mail", USER, push(1, MOVE))
    gateway.tunnels.disconnect(USER)
    for book in (game, chat):
        (book >> b"" << TunnelDisconnect(**IDS)).done()


# -- limits --------------------------------------------------------------------------------


@rule("tny.5.tunnel_limit")
def test_a_link_that_is_full_refuses_more_tunnels() -> None:
    server = Server()
    book = server.link(max_tunnels=1)
    server.tunnel(book)
    (
        book
        >> TunnelConnect(instance_id=GATEWAY, tunnel_id=23)
        << EmitsKind.of(Failed, code="too_busy", fatal=False)
        << TunnelConnected(result=False, instance_id=GATEWAY, tunnel_id=23)
        >> CONNECT  # its own again is no more than one
        << CONNECTED
        << EmitsKind.of(TunnelClosed)
        << EmitsKind.of(TunnelOpened)
    ).done()
    gateway = Gateway()
    connect(gateway, gateway.link(max_tunnels=1)).done()
    assert gateway.tunnels.connect("game", 23) == ResultCode.NO_LINK


@rule("tny.5.tunnel_limit")
def test_there_is_a_limit_over_all_links_too() -> None:
    server = Server(max_tunnels=1)
    book = server.tunnel(server.link())
    book >> Eof() << EmitsKind.of(TunnelLost) << EmitsKind.of(Closed)
    (
        server.link()
        >> TunnelConnect(instance_id=GATEWAY, tunnel_id=23)
        << EmitsKind.of(Failed, code="too_busy", fatal=False)
        << TunnelConnected(result=False, instance_id=GATEWAY, tunnel_id=23)
    ).done()
    gateway = Gateway(max_tunnels=1)
    connect(gateway, gateway.link()).done()
    with pytest.raises(SessionError, match="too_busy"):
        gateway.tunnels.connect("game", 23)


def test_a_link_takes_over_no_more_than_it_may_carry() -> None:
    gateway = Gateway()
    first = gateway.link()
    for user in range(3):
        gateway.tunnels.connect("game", user)
    first.session.receive_eof()
    second = gateway.link(max_tunnels=2)
    assert len(second.session.tunnels) == 2  # type: ignore[attr-defined]
    assert gateway.tunnels.tunnel_count == 3
