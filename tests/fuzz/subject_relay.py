"""Relay links to attack: two of one gateway or of one game server, with tunnels between them.

Keys of links are throw-away test values.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from tests.fuzz.subject import Subject
from tests.playbooks.tny.peer import EPOCH_MS, RELAY_CODECS

from wirelake.protocols.sansio import Session
from wirelake.protocols.tny.layout import (
    LinkClose,
    LinkOpen,
    LinkOpened,
    LinkPing,
    LinkPong,
    Message,
    Mode,
    RelayPacket,
    TunnelConnect,
    TunnelConnected,
    TunnelDisconnect,
    TunnelRelay,
    TunnelSwitchLink,
)
from wirelake.protocols.tny.limits import GatewayOptions, RegistryLimits, RelayServerOptions
from wirelake.protocols.tny.relay_gateway import GatewayLink, GatewayTunnels
from wirelake.protocols.tny.relay_link import RelayLink, TunnelKey
from wirelake.protocols.tny.relay_server import LinkRegistry, ServerLink

__all__ = ["Gateway", "Server", "make"]

INSTANCE = 1001
LIMIT = 1024
PER_LINK = 3
MOST = 5
_ROOM = 7 + LIMIT
_DIALECTS: Any = ("seed", "upstream", "auto")
_TUNNELS = range(20, 27)
_OPENINGS = tuple(LinkOpen(service="gate", instance=INSTANCE, key=f"key-{n}") for n in (1, 2))


@cache
def pool(dialect: str, gateway: bool) -> tuple[bytes, ...]:
    """Packets of every type, with the few ids that tunnels here have."""
    rng = Random(f"relay {dialect} {gateway}")
    ours = (
        (TunnelConnected, TunnelDisconnect, TunnelRelay, TunnelRelay, LinkPong, LinkPing)
        if gateway
        else (TunnelConnect, TunnelConnect, TunnelDisconnect, TunnelSwitchLink, TunnelRelay)
    )
    others = (LinkOpen, LinkOpened, LinkPing, LinkPong, TunnelConnect, TunnelConnected, LinkClose)
    kinds = [rng.choice(ours if rng.random() < 0.93 else others) for _ in range(400)]
    ips = (b"", bytes(4)) if dialect == "upstream" else (b"", bytes(4), bytes(16))
    return tuple(_encoded(dialect, _arguments(rng, kind, ips)) for kind in kinds)


def _encoded(dialect: str, arguments: Any) -> bytes:
    codec = RELAY_CODECS["upstream" if dialect == "upstream" else "seed"]
    packet = RelayPacket(id=7, time=EPOCH_MS, arguments=arguments)
    data: bytes = codec.encode_relay_packet(packet)
    return data


def _arguments(rng: Random, kind: Any, ips: tuple[bytes, ...]) -> Any:
    ids: dict[str, Any] = {
        "instance_id": INSTANCE if rng.random() < 0.9 else rng.randrange(1 << 62),
        "tunnel_id": rng.choice(_TUNNELS),
    }
    if kind is LinkOpen:
        return rng.choice(_OPENINGS)
    if kind is LinkOpened:
        return LinkOpened(result=rng.random() < 0.5)
    if kind in (LinkPing, LinkPong, LinkClose):
        return kind()
    if kind is TunnelConnect:
        return TunnelConnect(ip=rng.choice(ips), port=8080, **ids)
    if kind is TunnelConnected:
        return TunnelConnected(result=rng.random() < 0.8, **ids)
    if kind is TunnelRelay:
        mode = rng.choice((Mode.REQUEST, Mode.PUSH))
        message = Message(id=5, mode=mode, protocol=7, time=EPOCH_MS, body=b"body")
        return TunnelRelay(message=message, **ids)
    return kind(**ids)


class _Links(Subject):
    """What both ends have: a dialect, packets, and links."""

    gateway: bool

    def __init__(self, rng: Random):
        super().__init__(rng)
        self._dialect = rng.choice(_DIALECTS)
        self._pool = pool(self._dialect, self.gateway)
        self.links: list[RelayLink] = []

    def frame(self, session: Session) -> bytes:
        if session.state in {"new", "opening"} and self.rng.random() < 0.7:
            return self._opening(session)
        return self.rng.choice(self._pool)

    def _opening(self, session: Session) -> bytes:
        arguments: Any = LinkOpened(result=True)
        if not self.gateway:
            arguments = _OPENINGS[self.sessions.index(session)]
        return _encoded(self._dialect, arguments)

    def _reach(self) -> None:
        self.sessions = list(self.links)
        for link in self.links:
            if self.rng.random() < 0.8:
                link.receive(self._opening(link), self.now)

    def room(self, session: Session) -> int:  # noqa: ARG002
        return _ROOM

    def excess(self, session: Session) -> str:
        assert isinstance(session, RelayLink)
        count = len(session.tunnels)
        if count > PER_LINK:
            return f"tunnels {count}"
        return f"tunnels in all {self.count}" if self.count > MOST else ""

    @property
    def count(self) -> int:
        """Tunnels of all links and of none."""
        raise NotImplementedError

    def busy(self, session: Session) -> bool:
        assert isinstance(session, RelayLink)
        return bool(session.tunnels)

    def _close(self, session: Session) -> None:
        assert isinstance(session, RelayLink)
        if self.rng.random() < 0.3:
            session.close(now=self.now)
        else:
            session.ping(self.now)


class Gateway(_Links):
    """The gateway's end."""

    gateway = True

    def __init__(self, rng: Random):
        super().__init__(rng)
        self._users = GatewayTunnels(INSTANCE, max_tunnels=MOST)
        options = GatewayOptions(dialect=self._dialect, max_packet=LIMIT, max_tunnels=PER_LINK)
        self.links = [
            GatewayLink(
                self._users, service="game", opening=each, options=options, epoch_ms=EPOCH_MS
            )
            for each in _OPENINGS
        ]
        self._reach()
        for user in rng.sample(_TUNNELS, self.pick(0.2, 0.2, 0.3, 0.2)):
            self._users.connect("game", user, ip=bytes(4), port=8080)

    @property
    def count(self) -> int:
        return self._users.tunnel_count

    def act(self, session: Session) -> None:
        user = self.rng.choice(_TUNNELS)
        match self.pick(0.5, 0.3, 0.15):
            case 0:
                self._users.connect("game", user, ip=bytes(4), port=8080, now=self.now)
            case 1:
                self._users.relay("game", user, Message(id=5, protocol=7, body=b"b"), self.now)
            case 2:
                self._users.disconnect(user, self.now)
            case _:
                self._close(session)


