"""The content of tny packets, opened as a reader of captures would."""

from __future__ import annotations

import pytest

from wirelake.protocols.tny.layout import Envelope, Message, Packet, Ping
from wirelake.protocols.tny.protocol import PROTOCOL
from wirelake.protocols.tny.transform import Opener, PacketContext, TransformConfig
from wirelake.wire import DecodeError

KEYS = {"security_keys": ["one", "two"]}
MESSAGE = Message(id=7, body=b"hello")


def sealed(count: int, **options: bool) -> list[Packet]:
    """Packets of one direction, each with the same Message."""
    config = TransformConfig(security_keys=("one", "two"), **options)
    context = PacketContext("seed", config)
    plain = PROTOCOL.codec("seed").write_message(MESSAGE)
    packets = []
    for _ in range(count):
        made = context.seal(5, plain, random=bytes)
        body = Envelope(access_id=5, number=made.number, content=made.content)
        packets.append(
            Packet(waste=made.waste, encrypt=made.encrypt, verify=made.verify, body=body)
        )
    return packets


def test_clear_packets_need_no_keys() -> None:
    (packet,) = sealed(1)
    assert Opener({}, None, "seed").open(packet, b"")["message"] == MESSAGE


@pytest.mark.parametrize("option", ["verify", "encrypt", "waste"])
def test_sealed_packets_stay_sealed_without_keys(option: str) -> None:
    (packet,) = sealed(1, **{option: True})
    assert Opener({}, None, "seed").open(packet, b"") == {}
    assert Opener(KEYS, None, "seed").open(packet, b"")["message"] == MESSAGE


def test_a_connection_is_followed_also_from_the_middle() -> None:
    packets = sealed(60, verify=True, encrypt=True, waste=True)
    opener = Opener(KEYS, None, "seed")
    for packet in packets[40:]:
        assert opener.open(packet, b"")["message"] == MESSAGE
    with pytest.raises(DecodeError, match="number_replayed"):
        opener.open(packets[40], b"")


def test_what_is_no_message_has_nothing_to_open() -> None:
    assert Opener(KEYS, None, "seed").open(Packet(body=Ping()), b"") == {}


def test_bytes_after_the_message() -> None:
    plain = PROTOCOL.codec("seed").write_message(MESSAGE)
    packet = Packet(body=Envelope(access_id=5, number=1, content=plain + b"x"))
    with pytest.raises(DecodeError, match="trailing_bytes in message"):
        Opener({}, None, "seed").open(packet, b"")


def test_the_protocols_it_is_for() -> None:
    assert PROTOCOL.opener is Opener
