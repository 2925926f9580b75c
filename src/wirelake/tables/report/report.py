"""A report about a lake: traffic, latency, deliveries, errors.

    with open_lake("lake") as db:
        report = make_report(db, top=10)

A report is plain data; terminal, JSON and HTML show the same one. Counts cover whole minutes,
because most come from the per-minute roll-ups. If there are only a few minutes of data, series over
time have one point per second instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from . import queries
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
"""Allowed steps of a series, in minutes."""
_MAX_POINTS: Final = 180
"""Points of a series; more cannot be distinguished on a screen."""
_MAX_MINUTES_BY_SECOND: Final = 3
"""Duration up to which a step is one second: 180 points again. Such a series reads the tables
themselves, which is affordable only for a few minutes."""
_SECOND_NS: Final = 1_000_000_000


class Overview(msgspec.Struct, frozen=True):
    """Totals."""

    messages: int
    bytes: int
    connections: int
    tunnels: int
    calls: int
    deliveries: int
    faults: int
    first_ns: int | None
    """Start of the first minute with messages; null if there are none."""
    last_ns: int | None
    """End of the last minute with messages."""


class Protocol(msgspec.Struct, frozen=True):
    """Totals of one protocol."""

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
    """Messages of a protocol in one step."""

    start_ns: int
    protocol: str | None
    messages: int
    bytes: int


class LatencyStep(msgspec.Struct, frozen=True):
    """Latency percentiles of calls in one step; see `Target`."""

    start_ns: int
    calls: int
    p50_ns: int
    p90_ns: int
    p99_ns: int


class LatencyCell(msgspec.Struct, frozen=True):
    """Calls in one step with a latency of `from_ns` up to, but not including, `below_ns`."""

    start_ns: int
    from_ns: int
    below_ns: int
    calls: int


class Target(msgspec.Struct, frozen=True):
    """Latency and errors of a target.

    `calls` and `mean_ns` are exact. Latencies are null if no call has a response. Percentiles come
    from log-scale buckets, eight per doubling, in which calls are assumed to be evenly spread:
    their error is at most 1/8. `max_ns` is an upper bound of the highest latency; it is exact if
    only one call is in the last bucket of its minute.
    """

    protocol: str | None
    target: str | None
    calls: int
    """Calls with a response, lost ones and unknown ones."""
    mean_ns: int | None
    p50_ns: int | None
    p90_ns: int | None
    p99_ns: int | None
    max_ns: int | None
    failed: int
    """Calls whose response was not ok."""
    lost: int
    """Calls without a response."""
    unknown: int
    """Calls of which the capture does not have the response."""


class Topic(msgspec.Struct, frozen=True):
    """Outcomes of the notifications of a topic; latencies as in `Target`."""

    protocol: str | None
    topic: str | None
    """Null for notifications whose topic was not recorded."""
    published: int
    """Deliveries (notification and client) that were sent or should have been."""
    sent: int
    acked: int
    unacked: int
    unknown: int
    unsent: int
    orphans: int
    """Acknowledged, but not captured when they were sent; not included in `published`."""
    sends: int
    p50_ns: int | None
    p99_ns: int | None


class Worst(msgspec.Struct, frozen=True):
    """The target or topic where most went wrong; the lists may not have it."""

    protocol: str | None
    name: str | None
    wrong: int
    """Failed and lost calls, or deliveries that are not acknowledged."""
    total: int
    """Calls, or deliveries that were sent or should have been."""
    all_wrong: int
    """The same of all targets or topics."""
    all_total: int


class Client(msgspec.Struct, frozen=True):
    """Problems of a client."""

    protocol: str | None
    client: str | None
    address: str | None
    """Address of a client without a name."""
    calls: int
    failed: int
    lost: int
    unknown: int
    connections: int
    reconnects: int
    """Connections on which it signed on again."""
    faults: int


class Error(msgspec.Struct, frozen=True):
    """Calls that failed with the same code."""

    what: str
    """failed, lost or unknown."""
    protocol: str | None
    code: str | None
    errors: int
    targets: int
    """Number of targets with this error."""
    target: str | None
    """The target with the most of them."""


class ErrorStep(msgspec.Struct, frozen=True):
    """Errors in one step."""

    start_ns: int
    what: str
    errors: int


class Fault(msgspec.Struct, frozen=True):
    """Bytes that could not be decoded for the same reason."""

    code: str | None
    protocol: str | None
    faults: int
    connections: int
    present_bytes: int
    missing_bytes: int


class Connections(msgspec.Struct, frozen=True):
    """The connections of a protocol that opened, and how they closed."""

    protocol: str | None
    connections: int
    clients: int
    """Number of different clients that signed on."""
    reconnects: int
    """Connections on which a client signed on again."""
    resumed: int
    open: int
    """No close was captured."""
    closed_by_client: int
    closed_by_server: int
    reset: int
    other: int
    """Replaced by a new connection on the same ports, or closed by an unknown side."""
    duration_ns: int | None
    handshake_ns: int | None
    """Exact medians."""


class Coverage(msgspec.Struct, frozen=True):
    """Coverage of the bytes of a protocol; new bytes are the sum of the last four."""

    protocol: str | None
    """Null for streams of an unknown protocol."""
    streams: int
    span_bytes: int
    """New bytes and gaps."""
    gap_bytes: int
    duplicate_bytes: int
    new_bytes: int
    decoded_bytes: int
    faulty_bytes: int
    undecryptable_bytes: int
    ignored_bytes: int


class Talker(msgspec.Struct, frozen=True):
    """A connection with many bytes, counted in the minutes in which it was in the top twenty."""

    protocol: str | None
    connection: int
    client: str | None
    address: str | None
    minutes: int
    messages: int
    bytes: int


class Report(msgspec.Struct, frozen=True):
    """A report. Lists start with the most important rows."""

    lake: str
    """Name of the lake, or of the captures."""
    commit: int | None
    """None for captures."""
    since_ns: int | None
    until_ns: int | None
    step_ns: int
    """Length of a step of the series."""
    complete_ns: int | None
    """End of the last step that lies before the last message: later ones are incomplete."""
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
    command: list[str] = []
    """The command that queries the same tables, without its query; empty if unknown."""
    worst_target: Worst | None = None
    """Null without calls."""
    worst_topic: Worst | None = None
    """Null without deliveries."""


def end_of_messages(db: duckdb.DuckDBPyConnection) -> int | None:
    """Return the end of the last minute with messages; None if there are none."""
    return _rows(db, queries.overview(Scope(None, None)), Overview)[0].last_ns


def make_report(
    db: duckdb.DuckDBPyConnection,
    *,
    lake: str = "",
    commit: int | None = None,
    command: Sequence[str] = (),
    since_ns: int | None = None,
    until_ns: int | None = None,
    top: int = 20,
) -> Report:
    """Return a report about the tables of a database.

    `lake`, `commit` and `command` are as in `Report`. `since_ns` is rounded down and `until_ns` up
    to whole minutes. `top` limits the lists by target, topic, client, error and connection.
    """
    # Whole minutes, because most counts come from roll-ups by minute: half a minute has none.
    scope = Scope(_floor(since_ns), _ceiling(until_ns), top=top)
    overview = _rows(db, queries.overview(scope), Overview)[0]
    scope = scope.with_step(_step(overview))
    return Report(
        lake=lake,
        commit=commit,
        since_ns=scope.since_ns,
        until_ns=scope.until_ns,
        step_ns=scope.step_ns,
        complete_ns=_complete(db, scope, overview),
        overview=overview,
        protocols=_rows(db, queries.protocols(scope), Protocol),
        traffic=_rows(db, queries.traffic(scope), TrafficStep),
        latency=_rows(db, queries.latency(scope), LatencyStep),
        latency_cells=_rows(db, queries.latency_cells(scope), LatencyCell),
        targets=_rows(db, queries.targets(scope), Target),
        topics=_rows(db, queries.topics(scope), Topic),
        clients=_rows(db, queries.clients(scope), Client),
        errors=_rows(db, queries.errors(scope), Error),
        error_steps=_rows(db, queries.error_steps(scope), ErrorStep),
        faults=_rows(db, queries.faults(scope), Fault),
        talkers=_rows(db, queries.talkers(scope), Talker),
        connections=_rows(db, queries.connections(scope), Connections),
        coverage=_rows(db, queries.coverage(scope), Coverage),
        command=list(command),
        worst_target=_first(db, queries.worst_target(scope), Worst),
        worst_topic=_first(db, queries.worst_topic(scope), Worst),
    )


def _complete(db: duckdb.DuckDBPyConnection, scope: Scope, overview: Overview) -> int | None:
    """Return the end of the last complete step; None without messages."""
    if overview.last_ns is None:
        return None
    found = db.execute(queries.last_message(scope, overview.last_ns)).fetchone()
    last_ns = overview.last_ns if found is None or found[0] is None else int(found[0])
    return last_ns // scope.step_ns * scope.step_ns


_Row = TypeVar("_Row", bound=msgspec.Struct)


def _rows(db: duckdb.DuckDBPyConnection, query: str, kind: type[_Row]) -> list[_Row]:
    result = db.execute(query)
    names = [column[0] for column in result.description or ()]
    rows: list[tuple[Any, ...]] = result.fetchall()
    return [msgspec.convert(dict(zip(names, row, strict=True)), kind) for row in rows]


def _first(db: duckdb.DuckDBPyConnection, query: str, kind: type[_Row]) -> _Row | None:
    return next(iter(_rows(db, query, kind)), None)


def _floor(ns: int | None) -> int | None:
    return None if ns is None else ns // MINUTE_NS * MINUTE_NS


def _ceiling(ns: int | None) -> int | None:
    return None if ns is None else -(-ns // MINUTE_NS) * MINUTE_NS


def _step(overview: Overview) -> int:
    """Return the step of series for a duration."""
    if overview.first_ns is None or overview.last_ns is None:
        return MINUTE_NS
    minutes = (overview.last_ns - overview.first_ns) // MINUTE_NS
    if minutes <= _MAX_MINUTES_BY_SECOND:
        return _SECOND_NS
    fitting = [step for step in _STEPS if minutes <= step * _MAX_POINTS]
    return (fitting or _STEPS[-1:])[0] * MINUTE_NS
