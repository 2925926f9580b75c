"""`ArrowBuilder`: the columns that a kernel filled as Arrow arrays.

Numbers are copied, bytes are gathered from the buffer, lists get their offsets. The struct of an
alternative is first built for the rows that chose it, then scattered over all rows: building it for
all rows would gather and validate mostly nulls. Slices that the kernel rejected have rows of zeros
here, which the caller removes.

Arrays are made with `from_buffers`, not `pa.array`: no copy, and no check of what the kernel has
already checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.records.structs import by_kind, has_content, is_content_field
from wirelake.wire.views.arrow import readable

from ..generate.plan import (
    BYTES,
    INTEGER,
    REAL32,
    REAL64,
    TEXT,
    Binary,
    Choice,
    Empty,
    Flags,
    Floats,
    Lists,
    Maybe,
    Nodes,
    Numbers,
    RowList,
    Shape,
    Staged,
    Structs,
)
from ..jit.options import U, kernel
from .kernel import Columns

__all__ = [
    "ArrowBuilder",
    "Mask",
    "bitmap",
    "gather_binary",
    "scatter",
    "to_text",
    "without",
    "without_content",
]

Mask = NDArray[np.bool_]
"""Which values of a column are chosen, or valid."""


def bitmap(valid: NDArray[Any] | None) -> pa.Buffer | None:
    """Return booleans as an Arrow bitmap; None for None, which means all valid."""
    if valid is None:
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


@kernel
def _gather(buf: Any, starts: Any, sizes: Any, offsets: Any, out: Any) -> Any:
    """Copy slices one after the other; return all bytes combined by OR.

    The result tells whether all bytes are ASCII, at no cost while they are copied anyway.
    """
    seen = np.uint8(0)
    for i in range(U(starts.shape[0])):
        start = U(starts[i])
        target = U(offsets[i])
        for k in range(U(sizes[i])):
            byte = buf[start + k]
            seen |= byte
            out[target + k] = byte
    return seen


def gather_binary(
    buf: NDArray[np.uint8], starts: NDArray[Any], sizes: NDArray[Any], valid: Mask | None = None
) -> tuple[pa.Array, bool]:
    """Return slices of a buffer as a binary array, and whether all bytes are ASCII."""
    # A size of -1 marks a missing value.
    kept = np.maximum(sizes, 0)
    # int32 offsets, Arrow's `binary`: the bytes of a batch are bounded by BATCH_BYTES.
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(kept, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    seen = _gather(buf, starts, kept, offsets, out)
    parts = [bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), len(starts), parts), int(seen) < 0x80


def to_text(found: pa.Array, ascii_only: bool, strict: bool) -> pa.Array:
    """Return bytes as text; in loose text, each byte that is not UTF-8 becomes U+FFFD.

    Strict text was validated by the kernel. For loose text the whole array is validated at once,
    and decoded in Python only when something is wrong, which is rare.
    """
    view = found.view(pa.string())
    if ascii_only or strict:
        return view
    try:
        view.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array(
            [
                None if raw is None else readable(raw.decode("utf-8", "surrogateescape"))
                for raw in found.to_pylist()
            ],
            pa.string(),
        )
    return view


def scatter(compact: pa.Array, chosen: NDArray[np.intp], rows: int) -> pa.Array:
    """Return an array with the rows of `compact` at the indices `chosen`, ascending; others null.

    Only buffers with one entry for each row are rebuilt. The bytes of texts and the items of lists
    keep their order, so their buffers are shared; `pc.take` would copy them.
    """
    # All rows chose this alternative: nothing to do, not even a copy.
    if len(chosen) == rows:
        return compact
    if not len(chosen):
        return pa.nulls(rows, compact.type)
    # Rows that did not choose the alternative are null, and so are null values of those that did.
    valid = np.zeros(rows, np.bool_)
    if compact.null_count:
        valid[chosen] = np.asarray(compact.is_valid().to_numpy(zero_copy_only=False))
    else:
        valid[chosen] = True
    return _scatter(compact, chosen, rows, bitmap(valid))


def _scatter(
    compact: pa.Array, chosen: NDArray[np.intp], rows: int, valid: pa.Buffer | None
) -> pa.Array:
    kind = compact.type
    # Sliced arrays have offsets in all their buffers. They are rare here, so the general but slower
    # `take` is good enough.
    if compact.offset or pa.types.is_null(kind):
        indices = np.full(rows, -1, np.int32)
        indices[chosen] = np.arange(len(chosen), dtype=np.int32)
        return pc.take(compact, pa.array(indices, mask=indices < 0))
    if pa.types.is_struct(kind):
        children = [
            _scatter_child(compact.field(at), chosen, rows) for at in range(kind.num_fields)
        ]
        return pa.StructArray.from_buffers(kind, rows, [valid], children=children)
    parts = compact.buffers()
    if pa.types.is_list(kind):
        offsets = _scatter_offsets(parts[1], chosen, rows)
        return pa.Array.from_buffers(kind, rows, [valid, offsets], children=[compact.values])
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        offsets = _scatter_offsets(parts[1], chosen, rows)
        return pa.Array.from_buffers(kind, rows, [valid, offsets, parts[2]])
    if pa.types.is_boolean(kind):
        bits = np.zeros(rows, np.uint8)
        packed = np.frombuffer(parts[1], np.uint8)
        bits[chosen] = np.unpackbits(packed, count=len(chosen), bitorder="little")
        return pa.Array.from_buffers(kind, rows, [valid, bitmap(bits)])
    width = kind.bit_width // 8
    # Bits are moved as unsigned integers of the same width: floats and timestamps need no case of
    # their own.
    values = np.zeros(rows, f"u{width}")
    values[chosen] = np.frombuffer(parts[1], f"u{width}", len(chosen))
    return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(values)])


def _scatter_child(child: pa.Array, chosen: NDArray[np.intp], rows: int) -> pa.Array:
    """Scatter a field of a struct; where the struct is null, the field may be anything."""
    if child.null_count == len(child):
        return pa.nulls(rows, child.type)
    if child.null_count:
        return scatter(child, chosen, rows)
    return _scatter(child, chosen, rows, None)


def _scatter_offsets(buffer: pa.Buffer, chosen: NDArray[np.intp], rows: int) -> pa.Buffer:
    old = np.frombuffer(buffer, np.int32, len(chosen) + 1)
    offsets = np.zeros(rows + 1, np.int32)
    offsets[chosen + 1] = old[1:] - old[:-1]
    np.cumsum(offsets, out=offsets)
    offsets += old[0]
    return pa.py_buffer(offsets)


def without(values: pa.Array, hidden: Mask) -> pa.Array:
    """Return values that are null in hidden rows.

    The bytes are gone: `if_else` would only mark them as null, and files of Arrow's own format have
    the buffers as they are.
    """
    return values.take(pa.array(np.arange(len(values)), mask=hidden))


def without_content(values: pa.Array, hidden: Mask) -> pa.Array:
    """Return values of a protocol's struct, without the application's content of hidden rows."""
    kind = values.type
    if not has_content(kind):
        return values
    if values.offset:  # buffers of a slice begin before its first row
        values = values.take(pa.array(np.arange(len(values))))
    if pa.types.is_list(kind):
        offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1)
        inner = np.zeros(len(values.values), np.bool_)
        inner[offsets[0] : offsets[-1]] = np.repeat(hidden, np.diff(offsets))
        children, parts = [without_content(values.values, inner)], values.buffers()[:2]
    else:
        fields = ((kind.field(at), values.field(at)) for at in range(kind.num_fields))
        children = [
            without(child, hidden) if is_content_field(field) else without_content(child, hidden)
            for field, child in fields
        ]
        parts = values.buffers()[:1]
    return pa.Array.from_buffers(kind, len(values), parts, children=children)


class ArrowBuilder:
    """Builds the Arrow arrays of one kernel call."""

    def __init__(self, columns: Columns, *, reveal: bool = False):
        self._columns = columns
        self._reveal = reveal
        self.chosen: dict[str, tuple[NDArray[np.intp], pa.StructArray]] = {}
        """By alternative of the body: its rows, and their values."""
        self.row_kinds: dict[str, tuple[NDArray[np.intp], pa.StructArray]] = {}
        """By kind of row: the message of each row, ascending, and their values."""
        self._clear_rejected_rows()

    def _clear_rejected_rows(self) -> None:
        """Make rows of rejected slices harmless: the kernel left them half-written.

        Their list offsets must not decrease, and their byte ranges must lie in the buffer.
        """
        bad = self._columns.bad
        if not len(bad):
            return
        for column in self._columns.plan.tables[0].columns:
            array = self._columns[column]
            if column.name.endswith("_ends"):
                # Ascending, so that the end of the row before is already right.
                for row in bad:
                    array[row] = array[row - 1] if row else 0
            elif column.name.endswith("_alternative"):
                array[bad] = 255
            else:
                array[bad] = 0

    def struct(self, kind: pa.DataType, rows: int) -> pa.StructArray:
        """Return the values of the root table."""
        return self._structs(self._columns.plan.shape, kind, rows, None)

    # -- shapes ------------------------------------------------------------------------------

    def _array(self, shape: Shape, kind: pa.DataType, rows: int, valid: Mask | None) -> pa.Array:
        match shape:
            case Numbers():
                data = pa.py_buffer(self._columns[shape.column].copy())
                return pa.Array.from_buffers(kind, rows, [bitmap(valid), data])
            case Floats():
                data = pa.py_buffer(self._columns[shape.column].copy())
                return pa.Array.from_buffers(kind, rows, [bitmap(valid), data])
            case Flags():
                data = bitmap(self._columns[shape.column])
                return pa.Array.from_buffers(kind, rows, [bitmap(valid), data])
            case Binary():
                return self._binary(shape, kind, rows, valid)
            case Maybe():
                present = self._columns[shape.valid] != 0
                return self._array(shape.of, kind, rows, present)
            case Lists():
                return self._lists(shape, kind, rows, valid)
            case Nodes():
                return self._vars(shape, kind, rows)
            case Structs():
                return self._structs(shape, kind, rows, valid)
            case Empty():
                return _empty(kind, rows)
            case Staged() | Choice() | RowList():
                raise TypeError(f"{type(shape).__name__} is not a value")

    def _binary(self, shape: Binary, kind: pa.DataType, rows: int, valid: Mask | None) -> pa.Array:
        if shape.secret and not self._reveal:
            return pa.nulls(rows, kind)
        starts, sizes = self._columns[shape.start], self._columns[shape.size]
        found, ascii_only = gather_binary(self._columns.buf, starts, sizes, valid)
        if shape.text is None:
            return found
        return to_text(found, ascii_only, shape.text == "strict")

    def _offsets(self, ends: NDArray[np.int32]) -> pa.Buffer:
        offsets = np.zeros(len(ends) + 1, np.int32)
        offsets[1:] = ends
        return pa.py_buffer(offsets)

    def _lists(self, shape: Lists, kind: pa.DataType, rows: int, valid: Mask | None) -> pa.Array:
        count = self._columns.rows(shape.table)
        items = self._array(shape.item, kind.value_type, count, None)
        parts = [bitmap(valid), self._offsets(self._columns[shape.ends])]
        return pa.Array.from_buffers(kind, rows, parts, children=[items])

    def _structs(
        self, shape: Structs, kind: pa.DataType, rows: int, valid: Mask | None
    ) -> pa.StructArray:
        found: dict[str, pa.Array] = {}
        for name, each in shape.fields:
            if isinstance(each, Choice):
                found |= self._choice(each, kind, rows)
            elif isinstance(each, RowList):
                found[by_kind(name)] = self._rows(each, kind.field(by_kind(name)).type, rows)
            elif not isinstance(each, Staged) and kind.get_field_index(name) >= 0:
                found[name] = self._array(each, kind.field(name).type, rows, None)
        return _struct(kind, found, rows, valid)

    def _choice(self, shape: Choice, kind: pa.DataType, rows: int) -> dict[str, pa.Array]:
        tags = self._columns[shape.tag]
        found = {}
        for index, name in enumerate(shape.names):
            if kind.get_field_index(name) < 0:
                continue
            chosen = np.flatnonzero(tags == index)
            inner = kind.field(name).type
            # Compact first: comet has more than ten alternatives, and most rows would be null in
            # each.
            compact = self._structs(shape.shapes[index], inner, len(chosen), None)
            self.chosen[name] = chosen, compact
            found[name] = scatter(compact, chosen, rows)
        return found

    def _rows(self, shape: RowList, kind: pa.DataType, rows: int) -> pa.Array:
        """Return the types of all rows, and for each kind the list of its rows."""
        tags, ends = self._columns[shape.tag], self._columns[shape.ends]
        # The number of rows of each message, from the ends; so the kernel does not have to write an
        # owner for each row.
        owners = np.repeat(np.arange(rows), np.diff(ends, prepend=0))
        # A copy, because the tags are in a scratch array that the next call overwrites.
        types, parts = pa.array(tags.copy()), [None, self._offsets(ends)]
        listed = kind.field("types").type
        found = {"types": pa.Array.from_buffers(listed, rows, parts, children=[types])}
        for name, tag, each in zip(shape.names, shape.tags, shape.shapes, strict=True):
            owner = owners[tags == tag]
            here = kind.get_field_index(name)
            inner = pa.struct([]) if here < 0 else kind.field(here).type.value_type
            items = self._structs(each, inner, len(owner), None)
            self.row_kinds[name] = owner, items
            if here >= 0:
                found[name] = _lists_of(kind.field(here).type, items, owner, rows)
        found["opaque"] = self._opaque(shape, kind.field("opaque").type, owners, rows)
        # Messages with a broken row are left to the scalar codec, so this list is always empty
        # here.
        found["broken"] = _empty(kind.field("broken").type, rows)
        return _struct(kind, found, rows, None)

    def _opaque(
        self, shape: RowList, kind: pa.DataType, owners: NDArray[np.intp], rows: int
    ) -> pa.Array:
        """Return the rows of unknown types."""
        chosen = np.flatnonzero(self._columns[shape.opaque.size] >= 0)
        if not len(chosen):
            return _empty(kind, rows)
        starts, sizes = (
            self._columns[each][chosen] for each in (shape.opaque.start, shape.opaque.size)
        )
        data, _ = gather_binary(self._columns.buf, starts, sizes)
        found = {"type": pa.array(self._columns[shape.tag][chosen]), "data": data}
        items = _struct(kind.value_type, found, len(chosen), None)
        return _lists_of(kind, items, owners[chosen], rows)

    def _vars(self, shape: Nodes, kind: pa.DataType, rows: int) -> pa.Array:
        """Return the nodes of self-describing values, in preorder."""
        names = [column.name.removeprefix(f"{shape.table.name}_") for column in shape.table.columns]
        node = {
            name: self._columns[column]
            for name, column in zip(names, shape.table.columns, strict=True)
        }
        count = len(node["parent"])
        inner = kind.value_type
        found = {
            "parent": pa.array(node["parent"].copy()),
            "type": pa.array(node["type"].copy()),
            **_node_numbers(node),
            **self._node_texts(node),
        }
        items = _struct(inner, found, count, None)
        parts = [None, self._offsets(self._columns[shape.ends])]
        return pa.Array.from_buffers(kind, rows, parts, children=[items])

    def _node_texts(self, node: dict[str, NDArray[Any]]) -> dict[str, pa.Array]:
        buf, what = self._columns.buf, node["what"]
        found = {}
        for name, starts, sizes, valid in (
            ("name", node["name_start"], node["name_size"], node["name_size"] >= 0),
            ("text", node["start"], np.where(what == TEXT, node["size"], 0), what == TEXT),
            ("bytes", node["start"], np.where(what == BYTES, node["size"], 0), what == BYTES),
        ):
            if valid.any():
                array, _ = gather_binary(buf, starts, sizes, valid)
                found[name] = array if name == "bytes" else array.view(pa.string())
        return found


def _node_numbers(node: dict[str, NDArray[Any]]) -> dict[str, pa.Array]:
    """Return integers and floats, which share a column of bits: a node has only one of them."""
    what, bits = node["what"], node["bits"]
    count = len(bits)
    valid = bitmap(what == INTEGER)
    found = {"int": pa.Array.from_buffers(pa.int64(), count, [valid, pa.py_buffer(bits.copy())])}
    narrow, wide = what == REAL32, what == REAL64
    if narrow.any() or wide.any():
        # Both widths share the column of 64 bits; a float32 has its bits in the lower half.
        reals = np.where(wide, bits, 0).view(np.float64)
        reals = np.where(narrow, bits.astype(np.uint32).view(np.float32), reals)
        data = pa.py_buffer(np.ascontiguousarray(reals, np.float64))
        found["float"] = pa.Array.from_buffers(pa.float64(), count, [bitmap(narrow | wide), data])
    return found


def _struct(
    kind: pa.DataType, found: dict[str, pa.Array], rows: int, valid: Mask | None
) -> pa.StructArray:
    """Return a struct of these fields; missing ones are null."""
    children = [
        found[each.name] if each.name in found else pa.nulls(rows, each.type)
        for each in (kind.field(at) for at in range(kind.num_fields))
    ]
    return pa.StructArray.from_buffers(kind, rows, [bitmap(valid)], children=children)


def _lists_of(kind: pa.DataType, items: pa.Array, owners: NDArray[np.intp], rows: int) -> pa.Array:
    """Return items as lists of the rows that own them; owners ascend."""
    if not len(items):
        return _empty(kind, rows)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=rows), out=offsets[1:])
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(offsets)], children=[items])


def _empty(kind: pa.DataType, rows: int) -> pa.Array:
    """Return an empty value for each row."""
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    offsets = pa.py_buffer(np.zeros(rows + 1, np.int32))
    if pa.types.is_list(kind):
        children = [pa.array([], kind.value_type)]
        return pa.Array.from_buffers(kind, rows, [None, offsets], children=children)
    return pa.Array.from_buffers(kind, rows, [None, offsets, pa.py_buffer(b"")])
