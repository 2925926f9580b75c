"""Takes the screenshots of README and docs: the demo, `wirelake top`, and the HTML report.

    python -m tools.screenshots                  runs the demo; takes two minutes
    python -m tools.screenshots --seconds 10 --to FOLDER

The demo runs on a pseudo-terminal of 100 × 40, whose screen is rendered by Chromium.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser

from .chromium import chromium
from .terminal import Terminal, terminal_page

__all__ = ["main"]

_ROOT: Final = Path(__file__).resolve().parents[1]
_IMAGES: Final = _ROOT / "docs" / "images"
_WIRELAKE: Final = str(Path(sys.executable).with_name("wirelake"))
_MAX_BYTES: Final = 300_000
"""Maximum size of a picture; they are part of the repository."""
_SCALES: Final = (2, 1.5, 1.25, 1)
"""Device pixel ratios to try, until the picture is small enough."""
_TIMEOUT_S: Final = 300.0
_PAGES: Final = (
    ("report-light", 1280, 1240, "light"),
    ("report-dark", 1280, 1240, "dark"),
    ("report-phone", 390, 844, "dark"),
)
"""Pictures of the report: name, width, height, colour scheme."""


def main(arguments: list[str] | None = None) -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description="Take the screenshots of README and docs.")
    parser.add_argument("--to", type=Path, default=_IMAGES, help="output folder")
    parser.add_argument("--seconds", type=float, default=20, help="duration of the demo's traffic")
    parser.add_argument("--scale", type=float, default=1, help="number of clients of the demo")
    options = parser.parse_args(arguments)
    options.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="screenshots-") as work, chromium() as browser:
        folder = Path(work)
        pictures = _demo(folder, options.seconds, options.scale)
        for name, (title, rows) in pictures.items():
            _picture_of_terminal(browser, options.to / f"{name}.png", title, rows)
        for name, width, height, scheme in _PAGES:
            target = options.to / f"{name}.png"
            _picture_of_page(browser, folder / "report.html", target, width, height, scheme)


def _demo(folder: Path, seconds: float, scale: float) -> dict[str, tuple[str, Any]]:
    """Run the demo; return title and rows of each terminal by the name of the picture."""
    command = [
        _WIRELAKE, "demo", "--any-port", "--keep", "demo", "--html", "report.html",
        "--seconds", f"{seconds:g}", "--scale", f"{scale:g}",
    ]  # fmt: skip
    found: dict[str, tuple[str, Any]] = {}
    with Terminal(command, folder) as terminal:
        terminal.until(lambda lines: _is_busy(lines, seconds), _TIMEOUT_S)
        found["demo-live"] = ("make demo", terminal.rows())
        admin = re.search(r"http://[\d.]+:\d+", "\n".join(terminal.lines()))
        assert admin is not None
        look = [_WIRELAKE, "top", admin[0], "--data", "demo/hub", "--once"]
        with Terminal(look, folder) as top:
            top.wait(_TIMEOUT_S)
            found["top"] = ("wirelake top", top.rows())
        terminal.until(lambda lines: "Ctrl-C" in "\n".join(lines), _TIMEOUT_S)
        found["demo"] = ("make demo", _result(terminal.rows(), terminal.lines()))
        terminal.interrupt()
        terminal.wait(_TIMEOUT_S)
    return found


def _is_busy(lines: list[str], seconds: float) -> bool:
    """Return whether half of the traffic is over and the lake has a commit, or it ends soon."""
    text = "\n".join(lines)
    found = re.findall(r"(\d+) s left", text)
    left = int(found[-1]) if found else seconds
    return left <= 2 or (left <= seconds / 2 and "commit" in text)


def _result(rows: list[Any], lines: list[str]) -> list[Any]:
    """Return the steps, the first tables and the result of the comparison; dots for the rest."""
    cut = lines.index("Connections")
    last = next(at for at, line in enumerate(lines) if "match the truth" in line)
    blank = rows[cut - 1]
    dots = [blank[0]._replace(data="…"), *blank[1:]]
    return [*rows[:cut], dots, blank, rows[last]]


def _picture_of_terminal(browser: Browser, target: Path, title: str, rows: list[Any]) -> None:
    """Take a picture at the highest resolution that is small enough."""
    for scale in _SCALES:
        context = browser.new_context(device_scale_factor=scale)
        page = context.new_page()
        page.set_content(terminal_page(title, rows))
        page.locator("figure").screenshot(path=target, omit_background=True)
        context.close()
        if target.stat().st_size <= _MAX_BYTES:
            break
    _check(target)


def _picture_of_page(
    browser: Browser, source: Path, target: Path, width: int, height: int, scheme: Any
) -> None:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.goto(source.as_uri())
    page.locator(".plot .barlayer .point path").first.wait_for()
    page.screenshot(path=target)
    context.close()
    _check(target)


def _check(target: Path) -> None:
    size = target.stat().st_size
    if size > _MAX_BYTES:
        raise ValueError(f"{target}: too large, {size:,} bytes; the maximum is {_MAX_BYTES:,}")
    print(f"{target}: {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
