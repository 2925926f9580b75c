"""magline frames as test vectors write them, for `vectors.py`."""

from __future__ import annotations

import struct
from typing import Any, Final

from . import layout
from .layout import Cmd, Frame
from .records import AuthState

__all__ = ["COMMANDS", "LEGAL", "OPTIONAL", "fields_view", "head_view", "legacy_view"]

COMMANDS: Final[dict[type, Cmd]] = {
    layout.Syn: Cmd.SYN,
    layout.Ack: Cmd.ACK,
    layout.Err: Cmd.ERR,
    layout.Pin: Cmd.PIN,
    layout.Pon: Cmd.PON,
    layout.Req: Cmd.REQ,
    layout.Rep: Cmd.REP,
    layout.Psh: Cmd.PSH,
    layout.Fin: Cmd.FIN,
}
"""The command of each body."""

LEGAL: Final[dict[str, frozenset[Cmd]]] = {
    "c2s": frozenset({Cmd.SYN, Cmd.ERR, Cmd.PIN, Cmd.REQ, Cmd.FIN}),
    "s2c": frozenset({Cmd.ACK, Cmd.ERR, Cmd.PON, Cmd.REP, Cmd.PSH, Cmd.FIN}),
}
"""Which commands may come in a direction."""

OPTIONAL: Final = frozenset({"hmac", "ciphertext"})
"""Fields that a vector may leave out: the HMAC is checked, and the ciphertext decrypted, anyway."""

_HEAD: Final = struct.Struct(">BBHHHII")
_HEAD_NAMES: Final = (
    "magic",
    "version",
    "cmd",
    "head_optional",
    "head_length",
    "seq",
    "message_length",
)
_LEGACY: Final = struct.Struct("<BBHII")


def head_view(data: bytes) -> dict[str, int]:
    """The fields of a head; none when it is not all there."""
    if len(data) < _HEAD.size:
        return {}
    return dict(zip(_HEAD_NAMES, _HEAD.unpack_from(data), strict=True))


def legacy_view(data: bytes) -> dict[str, int]:
    """The head of the older protocol of the same name: 12 bytes, little-endian."""
    if len(data) < _LEGACY.size:
        return {}
    names = ("magic", "version", "cmd", "seq", "length")
    return dict(zip(names, _LEGACY.unpack_from(data), strict=True))


def fields_view(frame: Frame, auth: AuthState, hmac_state: str | None) -> dict[str, Any]:
    """The fields of a frame's body and its options."""
    view: dict[str, Any] = {}
    body = frame.body
    for name in body.__struct_fields__:
        value = getattr(body, name)
        key = "ciphertext" if name == "data" else name
        view[key] = value.hex() if isinstance(value, bytes) else value
    if isinstance(body, layout.Err | layout.Pin | layout.Pon | layout.Fin):
        view["auth"] = auth
    if hmac_state is not None:
        view["hmac_state"] = hmac_state
    if frame.reply_to is not None:
        view["reply_to"] = frame.reply_to
    if frame.key_id is not None:
        view["key_id"] = frame.key_id.hex()
    if frame.resume is not None:
        view["resume_sid"] = frame.resume.sid.hex()
        view["binder"] = frame.resume.binder.hex()
    if frame.unknown_options:
        view["unknown_options"] = [bit for bit, _ in frame.unknown_options]
    return view
