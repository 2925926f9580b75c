"""Tunnels: virtual connections, and the links that carry them."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.records.engine import EngineLimits, feed_event
from wirelake.records.rows import Event, MessageRow
from wirelake.records.tunnels import (
    TunnelRow,
    TunnelsEngine,
    fnv1a_63,
    tunnel_connection,
    tunnel_of,
)

from .scenes import answer, ask, closed, message, run

TUNNEL = tunnel_connection(3, 4)


def tunnels(*events: Event) -> list[TunnelRow]:
    """The tunnels that come of these events."""
    return run(TunnelsEngine(), events)


def packet(ts_ns: int, name: str, link: int = 50, **more: Any) -> MessageRow:
    """A packet of a link about tunnel 3/4."""
    more = {"direction": "c2s", "target": "3/4"} | more
    return message(ts_ns, "control", name=name, protocol="relay", connection=link, **more)


def inner(make: Any, ts_ns: int, link: int = 50) -> Any:
    """A message in that tunnel."""
    return make(ts_ns, 1, connection=TUNNEL, protocol="tny", tunnel_link=link)


def test_a_whole_tunnel() -> None:
    (row,) = tunnels(
        packet(1, "tunnel_connect", fields={"ip": b"\x0a\0\0\1", "port": 99}),
        packet(2, "tunnel_connected", direction="s2c", fields={"result": True}),
        packet(3, "tunnel_relay"),
        inner(ask, 3),
        inner(answer, 4),
        packet(5, "tunnel_disconnect", direction="s2c"),
    )
    assert (row.connection, row.instance_id, row.tunnel_id) == (TUNNEL, 3, 4)
    assert (row.user_address, row.user_port) == ("10.0.0.1", 99)
    assert (row.outcome, row.opened_ns, row.connected_ns, row.closed_ns) == ("closed", 1, 2, 5)
    assert (row.closed_by, row.first_link, row.last_link, row.switches) == ("server", 50, 50, 0)
    assert (row.messages_c2s, row.messages_s2c, row.bytes_c2s, row.bytes_s2c) == (1, 1, 10, 10)
    assert (row.first_ns, row.last_ns, row.late_messages) == (1, 5, 0)


def test_a_refused_tunnel() -> None:
    refusal = packet(2, "tunnel_connected", direction="s2c", fields={"result": False})
    (row,) = tunnels(packet(1, "tunnel_connect"), refusal)
    assert (row.outcome, row.connected_ns, row.closed_ns, row.closed_by) == (
        "refused", None, 2, "server",
    )  # fmt: skip


def test_the_same_ids_again() -> None:
    first, second = tunnels(packet(1, "tunnel_connect"), packet(5, "tunnel_connect"))
    assert (first.outcome, first.closed_ns, first.closed_by) == ("replaced", 5, "gateway")
    assert (second.outcome, second.opened_ns) == ("open", 5)
    first, second = tunnels(
        packet(1, "tunnel_connect"), packet(2, "tunnel_disconnect"), packet(5, "tunnel_connect")
    )
    assert (first.outcome, first.closed_ns, second.opened_ns) == ("closed", 2, 5)


def test_a_tunnel_moves_to_another_link() -> None:
    (row,) = tunnels(
        packet(1, "tunnel_connect"),
        closed(2, 50),
        packet(3, "tunnel_switch_link", 51),
        inner(ask, 4, 51),
    )
    assert (row.switches, row.first_link, row.last_link, row.outcome) == (1, 50, 51, "open")


def test_a_tunnel_without_its_link_is_lost() -> None:
    (row,) = tunnels(packet(1, "tunnel_connect"), closed(2, 50))
    assert (row.outcome, row.closed_ns) == ("lost", None)


def test_messages_may_cross_the_end() -> None:
    (row,) = tunnels(
        packet(1, "tunnel_connect"), packet(2, "tunnel_disconnect"), inner(answer, 3),
        packet(4, "tunnel_disconnect", direction="s2c"),
    )  # fmt: skip
    assert (row.outcome, row.closed_ns, row.closed_by) == ("closed", 2, "gateway")
    assert (row.late_messages, row.messages_s2c) == (1, 1)


def test_a_tunnel_of_which_only_a_part_was_seen() -> None:
    (row,) = tunnels(inner(ask, 4))
    assert (row.instance_id, row.opened_ns, row.outcome) == (None, None, "open")
    (row,) = tunnels(packet(3, "tunnel_relay"), inner(ask, 3))
    assert (row.instance_id, row.tunnel_id, row.messages_c2s) == (3, 4, 1)


def test_the_end_of_an_unknown_tunnel_is_ignored() -> None:
    assert tunnels(packet(2, "tunnel_disconnect"), packet(3, "link_ping", target=None)) == []


def test_limits() -> None:
    engine = TunnelsEngine(EngineLimits(tunnels=1, closed_tunnels=1))
    for number in range(3):
        feed_event(engine, packet(number, "tunnel_connect", target=f"3/{number}"))
    assert [row.tunnel_id for row in engine.take()] == [0, 1]
    feed_event(engine, packet(5, "tunnel_disconnect", target="3/2"))
    feed_event(engine, packet(6, "tunnel_connect", target="3/9"))
    feed_event(engine, packet(7, "tunnel_disconnect", target="3/9"))
    assert [row.tunnel_id for row in engine.take()] == [2]


def test_ids() -> None:
    assert fnv1a_63(b"") == 0xCBF29CE484222325 >> 1
    assert fnv1a_63(b"a") == 0xAF63DC4C8601EC8C >> 1
    assert tunnel_connection(1, 2) != tunnel_connection(2, 1)
    assert tunnel_connection(-1, 2) == tunnel_connection(2**64 - 1, 2)
    assert 0 < tunnel_connection(3, 4) < 2**63


@pytest.mark.parametrize(
    ("target", "expected"), [("3/4", (3, 4)), ("-3/4", (-3, 4)), ("3", None), (None, None)]
)
def test_tunnels_in_targets(target: str | None, expected: tuple[int, int] | None) -> None:
    assert tunnel_of(target) == expected
