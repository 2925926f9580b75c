"""The option area of a head, each option with its place; and what a head with options may say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import model as m
from ..errors import DecodeError
from ._reading import Reader
from .span import Span

if TYPE_CHECKING:
    from ._tracing_layout import LayoutTracer

__all__ = ["judge_options", "read_options"]


def judge_options(head: LayoutTracer, length: m.Length, size: int) -> None:
    """Tag, its constant, the option bits, the limit and the body size, in this order."""
    found = head.alternative()
    const = head.numbers.get(m.TagConst)
    area, bits, total = (head.numbers[kind] for kind in (m.OptionsLength, m.OptionBits, m.Length))
    area_size, bitmap = _number(area), _number(bits)
    if const is not None and const.value != found.const:
        raise head.blame(const, "magic_mismatch")
    if area_size > size or (bitmap == 0) != (area_size == 0):
        raise head.blame(area, "bad_header")
    if bitmap & _forbidden(head.layout, found.tag):
        raise head.blame(bits, "bad_option")
    if size > head.limit(length) or (found.limit is not None and size > found.limit):
        raise head.blame(total, "too_large")
    exact, left = found.layout.fixed_size, size - area_size
    if left < found.layout.min_size or (exact is not None and left != exact):
        raise head.blame(total, "bad_length")


def _forbidden(layout: m.Layout, tag: int) -> int:
    """The option bits that may not go with a tag."""
    options = layout.find(m.Options)
    assert isinstance(options, m.Options)
    allowed = sum(f.bit for f in options.fields if tag in f.on)
    known = sum(f.bit for f in options.fields)
    return (known | options.critical) & ~allowed


def read_options(head: LayoutTracer, part: m.Options) -> None:
    """The option area: an entry for each set bit, ascending."""
    area, bits = _number(head.numbers[m.OptionsLength]), _number(head.numbers[m.OptionBits])
    head.values.update(dict.fromkeys((f.name for f in part.fields), None))
    head.values[part.unknown] = ()
    if not bits:
        return
    reader = head.reader.part(head.reader.pos + area)
    with head.tracer.span(head.root, "options", reader) as span:
        _Area(head, part, reader, span).read(bits)
        if reader.left:
            reader.where = f"{head.layout.name}.{head.numbers[m.OptionsLength].name}"
            raise reader.error("bad_header")
    head.reader.pos = reader.pos


class _Area:
    """Reads the entries of an option area."""

    def __init__(self, head: LayoutTracer, part: m.Options, reader: Reader, span: Span):
        self.head = head
        self.part = part
        self.reader = reader
        self.span = span

    def read(self, bits: int) -> None:
        fields = {field.bit: field for field in self.part.fields}
        unknown: list[tuple[int, bytes]] = []
        for bit in (1 << n for n in range(bits.bit_length()) if bits >> n & 1):
            if bit in fields:
                self.known(fields[bit])
            else:
                unknown.append((bit, self.carried(bit)))
        self.head.values[self.part.unknown] = tuple(unknown)

    def known(self, field: m.OptionField) -> None:
        """An option of the layout."""
        reader, tracer = self.reader, self.head.tracer
        reader.where = f"{self.head.layout.name}.{field.name}"
        about = {"doc": field.doc, "secret": field.secret}
        with tracer.span(self.span, field.name, reader, **about) as span:
            if self.length(span) != m.type_size(field.type)[0]:
                raise reader.error("bad_option", span.start)
            if isinstance(field.type, m.Nested):
                span.value = tracer.value(field.type, reader, span)
            else:
                with tracer.span(span, "value", reader, inner=True) as content:
                    content.value = span.value = tracer.value(field.type, reader, content)
        self.head.values[field.name] = span.value

    def carried(self, bit: int) -> bytes:
        """An option that is not known, and kept."""
        reader, tracer = self.reader, self.head.tracer
        reader.where = f"{self.head.layout.name}.{self.part.unknown}"
        with tracer.span(self.span, f"unknown_{bit:04x}", reader) as span:
            size = self.length(span)
            with tracer.span(span, "bytes", reader, inner=True) as content:
                content.value = span.value = raw = reader.take(size)
        return raw

    def length(self, span: Span) -> int:
        """The length of an entry."""
        reader = self.reader
        with self.head.tracer.span(span, "length", reader, inner=True) as length:
            error: DecodeError = reader.error("bad_header")
            if reader.left < self.part.entry_length.size:
                raise error
            length.value = size = reader.fixed_int(self.part.entry_length)
            if size > reader.left:
                raise error
        return size


def _number(span: Span) -> int:
    assert isinstance(span.value, int)
    return span.value
