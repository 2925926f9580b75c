"""comet connections, both roles: who may say what when, and what is answered (seed 004).

The document's dialogue is one question, one answer. A server handles the commands of a connection
one after the other, so its replies keep their order (rule 17); notifications may come between.
Whether a token is right, which topics exist and what waits in an inbox is the application's to
say: it gets `AuthRequested` or `Requested` and answers with `send`.

Rule numbers refer to `docs/decisions/comet.md`.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from wirehouse.protocols.sansio import CLOSED, Event, Role, Session, SessionError, Side, Table
from wirehouse.wire.errors import DecodeError, EncodeError, WireError

from . import codec_hipush, codec_seed
from .arguments import check_arguments
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
from .limits import SEND_COUNT, SEND_FRAME, ClientOptions, ServerOptions
from .sealing import (
    ContentOpener,
    ContentSealer,
    ServerKey,
    choose_suite,
    content_key,
    wrap_secret,
)

__all__ = [
    "AuthRequested",
    "Authenticated",
    "ClientSession",
    "KeyExchanged",
    "Notified",
    "Replied",
    "Requested",
    "ServerSession",
]

_CODECS = {"seed": codec_seed, "hipush": codec_hipush}

REASONS = {
    ErrorCode.TOKEN_ILLEGAL: "token expired or illegal",
    ErrorCode.CLIENT_NOT_FOUND: "client id not exists",
    ErrorCode.ALREADY_ONLINE: "clientId already online",
    ErrorCode.SERVER_ERROR: "server error",
    ErrorCode.BAD_ARGUMENTS: "message format illegal",
    ErrorCode.AUTH_REQUIRED: "auth required",
    ErrorCode.TOO_BUSY: "too busy",
    ErrorCode.KEY_REQUIRED: "key required",
}
"""What is said with each error code; 0-2 and 4 are the original's words."""

