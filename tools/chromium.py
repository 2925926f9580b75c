"""Headless Chromium of the system, for tests and screenshots."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, sync_playwright

__all__ = ["chromium"]

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser. It runs without a sandbox, which Chromium refuses to use as root."""
    path = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if path is None:
        raise FileNotFoundError("chromium is missing: make system")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
