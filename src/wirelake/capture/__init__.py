"""Capture files: pcap and pcapng in and out, and the recorder (`docs/concepts/captures.md`).

    for item in read("edge.pcapng"):
        if isinstance(item, Packet) and isinstance(found := segment(item), Segment):
            ...

What is named here needs nothing but msgspec (and zstandard, for files in zstd). The tools for whole
files are in `info.py`, `repair.py` and `redact.py`, the way to tables in `decode.py`.
"""

from .format.items import (
    Fact,
    FileFault,
    Packet,
    Secrets,
    Segment,
)
from .format.limits import Limits
from .format.reader import read
from .record.recorder import Recorder
from .tcp.headers import segment

__all__ = [
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
