"""A capture in several files gives the same tables whatever tcpdump called the files."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lake.cut_captures import Piece, age, cut
from tests.lake.lakes import ALL_TABLES, PLACES, rows
from tests.lake.local_engine import run_here

from wirelake.lake.engine.settings import Settings
from wirelake.tables.status import status
from wirelake.traffic import simulate

pytestmark = pytest.mark.slow

NAMES: dict[str, Callable[[int], str]] = {
    "rotated by size": lambda number: f"eth0.pcap{number or ''}",
    "dated with dashes": lambda number: f"tap-2026-01-05_{number:02d}-00-00.pcap",
    "dated over midnight": lambda number: f"tap-2026010{5 + number // 2}-235{number}00.pcap",
    "ring of dumpcap": lambda number: f"tap_{1 + number % 2:05d}_2026010514{number:02d}00.pcap",
}


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> list[Piece]:
    """One source of tcpdump in several files."""
    folder = tmp_path_factory.mktemp("names") / "captures"
    simulate(folder, size=150_000, seed=5, faults=0.0, style="tcpdump", jobs=1)
    found = cut(folder, random.Random(1), most_files=4)
    one = [each for each in found if each.source == found[0].source]
    assert len(one) > 3
    return one


@pytest.fixture(scope="module")
def wanted(
    pieces: list[Piece], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Counter[str]]:
    """The tables of the same files with numbers in their names."""
    work = tmp_path_factory.mktemp("wanted")
    arrive(work / "in", {each.name: each.data for each in pieces})
    run_here(work / "lake", work / "in", settle_s=0)
    return tables(work / "lake")


def tables(lake: Path) -> dict[str, Counter[str]]:
    """The rows of all tables, without where they are."""
    return {table: rows(lake, table, PLACES) for table in ALL_TABLES}


def arrive(folder: Path, files: dict[str, bytes]) -> None:
    """Write files as they would be found a day later."""
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
        age(folder / name, 86_400)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_connections_continue_from_file_to_file(
    pieces: list[Piece],
    wanted: dict[str, Counter[str]],
    name: Callable[[int], str],
    tmp_path: Path,
) -> None:
    arrive(tmp_path / "in", {name(at): each.data for at, each in enumerate(pieces)})
    run_here(tmp_path / "lake", tmp_path / "in", settle_s=0)
    assert tables(tmp_path / "lake") == wanted
    found = status(tmp_path / "lake")
    assert [each.ordered_by for each in found.sources] == [["time"]]
    assert found.cut_connections == 0


def test_a_ring_buffer_goes_round(
    pieces: list[Piece], wanted: dict[str, Counter[str]], tmp_path: Path
) -> None:
    for at, each in enumerate(pieces):
        arrive(tmp_path / "in", {f"ring.pcap{at % 2}": each.data})
        run_here(tmp_path / "lake", tmp_path / "in", settle_s=0)
    assert tables(tmp_path / "lake") == wanted


def test_cut_connections_are_counted_and_a_pattern_joins_them(
    pieces: list[Piece], wanted: dict[str, Counter[str]], tmp_path: Path
) -> None:
    days = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    names = [f"{days[at % 7]}{'x' * (at // 7)}.pcap" for at in range(len(pieces))]
    arrive(tmp_path / "in", {name: each.data for name, each in zip(names, pieces, strict=True)})
    run_here(tmp_path / "cut", tmp_path / "in", settle_s=0)
    found = status(tmp_path / "cut")
    assert len(found.sources) == len(pieces)
    assert (found.cut_connections or 0) > 0
    joined = Settings(source_pattern=r"\w+?(?P<source>day)x*\.pcap")
    run_here(tmp_path / "lake", tmp_path / "in", settle_s=0, settings=joined)
    assert tables(tmp_path / "lake") == wanted
    found = status(tmp_path / "lake", tmp_path / "in")
    assert (found.cut_connections, found.source_pattern) == (0, joined.source_pattern)
    assert found.waiting == []
    # A later run keeps the pattern of the lake.
    assert run_here(tmp_path / "lake", tmp_path / "in", settle_s=0).commits == 0
