"""Both READMEs: same commands, valid links and images, figures that match the records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .page_runner import ROOT
from .pages import blocks

READMES = [ROOT / "README.md", ROOT / "README.zh.md"]
PERFORMANCE = ROOT / "docs" / "guides" / "performance.md"
MOST_BYTES = 300_000
# Name on the performance page: figure in the READMEs.
RATIOS = {
    "comet decode: speed of Construct": 27,
    "comet decode: speed of Kaitai": 6,
    "comet scan and decode: speed of C": 0.87,
    "capture to messages: speed of dpkt and the codec": 62,
    "captures to messages: speed of a function": 42,
    "fan-out depth 64 comet: speed of nats (64 B to 100, depth 64)": 1.6,
}
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
           "eleven", "twelve", "thirteen", "fourteen", "fifteen")  # fmt: skip


def commands(page: Path) -> list[tuple[str, ...]]:
    return [each.lines for each in blocks(page.read_text("utf-8")) if each.language == "console"]


def test_both_readmes_have_the_same_commands() -> None:
    english, chinese = (commands(page) for page in READMES)
    assert english == chinese
    assert len(english) == 4


def test_both_readmes_have_the_same_sections() -> None:
    english, chinese = (
        len(re.findall("^## ", page.read_text("utf-8"), re.MULTILINE)) for page in READMES
    )
    assert english == chinese


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.stem)
def test_links_resolve(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8"))
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.stem)
def test_images_are_small_png_files(page: Path) -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text("utf-8"))
    assert len(pictures) >= 3
    for picture in pictures:
        data = (ROOT / picture).read_bytes()
        assert data.startswith(b"\x89PNG")
        assert len(data) <= MOST_BYTES


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.stem)
def test_figures_match_the_records(page: Path) -> None:
    text = page.read_text("utf-8")
    records = PERFORMANCE.read_text("utf-8")
    for what, said in RATIOS.items():
        found = re.search(rf"^\| required \| {re.escape(what)} \| [^|]+\| ([\d.]+) ", records, re.M)
        assert found, what
        assert float(found[1]) == pytest.approx(said, rel=0.03), what
        assert re.search(rf"{said} (×|倍)", text), what


def test_missed_requirements_are_counted() -> None:
    missed = PERFORMANCE.read_text("utf-8").partition("### Missed requirements")[2]
    rows = [line for line in missed.partition("###")[0].splitlines() if line.startswith("| ")]
    count = len(rows) - 1
    assert f"{NUMBERS[count].capitalize()} of our performance requirements" in READMES[0].read_text(
        "utf-8"
    )
