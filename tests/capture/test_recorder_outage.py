"""A recorder whose disk is full for a while loses what crosses meanwhile, and says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wirelake.capture.format.items import Fact
from wirelake.capture.format.reader import read
from wirelake.capture.format.writer import sealed_files
from wirelake.capture.record.recorder import Lost, Recorder

from .outage import CLIENT, FRAME, LOST, SECOND, SERVER
from .small_captures import T0


def outage(folder: Path, kind: str) -> dict[str, Any]:
    """What the program tells; where no disk may be made, files that may not grow stand for it."""
    alone = ["unshare", "-rm"]
    mounting = [*alone, "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    if kind == "limit" or subprocess.run(mounting, check=False, capture_output=True).returncode:
        alone, kind = [], "limit"
    program = [sys.executable, "-m", "tests.capture.outage", str(folder), kind]
    found = subprocess.run(
        [*alone, *program], check=True, capture_output=True, text=True, timeout=60
    )
    assert found.stderr == ""
    result: dict[str, Any] = json.loads(found.stdout)
    return result


@pytest.mark.parametrize("kind", ["disk", "limit"])
def test_a_full_disk(tmp_path: Path, kind: str) -> None:
    result = outage(tmp_path, kind)
    assert len(set(result["reasons"])) == 1
    assert result["reasons"][0] in ("No space left on device", "File too large")
    assert (result["files"], result["open"]) == (
        ["edge-00000000.pcapng", "edge-00000001.pcapng"],
        0,
    )
    # What was in memory when the disk was full is written later; only what came then is missing.
    assert sorted(result["messages"]) == [1] * (1 + result["crossed"] + 1) + [2, 3]
    assert result["faults"] == [[1, "gap", LOST * len(FRAME)]]
    (lost,) = result["lost"]
    assert lost == {
        "since_ns": 3 * SECOND,
        "reason": result["reasons"][0],
        "frames": LOST,
        "bytes": LOST * len(FRAME),
        "facts": 1,
    }
    assert sorted(result["closed"]) == [[1, 8 * SECOND], [2, 4 * SECOND], [3, 8 * SECOND]]


def test_nothing_is_suspended_or_resumed_twice(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge")
    recorder.resume(T0)
    recorder.open(1, CLIENT, SERVER, "tny", T0)
    recorder.suspend(T0, "why")
    recorder.suspend(T0 + 5, "why else")
    recorder.record(1, "c2s", FRAME, T0 + 1)
    assert recorder.lost == Lost()
    recorder.resume(T0 + 2)
    recorder.resume(T0 + 3)
    assert recorder.lost == Lost(frames=1, bytes=len(FRAME))
    recorder.stop()
    assert [facts(path) for path in sealed_files(tmp_path)] == [["open"], ["lost"]]


def facts(path: Path) -> list[str]:
    return [item.kind for item in read(path) if isinstance(item, Fact)]


def test_it_ends_while_suspended(tmp_path: Path) -> None:
    """The disk may have room by then."""
    recorder = Recorder(tmp_path, source="edge", flush_bytes=1)
    recorder.open(1, CLIENT, SERVER, "tny", T0)
    recorder.suspend(T0, "why")
    recorder.close(1, T0 + 1, "eof")
    recorder.stop()
    first, second = sealed_files(tmp_path)
    assert facts(first) == ["open"]
    assert facts(second) == ["lost", "open", "close"]


def test_nothing_was_written_before(tmp_path: Path) -> None:
    """Then the file's number is taken again."""
    recorder = Recorder(tmp_path, source="edge")
    recorder.suspend(T0, "why")
    assert list(tmp_path.iterdir()) == []
    recorder.open(1, CLIENT, SERVER, "tny", T0 + 1)
    recorder.resume(T0 + 2)
    recorder.record(1, "c2s", FRAME, T0 + 3)
    recorder.stop()
    (path,) = sealed_files(tmp_path)
    assert (path.name, facts(path)) == ("edge-00000000.pcapng", ["lost", "open"])


def test_a_file_that_is_in_the_way_does_not_matter(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge", flush_bytes=1)
    recorder.open(1, CLIENT, SERVER, "tny", T0)
    recorder.suspend(T0, "why")
    (tmp_path / "edge-00000001.pcapng.open").touch()
    recorder.resume(T0 + 1)
    recorder.stop()
    names = [path.name for path in sealed_files(tmp_path)]
    assert names == ["edge-00000000.pcapng", "edge-00000002.pcapng"]


def test_a_file_that_was_removed_is_noticed_and_another_follows(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge")
    recorder.open(1, CLIENT, SERVER, "comet", T0)
    recorder.record(1, "c2s", FRAME, T0 + 1)
    recorder.flush()
    recorder.tick(T0 + 2)
    (removed,) = tmp_path.iterdir()
    assert removed.stat().st_mode & 0o007 == 0  # it has tokens
    removed.unlink()
    with pytest.raises(FileNotFoundError, match="the recording was removed"):
        recorder.tick(T0 + 3)
    recorder.suspend(T0 + 3, "removed")
    recorder.resume(T0 + 4)
    recorder.record(1, "c2s", FRAME, T0 + 5)
    recorder.tick(T0 + 6)
    recorder.stop()
    (sealed,) = sealed_files(tmp_path)
    facts = [each.kind for each in read(sealed) if isinstance(each, Fact)]
    assert "lost" in facts
