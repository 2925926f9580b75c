"""comet as tools know it: layout, meaning, dialects, port."""

from __future__ import annotations

from wirelake.wire import Protocol

from .layout import Frame
from .meaning import MEANING

__all__ = ["PROTOCOL"]

PROTOCOL = Protocol(
    name="comet",
    title="comet: mobile push",
    frame=Frame,
    dialects=("seed", "hipush"),
    port=9620,
    binding="wirelake.protocols.comet.binding:BINDING",
    meaning=MEANING,
    opener="wirelake.protocols.comet.decryption:Opener",
)
"""comet, dialects seed and hipush."""
