"""The tree that a dissector must show, made from a layout and a decoded value.

Nothing here reads what the dissector made: values come from `Protocol.decode`, names and shape
from the model. `differences` compares such a tree with the items of tshark.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dissector_tshark import Item

from wirelake.wire import model as m
from wirelake.wire.declare import snake_case
from wirelake.wire.errors import DecodeError
from wirelake.wire.protocol import Protocol
from wirelake.wire.walk import reachable

__all__ = ["Builder", "Node", "differences"]


@dataclass
class Node:
    """An item that must be there. `show` and `value` are what tshark says of it, if it matters."""

    name: str
    show: str | None = None
    value: str | None = None
    children: list[Node] = field(default_factory=list)
    default: bool = False
    """May be absent: a protobuf field that has its default."""
    unordered: bool = False
    """Its children may stand in any order: protobuf."""
    problem: tuple[str, str, int] | None = None
    """(code, field, offset): it says this, and its children are what was read before."""
    joined: bool = False
    """Several items of this name, whose values together are the value."""
    last: bool = False
    """Of several items of this name, the last one counts: a protobuf field that is sent again."""


# -- leaves ----------------------------------------------------------------------------------


def _number(name: str, value: int) -> Node:
    return Node(name, show=str(int(value)))


def _bool(name: str, value: object) -> Node:
    return Node(name, show=str(int(bool(value))))


def _raw(name: str, data: bytes) -> Node:
    return Node(name, value=data.hex())


def _text(name: str, text: str) -> Node:
    node = _raw(name, text.encode("utf-8", "surrogateescape"))
    if text.isprintable() and "\\" not in text:  # tshark escapes what does not print
        node.show = text
    return node


def _secret(name: str) -> Node:
    return Node(name, show="<secret>", value="")


def _float(name: str, value: float, kind: m.Float) -> Node:
    (wide,) = struct.unpack(">Q", struct.pack(">d", value))
    if kind.size == 4 and math.isnan(value):  # keep the bits of the NaN
        bits = (wide >> 63) << 31 | 0xFF << 23 | wide >> 29 & 0x7FFFFF
    elif kind.size == 4:
        (bits,) = struct.unpack(">I", struct.pack(">f", value))
    else:
        bits = wide
    return _raw(name, int(bits).to_bytes(kind.size, kind.order))


# -- the tree --------------------------------------------------------------------------------


class Builder:
    """Builds the tree of one message of a protocol."""

    def __init__(self, protocol: Protocol, dialect: str, direction: m.Direction):
        self.protocol = protocol
        self.dialect = dialect
        self.direction = direction
        self.sealed = False

    def message(self, value: Any, data: bytes) -> Node:
        """The tree of a message and its bytes."""
        self.sealed = False
        self.data = data
        layout = self.protocol.model(self.dialect)
        root = Node(f"wirelake.{self.protocol.name}")
        if layout.transparent:
            root.children = list(self.parts(layout, None, len(data), value))
        else:
            root.children = list(self.parts(layout, value, len(data)))
        return root

    def parts(self, layout: m.Layout, value: Any, size: int, body: Any = None) -> Iterator[Node]:
        """The items of a layout that takes `size` bytes (which only a length part asks for)."""
        if layout.protobuf:
            yield from self.protobuf(layout, value)
            return
        choice = layout.body
        if choice is not None and body is None:
            body = getattr(value, choice.name)
        chosen = self.alternative(choice, body) if choice is not None else None
        at = 0
        for part in layout.parts:
            match part:
                case m.Field():
                    yield from self.field(layout, part, getattr(value, part.name))
                case m.Const():
                    yield _raw(f"{layout.name}.{part.name}", part.value)
                case m.BitGroup():
                    yield from self.bits(layout, part, value, chosen)
                case m.Length():
                    yield _number(f"{layout.name}.{part.name}", size - at - part.type.size)
                case m.Tag():
                    assert chosen is not None
                    yield _number(f"{layout.name}.{part.name}", chosen.tag)
                case m.TagConst():
                    assert chosen is not None
                    assert chosen.const is not None
                    yield _raw(f"{layout.name}.{part.name}", bytes([chosen.const]))
                case m.OptionBits():
                    bits = sum(bit for bit, _, _ in self.options(layout, value))
                    yield _raw(f"{layout.name}.{part.name}", bits.to_bytes(part.type.size, "big"))
                case m.OptionsLength():
                    total = sum(length for _, length, _ in self.options(layout, value))
                    yield _number(f"{layout.name}.{part.name}", total)
                case m.Options():
                    for _, _, nodes in self.options(layout, value):
                        yield from nodes
                case m.Body():
                    assert chosen is not None
                    inner = self.parts(chosen.layout, body, size - at)
                    yield Node(chosen.layout.name, children=list(inner))
            at += _fixed_size(part)

    def alternative(self, part: m.Body, body: Any) -> m.Alternative:
        return next(a for a in part.of(self.direction) if a.layout.cls is type(body))

    # -- parts -------------------------------------------------------------------------------

    def field(self, layout: m.Layout, part: m.Field, value: Any) -> Iterator[Node]:
        name = f"{layout.name}.{part.name}"
        if part.when is not None and value is None:
            return
        if part.secret:
            yield _secret(name)
            return
        nodes = list(self.value(name, part.type, value, layout.protobuf))
        if part.stage is not None and _holds_secret(part.stage):
            nodes = [_secret(name)]
        if part.stage is not None and not self.sealed:
            nodes[-1].children.append(self.stage(part.stage, value))
        yield from nodes

    def stage(self, layout: m.Layout, data: bytes) -> Node:
        read = getattr(self.protocol.codec(self.dialect), f"read_{layout.name}")
        try:
            value, stop = read(data, 0, len(data))
            if stop != len(data):
                raise DecodeError("trailing_bytes", layout.name, stop)
        except DecodeError as error:
            return Node(layout.name, problem=(error.code, error.field, error.offset or 0))
        return Node(layout.name, children=list(self.parts(layout, value, len(data))))

    def bits(
        self, layout: m.Layout, group: m.BitGroup, value: Any, chosen: m.Alternative | None
    ) -> Iterator[Node]:
        low = min((bit.shift for bit in group.bits if bit.role == "tag"), default=0)
        for bit in group.bits:
            name = f"{layout.name}.{bit.name}"
            if bit.role == "present":
                yield _bool(name, getattr(value, bit.target) is not None)
            elif bit.role == "tag":
                assert chosen is not None
                yield _number(name, chosen.tag >> (bit.shift - low) & ((1 << bit.width) - 1))
            else:
                stored = getattr(value, bit.name)
                self.sealed |= bit.flag and bool(stored)
                yield _number(name, stored)

    def options(self, layout: m.Layout, value: Any) -> list[tuple[int, int, list[Node]]]:
        """(bit, bytes on the wire, items) of the options that are there, by ascending bit."""
        part = layout.find(m.Options)
        assert isinstance(part, m.Options)
        head = part.entry_length.size
        found: list[tuple[int, int, list[Node]]] = []
        for each in part.fields:
            stored = getattr(value, each.name)
            if stored is None:
                continue
            name = f"{layout.name}.{each.name}"
            size = m.type_size(each.type)[0]
            nodes = [_number(f"{name}.length", size)]
            nodes += [_secret(name)] if each.secret else self.value(name, each.type, stored)
            found.append((each.bit, head + size, nodes))
        for bit, data in getattr(value, part.unknown):
            name = f"{layout.name}.{part.unknown}"
            inner = [
                Node(f"{name}.bit", show=f"0x{bit:04x}"),
                _number(f"{name}.length", len(data)),
                _raw(f"{name}.data", data),
            ]
            found.append((bit, head + len(data), [Node(name, children=inner)]))
        return sorted(found, key=lambda option: option[0])

    # -- values ------------------------------------------------------------------------------

    def value(self, name: str, kind: m.Type, value: Any, protobuf: bool = False) -> Iterator[Node]:
        match kind:
            case m.Int() | m.Varint():
                yield _number(name, value)
            case m.Float():
                yield _float(name, value, kind)
            case m.Bool():
                yield _bool(name, value)
            case m.Fixed():
                yield _raw(name, value)
            case m.Blob():
                yield from self.blob(name, kind, value, protobuf)
            case m.Nested():
                node = Node(name, unordered=kind.layout.protobuf)
                node.children = list(self.parts(kind.layout, value, 0))
                if protobuf:
                    yield Node(f"{name}.length")
                yield node
            case m.Many():
                if kind.count is not None and not protobuf:
                    yield _number(f"{name}.count", len(value))
                for item in value:
                    inner = list(self.value(name, kind.item, item, protobuf))
                    if isinstance(kind.item, m.Many):
                        inner = list(self.value(f"{name}.item", kind.item, item))
                        inner = [Node(name, children=inner)]
                    yield from inner
            case m.Dynamic():
                yield Node(name, children=list(self.dynamic(kind, value)))
            case m.Rows():
                yield from self.rows(name, kind, value)

    def blob(self, name: str, kind: m.Blob, value: Any, protobuf: bool) -> Iterator[Node]:
        node = _raw(name, value) if kind.text is None else _text(name, value)
        if kind.length is not None or protobuf:
            yield _number(f"{name}.length", len(bytes.fromhex(node.value or "")))
        yield node

    def dynamic(self, kind: m.Dynamic, value: Any) -> Iterator[Node]:
        yield _number(f"{kind.name}.type", value.type)
        each = next(each for each in kind.kinds if each.tag == value.type)
        name = f"{kind.name}.{each.name}"
        match each.type:
            case None:
                return
            case m.Pairs():
                inner = [_number(f"{name}.count", len(value.value))]
                for key, item in value.value:
                    inner += self.value(f"{name}.key", each.type.key, key)
                    inner.append(Node(kind.name, children=list(self.dynamic(kind, item))))
                yield Node(name, children=inner)
            case m.Items():
                inner = [_number(f"{name}.count", len(value.value))]
                for item in value.value:
                    inner.append(Node(kind.name, children=list(self.dynamic(kind, item))))
                yield Node(name, children=inner)
            case _:
                yield from self.value(name, each.type, value.value)

    def rows(self, name: str, kind: m.Rows, rows: Any) -> Iterator[Node]:
        at = 0
        for row in (*rows, None):
            size = int.from_bytes(self.data[at + 1 : at + 4], "big")
            head = [_number(f"{name}.type", self.data[at]), _number(f"{name}.size", size)]
            at += 4 + size
            yield self.row(name, kind, row, size, head)

    def row(self, name: str, kind: m.Rows, row: Any, size: int, head: list[Node]) -> Node:
        if row is None:
            return Node(f"{name}.end", children=head)
        if isinstance(row, kind.opaque):
            own = snake_case(kind.opaque.__name__)
            data: bytes = row.data  # type: ignore[attr-defined]
            return Node(own, children=[*head, _raw(f"{own}.data", data)])
        if isinstance(row, kind.broken):
            broken: Any = row
            layout = next(a.layout for a in kind.alternatives if a.tag == broken.type)
            return Node(layout.name, problem=(broken.code, broken.field, broken.offset))
        layout = next(a.layout for a in kind.alternatives if a.layout.cls is type(row))
        return Node(layout.name, children=[*head, *self.parts(layout, row, size)])

    def protobuf(self, layout: m.Layout, value: Any) -> Iterator[Node]:
        for part in layout.parts:
            assert isinstance(part, m.Field)
            stored = getattr(value, part.name)
            absent = stored is None or not stored
            if stored is None:
                continue
            for node in self.field(layout, part, stored):
                node.default = absent
                node.last = not isinstance(part.type, m.Many)
                yield node
        name = f"{layout.name}.{layout.unknown}"
        yield Node(name, value=value.unknown.hex(), joined=True, default=not value.unknown)


def _holds_secret(layout: m.Layout) -> bool:
    return any(
        isinstance(p, m.Field) and p.secret for each in reachable([layout]) for p in each.parts
    )


def _fixed_size(part: m.Part) -> int:
    match part:
        case m.Const():
            return len(part.value)
        case m.BitGroup():
            return part.size
        case m.Field():
            return m.type_size(part.type)[0]
        case m.Options() | m.Body():
            return 0
        case _:
            return part.type.size


# -- comparing -------------------------------------------------------------------------------


def differences(node: Node, item: Item, path: str = "") -> Iterator[str]:
    """What differs between what must be shown and what is."""
    here = f"{path}/{node.name}"
    if node.name != item.name:
        yield f"{here}: found {item.name}"
        return
    if node.show is not None and _shown(item.show) != node.show:
        yield f"{here}: {node.show!r} wanted, {item.show!r} shown"
    if node.value is not None and item.value != node.value:
        yield f"{here}: bytes {node.value} wanted, {item.value} shown"
    if node.problem is not None:
        yield from _problems(node.problem, item, here)
        return
    yield from _children(node, item, here)


def _shown(show: str) -> str:
    """Booleans are 1 and 0 in some versions of tshark, True and False in others."""
    return {"True": "1", "False": "0"}.get(show, show)


def _problems(problem: tuple[str, str, int], item: Item, here: str) -> Iterator[str]:
    found = tuple(
        next((child.show for child in item.children if child.name == f"malformed.{key}"), "")
        for key in ("code", "field", "offset")
    )
    wanted = (problem[0], problem[1], str(problem[2]))
    if found != wanted:
        yield f"{here}: problem {wanted} wanted, {found} shown"


def _children(node: Node, item: Item, here: str) -> Iterator[str]:
    if node.unordered or any(child.joined for child in node.children):
        yield from _unordered(node, item, here)
        return
    for child, shown in zip(node.children, item.children, strict=False):
        yield from differences(child, shown, here)
    names = [child.name for child in node.children]
    found = [child.name for child in item.children]
    if len(names) != len(found):
        yield f"{here}: {names} wanted, {found} shown"


def _unordered(node: Node, item: Item, here: str) -> Iterator[str]:
    left = list(item.children)
    for child in node.children:
        same = [shown for shown in left if shown.name == child.name]
        if child.joined:
            if "".join(shown.value for shown in same) != child.value:
                yield f"{here}/{child.name}: {child.value} wanted"
            left = [shown for shown in left if shown.name != child.name]
        elif same:
            chosen = same[-1] if child.last else same[0]
            used = same if child.last else [chosen]
            left = [shown for shown in left if not any(shown is one for one in used)]
            yield from differences(child, chosen, here)
        elif not child.default:
            yield f"{here}/{child.name}: not shown"
    for shown in left:
        yield f"{here}: {shown.name} should not be there"
