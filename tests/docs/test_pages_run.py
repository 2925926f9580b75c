"""Run the pages and compare the output with what they show.

`page_runner.py` says how a page is read. The two pages on the lake are run by
tests/lake/test_lake_tutorial.py, which also checks the lake, and the tutorial by
tests/demo/test_demo.py, which also checks the demo.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from .page_runner import ROOT, run_page
from .pages import Block, Program, Typed, blocks, steps

DOCS = ROOT / "docs"
GUIDES = DOCS / "guides"
RUN_HERE = (
    "captures", "clients", "cluster", "command-line", "declare-a-protocol", "filters", "hub",
    "hub-operations",
    "hub-security", "live", "own-protocol", "relay", "services", "simulate", "spark", "wireshark",
)  # fmt: skip
RUN_WITH_THE_LAKE = ("lake", "lake-operations")
# Pages without commands, or whose commands need another machine (they say so).
READ_ONLY = (
    "deploy",
    "hub-benchmarks",
    "index",
    "performance",
    "postgresql",
    "runbook",
    "security",
    "services-wire",
)
PAGES = [
    *(GUIDES / f"{name}.md" for name in (*RUN_HERE, *RUN_WITH_THE_LAKE)),
    DOCS / "tutorial.md",
    ROOT / "README.md",
]
INSTALLING = re.compile(r"pip install .*?'wirelake\[([\w,]+)\]'")


def not_run(page: Path) -> list[Block]:
    """The commands of a page that are shown and not run."""
    return [block for block in blocks(page.read_text("utf-8")) if block.language == "sh"]


@pytest.mark.parametrize("name", RUN_HERE)
def test_guide_runs_as_shown(name: str, tmp_path: Path) -> None:
    run_page(GUIDES / f"{name}.md", tmp_path)


def test_readme_runs_as_shown(tmp_path: Path) -> None:
    run_page(ROOT / "README.md", tmp_path)


def test_every_guide_is_listed() -> None:
    there = {page.stem for page in GUIDES.glob("*.md")}
    assert there <= {*RUN_HERE, *RUN_WITH_THE_LAKE, *READ_ONLY}


def test_read_only_pages_have_no_runnable_blocks() -> None:
    pages = [GUIDES / f"{name}.md" for name in READ_ONLY]
    there = [block for page in pages for block in blocks(page.read_text("utf-8"))]
    assert {block.language for block in there}.isdisjoint({"console", "python"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_has_a_runnable_step(page: Path) -> None:
    done = list(steps(page.read_text("utf-8")))
    assert any(isinstance(step, Typed | Program) for step in done)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_not_run_are_marked(page: Path) -> None:
    text = " ".join(page.read_text("utf-8").split())
    for block in not_run(page):
        commands = "\n".join(block.lines)
        alone = all("pip install" in line or line == "make demo" for line in block.lines)
        said = re.search(r"not run|but not this one", text, re.IGNORECASE)
        assert alone or said, f"{page.name}:{block.line}: nothing says that this is not run"
        for extras in INSTALLING.findall(commands):
            assert set(extras.split(",")) <= known_extras()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_in_console_blocks(page: Path) -> None:
    hidden = [
        f"{page.name}:{block.line}"
        for block in blocks(page.read_text("utf-8"))
        if block.language in ("", "text")
        and any(re.match(r"(\$ |wirelake \w|pip install)", line) for line in block.lines)
    ]
    assert hidden == []


def known_extras() -> set[str]:
    """Return the extras that `wirelake[...]` may name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return set(project["optional-dependencies"])
