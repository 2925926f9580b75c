"""Ctrl-C while other processes work for a command: one exit code, no word, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import SOURCES

pytestmark = pytest.mark.slow


def _heed_interrupts() -> None:
    # Tests that run in the background inherit an ignored SIGINT; a person's shell does not.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _has_children(process: subprocess.Popen[bytes], _: Path) -> bool:
    return bool(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())


def _has_captures(_: subprocess.Popen[bytes], folder: Path) -> bool:
    return any(folder.glob("*.pcap*"))


@pytest.mark.parametrize("is_due", [_has_children, _has_captures])
@pytest.mark.parametrize("existed", [False, True])
def test_simulate(
    tmp_path: Path, is_due: Callable[[subprocess.Popen[bytes], Path], bool], existed: bool
) -> None:
    folder = tmp_path / "traffic"
    if existed:
        folder.mkdir()
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "wirelake.cli", "simulate", "--out", str(folder)),
            *("--size", "400MB", "--jobs", "2"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCES},
        start_new_session=True,  # a process group of its own, as in a terminal
        preexec_fn=_heed_interrupts,  # noqa: PLW1509 - the parent runs no other thread
    ) as process:
        while not is_due(process, folder):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")
    assert folder.exists() == existed
    assert not existed or not list(folder.iterdir())
