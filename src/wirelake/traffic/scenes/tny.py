"""Game clients on tny: connected to a game server, or through a gateway's link (RelayPack).

A gateway receives its users' packets and forwards the messages to the game server in tunnels,
several on one link. The response comes back in the tunnel and leaves in a packet of the user's
connection, so the tap sees the same call twice: on the user's connection and in the tunnel.
"""

from __future__ import annotations

import ipaddress
from functools import partial
from typing import Any, Final

from wirelake.protocols.sansio import Event
from wirelake.protocols.tny import codec_seed, layout
from wirelake.protocols.tny.layout import LinkOpen, Message, Mode
from wirelake.protocols.tny.limits import ClientOptions
from wirelake.protocols.tny.message import ResultCode
from wirelake.protocols.tny.relay_gateway import GatewayLink, GatewayTunnels
from wirelake.protocols.tny.relay_link import LinkUp, Relayed, TunnelKey
from wirelake.protocols.tny.relay_server import LinkRegistry, ServerLink
from wirelake.protocols.tny.session import ClientSession, Pushed, Replied, Requested, ServerSession
from wirelake.protocols.tny.transform import Opener
from wirelake.wire.model import Direction

from ..packets.numbers import TUNNEL_FORM, encode_integer
from .provider import Frame, MessageInfo, ProtocolScenes, Scenario, Tunnelled
from .scene import EPOCH_MS, Actor, Scene, SceneConnection, blob

__all__ = ["SCENES", "game", "gateway"]

_ID_FORM: Final = "varint"

_LOGIN: Final = 1001
_CALLS: Final = {1001: 0.020, 2002: 0.004, 2004: 0.009, 3001: 0.030, 3007: 0.060, 4100: 0.0025}
"""Protocol numbers, with the median time of each."""
_PUSHES: Final = (2003, 2005, 5001)
_FAILURES: Final = (int(ResultCode.NO_SUCH_PROTOCOL), int(ResultCode.SERVER_ERROR), 2102)
"""Error codes after which the connection stays open."""
_SERVICE: Final = "game"


def game(scene: Scene) -> None:
    """Play one client and a game server."""
    player = _Player(scene)
    server = ServerSession(first_id=player.server_ids, epoch_ms=EPOCH_MS, now=scene.now)
    connection = player.connect(server)
    responder = _Responder(scene)

    def on_request(event: Event) -> None:
        if isinstance(event, Requested):
            asked = event.message
            outcome = responder.outcome(asked)
            if outcome is not None:
                delay_s, code, body = outcome
                connection.later(delay_s, lambda: server.respond(asked, body, code=code))

    connection.on_server = on_request

    def pushes() -> Actor:
        while True:
            yield scene.delay(1.2)
            if connection.closed:
                return
            if player.signed_on:
                body = blob(scene.rng, 50)
                connection.act(partial(server.push, scene.pick(*_PUSHES), body, now=scene.now))

    scene.start(player.run())
    scene.start(pushes())


class _Responder:
    """How a game server responds."""

    def __init__(self, scene: Scene):
        self.scene = scene

    def outcome(self, asked: Message) -> tuple[float, int, bytes | None] | None:
        """Return delay, code and body of a response; None for no response."""
        scene = self.scene
        chance = scene.rng.random()
        if chance < 0.02 and asked.protocol != _LOGIN:
            return None
        delay_s = scene.delay(_CALLS.get(asked.protocol, 0.003), 0.5)
        if chance < 0.06 and asked.protocol != _LOGIN:
            return delay_s, scene.pick(*_FAILURES), None
        return delay_s, layout.SUCCESS, blob(scene.rng, 70, 12_000)


class _Player:
    """A game client: signs on, then sends bursts of requests, several in flight."""

    def __init__(self, scene: Scene, *, host: int = 0, most: int = 50):
        self.scene = scene
        self.host = host
        self.calls = scene.rng.randint(8, most)
        first = scene.numbers.span(_ID_FORM, self.calls + 400)
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
        self.connection: SceneConnection

    def connect(self, server: ServerSession, *, captured: bool = True) -> SceneConnection:
        """Connect to a server session."""
        delay_s = self.scene.delay(0.015, 0.5)
        self.connection = self.scene.connect(
            "tny", self.client, server, host=self.host, delay_s=delay_s, captured=captured
        )
        self.connection.on_client = self._on_client
        return self.connection

    def _on_client(self, event: Event) -> None:
        if isinstance(event, Replied | Pushed):
            self.signed_on = True

    def run(self) -> Actor:
        """Sign on, send requests, close."""
        scene, connection, client = self.scene, self.connection, self.client
        yield connection.round_trip_s
        self._request(_LOGIN)
        yield scene.delay(0.5)
        for _ in range(self.calls - 1):
            self._request(scene.pick(*_CALLS))
            if scene.chance(0.55):
                yield scene.delay(0.9)
        yield 11.0
        connection.act(client.close)
        connection.close(scene.pick("client", "client", "client", "server", "reset"))

    def _request(self, protocol: int) -> None:
        body = blob(self.scene.rng, 45) if self.scene.chance(0.9) else None
        number = self.scene.pick(0, 0, 0, 1, 2)
        self.connection.act(
            lambda: self.client.request(protocol, body, line=number, now=self.scene.now)
        )


