"""comet's key exchange and sealed notification content, on top of an unchanged wire layout.

Implements §4 and §7 of the comet rules. After auth the server sends a public key (`encrypt_key`,
always a SubjectPublicKeyInfo); its algorithm alone selects the suite, nothing is negotiated:

    X25519 (44 bytes)   the default; forward secret; can be tied to a pinned server key
    RSA, 2048 or more   OAEP with SHA-256; no forward secrecy
    RSA, 512            what the original did, with DES; only with `legacy_hipush=True`

The client answers with a wrapped secret (`secret_key`); both then derive the key that seals the
content of every notification the server sends. The rest of the protocol, the token included, stays
in the clear: this stops passive readers of content. Against anyone else, run comet inside TLS.

Private keys and secrets are arguments. The RSA paddings are the one exception: their random bytes
are drawn inside the cryptographic library, which takes none from outside.

Every failure of the exchange is `bad_key`, every failure of content is `bad_record`, without
detail. `Opener` reads captured notifications with a key log.
"""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from typing import Any, ClassVar, Final, Literal, Protocol

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives import padding as block_padding
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.modes import ECB
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
)

from wirelake.wire.errors import DecodeError, EncodeError, WireError
from wirelake.wire.model import Direction

from .layout import CONTENT_OVERHEAD, SEALED_PREFIX, MessageList, Notification

__all__ = [
    "MAX_SEALED",
    "ContentOpener",
    "ContentSealer",
    "HipushContent",
    "Opener",
    "RsaServerKey",
    "ServerKey",
    "Suite",
    "X25519ServerKey",
    "choose_suite",
    "content_key",
    "derive_wrap_key",
    "key_kind",
    "key_line",
    "transcript_1",
    "transcript_2",
    "wrap_secret",
]


Suite = Literal["x25519", "rsa-oaep", "hipush"]
"""How the secret is sent; `hipush` is the original's RSA-512 and DES."""

MAX_SEALED: Final = 1 << 32
"""A connection closes after this many sealed notifications."""

_SECRET_SIZE: Final = 32
_DES_KEY_SIZE: Final = 8
_TAG_SIZE: Final = 16
_VERSION: Final = SEALED_PREFIX[:1]
_X25519_SPKI: Final = bytes.fromhex("302a300506032b656e032100")
_HIPUSH_BITS: Final = 512
# Below 2048 bits a key can be broken; above 8192 bits one operation can stall the other side.
_MIN_RSA_BITS: Final = 2048
_MAX_RSA_BITS: Final = 8192
_OAEP: Final = padding.OAEP(padding.MGF1(SHA256()), SHA256(), None)


# -- which suite ------------------------------------------------------------------------------


def key_kind(encrypt_key: bytes) -> str:
    """Return the kind of an encrypt_key; never raises.

    `empty`, `spki-x25519`, `spki-rsa-<bits>`, or `unknown`.
    """
    if not encrypt_key:
        return "empty"
    if encrypt_key.startswith(_X25519_SPKI) and len(encrypt_key) == len(_X25519_SPKI) + 32:
        return "spki-x25519"
    key = _load_rsa(encrypt_key)
    return f"spki-rsa-{key.key_size}" if key else "unknown"


def _load_rsa(encrypt_key: bytes) -> RSAPublicKey | None:
    try:
        key = load_der_public_key(encrypt_key)
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, RSAPublicKey) else None


def choose_suite(encrypt_key: bytes, *, pinned: bool = False, legacy_hipush: bool = False) -> Suite:
    """Return the suite of an encrypt_key; a weak or unknown key raises `bad_key`.

    A client that pins a server key accepts X25519 only: an attacker could otherwise offer an RSA
    key of its own, in which the pinned key has no part (section 4).
    """
    kind = key_kind(encrypt_key)
    if kind == "spki-x25519":
        return "x25519"
    if kind.startswith("spki-rsa-") and not pinned:
        bits = int(kind.removeprefix("spki-rsa-"))
        if _MIN_RSA_BITS <= bits <= _MAX_RSA_BITS:
            return "rsa-oaep"
        if bits == _HIPUSH_BITS and legacy_hipush:
            return "hipush"
    raise DecodeError("bad_key", "encrypt_key")


# -- the key schedule -------------------------------------------------------------------------


def transcript_1(auth: bytes, auth_success: bytes, pinned: bytes = b"") -> bytes:
    """Return TH1: hash of the successful auth frame, its reply, and the pinned key, if any."""
    # Whole frames, lengths included: fields could otherwise be moved between them unnoticed.
    return sha256(auth + auth_success + pinned).digest()


