"""A population that performs live: over TCP, against a hub that runs, with the truth beside it.

    stage.py                     where: a hub, its doors, its HTTP side, its clients
    line.py, ledger.py           a client's end of a connection; what clients did and saw
    phones.py, askers.py,        who comes: comet; ESNP, tny and magline; tunnels of a gateway;
      gateway.py, broken.py      those who send what no rule allows
    callers.py, rounds.py,       what they do, so that each knows what must be recorded
      listeners.py, population.py
    performance.py, perform.py   a run
    truth.py, compare.py         what a reader of the recording must find, and whether it did

The truth is not decoded from anything: it is what clients did and saw.
"""

from __future__ import annotations

from ..plan import SimulateError
from .compare import Comparison, compare
from .hub_address import Stage
from .run import perform
from .truth import LiveSummary, LiveTarget

__all__ = [
    "Comparison",
    "LiveSummary",
    "LiveTarget",
    "SimulateError",
    "Stage",
    "compare",
    "perform",
]
