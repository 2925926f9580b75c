"""Which captures are read next: sources and sequences, sealed files, gaps, late files."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from wirelake.capture import Recorder
from wirelake.capture.tools.repair import repaired_name
from wirelake.tables.inputs import (
    Admission,
    Capture,
    Watch,
    admit,
    check_readable,
    discover,
    unchanged,
)
from wirelake.tables.names import in_order
from wirelake.tables.paths import LakeError
from wirelake.tables.snapshot import Snapshot, Source

from .made_lakes import SECOND

NOW = 1_700_000_000 * SECOND


def made(folder: Path, *names: str) -> None:
    """Empty files."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def recording(folder: Path, source: str, sequence: int) -> Path:
    """A recording of one connection."""
    recorder = Recorder(folder, source=source, sequence=sequence)
    recorder.open(1, ("10.0.0.9", 51_000), ("10.0.0.1", 9_620), "comet", NOW)
    path = recorder.stop()
    assert path is not None
    return path


def named(captures: list[Capture]) -> dict[str, tuple[str, int]]:
    """Source and sequence by name."""
    return {each.name: (each.source, each.sequence) for each in captures}


# -- looking -----------------------------------------------------------------------------------


def test_names_contain_source_and_sequence(tmp_path: Path) -> None:
    wanted = {
        "tap-a-00000007.pcap": ("tap-a", 7),
        "tap_8.PCAPNG": ("tap", 8),
        "tap.9.cap.gz": ("tap", 9),
        "tap10.ntar.zst": ("tap", 10),
        "11.pcap": ("", 11),
        "tap-12345678901234567.pcap": ("tap", 12_345_678_901_234_567),
        # Ordered by their packets, of which they have none (`test_names.py`).
        "monday.pcap": ("monday.pcap", 0),
        "trace.pcap2": ("trace.pcap2", 0),
        "tap-20240131235959.pcap": ("tap-20240131235959.pcap", 0),
    }
    made(tmp_path, *wanted)
    made(tmp_path, "edge-3.pcapng.open", ".hidden-1.pcap", "notes.txt", "keys.log", ".git/x-1.pcap")
    (tmp_path / "folder.pcap").mkdir()
    assert named(discover(tmp_path)) == wanted


def test_folders_below_are_part_of_the_source(tmp_path: Path) -> None:
    made(tmp_path, "rack1/tap-a-3.pcap", "rack1/deep/tap-a-3.pcap", "tap-a-3.pcap")
    assert [each.source for each in discover(tmp_path)] == [
        "rack1/deep/tap-a", "rack1/tap-a", "tap-a",
    ]  # fmt: skip


