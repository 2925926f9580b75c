"""Live clients on tny: players, and gateways whose users call through tunnels (RelayPack)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import struct
import time
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar, Final

from wirelake.protocols.hub_calls import SUBSCRIBE
from wirelake.protocols.sansio import Closed, Event
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny import session as tny_session
from wirelake.protocols.tny.binding import BINDING
from wirelake.protocols.tny.relay_gateway import GatewayLink, GatewayTunnels
from wirelake.protocols.tny.relay_link import LinkPonged, LinkUp, Relayed, TunnelAnswered

from ...plan import SimulateError
from ..calling import (
    Caller,
    CallingClient,
    CallingPopulation,
    SubscribedCaller,
    make_calls,
    operation_numbers,
    stay_s,
    together,
)
from ..connection import ClientConnection, RunContext
from ..journal import Journal
from ..population import (
    ClientNames,
    ClientPopulation,
    ConnectedSubscriber,
    MalformedFrame,
    Topics,
    scaled,
)

__all__ = ["POPULATIONS", "Gateway", "Player", "TunnelUser"]

_PROTOCOL: Final = "tny"
_PROTOCOLS: Final = operation_numbers(BINDING)
"""Protocol numbers of messages by operation."""
_SERVICE: Final = "game"
_GOODBYE: Final = "goodbye"


def _on_response(caller: Caller, response: Any, read_ns: int) -> None:
    """Handle a response that came directly or in a tunnel."""
    status = "ok" if response.code == tny.SUCCESS else str(response.code)
    result = json.loads(response.body or b"{}")
    caller.on_response(response.to_message, status, read_ns, result)


class Player(CallingClient):
    """A game client."""

    protocol: ClassVar[str] = _PROTOCOL

    def __init__(self, journal: Journal, rng: random.Random):
        now = asyncio.get_running_loop().time()
        session = tny_session.ClientSession(
            access_id=rng.randrange(1, 1 << 31),
            epoch_ms=int(time.time() * 1000 - now * 1000),
            random=os.urandom,
            now=now,
        )
        super().__init__(journal, session)

    def send_request(self, operation: str, arguments: dict[str, Any]) -> tuple[str, int]:
        """Send a request whose body is JSON."""
        number = _PROTOCOLS[operation]
        body = json.dumps(arguments).encode()
        found = self.session.request(number, body, now=self.loop.time())
        self.entry.sent("request", "request")
        return str(number), found

    def on_event(self, event: Event) -> None:
        """Handle a response or a push."""
        if isinstance(event, tny_session.Replied):
            self.entry.received("response", "response")
            _on_response(self, event.response, self.read_ns)
        elif isinstance(event, tny_session.Pushed):
            self.entry.received("push", "push")
            if event.message.protocol:  # 0 belongs to the protocol: why the hub closes
                self.on_notification(str(json.loads(event.message.body or b"{}")["id"]))


# -- gateways --------------------------------------------------------------------------------


class Gateway(ClientConnection):
    """One link to the hub, and the tunnels on it."""

    protocol: ClassVar[str] = "relay"
    session: GatewayLink

    def __init__(self, journal: Journal, instance: int, key: str):
        self.tunnels = GatewayTunnels(instance)
        now = asyncio.get_running_loop().time()
        session = GatewayLink(
            self.tunnels,
            service=_SERVICE,
            opening=tny.LinkOpen(service="gate", instance=instance, key=key),
            epoch_ms=int(time.time() * 1000 - now * 1000),
            now=now,
        )
        super().__init__(journal, session)
        self.up: asyncio.Future[None] = self.loop.create_future()
        """Done when the link is open."""
        self.pings = 0
        """Pings without a response."""
        self._users: dict[int, TunnelUser] = {}

    async def open(self) -> None:
        """Send LINK_OPEN, which the session has written already, and wait for the response."""
        self.entry.sent("control", "link_open")
        self.flush()
        await self.wait_for(self.up)

    async def open_tunnel(self, tunnel_id: int) -> TunnelUser:
        """Connect a user: TUNNEL_CONNECT."""
        user = TunnelUser(self, tunnel_id)
        self._users[tunnel_id] = user
        self.tunnels.connect(_SERVICE, tunnel_id, ip=user.ip, port=user.port, now=self.loop.time())
        self.entry.sent("control", "tunnel_connect")
        self.flush()
        await self.wait_for(user.connected)
        return user

    def close_tunnel(self, tunnel_id: int) -> None:
        """Disconnect a user: TUNNEL_DISCONNECT."""
        del self._users[tunnel_id]
        self.tunnels.disconnect(tunnel_id, now=self.loop.time())
        self.entry.sent("control", "tunnel_disconnect")
        self.flush()

    def ping(self) -> None:
        """Send LINK_PING."""
        self.check()
        self.pings += 1
        self.session.ping(self.loop.time())
        self.entry.sent("heartbeat", "link_ping")
        self.entry.heartbeats += 1
        self.flush()

    async def close(self) -> None:
        """Send LINK_CLOSE; the hub answers and closes the connection."""
        self.closing = True
        self.session.close(_GOODBYE, now=self.loop.time())
        self.entry.sent("control", "link_close")
        self.entry.close_reason = "link_close"
        self.flush()
        await self.wait_closed()

    def relay(self, tunnel_id: int, message: tny.Message) -> None:
        """Send a message of a user."""
        self.check()
        self.tunnels.relay(_SERVICE, tunnel_id, message, now=self.loop.time())
        self.entry.sent("relay", "tunnel_relay")

    def on_event(self, event: Event) -> None:
        """Handle an event of the link, or a message in a tunnel."""
        if isinstance(event, LinkUp):
            self.entry.received("control", "link_opened")
            self.complete(self.up)
        elif isinstance(event, LinkPonged):
            self.pings -= 1
            self.entry.received("heartbeat", "link_pong")
        elif isinstance(event, TunnelAnswered):
            self.entry.received("control", "tunnel_connected")
            self.complete(self._users[event.key.tunnel_id].connected)
        elif isinstance(event, Relayed):
            self.entry.received("relay", "tunnel_relay")
            self._users[event.key.tunnel_id].on_message(event.message, self.read_ns)

    def on_closed(self, event: Closed) -> None:
        """Handle the hub's response to LINK_CLOSE."""
        if self.closing and event.reason == _GOODBYE:
            self.entry.received("control", "link_close")
            self.transport.close()

    def on_disconnect(self) -> None:
        """Fail everything in flight."""
        for each in self._users.values():
            each.fail_calls()
        for future in (self.up, *(each.connected for each in self._users.values())):
            self.fail(future)


