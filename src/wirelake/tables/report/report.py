"""A report about a lake: what went over the wire, how fast, what was delivered, and what broke.

    with open_lake("lake") as db:
        report = make_report(db, top=10)

A report is plain data. The terminal, JSON and the page (`report_page.py`) show the same one. The
queries are in `report_sql.py`; they count whole minutes, as the roll-ups do. What is over time in a
few minutes is shown by second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from . import queries as report_sql
from .queries import MINUTE_NS, Scope

if TYPE_CHECKING:
    import duckdb

__all__ = [
    "Client",
    "Connections",
    "Coverage",
    "Error",
    "ErrorStep",
    "Fault",
    "LatencyCell",
    "LatencyStep",
    "Overview",
    "Protocol",
    "Report",
    "Talker",
    "Target",
    "Topic",
    "TrafficStep",
    "end_of_messages",
    "make_report",
]

_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440, 10_080)
"""Minutes that a point of a plot may stand for."""
_MOST_STEPS: Final = 180
"""Points of a plot: more cannot be told apart on a screen."""
_BY_SECOND: Final = 3
"""Minutes up to which a point stands for a second."""
_SECOND_NS: Final = 1_000_000_000


class Overview(msgspec.Struct, frozen=True):
    """All there is, in figures."""

    messages: int
    bytes: int
    connections: int
    tunnels: int
    calls: int
    deliveries: int
    faults: int
    first_ns: int | None
    """Beginning of the first minute with messages; null without any."""
    last_ns: int | None
    """End of the last minute with messages."""


class Protocol(msgspec.Struct, frozen=True):
    """What one protocol has of it."""

    protocol: str | None
    messages: int
    bytes: int
    connections: int
    calls: int
    answered: int
    failed: int
    lost: int
    unknown: int
    open: int
    orphan: int
    faults: int


class TrafficStep(msgspec.Struct, frozen=True):
    """Messages of a protocol in a step of time."""

    start_ns: int
    protocol: str | None
    messages: int
    bytes: int


class LatencyStep(msgspec.Struct, frozen=True):
    """How fast calls were answered in a step of time; see `Target`."""

    start_ns: int
    calls: int
    p50_ns: int
    p90_ns: int
    p99_ns: int


class LatencyCell(msgspec.Struct, frozen=True):
    """Calls of a step of time with a latency from `from_ns` to below `below_ns`."""

    start_ns: int
    from_ns: int
    below_ns: int
    calls: int


class Target(msgspec.Struct, frozen=True):
    """How fast a target answers.

    `calls` and `mean_ns` are exact. Percentiles come from buckets, eight to each doubling: within a
    bucket its calls are taken to be evenly spread, so a percentile is wrong by an eighth at most.
    `max_ns` is no less than the highest latency; it is exact where one call alone is in the last
    bucket of its minute.
    """

    protocol: str | None
    target: str | None
    calls: int
    mean_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    max_ns: int
    failed: int
    """Of these calls, those whose answer was not ok."""
    lost: int
    """Calls without an answer; they are not among `calls`."""


class Topic(msgspec.Struct, frozen=True):
    """What became of the notifications of a topic; latencies as in `Target`."""

    protocol: str | None
    topic: str | None
    """Null for all whose topic no recorder told."""
    published: int
    """Notifications times clients: those that were sent, or should have been."""
    sent: int
    acked: int
    unacked: int
    unknown: int
    unsent: int
    orphans: int
    """Acknowledged, and the sending was not seen; not among `published`."""
    sends: int
    p50_ns: int | None
    p99_ns: int | None


class Client(msgspec.Struct, frozen=True):
    """What went wrong for a client."""

    protocol: str | None
    client: str | None
    address: str | None
    """Of clients without a name."""
    calls: int
    failed: int
    lost: int
    unknown: int
    connections: int
    reconnects: int
    """Connections on which it signed on, having done so before on another."""
    faults: int


class Error(msgspec.Struct, frozen=True):
    """Calls that went wrong in the same way."""

    what: str
    """failed, lost or unknown."""
    protocol: str | None
    code: str | None
    errors: int
    targets: int
    """How many targets have it."""
    target: str | None
    """The one that has it most often."""


class ErrorStep(msgspec.Struct, frozen=True):
    """What went wrong in a step of time."""

    start_ns: int
    what: str
    errors: int


class Fault(msgspec.Struct, frozen=True):
    """Bytes that would not decode for the same reason."""

    code: str | None
    protocol: str | None
    faults: int
    connections: int
    present_bytes: int
    missing_bytes: int


class Connections(msgspec.Struct, frozen=True):
    """The connections of a protocol that began, and how they ended."""

    protocol: str | None
    connections: int
    clients: int
    """How many signed on with different names."""
    reconnects: int
    """Connections on which a client signed on, having done so before on another."""
    resumed: int
    open: int
    """Nothing was seen of their end."""
    closed_by_client: int
    closed_by_server: int
    reset: int
    other: int
    """Ended otherwise: the same two ends began a new one, or nothing tells who it was."""
    duration_ns: int | None
    handshake_ns: int | None
    """Medians, exact."""


class Coverage(msgspec.Struct, frozen=True):
    """What became of the bytes of a protocol. New bytes are the last four together."""

    protocol: str | None
    """Null for streams of no known protocol."""
    streams: int
    span_bytes: int
    """Of the streams: new bytes and gaps."""
    gap_bytes: int
    duplicate_bytes: int
    new_bytes: int
    decoded_bytes: int
    faulty_bytes: int
    undecryptable_bytes: int
    ignored_bytes: int


class Talker(msgspec.Struct, frozen=True):
    """A connection with many bytes, counting the minutes in which it was one of the top twenty."""

    protocol: str | None
    connection: int
    client: str | None
    address: str | None
    minutes: int
    messages: int
    bytes: int


class Report(msgspec.Struct, frozen=True):
    """Everything. Lists are in the order in which they are to be read, the worst first."""

    lake: str
    commit: int | None
    since_ns: int | None
    until_ns: int | None
    step_ns: int
    """How long a step of time is."""
    overview: Overview
    protocols: list[Protocol]
    traffic: list[TrafficStep]
    latency: list[LatencyStep]
    latency_cells: list[LatencyCell]
    targets: list[Target]
    topics: list[Topic]
    clients: list[Client]
    errors: list[Error]
    error_steps: list[ErrorStep]
    faults: list[Fault]
    talkers: list[Talker]
    connections: list[Connections]
    coverage: list[Coverage]


def end_of_messages(db: duckdb.DuckDBPyConnection) -> int | None:
    """The end of the last minute with messages; None when there are none."""
    return _rows(db, report_sql.overview(Scope(None, None)), Overview)[0].last_ns


def make_report(
    db: duckdb.DuckDBPyConnection,
    *,
    lake: str = "",
    commit: int | None = None,
    since_ns: int | None = None,
    until_ns: int | None = None,
    top: int = 20,
) -> Report:
    """The report about tables that a connection has.

    The minutes that `since_ns` and the last nanosecond before `until_ns` fall into are counted as a
    whole. `top` limits the lists that have no natural end.
    """
    scope = Scope(_floor(since_ns), _ceiling(until_ns), top=top)
    overview = _rows(db, report_sql.overview(scope), Overview)[0]
    scope = scope.with_step(_step(overview))
    return Report(
        lake=lake,
        commit=commit,
        since_ns=scope.since_ns,
        until_ns=scope.until_ns,
        step_ns=scope.step_ns,
        overview=overview,
        protocols=_rows(db, report_sql.protocols(scope), Protocol),
        traffic=_rows(db, report_sql.traffic(scope), TrafficStep),
        latency=_rows(db, report_sql.latency(scope), LatencyStep),
        latency_cells=_rows(db, report_sql.latency_cells(scope), LatencyCell),
        targets=_rows(db, report_sql.targets(scope), Target),
        topics=_rows(db, report_sql.topics(scope), Topic),
        clients=_rows(db, report_sql.clients(scope), Client),
        errors=_rows(db, report_sql.errors(scope), Error),
        error_steps=_rows(db, report_sql.error_steps(scope), ErrorStep),
        faults=_rows(db, report_sql.faults(scope), Fault),
        talkers=_rows(db, report_sql.talkers(scope), Talker),
        connections=_rows(db, report_sql.connections(scope), Connections),
        coverage=_rows(db, report_sql.coverage(scope), Coverage),
    )


_Row = TypeVar("_Row", bound=msgspec.Struct)


def _rows(db: duckdb.DuckDBPyConnection, query: str, kind: type[_Row]) -> list[_Row]:
    found = db.execute(query)
    names = [column[0] for column in found.description or ()]
    rows: list[tuple[Any, ...]] = found.fetchall()
    return [msgspec.convert(dict(zip(names, row, strict=True)), kind) for row in rows]


def _floor(ns: int | None) -> int | None:
    return None if ns is None else ns // MINUTE_NS * MINUTE_NS


def _ceiling(ns: int | None) -> int | None:
    return None if ns is None else -(-ns // MINUTE_NS) * MINUTE_NS


def _step(overview: Overview) -> int:
    """How long a point of a plot stands for."""
    if overview.first_ns is None or overview.last_ns is None:
        return MINUTE_NS
    minutes = (overview.last_ns - overview.first_ns) // MINUTE_NS
    if minutes <= _BY_SECOND:
        return _SECOND_NS
    fitting = [step for step in _STEPS if minutes <= step * _MOST_STEPS]
    return (fitting or _STEPS[-1:])[0] * MINUTE_NS
