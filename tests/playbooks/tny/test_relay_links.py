"""Relay links (§5 of the rules): LINK_OPEN, OPENED, CLOSE, PING and PONG, in both roles."""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.playbook import At, Emits, EmitsKind, Eof, Pair, rule
from tests.playbooks.tny.peer import EPOCH_MS, RELAY_CODECS, request
from tests.playbooks.tny.relay_peer import (
    GATEWAY,
    ID,
    OPENING,
    both_dialects,
    gateway_link,
    open_gateway,
    open_server,
    relay_book,
    relayed,
    server_link,
)

from wirelake.protocols.sansio import Closed, Failed, SessionError, Side
from wirelake.protocols.tny.layout import (
    LinkClose,
    LinkOpen,
    LinkOpened,
    LinkPing,
    LinkPong,
    RelayPacket,
    TunnelConnect,
    TunnelConnected,
    TunnelDisconnect,
    TunnelSwitchLink,
)
from wirelake.protocols.tny.limits import RegistryLimits
from wirelake.protocols.tny.relay_link import LinkPinged, LinkPonged, LinkUp
from wirelake.protocols.tny.relay_server import LinkRegistry, ServerLink
from wirelake.protocols.tny.transform import Dialect


@rule("tny.5.link_open", "tny.5.link_opened")
@both_dialects
def test_a_gateway_opens_its_link_as_soon_as_it_is_connected(dialect: Dialect) -> None:
    packets: list[RelayPacket] = []
    session = (
        relay_book(gateway_link(dialect=dialect), dialect, packets)
        >> LinkOpened(result=True)
        << OPENING
        << Emits(LinkUp("gate", GATEWAY))
    ).done()
    assert session.state == "open"
    assert (packets[0].id, packets[0].time) == (1, EPOCH_MS)


@rule("tny.5.link_open", "tny.5.link_opened")
@both_dialects
def test_a_server_registers_and_confirms_the_link(dialect: Dialect) -> None:
    registry = LinkRegistry()
    link = server_link(registry, dialect=dialect)
    (
        relay_book(link, dialect)
        >> OPENING
        << LinkOpened(result=True)
        << Emits(LinkUp("gate", GATEWAY))
        >> OPENING  # the same link again, on its own connection
        << LinkOpened(result=True)
    ).done()
    assert registry.links == {ID: link}
    assert link.instance == GATEWAY


@rule("tny.5.known_id")
@both_dialects
def test_a_known_id_on_another_connection_is_refused(dialect: Dialect) -> None:
    registry = LinkRegistry()
    first = server_link(registry, dialect=dialect)
    (
        relay_book(first, dialect)
        >> OPENING
        << LinkOpened(result=True)
        << Emits(LinkUp("gate", GATEWAY))
    )
    (
        relay_book(server_link(registry, dialect=dialect), dialect)
        >> OPENING
        << LinkOpened(result=False)
        << EmitsKind.of(Failed, code="bad_state", fatal=True)
        << Emits(Closed("refused", Side.LOCAL, clean=False))
    ).done()
    assert registry.links == {ID: first}
    first.receive_eof()
    (
        relay_book(server_link(registry, dialect=dialect), dialect)
        >> OPENING  # the id is free again
        << LinkOpened(result=True)
        << Emits(LinkUp("gate", GATEWAY))
    ).done()


@rule("tny.5.link_opened")
@both_dialects
def test_a_gateway_that_is_refused_closes(dialect: Dialect) -> None:
    (
        relay_book(gateway_link(dialect=dialect), dialect)
        >> LinkOpened(result=False)
        << OPENING
        << Emits(Closed("refused", Side.REMOTE))
    ).done()


@rule("tny.5.link_not_found")
@both_dialects
@pytest.mark.parametrize(
    "packet",
    [
        LinkPing(),
        LinkPong(),
        LinkClose(),
        LinkOpened(result=True),
        TunnelConnect(instance_id=GATEWAY, tunnel_id=1),
        TunnelDisconnect(instance_id=GATEWAY, tunnel_id=1),
        TunnelSwitchLink(instance_id=GATEWAY, tunnel_id=1),
        relayed(1, request(1, 2002)),
    ],
    ids=lambda packet: type(packet).__name__,
)
def test_anything_but_link_open_first_closes_the_connection(packet: Any, dialect: Dialect) -> None:
    (
        relay_book(server_link(dialect=dialect), dialect)
        >> packet
        << EmitsKind.of(Failed, code="bad_state", detail="no link is open", fatal=True)
        << Emits(Closed("bad_state", Side.LOCAL, clean=False))
    ).done()


