"""The other end of a magline playbook: it knows keys and frames, and none of the rules.

`ClientPeer` talks to a `ServerSession`, `ServerPeer` to a `ClientSession`. They are made of the
handshake and record functions alone, so a playbook never proves a session by another session.
What they read comes out as bodies of the layout, with their data in clear:

    Pin(ping_number=1)      a control frame whose tag is right, or a data frame that verified
    Bare(Pin(ping_number=1))    a control frame without a tag
    To(3, rep(7, b"..."))   with REPLY_TO

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tests.playbooks.playbook import Emits, EmitsKind, Playbook

from wirelake.protocols.magline.codec_seed import decode_frame, encode_frame
from wirelake.protocols.magline.handshake import (
    SEALED_SID_SIZE,
    Mode,
    SessionKeys,
    bind_syn,
    client_keys,
    open_sid,
    seal_sid,
    server_keys,
    x25519_public,
)
from wirelake.protocols.magline.layout import (
    Ack,
    Err,
    Fin,
    Frame,
    Psh,
    Reason,
    Rep,
    Req,
    Resume,
    Syn,
)
from wirelake.protocols.magline.limits import ClientOptions, ServerOptions
from wirelake.protocols.magline.records import RecordCipher
from wirelake.protocols.magline.session import (
    ClientKey,
    ClientSession,
    Established,
    ServerKeys,
    ServerSession,
    Ticket,
)
from wirelake.protocols.sansio import Closed, Failed, Side

NO_TAG = bytes(16)
DATA = (Req, Rep, Psh)

STATIC = bytes([0x11]) * 32
"""A server's static key: a throw-away test value."""
PSK = bytes([0x22]) * 32
"""A shared key: a throw-away test value."""
PEER_PRIVATE = bytes([0x33]) * 32
PEER_RANDOM = bytes([0x44]) * 32
PEER_SID = bytes([0x55]) * 16

ANONYMOUS = ClientKey(allow_anonymous=True)
PINNED = ClientKey(pinned=x25519_public(STATIC))
SHARED = ClientKey(psk=PSK)
ALL_KEYS = ServerKeys(static=[STATIC], psks=[PSK], allow_anonymous=True)


def dice(seed: str) -> Callable[[int], bytes]:
    """Random bytes that are the same in every run."""
    drawn = 0

    def draw(size: int) -> bytes:
        nonlocal drawn
        drawn += 1
        return sha256(f"{seed} {drawn}".encode()).digest()[:size]

    return draw


@dataclass(frozen=True)
class Bare:
    """A control frame without a tag, as the document draws it."""

    body: Any


@dataclass(frozen=True)
class To:
    """A frame with REPLY_TO."""

    seq: int
    body: Any


def req(cmd: int, data: bytes = b"") -> Req:
    return Req(business_cmd=cmd, hmac=NO_TAG, data=data)


def rep(cmd: int, data: bytes = b"") -> Rep:
    return Rep(business_cmd=cmd, hmac=NO_TAG, data=data)


def psh(cmd: int, data: bytes = b"") -> Psh:
    return Psh(business_cmd=cmd, hmac=NO_TAG, data=data)


def err(number: int, cmd: int = 0) -> Err:
    return Err(business_cmd=cmd, error_number=number)


def fin(reason: int = 0) -> Fin:
    return Fin(reason_number=reason)


def an_ack(found: Any) -> bool:
    """`<< an_ack`: an ACK, which the peer has verified."""
    return isinstance(found, Ack)


def a_syn(found: Any) -> bool:
    """`<< a_syn`: a SYN."""
    return isinstance(found, Syn)


