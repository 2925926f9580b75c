"""Scenes: sessions in virtual time, with a tap beside the server."""

from __future__ import annotations

import random

from wirelake.protocols.esnp.layout import Payload
from wirelake.protocols.esnp.session import Announced, EsnpSession
from wirelake.protocols.sansio import Event, Role
from wirelake.protocols.tny.limits import ClientOptions
from wirelake.protocols.tny.session import ClientSession, ServerSession
from wirelake.traffic.packets.numbers import Numbers
from wirelake.traffic.scenes.scene import C2S, S2C, Actor, Scene, SceneConnection


def _scene() -> Scene:
    return Scene(random.Random(1), Numbers(1))


def _connection(scene: Scene) -> SceneConnection:
    client, server = EsnpSession(Role.CLIENT), EsnpSession(Role.SERVER)
    return scene.connect("esnp", client, server, delay_s=0.25)


def _say(connection: SceneConnection, text: bytes, by_server: bool = False) -> None:
    session = connection.server if by_server else connection.client
    assert isinstance(session, EsnpSession)
    connection.act(lambda: session.announce([Payload(data=text)]))


def test_things_happen_in_order_of_time() -> None:
    scene, done = _scene(), []
    scene.after(2.0, lambda: done.append("b"))
    scene.after(1.0, lambda: done.append("a"))
    scene.after(2.0, lambda: done.append("c"))
    scene.run()
    assert done == ["a", "b", "c"]
    assert scene.now == 2.0


def test_actors_wait() -> None:
    scene, seen = _scene(), []

    def actor() -> Actor:
        for _ in range(3):
            seen.append(scene.now)
            yield 1.5

    scene.start(actor())
    scene.run()
    assert seen == [0.0, 1.5, 3.0]


def test_the_tap_sees_what_arrives_at_the_server_and_what_leaves_it() -> None:
    scene = _scene()
    connection = _connection(scene)
    heard: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, Announced):
            heard.append(scene.now)

    connection.on_client = listen
    scene.after(1.0, lambda: _say(connection, b"up"))
    scene.after(2.0, lambda: _say(connection, b"down", by_server=True))
    scene.run()
    data = [each for each in scene.events if each.kind == "data"]
    assert [(each.at, each.direction) for each in data] == [(1.25, C2S), (2.0, S2C)]
    assert heard == [2.25]
    assert connection.streams[C2S].count(b"up") == connection.streams[S2C].count(b"down") == 1


def test_nothing_is_seen_after_the_end() -> None:
    scene = _scene()
    connection = _connection(scene)
    scene.after(1.0, lambda: connection.close("client"))
    scene.after(5.0, lambda: _say(connection, b"late", by_server=True))
    connection.later(6.0, lambda: _say(connection, b"later"))
    scene.run()
    assert [each.kind for each in scene.events] == ["open", "close"]
    assert scene.events[-1].reason == "eof"


def test_data_in_flight_arrives_before_a_close() -> None:
    scene = _scene()
    connection = _connection(scene)

    def leave() -> None:
        _say(connection, b"bye")
        connection.close("client")

    scene.after(1.0, leave)
    scene.run()
    assert [each.kind for each in scene.events] == ["open", "data", "close"]


def test_timers_of_sessions_come_due() -> None:
    scene = _scene()
    client = ClientSession(ClientOptions(ping_interval_s=10.0))
    connection = scene.connect("tny", client, ServerSession())
    connection.act(lambda: client.request(1))
    scene.after(35.0, lambda: connection.close("client"))
    scene.run()
    pings = [each for each in scene.events if each.stop - each.start == 9]
    assert len(pings) == 6


def test_an_uncaptured_connection_has_no_events() -> None:
    scene = _scene()
    sessions = EsnpSession(Role.CLIENT), EsnpSession(Role.SERVER)
    connection = scene.connect("esnp", *sessions, captured=False)
    scene.after(1.0, lambda: _say(connection, b"x"))
    scene.after(2.0, lambda: connection.close("server"))
    scene.run()
    assert scene.events == []
    assert connection.streams[C2S]


def test_chance_follows_the_seed() -> None:
    one, two = _scene(), _scene()
    assert [one.delay(1.0) for _ in range(5)] == [two.delay(1.0) for _ in range(5)]
    assert one.chance(1.0)
    assert not one.chance(0.0)
    assert one.pick("a") == "a"
