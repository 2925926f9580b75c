"""Runs the tny vectors: `run(vector, context)` raises VectorFailure when the code disagrees.

A vector of dialect `common` must hold in both dialects. `config` says what the receiver is
configured with and what must come out on the way (`packet_code`, `access_key_md5`). Every vector
starts a fresh connection; a number above 1 means that packets before it were lost, which is legal.
"""

from __future__ import annotations

from typing import Any

from ..expectation import (
    Context,
    Expect,
    Vector,
    VectorFailure,
)
from .vectors_connection import DIALECTS, Connection
from .vectors_errors import CLASSES, ERRORS
from .vectors_excuses import EXCUSES

__all__ = ["CLASSES", "ERRORS", "EXCUSES", "run"]


def run(raw: dict[str, Any], context: Context) -> None:
    """Checks one vector in each of its dialects."""
    vector = Vector(raw)
    dialects = DIALECTS[vector.top.text("dialect", DIALECTS)]
    config = Expect(vector.top.get("config", {}), "config")
    for dialect in dialects:
        try:
            Connection(vector, config, dialect, context).run()
        except VectorFailure as failure:
            raise VectorFailure(f"{failure} (dialect {dialect})") from None
    config.done()
    vector.done()
