"""What messages come to, a window at a time: calls, connections, and what crosses connections.

`Fold` goes with a `CapturePipeline`, `TunnelFold` with what all folds tell about tunnels. The rules
are those of `docs/concepts/matching.md`; the reference are the engines of `wirelake.records`.
"""

from .fold import Fold
from .state import FoldState
from .tunnel_events import events_of_share
from .tunnels import TunnelFold, tunnel_hash
from .warm import warm

__all__ = ["Fold", "FoldState", "TunnelFold", "events_of_share", "tunnel_hash", "warm"]
