"""The same bad captures for every command that reads captures: the same line, the right code."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wirelake.capture.format.writer import PcapWriter

from .conftest import SOURCES, Run

COMMANDS = {
    "read": ("read", "{}"),
    "follow": ("follow", "{}", "10.0.0.1:9600"),
    "sql": ("sql", "{}", "SELECT count(*) AS calls FROM calls"),
    "report": ("report", "{}", "--json"),
}
OTHERS = {
    b"": "empty: no capture was written to it",
    b"hello": "not a capture: neither pcap nor pcapng",
    gzip.compress(b"hello"): "not a capture: what can be decompressed is neither pcap nor pcapng",
}


def _pcap(link: int, packets: list[bytes]) -> bytes:
    out = io.BytesIO()
    writer = PcapWriter(out, link=link)
    for number, each in enumerate(packets):
        writer.packet(number * 1_000_000_000, each)
    return out.getvalue()


def _arguments(command: str, path: Path) -> list[str]:
    return [each.format(path) for each in COMMANDS[command]]


@pytest.mark.parametrize("content", OTHERS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_no_capture(run: Run, tmp_path: Path, command: str, content: bytes) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(content)
    found = run(*_arguments(command, path))
    assert (found.code, found.err) == (1, f"wirelake: {path}: {OTHERS[content]}\n")


@pytest.mark.parametrize(
    ("link", "packets", "line"),
    [
        (189, [b"\1" * 60], "unknown link type 189 in a.pcap; expected Ethernet, Linux cooked"),
        (1, [], "no packets in a.pcap"),
        (1, [b"\1" * 60], "no message of a known protocol in a.pcap; --port"),
    ],
)
@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"follow"}))
def test_a_capture_without_messages(
    run: Run, tmp_path: Path, command: str, link: int, packets: list[bytes], line: str
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(_pcap(link, packets))
    found = run(*_arguments(command, path))
    assert found.code == 0
    assert found.err.startswith(f"wirelake: {line}")
    assert found.err.count("\n") == 1


@pytest.mark.parametrize("command", [*sorted({*COMMANDS} - {"read", "follow"}), "capture"])
def test_pipes_are_refused_where_captures_are_read_twice(
    run: Run, tmp_path: Path, command: str
) -> None:
    path = tmp_path / "a.fifo"
    os.mkfifo(path)
    words = ["capture", "info", str(path)] if command == "capture" else _arguments(command, path)
    found = run(*words)
    assert (found.code, found.out) == (2, "")
    assert found.err == (
        f"wirelake: {path}: not a file: save what it holds to one first, or use wirelake read\n"
    )


@pytest.mark.parametrize("more", [(), ("--follow",)])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_file_is_reported_before_kernels_are_compiled(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, more: tuple[str, ...]
) -> None:
    if more and command in ("sql", "report"):
        return
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cold"))
    monkeypatch.delenv("WIRELAKE_KERNELS", raising=False)
    path = tmp_path / "missing.pcap"
    found = run(*_arguments(command, path), *more)
    assert found == (2, "", f"wirelake: {path}: No such file or directory\n")


def test_a_missing_interface_is_reported_before_kernels_are_compiled(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cold"))
    monkeypatch.delenv("WIRELAKE_KERNELS", raising=False)
    found = run("listen", "-i", "no-such-0")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("wirelake: unknown interface 'no-such-0'; expected one of ")


@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("protocols",), ("read", "{}"), ("report", "{}")]
)
def test_a_closed_output(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(_pcap(1, []))
    if words[0] == "read":
        words = (*words, "--table", "packets", "--to", "csv")
    command = [sys.executable, "-m", "wirelake.cli", *(each.format(path) for each in words)]
    found = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCES},
        check=False,
    )
    assert found.returncode == 2
    assert found.stderr.splitlines()[-1] == b"wirelake: standard output is closed"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_cannot_be_printed(run: Run, tmp_path: Path, command: str) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.pcap")
    path.write_bytes(_pcap(1, []))
    for named in (path, tmp_path):
        found = run(*_arguments(command, named))
        assert (found.code, found.out) == (2, "")
        assert found.err.startswith("wirelake: invalid file name ")
