"""The comet listener: phones sign on, subscribe, receive, acknowledge (`docs/decisions/comet.md`).

A notification that is not sealed has the same bytes for all phones of a dialect, and everything but
the id, the content and the time is the same for all notifications of a type and a size: `CometForm`
encodes that once, as a template. Sealed notifications go through the session of each phone.
"""

from __future__ import annotations

import json
import logging
import operator
import os
import time
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from wirelake.protocols.comet.binding import BINDING, CometSettings
from wirelake.protocols.comet.layout import (
    Error,
    GetMessageList,
    GetTopicList,
    Isp,
    MessageAck,
    MessageList,
    NetworkType,
    Ok,
    ReportEnviron,
    Subscribe,
    TopicList,
    Unsubscribe,
)
from wirelake.protocols.comet.layout import Notification as Message
from wirelake.protocols.comet.limits import Dialect, ServerOptions
from wirelake.protocols.comet.protocol import PROTOCOL
from wirelake.protocols.comet.sealing import RsaServerKey, ServerKey, X25519ServerKey
from wirelake.protocols.comet.session import (
    AuthRequested,
    HeartbeatAnswered,
    KeyExchanged,
    Requested,
    ServerSession,
)
from wirelake.protocols.sansio import Event, SessionError
from wirelake.wire.errors import EncodeError

from ..auth import read_secret, static_key
from ..config import ConfigError
from ..errors import HubError
from ..net.connection import BEFORE_SIGN_ON_BYTES, Connection
from ..net.listener import Listener
from ..pubsub.notifications import Notification

if TYPE_CHECKING:
    from ..net.context import HubContext
    from ..pubsub.subscriptions import Client

__all__ = [
    "RESEND_S",
    "CometConnection",
    "CometForm",
    "CometListener",
    "message_of",
]


_MAX_TEMPLATES: Final = 1_024
"""Templates kept, by type and sizes. Publishers choose the sizes, so the number is bounded."""


def message_of(notification: Notification) -> Message:
    """Return the comet message of a notification."""
    return Message(
        msg_type=notification.type,
        msg_id=notification.id,
        content=notification.content,
        ts=notification.ts_ms,
    )


class CometForm:
    """The encoder of notifications, shared by all connections."""

    # Joining five byte strings instead of running the codec: at depth 64 the hub delivers 6 million
    # notifications per second to 100 subscribers (benchmarks/results/hub.json, fanout).

    __slots__ = ("_encode", "_templates", "_time_size", "_ts", "name")

    def __init__(self, dialect: Dialect):
        self.name = f"comet {dialect}"
        self._encode = PROTOCOL.codec(dialect).encode_frame
        self._templates: dict[tuple[int, int, int], tuple[bytes, bytes]] = {}
        # The time is at the end, and all bytes of -1 differ from those of 0.
        self._time_size = sum(map(operator.ne, self._timed(0), self._timed(-1)))
        self._ts = (0, self._time(0))

    def encode(self, notification: Notification) -> bytes:
        """Return the frame."""
        id_text, content = notification.id.encode(), notification.content
        like = notification.type, len(id_text), len(content)
        head, middle = self._templates.get(like) or self._learn_template(*like)
        ts_ms, time = self._ts
        if ts_ms != notification.ts_ms:  # many are published in one millisecond
            self._ts = ts_ms, time = notification.ts_ms, self._time(notification.ts_ms)
        return b"".join((head, id_text, middle, content, time))

    def _learn_template(self, kind: int, id_size: int, size: int) -> tuple[bytes, bytes]:
        """Return the bytes before the id, and those between id and content."""
        # The codec is the only source of the layout: two frames that differ in nothing but the id
        # show where the id is. The content and the time are at the end.
        before, other = (
            self._encode(Message(msg_type=kind, msg_id=letter * id_size, content=bytes(size)))[
                : -(size + self._time_size)
            ]
            for letter in "ab"
        )
        differs = (at for at, letter in enumerate(before) if letter != other[at])
        id_at = next(differs, len(before))
        template = before[:id_at], before[id_at + id_size :]
        if len(self._templates) >= _MAX_TEMPLATES:
            self._templates.clear()
        self._templates[kind, id_size, size] = template
        return template

    def _time(self, ts_ms: int) -> bytes:
        return self._timed(ts_ms)[-self._time_size :]

    def _timed(self, ts_ms: int) -> bytes:
        frame: bytes = self._encode(Message(msg_type=0, msg_id="", content=b"", ts=ts_ms))
        return frame


