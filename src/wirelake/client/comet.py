"""A client's comet connection: signing on, key exchange, topics, notifications (seed 004).

Contents are sealed when the server offers a key. comet has neither calls nor publishes.
`CometClient` is the client with exactly what comet has, for type checkers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Final, Literal, cast

from wirelake.protocols.comet.layout import (
    Auth,
    AuthSuccess,
    Command,
    Error,
    ErrorCode,
    GetMessageList,
    GetTopicList,
    Heartbeat,
    Isp,
    MessageAck,
    MessageList,
    NetworkType,
    ReportEnviron,
    Subscribe,
    TopicList,
    Unsubscribe,
)
from wirelake.protocols.comet.layout import Notification as Message
from wirelake.protocols.comet.limits import SEND_COUNT, ClientOptions, Dialect
from wirelake.protocols.comet.sealing import Suite, choose_suite
from wirelake.protocols.comet.session import ClientSession, KeyExchanged, Notified, Replied
from wirelake.protocols.sansio import Event, SessionError
from wirelake.wire.errors import WireError, unknown

from .client import InboxClient
from .connection import ClientConnection, Notification
from .errors import (
    AuthFailed,
    BadCall,
    BadOption,
    Busy,
    CallFailed,
    ConnectionLost,
    OptionText,
    Refused,
)

__all__ = ["CometClient", "CometConnection"]

_KEY: Final = "key"
_SECRET_BYTES: Final[dict[Suite, int]] = {"x25519": 32, "rsa-oaep": 32, "hipush": 8}
_WRONG_CREDENTIALS: Final = frozenset(
    {int(ErrorCode.TOKEN_ILLEGAL), int(ErrorCode.CLIENT_NOT_FOUND)}
)


class CometConnection(ClientConnection):
    """One comet connection."""

    protocol: ClassVar[str] = "comet"
    fetches: ClassVar[bool] = True
    session: ClientSession

    def make_session(self, now: float, previous: ClientConnection | None) -> ClientSession:  # noqa: ARG002
        """Return a new session: comet has no resumption."""
        settings = self.settings
        given: dict[str, Any] = dict(settings.extra)
        if settings.heartbeat_s is not None:
            given["heartbeat_s"] = settings.heartbeat_s
        dialect = cast(Dialect | Literal["auto"], settings.dialect or "seed")
        options = ClientOptions(
            dialect=dialect, allow_plaintext=settings.plaintext, pinned=settings.pinned, **given
        )
        return ClientSession(options, now=now)

    async def sign_on(self) -> None:
        """Sign on and exchange keys, if the settings have an id."""
        settings = self.settings
        if settings.id is None:
            return
        try:
            reply = await self.request(Auth(client_id=settings.id, token=settings.token))
        except ConnectionLost as error:
            if self.reason.startswith("bad_key"):
                raise Refused("bad_key", self._no_key()) from error
            raise
        except Busy:
            raise
        except CallFailed as error:
            wrong = error.code in _WRONG_CREDENTIALS
            raise (AuthFailed if wrong else Refused)(error.code, error.text) from error
        assert isinstance(reply, AuthSuccess)
        suite = self._offered_suite(reply.encrypt_key)
        if suite is not None:
            await self._exchange_key(_SECRET_BYTES[suite])

    def _no_key(self) -> OptionText:
        if self.settings.pinned is not None:
            return lambda name: f"the server's key does not match {name('pinned')}"
        return lambda name: (
            f"the server offers no key to seal contents; {name('allow_plaintext')} accepts that"
        )

    def _offered_suite(self, encrypt_key: bytes) -> Suite | None:
        # An unknown or weak key counts as none: the session has already decided whether the
        # connection may go on without one.
        options = self.session.options
        try:
            return choose_suite(
                encrypt_key,
                pinned=options.pinned is not None,
                legacy_hipush=options.legacy_hipush,
            )
        except WireError:
            return None

    async def _exchange_key(self, secret_bytes: int) -> None:
        secret = os.urandom(secret_bytes)
        self.begin_send().exchange_key(secret=secret, eph_private=os.urandom(32))
        try:
            await self.wait_for(_KEY)
        except ConnectionLost as error:
            if self.reason.startswith("bad_key"):
                raise Refused("bad_key", "the server's key does not match") from error
            raise

    @property
    def request_limit(self) -> int:
        """How many commands may be pending, without one for the session's own heartbeat."""
        return max(self.session.options.max_pending - 1, 1)

    @property
    def awaiting_reply(self) -> bool:
        """Whether a reply of the server is pending."""
        return bool(self.session.unanswered)

    # -- requests ----------------------------------------------------------------------------

    def request(self, command: Command) -> asyncio.Future[Any]:
        """Send a command; the future has its reply."""
        try:
            self.begin_send().send(command)
        except SessionError as error:
            if self.settings.id is None and not self.session.closed:
                raise BadOption(
                    lambda name: f"comet: sign on first, with {name('id')} and {name('token')}"
                ) from error
            raise self.refused(error) from error
        return self.wait_for(id(command))  # replies name the command object they belong to

    async def subscribe(self, topics: Sequence[str], ack: bool, timeout_s: float) -> None:  # noqa: ARG002
        """Subscribe to topics; comet acknowledges every notification."""
        # Frames of comet are small: a long list is sent in parts, one after the other, so that a
        # refusal of one part ends it.
        for part in _parts(topics):
            await self.request(Subscribe(topics=part))

    async def unsubscribe(self, topics: Sequence[str], timeout_s: float) -> None:  # noqa: ARG002
        """End subscriptions."""
        for part in _parts(topics):
            await self.request(Unsubscribe(topics=part))

    async def ack(self, ids: Sequence[str], timeout_s: float) -> None:  # noqa: ARG002
        """Acknowledge notifications."""
        for part in _parts(ids):
            await self.request(MessageAck(msg_ids=part))

    async def fetch(self) -> list[Notification]:
        """Return the oldest unacknowledged notifications, as many as fit one list."""
        reply = await self.request(GetMessageList())
        assert isinstance(reply, MessageList)
        return [_notification(each, each.content) for each in reply.messages]

    async def topics(self) -> list[str]:
        """Return the topics that the client is subscribed to."""
        reply = await self.request(GetTopicList())
        assert isinstance(reply, TopicList)
        return list(reply.topics)

    async def report(self, facts: Mapping[str, Any]) -> None:
        """Send report_environ: `network`, `isp` and `phone`; other facts become its extra texts."""
        rest = dict(facts)
        try:
            network = _number(NetworkType, rest.pop("network", ""))
            isp = _number(Isp, rest.pop("isp", Isp.NONE))
        except ValueError as error:
            raise BadCall(f"report: {error}") from error
        command = ReportEnviron(
            network_type=network,
            isp=isp,
            phone_type=str(rest.pop("phone", "")),
            extra=tuple(f"{name}={value}" for name, value in rest.items()),
        )
        await self.request(command)

    async def ping(self) -> float:
        """Send a heartbeat."""
        began = self.loop.time()
        await self.request(Heartbeat())
        return self.loop.time() - began

    # -- events ------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Complete the command that a message answers, or pass a notification on."""
        match event:
            case Notified(notification=message, content=content):
                self.owner.notified(_notification(message, content))
            case Replied(command=command, reply=Error() as error):
                self.fail(id(command), self.call_failed(error.error_code, error.reason))
            case Replied(command=command, reply=reply):
                self.answer(id(command), reply)
            case KeyExchanged():
                self.answer(_KEY, None)


def _notification(message: Message, content: bytes) -> Notification:
    return Notification(message.msg_id, content, message.ts, None, message.msg_type)


def _parts(items: Sequence[str]) -> list[tuple[str, ...]]:
    """Split a list into parts that any server accepts."""
    return [tuple(items[at : at + SEND_COUNT]) for at in range(0, len(items), SEND_COUNT)]


def _number(names: type[IntEnum], given: str | int) -> int:
    """Return the number of a name in any case, or a number from 0 to 255 as it is."""
    if isinstance(given, str):
        found = names.__members__.get(given.upper())
        if found is None:
            raise ValueError(unknown(names.__name__, given, map(str.lower, names.__members__)))
        return int(found)
    if not 0 <= given <= 0xFF:
        raise ValueError(f"{given} is not a number from 0 to 255")
    return int(given)


# -- the typed client ----------------------------------------------------------------------------


class CometClient(InboxClient):
    """A client of comet: `connect("comet://host", CometClient)`."""

    protocol: ClassVar[str | None] = CometConnection.protocol
