"""Processes that end at once, and silently, with the work of their parent.

A terminal sends SIGINT to all processes. The parent reports it, with one line and an exit code; the
others would print tracebacks, from their imports or from wherever else they are.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import resource_tracker

__all__ = ["process_pool", "without_interrupts"]


@contextlib.contextmanager
def process_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of spawned processes; an exception in the block terminates them.

    Spawned, because a fork would copy threads of pyarrow, of Spark and of the caller in an unknown
    state. So a script that uses it needs the usual `if __name__ == "__main__"`.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_end_on_interrupt) as pool:
        others = set(multiprocessing.active_children())
        try:
            with without_interrupts():
                pool.submit(int)  # the first task starts all processes
            yield pool
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Start processes in this block: SIGINT is blocked in them, and heeded here at its end.

    An interrupt between two steps of a start would leave a process without what it is to do.
    """
    # The first process that starts brings this one with it, which unblocks signals.
    resource_tracker.ensure_running()
    # Other threads of this process may still get the signal, and Python then calls the handler in
    # the main one: to block it is not enough.
    handler = signal.getsignal(signal.SIGINT)
    interrupts: list[int] = []
    is_deferred = callable(handler) and threading.current_thread() is threading.main_thread()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    if is_deferred:
        signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if is_deferred:
            signal.signal(signal.SIGINT, handler)
            if interrupts:
                signal.raise_signal(signal.SIGINT)


def _end_on_interrupt() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as in a background job
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
