"""The plan of a run: how its size is shared among shards, sources, styles and scenarios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

from .scenes import provider
from .shard import Part, Shard

__all__ = ["STYLES", "SimulateError", "StyleChoice", "parse_size", "plan"]

StyleChoice: TypeAlias = Literal["recorder", "tcpdump", "both"]
"""The value of `--style`."""
STYLES: Final[tuple[str, ...]] = get_args(StyleChoice)
"""Every value of `--style`."""

_SHARD_BYTES: Final = 64 << 20
"""Maximum size of a shard: enough instances of each template, few enough to fit in memory."""
_MAX_BYTES: Final = 200 * 10**9
"""Maximum size of a run; ids are distinct up to there."""
_TEMPLATE_BYTES: Final = 48_000
"""Bytes of a small run per template: about two instances of an average scene."""
_MAX_TEMPLATES: Final = 48
"""Maximum templates per shard."""
_SOURCES: Final = 2
"""Sources per style; further shards are later half hours of the same sources."""
_MAX_FAULTS: Final = 0.01
"""A scene has about a hundred messages and at most one fault."""
_UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


class SimulateError(ValueError):
    """Invalid options, or a run that failed; the message says what is expected."""


def parse_size(text: str) -> int:
    """Parse a number of bytes with an optional unit: B, KB, MB or GB."""
    digits = text.strip().rstrip("BbKkMmGg")
    unit = text.strip()[len(digits) :].upper()
    try:
        size = float(digits) * _UNITS[unit]
    except (ValueError, KeyError):
        raise SimulateError(
            f"invalid size {text!r}; expected a number and KB, MB or GB, such as 200MB"
        ) from None
    if not 1 <= size < math.inf:
        raise SimulateError(f"invalid size {text!r}; expected at least 1 byte")
    return int(size)


def plan(
    *, size: int, seed: int, faults: float, protocols: Sequence[str], style: str
) -> list[Shard]:
    """Return the shards of a run. Raises SimulateError."""
    _check(size, faults, protocols, style)
    styles = ("recorder", "tcpdump") if style == "both" else (style,)
    count = math.ceil(size / _SHARD_BYTES)
    count = math.ceil(count / len(styles)) * len(styles)
    parts = _parts(protocols, min(_MAX_TEMPLATES, size // count // _TEMPLATE_BYTES))
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
    if not 1 <= size <= _MAX_BYTES:
        raise SimulateError(f"invalid size {size}; expected 1 byte to {_MAX_BYTES // 10**9} GB")
    if not 0.0 <= faults <= _MAX_FAULTS:
        raise SimulateError(f"invalid fault rate {faults}; expected 0 to {_MAX_FAULTS}")
    if style not in STYLES:
        raise SimulateError(f"unknown style {style!r}; expected one of {', '.join(STYLES)}")
    known = provider.names()
    if not protocols:
        raise SimulateError(f"no protocols; expected some of {', '.join(known)}")
    for name in protocols:
        if name not in known:
            raise SimulateError(f"unknown protocol {name!r}; expected one of {', '.join(known)}")


def _source(style: str, number: int) -> str:
    return f"{'edge' if style == 'recorder' else 'tap'}-{'ab'[number]}"


def _parts(protocols: Sequence[str], templates: int) -> tuple[Part, ...]:
    """Return the scenarios in which only these protocols are seen, each with its share."""
    try:
        fitting = provider.scenarios(protocols).values()
    except provider.ScenesError as error:
        raise SimulateError(str(error)) from error
    if not fitting:
        raise SimulateError(f"no scenario has only {', '.join(protocols)}")
    all_bytes = sum(each.byte_share for each in fitting)
    all_templates = sum(each.template_share for each in fitting)
    return tuple(
        Part(
            each.name,
            each.byte_share / all_bytes,
            max(1, round(templates * each.template_share / all_templates)),
        )
        for each in fitting
    )
