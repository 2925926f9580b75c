"""A hub with a service that streams: a program that tests start.

python -m tests.hub_raw.streaming_hub CONFIG DATA
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from functools import partial

from wirelake.hub.config import load_config
from wirelake.hub.rpc.services import ServiceError, Services
from wirelake.hub.run import run_hub

services = Services()


@services.service("stream", "count", tny=2001, magline=0x2001)
async def count(to: int) -> AsyncIterator[dict[str, int]]:
    """Counts, an item at a time."""
    for number in range(1, to + 1):
        yield {"n": number}
        await asyncio.sleep(0)


@services.service("stream", "broken")
async def broken() -> AsyncIterator[dict[str, int]]:
    """Fails on the way."""
    yield {"n": 1}
    raise ServiceError("no more of this")


if __name__ == "__main__":
    config, data = sys.argv[1:]
    run_hub(load_config(config), data, services, print_line=partial(print, flush=True))
