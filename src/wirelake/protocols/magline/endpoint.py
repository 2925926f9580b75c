"""The messages and events of magline, and what both ends of a connection share (seed 003 §3, §4).

Messages are what `send` takes; they carry plaintext, and the session puts them into frames. Events
are what `events()` returns, besides `Failed` and `Closed` of every protocol.

A frame goes through the same checks in the same order, and the first failure decides:

    1. the codec          decode order of §2; ERR 1-5
    2. the state table    whether the command is legal in this state: ERR 6 (rules 14, 17)
    3. Seq, HMAC, tag     one outcome for all three, ERR 9 (§4.8)
    4. the role           client or server

ERR and FIN have no tag before there are keys, and carry one afterwards (§4.6, rule 18). A
connection that ends without a verified FIN is not clean (§4.7). Used up keys end a connection with
FIN 8, and the session is resumed (§4.9).

Rule and section numbers refer to `docs/decisions/magline.md`.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from wirelake.wire.errors import DecodeError, EncodeError, NeedMore

from ..sansio import CLOSED, Event, Role, Session, SessionError, Side
from .codec_seed import decode_frame, encode_frame
from .handshake import Mode, SessionKeys
from .layout import (
    APPLICATION_NUMBERS,
    CONNECTION_CMD,
    HANDSHAKE_LIMIT,
    HEAD_BYTES,
    Ack,
    Err,
    ErrorNumber,
    Fin,
    Frame,
    Pin,
    Pon,
    Psh,
    Reason,
    Rep,
    Req,
    Syn,
)
from .limits import ConnectionOptions
from .records import TAG_SIZE, RecordCipher, SeqCounter

__all__ = [
    "ANSWERS",
    "NO_TAG",
    "REFUSED",
    "Authenticated",
    "Endpoint",
    "Entropy",
    "Established",
    "Failure",
    "Finished",
    "Pinged",
    "Ponged",
    "Push",
    "Pushed",
    "Refused",
    "Replied",
    "Reply",
    "Request",
    "RequestFailed",
    "RequestLost",
    "Requested",
    "Resumed",
    "is_error_number",
    "is_reason",
    "reason_name",
]

_LARGEST = 0xFFFF_FFFF


# -- messages --------------------------------------------------------------------------------


class Request(msgspec.Struct, frozen=True, gc=False):
    """REQ: a request of a client. `timeout_s` None is the option `request_timeout_s`."""

    business_cmd: int
    data: bytes = b""
    timeout_s: float | None = None


class Reply(msgspec.Struct, frozen=True, gc=False):
    """REP: a server answers the request of that Seq."""

    to: int
    data: bytes = b""


class Failure(msgspec.Struct, frozen=True, gc=False):
    """ERR for one request: it failed, the connection continues."""

    to: int
    error_number: int = ErrorNumber.BUSINESS


class Push(msgspec.Struct, frozen=True, gc=False):
    """PSH: a push of a server."""

    business_cmd: int
    data: bytes = b""


# -- events of both roles --------------------------------------------------------------------


class Established(Event, frozen=True, gc=False):
    """SYN and ACK are exchanged and there are keys. `session_id` is SHA-256 of the session id.

    A resumed connection needs one more frame before it replaces the old one: see `Resumed`.
    """

    mode: Mode
    session_id: bytes
    resumed: bool = False


class Resumed(Event, frozen=True, gc=False):
    """The resumption is confirmed: it has replaced the session `replaced` (section 4.10).

    A server's application closes the connection with that `session_id`, if it is still open, with
    FIN 6. `dropped` pushes did not fit its queue; where ordered commands remain, the queue waits
    for them, and `Authenticated` has the number.
    """

    session_id: bytes
    replaced: bytes
    principal: str = ""
    dropped: int = 0


class Refused(Event, frozen=True, gc=False):
    """The peer reports that the connection failed; its FIN should follow.

    `trusted` is False for an ERR without a tag, which anybody on the path may have sent.
    """

    error_number: int
    business_cmd: int = 0
    trusted: bool = True


class Finished(Event, frozen=True, gc=False):
    """The peer sent FIN. Without a tag the reason is not authenticated (rule 18)."""

    reason_number: int
    trusted: bool = True


# -- events of a server ----------------------------------------------------------------------


class Requested(Event, frozen=True, gc=False):
    """A request of a client: answer with `Reply` or `Failure`.

    `step` counts the ordered commands from 0: a `Reply` lets the client continue, a `Failure` ends
    the connection (rule 20). None outside of ordered commands.
    """

    seq: int
    business_cmd: int
    data: bytes
    step: int | None = None


class Authenticated(Event, frozen=True, gc=False):
    """The ordered commands are done; everything is allowed now (rule 20).

    `dropped` pushes did not fit the queue of a session that was resumed before this.
    """

    principal: str
    dropped: int = 0


class Pinged(Event, frozen=True, gc=False):
    """A heartbeat was received and answered."""

    ping_number: int
    trusted: bool = True


# -- events of a client ----------------------------------------------------------------------


class Replied(Event, frozen=True, gc=False):
    """The server answered the request of that Seq."""

    seq: int
    business_cmd: int
    data: bytes


class RequestFailed(Event, frozen=True, gc=False):
    """The server reports that a request failed; the connection continues."""

    seq: int
    business_cmd: int
    error_number: int


class RequestLost(Event, frozen=True, gc=False):
    """A request without an answer: `timeout` or `connection_lost` (rule 21). It may have run."""

    seq: int
    business_cmd: int
    code: str


class Pushed(Event, frozen=True, gc=False):
    """A push of the server."""

    business_cmd: int
    data: bytes


class Ponged(Event, frozen=True, gc=False):
    """A heartbeat was answered."""

    ping_number: int
    rtt_s: float


# -- numbers ---------------------------------------------------------------------------------


def is_error_number(number: int) -> bool:
    """Return whether an ERR may have this number: a listed or an application's; 0 is never sent."""
    return APPLICATION_NUMBERS <= number <= _LARGEST or number in ErrorNumber.__members__.values()


