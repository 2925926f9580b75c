"""A report as one page of HTML that needs nothing else: no server, no network, no other file.

    html = report_page(report)

The script that draws is plotly.js, as the package `plotly` brings it (`pip install
'wirelake[report]'`). The page forbids itself to load anything. Without JavaScript the tables are
still there.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from .plots import Plot, plots
from .report import Report
from .sheets import (
    Sheet,
    name_text,
    sheets,
    tiles,
    time_text,
)

__all__ = ["PlotlyMissingError", "report_page"]

_PARTS: Final = Path(__file__).with_name("page_assets")
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
"""What the page may load: nothing but what it brings."""
_PLOTS_OF: Final = {
    "protocols": ("traffic",),
    "targets": ("latency", "targets"),
    "topics": ("topics",),
    "connections": ("connections",),
    "errors": ("errors",),
    "faults": ("faults",),
    "coverage": ("coverage",),
}
"""By sheet: the plots above it."""

_LONG: Final = 34
"""Characters of a cell that stay on one line."""

_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{css}</style>
<noscript><style>.plot {{ display: none; }}</style></noscript>
</head>
<body>
<main>
<header>
<h1>{title}</h1>
<p>{about}</p>
</header>
<nav aria-label="Sections">
{links}
</nav>
<ul class="tiles">
{tiles}
</ul>
{sections}
<footer><p>{footer}</p></footer>
</main>
<script type="application/json" id="plots">{plots}</script>
<script>{plotly}</script>
<script>
{script}</script>
</body>
</html>
"""


class PlotlyMissingError(ValueError):
    """There is nothing to draw with."""

    def __init__(self) -> None:
        super().__init__("a page needs plotly: pip install 'wirelake[report]'")


def report_page(report: Report) -> str:
    """The page."""
    plotly = _plotly()
    drawn = {plot.name: plot for plot in plots(report)}
    shown = sheets(report)
    return _PAGE.format(
        policy=_POLICY,
        title=html.escape(_title(report)),
        about=html.escape(_about(report)),
        css=_part("report.css"),
        links="\n".join(_link(sheet) for sheet in shown),
        tiles="\n".join(_tile(*each) for each in tiles(report)),
        sections="\n".join(_section(sheet, drawn) for sheet in shown),
        footer="Times are UTC. wirelake lake report --json has the same figures.",
        plots=_embedded([plot.as_json() for plot in drawn.values()]),
        plotly=plotly,
        script=_part("report.js"),
    )


def _plotly() -> str:
    """plotly.js; the import takes a while, so it is made only when a page is."""
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError as error:
        raise PlotlyMissingError from error
    text: str = get_plotlyjs()
    return text.replace("</script", "<\\/script")


def _part(name: str) -> str:
    return (_PARTS / name).read_text("utf-8")


def _embedded(data: object) -> str:
    """JSON that cannot end the element it is in."""
    return msgspec.json.encode(data).decode().replace("<", "\\u003c")


def _title(report: Report) -> str:
    return f"Lake report: {name_text(report.lake)}" if report.lake else "Lake report"


def _about(report: Report) -> str:
    commit = "" if report.commit is None else f"Commit {report.commit}. "
    overview = report.overview
    if overview.first_ns is None:
        return f"{commit}There are no messages in this time."
    return f"{commit}{time_text(overview.first_ns)} to {time_text(overview.last_ns)}, UTC"


def _tile(what: str, figure: str) -> str:
    return f"<li><strong>{html.escape(figure)}</strong><span>{html.escape(what)}</span></li>"


def _link(sheet: Sheet) -> str:
    return f'<a href="#{sheet.name}">{html.escape(sheet.title)}</a>'


def _section(sheet: Sheet, drawn: dict[str, Plot]) -> str:
    figures = "\n".join(
        _plot(drawn[name]) for name in _PLOTS_OF.get(sheet.name, ()) if name in drawn
    )
    return (
        f'<section id="{sheet.name}" aria-labelledby="{sheet.name}-title">\n'
        f'<h2 id="{sheet.name}-title">{html.escape(sheet.title)}</h2>\n'
        f"<p>{html.escape(sheet.about)}</p>\n{figures}\n{_table(sheet)}\n</section>"
    )


def _plot(plot: Plot) -> str:
    # The height is set before anything is drawn, so that the page does not jump.
    title = html.escape(plot.title)
    return (
        f'<div class="plot"><h3>{title}</h3><div id="plot-{plot.name}" role="img"'
        f' aria-label="{title}" style="min-height: {plot.height}px"></div></div>'
    )


def _table(sheet: Sheet) -> str:
    if not sheet.rows:
        return "<p>None.</p>"
    head = _cells('th scope="col"', sheet.headings, sheet.numbers)
    body = "\n".join(f"<tr>{_cells('td', row, sheet.numbers)}</tr>" for row in sheet.rows)
    # What scrolls can be reached with the keyboard.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{sheet.name}-title">'
        f"<table>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def _cells(tag: str, texts: Sequence[str], numbers: Sequence[bool]) -> str:
    return "".join(
        f"<{tag}{_kind(text, number)}>{html.escape(text)}</{tag.split(maxsplit=1)[0]}>"
        for text, number in zip(texts, numbers, strict=True)
    )


def _kind(text: str, number: bool) -> str:
    if number:
        return ' class="number"'
    return ' class="long"' if len(text) > _LONG else ""
