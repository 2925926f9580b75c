"""The hub as a tny gateway: users come in at the tny listener, and go through tunnels to backends.

Each user has one tunnel, to one backend, chosen in turn among those that are up.

- One of several links to its backend is lost: the tunnel is switched to another link of the same
  backend, where it is known. Nothing else happens.
- The last link is lost: the user's messages are held until the first attempt to dial again. If that
  opens a link, the tunnel is switched to it, and a ping finds out whether the backend still knows
  it; if it does, the messages go on.
- The attempt fails, or the backend does not know the tunnel (it is another process now): a new
  tunnel is opened, at any backend that is up. Requests that were not answered get code 200: whether
  they were carried out is not known. The user is signed on anew, with the request that it has
  signed on with itself, and the messages that were held go on. Only a user who has subscribed is
  sent away (216): the backend kept that, and a client that reconnects subscribes again.
- No backend is up: a message is answered with code 225, which closes.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wirelake.protocols.sansio import SessionError
from wirelake.protocols.tny.binding import TnySettings
from wirelake.protocols.tny.layout import Message
from wirelake.protocols.tny.limits import GatewayOptions
from wirelake.protocols.tny.message import ResultCode
from wirelake.protocols.tny.relay import GatewayLink, GatewayTunnels

from ...config import ConfigError
from ...net.connection import Connection
from ...net.listener import Listener
from ..tny import server_options
from .backend import BackendLinks, LinkConnection
from .pending_flush import PendingFlush
from .user import User

if TYPE_CHECKING:
    from ...net.context import HubContext

__all__ = ["FIRST_DIAL_S", "GatewayListener"]

FIRST_DIAL_S: Final = 2.0
"""How long the start waits for the first links; users that come sooner find none."""


class GatewayListener(Listener):
    """Where users come in, and the links that they leave by."""

    connection: type[Connection] = User
    settings: TnySettings

    def __init__(self, hub: HubContext, settings: TnySettings):
        super().__init__(hub, settings)
        gateway = hub.config.gateway
        self.options = server_options(settings)
        self.link_options = GatewayOptions(dialect=gateway.dialect)
        self.link_dialect = "upstream" if gateway.dialect == "upstream" else "seed"
        """How messages are written on links."""
        self.tunnels = GatewayTunnels(gateway.instance)
        self.users: dict[int, User] = {}
        """By the id of their tunnel."""
        self.carriers: dict[GatewayLink, LinkConnection] = {}
        self.backend_tls: ssl.SSLContext | None = None
        self.pending_flush = PendingFlush(hub.outbox)
        self.backends = [
            BackendLinks(self, index, each) for index, each in enumerate(gateway.backends)
        ]
        self._ids = itertools.count(hub.table.new_id())
        self._turn = 0

    async def start(self) -> None:
        """Begins to dial and to listen."""
        if any(each.tls for each in self.hub.config.gateway.backends):
            self.backend_tls = self._client_tls()
        for backend in self.backends:
            backend.start(max(1, self.hub.config.gateway.links))
        first = [asyncio.ensure_future(backend.first.wait()) for backend in self.backends]
        _, late = await asyncio.wait(first, timeout=FIRST_DIAL_S)
        for each in late:
            each.cancel()
        await super().start()

    async def stop(self) -> None:
        """Listens and dials no more; users and links stay."""
        await super().stop()
        for backend in self.backends:
            await backend.stop()

    def _client_tls(self) -> ssl.SSLContext:
        """How to speak TLS to backends: with the certificates of `relay.tls`, where they are set,
        else with the system's authorities and no certificate of our own."""
        tls = self.hub.config.listeners["relay"].tls
        try:
            context = ssl.create_default_context(cafile=tls.client_ca or None if tls else None)
            if tls is not None:
                context.load_cert_chain(tls.certificate, tls.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"relay.tls: {error}") from error
        return context

    # -- tunnels -----------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """Whether any backend can be reached."""
        return any(link.active for link in self.tunnels.links)

    def open_tunnel(self, user: User) -> bool:
        """Opens a tunnel for a user, at the next backend that is up; False when none is."""
        user.backend, user.tunnel_id = None, next(self._ids)
        ip, port = _packed(user.peer[0]), user.peer[1]
        for _ in self.backends:
            backend = self.backends[self._turn % len(self.backends)]
            self._turn += 1
            try:
                code = self.tunnels.connect(
                    backend.name, user.tunnel_id, ip=ip, port=port, now=self.hub.loop.time()
                )
            except SessionError:  # as many tunnels as there may be
                return False
            if code == ResultCode.SUCCESS:
                user.backend = backend
                self.users[user.tunnel_id] = user
                self.touch_links()
                return True
        return False

    def relay(self, user: User, message: Message, raw: bytes) -> ResultCode:
        """Sends a user's message through its tunnel; the code to refuse it with."""
        if user.backend is None and not self.open_tunnel(user):
            return ResultCode.NO_LINK
        assert user.backend is not None
        what = raw if user.session.dialect == self.link_dialect else message
        now = self.hub.loop.time()
        return self.tunnels.relay(user.backend.name, user.tunnel_id, what, now)

    def forget(self, user: User) -> None:
        """A user is gone: so is its tunnel."""
        self.users.pop(user.tunnel_id, None)
        with suppress(SessionError):
            self.tunnels.disconnect(user.tunnel_id, self.hub.loop.time())
        self.touch_links()

    def carried_by(self, link: LinkConnection) -> list[User]:
        """The users whose tunnels a link carries."""
        users = self.users
        return [users[key.tunnel_id] for key in link.session.tunnels if key.tunnel_id in users]

    # -- links -------------------------------------------------------------------------------

    def touch_links(self) -> None:
        """Links that have something to say, or to tell, do so at the end of this turn."""
        for session, link in self.carriers.items():
            if session.dirty:
                self.pending_flush.add(link)

    def tunnel_answered(self, tunnel_id: int) -> None:
        """A backend has taken a user in; whether it signs on in time is seen to there."""
        user = self.users.get(tunnel_id)
        if user is not None:
            self.hub.table.known(user)

    def tunnel_lost(self, tunnel_id: int) -> None:
        """No link carries a tunnel any more; its backend is dialled again, which decides."""
        user = self.users.get(tunnel_id)
        if user is not None and not self.hub.table.draining:
            user.hold()

    def link_up(self) -> None:
        """A backend can be reached: users without a tunnel get one."""
        for user in tuple(self.users.values()):
            if user.backend is None:
                self.move(user)

    def backend_dead(self, backend: BackendLinks) -> None:
        """A backend cannot be reached: its users go elsewhere."""
        for user in tuple(self.users.values()):
            if user.backend is backend:
                self.move(user)

    def move(self, user: User) -> None:
        """Gives a user a new tunnel; without a backend it waits for one."""
        if user.session.closed or self.hub.table.draining:
            return
        self.forget(user)
        user.hold()
        user.abandon()
        if user.subscribed:
            user.session.fail(ResultCode.SESSION_LOST)
        elif self.open_tunnel(user):
            user.settle()
        else:
            self.users[user.tunnel_id] = user


def _packed(address: str) -> bytes:
    """An address as the bytes of TUNNEL_CONNECT."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return b""
    return (getattr(found, "ipv4_mapped", None) or found).packed