def transcript_2(auth: bytes, auth_success: bytes, exchange_key: bytes) -> bytes:
    """Return TH2: hash of the three whole frames of the exchange."""
    return sha256(auth + auth_success + exchange_key).digest()


def derive_wrap_key(th1: bytes, dh: bytes, dh_static: bytes = b"") -> bytes:
    """Return the key that wraps the secret in the X25519 suite."""
    return _expand(hmac.digest(th1, dh + dh_static, "sha256"), b"comet/1 wrap")


def content_key(secret: bytes, auth: bytes, auth_success: bytes, exchange_key: bytes) -> bytes:
    """Return the key of everything that the server seals on this connection."""
    th2 = transcript_2(auth, auth_success, exchange_key)
    secret = _exactly(_SECRET_SIZE, secret, "secret")
    return _expand(hmac.digest(th2, secret, "sha256"), b"comet/1 content s2c")


def _expand(key: bytes, label: bytes) -> bytes:
    return HKDFExpand(algorithm=SHA256(), length=32, info=label).derive(key)


def _exactly(size: int, value: bytes, name: str) -> bytes:
    if len(value) != size:
        raise EncodeError("bad_config", name, detail=f"expected exactly {size} bytes")
    return value


def _exchange(private: bytes, public: bytes) -> bytes:
    own = X25519PrivateKey.from_private_bytes(_exactly(32, private, "private"))
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:  # the wrong size, or a point that forces the result to zero
        raise DecodeError("bad_key") from error


def _public(private: bytes) -> bytes:
    own = X25519PrivateKey.from_private_bytes(_exactly(32, private, "private"))
    return own.public_key().public_bytes_raw()


# -- the client's side of the exchange --------------------------------------------------------


def wrap_secret(
    encrypt_key: bytes,
    secret: bytes,
    *,
    auth: bytes,
    auth_success: bytes,
    eph_private: bytes,
    pinned: bytes | None = None,
    legacy_hipush: bool = False,
) -> bytes:
    """Return the secret_key to answer an encrypt_key with.

    `secret` is 32 random bytes (8 in the hipush suite), `eph_private` 32 more, used by X25519 and
    fresh for every connection; `pinned` is the server's static public key, when the client has it.
    """
    suite = choose_suite(encrypt_key, pinned=pinned is not None, legacy_hipush=legacy_hipush)
    if suite == "x25519":
        _exactly(_SECRET_SIZE, secret, "secret")
        static = b"" if pinned is None else _exactly(32, pinned, "pinned")
        dh = _exchange(eph_private, encrypt_key[len(_X25519_SPKI) :])
        dh_static = _exchange(eph_private, static) if static else b""
        key = derive_wrap_key(transcript_1(auth, auth_success, static), dh, dh_static)
        eph_public = _public(eph_private)
        # A zero nonce is safe: the key depends on a fresh ephemeral and wraps this once.
        return eph_public + AESGCM(key).encrypt(bytes(12), secret, eph_public)
    rsa = _load_rsa(encrypt_key)
    if rsa is None:
        raise DecodeError("bad_key", "encrypt_key")
    try:
        if suite == "hipush":
            return rsa.encrypt(_exactly(_DES_KEY_SIZE, secret, "secret"), padding.PKCS1v15())
        return rsa.encrypt(_exactly(_SECRET_SIZE, secret, "secret"), _OAEP)
    except ValueError as error:
        raise DecodeError("bad_key", "encrypt_key") from error


# -- the server's side ------------------------------------------------------------------------


class ServerKey(Protocol):
    """A server's key: offered in auth_success, later used to unwrap the client's secret."""

    @property
    def encrypt_key(self) -> bytes:
        """The encrypt_key field of auth_success."""

    def unwrap(self, secret_key: bytes, *, auth: bytes, auth_success: bytes) -> bytes:
        """Return the client's secret, or `bad_key`."""


