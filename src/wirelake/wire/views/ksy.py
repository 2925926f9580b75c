"""A protocol as Kaitai Struct files: `kaitai(protocol)` gives `.ksy` text made from its model.

The top type reads one frame. A protocol whose directions differ has a file for each. How a
declaration shows in the compiled parser:

    integer, float, fixed bytes, layout, Var   attribute `x`
    varint                                     `x.value`
    blob, text                                 `len_x`, then `x`
    text that may be invalid UTF-8             `x` is bytes, `x_text` the text
    bool                                       `x_raw` (a byte), and `x`
    list                                       `num_x`, then `x`; an item that is not a plain
                                               attribute has a type of its own, with `value`
    rows                                       `x`: rows with `kind`, `len_body`, `body`; END too
    what follows a length                      `rest`, in a stream of its own
    options                                    `options`, each with its `len_`
    body                                       its name; the type follows the tag
    protobuf layout                            `fields`: each `number`, `wire_type`, `value`

Kaitai only reads, and has no words for some things. Not expressed: the limits of a reader (sizes,
depth and number of values), what a stage's transform yields (its layout is there as a type), and
keeping a row that breaks a rule as bytes: a message with such a row is refused whole.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

from .. import model as m
from ._ksy_values import (
    FILLED,
    Builder,
    Node,
    Values,
    Vocabulary,
    identifier,
    int_type,
    ksy_type,
    switch,
)

if TYPE_CHECKING:
    from ..protocol import Protocol

__all__ = [
    "Parts",
    "dump",
    "identifier",
    "kaitai",
    "quote",
]


# -- plain data (dicts, lists, text, numbers) as YAML that every parser reads alike ----------------


_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_RESERVED: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
"""Words that YAML 1.1 reads as something other than text."""
_SPECIAL: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
"""What JSON leaves bare and YAML does not allow, or takes for a line break."""


def dump(data: Mapping[Any, Any]) -> str:
    """Return a mapping as a YAML document."""
    return "\n".join(_mapping(data, "")) + "\n"


def quote(text: str) -> str:
    """Return text in double quotes; a lone surrogate, which UTF-8 lacks, becomes U+FFFD."""
    return _SPECIAL.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"


def _mapping(data: Mapping[Any, Any], indent: str) -> Iterator[str]:
    for key, value in data.items():
        yield from _entry(f"{indent}{_scalar(key)}:", value, indent)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    inner = indent + "  "
    if isinstance(value, Mapping) and value:
        yield head
        yield from _mapping(value, inner)
    elif _is_list(value) and value:
        if all(isinstance(item, int) for item in value):
            yield f"{head} [{', '.join(_scalar(item) for item in value)}]"
        else:
            yield head
            yield from _list(value, inner)
    elif isinstance(value, str) and _is_block(value):
        yield f"{head} |-"
        yield from (inner + line if line else "" for line in value.split("\n"))
    else:
        yield f"{head} {_scalar(value)}"


def _list(items: Sequence[Any], indent: str) -> Iterator[str]:
    for item in items:
        if isinstance(item, Mapping) and item:
            lines = list(_mapping(item, indent + "  "))
            yield f"{indent}- {lines[0][len(indent) + 2 :]}"
            yield from lines[1:]
        else:
            yield f"{indent}- {_scalar(item)}"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_block(text: str) -> bool:
    """Return whether a block represents this text exactly: printable lines, none blank at an
    end."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and all(line.isprintable() for line in lines)
        and bool(lines[0] and lines[-1])
        and not lines[0].startswith(" ")
    )


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "{}"
    if _is_list(value):
        return "[]"
    text = str(value)
    if _WORD.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return quote(text)


KS_VERSION = "0.11"
"""The first version that knows `in-enum`."""


