"""tny's number, verify, encrypt and waste: the vectors, round trips, and what must be refused.

The keys in this file and in the vectors are throw-away test values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.tny.transform import (
    MAX_SKIP_STEP,
    Dialect,
    PacketCodes,
    PacketContext,
    SealedContent,
    TransformConfig,
    check_code,
    crc64,
    djb32,
    insert_waste,
    key_string,
    remove_waste,
    xor_crypt,
)
from wirelake.wire.errors import DecodeError, EncodeError

VECTORS = Path(__file__).parents[2] / "vectors" / "tny.jsonl"
DIALECTS: tuple[Dialect, ...] = ("seed", "upstream")
KEYS = ("throw-away-key", "another", "密钥", "🔑")
TRANSFORM_ERRORS = {
    "number_replayed",
    "number_skipped",
    "verify_required",
    "encrypt_required",
    "waste_required",
    "verify_failed",
}


def zeros(size: int) -> bytes:
    return bytes(size)


def ones(size: int) -> bytes:
    return b"\xff" * size


# -- vectors: the frame around the content is taken apart by hand -----------------------------


class Packet(NamedTuple):
    option: int
    access_id: int
    number: int
    content: bytes


def read_varint(data: bytes, at: int, bits: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            value &= (1 << bits) - 1
            return (value - (1 << bits) if value >> (bits - 1) else value), at


def read_packets(data: bytes) -> Iterator[Packet]:
    at = 0
    while at < len(data):
        assert data[at : at + 4] == b"tny."
        option = data[at + 4]
        if option & 3:  # a 5-byte tick: no payload, no number
            at += 5
            continue
        payload = data[at + 9 : at + 9 + int.from_bytes(data[at + 5 : at + 9], "little")]
        access_id, used = read_varint(payload, 0, 64)
        number, used = read_varint(payload, used, 32)
        yield Packet(option, access_id, number, payload[used:])
        at += 9 + len(payload)


def open_packet(context: PacketContext, packet: Packet) -> bytes:
    return context.open(
        packet.access_id,
        packet.number,
        packet.content,
        verify=bool(packet.option & 0x04),
        encrypt=bool(packet.option & 0x08),
        waste=bool(packet.option & 0x10),
    )


def load() -> list[dict[str, Any]]:
    with VECTORS.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def fresh(vector: dict[str, Any], dialect: Dialect) -> PacketContext:
    config = vector.get("config", {})
    return PacketContext(
        dialect,
        TransformConfig(
            security_keys=tuple(config.get("security_keys", ())),
            verify=config.get("verify", False),
            encrypt=config.get("encrypt", False),
            waste=config.get("waste", False),
            max_waste_bits=config.get("max_waste_bits", 30),
        ),
    )


def dialects(vector: dict[str, Any]) -> tuple[Dialect, ...]:
    return DIALECTS if vector["dialect"] == "common" else (vector["dialect"],)


def cases(wanted: Callable[[dict[str, Any]], bool]) -> list[Any]:
    return [
        pytest.param(vector, dialect, id=f"{vector['name']}-{dialect}")
        for vector in load()
        if wanted(vector)
        for dialect in dialects(vector)
    ]


GOOD = cases(lambda v: v["expect"].get("packet") == "message")
BAD = cases(lambda v: v["expect"].get("error") in TRANSFORM_ERRORS)
STREAMS = cases(lambda v: "stream" in v["expect"])


def test_the_vectors_are_all_there() -> None:
    assert (len(GOOD), len(BAD), len(STREAMS)) == (55, 13, 5)


@pytest.mark.parametrize(("vector", "dialect"), GOOD)
def test_good_vector(vector: dict[str, Any], dialect: Dialect) -> None:
    expect, config = vector["expect"], vector.get("config", {})
    (packet,) = read_packets(bytes.fromhex(vector["hex"]))
    assert (packet.access_id, packet.number) == (expect["access_id"], expect["number"])
    context = fresh(vector, dialect)
    message = open_packet(context, packet)
    assert message.hex() == expect.get("message_hex", packet.content.hex())
    assert (context.access_id, context.number) == (packet.access_id, packet.number)
    if "packet_code" in config:
        assert context.packet_code == config["packet_code"]
    if "access_key_md5" in config:
        assert context.access_key_md5.hex() == config["access_key_md5"]
    if "waste_bits" in expect:
        assert context.packet_code % config["max_waste_bits"] == expect["waste_bits"]
    if "waste_bytes" in expect:
        before, after = expect["waste_bytes"]
        assert message == packet.content[before : len(packet.content) - after]
    if "check_code" in expect:
        assert packet.content.hex().endswith(expect["check_code"])


@pytest.mark.parametrize(("vector", "dialect"), GOOD)
def test_good_vector_is_sealed_again(vector: dict[str, Any], dialect: Dialect) -> None:
    """The same bytes come out, but for the waste, whose size alone can be compared."""
    (packet,) = read_packets(bytes.fromhex(vector["hex"]))
    message = open_packet(fresh(vector, dialect), packet)
    writer = fresh(vector, dialect)
    for _ in range(packet.number - 1):
        writer.seal(packet.access_id, b"", random=zeros)
    sealed = writer.seal(packet.access_id, message, random=zeros)
    assert sealed.number == packet.number
    assert len(sealed.content) == len(packet.content)
    if not sealed.waste:
        assert sealed.content == packet.content
    assert packet.option == sealed.verify * 0x04 | sealed.encrypt * 0x08 | sealed.waste * 0x10


@pytest.mark.parametrize(("vector", "dialect"), BAD)
def test_bad_vector(vector: dict[str, Any], dialect: Dialect) -> None:
    (packet,) = read_packets(bytes.fromhex(vector["hex"]))
    with pytest.raises(DecodeError) as caught:
        open_packet(fresh(vector, dialect), packet)
    assert caught.value.code == vector["expect"]["error"]


@pytest.mark.parametrize(("vector", "dialect"), STREAMS)
def test_stream_vector(vector: dict[str, Any], dialect: Dialect) -> None:
    context = fresh(vector, dialect)
    wanted = [item for item in vector["expect"]["stream"] if item.get("packet") != "ping"]
    wanted = [item for item in wanted if item.get("packet") != "pong"]
    packets = list(read_packets(bytes.fromhex(vector["hex"])))
    for item, packet in zip(wanted, packets, strict=True):
        if "error" in item:
            with pytest.raises(DecodeError) as caught:
                open_packet(context, packet)
            assert caught.value.code == item["error"]
        else:
            open_packet(context, packet)
            assert context.number == item["number"]
    assert context.access_id == packets[0].access_id


# -- the building blocks ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "seed", "codes"),
    [
        ("1", 177622, [232862347, 1023318697, 1691541404]),
        (
            "12345tny-secret-key",
            -23754712,
            [231454000, 1088897301, 129941796, 1554831694, 1551484854],
        ),
    ],
)
def test_known_packet_codes(key: str, seed: int, codes: list[int]) -> None:
    assert djb32(key) == seed
    generator = PacketCodes.start(1, key)
    for number, code in enumerate(codes, start=1):
        assert PacketCodes.start(1, key).advance(number).packet_code == code
        generator = generator.advance(number)
        assert generator.packet_code == code


def test_a_code_that_equals_the_bound_is_drawn_again() -> None:
    # The state before one whose upper 31 bits are all ones, found by running the step backwards.
    mask, multiplier = (1 << 48) - 1, 0x5DEECE66D
    before = (((mask >> 17) << 17) - 0xB) * pow(multiplier, -1, 1 << 48) & mask
    skipped = (before * multiplier + 0xB) & mask
    assert skipped >> 17 == (1 << 31) - 1
    after = (skipped * multiplier + 0xB) & mask
    assert PacketCodes(1, before).advance(1) == PacketCodes(1, after, 1, after >> 17)


def test_djb32_counts_utf16_units() -> None:
    high, low = 0xD83D, 0xDD11  # U+1F511 is two units
    value = (((5381 * 33 + high) * 33 + low) & 0xFFFFFFFF) ^ 0x80000000
    assert djb32("\U0001f511") == value - 0x80000000


def test_crc64_has_the_known_value() -> None:
    assert crc64(b"123456789") == 0x096212FA6685BFEF
    assert crc64(b"") == (1 << 64) - 1


@pytest.mark.parametrize(
    ("access_id", "keys", "wanted"),
    [
        (7, (), "7"),
        (-1, (), "-1"),
        (3, ("a", "b"), "3b"),
        (4, ("a", "b"), "4a"),
        (-1, ("a", "b"), "-1b"),
    ],
)
def test_key_string(access_id: int, keys: tuple[str, ...], wanted: str) -> None:
    assert key_string(access_id, keys) == wanted


@given(st.binary(max_size=300), st.binary(min_size=1, max_size=40), st.integers(0, 2**31 - 2))
def test_xor_is_the_documented_byte_formula(message: bytes, key: bytes, code: int) -> None:
    code_bytes = code.to_bytes(4, "little")
    wanted = bytes(byte ^ key[i % len(key)] ^ code_bytes[i % 4] for i, byte in enumerate(message))
    assert xor_crypt(message, key, code) == wanted
    assert xor_crypt(wanted, key, code) == message


@given(st.sampled_from(DIALECTS), st.binary(max_size=80), st.integers(0, 29), st.binary(min_size=4))
def test_waste_is_removed_with_any_content(
    dialect: Dialect, message: bytes, bits: int, noise: bytes
) -> None:
    content = insert_waste(dialect, message, bits, lambda size: noise[:size])
    assert len(content) == len(message) + bits // 8 + (1 if bits % 8 else 0)
    assert remove_waste(dialect, content, bits) == message


@pytest.mark.parametrize("random", [zeros, ones])
def test_upstream_waste_is_a_bit_shift(random: Callable[[int], bytes]) -> None:
    content = insert_waste("upstream", b"\xa5\x3c", 11, random)
    bits = "".join(f"{byte:08b}" for byte in content)
    filler = "0" if random is zeros else "1"
    assert bits == filler * 11 + "1010010100111100" + filler * 5


def test_seed_waste_is_whole_bytes() -> None:
    assert insert_waste("seed", b"message", 21, ones) == b"\xff\xffmessage\xff"
    assert insert_waste("seed", b"message", 16, ones) == b"\xff\xffmessage"
    assert insert_waste("seed", b"message", 0, ones) == b"message"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_content_shorter_than_its_waste_is_refused(dialect: Dialect) -> None:
    with pytest.raises(DecodeError, match="short"):
        remove_waste(dialect, b"\0\0\0", 29)


def test_the_seed_check_code_is_over_the_message_alone() -> None:
    first = check_code("seed", b"m", number=1, key_md5=bytes(16), packet_code=5)
    assert first == check_code("seed", b"m", number=2, key_md5=ones(16), packet_code=6)
    assert len(first) == 4


# -- contexts ---------------------------------------------------------------------------------


configs = st.builds(
    TransformConfig,
    security_keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4).map(tuple),
    verify=st.booleans(),
    encrypt=st.booleans(),
    waste=st.booleans(),
    max_waste_bits=st.integers(1, 64),
)
int64 = st.integers(-(2**63), 2**63 - 1)


def deliver(reader: PacketContext, access_id: int, sealed: SealedContent) -> bytes:
    return reader.open(
        access_id,
        sealed.number,
        sealed.content,
        waste=sealed.waste,
        encrypt=sealed.encrypt,
        verify=sealed.verify,
    )


@given(
    st.sampled_from(DIALECTS),
    configs,
    int64,
    st.lists(st.binary(max_size=60), max_size=6),
    st.data(),
)
def test_round_trip(
    dialect: Dialect,
    config: TransformConfig,
    access_id: int,
    messages: list[bytes],
    data: st.DataObject,
) -> None:
    writer, reader = PacketContext(dialect, config), PacketContext(dialect, config)
    for message in messages:
        sealed = writer.seal(access_id, message, random=ones)
        if data.draw(st.booleans(), "lost"):
            continue  # a gap: the reader catches up by itself
        assert deliver(reader, access_id, sealed) == message
        assert reader.packet_code == writer.packet_code


def test_verify_works_without_keys() -> None:
    for dialect in DIALECTS:
        config = TransformConfig(verify=True)
        sealed = PacketContext(dialect, config).seal(9, b"message", random=zeros)
        assert deliver(PacketContext(dialect, config), 9, sealed) == b"message"


def test_the_number_chooses_the_encryption_key() -> None:
    writer = PacketContext("seed", TransformConfig(KEYS, encrypt=True))
    for number in range(1, 9):
        sealed = writer.seal(1, b"a message", random=zeros)
        key = KEYS[number % len(KEYS)].encode()
        assert sealed.content == xor_crypt(b"a message", key, writer.packet_code)


def test_a_reader_that_demands_nothing_still_honours_the_bits() -> None:
    strict = TransformConfig(KEYS, verify=True, encrypt=True, waste=True)
    sealed = PacketContext("upstream", strict).seal(5, b"message", random=ones)
    assert deliver(PacketContext("upstream", TransformConfig(KEYS)), 5, sealed) == b"message"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_flipped_bit_of_a_verified_message_is_refused(dialect: Dialect) -> None:
    config = TransformConfig(KEYS, verify=True, encrypt=True)
    sealed = PacketContext(dialect, config).seal(5, b"a message", random=zeros)
    for bit in range(8 * len(sealed.content)):
        damaged = bytearray(sealed.content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DecodeError, match="verify_failed"):
            deliver(PacketContext(dialect, config), 5, sealed._replace(content=bytes(damaged)))


def test_the_upstream_check_code_is_bound_to_number_and_keys() -> None:
    config = TransformConfig(KEYS, verify=True)
    sealed = PacketContext("upstream", config).seal(5, b"message", random=zeros)
    for access_id, number in ((5, 2), (6, 1), (6, 2)):
        with pytest.raises(DecodeError, match="verify_failed"):
            deliver(PacketContext("upstream", config), access_id, sealed._replace(number=number))


def test_a_failed_open_leaves_the_context_as_it_was() -> None:
    config = TransformConfig(KEYS, verify=True)
    writer, reader = PacketContext("upstream", config), PacketContext("upstream", config)
    good = [writer.seal(5, b"message", random=zeros) for _ in range(3)]
    bad = good[0]._replace(content=bytes(20))
    with pytest.raises(DecodeError):
        deliver(reader, 6, bad)
    assert (reader.access_id, reader.number, reader.packet_code) == (None, 0, 0)
    assert reader.access_key_md5 == b""
    deliver(reader, 5, good[0])
    before = (reader.access_id, reader.number, reader.packet_code, reader.access_key_md5)
    with pytest.raises(DecodeError):
        deliver(reader, 5, bad._replace(number=2))
    assert (reader.access_id, reader.number, reader.packet_code, reader.access_key_md5) == before
    assert deliver(reader, 5, good[1]) == b"message"


def test_the_first_access_id_counts() -> None:
    config = TransformConfig(KEYS, verify=True, encrypt=True, waste=True)
    writer, reader = PacketContext("upstream", config), PacketContext("upstream", config)
    for access_id in (5, 6, 7):
        sealed = writer.seal(access_id, b"message", random=zeros)
        assert deliver(reader, access_id, sealed) == b"message"
    assert reader.access_id == writer.access_id == 5


def bare(reader: PacketContext, number: int, content: bytes = b"x") -> bytes:
    return reader.open(1, number, content, waste=False, encrypt=False, verify=False)


def test_number_rules() -> None:
    reader = PacketContext("seed")
    assert bare(reader, 30) == b"x"
    assert bare(reader, 60) == b"x"
    for number, code in ((60, "number_replayed"), (1, "number_replayed"), (91, "number_skipped")):
        with pytest.raises(DecodeError) as caught:
            bare(reader, number)
        assert caught.value.code == code
    assert reader.number == 60
    assert bare(reader, 90) == b"x"


def at_number(number: int, config: TransformConfig) -> PacketContext:
    """A context that has come as far as `number`, without the hours that it takes."""
    context = PacketContext("seed", config)
    context._codes = PacketCodes(1, 0, number, 0)
    return context


def test_numbers_end_at_31_bits() -> None:
    last = 2**31 - 1
    writer = at_number(last - 1, TransformConfig())
    assert writer.seal(1, b"x", random=zeros).number == last
    with pytest.raises(EncodeError, match="int_range"):
        writer.seal(1, b"x", random=zeros)
    with pytest.raises(DecodeError, match="int_range"):
        bare(at_number(last, TransformConfig()), last + 1)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_content_shorter_than_its_check_code_is_refused(dialect: Dialect) -> None:
    with pytest.raises(DecodeError, match="short"):
        PacketContext(dialect).open(1, 1, b"abc", waste=False, encrypt=False, verify=True)


def test_encrypted_without_keys_is_refused() -> None:
    with pytest.raises(DecodeError, match="bad_key"):
        PacketContext("seed").open(1, 1, b"abc", waste=False, encrypt=True, verify=False)


@given(
    st.sampled_from(DIALECTS),
    configs,
    st.builds(
        Packet,
        option=st.integers(0, 7).map(lambda bits: bits << 2),
        access_id=int64,
        number=st.integers(-(2**31), 2**31 - 1) | st.integers(1, 30),
        content=st.binary(max_size=40),
    ),
)
def test_open_gives_bytes_or_a_decode_error(
    dialect: Dialect, config: TransformConfig, packet: Packet
) -> None:
    context = PacketContext(dialect, config)
    try:
        message = open_packet(context, packet)
    except DecodeError:
        assert context.number == 0
    else:
        assert len(message) <= len(packet.content)


@pytest.mark.parametrize(
    "options",
    [
        {"encrypt": True},
        {"security_keys": ("",)},
        {"security_keys": ("\ud800",)},
        {"security_keys": "text"},
        {"security_keys": (b"bytes",)},
        {"max_waste_bits": 0},
        {"skip_step": 0},
        {"skip_step": MAX_SKIP_STEP + 1},
    ],
)
def test_bad_configuration_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(EncodeError, match="bad_config"):
        TransformConfig(**options)


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(EncodeError, match=r"bad_config.*seed, upstream"):
        PacketContext("both")  # type: ignore[arg-type]


def test_keys_do_not_show() -> None:
    assert "throw-away" not in repr(TransformConfig(KEYS))
