"""Follow a folder with a Structured Streaming query: call a function as captures arrive.

    follow(spark, "captures/", lambda up_to: advance(lake, up_to), start={"tap-a": 7})

The query reads the table `files` and decides when to advance, and up to which file of each source.
The function runs in the calling process, between two polls of the query: not in foreachBatch, whose
function Spark Connect would run in the server. A signal ends it between two steps.

The query has no checkpoint that survives a run: the caller says where to start, from the log of the
lake. So a failed step is repeated by the next run, and nothing is done twice or left out because a
checkpoint and a lake disagree.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from ..datasource.paths import cursors
from ..spark.session import reason

__all__ = ["Batch", "StreamError", "follow"]

_POLL_S: Final = 0.2
"""Interval between polls of the query."""
_PROGRESS_UPDATES: Final = "spark.sql.streaming.numRecentProgressUpdates"
_MAX_PROGRESS_UPDATES: Final = "1000"
"""Batches that Spark remembers while a step runs."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StreamError(RuntimeError):
    """The query failed."""


class Batch(NamedTuple):
    """A batch of the query."""

    number: int
    files: int | None
    """Number of new captures; None if Spark does not report it (Spark Connect)."""
    end: dict[str, int]
    """Last sequence of the batch by source."""
    latest: dict[str, int]
    """Last sequence that is available, by source."""


def follow(
    spark: SparkSession,
    folder: str,
    step: Callable[[Mapping[str, int]], None],
    *,
    start: Mapping[str, int] | None = None,
    trigger_s: float = 10.0,
    available_now: bool = False,
    max_files: int | None = None,
    max_bytes: int | None = None,
    until: Callable[[], bool] = lambda: False,
    idle: Callable[[], None] = lambda: None,
    seen: Callable[[Batch], None] = lambda _: None,
    **options: str,
) -> None:
    """Call `step` with the last sequence of each source whenever captures arrive.

    Starts after `start`. With `available_now` it returns when everything that existed at the call
    is done; otherwise it runs until `until` returns true or SIGINT or SIGTERM arrives, and finishes
    the current step. All captures that arrive during a step become one step, so that a slow step
    does not delay all others. `idle` is called at each trigger without captures. `seen` is called
    with each batch before its step. Further options are those of the data source, such as `settle`.
    """
    reader = spark.readStream.format("wirelake").options(**options).option("table", "files")
    reader = reader.option("after", json.dumps(dict(start or {})))
    for name, most in (("maxFilesPerTrigger", max_files), ("maxBytesPerTrigger", max_bytes)):
        if most is not None:
            reader = reader.option(name, str(most))
    # The query only paces: rows are one for each file, and decoding happens in `step`.
    writer = reader.load(folder).writeStream.format("noop")
    if available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(trigger_s * 1000)} milliseconds")
    done = dict(start or {})
    waiting = _Idle(idle, trigger_s)
    with _stop_signal() as stopped, _started(spark, writer) as query:
        for batch in _batches(query, lambda: stopped() or until(), waiting, each=available_now):
            if batch.end != done:  # the first batch of a query may be empty
                seen(batch)
                step(batch.end)
                done = batch.end


class _Idle:
    """Calls a function at most once in an interval, while there is nothing else to do."""

    def __init__(self, function: Callable[[], None], interval_s: float):
        self._function = function
        self._interval_s = interval_s
        self._next_s = time.monotonic() + interval_s

    def __call__(self) -> None:
        if time.monotonic() >= self._next_s:
            self._function()
            self._next_s = time.monotonic() + self._interval_s


def _batches(
    query: Any, ended: Callable[[], bool], idle: Callable[[], None], *, each: bool
) -> Iterator[Batch]:
    """Yield the batches of a query in order: each of them, or only the newest.

    Raises StreamError when the query fails.
    """
    waiting: deque[Batch] = deque()
    last = -1
    while not ended():
        active = query.isActive
        for batch in _after(query, last):
            last = batch.number
            waiting.append(batch)
        if waiting:
            # An offset covers all earlier ones, so the newest batch stands for all that came during
            # a step.
            yield waiting.popleft() if each else waiting.pop()
            if not each:
                waiting.clear()
        elif active:
            idle()
            time.sleep(_POLL_S)
        else:
            _check(query)
            return


def _after(query: Any, number: int) -> list[Batch]:
    """Return the batches after the one with this number."""
    newest = query.lastProgress
    if newest is None or newest["batchId"] <= number:
        return []
    found = {each["batchId"]: _batch(each) for each in query.recentProgress}
    return [found[each] for each in sorted(found) if each > number]


def _batch(progress: Any) -> Batch:
    source = progress["sources"][0]
    return Batch(
        progress["batchId"],
        source["numInputRows"],
        cursors(_offset(source["endOffset"])),
        cursors(_offset(source["latestOffset"] or source["endOffset"])),
    )


def _offset(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
    return found


def _check(query: Any) -> None:
    error = query.exception()
    if error is not None:
        raise StreamError(f"stream failed: {reason(str(error))}") from error


@contextmanager
def _started(spark: SparkSession, writer: Any) -> Iterator[Any]:
    # The default of 100 would drop batches that arrive during a long step.
    before = spark.conf.get(_PROGRESS_UPDATES)
    spark.conf.set(_PROGRESS_UPDATES, _MAX_PROGRESS_UPDATES)
    try:
        query = writer.start()
    finally:
        if before is not None:
            spark.conf.set(_PROGRESS_UPDATES, before)
    try:
        yield query
    finally:
        query.stop()


@contextmanager
def _stop_signal() -> Iterator[Callable[[], bool]]:
    """Yield whether a signal to stop has arrived. The second one has its usual effect."""
    arrived = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield arrived.is_set
        return
    before = {each: signal.getsignal(each) for each in _SIGNALS}

    def note(_: int, __: FrameType | None) -> None:
        arrived.set()
        restore()

    def restore() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    for each in _SIGNALS:
        signal.signal(each, note)
    try:
        yield arrived.is_set
    finally:
        restore()
