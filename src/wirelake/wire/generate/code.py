"""Building blocks of generated code: indented lines, struct formats, local names, option areas."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .. import model as m

if TYPE_CHECKING:
    from .frames import FrameWriter, HeadFrame

__all__ = [
    "Code",
    "Structs",
    "check_options",
    "format_of",
    "local",
    "nested",
    "order_of",
    "read_options",
    "tag_table",
    "varint_reader",
    "write_options",
]


# A field may have any name that Python allows, and generated code uses field names as variables, so
# that it reads like the layout. Names that it needs itself get an underscore appended (`local`).
_LOCALS = (
    "buf pos end limit start stop value rt key items item parts piece tag bits read depth error "
    "entry write decode scan const rules forbidden most least exact area more found options "
    "option_bits unknown"
)
_BUILTINS = "type len bytes int str tuple range min isinstance dict list struct"
_TAKEN = frozenset(f"{_LOCALS} {_BUILTINS}".split())
_HELPER = re.compile(
    r"(n|v|item|items|parts|read|write|decode|encode|scan|bits|piece)_.*|.*_(items|piece|high|low|)|.*[A-Z].*"
)
"""Names that generated code uses for helpers, functions and classes, and names made by `local`."""
_INT_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def local(name: str) -> str:
    """Return the local variable of a field: its name, unless generated code uses that itself."""
    taken = name in _TAKEN or keyword.iskeyword(name) or _HELPER.fullmatch(name)
    return f"{name}_" if taken else name


def nested(var: str) -> str:
    """Return the suffix of a list's variables (`item`, `items`): a number if the list is itself an
    item, else nothing."""
    found = re.fullmatch(r"item(?:_(\d+))?", var)
    return f"_{int(found[1] or 0) + 1}" if found else ""


class Code:
    """A growing block of code."""

    def __init__(self, indent: int = 0) -> None:
        self.lines: list[str] = []
        self.indent = indent

    def __call__(self, *lines: str) -> None:
        for line in lines:
            self.lines.append("    " * self.indent + line if line else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Emit a line that ends with a colon, and indent what is emitted inside the context."""
        self(head)
        self.indent += 1
        yield
        self.indent -= 1

    def __str__(self) -> str:
        return "\n".join(self.lines)


class Structs:
    """The struct formats that a module uses, each with module-level names.

    A bound `unpack_from` at module level saves the attribute lookups of `struct.unpack_from` and the
    lookup of its format cache in every call.
    """

    def __init__(self) -> None:
        self.read: dict[str, str] = {}
        self.written: dict[str, str] = {}

    @staticmethod
    def _name(form: str) -> str:
        order = "le" if form[0] == "<" else "be"
        return f"{form[1:]}_{order}"

    def unpack(self, form: str) -> str:
        """Return the name of an unpack_from for this format."""
        return self.read.setdefault(form, f"_unpack_{self._name(form)}")

    def pack(self, form: str) -> str:
        """Return the name of a pack for this format."""
        return self.written.setdefault(form, f"_pack_{self._name(form)}")

    def lines(self) -> list[str]:
        """Return the definitions."""
        lines = [
            f'{name} = struct.Struct("{form}").unpack_from' for form, name in self.read.items()
        ]
        lines += [f'{name} = struct.Struct("{form}").pack' for form, name in self.written.items()]
        return sorted(lines)


def format_of(kind: m.Type) -> str | None:
    """Return the struct code of a type of fixed size, without byte order; None when it has none."""
    match kind:
        case m.Int(size=3):
            return None
        case m.Int():
            code = _INT_CODES[kind.size]
            return code.lower() if kind.signed else code
        case m.Float():
            return "f" if kind.size == 4 else "d"
        case m.Bool():
            return "B"
        case m.Fixed():
            return f"{kind.size}s"
        case _:
            return None


