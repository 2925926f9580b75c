"""Builds batches of `messages` from frames of one protocol: decode, decrypt, describe, assemble.

`MessageBuilder.build` takes the frames of a window, in the order in which they were completed, and
gives one batch, and the frames that it could not read: those that the kernels gave up on, and those
that wait for a key. What becomes of them is the caller's, who has the scalar codec for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.protocols import registry
from wirelake.records.message import SEMANTIC
from wirelake.records.schema import COMMON, schema
from wirelake.records.structs import messages_schema, struct_type
from wirelake.wire.meaning import Tunnels
from wirelake.wire.protocol import Protocol
from wirelake.wire.walk import offset_in_frame

from ..generate.plan import Choice, Staged
from ..jit.options import U, kernel
from ..tcp.pieces import PLACE, START, TIME, Pieces
from ..tcp.window import DIRECTIONS, Streams
from .arrays import Assembler, spread
from .kernel import Columns, load
from .meaning import Coded, Evaluator, Found, array_of, repeated
from .sealed_parts import ConnectionKeys, OpenRow, Sealed, opened_singly, unsealed

__all__ = [
    "ENTRY",
    "IGNORED",
    "UNDECIDED",
    "UNSEEN",
    "Built",
    "CoverageCounts",
    "MessageBuilder",
    "Slices",
    "coverage_batch",
    "pieces_of",
    "tunnel_connections",
]


Ints = NDArray[np.int64]
_DIRECTIONS = ("c2s", "s2c")


@dataclass(frozen=True)
class Slices:
    """Frames of one protocol in a buffer, with their direction, time and connection."""

    data: NDArray[np.uint8]
    pieces: Pieces
    piece: Ints
    """The piece with the first byte."""
    starts: Ints
    stops: Ints
    ways: NDArray[np.uint8]
    """Who sent it: 0 the client, 1 the server."""
    ts_ns: Ints
    """When the packet that completed it was captured."""
    connection: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: Any) -> Slices:
        """Return some of the slices."""
        picked = (
            getattr(self, name)[rows]
            for name in ("piece", "starts", "stops", "ways", "ts_ns", "connection")
        )
        return Slices(self.data, self.pieces, *picked)


@dataclass(frozen=True)
class Built:
    """The result of a number of slices."""

    batch: pa.RecordBatch
    rows: NDArray[np.intp]
    """The slice of each row of the batch."""
    odd: NDArray[np.intp]
    """Slices that are not in the batch, for the scalar decoder."""
    sealed: NDArray[np.bool_]
    """Of each row, whether it stayed sealed."""
    inner: tuple[Protocol, pa.RecordBatch, NDArray[np.intp]] | None = None
    """Messages of another protocol that these carry, and the slice of each."""


class MessageBuilder:
    """Builds the batches of one protocol in one dialect."""

    def __init__(self, protocol: Protocol, dialect: str, files: list[str], *, reveal: bool = False):
        self.protocol = protocol
        self.dialect = dialect
        self.schema = messages_schema([protocol.name])
        self._files = files
        self._reveal = reveal
        self.kernels = load(protocol, dialect)
        """The kernels that find and decode its frames."""
        self._whole = struct_type(protocol, whole=True)
        self._sealed = Sealed(protocol, dialect)
        choices = (s for _, s in self.kernels.frames.plan.shape.fields if isinstance(s, Choice))
        self._bodies = frozenset(name for choice in choices for name in choice.names)
        self._carried: MessageBuilder | None = None
        """Builds the messages that these carry, in the same dialect."""

    def build(
        self,
        slices: Slices,
        keys: ConnectionKeys | None = None,
        open_row: OpenRow | None = None,
    ) -> Built:
        """Build the messages of slices. `keys` decrypt in batches, `open_row` one by one."""
        columns = self.kernels.frames.decode(slices.data, slices.starts, slices.stops, slices.ways)
        assembler = Assembler(columns, reveal=self._reveal)
        rows = len(slices)
        closed = keys is None and self._sealed.always
        kind = self.schema.field(self.protocol.name).type if closed else self._whole
        struct = assembler.struct(kind, rows)
        found = self._found(columns, assembler, struct)
        odd = np.zeros(rows, np.bool_)
        odd[columns.bad] = True
        stayed = self._stages(slices, columns, found, odd)
        if stayed is None:
            stayed = self._sealed.mask(slices, columns, assembler)
        body = self._body(found)
        if keys is not None:
            keys.learn(slices, found)
            if stayed.any():
                body, stayed, unopened = unsealed(keys, slices, found, body, stayed)
                if open_row is not None and unopened.any():
                    unopened &= ~odd
                    body, stayed, unopened = opened_singly(body, stayed, unopened, open_row)
                odd |= unopened
        struct = self._with_stages(struct, found)
        batch = self._batch(slices, found, struct, body, stayed)
        tunnels = self.protocol.meaning.tunnels
        inner = None if tunnels is None else self._inner(tunnels, slices, found, ~odd)
        kept = np.flatnonzero(~odd)
        if len(kept) < rows:
            batch = batch.take(pa.array(kept))
            stayed = stayed[kept]
        return Built(batch, kept, np.flatnonzero(odd), stayed, inner)

    # -- what the kernels found --------------------------------------------------------------

    def _found(self, columns: Columns, assembler: Assembler, struct: pa.StructArray) -> Found:
        """Return the decoded columns, by the paths that a meaning uses."""
        found = Found(len(struct))
        found.structs = {name: (rows, values) for name, (rows, values) in assembler.chosen.items()}
        found.row_kinds = assembler.row_kinds
        choice = None
        for name, shape in columns.plan.shape.fields:
            if isinstance(shape, Choice):
                choice = shape
            elif struct.type.get_field_index(name) >= 0:
                found.fields[name] = struct.field(name)
        if choice is None:
            name = self.protocol.model(self.dialect).name
            found.name = Coded(np.zeros(len(struct), np.int32), (name,))
        else:
            tags = columns[choice.tag].astype(np.int32)
            tags[columns.bad] = -1
            found.name = Coded(tags, choice.names)
        return found

    def _stages(
        self, slices: Slices, columns: Columns, found: Found, odd: NDArray[np.bool_]
    ) -> NDArray[np.bool_] | None:
        """Decode staged bytes; return which rows stay sealed, or None without stages."""
        choice = next((s for _, s in columns.plan.shape.fields if isinstance(s, Choice)), None)
        if choice is None:
            return None
        stayed: NDArray[np.bool_] | None = None
        for index, shape in enumerate(choice.shapes):
            for _, staged in shape.fields:
                if not isinstance(staged, Staged):
                    continue
                chosen = np.flatnonzero(columns[choice.tag] == index)
                stayed = np.zeros(len(slices), np.bool_)
                closed = self._transformed(found)[chosen]
                stayed[chosen[closed]] = True
                starts = columns[staged.start].astype(np.int64)[~closed]
                stops = starts + columns[staged.size][~closed]
                self._stage(slices, staged, chosen[~closed], starts, stops, found, odd)
        return stayed

    def _stage(
        self,
        slices: Slices,
        staged: Staged,
        rows: NDArray[np.intp],
        starts: Ints,
        stops: Ints,
        found: Found,
        odd: NDArray[np.bool_],
    ) -> None:
        name = staged.layout.name
        columns = self.kernels.stage(name).decode(slices.data, starts, stops)
        odd[rows[columns.bad]] = True
        values = Assembler(columns, reveal=self._reveal).struct(
            self._whole.field(name).type, len(rows)
        )
        if len(columns.bad):
            good = np.delete(np.arange(len(rows)), columns.bad)
            rows, values = rows[good], values.take(pa.array(good))
        found.structs[name] = rows, values

    def _transformed(self, found: Found) -> NDArray[np.bool_]:
        """Return the rows whose staged bytes are transformed."""
        closed = np.zeros(found.rows, np.bool_)
        for flag in self.protocol.meaning.transformed:
            closed |= np.asarray(found.fields[flag].to_numpy(zero_copy_only=False))
        return closed

    def _with_stages(self, struct: pa.StructArray, found: Found) -> pa.StructArray:
        """Return the struct with the results of stages."""
        kind = struct.type
        children = []
        for at in range(kind.num_fields):
            field = kind.field(at)
            staged = found.structs.get(field.name)
            if staged is None or field.name in self._bodies:
                children.append(struct.field(at))
            else:
                rows, values = staged
                children.append(values if rows is None else spread(values, rows, found.rows))
        return pa.StructArray.from_arrays(children, fields=list(kind))

    # -- columns -----------------------------------------------------------------------------

    def _body(self, found: Found) -> pa.Array:
        """The application's bytes."""
        meaning = self.protocol.meaning
        parts = [part for path in meaning.body if (part := found.at(path)) is not None]
        if meaning.body_row is not None:
            value = Evaluator(found).value(meaning.body_row)
            return array_of(value, found.rows, pa.binary())
        return _merged(parts, found.rows, pa.binary())

    def _batch(
        self,
        slices: Slices,
        found: Found,
        struct: pa.StructArray,
        body: pa.Array,
        stayed: NDArray[np.bool_],
    ) -> pa.RecordBatch:
        rows = found.rows
        if stayed.any():
            body = _without(body, stayed)
        numbers = slices.pieces.numbers
        piece = slices.piece
        within = slices.starts - numbers[START, piece]
        columns = {
            "ts_ns": pa.array(slices.ts_ns),
            "first_ns": pa.array(numbers[TIME, piece]),
            "connection": pa.array(slices.connection),
            "direction": Coded(slices.ways.astype(np.int32), _DIRECTIONS).array(),
            "protocol": repeated(self.protocol.name, rows),
            "ids": self._ids(found),
            "body": body,
            "sealed": pa.array(stayed),
            "size_bytes": pa.array(slices.stops - slices.starts),
            "body_bytes": _lengths(body),
            "tunnel_link": pa.nulls(rows, pa.int64()),
            "file": Coded(slices.pieces.file[piece], tuple(self._files)).array(),
            "offset": pa.array(numbers[PLACE, piece] + within),
            **self._semantic(found),
        }
        arrays = [columns[field.name] for field in COMMON]
        kind = self.schema.field(self.protocol.name).type
        return pa.RecordBatch.from_arrays([*arrays, _pruned(struct, kind)], schema=self.schema)

    def _semantic(self, found: Found) -> dict[str, pa.Array]:
        evaluator = Evaluator(found)
        return {
            name: array_of(
                evaluator.value(getattr(self.protocol.meaning, name)),
                found.rows,
                COMMON.field(name).type,
            )
            for name in SEMANTIC
        }

    def _ids(self, found: Found) -> pa.Array:
        """Return the notification ids that messages carry or acknowledge."""
        kind = COMMON.field("ids").type
        parts = []
        for each in self.protocol.meaning.ids:
            before, listed, after = each.path.partition("[]")
            part = found.at(before)
            if part is None:
                continue
            rows, values = part
            parts.append((rows, _listed(values, bool(listed), after.lstrip("."), kind)))
        return _merged(parts, found.rows, kind)

    # -- messages inside messages ------------------------------------------------------------

    def _inner(
        self, tunnels: Tunnels, slices: Slices, found: Found, good: NDArray[np.bool_]
    ) -> tuple[Protocol, pa.RecordBatch, NDArray[np.intp]] | None:
        """Build the messages in tunnels, as rows of their own protocol."""
        if tunnels.carrier not in found.structs:
            return None
        rows, values = found.structs[tunnels.carrier]
        assert rows is not None
        picked = np.flatnonzero(good[rows])
        if len(picked) < len(rows):
            rows, values = rows[picked], values.take(pa.array(picked))
        if not len(rows):
            return None
        carried = registry.find(tunnels.protocol)
        if self._carried is None:
            self._carried = MessageBuilder(carried, self.dialect, self._files, reveal=self._reveal)
        start = offset_in_frame(self.protocol, self.dialect, tunnels.inner)
        batch = self._carried.in_tunnels(slices.take(rows), values, tunnels, start)
        return carried, batch, rows

    def in_tunnels(
        self, links: Slices, carriers: pa.StructArray, tunnels: Tunnels, start: int
    ) -> pa.RecordBatch:
        """Rows of messages that came in tunnels, `start` bytes into the frames of their links."""
        found = Found(len(links))
        stage = tunnels.message
        messages = carriers.field(stage)
        found.structs = {stage: (None, messages)}
        nulls = {
            field.name: pa.nulls(len(links), field.type)
            for field in (self._whole.field(at) for at in range(self._whole.num_fields))
        }
        children = list({**nulls, stage: messages}.values())
        struct = pa.StructArray.from_arrays(children, fields=list(self._whole))
        number = tunnel_connections(
            carriers.field(tunnels.instance_id).to_numpy(),
            carriers.field(tunnels.tunnel_id).to_numpy(),
        )
        slices = Slices(
            links.data,
            links.pieces,
            _pieces_behind(links, start),
            links.starts + start,
            links.stops,
            links.ways,
            links.ts_ns,
            number,
        )
        closed = np.zeros(len(links), np.bool_)
        batch = self._batch(slices, found, struct, self._body(found), closed)
        at = batch.schema.get_field_index("tunnel_link")
        return batch.set_column(at, batch.schema.field(at), pa.array(links.connection))


