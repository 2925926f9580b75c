"""Simulated captures: every table is exactly what really happened."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.columnar.differential import differences
from tests.columnar.truth import untrue

from wirelake.traffic import simulate

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("faults", [0.0, 0.01])
def test_every_table_is_the_truth(tmp_path: Path, faults: float) -> None:
    summary = simulate(tmp_path / "out", size=1_000_000, seed=7, faults=faults, jobs=1)
    assert bool(summary.faults) == bool(faults)
    assert untrue(tmp_path / "out") == []


@pytest.mark.parametrize("style", ["recorder", "tcpdump"])
def test_both_readers_agree_on_a_simulated_capture(tmp_path: Path, style: str) -> None:
    out = tmp_path / "out"
    simulate(out, size=800_000, seed=8, faults=0.01, style=style, jobs=1)
    files = sorted(str(path) for path in out.glob("*.pcap*"))
    assert differences(files, keys=sorted(str(path) for path in out.glob("*.keys"))) == []
