"""Reference pages in Markdown (MyST), made from declarations: `reference(protocol)`.

`python -m wirelake.wire.views.markdown docs/reference` writes the pages of the built-in protocols
and of the error codes; with `--check` it only tells which are out of date. Fields marked secret are
marked here too. Where a layout differs between dialects, each has its own table.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import model as m
from ..errors import CODES
from ..walk import dynamics
from .describe import (
    anchor,
    code,
    hexadecimal,
    kind_text,
    literal,
    prose,
    size_text,
    table,
    type_text,
)

if TYPE_CHECKING:
    from ..protocol import Protocol

__all__ = ["Page", "errors_page", "layout_lines", "reference", "stale", "write_reference"]

_WAYS: tuple[tuple[m.Direction, str], ...] = (
    ("c2s", "Client to server"),
    ("s2c", "Server to client"),
)


def reference(protocol: Protocol) -> str:
    """Return the page of a protocol."""
    models = {name: protocol.layouts(name) for name in protocol.dialects}
    page = Page(protocol.name, models)
    lines = [f"# {prose(protocol.title)}", "", _byte_order(page), ""]
    lines += [prose(protocol.doc.strip()), ""] if protocol.doc else []
    lines += _facts(protocol)
    for section in (_commands, _rows, _layouts, _values, _numbers, _limits):
        lines += section(page)
    return "\n".join(lines).rstrip() + "\n"


def errors_page() -> str:
    """Return the page of all error codes."""
    lines = [
        "# Error codes",
        "",
        "Everything that can be wrong with bytes, or with a value to encode, has one of these",
        "codes. They are stable: tools, tables and peers may rely on them. An error also carries",
        "the dotted name of the field and the offset of the byte where it shows.",
        "",
    ]
    rows = ([code(name), prose(meaning)] for name, meaning in CODES.items())
    lines += table(["code", "meaning"], rows)
    return "\n".join(lines).rstrip() + "\n"


# -- sections of a page ----------------------------------------------------------------------


def _byte_order(page: Page) -> str:
    orders = set(page.orders())
    if orders == {"little"}:
        return "Byte order: fixed-size numbers are **little-endian**, not in network order."
    if orders == {"big"}:
        return "Byte order: fixed-size numbers are big-endian (network order)."
    if not orders:
        return "Byte order: no number takes more than one byte, or all are varints."
    return "Byte order: **mixed**; see the type of each field."


def _facts(protocol: Protocol) -> list[str]:
    dialects = ", ".join(code(name) for name in protocol.dialects)
    first = " (the first is the default)" if len(protocol.dialects) > 1 else ""
    rows = [["name", code(protocol.name)], ["dialects", f"{dialects}{first}"]]
    if protocol.port is not None:
        rows.append(["default port", str(protocol.port)])
    if protocol.directed:
        rows.append(["directions", "a reader must know the direction"])
    return list(table(["", ""], rows))


def _commands(page: Page) -> Iterator[str]:
    body = page.frame.body
    if body is None:
        return
    yield "## Commands"
    yield ""
    ways = _WAYS if body.directed else ((None, ""),)
    for direction, title in ways:
        if title:
            yield from (f"### {title}", "")
        found = body.of(direction)
        consts = any(alternative.const is not None for alternative in found)
        head = ["tag", "command", "meaning", *(["constant"] if consts else [])]
        yield from table(head, (_command(page, alternative, consts) for alternative in found))


def _command(page: Page, alternative: m.Alternative, consts: bool) -> list[str]:
    layout = alternative.layout
    cells = [
        f"{alternative.tag} ({hexadecimal(alternative.tag)})",
        page.link(layout.name),
        prose(_first_line(layout.doc)),
    ]
    if consts:
        cells.append("" if alternative.const is None else hexadecimal(alternative.const))
    return cells


def _rows(page: Page) -> Iterator[str]:
    for field, kind in page.rows():
        yield from ("## Rows", "")
        yield f"{code(field.name)} ends with a row of type {hexadecimal(kind.end)} and size 0."
        yield "A row of a type that is not in this table is carried as it is; one whose content"
        yield "breaks a rule is kept as bytes, with the error."
        yield ""
        found = (
            [hexadecimal(a.tag), page.link(a.layout.name), prose(_first_line(a.layout.doc))]
            for a in kind.alternatives
        )
        yield from table(["type", "row", "meaning"], found)


def _layouts(page: Page) -> Iterator[str]:
    yield from ("## Layouts", "")
    for variants in page.layouts():
        yield from layout_lines(page, variants)


def _values(page: Page) -> Iterator[str]:
    found = {name: dynamics(layouts) for name, layouts in page.models.items()}
    for index, first in enumerate(next(iter(found.values()))):
        yield from (f"({anchor(page.name, first.name)})=", f"## Value {code(first.name)}", "")
        yield f"A type ({first.tag.size} byte), then a value of that type; it may contain itself."
        yield ""
        words = {name: [kind_text(k) for k in each[index].kinds] for name, each in found.items()}
        default, *others = words
        head = ["type", "name", "content", *(f"content in {code(other)}" for other in others)]
        differs = any(words[other] != words[default] for other in others)
        rows = []
        for place, kind in enumerate(first.kinds):
            cells = [str(kind.tag), code(kind.name), words[default][place]]
            if differs:
                same = (words[other][place] == words[default][place] for other in others)
                cells += ["" if s else words[o][place] for s, o in zip(same, others, strict=True)]
            rows.append(cells)
        yield from table(head if differs else head[:3], rows)


def _numbers(page: Page) -> Iterator[str]:
    enums = page.enums()
    if enums:
        yield from ("## Numbers with names", "")
    for enum in enums:
        yield from (f"({page.numbers_anchor(enum)})=", f"### {enum.__name__}", "")
        yield from (prose((enum.__doc__ or "").strip()), "")
        rows = ([f"{int(member)}", code(member.name)] for member in enum)
        yield from table(["number", "name"], rows)


def _limits(page: Page) -> Iterator[str]:
    rows = list(page.limits())
    if rows:
        yield from ("## Limits", "")
        yield "Default limits of readers, and limits of the format."
        yield ""
        yield from table(["where", "limit"], rows)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


# -- files -----------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """Return every page of the built-in protocols, and of the errors: file name -> text."""
    # By name: `wire` must not import `protocols`, which is above it.
    registry = importlib.import_module("wirelake.protocols.registry")
    found = {f"{name}.md": reference(registry.find(name)) for name in sorted(registry.BUILT_IN)}
    return found | {"errors.md": errors_page()}


def stale(folder: Path | str) -> list[str]:
    """Return the pages in a folder that are missing or out of date."""
    return [
        name
        for name, text in pages().items()
        if not (path := Path(folder) / name).exists() or path.read_text(encoding="utf-8") != text
    ]


def write_reference(folder: Path | str) -> list[str]:
    """Write the pages that are out of date into a folder and return their names."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    current, names = pages(), stale(folder)
    for name in names:
        (Path(folder) / name).write_text(current[name], encoding="utf-8")
    return names


