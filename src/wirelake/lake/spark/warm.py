"""Loads everything that reading captures needs, so that no task has to.

The daemon of task workers calls `warm` before it forks (`daemon.py`). Run as a program,
`python -m wirelake.lake.spark.warm` compiles the kernels into Numba's cache beforehand, on all
cores: with an empty cache every worker would compile them, all at the same time. With `--classes`
it also writes an archive of Java classes, with which Spark starts in half the time
(`class_archive.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from wirelake.capture.format.writer import PcapWriter
from wirelake.capture.record.recorder import Recorder
from wirelake.capture.tcp.headers import ethernet, ipv4, tcp
from wirelake.columnar.decode.kernel import load
from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.columnar.read.warm import warm_folds
from wirelake.protocols import registry

from .class_archive import ArchiveError, create_archive

__all__ = ["compile_kernels", "sample_protocol", "small_captures", "warm"]

_PR_SET_PDEATHSIG: Final = 1


def warm() -> None:
    """Call the kernels of every protocol and of the fold; read a small capture of each format."""
    for protocol in registry.load_all()[0]:
        _load_kernels(protocol.name)
    warm_folds()
    with tempfile.TemporaryDirectory(prefix="wirelake-warm-") as folder:
        for path in small_captures(Path(folder)):
            for _ in read_batches([path], ReadOptions(force_protocol=sample_protocol())):
                pass


def _load_kernels(name: str) -> None:
    """Load the kernels of a protocol from the cache, or compile them."""
    # A protocol that does not compile fails where it is read, with its name.
    with contextlib.suppress(Exception):
        load(registry.find(name)).warm()


def compile_kernels() -> None:
    """Compile the kernels that are not in the cache, in as many processes as there are cores."""
    names = [protocol.name for protocol in registry.load_all()[0]]
    # A fork has all imports and the registered protocols; this process has no threads.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(os.cpu_count(), context, initializer=_end_with_parent) as pool:
        pool.submit(warm_folds)
        list(pool.map(_load_kernels, names))
    warm()


def _end_with_parent() -> None:
    """Have this process killed when its parent ends (Linux)."""
    # A pool's worker waits for its next task for ever when the parent is killed.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def sample_protocol() -> str:
    """Return the protocol of `small_captures`: the first whose frame needs no arguments."""
    for protocol in registry.load_all()[0]:
        if len(protocol.frame.__struct_defaults__) == len(protocol.frame.__struct_fields__):
            return protocol.name
    raise LookupError("no protocol has a frame without required fields")


def small_captures(folder: Path) -> list[Path]:
    """Write a capture of each format into a folder, with one message in each."""
    protocol = registry.find(sample_protocol())
    frame = protocol.encode(protocol.frame())
    recorder = Recorder(folder, source="warm")
    recorder.open(1, ("10.0.0.1", 50_000), ("10.0.0.2", 80), protocol.name, 0)
    recorder.record(1, "c2s", frame, 0)
    recorder.close(1, 0, "eof")
    recorder.stop()
    with (folder / "warm.pcap").open("wb") as out:
        segment = tcp(50_000, 80, payload=frame)
        PcapWriter(out).packet(0, ethernet(ipv4(bytes(4), bytes(4), segment)))
    return sorted(folder.glob("*.pcap*"))


if __name__ == "__main__":
    compile_kernels()
    if "--classes" in sys.argv[1:]:
        try:
            create_archive()
        except ArchiveError as failure:
            sys.exit(f"cannot write the class archive of Java: {failure}")
