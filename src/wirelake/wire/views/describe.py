"""A layout as text: offset, size and meaning of each field.

For the terminal (`wirelake protocols show`) and for tools; `markdown.py` makes pages of the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .. import model as m

__all__ = [
    "FieldText",
    "alternatives",
    "anchor",
    "code",
    "fields",
    "hexadecimal",
    "literal",
    "prose",
    "size_text",
    "table",
    "type_text",
]


# -- texts of the reference pages: types, sizes and numbers, as safe Markdown ----------------------


_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_SPECIAL = re.compile(r"[\\<>{}\[\]|$`]")
_LINE_START = re.compile(r"^(\s*)(#{1,6}\s|%|\+\+\+|:::|\(.*\)=)", re.MULTILINE)


def prose(text: str) -> str:
    """Return documentation as Markdown; only code and emphasis keep their markup."""
    parts, last = [], 0
    for found in _CODE.finditer(text):
        parts += [_escape(text[last : found.start()]), found[0]]
        last = found.end()
    return "".join([*parts, _escape(text[last:])])


def _escape(text: str) -> str:
    text = _SPECIAL.sub(lambda found: "\\" + found[0], text)
    return _LINE_START.sub(lambda found: f"{found[1]}\\{found[2]}", text)


def code(text: str) -> str:
    """Return text as Markdown code, between enough backticks."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest or text != text.strip() else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Return the lines of a table; `|` in a cell is escaped, also in code."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(_cell(cell) for cell in row) + " |"
    yield ""


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def anchor(*words: str) -> str:
    """Return the name of a place to link to."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")


def hexadecimal(number: int) -> str:
    """Return hexadecimal digits, two for each byte: `0x0A`."""
    digits = f"{number:X}"
    return f"0x{digits.zfill(len(digits) + len(digits) % 2)}"


def literal(data: bytes) -> str:
    """Return constant bytes as text where they are text, else as hexadecimal digits."""
    if data and all(0x21 <= byte < 0x7F for byte in data) and len(data) > 1:
        return code(data.decode("ascii"))
    return code(data.hex(" "))


# -- types -----------------------------------------------------------------------------------

_CODINGS = {"unsigned": "unsigned", "zigzag": "signed, zigzag", "twos": "signed, two's complement"}


def type_text(kind: m.Type) -> str:
    """Return a description of a type of values."""
    match kind:
        case m.Int():
            return _int_text(kind)
        case m.Varint():
            loose = "; surplus bits are dropped" if kind.loose else ""
            return f"varint of {kind.bits} bits, {_CODINGS[kind.coding]}{loose}"
        case m.Float():
            return f"IEEE 754 number of {8 * kind.size} bits, {kind.order}-endian"
        case m.Bool():
            return "boolean: 0 or 1" if kind.strict else "boolean: 0 is false, all else true"
        case m.Fixed():
            return f"{kind.size} bytes"
        case m.Blob():
            return _blob_text(kind)
        case m.Nested():
            return f"layout {code(kind.layout.name)}"
        case m.Many():
            end = "to the end" if kind.count is None else f"behind its count ({_short(kind.count)})"
            return f"list {end}: {type_text(kind.item)}"
        case m.Dynamic():
            return f"{code(kind.name)}: a self-describing value"
        case m.Rows():
            return (
                f"rows to the end row: type ({_short(kind.tag)}), "
                f"size ({_short(kind.size)}) and that many bytes"
            )


def kind_text(kind: m.DynamicKind) -> str:
    """Return a description of one kind of self-describing value."""
    match kind.type:
        case None:
            return "nothing"
        case m.Pairs():
            count, key = _short(kind.type.count), type_text(kind.type.key)
            return f"pairs behind their count ({count}): {key}; then a value of any type"
        case m.Items():
            return f"values of any type behind their count ({_short(kind.type.count)})"
        case _:
            return type_text(kind.type)


def _int_text(kind: m.Int) -> str:
    sign = "signed" if kind.signed else "unsigned"
    if kind.size == 1:
        return f"{sign} byte"
    return f"{sign} integer of {8 * kind.size} bits, {kind.order}-endian"


def _blob_text(kind: m.Blob) -> str:
    what = {None: "bytes", "strict": "UTF-8 text", "loose": "UTF-8 text, invalid bytes kept"}
    if kind.length is None:
        return f"{what[kind.text]}, to the end"
    return f"{what[kind.text]}, behind its length ({_short(kind.length)})"


def _short(kind: m.Int | m.Varint) -> str:
    """Return a length or a count in few words."""
    if isinstance(kind, m.Varint):
        return f"varint {kind.coding} {kind.bits}"
    if kind.size == 1:
        return "1 byte"
    return f"{kind.size} bytes, {kind.order}-endian"


def size_text(kind: m.Type) -> str:
    """Return the size of a value in bytes; n is the size of its content."""
    match kind:
        case m.Varint():
            return f"1–{-(-kind.bits // 7)}"
        case m.Blob() | m.Many():
            before = kind.length if isinstance(kind, m.Blob) else kind.count
            return "n" if before is None else f"{size_text(before)} + n"
        case m.Dynamic():
            return f"{kind.tag.size} + n"
        case _:
            size, fixed = m.type_size(kind)
            return str(size) if fixed else "var"


@dataclass(frozen=True, slots=True)
class FieldText:
    """One part of a layout, or some bits of one."""

    name: str
    offset: str
    """From the start of the layout; `…` behind something of variable size, `#n` in protobuf."""
    size: str
    """In bytes, or which bits."""
    type: str
    doc: str = ""
    secret: bool = False
    notes: tuple[str, ...] = ()


def fields(layout: m.Layout) -> Iterator[FieldText]:
    """Yield every part of a layout, in wire order."""
    offset: int | None = 0
    for part in layout.parts:
        here = "…" if offset is None else str(offset)
        if layout.protobuf and isinstance(part, m.Field):
            here = f"#{part.number}"
        yield from _part(part, here)
        size = m.fixed_size(part)
        offset = None if offset is None or size is None else offset + size


def alternatives(layout: m.Layout) -> list[tuple[int, str, m.Layout]]:
    """(tag, direction or nothing, layout) of what a body or a row can be."""
    found: list[tuple[int, str, m.Layout]] = []
    for part in layout.parts:
        choices: tuple[m.Alternative, ...] = ()
        if isinstance(part, m.Body):
            choices = part.alternatives
        elif isinstance(part, m.Field) and isinstance(part.type, m.Rows):
            choices = part.type.alternatives
        found += [(a.tag, a.direction or "", a.layout) for a in choices]
    return found


def _part(part: m.Part, offset: str) -> Iterator[FieldText]:
    match part:
        case m.Field():
            size, kind = size_text(part.type), _plain(part.type)
            yield FieldText(
                part.name, offset, size, kind, part.doc, part.secret, tuple(_notes(part))
            )
        case m.BitGroup():
            for bit in part.bits:
                yield _bit(bit, part, offset)
        case m.Const():
            size, note = str(len(part.value)), f"always {part.value.hex(' ')}"
            yield FieldText(part.name, offset, size, "constant", part.doc, notes=(note,))
        case m.Options():
            for option in part.fields:
                size = f"{part.entry_length.size} + {m.type_size(option.type)[0]}"
                note = f"there when bit {option.bit:#06x} is set"
                kind = f"option, {_plain(option.type)}"
                yield FieldText(option.name, "…", size, kind, option.doc, option.secret, (note,))
        case m.Body():
            yield FieldText(part.name, offset, "n", "the layout of the tag", part.doc)
        case m.Length() | m.Tag() | m.TagConst() | m.OptionBits() | m.OptionsLength():
            yield FieldText(
                part.name,
                offset,
                str(part.type.size),
                f"{_ROLES[type(part)]}, {_plain(part.type)}",
                part.doc,
                notes=tuple(_named(part.names) if isinstance(part, m.Tag) else ()),
            )


_ROLES = {
    m.Length: "length of what follows",
    m.Tag: "tag",
    m.TagConst: "constant of the tag",
    m.OptionBits: "bitmap of options",
    m.OptionsLength: "size of the options",
}


def _bit(bit: m.Bit, group: m.BitGroup, offset: str) -> FieldText:
    high = bit.shift + bit.width - 1
    size = f"bit {bit.shift}" if bit.width == 1 else f"bits {high}-{bit.shift}"
    kinds = {"present": f"whether {bit.target} is present", "tag": "tag"}
    kind = kinds.get(
        bit.role, "flag" if bit.flag else f"number of {bit.width} bit{'s' * (bit.width > 1)}"
    )
    where = f"{offset}" if group.size == 1 else f"{offset} (+{group.size})"
    return FieldText(bit.name, where, size, kind, bit.doc, notes=tuple(_named(bit.names)))


def _notes(part: m.Field) -> Iterator[str]:
    if part.when is not None:
        yield f"there when {part.when} is set"
    if part.optional:
        yield "may be absent"
    if part.sizes:
        yield f"{', '.join(map(str, part.sizes))} bytes"
    if part.stage is not None:
        yield f"holds {part.stage.name} once any transform is undone"
    yield from _named(part.names, closed=part.closed)


def _named(names: m.EnumClass | None, *, closed: bool = False) -> Iterator[str]:
    if names is not None:
        yield ", ".join(f"{int(member)} {member.name}" for member in names)
    if closed:
        yield "others are refused"


def _plain(kind: m.Type) -> str:
    """Return the words of a type without the marks of Markdown."""
    return type_text(kind).replace("`", "")