def main(arguments: list[str] | None = None) -> int:
    """Write the reference pages; with --check, only list those that are out of date."""
    parser = argparse.ArgumentParser(
        prog="python -m wirelake.wire.views.markdown", description=main.__doc__
    )
    parser.add_argument("folder", type=Path, help="where the pages are, such as docs/reference")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    options = parser.parse_args(arguments)
    names = stale(options.folder) if options.check else write_reference(options.folder)
    for name in names:
        print(("stale: " if options.check else "wrote ") + name)
    return 1 if options.check and names else 0


# -- one layout ------------------------------------------------------------------------------------


_HEAD = ["offset", "size", "name", "type", "meaning", "values"]
_HEAD_PROTOBUF = ["number", "wire type", *_HEAD[2:]]
_WIRE_TYPES = {0: "varint", 1: "8 bytes", 2: "length and bytes", 5: "4 bytes"}


@dataclass
class Page:
    """A protocol's layouts in all its dialects, and where they can be linked to."""

    name: str
    models: dict[str, list[m.Layout]]

    @property
    def frame(self) -> m.Layout:
        """The frame in the default dialect."""
        return next(iter(self.models.values()))[0]

    def link(self, name: str) -> str:
        """Return a link to a layout or a value on this page."""
        return f"[{code(name)}](#{anchor(self.name, name)})"

    def numbers_anchor(self, enum: m.EnumClass) -> str:
        """Return where the names of some numbers are; a layout may have the same name."""
        return anchor(self.name, "numbers", enum.__name__)

    def layouts(self) -> list[list[tuple[str, m.Layout]]]:
        """Return every layout, with the dialects that have it: [(dialect, layout), ...]."""
        found: dict[type, list[tuple[str, m.Layout]]] = {}
        for dialect, layouts in self.models.items():
            for layout in layouts:
                found.setdefault(layout.cls, []).append((dialect, layout))
        return list(found.values())

    def parts(self) -> Iterator[tuple[m.Layout, m.Part]]:
        """Yield all parts of all layouts, dialect by dialect."""
        for layouts in self.models.values():
            for layout in layouts:
                for part in layout.parts:
                    yield layout, part

    def rows(self) -> Iterator[tuple[m.Field, m.Rows]]:
        """Yield the fields that are rows, in the default dialect."""
        for part in self.frame.parts:
            if isinstance(part, m.Field) and isinstance(part.type, m.Rows):
                yield part, part.type

    def enums(self) -> list[m.EnumClass]:
        """Return every set of named numbers, in the order of use."""
        found: dict[m.EnumClass, None] = {}
        for _, part in self.parts():
            members = part.bits if isinstance(part, m.BitGroup) else (part,)
            for member in members:
                names = getattr(member, "names", None)
                if names is not None:
                    found[names] = None
        return list(found)

    def orders(self) -> Iterator[m.Order]:
        """Yield the byte order of every number of several bytes."""
        for _, part in self.parts():
            yield from _orders_in(getattr(part, "type", None))
            if isinstance(part, m.Options):
                yield from _orders_in(part.entry_length)
                for option in part.fields:
                    yield from _orders_in(option.type)

    def limits(self) -> Iterator[list[str]]:
        """Return (where, limit) pairs; a limit of only one dialect names it."""
        found: dict[tuple[str, str], list[str]] = {}
        for dialect, layouts in self.models.items():
            for layout in layouts:
                for part in layout.parts:
                    for where, limit in _limits_of(layout, part):
                        found.setdefault((where, limit), []).append(dialect)
        for (where, limit), dialects in found.items():
            some = len(dialects) < len(self.models)
            note = f" (dialect {', '.join(code(name) for name in dialects)})" if some else ""
            yield [where, f"{limit}{note}"]


