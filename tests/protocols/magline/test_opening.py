"""magline frames, opened with the keys of a key log."""

from __future__ import annotations

import pytest

from wirelake.protocols.magline.layout import Ack, Fin, Frame, Pin, Rep, Req
from wirelake.protocols.magline.protocol import PROTOCOL
from wirelake.protocols.magline.records import DirectionKeys, Opener, RecordCipher
from wirelake.wire import DecodeError

ENC, IV, MAC = bytes(range(32)), bytes(12), bytes(range(32, 64))
KEYS = {"c2s_enc": ENC.hex(), "c2s_iv": IV.hex(), "c2s_mac": MAC.hex(), "res": "ignored"}


def sealed_request(seq: int = 1) -> tuple[Frame, bytes]:
    """A request and its bytes."""
    frame = Frame(seq=seq, body=Req(business_cmd=9, hmac=bytes(16), data=b"hello"))
    raw = RecordCipher(DirectionKeys(ENC, IV, MAC)).seal_data(PROTOCOL.encode(frame))
    message = PROTOCOL.decode(raw).message
    assert isinstance(message, Frame)
    return message, raw


def test_a_request_opens_with_either_direction() -> None:
    message, raw = sealed_request()
    for direction in (None, "c2s", "s2c"):
        opened = Opener(KEYS, direction, "seed").open(message, raw)  # type: ignore[arg-type]
        assert opened == {"data": b"hello", "hmac_state": "valid"}


def test_without_a_mac_key_nothing_is_verified() -> None:
    message, raw = sealed_request()
    keys = {name: value for name, value in KEYS.items() if name != "c2s_mac"}
    assert Opener(keys, None, "seed").open(message, raw) == {
        "data": b"hello",
        "hmac_state": "unverified",
    }


def test_a_forged_frame_does_not_open() -> None:
    message, raw = sealed_request()
    with pytest.raises(DecodeError, match="bad_record"):
        Opener(KEYS, None, "seed").open(message, raw[:-1] + b"\0")


def test_control_frames_have_the_state_of_their_tag() -> None:
    cipher = RecordCipher(DirectionKeys(ENC, IV, MAC))
    pin = Frame(seq=2, auth=bytes(16), body=Pin(ping_number=1))
    raw = cipher.seal_control(PROTOCOL.encode(pin))
    assert Opener(KEYS, None, "seed").open(pin, raw) == {"auth_state": "valid"}
    bare = Frame(seq=3, body=Pin(ping_number=1))
    opened = Opener(KEYS, None, "seed").open(bare, PROTOCOL.encode(bare))
    assert opened == {"auth_state": "absent"}


def test_what_either_side_sends_needs_the_direction() -> None:
    fin = Frame(seq=3, body=Fin())
    raw = PROTOCOL.encode(fin)
    assert Opener(KEYS, None, "seed").open(fin, raw) == {}
    assert Opener(KEYS, "c2s", "seed").open(fin, raw) == {"auth_state": "absent"}


def test_what_has_no_key_stays_sealed() -> None:
    reply = Frame(seq=1, body=Rep(business_cmd=9, hmac=bytes(16)))
    ack = Frame(seq=1, body=Ack(random=bytes(32), public_key=bytes(32), sealed_sid=bytes(32)))
    message, raw = sealed_request()
    assert Opener(KEYS, None, "seed").open(reply, PROTOCOL.encode(reply)) == {}
    assert Opener(KEYS, None, "seed").open(ack, PROTOCOL.encode(ack)) == {}
    assert Opener({}, None, "seed").open(message, raw) == {}


def test_the_protocols_it_is_for() -> None:
    assert PROTOCOL.opener is Opener