def kaitai(
    protocol: Protocol, dialect: str | None = None, direction: m.Direction | None = None
) -> dict[str, str]:
    """Return the files of a dialect by name; `direction` selects one where directions differ."""
    name = protocol.dialect(dialect)
    if direction is not None and direction not in get_args(m.Direction):
        raise ValueError(f"invalid direction {direction!r}; expected c2s or s2c")
    stem = protocol.name if name == protocol.dialects[0] else f"{protocol.name}_{name}"
    if not protocol.directed:
        return {f"{identifier(stem)}.ksy": _file(protocol, name, identifier(stem), None)}
    directions: tuple[m.Direction, ...] = ("c2s", "s2c") if direction is None else (direction,)
    idents = {way: identifier(f"{stem}_{way}") for way in directions}
    return {f"{ident}.ksy": _file(protocol, name, ident, way) for way, ident in idents.items()}


def _file(protocol: Protocol, dialect: str, ident: str, direction: m.Direction | None) -> str:
    frame, *others = protocol.layouts(dialect)
    builder = _Builder(ident, direction, frame)
    top = builder.body_of(frame)
    more = set(protocol.more)
    for layout in others:
        if layout.cls in more:
            builder.layout(layout)
    head: Node = {"meta": _meta(protocol, dialect, ident, direction)}
    if protocol.doc:
        head["doc"] = protocol.doc.strip()
    if frame.section:
        head["doc-ref"] = frame.section
    if builder.words.types:
        top["types"] = dict(sorted(builder.words.types.items()))
    if builder.words.enums:
        top["enums"] = dict(sorted(builder.words.enums.items()))
    return f"# Made from the declaration of {protocol.name}; do not edit.\n{dump(head | top)}"


def _meta(
    protocol: Protocol, dialect: str, ident: str, direction: m.Direction | None
) -> dict[str, Any]:
    notes = []
    if len(protocol.dialects) > 1:
        notes.append(f"dialect {dialect}")
    if direction is not None:
        notes.append("client to server" if direction == "c2s" else "server to client")
    title = f"{protocol.title} ({', '.join(notes)})" if notes else protocol.title
    return {"id": ident, "title": title, "ks-version": KS_VERSION, "encoding": "UTF-8"}


class _Builder:
    """Builds the types of layouts on demand."""

    def __init__(self, ident: str, direction: m.Direction | None, frame: m.Layout):
        self.words = Vocabulary(ident)
        self.direction = direction
        self._frame = frame
        self._ident = ident

    def layout(self, layout: m.Layout) -> str:
        """Return the type of a layout."""
        if layout is self._frame:
            return self._ident
        name, new = self.words.name(layout, identifier(layout.name))
        if new:
            self.words.types[name] = {}  # reserved: building it may refer to the same layout
            self.words.types[name] = _documented(layout) | self.body_of(layout)
        return name

    def body_of(self, layout: m.Layout) -> Node:
        """Return the type of a layout without its documentation."""
        scope = Parts(self, layout)
        if layout.protobuf:
            scope.add_protobuf()
        else:
            scope.add_parts(layout.parts)
        return scope.node()


def _documented(layout: m.Layout) -> Node:
    node: Node = {}
    if layout.doc:
        node["doc"] = layout.doc
    if layout.section:
        node["doc-ref"] = layout.section
    return node


# -- the type of a layout --------------------------------------------------------------------------


