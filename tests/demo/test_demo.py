"""`wirelake demo` as its users run it, at a small size: what it finds is the truth, what it offers
works, and nothing is left of it, however it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.demo.demo_process import SMALL, STEPS, started
from tests.demo.interrupts import interrupted

from wirelake.cli.demo.report import commands
from wirelake.cli.demo.run import Kept
from wirelake.lake.verify.verify import verify
from wirelake.tables import parquet as reading


def test_figures_are_true_and_what_is_kept_can_be_tried(tmp_path: Path) -> None:
    options = (*SMALL, "--keep", str(tmp_path / "kept"), "--html", "page.html")
    with started(tmp_path, *options) as demo:
        assert demo.wait_for("can read the folder", lambda: demo.out), demo.err
        assert [line[:8] for line in demo.err.splitlines()][:4] == [each[:8] for each in STEPS[:4]]
        (figures,) = re.findall("All figures match the truth: ([0-9,]+)", demo.out)
        assert int(figures.replace(",", "")) > 300
        pasted = _pasted(demo.out)
        addresses = _addresses(demo.out)
        assert pasted == commands(Kept(demo.kept, addresses))
        _try(tmp_path, pasted)
        demo.send(signal.SIGINT)
        assert demo.wait() == 0, demo.err
        assert demo.left_over() == []
    assert demo.err.splitlines()[-1] == f"ended; recordings, lake and truth are in {demo.kept}"
    assert (tmp_path / "page.html").read_text("utf-8").endswith("</html>\n")
    lake = demo.kept / "lake"
    for table in ("calls", "deliveries", "connections", "tunnels", "faults"):
        assert reading.table(lake, table).num_rows > 0, table
    protocols = set(reading.table(lake, "messages", columns=["protocol"])["protocol"].to_pylist())
    assert protocols >= {"comet", "esnp", "tny", "relay", "magline"}
    assert verify(lake, shares=1).findings() == []
    assert sorted(each.name for each in demo.kept.iterdir()) == [
        "hub", "hub.toml", "lake", "recordings", "truth"
    ]  # fmt: skip


@pytest.mark.soak
def test_json(tmp_path: Path) -> None:
    with started(tmp_path, *SMALL, "--json", "--html", "page.html") as demo:
        assert demo.wait() == 0, demo.err
        assert demo.left_over() == []
    assert [line[:8] for line in demo.err.splitlines()] == [each[:8] for each in STEPS]
    found = json.loads(demo.out)
    assert found["differences"] == []
    assert found["figures"] > 300
    report = found["report"]
    protocols = {each["protocol"] for each in report["protocols"]}
    assert protocols >= {"comet", "esnp", "tny", "relay", "magline"}
    for part in ("calls", "deliveries", "connections", "tunnels", "faults"):
        assert report["overview"][part] > 0, part
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "err.txt", "out.txt", "page.html", "temporary files"
    ]  # fmt: skip


def _pasted(out: str) -> list[str]:
    """Return the commands in the closing text."""
    lines = out.partition("in another terminal:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in lines.splitlines()]


def _addresses(out: str) -> dict[str, str]:
    lines = out.partition("until Ctrl-C.\n")[2].partition("\n\n")[0]
    return dict(line.split() for line in lines.splitlines())


def _try(folder: Path, pasted: list[str]) -> None:
    """Run the commands as a user would, with `tail` in a second terminal."""
    top, tail, *others = pasted
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = "\n".join(
        [
            "set -eu",
            f"{top} --once > top.txt",
            f"{tail} -n 1 --json > tail.txt & tail=$!",
            # A call is seen only by who reads already: call until the reader has enough.
            *others,
            f"while kill -0 $tail 2>/dev/null; do {others[1]} > again.txt; done",
            "wait $tail",
        ]
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "c = 3\n" in done.stdout
    assert json.loads((folder / "tail.txt").read_text())["protocol"] == "esnp"
    assert "test/" in done.stdout


@pytest.mark.parametrize(
    ("step", "after_s", "number"),
    [
        ("starting Spark", 1.5, signal.SIGHUP),
        ("simulating traffic", 2.0, signal.SIGINT),
    ],
)
def test_nothing_is_left_of_one_that_was_interrupted(
    tmp_path: Path, step: str, after_s: float, number: int
) -> None:
    in_time, problems = interrupted(tmp_path / "demo", step, after_s, number)
    assert problems == []
    assert in_time


def test_commands_that_are_offered_can_be_pasted() -> None:
    kept = Kept(Path("/a b"), {"esnp": "127.0.0.1:1", "admin": "127.0.0.1:2"})
    assert all(shlex.split(each) for each in commands(kept))
