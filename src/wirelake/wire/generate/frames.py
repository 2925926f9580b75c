"""Frames in a stream: `decode_`, `scan_` and `encode_` of layouts that delimit themselves.

There are three forms: a head with a length (`HeadFrame`), a head whose body delimits itself (also
`HeadFrame`, without a length), and rows up to an end row (`RowFrame` in `reader.py`).

A head is checked as early as its bytes allow: a wrong magic value at the first byte, a length over
the limit before waiting for its frame. A server then neither buffers for a peer that does not speak
the protocol, nor lets a length field decide how much it buffers.
"""

from __future__ import annotations

import itertools

from .. import model as m
from ..declare import DeclarationError
from .code import Code, Structs, local
from .reader import Reader, closed_check, const_check, const_type, construct, function_name
from .writer import Writer

__all__ = ["HeadFrame", "frame_kind", "part_size"]

_DERIVED = (m.Length, m.Tag, m.TagConst, m.OptionBits, m.OptionsLength)


def frame_kind(layout: m.Layout) -> str:
    """Return `rows`, `length`, `body` (it delimits itself) or `fixed`; else DeclarationError."""
    if any(isinstance(p, m.Field) and isinstance(p.type, m.Rows) for p in layout.parts):
        return "rows"
    if layout.find(m.Length) is not None:
        return "length"
    if layout.body is not None:
        for alternative in layout.body.alternatives:
            frame_kind(alternative.layout)
        if layout.body.directed:
            raise DeclarationError(
                f"{layout.cls.__qualname__}: a frame whose bodies depend on the direction needs a length"
            )
        return "body"
    if layout.fixed_size is not None and not layout.protobuf:
        return "fixed"
    raise DeclarationError(
        f"{layout.cls.__qualname__}: a frame needs a length, rows up to an end row, or a fixed size"
    )


