"""Live traffic: clients that talk to a running hub over TCP, with the truth about it.

    hub_address.py          the hub: its listeners, admin API and store
    journal.py              what clients did and saw
    connection.py           one client connection; what all clients of a run share
    population.py           what a protocol declares: its clients and their behaviour; subscribers
    calling.py              clients that call services, for most protocols
    protocols/              one module per protocol
    run.py                  a run
    truth.py, compare.py    what a reader of the recording must find, and whether it does

The truth is not decoded from anything: it is what clients did and saw. Only `protocols/` names
protocols.
"""

from __future__ import annotations

from ..plan import SimulateError
from .compare import Comparison, compare
from .hub_address import HubAddress
from .run import simulate_live
from .truth import LiveSummary, LiveTarget

__all__ = [
    "Comparison",
    "HubAddress",
    "LiveSummary",
    "LiveTarget",
    "SimulateError",
    "compare",
    "simulate_live",
]
