"""`wirelake read` of pipes and growing files, and `wirelake listen`: as users run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.capture.small_captures import small_pcap

from .conftest import SOURCES, Run
from .simulated import traffic

pytestmark = pytest.mark.slow

__all__ = ["traffic"]

_DEADLINE_S = 120


class Process:
    """The command, running; its output is read as it comes."""

    def __init__(self, folder: Path, *args: str, stdin: Any = subprocess.PIPE):
        self._errors = folder / f"errors-{len(list(folder.iterdir()))}"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "wirelake.cli", *args],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": SOURCES},
            )

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, number: signal.Signals | None = None) -> tuple[int, list[bytes], str]:
        """Exit code, the rest of the output, and standard error."""
        if number is not None:
            self.process.send_signal(number)
        assert self.process.stdout is not None
        rest = self.process.stdout.read().splitlines()
        return self.process.wait(_DEADLINE_S), rest, self._errors.read_text()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for each in (self.process.stdin, self.process.stdout):
            if each is not None:
                each.close()


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the command."""
    found: list[Process] = []

    def begin(*args: str, **options: Any) -> Process:
        found.append(Process(tmp_path, *args, **options))
        return found[-1]

    yield begin
    for each in found:
        each.close()


def capture(traffic: Path) -> bytes:
    return (traffic / "tap-a-00000000.pcap").read_bytes()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_rows_come_with_their_packets_until_a_signal(
    start: Start, traffic: Path, ending: signal.Signals
) -> None:
    """The pipe stays open: rows are there, and a signal ends the command with all of them."""
    found = start("read", "-", "--json")
    found.write(capture(traffic))
    first = found.line()
    code, rest, errors = found.end(ending)
    after = subprocess.run(
        [sys.executable, "-m", "wirelake.cli", "read", "--json", traffic / "tap-a-00000000.pcap"],
        capture_output=True,
        check=True,
    ).stdout.splitlines()
    assert (code, len([first, *rest])) == (0, len(after))
    assert "--table faults shows them instead" in errors


def test_a_closed_output_ends_the_command(start: Start, traffic: Path) -> None:
    """Although nothing more is written: the reader of the output has gone."""
    found = start("read", "-", "--json")
    found.write(capture(traffic))
    assert found.line()
    assert found.process.stdout is not None
    found.process.stdout.close()
    assert found.process.wait(_DEADLINE_S) == 1


def test_a_limit_ends_the_command(start: Start, traffic: Path) -> None:
    found = start("read", "-", "--json", "--limit", "3")
    found.write(capture(traffic))
    code, lines, _ = found.end()
    assert (code, len(lines)) == (0, 3)


def test_a_limit_makes_the_end_of_the_input_irrelevant(shell: Run, traffic: Path) -> None:
    found = shell("read", "-", "--json", "--limit", "3", stdin=capture(traffic)[:-3])
    assert (found.code, len(found.lines)) == (0, 3)
    assert "incomplete" not in found.err


