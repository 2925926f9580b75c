"""The plots of a report, as plain data for plotly.js.

Colours are names such as `$text` or `$c1`. They are CSS variables of the page, with one set for
light and one for dark mode; its script replaces the names when it draws.
"""

from __future__ import annotations

import html
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from wirelake.protocols import registry

from .report import LatencyStep, Report
from .sheets import bytes_text, duration_text, name_text, target_text, topic_text

__all__ = [
    "DATES",
    "MAX_HOVER",
    "SHARES",
    "Plot",
    "colours",
    "counts",
    "durations",
    "escaped",
    "height_of",
    "label",
    "log",
    "names_axis",
    "plots",
    "step_name",
    "time_of",
    "truncated",
]


# -- axes and labels ---------------------------------------------------------------------------

DATES: Final = {"type": "date"}
"""Time axis."""
SHARES: Final = {"tickformat": ".0%", "range": [0, 1], "dtick": 0.25}
"""Axis of percentages."""
MAX_HOVER: Final = 40
"""Longest name in a hover label."""

_DECADES: Final = range(15)
"""Powers of ten of an axis of durations, in nanoseconds: up to a day."""
_WIDE: Final = 32
_NARROW: Final = 16
"""Longest names beside an axis, on a desktop and on a phone."""
_ROW: Final = 26
"""Pixels per horizontal bar, with its margin."""
_SECOND_NS: Final = 1_000_000_000
_MAX_TICKS: Final = 6
"""Marks of an axis of counts, without that of zero."""


def time_of(ns: int) -> str:
    """Return a time in UTC in plotly's format."""
    seconds, rest = divmod(ns, _SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03}"


def step_name(step_ns: int) -> str:
    """Return the name of a step, such as `5 minutes`."""
    seconds = step_ns // _SECOND_NS
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds % size == 0:
            return word if seconds == size else f"{seconds // size} {word}s"
    return "second" if seconds == 1 else f"{seconds} seconds"


def log(ns: int) -> float:
    """Return the position of a duration on a logarithmic axis."""
    return math.log10(max(ns, 1))


def durations(low: float, high: float) -> dict[str, Any]:
    """Return a logarithmic axis of durations."""
    decades = [each for each in _DECADES if low - 0.01 <= each <= high + 0.01]
    ticks = decades if len(decades) > 1 else [low, high]
    return {
        "range": [low, high],
        "tickvals": ticks,
        "ticktext": [duration_text(round(10**each)) for each in ticks],
    }


def names_axis(names: Sequence[str]) -> dict[str, Any]:
    """Return an axis of names from top to bottom, with shorter ones for phones.

    Ticks are numbers, so that two names that are equal when truncated stay apart.
    """
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [escaped(truncated(name, _WIDE)) for name in names],
        "shorttext": [escaped(truncated(name, _NARROW)) for name in names],
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
        "zeroline": False,
    }


def counts(highest: int) -> dict[str, Any]:
    """Return an axis of counts up to a number, marked at whole numbers only."""
    step = 1
    while highest > step * _MAX_TICKS:
        # 1, 2, 5, 10, 20, …: the next one by its first digit.
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    # Thousands as 20k: short enough for a phone.
    form = ",d" if step < 1_000 else ",~s"
    return {"rangemode": "tozero", "tick0": 0, "dtick": step, "tickformat": form}


def height_of(rows: Iterable[object]) -> int:
    """Return the pixels of a plot with one horizontal bar per row."""
    return 90 + _ROW * len(list(rows))


def label(value: str | None) -> str:
    """Return a name for a hover label."""
    return escaped(truncated(name_text(value), MAX_HOVER))


def escaped(text: str) -> str:
    """Return text in which plotly finds no tags."""
    return html.escape(text, quote=False)


