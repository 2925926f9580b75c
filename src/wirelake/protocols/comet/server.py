"""The server's end of a comet connection (seed 004, the S lines of its dialogue).

Commands are handled one at a time, so that replies keep their order; notifications may come between
(rule 17). The session itself answers heartbeats, key exchanges, commands before sign-on and invalid
arguments. The application answers the rest:

    AuthRequested    accept() or refuse()
    Requested        send(reply)

A frame that does not decode is fatal (rule 16). Commands before it are answered first; then error 4
is sent and the connection closes. Sent earlier, the error would be taken for the reply to one of
those commands, since replies are matched by order.

Rule and section numbers refer to `docs/decisions/comet.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, TypeAlias

from wirelake.wire.errors import DecodeError, EncodeError

from ..sansio import CLOSED, Role, SessionError, Side, Table
from .arguments import BAD_ARGUMENTS_REPLY, BAD_KEY_REPLY, check_arguments
from .endpoint import (
    ANSWERS,
    ENDS,
    REASONS,
    Authenticated,
    AuthRequested,
    Endpoint,
    HeartbeatAnswered,
    KeyExchanged,
    Requested,
    seal,
)
from .layout import (
    Auth,
    AuthSuccess,
    Command,
    Error,
    ErrorCode,
    ExchangeKey,
    GetMessageList,
    Heartbeat,
    MessageList,
    Notification,
    Ok,
    Reply,
    ReportEnviron,
)
from .limits import MAX_FRAME, ServerOptions, page
from .sealing import (
    MAX_SEALED,
    ContentSealer,
    HipushContent,
    ServerKey,
    Suite,
    X25519ServerKey,
    choose_suite,
    content_key,
    key_line,
)

__all__ = ["ServerSession"]

_PendingCommand: TypeAlias = tuple[Command, bytes, int]
"""A command, its frame, and where in the stream it began."""

_NO_FAILURE: Final = frozenset({ErrorCode.SERVER_ERROR, ErrorCode.TOO_BUSY})
"""Refusals that are not the client's fault: they do not count as failed attempts."""
_EVERY: Final = {**ENDS, "idle": CLOSED, "too busy": CLOSED}
_OUTSIDE: Final = {"auth deadline": CLOSED, "give up": CLOSED}
_INSIDE: Final = {"receive auth": CLOSED, "bad key": CLOSED, "replaced": CLOSED}


