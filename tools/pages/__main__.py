"""`python -m tools.pages docs/reference [--check]`: write every generated page of the reference."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

__all__ = ["main", "pages", "stale"]


def pages() -> dict[str, str]:
    """Return all pages of the reference, by their paths in its folder."""
    from wirelake.wire.views import markdown

    from . import commands, config, coverage, http, python, sessions, tables, wireshark

    return {
        **markdown.pages(),
        **sessions.pages(),
        **tables.pages(),
        **commands.pages(),
        **config.pages(),
        **http.pages(),
        **python.pages(),
        **coverage.pages(),
        **wireshark.pages(),
    }


def stale(folder: Path) -> dict[str, str]:
    """Return the pages that are missing or out of date in a folder, with their new content."""
    return {name: text for name, text in pages().items() if _text(folder / name) != text}


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def main(arguments: list[str] | None = None) -> int:
    """Write the pages that are out of date; with --check, only list them."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="folder of the pages, such as docs/reference")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a page is out of date"
    )
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
