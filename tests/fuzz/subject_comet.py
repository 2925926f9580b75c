"""comet sessions to attack: a server and a client, from the first byte to sealed content.

All ids, tokens, keys and secrets here are throw-away test values.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz.subject import Subject
from tests.playbooks.comet.peer import (
    AUTH,
    EPH_PRIVATE,
    HELLO,
    KEY,
    LET_IN,
    SECRET,
    VECTORS,
    exchange,
    sealed,
)

from wirelake.protocols.comet import codec_seed
from wirelake.protocols.comet.endpoint import ANSWERS
from wirelake.protocols.comet.layout import (
    Auth,
    AuthSuccess,
    Command,
    Error,
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
from wirelake.protocols.comet.limits import ClientOptions, ServerOptions
from wirelake.protocols.comet.protocol import PROTOCOL
from wirelake.protocols.comet.sealing import ContentSealer, HipushContent, RsaServerKey, content_key
from wirelake.protocols.comet.session import ClientSession, ServerSession
from wirelake.protocols.sansio import Session

__all__ = ["CometClient", "CometServer", "make"]

CODECS: dict[str, Any] = {name: PROTOCOL.codec(name) for name in PROTOCOL.dialects}
FRAME_ROOM = 2 + 0xFFFF
"""A length and what it can say."""

_OLD = VECTORS["legacy_exchange_key_rsa512_des"]
OLD_KEY = RsaServerKey(bytes.fromhex(_OLD["expect"]["rsa_private_pkcs8_hex"]), legacy_hipush=True)
OLD_SECRET = bytes.fromhex(_OLD["expect"]["unwrapped_hex"])
OLD_EXCHANGE_FRAME = bytes.fromhex(_OLD["hex"])
EXCHANGE, _ = exchange()
AUTH_FRAME, LET_IN_FRAME, EXCHANGE_FRAME = (
    codec_seed.encode_frame(each) for each in (AUTH, LET_IN, EXCHANGE)
)
CONTENT_KEY = content_key(SECRET, AUTH_FRAME, LET_IN_FRAME, EXCHANGE_FRAME)

COMMANDS: tuple[Command, ...] = (
    Heartbeat(),
    Heartbeat(),
    GetTopicList(),
    GetMessageList(),
    Subscribe(topics=("@news", "@weather")),
    Subscribe(topics=()),
    Unsubscribe(topics=("@news",)),
    Unsubscribe(topics=("", "\udcff", "x" * 300)),
    MessageAck(msg_ids=("p0100001000abcde",)),
    MessageAck(msg_ids=("",)),
    ReportEnviron(network_type=1, isp=2, phone_type="phone", extra=("a", "b")),
    ReportEnviron(network_type=200, isp=255, phone_type="\udc80"),
)
AUTHS = (AUTH, AUTH, Auth(client_id="", token=""), Auth(client_id="other", token="\udcfe"))
NOTES = tuple(
    Notification(msg_type=kind, msg_id=f"p{kind}", content=b"x" * size, ts=kind)
    for kind, size in ((1, 0), (2, 5), (3, 200), (255, 40))
)
REPLIES: tuple[Reply, ...] = (
    Ok(),
    Error(error_code=4, reason="message format illegal"),
    Error(error_code=99, reason="\udcff"),
    TopicList(topics=("@news",)),
    TopicList(topics=()),
    MessageList(messages=NOTES[:2]),
    MessageList(messages=()),
    AuthSuccess(encrypt_key=b""),
    AuthSuccess(encrypt_key=b"\x30\x03\x02\x01\x00"),
)
ASKED = tuple(codec_seed.encode_frame(each) for each in COMMANDS)
SAID = (*ASKED, *(codec_seed.encode_frame(each) for each in (*AUTHS, EXCHANGE)))
ANSWERED: dict[str, tuple[bytes, ...]] = {
    name: tuple(codec.encode_frame(each) for each in (*REPLIES, LET_IN, *NOTES))
    for name, codec in CODECS.items()
}
RIGHT: dict[type, tuple[Reply, ...]] = {
    kind: tuple(r for r in (*REPLIES, LET_IN) if isinstance(r, answers))
    for kind, answers in ANSWERS.items()
}

SERVER_OPTIONS = (
    ServerOptions(max_pending=4),
    ServerOptions(max_pending=16, max_pending_bytes=400, push_after="list"),
    ServerOptions(max_pending=4, require_encryption=True, auth_attempts=2),
    ServerOptions(max_pending=2, tell_unknown_clients=True, on_duplicate="reject"),
)
OLD_SERVER_OPTIONS = ServerOptions(max_pending=4, dialect="hipush", legacy_hipush=True)
CLIENT_OPTIONS = (
    ClientOptions(max_pending=4),
    ClientOptions(max_pending=4, allow_plaintext=True),
    ClientOptions(max_pending=3, one_at_a_time=True),
    ClientOptions(max_pending=4, dialect="auto", auto_prefers="hipush"),
)
OLD_CLIENT_OPTIONS = ClientOptions(max_pending=4, dialect="auto", legacy_hipush=True)


class CometServer(Subject):
    """A server."""

    def __init__(self, rng: Random):
        super().__init__(rng)
        old = rng.random() < 0.15
        key = OLD_KEY if old else KEY if rng.random() < 0.8 else None
        options = OLD_SERVER_OPTIONS if old else rng.choice(SERVER_OPTIONS)
        self.session = ServerSession(options, server_key=key)
        self.sessions = [self.session]
        self._exchange = OLD_EXCHANGE_FRAME if old else EXCHANGE_FRAME
        self._reach(self.pick(0.2, 0.2, 0.3))

    def _reach(self, stage: int) -> None:
        """0 new, 1 deciding, 2 authenticated, 3 keyed if there is a key."""
        if stage:
            self.session.receive(AUTH_FRAME, self.now)
        if stage > 1:
            self.session.accept()
        if stage > 2:
            self.session.receive(self._exchange, self.now)

    def frame(self, session: Session) -> bytes:  # noqa: ARG002
        match self.pick(0.9, 0.01):
            case 0 if self.session.state != "new":
                return self.rng.choice(ASKED)
            case 1:
                return self._exchange
            case _:
                return self.rng.choice(SAID)

    def act(self, session: Session) -> None:  # noqa: ARG002
        match self.pick(0.6, 0.3, 0.08):
            case 0:
                self._answer()
            case 1:
                self.session.send(self.rng.choice(NOTES))
            case 2:
                self.session.send(self.rng.choice(REPLIES))
            case _:
                self.session.replaced()

    def _answer(self) -> None:
        if self.session.state == "deciding":
            if self.rng.random() < 0.7:
                self.session.accept()
            else:
                self.session.refuse(self.rng.choice((0, 1, 2, 3, 6)))
        elif self.session._current is not None:
            self.session.send(self.rng.choice(RIGHT[type(self.session._current[0])]))

    def room(self, session: Session) -> int:  # noqa: ARG002
        return FRAME_ROOM

    def excess(self, session: Session) -> str:  # noqa: ARG002
        if self.session.pending > self.session.options.max_pending:
            return f"pending {self.session.pending}"
        queued = self.session._queued_bytes
        return f"queued {queued}" if queued > self.session.options.max_pending_bytes else ""

    def busy(self, session: Session) -> bool:  # noqa: ARG002
        return self.session.pending > 0

    def waits(self, session: Session) -> bool:  # noqa: ARG002
        return self.session._final_error is not None


class CometClient(Subject):
    """A client."""

    def __init__(self, rng: Random):
        super().__init__(rng)
        self._old = rng.random() < 0.15
        options = OLD_CLIENT_OPTIONS if self._old else rng.choice(CLIENT_OPTIONS)
        self.session = ClientSession(options)
        self.sessions = [self.session]
        self._sealer: ContentSealer | HipushContent = ContentSealer(CONTENT_KEY)
        if self._old:
            self._sealer = HipushContent(OLD_SECRET, legacy_hipush=True)
        self._reach(self.pick(0.1, 0.15, 0.3, 0.1))

    def _reach(self, stage: int) -> None:
        """0 new, 1 authenticating, 2 authenticated, 3 exchanging, 4 keyed."""
        let_in = AuthSuccess(encrypt_key=OLD_KEY.encrypt_key) if self._old else LET_IN
        if stage:
            self.session.send(AUTH)
        if stage > 1:
            self.session.receive(codec_seed.encode_frame(let_in), self.now)
        if stage > 2:
            self._exchange_key()
        if stage > 3:
            self.session.receive(codec_seed.encode_frame(Ok()), self.now)

    def _exchange_key(self) -> None:
        if self._old:
            self.session.exchange_key(secret=OLD_SECRET)
        else:
            self.session.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)

    def frame(self, session: Session) -> bytes:  # noqa: ARG002
        dialect = self.session.dialect if self.rng.random() < 0.95 else "hipush"
        if self.session.state == "keyed" and self.rng.random() < 0.4:
            return self._note(dialect)
        waiting = self.session.unanswered
        if waiting and self.rng.random() < 0.7:
            encoded: bytes = CODECS[dialect].encode_frame(self.rng.choice(RIGHT[type(waiting[0])]))
            return encoded
        return self.rng.choice(ANSWERED[dialect])

    def _note(self, dialect: str) -> bytes:
        """A notification that opens; or content of any kind."""
        note = HELLO
        if isinstance(self._sealer, ContentSealer):
            note = sealed(self._sealer, HELLO)
        elif self.rng.random() < 0.7:
            note = Notification(msg_type=1, msg_id="p", content=self._sealer.seal(b"hello"), ts=1)
        encoded: bytes = CODECS[dialect].encode_frame(note)
        return encoded

    def act(self, session: Session) -> None:  # noqa: ARG002
        match self.pick(0.85, 0.08, 0.05):
            case 0:
                self.session.send(self.rng.choice(COMMANDS))
            case 1:
                self.session.send(AUTH)
            case 2:
                self._exchange_key()
            case _:
                self.session.close()

    def room(self, session: Session) -> int:  # noqa: ARG002
        return FRAME_ROOM

    def excess(self, session: Session) -> str:  # noqa: ARG002
        count = len(self.session.unanswered)
        return f"unanswered {count}" if count > self.session.options.max_pending else ""

    def busy(self, session: Session) -> bool:  # noqa: ARG002
        return bool(self.session.unanswered)


def make(rng: Random) -> Subject:
    """A comet session in some state."""
    return CometServer(rng) if rng.random() < 0.5 else CometClient(rng)
