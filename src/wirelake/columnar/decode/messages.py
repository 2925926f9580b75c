"""`MessageBuilder`: frames of one protocol to batches of `messages`; and `CoverageCounts`.

`MessageBuilder.build` takes the frames of a window in the order in which they were completed:

1. a kernel decodes all frames into flat columns (`kernel.py`);
2. `ArrowBuilder` makes Arrow structs of them (`arrays.py`);
3. staged bytes, the content of a frame that has a layout of its own, are decoded by another kernel;
4. sealed bodies are decrypted, as far as keys are known (`sealed_parts.py`);
5. the protocol's meaning gives kind, name, ids, target and status (`meaning.py`);
6. content of messages that may hold credentials is removed.

It returns one batch, and the frames that it rejects: those that a kernel gave up on, and those that
have a key which only the scalar code can use. The caller passes them to `scalar.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.protocols import registry
from wirelake.records.arguments import argument_reader
from wirelake.records.message import SEMANTIC
from wirelake.records.schema import COMMON, schema
from wirelake.records.structs import messages_schema, struct_type
from wirelake.records.tunnels import FNV_BASIS, FNV_PRIME
from wirelake.wire.meaning import Tunnels
from wirelake.wire.protocol import Protocol
from wirelake.wire.walk import offset_in_frame

from ..generate.plan import Choice, Staged
from ..jit.options import U, kernel
from ..tcp.pieces import FILE_OFFSET, PIECE_TS, START, Pieces
from ..tcp.window import DIRECTIONS, Streams
from .arrays import ArrowBuilder, scatter, without, without_content
from .kernel import Columns, load
from .meaning import Coded, Evaluator, MessageFields, array_of, dictionary_of, is_one_of
from .sealed_parts import ConnectionKeys, OpenRow, SealedRows, decrypt_batch, decrypt_rows
from .texts import CODED, coded_schema

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


@dataclass(frozen=True)
class Slices:
    """Frames of one protocol in a buffer, with their direction, time and connection.

    Arrays, not objects: a window of 8 MiB has some ten thousand frames.
    """

    data: NDArray[np.uint8]
    pieces: Pieces
    piece: Ints
    """The piece with the first byte."""
    starts: Ints
    stops: Ints
    directions: NDArray[np.uint8]
    """0 from the client, 1 from the server."""
    ts_ns: Ints
    """When the packet that completed it was captured."""
    arrival: Ints
    """The number of that packet."""
    connection: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: Any) -> Slices:
        """Return some of the slices."""
        picked = (
            getattr(self, name)[rows]
            for name in (
                *("piece", "starts", "stops", "directions", "ts_ns", "arrival", "connection"),
            )
        )
        return Slices(self.data, self.pieces, *picked)


@dataclass(frozen=True)
class Built:
    """The result of `MessageBuilder.build`."""

    batch: pa.RecordBatch
    rows: NDArray[np.intp]
    """The slice of each row of the batch."""
    rejected: NDArray[np.intp]
    """Slices that are not in the batch: they are left to the scalar decoder."""
    sealed: NDArray[np.bool_]
    """For each row, whether its body is still sealed."""
    tunnelled: tuple[Protocol, pa.RecordBatch, NDArray[np.intp]] | None = None
    """Messages in tunnels: their protocol, their rows, and the slice of each."""


class MessageBuilder:
    """Builds the batches of one protocol in one dialect."""

    def __init__(self, protocol: Protocol, dialect: str, files: list[str], *, reveal: bool = False):
        self.protocol = protocol
        self.dialect = dialect
        self.schema = coded_schema(messages_schema([protocol.name]))
        self._files = files
        self._reveal = reveal
        self.kernels = load(protocol, dialect)
        """The kernels that find and decode its frames."""
        self._whole = struct_type(protocol, whole=True)
        self._sealed = SealedRows(protocol, dialect)
        choices = (s for _, s in self.kernels.frames.plan.shape.fields if isinstance(s, Choice))
        self._bodies = frozenset(name for choice in choices for name in choice.names)
        self._inner_builder: MessageBuilder | None = None
        """Builds the messages that are in tunnels, in the same dialect."""

    def build(
        self,
        slices: Slices,
        keys: ConnectionKeys | None = None,
        open_row: OpenRow | None = None,
    ) -> Built:
        """Build the messages of slices. `keys` decrypt bodies in batches, `open_row` one by one.

        Without any key for this protocol, `keys` only learn which ones messages name: the capture
        may hold them further on.
        """
        names = keys
        if keys is not None and not keys.any:
            keys = None
        columns = self.kernels.frames.decode(
            slices.data, slices.starts, slices.stops, slices.directions
        )
        arrays = ArrowBuilder(columns, reveal=self._reveal)
        rows = len(slices)
        # `_whole` has all fields, also those that the table has in other columns, such as the body.
        # When all bodies stay sealed nobody reads them, and gathering their bytes is skipped.
        unreadable = keys is None and self._sealed.always
        kind = self.schema.field(self.protocol.name).type if unreadable else self._whole
        struct = arrays.struct(kind, rows)
        fields = self._fields(columns, arrays, struct)
        # `bad` is a list of slices; a mask is easier to extend by what the stages below reject.
        rejected = np.zeros(rows, np.bool_)
        rejected[columns.bad] = True
        sealed = self._stages(slices, columns, fields, rejected)
        # With stages, the flags of the head say what is sealed. Without, the body itself may be
        # marked.
        if sealed is None:
            sealed = self._sealed.mask(slices, columns, arrays)
            lists = self._sealed.lists(slices, columns, arrays)
        else:
            lists = np.zeros(rows, np.bool_)
        body = self._body(fields)
        # First learn, then decrypt: a sign-on and the first sealed message may be in one batch.
        if names is not None:
            names.learn(slices, fields)
        if keys is not None:
            # Items of lists are rarely sealed: with keys they are left to the scalar decoder. So
            # are all bodies of dialects where only a key shows which of them are sealed.
            rejected |= self._sealed.sealable(slices, arrays) if self._sealed.unmarked else lists
            if sealed.any():
                body, sealed, unopened = decrypt_batch(keys, slices, fields, body, sealed)
                if open_row is not None and unopened.any():
                    unopened &= ~rejected
                    body, sealed, unopened = decrypt_rows(body, sealed, unopened, open_row)
                rejected |= unopened
        sealed = sealed | lists
        struct = self._with_stages(struct, fields)
        # Rows of rejected slices are built too, with zeros, and removed at the end: they are rare,
        # and every array has the same length until then.
        batch = self._batch(slices, fields, struct, body, sealed)
        tunnels = self.protocol.meaning.tunnels
        tunnelled = None if tunnels is None else self._tunnelled(tunnels, slices, fields, ~rejected)
        # `take` copies all columns, so it is skipped for the usual batch without rejected slices.
        kept = np.flatnonzero(~rejected)
        if len(kept) < rows:
            batch = batch.take(pa.array(kept))
            sealed = sealed[kept]
        return Built(batch, kept, np.flatnonzero(rejected), sealed, tunnelled)

    # -- fields ------------------------------------------------------------------------------

    def _fields(
        self, columns: Columns, arrays: ArrowBuilder, struct: pa.StructArray
    ) -> MessageFields:
        """Return the decoded columns, by the paths that a meaning uses."""
        fields = MessageFields(len(struct))
        fields.structs = {name: (rows, values) for name, (rows, values) in arrays.chosen.items()}
        fields.row_kinds = arrays.row_kinds
        choice = None
        for name, shape in columns.plan.shape.fields:
            if isinstance(shape, Choice):
                choice = shape
            elif struct.type.get_field_index(name) >= 0:
                fields.fields[name] = struct.field(name)
        if choice is None:
            name = self.protocol.model(self.dialect).name
            fields.name = Coded(np.zeros(len(struct), np.int32), (name,))
        else:
            tags = columns[choice.tag].astype(np.int32)
            # The tag of a rejected slice is whatever the last call left there.
            tags[columns.bad] = -1
            fields.name = Coded(tags, choice.names)
        return fields

    def _stages(
        self, slices: Slices, columns: Columns, fields: MessageFields, rejected: NDArray[np.bool_]
    ) -> NDArray[np.bool_] | None:
        """Decode staged bytes; return which rows are sealed, or None without stages."""
        choice = next((s for _, s in columns.plan.shape.fields if isinstance(s, Choice)), None)
        if choice is None:
            return None
        sealed: NDArray[np.bool_] | None = None
        for index, shape in enumerate(choice.shapes):
            for _, staged in shape.fields:
                if not isinstance(staged, Staged):
                    continue
                chosen = np.flatnonzero(columns[choice.tag] == index)
                sealed = np.zeros(len(slices), np.bool_)
                # Encrypted or obfuscated bytes need the connection's access id and number, which
                # only the scalar decoder follows.
                closed = self._transformed(fields)[chosen]
                sealed[chosen[closed]] = True
                starts = columns[staged.start].astype(np.int64)[~closed]
                stops = starts + columns[staged.size][~closed]
                self._stage(slices, staged, chosen[~closed], starts, stops, fields, rejected)
        return sealed

    def _stage(
        self,
        slices: Slices,
        staged: Staged,
        rows: NDArray[np.intp],
        starts: Ints,
        stops: Ints,
        fields: MessageFields,
        rejected: NDArray[np.bool_],
    ) -> None:
        name = staged.layout.name
        columns = self.kernels.stage(name).decode(slices.data, starts, stops)
        rejected[rows[columns.bad]] = True
        values = ArrowBuilder(columns, reveal=self._reveal).struct(
            self._whole.field(name).type, len(rows)
        )
        # Rows that the stage rejected go to the scalar decoder as a whole.
        if len(columns.bad):
            good = np.delete(np.arange(len(rows)), columns.bad)
            rows, values = rows[good], values.take(pa.array(good))
        fields.structs[name] = rows, values

    def _transformed(self, fields: MessageFields) -> NDArray[np.bool_]:
        """Return the rows whose staged bytes are transformed: a flag in the head says so."""
        closed = np.zeros(fields.rows, np.bool_)
        for flag in self.protocol.meaning.transformed:
            closed |= np.asarray(fields.fields[flag].to_numpy(zero_copy_only=False))
        return closed

    def _with_stages(self, struct: pa.StructArray, fields: MessageFields) -> pa.StructArray:
        """Return the struct with the results of stages."""
        kind = struct.type
        children = []
        for at in range(kind.num_fields):
            field = kind.field(at)
            staged = fields.structs.get(field.name)
            # Alternatives of the body are in the struct already; stages are added.
            if staged is None or field.name in self._bodies:
                children.append(struct.field(at))
            else:
                rows, values = staged
                children.append(values if rows is None else scatter(values, rows, fields.rows))
        return pa.StructArray.from_arrays(children, fields=list(kind))

    # -- columns -----------------------------------------------------------------------------

    def _body(self, fields: MessageFields) -> pa.Array:
        """Return the application's bytes of each message."""
        meaning = self.protocol.meaning
        parts = [part for path in meaning.body if (part := fields.at(path)) is not None]
        if meaning.body_row is not None:
            value = Evaluator(fields).value(meaning.body_row)
            return array_of(value, fields.rows, pa.binary())
        return _merged(parts, fields.rows, pa.binary())

    def _batch(
        self,
        slices: Slices,
        fields: MessageFields,
        struct: pa.StructArray,
        body: pa.Array,
        sealed: NDArray[np.bool_],
    ) -> pa.RecordBatch:
        rows = fields.rows
        if sealed.any():
            body = _null_where(body, sealed)
        semantic = self._semantic(fields) | {"ids": self._ids(fields)}
        self._add_arguments(fields, body, semantic)
        body_bytes = _lengths(body)
        struct = _pruned(struct, self.schema.field(self.protocol.name).type)
        hidden = self._hidden(fields, semantic["target"])
        if hidden is not None:
            body, struct = without(body, hidden), without_content(struct, hidden)
        numbers = slices.pieces.columns
        piece = slices.piece
        # A frame may begin in the middle of a packet: its offset in the file is that of the
        # packet's payload plus the bytes before it.
        within = slices.starts - numbers[START, piece]
        columns = {
            "ts_ns": pa.array(slices.ts_ns),
            "first_ns": pa.array(numbers[PIECE_TS, piece]),
            "connection": pa.array(slices.connection),
            "direction": Coded(slices.directions.astype(np.int32), DIRECTIONS).dictionary(),
            "protocol": Coded(np.zeros(rows, np.int32), (self.protocol.name,)).dictionary(),
            "body": body,
            "sealed": pa.array(sealed),
            "size_bytes": pa.array(slices.stops - slices.starts),
            "body_bytes": body_bytes,
            "tunnel_link": pa.nulls(rows, pa.int64()),
            "file": Coded(slices.pieces.file[piece], tuple(self._files)).dictionary(),
            "offset": pa.array(numbers[FILE_OFFSET, piece] + within),
            **semantic,
        }
        arrays = [columns[field.name] for field in COMMON]
        return pa.RecordBatch.from_arrays([*arrays, struct], schema=self.schema)

    def _hidden(
        self, fields: MessageFields, target: pa.DictionaryArray
    ) -> NDArray[np.bool_] | None:
        """Return which messages may hold credentials; None if no message does."""
        sign_on = self.protocol.meaning.sign_on
        if self._reveal or not sign_on.targets:
            return None
        hidden = is_one_of(target, sign_on.targets)
        part = Evaluator(fields).value(sign_on.part)
        if part is not None:
            parts = array_of(part, fields.rows, pa.string()).is_valid()
            hidden |= np.asarray(pc.and_(target.is_null(), parts))
        return hidden if hidden.any() else None

    def _semantic(self, fields: MessageFields) -> dict[str, pa.Array]:
        evaluator = Evaluator(fields)
        found: dict[str, pa.Array] = {}
        for name in SEMANTIC:
            value = evaluator.value(getattr(self.protocol.meaning, name))
            if name in CODED:
                found[name] = dictionary_of(value, fields.rows)
            else:
                found[name] = array_of(value, fields.rows, COMMON.field(name).type)
        return found

    def _add_arguments(
        self, fields: MessageFields, body: pa.Array, columns: dict[str, pa.Array]
    ) -> None:
        """Set `client` and `ids` where they are arguments of calls."""
        arguments = argument_reader(self.protocol)
        if arguments is None:
            return
        rows = np.flatnonzero(is_one_of(columns["target"], arguments.targets))
        if not len(rows):
            return
        picked = pa.array(rows)
        if arguments.rows is None:
            found = [arguments.of_body(each) for each in body.take(picked).to_pylist()]
        else:
            owners, items = fields.row_kinds[arguments.rows.row]
            places = np.full(fields.rows, -1, np.intp)
            places[rows] = np.arange(len(rows))
            inside = np.flatnonzero(places[owners] >= 0)
            found = arguments.of_row_columns(
                places[owners[inside]], items.take(pa.array(inside)), len(rows)
            )
        targets, kinds = (columns[name].take(picked).to_pylist() for name in ("target", "kind"))
        for name, given in (
            ("client", map(arguments.client, kinds, targets, found)),
            ("ids", map(arguments.ids, targets, found)),
        ):
            before = columns[name]
            added = scatter(pa.array(given, before.type), rows, fields.rows)
            known = before.null_count < len(before)
            columns[name] = pc.if_else(before.is_valid(), before, added) if known else added

    def _ids(self, fields: MessageFields) -> pa.Array:
        """Return the notification ids that messages carry or acknowledge."""
        kind = COMMON.field("ids").type
        parts = []
        for each in self.protocol.meaning.ids:
            before, listed, after = each.path.partition("[]")
            part = fields.at(before)
            if part is None:
                continue
            rows, values = part
            parts.append((rows, _as_lists(values, bool(listed), after.lstrip("."), kind)))
        return _merged(parts, fields.rows, kind)

    # -- messages in tunnels -----------------------------------------------------------------

    def _tunnelled(
        self, tunnels: Tunnels, slices: Slices, fields: MessageFields, good: NDArray[np.bool_]
    ) -> tuple[Protocol, pa.RecordBatch, NDArray[np.intp]] | None:
        """Build the messages in tunnels, as rows of their own protocol."""
        if tunnels.carrier not in fields.structs:
            return None
        rows, values = fields.structs[tunnels.carrier]
        # Only alternatives of the body can be carriers, and these always have rows.
        assert rows is not None
        picked = np.flatnonzero(good[rows])
        if len(picked) < len(rows):
            rows, values = rows[picked], values.take(pa.array(picked))
        if not len(rows):
            return None
        carried = registry.find(tunnels.protocol)
        if self._inner_builder is None:
            self._inner_builder = MessageBuilder(
                carried, self.dialect, self._files, reveal=self._reveal
            )
        start = offset_in_frame(self.protocol, self.dialect, tunnels.inner)
        batch = self._inner_builder.build_tunnelled(slices.take(rows), values, tunnels, start)
        return carried, batch, rows

    def build_tunnelled(
        self, links: Slices, carriers: pa.StructArray, tunnels: Tunnels, start: int
    ) -> pa.RecordBatch:
        """Return rows of messages in tunnels; each begins `start` bytes into the link's frame."""
        fields = MessageFields(len(links))
        stage = tunnels.message
        messages = carriers.field(stage)
        fields.structs = {stage: (None, messages)}
        # The frame around the message belongs to the link's row, so all other fields are null.
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
            _inner_pieces(links, start),
            links.starts + start,
            links.stops,
            links.directions,
            links.ts_ns,
            links.arrival,
            number,
        )
        closed = np.zeros(len(links), np.bool_)
        batch = self._batch(slices, fields, struct, self._body(fields), closed)
        at = batch.schema.get_field_index("tunnel_link")
        return batch.set_column(at, batch.schema.field(at), pa.array(links.connection))


