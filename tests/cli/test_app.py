"""Failures of every kind end in one line and an exit code, never in a traceback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.docs.test_guide_extras import requirements

from wirelake.cli import app
from wirelake.cli.errors import EXTRAS, CommandError
from wirelake.protocols.registry import BUILT_IN, BrokenProtocolError, RegistryError
from wirelake.wire import DecodeError, EncodeError

from .conftest import SOURCES, Result, Run

pytestmark = pytest.mark.slow

ENV = {**os.environ, "PYTHONPATH": SOURCES}


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (CommandError("two\nlines"), 1, "wirelake: two lines\n"),
        (CommandError("used badly", 2), 2, "wirelake: used badly\n"),
        (click.UsageError("so"), 2, "wirelake: so (see wirelake demo --help)\n"),
        (click.FileError("f", "hint"), 1, "wirelake: Could not open file 'f': hint\n"),
        (click.Abort(), 130, ""),
        (KeyboardInterrupt(), 130, ""),
        (DecodeError("short", "a.b", 3), 1, "wirelake: short in a.b at byte 3: "),
        (EncodeError("bad_value"), 1, "wirelake: bad_value: "),
        (RegistryError("no such"), 2, "wirelake: no such\n"),
        (BrokenProtocolError("broken"), 1, "wirelake: broken\n"),
        (FileNotFoundError(2, "No such file", "x"), 2, "wirelake: x: No such file\n"),
        (OSError("odd"), 2, "wirelake: odd\n"),
        (RecursionError(), 1, "wirelake: the input is too large or nested too deeply\n"),
        (MemoryError(), 1, "wirelake: the input is too large or nested too deeply\n"),
        (
            ModuleNotFoundError("No module named 'plotly.io'", name="plotly.io"),
            2,
            "wirelake: missing optional dependency plotly: pip install 'wirelake[demo]'\n",
        ),
        (
            ModuleNotFoundError("No module named 'wirelake.gone'", name="wirelake.gone"),
            1,
            "wirelake: internal error: ModuleNotFoundError: No module named 'wirelake.gone'",
        ),
        (ZeroDivisionError("oops"), 1, "wirelake: internal error: ZeroDivisionError: oops"),
    ],
)
def test_errors(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, words: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.delenv("WIRELAKE_DEBUG", raising=False)
    monkeypatch.setattr(app.TOP, "main", fail)
    found = run("demo")
    assert (found.code, found.out) == (code, "")
    assert found.err.startswith(words)
    assert found.err.count("\n") == (1 if words else 0)


def test_debug_shows_where(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setenv("WIRELAKE_DEBUG", "1")
    monkeypatch.setattr(app.TOP, "main", fail)
    with pytest.raises(ZeroDivisionError):
        run("demo")


@pytest.mark.parametrize(
    ("package", "extras", "args"),
    [
        ("numba", "cli,columnar", ("read", __file__)),
        ("numba", "cli,columnar", ("follow", "a.pcap", "1")),
        ("numpy", "cli,columnar", ("simulate", "--out", "traffic")),
        ("pyarrow", "cli,capture", ("capture", "info", __file__)),
        ("starlette", "cli,hub", ("hub", "--data", "data")),
        ("duckdb", "cli,tables", ("lake", "sql", "lake", "SELECT 1")),
        ("pyspark", "cli,lake,java", ("lake", "run", "--from", ".", "--to", "lake")),
        ("click", "cli", ("protocols",)),
    ],
)
def test_missing_packages_are_named_with_the_extras(
    package: str, extras: str, args: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "a.pcap").write_bytes(bytes.fromhex("d4c3b2a1 02000400") + bytes(12) + b"\1\0\0\0")
    done = without([package], args, tmp_path)
    expected = f"wirelake: missing optional dependency {package}: pip install 'wirelake[{extras}]'"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{expected}\n")


def without(
    packages: Iterable[str], args: tuple[str, ...], cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command as if these packages were not installed."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(sys.argv[1].split(',')));"
        "from wirelake.cli.main import main; sys.exit(main(sys.argv[2:]))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, ",".join(packages), *args],
        capture_output=True,
        text=True,
        env=ENV,
        cwd=cwd,
        timeout=120,
        check=False,
    )


OPTIONAL = (
    "deltalake", "duckdb", "numba", "numpy", "pandas", "plotly", "prometheus_client", "pyarrow",
    "pyiceberg", "pyspark", "starlette", "uvicorn", "uvloop", "zstandard",
)  # fmt: skip
"""Packages that only an extra installs, by the names of their modules."""


@pytest.mark.parametrize(
    "args",
    [
        ("capture", "info", "missing.pcap"),
        ("read", "missing.pcap"),
        ("follow", "missing.pcap", "1"),
        ("hub", "--config", "missing.toml"),
        ("client", "list"),
        ("user", "list"),
        ("lake", "status", "missing"),
        ("lake", "report", "missing"),
        ("lake", "compact", "missing"),
    ],
    ids=" ".join,
)
def test_the_extras_of_a_command_suffice(args: tuple[str, ...], tmp_path: Path) -> None:
    extras = EXTRAS.get(" ".join(args[:2])) or EXTRAS.get(args[0], "cli")
    installed = {
        re.split(r"[^\w-]", each, maxsplit=1)[0].replace("-", "_") for each in requirements(extras)
    }
    done = without([each for each in OPTIONAL if each not in installed], args, tmp_path)
    assert "missing optional dependency" not in done.stderr
    assert done.returncode == 2
    assert "missing" in done.stderr or "hub-data" in done.stderr


# -- as its users run it ---------------------------------------------------------------------


def assert_clean(found: Result) -> None:
    """No traceback, an exit code that is documented, and a line that says why."""
    assert "Traceback" not in found.err
    assert found.code in (0, 1, 2)
    if found.code == 2:
        assert found.err.startswith("wirelake: ")


def test_a_missing_file(shell: Run) -> None:
    found = shell("decode", "esnp", "no/such/file")
    assert found == (2, "", "wirelake: no/such/file: No such file or directory\n")


def test_a_folder_instead_of_a_file(shell: Run, tmp_path: Path) -> None:
    found = shell("decode", "esnp", str(tmp_path))
    assert found.code == 2
    assert found.err.count("\n") == 1


def test_a_closed_output_pipe_is_not_an_error() -> None:
    for args in (["--help"], ["demo", "--tour"], ["protocols", "reference"]):
        process = subprocess.Popen(
            [sys.executable, "-m", "wirelake.cli", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENV,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(60) == 1


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "wirelake.cli", "decode", "esnp", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**ENV, "PYTHONUNBUFFERED": "1"},
        # Tests that run in the background inherit an ignored SIGINT; a person's shell does not.
        preexec_fn=_heed_interrupts,  # noqa: PLW1509 - the parent runs no other thread
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        # It reads before it decodes, so it is interrupted while it waits for input.
        _wait_for_read(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read().strip() == b""


def _wait_for_read(pid: int) -> None:
    """Until the process sleeps in a read of its standard input."""
    pipe = os.readlink(f"/proc/{pid}/fd/0")
    assert pipe.startswith("pipe:")
    for _ in range(100_000):
        stat = Path(f"/proc/{pid}/wchan").read_text(encoding="ascii")
        if "pipe" in stat:
            return
    pytest.fail("it never read its input")


def test_a_terminal_that_cannot_show_it_all(shell: Run) -> None:
    found = shell("protocols", "show", "comet.auth", PYTHONIOENCODING="latin-1", PYTHONUTF8="0")
    assert found.code == 0
    assert "\\u6d88" in found.out


NAMES = [*BUILT_IN, "nope", ""]
WORDS = ["protocols", "decode", "encode", "dissector", "show", "reference", "ksy", *NAMES]
FLAGS = ["--json", "--hex", "--direction", "c2s", "s2c", "--dialect", "seed", "--keys", "-o", "--"]
FLAGS += ["--revision", "lines", "--reveal", "-", "-h", "comet.auth", "000106", "zz", "\ud800", "é"]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    args=st.lists(st.sampled_from(WORDS + FLAGS), max_size=6),
    stdin=st.binary(max_size=40),
)
def test_any_arguments(run: Run, args: list[str], stdin: bytes) -> None:
    if "-o" in args:
        args = [arg for arg in args if arg != "-o"]  # writes files
    assert_clean(run(*args, stdin=stdin))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(list(BUILT_IN)),
    stdin=st.binary(max_size=60),
    flags=st.lists(st.sampled_from(["--json", "--reveal"]), max_size=2),
)
def test_any_bytes(run: Run, name: str, stdin: bytes, flags: list[str]) -> None:
    found = run("decode", name, "-", "--direction", "c2s", *flags, stdin=stdin)
    assert_clean(found)
    assert found.code in (0, 1)
    assert (found.code == 1) == bool(found.err)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(list(BUILT_IN)), text=st.text(max_size=40) | st.binary(max_size=40))
def test_any_json(run: Run, name: str, text: str | bytes) -> None:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    found = run("encode", name, "-", stdin=raw)
    assert_clean(found)
    assert found.code == 1


@pytest.mark.parametrize(
    "args", [("decode", "esnp"), ("encode", "comet"), ("decode", "tny", "--json")]
)
def test_garbage_in_a_real_shell(shell: Run, args: tuple[str, ...]) -> None:
    found = shell(*args, "-", stdin=bytes(range(256)) * 40)
    assert_clean(found)
    assert found.code == 1
