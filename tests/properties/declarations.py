"""Declarations made at random: whole protocols, as source text, from the words of the language.

The same seed makes the same protocol. Field names are ones that generated code might want for
itself, so that no name can get in the way.
"""

from __future__ import annotations

from random import Random

FIXED = (
    *("U8", "U16", "U24", "U32", "U64", "I8", "I16", "I32", "I64"),
    *("U16LE", "U32LE", "U64LE", "I16LE", "I32LE", "I64LE"),
    *("F32", "F64", "F32LE", "F64LE", "Boolean", "LooseBoolean", "Bytes4Fixed", "Bytes16Fixed"),
    "Annotated[int, Int(3, signed=True)]",
    "Annotated[int, Int(3, order='little')]",
    "Annotated[int, Int(3, signed=True, order='little')]",
)
"""Types of fixed size."""
OTHERS = (
    *("VarU16", "VarU32", "VarU64", "VarI16", "VarI32", "VarI64", "TwosVar32", "TwosVar64"),
    *("String8", "String16", "String32", "LooseString16", "Bytes8", "Bytes16", "Bytes32"),
    "Annotated[int, Varint(32, 'twos', loose=True)]",
    "Annotated[int, Varint(64, 'twos', loose=True)]",
    "Annotated[str, Blob(Varint(32, 'zigzag'), 'strict')]",
    "Annotated[str, Blob(Int(2, signed=True), 'loose')]",
    "Annotated[bytes, Blob(Int(3))]",
    "Annotated[bytes, Blob(Varint(16))]",
    "Annotated[bytes, Blob(Int(1)), Sizes(0, 3)]",
    "Annotated[str, Blob(Int(2), 'strict'), Sizes(1, 2)]",
    "AnyNode",
)
"""Types whose size depends on the value."""
LISTS = (
    "List8[{}]",
    "List16[{}]",
    "Annotated[tuple[{}, ...], Counted(Varint(32))]",
    "Annotated[tuple[{}, ...], Counted(Varint(16, 'zigzag'))]",
    "Annotated[tuple[{}, ...], Counted(Int(3))]",
)
RESTS = (
    "Rest",
    "RestString",
    "Annotated[tuple[U16, ...], ToEnd()]",
    "Annotated[tuple[String8, ...], ToEnd()]",
)
PROTOBUF = (
    *("PbInt32", "PbInt64", "PbBool", "PbFixed64", "PbString", "PbBytes", "VarU32", "VarI64"),
    *("F32LE", "F64LE", "U32LE", "PbInt32 | None", "PbString | None"),
)
NAMES = (
    *("a", "b", "c", "value", "pos", "end", "items", "item", "type", "n_a", "v_a", "a_items"),
    *("piece_0", "bits", "bits_2", "start", "buf", "stop", "tag", "read", "limit", "length"),
    *("error", "key", "parts", "x_", "from_", "number", "data", "const", "entry", "write"),
    *("body_", "found", "rules", "more", "area", "size", "name", "text", "item_1", "decode"),
)
HEADER = """
from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar

from wirelake.wire import Layout, Protobuf, Protocol
from wirelake.wire.types import *


class Kind(IntEnum):
    NONE, INT, LIST, MAP, TEXT, DATA, FLOAT = range(7)


class Node(Layout):
    type: int
    value: object = None


TEXT = Blob(Varint(32), "strict")
KINDS = {
    Kind.NONE: None,
    Kind.INT: Varint(32, "zigzag"),
    Kind.LIST: ItemsOf(Varint(32)),
    Kind.MAP: PairsOf(TEXT, Varint(32)),
    Kind.TEXT: TEXT,
    Kind.DATA: Blob(Varint(32)),
    Kind.FLOAT: Float(4),
}
AnyNode = Annotated[Node, DynamicMark(tag=Int(1), names=Kind, kinds=KINDS)]
"""


