"""Messages that are rows up to an end row.

A row is a tag, a size and a body. The whole message is one loop: rows of unknown tag keep their
bytes, a row that breaks a rule keeps its bytes and what is wrong with it.
"""

from __future__ import annotations

from .. import model as m
from .code import Code, Structs
from .reader import function_name

__all__ = ["MESSAGE_LIMIT", "RowFrame"]

MESSAGE_LIMIT = 1 << 25
"""Bytes of one message that a reader accepts by default: two rows of the largest size."""


class RowFrame:
    """Functions of a layout whose only field is its rows."""

    def __init__(self, layout: m.Layout, structs: Structs):
        self.layout = layout
        self.structs = structs
        part = layout.parts[0]
        assert isinstance(part, m.Field)
        assert isinstance(part.type, m.Rows)
        self.name = part.name
        self.rows = part.type
        self.head = self.rows.tag.size + self.rows.size.size
        self.table = f"_{layout.name.upper()}"

    def functions(self) -> list[str]:
        """Return all functions of this frame."""
        return [self.scan(), self.decode(), self.encode()]

    def signature(self, verb: str, result: str, more: str = "") -> str:
        return (
            f"def {function_name(verb, self.layout)}"
            f"(buf: bytes, pos: int, end: int, limit: int = {MESSAGE_LIMIT}{more}) -> {result}:"
        )

    def row_head(self, code: Code) -> None:
        """Read the head of a row, and judges it before its body is waited for."""
        name = self.layout.name
        code(f"at = pos + {self.head}")
        with code.block("if at > end:"):
            code("raise NeedMore(at - end, pos)")
        code(
            f"(head,) = {self.structs.unpack('>I')}(buf, pos)",
            "size = head & 0xFFFFFF",
            "stop = at + size",
        )
        with code.block("if stop > most:"):
            code(
                f'raise rt.refuse("too_large", "{name}.{self.name}", pos, f"over {{limit}} bytes")'
            )
        code("tag = head >> 24")
        with code.block(f"if tag == {self.rows.end}:"):
            with code.block("if size:"):
                code(f'raise rt.refuse("bad_end", "{name}.{self.name}", pos, f"{{size}} bytes")')
            code("break")
        with code.block("if stop > end:"):
            code("raise NeedMore(stop - end, pos)")

    def scan(self) -> str:
        """Return where the message stops."""
        code = Code()
        code(self.signature("scan", "int", ", resume: int | None = None"))
        code.indent = 1
        code("most = pos + limit")
        with code.block("if resume is not None:"):
            code("pos = resume")
        with code.block("while True:"):
            self.row_head(code)
            code("pos = stop")
        code("return at")
        return f"{code}\n"

    def decode(self) -> str:
        """Return the message, and where it stops."""
        code = Code()
        cls = self.layout.cls.__name__
        code(self.signature("decode", f"tuple[{cls}, int]"))
        code.indent = 1
        code("most = pos + limit", "rows: list[Any] = []", "add = rows.append")
        with code.block(f"for _ in range({self.rows.max_rows + 1}):"):
            self.row_head(code)
            code(f"read = {self.table}_READERS.get(tag)")
            with code.block("if read is None:"):
                code(f"add({self.rows.opaque.__name__}(type=tag, data=buf[at:stop]))")
            with code.block("else:"):
                self.read_row(code)
            code("pos = stop")
        with code.block("else:"):
            code(f'raise rt.refuse("too_many", "{self.layout.name}.{self.name}", pos)')
        code(f"return {cls}({self.name}=tuple(rows)), at")
        return f"{code}\n"

    def read_row(self, code: Code) -> None:
        broken = self.rows.broken.__name__
        with code.block("try:"):
            code("row, pos = read(buf, at, stop)")
            with code.block("if pos != stop:"):
                code(f"raise rt.trailing_row({self.table}_NAMES[tag], tag, pos, stop)")
            code("add(row)")
        with code.block("except DecodeError as error:"):
            code("offset = (error.offset or at) - at")
            code("data = buf[at:stop]")
            code(
                f"add({broken}(type=tag, data=data, code=error.code, field=error.field, offset=offset))"
            )

    def tables(self) -> list[str]:
        """How each tag is read and each class written."""
        readers = [f"{self.table}_READERS: dict[int, Any] = {{"]
        writers = [f"{self.table}_WRITERS: dict[type, tuple[int, Any]] = {{"]
        names = [f"{self.table}_NAMES = {{"]
        for a in self.rows.alternatives:
            readers.append(f"    {a.tag:#04x}: {function_name('read', a.layout)},")
            write = function_name("write", a.layout)
            writers.append(f"    {a.layout.cls.__name__}: ({a.tag << 24:#010x}, {write}),")
            names.append(f'    {a.tag:#04x}: "{a.layout.name}",')
        return [*readers, "}", *writers, "}", *names, "}"]

    def encode(self) -> str:
        """Return the bytes of the rows, and of the end row."""
        opaque, broken = self.rows.opaque.__name__, self.rows.broken.__name__
        label = f"{self.layout.name}.{self.name}"
        code = Code()
        code(
            f"def {function_name('encode', self.layout)}(value: {self.layout.cls.__name__}) -> bytes:"
        )
        code.indent = 1
        with code.block(f"if len(value.{self.name}) > {self.rows.max_rows}:"):
            code(f'raise EncodeError("too_many", "{label}", None, str(len(value.{self.name})))')
        code("parts = []")
        with code.block(f"for row in value.{self.name}:"):
            code(f"entry = {self.table}_WRITERS.get(type(row))")
            with code.block("if entry is not None:"):
                code("head, write = entry", "data = write(row)")
            with code.block(f"elif isinstance(row, {opaque} | {broken}):"):
                code("head, data = row.type << 24, row.data")
                with code.block(f"if not 0 <= row.type <= 255 or row.type == {self.rows.end}:"):
                    code(f'raise rt.out_of_range("{label}", row.type, "a row type")')
            with code.block("else:"):
                code(f'raise rt.no_layout("{label}", row)')
            with code.block("if len(data) > 0xFFFFFF:"):
                code(
                    f'raise EncodeError("too_large", "{label}", None, f"{{len(data)}} bytes in a row")'
                )
            code(
                f"parts.append({self.structs.pack('>I')}(head | len(data)))",
                "parts.append(data)",
            )
        code(f"parts.append({bytes([self.rows.end, 0, 0, 0])!r})", 'return b"".join(parts)')
        return f"{code}\n"
