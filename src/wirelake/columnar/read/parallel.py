"""Captures as tables, read by several processes at once.

    for batch in read_parallel(["edge.pcapng"], ReadOptions(table="calls"), jobs=4):
        ...

Each worker scans all files, and decodes and folds its own share of the connections. All workers cut
the files into the same windows, so window n of the capture is window n of all workers together.
This process merges what concerns several connections, window by window. The rows are those of a
single process, and rows of one connection keep their order.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import accumulate
from multiprocessing.connection import Connection
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from wirelake.capture.processes import without_interrupts

from ..fold.capture_fold import WAITING, CaptureFold
from ..pipeline.pipeline import Item
from ..scan.live import LiveInputs
from ..tcp.frontend import WINDOW_BYTES
from .options import DERIVED, PLAIN, SMALL_BYTES, ReadOptions
from .reader import finished, merged, open_pipeline

__all__ = [
    "FILTERED",
    "SMALL_BYTES",
    "Faults",
    "Progress",
    "Workers",
    "open_windows",
    "read_live",
    "read_parallel",
    "read_windows",
]


_MOST_JOBS: Final = 16
"""Every worker scans every packet; beyond this, scanning costs more than sharing saves."""
_INFLATED: Final = 4
"""Assumed compression ratio of a capture, used only for progress."""
FILTERED: Final = frozenset(PLAIN) - {"faults"}
"""Tables whose rows the workers filter. `faults` are not: `on_faults` gets all of them."""
_DECODED: Final = "decoded"
"""The item with the number of messages of a window, in place of those that are not sent."""
_AHEAD: Final = 1
"""Windows that a worker decodes ahead of the reader."""
_BEGIN, _DONE, _END, _ERROR = "begin", "done", "end", "error"

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the approximate number of bytes read so far, and the total."""
Faults: TypeAlias = Callable[[pa.RecordBatch], None]
"""Called with batches of `faults`."""
_Packed: TypeAlias = list[tuple[str, bytes | pa.Buffer]]
"""The encoded items of a window."""


# -- workers ----------------------------------------------------------------------------------


def open_windows(
    files: Sequence[str] | LiveInputs, options: ReadOptions
) -> Generator[Iterable[Item]]:
    """Yield the windows of captures, in this process; with all faults, whatever the table."""
    yield from open_pipeline(files, options, also=("faults",)).windows()


class _Failure(msgspec.Struct, frozen=True):
    """An exception as it is sent: one of the classes that callers of `read_parallel` expect."""

    kind: str
    text: str
    errno: int | None = None
    filename: str | None = None

    @staticmethod
    def of(error: Exception) -> _Failure:
        """Describe an exception."""
        match error:
            case OSError():
                name = None if error.filename is None else os.fsdecode(error.filename)
                return _Failure("os", error.strerror or str(error), error.errno, name)
            case LookupError():
                return _Failure("lookup", str(error.args[0]) if error.args else "")
            case ValueError():
                return _Failure("value", str(error))
            case _:
                return _Failure("", f"{type(error).__name__}: {error}")

    def error(self) -> Exception:
        """Return the exception; OSError chooses its subclass by `errno`."""
        match self.kind:
            case "os":
                if self.errno is None:
                    return OSError(self.text)
                return OSError(self.errno, self.text, self.filename)
            case "lookup":
                return LookupError(self.text)
            case "value":
                return ValueError(self.text)
            case _:
                return RuntimeError(self.text)


class Workers:
    """A number of processes that read the same files."""

    def __init__(self, files: Sequence[str], options: ReadOptions, count: int):
        self._files = files
        self._options = options
        self._count = count
        self._workers: list[_Worker] = []

    def windows(self) -> Generator[Iterator[Item]]:
        """Yield the merged windows of all workers; each must be exhausted before the next.

        Raises what a worker raised. The workers end with the generator."""
        try:
            self._start()
            while self._has_window():
                yield self._window()
        finally:
            for worker in self._workers:
                worker.end()

    def _start(self) -> None:
        with without_interrupts():
            for share in range(self._count):
                options = replace(self._options, share=share, shares=self._count)
                self._workers.append(_Worker(self._files, options))

    def _has_window(self) -> bool:
        more = {worker.has_window() for worker in self._workers}
        if len(more) > 1:
            raise RuntimeError("workers cut the capture into different windows")
        return more.pop()

    def _window(self) -> Iterator[Item]:
        for worker in self._workers:
            yield from worker.items()


