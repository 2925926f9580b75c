"""The tables do not depend on the window size."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.lake.cut_examples import captures_in
from tests.lake.lakes import unlike_engines
from tests.lake.local_engine import run_here

from wirelake.traffic import simulate

_SEED = 450_874_518
"""Of traffic in which a packet that was not captured whole is followed by a window's end, while
the other direction goes on."""


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("windows")
    simulate(folder / "sim", size=400_000, seed=_SEED, faults=0.005, jobs=1)
    return folder


@pytest.mark.parametrize(
    "window_bytes",
    [700, *(pytest.param(size, marks=pytest.mark.soak) for size in (1_300, 2_000, 2_600, 5_000))],
)
def test_in_windows_of(traffic: Path, window_bytes: int) -> None:
    keys = [str(path) for path in sorted((traffic / "sim").glob("*.keys"))]
    lake = traffic / f"lake-{window_bytes}"
    run_here(lake, traffic / "sim", keys=keys, workers=1, window_bytes=window_bytes, settle_s=0)
    assert unlike_engines(lake, captures_in(traffic / "sim"), keys) == []
    shutil.rmtree(lake)
