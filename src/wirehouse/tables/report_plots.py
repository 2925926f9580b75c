"""The plots of a report, as plain data for plotly.js.

Colours are names such as `$text` or `$c1`: the page has them as CSS variables, one set for light
and one for dark, and puts them in when it draws. Names from the wire are escaped, because plotly
takes labels for a kind of HTML.
"""

from __future__ import annotations

import html
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from .report import Report
from .report_sheets import duration_text, name_text, topic_text

__all__ = ["Plot", "plots"]

_COLOURS: Final = 8
"""Colours that the page has for protocols."""
_DECADES: Final = range(15)
"""Powers of ten of a nanosecond that an axis may show: up to a day."""
_WIDE: Final = 32
_NARROW: Final = 16
_LONGEST: Final = 60
"""Characters of a name: beside an axis, beside one on a phone, and where the pointer is."""
_ROW: Final = 26
"""Pixels of a horizontal bar with the room around it."""


@dataclass(frozen=True)
class Plot:
    """Something to draw."""

    name: str
    title: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 320

    def as_json(self) -> dict[str, Any]:
        """What the page's script takes."""
        return {
            "name": self.name,
            "traces": self.traces,
            "layout": {**self.layout, "height": self.height},
        }


def plots(report: Report) -> list[Plot]:
    """All plots that there is something to show in."""
    makers = (_traffic, _latency, _targets, _topics, _errors, _faults)
    return [plot for plot in (make(report) for make in makers) if plot.traces]


# -- over time -------------------------------------------------------------------------------


def _time(ns: int) -> str:
    """As plotly takes it, in UTC."""
    return f"{datetime.fromtimestamp(ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def _step_name(report: Report) -> str:
    minutes = report.step_ns // 60_000_000_000
    if minutes == 1:
        return "minute"
    if minutes % 1440 == 0:
        return "day" if minutes == 1440 else f"{minutes // 1440} days"
    if minutes % 60 == 0:
        return "hour" if minutes == 60 else f"{minutes // 60} hours"
    return f"{minutes} minutes"


def _bars_over_time(report: Report, name: str, colour: str) -> dict[str, Any]:
    step_ms = report.step_ns / 1e6
    return {
        "type": "bar",
        "name": name,
        "x": [],
        "y": [],
        "width": step_ms * 0.9,
        "offset": step_ms * 0.05,
        "marker": {"color": colour, "line": {"width": 0}},
    }


def _traffic(report: Report) -> Plot:
    order = [row.protocol for row in report.protocols]
    traces: dict[str | None, dict[str, Any]] = {}
    for number, protocol in enumerate(order):
        colour = f"$c{number % _COLOURS + 1}"
        traces[protocol] = {
            **_bars_over_time(report, _label(protocol), colour),
            "customdata": [],
            "hovertemplate": "%{y:,} messages, %{customdata:.3s}B",
        }
    for row in report.traffic:
        trace = traces[row.protocol]
        trace["x"].append(_time(row.start_ns))
        trace["y"].append(row.messages)
        trace["customdata"].append(row.bytes)
    step = _step_name(report)
    return Plot(
        "traffic",
        f"Messages by {step}",
        [trace for trace in traces.values() if trace["x"]],
        {"barmode": "stack", "hovermode": "x unified", "xaxis": _DATES, "yaxis": _COUNTS},
    )


def _errors(report: Report) -> Plot:
    kinds = {"failed": "$bad", "lost": "$warn", "unknown": "$dim", "fault": "$odd"}
    traces = {
        what: _bars_over_time(report, what, colour) | {"hovertemplate": "%{y:,}"}
        for what, colour in kinds.items()
    }
    for row in report.error_steps:
        if row.what in traces:
            traces[row.what]["x"].append(_time(row.start_ns))
            traces[row.what]["y"].append(row.errors)
    return Plot(
        "errors",
        f"Failed, lost and unknown calls, and faults, by {_step_name(report)}",
        [trace for trace in traces.values() if trace["x"]],
        {"barmode": "stack", "hovermode": "x unified", "xaxis": _DATES, "yaxis": _COUNTS},
    )


# -- latencies -------------------------------------------------------------------------------


