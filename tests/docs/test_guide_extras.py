"""Guides install the extras that their commands need."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from wirelake.cli.errors import EXTRAS

ROOT = Path(__file__).resolve().parents[2]
INSTALLS = re.compile(r"(?:with the extras|及 extras) `([a-z,]+)`")


def guides() -> list[Path]:
    """Guides that name the extras to install."""
    found = [*(ROOT / "docs" / "guides").glob("*.md"), *(ROOT / "docs" / "zh").rglob("*.md")]
    return sorted(path for path in found if INSTALLS.search(path.read_text(encoding="utf-8")))


def requirements(extras: str) -> set[str]:
    """What these extras install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: set[str] = set()
    for extra in extras.split(","):
        for each in project["optional-dependencies"][extra]:
            inner = re.fullmatch(r"wirelake\[([a-z,]+)\]", each)
            found |= requirements(inner[1]) if inner else {each}
    return found


def test_guides_name_extras() -> None:
    assert {"hub.md", "own-protocol.md", "spark.md", "lake.md"} <= {path.name for path in guides()}


@pytest.mark.parametrize("guide", guides(), ids=lambda path: str(path.relative_to(ROOT / "docs")))
def test_extras_of_a_guide_suffice_for_its_commands(guide: Path) -> None:
    text = guide.read_text(encoding="utf-8")
    installs = INSTALLS.search(text)
    assert installs is not None
    for command in sorted(set(re.findall(r"^\$ wirelake ([a-z]+)", text, re.MULTILINE))):
        missing = requirements(EXTRAS.get(command, "cli")) - requirements(installs[1])
        assert not missing, f"wirelake {command}"
