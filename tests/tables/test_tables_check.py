"""Does a lake agree with itself: everything that can be wrong is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from wirelake.tables.check import Problem, check
from wirelake.tables.log import Log
from wirelake.tables.paths import LakeError
from wirelake.tables.snapshot import sealed
from wirelake.tables.writer import Writer

from .made_lakes import add_rows, call, capture, commit_calls, write_rows

GOOD = {
    "connection": 1, "payload_bytes": 10, "new_bytes": 8, "duplicate_bytes": 2, "gap_bytes": 3,
    "span_bytes": 11, "decoded_bytes": 5, "faulty_bytes": 1, "undecryptable_bytes": 1,
    "ignored_bytes": 1, "first_ns": 1, "last_ns": 2,
}  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with three commits."""
    root = tmp_path / "lake"
    with Writer(root, create={}) as writer:
        commit_calls(writer, range(5))
        commit_calls(writer, range(5, 9))
        with writer.begin() as step:
            add_rows(step, "coverage", [GOOD])
            step.consume(capture(2))
            step.commit("advance")
    return root


def codes(lake: Path) -> list[tuple[str, str]]:
    """What is wrong, and where."""
    return [(each.code, each.where) for each in check(lake)]


def test_a_good_lake(lake: Path) -> None:
    assert check(lake) == []


def test_a_file_that_is_gone(lake: Path) -> None:
    (lake / "calls/1/part.parquet").unlink()
    assert codes(lake) == [("missing_file", "calls/1/part.parquet")]


def test_a_file_that_was_cut(lake: Path) -> None:
    path = lake / "calls/2/part.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    assert codes(lake) == [("wrong_size", "calls/2/part.parquet")]


def test_a_file_that_was_damaged(lake: Path) -> None:
    path = lake / "coverage/3/part.parquet"
    path.write_bytes(bytes(path.stat().st_size))
    assert codes(lake) == [("wrong_checksum", "coverage/3/part.parquet")]
    record = Log(lake).layout.record(3)
    add = msgspec.json.decode(record.read_bytes())["add"]
    without = [{name: each[name] for name in each if name != "checksum"} for each in add]
    edited(record, add=without)  # as an older version did
    assert codes(lake) == [("damaged_file", "coverage/3/part.parquet")]


def edited(path: Path, **fields: Any) -> None:
    """Changes a record of the log."""
    said = msgspec.json.decode(path.read_bytes())
    del said["checksum"]
    path.write_bytes(sealed(msgspec.json.encode({**said, **fields})))


def test_another_number_of_rows(lake: Path) -> None:
    path = Log(lake).layout.record(1)
    add = msgspec.json.decode(path.read_bytes())["add"]
    edited(path, add=[{**add[0], "rows": 6}])
    (found,) = check(lake)
    assert found == Problem(
        "wrong_rows", "calls/1/part.parquet", "5 rows; the log has 6", harmless=False
    )
    assert str(found) == "calls/1/part.parquet: 5 rows; the log has 6"


def test_an_orphan_file_is_harmless(lake: Path) -> None:
    write_rows(lake / "calls/1/other.parquet", "calls", [call(1)])
    (lake / "_staging/9-abc/work").mkdir(parents=True)
    found = check(lake)
    assert [(each.code, each.where) for each in found] == [
        ("orphan", "calls/1/other.parquet"), ("orphan", "_staging/9-abc"),
    ]  # fmt: skip
    assert all(each.harmless for each in found)


def test_what_was_removed_is_no_orphan(lake: Path) -> None:
    with Writer(lake) as writer, writer.begin() as step:
        step.remove("calls/1/part.parquet")
        step.commit("expire")
    assert check(lake) == []


def test_a_hole_in_the_log(lake: Path) -> None:
    Log(lake).layout.record(2).unlink()
    assert codes(lake) == [("hole", f"_log/{2:020d}.json")]


def test_a_hole_that_a_checkpoint_covers(lake: Path) -> None:
    log = Log(lake)
    log.checkpoint(log.snapshot())
    log.layout.record(2).unlink()
    assert codes(lake) == [("hole", f"_log/{2:020d}.json")]


def test_a_record_that_cannot_be_read(lake: Path) -> None:
    Log(lake).layout.record(2).write_bytes(b"{")
    assert codes(lake) == [("damaged_log", f"_log/{2:020d}.json")]


def test_a_record_under_another_number(lake: Path) -> None:
    edited(Log(lake).layout.record(2), commit=7)
    assert codes(lake) == [("damaged_log", f"_log/{2:020d}.json")]


def test_a_checkpoint_that_contradicts_the_log(lake: Path) -> None:
    log = Log(lake)
    log.checkpoint(log.snapshot(2))
    assert check(lake) == []
    edited(log.layout.checkpoint(2), inputs=[])
    assert codes(lake) == [("checkpoint", f"_log/{2:020d}.checkpoint.json")]
    log.layout.checkpoint(2).write_bytes(b"")
    assert codes(lake) == [("checkpoint", f"_log/{2:020d}.checkpoint.json")]


def test_captures_out_of_order(lake: Path) -> None:
    with Writer(lake) as writer, writer.begin() as step:
        step.consume(capture(0, fault="late_file"))
        step.consume(capture(1))
        step.commit("advance")
    (found,) = check(lake)
    assert str(found) == "edge: sequence 1 was read after 2"


def test_bytes_that_do_not_add_up(lake: Path) -> None:
    wrong = [GOOD, {**GOOD, "connection": 5, "ignored_bytes": 2}, {**GOOD, "payload_bytes": 9}]
    with Writer(lake) as writer, writer.begin() as step:
        add_rows(step, "coverage", wrong)
        step.commit("advance")
    assert sorted(each.detail for each in check(lake)) == [
        (
            "new_bytes of connection 5 is not decoded_bytes + faulty_bytes + undecryptable_bytes"
            " + ignored_bytes"
        ),
        "payload_bytes of connection 1 is not new_bytes + duplicate_bytes",
    ]


def test_provisional_files_of_an_earlier_step(lake: Path) -> None:
    with Writer(lake) as writer:
        with writer.begin() as step:
            old = add_rows(step, "calls", [call(7)], source="edge", provisional=True)
            add_rows(step, "tunnels", [{"first_ns": 1, "last_ns": 1}], provisional=True)
            step.consume(capture(3))
            step.commit("advance")
        assert check(lake) == []
        with writer.begin() as step:
            step.consume(capture(4))
            step.consume(capture(0, "another"))
            step.commit("advance")
    (found,) = check(lake)
    assert str(found) == f"{old}: still provisional after commit 5 of source edge"


def test_no_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no lake in this folder"):
        check(tmp_path)


def test_a_newer_lake(lake: Path) -> None:
    edited(Log(lake).layout.record(3), format=99)
    with pytest.raises(LakeError, match="unsupported log format 99"):
        check(lake)
