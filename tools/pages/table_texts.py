"""Texts of the pages of tables: descriptions, example queries, and queries that define roll-ups.

The SQL is that of `wirelake lake sql` (DuckDB). A test runs each query; those of `MADE` must return
exactly the rows of their table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["EXAMPLES", "MADE", "NOTES", "ROWS", "Example", "Made"]


class Example(NamedTuple):
    """A question, and the query that answers it."""

    question: str
    sql: str


class Made(NamedTuple):
    """How a roll-up is computed: in words, and as a query over the tables that it counts."""

    words: str
    sql: str


ROWS: Final = {
    "messages": "a message, with all fields of its protocol",
    "packets": "a packet",
    "faults": "a range of bytes that could not be decoded: position, reason, and the bytes",
    "coverage": "one direction of a connection, with its bytes by result of decoding",
    "calls": "a request and its response: latency, status, outcome",
    "deliveries": "a notification and a client: published, sent, acknowledged",
    "connections": "a TCP connection",
    "tunnels": "a virtual connection through a gateway",
    "traffic_minutes": "messages of one minute, protocol, direction and kind",
    "latency_minutes": "calls of one minute and target, with about the same latency",
    "delivery_minutes": "deliveries of one minute and topic",
    "error_minutes": "errors of one minute, by target and code",
    "talker_minutes": "one of the twenty connections with the most bytes in a minute",
}
"""Description of a row, by table."""

NOTES: Final = {
    "packets": """\
A lake does not contain packets. `wirelake read` returns them:

```console
$ wirelake read captures/ --table packets -o packets.parquet
```""",
    "messages": """\
In a lake, each file of this table has the messages of one protocol and only its struct; a reader
that selects columns reads only these. A query shows all structs, null where they do not apply.""",
    "faults": """\
A lake also has rows for whole captures that were not read: `late_file` (a later file of its source
was read before), `vanished_file` and `unreadable_file`. They have no time.""",
    "coverage": """\
In every row `payload_bytes` = `new_bytes` + `duplicate_bytes`; `span_bytes` = `new_bytes` +
`gap_bytes`; and `new_bytes` is the sum of decoded, faulty, undecryptable and ignored bytes.
`wirelake lake verify` checks this.""",
    "calls": """\
[Matching](../../concepts/matching.md) defines which response belongs to which request.""",
    "deliveries": """\
In a lake, a row is final when it was acknowledged and there was no event of it for 10 minutes, or
when there was none for 24 hours; until then it may still change
([the lake](../../concepts/lake.md)).""",
    "latency_minutes": """\
Buckets: each number below 8 ns has its own; above, each doubling is divided into eight equal
buckets. The error of a percentile from buckets is therefore at most 1/8, over any number of minutes
and calls; counts and sums are exact.""",
    "talker_minutes": """\
Only the first twenty of each minute are included: use `traffic_minutes` for totals.""",
}
"""Further notes, by table."""

EXAMPLES: Final = {
    "messages": (
        Example(
            "Which messages are the most frequent?",
            """\
SELECT protocol, name, count(*) AS messages, sum(size_bytes) AS bytes
FROM messages
GROUP BY ALL ORDER BY messages DESC LIMIT 10""",
        ),
        Example(
            "A field of a protocol is a field of its struct. Which models do phones report?",
            """\
SELECT comet.report_environ.phone_type AS phone, comet.report_environ.network_type AS network,
       count(*) AS times
FROM messages WHERE name = 'report_environ'
GROUP BY ALL ORDER BY times DESC LIMIT 10""",
        ),
        Example(
            "The parameters of service calls, whose values are self-describing:",
            """\
WITH given AS (SELECT target, unnest(esnp.rows_by_kind.data) AS one FROM messages
               WHERE protocol = 'esnp' AND kind = 'request' LIMIT 1000)
SELECT target, one.name, var_text(one.value) AS value FROM given LIMIT 10""",
        ),
    ),
    "packets": (
        Example(
            "How much does each host send?",
            """\
SELECT src, count(*) AS packets, sum(original_bytes) AS bytes
FROM 'packets.parquet'
GROUP BY src ORDER BY bytes DESC LIMIT 10""",
        ),
    ),
    "faults": (
        Example(
            "Which faults are there, how many, and where is the first of each?",
            """\
SELECT code, protocol, count(*) AS faults, sum(present_bytes) AS bytes,
       min_by(file, ts_ns) AS file, min_by("offset", ts_ns) AS at
