"""Shared fixtures of Spark tests: simulated captures."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.traffic import simulate


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of captures in both styles, with their key logs and the truth."""
    folder = tmp_path_factory.mktemp("lake") / "captures"
    simulate(folder, size="400kB", seed=5, jobs=1)
    return folder
