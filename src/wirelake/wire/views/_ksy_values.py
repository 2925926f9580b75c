"""Names, helper types and values of a Kaitai Struct file.

`Vocabulary` assigns identifiers and collects helper types: varints, values in a list,
self-describing values, protobuf fields. `Values` is one Kaitai type under construction: it turns a
value of each kind into attributes and instances. `ksy.py` builds the types of layouts on top.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from .. import model as m
from ..declare import snake_case

__all__ = [
    "FILLED",
    "Builder",
    "Node",
    "Values",
    "Vocabulary",
    "identifier",
    "int_type",
    "ksy_type",
    "switch",
]

Node: TypeAlias = dict[str, Any]

_GROUP: Final = "leb128_group"


def identifier(name: str) -> str:
    """Return a name as a Kaitai identifier: lower case, digits, underscores, a letter first.

    The compiler copies names into the target language, so a keyword of Python gets an underscore.
    """
    word = re.sub(r"[^a-z0-9_]", lambda found: f"u{ord(found[0]):x}", snake_case(name))
    if keyword.iskeyword(word):
        return f"{word}_"
    return word if word[:1].isalpha() else f"x{word}"


def int_type(kind: m.Int) -> str:
    """Return the Kaitai type of an integer; three bytes are read as bits, and then have no sign."""
    suffix = "" if kind.size == 1 else kind.order[0] + "e"
    if kind.size == 3:
        return "b24" if kind.order == "big" else "b24le"
    return f"{'s' if kind.signed else 'u'}{kind.size}{suffix}"


def ksy_type(seq: list[Node], instances: Node | None = None, *, doc: str = "") -> Node:
    """Return a type, with its keys in the usual order."""
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

    def fresh(self, preferred: str) -> str:
        """Return a type or enum name that is not used yet: the preferred one, or it with a
        number."""
        return unique(preferred, self._taken)

    def name(self, key: Any, preferred: str) -> tuple[str, bool]:
        """Return the name of a thing, and whether it is new."""
        if key in self._names:
            return self._names[key], False
        self._names[key] = name = self.fresh(preferred)
        return name, True

    # -- enums -------------------------------------------------------------------------------

    def enum(self, cls: m.EnumClass) -> str:
        """Return the enum of a class of named numbers."""
        pairs = ((int(member), member.name) for member in cls)
        return self.numbers(cls, snake_case(cls.__name__), pairs)

    def numbers(self, key: Any, preferred: str, pairs: Iterable[tuple[int, str]]) -> str:
        """Return an enum made of numbers and names."""
        name, new = self.name(("enum", key), identifier(preferred))
        if new:
            taken: set[str] = set()
            self.enums[name] = {number: unique(identifier(n), taken) for number, n in pairs}
        return name

    # -- types -------------------------------------------------------------------------------

    def varint(self, kind: m.Varint) -> str:
        """Return a type that reads a LEB128 integer; its `value` is the number."""
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
        """Return the name of a type whose `value` has this kind, and whether it is new."""
        return self.name(("value", kind), f"{_kind_name(kind)}_value")

    def protobuf_any(self) -> str:
        """Return the type of a value of which only the wire type is known; a group has fields."""
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
                # Empty: Kaitai validates attributes, and the wire type is a parameter here.
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
    """Return a word for a kind of value, to name the type that wraps it."""
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


def unique(preferred: str, taken: set[str]) -> str:
    """Reserve and return the name, or the first of name_2, name_3, ... that is not used yet."""
    name, number = preferred, 1
    while name in taken:
        number += 1
        name = f"{preferred}_{number}"
    taken.add(name)
    return name


# -- one type under construction -------------------------------------------------------------------


FILLED: Final[Node] = {"valid": {"expr": "_._io.eof"}}
"""On what has a stream of its own: no bytes are left over in it."""


class Builder(Protocol):
    """What a scope needs of the file that it is in."""

    words: Vocabulary
    direction: m.Direction | None

    def layout(self, layout: m.Layout) -> str:
        """Return the name of the type of a layout."""


class Values:
    """Attributes, in order, and instances. `env` tells how to reach earlier parts by name."""

    def __init__(self, builder: Builder, layout: m.Layout, *, outer: Values | None = None):
        self.builder = builder
        self.words = builder.words
        self.layout = layout
        self.seq: list[Node] = []
        self.instances: Node = {}
        self.env: dict[str, str] = {}
        self.taken: set[str] = set()
        self.reserved: set[str] = set()
        if outer is not None:
            self.env = {name: f"_parent.{path}" for name, path in outer.env.items()}

    def node(self) -> Node:
        """Return the type so far."""
        return ksy_type(self.seq, self.instances)

    # -- attributes --------------------------------------------------------------------------

    def pick(self, name: str, *, own: bool) -> str:
        """Return an unused identifier; names of the declaration take precedence over others."""
        word = identifier(name)
        ident = unique(word, set(self.taken) if own else self.taken | self.reserved)
        self.taken.add(ident)
        return ident

    def attribute(self, name: str, props: Node, doc: str = "", *, own: bool = True) -> str:
        """Append an attribute and return its identifier."""
        ident = self.pick(name, own=own)
        self.seq.append({"id": ident} | props | ({"doc": doc} if doc else {}))
        return ident

    def instance(self, name: str, props: Node, doc: str = "", *, own: bool = False) -> str:
        """Add a calculated attribute and return its identifier."""
        ident = self.pick(name, own=own)
        self.instances[ident] = props | ({"doc": doc} if doc else {})
        return ident

    # -- fields ------------------------------------------------------------------------------

    def add_field(self, field: m.Field) -> None:
        """Add a stored field."""
        guard: Node = {"if": self.env[field.when]} if field.when else {}
        self.add_value(field.name, field.type, guard, field_doc(field), field)
        if field.stage is not None:
            self.builder.layout(field.stage)

    def add_value(
        self, name: str, kind: m.Type, guard: Node, doc: str = "", field: m.Field | None = None
    ) -> None:
        """Add a value of any kind under a name."""
        match kind:
            case m.Blob():
                self.add_blob(name, kind, guard, doc, field.sizes if field else ())
            case m.Many():
                self.add_many(name, kind, guard, doc, field)
            case m.Rows():
                self.add_rows(name, kind, guard, doc)
            case m.Bool():
                valid: Node = {"valid": {"any-of": [0, 1]}} if kind.strict else {}
                raw = self.attribute(f"{name}_raw", {"type": "u1"} | valid | guard, own=False)
                self.instance(name, {"value": f"{raw} != 0"} | guard, doc, own=True)
            case m.Int() if kind.size == 3 and kind.signed:
                raw = self.attribute(f"{name}_raw", {"type": int_type(kind)} | guard, own=False)
                value = f"({raw} & {0x7FFFFF}) - ({raw} & {0x800000})"
                self.instance(name, {"value": value} | guard, doc, own=True)
            case _:
                props = self.plain(kind)
                if field is not None and isinstance(kind, m.Int):
                    props |= self.enum_props(field.names, field.closed)
                ident = self.attribute(name, props | guard, doc)
                if field is not None and field.names and isinstance(kind, m.Varint):
                    enum = self.words.enum(field.names)
                    self.instance(
                        f"{name}_named", {"value": f"{ident}.value", "enum": enum} | guard
                    )

    def plain(self, kind: m.Type) -> Node:
        """Return the properties of an attribute, for kinds that need only one."""
        match kind:
            case m.Int():
                return {"type": int_type(kind)}
            case m.Float():
                return {"type": f"f{kind.size}{kind.order[0]}e"}
            case m.Varint():
                return {"type": self.words.varint(kind)}
            case m.Fixed():
                return {"size": kind.size}
            case m.Nested():
                return {"type": self.builder.layout(kind.layout)}
            case m.Dynamic():
                return {"type": self.dynamic(kind)}
            case _:
                return {"type": self.wrapped(kind)}

    def item(self, kind: m.Type) -> Node:
        """Return the properties of a repeated attribute, which must be one for each item."""
        whole = isinstance(kind, m.Int) and not (kind.size == 3 and kind.signed)
        if whole or isinstance(kind, m.Float | m.Varint | m.Fixed | m.Nested | m.Dynamic):
            return self.plain(kind)
        return {"type": self.wrapped(kind)}

    def wrapped(self, kind: m.Type) -> str:
        """Return a type of which this is the `value`."""
        name, new = self.words.value_type(kind)
        if new:
            inner = Values(self.builder, self.layout)
            inner.add_value("value", kind, {})
            self.words.types[name] = inner.node()
        return name

    def enum_props(self, names: m.EnumClass | None, closed: bool) -> Node:
        """Return the properties that name the numbers of an attribute."""
        if names is None:
            return {}
        valid: Node = {"valid": {"in-enum": True}} if closed else {}
        return {"enum": self.words.enum(names)} | valid

    def number(self, name: str, kind: m.Int | m.Varint, guard: Node, valid: Node) -> str:
        """Return a length or a count: the expression of its value."""
        if isinstance(kind, m.Varint):
            if kind.signed:
                valid = {"valid": {"expr": "_.value >= 0"}}
            props = {"type": self.words.varint(kind)} | valid | guard
            return f"{self.attribute(name, props, own=False)}.value"
        return self.attribute(name, {"type": int_type(kind)} | guard | valid, own=False)

    def add_blob(
        self, name: str, kind: m.Blob, guard: Node, doc: str, sizes: tuple[int, ...] = ()
    ) -> None:
        """Add bytes or text, after its length if it has one."""
        props: Node = {"size-eos": True}
        if kind.length is not None:
            valid: Node = {"valid": {"any-of": list(sizes)}} if sizes else {}
            props = {"size": self.number(f"len_{name}", kind.length, guard, valid)}
        if kind.text == "strict":
            props |= {"type": "str"}
        ident = self.attribute(name, props | guard, doc)
        if kind.text == "loose":
            text = {"value": f"{ident}.to_s('UTF-8')"} | guard
            self.instance(f"{name}_text", text, "The same as text; may be invalid.")

    def add_many(
        self, name: str, kind: m.Many, guard: Node, doc: str, field: m.Field | None
    ) -> None:
        """Add a list, after its count if it has one."""
        props = self.item(kind.item)
        if field is not None and isinstance(kind.item, m.Int):
            props |= self.enum_props(field.names, field.closed)
        if kind.count is None:
            props |= {"repeat": "eos"}
        else:
            count = self.number(f"num_{name}", kind.count, guard, {})
            props |= {"repeat": "expr", "repeat-expr": count}
        self.attribute(name, props | guard, doc)

    def add_rows(self, name: str, kind: m.Rows, guard: Node, doc: str) -> None:
        """Add rows, including the end row."""
        stem = f"{identifier(self.layout.name)}_{identifier(name)}"
        row, _ = self.words.name(("row", kind), f"{stem}_row")
        pairs = [(kind.end, "end"), *((a.tag, a.layout.name) for a in kind.alternatives)]
        enum = self.words.numbers(("row", kind), f"{stem}_kind", pairs)
        cases: dict[Any, str] = {a.tag: self.builder.layout(a.layout) for a in kind.alternatives}
        cases["_"] = self.wrapped(m.Blob(None))
        size = {
            "id": "len_body",
            "type": int_type(kind.size),
            "valid": {"expr": f"kind.to_i != {kind.end} or _ == 0"},
        }
        body = {"id": "body", "size": "len_body"} | switch("kind.to_i", cases) | FILLED
        kinds = {"id": "kind", "type": int_type(kind.tag), "enum": enum}
        self.words.types[row] = ksy_type(
            [kinds, size, body],
            doc="A row; one of a kind that is not named has its bytes as `value`.",
        )
        until = {"repeat": "until", "repeat-until": f"_.kind.to_i == {kind.end}"}
        end = "The last one here is the end row."
        self.attribute(name, {"type": row} | until | guard, f"{doc} {end}" if doc else end)

    def dynamic(self, kind: m.Dynamic) -> str:
        """Return the type of a self-describing value: `kind` is the type of `body.value`."""
        name, new = self.words.name(kind, identifier(kind.name))
        if new:
            pairs = [(k.tag, k.name) for k in kind.kinds]
            enum = self.words.numbers(kind, f"{name}_kind", pairs)
            cases = {k.tag: self.dynamic_case(name, k) for k in kind.kinds}
            tag = {"id": "kind", "type": int_type(kind.tag), "enum": enum}
            self.words.types[name] = ksy_type(
                [tag | {"valid": {"in-enum": True}}, {"id": "body"} | switch("kind.to_i", cases)],
                doc="A self-describing value.",
            )
        return name

    def dynamic_case(self, name: str, kind: m.DynamicKind) -> str:
        """Return the type of one kind of value."""
        inner = Values(self.builder, self.layout)
        match kind.type:
            case None:
                pass
            case m.Varint():
                return self.words.varint(kind.type)
            case m.Pairs():
                pair = self.words.fresh(f"{name}_{identifier(kind.name)}_pair")
                entry = Values(self.builder, self.layout)
                entry.add_value("key", kind.type.key, {})
                entry.attribute("value", {"type": name})
                self.words.types[pair] = entry.node()
                inner.add_counted("value", pair, kind.type.count)
            case m.Items():
                inner.add_counted("value", name, kind.type.count)
            case _:
                return self.wrapped(kind.type)
        case = self.words.fresh(f"{name}_{identifier(kind.name)}")
        self.words.types[case] = inner.node()
        return case

    def add_counted(self, name: str, kind: str, count: m.Int | m.Varint) -> None:
        """Add a counted list of a named type."""
        number = self.number(f"num_{name}", count, {}, {})
        self.attribute(name, {"type": kind, "repeat": "expr", "repeat-expr": number})


def switch(on: str, cases: Mapping[Any, str]) -> Node:
    """Return a type that depends on a number."""
    return {"type": {"switch-on": on, "cases": cases}}


def field_doc(field: m.Field) -> str:
    """Return the documentation of a field, with notes about secrets and stages."""
    notes = [field.doc]
    if field.secret:
        notes.append("Secret: do not show it.")
    if field.stage is not None:
        notes.append(f"Holds a {field.stage.name} once any transform is undone.")
    return " ".join(note for note in notes if note)
