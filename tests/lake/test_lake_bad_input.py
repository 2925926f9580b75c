"""Captures that are damaged, gone, late or still written to, disks that are full, other writers.

Each is a row in `faults`, or one line that says what to do; nothing is half visible, and the next
run goes on. The engine runs without a JVM, except where it is the JVM that fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from tests.lake import full_disk
from tests.lake.cut_captures import age
from tests.lake.lake_driver import Order
from tests.lake.lakes import unlike_engines
from tests.lake.local_engine import run_here

from wirelake.lake.engine.engine import Engine
from wirelake.lake.engine.run import Outcome, run
from wirelake.lake.engine.settings import Settings
from wirelake.lake.engine.tasks import LocalWorkers
from wirelake.tables.inputs import discover
from wirelake.tables.log import Log
from wirelake.tables.paths import DamagedError, LakeError
from wirelake.tables.query import open_lake
from wirelake.tables.snapshot import sealed
from wirelake.tables.writer import Writer
from wirelake.traffic import simulate

ROOT = Path(__file__).parents[2]
AN_HOUR_S = 3_600


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of tcpdump."""
    folder = tmp_path_factory.mktemp("bad") / "captures"
    simulate(folder, size="200kB", seed=4, style="tcpdump", protocols=("comet", "esnp"), jobs=1)
    return folder


@pytest.fixture
def folder(simulated: Path, tmp_path: Path) -> Path:
    """A folder with the captures tap-a 0 and 1, written an hour ago."""
    found = tmp_path / "in"
    found.mkdir()
    for each in sorted(simulated.glob("*.pcap"))[:2]:
        shutil.copy(each, found)
        age(found / each.name)
    assert sorted(each.name for each in found.iterdir()) == [
        "tap-a-00000000.pcap",
        "tap-a-00000001.pcap",
    ]
    return found


def codes(lake: Path) -> Counter[str]:
    """The faults of files."""
    with open_lake(lake) as db:
        return Counter(
            code
            for (code,) in db.sql("select code from faults where connection is null").fetchall()
        )


def reasons(outcome: Outcome) -> dict[str, str]:
    """Captures that are not in, and why."""
    return {capture.name: why for capture, why in outcome.waiting}


# -- what is in files ------------------------------------------------------------------------------


def test_damaged_files_have_rows_in_faults(folder: Path, tmp_path: Path) -> None:
    first, second = sorted(folder.iterdir())
    data = bytearray(first.read_bytes())
    data[32:36] = b"\xff" * 4  # the length of the first packet
    first.write_bytes(data)
    second.write_bytes(second.read_bytes()[:-7])
    (folder / "notes.pcap").write_text("no capture at all")
    (folder / "nothing.pcapng").write_bytes(b"")
    for each in folder.iterdir():
        age(each)
    lake = tmp_path / "lake"
    outcome = run_here(lake, folder, max_files=1)
    assert (outcome.files, outcome.refused, outcome.waiting) == (4, [], [])
    found = codes(lake)
    assert found["unknown_file"] == 2
    assert found["truncated_file"] == 1
    assert found["bad_block"] > 0
    assert unlike_engines(lake, sorted(folder.iterdir())) == []


# -- files that are not what they were -------------------------------------------------------------


@pytest.mark.parametrize("becomes", ["vanished_file", "unreadable_file"])
def test_a_file_that_cannot_be_read_when_its_turn_has_come(
    folder: Path, tmp_path: Path, becomes: str
) -> None:
    first, second = sorted(folder.iterdir())
    aside = tmp_path / "aside"

    def spoil(step: str) -> None:
        if step == "decode" and first.is_file():
            first.rename(aside)
            if becomes == "unreadable_file":
                first.mkdir()

    lake = tmp_path / "lake"
    outcome = run_here(lake, folder, on_step=spoil)
    assert [each.fault for each in outcome.refused] == [becomes]
    assert (outcome.commits, outcome.files) == (1, 1)
    assert codes(lake) == {becomes: 1}
    if first.is_dir():
        first.rmdir()
    aside.rename(first)  # too late
    assert run_here(lake, folder).commits == 0
    with open_lake(lake) as db:
        read = db.sql("select distinct file from messages").fetchall()
    assert read == [(str(second),)]


