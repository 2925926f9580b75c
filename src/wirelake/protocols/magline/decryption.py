"""Opens magline frames for readers of captures: `Opener(keys, direction, dialect)`.

Keys are hexadecimal texts: `c2s_enc` (32 bytes), `c2s_iv` (12) and `c2s_mac` (32, may be left out:
then nothing is verified), and the same for `s2c`. Further names, as in a key log, are ignored.
"""

from __future__ import annotations

from typing import Any, Final

from wirelake.wire.model import Direction

from .layout import Ack, Err, Fin, Frame, Pin, Pon, Psh, Rep, Req, Syn

__all__ = ["Opener"]

_WAYS: Final[dict[type, Direction]] = {
    Syn: "c2s",
    Pin: "c2s",
    Req: "c2s",
    Ack: "s2c",
    Pon: "s2c",
    Rep: "s2c",
    Psh: "s2c",
}
"""Commands that only one side sends."""


class Opener:
    """Opens frames of both directions; what only one side sends tells its own direction."""

    def __init__(self, keys: dict[str, Any], direction: Direction | None, dialect: str):  # noqa: ARG002
        self._direction = direction
        self._keys: dict[Direction, Any] = {}
        self._ciphers: dict[Direction, Any] = {}
        directions: tuple[Direction, ...] = ("c2s", "s2c")
        for way in directions:
            if f"{way}_enc" in keys:
                self._keys[way] = _direction_keys(keys, way)
        if keys and not self._keys:
            raise ValueError("wanted c2s_enc and c2s_iv, or s2c_enc and s2c_iv")

    def open(self, message: Any, raw: bytes) -> dict[str, object]:
        """`data` and `hmac_state` of a data frame, `auth_state` of a control frame."""
        if not isinstance(message, Frame) or isinstance(message.body, Syn | Ack):
            return {}
        way = _WAYS.get(type(message.body), self._direction)
        if way is None or way not in self._keys:
            return {}
        cipher = self._cipher(way)
        if isinstance(message.body, Req | Rep | Psh):
            opened = cipher.open_data(raw)
            return {"data": opened.data, "hmac_state": opened.hmac_state}
        assert isinstance(message.body, Err | Pin | Pon | Fin)
        return {"auth_state": cipher.open_control(raw)}

    def _cipher(self, way: Direction) -> Any:
        """Made when it is first needed: a reader may be given many more keys than it uses."""
        if way not in self._ciphers:
            from .records import RecordCipher

            self._ciphers[way] = RecordCipher(self._keys[way])
        return self._ciphers[way]


def _direction_keys(keys: dict[str, Any], way: Direction) -> Any:
    from .records import DirectionKeys  # cryptography, needed for keys alone

    mac = _bytes(keys, f"{way}_mac") if keys.get(f"{way}_mac") is not None else None
    return DirectionKeys(_bytes(keys, f"{way}_enc"), _bytes(keys, f"{way}_iv"), mac)


def _bytes(keys: dict[str, Any], name: str) -> bytes:
    text = keys.get(name)
    if not isinstance(text, str):
        raise ValueError(f"{name}: wanted hexadecimal text")
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ValueError(f"{name}: not hexadecimal") from error
