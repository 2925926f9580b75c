"""`python -m tools.dashboard deploy/grafana/wirelake-hub.json`: the Grafana dashboard of a hub.

The panels are listed here, by row; positions, ids and what all panels have in common are computed.
Grafana 10 or newer can import the file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["ROWS", "Panel", "Query", "dashboard", "main", "text"]

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS: Final = 24
_HEIGHT: Final = 8
_STAT_HEIGHT: Final = 4
_SCHEMA: Final = 39
"""Format of the file: that of Grafana 10 and 11; newer versions upgrade it."""


class Query(NamedTuple):
    """A series of a panel. `{}` in the expression stands for the selected hubs."""

    expression: str
    legend: str


class Panel(NamedTuple):
    """A panel; its width in columns of 24."""

    title: str
    unit: str
    queries: Sequence[Query]
    width: int = 8
    kind: str = "timeseries"
    text: str = ""
    bad_from: float | None = None
    """For `stat`: red from this value on."""


def _rate(metric: str, by: str, legend: str = "") -> Query:
    return Query(
        f"sum by ({by}) (rate({metric}{{}}[$__rate_interval]))",
        legend or " ".join(f"{{{{{label}}}}}" for label in by.split(", ")),
    )


def _stat(title: str, expression: str, unit: str = "short", bad_from: float | None = None) -> Panel:
    return Panel(title, unit, [Query(expression, "{{instance}}")], 4, "stat", "", bad_from)


def _percentile(percent: int, by: str = "") -> Query:
    labels = f"le, {by}" if by else "le"
    legend = f"p{percent} {{{{{by}}}}}" if by else f"p{percent}"
    rate = f"sum by ({labels}) (rate(wirelake_call_seconds_bucket{{}}[$__rate_interval]))"
    return Query(f"histogram_quantile({percent / 100}, {rate})", legend)


ROWS: Final[dict[str, list[Panel]]] = {
    "Overview": [
        _stat("Hubs that answer", "sum(wirelake_uptime_seconds{} > bool 0)"),
        _stat("Up for", "min(wirelake_uptime_seconds{})", "s"),
        _stat("Draining", "sum(wirelake_draining{})", bad_from=1),
        _stat("Open connections", "sum(wirelake_connections{})"),
        _stat("Failures of the store", "sum(increase(wirelake_store_failures_total{}[$__range]))",
              bad_from=1),
        _stat("Dead letters", "sum(increase(wirelake_dead_letters_total{}[$__range]))", bad_from=1),
    ],
    "Connections": [
        Panel("Open connections", "short",
              [Query("sum by (protocol) (wirelake_connections{})", "{{protocol}}")]),
        Panel("Accepted", "cps", [_rate("wirelake_connections_accepted_total", "protocol")]),
        Panel("Closed, by reason", "cps",
              [_rate("wirelake_connections_closed_total", "protocol, reason")]),
        Panel("Bytes received", "Bps", [_rate("wirelake_bytes_in_total", "protocol")]),
        Panel("Bytes sent", "Bps", [_rate("wirelake_bytes_out_total", "protocol")]),
        Panel("Memory for peers", "bytes", [Query("wirelake_buffered_bytes{}", "{{instance}}")],
              text="Incomplete messages, running calls, unread messages: at most"
                   " `limits.buffered_bytes`."),
    ],
    "Calls": [
        Panel("Calls, by outcome", "reqps", [_rate("wirelake_calls_total", "outcome")]),
        Panel("Latency of calls", "s", [_percentile(50), _percentile(90), _percentile(99)],
              text="In the hub, without the network."),
        Panel("p99 of a call, by target", "s", [_percentile(99, "target")]),
        Panel("Calls, by target", "reqps", [_rate("wirelake_call_seconds_count", "target")], 12),
        Panel("Running calls", "short", [Query("wirelake_calls_running{}", "{{instance}}")], 12),
        Panel("Calls in service processes, by outcome", "reqps", [
            _rate("wirelake_provided_calls_total", "outcome")]),
        Panel("Running calls in service processes", "short", [
            Query("wirelake_provided_calls_running{}", "{{instance}}")]),
        Panel("Service processes", "short", [
            Query("wirelake_service_processes{}", "processes {{instance}}"),
            Query("wirelake_offered_services{}", "services {{instance}}"),
        ]),
    ],
    "Publishes and deliveries": [
        Panel("Published and stored", "mps", [
            _rate("wirelake_published_total", "instance", "published {{instance}}"),
            _rate("wirelake_stored_total", "instance", "stored {{instance}}"),
        ]),
        Panel("Sent", "mps", [_rate("wirelake_delivered_total", "protocol")]),
        Panel("Acknowledged", "mps", [_rate("wirelake_acked_total", "instance")]),
        Panel("Publishes refused", "mps", [_rate("wirelake_publishes_refused_total", "instance")],
              12),
        Panel("Transient, not sent to slow readers", "mps",
              [_rate("wirelake_skipped_total", "protocol")], 12),
    ],
    "Backlog and dead letters": [
        Panel("Dead letters, by reason", "mps", [_rate("wirelake_dead_letters_total", "reason")],
              text="`expired`: clients are offline for too long; `quota`: backlogs are full."),
        Panel("Content of the store", "bytes", [
            Query("wirelake_store_bytes{} - wirelake_store_free_bytes{}", "{{instance}}")],
            text="Grows with the backlog: what everybody has acknowledged is deleted."),
        Panel("Topics and idempotency keys", "short", [
            Query("wirelake_topics{}", "topics {{instance}}"),
            Query("wirelake_idempotency_keys{}", "keys {{instance}}"),
        ]),
    ],
    "Store": [
        Panel("Failures", "ops", [_rate("wirelake_store_failures_total", "instance, operation")]),
        Panel("Size", "bytes", [
            Query("wirelake_store_bytes{}", "database {{instance}}"),
            Query("wirelake_store_free_bytes{}", "free in it {{instance}}"),
        ], text="Hubs with one PostgreSQL database all show the same."),
        Panel("Write-ahead log", "bytes", [Query("wirelake_store_wal_bytes{}", "{{instance}}")],
              text="Of SQLite; 0 with PostgreSQL."),
    ],
    "Refused": [
        Panel("Connections over limits", "cps", [_rate("wirelake_connections_refused_total",
                                                       "limit")]),
        Panel("Failures to accept", "cps", [_rate("wirelake_accept_errors_total",
                                                  "protocol, error")]),
        Panel("TLS handshakes that failed", "cps", [_rate("wirelake_handshake_failures_total",
                                                          "protocol, reason")]),
        Panel("Sign-ons that failed", "cps", [_rate("wirelake_auth_failures_total", "protocol")]),
        Panel("Known keys of issuers", "short", [
            Query("wirelake_issuer_keys{}", "{{issuer}} {{instance}}")],
            text="0: signed tokens of the issuer are refused."),
        Panel("Protocol errors", "cps", [_rate("wirelake_protocol_failures_total",
                                               "protocol, code")]),
        Panel("Aborted by the hub", "cps", [_rate("wirelake_connections_dropped_total",
                                                  "protocol, reason")]),
    ],
    "Recording": [
        Panel("Recording fails", "short", [Query("wirelake_recording_failed{}", "{{instance}}")],
              12, text="1 while the recording cannot be written."),
        Panel("Frames not recorded", "short", [
            Query("increase(wirelake_recording_lost_total{}[$__rate_interval])", "{{instance}}")],
            12),
    ],
}  # fmt: skip
"""All panels. A hub that does not record has no series for the last row."""
_HUBS: Final = '{job="$job", instance=~"$instance"}'


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": "wirelake-hub",
        "title": "Wirelake hubs",
        "description": "Generated by tools/dashboard.py. What to do: docs/guides/runbook.md.",
        "tags": ["wirelake"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": _SCHEMA,
        "version": 1,
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "links": [],
        "panels": list(_panels()),
    }


def text() -> str:
    """Return the content of the file."""
    return json.dumps(dashboard(), indent=2) + "\n"


def _variables() -> list[dict[str, Any]]:
    return [
        {
            "name": "datasource",
            "label": "Prometheus",
            "type": "datasource",
            "query": "prometheus",
            "refresh": 1,
        },
        _labels("job", "Job", "label_values(wirelake_uptime_seconds, job)", several=False),
        _labels(
            "instance",
            "Hub",
            'label_values(wirelake_uptime_seconds{job="$job"}, instance)',
            several=True,
        ),
    ]


def _labels(name: str, label: str, query: str, *, several: bool) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": query,
        "refresh": 2,
        "sort": 1,
        "multi": several,
        "includeAll": several,
        **({"current": {"text": "All", "value": "$__all"}} if several else {}),
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, y = 0, 0
    for title, panels in ROWS.items():
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": y, "w": _COLUMNS, "h": 1},
            "panels": [],
        }
        x, y = 0, y + 1
        height = _STAT_HEIGHT if panels[0].kind == "stat" else _HEIGHT
        for each in panels:
            if x + each.width > _COLUMNS:
                x, y = 0, y + height
            number += 1
            at = {"x": x, "y": y, "w": each.width, "h": height}
            yield {"id": number, "gridPos": at, **_panel(each)}
            x += each.width
        y += height


def _panel(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_from is not None:
        steps.append({"color": "red", "value": panel.bad_from})
    options: dict[str, Any] = (
        {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
        if panel.kind == "stat"
        else {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    )
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "thresholds": {"mode": "absolute", "steps": steps},
            },
            "overrides": [],
        },
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": _SOURCE,
                "expr": each.expression.replace("{}", _HUBS),
                "legendFormat": each.legend,
            }
            for at, each in enumerate(panel.queries)
        ],
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the dashboard."""
    parser = argparse.ArgumentParser(prog="python -m tools.dashboard", description=main.__doc__)
    parser.add_argument("file", type=Path, help="such as deploy/grafana/wirelake-hub.json")
    parser.parse_args(arguments).file.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
