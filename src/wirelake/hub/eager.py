"""Coroutines that run at once, as far as they can, and become tasks only when they have to wait.

Reads of an embedded database never suspend. With `asyncio.create_task` each would still cost a
task and a turn of the event loop, and what a peer sent behind a sign-on would be handled before it.
"""

from __future__ import annotations

import asyncio
import logging
import types
from collections.abc import Coroutine, Generator
from typing import Any

__all__ = ["Background", "start"]

_log = logging.getLogger(__name__)


def start(
    work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop
) -> asyncio.Task[None] | None:
    """Run a coroutine until it waits for something; return a task for the rest, None at the end."""
    try:
        waits_for = work.send(None)
    except StopIteration:
        return None
    return loop.create_task(_rest(work, waits_for))


async def _rest(work: Coroutine[Any, Any, None], waits_for: Any) -> None:
    await _continue(work, waits_for)


@types.coroutine
def _continue(work: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    # What the coroutine waits for is passed on to the task, and what the task gets (a result, or
    # its cancellation) to the coroutine.
    while True:
        try:
            value = yield waits_for
        except BaseException as error:
            thrown: BaseException | None = error
        else:
            thrown = None
        try:
            waits_for = work.send(value) if thrown is None else work.throw(thrown)
        except StopIteration:
            return


class Background:
    """Work that nobody waits for; an exception is logged."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, at once as far as it can."""
        try:
            task = start(work, self._loop)
        except Exception:
            _log.exception("work in the background failed")
            return
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Cancel what still runs."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("work in the background failed", exc_info=task.exception())
