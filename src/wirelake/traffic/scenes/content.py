"""Random text and bytes for the bodies of simulated messages."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["blob", "sentence"]

_ENGLISH: Final = """
order parcel invoice meeting gold sword guild raid harvest storm bridge ticket train gate seat
score match winner friend photo comment reply thanks welcome update battery signal router sensor
valve pump meter window ready late soon today tomorrow nine eleven paid sent open shut
"""
_WORDS: Final = _ENGLISH.split()
_CHINESE: Final = "您的快递已到达请尽快取件今日签到奖励系统维护通知好友上线新消息"


def sentence(rng: random.Random, median: int = 60) -> str:
    """Return text of about `median` bytes, sometimes in Chinese."""
    size = max(8, min(600, int(median * rng.lognormvariate(0.0, 0.6))))
    if rng.random() < 0.15:
        return "".join(rng.choices(_CHINESE, k=size // 3))
    return " ".join(rng.choices(_WORDS, k=max(1, size // 6)))


def blob(rng: random.Random, median: int = 60, most: int = 20_000) -> bytes:
    """Return opaque bytes, about `median` and never more than `most`."""
    return rng.randbytes(max(1, min(most, int(median * rng.lognormvariate(0.0, 0.7)))))
