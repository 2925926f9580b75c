"""Makes the kernels of folds ready: `warm` loads them from the cache, or compiles them.

For processes that are forked later, such as Spark's workers: it starts no thread and opens no file.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from wirelake.records.cross_connection import CROSSING
from wirelake.records.rows import Closed, Opened

from .calls import expire_idle
from .fold import Fold
from .memory import Memory
from .tunnel_kernels import forget_tunnels
from .tunnels import TunnelFold

__all__ = ["warm"]


def warm() -> None:
    """Call every kernel of the folds, with next to nothing."""
    folded = Fold()
    for _ in folded.window([("connections", [Opened(0, 1), Closed(0, 1)]), ("waiting", {2: 0})]):
        pass
    Fold(state=[folded.save({})])
    for _ in folded.finish():
        pass
    tunnels = TunnelFold()
    closed = {"event": "closed", "ts_ns": 0, "rank": 4, "link": 1, "number": 0, "connection": 1}
    tunnels.feed([pa.RecordBatch.from_pylist([closed], schema=CROSSING["_tunnel_events"])])
    for _ in tunnels.finish():
        pass
    tables = Memory().tables()
    expire_idle(tables, 0)
    forget_tunnels(tables, tunnels.records(), np.empty(0, np.int32))