class Server(_Links):
    """The game server's end."""

    gateway = False

    def __init__(self, rng: Random):
        super().__init__(rng)
        self._registry = LinkRegistry(RegistryLimits(max_links=2, max_tunnels=MOST))
        idle_limit_s = 20.0 if rng.random() < 0.5 else None
        options = RelayServerOptions(
            dialect=self._dialect, max_packet=LIMIT, max_tunnels=PER_LINK, idle_limit_s=idle_limit_s
        )
        self.links = [ServerLink(self._registry, options, epoch_ms=EPOCH_MS) for _ in _OPENINGS]
        self._reach()
        for link in self.links:
            for user in rng.sample(_TUNNELS, self.pick(0.2, 0.3, 0.3)):
                if link.active:
                    arguments = TunnelConnect(
                        instance_id=INSTANCE, tunnel_id=user, ip=bytes(4), port=8080
                    )
                    link.receive(_encoded(self._dialect, arguments), self.now)

    @property
    def count(self) -> int:
        return self._registry.tunnel_count

    def act(self, session: Session) -> None:
        key = TunnelKey(INSTANCE, self.rng.choice(_TUNNELS))
        match self.pick(0.6, 0.3):
            case 0:
                self._registry.relay(key, Message(id=5, protocol=7, body=b"b"), self.now)
            case 1:
                self._registry.disconnect(key, self.now)
            case _:
                self._close(session)

    def on_timer(self) -> None:
        self._registry.on_timer(self.now)
        self._registry.events()


def make(rng: Random) -> Subject:
    """Relay links in some state."""
    return Gateway(rng) if rng.random() < 0.5 else Server(rng)
