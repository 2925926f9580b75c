"""The module that holds the kernels of a protocol in one dialect."""

from __future__ import annotations

from collections.abc import Iterator

from wirelake.records.structs import stages
from wirelake.wire import model as m
from wirelake.wire.protocol import Protocol

from .emit import POSITION, Emitter, Scope
from .frames import DecodeFrame, scan_function
from .plan import Vars

__all__ = [
    "INTEGER",
    "NODE_COLUMNS",
    "REAL32",
    "REAL64",
    "STACK",
    "decoders",
    "dynamic_function",
    "kernel_source",
    "read_dynamic",
]


# Self-describing values in kernels: nodes in preorder, without recursion.


NODE_COLUMNS = (
    ("parent", "int32"),
    ("name_start", POSITION),
    ("name_size", POSITION),
    ("type", "int16"),
    ("what", "uint8"),
    ("bits", "int64"),
    ("start", POSITION),
    ("size", POSITION),
)
"""The columns of a table of nodes; `name_size` and `size` are -1 for none."""

INTEGER, REAL32, REAL64, TEXT, BYTES = 1, 2, 3, 4, 5
"""What a node holds; 0 for nothing."""

STACK = 3 * 66
"""Numbers of scratch for what is open."""


def read_dynamic(emitter: Emitter, name: str, kind: m.Dynamic, scope: Scope) -> Vars:
    """Emits the call that reads a value into a table of nodes."""
    emitter.dynamics[kind.name] = kind
    table = emitter.new_table(f"{scope.table.name}_{scope.path}{name}", kind.tag.size)
    columns = [table.column(each, dtype) for each, dtype in NODE_COLUMNS]
    ends = scope.column(f"{name}_ends", "int32")
    counter = f"k_{table.name}"
    arguments = ", ".join(column.name for column in columns)
    emitter.code(f"pos, {counter} = read_{kind.name}(buf, pos, end, stack, {counter}, {arguments})")
    emitter.code.give_up_if(f"pos == {emitter.code.number(0)}")
    emitter.code(f"{ends.name}[{scope.row}] = {counter}")
    return Vars(ends, table)


def dynamic_function(kind: m.Dynamic, constants: set[int]) -> str:
    """The helper that reads one value; it returns where it stops, 0 when it is not good."""
    emitter = _Reader(kind)
    constants |= emitter.code.constants
    return str(emitter.code)


