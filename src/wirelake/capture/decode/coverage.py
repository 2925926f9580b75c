"""What became of the bytes of a stream: one row of `coverage`, whose figures must add up.

payload_bytes = new_bytes + duplicate_bytes
span_bytes    = new_bytes + gap_bytes
new_bytes     = decoded_bytes + faulty_bytes + undecryptable_bytes + ignored_bytes
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..format.items import Direction
from ..tcp.assembly import Counters

__all__ = ["StreamCoverage"]


class StreamCoverage(msgspec.Struct, kw_only=True):
    """Counts for one stream."""

    file: str
    connection: int
    direction: Direction
    protocol: str | None = None
    first_ns: int
    last_ns: int
    packets: int = 0
    decoded_bytes: int = 0
    faulty_bytes: int = 0
    undecryptable_bytes: int = 0
    ignored_bytes: int = 0
    """Bytes that were delivered and that nothing was made of."""
    messages: int = 0
    faults: int = 0

    def row(self, counters: Counters) -> dict[str, Any]:
        """Return the row of `coverage`, with the counters of reassembly."""
        return {
            "file": self.file,
            "connection": self.connection,
            "direction": self.direction,
            "protocol": self.protocol,
            "first_ns": self.first_ns,
            "last_ns": self.last_ns,
            "packets": self.packets,
            "payload_bytes": counters.payload_bytes,
            "new_bytes": counters.new_bytes,
            "duplicate_bytes": counters.duplicate_bytes,
            "gap_bytes": counters.gap_bytes,
            "span_bytes": counters.span_bytes,
            "decoded_bytes": self.decoded_bytes,
            "faulty_bytes": self.faulty_bytes,
            "undecryptable_bytes": self.undecryptable_bytes,
            "ignored_bytes": self.ignored_bytes + counters.ignored_bytes,
            "messages": self.messages,
            "faults": self.faults,
        }
