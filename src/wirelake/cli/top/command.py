"""`wirelake top`: a hub at work, as a table that moves."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from ..errors import BAD_DATA, CommandError
from ..main import COMMANDS
from ..output.admin_http import (
    AdminHub,
    admin_hub,
    admin_options,
)
from ..output.common import CONTEXT, json_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from .figures import (
        Figures,
        History,
        Look,
    )
    from .terminal_keys import Keys
    from .view import Shown

__all__ = ["command"]

_HELP = f"""{COMMANDS["top"]}

URL is the hub's admin address; the token is in the hub's data directory. Rates are of the last
interval, p50 and p99 of the last ten; they are how long the hub took, without the network. q ends
it, p pauses, s sorts targets by something else.

\b
Examples:
  wirelake top --data hub-data
  wirelake top https://hub.example.org:9680 --token-file admin.token --ca ca.pem --interval 5
  wirelake top --once
  wirelake top --json | jq .total.calls_per_s

Exit codes: 0 ended by you, 1 no hub answers or it refuses, 2 bad usage.
"""


@click.command(name="top", help=_HELP, context_settings=CONTEXT)
@admin_options
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1, max=3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks.",
)
@click.option("--once", is_flag=True, help="Look twice, print one view, and end.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each interval.")
def command(
    url: str,
    data: str | None,
    token_file: str | None,
    ca: str | None,
    interval_s: float,
    once: bool,
    as_json: bool,
) -> None:
    """Watch a hub."""
    hub = admin_hub(url, data, token_file, ca)
    if not once and not as_json and not sys.stdout.isatty():
        raise click.UsageError("standard output is no terminal: add --once or --json")
    try:
        if once or as_json:
            _print(hub, interval_s, once=once, as_json=as_json)
        else:
            _watch(hub, interval_s)
    except KeyboardInterrupt:
        return


def _look(hub: AdminHub) -> Look:
    import msgspec

    from .figures import Look

    try:
        return msgspec.convert(hub.json("/v1/top"), Look)
    except msgspec.ValidationError as error:
        raise CommandError(
            f"{hub.url}: the answer of /v1/top cannot be understood ({error}); hub and command "
            f"are of different versions",
            BAD_DATA,
        ) from error


def _print(hub: AdminHub, interval_s: float, *, once: bool, as_json: bool) -> None:
    from .figures import History

    history = History()
    history.add(_look(hub))
    while True:
        time.sleep(interval_s)
        figures = history.add(_look(hub))
        if figures is None:  # another hub than before
            continue
        if as_json:
            import msgspec

            click.echo(json_line(msgspec.to_builtins(figures)))
            sys.stdout.flush()
        else:
            _print_view(hub, figures)
        if once:
            return


def _print_view(hub: AdminHub, figures: Figures) -> None:
    from rich.console import Console

    from .view import Shown, top_view

    console = Console(highlight=False)
    console.print(top_view(figures, Shown(hub.url, console.width)))


# -- live ------------------------------------------------------------------------------------


def _watch(hub: AdminHub, interval_s: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from .figures import History
    from .terminal_keys import terminal_keys
    from .view import Shown

    history = History()
    history.add(_look(hub))  # what is wrong with the hub is said before the screen changes
    console = Console(highlight=False)
    shown = Shown(hub.url, console.width, console.height)
    with (
        terminal_keys() as keys,
        Live(console=console, screen=True, auto_refresh=False, transient=True) as live,
    ):
        _Screen(console, live, keys, shown).run(hub, history, interval_s)


class _Screen:
    """The view on the terminal, and the keys."""

    def __init__(self, console: Console, live: Live, keys: Keys, shown: Shown):
        self._console = console
        self._live = live
        self._keys = keys
        self._shown = shown
        self._figures: Figures | None = None
        self._ended = False

    def run(self, hub: AdminHub, history: History, interval_s: float) -> None:
        """Until somebody has seen enough."""
        self._wait(min(interval_s, 0.5))  # the first figures come soon
        while not self._ended:
            if not self._shown.paused:
                figures = history.add(_look(hub))
                if figures is not None:
                    self._figures = figures
                    self._shown.remember(figures)
            self._draw()
            self._wait(interval_s)

    def _wait(self, seconds: float) -> None:
        """Lets time pass; keys act at once."""
        until = time.monotonic() + seconds
        while not self._ended and (left := until - time.monotonic()) > 0:
            key = self._keys.wait(left)
            if key:
                self._press(key)

    def _press(self, key: str) -> None:
        from .view import SORTS

        if key in "qQ":
            self._ended = True
        elif key in "pP ":
            self._shown.paused = not self._shown.paused
        elif key in "sS":
            self._shown.sort = SORTS[(SORTS.index(self._shown.sort) + 1) % len(SORTS)]
        self._draw()

    def _draw(self) -> None:
        from .view import top_view

        self._shown.width, self._shown.height = self._console.width, self._console.height
        view: Any = "looking…"
        if self._figures is not None:
            view = top_view(self._figures, self._shown)
        self._live.update(view, refresh=True)
