"""Lines of Python with indentation, struct formats, and safe local names."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from contextlib import contextmanager

from .. import model as m

__all__ = ["Code", "Structs", "format_of", "local", "nested", "order_of", "varint_reader"]

_LOCALS = (
    "buf pos end limit start stop value rt key items item parts piece tag bits read depth error "
    "entry write decode scan const rules forbidden most least exact area more found options "
    "option_bits unknown"
)
_BUILTINS = "type len bytes int str tuple range min isinstance dict list struct"
_TAKEN = frozenset(f"{_LOCALS} {_BUILTINS}".split())
_HELPER = re.compile(
    r"(n|v|item|items|parts|read|write|decode|encode|scan|bits|piece)_.*|.*_(items|piece|high|low|)|.*[A-Z].*"
)
"""How names of generated code look: beside a field, of functions, classes, and what `local` made."""
_INT_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def local(name: str) -> str:
    """A local variable for a field: its name, unless generated code wants that for itself."""
    taken = name in _TAKEN or keyword.iskeyword(name) or _HELPER.fullmatch(name)
    return f"{name}_" if taken else name


def nested(var: str) -> str:
    """What the variables of a list are called after `item`, `items` and so on: nothing, or, when
    the list is itself an item, a number."""
    found = re.fullmatch(r"item(?:_(\d+))?", var)
    return f"_{int(found[1] or 0) + 1}" if found else ""


class Code:
    """A growing block of code."""

    def __init__(self, indent: int = 0) -> None:
        self.lines: list[str] = []
        self.indent = indent

    def __call__(self, *lines: str) -> None:
        for line in lines:
            self.lines.append("    " * self.indent + line if line else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Yield a line that ends with a colon, and what stands under it."""
        self(head)
        self.indent += 1
        yield
        self.indent -= 1

    def __str__(self) -> str:
        return "\n".join(self.lines)


class Structs:
    """The struct formats that a module uses; each gets a pair of module-level names."""

    def __init__(self) -> None:
        self.read: dict[str, str] = {}
        self.written: dict[str, str] = {}

    @staticmethod
    def _name(form: str) -> str:
        order = "le" if form[0] == "<" else "be"
        return f"{form[1:]}_{order}"

    def unpack(self, form: str) -> str:
        """Return the name of an unpack_from for this format."""
        return self.read.setdefault(form, f"_unpack_{self._name(form)}")

    def pack(self, form: str) -> str:
        """Return the name of a pack for this format."""
        return self.written.setdefault(form, f"_pack_{self._name(form)}")

    def lines(self) -> list[str]:
        """Return the definitions."""
        lines = [
            f'{name} = struct.Struct("{form}").unpack_from' for form, name in self.read.items()
        ]
        lines += [f'{name} = struct.Struct("{form}").pack' for form, name in self.written.items()]
        return sorted(lines)


def format_of(kind: m.Type) -> str | None:
    """Return the struct code of a type of fixed size, without byte order; None when it has none."""
    match kind:
        case m.Int(size=3):
            return None
        case m.Int():
            code = _INT_CODES[kind.size]
            return code.lower() if kind.signed else code
        case m.Float():
            return "f" if kind.size == 4 else "d"
        case m.Bool():
            return "B"
        case m.Fixed():
            return f"{kind.size}s"
        case _:
            return None


def order_of(kind: m.Type) -> str:
    """`>` or `<`, or nothing when the order does not matter."""
    if isinstance(kind, m.Int | m.Float) and kind.size > 1:
        return ">" if kind.order == "big" else "<"
    return ""


def varint_reader(kind: m.Varint) -> str:
    """Return the runtime function that reads a varint of more than one byte."""
    if kind.loose:
        return f"rt.loose_{kind.coding}{kind.bits}"
    if kind.coding == "unsigned":
        return "rt.uvarint" if kind.bits == 64 else f"rt.uvarint{kind.bits}"
    return f"rt.{kind.coding}{kind.bits}"
