"""Opens the content of tny packets for readers of captures: `Opener(keys, direction, dialect)`.

Keys: `security_keys` (a list of texts) and, where they differ from the defaults, `max_waste_bits`
and `skip_step`; `verify`, `encrypt`, `waste` demand an option, as a receiver may.
"""

from __future__ import annotations

from typing import Any

import msgspec

from wirelake.wire.errors import DecodeError
from wirelake.wire.model import Direction

from .layout import Envelope, Packet
from .protocol import PROTOCOL
from .transform import MAX_SKIP_STEP, Dialect, PacketCodes, PacketContext, TransformConfig

__all__ = ["Opener"]

_FLAGS = ("verify", "encrypt", "waste")
_NUMBERS = ("max_waste_bits", "skip_step")


class Opener:
    """Follows one direction of one connection, from its first packet or from later on.

    Without keys it reads what is not transformed at all, and leaves the rest sealed.
    """

    def __init__(
        self,
        keys: dict[str, Any],
        direction: Direction | None,  # noqa: ARG002 - the same shape for every protocol
        dialect: str,
    ):
        known: Dialect = "upstream" if dialect == "upstream" else "seed"
        self._dialect = dialect
        self._context = PacketContext(known, _config(keys)) if keys else None

    @property
    def memory(self) -> list[int] | None:
        """The packet-code generator at the last packet, as data; None before the first packet.

        Another opener with the same keys can continue from it.
        """
        codes = None if self._context is None else self._context.codes
        return None if codes is None else list(msgspec.structs.astuple(codes))

    @memory.setter
    def memory(self, saved: list[int]) -> None:
        if self._context is not None:
            self._context.resume(PacketCodes(*saved))

    def open(self, message: Any, raw: bytes) -> dict[str, object]:  # noqa: ARG002
        """`content`, the plaintext, and `message`, the Message that it holds."""
        if not isinstance(message, Packet) or not isinstance(message.body, Envelope):
            return {}
        content = self._plaintext(message, message.body)
        if content is None:
            return {}
        read = PROTOCOL.codec(self._dialect).read_message
        inner, stop = read(content, 0, len(content))
        if stop != len(content):
            raise DecodeError("trailing_bytes", "message", stop, f"{len(content) - stop} left")
        return {"content": content, "message": inner}

    def _plaintext(self, packet: Packet, envelope: Envelope) -> bytes | None:
        if self._context is not None:
            return self._context.open(
                envelope.access_id,
                envelope.number,
                envelope.content,
                waste=packet.waste,
                encrypt=packet.encrypt,
                verify=packet.verify,
            )
        sealed = packet.waste or packet.encrypt or packet.verify
        return None if sealed else envelope.content


def _config(keys: dict[str, Any]) -> TransformConfig:
    known = ("security_keys", *_FLAGS, *_NUMBERS)
    for name in keys:
        if name not in known:
            raise ValueError(f"no key {name!r}; tny has {', '.join(known)}")
    texts = keys.get("security_keys", [])
    if not isinstance(texts, list):
        raise ValueError("security_keys: wanted a list of texts")
    options: dict[str, Any] = {"skip_step": MAX_SKIP_STEP}  # a capture may begin anywhere
    for name in (*_FLAGS, *_NUMBERS):
        if name not in keys:
            continue
        kind, words = (bool, "true or false") if name in _FLAGS else (int, "a whole number")
        if type(keys[name]) is not kind:
            raise ValueError(f"{name}: wanted {words}")
        options[name] = keys[name]
    return TransformConfig(security_keys=tuple(texts), **options)
