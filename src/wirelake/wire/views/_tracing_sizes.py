"""What tells how a layout is read: its head in a stream, its runs in a slice, its secrets."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from .. import model as m
from ..walk import inner, reachable

__all__ = [
    "SCALARS",
    "delimits_itself",
    "has_secrets",
    "head_size",
    "least_after",
    "part_has_secrets",
    "run_size",
]

SCALARS = m.Int | m.Float | m.Bool | m.Fixed
"""Types of fixed size that are one value."""


def delimits_itself(layout: m.Layout) -> bool:
    """Whether a reader of a stream can tell where it ends."""
    if layout.protobuf:
        return False
    if layout.find(m.Length) is not None or layout.fixed_size is not None:
        return True
    if any(isinstance(p, m.Field) and isinstance(p.type, m.Rows) for p in layout.parts):
        return True
    body = layout.body
    return body is not None and all(delimits_itself(a.layout) for a in body.alternatives)


def head_size(parts: Sequence[m.Part]) -> int:
    """The bytes of a head: through its length, or up to a body."""
    total = 0
    for part in parts:
        size = _fixed_size(part)
        if size is None:
            break
        total += size
        if isinstance(part, m.Length):
            break
    return total


def _fixed_size(part: m.Part) -> int | None:
    match part:
        case m.Field(when=None):
            low, fixed = m.type_size(part.type)
            return low if fixed else None
        case m.Const():
            return len(part.value)
        case m.BitGroup():
            return part.size
        case m.Length() | m.Tag() | m.TagConst() | m.OptionBits() | m.OptionsLength():
            return part.type.size
        case _:
            return None


def run_size(parts: Sequence[m.Part]) -> int:
    """The bytes of the run that begins with these parts, in a slice."""
    total, order = 0, ""
    for part in parts:
        size, own, ends = _slot(part)
        if not size or (own and order and own != order):
            break
        total, order = total + size, own or order
        if ends:
            break
    return total


def _slot(part: m.Part) -> tuple[int, str, bool]:
    """(bytes that a part adds to a run, their order when that matters, whether the run ends)."""
    match part:
        case m.Const():
            return len(part.value), "", False
        case m.BitGroup():
            return part.size, "big" if part.size > 1 else "", False
        case m.Length() | m.Tag() | m.TagConst() | m.OptionBits() | m.OptionsLength():
            return part.type.size, _order(part.type), isinstance(part, m.Length)
        case m.Field(when=None, type=kind):
            if isinstance(kind, SCALARS):
                return m.type_size(kind)[0], _order(kind), False
            prefix = kind.length if isinstance(kind, m.Blob) else None
            prefix = kind.count if isinstance(kind, m.Many) else prefix
            if isinstance(prefix, m.Int):
                return prefix.size, _order(prefix), True
    return 0, "", True


def _order(kind: m.Type) -> str:
    return kind.order if isinstance(kind, m.Int | m.Float) and kind.size > 1 else ""


def least_after(layout: m.Layout, length: m.Length) -> int:
    """The fixed bytes between a length and the body, which the length must cover."""
    if layout.body is None:
        return 0
    tail = layout.parts[layout.parts.index(length) + 1 :]
    return sum(_fixed_size(part) or 0 for part in tail)


@functools.cache
def has_secrets(layout: m.Layout) -> bool:
    """Whether a layout, or any inside it, has a secret."""
    return any(_own_secret(part) for each in reachable([layout]) for part in each.parts)


def part_has_secrets(part: m.Part) -> bool:
    """Whether a part is secret, or anything inside it."""
    if _own_secret(part):
        return True
    alone = m.Layout("", object, (part,), "")
    return any(has_secrets(layout) for layout in inner(alone))


def _own_secret(part: m.Part) -> bool:
    if isinstance(part, m.Options):
        return any(option.secret for option in part.fields)
    return isinstance(part, m.Field) and part.secret
