"""A writer that is killed at any step: the lake is as it was before, or as it was to be."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from wirelake.tables.log import Log
from wirelake.tables.parquet import table
from wirelake.tables.writer import Writer

from .killed_writer import main as write

pytestmark = pytest.mark.slow

BEFORE = ("work", "collect", "record", "link")
TESTS = Path(__file__).parents[1]
AFTER = ("forward:calls", "forward:connections", "sweep")


def killed_at(lake: Path, step: str) -> None:
    """Runs a writer that dies."""
    command = [sys.executable, "-m", "tables.killed_writer", str(lake), step]
    done = subprocess.run(command, check=False, capture_output=True, cwd=TESTS)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def callers(lake: Path) -> list[int]:
    """The connections of all calls in the lake."""
    return sorted(table(lake, "calls").column("connection").to_pylist())


def on_disk(lake: Path) -> list[str]:
    """Every file of the tables and in staging."""
    found = (str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file())
    return sorted(each for each in found if not each.startswith(("_log", "_lock")))


@pytest.mark.parametrize("step", BEFORE)
def test_before_the_link_nothing_happened(step: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    killed_at(lake, step)
    assert callers(lake) == list(range(10))
    with Writer(lake) as writer:
        assert writer.snapshot.commit == 1
        assert on_disk(lake) == ["calls/1/part.parquet"]
    write(str(lake), "never")
    assert callers(lake) == list(range(100, 120))
    assert Log(lake).last() == 2


@pytest.mark.parametrize("step", AFTER)
def test_after_the_link_all_of_it_did(step: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    killed_at(lake, step)
    assert callers(lake) == list(range(100, 120))
    assert table(lake, "connections").num_rows == 1
    with Writer(lake) as writer:
        assert writer.snapshot.commit == 2
        assert [each.sequence for each in writer.snapshot.sources["edge"].inputs] == [0, 1]
    assert on_disk(lake) == [
        "calls/1/part.parquet",  # removed, and kept for readers
        "calls/2/part.parquet",
        "connections/2/part.parquet",
    ]
    assert callers(lake) == list(range(100, 120))
    assert table(lake, "connections").num_rows == 1


def test_a_reader_finds_files_in_staging(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    killed_at(lake, "forward:connections")
    staged = [each for each in on_disk(lake) if each.startswith("_staging")]
    assert [each.split("/", 2)[2] for each in staged] == [
        "connections/part.parquet",
        "record.json",
    ]
    snapshot = Log(lake).snapshot()
    (file,) = snapshot.files("connections")
    found = Log(lake).layout.resolve(file.path, snapshot)
    assert str(found.relative_to(lake)) == staged[0]


def test_killed_again_and_again(tmp_path: Path) -> None:
    """A writer that rolls forward may be killed, too: the folders that are left are moved later."""
    lake = tmp_path / "lake"
    killed_at(lake, "forward:calls")
    staging = next((lake / "_staging").iterdir())
    (lake / "calls").mkdir(exist_ok=True)
    (staging / "calls").rename(lake / "calls" / "2")  # as far as the second one came
    with Writer(lake):
        pass
    assert on_disk(lake)[-1] == "connections/2/part.parquet"
    assert not list((lake / "_staging").iterdir())
    assert callers(lake) == list(range(100, 120))
