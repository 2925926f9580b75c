"""The log: which files count, checkpoints, and logs that cannot be read."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from wirelake.records.schema import VERSION
from wirelake.tables.log import Log
from wirelake.tables.paths import LakeError
from wirelake.tables.snapshot import FORMAT, AddedFile, Record, iso_time, sealed, time_ns_of

from .made_lakes import capture


def record(commit: int, **fields: object) -> Record:
    """A commit that adds one file and takes one capture."""
    path = f"calls/{commit}/a.parquet"
    base: dict[str, object] = {
        "commit": commit,
        "format": FORMAT,
        "schema": VERSION,
        "time": iso_time(1_700_000_000_000_000_000 + commit),
        "kind": "advance" if commit else "create",
        "settings": None if commit else {"ports": {"9620": "comet"}},
        "inputs": [capture(commit)],
        "add": [AddedFile(table="calls", path=path, rows=commit, bytes=10)],
        "staging": f"{commit}-abcdef",
    }
    return msgspec.convert({**base, **fields}, Record)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """A log that does not wait for the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    return Log(tmp_path)


def test_what_is_written_is_read_again(log: Log) -> None:
    wanted = [record(0), record(1, remove=["calls/0/a.parquet"]), record(2)]
    for each in wanted:
        log.commit(each)
    assert list(log.records()) == wanted
    assert list(log.records(since=2)) == wanted[2:]
    now = log.snapshot()
    assert (now.commit, now.schema, now.time) == (2, VERSION, wanted[2].time)
    assert now.settings == {"ports": {"9620": "comet"}}
    assert [each.path for each in now.files("calls")] == ["calls/1/a.parquet", "calls/2/a.parquet"]
    assert [each.sequence for each in now.sources["edge"].inputs] == [0, 1, 2]
    assert list(now.removed) == ["calls/0/a.parquet"]


def test_of_two_with_one_number_the_first_wins(log: Log) -> None:
    log.commit(record(0))
    with pytest.raises(LakeError, match="another writer made commit 0"):
        log.commit(record(0, staging="0-other"))
    assert log.snapshot().staging == "0-abcdef"
    assert [path.name for path in log.layout.log.iterdir()] == [f"{0:020d}.json"]


def test_a_lake_can_be_seen_as_it_was(log: Log) -> None:
    for number in range(5):
        log.commit(record(number))
    assert len(log.snapshot(2).files("calls")) == 3
    with pytest.raises(LakeError, match="no such commit 5; expected 0-4"):
        log.snapshot(5)


def test_thousands_of_commits_are_read_from_a_checkpoint(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = None
    for number in range(3_000):
        entry = record(number, remove=[f"calls/{number - 7}/a.parquet"] if number > 6 else [])
        log.commit(entry)
        if now is not None and number % 50 == 0:
            now = log.snapshot()
            log.checkpoint(now)
        now = now or log.snapshot()
    whole = log.snapshot()
    read: list[str] = []
    original = Path.read_bytes

    def counted(path: Path) -> bytes:
        read.append(path.name)
        return original(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    again = log.snapshot()
    assert len(read) == 50
    assert again.to_checkpoint() == whole.to_checkpoint()
    assert len(again.sources["edge"].inputs) == 3_000
    assert [each.rows for each in again.files("calls")] == list(range(2_993, 3_000))


@pytest.mark.parametrize("harm", ["gone", "cut", "empty"])
def test_a_checkpoint_may_be_lost(harm: str, log: Log) -> None:
    for number in range(7):
        log.commit(record(number))
    wanted = log.snapshot().to_checkpoint()
    log.checkpoint(log.snapshot(3))
    log.checkpoint(log.snapshot(5))
    path = log.layout.checkpoint(5)
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: 40 if harm == "cut" else 0])
    assert log.snapshot().to_checkpoint() == wanted


def test_old_records_may_go_once_a_checkpoint_has_them(log: Log) -> None:
    for number in range(7):
        log.commit(record(number))
    wanted = log.snapshot().to_checkpoint()
    log.checkpoint(log.snapshot(5))
    for number in range(6):
        log.layout.record(number).unlink()
    assert log.snapshot().to_checkpoint() == wanted
    assert log.last() == 6
    with pytest.raises(LakeError, match="commit 0 has expired; the oldest one is 5"):
        log.snapshot(2)
    log.layout.record(6).unlink()
    assert log.snapshot().commit == log.last() == 5


def test_the_first_record_has_not_expired_without_a_checkpoint(log: Log) -> None:
    for number in range(5):
        log.commit(record(number))
    log.layout.record(0).unlink()
    with pytest.raises(LakeError, match=r"0000\.json: missing; restore it"):
        log.snapshot()


def test_a_hole_is_an_error(log: Log) -> None:
    for number in range(5):
        log.commit(record(number))
    log.layout.record(3).unlink()
    with pytest.raises(LakeError, match=r"0003\.json: missing; restore it"):
        log.snapshot()
    with pytest.raises(LakeError, match=r"0003\.json: missing; restore it"):
        list(log.records())
    assert log.snapshot(2).commit == 2


def test_a_damaged_record_is_an_error(log: Log) -> None:
    log.commit(record(0))
    log.layout.record(0).write_bytes(b'{"format": 1, "schema": 1, "commit": "x"}')
    with pytest.raises(LakeError, match=r"0000\.json: damaged \(.*\); restore it"):
        log.snapshot()


def test_a_newer_lake_is_refused(log: Log) -> None:
    log.commit(record(0))
    log.commit(record(1, format=FORMAT + 1, kind="advance"))
    with pytest.raises(LakeError, match=f"unsupported log format {FORMAT + 1}; .* update wirelake"):
        log.snapshot()
    assert log.snapshot(0).commit == 0


def test_newer_tables_are_refused(log: Log) -> None:
    log.commit(record(0))
    log.commit(record(1, schema=VERSION + 1))
    with pytest.raises(
        LakeError, match=f"unsupported table version {VERSION + 1}; .* update wirelake"
    ):
        log.snapshot()


def test_what_a_newer_version_adds_to_a_record_is_passed_over(log: Log) -> None:
    log.commit(record(0))
    path = log.layout.record(0)
    said = msgspec.json.decode(path.read_bytes())
    del said["checksum"]
    path.write_bytes(sealed(msgspec.json.encode({**said, "later": [1, 2]})))
    assert log.snapshot().commit == 0


def test_no_lake(tmp_path: Path) -> None:
    assert not Log(tmp_path).exists()
    with pytest.raises(LakeError, match="no lake in this folder; `wirelake lake run` creates one"):
        Log(tmp_path).snapshot()
    (tmp_path / "file").touch()
    assert Log(tmp_path / "file").last() is None


def test_a_record_is_json_that_people_can_read(log: Log) -> None:
    log.commit(record(0))
    said = msgspec.json.decode(log.layout.record(0).read_bytes())
    assert said["add"] == [{"table": "calls", "path": "calls/0/a.parquet", "rows": 0, "bytes": 10}]
    assert said["inputs"][0]["source"] == "edge"
    assert log.layout.record(0).read_text().count("\n") > 10


def test_times_are_exact_to_the_microsecond() -> None:
    assert iso_time(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456Z"
    assert time_ns_of("2023-11-14T22:13:20.123456Z") == 1_700_000_000_123_456_000
