"""Public keys of issuers in PEM and JWKS (RFC 7517), secrets, and signatures.

A key knows the algorithms that it can be used with: its type decides, and not what a token says.
This, and secrets that come from other settings than keys, excludes that a public key is used as the
secret of an HMAC. What a token says about keys (`jwk`, `jku`, `x5c`, `x5u`) is never read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import jwt
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from .parsing import parse_json

__all__ = ["Key", "KeyFormatError", "has_signed", "matching", "read_public_keys", "secret_key"]

_MAX_KEYS: Final = 100
"""Keys of one issuer."""
_MAX_TRIED: Final = 4
"""Keys that one token is checked with, where it does not say which: each costs 100 µs."""
_RSA_BITS: Final = range(2_048, 8_193)
"""Sizes of RSA keys: smaller ones are weak (RFC 7518 section 3.3), larger ones are slow."""
_SECRET_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""The minimum size of a secret: that of the hash (RFC 7518 section 3.2)."""
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_PEM: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_PARSERS: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "RSA": RSAAlgorithm.from_jwk,
    "EC": ECAlgorithm.from_jwk,
    "OKP": OKPAlgorithm.from_jwk,
}


class KeyFormatError(ValueError):
    """Keys cannot be used; the message contains no part of them."""


class Key(NamedTuple):
    """A key of an issuer."""

    id: str | None
    """Its `kid`; None for keys in PEM and secrets, which have none."""
    algorithms: frozenset[str]
    """What it can be used with."""
    value: Any
    """The key, as the algorithm wants it."""
    thumbprint: bytes
    """SHA-256 of the key."""


def has_signed(key: Key, algorithm: str, signed: bytes, signature: bytes) -> bool:
    """Return whether a signature is of this key."""
    return algorithm in key.algorithms and jwt.get_algorithm_by_name(algorithm).verify(
        signed, key.value, signature
    )


def matching(keys: Sequence[Key], key_id: str | None, algorithm: str) -> list[Key]:
    """Return the keys that a token with this header may be signed with."""
    found = [
        key
        for key in keys
        if algorithm in key.algorithms and (None in (key_id, key.id) or key.id == key_id)
    ]
    return found if len(found) <= _MAX_TRIED else []


def secret_key(secret: bytes, algorithms: Iterable[str]) -> Key:
    """Return the key of a file with a secret; KeyFormatError."""
    secret = secret.rstrip(b"\r\n")  # which an editor adds
    needed = max(_SECRET_BYTES[each] for each in algorithms)
    if len(secret) < needed:
        raise KeyFormatError(f"a secret of {len(secret)} bytes; expected {needed} or more")
    if b"-----BEGIN" in secret:
        raise KeyFormatError("a key in PEM; a secret is random text. Use keys for public keys")
    return Key(None, frozenset(algorithms), secret, hashlib.sha256(secret).digest())


def read_public_keys(data: bytes, algorithms: Iterable[str]) -> tuple[Key, ...]:
    """Return the keys in a file or at an address; KeyFormatError if these algorithms use none."""
    allowed = frozenset(algorithms)
    found = _jwks(data) if data.lstrip().startswith(b"{") else _pem(data)
    keys = [key for key in found if key.algorithms & allowed]
    if not keys:
        raise KeyFormatError(f"no public key for {', '.join(sorted(allowed))}")
    return tuple(keys)


def _pem(data: bytes) -> list[Key]:
    found: list[Key] = []
    for block in _PEM.finditer(data):
        label = block[1].decode()
        if "PRIVATE" in label:
            raise KeyFormatError("a private key; expected the public key, as of openssl -pubout")
        try:
            if label == "CERTIFICATE":
                value: Any = x509.load_pem_x509_certificate(block[0]).public_key()
            else:
                value = load_pem_public_key(block[0])
        except (ValueError, UnsupportedAlgorithm):
            raise KeyFormatError(f"invalid {label} in PEM") from None
        if len(found) == _MAX_TRIED:
            raise KeyFormatError(f"more than {_MAX_TRIED} keys in PEM; use a JWKS, with key ids")
        found.append(_key(None, value))
    if not found:
        raise KeyFormatError("neither keys in PEM nor a JWKS")
    return found


def _jwks(data: bytes) -> list[Key]:
    try:
        document = parse_json(data)
    except ValueError:
        raise KeyFormatError("not valid JSON") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise KeyFormatError("not a JWKS: expected an object with a list of keys")
    if len(entries) > _MAX_KEYS:
        raise KeyFormatError(f"more than {_MAX_KEYS} keys")
    found = (_jwk(each) for each in entries)
    return [key for key in found if key is not None]


def _jwk(entry: dict[str, Any]) -> Key | None:
    """Return a key of a JWKS; None for one that is for something else, or of an unknown type."""
    kind, key_id, algorithm = entry.get("kty"), entry.get("kid"), entry.get("alg")
    operations = entry.get("key_ops", ["verify"])
    if kind == "oct":
        raise KeyFormatError("a secret in a JWKS; expected public keys only")
    if not isinstance(kind, str) or kind not in _PARSERS or entry.get("use", "sig") != "sig":
        return None
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    if "d" in entry:
        raise KeyFormatError("a private key in a JWKS; expected public keys only")
    if key_id is not None and not isinstance(key_id, str):
        raise KeyFormatError("the kid of a key is not text")
    try:
        key = _key(key_id, _PARSERS[kind](entry))
    except (jwt.PyJWTError, ValueError, TypeError, UnsupportedAlgorithm, KeyError):
        raise KeyFormatError(f"an invalid {kind} key in a JWKS") from None
    if algorithm is None:
        return key
    return key._replace(algorithms=frozenset(each for each in key.algorithms if each == algorithm))


def _key(key_id: str | None, value: Any) -> Key:
    """Return a key; one that no algorithm uses has none."""
    algorithms: frozenset[str] = frozenset()
    if isinstance(value, RSAPublicKey):
        if value.key_size not in _RSA_BITS:
            raise KeyFormatError(
                f"an RSA key of {value.key_size} bits; expected {_RSA_BITS[0]}-{_RSA_BITS[-1]}"
            )
        algorithms = _RSA
    elif isinstance(value, EllipticCurvePublicKey):
        name = _CURVES.get(value.curve.name)
        algorithms = frozenset() if name is None else frozenset({name})
    elif isinstance(value, Ed25519PublicKey):
        algorithms = frozenset({"EdDSA"})
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    return Key(key_id, algorithms, value, hashlib.sha256(value.public_bytes(*form)).digest())