def order_of(kind: m.Type) -> str:
    """Return `>` or `<`, or an empty string when the byte order does not matter."""
    if isinstance(kind, m.Int | m.Float) and kind.size > 1:
        return ">" if kind.order == "big" else "<"
    return ""


def varint_reader(kind: m.Varint) -> str:
    """Return the runtime function that reads a varint of more than one byte."""
    if kind.loose:
        return f"rt.loose_{kind.coding}{kind.bits}"
    if kind.coding == "unsigned":
        return "rt.uvarint" if kind.bits == 64 else f"rt.uvarint{kind.bits}"
    return f"rt.{kind.coding}{kind.bits}"


# -- the option area: a bitmap in the head, then for each set bit a length and a value -------------


def _names(frame: HeadFrame) -> tuple[str, str]:
    bits, size = frame.layout.find(m.OptionBits), frame.layout.find(m.OptionsLength)
    assert isinstance(bits, m.OptionBits)
    assert isinstance(size, m.OptionsLength)
    return bits.name, size.name


def _locals(frame: HeadFrame) -> tuple[str, str]:
    bits, size = _names(frame)
    return local(bits), local(size)


def tag_table(frame: HeadFrame) -> list[str]:
    """Return the table of what a head may have with each tag: constant, options, limit, sizes."""
    assert frame.body is not None
    assert frame.options is not None
    lines = [f"{frame.table}_TAGS: dict[int, tuple[int, int, int, int, int]] = {{"]
    for a in frame.body.alternatives:
        allowed = sum(f.bit for f in frame.options.fields if a.tag in f.on)
        known = sum(f.bit for f in frame.options.fields)
        forbidden = (known | frame.options.critical) & ~allowed
        least, exact = (a.layout.min_size, a.layout.fixed_size) if frame.body.exact else (0, None)
        # -1: no such limit. Generated code tests `0 <= most < length`, without a branch for None.
        most = exact if exact is not None else -1
        limit = a.limit if a.limit is not None else -1
        lines.append(
            f"    {a.tag}: ({a.const}, {forbidden:#06x}, {limit}, {least}, {most}),  # {a.layout.name}"
        )
    return [*lines, "}"]


def check_options(frame: HeadFrame, code: Code) -> None:
    """Emit the checks of tag, constant, option bits, limit and body size, in this order.

    The order is part of the protocol: an error is reported as early as the bytes allow, and always
    the same one (magline, section 2 of its decisions).
    """
    bits, size = _locals(frame)
    bits_name, size_name = _names(frame)
    tag = local(frame.tag_name())
    assert frame.length is not None
    length = local(frame.length.name)
    const = frame.layout.find(m.TagConst)
    assert isinstance(const, m.TagConst)
    code(f"rules = {frame.table}_TAGS.get({tag})")
    with code.block("if rules is None:"):
        frame.unknown(code, tag)
    code("const, forbidden, most, least, exact = rules")
    _refuse(code, frame, f"{local(const.name)} != const", "magic_mismatch", const.name)
    wrong = f"{size} > {length} or ({bits} == 0) != ({size} == 0)"
    _refuse(code, frame, wrong, "bad_header", size_name)
    _refuse(code, frame, f"{bits} & forbidden", "bad_option", bits_name)
    name = frame.length.name
    _refuse(code, frame, f"{length} > limit or 0 <= most < {length}", "too_large", name)
    wrong = f"{length} - {size} < least or 0 <= exact != {length} - {size}"
    _refuse(code, frame, wrong, "bad_length", name)


def _refuse(code: Code, frame: HeadFrame, test: str, error: str, name: str) -> None:
    with code.block(f"if {test}:"):
        at = frame.offset_of(name)
        code(f'raise rt.refuse("{error}", "{frame.label(name)}", pos{f" + {at}" if at else ""})')