def _orders_in(kind: object) -> Iterator[m.Order]:
    match kind:
        case m.Int() | m.Float():
            if kind.size > 1:
                yield kind.order
        case m.Blob():
            yield from _orders_in(kind.length)
        case m.Many():
            yield from _orders_in(kind.item)
            yield from _orders_in(kind.count)
        case m.Rows():
            yield from _orders_in(kind.size)
        case m.Dynamic():
            for each in kind.kinds:
                yield from _orders_in(each.type)
        case _:
            pass


def _limits_of(layout: m.Layout, part: m.Part) -> Iterator[tuple[str, str]]:
    match part:
        case m.Length():
            where = code(f"{layout.name}.{part.name}")
            if part.minimum:
                yield where, f"at least {part.minimum}"
            if part.limit is not None:
                yield where, f"{part.limit:,} bytes by default"
        case m.Body():
            for alternative in part.alternatives:
                if alternative.limit is not None:
                    yield code(alternative.layout.name), f"{alternative.limit:,} bytes"
        case m.Field(type=m.Rows() as kind):
            yield code(f"{layout.name}.{part.name}"), f"{kind.max_rows:,} rows"
        case m.Field(type=m.Dynamic() as kind):
            yield code(kind.name), f"{kind.max_depth} levels deep, {kind.max_nodes:,} values"
        case _:
            pass


# -- a layout --------------------------------------------------------------------------------


def layout_lines(page: Page, variants: list[tuple[str, m.Layout]]) -> Iterator[str]:
    """Return heading, documentation and tables of a layout; one table for equal dialects."""
    _, layout = variants[0]
    yield from (f"({anchor(page.name, layout.name)})=", f"### {code(layout.name)}", "")
    if layout.doc:
        yield from (prose(layout.doc), "")
    if layout.section:
        yield from (f"In the document: {prose(layout.section)}.", "")
    if len(variants) < len(page.models):
        yield f"Only in dialect {', '.join(code(name) for name, _ in variants)}."
        yield ""
    tables: dict[tuple[str, ...], list[str]] = {}
    for dialect, variant in variants:
        tables.setdefault(tuple(_table(page, variant)), []).append(dialect)
    for lines, dialects in tables.items():
        if len(tables) > 1:
            yield from (f"Dialect {', '.join(code(name) for name in dialects)}:", "")
        yield from lines


def _table(page: Page, layout: m.Layout) -> Iterator[str]:
    rows = list(_protobuf(page, layout) if layout.protobuf else _parts(page, layout))
    if not rows:
        ignored = " Bytes that follow are ignored and carried." if layout.unparsed else ""
        yield from (f"No fields.{ignored}", "")
        return
    yield from table(_HEAD_PROTOBUF if layout.protobuf else _HEAD, rows)
    if layout.protobuf:
        yield from ("Fields may come in any order; unknown ones are carried.", "")


def _parts(page: Page, layout: m.Layout) -> Iterator[list[str]]:
    offset: int | None = 0
    for part in layout.parts:
        here = "var" if offset is None else str(offset)
        yield from _rows_of(page, layout, part, here)
        size = m.fixed_size(part)
        offset = None if offset is None or size is None else offset + size


