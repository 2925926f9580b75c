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
import time
from pathlib import Path

import pytest
from tests.demo.demo_process import SMALL, STEPS, started
from tests.demo.interrupts import interrupted
from tests.docs.page_runner import ROOT, run_page

from wirelake.cli.demo.hub import DemoHub
from wirelake.cli.demo.report import commands
from wirelake.cli.demo.run import RunningDemo
from wirelake.lake.verify.verify import verify
from wirelake.tables import parquet as reading

TUTORIAL = ROOT / "docs" / "tutorial.md"


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the tutorial ran `wirelake demo --keep`, and what was printed."""
    folder = tmp_path_factory.mktemp("tutorial")
    return folder, run_page(TUTORIAL, folder)


def test_figures_are_true(tutorial: tuple[Path, str]) -> None:
    folder, output = tutorial
    (figures,) = re.findall("All figures match the truth: ([0-9,]+)", output)
    assert int(figures.replace(",", "")) > 300
    assert (folder / "wirelake-demo.html").read_text("utf-8").endswith("</html>\n")
    assert "ended; recordings, lake and truth are in wirelake-demo\n" in output
    kept = folder / "wirelake-demo"
    for table in ("calls", "deliveries", "connections", "tunnels", "faults"):
        assert reading.table(kept / "lake", table).num_rows > 0, table
    messages = reading.table(kept / "lake", "messages", columns=["protocol"])
    assert {*messages["protocol"].to_pylist()} >= {"comet", "esnp", "tny", "relay", "magline"}
    assert verify(kept / "lake", shares=1).findings() == []
    assert sorted(each.name for each in kept.iterdir()) == [
        "hub", "hub.toml", "lake", "recordings", "truth"
    ]  # fmt: skip


def test_commands_that_are_offered_work(
    tutorial: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    folder, output = tutorial
    kept = folder / "wirelake-demo"
    offered = _offered(output)
    assert offered == commands(RunningDemo(kept, _addresses(output)))
    hub = DemoHub(tmp_path, tmp_path, any_port=True)
    (tmp_path / "lake").symlink_to(kept / "lake")
    hub.start()
    try:
        while not hub.is_ready():
            time.sleep(0.05)
        _try(tmp_path, commands(RunningDemo(tmp_path, hub.addresses)))
        hub.stop()
    finally:
        hub.end()


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


def _offered(out: str) -> list[str]:
    """Return the commands in the closing text."""
    lines = out.partition("in another terminal:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in lines.splitlines()]


def _addresses(out: str) -> dict[str, str]:
    lines = out.partition("until Ctrl-C.\n")[2].partition("\n\n")[0]
    return dict(line.split() for line in lines.splitlines())


def _try(folder: Path, offered: list[str]) -> None:
    """Run the commands as a user would, with `tail` in a second terminal."""
    top, tail, sign_on, call, *others = offered
    script = "\n".join(
        [
            "set -eu",
            f"{top} --once > top.txt",
            sign_on,
            f"{tail} -n 1 --json > tail.txt & tail=$!",
            # A reader that is left behind would keep this script's pipes open.
            "trap 'kill $tail 2>/dev/null || true' EXIT",
            call,
            # What the demo kept has finished recordings; this hub has just begun its first.
            f"until compgen -G 'recordings/*.pcapng'; do {call} > again.txt; done",
            *others,
            # A call is seen only by who reads already: call until the reader has enough.
            f"while kill -0 $tail 2>/dev/null; do {call} > again.txt; done",
            "wait $tail",
        ]
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
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
        pytest.param("simulating traffic", 2.0, signal.SIGINT, marks=pytest.mark.soak),
    ],
)
def test_nothing_is_left_of_one_that_was_interrupted(
    tmp_path: Path, step: str, after_s: float, number: int
) -> None:
    in_time, problems = interrupted(tmp_path / "demo", step, after_s, number)
    assert problems == []
    assert in_time


def test_commands_that_are_offered_can_be_pasted() -> None:
    kept = RunningDemo(Path("/a b"), {"esnp": "127.0.0.1:1", "admin": "127.0.0.1:2"})
    assert all(shlex.split(each) for each in commands(kept))
