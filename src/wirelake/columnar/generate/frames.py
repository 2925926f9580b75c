"""Kernels of frames: `scan` finds where frames end in runs of bytes, `decode` reads their fields.

Two kernels and two passes, because between them the frames of all streams are sorted by the packet
that completed them, and cut into batches. A scan reads only heads, so it touches little memory.

A scan is as strict as the scalar one: every frame that it passes is delimited, and nothing that is
wrong inside a frame can change where the next one begins. Where it stops early, the scalar codec
reports why. `incomplete` and `invalid` must be distinguished: bytes that may still arrive are kept
for the next window, a bad head makes the scalar reader search for the next frame.
"""

from __future__ import annotations

import pyarrow as pa

from wirelake.wire import model as m
from wirelake.wire.generate.code import Structs as StructFormats
from wirelake.wire.generate.frames import HeadFrame, frame_kind, part_size
from wirelake.wire.generate.reader import MESSAGE_LIMIT
from wirelake.wire.walk import alternative_names

from .emit import Emitter, KernelCode, Scope
from .plan import POSITION, Binary, Empty, Maybe, Plan, RowList, Shape, Structs, Table

__all__ = ["DecodeFrame", "scan_function"]


_UNKNOWN_OPTIONS = pa.list_(
    pa.field("item", pa.struct([pa.field("bit", pa.int32()), pa.field("data", pa.binary())]))
)


