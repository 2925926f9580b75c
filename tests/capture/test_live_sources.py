"""Pipes and growing files as inputs, and programs that capture: how each begins and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.hub_raw.hub_process import wait_until

from wirelake.capture.live import inputs, programs
from wirelake.capture.live.inputs import GrowingFile, Input, Pipe, is_live, open_input
from wirelake.capture.live.programs import NoCaptureError, listen


@pytest.fixture
def opened() -> Iterator[Callable[[Input], Input]]:
    """Closes inputs at the end."""
    found: list[Input] = []

    def remember(source: Input) -> Input:
        found.append(source)
        return source

    yield remember
    for each in found:
        each.close()


def read_all(source: Input) -> bytes:
    """Everything up to the end."""
    found = b""
    while chunk := source.read(None):
        found += chunk
    return found


Opened = Callable[[Input], Input]


# -- pipes -------------------------------------------------------------------------------------


def test_a_pipe_ends_with_its_writer(opened: Opened) -> None:
    number, writer = os.pipe()
    source = opened(Pipe("-", number))
    assert source.read(0) is None
    os.write(writer, b"some")
    assert source.read(None) == b"some"
    os.close(writer)
    assert (source.read(None), source.problem) == (b"", None)


def test_a_stopped_pipe_is_read_until_its_writer_has_ended(opened: Opened) -> None:
    number, writer = os.pipe()
    source = opened(Pipe("-", number))
    source.stop()
    os.write(writer, b"the rest")
    os.close(writer)
    assert read_all(source) == b"the rest"


def test_a_stopped_pipe_does_not_wait_for_its_writer(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "DRAIN_S", 0.01)
    number, writer = os.pipe()
    source = opened(Pipe("-", number))
    stopping = threading.Thread(target=source.stop)
    stopping.start()
    assert source.read(None) == b""
    stopping.join()
    os.close(writer)


def test_a_fifo_waits_for_its_first_writer(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    assert is_live(str(path))
    source = opened(open_input(str(path)))
    assert source.read(0) is None
    path_writer = os.open(path, os.O_WRONLY)
    os.write(path_writer, b"x")
    os.close(path_writer)
    assert read_all(source) == b"x"


def test_a_closed_input_can_be_stopped(tmp_path: Path) -> None:
    """A signal may come at any time."""
    path = tmp_path / "file"
    path.write_bytes(b"")
    source = open_input(str(path), follow=True)
    source.close()
    source.stop()


# -- growing files -----------------------------------------------------------------------------


@pytest.fixture
def growing(tmp_path: Path, opened: Opened) -> tuple[Path, Input]:
    """A file that is followed; what it has has been read."""
    path = tmp_path / "growing.pcap"
    path.write_bytes(b"begin")
    source = opened(open_input(str(path), follow=True))
    assert isinstance(source, GrowingFile)
    assert source.read(None) == b"begin"
    return path, source


def test_a_followed_file_is_read_on_until_it_is_stopped(growing: tuple[Path, Input]) -> None:
    path, source = growing
    with path.open("ab") as file:
        file.write(b" more")
    assert source.read(None) == b" more"
    with path.open("ab") as file:
        file.write(b" last")
    source.stop()
    assert (read_all(source), source.problem) == (b" last", None)


def test_a_file_that_shrinks_is_not_read_on(growing: tuple[Path, Input]) -> None:
    path, source = growing
    path.write_bytes(b"new")
    assert source.read(None) == b""
    assert source.problem is not None
    assert source.problem.startswith("shrank to 3 bytes after 5 were read")


def test_a_file_that_was_replaced_is_read_to_its_end(growing: tuple[Path, Input]) -> None:
    path, source = growing
    with path.open("ab") as file:
        path.unlink()
        path.write_bytes(b"another")
        file.write(b" and the end")
    assert read_all(source) == b" and the end"
    assert source.problem == "was replaced by another file, which is not read: start again"


def test_a_file_that_was_renamed_is_complete(growing: tuple[Path, Input]) -> None:
    """A recorder seals its files so."""
    path, source = growing
    path.rename(path.with_suffix(".sealed"))
    assert (read_all(source), source.problem) == (b"", None)


# -- programs ----------------------------------------------------------------------------------

_DENIED = 'echo "tcpdump: lo: You don\'t have permission to perform this capture" >&2; exit 1'
_WORKS = "trap 'printf end; exit 0' INT; printf header; while :; do sleep 0.05; done"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts programs in front of everything else that is installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    found = {name: os.fspath(folder / name) for name in ("tcpdump", "dumpcap")}
    monkeypatch.setattr(
        programs.shutil, "which", lambda name: found[name] if Path(found[name]).exists() else None
    )

    def put(**scripts: str) -> None:
        for name, script in scripts.items():
            path = folder / name
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)

    return put


def refusal() -> str:
    """Why nothing can be captured."""
    with pytest.raises(NoCaptureError) as found:
        listen("lo", [9620])
    return str(found.value)


def test_an_unknown_interface_is_named() -> None:
    with pytest.raises(NoCaptureError, match=r"^unknown interface 'l0'; expected one of .*lo, "):
        listen("l0", [])


def test_no_program_is_installed(install: Callable[..., None]) -> None:
    install()
    assert refusal().startswith("no capture program found: install tcpdump, or")


def test_no_program_has_the_right(install: Callable[..., None]) -> None:
    install(tcpdump=_DENIED, dumpcap=_DENIED)
    assert refusal().startswith(
        "lo: no permission to capture (tried dumpcap and tcpdump): run sudo"
    )


def test_the_other_program_may(install: Callable[..., None]) -> None:
    install(dumpcap=_DENIED, tcpdump=_WORKS)
    source = listen("lo", [])
    assert source.program == "tcpdump"
    assert source.read(None) == b"header"
    source.stop()
    assert (read_all(source), source.problem) == (b"end", None)
    source.close()


def test_what_else_is_wrong_is_quoted(install: Callable[..., None]) -> None:
    install(tcpdump="echo 'listening on lo' >&2; echo 'tcpdump: out of luck' >&2; exit 1")
    assert refusal() == "lo: tcpdump: tcpdump: out of luck"


def test_a_program_that_ends_alone_leaves_an_incomplete_capture(
    install: Callable[..., None],
) -> None:
    install(tcpdump="printf header; echo 'The interface disappeared' >&2; exit 1")
    source = listen("lo", [])
    assert read_all(source) == b"header"
    assert source.problem == "tcpdump ended: The interface disappeared"
    source.close()


@pytest.mark.parametrize(
    "said",
    [
        "12 packets captured\\n40 packets received by filter\\n7 packets dropped by kernel",
        "Packets received/dropped on interface 'lo': 12/7 (pcap:7/dumpcap:0) (63.2%)",
    ],
)
def test_lost_packets_are_counted(install: Callable[..., None], said: str) -> None:
    install(tcpdump=f'printf header; printf "{said}\\n" >&2')
    source = listen("lo", [])
    read_all(source)
    assert source.dropped == 7
    source.close()


def test_a_program_that_ignores_its_end_is_killed(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_END_S", 0.05)
    install(tcpdump="trap '' INT; printf header; exec sleep 60")
    source = listen("lo", [])
    source.close()
    assert source._process.returncode == -signal.SIGKILL
    wait_until(lambda: not Path(f"/proc/{source._process.pid}").exists(), "it is gone")


def test_a_program_ends_when_the_command_is_killed(
    install: Callable[..., None], tmp_path: Path
) -> None:
    """It writes nothing, so it would never notice that nobody reads."""
    install(tcpdump="printf header; exec sleep 600")
    script = (
        "from wirelake.capture.live import programs;"
        f"programs.shutil.which = lambda name: {str(tmp_path / 'bin' / 'tcpdump')!r};"
        "print(programs.listen('lo', [])._process.pid, flush=True); input()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with parent:
        assert parent.stdout is not None
        child = Path(f"/proc/{int(parent.stdout.readline())}")
        parent.kill()
    wait_until(lambda: not _runs(child), "the program has ended")


def _runs(process: Path) -> bool:
    """Whether a process runs; one that ended may wait for whoever inherited it."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
