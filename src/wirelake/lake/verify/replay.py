"""One source, replayed in a worker process and compared with the lake.

The reference reader and the engines decide what the rows of the source's connections should be.
Compared here: `messages`, `faults`, `coverage`, and `calls` and `connections` as far as one
connection alone decides them. What crosses connections goes back to the caller as events.

The reference decodes 0.9 MB and passes over 11 MB of other connections for each second of CPU time
(5 MB of simulated tcpdump captures). So `--full` divides the connections of a source into shards,
one for each process: each reads all packets and decodes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wirelake.capture.decode.events import EVENT_TABLES, engine_event
from wirelake.capture.decode.reference import read_tables
from wirelake.columnar.decode.texts import plain
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.records import CallsEngine, ConnectionsEngine
from wirelake.records.engine import Clients, Engine, EngineLimits, feed_event
from wirelake.records.rollups import MINUTE_NS
from wirelake.records.rows import Event, MessageRow, Opened, in_order
from wirelake.records.tunnels import fnv1a_63, tunnel_connection, tunnel_of

from ..engine.settings import Settings
from .rows import MAX_DIFFERENCES, Difference, LakeRows, Row, differences, normalized

__all__ = [
    "TIMES",
    "ReplayTask",
    "Replayed",
    "Selection",
    "crossing",
    "reading",
    "replay",
    "select",
    "unexpired",
]


# -- the sample --------------------------------------------------------------------------------

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
        """Return whether the tables of this connection are compared."""
        return _part(connection, self.shares) == self.share

    def has_client(self, client: str) -> bool:
        """Return whether the deliveries of this client are compared."""
        if self.shares == 1:
            return True
        return _part(fnv1a_63(client.encode("utf-8", "surrogatepass")), self.shares) == self.share

    def minutes(self, times_ns: pa.Array) -> pa.Array:
        """Return which times are in minutes whose roll-ups are compared; null if there is none."""
        minutes = pc.fill_null(times_ns, 0).to_numpy(zero_copy_only=False) // MINUTE_NS
        parts = (minutes.astype(np.uint64) * np.uint64(_FACTOR) >> np.uint64(32)) % self.shares
        return pc.if_else(pc.is_valid(times_ns), pa.array(parts == self.share), None)

    def replays(self, connection: int) -> bool:
        """Return whether this connection is replayed."""
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
    # A client may have many connections, and a tunnel many links: all of them are needed to replay
    # it. The columnar reader finds them, a hundred times faster than the reference would; what it
    # finds only widens the sample, it decides nothing about the rows.
    sample = Selection(share, shares)
    if shares == 1:
        return sample
    found: set[int] = set()
    links: dict[int, set[int]] = {}
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
                found.update(
                    connection
                    for connection, client in _pairs(item, "connection", "client")
                    if sample.has_client(client)
                )
                for link, tunnel in _links(item):
                    links.setdefault(tunnel, set()).add(link)
    # A client may have signed on in a tunnel.
    for tunnel, carriers in links.items():
        if sample.has_connection(tunnel) or tunnel in found:
            found |= carriers
    return Selection(share, shares, frozenset(found))


def _links(messages: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Yield links with the tunnels that they carry."""
    yield from _pairs(messages, "tunnel_link", "connection")
    about = plain(messages)
    about = about.filter(pc.match_substring_regex(about.column("target"), _TUNNEL_TARGET))
    for link, target in _pairs(about, "connection", "target"):
        ids = tunnel_of(target)
        if ids is not None:
            yield link, tunnel_connection(*ids)


def _pairs(messages: pa.RecordBatch, one: str, other: str) -> list[tuple[Any, Any]]:
    """Return the distinct pairs of values of two columns, neither of them null."""
    columns = pa.table({name: messages.column(name) for name in (one, other)})
    known = columns.drop_null().group_by([one, other]).aggregate([])
    return list(zip(*(known.column(name).to_pylist() for name in (one, other)), strict=True))


# -- one source --------------------------------------------------------------------------------

TIMES: Final[dict[str, tuple[str, ...]]] = {
    "messages": ("ts_ns",),
    "faults": ("ts_ns",),
    "coverage": ("last_ns",),
    "calls": ("response_ns", "request_ns"),
    "connections": ("last_ns",),
    "tunnels": ("last_ns",),
}
"""The column, or the first of several that is not null, by which rows of a table expire."""
_ENGINES: Final[dict[str, type[Engine[Any]]]] = {
    "calls": CallsEngine,
    "connections": ConnectionsEngine,
}
_WITHOUT: Final = {"connections": ("previous_connection",), "faults": ("detail",)}
"""Columns that are not compared here: one that needs other connections (see `merge.py`), and the
text of a fault, which is that of the release that wrote it; its code is stable."""