def _latency(report: Report) -> Plot:
    """Calls by time and latency, stronger where there are more, and two percentiles over them."""
    if not report.latency:
        return Plot("latency", "", [])
    spans = sorted({(cell.from_ns, cell.below_ns) for cell in report.latency_cells})
    spans = _without_holes(spans)
    starts = list(
        range(report.latency[0].start_ns, report.latency[-1].start_ns + 1, report.step_ns)
    )
    places = {start: number for number, start in enumerate(starts)}
    rows = {span: number for number, span in enumerate(spans)}
    calls: list[list[int | None]] = [[None] * len(starts) for _ in spans]
    for cell in report.latency_cells:
        calls[rows[cell.from_ns, cell.below_ns]][places[cell.start_ns]] = cell.calls
    heat = {
        "type": "heatmap",
        "x": [_time(start) for start in (*starts, starts[-1] + report.step_ns)],
        "y": [*(_log(low) for low, _ in spans), _log(spans[-1][1])],
        "z": [[None if each is None else math.log10(each) for each in row] for row in calls],
        "customdata": [
            [[duration_text(low), duration_text(below), each] for each in row]
            for (low, below), row in zip(spans, calls, strict=True)
        ],
        "hovertemplate": "%{customdata[2]:,} calls from %{customdata[0]} to %{customdata[1]}"
        "<extra></extra>",
        "hoverongaps": False,
        "showscale": False,
        "colorscale": [[0, "$heat-low"], [1, "$heat-high"]],
    }
    lines = [
        _line(report, "p50", [row.p50_ns for row in report.latency], "$line-low"),
        _line(report, "p99", [row.p99_ns for row in report.latency], "$line-high"),
    ]
    low, high = _log(spans[0][0]), _log(spans[-1][1])
    return Plot(
        "latency",
        f"Latency of calls by {_step_name(report)}: stronger where there are more",
        [heat, *lines],
        {"xaxis": _DATES, "yaxis": _durations(low, high), "hovermode": "closest"},
        height=380,
    )


