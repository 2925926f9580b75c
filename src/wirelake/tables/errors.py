"""Errors of lakes; each message is one line that says what to do."""

from __future__ import annotations

__all__ = ["DamagedError", "LakeError", "NewerError"]


class LakeError(ValueError):
    """A lake cannot be opened, read or written; the message says why, and what to do."""


class DamagedError(LakeError):
    """A file of the log or of the state cannot be used."""


class NewerError(LakeError):
    """A newer version of wirelake wrote the lake."""
