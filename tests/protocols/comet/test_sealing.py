"""comet's key exchange and sealed content: the vectors, round trips, and what must be refused.

All keys, tokens and secrets here and in the vectors are throw-away test values.
"""

from __future__ import annotations

import contextlib
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.comet.sealing import (
    CONTENT_OVERHEAD,
    MAX_SEALED,
    ContentOpener,
    ContentSealer,
    HipushContent,
    RsaServerKey,
    ServerKey,
    X25519ServerKey,
    choose_suite,
    content_key,
    derive_wrap_key,
    key_kind,
    transcript_1,
    transcript_2,
    wrap_secret,
)
from wirelake.wire.errors import DecodeError, EncodeError

pytestmark = pytest.mark.slow

VECTORS = Path(__file__).parents[2] / "vectors" / "comet.jsonl"


def load() -> dict[str, dict[str, Any]]:
    with VECTORS.open(encoding="utf-8") as lines:
        return {vector["name"]: vector for vector in map(json.loads, lines)}


V = load()


def frame(name: str) -> bytes:
    return bytes.fromhex(V[name]["hex"])


def field(name: str, key: str) -> bytes:
    return bytes.fromhex(V[name]["expect"]["fields"][key])


def extra(name: str, key: str) -> bytes:
    return bytes.fromhex(V[name]["expect"][key])


# Throw-away keys, those of the vectors' notes among them.
SERVER_PRIVATE = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
STATIC_PRIVATE = b"\x11" * 32
STATIC_PUBLIC = X25519ServerKey(STATIC_PRIVATE).encrypt_key[12:]
EPHEMERAL = extra("exchange_key_x25519", "eph_private_hex")
SECRET = extra("exchange_key_x25519", "unwrapped_hex")
AUTH, AUTH_SUCCESS = frame("auth"), frame("auth_success_x25519")
FRAMES: dict[str, Any] = {"auth": AUTH, "auth_success": AUTH_SUCCESS}
RSA_2048 = extra("exchange_key_rsa2048_oaep", "rsa_private_pkcs8_hex")
RSA_512 = extra("legacy_exchange_key_rsa512_des", "rsa_private_pkcs8_hex")


# -- vectors ----------------------------------------------------------------------------------


def test_the_kinds_of_the_vectors() -> None:
    named = {n: v for n, v in V.items() if "encrypt_key_kind" in v["expect"].get("fields", {})}
    assert set(named) == {"auth_success_x25519", "auth_success_rsa2048"}
    for name, vector in named.items():
        fields = vector["expect"]["fields"]
        assert key_kind(field(name, "encrypt_key")) == fields["encrypt_key_kind"]
        assert len(field(name, "encrypt_key")) == fields["encrypt_key_len"]


def test_x25519_vector() -> None:
    name = "exchange_key_x25519"
    key = X25519ServerKey(SERVER_PRIVATE)
    assert key.encrypt_key == field("auth_success_x25519", "encrypt_key")
    th1 = transcript_1(AUTH, AUTH_SUCCESS)
    assert th1 == extra(name, "th1_hex")
    assert derive_wrap_key(th1, extra(name, "dh_hex")) == extra(name, "wrap_key_hex")
    wrapped = wrap_secret(key.encrypt_key, SECRET, eph_private=EPHEMERAL, **FRAMES)
    assert wrapped == field(name, "secret_key")
    assert key.unwrap(wrapped, **FRAMES) == SECRET
    assert transcript_2(AUTH, AUTH_SUCCESS, frame(name)) == extra(name, "th2_hex")
    assert content_key(SECRET, **FRAMES, exchange_key=frame(name)) == extra(name, "content_key_hex")


def test_bad_x25519_vector() -> None:
    damaged = frame("bad_exchange_key_x25519")[5:]
    with pytest.raises(DecodeError) as caught:
        X25519ServerKey(SERVER_PRIVATE).unwrap(damaged, **FRAMES)
    assert caught.value.code == V["bad_exchange_key_x25519"]["expect"]["error"]


