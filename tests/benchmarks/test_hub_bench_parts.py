"""Every part of the benchmark of the hub runs, with all its servers, and judges what it finds.

No assertion here is about time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.hub import main
from benchmarks.hub_own_parts import PARTS

pytestmark = pytest.mark.soak
"""A benchmark that breaks is seen when it is run; no user depends on it."""

ONLY_REPORTED = ("latency", "sealed")


@pytest.mark.parametrize("name", PARTS)
def test_every_part_of_the_hub_runs(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchmarks.hub_own_parts.RECORDED_CALLS", 200.0)
    for module in ("hub_parts", "hub_own_parts"):
        monkeypatch.setattr(f"benchmarks.{module}.SIZES", {"64 B": 64})
    tmp_path.chmod(0o755)
    out = tmp_path / "results" / "hub.json"
    options = ["--scale", "0.02", "--seconds", "0.1", "--rounds", "1", "--work", str(tmp_path)]
    assert main(["--json", str(out), "--only", name, *options]) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["results"]
    said = capsys.readouterr()
    assert said.err == f"{name}: working\n"  # nothing lost, nothing refused
    part = json.loads(out.read_text(encoding="utf-8"))["results"][name]
    assert said.out.startswith(part["title"])
    assert part["rows"]
    assert bool(part["rules"]) == (name not in ONLY_REPORTED)
    assert PARTS[name].__doc__