def truncated(text: str, width: int) -> str:
    """Return at most `width` characters of a text."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


# -- plots -------------------------------------------------------------------------------------

_COLOURS: Final = 8
"""Number of colours for protocols in the page."""


@dataclass(frozen=True)
class Plot:
    """A plot."""

    name: str
    title: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 320

    def as_json(self) -> dict[str, Any]:
        """Return the data for the script of the page."""
        return {
            "name": self.name,
            "traces": self.traces,
            "layout": {**self.layout, "height": self.height},
        }


def plots(report: Report) -> list[Plot]:
    """Return all plots that are not empty."""
    makers = (
        _traffic, _latency, _targets, _topics, _connections, _errors, _faults, _coverage,
    )  # fmt: skip
    return [plot for plot in (make(report) for make in makers) if plot.traces]


def colours() -> dict[str | None, str]:
    """Return the colour of each protocol, the same in all plots, tables and reports."""
    # By the list of protocols, not by rank in this report: two reports are compared side by side.
    found: dict[str | None, str] = {None: "$unknown"}
    for number, name in enumerate(registry.names()):
        found[name] = f"$c{number % _COLOURS + 1}"
    return found


def _colours(report: Report) -> dict[str | None, str]:
    """Return the colours of the protocols of a report, in its order."""
    known = colours()
    return {row.protocol: known.get(row.protocol, "$unknown") for row in report.protocols}


def _complete(report: Report, start_ns: int) -> bool:
    """Return whether a step is complete: a lower last bar would look like an outage.

    Where there is no complete step, all are drawn.
    """
    first_ns, end_ns = report.overview.first_ns, report.complete_ns
    if first_ns is None or end_ns is None or end_ns < first_ns + report.step_ns:
        return True
    return start_ns + report.step_ns <= end_ns


def _highest(traces: Iterable[dict[str, Any]], axis: str, other: str) -> int:
    """Return the highest sum of stacked bars."""
    sums: dict[Any, int] = defaultdict(int)
    for trace in traces:
        for place, count in zip(trace[other], trace[axis], strict=True):
            sums[place] += count
    return max(sums.values(), default=0)


# -- over time -------------------------------------------------------------------------------


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
    traces: dict[str | None, dict[str, Any]] = {}
    for protocol, colour in _colours(report).items():
        traces[protocol] = {
            **_bars_over_time(report, label(protocol), colour),
            "customdata": [],
            "hovertemplate": "%{y:,} messages, %{customdata:.3s}B",
        }
    for row in report.traffic:
        if not _complete(report, row.start_ns):
            continue
        trace = traces[row.protocol]
        trace["x"].append(time_of(row.start_ns))
        trace["y"].append(row.messages)
        trace["customdata"].append(row.bytes)
    drawn = [trace for trace in traces.values() if trace["x"]]
    return Plot(
        "traffic",
        f"Messages by {step_name(report.step_ns)}",
        drawn,
        _over_time(drawn),
    )


def _errors(report: Report) -> Plot:
    kinds = {"failed": "$bad", "lost": "$warn", "unknown": "$dim", "fault": "$other"}
    traces = {
        what: _bars_over_time(report, what, colour) | {"hovertemplate": "%{y:,}"}
        for what, colour in kinds.items()
    }
    for row in report.error_steps:
        if row.what in traces and _complete(report, row.start_ns):
            traces[row.what]["x"].append(time_of(row.start_ns))
            traces[row.what]["y"].append(row.errors)
    drawn = [trace for trace in traces.values() if trace["x"]]
    return Plot(
        "errors",
        f"Failed, lost and unknown calls, and faults, by {step_name(report.step_ns)}",
        drawn,
        _over_time(drawn),
    )


def _over_time(traces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "barmode": "stack",
        "hovermode": "x unified",
        "xaxis": DATES,
        "yaxis": counts(_highest(traces, "y", "x")),
    }


# -- latencies -------------------------------------------------------------------------------


def _latency(report: Report) -> Plot:
    """Return a heat map of calls by time and latency, with the lines of two percentiles."""
    steps = [row for row in report.latency if _complete(report, row.start_ns)]
    if not steps:
        return Plot("latency", "", [])
    cells = [cell for cell in report.latency_cells if _complete(report, cell.start_ns)]
    # Cells are half a doubling high and counts are drawn by their logarithm: latencies and counts
    # both spread over several powers of ten.
    spans = sorted({(cell.from_ns, cell.below_ns) for cell in cells})
    spans = _fill_gaps(spans)
    starts = list(range(steps[0].start_ns, steps[-1].start_ns + 1, report.step_ns))
    places = {start: number for number, start in enumerate(starts)}
    rows = {span: number for number, span in enumerate(spans)}
    calls: list[list[int | None]] = [[None] * len(starts) for _ in spans]
    for cell in cells:
        calls[rows[cell.from_ns, cell.below_ns]][places[cell.start_ns]] = cell.calls
    heat = {
        "type": "heatmap",
        "x": [time_of(start) for start in (*starts, starts[-1] + report.step_ns)],
        "y": [*(log(low) for low, _ in spans), log(spans[-1][1])],
        "z": [[None if each is None else math.log10(each) for each in row] for row in calls],
        "customdata": [
            [[duration_text(low), duration_text(below), each] for each in row]
            for (low, below), row in zip(spans, calls, strict=True)
        ],
        "hovertemplate": "%{customdata[2]:,} calls from %{customdata[0]} to %{customdata[1]}"
        "<extra></extra>",
        "hoverongaps": False,
        "colorscale": [[0, "$heat-low"], [1, "$heat-high"]],
        **_heat_scale(max(cell.calls for cell in cells)),
    }
    lines = [
        _line(report, steps, "p50", [row.p50_ns for row in steps], "$line-low"),
        _line(report, steps, "p99", [row.p99_ns for row in steps], "$line-high"),
    ]
    low, high = log(spans[0][0]), log(spans[-1][1])
    return Plot(
        "latency",
        f"Calls by latency and {step_name(report.step_ns)}, with p50 and p99",
        [heat, *lines],
        {"xaxis": DATES, "yaxis": durations(low, high), "hovermode": "closest"},
        height=380,
    )


def _heat_scale(highest: int) -> dict[str, Any]:
    """Return the scale of the colours: counts of calls, at powers of ten."""
    marks = [10**power for power in range(len(str(highest)))]
    if highest > marks[-1] * 2:
        marks.append(highest)
    return {
        "zmin": 0,
        "zmax": math.log10(max(highest, 2)),
        "colorbar": {
            "title": {"text": "calls", "side": "top"},
            "tickvals": [math.log10(mark) for mark in marks],
            "ticktext": [f"{mark:,}" for mark in marks],
            "thickness": 12,
            "outlinewidth": 0,
            "xpad": 6,
        },
    }


def _fill_gaps(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Insert a span for each gap between spans: plotly's heat map needs contiguous rows."""
    filled: list[tuple[int, int]] = []
    for low, below in spans:
        if filled and filled[-1][1] < low:
            filled.append((filled[-1][1], low))
        filled.append((low, below))
    return filled


