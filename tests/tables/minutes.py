"""The roll-ups by minute as DuckDB computes them, for lakes that tests make without Spark."""

from __future__ import annotations

from typing import Final

__all__ = ["MINUTES"]


def _minute(column: str) -> str:
    return f"({column} // 60000000000) * 60000000000"


_BUCKETS: Final = """
    SELECT *, greatest(latency_ns, 0) AS n, length(bin(greatest(latency_ns, 0))) - 1 AS e
    FROM calls WHERE latency_ns IS NOT NULL
"""
_BOUNDS: Final = """
    SELECT *,
        CASE WHEN n < 8 THEN n ELSE 8 * (e - 2) + ((n >> (e - 3)) & 7) END AS bucket,
        CASE WHEN n < 8 THEN n ELSE (n >> (e - 3)) << (e - 3) END AS from_ns,
        CASE WHEN n < 8 THEN n + 1 ELSE ((n >> (e - 3)) + 1) << (e - 3) END AS below_ns
    FROM buckets
"""

MINUTES: Final = {
    "traffic_minutes": f"""
        SELECT {_minute("ts_ns")} AS minute_ns, protocol, direction, kind,
            count(*) AS messages,
            coalesce(sum(size_bytes) FILTER (tunnel_link IS NULL), 0)::BIGINT AS bytes
        FROM messages GROUP BY ALL
    """,
    "latency_minutes": f"""
        WITH buckets AS ({_BUCKETS}), bounds AS ({_BOUNDS})
        SELECT {_minute("response_ns")} AS minute_ns, protocol, target, bucket::INTEGER AS bucket,
            from_ns, below_ns, count(*) AS calls, sum(latency_ns)::BIGINT AS latency_ns
        FROM bounds GROUP BY ALL
    """,
    "delivery_minutes": f"""
        SELECT {_minute("coalesce(published_ns, first_sent_ns, acked_ns)")} AS minute_ns,
            protocol, topic, count(*) AS deliveries, count(*) FILTER (sends > 0) AS sent,
            count(*) FILTER (outcome = 'acked') AS acked,
            count(*) FILTER (outcome = 'unacked') AS unacked,
            count(*) FILTER (outcome = 'unknown') AS unknown,
            count(*) FILTER (outcome = 'unsent') AS unsent,
            count(*) FILTER (outcome = 'orphan') AS orphans,
            sum(sends)::BIGINT AS sends, sum(latency_ns)::BIGINT AS latency_ns
        FROM deliveries GROUP BY ALL
    """,
    "error_minutes": f"""
        WITH errors AS (
            SELECT response_ns AS ts_ns, outcome AS what, protocol, target, status AS code
            FROM calls WHERE outcome = 'failed'
            UNION ALL
            SELECT request_ns, outcome, protocol, target, cause
            FROM calls WHERE outcome IN ('lost', 'unknown')
            UNION ALL
            SELECT ts_ns, 'fault', protocol, NULL, code FROM faults
        )
        SELECT {_minute("ts_ns")} AS minute_ns, what, protocol, target, code, count(*) AS errors
        FROM errors GROUP BY ALL
    """,
    "talker_minutes": f"""
        WITH talkers AS (
            SELECT {_minute("ts_ns")} AS minute_ns, protocol, connection, count(*) AS messages,
                sum(size_bytes)::BIGINT AS bytes
            FROM messages GROUP BY ALL
        ), ranked AS (
            SELECT *, row_number() OVER (
                PARTITION BY minute_ns ORDER BY bytes DESC, connection
            )::INTEGER AS rank FROM talkers
        )
        SELECT minute_ns, rank, protocol, connection, messages, bytes FROM ranked WHERE rank <= 20
    """,
}
"""By table: a query over the tables that it counts."""
