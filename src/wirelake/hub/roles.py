"""Roles of users: what a person or a program may do with a hub over HTTP.

Each role includes the ones before it. `admin/endpoints.py` declares the role that an endpoint
needs; the console uses the same roles. Clients have no roles: their rights are in `rights.py`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from wirelake.wire.errors import unknown

__all__ = ["ROLES", "Role"]


class Role(IntEnum):
    """What a user may do."""

    METRICS = 1
    VIEWER = 2
    ANALYST = 3
    OPERATOR = 4

    @property
    def label(self) -> str:
        """Its name in commands, tokens and documents."""
        return self.name.lower()

    @property
    def meaning(self) -> str:
        """What it allows in addition to the role before it."""
        return ROLES[self]

    @classmethod
    def of(cls, label: str) -> Role:
        """Return the role of this name; ValueError."""
        for each in cls:
            if each.label == label:
                return each
        raise ValueError(unknown("role", label, [each.label for each in cls]))


ROLES: Final = {
    Role.METRICS: "health, counters and metrics, for probes and Prometheus",
    Role.VIEWER: "connections, topics and clients: who is connected, and no contents",
    Role.ANALYST: "contents: inboxes, dead letters, live messages and tables",
    Role.OPERATOR: "changes: publish and redrive",
}
"""What each role allows in addition to the ones before it."""