def _line(
    report: Report, steps: Sequence[LatencyStep], name: str, values: list[int], colour: str
) -> dict[str, Any]:
    middle = report.step_ns // 2
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(values) < 3 else "lines",
        "name": name,
        "x": [time_of(row.start_ns + middle) for row in steps],
        "y": [log(value) for value in values],
        "customdata": [duration_text(value) for value in values],
        "hovertemplate": f"{name} %{{customdata}}<extra></extra>",
        "line": {"color": colour, "width": 2},
    }


def _targets(report: Report) -> Plot:
    """Return bars from p50 to p99; a logarithmic axis has no zero to start them at."""
    # Targets without any response have no latency to draw.
    rows = [row for row in report.targets if row.p99_ns is not None]
    if not rows:
        return Plot("targets", "", [])
    known = _colours(report)
    low = [log(row.p50_ns or 0) for row in rows]
    high = [log(row.p99_ns or 0) for row in rows]
    bars = {
        "type": "bar",
        "orientation": "h",
        "name": "p50 to p99",
        "y": list(range(len(rows))),
        "base": low,
        "x": [max(b - a, 0.01) for a, b in zip(low, high, strict=True)],
        "customdata": [
            [
                label(row.protocol), label(target_text(row.protocol, row.target)),
                duration_text(row.p50_ns),
                duration_text(row.p90_ns), duration_text(row.p99_ns), row.calls,
            ]
            for row in rows
        ],
        "hovertemplate": "%{customdata[0]} %{customdata[1]}<br>p50 %{customdata[2]},"
        " p90 %{customdata[3]}, p99 %{customdata[4]}<br>%{customdata[5]:,} calls<extra></extra>",
        "marker": {
            "color": [known.get(row.protocol, "$unknown") for row in rows], "line": {"width": 0},
        },
    }  # fmt: skip
    middle = {
        "type": "scatter",
        "mode": "markers",
        "name": "p90",
        "y": list(range(len(rows))),
        "x": [log(row.p90_ns or 0) for row in rows],
        "hoverinfo": "skip",
        "marker": {"color": "$panel", "symbol": "line-ns", "size": 12,
                   "line": {"width": 2, "color": "$panel"}},
    }  # fmt: skip
    names = [f"{name_text(row.protocol)} {target_text(row.protocol, row.target)}" for row in rows]
    return Plot(
        "targets",
        "Slowest targets: p50 to p99, with a mark at p90",
        [bars, middle],
        {
            "xaxis": durations(min(low) - 0.1, max(high) + 0.1),
            "yaxis": names_axis(names),
            "showlegend": False,
        },
        height=height_of(rows),
    )


# -- by name ---------------------------------------------------------------------------------


