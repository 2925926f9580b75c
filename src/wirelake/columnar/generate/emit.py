"""The code that reads the values of a layout into columns, and the plan of those columns.

One function reads all slices. Its body is straight: every value is read in place, so the compiler
sees one loop. A slice is left at the first thing that is wrong or rare (a field that protobuf does
not know, a row that breaks a rule, a NaN): the scalar codec then reads it, and names the fault.
A kernel accepts only what the scalar codec accepts, with the same values; a test compares them.
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
    Binary,
    Choice,
    Column,
    Empty,
    Flags,
    Lists,
    Maybe,
    Numbers,
    Plan,
    Reals,
    Shape,
    Staged,
    Structs,
    Table,
)

__all__ = [
    "POSITION",
    "WAYS",
    "Emitter",
    "KernelCode",
    "Scope",
]


# Lines of a kernel: indentation, unsigned constants, and the way out of a slice that is not good.


class KernelCode(Code):
    """A kernel under construction."""

    def __init__(self, indent: int = 0) -> None:
        super().__init__(indent)
        self.constants: set[int] = set()
        self._loops = 0
        self._names = 0

    def number(self, value: int) -> str:
        """The name of an unsigned constant."""
        self.constants.add(value)
        return f"_{value}"

    def plus(self, name: str, value: int) -> str:
        """`name + value`, or the name alone."""
        return f"{name} + {self.number(value)}" if value else name

    def fresh(self, stem: str) -> str:
        """A variable that nothing else uses."""
        self._names += 1
        return f"{stem}_{self._names}"

    def give_up(self) -> None:
        """Leaves the slice: it is not good, or not what kernels are for."""
        if self._loops:
            self("failed = True")
        self("break")

    def give_up_if(self, test: str) -> None:
        """Leaves the slice when a test holds."""
        with self.block(f"if {test}:"):
            self.give_up()

    @contextmanager
    def loop(self, head: str) -> Iterator[None]:
        """A loop inside a slice; giving up inside it leaves the slice as well."""
        with self.block(head):
            self._loops += 1
            yield
            self._loops -= 1
        self.give_up_if("failed")


_UNSIGNED = {1: "int16", 2: "int32", 3: "int32", 4: "int64", 8: "int64"}
_SIGNED = {1: "int8", 2: "int16", 3: "int32", 4: "int32", 8: "int64"}
WAYS = ("c2s", "s2c")
"""The directions, by the numbers that kernels have for them."""
POSITION = "int32"
"""Places in a buffer: one buffer is far below 2 GiB."""


def _is_fixed(part: m.Part) -> bool:
    """Whether a part is read without looking at anything else."""
    if isinstance(part, m.Field):
        fixed = isinstance(part.type, m.Int | m.Float | m.Bool | m.Fixed)
        return fixed and part.when is None
    return isinstance(part, m.Const | m.BitGroup)


class Scope:
    """Where values are written: a table, and the expression of the row."""

    def __init__(self, table: Table, row: str, path: str = ""):
        self.table = table
        self.row = row
        self.path = path

    def column(self, name: str, dtype: str) -> Column:
        """A new column of this scope's table."""
        return self.table.column(f"{self.path}{name}", dtype)

    def inside(self, name: str) -> Scope:
        """The same rows, for a value inside a value."""
        return Scope(self.table, self.row, f"{self.path}{name}_")


