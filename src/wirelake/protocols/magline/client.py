"""The client's end of a magline connection: SYN to ACK, heartbeat, requests, resumption.

    S1, S2-1   SYN, ACK            the ACK must verify, or the client closes without a reply (§4.4)
    S2-2       ERR, FIN            an attempt ends; the mode never changes because of it (§4.11)
    S3         PIN, PON            every 30 s; no PON within 10 s: close, and resume
    S4, S5     REQ, REP            matched by REPLY_TO, else first in first out per Business CMD
    S6         PSH
    S7, S8     reSYN, ACK, PIN     the old ticket is kept until a frame verifies under the new keys
    S9         FIN

Rule and section numbers refer to `docs/decisions/magline.md`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from wirelake.wire.errors import DecodeError, EncodeError

from ..sansio import CLOSED, Role, SessionError, Side, Table
from .codec_seed import encode_frame
from .endpoint import (
    NO_TAG,
    REFUSED,
    Endpoint,
    Entropy,
    Established,
    Ponged,
    Pushed,
    Replied,
    Request,
    RequestFailed,
    RequestLost,
    Resumed,
)
from .handshake import KEY_SIZE, Mode, bind_syn, client_keys, open_sid, x25519_public
from .layout import Ack, Err, ErrorNumber, Fin, Frame, Pin, Pon, Psh, Reason, Rep, Req, Resume, Syn
from .limits import MAX_PINGS, ClientOptions
from .records import LIFETIME_LIMIT_S
from .resumption import ClientKey, Ticket, session_id_of

__all__ = ["ClientSession"]


def _alive(state: str) -> dict[str, str]:
    """Return the transitions of a state with keys."""
    return {
        "receive REP": state,
        "receive PSH": state,
        "receive PON": state,
        "receive ERR": REFUSED,
        "receive FIN": CLOSED,
    }


class _PendingRequest(msgspec.Struct, gc=False):
    """A request in flight. After its timeout it stays, marked as lost, so that a late answer
    without REPLY_TO is not matched with the next request of the same command."""

    business_cmd: int
    deadline: float
    lost: bool = False


class ClientSession(Endpoint):
    """The client's end of one connection.

    `entropy` is called for a private key (32) and a Random (32). With a `ticket` the client
    resumes, in the mode of its `key` and no other; `again` makes the session for the next attempt.
    """

    TABLES: ClassVar[dict[Role, Table]] = {
        Role.CLIENT: {
            "new": {"send SYN": "connecting", "send reSYN": "resuming"},
            "connecting": {
                "receive ACK": "open",
                "receive ERR": REFUSED,
                "receive FIN": CLOSED,
            },
            "resuming": {
                "receive ACK": "confirming",
                "receive ERR": REFUSED,
                "receive FIN": CLOSED,
            },
            "confirming": {"confirm": "open", **_alive("confirming")},
            "open": _alive("open"),
            REFUSED: {"receive FIN": CLOSED},
            CLOSED: {},
        }
    }

    def __init__(
        self,
        options: ClientOptions | None = None,
        *,
        key: ClientKey,
        entropy: Entropy,
        ticket: Ticket | None = None,
        now: float = 0.0,
    ):
        self.options = options or ClientOptions()
        super().__init__(Role.CLIENT, self.options, entropy, now)
        if ticket is not None and (ticket.mode, ticket.key_id) != (key.mode, key.key_id):
            detail = "a session is resumed with the key that it began with"
            raise EncodeError("bad_config", "ticket", detail=detail)
        self.key = key
        self.unknown_pons = 0
        self._ticket = ticket
        self._new_ticket: Ticket | None = None
        self._private = self._syn = b""
        self._requests: dict[int, _PendingRequest] = {}
        self._lost = 0
        self._pings: dict[int, float] = {}
        self._last_ping = 0

    @property
    def ticket(self) -> Ticket | None:
        """The ticket that resumes this session; None when a full SYN is required (§6)."""
        return self._ticket

    @property
    def in_flight(self) -> int:
        """Requests without an answer."""
        return len(self._requests) - self._lost

    # -- the application's side --------------------------------------------------------------

    def connect(self) -> None:
        """Send SYN, or reSYN with a ticket that has not expired."""
        ticket = self._ticket
        if ticket is not None and self.now >= ticket.since + LIFETIME_LIMIT_S:
            ticket = self._ticket = None
        self._must("send SYN" if ticket is None else "send reSYN")
        self._private = self._entropy(KEY_SIZE)
        syn = Syn(random=self._entropy(KEY_SIZE), public_key=x25519_public(self._private))
        resume = None if ticket is None else Resume(sid=ticket.sid, binder=NO_TAG)
        frame = Frame(seq=self._seq_out.take(), key_id=self.key.key_id, resume=resume, body=syn)
        self._syn = encode_frame(frame)
        if ticket is not None:
            self._syn = bind_syn(ticket.res, self._syn)
        self._write(self._syn)
        self.timers.set("handshake", self.now + self.options.handshake_deadline_s)

    def send(self, request: Request) -> int:
        """Send a request; return the Seq that the response will name."""
        self._check_ready()
        if not request.business_cmd:
            raise SessionError("bad_value", "Business CMD 0 is reserved for the connection itself")
        if self.in_flight >= self.options.max_requests:
            raise SessionError("too_busy", f"{self.in_flight} requests are in flight")
        wait_s = request.timeout_s
        deadline = self.now + (self.options.request_timeout_s if wait_s is None else wait_s)
        req = Req(business_cmd=request.business_cmd, hmac=NO_TAG, data=request.data)
        seq = self._put(req)
        self._requests[seq] = _PendingRequest(request.business_cmd, deadline)
        due = self.timers.at("request")
        if due is None or deadline < due:
            self.timers.set("request", deadline)
        self._rekey_if_due()
        return seq

    def ping(self) -> int:
        """Send PIN; return its Ping Number."""
        self._check_ready()
        if len(self._pings) >= MAX_PINGS:
            raise SessionError("too_busy", f"too many unanswered PINs ({MAX_PINGS})")
        number = self._ping()
        self._rekey_if_due()
        return number

    def again(self, now: float) -> ClientSession:
        """Return the session of the next attempt, in the same mode; it resumes if it can."""
        return ClientSession(
            self.options, key=self.key, entropy=self._entropy, ticket=self._ticket, now=now
        )

    def _check_ready(self) -> None:
        if self.state not in {"open", "confirming"}:
            raise SessionError("bad_state", f"cannot send in state {self.state}")

    def _rekey_if_due(self) -> None:
        if self.state != CLOSED and self._keys_used_up():
            self._rekey()

    def _nothing_open(self) -> bool:
        return self.in_flight == 0

    # -- heartbeat ---------------------------------------------------------------------------

    def _ping(self) -> int:
        number = self._last_ping = (self._last_ping + 1) & 0xFFFF_FFFF
        self._put(Pin(ping_number=number))
        self._pings[number] = self.now
        self.timers.set("heartbeat", self.now + self.options.heartbeat_s)
        self._await_pon()
        return number

    def _await_pon(self) -> None:
        """Set the deadline of the oldest PIN without a PON."""
        oldest = next(iter(self._pings.values()), None)
        if oldest is None:
            self.timers.clear("pon")
        else:
            self.timers.set("pon", oldest + self.options.pon_timeout_s)

    def _on_pon(self, number: int) -> None:
        sent = self._pings.pop(number, None)
        if sent is None:  # rule 16
            self.unknown_pons += 1
            return
        self._await_pon()
        self._emit(Ponged(number, self.now - sent))

    # -- the peer's side ---------------------------------------------------------------------

    def _dispatch(self, message: Frame, frame: bytes, data: bytes, trusted: bool) -> None:
        match message.body:
            case Ack():
                self._on_ack(frame)
            case Rep() as rep:
                self._on_rep(message.reply_to, rep.business_cmd, data)
            case Psh() as psh:
                self._emit(Pushed(psh.business_cmd, data))
            case Pon() as pon:
                self._on_pon(pon.ping_number)
            case Fin() as fin:
                # Only an authenticated FIN may cost the client its session: anybody on the path can
                # inject a bare one (rule 18).
                if trusted and fin.reason_number == Reason.AUTH:
                    self._ticket = None
                self._on_fin(fin, trusted)
            case Err() as err:
                self._on_err(err, message.reply_to, trusted)

    def _on_ack(self, ack: bytes) -> None:
        ticket = self._ticket
        keys = client_keys(
            mode=self.key.mode if ticket is None else self.key.mode | Mode.RESUME,
            private=self._private,
            syn=self._syn,
            ack=ack,
            server_public=self.key.pinned,
            psk=self.key.psk if ticket is None else None,
            resumption=None if ticket is None else ticket.res,
        )
        sid = open_sid(keys, ack)
        self._step("receive ACK")
        since = self.now if ticket is None else ticket.since
        self._new_ticket = Ticket(sid, keys.res, self.key.mode, self.key.key_id, since)
        self._use_keys(keys, self._syn[-2 * KEY_SIZE : -KEY_SIZE], session_id_of(sid))
        self._private = self._syn = b""
        self.timers.clear("handshake")
        self.timers.set("heartbeat", self.now + self.options.heartbeat_s)
        worn_out = self.now + self.options.rekey_after_s
        self.timers.set("rekey", min(worn_out, since + LIFETIME_LIMIT_S))
        self._emit(Established(keys.mode, self.session_id, resumed=ticket is not None))
        if ticket is None:
            self._ticket = self._new_ticket
        else:
            # The server pushes nothing before a frame has verified under the new keys, so the
            # client sends one at once (§4.10).
            self._ping()

    def _verified(self, body: Any, trusted: bool) -> None:
        """Confirm a resumption: this frame is one that the server only sends after it has retired
        the old session, so the new ticket is valid (§6)."""
        ends = isinstance(body, Fin) or (isinstance(body, Err) and not body.business_cmd)
        if self.state != "confirming" or not trusted or ends:
            return
        assert self._ticket is not None
        replaced = session_id_of(self._ticket.sid)
        self._ticket = self._new_ticket
        self._step("confirm")
        self._emit(Resumed(self.session_id, replaced))

    def _on_err(self, err: Err, reply_to: int | None, trusted: bool) -> None:
        resuming = self.state == "resuming" or (self.state == "confirming" and trusted)
        # ERR 8 while resuming is the one unauthenticated error that changes anything: the ticket is
        # dropped and the next attempt is a full SYN in the same mode, never in a weaker one
        # (§4.11).
        if resuming and err.error_number == ErrorNumber.SESSION_UNKNOWN:
            self._ticket = None  # rule 15: start over in the same mode
        super()._on_err(err, reply_to, trusted)

    def _refuse(self, error: DecodeError) -> None:
        if error.code != "handshake_failed":
            super()._refuse(error)
            return
        self._fail_with(error)  # closed without a reply: the peer may be an attacker (§4.4)
        self._close(error.code, Side.LOCAL, clean=False)

    # -- requests ----------------------------------------------------------------------------

    def _on_rep(self, reply_to: int | None, cmd: int, data: bytes) -> None:
        seq = self._match(reply_to, cmd)
        if seq is not None:
            self._emit(Replied(seq, cmd, data))

    def _on_request_error(self, err: Err, reply_to: int | None) -> None:
        seq = self._match(reply_to, err.business_cmd)
        if seq is not None:
            self._emit(RequestFailed(seq, err.business_cmd, err.error_number))

    def _match(self, reply_to: int | None, cmd: int) -> int | None:
        """Remove and return the request that an answer belongs to (rule 12)."""
        seq = reply_to
        if seq is None:
            seq = next(
                (s for s, asked in self._requests.items() if asked.business_cmd == cmd), None
            )
        asked = None if seq is None else self._requests.get(seq)
        if seq is None or asked is None or asked.business_cmd != cmd:
            self._fail("unexpected_reply", detail=f"no request to {cmd} is pending", fatal=False)
            return None
        del self._requests[seq]
        if asked.lost:
            self._lost -= 1
            self._fail("unexpected_reply", detail=f"request {seq} has timed out", fatal=False)
            return None
        if not self.in_flight:
            self.timers.clear("request")
        return seq

    def _expire_requests(self) -> None:
        due: float | None = None
        for seq, asked in self._requests.items():
            if asked.lost:
                continue
            if asked.deadline <= self.now:
                asked.lost = True
                self._lost += 1
                self._emit(RequestLost(seq, asked.business_cmd, "timeout"))
            elif due is None or asked.deadline < due:
                due = asked.deadline
        if due is not None:
            self.timers.set("request", due)
        self._forget_lost()

    def _forget_lost(self) -> None:
        """Keep the newest lost requests, at most `max_requests` of them."""
        excess = self._lost - self.options.max_requests
        if excess > 0:
            for seq in [s for s, asked in self._requests.items() if asked.lost][:excess]:
                del self._requests[seq]
            self._lost -= excess

    # -- the end -----------------------------------------------------------------------------

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        if self.state == CLOSED:
            return
        for seq, asked in self._requests.items():
            if not asked.lost:  # rule 21: reported, never resent silently
                self._emit(RequestLost(seq, asked.business_cmd, "connection_lost"))
        self._requests.clear()
        self._pings.clear()
        self._lost = 0
        self._private = self._syn = b""
        super()._close(reason, side, clean=clean)

    def _timer(self, name: str) -> None:
        if name == "heartbeat":
            if len(self._pings) < MAX_PINGS:
                self._ping()
                self._rekey_if_due()
            else:
                self.timers.set("heartbeat", self.now + self.options.heartbeat_s)
        elif name == "pon":
            self._fail("timeout", detail="no PON received in time")
            self._close("timeout", Side.LOCAL, clean=False)
        elif name == "request":
            self._expire_requests()
        else:
            self._common_timer(name)
