"""A layout in words: what stands where, how large it is and what it means, field by field.

For the terminal (`wirelake protocols show`) and for tools; `markdown.py` makes pages of the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .. import model as m
from ._formatting import size_words, type_words

__all__ = ["FieldWords", "alternatives", "fields"]


@dataclass(frozen=True, slots=True)
class FieldWords:
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


def fields(layout: m.Layout) -> Iterator[FieldWords]:
    """Yield every part of a layout, in wire order."""
    offset: int | None = 0
    for part in layout.parts:
        here = "…" if offset is None else str(offset)
        if layout.protobuf and isinstance(part, m.Field):
            here = f"#{part.number}"
        yield from _part(part, here)
        size = _fixed_size(part)
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


def _part(part: m.Part, offset: str) -> Iterator[FieldWords]:
    match part:
        case m.Field():
            size, kind = size_words(part.type), _plain(part.type)
            yield FieldWords(
                part.name, offset, size, kind, part.doc, part.secret, tuple(_notes(part))
            )
        case m.BitGroup():
            for bit in part.bits:
                yield _bit(bit, part, offset)
        case m.Const():
            size, note = str(len(part.value)), f"always {part.value.hex(' ')}"
            yield FieldWords(part.name, offset, size, "constant", part.doc, notes=(note,))
        case m.Options():
            for option in part.fields:
                size = f"{part.entry_length.size} + {m.type_size(option.type)[0]}"
                note = f"there when bit {option.bit:#06x} is set"
                kind = f"option, {_plain(option.type)}"
                yield FieldWords(option.name, "…", size, kind, option.doc, option.secret, (note,))
        case m.Body():
            yield FieldWords(part.name, offset, "n", "the layout that the tag stands for", part.doc)
        case m.Length() | m.Tag() | m.TagConst() | m.OptionBits() | m.OptionsLength():
            yield FieldWords(
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


def _bit(bit: m.Bit, group: m.BitGroup, offset: str) -> FieldWords:
    high = bit.shift + bit.width - 1
    size = f"bit {bit.shift}" if bit.width == 1 else f"bits {high}-{bit.shift}"
    kinds = {"present": f"says whether {bit.target} is there", "tag": "tag"}
    kind = kinds.get(
        bit.role, "flag" if bit.flag else f"number of {bit.width} bit{'s' * (bit.width > 1)}"
    )
    where = f"{offset}" if group.size == 1 else f"{offset} (+{group.size})"
    return FieldWords(bit.name, where, size, kind, bit.doc, notes=tuple(_named(bit.names)))


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
    return type_words(kind).replace("`", "")


def _fixed_size(part: m.Part) -> int | None:
    match part:
        case m.Field():
            size, fixed = m.type_size(part.type)
            return size if fixed and part.when is None else None
        case m.Const():
            return len(part.value)
        case m.BitGroup():
            return part.size
        case m.Options() | m.Body():
            return None
        case _:
            return part.type.size
