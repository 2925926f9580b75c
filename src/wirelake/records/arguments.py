"""Named arguments of messages: what tables need of calls that a hub serves itself.

A protocol's `Meaning.arguments` declares which arguments name the client of a sign-on, the
notifications that are sent and acknowledged, and when they were published. They are members of the
JSON object in the body, or rows with a name and a value each. `ArgumentReader` reads them in both
forms, of one message or of a batch; both readers of captures and both implementations of the
matching rules use it.

A message may have anything there. What does not have the declared type counts as absent, as it does
for a hub, which refuses such a call.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.wire import model as m
from wirelake.wire.meaning import Argument, Arguments
from wirelake.wire.protocol import Protocol
from wirelake.wire.views.arrow import readable

from .structs import by_kind

__all__ = ["ArgumentReader", "argument_reader"]

_OTHER: Final = object()
"""In place of a value that is neither a text, nor an integer, nor a list of texts."""

Values = Mapping[str, Any]
"""Arguments by name: a text, an integer, a list, or something that does not count."""


@functools.cache
def argument_reader(protocol: Protocol) -> ArgumentReader | None:
    """Return the reader of a protocol's arguments; None when its meaning declares none."""
    arguments = protocol.meaning.arguments
    return None if arguments is None else ArgumentReader(protocol, arguments)


class ArgumentReader:
    """Reads the declared arguments of a protocol's messages."""

    def __init__(self, protocol: Protocol, arguments: Arguments):
        self._protocol = protocol.name
        self._client = arguments.client
        self._ids = arguments.ids
        self._published = arguments.published_ms
        declared = [each for each in (self._client, *self._ids, self._published) if each]
        self.targets = frozenset(each.target for each in declared)
        """Targets of messages with such arguments."""
        self.published_target = None if self._published is None else self._published.target
        """The target of messages that say when a notification was published."""
        self.names = frozenset(name for each in declared for name in each.names)
        """Names of arguments."""
        # Members that no table needs are skipped without becoming objects.
        fields = [(name, Any, None) for name in sorted(self.names)]
        members = msgspec.defstruct("Members", fields)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(members)
        self.rows = arguments.rows
        """The rows that have the arguments; None when they are in the body."""
        self._struct_path = [] if self.rows is None else [_rows_name(protocol), self.rows.row]

    # -- the declared arguments --------------------------------------------------------------

    def client(self, kind: str | None, target: str | None, values: Values) -> str | None:
        """Return the client that signs on with a message: a request."""
        if self._client is None or self._client.target != target or kind != "request":
            return None
        found = _texts(self._client, values)
        return found[0] if found else None

    def ids(self, target: str | None, values: Values) -> list[str] | None:
        """Return the notifications that a message carries or acknowledges."""
        for each in self._ids:
            if each.target == target:
                return _texts(each, values) or None
        return None

    def published_ms(self, target: str | None, values: Values) -> int | None:
        """Return when the notification of a message was published."""
        if self._published is None or self._published.target != target:
            return None
        found = values.get(self._published.names[0])
        return found if type(found) is int else None

    # -- values by name ----------------------------------------------------------------------

    def of_body(self, body: bytes | None) -> Values:
        """Return the arguments in a JSON body; none of a body that is not a JSON object."""
        if not body:
            return {}
        try:
            found = self._decoder.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return {}
        return {name: getattr(found, name) for name in self.names}

    def of_rows(self, rows: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]) -> Values:
        """Return the arguments in rows, each a name and the nodes of a value."""
        found: dict[str, Any] = {}
        for name, nodes in rows:
            # Of several rows with one name the first counts.
            if name in self.names and name not in found:
                found[name] = _value(nodes)
        return found

    def of_struct(self, struct: Mapping[str, Any] | None) -> Values:
        """Return the arguments in the rows of a message's struct."""
        assert self.rows is not None
        value: Any = struct
        for name in self._struct_path:
            value = None if value is None else value.get(name)
        names = self.rows.name, self.rows.value
        return self.of_rows((row[names[0]], row[names[1]] or ()) for row in value or ())

    def of_batch(self, batch: pa.RecordBatch, rows: NDArray[np.intp]) -> list[Values]:
        """Return the arguments of some rows of a batch of `messages`. Missing columns are null."""
        column = batch.schema.get_field_index("body" if self.rows is None else self._protocol)
        if column < 0 or not len(rows):
            return [{}] * len(rows)
        found = batch.column(column).take(pa.array(rows))
        if self.rows is None:
            return [self.of_body(body) for body in found.to_pylist()]
        listed = pc.struct_field(found, self._struct_path)
        counts = pc.fill_null(pc.list_value_length(listed), 0).to_numpy()
        owners = np.repeat(np.arange(len(rows)), counts)
        return self.of_row_columns(owners, listed.flatten(), len(rows))

    def of_row_columns(
        self, owners: NDArray[np.intp], rows: pa.StructArray, messages: int
    ) -> list[Values]:
        """Return the arguments in rows as columns; `owners` has the message of each row."""
        assert self.rows is not None
        found: list[Any] = [{} for _ in range(messages)]
        names = rows.field(self.rows.name)
        wanted = np.flatnonzero(
            pc.fill_null(pc.is_in(names, pa.array(sorted(self.names))), False).to_numpy(
                zero_copy_only=False
            )
        )
        picked = pa.array(wanted)
        values = _values(rows.field(self.rows.value).take(picked))
        for owner, name, value in zip(
            owners[wanted].tolist(), names.take(picked).to_pylist(), values, strict=True
        ):
            found[owner].setdefault(name, value)
        return found