class ServerSession(Endpoint):
    """The server's end of one connection.

    `server_key` is fresh for each connection in the X25519 suite, from a pool with RSA; without
    one, clients get an empty key and content stays in clear.
    """

    TABLES: ClassVar[dict[Role, Table]] = {
        Role.SERVER: {
            "new": {"receive auth": "deciding", "receive bad auth": "new", **_OUTSIDE, **_EVERY},
            "deciding": {"accept": "authenticated", "refuse": "new", **_OUTSIDE, **_EVERY},
            "authenticated": {"receive exchange_key": "keyed", **_INSIDE, **_EVERY},
            "keyed": {"receive exchange_key": CLOSED, "counter limit": CLOSED, **_INSIDE, **_EVERY},
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
        self._suite = self._suite_of(server_key)
        self._queue: list[_PendingCommand] | None = None
        self._queued_bytes = 0
        self._current: _PendingCommand | None = None
        self._final_error: tuple[Error, str, Side] | None = None
        self._failures = 0
        self._listed = False
        self._sealer: ContentSealer | HipushContent | None = None
        self._key_log = ""
        self.frame_limit = MAX_FRAME
        """Bytes after the length that a frame may have. A hub accepts only small frames before it
        accepts the sign-on, which resets it."""
        self.timers.set("auth", now + self.options.auth_deadline_s)
        self.timers.set("idle", now + self.options.idle_limit_s)

    def _suite_of(self, key: ServerKey | None) -> Suite | None:
        """Return the suite of the key; SessionError for one that the options do not allow."""
        if key is None:
            return None
        if isinstance(key, X25519ServerKey):
            return "x25519"
        try:
            return choose_suite(key.encrypt_key, legacy_hipush=self.options.legacy_hipush)
        except DecodeError as error:
            raise SessionError("bad_config", "server_key: unknown or too weak") from error

    def key_log(self) -> str:
        """Return a line of JSON with the key to read contents; empty before a key exchange."""
        return self._key_log

    @property
    def authenticated(self) -> bool:
        """Whether a client has signed on."""
        return self.state in {"authenticated", "keyed"}

    @property
    def sealed(self) -> bool:
        """Whether contents are sealed from here on."""
        return self._sealer is not None

    @property
    def can_push(self) -> bool:
        """Whether `send` accepts a notification now (rules 18 and 20)."""
        if not self.authenticated or self._final_error is not None:
            return False
        if self.options.require_encryption and self._sealer is None:
            return False
        return self._listed or self.options.push_after == "auth"

    @property
    def pending(self) -> int:
        """Received commands without a reply."""
        return len(self._queue or ()) + (self._current is not None)

    @property
    def held_bytes(self) -> int:
        """Also commands that wait for the replies to those before."""
        return len(self._buffer) + self._queued_bytes

    # -- the application's side --------------------------------------------------------------

    def accept(self, *, elsewhere: ServerSession | None = None) -> bool:
        """Confirm a valid token with auth_success; True when the client is signed on.

        `elsewhere` is the connection that this client has already; rule 14 and `on_duplicate`
        decide between the two. Look it up and register the winner in one step.
        """
        command, frame, _ = self._pending_auth()
        if elsewhere is not None and elsewhere is not self and not elsewhere.closed:
            # Replacing is the default: a phone that changed its network must not be locked out
            # until its old connection reaches the idle limit (rule 14).
            if self.options.on_duplicate == "reject":
                self.refuse(ErrorCode.ALREADY_ONLINE)
                return False
            elsewhere.replaced()
        key = self._key.encrypt_key if self._key is not None else b""
        answer = self._encode(AuthSuccess(encrypt_key=key))
        self._must("accept")
        self.frame_limit = MAX_FRAME
        self.client_id = command.client_id
        # A copy: the frame may be a slice that keeps a much larger buffer alive.
        self._auth_frame, self._auth_success_frame = bytes(memoryview(frame)), answer
        self.timers.clear("auth")
        self._emit(Authenticated(self.client_id))
        self._reply(answer)
        self._next()
        return True

    def refuse(self, code: int = ErrorCode.TOKEN_ILLEGAL, reason: str | None = None) -> None:
        """Refuse a sign-on; the third failure closes the connection (rule 15).

        Codes 0 and 1 are answered alike unless `tell_unknown_clients` is set (section 7).
        """
        self._pending_auth()
        # One answer for a wrong token and an unknown client: the original's two codes tell an
        # attacker which client ids exist (section 8, item 14).
        unknown = code in {ErrorCode.TOKEN_ILLEGAL, ErrorCode.CLIENT_NOT_FOUND}
        if unknown and not self.options.tell_unknown_clients:
            code, reason = ErrorCode.TOKEN_ILLEGAL, None
        self._refuse_auth("refuse", code, self._error_frame(code, reason))
        self._next()

    def send(self, message: Reply) -> None:
        """Answer the command that `Requested` named, or push a notification."""
        if isinstance(message, Notification):
            self._push(message)
            return
        if self._current is None or isinstance(self._current[0], Auth):
            raise SessionError("bad_state", "no command is waiting for a reply")
        command = self._current[0]
        if not isinstance(message, ANSWERS[type(command)]):
            raise SessionError(
                "bad_state", f"{type(message).__name__} does not answer {type(command).__name__}"
            )
        if isinstance(message, MessageList):
            if self._keys_used_up(len(message.messages)):
                return
            self._reply(self._sealed_frame(message))
            self._listed = True
        else:
            self._reply(self._encode(message))
        self._keys_used_up()
        self._next()

    def page(self, waiting: Sequence[Notification]) -> tuple[Notification, ...]:
        """Return the oldest of these that one message_list of this connection can carry (rule
        7)."""
        return page(
            waiting,
            sealed=self._sealer is not None,
            dialect=self._dialect,
            des=isinstance(self._sealer, HipushContent),
        )

    def replaced(self) -> None:
        """Close the connection because the client has signed on elsewhere (rule 14)."""
        self._close("replaced", Side.LOCAL, clean=not self.pending)

    def close(self, reason: str) -> None:
        """End the connection; comet has no close command, so the transport just closes."""
        self._close(reason, Side.LOCAL, clean=not self.pending)

    def _pending_auth(self) -> tuple[Auth, bytes, int]:
        if self._current is None or not isinstance(self._current[0], Auth):
            raise SessionError("bad_state", "no client is waiting for authentication")
        return self._current[0], self._current[1], self._current[2]

    def _push(self, notification: Notification) -> None:
        if not self.can_push:
            raise SessionError("bad_state", f"cannot push a notification in state {self.state}")
        self._write(self._sealed_frame(notification))
        self._keys_used_up()

    def _sealed_frame(self, message: Notification | MessageList) -> bytes:
        """Return the frame with contents sealed. On failure the counter is reset."""
        for each in (message,) if isinstance(message, Notification) else message.messages:
            _acknowledgeable(each)
        sealer = self._sealer
        if sealer is None:
            return self._encode(message)
        counter = sealer.counter if isinstance(sealer, ContentSealer) else 0
        try:
            if isinstance(message, Notification):
                return self._encode(seal(sealer, message))
            return self._encode(
                MessageList(messages=tuple(seal(sealer, each) for each in message.messages))
            )
        except (SessionError, EncodeError) as error:
            if isinstance(sealer, ContentSealer):
                # Nothing sealed has been sent, so no nonce is used twice; the client expects every
                # counter, and a gap would look like a deleted notification.
                sealer.counter = counter
            if isinstance(error, SessionError):
                raise
            raise SessionError(error.code, str(error)) from error

    def _keys_used_up(self, more: int = 0) -> bool:
        """Close when the key has reached its limit, or would with `more` messages (section 4)."""
        sealer = self._sealer
        if not isinstance(sealer, ContentSealer):
            return False
        if sealer.counter + more <= MAX_SEALED and sealer.counter < MAX_SEALED:
            return False
        self._close("counter_limit", Side.LOCAL, clean=not self.pending)
        return True

    # -- the peer's side ---------------------------------------------------------------------

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        if self._final_error is not None:
            return None, end  # everything after a fatal error is discarded
        try:
            found: tuple[Any, int] = self._codec.decode_frame_c2s(buf, pos, end, self.frame_limit)
        except DecodeError as error:
            if self._current is None:
                raise
            error.offset = self._consumed + (pos if error.offset is None else error.offset)
            self._fail_with(error)
            self._final_error = BAD_ARGUMENTS_REPLY, error.code, Side.REMOTE
            return None, end
        return found

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        if message is None:
            return
        self.timers.set("idle", self.now + self.options.idle_limit_s)
        # A client that sends faster than it is answered is closed, not throttled: the session
        # cannot stop the transport from reading, and its memory is bounded by count and bytes.
        if self._current is not None and self._queue_full(stop - pos):
            self._fail("too_busy", offset=self._consumed + pos, detail=f"{self.pending} pending")
            busy = Error(error_code=ErrorCode.TOO_BUSY, reason=REASONS[ErrorCode.TOO_BUSY])
            self._final_error = busy, "too_busy", Side.LOCAL
            return
        asked = (message, buf[pos:stop], self._consumed + pos)
        if self._current is None:  # the queue is empty, too
            self._current = asked
            self._dispatch(*asked)
            return
        self._queued_bytes += stop - pos
        if self._queue is None:
            self._queue = []
        self._queue.append(asked)

    def _queue_full(self, size: int) -> bool:
        return (
            self.pending >= self.options.max_pending
            or self._queued_bytes + size > self.options.max_pending_bytes
        )

    def _next(self) -> None:
        """Handle queued commands in order, until one needs the application."""
        while self._current is None and self.state != CLOSED:
            if self._queue:
                asked = self._current = self._queue.pop(0)
                self._queued_bytes -= len(asked[1])
                self._dispatch(*asked)
            elif self._final_error is not None:
                error, reason, side = self._final_error
                self._write(self._encode(error))
                self._close(reason, side, clean=False)
            else:
                return

    def _dispatch(self, command: Command, frame: bytes, offset: int) -> None:
        kind = type(command)
        if kind is Auth:
            self._on_auth(command, offset)
        elif kind is Heartbeat:
            self._emit(HeartbeatAnswered())
            self._reply(self._encode(Ok()))
        elif not self.authenticated and kind is not ReportEnviron:  # rule 12
            self._fail("bad_state", offset=offset, detail=f"{kind.__name__} first", fatal=False)
            self._reply(self._error_frame(ErrorCode.AUTH_REQUIRED))
        elif not self._valid_arguments(command, offset):
            self._reply(self._encode(BAD_ARGUMENTS_REPLY))
        elif kind is ExchangeKey:
            self._on_key(command, frame, offset)
        elif not self.authenticated:
            self._reply(self._encode(Ok()))  # report_environ, rule 12
        elif kind is GetMessageList and self.options.require_encryption and not self._sealer:
            self._fail("encrypt_required", offset=offset, detail="no key exchange", fatal=False)
            self._reply(self._error_frame(ErrorCode.KEY_REQUIRED))
        else:
            self._emit(Requested(command))

    def _valid_arguments(self, command: Command, offset: int) -> bool:
        try:
            check_arguments(command, valid_id=self.options.valid_id)
        except DecodeError as error:
            error.offset = offset
            self._fail_with(error, fatal=False)
            return False
        return True

    def _on_auth(self, command: Any, offset: int) -> None:
        if self.authenticated:  # rule 13
            self._fail("bad_state", offset=offset, detail="auth on an authenticated connection")
            self._write(self._error_frame(ErrorCode.ALREADY_ONLINE))
            self._close("bad_state", Side.LOCAL, clean=False)
        elif self._valid_arguments(command, offset):
            self._step("receive auth")
            self._emit(AuthRequested(command.client_id, command.token))
        else:
            frame = self._encode(BAD_ARGUMENTS_REPLY)
            self._refuse_auth("receive bad auth", ErrorCode.BAD_ARGUMENTS, frame)

    def _refuse_auth(self, trigger: str, code: int, frame: bytes) -> None:
        """Refuse an auth; close after the last attempt (rules 14 and 15)."""
        self._failures += code not in _NO_FAILURE
        self._reply(frame)
        if code == ErrorCode.ALREADY_ONLINE or self._failures >= self.options.auth_attempts:
            self._fail("auth_failed", detail=f"error {int(code)}, attempt {self._failures}")
            self._close("auth_failed", Side.LOCAL, clean=False)
        else:
            self._step(trigger)

    def _on_key(self, command: Any, frame: bytes, offset: int) -> None:
        try:
            if self._key is None or self.state == "keyed":
                raise DecodeError("bad_key", "exchange_key", offset, "not offered, or repeated")
            secret = self._key.unwrap(
                command.secret_key, auth=self._auth_frame, auth_success=self._auth_success_frame
            )
        except DecodeError as error:
            error.offset = offset
            self._fail_with(error)
            # The same answer to every failure of the exchange, and no second attempt (section 4).
            self._write(self._encode(BAD_KEY_REPLY))
            self._close("bad_key", Side.LOCAL, clean=False)
            return
        self._step("receive exchange_key")
        self._reply(self._encode(Ok()))  # every notification after this frame is sealed
        if self._suite == "hipush":
            self._sealer = HipushContent(secret, legacy_hipush=True)
            self._key_log = key_line("des_key", secret)
        else:
            frames = self._auth_frame, self._auth_success_frame, frame
            key = content_key(secret, *frames)
            self._sealer = ContentSealer(key)
            self._key_log = key_line("content_key", key)
        self._key = None  # one exchange per connection; dropping the key gives forward secrecy
        self._auth_frame = self._auth_success_frame = b""
        self._emit(KeyExchanged())

    def _reply(self, frame: bytes) -> None:
        self._current = None
        self._write(frame)

    def _error_frame(self, code: int, reason: str | None = None) -> bytes:
        text = REASONS.get(code, "") if reason is None else reason
        return self._encode(Error(error_code=code, reason=text))

    def _refuse(self, error: DecodeError) -> None:
        self._fail_with(error)
        self._write(self._encode(BAD_ARGUMENTS_REPLY))  # rule 16: best effort, then close

    def _timer(self, name: str) -> None:
        if name == "auth":
            code, detail = "timeout", "no auth received in time"
        else:
            code, detail = "idle", "no data received within the idle limit"
        self._fail(code, detail=detail)
        self._close(code, Side.LOCAL, clean=False)

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        super()._close(reason, side, clean=clean)
        self._current = self._final_error = None
        self._queue = None
        self._queued_bytes = 0


def _acknowledgeable(notification: Notification) -> None:
    """Return whether a client can acknowledge this id: it must be valid UTF-8 (rule 10)."""
    try:
        if not notification.msg_id.isascii():
            notification.msg_id.encode()
    except UnicodeEncodeError as error:
        raise SessionError("invalid_utf8", "msg_id") from error