def is_reason(number: int) -> bool:
    """Return whether a FIN may have this reason: a listed or an application's."""
    return APPLICATION_NUMBERS <= number <= _LARGEST or number in Reason.__members__.values()


def reason_name(number: int) -> str:
    """Return the name of a reason in `Closed`: `idle`, or `reason 65536` without a name."""
    try:
        return Reason(number).name.lower()
    except ValueError:
        return f"reason {number}"


# -- the endpoint ----------------------------------------------------------------------------

Entropy: TypeAlias = Callable[[int], bytes]
"""Returns that many random bytes, for private keys, Randoms and session ids."""

REFUSED: Final = "refused"
"""The state between the peer's ERR and its FIN."""
NO_TAG: Final = bytes(TAG_SIZE)
"""The placeholder of a tag."""

_FINAL_BYTES: Final = 256
"""Reserved for the last ERR and FIN of a direction."""
_RECEIVE: Final[dict[type, str]] = {
    body: f"receive {body.__name__.upper()}"
    for body in (Syn, Ack, Err, Pin, Pon, Req, Rep, Psh, Fin)
}
_DATA: Final = frozenset({Req, Rep, Psh})

ANSWERS: Final[dict[str, tuple[ErrorNumber, Reason]]] = {
    "bad_magic": (ErrorNumber.BAD_FRAME, Reason.PROTOCOL),
    "magic_mismatch": (ErrorNumber.BAD_FRAME, Reason.PROTOCOL),
    "bad_header": (ErrorNumber.BAD_FRAME, Reason.PROTOCOL),
    "bad_length": (ErrorNumber.BAD_FRAME, Reason.PROTOCOL),
    "bad_version": (ErrorNumber.BAD_VERSION, Reason.PROTOCOL),
    "unknown_type": (ErrorNumber.UNKNOWN_CMD, Reason.PROTOCOL),
    "bad_option": (ErrorNumber.BAD_OPTION, Reason.PROTOCOL),
    "too_large": (ErrorNumber.TOO_LARGE, Reason.PROTOCOL),
    "bad_state": (ErrorNumber.BAD_STATE, Reason.PROTOCOL),
    "handshake_failed": (ErrorNumber.HANDSHAKE, Reason.HANDSHAKE),
    "session_unknown": (ErrorNumber.SESSION_UNKNOWN, Reason.RESUME),
    "bad_record": (ErrorNumber.BAD_RECORD, Reason.PROTOCOL),
    "timeout": (ErrorNumber.TIMEOUT, Reason.HANDSHAKE),
    "auth_failed": (ErrorNumber.ORDER_CMD, Reason.AUTH),
}
"""The numbers in ERR and FIN for each error of the peer (section 2)."""


