"""Messages as JSON and back: what `wirehouse decode --json` prints and `wirehouse encode` reads.

    {"type": "auth", "client_id": "c1", "token": {"masked": 37}}

A layout is an object whose `type` is its name. Numbers are exact, bytes are hexadecimal, None is
left out. What JSON cannot say gets an object of its own:

    text that is not valid UTF-8        {"hex": "ff"}
    NaN, infinities, minus zero         {"float": "nan", "bits": "7ff8000000000000"}
    a secret, unless it is revealed     {"masked": 37}     (its size; cannot be encoded)

A `Var` is `{"type": "int32", "value": 1}`, a map's value is a list of [key, Var]. A stored field
that is itself called `type` is written `type_`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any, cast

from .. import model as m
from ..errors import EncodeError

__all__ = ["MaskedError", "from_json", "to_json"]

_MISSING = object()


class MaskedError(EncodeError):
    """JSON with a masked secret cannot become bytes."""

    __slots__ = ()


def to_json(layout: m.Layout, value: Any, *, reveal: bool = False) -> dict[str, Any]:
    """A decoded message as a JSON-able object; secrets are masked unless `reveal`."""
    return _Writer(reveal).layout(layout, value)


def from_json(layout: m.Layout, data: Any) -> Any:
    """The message that an object describes. Raises EncodeError `bad_value`, naming the field."""
    try:
        return _Reader().layout(layout, data, "")
    except RecursionError as error:
        raise EncodeError("too_deep", layout.name) from error


def key_of(name: str) -> str:
    """The JSON key of a field: its name, kept apart from the object's own `type`."""
    return f"{name}_" if name.rstrip("_") == "type" else name


def _row_layouts(rows: m.Rows) -> dict[str, m.Layout]:
    return {a.layout.name: a.layout for a in reversed(rows.alternatives)}


def _row_fields(cls: type) -> tuple[str, ...]:
    return cast("tuple[str, ...]", cls.__struct_fields__)  # type: ignore[attr-defined]


def _snake(cls: type) -> str:
    from ..declare import snake_case  # noqa: PLC0415 - only rows need it

    return snake_case(cls.__name__)


class _Writer:
    def __init__(self, reveal: bool):
        self.reveal = reveal

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
                data[layout.unknown] = unknown.hex()
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
                    data[key_of(part.unknown)] = [[bit, raw.hex()] for bit, raw in unknown]
            case m.Body():
                data[key_of(part.name)] = self.body(part, getattr(value, part.name))
            case _:
                pass

    def store(
        self, data: dict[str, Any], name: str, kind: m.Type, value: Any, secret: bool
    ) -> None:
        if value is None:
            return
        if secret and not self.reveal:
            size = len(value) if isinstance(value, str | bytes | tuple) else 1
            data[key_of(name)] = {"masked": size}
        else:
            data[key_of(name)] = self.value(kind, value)

    def body(self, body: m.Body, value: Any) -> dict[str, Any]:
        for alternative in body.alternatives:
            if alternative.layout.cls is type(value):
                return self.layout(alternative.layout, value)
        raise EncodeError("bad_value", body.name, None, f"{type(value).__name__} is no body of it")

    def value(self, kind: m.Type, value: Any) -> Any:
        match kind:
            case m.Int() | m.Varint():
                return int(value)
            case m.Float():
                return _float_out(value)
            case m.Bool():
                return bool(value)
            case m.Fixed():
                return value.hex()
            case m.Blob():
                return _text_out(value) if isinstance(value, str) else value.hex()
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
                pairs = [[_text_out(key), self.dynamic(kind, item)] for key, item in value.value]
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
        data: dict[str, Any] = {"type": _snake(type(row))}
        for name in _row_fields(type(row)):
            stored = getattr(row, name)
            data[key_of(name)] = stored.hex() if isinstance(stored, bytes) else stored
        return data