# -- arrays ----------------------------------------------------------------------------------


def _pieces_behind(links: Slices, start: int) -> Ints:
    """The pieces with the first byte of the messages that carriers hold."""
    places = links.starts + start
    ends = np.append(links.pieces.numbers[START, 1:], np.iinfo(np.int64).max)
    piece = links.piece.copy()
    later = places >= ends[piece]
    piece[later] = pieces_of(links.pieces, places[later])
    return piece


def pieces_of(pieces: Pieces, positions: Ints) -> NDArray[np.intp]:
    """Return the pieces that hold these positions of the buffer."""
    return np.searchsorted(pieces.numbers[START], positions, side="right") - 1


def _merged(
    parts: Iterable[tuple[NDArray[np.intp] | None, pa.Array]], rows: int, kind: pa.DataType
) -> pa.Array:
    """Values of several alternatives at the rows of each; the other rows are null."""
    found = [(chosen, values) for chosen, values in parts if len(values)]
    if not found:
        return pa.nulls(rows, kind)
    if len(found) == 1:
        chosen, values = found[0]
        return values if chosen is None else spread(values, chosen, rows)
    places = np.concatenate([chosen for chosen, _ in found if chosen is not None])
    values = pa.concat_arrays([values for _, values in found])
    order = np.argsort(places, kind="stable")
    return spread(values.take(pa.array(order)), places[order], rows)


