"""Tunnels whose links are in different sources: tables depend on the files, not on the steps."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.lake.spread_tunnels import SLOT_S, advanced, slots_of, step, unlike_engines_in_time

from wirelake.lake.engine import tunnels
from wirelake.lake.engine.tunnels import EVENTS
from wirelake.tables.log import Log
from wirelake.tables.snapshot import AddedFile

SOAK = pytest.mark.soak
_START_NS = 1_767_225_600_000_000_000
_NEXT_MONTH_NS = _START_NS + 30 * 86_400 * 1_000_000_000
_YEAR_2100_NS = 4_102_444_800_000_000_000


def files(lake: Path, table: str, *, provisional: bool = False) -> list[AddedFile]:
    """The files of a table at the last commit."""
    found = Log(lake).snapshot().files(table)
    return [file for file in found if file.provisional == provisional]


def rows_in(found: list[AddedFile]) -> int:
    return sum(file.rows for file in found)


@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=SOAK) for each in (1, 2))])
def test_at_every_commit_they_are_those_of_one_read(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    for wave in advanced(slots_of(tmp_path, rng), rng):
        for slot in wave:
            slot.arrive(tmp_path / "in")
        # One task for all shares, or one for each: also when the step before had the other.
        monkeypatch.setattr(tunnels, "_TASK_EVENTS", rng.choice([0, 200_000]))
        step(tmp_path, lateness_s=SLOT_S)
        assert unlike_engines_in_time(tmp_path / "lake") == []


def test_a_small_step_writes_one_file_of_a_kind(tmp_path: Path) -> None:
    rng = random.Random(1)
    for wave in advanced(slots_of(tmp_path, rng), rng):
        for slot in wave:
            slot.arrive(tmp_path / "in")
        step(tmp_path, lateness_s=SLOT_S)
    snapshot = Log(tmp_path / "lake").snapshot()
    # Roll-ups have a file for each hour.
    files = [file for file in snapshot.all_files() if not file.table.endswith("_minutes")]
    new = [file for file in files if file.commit == snapshot.commit]
    kinds = [(file.table, file.protocol, file.provisional, file.source) for file in new]
    assert [each for each, count in Counter(kinds).items() if count > 1] == [
        ("_tunnel_fold", None, False, None)
    ]


def test_what_waits_is_bounded_by_the_lateness(tmp_path: Path) -> None:
    rng = random.Random(7)
    waiting: list[int] = []
    for wave in advanced(slots_of(tmp_path, rng), rng):
        for slot in wave:
            slot.arrive(tmp_path / "in")
        step(tmp_path, lateness_s=SLOT_S)
        found = files(tmp_path / "lake", EVENTS)
        assert len(found) == 1
        waiting.append(rows_in(found))
    # 200 events in 5 stretches; those of the last one wait, and a few before it.
    assert waiting[-1] < 90
    assert rows_in(files(tmp_path / "lake", "calls")) > 0
    assert rows_in(files(tmp_path / "lake", "tunnels")) > 0


def test_a_source_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    rng = random.Random(3)
    slots = slots_of(tmp_path, rng)
    last = len(slots["gate-a"]) - 1
    for number in range(last + 1):
        for name, each in slots.items():
            if name != "gate-a" or number < 2:
                each[number].arrive(tmp_path / "in")
        step(tmp_path, lateness_s=SLOT_S)
    assert unlike_engines_in_time(tmp_path / "lake") == []
    events = files(tmp_path / "lake", EVENTS)
    assert min(file.min_ns or 0 for file in events) > _nth(last - 2)


def test_events_beyond_the_lateness_are_late_and_not_kept(tmp_path: Path) -> None:
    rng = random.Random(5)
    slots = slots_of(tmp_path, rng)
    for name in ("gate-b", "gate-c"):
        for slot in slots[name]:
            slot.arrive(tmp_path / "in")
    step(tmp_path, lateness_s=SLOT_S)
    for slot in slots["gate-a"]:
        slot.arrive(tmp_path / "in")
    step(tmp_path, lateness_s=SLOT_S)
    events = files(tmp_path / "lake", EVENTS)
    assert min(file.min_ns or 0 for file in events) > _nth(len(slots["gate-a"]) - 3)
    assert unlike_engines_in_time(tmp_path / "lake") != []


@pytest.mark.parametrize(
    ("copied", "wild_ns"),
    [
        (True, _YEAR_2100_NS),
        (False, _NEXT_MONTH_NS),
        pytest.param(True, _NEXT_MONTH_NS, marks=SOAK),
        pytest.param(False, _YEAR_2100_NS, marks=SOAK),
    ],
)
def test_a_packet_of_another_time(tmp_path: Path, wild_ns: int, copied: bool) -> None:
    """Captures that were copied are younger than what is in them."""
    rng = random.Random(11)
    mtime_ns = time.time_ns() if copied else None
    for wave in advanced(slots_of(tmp_path, rng, wild_ns), rng):
        for slot in wave:
            slot.arrive(tmp_path / "in", mtime_ns)
        step(tmp_path, lateness_s=SLOT_S)
        assert unlike_engines_in_time(tmp_path / "lake") == []
    assert rows_in(files(tmp_path / "lake", EVENTS)) < 90


def _nth(number: int) -> int:
    """When a stretch of time begins."""
    return _START_NS + int(number * SLOT_S * 1e9)