def _topics(report: Report) -> Plot:
    """Return the outcomes of published notifications by topic."""
    rows = [row for row in report.topics if row.published]
    stages = (
        ("acked", "acknowledged", "$good"),
        ("unknown", "sent, acknowledgement unknown", "$dim"),
        ("unacked", "sent, not acknowledged", "$warn"),
        ("unsent", "never sent", "$bad"),
    )
    traces = [
        {
            **_bars_by_name(title, colour),
            "y": list(range(len(rows))),
            "x": [getattr(row, stage) / row.published for row in rows],
            "customdata": [
                [escaped(truncated(topic_text(row.topic), MAX_HOVER)), getattr(row, stage)]
                for row in rows
            ],
            "hovertemplate": f"%{{customdata[0]}}: %{{customdata[1]:,}} {title}<extra></extra>",
        }
        for stage, title, colour in stages
        if any(getattr(row, stage) for row in rows)
    ]
    return Plot(
        "topics",
        "Outcomes of notifications by topic",
        traces if rows else [],
        {
            "barmode": "stack",
            "xaxis": SHARES,
            "yaxis": names_axis([f"{topic_text(row.topic)} ({row.published:,})" for row in rows]),
        },
        height=height_of(rows) + 30,
    )


def _faults(report: Report) -> Plot:
    """Return faults by code and protocol."""
    totals: dict[str, int] = defaultdict(int)
    for row in report.faults:
        totals[name_text(row.code)] += row.faults
    order = sorted(totals, key=lambda code: (-totals[code], code))
    traces = []
    for protocol, colour in _colours(report).items():
        own = [row for row in report.faults if row.protocol == protocol]
        if own:
            traces.append(
                {
                    **_bars_by_name(
                        "outside streams" if protocol is None else label(protocol), colour
                    ),
                    "y": [order.index(name_text(row.code)) for row in own],
                    "x": [row.faults for row in own],
                    "customdata": [label(row.code) for row in own],
                    "hovertemplate": "%{customdata}: %{x:,}",
                }
            )
    return Plot(
        "faults",
        "Faults by reason and protocol",
        traces,
        {
            "barmode": "stack",
            "xaxis": counts(_highest(traces, "x", "y")),
            "yaxis": names_axis(order),
        },
        height=height_of(order) + 30,
    )


_CLOSE_OUTCOMES: Final = (
    ("closed_by_client", "closed by the client", "$end-client"),
    ("closed_by_server", "closed by the server", "$end-server"),
    ("reset", "reset", "$bad"),
    ("other", "closed otherwise", "$other"),
    ("open", "still open", "$dim"),
)


def _connections(report: Report) -> Plot:
    """Return connections by protocol and how they were closed."""
    rows = report.connections
    traces = [
        {
            **_bars_by_name(title, colour, hatched=ending == "open"),
            "y": list(range(len(rows))),
            "x": [getattr(row, ending) for row in rows],
            "customdata": [label(row.protocol) for row in rows],
            "hovertemplate": f"%{{customdata}}: %{{x:,}} {title}<extra></extra>",
        }
        for ending, title, colour in _CLOSE_OUTCOMES
        if any(getattr(row, ending) for row in rows)
    ]
    return Plot(
        "connections",
        "Connections by protocol and how they were closed",
        traces,
        {
            "barmode": "stack",
            "xaxis": counts(_highest(traces, "x", "y")),
            "yaxis": names_axis([name_text(row.protocol) for row in rows]),
        },
        height=height_of(rows) + 30,
    )


_COVERAGE: Final = (
    ("decoded_bytes", "decoded", "$good"),
    ("undecryptable_bytes", "sealed, no key", "$dim"),
    ("ignored_bytes", "ignored", "$other"),
    ("faulty_bytes", "faulty", "$bad"),
    ("gap_bytes", "not captured", "$warn"),
)


def _coverage(report: Report) -> Plot:
    """Return the coverage of stream bytes by protocol."""
    rows = [row for row in report.coverage if row.span_bytes]
    traces = [
        {
            **_bars_by_name(title, colour),
            "y": list(range(len(rows))),
            "x": [getattr(row, part) / row.span_bytes for row in rows],
            "customdata": [[label(row.protocol), bytes_text(getattr(row, part))] for row in rows],
            "hovertemplate": f"%{{customdata[0]}}: %{{customdata[1]}} {title}<extra></extra>",
        }
        for part, title, colour in _COVERAGE
        if any(getattr(row, part) for row in rows)
    ]
    return Plot(
        "coverage",
        "Coverage of stream bytes by protocol",
        traces,
        {
            "barmode": "stack",
            "xaxis": SHARES,
            "yaxis": names_axis([name_text(row.protocol) for row in rows]),
        },
        height=height_of(rows) + 30,
    )


def _bars_by_name(title: str, colour: str, *, hatched: bool = False) -> dict[str, Any]:
    marker: dict[str, Any] = {"color": colour, "line": {"width": 0}}
    if hatched:  # what has not ended, in a color that is close to others
        marker["pattern"] = {"shape": "/", "fillmode": "replace", "size": 6}
    return {"type": "bar", "orientation": "h", "name": title, "marker": marker}
