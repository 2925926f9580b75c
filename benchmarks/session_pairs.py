"""A client and a server of each protocol back to back in memory, talking without end.

Bytes go from one session to the other as a shell would carry them: all that is there in one piece.
A request carries 64 bytes and gets 64 back, a push carries 64; ids are those of a connection that
has been up for a while. All keys here are throw-away values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from wirelake.protocols.comet import codec_seed as comet_codec
from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet import session as comet_session
from wirelake.protocols.comet.limits import ClientOptions as CometClientOptions
from wirelake.protocols.esnp import codec_seed as esnp_codec
from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.esnp import session as esnp_session
from wirelake.protocols.magline import codec_seed as magline_codec
from wirelake.protocols.magline import layout as magline_layout
from wirelake.protocols.magline import session as magline
from wirelake.protocols.magline.records import DirectionKeys, RecordCipher
from wirelake.protocols.sansio import Event, Role, Session
from wirelake.protocols.tny import codec_seed as tny_codec
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny import session as tny_session
from wirelake.protocols.tny.relay_gateway import GatewayLink, GatewayTunnels
from wirelake.protocols.tny.relay_link import Relayed
from wirelake.protocols.tny.relay_server import LinkRegistry, ServerLink

__all__ = ["MAKERS", "Pair", "cipher_passes", "fresh_ciphers"]

DATA = bytes(range(64))
EPOCH_MS = 1_767_225_600_000
FIRST_ID = 100_000


class Pair(NamedTuple):
    """Two sessions that have met, and what their applications do."""

    client: Session
    server: Session
    ask: Callable[[], Any]
    """The client asks."""
    answer: Callable[[Event], Any]
    """The server answers an event; events that ask nothing are passed over."""
    tell: Callable[[], Any]
    """The server pushes."""
    codec: Callable[[bytes, bool], Callable[[], Any]]
    """What decodes a frame and encodes it again; True for the client's frames."""
    expects: dict[str, Callable[[Event], bool]]
    """What the client hears of a request's answer, and of a push."""

    def exchange(self, depth: int) -> list[Event]:
        """So many requests at once, and their answers; what the client hears."""
        for _ in range(depth):
            self.ask()
        self.server.receive(self.client.to_send(), 0.0)
        while events := self.server.events():
            for event in events:
                self.answer(event)
        self.client.receive(self.server.to_send(), 0.0)
        return self.client.events()

    def push(self, depth: int) -> list[Event]:
        """So many pushes at once; what the client hears."""
        for _ in range(depth):
            self.tell()
        self.client.receive(self.server.to_send(), 0.0)
        return self.client.events()

    def frames(self, kind: str) -> list[tuple[bytes, bool]]:
        """The frames of one request and its answer, or of one push, and who sent them."""
        found: list[tuple[bytes, bool]] = []
        if kind == "request":
            self.ask()
            found.append((self.client.to_send(), True))
            self.server.receive(found[0][0], 0.0)
            while events := self.server.events():
                for event in events:
                    self.answer(event)
        else:
            self.tell()
        found.append((self.server.to_send(), False))
        self.client.receive(found[-1][0], 0.0)
        self.client.events()
        return found


def _meet(client: Session, server: Session) -> None:
    """Carries bytes until neither has anything to say; what happened is forgotten."""
    while True:
        up, down = client.to_send(), server.to_send()
        client.events()
        server.events()
        if not up and not down:
            return
        server.receive(up, 0.0)
        client.receive(down, 0.0)


def _twice(
    encode: Callable[[Any], bytes], decode: Callable[..., tuple[Any, int]], data: bytes
) -> Callable[[], Any]:
    """Decodes a frame and encodes it again."""
    message, end = decode(data, 0, len(data))
    assert encode(message) == data[:end] == data

    def run() -> None:
        decode(data, 0, end)
        encode(message)

    return run


# -- comet -----------------------------------------------------------------------------------


