"""The truth of a performance: rows in truth/*.parquet, and figures in truth.json.

Times are not in it, for they are the hub's; latencies are, as the interval that they must lie in:
at least what the service was asked to take, at most what the client measured.
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
    Contact,
    Handed,
    Ledger,
    Publication,
)

__all__ = ["SHEETS", "LiveSummary", "LiveTarget", "write_truth"]

_TEXT, _INT, _BOOL = pa.string(), pa.int64(), pa.bool_()

SHEETS: Final[dict[str, pa.Schema]] = {
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
"""The columns of each table of truth. `number` is the truth's own for a connection or a tunnel."""


@dataclass(frozen=True, slots=True)
class LiveTarget:
    """What was called, how often, and between which bounds its percentiles lie."""

    protocol: str
    target: str
    calls: int
    answered: int
    """Calls with an answer, failures included."""
    p50_min_ns: int | None
    p50_max_ns: int | None
    p99_min_ns: int | None
    p99_max_ns: int | None


@dataclass(frozen=True, slots=True)
class LiveSummary:
    """A performance in figures."""

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
        """Everything, as JSON has it."""
        return asdict(self)


def write_truth(folder: Path, ledger: Ledger, asked: dict[str, Any]) -> LiveSummary:
    """Writes the truth into a folder that is there; gives it in figures."""
    rows: dict[str, list[dict[str, Any]]] = {
        "connections": [_connection(each) for each in ledger.contacts],
        "tunnels": [_tunnel(each) for each in ledger.passages],
        "calls": [_call(each) for each in ledger.calls],
        "deliveries": _deliveries(ledger),
        "faults": [_fault(each, code) for each in ledger.contacts for code in each.faults],
        "message_counts": _message_counts(ledger),
    }
    rows["topics"] = _topics(ledger, rows["deliveries"])
    (folder / "truth").mkdir(parents=True, exist_ok=True)
    for name, columns in SHEETS.items():
        table = pa.Table.from_pylist(rows[name], schema=columns)
        pq.write_table(table, folder / "truth" / f"{name}.parquet", compression="zstd")
    summary = _summary(rows, len(ledger.publications), float(asked["seconds"]))
    found = {"asked": asked, "clock_ns": CLOCK_NS, **summary.as_json(), "topics": rows["topics"]}
    text = json.dumps(found, indent=2, ensure_ascii=False)
    (folder / "truth.json").write_text(text + "\n", encoding="utf-8")
    return summary


# -- rows ------------------------------------------------------------------------------------


def _connection(contact: Contact) -> dict[str, Any]:
    return {
        "number": contact.number,
        "protocol": contact.protocol,
        "client_address": contact.address,
        "client_port": contact.port,
        "server_port": contact.server_port,
        "client": contact.client,
        "closed_by": contact.closed_by,
        "close_reason": contact.close_reason,
        "messages_c2s": contact.total(direction="c2s"),
        "messages_s2c": contact.total(direction="s2c"),
        "bytes_c2s": contact.bytes_c2s,
        "bytes_s2c": contact.bytes_s2c,
        "requests": contact.total(kinds=("request",)),
        "failures": contact.failures,
        "pushes": contact.total(kinds=("push", "event")),
        "heartbeats": contact.named("heartbeat", "ping", "pin", "link_ping"),
        "resumed": contact.resumed,
        "faults": len(contact.faults),
    }


def _tunnel(passage: Any) -> dict[str, Any]:
    return {
        "number": passage.number,
        "link": passage.link,
        "instance_id": passage.instance_id,
        "tunnel_id": passage.tunnel_id,
        "outcome": "closed",
        "user_address": passage.address,
        "user_port": passage.port,
        "closed_by": "gateway",
        "messages_c2s": passage.total(direction="c2s"),
        "messages_s2c": passage.total(direction="s2c"),
    }


def _call(call: Any) -> dict[str, Any]:
    return {
        "number": call.contact.number,
        "protocol": call.protocol,
        "client_address": call.contact.address,
        "client_port": call.contact.port,
        "target": call.target,
        "message_id": call.message_id,
        "outcome": call.outcome,
        "cause": call.cause,
        "status": call.status,
        "latency_min_ns": call.latency_min_ns,
        "latency_max_ns": call.latency_max_ns,
    }


def _fault(contact: Contact, code: str) -> dict[str, Any]:
    return {
        "number": contact.number,
        "protocol": contact.protocol,
        "direction": "c2s",
        "code": code,
    }


def _deliveries(ledger: Ledger) -> list[dict[str, Any]]:
    """What was sent to somebody, and what was published for one client and never sent."""
    handed = dict(ledger.handed)
    for notification, each in ledger.publications.items():
        if each.client is not None:
            handed.setdefault((each.client, notification), Handed())
    return [
        _delivery(client, notification, found, ledger.publications[notification])
        for (client, notification), found in sorted(handed.items())
    ]


def _delivery(
    client: str, notification: str, found: Handed, published: Publication
) -> dict[str, Any]:
    outcome = "unsent" if not found.sends else "acked" if found.acks else "unacked"
    low: int | None = None
    high: int | None = None
    if found.first_seen_ns is not None and found.ack_from_ns is not None:
        low = max(0, found.ack_from_ns - found.first_seen_ns)
        high = (found.ack_by_ns or found.ack_from_ns) - published.asked_ns
    return {
        "protocol": "comet",
        "client": client,
        "notification": notification,
        "topic": published.topic,
        "outcome": outcome,
        "sends": found.sends,
        "acks": found.acks,
        "latency_min_ns": low,
        "latency_max_ns": high,
    }


def _message_counts(ledger: Ledger) -> list[dict[str, Any]]:
    total: Counter[tuple[str, str, str, str]] = Counter()
    for each in (*ledger.contacts, *ledger.passages):
        total.update(each.messages)
    return [
        dict(zip(SHEETS["message_counts"].names, (*key, count), strict=True))
        for key, count in sorted(total.items())
    ]


def _topics(ledger: Ledger, deliveries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What became of what was published, by topic; what was for one client has none."""
    found: dict[str | None, Counter[str]] = defaultdict(Counter)
    for each in ledger.publications.values():
        found[each.topic].update(published=1, audience=each.audience)
    for row in deliveries:
        outcome = str(row["outcome"])
        found[row["topic"]].update({"deliveries": 1, outcome: 1, "sent": outcome != "unsent"})
    names = SHEETS["topics"].names[1:]
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
    """The least value that so many of a hundred are not above."""
    return values[max(0, -(-len(values) * share // 100) - 1)] if values else None