def test_rsa_vector() -> None:
    name = "exchange_key_rsa2048_oaep"
    key = RsaServerKey(RSA_2048)
    assert key.encrypt_key == field("auth_success_rsa2048", "encrypt_key")
    assert key.unwrap(field(name, "secret_key"), **FRAMES) == extra(name, "unwrapped_hex")


def sealed_fields(name: str) -> dict[str, Any]:
    """The notification in a frame: length 2, type 1, msg_type 1, string msg_id, content, ts 8."""
    data = frame(name)
    id_end = 6 + int.from_bytes(data[4:6], "big")
    assert int.from_bytes(data[id_end : id_end + 2], "big") == len(data) - id_end - 10
    return {
        "sealed": data[id_end + 2 : -8],
        "msg_type": data[3],
        "msg_id": data[6:id_end],
        "ts": int.from_bytes(data[-8:], "big", signed=True),
    }


def test_sealed_message_vector() -> None:
    expect, fields = V["message_encrypted"]["expect"], sealed_fields("message_encrypted")
    key = bytes.fromhex(expect["content_key_hex"])
    sealed = fields.pop("sealed")
    assert sealed.hex() == expect["fields"]["content_hex"]
    opener = ContentOpener(key)
    assert opener.open(sealed, **fields).decode() == expect["decrypted_content"]
    assert opener.counter == expect["counter"]
    assert ContentSealer(key).seal(expect["decrypted_content"].encode(), **fields) == sealed


def test_bad_sealed_message_vector() -> None:
    expect = V["bad_message_encrypted_tag"]["expect"]
    opener = ContentOpener(bytes.fromhex(expect["content_key_hex"]))
    with pytest.raises(DecodeError) as caught:
        opener.open(**sealed_fields("bad_message_encrypted_tag"))
    assert caught.value.code == expect["error"]


def test_hipush_vectors() -> None:
    name = "legacy_exchange_key_rsa512_des"
    key = RsaServerKey(RSA_512, legacy_hipush=True)
    assert len(key.encrypt_key) == 94
    assert key_kind(key.encrypt_key) == "spki-rsa-512"
    des_key = key.unwrap(field(name, "secret_key"), **FRAMES)
    assert des_key == extra(name, "unwrapped_hex")
    cipher = HipushContent(des_key, legacy_hipush=True)
    notifications = [
        V["hipush_message"]["expect"]["fields"],
        *V["hipush_message_list_3"]["expect"]["fields"]["messages"],
    ]
    bytes_on_wire = frame("hipush_message") + frame("hipush_message_list_3")
    for notification in notifications:
        sealed = cipher.seal(notification["content"].encode())
        assert sealed in bytes_on_wire
        assert cipher.open(sealed).decode() == notification["content"]


# -- which suite ------------------------------------------------------------------------------