class _Worker:
    """A worker, seen from the parent."""

    def __init__(self, files: Sequence[str], options: ReadOptions):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(theirs, files, options), daemon=True)
        self._process.start()
        theirs.close()

    def has_window(self) -> bool:
        """Wait for the next window; False after the last."""
        return self._receive() == _BEGIN

    def items(self) -> Iterator[Item]:
        """Yield the items of the window."""
        while (table := self._receive()) != _DONE:
            data = self._bytes()
            yield table, _unpacked(table, data)

    def end(self) -> None:
        """Terminate the process."""
        self._process.terminate()
        self._process.join()
        self._process.close()
        self._pipe.close()

    def _receive(self) -> str:
        word = self._bytes().decode()
        if word == _ERROR:
            raise msgspec.msgpack.decode(self._bytes(), type=_Failure).error()
        return word

    def _bytes(self) -> bytes:
        try:
            return self._pipe.recv_bytes()
        except EOFError:
            self._process.join()
            raise ChildProcessError(
                f"a worker ended early, with exit code {self._process.exitcode};"
                " one process alone needs less memory"
            ) from None


# -- in the worker ---------------------------------------------------------------------------


def _work(pipe: Connection, files: Sequence[str], options: ReadOptions) -> None:
    """Run a worker process."""
    outbox: queue.Queue[_Packed | Exception | None] = queue.Queue(_AHEAD)
    sender = threading.Thread(target=_send, args=(pipe, outbox))
    sender.start()
    try:
        for items in _sent(open_windows(files, options), options):
            outbox.put([(table, _pack(found)) for table, found in items])
        outbox.put(None)
    except Exception as error:  # whatever it is, the reader raises it
        outbox.put(error)
    sender.join()


def _send(pipe: Connection, outbox: queue.Queue[_Packed | Exception | None]) -> None:
    try:
        while isinstance(window := outbox.get(), list):
            pipe.send_bytes(_BEGIN.encode())
            for table, data in window:
                pipe.send_bytes(table.encode())
                pipe.send_bytes(data)
            pipe.send_bytes(_DONE.encode())
        if window is None:
            pipe.send_bytes(_END.encode())
        else:
            pipe.send_bytes(_ERROR.encode())
            pipe.send_bytes(msgspec.msgpack.encode(_Failure.of(window)))
    except OSError:
        os._exit(1)  # nobody reads any more, and the other thread may wait for room in the outbox


def _sent(windows: Iterable[Iterable[Item]], options: ReadOptions) -> Iterator[Iterable[Item]]:
    """Yield windows without the rows and columns that the reader does not need.

    Derived tables are folded here, so that only final rows and what crosses connections is sent:
    to send every message would cost more than to fold it.
    """
    if options.table in DERIVED:
        fold = CaptureFold(options.table, share=options.share, shares=options.shares)
        for window in windows:
            items = list(window)
            yield [*_reported_items(items), *fold.window(items)]
        yield fold.finish()
    elif options.table in FILTERED:
        for window in windows:
            items = list(window)
            yield [*_reported_items(items), *_filtered(items, options)]
    else:
        yield from windows


def _reported_items(items: Iterable[Item]) -> Iterator[Item]:
    """Yield what is reported whatever the table: faults, and the number of messages."""
    count = 0
    for table, found in items:
        if table == "faults":
            yield table, found
        elif table == "messages":
            count += len(found)
    yield _DECODED, [count]


def _filtered(items: Iterable[Item], options: ReadOptions) -> Iterator[Item]:
    columns = options.columns
    wanted = None if columns is None else {path.partition(".")[0] for path in columns}
    for batch in finished(replace(options, columns=None), [items]):
        yield options.table, _selected(batch, wanted)


def _selected(batch: Any, wanted: Iterable[str] | None) -> pa.RecordBatch:
    """Return some columns of a batch, without the all-null structs of other protocols."""
    return batch.select(
        [
            field.name
            for field, column in zip(batch.schema, batch.columns, strict=True)
            if (wanted is None or field.name in wanted)
            and not (pa.types.is_struct(field.type) and column.null_count == len(column))
        ]
    )


def _pack(found: Any) -> bytes | pa.Buffer:
    if not isinstance(found, pa.RecordBatch):  # of WAITING and _DECODED
        return msgspec.msgpack.encode(found)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as writer:
        writer.write_batch(found)
    return sink.getvalue()


def _unpacked(table: str, data: bytes) -> Any:
    if table == _DECODED:
        return msgspec.msgpack.decode(data, type=list[int])
    if table == WAITING:
        return msgspec.msgpack.decode(data, type=dict[int, int])
    return pa.ipc.open_stream(data).read_next_batch()


# -- the reader -------------------------------------------------------------------------------


