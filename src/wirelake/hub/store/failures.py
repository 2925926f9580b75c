"""Failures of the store: counted, logged at most once per minute, and the one that lasts.

A disk that is full fails every batch, twenty times a second while inboxes are saved: a log line for
each would bury everything else, and fill the disk further. All methods are called on the event
loop.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

__all__ = ["LOG_S", "Failures", "Operation"]

_log = logging.getLogger(__name__)

Operation: TypeAlias = Literal["read", "write"]
"""What failed."""

LOG_S: Final = 60.0
"""Minimum seconds between two log lines about the same operation."""
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""Errors that do not go away: another read that succeeds has read another page."""


class Failures:
    """Failed reads and writes of one store."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self.counts: Counter[str] = Counter()
        """Failures since the start, by operation."""
        self._lasting: dict[Operation, str] = {}
        self._damage = ""
        self._logged_at: dict[Operation, float] = {}
        self._not_logged: Counter[Operation] = Counter()
        self._announced: set[Operation] = set()

    @property
    def problem(self) -> str:
        """Why the store cannot be used; empty when the last operations succeeded."""
        return self._damage or next(iter(self._lasting.values()), "")

    @property
    def writing(self) -> bool:
        """Whether the last write failed."""
        return "write" in self._lasting

    def failed(self, operation: Operation, error: BaseException | None) -> None:
        """Count a failure; log it unless one was logged within `LOG_S`."""
        self.counts[operation] += 1
        text = f"cannot {operation} the store: {error}"
        self._lasting[operation] = text
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            self._damage = f"{text}; restart the hub, which checks the database"
        now = self._clock()
        if now - self._logged_at.get(operation, -LOG_S) < LOG_S:
            self._not_logged[operation] += 1
            return
        more = self._not_logged.pop(operation, 0)
        self._logged_at[operation] = now
        self._announced.add(operation)
        _log.error("%s%s", text, f" ({more} more since the last message)" if more else "")

    def succeeded(self, operation: Operation) -> None:
        """End a failure that did not last."""
        if self._lasting.pop(operation, None) is not None and operation in self._announced:
            self._announced.discard(operation)
            self._not_logged.pop(operation, None)
            _log.warning("can %s the store again", operation)
