"""ESNP as tools know it: layout, meaning, dialects, revisions, port."""

from __future__ import annotations

from wirelake.wire import Protocol
from wirelake.wire.protocol import Revision

from .layout import FlagType, Message
from .meaning import MEANING

__all__ = ["PROTOCOL"]

PROTOCOL = Protocol(
    name="esnp",
    title="ESNP: service calls and events",
    frame=Message,
    dialects=("seed", "go"),
    port=9600,
    binding="wirelake.protocols.esnp.binding:BINDING",
    meaning=MEANING,
    revisions={
        "frames": Revision(
            "wirelake.protocols.esnp.message:frames_problems", unnamed=(FlagType.ASYNC.name,)
        ),
        "lines": Revision("wirelake.protocols.esnp.message:lines_problems"),
    },
)
"""ESNP, dialects seed and go."""
