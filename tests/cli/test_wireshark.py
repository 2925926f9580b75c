"""`wirelake dissector --install`: Wireshark's folders of a temporary user."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from wirelake.cli.wireshark import find_folders
from wirelake.protocols import registry
from wirelake.wire.views.colorfilters import coloring_rules
from wirelake.wire.views.lua import dissector

from .conftest import Run

OTHERS = "# mine\n@My rule@udp@[1,2,3][4,5,6]\n!@My other rule \udce9@icmp@[1,2,3][4,5,6]\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user who never started Wireshark."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
    return folder


def tshark(*arguments: str) -> str:
    """What tshark prints; its complaints about what it loads fail the test."""
    done = subprocess.run(["tshark", *arguments], capture_output=True, text=True, check=True)
    assert "lua" not in done.stderr.lower()
    return done.stdout


def test_install_and_uninstall(run: Run, home: Path) -> None:
    """tshark loads the plugin by itself; afterwards the home is as it was."""
    found = run("dissector", "--install")
    script, rules = map(Path, found.lines)
    assert found.code == 0
    assert home in script.parents
    assert home in rules.parents
    protocols, _ = registry.load_all()
    assert script.read_text(encoding="utf-8") == dissector(protocols)
    assert "wirelake.comet.auth.client_id" in tshark("-G", "fields")
    ours = coloring_rules(protocols)
    defaults = (find_folders().defaults / "colorfilters").read_text(encoding="utf-8")
    assert rules.read_text(encoding="utf-8") == ours + defaults

    assert run("dissector", "--install", "tny").code == 0  # replaces the first one
    assert "wirelake.comet" not in script.read_text(encoding="utf-8")
    assert rules.read_text(encoding="utf-8").count("@Wirelake: tny@") == 1

    removed = run("dissector", "--uninstall")
    assert (removed.code, removed.lines) == (0, [str(script), str(rules)])
    assert not script.exists()
    assert not rules.exists()
    again = run("dissector", "--uninstall")
    assert (again.code, again.out) == (0, "")
    assert "nothing is installed" in again.err


def test_rules_of_the_user_stay(run: Run) -> None:
    """Each line of another rule keeps its bytes and its place."""
    rules = find_folders().configuration / "colorfilters"
    rules.parent.mkdir(parents=True)
    rules.write_bytes(OTHERS.encode("utf-8", "surrogateescape"))
    for _ in range(2):
        assert run("dissector", "--install", "comet").code == 0
        text = rules.read_bytes().decode("utf-8", "surrogateescape")
        assert text == coloring_rules([registry.find("comet")]) + OTHERS
    off = text.replace("@Wirelake: comet@", "!@Wirelake: comet@")
    rules.write_bytes(off.encode("utf-8", "surrogateescape"))
    assert run("dissector", "--uninstall").code == 0
    assert rules.read_bytes().decode("utf-8", "surrogateescape") == OTHERS


@pytest.mark.parametrize("option", ["--install", "--uninstall"])
@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_file_of_somebody_else_is_left_alone(
    run: Run, tmp_path: Path, option: str, what: str
) -> None:
    path = tmp_path / "plugins" / "wirelake.lua"
    if what == "file":
        path.parent.mkdir()
        path.write_text("-- my own script", encoding="utf-8")
    else:
        path.mkdir(parents=True)
    found = run("dissector", option, "--folder", str(path.parent))
    assert (found.code, found.out) == (1, "")
    assert "was not written by wirelake dissector" in found.err
    assert found.err.count("\n") == 1
    assert path.is_dir() or path.read_text(encoding="utf-8") == "-- my own script"


def test_a_folder_that_is_given(run: Run, tmp_path: Path, home: Path) -> None:
    """It is created; nothing is written anywhere else, and no tshark is needed."""
    folder = tmp_path / "other" / "plugins"
    assert run("dissector", "comet", "--install", "--folder", str(folder)).code == 0
    assert [path.name for path in folder.iterdir()] == ["wirelake.lua"]
    assert run("dissector", "--uninstall", "--folder", str(folder)).code == 0
    assert list(folder.iterdir()) == []
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("problem", ["missing", "fails", "silent"])
def test_without_wireshark(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    """One line says what to do."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    if problem != "missing":
        program = bin_ / "tshark"
        program.write_text(f"#!/bin/sh\nexit {int(problem == 'fails')}\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_))
    found = run("dissector", "comet", "--install")
    assert found.code in (1, 2)
    assert "name the plugin folder with --folder" in found.err
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    "args",
    [
        ("--install", "--uninstall"),
        ("--folder", "x"),
        ("--install", "-o", "x"),
        ("--install", "--colors", "x"),
        ("--uninstall", "comet"),
        ("--uninstall", "--dialect", "tny=seed"),
    ],
)
def test_options_that_exclude_each_other(run: Run, args: tuple[str, ...]) -> None:
    found = run("dissector", *args)
    assert (found.code, found.out) == (2, "")
    assert found.err.count("\n") == 1


def test_colors_in_tshark(run: Run, tmp_path: Path) -> None:
    """tshark accepts every rule, and colours packets of a protocol."""
    from wirelake.traffic.simulate import simulate

    simulate(tmp_path / "sim", size="100KB", protocols=["comet"], style="tcpdump", jobs=1)
    assert shutil.which("tshark")
    assert run("dissector", "--install").code == 0
    file = str(next((tmp_path / "sim").glob("*.pcap")))
    shown = tshark("--color", "-r", file, "-T", "fields", "-e", "frame.coloring_rule.name")
    assert "Wirelake: comet" in shown
    assert "Wirelake: failed calls" in shown
