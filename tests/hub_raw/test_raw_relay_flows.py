"""A gateway without the project's codecs, linked to a hub as its backend."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.hub_raw import raw_relay as relay
from tests.hub_raw.hub_process import HubProcess, wait_until
from tests.hub_raw.line import Line
from tests.hub_raw.raw_relay import RawLink, RawTunnel
from tests.hub_raw.raw_tny import REQUEST, TnyMessage

Dial = Callable[..., Line]
_AUTH, _SUBSCRIBE = 10, 11


def _link(dialled: Dial, instance: int, key: str = "throw-away") -> RawLink:
    link = RawLink(dialled("relay"), instance)
    assert link.open(key=key)
    return link


def _signed_on(hub: HubProcess, tunnel: RawTunnel) -> str:
    name, token = hub.client()
    assert tunnel.call(_AUTH, id=name, token=token) == {"id": name}
    return name


def test_links(dialled: Dial) -> None:
    link = _link(dialled, 1, "first")
    link.ping()
    again = RawLink(dialled("relay"), 1)
    assert not again.open(key="first")  # the same link, on another socket
    assert again.line.rest() == b""
    assert _link(dialled, 1, "second") is not None
    link.ping()
    link.send(relay.LINK_CLOSE)
    assert link.receive().kind == relay.LINK_CLOSE
    assert link.line.rest() == b""


def test_a_tunnel_is_a_client_of_its_own(hub: HubProcess, dialled: Dial) -> None:
    link = _link(dialled, 2)
    tunnel = link.tunnel(22, port=4321)
    assert tunnel.ask(1002, b'{"a": 1, "b": 2}').code == 210
    assert link.receive().kind == relay.TUNNEL_DISCONNECT  # code 210 closes
    tunnel = link.tunnel(23)
    name = _signed_on(hub, tunnel)
    assert tunnel.call(1002, a=1, b=2) == {"c": 3}
    assert tunnel.ask(1001, b"bytes").body == b"bytes"
    assert tunnel.ask(1004, b"{}").code == 500
    assert tunnel.ask(4711, b"{}").code == 205
    tunnel.call(_SUBSCRIBE, topic="@relay/topic")
    wanted = hub.publish(topic="@relay/topic", content="down the tunnel")["id"]
    push = tunnel.next_push()
    assert push.protocol == 20
    assert json.loads(push.body or b"")["id"] == wanted
    private = hub.publish(client=name, content="private")["id"]
    assert json.loads(tunnel.next_push().body or b"")["id"] == private


def test_tunnels_share_a_link(hub: HubProcess, dialled: Dial) -> None:
    link = _link(dialled, 3)
    tunnels = [link.tunnel(number) for number in range(1, 21)]
    for tunnel in tunnels:
        _signed_on(hub, tunnel)
    for number, tunnel in enumerate(tunnels):
        assert tunnel.call(1002, a=number, b=1) == {"c": number + 1}


def test_a_tunnel_ends(hub: HubProcess, dialled: Dial) -> None:
    link = _link(dialled, 4)
    tunnel, other = link.tunnel(1), link.tunnel(2, bytes(15) + b"\x01")
    _signed_on(hub, other)
    tunnel.disconnect()
    tunnel.send(TnyMessage(1, REQUEST, 1001, body=b"x"))
    answer = link.receive()  # nobody is there any more
    assert answer.kind == relay.TUNNEL_DISCONNECT
    assert relay.fields(answer.arguments) == {1: 4, 2: 1}
    assert other.call(1002, a=1, b=2) == {"c": 3}


def test_a_tunnel_continues_over_another_link(hub: HubProcess, dialled: Dial) -> None:
    first, second = _link(dialled, 5, "first"), _link(dialled, 5, "second")
    tunnel = first.tunnel(1)
    name = _signed_on(hub, tunnel)
    first.close()
    tunnel.switch(second)
    assert tunnel.call(1002, a=20, b=1) == {"c": 21}  # still signed on
    tunnel.call(_SUBSCRIBE, topic="@relay/switched")
    wanted = hub.publish(client=name, content="found again")["id"]
    assert json.loads(tunnel.next_push().body or b"")["id"] == wanted


def test_a_switch_of_an_unknown_tunnel_is_refused(dialled: Dial) -> None:
    link = _link(dialled, 6)
    link.send(relay.TUNNEL_SWITCH_LINK, link.ids(99))
    answer = link.receive()
    assert answer.kind == relay.TUNNEL_CONNECTED
    assert relay.fields(answer.arguments).get(10, 0) == 0
    link.ping()


def test_nothing_is_sent_before_a_link_is_open(hub: HubProcess, dialled: Dial) -> None:
    link = RawLink(dialled("relay"), 7)
    link.send(relay.TUNNEL_CONNECT, link.ids(1))
    assert link.line.rest() == b""
    ended = wait_until(
        lambda: [row for row in hub.closed() if row["protocol"] == "relay"], "the end is told"
    )
    assert all(row["reason"] for row in ended)


def test_packets_that_are_none(dialled: Dial) -> None:
    for data in (b"rpl" + bytes(20), b"rpk\x0c\x00\x00\x00" + bytes(12), relay.pack(1, 0x1F, 0)):
        line = dialled("relay")
        line.send(data)
        assert line.rest() == b""
    _link(dialled, 8).ping()
