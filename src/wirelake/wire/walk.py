"""Walks over layouts: which other layouts a layout is made of."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from . import model as m

if TYPE_CHECKING:
    from .protocol import Protocol

__all__ = ["dynamics", "inner", "offset_in_frame", "reachable"]


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
    """How many bytes of a frame come before a field; all of them must have a fixed size."""
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
