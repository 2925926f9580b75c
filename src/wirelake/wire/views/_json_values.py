"""Single values as JSON and back: numbers, texts, bytes, and the objects for what JSON lacks."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

from ..errors import EncodeError

__all__ = ["MaskedError", "key_of"]


class MaskedError(EncodeError):
    """JSON with a masked secret cannot become bytes."""

    __slots__ = ()


def key_of(name: str) -> str:
    """The JSON key of a field: its name, kept apart from the object's own `type`."""
    return f"{name}_" if name.rstrip("_") == "type" else name


# -- to JSON ---------------------------------------------------------------------------------


def text_out(text: str) -> Any:
    """A text, or its bytes when they are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"hex": text.encode("utf-8", "surrogateescape").hex()}
    return text


def float_out(value: float) -> Any:
    """A number, or its bits when JSON has no such number."""
    if math.isfinite(value) and (value or math.copysign(1, value) > 0):
        return value
    return {"float": repr(value), "bits": struct.pack(">d", value).hex()}


# -- from JSON -------------------------------------------------------------------------------


def bad(path: str, why: str) -> EncodeError:
    """The error of a value that cannot stand where it does."""
    return EncodeError("bad_value", path, None, why)


def object_in(data: Any, path: str) -> dict[str, Any]:
    """A copy of an object, which is not the mask of a secret."""
    if not isinstance(data, dict):
        raise bad(path, f"wanted an object, got {_what(data)}")
    if data.keys() == {"masked"}:
        raise MaskedError("bad_value", path, None, "masked; decode it again with --reveal")
    return dict(data)


def _refuse_mask(data: Any, path: str) -> None:
    if isinstance(data, dict):
        object_in(data, path)


def _what(data: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean"}
    return "null" if data is None else names.get(type(data), "a number")


def int_in(data: Any, path: str) -> int:
    """A whole number."""
    if isinstance(data, int) and not isinstance(data, bool):
        return data
    _refuse_mask(data, path)
    raise bad(path, f"wanted a whole number, got {_what(data)}")


def bool_in(data: Any, path: str) -> bool:
    """True or false."""
    if isinstance(data, bool):
        return data
    raise bad(path, f"wanted true or false, got {_what(data)}")


def float_in(data: Any, path: str) -> float:
    """A number, or an object with its bits."""
    if isinstance(data, float | int) and not isinstance(data, bool):
        try:
            return float(data)
        except OverflowError as error:
            raise bad(path, "too large for a float") from error
    if isinstance(data, dict) and "bits" in object_in(data, path):
        bits = bytes_in(data["bits"], path)
        if len(bits) == 8:
            return float(struct.unpack(">d", bits)[0])
    raise bad(path, f"wanted a number or {{float, bits}}, got {_what(data)}")


def text_in(data: Any, path: str) -> str:
    """A text, or an object with its bytes."""
    if isinstance(data, str):
        return data
    if isinstance(data, dict) and object_in(data, path).keys() == {"hex"}:
        return bytes_in(data["hex"], path).decode("utf-8", "surrogateescape")
    raise bad(path, f"wanted text or {{hex}}, got {_what(data)}")


def bytes_in(data: Any, path: str) -> bytes:
    """Bytes, from hexadecimal text."""
    _refuse_mask(data, path)
    if not isinstance(data, str):
        raise bad(path, f"wanted bytes as hexadecimal text, got {_what(data)}")
    try:
        return bytes.fromhex(data)
    except ValueError as error:
        raise bad(path, "not hexadecimal") from error


def list_in(data: Any, path: str) -> list[Any]:
    """A list."""
    if isinstance(data, list):
        return data
    _refuse_mask(data, path)
    raise bad(path, f"wanted a list, got {_what(data)}")


def pairs_in(data: Any, path: str) -> Iterator[tuple[Any, Any]]:
    """The pairs of a list of pairs."""
    for item in list_in(data, path):
        if not isinstance(item, list) or len(item) != 2:
            raise bad(path, "wanted a list of pairs")
        yield item[0], item[1]