# -- columns ---------------------------------------------------------------------------------


def _inner_pieces(links: Slices, start: int) -> Ints:
    """Return the pieces with the first byte of the messages in tunnels."""
    places = links.starts + start
    # Most messages in tunnels begin in the packet of their link's frame; only for the others is a
    # search needed.
    ends = np.append(links.pieces.columns[START, 1:], np.iinfo(np.int64).max)
    piece = links.piece.copy()
    later = places >= ends[piece]
    piece[later] = pieces_of(links.pieces, places[later])
    return piece


def pieces_of(pieces: Pieces, positions: Ints) -> NDArray[np.intp]:
    """Return the pieces that hold these positions of the buffer."""
    return np.searchsorted(pieces.columns[START], positions, side="right") - 1


def _merged(
    parts: Iterable[tuple[NDArray[np.intp] | None, pa.Array]], rows: int, kind: pa.DataType
) -> pa.Array:
    """Return values of several alternatives, each at its rows; other rows are null."""
    found = [(chosen, values) for chosen, values in parts if len(values)]
    if not found:
        return pa.nulls(rows, kind)
    if len(found) == 1:
        chosen, values = found[0]
        return values if chosen is None else scatter(values, chosen, rows)
    places = np.concatenate([chosen for chosen, _ in found if chosen is not None])
    values = pa.concat_arrays([values for _, values in found])
    # Rows of different alternatives interleave, and `scatter` wants ascending rows.
    order = np.argsort(places, kind="stable")
    return scatter(values.take(pa.array(order)), places[order], rows)


