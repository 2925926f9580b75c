"""Damaged captures: both readers tell the same story, nothing raises, and `coverage` adds up."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.columnar.differential import differences

from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.traffic import simulate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A small capture of each style."""
    out = tmp_path_factory.mktemp("simulated") / "out"
    simulate(out, size=400_000, seed=5, jobs=1)
    files = {path.suffix: path.read_bytes() for path in sorted(out.glob("*.pcap*"))}
    return {"recorder": files[".pcapng"], "tcpdump": files[".pcap"]}


def damaged(rng: random.Random, data: bytes) -> bytes:
    """A file in which a few things went wrong."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 2, 5, 20])):
        at = rng.randrange(len(found))
        match rng.randrange(6):
            case 0:
                found[at] = rng.randrange(256)
            case 1:
                found[at : at + 4] = rng.choice(
                    [b"\0\0\0\0", b"\xff\xff\xff\xff", rng.randbytes(4)]
                )
            case 2:
                del found[at : at + rng.choice([1, 4, 60, 3000])]
            case 3:
                found[at:at] = rng.randbytes(rng.choice([1, 4, 60, 3000]))
            case 4:
                found[at:at] = found[at - 500 : at]
            case _:
                del found[at + 40_000 :]
    return bytes(found)


@pytest.mark.parametrize("style", ["recorder", "tcpdump"])
@pytest.mark.parametrize("seed", range(6))
def test_both_readers_agree_on_a_damaged_file(
    captures: dict[str, bytes], tmp_path: Path, style: str, seed: int
) -> None:
    rng = random.Random(f"{style} {seed}")
    path = tmp_path / "damaged"
    path.write_bytes(damaged(rng, captures[style]))
    assert differences([str(path)]) == []


@pytest.mark.parametrize("style", ["recorder", "tcpdump"])
@pytest.mark.parametrize("seed", range(20))
def test_coverage_adds_up(
    captures: dict[str, bytes], tmp_path: Path, style: str, seed: int
) -> None:
    rng = random.Random(f"coverage {style} {seed}")
    path = tmp_path / "damaged"
    path.write_bytes(damaged(rng, captures[style]))
    faults = 0
    for table, batch in CapturePipeline([str(path)], tables=("coverage", "faults")).batches():
        rows = batch.to_pylist()  # type: ignore[union-attr]
        if table == "faults":
            faults += len(rows)
            assert all(row["code"] and row["file"] == str(path) for row in rows)
            continue
        for row in rows:
            assert row["payload_bytes"] == row["new_bytes"] + row["duplicate_bytes"]
            assert row["span_bytes"] == row["new_bytes"] + row["gap_bytes"]
            became = ("decoded", "faulty", "undecryptable", "ignored")
            assert row["new_bytes"] == sum(row[f"{name}_bytes"] for name in became)


def test_a_file_of_random_bytes_is_one_fault(tmp_path: Path) -> None:
    path = tmp_path / "noise"
    path.write_bytes(random.Random(1).randbytes(50_000))
    found = list(CapturePipeline([str(path)]).batches())
    assert [table for table, _ in found] == ["faults"]
    (row,) = found[0][1].to_pylist()  # type: ignore[union-attr]
    assert (row["code"], row["offset"], row["present_bytes"]) == ("unknown_file", 0, 50_000)
