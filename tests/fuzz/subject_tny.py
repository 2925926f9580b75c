"""tny message connections to attack: all dialects, with and without check codes and encryption.

The peer numbers and seals its packets rightly most of the time, so that spoilt contents get behind
the checks of a packet. All keys here are throw-away test values.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz.hostile import spoil
from tests.fuzz.subject import Subject
from tests.playbooks.tny.peer import CODECS, DIALECTS, EPOCH_MS, KEYS, USER, Numbered, Peer, filler

from wirelake.protocols.sansio import Event, Session
from wirelake.protocols.tny.layout import Message, Mode, OriginalMessageIdHeader, Ping, Pong
from wirelake.protocols.tny.limits import ClientOptions, ServerOptions
from wirelake.protocols.tny.message import encode_header
from wirelake.protocols.tny.session import ClientSession, Requested, ServerSession
from wirelake.protocols.tny.transform import TransformConfig

__all__ = ["TnyEnd", "make"]

LIMIT = 2048
_ROOM = 9 + LIMIT
_TRANSFORMS = (
    TransformConfig(),
    TransformConfig(),
    TransformConfig(security_keys=KEYS),
    TransformConfig(security_keys=KEYS, verify=True),
    TransformConfig(security_keys=KEYS, verify=True, encrypt=True, waste=True),
)
_COMMON: dict[str, Any] = {"max_payload": LIMIT, "max_in_flight": 4, "max_pending": 4}
_MORE: tuple[dict[str, Any], ...] = (
    {},
    {"strict": False},
    {"ping_interval_s": 5.0, "idle_limit_s": 30.0},
    {"max_number": 12, "numbers_low": 4},
)
_CODES = (100, 100, 100, 153, 156, 205, 210, -1)


def _messages(dialect: str) -> tuple[Message, ...]:
    rng = Random(f"tny {dialect}")
    found = []
    for number in range(1, 81):
        mode = rng.choice((Mode.REQUEST, Mode.RESPONSE, Mode.PUSH))
        more: dict[str, Any] = {}
        if rng.random() < 0.3 and dialect == "seed":
            more["forward_header"] = rng.randbytes(6)
        if rng.random() < 0.3 and dialect == "upstream":
            original = encode_header(OriginalMessageIdHeader(message_id=rng.randrange(1, 6)))
            more["headers"] = rng.choice(((original,), (b"\1\2\3\4\5",), (original, b"")))
        found.append(
            Message(
                id=number if rng.random() < 0.7 else rng.randrange(1, 4),
                mode=mode,
                line=rng.randrange(8),
                protocol=rng.choice((0, 7, 7, 2002)),
                code=rng.choice(_CODES),
                to_message=rng.randrange(1, 7) if mode == Mode.RESPONSE else 0,
                time=EPOCH_MS,
                body=rng.choice((None, b"", b"body", bytes(300))),
                **more,
            )
        )
    return tuple(found)


_MESSAGES = {dialect: _messages(dialect) for dialect in DIALECTS}
_BYTES: dict[str, tuple[bytes, ...]] = {
    dialect: tuple(CODECS[dialect].write_message(each) for each in found)
    for dialect, found in _MESSAGES.items()
}


class TnyEnd(Subject):
    """A client or a server."""

    def __init__(self, rng: Random):
        super().__init__(rng)
        transform = rng.choice(_TRANSFORMS)
        peer_dialect = rng.choice(DIALECTS)
        dialect = "auto" if rng.random() < 0.33 else peer_dialect
        self._peer = Peer(dialect=peer_dialect, writing=transform)
        options = {**_COMMON, **rng.choice(_MORE), "reading": transform, "dialect": dialect}
        self.session: ClientSession | ServerSession
        if rng.random() < 0.5:
            self.session = ServerSession(
                ServerOptions(**options, tell_errors=rng.random() < 0.8),
                epoch_ms=EPOCH_MS,
                random=filler,
            )
        else:
            self.session = ClientSession(
                ClientOptions(**options), access_id=USER, epoch_ms=EPOCH_MS, random=filler
            )
        self.sessions = [self.session]
        self._asked: list[Message] = []
        for _ in range(self.pick(0.3, 0.3, 0.2)):
            self.session.request(7, b"body")
        for _ in range(self.pick(0.4, 0.3)):
            self.session.receive(self._packet(self._plain()), self.now)

    def frame(self, session: Session) -> bytes:  # noqa: ARG002
        match self.pick(0.72, 0.1, 0.13):
            case 0:
                return self._packet(self._plain())
            case 1:
                return self._peer.encode(Ping() if self.rng.random() < 0.5 else Pong())
            case 2:
                return self._packet(spoil(self.rng, self._plain()))
            case _:
                message = self.rng.choice(_MESSAGES[self._peer.dialect])
                near = self._peer.writer.number + self.rng.choice((-1, 0, 2, 30, 31, 1000))
                return self._peer.encode(Numbered(max(0, near), message))

    def _plain(self) -> bytes:
        return self.rng.choice(_BYTES[self._peer.dialect])

    def _packet(self, plain: bytes) -> bytes:
        """A packet with the next number and any content, sealed as it should be."""
        done = self._peer.writer.seal(USER, plain, random=filler)
        return self._peer.packet(
            done.number, done.content, verify=done.verify, encrypt=done.encrypt, waste=done.waste
        )

    def heard(self, session: Session, event: Event) -> None:  # noqa: ARG002
        if isinstance(event, Requested):
            self._asked.append(event.message)

    def act(self, session: Session) -> None:  # noqa: ARG002
        match self.pick(0.45, 0.35, 0.08, 0.08, 0.02):
            case 0 if self._asked:
                request = self._asked.pop()
                self.session.respond(request, b"answer", code=self.rng.choice(_CODES))
            case 1:
                self.session.request(7, b"body")
            case 2:
                self.session.push(2002, b"news")
            case 3:
                self.session.ping()
            case 4 if self._asked:
                self.session.release(self._asked.pop())
            case 5:
                self.session.close()

    def room(self, session: Session) -> int:  # noqa: ARG002
        return _ROOM

    def excess(self, session: Session) -> str:  # noqa: ARG002
        end, options = self.session, self.session.options
        if end.in_flight > options.max_in_flight:
            return f"in flight {end.in_flight}"
        asked = len(end._unanswered)
        if max(end.pending, asked) > options.max_pending:
            return f"pending {end.pending}, ids {asked}"
        return ""

    def busy(self, session: Session) -> bool:  # noqa: ARG002
        return bool(self.session.in_flight or self.session.pending)


def make(rng: Random) -> Subject:
    """A tny session in some state."""
    return TnyEnd(rng)