class Parts(Values):
    """The parts of one layout, or of what follows its length."""

    def __init__(self, builder: Builder, layout: m.Layout, *, outer: Values | None = None):
        super().__init__(builder, layout, outer=outer)
        self.alternatives = layout.body.of(builder.direction) if layout.body else ()
        self.reserved = {identifier(name) for name in _names(layout)}
        self.tag_bits = [bit for bit in _bits(layout) if bit.role == "tag"]

    @property
    def tag(self) -> str:
        """The expression of the tag as a number; empty before it has been read."""
        part = self.layout.find(m.Tag)
        if isinstance(part, m.Tag):
            path = self.env.get(part.name, "")
            return f"{path}.to_i" if path and part.names else path
        if not self.tag_bits or self.tag_bits[-1].name not in self.env:
            return ""
        last = self.tag_bits[-1]
        return self.combined_tag(f"{self.env[last.name]}{self.to_number(last)}")

    def add_parts(self, parts: tuple[m.Part, ...]) -> None:
        """Add all parts; those after a length in a type of their own."""
        for index, part in enumerate(parts):
            self.add(part)
            if isinstance(part, m.Length):
                if after := parts[index + 1 :]:
                    self.add_rest(part, after)
                return

    def add_rest(self, length: m.Length, parts: tuple[m.Part, ...]) -> None:
        """Add what a length counts."""
        inner = Parts(self.builder, self.layout, outer=self)
        inner.add_parts(parts)
        kind = self.words.fresh(f"{identifier(self.layout.name)}_rest")
        self.words.types[kind] = inner.node()
        # A stream of its own, so that nothing inside reads past the length, and nothing may be
        # left.
        props = {"size": self.env[length.name], "type": kind} | FILLED
        self.attribute("rest", props, f"The bytes that {length.name} counts.", own=False)

    def add(self, part: m.Part) -> None:
        """Add one part."""
        match part:
            case m.Field():
                self.add_field(part)
            case m.Const():
                self.attribute(part.name, {"contents": list(part.value)}, part.doc)
            case m.BitGroup():
                for bit in part.bits:
                    self.add_bit(bit)
            case m.Length():
                self.add_length(part)
            case m.Tag():
                self.add_tag(part)
            case m.TagConst():
                self.named(part, {"type": int_type(part.type)} | self.const_rule())
            case m.OptionBits():
                self.add_option_bits(part)
            case m.OptionsLength():
                self.add_options_length(part)
            case m.Options():
                self.add_options(part)
            case m.Body():
                self.add_body(part)

    def named(self, part: Any, props: Node, doc: str = "") -> None:
        """Add an attribute that later parts may refer to."""
        self.env[part.name] = self.attribute(part.name, props, doc or part.doc)

    def add_length(self, part: m.Length) -> None:
        """Add a length; its limit is an option of readers, so it is only documented."""
        valid: Node = {"valid": {"min": part.minimum}} if part.minimum else {}
        limit = f"Readers accept {part.limit} by default." if part.limit else ""
        doc = " ".join(note for note in (part.doc, limit) if note)
        self.named(part, {"type": int_type(part.type)} | valid, doc)

    # -- tags and bits -----------------------------------------------------------------------

    def add_tag(self, part: m.Tag) -> None:
        """Add the tag; numbers that select no body are refused."""
        value = "_.to_i" if part.names else "_"
        props = {"type": int_type(part.type)} | self.enum_props(part.names, closed=False)
        self.named(part, props | {"valid": self.tag_rule(value)})

    def tag_rule(self, value: str) -> Node:
        """Return the rule that a tag selects a body and matches the constant, if that is read."""
        const = next((p for p in self.layout.parts if isinstance(p, m.TagConst)), None)
        tags = [a.tag for a in self.alternatives]
        if const is None or const.name not in self.env:
            return {"any-of": tags} if value == "_" else {"expr": _one_of(value, tags)}
        groups = (
            f"({self.env[const.name]} == {number} and ({_one_of(value, tags)}))"
            for number, tags in self.tags_by_const().items()
        )
        return {"expr": " or ".join(groups)}

    def const_rule(self) -> Node:
        """Return the rule that a constant is known and matches the tag, if that is read."""
        if not self.tag:
            return {"valid": {"any-of": list(self.tags_by_const())}}
        groups = (
            f"(_ == {number} and ({_one_of(self.tag, tags)}))"
            for number, tags in self.tags_by_const().items()
        )
        return {"valid": {"expr": " or ".join(groups)}}

    def tags_by_const(self) -> dict[int, list[int]]:
        """Return the tags that go with each constant."""
        groups: dict[int, list[int]] = {}
        for alternative in self.alternatives:
            if alternative.const is not None:
                groups.setdefault(alternative.const, []).append(alternative.tag)
        return groups

    def add_bit(self, bit: m.Bit) -> None:
        """Add some bits; Kaitai reads a single bit as a boolean."""
        last = bool(self.tag_bits) and bit is self.tag_bits[-1]
        props: Node = {"type": f"b{bit.width}"}
        if self.has_enum(bit):
            props |= self.enum_props(bit.names, bit.closed)
        if last:
            value = self.combined_tag(f"_{self.to_number(bit)}")
            props |= {"valid": {"expr": _one_of(value, [a.tag for a in self.alternatives])}}
        self.named(bit, props)
        if last and len(self.tag_bits) > 1:
            enum: Node = {"enum": self.words.enum(bit.names)} if bit.names else {}
            self.instance("tag", {"value": self.tag} | enum, "The tag bits as one number.")

    def has_enum(self, bit: m.Bit) -> bool:
        """Return whether its number has names; those of several tag bits belong to the whole."""
        return bit.names is not None and (bit.role != "tag" or len(self.tag_bits) == 1)

    def to_number(self, bit: m.Bit) -> str:
        """Return the suffix that turns a boolean or an enum into a number."""
        return ".to_i" if bit.width == 1 or self.has_enum(bit) else ""

    def combined_tag(self, last: str) -> str:
        """Return all tag bits as one number, the first most significant; `last` is the last."""
        value, width = last, self.tag_bits[-1].width
        for bit in reversed(self.tag_bits[:-1]):
            number = f"{self.env[bit.name]}{self.to_number(bit)}"
            value = f"({number} << {width} | {value})"
            width += bit.width
        return value

    # -- options -----------------------------------------------------------------------------

    def add_option_bits(self, part: m.OptionBits) -> None:
        """Add the bitmap of options; an unknown critical bit is refused."""
        options = self.layout.find(m.Options)
        refused = 0
        if isinstance(options, m.Options):
            refused = options.critical
            for option in options.fields:
                refused &= ~option.bit
        valid: Node = {"valid": {"expr": f"(_ & {refused}) == 0"}} if refused else {}
        self.named(part, {"type": int_type(part.type)} | valid)

    def add_options_length(self, part: m.OptionsLength) -> None:
        """Add the size of the option area: zero if and only if there are no options."""
        bits = self.layout.find(m.OptionBits)
        valid: Node = {}
        if isinstance(bits, m.OptionBits) and bits.name in self.env:
            path = self.env[bits.name]
            valid = {"valid": {"expr": f"(_ == 0 and {path} == 0) or (_ != 0 and {path} != 0)"}}
        self.named(part, {"type": int_type(part.type)} | valid)

    def add_options(self, part: m.Options) -> None:
        """Add the option area: for each set bit, ascending, a length and a value."""
        bitmap, size = self.layout.find(m.OptionBits), self.layout.find(m.OptionsLength)
        if not isinstance(bitmap, m.OptionBits) or bitmap.name not in self.env:
            return  # without a bitmap the options are unknown
        inner = Parts(self.builder, self.layout, outer=self)
        known = {option.bit: option for option in part.fields}
        for index in range(8 * bitmap.type.size):
            guard: Node = {"if": f"({inner.env[bitmap.name]} & {1 << index}) != 0"}
            if option := known.get(1 << index):
                inner.add_option(option, part.entry_length, guard)
            elif not part.critical >> index & 1:
                inner.add_value(f"unknown_{index}", m.Blob(part.entry_length), guard)
        kind = self.words.fresh(f"{identifier(self.layout.name)}_options")
        self.words.types[kind] = inner.node()
        bound: Node = {}
        if isinstance(size, m.OptionsLength) and size.name in self.env:
            bound = {"size": self.env[size.name]} | FILLED
        doc = "For each set bit, a length and a value."
        self.attribute("options", bound | {"type": kind}, doc, own=False)

    def add_option(self, option: m.OptionField, length: m.Int, guard: Node) -> None:
        """Add one option; its length is checked, and that the body allows it."""
        size, _ = m.type_size(option.type)
        rule = f"_ == {size}"
        if self.tag:
            rule += f" and ({_one_of(self.tag, list(option.on))})"
        props = {"type": int_type(length), "valid": {"expr": rule}}
        self.attribute(f"len_{option.name}", props | guard, own=False)
        doc = f"{option.doc} Secret: do not show it." if option.secret else option.doc
        self.add_value(option.name, option.type, guard, doc)

    # -- bodies ------------------------------------------------------------------------------

    def add_body(self, body: m.Body) -> None:
        """Add the body that the tag selects."""
        cases = {a.tag: self.builder.layout(a.layout) for a in self.alternatives}
        self.attribute(body.name, switch(self.tag, cases), body.doc)

    def add_protobuf(self) -> None:
        """Add protobuf fields in any order; a key has the field number and the wire type."""
        if self.layout.unparsed:
            self.attribute(self.layout.unknown, {"size-eos": True}, "Bytes that are ignored")
            return
        stem = identifier(self.layout.name)
        fields = [part for part in self.layout.parts if isinstance(part, m.Field)]
        cases: dict[Any, str] = {}
        for field in fields:
            item = field.type.item if isinstance(field.type, m.Many) else field.type
            cases[m.field_key(field)] = self.protobuf_value(item)
        value = switch(
            "key.value", cases | {"_": f"{self.words.protobuf_any()}(key.value & 7, false)"}
        )
        numbers = [(field.number or 0, field.name) for field in fields]
        enum: Node = {}
        if numbers:
            enum = {"enum": self.words.numbers(self.layout, f"{stem}_number", numbers)}
        kind = self.words.fresh(f"{stem}_field")
        self.words.types[kind] = ksy_type(
            [{"id": "key", "type": self.words.varint(m.Varint(32))}, {"id": "value"} | value],
            {
                "number": {"value": "key.value >> 3"} | enum,
                "wire_type": {"value": "key.value & 7"},
            },
        )
        self.attribute("fields", {"type": kind, "repeat": "eos"})

    def protobuf_value(self, kind: m.Type) -> str:
        """Return the type of a protobuf value; it has a `value`."""
        match kind:
            case m.Varint():
                # Protobuf writes a negative number of any width in 64 bits; the low ones count.
                return self.words.varint(dataclasses.replace(kind, loose=kind.bits < 64))
            case m.Bool():
                name, new = self.words.name("pb_bool", "protobuf_bool")
                if new:
                    raw = {"id": "raw", "type": self.words.varint(m.Varint(64))}
                    self.words.types[name] = ksy_type([raw], {"value": {"value": "raw.value != 0"}})
                return name
            case m.Nested():
                inner = self.builder.layout(kind.layout)
                name, new = self.words.name(("pb", kind.layout), f"protobuf_{inner}")
                if new:
                    size = {"id": "len_value", "type": self.words.varint(m.Varint(32))}
                    value = {"id": "value", "size": "len_value.value", "type": inner}
                    self.words.types[name] = ksy_type([size, value])
                return name
            case _:
                return self.wrapped(kind)


def _one_of(value: str, numbers: list[int]) -> str:
    return " or ".join(f"{value} == {number}" for number in numbers) or "false"


def _bits(layout: m.Layout) -> list[m.Bit]:
    return [bit for part in layout.parts if isinstance(part, m.BitGroup) for bit in part.bits]


def _names(layout: m.Layout) -> list[str]:
    """Return all names of the declaration."""
    names = [bit.name for bit in _bits(layout)]
    for part in layout.parts:
        if isinstance(part, m.Options):
            names += [option.name for option in part.fields]
        elif not isinstance(part, m.BitGroup):
            names.append(part.name)
    return names
