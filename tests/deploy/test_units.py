"""The systemd units: systemd-analyze passes, and their commands are valid."""

from __future__ import annotations

import configparser
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from wirelake.hub.config import load_config

from .shipped import CONFIGS, DEPLOY, options

FOLDER = DEPLOY / "systemd"
SERVICES = sorted(path.name for path in FOLDER.glob("*.service"))
PROGRAM = "/opt/wirelake/bin/wirelake"
WORST = 2.0
"""Maximum exposure (of 10) in systemd-analyze."""


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units with an existing program: systemd checks that it exists."""
    for path in (*FOLDER.glob("*.service"), *FOLDER.glob("*.timer")):
        text = path.read_text(encoding="utf-8").replace(PROGRAM, "/bin/true")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    return tmp_path


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def service(name: str) -> dict[str, str]:
    """Return the section Service; for a repeated key, the last value."""
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(FOLDER / name, encoding="utf-8")
    return dict(parser["Service"])


def test_systemd_accepts_every_unit(units: Path) -> None:
    found = analyze("verify", "--man=no", *sorted(units.iterdir()))
    assert (found.returncode, found.stdout + found.stderr) == (0, "")
    wrong = units / "wirelake-hub.service"
    wrong.write_text(wrong.read_text().replace("ProtectHome=", "ProtectHouse="))
    assert "ProtectHouse" in analyze("verify", "--man=no", wrong).stderr


@pytest.mark.parametrize("name", SERVICES)
def test_exposure_is_low(name: str, units: Path) -> None:
    found = analyze("security", "--offline=true", "--no-pager", units / name)
    [level] = re.findall(r"exposure level for \S+: ([0-9.]+)", found.stdout)
    assert float(level) <= WORST


@pytest.mark.parametrize("name", SERVICES)
def test_commands_are_valid_and_write_to_allowed_paths(name: str) -> None:
    program, *words = shlex.split(service(name)["ExecStart"])
    assert program == PROGRAM
    said = options(words)
    written = said["data"] if words[0] == "hub" else said["lake"]
    owned = [f"/var/lib/{each}" for each in service(name)["StateDirectory"].split()]
    assert written in owned
    if words[0] == "hub":
        assert said["config_file"] == "/etc/wirelake/hub.toml"
        assert load_config(CONFIGS["systemd"]).record.folder in owned
    else:
        assert said["captures"] == load_config(CONFIGS["systemd"]).record.folder
        assert said["stream"] == ("stream" in name)


def test_the_hub_drains_reloads_and_has_files_enough() -> None:
    config = load_config(CONFIGS["systemd"])
    found = service("wirelake-hub.service")
    assert int(found["TimeoutStopSec"]) > config.limits.drain_s
    assert int(found["LimitNOFILE"]) > config.limits.connections
    assert found["ExecReload"] == "/bin/sh -c 'kill -HUP ${MAINPID}'"
    assert found["KillSignal"] == "SIGTERM"


def test_stopping_a_lake_keeps_spark_until_the_step_ends() -> None:
    found = service("wirelake-lake-stream.service")
    assert found["KillMode"] == "mixed"
    assert int(found["TimeoutStopSec"]) >= 600


def test_service_user_is_created(tmp_path: Path) -> None:
    named = {service(each)["User"] for each in SERVICES}
    config = tmp_path / "etc" / "sysusers.d" / "wirelake.conf"
    config.parent.mkdir(parents=True)
    config.write_bytes((FOLDER / "wirelake.sysusers").read_bytes())
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}"], check=True, capture_output=True)
    made = (tmp_path / "etc" / "passwd").read_text(encoding="utf-8")
    assert named == {line.split(":")[0] for line in made.splitlines()}
