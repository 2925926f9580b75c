"""When the simulated day begins, and how long a shard lasts."""

from __future__ import annotations

from typing import Final

__all__ = ["EPOCH_MS", "EPOCH_NS", "PERIOD_NS", "SECOND_NS"]

SECOND_NS: Final = 1_000_000_000
EPOCH_NS: Final = 1_767_621_600 * SECOND_NS
"""2026-01-05 14:00:00 UTC."""
EPOCH_MS: Final = EPOCH_NS // 1_000_000
PERIOD_NS: Final = 1_800 * SECOND_NS
"""What one shard covers: half an hour, so that a phone can sleep in it."""
