"""Messages as JSON and back: what `wirelake decode --json` prints and `wirelake encode` reads.

    {"type": "auth", "client_id": "c1", "token": {"masked": 37}}

A layout is an object whose `type` is its name. Numbers are exact; `wirelake decode` prints large
ones as text, which is read back. Bytes are hexadecimal, None is left out. What JSON cannot say gets
an object of its own:

    text that is not valid UTF-8        {"hex": "ff"}
    NaN, infinities, minus zero         {"float": "nan", "bits": "7ff8000000000000"}
    a secret, unless it is revealed     {"masked": 37}     (its size; cannot be encoded)

A `Var` is `{"type": "int32", "value": 1}`, a map's value is a list of [key, Var]. A stored field
that is itself called `type` is written `type_`.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import msgspec

from .. import model as m
from ..declare import snake_case
from ..errors import EncodeError, unknown
from ..walk import is_content

__all__ = ["JsonReader", "MaskedError", "from_json", "key_of", "to_json"]


def to_json(
    layout: m.Layout, value: Any, *, reveal: bool = False, content: bool = True
) -> dict[str, Any]:
    """Return a decoded message as a JSON-able object; secrets are masked unless `reveal`, and the
    application's content unless `content`."""
    return _Writer(reveal, content).layout(layout, value)


def from_json(
    layout: m.Layout, data: Any, *, write: Callable[[m.Layout, Any], bytes] | None = None
) -> Any:
    """Return the message of an object. Raises EncodeError `bad_value`, naming the field.

    A field that holds another layout once a transform is undone may be given as that layout's
    object instead of bytes; `write` then makes the bytes, in the clear.
    """
    try:
        return JsonReader(write).layout(layout, data, "")
    except RecursionError as error:
        raise EncodeError("too_deep", layout.name) from error


class _Writer:
    def __init__(self, reveal: bool, content: bool):
        self.reveal = reveal
        self.content = content

    def layout(self, layout: m.Layout, value: Any) -> dict[str, Any]:
        body = layout.body
        if layout.transparent and body is not None:
            return self.body(body, value)
        data: dict[str, Any] = {"type": layout.name}
        for part in layout.parts:
            self.part(part, value, data)
        if layout.unknown:
            unknown = getattr(value, layout.unknown)
            if unknown:
                data[layout.unknown] = self.raw(unknown)
        return data

    def part(self, part: m.Part, value: Any, data: dict[str, Any]) -> None:
        match part:
            case m.Field():
                self.store(data, part.name, part.type, getattr(value, part.name), part.secret)
            case m.BitGroup():
                for bit in part.bits:
                    if bit.role == "stored":
                        stored = getattr(value, bit.name)
                        data[key_of(bit.name)] = bool(stored) if bit.flag else int(stored)
            case m.Options():
                for option in part.fields:
                    self.store(
                        data, option.name, option.type, getattr(value, option.name), option.secret
                    )
                unknown = getattr(value, part.unknown)
                if unknown:
                    data[key_of(part.unknown)] = [[bit, self.raw(raw)] for bit, raw in unknown]
            case m.Body():
                data[key_of(part.name)] = self.body(part, getattr(value, part.name))
            case _:
                pass

    def store(
        self, data: dict[str, Any], name: str, kind: m.Type, value: Any, secret: bool
    ) -> None:
        if value is None:
            return
        hidden = (secret and not self.reveal) or (is_content(kind) and not self.content)
        data[key_of(name)] = _masked(value) if hidden else self.value(kind, value)

    def body(self, body: m.Body, value: Any) -> dict[str, Any]:
        for alternative in body.alternatives:
            if alternative.layout.cls is type(value):
                return self.layout(alternative.layout, value)
        raise EncodeError("bad_value", body.name, None, f"{type(value).__name__} is not a body")

    def value(self, kind: m.Type, value: Any) -> Any:
        match kind:
            case m.Int() | m.Varint():
                return int(value)
            case m.Float():
                return float_out(value)
            case m.Bool():
                return bool(value)
            case m.Fixed():
                return value.hex()
            case m.Blob():
                return text_out(value) if isinstance(value, str) else value.hex()
            case m.Nested():
                return self.layout(kind.layout, value)
            case m.Many():
                return [self.value(kind.item, item) for item in value]
            case m.Dynamic():
                return self.dynamic(kind, value)
            case m.Rows():
                return [self.row(kind, row) for row in value]

    def dynamic(self, kind: m.Dynamic, value: Any) -> dict[str, Any]:
        found = next(k for k in kind.kinds if k.tag == value.type)
        data: dict[str, Any] = {"type": found.name}
        match found.type:
            case None:
                return data
            case m.Pairs():
                pairs = [[text_out(key), self.dynamic(kind, item)] for key, item in value.value]
                data["value"] = pairs
            case m.Items():
                data["value"] = [self.dynamic(kind, item) for item in value.value]
            case inner:
                data["value"] = self.value(inner, value.value)
        return data

    def row(self, rows: m.Rows, row: Any) -> dict[str, Any]:
        for alternative in rows.alternatives:
            if alternative.layout.cls is type(row):
                return self.layout(alternative.layout, row)
        data: dict[str, Any] = {"type": snake_case(type(row).__name__)}
        for name, stored in msgspec.structs.asdict(row).items():
            data[key_of(name)] = self.raw(stored) if isinstance(stored, bytes) else stored
        return data

    def raw(self, data: bytes) -> str | dict[str, int]:
        """Return bytes that no layout describes."""
        return data.hex() if self.content else _masked(data)