class X25519ServerKey:
    """The default suite: 32 private bytes, fresh for every connection.

    `static_private` is the long-lived key that clients pin; configured on both sides or on neither.
    The public key is computed on use, so that a peer that never signs on causes no key generation
    (key generation and one exchange take 70 µs).
    """

    __slots__ = ("_private", "_static")

    def __init__(self, private: bytes, *, static_private: bytes | None = None):
        self._private = _exactly(32, private, "private")
        if static_private is not None:
            _exactly(32, static_private, "static_private")
        self._static = static_private

    @property
    def encrypt_key(self) -> bytes:
        """The encrypt_key field of auth_success."""
        return _X25519_SPKI + _public(self._private)

    def unwrap(self, secret_key: bytes, *, auth: bytes, auth_success: bytes) -> bytes:
        """Return the client's secret, or `bad_key`."""
        if len(secret_key) != 32 + _SECRET_SIZE + _TAG_SIZE:
            raise DecodeError("bad_key")
        eph_public, wrapped = secret_key[:32], secret_key[32:]
        static = self._static
        pinned = b"" if static is None else _public(static)
        dh_static = b"" if static is None else _exchange(static, eph_public)
        th1 = transcript_1(auth, auth_success, pinned)
        key = derive_wrap_key(th1, _exchange(self._private, eph_public), dh_static)
        try:
            return AESGCM(key).decrypt(bytes(12), wrapped, eph_public)
        except InvalidTag as error:
            raise DecodeError("bad_key") from error


class RsaServerKey:
    """The RSA suites, from a PKCS#8 private key: OAEP, or the original's with `legacy_hipush`."""

    __slots__ = ("_key", "_padding", "_size", "encrypt_key")

    def __init__(self, pkcs8: bytes, *, legacy_hipush: bool = False):
        try:
            key = load_der_private_key(pkcs8, None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise EncodeError("bad_config", "pkcs8", detail="not a private key") from error
        if not isinstance(key, RSAPrivateKey):
            raise EncodeError("bad_config", "pkcs8", detail="not an RSA key")
        self._key = key
        self.encrypt_key = key.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )
        try:
            suite = choose_suite(self.encrypt_key, legacy_hipush=legacy_hipush)
        except DecodeError as error:
            raise EncodeError("bad_config", "pkcs8", detail="expected 2048 to 8192 bits") from error
        old = suite == "hipush"
        self._padding = padding.PKCS1v15() if old else _OAEP
        self._size = _DES_KEY_SIZE if old else _SECRET_SIZE

    def unwrap(self, secret_key: bytes, *, auth: bytes, auth_success: bytes) -> bytes:  # noqa: ARG002
        """Return the client's secret, or `bad_key`. The frames are bound later, by the content key.

        Invalid PKCS#1 v1.5 padding yields random bytes instead of an error, so that padding attacks
        get no oracle. Such a secret opens nothing.
        """
        try:
            secret = self._key.decrypt(secret_key, self._padding)
        except ValueError as error:
            raise DecodeError("bad_key") from error
        if len(secret) != self._size:
            raise DecodeError("bad_key")
        return secret


# -- content ----------------------------------------------------------------------------------


class ContentSealer:
    """The server's side: seals each notification in the order of sending, lists included.

    The counter is the nonce: it never repeats under a key, so a notification that is sent again is
    sealed again, under a new counter.
    """

    __slots__ = ("_gcm", "counter")

    def __init__(self, key: bytes):
        self._gcm = AESGCM(_exactly(32, key, "content_key"))
        self.counter = 0

    def seal(self, content: bytes, *, msg_type: int, msg_id: bytes | str, ts: int) -> bytes:
        """Return `01 | counter | ciphertext | tag`, bound to the notification's other fields."""
        counter = self.counter + 1
        if counter > MAX_SEALED:
            raise EncodeError("int_range", "counter", detail="reconnect to get a new key")
        aad = _aad(msg_type, msg_id, ts)
        number = counter.to_bytes(8, "big")
        sealed = self._gcm.encrypt(bytes(4) + number, content, aad)
        self.counter = counter
        return _VERSION + number + sealed


class ContentOpener:
    """The client's side: content opens only in the order of sealing, so a deletion is detected."""

    __slots__ = ("_gcm", "counter")

    def __init__(self, key: bytes):
        self._gcm = AESGCM(_exactly(32, key, "content_key"))
        self.counter = 0

    def open(self, sealed: bytes, *, msg_type: int, msg_id: bytes | str, ts: int) -> bytes:
        """Return the content if it is the next one; otherwise the connection must close, without an
        acknowledgement, so that the notification stays stored."""
        counter, content = self.peek(sealed, msg_type=msg_type, msg_id=msg_id, ts=ts)
        if counter != self.counter + 1:
            raise DecodeError("bad_record")
        self.counter = counter
        return content

    def peek(
        self, sealed: bytes, *, msg_type: int, msg_id: bytes | str, ts: int
    ) -> tuple[int, bytes]:
        """Return counter and content without checking the order: captures may have gaps."""
        if len(sealed) < CONTENT_OVERHEAD or not sealed.startswith(_VERSION):
            raise DecodeError("bad_record")
        number = sealed[1:9]
        counter = int.from_bytes(number, "big")
        if not 1 <= counter <= MAX_SEALED:
            raise DecodeError("bad_record")
        try:
            aad = _aad(msg_type, msg_id, ts)
            return counter, self._gcm.decrypt(bytes(4) + number, sealed[9:], aad)
        except (InvalidTag, EncodeError) as error:
            raise DecodeError("bad_record") from error


