"""The events of a comet session, and what both ends of a connection share (seed 004, 协议指令).

Rule numbers refer to `docs/decisions/comet.md`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from wirelake.wire.errors import EncodeError

from ..sansio import CLOSED, Event, Role, Session, SessionError
from .layout import (
    Auth,
    AuthSuccess,
    Command,
    Error,
    ErrorCode,
    ExchangeKey,
    GetMessageList,
    GetTopicList,
    Heartbeat,
    MessageAck,
    MessageList,
    Notification,
    Ok,
    Reply,
    ReportEnviron,
    Subscribe,
    TopicList,
    Unsubscribe,
)
from .limits import SEND_COUNT, SEND_FRAME, Dialect
from .protocol import PROTOCOL
from .sealing import ContentOpener, ContentSealer, HipushContent

__all__ = [
    "ANSWERS",
    "BEFORE_AUTH",
    "ENDS",
    "REASONS",
    "AuthRequested",
    "Authenticated",
    "Endpoint",
    "HeartbeatAnswered",
    "KeyExchanged",
    "Notified",
    "Replied",
    "Requested",
    "open_content",
    "seal",
    "with_content",
]


# -- events ----------------------------------------------------------------------------------------


_MASK = "<secret>"


# -- events of a server ----------------------------------------------------------------------


class AuthRequested(Event, frozen=True, gc=False):
    """A client signs on: check the token, then call `accept` or `refuse`.

    Do the same work whether or not the client exists: the response time would reveal it.
    """

    client_id: str
    token: str

    def __repr__(self) -> str:
        return f"AuthRequested(client_id={self.client_id!r}, token={_MASK})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("client_id", self.client_id), ("token", _MASK)]


class Requested(Event, frozen=True, gc=False):
    """A command of an authenticated client: answer with `send`."""

    command: Any


class HeartbeatAnswered(Event, frozen=True, gc=False):
    """A heartbeat was received and answered.

    The application may now send old notifications again; the original does so every 1800 s.
    """


# -- events of a client ----------------------------------------------------------------------


class Replied(Event, frozen=True, gc=False):
    """The server answered a command of ours; notifications of a list are opened."""

    command: Any
    reply: Any


class Notified(Event, frozen=True, gc=False):
    """A notification was received; `content` is decrypted if it was sealed."""

    notification: Notification
    content: bytes


# -- events of both --------------------------------------------------------------------------


class Authenticated(Event, frozen=True, gc=False):
    """The connection now belongs to a client."""

    client_id: str


class KeyExchanged(Event, frozen=True, gc=False):
    """From here on, content is sealed."""


# -- the endpoint ----------------------------------------------------------------------------------


REASONS: Final[dict[int, str]] = {
    ErrorCode.TOKEN_ILLEGAL: "token expired or illegal",
    ErrorCode.CLIENT_NOT_FOUND: "client id not exists",
    ErrorCode.ALREADY_ONLINE: "clientId already online",
    ErrorCode.SERVER_ERROR: "server error",
    ErrorCode.BAD_ARGUMENTS: "message format illegal",
    ErrorCode.AUTH_REQUIRED: "auth required",
    ErrorCode.TOO_BUSY: "too busy",
    ErrorCode.KEY_REQUIRED: "key required",
}
"""The text sent with each error code; those of 0 to 2 and 4 are the original's."""

ANSWERS: Final[dict[type, tuple[type, ...]]] = {
    Auth: (AuthSuccess, Error),
    ExchangeKey: (Ok, Error),
    GetTopicList: (TopicList, Error),
    Subscribe: (Ok, Error),
    Unsubscribe: (Ok, Error),
    GetMessageList: (MessageList, Error),
    Heartbeat: (Ok, Error),
    MessageAck: (Ok, Error),
    ReportEnviron: (Ok, Error),
}
"""The replies that may answer each command."""

BEFORE_AUTH: Final = (Heartbeat, ReportEnviron)
"""Answered ok even before a client has signed on (rule 12)."""

ENDS: Final[dict[str, str]] = {"eof": CLOSED, "broken frame": CLOSED, "close": CLOSED}
"""How a connection can end in every state."""

_LISTS: Final[dict[type, str]] = {
    Subscribe: "topics",
    Unsubscribe: "topics",
    MessageAck: "msg_ids",
    ReportEnviron: "extra",
    TopicList: "topics",
    MessageList: "messages",
}


class Endpoint(Session):
    """One end of a connection."""

    FIRST: ClassVar[str] = "new"

    def __init__(self, role: Role, dialect: Dialect, now: float):
        super().__init__(role, now=now)
        self.client_id = ""
        self._dialect: Dialect = dialect
        self._codec = PROTOCOL.codec(dialect)
        self._auth_frame = self._auth_success_frame = b""

    def _encode(self, message: Command | Reply) -> bytes:
        """Encode a frame that any peer can read: at most 32767 bytes, 127 items (rule 2)."""
        name = _LISTS.get(type(message))
        if name is not None and len(getattr(message, name)) > SEND_COUNT:
            raise SessionError("too_large", f"{name}: more than {SEND_COUNT} items")
        try:
            frame: bytes = self._codec.encode_frame(message)
        except EncodeError as error:
            raise SessionError(error.code, str(error)) from error
        if len(frame) - 2 > SEND_FRAME:
            raise SessionError("too_large", f"frame of {len(frame) - 2} bytes exceeds {SEND_FRAME}")
        return frame


# -- sealed content (section 4) --------------------------------------------------------------------


def seal(sealer: ContentSealer | HipushContent | None, notification: Notification) -> Notification:
    """Return the notification with its content sealed; unchanged without a key."""
    if sealer is None:
        return notification
    if isinstance(sealer, HipushContent):
        return with_content(notification, sealer.seal(notification.content))
    content = sealer.seal(
        notification.content,
        msg_type=notification.msg_type,
        msg_id=notification.msg_id,
        ts=notification.ts,
    )
    return with_content(notification, content)


def open_content(opener: ContentOpener | HipushContent | None, notification: Notification) -> bytes:
    """Return the content of a notification; DecodeError `bad_record` when it does not open."""
    if opener is None:
        return notification.content
    if isinstance(opener, HipushContent):
        return opener.open(notification.content)
    return opener.open(
        notification.content,
        msg_type=notification.msg_type,
        msg_id=notification.msg_id.encode("utf-8", "surrogateescape"),
        ts=notification.ts,
    )


def with_content(notification: Notification, content: bytes) -> Notification:
    """Return the same notification with other content."""
    return Notification(
        msg_type=notification.msg_type,
        msg_id=notification.msg_id,
        job_id=notification.job_id,
        content=content,
        ts=notification.ts,
    )