def _as_lists(values: pa.Array, listed: bool, name: str, kind: pa.DataType) -> pa.Array:
    """Return each value as a list of one, or a field of each item of a list."""
    if not listed:
        offsets = pa.py_buffer(np.arange(len(values) + 1, dtype=np.int32))
        return pa.Array.from_buffers(kind, len(values), [None, offsets], children=[values])
    items = values.values.field(name) if name else values.values
    parts = values.buffers()[:2]
    return pa.Array.from_buffers(kind, len(values), parts, children=[items])


def _lengths(body: pa.Array) -> pa.Array:
    """Return the length of each body; null without one."""
    return pc.binary_length(body).cast(pa.int64())


def _null_where(body: pa.Array, sealed: NDArray[np.bool_]) -> pa.Array:
    """Return the bodies, null where they are sealed."""
    return pc.if_else(pa.array(sealed), pa.scalar(None, body.type), body)


def _pruned(struct: pa.StructArray, kind: pa.DataType) -> pa.StructArray:
    """Return a struct with only the fields that the table has."""
    if struct.type == kind:
        return struct
    children = []
    for at in range(kind.num_fields):
        field = kind.field(at)
        child = struct.field(field.name)
        children.append(_pruned(child, field.type) if pa.types.is_struct(field.type) else child)
    parts = struct.buffers()[:1]
    return pa.StructArray.from_buffers(kind, len(struct), parts, children=children)


