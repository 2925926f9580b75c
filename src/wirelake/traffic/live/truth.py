"""The truth of a live run: rows in truth/*.parquet, and a summary in truth.json.

It has no times, because the times of the tables are the hub's. It has latencies, as the interval in
which they must lie: at least what the service was asked to take, at most what the client measured.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from .journal import (
    CLOCK_NS,
    CallEntry,
    ConnectionEntry,
    DeliveryEntry,
    Journal,
    Publication,
    TunnelEntry,
)

__all__ = ["TABLES", "LiveSummary", "LiveTarget", "write_truth"]

_TEXT, _INT, _BOOL = pa.string(), pa.int64(), pa.bool_()

TABLES: Final[dict[str, pa.Schema]] = {
    "connections": pa.schema(
        {
            "number": _INT,
            "protocol": _TEXT,
            "client_address": _TEXT,
            "client_port": _INT,
            "server_port": _INT,
            "client": _TEXT,
            "closed_by": _TEXT,
            "close_reason": _TEXT,
            "messages_c2s": _INT,
            "messages_s2c": _INT,
            "bytes_c2s": _INT,
            "bytes_s2c": _INT,
            "requests": _INT,
            "failures": _INT,
            "pushes": _INT,
            "heartbeats": _INT,
            "resumed": _BOOL,
            "faults": _INT,
        }
    ),
    "tunnels": pa.schema(
        {
            "number": _INT,
            "link": _INT,
            "instance_id": _INT,
            "tunnel_id": _INT,
            "outcome": _TEXT,
            "user_address": _TEXT,
            "user_port": _INT,
            "closed_by": _TEXT,
            "messages_c2s": _INT,
            "messages_s2c": _INT,
        }
    ),
    "calls": pa.schema(
        {
            "number": _INT,
            "protocol": _TEXT,
            "client_address": _TEXT,
            "client_port": _INT,
            "target": _TEXT,
            "message_id": _INT,
            "outcome": _TEXT,
            "cause": _TEXT,
            "status": _TEXT,
            "latency_min_ns": _INT,
            "latency_max_ns": _INT,
        }
    ),
    "deliveries": pa.schema(
        {
            "protocol": _TEXT,
            "client": _TEXT,
            "notification": _TEXT,
            "topic": _TEXT,
            "outcome": _TEXT,
            "sends": _INT,
            "acks": _INT,
            "latency_min_ns": _INT,
            "latency_max_ns": _INT,
        }
    ),
    "faults": pa.schema({"number": _INT, "protocol": _TEXT, "direction": _TEXT, "code": _TEXT}),
    "message_counts": pa.schema(
        {"protocol": _TEXT, "kind": _TEXT, "name": _TEXT, "direction": _TEXT, "messages": _INT}
    ),
    "topics": pa.schema(
        {
            "topic": _TEXT,
            "published": _INT,
            "audience": _INT,
            "deliveries": _INT,
            "sent": _INT,
            "acked": _INT,
            "unacked": _INT,
            "unsent": _INT,
        }
    ),
}
"""Columns of each table. `number` identifies a connection or tunnel within the truth."""


@dataclass(frozen=True, slots=True)
class LiveTarget:
    """Calls to one target, with bounds of their latency percentiles."""

    protocol: str
    target: str
    calls: int
    answered: int
    """Calls with a response, failures included."""
    p50_min_ns: int | None
    p50_max_ns: int | None
    p99_min_ns: int | None
    p99_max_ns: int | None


@dataclass(frozen=True, slots=True)
class LiveSummary:
    """Figures of a live run."""

    seconds: float
    messages: int
    connections: dict[str, int]
    """By protocol."""
    tunnels: int
    calls: dict[str, int]
    """By outcome."""
    published: int
    deliveries: dict[str, int]
    """By outcome."""
    faults: dict[str, int]
    """By code."""
    targets: tuple[LiveTarget, ...]

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)


def write_truth(folder: Path, journal: Journal, asked: dict[str, Any]) -> LiveSummary:
    """Write the truth to an existing folder; return the figures."""
    rows: dict[str, list[dict[str, Any]]] = {
        "connections": [_connection(each) for each in journal.connections],
        "tunnels": [_tunnel(each) for each in journal.tunnels],
        "calls": [_call(each) for each in journal.calls],
        "deliveries": _deliveries(journal),
        "faults": [_fault(each, code) for each in journal.connections for code in each.faults],
        "message_counts": _message_counts(journal),
    }
    rows["topics"] = _topics(journal, rows["deliveries"])
    (folder / "truth").mkdir(parents=True, exist_ok=True)
    for name, columns in TABLES.items():
        table = pa.Table.from_pylist(rows[name], schema=columns)
        pq.write_table(table, folder / "truth" / f"{name}.parquet", compression="zstd")
    summary = _summary(rows, len(journal.publications), float(asked["seconds"]))
    found = {"asked": asked, "clock_ns": CLOCK_NS, **summary.as_json(), "topics": rows["topics"]}
    text = json.dumps(found, indent=2, ensure_ascii=False)
    (folder / "truth.json").write_text(text + "\n", encoding="utf-8")
    return summary


# -- rows ------------------------------------------------------------------------------------


def _connection(entry: ConnectionEntry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "protocol": entry.protocol,
        "client_address": entry.address,
        "client_port": entry.port,
        "server_port": entry.server_port,
        "client": entry.client,
        "closed_by": entry.closed_by,
        "close_reason": entry.close_reason,
        "messages_c2s": entry.total(direction="c2s"),
        "messages_s2c": entry.total(direction="s2c"),
        "bytes_c2s": entry.bytes_c2s,
        "bytes_s2c": entry.bytes_s2c,
        "requests": entry.total(kinds=("request",)),
        "failures": entry.failures,
        "pushes": entry.total(kinds=("push", "event")),
        "heartbeats": entry.heartbeats,
        "resumed": entry.resumed,
        "faults": len(entry.faults),
    }


def _tunnel(tunnel: TunnelEntry) -> dict[str, Any]:
    return {
        "number": tunnel.number,
        "link": tunnel.link,
        "instance_id": tunnel.instance_id,
        "tunnel_id": tunnel.tunnel_id,
        "outcome": "closed",
        "user_address": tunnel.address,
        "user_port": tunnel.port,
        "closed_by": "gateway",
        "messages_c2s": tunnel.total(direction="c2s"),
        "messages_s2c": tunnel.total(direction="s2c"),
    }


def _call(call: CallEntry) -> dict[str, Any]:
    return {
        "number": call.connection.number,
        "protocol": call.protocol,
        "client_address": call.connection.address,
        "client_port": call.connection.port,
        "target": call.target,
        "message_id": call.message_id,
        "outcome": call.outcome,
        "cause": call.cause,
        "status": call.status,
        "latency_min_ns": call.latency_min_ns,
        "latency_max_ns": call.latency_max_ns,
    }


def _fault(entry: ConnectionEntry, code: str) -> dict[str, Any]:
    return {
        "number": entry.number,
        "protocol": entry.protocol,
        "direction": "c2s",
        "code": code,
    }


def _deliveries(journal: Journal) -> list[dict[str, Any]]:
    """Return deliveries, and notifications for one client that were never sent."""
    found = dict(journal.deliveries)
    for notification, each in journal.publications.items():
        if each.recipient is not None:
            found.setdefault((*each.recipient, notification), DeliveryEntry())
    return [
        _delivery(*key, entry, journal.publications[key[2]]) for key, entry in sorted(found.items())
    ]


def _delivery(
    protocol: str, client: str, notification: str, found: DeliveryEntry, published: Publication
) -> dict[str, Any]:
    outcome = "unsent" if not found.sends else "acked" if found.acks else "unacked"
    # The hub measures from its first send to the ack that it receives. The client saw the push
    # after that send and wrote its ack before the hub had it, which gives the lower bound; the
    # publish call came before the send and the answer after the ack, which gives the upper one.
    low: int | None = None
    high: int | None = None
    if found.first_seen_ns is not None and found.ack_from_ns is not None:
        low = max(0, found.ack_from_ns - found.first_seen_ns)
        high = (found.ack_by_ns or found.ack_from_ns) - published.started_ns
    return {
        "protocol": protocol,
        "client": client,
        "notification": notification,
        "topic": published.topic,
        "outcome": outcome,
        "sends": found.sends,
        "acks": found.acks,
        "latency_min_ns": low,
        "latency_max_ns": high,
    }


def _message_counts(journal: Journal) -> list[dict[str, Any]]:
    total: Counter[tuple[str, str, str, str]] = Counter()
    for each in (*journal.connections, *journal.tunnels):
        total.update(each.messages)
    return [
        dict(zip(TABLES["message_counts"].names, (*key, count), strict=True))
        for key, count in sorted(total.items())
    ]


def _topics(journal: Journal, deliveries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Count deliveries by topic; notifications for one client have no topic."""
    found: dict[str | None, Counter[str]] = defaultdict(Counter)
    for each in journal.publications.values():
        found[each.topic].update(published=1, audience=each.audience)
    for row in deliveries:
        outcome = str(row["outcome"])
        found[row["topic"]].update({"deliveries": 1, outcome: 1, "sent": outcome != "unsent"})
    names = TABLES["topics"].names[1:]
    return [
        {"topic": topic, **{name: counts[name] for name in names}}
        for topic, counts in sorted(found.items(), key=lambda item: item[0] or "")
    ]


