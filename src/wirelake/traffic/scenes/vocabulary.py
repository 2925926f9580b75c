"""What people and programs say: texts and values for the bodies of simulated messages."""

from __future__ import annotations

import random
from typing import Final

from wirelake.protocols.esnp.layout import Var, VarType

__all__ = ["blob", "sentence", "topics", "value"]

_ENGLISH: Final = """
order parcel invoice meeting gold sword guild raid harvest storm bridge ticket train gate seat
score match winner friend photo comment reply thanks welcome update battery signal router sensor
valve pump meter window ready late soon today tomorrow nine eleven paid sent open shut
"""
_WORDS: Final = _ENGLISH.split()
_CHINESE: Final = "您的快递已到达请尽快取件今日签到奖励系统维护通知好友上线新消息"
_TOPICS: Final = (
    "@news",
    "@sport",
    "@weather/today",
    "@city/42",
    "@game/raid",
    "@game/guild",
    "@shop/sale",
    "@alerts",
)
_RANGES: Final = {
    VarType.INT: (-1000, 1000),
    VarType.INT8: (-128, 127),
    VarType.INT16: (-(1 << 15), (1 << 15) - 1),
    VarType.INT32: (-(1 << 31), (1 << 31) - 1),
    VarType.INT64: (-(1 << 63), (1 << 63) - 1),
    VarType.UINT: (0, 100_000),
    VarType.UINT8: (0, 255),
    VarType.UINT16: (0, (1 << 16) - 1),
    VarType.UINT32: (0, (1 << 32) - 1),
    VarType.UINT64: (0, (1 << 64) - 1),
}
_PLAIN: Final = [kind for kind in VarType if kind not in {VarType.MAP, VarType.LIST}]


def sentence(rng: random.Random, median: int = 60) -> str:
    """A text of about so many bytes, now and then in Chinese."""
    size = max(8, min(600, int(median * rng.lognormvariate(0.0, 0.6))))
    if rng.random() < 0.15:
        return "".join(rng.choices(_CHINESE, k=size // 3))
    return " ".join(rng.choices(_WORDS, k=max(1, size // 6)))


def blob(rng: random.Random, median: int = 60, most: int = 20_000) -> bytes:
    """Bytes of a game's or a device's own making."""
    return rng.randbytes(max(1, min(most, int(median * rng.lognormvariate(0.0, 0.7)))))


def topics(rng: random.Random) -> tuple[str, ...]:
    """What a phone subscribes to."""
    return tuple(rng.sample(_TOPICS, rng.randint(1, 4)))


def value(rng: random.Random, depth: int = 0) -> Var:
    """A value of any type that ESNP has."""
    kind = rng.choice(list(VarType) if depth < 2 else _PLAIN)
    return Var(type=kind, value=_of(kind, rng, depth))


def _of(kind: VarType, rng: random.Random, depth: int) -> object:
    match kind:
        case VarType.NULL:
            return None
        case VarType.BOOL:
            return rng.random() < 0.5
        case VarType.FLOAT32:
            return rng.randint(-4096, 4096) / 16
        case VarType.FLOAT64:
            return rng.uniform(-1e6, 1e6)
        case VarType.LEN_BYTES:
            return blob(rng, 16, 64)
        case VarType.LEN_STRING:
            return sentence(rng, 20)
        case VarType.MAP:
            return tuple((f"k{n}", value(rng, depth + 1)) for n in range(rng.randint(0, 3)))
        case VarType.LIST:
            return tuple(value(rng, depth + 1) for _ in range(rng.randint(0, 3)))
        case _:
            return rng.randint(*_RANGES[kind])