# -- ids of tunnels --------------------------------------------------------------------------

_FNV_BASIS: Final = np.uint64(FNV_BASIS)
_FNV_PRIME: Final = np.uint64(FNV_PRIME)


def tunnel_connections(instances: NDArray[Any], tunnels: NDArray[Any]) -> NDArray[np.int64]:
    """Return `wirelake.records.tunnels.tunnel_connection` of each pair, byte by byte at once."""
    value = np.full(len(instances), _FNV_BASIS, np.uint64)
    for byte in b"tunnel":
        value = (value ^ np.uint64(byte)) * _FNV_PRIME
    for numbers in (instances, tunnels):
        for column in numbers.astype(">i8").view(np.uint8).reshape(-1, 8).T:
            # All operands are uint64: the product wraps, as FNV-1a needs.
            value = (value ^ column.astype(np.uint64)) * _FNV_PRIME
    return np.asarray(np.maximum(value >> np.uint64(1), np.uint64(1)), np.int64)


# -- coverage --------------------------------------------------------------------------------

UNDECIDED: Final = -1
"""Instead of a protocol number: not known yet, the first bytes decide."""
IGNORED: Final = -2
"""Instead of a protocol number: no protocol, or one that is not installed."""
UNSEEN: Final = -3
"""Instead of a protocol number: no packet of the connection was seen."""

