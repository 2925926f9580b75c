"""A log of defects that callers can repeat: one message per second.

A service that fails, or returns what cannot be encoded, does so for every call. A log line for each
would let a caller fill the disk.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import Final

__all__ = ["DefectLog"]

_LOG_EVERY_S: Final = 1.0


class DefectLog:
    """Reports defects of one kind."""

    __slots__ = ("_log", "_logged_at", "_not_logged")

    def __init__(self, log: logging.Logger):
        self._log = log
        self._logged_at = -_LOG_EVERY_S
        self._not_logged = 0

    def error(self, text: str, *, exc_info: bool = False) -> None:
        """Log a defect, unless one was logged within the last second."""
        now = monotonic()
        if now - self._logged_at < _LOG_EVERY_S:
            self._not_logged += 1
            return
        more, self._not_logged, self._logged_at = self._not_logged, 0, now
        repeated = f" ({more} more since the last message)" if more else ""
        self._log.error("%s%s", text, repeated, exc_info=exc_info)
