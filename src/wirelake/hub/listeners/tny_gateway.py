"""The hub as a tny gateway: users connect to the tny listener and are relayed to backends.

    User              a client's connection, with one tunnel to one backend
    LinkConnection    a link to a backend; it carries tunnels
    BackendLinks      keeps the links to one backend open
    GatewayListener   assigns users to backends

Each user has one tunnel, to one backend, chosen in turn among those that are up.

- One of several links to its backend is lost: the tunnel is switched to another link of the same
  backend, which knows the tunnel. Nothing else happens.
- The last link is lost: the user's messages are queued until the first attempt to dial again. If
  that opens a link, the tunnel is switched to it, and a ping finds out whether the backend still
  knows it; if it does, the queued messages are sent.
- The attempt fails, or the backend does not know the tunnel (its process was restarted): a new
  tunnel is opened, to any backend that is up. Pending requests get code 200: whether they were
  carried out is unknown. The gateway signs the user on again, by repeating the user's own sign-on
  request, then sends the queued messages. Only a user that has subscribed is disconnected (code
  216): the old backend had its subscriptions, and a client that reconnects subscribes again.
- No backend is up: a message is answered with code 225, which closes.

Links: each backend is dialled, its links are kept open, and a lost link is dialled again after the
original's delays (`ReconnectSchedule`; `docs/decisions/tny.md`, Links). A backend is *up* while one
of its links is open. When the last one is lost, the first attempt to dial again decides: if it
fails, the backend counts as down.

The gateway does not decode bodies. To handle the loss of a backend it keeps three things per user:
the pending requests, the request that signed the user on, and whether the user has subscribed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import os
import secrets
import ssl
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from wirelake.protocols.hub_calls import AUTH, SUBSCRIBE
from wirelake.protocols.sansio import Event, Session, SessionError
from wirelake.protocols.tny.binding import GATEWAY, Backend, GatewaySettings, TnySettings
from wirelake.protocols.tny.layout import Dialect, LinkOpen, Message, Mode
from wirelake.protocols.tny.limits import GatewayOptions
from wirelake.protocols.tny.message import ResultCode, answered_id, closes, in_dialect
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
from wirelake.protocols.tny.session import Forwarded, UserSession

from ..config import Config, ConfigError
from ..net.connection import Connection
from ..net.dialer import Dialer
from ..net.listener import Listener
from ..net.outbox import PendingFlush
from ..pubsub.notifications import Notification
from .tny import TnyListener, epoch_ms, server_options

if TYPE_CHECKING:
    from wirelake.capture.format.items import Direction

    from ..net.context import HubContext

__all__ = [
    "FIRST_DIAL_S",
    "MAX_QUEUED_MESSAGES",
    "BackendLinks",
    "GatewayListener",
    "LinkConnection",
    "User",
    "make_listener",
]

MAX_QUEUED_MESSAGES: Final = 256
"""Messages of one user that are queued while its tunnel has no link; further requests get code
200. As many as one connection may have running calls (`Limits.calls`)."""
_MAX_UNREAD_BUFFERS: Final = 4
"""A user with this many write buffers of unread bytes is dropped. A link carries many users and
cannot stop reading for a slow one; four megabytes bound what that costs."""


class User(Connection):
    """One client of the gateway."""

    protocol: ClassVar[str] = "tny"
    shares_sessions: ClassVar[bool] = True
    # Only the backend knows who has signed on: the limit of every packet holds from the start.
    max_first_bytes: ClassVar[int] = sys.maxsize

    __slots__ = (
        "_pending",
        "_pending_bytes",
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
        """The backend of its tunnel; None while there is none."""
        self.tunnel_id = 0
        self.subscribed = False
        """Whether its backend has subscriptions of it, which another backend would not have."""
        self._pending: dict[int, Message] = {}
        """Requests without a response, by message id; without their bodies."""
        self._pending_bytes = 0
        """Bytes of their headers."""
        self._queued: list[tuple[Message, bytes]] | None = None
        """Messages that wait for a link; None while messages are forwarded."""
        self._sign_on: tuple[Message, bytes] | None = None
        self._pending_sign_on: tuple[Message, bytes] | None = None
        self._repeated_sign_on: int | None = None
        """The message id of a sign-on that the gateway has repeated; its response is not the
        user's."""

    def make_session(self, now: float) -> Session:
        """Return the gateway's session, which answers heartbeats itself."""
        return UserSession(
            self.listener.options, epoch_ms=epoch_ms(now), random=os.urandom, now=now
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the user, and open its tunnel."""
        super().connection_made(transport)
        if self.id in self.hub.connections:
            self.listener.open_tunnel(self)

    def on_closed(self) -> None:
        """Close the tunnel of the user."""
        self.listener.forget(self)

    def _react(self) -> None:
        super()._react()
        if self.session.closed:
            self.listener.forget(self)
        self.listener.flush_links()

    @property
    def unanswered(self) -> int:
        """The number of requests that its backend has not answered."""
        return len(self._pending)

    @property
    def held_bytes(self) -> int:
        """Also messages that wait for a link, headers of requests that wait for a response, and
        the sign-on that may have to be repeated."""
        queued = sum(len(raw) for _, raw in self._queued or ())
        sign_ons = self._sign_on, self._pending_sign_on
        kept = sum(len(each[1]) for each in sign_ons if each is not None)
        return super().held_bytes + queued + kept + self._pending_bytes

    # -- from the user -----------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Forward messages, or queue them while the tunnel has no link."""
        if type(event) is Forwarded:
            if self._queued is None:
                self._forward(event.message, event.raw)
            else:
                self._queue(event.message, event.raw)

    def _forward(self, message: Message, raw: bytes) -> None:
        # The sign-on is kept only once it has succeeded (`_note_response`): a failed attempt must
        # not be repeated at another backend.
        if message.mode == Mode.REQUEST:
            # Without its body, which only the backend needs: a user may have many of them pending.
            number = answered_id(message)
            self._take_pending(number)  # a sender behind a forwarder may use the same id
            self._pending[number] = msgspec.structs.replace(message, body=None)
            self._pending_bytes += _header_bytes(message)
            if message.protocol == AUTH.number:
                self._pending_sign_on = (message, raw)
                self._charge_held()
        try:
            code = self.listener.relay(self, message, raw)
        except SessionError:
            code = ResultCode.SERVER_ERROR
        if code != ResultCode.SUCCESS:
            self._refuse(message, code)

    def _queue(self, message: Message, raw: bytes) -> None:
        """Queue a message while the tunnel has no link; refuse it if no backend is up."""
        if not self.listener.is_up:
            self._refuse(message, ResultCode.NO_LINK)
        elif self._queued is None or len(self._queued) >= MAX_QUEUED_MESSAGES:
            self._refuse(message, ResultCode.SERVER_ERROR)
        else:
            self._queued.append((message, raw))
            self._charge_held()

    def _refuse(self, message: Message, code: ResultCode) -> None:
        """Answer in place of the backend; code 225 also closes the connection."""
        if self.session.closed:
            return
        if message.mode == Mode.REQUEST:
            self._take_pending(answered_id(message))
            self._answer(message, code)
        elif closes(code):
            self.session.fail(code)

    def _answer(self, request: Message, code: ResultCode) -> None:
        with suppress(SessionError):  # the session is closed, or the id was answered already
            self.session.respond(request, code=code, now=self.hub.loop.time())

    # -- from the backend --------------------------------------------------------------------

    def handle_reply(self, message: Message, raw: bytes) -> None:
        """Pass a message of the backend to the user."""
        if self._is_repeated_sign_on_reply(message):
            return
        if message.mode == Mode.RESPONSE:
            self._note_response(message)
        if self.session.closed or self._drop_if_slow():
            return
        try:
            # With the same dialect on both sides the bytes are copied, not decoded and encoded.
            if self.session.dialect == self.listener.link_dialect:
                self.session.relay(message, raw, self.hub.loop.time())
            else:
                message = in_dialect(message, self.session.dialect)
                self.session.send(message, now=self.hub.loop.time())
        except SessionError as error:
            self.hub.counters.failed("tny", error.code)
        self.listener.pending_flush.add(self)

    def _note_response(self, response: Message) -> None:
        request = self._take_pending(response.to_message)
        if request is None:
            return
        if request.protocol == AUTH.number:
            tried, self._pending_sign_on = self._pending_sign_on, None
            if response.code == ResultCode.SUCCESS and tried is not None:
                self._sign_on = tried
        elif request.protocol == SUBSCRIBE.number and response.code == ResultCode.SUCCESS:
            self.subscribed = True

    def _take_pending(self, number: int) -> Message | None:
        request = self._pending.pop(number, None)
        if request is not None:
            self._pending_bytes -= _header_bytes(request)
        return request

    def _drop_if_slow(self) -> bool:
        # The usual backpressure (stop reading) does not help: the bytes come from the link.
        if not self.paused_since:
            return False
        unread: int = self.transport.get_write_buffer_size()
        if unread <= _MAX_UNREAD_BUFFERS * self.hub.limits.write_buffer:
            return False
        self.drop("slow_reader")
        return True

    def disconnected(self, reason: str) -> None:
        """Close the connection: the backend has closed the tunnel."""
        if not self.session.closed:
            self.close_reason = reason
            self.session.close(reason)
            self.listener.pending_flush.add(self)

    # -- loss of a backend -------------------------------------------------------------------

    def pause(self) -> None:
        """Queue messages from now on."""
        if self._queued is None:
            self._queued = []

    def resume(self) -> None:
        """Send the queued messages in order: a link carries the tunnel again."""
        if self._repeated_sign_on is not None:  # its response may be lost with the link: repeat it
            self.restore_sign_on()
            return
        queued, self._queued = self._queued, None
        for message, raw in queued or ():
            self._forward(message, raw)
        self.listener.pending_flush.add(self)

    def fail_pending(self) -> None:
        """Answer all pending requests with code 200: the backend that had them is lost."""
        pending, self._pending, self._repeated_sign_on = self._pending, {}, None
        self._pending_bytes = 0
        for request in pending.values():
            self._answer(request, ResultCode.SERVER_ERROR)
        self.listener.pending_flush.add(self)

    def restore_sign_on(self) -> None:
        """Sign the user on at a new backend, then send the queued messages."""
        if self._sign_on is None:
            self.resume()
            return
        self._repeated_sign_on = answered_id(self._sign_on[0])
        self.listener.relay(self, *self._sign_on)

    def _is_repeated_sign_on_reply(self, message: Message) -> bool:
        """Handle the response to a repeated sign-on; return whether this is one."""
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

    # -- the gateway itself delivers nothing -------------------------------------------------

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Do nothing: the backend pushes notifications."""

    @property
    def may_receive(self) -> bool:
        """Always false."""
        return False


def _header_bytes(message: Message) -> int:
    return len(message.forward_header or b"") + sum(map(len, message.headers or ()))


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
        """Done when the link is closed."""
        self.opened = False
        self._unconfirmed: set[int] = set()
        """Tunnels that were switched to this link, and that the backend may not know."""

    @property
    def dialect(self) -> str:
        """The dialect of links."""
        return self.listener.gateway.dialect

    def make_session(self, now: float) -> Session:
        """Return the gateway's end of the link, which sends LINK_OPEN first."""
        settings = self.listener.gateway
        opening = LinkOpen(
            service=settings.name,
            instance=settings.instance,
            key=secrets.token_hex(16),
            service_type=settings.service_type or None,
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
        """Pass messages to users, and follow the state of their tunnels."""
        if isinstance(event, Relayed):
            user = self.listener.users.get(event.key.tunnel_id)
            if user is not None:
                try:
                    user.handle_reply(event.message, event.raw)
                except Exception:  # the link has the tunnels of other users
                    user.failed()
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
        """Queue the user's messages until it is known whether the backend has the tunnel."""
        # A backend does not answer a switch when it knows the tunnel, and refuses it otherwise
        # (`docs/decisions/tny.md`, Tunnels). It answers in order, so a pong without a refusal
        # before it confirms all switches before the ping.
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
        # A refusal of a switch means that the backend was restarted: the user gets a new tunnel.
        # Any other close was meant for the user.
        if event.reason == "refused" and event.key.tunnel_id in self._unconfirmed:
            self._unconfirmed.discard(event.key.tunnel_id)
            self.listener.reassign(user)
        else:
            user.disconnected(event.reason)

    def _react(self) -> None:
        super()._react()
        self.listener.flush_links()

    def pause_writing(self) -> None:
        """Stop reading from the users while the backend reads too slowly."""
        # Backpressure through the gateway: what its users send could only be buffered here.
        super().pause_writing()
        for user in self.listener.users_of(self):
            user.transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading from the users when the backend has caught up."""
        super().resume_writing()
        for user in self.listener.users_of(self):
            if not user.paused_since and not user.transport.is_closing():
                user.transport.resume_reading()

    def close_session(self, reason: str) -> None:
        """Close the tunnels of all users, then the link."""
        for user in self.listener.users_of(self):
            user.end(reason)
            self.listener.forget(user)
        self.session.close(reason, self.hub.loop.time())

    def on_closed(self) -> None:
        """Make `BackendLinks` dial again; the tunnels were switched, or wait."""
        self.listener.links.pop(self.session, None)
        self.listener.flush_links()
        if not self.ended.done():
            self.ended.set_result(None)

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Do nothing: a link has no client."""

    @property
    def may_receive(self) -> bool:
        """Always false."""
        return False


class BackendLinks:
    """Keeps the links to one backend open."""

    def __init__(self, listener: GatewayListener, index: int, settings: Backend):
        self.listener = listener
        self.settings = settings
        self.name = f"{listener.gateway.service} {index}"
        """The service name for `GatewayTunnels`. One name per backend, so that tunnels are switched
        only between links of the same backend: another one does not know them."""
        self.first_attempt = asyncio.Event()
        """Set when the first attempt to dial has succeeded or failed."""
        self._dialers: list[Dialer[LinkConnection]] = []

    @property
    def is_up(self) -> bool:
        """Whether a link is open."""
        return any(link.active for link in self.listener.tunnels.links if link.service == self.name)

    def start(self, links: int) -> None:
        """Start dialling."""
        self._dialers = [self._dialer() for _ in range(links)]
        for dialer in self._dialers:
            dialer.start()

    async def stop(self) -> None:
        """Stop dialling; links stay open."""
        dialers, self._dialers = self._dialers, []
        await asyncio.gather(*(dialer.stop() for dialer in dialers))

    def _dialer(self) -> Dialer[LinkConnection]:
        # The delays are the original's: 1, 2, 2, 3 … 15 s, from the start again after a success
        # (`docs/decisions/tny.md`, Links).
        return Dialer(
            lambda: LinkConnection(self.listener, self),
            self.settings.host,
            self.settings.port,
            delays=ReconnectSchedule(),
            tls=lambda: self.listener.backend_tls if self.settings.tls else None,
            on_end=self._link_ended,
        )

    def _link_ended(self, link: LinkConnection | None) -> None:
        # Another link to the same backend may be open: then it is not down, and its tunnels were
        # switched.
        if (link is None or not link.opened) and not self.is_up:
            self.first_attempt.set()
            self.listener.backend_down(self)


FIRST_DIAL_S: Final = 2.0
"""How long the start waits for the first links. Users that connect before would find none."""


class GatewayListener(Listener):
    """The listener for users; it assigns each to a backend."""

    connection: type[Connection] = User
    settings: TnySettings

    def __init__(self, hub: HubContext, settings: TnySettings):
        super().__init__(hub, settings)
        gateway: GatewaySettings = hub.config.table(GATEWAY)
        self.gateway = gateway
        self.options = server_options(settings)
        self.link_options = GatewayOptions(dialect=gateway.dialect)
        self.link_dialect: Dialect = "upstream" if gateway.dialect == "upstream" else "seed"
        """The dialect of messages on links."""
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

    @property
    def running(self) -> int:
        """The number of requests that backends have not answered."""
        return sum(user.unanswered for user in self.users.values())

    async def start(self) -> None:
        """Dial the backends, then listen."""
        if any(each.tls for each in self.gateway.backends):
            self.backend_tls = _client_tls(self.hub.config)
        for backend in self.backends:
            backend.start(max(1, self.gateway.links))
        first = [asyncio.ensure_future(backend.first_attempt.wait()) for backend in self.backends]
        _, late = await asyncio.wait(first, timeout=FIRST_DIAL_S)
        for each in late:
            each.cancel()
        await super().start()

    async def stop(self) -> None:
        """Stop listening and dialling; users and links stay connected."""
        await super().stop()
        for backend in self.backends:
            await backend.stop()

    def prepare_reload(self, config: Config) -> Callable[[], None]:
        """Read the certificates of links, too."""
        apply_listener = super().prepare_reload(config)
        context = None if self.backend_tls is None else _client_tls(config)

        def apply() -> None:
            apply_listener()
            self.backend_tls = context

        return apply

    # -- tunnels -----------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """Whether any backend can be reached."""
        return any(link.active for link in self.tunnels.links)

    def open_tunnel(self, user: User) -> bool:
        """Open a tunnel for a user to the next backend that is up; return False when none is."""
        # A new id for every tunnel, also of the same user: messages of the old one that are still
        # on their way must not reach the new one.
        user.backend, user.tunnel_id = None, next(self._ids)
        ip, port = _packed(user.peer[0]), user.peer[1]
        for _ in self.backends:
            backend = self.backends[self._next_backend % len(self.backends)]
            self._next_backend += 1
            try:
                code = self.tunnels.connect(
                    backend.name, user.tunnel_id, ip=ip, port=port, now=self.hub.loop.time()
                )
            except SessionError:  # the maximum number of tunnels is reached
                return False
            if code == ResultCode.SUCCESS:
                user.backend = backend
                self.users[user.tunnel_id] = user
                self.flush_links()
                return True
        return False

    def relay(self, user: User, message: Message, raw: bytes) -> ResultCode:
        """Send a user's message through its tunnel; return SUCCESS or the code of a refusal."""
        if user.backend is None and not self.open_tunnel(user):
            return ResultCode.NO_LINK
        assert user.backend is not None
        same = user.session.dialect == self.link_dialect
        payload = raw if same else in_dialect(message, self.link_dialect)
        now = self.hub.loop.time()
        return self.tunnels.relay(user.backend.name, user.tunnel_id, payload, now)

    def forget(self, user: User) -> None:
        """Close the tunnel of a user."""
        self.users.pop(user.tunnel_id, None)
        with suppress(SessionError):
            self.tunnels.disconnect(user.tunnel_id, self.hub.loop.time())
        self.flush_links()

    def users_of(self, link: LinkConnection) -> list[User]:
        """Return the users whose tunnels a link carries."""
        users = self.users
        return [users[key.tunnel_id] for key in link.session.tunnels if key.tunnel_id in users]

    # -- links -------------------------------------------------------------------------------

    def flush_links(self) -> None:
        """Flush links with something to send, or with events, at the end of this turn."""
        # A message of a user changes the session of its link, and a lost link those of others. The
        # sessions only know that they changed (`dirty`): the sockets are known here.
        for session, link in self.links.items():
            if session.dirty:
                self.pending_flush.add(link)

    def tunnel_answered(self, tunnel_id: int) -> None:
        """End the half-open state of a user: its backend checks the sign-on deadline."""
        user = self.users.get(tunnel_id)
        if user is not None:
            self.hub.table.end_half_open(user)

    def tunnel_lost(self, tunnel_id: int) -> None:
        """Queue the messages of a user without a link, until dialling succeeds or fails."""
        user = self.users.get(tunnel_id)
        if user is not None and not self.hub.table.draining:
            user.pause()

    def link_up(self) -> None:
        """Open tunnels for users that have none: a backend is up."""
        for user in tuple(self.users.values()):
            if user.backend is None:
                self.reassign(user)

    def backend_down(self, backend: BackendLinks) -> None:
        """Assign the users of a backend that is down to others."""
        for user in tuple(self.users.values()):
            if user.backend is backend:
                self.reassign(user)

    def reassign(self, user: User) -> None:
        """Open a new tunnel for a user, or let the user wait if no backend is up."""
        if user.session.closed or self.hub.table.draining:
            return
        self.forget(user)
        user.pause()
        user.fail_pending()
        if user.subscribed:
            # 216 closes: the client reconnects and subscribes again. Silently continuing would look
            # like a subscription that never gets anything.
            user.session.fail(ResultCode.SESSION_LOST)
        elif self.open_tunnel(user):
            user.restore_sign_on()
        else:
            self.users[user.tunnel_id] = user


def _client_tls(config: Config) -> ssl.SSLContext:
    """Return the TLS context for links.

    With the certificates of `relay.tls` if they are set, for mutual TLS; otherwise with the
    system's authorities and no client certificate.
    """
    tls = config.listeners["relay"].tls
    try:
        context = ssl.create_default_context(cafile=tls.client_ca or None if tls else None)
        if tls is not None:
            context.load_cert_chain(tls.certificate, tls.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"relay.tls: {error}") from error
    return context


def _packed(address: str) -> bytes:
    """Return an address as the bytes of TUNNEL_CONNECT."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return b""
    return (getattr(found, "ipv4_mapped", None) or found).packed


def make_listener(hub: HubContext, settings: TnySettings) -> Listener:
    """Return the listener that serves tny, or the one that relays it if the hub is a gateway."""
    gateway: GatewaySettings = hub.config.table(GATEWAY)
    if gateway.enabled:
        return GatewayListener(hub, settings)
    return TnyListener(hub, settings)
