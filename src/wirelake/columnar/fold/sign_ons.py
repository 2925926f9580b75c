"""The connection on which a client was before: the column `previous_connection`.

Implements the part of "Connections" in `docs/concepts/matching.md` that needs more than one
connection. The fold of each connection writes its sign-ons (`_sign_ons`); sorted by client and
time, the one before is the previous connection.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from .groups import Groups, column_of, numbers_or

__all__ = ["previous_connections", "with_previous"]

_COLUMN: Final = "previous_connection"
_ORDER: Final = [(name, "ascending") for name in ("protocol", "client", "ts_ns", "connection")]


def previous_connections(sign_ons: pa.Table) -> pa.Table:
    """Return distinct sign-ons, each with the connection of the same client's one before it.

    At one time, the smaller id of a connection goes first.
    """
    ordered = sign_ons.select(["protocol", "client", "connection", "ts_ns"]).sort_by(_ORDER)
    groups = Groups.by(*(column_of(ordered, name) for name, _ in _ORDER))
    distinct = ordered.take(pa.array(groups.firsts))
    clients = Groups.by(*(column_of(distinct, name) for name in ("protocol", "client")))
    is_first = np.zeros(len(distinct), np.bool_)
    is_first[clients.firsts] = True
    connections = numbers_or(column_of(distinct, "connection"), 0)
    before = np.concatenate([connections[:1], connections[:-1]])
    return distinct.append_column(_COLUMN, pa.array(before, mask=is_first))


def with_previous(connections: pa.Table, sign_ons: pa.Table) -> pa.Table:
    """Set `previous_connection` of rows of `connections`; they keep their order."""
    known = previous_connections(sign_ons)
    rows, count = len(connections), len(known)
    # A row and its sign-on are in one group. The protocol is not part of the key: a row has that of
    # the first message of its connection, a sign-on that of its own message.
    groups = Groups.by(
        *(
            pa.concat_arrays([column_of(known, ours), column_of(connections, theirs)])
            for ours, theirs in (
                ("connection", "connection"),
                ("client", "client"),
                ("ts_ns", "signed_on_ns"),
            )
        )
    )
    before = pa.concat_arrays([column_of(known, _COLUMN), pa.nulls(rows, pa.int64())])
    found = groups.greatest(before).take(pa.array(groups.numbers()[count:]))
    place = connections.schema.get_field_index(_COLUMN)
    return connections.set_column(place, connections.schema.field(place), found)
