"""Several processes read the same rows as one, and end as they should, whatever happens.

Most tests run the workers as threads, which start at once; a few run real processes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wirelake.columnar.read import parallel
from wirelake.columnar.read import parallel as workers
from wirelake.columnar.read.parallel import read_parallel, read_windows
from wirelake.columnar.read.reader import TABLES, ReadOptions, read_batches, table_schema
from wirelake.traffic import simulate

pytestmark = pytest.mark.slow

SOURCES = str(Path(__file__).parents[2] / "src")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Captures of every protocol, with faults."""
    folder = tmp_path_factory.mktemp("traffic")
    simulate(folder, size=300_000, seed=8, faults=0.01, jobs=1)
    return sorted(str(path) for path in folder.glob("*.pcap*"))


class Thread:
    """A thread in the place of a process."""

    exitcode = None

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], daemon: bool):
        self._thread = threading.Thread(target=target, args=args, daemon=daemon)

    def start(self) -> None:
        """As of a process. The reader closes its copy of the pipe; the thread keeps the pipe."""
        pipe = self._thread._args[0]  # type: ignore[attr-defined]
        mine = multiprocessing.connection.Connection(os.dup(pipe.fileno()), readable=False)
        self._thread._args = (mine, *self._thread._args[1:])  # type: ignore[attr-defined]
        self._thread.start()

    def terminate(self) -> None:
        """A thread cannot be."""

    def join(self) -> None:
        """A thread that nobody reads any more ends when its pipe is closed."""

    def close(self) -> None:
        """As of a process."""