FROM faults
GROUP BY code, protocol ORDER BY faults DESC""",
        ),
    ),
    "coverage": (
        Example(
            "What percentage of the captured bytes was decoded?",
            """\
SELECT coalesce(protocol, 'none found') AS protocol, sum(new_bytes) AS bytes,
       round(100 * sum(decoded_bytes) / sum(new_bytes), 2) AS decoded_percent,
       sum(gap_bytes) AS not_captured
FROM coverage
GROUP BY ALL ORDER BY bytes DESC""",
        ),
    ),
    "calls": (
        Example(
            "Which targets are the slowest?",
            """\
SELECT protocol, target, count(*) AS calls,
       ms(quantile_disc(latency_ns, 0.5)) AS p50_ms,
       ms(quantile_disc(latency_ns, 0.99)) AS p99_ms
FROM calls WHERE latency_ns IS NOT NULL
GROUP BY ALL HAVING calls >= 20
ORDER BY p99_ms DESC LIMIT 10""",
        ),
        Example(
            "Which calls fail, and why?",
            """\
SELECT target, outcome, coalesce(status, cause) AS why, count(*) AS calls
FROM calls WHERE outcome IN ('failed', 'lost', 'unknown')
GROUP BY ALL ORDER BY calls DESC LIMIT 10""",
        ),
    ),
    "deliveries": (
        Example(
            "What are the outcomes of notifications by topic?",
            """\
SELECT topic, count(*) AS deliveries, count(first_sent_ns) AS sent,
       count(*) FILTER (outcome = 'acked') AS acked, ms(median(latency_ns)) AS median_ms
FROM deliveries
GROUP BY topic ORDER BY deliveries DESC LIMIT 10""",
        ),
    ),
    "connections": (
        Example(
            "Which clients reconnect most, and after how long?",
            """\
SELECT c.client, count(*) AS reconnects,
       round(avg(c.first_ns - p.last_ns) / 1e9, 1) AS seconds_away
FROM connections c JOIN connections p ON p.connection = c.previous_connection
GROUP BY c.client ORDER BY reconnects DESC LIMIT 10""",
        ),
    ),
    "tunnels": (
        Example(
            "How long do users of gateways stay, and how do they disconnect?",
            """\
SELECT outcome, closed_by, count(*) AS tunnels, sum(switches) AS switches,
       round(avg(last_ns - first_ns) / 1e9, 1) AS seconds
FROM tunnels
GROUP BY ALL ORDER BY tunnels DESC""",
        ),
    ),
    "traffic_minutes": (
        Example(
            "Traffic over time, a column for each protocol:",
            """\
PIVOT (SELECT ns(minute_ns) AS minute, protocol, bytes FROM traffic_minutes)
ON protocol USING sum(bytes) GROUP BY minute ORDER BY minute LIMIT 10""",
        ),
    ),
    "latency_minutes": (
        Example(
            "The 99th percentile of each target: the upper bound of its bucket.",
            """\
WITH buckets AS (
  SELECT protocol, target, bucket, any_value(below_ns) AS below_ns, sum(calls) AS calls
  FROM latency_minutes GROUP BY protocol, target, bucket
), counted AS (
  SELECT *, sum(calls) OVER (PARTITION BY protocol, target ORDER BY bucket) AS so_far,
         sum(calls) OVER (PARTITION BY protocol, target) AS total
  FROM buckets
)
SELECT protocol, target, any_value(total) AS calls, ms(min(below_ns)) AS p99_ms
FROM counted WHERE so_far >= 0.99 * total
GROUP BY protocol, target ORDER BY p99_ms DESC LIMIT 10""",
        ),
    ),
    "delivery_minutes": (
        Example(
            "In which minutes was the lowest share of notifications acknowledged?",
            """\
SELECT ns(minute_ns) AS minute, sum(sent) AS sent, sum(acked) AS acked,
       round(100 * sum(acked) / sum(sent), 1) AS acked_percent
FROM delivery_minutes
GROUP BY minute_ns HAVING sum(sent) > 0 ORDER BY acked_percent LIMIT 10""",
        ),
    ),
    "error_minutes": (
        Example(
            "Which minutes had the most errors, and which error was the most frequent?",
            """\
SELECT ns(minute_ns) AS minute, sum(errors) AS errors, max_by(what, errors) AS what,
       max_by(code, errors) AS code, max_by(target, errors) AS target
FROM error_minutes
GROUP BY minute_ns ORDER BY errors DESC LIMIT 10""",
        ),
    ),
    "talker_minutes": (
        Example(
            "Which connections had the most bytes, and in how many minutes?",
            """\