def _rows_of(page: Page, layout: m.Layout, part: m.Part, offset: str) -> Iterator[list[str]]:
    match part:
        case m.BitGroup():
            for bit in part.bits:
                yield [offset, _bits(bit), code(bit.name), *_bit_cells(page, bit)]
        case m.Options():
            for option in sorted(part.fields, key=lambda each: each.bit):
                yield [offset, *_option_cells(page, layout, part, option)]
                offset = "var"
            size, kept = f"{part.entry_length.size} + n", hexadecimal(part.critical)
            known = f"Others are carried, except those of bits {kept}: they are refused."
            yield [offset, size, code(part.unknown), "options that are not known", known, ""]
        case m.Body():
            yield [offset, "var", code(part.name), "the layout of the tag", prose(part.doc), ""]
        case m.Field():
            name, kind = code(part.name), _type(page, part.type)
            size = size_text(part.type)
            yield [offset, size, name, kind, _meaning(page, part), _value_names(page, part)]
        case m.Const():
            size, value = str(len(part.value)), literal(part.value)
            yield [offset, size, code(part.name), "constant", prose(part.doc), value]
        case m.Length():
            kind = f"length, {type_text(part.type)}"
            yield [offset, str(part.type.size), code(part.name), kind, prose(part.doc), ""]
        case m.Tag():
            kind, values = f"tag, {type_text(part.type)}", _names(page, part.names)
            yield [offset, str(part.type.size), code(part.name), kind, prose(part.doc), values]
        case m.TagConst():
            kind = f"constant of the tag, {type_text(part.type)}"
            yield [offset, str(part.type.size), code(part.name), kind, prose(part.doc), ""]
        case m.OptionBits() | m.OptionsLength():
            what = "bitmap" if isinstance(part, m.OptionBits) else "size of the options"
            kind = f"{what}, {type_text(part.type)}"
            yield [offset, str(part.type.size), code(part.name), kind, prose(part.doc), ""]


# -- cells -----------------------------------------------------------------------------------


def _bits(bit: m.Bit) -> str:
    last = bit.shift + bit.width - 1
    return f"bit {bit.shift}" if bit.width == 1 else f"bits {last}–{bit.shift}"


def _bit_cells(page: Page, bit: m.Bit) -> list[str]:
    kinds = {
        "present": f"whether {code(bit.target)} is present",
        "tag": "tag",
        "stored": "flag" if bit.flag else f"number of {bit.width} bits",
    }
    if bit.role == "stored" and bit.width == 1 and not bit.flag:
        kinds["stored"] = "number of 1 bit"
    return [kinds[bit.role], prose(bit.doc), _names(page, bit.names, closed=bit.closed)]


def _option_cells(
    page: Page, layout: m.Layout, options: m.Options, option: m.OptionField
) -> list[str]:
    size, _ = m.type_size(option.type)
    bodies = layout.body.alternatives if layout.body else ()
    on = ", ".join(page.link(a.layout.name) for a in bodies if a.tag in option.on)
    where = f"Bit {hexadecimal(option.bit)}; with {on}."
    return [
        f"{options.entry_length.size} + {size}",
        code(option.name),
        f"option: {_type(page, option.type)}",
        f"{prose(option.doc)}{_secret(option.secret)}",
        where,
    ]


def _type(page: Page, kind: m.Type) -> str:
    """Return the type in words, with links to what is on this page."""
    words = type_text(kind)
    for inner in _linked(kind):
        words = words.replace(code(inner), page.link(inner))
    return words


def _linked(kind: m.Type) -> Iterator[str]:
    match kind:
        case m.Nested():
            yield kind.layout.name
        case m.Dynamic():
            yield kind.name
        case m.Many():
            yield from _linked(kind.item)
        case _:
            pass


def _meaning(page: Page, part: m.Field) -> str:
    notes = [prose(part.doc) + _secret(part.secret)]
    if part.when is not None:
        notes.append(f"There when {code(part.when)} is set.")
    if part.optional:
        notes.append("May be absent.")
    if part.stage is not None:
        notes.append(f"Once any transform is undone: {page.link(part.stage.name)}.")
    return " ".join(note for note in notes if note)


def _secret(secret: bool) -> str:
    return " **Secret**: masked by default." if secret else ""


def _value_names(page: Page, part: m.Field) -> str:
    if part.sizes:
        return f"{', '.join(map(str, part.sizes))} bytes"
    return _names(page, part.names, closed=part.closed)


def _names(page: Page, names: m.EnumClass | None, *, closed: bool = False) -> str:
    if names is None:
        return ""
    link = f"[{code(names.__name__)}](#{page.numbers_anchor(names)})"
    return f"{link}; others are refused" if closed else link


def _protobuf(page: Page, layout: m.Layout) -> Iterator[list[str]]:
    for part in layout.parts:
        if isinstance(part, m.Field):
            many = isinstance(part.type, m.Many)
            kind = part.type.item if isinstance(part.type, m.Many) else part.type
            wire = _WIRE_TYPES[m.wire_type(kind)]
            words = f"repeated: {_type(page, kind)}" if many else _type(page, kind)
            cells = [str(part.number), wire, code(part.name), words]
            yield [*cells, _meaning(page, part), _value_names(page, part)]


if __name__ == "__main__":
    sys.exit(main())
