"""How `wirelake top` looks: it fits the terminal, whatever its size, and obeys no names."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from rich.console import Console

from wirelake.cli.top.figures import Figures
from wirelake.cli.top.view import SORT_ORDERS, ViewState, top_view

S = 1_000_000_000
PROTOCOLS = ("comet", "esnp", "magline", "relay", "tny")
LINE = {
    "opened_per_s": 1.5,
    "closed_per_s": 0.0,
    "bytes_in_per_s": 1_234_567.0,
    "bytes_out_per_s": 999.4,
    "calls_per_s": 123_456.0,
    "delivered_per_s": 0.25,
}


def _figures(count: int, **changes: Any) -> Figures:
    topics = [
        {"name": f"@topic-{each}", "subscribers": 10, "online": 4, "held": 0, "stored": each}
        | {"published_per_s": 2.0, "delivered_per_s": 20.0}
        for each in range(count)
    ]
    targets = [
        {"name": f"service/{each}", "calls": 9 - each, "failed": each, "calls_per_s": 3.0}
        | {"p50_ns": 1_500, "p99_ns": 30_000_000 if each else None}
        for each in range(count)
    ]
    failed = {"protocol": "tny", "peer": "10.0.0.1:4", "client": "anna", "closed_ns": 90 * S}
    data = {
        "ts_ns": 100 * S,
        "version": "1.0.0",
        "uptime_s": 3_723.0,
        "interval_s": 1.0,
        "cpu": 0.34,
        "draining": False,
        "recording": "on",
        "protocols": [{"protocol": name, "connections": 5, **LINE} for name in PROTOCOLS],
        "total": {"protocol": "all", "connections": 25, **LINE},
        "calls_failed_per_s": 2.0,
        "calls_running": 3,
        "p50_ns": 1_500,
        "p99_ns": None,
        "published_per_s": 4.0,
        "refused_per_s": 0.0,
        "stored_per_s": 4.0,
        "acked_per_s": 4.0,
        "skipped": 0,
        "dead": 12,
        "turned_away": 0,
        "auth_failures": 2,
        "broken_rules": 0,
        "topic_count": count,
        "topics": topics,
        "targets": targets,
        "failed_connections": [
            {**failed, "reason": f"bad_{each}", "side": "hub"} for each in range(count)
        ],
        **changes,
    }
    return msgspec.convert(data, Figures)


def _text(figures: Figures, shown: ViewState) -> str:
    console = Console(width=shown.width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(top_view(figures, shown))
    return capture.get()


@pytest.mark.parametrize("width", [60, 80, 120, 160])
@pytest.mark.parametrize("count", [0, 2, 50])
def test_it_fits(width: int, count: int) -> None:
    for height in (24, 35, 36, 60):
        lines = _text(_figures(count), ViewState("http://hub:9680", width, height)).splitlines()
        assert max(map(len, lines)) <= width
        assert len(lines) <= height
        assert "sort by" in lines[-1]
        assert count == 0 or any("bad_0" in line for line in lines)
    assert "http://hub:9680" in _text(_figures(count), ViewState("http://hub:9680", width))


def test_the_output() -> None:
    text = _text(_figures(2), ViewState("http://hub:9680", 100))
    for words in (
        "1.0.0, up 1:02:03, 34% of a core, recording",
        "calls          123k/s, 2/s failed, p50 1.5 µs, p99 -, 3 running",
        "0 connections over limits, 2 authentication failures, 0 protocol errors since start",
        "4/s published, 4/s stored, 0.2/s pushed, 4/s acked, 12 dead letters",
    ):
        assert words in text
    rows = [line.split() for line in text.splitlines()]
    assert ["esnp", "5", "1.5", "0", "1.2", "MB", "999", "B", "123k", "0.2"] in rows
    assert ["service/1", "3", "1.5", "µs", "30", "ms", "1"] in rows
    assert ["service/0", "3", "1.5", "µs", "-", "0"] in rows
    assert ["@topic-1", "10", "4", "2", "20", "1"] in rows
    assert ["00:01:30", "tny", "bad_0", "hub", "anna", "at", "10.0.0.1:4"] in rows


def test_sixty_columns_show_names_and_errors() -> None:
    shown = ViewState("http://hub.example.org:9680", 60, 40)
    for _ in range(30):
        shown.remember(_figures(2))
    text = _text(_figures(2), shown)
    rows = [line.split() for line in text.splitlines()]
    assert ["magline", "5", "1.2", "MB", "999", "B", "123k", "0.2"] in rows
    assert ["service/1", "3", "1.5", "µs", "30", "ms", "1"] in rows
    assert ["@topic-1", "4", "20", "1"] in rows
    assert ["00:01:30", "tny", "bad_0", "anna", "at", "10.0.0.1:4"] in rows
    assert "123k/s, 2/s failed" in text
    assert "█ calls and pushes" in text


def test_what_there_is_no_room_for_is_counted() -> None:
    text = _text(_figures(50), ViewState("http://hub:9680", 80, 40))
    assert "target (" in text
    assert " of 50)" in text


def test_order_pause_and_state() -> None:
    shown = ViewState("http://hub:9680", 100, 60)
    figures = _figures(3, recording="failed: no space", draining=True)
    assert SORT_ORDERS[0] == shown.sort == "p99"
    shown.paused = True
    shown.sort = "failed"
    text = _text(figures, shown)
    assert text.index("service/2") < text.index("service/1") < text.index("service/0")
    assert "paused" in text
    assert "recording failed: no space, shutting down" in text
    shown.sort = "calls/s"
    text = _text(figures, shown)
    assert text.index("service/0") < text.index("service/2")


def test_the_past_is_a_line_that_does_not_grow_for_ever() -> None:
    shown = ViewState("http://hub:9680", 100, 60)
    for _ in range(100):
        shown.remember(_figures(0))
    text = _text(_figures(0), shown)
    assert "█" * 30 + " calls and pushes" in text
    assert "█" * 31 not in text


def test_names_cannot_command_the_terminal() -> None:
    figures = _figures(1)
    figures.topics[0].name = "@\x1b[2Jevil"
    figures.failed_connections[0].reason = "bad\r\nthing"
    text = _text(figures, ViewState("http://hub:9680", 100))
    assert "\x1b[2J" not in text
    assert "@\\x1b[2Jevil" in text


def test_names_are_not_markup() -> None:
    figures = _figures(1)
    figures.targets[0].name = "[red]not red[/red]"
    assert "[red]not red[/red]" in _text(figures, ViewState("http://hub:9680", 100))