@pytest.mark.parametrize(
    ("book", "packet"),
    [
        (open_gateway, OPENING),
        (open_gateway, LinkOpened(result=True)),
        (open_gateway, TunnelConnect(instance_id=GATEWAY, tunnel_id=1)),
        (open_gateway, TunnelSwitchLink(instance_id=GATEWAY, tunnel_id=1)),
        (open_server, LinkOpened(result=True)),
        (open_server, TunnelConnected(result=True, instance_id=GATEWAY, tunnel_id=1)),
        (open_server, LinkOpen(service="gate", instance=GATEWAY, key="another")),
    ],
)
def test_a_packet_of_the_other_role_closes_the_connection(book: Any, packet: Any) -> None:
    (
        book()
        >> packet
        << EmitsKind.of(Failed, code="bad_state", fatal=True)
        << EmitsKind.of(Closed, reason="bad_state", clean=False)
    ).done()


def test_opening_has_a_deadline_on_both_ends() -> None:
    (
        relay_book(server_link())
        >> At(9.9)
        >> At(10)
        << EmitsKind.of(Failed, code="timeout")
        << Emits(Closed("timeout", Side.LOCAL, clean=False))
    ).done()
    (
        relay_book(gateway_link())
        >> At(10)
        << OPENING
        << EmitsKind.of(Failed, code="timeout")
        << Emits(Closed("timeout", Side.LOCAL, clean=False))
    ).done()


def test_a_server_has_a_limit_on_links() -> None:
    registry = LinkRegistry(RegistryLimits(max_links=1))
    (
        relay_book(server_link(registry))
        >> OPENING
        << LinkOpened(result=True)
        << Emits(LinkUp("gate", GATEWAY))
    )
    (
        relay_book(server_link(registry))
        >> LinkOpen(service="gate", instance=GATEWAY, key="key-2")
        << LinkOpened(result=False)
        << EmitsKind.of(Failed, code="too_busy")
        << EmitsKind.of(Closed, reason="refused")
    ).done()


@rule("tny.11.7")
def test_link_open_does_not_authenticate() -> None:
    stranger = LinkOpen(service="anyone", instance=-5, key="", service_type=-2_000_000_000)
    session = (
        relay_book(server_link())
        >> stranger
        << LinkOpened(result=True)
        << Emits(LinkUp("anyone", -5))
    ).done()
    assert isinstance(session, ServerLink)
    assert session.opening == stranger  # for an allow-list of the shell's


@rule("tny.11.3")
@pytest.mark.parametrize("service_type", [None, 0, -1, 2**31 - 1, -(2**31)])
def test_a_service_type_is_any_integer_or_absent(service_type: int | None) -> None:
    opening = LinkOpen(service="gate", instance=GATEWAY, key="key-1", service_type=service_type)
    book = relay_book(server_link()) >> opening
    (book << LinkOpened(result=True) << Emits(LinkUp("gate", GATEWAY))).done()


@rule("tny.11.5")
def test_arguments_come_in_any_order_and_unknown_fields_are_kept() -> None:
    codec = RELAY_CODECS["seed"]
    known = [b"\x0a\x04gate", b"\x11" + GATEWAY.to_bytes(8, "little"), b"\x1a\x05key-1"]
    unknown = b"\x7a\x03new"
    arguments = b"".join([known[2], unknown, known[0], known[1]])
    head = b"rpk" + (13 + len(arguments)).to_bytes(4, "little") + bytes(4) + b"\x01" + bytes(8)
    link = server_link()
    (
        relay_book(link)
        >> head + arguments
        << LinkOpened(result=True)
        << Emits(LinkUp("gate", GATEWAY))
    ).done()
    assert link.opening is not None
    assert link.opening.unknown == unknown
    assert codec.write_link_open(link.opening) == b"".join(known) + unknown


# -- heartbeat -----------------------------------------------------------------------------


@rule("tny.5.link_ping", "tny.5.link_pong", "tny.5.heartbeat")
@both_dialects
@pytest.mark.parametrize("book", [open_gateway, open_server])
def test_either_end_answers_a_ping_with_a_pong(book: Any, dialect: Dialect) -> None:
    (
        book(dialect)
        >> LinkPing()
        << Emits(LinkPinged())
        << LinkPong()
        >> LinkPong()
        << Emits(LinkPonged())
        >> (lambda s: s.ping())
        << LinkPing()
    ).done()


@rule("tny.5.heartbeat")
def test_a_gateway_pings_every_five_seconds_once_the_link_is_open() -> None:
    book = open_gateway()
    for second in range(5, 60, 5):
        book >> At(second) << LinkPing() >> LinkPong() << Emits(LinkPonged())
    book.done()