# -- through a gateway -------------------------------------------------------------------------


def gateway(scene: Scene, *, users_captured: bool = True) -> None:
    """Play a gateway with one link to a game server, and a few users."""
    instance = scene.numbers.span(TUNNEL_FORM)
    tunnels, registry = GatewayTunnels(instance), LinkRegistry()
    opening = LinkOpen(service="gate", instance=instance, key=scene.numbers.text("key16"))
    near = GatewayLink(tunnels, service=_SERVICE, opening=opening, epoch_ms=EPOCH_MS, now=scene.now)
    far = ServerLink(registry, epoch_ms=EPOCH_MS, now=scene.now)
    link = scene.connect("relay", near, far, host=0, delay_s=scene.delay(0.0004, 0.3))
    process = _Gateway(scene, link, tunnels, registry, users_captured)
    link.on_client, link.on_server = process.from_server, process.from_gateway
    scene.start(process.run(scene.rng.randint(2, 4)))


class _Gateway:
    """A gateway and its game server."""

    def __init__(
        self,
        scene: Scene,
        link: SceneConnection,
        tunnels: GatewayTunnels,
        registry: LinkRegistry,
        users_captured: bool,
    ):
        self.scene = scene
        self.link = link
        self.tunnels = tunnels
        self.registry = registry
        self.users_captured = users_captured
        self.users: dict[int, ServerSession] = {}
        self.responder = _Responder(scene)
        self.up = False
        self.gone = 0
        """Users that have disconnected."""

    def run(self, users: int) -> Actor:
        """Open the link, serve the users, close the link."""
        yield self.link.round_trip_s
        self.link.act(lambda: None)  # LINK_OPEN has waited for the connection
        while not self.up:
            yield 0.01
        players = [self._user(n) for n in range(1, users + 1)]
        while self.gone < len(players):
            yield 1.0
        near = self.link.client
        assert isinstance(near, GatewayLink)
        self.link.act(near.close)
        yield 1.0
        self.link.close("client", "link_close")

    def _user(self, host: int) -> _Player:
        scene = self.scene
        player = _Player(scene, host=host, most=14)
        session = ServerSession(first_id=player.server_ids, epoch_ms=EPOCH_MS, now=scene.now)
        tunnel = scene.numbers.span(TUNNEL_FORM)
        connection = player.connect(session, captured=self.users_captured)
        self.users[tunnel] = session
        connection.on_server = lambda event: self._from_user(tunnel, event)

        def stay() -> Actor:
            address = bytes((100, 64, host, scene.rng.randint(1, 254)))
            port = scene.rng.randint(20_000, 60_000)
            self.link.act(lambda: self.tunnels.connect(_SERVICE, tunnel, ip=address, port=port))
            scene.start(player.run())
            while not connection.closed:
                yield 0.7
                if player.signed_on and scene.chance(0.4):
                    self._push(tunnel, player)
            yield 0.3
            self.link.act(lambda: self.tunnels.disconnect(tunnel))
            self.gone += 1

        scene.start(stay())
        return player

    def _from_user(self, tunnel: int, event: Event) -> None:
        if isinstance(event, Requested):
            self.link.act(lambda: self.tunnels.relay(_SERVICE, tunnel, event.message))

    def from_gateway(self, event: Event) -> None:
        """Handle a message that the game server receives in a tunnel."""
        if not isinstance(event, Relayed) or event.message.mode != Mode.REQUEST:
            return
        outcome = self.responder.outcome(event.message)
        if outcome is None:
            return
        delay_s, code, body = outcome
        self.link.later(delay_s, lambda: self._respond(event.key, event.message, code, body))

    def _respond(self, key: TunnelKey, asked: Message, code: int, body: bytes | None) -> None:
        if self.registry.tunnel(key) is None:
            return
        session = self.users[key.tunnel_id]
        answer = Message(
            id=session.next_id,
            mode=Mode.RESPONSE,
            protocol=asked.protocol,
            code=code,
            to_message=asked.id,
            time=EPOCH_MS + int(self.scene.now * 1000),
            line=asked.line,
            body=body,
        )
        session.next_id += 1
        self.registry.relay(key, answer, self.scene.now)

    def _push(self, tunnel: int, player: _Player) -> None:
        key = self.tunnels.key(tunnel)
        if self.registry.tunnel(key) is None or player.connection.closed:
            return
        session = self.users[tunnel]
        push = Message(
            id=session.next_id,
            mode=Mode.PUSH,
            protocol=self.scene.pick(*_PUSHES),
            time=EPOCH_MS + int(self.scene.now * 1000),
            body=blob(self.scene.rng, 50),
        )
        session.next_id += 1
        self.link.act(lambda: self.registry.relay(key, push, self.scene.now))

    def from_server(self, event: Event) -> None:
        """Handle an event of the gateway: the link is up, or a message for a user arrived."""
        if isinstance(event, LinkUp):
            self.up = True
        if not isinstance(event, Relayed):
            return
        session = self.users[event.key.tunnel_id]
        connection = next(each for each in self.scene.connections if each.server is session)
        if not connection.closed:
            connection.act(lambda: session.send(event.message))