class DecodeFrame(Emitter):
    """Emits the function that decodes whole frames, or slices that contain one layout each."""

    def __init__(self, layout: m.Layout, *, frame: bool = True):
        super().__init__(layout)
        # The body is emitted first and put into the function later: inside a def, a for and a
        # while.
        self.code.indent = 3
        scope = Scope(self.root, "i")
        kind = frame_kind(layout) if frame else "slice"
        if kind == "rows":
            fields: list[tuple[str, Shape]] = [self.rows(scope)]
        elif kind in ("length", "body"):
            fields = self.head_frame(scope)
        else:
            fields = list(self.structs(layout, scope).fields)
        # A slice must be read to its end: bytes left over are a fault, which the scalar codec
        # names.
        self.code.reject_if("pos != end")
        self.result = self.plan(Structs(tuple(fields)))

    @property
    def name(self) -> str:
        """The name of the function."""
        return f"decode_{self.layout.name}"

    def function(self) -> tuple[str, Plan]:
        """Return the source of the function, and the plan of its columns.

        Each table has two counters: `n_` rows of accepted slices, `k_` including the present slice.
        A rejected slice sets `k_` back to `n_`, so that its half-written rows are overwritten.
        """
        tables = [table.name for table in self.result.tables[1:] if table.columns]
        code = KernelCode()
        columns = ", ".join(column.name for column in self.result.columns)
        code(
            "@kernel",
            f"def {self.name}(buf, starts, stops, directions, bad, counts, stack, {columns}):",
        )
        code.indent = 1
        code("n_bad = _0")
        code(*(f"n_{name} = _0" for name in tables))
        with code.block("for i in range(U(starts.shape[0])):"):
            code("pos = U(starts[i])", "end = U(stops[i])")
            code(*(f"k_{name} = n_{name}" for name in tables))
            code("good = False", "failed = False")
            # Runs once; `break` rejects the slice. See `KernelCode`.
            with code.block("while True:"):
                code.lines += self.code.lines
                code("good = True", "break")
            with code.block("if good:"):
                code(*(f"n_{name} = k_{name}" for name in tables), "continue")
            code("bad[n_bad] = i", "n_bad += _1")
        code(*(f"counts[{place}] = n_{name}" for place, name in enumerate(tables)))
        code("return n_bad")
        self.code.constants |= {0, 1}
        return f"{code}\n", self.result

    # -- frames with a head ------------------------------------------------------------------

    def head_frame(self, scope: Scope) -> list[tuple[str, Shape]]:
        """Read head, options, further fields, and the body."""
        frame = HeadFrame(self.layout, StructFormats())
        self.need(frame.size)
        fields = self.head(frame, scope)
        self.advance(frame.size)
        if frame.options is not None:
            fields += self.options(frame, scope)
        tail: list[m.Part] = [
            part for part in frame.tail if not isinstance(part, m.Options | m.Body | m.Tag)
        ]
        fields += self.tail(frame, tail, scope)
        if frame.body is not None:
            fields.append(("", self.choice(self.layout, scope)))
        return fields

    def head(self, frame: HeadFrame, scope: Scope) -> list[tuple[str, Shape]]:
        """Read the parts up to the length, whose bytes are there."""
        fields: list[tuple[str, Shape]] = []
        offset = 0
        for part in frame.head:
            at = self.code.plus("pos", offset)
            match part:
                case m.Length():
                    self.code(f"length = {self.load(part.type, at)}")
                    # True of slices that a scan found; checked again, because kernels index without
                    # bounds checks.
                    self.code.reject_if(f"length != end - pos - {self.code.number(frame.size)}")
                case m.Tag():
                    self.code(f"tag = {self.load(part.type, at)}")
                case m.OptionBits():
                    self.code(f"option_bits = {self.load(part.type, at)}")
                case m.OptionsLength():
                    self.code(f"options_size = {self.load(part.type, at)}")
                case m.TagConst():
                    pass  # the scan has compared it with the tag
                case _:
                    fields += self.fixed_part(part, scope, at)
            offset += part_size(part)
        self.tag_of_bits(frame.head)
        return fields

    def tag_of_bits(self, parts: list[m.Part]) -> None:
        """Compute a tag that consists of bit fields."""
        for part in parts:
            if isinstance(part, m.BitGroup):
                bits = [bit for bit in part.bits if bit.role == "tag"]
                if bits:
                    low = bits[-1].shift
                    terms = [
                        f"bit_{b.name} << {self.code.number(b.shift - low)}"
                        if b.shift > low
                        else f"bit_{b.name}"
                        for b in bits
                    ]
                    self.code(f"tag = {' | '.join(terms)}")

    def tail(self, frame: HeadFrame, parts: list[m.Part], scope: Scope) -> list[tuple[str, Shape]]:
        """Read the fields between the length and the body."""
        tag = next((part for part in frame.tail if isinstance(part, m.Tag)), None)
        if tag is None:
            fields = self.parts(parts, scope)
            self.tag_of_bits(frame.tail)
            return fields
        fields = []
        # A tag after the length, as in comet: parts before and after it are read around it.
        before = [p for p in frame.tail[: frame.tail.index(tag)] if p in parts]
        after = [p for p in frame.tail[frame.tail.index(tag) :] if p in parts]
        fields += self.parts(before, scope)
        self.need(tag.type.size)
        self.code(f"tag = {self.load(tag.type, 'pos')}")
        self.advance(tag.type.size)
        return fields + self.parts(after, scope)

    def options(self, frame: HeadFrame, scope: Scope) -> list[tuple[str, Shape]]:
        """Read the option area; undeclared options are left to the scalar codec."""
        assert frame.options is not None
        code, number = self.code, self.code.number
        known = sum(each.bit for each in frame.options.fields)
        # Unknown options are kept with their bytes by the scalar codec: unknown values must
        # round-trip.
        code.reject_if(f"option_bits & ~{number(known)} != {number(0)}")
        code.reject_if("options_size > end - pos")
        code("area = pos + options_size")
        fields: list[tuple[str, Shape]] = []
        # Options are in the order of their bits, from the lowest.
        for option in sorted(frame.options.fields, key=lambda each: each.bit):
            fields.append((option.name, self.option(frame.options, option, scope)))
        code.reject_if("pos != area")
        unknown = frame.options.unknown
        return [*fields, (unknown, Empty(_UNKNOWN_OPTIONS))]

    def option(self, options: m.Options, option: m.OptionField, scope: Scope) -> Maybe:
        """Read one option; its length must be that of its type."""
        code, number = self.code, self.code.number
        size, entry = m.type_size(option.type)[0], options.entry_length
        valid = scope.column(f"{option.name}_valid", "uint8")
        with code.block(f"if option_bits & {number(option.bit)} != {number(0)}:"):
            code.reject_if(f"area - pos < {number(entry.size + size)}")
            code.reject_if(f"({self.load(entry, 'pos')}) != {number(size)}")
            self.advance(entry.size)
            shape = self.value(option.name, option.type, scope)
            code(f"{valid.name}[{scope.row}] = 1")
        with code.block("else:"):
            code(f"{valid.name}[{scope.row}] = 0")
            self.absent(shape, scope)
        return Maybe(valid, shape)

    # -- rows --------------------------------------------------------------------------------

    def rows(self, scope: Scope) -> tuple[str, RowList]:
        """Read rows up to the end row, which the scan has found."""
        part = self.layout.parts[0]
        assert isinstance(part, m.Field)
        assert isinstance(part.type, m.Rows)
        kind, code, number = part.type, self.code, self.code.number
        head = kind.tag.size + kind.size.size
        # A row takes at least its head, which bounds the capacity of the table.
        table = self.new_table("rows", head)
        row = Scope(table, "k_rows")
        ends = scope.column("rows_ends", "int32")
        tag = row.column("type", "int16")
        start, size = row.column("opaque_start", POSITION), row.column("opaque_size", POSITION)
        with code.loop("while True:"):
            self.need(head)
            code(f"tag = {self.load(kind.tag, 'pos')}")
            code(f"size = {self.load(kind.size, code.plus('pos', kind.tag.size))}")
            self.advance(head)
            with code.block(f"if tag == {number(kind.end)}:"):
                code("break")
            code.reject_if(f"size > end - pos or k_rows - n_rows >= {number(kind.max_rows)}")
            code("outer = end", "end = pos + size")
            code(f"{tag.name}[k_rows] = tag")
            code(f"{start.name}[k_rows] = 0", f"{size.name}[k_rows] = -1")
            # `end` is the end of the row here, so that the layouts of rows need no bounds of their
            # own.
            names, tables, shapes = self.row_kinds(kind, start.name, size.name)
            code.reject_if("pos != end")
            code("end = outer", f"k_rows += {number(1)}")
        code(f"{ends.name}[i] = k_rows")
        opaque = Binary(start, size, None)
        tags = tuple(each.tag for each in kind.alternatives)
        return part.name, RowList(ends, table, tag, names, tags, tables, shapes, opaque)

    def row_kinds(
        self, kind: m.Rows, start: str, size: str
    ) -> tuple[tuple[str, ...], tuple[Table, ...], tuple[Structs, ...]]:
        """Read the body of a row into the table of its kind; of unknown types only the position."""
        code = self.code
        names = alternative_names(None, kind.alternatives)
        tables, shapes = [], []
        for index, each in enumerate(kind.alternatives):
            table = self.new_table(f"row_{names[each.layout.cls]}", kind.tag.size + kind.size.size)
            with code.block(f"{'elif' if index else 'if'} tag == {code.number(each.tag)}:"):
                shapes.append(self.structs(each.layout, Scope(table, f"k_{table.name}")))
                code(f"k_{table.name} += {code.number(1)}")
            tables.append(table)
        with code.block("else:"):
            code(f"{start}[k_rows] = pos", f"{size}[k_rows] = size", "pos = end")
        return tuple(names[a.layout.cls] for a in kind.alternatives), tuple(tables), tuple(shapes)