_COUNTS: Final = ("decoded", "faulty", "undecryptable", "ignored", "messages", "faults")
ENTRY: Final = np.dtype([("protocol", "i2"), *((name, "i8") for name in _COUNTS)])
"""The record of a stream."""


class CoverageCounts:
    """Byte and message counts of all streams, and the number of each stream's protocol.

    The protocol is here because both are indexed by stream, grow together and are saved together.
    """

    def __init__(self) -> None:
        self.entries = self._empty(1024)

    @staticmethod
    def _empty(count: int) -> NDArray[Any]:
        entries = np.zeros(count, ENTRY)
        entries["protocol"] = UNSEEN
        return entries

    def grow_to(self, streams: int) -> None:
        """Grow to at least this many streams."""
        held = len(self.entries)
        if streams > held:
            self.entries = np.concatenate(
                [self.entries, self._empty(max(streams, 2 * held) - held)]
            )

    def restore(self, entries: NDArray[Any]) -> None:
        """Restore the entries of the first streams."""
        self.grow_to(len(entries))
        self.entries[: len(entries)] = entries

    def add(self, name: str, streams: NDArray[Any], amounts: NDArray[Any] | int) -> None:
        """Add to a count; a stream may occur several times."""
        if isinstance(amounts, int):
            amounts = np.full(len(streams), amounts, np.int64)
        _add(self.entries[name], streams.astype(np.int64), amounts.astype(np.int64))

    def forget(self, streams: NDArray[Any]) -> None:
        """Reset streams whose numbers become free."""
        # Numbers of streams are reused, so the next stream must find no counts of the last one.
        # Byte by byte, because assigning records takes several times as long.
        self.entries.view(np.uint8).reshape(-1, ENTRY.itemsize)[streams] = 0
        self.entries["protocol"][streams] = UNSEEN


@kernel
def _add(counts: NDArray[Any], streams: NDArray[np.int64], amounts: NDArray[np.int64]) -> None:
    # 300,000 additions take 2 ms here and 79 ms with `np.add.at`.
    for i in range(U(len(streams))):
        counts[U(streams[i])] += amounts[i]


def coverage_batch(
    streams: Streams,
    coverage: CoverageCounts,
    chosen: NDArray[np.int32],
    protocols: Sequence[str],
    files: Sequence[str],
) -> pa.RecordBatch:
    """Return the rows of `coverage` for some streams: counters of reassembly and of decoding."""
    entries = coverage.entries[chosen]
    new, gap = streams.new[chosen], streams.gap[chosen]
    # Undecided, ignored and unseen are all null in the table.
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