class Threads:
    """Makes them."""

    Process = Thread
    Pipe = staticmethod(multiprocessing.Pipe)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are threads, of which one works at a time: kernels are not for several."""
    lock = threading.Lock()
    sent = workers._sent

    def one_at_a_time(*args: Any) -> Iterator[Any]:
        windows = sent(*args)
        while True:
            with lock:
                window = next(windows, None)
                items = None if window is None else list(window)
            if items is None:
                return
            yield items

    monkeypatch.setattr(workers, "_sent", one_at_a_time)
    monkeypatch.setattr(workers.multiprocessing, "get_context", lambda _: Threads)
    monkeypatch.setattr(os, "_exit", sys.exit)


def key(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=repr)


def rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


# -- the same rows ---------------------------------------------------------------------------

CHOICES: dict[str, list[dict[str, Any]]] = {
    "messages": [
        {},
        {"protocol": "comet"},
        {"filter": 'kind == "push" or tny.message.code > 100'},
        {"columns": ("name", "comet.auth.client_id", "esnp"), "filter": 'direction == "c2s"'},
        {"reveal": True, "protocol": "magline", "columns": ("ts_ns", "magline.syn")},
    ],
    "packets": [{}, {"filter": "payload_bytes > 0", "columns": ("offset", "connection")}],
    "faults": [{}, {"filter": "connection is null"}, {"protocol": "esnp"}],
    "coverage": [{}, {"protocol": "tny"}],
    "calls": [{}, {"filter": "latency_ns > 5ms", "columns": ("target", "latency_ns")}],
    "deliveries": [{}],
    "connections": [{}, {"filter": "faults > 0"}],
    "tunnels": [{}],
}
OPTIONS = [(table, choice) for table, choices in CHOICES.items() for choice in choices]


def test_every_table_is_tried() -> None:
    assert set(CHOICES) == set(TABLES)


@pytest.mark.usefixtures("threads")
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    option=st.sampled_from(OPTIONS),
    jobs=st.integers(2, 6),
    window_bytes=st.sampled_from([20_000, 50_000, 1 << 20]),
)
def test_any_number_of_jobs_gives_the_rows_of_one(
    files: list[str], option: tuple[str, dict[str, Any]], jobs: int, window_bytes: int
) -> None:
    table, choice = option
    options = ReadOptions(table=table, window_bytes=window_bytes, **choice)
    batches = list(read_parallel(files, options, jobs=jobs, small_bytes=0))
    schema = table_schema(options)
    assert all(batch.schema.equals(schema) for batch in batches)
    one, several = rows(read_batches(files, options)), rows(iter(batches))
    assert one
    assert sorted(map(key, several)) == sorted(map(key, one))
    if "connection" in schema.names and "ts_ns" in schema.names:
        assert by_stream(several) == by_stream(one)


def by_stream(found: list[dict[str, Any]]) -> dict[Any, list[dict[str, Any]]]:
    streams: dict[Any, list[dict[str, Any]]] = {}
    for row in found:
        if row["connection"] is not None:
            streams.setdefault((row["connection"], row["direction"]), []).append(row)
    return streams


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("table", ["messages", "packets", "calls", "faults"])
def test_faults_are_returned_with_any_table(files: list[str], table: str, jobs: int) -> None:
    result: list[str] = []
    options = ReadOptions(table=table, filter="connection == 1")
    found = read_parallel(
        files,
        options,
        jobs=jobs,
        small_bytes=0,
        on_faults=lambda batch: result.extend(batch.column("code").to_pylist()),
    )
    assert rows(found) == []
    wanted = rows(read_batches(files, ReadOptions(table="faults")))
    assert sorted(result) == sorted(row["code"] for row in wanted)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("table", ["messages", "calls"])
def test_messages_are_counted_whatever_the_filter(files: list[str], table: str, jobs: int) -> None:
    counts: list[int] = []
    options = ReadOptions(table=table, filter="connection == 1")
    read = read_windows(files, options, jobs=jobs, small_bytes=0, on_messages=counts.append)
    assert [batch for window in read for batch in window] == []
    assert sum(counts) == len(rows(read_batches(files, ReadOptions()))) > 0


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("jobs", [1, 3])
def test_windows(files: list[str], jobs: int) -> None:
    options = ReadOptions(window_bytes=20_000)
    found = [list(each) for each in read_windows(files, options, jobs=jobs, small_bytes=0)]
    assert len(found) > 10
    whole = rows(read_batches(files, options))
    assert sum(batch.num_rows for window in found for batch in window) == len(whole)


# -- progress, and when it is worth it -------------------------------------------------------


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("table", ["messages", "calls"])
def test_progress(files: list[str], table: str, jobs: int) -> None:
    result: list[tuple[int, int]] = []
    options = ReadOptions(table=table, window_bytes=20_000)
    progress = lambda done, total: result.append((done, total))  # noqa: E731
    rows(read_parallel(files, options, jobs=jobs, small_bytes=0, progress=progress))
    total = sum(os.path.getsize(file) for file in files)
    assert result == sorted(result)
    assert result[0][0] < total / 4
    assert result[-1] == (total, total)
    assert {of for _, of in result} == {total}


def test_small_captures_and_single_jobs_stay_here(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.multiprocessing, "get_context", None)
    total = sum(os.path.getsize(file) for file in files)
    assert total < parallel.SMALL_BYTES
    wanted = rows(read_batches(files))
    assert rows(read_parallel(files)) == wanted
    assert rows(read_parallel(files, jobs=5)) == wanted
    assert rows(read_parallel(files, jobs=5, small_bytes=total + 1)) == wanted
    assert rows(read_parallel(files, jobs=1, small_bytes=0)) == wanted
    with pytest.raises(TypeError):
        rows(read_parallel(files, jobs=3, small_bytes=total))


def test_jobs_are_counted(files: list[str]) -> None:
    with pytest.raises(ValueError, match="invalid jobs 0; expected 1 or more"):
        rows(read_parallel(files, jobs=0))


# -- what can go wrong -----------------------------------------------------------------------


def test_a_missing_file() -> None:
    with pytest.raises(FileNotFoundError):
        rows(read_parallel(["no/such.pcap"]))


@pytest.mark.usefixtures("threads")
def test_an_error_of_a_worker_is_raised_as_it_was(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = ReadOptions(table="calls")  # which a single worker reads, too
    with pytest.raises(IsADirectoryError) as raised:
        rows(read_parallel([*files, str(tmp_path)], calls, jobs=2, small_bytes=0))
    assert raised.value.filename == str(tmp_path)
    keys = tmp_path / "some.keys"
    keys.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"some\.keys, line 1"):
        rows(read_parallel(files, replace(calls, keys=[keys]), jobs=2, small_bytes=0))

    def fail(*_: object) -> Iterator[Any]:
        raise ZeroDivisionError("by zero")
        yield

    monkeypatch.setattr(workers, "open_windows", fail)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: by zero"):
        rows(read_parallel(files, calls, jobs=2, small_bytes=0))


# -- real processes --------------------------------------------------------------------------


def test_processes_return_the_same_rows_and_end(files: list[str]) -> None:
    options = ReadOptions(table="calls", window_bytes=100_000)
    found = rows(read_parallel(files, options, jobs=3, small_bytes=0))
    assert sorted(map(key, found)) == sorted(map(key, rows(read_batches(files, options))))
    assert multiprocessing.active_children() == []


def test_a_reader_that_stops_early_ends_the_workers(files: list[str]) -> None:
    options = ReadOptions(window_bytes=20_000)
    with closing(read_parallel(files, options, jobs=3, small_bytes=0)) as batches:  # type: ignore[type-var]
        assert next(batches).num_rows
        assert multiprocessing.active_children()
    assert multiprocessing.active_children() == []


def test_a_worker_that_is_killed(tmp_path: Path) -> None:
    fifo = tmp_path / "slow.pcap"
    os.mkfifo(fifo)

    def kill() -> None:
        with fifo.open("wb"):  # returns once the worker has opened it
            for child in multiprocessing.active_children():
                child.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(ChildProcessError, match="a worker ended early, with exit code -9"):
        rows(read_parallel([str(fifo)], jobs=3, small_bytes=0))
    killer.join()


PROGRAM = """
import sys
from wirelake.columnar.read.parallel import read_parallel
if __name__ == "__main__":
    try:
        list(read_parallel([sys.argv[1]], jobs=3, small_bytes=0))
    except KeyboardInterrupt:
        sys.exit(130)
"""


def heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [int(each) for each in found.split()]


def blocks_interrupts(pid: int) -> bool:
    """Whether an interrupt of the keyboard does nothing to a process."""
    sets = dict(
        line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
        if line.startswith(("SigBlk", "SigIgn"))
    )  # fmt: skip
    return any(int(each, 16) & 1 << signal.SIGINT - 1 for each in sets.values())


def test_an_interrupt_of_the_keyboard_ends_all(tmp_path: Path) -> None:
    fifo, program = tmp_path / "slow.pcap", tmp_path / "program.py"
    os.mkfifo(fifo)
    program.write_text(PROGRAM, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(program), str(fifo)],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCES},
        start_new_session=True,
        preexec_fn=heed_interrupts,  # noqa: PLW1509 - no other thread holds a lock here
    ) as process:
        assert process.stderr is not None
        with fifo.open("wb", buffering=0) as stream:
            deaf = [blocks_interrupts(each) for each in children(process.pid)]
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
            assert process.wait(60) == 130
            with pytest.raises(BrokenPipeError):
                stream.write(b"nobody is there")
        assert process.stderr.read() == b""
    assert deaf
    assert all(deaf)