class HeadFrame:
    """Functions of a layout that begins with a head of fixed size."""

    def __init__(self, layout: m.Layout, structs: Structs):
        self.layout = layout
        self.structs = structs
        self.kind = frame_kind(layout)
        self.head: list[m.Part] = []
        self.tail: list[m.Part] = []
        self.split()
        self.size = sum(part_size(part) for part in self.head)
        self.length = next((p for p in self.head if isinstance(p, m.Length)), None)
        self.options = next((p for p in layout.parts if isinstance(p, m.Options)), None)
        self.body = layout.body
        self.table = f"_{layout.name.upper()}"
        self.check()

    def check(self) -> None:
        """Raise DeclarationError for a head that cannot be read in one piece."""
        if self.kind == "fixed":
            return
        for part in self.head:
            if isinstance(part, m.Field) and not _is_fixed(part):
                raise self.error(part.name, "fields of the head need a fixed size")
        if self.body is not None:
            self.check_body(self.body)
        if self.options is None:
            return
        for part in self.tail:
            if not isinstance(part, m.Options | m.Body):
                name = part.bits[0].name if isinstance(part, m.BitGroup) else part.name
                raise self.error(
                    name, "with options, only these and the body may follow the length"
                )

    def check_body(self, body: m.Body) -> None:
        """Raise DeclarationError for bodies that an encoder cannot distinguish."""
        for alternative in body.alternatives:
            if alternative.layout.transparent:
                name = alternative.layout.name
                raise self.error(body.name, f"{name} has only a body; use that body here")
        if self.options is not None and body.directed:
            raise self.error(body.name, "with options, bodies must be the same in both directions")

    def error(self, name: str, why: str) -> DeclarationError:
        return DeclarationError(f"{self.layout.cls.__qualname__}.{name}: {why}")

    def split(self) -> None:
        """Split the parts: the head ends with the length, or before the body."""
        seen = False
        for part in self.layout.parts:
            (self.tail if seen or isinstance(part, m.Body) else self.head).append(part)
            seen = seen or isinstance(part, m.Length)

    def label(self, name: str) -> str:
        return f"{self.layout.name}.{name}"

    @property
    def limit(self) -> int:
        """Return the default limit of the length."""
        if self.length is None:
            return _inner_limit(self.layout)
        return self.length.limit if self.length.limit is not None else _largest(self.length.type)

    @property
    def minimum(self) -> int:
        """Return the smallest valid length: its own minimum, or the fixed parts after it."""
        assert self.length is not None
        fixed = sum(
            part_size(p) for p in self.tail if isinstance(p, (*_DERIVED, m.BitGroup, m.Const))
        )
        fixed += sum(
            m.type_size(p.type)[0]
            for p in self.tail
            if isinstance(p, m.Field) and p.when is None and m.type_size(p.type)[1] and self.body
        )
        return max(self.length.minimum, fixed if self.body else 0)

    # -- functions ---------------------------------------------------------------------------

    def functions(self) -> list[str]:
        """Return all functions of this frame, in an order that Python accepts."""
        out = [self.peek(), self.scan()]
        directions: tuple[m.Direction | None, ...] = (None,)
        # Both directions may use the same tags for different bodies: `00 01 00` is `ok` from a
        # server and a truncated `auth` from a client (comet, section 1).
        if self.body is not None and self.body.directed:
            directions = ("c2s", "s2c")
        out += [self.decode(direction) for direction in directions]
        out.append(self.encode())
        return out

    def signature(self, verb: str, result: str, suffix: str = "") -> str:
        return (
            f"def {function_name(verb, self.layout)}{suffix}"
            f"(buf: bytes, pos: int, end: int, limit: int = {self.limit}) -> {result}:"
        )

    def peek(self) -> str:
        """Return the function that checks an incomplete head and then raises NeedMore."""
        # Called only for incomplete heads, so the usual case pays nothing. A peer of another
        # protocol is refused at its first wrong byte instead of keeping a connection open until a
        # head is complete.
        code = Code()
        code(self.signature("_peek", "NoReturn"))
        code.indent = 1
        offset = 0
        for part in self.head:
            self.peek_part(code, part, offset)
            offset += part_size(part)
        # The number of missing bytes lets a session wait for all of them instead of trying again
        # with each byte. Where bodies delimit themselves, every one needs at least its own head.
        need = self.size + (self.layout_rest() if self.kind == "body" else 0)
        code(f"raise NeedMore({need} - (end - pos))")
        return f"{code}\n"

    def layout_rest(self) -> int:
        assert self.body is not None
        return min(_head_size(a.layout) for a in self.body.alternatives)

    def peek_part(self, code: Code, part: m.Part, offset: int) -> None:
        at = f"pos + {offset}" if offset else "pos"
        # As much of a constant as has arrived must be a prefix of it (magline, section 2: the magic
        # is refused at the first byte, the version at the second).
        if isinstance(part, m.Const):
            stop = offset + len(part.value)
            with code.block(
                f"if not {part.value!r}.startswith(buf[{at} : min(end, pos + {stop})]):"
            ):
                code(f'raise rt.refuse("{part.code}", "{self.label(part.name)}", {at})')
        elif isinstance(part, m.TagConst) and self.body is not None and part.type.size == 1:
            values = sorted({a.const for a in self.body.alternatives if a.const is not None})
            with code.block(f"if end > {at} and buf[{at}] not in {tuple(values)}:"):
                code(f'raise rt.refuse("bad_magic", "{self.label(part.name)}", {at})')

    # -- head --------------------------------------------------------------------------------

    def read_head(self, code: Code, *, scanning: bool = False, base: str = "pos") -> list[str]:
        """Emit the reading of the head; return the names of stored parts. Length and tag are
        checked afterwards."""
        roles = ("tag",) if scanning else ("stored", "present", "tag")
        peek = f"{function_name('_peek', self.layout)}(buf, pos, end, limit)"
        if self.size:
            with code.block(f"if end - pos < {self.size}:"):
                code(peek)
        reader = Reader(self.layout, self.structs)
        # The bounds of the whole head are checked above, so a change of byte order ends no run
        # here.
        reader.code, reader.hold = code, True
        stored: list[str] = []
        for part in self.head:
            var = local(getattr(part, "name", ""))
            match part:
                case m.Const():
                    check = const_check(part, var, self.label(part.name))
                    reader.slot(part.name, var, const_type(part), check)
                case m.BitGroup():
                    bits = reader.bits_var()
                    lines, names = reader.bit_lines(part, bits, roles)
                    stored += names
                    reader.slot(part.bits[0].name, bits, m.Int(part.size), lines)
                case m.Field():
                    stored.append(part.name)
                    reader.slot(
                        part.name, var, part.type, closed_check(part, var, self.label(part.name))
                    )
                case m.TagConst() if self.body is not None:
                    values = tuple(
                        sorted({a.const for a in self.body.alternatives if a.const is not None})
                    )
                    check = [
                        f"if {var} not in {values}:",
                        f'    raise rt.refuse("bad_magic", "{self.label(part.name)}", {{at}})',
                    ]
                    reader.slot(part.name, var, part.type, check)
                case m.Length() | m.Tag() | m.OptionBits() | m.OptionsLength():
                    reader.slot(part.name, var, part.type)
                case _:
                    raise DeclarationError(f"{self.label(var)}: is not allowed before a length")
        reader.unpack_all(base)
        return stored

    def tag_expr(self, parts: list[m.Part]) -> str | None:
        """Return the expression of the tag, when these parts hold it."""
        for part in parts:
            if isinstance(part, m.Tag):
                return local(part.name)
            if isinstance(part, m.BitGroup):
                bits = [bit for bit in part.bits if bit.role == "tag"]
                if bits:
                    low = bits[-1].shift
                    return " | ".join(
                        f"{local(b.name)} << {b.shift - low}" if b.shift > low else local(b.name)
                        for b in bits
                    )
        return None

    def offset_of(self, name: str) -> int:
        """Return where a part of the head begins."""
        offset = 0
        for part in self.layout.parts:
            names = (
                [b.name for b in part.bits]
                if isinstance(part, m.BitGroup)
                else [getattr(part, "name", "")]
            )
            if name in names:
                return offset
            offset += part_size(part)
        return offset

    def tag_name(self) -> str:
        for part in self.layout.parts:
            if isinstance(part, m.Tag):
                return part.name
            if isinstance(part, m.BitGroup):
                for bit in part.bits:
                    if bit.role == "tag":
                        return bit.name
        raise DeclarationError(f"{self.layout.name} has no tag")

    def check_length(self, code: Code) -> None:
        """Emit the checks of minimum and limit, and the end of the frame."""
        if self.length is None:
            return
        var, name = local(self.length.name), self.label(self.length.name)
        offset = self.size - self.length.type.size
        at = f"pos + {offset}" if offset else "pos"
        if self.minimum:
            with code.block(f"if {var} < {self.minimum}:"):
                code(f'raise rt.refuse("bad_length", "{name}", {at}, str({var}))')
        with code.block(f"if {var} > limit:"):
            code(f'raise rt.refuse("too_large", "{name}", {at}, f"{{{var}}} over {{limit}}")')

    def wait(self, code: Code) -> None:
        """Emit the NeedMore for a frame that is incomplete."""
        if self.length is None:
            return
        code(f"stop: int = pos + {self.size} + {local(self.length.name)}")
        with code.block("if stop > end:"):
            code("raise NeedMore(stop - end)")

    # -- scanning ----------------------------------------------------------------------------

    def scan(self) -> str:
        """Return the function that finds the end of a frame without decoding its body."""
        code = Code()
        code(self.signature("scan", "int"))
        code.indent = 1
        if self.kind == "fixed":
            self.need_all(code)
            code(f"return pos + {self.size}")
            return f"{code}\n"
        self.read_head(code, scanning=True)
        if self.kind == "length":
            self.check_head(code)
            self.wait(code)
            code("return stop")
        else:
            code(f"tag = {self.tag_expr(self.head)}", f"scan = {self.table}_SCANS.get(tag)")
            with code.block("if scan is None:"):
                self.unknown(code, "tag")
            code(f"stop: int = scan(buf, pos + {self.size}, end, limit)", "return stop")
        return f"{code}\n"

    def need_all(self, code: Code) -> None:
        if self.size:
            with code.block(f"if end - pos < {self.size}:"):
                code(f"{function_name('_peek', self.layout)}(buf, pos, end, limit)")

    def unknown(self, code: Code, tag: str) -> None:
        name = self.tag_name()
        at = self.offset_of(name)
        code(f'raise rt.refuse("unknown_type", "{self.label(name)}", pos + {at}, str({tag}))')

    def check_head(self, code: Code) -> None:
        """Emit all checks of a head, in the order of the protocol's rules."""
        if self.options is None:
            self.check_length(code)
            return
        from .code import check_options

        check_options(self, code)

    # -- decoding ----------------------------------------------------------------------------

    def decode(self, direction: m.Direction | None) -> str:
        """Return the function that decodes a whole frame."""
        code = Code()
        result = "Any" if self.layout.transparent else self.layout.cls.__name__
        suffix = f"_{direction}" if direction else ""
        code(self.signature("decode", f"tuple[{result}, int]", suffix))
        code.indent = 1
        if self.kind == "fixed":
            self.need_all(code)
            code(f"return {function_name('read', self.layout)}(buf, pos, pos + {self.size})")
            return f"{code}\n"
        stored = self.read_head(code)
        if self.kind == "body":
            self.decode_self_delimiting(code, stored)
        else:
            self.check_head(code)
            self.wait(code)
            self.decode_tail(code, stored, suffix.upper())
        return f"{code}\n"

    def decode_self_delimiting(self, code: Code, stored: list[str]) -> None:
        assert self.body is not None
        code(f"tag = {self.tag_expr(self.head)}", f"decode = {self.table}_DECODERS.get(tag)")
        with code.block("if decode is None:"):
            self.unknown(code, "tag")
        code(f"{local(self.body.name)}, stop = decode(buf, pos + {self.size}, end, limit)")
        code(f"return {self.result([*stored, self.body.name])}, stop")

    def result(self, stored: list[str]) -> str:
        if self.layout.transparent:
            assert self.body is not None
            return local(self.body.name)
        if not stored:
            return f"_EMPTY_{self.layout.cls.__name__}"
        return construct(self.layout.cls.__name__, stored)

    def decode_tail(self, code: Code, stored: list[str], suffix: str) -> None:
        """Emit the reading of what follows the length, which must end exactly at `stop`."""
        if self.options is not None:
            from .code import read_options

            stored = [*stored, *read_options(self, code)]
        else:
            stored = [*stored, *self.tail_fields(code)]
        if self.body is not None:
            self.read_body(code, suffix)
            stored.append(self.body.name)
        with code.block("if pos != stop:"):
            code(
                f'raise rt.refuse("trailing_bytes", "{self.layout.name}", pos, f"{{stop - pos}} left")'
            )
        code(f"return {self.result(stored)}, stop")

    def tail_fields(self, code: Code) -> list[str]:
        """Emit the parts between the length and the body: those of fixed size, then the others."""
        tail = tuple(p for p in self.tail if not isinstance(p, m.Body))
        front = tuple(itertools.takewhile(_is_fixed, tail)) if self.body is not None else ()
        stored = self.fixed_tail(code, front)
        if front == tail and self.body is not None:
            return stored
        code("end = stop")
        reader = Reader(self.layout, self.structs)
        reader.code = code
        return stored + reader.parts(tail[len(front) :])

    def fixed_tail(self, code: Code, tail: tuple[m.Part, ...]) -> list[str]:
        """Emit parts of fixed size without bounds checks: the minimum of the length covers them."""
        # A copy of this frame whose head is the tail, for `read_head`; `__init__` would split the
        # layout again.
        shell = HeadFrame.__new__(HeadFrame)
        shell.__dict__.update(self.__dict__)
        shell.head, shell.size = list(tail), 0
        stored = shell.read_head(code, base=f"pos + {self.size}")
        code(f"pos += {self.size + sum(part_size(p) for p in tail)}")
        return stored

    def read_body(self, code: Code, suffix: str) -> None:
        assert self.body is not None
        tag = self.tag_expr(list(self.layout.parts))
        if self.options is not None:  # the tag has been looked up already
            code(f"{local(self.body.name)}, pos = {self.table}_READERS[{tag}](buf, pos, stop)")
            return
        code(f"read = {self.table}_READERS{suffix}.get({tag})")
        with code.block("if read is None:"):
            label = self.label(self.tag_name())
            code(f'raise rt.refuse("unknown_type", "{label}", {self.tag_at()}, str({tag}))')
        code(f"{local(self.body.name)}, pos = read(buf, pos, stop)")

    def tag_at(self) -> str:
        """Return the offset of the tag, when `pos` is at the body."""
        assert self.length is not None
        parts = [part for part in self.layout.parts if not isinstance(part, m.Body)]
        offset = self.offset_of(self.tag_name())
        if all(_is_fixed(part) for part in parts):
            return f"pos - {sum(part_size(part) for part in parts) - offset}"
        return f"stop - {local(self.length.name)} - {self.size} + {offset}"

    # -- encoding ----------------------------------------------------------------------------

    def encode(self) -> str:
        """Return the function that encodes the frame."""
        code = Code()
        cls = "Any" if self.layout.transparent else self.layout.cls.__name__
        code(f"def {function_name('encode', self.layout)}(value: {cls}) -> bytes:")
        writer = FrameWriter(self, self.structs)
        writer.write()
        return f"{code}\n{writer.code}\n"


