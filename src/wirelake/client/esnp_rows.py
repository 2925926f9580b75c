"""Between the rows of ESNP messages and what a caller gives and gets."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from wirelake.protocols.esnp.address import address_to_pairs, parse_url
from wirelake.protocols.esnp.layout import Address, Message, Payload, Row
from wirelake.protocols.esnp.values import data_rows, values_of
from wirelake.wire.errors import WireError

from .errors import BadCall

__all__ = ["address_rows", "body_rows", "read_body"]


@functools.lru_cache(1024)
def address_rows(target: str) -> tuple[Row, ...]:
    """The rows of `service/op`, or of an `esnp://` URL with more parts."""
    if not isinstance(target, str):
        raise BadCall("wanted a target like test/add")
    url = target if "://" in target else f"esnp://_/{target.strip('/')}"
    try:
        where = parse_url(url)
    except WireError as error:
        raise BadCall(f"{target}: {error}") from error
    if where.service is None or where.op is None:
        raise BadCall(f"{target!r}: wanted a service and an operation, like test/add")
    return tuple(Address(kind=kind, value=value) for kind, value in address_to_pairs(where))


def body_rows(arguments: Any) -> tuple[Row, ...]:
    """The rows of what a caller gave: names and values, or bytes, or both as a pair."""
    match arguments:
        case None:
            return ()
        case bytes() | bytearray() | memoryview():
            return (Payload(data=bytes(arguments)),)
        case Mapping():
            try:
                return data_rows(arguments)
            except WireError as error:
                raise BadCall(f"this cannot be said in ESNP: {error}") from error
        case (Mapping() as named, bytes() as body):
            return (*body_rows(named), *body_rows(body))
        case _:
            raise BadCall("wanted a dict of values, bytes, or a pair of both")


def read_body(messages: Iterable[Message]) -> tuple[bytes, dict[str, Any]]:
    """The PAYLOAD rows joined, and the values of DATA rows by name."""
    rows = [row for message in messages for row in message.rows]
    return b"".join([row.data for row in rows if type(row) is Payload]), values_of(rows)
