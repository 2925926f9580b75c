"""Any flipped bit of a lake is found: in files of tables, in records and in checkpoints."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from wirelake.tables.check import check
from wirelake.tables.log import Log
from wirelake.tables.maintenance import compact
from wirelake.tables.paths import DamagedError, LakeError
from wirelake.tables.snapshot import FORMAT, checksum_of
from wirelake.tables.writer import Writer

from .made_lakes import commit_calls

FLIPS = 40


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with a few commits and a checkpoint."""
    root = tmp_path / "lake"
    with Writer(root, create={}) as writer:
        for number in range(3):
            commit_calls(writer, range(number * 10, number * 10 + 10))
        writer.checkpoint()
    assert check(root) == []
    return root


def flipped(data: bytes, rng: random.Random) -> bytes:
    """The same bytes with one bit flipped."""
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def found(lake: Path) -> bool:
    """Whether a check finds something."""
    try:
        return any(not each.harmless for each in check(lake))
    except LakeError:
        return True


def test_a_flipped_bit_of_any_file_is_found(lake: Path) -> None:
    rng = random.Random(1)
    files = [path for path in lake.rglob("*") if path.is_file() and path.name != "_lock"]
    assert {path.suffix for path in files} == {".parquet", ".json"}
    for path in files:
        data = path.read_bytes()
        for _ in range(FLIPS):
            path.write_bytes(flipped(data, rng))
            assert found(lake), path
        path.write_bytes(data)
    assert check(lake) == []


def test_checksums_are_those_of_b2sum(lake: Path) -> None:
    for file in Log(lake).snapshot().all_files():
        assert file.checksum == checksum_of((lake / file.path).read_bytes())
    path = lake / Log(lake).snapshot().all_files()[0].path
    done = subprocess.run(
        ["b2sum", "-l", "128", str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] == Log(lake).snapshot().all_files()[0].checksum


def test_a_damaged_file_is_not_compacted(lake: Path) -> None:
    file = Log(lake).snapshot().all_files()[1]
    path = lake / file.path
    path.write_bytes(flipped(path.read_bytes(), random.Random(2)))
    with pytest.raises(DamagedError, match=r"damaged: its checksum differs from the log"):
        compact(lake)
    path.unlink()
    with pytest.raises(LakeError, match="missing; the log lists this file"):
        compact(lake)


def test_a_record_without_a_checksum_is_only_accepted_in_the_first_format(lake: Path) -> None:
    path = Log(lake).layout.record(1)
    text = path.read_text()
    head, _, _ = text.rpartition(",")
    path.write_text(head + "\n}")
    (lake / "_log" / f"{3:020d}.checkpoint.json").unlink()
    with pytest.raises(DamagedError, match="no checksum"):
        Log(lake).snapshot()
    path.write_text(head.replace(f'"format": {FORMAT}', '"format": 1') + "\n}")
    assert Log(lake).snapshot().commit == 3
