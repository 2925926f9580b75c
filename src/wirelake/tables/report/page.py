"""A report as one self-contained HTML page: no server, no network, no other file.

    html = report_page(report)

The plots are drawn by plotly.js, which the optional package `plotly` contains. A content security
policy forbids the page to load anything. Without JavaScript the tables are still readable.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Final

import msgspec

from wirelake.wire.errors import missing_dependency

from .more import more
from .plots import Plot, colours, plots
from .report import Report
from .sheets import Sheet, name_text, sheets, tiles, time_text
from .verdict import Finding, verdict

__all__ = ["PlotlyMissingError", "report_page"]

_ASSETS: Final = Path(__file__).with_name("page_assets")
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
"""Content security policy: only inline scripts, styles and images."""
_SHEET_PLOTS: Final = {
    "protocols": ("traffic",),
    "targets": ("latency", "targets"),
    "topics": ("topics",),
    "connections": ("connections",),
    "errors": ("errors",),
    "faults": ("faults",),
    "coverage": ("coverage",),
}
"""Plots above each sheet."""

_FOOTER: Final = (
    "Times are UTC. Steps that the messages fill only in part are not drawn. A click on a heading"
    " sorts a table. The option --json prints the same figures."
)
_MAX_LINE: Final = 34
"""Longest cell that stays on one line."""

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
<aside id="verdict" class="{level}" aria-label="Verdict">
<strong>{summary}</strong>
<ul>
{findings}
</ul>
</aside>
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
    """The optional package plotly is not installed."""

    def __init__(self) -> None:
        super().__init__(missing_dependency("plotly", "report"))


def report_page(report: Report) -> str:
    """Return the HTML page of a report."""
    plotly = _plotly()
    drawn = {plot.name: plot for plot in plots(report)}
    tables = sheets(report)
    summary, *findings = verdict(report)
    return _PAGE.format(
        level=summary.level,
        summary=html.escape(summary.text),
        findings="\n".join(_finding(each) for each in findings),
        policy=_POLICY,
        title=html.escape(_title(report)),
        about=html.escape(_about(report)),
        css=_asset("report.css"),
        links="\n".join(_link(sheet) for sheet in tables),
        tiles="\n".join(_tile(*each) for each in tiles(report)),
        sections="\n".join(_section(sheet, drawn, more(report, sheet.name)) for sheet in tables),
        footer=_FOOTER,
        plots=_embedded([plot.as_json() for plot in drawn.values()]),
        plotly=plotly,
        script=_asset("report.js"),
    )


def _plotly() -> str:
    """Return plotly.js. The import is slow, so it happens only when a page is written."""
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError as error:
        raise PlotlyMissingError from error
    text: str = get_plotlyjs()
    # The text is embedded in a script element, which `</script` in a string would end.
    return text.replace("</script", "<\\/script")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")


def _embedded(data: object) -> str:
    """Return JSON that cannot close its script element."""
    return msgspec.json.encode(data).decode().replace("<", "\\u003c")


def _title(report: Report) -> str:
    what = "Lake report" if report.commit is not None or not report.lake else "Capture report"
    return f"{what}: {name_text(report.lake)}" if report.lake else what


def _about(report: Report) -> str:
    commit = "" if report.commit is None else f"Commit {report.commit}. "
    overview = report.overview
    if overview.first_ns is None:
        return f"{commit}No messages in this period."
    return f"{commit}{time_text(overview.first_ns)} to {time_text(overview.last_ns)}, UTC"


def _tile(caption: str, figure: str) -> str:
    return f"<li><strong>{html.escape(figure)}</strong><span>{html.escape(caption)}</span></li>"


def _link(sheet: Sheet) -> str:
    return f'<a href="#{sheet.name}">{html.escape(sheet.title)}</a>'


def _finding(finding: Finding) -> str:
    return f'<li class="{finding.level}">{html.escape(finding.text)}</li>'


def _section(sheet: Sheet, drawn: dict[str, Plot], command: str | None) -> str:
    figures = "\n".join(
        _plot(drawn[name]) for name in _SHEET_PLOTS.get(sheet.name, ()) if name in drawn
    )
    return (
        f'<section id="{sheet.name}" aria-labelledby="{sheet.name}-title">\n'
        f'<h2 id="{sheet.name}-title">{html.escape(sheet.title)}</h2>\n'
        f"<p>{html.escape(sheet.about)}</p>\n{figures}\n{_table(sheet)}\n"
        f"{_more(command)}</section>"
    )


def _more(command: str | None) -> str:
    """Return the command that shows more, to be copied."""
    if command is None:
        return ""
    return (
        '<div class="more"><span>More:</span> <code>'
        f"{html.escape(command)}</code> "
        '<button type="button" class="copy">Copy</button></div>\n'
    )


def _plot(plot: Plot) -> str:
    # A fixed height before drawing keeps the page from jumping.
    title = html.escape(plot.title)
    return (
        f'<div class="plot"><h3>{title}</h3><div id="plot-{plot.name}" role="img"'
        f' aria-label="{title}" style="min-height: {plot.height}px"></div></div>'
    )


def _table(sheet: Sheet) -> str:
    if not sheet.rows:
        return "<p>None.</p>"
    head = "".join(
        f'<th scope="col"{_kind(text, number)}><button type="button">{html.escape(text)}'
        "</button></th>"
        for text, number in zip(sheet.headings, sheet.numbers, strict=True)
    )
    body = "\n".join(_row(sheet, at) for at in range(len(sheet.rows)))
    # A focusable region can be scrolled with the keyboard.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{sheet.name}-title">'
        f"<table>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def _row(sheet: Sheet, at: int) -> str:
    dot = ""
    if sheet.protocols is not None:
        colour = colours().get(sheet.protocols[at], "$unknown").removeprefix("$")
        dot = f'<i class="dot" style="background: var(--{colour})"></i>'
    cells = zip(sheet.headings, sheet.rows[at], sheet.keys[at], sheet.numbers, strict=True)
    return f"<tr>{''.join(_cell(*cell, dot) for cell in cells)}</tr>"


def _cell(heading: str, text: str, key: object, number: bool, dot: str) -> str:
    # Text sorts by itself; a number that is not known has no key, and comes last.
    sort = f' data-sort="{key}"' if number and key is not None else ""
    before = dot if heading == "protocol" else ""
    return f"<td{_kind(text, number)}{sort}>{before}{html.escape(text)}</td>"


def _kind(text: str, number: bool) -> str:
    if number:
        return ' class="number"'
    return ' class="long"' if len(text) > _MAX_LINE else ""
