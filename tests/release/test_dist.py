"""The contents of the wheel and the source distribution, and reproducible builds."""

from __future__ import annotations

import tarfile
import zipfile
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from tests.release.building import ROOT, Built, build, build_wheel

from wirelake import __version__

SOURCES = ROOT / "src"
PACKAGES = ("wirelake", "pyspark_wirelake")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def names(built: Built) -> list[str]:
    """Names of all files in the wheel."""
    with zipfile.ZipFile(built.wheel) as file:
        return file.namelist()


def about(built: Built, name: str) -> str:
    """A file of the wheel's metadata."""
    with zipfile.ZipFile(built.wheel) as file:
        return file.read(f"wirelake-{__version__}.dist-info/{name}").decode()


def metadata(built: Built) -> Message:
    return Parser().parsestr(about(built, "METADATA"))


def test_the_wheel_has_every_source_and_nothing_else(names: list[str]) -> None:
    wanted = {
        path.relative_to(SOURCES).as_posix()
        for package in PACKAGES
        for path in (SOURCES / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    inside = {name for name in names if not name.startswith(f"wirelake-{__version__}.dist-info/")}
    assert inside == wanted


def test_the_wheel_has_its_data_files(names: list[str]) -> None:
    assert {
        "wirelake/py.typed",
        "wirelake/lake/spark/log4j2.properties",
        "wirelake/tables/report/page_assets/report.css",
        "wirelake/tables/report/page_assets/report.js",
        "wirelake/wire/views/lua_runtime_wireshark.lua",
        f"wirelake-{__version__}.dist-info/licenses/LICENSE",
    } <= set(names)
    tops = {name.partition("/")[0] for name in names}
    assert tops == {*PACKAGES, f"wirelake-{__version__}.dist-info"}


def test_names_and_versions_agree(built: Built) -> None:
    found = metadata(built)
    assert (found["Name"], found["Version"]) == ("wirelake", __version__)
    assert built.wheel.name == f"wirelake-{__version__}-py3-none-any.whl"
    assert built.sdist.name == f"wirelake-{__version__}.tar.gz"
    conf = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    assert f'\nrelease = "{__version__}"\n' in conf
    assert f"\n## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_command_is_there(built: Built) -> None:
    scripts = ConfigParser()
    scripts.read_string(about(built, "entry_points.txt"))
    assert dict(scripts["console_scripts"]) == {"wirelake": "wirelake.cli.main:main"}


def test_the_core_needs_two_packages_and_the_rest_is_extra(built: Built) -> None:
    needed = metadata(built).get_all("Requires-Dist") or []
    core = {each.partition(">")[0] for each in needed if "extra ==" not in each}
    assert core == {"msgspec", "cryptography"}
    extras = set(metadata(built).get_all("Provides-Extra") or [])
    assert {"cli", "hub", "lake", "report", "java", "demo"} <= extras


def test_the_source_distribution_has_what_building_and_testing_need(built: Built) -> None:
    with tarfile.open(built.sdist) as file:
        inside = {name.partition("/")[2] for name in file.getnames()}
    wanted = ("pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "Makefile")
    assert {*wanted, "tests/conftest.py", "docs/index.md", "src/wirelake/py.typed"} <= inside
    unwanted = (".venv/", ".git/", ".cache/", "soak/work/", "docs/_build/", "dist/")
    assert [name for name in inside if name.startswith(unwanted) or "__pycache__" in name] == []


def test_a_wheel_of_the_tree_is_the_wheel_of_the_source_distribution(
    built: Built, tmp_path: Path
) -> None:
    again = build_wheel(tmp_path)
    assert again.name == built.wheel.name
    assert again.read_bytes() == built.wheel.read_bytes()


def test_building_again_gives_the_same_bytes(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.sdist) as file:
        file.extractall(tmp_path / "unpacked", filter="data")
    (tree,) = (tmp_path / "unpacked").iterdir()
    first, second = (build(tmp_path / name, tree) for name in ("first", "second"))
    assert first.sdist.read_bytes() == second.sdist.read_bytes()
    assert first.wheel.read_bytes() == second.wheel.read_bytes() == built.wheel.read_bytes()
