"""Why a signed token is refused."""

from __future__ import annotations

__all__ = ["RefusedTokenError"]


class RefusedTokenError(Exception):
    """A signed token is refused. The text is for the log of the hub and contains no part of the
    token; clients get `auth_failed`, whatever the reason."""