def _listed(values: pa.Array, listed: bool, name: str, kind: pa.DataType) -> pa.Array:
    """Each value as a list of one, or a field of each item of a list."""
    if not listed:
        offsets = pa.py_buffer(np.arange(len(values) + 1, dtype=np.int32))
        return pa.Array.from_buffers(kind, len(values), [None, offsets], children=[values])
    items = values.values.field(name) if name else values.values
    parts = values.buffers()[:2]
    return pa.Array.from_buffers(kind, len(values), parts, children=[items])


def _lengths(body: pa.Array) -> pa.Array:
    """How many bytes each has; null without one."""
    import pyarrow.compute as pc

    return pc.binary_length(body).cast(pa.int64())


def _without(body: pa.Array, stayed: NDArray[np.bool_]) -> pa.Array:
    """The bodies, null where they stayed sealed."""
    import pyarrow.compute as pc

    return pc.if_else(pa.array(stayed), pa.scalar(None, body.type), body)


def _pruned(struct: pa.StructArray, kind: pa.DataType) -> pa.StructArray:
    """The fields that a struct has in the table."""
    if struct.type == kind:
        return struct
    children = []
    for at in range(kind.num_fields):
        field = kind.field(at)
        child = struct.field(field.name)
        children.append(_pruned(child, field.type) if pa.types.is_struct(field.type) else child)
    parts = struct.buffers()[:1]
    return pa.StructArray.from_buffers(kind, len(struct), parts, children=children)


