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

Links: each backend is dialled, its links are kept open, and a lost link is dialled again after the
original's delays (`RECONNECT_DELAYS_S`). A backend is *up* while one of its links is open. When the
last one is lost, the first attempt to dial again decides: if it fails, the backend counts as dead.

The gateway looks at no body. For the case that a backend dies it remembers three things of a user:
which requests wait for an answer, the request that signed it on, and whether it has subscribed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import os
import secrets
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

from wirelake.protocols.sansio import Event, Session, SessionError
from wirelake.protocols.tny.binding import TnySettings
from wirelake.protocols.tny.layout import LinkOpen, Message, Mode
from wirelake.protocols.tny.limits import GatewayOptions
from wirelake.protocols.tny.message import ResultCode, answered_id, closes
from wirelake.protocols.tny.relay_gateway import GatewayLink, GatewayTunnels, ReconnectSchedule
from wirelake.protocols.tny.relay_link import (
    LinkPonged,
    LinkUp,
    Relayed,
    TunnelAnswered,
    TunnelClosed,
    TunnelLost,
    TunnelSwitched,
)
from wirelake.protocols.tny.session import HandedOn, UserSession

from ..config import Backend, ConfigError
from ..net.connection import Connection
from ..net.listener import Listener
from ..net.outbox import PendingFlush
from ..pubsub.notifications import Notification
from .tny import TnyListener, epoch_ms, server_options

if TYPE_CHECKING:
    from wirelake.capture.format.items import Direction

    from ..net.context import HubContext

__all__ = [
    "DIAL_S",
    "FIRST_DIAL_S",
    "MAX_QUEUED_MESSAGES",
    "BackendLinks",
    "GatewayListener",
    "LinkConnection",
    "User",
    "make_listener",
]

MAX_QUEUED_MESSAGES: Final = 256
"""Messages of one user that wait while its tunnel has no link; further requests get code 200."""
_MAX_UNREAD_BUFFERS: Final = 4
"""A user that leaves so many write buffers unread is dropped: its link does not wait for it."""
_SIGN_ON: Final = 10
_SUBSCRIBE: Final = 11