def _masked(value: object) -> dict[str, int]:
    return {"masked": len(value) if isinstance(value, str | bytes | tuple) else 1}


# -- from JSON to messages -------------------------------------------------------------------------


_MISSING = object()


class JsonReader:
    """Builds the values of layouts from JSON; names the place of what is wrong."""

    def __init__(self, write: Callable[[m.Layout, Any], bytes] | None = None):
        self.write = write

    def layout(self, layout: m.Layout, data: Any, path: str) -> Any:
        body = layout.body
        if layout.transparent and body is not None:
            return self.body(body, data, path)
        where = path or layout.name
        given = object_in(data, where)
        kind = given.pop("type", layout.name)
        if kind != layout.name:
            raise bad(where, f"expected type {layout.name!r}, got {kind!r}")
        values: dict[str, Any] = {}
        for part in layout.parts:
            self.part(part, given, values, where)
        if layout.unknown and layout.unknown in given:
            values[layout.unknown] = bytes_in(
                given.pop(layout.unknown), f"{where}.{layout.unknown}"
            )
        if given:
            raise bad(where, f"has no field {next(iter(given))!r}")
        return _build(layout.cls, values, where)

    def part(self, part: m.Part, given: dict[str, Any], values: dict[str, Any], where: str) -> None:
        match part:
            case m.Field():
                if (data := _pop(given, part.name)) is not _MISSING:
                    values[part.name] = self.field(part, data, f"{where}.{part.name}")
            case m.BitGroup():
                for bit in part.bits:
                    if bit.role == "stored" and (data := _pop(given, bit.name)) is not _MISSING:
                        at = f"{where}.{bit.name}"
                        number = int_in(_named(data, bit.names), at) if not bit.flag else data
                        values[bit.name] = bool_in(number, at) if bit.flag else number
            case m.Options():
                self.options(part, given, values, where)
            case m.Body():
                at = f"{where}.{part.name}"
                if (data := _pop(given, part.name)) is not _MISSING:
                    values[part.name] = self.body(part, data, at)
            case _:
                pass

    def field(self, part: m.Field, data: Any, path: str) -> Any:
        if data is None:
            return None
        if part.stage is not None and self.write is not None and isinstance(data, dict):
            return self.write(part.stage, self.layout(part.stage, data, path))
        return self.value(part.type, _named(data, part.names), path)

    def options(
        self, part: m.Options, given: dict[str, Any], values: dict[str, Any], where: str
    ) -> None:
        for option in part.fields:
            data = _pop(given, option.name)
            if data is not _MISSING and data is not None:
                values[option.name] = self.value(option.type, data, f"{where}.{option.name}")
        if (data := _pop(given, part.unknown)) is not _MISSING:
            at = f"{where}.{part.unknown}"
            values[part.unknown] = tuple(
                (int_in(bit, at), bytes_in(raw, at)) for bit, raw in pairs_in(data, at)
            )

    def body(self, body: m.Body, data: Any, path: str) -> Any:
        where = path or body.name
        kind = object_in(data, where).get("type")
        for alternative in body.alternatives:
            if alternative.layout.name == kind:
                return self.layout(alternative.layout, data, path)
        known = dict.fromkeys(a.layout.name for a in body.alternatives)
        raise bad(where, unknown("type", kind, known))

    def value(self, kind: m.Type, data: Any, path: str) -> Any:
        match kind:
            case m.Int() | m.Varint():
                return int_in(data, path)
            case m.Float():
                return float_in(data, path)
            case m.Bool():
                return bool_in(data, path)
            case m.Fixed():
                return bytes_in(data, path)
            case m.Blob():
                return bytes_in(data, path) if kind.text is None else text_in(data, path)
            case m.Nested():
                return self.layout(kind.layout, data, path)
            case m.Many():
                items = enumerate(list_in(data, path))
                return tuple(self.value(kind.item, item, f"{path}[{i}]") for i, item in items)
            case m.Dynamic():
                return self.dynamic(kind, data, path)
            case m.Rows():
                items = enumerate(list_in(data, path))
                return tuple(self.row(kind, item, f"{path}[{i}]") for i, item in items)

    def dynamic(self, kind: m.Dynamic, data: Any, path: str) -> Any:
        given = object_in(data, path)
        name, value = given.pop("type", None), given.pop("value", None)
        found = next((k for k in kind.kinds if k.name == name), None)
        if found is None:
            raise bad(path, unknown("type", name, [each.name for each in kind.kinds]))
        if given:
            raise bad(path, f"has no field {next(iter(given))!r}")
        return kind.cls(type=found.tag, value=self.content(kind, found.type, value, path))

    def content(self, kind: m.Dynamic, inner: Any, value: Any, path: str) -> Any:
        match inner:
            case None:
                if value is not None:
                    raise bad(path, "a null has no value")
                return None
            case m.Pairs():
                return tuple(
                    (text_in(key, path), self.dynamic(kind, item, f"{path}.{key}"))
                    for key, item in pairs_in(value, path)
                )
            case m.Items():
                items = enumerate(list_in(value, path))
                return tuple(self.dynamic(kind, item, f"{path}[{i}]") for i, item in items)
            case _:
                return self.value(inner, value, path)

    def row(self, rows: m.Rows, data: Any, path: str) -> Any:
        given = object_in(data, path)
        name = given.get("type")
        for alternative in rows.alternatives:
            if alternative.layout.name == name:
                return self.layout(alternative.layout, given, path)
        for cls in (rows.opaque, rows.broken):
            if name == snake_case(cls.__name__):
                return self.plain_row(cls, given, path)
        known = [*(a.layout.name for a in rows.alternatives), snake_case(rows.opaque.__name__)]
        raise bad(path, unknown("type", name, known))

    def plain_row(self, cls: type, given: dict[str, Any], path: str) -> Any:
        """Return an opaque or broken row: numbers, texts and bytes."""
        given.pop("type")
        values: dict[str, Any] = {}
        read = {int: int_in, str: text_in, bytes: bytes_in}
        for name, hint in get_type_hints(cls).items():
            if hint in read and (data := _pop(given, name)) is not _MISSING:
                values[name] = read[hint](data, f"{path}.{name}")
        if given:
            raise bad(path, f"has no field {next(iter(given))!r}")
        return _build(cls, values, path)


