"""Between rows of ESNP and what services take and give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from wirelake.hub.errors import HubError
from wirelake.hub.services import Reply, Result
from wirelake.protocols.esnp.layout import Address, AddressKind, Payload, Row
from wirelake.protocols.esnp.values import data_rows

__all__ = ["payload_of", "rows_of", "target_of"]

_SERVICE: Final = int(AddressKind.SERVICE)
_OP: Final = int(AddressKind.OP)


def target_of(rows: Iterable[Row]) -> tuple[str, str]:
    """Service and op of the address; empty where there is none. The first of a kind counts."""
    service = op = ""
    for row in rows:
        if type(row) is Address:
            if row.kind == _SERVICE:
                service = service or row.value
            elif row.kind == _OP:
                op = op or row.value
    return service, op


def payload_of(rows: Iterable[Row]) -> bytes:
    """All PAYLOAD rows together."""
    return b"".join([row.data for row in rows if type(row) is Payload])


def rows_of(result: Result) -> tuple[Row, ...]:
    """The rows of a result; EncodeError for values that ESNP has no type for."""
    if result is None:
        return ()
    if isinstance(result, dict):
        return data_rows(result)
    if isinstance(result, bytes):
        return (Payload(data=result),)
    if isinstance(result, Reply):
        rows: tuple[Row, ...] = () if result.data is None else data_rows(result.data)
        if result.payload is not None:
            rows = (*rows, Payload(data=result.payload))
        return (*rows, *result.rows) if rows else result.rows
    if isinstance(result, msgspec.Struct):
        return data_rows(msgspec.to_builtins(result, builtin_types=(bytes,)))
    raise HubError("internal")
