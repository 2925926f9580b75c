"""magline's key agreement: from SYN and ACK to the keys of a connection, and its resumption.

Implements §4.2 (modes), §4.3 (key schedule), §4.4 (the sealed session id) and §4.10 (binders) of
the magline rules. Nothing is negotiated: both sides are configured with the same mode, and a
mismatch shows as a bad tag in the ACK.

    K    the ephemeral X25519 secret          SS   with the pinned server key, or zeros
    NK   SHA-256 of both Randoms and K        PS   resumption secret, hashed psk, or zeros
    TH   SHA-256 of mode, server key, SYN and ACK up to the sealed session id
    PRK  HMAC(TH, NK || SS || PS), from which every key is expanded under its own label

Random and public key are the last fixed-size fields of both bodies, so they are read from the
frames themselves: what is hashed and what is used cannot differ. Private keys, Randoms and session
ids are arguments. Python cannot wipe memory; drop what is no longer needed.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field, fields
from enum import IntFlag
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from wirelake.wire.errors import DecodeError, EncodeError

from .layout import HEAD_BYTES, IV_BYTES, RESUME_OPTION
from .records import TAG_SIZE, DirectionKeys, find_option

__all__ = [
    "KEY_SIZE",
    "RESUME_OPTION",
    "SEALED_SID_SIZE",
    "SID_SIZE",
    "Mode",
    "SessionKeys",
    "bind_syn",
    "client_keys",
    "derive_keys",
    "open_sid",
    "psk_key_id",
    "resume_sid",
    "seal_sid",
    "server_key_id",
    "server_keys",
    "verify_binder",
    "x25519_public",
    "x25519_shared",
]

KEY_SIZE: Final = 32
"""Size of X25519 keys, Randoms, psks and resumption secrets."""
SID_SIZE: Final = 16
"""Size of a session id. It is random, because a guessable one would invite takeovers."""
SEALED_SID_SIZE: Final = SID_SIZE + TAG_SIZE
"""Size of the last field of an ACK."""

_LABEL: Final = b"magline 102 "
_ZEROS: Final = bytes(KEY_SIZE)


class Mode(IntFlag):
    """How the two sides authenticate each other (§4.2); bits are configured, never negotiated.

    ANONYMOUS protects against passive listeners only and must be requested explicitly.
    """

    ANONYMOUS = 0
    PINNED = 1
    PSK = 2
    RESUME = 4


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """Every value of one connection's key schedule, named as in §4.3; its repr shows the mode only.

    `res` seeds the next resumption, `exporter` binds a login to this connection (§4.12).
    """

    mode: Mode
    k: bytes = field(repr=False)
    nk: bytes = field(repr=False)
    th: bytes = field(repr=False)
    prk: bytes = field(repr=False)
    ack_enc: bytes = field(repr=False)
    ack_mac: bytes = field(repr=False)
    c2s_enc: bytes = field(repr=False)
    c2s_iv: bytes = field(repr=False)
    c2s_mac: bytes = field(repr=False)
    s2c_enc: bytes = field(repr=False)
    s2c_iv: bytes = field(repr=False)
    s2c_mac: bytes = field(repr=False)
    res: bytes = field(repr=False)
    exporter: bytes = field(repr=False)

    @property
    def c2s(self) -> DirectionKeys:
        """The record keys of what the client sends."""
        return DirectionKeys(self.c2s_enc, self.c2s_iv, self.c2s_mac)

    @property
    def s2c(self) -> DirectionKeys:
        """The record keys of what the server sends."""
        return DirectionKeys(self.s2c_enc, self.s2c_iv, self.s2c_mac)


# Everything after PRK is expanded under its own field name.
_EXPANDED: Final = tuple(f.name for f in fields(SessionKeys))[5:]


def x25519_public(private: bytes) -> bytes:
    """Return the public key that belongs to 32 private bytes."""
    return _private_key(private).public_key().public_bytes_raw()


def x25519_shared(private: bytes, public: bytes) -> bytes:
    """Return the shared secret with a peer's public key; an all-zero result is refused."""
    own = _private_key(private)
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise DecodeError("handshake_failed") from error


