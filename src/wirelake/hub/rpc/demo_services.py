"""Demo services of `wirelake hub --demo`:

test/echo    tny 1001, magline 0x1001    returns what was sent
test/add     tny 1002, magline 0x1002    a, b; returns c, their sum
test/sleep   tny 1003, magline 0x1003    ms; answers after that many milliseconds
test/fail    tny 1004, magline 0x1004    always fails
"""

from __future__ import annotations

import asyncio
from typing import Final

from wirelake.protocols.esnp.layout import Data, Payload

from .services import (
    Call,
    Reply,
    ServiceError,
    Services,
)

__all__ = ["MAX_SLEEP_MS", "demo_services"]

MAX_SLEEP_MS: Final = 60_000
"""Maximum of `test/sleep`."""


def demo_services() -> Services:
    """Return a new set of the demo services."""
    services = Services()
    services.service("test", "echo", tny=1001, magline=0x1001)(_echo)
    services.service("test", "add", tny=1002, magline=0x1002)(_add)
    services.service("test", "sleep", tny=1003, magline=0x1003)(_sleep)
    services.service("test", "fail", tny=1004, magline=0x1004)(_fail)
    return services


_ECHOED: Final = frozenset({Data, Payload})


def _echo(call: Call) -> bytes | Reply:
    if call.protocol == "esnp":
        return Reply(rows=tuple([row for row in call.rows if type(row) in _ECHOED]))
    return call.body


def _add(a: int | float, b: int | float) -> dict[str, int | float]:
    return {"c": a + b}


async def _sleep(ms: int) -> dict[str, int]:
    if not 0 <= ms <= MAX_SLEEP_MS:
        raise ServiceError(f"ms: expected 0 to {MAX_SLEEP_MS}")
    await asyncio.sleep(ms / 1000)
    return {"ms": ms}


def _fail(call: Call) -> None:  # noqa: ARG001 - accepts anything
    raise ServiceError("failed on request")