class FrameWriter(Writer):
    """A writer that also knows tags, bodies and options."""

    def __init__(self, frame: HeadFrame, structs: Structs):
        super().__init__(frame.layout, structs)
        self.frame = frame

    def write(self) -> None:
        """Return the body of the encoding function."""
        self.refuse_absent()
        if self.frame.body is not None:
            self.look_up_body()
        if self.frame.options is not None:
            from .code import write_options

            write_options(self)
        for part in self.layout.parts:
            self.part(part)
        self.statement("return ", self.joined())

    def look_up_body(self) -> None:
        body = self.frame.body
        assert body is not None
        value = "value" if self.layout.transparent else f"value.{body.name}"
        self.code(f"entry = {self.frame.table}_WRITERS.get(type({value}))")
        with self.code.block("if entry is None:"):
            self.code(f'raise rt.no_layout("{self.label(body.name)}", {value})')
        self.code("tag, const, write = entry" if self.has_const() else "tag, write = entry")
        self.code(f"body_: bytes = write({value})")

    def has_const(self) -> bool:
        """Return whether the alternatives set a constant."""
        return self.layout.find(m.TagConst) is not None

    def part(self, part: m.Part) -> None:
        match part:
            case m.Body():
                self.raw("body_")
            case m.Tag():
                self.pack(part.name, "tag", part.type)
            case m.TagConst():
                self.pack(part.name, "const", part.type)
            case m.OptionBits():
                self.pack(part.name, "option_bits", part.type)
            case m.OptionsLength():
                self.pack(part.name, "len(options)", part.type, counts=True)
            case m.Options():
                self.raw("options")
            case m.BitGroup():
                super().part(_with_tag_shifts(part))
            case _:
                super().part(part)


