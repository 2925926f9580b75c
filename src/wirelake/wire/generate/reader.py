"""`read_<layout>(buf, pos, end)`: a layout inside a slice, as straight-line code.

The strategy, in the order of what it saves:

- Neighbouring fields of fixed size are a *run*: one bounds check and one struct call for all.
- A varint of one byte, which most are, is read in line; longer ones are a call of the runtime.
- Errors are built out of line, by functions of the runtime: the code of the good case stays short.

Every length and count is compared with the remaining bytes before anything is allocated for it: four
bytes on the wire must not make a decoder reserve 2 GiB. `RowFrame` reads messages made of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .. import model as m
from ..declare import DeclarationError
from .code import Code, Structs, format_of, local, nested, order_of, varint_reader

__all__ = [
    "MESSAGE_LIMIT",
    "Reader",
    "RowFrame",
    "function_name",
]


def function_name(verb: str, layout: m.Layout) -> str:
    """Return a name such as `read_auth`, unique in a module because layout names are."""
    return f"{verb}_{layout.name}"


@dataclass
class _Slot:
    """One value of a run of fixed-size fields."""

    name: str
    var: str
    code: str
    order: str
    size: int
    after: list[str] = field(default_factory=list)
    """Lines after the unpacking; {at} is the offset of this value."""


class Reader:
    """Writes the reading function of one layout.

    `exact`: the layout has a fixed size and must fill its slice, which is checked first.
    """

    def __init__(self, layout: m.Layout, structs: Structs, *, exact: bool = False):
        self.layout = layout
        self.exact = exact
        self.structs = structs
        self.code = Code(1)
        self.run: list[_Slot] = []
        self.groups = 0
        self.hold = False
        """Whether values of both byte orders are kept for `unpack_all`."""

    def label(self, name: str) -> str:
        """Return the dotted name of a field in errors."""
        return f"{self.layout.name}.{name}"

    def function(self) -> str:
        """Return the whole function."""
        cls = self.layout.cls.__name__
        code = Code()
        code(
            f"def {function_name('read', self.layout)}(buf: bytes, pos: int, end: int) -> tuple[{cls}, int]:"
        )
        if self.exact:
            with self.code.block(f"if end - pos != {self.layout.fixed_size}:"):
                size = self.layout.fixed_size
                self.code(f'raise rt.wrong_row_size("{self.layout.name}", pos, end, {size})')
        if self.layout.protobuf:
            from .protobuf import protobuf_reader

            protobuf_reader(self)
        else:
            stored = self.parts(self.layout.parts)
            if stored:
                self.code(f"return {construct(cls, stored)}, pos")
            else:
                self.code(f"return _EMPTY_{cls}, pos")
        return f"{code}\n{self.code}\n"

    def parts(self, parts: tuple[m.Part, ...]) -> list[str]:
        """Emit the reading of parts in order; return the names of stored ones."""
        stored: list[str] = []
        for part in parts:
            match part:
                case m.Field():
                    stored.append(part.name)
                    self.field(part)
                case m.Const():
                    self.const(part)
                case m.BitGroup():
                    stored += self.bit_group(part)
                case m.Length():
                    self.inner_length(part)
                case _:
                    raise in_frame(self.layout, part)
        self.flush()
        if any(isinstance(p, m.Length) for p in parts):
            with self.code.block("if pos != end:"):
                self.code(f'raise rt.refuse("trailing_bytes", "{self.layout.name}", pos)')
        return stored

    # -- runs of fixed size ------------------------------------------------------------------

    def slot(self, name: str, var: str, kind: m.Type, after: list[str] | None = None) -> None:
        """Add a value of fixed size to the run."""
        # One struct format has one byte order: a field of the other order ends the run.
        order = order_of(kind)
        if order and not self.hold and any(s.order not in ("", order) for s in self.run):
            self.flush()
        after = list(after or [])
        # `struct` has no code for three bytes: a byte and a 16-bit number keep the run in one call.
        if isinstance(kind, m.Int) and kind.size == 3:
            self._slot24(name, var, kind, after)
            return
        code = format_of(kind)
        assert code is not None
        size = m.type_size(kind)[0]
        # `struct` widens a 32-bit NaN to a double and may change its bits; it is read again.
        if isinstance(kind, m.Float) and kind.size == 4:
            after = [
                f"if {var} != {var}:",
                f'    {var} = rt.nan32(buf, {{at}}, "{kind.order}")',
                *after,
            ]
        # Strict where the document refuses other bytes than 0 and 1 (comet, section 1); ESNP reads
        # any other byte as true (section 2).
        if isinstance(kind, m.Bool):
            check = [
                f"if {var} > 1:",
                f'    raise rt.refuse("bad_bool", "{self.label(name)}", {{at}})',
            ]
            after = [*(check if kind.strict else []), f"{var} = {var} != 0", *after]
        self.run.append(_Slot(name, var, code, order, size, after))

    def _slot24(self, name: str, var: str, kind: m.Int, after: list[str]) -> None:
        high, low = f"{var}_high", f"{var}_low"
        first = _Slot(name, high, "B", "", 1)
        second = _Slot(name, low, "H", order_of(kind), 2)
        if kind.order == "little":
            first, second = _Slot(name, low, "H", "<", 2), _Slot(name, high, "B", "", 1)
        value = f"{var} = {high} << 16 | {low}"
        sign = [f"if {var} & 0x800000:", f"    {var} -= 0x1000000"] if kind.signed else []
        second.after = [value, *sign, *after]
        self.run += [first, second]

    def flush(self) -> None:
        """Emit the run: one bounds check, one unpacking, then the checks of each value."""
        run, self.run = self.run, []
        if not run:
            return
        total = sum(slot.size for slot in run)
        end = "pos >= end" if total == 1 else f"pos + {total} > end"
        # An exact layout has compared the size of its slice at its start.
        if not self.exact:
            with self.code.block(f"if {end}:"):
                self.code(self.too_short(run))
        self.unpack(run)
        self.code(f"pos += {total}")

    def flush_before_blob(self, size: str) -> None:
        """Emit a run that ends with the length of a blob; `start` and `pos` then delimit the blob.

        The bounds check of the run and that of the blob are merged: `start` is computed once.
        """
        run, self.run = self.run, []
        self.code(f"start = pos + {sum(slot.size for slot in run)}")
        with self.code.block("if start > end:"):
            self.code(self.too_short(run))
        self.unpack(run)
        self.code(f"pos = start + {size}")

    def too_short(self, run: list[_Slot]) -> str:
        """Return the statement that raises the error of a slice that is too short for a run."""
        sizes: dict[str, int] = {}
        for slot in run:
            sizes[slot.name] = sizes.get(slot.name, 0) + slot.size
        fields = ", ".join(f'("{name}", {size})' for name, size in sizes.items())
        return f'raise rt.short("{self.layout.name}", pos, end, {fields})'

    def unpack(self, run: list[_Slot], base: str = "pos") -> None:
        """Emit the unpacking of values whose bytes are known to be present."""
        code = "".join(slot.code for slot in run)
        # Indexing beats a struct call for one or two bytes, and slicing for a single bytes field.
        order = next((slot.order for slot in run if slot.order), ">")
        names = ", ".join(slot.var for slot in run)
        if code == "B":
            self.code(f"{names} = buf[{base}]")
        elif code == "H" and order == ">":
            self.code(f"{names} = buf[{base}] << 8 | buf[{_plus(base, 1)}]")
        elif len(run) == 1 and run[0].code.endswith("s"):
            self.code(f"{names} = buf[{base} : {_plus(base, run[0].size)}]")
        else:
            comma = "," if len(run) == 1 else ""
            self.code(f"{names}{comma} = {self.structs.unpack(order + code)}(buf, {base})")
        offset = 0
        for slot in run:
            at = _plus(base, offset) if offset else base
            self.code(*(line.replace("{at}", at) for line in slot.after))
            offset += slot.size

    def unpack_all(self, base: str) -> None:
        """Emit the unpacking of the whole run, with one call for each byte order."""
        run, self.run = self.run, []
        offset, part = 0, list[_Slot]()
        for slot in run:
            if slot.order and any(s.order not in ("", slot.order) for s in part):
                self.unpack(part, _plus(base, offset) if offset else base)
                offset, part = offset + sum(s.size for s in part), []
            part.append(slot)
        if part:
            self.unpack(part, _plus(base, offset) if offset else base)

    # -- parts -------------------------------------------------------------------------------

    def const(self, part: m.Const) -> None:
        var = local(part.name)
        self.slot(part.name, var, const_type(part), const_check(part, var, self.label(part.name)))

    def bit_group(self, part: m.BitGroup) -> list[str]:
        """Read a group of bits; return the names of the stored ones."""
        var = self.bits_var()
        after, stored = self.bit_lines(part, var)
        self.slot(part.bits[0].name, var, m.Int(part.size), after)
        return stored

    def bits_var(self) -> str:
        """Return a variable for the next group of bits; groups may be unpacked together."""
        self.groups += 1
        return "bits" if self.groups == 1 else f"bits_{self.groups}"

    def bit_lines(
        self, part: m.BitGroup, var: str, roles: tuple[str, ...] = ("stored", "present", "tag")
    ) -> tuple[list[str], list[str]]:
        """Return the lines that split a group into its fields, and the names of the stored ones."""
        lines, stored = [], []
        for bit in part.bits:
            if bit.role not in roles:
                continue
            name, mask = local(bit.name), (1 << bit.width) - 1
            if bit.role == "present":
                lines.append(f"{name} = {var} & {mask << bit.shift:#x}")
                continue
            picked = f"{var} >> {bit.shift} & {mask:#x}" if bit.shift else f"{var} & {mask:#x}"
            if bit.shift + bit.width == part.size * 8:
                picked = f"{var} >> {bit.shift}" if bit.shift else var
            if bit.flag:
                picked = f"{var} & {mask << bit.shift:#x} != 0"
            lines.append(f"{name} = {picked}")
            if bit.role == "stored":
                stored.append(bit.name)
                lines += closed_check(bit, name, self.label(bit.name))
        return lines, stored

    def inner_length(self, part: m.Length) -> None:
        """Emit a length inside a slice, which moves the end of what follows."""
        var = local(part.name)
        self.slot(part.name, var, part.type)
        self.flush()
        with self.code.block(f"if {var} > end - pos:"):
            self.code(f'raise rt.overrun("{self.label(part.name)}", pos, {var}, end)')
        if part.minimum:
            with self.code.block(f"if {var} < {part.minimum}:"):
                self.code(f'raise rt.refuse("bad_length", "{self.label(part.name)}", pos)')
        # The parameter is assigned: every check after this one is against the inner end.
        self.code(f"end = pos + {var}")

    def field(self, part: m.Field) -> None:
        """Read a stored field into its local variable."""
        var = local(part.name)
        if part.when is None:
            self.value(part.name, var, part.type, part)
            return
        self.flush()
        # A run cannot cross a condition: whether these bytes exist is known only when it runs.
        with self.code.block(f"if {local(part.when)}:"):
            self.value(part.name, var, part.type, part)
            self.flush()
        with self.code.block("else:"):
            self.code(f"{var} = None")

    def value(self, name: str, var: str, kind: m.Type, part: m.Field | None = None) -> None:
        """Read one value of any type."""
        label = self.label(name)
        match kind:
            case m.Int() | m.Float() | m.Bool() | m.Fixed():
                after = closed_check(part, var, label) if part else []
                self.slot(name, var, kind, after)
            case m.Varint():
                check = closed_check(part, var, label) if part else []
                self.flush()
                if check:
                    self.code("start = pos")
                self.varint(label, var, kind)
                self.code(*(line.replace("{at}", "start") for line in check))
            case m.Blob():
                self.blob(name, var, kind, part)
            case m.Many():
                self.many(name, var, kind)
            case m.Nested():
                self.flush()
                self.code(f"{var}, pos = {function_name('read', kind.layout)}(buf, pos, end)")
            case m.Dynamic():
                self.flush()
                self.code(f"{var}, pos = read_{kind.name}(buf, pos, end, 0, [{kind.max_nodes}])")
            case m.Rows():
                raise AssertionError("rows must be the only field of their layout")

    def varint(self, label: str, var: str, kind: m.Varint) -> None:
        self.flush()
        varint_lines(self.code, label, var, kind)

    def length(self, name: str, of: str, kind: m.Int | m.Varint) -> str:
        """Emit the reading of a length or a count; return its variable."""
        var = f"n_{of}"
        if isinstance(kind, m.Int):
            self.slot(name, var, kind)
            self.flush()
        else:
            self.varint(self.label(name), var, kind)
        return var

    def blob(self, name: str, var: str, kind: m.Blob, part: m.Field | None) -> None:
        label = self.label(name)
        if kind.length is None:
            self.flush()
            self.check_sizes(label, part, "end - pos", "pos")
            self.text(label, var, kind, "buf[pos:end]", "pos")
            self.code("pos = end")
        else:
            size = f"n_{var}"
            guard = "pos > end"
            if isinstance(kind.length, m.Int):
                self.slot(name, size, kind.length)
                self.flush_before_blob(size)
            else:
                self.varint(label, size, kind.length)
                # Added before it is checked: Python's integers do not overflow. Kernels have 64
                # bits and compare with the bytes left instead.
                self.code("start = pos", f"pos += {size}")
            if kind.length.signed:
                # The original's readers crash on a negative length (esnp, section 7).
                guard = f"{size} < 0 or {guard}"
            with self.code.block(f"if {guard}:"):
                self.code(f'raise rt.overrun("{label}", start, {size}, end)')
            self.check_sizes(label, part, size, "start")
            self.text(label, var, kind, "buf[start:pos]", "start")

    def check_sizes(self, label: str, part: m.Field | None, size: str, at: str) -> None:
        """Emit the check of a blob's allowed lengths."""
        if part is None or not part.sizes:
            return
        allowed = ", ".join(map(str, part.sizes))
        with self.code.block(f"if {size} not in ({allowed},):"):
            self.code(f'raise rt.refuse("bad_length", "{label}", {at}, str({size}))')

    def text(self, label: str, var: str, kind: m.Blob, piece: str, start: str) -> None:
        text_lines(self.code, label, var, kind, piece, start)

    def many(self, name: str, var: str, kind: m.Many) -> None:
        """Emit the reading of a list; a list inside another has its own variables."""
        item, items = f"item{nested(var)}", f"items{nested(var)}"
        if kind.count is None:
            self.flush()
            loop = "while pos < end:"
        else:
            count = self.length(name, var, kind.count)
            self.check_count(self.label(name), kind, count)
            loop = f"for _ in range({count}):"
        self.code(f"{items} = []")
        with self.code.block(loop):
            self.value(name, item, kind.item)
            self.flush()
            self.code(f"{items}.append({item})")
        self.code(f"{var} = tuple({items})")

    def check_count(self, label: str, kind: m.Many, count: str) -> None:
        """Emit the check that the remaining bytes can hold that many items."""
        # Before the loop: a count of 2^31 in a short frame fails at once, not after building a list.
        assert kind.count is not None
        least = m.type_size(kind.item)[0]
        guard = f"{count} > end - pos" if least <= 1 else f"{count} * {least} > end - pos"
        if kind.count.signed:
            guard = f"{count} < 0 or {guard}"
        with self.code.block(f"if {guard}:"):
            self.code(f'raise rt.overrun("{label}", pos, {count}, end)')


