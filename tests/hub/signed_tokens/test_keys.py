"""Keys in files: PEM, JWKS and secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from tests.hub.certificates import make_certificate

from wirelake.hub.signed_tokens.keys import (
    KeyFormatError,
    has_signed,
    matching,
    read_public_keys,
    secret_key,
)

from .issuing import NEW_KEYS, Signer, jwks

ALL = ("EdDSA", "ES256", "RS256")
PEM = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_public_keys_and_certificates_in_pem(tmp_path: Path) -> None:
    pem = Signer(tmp_path).pem + b"\n" + make_certificate(tmp_path).certificate.read_bytes()
    assert [sorted(key.algorithms) for key in read_public_keys(pem, ALL)] == [["EdDSA"], ["ES256"]]
    # Of keys that are not needed for these algorithms there may be others.
    assert len(read_public_keys(pem, ["EdDSA"])) == 1


def _private(signer: Signer) -> bytes:
    return signer.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _entries(*entries: Any) -> bytes:
    return json.dumps({"keys": list(entries)}).encode()


def test_keys_that_cannot_be_used(tmp_path: Path) -> None:
    signer, big = Signer(tmp_path), Signer(tmp_path, "RS256")
    weak = rsa.generate_private_key(65537, 1024).public_key().public_bytes(*PEM)
    koblitz = ec.generate_private_key(ec.SECP256K1()).public_key().public_bytes(*PEM)
    cases = {
        b"": "neither keys in PEM nor a JWKS",
        b"\xff\xfe": "neither keys in PEM nor a JWKS",
        _private(signer): "a private key; expected the public key",
        weak: "an RSA key of 1024 bits; expected 2048-8192",
        koblitz: "no public key for ES256, EdDSA, RS256",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----": "invalid PUBLIC KEY in PEM",
        signer.pem * 5: "more than 4 keys in PEM",
        b"{": "not valid JSON",
        b'{"keys": 1}': "not a JWKS",
        b'{"keys": [1]}': "not a JWKS",
        b'{"a":' * 100_000: "not valid JSON",
        _entries(): "no public key",
        _entries(*[signer.jwk] * 101): "more than 100 keys",
        _entries({"kty": "oct", "k": "c2VjcmV0"}): "a secret in a JWKS",
        _entries({**signer.jwk, "d": "AAAA"}): "a private key in a JWKS",
        _entries({**signer.jwk, "kid": 1}): "the kid of a key is not text",
        _entries({**signer.jwk, "x": "AA"}): "an invalid OKP key in a JWKS",
        _entries({**signer.jwk, "x": 7}): "an invalid OKP key in a JWKS",
        _entries({"kty": "RSA"}): "an invalid RSA key in a JWKS",
        _entries({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}): "an invalid EC key",
        _entries({**big.jwk, "use": "enc"}): "no public key",
        _entries({**big.jwk, "key_ops": ["encrypt"]}): "no public key",
        _entries({**big.jwk, "key_ops": 7}): "no public key",
        _entries({**big.jwk, "alg": {"a": 1}}): "no public key",
        _entries({"kty": ["RSA"]}): "no public key",
    }
    for data, problem in cases.items():
        with pytest.raises(KeyFormatError, match=problem):
            read_public_keys(data, ALL)


def test_keys_of_other_kinds_are_skipped(tmp_path: Path) -> None:
    signer = Signer(tmp_path, key_id="a")
    document = json.loads(jwks(signer))
    document["keys"] += [{"kty": "new"}, {**signer.jwk, "use": "enc", "kid": "b"}]
    (key,) = read_public_keys(json.dumps(document).encode(), ALL)
    assert key.id == "a"


def test_few_keys_are_tried(tmp_path: Path) -> None:
    keys = read_public_keys(jwks(*(Signer(tmp_path) for _ in range(5))), ALL)
    assert matching(keys, None, "EdDSA") == []
    assert len(matching(keys[:4], "any", "EdDSA")) == 4


@pytest.mark.parametrize("algorithm", [*NEW_KEYS, "PS256"])
def test_signatures_of_any_bytes(tmp_path: Path, algorithm: str) -> None:
    signer = Signer(tmp_path, "RS256" if algorithm == "PS256" else algorithm)
    (key,) = read_public_keys(signer.pem, [algorithm])
    right = jwt.get_algorithm_by_name(algorithm).sign(b"text", signer.key)
    assert has_signed(key, algorithm, b"text", right)
    assert not has_signed(key, algorithm, b"tex", right)
    for size in (0, 1, 31, 32, 63, 64, 65, 96, 132, 255, 256, 257, 2_000):
        for byte in (b"\0", b"\1", b"\xff"):
            assert not has_signed(key, algorithm, b"text", byte * size)
    for other in {*NEW_KEYS, "HS256", "none"} - {algorithm}:
        if other not in key.algorithms:
            assert not has_signed(key, other, b"text", right)


def test_secrets(tmp_path: Path) -> None:
    key = secret_key(b"x" * 48 + b"\n", ["HS256", "HS384"])
    assert key.value == b"x" * 48
    for secret, problem in (
        (b"x" * 47, "a secret of 47 bytes; expected 48"),
        (b"\n" * 100, "a secret of 0 bytes"),
        (Signer(tmp_path).pem, "a key in PEM"),
    ):
        with pytest.raises(KeyFormatError, match=problem):
            secret_key(secret, ["HS256", "HS384"])
