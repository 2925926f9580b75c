"""Group commit: batches, failures, and what a close still writes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from wirelake.hub.config import StoreSettings
from wirelake.hub.errors import HubError
from wirelake.hub.store import open_store
from wirelake.hub.store.interface import Operation, SaveTransient, SetChecks
from wirelake.hub.store.sqlite import SqliteDatabase, insert


def _open(folder: Path) -> Any:
    return open_store(StoreSettings(), folder, asyncio.get_running_loop())


def test_what_is_asked_for_in_one_turn_is_one_batch_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        store = _open(tmp_path)
        batches: list[Sequence[Operation[Any]]] = []
        write = SqliteDatabase.write

        def watched(self: SqliteDatabase, operations: Sequence[Operation[Any]]) -> list[Any]:
            batches.append(operations)
            return write(self, operations)

        monkeypatch.setattr(SqliteDatabase, "write", watched)
        results: list[int] = []
        finished: list[int] = []
        store.finished = lambda: finished.append(len(results))
        for number in range(1, 1001):
            store.write(SaveTransient(number), lambda _, n=number: results.append(n))
        await store.execute(SaveTransient(1001))
        assert [len(each) for each in batches] == [1001]
        assert results == list(range(1, 1001))
        assert await store.last_transient() == 1001
        await asyncio.sleep(0)
        assert finished == [1000]
        await store.close()

    asyncio.run(run())


def test_a_batch_that_fails_fails_alone(tmp_path: Path) -> None:
    async def run() -> None:
        store = _open(tmp_path)
        results: list[Any] = []
        broken: Any = SetChecks(((1, 2),))  # type: ignore[arg-type]
        for at, batch in enumerate(
            ((SaveTransient(1), SaveTransient(2)), (SaveTransient(3), broken), (SaveTransient(4),))
        ):
            for operation in batch:
                store.write(operation, results.append)
            await _until(lambda at=at: len(results) >= (2, 4, 5)[at])  # type: ignore[misc]
        codes = [each and each.code for each in results]
        assert codes == [None, None, "storage_failed", "storage_failed", None]
        assert await store.last_transient() == 4
        assert await store.problem() == ""
        await store.close()

    asyncio.run(run())


def test_an_error_that_is_not_of_the_database_fails_the_batch(tmp_path: Path) -> None:
    async def run() -> None:
        store = _open(tmp_path)
        with pytest.raises(HubError) as refused:
            await store.execute(SaveTransient(1 << 64))  # OverflowError
        assert refused.value.code == "storage_failed"
        assert "too large" in await store.problem()
        await store.execute(SaveTransient(1))
        assert await store.problem() == ""
        await store.close()

    asyncio.run(run())


def test_a_callback_that_raises_does_not_keep_the_others_from_theirs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        store = _open(tmp_path)

        def fail(_: object) -> None:
            raise ValueError("a mistake")

        store.write(SaveTransient(1), fail)
        await store.execute(SaveTransient(2))
        await store.close()

    asyncio.run(run())
    assert "a callback of the store raised an exception" in caplog.text


def test_closing_writes_what_was_asked_for(tmp_path: Path) -> None:
    async def run() -> None:
        store = _open(tmp_path)
        results: list[Any] = []
        store.closing = lambda: store.write(SaveTransient(2), results.append)
        store.write(SaveTransient(1), results.append)
        await store.close()
        assert results == [None, None]
        again = _open(tmp_path)
        assert await again.last_transient() == 2
        await again.close()

    asyncio.run(run())


def test_a_loop_that_ends_without_closing_leaves_what_was_confirmed(tmp_path: Path) -> None:
    async def first() -> Any:
        store = _open(tmp_path)
        await store.execute(SaveTransient(1))
        return store

    store = asyncio.run(first())
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("hub.sqlite3", "hub.sqlite3-wal"):
        (copy / name).write_bytes((tmp_path / name).read_bytes())

    async def second() -> int:
        again = _open(copy)
        found: int = await again.last_transient()
        await again.close()
        return found

    assert asyncio.run(second()) == 1
    store._writer._queue.put(None)
    store._writer._thread.join()
    for reader in store._readers:
        reader.close()
    store._released()


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
