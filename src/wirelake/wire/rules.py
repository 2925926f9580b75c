"""The rules of declarations that concern a whole layout.

`declare.py` asks for the first broken one and raises it. A layout that passes can be generated,
and what its codec writes it reads back; a layout that could not is refused here, by name, rather
than failing when the first message comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from . import model as m

__all__ = ["broken"]

_VARINTS = {("unsigned", 16), ("unsigned", 32), ("unsigned", 64)}
_VARINTS |= {("zigzag", 16), ("zigzag", 32), ("zigzag", 64), ("twos", 32), ("twos", 64)}
_LARGEST_NUMBER = (1 << 29) - 1
"""Of a protobuf field."""

_OF_BODY = (m.TagConst, m.OptionBits, m.OptionsLength)
_FRAME_PARTS = (m.Tag, m.Options, m.Body, *_OF_BODY)

Fault = tuple[str, str]
"""The name of a part, and what is wrong with it."""


def broken(layout: m.Layout) -> Iterator[Fault]:
    """Yield every rule that a layout breaks, as (name of the part, why)."""
    yield from _types(layout)
    yield from _order(layout)
    yield from _presence(layout)
    yield from _bodies(layout)
    yield from _options(layout)
    yield from _protobuf(layout) if layout.protobuf else ()


# -- types -----------------------------------------------------------------------------------


def _types(layout: m.Layout) -> Iterator[Fault]:
    for part in layout.parts:
        match part:
            case m.Field():
                for why in chain(_type(part.type, layout.protobuf), _marks(part)):
                    yield part.name, why
            case m.Const():
                if not part.value:
                    yield part.name, "a magic value has at least one byte"
            case m.BitGroup():
                if part.size not in (1, 2, 4, 8):
                    yield part.bits[-1].name, f"bits share 1, 2, 4 or 8 bytes, not {part.size}"
            case m.Options():
                for option in part.fields:
                    for why in _type(option.type, False):
                        yield option.name, why
                    if not m.type_size(option.type)[1]:
                        yield option.name, "an option has a fixed size"
            case m.Body():
                pass
            case _:
                for why in _int(part.type):
                    yield part.name, why
                if part.type.signed:
                    yield part.name, "this number cannot be signed"


def _marks(part: m.Field) -> Iterator[str]:
    if part.closed and (not isinstance(part.type, m.Int | m.Varint) or part.number is not None):
        yield "closed names belong on a single number outside protobuf"
    if part.sizes and not isinstance(part.type, m.Blob):
        yield "sizes belong on bytes or text behind a length"


def _type(kind: m.Type, protobuf: bool) -> Iterator[str]:
    match kind:
        case m.Int():
            yield from _int(kind)
        case m.Varint():
            yield from _varint(kind)
        case m.Float():
            if kind.size not in (4, 8):
                yield f"a float has 4 or 8 bytes, not {kind.size}"
        case m.Fixed():
            if kind.size < 1:
                yield "fixed bytes need a size of at least 1"
        case m.Blob():
            yield from _length(kind.length)
        case m.Many():
            yield from _length(kind.count)
            yield from _type(kind.item, protobuf)
            # A count is compared with the bytes left (docs/concepts/limits.md), so a list of items
            # without bytes could be written but not read back.
            if not protobuf and m.type_size(kind.item)[0] == 0:
                yield "an item of a list takes at least one byte"
        case m.Dynamic():
            yield from _dynamic(kind)
        case m.Rows():
            yield from _rows(kind)
        case m.Nested():
            if any(isinstance(part, _FRAME_PARTS) for part in kind.layout.parts):
                yield f"{kind.layout.name} has a body or options, which only a frame can have"
        case m.Bool():
            pass


def _int(kind: m.Int) -> Iterator[str]:
    if kind.size not in (1, 2, 3, 4, 8):
        yield f"an integer has 1, 2, 3, 4 or 8 bytes, not {kind.size}"


def _varint(kind: m.Varint) -> Iterator[str]:
    if (kind.coding, kind.bits) not in _VARINTS or (kind.loose and kind.coding != "twos"):
        loose = "loose " if kind.loose else ""
        yield f"unknown varint: {loose}{kind.coding} of {kind.bits} bits"


def _length(kind: m.Int | m.Varint | None) -> Iterator[str]:
    if isinstance(kind, m.Int):
        yield from _int(kind)
    elif isinstance(kind, m.Varint):
        yield from _varint(kind)
    elif kind is not None:
        yield f"a length is an Int or a Varint, not {kind!r}"


def _dynamic(kind: m.Dynamic) -> Iterator[str]:
    if kind.tag != m.Int(1):
        yield "the tag of a dynamic value is one unsigned byte"
    if not kind.kinds:
        yield "a dynamic value has at least one kind"
    if not {"type", "value"} <= set(getattr(kind.cls, "__struct_fields__", ())):
        yield f"{kind.cls.__name__} must have the fields type and value"
    for each in kind.kinds:
        for why in _dynamic_kind(each):
            yield f"kind {each.name}: {why}"


def _dynamic_kind(each: m.DynamicKind) -> Iterator[str]:
    if not 0 <= each.tag <= 255:
        yield f"tag {each.tag} does not fit a byte"
    match each.type:
        case None:
            pass
        case m.Items() | m.Pairs():
            yield from _dynamic_length(each.type.count)
            if isinstance(each.type, m.Pairs):
                yield from _dynamic_length(each.type.key.length)
                if each.type.key.text is None:
                    yield "a key must be text"
        case m.Blob():
            yield from _dynamic_length(each.type.length)
        case m.Int() | m.Varint() | m.Float() | m.Bool():
            yield from _type(each.type, False)
        case _:
            yield f"{each.type!r} is not allowed in a dynamic value"


def _dynamic_length(kind: object) -> Iterator[str]:
    if not isinstance(kind, m.Varint):
        yield "lengths and counts of a dynamic value are varints"
    else:
        yield from _varint(kind)


def _rows(kind: m.Rows) -> Iterator[str]:
    # Generated code reads both as one 32-bit number.
    if (kind.tag, kind.size) != (m.Int(1), m.Int(3)):
        yield "a row begins with a tag of one byte and a size of three, big-endian"
    tags = [a.tag for a in kind.alternatives]
    if kind.end in tags:
        yield f"tag {kind.end} is reserved for the end row"
    if any(not 0 <= tag <= 255 for tag in (*tags, kind.end)):
        yield "the tag of a row is one byte"
    yield from _one_tag_each(kind.alternatives)


# -- order and presence ----------------------------------------------------------------------


def _order(layout: m.Layout) -> Iterator[Fault]:
    lengths = [part for part in layout.parts if isinstance(part, m.Length)]
    if len(lengths) > 1:
        yield lengths[1].name, "a layout has one length; nest a layout for another"
    loose = ""
    for index, part in enumerate(layout.parts):
        last = index == len(layout.parts) - 1
        if isinstance(part, m.Body) and not last:
            yield part.name, "the body must be the last part"
        # Tags are read at a fixed offset, before anything that they decide about.
        if loose and (name := _tag_name(part)):
            yield name, f"a tag must precede parts of variable size, such as {loose}"
        if not isinstance(part, m.Field) or layout.protobuf:
            continue
        if part.when is not None or not m.type_size(part.type)[1]:
            loose = loose or part.name
        if isinstance(part.type, m.Rows) and len(layout.parts) > 1:
            yield part.name, "rows must be the only field of their layout"
        if not last and _takes_rest(part.type):
            yield part.name, "takes the remaining bytes, so it must be the last field"


def _tag_name(part: m.Part) -> str:
    """Return the name of a part that chooses the body."""
    match part:
        case m.Tag() | m.TagConst():
            return part.name
        case m.BitGroup():
            return next((bit.name for bit in part.bits if bit.role == "tag"), "")
        case _:
            return ""


def _takes_rest(kind: m.Type) -> bool:
    match kind:
        case m.Blob():
            return kind.length is None
        case m.Many():
            return kind.count is None or _takes_rest(kind.item)
        case m.Nested():
            inside = kind.layout
            if inside.protobuf:
                return True
            last = inside.parts[-1] if inside.parts else None
            bounded = inside.find(m.Length) is not None
            return isinstance(last, m.Field) and not bounded and _takes_rest(last.type)
        case _:
            return False


def _presence(layout: m.Layout) -> Iterator[Fault]:
    """Check that a presence bit precedes its field, and has one."""
    seen: dict[str, m.Bit] = {}
    used: set[str] = set()
    for part in layout.parts:
        if isinstance(part, m.BitGroup):
            seen |= {bit.name: bit for bit in part.bits if bit.role == "present"}
        if not isinstance(part, m.Field) or part.when is None:
            continue
        if part.when not in seen:
            yield part.name, f"no presence bit {part.when} before it"
        if part.when in used:
            yield part.name, f"presence bit {part.when} already belongs to another field"
        used.add(part.when)


# -- bodies and options ----------------------------------------------------------------------


def _bodies(layout: m.Layout) -> Iterator[Fault]:
    tags = [part for part in layout.parts if isinstance(part, m.Tag)]
    groups = [part for part in layout.parts if isinstance(part, m.BitGroup)]
    bits = [bit for part in groups for bit in part.bits if bit.role == "tag"]
    body = layout.body
    if body is None:
        others = [part for part in layout.parts if isinstance(part, _OF_BODY)]
        for part in (*tags, *bits, *others):
            yield part.name, "has no effect without a body"
        return
    if not tags and not bits:
        yield body.name, "the frame has a body but no tag; declare one"
    if body.exact and layout.find(m.Options) is None:
        yield body.name, "exact bodies are for frames with options"
    if len(tags) + any(bits) > 1 or sum(any(b.role == "tag" for b in g.bits) for g in groups) > 1:
        yield body.name, "several parts select the body; declare one tag"
    most = max([(1 << 8 * tag.type.size) - 1 for tag in tags], default=0)
    if bits:
        most = (1 << bits[0].shift + bits[0].width - bits[-1].shift) - 1
    for a in body.alternatives:
        if (tags or bits) and not 0 <= a.tag <= most:
            yield body.name, f"tag {a.tag} of {a.layout.name} does not fit the tag field"
    for why in _one_tag_each(body.alternatives):
        yield body.name, why
    const = layout.find(m.TagConst)
    if isinstance(const, m.TagConst) and any(a.const is None for a in body.alternatives):
        yield const.name, "every alternative of the body needs a const (use Case)"


def _one_tag_each(alternatives: tuple[m.Alternative, ...]) -> Iterator[str]:
    """Check that a tag selects one layout per direction, and that a layout has one tag."""
    tags: dict[type, int] = {}
    layouts: dict[tuple[int, str], type] = {}
    for a in alternatives:
        cls = a.layout.cls
        # An encoder finds the tag by the class of the value.
        if tags.setdefault(cls, a.tag) != a.tag:
            yield f"{a.layout.name} has two tags, {tags[cls]} and {a.tag}; use one"
        for direction in [a.direction] if a.direction else ["c2s", "s2c"]:
            if layouts.setdefault((a.tag, direction), cls) is not cls:
                yield f"tag {a.tag} selects two layouts"


def _options(layout: m.Layout) -> Iterator[Fault]:
    options = layout.find(m.Options)
    if not isinstance(options, m.Options):
        return
    name, two = options.unknown, m.Int(2)
    for kind in (m.OptionBits, m.OptionsLength, m.TagConst, m.Length, m.Tag):
        if layout.find(kind) is None:
            yield name, f"options need a {kind.__name__} in the head"
    bitmap = layout.find(m.OptionBits)
    if isinstance(bitmap, m.OptionBits) and bitmap.type != two:
        yield bitmap.name, "the bitmap of options has two bytes, big-endian"
    if options.entry_length != two:
        yield name, "the length of an option has two bytes, big-endian"
    seen = 0
    for option in options.fields:
        if option.bit not in [1 << shift for shift in range(16)] or option.bit & seen:
            yield option.name, f"{option.bit:#x} is not a single unused bit of 16"
        seen |= option.bit


# -- protobuf --------------------------------------------------------------------------------


def _protobuf(layout: m.Layout) -> Iterator[Fault]:
    if layout.unparsed and layout.parts:
        yield "unparsed", "only for a layout without fields"
    numbers: set[int] = set()
    for part in layout.parts:
        if not isinstance(part, m.Field):
            name = part.bits[0].name if isinstance(part, m.BitGroup) else getattr(part, "name", "")
            yield name, "a protobuf layout may only have numbered fields"
            continue
        number = part.number or 0
        if not 1 <= number <= _LARGEST_NUMBER:
            yield part.name, f"invalid protobuf field number {number}"
        if number in numbers:
            yield part.name, f"duplicate field number {number}"
        numbers.add(number)
        item = part.type.item if isinstance(part.type, m.Many) else part.type
        if not _has_protobuf_form(item):
            yield part.name, f"{item!r} has no protobuf form"


def _has_protobuf_form(kind: m.Type) -> bool:
    match kind:
        case m.Varint() | m.Bool() | m.Blob():
            return not (isinstance(kind, m.Varint) and (kind.loose or kind.bits == 16))
        case m.Int() | m.Float():
            return kind.size in (4, 8) and kind.order == "little"
        case m.Nested():
            return kind.layout.protobuf
        case _:
            return False
