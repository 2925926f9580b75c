"""Traffic: a simulated population, as captures with the truth beside them.

    scene.py                  sessions in virtual time, with a tap beside the server
    phones, services, games,  who acts in scenes: comet, ESNP, tny with and without a gateway,
      devices                 magline
    mould.py, frames.py       a scene that was performed, read with the protocols' own codecs
    recorded.py, sniffed.py   its packets, as our recorder or tcpdump would have them: a plate
    casting.py, sealing.py    many casts of a plate
    press.py                  all packets of a shard in order of time, as files
    wounds.py, injuries.py    faults that are put in on purpose
    truth/                    what a reader must find
    shard.py, plan.py,        a run
      simulate.py

**Moulds and casts.** Sessions that talk for real manage some ten thousand messages a second. So a
scene of each kind is performed some dozen times, and each performance is cast many times. A cast
has its own addresses, ports, sequence numbers and connection ids, its own ids of clients, tokens,
messages, notifications and tunnels, its own times and latencies, its own Randoms, session ids and
keys; what is sealed is sealed anew. The same in all casts of a mould are who says what in which
order, the lengths, bodies and contents, business commands and targets, the Seq of magline, the
PackId of relay links, the users' addresses in tunnels, and the ephemeral X25519 keys.
"""

from __future__ import annotations

from .plan import (
    PROTOCOLS,
    STYLES,
    SimulateError,
    parse_size,
)
from .simulate import simulate
from .summary import Summary, Target

__all__ = ["PROTOCOLS", "STYLES", "SimulateError", "Summary", "Target", "parse_size", "simulate"]
