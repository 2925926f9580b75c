"""One Kaitai type in the making: how a value of each kind becomes attributes and instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from .. import model as m
from ._ksy_words import (
    Node,
    Vocabulary,
    identifier,
    int_type,
    ksy_type,
    unique,
)

__all__ = ["FILLED", "Builder", "Values", "switch"]

FILLED: Final[Node] = {"valid": {"expr": "_._io.eof"}}
"""On what has a stream of its own: no bytes are left over in it."""


class Builder(Protocol):
    """What a scope needs of the file that it is in."""

    words: Vocabulary
    direction: m.Direction | None

    def layout(self, layout: m.Layout) -> str:
        """The name of the type of a layout."""


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
        """The type so far."""
        return ksy_type(self.seq, self.instances)

    # -- attributes --------------------------------------------------------------------------

    def pick(self, name: str, *, own: bool) -> str:
        """An identifier: a name of the declaration itself goes before one that is made up."""
        word = identifier(name)
        ident = unique(word, set(self.taken) if own else self.taken | self.reserved)
        self.taken.add(ident)
        return ident

    def attribute(self, name: str, props: Node, doc: str = "", *, own: bool = True) -> str:
        """Appends an attribute and returns its identifier."""
        ident = self.pick(name, own=own)
        self.seq.append({"id": ident} | props | ({"doc": doc} if doc else {}))
        return ident

    def instance(self, name: str, props: Node, doc: str = "", *, own: bool = False) -> str:
        """Adds a calculated attribute and returns its identifier."""
        ident = self.pick(name, own=own)
        self.instances[ident] = props | ({"doc": doc} if doc else {})
        return ident

    # -- fields ------------------------------------------------------------------------------

    def add_field(self, field: m.Field) -> None:
        """A stored value, with what stands before it on the wire."""
        guard: Node = {"if": self.env[field.when]} if field.when else {}
        self.add_value(field.name, field.type, guard, field_doc(field), field)
        if field.stage is not None:
            self.builder.layout(field.stage)

    def add_value(
        self, name: str, kind: m.Type, guard: Node, doc: str = "", field: m.Field | None = None
    ) -> None:
        """A value of any kind under a name."""
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
        """What makes an attribute of this kind, when one attribute is all it takes."""
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
        """Like `plain`, for what repeats: a list needs one attribute for each item."""
        whole = isinstance(kind, m.Int) and not (kind.size == 3 and kind.signed)
        if whole or isinstance(kind, m.Float | m.Varint | m.Fixed | m.Nested | m.Dynamic):
            return self.plain(kind)
        return {"type": self.wrapped(kind)}

    def wrapped(self, kind: m.Type) -> str:
        """A type of which this is the `value`."""
        name, new = self.words.value_type(kind)
        if new:
            inner = Values(self.builder, self.layout)
            inner.add_value("value", kind, {})
            self.words.types[name] = inner.node()
        return name

    def enum_props(self, names: m.EnumClass | None, closed: bool) -> Node:
        """What names the numbers of an attribute."""
        if names is None:
            return {}
        valid: Node = {"valid": {"in-enum": True}} if closed else {}
        return {"enum": self.words.enum(names)} | valid

    def number(self, name: str, kind: m.Int | m.Varint, guard: Node, valid: Node) -> str:
        """A length or a count: the expression of its value."""
        if isinstance(kind, m.Varint):
            if kind.signed:
                valid = {"valid": {"expr": "_.value >= 0"}}
            props = {"type": self.words.varint(kind)} | valid | guard
            return f"{self.attribute(name, props, own=False)}.value"
        return self.attribute(name, {"type": int_type(kind)} | guard | valid, own=False)

    def add_blob(
        self, name: str, kind: m.Blob, guard: Node, doc: str, sizes: tuple[int, ...] = ()
    ) -> None:
        """Bytes or text, behind its length if it has one."""
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
        """A list, behind its count if it has one."""
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
        """Rows up to and with the end row."""
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
        """The type of a self-describing value: `kind` says what `body.value` is."""
        name, new = self.words.name(kind, identifier(kind.name))
        if new:
            pairs = [(k.tag, k.name) for k in kind.kinds]
            enum = self.words.numbers(kind, f"{name}_kind", pairs)
            cases = {k.tag: self.dynamic_case(name, k) for k in kind.kinds}
            tag = {"id": "kind", "type": int_type(kind.tag), "enum": enum}
            self.words.types[name] = ksy_type(
                [tag | {"valid": {"in-enum": True}}, {"id": "body"} | switch("kind.to_i", cases)],
                doc="A value that says its own type.",
            )
        return name

    def dynamic_case(self, name: str, kind: m.DynamicKind) -> str:
        """The type of one kind of value."""
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
        """A counted list of a type that has a name."""
        number = self.number(f"num_{name}", count, {}, {})
        self.attribute(name, {"type": kind, "repeat": "expr", "repeat-expr": number})


def switch(on: str, cases: Mapping[Any, str]) -> Node:
    """A type that depends on a number."""
    return {"type": {"switch-on": on, "cases": cases}}


def field_doc(field: m.Field) -> str:
    """What a field means, and what a reader of the file cannot see otherwise."""
    notes = [field.doc]
    if field.secret:
        notes.append("Secret: do not show it.")
    if field.stage is not None:
        notes.append(f"Holds a {field.stage.name} once any transform is undone.")
    return " ".join(note for note in notes if note)