def _comet() -> Pair:
    """Content in clear: the seal of a notification is a matter of its own."""
    client = comet_session.ClientSession(CometClientOptions(allow_plaintext=True))
    server = comet_session.ServerSession()
    client.send(comet.Auth(client_id="c01000010000abcd", token="throw-away"))
    server.receive(client.to_send(), 0.0)
    server.accept()
    _meet(client, server)
    command = comet.Subscribe(topics=("@" + "x" * (len(DATA) - 1),))
    note = comet.Notification(msg_type=1, msg_id="p0100001000abcde", content=DATA, ts=EPOCH_MS)
    ok = comet.Ok()  # what the protocol answers this with: no data

    def reply(event: Event) -> None:
        if isinstance(event, comet_session.Requested):
            server.send(ok)

    def codec(data: bytes, up: bool) -> Callable[[], Any]:
        decode = comet_codec.decode_frame_c2s if up else comet_codec.decode_frame_s2c
        return _twice(comet_codec.encode_frame, decode, data)

    return Pair(
        client,
        server,
        lambda: client.send(command),
        reply,
        lambda: server.send(note),
        codec,
        {
            "request": lambda e: isinstance(e, comet_session.Replied) and e.reply == ok,
            "push": lambda e: e == comet_session.Notified(note, DATA),
        },
    )


# -- ESNP ------------------------------------------------------------------------------------


def _esnp() -> Pair:
    client = esnp_session.EsnpSession(Role.CLIENT, first_id=FIRST_ID)
    server = esnp_session.EsnpSession(Role.SERVER)
    rows = (
        esnp.Address(kind=esnp.AddressKind.SERVICE, value="room"),
        esnp.Address(kind=esnp.AddressKind.OP, value="join"),
        esnp.Payload(data=DATA),
    )
    answer = (esnp.Payload(data=DATA),)

    def reply(event: Event) -> None:
        if isinstance(event, esnp_session.Requested):
            server.answer(event.call, answer)

    def codec(data: bytes, up: bool) -> Callable[[], Any]:  # noqa: ARG001 - both ways are alike
        return _twice(esnp_codec.encode_message, esnp_codec.decode_message, data)

    return Pair(
        client,
        server,
        lambda: client.request(rows),
        reply,
        lambda: server.announce(rows),
        codec,
        {
            "request": lambda e: isinstance(e, esnp_session.Answered) and e.error is None,
            "push": lambda e: isinstance(e, esnp_session.Announced),
        },
    )


# -- tny and its relay -----------------------------------------------------------------------


def _tny() -> Pair:
    client = tny_session.ClientSession(access_id=12_345, first_id=FIRST_ID, epoch_ms=EPOCH_MS)
    server = tny_session.ServerSession(first_id=FIRST_ID, epoch_ms=EPOCH_MS)

    def reply(event: Event) -> None:
        if isinstance(event, tny_session.Requested):
            server.respond(event.message, DATA)

    return Pair(
        client,
        server,
        lambda: client.request(2002, DATA),
        reply,
        lambda: server.push(2003, DATA),
        _tny_codec,
        {
            "request": lambda e: isinstance(e, tny_session.Replied) and e.response.body == DATA,
            "push": lambda e: isinstance(e, tny_session.Pushed) and e.message.body == DATA,
        },
    )


def _tny_codec(data: bytes, up: bool) -> Callable[[], Any]:  # noqa: ARG001 - both ways are alike
    """A packet, and the message in it."""
    packet, end = tny_codec.decode_packet(data, 0, len(data))
    content = cast(tny.Envelope, packet.body).content
    outer = _twice(tny_codec.encode_packet, tny_codec.decode_packet, data)
    inner = _twice(tny_codec.write_message, tny_codec.read_message, content)
    assert end == len(data)

    def run() -> None:
        outer()
        inner()

    return run


def _relay() -> Pair:
    users, registry = GatewayTunnels(1001), LinkRegistry()
    opening = tny.LinkOpen(service="gate", instance=1001, key="throw-away")
    client = GatewayLink(users, service="game", opening=opening, epoch_ms=EPOCH_MS)
    server = ServerLink(registry, epoch_ms=EPOCH_MS)
    _meet(client, server)
    users.connect("game", 12_345, ip=bytes(4), port=8080)
    _meet(client, server)
    request = tny.Message(id=FIRST_ID, protocol=2002, time=EPOCH_MS, body=DATA)
    push = tny.Message(id=FIRST_ID, mode=tny.Mode.PUSH, protocol=2003, time=EPOCH_MS, body=DATA)
    answer = tny.Message(
        id=FIRST_ID,
        mode=tny.Mode.RESPONSE,
        protocol=2002,
        to_message=FIRST_ID,
        time=EPOCH_MS,
        body=DATA,
    )
    key = users.key(12_345)

    def reply(event: Event) -> None:
        if isinstance(event, Relayed):
            registry.relay(event.key, answer)

    def codec(data: bytes, up: bool) -> Callable[[], Any]:  # noqa: ARG001 - both ways are alike
        return _twice(tny_codec.encode_relay_packet, tny_codec.decode_relay_packet, data)

    return Pair(
        client,
        server,
        lambda: users.relay("game", 12_345, request),
        reply,
        lambda: registry.relay(key, push),
        codec,
        {
            "request": lambda e: isinstance(e, Relayed) and e.message == answer,
            "push": lambda e: isinstance(e, Relayed) and e.message == push,
        },
    )


