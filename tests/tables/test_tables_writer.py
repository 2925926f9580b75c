"""Writing a lake: transactions, the lock, sweeping, and what errors leave behind."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wirelake.tables import cleanup as sweeping
from wirelake.tables.log import CHECKPOINT_EVERY, Log
from wirelake.tables.parquet import table
from wirelake.tables.paths import LakeError, Layout
from wirelake.tables.snapshot import FORMAT, sealed
from wirelake.tables.writer import Writer

from .made_lakes import SECOND, Clock, add_rows, call, capture, commit_calls

STEPS = ["collect", "record", "link", "forward:calls", "forward:_fold", "sweep"]


def files(lake: Path) -> list[str]:
    """The files of the tables and in staging."""
    found = (str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file())
    return sorted(each for each in found if not each.startswith(("_log", "_lock")))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake without anything in it."""
    with Writer(tmp_path / "lake", create={"ports": {"9620": "comet"}}):
        pass
    return tmp_path / "lake"


def test_a_commit_has_all_that_was_added(lake: Path) -> None:
    steps: list[str] = []
    clock = Clock()
    with Writer(lake, clock=clock) as writer, writer.begin() as step:
        path = add_rows(step, "calls", [call(3), call(9)], source="edge", share=1, shares=4)
        state = step.work("task") / "edge.state"
        state.write_bytes(b"state")
        step.add("_fold", state, rows=0, source="edge")
        step.consume(capture(0))
        made = step.commit("advance", {"seconds": 2.5}, on_step=steps.append)
        assert writer.snapshot.commit == 1
    assert steps == STEPS
    assert files(lake) == ["_fold/1/edge.state", "calls/1/part.parquet"]
    assert [made] == list(Log(lake).records(since=1))
    added = made.add[0]
    assert (added.path, added.rows, added.bytes) == (path, 2, (lake / path).stat().st_size)
    assert (added.min_ns, added.max_ns) == (3 * SECOND, 9 * SECOND + 5_000_000)
    assert (added.source, added.share, added.shares, added.provisional) == ("edge", 1, 4, False)
    assert (made.time, made.figures) == ("2023-11-14T22:13:20.000000Z", {"seconds": 2.5})
    assert Log(lake).snapshot().settings == {"ports": {"9620": "comet"}}


def test_files_of_the_same_name_are_kept_apart(lake: Path) -> None:
    with Writer(lake) as writer, writer.begin() as step:
        for task in range(3):
            path = step.work(f"task-{task}") / "comet.parquet"
            path.write_bytes(b"x" * task)
            step.add("messages", path, rows=task)
        made = step.commit("advance")
    assert files(lake) == [
        "messages/1/comet-2.parquet", "messages/1/comet-3.parquet", "messages/1/comet.parquet",
    ]  # fmt: skip
    assert all((lake / each.path).stat().st_size == each.bytes for each in made.add)


def test_unnamed_files_are_deleted(lake: Path) -> None:
    with Writer(lake) as writer, writer.begin() as step:
        add_rows(step, "calls", [call(1)])
        (step.work("failed") / "half.parquet").write_bytes(b"PAR1")
        step.commit("advance")
    assert files(lake) == ["calls/1/part.parquet"]
    assert not list((lake / "_staging").iterdir())


def test_without_a_commit_nothing_stays(lake: Path) -> None:
    with Writer(lake) as writer:
        with writer.begin() as step:
            add_rows(step, "calls", [call(1)])
        assert files(lake) == []
        assert not list((lake / "_staging").iterdir())
        with pytest.raises(ValueError, match="the transaction has ended"):
            step.commit("advance")
    assert Log(lake).last() == 0


def test_only_files_of_the_lake_are_removed(lake: Path) -> None:
    with Writer(lake) as writer, writer.begin() as step:
        with pytest.raises(ValueError, match="not a file of the lake"):
            step.remove("calls/1/part.parquet")
        outside = lake.parent / "outside.parquet"
        outside.touch()
        with pytest.raises(ValueError, match="not in a folder of work"):
            step.add("calls", outside, rows=1)


