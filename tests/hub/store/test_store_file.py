"""The database file: created completely, checked at the start, never replaced, and shrinking."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from wirelake.hub.config import StoreSettings
from wirelake.hub.errors import HubError
from wirelake.hub.store import StoreError, add_client, list_clients, open_store
from wirelake.hub.store.failures import LOG_S, Failures
from wirelake.hub.store.interface import (
    Append,
    Delete,
    RemoveAccount,
    SaveTransient,
    Subscribe,
    Unsubscribe,
)
from wirelake.hub.store.migrations import connect

_NAME = "hub.sqlite3"


def _open(folder: Path, **settings: Any) -> Any:
    return open_store(StoreSettings(**settings), folder, asyncio.get_running_loop())


def _start(folder: Path, **settings: Any) -> None:
    async def run() -> None:
        await _open(folder, **settings).close()

    asyncio.run(run())


def _fill(folder: Path, count: int, size: int = 1_000) -> None:
    with closing(connect(folder / _NAME)) as db:
        db.execute("BEGIN")
        db.executemany(
            "INSERT INTO log VALUES (?, 1, 0, 1, 4000000000000, NULL, ?)",
            ((number, b"filled" * (size // 6)) for number in range(1, count + 1)),
        )
        db.execute("COMMIT")


def _damage(path: Path, mark: bytes = b"filled") -> int:
    """Overwrite the pages of the log; return how many."""
    data = bytearray(path.read_bytes())
    pages = [at for at in range(0, len(data), 4096) if mark in data[at : at + 4096]]
    for at in pages:
        data[at : at + 4096] = b"\xff" * 4096
    path.write_bytes(data)
    return len(pages)


def test_a_new_file_is_complete_and_private(tmp_path: Path) -> None:
    _start(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [_NAME, f"{_NAME}.lock"]
    assert stat.S_IMODE((tmp_path / _NAME).stat().st_mode) == 0o600


def test_an_interrupted_creation_leaves_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr("wirelake.hub.store.migrations._run", fail)
        with pytest.raises(StoreError, match="disk I/O error"):
            add_client(tmp_path / _NAME, "ann")
    assert list(tmp_path.iterdir()) == []
    add_client(tmp_path / _NAME, "ann")


@pytest.mark.parametrize("use", [_start, lambda folder: add_client(folder / _NAME, "bob")])
def test_an_empty_file_is_refused_and_kept(tmp_path: Path, use: Any) -> None:
    add_client(tmp_path / _NAME, "ann")
    (tmp_path / _NAME).write_bytes(b"")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"empty \(0 bytes\); restore a backup, or delete"):
            use(tmp_path)
    assert (tmp_path / _NAME).stat().st_size == 0


@pytest.mark.parametrize("use", [_start, lambda folder: add_client(folder / _NAME, "bob")])
def test_the_database_of_another_program_is_refused_and_not_changed(
    tmp_path: Path, use: Any
) -> None:
    with closing(sqlite3.connect(tmp_path / _NAME)) as db:
        db.execute("CREATE TABLE music (title)")
    before = (tmp_path / _NAME).read_bytes()
    with pytest.raises(StoreError, match=r"not the database of a hub .*; restore a backup"):
        use(tmp_path)
    assert (tmp_path / _NAME).read_bytes() == before


def test_a_file_that_was_cut_is_damaged(tmp_path: Path) -> None:
    _start(tmp_path)
    _cut(tmp_path / _NAME)
    with pytest.raises(StoreError, match=r"is damaged \(.*malformed\); restore a backup"):
        _start(tmp_path)


def test_a_write_ahead_log_without_its_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{_NAME}-wal").write_bytes(b"changes")
    with pytest.raises(StoreError, match=r"no such file, but hub\.sqlite3-wal has changes"):
        _start(tmp_path)
    assert (tmp_path / f"{_NAME}-wal").read_bytes() == b"changes"


def _remove(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def _replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def _truncate(path: Path) -> None:
    os.truncate(path, 0)


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_remove, "No such file or directory; restore it, and restart the hub"),
        (_replace, "replaced while the hub runs; restart the hub"),
        (_truncate, "file is not a database; restart the hub"),
        (_cut, "malformed"),
    ],
)
def test_nothing_is_confirmed_when_the_file_is_removed_replaced_or_cut(
    tmp_path: Path, change: Any, said: str
) -> None:
    """Although SQLite itself does not notice: it has the file open, and pages in its caches."""
    path = tmp_path / _NAME
    _start(tmp_path)
    _fill(tmp_path, 200)

    async def run() -> None:
        store = _open(tmp_path)

        async def write(number: int) -> HubError | None:
            try:
                await store.execute(SaveTransient(number))
            except HubError as error:
                return error
            return None

        assert await write(0) is None
        change(path)
        for number in range(1, 3):
            error = await write(number)
            assert error is not None
            assert error.code == "storage_failed"
            assert said in await store.problem()
        await store.close()

    asyncio.run(run())
    assert path.exists() == (change is not _remove)


def test_a_file_that_another_process_made_smaller_is_checked_and_used(tmp_path: Path) -> None:
    _start(tmp_path)
    _fill(tmp_path, 2_000)

    async def run() -> None:
        store = _open(tmp_path)
        before = (await store.size()).database
        with closing(sqlite3.connect(tmp_path / _NAME)) as db:
            db.execute("DELETE FROM log")
            db.commit()
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert (await store.size()).database < before // 2
        await store.execute(SaveTransient(7))
        assert await store.problem() == ""
        await store.close()

    asyncio.run(run())


def test_a_damaged_file_is_reported_at_the_start(tmp_path: Path) -> None:
    _start(tmp_path)
    _fill(tmp_path, 200)
    assert _damage(tmp_path / _NAME) > 10
    with pytest.raises(StoreError, match=r"is damaged \(.+\); restore a backup, or salvage it"):
        _start(tmp_path)
    _start(tmp_path, check_s=0)


def test_a_list_of_clients_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    for number in range(200):
        add_client(tmp_path / _NAME, f"client-{number}")
    assert _damage(tmp_path / _NAME, b"client-150") > 0
    with pytest.raises(StoreError, match="malformed; restore a backup"):
        list_clients(tmp_path / _NAME)


def test_the_check_ends_when_its_time_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _start(tmp_path, check_s=0)
    add_client(tmp_path / _NAME, "ann")
    _start(tmp_path, check_s=1e-9)
    assert [record.message for record in caplog.records] == [
        f"{tmp_path / _NAME}: checked for 1e-09 s, not completely; see store.check_s"
    ]


def test_the_check_of_a_large_table_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Timer(threading.Thread):
        """Fires again and again: once might be between two statements."""

        def __init__(self, _: float, interrupt: Any):
            super().__init__(daemon=True)
            self._interrupt = interrupt
            self._ended = threading.Event()

        def run(self) -> None:
            while not self._ended.wait(1e-4):
                self._interrupt()

        def cancel(self) -> None:
            self._ended.set()

    _start(tmp_path, check_s=0)
    _fill(tmp_path, 20_000)
    monkeypatch.setattr("wirelake.hub.store.migrations.threading.Timer", Timer)
    _start(tmp_path)
    assert [record.message for record in caplog.records] == [
        f"{tmp_path / _NAME}: checked for 5 s, not completely; see store.check_s"
    ]


def test_free_pages_are_reused_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / _NAME

    async def run() -> None:
        store = _open(tmp_path)
        before = (await store.size()).database
        for _ in range(3):
            await _store_and_delete(store, 20_000)
        grown = await store.size()
        assert before < grown.database < 3 * 25_000_000
        assert grown.free > grown.database // 2
        more = True
        while more:
            done = asyncio.get_running_loop().create_future()
            store.shrink(done.set_result)
            more = await done
        after = await store.size()
        assert after.database < grown.database // 2
        assert after.database == path.stat().st_size
        await store.close()

    asyncio.run(run())


async def _store_and_delete(store: Any, count: int) -> None:
    made = await store.execute(Subscribe(0, "~1", ("@a",), ack=True, max_topics=1, allowance=count))
    numbers: list[int] = []
    for _ in range(count):
        store.write(
            Append("@a", None, b"x" * 1_000, 0, 1, 4_000_000_000_000),
            lambda result: numbers.append(result.number),
        )
    await store.execute(Unsubscribe(made.client, (made.rows[0].topic,)))
    await store.execute(Delete(tuple(numbers)))
    await store.execute(RemoveAccount("client", "~1"))


def test_a_file_of_an_older_version_is_made_shrinkable(tmp_path: Path) -> None:
    add_client(tmp_path / _NAME, "ann")
    with closing(connect(tmp_path / _NAME)) as db:
        db.execute("PRAGMA auto_vacuum = NONE")
        db.execute("VACUUM")
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    _start(tmp_path)
    with closing(connect(tmp_path / _NAME)) as db:
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert [row.id for row in list_clients(tmp_path / _NAME)] == ["ann"]


def test_a_page_that_cannot_be_read_is_an_error_of_every_read_and_stays(tmp_path: Path) -> None:
    async def run() -> None:
        _start_in(tmp_path)
        store = _open(tmp_path)
        assert await store.problem() == ""
        _damage(tmp_path / _NAME)
        with pytest.raises(HubError, match="cannot read the store"):
            await store.entries(list(range(1, 100)))
        assert "malformed" in await store.problem()
        assert "malformed" in await store.problem()  # although the probe succeeds
        assert store.failures.counts == {"read": 1}
        await store.close()

    def _start_in(folder: Path) -> None:
        add_client(folder / _NAME, "ann")
        _fill(folder, 200)

    asyncio.run(run())


def test_a_failure_is_logged_once_a_minute_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = 0.0
    failures = Failures(lambda: now)
    for _ in range(1_000):
        failures.failed("write", OSError("disk full"))
    assert [record.message for record in caplog.records] == ["cannot write the store: disk full"]
    assert failures.problem == "cannot write the store: disk full"
    assert failures.writing
    now += LOG_S
    failures.failed("write", OSError("disk full"))
    assert caplog.records[-1].message.endswith("disk full (999 more since the last message)")
    failures.succeeded("write")
    assert caplog.records[-1].message == "can write the store again"
    assert (failures.problem, failures.writing) == ("", False)
    failures.succeeded("write")
    assert len(caplog.records) == 3
    assert failures.counts == {"write": 1_001}