# The connection ids of tunnels, of many at once.

_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


def tunnel_connections(instances: NDArray[Any], tunnels: NDArray[Any]) -> NDArray[np.int64]:
    """Return `wirelake.records.tunnels.tunnel_connection` of each pair."""
    value = np.full(len(instances), _BASIS, np.uint64)
    for byte in b"tunnel":
        value = (value ^ np.uint64(byte)) * _PRIME
    for numbers in (instances, tunnels):
        for column in numbers.astype(">i8").view(np.uint8).reshape(-1, 8).T:
            value = (value ^ column.astype(np.uint64)) * _PRIME
    return np.asarray(np.maximum(value >> np.uint64(1), np.uint64(1)), np.int64)


# Counts what became of the bytes of each stream; also holds the number of its protocol.


UNDECIDED: Final = -1
"""In place of a protocol's number: not known yet, its first bytes decide."""
IGNORED: Final = -2
"""In place of a protocol's number: no protocol, or one that is not installed."""
UNSEEN: Final = -3
"""In place of a protocol's number: no packet of its connection was seen."""

_COUNTS: Final = ("decoded", "faulty", "undecryptable", "ignored", "messages", "faults")
ENTRY: Final = np.dtype([("protocol", "i2"), *((name, "i8") for name in _COUNTS)])
"""The record of a stream."""


