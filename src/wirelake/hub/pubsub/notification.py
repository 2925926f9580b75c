"""What is published, and the forms in which it leaves.

Most connections of a protocol can be given the very same bytes; then a notification is encoded once
in a `Form`, however many subscribe. A connection that needs bytes of its own (sealed comet, tny,
magline) has no form, and makes them itself.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

__all__ = ["Form", "Notification"]


class Notification(msgspec.Struct, frozen=True, gc=False):
    """Something that was published."""

    number: int
    """Its place in the log (`numbering.py`)."""
    id: str
    topic: str | None
    """None when it is for one client alone."""
    content: bytes
    type: int
    """0 to 255; the application's to give a meaning."""
    ts_ms: int
    """When it was published."""
    expires_ms: int
    """When it is of no use any more; 0 when it is not stored at all."""


class Form(Protocol):
    """One way to write notifications that many connections understand."""

    name: str

    def encode(self, notification: Notification) -> bytes:
        """The frame."""
