"""Simulated traffic, with the truth about it: as captures, or live against a hub.

Captures, in the order of the data (read them in this order):

    scenes/       sessions that talk in virtual time; one module per protocol; `provider.py` is what
                  a protocol declares, and how another package adds one
    packets/      packets of a scene, and many instances of them
    truth/        what a reader must find
    faults.py     faults that are injected on purpose, and the rows that they cause
    plan.py       how a run is divided, and how one shard of it is generated
    simulate.py   a run, and the summary of its truth

Live clients, and the comparison of a lake with what they saw, are in `live/`.

**Templates and instances.** Sessions that talk for real manage some ten thousand messages a second.
So each scenario is played a few dozen times, and each of these templates is instantiated many
times. An instance has its own addresses, ports, sequence numbers and connection ids; its own ids of
clients, tokens, messages, notifications and tunnels; its own times and latencies; its own Randoms,
session ids and keys: encrypted frames are encrypted anew. All instances of a template share who
sends what in which order, lengths, bodies and contents, business commands and targets, the Seq of
magline, the PackId of relay links, the users' addresses in tunnels, and the ephemeral X25519 keys.

Names of protocols are in the modules of `scenes/` and `live/protocols/` alone. This package does
not import `lake` or `cli`.
"""

from __future__ import annotations

from .plan import STYLES, SimulateError, parse_size
from .scenes.provider import built_in, names
from .simulate import Summary, Target, simulate

__all__ = [
    "STYLES",
    "SimulateError",
    "Summary",
    "Target",
    "built_in",
    "names",
    "parse_size",
    "simulate",
]