def read_parallel(
    paths: Iterable[str | os.PathLike[str]],
    options: ReadOptions | None = None,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
    on_faults: Faults | None = None,
    small_bytes: int = SMALL_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table, in batches of bounded size.

    `jobs` is the number of processes, this one included (default: one per processor); the others
    decode, this one merges. With one job, with two for a table of the pipeline, or with captures of
    less than `small_bytes`, everything happens in this process. `on_faults` gets all faults,
    whatever the table. Raises OSError when a file cannot be read, ValueError for invalid keys or
    dialects. Close the iterator to stop the workers early.
    """
    windows = read_windows(
        paths,
        options,
        jobs=jobs,
        progress=progress,
        on_faults=on_faults,
        small_bytes=small_bytes,
    )
    with closing(windows):
        for window in windows:
            yield from window


def read_windows(
    paths: Iterable[str | os.PathLike[str]],
    options: ReadOptions | None = None,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
    on_faults: Faults | None = None,
    on_messages: Callable[[int], None] | None = None,
    small_bytes: int = SMALL_BYTES,
) -> Generator[Iterator[pa.RecordBatch]]:
    """Yield the same rows window by window; each must be exhausted before the next. `on_messages`
    gets the number of messages that were decoded for the table, whatever the filter."""
    chosen = options or ReadOptions()
    files = [os.fspath(path) for path in paths]
    sizes = [os.path.getsize(path) for path in files]
    count = _jobs(jobs, sum(sizes), small_bytes)
    marks = _marks(files, sizes, chosen.window_bytes or WINDOW_BYTES)
    if count == 2 and chosen.table in PLAIN:
        # A single worker would decode what this process can: to start it, and to send its rows
        # here, took more time than writing them elsewhere saved (7.5 s of CPU for 2.3 million
        # messages, not 4.5). A fold takes longer than both.
        count = 1
    opened = (
        open_windows(files, chosen) if count == 1 else Workers(files, chosen, count - 1).windows()
    )
    with closing(opened):
        windows = _watched(opened, on_faults, progress, marks, on_messages)
        if count > 1 and chosen.table in FILTERED:
            chosen = replace(chosen, filter=None)
        if count > 1 and chosen.table in DERIVED:
            for batch in merged(chosen, windows):
                yield iter([batch])
        else:
            yield from _finished_windows(chosen, windows)


def read_live(
    inputs: LiveInputs,
    options: ReadOptions,
    *,
    on_faults: Faults | None = None,
    on_messages: Callable[[int], None] | None = None,
) -> Generator[Iterator[pa.RecordBatch]]:
    """Yield the rows of live inputs as they become final, a window at a time, in this process.

    They are the rows of a file with the same bytes. The inputs are closed with the iterator.
    """
    with closing(inputs), closing(open_windows(inputs, options)) as opened:
        windows = _watched(opened, on_faults, None, (), on_messages)
        yield from _finished_windows(options, windows, live=True)


def _finished_windows(
    options: ReadOptions, windows: Iterable[Iterable[Item]], *, live: bool = False
) -> Generator[Iterator[pa.RecordBatch]]:
    """Yield the rows of a table window by window; those of a derived one batch by batch."""
    if options.table in PLAIN:
        for window in windows:
            yield finished(options, [window])
    else:
        for batch in finished(options, windows, live=live):
            yield iter([batch])


def _jobs(wanted: int | None, size: int, small: int) -> int:
    if wanted is not None and wanted < 1:
        raise ValueError(f"invalid jobs {wanted}; expected 1 or more")
    if size < small:
        return 1
    return min(wanted or len(os.sched_getaffinity(0)), _MOST_JOBS)


# -- progress and faults ----------------------------------------------------------------------


def _watched(
    windows: Iterable[Iterable[Item]],
    on_faults: Faults | None,
    progress: Progress | None,
    marks: Sequence[int],
    on_messages: Callable[[int], None] | None = None,
) -> Iterator[Iterator[Item]]:
    for number, window in enumerate(windows):
        yield _reported(window, on_faults, on_messages)
        if progress is not None:
            progress(marks[min(number, len(marks) - 1)], marks[-1])


def _reported(
    window: Iterable[Item],
    on_faults: Faults | None,
    on_messages: Callable[[int], None] | None,
) -> Iterator[Item]:
    for table, found in window:
        if table == "faults" and on_faults is not None:
            on_faults(found)
        if table in ("messages", _DECODED) and on_messages is not None:
            on_messages(found[0] if table == _DECODED else len(found))
        if table != _DECODED:
            yield table, found


def _marks(files: Sequence[str], sizes: Sequence[int], window_bytes: int) -> list[int]:
    """Return the bytes read after each window, estimated from file sizes; finally the total."""
    steps: list[int] = []
    for file, size in zip(files, sizes, strict=True):
        length = size * _INFLATED if file.endswith((".gz", ".zst")) else size
        count = max(1, -(-length // window_bytes))
        steps += [size * (n + 1) // count - size * n // count for n in range(count)]
    return [*accumulate(steps), sum(sizes)]
