"""A page in Chromium, without network access, with its console messages and requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Route

__all__ = ["View", "view"]

_SCRIPT = Path(__file__).with_name("browser_page.js").read_text("utf-8")


@dataclass
class View:
    """An open page."""

    page: Page
    address: str
    width: int
    scheme: str
    said: list[str] = field(default_factory=list)
    """Whatever came to the console, errors and dialogues included."""
    asked: list[str] = field(default_factory=list)
    """Whatever it wanted to load."""

    def ask(self, question: str) -> Any:
        """The answer of one of the functions in browser_page.js."""
        return self.page.evaluate(f"{_SCRIPT}.{question}")


@contextmanager
def view(
    browser: Browser, file: Path, *, width: int = 1280, scheme: Any = "light", script: bool = True
) -> Iterator[View]:
    """A file, opened in a window of its own."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
    )
    context.set_default_timeout(30_000)
    page = context.new_page()
    found = View(page, file.as_uri(), width, scheme)
    page.on("console", lambda message: found.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: found.said.append(f"error: {error}"))
    page.on("crash", lambda _: found.said.append("crash"))
    page.on("dialog", lambda dialog: (found.said.append("dialogue"), dialog.dismiss()))
    page.on("request", lambda request: found.asked.append(request.url))

    def only_the_file(route: Route) -> None:
        if route.request.url == found.address:
            route.continue_()
        else:
            route.abort()

    context.route("**/*", only_the_file)
    try:
        page.goto(found.address)
        yield found
    finally:
        context.close()
