"""Game clients on tny: directly at a game server, and through a gateway's link (RelayPack).

A gateway takes its users' packets, and hands the messages on to the game server in tunnels, several
on one link. The answer comes back in the tunnel and goes out in a packet of the user's connection,
so that the same call is seen twice: at the user's connection, and in the tunnel.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from wirelake.protocols.sansio import Event
from wirelake.protocols.tny.layout import (
    LinkOpen,
    Message,
    Mode,
)
from wirelake.protocols.tny.limits import ClientOptions
from wirelake.protocols.tny.relay import (
    GatewayLink,
    GatewayTunnels,
    LinkRegistry,
    LinkUp,
    Relayed,
    ServerLink,
    TunnelKey,
)
from wirelake.protocols.tny.session import (
    ClientSession,
    Pushed,
    Replied,
    Requested,
    ServerSession,
)

from ..clock import EPOCH_MS
from .scene import (
    Actor,
    Line,
    Scene,
)
from .vocabulary import blob

__all__ = ["game", "gateway"]

_LOGIN: Final = 1001
_CALLS: Final = {1001: 0.020, 2002: 0.004, 2004: 0.009, 3001: 0.030, 3007: 0.060, 4100: 0.0025}
"""Protocol numbers, and the median time that each takes."""
_PUSHES: Final = (2003, 2005, 5001)
_FAILURES: Final = (205, 200, 2102)
"""Codes of answers that are no success and keep the connection."""
_SERVICE: Final = "game"


def game(scene: Scene) -> None:
    """One client and a game server."""
    player = _Player(scene)
    server = ServerSession(first_id=player.server_ids, epoch_ms=EPOCH_MS, now=scene.now)
    line = player.dial(server)
    court = _Court(scene)

    def heard(event: Event) -> None:
        if isinstance(event, Requested):
            asked = event.message
            fate = court.fate(asked)
            if fate is not None:
                delay_s, code, body = fate
                line.later(delay_s, lambda: server.respond(asked, body, code=code))

    line.on_server = heard

    def pushes() -> Actor:
        while True:
            yield scene.think(1.2)
            if line.over:
                return
            if player.signed_on:
                body = blob(scene.rng, 50)
                line.act(partial(server.push, scene.pick(*_PUSHES), body, now=scene.now))

    scene.play(player.live())
    scene.play(pushes())


class _Court:
    """How a game server answers."""

    def __init__(self, scene: Scene):
        self.scene = scene

    def fate(self, asked: Message) -> tuple[float, int, bytes | None] | None:
        """Delay, code and body of the answer; None when there will be none."""
        scene = self.scene
        chance = scene.rng.random()
        if chance < 0.02 and asked.protocol != _LOGIN:
            return None
        delay_s = scene.think(_CALLS.get(asked.protocol, 0.003), 0.5)
        if chance < 0.06 and asked.protocol != _LOGIN:
            return delay_s, scene.pick(*_FAILURES), None
        return delay_s, 100, blob(scene.rng, 70, 12_000)


class _Player:
    """A game client: signs on, then asks in bursts, with several requests under way."""

    def __init__(self, scene: Scene, *, host: int = 0, most: int = 50):
        self.scene = scene
        self.host = host
        self.calls = scene.rng.randint(8, most)
        first = scene.numbers.span("varint", self.calls + 400)
        self.access_id = first
        self.server_ids = first + self.calls + 8
        self.client = ClientSession(
            ClientOptions(ping_interval_s=scene.pick(None, 8.0, 15.0)),
            access_id=self.access_id,
            first_id=first + 1,
            epoch_ms=EPOCH_MS,
            now=scene.now,
        )
        self.signed_on = False
        self.line: Line

    def dial(self, server: ServerSession, *, seen: bool = True) -> Line:
        """Connects to whoever serves it."""
        delay_s = self.scene.think(0.015, 0.5)
        self.line = self.scene.dial(
            "tny", self.client, server, host=self.host, delay_s=delay_s, seen=seen
        )
        self.line.on_client = self._heard
        return self.line

    def _heard(self, event: Event) -> None:
        if isinstance(event, Replied | Pushed):
            self.signed_on = True

    def live(self) -> Actor:
        """From the first packet to the last."""
        scene, line, client = self.scene, self.line, self.client
        yield line.round_trip_s
        self._ask(_LOGIN)
        yield scene.think(0.5)
        for _ in range(self.calls - 1):
            self._ask(scene.pick(*_CALLS))
            if scene.chance(0.55):
                yield scene.think(0.9)
        yield 11.0
        line.act(client.close)
        line.close(scene.pick("client", "client", "client", "server", "reset"))

    def _ask(self, protocol: int) -> None:
        body = blob(self.scene.rng, 45) if self.scene.chance(0.9) else None
        number = self.scene.pick(0, 0, 0, 1, 2)
        self.line.act(lambda: self.client.request(protocol, body, line=number, now=self.scene.now))


# -- through a gateway -------------------------------------------------------------------------


def gateway(scene: Scene, *, users_seen: bool = True) -> None:
    """A gateway with one link to a game server, and a few users that come and go."""
    instance = scene.numbers.span("i64le")
    tunnels, registry = GatewayTunnels(instance), LinkRegistry()
    opening = LinkOpen(service="gate", instance=instance, key=scene.numbers.text("key16"))
    near = GatewayLink(tunnels, service=_SERVICE, opening=opening, epoch_ms=EPOCH_MS, now=scene.now)
    far = ServerLink(registry, epoch_ms=EPOCH_MS, now=scene.now)
    link = scene.dial("relay", near, far, host=0, delay_s=scene.think(0.0004, 0.3))
    house = _House(scene, link, tunnels, registry, users_seen)
    link.on_client, link.on_server = house.from_server, house.from_gateway
    scene.play(house.live(scene.rng.randint(2, 4)))


class _House:
    """What a gateway and its game server do."""

    def __init__(
        self,
        scene: Scene,
        link: Line,
        tunnels: GatewayTunnels,
        registry: LinkRegistry,
        users_seen: bool,
    ):
        self.scene = scene
        self.link = link
        self.tunnels = tunnels
        self.registry = registry
        self.users_seen = users_seen
        self.users: dict[int, ServerSession] = {}
        self.court = _Court(scene)
        self.up = False
        self.left = 0
        """Users that are gone."""

    def live(self, users: int) -> Actor:
        """The link opens, users come and go, the link closes."""
        yield self.link.round_trip_s
        self.link.act(lambda: None)  # LINK_OPEN has waited for the connection
        while not self.up:
            yield 0.01
        players = [self._user(n) for n in range(1, users + 1)]
        while self.left < len(players):
            yield 1.0
        near = self.link.client
        assert isinstance(near, GatewayLink)
        self.link.act(near.close)
        yield 1.0
        self.link.close("client", "link_close")

    def _user(self, host: int) -> _Player:
        scene = self.scene
        player = _Player(scene, host=host, most=14)
        door = ServerSession(first_id=player.server_ids, epoch_ms=EPOCH_MS, now=scene.now)
        tunnel = scene.numbers.span("i64le")
        line = player.dial(door, seen=self.users_seen)
        self.users[tunnel] = door
        line.on_server = lambda event: self._from_user(tunnel, event)

        def stay() -> Actor:
            address = bytes((100, 64, host, scene.rng.randint(1, 254)))
            port = scene.rng.randint(20_000, 60_000)
            self.link.act(lambda: self.tunnels.connect(_SERVICE, tunnel, ip=address, port=port))
            scene.play(player.live())
            while not line.over:
                yield 0.7
                if player.signed_on and scene.chance(0.4):
                    self._push(tunnel, player)
            yield 0.3
            self.link.act(lambda: self.tunnels.disconnect(tunnel))
            self.left += 1

        scene.play(stay())
        return player

    def _from_user(self, tunnel: int, event: Event) -> None:
        if isinstance(event, Requested):
            self.link.act(lambda: self.tunnels.relay(_SERVICE, tunnel, event.message))

    def from_gateway(self, event: Event) -> None:
        """The game server hears a message of a tunnel."""
        if not isinstance(event, Relayed) or event.message.mode != Mode.REQUEST:
            return
        fate = self.court.fate(event.message)
        if fate is None:
            return
        delay_s, code, body = fate
        self.link.later(delay_s, lambda: self._respond(event.key, event.message, code, body))

    def _respond(self, key: TunnelKey, asked: Message, code: int, body: bytes | None) -> None:
        if self.registry.tunnel(key) is None:
            return
        door = self.users[key.tunnel_id]
        answer = Message(
            id=door.next_id,
            mode=Mode.RESPONSE,
            protocol=asked.protocol,
            code=code,
            to_message=asked.id,
            time=EPOCH_MS + int(self.scene.now * 1000),
            line=asked.line,
            body=body,
        )
        door.next_id += 1
        self.registry.relay(key, answer, self.scene.now)

    def _push(self, tunnel: int, player: _Player) -> None:
        key = self.tunnels.key(tunnel)
        if self.registry.tunnel(key) is None or player.line.over:
            return
        door = self.users[tunnel]
        push = Message(
            id=door.next_id,
            mode=Mode.PUSH,
            protocol=self.scene.pick(*_PUSHES),
            time=EPOCH_MS + int(self.scene.now * 1000),
            body=blob(self.scene.rng, 50),
        )
        door.next_id += 1
        self.link.act(lambda: self.registry.relay(key, push, self.scene.now))

    def from_server(self, event: Event) -> None:
        """The gateway hears: its link is up, or a message is for a user."""
        if isinstance(event, LinkUp):
            self.up = True
        if not isinstance(event, Relayed):
            return
        door = self.users[event.key.tunnel_id]
        line = next(each for each in self.scene.lines if each.server is door)
        if not line.over:
            line.act(lambda: door.send(event.message))
