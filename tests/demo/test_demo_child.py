"""A child module ends when its parent ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-m", "wirelake.cli.demo.processes"]


def test_its_exit_code_is_that_of_the_module(tmp_path: Path) -> None:
    (tmp_path / "said.py").write_text("import sys\nsys.exit(len(sys.argv) + 5)\n")
    with subprocess.Popen([*PROGRAM, "said", "one"], cwd=tmp_path, stdin=subprocess.PIPE) as child:
        assert child.wait(60) == 7


def test_it_ends_when_the_other_end_is_closed(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(
        "import sys, time\nprint('there', sys.argv[1:], flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen(
        [*PROGRAM, "waiting", "--a", "b"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "there ['--a', 'b']\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.2)
        child.stdin.close()
        assert child.wait(60) == -signal.SIGTERM