# -- figures ---------------------------------------------------------------------------------


def _summary(rows: dict[str, list[dict[str, Any]]], published: int, seconds: float) -> LiveSummary:
    def by(table: str, column: str) -> dict[str, int]:
        return dict(sorted(Counter(str(row[column]) for row in rows[table]).items()))

    return LiveSummary(
        seconds=seconds,
        messages=sum(row["messages"] for row in rows["message_counts"]),
        connections=by("connections", "protocol"),
        tunnels=len(rows["tunnels"]),
        calls=by("calls", "outcome"),
        published=published,
        deliveries=by("deliveries", "outcome"),
        faults=by("faults", "code"),
        targets=_targets(rows["calls"]),
    )


def _targets(calls: list[dict[str, Any]]) -> tuple[LiveTarget, ...]:
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in calls:
        if row["target"] is not None:
            grouped[row["protocol"], row["target"]].append(row)
    return tuple(_target(*key, found) for key, found in sorted(grouped.items()))


def _target(protocol: str, target: str, calls: list[dict[str, Any]]) -> LiveTarget:
    low = sorted(row["latency_min_ns"] for row in calls if row["latency_min_ns"] is not None)
    high = sorted(row["latency_max_ns"] for row in calls if row["latency_max_ns"] is not None)
    bounds = [_percentile(values, share) for share in (50, 99) for values in (low, high)]
    return LiveTarget(protocol, target, len(calls), len(high), *bounds)


def _percentile(values: list[int], share: int) -> int | None:
    """Return a percentile: the smallest value with that share of values not above it."""
    # The nearest rank, as `quantile_disc` of DuckDB has it: `compare.py` needs the same rank.
    return values[max(0, -(-len(values) * share // 100) - 1)] if values else None
