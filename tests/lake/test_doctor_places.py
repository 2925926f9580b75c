"""Checks of folders, disks and ports."""

from __future__ import annotations

import errno
import socket
import tempfile
from pathlib import Path

import pytest

from wirelake.lake.doctor import Check, disk, lake_folder, port, write_problem


def test_a_folder_that_can_be_written_is_made_and_left_empty(tmp_path: Path) -> None:
    place = tmp_path / "not" / "yet"
    assert write_problem(place) is None
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EROFS, "is read-only"),
        (errno.EACCES, "is read-only"),
        (errno.ENOSPC, "is on a full disk"),
        (errno.EDQUOT, "is on a full disk"),
        (errno.EIO, "is not writable (Input/output error)"),
    ],
)
def test_problems_of_a_folder_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(number, "Input/output error")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    assert write_problem(tmp_path) == said


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert write_problem(tmp_path / "file") == "is not a folder"
    assert write_problem(tmp_path / "file" / "below") == "is not a folder"
    found = disk("lake", tmp_path / "file")
    assert (found.state, found.found) == ("failed", f"{tmp_path / 'file'} is not a folder")


def test_a_lake_that_is_not_there_yet_is_looked_for_above(tmp_path: Path) -> None:
    space, links = lake_folder(tmp_path / "a" / "b")
    assert space.found.endswith(f"({tmp_path})")
    assert links == Check("lake: links", "ok", "commits are atomic")
    assert list(tmp_path.iterdir()) == []


def test_a_port_without_a_listener_is_free() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        number = listener.getsockname()[1]
        assert port(number, "wait", "warning") == Check(
            f"port {number}", "warning", "in use", "wait"
        )
    assert port(number, "wait", "warning") == Check(f"port {number}", "ok", "free")
