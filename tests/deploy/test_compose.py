"""compose.yaml: the schema of the specification, and the consistency of its parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wirelake.hub.config import load_config

from .shipped import CONFIGS, DEPLOY, IMAGES, ROOT, documents, options

FILE = DEPLOY / "compose" / "compose.yaml"
SERVICES: dict[str, dict[str, Any]] = documents(FILE)[0]["services"]


def conforms(path: Path) -> bool:
    """Return whether a file conforms to the schema."""
    program = Path(sys.executable).parent / "check-jsonschema"
    command = [program, "--builtin-schema", "vendor.compose-spec", path]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_compose_file_conforms_to_the_schema(tmp_path: Path) -> None:
    assert conforms(FILE)
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILE.read_text(encoding="utf-8").replace("read_only:", "readonly:"))
    assert not conforms(wrong)


@pytest.mark.parametrize("name", SERVICES)
def test_services_have_few_privileges(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] == "10001:10001"
    assert service["image"] in IMAGES


@pytest.mark.parametrize("name", SERVICES)
def test_build_inputs_exist(name: str) -> None:
    build = SERVICES[name]["build"]
    assert (FILE.parent / build["context"]).resolve() == ROOT
    text = (ROOT / build["dockerfile"]).read_text(encoding="utf-8")
    assert f"AS {build['target']}\n" in text


def mounts(name: str) -> dict[str, str]:
    """Return the mounts of a service."""
    return dict(each.split(":")[1::-1] for each in SERVICES[name]["volumes"])


@pytest.mark.parametrize("name", SERVICES)
def test_commands_use_what_is_mounted(name: str) -> None:
    said = options(SERVICES[name]["command"])
    paths = [each for each in said.values() if isinstance(each, str) and each.startswith("/")]
    assert len(paths) == 2
    assert set(paths) <= set(mounts(name))


def test_volumes_are_declared_and_the_lake_reads_what_the_hub_records() -> None:
    used = {source for name in SERVICES for source in mounts(name).values()}
    assert used - {"./hub.toml"} == set(documents(FILE)[0]["volumes"])
    folder = load_config(CONFIGS["compose"]).record.folder
    assert mounts("hub")[folder] == mounts("lake")[folder] == "recordings"
    assert options(SERVICES["lake"]["command"])["captures"] == folder
    assert f"recordings:{folder}:ro" in SERVICES["lake"]["volumes"]


def test_published_ports_are_the_enabled_listeners_on_loopback() -> None:
    config = load_config(CONFIGS["compose"])
    listeners = ("esnp", "tny", "relay", "magline", "comet", "admin")
    wanted = {config.table(each).port for each in listeners if config.table(each).enabled}
    published = [each.split(":") for each in SERVICES["hub"]["ports"]]
    assert {host for host, _, _ in published} == {"127.0.0.1"}
    assert {int(outside) for _, outside, _ in published} == wanted
    assert all(outside == inside for _, outside, inside in published)
    assert SERVICES["lake"]["network_mode"] == "none"


def test_limits_allow_connections_and_draining() -> None:
    config = load_config(CONFIGS["compose"])
    assert SERVICES["hub"]["ulimits"]["nofile"]["hard"] > config.limits.connections
    assert float(SERVICES["hub"]["stop_grace_period"].rstrip("s")) > config.limits.drain_s