class Peer:
    """What both peers share."""

    def __init__(self) -> None:
        self.seq = 0
        self.heard = 0
        self.keys: SessionKeys | None = None
        self.sealer: RecordCipher | None = None
        self.opener: RecordCipher | None = None
        self.frames: list[bytes] = []

    def next_seq(self) -> int:
        self.seq += 1
        return self.seq

    def encode(self, message: Any) -> bytes:
        """The next frame: data sealed, control tagged when there are keys."""
        reply_to, tagged = None, self.sealer is not None
        if isinstance(message, To):
            reply_to, message = message.seq, message.body
        if isinstance(message, Bare):
            tagged, message = False, message.body
        if isinstance(message, DATA):
            frame = encode_frame(Frame(seq=self.next_seq(), reply_to=reply_to, body=message))
            assert self.sealer is not None
            return self.sealer.seal_data(frame)
        auth = NO_TAG if tagged else None
        frame = encode_frame(Frame(seq=self.next_seq(), auth=auth, reply_to=reply_to, body=message))
        if not tagged:
            return frame
        assert self.sealer is not None
        return self.sealer.seal_control(frame)

    def decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        """What the session sent; its Seq is exactly the next, its tag right."""
        message, stop = decode_frame(buf, pos, end)
        frame = buf[pos:stop]
        self.frames.append(frame)
        self.heard += 1
        assert message.seq == self.heard, (message, self.heard)
        body = self.take(message, frame)
        return (body if message.reply_to is None else To(message.reply_to, body)), stop

    def take(self, message: Frame, frame: bytes) -> Any:
        body = message.body
        if isinstance(body, Syn | Ack):
            self.meet(frame)
            return body
        if isinstance(body, DATA):
            assert self.opener is not None
            data = self.opener.open_data(frame).data
            return type(body)(business_cmd=body.business_cmd, hmac=NO_TAG, data=data)
        if message.auth is None:
            return Bare(body)
        assert self.opener is not None
        assert self.opener.open_control(frame) == "valid"
        return body

    def meet(self, frame: bytes) -> None:
        raise NotImplementedError


class ClientPeer(Peer):
    """A client as the playbook plays it."""

    def __init__(self, key: ClientKey = ANONYMOUS, *, private: bytes = PEER_PRIVATE):
        super().__init__()
        self.key = key
        self.private = private
        self.resumption: bytes | None = None
        self.sid = b""
        self.hello = b""

    def syn(
        self, ticket: Ticket | None = None, *, random: bytes = PEER_RANDOM, public: bytes = b""
    ) -> bytes:
        """SYN, or reSYN with a ticket."""
        self.resumption = None if ticket is None else ticket.res
        resume = None if ticket is None else Resume(sid=ticket.sid, binder=NO_TAG)
        body = Syn(random=random, public_key=public or x25519_public(self.private))
        frame = Frame(seq=self.next_seq(), key_id=self.key.key_id, resume=resume, body=body)
        self.hello = encode_frame(frame)
        if ticket is not None:
            self.hello = bind_syn(ticket.res, self.hello)
        return self.hello

    def meet(self, frame: bytes) -> None:
        resumed = self.resumption is not None
        self.keys = client_keys(
            mode=self.key.mode | Mode.RESUME if resumed else self.key.mode,
            private=self.private,
            syn=self.hello,
            ack=frame,
            server_public=self.key.pinned,
            psk=None if resumed else self.key.psk,
            resumption=self.resumption,
        )
        self.sid = open_sid(self.keys, frame)
        self.sealer, self.opener = RecordCipher(self.keys.c2s), RecordCipher(self.keys.s2c)

    @property
    def ticket(self) -> Ticket:
        assert self.keys is not None
        return Ticket(self.sid, self.keys.res, self.key.mode, self.key.key_id, 0.0)


