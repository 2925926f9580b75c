"""Run the commands and code of a documentation page; fail where the output differs.

    python -m tests.docs.page_runner docs/guides/hub.md FOLDER

runs the page in an empty folder, prints each command and its output, and exits with 1 at the first
step that differs from the page. Commands run in a terminal of 100 columns (TERM=dumb), with the
`wirelake` of this Python first on the path.

Pages use the default ports. To run several pages at once, `run_page` gives each its own network
namespace where the kernel allows it; elsewhere a lock serializes them.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from .page_terminal import PageError, Terminal, ended
from .pages import Ended, File, Program, Said, Step, Typed, fits, steps

__all__ = ["PageError", "Reader", "do_page", "main", "run_page"]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 600.0
_OWN_NETWORK = ("unshare", "--map-root-user", "--net")
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
# Fast JVM start: queries on pages are small.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_KEPT = (
    *("HOME", "USER", "TMPDIR", "JAVA_HOME", "WIRELAKE_CACHE", "NUMBA_CACHE_DIR"),
    *("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"),
)


class Reader:
    """Executes the steps of a page in a folder."""

    def __init__(self, folder: Path, secret: Path) -> None:
        self._folder = folder
        self._secret = secret
        self._state = secret / "state.sh"
        self._new_shell()
        self._running: list[Terminal] = []
        self._python: Interpreter | None = None

    def do(self, step: Step) -> None:
        """Execute one step."""
        match step:
            case File():
                self._write(step)
            case Typed(command=command):
                _tell(f"$ {command}")
                self._type(step)
            case Said(output=output):
                terminal = self._youngest()
                terminal.expect(output, PATIENCE_S)
            case Ended():
                self._end(self._youngest())
            case Program():
                self._program(step)

    def _write(self, step: File) -> None:
        path = self._folder / step.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if step.more else "w", encoding="utf-8") as file:
            file.write(step.text)

    def _type(self, step: Typed) -> None:
        terminal = Terminal(step.command, self._state, environment())
        if step.stays:
            self._running.append(terminal)
            # The next commands run in another terminal, so they get a new shell state.
            self._state = self._secret / f"state-{step.line}.sh"
            self._new_shell()
            if not any(line.strip() for line in step.output):
                raise PageError("a command left running must show its first output")
            terminal.expect(step.output, PATIENCE_S)
            return
        with ended(terminal):
            code = terminal.wait(PATIENCE_S)
            said = terminal.said()
            _tell(said)
            refused = any(line.startswith("wirelake: ") for line in step.output)
            if code and not refused:
                raise PageError(f"it exits with {code} and says\n{said}")
            if step.output and not fits(step.output, said, whole=True):
                shown = "\n".join(step.output)
                raise PageError(f"the page shows\n{shown}\n--- and it says\n{said}")

    def _new_shell(self) -> None:
        """Start a fresh shell state, with saved contexts of its own."""
        config = shlex.quote(str(self._secret / "config"))
        lines = f"cd {shlex.quote(str(self._folder))}\nexport XDG_CONFIG_HOME={config}\n"
        self._state.write_text(lines, "utf-8")

    def _youngest(self) -> Terminal:
        if not self._running:
            raise PageError("no command was left running")
        return self._running[-1]

    def _end(self, terminal: Terminal) -> None:
        self._running.remove(terminal)
        with ended(terminal):
            code = terminal.interrupt(PATIENCE_S)
            _tell(f"(ended: $ {terminal.command})\n{terminal.said()}")
            if code:
                raise PageError(f"after Ctrl-C it exits with {code}:\n{terminal.said()}")

    def _program(self, step: Program) -> None:
        _tell(f"(python, line {step.line})")
        if self._python is None:
            self._python = Interpreter(self._folder, self._secret)
        said = self._python.run(step.source, step.line)
        _tell(said)
        if step.output and not fits(step.output, said, whole=True):
            shown = "\n".join(step.output)
            raise PageError(f"the page shows\n{shown}\n--- and it prints\n{said}")

    def finish(self) -> None:
        """End the commands that still run; each must exit with 0."""
        while self._running:
            self._end(self._running[-1])

    def close(self) -> None:
        """Kill every process that is left."""
        for terminal in self._running:
            terminal.kill()
        if self._python is not None:
            self._python.close()


class Heard:
    """The output of a process, read incrementally."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self._heard = 0

    def news(self) -> str:
        """Return the output since the last call; the file position does not change."""
        number = self.file.fileno()
        data = os.pread(number, os.fstat(number).st_size - self._heard, self._heard)
        self._heard += len(data)
        return data.decode()


