"""Which files are read: files, folders, globs and lists of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from wirelake.capture import Recorder
from wirelake.lake.datasource import paths
from wirelake.lake.datasource.paths import PathError

Make = Callable[..., list[str]]


def captures(asked: list[str]) -> list[str]:
    """The files of all captures."""
    return [each.path for files in paths.captures(asked) for each in files]


def sources(asked: list[str]) -> list[list[str]]:
    """The names of the files of each capture."""
    return [[each.name for each in files] for files in paths.captures(asked)]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes empty files; gives their names."""

    def made(*names: str) -> list[str]:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return [str(tmp_path / name) for name in names]

    return made


def test_a_file_is_read_with_any_name(make: Make) -> None:
    assert captures(make("capture")) == make("capture")


def test_a_folder_means_all_captures_below_it(make: Make, tmp_path: Path) -> None:
    wanted = make("a.pcap", "b.pcapng.gz", "below/e.pcap", "c.PCAP", "d.cap.zst")
    make("edge.pcapng.open", "truth.json", "edge.keys", ".pcap", ".hidden/f.pcap")
    assert captures([str(tmp_path)]) == wanted


def test_a_folder_and_a_glob_have_a_capture_for_each_source(make: Make, tmp_path: Path) -> None:
    make("tap-2.pcap", "tap-10.pcap", "monday.pcap", "rack/tap-1.pcap", "rack/tap-2.pcap")
    rack = ["tap-1.pcap", "tap-2.pcap"]
    tap = ["tap-2.pcap", "tap-10.pcap"]
    assert sources([str(tmp_path)]) == [["monday.pcap"], rack, tap]
    assert sources([f"{tmp_path}/**/tap*.pcap"]) == [rack, tap]
    assert sources([f"{tmp_path}/r*"]) == [rack]


def test_files_that_are_named_are_one_capture_in_their_order(make: Make, tmp_path: Path) -> None:
    first, second, third = make("x.pcap", "tap-1.pcap", "y")
    assert sources([third, first]) == [["y", "x.pcap"]]
    assert sources([f"{third},{second},{first}"]) == [["y", "tap-1.pcap", "x.pcap"]]
    assert sources([first, str(tmp_path)]) == [["x.pcap"], ["tap-1.pcap"]]


def test_globs(make: Make, tmp_path: Path) -> None:
    first, second, third = make("x1.pcap", "x2.pcap", "deep/x3.pcap")
    assert captures([f"{tmp_path}/x?.pcap"]) == [first, second]
    assert captures([f"{tmp_path}/**/x*.pcap"]) == [third, first, second]
    assert captures([f"{tmp_path}/*"]) == [third, first, second]
    assert captures([f"{tmp_path}/de*"]) == [third]


def test_lists_keep_their_order_and_name_each_file_once(make: Make, tmp_path: Path) -> None:
    first, second = make("1.pcap", "2.pcap")
    assert captures([f"{second}, {first},{second}"]) == [second, first]
    assert captures([second, str(tmp_path)]) == [second, first]


def test_a_name_with_a_comma_or_a_bracket_is_a_name(make: Make) -> None:
    names = make("a,b.pcap", "[x].pcap")
    assert captures(names) == names


def test_names_are_absolute(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = make("a.pcap")
    monkeypatch.chdir(tmp_path)
    assert captures(["a.pcap"]) == captures(["."]) == captures(["*.pcap"]) == wanted


def test_file_addresses(make: Make) -> None:
    wanted = make("a b.pcap")
    assert captures(["file://" + wanted[0].replace(" ", "%20")]) == wanted
    assert captures(["file:" + wanted[0]]) == wanted


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("s3://bucket/x.pcap", "unsupported scheme 's3'"),
        ("hdfs://head/x.pcap", "unsupported scheme 'hdfs'"),
        ("nowhere.pcap", "nowhere.pcap: no such file or folder"),
        ("nowhere/*.pcap", "no such file or folder"),
    ],
)
def test_what_cannot_be_read(path: str, said: str) -> None:
    with pytest.raises(PathError, match=said.replace("*", r"\*")):
        captures([path])


def test_a_folder_without_captures(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="no captures in this folder"):
        captures([str(tmp_path)])


def test_a_glob_of_folders_may_have_some_without_captures(make: Make, tmp_path: Path) -> None:
    [wanted] = make("one/a.pcap")
    (tmp_path / "two").mkdir()
    assert captures([f"{tmp_path}/*"]) == [wanted]


@pytest.mark.parametrize("path", ["{}", "{}/*"])
def test_unfinished_recordings_are_reported_or_read(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    make("day/a-0.pcapng", "day/b-0.pcapng.open", "day/c-0.pcapng", "day/c-0.pcapng.open")
    (tmp_path / "day" / "b-0.pcapng.open").write_bytes(b"x" * 1_234)
    asked = [path.format(tmp_path)]
    assert sources(asked) == [["a-0.pcapng"], ["c-0.pcapng"]]
    [notice] = caplog.messages
    assert "skipping 1 unfinished recording in " in notice
    assert notice.endswith(", 1,234 bytes; set include_open=true to read it")
    caplog.clear()
    found = paths.captures(asked, include_open=True)
    assert [each.path.rsplit("/")[-1] for files in found for each in files] == [
        "a-0.pcapng",
        "b-0.pcapng.open",
        "c-0.pcapng",
    ]
    assert not caplog.messages


def test_a_recording_that_is_being_written_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(str(tmp_path), source="edge")
    recorder.open(1, ("10.0.0.9", 51_000), ("10.0.0.1", 9_620), "comet", 10**18)
    try:
        with pytest.raises(PathError, match="no captures in this folder"):
            paths.captures([str(tmp_path)], include_open=True)
    finally:
        recorder.stop()
    assert "skipping 1 unfinished recording in " in caplog.text
    assert "wait until the recorder has completed it" in caplog.text


def test_no_path_at_all() -> None:
    with pytest.raises(PathError, match="no path"):
        captures([])
