"""Alterations of magline vectors that no reader can notice, by name and with a reason.

`wirelake conform --mutate` changes a vector one leaf or one byte at a time, and the vector must
then fail. What is listed here is all that may pass.
"""

from __future__ import annotations

from typing import Any, Final

from ..expectation import Alteration, Excuse
from .protocol import PROTOCOL

__all__ = ["EXCUSES"]


def _one_outcome(raw: dict[str, Any], _: dict[str, Any], alteration: Alteration) -> bool:
    expect = raw["expect"]
    if alteration.path == ("expected_seq",):
        return expect.get("error") in ("bad_record", "bad_state")
    return alteration.path == ("resumption_secret",) and expect.get("error") == "session_unknown"


def _unknown_option(raw: dict[str, Any], altered: dict[str, Any], alteration: Alteration) -> bool:
    """Whether two frames differ only in what an unknown option holds."""
    if alteration.offset is None or "unknown_options" not in raw["expect"].get("fields", {}):
        return False
    one, other = (PROTOCOL.decode(bytes.fromhex(v["hex"])).message for v in (raw, altered))
    names = [name for name in one.__struct_fields__ if name != "unknown_options"]
    bits = [[bit for bit, _ in frame.unknown_options] for frame in (one, other)]
    return bits[0] == bits[1] and all(getattr(one, n) == getattr(other, n) for n in names)


EXCUSES: Final = (
    Excuse(
        "magline-one-outcome",
        "a frame that is refused anyway is refused alike for a wrong Seq or secret: by design the "
        "peer cannot tell",
        _one_outcome,
    ),
    Excuse(
        "magline-unknown-option-contents",
        "the vector names the bit of an unknown option, not what it holds",
        _unknown_option,
    ),
)
"""Alterations of magline vectors that no reader can notice."""
