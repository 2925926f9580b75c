"""Tab completion in real shells: bash and zsh in a terminal, fish by its own `complete -C`."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from wirelake.cli.app import TOP
from wirelake.cli.completion import SHELLS
from wirelake.cli.main import COMPLETE

from .conftest import SOURCES, Run

pytestmark = pytest.mark.slow
DEADLINE_S = 60.0
_ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|[=>])|\x07|\r")

TYPED = [
    ("wirelake rea", "read"),
    ("wirelake capture inf", "info"),
    ("wirelake lake stat", "status"),
    ("wirelake read --tab", "--table"),
    ("wirelake read --table deliv", "deliveries"),
    ("wirelake read --table calls --columns request_ns,out", "request_ns,outcome"),
    ("wirelake decode com", "comet"),
    ("wirelake read edg", "edge.pcapng"),
    ("wirelake hub --data hub-d", "hub-data/"),
    ("wirelake context use sta", "staging"),
]
"""What is typed before the tab, and the word that it becomes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files to complete, and `wirelake` as a command."""
    made = tmp_path_factory.mktemp("completed")
    (made / "edge.pcapng").touch()
    (made / "hub-data").mkdir()
    (made / "bin").mkdir()
    script = made / "bin" / "wirelake"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m wirelake.cli "$@"\n')
    script.chmod(0o755)
    contexts = made / "config" / "wirelake" / "contexts"
    contexts.mkdir(parents=True)
    (contexts / "staging.json").write_text("{}")
    return made


def environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": SOURCES,
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
        "WIRELAKE_CACHE": os.environ["WIRELAKE_CACHE"],
    }


class Shell:
    """A shell in a terminal."""

    def __init__(self, handle: int):
        self._handle = handle
        self._seen = b""

    def type(self, keys: str) -> None:
        """Forget what was shown, and type."""
        self._seen = b""
        os.write(self._handle, keys.encode())

    def until(self, text: str) -> None:
        """Wait until the shell has shown a text."""
        until = time.monotonic() + DEADLINE_S
        while text.encode() not in _ESCAPES.sub(b"", self._seen):
            left = until - time.monotonic()
            assert left > 0, f"no {text!r} in {self._seen!r}"
            if select.select([self._handle], [], [], left)[0]:
                self._seen += os.read(self._handle, 65_536)


@contextmanager
def shell(folder: Path, *command: str) -> Iterator[Shell]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment(folder),
        start_new_session=True,
    )
    try:
        yield Shell(ours)
    finally:
        process.kill()
        process.wait(DEADLINE_S)
        os.close(theirs)
        os.close(ours)


STARTED = {
    "bash": (("bash", "--norc", "--noprofile", "-i"), "PS1='READY'' > '"),
    "zsh": (("zsh", "-f", "-i"), "autoload -Uz compinit; compinit -u -D; PS1='READY'' > '"),
}
"""How each shell is started, and prepared as the guide says."""


@pytest.mark.parametrize("name", STARTED)
def test_a_tab_completes_in_a_terminal(name: str, folder: Path) -> None:
    command, prepare = STARTED[name]
    with shell(folder, *command) as terminal:
        terminal.type(f'{prepare}; eval "$(wirelake completion {name})"\n')
        terminal.until("READY > ")
        for typed, word in TYPED:
            terminal.type(f"{typed}\t")
            terminal.until(f"{typed.rpartition(' ')[0]} {word}")
            terminal.type("\x15")  # Ctrl-U deletes the line


def test_fish_completes(folder: Path) -> None:
    lines = [
        f"complete -C '{typed}' | string replace -r '\\t.*' ''; echo ---" for typed, _ in TYPED
    ]
    program = "wirelake completion fish | source\n" + "\n".join(lines)
    done = subprocess.run(
        ["fish", "--no-config", "-c", program],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    found = [part.split() for part in done.stdout.split("---\n")]
    assert found[:-1] == [[word] for _, word in TYPED]
    assert done.stderr == ""


@pytest.mark.parametrize("name", SHELLS)
def test_the_script_of_each_shell(run: Run, name: str) -> None:
    found = run("completion", name)
    assert found.code == 0
    assert COMPLETE in found.out
    assert "wirelake" in found.out


def test_another_shell_is_refused(run: Run) -> None:
    found = run("completion", "csh")
    assert found.code == 2
    assert "expected one of bash, zsh, fish" in found.err


def params(command: click.Command, path: str) -> Iterator[tuple[str, click.Parameter]]:
    for param in command.params:
        yield f"{path} {param.name}", param
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from params(inner, f"{path} {name}")


def test_every_file_and_folder_is_completed() -> None:
    """By what `--help` shows: FILE, OUT, DIR, FOLDER and LAKE."""
    kinds = {"FILE": "file", "FILE…": "file", "OUT": "file", "DIR": "dir", "FOLDER": "dir"}
    kinds |= {"LAKE": "dir", "[DIR]": "dir"}
    checked = 0
    for path, param in params(TOP, "wirelake"):
        context = click.Context(TOP)
        shown = param.make_metavar(context).strip("[]") if param.metavar is None else param.metavar
        if shown in kinds:
            (item,) = param.type.shell_complete(context, param, "x")
            assert (item.type, item.value) == (kinds[shown], "x"), path
            checked += 1
    assert checked > 40


def test_a_folder_is_not_a_pipe(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option that takes an output: `-` is standard output, or refused, but never a name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tap.pcap").touch()
    for args in (
        ("simulate", "--out", "-"),
        ("hub", "--data", "-"),
        ("hub", "--record", "-"),
        ("protocols", "ksy", "-o", "-"),
        ("protocols", "reference", "-o", "-"),
        ("capture", "repair", "tap.pcap", "-o", "-"),
        ("capture", "redact", "tap.pcap", "-o", "-"),
        ("lake", "run", "--from", ".", "--to", "-"),
        ("lake", "report", "lake", "--html", "-"),
        ("lake", "export", "lake", "-", "--format", "delta"),
        ("demo", "--html", "-"),
        ("demo", "--keep", "-"),
        ("client", "add", "phone-1", "--data", "-"),
    ):
        found = run(*args)
        assert found.code == 2, args
        assert "'-'; expected a f" in found.err, (args, found.err)
    assert run("hub", "init", "-o", "-").out.startswith("# Configuration")
    assert run("dissector", "comet", "-o", "-").out
    assert run("encode", "comet", "-", "--hex", "-o", "-", stdin=b'{"type": "heartbeat"}').out
    assert [path.name for path in tmp_path.iterdir()] == ["tap.pcap"]
