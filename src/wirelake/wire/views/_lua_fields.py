"""The fields and types of a protocol in its dissector.

`Fields` are the ProtoFields: what Wireshark calls a field, shows beside it and filters by. A field
of a layout is `wirelake.<protocol>.<layout>.<field>`. Parts of its encoding are below it:
`<field>.length` of bytes and text, `<field>.count` of lists. A layout in a body, a row or a stage
has an item of its own, `wirelake.<protocol>.<layout>`.

`Types` are the readers: `T.text_u16 = blob(T.u16, "strict")`. Each type of `model.py` that occurs
becomes one entry of the table `T`. The functions used here (`int`, `blob`, `many`, ...) are in
`lua_runtime_values.lua`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from .. import model as m
from ..declare import snake_case
from ..generate.reader import MESSAGE_LIMIT

__all__ = [
    "Fields",
    "FilterField",
    "Names",
    "Types",
    "abbreviation",
    "bytes_literal",
    "class_name",
    "comment",
    "first_lines",
    "meanings",
    "number_set",
    "quote",
]


# -- Lua source: strings, tables, and names that Wireshark accepts ---------------------------------


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    """Return a Lua string; what does not print is escaped, other Unicode stays readable."""
    return '"' + "".join(_character(c) for c in text) + '"'


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    return "".join(f"\\{byte:03d}" for byte in char.encode("utf-8", "surrogatepass"))


def bytes_literal(data: bytes) -> str:
    """Return a Lua string of these bytes."""
    return '"' + "".join(_byte(byte) for byte in data) + '"'


def _byte(byte: int) -> str:
    char = chr(byte)
    return char if 0x20 <= byte < 0x7F and char not in '"\\' else f"\\{byte:03d}"


def comment(text: str, indent: str = "  ") -> list[str]:
    """Return the lines of a Lua comment."""
    return [f"{indent}-- {line}".rstrip() for line in text.splitlines()]


def first_lines(doc: str) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join(doc.strip().split("\n\n")[0].split())


def abbreviation(name: str) -> str:
    """Return a part of a display filter name: ASCII letters, digits, `_` and `-`.

    Any other character of a Python name becomes its code point.
    """
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: f"u{ord(found[0]):04x}", name)


def meanings(pairs: Mapping[int, str]) -> str:
    """Return a Lua table from numbers to names."""
    return "{ " + ", ".join(f"[{number}] = {quote(name)}" for number, name in pairs.items()) + " }"


def number_set(numbers: Iterable[int] | type[IntEnum]) -> str:
    """Return a Lua table that is true for these numbers."""
    values = sorted({int(number) for number in numbers})
    return "{ " + ", ".join(f"[{number}] = true" for number in values) + " }"


def class_name(cls: type) -> str:
    """Return the name of a class without a model (an opaque row)."""
    return abbreviation(getattr(cls, "wire_name", "") or snake_case(cls.__name__))


class Names:
    """Assigns names; two things of the same name are an error.

    `malformed`, `incomplete` and `unshown` belong to what the dissector itself reports.
    """

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.owners: dict[str, object] = dict.fromkeys(("malformed", "incomplete", "unshown"), self)

    def claim(self, name: str, owner: object) -> str:
        """Return the name, unless another owner has it."""
        if self.owners.setdefault(name, owner) is not owner:
            raise ValueError(
                f"{self.protocol}: two things would be called wirelake.{self.protocol}.{name};"
                " set wire_name on one of the layouts"
            )
        return name

    def layout(self, layout: m.Layout) -> str:
        """Return the name of a layout."""
        return self.claim(abbreviation(layout.name), layout.cls)

    def dynamic(self, kind: m.Dynamic) -> str:
        """Return the name of a dynamic type."""
        return self.claim(abbreviation(kind.name), kind.cls)


MASKED_SIZE = 4
"""Bit groups up to this many bytes are shown with their bits; Lua has no masks beyond 32 bits."""


class FilterField(NamedTuple):
    """A field that a display filter can name."""

    name: str
    form: str
    """Its type in the script: the function of `ProtoField` that makes it."""
    doc: str = ""
    section: str = ""
    """The section of the document that its layout implements, or one around it."""
    label: str = ""
    """What Wireshark calls it."""

    @property
    def type(self) -> str:
        """The name of the type in Wireshark."""
        return _TYPES.get(self.form, f"FT_{self.form.upper()}")


_TYPES = {"bool": "FT_BOOLEAN"}


class Fields:
    """Declares fields; `lines` are those of the present layout, `enums` the tables of names."""

    def __init__(self, protocol: str, names: Names) -> None:
        self.protocol = protocol
        self.names = names
        self.lines: list[str] = []
        self.section = ""
        """Of the present layout."""
        self.declared: list[FilterField] = []
        self.enums: dict[str, str] = {}
        self._owners: dict[str, type[IntEnum]] = {}

    # -- one field ---------------------------------------------------------------------------

    def add(self, name: str, form: str, label: str, *arguments: str, doc: str = "") -> None:
        """Add a field to the script: `F["auth.token"] = ProtoField.string(...)`."""
        full = f"wirelake.{self.protocol}.{self.names.claim(name, object())}"
        self._declare(full, form, label, doc)
        parts = [quote(full), quote(label), *arguments, *([quote(first_lines(doc))] if doc else [])]
        while parts[-1] == "nil":
            parts.pop()
        self.lines.append(f"F[{quote(name)}] = ProtoField.{form}({', '.join(parts)})")

    def _declare(self, full: str, form: str, label: str, doc: str) -> None:
        self.declared.append(FilterField(full, form, first_lines(doc), self.section, label))

    def layout(self, layout: m.Layout) -> None:
        """Add the item of a layout."""
        name = self.names.layout(layout)
        self._declare(f"wirelake.{self.protocol}.{name}", "protocol", name, layout.doc)
        full = quote(f"wirelake.{self.protocol}.{name}")
        doc = quote(first_lines(layout.doc))
        self.lines.append(f"F[{quote(name)}] = ProtoField.protocol({full}, {quote(name)}, {doc})")

    def node(self, name: str, label: str, doc: str = "") -> None:
        """Add an item that contains others."""
        self.add(name, "protocol", label, doc=doc)

    def text(self, name: str, label: str, doc: str = "") -> None:
        """Add a text."""
        self.add(name, "string", label, doc=doc)

    def bytes(self, name: str, label: str, doc: str = "") -> None:
        """Add bytes."""
        self.add(name, "bytes", label, "base.NONE", doc=doc)

    def number(
        self,
        name: str,
        label: str,
        kind: m.Int | m.Varint,
        doc: str = "",
        names: str = "nil",
        base: str = "base.DEC",
    ) -> None:
        """Add an integer; `names` is the Lua table of the names of its values."""
        bits = 8 * kind.size if isinstance(kind, m.Int) else kind.bits
        width = next(width for width in (8, 16, 24, 32, 64) if bits <= width)
        form = f"{'int' if kind.signed else 'uint'}{width}"
        self.add(name, form, label, base, names, "nil", doc=doc)

    def bit(self, name: str, bit: m.Bit, size: int, names: str) -> None:
        """Add some bits of a group of `size` bytes."""
        masked = size <= MASKED_SIZE
        mask = f"{((1 << bit.width) - 1) << bit.shift:#x}" if masked else "nil"
        if bit.flag:
            parent = str(8 * size) if masked else "base.NONE"
            self.add(name, "bool", bit.name, parent, "nil", mask, doc=bit.doc)
            return
        if bit.width > 64:
            raise ValueError(
                f"{self.protocol}: {name} has more than the 64 bits Wireshark can show"
            )
        width = 8 * size if masked else (32 if bit.width <= 32 else 64)
        self.add(name, f"uint{width}", bit.name, "base.DEC", names, mask, doc=bit.doc)

    # -- a value of any type -----------------------------------------------------------------

    def value(
        self,
        name: str,
        label: str,
        kind: m.Type,
        *,
        doc: str = "",
        names: str = "nil",
        secret: bool = False,
        protobuf: bool = False,
    ) -> None:
        """Add the fields that a value of a type needs."""
        if secret:
            self.text(name, label, doc)
            return
        match kind:
            case m.Int():
                self.number(name, label, kind, doc, names)
            case m.Varint():
                wide = m.Varint(64, "zigzag") if protobuf and kind.coding == "zigzag" else kind
                self.number(name, label, wide, doc, names)
            case m.Float():
                self.add(name, "float" if kind.size == 4 else "double", label, doc=doc)
            case m.Bool():
                self.add(name, "bool", label, "base.NONE", "nil", "nil", doc=doc)
            case m.Fixed():
                self.bytes(name, label, doc)
            case m.Blob():
                self._blob(name, label, kind, doc, protobuf)
            case m.Nested():
                self.node(name, label, doc)
                if protobuf:
                    self.number(f"{name}.length", f"length of {label}", m.Varint(64))
            case m.Many():
                self._many(name, label, kind, doc, names, protobuf)
            case m.Dynamic():
                self.node(name, label, doc)
            case m.Rows():
                self._rows(name, label, kind)

    def _blob(self, name: str, label: str, kind: m.Blob, doc: str, protobuf: bool) -> None:
        length = m.Varint(64) if protobuf else kind.length
        if length is not None:
            self.number(f"{name}.length", f"length of {label}", length)
        (self.bytes if kind.text is None else self.text)(name, label, doc)

    def _many(
        self, name: str, label: str, kind: m.Many, doc: str, names: str, protobuf: bool
    ) -> None:
        if kind.count is not None and not protobuf:
            self.number(f"{name}.count", f"count of {label}", kind.count)
        if isinstance(kind.item, m.Many):
            self.node(name, label, doc)
            name, label = f"{name}.item", f"item of {label}"
        self.value(name, label, kind.item, doc=doc, names=names, protobuf=protobuf)

    def _rows(self, name: str, label: str, kind: m.Rows) -> None:
        types = {kind.end: "end"} | {a.tag: a.layout.name for a in kind.alternatives}
        self.number(f"{name}.type", "row type", kind.tag, "Type of a row", meanings(types))
        self.number(f"{name}.size", "row size", kind.size, "Bytes of a row")
        self.node(f"{name}.end", "end", f"The row that ends {label}")
        opaque = class_name(kind.opaque)
        self.node(opaque, opaque, inspect.getdoc(kind.opaque) or "")
        self.bytes(f"{opaque}.data", "data", "The bytes of the row")

    def dynamic(self, kind: m.Dynamic) -> None:
        """Add a dynamic value: its type, and one field for each kind of value."""
        name = self.names.dynamic(kind)
        about = inspect.getdoc(kind.cls) or ""
        self._declare(f"wirelake.{self.protocol}.{name}", "protocol", name, about)
        full = quote(f"wirelake.{self.protocol}.{name}")
        doc = quote(first_lines(about))
        self.lines.append(f"F[{quote(name)}] = ProtoField.protocol({full}, {quote(name)}, {doc})")
        types = meanings({each.tag: each.name for each in kind.kinds})
        self.number(f"{name}.type", "type", kind.tag, "Which kind of value follows", types)
        for each in kind.kinds:
            own = f"{name}.{each.name}"
            match each.type:
                case None:
                    pass
                case m.Items() | m.Pairs():
                    self.node(own, each.name)
                    self.number(f"{own}.count", f"count of {each.name}", each.type.count)
                    if isinstance(each.type, m.Pairs):
                        self.value(f"{own}.key", "key", each.type.key)
                case _:
                    self.value(own, each.name, each.type)

    # -- names of numbers --------------------------------------------------------------------

    def named(self, names: type[IntEnum] | None) -> str:
        """Return the Lua table of an enum: an entry of `N`, added when it is new."""
        if names is None:
            return "nil"
        key = names.__name__
        while self._owners.setdefault(key, names) is not names:
            key += "_"
        self.enums[key] = meanings({int(member): member.name for member in names})
        return f"N[{quote(key)}]"


# -- types -----------------------------------------------------------------------------------------


class Types:
    """The entries of `T`, in an order in which each stands after what it is made of."""

    def __init__(self, names: Names, keeping: Collection[type] = ()) -> None:
        self.names = names
        self.keeping = keeping
        """Layouts with values that the meaning of a message needs."""
        self.lines: dict[str, str] = {}

    def of(self, kind: m.Type, *, protobuf: bool = False) -> str:
        """Return the Lua expression of a type: an entry of `T`, added when it is new."""
        key, value = self._protobuf(kind) if protobuf else self._plain(kind)
        self.lines.setdefault(key, value)
        return f"T.{key}" if key.isidentifier() else f"T[{quote(key)}]"

    # -- outside protobuf --------------------------------------------------------------------

    def _plain(self, kind: m.Type) -> tuple[str, str]:
        match kind:
            case m.Int():
                return _int(kind)
            case m.Varint():
                loose = ", true" if kind.loose else ""
                key = f"{'loose_' if kind.loose else ''}{kind.coding}{kind.bits}"
                return key, f'varint({kind.bits}, "{kind.coding}"{loose})'
            case m.Float():
                little = kind.order == "little"
                key = f"f{8 * kind.size}{'le' if little else ''}"
                return key, f"float({kind.size}, {_lua(little)})"
            case m.Bool():
                return ("bool" if kind.strict else "loose_bool"), f"boolean({_lua(kind.strict)})"
            case m.Fixed():
                return f"fixed{kind.size}", f"fixed({kind.size})"
            case m.Blob():
                return self._blob(kind, self.of(kind.length) if kind.length else None)
            case m.Nested():
                name = self.names.layout(kind.layout)
                return f"nested_{name}", (
                    f"nested({quote(name)}, {kind.layout.min_size}{self._keeps(kind)})"
                )
            case m.Many():
                return self._many(kind)
            case m.Dynamic():
                return f"dynamic_{self.names.dynamic(kind)}", self._dynamic(kind)
            case m.Rows():
                return f"rows_up_to_{kind.end}", self._rows(kind)

    def _keeps(self, kind: m.Nested) -> str:
        return ", true" if kind.layout.cls in self.keeping else ""

    def _blob(self, kind: m.Blob, length: str | None) -> tuple[str, str]:
        word = {None: "bytes", "strict": "text", "loose": "loose_text"}[kind.text]
        key = f"{word}_{length.removeprefix('T.')}" if length else f"rest_{word}"
        text = f', "{kind.text}"' if kind.text else ""
        return key, f"blob({length or 'nil'}{text})"

    def _many(self, kind: m.Many) -> tuple[str, str]:
        item = self.of(kind.item)
        least = m.type_size(kind.item)[0]
        count = self.of(kind.count) if kind.count else None
        lists = ", true" if isinstance(kind.item, m.Many) else ""
        key = f"list_{_bare(count) if count else 'to_end'}_of_{_bare(item)}"
        return key, f"many({item}, {count or 'nil'}, {least}{lists})"

    def _dynamic(self, kind: m.Dynamic) -> str:
        lines = [
            f"dynamic({quote(self.names.dynamic(kind))}, {{",
            f"    tag = {self.of(kind.tag)},",
            f"    max_depth = {kind.max_depth}, max_nodes = {kind.max_nodes},",
            "    kinds = {",
            *(f"      [{each.tag}] = {{ {self._kind(each)} }}," for each in kind.kinds),
            "    },",
            "  })",
        ]
        return "\n".join(lines)

    def _kind(self, each: m.DynamicKind) -> str:
        name = f"name = {quote(each.name)}"
        match each.type:
            case None:
                return name
            case m.Items():
                return f"{name}, count = {self.of(each.type.count)}"
            case m.Pairs():
                key, count = self.of(each.type.key), self.of(each.type.count)
                return f"{name}, count = {count}, key = {key}"
            case _:
                return f"{name}, type = {self.of(each.type)}"

    def _rows(self, kind: m.Rows) -> str:
        layouts, exact = [], []
        for each in kind.alternatives:
            layouts.append(f"      [{each.tag}] = {quote(self.names.layout(each.layout))},")
            if each.layout.fixed_size is not None:
                exact.append(f"[{each.tag}] = {each.layout.fixed_size}")
        lines = [
            "rows({",
            f"    tag = {self.of(kind.tag)}, size = {self.of(kind.size)}, stop = {kind.end},",
            f"    max = {kind.max_rows}, limit = {MESSAGE_LIMIT},",
            f"    opaque = {quote(class_name(kind.opaque))},",
            f"    exact = {{ {', '.join(exact)} }},",
            "    layouts = {",
            *layouts,
            "    },",
            "  })",
        ]
        return "\n".join(lines)

    # -- inside protobuf ---------------------------------------------------------------------

    def _protobuf(self, kind: m.Type) -> tuple[str, str]:
        """Return the Lua expression of a type as protobuf writes it.

        Varints of 64 bits are cut to their width; a length precedes a layout.
        """
        length = self.of(m.Varint(64))
        match kind:
            case m.Varint(coding="zigzag"):
                return self._plain(m.Varint(64, "zigzag"))
            case m.Varint():
                key = f"narrow_{kind.coding}{kind.bits}"
                return key, f'varint({kind.bits}, "{kind.coding}", false, true)'
            case m.Bool():
                return "varint_bool", "varint_boolean()"
            case m.Blob():
                return self._blob(kind, length)
            case m.Nested():
                name = self.names.layout(kind.layout)
                return f"sized_{name}", f"sized_nested({quote(name)}, {length}{self._keeps(kind)})"
            case m.Many():
                return self._protobuf(kind.item)
            case _:
                return self._plain(kind)


def _int(kind: m.Int) -> tuple[str, str]:
    little = kind.order == "little" and kind.size > 1
    key = f"{'i' if kind.signed else 'u'}{8 * kind.size}{'le' if little else ''}"
    return key, f"int({kind.size}, {_lua(kind.signed)}, {_lua(little)})"


def _lua(value: bool) -> str:
    return "true" if value else "false"


def _bare(expression: str) -> str:
    return expression.removeprefix("T.").removeprefix('["').removesuffix('"]')
