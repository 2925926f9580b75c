"""The parts of a layout, each with its position: heads, lengths, tags, bits, options, bodies.

In a stream, a head of fixed size comes first and is read when all of it is there; with fewer bytes
only constants can be checked. Inside a slice, neighbours of fixed size are a *run*: when the slice
is too short for a run, that is the error, whatever its first values are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import model as m
from ..errors import DecodeError, NeedMore
from ._reader import Reader
from ._trace_values import (
    SCALARS,
    Span,
    Tracer,
    delimits_itself,
    head_size,
    least_after,
    part_has_secrets,
    run_size,
)

__all__ = [
    "LayoutTracer",
    "Span",
    "check_options",
    "check_value",
    "read_options",
    "read_protobuf",
    "trace",
]


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
        """Where the current run ends."""

    def read(self) -> Any:
        """Return the value of the layout."""
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
        """Hide bytes that could not be read: they may belong to a secret field."""
        last = leaf = self.root.children[-1] if self.root.children else self.root
        while leaf.children and leaf.children[-1].error is not None:
            leaf = leaf.children[-1]
        if leaf.error is None or leaf.children or leaf.value is not None:
            return
        first = index if leaf is last else index + 1  # the inside of a part has been examined
        leaf.secret = leaf.secret or any(map(part_has_secrets, self.layout.parts[first:]))

    def close(self) -> None:
        """Check that a length is used up exactly."""
        if self.reader.left:
            self.tracer.trailing(self.layout, self.reader, self.root)
        self.outer.pos = self.reader.pos

    def part(self, part: m.Part) -> None:
        """Read one part."""
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
        """Whether all bytes of the run are present, so that its values can be checked."""
        return self.reader.stop >= self.run_stop

    def ask(self, size: int) -> None:
        """Raise NeedMore for the whole head if it is incomplete."""
        if self.reader.open and self.reader.left < size:
            raise NeedMore(self.run_stop + self.rest_need() - self.reader.stop)

    def take(self, size: int) -> bytes:
        """Return the bytes of a part of fixed size."""
        self.ask(size)
        return self.reader.take(size)

    def rest_need(self) -> int:
        """Return the bytes that every body needs after the head, if bodies delimit themselves."""
        body = self.layout.body
        if body is None or self.layout.find(m.Length) is not None:
            return 0
        return min(head_size(a.layout.parts) for a in body.alternatives)

    # -- stored fields -----------------------------------------------------------------------

    def field(self, part: m.Field) -> None:
        """Read a stored value, if its presence bit is set."""
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
        """Return the value of a field. In a stream, NeedMore covers the whole head."""
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
        """Trace the content of the bytes if the caller has undone their transform."""
        plain = self.tracer.stages.get(part.name)
        if part.stage is None or plain is None:
            return
        span.plaintext = plain
        span.stage = trace(part.stage, plain, direction=self.tracer.direction)

    # -- what is not stored ------------------------------------------------------------------

    def const(self, part: m.Const) -> None:
        """Read constant bytes; a wrong first byte is an error already."""
        reader = self.reader
        with self.tracer.span(self.root, part.name, reader, doc=part.doc) as span:
            there = reader.data[reader.pos : min(reader.stop, reader.pos + len(part.value))]
            if (self.whole or reader.open) and not part.value.startswith(there):
                raise reader.error(part.code)
            span.value = self.take(len(part.value))

    def bits(self, part: m.BitGroup) -> None:
        """Read bits that share bytes."""
        reader = self.reader
        reader.where = f"{self.layout.name}.{part.bits[0].name}"
        with self.tracer.span(self.root, "bits", reader) as group:
            group.value = number = int.from_bytes(self.take(part.size), "big")
            for bit in part.bits:
                self.bit(bit, number, group)
            group.stop = reader.pos

    def bit(self, bit: m.Bit, number: int, group: Span) -> None:
        """Read one bit field."""
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
        """Read a number of the head."""
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
        """Read a length; a head is checked before waiting for the bytes after it."""
        reader = self.reader
        with self.tracer.span(self.root, part.name, reader, doc=part.doc) as span:
            raw = self.take(part.type.size)
            span.value = size = int.from_bytes(raw, part.type.order)
            span.stop = reader.pos
            self.numbers[m.Length] = span
            if not reader.open:
                self.inner_length(part, size)
            elif self.layout.find(m.Options) is not None:
                check_options(self, part, size)
            else:
                self.check_length(part, size, span)
            if size > reader.left:
                raise NeedMore(size - reader.left)
        self.reader = reader.part(reader.pos + size)

    def inner_length(self, part: m.Length, size: int) -> None:
        """Check a length inside a slice."""
        reader = self.reader
        if size > reader.left:
            raise reader.error("length_overrun")
        if size < part.minimum:
            raise reader.error("bad_length")

    def check_length(self, part: m.Length, size: int, span: Span) -> None:
        """Check the length of a frame: enough for what must follow, and within the limit."""
        if size < max(part.minimum, least_after(self.layout, part)):
            raise self.reader.error("bad_length", span.start)
        if size > self.limit(part):
            raise self.reader.error("too_large", span.start)

    def limit(self, part: m.Length) -> int:
        """Return the limit of the length."""
        most = 1 << 8 * part.type.size
        if self.tracer.limit is not None:
            return self.tracer.limit
        return part.limit if part.limit is not None else most

    def error_in(self, span: Span, code: str) -> DecodeError:
        """Return an error in another part of the head than the one being read."""
        self.reader.where = f"{self.layout.name}.{span.name}"
        span.error = error = self.reader.error(code, span.start)
        return error

    # -- the body ----------------------------------------------------------------------------

    def alternative(self) -> m.Alternative:
        """Return the alternative that the tag and the direction select."""
        body, tag = self.layout.body, self.tag_span
        assert body is not None
        assert tag is not None
        for found in body.of(self.tracer.direction):
            if found.tag == self.tag:
                return found
        raise self.error_in(tag, "unknown_type")

    def body(self, part: m.Body) -> None:
        """Read the selected alternative, to the end of the frame."""
        reader = self.reader
        with self.tracer.span(self.root, part.name, reader, doc=part.doc) as span:
            found = self.alternative()
            span.layout, span.doc = found.layout.name, found.layout.doc
            span.value = self.tracer.layout(found.layout, reader, span)
            self.values[part.name] = span.value


def check_value(part: m.Field | m.Bit, reader: Reader, span: Span) -> None:
    """Check that a number is named where the names are closed, and that a blob has a valid size."""
    value = span.value
    if part.closed and part.names is not None and not span.label:
        span.error = reader.error("reserved_value", span.start)
        raise span.error
    sizes = part.sizes if isinstance(part, m.Field) else ()
    if sizes and isinstance(value, bytes | str) and len(value) not in sizes:
        raise reader.error("bad_length", reader.pos - len(value))


# -- options ---------------------------------------------------------------------------------------


def check_options(head: LayoutTracer, length: m.Length, size: int) -> None:
    """Check tag, constant, option bits, limit and body size, in this order."""
    found = head.alternative()
    const = head.numbers.get(m.TagConst)
    area, bits, total = (head.numbers[kind] for kind in (m.OptionsLength, m.OptionBits, m.Length))
    area_size, bitmap = _number(area), _number(bits)
    if const is not None and const.value != found.const:
        raise head.error_in(const, "magic_mismatch")
    if area_size > size or (bitmap == 0) != (area_size == 0):
        raise head.error_in(area, "bad_header")
    if bitmap & _forbidden(head.layout, found.tag):
        raise head.error_in(bits, "bad_option")
    if size > head.limit(length) or (found.limit is not None and size > found.limit):
        raise head.error_in(total, "too_large")
    exact, left = found.layout.fixed_size, size - area_size
    if left < found.layout.min_size or (exact is not None and left != exact):
        raise head.error_in(total, "bad_length")


def _forbidden(layout: m.Layout, tag: int) -> int:
    """Return the option bits that may not go with a tag."""
    options = layout.find(m.Options)
    assert isinstance(options, m.Options)
    allowed = sum(f.bit for f in options.fields if tag in f.on)
    known = sum(f.bit for f in options.fields)
    return (known | options.critical) & ~allowed


def read_options(head: LayoutTracer, part: m.Options) -> None:
    """Read the option area: an entry for each set bit, ascending."""
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
        """Read an option of the layout."""
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
        """Return an unknown option, which is kept."""
        reader, tracer = self.reader, self.head.tracer
        reader.where = f"{self.head.layout.name}.{self.part.unknown}"
        with tracer.span(self.span, f"unknown_{bit:04x}", reader) as span:
            size = self.length(span)
            with tracer.span(span, "bytes", reader, inner=True) as content:
                content.value = span.value = raw = reader.take(size)
        return raw

    def length(self, span: Span) -> int:
        """Return the length of an entry."""
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


# -- protobuf: fields in any order, unknown ones kept ----------------------------------------------


_MAX_GROUPS = 32
"""How deep groups, an old form that only unknown fields can have, may be nested."""


def read_protobuf(tracer: Tracer, layout: m.Layout, reader: Reader, span: Span) -> Any:
    """Return a protobuf layout that fills the rest of the slice."""
    if layout.unparsed:
        return layout.cls(**{layout.unknown: _ignored(tracer, layout, reader, span)})
    fields = {m.field_key(part): part for part in layout.parts if isinstance(part, m.Field)}
    values: dict[str, Any] = {part.name: _absent(part) for part in fields.values()}
    unknown: list[bytes] = []
    while reader.left:
        start = reader.pos
        reader.where = layout.name
        key = _peek_key(tracer, reader, span)
        part = fields.get(key)
        if part is None:
            _unknown(tracer, reader, span)
            unknown.append(reader.data[start : reader.pos])
        else:
            reader.where = f"{layout.name}.{part.name}"
            _field(tracer, part, reader, span, values)
    return layout.cls(**values, **{layout.unknown: b"".join(unknown)})


def _peek_key(tracer: Tracer, reader: Reader, span: Span) -> int:
    """Return the key of the next field without consuming it, unless it is malformed."""
    # A separate reader: the key belongs to the span of its field, whose name it decides.
    probe = reader.part(reader.stop)
    with tracer.span(span, "key", probe, inner=True):
        key = probe.raw_varint()
    span.children.pop()
    return key


def _absent(part: m.Field) -> Any:
    """Return the value of a field that does not occur."""
    if isinstance(part.type, m.Many):
        return ()
    if part.optional or isinstance(part.type, m.Nested):
        return None
    match part.type:
        case m.Blob():
            return "" if part.type.text else b""
        case m.Bool():
            return False
        case m.Float():
            return 0.0
        case _:
            return 0


def _field(
    tracer: Tracer, part: m.Field, reader: Reader, parent: Span, values: dict[str, Any]
) -> None:
    about = {"doc": part.doc, "secret": part.secret, "names": part.names}
    many = isinstance(part.type, m.Many)
    name = f"{part.name}[{len(values[part.name])}]" if many else part.name
    with tracer.span(parent, name, reader, **about) as span:
        with tracer.span(span, "key", reader, inner=True) as key:
            key.value = reader.raw_varint()
        kind = part.type.item if isinstance(part.type, m.Many) else part.type
        span.value = _value(tracer, kind, reader, span)
        if isinstance(kind, m.Blob):
            check_value(part, reader, span)
    values[part.name] = (*values[part.name], span.value) if many else span.value


def _value(tracer: Tracer, kind: m.Type, reader: Reader, span: Span) -> Any:
    match kind:
        case m.Blob():
            return tracer.blob(m.Blob(m.Varint(64), kind.text), reader, span)
        case m.Nested():
            return _nested(tracer, kind.layout, reader, span)
        case _:
            with tracer.span(span, "value", reader, inner=True) as content:
                content.value = _scalar(tracer, kind, reader, content)
                return content.value


def _scalar(tracer: Tracer, kind: m.Type, reader: Reader, span: Span) -> Any:
    match kind:
        case m.Bool():
            return reader.raw_varint() != 0
        case m.Varint(coding="zigzag"):
            folded = reader.raw_varint()
            return (folded >> 1) ^ -(folded & 1)
        case m.Varint():
            # Protobuf widens negative numbers to 64 bits, and readers cut them to their width.
            value = reader.raw_varint() & (1 << kind.bits) - 1
            negative = kind.coding == "twos" and value >> (kind.bits - 1)
            return value - (1 << kind.bits) if negative else value
        case _:
            return tracer.value(kind, reader, span)


def _nested(tracer: Tracer, layout: m.Layout, reader: Reader, span: Span) -> Any:
    where, span.layout = reader.where, layout.name
    with tracer.span(span, "length", reader, inner=True) as part:
        part.value = size = reader.length(m.Varint(64))
    inner = reader.part(reader.pos + size)
    value = tracer.layout(layout, inner, span)
    reader.pos, reader.where = inner.pos, where
    return value


def _unknown(tracer: Tracer, reader: Reader, parent: Span) -> None:
    """Read a field that the layout does not have."""
    with tracer.span(parent, "unknown", reader) as span:
        key = reader.raw_varint()
        span.name = f"unknown_{key >> 3}"
        start = reader.pos
        _skip(reader, key, 0)
        span.value = reader.data[start : reader.pos]


def _ignored(tracer: Tracer, layout: m.Layout, reader: Reader, parent: Span) -> bytes:
    """Read the bytes of a layout that its dialect does not parse."""
    if not reader.left:
        return b""
    with tracer.span(parent, layout.unknown, reader) as span:
        span.value = reader.take(reader.left)
        return span.value


def _skip(reader: Reader, key: int, depth: int) -> None:
    if key >> 3 == 0:
        raise reader.error("reserved_value")
    match key & 7:
        case 0:
            reader.raw_varint()
        case 1:
            reader.take(8)
        case 2:
            reader.take(reader.length(m.Varint(64)))
        case 3:
            _skip_group(reader, key, depth)
        case 5:
            reader.take(4)
        case _:
            raise reader.error("reserved_value")


def _skip_group(reader: Reader, key: int, depth: int) -> None:
    if depth >= _MAX_GROUPS:
        raise reader.error("too_deep")
    while True:
        inner = reader.raw_varint()
        if inner & 7 == 4:
            if inner >> 3 != key >> 3:
                raise reader.error("reserved_value")
            return
        _skip(reader, inner, depth + 1)


# -- byte spans: the bytes of each field, for trees, hex views and tests ---------------------------


def trace(
    layout: m.Layout,
    data: bytes,
    start: int = 0,
    stop: int | None = None,
    *,
    direction: m.Direction | None = None,
    stages: Mapping[str, bytes] | None = None,
    limit: int | None = None,
) -> Span:
    """Return the tree of spans of what begins at `start`; its `error` is set if reading failed.

    A layout that delimits itself is read from a stream: it stops where it ends, and bytes that are
    missing are `NeedMore`. Any other layout must fill the bytes up to `stop`. `stages` has the
    plaintext of fields that hold another layout, by the name of the field.
    """
    end = len(data) if stop is None else stop
    stream = delimits_itself(layout)
    reader = Reader(data, start, end, is_open=stream)
    root = Span(layout.name, layout.name, start, start, doc=layout.doc, layout=layout.name)
    tracer = Tracer(direction, stages, limit)
    try:
        read = tracer.layout if stream else tracer.slice
        root.value = read(layout, reader, root)
        root.stop = reader.pos
    except (DecodeError, NeedMore) as error:
        root.error = error
        root.stop = root.children[-1].stop if root.children else end
    return root
