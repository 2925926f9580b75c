"""Sources and order of captures: names of tcpdump, dumpcap and people, and patterns."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wirelake.capture.format.writer import PcapWriter
from wirelake.cli.options import captures
from wirelake.tables.inputs import Capture, admit, discover
from wirelake.tables.names import Names, first_ns, in_order
from wirelake.tables.paths import LakeError
from wirelake.tables.snapshot import Input, Snapshot

from .made_lakes import SECOND

START = 1_767_621_600 * SECOND
"""2026-01-05 14:00 UTC."""
NOW = START + 86_400 * SECOND


def packets(path: Path, *seconds: float, age_s: float = 3_600) -> Path:
    """A capture with packets at some seconds after the start."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        writer = PcapWriter(out)
        for each in seconds:
            writer.packet(START + int(each * SECOND), b"\0" * 60)
    os.utime(path, ns=(NOW - int(age_s * SECOND),) * 2)
    return path


def placed(folder: Path, pattern: str | None = None) -> dict[str, list[str]]:
    """Names by source, in order."""
    found: dict[str, list[str]] = {}
    for each in discover(folder, pattern):
        found.setdefault(each.source, []).append(each.name)
    return found


SEQUENCES = {
    "tcpdump -C": ["eth0.pcap", "eth0.pcap1", "eth0.pcap2", "eth0.pcap10"],
    "tcpdump -C, other names": ["run1.pcap", "run1.pcap1", "run1.pcap2"],
    "tcpdump -W, second turn": ["ring.pcap2", "ring.pcap0", "ring.pcap1"],
    "dashes": ["tap-2026-01-05_14-00-00.pcap", "tap-2026-01-05_15-00-00.pcap"],
    "over midnight": [
        "tap-20260105-235800.pcap",
        "tap-20260105-235900.pcap",
        "tap-20260106-000000.pcap",
    ],
    "ISO 8601": ["tap-2026-01-05T14:00:00Z.pcapng.gz", "tap-2026-01-05T15:00:00Z.pcapng.gz"],
    "the clock went back": ["tap-20261025-0230.pcap", "tap-20261025-0200.pcap"],
    "hours": ["tap.2026-01-05.14.pcap", "tap.2026-01-05.15.pcap"],
    "date and count": [
        "tap_20260105_00009.pcap",
        "tap_20260105_00010.pcap",
        "tap_20260106_00001.pcap",
    ],
    "seconds since 1970": ["tap-1767621600.pcap", "tap-1767625200.pcap"],
    "date first": ["2026-01-05-tap.pcap", "2026-01-06-tap.pcap"],
    "dumpcap was restarted": ["tap_00009_20260105140000.pcap", "tap_00001_20260105150000.pcap"],
}


@pytest.mark.parametrize("names", SEQUENCES.values(), ids=SEQUENCES)
def test_names_of_one_capture_are_one_source_in_order(names: list[str], tmp_path: Path) -> None:
    for at, name in enumerate(names):
        packets(tmp_path / name, at * 60)
    ((source, found),) = placed(tmp_path).items()
    assert found == names
    assert "20" not in source
    admission = admit(discover(tmp_path), Snapshot(), NOW)
    assert [each.name for each in admission.admitted] == names
    assert not admission.waiting
    assert [Path(each).name for each in in_order(tmp_path)] == names


def test_interfaces_are_sources(tmp_path: Path) -> None:
    for at, name in enumerate(("eth0.pcap", "eth1.pcap", "tap-ens3.pcap", "tap-ens4.pcap")):
        packets(tmp_path / name, at)
    assert list(placed(tmp_path)) == ["eth0", "eth1", "tap-ens3", "tap-ens4"]


def test_what_orders_a_source_is_known(tmp_path: Path) -> None:
    packets(tmp_path / "tap-1.pcap", 0)
    packets(tmp_path / "eth0.pcap3", 7)
    packets(tmp_path / "a7b.pcap", 0)
    found = {
        each.name: each for each in discover(tmp_path, r"(?P<source>a)(?P<sequence>\d)b\.pcap")
    }
    assert {name: (each.sequence, each.ordered_by) for name, each in found.items()} == {
        "tap-1.pcap": (1, "number"),
        "eth0.pcap3": (START + 7 * SECOND, "time"),
        "a7b.pcap": (7, "pattern"),
    }
    assert found["eth0.pcap3"].consumed().ordered_by == "time"


def test_a_wrong_first_time_does_not_make_later_files_late(tmp_path: Path) -> None:
    packets(tmp_path / "tap.pcap", 900 * 86_400, 5, 6)
    packets(tmp_path / "tap.pcap1", 10)
    assert placed(tmp_path) == {"tap": ["tap.pcap", "tap.pcap1"]}
    assert first_ns(tmp_path / "tap.pcap") == START + 900 * 86_400 * SECOND


def test_captures_without_times_are_ordered_by_their_names(tmp_path: Path) -> None:
    for number in (2, 10, 1):
        with (tmp_path / f"tap.pcap{number}").open("wb") as out:
            PcapWriter(out).packet(0, b"\0" * 60)
    assert placed(tmp_path) == {"tap": ["tap.pcap1", "tap.pcap2", "tap.pcap10"]}


