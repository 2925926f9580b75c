"""A random capture of tunnels with calls and notifications, which move from link to link."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.columnar.differential import _Talk

from wirelake.capture.format.constants import LINK_RAW
from wirelake.capture.format.writer import PcapWriter
from wirelake.protocols.hub_calls import ACK, AUTH, NOTIFY_NUMBER
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny.protocol import RELAY as RELAY_PROTOCOL

__all__ = ["write_tunnels"]

_NOW = 1_767_225_600_000_000_000
_MS = 1_000_000


def write_tunnels(
    path: Path,
    rng: random.Random,
    *,
    links: int = 4,
    tunnels: int = 6,
    events: int = 200,
    lost: float = 0,
    notifications: bool = False,
) -> None:
    """Writes it. Every packet has a time of its own."""
    talks = [_Talk(number, RELAY_PROTOCOL.port or 0) for number in range(1, links + 1)]
    on = dict.fromkeys(range(1, tunnels + 1), talks[0])
    asked: list[tuple[int, int]] = []
    with path.open("wb") as out:
        writer = PcapWriter(out, link=LINK_RAW, nano=True)
        for number in range(events):
            tunnel = rng.randrange(1, tunnels + 1)
            if rng.random() < 0.2:
                on[tunnel] = rng.choice(talks)
            way, body = _said(rng, tunnel, number, asked, notifications)
            frame = RELAY_PROTOCOL.encode(tny.RelayPacket(id=number, arguments=body))
            packet = on[tunnel].segment(way, frame)
            if rng.random() >= lost:
                writer.packet(_NOW + number * 20 * _MS, packet)


def _said(
    rng: random.Random,
    tunnel: int,
    number: int,
    asked: list[tuple[int, int]],
    notifications: bool,
) -> tuple[int, tny.Arguments]:
    ids: dict[str, Any] = {"instance_id": 7, "tunnel_id": tunnel}
    kinds = ["connect", "connected", "disconnect", "switch", *(["relay"] * 12)]
    match rng.choice([*kinds, "sign on", *(["note"] * 4)] if notifications else kinds):
        case "connect":
            return 0, tny.TunnelConnect(ip=b"\x0a\0\0\1", port=tunnel, **ids)
        case "connected":
            return 1, tny.TunnelConnected(result=rng.random() < 0.8, **ids)
        case "disconnect":
            return rng.randrange(2), tny.TunnelDisconnect(**ids)
        case "switch":
            return 0, tny.TunnelSwitchLink(**ids)
        case "sign on":
            asked.append((tunnel, number))
            return 0, tny.TunnelRelay(message=_call(number, AUTH.number, id="ann"), **ids)
        case "note" if rng.random() < 0.5:
            said = _body(id=f"n{rng.randrange(9)}", content="x", ts=1_700_000_000_000 + number)
            push = tny.Message(id=number, mode=tny.Mode.PUSH, protocol=NOTIFY_NUMBER, body=said)
            return 1, tny.TunnelRelay(message=push, **ids)
        case "note":
            acked = [f"n{rng.randrange(9)}" for _ in range(rng.randint(1, 2))]
            return 0, tny.TunnelRelay(message=_call(number, ACK.number, ids=acked), **ids)
    waiting = [each for each in asked if each[0] == tunnel]
    if waiting and rng.random() < 0.6:
        _, call = rng.choice(waiting)
        answer = tny.Message(id=number, mode=tny.Mode.RESPONSE, to_message=call, code=100)
        return 1, tny.TunnelRelay(message=answer, **ids)
    asked.append((tunnel, number))
    return 0, tny.TunnelRelay(message=tny.Message(id=number, protocol=1001), **ids)


def _call(number: int, target: int, **arguments: Any) -> tny.Message:
    return tny.Message(id=number, protocol=target, body=_body(**arguments))


def _body(**arguments: Any) -> bytes:
    return json.dumps(arguments).encode()