# -- reading back ------------------------------------------------------------------------------

_MODES: Final = ("request", "response", "push")
_TUNNEL_HEAD_BYTES: Final = 36
"""Bytes of a TUNNEL_RELAY before the message that it carries."""
_TUNNEL_EVENTS: Final[dict[type, str]] = {
    layout.TunnelConnect: "connect",
    layout.TunnelConnected: "connected",
    layout.TunnelDisconnect: "disconnect",
}
_RELAY: Final[dict[type, tuple[str, str]]] = {
    layout.LinkOpen: ("control", "link_open"),
    layout.LinkOpened: ("control", "link_opened"),
    layout.LinkClose: ("control", "link_close"),
    layout.LinkPing: ("heartbeat", "link_ping"),
    layout.LinkPong: ("heartbeat", "link_pong"),
    layout.TunnelConnect: ("control", "tunnel_connect"),
    layout.TunnelConnected: ("control", "tunnel_connected"),
    layout.TunnelDisconnect: ("control", "tunnel_disconnect"),
    layout.TunnelSwitchLink: ("control", "tunnel_switch_link"),
    layout.TunnelRelay: ("relay", "tunnel_relay"),
}


def _message(frame: Frame, message: Message) -> MessageInfo:
    mode = _MODES[message.mode]
    info = MessageInfo(mode, mode, message.id, target=str(message.protocol))
    if mode == "response":
        info.reply_to = message.to_message
        info.status = "ok" if message.code == layout.SUCCESS else str(message.code)
    info.body_bytes = None if message.body is None else len(message.body)
    frame.ids.append(encode_integer(_ID_FORM, message.id))
    if message.to_message:
        frame.ids.append(encode_integer(_ID_FORM, message.to_message))
    frame.times.append(("varint", encode_integer("varint", message.time), ""))
    return info


def _describe(_: ProtocolScenes, frame: Frame) -> None:
    body = frame.message.body
    if isinstance(body, layout.Envelope):
        message, _stop = codec_seed.read_message(body.content, 0, len(body.content))
        frame.ids.append(encode_integer(_ID_FORM, body.access_id))
        frame.info = _message(frame, message)
    else:
        is_ping = isinstance(body, layout.Ping)
        frame.info = MessageInfo("heartbeat", "ping" if is_ping else "pong", heartbeat=is_ping)


def _describe_relay(_: ProtocolScenes, frame: Frame) -> None:
    packet = frame.message
    found = packet.arguments
    kind, name = _RELAY[type(found)]
    info = frame.info = MessageInfo(kind, name, packet.id)
    info.heartbeat = isinstance(found, layout.LinkPing)
    frame.times.append(("i64le", encode_integer("i64le", packet.time), ""))
    if isinstance(found, layout.LinkOpen):
        frame.ids += [encode_integer(TUNNEL_FORM, found.instance), found.key.encode()]
    elif name.startswith("tunnel_"):
        tunnel = info.tunnel = (found.instance_id, found.tunnel_id)
        info.tunnel_event = _TUNNEL_EVENTS.get(type(found))
        frame.ids += [encode_integer(TUNNEL_FORM, each) for each in tunnel]
    if isinstance(found, layout.TunnelConnect):
        info.tunnel_user = str(ipaddress.ip_address(found.ip)), found.port
    if isinstance(found, layout.TunnelRelay):
        size = frame.stop - frame.start - _TUNNEL_HEAD_BYTES
        frame.inner = Tunnelled("tny", _message(frame, found.message), size)


def _check(message: Any, raw: bytes, direction: Direction) -> None:
    """Raise WireError where the envelope is good and the message in it is not."""
    Opener({}, direction, "seed").open(message, raw)


SCENES: Final = (
    ProtocolScenes(
        "tny",
        scenarios=(Scenario("game", game, ("tny",), 0.7, 1.0, position=4),),
        describe=_describe,
        id_form=_ID_FORM,
        head_bytes=9,
        check=_check,
    ),
    ProtocolScenes(
        "relay",
        scenarios=(
            Scenario(
                "gateway", gateway, ("relay", "tny"), 1.3, 0.6, position=5, replaces=("link",)
            ),
            Scenario("link", partial(gateway, users_captured=False), ("relay",), position=7),
        ),
        describe=_describe_relay,
        required=frozenset(
            {
                "link_open",
                "link_opened",
                "link_close",
                "tunnel_connect",
                "tunnel_connected",
                "tunnel_disconnect",
            }
        ),
        head_bytes=20,
    ),
)
"""Simulated tny traffic, and that of its relay links."""