def _aad(msg_type: int, msg_id: bytes | str, ts: int) -> bytes:
    """Return the other fields of a notification as on the wire: authenticated, not encrypted."""
    try:
        name = msg_id.encode() if isinstance(msg_id, str) else msg_id
        head = msg_type.to_bytes(1, "big") + len(name).to_bytes(2, "big")
        return head + name + ts.to_bytes(8, "big", signed=True)
    except OverflowError as error:
        raise EncodeError("int_range", "message", detail="msg_type, msg_id or ts") from error
    except UnicodeEncodeError as error:
        raise EncodeError("invalid_utf8", "msg_id") from error


class HipushContent:
    """The original's content cipher, DES in ECB mode, which protects nothing (section 8).

    It has no integrity and no order; it exists for peers that support nothing else.
    """

    __slots__ = ("_cipher",)

    def __init__(self, des_key: bytes, *, legacy_hipush: bool = False):
        if not legacy_hipush:
            detail = "DES requires legacy_hipush=True"
            raise EncodeError("bad_config", "legacy_hipush", detail=detail)
        # Three equal keys turn triple DES into DES, which the library no longer offers.
        self._cipher = Cipher(TripleDES(_exactly(_DES_KEY_SIZE, des_key, "des_key") * 3), ECB())

    def seal(self, content: bytes) -> bytes:
        """Pad and encrypt."""
        padder = block_padding.PKCS7(64).padder()
        return self._cipher.encryptor().update(padder.update(content) + padder.finalize())

    def open(self, sealed: bytes) -> bytes:
        """Decrypt and unpad; bytes that cannot be content are `bad_record`."""
        if len(sealed) % 8:
            raise DecodeError("bad_record")
        unpadder = block_padding.PKCS7(64).unpadder()
        try:
            return unpadder.update(self._cipher.decryptor().update(sealed)) + unpadder.finalize()
        except ValueError as error:
            raise DecodeError("bad_record") from error


# -- captures --------------------------------------------------------------------------------------


_NAMES = {"seed": "content_key", "hipush": "des_key"}


def key_line(name: str, key: bytes) -> str:
    """Return a line of a key log with one key: `content_key` or `des_key`."""
    return json.dumps({"protocol": "comet", name: key.hex()})


class Opener:
    """Opens the content of notifications, in any order: a capture may have gaps."""

    keys_text: ClassVar[str] = '{"content_key": "hex"}; in dialect hipush {"des_key": "hex"}'

    def __init__(self, keys: dict[str, Any], direction: Direction | None, dialect: str):  # noqa: ARG002
        self._content: Any = None
        self._des: Any = None
        if not keys:
            return
        name = _NAMES.get(dialect, "content_key")
        if not isinstance(keys.get(name), str):
            raise ValueError(f"expected {name}, a hexadecimal string")
        try:
            key = bytes.fromhex(keys[name])
        except ValueError as error:
            raise ValueError(f"{name}: not hexadecimal") from error
        if name == "des_key":
            self._des = HipushContent(key, legacy_hipush=True)
        else:
            self._content = ContentOpener(key)

    def open(self, message: Any, raw: bytes) -> dict[str, object]:  # noqa: ARG002
        """Return `content` of a notification, `contents` of a list of them."""
        if self._content is None and self._des is None:
            return {}
        if isinstance(message, Notification):
            return {"content": self._one(message)}
        if isinstance(message, MessageList):
            return {"contents": [self._item(each) for each in message.messages]}
        return {}

    def _item(self, notification: Notification) -> object:
        """Return the content of a list item, or the error that it does not open with."""
        try:
            return self._one(notification)
        except WireError as error:
            return {"error": error.code}

    def _one(self, notification: Notification) -> str | bytes:
        if self._des is not None:
            plain: bytes = self._des.open(notification.content)
        else:
            _, plain = self._content.peek(
                notification.content,
                msg_type=notification.msg_type,
                msg_id=notification.msg_id.encode("utf-8", "surrogateescape"),
                ts=notification.ts,
            )
        try:
            return plain.decode()
        except UnicodeDecodeError:
            return plain
