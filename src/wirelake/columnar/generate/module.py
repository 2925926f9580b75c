"""`kernel_source`: the module with the kernels of a protocol in one dialect.

A module has one `scan_<frame>` for frames in runs of bytes, one `decode_<layout>` for the frames
and for each stage (`frames.py`), and one `read_<type>` for each type whose values describe
themselves: these are trees, so they are read by a loop with an explicit stack instead of
straight-line code.
"""

from __future__ import annotations

from collections.abc import Iterator

from wirelake.records.structs import stages
from wirelake.wire import model as m
from wirelake.wire.protocol import Protocol

from .emit import Emitter
from .frames import DecodeFrame, scan_function
from .plan import BYTES, INTEGER, NODE_COLUMNS, REAL32, REAL64, TEXT

__all__ = ["STACK", "decoders", "kernel_source"]

_STACK_DEPTH = 64
"""Maximum depth that kernels read, which is the default limit of a type. Deeper values of types
with a higher limit are left to the scalar codec: nothing else guards the stack array."""
STACK = 3 * (_STACK_DEPTH + 2)
"""Length of the stack array of `read_<type>`: three numbers for each open list or map."""

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
    """Yield the decoders of a protocol: of its frames, and of its stages."""
    yield DecodeFrame(protocol.model(dialect))
    for stage in stages(protocol, dialect):
        yield DecodeFrame(stage, frame=False)


def kernel_source(protocol: Protocol, dialect: str) -> str:
    """Return the source of the module."""
    constants: set[int] = set()
    parts = [scan_function(protocol.model(dialect), constants)]
    dynamics: dict[str, m.Dynamic] = {}
    for decoder in decoders(protocol, dialect):
        source, _ = decoder.function()
        parts.append(source)
        constants |= decoder.code.constants
        dynamics |= decoder.dynamics
    # Helpers come first, and are inlined: a call for each value would cost more than reading it.
    helpers = [_dynamic_function(kind, constants) + "\n" for kind in dynamics.values()]
    # Globals of the module are compile-time constants to Numba.
    numbers = "\n".join(f"_{value} = U({value:#x})" for value in sorted(constants))
    header = _HEADER.format(name=protocol.name, dialect=dialect, module=protocol.frame.__module__)
    return f"{header}{numbers}\n\n\n" + "\n\n".join([*helpers, *parts])


# -- self-describing values ------------------------------------------------------------------


def _dynamic_function(kind: m.Dynamic, constants: set[int]) -> str:
    """Return the helper that reads one value; it returns where the value ends, 0 if invalid."""
    emitter = _NodeReader(kind)
    constants |= emitter.code.constants
    return str(emitter.code)


class _NodeReader(Emitter):
    """Emits `read_<type>`.

    Nodes are written in preorder. A loop with a stack instead of recursion: Numba cannot cache a
    recursive function without declared types, and hostile input must not exhaust the C stack.
    `budget` bounds the nodes of a value before any of them is read (docs/concepts/limits.md).
    """

    def __init__(self, kind: m.Dynamic):
        super().__init__(m.Layout(kind.name, kind.cls, (), ""))
        self.kind = kind
        self.emit()

    def emit(self) -> None:
        """Emit the whole function."""
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
            # Close the containers that are complete. In a loop, because the last item of a list may
            # itself be the last item of an outer one.
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
        """Read one node; rejecting leaves the outer loop."""
        code, number = self.code, self.code.number
        code("parent[k] = inside", "name_start[k] = 0", "name_size[k] = -1")
        # Types without maps have no keys: the test disappears from their kernels.
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
            code.reject()
        code(f"k += {number(1)}")

    def key(self) -> None:
        """Read the key of an item in a map."""
        pairs = next(each.type for each in self.kind.kinds if isinstance(each.type, m.Pairs))
        size = self.sized(pairs.key)
        self.code("name_start[k] = pos", f"name_size[k] = {size}", f"pos += {size}")

    def sized(self, kind: m.Blob) -> str:
        """Read the length of bytes, and check that they are there and valid."""
        assert kind.length is not None
        size = self.length(kind.length)
        self.code.reject_if(f"{size} > end - pos")
        if kind.text is not None:
            # Loose text that is not UTF-8 keeps its bytes in another column: left to the scalar
            # codec, like everything rare.
            self.code.reject_if(f"not utf8(buf, pos, pos + {size})")
        return size

    def content(self, each: m.DynamicKind) -> None:
        """Read the content of a node of one type."""
        code = self.code
        match each.type:
            case None:
                code("pass")
            case m.Varint():
                code(f"bits[k] = np.int64({self.varint(each.type)})", f"what[k] = {INTEGER}")
            case m.Int():
                self.need(each.type.size)
                loaded = self.load(each.type, "pos")
                code(
                    f"bits[k] = np.int64({self.signed(f'({loaded})', each.type)})",
                    f"what[k] = {INTEGER}",
                )
                self.advance(each.type.size)
            case m.Bool():
                self.need(1)
                if each.type.strict:
                    code.reject_if("buf[pos] > 1")
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
        """Store the bits of a float; a NaN is left to the scalar codec."""
        mask, infinity = {
            4: (0x7FFFFFFF, 0x7F800000),
            8: (0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000),
        }[kind.size]
        self.need(kind.size)
        value = self.code.fresh("v")
        self.code(f"{value} = {self.load(kind, 'pos')}")
        self.code.reject_if(f"{value} & {self.code.number(mask)} > {self.code.number(infinity)}")
        self.code(
            f"bits[k] = np.int64({value})", f"what[k] = {REAL32 if kind.size == 4 else REAL64}"
        )
        self.advance(kind.size)

    def container(self, kind: m.Items | m.Pairs) -> None:
        """Open a list or a map: push the present one, and continue with its first item."""
        code, number = self.code, self.code.number
        code.reject_if(f"depth >= {number(min(self.kind.max_depth, _STACK_DEPTH))}")
        assert isinstance(kind.count, m.Varint)
        min_item_bytes = 2 if isinstance(kind, m.Pairs) else 1
        if kind.count.coding == "unsigned":
            count = self.uvarint()
            code.reject_if(f"{count} > {number((1 << kind.count.bits) - 1)}")
        else:
            count = self.length(kind.count)
        # Both tests: a count near 2^64 would wrap when multiplied, and pass the second one.
        code.reject_if(f"{count} > end - pos or {count} * {number(min_item_bytes)} > end - pos")
        code.reject_if(f"{count} > budget")
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