def _plus(base: str, offset: int) -> str:
    """Return an expression plus a constant: `pos + 2` and 1 are `pos + 3`."""
    name, _, number = base.partition(" + ")
    return f"{name} + {int(number or 0) + offset}"


# -- shared with frames and dynamic values ---------------------------------------------------------


def in_frame(layout: m.Layout, part: m.Part) -> DeclarationError:
    """Return the error of a part that only a frame can have."""
    name = getattr(part, "name", "")
    return DeclarationError(f"{layout.cls.__qualname__}.{name}: belongs in the head of a frame")


def construct(cls: str, names: list[str]) -> str:
    """Return a call such as `Auth(client_id=client_id, token=token)`."""
    return f"{cls}({', '.join(f'{name}={local(name)}' for name in names)})"


def varint_lines(code: Code, label: str, var: str, kind: m.Varint) -> None:
    """Emit the reading of a varint: one byte in line, longer ones in the runtime."""
    with code.block("if pos >= end:"):
        code(f'raise rt.refuse("varint_truncated", "{label}", pos)')
    code(f"{var} = buf[pos]")
    with code.block(f"if {var} < 0x80:"):
        if kind.coding == "zigzag":
            code(f"{var} = {var} >> 1 ^ -({var} & 1)")
        code("pos += 1")
    with code.block("else:"):
        code(f'{var}, pos = {varint_reader(kind)}(buf, pos, end, "{label}")')


