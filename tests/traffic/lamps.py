"""A protocol of another package, with simulated scenes: lamps that report and are switched."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from wirelake.traffic.scenes.provider import ProtocolScenes, Scenario
from wirelake.traffic.scenes.scene import Actor, CodecSession, Scene
from wirelake.wire import Protocol
from wirelake.wire.meaning import At, First, Meaning, Named
from wirelake.wire.types import U8, U64, Choice, Layout, Length16, Magic, String8, Tag8


class Hello(Layout):
    """A lamp signs on."""

    number: U64
    name: String8


class Switch(Layout):
    """A request."""

    number: U64
    level: U8


class Done(Layout):
    """The response to a request."""

    answers: U64
    status: String8


class LampFrame(Layout):
    """The frame of every message."""

    magic: ClassVar[Annotated[bytes, Magic(b"LAMP")]]
    length: ClassVar[Length16]
    type: ClassVar[Tag8]
    body: Annotated[Hello | Switch | Done, Choice({1: Hello, 2: Switch, 3: Done})]


PROTOCOL = Protocol(
    name="lamp",
    title="lamps",
    frame=LampFrame,
    port=9899,
    meaning=Meaning(
        kind=Named({"hello": "request", "switch": "request", "done": "response"}),
        message_id=First(At("hello.number"), At("switch.number")),
        reply_to=At("done.answers"),
        target=Named({"hello": "hello", "switch": "switch"}),
        status=At("done.status"),
        client=At("hello.name"),
    ),
)


def lamp(scene: Scene) -> None:
    """One lamp, which is switched on and off."""
    client, server = CodecSession(PROTOCOL, "c2s"), CodecSession(PROTOCOL, "s2c")
    connection = scene.connect("lamp", client, server, delay_s=0.01)
    name = scene.numbers.text("client")
    first = scene.numbers.span("u64be", 21)

    def switched(message: Any) -> None:
        if isinstance(message, Switch):
            answer = Done(answers=message.number, status="ok")
            connection.later(scene.delay(0.02), lambda: client.send(answer))

    def signed_on(message: Any) -> None:
        if isinstance(message, Hello):
            answer = Done(answers=message.number, status="ok")
            connection.later(scene.delay(0.01), lambda: server.send(answer))

    connection.on_client, connection.on_server = switched, signed_on

    def run() -> Actor:
        yield connection.round_trip_s
        connection.act(lambda: client.send(Hello(number=first, name=name)))
        for number in range(first + 1, first + 21):
            yield scene.delay(1.0)
            switch = Switch(number=number, level=scene.rng.randrange(256))
            connection.act(lambda switch=switch: server.send(switch))
        yield 5.0
        connection.close("client")

    scene.start(run())


SCENES = ProtocolScenes(
    "lamp",
    scenarios=(Scenario("lamp", lamp, ("lamp",)),),
    id_form="u64be",
    required=frozenset({"hello"}),
)
BROKEN = "no scenes"
CLASHING = ProtocolScenes("lamp", scenarios=(Scenario("phone", lamp, ("lamp",)),))
