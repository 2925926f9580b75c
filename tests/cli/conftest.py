"""How the tests of the command line run it: in this process, or as its users do."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from wirelake.cli.main import main

SOURCES = str(Path(__file__).parents[2] / "src")


class Result(NamedTuple):
    """What a run left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Lines of standard output."""
        return self.out.splitlines()


Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def config_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for saved contexts; those of whoever runs the tests have no effect."""
    folder = tmp_path_factory.getbasetemp() / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.delenv("WIRELAKE_CONTEXT", raising=False)
    return folder


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in this process; `stdin` is what it reads."""

    def run_here(*args: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        code = main(args)
        out, err = capfd.readouterr()
        return Result(code, out, err)

    return run_here


@pytest.fixture
def shell() -> Run:
    """Runs the command as a process of its own."""

    def run_there(*args: str, stdin: bytes = b"", **env: str) -> Result:
        found = subprocess.run(
            [sys.executable, "-m", "wirelake.cli", *args],
            input=stdin,
            capture_output=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": SOURCES, **env},
            check=False,
        )
        out, err = (
            text.decode("utf-8", "backslashreplace") for text in (found.stdout, found.stderr)
        )
        return Result(found.returncode, out, err)

    return run_there
