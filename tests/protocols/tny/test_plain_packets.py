"""The short way of plain packets must give what the long one gives: events, answers, numbers."""

from __future__ import annotations

import random

import pytest

from wirelake.protocols.sansio import Event, SessionError
from wirelake.protocols.tny.endpoint import Forwarded, Requested
from wirelake.protocols.tny.layout import Message, Mode
from wirelake.protocols.tny.limits import ClientOptions, ServerOptions
from wirelake.protocols.tny.message import encode_message
from wirelake.protocols.tny.session import ClientSession, ServerSession, UserSession
from wirelake.protocols.tny.transform import PacketContext, TransformConfig

KEYS = ("a throw-away key of a test",)


def stream(rng: random.Random, dialect: str) -> bytes:
    """What a client says: mostly plain requests, now and then something else, perhaps broken."""
    options = ClientOptions(dialect=dialect, max_in_flight=10_000)  # type: ignore[arg-type]
    client = ClientSession(options, access_id=rng.choice((0, 7, 1 << 40)), epoch_ms=1)
    for _ in range(rng.randrange(1, 40)):
        what = rng.randrange(10)
        if what == 0:
            client.ping()
        elif what == 1:
            client.push(5, b"told")
        elif what == 2:
            message = Message(id=0, mode=Mode.RESPONSE, protocol=3, to_message=rng.randrange(3))
            client.send(message)
        else:
            client.request(rng.randrange(3_000), rng.randbytes(rng.randrange(200)) or None)
    data = bytearray(client.to_send())
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def hear(session: ServerSession, data: bytes, cuts: list[int]) -> tuple[list[Event], bytes, int]:
    """Everything that comes of a stream, given in pieces, when every request is answered."""
    events: list[Event] = []
    said = b""
    for now, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(data)], strict=True)):
        session.receive(data[start:stop], float(now))
        for event in session.events():
            events.append(event)
            if isinstance(event, Requested) and not session.closed:
                session.respond(event.message, b"yes")
        said += session.to_send()
    session.receive_eof()
    return [*events, *session.events()], said, session.pending


@pytest.mark.parametrize("dialect", ["seed", "upstream"])
@pytest.mark.parametrize("seed", range(150))
def test_both_ways_give_the_same(dialect: str, seed: int) -> None:
    rng = random.Random(seed)
    data = stream(rng, dialect)
    cuts = sorted(rng.randrange(len(data)) for _ in range(rng.randrange(4)))
    options = ServerOptions(dialect=dialect, max_pending=rng.choice((2, 1024)))  # type: ignore[arg-type]
    short, long = (ServerSession(options, epoch_ms=5) for _ in range(2))
    assert short._is_plain
    long._is_plain = False
    assert hear(short, data, cuts) == hear(long, data, cuts)


def test_the_generator_catches_up_when_a_packet_needs_it() -> None:
    config = TransformConfig(security_keys=KEYS)
    sealing = TransformConfig(security_keys=KEYS, verify=True, encrypt=True, waste=True)
    for plain in (1, 255, 256, 257, 1_000):
        behind, eager = PacketContext("upstream", config), PacketContext("upstream", config)
        writer = PacketContext("upstream", sealing)
        for number in range(1, plain + 1):
            for reader in (behind, eager):
                if number == 1 or reader is eager:
                    reader.open(7, number, b"x", waste=False, encrypt=False, verify=False)
                else:
                    assert reader.read_plain(number)
            writer.seal(7, b"x", random=bytes)
        sealed = writer.seal(7, b"a message", random=bytes)
        for reader in (behind, eager):
            opened = reader.open(
                7, sealed.number, sealed.content, waste=True, encrypt=True, verify=True
            )
            assert opened == b"a message"
            assert reader.packet_code == writer.packet_code


def test_plain_numbers_follow_the_rules() -> None:
    reader = PacketContext("seed")
    assert not reader.read_plain(1)  # the first packet says more than its number
    reader.open(7, 1, b"x", waste=False, encrypt=False, verify=False)
    assert reader.read_plain(31)
    assert not reader.read_plain(31)
    assert not reader.read_plain(62)
    assert reader.number == 31
    demanding = PacketContext("seed", TransformConfig(verify=True))
    assert not demanding.is_plain


def test_plain_packets_are_numbered_on() -> None:
    writer = PacketContext("seed")
    assert writer.write_plain() == 0
    assert writer.seal(7, b"x", random=bytes).number == 1
    assert [writer.write_plain() for _ in range(300)] == list(range(2, 302))
    assert writer.seal(7, b"x", random=bytes).number == 302


def test_a_gateway_forwards_requests_and_relays_responses() -> None:
    client, gateway = ClientSession(access_id=7, epoch_ms=1), UserSession(epoch_ms=1)
    first = client.request(1_001, b"ask")
    client.push(3, b"tell")
    gateway.receive(client.to_send(), 0.0)
    asked, result = gateway.events()
    assert isinstance(asked, Forwarded)
    assert isinstance(result, Forwarded)
    assert (asked.message.id, result.message.mode) == (first, Mode.PUSH)
    assert asked.raw == encode_message(asked.message)
    assert gateway.pending == 1
    answer = Message(id=90, mode=Mode.RESPONSE, protocol=1_001, to_message=first, time=8)
    gateway.relay(answer, encode_message(answer))
    assert gateway.pending == 0
    assert gateway.next_id == 91
    client.receive(gateway.to_send(), 0.0)
    (replied,) = client.events()
    assert replied.response == answer  # type: ignore[attr-defined]


def test_a_gateway_closes_after_a_code_that_closes() -> None:
    gateway = UserSession()
    refusal = Message(id=1, mode=Mode.PUSH, protocol=0, code=210, time=8)
    gateway.relay(refusal, encode_message(refusal))
    assert gateway.closed


def test_what_a_gateway_cannot_relay() -> None:
    gateway = UserSession(ServerOptions(max_payload=100))
    request = Message(id=1, protocol=3, time=8)
    with pytest.raises(SessionError, match="bad_state"):
        gateway.relay(request, encode_message(request))
    large = Message(id=1, mode=Mode.PUSH, protocol=3, time=8, body=bytes(200))
    with pytest.raises(SessionError, match="too_large"):
        gateway.relay(large, encode_message(large))
    assert gateway.to_send() == b""


def test_the_packet_limit_of_a_server_can_change() -> None:
    server, client = ServerSession(), ClientSession(access_id=7)
    server.accept(100)
    client.request(3, bytes(50))
    server.receive(client.to_send(), 0.0)
    assert not server.closed
    server.accept(None)
    client.request(3, bytes(50_000))
    server.receive(client.to_send(), 0.0)
    assert not server.closed
    server.accept(100)
    client.request(3, bytes(150))
    server.receive(client.to_send(), 0.0)
    assert server.closed
