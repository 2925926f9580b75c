"""The input of the engines: rows of `messages` and `faults`, ends of connections, facts.

    for row in rows_from_batch(batch):
        engine.feed(row)

Events of one connection must come in order of time. Events of the same time come in this order:
opened, facts, faults, messages (in the order of `messages`), closed. Connections may be mixed in
any way. The rules are in `docs/concepts/matching.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .protocol_rules import PUBLISHED, rules_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Closed",
    "Direction",
    "Event",
    "Fact",
    "FaultRow",
    "MessageRow",
    "Opened",
    "fields_of",
    "in_order",
    "opposite",
    "rows_from_batch",
]


Direction: TypeAlias = Literal["c2s", "s2c"]
"""The sender: the client (c2s) or the server (s2c)."""


class MessageRow(msgspec.Struct, gc=False):
    """The columns of `messages` that engines read."""

    ts_ns: int
    first_ns: int | None
    connection: int
    direction: str
    protocol: str
    kind: str
    name: str
    message_id: int | None = None
    reply_to: int | None = None
    target: str | None = None
    status: str | None = None
    reason: str | None = None
    client: str | None = None
    ids: list[str] | None = None
    size_bytes: int = 0
    body_bytes: int | None = None
    tunnel_link: int | None = None
    fields: dict[str, Any] | None = None
    """What `ProtocolRules.fields` names of the protocol's struct, and `PUBLISHED` of arguments;
    None for all other messages."""


class FaultRow(msgspec.Struct, gc=False):
    """The columns of `faults` that engines read.

    A gap has the time of the first packet after it.
    """

    ts_ns: int
    connection: int
    direction: str
    code: str
    missing_bytes: int = 0
    protocol: str | None = None


class Opened(msgspec.Struct, gc=False):
    """The beginning of a connection in the capture."""

    ts_ns: int
    connection: int
    protocol: str | None = None
    client_address: str | None = None
    client_port: int | None = None
    server_address: str | None = None
    server_port: int | None = None
    whole: bool = True
    """Whether the beginning was captured. If not, calls may be in progress."""


class Closed(msgspec.Struct, gc=False):
    """The end of a connection: FIN in both directions, RST, or a new connection of the same
    endpoints."""

    ts_ns: int
    connection: int
    side: str | None = None
    """The direction of the first FIN or of the RST; null when neither was seen."""
    how: str | None = None
    """fin, rst, or anew (a new connection of the same two ends)."""


class Fact(msgspec.Struct, gc=False):
    """Something that a recorder knows and the wire does not carry."""

    ts_ns: int
    kind: str
    connection: int | None = None
    data: dict[str, Any] = {}


Event: TypeAlias = MessageRow | FaultRow | Opened | Closed | Fact
"""Everything that an engine handles."""

_OPPOSITE: Final = {"c2s": "s2c", "s2c": "c2s"}


def opposite(direction: str) -> str:
    """Return the other direction."""
    return _OPPOSITE[direction]


_RANK: Final[dict[type, int]] = {Opened: 0, Fact: 1, FaultRow: 2, MessageRow: 3, Closed: 4}
_AFTER_END: Final = 5


def in_order(events: Iterable[Event]) -> list[Event]:
    """Sort events into the order that engines expect; the sort is stable.

    The end of a connection comes after all its other events: bytes that were captured out of order
    may complete a message after the second FIN. Facts after the end come last. At one and the same
    time the number of the connection decides: a tunnel has events of several links, and in which
    order readers yield those depends on how the links are shared among processes.
    """
    every = list(events)
    ends: dict[int, int] = {}
    for event in every:
        if isinstance(event, Closed):
            ends[event.connection] = min(event.ts_ns, ends.get(event.connection, event.ts_ns))
    last = dict(ends)
    for event in every if ends else ():
        if not isinstance(event, Fact):
            at = getattr(event, "tunnel_link", None) or event.connection
            last[at] = max(event.ts_ns, last.get(at, event.ts_ns))

    def place(event: Event) -> tuple[int, int, int, int]:
        connection = getattr(event, "tunnel_link", None) or event.connection or 0
        if isinstance(event, Closed):
            return last[event.connection], _RANK[Closed], connection, event.ts_ns
        if isinstance(event, Fact) and event.connection is not None:
            end_ns = ends.get(event.connection, event.ts_ns)
            if event.ts_ns > end_ns:
                found = max(event.ts_ns, last[event.connection])
                return found, _AFTER_END, connection, event.ts_ns
        return event.ts_ns, _RANK[type(event)], connection, event.ts_ns

    return sorted(every, key=place)


def fields_of(
    protocol: str,
    name: str,
    struct: Mapping[str, Any] | None,
    target: str | None = None,
    body: bytes | None = None,
) -> dict[str, Any] | None:
    """Return the `fields` of one message, from the struct of its protocol as a dict, or from its
    arguments."""
    rules = rules_of(protocol)
    arguments = rules.arguments
    if arguments is not None and target is not None and target == arguments.published_target:
        values = arguments.of_body(body) if arguments.rows is None else arguments.of_struct(struct)
        return {PUBLISHED: arguments.published_ms(target, values)}
    paths = rules.fields.get(name)
    if paths is None or struct is None:
        return None
    return {key: _follow(struct, path.split(".")) for key, path in paths.items()}


def _follow(value: Any, path: Sequence[str]) -> Any:
    for number, step in enumerate(path):
        if value is None:
            return None
        if step.endswith("[]"):
            items = value.get(step[:-2])
            rest = path[number + 1 :]
            return None if items is None else [_follow(item, rest) for item in items]
        value = value.get(step)
    return value


# -- Arrow: batches of `messages` to rows ----------------------------------------------------------
#
# `to_pylist` creates a Python object per value through generic code. Columns are converted one by
# one instead: integers straight from the buffer, text through its dictionary, so that equal texts
# are one object, and only the structs of messages of which an engine reads fields are touched.


_INTEGERS: Final = frozenset(
    {
        "ts_ns",
        "first_ns",
        "connection",
        "message_id",
        "reply_to",
        "size_bytes",
        "body_bytes",
        "tunnel_link",
    }
)
_COLUMNS: Final = tuple(name for name in MessageRow.__struct_fields__ if name != "fields")


def rows_from_batch(batch: pa.RecordBatch) -> list[MessageRow]:
    """Return the rows of a batch of `messages`. Missing columns are null."""
    columns = [_column(batch, name) for name in _COLUMNS]
    protocols, targets = (columns[_COLUMNS.index(name)] for name in ("protocol", "target"))
    fields = _fields(batch, protocols, columns[_COLUMNS.index("name")])
    _add_published(batch, protocols, targets, fields)
    return list(map(MessageRow, *columns, fields))


# -- columns as lists ------------------------------------------------------------------------


def _column(batch: pa.RecordBatch, name: str) -> list[Any]:
    place = batch.schema.get_field_index(name)
    if place < 0:
        return [None] * batch.num_rows
    array = batch.column(place)
    if array.null_count == len(array):
        return [None] * len(array)
    if name == "ids":
        return _spread(array, _text_lists)
    return _integers(array) if name in _INTEGERS else _texts(array)


def _integers(array: pa.Array) -> list[Any]:
    if array.null_count:
        return _spread(array, _integers)
    values = pc.cast(array, pa.int64())
    return _numbers(values, "q", 8)


def _numbers(array: pa.Array, code: str, width: int) -> list[Any]:
    """Return integers from the buffer of an array without nulls."""
    start = array.offset * width
    view = memoryview(array.buffers()[1])[start : start + len(array) * width]
    return view.cast("B").cast(code).tolist()  # type: ignore[call-overload,no-any-return]


def _texts(array: pa.Array) -> list[Any]:
    coded = array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array)
    values = [*coded.dictionary.to_pylist(), None]
    numbers = pc.fill_null(pc.cast(coded.indices, pa.int32()), len(values) - 1)
    return [values[number] for number in _numbers(numbers, "i", 4)]


def _text_lists(array: pa.Array) -> list[Any]:
    flat = _texts(array.flatten())
    lists, start = [], 0
    for length in _integers(pc.list_value_length(array)):
        lists.append(flat[start : start + length])
        start += length
    return lists


def _spread(array: pa.Array, convert: Callable[[pa.Array], list[Any]]) -> list[Any]:
    """Convert the values that are not null; None elsewhere."""
    values: list[Any] = [None] * len(array)
    places = pc.indices_nonzero(pc.is_valid(array))
    for place, value in zip(_integers(places), convert(pc.take(array, places)), strict=True):
        values[place] = value
    return values


# -- the fields of a protocol's struct that engines read ---------------------------------------


def _fields(batch: pa.RecordBatch, protocols: list[Any], names: list[Any]) -> list[Any]:
    found: list[Any] = [None] * batch.num_rows
    # Few messages have such fields (a sign-on, a handshake), so their rows are taken out of the
    # struct first, and the structs of all others are never converted.
    needed = {
        (protocol, name): paths
        for protocol in set(protocols) - {None}
        for name, paths in rules_of(protocol).fields.items()
    }
    places: dict[tuple[str, str], list[int]] = {pair: [] for pair in needed}
    needed_names = {name for _, name in needed}
    for number, name in enumerate(names):
        if name in needed_names and (protocols[number], name) in places:
            places[protocols[number], name].append(number)
    for (protocol, name), rows in places.items():
        column = batch.schema.get_field_index(protocol)
        if rows and column >= 0:
            struct = pc.take(batch.column(column), pa.array(rows, pa.int64()))
            values_of_rows = _values_at(struct, needed[protocol, name])
            for number, values in zip(rows, values_of_rows, strict=True):
                found[number] = values
    return found


def _add_published(
    batch: pa.RecordBatch, protocols: list[Any], targets: list[Any], fields: list[Any]
) -> None:
    """Add the publication times that are arguments of messages."""
    for protocol in sorted(set(protocols) - {None}):
        arguments = rules_of(protocol).arguments
        wanted = None if arguments is None else arguments.published_target
        if arguments is None or wanted is None or wanted not in targets:
            continue
        rows = [
            number
            for number, target in enumerate(targets)
            if target == wanted and protocols[number] == protocol
        ]
        found = arguments.of_batch(batch, np.array(rows, np.intp))
        for number, values in zip(rows, found, strict=True):
            fields[number] = {PUBLISHED: arguments.published_ms(wanted, values)}


def _values_at(struct: pa.Array, paths: Mapping[str, str]) -> list[dict[str, Any]]:
    columns = [_path(struct, path.split(".")) for path in paths.values()]
    return [dict(zip(paths, values, strict=True)) for values in zip(*columns, strict=True)]


def _path(array: pa.Array, path: Sequence[str]) -> list[Any]:
    """Return the values at a path; lists where the path goes through a list."""
    for number, step in enumerate(path):
        array = pc.struct_field(array, step.removesuffix("[]"))
        if step.endswith("[]"):
            return _nested(array, path[number + 1 :])
    return array.to_pylist()  # type: ignore[no-any-return]


def _nested(array: pa.Array, rest: Iterable[str]) -> list[Any]:
    flat = iter(_path(array.flatten(), list(rest)))
    lengths = pc.list_value_length(array).to_pylist()
    return [None if length is None else [next(flat) for _ in range(length)] for length in lengths]
