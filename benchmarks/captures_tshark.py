"""tshark with our dissector on a capture: what the usual tool takes for the same packets."""

from __future__ import annotations

import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from wirelake.protocols import registry
from wirelake.wire.views.lua import dissector

__all__ = ["Dissected", "dissected"]


@dataclass(frozen=True)
class Dissected:
    """What tshark took."""

    bytes: int
    packets: int
    """That hold something of ours."""
    cpu_s: float

    @property
    def mb_per_s(self) -> float:
        """Megabytes of capture for each second of CPU."""
        return self.bytes / self.cpu_s / 1e6


def dissected(capture: Path, folder: Path) -> Dissected | None:
    """Dissects every packet and prints the number of each; None when there is no tshark."""
    program = shutil.which("tshark")
    if program is None:
        return None
    protocols = [registry.find(name) for name in registry.BUILT_IN]
    script = folder / "wirelake.lua"
    script.write_text(dissector(protocols), encoding="utf-8")
    shown = " or ".join(f"wirelake.{each.name}" for each in protocols)
    command = [program, "-r", str(capture), "-X", f"lua_script:{script}"]
    command += ["-Y", shown, "-T", "fields", "-e", "frame.number"]
    before = _children_cpu()
    done = subprocess.run(command, capture_output=True, check=True)
    spent = _children_cpu() - before
    return Dissected(capture.stat().st_size, done.stdout.count(b"\n"), round(spent, 3))


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
