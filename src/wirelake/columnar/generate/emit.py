"""`Emitter`: the code that reads the values of a layout into columns, and the plan of the columns.

One function reads all slices. Its body is straight-line code: every value is read in place, so LLVM
sees a single loop and keeps position and end in registers. A slice is rejected at the first thing
that is invalid or rare (an unknown protobuf field, a row that breaks a rule, a NaN); the scalar
codec then reads it and names the fault. A kernel accepts only what the scalar codec accepts, with
the same values; a test compares them.

Every number in the emitted code is a named uint64 constant, because an int literal is an int64 in
Numba and the sum of both types is a float64.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from wirelake.wire import model as m
from wirelake.wire.generate.code import Code
from wirelake.wire.generate.frames import part_size
from wirelake.wire.generate.protobuf import protobuf_keys
from wirelake.wire.walk import alternative_names

from .plan import (
    NODE_COLUMNS,
    POSITION,
    Binary,
    Choice,
    Column,
    Empty,
    Flags,
    Floats,
    Lists,
    Maybe,
    Nodes,
    Numbers,
    Plan,
    Shape,
    Staged,
    Structs,
    Table,
)

__all__ = [
    "DIRECTIONS",
    "Emitter",
    "KernelCode",
    "Scope",
]


class KernelCode(Code):
    """The lines of a kernel, its constants, and how it leaves a slice.

    The body of a slice is in a `while True` that runs once: Numba has no goto, and `break` is what
    leaves the slice from any depth of ifs. Loops inside need a flag as well (`loop`).
    """

    def __init__(self, indent: int = 0) -> None:
        # `Code` of the scalar generator, so that both generators lay out their source the same way.
        super().__init__(indent)
        self.constants: set[int] = set()
        self._loops = 0
        self._names = 0

    def number(self, value: int) -> str:
        """Return the name of a uint64 constant."""
        self.constants.add(value)
        return f"_{value}"

    def plus(self, name: str, value: int) -> str:
        """Return `name + value`, or the name alone for 0."""
        return f"{name} + {self.number(value)}" if value else name

    def fresh(self, stem: str) -> str:
        """Return the name of a new variable."""
        self._names += 1
        return f"{stem}_{self._names}"

    def reject(self) -> None:
        """Emit leaving the slice: it is invalid, or left to the scalar codec."""
        if self._loops:
            self("failed = True")
        self("break")

    def reject_if(self, test: str) -> None:
        """Emit leaving the slice when a test holds."""
        with self.block(f"if {test}:"):
            self.reject()

    @contextmanager
    def loop(self, head: str) -> Iterator[None]:
        """Emit a loop inside a slice; rejecting inside it leaves the slice as well."""
        with self.block(head):
            self._loops += 1
            yield
            self._loops -= 1
        self.reject_if("failed")


_UNSIGNED = {1: "int16", 2: "int32", 3: "int32", 4: "int64", 8: "int64"}
_SIGNED = {1: "int8", 2: "int16", 3: "int32", 4: "int32", 8: "int64"}
DIRECTIONS = ("c2s", "s2c")
"""The directions, by their numbers in kernels."""


def _is_fixed(part: m.Part) -> bool:
    """Return whether a part has a fixed size and is always present."""
    if isinstance(part, m.Field):
        fixed = isinstance(part.type, m.Int | m.Float | m.Bool | m.Fixed)
        return fixed and part.when is None
    return isinstance(part, m.Const | m.BitGroup)


class Scope:
    """Where values are written: a table, and the expression of the row number."""

    def __init__(self, table: Table, row: str, path: str = ""):
        self.table = table
        self.row = row
        self.path = path

    def column(self, name: str, dtype: str) -> Column:
        """Add a column to this scope's table."""
        return self.table.column(f"{self.path}{name}", dtype)

    def inside(self, name: str) -> Scope:
        """Return a scope with the same rows for a nested value."""
        return Scope(self.table, self.row, f"{self.path}{name}_")


