"""The key exchanges of comet vectors, worked out from their frames.

A transcript is an auth, an auth_success with a public key, and the exchange_key that answers it.
They are found among the vectors of all files; a server's private key by its public key, wherever it
is written. Nothing is taken from the values that a vector expects: those are compared.

`REFERENCE` has the transcript that most vectors refer to, for files that are run without it. Its
keys are throw-away values made for testing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from wirelake.wire.errors import (
    DecodeError,
    EncodeError,
    NeedMore,
    WireError,
)

from ..expectation import (
    Context,
    Expect,
    VectorFailure,
)
from .layout import Auth, AuthSuccess, ExchangeKey
from .protocol import PROTOCOL
from .sealing import (
    RsaServerKey,
    ServerKey,
    X25519ServerKey,
    content_key,
    derive_wrap_key,
    key_kind,
    transcript_1,
    transcript_2,
    wrap_secret,
)

__all__ = ["REFERENCE", "Exchange", "check_exchange", "content_keys", "des_key", "unwrap"]

_SERVER_PRIVATE = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"
REFERENCE: Final[dict[str, str]] = {
    "auth": "003a00001063303130303030313030303061626364002574"
    + b"550e8400-e29b-41d4".hex()
    + b"-a716-446655440000".hex(),
    "auth_success": "002f02002c302a300506032b656e032100"
    "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
    "exchange_key": "0053010050"
    "79cbbe10ba8739ad195c42721afb57732f3d80bf7c0f0f79c1b3676ceda45c00"
    "d4763666262d2c68eca32c4aecac5536d38de2bf3440b60ffa3cb081b26007e5"
    "1f88d6faa3f55e16bd188c53ccf77b15",
}
"""The frames of the X25519 transcript."""
_DES_KEY: Final = bytes.fromhex("0123456789abcdef")

EXCHANGE_KEYS: Final = (
    "content_key_hex",
    "dh_hex",
    "eph_private_hex",
    "rsa_private_pkcs8_hex",
    "th1_hex",
    "th2_hex",
    "unwrapped_hex",
    "wrap_key_hex",
)
"""What a vector with an exchange_key may say of the exchange."""


class Exchange(NamedTuple):
    """A key exchange that worked."""

    auth: bytes
    auth_success: bytes
    encrypt_key: bytes
    secret: bytes
    private: bytes | None
    """The server's X25519 key; None with RSA."""


def _frames(context: Context, direction: str, cls: type) -> Iterator[tuple[bytes, Any]]:
    """The frames of a command among the vectors, with what they mean."""
    for raw in context.of("comet"):
        if raw.get("direction") != direction or raw["expect"].get("ok") is not True:
            continue
        try:
            data = bytes.fromhex(raw["hex"])
            message = PROTOCOL.decode(
                data, direction="c2s" if direction == "c2s" else "s2c"
            ).message
        except (ValueError, NeedMore, WireError):
            continue
        if isinstance(message, cls):
            yield data, message


def _auths(context: Context) -> list[bytes]:
    """The auth frames; the one that is called `auth` first."""
    named = context.find("comet", "auth")
    found = [data for data, _ in _frames(context, "c2s", Auth)]
    first = [bytes.fromhex(named["hex"])] if named is not None else []
    return list(dict.fromkeys([*first, bytes.fromhex(REFERENCE["auth"]), *found]))


def _offers(context: Context) -> list[tuple[bytes, bytes]]:
    """(auth_success frame, encrypt_key) of every offer."""
    found = [(data, m.encrypt_key) for data, m in _frames(context, "s2c", AuthSuccess)]
    reference = bytes.fromhex(REFERENCE["auth_success"])
    found.append((reference, reference[5:]))
    return list(dict.fromkeys(found))


def _private_for(encrypt_key: bytes, context: Context) -> bytes | None:
    known: dict[bytes, bytes] = context.cached(
        "comet private keys",
        lambda: {_public(key): key for key in [bytes.fromhex(_SERVER_PRIVATE), *context.keys32()]},
    )
    return known.get(encrypt_key[-32:])


