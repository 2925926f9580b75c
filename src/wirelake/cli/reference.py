"""`python -m wirelake.cli.reference docs/reference [--check]`: every generated page at once.

Each page is made where the thing that it describes lives; here they are put together, because only
this room may know all of them. `make pages` runs it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

__all__ = ["main", "pages", "stale"]


def pages() -> dict[str, str]:
    """All pages of the reference, by their paths in its folder."""
    from wirelake.hub import config_pages
    from wirelake.hub.admin import http_pages
    from wirelake.protocols import diagrams
    from wirelake.records import pages as table_pages
    from wirelake.wire.views import markdown

    from . import command_pages, python_pages

    return {
        **markdown.pages(),
        diagrams.FILE: diagrams.page(),
        **table_pages.pages(),
        **command_pages.pages(),
        **config_pages.pages(),
        **http_pages.pages(),
        **python_pages.pages(),
    }


def stale(folder: Path) -> dict[str, str]:
    """The pages in a folder that are missing or out of date, and what they should say."""
    return {name: text for name, text in pages().items() if _text(folder / name) != text}


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def main(arguments: list[str] | None = None) -> int:
    """Writes the pages; with --check only says which are out of date."""
    parser = argparse.ArgumentParser(
        prog="python -m wirelake.cli.reference", description=main.__doc__
    )
    parser.add_argument("folder", type=Path, help="where the pages are, such as docs/reference")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when out of date")
    chosen = parser.parse_args(arguments)
    found = stale(chosen.folder)
    for name, text in found.items():
        if chosen.check:
            print(f"{name} is out of date")
            continue
        path = chosen.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {name}")
    return 1 if chosen.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