def _with_tag_shifts(part: m.BitGroup) -> m.BitGroup:
    """Assign the bits of the tag to the tag bits of the head."""
    from dataclasses import replace

    tags = [bit for bit in part.bits if bit.role == "tag"]
    if not tags:
        return part
    low = tags[-1].shift
    bits = tuple(
        replace(bit, target=str(bit.shift - low)) if bit.role == "tag" else bit for bit in part.bits
    )
    return m.BitGroup(part.size, bits)


def part_size(part: m.Part) -> int:
    """Return the bytes of a part of fixed size."""
    match part:
        case m.Field():
            return m.type_size(part.type)[0]
        case m.Const():
            return len(part.value)
        case m.BitGroup():
            return part.size
        case m.Options() | m.Body():
            return 0
        case _:
            return part.type.size


def _is_fixed(part: m.Part) -> bool:
    if isinstance(part, m.Field):
        return (
            part.when is None and m.type_size(part.type)[1] and not isinstance(part.type, m.Nested)
        )
    return True


def _largest(kind: m.Int) -> int:
    return (1 << (8 * kind.size)) - 1


def _head_size(layout: m.Layout) -> int:
    size = 0
    for part in layout.parts:
        if isinstance(part, m.Body):
            break
        size += part_size(part)
        if isinstance(part, m.Length):
            break
    return size


def _inner_limit(layout: m.Layout) -> int:
    """Return the one default limit of the bodies that have one."""
    limits = set()
    for alternative in layout.body.alternatives if layout.body is not None else ():
        length = alternative.layout.find(m.Length)
        if isinstance(length, m.Length):
            limits.add(length.limit if length.limit is not None else _largest(length.type))
    # A frame has one parameter `limit`, which it passes on to the body that its tag selects.
    if len(limits) > 1:
        raise DeclarationError(f"{layout.cls.__qualname__}: its bodies must have the same limit")
    return max(limits, default=0)
