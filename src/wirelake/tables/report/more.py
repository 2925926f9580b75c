"""The commands that show more of a part of a report.

    more(report, "targets")     # wirelake sql edge.pcapng "SELECT ... FROM calls ..."

A `Report` says which command queries its tables. Here are the queries: the rows behind the figures
of a sheet, the most interesting ones first.
"""

from __future__ import annotations

import shlex
from typing import Final

from .report import Report

__all__ = ["QUERIES", "more", "query"]

_CALL_NS: Final = "coalesce(request_ns, response_ns)"
_SENT_NS: Final = "coalesce(published_ns, first_sent_ns, acked_ns)"
_WRONG: Final = "outcome IN ('failed', 'lost', 'unknown')"

QUERIES: Final = {
    "protocols": (
        (
            "SELECT protocol, direction, kind, name, count(*) AS messages, sum(size_bytes) AS bytes"
            " FROM messages WHERE {when} GROUP BY ALL ORDER BY messages DESC"
        ),
        "ts_ns",
    ),
    "targets": (
        (
            "SELECT ns(request_ns) AS at, protocol, target, ms(latency_ns) AS latency_ms, outcome,"
            " client, connection FROM calls WHERE {when}"
            " ORDER BY latency_ns DESC NULLS LAST LIMIT 50"
        ),
        _CALL_NS,
    ),
    "topics": (
        (
            "SELECT protocol, topic, notification, client, outcome, sends,"
            " ns(first_sent_ns) AS sent FROM deliveries"
            " WHERE outcome <> 'acked' AND {when} ORDER BY first_sent_ns"
        ),
        _SENT_NS,
    ),
    "connections": (
        (
            "SELECT ns(first_ns) AS opened, protocol, connection, client, closed_by, closed_how,"
            " faults FROM connections WHERE {when} ORDER BY first_ns"
        ),
        "first_ns",
    ),
    "clients": (
        "SELECT client, protocol, target, outcome, count(*) AS calls FROM calls"
        " WHERE " + _WRONG + " AND {when} GROUP BY ALL ORDER BY calls DESC",
        _CALL_NS,
    ),
    "errors": (
        "SELECT ns(request_ns) AS at, protocol, target, outcome, status, reason, cause, client,"
        " connection FROM calls WHERE " + _WRONG + " AND {when} ORDER BY request_ns",
        _CALL_NS,
    ),
    "faults": (
        (
            'SELECT ns(ts_ns) AS at, code, protocol, connection, direction, detail, file, "offset"'
            " FROM faults WHERE {when} ORDER BY ts_ns"
        ),
        "ts_ns",
    ),
    "coverage": (
        (
            "SELECT connection, direction, protocol, new_bytes, decoded_bytes, faulty_bytes,"
            " undecryptable_bytes, gap_bytes FROM coverage"
            " WHERE (decoded_bytes < new_bytes OR gap_bytes > 0) AND {when}"
            " ORDER BY new_bytes - decoded_bytes + gap_bytes DESC"
        ),
        "first_ns",
    ),
    "talkers": (
        (
            "SELECT connection, protocol, direction, name, count(*) AS messages,"
            " sum(size_bytes) AS bytes FROM messages WHERE {when} GROUP BY ALL ORDER BY bytes DESC"
        ),
        "ts_ns",
    ),
}
"""By sheet: a query, and the time by which its rows are in a period."""


def query(report: Report, sheet: str) -> str:
    """Return the query for more about a sheet, in the period of a report."""
    text, time = QUERIES[sheet]
    bounds = []
    if report.since_ns is not None:
        bounds.append(f"{time} >= {report.since_ns}")
    if report.until_ns is not None:
        bounds.append(f"{time} < {report.until_ns}")
    if bounds:
        return text.format(when=" AND ".join(bounds))
    return text.format(when="").replace(" AND  ", " ").replace(" WHERE  ", " ")


def more(report: Report, sheet: str) -> str | None:
    """Return the command for more about a sheet; None if the report does not know its source."""
    if not report.command:
        return None
    return f"{shlex.join(report.command)} {_quoted(query(report, sheet))}"


def _quoted(text: str) -> str:
    """Return a query as an argument of a shell. Double quotes are easier to read and to edit."""
    if any(character in text for character in '"$`\\!'):
        return shlex.quote(text)
    return f'"{text}"'