class User(Connection):
    """One client of the gateway."""

    protocol: ClassVar[str] = "tny"
    shares_sessions: ClassVar[bool] = True

    __slots__ = (
        "_pending",
        "_pending_sign_on",
        "_queued",
        "_repeated_sign_on",
        "_sign_on",
        "backend",
        "subscribed",
        "tunnel_id",
    )

    listener: GatewayListener
    session: UserSession

    def __init__(self, listener: GatewayListener):
        super().__init__(listener)
        self.backend: BackendLinks | None = None
        """Where its tunnel ends; None while it has none."""
        self.tunnel_id = 0
        self.subscribed = False
        """Whether the backend keeps something for it that cannot be had elsewhere."""
        self._pending: dict[int, Message] = {}
        self._queued: list[tuple[Message, bytes]] | None = None
        self._sign_on: tuple[Message, bytes] | None = None
        self._pending_sign_on: tuple[Message, bytes] | None = None
        self._repeated_sign_on: int | None = None

    def make_session(self, now: float) -> Session:
        """The gateway's end; ticks are answered by it, here."""
        return UserSession(
            self.listener.options, epoch_ms=epoch_ms(now), random=os.urandom, now=now
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A user has come: a tunnel is opened at once."""
        super().connection_made(transport)
        if self.id in self.hub.connections:
            self.listener.open_tunnel(self)

    def on_closed(self) -> None:
        """The user is gone, and its tunnel with it."""
        self.listener.forget(self)

    def _react(self) -> None:
        super()._react()
        if self.session.closed:
            self.listener.forget(self)
        self.listener.flush_links()

    # -- from the user -----------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Hands messages on."""
        if type(event) is HandedOn:
            if self._queued is None:
                self._forward(event.message, event.raw)
            else:
                self._queue(event.message, event.raw)

    def _forward(self, message: Message, raw: bytes) -> None:
        if message.mode == Mode.REQUEST:
            self._pending[answered_id(message)] = message
            if message.protocol == _SIGN_ON:
                self._pending_sign_on = (message, raw)
        try:
            code = self.listener.relay(self, message, raw)
        except SessionError:
            code = ResultCode.SERVER_ERROR
        if code != ResultCode.SUCCESS:
            self._refuse(message, code)

    def _queue(self, message: Message, raw: bytes) -> None:
        """The tunnel has no link now; that may change, if any backend is there at all."""
        if not self.listener.is_up:
            self._refuse(message, ResultCode.NO_LINK)
        elif self._queued is None or len(self._queued) >= MAX_QUEUED_MESSAGES:
            self._refuse(message, ResultCode.SERVER_ERROR)
        else:
            self._queued.append((message, raw))

    def _refuse(self, message: Message, code: ResultCode) -> None:
        """Answers in the backend's place; 225 closes, by the rule of that code."""
        if self.session.closed:
            return
        if message.mode == Mode.REQUEST:
            self._pending.pop(answered_id(message), None)
            self._answer(message, code)
        elif closes(code):
            self.session.fail(code)

    def _answer(self, request: Message, code: ResultCode) -> None:
        with suppress(SessionError):  # it is closed by now, or the user asked twice with one id
            self.session.respond(request, code=code, now=self.hub.loop.time())

    # -- from the backend --------------------------------------------------------------------

    def handle_reply(self, message: Message, raw: bytes) -> None:
        """Something for the user."""
        if self._is_repeated_sign_on_reply(message):
            return
        if message.mode == Mode.RESPONSE:
            self._note_response(message)
        if self.session.closed or self._drop_if_slow():
            return
        try:
            if self.session.dialect == self.listener.link_dialect:
                self.session.relay(message, raw, self.hub.loop.time())
            else:
                self.session.send(message, now=self.hub.loop.time())
        except SessionError as error:
            self.hub.counters.failed("tny", error.code)
        self.listener.pending_flush.add(self)

    def _note_response(self, response: Message) -> None:
        request = self._pending.pop(response.to_message, None)
        if request is None or response.code != ResultCode.SUCCESS:
            return
        if request.protocol == _SIGN_ON:
            self._sign_on = self._pending_sign_on
        elif request.protocol == _SUBSCRIBE:
            self.subscribed = True

    def _drop_if_slow(self) -> bool:
        if not self.paused_since:
            return False
        unread: int = self.transport.get_write_buffer_size()
        if unread <= _MAX_UNREAD_BUFFERS * self.hub.limits.write_buffer:
            return False
        self.drop("slow_reader")
        return True

    def disconnected(self, reason: str) -> None:
        """The backend has closed the tunnel."""
        if not self.session.closed:
            self.close_reason = reason
            self.session.close(reason)
            self.listener.pending_flush.add(self)

    # -- when a backend dies -----------------------------------------------------------------

    def pause(self) -> None:
        """Nothing can be handed on for a while."""
        if self._queued is None:
            self._queued = []

    def resume(self) -> None:
        """The tunnel is carried again: what was held goes on, in order."""
        if self._repeated_sign_on is not None:  # the answer may be lost with the link
            self.restore_sign_on()
            return
        held, self._queued = self._queued, None
        for message, raw in held or ():
            self._forward(message, raw)
        self.listener.pending_flush.add(self)

    def fail_pending(self) -> None:
        """The backend is gone, and with it the answers to what it was asked: code 200."""
        asked, self._pending, self._repeated_sign_on = self._pending, {}, None
        for request in asked.values():
            self._answer(request, ResultCode.SERVER_ERROR)
        self.listener.pending_flush.add(self)

    def restore_sign_on(self) -> None:
        """A new backend has the tunnel: signs on there as before, then hands on what was held."""
        if self._sign_on is None:
            self.resume()
            return
        self._repeated_sign_on = answered_id(self._sign_on[0])
        self.listener.relay(self, *self._sign_on)

    def _is_repeated_sign_on_reply(self, message: Message) -> bool:
        """The answer to a sign-on that the gateway has repeated is not the user's."""
        if self._repeated_sign_on is None or message.mode != Mode.RESPONSE:
            return False
        if message.to_message != self._repeated_sign_on:
            return False
        self._repeated_sign_on = None
        if message.code == ResultCode.SUCCESS:
            self.resume()
        elif not self.session.closed:
            self.session.fail(ResultCode.AUTH_FAILED)
            self.listener.pending_flush.add(self)
        return True

    # -- what a gateway's user is not --------------------------------------------------------

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Nothing: notifications are the backend's."""

    @property
    def may_receive(self) -> bool:
        """Never."""
        return False


DIAL_S: Final = 5.0
"""How long dialling may take; the original's number."""


class LinkConnection(Connection):
    """One link to a backend."""

    protocol: ClassVar[str] = "relay"
    shares_sessions: ClassVar[bool] = True
    direction_in: ClassVar[Direction] = "s2c"
    direction_out: ClassVar[Direction] = "c2s"

    __slots__ = ("_unconfirmed", "backend", "ended", "opened")

    listener: GatewayListener
    session: GatewayLink

    def __init__(self, listener: GatewayListener, backend: BackendLinks):
        super().__init__(listener)
        self.backend = backend
        self.ended = self.hub.loop.create_future()
        """Done when the link has ended."""
        self.opened = False
        self._unconfirmed: set[int] = set()
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
        self.listener.links[session] = self
        return session

    def on_event(self, event: Event) -> None:
        """Hands messages to users, and follows what becomes of their tunnels."""
        if isinstance(event, Relayed):
            user = self.listener.users.get(event.key.tunnel_id)
            if user is not None:
                user.handle_reply(event.message, event.raw)
        elif isinstance(event, LinkUp):
            self.hub.table.end_half_open(self)
            self.opened = True
            self.backend.first_attempt.set()
            self.listener.link_up()
        elif isinstance(event, LinkPonged):
            self._confirm_tunnels()
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
        user.pause()
        if not self._unconfirmed and self.session.active:
            self.session.ping(self.hub.loop.time())
        self._unconfirmed.add(tunnel_id)

    def _confirm_tunnels(self) -> None:
        unsure, self._unconfirmed = self._unconfirmed, set()
        for tunnel_id in unsure:
            user = self.listener.users.get(tunnel_id)
            if user is not None:
                user.resume()

    def _closed(self, event: TunnelClosed) -> None:
        user = self.listener.users.get(event.key.tunnel_id)
        if user is None:
            return
        if event.reason == "refused" and event.key.tunnel_id in self._unconfirmed:
            self._unconfirmed.discard(event.key.tunnel_id)
            self.listener.reassign(user)
        else:
            user.disconnected(event.reason)

    def _react(self) -> None:
        super()._react()
        self.listener.flush_links()

    def pause_writing(self) -> None:
        """The backend reads too slowly: its users are not read from."""
        super().pause_writing()
        for user in self.listener.users_of(self):
            user.transport.pause_reading()

    def resume_writing(self) -> None:
        """The backend has caught up."""
        super().resume_writing()
        for user in self.listener.users_of(self):
            if not user.paused_since and not user.transport.is_closing():
                user.transport.resume_reading()

    def close_session(self, reason: str) -> None:
        """Lets the backend know that the users are gone, then closes."""
        for user in self.listener.users_of(self):
            user.end(reason)
            self.listener.forget(user)
        self.session.close(reason, self.hub.loop.time())

    def on_closed(self) -> None:
        """The link has ended; its tunnels are elsewhere, or wait."""
        self.listener.links.pop(self.session, None)
        self.listener.flush_links()
        if not self.ended.done():
            self.ended.set_result(None)

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
        self.first_attempt = asyncio.Event()
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
                await link.ended
            if (link is None or not link.opened) and not self.is_up:
                self.first_attempt.set()
                self.listener.backend_down(self)
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
        self.links: dict[GatewayLink, LinkConnection] = {}
        self.backend_tls: ssl.SSLContext | None = None
        self.pending_flush = PendingFlush(hub.outbox)
        self.backends = [
            BackendLinks(self, index, each) for index, each in enumerate(gateway.backends)
        ]
        self._ids = itertools.count(hub.table.new_id())
        self._next_backend = 0

    async def start(self) -> None:
        """Begins to dial and to listen."""
        if any(each.tls for each in self.hub.config.gateway.backends):
            self.backend_tls = self._client_tls()
        for backend in self.backends:
            backend.start(max(1, self.hub.config.gateway.links))
        first = [asyncio.ensure_future(backend.first_attempt.wait()) for backend in self.backends]
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
            backend = self.backends[self._next_backend % len(self.backends)]
            self._next_backend += 1
            try:
                code = self.tunnels.connect(
                    backend.name, user.tunnel_id, ip=ip, port=port, now=self.hub.loop.time()
                )
            except SessionError:  # as many tunnels as there may be
                return False
            if code == ResultCode.SUCCESS:
                user.backend = backend
                self.users[user.tunnel_id] = user
                self.flush_links()
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
        self.flush_links()

    def users_of(self, link: LinkConnection) -> list[User]:
        """The users whose tunnels a link carries."""
        users = self.users
        return [users[key.tunnel_id] for key in link.session.tunnels if key.tunnel_id in users]

    # -- links -------------------------------------------------------------------------------

    def flush_links(self) -> None:
        """Links that have something to say, or to tell, do so at the end of this turn."""
        for session, link in self.links.items():
            if session.dirty:
                self.pending_flush.add(link)

    def tunnel_answered(self, tunnel_id: int) -> None:
        """A backend has taken a user in; whether it signs on in time is seen to there."""
        user = self.users.get(tunnel_id)
        if user is not None:
            self.hub.table.end_half_open(user)

    def tunnel_lost(self, tunnel_id: int) -> None:
        """No link carries a tunnel any more; its backend is dialled again, which decides."""
        user = self.users.get(tunnel_id)
        if user is not None and not self.hub.table.draining:
            user.pause()

    def link_up(self) -> None:
        """A backend can be reached: users without a tunnel get one."""
        for user in tuple(self.users.values()):
            if user.backend is None:
                self.reassign(user)

    def backend_down(self, backend: BackendLinks) -> None:
        """A backend cannot be reached: its users go elsewhere."""
        for user in tuple(self.users.values()):
            if user.backend is backend:
                self.reassign(user)

    def reassign(self, user: User) -> None:
        """Gives a user a new tunnel; without a backend it waits for one."""
        if user.session.closed or self.hub.table.draining:
            return
        self.forget(user)
        user.pause()
        user.fail_pending()
        if user.subscribed:
            user.session.fail(ResultCode.SESSION_LOST)
        elif self.open_tunnel(user):
            user.restore_sign_on()
        else:
            self.users[user.tunnel_id] = user


def _packed(address: str) -> bytes:
    """An address as the bytes of TUNNEL_CONNECT."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return b""
    return (getattr(found, "ipv4_mapped", None) or found).packed


def make_listener(hub: HubContext, settings: TnySettings) -> Listener:
    """Return the listener that serves tny, or the one that relays it if the hub is a gateway."""
    if hub.config.gateway.enabled:
        return GatewayListener(hub, settings)
    return TnyListener(hub, settings)
