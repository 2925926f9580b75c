"""Signals end the demo once, and not while they are held."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from wirelake.cli.demo.processes import Interrupts, Stopped


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def _none_is_ignored() -> Iterator[None]:
    """Reset signals that the parent process ignores, as nohup does."""
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ignored = [each for each in ends if signal.getsignal(each) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (signal.SIGINT, 130, "Ctrl-C"),
        (signal.SIGTERM, 143, "SIGTERM"),
        (signal.SIGHUP, 129, "the end of the terminal"),
    ],
)
def test_the_first_signal_is_raised(number: int, code: int, words: str) -> None:
    before = signal.getsignal(number)
    with Interrupts(), pytest.raises(Stopped) as found:
        send(number)
    assert found.value.code == code
    assert str(found.value) == words
    assert signal.getsignal(number) is before


def test_the_second_one_is_not() -> None:
    with Interrupts():
        with pytest.raises(Stopped):
            send(signal.SIGINT)
        send(signal.SIGINT)
        send(signal.SIGTERM)


def test_deferred_signals_take_effect_at_the_end() -> None:
    done = []

    def work(interrupts: Interrupts) -> None:
        with interrupts.deferred():
            send(signal.SIGTERM)
            send(signal.SIGINT)
            done.append(True)

    with Interrupts() as interrupts, pytest.raises(Stopped) as found:
        work(interrupts)
    assert done
    assert found.value.code == 143


def test_after_hold_nothing_interrupts() -> None:
    with Interrupts() as interrupts:
        interrupts.defer()
        with interrupts.deferred():
            send(signal.SIGINT)


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts():
            send(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