class CoverageCounts:
    """The counts of all streams, by number of stream."""

    def __init__(self) -> None:
        self.entries = self._room(1024)

    @staticmethod
    def _room(count: int) -> NDArray[Any]:
        entries = np.zeros(count, ENTRY)
        entries["protocol"] = UNSEEN
        return entries

    def reach(self, streams: int) -> None:
        """Grow to at least this many streams."""
        held = len(self.entries)
        if streams > held:
            self.entries = np.concatenate([self.entries, self._room(max(streams, 2 * held) - held)])

    def restore(self, entries: NDArray[Any]) -> None:
        """Restore the entries of the first streams."""
        self.reach(len(entries))
        self.entries[: len(entries)] = entries

    def add(self, name: str, streams: NDArray[Any], amounts: NDArray[Any] | int) -> None:
        """Add to a count; a stream may occur several times."""
        if isinstance(amounts, int):
            amounts = np.full(len(streams), amounts, np.int64)
        _add(self.entries[name], streams.astype(np.int64), amounts.astype(np.int64))

    def forget(self, streams: NDArray[Any]) -> None:
        """Reset streams whose numbers become free."""
        blank = np.zeros(1, ENTRY)
        blank["protocol"] = UNSEEN
        self.entries[streams] = blank[0]


@kernel
def _add(counts: NDArray[Any], streams: NDArray[np.int64], amounts: NDArray[np.int64]) -> None:
    for i in range(U(len(streams))):
        counts[U(streams[i])] += amounts[i]


# Rows of `coverage`: what the front end counted, and what became of it.


def coverage_batch(
    streams: Streams,
    coverage: CoverageCounts,
    chosen: NDArray[np.int32],
    protocols: Sequence[str],
    files: Sequence[str],
) -> pa.RecordBatch:
    """Return the rows of some streams."""
    entries = coverage.entries[chosen]
    new, gap = streams.new[chosen], streams.gap[chosen]
    numbers = np.maximum(entries["protocol"].astype(np.int32), -1)
    columns = {
        "file": Coded(streams.file[chosen], tuple(files)).array(),
        "connection": streams.connection[chosen],
        "direction": Coded(streams.direction[chosen].astype(np.int32), DIRECTIONS).array(),
        "protocol": Coded(numbers, tuple(protocols)).array(),
        "first_ns": streams.first_ns[chosen],
        "last_ns": streams.last_ns[chosen],
        "packets": streams.packets[chosen],
        "payload_bytes": streams.payload[chosen],
        "new_bytes": new,
        "duplicate_bytes": streams.duplicate[chosen],
        "gap_bytes": gap,
        "span_bytes": new + gap,
        "decoded_bytes": entries["decoded"],
        "faulty_bytes": entries["faulty"],
        "undecryptable_bytes": entries["undecryptable"],
        "ignored_bytes": entries["ignored"] + streams.ignored[chosen],
        "messages": entries["messages"],
        "faults": entries["faults"],
    }
    found = schema("coverage")
    arrays = [
        value if isinstance(value := columns[field.name], pa.Array) else pa.array(value, field.type)
        for field in found
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=found)
