"""The queries of a report over the tables of a lake, in DuckDB's SQL.

Counts by minute come from the roll-ups, which are small and already merged. Queries by client or
connection, and series by second, need the tables themselves. Every ORDER BY is total, so that the
same lake always gives the same report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

__all__ = [
    "MINUTE_NS",
    "Scope",
    "clients",
    "connections",
    "coverage",
    "error_steps",
    "errors",
    "faults",
    "last_message",
    "latency",
    "latency_cells",
    "overview",
    "protocols",
    "talkers",
    "targets",
    "topics",
    "traffic",
    "worst_target",
    "worst_topic",
]

MINUTE_NS: Final = 60_000_000_000
"""A minute in nanoseconds."""

_CALL_TIME: Final = "coalesce(request_ns, response_ns)"
_DELIVERY_TIME: Final = "coalesce(published_ns, first_sent_ns, acked_ns)"

_PEERS: Final = """
    SELECT connection, min(client) AS client, min(address) AS address FROM (
        SELECT connection, client, client_address AS address FROM connections
        UNION ALL
        SELECT connection, NULL, user_address FROM tunnels
    ) GROUP BY connection
"""
"""Client and address by id of a connection or tunnel."""


@dataclass(frozen=True)
class Scope:
    """The period of a report, its step, and its limit."""

    since_ns: int | None
    until_ns: int | None
    """Both are starts of minutes, or None."""
    step_ns: int = MINUTE_NS
    top: int = 20

    def with_step(self, step_ns: int) -> Scope:
        """Return the scope with another step."""
        return replace(self, step_ns=step_ns)

    def contains(self, time: str) -> str:
        """Return the condition that a time is in the period. Null is only in an unbounded one."""
        bounds = []
        if self.since_ns is not None:
            bounds.append(f"{time} >= {self.since_ns}")
        if self.until_ns is not None:
            bounds.append(f"{time} < {self.until_ns}")
        return " AND ".join(bounds) or "TRUE"

    @property
    def start(self) -> str:
        """The step of a minute, as SQL."""
        return self.step_of("minute_ns")

    @property
    def by_minute(self) -> bool:
        """Whether steps are whole minutes, as in the roll-ups."""
        return self.step_ns >= MINUTE_NS

    def step_of(self, time: str) -> str:
        """Return the step of a time, as SQL."""
        return f"{time} // {self.step_ns} * {self.step_ns}"


def overview(scope: Scope) -> str:
    """Query the totals: one row."""
    minutes = scope.contains("minute_ns")
    return f"""
        SELECT coalesce(sum(messages), 0)::BIGINT AS messages,
            coalesce(sum(bytes), 0)::BIGINT AS bytes,
            (SELECT count(*) FROM connections WHERE {scope.contains("first_ns")}) AS connections,
            (SELECT count(*) FROM tunnels WHERE {scope.contains("first_ns")}) AS tunnels,
            (SELECT count(*) FROM calls WHERE {scope.contains(_CALL_TIME)}) AS calls,
            (SELECT coalesce(sum(deliveries), 0)::BIGINT FROM delivery_minutes
                WHERE {minutes}) AS deliveries,
            (SELECT count(*) FROM faults WHERE {scope.contains("ts_ns")}) AS faults,
            min(minute_ns) AS first_ns, max(minute_ns) + {MINUTE_NS} AS last_ns
        FROM traffic_minutes WHERE {minutes}
    """


def last_message(scope: Scope, end_ns: int) -> str:
    """Query the time of the last message before the end of its minute: one row."""
    # Of the last minute alone, so that the statistics of files leave out all others.
    return f"""
        SELECT max(ts_ns) FROM messages
        WHERE ts_ns >= {end_ns - MINUTE_NS} AND ts_ns < {end_ns} AND {scope.contains("ts_ns")}
    """


_OUTCOMES: Final = ("answered", "failed", "lost", "unknown", "open", "orphan")


def protocols(scope: Scope) -> str:
    """Query the totals by protocol; one row has no protocol."""
    outcomes = ", ".join(f"count_if(outcome = '{each}') AS {each}" for each in _OUTCOMES)
    figures = ("messages", "bytes", "connections", "calls", *_OUTCOMES, "faults")
    sums = ", ".join(f"coalesce(sum({each}), 0)::BIGINT AS {each}" for each in figures)
    return f"""
        SELECT * FROM (
            SELECT protocol, {sums} FROM (
                SELECT protocol, messages, bytes FROM traffic_minutes
                WHERE {scope.contains("minute_ns")}
                UNION ALL BY NAME
                SELECT protocol, count(*) AS connections FROM connections
                WHERE {scope.contains("first_ns")} GROUP BY protocol
                UNION ALL BY NAME
                SELECT protocol, count(*) AS calls, {outcomes} FROM calls
                WHERE {scope.contains(_CALL_TIME)} GROUP BY protocol
                UNION ALL BY NAME
                SELECT protocol, count(*) AS faults FROM faults
                WHERE {scope.contains("ts_ns")} GROUP BY protocol
            ) GROUP BY protocol
        ) ORDER BY messages DESC, protocol
    """


def traffic(scope: Scope) -> str:
    """Query messages by step and protocol."""
    if not scope.by_minute:
        return f"""
            SELECT {scope.step_of("ts_ns")} AS start_ns, protocol, count(*) AS messages,
                coalesce(sum(size_bytes) FILTER (tunnel_link IS NULL), 0)::BIGINT AS bytes
            FROM messages WHERE {scope.contains("ts_ns")} GROUP BY ALL ORDER BY ALL
        """
    return f"""
        SELECT {scope.start} AS start_ns, protocol,
            sum(messages)::BIGINT AS messages, sum(bytes)::BIGINT AS bytes
        FROM traffic_minutes WHERE {scope.contains("minute_ns")}
        GROUP BY ALL ORDER BY ALL
    """


def connections(scope: Scope) -> str:
    """Query opened connections by protocol, and how they were closed."""
    return f"""
        SELECT protocol, count(*) AS connections, count(DISTINCT client) AS clients,
            count(previous_connection) AS reconnects,
            coalesce(count_if(resumed), 0) AS resumed,
            count_if(ended = 'open') AS open, count_if(ended = 'client') AS closed_by_client,
            count_if(ended = 'server') AS closed_by_server, count_if(ended = 'rst') AS reset,
            count_if(ended = 'other') AS other,
            quantile_disc(duration_ns, 0.5)::BIGINT AS duration_ns,
            quantile_disc(handshake_ns, 0.5)::BIGINT AS handshake_ns
        FROM (
            SELECT *, CASE WHEN closed_how IS NULL THEN 'open' WHEN closed_how = 'rst' THEN 'rst'
                WHEN closed_how = 'fin' AND closed_by IS NOT NULL THEN closed_by
                ELSE 'other' END AS ended
            FROM connections WHERE {scope.contains("first_ns")}
        ) GROUP BY protocol ORDER BY connections DESC, protocol
    """


def coverage(scope: Scope) -> str:
    """Query the coverage of stream bytes by protocol."""
    parts = ("span", "gap", "duplicate", "new", "decoded", "faulty", "undecryptable", "ignored")
    sums = ", ".join(f"coalesce(sum({e}_bytes), 0)::BIGINT AS {e}_bytes" for e in parts)
    return f"""
        SELECT protocol, count(*) AS streams, {sums}
        FROM coverage WHERE {scope.contains("first_ns")}
        GROUP BY protocol ORDER BY new_bytes DESC, protocol
    """


# -- latencies -------------------------------------------------------------------------------


def _percentiles(keys: Sequence[str], source: str) -> str:
    """Query counts and percentiles by keys from histogram buckets.

    Percentile p is in the first bucket at which the cumulative count reaches p percent; it is
    interpolated linearly within that bucket. The highest latency of a bucket is bounded twice: it
    is below the upper edge, and at most the sum of latencies minus the lower edge for each other
    call. The second bound is exact for a bucket with one call, which the last one often is.
    """
    # Sums before windows: buckets of many minutes have the same edges, so they merge exactly, and
    # the window functions see at most one row for each key and bucket.
    by = ", ".join(keys)
    found = ", ".join(
        f"least(arg_min(from_ns + (below_ns - from_ns) * ({p} * total / 100 - (upto - calls))"
        f" / calls, bucket) FILTER (upto * 100 >= {p} * total), max(highest))::BIGINT AS p{p}_ns"
        for p in (50, 90, 99)
    )
    return f"""
        SELECT {by}, sum(calls)::BIGINT AS calls,
            (sum(latency_ns) / sum(calls))::BIGINT AS mean_ns, {found},
            max(highest)::BIGINT AS max_ns
        FROM (
            SELECT *, sum(calls) OVER (PARTITION BY {by} ORDER BY bucket) AS upto,
                sum(calls) OVER (PARTITION BY {by}) AS total
            FROM (
                SELECT {by}, bucket, from_ns, below_ns, sum(calls) AS calls,
                    sum(latency_ns) AS latency_ns,
                    max(least(below_ns - 1, greatest(from_ns,
                        latency_ns - (calls - 1) * from_ns))) AS highest
                FROM ({source}) GROUP BY ALL
            )
        ) GROUP BY {by}
    """


def _buckets(keys: str, table: str, condition: str) -> str:
    """Query latencies of a table in the same buckets as the roll-up of calls.

    Values below 8 have a bucket each; above, the three bits after the leading one select one of
    eight buckets per doubling. Fixed edges make histograms mergeable without error.
    """
    return f"""
        SELECT * EXCLUDE (n, e), count(*) AS calls, sum(n) AS latency_ns,
            CASE WHEN n < 8 THEN n ELSE 8 * (e - 2) + ((n >> (e - 3)) & 7) END AS bucket,
            CASE WHEN n < 8 THEN n ELSE (n >> (e - 3)) << (e - 3) END AS from_ns,
            CASE WHEN n < 8 THEN n + 1 ELSE ((n >> (e - 3)) + 1) << (e - 3) END AS below_ns
        FROM (
            SELECT {keys}, greatest(latency_ns, 0) AS n,
                length(bin(greatest(latency_ns, 0))) - 1 AS e
            FROM {table} WHERE latency_ns IS NOT NULL AND {condition}
        ) GROUP BY ALL
    """


def targets(scope: Scope) -> str:
    """Query the slowest targets by p99; those without any response first."""
    source = f"FROM latency_minutes WHERE {scope.contains('minute_ns')}"
    outcomes = ("failed", "lost", "unknown")
    sums = ", ".join(f"sum(errors) FILTER (what = '{each}') AS {each}" for each in outcomes)
    counts = ", ".join(f"coalesce({each}, 0)::BIGINT AS {each}" for each in outcomes)
    # Protocol and target may be null; a join by `=` would lose the errors of such calls.
    return f"""
        WITH latencies AS ({_percentiles(("protocol", "target"), source)}), wrong AS (
            SELECT protocol, target, {sums} FROM error_minutes
            WHERE what IN {outcomes} AND {scope.contains("minute_ns")} GROUP BY ALL
        )
        SELECT coalesce(latencies.protocol, wrong.protocol) AS protocol,
            coalesce(latencies.target, wrong.target) AS target,
            (coalesce(calls, 0) + coalesce(lost, 0) + coalesce(unknown, 0))::BIGINT AS calls,
            mean_ns, p50_ns, p90_ns, p99_ns, max_ns, {counts}
        FROM latencies FULL JOIN wrong
            ON latencies.protocol IS NOT DISTINCT FROM wrong.protocol
            AND latencies.target IS NOT DISTINCT FROM wrong.target
        ORDER BY p99_ns DESC NULLS FIRST, 3 DESC, 1, 2 LIMIT {scope.top}
    """


def worst_target(scope: Scope) -> str:
    """Query the target with the most failed and lost calls, of all: at most one row."""
    return f"""
        SELECT protocol, target AS name, sum(wrong)::BIGINT AS wrong, sum(calls)::BIGINT AS total,
            (sum(sum(wrong)) OVER ())::BIGINT AS all_wrong,
            (sum(sum(calls)) OVER ())::BIGINT AS all_total
        FROM (
            SELECT protocol, target, calls, 0 AS wrong FROM latency_minutes
            WHERE {scope.contains("minute_ns")}
            UNION ALL BY NAME
            SELECT protocol, target, if(what = 'failed', 0, errors) AS calls,
                if(what = 'unknown', 0, errors) AS wrong
            FROM error_minutes
            WHERE what IN ('failed', 'lost', 'unknown') AND {scope.contains("minute_ns")}
        ) GROUP BY ALL ORDER BY 3 DESC, 4 DESC, 1, 2 LIMIT 1
    """


def _latencies(scope: Scope) -> str:
    """Query calls by step and bucket."""
    if not scope.by_minute:
        return _buckets(
            scope.step_of("response_ns") + " AS start_ns", "calls", scope.contains("response_ns")
        )
    return f"""
        SELECT {scope.start} AS start_ns, bucket, from_ns, below_ns, calls, latency_ns
        FROM latency_minutes WHERE {scope.contains("minute_ns")}
    """


def latency(scope: Scope) -> str:
    """Query percentiles of all calls by step."""
    return f"""
        SELECT start_ns, calls, p50_ns, p90_ns, p99_ns
        FROM ({_percentiles(("start_ns",), _latencies(scope))}) ORDER BY start_ns
    """


def latency_cells(scope: Scope) -> str:
    """Query calls by step and half a doubling of the latency (four buckets), for the heat map."""
    return f"""
        SELECT start_ns, min(from_ns) AS from_ns, max(below_ns) AS below_ns,
            sum(calls)::BIGINT AS calls
        FROM (
            SELECT start_ns, bucket // 4 AS cell, calls,
                min(from_ns) OVER (PARTITION BY bucket // 4) AS from_ns,
                max(below_ns) OVER (PARTITION BY bucket // 4) AS below_ns
            FROM ({_latencies(scope)})
        ) GROUP BY start_ns, cell ORDER BY start_ns, from_ns
    """


# -- deliveries ------------------------------------------------------------------------------


def topics(scope: Scope) -> str:
    """Query the topics with the most unacknowledged deliveries."""
    # Counts come from the roll-up; latencies are in no roll-up, so they are put into buckets here.
    figures = ("sent", "acked", "unacked", "unknown", "unsent", "orphans", "sends")
    sums = ", ".join(f"sum({each})::BIGINT AS {each}" for each in figures)
    delivered = _buckets("protocol, topic", "deliveries", scope.contains(_DELIVERY_TIME))
    return f"""
        WITH latencies AS ({_percentiles(("protocol", "topic"), delivered)}),
        funnels AS (
            SELECT protocol, topic, sum(deliveries - orphans)::BIGINT AS published, {sums}
            FROM delivery_minutes WHERE {scope.contains("minute_ns")} GROUP BY ALL
        )
        SELECT funnels.*, p50_ns, p99_ns FROM funnels LEFT JOIN latencies
            ON funnels.protocol IS NOT DISTINCT FROM latencies.protocol
            AND funnels.topic IS NOT DISTINCT FROM latencies.topic
        ORDER BY published - acked DESC, published DESC, funnels.protocol, funnels.topic
        LIMIT {scope.top}
    """


def worst_topic(scope: Scope) -> str:
    """Query the topic with the most deliveries that are not acknowledged, of all: at most one
    row."""
    return f"""
        SELECT protocol, topic AS name, sum(unacked + unsent)::BIGINT AS wrong,
            sum(deliveries - orphans)::BIGINT AS total,
            (sum(sum(unacked + unsent)) OVER ())::BIGINT AS all_wrong,
            (sum(sum(deliveries - orphans)) OVER ())::BIGINT AS all_total
        FROM delivery_minutes WHERE {scope.contains("minute_ns")}
        GROUP BY ALL ORDER BY 3 DESC, 4 DESC, 1, 2 LIMIT 1
    """


# -- errors ----------------------------------------------------------------------------------


def clients(scope: Scope) -> str:
    """Query the clients with the most failed, lost or unknown calls, faults and reconnects."""
    figures = ("calls", "failed", "lost", "unknown", "connections", "reconnects", "faults")
    sums = ", ".join(f"coalesce(sum({each}), 0)::BIGINT AS {each}" for each in figures)
    return f"""
        WITH ends AS ({_PEERS}), called AS (
            SELECT protocol, connection, client, count(*) AS calls,
                count_if(outcome = 'failed') AS failed, count_if(outcome = 'lost') AS lost,
                count_if(outcome = 'unknown') AS unknown
            FROM calls WHERE {scope.contains(_CALL_TIME)} GROUP BY ALL
        ), seen AS (
            SELECT protocol, coalesce(called.client, ends.client) AS client, address,
                calls, failed, lost, unknown
            FROM called LEFT JOIN ends USING (connection)
            UNION ALL BY NAME
            SELECT protocol, client, client_address AS address, 1 AS connections,
                (previous_connection IS NOT NULL)::INTEGER AS reconnects, faults
            FROM connections WHERE {scope.contains("first_ns")}
        ), summed AS (
            SELECT protocol, client, CASE WHEN client IS NULL THEN address END AS address, {sums}
            FROM seen GROUP BY ALL
        )
        FROM summed WHERE failed + lost + unknown + faults + reconnects > 0
        ORDER BY failed + lost + unknown DESC, faults DESC, reconnects DESC,
            protocol, client, address
        LIMIT {scope.top}
    """


def errors(scope: Scope) -> str:
    """Query failed, lost and unknown calls by code."""
    return f"""
        SELECT what, protocol, code, sum(errors)::BIGINT AS errors, count(target) AS targets,
            first(target ORDER BY errors DESC, target) AS target
        FROM (
            SELECT what, protocol, code, target, sum(errors) AS errors
            FROM error_minutes WHERE what <> 'fault' AND {scope.contains("minute_ns")} GROUP BY ALL
        ) GROUP BY what, protocol, code
        ORDER BY errors DESC, what, protocol, code LIMIT {scope.top}
    """


def error_steps(scope: Scope) -> str:
    """Query errors by step."""
    if not scope.by_minute:
        # As in the roll-up: a failure happens when it is answered, a loss has only its request.
        time = "CASE WHEN outcome = 'failed' THEN response_ns ELSE request_ns END"
        return f"""
            SELECT {scope.step_of("ts_ns")} AS start_ns, what, count(*) AS errors
            FROM (
                SELECT {time} AS ts_ns, outcome AS what FROM calls
                WHERE outcome IN ('failed', 'lost', 'unknown')
                UNION ALL
                SELECT ts_ns, 'fault' FROM faults
            ) WHERE ts_ns IS NOT NULL AND {scope.contains("ts_ns")}
            GROUP BY ALL ORDER BY ALL
        """
    return f"""
        SELECT {scope.start} AS start_ns, what, sum(errors)::BIGINT AS errors
        FROM error_minutes WHERE minute_ns IS NOT NULL AND {scope.contains("minute_ns")}
        GROUP BY ALL ORDER BY ALL
    """


def faults(scope: Scope) -> str:
    """Query bytes that could not be decoded, by reason."""
    return f"""
        SELECT code, protocol, count(*) AS faults, count(DISTINCT connection) AS connections,
            coalesce(sum(present_bytes), 0)::BIGINT AS present_bytes,
            coalesce(sum(missing_bytes), 0)::BIGINT AS missing_bytes
        FROM faults WHERE {scope.contains("ts_ns")}
        GROUP BY code, protocol ORDER BY faults DESC, code, protocol
    """


def talkers(scope: Scope) -> str:
    """Query the connections with the most bytes in the minutes in which they were at the top."""
    return f"""
        WITH ends AS ({_PEERS}), loud AS (
            SELECT protocol, connection, count(*) AS minutes, sum(messages)::BIGINT AS messages,
                sum(bytes)::BIGINT AS bytes
            FROM talker_minutes WHERE {scope.contains("minute_ns")} GROUP BY ALL
            ORDER BY bytes DESC, connection, protocol LIMIT {scope.top}
        )
        SELECT protocol, connection, client, address, minutes, messages, bytes
        FROM loud LEFT JOIN ends USING (connection) ORDER BY bytes DESC, connection, protocol
    """