def _private_key(private: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(_exactly(KEY_SIZE, private, "private"))


def _exactly(size: int, value: bytes, name: str) -> bytes:
    if len(value) != size:
        raise EncodeError("bad_config", name, detail=f"expected exactly {size} bytes")
    return value


def server_key_id(server_public: bytes) -> bytes:
    """Return the KEY_ID of a pinned server key, by which a server finds it among several."""
    return sha256(
        b"magline 102 key id" + _exactly(KEY_SIZE, server_public, "server_public")
    ).digest()[:8]


def psk_key_id(psk: bytes) -> bytes:
    """Return the KEY_ID of a pre-shared key, which is 32 random bytes, never a passphrase."""
    return sha256(b"magline 102 psk id" + _exactly(KEY_SIZE, psk, "psk")).digest()[:8]


def client_keys(
    *,
    mode: Mode,
    private: bytes,
    syn: bytes,
    ack: bytes,
    server_public: bytes | None = None,
    psk: bytes | None = None,
    resumption: bytes | None = None,
) -> SessionKeys:
    """Return the client's keys, given its ephemeral key and the two whole frames.

    The keys must not be used before `open_sid` has verified the ACK with them.
    """
    ack_clear = ack[:-SEALED_SID_SIZE]
    return derive_keys(
        mode=mode,
        shared=x25519_shared(private, _public_in(ack_clear)),
        syn=syn,
        ack_clear=ack_clear,
        server_public=server_public,
        static_shared=None if server_public is None else x25519_shared(private, server_public),
        psk=psk,
        resumption=resumption,
    )


def server_keys(
    *,
    mode: Mode,
    private: bytes,
    syn: bytes,
    ack_clear: bytes,
    static_private: bytes | None = None,
    psk: bytes | None = None,
    resumption: bytes | None = None,
) -> SessionKeys:
    """Return the server's keys; `ack_clear` is the ACK frame without its last 32 bytes."""
    client_public = _public_in(syn)
    static = static_private
    return derive_keys(
        mode=mode,
        shared=x25519_shared(private, client_public),
        syn=syn,
        ack_clear=ack_clear,
        server_public=None if static is None else x25519_public(static),
        static_shared=None if static is None else x25519_shared(static, client_public),
        psk=psk,
        resumption=resumption,
    )


def derive_keys(
    *,
    mode: Mode,
    shared: bytes,
    syn: bytes,
    ack_clear: bytes,
    server_public: bytes | None = None,
    static_shared: bytes | None = None,
    psk: bytes | None = None,
    resumption: bytes | None = None,
) -> SessionKeys:
    """Return the key schedule of §4.3 from its inputs; the mode must agree with the secrets given.

    While resuming, the psk bit stays in the mode but the resumption secret takes the psk's place.
    """
    _check_mode(mode, server_public is not None, psk is not None, resumption is not None)
    static_public, static = _ZEROS, _ZEROS
    if server_public is not None:
        static_public = _exactly(KEY_SIZE, server_public, "server_public")
        static = _exactly(KEY_SIZE, static_shared or b"", "static_shared")
    # NK is the formula of the document's figure. Alone it binds neither public keys nor mode, so
    # TH, the hash of both frames and the mode, is the salt of the extraction: changing any byte of
    # the handshake on the way changes all keys (§4.3, §4.11). The order of inputs is fixed, and
    # each has a fixed length, so that no two sets of inputs concatenate to the same bytes.
    nk = sha256(
        _random_in(syn) + _random_in(ack_clear) + _exactly(KEY_SIZE, shared, "shared")
    ).digest()
    transcript = b"magline 102 handshake" + bytes([mode]) + static_public + syn + ack_clear
    th = sha256(transcript).digest()
    prk = hmac.digest(th, nk + static + _prior_secret(psk, resumption), "sha256")
    expanded = {name: _expand(prk, name.encode(), _key_size(name)) for name in _EXPANDED}
    return SessionKeys(mode=Mode(mode), k=shared, nk=nk, th=th, prk=prk, **expanded)


def _check_mode(mode: int, pinned: bool, psk: bool, resume: bool) -> None:
    wrong = (
        not 0 <= mode <= 7
        or bool(mode & Mode.PINNED) != pinned
        or bool(mode & Mode.RESUME) != resume
        or (bool(mode & Mode.PSK) != psk and not (resume and mode & Mode.PSK))
    )
    if wrong:
        raise EncodeError("bad_config", "mode", detail="the mode's bits and the secrets disagree")


def _prior_secret(psk: bytes | None, resumption: bytes | None) -> bytes:
    if resumption is not None:
        return _exactly(KEY_SIZE, resumption, "resumption")
    if psk is not None:
        return sha256(b"magline 102 psk" + _exactly(KEY_SIZE, psk, "psk")).digest()
    return _ZEROS


def _key_size(name: str) -> int:
    return IV_BYTES if name.endswith("_iv") else KEY_SIZE


def _expand(key: bytes, label: bytes, size: int) -> bytes:
    return HKDFExpand(algorithm=SHA256(), length=size, info=_LABEL + label).derive(key)


def _public_in(frame: bytes) -> bytes:
    return _checked_hello(frame)[-KEY_SIZE:]


def _random_in(frame: bytes) -> bytes:
    return _checked_hello(frame)[-2 * KEY_SIZE : -KEY_SIZE]


def _checked_hello(frame: bytes) -> bytes:
    if len(frame) < HEAD_BYTES + 2 * KEY_SIZE:
        raise DecodeError("bad_length", "handshake")
    return frame


def seal_sid(keys: SessionKeys, ack_clear: bytes, sid: bytes) -> bytes:
    """Return the last 32 bytes of an ACK: the encrypted session id and a tag over the frame."""
    ciphertext = _crypt_sid(keys, _exactly(SID_SIZE, sid, "sid"))
    return ciphertext + _ack_tag(keys, ack_clear, ciphertext)


def open_sid(keys: SessionKeys, ack: bytes) -> bytes:
    """Verify an ACK and return its session id. On failure, never retry in a weaker mode (§4.4)."""
    ack_clear, sealed = ack[:-SEALED_SID_SIZE], ack[-SEALED_SID_SIZE:]
    ciphertext, tag = sealed[:SID_SIZE], sealed[SID_SIZE:]
    if not hmac.compare_digest(_ack_tag(keys, ack_clear, ciphertext), tag):
        raise DecodeError("handshake_failed")
    return _crypt_sid(keys, ciphertext)


def _crypt_sid(keys: SessionKeys, sid: bytes) -> bytes:
    # A zero counter block is safe: the key is used for these 16 bytes and nothing else.
    return Cipher(AES(keys.ack_enc), CTR(bytes(16))).encryptor().update(sid)


def _ack_tag(keys: SessionKeys, ack_clear: bytes, ciphertext: bytes) -> bytes:
    return hmac.digest(keys.ack_mac, ack_clear + ciphertext, "sha256")[:TAG_SIZE]


def resume_sid(syn: bytes) -> bytes | None:
    """Return the session id that a SYN resumes; None for a plain SYN."""
    at = _binder_offset(syn)
    return None if at is None else syn[at - SID_SIZE : at]


def bind_syn(resumption: bytes, syn: bytes) -> bytes:
    """Fill in the binder of a reSYN frame, which proves the resumption secret."""
    try:
        at = _binder_offset(syn)
    except DecodeError as error:
        raise EncodeError("bad_value", "syn", detail=str(error)) from error
    if at is None:
        raise EncodeError("bad_value", "syn", detail="the SYN has no RESUME option")
    return syn[:at] + _binder(resumption, syn, at) + syn[at + TAG_SIZE :]


def verify_binder(resumption: bytes | None, syn: bytes) -> None:
    """Raise `session_unknown` for a wrong binder, or for an unknown session (None).

    Both cost the same work and give the same answer, so session ids cannot be probed (§4.10).
    """
    at = _binder_offset(syn)
    if at is None:
        raise DecodeError("session_unknown")
    expected = _binder(_ZEROS if resumption is None else resumption, syn, at)
    matches = hmac.compare_digest(expected, syn[at : at + TAG_SIZE])
    if resumption is None or not matches:
        raise DecodeError("session_unknown")


def _binder(resumption: bytes, syn: bytes, at: int) -> bytes:
    """Return the HMAC of the whole frame, with zeros in the place of the binder."""
    key = _expand(_exactly(KEY_SIZE, resumption, "resumption"), b"binder", KEY_SIZE)
    unbound = syn[:at] + bytes(TAG_SIZE) + syn[at + TAG_SIZE :]
    return hmac.digest(key, unbound, "sha256")[:TAG_SIZE]


def _binder_offset(syn: bytes) -> int | None:
    span = find_option(syn, RESUME_OPTION)
    if span is None:
        return None
    if span[1] - span[0] != SID_SIZE + TAG_SIZE:
        raise DecodeError("bad_option", "resume")
    return span[0] + SID_SIZE