# -- scanning --------------------------------------------------------------------------------


def scan_function(layout: m.Layout, constants: set[int]) -> str:
    """Return the source of `scan_<frame>`, which finds the frames in runs of bytes."""
    code = KernelCode()
    code(
        "@kernel",
        f"def scan_{layout.name}(buf, run_starts, run_stops, starts, stops, runs, reached, wrong):",
    )
    code.indent = 1
    code("n = _0")
    with code.block("for r in range(U(run_starts.shape[0])):"):
        code("pos = U(run_starts[r])", "end = U(run_stops[r])", "bad = False", "failed = False")
        with code.block("while pos < end:"):
            _Scan(layout, code).emit()
            code("starts[n] = pos", "stops[n] = stop", "runs[n] = r", "n += _1", "pos = stop")
        code("reached[r] = pos", "wrong[r] = bad")
    code("return n")
    constants |= code.constants | {0, 1}
    return f"{code}\n"


class _Scan:
    """Emits the search for the end of one frame; the emitted code breaks if it is not found."""

    def __init__(self, layout: m.Layout, code: KernelCode):
        self.layout = layout
        self.code = code
        self.emitter = Emitter(layout)
        self.emitter.code = code

    def emit(self) -> None:
        if frame_kind(self.layout) == "rows":
            self.rows()
        else:
            self.frame(self.layout, 0)

    def invalid_if(self, test: str) -> None:
        """Stop the run when a test holds: the head is invalid, as the scalar scan finds too."""
        with self.code.block(f"if {test}:"):
            self.code("bad = True", "break")

    def incomplete_if(self, test: str) -> None:
        """Stop the run when a test holds: the frame is incomplete."""
        with self.code.block(f"if {test}:"):
            self.code("break")

    def frame(self, layout: m.Layout, offset: int) -> None:
        """Emit the scan of a frame whose head begins `offset` bytes after `pos`."""
        if frame_kind(layout) == "fixed":
            self.fixed(layout, offset)
            return
        frame = HeadFrame(layout, StructFormats())
        self.prefix(frame.head, frame, offset)
        self.head(frame, offset)
        if frame.kind == "body":
            self.bodies(frame, offset)
            return
        assert frame.length is not None
        if frame.options is not None:
            self.check_head(frame)
        else:
            least, most = self.code.number(frame.minimum), self.code.number(frame.limit)
            self.invalid_if(f"length < {least} or length > {most}")
        self.code(f"stop = pos + {self.code.number(offset + frame.size)} + length")
        self.incomplete_if("stop > end")

    def prefix(self, parts: list[m.Part], frame: HeadFrame | None, offset: int) -> None:
        """Stop at an incomplete head; it is invalid if a constant in it already differs."""
        size = sum(part_size(part) for part in parts)
        if frame is not None and frame.kind == "body":
            # A frame that its body delimits needs the body's head as well.
            size += frame.layout_rest()
        with self.code.block(f"if end - pos < {self.code.number(offset + size)}:"):
            place = offset
            for part in parts:
                self.prefix_part(part, frame, place)
                place += part_size(part)
            self.code("break")

    def prefix_part(self, part: m.Part, frame: HeadFrame | None, place: int) -> None:
        """Compare the bytes of a constant that are there."""
        if isinstance(part, m.Const):
            for at, byte in enumerate(part.value, place):
                index = self.code.plus("pos", at)
                with self.code.block(f"if {index} < end and buf[{index}] != {byte}:"):
                    self.code("bad = True")
        elif isinstance(part, m.TagConst) and frame is not None and frame.body is not None:
            values = sorted({a.const for a in frame.body.alternatives if a.const is not None})
            index = self.code.plus("pos", place)
            test = " and ".join(f"buf[{index}] != {value}" for value in values)
            if part.type.size == 1:
                with self.code.block(f"if {index} < end and {test}:"):
                    self.code("bad = True")

    def head(self, frame: HeadFrame, offset: int) -> None:
        """Read the parts that delimit a frame: constants, length, tag, options."""
        place = offset
        for part in frame.head:
            at = self.code.plus("pos", place)
            match part:
                case m.Const():
                    self.const(part, place)
                case m.Length():
                    self.code(f"length = {self.emitter.load(part.type, at)}")
                case m.Tag():
                    self.code(f"tag = {self.emitter.load(part.type, at)}")
                case m.TagConst():
                    self.code(f"const = {self.emitter.load(part.type, at)}")
                case m.OptionBits():
                    self.code(f"option_bits = {self.emitter.load(part.type, at)}")
                case m.OptionsLength():
                    self.code(f"options_size = {self.emitter.load(part.type, at)}")
                case m.BitGroup() if any(bit.role == "tag" for bit in part.bits):
                    self.tag_bits(part, at)
                case m.Field() if part.names is not None and part.closed:
                    self.check_names(part, at)
                case _:
                    pass
            place += part_size(part)

    def check_names(self, part: m.Field, at: str) -> None:
        """Check a number in the head that must have a name."""
        assert isinstance(part.type, m.Int)
        value = self.code.fresh("v")
        self.code(f"{value} = {self.emitter.load(part.type, at)}")
        mask = (1 << 8 * part.type.size) - 1
        assert part.names is not None
        tests = [f"{value} != {self.code.number(int(each) & mask)}" for each in part.names]
        self.invalid_if(" and ".join(tests))

    def const(self, part: m.Const, place: int) -> None:
        tests = [
            f"buf[{self.code.plus('pos', at)}] != {byte}"
            for at, byte in enumerate(part.value, place)
        ]
        if tests:
            self.invalid_if(" or ".join(tests))

    def tag_bits(self, part: m.BitGroup, at: str) -> None:
        group = self.code.fresh("bits")
        self.code(f"{group} = {self.emitter.load(m.Int(part.size), at)}")
        bits = [bit for bit in part.bits if bit.role == "tag"]
        low = bits[-1].shift
        terms = []
        for bit in bits:
            mask = self.code.number(((1 << bit.width) - 1) << bit.shift)
            terms.append(f"({group} & {mask}) >> {self.code.number(low)}")
        self.code(f"tag = {' | '.join(terms)}")

    def bodies(self, frame: HeadFrame, offset: int) -> None:
        """Scan bodies that delimit themselves."""
        assert frame.body is not None
        for index, each in enumerate(frame.body.alternatives):
            with self.code.block(
                f"{'elif' if index else 'if'} tag == {self.code.number(each.tag)}:"
            ):
                self.frame(each.layout, offset + frame.size)
        with self.code.block("else:"):
            self.code("bad = True", "break")

    def fixed(self, layout: m.Layout, offset: int) -> None:
        """Scan a frame of fixed size."""
        parts = list(layout.parts)
        size = sum(part_size(part) for part in parts)
        self.prefix(parts, None, offset)
        self.code(f"stop = pos + {self.code.number(offset + size)}")

    def check_head(self, frame: HeadFrame) -> None:
        """Check tag, constant, options and sizes, by the rules of the scalar scan."""
        assert frame.body is not None
        assert frame.options is not None
        number = self.code.number
        none = number(0)
        self.invalid_if("options_size > length")
        self.invalid_if(f"(option_bits == {none}) != (options_size == {none})")
        self.invalid_if(f"length > {number(frame.limit)}")
        known = sum(each.bit for each in frame.options.fields)
        for index, each in enumerate(frame.body.alternatives):
            allowed = sum(f.bit for f in frame.options.fields if each.tag in f.on)
            # Critical options are those that a receiver must understand: unknown ones invalidate
            # the head.
            forbidden = (known | frame.options.critical) & ~allowed
            with self.code.block(f"{'elif' if index else 'if'} tag == {number(each.tag)}:"):
                self.invalid_if(f"const != {number(each.const or 0)}")
                self.invalid_if(f"option_bits & {number(forbidden)} != {number(0)}")
                if each.limit is not None:
                    self.invalid_if(f"length > {number(each.limit)}")
                if frame.body.exact:
                    least, exact = each.layout.min_size, each.layout.fixed_size
                    wanted = f"!= {number(exact)}" if exact is not None else f"< {number(least)}"
                    self.invalid_if(f"length - options_size {wanted}")
        with self.code.block("else:"):
            self.code("bad = True", "break")

    def rows(self) -> None:
        """Scan rows up to an end row, which must be empty."""
        part = self.layout.parts[0]
        assert isinstance(part, m.Field)
        assert isinstance(part.type, m.Rows)
        kind, code, number = part.type, self.code, self.code.number
        head = kind.tag.size + kind.size.size
        # The limit counts all rows of a message, so that a message without an end row cannot make
        # the window keep bytes for ever.
        code(f"most = pos + {number(MESSAGE_LIMIT)}", "stop = pos", "done = False")
        with code.block(f"while end - stop >= {number(head)}:"):
            code(f"tag = {self.emitter.load(kind.tag, 'stop')}")
            code(f"size = {self.emitter.load(kind.size, code.plus('stop', kind.tag.size))}")
            code(f"stop += {number(head)}")
            with code.block("if stop + size > most:"):
                code("bad = True", "break")
            with code.block(f"if tag == {number(kind.end)}:"):
                code(f"done = size == {number(0)}", "bad = not done", "break")
            with code.block("if size > end - stop:"):
                code("break")
            code("stop += size")
        with code.block("if not done:"):
            code("break")
