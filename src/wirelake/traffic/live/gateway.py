"""A gateway: links to the hub's relay door, and players who call through tunnels on them."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, ClassVar, Final

from wirelake.protocols.sansio import Closed, Event
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny import relay

from ..plan import SimulateError
from .askers import (
    DEEDS,
    Asking,
    take_response,
)
from .connection import Line
from .hub_address import DEADLINE_S
from .journal import Ledger
from .listeners import Listener

__all__ = ["Gateway", "TunnelUser"]

_SERVICE: Final = "game"
_GOODBYE: Final = "goodbye"


class Gateway(Line):
    """One link, and the tunnels on it."""

    protocol: ClassVar[str] = "relay"
    session: relay.GatewayLink

    def __init__(self, ledger: Ledger, instance: int, key: str):
        self.users = relay.GatewayTunnels(instance)
        now = asyncio.get_running_loop().time()
        session = relay.GatewayLink(
            self.users,
            service=_SERVICE,
            opening=tny.LinkOpen(service="gate", instance=instance, key=key),
            epoch_ms=int(time.time() * 1000 - now * 1000),
            now=now,
        )
        super().__init__(ledger, session)
        self.up: asyncio.Future[None] = self.loop.create_future()
        """Done when the link is open."""
        self.pinged = 0
        """Pings that wait for their answer."""
        self._tunnels: dict[int, TunnelUser] = {}

    async def open(self) -> None:
        """LINK_OPEN, which the session has written already, and its answer."""
        self.contact.said("control", "link_open")
        self.flush()
        await self.wait(self.up)

    async def wait(self, future: asyncio.Future[None]) -> None:
        """Waits for something that the hub has to say."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                await future
        except TimeoutError as error:
            raise self.trouble() from error

    async def connect(self, tunnel_id: int) -> TunnelUser:
        """A user comes: TUNNEL_CONNECT."""
        user = TunnelUser(self, tunnel_id)
        self._tunnels[tunnel_id] = user
        self.users.connect(_SERVICE, tunnel_id, ip=user.ip, port=user.port, now=self.loop.time())
        self.contact.said("control", "tunnel_connect")
        self.flush()
        await self.wait(user.connected)
        return user

    def disconnect(self, tunnel_id: int) -> None:
        """A user goes: TUNNEL_DISCONNECT."""
        del self._tunnels[tunnel_id]
        self.users.disconnect(tunnel_id, now=self.loop.time())
        self.contact.said("control", "tunnel_disconnect")
        self.flush()

    def ping(self) -> None:
        """LINK_PING; the answer is counted when it comes."""
        self.check()
        self.pinged += 1
        self.session.ping(self.loop.time())
        self.contact.said("heartbeat", "link_ping")
        self.flush()

    async def close(self) -> None:
        """LINK_CLOSE, which the hub answers; then it closes."""
        self.leaving = True
        self.session.close(_GOODBYE, now=self.loop.time())
        self.contact.said("control", "link_close")
        self.contact.close_reason = "link_close"
        self.flush()
        await self.ended()

    def relay(self, tunnel_id: int, message: tny.Message) -> None:
        """Carries a message of a user."""
        self.check()
        self.users.relay(_SERVICE, tunnel_id, message, now=self.loop.time())
        self.contact.said("relay", "tunnel_relay")

    def on_event(self, event: Event) -> None:
        """What the hub says about links and tunnels, and in tunnels."""
        if isinstance(event, relay.LinkUp):
            self.contact.heard("control", "link_opened")
            self.up.set_result(None)
        elif isinstance(event, relay.LinkPonged):
            self.pinged -= 1
            self.contact.heard("heartbeat", "link_pong")
        elif isinstance(event, relay.TunnelAnswered):
            self.contact.heard("control", "tunnel_connected")
            self._tunnels[event.key.tunnel_id].connected.set_result(None)
        elif isinstance(event, relay.Relayed):
            self.contact.heard("relay", "tunnel_relay")
            self._tunnels[event.key.tunnel_id].take(event.message, self.read_ns)

    def on_closed(self, event: Closed) -> None:
        """The hub has answered our LINK_CLOSE, unless it was silent to the end."""
        if self.leaving and event.reason == _GOODBYE:
            self.contact.heard("control", "link_close")
            self.transport.close()

    def on_end(self) -> None:
        """No answer will come."""
        for each in self._tunnels.values():
            each.give_up()
        waiting = [self.up, *(each.connected for each in self._tunnels.values())]
        for future in waiting:
            if not future.done():
                future.set_exception(self.trouble())
                future.exception()


class TunnelUser(Asking, Listener):
    """A player behind the gateway."""

    def __init__(self, gateway: Gateway, tunnel_id: int):
        Asking.__init__(self)
        Listener.__init__(self)
        self.ledger = gateway.ledger
        self.contact = gateway.ledger.passage(gateway.contact, gateway.users.instance_id, tunnel_id)
        self.ip = bytes((10, 7, tunnel_id >> 8 & 0xFF, tunnel_id & 0xFF))
        self.port = 20_000 + tunnel_id % 40_000
        self.contact.address, self.contact.port = ".".join(map(str, self.ip)), self.port
        self.connected: asyncio.Future[None] = gateway.loop.create_future()
        """Done when the hub has the tunnel."""
        self._gateway = gateway
        self._tunnel_id = tunnel_id
        self._next_id = 1

    def put(self, deed: str, arguments: dict[str, Any]) -> tuple[str, int]:
        """A request inside a packet of the link."""
        number, found = DEEDS[deed], self._next_id
        message = tny.Message(
            id=found,
            protocol=number,
            time=time.time_ns() // 1_000_000,
            body=json.dumps(arguments).encode(),
        )
        self._gateway.relay(self._tunnel_id, message)
        self._next_id += 1
        self.contact.said("request", "request")
        return str(number), found

    def send_out(self) -> None:
        """Leaves with the link."""
        self._gateway.flush()

    def trouble(self) -> SimulateError:
        """What the link says."""
        return self._gateway.trouble()

    def take(self, message: tny.Message, read_ns: int) -> None:
        """An answer, or a push."""
        if message.mode == tny.Mode.RESPONSE:
            self.contact.heard("response", "response")
            take_response(self, message, read_ns)
        else:
            self.contact.heard("push", "push")
            notification = str(json.loads(message.body or b"{}")["id"])
            self.saw(notification)
            if self.acks:
                self.post("hub/ack", id=notification)

    @property
    def calm(self) -> bool:
        """Whether everything that was expected has come, and nothing is under way."""
        self._gateway.check()
        return not self.missing and not self.open

    def leave(self) -> None:
        """The user goes."""
        self._gateway.disconnect(self._tunnel_id)
