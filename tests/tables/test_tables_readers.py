"""Readers beside a writer: whatever it does at that moment, they see one commit, and all of it."""

from __future__ import annotations

import threading
from pathlib import Path

from wirelake.tables.log import Log
from wirelake.tables.maintenance import compact_with
from wirelake.tables.parquet import table
from wirelake.tables.query import open_lake
from wirelake.tables.writer import Writer

from .made_lakes import add_rows, call

COMMITS = 12


def write(lake: Path, failed: list[BaseException]) -> None:
    """Replaces everything in two tables again and again; each commit has rows of one kind."""
    try:
        with Writer(lake) as writer:
            for number in range(COMMITS):
                with writer.begin() as step:
                    for name in ("calls", "connections"):
                        for each in writer.snapshot.files(name):
                            step.remove(each.path)
                    for part in range(3):
                        add_rows(step, "calls", [call(number)] * 2, f"part-{part}")
                    add_rows(step, "connections", [{"connection": number, "first_ns": 1}])
                    step.commit("advance")
                if number % 4 == 3:
                    compact_with(writer)
    except BaseException as error:
        failed.append(error)
        raise


def test_readers_see_whole_commits(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with Writer(lake, create={}) as writer, writer.begin() as step:
        add_rows(step, "calls", [call(0)] * 6)
        add_rows(step, "connections", [{"connection": 0, "first_ns": 1}])
        step.commit("advance")
    failed: list[BaseException] = []
    thread = threading.Thread(target=write, args=(lake, failed))
    thread.start()
    seen: set[int] = set()
    while thread.is_alive():
        with open_lake(lake) as db:
            found = db.sql(
                "select count(*), min(c.connection), max(c.connection), min(o.connection)"
                " from calls c, connections o"
            ).fetchall()
        ((count, least, most, other),) = found
        assert (count, least) == (6, most)
        assert other == most
        assert len(set(table(lake, "calls").column("connection").to_pylist())) == 1
        seen.add(most)
    thread.join()
    assert not failed
    assert len(seen) > 1
    assert Log(lake).last() == 1 + COMMITS + COMMITS // 4
