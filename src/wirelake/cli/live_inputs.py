"""Live inputs of commands: which arguments are allowed, how they are opened, and how they end.

Ctrl-C and SIGTERM stop the inputs: what has arrived is decoded and written, and then the command
ends with 0, as it does at the end of a pipe. If nothing has arrived, not even the head of a
capture, it is an interrupt like any other. A second Ctrl-C ends it at once.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wirelake.capture.live.inputs import STANDARD_INPUT, Input, is_live, open_input

from .errors import BAD_DATA
from .options import captures
from .output.text import print_notice
from .signals import stopped_by_signals

if TYPE_CHECKING:
    from wirelake.columnar.scan.live import LiveInputs

__all__ = ["find_inputs", "live_inputs", "open_inputs", "report_problems"]


def find_inputs(
    named: Sequence[str], *, include_open: bool, follow: bool
) -> tuple[list[str], bool]:
    """Return the captures that are named, and whether they are read as they arrive."""
    _check(named, follow=follow)
    found = captures(named, include_open=include_open, standard_input=True)
    return found, follow or any(map(is_live, found))


def _check(named: Iterable[str], *, follow: bool) -> None:
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


@contextmanager
def live_inputs(
    open_sources: Callable[[], Sequence[Input]], *, printing: bool
) -> Iterator[LiveInputs]:
    """Open inputs that signals stop. If rows are printed, they end with their reader."""
    from wirelake.columnar.scan.live import LiveInputs

    on_tick = _check_output if printing else _nothing
    with (
        closing(LiveInputs(open_sources(), on_tick=on_tick)) as inputs,
        stopped_by_signals(inputs.stop),
    ):
        yield inputs


def _check_output() -> None:
    """Raise BrokenPipeError if nobody reads standard output any more.

    Writing would find out, too, but only with the next row, which may never come.
    """
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    if any(events & (select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0)):
        raise BrokenPipeError


def _nothing() -> None:
    """Do nothing: a file is read by nobody."""


def report_problems(inputs: LiveInputs) -> int:
    """Return the exit code: 1 if the capture of an input is not complete, which is reported."""
    for name, problem in inputs.problems.items():
        print_notice(f"{'standard input' if name == STANDARD_INPUT else name}: {problem}")
    if inputs.problems and inputs.packets:
        print_notice("incomplete: the output covers only what was read before the error")
    return BAD_DATA if inputs.problems else 0
