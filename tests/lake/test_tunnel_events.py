"""Events of tunnels from files: complete and in one order, however they are distributed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wirelake.columnar.fold.event_builder import id_hash
from wirelake.lake.engine import tunnels as tunnel_events
from wirelake.lake.engine.tunnels import EventFiles
from wirelake.records.deliveries import CROSSING

SCHEMA = CROSSING["_tunnel_events"]


def write(path: Path, rows: Sequence[dict[str, Any]], group: int = 1_000) -> str:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA), path, row_group_size=group)
    return str(path)


def event(
    ts_ns: int, *, rank: int = 3, link: int = 1, number: int = 0, tunnel: int | None = 5
) -> dict[str, Any]:
    return {"ts_ns": ts_ns, "rank": rank, "link": link, "number": number, "tunnel": tunnel}


def read_events(tables: Any) -> list[tuple[int, int, int, int]]:
    """Time, rank, link and the number within its file."""
    return [
        (row["ts_ns"], row["rank"], row["link"], row["number"] % (1 << 40))
        for table in tables
        for row in table.to_pylist()
    ]


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel_events, "_BATCH_EVENTS", 7)


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("seed", range(3))
def test_events_come_once_and_in_order(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    files: list[list[dict[str, Any]]] = [[], [], []]
    for link in range(9):
        for number in range(rng.randrange(1, 9)):
            ts_ns = rng.randrange(30)
            files[link % 3].append(event(ts_ns, rank=rng.choice([2, 3]), link=link, number=number))
    paths = [write(tmp_path / f"{at}", rows, group=4) for at, rows in enumerate(files)]
    wanted = sorted(
        read_events([pa.Table.from_pylist([row for rows in files for row in rows], schema=SCHEMA)])
    )
    given = EventFiles(paths, 0, 1)
    assert read_events(given.all()) == wanted
    assert read_events(given.until(12)) == [each for each in wanted if each[0] <= 12]
    assert read_events(given.after(12)) == [each for each in wanted if each[0] > 12]


def test_files_of_earlier_versions_have_no_notifications(tmp_path: Path) -> None:
    old = pa.schema([field for field in SCHEMA if field.name not in ("ids", "published_ns")])
    pq.write_table(pa.Table.from_pylist([event(7)], schema=old), tmp_path / "old")
    (table,) = EventFiles([str(tmp_path / "old")], 0, 1).all()
    assert table.schema == SCHEMA
    (row,) = table.to_pylist()
    assert (row["ts_ns"], row["ids"], row["published_ns"]) == (7, None, None)


def test_events_of_a_link_at_one_time_stay_in_the_order_of_files(tmp_path: Path) -> None:
    first = write(tmp_path / "1", [event(7, number=5), event(7, number=6)])
    second = write(tmp_path / "2", [event(7, number=0), event(7, number=1)])
    assert [each[3] for each in read_events(EventFiles([first, second], 0, 1).all())] == [
        5,
        6,
        0,
        1,
    ]


def test_late_files_come_first(tmp_path: Path) -> None:
    happened = write(tmp_path / "1", [event(1), event(9)])
    provisional = write(tmp_path / "2", [event(2, link=2), event(8, link=2)])
    given = EventFiles([happened, provisional], 0, 1).after(5, late=[provisional])
    assert [each[0] for each in read_events(given)] == [2, 8, 9]


def test_a_share_has_its_tunnels_and_all_that_happens_to_links(tmp_path: Path) -> None:
    rows = [event(number, tunnel=number, number=number) for number in range(20)]
    path = write(tmp_path / "1", [*rows, event(30, tunnel=None)])
    for share in range(3):
        mine = [number for number in range(20) if id_hash(number) % 3 == share]
        assert [each[0] for each in read_events(EventFiles([path], share, 3).all())] == [*mine, 30]


def test_there_may_be_nothing(tmp_path: Path) -> None:
    assert read_events(EventFiles([], 0, 1).all()) == []
    empty = write(tmp_path / "1", [])
    assert read_events(EventFiles([empty], 0, 1).after(3)) == []