class Endpoint(Session):
    """The base of both roles."""

    FIRST: ClassVar[str] = "new"

    def __init__(self, role: Role, options: ConnectionOptions, entropy: Entropy, now: float):
        super().__init__(role, now=now)
        self.mode: Mode | None = None
        self.session_id = b""
        self._limits = options
        self._entropy = entropy
        self._seq_in = SeqCounter()
        self._seq_out = SeqCounter()
        self._sealer: RecordCipher | None = None
        self._opener: RecordCipher | None = None
        self._exporter = b""
        self._key_log = ""

    # -- the application's side --------------------------------------------------------------

    def close(self, reason: int = Reason.NORMAL) -> None:
        """Send FIN and end the connection; the peer does not answer (S9)."""
        self._check_open()
        if not is_reason(reason):
            raise SessionError("bad_value", f"invalid FIN reason {reason}")
        self._finish(reason, reason_name(reason), clean=self._nothing_open())

    def abort(self, error_number: int, reason: int = Reason.INTERNAL) -> None:
        """Send ERR and FIN, and end the connection (S2-2)."""
        self._check_open()
        if not (is_error_number(error_number) and is_reason(reason)):
            raise SessionError(
                "bad_value", f"invalid combination of ERR {error_number} and FIN {reason}"
            )
        self._put(Err(business_cmd=CONNECTION_CMD, error_number=error_number))
        self._finish(reason, reason_name(reason), clean=False)

    @property
    def established(self) -> bool:
        """Whether there are keys."""
        return self._opener is not None

    @property
    def exporter(self) -> bytes:
        """32 bytes that only the two ends of this connection know: a login that signs them detects
        a man in the middle (§4.12)."""
        self._check_established()
        return self._exporter

    def key_log(self) -> str:
        """Return a line of JSON with the keys to read this connection, not to forge it (§6)."""
        self._check_established()
        return self._key_log

    def _check_open(self) -> None:
        if self.state == CLOSED:
            raise SessionError("bad_state", "the connection is closed")

    def _check_established(self) -> None:
        if self._opener is None:
            raise SessionError("bad_state", "no keys have been agreed yet")

    # -- frames in ---------------------------------------------------------------------------

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        limit = HANDSHAKE_LIMIT if self._opener is None else self._frame_limit()
        try:
            return decode_frame(buf, pos, end, limit)
        except NeedMore:
            if end - pos < 2:
                # A wrong version shows in the second byte and is refused there (order of checks,
                # §2); waiting for the whole head would keep a peer of the old protocol waiting.
                raise NeedMore(2 - (end - pos)) from None
            raise

    def _frame_limit(self) -> int:
        """Return the largest Message Length that is read after the handshake."""
        return self._limits.max_frame

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        body = message.body
        trigger = _RECEIVE[type(body)]
        if trigger not in self._table[self.state]:
            raise DecodeError(
                self._illegal(body), "frame.cmd", pos + 2, f"not allowed in state {self.state}"
            )
        frame = buf[pos:stop]
        try:
            self._seq_in.accept(message.seq)
            trusted, data = self._verify(message, frame)
            self._verified(body, trusted)
            self._dispatch(message, frame, data, trusted)
        except DecodeError as error:
            error.offset = pos
            raise
        if self.state != CLOSED and self._keys_used_up():
            self._rekey()

    def _verify(self, message: Frame, frame: bytes) -> tuple[bool, bytes]:
        """Return whether the frame is authenticated, and its plaintext."""
        opener = self._opener
        if opener is None:
            if message.auth is not None:  # a tag that is present must be valid
                raise DecodeError("bad_record")
            return False, b""
        if type(message.body) in _DATA:
            return True, opener.open_data(frame).data
        if opener.open_control(frame) == "valid":
            return True, b""
        # `prefer`: a bare PIN, PON or FIN, as the seed draws it, is accepted. An injected one does
        # no more than a TCP reset (rule 18).
        if self._limits.control_auth == "require":
            raise DecodeError("bad_record")
        return False, b""

    def _illegal(self, body: Any) -> str:  # noqa: ARG002 - a role may look at it
        """Return the code for a command that the table forbids."""
        return "bad_state"

    def _verified(self, body: Any, trusted: bool) -> None:
        """Handle a frame that has passed all checks; a hook for roles."""

    @abstractmethod
    def _dispatch(self, message: Frame, frame: bytes, data: bytes, trusted: bool) -> None:
        """Handle a frame."""

    @abstractmethod
    def _on_request_error(self, err: Err, reply_to: int | None) -> None:
        """Handle an ERR about one request, with a valid tag."""

    def _on_err(self, err: Err, reply_to: int | None, trusted: bool) -> None:
        if trusted and err.business_cmd:
            self._on_request_error(err, reply_to)
            return
        self._emit(Refused(err.error_number, err.business_cmd, trusted))
        if self.established and not trusted:
            # Rule 18: a bare ERR after the handshake is fatal, and never a business error, so that
            # injecting one achieves no more than a TCP reset.
            self._finish(Reason.PROTOCOL, REFUSED, clean=False)
            return
        self._step("receive ERR")
        self.timers.clear()
        self.timers.set("fin", self.now + self._limits.fin_wait_s)

    def _on_fin(self, fin: Fin, trusted: bool) -> None:
        refused = self.state == REFUSED
        self._emit(Finished(fin.reason_number, trusted))
        name = REFUSED if refused else "untrusted_fin"
        if trusted:
            name = reason_name(fin.reason_number)
        self._close(name, Side.REMOTE, clean=trusted and not refused)

    def _eof(self, left: int) -> None:
        """Close as not clean: without a FIN, data may be missing (§4.7)."""
        if left:
            self._fail("short", detail=f"{left} bytes of an incomplete frame at the end")
        self._close(REFUSED if self.state == REFUSED else "eof", Side.REMOTE, clean=False)

    def _refuse(self, error: DecodeError) -> None:
        number, reason = ANSWERS.get(error.code, ANSWERS["bad_length"])
        self._fail_with(error)
        self._put(Err(business_cmd=CONNECTION_CMD, error_number=number))
        self._finish(reason, error.code, clean=False)

    # -- frames out --------------------------------------------------------------------------

    def _put(
        self, body: Err | Pin | Pon | Fin | Req | Rep | Psh, *, reply_to: int | None = None
    ) -> int:
        """Write a frame with the next Seq, sealed as its command requires; return that Seq.

        If it cannot be encoded, Seq is reset, so that no number is missing on the wire.
        """
        last = self._seq_out.last
        try:
            seq = self._seq_out.take()
            if self._sealer is None:
                frame = encode_frame(Frame(seq=seq, reply_to=reply_to, body=body))
            elif type(body) in _DATA:
                frame = encode_frame(Frame(seq=seq, reply_to=reply_to, body=body))
                self._check_size(frame)
                frame = self._sealer.seal_data(frame)
            else:
                tagged = Frame(seq=seq, auth=NO_TAG, reply_to=reply_to, body=body)
                frame = self._sealer.seal_control(encode_frame(tagged))
        except (EncodeError, SessionError, TypeError) as error:
            self._seq_out.last = last
            code = "bad_value" if isinstance(error, TypeError) else error.code
            raise SessionError(code, str(error)) from error
        self._write(frame)
        return seq

    def _check_size(self, frame: bytes) -> None:
        size, most = len(frame) - HEAD_BYTES, self._limits.max_frame
        if size > most:
            raise SessionError("too_large", f"frame of {size} bytes exceeds {most}")

    def _finish(self, reason: int, name: str, *, clean: bool) -> None:
        """Send FIN, which is not answered, and close."""
        self._put(Fin(reason_number=reason))
        self._close(name, Side.LOCAL, clean=clean)

    @abstractmethod
    def _nothing_open(self) -> bool:
        """Return whether no request waits for its answer."""

    # -- keys --------------------------------------------------------------------------------

    def _use_keys(self, keys: SessionKeys, client_random: bytes, session_id: bytes) -> None:
        """Seal every frame from here on; secrets that are not needed again are dropped (§4.13)."""
        directions = (keys.s2c, keys.c2s) if self.role is Role.SERVER else (keys.c2s, keys.s2c)
        self._sealer, self._opener = map(RecordCipher, directions)
        self.mode = keys.mode
        self.session_id = session_id
        self._exporter = keys.exporter
        self._key_log = json.dumps(
            {
                "protocol": "magline",
                "client_random": client_random.hex(),
                "c2s_enc": keys.c2s_enc.hex(),
                "c2s_iv": keys.c2s_iv.hex(),
                "s2c_enc": keys.s2c_enc.hex(),
                "s2c_iv": keys.s2c_iv.hex(),
            }
        )

    def _keys_used_up(self) -> bool:
        """Return whether a direction has used up its keys (§4.9).

        The sender stops first, with numbers and bytes left for ERR and FIN; the receiver only if
        the sender did not.
        """
        limits = self._limits
        if self._opener is None:
            return False
        return (
            # -3: two numbers below the limit are left, for ERR and FIN.
            (self._seq_out.last or 0) >= limits.rekey_seq - 3
            or (self._seq_in.last or 0) >= limits.rekey_seq - 1
            or self.sent_bytes >= limits.rekey_bytes - limits.max_frame - _FINAL_BYTES
            or self.received_bytes >= limits.rekey_bytes
        )

    def _rekey(self) -> None:
        """Send FIN 8: the session continues in a new connection, with new keys."""
        self._finish(Reason.REKEY, "rekey", clean=self._nothing_open())

    def _common_timer(self, name: str) -> None:
        """Handle the deadlines that both roles have."""
        if name == "rekey":
            self._rekey()
        elif name == "fin":
            self._close(REFUSED, Side.REMOTE, clean=False)
        elif name == "handshake":
            self._give_up("the handshake took too long")

    def _give_up(self, detail: str, reason: Reason = Reason.HANDSHAKE) -> None:
        self._fail("timeout", detail=detail)
        self._put(Err(business_cmd=CONNECTION_CMD, error_number=ErrorNumber.TIMEOUT))
        self._finish(reason, "timeout", clean=False)
