"""Coloring rules of Wireshark for protocols that the dissector of `lua.py` shows.

One colour for each protocol, and two that stand out: for faults, and for responses that failed. The
first rule that matches a packet counts, so these two come first. Wireshark's own rule for packets
that TCP had trouble with still applies: rules of protocols leave such packets out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..protocol import Protocol

__all__ = ["PREFIX", "coloring_rules"]

PREFIX: Final = "Wirelake: "
"""How the names of these rules begin."""
PALETTE: Final = (0x3B6FD4, 0xD1741A, 0x2E9E6B, 0xA457BD, 0xC8525F, 0x1B93A7, 0x9B7A2C, 0x7B838E)
"""Colours of protocols, those of the report's light theme, in the order of the protocols."""
_TEXT: Final = 0x1C2128
_WHITE: Final = 0xFFFFFF
_RED: Final = 0xC8403F
_TINT: Final = 0.22
"""Share of a colour in a background, the rest is white: dark text on it has a contrast above 7."""


def coloring_rules(protocols: Sequence[Protocol]) -> str:
    """Return the rules, as lines of a file that Wireshark imports."""
    rules = [
        _rule("faults", "wirelake.fault or wirelake.gap", _RED, _WHITE),
        _rule("failed calls", "wirelake.failed", _WHITE, _RED),
    ]
    for number, protocol in enumerate(protocols):
        colour = _mixed(PALETTE[number % len(PALETTE)])
        own = f"wirelake.{protocol.name} and not tcp.analysis.flags"
        rules.append(_rule(protocol.name, own, colour, _TEXT))
    return "".join(rules)


def _rule(name: str, filter_: str, background: int, text: int) -> str:
    return f"@{PREFIX}{name}@{filter_}@{_wide(background)}{_wide(text)}\n"


def _wide(colour: int) -> str:
    """Return a colour with 16 bits for each part."""
    return "[" + ",".join(str((colour >> shift & 0xFF) * 0x101) for shift in (16, 8, 0)) + "]"


def _mixed(colour: int) -> int:
    parts = (colour >> shift & 0xFF for shift in (16, 8, 0))
    red, green, blue = (round(0xFF - _TINT * (0xFF - part)) for part in parts)
    return red << 16 | green << 8 | blue