def test_a_table_grows(start: Start, traffic: Path) -> None:
    found = start("read", "-", "--to", "table", "--columns", "ts_ns,protocol,name")
    data = capture(traffic)
    found.write(data[: len(data) // 2])
    assert found.line().split() == [b"ts_ns", b"protocol", b"name"]
    assert found.line().split()[2] in {b"comet", b"esnp", b"magline", b"relay", b"tny"}
    found.write(data[len(data) // 2 :])
    assert found.end(signal.SIGINT)[0] == 0


def test_csv_has_one_header(start: Start, traffic: Path) -> None:
    found = start("read", "-", "--to", "csv", "--columns", "name")
    data = capture(traffic)
    found.write(data[: len(data) // 2])
    assert found.line() == b"name\n"
    found.write(data[len(data) // 2 :])
    code, lines, _ = found.end(signal.SIGINT)
    assert (code, lines.count(b"name")) == (0, 0)


def test_parquet_is_complete_at_the_end(start: Start, traffic: Path, tmp_path: Path) -> None:
    out = tmp_path / "messages.parquet"
    found = start("read", "-", "-o", str(out))
    found.write(capture(traffic))
    assert found.process.stdin is not None
    found.process.stdin.close()
    code, _, errors = found.end()
    assert code == 0
    assert errors.startswith(f"{out}: ")


def test_a_fifo_and_standard_input_at_once(start: Start, traffic: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with (traffic / "tap-a-00000000.pcap").open("rb") as first:
        found = start("read", "-", str(fifo), "--json", "--columns", "file", stdin=first)
        fifo.write_bytes((traffic / "tap-a-00000001.pcap").read_bytes())
        code, lines, _ = found.end()
    assert code == 0
    assert {json.loads(line)["file"] for line in lines} == {"-", str(fifo)}


def test_a_growing_file(start: Start, traffic: Path, tmp_path: Path) -> None:
    path, data = tmp_path / "growing.pcap", capture(traffic)
    path.write_bytes(data[: len(data) // 2])
    found = start("read", "--follow", str(path), "--json", "--columns", "offset")
    last = 0
    while last < len(data) // 4:
        last = json.loads(found.line())["offset"]
    with path.open("ab") as file:
        file.write(data[len(data) // 2 :])
    while last < len(data) * 3 // 4:
        last = json.loads(found.line())["offset"]
    assert found.end(signal.SIGINT)[0] == 0


def test_a_file_that_shrinks(start: Start, traffic: Path, tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    path.write_bytes(capture(traffic))
    found = start("read", "--follow", str(path), "--json")
    assert found.line()
    os.truncate(path, 100)
    code, _, errors = found.end()
    assert code == 1
    assert f"wirelake: {path}: shrank to 100 bytes after" in errors
    assert errors.endswith(
        "wirelake: incomplete: the output covers only what was read before the error\n"
    )


# -- one connection --------------------------------------------------------------------------


def ends(shell: Run, traffic: Path) -> dict[str, Any]:
    """A connection that shares its server's address with others."""
    path = str(traffic / "tap-a-00000000.pcap")
    found: dict[str, Any] = json.loads(shell("read", path, "--table", "connections").lines[0])
    return found


def test_a_connection_is_that_of_the_finished_file(shell: Run, traffic: Path) -> None:
    row = ends(shell, traffic)
    wanted = shell("follow", str(traffic / "tap-a-00000000.pcap"), row["connection"])
    assert wanted.code == 0
    client = "{client_address}:{client_port}".format(**row)
    for chosen in (row["connection"], client):
        assert shell("follow", "-", chosen, stdin=capture(traffic)) == wanted
    server = "{server_address}:{server_port}".format(**row)
    found = shell("follow", "-", server, stdin=capture(traffic))
    assert (found.code, found.out) == (0, wanted.out)
    assert f" further connections at {server} not shown: the address of a client" in found.err


def test_lines_of_a_connection_come_until_a_signal(
    start: Start, shell: Run, traffic: Path, tmp_path: Path
) -> None:
    row = ends(shell, traffic)
    path, data = tmp_path / "growing.pcap", capture(traffic)
    path.write_bytes(data[: len(data) // 2])
    found = start("follow", "--follow", str(path), row["connection"])
    assert found.line().startswith(f"connection {row['connection']}, client ".encode())
    with path.open("ab") as file:
        file.write(data[len(data) // 2 :])
    wanted = shell("follow", str(traffic / "tap-a-00000000.pcap"), row["connection"])
    code, lines, errors = found.end(signal.SIGINT)
    assert (code, errors) == (0, "")
    assert [line.decode() for line in lines] == wanted.lines[1:]


def test_a_connection_that_does_not_come(shell: Run, traffic: Path) -> None:
    data = capture(traffic)
    for chosen, words in (("5", "connection 5"), ("[::1]:80", "connection at [::1]:80")):
        found = shell("follow", "-", chosen, stdin=data)
        assert (found.code, found.out) == (2, "")
        assert found.err.startswith(f"wirelake: no {words} in ")
    # What is wrong with the capture says more.
    found = shell("follow", "-", "5", "--json", stdin=b"hello\n" * 9)
    assert (found.code, found.out) == (1, "")
    assert found.err == "wirelake: standard input: not a capture: neither pcap nor pcapng\n"


# -- what is wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stdin", "line"),
    [
        (b"", "standard input: empty: no capture was written to it"),
        (b"hello\n" * 9, "standard input: not a capture: neither pcap nor pcapng"),
        (
            small_pcap()[0][:-3],
            "standard input: ends in the middle of a packet: the rest of the capture is missing",
        ),
    ],
)
def test_bad_standard_input(shell: Run, stdin: bytes, line: str) -> None:
    found = shell("read", "-", "--json", stdin=stdin)
    assert found.code == 1
    assert f"wirelake: {line}\n" in found.err


def test_a_capture_without_a_known_protocol(shell: Run) -> None:
    found = shell("read", "-", "--json", "--port", "1=comet", stdin=small_pcap()[0])
    assert (found.code, found.out) == (0, "")
    assert found.err.splitlines()[-1] == (
        "wirelake: no message of a known protocol in 5 packets; --port PORT=PROTOCOL or --as"
        " PROTOCOL names it"
    )


def test_an_output_that_is_also_followed(shell: Run, traffic: Path, tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    path.write_bytes(capture(traffic))
    found = shell("read", "--follow", str(path), "-o", str(path), "--json")
    assert (found.code, found.err) == (2, f"wirelake: output {path} is also an input\n")
    assert path.read_bytes() == capture(traffic)


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("read", "-", "-"), "standard input is given twice"),
        (("read", "--follow", "."), ".: a folder cannot be followed: give files, or use"),
        (("listen", "-i", "l0"), "unknown interface 'l0'; expected one of"),
        (("listen",), "missing option --interface"),
        (("listen", "-i", "lo", "-i", "any", "--save", "x"), "--save keeps one capture"),
        (("listen", "-i", "lo", "--save", "x.json", "-o", "./x.json"), "--save and --output name"),
        (("listen", "-i", "lo", "-o", "no/such.json"), "no: no such folder"),
    ],
)
def test_bad_usage(shell: Run, args: tuple[str, ...], line: str) -> None:
    found = shell(*args)
    assert found.code == 2
    assert found.err.startswith(f"wirelake: {line}")


def test_no_right_to_capture(shell: Run, tmp_path: Path) -> None:
    for name in ("tcpdump", "dumpcap"):
        path = tmp_path / name
        path.write_text("#!/bin/sh\necho 'Operation not permitted' >&2\nexit 1\n")
        path.chmod(0o755)
    found = shell("listen", "-i", "lo", "--port", "9620=comet", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(
        "wirelake: lo: no permission to capture (tried dumpcap and tcpdump): run sudo tcpdump -U"
        " --immediate-mode -i lo -w - tcp port 9620 | wirelake read - , or"
    )


def test_the_end_of_the_program_is_the_end_of_the_capture(
    start: Start, traffic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interface that goes away: what was captured is there, and the exit code says the rest."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "dumpcap"
    whole = traffic / "tap-a-00000000.pcap"
    program.write_text(f"#!/bin/sh\ncat {whole}\necho 'it went down' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    found = start("listen", "-i", "lo", "--json", stdin=subprocess.DEVNULL)
    code, lines, errors = found.end()
    assert code == 1
    assert len(lines) > 100
    assert "wirelake: lo: dumpcap ended: it went down\n" in errors
