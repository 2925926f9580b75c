"""Live inputs of commands: which arguments are allowed, and how they are opened."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from wirelake.capture.live.inputs import STANDARD_INPUT, Input, open_input

__all__ = ["check_inputs", "open_inputs"]


def check_inputs(named: Iterable[str], *, follow: bool) -> None:
    """Raise UsageError for inputs that cannot be read as they arrive."""
    names = list(named)
    if names.count(STANDARD_INPUT) > 1:
        raise click.UsageError("standard input is given twice")
    # Its number may belong to something else by now.
    if STANDARD_INPUT in names and sys.stdin is None:
        raise click.UsageError("standard input is closed: expected a capture")
    for name in names:
        if name == STANDARD_INPUT and os.isatty(0):
            raise click.UsageError(
                "standard input is a terminal: expected a capture, as in"
                " tcpdump -U --immediate-mode -w - | wirelake read -"
            )
        if follow and Path(name).is_dir():
            raise click.UsageError(
                f"{name}: a folder cannot be followed: give files, or use wirelake lake run"
            )


def open_inputs(paths: Sequence[str], *, follow: bool) -> list[Input]:
    """Open inputs. Raises OSError; then none is left open."""
    found: list[Input] = []
    try:
        for path in paths:
            found.append(open_input(path, follow=follow))
    except OSError:
        for each in found:
            each.close()
        raise
    return found
