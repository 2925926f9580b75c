"""From JSON to messages: the half of `json.py` that reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

from .. import model as m
from ..declare import snake_case
from ._json_values import (
    bad,
    bool_in,
    bytes_in,
    float_in,
    int_in,
    key_of,
    list_in,
    object_in,
    pairs_in,
    text_in,
)

__all__ = ["JsonReader"]

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
            raise bad(where, f"wanted type {layout.name!r}, got {kind!r}")
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
        raise bad(where, f"type {kind!r} is none of {', '.join(known)}")

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
            known = ", ".join(k.name for k in kind.kinds)
            raise bad(path, f"type {name!r} is none of {known}")
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
        raise bad(path, f"type {name!r} is none of {', '.join(known)}")

    def plain_row(self, cls: type, given: dict[str, Any], path: str) -> Any:
        """An opaque or broken row: numbers, texts and bytes."""
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
    """A number given by its name."""
    if isinstance(data, str) and names is not None and data.upper() in names.__members__:
        return int(names[data.upper()])
    return data


def _build(cls: type, values: dict[str, Any], path: str) -> Any:
    try:
        return cls(**values)
    except TypeError as error:
        raise bad(path, str(error)) from error
