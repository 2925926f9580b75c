"""Loads everything that reading captures takes, so that no task has to.

Kernels come from Numba's cache; the first time on a machine they are compiled, which takes a while:
`python -m wirelake.lake.spark.warm` does it beforehand.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Final

from wirelake.capture.format.writer import PcapWriter
from wirelake.capture.record.recorder import Recorder
from wirelake.capture.tcp.synthesis import (
    ethernet,
    ipv4,
    tcp,
)
from wirelake.columnar.decode.kernel import load
from wirelake.columnar.fold import warm as warm_folds
from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.protocols import registry

__all__ = ["small_captures", "warm"]

_HEARTBEAT: Final = bytes.fromhex("000106")
"""A whole frame of comet."""


def warm() -> None:
    """Calls the kernels of every protocol and of folds; reads a small capture of each format."""
    for protocol in registry.load_all()[0]:
        # One that cannot be compiled fails where it is read, with its name.
        with contextlib.suppress(Exception):
            load(protocol).warm()
    warm_folds()
    with tempfile.TemporaryDirectory(prefix="wirelake-warm-") as folder:
        for path in small_captures(Path(folder)):
            for _ in read_batches([path], ReadOptions(force_protocol="comet")):
                pass


def small_captures(folder: Path) -> list[Path]:
    """Makes a capture of each format in a folder, with one message of comet in it."""
    recorder = Recorder(folder, source="warm")
    recorder.open(1, ("10.0.0.1", 50_000), ("10.0.0.2", 80), "comet", 0)
    recorder.record(1, "c2s", _HEARTBEAT, 0)
    recorder.close(1, 0, "eof")
    recorder.stop()
    with (folder / "warm.pcap").open("wb") as out:
        segment = tcp(50_000, 80, payload=_HEARTBEAT)
        PcapWriter(out).packet(0, ethernet(ipv4(bytes(4), bytes(4), segment)))
    return sorted(folder.glob("*.pcap*"))


if __name__ == "__main__":
    warm()