class Interpreter:
    """The Python interpreter of a page, in a separate process."""

    def __init__(self, folder: Path, secret: Path) -> None:
        answers, theirs = os.pipe()
        self._answers = os.fdopen(answers)
        self._printed, self._complaints = Heard(), Heard()
        script = Path(__file__).with_name("page_python.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(theirs), str(secret / "page.py")],
            cwd=folder, env=environment(), pass_fds=(theirs,), start_new_session=True, text=True,
            stdin=subprocess.PIPE, stdout=self._printed.file, stderr=self._complaints.file,
        )  # fmt: skip
        os.close(theirs)

    def run(self, source: str, line: int) -> str:
        """Run a block and return what it prints."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"source": source, "line": line}) + "\n")
        self._process.stdin.flush()
        answer = self._answers.readline()
        printed, complaints = self._printed.news(), self._complaints.news()
        if answer != "done\n":
            raise PageError(f"this Python fails:\n{printed}\n{complaints}")
        return printed

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._answers.close()
            self._printed.file.close()
            self._complaints.file.close()


def environment() -> dict[str, str]:
    """Return a minimal environment, so that pages must name what they need."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **kept, "PATH": path, "JDK_JAVA_OPTIONS": _JAVA, "TERM": "dumb", "LANG": "C.UTF-8",
        "TZ": "UTC", "NO_COLOR": "1", **_pip(),
    }  # fmt: skip


def _pip() -> dict[str, str]:
    """Return what lets pip build a package without a network, where that is possible."""
    # pip's own reading: 0 turns build isolation off. With isolation it would fetch hatchling.
    return {} if find_spec("hatchling") is None else {"PIP_NO_BUILD_ISOLATION": "0"}


def do_page(page: Path, folder: Path) -> None:
    """Run a page in a folder; raise PageError with the line that fails."""
    at = 0
    with tempfile.TemporaryDirectory(prefix="wirelake-page-") as secret:
        reader = Reader(folder, Path(secret))
        try:
            for step in steps(page.read_text("utf-8")):
                at = step.line
                reader.do(step)
            reader.finish()
        except PageError as error:
            raise PageError(f"{page}:{at}: {error}") from None
        finally:
            reader.close()


def run_page(page: Path, folder: Path) -> str:
    """Run a page in its own process and, if possible, its own network namespace.

    Returns all commands and their output.
    """
    with _network() as prefix:
        command = [
            *prefix, sys.executable, "-m", "tests.docs.page_runner", str(page), str(folder),
            *(["--new-network"] if prefix else []),
        ]  # fmt: skip
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                said, _ = process.communicate()
            except BaseException:
                process.terminate()
                process.wait()
                raise
    if process.returncode:
        raise PageError(said)
    return said


@contextmanager
def _network() -> Iterator[Sequence[str]]:
    """Yield the command prefix for a new network namespace, or () under a lock."""
    try:
        able = subprocess.run([*_OWN_NETWORK, "true"], capture_output=True, check=False)
        alone = able.returncode == 0
    except FileNotFoundError:
        alone = False
    if alone:
        yield _OWN_NETWORK
        return
    with (Path(tempfile.gettempdir()) / "wirelake-pages.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield ()


def _loopback() -> None:
    """Bring up the loopback interface of a new namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anything:
        fcntl.ioctl(anything, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def _tell(text: str) -> None:
    print(text.rstrip(), flush=True)


def main() -> int:
    """Run one page."""
    parser = argparse.ArgumentParser(description="Run a documentation page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path, help="an empty folder; created if missing")
    parser.add_argument(
        "--new-network", action="store_true", help="bring up loopback in a new network namespace"
    )
    chosen = parser.parse_args()
    if chosen.new_network:
        _loopback()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen.folder.mkdir(parents=True, exist_ok=True)
    try:
        do_page(chosen.page, chosen.folder.resolve())
    except PageError as error:
        _tell(f"!!! {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