def test_non_files_are_ignored(folder: Path, tmp_path: Path) -> None:
    (folder / "tap-a-00000002.pcap").mkdir()
    (folder / "tap-b-00000000.pcap").symlink_to(folder / "nowhere")
    outcome = run_here(tmp_path / "lake", folder)
    assert (outcome.files, outcome.refused, outcome.waiting) == (2, [], [])


def test_a_late_file_is_reported_once(folder: Path, tmp_path: Path) -> None:
    first, second = sorted(folder.iterdir())
    aside = first.rename(tmp_path / first.name)
    lake = tmp_path / "lake"
    age(second, AN_HOUR_S)
    assert run_here(lake, folder).files == 1
    shutil.copy(aside, first)
    shutil.copy(second, folder / "tap-a-001.pcap")  # the same number once more
    for name in (first.name, "tap-a-001.pcap"):
        age(folder / name)
    outcome = run_here(lake, folder)
    assert (outcome.commits, outcome.files) == (1, 0)
    assert codes(lake) == {"late_file": 2}
    with second.open("ab") as grown:  # and one that grew after it was read
        grown.write(b"more")
    age(second)
    assert [each.fault for each in run_here(lake, folder).refused] == ["late_file"]
    assert run_here(lake, folder).commits == 0
    assert codes(lake) == {"late_file": 3}


def test_a_gap_is_waited_for(folder: Path, tmp_path: Path) -> None:
    last = age(Path(shutil.copy(folder / "tap-a-00000001.pcap", folder / "tap-a-00000003.pcap")))
    lake = tmp_path / "lake"
    outcome = run_here(lake, folder)
    assert outcome.files == 2
    assert reasons(outcome) == {last.name: "sequence 2 is missing"}
    assert run_here(lake, folder).commits == 0
    age(last, AN_HOUR_S)
    assert run_here(lake, folder).files == 1
    age(Path(shutil.copy(last, folder / "tap-a-00000002.pcap")))
    run_here(lake, folder)
    assert codes(lake) == {"late_file": 1}