class _Reader:
    def layout(self, layout: m.Layout, data: Any, path: str) -> Any:
        body = layout.body
        if layout.transparent and body is not None:
            return self.body(body, data, path)
        where = path or layout.name
        given = _object(data, where)
        kind = given.pop("type", layout.name)
        if kind != layout.name:
            raise _bad(where, f"wanted type {layout.name!r}, got {kind!r}")
        values: dict[str, Any] = {}
        for part in layout.parts:
            self.part(part, given, values, where)
        if layout.unknown and layout.unknown in given:
            values[layout.unknown] = _bytes(given.pop(layout.unknown), f"{where}.{layout.unknown}")
        if given:
            raise _bad(where, f"has no field {next(iter(given))!r}")
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
                        number = _int(_named(data, bit.names), at) if not bit.flag else data
                        values[bit.name] = _bool(number, at) if bit.flag else number
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
                (_int(bit, at), _bytes(raw, at)) for bit, raw in _pairs(data, at)
            )

    def body(self, body: m.Body, data: Any, path: str) -> Any:
        where = path or body.name
        kind = _object(data, where).get("type")
        for alternative in body.alternatives:
            if alternative.layout.name == kind:
                return self.layout(alternative.layout, data, path)
        known = dict.fromkeys(a.layout.name for a in body.alternatives)
        raise _bad(where, f"type {kind!r} is none of {', '.join(known)}")

    def value(self, kind: m.Type, data: Any, path: str) -> Any:
        match kind:
            case m.Int() | m.Varint():
                return _int(data, path)
            case m.Float():
                return _float(data, path)
            case m.Bool():
                return _bool(data, path)
            case m.Fixed():
                return _bytes(data, path)
            case m.Blob():
                return _bytes(data, path) if kind.text is None else _text(data, path)
            case m.Nested():
                return self.layout(kind.layout, data, path)
            case m.Many():
                items = enumerate(_list(data, path))
                return tuple(self.value(kind.item, item, f"{path}[{i}]") for i, item in items)
            case m.Dynamic():
                return self.dynamic(kind, data, path)
            case m.Rows():
                items = enumerate(_list(data, path))
                return tuple(self.row(kind, item, f"{path}[{i}]") for i, item in items)

    def dynamic(self, kind: m.Dynamic, data: Any, path: str) -> Any:
        given = _object(data, path)
        name, value = given.pop("type", None), given.pop("value", None)
        found = next((k for k in kind.kinds if k.name == name), None)
        if found is None:
            known = ", ".join(k.name for k in kind.kinds)
            raise _bad(path, f"type {name!r} is none of {known}")
        if given:
            raise _bad(path, f"has no field {next(iter(given))!r}")
        return kind.cls(type=found.tag, value=self.content(kind, found.type, value, path))

    def content(self, kind: m.Dynamic, inner: Any, value: Any, path: str) -> Any:
        match inner:
            case None:
                if value is not None:
                    raise _bad(path, "a null has no value")
                return None
            case m.Pairs():
                return tuple(
                    (_text(key, path), self.dynamic(kind, item, f"{path}.{key}"))
                    for key, item in _pairs(value, path)
                )
            case m.Items():
                items = enumerate(_list(value, path))
                return tuple(self.dynamic(kind, item, f"{path}[{i}]") for i, item in items)
            case _:
                return self.value(inner, value, path)

    def row(self, rows: m.Rows, data: Any, path: str) -> Any:
        given = _object(data, path)
        name = given.get("type")
        layout = _row_layouts(rows).get(str(name))
        if layout is not None:
            return self.layout(layout, given, path)
        for cls in (rows.opaque, rows.broken):
            if name == _snake(cls):
                return self.plain_row(cls, given, path)
        known = [*(a.layout.name for a in rows.alternatives), _snake(rows.opaque)]
        raise _bad(path, f"type {name!r} is none of {', '.join(known)}")

    def plain_row(self, cls: type, given: dict[str, Any], path: str) -> Any:
        """An opaque or broken row: numbers, texts and one blob, `data`."""
        given.pop("type")
        values: dict[str, Any] = {}
        for name in _row_fields(cls):
            if (data := _pop(given, name)) is not _MISSING:
                at = f"{path}.{name}"
                values[name] = _bytes(data, at) if name == "data" else data
        if given:
            raise _bad(path, f"has no field {next(iter(given))!r}")
        return _build(cls, values, path)


