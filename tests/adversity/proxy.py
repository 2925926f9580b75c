"""A TCP proxy that delays, splits, stalls and cuts connections."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

__all__ = ["FAIR", "Conditions", "Proxy"]

_CHUNK = 65_536


class Conditions(NamedTuple):
    """Faults that a proxy injects; times are upper bounds of random values."""

    delay_s: float = 0.0
    """Before a piece goes on."""
    pieces: int = _CHUNK
    """Bytes of a piece at most: what was sent at once arrives in several reads."""
    stall: float = 0.0
    """How likely a piece is to wait for `stall_s` first."""
    stall_s: float = 0.0
    cut_after: int = 0
    """Bytes, about, after which a connection is reset in the middle of whatever it carries; 0
    never cuts."""


FAIR = Conditions()
"""Everything goes through as it comes."""


class Proxy:
    """Listens on a free port and connects to the current `target`."""

    def __init__(self, target: Callable[[], tuple[str, int]], conditions: Conditions, seed: int):
        self.conditions = conditions
        self.cuts = 0
        self.stalls = 0
        self.carried = 0
        self._target = target
        self._random = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()
        self._taken_writers: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._within(asyncio.start_server(self._taken, "127.0.0.1", 0))
        self.address: tuple[str, int] = self._server.sockets[0].getsockname()[:2]

    def _within(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def stop(self) -> None:
        """Cut all connections and stop."""
        self._within(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        # The loop's own tasks are connections that are just being accepted: each gets its task.
        while under_way := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(under_way)
        # A task that was cancelled before its first step has closed nothing.
        await _reset(*self._taken_writers)

    # -- one connection ----------------------------------------------------------------------

    def _taken(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self._taken_writers.append(back)
        task = self._loop.create_task(self._carry(near, back))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            far, on = await asyncio.open_connection(*self._target())
        except (OSError, KeyError):
            await _reset(back)
            return
        allowed = self._allowance()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(near, on, allowed))
                both.create_task(self._pump(far, back, allowed))
        except* (OSError, _CutError):
            pass
        finally:
            await _reset(back, on)

    def _allowance(self) -> list[int]:
        """Return the bytes that a connection may carry before it is cut."""
        mean = self.conditions.cut_after
        return [self._random.randrange(1, 2 * mean) if mean else 1 << 62]

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, allowed: list[int]
    ) -> None:
        while data := await reader.read(_CHUNK):
            at = 0
            while at < len(data):
                at += await self._pass_on(data, at, writer, allowed)
        with suppress(OSError):
            writer.write_eof()

    async def _pass_on(
        self, data: bytes, at: int, writer: asyncio.StreamWriter, allowed: list[int]
    ) -> int:
        conditions, chance = self.conditions, self._random
        if conditions.delay_s:
            await asyncio.sleep(chance.uniform(0, conditions.delay_s))
        if conditions.stall and chance.random() < conditions.stall:
            self.stalls += 1
            await asyncio.sleep(chance.uniform(0, conditions.stall_s))
        size = min(len(data) - at, chance.randrange(1, conditions.pieces + 1), allowed[0])
        writer.write(data[at : at + size])
        await writer.drain()
        self.carried += size
        allowed[0] -= size
        if not allowed[0]:
            self.cuts += 1
            raise _CutError
        return size


class _CutError(Exception):
    """The connection is cut."""


async def _reset(*writers: asyncio.StreamWriter) -> None:
    # All are aborted before any is waited for: a task that is cancelled while it waits would
    # leave the others open.
    for writer in writers:
        writer.transport.abort()
    for writer in writers:
        with suppress(OSError):
            await writer.wait_closed()
