"""The lake of the demo reports why it ended; test_demo.py checks that it reads recordings."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests import spark_sessions

from wirelake.cli.demo.lake import FollowingLake
from wirelake.cli.errors import CommandError


def test_a_spark_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_sessions.stop()  # a session of other tests would be used
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    (tmp_path / "recordings").mkdir()
    lake = FollowingLake(tmp_path / "lake", tmp_path / "recordings", tmp_path, None, lambda: None)
    assert lake.status() == "looking for recordings"
    assert lake.has_all
    lake.start()
    deadline = time.monotonic() + 60
    while not lake.is_over:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert isinstance(lake.error, CommandError)
    assert "cannot start Spark: JAVA_HOME is" in str(lake.error)
    assert not lake.is_ready.is_set()