def _rows_name(protocol: Protocol) -> str:
    """Return the field of a message's struct that has its rows."""
    for part in protocol.model().parts:
        if isinstance(part, m.Field) and isinstance(part.type, m.Rows):
            return by_kind(part.name)
    raise ValueError(f"{protocol.name} has no rows")


def _texts(argument: Argument, values: Values) -> list[str]:
    """Return the texts of an argument, alone or in lists; none if one of its values is no text."""
    found: list[str] = []
    for name in argument.names:
        value = values.get(name)
        each = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(text, str) for text in each):
            return []
        found += map(readable, each)
    return found


# -- self-describing values ------------------------------------------------------------------


def _values(listed: pa.ListArray) -> list[Any]:
    """Return the values of a column of nodes.

    Almost all values are one node. These are read as columns: a dict for each node would cost 2 µs.
    """
    counts = pc.fill_null(pc.list_value_length(listed), 0).to_numpy()
    starts = np.cumsum(counts) - counts
    nodes = listed.flatten()
    firsts = nodes.take(pa.array(starts[counts > 0]))
    texts, numbers, reals = (firsts.field(name) for name in ("text", "int", "float"))
    found: list[Any] = [None] * len(counts)
    for place, text, number, real in zip(
        np.flatnonzero(counts > 0).tolist(),
        texts.to_pylist(),
        numbers.to_pylist(),
        reals.to_pylist(),
        strict=True,
    ):
        found[place] = _single(text, number, real)
    for place in np.flatnonzero(counts > 1).tolist():
        start = int(starts[place])
        found[place] = _value(nodes.slice(start, int(counts[place])).to_pylist())
    return found


def _value(nodes: Sequence[Mapping[str, Any]]) -> Any:
    """Return the value of nodes in preorder: a text, an integer, a list of texts, or neither."""
    if not nodes:
        return None
    first, *rest = nodes
    if not rest:
        return _single(first["text"], first["int"], first["float"])
    if all(node["parent"] == 0 and node["name"] is None for node in rest):
        return [_OTHER if node["text"] is None else node["text"] for node in rest]
    return _OTHER


def _single(text: str | None, number: int | None, real: float | None) -> Any:
    # A NaN has its bits in `int`.
    return text if text is not None else None if real is not None else number
