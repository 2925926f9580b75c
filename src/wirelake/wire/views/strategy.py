"""Hypothesis strategies from declarations: test data that knows every field and its limits.

    @given(messages(comet.PROTOCOL, direction="c2s"))
    def test_round_trip(message): ...

What comes out can be encoded, and decoding gives it back. Numbers come from their exact range and
often from its edges; texts, bytes and lists are short, with lengths around the places where a
length field grows. Messages with NaN are not equal to themselves: compare what `json.py` makes.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from .. import model as m
from ..protocol import Protocol

__all__ = ["messages", "values"]

_LENGTHS = (0, 1, 63, 64, 127, 128, 255, 256)
"""Where the length of a length changes: varints, zigzag varints, single bytes."""
_NESTED = 3
"""Most items of a list of layouts, so that a list of large things still fits its frame."""
_LIST = 5
_UNKNOWN = 24
"""Most bytes of something unknown that is carried."""


def messages(
    protocol: Protocol, dialect: str | None = None, direction: m.Direction | None = None
) -> SearchStrategy[Any]:
    """Return every message of a protocol in a dialect, or those of one direction."""
    return values(protocol.model(dialect), direction=direction)


@functools.cache
def values(layout: m.Layout, *, direction: m.Direction | None = None) -> SearchStrategy[Any]:
    """Return every value of a layout. Kept: making a strategy takes longer than drawing from it."""
    if layout.protobuf:
        return _protobuf(layout)
    body = layout.body
    if body is None:
        return st.builds(layout.cls, **_stored(layout))
    alternatives = body.of(direction)
    if layout.transparent:
        return st.one_of([values(a.layout) for a in alternatives])
    return st.one_of([_with_body(layout, body, a) for a in alternatives])


def _with_body(layout: m.Layout, body: m.Body, found: m.Alternative) -> SearchStrategy[Any]:
    fields = _stored(layout, found.tag)
    fields[body.name] = values(found.layout)
    return st.builds(layout.cls, **fields)


def _stored(layout: m.Layout, tag: int | None = None) -> dict[str, SearchStrategy[Any]]:
    """Return strategies of all stored fields of a layout except its body."""
    fields: dict[str, SearchStrategy[Any]] = {}
    for part in layout.parts:
        match part:
            case m.Field():
                value = _field(part)
                fields[part.name] = st.none() | value if part.when is not None else value
            case m.BitGroup():
                for bit in part.bits:
                    if bit.role == "stored":
                        fields[bit.name] = _bit(bit)
            case m.Options():
                fields.update(_options(part, tag))
            case _:
                pass
    return fields


def _bit(bit: m.Bit) -> SearchStrategy[Any]:
    if bit.flag:
        return st.booleans()
    most = (1 << bit.width) - 1
    if bit.closed and bit.names is not None:
        return st.sampled_from([int(n) for n in bit.names if 0 <= n <= most])
    return st.integers(0, most)


def _options(part: m.Options, tag: int | None) -> dict[str, SearchStrategy[Any]]:
    fields: dict[str, SearchStrategy[Any]] = {}
    for option in part.fields:
        allowed = tag in option.on
        fields[option.name] = st.none() | _value(option.type) if allowed else st.none()
    known = sum(option.bit for option in part.fields) | part.critical
    spare = [1 << n for n in range(16) if not known >> n & 1]
    carried = st.dictionaries(st.sampled_from(spare), st.binary(max_size=_UNKNOWN), max_size=3)
    fields[part.unknown] = carried.map(lambda found: tuple(sorted(found.items())))
    return fields


def _field(part: m.Field) -> SearchStrategy[Any]:
    if part.names is not None and isinstance(part.type, m.Int | m.Varint):
        named = st.sampled_from([int(member) for member in part.names])
        return named if part.closed else named | _value(part.type)
    if part.sizes and isinstance(part.type, m.Blob):
        if part.type.text is not None:
            return st.sampled_from(["x" * size for size in part.sizes])
        return st.one_of([st.binary(min_size=n, max_size=n) for n in part.sizes])
    return _value(part.type)


# -- types -----------------------------------------------------------------------------------


def _value(kind: m.Type) -> SearchStrategy[Any]:
    match kind:
        case m.Int() | m.Varint():
            return _integers(*_range(kind))
        case m.Float():
            return _floats(kind.size)
        case m.Bool():
            return st.booleans()
        case m.Fixed():
            return st.binary(min_size=kind.size, max_size=kind.size)
        case m.Blob():
            return _blobs(kind)
        case m.Nested():
            return values(kind.layout)
        case m.Many():
            return _lists(kind)
        case m.Dynamic():
            return _dynamics(kind)
        case m.Rows():
            return _rows(kind)


def _range(kind: m.Int | m.Varint) -> tuple[int, int]:
    """Return the least and the largest number of a type."""
    bits = 8 * kind.size if isinstance(kind, m.Int) else kind.bits
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind.signed else (0, (1 << bits) - 1)


def _integers(low: int, high: int) -> SearchStrategy[int]:
    edges = {low, low + 1, 0, 1, high - 1, high}
    for shift in range(6, high.bit_length() + 1, 7):  # one more byte of a varint, plain or zigzag
        edges |= {(1 << shift) - 1, 1 << shift, (1 << shift + 1) - 1, 1 << shift + 1}
        edges |= {-(1 << shift), -(1 << shift) - 1}
    fitting = sorted(edge for edge in edges if low <= edge <= high)
    return st.sampled_from(fitting) | st.integers(low, high)


def _floats(size: int) -> SearchStrategy[float]:
    width: Any = 8 * size
    odd = [0.0, -0.0, float("inf"), float("-inf"), 1.0, -1.5]
    return st.one_of(
        st.sampled_from(odd),
        st.floats(width=width, allow_nan=False),
        st.builds(_nan, st.booleans(), st.integers(1, (1 << 22) - 1), st.booleans()),
    )


def _nan(negative: bool, payload: int, quiet: bool) -> float:
    """Return a NaN whose payload fits 32 bits too."""
    bits = negative << 63 | 0x7FF << 52 | quiet << 51 | payload << 29
    return float(struct.unpack(">d", bits.to_bytes(8, "big"))[0])


def _most(kind: m.Int | m.Varint | None) -> int:
    """Return the largest length or count of a type."""
    return 1 << 16 if kind is None else _range(kind)[1]


def _blobs(kind: m.Blob) -> SearchStrategy[Any]:
    sizes = [size for size in _LENGTHS if size <= _most(kind.length)]
    most = min(16, sizes[-1])
    if kind.text is None:
        return st.binary(max_size=most) | st.sampled_from(sizes).map(bytes)
    texts = _texts(most) | st.sampled_from(sizes).map(lambda size: "x" * size)
    if kind.text == "strict":
        return texts
    raw = st.binary(max_size=most)
    return texts | raw.map(lambda data: data.decode("utf-8", "surrogateescape"))


def _texts(most: int) -> SearchStrategy[str]:
    """Return valid text of at most that many bytes."""
    alphabet = st.characters(exclude_categories=["Cs"])
    return st.text(alphabet, max_size=most // 4)


def _lists(kind: m.Many) -> SearchStrategy[tuple[Any, ...]]:
    most = _most(kind.count)
    if isinstance(kind.item, m.Nested | m.Dynamic | m.Many):
        return _tuples(_value(kind.item), min(_NESTED, most))
    full = _short(kind.item)
    sizes = [size for size in _LENGTHS if size <= most]
    repeated = st.builds(lambda item, size: (item,) * size, full, st.sampled_from(sizes))
    return _tuples(_value(kind.item), min(_LIST, most)) | repeated


def _short(kind: m.Type) -> SearchStrategy[Any]:
    """Return values of a type that take few bytes, for very long lists."""
    if not isinstance(kind, m.Blob):
        return _value(kind)
    size = min(4, _most(kind.length))
    return st.just("x" * size) if kind.text else st.binary(max_size=size)


def _tuples(item: SearchStrategy[Any], most: int) -> SearchStrategy[tuple[Any, ...]]:
    return st.lists(item, max_size=most).map(tuple)


# -- self-describing values and rows ---------------------------------------------------------


def _dynamics(kind: m.Dynamic) -> SearchStrategy[Any]:
    plain: list[SearchStrategy[Any]] = []
    for each in kind.kinds:
        if not isinstance(each.type, m.Pairs | m.Items):
            inner = st.none() if each.type is None else _value(each.type)
            plain.append(_dynamic(kind, each, inner))
    return st.recursive(
        _as_one(plain), lambda nodes: st.one_of(_containers(kind, nodes)), max_leaves=8
    )


def _as_one(choices: list[SearchStrategy[Any]]) -> SearchStrategy[Any]:
    """Return a choice that counts once among others: Hypothesis would merge it with them."""
    return st.one_of(choices).map(lambda value: value)


def _containers(kind: m.Dynamic, nodes: SearchStrategy[Any]) -> list[SearchStrategy[Any]]:
    found: list[SearchStrategy[Any]] = []
    for each in kind.kinds:
        if isinstance(each.type, m.Items):
            found.append(_dynamic(kind, each, _tuples(nodes, _LIST)))
        elif isinstance(each.type, m.Pairs):
            pairs = _tuples(st.tuples(_blobs(each.type.key), nodes), _LIST)
            found.append(_dynamic(kind, each, pairs))
    return found


def _dynamic(
    kind: m.Dynamic, each: m.DynamicKind, inner: SearchStrategy[Any]
) -> SearchStrategy[Any]:
    return st.builds(kind.cls, type=st.just(each.tag), value=inner)


def _rows(kind: m.Rows) -> SearchStrategy[tuple[Any, ...]]:
    taken = {a.tag for a in kind.alternatives} | {kind.end}
    spare = [tag for tag in range(1 << 8 * kind.tag.size) if tag not in taken]
    opaque = st.builds(kind.opaque, type=st.sampled_from(spare), data=st.binary(max_size=_UNKNOWN))
    known = _as_one([values(a.layout) for a in kind.alternatives])
    return _tuples(st.one_of(known, known, opaque), _LIST + 1)


# -- protobuf --------------------------------------------------------------------------------


def _protobuf(layout: m.Layout) -> SearchStrategy[Any]:
    parts = [part for part in layout.parts if isinstance(part, m.Field)]
    fields: dict[str, SearchStrategy[Any]] = {}
    for part in parts:
        value = _field(part)
        missing = part.optional or isinstance(part.type, m.Nested)
        fields[part.name] = st.none() | value if missing else value
    if layout.unparsed:
        fields[layout.unknown] = st.binary(max_size=_UNKNOWN)
    else:
        fields[layout.unknown] = _unknown_fields([part.number or 0 for part in parts])
    return st.builds(layout.cls, **fields)


def _unknown_fields(known: Sequence[int]) -> SearchStrategy[bytes]:
    """Return encoded fields with unknown numbers."""
    spare = [n for n in (*range(1, 20), 1000, 2047, 2048, 99_999, (1 << 29) - 1) if n not in known]
    numbers = st.sampled_from(spare)
    field = st.one_of(
        st.builds(lambda n, v: _leb(n << 3) + _leb(v), numbers, st.integers(0, (1 << 64) - 1)),
        st.builds(lambda n, v: _leb(n << 3 | 1) + v, numbers, st.binary(min_size=8, max_size=8)),
        st.builds(
            lambda n, v: _leb(n << 3 | 2) + _leb(len(v)) + v, numbers, st.binary(max_size=_UNKNOWN)
        ),
        st.builds(lambda n, v: _leb(n << 3 | 5) + v, numbers, st.binary(min_size=4, max_size=4)),
    )
    return st.lists(field, max_size=3).map(b"".join)


def _leb(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
