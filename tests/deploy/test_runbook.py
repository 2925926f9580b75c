"""The runbook: its SQL with a real PostgreSQL, its commands with real files."""

from __future__ import annotations

import re
import shlex
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.docs.pages import blocks
from tests.hub.store.databases import Box, publish, subscribe
from tests.postgres_server import Server, hub_database, started_server

from wirelake.hub.store.interface import AddAccount
from wirelake.hub.store.opening import open_database
from wirelake.hub.store.postgres import PostgresDatabase

from .shipped import ROOT, options

PAGE = (ROOT / "docs" / "guides" / "runbook.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.slow


def statements() -> Iterator[tuple[str, str]]:
    """Every SQL statement, with the heading above it."""
    for each in blocks(PAGE):
        if each.language == "sql":
            for statement in "\n".join(each.lines).split(";"):
                if statement.strip():
                    yield each.heading, statement.strip()


def test_every_statement_is_executed() -> None:
    with started_server() as server:
        url = server.url(server.new_database())
        box = Box(lambda: PostgresDatabase(url))
        box.client("ann", "@a")
        box.published(publish("@a"))
        with psycopg.connect(url, autocommit=True) as connection:
            for _, statement in statements():
                cursor = connection.execute(statement)  # type: ignore[arg-type]
                assert cursor.statusmessage
        box.close()
    assert len(list(statements())) >= 10


def test_the_sizes_of_all_tables_are_shown() -> None:
    with hub_database() as url, psycopg.connect(url) as connection:
        [sizes] = [each for _, each in statements() if "pg_total_relation_size" in each]
        shown = {row[0] for row in connection.execute(sizes)}  # type: ignore[call-overload]
        made = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'wirelake'::regnamespace"
        )
        assert shown == {name for (name,) in made}
        assert {"log", "clients"} <= shown


def waiting(url: str) -> dict[str, list[int]]:
    """What sessions of hubs wait for, and who blocks them, as the runbook asks for it."""
    [query] = [each for _, each in statements() if "pg_blocking_pids" in each]
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query)  # type: ignore[call-overload]
        names = [each.name for each in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    return {
        each["wait_event"]: each["blocked_by"]
        for each in rows
        if each["application_name"] == "wirelake" and each["state"] == "active"
    }


def until_waiting(url: str, event: str) -> list[int]:
    """Ask until a session waits for this; return who blocks it."""
    gate = threading.Event()
    for _ in range(600):
        found = waiting(url)
        if event in found:
            return found[event]
        gate.wait(0.1)
    raise AssertionError(f"nobody waits for {event}")


def test_who_blocks_a_hub_is_found_and_ended() -> None:
    with hub_database() as url:
        database = PostgresDatabase(url)
        other = psycopg.connect(url)
        other.execute("SELECT * FROM wirelake.log_tail FOR UPDATE")
        results: list[object] = []
        thread = threading.Thread(
            target=lambda: results.extend(database.write([AddAccount("client", "ann", b"a", 0)]))
        )
        thread.start()
        blocked_by = until_waiting(url, "transactionid")
        assert blocked_by == [other.info.backend_pid]
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", blocked_by)
        thread.join(60)
        assert results == [1]
        other.close()
        database.close()


def test_commits_that_wait_for_a_lost_standby_are_released() -> None:
    with started_server() as primary, primary.standby() as standby:
        url = primary.url(primary.new_database())
        with closing(PostgresDatabase(url)) as database:
            database.write([AddAccount("client", "ann", b"a", 0), subscribe(1, "@a")])
            standby.stop()
            results: list[object] = []
            thread = threading.Thread(
                target=lambda: results.extend(database.write([publish("@a")]))
            )
            thread.start()
            until_waiting(url, "SyncRep")
            assert not results
            release(primary)
            thread.join(60)
            assert len(results) == 1


def release(primary: Server) -> None:
    """Do what the runbook says about a standby that is gone."""
    said = [each for heading, each in statements() if heading.endswith("failed over")]
    for statement in said:
        if statement.startswith("ALTER SYSTEM") or "pg_reload_conf" in statement:
            primary.execute(statement)


# -- backups of SQLite -----------------------------------------------------------------------------


def backups() -> list[str]:
    """The commands that copy an SQLite store."""
    found = [
        line
        for each in blocks(PAGE)
        if each.language == "sh"
        for line in each.lines
        if "copy.sqlite3" in line and "hub.sqlite3" in line and "install" not in line
    ]
    assert len(found) == 3
    return found


@pytest.mark.parametrize("command", backups(), ids=["backup", "vacuum", "python"])
def test_a_copy_that_was_made_while_the_hub_writes_can_be_restored(
    command: str, tmp_path: Path
) -> None:
    file = tmp_path / "hub.sqlite3"
    box = Box(lambda: open_database(file))
    box.client("ann", "@a")
    confirmed = box.published(*(publish("@a", b"before") for _ in range(500)))
    stop, begun = threading.Event(), threading.Event()
    after: list[int] = []

    def write() -> None:
        other = Box(lambda: open_database(file))
        while not stop.is_set():
            after.extend(other.published(publish("@a", b"meanwhile")))
            begun.set()
        other.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert begun.wait(60)
        subprocess.run(shlex.split(command), cwd=tmp_path, check=True, timeout=60)
    finally:
        stop.set()
        thread.join()
    box.close()
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"hub.sqlite3{suffix}").unlink(missing_ok=True)
    (tmp_path / "copy.sqlite3").rename(file)
    with closing(sqlite3.connect(file)) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    restored = Box(lambda: open_database(file))
    stored = restored.stored(restored.topic("@a"))
    assert stored[: len(confirmed)] == confirmed
    # A moment of the time of the copy: a prefix of what was published meanwhile.
    assert stored[len(confirmed) :] == after[: len(stored) - len(confirmed)]
    assert restored.published(publish("@a"))[0] > stored[-1]
    restored.close()


# -- commands --------------------------------------------------------------------------------------


def test_commands_of_wirelake_are_valid() -> None:
    lines = [line for each in blocks(PAGE) if each.language == "sh" for line in each.lines]
    named = re.findall(r"`(wirelake [a-z]+ [^`]*)`", PAGE) + [
        line for line in lines if line.startswith("wirelake ")
    ]
    checked = [shlex.split(each)[1:] for each in named if " --" in each]
    assert len(checked) >= 2
    for words in checked:
        options(words)


def test_links_to_sections_of_this_page_exist() -> None:
    headings = {
        re.sub(r"[^\w -]", "", each).lower().replace(" ", "-")
        for each in re.findall(r"(?m)^#+ (.*)$", PAGE)
    }
    targets = set(re.findall(r"\]\(#([\w-]+)\)", PAGE))
    assert len(targets) > 5
    assert targets <= headings
