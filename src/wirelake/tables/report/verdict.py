"""The verdict of a report: in a few sentences, what deserves attention.

    for finding in verdict(report):
        finding.level, finding.text

Each sentence has figures of the report, and no others. The first one is the sum of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from .report import Report
from .sheets import bytes_text, count_text, duration_text, name_text, share_text, target_text

__all__ = ["Finding", "Level", "verdict"]

Level = Literal["good", "warn", "bad"]
"""How serious a finding is."""

_BAD_SHARE: Final = 0.05
"""Share of failed and lost calls, of unacknowledged deliveries and of faulty bytes from which on
something is wrong; below it, single clients or peers may be."""
_CUT_OFF: Final = "truncated_file"


@dataclass(frozen=True)
class Finding:
    """A sentence."""

    level: Level
    text: str


def verdict(report: Report) -> list[Finding]:
    """Return the sentences, the summary first."""
    if not report.overview.messages:
        return [Finding("warn", "No messages were decoded."), *_bytes(report)]
    found = [*_calls(report), *_deliveries(report), *_bytes(report)]
    open_points = sum(each.level != "good" for each in found)
    worst: Level = "good"
    for level in ("warn", "bad"):
        if any(each.level == level for each in found):
            worst = level
    what = "1 point needs" if open_points == 1 else f"{open_points} points need"
    summary = f"{what} attention." if open_points else "Nothing needs attention."
    return [Finding(worst, summary), *found]


def _calls(report: Report) -> Iterator[Finding]:
    calls = sum(row.calls for row in report.protocols)
    if not calls:
        return
    failed = sum(row.failed for row in report.protocols)
    lost = sum(row.lost for row in report.protocols)
    wrong = failed + lost
    if not wrong:
        yield Finding("good", f"None of {_counted(calls, 'call')} failed or was lost.")
    else:
        worst = report.worst_target
        where = ""
        if worst is not None and worst.wrong:
            where = (
                f", most often at {_target(worst.protocol, worst.name)}"
                f" ({count_text(worst.wrong)} of {count_text(worst.total)})"
            )
        parts = [(failed, "failed"), (lost, "got no response")]
        (first, what), *more = [(count, words) for count, words in parts if count]
        others = "".join(f" and {count_text(count)} {words}" for count, words in more)
        yield Finding(
            _level(wrong, calls),
            f"{count_text(first)} of {_counted(calls, 'call')} {what}{others}"
            f" ({share_text(wrong, calls)}){where}.",
        )
    answered = [row for row in report.targets if row.p99_ns is not None]
    if answered:
        slowest = answered[0]
        yield Finding(
            "good",
            f"The slowest target is {_target(slowest.protocol, slowest.target)}:"
            f" p50 {duration_text(slowest.p50_ns)}, p99 {duration_text(slowest.p99_ns)}.",
        )


def _deliveries(report: Report) -> Iterator[Finding]:
    worst = report.worst_topic
    if worst is None or not worst.all_total:
        return
    if not worst.all_wrong:
        yield Finding(
            "good", f"No delivery of {count_text(worst.all_total)} is known to be unacknowledged."
        )
        return
    where = "without a topic" if worst.name is None else f"of topic {name_text(worst.name)}"
    yield Finding(
        _level(worst.all_wrong, worst.all_total),
        f"{count_text(worst.all_wrong)} of {_counted(worst.all_total, 'delivery', 'deliveries')}"
        f" were not acknowledged or never sent ({share_text(worst.all_wrong, worst.all_total)}),"
        f" most often {where} ({count_text(worst.wrong)}).",
    )


def _bytes(report: Report) -> Iterator[Finding]:
    if any(row.code == _CUT_OFF for row in report.faults):
        yield Finding(
            "bad", "A capture ends within a packet: the figures are of what comes before."
        )
    span = sum(row.span_bytes for row in report.coverage)
    new = sum(row.new_bytes for row in report.coverage)
    if not span:
        return
    parts = [
        (sum(row.gap_bytes for row in report.coverage), "were not captured", span),
        (sum(row.faulty_bytes for row in report.coverage), "could not be decoded", new),
        (sum(row.undecryptable_bytes for row in report.coverage), "are sealed: no key", new),
        (
            sum(row.new_bytes for row in report.coverage if row.protocol is None),
            "belong to no known protocol",
            new,
        ),
    ]
    wrong = [each for each in parts if each[0]]
    if not wrong:
        yield Finding("good", f"All of {bytes_text(new)} were captured and decoded.")
    for part, what, whole in wrong:
        yield Finding(
            _level(part, whole), f"{bytes_text(part)} ({share_text(part, whole)}) {what}."
        )


def _target(protocol: str | None, target: str | None) -> str:
    return f"{name_text(protocol)} {target_text(protocol, target)}"


def _level(part: int, whole: int) -> Level:
    return "bad" if part >= _BAD_SHARE * whole else "warn"


def _counted(count: int, noun: str, plural: str = "") -> str:
    return f"{count_text(count)} {noun if count == 1 else plural or noun + 's'}"
