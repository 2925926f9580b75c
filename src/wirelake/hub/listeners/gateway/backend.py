"""A gateway's backends: each is dialled, its links are kept open, and dialled again when they end.

A link that is lost is dialled again after the original's delays (`RECONNECT_DELAYS_S`). A backend
is *up* while one of its links is open. When the last one has gone, the first attempt to dial again
decides: if it fails, the backend counts as dead and its users go elsewhere (`gateway.py`).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from wirelake.protocols.sansio import Event, Session
from wirelake.protocols.tny.layout import LinkOpen
from wirelake.protocols.tny.relay import (
    GatewayLink,
    LinkPonged,
    LinkUp,
    ReconnectSchedule,
    Relayed,
    TunnelAnswered,
    TunnelClosed,
    TunnelLost,
    TunnelSwitched,
)

from ...config import Backend
from ...net.connection import Connection
from ...pubsub.notifications import Notification
from ..tny import epoch_ms

if TYPE_CHECKING:
    from wirelake.capture.format.items import Direction

    from .gateway import GatewayListener

__all__ = ["DIAL_S", "BackendLinks", "LinkConnection"]

DIAL_S: Final = 5.0
"""How long dialling may take; the original's number."""


class LinkConnection(Connection):
    """One link to a backend."""

    protocol: ClassVar[str] = "relay"
    inward: ClassVar[Direction] = "s2c"
    outward: ClassVar[Direction] = "c2s"

    __slots__ = ("_unsure", "backend", "gone", "was_up")

    listener: GatewayListener
    session: GatewayLink

    def __init__(self, listener: GatewayListener, backend: BackendLinks):
        super().__init__(listener)
        self.backend = backend
        self.gone = self.hub.loop.create_future()
        """Done when the link has ended."""
        self.was_up = False
        self._unsure: set[int] = set()
        """Tunnels that were switched to this link and may be unknown at its other end."""

    def make_session(self, now: float) -> Session:
        """The gateway's end; it says LINK_OPEN at once."""
        settings = self.hub.config.gateway
        opening = LinkOpen(
            service=settings.name, instance=settings.instance, key=secrets.token_hex(16)
        )
        session = GatewayLink(
            self.listener.tunnels,
            service=self.backend.name,
            opening=opening,
            options=self.listener.link_options,
            epoch_ms=epoch_ms(now),
            now=now,
        )
        self.listener.carriers[session] = self
        return session

    def on_event(self, event: Event) -> None:
        """Hands messages to users, and follows what becomes of their tunnels."""
        if isinstance(event, Relayed):
            user = self.listener.users.get(event.key.tunnel_id)
            if user is not None:
                user.take(event.message, event.raw)
        elif isinstance(event, LinkUp):
            self.hub.table.known(self)
            self.was_up = True
            self.backend.first.set()
            self.listener.link_up()
        elif isinstance(event, LinkPonged):
            self._sure()
        elif isinstance(event, TunnelAnswered):
            self.listener.tunnel_answered(event.key.tunnel_id)
        elif isinstance(event, TunnelSwitched):
            self._switched(event.key.tunnel_id)
        elif isinstance(event, TunnelLost):
            self.listener.tunnel_lost(event.key.tunnel_id)
        elif isinstance(event, TunnelClosed):
            self._closed(event)

    def _switched(self, tunnel_id: int) -> None:
        """A backend says nothing when it knows a tunnel that is switched, and refuses when it does
        not, being a new process. A ping tells: its answer comes after the refusal."""
        user = self.listener.users.get(tunnel_id)
        if user is None:
            return
        user.hold()
        if not self._unsure and self.session.active:
            self.session.ping(self.hub.loop.time())
        self._unsure.add(tunnel_id)

    def _sure(self) -> None:
        unsure, self._unsure = self._unsure, set()
        for tunnel_id in unsure:
            user = self.listener.users.get(tunnel_id)
            if user is not None:
                user.release()

    def _closed(self, event: TunnelClosed) -> None:
        user = self.listener.users.get(event.key.tunnel_id)
        if user is None:
            return
        if event.reason == "refused" and event.key.tunnel_id in self._unsure:
            self._unsure.discard(event.key.tunnel_id)
            self.listener.move(user)
        else:
            user.disconnected(event.reason)

    def _react(self) -> None:
        super()._react()
        self.listener.touch_links()

    def pause_writing(self) -> None:
        """The backend reads too slowly: its users are not read from."""
        super().pause_writing()
        for user in self.listener.carried_by(self):
            user.transport.pause_reading()

    def resume_writing(self) -> None:
        """The backend has caught up."""
        super().resume_writing()
        for user in self.listener.carried_by(self):
            if not user.paused_since and not user.transport.is_closing():
                user.transport.resume_reading()

    def say_goodbye(self, reason: str) -> None:
        """Lets the backend know that the users are gone, then closes."""
        for user in self.listener.carried_by(self):
            user.end(reason)
            self.listener.forget(user)
        self.session.close(reason, self.hub.loop.time())

    def on_closed(self) -> None:
        """The link has ended; its tunnels are elsewhere, or wait."""
        self.listener.carriers.pop(self.session, None)
        self.listener.touch_links()
        if not self.gone.done():
            self.gone.set_result(None)

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Nothing: a link is nobody's."""

    @property
    def may_receive(self) -> bool:
        """Never."""
        return False


class BackendLinks:
    """The links to one backend."""

    def __init__(self, listener: GatewayListener, index: int, settings: Backend):
        self.listener = listener
        self.settings = settings
        self.name = f"{listener.hub.config.gateway.service} {index}"
        """What `GatewayTunnels` takes for a service, so that tunnels are switched only between
        links of the same backend: only there are they known."""
        self.first = asyncio.Event()
        """Set when the first attempt to dial is decided."""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_up(self) -> bool:
        """Whether a link is open."""
        return any(link.active for link in self.listener.tunnels.links if link.service == self.name)

    def start(self, links: int) -> None:
        """Begins to dial."""
        self._tasks = [asyncio.ensure_future(self._keep_open()) for _ in range(links)]

    async def stop(self) -> None:
        """Dials no more; links stay."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_open(self) -> None:
        schedule = ReconnectSchedule()
        while True:
            link = await self._dial()
            if link is not None:
                schedule.succeeded()
                await link.gone
            if (link is None or not link.was_up) and not self.is_up:
                self.first.set()
                self.listener.backend_dead(self)
            await asyncio.sleep(schedule.next_delay_s())

    async def _dial(self) -> LinkConnection | None:
        settings, loop = self.settings, self.listener.hub.loop
        tls = self.listener.backend_tls if settings.tls else None
        try:
            async with asyncio.timeout(DIAL_S):
                _, link = await loop.create_connection(
                    lambda: LinkConnection(self.listener, self),
                    settings.host,
                    settings.port,
                    ssl=tls,
                )
        except (OSError, TimeoutError):
            return None
        return link
