"""The Dockerfile: hadolint, users, and the build context."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from wirelake.hub.config import Config

from .shipped import DEPLOY, LISTENERS, ROOT, options

DOCKERFILE = DEPLOY / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """Every instruction, with its lines joined."""
    text = re.sub(r"(?m)^\s*#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"))
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines if line]


def stages() -> dict[str, list[tuple[str, str]]]:
    """The instructions of each stage."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for word, rest in instructions():
        if word == "FROM":
            name = rest.rpartition(" AS ")[2]
            found[name] = []
        found.setdefault(name, []).append((word, rest))
    return found


def test_hadolint_passes() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    found = subprocess.run(
        [hadolint, "--no-fail", str(DOCKERFILE)], capture_output=True, text=True, check=True
    )
    assert found.stdout == ""


def test_images_do_not_run_as_root() -> None:
    made = stages()
    assert list(made)[-1] == "hub"
    for name in ("hub", "lake"):
        assert ("FROM", f"runtime AS {name}") in made[name]
        assert ("USER", "10001:10001") in made[name]
        words = [word for word, _ in made[name]]
        assert words.index("USER") > max(i for i, each in enumerate(words) if each == "COPY")


def test_commands_are_valid() -> None:
    made = {name: dict(each) for name, each in stages().items()}
    for name in ("hub", "lake"):
        assert json.loads(made[name]["ENTRYPOINT"]) == ["wirelake"]
        said = options(json.loads(made[name]["CMD"]))
        folders = [each for each in said.values() if str(each).startswith("/var")]
        assert folders
        assert all(str(each) in dict(made["runtime"])["RUN"] for each in folders)


def test_hub_image_has_a_health_check_and_exposes_ports() -> None:
    made = dict(stages()["hub"])
    probe = json.loads(made["HEALTHCHECK"].partition("CMD ")[2])
    assert probe == ["python", "/opt/wirelake/health.py", "/healthz"]
    config = Config()
    assert set(map(int, made["EXPOSE"].split())) == {config.table(each).port for each in LISTENERS}


def test_installed_extras_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, wanted in (
        ("hub", {"cli", "hub", "postgres"}),
        ("lake", {"cli", "lake", "report", "java"}),
    ):
        run = dict(stages()[f"{name}-packages"])["RUN"]
        found = re.search(r"\.whl\)\[([a-z,]+)\]", run)
        assert found is not None
        assert set(found[1].split(",")) == wanted
        assert wanted <= set(project["optional-dependencies"])


def test_build_context_is_minimal() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    assert lines[0] == "*"
    seen = {line[1:] for line in lines if line.startswith("!")}
    copied = {
        source
        for word, rest in instructions()
        if word == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    }
    assert seen == copied
    assert all((ROOT / each).exists() for each in seen)
