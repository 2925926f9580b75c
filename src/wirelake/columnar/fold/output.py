"""Final records as batches of `calls`, `connections` and `_sign_ons`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.records.cross_connection import CROSSING
from wirelake.records.schema import schema

from ..decode.meaning import Coded
from .calls import OUTCOMES
from .tables import CALL_TEXTS, CONNECTION_TEXTS, NO, NOTHING
from .text_codes import Texts

__all__ = ["calls_batch", "connections_batch", "integers", "sign_ons_batch"]

_CALLS: Final = schema("calls")
_CONNECTIONS: Final = schema("connections")
_DIRECTIONS: Final = ("c2s", "s2c")

Records = NDArray[Any]


def integers(values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column of numbers, null where they are missing: by default, where they are NOTHING."""
    absent = values == NOTHING if missing is None else missing
    return pa.array(values, mask=absent if absent.any() else None)


def calls_batch(calls: Records, texts: Texts) -> pa.RecordBatch:
    """Calls that are final, as rows."""
    asked, answered = calls["request_ns"], calls["response_ns"]
    latency = np.where((asked == NOTHING) | (answered == NOTHING), NOTHING, answered - asked)
    columns = {
        "direction": Coded(calls["way"].astype(np.int32), _DIRECTIONS).array(),
        "message_id": integers(calls["message_id"], calls["numbered"] == 0),
        "outcome": Coded(calls["outcome"].astype(np.int32), OUTCOMES).array(),
        "latency_ns": integers(latency),
        "tunnel_link": integers(calls["tunnel_link"], calls["tunnel_link"] == 0),
    }
    return _batch(_CALLS, columns, calls, CALL_TEXTS, texts)


def connections_batch(connections: Records, texts: Texts) -> pa.RecordBatch:
    """Connections that are final, as rows; the connection before is for others to find."""
    columns = {
        "duration_ns": pa.array(connections["last_ns"] - connections["first_ns"]),
        "resumed": pa.array(connections["resumed"] == 1, mask=connections["resumed"] < 0),
        "previous_connection": pa.nulls(len(connections), pa.int64()),
    }
    for name in ("client_port", "server_port"):
        columns[name] = integers(connections[name], connections[name] == NO)
    return _batch(_CONNECTIONS, columns, connections, CONNECTION_TEXTS, texts)


def sign_ons_batch(
    signed: NDArray[np.int64],
    connections: NDArray[np.int64],
    times: NDArray[np.int64],
    texts: Texts,
) -> pa.RecordBatch:
    """Who signed on: the rows of `EventArrays.signed`, and where and when that was."""
    client, protocol = (texts.array(codes.astype(np.int32)) for codes in signed[1:])
    arrays = [protocol, client, pa.array(connections), pa.array(times)]
    return pa.RecordBatch.from_arrays(arrays, schema=CROSSING["_sign_ons"])


def _batch(
    columns: pa.Schema,
    made: dict[str, pa.Array],
    records: Records,
    coded: tuple[str, ...],
    texts: Texts,
) -> pa.RecordBatch:
    """What is not made already is a field of the records: a text or a number."""
    arrays = []
    for field in columns:
        if field.name in made:
            arrays.append(made[field.name])
        elif field.name in coded:
            arrays.append(texts.array(np.ascontiguousarray(records[field.name])))
        else:
            arrays.append(integers(np.ascontiguousarray(records[field.name])))
    return pa.RecordBatch.from_arrays(arrays, schema=columns)