def test_a_full_disk_leaves_nothing(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Writer(lake) as writer:
        step = writer.begin()
        add_rows(step, "calls", [call(1)])
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", full)
            with pytest.raises(OSError, match="No space left"):
                step.commit("advance")
        assert files(lake) == []
        assert not list((lake / "_staging").iterdir())
        assert commit_calls(writer, range(3)).commit == 1


def test_an_error_right_after_the_link_takes_nothing_back(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Writer(lake) as writer, monkeypatch.context() as patch:
        patch.setattr("wirelake.tables.log.sync_folder", broken)
        with pytest.raises(OSError, match="Input/output"):
            commit_calls(writer, range(3))
    assert table(lake, "calls").num_rows == 3
    with Writer(lake) as writer:
        assert files(lake) == ["calls/1/part.parquet"]
        assert commit_calls(writer, range(2)).commit == 2
    assert table(lake, "calls").num_rows == 5


def test_an_error_while_moving_is_made_good_by_the_next_transaction(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Path, __: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Writer(lake) as writer:
        step = writer.begin()
        add_rows(step, "calls", [call(1)])

        def on_step(name: str) -> None:
            if name == "forward:calls":
                monkeypatch.setattr(Path, "rename", broken)

        with pytest.raises(OSError, match="Input/output"):
            step.commit("advance", on_step=on_step)
        monkeypatch.undo()
        assert table(lake, "calls").num_rows == 1
        assert commit_calls(writer, range(2)).commit == 2
    assert files(lake) == ["calls/1/part.parquet", "calls/2/part.parquet"]


# -- two writers -------------------------------------------------------------------------------


def test_a_second_writer_gets_the_holder_of_the_lock(lake: Path) -> None:
    with Writer(lake):
        result = rf"locked by process {os.getpid()} on \S+ since 20\S+Z; wait for it or stop it"
        with pytest.raises(LakeError, match=result), Writer(lake):
            pass
    with Writer(lake) as writer:
        assert commit_calls(writer, range(1)).commit == 1


def test_the_lock_ends_with_its_process(lake: Path) -> None:
    hold = (
        "import sys; from wirelake.tables.writer import Writer\n"
        "with Writer(sys.argv[1]):\n    print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(lake)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(LakeError, match=f"locked by process {process.pid} "), Writer(lake):
            pass
        process.kill()
        process.wait()
        with Writer(lake) as writer:
            assert writer.snapshot.commit == 0


@pytest.fixture
def lockless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks."""

    def refused(_: int, __: int) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(fcntl, "flock", refused)


@pytest.mark.usefixtures("lockless")
def test_without_locks_one_of_two_wins(lake: Path) -> None:
    with Writer(lake) as first, Writer(lake) as second:
        late = first.begin()
        add_rows(late, "calls", [call(1)])
        commit_calls(second, range(5))
        with pytest.raises(LakeError, match="another writer made commit 1; run again"):
            late.commit("advance")
    assert table(lake, "calls").num_rows == 5
    assert files(lake) == ["calls/1/part.parquet"]


@pytest.mark.usefixtures("lockless")
def test_without_locks_a_writer_whose_staging_was_swept_cannot_commit(lake: Path) -> None:
    with Writer(lake) as first:
        step = first.begin()
        add_rows(step, "calls", [call(1)])

        def before(name: str) -> None:
            if name == "link":
                with Writer(lake):
                    pass

        with pytest.raises(FileNotFoundError):
            step.commit("advance", on_step=before)
    assert Log(lake).last() == 0
    assert files(lake) == []


@pytest.mark.usefixtures("lockless")
def test_without_locks_another_writer_may_roll_forward(lake: Path) -> None:
    with Writer(lake) as first:
        step = first.begin()
        add_rows(step, "calls", [call(1)])

        def before(name: str) -> None:
            if name == "forward:calls":
                with Writer(lake) as other:
                    assert commit_calls(other, range(5)).commit == 2

        step.commit("advance", on_step=before)
    assert table(lake, "calls").num_rows == 6
    assert files(lake) == ["calls/1/part.parquet", "calls/2/part.parquet"]


@pytest.mark.usefixtures("lockless")
def test_without_locks_a_commit_that_was_faster_than_the_sweeper_stays(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = sweeping._delete

    def too_late(layout: Layout, path: Path) -> None:
        """The owner commits between the sweeper's look at the log and its deleting."""
        Log(lake).link(path / "record.json", 1)
        original(layout, path)

    with Writer(lake) as first:
        step = first.begin()
        add_rows(step, "calls", [call(1)])

        def before(name: str) -> None:
            if name == "link":
                monkeypatch.setattr(sweeping, "_delete", too_late)
                with Writer(lake):
                    pass
                monkeypatch.setattr(sweeping, "_delete", original)

        step.commit("advance", on_step=before)
    assert files(lake) == ["calls/1/part.parquet"]
    assert table(lake, "calls").num_rows == 1


# -- making a lake -----------------------------------------------------------------------------


def test_a_lake_is_made_once(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no lake in this folder"), Writer(tmp_path / "lake"):
        pass
    assert not (tmp_path / "lake").exists()
    for settings in ({"a": 1}, {"a": 2}):
        with Writer(tmp_path / "lake", create=settings) as writer:
            assert writer.snapshot.settings == {"a": 1}
            assert writer.snapshot.commit == 0


def test_no_lake_is_made_among_other_files(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    for place in (tmp_path, tmp_path / "letter.txt"):
        with pytest.raises(LakeError, match=r"not a lake and not empty|not a folder"):
            Writer(place, create={}).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_newer_lake_is_left_alone(lake: Path) -> None:
    record = Log(lake).layout.record(0)
    head = record.read_text().rpartition(",")[0]
    newer = head.replace(f'"format": {FORMAT}', f'"format": {FORMAT + 1}')
    record.write_bytes(sealed(f"{newer}}}".encode()))
    left = lake / "_staging" / "1-newer"
    left.mkdir(parents=True)
    with pytest.raises(LakeError, match=f"unsupported log format {FORMAT + 1}"), Writer(lake):
        pass
    assert left.is_dir()
    with pytest.raises(LakeError, match=f"unsupported log format {FORMAT + 1}"), Writer(lake):
        pass  # and the lock is free


# -- sweeping and checkpoints ------------------------------------------------------------------


def replace_calls(writer: Writer) -> None:
    """A commit that replaces all calls."""
    with writer.begin() as step:
        for old in writer.snapshot.files("calls"):
            step.remove(old.path)
        add_rows(step, "calls", [call(step.number)])
        step.commit("advance")


def test_removed_files_stay_for_an_hour_and_three_commits(lake: Path) -> None:
    clock = Clock()
    with Writer(lake, clock=clock) as writer:
        for _ in range(5):
            replace_calls(writer)
        assert len(files(lake)) == 5
        clock.move(3_601)
        replace_calls(writer)
        # Commits 2, 3 and 4 removed those of 1, 2 and 3, and are three commits back by now.
        assert files(lake) == [f"calls/{number}/part.parquet" for number in (3, 4, 5, 6)]
        assert not (lake / "calls/1").exists()
    clock.move(3_601)
    with Writer(lake, clock=clock):
        assert len(files(lake)) == 4
    with Writer(lake, clock=clock, keep_commits=0):
        assert files(lake) == ["calls/6/part.parquet"]


def test_checkpoints_are_written_on_the_way(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    clock = Clock()
    with Writer(lake, clock=clock) as writer:
        for _ in range(CHECKPOINT_EVERY + 10):
            clock.move(600)
            replace_calls(writer)
        now = writer.snapshot.to_checkpoint()
    log = Log(lake)
    assert log.last_checkpoint() == CHECKPOINT_EVERY - 1
    again = log.snapshot().to_checkpoint()
    assert (again.files, again.inputs) == (now.files, now.inputs)
    # Only what may still be on disk is remembered.
    assert {each.path for each in now.removed} <= {each.path for each in again.removed}
    assert len(again.removed) < 20


def test_files_are_synced_unless_that_is_turned_off(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def noted(file: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{file}")))

    monkeypatch.setattr("os.fsync", noted)
    with Writer(lake, fsync=False) as writer:
        commit_calls(writer, range(2))
    assert synced == ["record.json", "_log"]
    synced.clear()
    with Writer(lake) as writer:
        commit_calls(writer, range(2))
    assert synced == ["part.parquet", "calls", "record.json", "_log", "calls"]
