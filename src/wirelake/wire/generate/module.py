"""One generated file: every layout of a protocol family in one dialect, or one single layout.

Layouts are written inner first, so that a function only calls those above it; frames follow, with
the tables that map tags to functions.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from .. import model as m
from ..declare import DeclarationError, build
from ..errors import DecodeError, EncodeError
from ..types import Layout
from ..walk import dynamics, reachable
from .code import Structs, tag_table
from .dynamic import dynamic_reader, dynamic_tags, dynamic_writer, load_source
from .frames import HeadFrame, frame_kind
from .reader import Reader, RowFrame, function_name
from .writer import Writer

if TYPE_CHECKING:
    from ..protocol import Protocol

__all__ = [
    "LayoutCodec",
    "codec_source",
    "compile_layout",
]


_HEADER = '''"""Codec of {protocols}, dialect {dialect}. Generated from {module}: do not edit.

Regenerate it with `python -m wirelake.wire.generate`; a test fails if it is out of date.
"""
# ruff: noqa
# fmt: off

from __future__ import annotations

import struct
from typing import Any, NoReturn

from wirelake.wire import runtime as rt
from wirelake.wire.errors import DecodeError, EncodeError, NeedMore
'''


def codec_source(protocols: Sequence[Protocol], dialect: str) -> str:
    """Return the source of the module that holds the codecs of these protocols in this dialect."""
    roots: list[m.Layout] = []
    for protocol in protocols:
        roots += [protocol.model(dialect), *protocol.layouts(dialect)]
    return _Module(protocols, dialect, reachable(roots)).source()


class _Module:
    def __init__(self, protocols: Sequence[Protocol], dialect: str, layouts: list[m.Layout]):
        self.protocols = protocols
        self.dialect = dialect
        self.layouts = layouts
        self.structs = Structs()
        self.frames = self.find_frames()
        self.check_names()

    def check_names(self) -> None:
        # Function names are derived from layout names: two equal ones would overwrite each other.
        names = [layout.name for layout in self.layouts]
        for name in names:
            if names.count(name) > 1:
                raise DeclarationError(f"two layouts are named {name}; set wire_name on one")

    def find_frames(self) -> list[m.Layout]:
        """Return the frames, inner ones (bodies that delimit themselves) before the outer."""
        found: dict[type, m.Layout] = {}

        def add(layout: m.Layout) -> None:
            if frame_kind(layout) == "body" and layout.body is not None:
                for alternative in layout.body.alternatives:
                    add(alternative.layout)
            found[layout.cls] = layout

        for protocol in self.protocols:
            frame = protocol.model(self.dialect)
            add(frame)
            if frame.min_size == 0:
                raise DeclarationError(f"{frame.cls.__qualname__}: a frame needs at least one byte")
        return list(found.values())

    def source(self) -> str:
        parts: list[str] = []
        framed = {frame.cls for frame in self.frames if frame_kind(frame) != "fixed"}
        rows = self.row_classes()
        for kind in dynamics(self.layouts):
            parts += [
                dynamic_tags(kind) + "\n",
                dynamic_reader(kind, self.structs),
                dynamic_writer(kind, self.structs),
            ]
        for layout in self.inner_first():
            if layout.cls not in framed:
                exact = layout.cls in rows and layout.fixed_size is not None
                parts.append(Reader(layout, self.structs, exact=exact).function())
                parts.append(Writer(layout, self.structs).function())
        for frame in self.frames:
            parts += self.frame(frame)
        body = "\n\n".join(parts)
        empty = "\n".join(self.empties(body))
        structs = "\n".join(self.structs.lines())
        return (
            f"{self.header()}\n_BYTE = rt.BYTE\n_ZIGZAG = rt.ZIGZAG\n\n{structs}\n\n{empty}\n\n\n{body}"
        ).replace("\n\n\n\n", "\n\n\n").rstrip() + "\n"

    def row_classes(self) -> set[type]:
        """Return the classes of rows: one of fixed size must fill its row."""
        return {
            alternative.layout.cls
            for layout in self.layouts
            for part in layout.parts
            if isinstance(part, m.Field) and isinstance(part.type, m.Rows)
            for alternative in part.type.alternatives
        }

    def header(self) -> str:
        module = self.layouts[0].cls.__module__
        text = _HEADER.format(
            protocols=" and ".join(p.name for p in self.protocols),
            dialect=self.dialect,
            module=module,
        )
        found = self.imports()
        for name in sorted(found, key=lambda name: (name != module, name)):
            text += f"from {name} import (\n"
            text += "".join(f"    {cls},\n" for cls in sorted(found[name])) + ")\n"
        return text

    def imports(self) -> dict[str, set[str]]:
        """Return the names of the classes that the code instantiates, by their module."""
        found: dict[str, set[str]] = {}
        seen: dict[str, type] = {}
        for cls in self.classes():
            name = cls.__name__
            if getattr(sys.modules.get(cls.__module__), name, None) is not cls:
                raise DeclarationError(f"{cls.__qualname__}: define it at the top of a module")
            if seen.setdefault(name, cls) is not cls:
                raise DeclarationError(f"two classes are named {name}; rename one")
            found.setdefault(cls.__module__, set()).add(name)
        return found

    def classes(self) -> list[type]:
        """Return the classes that the code instantiates: layouts, dynamic values, opaque and
        broken rows."""
        found = [layout.cls for layout in self.layouts if not layout.transparent]
        found += [kind.cls for kind in dynamics(self.layouts)]
        for layout in self.layouts:
            for part in layout.parts:
                if isinstance(part, m.Field) and isinstance(part.type, m.Rows):
                    found += [part.type.opaque, part.type.broken]
        return found

    def empties(self, body: str) -> list[str]:
        """Return the definitions of values without fields, which are created once."""
        names = sorted(set(re.findall(r"\b_EMPTY_(\w+)", body)))
        return [f"_EMPTY_{name} = {name}()" for name in names]

    def inner_first(self) -> list[m.Layout]:
        return list(reversed(self.layouts))

    # -- frames ------------------------------------------------------------------------------

    def frame(self, layout: m.Layout) -> list[str]:
        kind = frame_kind(layout)
        if kind == "rows":
            rows = RowFrame(layout, self.structs)
            return ["\n".join(rows.tables()) + "\n", *rows.functions()]
        frame = HeadFrame(layout, self.structs)
        return ["\n".join(self.tables(frame, kind)) + "\n", *frame.functions()]

    def tables(self, frame: HeadFrame, kind: str) -> list[str]:
        body = frame.body
        if body is None:
            return [f"# -- {frame.layout.name} " + "-" * (90 - len(frame.layout.name))]
        lines: list[str] = []
        if frame.options is not None:
            lines += tag_table(frame)
        if kind == "body":
            lines += self.table(frame, "DECODERS", "decode", body.alternatives)
            lines += self.table(frame, "SCANS", "scan", body.alternatives)
        elif body.directed:
            lines += self.table(frame, "READERS_C2S", "read", body.of("c2s"))
            lines += self.table(frame, "READERS_S2C", "read", body.of("s2c"))
        else:
            lines += self.table(frame, "READERS", "read", body.alternatives)
        return lines + self.writers(frame, kind)

    def table(
        self, frame: HeadFrame, suffix: str, verb: str, alternatives: tuple[m.Alternative, ...]
    ) -> list[str]:
        rows = [f"    {a.tag:#04x}: {function_name(verb, a.layout)}," for a in alternatives]
        return [f"{frame.table}_{suffix}: dict[int, Any] = {{", *rows, "}"]

    def writers(self, frame: HeadFrame, kind: str) -> list[str]:
        assert frame.body is not None
        const = frame.layout.find(m.TagConst) is not None
        rows = []
        for a in frame.body.alternatives:
            verb = "encode" if kind == "body" and frame_kind(a.layout) != "fixed" else "write"
            extra = f"{a.const:#04x}, " if const else ""
            rows.append(
                f"    {a.layout.cls.__name__}: ({a.tag:#04x}, {extra}{function_name(verb, a.layout)}),"
            )
        return [f"{frame.table}_WRITERS: dict[type, Any] = {{", *rows, "}"]


# -- a single layout that belongs to no protocol ---------------------------------------------------


L = TypeVar("L", bound=Layout)


class LayoutCodec(NamedTuple):
    """`read(bytes)` raises DecodeError only, `write(value)` EncodeError only."""

    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


def compile_layout(cls: type[L], dialect: str = "seed") -> LayoutCodec:
    """Return the codec of one layout; reading must consume all bytes.

    The class must be importable, because generated code imports it. An invalid declaration raises
    DeclarationError.
    """
    layout = build(cls, dialect)
    if layout.body is not None or any(_rows(part) for part in layout.parts):
        raise DeclarationError(f"{cls.__qualname__}: a layout with a body or rows needs a Protocol")
    stem = f"wirelake_layout_{re.sub('[^a-z0-9]', '_', layout.name)}_{dialect}"
    module = load_source(stem, _Single(layout).source())
    read = getattr(module, f"read_{layout.name}")
    write = getattr(module, f"write_{layout.name}")

    def read_all(data: bytes) -> L:
        value, stop = read(data, 0, len(data))
        if stop != len(data):
            raise DecodeError("trailing_bytes", layout.name, stop, f"{len(data) - stop} left")
        return cast("L", value)

    def write_one(value: L) -> bytes:
        if type(value) is not cls:
            raise EncodeError("bad_value", layout.name, None, f"expected a {cls.__name__}")
        try:
            return bytes(write(value))
        except (AttributeError, TypeError, ValueError, ArithmeticError, struct.error) as error:
            raise EncodeError("bad_value", layout.name, None, str(error)) from error

    return LayoutCodec(read_all, write_one)


def _rows(part: m.Part) -> bool:
    return isinstance(part, m.Field) and isinstance(part.type, m.Rows)


class _Single(_Module):
    """The module of one layout, whose classes may come from several modules."""

    def __init__(self, layout: m.Layout):
        super().__init__([], layout.dialect, reachable([layout]))

    def header(self) -> str:
        """Import each class from where it is defined."""
        found: dict[str, set[str]] = {}
        classes = [layout.cls for layout in self.layouts]
        for cls in [*classes, *(kind.cls for kind in dynamics(self.layouts))]:
            if getattr(sys.modules.get(cls.__module__), cls.__name__, None) is not cls:
                raise DeclarationError(f"{cls.__qualname__}: define it at the top of a module")
            found.setdefault(cls.__module__, set()).add(cls.__name__)
        imports = [f"from {name} import {', '.join(sorted(found[name]))}" for name in sorted(found)]
        layout = self.layouts[0]
        text = _HEADER.format(
            protocols=layout.name, dialect=self.dialect, module=layout.cls.__module__
        )
        return text + "\n".join(imports) + "\n"