class ReplayTask(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker replays."""

    lake: str
    commit: int
    files: tuple[str, ...]
    selection: Selection
    shard: int
    shards: int
    settings: Settings
    keys: tuple[str, ...]
    expired_ns: int | None

    def replays(self, connection: int) -> bool:
        """Return whether this worker replays a connection."""
        return self.in_shard(connection) and self.selection.replays(connection)

    def in_shard(self, connection: int) -> bool:
        """Return whether a connection belongs to this worker."""
        return connection // self.selection.shares % self.shards == self.shard


class Replayed(msgspec.Struct):
    """What a worker found."""

    connections: set[int] = msgspec.field(default_factory=set)
    """Connections of the sample that are in the captures."""
    rows: dict[str, int] = {}
    differences: list[Difference] = []
    differing: int = 0
    events: list[Event] = []
    """Events of clients and tunnels, for `merge.py`."""
    failure: str | None = None


def replay(task: ReplayTask) -> Replayed:
    """Replay the captures of a source."""
    found = Replayed()
    try:
        expected = _read(task, found)
    except OSError as error:
        found.failure = f"cannot read {error.filename}: {error.strerror}"
        return found
    lake = LakeRows(task.lake, task.commit)
    for (table, protocol), rows in _by_files(lake, expected, task.settings.tables):
        keep = _filter(table, found.connections, task)
        actual = lake.rows(table, keep, protocol)
        kept = [row for row in rows if unexpired(table, row, task.expired_ns)]
        found.rows[table] = found.rows.get(table, 0) + len(actual)
        without = (*_WITHOUT.get(table, ()), *lake.outdated(table, protocol))
        differ = differences(table, actual, normalized(table, kept, protocol), without=without)
        found.differing += len(differ)
        found.differences += differ[:MAX_DIFFERENCES]
    return found


def unexpired(table: str, row: Row, expired_ns: int | None) -> bool:
    """Return whether a row is still kept; only those can be compared."""
    if expired_ns is None:
        return True
    time_ns = next((row[name] for name in TIMES[table] if row[name] is not None), None)
    return time_ns is not None and time_ns >= expired_ns


# -- captures --------------------------------------------------------------------------------


def _read(task: ReplayTask, found: Replayed) -> dict[str, list[Row]]:
    """Read the captures. Returns the rows that are expected; keeps the events that cross."""
    expected: dict[str, list[Row]] = {"messages": [], "faults": [], "coverage": []}
    events: list[Event] = []
    tables = (*EVENT_TABLES, "coverage")
    options = reading(task.settings, task.keys)
    for table, row in read_tables(task.files, tables=tables, select=task.replays, **options):
        if table in expected:
            connection = row.get("tunnel_link") or row["connection"]
            # Faults of files belong to no connection: the first worker of each source has them.
            if task.shard == 0 if connection is None else task.selection.has_connection(connection):
                expected[table].append(row)
        if table != "coverage" and (event := engine_event(table, row)) is not None:
            if isinstance(event, Opened) and task.selection.has_connection(event.connection):
                found.connections.add(event.connection)
            events.append(event)
    ordered = in_order(events)
    for name, engine in _ENGINES.items():
        if name in task.settings.tables:
            expected[name] = list(_engine_rows(engine(), ordered, found.connections))
    found.events = list(crossing(ordered, first=task.shard == 0))
    return expected


def _engine_rows(
    engine: Engine[Any], events: Sequence[Event], connections: set[int]
) -> Iterator[Row]:
    """Run an engine over the connections of the sample, without what is in tunnels."""
    for event in events:
        if event.connection in connections and getattr(event, "tunnel_link", None) is None:
            feed_event(engine, event)
    engine.finish()
    for row in engine.take():
        yield msgspec.structs.asdict(row)


def crossing(events: Sequence[Event], *, first: bool) -> Iterator[Event]:
    """Yield what engines need to know of other connections: a fraction of all messages.

    The first message of a connection is among it: a fact about a client counts only once the
    protocol is known. Facts are the same in all shards of a source; the first one has them.
    """
    seen: set[int] = set()
    clients = Clients(EngineLimits().connections)
    for event in events:
        if isinstance(event, MessageRow):
            known, signs_on = len(seen), clients.concerns(event)
            if event.tunnel_link is None:
                seen.add(event.connection)
                # Only the call before it shows that a response answers a sign-on.
                if signs_on:
                    clients.feed(event)
            if (
                event.ids
                or signs_on
                or event.tunnel_link is not None
                or len(seen) > known
                or tunnel_of(event.target) is not None
            ):
                yield event
        elif first or type(event).__name__ != "Fact":
            yield event


# -- the lake --------------------------------------------------------------------------------


def _by_files(
    lake: LakeRows, expected: dict[str, list[Row]], tables: Sequence[str]
) -> Iterator[tuple[tuple[str, str | None], list[Row]]]:
    """Yield the expected rows of each table; those of `messages` by protocol, as its files are."""
    for table, rows in expected.items():
        if table not in tables:
            continue
        if table != "messages":
            yield (table, None), rows
            continue
        by_protocol: dict[str | None, list[Row]] = {
            name: [] for name in lake.protocols(table) if name is not None
        }
        for row in rows:
            by_protocol.setdefault(row["protocol"], []).append(row)
        for protocol, own in by_protocol.items():
            yield (table, protocol), own


def _filter(
    table: str, connections: set[int], task: ReplayTask
) -> Callable[[pa.RecordBatch], pa.Array]:
    """Return the filter for the rows of the lake that this worker compares."""
    chosen = pa.array(sorted(connections), pa.int64())
    files = pa.array(task.files if task.shard == 0 else (), pa.string())

    def keep(batch: pa.RecordBatch) -> pa.Array:
        connection = batch.column("connection")
        if table == "messages":
            connection = pc.coalesce(batch.column("tunnel_link"), connection)
        selected = pc.is_in(connection, chosen)
        if table == "calls":
            selected = pc.and_(selected, pc.is_null(batch.column("tunnel_link")))
        if table == "faults":
            of_file = pc.and_(pc.is_null(connection), pc.is_in(batch.column("file"), files))
            selected = pc.or_(selected, of_file)
        if task.expired_ns is not None:
            times = pc.coalesce(*(batch.column(name) for name in TIMES[table]))
            selected = pc.and_kleene(selected, pc.greater_equal(times, task.expired_ns))
        return selected

    return keep
