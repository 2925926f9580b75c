"""The client's end of a comet connection (seed 004, the C lines of its dialogue).

Replies are matched by their order alone; a notification is never one (rule 17). A timeout, a reply
that does not fit its command and content that does not open all end the connection: without ids
there is no way to match later replies again.

Rule and section numbers refer to `docs/decisions/comet.md`.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar, TypeAlias

from wirelake.wire.errors import DecodeError, WireError

from ..sansio import CLOSED, Role, SessionError, Side, Table
from .endpoint import (
    ANSWERS,
    BEFORE_AUTH,
    ENDS,
    Authenticated,
    Endpoint,
    KeyExchanged,
    Notified,
    Replied,
    open_content,
    with_content,
)
from .layout import (
    Auth,
    AuthSuccess,
    Command,
    Error,
    ExchangeKey,
    Heartbeat,
    MessageList,
    Notification,
    Ok,
)
from .limits import ClientOptions, Dialect
from .protocol import PROTOCOL
from .sealing import ContentOpener, HipushContent, Suite, choose_suite, content_key, wrap_secret

__all__ = ["ClientSession"]

_PendingCommand: TypeAlias = tuple[Command, bytes]
_TYPE_AT = 2
_MESSAGE_LIST, _MESSAGE = 4, 5
_EVERY = {**ENDS, "no reply in time": CLOSED}


class ClientSession(Endpoint):
    """The client's end of one connection."""

    TABLES: ClassVar[dict[Role, Table]] = {
        Role.CLIENT: {
            "new": {"send auth": "authenticating", **_EVERY},
            "authenticating": {
                "receive auth_success": "authenticated",
                "receive error": "new",
                "refuse key": CLOSED,
                **_EVERY,
            },
            "authenticated": {
                "send exchange_key": "exchanging",
                "receive message": "authenticated",
                **_EVERY,
            },
            "exchanging": {
                "receive ok": "keyed",
                "receive error": CLOSED,
                "receive message": "exchanging",
                **_EVERY,
            },
            "keyed": {"receive message": "keyed", "bad record": CLOSED, **_EVERY},
            CLOSED: {},
        }
    }

    def __init__(self, options: ClientOptions | None = None, *, now: float = 0.0):
        self.options = options or ClientOptions()
        chosen = self.options.dialect
        super().__init__(
            Role.CLIENT, self.options.auto_prefers if chosen == "auto" else chosen, now
        )
        self._auto = chosen == "auto"
        if self._auto:
            # The codec of another dialect is generated on first use: now, not when a notification
            # has arrived.
            PROTOCOL.codec("hipush")
        self._dialect_known = False
        self._waiting: deque[_PendingCommand] = deque()
        self._unsent: deque[_PendingCommand] = deque()
        self._opener: ContentOpener | HipushContent | None = None
        self._suite: Suite | None = None
        self._secret = b""
        self.encrypt_key = b""
        self.timers.set("heartbeat", now + self.options.heartbeat_s)

    @property
    def authenticated(self) -> bool:
        """Whether the client has signed on."""
        return self.state in {"authenticated", "exchanging", "keyed"}

    @property
    def dialect(self) -> Dialect:
        """The layout of notifications; with `auto`, the last one detected."""
        return self._dialect

    @property
    def unanswered(self) -> tuple[Command, ...]:
        """Commands without a reply, in order; also after the connection has closed."""
        return tuple(command for command, _ in (*self._waiting, *self._unsent))

    # -- the application's side --------------------------------------------------------------

    def send(self, command: Command) -> None:
        """Send a command; the reply comes as `Replied`, in order."""
        if isinstance(command, ExchangeKey):
            raise SessionError("bad_state", "use exchange_key(), which wraps the secret")
        if isinstance(command, Auth):
            self._check_allowed("send auth")
        elif not self.authenticated and not isinstance(command, BEFORE_AUTH):
            raise SessionError("bad_state", f"{type(command).__name__} requires authentication")
        frame = self._admitted(command)
        if isinstance(command, Auth):
            self._step("send auth")
            self.client_id = command.client_id
        self._ask(command, frame)

    def exchange_key(self, *, secret: bytes, eph_private: bytes = b"") -> None:
        """Wrap a secret of random bytes for the server; content is sealed after its ok.

        32 bytes, 8 in the original's suite; `eph_private`, 32 more, for X25519 alone. Both are
        fresh for each connection.
        """
        self._check_allowed("send exchange_key")
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
            raise SessionError(error.code, str(error)) from error
        command = ExchangeKey(secret_key=wrapped)
        frame = self._admitted(command)
        self._step("send exchange_key")
        self._secret = secret
        self._ask(command, frame)

    def close(self, reason: str = "done") -> None:
        """End the connection; commands without a reply stay in `unanswered`."""
        self._close(reason, Side.LOCAL, clean=not self._waiting)

    def _check_allowed(self, trigger: str) -> None:
        """Raise SessionError if this is not allowed in the current state; no transition yet."""
        if trigger not in self._table[self.state]:
            raise SessionError("bad_state", f"{trigger} is not allowed in state {self.state}")

    def _admitted(self, command: Command) -> bytes:
        """Return the frame of a command; SessionError if it cannot be sent now."""
        if self.state == CLOSED:
            raise SessionError("bad_state", "the connection is closed")
        if len(self._waiting) + len(self._unsent) >= self.options.max_pending:
            raise SessionError(
                "too_busy", f"{self.options.max_pending} commands are already pending"
            )
        return self._encode(command)

    def _ask(self, command: Command, frame: bytes) -> None:
        # The original's replies may overtake each other: against it one command is outstanding at a
        # time (rule 17).
        if self._waiting and self.options.waits:
            self._unsent.append((command, frame))
        else:
            self._put(command, frame)

    def _put(self, command: Command, frame: bytes) -> None:
        if not self._waiting:
            self.timers.set("reply", self.now + self.options.reply_timeout_s)
        self._waiting.append((command, frame))
        self._write(frame)
        self.timers.set("heartbeat", self.now + self.options.heartbeat_s)

    # -- the peer's side ---------------------------------------------------------------------

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        if self._auto and end - pos > _TYPE_AT and buf[pos + _TYPE_AT] in (_MESSAGE_LIST, _MESSAGE):
            return self._decode_auto(buf, pos, end)
        found: tuple[Any, int] = self._codec.decode_frame_s2c(buf, pos, end)
        return found

    def _decode_auto(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        """Detect the layout of a notification (rule 6). If both fit, the known dialect counts."""
        # A notification read in the wrong layout is either two bytes short or has bytes left, so
        # the decoder's own checks detect it. Only an empty or an unusual list fits both.
        other: Dialect = "hipush" if self._dialect == "seed" else "seed"
        try:
            found: tuple[Any, int] = self._codec.decode_frame_s2c(buf, pos, end)
        except DecodeError as error:
            try:
                found = PROTOCOL.codec(other).decode_frame_s2c(buf, pos, end)
            except DecodeError:
                raise error from None
            self._set_dialect(other)
            return found
        if not self._dialect_known and not self._fits(other, buf, pos, end):
            self._set_dialect(self._dialect)
        return found

    def _fits(self, dialect: Dialect, buf: bytes, pos: int, end: int) -> bool:
        try:
            PROTOCOL.codec(dialect).decode_frame_s2c(buf, pos, end)
        except DecodeError:
            return False
        return True

    def _set_dialect(self, dialect: Dialect) -> None:
        """Set the detected dialect."""
        self._dialect, self._codec, self._dialect_known = dialect, PROTOCOL.codec(dialect), True

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        try:
            if isinstance(message, Notification):  # rule 17: never a reply
                self._on_notification(message)
            else:
                self._on_reply(message, buf[pos:stop])
        except DecodeError as error:
            error.offset = pos if error.offset is None else error.offset
            raise

    def _on_notification(self, message: Notification) -> None:
        if not self._step("receive message"):
            raise DecodeError("bad_state", "message", None, f"notification in state {self.state}")
        self._emit(Notified(message, open_content(self._opener, message)))

    def _on_reply(self, message: Any, raw: bytes) -> None:
        if not self._waiting or not isinstance(message, ANSWERS[type(self._waiting[0][0])]):
            raise DecodeError(
                "unexpected_reply", type(message).__name__, None, _error_text(message)
            )
        command, frame = self._waiting[0]
        if isinstance(message, MessageList):
            message = self._opened(message)
        elif isinstance(command, Auth):
            self._on_auth(message, frame, raw)
        elif isinstance(command, ExchangeKey):
            self._on_key(message, frame)
        self._waiting.popleft()
        self._emit(Replied(command, message))
        self._after_reply()

    def _opened(self, message: MessageList) -> MessageList:
        if self._opener is None:
            return message
        opened = (with_content(n, open_content(self._opener, n)) for n in message.messages)
        return MessageList(messages=tuple(opened))

    def _after_reply(self) -> None:
        if self._unsent:
            self._put(*self._unsent.popleft())
        if self._waiting:
            self.timers.set("reply", self.now + self.options.reply_timeout_s)
        else:
            self.timers.clear("reply")

    def _on_auth(self, reply: Any, auth: bytes, frame: bytes) -> None:
        if not isinstance(reply, AuthSuccess):
            self._step("receive error")
            return
        self.encrypt_key = reply.encrypt_key
        try:
            self._suite = choose_suite(
                self.encrypt_key,
                pinned=self.options.pinned is not None,
                legacy_hipush=self.options.legacy_hipush,
            )
        except WireError as error:
            if not self.options.allow_plaintext:
                raise DecodeError(error.code, "auth_success.encrypt_key") from error
        self._step("receive auth_success")
        self._auth_frame, self._auth_success_frame = auth, frame
        if self._auto and self._suite == "hipush":
            self._set_dialect("hipush")  # only that dialect has the suite
        self._emit(Authenticated(self.client_id))

    def _on_key(self, reply: Any, frame: bytes) -> None:
        if not isinstance(reply, Ok):
            raise DecodeError("bad_key", "exchange_key", None, _error_text(reply))
        self._step("receive ok")
        secret, self._secret = self._secret, b""
        if self._suite == "hipush":
            self._opener = HipushContent(secret, legacy_hipush=True)
        else:
            frames = self._auth_frame, self._auth_success_frame, frame
            self._opener = ContentOpener(content_key(secret, *frames))
        self._emit(KeyExchanged())

    def _refuse(self, error: DecodeError) -> None:
        self._fail_with(error)  # comet has no error frame from client to server: close

    def _eof(self, left: int) -> None:
        if left or not self._waiting:
            super()._eof(left)
        else:
            self._fail("connection_lost", detail=f"{len(self._waiting)} commands unanswered")
            self._close("eof", Side.REMOTE, clean=False)

    def _timer(self, name: str) -> None:
        if name == "reply":
            self._fail("timeout", detail="the server did not answer in time")
            self._close("timeout", Side.LOCAL, clean=False)
            return
        # No heartbeat while a command is in flight with `one_at_a_time`: its reply is the sign of
        # life, and a second command could have its reply overtake the first (rule 17).
        self.timers.set("heartbeat", self.now + self.options.heartbeat_s)
        held_back = self._waiting and self.options.waits
        if not held_back and len(self._waiting) < self.options.max_pending:
            self._put(Heartbeat(), self._encode(Heartbeat()))

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        super()._close(reason, side, clean=clean)
        self._secret = b""


def _error_text(reply: Any) -> str:
    """Return code and reason of an error, also for unknown codes (rule 22)."""
    return f"error {reply.error_code}: {reply.reason}" if isinstance(reply, Error) else ""