SELECT t.connection, any_value(t.protocol) AS protocol, any_value(c.client_address) AS address,
       count(*) AS minutes, sum(t.bytes) AS bytes
FROM talker_minutes t LEFT JOIN connections c USING (connection)
WHERE rank = 1
GROUP BY t.connection ORDER BY bytes DESC LIMIT 10""",
        ),
    ),
}
"""Example queries, by table."""

MADE: Final = {
    "traffic_minutes": Made(
        "Messages are counted by the minute of `ts_ns`; the bytes of those in tunnels are part of "
        "their link's frames.",
        """\
SELECT ts_ns - ts_ns % 60000000000 AS minute_ns, protocol, direction, kind, count(*) AS messages,
       coalesce(sum(size_bytes) FILTER (tunnel_link IS NULL), 0)::BIGINT AS bytes
FROM messages
GROUP BY ALL""",
    ),
    "latency_minutes": Made(
        "Calls with a latency are counted by the minute of their response and by bucket.",
        """\
WITH sized AS (
  SELECT *, greatest(latency_ns, 0) AS n, length(bin(greatest(latency_ns, 0))) - 4 AS shift
  FROM calls WHERE latency_ns IS NOT NULL
)
SELECT response_ns - response_ns % 60000000000 AS minute_ns, protocol, target,
       (CASE WHEN n < 8 THEN n ELSE 8 * shift + (n >> shift) END)::INTEGER AS bucket,
       CASE WHEN n < 8 THEN n ELSE (n >> shift) << shift END AS from_ns,
       CASE WHEN n < 8 THEN n + 1 ELSE ((n >> shift) + 1) << shift END AS below_ns,
       count(*) AS calls, sum(latency_ns)::BIGINT AS latency_ns
FROM sized
GROUP BY ALL""",
    ),
    "delivery_minutes": Made(
        "Deliveries are counted by the minute in which they were published; if that is unknown, in "
        "which they were first sent; else in which they were acknowledged.",
        """\
WITH timed AS (
  SELECT *, coalesce(published_ns, first_sent_ns, acked_ns) AS ts_ns FROM deliveries
)
SELECT ts_ns - ts_ns % 60000000000 AS minute_ns, protocol, topic, count(*) AS deliveries,
       count(first_sent_ns) AS sent,
       count(*) FILTER (outcome = 'acked') AS acked,
       count(*) FILTER (outcome = 'unacked') AS unacked,
       count(*) FILTER (outcome = 'unknown') AS unknown,
       count(*) FILTER (outcome = 'unsent') AS unsent,
       count(*) FILTER (outcome = 'orphan') AS orphans,
       sum(sends)::BIGINT AS sends, coalesce(sum(latency_ns), 0)::BIGINT AS latency_ns
FROM timed
GROUP BY ALL""",
    ),
    "error_minutes": Made(
        "Calls that failed are counted by the minute of their response; calls that are lost or "
        "unknown by the minute of their request; faults by their minute. Faults "
        "without a time have no minute: `minute_ns` is null.",
        """\
WITH errors AS (
  SELECT CASE WHEN outcome = 'failed' THEN response_ns ELSE request_ns END AS ts_ns,
         outcome AS what, protocol, target,
         CASE WHEN outcome = 'failed' THEN status ELSE cause END AS code
  FROM calls WHERE outcome IN ('failed', 'lost', 'unknown')
  UNION ALL
  SELECT ts_ns, 'fault', protocol, NULL, code FROM faults
)
SELECT ts_ns - ts_ns % 60000000000 AS minute_ns, what, protocol, target, code, count(*) AS errors
FROM errors
GROUP BY ALL""",
    ),
    "talker_minutes": Made(
        "Messages are counted by the minute of `ts_ns` and by connection; the twenty connections "
        "with the most bytes are kept. If two have the same number, the smaller id comes first.",
        """\
WITH talkers AS (
  SELECT ts_ns - ts_ns % 60000000000 AS minute_ns, protocol, connection,
         count(*) AS messages, sum(size_bytes)::BIGINT AS bytes
  FROM messages
  GROUP BY ALL
)
SELECT minute_ns, (row_number() OVER of_minute)::INTEGER AS rank,
       protocol, connection, messages, bytes
FROM talkers
WINDOW of_minute AS (PARTITION BY minute_ns ORDER BY bytes DESC, connection, protocol)
QUALIFY rank <= 20""",
    ),
}
"""Definitions, by roll-up."""