ANSWERS: dict[type, tuple[type, ...]] = {
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
"""What may answer what."""

BEFORE_AUTH = (Heartbeat, ReportEnviron)
"""Answered ok even before a client has signed on (rule 12)."""


# -- events ----------------------------------------------------------------------------------


class AuthRequested(Event, frozen=True, gc=False):
    """A client wants to sign on: check the token, then `accept` or `refuse`."""

    client_id: str
    token: str


class Requested(Event, frozen=True, gc=False):
    """An authenticated client asks something: answer with `send`."""

    command: Any


class Authenticated(Event, frozen=True, gc=False):
    """The connection now belongs to a client."""

    client_id: str


class KeyExchanged(Event, frozen=True, gc=False):
    """From here on, content is sealed."""


class Replied(Event, frozen=True, gc=False):
    """The server answered a command of ours."""

    command: Any
    reply: Any


class Notified(Event, frozen=True, gc=False):
    """A notification came; `content` is what was sealed, or the content as it came."""

    notification: Notification
    content: bytes


# -- what both roles share -------------------------------------------------------------------


class _CometSession(Session):
    FIRST: ClassVar[str] = "new"

    def __init__(self, role: Role, dialect: str, now: float):
        super().__init__(role, now=now)
        self.client_id = ""
        self._codec = _CODECS[dialect]
        self._auth_frame = self._auth_success_frame = b""

    def _encode(self, message: Command | Reply) -> bytes:
        """Bytes that any peer can read: at most 32767 in a frame and 127 in a list (rule 2)."""
        for items in (getattr(message, "topics", ()), getattr(message, "messages", ())):
            if len(items) > SEND_COUNT:
                raise SessionError("too_large", f"{len(items)} in one list, {SEND_COUNT} at most")
        try:
            frame: bytes = self._codec.encode_frame(message)
        except EncodeError as error:
            raise SessionError(error.code, str(error)) from error
        if len(frame) - 2 > SEND_FRAME:
            raise SessionError(
                "too_large", f"a frame of {len(frame) - 2} bytes, {SEND_FRAME} at most"
            )
        return frame


# -- server ----------------------------------------------------------------------------------


class ServerSession(_CometSession):
    """The server's end of one connection.

    `server_key` is fresh for each connection in the X25519 suite, from a pool with RSA; without
    one, clients get an empty key and content stays in clear.
    """

    TABLES: ClassVar[dict[Role, Table]] = {
        Role.SERVER: {
            "new": {"receive auth": "deciding", "time out": CLOSED},
            "deciding": {"accept": "authenticated", "refuse": "new", "give up": CLOSED},
            "authenticated": {"receive exchange_key": "keyed", "receive auth": CLOSED},
            "keyed": {"receive auth": CLOSED},
            CLOSED: {},
        }
    }

    def __init__(
        self,
        options: ServerOptions | None = None,
        *,
        server_key: ServerKey | None = None,
        now: float = 0.0,
    ):
        self.options = options or ServerOptions()
        super().__init__(Role.SERVER, self.options.dialect, now)
        self._key = server_key
        self._queue: deque[tuple[Command, bytes]] = deque()
        self._asked: tuple[Command, bytes] | None = None
        self._failures = 0
        self._listed = False
        self._sealer: ContentSealer | None = None
        self.timers.set("auth", now + self.options.auth_deadline_s)
        self.timers.set("idle", now + self.options.idle_limit_s)

    @property
    def authenticated(self) -> bool:
        """Whether a client has signed on."""
        return self.state in {"authenticated", "keyed"}

    @property
    def can_push(self) -> bool:
        """Whether `send` takes a notification now (rules 18 and 20)."""
        if self.options.require_encryption and self._sealer is None:
            return False
        return self.authenticated and (self._listed or self.options.push_after == "auth")

    # -- the application's side --------------------------------------------------------------

    def accept(self) -> None:
        """The token is right: answers auth_success."""
        asked = self._deciding()
        self._must("accept")
        self.client_id = asked[0].client_id
        self._auth_frame = asked[1]
        key = self._key.encrypt_key if self._key is not None else b""
        self._auth_success_frame = self._encode(AuthSuccess(encrypt_key=key))
        self._asked = None
        self._write(self._auth_success_frame)
        self.timers.clear("auth")
        self._emit(Authenticated(self.client_id))
        self._next()

    def refuse(self, code: int = ErrorCode.TOKEN_ILLEGAL, reason: str | None = None) -> None:
        """The token is wrong, or the client may not come in; the third time closes (rule 15)."""
        self._deciding()
        self._failures += 1
        final = code == ErrorCode.ALREADY_ONLINE or self._failures >= self.options.auth_attempts
        self._asked = None
        self._error(code, reason)
        if final:
            self._fail("auth_failed", detail=f"error {int(code)}, attempt {self._failures}")
            self._close("auth_failed", Side.LOCAL)
        else:
            self._must("refuse")
            self._next()

    def send(self, message: Reply) -> None:
        """Answers the command that `Requested` named, or pushes a notification."""
        if isinstance(message, Notification):
            self._push(message)
            return
        if self._asked is None or isinstance(self._asked[0], Auth):
            raise SessionError("bad_state", "nothing has been asked that this could answer")
        command = self._asked[0]
        if not isinstance(message, ANSWERS[type(command)]):
            raise SessionError(
                "bad_state", f"{type(message).__name__} does not answer {type(command).__name__}"
            )
        if isinstance(message, MessageList):
            message = MessageList(messages=tuple(self._sealed(n) for n in message.messages))
            self._listed = True
        self._answer(message)

    def close(self, reason: str) -> None:
        """Ends the connection; comet has no word for it, so the transport just closes."""
        self._close(reason, Side.LOCAL)

    def _deciding(self) -> tuple[Auth, bytes]:
        if self._asked is None or not isinstance(self._asked[0], Auth):
            raise SessionError("bad_state", "no client is waiting to be let in")
        return self._asked[0], self._asked[1]

    def _push(self, notification: Notification) -> None:
        if not self.can_push:
            raise SessionError("bad_state", f"no notification may be pushed when {self.state}")
        self._write(self._encode(self._sealed(notification)))

    def _sealed(self, notification: Notification) -> Notification:
        if self._sealer is None:
            return notification
        content = self._sealer.seal(
            notification.content,
            msg_type=notification.msg_type,
            msg_id=notification.msg_id,
            ts=notification.ts,
        )
        return Notification(
            msg_type=notification.msg_type,
            msg_id=notification.msg_id,
            job_id=notification.job_id,
            content=content,
            ts=notification.ts,
        )

    # -- the peer's side ---------------------------------------------------------------------

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        found: tuple[Any, int] = self._codec.decode_frame_c2s(buf, pos, end)
        return found

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        self.timers.set("idle", self.now + self.options.idle_limit_s)
        if len(self._queue) >= self.options.max_pending:
            self._fail("too_busy", detail=f"{len(self._queue)} commands wait for an answer")
            self._error(ErrorCode.TOO_BUSY)
            self._close("too_busy", Side.LOCAL, clean=False)
            return
        self._queue.append((message, buf[pos:stop]))
        if self._asked is None:
            self._next()

    def _next(self) -> None:
        """Takes commands from the queue until one needs the application, in their order."""
        while self._queue and self._asked is None and self.state != CLOSED:
            self._asked = self._queue.popleft()
            self._take(*self._asked)

    def _take(self, command: Command, frame: bytes) -> None:
        try:
            check_arguments(command)
        except DecodeError as error:
            self._fail_with(error, fatal=False)
            self._answer_error(ErrorCode.BAD_ARGUMENTS)
            return
        if isinstance(command, Auth):
            self._take_auth(command)
        elif isinstance(command, Heartbeat) or (
            isinstance(command, ReportEnviron) and not self.authenticated
        ):
            self._answer(Ok())  # rule 12
        elif not self.authenticated:
            self._fail("bad_state", detail="a command before auth", fatal=False)
            self._answer_error(ErrorCode.AUTH_REQUIRED)
        elif isinstance(command, ExchangeKey):
            self._take_key(command, frame)
        elif isinstance(command, GetMessageList) and not self._may_list():
            self._answer_error(ErrorCode.KEY_REQUIRED)
        else:
            self._emit(Requested(command))

    def _may_list(self) -> bool:
        return self._sealer is not None or not self.options.require_encryption

    def _take_auth(self, command: Auth) -> None:
        if not self.authenticated:
            self._must("receive auth")
            self._emit(AuthRequested(command.client_id, command.token))
            return
        self._fail("bad_state", detail="auth on an authenticated connection")
        self._error(ErrorCode.ALREADY_ONLINE)
        self._close("bad_state", Side.LOCAL, clean=False)

    def _take_key(self, command: ExchangeKey, frame: bytes) -> None:
        try:
            if self._key is None or self._sealer is not None:
                raise DecodeError("bad_key", "exchange_key", None, "no key was offered, or again")
            secret = self._key.unwrap(
                command.secret_key, auth=self._auth_frame, auth_success=self._auth_success_frame
            )
        except DecodeError as error:
            self._fail_with(error)
            self._error(ErrorCode.BAD_ARGUMENTS, "bad key")
            self._close("bad_key", Side.LOCAL, clean=False)
            return
        self._must("receive exchange_key")
        key = content_key(secret, self._auth_frame, self._auth_success_frame, frame)
        self._answer(Ok(), before_next=lambda: self._seal_from_now(key))

    def _seal_from_now(self, key: bytes) -> None:
        self._sealer = ContentSealer(key)
        self._emit(KeyExchanged())

    def _answer(self, reply: Reply, before_next: Any = None) -> None:
        frame = self._encode(reply)
        self._asked = None
        self._write(frame)
        if before_next is not None:
            before_next()
        self._next()

    def _answer_error(self, code: ErrorCode) -> None:
        self._answer(Error(error_code=code, reason=REASONS[code]))

    def _error(self, code: int, reason: str | None = None) -> None:
        """An error frame outside the order of replies: the connection closes, or auth failed."""
        text = reason if reason is not None else REASONS.get(ErrorCode(code), "")
        self._write(self._encode(Error(error_code=code, reason=text)))

    def _refuse(self, error: DecodeError) -> None:
        self._fail_with(error)
        self._error(ErrorCode.BAD_ARGUMENTS)  # rule 16: best effort, then close

    def _timer(self, name: str) -> None:
        if name == "auth" and not self.authenticated:
            self._fail("timeout", detail="no auth in time")
            self._close("timeout", Side.LOCAL, clean=False)
        elif name == "idle":
            self._fail("idle", detail="nothing was heard")
            self._close("idle", Side.LOCAL, clean=False)


# -- client ----------------------------------------------------------------------------------


class ClientSession(_CometSession):
    """The client's end of one connection."""

    TABLES: ClassVar[dict[Role, Table]] = {
        Role.CLIENT: {
            "new": {"send auth": "authenticating"},
            "authenticating": {
                "receive auth_success": "authenticated",
                "receive error": "new",
                "send auth": "authenticating",
            },
            "authenticated": {"send exchange_key": "exchanging"},
            "exchanging": {"receive ok": "keyed", "receive error": CLOSED},
            "keyed": {},
            CLOSED: {},
        }
    }

    def __init__(self, options: ClientOptions | None = None, *, now: float = 0.0):
        self.options = options or ClientOptions()
        super().__init__(Role.CLIENT, self.options.dialect, now)
        self._waiting: deque[tuple[Command, bytes]] = deque()
        self._unsent: deque[tuple[Command, bytes]] = deque()
        self._opener: ContentOpener | None = None
        self._secret = b""
        self.encrypt_key = b""
        self.timers.set("heartbeat", now + self.options.heartbeat_s)

    @property
    def authenticated(self) -> bool:
        """Whether the server has let us in."""
        return self.state in {"authenticated", "exchanging", "keyed"}

    # -- the application's side --------------------------------------------------------------

    def send(self, command: Command) -> None:
        """Asks the server something; the answer comes as `Replied`, in order."""
        if isinstance(command, ExchangeKey):
            raise SessionError("bad_state", "use exchange_key(), which makes the secret")
        if isinstance(command, Auth):
            self._must("send auth")
            self.client_id = command.client_id
        elif not self.authenticated and not isinstance(command, BEFORE_AUTH):
            raise SessionError("bad_state", f"{type(command).__name__} needs auth first")
        self._ask(command)

    def exchange_key(self, *, secret: bytes, eph_private: bytes) -> None:
        """Wraps a secret of 32 random bytes for the server; content is sealed after its ok."""
        self._must("send exchange_key")
        try:
            wrapped = wrap_secret(
                self.encrypt_key,
                secret,
                auth=self._auth_frame,
                auth_success=self._auth_success_frame,
                eph_private=eph_private,
                pinned=self.options.pinned,
                legacy_hipush=self.options.legacy_hipush,
            )
        except WireError as error:
            self.state = "authenticated"
            raise SessionError(error.code, str(error)) from error
        self._secret = secret
        self._ask(ExchangeKey(secret_key=wrapped))

    def close(self, reason: str = "done") -> None:
        """Ends the connection; what was asked stays unanswered."""
        self._close(reason, Side.LOCAL, clean=not self._waiting)

    def _ask(self, command: Command) -> None:
        if self.state == CLOSED:
            raise SessionError("bad_state", "the connection is closed")
        if len(self._waiting) + len(self._unsent) >= self.options.max_pending:
            raise SessionError("too_busy", f"{self.options.max_pending} commands wait already")
        frame = self._encode(command)
        if self._waiting and self.options.one_at_a_time:
            self._unsent.append((command, frame))
            return
        self._put(command, frame)

    def _put(self, command: Command, frame: bytes) -> None:
        if not self._waiting:
            self.timers.set("reply", self.now + self.options.reply_timeout_s)
        self._waiting.append((command, frame))
        self._write(frame)
        self.timers.set("heartbeat", self.now + self.options.heartbeat_s)

    # -- the peer's side ---------------------------------------------------------------------

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        found: tuple[Any, int] = self._codec.decode_frame_s2c(buf, pos, end)
        return found

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        if isinstance(message, Notification):  # rule 17: never a reply
            self._emit(Notified(message, self._opened(message)))
            return
        if not self._waiting or not isinstance(message, ANSWERS[type(self._waiting[0][0])]):
            raise DecodeError("unexpected_reply", type(message).__name__, pos)
        command, frame = self._waiting.popleft()
        if isinstance(message, MessageList):
            contents = tuple(self._opened(n) for n in message.messages)
            message = MessageList(messages=tuple(map(_with_content, message.messages, contents)))
        if isinstance(command, Auth):
            self._take_auth(message, frame, buf[pos:stop])
        elif isinstance(command, ExchangeKey):
            self._take_key(message, frame)
        if self.state != CLOSED:
            self._emit(Replied(command, message))
            self._after_reply()

    def _after_reply(self) -> None:
        if self._unsent:
            self._put(*self._unsent.popleft())
        if self._waiting:
            self.timers.set("reply", self.now + self.options.reply_timeout_s)
        else:
            self.timers.clear("reply")

    def _take_auth(self, reply: Reply, auth: bytes, frame: bytes) -> None:
        if not isinstance(reply, AuthSuccess):
            self._step("receive error")
            return
        self._step("receive auth_success")
        self._auth_frame, self._auth_success_frame = auth, frame
        self.encrypt_key = reply.encrypt_key
        try:
            choose_suite(
                self.encrypt_key,
                pinned=self.options.pinned is not None,
                legacy_hipush=self.options.legacy_hipush,
            )
        except WireError as error:
            if self.options.allow_plaintext and self.options.pinned is None:
                self._emit(Authenticated(self.client_id))
                return
            raise DecodeError(error.code, "auth_success.encrypt_key", None, error.detail) from error
        self._emit(Authenticated(self.client_id))

    def _take_key(self, reply: Reply, frame: bytes) -> None:
        if not isinstance(reply, Ok):
            raise DecodeError("bad_key", "exchange_key", None, "the server refused the key")
        self._step("receive ok")
        key = content_key(self._secret, self._auth_frame, self._auth_success_frame, frame)
        self._opener, self._secret = ContentOpener(key), b""
        self._emit(KeyExchanged())

    def _opened(self, notification: Notification) -> bytes:
        if self._opener is None:
            return notification.content
        return self._opener.open(
            notification.content,
            msg_type=notification.msg_type,
            msg_id=notification.msg_id,
            ts=notification.ts,
        )

    def _refuse(self, error: DecodeError) -> None:
        self._fail_with(error)  # a client has nothing to answer with: it closes

    def _timer(self, name: str) -> None:
        if name == "heartbeat":
            self.timers.set("heartbeat", self.now + self.options.heartbeat_s)
            if len(self._waiting) < self.options.max_pending:
                self._ask(Heartbeat())
        elif name == "reply":
            self._fail("timeout", detail="the server did not answer in time")
            self._close("timeout", Side.LOCAL, clean=False)


def _with_content(notification: Notification, content: bytes) -> Notification:
    return Notification(
        msg_type=notification.msg_type,
        msg_id=notification.msg_id,
        job_id=notification.job_id,
        content=content,
        ts=notification.ts,
    )
