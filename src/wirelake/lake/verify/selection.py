"""Which connections, clients and tunnels are replayed.

A sample is chosen by hash: one of `shares` parts of the connections, of the clients and of the
tunnels. A delivery needs every connection of its client, and a tunnel every link that carried it.
So the connections of sampled clients and the links of sampled tunnels are replayed as well,
whatever their own hash. Which ones these are says the columnar decoder, in one fast pass over the
captures; it may name a connection too many, but none too few. The rows of the lake are not asked,
since they are what is to be verified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.records.rollups import MINUTE_NS
from wirelake.records.tunnels import fnv1a_63, tunnel_connection, tunnel_of

from ..engine.settings import Settings

__all__ = ["Selection", "reading", "select"]

_MASK: Final = (1 << 64) - 1
_FACTOR: Final = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio: spreads the numbers of a recorder, which are close together,
over all shares (Fibonacci hashing)."""
_TUNNEL_TARGET: Final = r"^-?\d+/-?\d+$"
"""The target of a packet about a tunnel; see `tunnel_of`."""


class Selection(msgspec.Struct, frozen=True):
    """A sample: part `share` of `shares`."""

    share: int = 0
    shares: int = 1
    connections: frozenset[int] = frozenset()
    """Connections that are replayed for their clients or their tunnels."""

    def has_connection(self, connection: int) -> bool:
        """Whether the tables of this connection are compared."""
        return _part(connection, self.shares) == self.share

    def has_client(self, client: str) -> bool:
        """Whether the deliveries of this client are compared."""
        if self.shares == 1:
            return True
        return _part(fnv1a_63(client.encode("utf-8", "surrogatepass")), self.shares) == self.share

    def minutes(self, times_ns: pa.Array) -> pa.Array:
        """Return which times are in minutes whose roll-ups are compared; null if there is none."""
        minutes = pc.fill_null(times_ns, 0).to_numpy(zero_copy_only=False) // MINUTE_NS
        parts = (minutes.astype(np.uint64) * np.uint64(_FACTOR) >> np.uint64(32)) % self.shares
        return pc.if_else(pc.is_valid(times_ns), pa.array(parts == self.share), None)

    def replays(self, connection: int) -> bool:
        """Whether this connection is replayed."""
        return self.has_connection(connection) or connection in self.connections


def _part(value: int, shares: int) -> int:
    return ((value * _FACTOR & _MASK) >> 32) % shares


def reading(settings: Settings, keys: Sequence[str]) -> dict[str, Any]:
    """Return the arguments with which both readers read captures as the lake did."""
    return {
        "ports": settings.ports,
        "force_protocol": settings.force_protocol,
        "dialects": settings.dialects,
        "reveal": settings.reveal,
        "keys": keys,
    }


def select(
    files: Mapping[str, Sequence[str]],
    settings: Settings,
    keys: Sequence[str],
    share: int,
    shares: int,
) -> Selection:
    """Choose a sample of what is in the captures of each source."""
    sample = Selection(share, shares)
    if shares == 1:
        return sample
    found: set[int] = set()
    for paths in files.values():
        pipeline = CapturePipeline(paths, tables=("messages", "facts"), **reading(settings, keys))
        for table, item in pipeline.batches():
            if table == "facts":
                for fact in item:
                    client = fact.data.get("client")
                    known = isinstance(client, str) and sample.has_client(client)
                    if known and fact.connection is not None:
                        found.add(fact.connection)
            elif isinstance(item, pa.RecordBatch):
                found |= _of_batch(item, sample)
    return Selection(share, shares, frozenset(found))


def _of_batch(messages: pa.RecordBatch, sample: Selection) -> set[int]:
    """Return the connections of sampled clients, and the links of sampled tunnels."""
    found = {
        connection
        for connection, client in _pairs(messages, "connection", "client")
        if sample.has_client(client)
    }
    found |= {
        link
        for link, tunnel in _pairs(messages, "tunnel_link", "connection")
        if sample.has_connection(tunnel)
    }
    about = messages.filter(pc.match_substring_regex(messages.column("target"), _TUNNEL_TARGET))
    for connection, target in _pairs(about, "connection", "target"):
        ids = tunnel_of(target)
        if ids is not None and sample.has_connection(tunnel_connection(*ids)):
            found.add(connection)
    return found


def _pairs(messages: pa.RecordBatch, one: str, other: str) -> list[tuple[Any, Any]]:
    """Return the distinct pairs of values of two columns, neither of them null."""
    columns = pa.table({name: messages.column(name) for name in (one, other)})
    known = columns.drop_null().group_by([one, other]).aggregate([])
    return list(zip(*(known.column(name).to_pylist() for name in (one, other)), strict=True))