class ServerPeer(Peer):
    """A server as the playbook plays it."""

    def __init__(self, key: ClientKey = ANONYMOUS, *, static: bytes = STATIC, psk: bytes = PSK):
        super().__init__()
        self.mode = key.mode
        self.static = static if key.mode == Mode.PINNED else None
        self.psk = psk if key.mode == Mode.PSK else None
        self.hello = b""

    def meet(self, frame: bytes) -> None:
        self.hello = frame

    def ack(self, resumption: bytes | None = None, sid: bytes = PEER_SID) -> bytes:
        """The answer to the SYN that was heard."""
        body = Ack(random=PEER_RANDOM, public_key=x25519_public(PEER_PRIVATE), sealed_sid=bytes(32))
        clear = encode_frame(Frame(seq=self.next_seq(), body=body))[:-SEALED_SID_SIZE]
        resumed = resumption is not None
        self.keys = server_keys(
            mode=self.mode | Mode.RESUME if resumed else self.mode,
            private=PEER_PRIVATE,
            syn=self.hello,
            ack_clear=clear,
            static_private=self.static,
            psk=None if resumed else self.psk,
            resumption=resumption,
        )
        self.sealer, self.opener = RecordCipher(self.keys.s2c), RecordCipher(self.keys.c2s)
        return clear + seal_sid(self.keys, clear, sid)


# -- playbooks -------------------------------------------------------------------------------


def new_server(
    options: ServerOptions | None = None,
    *,
    key: ClientKey = ANONYMOUS,
    seed: str = "server",
    now: float = 0.0,
    private: bytes = PEER_PRIVATE,
    **more: Any,
) -> tuple[ClientPeer, Playbook]:
    """A server that nobody has spoken to, and its client."""
    peer = ClientPeer(key, private=private)
    given: dict[str, Any] = {"keys": ALL_KEYS, "entropy": dice(seed), "now": now}
    session = ServerSession(options, **(given | more))
    return peer, Playbook(session, decode=peer.decode, encode=peer.encode, now=now)


def open_server(options: ServerOptions | None = None, **more: Any) -> tuple[ClientPeer, Playbook]:
    """A server after SYN and ACK."""
    peer, book = new_server(options, **more)
    book = book >> peer.syn() << an_ack << EmitsKind.of(Established, resumed=False)
    return peer, book


def new_client(
    options: ClientOptions | None = None,
    *,
    key: ClientKey = ANONYMOUS,
    seed: str = "client",
    now: float = 0.0,
    **more: Any,
) -> tuple[ServerPeer, Playbook]:
    """A client that has said SYN, and its server."""
    peer = ServerPeer(key)
    session = ClientSession(options, key=key, entropy=dice(seed), now=now, **more)
    book = Playbook(session, decode=peer.decode, encode=peer.encode, now=now)
    return peer, book >> (lambda s: s.connect()) << a_syn


def open_client(options: ClientOptions | None = None, **more: Any) -> tuple[ServerPeer, Playbook]:
    """A client after SYN and ACK."""
    peer, book = new_client(options, **more)
    book = book >> peer.ack() << EmitsKind.of(Established, resumed=False)
    return peer, book


def head(
    *,
    magic: int = 0x7F,
    version: int = 0x66,
    cmd: int = 1,
    optional: int = 0,
    head_length: int = 0,
    seq: int = 1,
    length: int = 0,
    order: str = ">",
) -> bytes:
    """Sixteen bytes, right or wrong."""
    fields = (magic, version, cmd, optional, head_length, seq, length)
    return struct.pack(order + "BBHHHII", *fields)


def refused(
    book: Playbook,
    given: Any,
    code: str,
    number: int,
    reason: int = Reason.PROTOCOL,
    **having: Any,
) -> None:
    """The session is given something and answers ERR and FIN with tags, then closes."""
    book >> given << err(number) << fin(reason)
    _closed(book, code, having)


def refused_bare(
    book: Playbook,
    given: Any,
    code: str,
    number: int,
    reason: int = Reason.PROTOCOL,
    **having: Any,
) -> None:
    """The same before there are keys: ERR and FIN without tags."""
    book >> given << Bare(err(number)) << Bare(fin(reason))
    _closed(book, code, having)


def _closed(book: Playbook, code: str, having: dict[str, Any]) -> None:
    book << EmitsKind.of(Failed, code=code, side=Side.REMOTE, fatal=True, **having)
    book << Emits(Closed(code, Side.LOCAL, clean=False))
    book.done()
