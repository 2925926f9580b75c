"""The keys of magline vectors, worked out from their SYN, their ACK and a private key.

A vector names what it belongs to (`keys_of`, `answers`) or leaves it to be found: an ACK answers
the SYN with which its tag is right. Private keys are found by their public keys, wherever in the
files they are written. Nothing is taken from `expect.keys`: those are compared with what comes out.

`REFERENCE` has the handshake that most vectors refer to, for files that are run without it. Its
keys are throw-away values made for testing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from wirelake.wire.errors import (
    DecodeError,
    NeedMore,
    WireError,
)

from ..expectation import (
    Context,
    Expect,
    VectorFailure,
    hex_bytes,
)
from .handshake import (
    Mode,
    SessionKeys,
    client_keys,
    open_sid,
    x25519_public,
)
from .layout import Ack, Frame, Syn
from .protocol import PROTOCOL

__all__ = ["REFERENCE", "Handshake", "agree", "keys_of", "keys_view", "private_for"]

_PRIVATES: Final = (
    "b8023ae2fde9f544066bcf9704cd01cd03f717b8987fb41ad2818b37e8edd94f",
    "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
    bytes(range(1, 33)).hex(),
    bytes(range(33, 65)).hex(),
)
_RANDOM_C, _RANDOM_S = bytes(range(32)).hex(), bytes(range(32, 64)).hex()
_SYN_BODY = _RANDOM_C + "79cbbe10ba8739ad195c42721afb57732f3d80bf7c0f0f79c1b3676ceda45c00"
_ACK_KEY = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
_SEALED = "59835d98cc4273f5c2a74fcfa0d5f891a79aa18e876d20a3d57325f1617e5abb"
_RESYN = (
    "404142434445464748494a4b4c4d4e4f1e6be8d60845b7e20ca7de5e4d64ff06"
    + bytes(range(128, 160)).hex()
    + "07a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2b86d1c7c"
)


def _syn(key_id: str) -> str:
    return f"7f6600010200000a000000010000004a0008{key_id}{_SYN_BODY}"


REFERENCE: Final[dict[str, dict[str, Any]]] = {
    "syn": {"hex": "7f660001000000000000000100000040" + _SYN_BODY, "expect": {}},
    "ack": {
        "hex": "7f660002000000000000000100000060" + _RANDOM_S + _ACK_KEY + _SEALED,
        "expect": {"mode": 0},
    },
    "syn_pinned": {"hex": _syn("3cd8523e1f82bdbf"), "expect": {}},
    "syn_psk": {"hex": _syn("d527a36e52dd2851"), "expect": {}},
    "resyn": {"hex": "7f6600010100002200000001000000620020" + _RESYN, "expect": {}},
}
"""The anonymous handshake, and the SYNs of the other modes."""


class Handshake(NamedTuple):
    """A SYN, its ACK, and what they agree on."""

    syn: bytes
    syn_frame: Frame
    keys: SessionKeys
    sid: bytes
    resumption: bytes | None


def private_for(public: bytes, context: Context) -> bytes | None:
    """A private key of some vector, by its public key."""
    known: dict[bytes, bytes] = context.cached(
        "magline private keys",
        lambda: {
            x25519_public(key): key for key in [*map(bytes.fromhex, _PRIVATES), *context.keys32()]
        },
    )
    return known.get(public)


def _frame(raw: dict[str, Any], cls: type) -> Frame | None:
    try:
        frame = PROTOCOL.decode(bytes.fromhex(raw["hex"])).message
    except (ValueError, NeedMore, WireError):
        return None
    return frame if isinstance(frame, Frame) and isinstance(frame.body, cls) else None


def _named(name: str, context: Context) -> dict[str, Any]:
    found = context.find("magline", name) or REFERENCE.get(name)
    if found is None:
        raise VectorFailure(f"no vector is called {name!r}, in any file of this run")
    return found


def _syns(expect: Expect, mode: int, context: Context) -> Iterator[tuple[dict[str, Any], Frame]]:
    """The SYNs that an ACK may answer."""
    if "answers" in expect:
        candidates = [_named(expect.text("answers"), context)]
    else:
        candidates = [*context.of("magline"), *REFERENCE.values()]
    for raw in candidates:
        frame = _frame(raw, Syn)
        if frame is None or (frame.resume is not None) != bool(mode & Mode.RESUME):
            continue
        if mode & Mode.RESUME or (frame.key_id is not None) == bool(mode):
            yield raw, frame


def agree(ack: bytes, expect: Expect, context: Context) -> Handshake:
    """The handshake that an ACK ends. Raises DecodeError `handshake_failed` when its tag is wrong.

    Reads `mode` and the secrets that belong to it from `expect`.
    """
    mode = expect.number("mode") if "mode" in expect else 0
    secrets: dict[str, bytes] = {}
    if "server_static_public" in expect:
        secrets["server_public"] = expect.octets("server_static_public")
    if "psk_hex" in expect:
        secrets["psk"] = expect.octets("psk_hex")
    for raw, frame in _syns(expect, mode, context):
        assert isinstance(frame.body, Syn)
        private = private_for(frame.body.public_key, context)
        if private is None:
            continue
        resumption = _resumption(raw, context) if mode & Mode.RESUME else None
        syn = bytes.fromhex(raw["hex"])
        if resumption is not None:
            secrets["resumption"] = resumption
        try:
            keys = client_keys(mode=Mode(mode), private=private, syn=syn, ack=ack, **secrets)
            return Handshake(syn, frame, keys, open_sid(keys, ack), resumption)
        except DecodeError:
            continue
        except WireError as error:
            raise VectorFailure(f"expect.mode: {error}") from None
    raise DecodeError("handshake_failed", "ack", None, "its tag is wrong for every SYN")


def _resumption(raw: dict[str, Any], context: Context) -> bytes:
    """The resumption secret that a reSYN proves; the reference session's unless it says so."""
    if "resumption_secret" in raw["expect"]:
        return hex_bytes(raw["expect"]["resumption_secret"], "resumption_secret")
    return keys_of("ack", context).res


def keys_of(name: str, context: Context) -> SessionKeys:
    """The keys of the handshake that the ACK of a vector ends."""

    def derive() -> SessionKeys:
        raw = _named(name, context)
        if _frame(raw, Ack) is None:
            raise VectorFailure(f"vector {name!r} is not an ACK")
        try:
            return agree(bytes.fromhex(raw["hex"]), Expect(raw["expect"]), context).keys
        except DecodeError as error:
            raise VectorFailure(f"vector {name!r}: {error}") from None

    keys: SessionKeys = context.cached(("magline keys", name), derive)
    return keys


def keys_view(keys: SessionKeys) -> dict[str, str]:
    """Every value of the key schedule, as vectors name them."""
    view = {name.upper(): getattr(keys, name).hex() for name in ("k", "nk", "th", "prk")}
    for name in keys.__dataclass_fields__:
        if name not in ("mode", "k", "nk", "th", "prk"):
            view[name] = getattr(keys, name).hex()
    return view
