"""Small captures of every protocol, with faults, for the commands that read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.traffic import simulate

__all__ = ["captures_of", "rows", "traffic"]


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two recordings, two captures of tcpdump and a key log."""
    folder = tmp_path_factory.mktemp("traffic")
    simulate(folder, size=300_000, seed=3, faults=0.01, jobs=1)
    return folder


def captures_of(folder: Path) -> list[str]:
    """The captures in the folder, in the order in which they are read."""
    return sorted(str(path) for path in folder.glob("*.pcap*"))


def rows(folder: Path, **options: object) -> list[dict[str, object]]:
    """What a table holds."""
    read = ReadOptions(**options)  # type: ignore[arg-type]
    return [row for batch in read_batches(captures_of(folder), read) for row in batch.to_pylist()]
