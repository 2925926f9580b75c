"""The parts of a layout, each with its place: heads, lengths, tags, bits, options, bodies.

In a stream, a head of fixed size comes first and is read when all of it is there; from less than
that only constants can be judged. Inside a slice, neighbours of fixed size are a *run*: when the
slice is too short for a run, that is what is wrong with it, whatever its first values are.
"""

from __future__ import annotations

from typing import Any

from .. import model as m
from ..errors import DecodeError, NeedMore
from ._reading import Reader
from ._tracing import Tracer
from ._tracing_options import judge_options, read_options
from ._tracing_sizes import (
    SCALARS,
    head_size,
    least_after,
    part_has_secrets,
    run_size,
)
from .span import Span

__all__ = ["LayoutTracer", "check_value"]


class LayoutTracer:
    """Reads one layout, part by part."""

    def __init__(self, tracer: Tracer, layout: m.Layout, reader: Reader, span: Span):
        self.tracer = tracer
        self.layout = layout
        self.outer = reader
        self.reader = reader
        self.root = span
        self.values: dict[str, Any] = {}
        self.present: dict[str, bool] = {}
        self.numbers: dict[type, Span] = {}
        """The numbers of the head that are not stored."""
        self.tag: int | None = None
        self.tag_span: Span | None = None
        self.run_stop = 0
        """Up to which byte the present run reaches."""

    def read(self) -> Any:
        """The value of the layout."""
        for index, part in enumerate(self.layout.parts):
            self.start_run(index)
            try:
                self.part(part)
            except DecodeError:
                self.hide(index)
                raise
        if self.reader is not self.outer:
            self.close()
        if self.layout.transparent:
            return next(iter(self.values.values()))
        return self.layout.cls(**self.values)

    def hide(self, index: int) -> None:
        """Bytes that could not be read may belong to this part or a later one, and be secret."""
        last = leaf = self.root.children[-1] if self.root.children else self.root
        while leaf.children and leaf.children[-1].error is not None:
            leaf = leaf.children[-1]
        if leaf.error is None or leaf.children or leaf.value is not None:
            return
        first = index if leaf is last else index + 1  # what is inside a part has been looked at
        leaf.secret = leaf.secret or any(map(part_has_secrets, self.layout.parts[first:]))

    def close(self) -> None:
        """What a length measured must be used up."""
        if self.reader.left:
            self.tracer.trailing(self.layout, self.reader, self.root)
        self.outer.pos = self.reader.pos

    def part(self, part: m.Part) -> None:
        """One part, whatever it is."""
        self.reader.where = f"{self.layout.name}.{getattr(part, 'name', '')}"
        match part:
            case m.Field():
                self.field(part)
            case m.Const():
                self.const(part)
            case m.BitGroup():
                self.bits(part)
            case m.Length():
                self.length(part)
            case m.Tag() | m.TagConst() | m.OptionBits() | m.OptionsLength():
                self.number(part)
            case m.Options():
                read_options(self, part)
            case m.Body():
                self.body(part)

    # -- runs --------------------------------------------------------------------------------

    def start_run(self, index: int) -> None:
        """Find how far the run goes that begins with this part, unless it is inside one."""
        reader = self.reader
        if reader.pos < self.run_stop:
            return
        parts = self.layout.parts[index:]
        size = head_size(parts) if reader.open else run_size(parts)
        self.run_stop = reader.pos + size

    @property
    def whole(self) -> bool:
        """Whether all bytes of the run are there, so that its values can be judged."""
        return self.reader.stop >= self.run_stop

    def ask(self, size: int) -> None:
        """Ask for the whole head when this much of it is not there."""
        if self.reader.open and self.reader.left < size:
            raise NeedMore(self.run_stop + self.rest_need() - self.reader.stop)

    def take(self, size: int) -> bytes:
        """Bytes of a part of fixed size."""
        self.ask(size)
        return self.reader.take(size)

    def rest_need(self) -> int:
        """What every body needs after the head, when bodies delimit themselves."""
        body = self.layout.body
        if body is None or self.layout.find(m.Length) is not None:
            return 0
        return min(head_size(a.layout.parts) for a in body.alternatives)

    # -- stored fields -----------------------------------------------------------------------

    def field(self, part: m.Field) -> None:
        """A stored value, if its presence bit says that it is there."""
        if part.when is not None and not self.present[part.when]:
            self.values[part.name] = None
            return
        reader = self.reader
        about = {"doc": part.doc, "secret": part.secret, "names": part.names}
        with self.tracer.span(self.root, part.name, reader, **about) as span:
            span.value = self.field_value(part.type, span)
            if self.whole or not isinstance(part.type, SCALARS):
                check_value(part, reader, span)
            self.values[part.name] = span.value
        self.stage(part, span)

    def field_value(self, kind: m.Type, span: Span) -> Any:
        """The value of a field. In a stream its bytes are asked for as part of the head."""
        reader = self.reader
        if isinstance(kind, m.Bool) and not self.whole:
            kind = m.Bool(strict=False)
        low, fixed = m.type_size(kind)
        if not (reader.open and fixed):
            return self.tracer.value(kind, reader, span)
        self.ask(low)
        inner = reader.part(reader.pos + low)
        value = self.tracer.value(kind, inner, span)
        reader.pos = inner.pos
        return value

    def stage(self, part: m.Field, span: Span) -> None:
        """What the bytes hold, when the caller has undone their transform."""
        plain = self.tracer.stages.get(part.name)
        if part.stage is None or plain is None:
            return
        from .spans import trace  # the two need each other

        span.plaintext = plain
        span.stage = trace(part.stage, plain, direction=self.tracer.direction)

    # -- what is not stored ------------------------------------------------------------------

    def const(self, part: m.Const) -> None:
        """Bytes that are always the same; the first of them are enough to refuse."""
        reader = self.reader
        with self.tracer.span(self.root, part.name, reader, doc=part.doc) as span:
            there = reader.data[reader.pos : min(reader.stop, reader.pos + len(part.value))]
            if (self.whole or reader.open) and not part.value.startswith(there):
                raise reader.error(part.code)
            span.value = self.take(len(part.value))

    def bits(self, part: m.BitGroup) -> None:
        """Bits that share bytes."""
        reader = self.reader
        reader.where = f"{self.layout.name}.{part.bits[0].name}"
        with self.tracer.span(self.root, "bits", reader) as group:
            group.value = number = int.from_bytes(self.take(part.size), "big")
            for bit in part.bits:
                self.bit(bit, number, group)
            group.stop = reader.pos

    def bit(self, bit: m.Bit, number: int, group: Span) -> None:
        """One bit field."""
        value = number >> bit.shift & (1 << bit.width) - 1
        span = Span(
            bit.name,
            f"{self.root.path}.{bit.name}",
            group.start,
            self.reader.pos,
            bool(value) if bit.flag else value,
            bit.doc,
            names=bit.names,
            bits=(bit.shift, bit.width),
        )
        group.children.append(span)
        if bit.role == "tag":
            self.tag = (self.tag or 0) << bit.width | value
            span.number = self.tag
            self.tag_span = self.tag_span or span
        elif bit.role == "present":
            self.present[bit.name] = bool(value)
        else:
            self.values[bit.name] = span.value
        if bit.role == "stored" and self.whole:
            self.reader.where = f"{self.layout.name}.{bit.name}"
            check_value(bit, self.reader, span)

    def number(self, part: m.Tag | m.TagConst | m.OptionBits | m.OptionsLength) -> None:
        """A number of the head."""
        reader = self.reader
        names = part.names if isinstance(part, m.Tag) else None
        with self.tracer.span(self.root, part.name, reader, doc=part.doc, names=names) as span:
            raw = self.take(part.type.size)
            span.value = number = int.from_bytes(raw, part.type.order, signed=part.type.signed)
            self.numbers[type(part)] = span
            if isinstance(part, m.Tag):
                self.tag, self.tag_span = number, span
            if isinstance(part, m.TagConst) and (self.whole or part.type.size == 1):
                body = self.layout.body
                if body is not None and number not in {a.const for a in body.alternatives}:
                    raise reader.error("bad_magic", span.start)

    def length(self, part: m.Length) -> None:
        """How much follows. What a head says is judged before that much is waited for."""
        reader = self.reader
        with self.tracer.span(self.root, part.name, reader, doc=part.doc) as span:
            raw = self.take(part.type.size)
            span.value = size = int.from_bytes(raw, part.type.order)
            span.stop = reader.pos
            self.numbers[m.Length] = span
            if not reader.open:
                self.inner_length(part, size)
            elif self.layout.find(m.Options) is not None:
                judge_options(self, part, size)
            else:
                self.judge_length(part, size, span)
            if size > reader.left:
                raise NeedMore(size - reader.left)
        self.reader = reader.part(reader.pos + size)

    def inner_length(self, part: m.Length, size: int) -> None:
        """A length inside a slice."""
        reader = self.reader
        if size > reader.left:
            raise reader.error("length_overrun")
        if size < part.minimum:
            raise reader.error("bad_length")

    def judge_length(self, part: m.Length, size: int, span: Span) -> None:
        """The length of a frame: not too small for what must follow, not over the limit."""
        if size < max(part.minimum, least_after(self.layout, part)):
            raise self.reader.error("bad_length", span.start)
        if size > self.limit(part):
            raise self.reader.error("too_large", span.start)

    def limit(self, part: m.Length) -> int:
        """The most that the length may say."""
        most = 1 << 8 * part.type.size
        if self.tracer.limit is not None:
            return self.tracer.limit
        return part.limit if part.limit is not None else most

    def blame(self, span: Span, code: str) -> DecodeError:
        """An error that shows in another part of the head than the one being read."""
        self.reader.where = f"{self.layout.name}.{span.name}"
        span.error = error = self.reader.error(code, span.start)
        return error

    # -- the body ----------------------------------------------------------------------------

    def alternative(self) -> m.Alternative:
        """What the tag and the direction stand for."""
        body, tag = self.layout.body, self.tag_span
        assert body is not None
        assert tag is not None
        for found in body.of(self.tracer.direction):
            if found.tag == self.tag:
                return found
        raise self.blame(tag, "unknown_type")

    def body(self, part: m.Body) -> None:
        """The alternative itself, to the end of the frame."""
        reader = self.reader
        with self.tracer.span(self.root, part.name, reader, doc=part.doc) as span:
            found = self.alternative()
            span.layout, span.doc = found.layout.name, found.layout.doc
            span.value = self.tracer.layout(found.layout, reader, span)
            self.values[part.name] = span.value


def check_value(part: m.Field | m.Bit, reader: Reader, span: Span) -> None:
    """Names that are closed, and the sizes that a blob may have."""
    value = span.value
    if part.closed and part.names is not None and not span.label:
        at = (
            reader.pos
            if isinstance(part, m.Field) and isinstance(part.type, m.Varint)
            else span.start
        )
        span.error = reader.error("reserved_value", at)
        raise span.error
    sizes = part.sizes if isinstance(part, m.Field) else ()
    if sizes and isinstance(value, bytes | str) and len(value) not in sizes:
        raise reader.error("bad_length", reader.pos - len(value))
