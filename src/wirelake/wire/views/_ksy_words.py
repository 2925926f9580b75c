"""The vocabulary of one Kaitai Struct file: its identifiers, and the types that layouts share.

`Vocabulary` hands out names and collects helper types: varints, values in a list, self-describing
values, protobuf fields. `ksy.py` builds the types of layouts on top of it.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from .. import model as m
from ..declare import snake_case

__all__ = ["Node", "Vocabulary", "identifier", "int_type", "ksy_type"]

Node: TypeAlias = dict[str, Any]

_GROUP: Final = "leb128_group"


def identifier(name: str) -> str:
    """A name as a Kaitai identifier: lower-case letters, digits, underscores, a letter first.

    The compiler copies names into the target language, so a keyword of Python gets an underscore.
    """
    word = re.sub(r"[^a-z0-9_]", lambda found: f"u{ord(found[0]):x}", snake_case(name))
    if keyword.iskeyword(word):
        return f"{word}_"
    return word if word[:1].isalpha() else f"x{word}"


def int_type(kind: m.Int) -> str:
    """The Kaitai type of an integer; three bytes are read as bits, and then have no sign."""
    suffix = "" if kind.size == 1 else kind.order[0] + "e"
    if kind.size == 3:
        return "b24" if kind.order == "big" else "b24le"
    return f"{'s' if kind.signed else 'u'}{kind.size}{suffix}"


def ksy_type(seq: list[Node], instances: Node | None = None, *, doc: str = "") -> Node:
    """A type, with its keys in the usual order."""
    node: Node = {"doc": doc} if doc else {}
    node["seq"] = seq
    if instances:
        node["instances"] = instances
    return node


class Vocabulary:
    """Names and helper types of one file. Types and enums share one space of names."""

    def __init__(self, top: str):
        self.types: dict[str, Node] = {}
        self.enums: dict[str, dict[int, str]] = {}
        self._names: dict[Any, str] = {}
        self._taken = {top}

    def fresh(self, wanted: str) -> str:
        """A type or enum name that is not taken: the wanted one, or it with a number."""
        return unique(wanted, self._taken)

    def name(self, key: Any, wanted: str) -> tuple[str, bool]:
        """The name of a thing, and whether this is the first time that it is asked for."""
        if key in self._names:
            return self._names[key], False
        self._names[key] = name = self.fresh(wanted)
        return name, True

    # -- enums -------------------------------------------------------------------------------

    def enum(self, cls: m.EnumClass) -> str:
        """The enum of a class of named numbers."""
        pairs = ((int(member), member.name) for member in cls)
        return self.numbers(cls, snake_case(cls.__name__), pairs)

    def numbers(self, key: Any, wanted: str, pairs: Iterable[tuple[int, str]]) -> str:
        """An enum made of numbers and names."""
        name, new = self.name(("enum", key), identifier(wanted))
        if new:
            taken: set[str] = set()
            self.enums[name] = {number: unique(identifier(n), taken) for number, n in pairs}
        return name

    # -- types -------------------------------------------------------------------------------

    def varint(self, kind: m.Varint) -> str:
        """A type that reads a LEB128 integer; its `value` is the number."""
        loose = "_loose" if kind.loose else ""
        name, new = self.name(kind, f"varint_{kind.coding}{kind.bits}{loose}")
        if new:
            self._leb128_group()
            width = 128 if kind.loose else kind.bits
            group = f"{_GROUP}(_index, _index == 0 ? 0 : groups[_index - 1].value, {width})"
            self.types[name] = ksy_type(
                [
                    {
                        "id": "groups",
                        "type": group,
                        "repeat": "until",
                        "repeat-until": "not _.has_next",
                    }
                ],
                {
                    "raw": {"value": "groups.last.value", "doc": "The bits, without a sign."},
                    "value": {"value": _varint_value(kind)},
                },
                doc=f"An integer of at most {kind.bits} bits in LEB128, {_CODING[kind.coding]}.",
            )
        return name

    def _leb128_group(self) -> None:
        name, new = self.name(_GROUP, _GROUP)
        if not new:
            return
        fits = (
            "7 * index >= width ? _ == 0 : "
            "(7 * index + 7 <= width or (_ >> (width - 7 * index)) == 0)"
        )
        group = {"doc": "Seven bits, least significant group first; at most ten groups."}
        self.types[name] = group | {
            "params": [
                {"id": "index", "type": "s4"},
                {"id": "before", "type": "u8", "doc": "Value of the groups before this one."},
                {"id": "width", "type": "s4", "doc": "How many bits the whole may have."},
            ],
            "seq": [
                {"id": "has_next", "type": "b1", "valid": {"expr": "index < 9 or not _"}},
                {"id": "bits", "type": "b7", "valid": {"expr": fits}},
            ],
            "instances": {
                "value": {
                    "value": "(before + ((index == 9 ? bits & 1 : bits) << (7 * index))).as<u8>",
                    "doc": "Of the tenth group only the lowest bit has a place in 64 bits.",
                }
            },
        }

    def value_type(self, kind: m.Type) -> tuple[str, bool]:
        """The name of a type whose `value` is a value of this kind; whether it must be filled."""
        return self.name(("value", kind), f"{_kind_name(kind)}_value")

    def protobuf_any(self) -> str:
        """A protobuf value of which only the wire type is known; a group is fields to its end."""
        name, new = self.name("protobuf_any", "protobuf_any")
        if not new:
            return name
        field = self.fresh("protobuf_unknown_field")
        varint = self.varint(m.Varint(64))
        known = "wire_type <= 3 or wire_type == 5 or (wire_type == 4 and in_group)"
        group = {"type": field, "repeat": "until", "repeat-until": "_.wire_type == 4"}
        self.types[name] = {
            "doc": "The value of a field that the declaration does not name.",
            "params": [{"id": "wire_type", "type": "u8"}, {"id": "in_group", "type": "bool"}],
            "seq": [
                {"id": "known", "size": 0, "valid": {"expr": known}},
                {"id": "varint", "type": varint, "if": "wire_type == 0"},
                {"id": "fixed64", "type": "u8le", "if": "wire_type == 1"},
                {"id": "len_data", "type": varint, "if": "wire_type == 2"},
                {"id": "data", "size": "len_data.value", "if": "wire_type == 2"},
                {"id": "group"} | group | {"if": "wire_type == 3"},
                {"id": "fixed32", "type": "u4le", "if": "wire_type == 5"},
            ],
        }
        key = {"id": "key", "type": self.varint(m.Varint(32))}
        value = {"id": "value", "type": f"{name}(key.value & 7, true)"}
        self.types[field] = ksy_type([key, value], {"wire_type": {"value": "key.value & 7"}})
        return name


_CODING: Final = {
    "unsigned": "without a sign",
    "zigzag": "zigzag: the sign is bit 0",
    "twos": "as the two's complement",
}


def _varint_value(kind: m.Varint) -> str:
    raw = f"(raw & {(1 << kind.bits) - 1})" if kind.loose and kind.bits < 64 else "raw"
    match kind.coding:
        case "unsigned":
            return raw
        case "zigzag":
            # The mask keeps the shift free of the sign where 64 bits are all there is.
            return f"(({raw} >> 1) & {(1 << 63) - 1}) ^ -({raw} & 1)"
        case "twos":
            top = kind.bits - 1
            return f"({raw} & {(1 << top) - 1}) - ((({raw} >> {top}) & 1) << {top})"


def _kind_name(kind: m.Type) -> str:
    """A word for a kind of value, to name the type that wraps it."""
    match kind:
        case m.Int():
            return f"{'s' if kind.signed else 'u'}{kind.size}{kind.order[0]}e"
        case m.Varint():
            return f"varint_{kind.coding}{kind.bits}"
        case m.Float():
            return f"f{kind.size}{kind.order[0]}e"
        case m.Bool():
            return "bool" if kind.strict else "loose_bool"
        case m.Fixed():
            return f"bytes{kind.size}"
        case m.Blob():
            word = {None: "bytes", "strict": "text", "loose": "loose_text"}[kind.text]
            return word if kind.length is None else f"{word}_{_kind_name(kind.length)}"
        case m.Nested():
            return identifier(kind.layout.name)
        case m.Many():
            return f"list_of_{_kind_name(kind.item)}"
        case m.Dynamic():
            return identifier(kind.name)
        case m.Rows():
            return "rows"


def unique(wanted: str, taken: set[str]) -> str:
    """The wanted name, or the first of wanted_2, wanted_3, ... that is not taken; takes it."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name