def spki(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


RSA_1024 = rsa.generate_private_key(65537, 1024)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
X25519_KEY = X25519ServerKey(SERVER_PRIVATE).encrypt_key
OAEP_SERVER = RsaServerKey(RSA_2048)
RSA_2048_KEY = OAEP_SERVER.encrypt_key
RSA_512_KEY = RsaServerKey(RSA_512, legacy_hipush=True).encrypt_key


@pytest.mark.parametrize(
    ("encrypt_key", "kind", "suites"),
    [
        # The suites are those with no option, with a pin, with legacy_hipush, and with both.
        (X25519_KEY, "spki-x25519", ("x25519", "x25519", "x25519", "x25519")),
        (RSA_2048_KEY, "spki-rsa-2048", ("rsa-oaep", None, "rsa-oaep", None)),
        (RSA_512_KEY, "spki-rsa-512", (None, None, "hipush", None)),
        (spki(RSA_1024), "spki-rsa-1024", (None, None, None, None)),
        (spki(EC_KEY), "unknown", (None, None, None, None)),
        (X25519_KEY + b"\0", "unknown", (None, None, None, None)),
        (X25519_KEY[:-1], "unknown", (None, None, None, None)),
        (b"", "empty", (None, None, None, None)),
        (b"key", "unknown", (None, None, None, None)),
    ],
    ids=["x25519", "2048", "512", "1024", "ec", "too-long", "too-short", "empty", "no-der"],
)
def test_kind_and_suite(encrypt_key: bytes, kind: str, suites: tuple[str | None, ...]) -> None:
    assert key_kind(encrypt_key) == kind
    options = [(False, False), (True, False), (False, True), (True, True)]
    for (pinned, legacy), suite in zip(options, suites, strict=True):
        try:
            chosen = choose_suite(encrypt_key, pinned=pinned, legacy_hipush=legacy)
        except DecodeError as error:
            assert (suite, error.code) == (None, "bad_key")  # noqa: PT017 - one of two outcomes
        else:
            assert chosen == suite


def test_a_key_that_stalls_is_refused() -> None:
    """Made of numbers alone: an RSA key of this size would take minutes to generate."""
    numbers = rsa.RSAPublicNumbers(65537, (1 << 8999) + 1)
    encrypt_key = numbers.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert key_kind(encrypt_key) == "spki-rsa-9000"
    with pytest.raises(DecodeError, match="bad_key"):
        choose_suite(encrypt_key)


@given(st.binary(max_size=120) | st.binary(max_size=40).map(lambda tail: RSA_512_KEY[:60] + tail))
def test_any_bytes_have_a_kind(encrypt_key: bytes) -> None:
    assert key_kind(encrypt_key)
    with contextlib.suppress(DecodeError):
        wrap_secret(encrypt_key, SECRET, eph_private=EPHEMERAL, **FRAMES)


# -- the exchange -----------------------------------------------------------------------------


keys32 = st.binary(min_size=32, max_size=32)


@given(keys32, keys32, keys32, keys32 | st.none(), st.binary(max_size=60))
def test_x25519_round_trip(
    private: bytes, ephemeral: bytes, secret: bytes, static: bytes | None, auth: bytes
) -> None:
    key = X25519ServerKey(private, static_private=static)
    pinned = None if static is None else X25519ServerKey(static).encrypt_key[12:]
    frames: dict[str, Any] = {"auth": auth, "auth_success": key.encrypt_key}
    wrapped = wrap_secret(key.encrypt_key, secret, eph_private=ephemeral, pinned=pinned, **frames)
    assert len(wrapped) == 80
    assert key.unwrap(wrapped, **frames) == secret


@given(keys32)
def test_rsa_round_trip(secret: bytes) -> None:
    wrapped = wrap_secret(RSA_2048_KEY, secret, eph_private=EPHEMERAL, **FRAMES)
    assert OAEP_SERVER.unwrap(wrapped, **FRAMES) == secret


@given(st.binary(min_size=8, max_size=8))
def test_hipush_round_trip(des_key: bytes) -> None:
    key = RsaServerKey(RSA_512, legacy_hipush=True)
    wrapped = wrap_secret(
        key.encrypt_key, des_key, eph_private=EPHEMERAL, legacy_hipush=True, **FRAMES
    )
    assert len(wrapped) == 64
    assert key.unwrap(wrapped, **FRAMES) == des_key


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


SERVERS: list[tuple[str, ServerKey, bytes]] = [
    (
        "x25519",
        X25519ServerKey(SERVER_PRIVATE),
        field("exchange_key_x25519", "secret_key"),
    ),
    (
        "rsa-oaep",
        OAEP_SERVER,
        field("exchange_key_rsa2048_oaep", "secret_key"),
    ),
]


@pytest.mark.parametrize(("key", "wrapped"), [s[1:] for s in SERVERS], ids=[s[0] for s in SERVERS])
def test_every_flipped_bit_of_a_secret_key_is_refused(key: ServerKey, wrapped: bytes) -> None:
    messages = set()
    for bit in range(8 * len(wrapped)):
        with pytest.raises(DecodeError) as caught:
            key.unwrap(flipped(wrapped, bit), **FRAMES)
        messages.add(str(caught.value))
    assert messages == {str(DecodeError("bad_key"))}


@pytest.mark.parametrize("key", [s[1] for s in SERVERS], ids=[s[0] for s in SERVERS])
@given(data=st.binary(max_size=300))
def test_any_bytes_as_a_secret_key_are_refused(key: ServerKey, data: bytes) -> None:
    with pytest.raises(DecodeError, match="bad_key"):
        key.unwrap(data, **FRAMES)


def test_every_flipped_bit_of_the_transcript_is_refused() -> None:
    key, wrapped = X25519ServerKey(SERVER_PRIVATE), field("exchange_key_x25519", "secret_key")
    for bit in range(8 * len(AUTH)):
        with pytest.raises(DecodeError, match="bad_key"):
            key.unwrap(wrapped, auth=flipped(AUTH, bit), auth_success=AUTH_SUCCESS)
    for bit in range(8 * len(AUTH_SUCCESS)):
        with pytest.raises(DecodeError, match="bad_key"):
            key.unwrap(wrapped, auth=AUTH, auth_success=flipped(AUTH_SUCCESS, bit))


def test_the_pin_must_be_on_both_sides_and_the_same() -> None:
    plain = X25519ServerKey(SERVER_PRIVATE)
    pinning = X25519ServerKey(SERVER_PRIVATE, static_private=STATIC_PRIVATE)
    other = X25519ServerKey(SERVER_PRIVATE, static_private=b"\x22" * 32)
    common: dict[str, Any] = {"eph_private": EPHEMERAL, **FRAMES}
    unpinned = wrap_secret(plain.encrypt_key, SECRET, **common)
    pinned = wrap_secret(plain.encrypt_key, SECRET, pinned=STATIC_PUBLIC, **common)
    assert pinning.unwrap(pinned, **FRAMES) == SECRET
    for key, wrapped in ((plain, pinned), (other, pinned), (pinning, unpinned)):
        with pytest.raises(DecodeError, match="bad_key"):
            key.unwrap(wrapped, **FRAMES)


def test_the_pinned_wrap_key_follows_the_formula() -> None:
    """Worked out again from the rules, with the library's whole HKDF: no vector has a pin."""
    ephemeral = X25519PrivateKey.from_private_bytes(EPHEMERAL)
    secrets = b"".join(
        ephemeral.exchange(X25519PublicKey.from_public_bytes(public))
        for public in (X25519_KEY[12:], STATIC_PUBLIC)
    )
    th1 = sha256(AUTH + AUTH_SUCCESS + STATIC_PUBLIC).digest()
    key = HKDF(algorithm=SHA256(), length=32, salt=th1, info=b"comet/1 wrap").derive(secrets)
    eph_public = ephemeral.public_key().public_bytes_raw()
    wanted = eph_public + AESGCM(key).encrypt(bytes(12), SECRET, eph_public)
    assert wanted == wrap_secret(
        X25519_KEY, SECRET, eph_private=EPHEMERAL, pinned=STATIC_PUBLIC, **FRAMES
    )


def test_low_order_points_are_refused() -> None:
    for point in (bytes(32), b"\1" + bytes(31)):
        with pytest.raises(DecodeError, match="bad_key"):
            wrap_secret(X25519_KEY[:12] + point, SECRET, eph_private=EPHEMERAL, **FRAMES)
        with pytest.raises(DecodeError, match="bad_key"):
            X25519ServerKey(SERVER_PRIVATE).unwrap(point + bytes(48), **FRAMES)


def test_a_damaged_hipush_key_gives_nothing_usable() -> None:
    """The library answers bad padding with random bytes, so as not to be an oracle."""
    key = RsaServerKey(RSA_512, legacy_hipush=True)
    wrapped = field("legacy_exchange_key_rsa512_des", "secret_key")
    right = key.unwrap(wrapped, **FRAMES)
    for bit in range(0, 8 * len(wrapped), 8):
        try:
            secret = key.unwrap(flipped(wrapped, bit), **FRAMES)
        except DecodeError as error:
            secret = error.code.encode()
        assert secret == b"bad_key" or (len(secret) == 8 and secret != right)


def test_weak_and_wrong_server_keys_are_refused() -> None:
    der = (Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    for pkcs8, legacy in [
        (RSA_512, False),
        (RSA_1024.private_bytes(*der), False),
        (RSA_1024.private_bytes(*der), True),
        (EC_KEY.private_bytes(*der), False),
        (b"", False),
        (b"key", False),
    ]:
        with pytest.raises(EncodeError, match="bad_config"):
            RsaServerKey(pkcs8, legacy_hipush=legacy)
    with pytest.raises(EncodeError, match="bad_config"):
        X25519ServerKey(b"short")
    with pytest.raises(EncodeError, match="bad_config"):
        X25519ServerKey(SERVER_PRIVATE, static_private=b"short")


@pytest.mark.parametrize(
    "encrypt_key", [X25519_KEY, RSA_2048_KEY, RSA_512_KEY], ids=["x25519", "2048", "512"]
)
def test_sizes_of_secrets_are_checked(encrypt_key: bytes) -> None:
    for size in (0, 7, 9, 31, 33):
        with pytest.raises(EncodeError, match="bad_config"):
            wrap_secret(
                encrypt_key, bytes(size), eph_private=EPHEMERAL, legacy_hipush=True, **FRAMES
            )
    with pytest.raises(EncodeError, match="bad_config"):
        content_key(bytes(8), **FRAMES, exchange_key=b"")


def test_sizes_of_client_keys_are_checked() -> None:
    with pytest.raises(EncodeError, match="bad_config"):
        wrap_secret(X25519_KEY, SECRET, eph_private=b"short", **FRAMES)
    with pytest.raises(EncodeError, match="bad_config"):
        wrap_secret(X25519_KEY, SECRET, eph_private=EPHEMERAL, pinned=b"short", **FRAMES)


# -- content ----------------------------------------------------------------------------------

KEY = b"\x33" * 32  # throw-away
NOTE: dict[str, Any] = {"msg_type": 1, "msg_id": "p0100001000abcde", "ts": 1438848000123}
notes = st.fixed_dictionaries(
    {
        "msg_type": st.integers(0, 255),
        "msg_id": st.text(st.characters(codec="utf-8"), max_size=30),
        "ts": st.integers(-(2**63), 2**63 - 1),
    }
)


@given(st.lists(st.tuples(st.binary(max_size=60), notes), max_size=6))
def test_content_round_trip(items: list[tuple[bytes, dict[str, Any]]]) -> None:
    sealer, opener = ContentSealer(KEY), ContentOpener(KEY)
    for content, note in items:
        sealed = sealer.seal(content, **note)
        assert len(sealed) == len(content) + CONTENT_OVERHEAD
        as_bytes = {**note, "msg_id": note["msg_id"].encode()}
        assert ContentOpener(KEY).peek(sealed, **as_bytes) == (sealer.counter, content)
        assert opener.open(sealed, **note) == content


def test_every_flipped_bit_of_sealed_content_is_refused() -> None:
    sealed = ContentSealer(KEY).seal(b"content", **NOTE)
    messages = set()
    for bit in range(8 * len(sealed)):
        opener = ContentOpener(KEY)
        with pytest.raises(DecodeError) as caught:
            opener.open(flipped(sealed, bit), **NOTE)
        assert opener.counter == 0
        messages.add(str(caught.value))
    assert messages == {str(DecodeError("bad_record"))}


@pytest.mark.parametrize("change", [{"msg_type": 2}, {"msg_id": "p0100001000abcdf"}, {"ts": 0}])
def test_content_is_bound_to_its_notification(change: dict[str, Any]) -> None:
    sealed = ContentSealer(KEY).seal(b"content", **NOTE)
    with pytest.raises(DecodeError, match="bad_record"):
        ContentOpener(KEY).open(sealed, **{**NOTE, **change})


def test_replayed_deleted_and_reordered_content_is_refused() -> None:
    sealer, opener = ContentSealer(KEY), ContentOpener(KEY)
    sealed = [sealer.seal(b"content", **NOTE) for _ in range(4)]
    opener.open(sealed[0], **NOTE)
    for wrong in (sealed[0], sealed[2], sealed[3]):
        with pytest.raises(DecodeError, match="bad_record"):
            opener.open(wrong, **NOTE)
        assert opener.counter == 1
    opener.open(sealed[1], **NOTE)
    assert opener.peek(sealed[3], **NOTE) == (4, b"content")
    assert opener.counter == 2


@given(st.binary(max_size=80), st.booleans())
def test_any_bytes_as_content_are_refused(data: bytes, versioned: bool) -> None:
    with pytest.raises(DecodeError, match="bad_record"):
        ContentOpener(KEY).open(b"\1" + bytes(7) + b"\1" + data if versioned else data, **NOTE)


def test_content_ends_with_the_last_counter() -> None:
    sealer, opener = ContentSealer(KEY), ContentOpener(KEY)
    sealer.counter = opener.counter = MAX_SEALED - 1
    sealed = sealer.seal(b"last", **NOTE)
    assert opener.open(sealed, **NOTE) == b"last"
    with pytest.raises(EncodeError, match="int_range"):
        sealer.seal(b"one more", **NOTE)


@pytest.mark.parametrize("counter", [0, MAX_SEALED + 1])
def test_counters_out_of_range_are_refused(counter: int) -> None:
    """Even with a right tag, which only a peer that breaks the rule can make."""
    head = b"\1" + counter.to_bytes(8, "big")
    name = NOTE["msg_id"].encode()
    aad = b"\1\0\x10" + name + NOTE["ts"].to_bytes(8, "big")
    sealed = head + AESGCM(KEY).encrypt(bytes(4) + head[1:], b"content", aad)
    with pytest.raises(DecodeError, match="bad_record"):
        ContentOpener(KEY).peek(sealed, **NOTE)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"msg_type": 256}, "int_range"),
        ({"msg_type": -1}, "int_range"),
        ({"ts": 2**63}, "int_range"),
        ({"msg_id": "x" * 65536}, "int_range"),
        ({"msg_id": "\ud800"}, "invalid_utf8"),
    ],
)
def test_fields_that_do_not_fit_are_refused(change: dict[str, Any], code: str) -> None:
    sealer = ContentSealer(KEY)
    with pytest.raises(EncodeError) as caught:
        sealer.seal(b"content", **{**NOTE, **change})
    assert caught.value.code == code
    assert sealer.counter == 0
    sealed = sealer.seal(b"content", **NOTE)
    with pytest.raises(DecodeError, match="bad_record"):
        ContentOpener(KEY).open(sealed, **{**NOTE, **change})


def test_sizes_of_content_keys_are_checked() -> None:
    for make in (ContentSealer, ContentOpener):
        with pytest.raises(EncodeError, match="bad_config"):
            make(b"\x33" * 16)


@given(st.binary(max_size=60))
def test_hipush_content_round_trip(content: bytes) -> None:
    cipher = HipushContent(b"throwawa", legacy_hipush=True)
    sealed = cipher.seal(content)
    assert len(sealed) == len(content) // 8 * 8 + 8
    assert cipher.open(sealed) == content


def test_hipush_content_must_be_enabled() -> None:
    with pytest.raises(EncodeError, match="bad_config"):
        HipushContent(b"throwawa")
    with pytest.raises(EncodeError, match="bad_config"):
        HipushContent(b"short", legacy_hipush=True)
    cipher = HipushContent(b"throwawa", legacy_hipush=True)
    for sealed in (b"", b"seven b", bytes(8), cipher.seal(b"content") + b"tail"):
        with pytest.raises(DecodeError, match="bad_record"):
            cipher.open(sealed)


def test_keys_do_not_show() -> None:
    for value in (X25519ServerKey(SERVER_PRIVATE), RsaServerKey(RSA_2048), ContentSealer(KEY)):
        assert " object at 0x" in repr(value)
