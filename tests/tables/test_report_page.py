"""The page: one file that loads nothing, whatever the names from the wire are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wirelake.tables.query import open_lake
from wirelake.tables.report.page import PlotlyMissingError, report_page
from wirelake.tables.report.plots import plots
from wirelake.tables.report.report import Report, make_report

from .simulated_lake import captures, lake

pytestmark = pytest.mark.slow

__all__ = ["captures", "lake"]

NASTY = "</script><img src=x onerror=alert(1)>&amp;{brace}\u202e"
VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """What is in a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)


@pytest.fixture(scope="module")
def report(lake: Path) -> Report:
    with open_lake(lake) as db:
        return make_report(db, lake="sim", commit=1, top=10)


@pytest.fixture(scope="module")
def text(report: Report) -> str:
    return report_page(report)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def strings(value: Any) -> Iterator[str]:
    """All texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (each for part in value.values() for each in strings(part))
    elif isinstance(value, list):
        yield from (each for part in value for each in strings(part))


def test_it_loads_nothing(page: Page) -> None:
    for tag, attributes in page.tags:
        assert not attributes.get("src"), tag
        if tag == "a":
            assert (attributes["href"] or "").startswith("#")
        else:
            assert attributes.get("href", "data:,") == "data:,", tag
    (policy,) = [a["content"] for _, a in page.tags if "http-equiv" in a]
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy


def test_there_is_a_place_for_each_plot(page: Page, report: Report) -> None:
    drawn = json.loads(page.scripts[0])
    names = {each["name"] for each in drawn}
    assert names == {
        "traffic", "latency", "targets", "topics", "connections", "errors", "faults", "coverage",
    }  # fmt: skip
    places = {a.get("id") for tag, a in page.tags if tag == "div"}
    assert {f"plot-{name}" for name in names} <= places
    assert names == {plot.name for plot in plots(report)}
    assert all(trace["x"] for plot in drawn for trace in plot["traces"])


def test_every_link_leads_to_a_section(page: Page) -> None:
    links = [(attributes["href"] or "")[1:] for tag, attributes in page.tags if tag == "a"]
    assert links == [attributes["id"] for tag, attributes in page.tags if tag == "section"]


def test_the_drawing_script_is_in_it(page: Page) -> None:
    _, library, own = page.scripts
    assert "plotly.js v" in library[:200]
    assert "Plotly.react" in own


def test_the_tables_are_there_without_script(page: Page, report: Report) -> None:
    for each in (report.targets[0].target, report.faults[0].code, report.errors[0].code):
        assert each in page.texts
    assert f"{report.overview.messages:,}" in page.texts


def test_every_colour_is_there_in_light_and_dark(text: str, page: Page) -> None:
    used = {each[1:] for each in strings(json.loads(page.scripts[0])) if each.startswith("$")}
    light, _, dark = text.partition("</style>")[0].partition("(prefers-color-scheme: dark)")
    for name in used:
        assert f"--{name}:" in light
        assert f"--{name}:" in dark
    assert used


def test_the_plots_match_the_report(report: Report) -> None:
    by_name = {plot.name: plot for plot in plots(report)}
    assert report.complete_ns is not None
    messages = sum(sum(trace["y"]) for trace in by_name["traffic"].traces)
    complete = [row for row in report.traffic if row.start_ns < report.complete_ns]
    assert messages == sum(row.messages for row in complete) < report.overview.messages
    faults = sum(sum(trace["x"]) for trace in by_name["faults"].traces)
    assert faults == report.overview.faults
    heat, *lines = by_name["latency"].traces
    cells = sum(cell[2] or 0 for row in heat["customdata"] for cell in row)
    steps = [each for each in report.latency if each.start_ns < report.complete_ns]
    assert cells == sum(each.calls for each in steps)
    assert len(heat["y"]) == len(heat["z"]) + 1
    assert len(heat["x"]) == len(heat["z"][0]) + 1
    assert heat["y"] == sorted(heat["y"])
    assert all(len(line["y"]) == len(steps) < len(report.latency) for line in lines)
    for index, topic in enumerate(each for each in report.topics if each.published):
        shares = [trace["x"][index] for trace in by_name["topics"].traces]
        assert sum(shares) == pytest.approx(1), topic
    ended = sum(sum(trace["x"]) for trace in by_name["connections"].traces)
    assert ended == report.overview.connections
    for index, row in enumerate(report.coverage):
        shares = [trace["x"][index] for trace in by_name["coverage"].traces]
        assert sum(shares) == pytest.approx(1), row.protocol


def test_names_from_the_wire_are_only_text(report: Report) -> None:
    replace = msgspec.structs.replace
    bad = replace(
        report,
        lake=NASTY,
        protocols=[replace(each, protocol=NASTY) for each in report.protocols[:1]],
        traffic=[replace(each, protocol=NASTY) for each in report.traffic[:1]],
        targets=[replace(each, target=NASTY) for each in report.targets],
        topics=[replace(each, topic=NASTY) for each in report.topics],
        clients=[replace(each, client=NASTY) for each in report.clients],
        errors=[replace(each, code=NASTY) for each in report.errors],
        faults=[replace(each, code=NASTY, protocol=NASTY) for each in report.faults],
    )
    page = Page(report_page(bad))
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert len(page.scripts) == 3
    for each in strings(json.loads(page.scripts[0])):
        assert "<img" not in each  # plotly makes elements of some tags
    harmless = NASTY.replace("\u202e", "\\u202e")
    assert harmless in page.texts


def test_nothing_to_show(report: Report) -> None:
    empty = msgspec.structs.replace(
        report,
        overview=msgspec.structs.replace(report.overview, messages=0, first_ns=None, last_ns=None),
        **{
            name: [] for name in report.__struct_fields__ if isinstance(getattr(report, name), list)
        },
    )
    page = Page(report_page(empty))
    assert json.loads(page.scripts[0]) == []
    assert "Commit 1. No messages in this period." in page.texts


def test_without_plotly_the_error_names_the_package(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(PlotlyMissingError, match=r"pip install 'wirelake\[report\]'"):
        report_page(report)
