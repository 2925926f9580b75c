"""Values inside a field, each with its position: the part of the spans view below layouts.

`Span` is the position of one field, its value and its error. `Tracer` builds the tree of spans;
`value` reads one type of `model.py`. The parts of a layout (heads, bodies, options, protobuf
fields) are read in `_trace_layouts.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .. import model as m
from ..errors import DecodeError, NeedMore
from ..model import EnumClass
from ..walk import inner, reachable
from ._reader import Reader

__all__ = [
    "MESSAGE_LIMIT",
    "SCALARS",
    "Span",
    "Tracer",
    "delimits_itself",
    "has_secrets",
    "head_size",
    "least_after",
    "part_has_secrets",
    "run_size",
]


@dataclass(slots=True)
class Span:
    """A field, a part of one, or a group of them: bytes `start` to `stop` of the buffer."""

    name: str
    path: str
    """Dotted, from the root: `message.rows[2].value`."""
    start: int
    stop: int
    value: object = None
    """What the codec stores for it; a number or bytes where the codec stores nothing."""
    doc: str = ""
    secret: bool = False
    names: EnumClass | None = None
    children: list[Span] = field(default_factory=list)
    layout: str = ""
    """The layout that the children are the fields of, if they are."""
    bits: tuple[int, int] | None = None
    """Of a bit field: (lowest bit, width) within the big-endian number that its bytes are."""
    number: int | None = None
    """Of a part of a tag that is made of several bit fields: the tag so far, which has the name."""
    inner: bool = False
    """Whether it is a detail of its parent, such as the length before a string."""
    error: DecodeError | NeedMore | None = None
    """What stopped the reading here. The parents of the place have the same error, up to the root
    or, for a row that the codec keeps as broken, up to that row."""
    stage: Span | None = None
    """The content after a transform is undone; its positions refer to `plaintext`."""
    plaintext: bytes = b""

    @property
    def size(self) -> int:
        """How many bytes it covers."""
        return self.stop - self.start

    @property
    def label(self) -> str:
        """The name of its number, if it has one."""
        number = self.value if self.number is None else self.number
        if self.names is None or not isinstance(number, int):
            return ""
        known = self.names._value2member_map_.get(number)
        return known.name if known is not None else ""

    def walk(self) -> Iterator[Span]:
        """Yield itself and its descendants, outer first, without stages."""
        yield self
        for child in self.children:
            yield from child.walk()

    def leaves(self) -> Iterator[Span]:
        """Yield the smallest spans of whole bytes: laid end to end they are the whole."""
        whole = [child for child in self.children if child.bits is None]
        if not whole:
            yield self
        for child in whole:
            yield from child.leaves()

    def find(self, path: str) -> Span | None:
        """Return the span with a path."""
        return next((span for span in self.walk() if span.path == path), None)

    def at(self, offset: int) -> Span | None:
        """Return the smallest span of whole bytes that covers a byte."""
        return next((leaf for leaf in self.leaves() if leaf.start <= offset < leaf.stop), None)


# -- how a layout is read: its head in a stream, its runs in a slice, its secrets ------------------


SCALARS = m.Int | m.Float | m.Bool | m.Fixed
"""Types of fixed size that are one value."""


def delimits_itself(layout: m.Layout) -> bool:
    """Return whether a reader of a stream can tell where it ends."""
    if layout.protobuf:
        return False
    if layout.find(m.Length) is not None or layout.fixed_size is not None:
        return True
    if any(isinstance(p, m.Field) and isinstance(p.type, m.Rows) for p in layout.parts):
        return True
    body = layout.body
    return body is not None and all(delimits_itself(a.layout) for a in body.alternatives)


def head_size(parts: Sequence[m.Part]) -> int:
    """Return the bytes of a head: through its length, or up to a body."""
    total = 0
    for part in parts:
        size = m.fixed_size(part)
        if size is None:
            break
        total += size
        if isinstance(part, m.Length):
            break
    return total


def run_size(parts: Sequence[m.Part]) -> int:
    """Return the bytes of the run that begins with these parts, in a slice."""
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
    """Return the fixed bytes between a length and the body, which the length must cover."""
    if layout.body is None:
        return 0
    tail = layout.parts[layout.parts.index(length) + 1 :]
    return sum(m.fixed_size(part) or 0 for part in tail)


@functools.cache
def has_secrets(layout: m.Layout) -> bool:
    """Return whether a layout, or any inside it, has a secret."""
    return any(_own_secret(part) for each in reachable([layout]) for part in each.parts)


def part_has_secrets(part: m.Part) -> bool:
    """Return whether a part is secret, or anything inside it."""
    if _own_secret(part):
        return True
    alone = m.Layout("", object, (part,), "")
    return any(has_secrets(layout) for layout in inner(alone))


def _own_secret(part: m.Part) -> bool:
    if isinstance(part, m.Options):
        return any(option.secret for option in part.fields)
    return isinstance(part, m.Field) and part.secret


# -- the tree --------------------------------------------------------------------------------------


MESSAGE_LIMIT = 1 << 25
"""Bytes of one message of rows that are read by default: two rows of the largest size."""


class Tracer:
    """Reads one message and keeps what does not change on the way."""

    def __init__(
        self,
        direction: m.Direction | None = None,
        stages: Mapping[str, bytes] | None = None,
        limit: int | None = None,
    ):
        self.direction = direction
        self.stages = stages or {}
        self.limit = limit

    @contextmanager
    def span(self, parent: Span, name: str, reader: Reader, **about: Any) -> Iterator[Span]:
        """Add a child that covers the bytes read in the block, and its error if reading fails."""
        path = parent.path + (name if name.startswith("[") else f".{name}")
        span = Span(name, path, reader.pos, reader.pos, **about)
        parent.children.append(span)
        try:
            yield span
        except (DecodeError, NeedMore) as error:
            span.error = error
            if span.children:
                span.stop = span.children[-1].stop
            else:  # what was read, or else what there was to read
                span.stop = reader.pos if reader.pos > span.start else reader.stop
            raise
        span.stop = reader.pos

    # -- types -------------------------------------------------------------------------------

    def value(self, kind: m.Type, reader: Reader, span: Span) -> Any:
        """Read one value; its details become children of `span`."""
        match kind:
            case m.Int() | m.Varint():
                return reader.integer(kind)
            case m.Float():
                return reader.float(kind)
            case m.Bool():
                return reader.boolean(kind)
            case m.Fixed():
                return reader.take(kind.size)
            case m.Blob():
                return self.blob(kind, reader, span)
            case m.Nested():
                span.layout = kind.layout.name
                return self.layout(kind.layout, reader, span)
            case m.Many():
                return self.many(kind, reader, span)
            case m.Dynamic():
                return self.dynamic(kind, reader, span)
            case m.Rows():
                return self.rows(kind, reader, span)

    def layout(self, layout: m.Layout, reader: Reader, span: Span) -> Any:
        """Read the parts of a layout; they become children of `span`."""
        if layout.protobuf:
            from ._trace_layouts import read_protobuf  # the two need each other

            return read_protobuf(self, layout, reader, span)
        from ._trace_layouts import LayoutTracer

        return LayoutTracer(self, layout, reader, span).read()

    def slice(self, layout: m.Layout, reader: Reader, span: Span) -> Any:
        """Read a layout that must fill what is left of a closed slice."""
        value = self.layout(layout, reader, span)
        if reader.left:
            self.trailing(layout, reader, span)
        return value

    def trailing(self, layout: m.Layout, reader: Reader, span: Span) -> None:
        """Add the bytes after the last field; they may be secret if any field before them is."""
        reader.where = layout.name
        with self.span(span, "trailing", reader, inner=True, secret=has_secrets(layout)):
            raise reader.error("trailing_bytes")

    def blob(self, kind: m.Blob, reader: Reader, span: Span) -> bytes | str:
        """Read bytes or text after a length, or the rest."""
        size = reader.left
        if kind.length is not None:
            with self.span(span, "length", reader, inner=True) as part:
                part.value = size = reader.length(kind.length)
        if kind.text is None:
            if kind.length is None:
                return reader.take(size)
            with self.span(span, "bytes", reader, inner=True) as part:
                raw = reader.take(size)
                part.value = raw
                return raw
        with self.span(span, "text", reader, inner=True) as part:
            at = reader.pos
            text = reader.text(reader.take(size), kind.text, at)
            part.value = text
            return text

    def many(self, kind: m.Many, reader: Reader, span: Span) -> tuple[Any, ...]:
        """Read items after a count, or to the end."""
        items: list[Any] = []
        if kind.count is None:
            while reader.left:
                items.append(self.item(kind.item, reader, span, len(items)))
            return tuple(items)
        with self.span(span, "count", reader, inner=True) as part:
            part.value = count = reader.length(kind.count, m.type_size(kind.item)[0])
        for index in range(count):
            items.append(self.item(kind.item, reader, span, index))
        return tuple(items)

    def item(self, kind: m.Type, reader: Reader, span: Span, index: int) -> Any:
        """Read an item of a list."""
        with self.span(span, f"[{index}]", reader, secret=span.secret) as child:
            child.value = self.value(kind, reader, child)
            return child.value

    # -- self-describing values --------------------------------------------------------------

    def dynamic(self, kind: m.Dynamic, reader: Reader, span: Span) -> Any:
        """Return a dynamic value, with the limits on depth and number."""
        return _DynamicTracer(self, kind, reader).node(span, 0)

    # -- rows --------------------------------------------------------------------------------

    def rows(self, kind: m.Rows, reader: Reader, span: Span) -> tuple[Any, ...]:
        """Read rows up to the end row."""
        rows: list[Any] = []
        start, where = reader.pos, reader.where
        limit = MESSAGE_LIMIT if self.limit is None else self.limit
        while True:
            with self.span(span, f"[{len(rows)}]", reader) as row:
                reader.where = where
                tag, size = self.row_head(kind, reader, row)
                if reader.pos + size - start > limit:
                    raise reader.error("too_large", row.start)
                if tag == kind.end:
                    row.name, row.path, row.inner = "end", f"{span.path}.end", True
                    if size:
                        raise reader.error("bad_end", row.start)
                    return tuple(rows)
                reader.need(size)
                row.value = self.row(kind, tag, reader.part(reader.pos + size), row)
                reader.pos += size
                rows.append(row.value)
                if len(rows) > kind.max_rows:
                    raise reader.error("too_many")

    def row_head(self, kind: m.Rows, reader: Reader, row: Span) -> tuple[int, int]:
        """Read the tag and the size of a row."""
        reader.need(kind.tag.size + kind.size.size)
        with self.span(row, "type", reader, inner=True) as part:
            part.value = tag = reader.fixed_int(kind.tag)
        with self.span(row, "size", reader, inner=True) as part:
            part.value = size = reader.fixed_int(kind.size)
        return tag, size

    def row(self, kind: m.Rows, tag: int, reader: Reader, row: Span) -> Any:
        """Return the content of a row: its layout, or opaque, or broken."""
        start, data = reader.pos, reader.data[reader.pos : reader.stop]
        found = next((a for a in kind.alternatives if a.tag == tag), None)
        if found is None:
            with self.span(row, "data", reader) as part:
                part.value = reader.take(reader.left)
            return kind.opaque(type=tag, data=data)
        row.layout, row.doc = found.layout.name, found.layout.doc
        try:
            self.row_size(found.layout, reader)
            return self.slice(found.layout, reader, row)
        except DecodeError as error:
            row.error = error
            # What follows the error belongs to the row, too: the leaves of a tree cover all bytes.
            covered = row.children[-1]
            if covered.stop < reader.stop:
                reader.pos = covered.stop
                with self.span(row, "unread", reader, inner=True) as part:
                    part.value = reader.take(reader.left)
            offset = (error.offset or start) - start
            return kind.broken(
                type=tag, data=data, code=error.code, field=error.field, offset=offset
            )

    @staticmethod
    def row_size(layout: m.Layout, reader: Reader) -> None:
        """Check the size of a row whose layout has a fixed size."""
        if layout.fixed_size is not None and reader.left != layout.fixed_size:
            reader.where = layout.name
            raise reader.error("bad_length")


class _DynamicTracer:
    """One dynamic value and all inside it."""

    def __init__(self, tracer: Tracer, kind: m.Dynamic, reader: Reader):
        self.tracer = tracer
        self.kind = kind
        self.reader = reader
        self.budget = kind.max_nodes

    def node(self, span: Span, depth: int) -> Any:
        """Read a tag and its value."""
        reader, start = self.reader, self.reader.pos
        reader.where = f"{self.kind.name}.type"
        with self.tracer.span(span, "type", reader, inner=True) as part:
            part.value = tag = reader.fixed_int(self.kind.tag)
            found = next((k for k in self.kind.kinds if k.tag == tag), None)
            if found is None:
                raise reader.error("unknown_var_type", start)
        span.layout = found.name
        reader.where = f"{self.kind.name}.{found.name}"
        return self.kind.cls(type=tag, value=self.content(found.type, span, depth))

    def content(self, kind: Any, span: Span, depth: int) -> Any:
        """Read the value after the tag."""
        match kind:
            case None:
                return None
            case m.Pairs():
                return self.pairs(kind, span, depth)
            case m.Items():
                return self.items(kind, span, depth)
            case m.Blob():
                return self.tracer.blob(kind, self.reader, span)
            case _:
                with self.tracer.span(span, "value", self.reader, inner=True) as part:
                    part.value = self.tracer.value(kind, self.reader, part)
                    return part.value

    def pairs(self, kind: m.Pairs, span: Span, depth: int) -> tuple[tuple[str, Any], ...]:
        """Return a map: its pairs in order."""
        where = f"{self.reader.where}.key"
        least = m.type_size(kind.key)[0] + self.kind.tag.size
        pairs: list[tuple[str, Any]] = []
        for index in range(self.count(kind.count, least, span, depth)):
            with self.tracer.span(span, f"[{index}]", self.reader) as pair:
                self.reader.where = where
                with self.tracer.span(pair, "key", self.reader) as part:
                    part.value = self.tracer.blob(kind.key, self.reader, part)
                with self.tracer.span(pair, "value", self.reader) as child:
                    child.value = self.node(child, depth + 1)
                pair.value = (part.value, child.value)
            pairs.append((str(part.value), child.value))
        return tuple(pairs)

    def items(self, kind: m.Items, span: Span, depth: int) -> tuple[Any, ...]:
        """Return a list."""
        items: list[Any] = []
        for index in range(self.count(kind.count, self.kind.tag.size, span, depth)):
            with self.tracer.span(span, f"[{index}]", self.reader) as child:
                child.value = self.node(child, depth + 1)
            items.append(child.value)
        return tuple(items)

    def count(self, kind: m.Int | m.Varint, least: int, span: Span, depth: int) -> int:
        """Read a count and check depth, budget and remaining bytes."""
        reader = self.reader
        with self.tracer.span(span, "count", reader, inner=True) as part:
            if depth >= self.kind.max_depth:
                raise reader.error("too_deep")
            part.value = count = reader.length(kind, least)
            self.budget -= count
            if self.budget < 0:
                raise reader.error("too_many")
        return count
