"""The report page in a real browser: plots, no errors, readable at any width, dark and light."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser
from tests.tables.simulated_lake import captures, lake
from tools.chromium import chromium

from wirelake.tables.query import open_lake
from wirelake.tables.report.more import more
from wirelake.tables.report.page import report_page
from wirelake.tables.report.plots import Plot, plots
from wirelake.tables.report.report import Report, make_report
from wirelake.tables.report.sheets import sheets

from .browser_page import View, view

__all__ = ["captures", "lake"]

NASTY = "</script><img src=x onerror=alert(1)><b>{brace}&amp;\u202e"
WINDOWS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]


@pytest.fixture(scope="module")
def report(lake: Path) -> Report:
    with open_lake(lake) as db:
        more = ("wirelake", "lake", "sql", str(lake))
        return make_report(db, lake="simulated", commit=1, command=more, top=10)


@pytest.fixture(scope="module")
def page_file(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_page(report), "utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module", params=WINDOWS, ids=lambda each: f"{each[0]}-{each[1]}")
def window(request: pytest.FixtureRequest, browser: Browser, page_file: Path) -> Iterator[View]:
    width, scheme = request.param
    with view(browser, page_file, width=width, scheme=scheme) as found:
        yield found


def values(plot: Plot, kind: str) -> list[float]:
    """All values of the traces of a kind."""
    across = [(trace, trace.get("orientation") == "h") for trace in plot.traces]
    return [
        value
        for trace, is_across in across
        if trace["type"] == kind
        for value in trace["x" if is_across else "y"]
    ]


# -- at every width, dark and light ----------------------------------------------------------


def test_no_console_output_and_no_requests(window: View) -> None:
    assert window.said == []
    assert [each for each in window.asked if not each.startswith(("data:", "blob:"))] == [
        window.address
    ]


def test_every_plot_shows_its_data(window: View, report: Report) -> None:
    shown = plots(report)
    assert len(shown) == 8
    for plot in shown:
        found = window.ask(f"drawn({plot.name!r})")
        bars = [value for value in values(plot, "bar") if value > 0]
        assert found["bars"] == len(bars), plot.name
        lines = [trace for trace in plot.traces if "lines" in trace.get("mode", "")]
        assert found["lines"] == len(lines), plot.name
        maps = [trace for trace in plot.traces if trace["type"] == "heatmap"]
        assert found["images"] == len(maps), plot.name
        points = [trace for trace in plot.traces if trace.get("mode") == "markers"]
        assert found["points"] == sum(len(trace["x"]) for trace in points), plot.name
        assert found["ticks"] >= 4, plot.name
        assert bars or maps, plot.name


def test_nothing_is_wider_than_the_window(window: View) -> None:
    size = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    assert window.page.evaluate(size) == [window.width, window.width]
    assert window.ask("beyond()") == []


def test_wide_tables_scroll_inside_themselves(window: View) -> None:
    wider = window.page.evaluate(
        "[...document.querySelectorAll('.scroll')]"
        ".map((each) => { each.scrollLeft = 1000; const at = each.scrollLeft;"
        " each.scrollLeft = 0; return [each.scrollWidth - each.clientWidth, at]; })"
    )
    assert all(at == min(room, 1000) for room, at in wider)
    if window.width < 640:
        assert max(room for room, _ in wider) > 100


def test_text_can_be_read(window: View) -> None:
    found = window.ask("legibility()")
    assert len(found) > 300
    assert [each for each in found if each["size"] < 12] == []
    assert [each for each in found if each["contrast"] < 4.5] == []


def test_marks_can_be_seen(window: View) -> None:
    marks = window.ask("marks()")
    assert len(marks) > 6
    assert {colour: seen for colour, seen in marks.items() if seen < 3} == {}


def test_dark_is_dark(window: View) -> None:
    assert (window.ask("brightness()") < 0.1) == (window.scheme == "dark")


def test_the_keyboard_reaches_everything_and_shows_where_it_is(
    window: View, report: Report
) -> None:
    places = [f"#{sheet.name}" for sheet in sheets(report)]
    for sheet in sheets(report):
        places += [f"{sheet.name}-title", *sheet.headings] if sheet.rows else []
        places.append("Copy")
    window.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    for place in places:
        window.page.keyboard.press("Tab")
        found = window.ask("focused()")
        assert found["place"] == place
        assert (found["style"], found["width"]) == ("solid", 2)
        assert found["contrast"] >= 3


# -- one window ------------------------------------------------------------------------------


def test_headings_make_an_outline(browser: Browser, page_file: Path, report: Report) -> None:
    with view(browser, page_file) as found:
        page = found.page
        assert page.locator("html").get_attribute("lang") == "en"
        assert page.title() == page.locator("h1").inner_text() == "Lake report: simulated"
        shown = sheets(report)
        assert page.locator("main section > h2").all_inner_texts() == [s.title for s in shown]
        assert page.locator("h3").all_inner_texts() == [plot.title for plot in plots(report)]
        assert page.locator("[role=img][aria-label]").count() == len(plots(report))
        heads = sum(len(sheet.headings) for sheet in shown if sheet.rows)
        assert page.locator("th[scope=col]").count() == heads
        assert page.locator("main").count() == page.locator("nav").count() == 1


def test_a_link_leads_to_its_section(browser: Browser, page_file: Path) -> None:
    with view(browser, page_file) as found:
        found.page.get_by_role("link", name="Coverage").click()
        place = found.page.locator("#coverage").bounding_box()
        assert place is not None
        assert 0 <= place["y"] < 900
        assert found.said == []


def test_tables_can_be_sorted(browser: Browser, page_file: Path, report: Report) -> None:
    with view(browser, page_file) as found:
        page = found.page
        for sheet in sheets(report):
            for at, heading in enumerate(sheet.headings):
                keys = [row[at] for row in sheet.keys]
                if not sheet.numbers[at] or len({*keys}) < 2:
                    continue
                cells = page.locator(f"#{sheet.name} tbody tr td:nth-child({at + 1})")
                rows = zip(sheet.keys, sheet.rows, strict=True)
                texts = {row[at]: text[at] for row, text in rows}
                known = sorted((key for key in keys if key is not None), key=float)  # type: ignore[arg-type]
                missing = [None] * keys.count(None)
                head = page.locator(f"#{sheet.name} th").nth(at)
                for order, wanted in (
                    ("descending", [*known[::-1], *missing]),
                    ("ascending", [*known, *missing]),
                ):
                    head.get_by_role("button", name=heading, exact=True).click()
                    assert head.get_attribute("aria-sort") == order
                    assert cells.all_inner_texts() == [texts[key] for key in wanted]
                assert page.locator(f"#{sheet.name} th[aria-sort]").count() == 1
        first = page.locator("#targets tbody td:first-child")
        page.locator("#targets th button").first.click()
        names = first.all_inner_texts()
        page.locator("#targets th button").first.click()
        assert first.all_inner_texts() == names[::-1] != names
        assert found.said == []


def test_commands_can_be_copied(browser: Browser, page_file: Path, report: Report) -> None:
    with view(browser, page_file) as found:
        for sheet in sheets(report):
            place = found.page.locator(f"#{sheet.name} .more")
            assert place.locator("code").inner_text() == more(report, sheet.name)
        button = found.page.locator("#targets .copy")
        button.click()
        found.page.wait_for_function(
            "document.querySelector('#targets .copy').textContent !== 'Copy'"
        )
        if button.inner_text() == "Ctrl-C":  # the browser forbids it: the text is selected
            assert found.page.evaluate("getSelection().toString()") == more(report, "targets")
        else:
            found.page.context.grant_permissions(["clipboard-read"])
            text = found.page.evaluate("navigator.clipboard.readText()")
            assert text == more(report, "targets")


def test_a_protocol_has_one_colour(browser: Browser, page_file: Path, report: Report) -> None:
    with view(browser, page_file) as found:
        dots = found.page.evaluate(
            "[...document.querySelectorAll('.dot')].map((each) =>"
            " [each.parentNode.textContent, getComputedStyle(each).backgroundColor])"
        )
        colours = {(name, colour) for name, colour in dots}
        assert len(colours) == len({name for name, _ in colours}) == len(report.protocols)
        bars = found.page.evaluate(
            "[...document.querySelectorAll('#plot-traffic .legend .traces')].map((each) =>"
            " [each.textContent, getComputedStyle(each.querySelector('path')).fill])"
        )
        assert {tuple(each) for each in bars} <= colours


def test_hover_shows_the_figures(browser: Browser, page_file: Path, report: Report) -> None:
    with view(browser, page_file) as found:
        bar = found.page.locator("#plot-connections .barlayer .point path").first
        bar.hover(force=True)
        tooltip = found.page.locator("#plot-connections .hoverlayer .hovertext").first
        tooltip.wait_for()
        row = report.connections[0]
        wanted = f"{row.protocol}: {row.closed_by_client:,} closed by the client"
        assert (tooltip.text_content() or "").strip() == wanted


def test_a_change_of_colours_redraws(browser: Browser, page_file: Path) -> None:
    def ink() -> str:
        found: str = tick.evaluate("(each) => getComputedStyle(each).fill")
        return found

    with view(browser, page_file, scheme="light") as found:
        tick = found.page.locator("#plot-traffic .ytick text").first
        before = ink()
        found.page.emulate_media(color_scheme="dark")
        found.page.wait_for_function(
            "(before) => getComputedStyle(document.querySelector('#plot-traffic .ytick text')).fill"
            " !== before",
            arg=before,
        )
        found.page.emulate_media(color_scheme="light")
        found.page.wait_for_function(
            "(before) => getComputedStyle(document.querySelector('#plot-traffic .ytick text')).fill"
            " === before",
            arg=before,
        )
        assert found.said == []


def test_without_script_there_are_the_tables(
    browser: Browser, page_file: Path, report: Report
) -> None:
    with view(browser, page_file, width=390, script=False) as found:
        rows = sum(len(sheet.rows) for sheet in sheets(report))
        assert found.page.locator("tbody tr").count() == rows
        assert found.page.locator("tbody tr").first.is_visible()
        assert not found.page.locator(".plot").first.is_visible()


# -- other reports ---------------------------------------------------------------------------


def test_names_from_the_wire_do_nothing(browser: Browser, report: Report, tmp_path: Path) -> None:
    replace = msgspec.structs.replace
    bad = replace(
        report,
        lake=NASTY * 9,
        protocols=[replace(each, protocol=NASTY) for each in report.protocols[:1]],
        traffic=[replace(each, protocol=NASTY) for each in report.traffic[:1]],
        targets=[replace(each, target=NASTY * 9) for each in report.targets],
        topics=[replace(each, topic=NASTY) for each in report.topics],
        clients=[replace(each, client=NASTY) for each in report.clients],
        connections=[replace(each, protocol=NASTY) for each in report.connections],
        coverage=[replace(each, protocol=NASTY) for each in report.coverage],
        faults=[replace(each, code=NASTY, protocol=NASTY) for each in report.faults],
    )
    file = tmp_path / "bad.html"
    file.write_text(report_page(bad), "utf-8")
    with view(browser, file, width=390) as found:
        assert found.ask("beyond()") == []
        found.page.locator("#plot-targets .barlayer .point path").first.hover(force=True)
        found.page.locator("#plot-targets .hoverlayer .hovertext").first.wait_for()
        assert found.page.locator("img[src=x]").count() == 0
        assert found.said == []
        assert found.page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_report_about_nothing(browser: Browser, report: Report, tmp_path: Path) -> None:
    lists = [name for name in report.__struct_fields__ if isinstance(getattr(report, name), list)]
    overview = msgspec.structs.replace(report.overview, messages=0, first_ns=None, last_ns=None)
    empty = msgspec.structs.replace(report, overview=overview, **{name: [] for name in lists})
    file = tmp_path / "empty.html"
    file.write_text(report_page(empty), "utf-8")
    with view(browser, file) as found:
        assert found.page.get_by_text("No messages in this period.").is_visible()
        assert found.page.get_by_text("None.", exact=True).count() == len(sheets(empty))
        assert found.said == []
