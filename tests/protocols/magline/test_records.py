"""magline's protected frames: the vectors, round trips, and what must be refused.

All keys here and in the vectors are throw-away test values.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.magline.records import (
    AUTH_OPTION,
    FIRST_SEQ_LIMIT,
    SEQ_LIMIT,
    DirectionKeys,
    RecordCipher,
    SeqCounter,
    find_option,
)
from wirelake.wire.errors import DecodeError, EncodeError

VECTORS = Path(__file__).parents[2] / "vectors" / "magline.jsonl"
KEYS = DirectionKeys(bytes(range(32)), bytes(range(12)), bytes(range(32, 64)))
DATA_MAGIC = 0x7E


def load() -> dict[str, dict[str, Any]]:
    with VECTORS.open(encoding="utf-8") as lines:
        return {vector["name"]: vector for vector in map(json.loads, lines)}


V = load()


def direction_keys(direction: str) -> DirectionKeys:
    keys = V["ack"]["expect"]["keys"]
    return DirectionKeys(
        *(bytes.fromhex(keys[f"{direction}_{name}"]) for name in ("enc", "iv", "mac"))
    )


def seq_of(frame: bytes) -> int:
    return int.from_bytes(frame[8:12], "big")


GOOD = [name for name, v in V.items() if v["expect"].get("keys_of") and v["expect"]["ok"]]
GOOD_DATA = [name for name in GOOD if "data_hex" in V[name]["expect"]]
GOOD_CONTROL = [name for name in GOOD if "auth" in V[name]["expect"]["fields"]]
BAD = [
    name
    for name, v in V.items()
    if v["expect"].get("error") == "bad_record" and "policy" not in v["expect"]
]
BARE = [
    name
    for name, v in V.items()
    if v["expect"]["ok"] and v["expect"].get("fields", {}).get("auth") == "absent"
]


def test_the_vectors_are_all_there() -> None:
    assert sorted(GOOD_DATA + GOOD_CONTROL) == sorted(GOOD)
    assert (len(GOOD_DATA), len(GOOD_CONTROL), len(BAD), len(BARE)) == (4, 3, 6, 6)


@pytest.mark.parametrize("name", GOOD_DATA)
def test_data_vector(name: str) -> None:
    vector, expect = V[name], V[name]["expect"]
    frame, keys = bytes.fromhex(vector["hex"]), direction_keys(vector["direction"])
    opened = RecordCipher(keys).open_data(frame)
    assert opened.data.hex() == expect["data_hex"]
    assert opened.business_cmd == expect["fields"]["business_cmd"]
    assert opened.hmac_state == expect["fields"]["hmac_state"]
    # Built again from its parts: head and options, Business CMD, room for the HMAC, plaintext.
    tag_at = 16 + expect["head"]["head_length"] + 4
    plain = frame[:tag_at] + b"\xff" * 16 + bytes.fromhex(expect["data_hex"])
    assert RecordCipher(keys).seal_data(plain) == frame


@pytest.mark.parametrize("name", GOOD_CONTROL)
def test_control_vector(name: str) -> None:
    vector = V[name]
    frame, cipher = bytes.fromhex(vector["hex"]), RecordCipher(direction_keys(vector["direction"]))
    assert cipher.open_control(frame) == vector["expect"]["fields"]["auth"]
    assert cipher.seal_control(frame[:18] + b"\xff" * 16 + frame[34:]) == frame


@pytest.mark.parametrize("name", BARE)
def test_bare_control_vector(name: str) -> None:
    cipher = RecordCipher(direction_keys(V[name]["direction"]))
    assert cipher.open_control(bytes.fromhex(V[name]["hex"])) == "absent"


def receive(counter: SeqCounter, cipher: RecordCipher, frame: bytes) -> object:
    """Sequence, then tag: the order in which a session does it."""
    counter.accept(seq_of(frame))
    return cipher.open_data(frame) if frame[0] == DATA_MAGIC else cipher.open_control(frame)


@pytest.mark.parametrize("name", BAD)
def test_bad_vector(name: str) -> None:
    """Whatever is wrong, the error is the same to the letter."""
    vector = V[name]
    frame, cipher = bytes.fromhex(vector["hex"]), RecordCipher(direction_keys(vector["direction"]))
    counter = SeqCounter(vector["expect"]["expected_seq"] - 1)
    with pytest.raises(DecodeError) as caught:
        receive(counter, cipher, frame)
    assert str(caught.value) == str(DecodeError("bad_record"))


def test_a_missing_tag_is_left_to_the_policy_of_the_session() -> None:
    vector = V["sess_control_auth_missing"]
    frame, cipher = bytes.fromhex(vector["hex"]), RecordCipher(direction_keys(vector["direction"]))
    assert receive(SeqCounter(vector["expect"]["expected_seq"] - 1), cipher, frame) == "absent"


def test_a_swapped_command_also_fails_at_the_hmac() -> None:
    """A session refuses `sess_cmd_swapped` by its direction; the record layer would as well."""
    vector = V["sess_cmd_swapped"]
    with pytest.raises(DecodeError, match="bad_record"):
        RecordCipher(direction_keys("c2s")).open_data(bytes.fromhex(vector["hex"]))


# -- frames made by hand ----------------------------------------------------------------------


def data_frame(seq: int, cmd: int, data: bytes, options: bytes = b"", bits: int = 0) -> bytes:
    body = options + cmd.to_bytes(4, "big") + bytes(16) + data
    head = b"\x7e\x66\0\6" + bits.to_bytes(2, "big") + len(options).to_bytes(2, "big")
    return head + seq.to_bytes(4, "big") + len(body).to_bytes(4, "big") + body


def control_frame(seq: int, body: bytes, tag: bytes = bytes(16)) -> bytes:
    options = b"\0\x10" + tag
    head = b"\x7f\x66\0\4\0\1" + len(options).to_bytes(2, "big") + seq.to_bytes(4, "big")
    return head + (len(options) + len(body)).to_bytes(4, "big") + options + body


seqs = st.integers(0, SEQ_LIMIT - 1)


@given(seqs, st.integers(0, 2**32 - 1), st.binary(max_size=200), st.booleans())
def test_data_round_trip(seq: int, cmd: int, data: bytes, reply_to: bool) -> None:
    options = b"\0\4\0\0\0\7" if reply_to else b""
    plain = data_frame(seq, cmd, data, options, 2 if reply_to else 0)
    sealed = RecordCipher(KEYS).seal_data(plain)
    assert len(sealed) == len(plain)
    assert RecordCipher(KEYS).open_data(sealed) == (cmd, data, "valid")


@given(seqs, st.binary(max_size=8))
def test_control_round_trip(seq: int, body: bytes) -> None:
    sealed = RecordCipher(KEYS).seal_control(control_frame(seq, body))
    assert RecordCipher(KEYS).open_control(sealed) == "valid"
    assert RecordCipher(KEYS).seal_control(sealed) == sealed


@given(st.lists(st.binary(max_size=50), max_size=8), st.randoms(use_true_random=False))
def test_one_context_serves_frames_in_any_order(texts: list[bytes], shuffle: Any) -> None:
    """The context keeps nothing from frame to frame: an offline reader may skip about."""
    sealer, opener = RecordCipher(KEYS), RecordCipher(KEYS)
    frames = [sealer.seal_data(data_frame(i, 9, text)) for i, text in enumerate(texts)]
    order = list(range(len(frames)))
    shuffle.shuffle(order)
    for i in order:
        assert opener.open_data(frames[i]).data == texts[i]


def test_the_counter_block_is_the_documented_one() -> None:
    """Against a cipher made the slow way, over several blocks and a Seq with all bytes set."""
    seq, data = 0xA1B2C3D4, bytes(100)
    block = bytes(a ^ b for a, b in zip(KEYS.iv, bytes(8) + seq.to_bytes(4, "big"), strict=True))
    slow = Cipher(algorithms.AES(KEYS.enc), modes.CTR(block + bytes(4))).encryptor().update(data)
    assert RecordCipher(KEYS).seal_data(data_frame(seq, 1, data))[36:] == slow


def test_every_flipped_bit_of_a_data_frame_is_refused() -> None:
    sealed = RecordCipher(KEYS).seal_data(data_frame(5, 9, b"data", b"\0\4\0\0\0\7", 2))
    for bit in range(8 * len(sealed)):
        damaged = bytearray(sealed)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DecodeError) as caught:
            RecordCipher(KEYS).open_data(bytes(damaged))
        # A changed length no longer fits the frame, and a codec refuses it before.
        assert caught.value.code in {"bad_record", "bad_length"}


def test_every_flipped_bit_of_a_control_frame_is_noticed() -> None:
    sealed = RecordCipher(KEYS).seal_control(control_frame(5, b"\0\0\0\1"))
    for bit in range(8 * len(sealed)):
        damaged = bytearray(sealed)
        damaged[bit // 8] ^= 1 << bit % 8
        if bit == 8 * 5:  # the AUTH bit itself: the frame then reads as bare
            assert RecordCipher(KEYS).open_control(bytes(damaged)) == "absent"
            continue
        with pytest.raises(DecodeError) as caught:
            RecordCipher(KEYS).open_control(bytes(damaged))
        assert caught.value.code in {"bad_record", "bad_header", "bad_option"}


def test_directions_and_connections_do_not_mix() -> None:
    other = DirectionKeys(KEYS.enc, KEYS.iv, bytes(32))
    with pytest.raises(DecodeError, match="bad_record"):
        RecordCipher(other).open_data(RecordCipher(KEYS).seal_data(data_frame(1, 2, b"x")))


def test_a_control_tag_is_no_data_tag() -> None:
    frame = RecordCipher(KEYS).seal_control(control_frame(1, bytes(40)))
    with pytest.raises(DecodeError, match="bad_record"):
        RecordCipher(KEYS).open_data(frame)


def test_keys_of_a_key_log_read_but_cannot_seal() -> None:
    reader = RecordCipher(DirectionKeys(KEYS.enc, KEYS.iv))
    sealed = RecordCipher(KEYS).seal_data(data_frame(1, 2, b"text"))
    assert reader.open_data(sealed) == (2, b"text", "unverified")
    assert reader.open_control(control_frame(2, b"")) == "unverified"
    with pytest.raises(EncodeError, match="bad_config"):
        reader.seal_data(data_frame(1, 2, b"text"))
    with pytest.raises(EncodeError, match="bad_config"):
        reader.seal_control(control_frame(1, b""))


def test_a_seq_is_sealed_once() -> None:
    cipher = RecordCipher(KEYS)
    cipher.seal_data(data_frame(5, 2, b"text"))
    for seq in (5, 4):
        with pytest.raises(EncodeError, match="bad_value"):
            cipher.seal_data(data_frame(seq, 2, b"other"))
    cipher.seal_data(data_frame(6, 2, b"other"))


@pytest.mark.parametrize(
    "damage",
    [b"", b"\x7e\x66", data_frame(1, 2, b"")[:-1], bytes(16), data_frame(1, 2, b"abc")[:-1]],
)
def test_frames_that_are_none_are_refused(damage: bytes) -> None:
    with pytest.raises(DecodeError, match="bad_length"):
        RecordCipher(KEYS).open_data(damage)
    with pytest.raises(EncodeError, match="bad_value"):
        RecordCipher(KEYS).seal_data(damage)


def test_a_control_frame_without_room_for_its_tag_cannot_be_sealed() -> None:
    for frame in (bytes.fromhex(V["pin_bare"]["hex"]), b"", control_frame(1, b"")[:20]):
        with pytest.raises(EncodeError, match="bad_value"):
            RecordCipher(KEYS).seal_control(frame)
    short_tag = b"\x7f\x66\0\4\0\1\0\5" + bytes(4) + b"\0\0\0\5" + b"\0\3abc"
    with pytest.raises(DecodeError, match="bad_option"):
        RecordCipher(KEYS).open_control(short_tag)


@pytest.mark.parametrize("area", [b"\0", b"\0\4abc", b"\0\3ab"])
def test_an_option_that_runs_out_of_the_header_is_refused(area: bytes) -> None:
    frame = data_frame(1, 2, b"more than enough", area, AUTH_OPTION)
    with pytest.raises(DecodeError, match="bad_header"):
        find_option(frame, AUTH_OPTION)


@given(st.binary(max_size=80), st.sampled_from([AUTH_OPTION, 0x0002, 0x0100, 0x8000]))
def test_any_bytes_give_an_answer(data: bytes, bit: int) -> None:
    cipher = RecordCipher(KEYS)
    for read in (cipher.open_data, cipher.open_control, lambda frame: find_option(frame, bit)):
        with contextlib.suppress(DecodeError):
            read(data)


@given(st.dictionaries(st.integers(0, 15), st.binary(max_size=6), min_size=1))
def test_each_option_is_found_where_it_was_put(options: dict[int, bytes]) -> None:
    area = b"".join(len(options[n]).to_bytes(2, "big") + options[n] for n in sorted(options))
    bits = sum(1 << number for number in options)
    frame = data_frame(1, 2, b"", area, bits)
    for number in range(16):
        span = find_option(frame, 1 << number)
        assert (None if span is None else frame[span[0] : span[1]]) == options.get(number)


# -- sequence numbers and limits --------------------------------------------------------------


def test_a_sender_counts_from_one() -> None:
    counter = SeqCounter()
    assert [counter.take() for _ in range(3)] == [1, 2, 3]


def test_a_sender_stops_before_the_limit() -> None:
    counter = SeqCounter(SEQ_LIMIT - 2)
    assert counter.take() == SEQ_LIMIT - 1
    with pytest.raises(EncodeError, match="int_range"):
        counter.take()
    assert counter.last == SEQ_LIMIT - 1


@given(st.integers(0, FIRST_SEQ_LIMIT - 1), st.integers(0, 2**32 - 1))
def test_a_receiver_takes_the_first_and_then_only_the_next(first: int, other: int) -> None:
    counter = SeqCounter()
    assert counter.expected is None
    counter.accept(first)
    if other != first + 1:
        with pytest.raises(DecodeError, match="bad_record"):
            counter.accept(other)
    assert counter.expected == first + 1
    counter.accept(first + 1)
    assert counter.last == first + 1


@pytest.mark.parametrize("first", [-1, FIRST_SEQ_LIMIT, SEQ_LIMIT])
def test_a_first_seq_without_room_is_refused(first: int) -> None:
    counter = SeqCounter()
    with pytest.raises(DecodeError, match="bad_record"):
        counter.accept(first)
    assert counter.last is None


def test_a_receiver_stops_at_the_limit() -> None:
    counter = SeqCounter(SEQ_LIMIT - 1)
    with pytest.raises(DecodeError, match="bad_record"):
        counter.accept(SEQ_LIMIT)


@pytest.mark.parametrize("sizes", [(31, 12, 32), (32, 16, 32), (32, 12, 16)])
def test_sizes_of_keys_are_checked(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(EncodeError, match="bad_config"):
        DirectionKeys(*(bytes(size) for size in sizes))


def test_keys_do_not_show() -> None:
    assert repr(KEYS) == "DirectionKeys()"
