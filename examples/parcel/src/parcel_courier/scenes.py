"""Simulated couriers: what `wirelake simulate --protocols parcel` plays.

Two real sessions talk in virtual time. Which frames are requests, responses or heartbeats follows
from the protocol's meaning, so a scene only says who sends what, and when.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

from wirelake.protocols.sansio import Role
from wirelake.traffic.scenes.provider import ProtocolScenes, Scenario
from wirelake.traffic.scenes.scene import EPOCH_MS, Actor, Scene, sentence

from .protocol import PROTOCOL, Answer, Ask, Hello, Notice, Status, Welcome
from .session import IDLE_S, ParcelSession, Received


def courier(scene: Scene) -> None:
    """Play one courier: sign on, scan parcels, receive notices, sign off."""
    client = ParcelSession(Role.CLIENT, idle_s=IDLE_S, now=scene.now)
    depot = ParcelSession(Role.SERVER, idle_s=IDLE_S, now=scene.now)
    connection = scene.connect(PROTOCOL.name, client, depot, delay_s=scene.delay(0.02, 0.5))
    name, token = scene.numbers.text("client"), scene.numbers.text("token")

    def serve(event: Any) -> None:
        reply: Welcome | Answer
        match event:
            case Received(number=number, body=Hello(token=given)):
                reply = Welcome(number) if given == token else _refusal(number)
            case Received(number=number, body=Ask(target="parcels/scan", body=body)):
                reply = Answer(number, Status.OK, body)
            case Received(number=number, body=Ask(target=target)):
                text = f"unknown service {target!r}"
                reply = Answer(number, Status.UNKNOWN_SERVICE, text.encode())
            case _:
                return
        if not scene.chance(0.02):  # the others are never answered
            connection.later(scene.delay(0.008), partial(depot.send, reply))

    def work() -> Actor:
        yield connection.round_trip_s
        if scene.chance(0.1):
            connection.act(partial(client.send, Hello(courier=name, token="expired")))
            yield 1.0
        connection.act(partial(client.send, Hello(courier=name, token=token)))
        yield 1.0
        for number in range(scene.rng.randint(5, 40)):
            target = "parcels/weigh" if number == 3 else "parcels/scan"  # one is unknown
            body = json.dumps({"parcel": number, "note": sentence(scene.rng)}).encode()
            connection.act(partial(client.send, Ask(target=target, body=body)))
            if scene.chance(0.2):
                connection.later(scene.delay(0.5), partial(depot.send, _notice(scene, number)))
            yield scene.delay(15.0)  # sometimes long enough for a ping
        yield 2.0
        connection.act(client.close)
        connection.close("client")

    connection.on_server = serve
    scene.start(work())


def _refusal(number: int) -> Answer:
    return Answer(number, Status.NOT_ALLOWED, b"sign-on failed")


def _notice(scene: Scene, number: int) -> Notice:
    now_ms = EPOCH_MS + int(scene.now * 1000)
    text = sentence(scene.rng).encode()
    return Notice(id=f"n{number}", topic="@depot", sent_ms=now_ms, type=0, content=text)


SCENES: Final = ProtocolScenes(
    PROTOCOL.name,
    scenarios=(Scenario("courier", courier, (PROTOCOL.name,)),),
    required=frozenset({"hello", "welcome"}),
)
