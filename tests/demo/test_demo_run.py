"""When a part of the demo dies, one line reports it and the rest ends."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.demo.demo_process import SMALL, started

from wirelake.cli.demo.run import Options, run_demo
from wirelake.cli.errors import CommandError


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_its_processes_end_with_one_that_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, *SMALL) as demo:
        assert demo.wait_for("starting Spark")
        until(lambda: demo.member("bin/java") and demo.member(" hub "))
        demo.process.kill()
        demo.wait()
        until(lambda: not demo.members())


def test_a_dead_hub_is_reported(tmp_path: Path) -> None:
    with started(tmp_path, *SMALL) as demo:
        assert demo.wait_for("starting Spark")
        until(lambda: demo.member(" hub "))
        os.kill(demo.member(" hub ") or 0, signal.SIGKILL)
        assert demo.wait() == 1
        assert demo.left_over() == []
    assert demo.err.splitlines()[-1] == (
        "wirelake: the hub ended: exit code -9; start the demo again"
    )


@pytest.mark.soak
def test_a_dead_simulation_is_reported(tmp_path: Path) -> None:
    with started(tmp_path, *SMALL) as demo:
        assert demo.wait_for("simulating traffic")
        until(lambda: demo.member(" simulate "))
        os.kill(demo.member(" simulate ") or 0, signal.SIGKILL)
        assert demo.wait() == 1
        assert demo.left_over() == []
    assert demo.err.splitlines()[-1] == "wirelake: the simulation failed: exit code -9"
    assert demo.out == ""


def test_changed_settings_are_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("wirelake.cli.demo.run._STEP_TIMEOUT_S", 0.0)
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(CommandError, match="start of the hub took more than 0 s"):
        run_demo(Options(any_port=True), lambda _: None, lambda _: None)
    assert (tempfile.tempdir, os.environ["TMPDIR"]) == (str(tmp_path), str(tmp_path))
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert list(tmp_path.iterdir()) == []
