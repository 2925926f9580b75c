"""What a run consists of: how its size is shared among shards, sources, styles and scenes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

from .scenes.template import SCENARIOS
from .shard import Part, Shard

__all__ = ["PROTOCOLS", "STYLES", "SimulateError", "StyleChoice", "parse_size", "plan"]

StyleChoice: TypeAlias = Literal["recorder", "tcpdump", "both"]
STYLES: Final[tuple[str, ...]] = get_args(StyleChoice)
PROTOCOLS: Final = ("comet", "esnp", "magline", "relay", "tny")
"""What can be simulated."""

_SHARD_BYTES: Final = 64 << 20
"""Of one shard, at most: enough casts of each mould, few enough to be held in memory."""
_MOST_BYTES: Final = 200 * 10**9
"""Of a run: ids are distinct up to there."""
_MOULD_BYTES: Final = 48_000
"""What a mould is worth in a small run: about two casts of an average scene."""
_MOULDS: Final = 48
"""Of one shard, at most."""
_SOURCES: Final = 2
"""Of each style; further shards are later half hours of the same sources."""
_SHARES: Final = {
    "phone": (1.0, 1.5),
    "sealed_phone": (0.12, 0.4),
    "service": (1.2, 1.2),
    "game": (0.7, 1.0),
    "gateway": (1.3, 0.6),
    "device": (0.4, 0.8),
    "link": (1.0, 1.0),
}
"""How the bytes are shared among scenes, and how the moulds are, relative to each other. Scenes of
many connections have few moulds: each is as much work as several of the others."""
_MOST_FAULTS: Final = 0.01
"""A scene has about a hundred messages and at most one fault."""
_UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


class SimulateError(ValueError):
    """A run that cannot be made; the message says what is possible."""


def parse_size(text: str) -> int:
    """Bytes, from a number with or without one of B, KB, MB and GB."""
    digits = text.strip().rstrip("BbKkMmGg")
    unit = text.strip()[len(digits) :].upper()
    try:
        size = float(digits) * _UNITS[unit]
    except (ValueError, KeyError):
        raise SimulateError(f"size {text!r}: wanted a number and KB, MB or GB, as 200MB") from None
    if not 1 <= size < math.inf:
        raise SimulateError(f"size {text!r}: wanted at least 1 byte")
    return int(size)


def plan(
    *, size: int, seed: int, faults: float, protocols: Sequence[str], style: str
) -> list[Shard]:
    """The shards of a run. SimulateError for what cannot be."""
    _check(size, faults, protocols, style)
    styles = ("recorder", "tcpdump") if style == "both" else (style,)
    count = math.ceil(size / _SHARD_BYTES)
    count = math.ceil(count / len(styles)) * len(styles)
    parts = _scenarios(protocols, min(_MOULDS, size // count // _MOULD_BYTES))
    return [
        Shard(
            number=n,
            seed=seed,
            source=_source(styles[n % len(styles)], n // len(styles) % _SOURCES),
            period=n // len(styles) // _SOURCES,
            size=size // count,
            parts=parts,
            style=styles[n % len(styles)],
            faults=faults,
        )
        for n in range(count)
    ]


def _check(size: int, faults: float, protocols: Sequence[str], style: str) -> None:
    if not 1 <= size <= _MOST_BYTES:
        raise SimulateError(f"size: wanted 1 byte to {_MOST_BYTES // 10**9} GB")
    if not 0.0 <= faults <= _MOST_FAULTS:
        raise SimulateError(f"faults: wanted a share of messages from 0 to {_MOST_FAULTS}")
    if style not in STYLES:
        raise SimulateError(f"no style {style!r}; there are {', '.join(STYLES)}")
    if not protocols:
        raise SimulateError(f"no protocol is named; there are {', '.join(PROTOCOLS)}")
    for name in protocols:
        if name not in PROTOCOLS:
            raise SimulateError(f"no protocol {name!r}; there are {', '.join(PROTOCOLS)}")


def _source(style: str, number: int) -> str:
    return f"{'edge' if style == 'recorder' else 'tap'}-{'ab'[number]}"


def _scenarios(protocols: Sequence[str], moulds: int) -> tuple[Part, ...]:
    """The scenes in which only these protocols are seen, each with its part of the run."""
    chosen = set(protocols)
    fitting = [name for name, (seen, _) in SCENARIOS.items() if chosen.issuperset(seen)]
    if "gateway" in fitting:
        fitting.remove("link")
    total, many = (sum(_SHARES[name][n] for name in fitting) for n in (0, 1))
    return tuple(
        Part(name, _SHARES[name][0] / total, max(1, round(moulds * _SHARES[name][1] / many)))
        for name in fitting
    )
