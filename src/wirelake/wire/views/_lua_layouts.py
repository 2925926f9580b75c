"""The layouts of a protocol as Lua functions that read bytes and add to the tree.

One block for each layout: its fields, then `L["auth"] = function(s, tree) ... end`, whose lines
are the parts of the layout in wire order.
"""

from __future__ import annotations

from .. import model as m
from ..generate.code import Structs
from ..generate.frames import HeadFrame
from ..walk import inner
from ._lua_fields import (
    Fields,
    Types,
    abbreviation,
    bytes_literal,
    comment,
    first_lines,
    meanings,
    number_set,
    quote,
)
from ._lua_meaning import KeptFields, keep_function, keeping

__all__ = ["LayoutWriter", "shown_by_themselves"]


def shown_by_themselves(layouts: list[m.Layout]) -> set[type]:
    """Return the layouts that have an item of their own: bodies, rows and stages."""
    found: set[type] = set()
    for layout in layouts:
        for part in layout.parts:
            if isinstance(part, m.Body):
                found |= {a.layout.cls for a in part.alternatives}
            elif isinstance(part, m.Field):
                if part.stage is not None:
                    found.add(part.stage.cls)
                if isinstance(part.type, m.Rows):
                    found |= {a.layout.cls for a in part.type.alternatives}
    return found


def holds_secret(layout: m.Layout, seen: frozenset[type] = frozenset()) -> bool:
    """Return whether a secret occurs in a layout or in what it is made of."""
    if layout.cls in seen:
        return False
    for part in layout.parts:
        if isinstance(part, m.Field) and part.secret:
            return True
        if isinstance(part, m.Options) and any(field.secret for field in part.fields):
            return True
    return any(holds_secret(other, seen | {layout.cls}) for other in inner(layout))