def text_lines(code: Code, label: str, var: str, kind: m.Blob, piece: str, start: str) -> None:
    """Emit the conversion of a blob: bytes unchanged, or decoded text."""
    if kind.text is None:
        code(f"{var} = {piece}")
    elif kind.text == "loose":
        with code.block("try:"):
            code(f"{var} = {piece}.decode()")
        with code.block("except UnicodeDecodeError:"):
            code(f'{var} = {piece}.decode("utf-8", "surrogateescape")')
    else:
        with code.block("try:"):
            code(f"{var} = {piece}.decode()")
        with code.block("except UnicodeDecodeError as error:"):
            code(f'raise rt.not_utf8("{label}", {start}, error) from None')


def const_type(part: m.Const) -> m.Int | m.Fixed:
    """Return the type to read a constant as: a single byte is compared as a number."""
    return m.Int(1) if len(part.value) == 1 else m.Fixed(len(part.value))


def const_check(part: m.Const, var: str, label: str) -> list[str]:
    """Return the lines that check a constant."""
    value = str(part.value[0]) if len(part.value) == 1 else repr(part.value)
    return [f"if {var} != {value}:", f'    raise rt.refuse("{part.code}", "{label}", {{at}})']


def closed_check(part: m.Field | m.Bit, var: str, label: str) -> list[str]:
    """Return the lines that refuse numbers without a name, when the names are closed."""
    if part.names is None or not part.closed:
        return []
    values = sorted(int(member) for member in part.names)
    signed = (
        isinstance(part, m.Field) and isinstance(part.type, m.Int | m.Varint) and part.type.signed
    )
    # One comparison instead of a search, where the names are 0, 1, 2 and so on.
    dense = values == list(range(len(values))) and not signed
    test = f"{var} > {values[-1]}" if dense else f"{var} not in {tuple(values)}"
    return [f"if {test}:", f'    raise rt.refuse("reserved_value", "{label}", {{at}}, str({var}))']


# Messages that are rows up to an end row.


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
        """Emit the reading of a row's head, which is checked before waiting for its body."""
        # The limit holds for the whole message and is tested on each head: a peer learns at the
        # fourth byte that its row is too large, and nothing is buffered for it (esnp, section 1).
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
        """Return the function that finds the end of a message."""
        # NeedMore carries the position of the incomplete row; `resume` continues there. Without it,
        # a message of n rows that arrives in n pieces would be scanned n times.
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
        """Return the function that decodes a message."""
        code = Code()
        cls = self.layout.cls.__name__
        code(self.signature("decode", f"tuple[{cls}, int]"))
        code.indent = 1
        code("most = pos + limit", "rows: list[Any] = []", "add = rows.append")
        # The number of rows is limited by the loop itself, where it costs nothing; one turn more is
        # for the end row. Without it, a message of the largest size would be 8 million empty rows.
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
        # A row has a length, so an error in its content does not affect the next one: the row is
        # kept as bytes with its error, and can still be forwarded (esnp, section 6).
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
        """Return the tables of readers by tag and writers by class."""
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
        """Return the function that encodes the rows and the end row."""
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
            # The original truncates a larger size to 24 bits and loses the frame boundary (esnp,
            # section 1).
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
