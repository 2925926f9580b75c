"""The recorder on the hot path: `Recorder.record` with one frame in a call, and with sixteen."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from wirelake.capture.record.recorder import Recorder
from wirelake.protocols.comet.layout import Notification
from wirelake.protocols.comet.protocol import PROTOCOL

__all__ = ["FRAMES", "FRAME_BYTES", "PER_CALL", "recorded", "recorder_passes"]

FRAMES = 64_000
"""In one pass."""
FRAME_BYTES = 150
PER_CALL = (1, 16)
CONNECTIONS = 100
STEP_NS = 2_000
"""Of time between calls; flushes are due by size, not by time."""


def recorder_passes(folder: Path, frames: int = FRAMES) -> dict[str, Callable[[], None]]:
    """What is timed: a recording of so many frames, sealed at its end."""
    return {f"{each} in a call": _pass(folder, frames, each) for each in PER_CALL}


def _pass(folder: Path, frames: int, per_call: int) -> Callable[[], None]:
    def work() -> None:
        inside = Path(tempfile.mkdtemp(dir=folder))
        recorded(inside, frames, per_call)
        shutil.rmtree(inside)

    return work


def recorded(folder: Path, frames: int, per_call: int) -> None:
    """Records frames of a hundred connections in turn."""
    recorder = Recorder(folder, source="bench", flush_s=3600.0, rotate_s=3600.0)
    for number in range(1, CONNECTIONS + 1):
        client = (f"10.0.0.{number}", 40_000 + number)
        recorder.open(number, client, ("192.168.0.1", 9620), "comet", number)
    data, now = _frame() * per_call, 1_000_000
    record = recorder.record
    for call in range(frames // per_call):
        record(1 + call % CONNECTIONS, "s2c", data, now)
        now += STEP_NS
    recorder.stop()


def _frame() -> bytes:
    """A notification of the wanted size."""
    empty = len(PROTOCOL.encode(Notification(1, "0011223344556677", content=b"")))
    content = b"x" * (FRAME_BYTES - empty)
    return PROTOCOL.encode(Notification(1, "0011223344556677", content=content))
