"""Walks over layouts: which other layouts a layout is made of, and how they are named in it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from . import model as m

if TYPE_CHECKING:
    from .protocol import Protocol

__all__ = [
    "alternative_names",
    "dynamics",
    "inner",
    "is_content",
    "offset_in_frame",
    "reachable",
]


def inner(layout: m.Layout) -> Iterator[m.Layout]:
    """Yield the layouts that stand directly inside one, in wire order."""
    for part in layout.parts:
        match part:
            case m.Field():
                yield from _in_type(part.type)
                if part.stage is not None:
                    yield part.stage
            case m.Options():
                for option in part.fields:
                    yield from _in_type(option.type)
            case m.Body():
                for alternative in part.alternatives:
                    yield alternative.layout
            case _:
                pass


def _in_type(kind: m.Type) -> Iterator[m.Layout]:
    match kind:
        case m.Nested():
            yield kind.layout
        case m.Many():
            yield from _in_type(kind.item)
        case m.Rows():
            for alternative in kind.alternatives:
                yield alternative.layout
        case _:
            pass


def reachable(roots: Iterable[m.Layout]) -> list[m.Layout]:
    """Return the roots and all that they are made of, each once, outer before inner."""
    found: dict[type, m.Layout] = {}

    def visit(layout: m.Layout) -> None:
        if layout.cls in found:
            return
        found[layout.cls] = layout
        for other in inner(layout):
            visit(other)

    for root in roots:
        visit(root)
    return list(found.values())


def is_content(kind: m.Type) -> bool:
    """Return whether a type holds content of the application, by what the layout knows: bytes of
    any length, and self-describing values. Texts are names, addresses and reasons."""
    if isinstance(kind, m.Many):
        return is_content(kind.item)
    return isinstance(kind, m.Dynamic) or (isinstance(kind, m.Blob) and kind.text is None)


def dynamics(layouts: Iterable[m.Layout]) -> list[m.Dynamic]:
    """Return the dynamic types that occur in these layouts, each once."""
    found: dict[type, m.Dynamic] = {}
    for layout in layouts:
        for part in layout.parts:
            kind = part.type if isinstance(part, m.Field) else None
            while isinstance(kind, m.Many):
                kind = kind.item
            if isinstance(kind, m.Dynamic):
                found[kind.cls] = kind
    return list(found.values())


@functools.cache
def offset_in_frame(protocol: Protocol, dialect: str, path: str) -> int:
    """Return the offset of a field in its frame; all parts before it must have a fixed size."""
    layout, offset = protocol.model(dialect), 0
    for name in path.split("."):
        for part in layout.parts:
            if isinstance(part, m.Field) and part.name == name:
                layout = part.type.layout if isinstance(part.type, m.Nested) else layout
                break
            if isinstance(part, m.Body):
                layout = next(a.layout for a in part.alternatives if a.layout.name == name)
                break
            size, fixed = m.part_size(part)
            if not fixed:
                raise ValueError(f"{protocol.name}: {path} has no fixed place in the frame")
            offset += size
    return offset


def alternative_names(
    layout: m.Layout | None, alternatives: Iterable[m.Alternative]
) -> dict[type, str]:
    """Return the name of each alternative in paths and columns: that of its layout, with a prefix
    where a field of the layout around it has that name."""
    taken = {"type", "types", "row", "opaque", "broken"} if layout is None else _own_names(layout)
    prefix = "row" if layout is None or layout.body is None else layout.body.name
    names: dict[type, str] = {}
    for alternative in alternatives:
        cls = alternative.layout.cls
        if cls in names:
            continue
        name = alternative.layout.name
        while name in taken:
            name = f"{prefix}_{name}"
        taken.add(name)
        names[cls] = name
    return names


def _own_names(layout: m.Layout) -> set[str]:
    names: set[str] = set()
    for part in layout.parts:
        match part:
            case m.BitGroup():
                names |= {bit.name for bit in part.bits}
            case m.Options():
                names |= {part.unknown, *(option.name for option in part.fields)}
            case _:
                names.add(part.name)
    return names
