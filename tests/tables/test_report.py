"""The report: its figures are those of the tables, and its percentiles are as good as it says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from wirelake.records.schema import schema
from wirelake.tables.paths import PUBLIC_TABLES
from wirelake.tables.query import open_lake
from wirelake.tables.report.report import Report, end_of_messages, make_report

from .minutes import MINUTES
from .simulated_lake import captures, lake

pytestmark = pytest.mark.slow

__all__ = ["captures", "lake"]

MINUTE = 60_000_000_000
ALL = 1_000_000


@pytest.fixture(scope="module")
def db(lake: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_lake(lake) as found:
        yield found


@pytest.fixture(scope="module")
def report(db: duckdb.DuckDBPyConnection) -> Report:
    return make_report(db, top=ALL)


def rows(db: duckdb.DuckDBPyConnection, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return db.sql(f"select {', '.join(columns)} from {table}").fetchall()


def made(**tables: list[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    """Tables with these rows; roll-ups that are not given are counted."""
    found = duckdb.connect()
    for name in (*(each for each in PUBLIC_TABLES if each not in MINUTES), *MINUTES):
        if name in tables or name not in MINUTES:
            given = pa.Table.from_pylist(tables.get(name, []), schema=schema(name))
            found.register("given", given)
            found.execute(f"create table {name} as from given")
            found.unregister("given")
        else:
            found.execute(f"create table {name} as {MINUTES[name]}")
    return found


# -- figures ---------------------------------------------------------------------------------


def test_the_overview_counts_rows(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    sizes = list(rows(db, "messages", "size_bytes", "tunnel_link"))
    times = [ts for (ts,) in rows(db, "messages", "ts_ns")]
    found = report.overview
    # Bytes in tunnels count once, with their link.
    assert found.messages == len(sizes)
    assert found.bytes == sum(size for size, link in sizes if link is None)
    for table in ("connections", "tunnels", "calls", "deliveries", "faults"):
        assert getattr(found, table) == len(rows(db, table, "1"))
    assert found.first_ns == min(times) // MINUTE * MINUTE
    assert found.last_ns == max(times) // MINUTE * MINUTE + MINUTE


def test_protocols(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    outcomes = Counter(rows(db, "calls", "protocol", "outcome"))
    faults = Counter(name for (name,) in rows(db, "faults", "protocol"))
    messages = Counter(name for (name,) in rows(db, "messages", "protocol"))
    assert {each.protocol for each in report.protocols} >= {"comet", "esnp", "magline", "tny"}
    for each in report.protocols:
        assert each.messages == messages[each.protocol]
        assert each.faults == faults[each.protocol]
        for outcome in ("answered", "failed", "lost", "unknown", "open", "orphan"):
            assert getattr(each, outcome) == outcomes[each.protocol, outcome]


def test_traffic_adds_up(report: Report) -> None:
    assert sum(each.messages for each in report.traffic) == report.overview.messages
    assert sum(each.bytes for each in report.traffic) == report.overview.bytes
    assert all(each.start_ns % report.step_ns == 0 for each in report.traffic)


def test_targets(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    latencies: dict[tuple[str, str], list[int]] = {}
    unanswered: Counter[tuple[str, str]] = Counter()
    columns = ("protocol", "target", "latency_ns", "outcome")
    for protocol, target, latency, outcome in rows(db, "calls", *columns):
        if latency is not None:
            latencies.setdefault((protocol, target), []).append(latency)
        unanswered[protocol, target] += outcome in ("lost", "unknown")
    wanted = latencies.keys() | {key for key, count in unanswered.items() if count}
    assert {(each.protocol, each.target) for each in report.targets} == wanted
    assert unanswered.total() > 0
    for each in report.targets:
        own = sorted(latencies.get((each.protocol, each.target), []))  # type: ignore[arg-type]
        assert each.calls == len(own) + unanswered[each.protocol, each.target]  # type: ignore[index]
        if not own:
            assert each.mean_ns is None
            continue
        assert each.mean_ns == pytest.approx(sum(own) / len(own), abs=1)
        check_percentiles(own, each)
    worst = [each.p99_ns for each in report.targets if each.p99_ns is not None]
    assert worst == sorted(worst, reverse=True)


def check_percentiles(latencies: list[int], found: Any) -> None:
    """Each is off by an eighth of what it should be at most; the highest is no less."""
    for percent in (50, 90, 99):
        right = latencies[-(-percent * len(latencies) // 100) - 1]
        assert abs(getattr(found, f"p{percent}_ns") - right) <= max(right / 8, 1)
    assert latencies[-1] <= found.max_ns <= latencies[-1] * 9 / 8 + 1
    assert found.p50_ns <= found.p90_ns <= found.p99_ns <= found.max_ns


def test_latencies_over_time(report: Report) -> None:
    calls = sum(each.calls - each.lost - each.unknown for each in report.targets)
    assert sum(each.calls for each in report.latency) == calls
    assert sum(each.calls for each in report.latency_cells) == calls
    by_start = Counter[int]()
    for cell in report.latency_cells:
        assert cell.from_ns < cell.below_ns
        by_start[cell.start_ns] += cell.calls
    assert by_start == {each.start_ns: each.calls for each in report.latency}


def test_topics(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    outcomes = Counter(rows(db, "deliveries", "topic", "outcome"))
    assert {each.topic for each in report.topics} == {topic for topic, _ in outcomes}
    for each in report.topics:
        for stage in ("acked", "unacked", "unknown", "unsent"):
            assert getattr(each, stage) == outcomes[each.topic, stage]
        assert each.orphans == outcomes[each.topic, "orphan"]
        assert each.sent == each.acked + each.unacked + each.unknown
        assert each.published == each.sent + each.unsent
    left = [each.published - each.acked for each in report.topics]
    assert left == sorted(left, reverse=True)


def test_clients(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    wrong = Counter(
        outcome
        for (outcome,) in rows(db, "calls", "outcome")
        if outcome in ("failed", "lost", "unknown")
    )
    for outcome, count in wrong.items():
        assert sum(getattr(each, outcome) for each in report.clients) == count
    (faults,) = db.sql("select sum(faults) from connections").fetchall()[0]
    assert sum(each.faults for each in report.clients) == faults
    again = len(db.sql("from connections where previous_connection is not null").fetchall())
    assert sum(each.reconnects for each in report.clients) == again > 0
    assert all(each.client is None or each.address is None for each in report.clients)
    users = {address for (address,) in rows(db, "tunnels", "user_address")}
    assert users & {each.address for each in report.clients}  # calls in tunnels have users


def test_errors_and_faults(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    statuses = Counter(
        (protocol, status)
        for protocol, status, outcome in rows(db, "calls", "protocol", "status", "outcome")
        if outcome == "failed"
    )
    failed = [each for each in report.errors if each.what == "failed"]
    assert {(each.protocol, each.code): each.errors for each in failed} == statuses
    codes = Counter(rows(db, "faults", "code", "protocol"))
    assert {(each.code, each.protocol): each.faults for each in report.faults} == codes
    timed = len(db.sql("from faults where ts_ns is not null").fetchall())
    assert sum(each.errors for each in report.error_steps if each.what == "fault") == timed


def test_targets_know_their_failures(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    outcomes = Counter(rows(db, "calls", "protocol", "target", "outcome"))
    for each in report.targets:
        assert each.failed == outcomes[each.protocol, each.target, "failed"]
        assert each.lost == outcomes[each.protocol, each.target, "lost"]
        assert each.unknown == outcomes[each.protocol, each.target, "unknown"]
    assert sum(each.failed for each in report.targets) > 0


def test_connections(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    found = {each.protocol: each for each in report.connections}
    began = Counter(name for (name,) in rows(db, "connections", "protocol"))
    assert {name: each.connections for name, each in found.items()} == began
    ways = Counter(rows(db, "connections", "protocol", "closed_how"))
    for name, each in found.items():
        ended = (each.closed_by_client, each.closed_by_server, each.reset, each.other, each.open)
        assert sum(ended) == each.connections
        assert each.reset == ways[name, "rst"]
        assert each.open == ways[name, None]
    assert sum(each.reset for each in report.connections) > 0
    assert sum(each.resumed for each in report.connections) == len(
        db.sql("from connections where resumed").fetchall()
    )


def test_how_a_connection_can_end() -> None:
    ends = [
        (None, None), ("fin", "client"), ("fin", "client"), ("fin", "server"), ("rst", "client"),
        ("fin", None), ("anew", None),
    ]  # fmt: skip
    given = [
        {"connection": number, "protocol": "tny", "first_ns": 1, "closed_how": how,
         "closed_by": by, "duration_ns": number, "client": "ada"}
        for number, (how, by) in enumerate(ends)
    ]  # fmt: skip
    with made(connections=given) as db:
        (found,) = make_report(db).connections
    assert (found.open, found.closed_by_client, found.closed_by_server) == (1, 2, 1)
    assert (found.reset, found.other, found.connections, found.clients) == (1, 2, 7, 1)
    assert (found.duration_ns, found.handshake_ns) == (3, None)


def test_coverage_adds_up(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    for each in report.coverage:
        parts = (
            each.decoded_bytes, each.faulty_bytes, each.undecryptable_bytes, each.ignored_bytes,
        )  # fmt: skip
        assert sum(parts) == each.new_bytes
        assert each.new_bytes + each.gap_bytes == each.span_bytes
    found = db.sql("select count(*), sum(new_bytes), sum(gap_bytes) from coverage").fetchall()[0]
    assert found == (
        sum(each.streams for each in report.coverage),
        sum(each.new_bytes for each in report.coverage),
        sum(each.gap_bytes for each in report.coverage),
    )


def test_talkers(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    loudest = report.talkers[0]
    (size,) = db.sql(
        f"select sum(bytes) from talker_minutes where connection = {loudest.connection}"
    ).fetchall()[0]
    assert loudest.bytes == size == max(each.bytes for each in report.talkers)
    assert loudest.address is not None


def test_the_top_is_what_comes_first(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    few = make_report(db, top=2)
    for name in ("targets", "topics", "clients", "errors", "talkers"):
        assert getattr(few, name) == getattr(report, name)[:2]


# -- a part of the time ----------------------------------------------------------------------


def test_two_parts_are_the_whole(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    assert report.overview.first_ns is not None
    middle = report.overview.first_ns + 10 * MINUTE
    before = make_report(db, until_ns=middle, top=ALL)
    after = make_report(db, since_ns=middle, top=ALL)
    for figure in ("messages", "bytes", "connections", "calls", "deliveries"):
        parts = [getattr(each.overview, figure) for each in (before, after)]
        assert all(parts)
        assert sum(parts) == getattr(report.overview, figure)
    timed = sum(each.errors for each in report.error_steps if each.what == "fault")
    assert before.overview.faults + after.overview.faults == timed
    assert before.overview.last_ns == after.overview.first_ns == middle


def test_minutes_are_counted_as_a_whole(db: duckdb.DuckDBPyConnection) -> None:
    end = end_of_messages(db)
    assert end is not None
    whole = make_report(db, since_ns=end - 3 * MINUTE, until_ns=end - MINUTE)
    uneven = make_report(db, since_ns=end - 3 * MINUTE + 1, until_ns=end - 2 * MINUTE + 1)
    assert uneven == whole
    assert (whole.since_ns, whole.until_ns) == (end - 3 * MINUTE, end - MINUTE)


def test_a_few_minutes_are_shown_by_second(report: Report, db: duckdb.DuckDBPyConnection) -> None:
    assert report.overview.last_ns is not None
    since, until = report.overview.last_ns - 3 * MINUTE, report.overview.last_ns - MINUTE
    few = make_report(db, since_ns=since, until_ns=until, top=ALL)
    assert (few.step_ns, report.step_ns) == (MINUTE // 60, MINUTE)
    assert len({each.start_ns for each in few.traffic}) > 2
    for name, figure in (
        ("traffic", "messages"), ("traffic", "bytes"), ("latency", "calls"),
        ("latency_cells", "calls"), ("error_steps", "errors"),
    ):  # fmt: skip
        by_second, by_minute = Counter[int](), Counter[int]()
        for each in getattr(few, name):
            assert each.start_ns % few.step_ns == 0
            by_second[each.start_ns // MINUTE * MINUTE] += getattr(each, figure)
        for each in getattr(report, name):
            if since <= each.start_ns < until:
                by_minute[each.start_ns] += getattr(each, figure)
        assert by_second == by_minute, (name, figure)
        assert by_second


# -- made up ---------------------------------------------------------------------------------


def test_nothing() -> None:
    with made() as db:
        found = make_report(db)
        assert end_of_messages(db) is None
    assert found.overview.messages == found.overview.faults == 0
    assert found.overview.first_ns is None
    assert found.targets == found.topics == found.clients == found.traffic == []


def test_percentiles_of_any_latencies() -> None:
    draw = random.Random(7)
    for spread in (3, 1_000, 10**6, 10**9, 10**12):
        own = sorted(int(draw.lognormvariate(0, 2) * spread) for _ in range(draw.randint(1, 300)))
        calls = [
            {
                "protocol": "esnp",
                "target": "a/b",
                "response_ns": draw.randrange(5 * MINUTE),
                "latency_ns": each,
            }
            for each in own
        ]
        with made(calls=calls) as db:
            (found,) = make_report(db).targets
        assert found.calls == len(own)
        check_percentiles(own, found)


def test_a_target_that_never_answers_is_listed_first() -> None:
    slow = {"protocol": "esnp", "target": "a/slow", "response_ns": 1, "latency_ns": 10**9}
    dead = {"protocol": "esnp", "target": "a/dead", "request_ns": 1, "outcome": "lost"}
    with made(calls=[{**slow, "outcome": "answered"}, dead, {**dead, "outcome": "unknown"}]) as db:
        found = make_report(db).targets
    assert [(each.target, each.calls, each.lost, each.unknown) for each in found] == [
        ("a/dead", 2, 1, 1), ("a/slow", 1, 0, 0),
    ]  # fmt: skip
    assert found[0].p99_ns is None


def test_a_single_call_is_exact() -> None:
    call = {"protocol": "esnp", "target": None, "response_ns": 1, "latency_ns": 123_456_789}
    with made(calls=[call]) as db:
        (found,) = make_report(db).targets
    assert found.target is None
    assert found.mean_ns == found.max_ns == 123_456_789
    assert found.p99_ns <= found.max_ns


@pytest.mark.parametrize(
    ("minutes", "step"), [(4, 1), (180, 1), (181, 2), (1_440, 10), (44_640, 360), (10**7, 10_080)]
)
def test_long_times_have_long_steps(minutes: int, step: int) -> None:
    traffic = [
        {"minute_ns": at * MINUTE, "protocol": "tny", "messages": 1, "bytes": 10}
        for at in {0, minutes - 1}
    ]
    with made(traffic_minutes=traffic) as db:
        found = make_report(db)
    assert found.step_ns == step * MINUTE
    assert sum(each.messages for each in found.traffic) == len(traffic)


def test_a_client_is_known_by_its_connection() -> None:
    connection = {"connection": 7, "protocol": "comet", "client": "ada", "client_address": "::1"}
    lost = {"connection": 7, "protocol": "comet", "outcome": "lost", "request_ns": 5}
    nameless = {"connection": 8, "protocol": "tny", "outcome": "failed", "request_ns": 5}
    tunnel = {"connection": 8, "user_address": "10.0.0.9"}
    with made(
        connections=[connection | {"first_ns": 1, "faults": 2}],
        tunnels=[tunnel, tunnel],
        calls=[lost, nameless],
    ) as db:
        found = make_report(db).clients
    assert [(each.client, each.address, each.calls) for each in found] == [
        ("ada", None, 1),
        (None, "10.0.0.9", 1),
    ]
    assert (found[0].lost, found[0].faults, found[0].connections) == (1, 2, 1)


def test_what_has_no_time_is_in_no_part_of_it() -> None:
    with made(faults=[{"code": "bad_block"}, {"code": "gap", "ts_ns": 5}]) as db:
        assert make_report(db).overview.faults == 2
        assert make_report(db, since_ns=0).overview.faults == 1
