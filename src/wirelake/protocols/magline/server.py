"""The server's end of a magline connection: SYN to ACK, ordered commands, requests, resumption.

    S1, S2-1   SYN, ACK            the key that the SYN names, or anonymous where that is allowed
    S2-2       ERR, FIN, close     whatever is wrong with it
    S3         PIN, PON            any frame keeps the connection; 90 s of silence end it
    S4, S5     REQ, REP            the application answers each `Requested`
    S6         PSH                 when the ordered commands are done
    S7, S8     reSYN, ACK          a new connection takes the place of an old one, once confirmed
    S9         FIN

Rule and section numbers refer to `docs/decisions/magline.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

from wirelake.wire.errors import DecodeError

from ..sansio import CLOSED, Role, SessionError, Side, Table
from .codec_seed import encode_frame
from .endpoint import (
    NO_TAG,
    REFUSED,
    Authenticated,
    Endpoint,
    Entropy,
    Established,
    Failure,
    Pinged,
    Push,
    Reply,
    Requested,
    Resumed,
    is_error_number,
)
from .handshake import (
    KEY_SIZE,
    SEALED_SID_SIZE,
    SID_SIZE,
    Mode,
    SessionKeys,
    seal_sid,
    server_keys,
    verify_binder,
    x25519_public,
)
from .layout import Ack, Err, ErrorNumber, Fin, Frame, Pin, Pon, Psh, Reason, Rep, Req, Syn
from .limits import ServerOptions
from .records import LIFETIME_LIMIT_S
from .resumption import Chosen, ResumptionState, ResumptionStore, ServerKeys, session_id_of

__all__ = ["ServerSession"]

_Answer: TypeAlias = Reply | Failure | Push


class ServerSession(Endpoint):
    """The server's end of one connection.

    `keys` and `store` are shared by all connections of a server; without a store nothing can be
    resumed. `entropy` is called for a private key (32), a Random (32) and a session id (16).
    """

    TABLES: ClassVar[dict[Role, Table]] = {
        Role.SERVER: {
            "new": {
                "receive SYN": "answering",
                "receive ERR": REFUSED,
                "receive FIN": CLOSED,
            },
            "answering": {
                "send ACK": "open",
                "send ACK, order first": "ordering",
                "send ACK, resumed": "confirming",
            },
            "confirming": {
                "confirm": "open",
                "confirm, order first": "ordering",
                "receive PIN": "confirming",
                "receive REQ": "confirming",
                "receive ERR": REFUSED,
                "receive FIN": CLOSED,
            },
            "ordering": {
                "receive REQ": "deciding",
                "receive PIN": "ordering",
                "receive ERR": REFUSED,
                "receive FIN": CLOSED,
            },
            "deciding": {
                "step done": "ordering",
                "last step done": "open",
                "step failed": CLOSED,
                "receive PIN": "deciding",
                "receive ERR": REFUSED,
                "receive FIN": CLOSED,
            },
            "open": {
                "receive REQ": "open",
                "receive PIN": "open",
                "receive ERR": REFUSED,
                "receive FIN": CLOSED,
            },
            REFUSED: {"receive FIN": CLOSED},
            CLOSED: {},
        }
    }

    def __init__(
        self,
        options: ServerOptions | None = None,
        *,
        keys: ServerKeys,
        entropy: Entropy,
        store: ResumptionStore | None = None,
        now: float = 0.0,
    ):
        self.options = options or ServerOptions()
        super().__init__(Role.SERVER, self.options, entropy, now)
        self.principal = ""
        self.key_id: bytes | None = None
        self._keys = keys
        self._store = store
        self._state: ResumptionState | None = None
        self._replaces = b""
        self._waiting: tuple[Push, ...] = ()
        self._keyed_at = now
        self._requests: dict[int, int] = {}
        self._resumable = True
        self.timers.set("handshake", now + self.options.handshake_deadline_s)

    @property
    def half_open(self) -> bool:
        """Whether the client has not completed its handshake yet (§4.9)."""
        return self.state in {"new", "confirming"}

    @property
    def authenticated(self) -> bool:
        """Whether the ordered commands are done, and a resumption confirmed (rule 20)."""
        return self.state == "open"

    @property
    def unanswered(self) -> int:
        """Requests that the application has not answered."""
        return len(self._requests)

    # -- the application's side --------------------------------------------------------------

    def send(self, message: _Answer) -> None:
        """Answer a request, or push."""
        self._check_open()
        if isinstance(message, Push):
            self._push(message)
        elif isinstance(message, Reply):
            self._reply(message)
        else:
            self._answer_failure(message)
        if self.state != CLOSED and self._keys_used_up():
            self._rekey()

    def identify(self, principal: str) -> None:
        """Set the principal of the connection; resuming keeps it, `revoke` ends it (§6)."""
        if self.state in {"new", "confirming", CLOSED}:
            raise SessionError("bad_state", f"cannot identify a client in state {self.state}")
        self.principal = principal
        self._keep(principal=principal)

    def close(self, reason: int = Reason.NORMAL, *, resumable: bool = True) -> None:
        """Send FIN and end the connection; `resumable` False ends the session as well."""
        kept, self._resumable = self._resumable, resumable
        try:
            super().close(reason)
        except SessionError:
            self._resumable = kept
            raise

    def _push(self, push: Push) -> None:
        if self.state == "confirming" and self._store is not None:
            # Nothing is pushed before the resumption is confirmed: a peer that replays a reSYN has
            # no keys, and the push would be lost (§4.10).
            self._store.queue(self._replaces, push, self.now)
            return
        if self.state != "open":
            raise SessionError("bad_state", f"cannot push in state {self.state}")
        self._put(Psh(business_cmd=push.business_cmd, hmac=NO_TAG, data=push.data))

    def _reply(self, reply: Reply) -> None:
        cmd = self._command_of(reply.to)
        self._put(Rep(business_cmd=cmd, hmac=NO_TAG, data=reply.data), reply_to=reply.to)
        del self._requests[reply.to]
        if self.state == "deciding":
            self._step_done()

    def _answer_failure(self, failure: Failure) -> None:
        cmd = self._command_of(failure.to)
        if not is_error_number(failure.error_number):
            raise SessionError("bad_value", f"invalid error number {failure.error_number}")
        err = Err(business_cmd=cmd, error_number=failure.error_number)
        self._put(err, reply_to=failure.to)
        del self._requests[failure.to]
        if self.state == "deciding":  # rule 20: its ERR, then FIN 3
            self._fail("auth_failed", detail=f"step {self._steps_done}: {failure.error_number}")
            self._finish(Reason.AUTH, "auth_failed", clean=False)

    def _command_of(self, seq: int) -> int:
        if self.state == REFUSED or seq not in self._requests:
            raise SessionError("bad_state", f"request {seq} is not waiting for a response")
        return self._requests[seq]

    def _nothing_open(self) -> bool:
        return not self._requests

    # -- ordered commands --------------------------------------------------------------------

    @property
    def _steps_done(self) -> int:
        return 0 if self._state is None else self._state.steps_done

    def _step_done(self) -> None:
        done = self._steps_done + 1
        if done < len(self.options.order_cmds):
            self._keep(steps_done=done)
            self._step("step done")
            return
        self._keep(steps_done=done, ready=True, since=self.now)
        self._step("last step done")
        self.timers.clear("order")
        self._set_lifetime()
        self._emit(Authenticated(self.principal, self._take_queue()))
        self._flush()

    def _keep(self, **changes: Any) -> None:
        """Store the client's progress, for a resumption."""
        if self._state is not None:
            self._state = replace(self._state, **changes)
            if self._store is not None:
                self._store.update(self.session_id, self._state)

    # -- the peer's side ---------------------------------------------------------------------

    def _frame_limit(self) -> int:
        # `order_max_frame` limits what the server buffers for an unauthenticated client.
        most = self.options.max_frame
        return most if self.state == "open" else min(most, self.options.order_max_frame)

    def _illegal(self, body: Any) -> str:
        # Rule 20: any other request than the next listed one is ERR 12 and FIN 3, not ERR 6.
        ordering = self.state in {"ordering", "deciding"} and isinstance(body, Req)
        return "auth_failed" if ordering else "bad_state"

    def _dispatch(self, message: Frame, frame: bytes, data: bytes, trusted: bool) -> None:
        match message.body:
            case Syn():
                self._on_syn(message, frame)
            case Req() as req:
                self._on_req(message.seq, req.business_cmd, data)
            case Pin() as pin:
                self._put(Pon(ping_number=pin.ping_number))
                self._emit(Pinged(pin.ping_number, trusted))
            case Fin() as fin:
                self._on_fin(fin, trusted)
            case Err() as err:
                self._on_err(err, message.reply_to, trusted)
        if self.state not in {CLOSED, REFUSED}:
            self.timers.set("idle", self.now + self.options.idle_limit_s)
            if self.state == "open" and self._waiting:
                self._flush()

    def _on_req(self, seq: int, cmd: int, data: bytes) -> None:
        if not cmd:
            raise DecodeError("bad_state", "req.business_cmd", None, "0 is reserved")
        step = None
        if self.state == "ordering":
            step = self._steps_done
            if cmd != self.options.order_cmds[step]:
                raise DecodeError(
                    "auth_failed",
                    "req.business_cmd",
                    None,
                    f"expected command {self.options.order_cmds[step]}",
                )
            self._step("receive REQ")
        elif len(self._requests) >= self.options.max_requests:
            self._fail(
                "too_busy", detail=f"too many open requests ({len(self._requests)})", fatal=False
            )
            self._put(Err(business_cmd=cmd, error_number=ErrorNumber.BUSY), reply_to=seq)
            return
        self._requests[seq] = cmd
        self._emit(Requested(seq, cmd, data, step))

    def _on_request_error(self, err: Err, reply_to: int | None) -> None:  # noqa: ARG002
        if self.state in {"ordering", "deciding"}:
            raise DecodeError("auth_failed", "err", None, "not one of the ordered commands")
        detail = f"ERR {err.error_number} for {err.business_cmd}: a server sends no requests"
        self._fail("unexpected_reply", detail=detail, fatal=False)

    # -- SYN and reSYN -----------------------------------------------------------------------

    def _on_syn(self, message: Frame, frame: bytes) -> None:
        old: ResumptionState | None = None
        if message.resume is None:
            chosen = self._keys.find(message.key_id)
        else:
            old = self._find_session(session_id_of(message.resume.sid), frame)
            chosen = self._same_key(old, message.key_id)
            self._replaces = session_id_of(message.resume.sid)
        # Unknown keys and sessions are refused before the key agreement: key generation and one
        # exchange take 70 µs, and an attacker chooses how many SYNs arrive (§4.9).
        private, random, sid = (self._entropy(n) for n in (KEY_SIZE, KEY_SIZE, SID_SIZE))
        session_id = session_id_of(sid)
        ack = Ack(random=random, public_key=x25519_public(private), sealed_sid=bytes(32))
        ack_clear = encode_frame(Frame(seq=1, body=ack))[:-SEALED_SID_SIZE]
        keys = _derive(chosen, private, frame, ack_clear, old)
        if message.resume is not None:
            # Only after the key agreement: a reSYN that fails there must not displace a pending
            # one.
            self._begin(session_id, message.resume.binder)
        # Seq 1, which the encoded ACK has already.
        self._seq_out.take()
        self._write(ack_clear + seal_sid(keys, ack_clear, sid))
        self._step("receive SYN")
        self._use_keys(keys, frame[-2 * KEY_SIZE : -KEY_SIZE], session_id)
        self.key_id = message.key_id
        self._emit(Established(keys.mode, session_id, resumed=old is not None))
        if old is None:
            self._start(chosen.mode, keys.res)
        else:
            self._state = replace(old, res=keys.res)
            self._step("send ACK, resumed")
            self.timers.set("handshake", self.now + self.options.handshake_deadline_s)

    def _find_session(self, session: bytes, frame: bytes) -> ResumptionState:
        """Return the state that a reSYN resumes; unknown and not proven are one error (§4.10)."""
        state = None if self._store is None else self._store.find(session, self.now)
        verify_binder(None if state is None else state.res, frame)
        assert state is not None
        return state

    def _same_key(self, state: ResumptionState, key_id: bytes | None) -> Chosen:
        """Return the key of the session, which must be the one it began with and still in use."""
        try:
            chosen = self._keys.find(key_id)
        except DecodeError:
            raise DecodeError("session_unknown") from None
        if key_id != state.key_id or chosen.mode != state.mode or not self._fits(state):
            raise DecodeError("session_unknown")
        return chosen

    def _fits(self, state: ResumptionState) -> bool:
        """Return whether the session can continue here: it may come from a server with other
        `order_cmds`."""
        return state.ready or state.steps_done < len(self.options.order_cmds)

    def _begin(self, session_id: bytes, binder: bytes) -> None:
        assert self._store is not None
        if not self._store.begin(self._replaces, session_id, binder, self.now):
            raise DecodeError("session_unknown")

    def _start(self, mode: Mode, res: bytes) -> None:
        """Start a new session, with the ordered commands first, if any."""
        ordered = bool(self.options.order_cmds)
        self._state = ResumptionState(res, mode, self.now, self.key_id, ready=not ordered)
        if self._store is not None:
            self._store.save(self.session_id, self._state, self.now)
        self._step("send ACK, order first" if ordered else "send ACK")
        self._begin_work()

    def _begin_work(self) -> None:
        """Set the timers after the handshake."""
        self._keyed_at = self.now
        self.timers.clear("handshake")
        self._set_lifetime()
        if self.state == "ordering":
            self.timers.set("order", self.now + self.options.order_deadline_s)

    def _set_lifetime(self) -> None:
        """Limit the lifetime of keys and of the authentication to 24 hours (§4.9, §6)."""
        assert self._state is not None
        worn_out = self._keyed_at + self.options.rekey_after_s
        self.timers.set("rekey", min(worn_out, self._state.since + LIFETIME_LIMIT_S))

    def _verified(self, body: Any, trusted: bool) -> None:  # noqa: ARG002
        """Confirm a resumption by the first authenticated frame of the client (§4.10)."""
        if self.state != "confirming" or not trusted:
            return
        assert self._store is not None
        assert self._state is not None
        state = self._store.retire(self._replaces, self.session_id, self._state.res, self.now)
        # Compare and swap: None if a newer resumption is pending, or if the state was revoked or
        # has expired since the SYN. Either way this connection must not take over the session.
        if state is None or not self._fits(state):
            raise DecodeError("session_unknown")
        self._state = state
        self.principal = state.principal
        self._step("confirm" if state.ready else "confirm, order first")
        self._begin_work()
        dropped = self._take_queue() if state.ready else 0
        self._emit(Resumed(self.session_id, self._replaces, state.principal, dropped))

    def _take_queue(self) -> int:
        """Fetch the queued pushes; return the number of dropped ones (rule 21).

        Called only when they can be sent: until then they stay with the session, which may be
        resumed in yet another connection.
        """
        if self._store is None:
            return 0
        self._waiting, dropped = self._store.take_queue(self.session_id)
        return dropped

    def _flush(self) -> None:
        """Send the queued pushes, oldest first (rule 21)."""
        while self._waiting and self.state == "open":
            push, self._waiting = self._waiting[0], self._waiting[1:]
            try:
                self._push(push)
            except SessionError as error:  # it was not checked when it was queued
                self._fail(error.code, Side.LOCAL, detail=error.detail, fatal=False)
            if self._keys_used_up():
                self._rekey()

    # -- the end -----------------------------------------------------------------------------

    def _finish(self, reason: int, name: str, *, clean: bool) -> None:
        if reason == Reason.AUTH:  # a peer that failed to authenticate starts over
            self._resumable = False
        super()._finish(reason, name, clean=clean)

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        if self.state == CLOSED:
            return
        # Pushes that were taken from the queue but not sent return to it: the client may resume.
        if self._store is not None and self.session_id:
            for push in self._waiting:
                self._store.queue(self.session_id, push, self.now)
            if self._resumable:
                self._store.disconnect(self.session_id, self.now)
            else:
                self._store.forget(self.session_id)
        self._waiting = ()
        self._requests.clear()
        super()._close(reason, side, clean=clean)

    def _timer(self, name: str) -> None:
        if name == "idle":
            self._fail("idle", detail="no data received within the idle limit")
            self._finish(Reason.IDLE, "idle", clean=False)
        elif name == "order":
            self._give_up("the ordered commands took too long", Reason.AUTH)
        else:
            self._common_timer(name)


def _derive(
    chosen: Chosen, private: bytes, syn: bytes, ack_clear: bytes, old: ResumptionState | None
) -> SessionKeys:
    """Return the keys of the connection; while resuming, the old secret replaces the psk."""
    mode = chosen.mode if old is None else chosen.mode | Mode.RESUME
    return server_keys(
        mode=mode,
        private=private,
        syn=syn,
        ack_clear=ack_clear,
        static_private=chosen.static_private,
        psk=chosen.psk if old is None else None,
        resumption=None if old is None else old.res,
    )