RESEND_S: Final = 1_800.0
"""A heartbeat triggers a resend of what is older than this and not acknowledged, at most this often
(the original's number). Heartbeats come every 40 s; a resend with each would repeat everything that
an application is slow to acknowledge."""
_REASON_CHARACTERS: Final = 200
_log = logging.getLogger(__name__)


class CometConnection(Connection):
    """A phone's connection."""

    protocol: ClassVar[str] = "comet"
    acks_all: ClassVar[bool] = BINDING.inbox

    __slots__ = ("_environ_bytes", "_handling_event", "_resend_from", "environ")

    listener: CometListener
    session: ServerSession

    def __init__(self, listener: CometListener):
        super().__init__(listener)
        self.environ: ReportEnviron | None = None
        """The device facts that the phone has reported."""
        self._environ_bytes = 0
        self._handling_event = False
        self._resend_from = 0.0

    def make_session(self, now: float) -> ServerSession:
        """Return the server's session, with a new key; it accepts only small frames at first."""
        key = self.listener.fresh_key()
        session = ServerSession(self.listener.options, server_key=key, now=now)
        # By the length of its first frame, a peer that speaks TLS or ESNP learns at once that it
        # does not speak to its server.
        session.frame_limit = BEFORE_SIGN_ON_BYTES
        return session

    @property
    def may_receive(self) -> bool:
        """Whether notifications may be pushed now (rules 18 and 20)."""
        return self.session.can_push

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Push through the session, which seals contents if a key was exchanged."""
        session = self.session
        for notification in notifications:
            # The key has reached its limit of sealed contents. The rest stays unacknowledged, so
            # the phone gets it with its next list.
            if not session.can_push:
                break
            session.send(message_of(notification))
        if not self._handling_event:
            self.react()

    def on_event(self, event: Event) -> None:
        """Handle a message of the client."""
        self._handling_event = True
        try:
            self._on_event(event)
        finally:
            self._handling_event = False

    def _on_event(self, event: Any) -> None:
        kind = type(event)
        if kind is Requested:
            _HANDLERS[type(event.command)](self, event.command)
        elif kind is HeartbeatAnswered:
            self._resend()
        elif kind is AuthRequested:
            self.start(self._sign_on(event.client_id, event.token))
        elif kind is KeyExchanged:
            self._regroup()

    @property
    def reported(self) -> dict[str, Any]:
        """What the phone runs on: report_environ."""
        if self.environ is None:
            return {}
        return {
            "network": _name_of(NetworkType, self.environ.network_type),
            "isp": _name_of(Isp, self.environ.isp),
            "phone": self.environ.phone_type,
            "extra": list(self.environ.extra),
        }

    def key_log(self) -> dict[str, Any] | None:
        """Return the content key, once it was exchanged."""
        found = self.session.key_log()
        return json.loads(found) if found else None

    def on_closed(self) -> None:
        """Remove the connection from those of signed-on clients."""
        if self.client is not None:
            self.listener.forget(self.client.id, self)

    # -- signing on --------------------------------------------------------------------------

    async def _sign_on(self, client_id: str, token: str) -> None:
        client: Client | None = None
        code = 0
        try:
            client = await self.hub.authority.sign_on(self, client_id, token)
        except HubError as error:
            if error.code != "auth_failed":
                code = BINDING.error_number(error.code)
        if self.session.closed:  # the peer did not wait for the end of the delay
            return
        if client is None:
            self.session.refuse(code)
        else:
            self._accept(client)
        if not self._handling_event:
            self.react()

    def _accept(self, client: Client) -> None:
        """Accept the client; `on_duplicate` decides which of its two connections is closed."""
        # A phone that changed networks must not wait until the hub notices the loss of its old
        # connection: by default the new one replaces it. Test and registration are one step,
        # without a turn of the loop in between (`docs/decisions/comet.md`, rule 14).
        older = self.listener.online.get(client.id)
        # With `on_duplicate="reject"` the session refuses this connection, and the older one stays.
        if not self.session.accept(elsewhere=None if older is None else older.session):
            self.hub.topics.detach(self)
            self.client = None
            return
        self.session.client_id = client.id  # share one string: there are up to 100,000 sessions
        self.listener.online[client.id] = self
        self._resend_from = self.hub.loop.time() + RESEND_S
        self.form = self._shared_form()
        self.hub.topics.attach(self)
        if older is not None and older is not self:
            older.react()

    def _shared_form(self) -> CometForm | None:
        session = self.session
        return self.listener.form if session.can_push and not session.sealed else None

    def _regroup(self) -> None:
        """Change between the shared form and sealed contents, or start pushing.

        What was published earlier in this turn is written first, unsealed: the reply that completes
        the key exchange has not been written yet.
        """
        self.form = self._shared_form()
        self.hub.topics.regroup(self)

    # -- commands ----------------------------------------------------------------------------

    def _answer(self, reply: Ok | Error | TopicList | MessageList) -> None:
        if self.session.closed:
            return
        self.session.send(reply)
        if not self._handling_event:
            self.react()

    def _done(self, result: object) -> None:
        """Answer a subscribe or unsubscribe."""
        self._answer(_error(result) if isinstance(result, HubError) else Ok())

    def _get_topic_list(self, command: GetTopicList) -> None:  # noqa: ARG002
        assert self.client is not None
        self.start(self._answer_topics(self.client))

    async def _answer_topics(self, client: Client) -> None:
        try:
            await self.hub.topics.claim(client)
        except HubError as error:
            self._answer(_error(error))
        else:
            self._answer(TopicList(topics=tuple(client.subscriptions)))

    def _subscribe(self, command: Subscribe) -> None:
        self.hub.topics.subscribe(self, command.topics, True, self._done)

    def _unsubscribe(self, command: Unsubscribe) -> None:
        self.hub.topics.unsubscribe(self, command.topics, self._done)

    def _get_message_list(self, command: GetMessageList) -> None:  # noqa: ARG002
        self.start(self._answer_list())

    async def _answer_list(self) -> None:
        try:
            waiting = await self.hub.topics.waiting(self)
        except HubError as error:
            self._answer(_error(error))
        else:
            self._list(waiting)

    def _list(self, waiting: Sequence[Notification]) -> None:
        """Answer with the oldest that fit one frame (rule 7); none is removed (rule 19)."""
        session = self.session
        if session.closed:
            return
        # Fetching the list can be what allows pushes (`push_after`): the connection joins the live
        # ones only after the list is written, so that pushes do not overtake it.
        could_push = session.can_push
        page = session.page([message_of(each) for each in waiting])
        self.hub.counters.delivered[self.protocol] += len(page)
        try:
            session.send(MessageList(messages=page))
        except SessionError:
            _log.exception("connection %d: cannot write a message list", self.id)
            session.send(_error(HubError("internal")))
        if session.can_push != could_push:
            self._regroup()
        if not self._handling_event:
            self.react()

    def _message_ack(self, command: MessageAck) -> None:
        self.hub.topics.ack(self, command.msg_ids)
        self._answer(Ok())

    @property
    def held_bytes(self) -> int:
        """Also what the phone has reported: up to a frame of 64 KB."""
        return super().held_bytes + self._environ_bytes

    def _report_environ(self, command: ReportEnviron) -> None:
        self.environ = command
        self._environ_bytes = sum(map(len, (command.phone_type, *command.extra)))
        self._charge_held()
        self._answer(Ok())

    # -- heartbeats --------------------------------------------------------------------------

    def _resend(self) -> None:
        """Send again what was not acknowledged for `RESEND_S`, at most that often."""
        now = self.hub.loop.time()
        if self.client is None or now < self._resend_from or self.paused_since:
            return
        before, self._resend_from = self._resend_from, now + RESEND_S
        self.start(self._resend_waiting(before))

    async def _resend_waiting(self, resend_from: float) -> None:
        try:
            waiting = await self.hub.topics.waiting(self)
        except HubError:  # a heartbeat has no answer for it: the next one tries again
            self._resend_from = resend_from
            return
        if not self.open or not self.may_receive:
            return
        before_ms = time.time() * 1000 - RESEND_S * 1000
        old = [each for each in waiting if each.ts_ms <= before_ms]
        self.hub.counters.delivered[self.protocol] += len(old)
        self.deliver(old)


_HANDLERS: Final[dict[type, Any]] = {
    GetTopicList: CometConnection._get_topic_list,
    Subscribe: CometConnection._subscribe,
    Unsubscribe: CometConnection._unsubscribe,
    GetMessageList: CometConnection._get_message_list,
    MessageAck: CometConnection._message_ack,
    ReportEnviron: CometConnection._report_environ,
}


def _error(error: HubError) -> Error:
    number = BINDING.error_number(error.code)
    return Error(error_code=number, reason=error.text[:_REASON_CHARACTERS])


class CometListener(Listener):
    """The listener for phones."""

    connection: type[CometConnection] = CometConnection

    def __init__(self, hub: HubContext, settings: CometSettings):
        super().__init__(hub, settings)
        self.limits_changed()
        self.form = CometForm(settings.dialect)
        self.online: dict[str, CometConnection] = {}
        """The connection of each client that is signed on."""
        self._kind = settings.key
        self._static = static_key(settings.static_key) if settings.static_key else None
        self._rsa = _rsa_key(settings) if settings.rsa_key else None

    def limits_changed(self) -> None:
        """Make the options of new sessions."""
        settings, limits = self.settings, self.hub.limits
        self.options = ServerOptions(
            dialect=settings.dialect,
            auth_deadline_s=limits.auth_s,
            auth_attempts=limits.auth_attempts,
            push_after=settings.push_after,
            require_encryption=settings.require_encryption,
            on_duplicate=settings.on_duplicate,
            legacy_hipush=settings.legacy_hipush,
        )

    def fresh_key(self) -> ServerKey | None:
        """Return the key that a connection offers for sealing; with X25519 a new one for each."""
        if self._kind != "x25519":
            return self._rsa
        # A key pair per connection gives forward secrecy. The static key, if there is one, lets
        # clients that pin it recognise the server.
        return X25519ServerKey(os.urandom(32), static_private=self._static)

    def forget(self, client_id: str, connection: CometConnection) -> None:
        """Remove a closed connection."""
        if self.online.get(client_id) is connection:
            del self.online[client_id]


def _name_of(names: type[IntEnum], number: int) -> str | int:
    """Return the name of a number, or the number if the document has no name for it."""
    return names(number).name.lower() if number in names.__members__.values() else number


def _rsa_key(settings: CometSettings) -> RsaServerKey:
    try:
        key = load_pem_private_key(read_secret(settings.rsa_key), None)
        pkcs8 = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        return RsaServerKey(pkcs8, legacy_hipush=settings.legacy_hipush)
    except OSError as error:
        raise ConfigError(f"comet.rsa_key: {settings.rsa_key}: {error.strerror}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"comet.rsa_key: {settings.rsa_key}: not a PEM private key") from error
    except EncodeError as error:
        raise ConfigError(f"comet.rsa_key: {settings.rsa_key}: {error.detail}") from error
