"""The input of the engines: rows of `messages` and `faults`, ends of connections, facts.

    for row in rows_from_batch(batch):
        engine.feed(row)

Events of one connection must come in order of time. Events of the same time come in this order:
opened, facts, faults, messages (in the order of `messages`), closed. Connections may be mixed in
any way. The rules are in `docs/concepts/matching.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from .protocol_rules import rules_of

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
    """What `ProtocolRules.fields` names of the protocol's struct; None for all other messages."""


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


def in_order(events: Iterable[Event]) -> list[Event]:
    """Sort events into the order that engines expect; the sort is stable."""
    return sorted(events, key=lambda event: (event.ts_ns, _RANK[type(event)]))


def fields_of(protocol: str, name: str, struct: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the `fields` of one message, from the struct of its protocol as a dict."""
    wanted = rules_of(protocol).fields.get(name)
    if wanted is None or struct is None:
        return None
    return {key: _follow(struct, path.split(".")) for key, path in wanted.items()}


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


def rows_from_batch(batch: pa.RecordBatch) -> list[MessageRow]:
    """Return the rows of a batch of `messages`. Missing columns are null."""
    from .batches import message_rows  # needs pyarrow, which a live server does not have

    return message_rows(batch)