class LayoutWriter:
    """Writes the block of one layout."""

    def __init__(
        self, layout: m.Layout, fields: Fields, types: Types, wanted: KeptFields, *, frame: bool
    ) -> None:
        self.layout = layout
        self.wanted = wanted
        self.frame = frame
        self.fields = fields
        self.types = types
        self.name = fields.names.layout(layout)
        self.groups = 0
        self.hoisted: list[str] = []
        self.lines: list[str] = []

    def block(self, shown: bool) -> list[str]:
        """Return all lines of the block; `shown`: the layout has an item of its own."""
        self.fields.lines = []
        if shown:
            self.fields.layout(self.layout)
        self._protobuf() if self.layout.protobuf else self._parts()
        lines = comment(f"{self.name}: {first_lines(self.layout.doc)}")
        if self.layout.section:
            lines += comment(f"In the document: {self.layout.section}")
        lines.append("  do")
        lines += [f"    {line}" for line in (*self.fields.lines, *self.hoisted)]
        lines.append(f"    L[{quote(self.name)}] = function(s, tree)")
        if any("head" in line for line in self.lines):
            lines.append("      local head = {}")
        lines += [f"      {line}" for line in self.lines]
        return [*lines, "    end", "  end", ""]

    def label(self, name: str) -> str:
        """Return the key of a field, also its name in problems, such as `auth.client_id`."""
        return f"{self.name}.{abbreviation(name)}"

    def quoted(self, name: str) -> str:
        """Return the label as a Lua string."""
        return quote(self.label(name))

    # -- parts in wire order -----------------------------------------------------------------

    def _parts(self) -> None:
        for part in self.layout.parts:
            match part:
                case m.Field():
                    self._field(part)
                case m.Const():
                    self._const(part)
                case m.BitGroup():
                    self._bits(part)
                case m.Length():
                    self._length(part)
                case m.Tag():
                    self._tag(part)
                case m.TagConst():
                    self._tag_const(part)
                case m.OptionBits() | m.OptionsLength():
                    self._mark(part)
                case m.Options():
                    self._options(part)
                case m.Body():
                    self._body(part)
        if self.layout.find(m.Length) is not None:
            self.lines.append(f"finish(s, {quote(self.name)})")

    def _field(self, part: m.Field) -> None:
        kind = self.types.of(part.type)
        self._declare(part)
        read = self._read(part, kind)
        if part.when is None:
            self.lines.append(read)
            return
        self.lines.append(f"if head[{quote(part.when)}] then {read} end")

    def _declare(self, part: m.Field) -> None:
        secret = part.secret or (part.stage is not None and holds_secret(part.stage))
        self.fields.value(
            self.label(part.name),
            part.name,
            part.type,
            doc=part.doc,
            names=self.fields.named(part.names),
            secret=secret,
            protobuf=self.layout.protobuf,
        )

    def _read(self, part: m.Field, kind: str) -> str:
        """Return the statement that reads a field and checks it."""
        call = f"(s, tree, {self.quoted(part.name)}, {kind})"
        if part.stage is not None:
            stage = quote(self.fields.names.layout(part.stage))
            masked = "true" if part.secret or holds_secret(part.stage) else "false"
            return self._keeping(part, f"put_stage{call[:-1]}, {stage}, {masked})")
        read = f"put_secret{call}" if part.secret else self._keeping(part, f"put{call}")
        if part.closed and part.names is not None and isinstance(part.type, m.Int | m.Varint):
            return f"closed(s, {self.quoted(part.name)}, {number_set(part.names)}, {read})"
        if part.sizes and isinstance(part.type, m.Blob):
            return f"sized(s, {self.quoted(part.name)}, {number_set(part.sizes)}, {read})"
        return read

    def _keeping(self, part: m.Field, read: str) -> str:
        return keeping(self.wanted, self.layout.cls, part.name, part.type, read)

    def _const(self, part: m.Const) -> None:
        self.fields.bytes(self.label(part.name), part.name, part.doc)
        value = bytes_literal(part.value)
        self.lines.append(f"const(s, tree, {self.quoted(part.name)}, {value}, {quote(part.code)})")

    # -- bits --------------------------------------------------------------------------------

    def _bits(self, group: m.BitGroup) -> None:
        self.groups += 1
        var = f"bits_{self.groups}"
        self.hoisted.append(f"local {var} = bit_group({group.size}, {{")
        several = sum(bit.role == "tag" for bit in group.bits) > 1
        for bit in group.bits:
            shared = bit.role == "tag" and several
            names = "nil" if shared else self.fields.named(bit.names)
            self.fields.bit(self.label(bit.name), bit, group.size, names)
            self.hoisted.append(f"  {{ {self._bit(bit)} }},")
        self.hoisted.append("})")
        self.lines.append(f"{var}(s, tree, head)")

    def _bit(self, bit: m.Bit) -> str:
        facts = [
            f"name = {quote(bit.name)}",
            f"field = {self.quoted(bit.name)}",
            f"shift = {bit.shift}",
            f"width = {bit.width}",
        ]
        if bit.role != "stored":
            facts.append(f"role = {quote(bit.role)}")
        if bit.flag:
            facts.append("flag = true")
        if bit.closed and bit.names is not None:
            facts.append(f"set = {number_set(bit.names)}")
        if (self.layout.cls, bit.name) in self.wanted.fields:
            facts.append(f"keep = {quote(abbreviation(bit.name))}")
        return ", ".join(facts)

    # -- heads -------------------------------------------------------------------------------

    def _length(self, part: m.Length) -> None:
        self.fields.number(self.label(part.name), part.name, part.type, part.doc)
        frame = HeadFrame(self.layout, Structs())
        rules = ""
        if frame.options is not None:
            self._rules(frame)
            rules = ", rules"
        kind = self.types.of(part.type)
        self.lines.append(
            f"length(s, tree, head, {self.quoted(part.name)}, {kind},"
            f" {frame.minimum}, {frame.limit}{rules})"
        )

    def _rules(self, frame: HeadFrame) -> None:
        """Emit the table of what each command allows in a head with options."""
        const = self.layout.find(m.TagConst)
        assert frame.options is not None
        assert frame.body is not None
        self.hoisted.append("local rules = {")
        if isinstance(const, m.TagConst):
            self.hoisted.append(f"  const = {self.quoted(const.name)},")
        for key, kind in (("bits", m.OptionBits), ("size", m.OptionsLength)):
            part = self.layout.find(kind)
            assert isinstance(part, m.OptionBits | m.OptionsLength)
            self.hoisted.append(f"  {key} = {self.quoted(part.name)},")
        self.hoisted.append("  tags = {")
        for each in frame.body.alternatives:
            rule = _rule(each, frame.options)
            self.hoisted.append(f"    [{each.tag}] = {{ {rule} }}, -- {each.layout.name}")
        self.hoisted += ["  },", "}"]

    def _tag(self, part: m.Tag) -> None:
        names = self.fields.named(part.names)
        body = self.layout.body
        if part.names is None and body is not None and not body.directed:
            names = meanings({a.tag: a.layout.name for a in body.alternatives})
        self.fields.number(self.label(part.name), part.name, part.type, part.doc, names)
        self.lines.append(
            f"tag(s, tree, head, {self.quoted(part.name)}, {self.types.of(part.type)})"
        )

    def _tag_const(self, part: m.TagConst) -> None:
        self.fields.number(self.label(part.name), part.name, part.type, part.doc, base="base.HEX")
        body = self.layout.body
        values = {a.const for a in body.alternatives if a.const is not None} if body else set()
        self.lines.append(
            f"tag_const(s, tree, head, {self.quoted(part.name)}, {self.types.of(part.type)},"
            f" {number_set(values)})"
        )

    def _mark(self, part: m.OptionBits | m.OptionsLength) -> None:
        base = "base.HEX" if isinstance(part, m.OptionBits) else "base.DEC"
        self.fields.number(self.label(part.name), part.name, part.type, part.doc, base=base)
        self.lines.append(
            f"mark(s, tree, head, {self.quoted(part.name)}, {self.types.of(part.type)})"
        )

    def _options(self, part: m.Options) -> None:
        bits, size = self.layout.find(m.OptionBits), self.layout.find(m.OptionsLength)
        assert isinstance(bits, m.OptionBits)
        assert isinstance(size, m.OptionsLength)
        unknown = self.label(part.unknown)
        self.hoisted += [
            "local area = {",
            f"  bits = {self.quoted(bits.name)}, size = {self.quoted(size.name)},",
            f"  count = {8 * bits.type.size}, length = {self.types.of(part.entry_length)},",
            f"  unknown = {quote(unknown)},",
            "  fields = {",
            *(f"    [{each.bit:#x}] = {{ {self._option(each, part)} }}," for each in part.fields),
            "  },",
            "}",
        ]
        self.fields.node(unknown, part.unknown, "An option that is not known, kept")
        self.fields.number(f"{unknown}.bit", "bit", bits.type, "Its bit", base="base.HEX")
        self.fields.number(f"{unknown}.length", "length", part.entry_length)
        self.fields.bytes(f"{unknown}.data", "data", "Its bytes")
        self.lines.append("options(s, tree, head, area)")

    def _option(self, field: m.OptionField, part: m.Options) -> str:
        label = self.label(field.name)
        self.fields.number(f"{label}.length", f"length of {field.name}", part.entry_length)
        self.fields.value(label, field.name, field.type, doc=field.doc, secret=field.secret)
        facts = f"field = {quote(label)}, kind = {self.types.of(field.type)}"
        if field.secret:
            return f"{facts}, secret = true"
        keep = keep_function(field.type)
        if (self.layout.cls, field.name) in self.wanted.fields and keep is not None:
            facts += f", name = {quote(abbreviation(field.name))}, keep = {keep}"
        return facts

    def _body(self, part: m.Body) -> None:
        names = self.fields.names
        self.hoisted.append("local choice = {")
        if self.frame:
            self.hoisted.append("  frame = true,")
        directions: tuple[m.Direction | None, ...] = ("c2s", "s2c") if part.directed else (None,)
        for direction in directions:
            self.hoisted.append(f"  {direction or 'both'} = {{")
            for each in part.of(direction):
                self.hoisted.append(f"    [{each.tag}] = {quote(names.layout(each.layout))},")
            self.hoisted.append("  },")
        sizes = {a.tag: a.layout.fixed_size for a in part.alternatives}
        if self.layout.find(m.Length) is None:
            known = ", ".join(
                f"[{tag}] = {size}" for tag, size in sizes.items() if size is not None
            )
            self.hoisted.append(f"  sizes = {{ {known} }},")
        says = self._tag_text(part)
        if says is not None:
            self.hoisted.append(f"  says = {says},")
        self.hoisted.append("}")
        self.lines.append("body(s, tree, head, choice)")

    def _tag_text(self, body: m.Body) -> str | None:
        """Return the text of a tag that depends on other bits and has no table of values."""
        bits = [
            bit
            for part in self.layout.parts
            if isinstance(part, m.BitGroup)
            for bit in part.bits
            if bit.role == "tag"
        ]
        names = next((bit.names for bit in bits if bit.names is not None), None)
        if len(bits) > 1:
            return self.fields.named(names) if names is not None else "{}"
        tag = self.layout.find(m.Tag)
        unnamed = isinstance(tag, m.Tag) and tag.names is None and body.directed
        return "{}" if unnamed or (bits and names is None) else None

    # -- protobuf ----------------------------------------------------------------------------

    def _protobuf(self) -> None:
        """Emit a table of readers by key, and a loop that calls them."""
        unknown = self.label(self.layout.unknown)
        if self.layout.unparsed:
            self.fields.bytes(unknown, self.layout.unknown, "Bytes that are ignored")
            self.lines.append(f"ignored(s, tree, {quote(unknown)})")
            return
        self.hoisted.append("local readers = {")
        for part in self.layout.parts:
            assert isinstance(part, m.Field)
            self._declare(part)
            self._default(part)
            read = self._read(part, self.types.of(part.type, protobuf=True))
            key = m.field_key(part)
            self.hoisted.append(
                f"  [{key}] = function(s, tree) {read} end, -- number {part.number}"
            )
        self.hoisted.append("}")
        self.fields.bytes(unknown, self.layout.unknown, "A field that is not known, with its key")
        self.lines.append(f"protobuf(s, tree, {quote(self.name)}, readers)")

    def _default(self, part: m.Field) -> None:
        """Keep the value that a field has when it is absent."""
        keep = keep_function(part.type)
        if (self.layout.cls, part.name) in self.wanted.fields and keep and not part.optional:
            value = "0" if keep == "keep" else '""'
            self.lines.append(f"s.kept[{quote(abbreviation(part.name))}] = {value}")


def _rule(each: m.Alternative, options: m.Options) -> str:
    allowed = {field.bit for field in options.fields if each.tag in field.on}
    known = {field.bit for field in options.fields}
    critical = {1 << shift for shift in range(options.critical.bit_length())}
    critical = {bit for bit in critical if bit & options.critical}
    forbidden = ", ".join(f"{bit:#x}" for bit in sorted((known | critical) - allowed))
    facts = [f"forbidden = {{ {forbidden} }}", f"least = {each.layout.min_size}"]
    for key, value in (
        ("const", each.const),
        ("limit", each.limit),
        ("exact", each.layout.fixed_size),
    ):
        if value is not None:
            facts.append(f"{key} = {value}")
    return ", ".join(facts)
