"""magline as tools know it: layout, meaning, port."""

from __future__ import annotations

from wirelake.wire import Protocol

from .layout import Frame
from .meaning import MEANING

__all__ = ["PROTOCOL"]

PROTOCOL = Protocol(
    name="magline",
    title="magline: encrypted long-lived connections",
    frame=Frame,
    dialects=("seed",),
    port=9757,
    binding="wirelake.protocols.magline.binding:BINDING",
    meaning=MEANING,
    opener="wirelake.protocols.magline.decryption:Opener",
)
"""magline."""
