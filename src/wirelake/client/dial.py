"""How a connection is made, and how long to wait before the next attempt."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from typing import Final

from .comet import CometLine
from .connection import Line, Owner
from .errors import ConnectionLost, Refused
from .esnp import EsnpLine
from .magline import MaglineLine
from .settings import Settings
from .tny import TnyLine

__all__ = ["LINES", "Backoff", "dial"]

LINES: Final[dict[str, type[Line]]] = {
    "esnp": EsnpLine,
    "tny": TnyLine,
    "magline": MaglineLine,
    "comet": CometLine,
}
"""The line of each protocol."""

_STEADY_S: Final = 5.0
"""A connection that held as long was a good one: waits begin anew after it. One that is thrown
out at once, because somebody else signs on as the same client, waits longer each time."""


class Backoff:
    """Waits that double, up to a limit; up to half of each is left to chance."""

    def __init__(self, first_s: float, most_s: float):
        self._first = first_s
        self._most = most_s
        self._attempt = 0
        self._skip = False

    def next(self) -> float:
        """How long to wait now."""
        if self._skip:
            self._skip = False
            return 0.0
        wait = min(self._first * 2.0 ** min(self._attempt, 60), self._most)
        self._attempt += 1
        return wait * random.uniform(0.5, 1.0)

    def lived(self, seconds: float) -> None:
        """A connection held as long."""
        if seconds >= _STEADY_S:
            self._attempt = 0

    def at_once(self) -> None:
        """The next attempt need not wait."""
        self._skip = True


async def dial(settings: Settings, owner: Owner, previous: Line | None) -> Line:
    """A connection to the server, before anything is said; ClientError says why there is none."""
    where = settings.where
    line = LINES[where.protocol](settings, owner, previous)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(settings.connect_timeout_s):
            await loop.create_connection(lambda: line, where.host, where.port, ssl=settings.tls)
    except ssl.SSLCertVerificationError as error:
        raise Refused("tls", f"{where.place}: {error.verify_message}") from error
    except TimeoutError as error:
        raise ConnectionLost(f"{where.place}: no connection in time") from error
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ConnectionLost(f"{where.place}: {why}") from error
    return line
