"""The meaning of a protocol in its dissector: the terms of `Meaning` as Lua.

A term becomes a call of the function of the same name in `lua_runtime_meaning.lua`. A term reads
values that layouts kept while they were read; `KeptFields` says which, so that others cost nothing.
Secrets are never kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .. import meaning as w
from .. import model as m
from ..protocol import Protocol
from ..walk import alternative_names
from ._lua_fields import Names, abbreviation, bytes_literal, number_set, quote

__all__ = ["COLUMNS", "KeptFields", "MeaningWriter", "keep_function", "keeping"]

COLUMNS = ("kind", "name", "message_id", "reply_to", "target", "status", "reason")
"""Columns of `messages` that the dissector shows, in this order."""
_NOTHING = "term.nothing"


@dataclass(slots=True)
class KeptFields:
    """What the layouts of a protocol keep for its meaning."""

    fields: set[tuple[type, str]] = field(default_factory=set)
    """Fields and bits, by the class of their layout and by name."""
    nested: set[type] = field(default_factory=set)
    """Layouts with such fields that stand inside other layouts."""
    sealed: dict[tuple[type, str], tuple[bytes, int]] = field(default_factory=dict)
    """Fields that may be encrypted: the mark of such bytes, and the bytes that sealing adds."""


class MeaningWriter:
    """Writes the meaning of one protocol in one dialect; `wanted` is complete afterwards."""

    def __init__(self, protocol: Protocol, dialect: str, names: Names, carried: Protocol | None):
        self.protocol = protocol
        self.dialect = dialect
        self.names = names
        self.carried = carried
        self.wanted = KeptFields()
        self._frame = protocol.model(dialect)
        self._layouts = protocol.layouts(dialect)
        self._stages = {
            part.stage.name: part.stage
            for layout in self._layouts
            for part in layout.parts
            if isinstance(part, m.Field) and part.stage is not None
        }
        self._rows: dict[str, m.Layout] = {}
        for part in self._frame.parts:
            if isinstance(part, m.Field) and isinstance(part.type, m.Rows):
                named = alternative_names(None, part.type.alternatives)
                for each in part.type.alternatives:
                    self._rows[named[each.layout.cls]] = each.layout
        self._carried_in: tuple[str, m.Layout] | None = None
        """While the meaning of carried messages is written: their stage, and their layout here."""

    def lines(self) -> list[str]:
        """Return the statement that assigns the meaning."""
        meaning = self.protocol.meaning
        self._mark_sealed(meaning)
        lines = ["  P.meaning = {", *self._columns(meaning, "    "), *self._names()]
        if meaning.transformed:
            lines.append("    transformed = true,")
        if meaning.tunnels is not None and self.carried is not None:
            lines += self._tunnels(meaning.tunnels, self.carried.meaning)
        return [*lines, "  }"]

    def _columns(self, meaning: w.Meaning, indent: str) -> list[str]:
        lines = [f"{indent}columns = {{"]
        for column in COLUMNS:
            lua = self._term(getattr(meaning, column))
            if lua != _NOTHING:
                lines.append(f"{indent}  {column} = {lua},")
        return [*lines, f"{indent}}},"]

    def _names(self) -> list[str]:
        """Return the names of messages that are not those of their layouts."""
        body = self._frame.body
        known = {} if body is None else alternative_names(self._frame, body.alternatives)
        layouts = [self._frame] if body is None else [each.layout for each in body.alternatives]
        differing = {
            self.names.layout(layout): known.get(layout.cls, layout.name) for layout in layouts
        }
        pairs = ", ".join(
            f"[{quote(key)}] = {quote(name)}" for key, name in differing.items() if key != name
        )
        return [f"    names = {{ {pairs} }}," if pairs else "    names = {},"]

    def _tunnels(self, tunnels: w.Tunnels, carried: w.Meaning) -> list[str]:
        accepted = _NOTHING if tunnels.accepted is None else self._path(tunnels.accepted)
        found = list(self._steps(self._frame, tunnels.inner.split(".")))
        layout = found[-1][1] if found else None
        if layout is None:  # this dialect carries none
            return []
        self.wanted.nested.add(layout.cls)
        lines = [
            "    tunnels = {",
            f"      protocol = {quote(tunnels.protocol)}, stage = {quote(tunnels.message)},",
            f"      carrier = {quote(tunnels.carrier)},",
            f"      message = {self._at('term.at', [key for key, _ in found])},",
            f"      connect = {quote(tunnels.connect)}, connected = {quote(tunnels.connected)},",
            f"      disconnect = {quote(tunnels.disconnect)}, accepted = {accepted},",
        ]
        self._carried_in = tunnels.message, layout
        lines += ["      meaning = {", *self._columns(carried, "        "), "        names = {},"]
        self._carried_in = None
        return [*lines, "      },", "    },"]

    def _mark_sealed(self, meaning: w.Meaning) -> None:
        mark = meaning.seal_mark
        if mark is not None and self.dialect in mark.unmarked_dialects:
            return  # only a key can tell
        facts = (b"", 0) if mark is None else (mark.prefix, mark.overhead_bytes)
        for path in meaning.sealed:
            steps = path.replace("[]", "").split(".")
            found = list(self._steps(self._frame, steps))
            if found:
                around = found[-2][1] if len(found) > 1 else self._frame
                assert around is not None
                self.wanted.sealed[around.cls, steps[-1]] = facts

    # -- terms ---------------------------------------------------------------------------------

    def _term(self, term: w.Term | str | None) -> str:
        match term:
            case None:
                return _NOTHING
            case str():
                return f"term.constant({quote(term)})"
            case w.At():
                return self._path(term.path)
            case w.Name():
                return "term.name()"
            case w.Named():
                default = "" if term.default is None else f", {quote(term.default)}"
                texts = ", ".join(f"[{quote(k)}] = {quote(v)}" for k, v in term.texts.items())
                return f"term.named({{ {texts} }}{default})"
            case w.Values():
                texts = ", ".join(f"[{int(n)}] = {quote(text)}" for n, text in term.texts.items())
                default = "nil" if term.default is None else quote(term.default)
                digits = "true" if term.digits else "false"
                return f"term.values({self._term(term.of)}, {{ {texts} }}, {default}, {digits})"
            case w.Text():
                return f"term.text({self._term(term.of)})"
            case w.First():
                return f"term.first({', '.join(self._term(each) for each in term.terms)})"
            case w.Join():
                parts = ", ".join(self._term(each) for each in term.terms)
                return f"term.join({quote(term.separator)}, {parts})"
            case w.RowField():
                row = self._row(term.row, term.name)
                return f"term.row_field({row}, {quote(abbreviation(term.name))}{self._where(term)})"
            case w.HasRow():
                return f"term.has_row({self._row(term.row)}{self._where(term)})"
            case w.Is():
                return f"term.is({self._term(term.of)}, {number_set(term.numbers)})"
            case w.Equal():
                return f"term.equal({self._term(term.left)}, {self._term(term.right)})"
            case w.If():
                parts = ", ".join(self._term(e) for e in (term.test, term.then, term.otherwise))
                return f"term.choose({parts})"
            case w.Each():
                raise TypeError("Each is not a term of a column")

    def _row(self, row: str, *wanted: str) -> str:
        layout = self._rows[row]
        self.wanted.fields |= {(layout.cls, name) for name in wanted}
        return quote(self.names.layout(layout))

    def _where(self, term: w.RowField | w.HasRow) -> str:
        if term.where is None:
            return ""
        name, number = term.where
        self._row(term.row, name)
        return f", {quote(abbreviation(name))}, {int(number)}"

    # -- paths ---------------------------------------------------------------------------------

    def _path(self, path: str) -> str:
        """Return the term of a path; `nothing` when this dialect has no such field."""
        first, *rest = path.split(".")
        layout, root, keys = self._frame, "term.at", []
        if self._carried_in is not None:
            # A carried message has no frame; its stage is a nested layout of the carrier.
            if first != self._carried_in[0]:
                return _NOTHING
            layout, root, keys = self._carried_in[1], "term.opened", [first]
        elif first in self._stages:
            layout, root = self._stages[first], "term.opened"
            keys = [self.names.layout(layout)]
        else:
            rest = [first, *rest]
        found = list(self._steps(layout, rest))
        if not found:
            return _NOTHING
        around = [layout, *(inner for _, inner in found if inner is not None)]
        owner = around[len(found) - 1]
        self.wanted.fields.add((owner.cls, rest[-1]))
        self.wanted.nested |= {inner.cls for inner in around}
        return self._at(root, [*keys, *(key for key, _ in found)])

    @staticmethod
    def _at(root: str, keys: list[str]) -> str:
        return f"{root}({', '.join(map(quote, keys))})"

    def _steps(self, layout: m.Layout, names: list[str]) -> Iterator[tuple[str, m.Layout | None]]:
        """Yield the key of each step of a path, and the layout that it leads to; nothing if the
        path leads to no field."""
        found: list[tuple[str, m.Layout | None]] = []
        for name in names:
            step = self._step(layout, name)
            if step is None:
                return
            found.append(step)
            layout = step[1] or layout
        yield from found

    def _step(self, layout: m.Layout, name: str) -> tuple[str, m.Layout | None] | None:
        body = layout.body
        if body is not None:
            known = alternative_names(layout, body.alternatives)
            for each in body.alternatives:
                if known[each.layout.cls] == name:
                    return f"@{self.names.layout(each.layout)}", each.layout
        for part in layout.parts:
            match part:
                case m.Field() if part.name == name and not part.secret:
                    return abbreviation(name), _layout_in(part.type)
                case m.BitGroup() if any(b.name == name and b.role == "stored" for b in part.bits):
                    return abbreviation(name), None
                case m.Options():
                    for option in part.fields:
                        if option.name == name and not option.secret:
                            return abbreviation(name), _layout_in(option.type)
                case _:
                    pass
        return None


def _layout_in(kind: m.Type) -> m.Layout | None:
    while isinstance(kind, m.Many):
        kind = kind.item
    return kind.layout if isinstance(kind, m.Nested) else None


def keeping(wanted: KeptFields, cls: type, name: str, kind: m.Type, read: str) -> str:
    """Return a read of a field that also keeps its value, if it is wanted."""
    if (cls, name) in wanted.sealed and isinstance(kind, m.Blob):
        prefix, overhead = wanted.sealed[cls, name]
        read = f"sealable(s, {bytes_literal(prefix)}, {overhead}, {read})"
    if (cls, name) in wanted.fields and (function := keep_function(kind)) is not None:
        read = f"{function}(s, {quote(abbreviation(name))}, {read})"
    return read


def keep_function(kind: m.Type) -> str | None:
    """Return the function that keeps a value of a type; None for a type with no single value."""
    match kind:
        case m.Int() | m.Varint() | m.Bool():
            return "keep"
        case m.Blob() | m.Fixed():
            return "keep_text"
        case _:
            return None
