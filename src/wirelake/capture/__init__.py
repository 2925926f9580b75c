"""Capture files: pcap and pcapng in and out, and the recorder (`docs/concepts/captures.md`).

    for item in read("edge.pcapng"):
        if isinstance(item, Packet) and isinstance(found := segment(item), Segment):
            ...

Follow the data: `format` (files to packets), `tcp` (packets to streams), `decode` (streams to
rows); `record` writes captures, `tools` works on whole files. This is the reference in plain
Python, written to be read and compared with; `wirelake.columnar` reads the same files faster.

The names exported here need msgspec only (and zstandard for files in zstd).
"""

from .format.constants import Limits
from .format.items import Fact, FileFault, Packet, Secrets, Segment
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