def read_options(frame: HeadFrame, code: Code) -> list[str]:
    """Emit the reading of the option area; `pos` is then the start of the body."""
    assert frame.options is not None
    bits, size = _locals(frame)
    fields = frame.options.fields
    code(f"pos += {frame.size}")
    if fields:
        code(f"{' = '.join(local(f.name) for f in fields)} = None")
    code(f"{local(frame.options.unknown)}: tuple[Any, ...] = ()")
    with code.block(f"if {bits}:"):
        code(f"area = pos + {size}")
        below = 0
        for field in sorted(fields, key=lambda f: f.bit):
            _read_unknown(frame, code, (field.bit - 1) & ~below)
            with code.block(f"if {bits} & {field.bit:#06x}:"):
                _read_one(frame, code, field)
            below = (field.bit << 1) - 1
        _read_unknown(frame, code, 0xFFFF & ~below)
        with code.block("if pos != area:"):
            label = frame.label(_names(frame)[1])
            code(f'raise rt.refuse("bad_header", "{label}", pos, "bytes left over")')
    return [f.name for f in fields] + [frame.options.unknown]


def _read_unknown(frame: HeadFrame, code: Code, mask: int) -> None:
    """Emit the reading of unknown options of a range of bits between known ones."""
    assert frame.options is not None
    bits, name = _locals(frame)[0], frame.options.unknown
    mask &= ~frame.options.critical
    if not mask:
        return
    with code.block(f"if {bits} & {mask:#06x}:"):
        code(
            f'more, pos = rt.unknown_options(buf, pos, area, {bits} & {mask:#06x}, "{frame.label(name)}")'
        )
        code(f"{local(name)} += more")


def _read_one(frame: HeadFrame, code: Code, field: m.OptionField) -> None:
    label = frame.label(field.name)
    size = m.type_size(field.type)[0]
    code(f'start, pos = rt.option(buf, pos, area, {size}, "{label}")')
    match field.type:
        case m.Int():
            signed = ", signed=True" if field.type.signed else ""
            order = field.type.order
            code(f'{local(field.name)} = int.from_bytes(buf[start:pos], "{order}"{signed})')
        case m.Nested():
            code(f"{local(field.name)}, _ = read_{field.type.layout.name}(buf, start, pos)")
        case m.Fixed():
            code(f"{local(field.name)} = buf[start:pos]")


def write_options(writer: FrameWriter) -> None:
    """Emit the option area and its bitmap, from the stored options."""
    options = writer.frame.options
    assert options is not None
    code = writer.code
    unknown = f"value.{options.unknown}"
    test = "".join(f"value.{f.name} is None and " for f in options.fields)
    with code.block(f"if {test}not {unknown}:"):
        code('options, option_bits = b"", 0')
    with code.block("else:"):
        code("found: dict[int, bytes] = {}")
        for field in options.fields:
            with code.block(f"if value.{field.name} is not None:"):
                _write_one(writer, field)
        known = sum(f.bit for f in options.fields)
        code(
            f"rt.add_unknown_options(found, {unknown}, {0xFFFF & ~known & ~options.critical:#06x})"
        )
        code("options, option_bits = rt.option_area(found)")


def _write_one(writer: FrameWriter, field: m.OptionField) -> None:
    code, label = writer.code, writer.label(field.name)
    with code.block(f"if tag not in {field.on}:"):
        code(f'raise rt.misplaced("{label}", tag)')
    target = f"found[{field.bit:#06x}]"
    match field.type:
        case m.Int():
            size, signed, order = field.type.size, field.type.signed, field.type.order
            number = f"value.{field.name}, {size}, {signed}"
            code(f'{target} = rt.put_int_of({number}, "{label}", "{order}")')
        case m.Nested():
            code(f"{target} = write_{field.type.layout.name}(value.{field.name})")
        case m.Fixed():
            with code.block(f"if len(value.{field.name}) != {field.type.size}:"):
                code(
                    f'raise rt.wrong_size("{label}", "{field.type.size}", len(value.{field.name}))'
                )
            code(f"{target} = value.{field.name}")