class TunnelUser(SubscribedCaller):
    """A player behind a gateway."""

    def __init__(self, gateway: Gateway, tunnel_id: int):
        super().__init__()
        self.journal = gateway.journal
        instance = gateway.tunnels.instance_id
        self.entry = gateway.journal.tunnel(_PROTOCOL, gateway.entry, instance, tunnel_id)
        self.ip = bytes((10, 7, tunnel_id >> 8 & 0xFF, tunnel_id & 0xFF))
        self.port = 20_000 + tunnel_id % 40_000
        self.entry.address, self.entry.port = ".".join(map(str, self.ip)), self.port
        self.connected: asyncio.Future[None] = gateway.loop.create_future()
        """Done when the hub has opened the tunnel."""
        self._gateway = gateway
        self._tunnel_id = tunnel_id
        self._next_id = 1

    def send_request(self, operation: str, arguments: dict[str, Any]) -> tuple[str, int]:
        """Send a request in the tunnel."""
        number, found = _PROTOCOLS[operation], self._next_id
        message = tny.Message(
            id=found,
            protocol=number,
            time=time.time_ns() // 1_000_000,
            body=json.dumps(arguments).encode(),
        )
        self._gateway.relay(self._tunnel_id, message)
        self._next_id += 1
        self.entry.sent("request", "request")
        return str(number), found

    def send_pending(self) -> None:
        """Write what the link has to send."""
        self._gateway.flush()

    def failure(self) -> SimulateError:
        """Return the error of the link."""
        return self._gateway.failure()

    def on_message(self, message: tny.Message, read_ns: int) -> None:
        """Handle a response or a push."""
        self.read_ns = read_ns
        if message.mode == tny.Mode.RESPONSE:
            self.entry.received("response", "response")
            _on_response(self, message, read_ns)
        else:
            self.entry.received("push", "push")
            self.on_notification(str(json.loads(message.body or b"{}")["id"]))

    @property
    def idle(self) -> bool:
        """Whether everything expected has arrived, and nothing is in flight."""
        self._gateway.check()
        return not self.missing and not self.open

    def disconnect(self) -> None:
        """Close the tunnel."""
        self._gateway.close_tunnel(self._tunnel_id)


# -- populations -----------------------------------------------------------------------------


