"""Group commit: batches, failures, and what a close still writes."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import Any

from wirelake.hub.config import StoreSettings
from wirelake.hub.errors import HubError
from wirelake.hub.store import open_store
from wirelake.hub.store.writer import insert


def _row(number: int, content: bytes = b"x") -> tuple[int, int, int, int, int, None, bytes]:
    return (number, 1, 0, 1, 4_000_000_000_000, None, content)


def _open(folder: Path) -> Any:
    return open_store(StoreSettings(), folder, asyncio.get_running_loop())


def test_what_is_asked_for_in_one_turn_is_one_batch_in_order(tmp_path: Path) -> None:
    async def run() -> None:
        store = _open(tmp_path)
        batches: list[list[Any]] = []
        done = asyncio.get_running_loop().create_future()
        store.appended = lambda tokens, error: batches.append([error, *tokens])
        for number in range(1, 1001):
            store.append(_row(number), number)
        store.when_written(done.set_result)
        assert await done is None
        assert batches == [[None, *range(1, 1001)]]
        assert sorted(number for _, number in store.index()) == list(range(1, 1001))
        await store.close()

    asyncio.run(run())


def test_a_batch_that_fails_fails_alone(tmp_path: Path) -> None:
    async def run() -> None:
        store = _open(tmp_path)
        result: list[tuple[list[str], str | None]] = []

        def appended(tokens: list[str], error: HubError | None) -> None:
            result.append((tokens, error and error.code))
            if len(result) == 3:
                finished.set_result(None)

        finished = asyncio.get_running_loop().create_future()
        store.appended = appended
        for at, (numbers, tokens) in enumerate((((1, 2), "ab"), ((3, 1), "cd"), ((4,), "e"))):
            for number, token in zip(numbers, tokens, strict=True):
                store.append(_row(number), token)
            await _until(lambda at=at: len(result) > at)  # type: ignore[misc]
        await finished
        assert result == [(["a", "b"], None), (["c", "d"], "storage_failed"), (["e"], None)]
        assert sorted(number for _, number in store.index()) == [1, 2, 4]
        await store.close()

    asyncio.run(run())


def test_the_writer_survives_an_error_that_is_not_of_the_database(tmp_path: Path) -> None:
    async def run() -> None:
        store = _open(tmp_path)
        results: list[str | None] = []

        def done(error: HubError | None) -> None:
            results.append(error and error.code)

        store.add_topic(1 << 64, "@too-large-a-number")  # OverflowError
        store.when_written(done)
        await _until(lambda: len(results) == 1)
        assert "too large" in store.problem()
        store.add_topic(1, "@news")
        store.when_written(done)
        await _until(lambda: len(results) == 2)
        assert results == ["storage_failed", None]
        assert store.topics() == [(1, "@news")]
        assert not store.problem()
        await store.close()

    asyncio.run(run())


def test_closing_writes_what_was_asked_for(tmp_path: Path) -> None:
    async def run() -> None:
        store = _open(tmp_path)
        result: list[Any] = []
        store.appended = lambda tokens, error: result.append((tokens, error))
        store.closing = lambda: store.append(_row(2), "at the end")
        store.append(_row(1), "before")
        await store.close()
        assert result == [(["before", "at the end"], None)]
        again = _open(tmp_path)
        assert sorted(number for _, number in again.index()) == [1, 2]
        await again.close()

    asyncio.run(run())


def test_a_loop_that_ends_without_closing_leaves_what_was_confirmed(tmp_path: Path) -> None:
    async def first() -> Any:
        store = _open(tmp_path)
        done = asyncio.get_running_loop().create_future()
        store.append(_row(1), 1)
        store.when_written(done.set_result)
        await done
        return store

    store = asyncio.run(first())
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("hub.sqlite3", "hub.sqlite3-wal"):
        (copy / name).write_bytes((tmp_path / name).read_bytes())

    async def second() -> list[tuple[int, int]]:
        again = _open(copy)
        found = list(again.index())
        await again.close()
        return found

    assert asyncio.run(second()) == [(1, 1)]
    store._writer._queue.put(None)
    store._writer._thread.join()
    store.close_reader()
    os.close(store._lock)


def test_statements_of_many_rows_take_every_count() -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("CREATE TABLE t (a, b)")
    for count in (0, 1, 2, 3, 255, 256, 257, 700):
        db.execute("DELETE FROM t")
        rows = [(number, str(number)) for number in range(count)]
        insert(db, ("INSERT INTO t VALUES ", 2, ""), rows)
        assert db.execute("SELECT * FROM t ORDER BY a").fetchall() == rows
    db.close()


async def _until(condition: Any) -> None:
    deadline = asyncio.get_running_loop().time() + 20
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.001)