class Emitter:
    """Emits the code that reads one layout."""

    def __init__(self, layout: m.Layout):
        self.layout = layout
        self.code = KernelCode()
        self.root = Table("root")
        self.tables = [self.root]
        self.dynamics: dict[str, m.Dynamic] = {}

    def plan(self, shape: Structs) -> Plan:
        """Return the plan of the columns that the emitted code fills."""
        return Plan(tuple(self.tables), shape)

    def new_table(self, name: str, min_size: int = 0) -> Table:
        """Add a table; the variable `k_<name>` counts its rows."""
        table = Table(name, min_size)
        self.tables.append(table)
        return table

    # -- layouts -----------------------------------------------------------------------------

    def structs(self, layout: m.Layout, scope: Scope) -> Structs:
        """Read a layout from `pos` up to `end`."""
        if layout.protobuf:
            return self.protobuf(layout, scope)
        if layout.find(m.Length) is None:
            return Structs(tuple(self.parts(layout.parts, scope)))
        # The length inside the layout narrows `end`; the old one is kept in a variable of its own,
        # because layouts nest.
        outer = self.code.fresh("end")
        self.code(f"{outer} = end")
        shape = Structs(tuple(self.parts(layout.parts, scope)))
        self.code.reject_if("pos != end")
        self.code(f"end = {outer}")
        return shape

    def parts(self, parts: Iterable[m.Part], scope: Scope) -> list[tuple[str, Shape]]:
        """Read parts in order; return the names and shapes of those that are stored."""
        fields: list[tuple[str, Shape]] = []
        # Runs of fixed parts share one bounds check.
        for fixed, run in itertools.groupby(parts, _is_fixed):
            if fixed:
                fields += self.fixed_parts(list(run), scope)
                continue
            for part in run:
                match part:
                    case m.Field():
                        fields.append((part.name, self.field(part, scope)))
                    case m.Length():
                        self.inner_length(part)
                    case _:
                        raise TypeError(
                            f"{type(part).__name__} is only allowed in the head of a frame"
                        )
        return fields

    def fixed_parts(self, parts: list[m.Part], scope: Scope) -> list[tuple[str, Shape]]:
        """Read consecutive parts of fixed size after a single bounds check.

        With one check for all of them, checked kernels are as fast as unchecked ones were: 0.79 and
        0.76 times hand-written C in the prototype.
        """
        self.need(sum(part_size(part) for part in parts))
        fields: list[tuple[str, Shape]] = []
        offset = 0
        for part in parts:
            fields += self.fixed_part(part, scope, self.code.plus("pos", offset))
            offset += part_size(part)
        self.advance(offset)
        return fields

    def fixed_part(self, part: m.Part, scope: Scope, at: str) -> list[tuple[str, Shape]]:
        """Read one part of fixed size, whose bytes are known to be there."""
        match part:
            case m.Const():
                self.const(part, at)
                return []
            case m.BitGroup():
                return self.bits(part, scope, at)
            case m.Field():
                assert isinstance(part.type, m.Int | m.Float | m.Bool | m.Fixed)
                return [(part.name, self.fixed(part.name, part.type, scope, at, part))]
            case _:
                raise TypeError(f"{type(part).__name__} has no value")

    def need(self, size: int) -> None:
        """Reject the slice unless this many bytes are left."""
        self.code.reject_if(f"end - pos < {self.code.number(size)}")

    def advance(self, size: int) -> None:
        """Move `pos` forward."""
        self.code(f"pos += {self.code.number(size)}")

    def inner_length(self, part: m.Length) -> None:
        """Read a length inside a slice: `end` moves to where it says."""
        self.need(part.type.size)
        size = self.code.fresh("size")
        self.code(f"{size} = {self.load(part.type, 'pos')}")
        self.advance(part.type.size)
        self.code.reject_if(f"{size} > end - pos or {size} < {self.code.number(part.minimum)}")
        self.code(f"end = pos + {size}")

    # -- numbers -----------------------------------------------------------------------------

    def load(self, kind: m.Int | m.Float, at: str) -> str:
        """Return the expression of a number of fixed size, whose bytes are known to be there.

        Bytes and shifts, because fields are not aligned; LLVM makes one load of them.
        """
        # Bytes from the most significant to the least, wherever they are.
        places = range(kind.size) if kind.order == "big" else range(kind.size - 1, -1, -1)
        terms = []
        for power, place in zip(range(kind.size - 1, -1, -1), places, strict=True):
            byte = f"U(buf[{self.code.plus(at, place)}])"
            terms.append(f"{byte} << {self.code.number(8 * power)}" if power else byte)
        return " | ".join(terms)

    def signed(self, value: str, kind: m.Int) -> str:
        """Return the expression of a loaded number with its sign."""
        if not kind.signed or kind.size == 8:
            return value
        if kind.size == 3:  # no int24: shift the sign bit to the top, and back arithmetically
            return f"np.int32(({value}) << {self.code.number(8)}) >> 8"
        return f"np.int{8 * kind.size}({value})"

    def const(self, part: m.Const, at: str) -> None:
        """Reject the slice unless constant bytes match."""
        tests = [
            f"buf[{self.code.plus(at, place)}] != {byte}" for place, byte in enumerate(part.value)
        ]
        if tests:
            self.code.reject_if(" or ".join(tests))

    def bits(self, part: m.BitGroup, scope: Scope, at: str) -> list[tuple[str, Shape]]:
        """Split a group of bits; presence and tag bits stay in variables."""
        group = self.code.fresh("bits")
        self.code(f"{group} = {self.load(m.Int(part.size), at)}")
        fields: list[tuple[str, Shape]] = []
        for bit in part.bits:
            value = f"{group} >> {self.code.number(bit.shift)}" if bit.shift else group
            # Presence and tag bits are tested by code that comes later, so every bit field has a
            # variable.
            picked = f"({value}) & {self.code.number((1 << bit.width) - 1)}"
            self.code(f"bit_{bit.name} = {picked}")
            # Bits that only say what follows are not part of the value.
            if bit.role != "stored":
                continue
            self.check_names(bit, f"bit_{bit.name}")
            fields.append((bit.name, self.stored_bit(bit, scope)))
        return fields

    def stored_bit(self, bit: m.Bit, scope: Scope) -> Shape:
        """Store a bit field that is an attribute of the value."""
        # The smallest signed column that holds the unsigned value, as `messages` has it.
        size = next(size for size in (1, 2, 4, 8) if bit.width <= 8 * size)
        column = scope.column(bit.name, "uint8" if bit.flag else _UNSIGNED[size])
        self.code(f"{column.name}[{scope.row}] = bit_{bit.name}")
        return Flags(column) if bit.flag else Numbers(column)

    def check_names(self, part: m.Field | m.Bit, value: str) -> None:
        """Reject numbers without a name, when the names are closed."""
        if part.names is None or not part.closed:
            return
        numbers = sorted(int(member) for member in part.names)
        kind = part.type if isinstance(part, m.Field) else None
        if isinstance(kind, m.Int | m.Varint) and kind.signed:
            tests = [f"np.int64({value}) != {number}" for number in numbers]
        else:
            tests = [f"{value} != {self.code.number(number)}" for number in numbers]
        self.code.reject_if(" and ".join(tests))

    def uvarint(self) -> str:
        """Read a LEB128 number of at most 64 bits into a new variable.

        The first byte is read outside the loop: most varints have one byte, and the branch is then
        predicted.
        """
        code, number = self.code, self.code.number
        value = code.fresh("v")
        code.reject_if("pos >= end")
        code(f"{value} = U(buf[pos])", f"pos += {number(1)}")
        with code.block(f"if {value} >= {number(128)}:"):
            code(f"{value} &= {number(127)}", f"shift = {number(7)}")
            with code.loop("while True:"):
                code.reject_if("pos >= end")
                code("byte = U(buf[pos])", f"pos += {number(1)}")
                # The tenth byte has a single bit left.
                code.reject_if(f"shift == {number(63)} and byte > {number(1)}")
                code(f"{value} |= (byte & {number(127)}) << shift")
                with code.block(f"if byte < {number(128)}:"):
                    code("break")
                code(f"shift += {number(7)}")
        return value

    def varint(self, kind: m.Varint) -> str:
        """Read a varint; return the expression of its value, in two's complement if signed."""
        value = self.uvarint()
        if kind.loose:
            return f"np.int32({value})" if kind.bits == 32 else value
        if kind.bits < 64:
            self.code.reject_if(f"{value} > {self.code.number((1 << kind.bits) - 1)}")
        if kind.coding == "zigzag":
            one = self.code.number(1)
            # `-(value & 1)` without a minus, so that everything stays uint64.
            return f"({value} >> {one}) ^ (~({value} & {one}) + {one})"
        if kind.coding == "twos" and kind.bits < 64:
            return f"np.int{kind.bits}({value})"
        return value

    # -- values ------------------------------------------------------------------------------

    def field(self, part: m.Field, scope: Scope) -> Shape:
        """Read a field, which may be absent."""
        if part.when is None:
            return self.value(part.name, part.type, scope, part)
        valid = scope.column(f"{part.name}_valid", "uint8")
        with self.code.block(f"if bit_{part.when} != {self.code.number(0)}:"):
            shape = self.value(part.name, part.type, scope, part)
            self.code(f"{valid.name}[{scope.row}] = 1")
        with self.code.block("else:"):
            self.code(f"{valid.name}[{scope.row}] = 0")
            self.absent(shape, scope)
        return Maybe(valid, shape)

    def absent(self, shape: Shape, scope: Scope) -> None:
        """Fill the columns of an absent value.

        Arrays are reused from call to call, so an entry that is not written has an old value.
        """
        match shape:
            case Binary() | Staged():
                start, size = shape.start.name, shape.size.name
                self.code(f"{start}[{scope.row}] = 0", f"{size}[{scope.row}] = 0")
            case Numbers() | Flags() | Floats():
                self.code(f"{shape.column.name}[{scope.row}] = 0")
            case Lists():
                self.code(f"{shape.ends.name}[{scope.row}] = k_{shape.table.name}")
            case Structs():
                for _, each in shape.fields:
                    self.absent(each, scope)
            case _:
                raise TypeError(f"{type(shape).__name__} cannot be absent")

    def fixed(
        self,
        name: str,
        kind: m.Int | m.Float | m.Bool | m.Fixed,
        scope: Scope,
        at: str,
        part: m.Field | None,
    ) -> Shape:
        """Read a value of fixed size, whose bytes are known to be there."""
        match kind:
            case m.Int():
                value = self.code.fresh("v")
                self.code(f"{value} = {self.load(kind, at)}")
                if part is not None:
                    self.check_names(part, value)
                widths = _SIGNED if kind.signed else _UNSIGNED
                return self.store(name, widths[kind.size], self.signed(value, kind), scope)
            case m.Float():
                return self.real(name, kind, scope, at)
            case m.Bool():
                return self.boolean(name, kind, scope, at)
            case m.Fixed():
                return self.binary(name, self.code.number(kind.size), None, scope, part, at)

    def value(self, name: str, kind: m.Type, scope: Scope, part: m.Field | None = None) -> Shape:
        """Read one value of any type into columns."""
        match kind:
            case m.Int() | m.Float() | m.Bool() | m.Fixed():
                size = m.type_size(kind)[0]
                self.need(size)
                shape = self.fixed(name, kind, scope, "pos", part)
                self.advance(size)
                return shape
            case m.Varint():
                expression = self.varint(kind)
                if part is not None:
                    self.check_names(part, f"({expression})")
                widths = _SIGNED if kind.signed else _UNSIGNED
                return self.store(name, widths[kind.bits // 8], expression, scope)
            case m.Blob():
                return self.blob(name, kind, scope, part)
            case m.Nested():
                return self.structs(kind.layout, scope.inside(name))
            case m.Many():
                return self.many(name, kind, scope)
            case m.Dynamic():
                return self.dynamic(name, kind, scope)
            case m.Rows():
                raise TypeError("rows must be the only field of their layout")

    def store(self, name: str, dtype: str, expression: str, scope: Scope) -> Numbers:
        """Write a number to a new column."""
        column = scope.column(name, dtype)
        # The bits of an unsigned number: NumPy refuses to store one that is out of range.
        stored = f"np.{dtype}({expression})" if dtype.startswith("int") else expression
        self.code(f"{column.name}[{scope.row}] = {stored}")
        return Numbers(column)

    def real(self, name: str, kind: m.Float, scope: Scope, at: str) -> Floats:
        """Store the bits of a float.

        A NaN is left to the scalar codec, which keeps its payload: Arrow and NumPy do not promise
        to. The comparison of bits needs no float at all.
        """
        value = self.code.fresh("v")
        self.code(f"{value} = {self.load(kind, at)}")
        mask, infinity = {
            4: (0x7FFFFFFF, 0x7F800000),
            8: (0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000),
        }[kind.size]
        self.code.reject_if(f"{value} & {self.code.number(mask)} > {self.code.number(infinity)}")
        column = scope.column(name, f"uint{8 * kind.size}")
        self.code(f"{column.name}[{scope.row}] = {value}")
        return Floats(column)

    def boolean(self, name: str, kind: m.Bool, scope: Scope, at: str) -> Flags:
        """Store a byte as 0 or 1."""
        if kind.strict:
            self.code.reject_if(f"buf[{at}] > 1")
        column = scope.column(name, "uint8")
        self.code(f"{column.name}[{scope.row}] = buf[{at}] != 0")
        return Flags(column)

    def blob(self, name: str, kind: m.Blob, scope: Scope, part: m.Field | None) -> Shape:
        """Read a length, then store the position of the bytes after it."""
        if kind.length is None:
            size = "end - pos"
        else:
            size = self.length(kind.length)
            self.code.reject_if(f"{size} > end - pos")
        # Sizes that the declaration allows, for example of a key.
        if part is not None and part.sizes:
            wrong = " and ".join(f"{size} != {self.code.number(each)}" for each in part.sizes)
            self.code.reject_if(wrong)
        shape = self.binary(name, size, kind.text, scope, part)
        self.code("pos = end" if kind.length is None else f"pos += {size}")
        return shape

    def length(self, kind: m.Int | m.Varint) -> str:
        """Read a length or a count. A negative one becomes larger than any slice, as uint64."""
        if isinstance(kind, m.Int):
            self.need(kind.size)
            value = self.code.fresh("n")
            self.code(f"{value} = {self.load(kind, 'pos')}")
            self.advance(kind.size)
            return value
        value = self.uvarint()
        if kind.loose:
            self.code(f"{value} &= {self.code.number(0xFFFFFFFF)}")
        if kind.coding == "zigzag":
            one = self.code.number(1)
            self.code.reject_if(f"{value} & {one} != {self.code.number(0)}")
            self.code(f"{value} >>= {one}")
        return value

    def binary(
        self,
        name: str,
        size: str,
        text: str | None,
        scope: Scope,
        part: m.Field | None,
        at: str = "pos",
    ) -> Binary | Staged:
        """Store position and size of bytes; they are copied only if someone wants them."""
        start = scope.column(f"{name}_start", POSITION)
        count = scope.column(f"{name}_size", POSITION)
        if text == "strict":
            self.code.reject_if(f"not utf8(buf, {at}, {at} + ({size}))")
        self.code(f"{start.name}[{scope.row}] = {at}", f"{count.name}[{scope.row}] = {size}")
        if part is not None and part.stage is not None:
            return Staged(start, count, part.stage)
        return Binary(start, count, text, part is not None and part.secret)

    def many(self, name: str, kind: m.Many, scope: Scope) -> Lists:
        """Read a list; its items are in a table of their own."""
        min_size = m.type_size(kind.item)[0]
        table = self.new_table(f"{scope.table.name}_{scope.path}{name}", max(min_size, 1))
        ends = scope.column(f"{name}_ends", "int32")
        items = Scope(table, f"k_{table.name}")
        if kind.count is None:
            # A list without a count fills the rest of the slice.
            head = "while pos < end:"
        else:
            count = self.length(kind.count)
            each = f" * {self.code.number(min_size)}" if min_size > 1 else ""
            # Both tests: a count near 2^64 would wrap when multiplied, and pass the second one.
            self.code.reject_if(f"{count} > end - pos or {count}{each} > end - pos")
            head = f"for _ in range({count}):"
        with self.code.loop(head):
            shape = self.value("item", kind.item, items)
            self.code(f"k_{table.name} += {self.code.number(1)}")
        self.code(f"{ends.name}[{scope.row}] = k_{table.name}")
        return Lists(ends, table, shape)

    def dynamic(self, name: str, kind: m.Dynamic, scope: Scope) -> Nodes:
        """Call the helper that reads a self-describing value into a table of nodes."""
        self.dynamics[kind.name] = kind
        table = self.new_table(f"{scope.table.name}_{scope.path}{name}", kind.tag.size)
        columns = [table.column(each, dtype) for each, dtype in NODE_COLUMNS]
        ends = scope.column(f"{name}_ends", "int32")
        counter = f"k_{table.name}"
        arguments = ", ".join(column.name for column in columns)
        self.code(
            f"pos, {counter} = read_{kind.name}(buf, pos, end, stack, {counter}, {arguments})"
        )
        self.code.reject_if(f"pos == {self.code.number(0)}")
        self.code(f"{ends.name}[{scope.row}] = {counter}")
        return Nodes(ends, table)

    # -- protobuf ----------------------------------------------------------------------------

    def protobuf(self, layout: m.Layout, scope: Scope) -> Structs:
        """Read tagged fields in any order; an unknown one is left to the scalar codec.

        Defaults are written before the loop, but which columns there are is known only after the
        loop was emitted: so its lines are taken out and put behind the defaults.
        """
        code = self.code
        if layout.unparsed:  # bytes that the dialect ignores are rare
            code.reject_if("pos < end")
            return Structs(((layout.unknown, Empty(pa.binary())),))
        shapes: dict[str, Shape] = {}
        # See the docstring: these lines move behind the defaults.
        before = len(code.lines)
        key = code.fresh("key")
        with code.loop("while pos < end:"):
            value = self.uvarint()
            code(f"{key} = {value}")
            for index, (part, number) in enumerate(protobuf_keys(layout)):
                word = "elif" if index else "if"
                with code.block(f"{word} {key} == {code.number(number)}:"):
                    shapes[part.name] = self.protobuf_field(part, scope)
            if shapes:
                with code.block("else:"):
                    code.reject()
            else:
                code.reject()
        loop = code.lines[before:]
        del code.lines[before:]
        for shape in shapes.values():
            self.protobuf_default(shape, scope)
        code.lines += loop
        return Structs((*shapes.items(), (layout.unknown, Empty(pa.binary()))))

    def protobuf_default(self, shape: Shape, scope: Scope) -> None:
        """Write the default of a field that may not occur."""
        if isinstance(shape, Maybe):
            self.code(f"{shape.valid.name}[{scope.row}] = 0")
            shape = shape.of
        self.absent(shape, scope)

    def protobuf_field(self, part: m.Field, scope: Scope) -> Shape:
        """Read the value of one tagged field; the last of several counts."""
        kind = part.type
        match kind:
            case m.Varint():
                shape: Shape = self.protobuf_number(part.name, kind, scope)
            case m.Bool():
                column = scope.column(part.name, "uint8")
                self.code(f"{column.name}[{scope.row}] = {self.uvarint()} != {self.code.number(0)}")
                shape = Flags(column)
            case m.Int() | m.Float():
                shape = self.value(part.name, kind, scope)
            case m.Blob():
                shape = self.blob(part.name, m.Blob(m.Varint(64), kind.text), scope, part)
            case _:
                # Repeated and nested fields occur in control messages only: the scalar codec's.
                self.code.reject()
                return Empty(pa.null())
        if not part.optional:
            return shape
        valid = scope.column(f"{part.name}_valid", "uint8")
        self.code(f"{valid.name}[{scope.row}] = 1")
        return Maybe(valid, shape)

    def protobuf_number(self, name: str, kind: m.Varint, scope: Scope) -> Numbers:
        """Read a protobuf varint: up to ten bytes, of which the low bits count."""
        value = self.uvarint()
        one = self.code.number(1)
        if kind.coding == "zigzag":
            value = f"({value} >> {one}) ^ (~({value} & {one}) + {one})"
        elif kind.coding == "twos" and kind.bits == 32:
            value = f"np.int32({value})"
        elif kind.bits < 64:
            value = f"{value} & {self.code.number((1 << kind.bits) - 1)}"
        widths = _SIGNED if kind.signed else _UNSIGNED
        return self.store(name, widths[kind.bits // 8], value, scope)

    # -- alternatives ------------------------------------------------------------------------

    def choice(self, layout: m.Layout, scope: Scope) -> Choice:
        """Read the alternative that `tag` and direction select into its own table."""
        assert layout.body is not None
        # In the order of the declaration: the number of an alternative is its position.
        chosen = layout.body.alternatives
        names = alternative_names(layout, chosen)
        column = scope.column("alternative", "uint8")
        tables, shapes = [], []
        for index, alternative in enumerate(chosen):
            name = names[alternative.layout.cls]
            table = self.new_table(f"{scope.table.name}_{name}")
            word = "elif" if index else "if"
            test = f"tag == {self.code.number(alternative.tag)}"
            if alternative.direction is not None:
                test += f" and directions[i] == {DIRECTIONS.index(alternative.direction)}"
            with self.code.block(f"{word} {test}:"):
                inner = Scope(table, f"k_{table.name}")
                shapes.append(self.structs(alternative.layout, inner))
                # An alternative without fields has no table rows to count.
                if table.columns:
                    self.code(f"k_{table.name} += {self.code.number(1)}")
                self.code(f"{column.name}[{scope.row}] = {index}")
            tables.append(table)
        with self.code.block("else:"):
            self.code.reject()
        found = tuple(names[each.layout.cls] for each in chosen)
        return Choice(column, found, tuple(tables), tuple(shapes))
