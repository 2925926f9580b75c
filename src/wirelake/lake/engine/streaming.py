"""Paces work by a stream: calls a function as captures come into a folder.

    follow(spark, "captures/", lambda up_to: advance(spark, lake, up_to), start={"tap-a": 7})

A Structured Streaming query over the table `files` says when, and up to which file of each source.
The work itself is done here, in the process that called, between two looks at the query. So it is
the same with a Spark in this process and with one at the other end of Spark Connect, and a signal
ends it between two steps.

The query remembers nothing from one run to the next: where to begin is told by whoever remembers
what was done, such as the log of a lake. A step that failed is therefore tried again by the
next run, and nothing can be done twice or be left out because a checkpoint and a lake disagree.
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

from ..datasource.offsets import cursors
from ..spark.errors import reason

__all__ = ["Batch", "StreamError", "follow"]

_LOOK_S: Final = 0.2
"""How often the query is looked at."""
_REMEMBERED: Final = "spark.sql.streaming.numRecentProgressUpdates"
_MOST_REMEMBERED: Final = "1000"
"""So many batches may be planned while a step is under way; more of them become one step."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StreamError(RuntimeError):
    """The query ended by itself; the message says why."""


class Batch(NamedTuple):
    """What the query has found."""

    number: int
    files: int | None
    """How many captures came with it; None when Spark does not say."""
    end: dict[str, int]
    """By source: the last sequence, of everything up to here."""
    latest: dict[str, int]
    """By source: how far it could go on."""


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
    seen: Callable[[Batch], None] = lambda _: None,
    **options: str,
) -> None:
    """Calls `step` with the last sequence of each source, again and again as captures come.

    It begins behind `start`. With `available_now` it returns when everything has been done that
    was there when it was called; otherwise it goes on until `until` says so, or a signal (INT or
    TERM) comes; the step that is under way is finished. What came while a step was under way is
    one step then, so that a slow step does not put off all others. `seen` is told of each batch
    before its step. Further options are those of the data source, such as `settle`.
    """
    reader = spark.readStream.format("wirelake").options(**options).option("table", "files")
    reader = reader.option("after", json.dumps(dict(start or {})))
    for name, most in (("maxFilesPerTrigger", max_files), ("maxBytesPerTrigger", max_bytes)):
        if most is not None:
            reader = reader.option(name, str(most))
    writer = reader.load(folder).writeStream.format("noop")
    if available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(trigger_s * 1000)} milliseconds")
    done = dict(start or {})
    with _signalled() as signalled, _started(spark, writer) as query:
        for batch in _batches(query, lambda: signalled() or until(), each=available_now):
            if batch.end != done:  # a query begins with a batch, even if there is nothing in it
                seen(batch)
                step(batch.end)
                done = batch.end


def _batches(query: Any, ended: Callable[[], bool], *, each: bool) -> Iterator[Batch]:
    """The batches of a query, in their order: each of them, or the newest when several wait.

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
            yield waiting.popleft() if each else waiting.pop()
            if not each:
                waiting.clear()
        elif active:
            time.sleep(_LOOK_S)
        else:
            _check(query)
            return


def _after(query: Any, number: int) -> list[Batch]:
    """The batches behind the one with this number."""
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
        raise StreamError(f"the stream ended: {reason(str(error))}") from error


@contextmanager
def _started(spark: SparkSession, writer: Any) -> Iterator[Any]:
    before = spark.conf.get(_REMEMBERED)
    spark.conf.set(_REMEMBERED, _MOST_REMEMBERED)
    try:
        query = writer.start()
    finally:
        if before is not None:
            spark.conf.set(_REMEMBERED, before)
    try:
        yield query
    finally:
        query.stop()


@contextmanager
def _signalled() -> Iterator[Callable[[], bool]]:
    """Whether a signal to end has come. The second one does what it always did."""
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came.is_set
        return
    before = {each: signal.getsignal(each) for each in _SIGNALS}

    def note(_: int, __: FrameType | None) -> None:
        came.set()
        restore()

    def restore() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    for each in _SIGNALS:
        signal.signal(each, note)
    try:
        yield came.is_set
    finally:
        restore()
