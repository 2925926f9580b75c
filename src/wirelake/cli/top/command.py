"""`wirelake top`: live statistics of a hub."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from ..connect import AdminHub, admin_hub, admin_options
from ..errors import BAD_DATA, CommandError
from ..main import COMMANDS
from ..options import CONTEXT
from ..output.text import json_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from .figures import Figures, History, Sample
    from .view import Keys, ViewState

__all__ = ["command"]

_HELP = f"""{COMMANDS["top"]}

URL is the hub's admin address; the token is in the hub's data directory. Rates cover the last
interval; p50 and p99 cover the last ten, and measure the time in the hub, without the network.
Keys: q quits, p pauses, s changes the sort order of targets.

\b
Examples:
  wirelake top --data hub-data
  wirelake top https://hub.example.org:9680 --token-file admin.token --ca ca.pem --interval 5
  wirelake top --once
  wirelake top --json | jq .total.calls_per_s

Exit codes: 0 interrupted, 1 cannot reach the hub or it refused, 2 bad usage.
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
    help="Time between updates.",
)
@click.option("--once", is_flag=True, help="Print one view and exit.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per interval.")
def command(
    url: str | None,
    interval_s: float,
    once: bool,
    as_json: bool,
    **admin: Any,
) -> None:
    """Show a hub."""
    hub = admin_hub(url, **admin)
    if not once and not as_json and not sys.stdout.isatty():
        raise click.UsageError("standard output is not a terminal: add --once or --json")
    try:
        if once or as_json:
            _print(hub, interval_s, once=once, as_json=as_json)
        else:
            _watch(hub, interval_s)
    except KeyboardInterrupt:
        return


def _sample(hub: AdminHub) -> Sample:
    import msgspec

    from .figures import Sample

    try:
        return msgspec.convert(hub.json("/v1/top"), Sample)
    except msgspec.ValidationError as error:
        raise CommandError(
            f"{hub.url}: invalid response of /v1/top ({error}); the hub and this command have "
            f"different versions",
            BAD_DATA,
        ) from error


def _print(hub: AdminHub, interval_s: float, *, once: bool, as_json: bool) -> None:
    from .figures import History

    history = History()
    history.add(_sample(hub))
    while True:
        time.sleep(interval_s)
        figures = history.add(_sample(hub))
        if figures is None:  # the hub was restarted
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

    from .view import ViewState, top_view

    console = Console(highlight=False)
    console.print(top_view(figures, ViewState(hub.url, console.width)))


# -- live ------------------------------------------------------------------------------------


def _watch(hub: AdminHub, interval_s: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from .figures import History
    from .view import ViewState, terminal_keys

    history = History()
    history.add(_sample(hub))  # report errors before switching to the alternate screen
    console = Console(highlight=False)
    state = ViewState(hub.url, console.width, console.height)
    with (
        terminal_keys() as keys,
        Live(console=console, screen=True, auto_refresh=False, transient=True) as live,
    ):
        _Screen(console, live, keys, state).run(hub, history, interval_s)


class _Screen:
    """Updates the terminal and handles keys."""

    def __init__(self, console: Console, live: Live, keys: Keys, state: ViewState):
        self._console = console
        self._live = live
        self._keys = keys
        self._state = state
        self._figures: Figures | None = None
        self._quit = False

    def run(self, hub: AdminHub, history: History, interval_s: float) -> None:
        """Update until the user quits."""
        # Rates need two samples. The first interval is short, so that the screen fills at once.
        self._wait(min(interval_s, 0.5))
        while not self._quit:
            if not self._state.paused:
                figures = history.add(_sample(hub))
                if figures is not None:
                    self._figures = figures
                    self._state.remember(figures)
            self._draw()
            self._wait(interval_s)

    def _wait(self, seconds: float) -> None:
        """Wait, and handle keys immediately."""
        until = time.monotonic() + seconds
        while not self._quit and (left := until - time.monotonic()) > 0:
            key = self._keys.wait(left)
            if key:
                self._handle_key(key)

    def _handle_key(self, key: str) -> None:
        from .view import next_sort_order

        if key in "qQ":
            self._quit = True
        elif key in "pP ":
            self._state.paused = not self._state.paused
        elif key in "sS":
            self._state.sort = next_sort_order(self._state.sort)
        self._draw()

    def _draw(self) -> None:
        from .view import top_view

        self._state.width, self._state.height = self._console.width, self._console.height
        view: Any = "connecting…"
        if self._figures is not None:
            view = top_view(self._figures, self._state)
        self._live.update(view, refresh=True)
