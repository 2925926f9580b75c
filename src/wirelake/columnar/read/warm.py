"""Load all kernels from the cache, or compile them.

`warm` is for processes that are forked later, such as Spark's workers: no thread is started. Run as
a program, `python -m wirelake.columnar.read.warm` compiles what the cache lacks, on all cores: with
an empty cache every reader would compile it, all at the same time.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from wirelake.capture.format.writer import PcapWriter
from wirelake.capture.record.recorder import Recorder
from wirelake.capture.tcp.headers import SYN, ethernet, ipv4, tcp
from wirelake.protocols import registry
from wirelake.records.deliveries import CROSSING
from wirelake.records.rows import Closed, Opened

from ..decode.kernel import load
from ..fold.calls import expire_idle
from ..fold.fold import Fold
from ..fold.memory import Memory
from ..fold.tunnel_kernels import forget_tunnels
from ..fold.tunnels import TunnelFold
from ..jit.mode import is_ready, kernel_folder, mark_ready
from .reader import ReadOptions, read_batches

__all__ = ["compile_kernels", "sample_protocol", "small_captures", "warm", "warm_folds"]

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


def compile_kernels(progress: Callable[[int, int], None] | None = None) -> None:
    """Compile the kernels that are not in the cache, in as many processes as there are cores.

    `progress` is called with the number of parts that are done, and of all.
    """
    names = [protocol.name for protocol in registry.load_all()[0]]
    # A fork has all imports and the registered protocols; this process has no threads.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(os.cpu_count(), context, initializer=_end_with_parent) as pool:
        parts = [pool.submit(warm_folds), *(pool.submit(_load_kernels, name) for name in names)]
        for done, part in enumerate(as_completed(parts)):
            part.result()
            if progress is not None:
                progress(done, len(parts) + 1)
    warm()
    mark_ready()


def _end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends (Linux)."""
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
        capture = PcapWriter(out)
        # With its SYN, a stream begins with a message: no further one has to show it.
        for segment in (tcp(50_000, 80, seq=0, flags=SYN), tcp(50_000, 80, seq=1, payload=frame)):
            capture.packet(0, ethernet(ipv4(bytes(4), bytes(4), segment)))
    return sorted(folder.glob("*.pcap*"))


def warm_folds() -> None:
    """Call every kernel of folds once, with next to nothing."""
    folded = Fold()
    for _ in folded.window([("connections", [Opened(0, 1), Closed(0, 1)]), ("waiting", {2: 0})]):
        pass
    Fold(state=[folded.save({})])
    for _ in folded.finish():
        pass
    tunnels = TunnelFold()
    closed = {"event": "closed", "ts_ns": 0, "rank": 4, "link": 1, "number": 0, "connection": 1}
    tunnels.feed([pa.RecordBatch.from_pylist([closed], schema=CROSSING["_tunnel_events"])])
    for _ in tunnels.finish():
        pass
    tables = Memory().tables()
    expire_idle(tables, 0)
    forget_tunnels(tables, tunnels.records(), np.empty(0, np.int32))


def _main() -> None:
    background = "--background" in sys.argv[1:]
    if background:
        os.nice(10)
    with (kernel_folder() / "compiling").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if background else 0))
        except BlockingIOError:
            return  # another process compiles them
        if not is_ready():
            compile_kernels()


if __name__ == "__main__":
    _main()
