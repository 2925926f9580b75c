"""Layouts that several threads ask for at once are built once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from wirelake.wire import model
from wirelake.wire.declare import build
from wirelake.wire.types import U8, U32, Layout


class Inner(Layout):
    """Something to be found in the other."""

    number: U32 = 0
    """A number."""
    digit: U8 = 0
    """And a smaller one."""


class Outer(Layout):
    """A layout that nobody else builds."""

    first: Inner
    """One."""
    second: Inner
    """Two."""
    number: U32 = 0
    """A number."""


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient")
def test_threads_get_the_same_layout() -> None:
    found: list[model.Layout] = []
    begin = threading.Barrier(8)

    def ask() -> None:
        begin.wait()
        found.append(build(Outer))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [each is found[0] for each in found] == [True] * 8