def _public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def unwrap(secret_key: bytes, expect: Expect, context: Context) -> Exchange:
    """The exchange that a secret_key belongs to. Raises DecodeError `bad_key` when it is none."""
    if "rsa_private_pkcs8_hex" in expect:
        server = _rsa(expect)
        success = next((d for d, key in _offers(context) if key == server.encrypt_key), b"")
        auth = _auths(context)[0]
        secret = server.unwrap(secret_key, auth=auth, auth_success=success)
        return Exchange(auth, success, server.encrypt_key, secret, None)
    for success, encrypt_key in _offers(context):
        if key_kind(encrypt_key) != "spki-x25519":
            continue
        private = _private_for(encrypt_key, context)
        if private is None:
            continue
        for auth in _auths(context):
            try:
                secret = X25519ServerKey(private).unwrap(
                    secret_key, auth=auth, auth_success=success
                )
            except DecodeError:
                continue
            return Exchange(auth, success, encrypt_key, secret, private)
    raise DecodeError("bad_key", "secret_key")


def _rsa(expect: Expect) -> ServerKey:
    pkcs8 = expect.octets("rsa_private_pkcs8_hex")
    try:
        return RsaServerKey(pkcs8)
    except EncodeError:
        pass
    try:
        return RsaServerKey(pkcs8, legacy_hipush=True)
    except EncodeError as error:
        raise expect.fail("rsa_private_pkcs8_hex", str(error)) from None


def check_exchange(expect: Expect, frame: bytes, message: ExchangeKey, context: Context) -> None:
    """Compares what a vector says of the exchange, if it says anything."""
    if not any(key in expect for key in EXCHANGE_KEYS):
        return
    try:
        found = unwrap(message.secret_key, expect, context)
    except DecodeError as error:
        raise VectorFailure(f"expect.fields.secret_key: {error}") from None
    expect.equal("unwrapped_hex", found.secret.hex())
    th1 = transcript_1(found.auth, found.auth_success)
    expect.equal("th1_hex", th1.hex())
    expect.equal("th2_hex", transcript_2(found.auth, found.auth_success, frame).hex())
    if len(found.secret) == 32:
        key = content_key(found.secret, found.auth, found.auth_success, frame)
        expect.equal("content_key_hex", key.hex())
    if found.private is not None:
        _check_x25519(expect, message, found, th1)


def _check_x25519(expect: Expect, message: ExchangeKey, found: Exchange, th1: bytes) -> None:
    assert found.private is not None
    public = message.secret_key[:32]
    own = X25519PrivateKey.from_private_bytes(found.private)
    dh = own.exchange(X25519PublicKey.from_public_bytes(public))
    expect.equal("dh_hex", dh.hex())
    expect.equal("wrap_key_hex", derive_wrap_key(th1, dh).hex())
    if "eph_private_hex" not in expect:
        return
    private = expect.octets("eph_private_hex")
    if len(private) != 32 or _public(private) != public:
        raise expect.fail("eph_private_hex", f"not the private key of {public.hex()}")
    again = wrap_secret(
        found.encrypt_key,
        found.secret,
        auth=found.auth,
        auth_success=found.auth_success,
        eph_private=private,
    )
    if again != message.secret_key:
        raise VectorFailure(f"hex: wrapped again the secret is {again.hex()}")


def content_keys(context: Context) -> list[bytes]:
    """The content keys of all X25519 exchanges, the reference's among them."""

    def derive() -> list[bytes]:
        frames = [data for data, _ in _frames(context, "c2s", ExchangeKey)]
        keys = []
        for frame in [*frames, bytes.fromhex(REFERENCE["exchange_key"])]:
            try:
                found = unwrap(frame[5:], Expect({}), context)
            except DecodeError:
                continue
            keys.append(content_key(found.secret, found.auth, found.auth_success, frame))
        return list(dict.fromkeys(keys))

    keys: list[bytes] = context.cached("comet content keys", derive)
    return keys


def des_key(context: Context) -> bytes:
    """The DES key of the original's transcript, unwrapped from its exchange_key where that is."""

    def derive() -> bytes:
        for raw in context.of("comet"):
            expect = Expect(raw["expect"])
            if "rsa_private_pkcs8_hex" not in expect:
                continue
            try:
                found = unwrap(bytes.fromhex(raw["hex"])[5:], expect, context)
            except (DecodeError, ValueError, VectorFailure):
                continue
            if len(found.secret) == 8:
                return found.secret
        return _DES_KEY

    key: bytes = context.cached("comet des key", derive)
    return key
