"""Builds distributions of this tree, as `make dist` does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
"""The tree."""
LIMIT_S = 300
"""How long a build may take."""


class Built(NamedTuple):
    """What a build made."""

    wheel: Path
    sdist: Path


def build(out: Path, source: Path = ROOT) -> Built:
    """A source distribution, and a wheel that is built from it."""
    _run("--outdir", str(out), str(source))
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return Built(wheel, sdist)


def build_wheel(out: Path, source: Path = ROOT) -> Path:
    """A wheel, straight from the tree."""
    _run("--wheel", "--outdir", str(out), str(source))
    (wheel,) = out.glob("*.whl")
    return wheel


def _run(*arguments: str) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"the build failed: {done.stdout[-2_000:]}{done.stderr[-2_000:]}")