class Declaration:
    """One protocol at random."""

    def __init__(self, seed: int):
        self.rng = Random(seed)
        self.layouts: list[str] = []
        self.messages: list[str] = []

    def source(self) -> str:
        """The text of a module that ends with its PROTOCOL."""
        text = [HEADER]
        for index in range(self.rng.randint(1, 3)):
            text.append(self.layout(f"Inner{index}", rest=False))
            self.layouts.append(f"Inner{index}")
        for index in range(self.rng.randint(0, 2)):
            text.append(self.protobuf(f"Message{index}"))
            self.messages.append(f"Message{index}")
        bodies = [f"Body{index}" for index in range(self.rng.randint(1, 3))]
        text += [self.layout(name, rest=True) for name in bodies]
        text.append(self.frame([*bodies, *self.messages]))
        return "\n\n".join(text)

    # -- layouts -----------------------------------------------------------------------------

    def layout(self, name: str, *, rest: bool) -> str:
        """Fields, constants and bits, and perhaps something that takes what is left."""
        rng, names, lines = self.rng, self.names(), list[str]()
        for _ in range(rng.randint(1, 6)):
            chance = rng.random()
            if chance < 0.12:
                lines.append(f"{names.pop()}: {self.magic()}")
            elif chance < 0.3:
                lines += self.bits(names, presence=True)
            else:
                lines.append(f"{names.pop()}: {self.type()}")
        if rest and rng.random() < 0.3:
            lines.append(f"{names.pop()}: {rng.choice(RESTS)}")
        return _class(name, "Layout", lines)

    def names(self) -> list[str]:
        return self.rng.sample(NAMES, len(NAMES))

    def magic(self) -> str:
        value = self.rng.randbytes(self.rng.randint(1, 3))
        return f"ClassVar[Annotated[bytes, Magic({value!r})]]"

    def type(self, depth: int = 0) -> str:
        """A field of any type."""
        chance = self.rng.random()
        if chance < 0.45 or depth > 1:
            return self.rng.choice(FIXED)
        if chance < 0.75:
            return self.rng.choice(OTHERS)
        if chance < 0.85 and self.layouts:
            return self.rng.choice(self.layouts)
        return self.rng.choice(LISTS).format(self.type(depth + 1))

    def bits(self, names: list[str], *, presence: bool = False, tag: bool = False) -> list[str]:
        """One group of 1, 2 or 4 bytes; then the fields that its bits switch."""
        lines, switched = list[str](), list[str]()
        widths = self.widths()
        for index, width in enumerate(widths):
            name = names.pop()
            if tag and index == 0:
                lines.append(f"{name}: ClassVar[Annotated[int, BitWidth({width}, 'tag')]]")
            elif width == 1 and presence and self.rng.random() < 0.5:
                lines.append(f"{name}: ClassVar[Present]")
                hint = f"Annotated[{self.type()} | None, When({name!r})]"
                switched.append(f"{names.pop()}: {hint} = None")
            elif width == 1 and self.rng.random() < 0.5:
                lines.append(f"{name}: Flag")
            else:
                lines.append(f"{name}: Annotated[int, BitWidth({width})]")
        return lines + switched

    def widths(self) -> list[int]:
        """Widths that fill 8, 16 or 32 bits, and no whole byte before the last; the first has
        room for every tag."""
        total = self.rng.choice((8, 8, 16, 32))
        widths = [self.rng.randint(3, 7)]
        while (left := total - sum(widths)) > 0:
            width = self.rng.randint(1, min(left, 9))
            if (sum(widths) + width) % 8 == 0 and width != left:
                width = left
            widths.append(width)
        return widths

    def protobuf(self, name: str) -> str:
        rng, names, lines = self.rng, self.names(), list[str]()
        numbers = rng.sample([*range(1, 30), 2047, 2048], 8)
        for _ in range(rng.randint(0, 6)):
            hint = rng.choice((*PROTOBUF, *(f"{each} | None" for each in self.messages)))
            mark = f"Number({numbers.pop()})"
            if rng.random() < 0.25:
                hint = hint.removesuffix(" | None")
                lines.append(f"{names.pop()}: Annotated[tuple[{hint}, ...], ToEnd(), {mark}] = ()")
            else:
                lines.append(f"{names.pop()}: Annotated[{hint}, {mark}] = {_default(hint)}")
        return _class(name, "Protobuf", lines)

    # -- the frame ---------------------------------------------------------------------------

    def frame(self, bodies: list[str]) -> str:
        """A head with a length; the tag before it or behind it, as a number or as bits."""
        rng, names = self.rng, self.names()
        early, lines = rng.random() < 0.5, self.fixed(names, 2)
        if early:
            lines += self.tag(names)
        lines += self.fixed(names, 1)
        size, order = rng.choice((2, 3, 4)), rng.choice(("big", "little"))
        mark = f"LengthMark(Int({size}, order={order!r}))"
        lines.append(f"{names.pop()}: ClassVar[Annotated[int, {mark}]]")
        lines += self.fixed(names, 2)
        if not early:
            lines += self.tag(names)
        if rng.random() < 0.5:
            lines.append(f"{names.pop()}: {self.type()}")
        lines += self.fixed(names, 1)
        table = ", ".join(f"{index}: {body}" for index, body in enumerate(bodies))
        lines.append(f"{names.pop()}: Annotated[{' | '.join(bodies)}, Choice({{{table}}})]")
        end = "PROTOCOL = Protocol(name=__name__, title='Random', frame=Frame)\n"
        return f"{_class('Frame', 'Layout', lines)}\n\n{end}"

    def fixed(self, names: list[str], most: int) -> list[str]:
        """Up to so many parts of fixed size."""
        lines: list[str] = []
        for _ in range(self.rng.randint(0, most)):
            chance = self.rng.random()
            if chance < 0.25:
                lines.append(f"{names.pop()}: {self.magic()}")
            elif chance < 0.5:
                lines += self.bits(names)
            else:
                lines.append(f"{names.pop()}: {self.rng.choice(FIXED)}")
        return lines

    def tag(self, names: list[str]) -> list[str]:
        if self.rng.random() < 0.5:
            return self.bits(names, tag=True)
        size, order = self.rng.choice((1, 2, 3)), self.rng.choice(("big", "little"))
        mark = f"TagMark(Int({size}, order={order!r}))"
        return [f"{names.pop()}: ClassVar[Annotated[int, {mark}]]"]


def _class(name: str, base: str, lines: list[str]) -> str:
    body = "\n".join(f"    {line}" for line in lines or ["pass"])
    return f"class {name}({base}, kw_only=True):\n{body}\n"


def _default(hint: str) -> str:
    if hint.endswith("None"):
        return "None"
    defaults = {"PbBool": "False", "PbString": '""', "PbBytes": 'b""'}
    return defaults.get(hint, "0.0" if hint.startswith("F") else "0")
