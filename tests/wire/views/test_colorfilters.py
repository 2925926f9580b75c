"""Coloring rules: their form, their order and their contrast. tshark judges the filters."""

from __future__ import annotations

import re

from wirelake.protocols.registry import BUILT_IN, find
from wirelake.wire.views.colorfilters import coloring_rules

_RULE = re.compile(r"@Wirelake: ([^@]+)@([^@]+)@\[(\d+),(\d+),(\d+)\]\[(\d+),(\d+),(\d+)\]")


def _luminance(parts: tuple[int, ...]) -> float:
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (part / 0xFFFF for part in parts)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_one_colour_per_protocol_after_what_is_wrong() -> None:
    rules = [
        _RULE.fullmatch(line) for line in coloring_rules([find(n) for n in BUILT_IN]).splitlines()
    ]
    found = [rule.groups() for rule in rules if rule is not None]
    assert [name for name, *_ in found] == ["faults", "failed calls", *BUILT_IN]
    assert len({tuple(colour) for _, _, *colour in found}) == len(found)


def test_text_is_readable() -> None:
    for line in coloring_rules([find(name) for name in BUILT_IN]).splitlines():
        rule = _RULE.fullmatch(line)
        assert rule is not None
        numbers = tuple(map(int, rule.groups()[2:]))
        lights = sorted((_luminance(numbers[:3]), _luminance(numbers[3:])))
        assert (lights[1] + 0.05) / (lights[0] + 0.05) > 4.5
