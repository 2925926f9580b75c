"""The types of a protocol as Lua readers: `T.text_u16 = blob(T.u16, "strict")`.

Each type of `model.py` that occurs becomes one entry of the table `T`, named by what it is. The
functions called here (`int`, `blob`, `many`, ...) are in `lua_runtime.lua`.
"""

from __future__ import annotations

from .. import model as m
from ..generate.rows import MESSAGE_LIMIT
from .lua_names import Names, class_name
from .lua_text import quote

__all__ = ["Types"]


class Types:
    """The entries of `T`, in an order in which each stands after what it is made of."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.lines: dict[str, str] = {}

    def of(self, kind: m.Type, *, protobuf: bool = False) -> str:
        """The Lua expression of a type: an entry of `T`, added when it is new."""
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
                return f"nested_{name}", f"nested({quote(name)}, {kind.layout.min_size})"
            case m.Many():
                return self._many(kind)
            case m.Dynamic():
                return f"dynamic_{self.names.dynamic(kind)}", self._dynamic(kind)
            case m.Rows():
                return f"rows_up_to_{kind.end}", self._rows(kind)

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
        """As protobuf writes a type: 64-bit varints cut to their width, lengths before layouts."""
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
                return f"sized_{name}", f"sized_nested({quote(name)}, {length})"
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