class Emitter:
    """Emits the reading of one layout."""

    def __init__(self, layout: m.Layout):
        self.layout = layout
        self.code = KernelCode()
        self.root = Table("root")
        self.tables = [self.root]
        self.dynamics: dict[str, m.Dynamic] = {}

    def plan(self, shape: Structs) -> Plan:
        """The plan of what has been emitted."""
        return Plan(tuple(self.tables), shape)

    def new_table(self, name: str, least: int = 0) -> Table:
        """A further table; `k_<name>` counts its rows."""
        table = Table(name, least)
        self.tables.append(table)
        return table

    # -- layouts -----------------------------------------------------------------------------

    def structs(self, layout: m.Layout, scope: Scope) -> Structs:
        """Reads a layout from `pos`, within `end`."""
        if layout.protobuf:
            return self.protobuf(layout, scope)
        if layout.find(m.Length) is None:
            return Structs(tuple(self.parts(layout.parts, scope)))
        outer = self.code.fresh("end")
        self.code(f"{outer} = end")
        shape = Structs(tuple(self.parts(layout.parts, scope)))
        self.code.give_up_if("pos != end")
        self.code(f"end = {outer}")
        return shape

    def parts(self, parts: Iterable[m.Part], scope: Scope) -> list[tuple[str, Shape]]:
        """Reads parts in order; the stored ones with their shapes."""
        fields: list[tuple[str, Shape]] = []
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
                        raise TypeError(f"{type(part).__name__} stands only in the head of a frame")
        return fields

    def fixed_parts(self, parts: list[m.Part], scope: Scope) -> list[tuple[str, Shape]]:
        """Reads parts of fixed size after one look at how much is left."""
        self.need(sum(part_size(part) for part in parts))
        fields: list[tuple[str, Shape]] = []
        offset = 0
        for part in parts:
            fields += self.fixed_part(part, scope, self.code.plus("pos", offset))
            offset += part_size(part)
        self.advance(offset)
        return fields

    def fixed_part(self, part: m.Part, scope: Scope, at: str) -> list[tuple[str, Shape]]:
        """Reads one part of fixed size, whose bytes are known to be there."""
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
        """Gives up unless so many bytes are left."""
        self.code.give_up_if(f"end - pos < {self.code.number(size)}")

    def advance(self, size: int) -> None:
        """Moves on."""
        self.code(f"pos += {self.code.number(size)}")

    def inner_length(self, part: m.Length) -> None:
        """A length inside a slice: what follows ends where it says."""
        self.need(part.type.size)
        size = self.code.fresh("size")
        self.code(f"{size} = {self.load(part.type, 'pos')}")
        self.advance(part.type.size)
        self.code.give_up_if(f"{size} > end - pos or {size} < {self.code.number(part.minimum)}")
        self.code(f"end = pos + {size}")

    # -- numbers -----------------------------------------------------------------------------

    def load(self, kind: m.Int | m.Float, at: str) -> str:
        """The bits of a number of fixed size, whose bytes are known to be there."""
        places = range(kind.size) if kind.order == "big" else range(kind.size - 1, -1, -1)
        terms = []
        for power, place in zip(range(kind.size - 1, -1, -1), places, strict=True):
            byte = f"U(buf[{self.code.plus(at, place)}])"
            terms.append(f"{byte} << {self.code.number(8 * power)}" if power else byte)
        return " | ".join(terms)

    def signed(self, value: str, kind: m.Int) -> str:
        """A loaded number with its sign."""
        if not kind.signed or kind.size == 8:
            return value
        if kind.size == 3:
            return f"np.int32(({value}) << {self.code.number(8)}) >> 8"
        return f"np.int{8 * kind.size}({value})"

    def const(self, part: m.Const, at: str) -> None:
        """Compares bytes with what they must be."""
        tests = [
            f"buf[{self.code.plus(at, place)}] != {byte}" for place, byte in enumerate(part.value)
        ]
        if tests:
            self.code.give_up_if(" or ".join(tests))

    def bits(self, part: m.BitGroup, scope: Scope, at: str) -> list[tuple[str, Shape]]:
        """Takes a group of bits apart; presence and tag bits stay in variables."""
        group = self.code.fresh("bits")
        self.code(f"{group} = {self.load(m.Int(part.size), at)}")
        fields: list[tuple[str, Shape]] = []
        for bit in part.bits:
            value = f"{group} >> {self.code.number(bit.shift)}" if bit.shift else group
            picked = f"({value}) & {self.code.number((1 << bit.width) - 1)}"
            self.code(f"bit_{bit.name} = {picked}")
            if bit.role != "stored":
                continue
            self.closed(bit, f"bit_{bit.name}")
            fields.append((bit.name, self.stored_bit(bit, scope)))
        return fields

    def stored_bit(self, bit: m.Bit, scope: Scope) -> Shape:
        """Stores a bit that is an attribute of the value."""
        size = next(size for size in (1, 2, 4, 8) if bit.width <= 8 * size)
        column = scope.column(bit.name, "uint8" if bit.flag else _UNSIGNED[size])
        self.code(f"{column.name}[{scope.row}] = bit_{bit.name}")
        return Flags(column) if bit.flag else Numbers(column)

    def closed(self, part: m.Field | m.Bit, value: str) -> None:
        """Gives up on a number without a name, when the names are closed."""
        if part.names is None or not part.closed:
            return
        numbers = sorted(int(member) for member in part.names)
        kind = part.type if isinstance(part, m.Field) else None
        if isinstance(kind, m.Int | m.Varint) and kind.signed:
            tests = [f"np.int64({value}) != {number}" for number in numbers]
        else:
            tests = [f"{value} != {self.code.number(number)}" for number in numbers]
        self.code.give_up_if(" and ".join(tests))

    def uvarint(self) -> str:
        """Reads a LEB128 number of at most 64 bits into a new variable."""
        code, number = self.code, self.code.number
        value = code.fresh("v")
        code.give_up_if("pos >= end")
        code(f"{value} = U(buf[pos])", f"pos += {number(1)}")
        with code.block(f"if {value} >= {number(128)}:"):
            code(f"{value} &= {number(127)}", f"shift = {number(7)}")
            with code.loop("while True:"):
                code.give_up_if("pos >= end")
                code("byte = U(buf[pos])", f"pos += {number(1)}")
                code.give_up_if(f"shift == {number(63)} and byte > {number(1)}")
                code(f"{value} |= (byte & {number(127)}) << shift")
                with code.block(f"if byte < {number(128)}:"):
                    code("break")
                code(f"shift += {number(7)}")
        return value

    def varint(self, kind: m.Varint) -> str:
        """Reads a varint; the expression of its value, two's complement where it is signed."""
        value = self.uvarint()
        if kind.loose:
            return f"np.int32({value})" if kind.bits == 32 else value
        if kind.bits < 64:
            self.code.give_up_if(f"{value} > {self.code.number((1 << kind.bits) - 1)}")
        if kind.coding == "zigzag":
            one = self.code.number(1)
            return f"({value} >> {one}) ^ (~({value} & {one}) + {one})"
        if kind.coding == "twos" and kind.bits < 64:
            return f"np.int{kind.bits}({value})"
        return value

    # -- values ------------------------------------------------------------------------------

    def field(self, part: m.Field, scope: Scope) -> Shape:
        """Reads a field, which may be absent."""
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
        """Fills the columns of a value that is not there."""
        match shape:
            case Binary() | Staged():
                start, size = shape.start.name, shape.size.name
                self.code(f"{start}[{scope.row}] = 0", f"{size}[{scope.row}] = 0")
            case Numbers() | Flags() | Reals():
                self.code(f"{shape.column.name}[{scope.row}] = 0")
            case Lists():
                self.code(f"{shape.ends.name}[{scope.row}] = k_{shape.table.name}")
            case Structs():
                for _, each in shape.fields:
                    self.absent(each, scope)
            case _:
                raise TypeError(f"a {type(shape).__name__} cannot be absent")

    def fixed(
        self,
        name: str,
        kind: m.Int | m.Float | m.Bool | m.Fixed,
        scope: Scope,
        at: str,
        part: m.Field | None,
    ) -> Shape:
        """Reads a value of fixed size, whose bytes are known to be there."""
        match kind:
            case m.Int():
                value = self.code.fresh("v")
                self.code(f"{value} = {self.load(kind, at)}")
                if part is not None:
                    self.closed(part, value)
                widths = _SIGNED if kind.signed else _UNSIGNED
                return self.store(name, widths[kind.size], self.signed(value, kind), scope)
            case m.Float():
                return self.real(name, kind, scope, at)
            case m.Bool():
                return self.boolean(name, kind, scope, at)
            case m.Fixed():
                return self.binary(name, self.code.number(kind.size), None, scope, part, at)

    def value(self, name: str, kind: m.Type, scope: Scope, part: m.Field | None = None) -> Shape:
        """Reads one value of any type into columns."""
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
                    self.closed(part, f"({expression})")
                widths = _SIGNED if kind.signed else _UNSIGNED
                return self.store(name, widths[kind.bits // 8], expression, scope)
            case m.Blob():
                return self.blob(name, kind, scope, part)
            case m.Nested():
                return self.structs(kind.layout, scope.inside(name))
            case m.Many():
                return self.many(name, kind, scope)
            case m.Dynamic():
                from .module import read_dynamic

                return read_dynamic(self, name, kind, scope)
            case m.Rows():
                raise TypeError("rows must be the only field of their layout")

    def store(self, name: str, dtype: str, expression: str, scope: Scope) -> Numbers:
        """Writes a number to a new column."""
        column = scope.column(name, dtype)
        self.code(f"{column.name}[{scope.row}] = {expression}")
        return Numbers(column)

    def real(self, name: str, kind: m.Float, scope: Scope, at: str) -> Reals:
        """Stores the bits of a float; a NaN is the scalar codec's, which keeps its payload."""
        value = self.code.fresh("v")
        self.code(f"{value} = {self.load(kind, at)}")
        mask, infinity = {
            4: (0x7FFFFFFF, 0x7F800000),
            8: (0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000),
        }[kind.size]
        self.code.give_up_if(f"{value} & {self.code.number(mask)} > {self.code.number(infinity)}")
        column = scope.column(name, f"uint{8 * kind.size}")
        self.code(f"{column.name}[{scope.row}] = {value}")
        return Reals(column)

    def boolean(self, name: str, kind: m.Bool, scope: Scope, at: str) -> Flags:
        """Stores a byte as 0 or 1."""
        if kind.strict:
            self.code.give_up_if(f"buf[{at}] > 1")
        column = scope.column(name, "uint8")
        self.code(f"{column.name}[{scope.row}] = buf[{at}] != 0")
        return Flags(column)

    def blob(self, name: str, kind: m.Blob, scope: Scope, part: m.Field | None) -> Shape:
        """Stores where bytes are, after their length."""
        if kind.length is None:
            size = "end - pos"
        else:
            size = self.length(kind.length)
            self.code.give_up_if(f"{size} > end - pos")
        if part is not None and part.sizes:
            wrong = " and ".join(f"{size} != {self.code.number(each)}" for each in part.sizes)
            self.code.give_up_if(wrong)
        shape = self.binary(name, size, kind.text, scope, part)
        self.code("pos = end" if kind.length is None else f"pos += {size}")
        return shape

    def length(self, kind: m.Int | m.Varint) -> str:
        """Reads a length or a count. A negative one is larger than any slice."""
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
            self.code.give_up_if(f"{value} & {one} != {self.code.number(0)}")
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
        """Stores where bytes are."""
        start = scope.column(f"{name}_start", POSITION)
        count = scope.column(f"{name}_size", POSITION)
        if text == "strict":
            self.code.give_up_if(f"not utf8(buf, {at}, {at} + ({size}))")
        self.code(f"{start.name}[{scope.row}] = {at}", f"{count.name}[{scope.row}] = {size}")
        if part is not None and part.stage is not None:
            return Staged(start, count, part.stage)
        return Binary(start, count, text, part is not None and part.secret)

    def many(self, name: str, kind: m.Many, scope: Scope) -> Lists:
        """Stores items in a table of their own."""
        least = m.type_size(kind.item)[0]
        table = self.new_table(f"{scope.table.name}_{scope.path}{name}", max(least, 1))
        ends = scope.column(f"{name}_ends", "int32")
        items = Scope(table, f"k_{table.name}")
        if kind.count is None:
            head = "while pos < end:"
        else:
            count = self.length(kind.count)
            each = f" * {self.code.number(least)}" if least > 1 else ""
            # A count of two thirds of all numbers could overflow when multiplied.
            self.code.give_up_if(f"{count} > end - pos or {count}{each} > end - pos")
            head = f"for _ in range({count}):"
        with self.code.loop(head):
            shape = self.value("item", kind.item, items)
            self.code(f"k_{table.name} += {self.code.number(1)}")
        self.code(f"{ends.name}[{scope.row}] = k_{table.name}")
        return Lists(ends, table, shape)

    # -- protobuf ----------------------------------------------------------------------------

    def protobuf(self, layout: m.Layout, scope: Scope) -> Structs:
        """Reads tagged fields in any order; an unknown one is left to the scalar codec."""
        code = self.code
        shapes: dict[str, Shape] = {}
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
                    code.give_up()
            else:
                code.give_up()
        loop = code.lines[before:]
        del code.lines[before:]
        for shape in shapes.values():
            self.protobuf_default(shape, scope)
        code.lines += loop
        return Structs((*shapes.items(), (layout.unknown, Empty(pa.binary()))))

    def protobuf_default(self, shape: Shape, scope: Scope) -> None:
        """What a field holds that does not occur."""
        if isinstance(shape, Maybe):
            self.code(f"{shape.valid.name}[{scope.row}] = 0")
            shape = shape.of
        self.absent(shape, scope)

    def protobuf_field(self, part: m.Field, scope: Scope) -> Shape:
        """Reads the value of one tagged field; the last of several counts."""
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
                # Repeated and nested fields: rare enough to be the scalar codec's.
                self.code.give_up()
                return Empty(pa.null())
        if not part.optional:
            return shape
        valid = scope.column(f"{part.name}_valid", "uint8")
        self.code(f"{valid.name}[{scope.row}] = 1")
        return Maybe(valid, shape)

    def protobuf_number(self, name: str, kind: m.Varint, scope: Scope) -> Numbers:
        """A varint of protobuf: up to ten bytes, of which the low bits count."""
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
        """Reads the alternative that `tag` and `ways` choose into its own table."""
        assert layout.body is not None
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
                test += f" and ways[i] == {WAYS.index(alternative.direction)}"
            with self.code.block(f"{word} {test}:"):
                inner = Scope(table, f"k_{table.name}")
                shapes.append(self.structs(alternative.layout, inner))
                if table.columns:
                    self.code(f"k_{table.name} += {self.code.number(1)}")
                self.code(f"{column.name}[{scope.row}] = {index}")
            tables.append(table)
        with self.code.block("else:"):
            self.code.give_up()
        found = tuple(names[each.layout.cls] for each in chosen)
        return Choice(column, found, tuple(tables), tuple(shapes))