class _Reader(Emitter):
    """Emits the helper of one kind of value."""

    def __init__(self, kind: m.Dynamic):
        super().__init__(m.Layout(kind.name, kind.cls, (), ""))
        self.kind = kind
        self.emit()

    def emit(self) -> None:
        """The whole function."""
        code, number = self.code, self.code.number
        columns = ", ".join(name for name, _ in NODE_COLUMNS)
        code("@inline", f"def read_{self.kind.name}(buf, pos, end, stack, k, {columns}):")
        code.indent = 1
        code(
            "first = k",
            f"budget = {number(self.kind.max_nodes)}",
            f"depth = {number(0)}",
            f"left = {number(1)}",
            "inside = -1",
            "keyed = False",
            "failed = False",
        )
        with code.block("while True:"):
            with code.block(f"while left == {number(0)} and depth > {number(0)}:"):
                code(f"depth -= {number(1)}", f"at = depth * {number(3)}")
                code("left = U(stack[at])", f"inside = stack[at + {number(1)}]")
                code(f"keyed = stack[at + {number(2)}] != 0")
            with code.block(f"if left == {number(0)}:"):
                code("return pos, k")
            code(f"left -= {number(1)}")
            self.node()
        code(f"return {number(0)}, first")

    def node(self) -> None:
        """Reads one node; giving up leaves the outer loop."""
        code, number = self.code, self.code.number
        code("parent[k] = inside", "name_start[k] = 0", "name_size[k] = -1")
        if any(isinstance(each.type, m.Pairs) for each in self.kind.kinds):
            with code.block("if keyed:"):
                self.key()
        self.need(1)
        code("tag = buf[pos]", f"pos += {number(1)}")
        code("type[k] = tag", "what[k] = 0", "bits[k] = 0", "start[k] = 0", "size[k] = -1")
        for index, each in enumerate(self.kind.kinds):
            with code.block(f"{'elif' if index else 'if'} tag == {each.tag}:"):
                self.content(each)
        with code.block("else:"):
            code.give_up()
        code(f"k += {number(1)}")

    def key(self) -> None:
        """Reads the key of an item in a map."""
        pairs = next(each.type for each in self.kind.kinds if isinstance(each.type, m.Pairs))
        size = self.sized(pairs.key)
        self.code("name_start[k] = pos", f"name_size[k] = {size}", f"pos += {size}")

    def sized(self, kind: m.Blob) -> str:
        """Reads the length of bytes that are there, and valid."""
        assert kind.length is not None
        size = self.length(kind.length)
        self.code.give_up_if(f"{size} > end - pos")
        if kind.text is not None:
            # Loose text that is not UTF-8 needs its bytes kept beside it: the scalar codec's.
            self.code.give_up_if(f"not utf8(buf, pos, pos + {size})")
        return size

    def content(self, each: m.DynamicKind) -> None:
        """Reads what a node of one kind holds."""
        code = self.code
        match each.type:
            case None:
                code("pass")
            case m.Varint():
                code(f"bits[k] = {self.varint(each.type)}", f"what[k] = {INTEGER}")
            case m.Int():
                self.need(each.type.size)
                loaded = self.load(each.type, "pos")
                code(f"bits[k] = {self.signed(f'({loaded})', each.type)}", f"what[k] = {INTEGER}")
                self.advance(each.type.size)
            case m.Bool():
                self.need(1)
                if each.type.strict:
                    code.give_up_if("buf[pos] > 1")
                code("bits[k] = buf[pos] != 0", f"what[k] = {INTEGER}")
                self.advance(1)
            case m.Float():
                self.float_bits(each.type)
            case m.Blob():
                size = self.sized(each.type)
                code("start[k] = pos", f"size[k] = {size}", f"pos += {size}")
                code(f"what[k] = {BYTES if each.type.text is None else TEXT}")
            case m.Items() | m.Pairs():
                self.container(each.type)

    def float_bits(self, kind: m.Float) -> None:
        """Stores the bits of a float; a NaN is the scalar codec's."""
        mask, infinity = {
            4: (0x7FFFFFFF, 0x7F800000),
            8: (0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000),
        }[kind.size]
        self.need(kind.size)
        value = self.code.fresh("v")
        self.code(f"{value} = {self.load(kind, 'pos')}")
        self.code.give_up_if(f"{value} & {self.code.number(mask)} > {self.code.number(infinity)}")
        self.code(f"bits[k] = {value}", f"what[k] = {REAL32 if kind.size == 4 else REAL64}")
        self.advance(kind.size)

    def container(self, kind: m.Items | m.Pairs) -> None:
        """Opens a list or a map."""
        code, number = self.code, self.code.number
        code.give_up_if(f"depth >= {number(self.kind.max_depth)}")
        assert isinstance(kind.count, m.Varint)
        least = 2 if isinstance(kind, m.Pairs) else 1
        if kind.count.coding == "unsigned":
            count = self.uvarint()
            code.give_up_if(f"{count} > {number((1 << kind.count.bits) - 1)}")
        else:
            count = self.length(kind.count)
        code.give_up_if(f"{count} > end - pos or {count} * {number(least)} > end - pos")
        code.give_up_if(f"{count} > budget")
        code(
            f"budget -= {count}",
            f"at = depth * {number(3)}",
            "stack[at] = left",
            f"stack[at + {number(1)}] = inside",
            f"stack[at + {number(2)}] = keyed",
            f"depth += {number(1)}",
            f"left = {count}",
            "inside = np.int64(k - first)",
            f"keyed = {isinstance(kind, m.Pairs)}",
        )


_HEADER = '''"""Kernels of {name}, dialect {dialect}. Generated from {module}: do not edit.

Regenerate it with `python -m wirelake.columnar.generate`; a test fails if it is out of date.
"""
# ruff: noqa
# fmt: off
# mypy: ignore-errors

import numpy as np

from wirelake.columnar.jit.intrinsics import utf8
from wirelake.columnar.jit.options import U, inline, kernel

'''


def decoders(protocol: Protocol, dialect: str) -> Iterator[DecodeFrame]:
    """The reading functions of a protocol: of its frames, and of its stages."""
    yield DecodeFrame(protocol.model(dialect))
    for stage in stages(protocol, dialect):
        yield DecodeFrame(stage, frame=False)


def kernel_source(protocol: Protocol, dialect: str) -> str:
    """The source of the module."""
    constants: set[int] = set()
    parts = [scan_function(protocol.model(dialect), constants)]
    dynamics: dict[str, m.Dynamic] = {}
    for decoder in decoders(protocol, dialect):
        source, _ = decoder.function()
        parts.append(source)
        constants |= decoder.code.constants
        dynamics |= decoder.dynamics
    helpers = [dynamic_function(kind, constants) + "\n" for kind in dynamics.values()]
    numbers = "\n".join(f"_{value} = U({value:#x})" for value in sorted(constants))
    header = _HEADER.format(name=protocol.name, dialect=dialect, module=protocol.frame.__module__)
    return f"{header}{numbers}\n\n\n" + "\n\n".join([*helpers, *parts])
