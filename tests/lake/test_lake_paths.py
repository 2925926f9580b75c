"""Which files are read: files, folders, globs and lists of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from wirehouse.lake.paths import PathError, captures

Make = Callable[..., list[str]]


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


def test_a_file_is_read_whatever_its_name(make: Make) -> None:
    assert captures(make("capture")) == make("capture")


def test_a_folder_stands_for_its_captures_by_name(make: Make, tmp_path: Path) -> None:
    wanted = make("a.pcap", "b.pcapng.gz", "c.PCAP", "d.cap.zst")
    make("edge.pcapng.open", "truth.json", "edge.keys", "below/e.pcap", ".pcap")
    assert captures([str(tmp_path)]) == wanted


def test_globs(make: Make, tmp_path: Path) -> None:
    first, second, third = make("x1.pcap", "x2.pcap", "deep/x3.pcap")
    assert captures([f"{tmp_path}/x?.pcap"]) == [first, second]
    assert captures([f"{tmp_path}/**/x*.pcap"]) == [third, first, second]
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
        ("s3://bucket/x.pcap", "captures are read from mounted folders, not from s3:"),
        ("hdfs://head/x.pcap", "captures are read from mounted folders, not from hdfs:"),
        ("nowhere.pcap", "nowhere.pcap: there is no such file or folder"),
        ("nowhere/*.pcap", "there is no such file or folder"),
    ],
)
def test_what_cannot_be_read(path: str, said: str) -> None:
    with pytest.raises(PathError, match=said.replace("*", r"\*")):
        captures([path])


def test_a_folder_without_captures(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="no captures in this folder"):
        captures([str(tmp_path)])


def test_no_path_at_all() -> None:
    with pytest.raises(PathError, match="no path"):
        captures([])
