"""Ctrl-C while other processes work for a command: one exit code, no word, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.capture.small_captures import small_pcap

from .conftest import SOURCES

pytestmark = pytest.mark.slow


def _heed_interrupts() -> None:
    # Tests that run in the background inherit an ignored SIGINT; a person's shell does not.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _has_children(process: subprocess.Popen[bytes], _: Path) -> bool:
    return bool(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())


def _has_captures(_: subprocess.Popen[bytes], folder: Path) -> bool:
    return any(folder.glob("*.pcap*"))


@pytest.mark.parametrize("is_due", [_has_children, _has_captures])
@pytest.mark.parametrize("existed", [False, True])
def test_simulate(
    tmp_path: Path, is_due: Callable[[subprocess.Popen[bytes], Path], bool], existed: bool
) -> None:
    folder = tmp_path / "traffic"
    if existed:
        folder.mkdir()
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "wirelake.cli", "simulate", "--out", str(folder)),
            *("--size", "400MB", "--jobs", "2"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCES},
        start_new_session=True,  # a process group of its own, as in a terminal
        preexec_fn=_heed_interrupts,  # noqa: PLW1509 - the parent runs no other thread
    ) as process:
        while not is_due(process, folder):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")
    assert folder.exists() == existed
    assert not existed or not list(folder.iterdir())


def _run_here(code: str, *args: str | int | Path) -> subprocess.CompletedProcess[str]:
    """Run a command after some code, in a process of its own."""
    return subprocess.run(
        [
            *(sys.executable, "-c"),
            f"{code}\nfrom wirelake.cli.main import main\nsys.exit(main(sys.argv[2:]))",
            *map(str, args),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCES, *sys.path])},
        preexec_fn=_heed_interrupts,
        timeout=120,
        check=False,
    )


ENDS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", ENDS)
def test_a_query_whose_rows_do_not_come(tmp_path: Path, number: int) -> None:
    """Arrow waits for DuckDB, where Python handles no signals."""
    code = (
        "import os, sys\n"
        "from wirelake.cli.lake import query\n"
        "class Pool(query.ThreadPoolExecutor):\n"
        "    def submit(self, call, *args):\n"
        "        return super().submit(self.first_signal, call, *args)\n"
        "    def first_signal(self, call, *args):\n"
        "        if args == (query._BATCH_ROWS,):\n"
        "            os.kill(os.getpid(), int(sys.argv[1]))\n"
        "        return call(*args)\n"
        "query.ThreadPoolExecutor = Pool\n"
    )
    capture = tmp_path / "tap.pcap"
    capture.write_bytes(small_pcap()[0])
    query = "select range from range(1000000000000) where range < -1"
    found = _run_here(code, number, "sql", capture, query)
    assert (found.returncode, found.stdout, found.stderr.strip()) == (128 + number, "", "")


@pytest.mark.parametrize("number", ENDS)
def test_an_unfinished_output_is_removed(tmp_path: Path, number: int) -> None:
    code = (
        "import os, sys\n"
        "from wirelake.cli.output import rows\n"
        "def ended(*_):\n"
        "    os.kill(os.getpid(), int(sys.argv[1]))\n"
        "    return 0\n"
        "rows.write_json = ended\n"
    )
    capture = tmp_path / "tap.pcap"
    capture.write_bytes(small_pcap()[0])
    found = _run_here(code, number, "read", capture, "-o", tmp_path / "rows.json")
    assert (found.returncode, found.stdout, found.stderr.strip()) == (128 + number, "", "")
    assert list(tmp_path.iterdir()) == [capture]


def test_an_ignored_end_of_the_terminal_stays_ignored(tmp_path: Path) -> None:
    """As `nohup` has it."""
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from wirelake.cli.output import rows\n"
        "def ended(*_):\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    return 0\n"
        "rows.write_json = ended\n"
    )
    capture = tmp_path / "tap.pcap"
    capture.write_bytes(small_pcap()[0])
    assert _run_here(code, "", "read", capture).returncode == 0
    code += "sys.stdin.close()\nos.dup2(os.open(sys.argv[3], os.O_RDONLY), 0)\nsys.argv[3] = '-'\n"
    code += "sys.stdin = open(0)\n"
    assert _run_here(code, "", "read", capture).returncode == 0
