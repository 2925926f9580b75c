"""Packets of an interface, through dumpcap or tcpdump.

    source = listen("eth0", [9620])
    while chunk := source.read(None):
        ...                             # a capture, from its first byte on

Capturing needs rights that decoding bytes of strangers should not have. So a program that is small,
known and often has those rights itself captures, as a child, and this process needs none. The child
leads its own session: Ctrl-C reaches only us, and the child is then asked to write what it has.

dumpcap comes first: it is often allowed to capture for users (capabilities of the file, or the
group `wireshark`) where tcpdump needs root, and it passes packets on within 0.1 s. tcpdump is tried
if dumpcap may not capture. It passes packets on each second or, in immediate mode, at once; but
then the kernel's buffer has a place of 64 KiB for each packet, and is soon full.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import IO, Final, NamedTuple

from wirelake.wire.errors import unknown

from .inputs import Pipe

__all__ = ["ANY", "PROGRAMS", "Listening", "NoCaptureError", "interfaces", "listen"]

ANY: Final = "any"
"""The name that stands for all interfaces."""
_BUFFER_MB: Final = 64
"""What the kernel keeps while the program does not read: seconds of traffic, or a thousand packets
for tcpdump in immediate mode."""
_SNAP_BYTES: Final = 65_600
"""The longest IP packet, and a link header: more would only make places larger."""
_START_S: Final = 5.0
"""How long a program may take until it captures."""
_END_S: Final = 2.0
"""How long it may take to end."""
_PR_SET_PDEATHSIG: Final = 1
_DENIED: Final = re.compile(r"permission|not permitted|are you root|privilege", re.IGNORECASE)
_DROPPED: Final = (
    re.compile(r"^(\d+) packets? dropped by kernel", re.MULTILINE),
    re.compile(r"^Packets received/dropped on interface .*: \d+/(\d+) ", re.MULTILINE),
)
_ROUTINE: Final = re.compile(
    r"^(Capturing on|File:|Packets (captured|received)|dropped privs|\d+ packets? |.*listening on)",
)
"""Lines of these programs that report no problem."""


class NoCaptureError(Exception):
    """Nothing can be captured here; the text says why, and what to do."""


class _Program(NamedTuple):
    """A program that captures to its standard output."""

    name: str
    arguments: Callable[[str, str], list[str]]
    """For an interface and a filter."""


def _tcpdump(interface: str, condition: str) -> list[str]:
    # -U: each packet is written when it comes. Nanoseconds keep packets of one time rare.
    flags = ["-U", "--immediate-mode", "--time-stamp-precision=nano", "-s", str(_SNAP_BYTES)]
    return ["-i", interface, *flags, "-B", str(_BUFFER_MB << 10), "-w", "-", condition]


def _dumpcap(interface: str, condition: str) -> list[str]:
    flags = ["-q", "-s", str(_SNAP_BYTES)]
    return ["-i", interface, *flags, "-B", str(_BUFFER_MB), "-f", condition, "-w", "-"]


PROGRAMS: Final = (_Program("dumpcap", _dumpcap), _Program("tcpdump", _tcpdump))
"""What can capture, the preferred one first."""


class Listening(Pipe):
    """The packets of an interface, as the capture that a program writes."""

    def __init__(
        self, interface: str, program: str, process: subprocess.Popen[bytes], output: IO[bytes]
    ):
        assert process.stdout is not None
        super().__init__(interface, process.stdout.fileno(), owned=False)
        self.program = program
        """The name of the program."""
        self.dropped = 0
        """Packets that were lost before they were captured; known at the end."""
        self._process = process
        self._stderr = output

    def read(self, timeout_s: float | None) -> bytes | None:
        """Return the next bytes."""
        found = super().read(timeout_s)
        if found == b"":
            self._end()
        return found

    def stop(self) -> None:
        """Ask the program to end; what it has captured is still read."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)
        super().stop()

    def close(self) -> None:
        """End the program and release everything."""
        self._end()
        super().close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._stderr.close()

    def _end(self) -> None:
        if self._process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        output = _text(self._stderr)
        self.dropped = max(
            [int(found[1]) for each in _DROPPED if (found := each.search(output))], default=0
        )
        if not self.stopped:
            self.problem = f"{self.program} ended: {_error_line(output)}"


def listen(interface: str, ports: Collection[int]) -> Listening:
    """Start capturing the TCP packets of these ports (default: of all); NoCaptureError if nothing
    may or can."""
    names = interfaces()
    if interface not in names:
        raise NoCaptureError(unknown("interface", interface, names))
    condition = " or ".join(f"tcp port {port}" for port in sorted(ports)) or "tcp"
    found = [(each, path) for each in PROGRAMS if (path := shutil.which(each.name))]
    if not found:
        raise NoCaptureError(
            "no capture program found: install tcpdump, or Wireshark's dumpcap"
            " (Debian: apt install tcpdump)"
        )
    others: list[str] = []
    for program, path in found:
        started = _start(interface, program, path, condition)
        if isinstance(started, Listening):
            return started
        if not _DENIED.search(started):
            others.append(f"{interface}: {program.name}: {_error_line(started)}")
    if others:
        raise NoCaptureError(others[0])
    tried = " and ".join(program.name for program, _ in found)
    raise NoCaptureError(
        f"{interface}: no permission to capture (tried {tried}): run sudo tcpdump -U"
        f" --immediate-mode -i {interface} -w - {condition} | wirelake read - , or allow users to"
        " run dumpcap (Debian: dpkg-reconfigure wireshark-common, then join the group wireshark)"
    )


def interfaces() -> list[str]:
    """Return the names of the interfaces."""
    return [name for _, name in socket.if_nameindex()] + [ANY]


def _start(interface: str, program: _Program, path: str, condition: str) -> Listening | str:
    """Start a program; return its error output if it ends without a capture."""
    output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the input
    process = subprocess.Popen(
        [path, *program.arguments(interface, condition)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=output,
        start_new_session=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - threads begin later
        env={**os.environ, "LC_ALL": "C"},
    )
    assert process.stdout is not None
    # The header of the capture comes before the first packet, or the end of the program.
    poll = select.poll()
    poll.register(process.stdout.fileno(), select.POLLIN)
    ready = poll.poll(_START_S * 1_000)
    if not ready or ready[0][1] & select.POLLIN:
        return Listening(interface, program.name, process, output)
    with process, output:
        process.wait()
        return _text(output)


def _end_with_parent() -> None:
    """Let the kernel end this process when the one that started it is killed.

    Nothing else would: a program without packets never finds out that its pipe is closed. Linux
    forgets it for programs with capabilities of their own, or that change their user as tcpdump
    does when root starts it; those end with their next packet.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode(errors="backslashreplace")


def _error_line(output: str) -> str:
    """Return the error message of a program, on one line."""
    lines = [line.strip() for line in output.splitlines()]
    found = [line for line in lines if line and not _ROUTINE.match(line)]
    return found[0] if found else "no error message"
