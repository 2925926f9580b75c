"""Demo services of `wirelake hub --demo`:

test/echo    tny 1001, magline 0x1001    returns what was sent
test/add     tny 1002, magline 0x1002    a, b; returns c, their sum
test/sleep   tny 1003, magline 0x1003    ms; answers after that many milliseconds
test/fail    tny 1004, magline 0x1004    always fails
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from wirelake.protocols import registry
from wirelake.protocols.hub_calls import DEMO_OPERATIONS, DEMO_SERVICE

from .services import Call, Result, ServiceError, Services

__all__ = ["MAX_SLEEP_MS", "demo_services"]

MAX_SLEEP_MS: Final = 60_000
"""Maximum of `test/sleep`."""


def demo_services() -> Services:
    """Return a new set of the demo services."""
    services = Services()
    # Every protocol with numbers gets them for the demo services, also one of another package: its
    # binding names the first.
    bindings = registry.all_bindings()[0].items()
    first = {name: bound.demo_number for name, bound in bindings if bound.demo_number is not None}
    functions: tuple[Callable[..., Any], ...] = (_echo, _add, _sleep, _fail)
    for offset, (op, function) in enumerate(zip(DEMO_OPERATIONS, functions, strict=True)):
        numbers = {name: number + offset for name, number in first.items()}
        services.service(DEMO_SERVICE, op, thread=False, **numbers)(function)
    return services


def _echo(call: Call) -> Result:
    return call.echo


def _add(a: int | float, b: int | float) -> dict[str, int | float]:
    return {"c": a + b}


async def _sleep(ms: int) -> dict[str, int]:
    if not 0 <= ms <= MAX_SLEEP_MS:
        raise ServiceError(f"ms: expected 0 to {MAX_SLEEP_MS}")
    await asyncio.sleep(ms / 1000)
    return {"ms": ms}


def _fail(call: Call) -> None:  # noqa: ARG001 - accepts anything
    raise ServiceError("failed on request")