def _pop(given: dict[str, Any], name: str) -> Any:
    return given.pop(key_of(name), _MISSING)


def _named(data: Any, names: m.EnumClass | None) -> Any:
    """Return a number given by its name."""
    if isinstance(data, str) and names is not None and data.upper() in names.__members__:
        return int(names[data.upper()])
    return data


def _build(cls: type, values: dict[str, Any], path: str) -> Any:
    try:
        return cls(**values)
    except TypeError as error:
        raise bad(path, str(error)) from error


# -- single values ---------------------------------------------------------------------------------


class MaskedError(EncodeError):
    """JSON with a masked secret cannot be encoded."""

    __slots__ = ()


def key_of(name: str) -> str:
    """Return the JSON key of a field: its name, kept apart from the object's own `type`."""
    return f"{name}_" if name.rstrip("_") == "type" else name


# -- to JSON ---------------------------------------------------------------------------------


def text_out(text: str) -> Any:
    """Return a text, or its bytes when they are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"hex": text.encode("utf-8", "surrogateescape").hex()}
    return text


def float_out(value: float) -> Any:
    """Return a number, or its bits when JSON has no such number."""
    if math.isfinite(value) and (value or math.copysign(1, value) > 0):
        return value
    return {"float": repr(value), "bits": struct.pack(">d", value).hex()}


# -- from JSON -------------------------------------------------------------------------------


def bad(path: str, why: str) -> EncodeError:
    """Return the error of an invalid value at a path."""
    return EncodeError("bad_value", path, None, why)


def object_in(data: Any, path: str) -> dict[str, Any]:
    """Return a copy of an object, which is not the mask of a secret."""
    if not isinstance(data, dict):
        raise bad(path, f"expected an object, got {_what(data)}")
    if data.keys() == {"masked"}:
        raise MaskedError("bad_value", path, None, "masked; decode it again with --reveal")
    return dict(data)


def _refuse_mask(data: Any, path: str) -> None:
    if isinstance(data, dict):
        object_in(data, path)


def _what(data: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean"}
    return "null" if data is None else names.get(type(data), "a number")


_DIGITS = re.compile(r"-?[0-9]{1,20}")


def int_in(data: Any, path: str) -> int:
    """Return an integer; as text it may have more digits than readers of JSON keep."""
    if isinstance(data, int) and not isinstance(data, bool):
        return data
    if isinstance(data, str) and _DIGITS.fullmatch(data):
        return int(data)
    _refuse_mask(data, path)
    raise bad(path, f"expected an integer, got {_what(data)}")


def bool_in(data: Any, path: str) -> bool:
    """Return a boolean."""
    if isinstance(data, bool):
        return data
    raise bad(path, f"expected true or false, got {_what(data)}")


def float_in(data: Any, path: str) -> float:
    """Return a number, or an object with its bits."""
    if isinstance(data, float | int) and not isinstance(data, bool):
        try:
            return float(data)
        except OverflowError as error:
            raise bad(path, "too large for a float") from error
    if isinstance(data, dict) and "bits" in object_in(data, path):
        bits = bytes_in(data["bits"], path)
        if len(bits) == 8:
            return float(struct.unpack(">d", bits)[0])
    raise bad(path, f"expected a number or {{float, bits}}, got {_what(data)}")


def text_in(data: Any, path: str) -> str:
    """Return a text, or an object with its bytes."""
    if isinstance(data, str):
        return data
    if isinstance(data, dict) and object_in(data, path).keys() == {"hex"}:
        return bytes_in(data["hex"], path).decode("utf-8", "surrogateescape")
    raise bad(path, f"expected text or {{hex}}, got {_what(data)}")


def bytes_in(data: Any, path: str) -> bytes:
    """Return bytes, from hexadecimal text."""
    _refuse_mask(data, path)
    if not isinstance(data, str):
        raise bad(path, f"expected bytes as a hexadecimal string, got {_what(data)}")
    try:
        return bytes.fromhex(data)
    except ValueError as error:
        raise bad(path, "not hexadecimal") from error


def list_in(data: Any, path: str) -> list[Any]:
    """Return a list."""
    if isinstance(data, list):
        return data
    _refuse_mask(data, path)
    raise bad(path, f"expected a list, got {_what(data)}")


def pairs_in(data: Any, path: str) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of a list of pairs."""
    for item in list_in(data, path):
        if not isinstance(item, list) or len(item) != 2:
            raise bad(path, "expected a list of pairs")
        yield item[0], item[1]
