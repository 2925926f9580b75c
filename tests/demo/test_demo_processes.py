"""The demo's processes: their output, their end, and orphans."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from wirelake.cli.demo.processes import Child, ProcessTree, descendants


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Create a module that a child can run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    def make(code: str) -> str:
        (tmp_path / "played.py").write_text(code)
        return "played"

    return make


def test_child_output_is_read_by_line(tmp_path: Path, module: Callable[[str], str]) -> None:
    code = "import sys, time\nprint('one')\nprint('tw', end='', flush=True)\ntime.sleep(600)\n"
    child = Child("it", module(code), (), tmp_path)
    try:
        until(child.output_lines)
        assert child.output_lines() == ["one"]
        assert child.code is None
    finally:
        assert child.end() == -signal.SIGTERM
    assert child.code == -signal.SIGTERM
    assert child.error() == f"exit code {-signal.SIGTERM}"


def test_child_error_is_the_last_line(tmp_path: Path, module: Callable[[str], str]) -> None:
    code = "import sys\nsys.stderr.write('first\\nwirelake: no room\\n\\n')\nsys.exit(2)\n"
    child = Child("it", module(code), (), tmp_path)
    child.wait()
    assert (child.code, child.error()) == (2, "no room")
    assert child.end() == 2


def test_a_child_that_will_not_end_is_killed(
    tmp_path: Path, module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirelake.cli.demo.processes._END_TIMEOUT_S", 0.2)
    code = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('deaf', flush=True)\ntime.sleep(600)\n"
    )
    child = Child("it", module(code), (), tmp_path)
    until(child.output_lines)
    assert child.end() == -signal.SIGKILL


GRANDCHILD = """
import subprocess, sys
program = "import time; time.sleep(600)"
made = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
open(sys.argv[1], "w").write(str(made.pid))
"""


@pytest.mark.parametrize("gently", [True, False])
def test_orphans_are_found(tmp_path: Path, gently: bool) -> None:
    said = tmp_path / "said"
    with subprocess.Popen(["sleep", "600"]) as before:
        family = ProcessTree()
        try:
            parent = subprocess.run([sys.executable, "-c", GRANDCHILD, str(said)], check=True)
            assert parent.returncode == 0
            orphan = int(said.read_text())
            until(lambda: family.members() == [orphan])
            assert before.pid in descendants()
            family.end(gently=gently)
            assert family.members() == []
            with pytest.raises(ProcessLookupError):
                os.kill(orphan, 0)
            assert before.poll() is None
        finally:
            family.end(gently=False)
            before.kill()