def test_a_recording_describes_itself(tmp_path: Path) -> None:
    path = recording(tmp_path, "edge-1", 4)
    path.rename(tmp_path / "renamed-99.pcapng")
    (tmp_path / "below").mkdir()
    packed = gzip.compress(recording(tmp_path / "below", "edge-2", 6).read_bytes())
    (tmp_path / "copy.pcapng.gz").write_bytes(packed)
    found = {each.name: each for each in discover(tmp_path)}
    assert named(list(found.values())) == {
        "renamed-99.pcapng": ("edge-1", 4),
        "edge-2-00000006.pcapng": ("below/edge-2", 6),
        "copy.pcapng.gz": ("edge-2", 6),
    }
    assert all(each.is_recording for each in found.values())
    status = (tmp_path / "renamed-99.pcapng").stat()
    first = found["renamed-99.pcapng"]
    assert (first.bytes, first.mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert first.path == str(tmp_path / "renamed-99.pcapng")


def test_a_file_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording(tmp_path, "edge", 0)
    made(tmp_path, "tap-1.pcap")
    opened_paths: list[str] = []
    from wirelake.tables import inputs

    original = inputs.contents
    monkeypatch.setattr(
        inputs, "contents", lambda path, at: opened_paths.append(path) or original(path, at)
    )
    watch = Watch(tmp_path)
    first = watch.look()
    assert watch.look() == first
    assert len(opened_paths) == 2
    os.utime(tmp_path / "tap-1.pcap", ns=(5, 5))
    watch.look()
    assert opened_paths[2:] == [str(tmp_path / "tap-1.pcap")]


@pytest.mark.parametrize("name", ["tap.pcap", "tap.pcap.gz", "edge-00000000.pcapng"])
def test_a_repaired_copy_beside_the_damaged_capture_is_not_read_as_well(
    tmp_path: Path, name: str
) -> None:
    damaged = tmp_path / name
    damaged.write_bytes(b"damaged")
    copy = repaired_name(damaged)
    copy.write_bytes(b"repaired")
    assert [each.path for each in Watch(tmp_path).look()] == [str(damaged)]
    assert in_order(tmp_path) == [str(damaged)]
    damaged.unlink()
    assert [each.path for each in Watch(tmp_path).look()] == [str(copy)]
    assert in_order(tmp_path) == [str(copy)]


def test_recordings_that_are_not_sealed_are_counted_and_read_when_asked(tmp_path: Path) -> None:
    recording(tmp_path, "edge", 0)
    left = recording(tmp_path, "edge", 1).rename(tmp_path / "edge-00000001.pcapng.open")
    repaired = tmp_path / "edge-00000000.pcapng.open"
    repaired.write_bytes(b"its copy is there")
    writing = Recorder(tmp_path, source="edge", sequence=2)
    watch = Watch(tmp_path)
    assert [each.sequence for each in watch.look()] == [0]
    assert [Path(each.path) for each in watch.open] == [left, writing._output.path]
    assert watch.open[0].bytes == left.stat().st_size > 0
    asked = Watch(tmp_path, include_open=True)
    found = asked.look()
    assert [(each.sequence, each.path) for each in found][1:] == [(1, str(left))]
    assert [Path(each.path) for each in asked.open] == [writing._output.path]
    writing.stop()
    # When it is sealed later, it is known.
    snapshot = Snapshot()
    snapshot.sources["edge"] = Source()
    for each in found:
        snapshot.sources["edge"].add(each.consumed())
    left.rename(tmp_path / "edge-00000001.pcapng")
    admission = admit(watch.look(), snapshot, NOW)
    assert (admission.admitted, admission.refused, admission.waiting) == ([], [], [])


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no such folder of captures"):
        discover(tmp_path / "nothing")


def test_a_file_that_grows_is_not_still() -> None:
    before = [capture(0), capture(1), capture(2)]
    after = [capture(0), capture(1, size=20), capture(2, age_s=1), capture(3)]
    assert unchanged(before, after) == {capture(0).path}


# -- admitting ---------------------------------------------------------------------------------


def capture(
    sequence: int,
    source: str = "tap",
    *,
    age_s: float = 60,
    size: int = 10,
    recorded: bool = False,
    name: str = "",
) -> Capture:
    """A capture that was last written to some time ago."""
    return Capture(
        source=source,
        sequence=sequence,
        path=f"/captures/{name or f'{source}-{sequence}.pcap'}",
        bytes=size,
        mtime_ns=NOW - int(age_s * SECOND),
        ordered_by="recording" if recorded else "number",
    )


def lake_with(*captures: Capture, fault: str | None = None) -> Snapshot:
    """A lake that has read these."""
    found = Snapshot()
    for each in captures:
        found.sources.setdefault(each.source, Source()).add(each.consumed(fault))
    return found


def numbers(admission: Admission) -> list[int]:
    """The sequences of what is read next."""
    return [each.sequence for each in admission.admitted]


def reasons(admission: Admission) -> dict[int, str]:
    """Why others wait, by sequence."""
    return {each.sequence: why for each, why in admission.waiting}


EMPTY = Snapshot()


@pytest.mark.parametrize("first", [0, 1])
def test_counting_begins_with_0_or_1(first: int) -> None:
    found = admit([capture(first + at) for at in (2, 0, 1)], EMPTY, NOW)
    assert numbers(found) == [first, first + 1, first + 2]
    assert not found.refused
    assert not found.waiting


def test_what_does_not_begin_waits_for_what_is_missing() -> None:
    found = admit([capture(2), capture(3)], EMPTY, NOW)
    assert numbers(found) == []
    assert reasons(found) == {2: "sequence 1 is missing", 3: "after tap-2.pcap"}
    assert numbers(admit([capture(2), capture(3)], lake_with(capture(1)), NOW)) == [2, 3]


def test_a_gap_is_waited_for_until_the_lateness_bound() -> None:
    files = [capture(1), capture(3, age_s=599), capture(4)]
    found = admit(files, lake_with(capture(0)), NOW)
    assert numbers(found) == [1]
    assert reasons(found) == {3: "sequence 2 is missing", 4: "after tap-3.pcap"}
    assert numbers(admit(files, lake_with(capture(0)), NOW + SECOND)) == [1, 3, 4]
    assert numbers(admit(files, lake_with(capture(0)), NOW, lateness_s=60)) == [1, 3, 4]


def test_a_file_that_may_grow_waits() -> None:
    files = [capture(0, age_s=1), capture(1, age_s=9)]
    found = admit(files, EMPTY, NOW)
    assert numbers(found) == [0]  # a later one is there, so this one is complete
    assert reasons(found) == {1: "may still be growing"}
    assert numbers(admit(files, EMPTY, NOW + SECOND)) == [0, 1]
    assert numbers(admit(files, EMPTY, NOW, settle_s=5)) == [0, 1]
    assert numbers(admit(files, EMPTY, NOW, still=frozenset({files[1].path}))) == [0, 1]
    assert numbers(admit([capture(0, age_s=0, recorded=True)], EMPTY, NOW)) == [0]


@pytest.mark.parametrize(
    "sequences",
    [(20_240_101_230_000, 20_240_102_000_000), (1_700_000_000, 1_700_000_300), (0, 1_000_001)],
)
def test_dates_do_not_count(sequences: tuple[int, int]) -> None:
    assert numbers(admit([capture(each) for each in sequences], EMPTY, NOW)) == list(sequences)
    first, second = map(capture, sequences)
    assert numbers(admit([second], lake_with(first), NOW)) == [sequences[1]]


def test_sources_have_nothing_to_do_with_each_other() -> None:
    found = admit(
        [capture(5, "b"), capture(0, "c"), capture(3, "a")], lake_with(capture(2, "a")), NOW
    )
    assert [(each.source, each.sequence) for each in found.admitted] == [("a", 3), ("c", 0)]
    assert reasons(found) == {5: "sequence 4 is missing"}


def test_a_late_file_is_refused_once() -> None:
    lake = lake_with(capture(0), capture(2), capture(3))
    twin = capture(3, name="copy-of-3.pcap")
    found = admit([capture(0), capture(1), capture(2), capture(3), twin, capture(4)], lake, NOW)
    assert numbers(found) == [4]
    assert [(each.name, each.fault) for each in found.refused] == [
        ("tap-1.pcap", "late_file"), ("copy-of-3.pcap", "late_file"),
    ]  # fmt: skip
    for each in found.refused:
        lake.sources["tap"].add(each)
    again = admit([capture(1), capture(3), twin, capture(4)], lake, NOW)
    assert numbers(again) == [4]
    assert not again.refused


def test_of_two_new_ones_with_one_sequence_one_is_late() -> None:
    found = admit([capture(0), capture(0, name="a.pcap.gz"), capture(1)], EMPTY, NOW)
    assert [each.name for each in found.admitted] == ["a.pcap.gz", "tap-1.pcap"]
    assert [each.name for each in found.refused] == ["tap-0.pcap"]


def test_a_file_that_grew_after_it_was_read_is_late_once() -> None:
    lake = lake_with(capture(0))
    grown = capture(0, size=11)
    (refused,) = admit([grown], lake, NOW).refused
    assert (refused.fault, refused.bytes) == ("late_file", 11)
    lake.sources["tap"].add(refused)
    assert admit([capture(0, size=12)], lake, NOW) == Admission()
    assert admit([capture(0, age_s=1)], lake_with(capture(0)), NOW) == Admission()  # touched
    assert lake.sources["tap"].last == 0


def test_a_folder_that_moved_is_known_again() -> None:
    elsewhere = [
        Capture(source="tap", sequence=at, path=f"/moved/tap-{at}.pcap", bytes=10, mtime_ns=NOW)
        for at in (0, 1)
    ]
    assert admit(elsewhere, lake_with(capture(0), capture(1)), NOW) == Admission()


def test_how_far_to_go() -> None:
    files = [capture(0, "a"), capture(1, "a"), capture(2, "a"), capture(0, "b")]
    found = admit(files, EMPTY, NOW, up_to={"a": 1})
    assert [(each.source, each.sequence) for each in found.admitted] == [("a", 0), ("a", 1)]
    assert {why for _, why in found.waiting} == {"not requested yet"}


def test_how_much_at_a_time() -> None:
    files = [
        capture(0, "a", age_s=100), capture(1, "a", age_s=200), capture(0, "b", age_s=150),
        capture(1, "b", age_s=50),
    ]  # fmt: skip

    def taken(**limits: int) -> list[tuple[str, int]]:
        found = admit(files, EMPTY, NOW, **limits)  # type: ignore[arg-type]
        assert len(found.admitted) + len(found.waiting) == len(files)
        assert all(why == "next step" for _, why in found.waiting)
        return [(each.source, each.sequence) for each in found.admitted]

    assert taken(max_files=1) == [("b", 0)]
    assert taken(max_files=3) == [("a", 0), ("a", 1), ("b", 0)]
    assert taken(max_bytes=25) == [("a", 0), ("b", 0)]
    assert taken(max_bytes=1) == [("b", 0)]
    assert taken(max_files=9, max_bytes=100) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_what_cannot_be_opened_has_had_its_turn(tmp_path: Path) -> None:
    made(tmp_path, "tap-0.pcap", "tap-1.pcap", "tap-2.pcap")
    found = admit(discover(tmp_path), EMPTY, NOW, still=frozenset({str(tmp_path / "tap-2.pcap")}))
    (tmp_path / "tap-0.pcap").unlink()
    (tmp_path / "tap-1.pcap").unlink()
    (tmp_path / "tap-1.pcap").mkdir()  # as good as a file that may not be read
    looked = check_readable(found)
    assert numbers(looked) == [2]
    assert [each.fault for each in looked.refused] == ["vanished_file", "unreadable_file"]
    lake = Snapshot()
    lake.sources["tap"] = Source()
    for each in looked.refused:
        lake.sources["tap"].add(each)
    assert lake.sources["tap"].last == 1
