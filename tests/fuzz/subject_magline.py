"""magline sessions to attack, with a peer that has their keys.

Most frames are sealed as they should be, whatever they hold, so that more than the check of a tag
is reached: contents, options and numbers are spoilt before the seal. The dice of sessions and peers
are loaded, so the keys of a handshake are worked out once for the peer and then looked up.

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from tests.fuzz.hostile import spoil
from tests.fuzz.subject import Subject
from tests.playbooks.magline.peer import (
    ALL_KEYS,
    ANONYMOUS,
    NO_TAG,
    PINNED,
    SHARED,
    ClientPeer,
    ServerPeer,
    dice,
    err,
    fin,
    psh,
    rep,
    req,
)

from wirelake.protocols.magline.codec_seed import decode_frame, encode_frame
from wirelake.protocols.magline.layout import Ack, Err, Frame, Pin, Pon, Psh, Rep, Req, Syn
from wirelake.protocols.magline.limits import MAX_PINGS, ClientOptions, ServerOptions
from wirelake.protocols.magline.records import RecordCipher
from wirelake.protocols.magline.session import (
    ClientKey,
    ClientSession,
    Failure,
    MemoryStore,
    Push,
    Reply,
    Request,
    Requested,
    ResumptionState,
    ServerSession,
    Ticket,
    session_id_of,
)
from wirelake.protocols.sansio import Event, Session
from wirelake.wire.errors import DecodeError, EncodeError

__all__ = ["MaglineClient", "MaglineServer", "make"]

LIMIT = 1024
_HEAD = 16
_HANDSHAKE = 512
_KEYS = (ANONYMOUS, PINNED, SHARED)
_ORDER = (5, 6)
SERVER_OPTIONS = (
    ServerOptions(max_frame=LIMIT, max_requests=3),
    ServerOptions(max_frame=LIMIT, max_requests=3, order_cmds=_ORDER),
    ServerOptions(max_frame=LIMIT, max_requests=3, control_auth="require"),
    ServerOptions(max_frame=LIMIT, max_requests=3, rekey_seq=24),
)
CLIENT_OPTIONS = (
    ClientOptions(max_frame=LIMIT, max_requests=3),
    ClientOptions(max_frame=LIMIT, max_requests=3, control_auth="require"),
    ClientOptions(max_frame=LIMIT, max_requests=3, rekey_seq=24),
)
_BODIES: tuple[Any, ...] = (
    *(req(cmd, data) for cmd in (0, 1, 2, 5, 6) for data in (b"", b"data", bytes(300))),
    *(rep(cmd, b"answer") for cmd in (0, 1, 2, 3)),
    *(psh(cmd, b"news") for cmd in (0, 1)),
    *(Pin(ping_number=number) for number in (0, 1, 2)),
    *(Pon(ping_number=number) for number in (0, 1, 2)),
    *(err(number, cmd) for number in (0, 8, 11, 0x10001) for cmd in (0, 1, 2)),
    *(fin(reason) for reason in (0, 3, 77)),
    Syn(random=bytes(32), public_key=b"\x09" + bytes(31)),
)
_FROM_CLIENT = tuple(
    b for b in _BODIES if isinstance(b, Pin) or (isinstance(b, Req) and b.business_cmd)
)
_FROM_SERVER = tuple(b for b in _BODIES if isinstance(b, Rep | Psh | Pon))


@cache
def _session(key: ClientKey) -> tuple[Ticket, ResumptionState]:
    """A session that can be resumed: what each end keeps of it."""
    store, peer = MemoryStore(), ClientPeer(key)
    server = ServerSession(keys=ALL_KEYS, entropy=dice("earlier"), store=store)
    server.receive(peer.syn(), 0.0)
    peer.take(*_first(server.to_send()))
    state = store.find(session_id_of(peer.sid), 0.0)
    assert state is not None
    return peer.ticket, state


def _first(data: bytes) -> tuple[Frame, bytes]:
    frame, stop = decode_frame(data, 0, len(data))
    return frame, data[:stop]


_MET: dict[tuple[bytes, bytes], Any] = {}
_ACKED: dict[tuple[bytes, bytes | None], Any] = {}


class _QuickClient(ClientPeer):
    """A client that remembers the keys of handshakes that it has seen."""

    def meet(self, frame: bytes) -> None:
        known = _MET.get((self.hello, frame))
        if known is None:
            super().meet(frame)
            _MET[self.hello, frame] = self.keys, self.sid
            return
        self.keys, self.sid = known
        self.sealer, self.opener = RecordCipher(self.keys.c2s), RecordCipher(self.keys.s2c)


class _QuickServer(ServerPeer):
    """A server that remembers its answers."""

    def answer(self, resumption: bytes | None) -> bytes:
        """ACK."""
        known = _ACKED.get((self.hello, resumption))
        if known is None:
            found = self.ack(resumption)
            _ACKED[self.hello, resumption] = self.keys, found
            return found
        self.keys, frame = known
        self.next_seq()
        self.sealer, self.opener = RecordCipher(self.keys.s2c), RecordCipher(self.keys.c2s)
        return bytes(frame)


class _Magline(Subject):
    """What both roles share."""

    session: ClientSession | ServerSession
    peer: ClientPeer | ServerPeer
    bodies: tuple[Any, ...]
    rude = 0.4

    def frame(self, session: Session) -> bytes:  # noqa: ARG002
        body: Any = self.rng.choice(self.bodies if self.rng.random() < 0.93 else _BODIES)
        if self.peer.sealer is None:
            return self._plain(body, tagged=self.rng.random() < 0.1)
        match self.pick(0.87, 0.02, 0.09):
            case 0:
                return self._sealed(self._plain(body))
            case 1:
                return self._plain(body, tagged=False)
            case 2:
                return self._sealed(spoil(self.rng, self._plain(body)))
            case _:
                seq = self.rng.choice((0, 1, self.peer.seq, self.peer.seq + 2, 0xFFFF_0000))
                return self._sealed(self._plain(body, seq))

    def _plain(self, body: Any, seq: int | None = None, *, tagged: bool = True) -> bytes:
        """A frame as it is before the seal; REPLY_TO, if any, names one of the first requests."""
        seq = self.peer.next_seq() if seq is None else seq
        reply_to = None
        if isinstance(body, Rep | Err) and self.rng.random() < 0.6:
            reply_to = int(self.rng.random() * 6)
        auth = NO_TAG if tagged and not isinstance(body, Req | Rep | Psh | Syn) else None
        return encode_frame(Frame(seq=seq, auth=auth, reply_to=reply_to, body=body))

    def _sealed(self, frame: bytes) -> bytes:
        """Sealed as far as its bytes allow."""
        sealer = self.peer.sealer
        assert sealer is not None
        sealer._last_sealed = -1
        try:
            if len(frame) > 4 and frame[2:4] in _DATA_COMMANDS:
                return sealer.seal_data(frame)
            return sealer.seal_control(frame)
        except EncodeError:
            return frame

    def after(self, session: Session) -> None:  # noqa: ARG002
        """What was refused has no number: the next frame is numbered as the session wants it."""
        self.peer.seq = self.session._seq_in.last or 0
        if self.peer.sealer is not None:
            self.peer.sealer._last_sealed = -1

    def room(self, session: Session) -> int:  # noqa: ARG002
        return _HEAD + (LIMIT if self.session.established else _HANDSHAKE)


_DATA_COMMANDS = frozenset(
    encode_frame(Frame(seq=1, body=body))[2:4] for body in (req(1), rep(1), psh(1))
)


class MaglineServer(_Magline):
    """A server."""

    bodies = _FROM_CLIENT

    def __init__(self, rng: Random):
        super().__init__(rng)
        key = rng.choice(_KEYS)
        ticket, state = _session(key)
        stage = self.pick(0.12, 0.63)
        options = rng.choice(SERVER_OPTIONS)
        store = MemoryStore()
        if rng.random() < 0.3 and options.order_cmds:
            state = replace(state, ready=False)
        store.save(session_id_of(ticket.sid), state, self.now)
        self.session = self.server = ServerSession(
            options, keys=ALL_KEYS, entropy=dice("server"), store=store
        )
        self.sessions = [self.session]
        self.peer = self.client = _QuickClient(key)
        self._asked: list[Requested] = []
        if stage:
            self._shake(ticket if stage == 2 else None)
        if stage and rng.random() < 0.1:
            self.session.receive(self._sealed(self._plain(err(11))), self.now)

    def _shake(self, ticket: Ticket | None) -> None:
        self.session.receive(self.client.syn(ticket), self.now)
        self.peer.take(*_first(self.session.to_send()))

    def frame(self, session: Session) -> bytes:
        if self.session.state == "new" and self.rng.random() < 0.7:
            ticket = _session(self.client.key)[0] if self.rng.random() < 0.3 else None
            return self.client.syn(ticket)
        known = self.peer.sealer is not None
        if known and self.session.state == "ordering" and self.rng.random() < 0.3:
            return self._sealed(self._plain(req(_ORDER[min(self.server._steps_done, 1)], b"proof")))
        return super().frame(session)

    def wrote(self, session: Session, data: bytes) -> None:  # noqa: ARG002
        """An ACK: if it answers the SYN as it was sent, the client has keys too."""
        if self.peer.sealer is None and self.session.established:
            frame, raw = _first(data)
            with suppress(DecodeError):
                if isinstance(frame.body, Ack):
                    self.peer.take(frame, raw)

    def heard(self, session: Session, event: Event) -> None:  # noqa: ARG002
        if isinstance(event, Requested):
            self._asked.append(event)

    def act(self, session: Session) -> None:  # noqa: ARG002
        match self.pick(0.5, 0.12, 0.28, 0.06, 0.02):
            case 0 if self._asked:
                self.server.send(Reply(self._asked.pop().seq, b"answer"))
            case 1 if self._asked:
                self.server.send(Failure(self._asked.pop().seq))
            case 2:
                self.server.send(Push(9, b"news"))
            case 3:
                self.server.identify("somebody")
            case 4:
                self.server.abort(16)
            case 5:
                self.server.close(resumable=self.rng.random() < 0.5)

    def excess(self, session: Session) -> str:  # noqa: ARG002
        count = self.server.unanswered
        return f"unanswered {count}" if count > self.server.options.max_requests else ""

    def busy(self, session: Session) -> bool:  # noqa: ARG002
        return self.server.unanswered > 0


class MaglineClient(_Magline):
    """A client."""

    bodies = _FROM_SERVER

    def __init__(self, rng: Random):
        super().__init__(rng)
        key = rng.choice(_KEYS)
        self._ticket = _session(key)[0] if rng.random() < 0.35 else None
        self.session = self.client = ClientSession(
            rng.choice(CLIENT_OPTIONS), key=key, entropy=dice("client"), ticket=self._ticket
        )
        self.sessions = [self.session]
        self.peer = self.server = _QuickServer(key)
        self.client.connect()
        self.server.meet(self.session.to_send())
        if rng.random() < 0.85:
            self.session.receive(self._ack(), self.now)
            for _ in range(self.pick(0.3, 0.3, 0.2)):
                self.client.send(Request(1 + int(rng.random() * 2), b"data"))

    def _ack(self) -> bytes:
        return self.server.answer(None if self._ticket is None else self._ticket.res)

    def frame(self, session: Session) -> bytes:
        if not self.session.established and self.rng.random() < 0.7:
            self.peer.seq = 0
            return self._ack()
        return super().frame(session)

    def act(self, session: Session) -> None:  # noqa: ARG002
        match self.pick(0.8, 0.15, 0.02):
            case 0:
                self.client.send(Request(1 + int(self.rng.random() * 2), b"data"))
            case 1:
                self.client.ping()
            case 2:
                self.client.abort(16)
            case _:
                self.client.close()

    def excess(self, session: Session) -> str:  # noqa: ARG002
        most = self.client.options.max_requests
        if self.client.in_flight > most or len(self.client._requests) > 2 * most:
            return f"in flight {self.client.in_flight} of {len(self.client._requests)}"
        pings = len(self.client._pings)
        return f"pings {pings}" if pings > MAX_PINGS else ""

    def busy(self, session: Session) -> bool:  # noqa: ARG002
        return self.client.in_flight > 0


def make(rng: Random) -> Subject:
    """A magline session in some state."""
    return MaglineServer(rng) if rng.random() < 0.5 else MaglineClient(rng)
