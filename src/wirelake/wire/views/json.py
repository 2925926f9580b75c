"""Messages as JSON and back: what `wirelake decode --json` prints and `wirelake encode` reads.

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

from collections.abc import Callable
from typing import Any

import msgspec

from .. import model as m
from ..declare import snake_case
from ..errors import EncodeError
from ._json_reader import JsonReader
from ._json_values import (
    MaskedError,
    float_out,
    key_of,
    text_out,
)

__all__ = ["MaskedError", "from_json", "to_json"]


def to_json(layout: m.Layout, value: Any, *, reveal: bool = False) -> dict[str, Any]:
    """A decoded message as a JSON-able object; secrets are masked unless `reveal`."""
    return _Writer(reveal).layout(layout, value)


def from_json(
    layout: m.Layout, data: Any, *, write: Callable[[m.Layout, Any], bytes] | None = None
) -> Any:
    """The message that an object describes. Raises EncodeError `bad_value`, naming the field.

    A field that holds another layout once a transform is undone may be given as that layout's
    object instead of bytes; `write` then makes the bytes, in the clear.
    """
    try:
        return JsonReader(write).layout(layout, data, "")
    except RecursionError as error:
        raise EncodeError("too_deep", layout.name) from error


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
            data[key_of(name)] = stored.hex() if isinstance(stored, bytes) else stored
        return data
