"""The lists of a report as sheets of text, which the terminal and the page show alike.

What comes from the wire is made harmless here: no cell has a character that is not printable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from .report import Report

__all__ = [
    "Sheet",
    "bytes_text",
    "count_text",
    "duration_text",
    "name_text",
    "sheets",
    "tiles",
    "time_text",
    "topic_text",
]

NOBODY: Final = "–"
"""Stands for what is not known."""
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True)
class Sheet:
    """A table of text."""

    name: str
    """The list of the report that it shows."""
    title: str
    about: str
    """What its figures are, in a sentence or two."""
    headings: tuple[str, ...]
    numbers: tuple[bool, ...]
    """By column: whether it has numbers."""
    minor: tuple[str, ...]
    """Columns that can be done without where there is no room."""
    rows: list[tuple[str, ...]]


# -- values ----------------------------------------------------------------------------------


def name_text(value: str | None) -> str:
    """A name from the wire, harmless."""
    if value is None:
        return NOBODY
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in value)


def topic_text(topic: str | None) -> str:
    """The name of a topic; one that no recorder told has none."""
    return "(no topic)" if topic is None else name_text(topic)


def count_text(value: int | None) -> str:
    """A number with commas."""
    return NOBODY if value is None else f"{value:,}"


def bytes_text(value: int | None) -> str:
    """Bytes in the unit that suits them."""
    if value is None:
        return NOBODY
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(amount) < 1_000:
            return f"{value} B" if unit == "B" else f"{_digits(amount)} {unit}"
        amount /= 1_000
    return f"{_digits(amount)} TB"


def duration_text(ns: int | None) -> str:
    """A duration in the unit that suits it, to three digits."""
    if ns is None:
        return NOBODY
    if abs(ns) >= 120 * _SECOND:
        return f"{ns / 60 / _SECOND:,.1f} min"
    for size, unit in ((_SECOND, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if abs(ns) >= size:
            return f"{_digits(ns / size)} {unit}"
    return f"{ns} ns"


def _digits(value: float) -> str:
    """Three digits, or more when there are more before the point."""
    places = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


def time_text(ns: int | None) -> str:
    """A time in UTC, to the minute."""
    if ns is None:
        return NOBODY
    try:
        return f"{datetime.fromtimestamp(ns // _SECOND, UTC):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return f"{ns} ns"


def _share(part: int, whole: int) -> str:
    """A part in percent; only the whole is 100 %."""
    if not whole:
        return NOBODY
    percent = 100 * part / whole
    return f"{min(percent, 99.9) if part < whole else percent:.1f} %"


# -- sheets ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Column:
    heading: str
    text: Callable[[Any], str]
    number: bool = True


def _name(heading: str, field: str | None = None) -> _Column:
    return _Column(heading, lambda row: name_text(getattr(row, field or heading)), number=False)


def _count(heading: str, field: str | None = None) -> _Column:
    return _Column(heading, lambda row: count_text(getattr(row, field or heading)))


def _bytes(heading: str, field: str | None = None) -> _Column:
    return _Column(heading, lambda row: bytes_text(getattr(row, field or heading)))


def _duration(heading: str, field: str) -> _Column:
    return _Column(heading, lambda row: duration_text(getattr(row, field)))


_PROTOCOL: Final = _name("protocol")
_TOPIC: Final = _Column("topic", lambda row: topic_text(row.topic), number=False)
_WHO: Final = _Column("client", lambda row: name_text(row.client or row.address), number=False)

_SHEETS: Final = (
    (
        "protocols",
        "Traffic",
        "Messages and their bytes, connections that began, calls by outcome, and faults.",
        (
            _PROTOCOL, _count("messages"), _bytes("bytes"), _count("connections"), _count("calls"),
            _count("failed"), _count("lost"), _count("unknown"), _count("faults"),
        ),
        ("connections", "lost"),
    ),
    (
        "targets",
        "Calls and latency by target",
        (
            "From request to answer, the slowest by p99 first. Calls are those that were answered,"
            " the failed among them. Calls and mean are exact; percentiles come from buckets,"
            " eight to each doubling, and are off by an eighth at most."
        ),
        (
            _name("target"), _PROTOCOL, _count("calls"), _count("failed"), _count("lost"),
            _duration("mean", "mean_ns"),
            _duration("p50", "p50_ns"), _duration("p90", "p90_ns"), _duration("p99", "p99_ns"),
            _duration("max", "max_ns"),
        ),
        ("protocol", "mean", "p90", "lost"),
    ),
    (
        "topics",
        "Deliveries by topic",
        (
            "Notifications times clients: published, sent, acknowledged; the topic with the most"
            " that was not acknowledged comes first. The time is from the first sending to the"
            " acknowledgement. Where no recorder told it, the topic is not known."
        ),
        (
            _TOPIC, _PROTOCOL, _count("published"), _count("sent"), _count("acked"),
            _count("unacked"), _count("unknown"), _count("unsent"),
            _Column("acked %", lambda row: _share(row.acked, row.published)),
            _duration("p50", "p50_ns"), _duration("p99", "p99_ns"),
        ),
        ("protocol", "sent", "unknown", "p50"),
    ),
    (
        "connections",
        "Connections",
        "Those that began, and how they ended. Times are medians.",
        (
            _PROTOCOL, _count("connections"), _count("clients"), _count("reconnects"),
            _count("resumed"), _count("by client", "closed_by_client"),
            _count("by server", "closed_by_server"), _count("reset"), _count("other"),
            _count("open"), _duration("duration", "duration_ns"),
            _duration("handshake", "handshake_ns"),
        ),
        ("other", "clients", "resumed", "handshake", "reconnects"),
    ),
    (
        "clients",
        "Clients with trouble",
        (
            "By calls that failed, were lost or are unknown; faults are those of their connections."
            " A client without a name is its address."
        ),
        (
            _WHO, _PROTOCOL, _count("calls"), _count("failed"), _count("lost"), _count("unknown"),
            _count("connections"), _count("reconnects"), _count("faults"),
        ),
        ("protocol", "connections"),
    ),
    (
        "errors",
        "Errors by code",
        (
            "Calls that failed, by the status of the answer; calls that were lost or are unknown,"
            " by the cause."
        ),
        (
            _name("what"), _PROTOCOL, _name("code"), _count("errors"), _count("targets"),
            _name("most often", "target"),
        ),
        ("targets",),
    ),
    (
        "faults",
        "Faults by reason",
        "Bytes that would not decode, and bytes that were not captured.",
        (
            _name("reason", "code"), _PROTOCOL, _count("faults"), _count("connections"),
            _bytes("bytes", "present_bytes"), _bytes("missing", "missing_bytes"),
        ),
        ("connections",),
    ),
    (
        "coverage",
        "Coverage",
        (
            "What became of the bytes of all streams. Bytes are those that were captured, without"
            " repetitions: decoded, faulty, sealed without a key, and ignored add up to them."
        ),
        (
            _PROTOCOL, _count("streams"), _bytes("bytes", "new_bytes"),
            _bytes("decoded", "decoded_bytes"),
            _Column("decoded %", lambda row: _share(row.decoded_bytes, row.new_bytes)),
            _bytes("faulty", "faulty_bytes"), _bytes("no key", "undecryptable_bytes"),
            _bytes("ignored", "ignored_bytes"), _bytes("missing", "gap_bytes"),
        ),
        ("streams", "ignored"),
    ),
    (
        "talkers",
        "Top talkers",
        "Connections by bytes, in the minutes in which they were among the twenty with the most.",
        (
            _Column("connection", lambda row: str(row.connection), number=False), _PROTOCOL, _WHO,
            _count("minutes"), _count("messages"), _bytes("bytes"),
        ),
        ("protocol", "minutes"),
    ),
)  # fmt: skip


def sheets(report: Report) -> list[Sheet]:
    """All sheets of a report, the empty ones included."""
    return [_sheet(report, *each) for each in _SHEETS]


def _sheet(
    report: Report,
    name: str,
    title: str,
    about: str,
    columns: Sequence[_Column],
    minor: tuple[str, ...],
) -> Sheet:
    return Sheet(
        name,
        title,
        about,
        tuple(column.heading for column in columns),
        tuple(column.number for column in columns),
        minor,
        [tuple(column.text(row) for column in columns) for row in getattr(report, name)],
    )


def tiles(report: Report) -> list[tuple[str, str]]:
    """The overview: what, and how many."""
    overview = report.overview
    return [
        ("messages", count_text(overview.messages)),
        ("bytes", bytes_text(overview.bytes)),
        ("connections", count_text(overview.connections)),
        ("tunnels", count_text(overview.tunnels)),
        ("calls", count_text(overview.calls)),
        ("deliveries", count_text(overview.deliveries)),
        ("faults", count_text(overview.faults)),
    ]