def test_a_file_that_grows_waits(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = folder / "tap-a-00000001.pcap"
    data = growing.read_bytes()
    growing.write_bytes(data[:1000])

    def meanwhile(_: float) -> None:
        if growing.stat().st_size < len(data):
            growing.write_bytes(data)

    monkeypatch.setattr("wirelake.lake.engine.run.time.sleep", meanwhile)
    lake = tmp_path / "lake"
    outcome = run_here(lake, folder)
    assert outcome.files == 1
    assert reasons(outcome) == {growing.name: "may still be growing"}
    assert run_here(lake, folder).files == 1  # this time it did not change
    assert unlike_engines(lake, sorted(folder.iterdir())) == []


def test_a_stream_leaves_a_file_that_grows_alone(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    growing = folder / "tap-a-00000001.pcap"
    growing.touch()
    lake = tmp_path / "lake"
    outcome = run(
        lake, folder, spark=lambda: spark, stream=True, available_now=True, settle_s=AN_HOUR_S
    )
    assert (outcome.commits, outcome.files) == (1, 1)
    assert [each.sequence for each in Log(lake).snapshot().sources["tap-a"].inputs] == [0]


# -- lakes that cannot be written ------------------------------------------------------------------


def test_a_second_writer_is_shown_the_holder_of_the_lock(folder: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    message = f"locked by process {os.getpid()} on .* stop it"
    with Writer(lake, create=Settings().to_record()), pytest.raises(LakeError, match=message):
        run_here(lake, folder)
    assert run_here(lake, folder).files == 2


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("format", "unsupported log format 99; .*: update wirelake"),
        ("schema", "version 99; .*: update wirelake"),
    ],
)
def test_a_newer_lake_is_left_alone(folder: Path, tmp_path: Path, field: str, words: str) -> None:
    lake = tmp_path / "lake"
    run_here(lake, folder)
    record = Log(lake).layout.record(1)
    text = record.read_text().rpartition(",")[0] + "}"  # without its checksum
    newer = re.sub(rf'"{field}": \d+', f'"{field}": 99', text, count=1)
    record.write_bytes(sealed(newer.encode()))
    before = sorted(lake.rglob("*"))
    with pytest.raises(LakeError, match=words):
        run_here(lake, folder)
    assert sorted(lake.rglob("*")) == before


def test_settings_are_those_of_the_lake(folder: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run_here(lake, folder, settings=Settings(reveal=True))
    with pytest.raises(LakeError, match="created with reveal = True, not False; use the same"):
        run_here(lake, folder, settings=Settings())
    assert run_here(lake, folder).commits == 0


def test_paths_that_are_not_folders(folder: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with pytest.raises(LakeError, match="no such folder of captures"):
        run_here(lake, tmp_path / "nowhere")
    assert not lake.exists()
    with pytest.raises(LakeError, match="not a lake and not empty; use another folder"):
        run_here(folder, folder)
    with pytest.raises(LakeError, match="not a folder"):
        run_here(folder / "tap-a-00000000.pcap", folder)


@pytest.mark.parametrize("table", ["calls", "traffic_minutes", "_delivery_parts"])
def test_a_step_reads_no_damaged_file_of_an_earlier_one(
    folder: Path, tmp_path: Path, table: str
) -> None:
    lake = tmp_path / "lake"
    files = discover(folder)
    with Writer(lake, create=Settings().to_record()) as writer:
        engine = Engine(LocalWorkers(), writer, Settings())
        engine.advance([files[0].consumed()])
        path = writer.layout.place(writer.snapshot.files(table)[0].path)
        whole = path.read_bytes()
        rest = [each.consumed() for each in files[1:]]
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(DamagedError, match=re.escape(f"{path}: damaged: its checksum")):
            engine.advance(rest)
        path.unlink()
        with pytest.raises(LakeError, match=re.escape(f"{path}: missing; the log lists")):
            engine.advance(rest)
        path.write_bytes(whole)
        assert engine.advance(rest) is not None
    assert unlike_engines(lake, [Path(each.path) for each in files]) == []


# -- full disks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot read the key log: No such file or directory"),
        ("nonsense\n", ", line 1: "),
    ],
)
def test_key_logs_are_checked_before_anything_is_created(
    folder: Path, tmp_path: Path, text: str | None, words: str
) -> None:
    keys = tmp_path / "keys"
    if text is not None:
        keys.write_text(text)
    with pytest.raises(LakeError, match=words):
        run_here(tmp_path / "lake", folder, keys=[str(keys)])
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("master", "step", "words"),
    [
        ("here", "decode", r"cannot write to the lake: .*; nothing was committed; free disk space"),
        ("here", "record", r"cannot write to .*/lake: .*; free disk space and run again"),
        pytest.param(
            None,
            "join",
            r"cannot write to the lake: .*; nothing was committed; free disk space",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_a_disk_that_is_full(
    folder: Path, tmp_path: Path, master: str | None, step: str, words: str
) -> None:
    disk, work = tmp_path / "disk", tmp_path / "work"
    disk.mkdir()
    work.mkdir()
    order = Order(lake=str(disk / "lake"), captures=str(folder), master=master, max_files=1)
    done = subprocess.run(
        full_disk.command(order, step),
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(work), "SPARK_LOCAL_DIRS": str(work)},
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    outcome = msgspec.json.decode(done.stdout, type=full_disk.Outcome)
    assert re.match(words, outcome.error)
    assert re.search("No space left on device|File too large", outcome.error)
    assert outcome.commit == 1
    assert outcome.problems == []
