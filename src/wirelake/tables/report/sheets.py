"""The lists of a report as tables of text, for the terminal and the HTML page.

Text from the wire is escaped here: every character of a cell is printable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

from wirelake.protocols import registry

from .report import Report

__all__ = [
    "Sheet",
    "bytes_text",
    "count_text",
    "duration_text",
    "name_text",
    "share_text",
    "sheets",
    "target_text",
    "tiles",
    "time_text",
    "topic_text",
]

UNKNOWN: Final = "–"
"""Text of a value that is not known."""
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True)
class Sheet:
    """A table of text."""

    name: str
    """Attribute of the report with the rows."""
    title: str
    about: str
    """Description of its columns."""
    headings: tuple[str, ...]
    numbers: tuple[bool, ...]
    """Whether each column has numbers."""
    minor: tuple[str, ...]
    """Columns to drop first when space is short."""
    rows: list[tuple[str, ...]]
    keys: list[tuple[int | float | str | None, ...]]
    """By row and column: what to sort by; None for a value that is not known."""
    protocols: list[str | None] | None
    """The protocol of each row, if the rows are of protocols."""


# -- values ----------------------------------------------------------------------------------


def name_text(value: str | None) -> str:
    """Return a name from the wire with control characters escaped."""
    if value is None:
        return UNKNOWN
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in value)


def topic_text(topic: str | None) -> str:
    """Return the name of a topic; one that was not recorded has none."""
    return "(no topic)" if topic is None else name_text(topic)


def target_text(protocol: str | None, target: str | None) -> str:
    """Return what people call a target of a protocol."""
    if protocol is None or target is None:
        return name_text(target)
    try:
        names = registry.find(protocol).meaning.target_names
    except registry.RegistryError:  # its package is not installed here
        return name_text(target)
    return name_text(names.text(target))


def count_text(value: int | None) -> str:
    """Return a number with thousands separators."""
    return UNKNOWN if value is None else f"{value:,}"


def bytes_text(value: int | None) -> str:
    """Return a size with a suitable unit."""
    if value is None:
        return UNKNOWN
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(amount) < 1_000:
            return f"{value} B" if unit == "B" else f"{_digits(amount)} {unit}"
        amount /= 1_000
    return f"{_digits(amount)} TB"


def duration_text(ns: int | None) -> str:
    """Return a duration with a suitable unit, to three digits."""
    if ns is None:
        return UNKNOWN
    if abs(ns) >= 120 * _SECOND:
        return f"{ns / 60 / _SECOND:,.1f} min"
    for size, unit in ((_SECOND, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if abs(ns) >= size:
            return f"{_digits(ns / size)} {unit}"
    return f"{ns} ns"


def _digits(value: float) -> str:
    """Return three significant digits, or all digits before the point."""
    places = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


def time_text(ns: int | None) -> str:
    """Return a time in UTC, to the minute."""
    if ns is None:
        return UNKNOWN
    try:
        return f"{datetime.fromtimestamp(ns // _SECOND, UTC):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return f"{ns} ns"


def share_text(part: int, whole: int) -> str:
    """Return a percentage; rounding never makes a part 100 %, or something nothing."""
    if not whole:
        return UNKNOWN
    percent = 100 * part / whole
    if 0 < percent < 0.05:
        return "< 0.1 %"
    return f"{min(percent, 99.9) if part < whole else percent:.1f} %"


# -- sheets ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Column:
    heading: str
    text: Callable[[Any], str]
    number: bool = True
    key: Callable[[Any], int | float | str | None] | None = None
    """What to sort by; the text itself if it is None."""

    def key_of(self, row: Any) -> int | float | str | None:
        """Return what to sort a row by."""
        return self.text(row) if self.key is None else self.key(row)


def _name(heading: str, field: str | None = None) -> _Column:
    return _Column(heading, lambda row: name_text(getattr(row, field or heading)), number=False)


def _number(heading: str, field: str | None, text: Callable[[int | None], str]) -> _Column:
    value = attrgetter(field or heading)
    return _Column(heading, lambda row: text(value(row)), key=value)


def _count(heading: str, field: str | None = None) -> _Column:
    return _number(heading, field, count_text)


def _bytes(heading: str, field: str | None = None) -> _Column:
    return _number(heading, field, bytes_text)


def _duration(heading: str, field: str) -> _Column:
    return _number(heading, field, duration_text)


def _percent(heading: str, part: str, whole: str) -> _Column:
    def share(row: Any) -> float | None:
        total = getattr(row, whole)
        return getattr(row, part) / total if total else None

    return _Column(
        heading, lambda row: share_text(getattr(row, part), getattr(row, whole)), key=share
    )


_PROTOCOL: Final = _name("protocol")
_TARGET: Final = _Column("target", lambda row: target_text(row.protocol, row.target), number=False)
_TOPIC: Final = _Column("topic", lambda row: topic_text(row.topic), number=False)
_CLIENT: Final = _Column("client", lambda row: name_text(row.client or row.address), number=False)

_SHEETS: Final = (
    (
        "protocols",
        "Traffic",
        "Messages and their bytes, opened connections, calls by outcome, and faults.",
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
            "Latency from request to response, slowest p99 first. Calls includes failed, lost and"
            " unknown ones; targets without any response come first. Calls and mean are exact;"
            " percentiles come from log-scale buckets, eight per doubling, with an error of at most"
            " 1/8."
        ),
        (
            _TARGET, _PROTOCOL, _count("calls"), _count("failed"), _count("lost"),
            _count("unknown"), _duration("mean", "mean_ns"),
            _duration("p50", "p50_ns"), _duration("p90", "p90_ns"), _duration("p99", "p99_ns"),
            _duration("max", "max_ns"),
        ),
        ("protocol", "mean", "p90", "unknown", "lost"),
    ),
    (
        "topics",
        "Deliveries by topic",
        (
            "Deliveries (one per notification and client) by outcome; topics with the most"
            " unacknowledged deliveries first. Latency is from the first send to the"
            " acknowledgement. Captures of other tools do not contain the topic."
        ),
        (
            _TOPIC, _PROTOCOL, _count("published"), _count("sent"), _count("acked"),
            _count("unacked"), _count("unknown"), _count("unsent"),
            _percent("acked %", "acked", "published"),
            _duration("p50", "p50_ns"), _duration("p99", "p99_ns"),
        ),
        ("protocol", "sent", "unknown", "p50"),
    ),
    (
        "connections",
        "Connections",
        "Opened connections, and how they were closed. Durations are medians.",
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
        "Clients with problems",
        (
            "Sorted by failed, lost and unknown calls; faults are those of their connections."
            " Clients without a name are listed by address."
        ),
        (
            _CLIENT, _PROTOCOL, _count("calls"), _count("failed"), _count("lost"),
            _count("unknown"), _count("connections"), _count("reconnects"), _count("faults"),
        ),
        ("protocol", "connections"),
    ),
    (
        "errors",
        "Errors by code",
        (
            "Failed calls by the status of the response; lost and unknown calls by cause."
        ),
        (
            _name("outcome", "what"), _PROTOCOL, _name("code"), _count("errors"), _count("targets"),
            replace(_TARGET, heading="top target"),
        ),
        ("targets",),
    ),
    (
        "faults",
        "Faults by reason",
        "Bytes that could not be decoded, and bytes that were not captured.",
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
            "Captured bytes of all streams, without retransmissions: the sum of decoded, faulty,"
            " sealed (no key) and ignored bytes."
        ),
        (
            _PROTOCOL, _count("streams"), _bytes("bytes", "new_bytes"),
            _bytes("decoded", "decoded_bytes"),
            _percent("decoded %", "decoded_bytes", "new_bytes"),
            _bytes("faulty", "faulty_bytes"), _bytes("no key", "undecryptable_bytes"),
            _bytes("ignored", "ignored_bytes"), _bytes("missing", "gap_bytes"),
        ),
        ("streams", "ignored"),
    ),
    (
        "talkers",
        "Top connections",
        "By bytes, counted in the minutes in which a connection was in the top twenty.",
        (
            _Column("connection", lambda row: str(row.connection), number=False), _PROTOCOL,
            _CLIENT, _count("minutes"), _count("messages"), _bytes("bytes"),
        ),
        ("protocol", "minutes"),
    ),
)  # fmt: skip


def sheets(report: Report) -> list[Sheet]:
    """Return all sheets of a report, including empty ones."""
    return [_sheet(report, *each) for each in _SHEETS]


def _sheet(
    report: Report,
    name: str,
    title: str,
    about: str,
    columns: Sequence[_Column],
    minor: tuple[str, ...],
) -> Sheet:
    rows = getattr(report, name)
    return Sheet(
        name,
        title,
        about,
        tuple(column.heading for column in columns),
        tuple(column.number for column in columns),
        minor,
        [tuple(column.text(row) for column in columns) for row in rows],
        [tuple(column.key_of(row) for column in columns) for row in rows],
        [row.protocol for row in rows] if _PROTOCOL in columns else None,
    )


def tiles(report: Report) -> list[tuple[str, str]]:
    """Return the captions and figures of the overview."""
    overview = report.overview
    return [
        _tile("message", overview.messages),
        ("bytes", bytes_text(overview.bytes)),
        _tile("connection", overview.connections),
        _tile("tunnel", overview.tunnels),
        _tile("call", overview.calls),
        _tile("delivery", overview.deliveries, "deliveries"),
        _tile("fault", overview.faults),
    ]


def _tile(one: str, count: int, many: str = "") -> tuple[str, str]:
    return one if count == 1 else many or f"{one}s", count_text(count)
