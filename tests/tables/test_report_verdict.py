"""The verdict: which sentences, how serious, and only with figures of the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from wirelake.tables.query import open_lake
from wirelake.tables.report.report import (
    Coverage,
    Fault,
    Overview,
    Report,
    Target,
    Worst,
    make_report,
)
from wirelake.tables.report.report import Protocol as Row
from wirelake.tables.report.sheets import tiles
from wirelake.tables.report.verdict import verdict

from .simulated_lake import captures, lake

pytestmark = pytest.mark.slow

__all__ = ["captures", "lake"]


def report(**parts: Any) -> Report:
    lists = [name for name, kind in Report.__annotations__.items() if kind.startswith("list")]
    return Report(
        lake="", commit=None, since_ns=None, until_ns=None, step_ns=1, complete_ns=None,
        overview=Overview(9, 9, 1, 0, 0, 0, 0, 0, 1), **({name: [] for name in lists} | parts),
    )  # fmt: skip


def zeros(kind: Any, **values: Any) -> Any:
    known = dict.fromkeys(kind.__struct_fields__, 0) | {"protocol": "comet"}
    return kind(**(known | values))


def texts(found: Report) -> list[tuple[str, str]]:
    return [(each.level, each.text) for each in verdict(found)]


def test_nothing_is_wrong() -> None:
    found = report(
        protocols=[zeros(Row, calls=3, answered=3)],
        targets=[zeros(Target, target="auth", calls=3, p50_ns=1_000_000, p99_ns=2_000_000)],
        worst_topic=Worst("comet", "@a", 0, 4, 0, 4),
        coverage=[zeros(Coverage, span_bytes=100, new_bytes=100, decoded_bytes=100)],
    )
    assert texts(found) == [
        ("good", "Nothing needs attention."),
        ("good", "None of 3 calls failed or was lost."),
        ("good", "The slowest target is comet auth: p50 1 ms, p99 2 ms."),
        ("good", "No delivery of 4 is known to be unacknowledged."),
        ("good", "All of 100 B were captured and decoded."),
    ]


def test_what_is_wrong_is_named_with_its_place() -> None:
    found = report(
        protocols=[zeros(Row, calls=100, failed=2, lost=1)],
        worst_target=Worst("comet", "b", 2, 10, 3, 100),
        worst_topic=Worst("comet", None, 2, 10, 2, 10),
        faults=[zeros(Fault, code="truncated_file")],
        coverage=[
            zeros(Coverage, span_bytes=1_000, gap_bytes=10, new_bytes=990, faulty_bytes=100),
            zeros(Coverage, protocol=None, span_bytes=10, new_bytes=10, undecryptable_bytes=1),
        ],
    )
    assert texts(found) == [
        ("bad", "7 points need attention."),
        (
            "warn",
            ("2 of 100 calls failed and 1 got no response (3.0 %),"
            " most often at comet b (2 of 10)."),
        ),
        (
            "bad",
            ("2 of 10 deliveries were not acknowledged or never sent (20.0 %),"
            " most often without a topic (2)."),
        ),
        ("bad", "A capture ends within a packet: the figures are of what comes before."),
        ("warn", "10 B (1.0 %) were not captured."),
        ("bad", "100 B (10.0 %) could not be decoded."),
        ("warn", "1 B (0.1 %) are sealed: no key."),
        ("warn", "10 B (1.0 %) belong to no known protocol."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("failed", "lost", "words"),
    [(1, 0, "1 of 100 calls failed (1.0 %)"), (0, 1, "1 of 100 calls got no response (1.0 %)")],
)
def test_only_what_happened_is_said(failed: int, lost: int, words: str) -> None:
    row = zeros(Target, target="a", calls=90, p50_ns=None, p99_ns=None, failed=failed, lost=lost)
    found = report(protocols=[zeros(Row, calls=100, failed=failed, lost=lost)], targets=[row])
    assert any(text.startswith(words) for _, text in texts(found))


def test_one_is_singular() -> None:
    one = msgspec.structs.replace(report(), overview=Overview(1, 1, 1, 0, 2, 1, 1, None, None))
    assert [what for what, _ in tiles(one)] == [
        "message", "bytes", "connection", "tunnels", "calls", "delivery", "fault",
    ]  # fmt: skip


def test_no_messages() -> None:
    nothing = msgspec.structs.replace(report(), overview=Overview(0, 0, 0, 0, 0, 0, 0, None, None))
    assert texts(nothing) == [("warn", "No messages were decoded.")]


def test_of_a_lake(lake: Path) -> None:
    with open_lake(lake) as db:
        found = make_report(db)
    summary, *findings = verdict(found)
    open_points = sum(each.level != "good" for each in findings)
    assert summary.text == f"{open_points} points need attention."
    calls = sum(row.calls for row in found.protocols)
    assert any(f"of {calls:,} calls failed" in each.text for each in findings)


def test_short_lists_do_not_change_the_verdict(lake: Path) -> None:
    with open_lake(lake) as db:
        short, whole = (make_report(db, top=top) for top in (1, 1_000_000))
    assert len(short.topics) == 1 < len(whole.topics)
    # The slowest target is the first one with a response, which a short list may not have.
    said = [
        [each for each in verdict(found) if "slowest" not in each.text] for found in (short, whole)
    ]
    assert said[0] == said[1]
    target, topic = whole.worst_target, whole.worst_topic
    assert target is not None
    assert topic is not None
    assert target.all_wrong == sum(row.failed + row.lost for row in whole.protocols)
    assert target.all_total == sum(row.calls for row in whole.targets)
    assert target.wrong == max(row.failed + row.lost for row in whole.targets)
    assert (target.name, target.total) in [
        (row.target, row.calls) for row in whole.targets if row.failed + row.lost == target.wrong
    ]
    assert topic.all_wrong == sum(row.unacked + row.unsent for row in whole.topics)
    assert topic.all_total == sum(row.published for row in whole.topics)
    assert (topic.name, topic.wrong, topic.total) in [
        (row.topic, row.unacked + row.unsent, row.published) for row in whole.topics
    ]
    assert topic.wrong == max(row.unacked + row.unsent for row in whole.topics)
