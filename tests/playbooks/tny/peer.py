"""The other end of a tny playbook: it knows packets and numbers, and none of the rules.

`Peer` is made of the codecs and `PacketContext` alone, so that a playbook never proves a session by
another session. What it reads and writes are `Ping()`, `Pong()` and `Message(...)`; numbers and
access ids that it saw are kept beside.

All keys in this file are throw-away test values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.playbooks.playbook import Playbook

from wirelake.protocols.tny.layout import Envelope, Message, Mode, Packet, Ping, Pong
from wirelake.protocols.tny.limits import ClientOptions, ServerOptions
from wirelake.protocols.tny.protocol import PROTOCOL, RELAY
from wirelake.protocols.tny.session import ClientSession, ServerSession
from wirelake.protocols.tny.transform import Dialect, PacketContext, TransformConfig

CODECS: dict[str, Any] = {name: PROTOCOL.codec(name) for name in PROTOCOL.dialects}
RELAY_CODECS: dict[str, Any] = {name: RELAY.codec(name) for name in RELAY.dialects}
DIALECTS: tuple[Dialect, ...] = ("seed", "upstream")
EPOCH_MS = 1_651_234_567_890
"""The wall clock when a playbook begins; the time of every message at second 0."""
USER = 12_345
"""The access id of clients in playbooks."""
KEYS = ("throw-away-key", "another throw-away")
PLAIN = TransformConfig()


def filler(size: int) -> bytes:
    """Waste bytes, the same in every run."""
    return b"\xa5" * size


@dataclass(frozen=True)
class Numbered:
    """A message in a packet with this number, whatever the last one was."""

    number: int
    message: Message
    access_id: int = USER


@dataclass
class Peer:
    """One peer: its own direction, and what it reads of the session's."""

    dialect: Dialect = "seed"
    access_id: int = USER
    reading: TransformConfig = PLAIN
    writing: TransformConfig = PLAIN
    numbers: list[int] = field(default_factory=list)
    """Of the packets that the session sent."""
    access_ids: list[int] = field(default_factory=list)
    """Of the packets that the session sent."""
    raw: list[bytes] = field(default_factory=list)
    """The packets that the session sent."""

    def __post_init__(self) -> None:
        self.codec = CODECS[self.dialect]
        self.reader = PacketContext(self.dialect, self.reading)
        self.writer = PacketContext(self.dialect, self.writing)

    def encode(self, item: Any) -> bytes:
        """A tick, a message with the next number, or a `Numbered` one."""
        if isinstance(item, Ping | Pong):
            tick: bytes = self.codec.encode_packet(Packet(body=item))
            return tick
        if isinstance(item, Numbered):
            return self.packet(item.number, self.codec.write_message(item.message), item.access_id)
        sealed = self.writer.seal(self.access_id, self.codec.write_message(item), random=filler)
        return self.packet(
            sealed.number,
            sealed.content,
            self.access_id,
            verify=sealed.verify,
            encrypt=sealed.encrypt,
            waste=sealed.waste,
        )

    def packet(self, number: int, content: bytes, access_id: int = USER, **bits: bool) -> bytes:
        """A message packet with any content."""
        body = Envelope(access_id=access_id, number=number, content=content)
        data: bytes = self.codec.encode_packet(Packet(body=body, **bits))
        return data

    def decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        """What the session sent."""
        packet, stop = self.codec.decode_packet(buf, pos, end)
        self.raw.append(buf[pos:stop])
        body = packet.body
        if not isinstance(body, Envelope):
            return body, stop
        plain = self.reader.open(
            body.access_id,
            body.number,
            body.content,
            waste=packet.waste,
            encrypt=packet.encrypt,
            verify=packet.verify,
        )
        self.numbers.append(body.number)
        self.access_ids.append(body.access_id)
        message, used = self.codec.read_message(plain, 0, len(plain))
        assert used == len(plain)
        return message, stop


def server_book(peer: Peer | None = None, **options: Any) -> Playbook:
    """A dialogue with a server; the peer is a client."""
    peer = peer or Peer()
    options.setdefault("dialect", peer.dialect)
    session = ServerSession(ServerOptions(**options), epoch_ms=EPOCH_MS, random=filler)
    return Playbook(session, decode=peer.decode, encode=peer.encode)


def client_book(peer: Peer | None = None, first_id: int = 1, **options: Any) -> Playbook:
    """A dialogue with a client; the peer is a server."""
    peer = peer or Peer()
    options.setdefault("dialect", peer.dialect)
    session = ClientSession(
        ClientOptions(**options),
        access_id=USER,
        first_id=first_id,
        epoch_ms=EPOCH_MS,
        random=filler,
    )
    return Playbook(session, decode=peer.decode, encode=peer.encode)


def request(number: int, protocol: int, body: bytes | None = None, **more: Any) -> Message:
    """A request as it is on the wire."""
    more.setdefault("time", EPOCH_MS)
    return Message(id=number, mode=Mode.REQUEST, protocol=protocol, body=body, **more)


def response(number: int, to: Message, body: bytes | None = None, **more: Any) -> Message:
    """The response to a request, as the rules want it."""
    usual = {
        "time": EPOCH_MS,
        "line": to.line,
        "forward_header": to.forward_header,
        "headers": to.headers,
        "to_message": to.id,
        "protocol": to.protocol,
    }
    return Message(id=number, mode=Mode.RESPONSE, body=body, **{**usual, **more})


def push(number: int, protocol: int, body: bytes | None = None, **more: Any) -> Message:
    """A push as it is on the wire."""
    more.setdefault("time", EPOCH_MS)
    return Message(id=number, mode=Mode.PUSH, protocol=protocol, body=body, **more)
