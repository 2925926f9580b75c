"""The one line of a long error that says why."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["reason"]

_RAISED: Final = re.compile(r"[\w.]+(?:Error|Exception): (?P<said>.+)")


def reason(text: str) -> str:
    """What a Python traceback ends with; without one, the first line; empty when there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [found["said"] for line in lines if (found := _RAISED.fullmatch(line))]
    return said[-1] if said else "".join(lines[:1])
