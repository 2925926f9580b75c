"""Lakes whose log has format 1, without checksums: they open, are verified, and are continued."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from tests.tables.made_lakes import commit_calls

from wirelake.lake.verify.verify import verify
from wirelake.tables import parquet as reading
from wirelake.tables.check import check
from wirelake.tables.log import Log
from wirelake.tables.maintenance import compact
from wirelake.tables.writer import Writer

RELEASE = Path(__file__).parent / "release-0.1.0"


def as_format_1(lake: Path) -> None:
    """Write the log again as versions before format 2 did."""
    for path in (lake / "_log").glob("*.json"):
        entry = json.loads(path.read_text())
        del entry["checksum"]
        entry.pop("version", None)
        entry["format"] = 1
        for file in (*entry.get("add", ()), *entry.get("files", ())):
            del file["checksum"]
        for capture in entry.get("inputs", ()):
            capture.pop("ordered_by", None)
        path.write_text(json.dumps(entry))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    with Writer(root, create={"tables": []}) as writer:
        for number in range(3):
            commit_calls(writer, range(number * 10, number * 10 + 10))
        writer.checkpoint()
    as_format_1(root)
    return root


def test_it_opens_and_is_continued(lake: Path) -> None:
    assert check(lake) == []
    assert reading.table(lake, "calls").num_rows == 30
    with Writer(lake) as writer:
        commit_calls(writer, [99])
    files = Log(lake).snapshot().all_files()
    assert [each.checksum is None for each in files] == [True, True, True, False]
    assert check(lake) == []
    compact(lake)
    assert all(each.checksum for each in Log(lake).snapshot().all_files())
    assert (check(lake), reading.table(lake, "calls").num_rows) == ([], 31)


def test_verify_says_what_it_could_not_check(lake: Path) -> None:
    found = verify(lake)
    assert found.ok
    assert "checksums of 3 files: an older version wrote them" in found.skipped
    assert found.versions == {"": 4}


def test_a_new_file_in_an_old_lake_is_checked(lake: Path) -> None:
    with Writer(lake) as writer:
        commit_calls(writer, [99])
    path = lake / Log(lake).snapshot().all_files()[-1].path
    data = bytearray(path.read_bytes())
    data[random.Random(3).randrange(len(data))] ^= 4
    path.write_bytes(bytes(data))
    assert [each.code for each in check(lake)] == ["wrong_checksum"]


def test_the_lake_of_release_0_1_0_is_consistent(tmp_path: Path) -> None:
    shutil.copytree(RELEASE / "lake", tmp_path / "lake")
    assert [each for each in check(tmp_path / "lake") if not each.harmless] == []
