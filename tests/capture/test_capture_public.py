"""What the package gives, and what it needs."""

from __future__ import annotations

import subprocess
import sys

import wirelake.capture

NEEDLESS = ["asyncio", "cryptography", "numpy", "pyarrow", "wirelake.protocols", "zstandard"]


def test_public_names() -> None:
    assert wirelake.capture.__all__ == [
        "Fact",
        "FileFault",
        "Limits",
        "Packet",
        "Recorder",
        "Secrets",
        "Segment",
        "read",
        "segment",
    ]


def test_reading_and_recording_need_little() -> None:
    code = f"import sys, wirelake.capture; print([n for n in {NEEDLESS} if n in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
