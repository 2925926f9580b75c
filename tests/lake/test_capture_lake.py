"""A lake that is made of captures for a query is the lake that a run makes of them."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.lake.local_engine import run_here

from wirelake.lake import capture_lake
from wirelake.lake.capture_lake import CaptureLake, keep, kept, temporary
from wirelake.lake.engine.settings import Settings, tables_for
from wirelake.lake.engine.tasks import LocalWorkers
from wirelake.tables.inputs import discover
from wirelake.tables.parquet import table
from wirelake.tables.paths import PUBLIC_TABLES, DamagedError, LakeError
from wirelake.tables.query import named_tables, open_lake
from wirelake.tables.report.report import make_report
from wirelake.tables.snapshot import sealed
from wirelake.traffic import simulate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings, captures of tcpdump, faults, and links whose tunnels move."""
    folder = tmp_path_factory.mktemp("answers") / "captures"
    simulate(folder, size=400_000, seed=7, faults=0.01, jobs=1)
    return folder


@pytest.fixture(scope="module")
def keys(captures: Path) -> list[str]:
    return sorted(str(each) for each in captures.glob("*.keys"))


@pytest.fixture(scope="module")
def files(captures: Path) -> list[str]:
    return [each.path for each in discover(captures)]


@pytest.fixture(scope="module")
def lake(captures: Path, keys: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake in as many steps as there are captures, each divided among workers."""
    lake = tmp_path_factory.mktemp("lake") / "lake"
    run_here(lake, captures, keys=keys, max_files=1, workers=3, settle_s=0)
    return lake


def rows(root: Path, name: str) -> list[str]:
    return sorted(map(repr, table(root, name).to_pylist()))


def figures(root: Path) -> Any:
    with open_lake(root) as db:
        return make_report(db)


@contextmanager
def made(files: list[str], keys: list[str], count: int = 1, **how: Any) -> Iterator[CaptureLake]:
    with (
        LocalWorkers(count) as workers,
        temporary(files, Settings(), workers=workers, keys=keys, **how) as found,
    ):
        yield found


# -- the same numbers ------------------------------------------------------------------------------


def test_all_tables_and_the_report(lake: Path, files: list[str], keys: list[str]) -> None:
    with made(files, keys) as found:
        assert found.refused == ()
        for name in PUBLIC_TABLES:
            wanted = rows(lake, name)
            assert wanted, name
            assert rows(found.root, name) == wanted, name
        assert figures(found.root) == figures(lake)
    assert not found.root.exists()


def test_any_order_of_files(lake: Path, files: list[str], keys: list[str]) -> None:
    with made(files[::-1], keys, tables=("calls",)) as found:
        assert rows(found.root, "calls") == rows(lake, "calls")


@pytest.mark.parametrize("name", PUBLIC_TABLES)
def test_one_table(lake: Path, files: list[str], keys: list[str], name: str) -> None:
    """Without the others, a table has the same rows."""
    with made(files, keys, tables=(name,)) as found:
        assert rows(found.root, name) == rows(lake, name)
        with open_lake(found.root, tables=(name,)) as db:
            views = {each for (each,) in db.sql("select view_name from duckdb_views()").fetchall()}
        assert views & {*PUBLIC_TABLES} == {name}
        needed = {*tables_for((name,))}
        assert {each for each in PUBLIC_TABLES if (found.root / each).exists()} <= needed


def test_several_processes(
    lake: Path, files: list[str], keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirelake.lake.engine.tasks._SHARE_BYTES", 1)
    with made(files, keys, 2, tables=("calls", "deliveries")) as found:
        assert rows(found.root, "calls") == rows(lake, "calls")
        assert rows(found.root, "deliveries") == rows(lake, "deliveries")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("select count(*) from Calls", ("calls",)),
        ("from messages join calls using (connection)", ("messages", "calls")),
        ("with a as (from tunnels) from a", ("tunnels",)),
        ("create table a as from faults; from a", ("faults",)),
        ("from query_table('calls')", ("calls",)),
        ("pivot calls on outcome using count(*)", ("calls",)),
        ("show tables", PUBLIC_TABLES),
        ("from lake_files where \"table\" = 'calls'", PUBLIC_TABLES),
    ],
)
def test_the_tables_that_a_query_names(query: str, names: tuple[str, ...]) -> None:
    assert named_tables(query) == names


# -- kept lakes ------------------------------------------------------------------------------------


@pytest.fixture
def capture(files: list[str], tmp_path: Path) -> Path:
    copy = tmp_path / Path(files[0]).name
    shutil.copyfile(files[0], copy)
    return copy


def root_of(capture: Path) -> Path:
    return capture.with_name(capture.name + capture_lake.SUFFIX)


def keep_of(
    capture: Path, settings: Settings | None = None, keys: tuple[str, ...] = ()
) -> CaptureLake:
    with LocalWorkers() as workers:
        return keep(
            root_of(capture), [str(capture)], settings or Settings(), workers=workers, keys=keys
        )


def kept_of(
    capture: Path, settings: Settings | None = None, keys: tuple[str, ...] = ()
) -> CaptureLake | None:
    return kept(root_of(capture), [str(capture)], settings or Settings(), keys)


def test_a_kept_lake_is_used_as_long_as_nothing_changes(capture: Path, keys: list[str]) -> None:
    assert kept_of(capture) is None
    found = keep_of(capture)
    assert kept_of(capture) == found
    assert sorted(each.name for each in capture.parent.iterdir()) == [
        capture.name,
        root_of(capture).name,
    ]
    other = msgspec.structs.replace(Settings(), force_protocol="comet")
    assert kept_of(capture, other) is None
    assert kept_of(capture, keys=tuple(keys)) is None
    assert kept_of(capture, msgspec.structs.replace(Settings(), reveal=True)) is None


def test_a_capture_that_changed_is_read_again(capture: Path) -> None:
    keep_of(capture)
    status = capture.stat()
    data = bytearray(capture.read_bytes())
    data[-1] ^= 1
    with capture.open("r+b") as file:  # the same file, size and modification time
        file.write(data)
    os.utime(capture, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert kept_of(capture) is None
    keep_of(capture)
    assert kept_of(capture) is not None
    assert len(list(capture.parent.iterdir())) == 2


@pytest.mark.parametrize("name", ["__version__", "VERSION"])
def test_another_version_reads_again(
    capture: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_of(capture)
    monkeypatch.setattr(capture_lake, name, "other")
    assert kept_of(capture) is None


def test_a_protocol_that_changed_is_read_again(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_of(capture)
    before = capture_lake._protocols()
    assert before  # of the examples
    monkeypatch.setattr(capture_lake, "_protocols", lambda: before | {"parcel": "other"})
    assert kept_of(capture) is None


def test_a_damaged_kept_lake_is_reported(capture: Path) -> None:
    root = keep_of(capture).root
    for path in (*root.glob("calls/*/*.parquet"), *root.glob("_log/*.json")):
        data = path.read_bytes()
        for damaged in (data[:-9], data[:40] + bytes([data[40] ^ 1]) + data[41:]):
            path.write_bytes(damaged)
            with pytest.raises(DamagedError, match=f"or delete {root}"):
                kept_of(capture)
        path.unlink()
        with pytest.raises(LakeError, match=str(root)):  # a lake without its log is not known
            kept_of(capture)
        path.write_bytes(data)
    assert kept_of(capture) is not None


def test_a_folder_of_somebody_else_is_left_alone(capture: Path, files: list[str]) -> None:
    root = root_of(capture)
    root.mkdir()
    (root / "notes.txt").write_text("mine")
    with pytest.raises(LakeError, match="not a lake created by --keep"):
        kept_of(capture)
    (root / "notes.txt").unlink()
    root.rmdir()
    run_here(root, Path(files[0]).parent, settle_s=0)
    with pytest.raises(LakeError, match="not a lake created by --keep"):
        kept_of(capture)


def test_a_capture_that_changes_while_it_is_read_is_not_kept(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = capture_lake._make

    def grow(*given: Any) -> CaptureLake:
        found = make(*given)
        with capture.open("ab") as file:
            file.write(b"more")
        return found

    monkeypatch.setattr(capture_lake, "_make", grow)
    with pytest.raises(LakeError, match="has changed while it was read"):
        keep_of(capture)
    assert [each.name for each in capture.parent.iterdir()] == [capture.name]


# -- beside the captures ---------------------------------------------------------------------------


def test_a_lake_that_another_process_kept_meanwhile_stays(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, others = capture_lake._make, []

    def slow(*given: Any) -> CaptureLake:
        found = make(*given)
        if not others:
            others.append(None)
            others.append(keep_of(capture))
            others.append(root_of(capture).stat().st_ino)
        return found

    monkeypatch.setattr(capture_lake, "_make", slow)
    assert keep_of(capture) == others[1]
    # The other process may read it just now.
    assert root_of(capture).stat().st_ino == others[2]
    assert len(list(capture.parent.iterdir())) == 2


def test_what_a_killed_process_leaves_is_removed(capture: Path) -> None:
    folders = [
        capture.with_name(f".{root_of(capture).name}-{end}") for end in ("dead0000", "runs_000")
    ]
    for each in (*folders, capture.with_name(f".{capture.name}-other000")):
        (each / "new" / "_log").mkdir(parents=True)
    with holding(folders[1]):
        keep_of(capture)
    assert sorted(each.name for each in capture.parent.iterdir()) == sorted(
        [folders[1].name, f".{capture.name}-other000", capture.name, root_of(capture).name]
    )


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Lock a folder as the process does that makes a lake in it."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


@pytest.mark.parametrize(
    ("mode", "keys_mode", "wanted"),
    [(0o644, 0o644, 0o755), (0o600, 0o644, 0o700), (0o644, 0o600, 0o700), (0o640, 0o644, 0o750)],
)
def test_who_may_not_read_the_captures_may_not_read_the_lake(
    capture: Path, tmp_path: Path, mode: int, keys_mode: int, wanted: int
) -> None:
    log = tmp_path / "tap.keys"
    log.touch()
    log.chmod(keys_mode)
    capture.chmod(mode)
    before = os.umask(0o022)
    try:
        keep_of(capture, keys=(str(log),))
    finally:
        os.umask(before)
    assert oct(stat.S_IMODE(root_of(capture).stat().st_mode)) == oct(wanted)
    assert kept_of(capture, keys=(str(log),)) is not None


def test_a_lake_of_another_user_is_not_used(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_of(capture)
    other = os.stat_result((*os.stat(root_of(capture))[:4], 12_345, *os.stat(root_of(capture))[5:]))
    real = Path.stat
    monkeypatch.setattr(
        Path, "stat", lambda path, **how: other if path == root_of(capture) else real(path, **how)
    )
    with pytest.raises(LakeError, match="belongs to another user"):
        kept_of(capture)


def test_a_lake_of_a_newer_version_is_replaced_only_if_it_was_kept(
    capture: Path, files: list[str]
) -> None:
    root = keep_of(capture).root

    def make_newer() -> None:
        record = root / "_log" / f"{0:020}.json"
        found = msgspec.json.decode(record.read_bytes())
        del found["checksum"]
        record.write_bytes(sealed(msgspec.json.encode(found | {"format": found["format"] + 1})))

    make_newer()
    assert kept_of(capture) is None
    shutil.rmtree(root)
    run_here(root, Path(files[0]).parent, settle_s=0)
    make_newer()
    with pytest.raises(LakeError, match="not a lake created by --keep"):
        kept_of(capture)
