"""How a command fails: one line for people, and an exit code."""

from __future__ import annotations

__all__ = ["BAD_DATA", "BAD_USAGE", "CommandError"]

BAD_DATA = 1
"""Exit code: the bytes or values given are wrong."""
BAD_USAGE = 2
"""Exit code: the command line is wrong."""


class CommandError(Exception):
    """A command cannot go on. The message is one line; the code is what the shell gets."""

    def __init__(self, message: str, code: int = BAD_DATA):
        super().__init__(message)
        self.code = code