# -- magline ---------------------------------------------------------------------------------


def _entropy(start: int) -> Callable[[int], bytes]:
    """Not random at all: the same keys in every run."""
    drawn = [start]

    def draw(size: int) -> bytes:
        drawn[0] += 1
        return bytes([drawn[0]]) * size

    return draw


def _magline() -> Pair:
    keys = magline.ServerKeys(allow_anonymous=True)
    key = magline.ClientKey(allow_anonymous=True)
    client = magline.ClientSession(key=key, entropy=_entropy(1))
    server = magline.ServerSession(keys=keys, entropy=_entropy(100))
    client.connect()
    _meet(client, server)
    request, push = magline.Request(7, DATA), magline.Push(8, DATA)

    def reply(event: Event) -> None:
        if isinstance(event, magline.Requested):
            server.send(magline.Reply(event.seq, DATA))

    def codec(data: bytes, up: bool) -> Callable[[], Any]:  # noqa: ARG001 - both ways are alike
        return _twice(magline_codec.encode_frame, magline_codec.decode_frame, data)

    return Pair(
        client,
        server,
        lambda: client.send(request),
        reply,
        lambda: server.send(push),
        codec,
        {
            "request": lambda e: isinstance(e, magline.Replied) and e.data == DATA,
            "push": lambda e: e == magline.Pushed(8, DATA),
        },
    )


class _Fresh:
    """A cipher that makes a new context for every frame, as the simplest program would."""

    def __init__(self, keys: DirectionKeys):
        self._keys = keys

    def __getattr__(self, name: str) -> Any:
        return getattr(RecordCipher(self._keys), name)


_THROW_AWAY = DirectionKeys(enc=bytes(32), iv=bytes(12), mac=bytes(32))


def fresh_ciphers() -> Pair:
    """The same pair, with a new cipher object for each frame of either end."""
    pair = _magline()
    for session in (pair.client, pair.server):
        assert isinstance(session, magline.ClientSession | magline.ServerSession)
        session._sealer = cast(RecordCipher, _Fresh(_THROW_AWAY))
        session._opener = cast(RecordCipher, _Fresh(_THROW_AWAY))
    return pair


def cipher_passes(frames: list[tuple[bytes, bool]]) -> dict[str, Callable[[], Any]]:
    """Sealing and opening of the same frames alone: with kept contexts, and with new ones."""
    sealer, opener = RecordCipher(_THROW_AWAY), RecordCipher(_THROW_AWAY)
    plain = [_clear(data) for data, _ in frames]

    def kept() -> None:
        for frame in plain:
            sealer._last_sealed = -1  # the same frames again, which no session would seal
            opener.open_data(sealer.seal_data(frame))

    def new() -> None:
        for frame in plain:
            RecordCipher(_THROW_AWAY).open_data(RecordCipher(_THROW_AWAY).seal_data(frame))

    return {"ciphers": kept, "new_ciphers": new}


def _clear(data: bytes) -> bytes:
    """A frame as it is before it is sealed."""
    frame, _ = magline_codec.decode_frame(data, 0, len(data))
    body = cast("magline_layout.Req", frame.body)
    clear = type(body)(business_cmd=body.business_cmd, hmac=bytes(16), data=DATA)
    return magline_codec.encode_frame(
        magline_layout.Frame(seq=frame.seq, reply_to=frame.reply_to, body=clear)
    )


MAKERS: dict[str, Callable[[], Pair]] = {
    "comet": _comet,
    "esnp": _esnp,
    "tny": _tny,
    "relay": _relay,
    "magline": _magline,
}
