"""`write_<layout>(value)`: the bytes of a layout; a value that does not fit is an EncodeError.

A function collects pieces: runs of fixed-size values, packed by one struct call, and byte strings
between them. Presence bits, lengths, counts, tags and constants follow from the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .. import model as m
from ..declare import DeclarationError
from .code import Code, Structs, format_of, local, nested, order_of
from .reader import function_name, in_frame

__all__ = ["Writer"]


@dataclass
class _Packed:
    """A value of fixed size."""

    name: str
    expr: str
    code: str
    order: str
    size: int
    length: m.Length | None = None
    """The part, when its value is the size of all that follows."""


@dataclass
class _Bytes:
    """An expression of type bytes."""

    expr: str


class Writer:
    """Writes the writing function of one layout."""

    def __init__(self, layout: m.Layout, structs: Structs):
        self.layout = layout
        self.structs = structs
        self.code = Code(1)
        self.pieces: list[_Packed | _Bytes] = []
        self.guards: list[str] = []

    def label(self, name: str) -> str:
        """Return the dotted name of a field in errors."""
        return f"{self.layout.name}.{name}"

    def guard(self, name: str, form: str, expr: str) -> None:
        """Record a value to examine if the struct call of this statement fails.

        Checking each value before packing would cost the good case; after a failure, the values are
        packed one by one to find the field.
        """
        self.guards.append(f'("{name}", "{form}", {expr})')

    def statement(self, before: str, expr: str, after: str = "") -> None:
        """Emit a statement; a failure of struct in it becomes an EncodeError."""
        guards, self.guards = list(dict.fromkeys(self.guards)), []
        if not guards:
            self.code(f"{before}{expr}{after}")
            return
        with self.code.block("try:"):
            self.code(f"{before}{expr}{after}")
        with self.code.block("except (struct.error, OverflowError):"):
            self.code(f'raise rt.unfit("{self.layout.name}", {", ".join(guards)}) from None')

    def function(self, verb: str = "write") -> str:
        """Return the whole function."""
        cls = self.layout.cls.__name__
        head = f"def {function_name(verb, self.layout)}(value: {cls}) -> bytes:"
        self.refuse_absent()
        if self.layout.protobuf:
            from .protobuf import protobuf_writer

            protobuf_writer(self)
        else:
            for part in self.layout.parts:
                self.part(part)
            self.statement("return ", self.joined())
        return f"{head}\n{self.code}\n"

    def refuse_absent(self) -> None:
        """Emit the check that fields of other dialects have their default: they would be lost."""
        for name, default in self.layout.absent:
            test = "is not None" if default is None else f"!= {self.literal(name, default)}"
            with self.code.block(f"if value.{name} {test}:"):
                self.code(f'raise rt.not_in_dialect("{self.label(name)}", "{self.layout.dialect}")')

    def literal(self, name: str, default: object) -> str:
        """Return the source of a default; that of an enum is its number."""
        match default:
            case bool() | str() | bytes() | float() | ():
                return repr(default)
            case int():
                return str(int(default))
            case _:
                raise DeclarationError(
                    f"{self.layout.cls.__qualname__}.{name}: a field that some dialects lack needs "
                    "a number, a text, bytes, () or None as its default"
                )

    def raw(self, expr: str) -> None:
        """Add bytes."""
        self.pieces.append(_Bytes(expr))

    # -- pieces ------------------------------------------------------------------------------

    def pack(self, name: str, expr: str, kind: m.Type, *, counts: bool = False) -> None:
        """Add a value of fixed size."""
        # A 32-bit float is written by the runtime: `struct` would change the payload of a NaN.
        code = format_of(kind)
        if code is None or (isinstance(kind, m.Float) and kind.size == 4):
            self.pieces.append(_Bytes(self.special(name, expr, kind, counts)))
            return
        size = m.type_size(kind)[0]
        self.pieces.append(_Packed(name, expr, code, order_of(kind), size))
        if not isinstance(kind, m.Bool):
            mark = "#" if counts else ""
            self.guard(f"{mark}{name}", f"{order_of(kind) or '>'}{code}", expr)

    def special(self, name: str, expr: str, kind: m.Type, counts: bool = False) -> str:
        """Return the expression of values that struct cannot write, or not without loss."""
        label = self.label(name)
        if isinstance(kind, m.Float):
            return f'rt.put_f32({expr}, "{kind.order}", "{label}")'
        assert isinstance(kind, m.Int)
        if counts:
            return f'rt.put_size_of({expr}, {kind.size}, "{label}", "{kind.order}")'
        return f'rt.put_int_of({expr}, {kind.size}, {kind.signed}, "{label}", "{kind.order}")'

    def joined(self) -> str:
        """Return one expression for all pieces."""
        # Up to three pieces, `+` saves building a tuple and the call of join; beyond, it copies more.
        grouped = self.grouped()
        if not grouped:
            return 'b""'
        if len(grouped) <= 3:
            return " + ".join(grouped)
        return f'b"".join(({", ".join(grouped)}))'

    def grouped(self) -> list[str]:
        """Return the pieces with neighbouring packed values in one call, lengths filled in."""
        self.settle_lengths()
        out: list[str] = []
        run: list[_Packed] = []

        def close() -> None:
            if run:
                out.append(self.packed(run))
                run.clear()

        for piece in self.pieces:
            if isinstance(piece, _Bytes):
                close()
                out.append(piece.expr)
            else:
                # One struct format has one byte order.
                if piece.order and any(p.order not in ("", piece.order) for p in run):
                    close()
                run.append(piece)
        close()
        return out

    def packed(self, run: list[_Packed]) -> str:
        if len(run) == 1 and run[0].code.endswith("s"):
            return run[0].expr
        order = next((p.order for p in run if p.order), ">")
        form = order + "".join(p.code for p in run)
        return f"{self.structs.pack(form)}({', '.join(p.expr for p in run)})"

    def settle_lengths(self) -> None:
        """Fill in a length, the sum of the pieces after it; other expressions get a name first."""
        for index, piece in enumerate(self.pieces):
            if not (isinstance(piece, _Packed) and piece.length is not None):
                continue
            fixed, sized = 0, []
            for number, later in enumerate(self.pieces[index + 1 :]):
                if isinstance(later, _Packed):
                    fixed += later.size
                    continue
                if not later.expr.isidentifier():
                    self.code(f"piece_{number} = {later.expr}")
                    later.expr = f"piece_{number}"
                sized.append(f"len({later.expr})")
            piece.expr = " + ".join([*([str(fixed)] if fixed or not sized else []), *sized])
            if fixed < piece.length.minimum:
                self.check_minimum(piece.length, piece.expr)
            if piece.code:
                self.guard(f"#{piece.name}", f"{piece.order or '>'}{piece.code}", piece.expr)
            else:
                written = self.special(piece.name, piece.expr, piece.length.type, counts=True)
                self.pieces[index] = _Bytes(written)

    def check_minimum(self, part: m.Length, expr: str) -> None:
        """Emit the check of the minimum length that a reader requires."""
        with self.code.block(f"if {expr} < {part.minimum}:"):
            least = f"at least {part.minimum}"
            self.code(f'raise rt.wrong_size("{self.label(part.name)}", "{least}", {expr})')

    # -- parts -------------------------------------------------------------------------------

    def part(self, part: m.Part) -> None:
        """Add a part."""
        match part:
            case m.Field():
                self.field(part)
            case m.Const():
                if len(part.value) == 1:
                    self.pieces.append(_Packed(part.name, str(part.value[0]), "B", "", 1))
                else:
                    size = len(part.value)
                    self.pieces.append(_Packed(part.name, repr(part.value), f"{size}s", "", size))
            case m.BitGroup():
                self.bit_group(part)
            case m.Length():
                code, order = format_of(part.type) or "", order_of(part.type)
                self.pieces.append(_Packed(part.name, "", code, order, part.type.size, part))
            case _:
                raise in_frame(self.layout, part)

    def bit_group(self, part: m.BitGroup) -> None:
        terms = []
        for bit in part.bits:
            terms.append(self.bit(bit))
        expr = " | ".join(term for term in terms if term) or "0"
        self.pieces.append(_Packed(part.bits[0].name, expr, *_group_code(part.size)))

    def bit(self, bit: m.Bit) -> str:
        """Return the expression of some bits, shifted to their position."""
        one = 1 << bit.shift
        if bit.role == "present":
            return f"({one:#x} if value.{bit.target} is not None else 0)"
        if bit.role == "tag":
            picked = f"tag >> {bit.target}" if bit.target != "0" else "tag"
            placed = f"({picked} & {(1 << bit.width) - 1:#x})"
            return f"{placed} << {bit.shift}" if bit.shift else placed
        if bit.flag:
            return f"({one:#x} if value.{bit.name} else 0)"
        var = local(bit.name)
        most = (1 << bit.width) - 1
        self.code(f"{var} = value.{bit.name}")
        if bit.names is not None and bit.closed:
            allowed = tuple(sorted(int(each) for each in bit.names if 0 <= each <= most))
            with self.code.block(f"if {var} not in {allowed}:"):
                self.code(
                    f'raise rt.out_of_range("{self.label(bit.name)}", {var}, "one of {allowed}")'
                )
        else:
            with self.code.block(f"if not 0 <= {var} <= {most}:"):
                self.code(f'raise rt.out_of_range("{self.label(bit.name)}", {var}, "0 to {most}")')
        return f"{var} << {bit.shift}" if bit.shift else var

    def field(self, part: m.Field) -> None:
        """Add a stored field."""
        var = local(part.name)
        if part.when is None:
            self.check_closed(part, f"value.{part.name}")
            self.value(part.name, f"value.{part.name}", part.type, part)
            return
        self.code(f"{var} = value.{part.name}")
        with self.code.block(f"if {var} is None:"):
            self.code(f'{var}_piece = b""')
        with self.code.block("else:"), self.inner():
            self.check_closed(part, var)
            self.value(part.name, var, part.type, part)
            self.statement(f"{var}_piece = ", self.joined())
        self.pieces.append(_Bytes(f"{var}_piece"))

    def check_closed(self, part: m.Field, expr: str) -> None:
        """Emit the check that a number has a name, when the names are closed."""
        if part.names is None or not part.closed:
            return
        allowed, label = tuple(sorted(int(member) for member in part.names)), self.label(part.name)
        with self.code.block(f"if {expr} not in {allowed}:"):
            self.code(f'raise rt.out_of_range("{label}", {expr}, "one of {allowed}")')

    @contextmanager
    def inner(self) -> Iterator[None]:
        """Collect pieces and guards of a nested statement separately."""
        outer = self.pieces, self.guards
        self.pieces, self.guards = [], []
        yield
        self.pieces, self.guards = outer

    def value(
        self, name: str, expr: str, kind: m.Type, part: m.Field | None = None, var: str = ""
    ) -> None:
        """Add one value of any type."""
        var = var or local(name)
        match kind:
            case m.Bool():
                self.pack(name, f"1 if {expr} else 0", kind)
            case m.Fixed():
                with self.code.block(f"if len({expr}) != {kind.size}:"):
                    self.code(
                        f'raise rt.wrong_size("{self.label(name)}", "{kind.size}", len({expr}))'
                    )
                self.pack(name, expr, kind)
            case m.Int() | m.Float():
                self.pack(name, expr, kind)
            case m.Varint():
                self.pieces.append(_Bytes(self.varint(name, expr, kind)))
            case m.Blob():
                self.blob(name, expr, kind, part, var)
            case m.Many():
                self.many(name, expr, kind, nested(expr))
            case m.Nested():
                self.pieces.append(_Bytes(f"{function_name('write', kind.layout)}({expr})"))
            case m.Dynamic():
                self.pieces.append(_Bytes(f"write_{kind.name}({expr}, 0, [{kind.max_nodes}])"))
            case m.Rows():
                raise AssertionError("rows must be the only field of their layout")

    def varint(self, name: str, expr: str, kind: m.Varint) -> str:
        """Return the expression of a varint; small numbers come from a table of bytes."""
        var = f"v_{name.strip('_')}" if not expr.isidentifier() else expr
        if expr != var:
            self.code(f"{var} = {expr}")
        return varint_expr(var, kind, self.label(name))

    def blob(self, name: str, expr: str, kind: m.Blob, part: m.Field | None, var: str) -> None:
        if kind.text is not None:
            self.text(name, var, expr, kind)
        elif expr != var:
            self.code(f"{var} = {expr}")
        if part is not None and part.sizes:
            self.check_sizes(part, var)
        self.prefix(name, f"len({var})", kind.length)
        self.pieces.append(_Bytes(var))

    def check_sizes(self, part: m.Field, var: str) -> None:
        """Emit the check of a blob's allowed lengths."""
        allowed = ", ".join(map(str, part.sizes))
        with self.code.block(f"if len({var}) not in ({allowed},):"):
            self.code(f'raise rt.wrong_size("{self.label(part.name)}", "{allowed}", len({var}))')

    def text(self, name: str, var: str, expr: str, kind: m.Blob) -> None:
        """Return the expression of a text as bytes."""
        label = self.label(name)
        with self.code.block("try:"):
            self.code(f"{var} = {expr}.encode()")
        if kind.text == "loose":
            with self.code.block("except UnicodeEncodeError:"):
                self.code(f'{var} = rt.put_loose({expr}, "{label}")')
        else:
            with self.code.block("except UnicodeEncodeError as error:"):
                self.code(f'raise rt.not_text("{label}", error) from None')

    def many(self, name: str, expr: str, kind: m.Many, inside: str) -> None:
        """Add a list; `inside` distinguishes the variables of a list that is an item."""
        self.code(f"parts{inside} = []")
        with self.code.block(f"for item{inside} in {expr}:"), self.inner():
            self.value(name, f"item{inside}", kind.item, var=f"piece{inside}")
            self.statement(f"parts{inside}.append(", self.joined(), ")")
        items = f"items{inside}" if inside else f"{local(name)}_items"
        self.code(f'{items} = b"".join(parts{inside})')
        self.prefix(name, f"len({expr})", kind.count)
        self.pieces.append(_Bytes(items))

    def prefix(self, name: str, expr: str, kind: m.Int | m.Varint | None) -> None:
        """Add a length or a count."""
        if isinstance(kind, m.Int):
            self.pack(name, expr, kind, counts=True)
        elif kind is not None:
            self.code(f"n_{name} = {expr}")
            self.pieces.append(_Bytes(varint_expr(f"n_{name}", kind, self.label(name), size=True)))


def varint_expr(var: str, kind: m.Varint, label: str, *, size: bool = False) -> str:
    """Return the expression of a variable as a varint; a `size` is never negative."""
    least, put = ("" if size else "0 <= "), f'rt.put_{kind.coding}{kind.bits}({var}, "{label}")'
    # A size over its type is `too_large`, as it is for lengths of fixed size; `put_` alone would
    # report `int_range`.
    if size and kind.bits == 16:
        put = put.replace(
            var, f'rt.fitting({var}, {0x7FFF if kind.signed else 0xFFFF}, "{label}")', 1
        )
    # Most numbers on the wire take one byte: a lookup instead of a call.
    if kind.coding == "zigzag":
        least = "" if size else "-64 <= "
        return f"(_ZIGZAG[{var}] if {least}{var} < 64 else {put})"
    return f"(_BYTE[{var}] if {least}{var} < 128 else {put})"


def _group_code(size: int) -> tuple[str, str, int]:
    """Return (struct code, order, size) of a bit group."""
    return {1: ("B", "", 1), 2: ("H", ">", 2), 4: ("I", ">", 4), 8: ("Q", ">", 8)}[size]