def test_a_capture_without_packets_holds_nothing_up(tmp_path: Path) -> None:
    packets(tmp_path / "tap.pcap", 5)
    lake = read(Snapshot(), *discover(tmp_path))
    packets(tmp_path / "tap.pcap1")
    (empty,) = admit(discover(tmp_path), lake, NOW).admitted
    assert empty.name == "tap.pcap1"
    packets(tmp_path / "tap.pcap1", 9)
    packets(tmp_path / "tap.pcap2", 12)
    lake = read(lake, empty)
    admission = admit(discover(tmp_path), lake, NOW)
    assert [each.name for each in admission.admitted] == ["tap.pcap1", "tap.pcap2"]
    assert not admission.refused


def read(lake: Snapshot, *captures: Capture | Input) -> Snapshot:
    """The lake after it has read some captures."""
    lake._consume([each.consumed() if isinstance(each, Capture) else each for each in captures])
    return lake


# -- ring buffers --------------------------------------------------------------------------------


def test_a_file_that_is_written_again_is_a_new_capture(tmp_path: Path) -> None:
    lake = Snapshot()
    for turn in range(3):
        for number in range(3):
            packets(tmp_path / f"ring.pcap{number}", turn * 30 + number * 10, age_s=60 - turn)
            admission = admit(discover(tmp_path), lake, NOW)
            assert [each.name for each in admission.admitted] == [f"ring.pcap{number}"]
            assert not admission.refused
            lake = read(lake, *admission.admitted)
    assert admit(discover(tmp_path), lake, NOW).admitted == []
    assert len(lake.sources["ring"].inputs) == 9


def test_a_number_in_a_name_is_waited_for(tmp_path: Path) -> None:
    packets(tmp_path / "tap.pcap", 0)
    packets(tmp_path / "tap.pcap2", 20, age_s=60)
    found = admit(discover(tmp_path), Snapshot(), NOW)
    assert [each.name for each in found.admitted] == ["tap.pcap"]
    assert [why for _, why in found.waiting] == ["number 1 is missing"]
    lake = read(Snapshot(), *found.admitted)
    packets(tmp_path / "tap.pcap1", 10)
    (tmp_path / "tap.pcap").unlink()  # what was read may be deleted
    found = admit(discover(tmp_path), lake, NOW)
    assert [each.name for each in found.admitted] == ["tap.pcap1", "tap.pcap2"]
    lake = read(lake, *found.admitted)
    (tmp_path / "tap.pcap2").unlink()
    packets(tmp_path / "tap.pcap3", 30, age_s=60)
    assert [each.name for each in admit(discover(tmp_path), lake, NOW).admitted] == ["tap.pcap3"]


# -- lakes of an older version -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "source", "sequence"),
    [
        ("eth0.pcap", "eth", 0),
        ("eth0.pcap1", "eth0", 1),
        ("tap-20260105-235800.pcap", "tap-20260105", 235_800),
        ("tap-2026-01-05_14-00-00.pcap", "tap-2026-01-05_14-00", 0),
        ("tap_00012_20260105140000.pcapng", "tap", 12),
        ("rack1/tap-20260105.pcap", "rack1/tap", 20_260_105),
    ],
)
def test_what_an_older_version_has_read_is_not_read_again(
    name: str, source: str, sequence: int, tmp_path: Path
) -> None:
    path = packets(tmp_path / name, 0)
    size = path.stat().st_size
    old = Input(source=source, sequence=sequence, path=f"/elsewhere/{name}", bytes=size, mtime_ns=7)
    lake = read(Snapshot(), old)
    admission = admit(discover(tmp_path), lake, NOW)
    assert (admission.admitted, admission.refused) == ([], [])


def test_the_place_of_a_file_may_change(tmp_path: Path) -> None:
    packets(tmp_path / "run1.pcap", 0)
    assert placed(tmp_path) == {"run": ["run1.pcap"]}
    lake = read(Snapshot(), *discover(tmp_path))
    packets(tmp_path / "run1.pcap1", 10)
    assert placed(tmp_path) == {"run1": ["run1.pcap", "run1.pcap1"]}
    assert [each.name for each in admit(discover(tmp_path), lake, NOW).admitted] == ["run1.pcap1"]


# -- patterns ------------------------------------------------------------------------------------


def test_a_pattern_gives_names_a_meaning(tmp_path: Path) -> None:
    for at, name in enumerate(("b.monday.pcap", "a.tuesday.pcap", "x-1.pcap")):
        packets(tmp_path / name, at)
    assert len(placed(tmp_path)) == 3
    found = placed(tmp_path, r"[ab]\.\w+(?P<source>day)\.pcap")
    assert found == {"day": ["b.monday.pcap", "a.tuesday.pcap"], "x": ["x-1.pcap"]}


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("(", "invalid source pattern '\\('"), (r"\d+", "expected a group source")],
)
def test_an_invalid_pattern_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(LakeError, match=said):
        Names(pattern)


def test_commands_read_a_folder_in_the_same_order(tmp_path: Path) -> None:
    for at, name in enumerate(("eth0.pcap", "eth0.pcap1", "eth0.pcap2", "eth0.pcap10")):
        packets(tmp_path / name, at * 60)
    packets(tmp_path / "notes.txt", 0)
    found = captures([str(tmp_path)])
    assert [Path(each).name for each in found] == [
        "eth0.pcap", "eth0.pcap1", "eth0.pcap2", "eth0.pcap10",
    ]  # fmt: skip
