"""Live decoding: a capture through a pipe to `wirelake read -` and to `tshark -l`.

Both start anew, which is counted, too: the capture is large enough that it matters little.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from wirelake.protocols import registry
from wirelake.wire.views.lua import dissector

__all__ = ["LiveRun", "live_runs"]


class LiveRun(NamedTuple):
    """One reader of the pipe."""

    mb_per_s: float
    """Megabytes of capture for each second of CPU."""
    lines: int
    """Lines that it printed."""


def live_runs(capture: Path, folder: Path) -> dict[str, LiveRun]:
    """Read the capture with each of them; without tshark, with one."""
    ours = [sys.executable, "-m", "wirelake.cli", "read", "-", "--json"]
    found = {"wirelake": _run(ours, capture)}
    program = shutil.which("tshark")
    if program is not None:
        protocols = [registry.find(name) for name in registry.BUILT_IN]
        script = folder / "wirelake.lua"
        script.write_text(dissector(protocols), encoding="utf-8")
        shown = " or ".join(f"wirelake.{each.name}" for each in protocols)
        theirs = [program, "-l", "-r", "-", "-X", f"lua_script:{script}", "-Y", shown]
        found["tshark"] = _run(theirs, capture)
    return found


def _run(command: Sequence[str], capture: Path) -> LiveRun:
    before = _children_cpu_s()
    # `cat`, so that the input is a pipe for both.
    with (
        subprocess.Popen(["cat", str(capture)], stdout=subprocess.PIPE) as cat,
        subprocess.Popen(
            command, stdin=cat.stdout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as reader,
    ):
        assert cat.stdout is not None
        assert reader.stdout is not None
        cat.stdout.close()
        lines = 0
        while chunk := reader.stdout.read(1 << 20):
            lines += chunk.count(b"\n")
    if reader.returncode:
        raise RuntimeError(f"{command[0]} ended with {reader.returncode}")
    spent_s = _children_cpu_s() - before
    return LiveRun(capture.stat().st_size / spent_s / 1e6, lines)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
