"""Real traffic over the loopback interface, recorded by a real tcpdump, decoded by us.

The sessions talk over TCP sockets while tcpdump records. What the rows say must be what the
applications at both ends heard, and every byte that they received must be accounted for.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from wirelake.capture.decode.reference import read_tables
from wirelake.capture.format.items import Direction
from wirelake.protocols import registry

from .live_sessions import TALKS, Line

Tables = dict[str, list[dict[str, Any]]]

END = b"nothing of interest follows"
TIMEOUT_S = 60
"""How long the last packet is waited for before the test fails."""
HOSTS = ("127.0.0.1", "::1")


@contextlib.contextmanager
def listening(count: int) -> Iterator[list[socket.socket]]:
    """Servers of both kinds of address, on ports that are free."""
    with contextlib.ExitStack() as stack:
        made = []
        for number in range(count):
            host = HOSTS[number % 2]
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            made.append(stack.enter_context(socket.create_server((host, 0), family=family)))
        yield made


class Tcpdump:
    """A recording of some ports of the loopback interface."""

    def __init__(self, ports: list[int]):
        program = shutil.which("tcpdump")
        assert program is not None, "tcpdump is not installed: apt-get install -y tcpdump"
        filters = " or ".join(f"port {port}" for port in ports)
        command = [program, "-i", "lo", "-n", "-U", "-B", "16384", "-w", "-"]
        self._process = subprocess.Popen(
            [*command, f"tcp and ({filters})"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stderr is not None
        line = b""
        while b"listening on" not in line:
            line = self._process.stderr.readline()
            assert line, "tcpdump did not start"
        self._recorded = bytearray()
        self._complete = threading.Event()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def __enter__(self) -> Tcpdump:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._reading.join()
        self._process.communicate()

    def _read(self) -> None:
        assert isinstance(self._process.stdout, io.BufferedReader)
        while some := self._process.stdout.read1(65_536):
            before = max(0, len(self._recorded) - len(END))
            self._recorded += some
            if END in self._recorded[before:]:
                self._complete.set()

    def stop(self) -> bytes:
        """Everything up to the packet that says END."""
        complete = self._complete.wait(TIMEOUT_S)
        self._process.send_signal(signal.SIGINT)
        self._reading.join()
        assert self._process.stderr is not None
        errors = self._process.stderr.read()
        assert complete, errors
        assert b"0 packets dropped by kernel" in errors, errors
        return bytes(self._recorded)


def say_the_end(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()[:2]) as near:
        far, _ = listener.accept()
        with far:
            near.sendall(END)
            assert far.recv(len(END)) == END


@dataclass
class Recorded:
    """A capture of all talks, and what was said."""

    path: Path
    keys: Path
    lines: dict[str, Line]

    @property
    def ports(self) -> dict[int, str]:
        return {line.port: line.talk.protocol for line in self.lines.values()}

    def tables(self, **options: Any) -> Tables:
        found: Tables = {table: [] for table in ("messages", "packets", "faults", "coverage")}
        for table, row in read_tables([self.path], **options):
            found[table].append(row)
        return found

    def connection(self, tables: Tables, name: str) -> int:
        """The id of a talk's connection."""
        port = self.lines[name].port
        ids = {row["connection"] for row in tables["packets"] if row["dst_port"] == port}
        assert len(ids) == 1
        return int(ids.pop())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("real")
    with listening(len(TALKS) + 1) as (*listeners, last):
        talks = zip(TALKS.items(), listeners, strict=True)
        lines = {name: Line(make(), listener) for (name, make), listener in talks}
        with Tcpdump([last.getsockname()[1], *(line.port for line in lines.values())]) as tcpdump:
            for line in lines.values():
                line.run()
            say_the_end(last)
            (folder / "real.pcap").write_bytes(tcpdump.stop())
    logs = [text for line in lines.values() if (text := line.talk.keys(line)) is not None]
    (folder / "keys.jsonl").write_text("\n".join(logs))
    return Recorded(folder / "real.pcap", folder / "keys.jsonl", lines)


@pytest.fixture(scope="module")
def tables(recorded: Recorded) -> Tables:
    return recorded.tables(ports=recorded.ports, keys=[recorded.keys])


