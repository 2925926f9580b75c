"""Which protocol a connection speaks when no name, port or recording tells: its first bytes do.

The rules are those of `wirelake.capture.choice`. As long as nothing is decided the bytes of both
directions are kept from window to window, so each look sees them from the beginning; also those of
a direction that has ended.
"""

from __future__ import annotations

import numpy as np

from wirelake.capture.choice import Chooser
from wirelake.capture.conversation import WAITING_LIMIT
from wirelake.wire.protocol import Protocol

from .pieces import ARRIVAL, START
from .window import DIRECTIONS, Window

__all__ = ["sniff"]


def sniff(chooser: Chooser, window: Window, connection: int) -> tuple[bool, Protocol | None]:
    """Whether the protocol of a connection, known by its slot, is decided; and which it is."""
    runs = np.flatnonzero(window.run_stream >> 1 == connection)
    filled = runs[window.run_stop[runs] > window.run_start[runs]]
    if not len(filled):
        return False, None
    numbers = window.pieces.numbers
    places = np.searchsorted(numbers[START], window.run_start[filled], side="right") - 1
    first = int(filled[np.argmin(numbers[ARRIVAL, places])])
    stream = int(window.run_stream[first])
    sniffer = chooser.sniffer(DIRECTIONS[stream & 1])
    data = window.data[window.run_start[first] : window.run_stop[first]]
    sniffer.feed(data[: 1 << 16].tobytes())
    waiting = int((window.run_stop[runs] - window.run_start[runs]).sum())
    over = bool(np.isin(window.ended, [stream]).any() or (window.run_gap[runs] > 0).any())
    if not sniffer.decided and (over or waiting > WAITING_LIMIT):
        sniffer.end()
    return sniffer.decided, sniffer.chosen