def _without_holes(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans one after the other, with one more for each stretch that has no calls."""
    found: list[tuple[int, int]] = []
    for low, below in spans:
        if found and found[-1][1] < low:
            found.append((found[-1][1], low))
        found.append((low, below))
    return found


def _line(report: Report, name: str, values: list[int], colour: str) -> dict[str, Any]:
    middle = report.step_ns // 2
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(values) < 3 else "lines",
        "name": name,
        "x": [_time(row.start_ns + middle) for row in report.latency],
        "y": [_log(value) for value in values],
        "customdata": [duration_text(value) for value in values],
        "hovertemplate": f"{name} %{{customdata}}<extra></extra>",
        "line": {"color": colour, "width": 2},
    }


def _targets(report: Report) -> Plot:
    """Bars from p50 to p99: on such an axis a bar that began at nothing would say nothing."""
    rows = report.targets
    if not rows:
        return Plot("targets", "", [])
    low = [_log(row.p50_ns) for row in rows]
    high = [_log(row.p99_ns) for row in rows]
    bars = {
        "type": "bar",
        "orientation": "h",
        "name": "p50 to p99",
        "y": list(range(len(rows))),
        "base": low,
        "x": [max(b - a, 0.01) for a, b in zip(low, high, strict=True)],
        "customdata": [
            [
                _label(row.protocol), _label(row.target), duration_text(row.p50_ns),
                duration_text(row.p90_ns), duration_text(row.p99_ns), row.calls,
            ]
            for row in rows
        ],
        "hovertemplate": "%{customdata[0]} %{customdata[1]}<br>p50 %{customdata[2]},"
        " p90 %{customdata[3]}, p99 %{customdata[4]}<br>%{customdata[5]:,} calls<extra></extra>",
        "marker": {"color": "$c1", "line": {"width": 0}},
    }  # fmt: skip
    middle = {
        "type": "scatter",
        "mode": "markers",
        "name": "p90",
        "y": list(range(len(rows))),
        "x": [_log(row.p90_ns) for row in rows],
        "hoverinfo": "skip",
        "marker": {"color": "$panel", "symbol": "line-ns", "size": 12,
                   "line": {"width": 2, "color": "$panel"}},
    }  # fmt: skip
    names = [f"{name_text(row.protocol)} {name_text(row.target)}" for row in rows]
    return Plot(
        "targets",
        "Slowest targets: from p50 to p99, with a mark at p90",
        [bars, middle],
        {
            "xaxis": _durations(min(low) - 0.1, max(high) + 0.1),
            "yaxis": _names(names),
            "showlegend": False,
        },
        height=_height(rows),
    )


# -- by name ---------------------------------------------------------------------------------


def _topics(report: Report) -> Plot:
    """Of what was published: acknowledged, and where the rest was left."""
    rows = [row for row in report.topics if row.published]
    stages = (
        ("acked", "acknowledged", "$good"),
        ("unknown", "sent, perhaps acknowledged", "$dim"),
        ("unacked", "sent, not acknowledged", "$warn"),
        ("unsent", "never sent", "$bad"),
    )
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": title,
            "y": list(range(len(rows))),
            "x": [getattr(row, stage) / row.published for row in rows],
            "customdata": [
                [_escaped(_cut(topic_text(row.topic), _LONGEST)), getattr(row, stage)]
                for row in rows
            ],
            "hovertemplate": f"%{{customdata[0]}}: %{{customdata[1]:,}} {title}<extra></extra>",
            "marker": {"color": colour, "line": {"width": 0}},
        }
        for stage, title, colour in stages
    ]
    return Plot(
        "topics",
        "What became of notifications, by topic",
        traces if rows else [],
        {
            "barmode": "stack",
            "xaxis": {"tickformat": ".0%", "range": [0, 1], "dtick": 0.25},
            "yaxis": _names([f"{topic_text(row.topic)} ({row.published:,})" for row in rows]),
        },
        height=_height(rows) + 30,
    )


def _faults(report: Report) -> Plot:
    """By reason, and within by protocol."""
    totals: dict[str, int] = defaultdict(int)
    for row in report.faults:
        totals[name_text(row.code)] += row.faults
    order = sorted(totals, key=lambda code: (-totals[code], code))
    protocols = [row.protocol for row in report.protocols]
    traces = []
    for number, protocol in enumerate(protocols):
        own = [row for row in report.faults if row.protocol == protocol]
        if own:
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": "outside of streams" if protocol is None else _label(protocol),
                    "y": [order.index(name_text(row.code)) for row in own],
                    "x": [row.faults for row in own],
                    "customdata": [_label(row.code) for row in own],
                    "hovertemplate": "%{customdata}: %{x:,}",
                    "marker": {"color": f"$c{number % _COLOURS + 1}", "line": {"width": 0}},
                }
            )
    return Plot(
        "faults",
        "How many, by reason and protocol",
        traces,
        {"barmode": "stack", "xaxis": _COUNTS, "yaxis": _names(order)},
        height=_height(order) + 30,
    )


# -- axes and labels -------------------------------------------------------------------------

_DATES: Final = {"type": "date"}
_COUNTS: Final = {"rangemode": "tozero", "tickformat": ",~s"}


def _log(ns: int) -> float:
    return math.log10(max(ns, 1))


def _durations(low: float, high: float) -> dict[str, Any]:
    """An axis of powers of ten."""
    decades = [each for each in _DECADES if low - 0.01 <= each <= high + 0.01]
    ticks = decades if len(decades) > 1 else [low, high]
    return {
        "range": [low, high],
        "tickvals": ticks,
        "ticktext": [duration_text(round(10**each)) for each in ticks],
    }


def _names(names: Sequence[str]) -> dict[str, Any]:
    """An axis of names from top to bottom; two that look alike stay two. Phones get short ones."""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [_escaped(_cut(name, _WIDE)) for name in names],
        "shorttext": [_escaped(_cut(name, _NARROW)) for name in names],
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
        "zeroline": False,
    }


def _height(rows: Iterable[object]) -> int:
    return 90 + _ROW * len(list(rows))


def _label(value: str | None) -> str:
    return _escaped(_cut(name_text(value), _LONGEST))


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