@rule("tny.5.idle")
def test_a_gateway_drops_a_link_that_is_silent_for_ten_seconds() -> None:
    (
        open_gateway()
        >> At(5)
        << LinkPing()
        >> LinkPong()
        << Emits(LinkPonged())
        >> At(10)
        << LinkPing()
        >> At(14.9)
        >> At(15)
        << EmitsKind.of(Failed, code="idle", fatal=True)
        << Emits(Closed("idle", Side.LOCAL, clean=False))
    ).done()


@rule("tny.5.idle")
def test_pings_of_the_server_count_as_a_sign_of_life() -> None:
    (
        open_gateway(heartbeat_s=1000)
        >> At(9)
        >> LinkPing()
        << Emits(LinkPinged())
        << LinkPong()
        >> At(18.9)
        >> At(19)
        << EmitsKind.of(Failed, code="idle")
        << EmitsKind.of(Closed, reason="idle")
    ).done()


@rule("tny.5.idle")
def test_other_packets_are_no_sign_of_life() -> None:
    (
        open_gateway(heartbeat_s=1000)
        >> At(9)
        >> TunnelDisconnect(instance_id=GATEWAY, tunnel_id=1)
        >> At(10)
        << EmitsKind.of(Failed, code="idle")
        << EmitsKind.of(Closed, reason="idle")
    ).done()


@rule("tny.5.idle")
def test_a_server_waits_without_limit_by_default() -> None:
    assert open_server().done().next_timer() is None
    (
        open_server(idle_limit_s=30)
        >> At(30)
        << EmitsKind.of(Failed, code="idle")
        << EmitsKind.of(Closed, reason="idle")
    ).done()


@rule("tny.5.pack_id", "tny.8.10")
@both_dialects
def test_pack_ids_count_from_one_in_each_direction_in_four_bytes(dialect: Dialect) -> None:
    packets: list[RelayPacket] = []
    book = relay_book(server_link(dialect=dialect), dialect, packets)
    book >> OPENING << LinkOpened(result=True) << Emits(LinkUp("gate", GATEWAY))
    for _ in range(3):
        book >> LinkPing() << Emits(LinkPinged()) << LinkPong()
    book.done()
    assert [packet.id for packet in packets] == [1, 2, 3, 4]
    link = gateway_link()
    assert link.to_send()[7:12] == b"\x01\0\0\0\x01"  # PackId 1, then Option


# -- closing -------------------------------------------------------------------------------


@rule("tny.5.link_close")
@both_dialects
@pytest.mark.parametrize("book", [open_gateway, open_server])
def test_link_close_is_answered_and_closes(book: Any, dialect: Dialect) -> None:
    (book(dialect) >> LinkClose() << LinkClose() << Emits(Closed("link_close", Side.REMOTE))).done()


@rule("tny.5.link_close")
@pytest.mark.parametrize("book", [open_gateway, open_server])
def test_the_closing_side_waits_for_the_answer(book: Any) -> None:
    (
        book()
        >> (lambda s: s.close("stopping"))
        << LinkClose()
        >> LinkPing()
        << Emits(LinkPinged())
        << LinkPong()
        >> LinkClose()
        << Emits(Closed("stopping", Side.LOCAL))
    ).done()
    (
        book() >> (lambda s: s.close()) << LinkClose() >> Eof() << Emits(Closed("eof", Side.REMOTE))
    ).done()
    (
        book()
        >> (lambda s: s.close())
        << LinkClose()
        >> At(5)
        << EmitsKind.of(Failed, code="timeout")
        << Emits(Closed("timeout", Side.LOCAL, clean=False))
    ).done()


@rule("tny.5.link_close")
def test_the_loss_of_the_connection_closes_the_link() -> None:
    registry = LinkRegistry()
    book = relay_book(server_link(registry)) >> OPENING
    book << LinkOpened(result=True) << Emits(LinkUp("gate", GATEWAY))
    (book >> Eof() << Emits(Closed("eof", Side.REMOTE))).done()
    assert registry.links == {}


def test_a_link_that_is_closing_sends_nothing_new() -> None:
    link = server_link()
    for _ in range(2):
        with pytest.raises(SessionError, match="bad_state"):
            link.ping()
        link.close()
    assert link.events() == [Closed("done", Side.LOCAL)]


@both_dialects
def test_a_link_back_to_back(dialect: Dialect) -> None:
    gateway, server = gateway_link(dialect=dialect), server_link(dialect=dialect)
    both = Pair(gateway, server).run()
    assert both.take() == ([LinkUp("gate", GATEWAY)], [LinkUp("gate", GATEWAY)])
    both.at(60)
    client_events, server_events = both.take()
    assert client_events == [LinkPonged()] * 12
    assert server_events == [LinkPinged()] * 12
    gateway.close()
    both.run()
    assert both.take() == ([Closed("done", Side.LOCAL)], [Closed("link_close", Side.REMOTE)])