# -- single values ---------------------------------------------------------------------------


def _text_out(text: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"hex": text.encode("utf-8", "surrogateescape").hex()}
    return text


def _float_out(value: float) -> Any:
    if math.isfinite(value) and (value or math.copysign(1, value) > 0):
        return value
    return {"float": repr(value), "bits": struct.pack(">d", value).hex()}


def _bad(path: str, why: str) -> EncodeError:
    return EncodeError("bad_value", path, None, why)


def _pop(given: dict[str, Any], name: str) -> Any:
    return given.pop(key_of(name), _MISSING)


def _named(data: Any, names: m.EnumClass | None) -> Any:
    """A number given by its name."""
    if isinstance(data, str) and names is not None and data.upper() in names.__members__:
        return int(names[data.upper()])
    return data


def _build(cls: type, values: dict[str, Any], path: str) -> Any:
    try:
        return cls(**values)
    except TypeError as error:
        raise _bad(path, str(error)) from error


def _object(data: Any, path: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _bad(path, f"wanted an object, got {_what(data)}")
    if data.keys() == {"masked"}:
        raise MaskedError("bad_value", path, None, "masked; decode it again with --reveal")
    return dict(data)


def _what(data: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", int: "a number"}
    return "null" if data is None else names.get(type(data), "a number")


def _int(data: Any, path: str) -> int:
    if isinstance(data, int) and not isinstance(data, bool):
        return data
    if isinstance(data, dict):
        _object(data, path)
    raise _bad(path, f"wanted a whole number, got {_what(data)}")


def _bool(data: Any, path: str) -> bool:
    if isinstance(data, bool):
        return data
    raise _bad(path, f"wanted true or false, got {_what(data)}")


def _float(data: Any, path: str) -> float:
    if isinstance(data, float) or (isinstance(data, int) and not isinstance(data, bool)):
        try:
            return float(data)
        except OverflowError as error:
            raise _bad(path, "too large for a float") from error
    if isinstance(data, dict) and "bits" in _object(data, path):
        bits = _bytes(data["bits"], path)
        if len(bits) == 8:
            return float(struct.unpack(">d", bits)[0])
    raise _bad(path, f"wanted a number or {{float, bits}}, got {_what(data)}")


def _text(data: Any, path: str) -> str:
    if isinstance(data, str):
        return data
    if isinstance(data, dict) and _object(data, path).keys() == {"hex"}:
        return _bytes(data["hex"], path).decode("utf-8", "surrogateescape")
    raise _bad(path, f"wanted text or {{hex}}, got {_what(data)}")


def _bytes(data: Any, path: str) -> bytes:
    if isinstance(data, dict):
        _object(data, path)
    if not isinstance(data, str):
        raise _bad(path, f"wanted bytes as hexadecimal text, got {_what(data)}")
    try:
        return bytes.fromhex(data)
    except ValueError as error:
        raise _bad(path, "not hexadecimal") from error


def _list(data: Any, path: str) -> list[Any]:
    if isinstance(data, list):
        return data
    if isinstance(data, dict):
        _object(data, path)
    raise _bad(path, f"wanted a list, got {_what(data)}")


def _pairs(data: Any, path: str) -> Iterable[tuple[Any, Any]]:
    for item in _list(data, path):
        if not isinstance(item, list) or len(item) != 2:
            raise _bad(path, "wanted a list of pairs")
        yield item[0], item[1]