@pytest.mark.parametrize("name", TALKS)
@pytest.mark.parametrize("direction", ["c2s", "s2c"])
def test_rows_equal_what_both_ends_received(
    recorded: Recorded, tables: Tables, name: str, direction: Direction
) -> None:
    heard = recorded.lines[name].heard[direction]
    assert heard
    connection = recorded.connection(tables, name)
    result = ("name",) if recorded.lines[name].talk.protocol == "comet" else ("protocol", "kind")
    kinds = {tuple({"protocol": p, **row}[column] for column in result) for p, row in heard}
    rows = [
        row
        for row in tables["messages"]
        if connection in (row["connection"], row["tunnel_link"])
        and row["direction"] == direction
        and tuple(row[column] for column in result) in kinds
    ]
    assert len(rows) == len(heard)
    for row, (protocol, columns) in zip(rows, heard, strict=True):
        assert row["protocol"] == protocol
        assert {column: row[column] for column in columns} == columns


@pytest.mark.parametrize("name", TALKS)
@pytest.mark.parametrize("direction", ["c2s", "s2c"])
def test_every_frame_that_an_end_received_has_a_row(
    recorded: Recorded, tables: Tables, name: str, direction: Direction
) -> None:
    line = recorded.lines[name]
    protocol, data = registry.find(line.talk.protocol), bytes(line.received[direction])
    sizes, at = [], 0
    while at < len(data):
        stop = protocol.scan(data, at)
        sizes.append(stop - at)
        at = stop
    connection = recorded.connection(tables, name)
    rows = [
        row
        for row in tables["messages"]
        if (row["connection"], row["direction"]) == (connection, direction)
    ]
    assert [row["size_bytes"] for row in rows] == sizes
    assert all(row["first_ns"] <= row["ts_ns"] for row in rows)


def test_there_are_no_faults_and_every_byte_is_decoded(recorded: Recorded, tables: Tables) -> None:
    assert tables["faults"] == []
    coverage = {(row["connection"], row["direction"]): row for row in tables["coverage"]}
    for name, line in recorded.lines.items():
        connection = recorded.connection(tables, name)
        ways: tuple[Direction, ...] = ("c2s", "s2c")
        for way in ways:
            row = coverage[connection, way]
            assert row["protocol"] == line.talk.protocol
            assert row["new_bytes"] == row["decoded_bytes"] == len(line.received[way])
            assert row["gap_bytes"] == row["ignored_bytes"] == 0


def test_the_bytes_are_at_the_positions_in_the_rows(recorded: Recorded, tables: Tables) -> None:
    capture = recorded.path.read_bytes()
    for row in tables["messages"]:
        if row["protocol"] == "magline":
            assert capture[row["offset"] : row["offset"] + 2] in (b"\x7e\x66", b"\x7f\x66")
        elif row["protocol"] == "tny" and row["tunnel_link"] is None:
            assert capture[row["offset"] : row["offset"] + 4] == b"tny."


def test_without_keys_what_is_sealed_is_counted(recorded: Recorded) -> None:
    tables = recorded.tables(ports=recorded.ports)
    assert tables["faults"] == []
    sealed = {"comet sealed", "tny with all options", "magline"}
    for name in recorded.lines:
        connection = recorded.connection(tables, name)
        rows = [row for row in tables["messages"] if row["connection"] == connection]
        hidden = [row for row in rows if row["sealed"]]
        assert all(row["body"] is None for row in hidden)
        assert bool(hidden) == (name in sealed)
        counted = sum(
            row["undecryptable_bytes"]
            for row in tables["coverage"]
            if row["connection"] == connection
        )
        assert counted == sum(row["size_bytes"] for row in hidden)


def test_without_ports_the_bytes_select_the_protocol(recorded: Recorded, tables: Tables) -> None:
    sniffed = recorded.tables(ports={}, keys=[recorded.keys])

    def by_stream(found: Tables) -> dict[tuple[int, str], list[dict[str, Any]]]:
        streams: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for row in found["messages"]:
            streams.setdefault((row["connection"], row["direction"]), []).append(row)
        return streams

    assert by_stream(sniffed) == by_stream(tables)