class _Players(CallingPopulation):
    listener = _PROTOCOL
    callers = (9, 1)
    members = (4, 1)
    malformed = (
        # As long as a head: a shorter one is an unfinished frame to a reader.
        MalformedFrame("bad_magic", b"what is it?"),
        MalformedFrame("too_large", b"tny.\x00" + struct.pack("<i", 1 << 24)),
    )

    async def connect(self, ticket: Any = None) -> CallingClient:  # noqa: ARG002
        """Connect a player."""
        run = self.run
        return await run.connect(self.listener, lambda: Player(run.journal, run.rng))


def _relay_frame(kind: int, arguments: bytes = b"") -> bytes:
    rest = struct.pack("<iBq", 9_999, kind, 0) + arguments
    return b"rpk" + struct.pack("<i", len(rest)) + rest


class _Gateways(ClientPopulation):
    """Gateways whose users call, and one whose users subscribe."""

    listener = "relay"
    malformed = (
        MalformedFrame("bad_magic", b"gateway, are you there?"),
        MalformedFrame("unknown_type", _relay_frame(0x1F)),
        MalformedFrame("varint_truncated", _relay_frame(0x11, b"\xff\xff")),
    )
    _SUBSCRIBERS: Final = 3
    _TUNNEL_STEP: Final = 1_000
    """From one tunnel of a user to the next: no tunnel id is used twice."""
    _PING_S: Final = 2.0

    def __init__(self, scale: float, names: ClientNames):
        tunnels = scaled(5, scale, 2)
        self._callers = [
            names.make(f"gate-{number}-user", tunnels) for number in range(scaled(2, scale))
        ]
        self._subscriber_names = names.make("gate-subscriber", self._SUBSCRIBERS)
        self._users: list[TunnelUser] = []
        self._gateway: Gateway
        self._instances = 1_000

    async def _connect(self) -> Gateway:
        self._instances += 1
        number, key = self._instances, secrets.token_hex(8)
        async with self.run.handshakes:
            journal = self.run.journal
            made = await self.run.connect(self.listener, lambda: Gateway(journal, number, key))
            await made.open()
        return made

    async def open(self, run: RunContext, topics: Topics) -> None:
        """Connect a gateway and its subscribers."""
        await super().open(run, topics)
        self._gateway = await self._connect()
        for number, client in enumerate(self._subscriber_names, 1):
            user = await self._gateway.open_tunnel(number)
            await user.sign_on(client, run.tokens[client])
            user.acks = number % 2 == 0
            chosen = sorted(run.rng.sample(topics.names, min(2, len(topics.names))))
            await user.must_call(SUBSCRIBE.target, topics=chosen, ack=user.acks)
            for name in chosen:
                topics.enter(name, user)
            self._users.append(user)

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Return the gateways whose users call."""
        return [self._call(clients) for clients in self._callers]

    async def _call(self, clients: list[str]) -> None:
        """Connect a gateway; its users call through tunnels."""
        gateway = await self._connect()
        async with asyncio.TaskGroup() as users:
            for number, client in enumerate(clients):
                users.create_task(self._user(gateway, client, number))
            users.create_task(self._heartbeat(gateway))
        await self.run.wait_until(lambda: not gateway.pings, "response to a ping of a gateway")
        await self._close(gateway)

    async def _user(self, gateway: Gateway, client: str, number: int) -> None:
        run, tunnel = self.run, 1 + number
        while run.left_s > 0:
            user = await gateway.open_tunnel(tunnel)
            await user.sign_on(client, run.tokens[client])
            await make_calls(run, user, stay_s(run))
            user.disconnect()
            tunnel += self._TUNNEL_STEP
            await run.pause(run.rng.uniform(0.1, 0.5))

    async def _heartbeat(self, gateway: Gateway) -> None:
        while self.run.left_s > 0:
            gateway.ping()
            await self.run.pause(self._PING_S)

    def subscribers(self) -> Sequence[ConnectedSubscriber]:
        """Return the subscribers behind the gateway."""
        return self._users

    async def turn(self) -> None:
        """Let the subscribers call."""
        await together([each.call("test/echo", text="still here") for each in self._users])

    async def close(self) -> None:
        """Disconnect the subscribers and their gateway."""
        for user in self._users:
            user.disconnect()
        await self._close(self._gateway)

    async def _close(self, gateway: Gateway) -> None:
        await gateway.close()
        self.run.connections.discard(gateway)

    async def connect_malformed(self, client: str) -> ClientConnection:  # noqa: ARG002
        """Connect a gateway."""
        return await self._connect()


POPULATIONS: Final = (_Players, _Gateways)
"""The kinds of live clients of this protocol."""
