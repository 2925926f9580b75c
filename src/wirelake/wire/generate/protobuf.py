"""Protobuf layouts: tagged fields in any order; unknown fields are kept and written back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import model as m
from .code import Code, format_of, local

if TYPE_CHECKING:
    from .reader import Reader
    from .writer import Writer

__all__ = ["protobuf_keys", "protobuf_reader", "protobuf_writer"]


def protobuf_keys(layout: m.Layout) -> list[tuple[m.Field, int]]:
    """Return (field, key) pairs; the key is the field number and the wire type."""
    return [(part, m.field_key(part)) for part in layout.parts if isinstance(part, m.Field)]


# -- reading ---------------------------------------------------------------------------------


def protobuf_reader(reader: Reader) -> None:
    """Emit the body of the reading function."""
    code, layout = reader.code, reader.layout
    cls = layout.cls.__name__
    if layout.unparsed:
        code(f"return {cls}(unknown=buf[pos:end]), end")
        return
    fields = protobuf_keys(layout)
    for part, _ in fields:
        code(f"{local(part.name)}{_hint(part)} = {_initial(part)}")
    code("unknown = []")
    # Compared with constants in the order of the declaration: messages have few fields, and a chain
    # of integer comparisons is faster than a table of functions, which would need a call each.
    with code.block("while pos < end:"):
        code("start = pos", "key = buf[pos]", "pos += 1")
        with code.block("if key >= 0x80:"):
            code(f'key, pos = rt.uvarint(buf, start, end, "{layout.name}")')
        for index, (part, key) in enumerate(fields):
            with code.block(f"{'el' if index else ''}if key == {key:#x}:"):
                _read_field(reader, part)
        if fields:
            with code.block("else:"):
                _keep_unknown(code, layout)
        else:
            _keep_unknown(code, layout)
    pairs = [f"{p.name}={_final(p)}" for p, _ in fields] + ['unknown=b"".join(unknown)']
    code(f"return {cls}({', '.join(pairs)}), pos")


def _keep_unknown(code: Code, layout: m.Layout) -> None:
    code(
        f'pos = rt.skip_field(buf, key, pos, end, "{layout.name}")',
        "unknown.append(buf[start:pos])",
    )


def _hint(part: m.Field) -> str:
    """Return a type annotation where the first value does not determine the type."""
    if isinstance(part.type, m.Many):
        return ": list[Any]"
    return ": Any" if _initial(part) == "None" else ""


def _final(part: m.Field) -> str:
    return f"tuple({local(part.name)})" if isinstance(part.type, m.Many) else local(part.name)


def _initial(part: m.Field) -> str:
    if isinstance(part.type, m.Many):
        return "[]"
    if part.optional or isinstance(part.type, m.Nested):
        return "None"
    match part.type:
        case m.Blob():
            return '""' if part.type.text else 'b""'
        case m.Bool():
            return "False"
        case m.Float():
            return "0.0"
        case _:
            return "0"


def _read_field(reader: Reader, part: m.Field) -> None:
    var = local(part.name)
    if isinstance(part.type, m.Many):
        _read_value(reader, part, "item", part.type.item)
        reader.code(f"{var}.append(item)")
    else:
        _read_value(reader, part, var, part.type)


def _read_value(reader: Reader, part: m.Field, var: str, kind: m.Type) -> None:
    code, label = reader.code, reader.label(part.name)
    match kind:
        case m.Varint():
            code(f'{var}, pos = rt.uvarint(buf, pos, end, "{label}")')
            _narrow(code, var, kind)
        case m.Bool():
            code(f'number_, pos = rt.uvarint(buf, pos, end, "{label}")', f"{var} = number_ != 0")
        case m.Int() | m.Float():
            reader.slot(part.name, var, kind)
            reader.flush()
        case m.Blob():
            reader.blob(part.name, var, m.Blob(m.Varint(64), kind.text), part)
        case m.Nested():
            code(f'length_, pos = rt.uvarint(buf, pos, end, "{label}")')
            with code.block("if length_ > end - pos:"):
                code(f'raise rt.overrun("{label}", pos, length_, end)')
            code(f"{var}, pos = read_{kind.layout.name}(buf, pos, pos + length_)")
        case _:
            raise TypeError(f"{label}: {kind!r} has no protobuf form")


def _narrow(code: Code, var: str, kind: m.Varint) -> None:
    if kind.coding == "twos":
        code(f"{var} = rt.int{kind.bits}_of({var})")
    elif kind.coding == "zigzag":
        code(f"{var} = {var} >> 1 ^ -({var} & 1)")
    elif kind.bits < 64:
        code(f"{var} &= {(1 << kind.bits) - 1:#x}")


# -- writing ---------------------------------------------------------------------------------


def protobuf_writer(writer: Writer) -> None:
    """Emit the body of the writing function."""
    from ..runtime import write_uvarint

    code, layout = writer.code, writer.layout
    fields = protobuf_keys(layout)
    if not fields:
        code("return value.unknown")
        return
    code("parts = []")
    for part, key in fields:
        head = write_uvarint(key)
        var = local(part.name)
        code(f"{var} = value.{part.name}")
        if isinstance(part.type, m.Many):
            with code.block(f"for item in {var}:"):
                _append(writer, _written(writer, part, "item", part.type.item, head))
        elif part.optional or isinstance(part.type, m.Nested):
            with code.block(f"if {var} is not None:"):
                _append(writer, _written(writer, part, var, part.type, head))
        else:
            _append(writer, _written(writer, part, var, part.type, head))
    code("parts.append(value.unknown)", 'return b"".join(parts)')


def _append(writer: Writer, expr: str) -> None:
    writer.statement("parts.append(", expr, ")")


def _written(writer: Writer, part: m.Field, var: str, kind: m.Type, head: bytes) -> str:
    code, label = writer.code, writer.label(part.name)
    match kind:
        case m.Varint():
            put = f'rt.put_{kind.coding}{kind.bits}({var}, "{label}")'
            if kind.coding == "twos":  # a negative number takes ten bytes, whatever its width
                put = f'rt.put_int({var}, {kind.bits}, "{label}")'
            return f"{head!r} + {put}"
        case m.Bool():
            yes, no = head + b"\x01", head + b"\x00"
            return f"{yes!r} if {var} else {no!r}"
        case m.Float(size=4):
            return f'{head!r} + rt.put_f32({var}, "{kind.order}", "{label}")'
        case m.Int() | m.Float():
            order = ">" if kind.order == "big" else "<"
            form = f"{order}{format_of(kind)}"
            writer.guard(part.name, form, var)
            return f"{head!r} + {writer.structs.pack(form)}({var})"
        case m.Blob():
            return f"{head!r} + {_sized(writer, part, var, kind)}"
        case m.Nested():
            code(f"data_ = write_{kind.layout.name}({var})")
            return f"{head!r} + rt.write_uvarint(len(data_)) + data_"
        case _:
            raise TypeError(f"{label}: {kind!r} has no protobuf form")


def _sized(writer: Writer, part: m.Field, var: str, kind: m.Blob) -> str:
    if kind.text is not None:
        writer.text(part.name, "data_", var, kind)
    if part.sizes:
        writer.check_sizes(part, "data_" if kind.text is not None else var)
    if kind.text is not None:
        return "rt.write_uvarint(len(data_)) + data_"
    return f"rt.write_uvarint(len({var})) + {var}"
